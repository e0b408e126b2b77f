"""Steps to an entry of which no distribution is known: any start.

Let X_{i-m} have any distribution, and X_i be m steps of the chain later. Of a function g of X_{i-m}
that varies by at most A(u, u') between two values, the means of e^g given X_i = x and given x' have
a log-ratio of at most the largest s over pairs u, u', where

    tanh(s / 4) = tanh(D / 4) tanh(A(u, u') / 4),
    D = log P^m(u, x) P^m(u', x') / (P^m(u, x') P^m(u', x)),

over the pairs with D > 0; where the denominator is zero, s = A(u, u').
"""

from __future__ import annotations

from functools import cached_property
from time import process_time

import numpy as np
from numpy.typing import NDArray

from pufferkit.checks import Bools, Floats
from pufferkit.compiling import compiled_loop
from pufferkit.influence.curve.pairs import off_diagonal
from pufferkit.influence.kernels import TINY, Kernel
from pufferkit.rounding import EPS

_LITTLE = 8**4
"""Pairs of pairs of values that numpy serves before compiled loops are loaded."""


@compiled_loop
def _all_steps(roots, possible, lost, ahead, gains, error, steps, best, slopes):  # type: ignore[no-untyped-def]
    """For every x, x': the largest step over pairs u, u', the pair that has it, and its slope.

    ``steps`` is filled with the variation itself where nothing is forgotten, else with the largest
    product of both hyperbolic tangents, negative; `OpenSteps` takes it from there.
    """
    before, size = roots.shape
    ulp = 2.220446049250313e-16
    for x in range(size):
        for other in range(size):
            flat, at, most, low, tilted = 0.0, -1, 0.0, -1, 0.0
            if x != other:
                for u in range(before):
                    if not possible[u, x]:
                        continue
                    for v in range(before):
                        if u == v or not possible[v, other]:
                            continue
                        sure = not (possible[u, other] and possible[v, x])
                        sure = sure or lost[u, x] or lost[v, other] or lost[u, other] or lost[v, x]
                        tilt = 1.0
                        if not sure:
                            above = roots[u, x] * roots[v, other]
                            below = roots[u, other] * roots[v, x]
                            tilt = max(above - below, 0.0) / (above + below)
                            tilt = tilt * (1 + 16 * ulp) + error
                        place = u * before + v
                        if tilt >= 1.0:
                            if ahead[place] > flat:
                                flat, at = ahead[place], place
                        elif tilt * gains[place] > most:
                            most, low, tilted = tilt * gains[place], place, tilt
            steps[0, x, other], steps[1, x, other], slopes[x, other] = flat, most, tilted
            best[0, x, other], best[1, x, other] = max(at, 0), max(low, 0)


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
        self._best, self._slopes = np.zeros((len(rows),) * 2, int), np.zeros((len(rows),) * 2)

    def __call__(self, limit: Floats) -> Floats:
        """The matrix of steps at the variation ``limit``, rounded up; 0 on the diagonal."""
        ahead = limit[np.ix_(self._keep, self._keep)].ravel()
        gains, size = np.tanh(ahead / 4), len(limit)
        if size**2 * len(ahead) <= _LITTLE and _all_steps.patient():
            begun = process_time()
            (flat, most), (at, low), tilt = self._largest(ahead, gains)
            _all_steps.patient(process_time() - begun)
        else:
            found, places = np.zeros((2, size, size)), np.zeros((2, size, size), dtype=np.int64)
            tilt = np.zeros((size, size))
            _all_steps(
                self._roots, self._possible, self._lost, ahead, gains, self._error,
                found, places, tilt,
            )  # fmt: skip
            (flat, most), (at, low) = found, places
        sloped = 4 * np.arctanh(np.minimum(most * (1 + 16 * EPS), 1 - EPS)) * (1 + 8 * EPS)
        gain = gains[low]
        slope = tilt * (1 - gain**2) / np.maximum(1 - (tilt * gain) ** 2, EPS)
        first = flat >= sloped
        self._best, self._slopes = np.where(first, at, low), np.where(first, 1.0, slope)
        outside, met = off_diagonal(size) > 0, np.outer(self._rows, self._rows)
        steps = np.maximum(flat, sloped)
        # A way over a value that X_i cannot have is never the shorter one.
        steps = np.where(met, steps, steps[met & outside].max(initial=0.0))
        return np.where(outside, steps, 0.0)

    def _largest(
        self, ahead: Floats, gains: Floats
    ) -> tuple[tuple[Floats, Floats], tuple[NDArray[np.int64], NDArray[np.int64]], Floats]:
        """What `_all_steps` fills in, by numpy."""
        tilts = self._tilts
        certain = tilts >= 1
        sure, rest = np.where(certain, ahead, 0.0), np.where(certain, 0.0, tilts * gains)
        at, low = sure.argmax(axis=2)[:, :, None], rest.argmax(axis=2)[:, :, None]
        flat = np.take_along_axis(sure, at, 2)[:, :, 0]
        most = np.take_along_axis(rest, low, 2)[:, :, 0]
        tilt = np.take_along_axis(np.where(certain, 0.0, tilts), low, 2)[:, :, 0]
        return (flat, most), (at[:, :, 0], low[:, :, 0]), tilt

    @cached_property
    def _tilts(self) -> Floats:
        """Tanh(D / 4) of every x, x' and pair u, u', rounded up; else 0."""
        roots, here = self._roots.T, self._possible.T
        above = roots[:, None, :, None] * roots[None, :, None, :]  # x, x', u, u'
        below = roots[None, :, :, None] * roots[:, None, None, :]
        total = above + below
        tilts = np.divide(above - below, total, out=np.ones_like(total), where=total > 0)
        tilts = np.minimum(np.maximum(tilts, 0.0) * (1 + 16 * EPS) + self._error, 1.0)
        certain = ~(here[None, :, :, None] & here[:, None, None, :])
        lost = self._lost.T
        certain |= lost[:, None, :, None] | lost[None, :, None, :]
        certain |= lost[None, :, :, None] | lost[:, None, None, :]
        counts = here[:, None, :, None] & here[None, :, None, :]
        tilts = np.where(counts, np.where(certain, 1.0, tilts), 0.0)
        return tilts.reshape(len(here), len(here), -1)

    def derivative(self) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
        """D steps(x, x') / d limit(y, z) at the last limit, as rows, columns and values."""
        size, kept = len(self._rows), len(self._keep)
        rows = np.flatnonzero(off_diagonal(size).ravel() * self._slopes.ravel() > 0)
        first, second = np.divmod(self._best.ravel()[rows].astype(np.int64), kept)
        return rows, self._keep[first] * size + self._keep[second], self._slopes.ravel()[rows]

    def guess(self, cost: Floats) -> Floats:
        """Where to begin the search of a limit."""
        return cost
