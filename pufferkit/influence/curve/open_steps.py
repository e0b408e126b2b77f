"""Steps to an entry of which no distribution is known: any start.

Let X_{i-m} have any distribution, and X_i be m steps of the chain later. Of a function g of X_{i-m}
that varies by at most A(u, u') between two values, the means of e^g given X_i = x and given x' have
a log-ratio of at most the largest s over pairs u, u', where

    tanh(s / 4) = tanh(D / 4) tanh(A(u, u') / 4),
    D = log P^m(u, x) P^m(u', x') / (P^m(u, x') P^m(u', x)),

over the pairs with D > 0; where the denominator is zero, s = A(u, u').
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pufferkit.beliefs.powers import TINY, Kernel
from pufferkit.checks import Bools, Floats
from pufferkit.influence.curve.pairs import off_diagonal
from pufferkit.rounding import EPS

_CELLS = 1 << 18
"""Most numbers in one array."""


class OpenSteps:
    """The largest steps over all distributions of the entry beyond, for every pair of values.

    Theorem: PAIRS Theorem 5, with P^m in place of P.

    Parameters
    ----------
    kernel
        P^m.
    rows, columns
        Values that X_i, and that X_{i-m}, can have.
    error
        Bound on the error of the logarithm of a ratio of entries of the kernel.
    """

    kind = "any distribution"

    def __init__(self, kernel: Kernel, rows: Bools, columns: Bools, error: float) -> None:
        self._keep = np.flatnonzero(columns)
        self._rows = rows
        possible = kernel.possible[self._keep]
        self._roots = np.where(possible, np.sqrt(kernel.values[self._keep]), 0.0)
        self._lost = possible & (kernel.values[self._keep] < TINY)
        self._possible, self._error = possible, error
        size, wide = len(rows), len(rows) * len(self._keep) ** 2
        several = max(1, _CELLS // wide)
        self._parts = [np.arange(x, min(x + several, size)) for x in range(0, size, several)]
        self._kept = self._tilts(self._parts[0]) if len(self._parts) == 1 else None
        self._best = self._slopes = np.zeros((size, size))

    def __call__(self, limit: Floats) -> Floats:
        """The matrix of steps at the variation ``limit``, rounded up; 0 on the diagonal."""
        ahead = limit[np.ix_(self._keep, self._keep)].ravel()
        gains = np.tanh(ahead / 4)
        found = [self._at(values, ahead, gains) for values in self._parts]
        steps, self._best, self._slopes = (np.vstack(each) for each in zip(*found, strict=True))
        outside, met = off_diagonal(len(limit)) > 0, np.outer(self._rows, self._rows)
        # A way over a value that X_i cannot have is never the shorter one.
        steps = np.where(met, steps, steps[met & outside].max(initial=0.0))
        return np.where(outside, steps, 0.0)

    def _at(
        self, values: NDArray[np.int64], ahead: Floats, gains: Floats
    ) -> tuple[Floats, NDArray[np.int64], Floats]:
        """For some values x and every x': the step, the pair u, u' that has it, its slope."""
        tilts = self._tilts(values) if self._kept is None else self._kept
        certain = tilts >= 1
        sure, rest = np.where(certain, ahead, 0.0), np.where(certain, 0.0, tilts * gains)
        at, low = sure.argmax(axis=2)[:, :, None], rest.argmax(axis=2)[:, :, None]
        flat = np.take_along_axis(sure, at, 2)[:, :, 0]
        most = np.take_along_axis(rest, low, 2)[:, :, 0]
        sloped = 4 * np.arctanh(np.minimum(most * (1 + 16 * EPS), 1 - EPS)) * (1 + 8 * EPS)
        tilt, gain = np.take_along_axis(tilts, low, 2)[:, :, 0], gains[low[:, :, 0]]
        slope = tilt * (1 - gain**2) / np.maximum(1 - (tilt * gain) ** 2, EPS)
        first = flat >= sloped
        best = np.where(first, at[:, :, 0], low[:, :, 0])
        return np.maximum(flat, sloped), best, np.where(first, 1.0, slope)

    def _tilts(self, values: NDArray[np.int64]) -> Floats:
        """Tanh(D / 4) of some x, every x' and pair u, u', rounded up; else 0."""
        roots, other = self._roots.T[values], self._roots.T
        here, there = self._possible.T[values], self._possible.T
        above = roots[:, None, :, None] * other[None, :, None, :]  # x, x', u, u'
        below = other[None, :, :, None] * roots[:, None, None, :]
        total = above + below
        tilts = np.divide(above - below, total, out=np.ones_like(total), where=total > 0)
        tilts = np.minimum(np.maximum(tilts, 0.0) * (1 + 16 * EPS) + self._error, 1.0)
        certain = ~(there[None, :, :, None] & here[:, None, None, :])
        lost, gone = self._lost.T[values], self._lost.T
        certain |= lost[:, None, :, None] | gone[None, :, None, :]
        certain |= gone[None, :, :, None] | lost[:, None, None, :]
        counts = here[:, None, :, None] & there[None, :, None, :]
        tilts = np.where(counts, np.where(certain, 1.0, tilts), 0.0)
        return tilts.reshape(len(values), len(other), -1)

    def derivative(self) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
        """D steps(x, x') / d limit(y, z) at the last limit, as rows, columns and values."""
        size, kept = len(self._rows), len(self._keep)
        rows = np.flatnonzero(off_diagonal(size).ravel() * self._slopes.ravel() > 0)
        first, second = np.divmod(self._best.ravel()[rows].astype(np.int64), kept)
        return rows, self._keep[first] * size + self._keep[second], self._slopes.ravel()[rows]

    def guess(self, cost: Floats) -> Floats:
        """Where to begin the search of a limit."""
        return cost
