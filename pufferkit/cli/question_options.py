"""The question, as options."""

from __future__ import annotations

import csv
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import pufferkit as pk
from pufferkit.cli import terminal
from pufferkit.cli.flags import File, Text, option, real, whole
from pufferkit.cli.format_options import duration
from pufferkit.data.question_names import OF_DAYS, OF_STATES, OF_VALUES
from pufferkit.records import read_text

if TYPE_CHECKING:
    from pufferkit import Query, Series

MIDDLES = "middles"


class QueryName(StrEnum):
    """The questions."""

    HISTOGRAM = "histogram"
    FREQUENCIES = "frequencies"
    TOP_STATES = "top-states"
    COUNT = "count"
    TOTAL = "total"
    MEAN = "mean"
    VARIANCE = "variance"
    QUANTILE = "quantile"
    CUMULATIVE = "cumulative"
    PEAK = "peak"
    LOAD_DURATION = "load-duration"
    LINEAR = "linear"
    TRANSITIONS = "transitions"
    BY_HOUR = "by-hour"
    BY_WEEKDAY_HOUR = "by-weekday-hour"
    BY_DAY = "by-day"
    BY_WEEK = "by-week"
    EPISODES = "episodes"
    STAYS = "stays"
    TIME_IN = "time-in"
    DAYS_WITH = "days-with"
    SHARE_OF_DAYS = "share-of-days"


CUT = {
    QueryName.BY_HOUR: "hour of week",
    QueryName.BY_WEEKDAY_HOUR: "hour of week",
    QueryName.BY_DAY: "1d",
    QueryName.BY_WEEK: "7d",
}
"""Windows of a table of many subjects for questions by time."""


QueryOption = Annotated[
    QueryName, option(f"The question: {', '.join(QueryName)}.", "NAME", "--query")
]


Values = Annotated[
    Text,
    option(
        "Value of each state, for questions about numbers; middles: midpoints of levels.",
        '"A=1,B=2.5"',
    ),
]
AtLeast = Annotated[Text, option("For days-with and share-of-days: time per day.", "30m")]
Between = Annotated[Text, option("For time-in: the hours.", "00:00-12:00")]
Clip = Annotated[Text, option("For total, mean and variance: range to clip values to.", "0,10")]
At = Annotated[float | None, real("For quantile: share of entries below it; 0.5 is the median.")]
Top = Annotated[int | None, whole("For top-states: how many.", "N")]
Weights = Annotated[File, option("For linear: CSV of what each state adds.", "FILE")]


@dataclass(frozen=True)
class QuestionOptions:
    """The question, as options."""

    query: QueryOption = QueryName.HISTOGRAM
    state_value: Annotated[Text, option("State of the question; several as A,B.", "NAME")] = None
    values: Values = None
    at_least: AtLeast = None
    between: Between = None
    clip: Clip = None
    at: At = None
    top: Top = None
    weights: Weights = None

    def over(self, states: Sequence[Hashable], lengths: Sequence[int] | Series) -> Query:
        """The query over the states of the model."""
        return self.named(states).over(states, lengths)

    @property
    def range(self) -> tuple[float, float] | None:
        """The declared range that values are clipped to, if any."""
        if self.clip is None:
            return None
        low, _, high = self.clip.partition(",")
        try:
            return terminal.number(low.strip()), terminal.number(high.strip())
        except typer.BadParameter:
            raise ValueError(f"--clip: must be two numbers like 0,10, got {self.clip!r}") from None

    def window(self, given: Any) -> Any:
        """The default windows of a table for this question."""
        return CUT.get(self.query) if given is None else given

    def of_many(self, states: Sequence[Hashable]) -> Any:
        """The question for runs over many subjects, where days and weeks are windows."""
        named = self.named(states)
        if self.query in (QueryName.HISTOGRAM, QueryName.BY_DAY, QueryName.BY_WEEK):
            return QueryName.HISTOGRAM.value
        return self.query.value if self.query is QueryName.FREQUENCIES else named

    def _check_options(self) -> None:
        """Raise unless exactly the options of the question are given."""
        name = self.query.value
        for argument, needed_by in _NEEDED.items():
            given, asked = getattr(self, argument) is not None, name in needed_by
            if asked and not given:
                raise ValueError(f"{_spelled(argument)}: {_LIKE[argument]} for --query {name}")
            if given and name not in taken_by(argument):
                raise unneeded(argument)

    def named(self, states: Sequence[Hashable], *, announced: bool = True) -> pk.Question:
        """The question by its name; with ``announced`` the values taken are printed."""
        start, dash, end = (self.between or "00:00-12:00").partition("-")
        if not dash:
            raise ValueError(f"--between: must be hours like 22:00-06:00, got {self.between!r}")
        self._check_options()
        labels: tuple[str, ...] | None = None
        values: dict[Hashable, Any] | None = None
        if self.weights is not None:
            labels, values = _weights(self.weights, states)
        elif self.values is not None:
            middles = self.values == MIDDLES
            values = _middles(states, announced) if middles else _values(self.values, states)
        try:
            return pk.Question(
                self.query.value,
                () if self.state_value is None else _states(self.state_value, states),
                None if self.at_least is None else duration(self.at_least),
                start.strip(),
                end.strip(),
                values,
                self.range,
                self.at,
                self.top,
                labels,
            )
        except ValueError as error:
            raise ValueError(_as_options(str(error))) from None


_NEEDED = {
    "state_value": OF_STATES,
    "at_least": OF_DAYS,
    "at": ("quantile",),
    "top": ("top-states",),
    "clip": ("variance",),
    "values": tuple(name for name in OF_VALUES if name not in ("linear", "cumulative")),
    "weights": ("linear",),
    "between": (),
}
"""Options that questions require."""

_LIKE = {
    **dict.fromkeys(_NEEDED, "needed"),
    "values": "a number for each state, like a=1,b=2.5, is needed",
    "clip": "two numbers like 0,10 are needed",
}
"""Messages for missing options."""

_ALLOWED = {"clip": ("total", "mean"), "values": ("cumulative",), "between": ("time-in",)}
"""Options that questions may have."""

_OPTIONS = {"of": "--state-value", "share": "--at"}
"""Arguments whose option has another name."""


def taken_by(argument: str) -> tuple[str, ...]:
    """The questions that need an option, and those that may have it."""
    return (*_NEEDED[argument], *_ALLOWED.get(argument, ()))


def unneeded(argument: str) -> ValueError:
    """The error for an option that the question does not take."""
    return ValueError(f"{_spelled(argument)}: only for --query {', '.join(taken_by(argument))}")


def _spelled(argument: str) -> str:
    return _OPTIONS.get(argument, f"--{argument.replace('_', '-')}")


def _as_options(text: str) -> str:
    """An error of a question, with the option in place of the argument."""
    argument, _, rule = text.partition(":")
    known = argument in _OPTIONS or argument in _NEEDED
    return f"{_spelled(argument)}:{rule}" if known else text


def _weights(
    path: Path, states: Sequence[Hashable]
) -> tuple[tuple[str, ...], dict[Hashable, list[float]]]:
    """Names of the numbers, and the contribution of each state to them, from a file."""
    header, *rows = [row for row in csv.reader(read_text(path)) if row] or [[]]
    if len(header) < 2 or not rows:
        raise ValueError(
            f"--weights: {path} needs a header with the names of the numbers, like state,kcal, and "
            "one line for each state, like walk,3.5"
        )
    weights: dict[Hashable, list[float]] = {}
    for row in rows:
        label = _state("--weights", row[0].strip(), states)
        if len(row) != len(header) or label in weights:
            raise ValueError(f"--weights: {path}: {row[0]!r} occurs twice, or its row is short")
        try:
            weights[label] = [terminal.number(cell.strip()) for cell in row[1:]]
        except typer.BadParameter:
            raise ValueError(
                f"--weights: {path}: {row[0]!r} has a cell that is not a number"
            ) from None
    return tuple(name.strip() for name in header[1:]), weights


def _states(text: str, states: Sequence[Hashable]) -> tuple[Hashable, ...]:
    """One state, or several separated by commas."""
    names = [text] if text in map(str, states) else [part.strip() for part in text.split(",")]
    return tuple(_state("--state-value", name, states) for name in names)


def _state(option: str, name: str, states: Sequence[Hashable]) -> Hashable:
    for label in states:
        if str(label) == name:
            return label
    known = ", ".join(str(label) for label in states)
    raise ValueError(f"{option}: {name!r} is not a state of the model; it has {known}")


def _middles(states: Sequence[Hashable], announced: bool) -> dict[Hashable, float]:
    """The midpoint of each level, by the labels of the states."""
    bins = pk.Bins.of_names(states)
    if bins is None:
        raise ValueError("--values middles: the states of the model are not levels of numbers")
    try:
        middles = dict(zip(states, bins.middles, strict=True))
    except ValueError as error:
        raise ValueError(f"--values middles: {error}") from None
    if announced:
        listed = ", ".join(f"{state}={value:g}" for state, value in middles.items())
        terminal.note(f"values: {listed}")
    return middles


def _values(text: str, states: Sequence[Hashable]) -> dict[Hashable, float]:
    values: dict[Hashable, float] = {}
    for part in text.split(","):
        name, equals, number = part.rpartition("=")
        if not equals:
            raise ValueError(f"--values: must have the form state=number, got {part!r}")
        label = _state("--values", name.strip(), states)
        if label in values:
            raise ValueError(f"--values: {name.strip()!r} is given twice")
        try:
            values[label] = terminal.number(number.strip())
        except typer.BadParameter:
            raise ValueError(f"--values: {number!r} is not a number, in {part!r}") from None
    missing = [str(label) for label in states if label not in values]
    if missing:
        raise ValueError(f"--values: no value for {', '.join(missing)}; give 0 for no contribution")
    return values
