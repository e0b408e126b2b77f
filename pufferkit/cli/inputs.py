"""Options that several commands share, and the objects they stand for."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import pufferkit as pk
from pufferkit.cli import outputs, terminal
from pufferkit.cli.flags import File, Text, option, real, whole
from pufferkit.cli.form import Form, duration, time_of

if TYPE_CHECKING:
    from pufferkit import ChainClass, Query, Series
    from pufferkit.beliefs.protocol import Beliefs


MIDDLES = "middles"


class QueryName(StrEnum):
    """What can be asked."""

    HISTOGRAM = "histogram"
    FREQUENCIES = "frequencies"
    COUNT = "count"
    TOTAL = "total"
    MEAN = "mean"
    VARIANCE = "variance"
    QUANTILE = "quantile"
    CUMULATIVE = "cumulative"
    PEAK = "peak"
    LOAD_DURATION = "load-duration"
    TRANSITIONS = "transitions"
    BY_HOUR = "by-hour"
    BY_WEEKDAY_HOUR = "by-weekday-hour"
    BY_DAY = "by-day"
    BY_WEEK = "by-week"
    EPISODES = "episodes"
    STAYS = "stays"
    TIME_IN = "time-in"
    DAYS_WITH = "days-with"


OF_STATES = (QueryName.EPISODES, QueryName.STAYS, QueryName.TIME_IN, QueryName.DAYS_WITH)
"""Questions about some states."""

OF_LEVELS = (QueryName.QUANTILE, QueryName.PEAK, QueryName.LOAD_DURATION)
"""Questions about states with values in an order."""

CLIPPED = (QueryName.TOTAL, QueryName.MEAN, QueryName.VARIANCE)
"""Questions about values that are clipped to a range."""

FOLLOWS = (*OF_LEVELS, QueryName.CUMULATIVE, QueryName.VARIANCE)
"""Questions whose answer follows from what is released."""

CUT = {
    QueryName.BY_HOUR: "hour of week",
    QueryName.BY_WEEKDAY_HOUR: "hour of week",
    QueryName.BY_DAY: "1d",
    QueryName.BY_WEEK: "7d",
}
"""How a table of many subjects is cut for questions by time."""


Model = Annotated[Path, option("Beliefs: a JSON file, see 'model'; - is stdin.", None, "--model")]
Epsilon = Annotated[float, real("Privacy; smaller hides more.", "X", "--epsilon")]
QueryOption = Annotated[
    QueryName, option(f"What is asked: {', '.join(QueryName)}.", "NAME", "--query")
]
State = Annotated[str, option("Column with the states.", "COL", "--state")]
MaybeState = Annotated[Text, option("Column with the states.", "COL", "--state")]
Time = Annotated[
    Text, option("Column with times; or two, of dates and times: DATE,TIME.", "COL", "--time")
]
Segment = Annotated[Text, option("Column that names independent segments.", "COL", "--segment")]
IndependentAfter = Annotated[
    Text,
    option(
        "Declare rows further apart than this independent; the release says so.",
        "3h",
        "--independent-after",
    ),
]
Length = Annotated[
    list[int] | None, whole("Entries in the series; once a segment.", "N", "--length")
]
Data = Annotated[File, option("Take the lengths from this file.", "FILE", "--data")]
AsJson = Annotated[bool, option("Print JSON.", None, "--json")]
Plot = Annotated[File, option("Draw to a .png, .svg or .pdf file.", "FILE", "--plot")]


def text_of(path: Path) -> str:
    """What a file of text holds, or standard input for ``-``."""
    if str(path) == outputs.STREAM:
        return sys.stdin.read()
    return path.read_text(encoding="utf-8")


def read_model(path: Path) -> Beliefs:
    """The beliefs in a JSON file: chains, networks or joint distributions; networks also as BIF."""
    from pufferkit.beliefs.protocol import as_beliefs, beliefs_from_json  # noqa: PLC0415

    try:
        if path.suffix.lower() == ".bif":
            return as_beliefs(pk.BayesianNetwork.from_bif(path))
        model = beliefs_from_json(text_of(path))
    except UnicodeDecodeError:
        raise ValueError(f"{path}: is not a JSON file") from None
    except (TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path}: model: has a field of the wrong type ({error})") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    if model.is_private:
        terminal.warn(f"{path} was fitted to private data; the model itself gives them away")
    return model


def lengths_of(beliefs: Beliefs) -> list[int]:
    """How many entries beliefs about named entries have; none for chains."""
    return [] if beliefs.entries is None else [len(beliefs.entries)]


def chains(path: Path) -> ChainClass:
    """The beliefs in a file, which must be chains."""
    beliefs = read_model(path)
    if not isinstance(beliefs, pk.ChainClass):
        raise ValueError(f"{path}: this command is about Markov chains, not {beliefs.description}")
    return beliefs


def read_data(
    path: Path,
    state: str | None,
    time: str | None,
    segment: str | None,
    states: Sequence[Hashable] | None,
    entry: str | None = None,
    beliefs: Beliefs | None = None,
    independent_after: str | None = None,
    form: Form | None = None,
) -> Series:
    """The series in a file; with named entries, in the order of the beliefs."""
    from pufferkit.frames import check_parquet, read_record, read_series  # noqa: PLC0415

    form = form or Form()
    if state is None:
        raise ValueError("--state: name the column of the file that holds the states")
    check_parquet(path)
    if beliefs is not None and lengths_of(beliefs):
        if independent_after is not None:
            raise ValueError("--independent-after: is for chains; named entries have no clock")
        if entry is None:
            raise ValueError("--entry: name the column that says which entry a row is about")
        return read_record(path, entry, state, beliefs.entries or (), states)
    if entry is not None:
        raise ValueError(
            "--entry: only for networks and joint distributions; chains are ordered by rows"
        )
    if form.begins is not None:
        raise ValueError("--begins: is for windows of rows without times; give --window too")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        series = read_series(
            path,
            state,
            time=time_of(time),
            segment=segment,
            states=states,
            independent_after=duration(independent_after),
            bins=form.bins(path, state, states),
            every=None if time is None else duration(form.every),
            text=form.text,
            **form.clock,
        )
    for warning in caught:
        terminal.warn(str(warning.message))
    read_as(series.read_as)
    if series.missing:
        terminal.note(
            f"{series.missing:,} of {len(series):,} entries were not observed; the series "
            "goes on behind them"
        )
    return series


def files_of(files: Sequence[Path]) -> list[Path]:
    """The files that paths and patterns name."""
    from pufferkit.frames.raw import files_of as named  # noqa: PLC0415

    return named(list(files))


def read_as(notes: Sequence[str]) -> None:
    """Say what was sniffed or assumed about a file."""
    if notes:
        terminal.note(f"read as: {'; '.join(notes)}")


NO_SIZE = "give the size of the series: either --length N or --data FILE --state COL"


@dataclass(frozen=True)
class Size:
    """How many entries there are: said, or as a file has them."""

    length: Length = None
    data: Data = None
    state: MaybeState = None
    time: Time = None
    segment: Segment = None
    independent_after: IndependentAfter = None

    def of(self, beliefs: Beliefs, form: Form) -> Sequence[int] | Series:
        """The lengths that were given, those of the beliefs, or the series in the file."""
        if self.length and self.data is not None:
            raise ValueError(NO_SIZE)
        if self.data is not None:
            return read_data(
                self.data,
                self.state,
                self.time,
                self.segment,
                beliefs.states,
                independent_after=self.independent_after,
                form=form,
            )
        if self.independent_after is not None:
            raise ValueError("--independent-after: is about gaps in a file; name it with --data")
        lengths = self.length or lengths_of(beliefs)
        if not lengths:
            raise ValueError(NO_SIZE)
        return lengths


@dataclass(frozen=True)
class Question:
    """What is asked, as options say it."""

    query: QueryOption = QueryName.HISTOGRAM
    state_value: Annotated[
        Text,
        option("The state of count, episodes, stays, time-in and days-with; several: A,B.", "NAME"),
    ] = None
    values: Annotated[
        Text,
        option(
            "The value of each state, for questions about numbers; middles: those of the levels.",
            '"A=1,B=2.5"',
        ),
    ] = None
    at_least: Annotated[Text, option("For days-with: how long on a day.", "30m")] = None
    between: Annotated[
        Text, option("For time-in: the hours; default till noon.", "00:00-12:00")
    ] = None

    clip: Annotated[
        Text, option("For total, mean and variance: the range that values are kept in.", "0,10")
    ] = None
    at: Annotated[
        float | None, real("For quantile: the share of entries below it; 0.5: the median.")
    ] = None

    def over(self, states: Sequence[Hashable], lengths: Sequence[int] | Series) -> Query:
        """The query over the states of the model."""
        counting = self.query is QueryName.COUNT or self.query in OF_STATES
        valued = self.query in CLIPPED + OF_LEVELS
        told = self.query is QueryName.CUMULATIVE and self.values is not None
        if (self.state_value is not None) != counting:
            about = "count" if self.query not in OF_STATES else self.query.value
            raise ValueError(
                f"--state-value: {'needed' if counting else 'only'} for --query {about}"
            )
        if (self.values is not None) != (valued or told):
            which = "a number for each state, like a=1,b=2.5"
            raise ValueError(f"--values: {which if valued else 'only for questions about numbers'}")
        if self.clip is not None and self.query not in CLIPPED:
            raise ValueError("--clip: only for --query total, mean and variance")
        if (self.at is not None) != (self.query is QueryName.QUANTILE):
            needed = self.at is None
            raise ValueError(f"--at: {'needed' if needed else 'only'} for --query quantile")
        if (self.at_least is not None) != (self.query is QueryName.DAYS_WITH):
            needed = self.at_least is None
            raise ValueError(f"--at-least: {'needed' if needed else 'only'} for --query days-with")
        if self.between is not None and self.query is not QueryName.TIME_IN:
            raise ValueError("--between: only for --query time-in")
        if self.query in CLIPPED + OF_LEVELS or self.query is QueryName.CUMULATIVE:
            return self._of_numbers(states, lengths)
        if self.query is QueryName.COUNT and self.state_value is not None:
            return pk.count(_state("--state-value", self.state_value, states), lengths)
        return self.named(states).over(states, lengths)

    def _of_numbers(self, states: Sequence[Hashable], lengths: Sequence[int] | Series) -> Query:
        if self.values is None:
            return pk.histogram(states, lengths)
        values = self.numbers(states, told=True)
        if self.query is QueryName.QUANTILE:
            return pk.quantile_of(self.part, values, lengths)
        if self.query not in CLIPPED:
            if len(set(values.values())) < len(values):
                raise ValueError("--values: must differ from state to state, to put them in order")
            return pk.histogram(sorted(states, key=lambda state: values[state]), lengths)
        if self.query is QueryName.VARIANCE:
            low, high = self.range
            return pk.moments(values, lengths, low=low, high=high)
        if self.clip is None:
            return (pk.total if self.query is QueryName.TOTAL else pk.mean)(values, lengths)
        make = pk.clipped_total if self.query is QueryName.TOTAL else pk.clipped_mean
        low, high = self.range
        return make(values, lengths, low=low, high=high)

    def numbers(self, states: Sequence[Hashable], told: bool = False) -> dict[Hashable, float]:
        """The value of each state; ``told`` says those of levels on the terminal."""
        if self.values is None:
            raise ValueError("--values: a number for each state, like a=1,b=2.5")
        return _middles(states, told) if self.values == MIDDLES else _values(self.values, states)

    @property
    def range(self) -> tuple[float, float]:
        """The range that values are clipped to."""
        low, comma, high = (self.clip or "").partition(",")
        if not comma:
            raise ValueError(f"--clip: two numbers like 0,10 are needed for {self.query.value}")
        try:
            return terminal.number(low.strip()), terminal.number(high.strip())
        except typer.BadParameter:
            raise ValueError(f"--clip: {self.clip!r} is not two numbers like 0,10") from None

    @property
    def part(self) -> float:
        """The share of a quantile."""
        if self.at is None or not 0 < self.at < 1:
            raise ValueError(f"--at: must lie between 0 and 1, got {self.at}")
        return self.at

    def window(self, given: Any) -> Any:
        """How a table is cut for this question, if that was not said."""
        return CUT.get(self.query) if given is None else given

    def of_many(self, states: Sequence[Hashable]) -> Any:
        """The question as runs over many subjects take it: days and weeks are windows."""
        given = {"--values": self.values, "--clip": self.clip, "--at": self.at}
        for name, value in given.items():
            if value is not None:
                raise ValueError(f"{name}: is for questions about one series; see release")
        if self.query in (QueryName.HISTOGRAM, QueryName.BY_DAY, QueryName.BY_WEEK):
            return QueryName.HISTOGRAM.value
        if self.query is QueryName.FREQUENCIES:
            return self.query.value
        return self.named(states)

    def named(self, states: Sequence[Hashable]) -> pk.Question:
        """The question by its name, which can be asked of many series."""
        start, dash, end = (self.between or "00:00-12:00").partition("-")
        if not dash:
            raise ValueError(f"--between: {self.between!r} is not like 22:00-06:00")
        of = () if self.state_value is None else _states(self.state_value, states)
        at_least = None if self.at_least is None else duration(self.at_least)
        return pk.Question(self.query.value, of, at_least, start.strip(), end.strip())


def _states(text: str, states: Sequence[Hashable]) -> tuple[Hashable, ...]:
    """One state, or several with commas between them."""
    names = [text] if text in map(str, states) else [part.strip() for part in text.split(",")]
    return tuple(_state("--state-value", name, states) for name in names)


def _state(option: str, name: str, states: Sequence[Hashable]) -> Hashable:
    for label in states:
        if str(label) == name:
            return label
    known = ", ".join(str(label) for label in states)
    raise ValueError(f"{option}: {name!r} is not a state of the model; it has {known}")


def _middles(states: Sequence[Hashable], told: bool) -> dict[Hashable, float]:
    """The middle of each level, by the names of the states."""
    bins = pk.Bins.of_names(states)
    if bins is None:
        raise ValueError("--values middles: the states of the model are not levels of numbers")
    try:
        middles = dict(zip(states, bins.middles, strict=True))
    except ValueError as error:
        raise ValueError(f"--values middles: {error}") from None
    if told:
        listed = ", ".join(f"{state}={value:g}" for state, value in middles.items())
        terminal.note(f"values: {listed}")
    return middles


def _values(text: str, states: Sequence[Hashable]) -> dict[Hashable, float]:
    values: dict[Hashable, float] = {}
    for part in text.split(","):
        name, equals, number = part.rpartition("=")
        if not equals:
            raise ValueError(f"--values: {part!r} is not of the form state=number")
        label = _state("--values", name.strip(), states)
        if label in values:
            raise ValueError(f"--values: {name.strip()!r} is given twice")
        try:
            values[label] = terminal.number(number.strip())
        except typer.BadParameter:
            raise ValueError(f"--values: {number!r} is not a number, in {part!r}") from None
    missing = [str(label) for label in states if label not in values]
    if missing:
        raise ValueError(f"--values: no value for {', '.join(missing)}; give 0 if it adds nothing")
    return values
