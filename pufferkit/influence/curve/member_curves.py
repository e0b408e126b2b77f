"""The curves of one chain of a class, or of a part of it that is given by its kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from pufferkit.beliefs.chain_class import Member
from pufferkit.checks import Floats
from pufferkit.errors import NotApplicable
from pufferkit.influence.curve.kernel_curve import KernelCurve
from pufferkit.influence.curve.pair_curve import PairCurve
from pufferkit.influence.curve.pair_sides import LARGE
from pufferkit.influence.curve.pairs import off_diagonal
from pufferkit.influence.curve.starts import SHORT, sides_of
from pufferkit.influence.curve.sweep import (
    EntryLoss,
    Run,
    Side,
    Sweep,
    entry_loss,
    largest_loss,
    quick_loss,
    window_loss,
)
from pufferkit.influence.progress import Progress
from pufferkit.rounding import largest_within, last_passing, round_up

MOST_BYTES = 8 * 10**9
"""Most memory that the curve of one chain may take."""

_PRECISION = 1e-8
_ROUGH = 0.02
_GROWTH = 1.1
_MOST_OPTIONS = 3
_MANY = 4


@dataclass(frozen=True, eq=False)
class PairRun:
    """``count`` consecutive entries, and the cost of replacing a state by another there."""

    count: int
    cost: Floats

    @property
    def scalar(self) -> Run:
        """The same with one number, the largest cost of a pair."""
        return Run(self.count, float(self.cost.max()))


@dataclass(frozen=True, eq=False)
class MemberCurve:
    """The curves of the entries under one chain of the class, or under all of a mixing class."""

    name: str
    left: Side
    right: Side
    pairs: PairCurve | None = None
    notes: tuple[str, ...] = ()
    window: int = 1
    share: float = 1.0

    def loss(self, spent: Sequence[PairRun], by_pairs: bool = True) -> EntryLoss:
        scalar = self.scalar([run.scalar for run in spent])
        if self.pairs is None or not by_pairs:
            return scalar
        pairwise = self.pairs.loss(_runs(spent))
        if pairwise is None or pairwise.value >= scalar.value:
            return scalar
        return pairwise

    def hides(self, spent: PairRun, epsilon: float) -> bool:
        """Whether no entry loses more than epsilon, by the quickest bound that shows it."""
        if self.quick([spent.scalar]) <= epsilon or self.scalar([spent.scalar]).value <= epsilon:
            return True
        pairwise = None if self.pairs is None else self.pairs.loss(_runs([spent]))
        return pairwise is not None and pairwise.value <= epsilon

    def scalar(self, runs: Sequence[Run]) -> EntryLoss:
        """The largest loss of an entry, or of a window of entries, by the scalar curve."""
        left, right = self._sweeps(runs)
        whole = _everything(runs)
        if self.window == 1:
            loss = largest_loss(left, right, _options(left.length))
        elif self.window < left.length:
            loss = window_loss(left, right, self.window)
            loss = replace(loss, value=round_up(loss.value, 8 + len(runs)))
        else:
            loss = EntryLoss(whole, 1, None, None)
        if whole < loss.value:
            loss = EntryLoss(whole, loss.node, None, None)
        return loss if self.share == 1 else replace(loss, value=round_up(loss.value * self.share))

    def quick(self, runs: Sequence[Run]) -> float:
        """A cheaper upper bound on the scalar loss."""
        if self.window > 1 or self.share < 1:
            return self.scalar(runs).value
        return min(quick_loss(*self._sweeps(runs)), _everything(runs))

    def entry_losses(self, spent: Sequence[PairRun]) -> Floats:
        runs = [run.scalar for run in spent]
        if self.window > 1 or self.share < 1:
            return np.full(sum(run.count for run in runs), self.scalar(runs).value)
        left, right = self._sweeps(runs)
        most = _options(left.length)
        each = [entry_loss(left, right, node, most).value for node in range(1, left.length + 1)]
        losses: Floats = np.minimum(each, _everything(runs))
        rows = self._pair_rows(spent)
        for first, last, pairs in rows:
            own = losses[first - 1 : last]
            losses[first - 1 : last] = np.minimum(own, float(pairs.max()))
        return losses

    def losses(self, spent: Sequence[PairRun]) -> Floats:
        """The loss of every pair of states, the largest over the entries."""
        scalar = self.scalar([run.scalar for run in spent]).value
        return _largest_pairs(self._pair_rows(spent), scalar, len(spent[0].cost))

    def record(self, spent: PairRun, epsilon: float) -> dict[str, Any] | None:
        """Verification data of the pairwise bound, where the scalar loss is above ``epsilon``."""
        if self.pairs is None or self.scalar([spent.scalar]).value <= epsilon:
            return None
        return self.pairs.record(spent.cost)

    def _pair_rows(self, spent: Sequence[PairRun]) -> list[tuple[int, int, Floats]]:
        if self.pairs is None:
            return []
        return self.pairs.losses(_runs(spent)) or []

    def _sweeps(self, runs: Sequence[Run]) -> tuple[Sweep, Sweep]:
        return Sweep(self.left, runs), Sweep(self.right, runs[::-1])

    def solve(
        self, distance: Floats, epsilon: float, most: float, length: int, progress: Progress | None
    ) -> tuple[float, EntryLoss]:
        """The largest b reached up to ``most`` with a loss of at most epsilon, and that loss.

        With many states, or kernels of many entries, the pairwise curve is solved first. If the
        scalar curve loses more than epsilon at that b, no larger b passes it, as its loss grows
        with b: one evaluation shows that the pairwise bound is the better one.
        """
        dear = len(distance) >= LARGE or len(self.left.stretches) > SHORT
        if self.pairs is not None and dear:
            start = self._quick_start(epsilon, most, length)
            better = self.pairs.solve(distance, epsilon, start, most, progress)
            if better is not None:
                above = self.scalar([Run(length, better[0] * (1 + 2 * _PRECISION))])
                if better[0] >= most or above.value > epsilon:
                    return better
        b, loss = self._solve_scalar(epsilon, most, length)
        if self.pairs is None or b >= most:
            return b, loss
        better = self.pairs.solve(distance, epsilon, b, most, progress)
        if better is None or better[0] <= b:
            return b, loss
        return better

    def _quick_start(self, epsilon: float, most: float, length: int) -> float:
        """A starting point of the search from below, by the quick bound."""
        least = min(most, epsilon / length * (1 - 1e-12))
        start = largest_within(
            lambda b: (self.quick([Run(length, b)]), None), epsilon, most, most, _ROUGH, least=least
        )
        return least if start is None else max(least, start[0])

    def _solve_scalar(self, epsilon: float, most: float, length: int) -> tuple[float, EntryLoss]:
        @cache
        def loss(b: float) -> EntryLoss:
            return self.scalar([Run(length, b)])

        low = epsilon / length * (1 - 1e-12)
        if low >= most or loss(most).value <= epsilon:
            return most, loss(most)
        # The quick bound gives a starting point; then the loss itself decides.
        start = self._quick_start(epsilon, most, length)
        if loss(start).value > epsilon:
            start = low
        nudged = start * (1 + 2 * _PRECISION)
        if nudged >= most or loss(nudged).value > epsilon:
            return start, loss(start)
        low, high, factor = start, start, _GROWTH
        while high < most:
            high, factor = min(most, factor * high), factor**2
            if loss(high).value > epsilon:
                break
            low = high
        b = last_passing(lambda b: epsilon - loss(b).value, low, high, _PRECISION)
        return b, loss(b)


@dataclass(frozen=True, eq=False)
class KernelMember:
    """The curve of a part of a class that is given by its kernels."""

    name: str
    curve: KernelCurve
    notes: tuple[str, ...] = ()

    def loss(self, spent: Sequence[PairRun], by_pairs: bool = True) -> EntryLoss:
        whole = _everything([run.scalar for run in spent])
        pairwise = self.curve.loss(_runs(spent))
        if pairwise is None or pairwise.value > whole:
            return EntryLoss(whole, 1, None, None)
        return pairwise

    def hides(self, spent: PairRun, epsilon: float) -> bool:
        return self.loss([spent]).value <= epsilon

    def entry_losses(self, spent: Sequence[PairRun]) -> Floats:
        losses = np.full(self.curve.length, self.loss(spent).value)
        return losses

    def losses(self, spent: Sequence[PairRun]) -> Floats:
        whole = _everything([run.scalar for run in spent])
        return _largest_pairs(self.curve.losses(_runs(spent)) or [], whole, len(spent[0].cost))

    def record(self, spent: PairRun, epsilon: float) -> dict[str, Any] | None:
        return self.curve.record(spent.cost)

    def solve(
        self, distance: Floats, epsilon: float, most: float, length: int, progress: Progress | None
    ) -> tuple[float, EntryLoss]:
        """The largest b reached up to ``most`` with a loss of at most epsilon, and that loss."""
        b = min(most, epsilon / length * (1 - 1e-12))
        better = self.curve.solve(distance, epsilon, most, progress)
        if better is None or better[0] <= b:
            return b, self.loss([PairRun(length, b * distance)])
        return better


def _largest_pairs(rows: Sequence[tuple[int, int, Floats]], bound: float, states: int) -> Floats:
    """The largest loss of each pair over the rows, at most ``bound``."""
    if not rows:
        return bound * off_diagonal(states)
    largest: Floats = np.max([pairs for _, _, pairs in rows], axis=0)
    return np.minimum(largest, bound)


def curve_bytes(states: int) -> int:
    """About how many bytes the scalar curve of a chain of dense rows takes: powers and tables."""
    return 1_200 * states**2


class CornerCurves(Sequence[MemberCurve]):
    """The curves of the chains of a class, each made when first used."""

    def __init__(self, corners: Sequence[Member], length: int) -> None:
        self.corners, self.length = corners, length
        self._made: dict[int, MemberCurve] = {}

    def __len__(self) -> int:
        return len(self.corners)

    def __getitem__(self, place: Any) -> Any:
        place = range(len(self.corners))[place]
        if place not in self._made:
            member = self.corners[place]
            states = len(member.chain)
            if (needed := curve_bytes(states)) > MOST_BYTES:
                raise NotApplicable(
                    f"the influence curve of {states:,} states needs about {needed / 1e9:.3g} GB "
                    f"of memory, more than {MOST_BYTES / 1e9:.3g}; merge states, or use "
                    "markov_quilt"
                )
            often = len(self.corners) > _MANY and states > 2
            pairs = PairCurve(member, self.length, often=often)
            sides = sides_of(member, self.length)
            self._made[place] = MemberCurve(
                member.name, *sides, pairs if pairs.serves else None, pairs.notes
            )
        return self._made[place]

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on the curves that were used, each once."""
        return tuple(dict.fromkeys(note for made in self._made.values() for note in made.notes))


def _runs(spent: Sequence[PairRun]) -> list[tuple[int, Floats]]:
    return [(run.count, run.cost) for run in spent]


def _everything(runs: Sequence[Run]) -> float:
    """The total spent on all entries, rounded up: exchanging all of them costs no more."""
    return round_up(sum(run.count * run.b for run in runs), len(runs) + 2)


def _options(length: int) -> int:
    """How many blocks of each side to combine: all in short segments."""
    return length if length <= SHORT else _MOST_OPTIONS
