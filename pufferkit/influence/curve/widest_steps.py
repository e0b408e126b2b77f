"""Steps that know the largest variation only: chains with many transitions, regions, mixing."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import inf

import numpy as np
from numpy.typing import NDArray

from pufferkit.checks import Bools, Floats
from pufferkit.influence.curve.engine import Part, Side, block_sizes
from pufferkit.influence.curve.pairs import off_diagonal
from pufferkit.influence.curve.steps import DiameterStep, RatioStep, Step

_NUDGE = 1e-6


class WidestSteps:
    """The steps of pairs of values at the largest variation of all pairs that count."""

    kind = "largest variation"

    def __init__(self, step: Step, size: int, counted: Bools | None = None) -> None:
        self._step, self._outside = step, off_diagonal(size)
        self._counted = self._outside > 0 if counted is None else counted
        self._widest, self._where = 0.0, 0

    def _at(self, widest: float) -> Floats:
        table = self._step.pairs(widest)
        if table is None:
            return self._step.largest(widest) * self._outside
        # A way over a value that is not possible is never the shorter one.
        table = np.where(np.isneginf(table), table.max(), table)
        return np.where(self._outside > 0, np.maximum(table, 0.0), 0.0)

    def __call__(self, limit: Floats) -> Floats:
        """The matrix of steps at the variation ``limit``, rounded up; 0 on the diagonal."""
        counted = np.where(self._counted, limit, 0.0)
        self._where = int(counted.argmax())
        self._widest = float(counted.max())
        return self._at(self._widest)

    def derivative(self) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
        """D steps(x, x') / d limit(y, z) at the last limit, as rows, columns and values."""
        more = _NUDGE * max(self._widest, _NUDGE)
        rise = (self._at(self._widest + more) - self._at(self._widest)) / more
        rows = np.flatnonzero(self._outside)
        slopes = np.clip(np.nan_to_num(rise, nan=1.0), 0.0, 1.0).ravel()[rows]
        return rows, np.full(len(rows), self._where), slopes

    def guess(self, cost: Floats) -> Floats:
        """Where to begin the search of a limit."""
        return cost


def mixing_part(name: str, bound: Callable[[int], float], states: int, length: int) -> Part:
    """All chains that mix at least this well, any start; ``bound`` is h of every block.

    Entries of P^m are within a factor 1 +- Delta_m of the stationary distribution. So rows of P^m
    have log-ratios at most h = log (1 + Delta) / (1 - Delta), and the projective diameter is at
    most 2 h.
    """
    outside = off_diagonal(states)

    def diameter(size: int) -> Step:
        h = bound(size)
        return DiameterStep(2 * h * outside if h < inf else np.where(outside > 0, inf, 0.0))

    def ratio(size: int) -> Step:
        return RatioStep(bound(size), states)

    left, right = (widest_side(step, states, length) for step in (diameter, ratio))
    return Part(name, left, right, [np.ones(states, dtype=bool)])


def widest_side(step: Callable[[int], Step], states: int, length: int) -> Side:
    """A side whose steps know the largest variation only, from the step of every block."""
    made = cache(lambda size: WidestSteps(step(size), states))
    return Side(lambda entry, size: made(size), block_sizes(length))
