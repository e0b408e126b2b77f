"""The engine of the influence curve: from the cost of entries to the loss of pairs of values.

A *cost* is a matrix over pairs of states: replacing an entry x by x' moves the log-likelihood of
every output by at most cost(x, x'). Laplace noise of scale s on a sum of contributions V costs
sum_j |V_j(x) - V_j(x')| / s; several releases add up, entry by entry. So all that was released is
a list of *runs*: numbers of consecutive entries, and their cost.

A belief says what it knows in *parts*. The part of one chain has two *sides*: for every entry, what
the entries before it, or after it, can reveal about its value. The side of entry n, counted from
the end that the side runs towards, adds for each pair of values

    adds_n = least over blocks m < n of  paid_{n-m+1} + ... + paid_{n-1} + step_{n,m}(B_{n-m}),
    B_n    = closure of  cost_n + adds_n,       B_1 = closure of cost_1,

with paid_j the largest cost of entry j and step_{n,m} the step of the kernel from entry n to entry
n - m (`pufferkit.influence.curve.pairs`). All entries of a side may be paid for as well, without a
step. The loss of entry n is its cost plus what both sides add.

Theorem: PAIRS Theorem 2 with the blocks of PAIRS 1.3. For every output, entry and pair x, x' of its
values, log P(output | x) / P(output | x') is at most the loss.

Proof. For m = 1 this is the theorem of `pufferkit.influence.curve.pairs`. For a block let f be the
likelihood, and h its least value over the m - 1 entries between. Then h <= f <= e^paid h, and as a
function of the other entries h costs what f does. So the mean of f given x is at most e^paid times
that of h, whose logarithm as a function of entry n - m varies by at most B_{n-m}; the mean given x'
is at least that of h. Pair by pair the least of several bounds is a bound. QED

Long series. If cost + adds(C) <= C for one matrix C, where adds(C) has C in place of every B, and
the entries just before are at most C, then so are all entries of the run, by induction: steps are
monotone, and a block that reaches beyond the end of the side costs less, all of it paid for. Such a
*limit* is what a record holds, with the plans that give the steps: `pufferkit.verification` checks
the inequality and searches nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from math import inf, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pufferkit.checks import Bools, Floats
from pufferkit.influence.curve.open_steps import OpenSteps
from pufferkit.influence.curve.pair_plans import bipartite
from pufferkit.influence.curve.pairs import (
    LARGEST,
    SLACK,
    Followed,
    PairSteps,
    Steps,
    StepsInRow,
    certificate,
    closure,
    converges,
    followed,
    off_diagonal,
    plus,
)
from pufferkit.influence.curve.plan_bases import bases_in, packed
from pufferkit.influence.progress import Progress
from pufferkit.rounding import EPS, largest_within

CostRuns = Sequence[tuple[int, Floats]]
"""Numbers of consecutive entries, and the cost of each of them."""

EXPLICIT_WORK = 50_000
"""Entries are computed one by one while entries x states^2 stays below this."""

PRECISION = 1e-7
"""A search ends when the loss is below epsilon by no more than this share of it."""

FAR = 500.0
"""The variation between values that are never possible together; their steps count for nothing."""

FOREVER = 1 << 60
"""The entry for which steps are asked that serve all later ones."""

_FIRST, _LOOK = (40, 6), 16
"""All blocks are tried at the first entries of the only run, or of one of several, and then at
every sixteenth."""

_CALM = 0.02
"""A limit is looked for where the variation changes by less than this share from entry to entry."""

_NEAR = 1e-5
_GAIN = 1e-7
_MOST_KNOWN = 8
_WITHIN = 0.98
_MANY = 16
_FEW_LEFT, _FEW_UNPAID = 8, 256
"""Of a cheap run, and of one that pays nothing, so many entries are computed without a limit."""
_BEGIN = 1e-3
"""A search begins with so small a share of epsilon that the loss is about linear there."""


@dataclass(frozen=True)
class Side:
    """One side of every entry, entries counted from the end that the side runs towards.

    Attributes
    ----------
    steps
        From an entry and the size of a block to the steps of that block; ``None`` if it has none.
    sizes
        The blocks to try; the first is 1.
    settled
        From this entry on, 2 or later, steps to the next entry are the same; those of a block of m
        entries are from entry ``settled + m - 1`` on.
    own
        Kernels of the entries 2 ... ``settled - 1``, if they are programmes.
    together
        Pairs of values that are possible at the same entry; ``None`` for all.
    paid
        Whether all entries of the side may be paid for instead.
    """

    steps: Callable[[int, int], Steps | None]
    sizes: Sequence[int] = (1,)
    settled: int = 2
    own: StepsInRow | None = None
    together: Bools | None = None
    paid: bool = True

    @classmethod
    def of(cls, steps: Steps) -> Side:
        """A side whose entries are all alike, one entry at a time, none of them paid for."""
        return cls(lambda entry, size: steps, paid=False)


@dataclass(frozen=True)
class Part:
    """What one member of a class says: both sides, and which values each entry can have.

    ``possible`` are the values of entries 1, 2, ...; the last one repeats, or with ``cycle`` the
    last so many. Secrets are the values of ``window`` entries in a row, and ``share`` is the
    largest part of the loss that a pair of them counts.
    """

    name: str
    left: Side
    right: Side
    possible: Sequence[Bools]
    cycle: int = 1
    window: int = 1
    share: float = 1.0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class EntryLoss:
    """The largest loss of an entry, where it is, and that of every pair of states there."""

    value: float
    node: int
    pairs: Floats | None = None


@dataclass(frozen=True)
class Stretch:
    """Entries ``first`` ... ``last`` to which a side adds at most ``steps``.

    ``limit`` is the variation of the entry before, or of all that follow; ``beyond`` has, for the
    size of every block in use, the variation from which it steps; ``trees`` are those of the plans
    for single entries, if they were stored.
    """

    first: int
    last: int
    steps: Floats
    limit: Floats | None
    beyond: Mapping[int, Floats] = field(default_factory=dict)
    trees: NDArray[np.int16] | None = None


def swept(
    side: Side,
    runs: CostRuns,
    most: float,
    near: Floats | None = None,
    *,
    alike: bool = True,
) -> list[Stretch] | None:
    """What a side adds to every entry, counted from its end; ``None`` if that is of no use.

    Entries are computed one by one while that is cheap or the variation has not converged; the rest
    of a run is bounded at once by a limit. Of a long series of one cost whose entries are alike,
    all but the first are: those in its middle are at the limit, and none loses more.

    Parameters
    ----------
    side
        The steps.
    runs
        Numbers of consecutive entries, and the cost of each pair of states there.
    most
        Bounds above this are of no use.
    near
        A guess of the limit of the variation of a long run, where the search begins.
    alike
        Whether no entry has steps of its own, on this side and on the other.
    """
    return _Sweep(side, runs, most, near, alike).stretches()


class _Sweep:
    """One pass over the entries of a side; see `swept`."""

    def __init__(
        self, side: Side, runs: CostRuns, most: float, near: Floats | None, alike: bool
    ) -> None:
        self.side, self.most, self.near = side, min(most, LARGEST), near
        self.size = len(runs[0][1])
        self.outside = off_diagonal(self.size)
        self.paid = [float(cost.max()) for _, cost in runs]
        self.slack = SLACK * max(self.paid) or SLACK
        self.ends = list(accumulate(count for count, _ in runs))
        spent = accumulate(count * paid for (count, _), paid in zip(runs, self.paid, strict=True))
        self.totals = [0.0, *spent]
        together = side.together
        self.counted = self.outside > 0 if together is None else together
        self.costs = [
            cost if together is None else np.where(together, cost, FAR) * self.outside
            for _, cost in runs
        ]
        self.alike = alike and len(runs) == 1
        self.met: dict[int, Floats] = {}
        self.found: list[Stretch] = []
        self.walked = 0
        self.by_loop = True  # until blocks are better
        self.used = [1]  # blocks that were the least when all were last tried

    def stretches(self) -> list[Stretch] | None:
        """All stretches; ``None`` where a bound is of no use."""
        if max(self.paid) > self.most:
            return None
        for run in range(len(self.ends)):
            if not self._through(run):
                return None
        return self.found

    def _total(self, last: int) -> float:
        """What the entries 1 ... ``last`` pay together, rounded up."""
        run = bisect_left(self.ends, last)
        before = self.ends[run - 1] if run else 0
        own = (last - before) * self.paid[run] if last else 0.0
        return (self.totals[run] + own) * (1 + 8 * len(self.ends) * EPS)

    def _between(self, first: int, last: int) -> float:
        """What the entries ``first`` ... ``last`` pay together, rounded up."""
        if last < first:
            return 0.0
        total = self._total(last)
        return max(total - self._total(first - 1), 0.0) + 16 * len(self.ends) * EPS * total

    def _adds(
        self,
        entry: int,
        met: Callable[[int], Floats],
        paid: Callable[[int], float],
        whole: float,
        sizes: Sequence[int],
    ) -> tuple[Floats, NDArray[np.int64]]:
        """The least over blocks of what is paid and a step, and the size that each pair takes.

        Blocks of ``sizes`` are tried. A bound that is not a finite number bounds nothing.
        """
        least = np.where(self.counted, whole, 0.0)
        taken = np.zeros(least.shape, dtype=np.int64)
        for size in sizes:
            if size >= entry or (spent := paid(size)) >= float(least.max()):
                break
            steps = self.side.steps(entry, size)
            variation = met(size)
            if steps is None or not float(variation.max()) <= LARGEST:
                continue
            if size > 1 and not _may_gain(steps, variation, spent, least):
                continue
            bound = steps(variation)
            if spent > 0:
                bound = (spent + bound) * (1 + 2 * EPS)
            better = (bound < least) & np.isfinite(bound)
            least, taken = np.where(better, bound, least), np.where(better, size, taken)
        return least, taken

    def _adds_of(
        self, entry: int, every: bool, follow: bool = True
    ) -> tuple[Floats, NDArray[np.int64]]:
        """The same from the entries that were met: all blocks, or those in use.

        With ``follow`` blocks come into use, and go, from entry to entry.
        """
        adds, taken = self._adds(
            entry,
            lambda size: self.met[entry - size],
            lambda size: self._between(entry - size + 1, entry - 1),
            self._total(entry - 1) if self.side.paid else inf,
            self.side.sizes if every else self._likely(entry) if follow else self.used,
        )
        if follow and len(self.side.sizes) > 1:
            self.used = sorted({1, *np.unique(taken[taken > 0]).tolist()})
        return adds, taken

    def _likely(self, entry: int) -> Sequence[int]:
        """Blocks that were the least at the entry before, and those that end where they did.

        Between runs also blocks that end just where another run does.
        """
        sizes = self.side.sizes
        wanted = {1, *self.used}
        ends = [entry - end for end in self.ends if end < entry]
        for goal in (*(size + 1 for size in self.used), *ends):
            place = bisect_left(sizes, goal)
            wanted.update(sizes[max(place - 1, 0) : place + 1])
        return sorted(wanted)

    def _calm(self, entry: int) -> bool:
        """Whether the variation no longer changes much from entry to entry."""
        if entry < 2:
            return False
        last, before = self.met[entry], self.met[entry - 1]
        moved = np.abs(last - before)[self.counted].max(initial=0.0)
        return bool(moved <= _CALM * last[self.counted].max(initial=0.0))

    def adds_at(
        self, limit: Floats, paid: float, sizes: Sequence[int]
    ) -> tuple[Floats, NDArray[np.int64]]:
        """The same where every entry beyond has the variation ``limit`` and pays the same."""
        return self._adds(
            FOREVER, lambda _: limit, lambda size: (size - 1) * paid * (1 + 4 * EPS), inf, sizes
        )

    def _through(self, run: int) -> bool:
        """Go through one run; whether the bounds are of use."""
        end, cost = self.ends[run], self.costs[run]
        done = self.found[-1].last if self.found else 0
        begun, looked, limit, soon = done, False, None, False
        ahead: tuple[Floats, list[int]] | None = None
        while done < end:
            here, left = done + 1, end - done
            if here == 1:
                self._add(Stretch(1, 1, np.zeros_like(cost), None), self._closed(cost))
                done = 1
                continue
            cheap = left * self.size**2 <= EXPLICIT_WORK
            few = 2 if not cheap else _FEW_LEFT if self.paid[run] else _FEW_UNPAID
            if here >= self.side.settled and left > few:
                if not looked and (self.alike or not cheap or self._calm(done)):
                    (limit, sizes), looked = self._limit(run), True
                    single = list(sizes) == [1]
                    soon = cheap and self.alike and single and self._converges(limit, left // 2)
                    if limit is not None:
                        ahead = self._in_use(*self.adds_at(limit, self.paid[run], sizes))
                        # Of a long run only the entries before the limit holds are left.
                        self.used = self.used if cheap else list(sizes)
                if limit is not None and ahead is not None:
                    near = cheap and not soon
                    if self._may_take(here, begun, limit, max(ahead[1], default=1), near):
                        beyond = dict.fromkeys(ahead[1], limit)
                        self._add(Stretch(here, end, ahead[0], limit, beyond), limit)
                        done = end
                        continue
            endless = here >= self.side.settled and looked and limit is None
            endless = endless and (not cheap or self._forgets_nothing(done, left))
            if endless or self.walked * self.size**2 > 20 * EXPLICIT_WORK:
                if not self.side.paid:
                    return False
                self._pay_for_all(run, here)
                done = end
                continue
            if not self._along(run, here, limit):
                every = here - begun <= _FIRST[len(self.ends) > 1] or here % _LOOK == 0
                every = every and (cheap or limit is None)
                adds, sizes = self._in_use(*self._adds_of(here, every, cheap or limit is None))
                beyond = {size: self.met[here - size] for size in sizes}
                variation = self._closed(plus(cost, adds) * self.outside)
                self._add(Stretch(here, here, adds, self.met[done], beyond), variation)
            self.walked += self.found[-1].last - done
            done = self.found[-1].last
            if not float(self.met[done][self.counted].max(initial=0.0)) <= self.most:
                return False
        return True

    def _add(self, stretch: Stretch, variation: Floats) -> None:
        self.found.append(stretch)
        for entry in range(max(stretch.first, stretch.last - self.side.sizes[-1]), stretch.last):
            self.met[entry] = variation
        self.met[stretch.last] = variation

    def _closed(self, variation: Floats) -> Floats:
        """The triangle closure; infinite where a way between values that never meet was shorter."""
        closed = closure(variation)
        return closed if self._near_enough(closed) else np.where(self.counted, inf, closed)

    def _near_enough(self, variation: Floats) -> bool:
        """Whether no way over values that are never possible together, FAR or longer, was taken."""
        if self.side.together is None:
            return True
        return bool(variation[self.counted].max(initial=0.0) <= FAR / 2)

    def _limit(self, run: int) -> tuple[Floats | None, Sequence[int]]:
        """A matrix C with cost + adds(C) <= C, for entries that pay alike, and its blocks.

        A limit for single entries, or for some blocks, is one for all blocks, whose least is no
        larger. Blocks have programmes for all pairs, one for each size, so only those are tried by
        which some pair gains there. Of two limits the least, pair by pair, is a limit.
        """
        every, few = self.side.sizes, [1]
        limit = self._certified(run, few)
        if limit is None:
            few = _doubling(every)
            limit = self._certified(run, few)
        if limit is None:
            return None, few
        paid = self.paid[run]
        alone, _ = self.adds_at(limit, paid, few)
        blocks, taken = self.adds_at(limit, paid, every)
        gain = float((alone - blocks)[self.counted].max(initial=0.0))
        if gain <= _GAIN * paid:
            return limit, few
        sizes = sorted({1, *self._in_use(blocks, taken)[1]})
        several = self._certified(run, sizes, limit)
        return (limit, few) if several is None else (np.minimum(limit, several), sizes)

    def _certified(
        self, run: int, sizes: Sequence[int], near: Floats | None = None
    ) -> Floats | None:
        """A limit with blocks of these sizes, from ``near`` on; ``None`` if the search fails."""
        cost = self.costs[run]
        steps = _Alike(self, self.paid[run], sizes)
        start, near = self.met[max(self.met)], self.near if near is None else near
        start = np.maximum(start, steps.guess(cost) if near is None else near)
        if self.side.together is not None:
            start = np.where(self.counted, start, FAR) * self.outside
        most = self.most if self.side.together is None else LARGEST
        if not cost.any():  # nothing is paid: the variation does not grow
            most = min(most, 2 * float(start.max()))
        limit = certificate(steps, cost, most, self.slack, start)
        return limit if limit is not None and self._near_enough(limit) else None

    def _converges(self, limit: Floats | None, entries: int) -> bool:
        return converges(_Alike(self, self.paid[0], [1]), limit, entries)

    def _in_use(self, adds: Floats, taken: NDArray[np.int64]) -> tuple[Floats, list[int]]:
        return adds, [int(size) for size in np.unique(taken[self.counted]) if size > 0]

    def _may_take(self, here: int, begun: int, limit: Floats, reach: int, near: bool) -> bool:
        """Whether the limit bounds the rest of a run: the entries just before are within it.

        With ``near`` only where the last one is close to it, so that nothing is lost.
        """
        if here < self.side.settled + reach - 1 or (begun and here - begun < reach):
            return False
        recent = (self.met[entry] for entry in range(max(1, here - reach), here))
        if not all(np.all((own <= limit) | ~self.counted) for own in recent):
            return False
        room = _NEAR * float(limit[self.counted].max(initial=0.0))
        return not near or bool(np.all((self.met[here - 1] >= limit - room) | ~self.counted))

    def _forgets_nothing(self, done: int, left: int) -> bool:
        """Whether some pair of values still shows all that was paid, after many entries.

        Then the last entry of the series loses everything, whatever is computed for others.
        """
        if not self.side.paid or done < _MANY or left < _MANY or len(self.ends) > 1:
            return False
        adds = self.found[-1].steps[self.counted].max(initial=0.0)
        return bool(adds >= self._total(done - 1) * (1 - _GAIN))

    def _pay_for_all(self, run: int, here: int) -> None:
        """Nothing is forgotten: every entry of the side is paid for."""
        total = self._total(self.ends[run] - 1) * self.outside
        self._add(
            Stretch(here, self.ends[run], total, None), (total + self.costs[run]) * (1 + 2 * EPS)
        )

    def _along(self, run: int, here: int, limit: Floats | None) -> bool:
        """Entries from this one on, by one compiled loop; whether that pays and blocks do not."""
        side, left = self.side, self.ends[run] - here + 1
        if not self.by_loop:
            return False
        if here < side.settled:
            if side.own is None or not side.own.may_follow:
                return False
            kernels, error = side.own.kernels[here - 2 : here - 2 + left], side.own.error
            count = len(kernels)
        else:
            steps = side.steps(FOREVER, 1)
            if not (isinstance(steps, PairSteps) and steps.may_follow):
                return False
            if side.steps(here, 1) is not steps:  # entries have kernels in turn
                return False
            kernels, error, count = steps.kernels[0][None], steps.error, left - 2
        count = min(count, 20 * EXPLICIT_WORK // self.size**2 - self.walked)
        if count < _MANY:
            return False
        cheap = EXPLICIT_WORK // self.size**2 - (left - count)
        near = 0.0 if limit is None else _NEAR * float(limit.max())
        variation = self.met[here - 1]
        along = followed(
            kernels, error, count, self.costs[run], variation, LARGEST, limit, near, cheap
        )
        return self._kept(here, along)

    def _kept(self, here: int, along: Followed) -> bool:
        """Keep what the compiled loop found, unless blocks are better at its last entry."""
        last = here + len(along.steps) - 1
        if not all(self._near_enough(own) for own in (*along.met, along.after)):
            self.by_loop = False
            return False
        for place, met in enumerate(along.met):
            self.met[here - 1 + place] = met
        if len(self.side.sizes) > 1:
            _, taken = self._adds_of(last, every=True)
            if np.any(taken[self.counted] > 1):
                self.by_loop = False
                return False
        each = zip(along.steps, along.met, along.trees, strict=True)
        for entry, (steps, met, trees) in enumerate(each, here):
            if not np.isfinite(steps).all():
                return entry > here
            self.found.append(Stretch(entry, entry, steps, met, {1: met}, trees))
        self.met[last] = along.after
        return True


class _Alike:
    """The steps of entries that are alike and pay the same: the least over blocks."""

    def __init__(self, sweep: _Sweep, paid: float, sizes: Sequence[int]) -> None:
        self._sweep, self._paid, self._sizes = sweep, paid, sizes
        self._taken = np.zeros((sweep.size, sweep.size), dtype=np.int64)
        self.exact = any(isinstance(sweep.side.steps(FOREVER, size), OpenSteps) for size in sizes)

    def __call__(self, limit: Floats) -> Floats:
        """The matrix of steps at the variation ``limit``."""
        adds, self._taken = self._sweep.adds_at(limit, self._paid, self._sizes)
        return adds

    def derivative(self) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
        """D steps(x, x') / d limit(y, z) at the last limit, as rows, columns and values."""
        taken = self._taken.ravel()
        found: list[tuple[Any, Any, Any]] = [(np.zeros(0, int), np.zeros(0, int), np.zeros(0))]
        for size in np.unique(taken[taken > 0]).tolist():
            steps = self._sweep.side.steps(FOREVER, size)
            assert steps is not None
            rows, columns, values = steps.derivative()
            kept = taken[rows] == size
            found.append((rows[kept], columns[kept], values[kept]))
        rows, columns, values = (np.concatenate(each) for each in zip(*found, strict=True))
        return rows, columns, values

    def guess(self, cost: Floats) -> Floats:
        """Where to begin the search of a limit."""
        first = self._sweep.side.steps(FOREVER, 1)
        if first is None or self._sweep.side.together is not None:
            return cost
        return first.guess(cost)


def _doubling(sizes: Sequence[int]) -> list[int]:
    """Some of the sizes of blocks, each at least twice the one before."""
    chosen = [1]
    for size in sizes:
        if size >= 2 * chosen[-1]:
            chosen.append(size)
    return chosen


def _may_gain(steps: Steps, variation: Floats, spent: float, least: Floats) -> bool:
    """Whether a block may be below the least so far, by a quick lower bound on its steps."""
    low = getattr(steps, "least", None)
    return low is None or bool(np.any(spent + low(variation) < least * (1 - _GAIN)))


def stretches_of_both(
    left: Sequence[Stretch], right: Sequence[Stretch], runs: CostRuns, marks: Iterable[int] = ()
) -> Iterator[tuple[int, int, Floats, Floats, Floats]]:
    """First and last entry of every stretch, the cost of an entry there, and what each side adds.

    ``right`` counts entries from the right end; a new stretch begins at each of ``marks`` too.
    """
    ends = list(accumulate(count for count, _ in runs))
    length = ends[-1]
    firsts = {1, *(end + 1 for end in ends[:-1]), *(stretch.first for stretch in left)}
    firsts |= {length + 1 - stretch.last for stretch in right}
    firsts |= {mark for mark in marks if mark <= length}
    ours, theirs = 0, len(right) - 1
    for first, after in pairwise([*sorted(firsts), length + 1]):
        while left[ours].last < first:
            ours += 1
        while right[theirs].first > length + 1 - first:
            theirs -= 1
        cost = runs[bisect_left(ends, first)][1]
        yield first, after - 1, cost, left[ours].steps, right[theirs].steps


@dataclass
class PartCurve:
    """The curve of one part, for series of one length.

    What its sides add is stored for a few profiles: used again by `record`, and as starting points
    of the search for profiles close to these.
    """

    part: Part
    length: int
    _known: dict[tuple[int, bytes], list[Stretch]] = field(default_factory=dict)

    def losses(self, runs: CostRuns, most: float = LARGEST) -> list[tuple[int, int, Floats]] | None:
        """The loss of every pair of states at every stretch of entries; ``None`` if of no use.

        Pairs of values that an entry cannot have lose nothing.
        """
        ours = self._swept(0, runs, most)
        theirs = None if ours is None else self._swept(1, runs[::-1], most)
        if ours is None or theirs is None:
            return None
        if self.part.window > 1:
            return self._of_windows(ours, theirs, runs)
        possible, rows = self.part.possible, []
        several = possible[-self.part.cycle :]
        together = np.any([np.outer(here, here) for here in several], axis=0)
        marks = range(1, len(possible) + 1)
        for first, last, cost, before, after in stretches_of_both(ours, theirs, runs, marks):
            here = possible[min(first, len(possible)) - 1]
            both = together if first > len(possible) - self.part.cycle else np.outer(here, here)
            loss = (cost + before + after) * (1 + 8 * EPS)
            rows.append((first, last, np.where(both, loss, 0.0)))
        return rows

    def _of_windows(
        self, ours: list[Stretch], theirs: list[Stretch], runs: CostRuns
    ) -> list[tuple[int, int, Floats]]:
        """The same for the values of several entries in a row: one bound for all pairs.

        The first entry of the window with all that lies left of it, the last with all right of it,
        and the cost of each entry between are exchanged one by one; two events about the window are
        mixtures of its values.
        """
        window, ends = self.part.window, list(accumulate(count for count, _ in runs))
        outside = off_diagonal(len(runs[0][1]))
        last = self.length - window + 1
        marks = {1, *(stretch.first for stretch in ours)}
        marks |= {last + 1 - stretch.last + 1 for stretch in theirs}
        marks |= {end + n for end in ends for n in (0, 1)}
        # Between such places what the entries inside spend is linear, so its ends have the most.
        marks |= {end - window + n for end in ends for n in (1, 2, 3)}
        marks |= {n - 1 for n in marks} | {last}
        paid = [float(cost.max()) for _, cost in runs]
        totals = [0.0, *accumulate(count * b for (count, _), b in zip(runs, paid, strict=True))]

        def total(entry: int) -> float:
            run = bisect_left(ends, entry)
            return totals[run] + (entry - (ends[run - 1] if run else 0)) * paid[run] if entry else 0

        rows, ordered = [], sorted(mark for mark in marks if 1 <= mark <= last)
        for first, after in pairwise([*ordered, last + 1]):
            a = ours[bisect_left(ours, first + 1, key=lambda s: s.first) - 1].steps
            end = self.length + 1 - (first + window - 1)
            z = theirs[bisect_left(theirs, end + 1, key=lambda s: s.first) - 1].steps
            inside = total(first + window - 1) - total(first - 1)
            value = (inside + float(a.max()) + float(z.max())) * (1 + 32 * len(runs) * EPS)
            rows.append((first, after - 1, value * outside))
        return rows

    def _swept(self, which: int, runs: CostRuns, most: float) -> list[Stretch] | None:
        """What the left (0) or right (1) side adds, starting from the stored profiles."""
        both = self.part.left, self.part.right
        if len(runs) > 1:
            return swept(both[which], runs, most)
        key = which, runs[0][1].tobytes()
        if key not in self._known:
            near = self._near(which, runs[0][1], most)
            alike = all(side.settled <= 2 for side in both) and len(self.part.possible) == 1
            stretches = swept(both[which], runs, most, near, alike=alike)
            if stretches is None:
                return None
            if len(self._known) >= _MOST_KNOWN:
                del self._known[next(iter(self._known))]
            self._known[key] = stretches
        return self._known[key]

    def _near(self, which: int, cost: Floats, most: float) -> Floats | None:
        """The limit of the next smaller stored profile, extrapolated; within ``most``.

        There can be several limits. From below the search finds the least.
        """
        largest = float(cost.max())
        known = sorted(
            (
                (log(np.frombuffer(other).max()), stretches[-1].limit)
                for (side, other), stretches in self._known.items()
                if side == which
                and stretches[-1].limit is not None
                and 0 < float(np.frombuffer(other).max()) <= largest
            ),
            key=lambda one: one[0],
        )
        if not known:
            return None
        (size, limit), more = known[-1], log(float(cost.max())) - known[-1][0]
        power = np.ones_like(limit)
        if len(known) > 1 and known[-2][0] != size:
            ratio = np.divide(limit, known[-2][1], out=power.copy(), where=known[-2][1] > 0)
            power = np.clip(np.log(np.maximum(ratio, EPS)) / (size - known[-2][0]), 0.5, 2.0)
        grown: Floats = limit * np.exp(more * power)
        return grown * min(1.0, _WITHIN * most / float(grown.max()))

    def loss(self, runs: CostRuns, most: float = LARGEST) -> EntryLoss:
        """The largest loss, where it is, and the losses of all pairs there."""
        whole, share = everything(runs), self.part.share
        beside = self.part.window == 1 or self.part.window < self.length
        rows = self.losses(runs, most) if beside else None
        if rows is None:
            return EntryLoss(whole * share * (1 + 2 * EPS), 1)
        first, last, losses = max(rows, key=lambda row: float(row[2].max()))
        value = min(float(losses.max()), whole) * share
        return EntryLoss(value * (1 + 2 * EPS), (first + last) // 2, np.minimum(losses, whole))

    def solve(
        self,
        metric: Floats,
        epsilon: float,
        most: float = inf,
        progress: Progress | None = None,
    ) -> tuple[float, EntryLoss]:
        """The largest b reached for which the cost ``b metric`` per entry loses at most epsilon.

        The loss was computed for the b that is returned, and is at most epsilon. Nothing above
        ``most`` is tried.
        """

        def loss_at(b: float) -> tuple[float, EntryLoss]:
            loss = self.loss([(self.length, b * metric)], 4 * epsilon + 1)
            return loss.value, loss

        least = min(most, epsilon / self.length * (1 - 1e-12))
        found = largest_within(
            loss_at, epsilon, epsilon * _BEGIN, most, PRECISION, progress=progress
        )
        return (least, loss_at(least)[1]) if found is None or found[0] < least else found

    def record(self, runs: CostRuns) -> dict[str, Any] | None:
        """Proof of the losses: limits, blocks and plans of each side; ``None`` without one."""
        record = {}
        for which, name in enumerate(("left", "right")):
            own = runs if which == 0 else runs[::-1]
            stretches = self._swept(which, own, LARGEST)
            if stretches is None:
                return None
            side = (self.part.left, self.part.right)[which]
            record[name] = {
                "limits": [
                    {
                        "first": stretch.first,
                        "last": stretch.last,
                        "limit": None if stretch.limit is None else stretch.limit.tolist(),
                    }
                    for stretch in stretches
                    if stretch.last > stretch.first
                ],
                "blocks": [
                    row for stretch in stretches[1:] if (row := _blocks(side, stretch)) is not None
                ],
                "plans": packed(_bases(side, stretches)),
            }
        return record


def loss(part: Part, runs: CostRuns) -> EntryLoss:
    """The largest loss of an entry of a series of these costs."""
    return PartCurve(part, sum(count for count, _ in runs)).loss(runs)


def everything(runs: CostRuns) -> float:
    """What all entries cost together, rounded up: exchanging all of them costs no more."""
    total = sum(count * float(cost.max()) for count, cost in runs)
    return total * (1 + (len(runs) + 2) * 2 * EPS)


def _blocks(side: Side, stretch: Stretch) -> list[Any] | None:
    """The first entry, and the sizes of blocks of each kind; ``None`` for one programme."""
    entry = stretch.first if stretch.last == stretch.first else FOREVER
    found: dict[str, list[int]] = {}
    for size in stretch.beyond:
        steps = side.steps(entry, size)
        kind = "plans" if isinstance(steps, PairSteps) else getattr(steps, "kind", "")
        found.setdefault(kind, []).append(size)
    return None if found == {"plans": [1]} else [stretch.first, found]


def _bases(side: Side, stretches: Sequence[Stretch]) -> Iterator[bytes]:
    """The bases of the plans that give the steps of all entries but the first."""
    for stretch in stretches[1:]:
        entry = stretch.first if stretch.last == stretch.first else FOREVER
        for size, variation in stretch.beyond.items():
            steps = side.steps(entry, size)
            if not isinstance(steps, PairSteps):
                continue  # a formula, not a programme
            if stretch.trees is not None:
                trees = [bipartite(steps.kernels[0], stretch.trees)]
            else:
                steps(variation)
                trees = steps.trees
            yield bases_in(steps.kernels, trees)
