"""Options for the format of a file, its clock, and how numbers become states."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import pufferkit as pk
from pufferkit.cli import terminal
from pufferkit.cli.flags import File, Text, option

if TYPE_CHECKING:
    from pufferkit import Bins, TextFormat


Dates = Literal["day-first", "month-first"]
"""Which part of a date like 03/04/2024 is the day."""

Header = Literal["yes", "no"]
"""Whether the first line names the columns."""

RepeatedHour = Literal["refuse", "shift", "keep-first"]
"""How to treat the hour that occurs twice when clocks go back."""


def duration(text: str | None) -> Any:
    """A duration as text, or a number for tables whose times are numbers."""
    from pufferkit.data.durations import number_or_text  # noqa: PLC0415

    return None if text is None else number_or_text(text)


def time_of(text: str | None) -> str | tuple[str, ...] | None:
    """The column of times, or the columns of dates and times, separated by a comma."""
    if text is None or "," not in text:
        return text
    return tuple(part.strip() for part in text.split(","))


def cut_points(text: str) -> list[float]:
    """Numbers separated by commas."""
    points = []
    for cut in text.split(","):
        try:
            points.append(terminal.number(cut.strip()))
        except typer.BadParameter:
            raise ValueError(f"--cuts: {cut!r} is not a number") from None
    return points


@dataclass(frozen=True)
class Form:
    """Facts that a file does not state, or that must not be guessed."""

    cuts: Annotated[Text, option("Turn numbers into states, cut here.", "100,760")] = None
    levels: Annotated[
        Text, option("Turn numbers into states: levels of this width up to a top.", "200W:2kW")
    ] = None
    unit: Annotated[Text, option("Unit of the numbers, for levels and labels.", "kW")] = None
    labels: Annotated[
        File, option("Turn numbers into states: a CSV with columns from,label.", "FILE")
    ] = None
    every: Annotated[
        Text, option("Put entries on a grid; without --time, the time between rows.", "5m")
    ] = None
    begins: Annotated[Text, option("Without --time: time of the first row.", "TIME")] = None
    timezone: Annotated[Text, option("Days and weeks begin at midnight there.", "Europe/Paris")] = (
        None
    )
    times_in: Annotated[
        Text, option("Time zone of times without one. Default: --timezone.", "UTC")
    ] = None
    repeated_hour: Annotated[
        RepeatedHour, option("How to treat the hour that occurs twice when clocks go back.")
    ] = "refuse"
    separator: Annotated[Text, option("Cell separator. Default: detected.", ";")] = None
    header: Annotated[
        Header | None, option("Whether line 1 names the columns. Default: detected.")
    ] = None
    decimal: Annotated[Text, option("Decimal sign. Default: detected.", ",")] = None
    dates: Annotated[Dates | None, option("Order of dates like 03/04/2024. Default: detected.")] = (
        None
    )
    missing: Annotated[Text, option("Cell values that mean not observed.", "off,-1")] = None

    @property
    def text(self) -> TextFormat | None:
        """The format of the file, as far as it was given."""
        options: dict[str, Any] = {
            "separator": self.separator,
            "header": None if self.header is None else self.header == "yes",
            "decimal": self.decimal,
            "dates": None if self.dates is None else self.dates.replace("-", " "),
            "missing": () if self.missing is None else tuple(self.missing.split(",")),
        }
        if not any(value is not None and value != () for value in options.values()):
            return None
        try:
            return pk.TextFormat(**options)
        except ValueError as error:
            raise ValueError(f"--{error}") from None

    @property
    def clock(self) -> dict[str, Any]:
        """The clock of the times, for the readers."""
        return {
            "timezone": self.timezone,
            "times_in": self.times_in,
            "repeated_hour": self.repeated_hour.replace("-", " "),
        }

    @property
    def cuts_numbers(self) -> bool:
        """Whether an option defines how numbers become states."""
        return any(option is not None for option in (self.cuts, self.levels, self.labels))

    def bins(
        self, file: Path | Sequence[Path], state: str, states: Sequence[Hashable] | None
    ) -> Bins | None:
        """The levels given by options; else those of the model, if the column holds numbers."""
        given = {"--cuts": self.cuts, "--levels": self.levels, "--labels": self.labels}
        said = [option for option, value in given.items() if value is not None]
        if len(said) > 1:
            raise ValueError(f"{said[1]}: {said[0]} already cuts the numbers; give only one")
        try:
            if self.cuts is not None:
                return pk.Bins(cut_points(self.cuts), unit=self.unit or "")
            if self.levels is not None:
                return pk.Bins.levels(self.levels, unit=self.unit or "")
            if self.labels is not None:
                return pk.Bins.from_file(self.labels)
        except ValueError as error:
            text = str(error)
            raise ValueError(text if text.startswith("--") else f"--{text}") from None
        if self.unit is not None:
            raise ValueError("--unit: needs --cuts or --levels")
        implied = None if states is None else pk.Bins.of_names(states)
        if implied is None:
            return None
        from pufferkit.data.files import first_cell  # noqa: PLC0415

        cell = first_cell(file, state, self.text)
        try:
            float(str(cell).strip().replace(",", "."))
        except ValueError:
            return None
        cuts = ", ".join(f"{cut:g}" for cut in implied.cuts)
        terminal.note(f"{state} was cut at {cuts}, like the states of the model")
        return implied
