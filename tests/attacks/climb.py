"""Coordinate ascent towards the largest ratio of loss to charge."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf

import numpy as np

import pufferkit as pk
from tests.attacks.cases import Case, Target, moves, random_case

Charge = Callable[[Case], tuple[np.ndarray, float]]
"""The loss of every entry of a case, and what was charged for it."""

TOLERANCE = 1e-9


@dataclass(frozen=True)
class Summit:
    """The highest case of a climb: its worst entry, loss and charge."""

    case: Case
    entry: int
    loss: float
    charge: float
    evaluations: int

    @property
    def ratio(self) -> float:
        return self.loss / self.charge if self.charge else 0.0


def climb(
    target: Target,
    charge: Charge,
    rng: np.random.Generator,
    evaluations: int,
    enough: float = inf,
    end: float = inf,
) -> Summit:
    """From a random case uphill, until nothing next to it is higher or the evaluations are used.

    Ends early once a ratio above ``enough`` was seen, at whatever entry, or at a time ``end``.
    """
    top = Summit(random_case(target, rng), 1, 0.0, 0.0, 0)

    def height(case: Case) -> float:
        """The ratio for the entry that is driven; the largest of all is remembered."""
        nonlocal top
        top = replace(top, evaluations=top.evaluations + 1)
        try:
            losses, paid = charge(case)
        except (ValueError, pk.NoTheorem, pk.NotApplicable, np.linalg.LinAlgError):
            return -inf  # pufferkit refuses the case
        worst = int(losses.argmax())
        if losses[worst] / paid > top.ratio:
            top = Summit(case, worst + 1, float(losses[worst]), paid, top.evaluations)
        return float(losses[case.entry - 1] / paid)

    def done() -> bool:
        late = end < inf and time.monotonic() > end
        return late or top.evaluations >= evaluations or top.ratio > enough

    best, highest, tried = top.case, -inf, 0
    while (highest == -inf or tried < target.starts) and not done():
        case, tried = random_case(target, rng), tried + 1
        now = height(case)
        if now > highest:
            best, highest = case, now
    higher = True
    while higher and not done():
        higher = False
        for move in moves(best, target, rng):
            case = move(best)
            now = height(case) if case != best else -inf
            if now > highest + TOLERANCE:
                best, highest, higher = case, now, True
            if done():
                break
    return top
