"""The pairwise curve of one chain: from the cost of entries to the loss of pairs of values.

A *cost* is a matrix over pairs of states: replacing an entry x by x' moves the log-likelihood of
the output by at most cost(x, x'). Laplace noise of scale s on a sum of contributions V costs sum_j
|V_j(x) - V_j(x')| / s; several releases add up, entry by entry. The theorem and its proof are in
`pufferkit.influence.curve.pairs`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pufferkit.beliefs.chain_class import Member
from pufferkit.checks import Bools, Floats
from pufferkit.influence.curve.pair_plans import bipartite
from pufferkit.influence.curve.pair_sides import (
    EXPLICIT_WORK,
    PairSide,
    known_sides,
    takes_long,
)
from pufferkit.influence.curve.pairs import (
    LARGEST,
    SLACK,
    Followed,
    PairSteps,
    StepsInRow,
    certificate,
    closure,
    converges,
    followed,
    off_diagonal,
)
from pufferkit.influence.curve.plan_bases import bases_in, packed
from pufferkit.influence.curve.sweep import EntryLoss
from pufferkit.influence.progress import Progress
from pufferkit.rounding import EPS, largest_within

CostRuns = Sequence[tuple[int, Floats]]
"""Numbers of consecutive entries, and the cost of each of them."""

_NEAR = 1e-5
WITHIN_EPSILON = 2e-5
"""A search ends when the loss is below epsilon by no more than this share of it."""
_MOST_KNOWN = 8
_WITHIN = 0.98
_OF_USE = 0.1
_MANY = 16
_TOO_DENSE = "one bound for all pairs of values: this chain has too many transitions for each pair"


@dataclass(frozen=True)
class Stretch:
    """Entries ``first`` ... ``last`` to which a side adds at most ``steps``.

    ``limit`` is the variation beyond, which implies the steps; ``trees`` are those of the
    plans, if they were stored.
    """

    first: int
    last: int
    steps: Floats
    limit: Floats | None
    trees: NDArray[np.int16] | None = None


def swept(
    side: PairSide,
    runs: CostRuns,
    most: float,
    near: Floats | None = None,
    *,
    alike: bool = True,
) -> list[Stretch] | None:
    """What a side adds to every entry, counted from its end; ``None`` without a bound.

    Entries are computed one by one while that is cheap or the variation has not converged;
    the rest of a run is bounded at once by a certificate. Of a long series of one cost whose
    entries are alike, all but the first are: those in its middle are at the limit, and none
    loses more.

    Parameters
    ----------
    side
        The kernels.
    runs
        Numbers of consecutive entries, and the cost of each pair of states there.
    most
        Bounds above this are of no use.
    near
        A guess of the limit of the variation of a long run, where the search begins.
    alike
        Whether no entry has a kernel of its own, on this side and on the other.
    """
    size = len(runs[0][1])
    raised = (1 + 2 * EPS) * off_diagonal(size)
    slack = SLACK * max(float(cost.max()) for _, cost in runs) or SLACK
    most = min(most, LARGEST)
    if max(float(cost.max()) for _, cost in runs) > most:
        return None
    nothing = np.zeros((size, size))
    stretches: list[Stretch] = []
    variation, done, visited = nothing, 0, 0
    for count, cost in runs:
        end, limit, looked, soon = done + count, None, False, False
        while done < end:
            here = done + 1
            if here == 1:
                stretches.append(Stretch(1, 1, nothing, None))
                variation, done = closure(cost), 1
                continue
            steps = side.at(here)
            if steps is None:
                return None
            left = end - done
            if here - 2 >= len(side.first) and left > 2:
                if not looked:
                    start = np.maximum(variation, steps.guess(cost) if near is None else near)
                    limit, looked = certificate(steps, cost, most, slack, start), True
                    few = alike and len(runs) == 1 and left * size**2 <= EXPLICIT_WORK
                    soon = few and converges(steps, limit, left // 2)
                cheap = left * size**2 <= EXPLICIT_WORK and not soon
                if limit is not None and _may_take_limit(variation, limit, cheap):
                    stretches.append(Stretch(here, end, steps(limit), limit))
                    variation, done = limit, end
                    continue
                if limit is None and not cheap:
                    return None
            room = 20 * EXPLICIT_WORK // size**2 - visited
            along = _along(side, here, left, room, cost, variation, most, limit)
            if along is None:
                own = steps(variation)
                stretches.append(Stretch(here, here, own, variation))
                variation = closure((cost + own) * raised)
            else:
                each = zip(along.steps, along.met, along.trees, strict=True)
                stretches += [Stretch(n, n, *one) for n, one in enumerate(each, here)]
                variation = along.after
            visited += stretches[-1].last - done
            done = stretches[-1].last
            if float(variation.max()) > most or visited * size**2 > 20 * EXPLICIT_WORK:
                return None
    return stretches


def _along(
    side: PairSide,
    here: int,
    left: int,
    room: int,
    cost: Floats,
    variation: Floats,
    most: float,
    limit: Floats | None,
) -> Followed | None:
    """Entries from this one on, by one compiled loop; ``None`` if that does not pay."""
    if here - 2 < len(side.first):
        if not (isinstance(side.first, StepsInRow) and side.first.may_follow):
            return None
        kernels, error = side.first.kernels[here - 2 : here - 2 + left], side.first.error
        count = len(kernels)
    else:
        if not (isinstance(side.then, PairSteps) and side.then.may_follow):
            return None
        kernels, error, count = side.then.kernels[0][None], side.then.error, left - 2
    count = min(count, room)
    if count < _MANY:
        return None
    cheap = EXPLICIT_WORK // len(cost) ** 2 - (left - count)
    near = 0.0 if limit is None else _NEAR * float(limit.max())
    return followed(kernels, error, count, cost, variation, most, limit, near, cheap)


def _may_take_limit(variation: Floats, limit: Floats, cheap: bool) -> bool:
    """Whether the limit may replace later entries: it bounds this one and is not much larger."""
    if not bool(np.all(variation <= limit)):
        return False
    return not cheap or bool(np.all(variation >= limit - _NEAR * float(limit.max())))


def stretches_of_both(
    left: Sequence[Stretch], right: Sequence[Stretch], runs: CostRuns, marks: Iterable[int] = ()
) -> Iterator[tuple[int, int, Floats, Floats]]:
    """First and last entry of every stretch, the cost of an entry there, and both sides' steps.

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
        steps = left[ours].steps + right[theirs].steps
        yield first, after - 1, runs[bisect_left(ends, first)][1], steps


def pair_losses(
    left: Sequence[Stretch],
    right: Sequence[Stretch],
    runs: CostRuns,
    supports: Sequence[Bools],
) -> list[tuple[int, int, Floats]]:
    """First and last entry of every stretch, and the loss of every pair of states there.

    Pairs with an impossible state lose nothing. ``right`` counts entries from the right end.
    """
    rows = []
    marks = range(1, len(supports) + 1)
    for first, last, cost, steps in stretches_of_both(left, right, runs, marks):
        here = supports[min(first, len(supports)) - 1]
        loss = (cost + steps) * (1 + 8 * EPS)
        rows.append((first, last, np.where(here[:, None] & here[None, :], loss, 0.0)))
    return rows


def _bases(side: PairSide, stretches: Sequence[Stretch]) -> Iterator[bytes]:
    """The bases of the plans that give the steps of all entries but the first."""
    for stretch in stretches:
        if stretch.limit is None:
            continue
        if stretch.trees is not None and isinstance(side.first, StepsInRow):
            place = min(stretch.first - 2, len(side.first) - 1)
            kernel = side.first.kernels[place]
            yield bases_in([kernel], [bipartite(kernel, stretch.trees)])
            continue
        steps = side.at(stretch.first)
        if not isinstance(steps, PairSteps):
            raise TypeError("only programmes have bases")
        if stretch.trees is None:
            steps(stretch.limit)
            yield bases_in(steps.kernels, steps.trees)
        else:
            yield bases_in(steps.kernels, [bipartite(steps.kernels[0], stretch.trees)])


class PairCurve:
    """The pairwise curve of one chain of a class.

    The steps of the sides are stored for a few profiles. They are used again by `record`, and as
    starting points of the search for profiles close to these. ``often`` says that the curve is one
    of many, so that waiting for compiled loops pays.
    """

    def __init__(self, member: Member, length: int, *, often: bool = False) -> None:
        self.length = length
        self.notes: tuple[str, ...] = ()
        if takes_long(member):
            self._sides, self.notes = None, (_TOO_DENSE,)
        else:
            self._sides = known_sides(member, length, often=often)
        self._known: dict[tuple[int, bytes], list[Stretch]] = {}

    @property
    def serves(self) -> bool:
        """Whether the kernels are known."""
        return self._sides is not None

    def losses(self, runs: CostRuns, most: float = LARGEST) -> list[tuple[int, int, Floats]] | None:
        """The loss of every pair of states at every stretch of entries; ``None`` if no bound."""
        if self._sides is None:
            return None
        ours = self._swept(0, runs, most)
        if ours is None:
            return None
        theirs = self._swept(1, runs[::-1], most)
        return None if theirs is None else pair_losses(ours, theirs, runs, self._sides[2])

    def _swept(self, which: int, runs: CostRuns, most: float) -> list[Stretch] | None:
        """What the left (0) or right (1) side adds, starting from the stored profiles."""
        assert self._sides is not None
        both = self._sides[:2]
        if len(runs) > 1:
            return swept(both[which], runs, most)
        key = which, runs[0][1].tobytes()
        if key not in self._known:
            near = self._near(which, runs[0][1], most)
            alike = not any(len(side.first) for side in both)
            stretches = swept(both[which], runs, most, near, alike=alike)
            if stretches is None:
                return None
            if len(self._known) >= _MOST_KNOWN:
                del self._known[next(iter(self._known))]
            self._known[key] = stretches
        return self._known[key]

    def _near(self, which: int, cost: Floats, most: float) -> Floats | None:
        """The limit of the last stored profile, extrapolated; within ``most``."""
        known = [
            (log(np.frombuffer(other).max()), stretches[-1].limit)
            for (side, other), stretches in self._known.items()
            if side == which and stretches[-1].limit is not None and any(other)
        ]
        if not known or not cost.any():
            return None
        (size, limit), more = known[-1], log(float(cost.max())) - known[-1][0]
        power = np.ones_like(limit)
        if len(known) > 1 and known[-2][0] != size:
            ratio = np.divide(limit, known[-2][1], out=power.copy(), where=known[-2][1] > 0)
            power = np.clip(np.log(np.maximum(ratio, EPS)) / (size - known[-2][0]), 0.5, 2.0)
        grown: Floats = limit * np.exp(more * power)
        return grown * min(1.0, _WITHIN * most / float(grown.max()))

    def record(self, cost: Floats) -> dict[str, Any] | None:
        """Verification data: from which entry on which limit holds, to the left and the right.

        ``None`` for a side that is computed entry by entry to its end. ``plans`` has the bases of
        the plans behind every step of a side, entry by entry and then at the limit; ``None`` if
        they are too many.
        """
        if self._sides is None:
            return None
        record: dict[str, Any] = {"plans": {}}
        runs = [(self.length, cost)]
        for which, name in enumerate(("left", "right")):
            stretches = self._swept(which, runs, LARGEST)
            if stretches is None:
                return None
            repeated = [s for s in stretches if s.last > s.first and s.limit is not None]
            record[name] = None
            for stretch in repeated:
                limit = [] if stretch.limit is None else stretch.limit.tolist()
                record[name] = {"from": stretch.first, "limit": limit}
            record["plans"][name] = packed(_bases(self._sides[:2][which], stretches))
        return record

    def loss(self, runs: CostRuns, most: float = LARGEST) -> EntryLoss | None:
        """The largest loss, where it is, and the losses of all pairs there."""
        rows = self.losses(runs, most)
        if rows is None:
            return None
        first, last, losses = max(rows, key=lambda row: float(row[2].max()))
        return EntryLoss(float(losses.max()), (first + last) // 2, None, None, losses)

    def solve(
        self,
        metric: Floats,
        epsilon: float,
        start: float,
        most: float = np.inf,
        progress: Progress | None = None,
    ) -> tuple[float, EntryLoss] | None:
        """The largest b reached for which the cost ``b metric`` per entry loses at most epsilon.

        The loss was computed for the b that is returned, and is at most epsilon. ``None`` if the
        search has no result. Nothing above ``most`` is tried.
        """

        def loss_at(b: float) -> tuple[float, EntryLoss] | None:
            loss = self.loss([(self.length, b * metric)], epsilon)
            return None if loss is None else (loss.value, loss)

        # Where the search begins, the scalar curve has a bound already.
        least = start * _OF_USE
        return largest_within(
            loss_at, epsilon, start, most, WITHIN_EPSILON, least=least, progress=progress
        )
