"""The question, as options: one for each argument of the questions (`pufferkit.data.queries`)."""

from __future__ import annotations

import csv
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, make_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

import pufferkit as pk
from pufferkit.cli import terminal
from pufferkit.cli.flags import File, Text, option, real, whole
from pufferkit.cli.inputs import duration
from pufferkit.data import queries
from pufferkit.data.query import NAMES, Question, question
from pufferkit.records import read_text

MIDDLES = "middles"

_METAVARS = {
    "states": "NAME",
    "values": '"A=1,B=2.5"',
    "weights": "FILE",
    "range": "0,10",
    "time": "30m",
    "hours": "00:00-12:00",
}
"""What help shows for an argument of each form, if it is text."""

QueryOption = Annotated[str, option(f"The question: {', '.join(NAMES)}.", "NAME", "--query")]


def arguments(name: str) -> Iterator[Field[Any]]:
    """The arguments of a question that are options."""
    known = NAMES.get(name)
    fixed = {} if known is None else known.names[name].fixed
    for own in () if known is None else fields(known):
        if "option" in own.metadata and own.name not in fixed:
            yield own


def taken_by(argument: str) -> list[str]:
    """The questions that take an option."""
    return [
        name for name in NAMES if any(own.metadata["option"] == argument for own in arguments(name))
    ]


def unneeded(argument: str) -> ValueError:
    """The error for an option that the question does not take."""
    return ValueError(f"{_spelled(argument)}: only for --query {', '.join(taken_by(argument))}")


@dataclass(frozen=True)
class _Asking:
    """The question, as options."""

    section: ClassVar[str] = "Question"

    query: QueryOption = "histogram"

    @property
    def replaced(self) -> bool:
        """Whether the answer is derived from the released numbers, which are not shown."""
        return self.query in NAMES and NAMES[self.query].replaced

    def window(self, given: Any) -> Any:
        """The default windows of a table for this question: slots of time are windows."""
        by = NAMES[self.query].names[self.query].fixed.get("by") if self.query in NAMES else None
        cut = {"day": "1d", "week": "7d"}.get(str(by), None if by is None else "hour of week")
        return cut if given is None else given

    def of_many(self, states: Sequence[Hashable]) -> Question:
        """The question for runs over many subjects, where days and weeks are windows."""
        named = self.named(states)
        days = isinstance(named, queries.ByTime) and named.recurring is None
        return queries.Histogram() if days else named

    def named(self, states: Sequence[Hashable], *, announced: bool = True) -> Question:
        """The question by its name; with ``announced`` the values taken are printed."""
        name = self.query
        if name not in NAMES:
            raise ValueError(f"--query: must be one of {', '.join(NAMES)}, got {name!r}")
        taken = {own.metadata["option"]: own for own in arguments(name)}
        for own in fields(self):
            spoken = own.name != "query" and getattr(self, own.name) is not None
            if spoken and own.name not in taken:
                raise unneeded(own.name)
        given: dict[str, Any] = {}
        for argument, own in taken.items():
            text = getattr(self, argument, None)
            if text is not None:
                given |= _read(own, text, states, announced)
            elif own.default is MISSING:
                needed = "a number for each state, like a=1,b=2.5, is needed"
                needed = needed if own.metadata["form"] == "values" else "needed"
                raise ValueError(f"{_spelled(argument)}: {needed} for --query {name}")
        try:
            return question(name, **given)
        except ValueError as error:
            raise ValueError(_as_options(str(error), taken)) from None


def _read(
    own: Field[Any], text: Any, states: Sequence[Hashable], announced: bool
) -> dict[str, Any]:
    """The argument, read from the text of its option."""
    form = own.metadata["form"]
    if form == "weights":
        labels, rows = _weights(Path(text), states)
        return {own.name: rows, "labelled": labels}
    if form == "states":
        return {own.name: _states(text, states)}
    if form == "values":
        read = _middles(states, announced) if text == MIDDLES else _values(text, states)
        return {own.name: read}
    if form == "range":
        return {own.name: _range(text)}
    return {own.name: duration(text) if form == "time" else text}


def _range(text: str) -> tuple[float, float]:
    """A declared range."""
    low, _, high = text.partition(",")
    try:
        return terminal.number(low.strip()), terminal.number(high.strip())
    except typer.BadParameter:
        raise ValueError(f"--clip: must be two numbers like 0,10, got {text!r}") from None


def _option(own: Field[Any]) -> Any:
    """An argument of a question as an option of a command."""
    form, words = own.metadata["form"], own.metadata["words"]
    if form == "share":
        return Annotated[float | None, real(words)]
    if form == "whole":
        return Annotated[int | None, whole(words, "N")]
    kind = {"weights": File}.get(form, Text)
    return Annotated[kind, option(words, _METAVARS[form])]


OPTIONS = {own.metadata["option"]: own for name in NAMES for own in arguments(name)}
"""Every argument of every question, by its option."""


if TYPE_CHECKING:

    class QuestionOptions(_Asking):
        """The question, as options."""

else:
    made = [(name, _option(own), field(default=None)) for name, own in OPTIONS.items()]
    QuestionOptions = make_dataclass("QuestionOptions", made, bases=(_Asking,), frozen=True)


def _spelled(argument: str) -> str:
    return f"--{argument.replace('_', '-')}"


def _as_options(text: str, taken: Mapping[str, Field[Any]]) -> str:
    """An error of a question, with the option in place of the argument."""
    argument, _, rule = text.partition(":")
    known = {own.name: name for name, own in taken.items()}
    return f"{_spelled(known[argument])}:{rule}" if argument in known else text


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
        label = state_of("--weights", row[0].strip(), states)
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
    return tuple(state_of("--state-value", name, states) for name in names)


def state_of(option: str, name: str, states: Sequence[Hashable]) -> Hashable:
    """The state of this name."""
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
        label = state_of("--values", name.strip(), states)
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
