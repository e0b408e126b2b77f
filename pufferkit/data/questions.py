"""Questions by name, for the command line, dashboards and runs over many subjects."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pufferkit import checks
from pufferkit.data.additive import count, histogram, mean, relative_frequencies, total
from pufferkit.data.by_time import by_time, several, time_in
from pufferkit.data.calendar import Calendar
from pufferkit.data.moves import days_with, episodes, stays, transition_counts
from pufferkit.data.numbers import clipped_mean, clipped_total, moments, quantile_of
from pufferkit.data.queries import Lengths, Query
from pufferkit.data.question_names import (
    BY,
    HISTOGRAMS,
    LEVELS,
    OF_DAYS,
    OF_STATES,
    OF_VALUES,
    SUMS,
)
from pufferkit.data.user_queries import linear
from pufferkit.errors import NoTheorem
from pufferkit.records import Asked
from pufferkit.rounding import as_fraction


@dataclass(frozen=True)
class Question(Asked):
    """A query by name, which can be made for any series.

    Parameters
    ----------
    name
        ``histogram``, ``frequencies``, ``top-states``, ``transitions``; ``by-hour``,
        ``by-weekday-hour``, ``by-day``, ``by-week``; about some states, ``count``, ``episodes``,
        ``stays``, ``time-in``, ``days-with`` and ``share-of-days``; about numbers, ``total``,
        ``mean``, ``variance``, ``cumulative``, ``quantile``, ``peak``, ``load-duration`` and
        ``linear``.
    of
        For questions about some states: the state, or several.
    at_least
        For ``days-with`` and ``share-of-days``: a time like ``"30m"``, or a number of entries.
    start, end
        For ``time-in``: times of the day.
    values
        For questions about numbers: the value of each state; for ``linear`` it may be a row of
        numbers. States that are left out add nothing to a ``linear`` one.
    clip
        The declared range of the values: required for ``variance``, optional for ``total`` and
        ``mean``.
    share
        For ``quantile``: the share of the entries below it; 0.5 is the median.
    top
        For ``top-states``: how many states.
    labels
        For ``linear``: names of the numbers.

    Examples
    --------
    >>> from pufferkit import Series
    >>> series = Series.of(["rest", "walk", "walk", "rest", "walk"])
    >>> walks = Question("episodes", of="walk")
    >>> walks.over(series.states, series).exact(series)
    [Fraction(2, 1)]
    >>> walks.like(series.states, 100).lipschitz
    1.0
    >>> load = Question("quantile", values={"rest": 3, "walk": 1}, share=0.5)
    >>> load.ordered(series.states), load.over_numbers(series.states, series).name
    (('walk', 'rest'), 'histogram')
    >>> Question("count", of="walk").one_entry(series.states).lengths
    (1,)
    >>> str(Question("mean", values={"rest": 1, "walk": 3}, clip=(0, 2)))
    'mean clipped to 0 to 2'
    """

    name: str
    of: tuple[Hashable, ...] = ()
    at_least: Any = None
    start: str = "00:00"
    end: str = "12:00"
    values: Any = None
    clip: tuple[float, float] | None = None
    share: float | None = None
    top: int | None = None
    labels: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.name not in NAMES:
            raise ValueError(f"query: must be one of {', '.join(NAMES)}, got {self.name!r}")
        chosen = () if self.of in ((), None) else several(self.of)
        object.__setattr__(self, "of", chosen)
        if bool(chosen) != (self.name in OF_STATES):
            rule = f"{self.name} needs the states it is about, such as of=['walk']"
            raise ValueError(
                f"of: {rule if not chosen else f'{self.name} is about all states; leave it out'}"
            )
        if self.name == "count" and len(chosen) > 1:
            raise ValueError("of: count is about one state; time-in and episodes take several")
        self._fits("at_least", OF_DAYS, "is required, like 30m")
        self._fits("share", ("quantile",), "is required, such as 0.5 for the median")
        self._fits("top", ("top-states",), "is required: how many states")
        self._fits("labels", ("linear",))
        if self.name == "cumulative" and self.values is None:
            return
        self._fits("values", OF_VALUES, "are required: a number for each state")
        self._fits("clip", ("variance",), "is required, such as (0, 10)", also=("total", "mean"))
        if self.share is not None and not 0 < checks.real("share", self.share) < 1:
            raise ValueError(f"share: must lie between 0 and 1, got {self.share}")
        if self.values is not None:
            self._freeze_values()
        if self.clip is not None:
            low, high = (checks.real("clip", end) for end in self.clip)
            if not low < high:
                raise ValueError(f"clip: low must be below high, got {low:g} and {high:g}")
        if self.name in LEVELS:
            self.ordered([state for state, _ in self.values])

    def _fits(
        self, name: str, where: tuple[str, ...], required: str = "", also: tuple[str, ...] = ()
    ) -> None:
        """Check an argument that some questions require, some allow and others do not take."""
        given = getattr(self, name) is not None
        if given and self.name not in (*where, *also):
            alone = " and ".join((*where, *also))
            raise ValueError(f"{name}: applies to {alone} only; leave it out")
        if not given and required and self.name in where:
            raise ValueError(f"{name}: {required}")

    def _freeze_values(self) -> None:
        items = self.values
        if isinstance(items, Mapping):
            items = items.items()
        rows = self.name == "linear"
        frozen = []
        for state, value in items:
            numbers = tuple(value) if isinstance(value, (list, tuple)) and rows else (value,)
            for number in numbers:
                as_fraction("values", number)
            frozen.append((state, numbers if rows else value))
        checks.distinct_states([state for state, _ in frozen])
        in_order = tuple(sorted(frozen, key=lambda pair: str(pair[0])))
        object.__setattr__(self, "values", in_order)
        if self.clip is not None:
            low, high = self.clip
            object.__setattr__(self, "clip", (low, high))
        if self.labels is not None:
            object.__setattr__(self, "labels", tuple(str(label) for label in self.labels))

    @property
    def numbers(self) -> dict[Hashable, Any]:
        """The value of each state; none if the question has no values."""
        return dict(self.values or ())

    def over(
        self, states: Iterable[Hashable], lengths: Lengths, calendar: Calendar | None = None
    ) -> Query:
        """The query over these states and this series, or these lengths."""
        known = tuple(states)
        valued = self.numbers
        missing = [str(state) for state in known if state not in valued]
        if valued and missing and self.name != "linear":
            raise ValueError(
                f"values: have no value for {', '.join(missing)}; give 0 if it adds nothing"
            )
        return NAMES[self.name](self, known, lengths, calendar)

    def over_numbers(self, states: Iterable[Hashable], lengths: Lengths) -> Query:
        """The query if answers must be noisy numbers: for a quantile, the histogram behind it."""
        if self.name == "quantile":
            return histogram(self.ordered(states), lengths)
        return self.over(states, lengths)

    def ordered(self, states: Iterable[Hashable]) -> tuple[Hashable, ...]:
        """The states in the order of their values; in the given order if they have none."""
        known, valued = tuple(states), self.numbers
        if not valued:
            return known
        if len({as_fraction("values", valued[state]) for state in known}) < len(known):
            raise ValueError("values: must differ from state to state, so that they can be ordered")
        return tuple(sorted(known, key=lambda state: as_fraction("values", valued[state])))

    def one_entry(self, states: Iterable[Hashable]) -> Query | None:
        """For a sum, the query over one entry: its weights are what an entry adds, in its unit."""
        return self.over(states, 1) if self.name in SUMS else None

    @property
    def per(self) -> str | None:
        """The divisor of the number of a series: its ``"entries"``, its ``"days"`` or ``None``."""
        if self.name in ("mean", "variance", "frequencies"):
            return "entries"
        return "days" if self.name == "share-of-days" else None

    def like(self, states: Iterable[Hashable], length: int) -> Query:
        """A query with whole answers that one entry moves exactly as far, for each pair of states.

        It needs no calendar, and noise for many series is calibrated with it: a histogram for each
        slot moves like one histogram, time in states and days with them like their episodes, and a
        sum in units of what one entry adds. The unit and the divisor are public, so that both are
        applied after the noise.
        """
        known = tuple(states)
        one = self.one_entry(known)
        if one is not None and one.weights is not None and one.unit is not None:
            rows = {x: [w / one.unit for w in row] for x, row in one.weights.items()}
            return linear(rows, length, labels=one.labels, states=known)
        if self.name == "transitions":
            return transition_counts(known, length)
        if self.name == "stays":
            return stays(self.of, length)
        if self.name in OF_STATES:
            return episodes(self.of, length)
        if self.name in HISTOGRAMS:
            return histogram(self.ordered(known), length)
        raise NoTheorem(f"query: it is not stated how far an entry moves {self.name}")

    def __str__(self) -> str:
        parts = [self.name if self.top is None else f"top {self.top} states"]
        if self.share is not None:
            parts.append(f"{self.share:g}")
        if self.of:
            parts.append(f"of {', '.join(str(state) for state in self.of)}")
        if self.clip is not None:
            parts.append(f"clipped to {self.clip[0]:g} to {self.clip[1]:g}")
        if self.at_least is not None:
            parts.append(f"at least {self.at_least}")
        if self.name == "time-in":
            parts.append(f"{self.start} to {self.end}")
        return " ".join(parts)


Maker = Callable[[Question, tuple[Hashable, ...], Any, Calendar | None], Query]


def _by(slot: Any) -> Maker:
    return lambda _, states, lengths, calendar: by_time(slot, states, lengths, calendar)


def _levels(q: Question, states: tuple[Hashable, ...], lengths: Any, _: Any) -> Query:
    return histogram(q.ordered(states), lengths)


def _total(q: Question, _: Any, lengths: Any, __: Any) -> Query:
    if q.clip is None:
        return total(q.numbers, lengths)
    return clipped_total(q.numbers, lengths, low=q.clip[0], high=q.clip[1])


def _mean(q: Question, _: Any, lengths: Any, __: Any) -> Query:
    if q.clip is None:
        return mean(q.numbers, lengths)
    return clipped_mean(q.numbers, lengths, low=q.clip[0], high=q.clip[1])


def _variance(q: Question, _: Any, lengths: Any, __: Any) -> Query:
    low, high = q.clip or (0.0, 0.0)
    return moments(q.numbers, lengths, low=low, high=high)


def _linear(q: Question, states: tuple[Hashable, ...], lengths: Any, _: Any) -> Query:
    return linear(q.numbers, lengths, labels=q.labels, states=states)


NAMES: dict[str, Maker] = {
    "histogram": lambda _, states, lengths, __: histogram(states, lengths),
    "frequencies": lambda _, states, lengths, __: relative_frequencies(states, lengths),
    "top-states": lambda _, states, lengths, __: histogram(states, lengths),
    "count": lambda q, _, lengths, __: count(q.of[0], lengths),
    "total": _total,
    "mean": _mean,
    "variance": _variance,
    "linear": _linear,
    "cumulative": _levels,
    "quantile": lambda q, _, lengths, __: quantile_of(q.share or 0.0, q.numbers, lengths),
    "peak": _levels,
    "load-duration": _levels,
    "transitions": lambda _, states, lengths, __: transition_counts(states, lengths),
    **{name: _by(slot) for name, slot in BY.items()},
    "episodes": lambda q, _, lengths, __: episodes(q.of, lengths),
    "stays": lambda q, _, lengths, __: stays(q.of, lengths),
    "time-in": lambda q, _, lengths, when: time_in(
        q.of, lengths, start=q.start, end=q.end, calendar=when
    ),
    "days-with": lambda q, _, lengths, when: days_with(q.of, q.at_least, lengths, calendar=when),
    "share-of-days": lambda q, _, lengths, when: days_with(
        q.of, q.at_least, lengths, calendar=when, share=True
    ),
}
"""The function that makes the query of each question, by name."""
