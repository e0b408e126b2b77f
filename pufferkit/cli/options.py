"""Groups of options shared by commands: frozen dataclasses, one field for each option."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, is_dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

import pufferkit as pk
from pufferkit.cli import inputs, terminal
from pufferkit.cli.flags import File, Text, option, real
from pufferkit.cli.format_options import Form
from pufferkit.cli.question_options import QuestionOptions
from pufferkit.cli.usefulness_output import Anyway
from pufferkit.data.query import NAMES

if TYPE_CHECKING:
    from pufferkit import Calibration, Query
    from pufferkit.beliefs.base import Beliefs

MaxGap = Annotated[
    str | None,
    typer.Option("--max-gap", hidden=True, help="Old name of --independent-after, for tables."),
]


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command as typer sees it: an argument that is a dataclass becomes its fields."""

    @wraps(command)
    def spelled_out(**given: Any) -> None:
        command(**_grouped(command, given))

    spelled_out.__signature__ = inspect.Signature(list(_options_of(command)))  # type: ignore[attr-defined]
    return spelled_out


def _arguments(made: Callable[..., Any]) -> Iterator[tuple[inspect.Parameter, Any, bool]]:
    """The arguments of a command or of a group, with their types; whether each is a group."""
    hints = get_type_hints(made, include_extras=True)
    for name, parameter in inspect.signature(made).parameters.items():
        yield parameter, hints[name], is_dataclass(hints[name])


def _options_of(made: Callable[..., Any]) -> Iterator[inspect.Parameter]:
    for parameter, hint, group in _arguments(made):
        if group:
            yield from _options_of(hint)
        else:
            yield parameter.replace(kind=parameter.KEYWORD_ONLY, annotation=hint)


def _grouped(made: Callable[..., Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a command or of a group, from the values of all options."""
    return {
        parameter.name: hint(**_grouped(hint, given)) if group else given[parameter.name]
        for parameter, hint, group in _arguments(made)
    }


@dataclass(frozen=True)
class Noise:
    """The promise: beliefs, epsilon and mechanism."""

    model: inputs.Model
    epsilon: inputs.Epsilon
    mechanism: Annotated[
        Text, option("A name from the plan. Default: least Pufferfish noise.", "NAME")
    ] = None
    as_drawn: Annotated[
        bool, option("Keep noisy histograms, not the nearest valid ones.", None, "--as-drawn")
    ] = False

    @property
    def known_mechanism(self) -> str | None:
        """The mechanism as spelled in the plan; ``None`` for the one with the least noise."""
        return known_mechanism(self.mechanism)


@dataclass(frozen=True)
class Reading:
    """How a file is read: row by row, or as a table with times."""

    state: inputs.State
    time: inputs.Time = None
    window: Annotated[
        Text, option("A row for each window; or a period, 2026-09; or FROM,TO.", "7d|PERIOD")
    ] = None
    independent_after: inputs.IndependentAfter = None
    max_gap: MaxGap = None

    @property
    def period(self) -> Any:
        """The window as `release` takes it, if it is a period or has two ends; else ``None``."""
        if self.window is None or not re.search(r"\d{4}-|,", self.window):
            return None
        ends = [part.strip() for part in self.window.split(",")]
        if len(ends) > 2:
            raise ValueError(f"--window: has two ends, FROM,TO, got {self.window!r}")
        if len(ends) == 2 and all(end.isdecimal() for end in ends):
            return int(ends[0]), int(ends[1])
        return ends[0] if len(ends) == 1 else (ends[0], ends[1])

    @property
    def after(self) -> str | None:
        """The time after which rows are declared independent, from either option."""
        if self.max_gap is not None and self.independent_after is not None:
            raise ValueError("--max-gap: is the old name of --independent-after; give only one")
        return self.max_gap or self.independent_after


@dataclass(frozen=True)
class Output:
    """Destination and format of an answer."""

    out: Annotated[File, option("Write here instead of stdout (-).", "FILE")] = None
    plot: inputs.Plot = None
    anyway: Anyway = False
    as_json: inputs.AsJson = False

    @property
    def file(self) -> Path | None:
        """The file given; ``None`` for stdout."""
        return None if str(self.out) == "-" else self.out


@dataclass(frozen=True)
class Book:
    """The ledger to charge; ``ledger`` is ``None`` if there is none."""

    ledger: Annotated[Text, option("Charge an account in this ledger.", "FILE|URL")] = None
    budget: Annotated[float | None, real("With --ledger: total epsilon of the account.")] = None
    label: Annotated[str, option("With --ledger: distinguishes equal releases.")] = ""
    anchor: Annotated[
        Text, option("With --ledger: head kept outside, checked and advanced.", "FILE")
    ] = None
    anchor_key: Annotated[Text, option("Key of the anchor, if any.", "FILE")] = None
    ledger_key: Annotated[
        Text, option("Key to recognise data. Default: beside the ledger.", "FILE")
    ] = None
    data_meant: Annotated[
        bool,
        option("Confirm data known under another account, or changed.", None, "--data-meant"),
    ] = False

    def check(self, account: str | None, *, needs_account: bool) -> None:
        """Raise unless a ledger comes with a budget, and with an account where one is needed."""
        kept = self.ledger is not None
        if needs_account and not kept == (self.budget is not None) == (account is not None):
            raise ValueError("--ledger, --budget and --account: must be given together")
        if kept != (self.budget is not None):
            raise ValueError("--ledger and --budget: must be given together")
        if account is not None and not kept:
            raise ValueError("--account: is a prefix of account names in a ledger; give --ledger")

    @contextmanager
    def opened(self) -> Iterator[pk.Ledger | None]:
        """The ledger, closed afterwards."""
        if self.ledger is None:
            for option, value in {
                "--anchor": self.anchor,
                "--anchor-key": self.anchor_key,
                "--ledger-key": self.ledger_key,
                "--data-meant": self.data_meant or None,
                "--label": self.label or None,
            }.items():
                if value is not None:
                    raise ValueError(f"{option}: needs a ledger; give --ledger")
            yield None
            return
        with pk.Ledger(
            self.ledger, key=self.ledger_key, anchor=self.anchor, anchor_key=self.anchor_key
        ) as ledger:
            if not ledger.recognises_data:
                terminal.note(
                    "without a key (--ledger-key, or PUFFERKIT_LEDGER_KEY) the same data "
                    "under two names are not detected"
                )
            yield ledger


@dataclass(frozen=True)
class ReleaseOptions:
    """The options that release and release-each share."""

    noise: Noise
    question: QuestionOptions
    reading: Reading
    form: Form
    book: Book
    output: Output

    def check(self) -> None:
        """Raise if an option would be ignored."""
        name = self.question.query
        known = NAMES.get(name)
        if self.noise.as_drawn and known is not None and not (known.binned or known.chooses):
            raise ValueError(f"--as-drawn: applies to histograms; a {name} is always as drawn")


@dataclass(frozen=True)
class Kept:
    """The ledger of a command that requires one."""

    ledger: Annotated[str, option("Ledger that holds the account.", "FILE|URL")]
    anchor: Annotated[Text, option("Head kept outside, checked and advanced.", "FILE")] = None
    anchor_key: Annotated[Text, option("Key of the anchor, if any.", "FILE")] = None
    by: Annotated[Text, option("Name to record. Default: user and host.")] = None

    def opened(self) -> pk.Ledger:
        """The ledger; the caller must close it."""
        return pk.Ledger(self.ledger, by=self.by, anchor=self.anchor, anchor_key=self.anchor_key)


def known_mechanism(mechanism: str | None) -> str | None:
    """A mechanism as spelled in the plan; hyphens are accepted."""
    if mechanism is None:
        return None
    from pufferkit.mechanisms.plan import MECHANISMS  # noqa: PLC0415

    name = mechanism.replace("-", "_")
    if name not in MECHANISMS:
        listed = ", ".join(MECHANISMS)
        raise ValueError(f"--mechanism: {mechanism!r} is unknown; known are {listed}")
    return name


def calibrated(
    mechanism: str | None, beliefs: Beliefs, query: Query, epsilon: float
) -> Calibration:
    """The mechanism of this name, or the one with the least noise that hides entries."""
    from pufferkit.mechanisms.plan import calibrate  # noqa: PLC0415

    with terminal.progress() as progress:
        if mechanism is None:
            return pk.plan(beliefs, query, epsilon, progress=progress).best
        return calibrate(mechanism, beliefs, query, epsilon, progress)
