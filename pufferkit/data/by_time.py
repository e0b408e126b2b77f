"""Queries by time: a histogram for each hour, weekday and hour, day or week; time in some states.

*Theorem.* Let every entry belong to one slot by public rules, and let the answer hold, for each
slot, the number of its entries in each state. Replacing the state of one entry takes 1 from one bin
of its slot, adds 1 to another, and leaves all other slots unchanged: the answer moves by 2 in L1
norm, whatever the other entries are. So histograms of many slots together need the noise of one
histogram over everything. Entries that were not observed are in no bin.

That is a per-entry bound, which is all that the influence curve needs: the proof of its theorem
(`docs/pairs.md`) uses no other property of the release. With Laplace noise of scale s the
event-level epsilon is 2 / s at every entry. The answer is not a sum of one contribution per state,
because it depends on the slot, so mechanisms that use the distribution of a sum do not apply.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pufferkit import checks
from pufferkit.checks import Ints
from pufferkit.data.additive import several_states
from pufferkit.data.calendar import HOURS, HOURS_OF_WEEK, NO_CALENDAR, Calendar, day_name, week_name
from pufferkit.data.coded_answers import OverCodes
from pufferkit.data.durations import DAY
from pufferkit.data.queries import Lengths, Query
from pufferkit.data.series import Series, in_memory
from pufferkit.records import digest

By = Literal["hour", "weekday and hour", "day", "week"]

MOST_CELLS = 1_000_000
"""Largest number of slots times states in one answer."""


def by_time(
    by: By | Sequence[Hashable],
    states: Iterable[Hashable],
    lengths: Lengths,
    calendar: Calendar | None = None,
) -> Query:
    """How many entries are in each state, for each slot of time; 2-Lipschitz.

    No entry is in two slots, so all slots together cost as much as one histogram: see the
    module `pufferkit.data.by_time` for the proof.

    Parameters
    ----------
    by
        ``"hour"`` of the day, ``"weekday and hour"``, ``"day"`` or ``"week"``; or a sequence as
        long as the series that names the slot of every entry, which is public.
    states
        All states.
    lengths
        The `Series`; or lengths, with a ``calendar``.
    calendar
        The times of the entries. If left out, the calendar of the series.

    Examples
    --------
    >>> from pufferkit import Calendar
    >>> when = Calendar("2024-03-04 22:00", every="1h")
    >>> by_time("day", ["rest", "walk"], 4, when).labels
    ('2024-03-04, rest', '2024-03-04, walk', '2024-03-05, rest', '2024-03-05, walk')
    """
    labels, over = several_states(states), in_memory(lengths)
    sizes, seen = _observed(over)
    named = None if isinstance(by, str) else tuple(str(slot) for slot in by)
    if named is not None:
        if len(named) != sum(sizes):
            raise ValueError(f"by: names {len(named)} slots, the series has {sum(sizes)} entries")
        slots = tuple(dict.fromkeys(named))
        place = {slot: number for number, slot in enumerate(slots)}
        of_entry = np.array([place[slot] for slot in named])
    else:
        slots, of_entry = slots_of(str(by), calendar_of(over, calendar), sizes)
    if len(slots) * len(labels) > MOST_CELLS:
        raise ValueError(
            f"by: makes {len(slots) * len(labels):,} cells, more than {MOST_CELLS:,}; use fewer "
            "slots"
        )
    observed = np.bincount(of_entry[seen], minlength=len(slots))
    what = str(by) if named is None else "slot"
    return Query(
        f"histogram for each {what}",
        BySlot(labels, sizes, of_entry, observed),
        2,
        lengths if isinstance(over, Series) else sizes,
        labels=[f"{slot}, {state}" for slot in slots for state in labels],
        states=labels,
        total=float(observed.sum()),
        observed=None if isinstance(over, Series) else sizes,
        kind="by time",
        unit=1,
        question={
            "by": what,
            "slots": list(slots),
            "observed": [int(n) for n in observed],
            "calendar": None if named is not None else calendar_of(over, calendar).to_dict(),
            **({} if named is None else {"entries": digest(list(named))}),
        },
    )


def time_in(
    of: Hashable | Iterable[Hashable],
    lengths: Lengths,
    *,
    start: str = "00:00",
    end: str = "12:00",
    calendar: Calendar | None = None,
) -> Query:
    """How many entries between two times of day are in some states; 1-Lipschitz.

    The default is before noon. Replacing the state of an entry moves the number by 1 if exactly one
    of the two states is among ``of`` and the entry lies between the times, and by 0 otherwise: the
    query does not distinguish other states at all.

    Parameters
    ----------
    of
        The state, or several.
    lengths, calendar
        As for `by_time`.
    start, end
        Times of the day like ``"22:00"``; ``end`` is not included and may be past midnight.

    Examples
    --------
    >>> from pufferkit import Calendar, Series
    >>> days = Calendar("2024-01-01 00:00", every="12h")
    >>> data = Series.of(["rest", "run", "rest", "run"], ["rest", "run"])
    >>> time_in("run", 4, start="12:00", end="00:00", calendar=days).exact(data)
    [Fraction(2, 1)]
    """
    chosen, over = several(of), in_memory(lengths)
    sizes, _ = _observed(over)
    first, last = (_time_of_day(name, text) for name, text in (("start", start), ("end", end)))
    times = calendar_of(over, calendar).times(sizes) % DAY
    inside = (times >= first) & (times < last)
    if first >= last:
        inside = (times >= first) | (times < last)
    if not inside.any():
        raise ValueError(f"start: no entry lies between {start} and {end}; choose other times")
    return Query(
        f"time in {in_words(chosen)} from {start} to {end}",
        _TimeIn(chosen, sizes, inside),
        1,
        lengths if isinstance(over, Series) else sizes,
        labels=[in_words(chosen)],
        kind="time in states",
        unit=1,
        apart=indicator(chosen),
        question={
            "of": [str(state) for state in chosen],
            "start": start,
            "end": end,
            "calendar": calendar_of(over, calendar).to_dict(),
        },
    )


@dataclass(frozen=True, eq=False)
class BySlot(OverCodes):
    """Counts of states for each slot; ``of_entry`` is the slot of every entry."""

    of_entry: Ints
    observed: Ints

    def check(self, series: Series) -> None:
        super().check(series)
        seen = np.bincount(self.of_entry[series.observed], minlength=len(self.observed))
        if (seen != self.observed).any():
            raise ValueError(
                f"series: {series.missing} of its entries were not observed, but the query was "
                "made for other gaps; make it with this series in place of the lengths"
            )

    def of_codes(self, codes: NDArray[np.intp]) -> NDArray[Any]:
        known, size = codes >= 0, len(self.states)
        if codes.max() >= size:
            raise ValueError("series: has states that are not among those of the query")
        cells = self.of_entry[known] * size + codes[known]
        return np.bincount(cells, minlength=len(self.observed) * size)


@dataclass(frozen=True, eq=False)
class _TimeIn(OverCodes):
    inside: NDArray[np.bool_]

    def of_codes(self, codes: NDArray[np.intp]) -> NDArray[Any]:
        counted = (codes >= 0) & (codes < len(self.states)) & self.inside
        return np.array([counted.sum()])


def slots_of(by: str, calendar: Calendar, lengths: Sequence[int]) -> tuple[tuple[str, ...], Ints]:
    """Names of the slots, and the slot of every entry."""
    if by == "hour":
        return HOURS, calendar.hours(lengths)
    if by == "weekday and hour":
        return HOURS_OF_WEEK, 24 * calendar.weekdays(lengths) + calendar.hours(lengths)
    if by in ("day", "week"):
        numbers = calendar.days(lengths) if by == "day" else calendar.weeks(lengths)
        there, place = np.unique(numbers, return_inverse=True)
        name = day_name if by == "day" else week_name
        return tuple(name(number) for number in there.tolist()), place.astype(np.int64)
    raise ValueError(
        f"by: must be hour, weekday and hour, day or week, or the slot of every entry; got {by!r}"
    )


def calendar_of(over: Any, calendar: Calendar | None) -> Calendar:
    """The calendar that was given, or that of the series."""
    own = calendar if calendar is not None else getattr(over, "calendar", None)
    if own is None:
        raise ValueError(NO_CALENDAR)
    if not isinstance(own, Calendar):
        raise ValueError(f"calendar: must be a Calendar, got {type(own).__name__}")
    return own


def several(of: Any) -> tuple[Hashable, ...]:
    """One state or several, as a tuple; text is one state."""
    one = isinstance(of, (str, bytes)) or not isinstance(of, Iterable)
    return checks.distinct_states([of] if one else of)


def indicator(of: Iterable[Hashable]) -> dict[Hashable, tuple[Fraction, ...]]:
    """Rows that distinguish these states from all others, and nothing else."""
    return {state: (Fraction(1),) for state in of}


def in_words(of: Iterable[Hashable]) -> str:
    """States in words."""
    return " or ".join(str(state) for state in of)


def _observed(over: Any) -> tuple[tuple[int, ...], NDArray[np.bool_]]:
    """Lengths, and which entries were observed."""
    if isinstance(over, Series):
        return over.lengths, over.observed
    sizes = checks.segment_lengths(over)
    return sizes, np.ones(sum(sizes), dtype=bool)


def _time_of_day(name: str, text: str) -> int:
    hours, colon, minutes = str(text).partition(":")
    fits = bool(colon) and hours.isdecimal() and minutes.isdecimal() and int(minutes) < 60
    if not fits or int(hours) * 60 + int(minutes) > 1440:
        raise ValueError(f"{name}: must be a time of day like 08:30, got {text!r}")
    return (int(hours) * 60 + int(minutes)) * (DAY // 1440)
