"""The two sides of every entry of a chain, pair by pair of its states.

To the right the kernel is P. To the left it is R_i(x, u) = P(X_{i-1} = u | X_i = x), which depends on
the start as in `pufferkit.influence.curve.starts`: one kernel if the chain is stationary, one for every
entry until a fixed initial distribution is forgotten, and all reweightings at once for any start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf

import numpy as np
from numpy.typing import NDArray

from pufferkit.beliefs.chain_class import Member
from pufferkit.beliefs.structure import Bools
from pufferkit.checks import Floats
from pufferkit.influence.curve.pairs import (
    SLACK,
    PairSteps,
    Steps,
    certificate,
    closure,
    off_diagonal,
)
from pufferkit.influence.curve.steps import contracted
from pufferkit.influence.quilts.chains import (
    SETTLED,
    AnyStartInfluence,
    GivenStartInfluence,
    StationaryInfluence,
    influence_of,
)
from pufferkit.rounding import EPS

MOST = 600.0
"""Variations above this are of no use: e to that power is near the largest float."""

EXPLICIT_WORK = 50_000
"""Entries are followed one by one while entries x states^2 stays below this."""

_MOST_ANY_START = 40
_NEAR = 1e-5


class AnyStartSteps:
    """Steps to the left over every initial distribution (PAIRS Theorem 5).

    The kernel to the left is R(x, u) proportional to m(u) P(u, x) with any m, and the largest ratio
    over all m has two atoms u, u':

        max over u, u' of s,   tanh(s / 4) = tanh(D / 4) tanh(limit(u, u') / 4),
        D = log P(u, x) P(u', x') / (P(u, x') P(u', x)),  the pairs with D > 0.
    """

    def __init__(self, transition: Floats, before: Bools, here: Bools, error: float) -> None:
        size = len(transition)
        self.size = size
        with np.errstate(divide="ignore"):
            logs = np.where(before[:, None], np.log(transition), -inf)
        # Entry [x, x', u, u']: what m can make of the two columns x, x' on the two atoms u, u'.
        above = logs.T[:, None, :, None] + logs.T[None, :, None, :]
        below = logs.T[None, :, :, None] + logs.T[:, None, None, :]
        with np.errstate(invalid="ignore"):
            diameter = np.where(above == -inf, 0.0, above - below)
        diameter = np.maximum(diameter, 0.0) + (diameter > 0) * 2 * error
        inside = here[:, None] & here[None, :] & ~np.eye(size, dtype=bool)
        diameter[~inside] = 0.0
        self.rate: Floats = np.tanh(diameter / 4).reshape(size * size, size * size)
        self._best: NDArray[np.intp] = np.zeros(size * size, dtype=np.intp)
        self._values: Floats = np.zeros(size * size)
        self._limit: Floats = np.zeros(size * size)

    def __call__(self, limit: Floats) -> Floats:
        self._limit = limit.ravel()
        products = self.rate * np.tanh(self._limit / 4)[None, :]
        self._best = products.argmax(axis=1)
        rows = np.arange(len(products))
        values = np.empty(len(products))
        for row in rows:
            rate, variation = self.rate[row, self._best[row]], self._limit[self._best[row]]
            diameter = inf if rate >= 1 else 4 * np.arctanh(rate)
            values[row] = contracted(float(diameter), float(variation), 4)
        self._values = values
        return values.reshape(self.size, self.size)

    def derivative(self) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
        rows = np.flatnonzero(self._values > 0)
        columns = self._best[rows]
        rate = self.rate[rows, columns]
        slopes = rate * np.cosh(self._values[rows] / 4) ** 2 / np.cosh(self._limit[columns] / 4) ** 2
        return rows, columns, slopes


@dataclass(frozen=True)
class PairSide:
    """One side of every entry, entries counted from the end that the side runs towards.

    Attributes
    ----------
    first
        Steps of entries 2, 3, ..., each its own.
    then
        Steps of all later entries; ``None`` if they never become the same.
    """

    first: Sequence[Steps]
    then: Steps | None

    def at(self, entry: int) -> Steps | None:
        """Steps from an entry, 2 or later, to the one before it on this side."""
        return self.first[entry - 2] if entry - 2 < len(self.first) else self.then


@dataclass(frozen=True)
class Stretch:
    """Entries ``first`` ... ``last`` to which a side adds at most ``steps``.

    ``limit`` is the variation beyond, from which the steps follow.
    """

    first: int
    last: int
    steps: Floats
    limit: Floats | None


def pair_sides(member: Member, length: int) -> tuple[PairSide, PairSide, list[Bools]] | None:
    """Left and right side of the entries, and the states of entries 1, 2, ... (the last repeats).

    ``None`` where the pairwise curve does not serve: probabilities lost to underflow, too many states
    for any start, or a start that is not forgotten in time.
    """
    source = influence_of(member, "definition", length)
    size = len(member.chain)
    error = source.powers.rounding(1)
    right = PairSide([], PairSteps([member.chain.transition], error))
    if isinstance(source, StationaryInfluence):
        if member.chain.has_lost_states:
            return None
        left = _backward(member.chain.transition, member.chain.initial, source.support(1), error)
        return PairSide([], left), right, [source.support(1)]
    if isinstance(source, AnyStartInfluence):
        if size > _MOST_ANY_START:
            return None
        supports = [source.support(n) for n in range(1, min(length, source.stretches) + 1)]
        steps = [
            AnyStartSteps(member.chain.transition, before, here, error)
            for before, here in pairwise([*supports, supports[-1]])
        ]
        return PairSide(steps[:-1], steps[-1]), right, supports
    assert isinstance(source, GivenStartInfluence)
    own = min(length, source.settled + 1)
    if own * size**2 > EXPLICIT_WORK or any(source.lost_at(n) for n in range(1, own + 1)):
        return None
    if source.cycle > 1 and length > own:
        return None
    supports = [source.support(n) for n in range(1, own + 1)]
    steps_left: list[Steps] = [
        _backward(
            member.chain.transition,
            source.law(n - 1),
            source.support(n),
            error + source.prior(n)[1] + SETTLED,
        )
        for n in range(2, own + 1)
    ]
    then = steps_left.pop() if length > own and steps_left else None
    if length > own and then is None:
        then = _backward(member.chain.transition, source.law(2), source.support(2), error + SETTLED)
    return PairSide(steps_left, then), right, supports


def _backward(transition: Floats, before: Floats, here: Bools, error: float) -> PairSteps:
    """P(X_{i-1} = u | X_i = x) for X_{i-1} distributed as ``before``.

    Values that X_i cannot take get the row of one that it can: nothing is told about them.
    """
    joint = (before[:, None] * transition).T
    joint[~here] = joint[int(np.flatnonzero(here)[0])]
    kernel = joint / joint.sum(axis=1, keepdims=True)
    return PairSteps([kernel], error + SETTLED)


def swept(side: PairSide, runs: Sequence[tuple[int, Floats]], most: float) -> list[Stretch] | None:
    """What a side adds to every entry, entries counted from its end; ``None`` if no bound was found.

    Entries are followed one by one while that is little work or the variation is still on its way;
    the rest of a run is settled at once by a certificate.

    Parameters
    ----------
    side
        The kernels.
    runs
        How many entries in a row, and the cost of each pair of states there.
    most
        Bounds above this are of no use.
    """
    size = len(runs[0][1])
    outside = off_diagonal(size)
    slack = SLACK * max(float(cost.max()) for _, cost in runs)
    nothing = np.zeros((size, size))
    stretches: list[Stretch] = []
    variation, done, followed = nothing, 0, 0
    for count, cost in runs:
        end, limit, looked = done + count, None, False
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
                    limit, looked = certificate(steps, cost, most, slack, variation), True
                cheap = left * size**2 <= EXPLICIT_WORK
                if limit is not None and _may_settle(variation, limit, cheap):
                    stretches.append(Stretch(here, end, steps(limit), limit))
                    variation, done = limit, end
                    continue
            own = steps(variation)
            stretches.append(Stretch(here, here, own, variation))
            variation, done = closure((cost + own) * outside), here
            followed += 1
            if float(variation.max()) > most or followed * size**2 > 20 * EXPLICIT_WORK:
                return None
    return stretches


def _may_settle(variation: Floats, limit: Floats, cheap: bool) -> bool:
    """Whether all later entries may take the limit: it bounds this one, and little is lost by it."""
    if not bool(np.all(variation <= limit)):
        return False
    return not cheap or bool(np.all(variation >= limit * (1 - _NEAR)))


@dataclass(frozen=True)
class PairLoss:
    """The largest loss of an entry: its place, its pair of states, and the loss of every pair."""

    value: float
    entry: int
    pair: tuple[int, int]
    losses: Floats


def pair_losses(
    left: Sequence[Stretch],
    right: Sequence[Stretch],
    runs: Sequence[tuple[int, Floats]],
    supports: Sequence[Bools],
) -> list[tuple[int, int, Floats]]:
    """First and last entry of every stretch, and the loss of every pair of states there.

    Pairs of which one cannot occur lose nothing. ``right`` counts entries from the right end.
    """
    length = sum(count for count, _ in runs)
    marks = {stretch.first for stretch in left}
    marks |= {length + 1 - stretch.last for stretch in right}
    marks |= set(range(1, min(len(supports), length) + 1))
    done = 1
    for count, _ in runs:
        marks.add(done)
        done += count
    ordered = [*sorted(marks), length + 1]
    rows = []
    for first, after in pairwise(ordered):
        ours = next(s for s in left if s.first <= first <= s.last)
        theirs = next(s for s in right if s.first <= length + 1 - first <= s.last)
        here = supports[min(first, len(supports)) - 1]
        loss = (_cost_at(runs, first) + ours.steps + theirs.steps) * (1 + 8 * EPS)
        rows.append((first, after - 1, np.where(here[:, None] & here[None, :], loss, 0.0)))
    return rows


def _cost_at(runs: Sequence[tuple[int, Floats]], entry: int) -> Floats:
    for count, cost in runs:
        if entry <= count:
            return cost
        entry -= count
    raise AssertionError("an entry beyond the runs")


class PairCurve:
    """The pairwise curve of one chain of a class."""

    def __init__(self, member: Member, length: int) -> None:
        self.length = length
        self._sides = pair_sides(member, length)

    @property
    def serves(self) -> bool:
        """Whether there are kernels to compute with."""
        return self._sides is not None

    def losses(
        self, runs: Sequence[tuple[int, Floats]], most: float = MOST
    ) -> list[tuple[int, int, Floats]] | None:
        """The loss of every pair of states at every stretch of entries; ``None`` if no bound."""
        if self._sides is None:
            return None
        left, right, supports = self._sides
        ours = swept(left, runs, most)
        if ours is None:
            return None
        theirs = swept(right, runs[::-1], most)
        return None if theirs is None else pair_losses(ours, theirs, runs, supports)

    def loss(self, runs: Sequence[tuple[int, Floats]], most: float = MOST) -> PairLoss | None:
        """The largest loss, where it is, and the losses of all pairs there."""
        rows = self.losses(runs, most)
        if rows is None:
            return None
        first, last, losses = max(rows, key=lambda row: float(row[2].max()))
        one, other = divmod(int(losses.argmax()), len(losses))
        return PairLoss(float(losses.max()), (first + last) // 2, (one, other), losses)
