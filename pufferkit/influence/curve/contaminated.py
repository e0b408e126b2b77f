"""Steps of rows that are known only up to a part of anything.

Row x may be (1 - eta) K(x, .) + eta r with any distribution r, another one for every row and time.
Of all g that vary by at most B, the ratio of two such means is largest where r puts its weight on
the largest value of e^g above and on the smallest below:

    step(x, x')  =  max over u, v of step((1 - eta) K(x, .) + eta 1_u, (1 - eta) K(x', .) + eta 1_v).

For few states all u, v are tried. For many, two states are added, *top* and *bottom*, that stand
for the largest and the smallest value: with

    B(top, y) = max_u B(u, y),    B(y, top) = 0,    B(y, bottom) = max_v B(y, v),    B(bottom, y) = 0,
    B(top, bottom) = max B,       B(bottom, top) = 0

every allowed g, together with its largest and smallest value, is allowed on the larger set. So the
step there is an upper bound. (All of this is a triangle inequality's consequence, and the larger B
satisfies it again.)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pufferkit.checks import Floats
from pufferkit.influence.curve.pairs import PairSteps

_MOST_ROWS = 64


class ContaminatedSteps:
    """As `PairSteps`, with rows known up to a weight ``eta`` of anything."""

    def __init__(self, kernels: Sequence[Floats], eta: float, error: float = 0.0) -> None:
        self.rows, self.states = kernels[0].shape
        self._exact = self.rows * self.states <= _MOST_ROWS
        build = self._tried if self._exact else self._bounded
        self._inner = PairSteps([build(kernel, eta) for kernel in kernels], error)
        self._chosen: NDArray[np.int64] = np.zeros((self.rows, self.rows), dtype=np.int64)
        self._sources: tuple[NDArray[np.intp], NDArray[np.intp], int] | None = None

    def _tried(self, kernel: Floats, eta: float) -> Floats:
        """A row for each row x and each place u of the weight, x first."""
        mixed = (1 - eta) * kernel[:, None, :] + eta * np.eye(self.states)[None, :, :]
        return np.asarray(mixed.reshape(-1, self.states))

    def _bounded(self, kernel: Floats, eta: float) -> Floats:
        """First all rows with their weight on top, then all with it at the bottom."""
        extra = np.zeros((2 * self.rows, 2))
        extra[: self.rows, 0] = extra[self.rows :, 1] = eta
        return np.hstack([(1 - eta) * np.vstack([kernel, kernel]), extra])

    def __call__(self, limit: Floats) -> Floats:
        """The matrix of steps at the variation ``limit``, rounded up; 0 on the diagonal."""
        n, k = self.rows, self.states
        if self._exact:
            table = self._inner(limit).reshape(n, k, n, k).transpose(0, 2, 1, 3).reshape(n, n, -1)
            best = table.argmax(axis=2)
            x, other = np.indices((n, n))
            self._chosen = (x * k + best // k) * (n * k) + other * k + best % k
            steps: Floats = table.max(axis=2)
        else:
            above, below = limit.argmax(axis=0), limit.argmax(axis=1)
            larger = np.zeros((k + 2, k + 2))
            larger[:k, :k] = limit
            larger[k, :k], larger[:k, k + 1] = limit.max(axis=0), limit.max(axis=1)
            larger[k, k + 1] = limit.max()
            self._sources = above, below, int(limit.argmax())
            steps = self._inner(larger)[:n, n:].copy()
            x, other = np.indices((n, n))
            self._chosen = x * 2 * n + n + other
        np.fill_diagonal(steps, 0.0)
        return steps

    def derivative(self) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
        """D steps(x, x') / d limit(y, z) at the last limit, as rows, columns and values."""
        rows, columns, values = self._inner.derivative()
        place = np.full(self._inner.rows**2, -1, dtype=np.int64)
        apart = ~np.eye(self.rows, dtype=bool)
        place[self._chosen[apart]] = np.flatnonzero(apart.ravel())
        kept = place[rows] >= 0
        rows, columns, values = place[rows[kept]], columns[kept], values[kept]
        if self._sources is None:
            return rows, columns, values
        k = self.states
        above, below, widest = self._sources
        source, target = columns // (k + 2), columns % (k + 2)
        real = (source < k) & (target < k)
        from_top = (source == k) & (target < k)
        to_bottom = (source < k) & (target == k + 1)
        both = (source == k) & (target == k + 1)
        moved = np.zeros_like(columns)
        moved[real] = source[real] * k + target[real]
        moved[from_top] = above[target[from_top]] * k + target[from_top]
        moved[to_bottom] = source[to_bottom] * k + below[source[to_bottom]]
        moved[both] = widest
        used = (real | from_top | to_bottom | both) & (moved % (k + 1) != 0)
        return rows[used], moved[used], values[used]
