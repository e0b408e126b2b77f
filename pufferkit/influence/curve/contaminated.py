"""Steps of rows with contamination: a share of each row is unknown.

Row x may be (1 - eta) K(x, .) + eta r with any distribution r, which may differ by row and time.
Of all g that vary by at most B, the ratio of two such means is largest where r puts its weight on
the largest value of e^g above and on the smallest below. Two states are added, *top* and *bottom*,
that stand for these two values: with

    B(top, y) = max_u B(u, y),     B(y, top) = 0,
    B(y, bottom) = max_v B(y, v),  B(bottom, y) = 0,
    B(top, bottom) = max B,        B(bottom, top) = 0

every allowed g, together with its largest and smallest value, is allowed on the larger set, and the
larger B satisfies the triangle inequality again. So the step there, from the row with eta on top to
the row with eta at the bottom, is an upper bound.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pufferkit.checks import Floats
from pufferkit.influence.curve.pairs import PairSteps


class ContaminatedSteps:
    """As `PairSteps`, with rows contaminated by any distribution with weight ``eta``."""

    def __init__(self, kernels: Sequence[Floats], eta: float, error: float = 0.0) -> None:
        self.rows, self.states = kernels[0].shape
        extra = np.zeros((2 * self.rows, 2))
        extra[: self.rows, 0] = extra[self.rows :, 1] = eta
        rows = [np.hstack([(1 - eta) * np.vstack([kernel, kernel]), extra]) for kernel in kernels]
        self.programmes = PairSteps(rows, error, half=True)
        self._limit = np.zeros((self.states, self.states))

    def __call__(self, limit: Floats) -> Floats:
        """The matrix of steps at the variation ``limit``, rounded up; 0 on the diagonal."""
        n, k = self.rows, self.states
        larger = np.zeros((k + 2, k + 2))
        larger[:k, :k] = self._limit = limit
        larger[k, :k], larger[:k, k + 1] = limit.max(axis=0), limit.max(axis=1)
        larger[k, k + 1] = limit.max()
        steps = self.programmes(larger)[:n, n:].copy()
        np.fill_diagonal(steps, 0.0)
        return steps

    def derivative(self) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
        """D steps(x, x') / d limit(y, z) at the last limit, as rows, columns and values."""
        n, k, limit = self.rows, self.states, self._limit
        rows, columns, values = self.programmes.derivative()
        x, other = rows // (2 * n), rows % (2 * n) - n
        source, target = columns // (k + 2), columns % (k + 2)
        # The variation from the top or to the bottom is the largest of its column, its row, or all.
        highest = np.append(limit.argmax(axis=0), [0, limit.argmax() // k])
        lowest = np.append(limit.argmax(axis=1), [limit.argmax() % k, 0])
        from_y = np.where(source < k, source, highest[target])
        to_z = np.where(target < k, target, lowest[source])
        used = (x != other) & (source != k + 1) & (target != k) & (from_y != to_z)
        return (x * n + other)[used], (from_y * k + to_z)[used], values[used]

    def guess(self, cost: Floats) -> Floats:
        """Where to begin the search of a fixed point: the cost."""
        return cost
