"""Questions by name: what a command line, a dashboard and a run over many subjects ask."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any

from pufferkit.data.by_time import by_time, several, time_in
from pufferkit.data.calendar import Calendar
from pufferkit.data.moves import days_with, episodes, stays
from pufferkit.data.queries import (
    Lengths,
    Query,
    histogram,
    relative_frequencies,
    transition_counts,
)

BY = {
    "by-hour": "hour",
    "by-weekday-hour": "weekday and hour",
    "by-day": "day",
    "by-week": "week",
}
"""Questions that are a histogram for each slot of time."""


@dataclass(frozen=True)
class Question:
    """A question that can be asked of any series.

    Parameters
    ----------
    name
        ``histogram``, ``frequencies``, ``transitions``; ``by-hour``, ``by-weekday-hour``,
        ``by-day``, ``by-week``; or, about some states, ``episodes``, ``stays``, ``time-in`` and
        ``days-with``.
    of
        The state, or several, that the last four are about.
    at_least
        For ``days-with``: a time like ``"30m"``, or a number of entries.
    start, end
        For ``time-in``: times of the day.

    Examples
    --------
    >>> from pufferkit import Series
    >>> series = Series.of(["rest", "walk", "walk", "rest", "walk"])
    >>> walks = Question("episodes", of="walk")
    >>> walks.over(series.states, series).exact(series)
    [Fraction(2, 1)]
    >>> walks.like(series.states, 100).lipschitz
    1.0
    """

    name: str
    of: tuple[Hashable, ...] = ()
    at_least: Any = None
    start: str = "00:00"
    end: str = "12:00"

    def __post_init__(self) -> None:
        if self.name not in NAMES:
            raise ValueError(f"query: {self.name!r} is none of {', '.join(NAMES)}")
        chosen = () if self.of in ((), None) else several(self.of)
        object.__setattr__(self, "of", chosen)
        if bool(chosen) != (self.name in OF_STATES):
            needed = f"{self.name} needs the states it is about, such as of=['walk']"
            raise ValueError(
                f"of: {needed if not chosen else f'{self.name} is about all states, leave it out'}"
            )
        if (self.at_least is not None) != (self.name == "days-with"):
            only = "is for days-with alone" if self.at_least is not None else "is needed, like 30m"
            raise ValueError(f"at_least: {only}")

    def over(
        self, states: Iterable[Hashable], lengths: Lengths, calendar: Calendar | None = None
    ) -> Query:
        """The query over these states and this series, or these lengths."""
        return NAMES[self.name](self, tuple(states), lengths, calendar)

    def like(self, states: Iterable[Hashable], length: int) -> Query:
        """A query that one entry moves exactly as far, pair by pair, and that needs no calendar.

        Noise is calibrated with it where there are many series: a histogram for each slot is moved
        like one histogram, time in states and days with them like their episodes.
        """
        if self.name in BY or self.name in ("histogram", "frequencies"):
            return histogram(states, length)
        if self.name == "transitions":
            return transition_counts(states, length)
        return (stays if self.name == "stays" else episodes)(self.of, length)

    def __str__(self) -> str:
        parts = [self.name]
        if self.of:
            parts.append(f"of {', '.join(str(state) for state in self.of)}")
        if self.at_least is not None:
            parts.append(f"at least {self.at_least}")
        if self.name == "time-in":
            parts.append(f"{self.start} to {self.end}")
        return " ".join(parts)


Maker = Callable[[Question, tuple[Hashable, ...], Any, Calendar | None], Query]


def _by(slot: Any) -> Maker:
    return lambda _, states, lengths, calendar: by_time(slot, states, lengths, calendar)


NAMES: dict[str, Maker] = {
    "histogram": lambda _, states, lengths, __: histogram(states, lengths),
    "frequencies": lambda _, states, lengths, __: relative_frequencies(states, lengths),
    "transitions": lambda _, states, lengths, __: transition_counts(states, lengths),
    **{name: _by(slot) for name, slot in BY.items()},
    "episodes": lambda q, _, lengths, __: episodes(q.of, lengths),
    "stays": lambda q, _, lengths, __: stays(q.of, lengths),
    "time-in": lambda q, _, lengths, when: time_in(
        q.of, lengths, start=q.start, end=q.end, calendar=when
    ),
    "days-with": lambda q, _, lengths, when: days_with(q.of, q.at_least, lengths, calendar=when),
}
"""Every question by name."""

OF_STATES = ("episodes", "stays", "time-in", "days-with")
"""Questions about some states."""
