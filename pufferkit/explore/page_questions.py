"""The questions of the page: most of those of the command line, by the same names.

A question creates the query, knows how an answer is derived from its release, and writes itself as
Python and as options of a command.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pufferkit as pk
from pufferkit.data.durations import number_or_text

if TYPE_CHECKING:
    from pufferkit import ChainClass, Derived, Query, Release

GROUPS = {
    "shares and counts": {
        "frequencies": "share of time in each state",
        "histogram": "number of entries in each state",
        "count": "number of entries in one state",
    },
    "by time": {
        "by-hour": "entries in each state, by hour of the day",
        "by-weekday-hour": "entries in each state, by weekday and hour",
        "by-day": "entries in each state, day by day",
        "by-week": "entries in each state, week by week",
        "time-in": "entries in some states, between two hours of the day",
        "days-with": "days with enough time in some states",
    },
    "moves": {
        "transitions": "moves from each state to each",
        "episodes": "how often some states began",
        "stays": "time in some states, and how often they began",
    },
    "numbers": {
        "mean": "mean of a value given to each state",
        "total": "total of a value given to each state",
        "variance": "variance of a value given to each state",
        "quantile": "quantile of a value given to each state",
        "cumulative": "share of entries up to each value",
        "load-duration": "number of entries with each value or more",
        "peak": "largest value",
    },
}
"""Descriptions of the questions by their names on the command line, grouped by topic."""

KINDS = {name: words for group in GROUPS.values() for name, words in group.items()}
"""All of them."""

OF_STATES = ("count", "episodes", "stays", "time-in", "days-with")
"""About some states; a count about one."""

VALUED = tuple(GROUPS["numbers"])
"""About values of states."""

BY = {"by-hour": "hour", "by-weekday-hour": "weekday and hour", "by-day": "day", "by-week": "week"}

CLOCKED = (*BY, "time-in", "days-with")
"""About hours and days, so that entries need times."""

_MAKERS = {
    "frequencies": "relative_frequencies",
    "transitions": "transition_counts",
    "time-in": "time_in",
    "days-with": "days_with",
}
_ORDERED = ("cumulative", "load-duration", "peak")


@dataclass(frozen=True)
class QueryAndReader:
    """A query, and how the answer is derived from its release; ``None``: the release itself."""

    query: Query
    read: Callable[[Release], Derived] | None = None


@dataclass(frozen=True)
class PageQuestion:
    """A question; only the fields that its kind needs are used.

    ``of`` are names of states, ``values`` numbers by names of states, ``at`` the share below a
    quantile, ``at_least`` a time like 30m, ``between`` hours like 22:00-06:00, ``low`` and ``high``
    the range of a variance.
    """

    kind: str = "frequencies"
    of: tuple[str, ...] = ()
    values: tuple[tuple[str, float], ...] = ()
    at: float = 0.5
    at_least: str = "30m"
    between: str = "00:00-12:00"
    low: float = 0.0
    high: float = 1.0

    @classmethod
    def first(cls, kind: str, states: Sequence[str]) -> PageQuestion:
        """A question of a kind as the page first shows it."""
        of = tuple(states[-1:]) if kind in OF_STATES else ()
        if kind not in VALUED:
            return cls(kind, of)
        values = usual_values(states)
        return cls(
            kind, of, tuple(zip(states, values, strict=True)), low=values[0], high=max(values)
        )

    @property
    def group(self) -> str:
        """What it is about."""
        return next(name for name, kinds in GROUPS.items() if self.kind in kinds)

    @property
    def words(self) -> str:
        """The question as the beginning of a sentence."""
        sentence = KINDS[self.kind].capitalize()
        some = " or ".join(f"“{name}”" for name in self.of)
        if self.kind == "quantile":
            sentence += f", {self.at:g} of the entries below it"
        if self.kind == "time-in":
            sentence = sentence.replace("two hours of the day", self.between.replace("-", " and "))
        if self.kind == "days-with":
            sentence = sentence.replace("enough time", f"{self.at_least} or more")
        return sentence.replace("one state", some).replace("some states", some)

    def over(self, states: Sequence[Hashable], lengths: Any) -> Query:
        """The query, about a series or lengths; of a quantile the histogram behind it."""
        if self.kind == "quantile":
            return pk.histogram(tuple(self._valued(states)), lengths)
        if self.kind == "variance":
            return pk.moments(self._valued(states), lengths, low=self.low, high=self.high)
        make: Any = getattr(pk, self._maker)
        query: Query = make(*self._about(states), lengths, **self._when)
        return query

    def like(self, states: Sequence[Hashable], length: int) -> Query:
        """A query of the same sensitivity, for a length alone."""
        if self.kind not in CLOCKED:
            return self.over(states, [length])
        of = tuple(_label(name, states) for name in self.of)
        at_least = self.at_least if self.kind == "days-with" else None
        return pk.Question(self.kind, of, at_least).like(states, length)

    def asked(self, beliefs: ChainClass, lengths: Any, epsilon: float) -> QueryAndReader:
        """The query for these beliefs, and how its release is read."""
        states = beliefs.states
        if self.kind == "quantile":
            plan = pk.plan_quantile(beliefs, self.at, self._valued(states), lengths, epsilon)
            return QueryAndReader(plan.query, plan.answer)
        named = dict(self.values)
        read: dict[str, Callable[[Release], Derived]] = {
            "variance": lambda release: pk.variance(release, self.low, self.high),
            "cumulative": pk.cumulative,
            "load-duration": lambda release: pk.load_duration(release, named),
            "peak": lambda release: pk.peak(release, named),
        }
        return QueryAndReader(self.over(states, lengths), read.get(self.kind))

    @property
    def _maker(self) -> str:
        if self.kind not in KINDS:
            raise ValueError(f"question: {self.kind!r} is unknown; known are {', '.join(KINDS)}")
        if self.kind in BY:
            return "by_time"
        return "histogram" if self.kind in _ORDERED else _MAKERS.get(self.kind, self.kind)

    @property
    def _when(self) -> dict[str, str]:
        if self.kind != "time-in":
            return {}
        start, dash, end = self.between.partition("-")
        if not dash:
            raise ValueError(f"between: {self.between!r} is not like 22:00-06:00")
        return {"start": start.strip(), "end": end.strip()}

    def _about(self, states: Sequence[Hashable]) -> list[Any]:
        if self.kind in OF_STATES and not self.of:
            raise ValueError("states: choose at least one that the question is about")
        chosen = [_label(name, states) for name in self.of]
        if self.kind == "count":
            return chosen[:1]
        if self.kind == "days-with":
            return [chosen, number_or_text(self.at_least)]
        if self.kind in OF_STATES:
            return [chosen]
        if self.kind in VALUED:
            values = self._valued(states)
            in_order = tuple(sorted(states, key=values.__getitem__))
            return [in_order] if self.kind in _ORDERED else [values]
        return [BY[self.kind], tuple(states)] if self.kind in BY else [tuple(states)]

    def _valued(self, states: Sequence[Hashable]) -> dict[Hashable, float]:
        given = {_label(name, states): value for name, value in self.values}
        missing = [str(state) for state in states if state not in given]
        if missing:
            raise ValueError(f"values: none for {', '.join(missing)}; give 0 for no contribution")
        if self.kind in (*_ORDERED, "quantile") and len(set(given.values())) < len(given):
            raise ValueError("values: must differ from state to state, to put them in order")
        return given

    def python(self, states: Sequence[Hashable], epsilon: float) -> tuple[list[str], list[str]]:
        """Lines that make the query, and lines that read its release."""
        if self.kind == "quantile":
            plan = f"plan = pk.plan_quantile(beliefs, {self.at!r}, {self._valued(states)!r}, data, "
            return [f"{plan}{epsilon!r})", "query = plan.query"], ["print(plan.answer(release))"]
        if self.kind == "variance":
            bounds = f"low={self.low!r}, high={self.high!r}"
            made = f"query = pk.moments({self._valued(states)!r}, data, {bounds})"
            return [made], [f"print(pk.variance(release, {self.low!r}, {self.high!r}))"]
        about = [repr(part) for part in self._about(states)]
        if self.kind in BY or self.kind in ("frequencies", "histogram", "transitions"):
            about[-1] = "beliefs.states"
        how = [f"{name}={value!r}" for name, value in self._when.items()]
        named = repr(dict(self.values))
        read = {
            "cumulative": "pk.cumulative(release)",
            "load-duration": f"pk.load_duration(release, {named})",
            "peak": f"pk.peak(release, {named})",
        }.get(self.kind)
        made = f"query = pk.{self._maker}({', '.join([*about, 'data', *how])})"
        return [made], [] if read is None else [f"print({read})"]

    def command(self) -> list[str]:
        """The same as options of a command."""
        options = ["--query", self.kind]
        if self.kind in OF_STATES:
            options += ["--state-value", _listed(self.of)]
        if self.kind in VALUED:
            _listed([name for name, _ in self.values])
            options += ["--values", ",".join(f"{name}={value!r}" for name, value in self.values)]
        said = {
            "quantile": ("--at", repr(self.at)),
            "variance": ("--clip", f"{self.low!r},{self.high!r}"),
            "days-with": ("--at-least", self.at_least),
            "time-in": ("--between", self.between),
        }
        return [*options, *said.get(self.kind, ())]


def usual_values(states: Sequence[str]) -> list[float]:
    """Midpoints of levels where states are levels of numbers, their indices otherwise."""
    levels = pk.Bins.of_names(states)
    if levels is not None:
        try:
            return [float(middle) for middle in levels.middles]
        except ValueError:
            pass  # an open level of a single cut has no middle
    return [float(n) for n in range(len(states))]


def _listed(names: Sequence[str]) -> str:
    """Names separated by commas; a single name may contain a comma."""
    if len(names) > 1 and any("," in name for name in names):
        raise ValueError("the command line takes no list of states whose names contain commas")
    return ",".join(names)


def _label(name: str, states: Sequence[Hashable]) -> Hashable:
    for state in states:
        if str(state) == name:
            return state
    known = ", ".join(str(state) for state in states)
    raise ValueError(f"state: {name!r} is not one of the states; they are {known}")
