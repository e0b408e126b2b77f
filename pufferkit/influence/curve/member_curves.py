"""The curves of the chains of a class, or of a part of it that is given by its kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pufferkit.beliefs.chain_class import Member
from pufferkit.checks import Floats
from pufferkit.influence.curve.chain_parts import part_of
from pufferkit.influence.curve.engine import EntryLoss, Part, PartCurve, everything
from pufferkit.influence.curve.kernel_curve import KernelCurve
from pufferkit.influence.curve.pairs import off_diagonal
from pufferkit.influence.progress import Progress

_MANY = 4


@dataclass(frozen=True)
class Run:
    """``count`` consecutive entries with event-level epsilon ``b`` each."""

    count: int
    b: float


@dataclass(frozen=True, eq=False)
class PairRun:
    """``count`` consecutive entries, and the cost of replacing a state by another there."""

    count: int
    cost: Floats


class MemberCurve:
    """The curve of the entries under one chain of the class, or under all of it at once."""

    def __init__(self, part: Part, length: int) -> None:
        self.part, self.name, self.notes = part, part.name, part.notes
        self._curve, self._length = PartCurve(part, length), length

    def loss(self, spent: Sequence[PairRun]) -> EntryLoss:
        """The largest loss of an entry."""
        return self._curve.loss(_runs(spent))

    def hides(self, spent: PairRun, epsilon: float) -> bool:
        """Whether no entry loses more than epsilon."""
        return self._curve.loss(_runs([spent]), 4 * epsilon + 1).value <= epsilon

    def entry_losses(self, spent: Sequence[PairRun]) -> Floats:
        """The loss of every entry."""
        runs = _runs(spent)
        losses = np.full(self._length, self.loss(spent).value)
        if self.part.window == 1:
            for first, last, pairs in self._curve.losses(runs) or []:
                own = losses[first - 1 : last]
                losses[first - 1 : last] = np.minimum(own, float(pairs.max()) * self.part.share)
        return losses

    def losses(self, spent: Sequence[PairRun]) -> Floats:
        """The loss of every pair of states, the largest over the entries."""
        rows = self._curve.losses(_runs(spent)) if self.part.window == 1 else None
        return _largest_pairs(rows or [], self.loss(spent).value, len(spent[0].cost))

    def record(self, spent: Sequence[PairRun]) -> dict[str, Any] | None:
        """Proof of the loss; ``None`` without a bound."""
        return self._curve.record(_runs(spent))

    def solve(
        self, distance: Floats, epsilon: float, most: float, progress: Progress | None
    ) -> tuple[float, EntryLoss]:
        """The largest b reached up to ``most`` with a loss of at most epsilon, and that loss."""
        return self._curve.solve(distance, epsilon, most, progress)


class KernelMember:
    """The curve of a part of a class that is given by its kernels."""

    def __init__(self, name: str, curve: KernelCurve, notes: tuple[str, ...] = ()) -> None:
        self.name, self.curve, self.notes = name, curve, notes

    def loss(self, spent: Sequence[PairRun]) -> EntryLoss:
        """The largest loss of a secret."""
        whole = everything(_runs(spent))
        pairwise = self.curve.loss(_runs(spent))
        if pairwise is None or pairwise.value > whole:
            return EntryLoss(whole, 1)
        return pairwise

    def hides(self, spent: PairRun, epsilon: float) -> bool:
        """Whether no secret loses more than epsilon."""
        return self.loss([spent]).value <= epsilon

    def entry_losses(self, spent: Sequence[PairRun]) -> Floats:
        """The loss of every entry."""
        losses = np.full(self.curve.length, self.loss(spent).value)
        return losses

    def losses(self, spent: Sequence[PairRun]) -> Floats:
        """The loss of every pair of states, the largest over the entries."""
        rows = self.curve.losses(_runs(spent)) or []
        return _largest_pairs(rows, everything(_runs(spent)), len(spent[0].cost))

    def record(self, spent: Sequence[PairRun]) -> dict[str, Any] | None:
        """Proof of the loss at one cost."""
        return self.curve.record(spent[0].cost)

    def solve(
        self, distance: Floats, epsilon: float, most: float, progress: Progress | None
    ) -> tuple[float, EntryLoss]:
        """The largest b reached up to ``most`` with a loss of at most epsilon, and that loss."""
        length = self.curve.length
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
            often = len(self.corners) > _MANY and len(member.chain) > 2
            part = part_of(member, self.length, often=often)
            self._made[place] = MemberCurve(part, self.length)
        return self._made[place]

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on the curves that were used, each once."""
        return tuple(dict.fromkeys(note for made in self._made.values() for note in made.notes))


def _runs(spent: Sequence[PairRun]) -> list[tuple[int, Floats]]:
    return [(run.count, run.cost) for run in spent]
