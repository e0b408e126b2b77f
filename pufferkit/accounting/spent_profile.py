"""What was spent on each entry, as runs: of a release, of a history, of an account.

For releases under which all states are equally far apart, event-level epsilons add up as numbers.
Each kind of query has its own distances between states, so a run of entries has one number for each
kind. Neighbours with the same spending form one run: a year of hourly releases is a single run.
Sums are rounded up after each release, so a history gives the same numbers whether it is added up
at once or continued from a stored state.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from itertools import pairwise, zip_longest
from typing import Any

import numpy as np

from pufferkit import checks
from pufferkit.accounting.spending import Spending, distance_of, kind_of
from pufferkit.beliefs.base import Beliefs, as_beliefs
from pufferkit.checks import Floats
from pufferkit.errors import NotApplicable, NoTheorem
from pufferkit.influence.curve.graphs import record_loss
from pufferkit.influence.curve.profile import InfluenceCurve, PairRun
from pufferkit.records import ByDigest
from pufferkit.rounding import EPS, round_up

_MOST_USED = 200
"""Releases with more runs than this are charged as if they had used their whole windows."""

_MOST_KEPT = 5_000
"""Most runs of a profile; beyond this, neighbours are merged at the larger of their spendings."""

_MOST_ENTRIES = 5_000
"""For longer segments `entry_rows` gives only the largest loss."""

_EXACT = 12
"""Segments with up to this many runs are evaluated run by run."""

Amounts = tuple[float, ...]
AmountRun = tuple[int, int, Amounts]
"""First entry, last entry, and the spending on each of them by each kind of query."""


@dataclass(frozen=True)
class SpentProfile:
    """What was spent on each entry, as runs."""

    kinds: tuple[Any, ...] = ()
    """For each kind of query the contribution of every state, in the order of the states; ``None``
    where all states are equally far apart."""
    runs: tuple[AmountRun, ...] = ()
    """Runs of entries with some spending, in order."""

    def with_spending(self, spending: Spending) -> SpentProfile:
        """The profile with one more release, which has a per-entry bound."""
        added, b = spending.contributions, spending.entry_epsilon
        assert b is not None
        kind = None if added is None else tuple(value for _, value in added)
        return self.after(spending.used, b, kind)

    def nowhere_above(self, spending: Spending) -> bool:
        """Whether no entry has spent more than this release alone spends on the entries it uses."""
        alone = SpentProfile().with_spending(spending)
        (row,) = {row for _, _, row in alone.runs} or {()}
        limits = dict(zip(alone.kinds, row, strict=False))
        rows = {amounts for _, _, amounts in self.runs}
        spent = (pair for row in rows for pair in zip(self.kinds, row, strict=False))
        return all(b <= limits.get(kind, 0.0) for kind, b in spent)

    def after(self, used: Iterable[tuple[int, int]], b: float, kind: Any) -> SpentProfile:
        """The profile with one more release, of event-level epsilon ``b`` on the runs it used."""
        known = self if kind in self.kinds else replace(self, kinds=(*self.kinds, kind))
        place, runs = known.kinds.index(kind), list(known.runs)
        own = [(first, last) for first, last in used]
        if len(own) > _MOST_USED:
            own = [(own[0][0], own[-1][1])]
        for first, last in own:
            _add(runs, first, last, place, b)
        if len(runs) > _MOST_KEPT:
            runs = _fewer(runs, _MOST_KEPT * 3 // 4)
        return replace(known, runs=tuple(runs))

    def loss(
        self,
        theta: Beliefs,
        sizes: Sequence[int],
        enough: float | None = None,
        horizon: int | None = None,
    ) -> float:
        """Loss of every entry of every segment on the influence curve.

        With ``enough``, any upper bound that does not exceed ``enough`` may be returned instead,
        and histories with many runs are merged into fewer, which never lowers the result. With
        ``horizon`` the result is at most the loss of a series of so many entries of which each
        spends as much as the one that spends most; and where entries do not separate what lies on
        either side, it covers those that are still to come (`with_the_rest`).
        """
        if not self.runs:
            return 0.0
        apart, most = self._largest(theta)
        if theta.entries is not None:
            return record_loss(theta, most)
        bound = math.inf
        if enough or horizon is not None:
            # A profile with the largest spending everywhere loses no less.
            bound = _constant(ByDigest(theta), max(horizon or 0, *sizes), most.tobytes())
            if enough is not None and bound <= enough:
                return bound
        if horizon is not None and theta.hides_states:
            sizes = with_the_rest(sizes, self.runs[-1][1], horizon)
        worst, start = 0.0, 1
        seen: set[tuple[tuple[int, Amounts], ...]] = set()
        ends = [last for _, last, _ in self.runs]
        for size in sizes:
            own = self._within(start, start + size - 1, bisect_left(ends, start))
            start += size
            if enough is not None and len(own) > _EXACT:
                own = [(b - a + 1, row) for a, b, row in _fewer(_placed(own), _EXACT)]
            if tuple(own) in seen:
                continue
            seen.add(tuple(own))
            runs = [PairRun(count, self._cost(apart, row)) for count, row in own]
            worst = max(worst, curve_of(theta, size).epsilon(runs))
        return min(worst, bound)

    def largest_loss(self, theta: Beliefs, length: int) -> float:
        """The loss if each of so many entries spent as much as the one that spends most."""
        if not self.runs:
            return 0.0
        return _constant(ByDigest(theta), length, self._largest(theta)[1].tobytes())

    def _largest(self, theta: Beliefs) -> tuple[list[Floats], Floats]:
        """The distances of states under each kind, and the largest spending of an entry."""
        apart = [distance_of(theta.states, kind) for kind in self.kinds]
        return apart, self._cost(apart, reduce(_either, {row for _, _, row in self.runs}, ()))

    def pair_runs(self, states: Sequence[Hashable], first: int, last: int) -> list[PairRun]:
        """The spending of entries ``first`` to ``last`` on pairs of states, as runs."""
        apart = [distance_of(states, kind) for kind in self.kinds or (None,)]
        at = bisect_left(self.runs, first, key=lambda run: run[1])
        own = self._within(first, last, at)
        return [PairRun(count, self._cost(apart, row)) for count, row in own]

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as the ledger keeps it."""
        runs = [[first, last, *row] for first, last, row in self.runs]
        return {"kinds": list(self.kinds), "runs": runs}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> SpentProfile:
        """What ``to_dict`` described."""
        runs = tuple((int(run[0]), int(run[1]), tuple(run[2:])) for run in data["runs"])
        return cls(tuple(kind_of(kind) for kind in data["kinds"]), runs)

    def _within(self, first: int, last: int, at: int) -> list[tuple[int, Amounts]]:
        """The runs of a segment, including the unused ones between them, with their lengths."""
        nothing: Amounts = ()
        own, place = list[tuple[int, Amounts]](), first
        for a, b, row in self.runs[at:]:
            if a > last:
                break
            if a > place:
                own.append((a - place, nothing))
            begin, end = max(a, first), min(b, last)
            own.append((end - begin + 1, row))
            place = end + 1
        if place <= last:
            own.append((last - place + 1, nothing))
        return own

    def _cost(self, apart: Sequence[Floats], row: Amounts) -> Floats:
        size = len(apart[0])
        cost = np.zeros((size, size))
        for b, distance in zip(row, apart, strict=False):
            cost += b * distance
        return cost * (1 + (len(apart) + 2) * EPS)


def _add(runs: list[AmountRun], first: int, last: int, place: int, b: float) -> None:
    """Spend ``b`` on entries ``first`` to ``last`` by one kind of query, in place."""
    low = high = bisect_left(runs, first, key=lambda run: run[1])
    new, here = list[AmountRun](), first
    while high < len(runs) and runs[high][0] <= last:
        a, z, row = runs[high]
        if a < first:
            new.append((a, first - 1, row))
        if a > here:
            new.append((here, a - 1, _more((), place, b)))
        here = min(z, last) + 1
        new.append((max(a, first), here - 1, _more(row, place, b)))
        if z > last:
            new.append((last + 1, z, row))
        high += 1
    if here <= last:
        new.append((here, last, _more((), place, b)))
    left, right = max(0, low - 1), min(len(runs), high + 1)
    runs[left:right] = _joined([*runs[left:low], *new, *runs[high:right]])


def _joined(runs: Iterable[AmountRun]) -> list[AmountRun]:
    """Merge neighbouring runs with the same spending."""
    joined: list[AmountRun] = []
    for first, last, row in runs:
        if joined and joined[-1][1] + 1 == first and joined[-1][2] == row:
            joined[-1] = (joined[-1][0], last, row)
        else:
            joined.append((first, last, row))
    return joined


def _more(row: Amounts, place: int, b: float) -> Amounts:
    """A row with ``b`` more at one place, rounded up, without zeros at its end."""
    own = [*row, *[0.0] * (place + 1 - len(row))]
    own[place] = round_up(own[place] + b, 1) if own[place] else b
    return tuple(own)


def _placed(own: Sequence[tuple[int, Amounts]]) -> list[AmountRun]:
    runs, place = [], 1
    for count, row in own:
        runs.append((place, place + count - 1, row))
        place += count
    return runs


def _fewer(runs: list[AmountRun], most: int) -> list[AmountRun]:
    """Merge runs until at most ``most`` are left; a merged run takes the larger spending.

    Runs are merged where that adds the least (entries times event-level epsilon).
    """
    while len(runs) > most:
        added = []
        for n, ((a, b, row), (c, d, other)) in enumerate(pairwise(runs)):
            both = sum(_either(row, other))
            spent = (b - a + 1) * sum(row) + (d - c + 1) * sum(other)
            added.append(((d - a + 1) * both - spent, n))
        taken: set[int] = set()
        for _, n in sorted(added):
            if len(runs) - len(taken) <= most:
                break
            if not {n - 1, n, n + 1} & taken:
                taken.add(n)
        fewer, skip = list[AmountRun](), False
        for n, run in enumerate(runs):
            if skip:
                skip = False
            elif n in taken:
                after, skip = runs[n + 1], True
                fewer.append((run[0], after[1], _either(run[2], after[2])))
            else:
                fewer.append(run)
        runs = _joined(fewer)
    return runs


def _either(row: Amounts, other: Amounts) -> Amounts:
    """The larger of the two, for each kind."""
    return tuple(max(own) for own in zip_longest(row, other, fillvalue=0.0))


@lru_cache(maxsize=256)
def _constant(known: ByDigest[Beliefs], length: int, cost: bytes) -> float:
    """The loss when every entry spends the same."""
    size = len(known.itself.states)
    every = PairRun(length, np.frombuffer(cost).reshape(size, size))
    return _curve(known, length).epsilon([every])


def curve_of(theta: Beliefs, length: int) -> InfluenceCurve:
    """The influence curve of segments of this length, cached."""
    return _curve(ByDigest(theta), length)


@lru_cache(maxsize=32)
def _curve(known: ByDigest[Beliefs], length: int) -> InfluenceCurve:
    return InfluenceCurve(known.itself, length)


def with_the_rest(sizes: Sequence[int], last: int, horizon: int) -> tuple[int, ...]:
    """The segments up to entry ``last``, the last of them with entries that are still to come.

    An entry that comes after all that were used loses no more than the last of them, if it depends
    on the others through that one alone, and if any two values of both are secrets. Where it does
    not, as with hidden states and named secrets, it may lose more.
    """
    kept, end = list[int](), 0
    for size in sizes:
        kept.append(size)
        end += size
        if end >= last:
            break
    return (*kept[:-1], max(kept[-1], horizon))


def profile_of(history: Sequence[Spending], theta: Beliefs) -> SpentProfile:
    """The profile of a history; ``NoTheorem`` if a release has no per-entry bound."""
    unknown = sorted({s.mechanism for s in history if s.entry_epsilon is None})
    if unknown:
        raise NoTheorem(f"{', '.join(unknown)} gives no per-entry bound")
    profile = SpentProfile()
    for spending in history:
        profile = profile.with_spending(spending.ordered(theta.states))
    return profile


def entry_rows(
    history: Sequence[Spending], beliefs: Any, lengths: int | Sequence[int]
) -> list[dict[str, Any]]:
    """Runs of entries, with the spending of all releases together on each entry.

    ``event_epsilon`` is the event-level epsilon of the entry: the sum over the releases that used
    it, for the two values that they distinguish best. ``epsilon`` is the Pufferfish loss of the
    entry under that profile, by the influence curve: what all releases reveal about it, also
    through its neighbours. The largest over all entries is what `entry_profile` charges. In
    segments of more than `_MOST_ENTRIES` entries every run has the largest loss of the segment.

    Raises
    ------
    NoTheorem
        For releases without a per-entry bound.
    """
    theta, sizes = as_beliefs(beliefs), checks.segment_lengths(lengths)
    profile = profile_of(history, theta)
    if theta.entries is not None:
        raise NotApplicable(f"profiles over time are for chains, not for a {theta.description}")
    rows: list[dict[str, Any]] = []
    start = 0
    for size in sizes:
        runs = profile.pair_runs(theta.states, start + 1, start + size)
        spent = np.repeat([float(run.cost.max()) for run in runs], [run.count for run in runs])
        curve = curve_of(theta, size)
        if size <= _MOST_ENTRIES and spent.any():
            losses = np.max(list(curve.entry_losses(runs).values()), axis=0)
        else:
            losses = np.full(size, curve.epsilon(runs))
        changes = np.flatnonzero((np.diff(spent) != 0) | (np.diff(losses) != 0)) + 1
        for first, after in zip([0, *changes], [*changes, size], strict=True):
            rows.append(
                {
                    "first": start + int(first) + 1,
                    "last": start + int(after),
                    "event_epsilon": float(spent[first]),
                    "epsilon": float(losses[first]),
                }
            )
        start += size
    return rows
