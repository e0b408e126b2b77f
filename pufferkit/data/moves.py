"""Queries about transitions, episodes, stays, and days with enough entries in some states.

None of them is a sum of one contribution per entry: what an entry adds depends on its neighbours or
on its day. All have a per-entry bound that holds whatever the other entries are, and that is all
that the influence curve, Markov quilts and group privacy need: their proofs exchange entries one
after another inside the likelihood of the output (`docs/pairs.md`, [Q] Theorem 4.3). Mechanisms
that use the distribution of a sum do not apply.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pufferkit import checks
from pufferkit.checks import Ints
from pufferkit.data.additive import several_states
from pufferkit.data.by_time import calendar_of, in_words, indicator, several
from pufferkit.data.calendar import Calendar
from pufferkit.data.coded_answers import OverCodes
from pufferkit.data.durations import ticks
from pufferkit.data.queries import Lengths, Query
from pufferkit.data.series import Series, in_memory


def transition_counts(states: Iterable[Hashable], lengths: Lengths) -> Query:
    """How often each state is followed by each other state, within segments; row by row.

    A transition is counted between neighbours that were both observed. An entry is part of two, so
    changing it takes away two counts and adds two: 4-Lipschitz, or 2-Lipschitz if no segment has
    more than two entries.

    Examples
    --------
    >>> from pufferkit import Series
    >>> data = Series.of(["rest", "active", "rest", "rest"], ["rest", "active"])
    >>> moves = transition_counts(data.states, data)
    >>> [(label, int(n)) for label, n in zip(moves.labels, moves.exact(data))][:2]
    [('rest to rest', 1), ('rest to active', 1)]
    """
    labels, over = several_states(states), in_memory(lengths)
    if isinstance(over, Series):
        sizes, moves = over.lengths, int(over.transitions.sum())
    else:
        sizes = over = checks.segment_lengths(over)
        moves = sum(sizes) - len(sizes)
    if max(sizes) < 2:
        raise ValueError("lengths: segments of one entry have no transitions; give longer ones")
    return Query(
        "transition counts",
        _TransitionCounts(labels, sizes),
        4 if max(sizes) > 2 else 2,
        over,
        labels=[f"{before} to {after}" for before in labels for after in labels],
        states=labels,
        total=float(moves),
        observed=sizes,
        kind="transition counts",
        unit=1,
    )


def episodes(of: Hashable | Iterable[Hashable], lengths: Lengths) -> Query:
    """How often the series enters some states: runs of observed neighbours in them; 1-Lipschitz.

    With a_t = 1 where entry t was observed in one of the states and 0 elsewhere,

        episodes  =  sum over t of a_t  -  sum over neighbours t, t + 1 of a_t a_{t+1},

    neighbours within a segment. Raising one a_t from 0 to 1 adds 1 - a_{t-1} - a_{t+1}, which is 1,
    0 or -1; replacing a state by another on the same side changes nothing. So an entry moves the
    number by at most 1, and only if exactly one of its two states is among ``of``.

    Parameters
    ----------
    of
        The state, or several that count as one.
    lengths
        The `Series`, the length, or the lengths of segments. An entry that was not observed ends an
        episode.

    Examples
    --------
    >>> from pufferkit import Series
    >>> data = Series.of(["rest", "run", "run", "rest", "run"], ["rest", "run"])
    >>> episodes("run", data).exact(data)
    [Fraction(2, 1)]
    """
    chosen, sizes = several(of), _sizes(lengths)
    return Query(
        f"episodes of {in_words(chosen)}",
        _Episodes(chosen, sizes),
        1,
        lengths,
        labels=[in_words(chosen)],
        kind="episodes",
        unit=1,
        apart=indicator(chosen),
        question={"of": [str(state) for state in chosen]},
    )


def stays(of: Hashable | Iterable[Hashable], lengths: Lengths) -> Query:
    """Entries in some states, and their episodes; 2-Lipschitz. The ratio is the mean stay.

    An entry that enters or leaves the states moves the first number by 1 and the second by at most
    1 (`episodes`); any other change moves neither. `pufferkit.mean_stay` divides the two.

    Parameters
    ----------
    of, lengths
        As for `episodes`.

    Examples
    --------
    >>> from pufferkit import Series
    >>> data = Series.of(["rest", "run", "run", "rest", "run"], ["rest", "run"])
    >>> stays("run", data).name
    'stays in run'
    """
    chosen, sizes = several(of), _sizes(lengths)
    return Query(
        f"stays in {in_words(chosen)}",
        _Stays(chosen, sizes),
        2,
        lengths,
        labels=["entries", "episodes"],
        kind="stays",
        unit=1,
        apart={state: (Fraction(1), Fraction(1)) for state in chosen},
        question={"of": [str(state) for state in chosen]},
    )


def days_with(
    of: Hashable | Iterable[Hashable],
    at_least: Any,
    lengths: Lengths,
    *,
    calendar: Calendar | None = None,
    share: bool = False,
) -> Query:
    """On how many days at least this much time was spent in some states; 1-Lipschitz.

    Every day adds 0 or 1. An entry lies in one day, so replacing its state moves the number by at
    most 1, and by nothing unless exactly one of the two states is among ``of``: however much
    happens on a day, it counts once.

    Parameters
    ----------
    of
        The state, or several that count together.
    at_least
        A time like ``"30m"``, or a number of entries.
    lengths, calendar
        The `Series`; or lengths, with a calendar. Days are in local time; a day that was recorded
        only in part counts like any other.
    share
        Divide by the number of days, which is public.

    Examples
    --------
    >>> from pufferkit import Calendar, Series
    >>> days = Calendar("2024-01-01 00:00", every="12h")
    >>> data = Series.of(["rest", "run", "rest", "rest"], ["rest", "run"])
    >>> days_with("run", 1, 4, calendar=days).exact(data)
    [Fraction(1, 1)]
    """
    chosen, over = several(of), in_memory(lengths)
    sizes, when = _sizes(over), calendar_of(over, calendar)
    if isinstance(at_least, (int, float, np.integer)) and not isinstance(at_least, bool):
        needed = checks.whole("at_least", at_least, 1)
    else:
        needed = -(-int(ticks("at_least", at_least, of_time=True)) // when.every)
    there, day = np.unique(when.days(sizes), return_inverse=True)
    unit = Fraction(1, len(there)) if share else Fraction(1)
    evaluate = _DaysWith(chosen, sizes, day.astype(np.int64), needed, len(there) if share else 1)
    moved = float(unit)
    return Query(
        f"{'share of ' if share else ''}days with at least {at_least} of {in_words(chosen)}",
        evaluate,
        moved if Fraction(moved) >= unit else float(np.nextafter(moved, 2)),
        lengths,
        labels=[in_words(chosen)],
        kind="days with",
        unit=unit,
        apart=dict.fromkeys(chosen, (unit,)),
        question={
            "of": [str(state) for state in chosen],
            "at_least": needed,
            "days": len(there),
            "share": bool(share),
            "calendar": when.to_dict(),
        },
    )


def _inside(codes: NDArray[np.intp], states: tuple[Hashable, ...]) -> NDArray[np.bool_]:
    return np.asarray((codes >= 0) & (codes < len(states)))


@dataclass(frozen=True, eq=False)
class _TransitionCounts(OverCodes):
    """How often each state is followed by each other state, within segments."""

    def exact(self, series: Series) -> list[Fraction]:
        # Computed segment by segment, so their order does not matter.
        return OverCodes.exact(replace(self, lengths=series.lengths), series)

    def of_codes(self, codes: NDArray[np.intp]) -> NDArray[Any]:
        return Series(codes, self.states, self.lengths).transitions


@dataclass(frozen=True, eq=False)
class _Episodes(OverCodes):
    def of_codes(self, codes: NDArray[np.intp]) -> NDArray[Any]:
        return np.array([_entered(_inside(codes, self.states), self.lengths)])


@dataclass(frozen=True, eq=False)
class _Stays(OverCodes):
    def of_codes(self, codes: NDArray[np.intp]) -> NDArray[Any]:
        inside = _inside(codes, self.states)
        return np.array([inside.sum(), _entered(inside, self.lengths)])


def _entered(inside: NDArray[np.bool_], lengths: tuple[int, ...]) -> int:
    """How many runs begin, each segment by itself."""
    before = np.concatenate([[False], inside[:-1]])
    before[np.cumsum((0, *lengths[:-1]))] = False
    return int((inside & ~before).sum())


@dataclass(frozen=True, eq=False)
class _DaysWith(OverCodes):
    day: Ints
    needed: int
    days: int

    @property
    def unit(self) -> Fraction:
        return Fraction(1, self.days)

    def of_codes(self, codes: NDArray[np.intp]) -> NDArray[Any]:
        each = np.bincount(self.day, weights=_inside(codes, self.states))
        return np.array([(each >= self.needed).sum()])


def _sizes(lengths: Any) -> tuple[int, ...]:
    over = in_memory(lengths)
    return over.lengths if isinstance(over, Series) else checks.segment_lengths(over)
