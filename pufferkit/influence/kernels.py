"""Non-negative matrices with the exact pattern of their zeros, and ratios of their rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pufferkit.checks import Bools, Floats

TINY = 1e-280
"""Possible entries below this have lost their relative accuracy to underflow."""

_NUMERATOR_IMPOSSIBLE = -4e4
_DENOMINATOR_IMPOSSIBLE = -2e4
_INFINITE = 1e4
_CHUNK = 1 << 18


@dataclass(frozen=True, eq=False)
class Kernel:
    """A non-negative matrix with the exact pattern of its possible entries."""

    values: Floats
    possible: Bools

    def rows(self, chosen: Bools | slice) -> Kernel:
        """Some of the rows."""
        return Kernel(self.values[chosen], self.possible[chosen])

    @property
    def transposed(self) -> Kernel:
        """The transposed matrix."""
        return Kernel(self.values.T, self.possible.T)


def log_ratio(kernel: Kernel, x: int, other: int) -> float:
    """The largest log ratio of the entries of one row to those of another."""
    if x == other:
        return 0.0
    above, below = kernel.rows(slice(x, x + 1)), kernel.rows(slice(other, other + 1))
    return float(_largest_log_ratios(above, below)[0, 0])


def row_log_ratios(kernel: Kernel) -> Floats:
    """Entry (x, x') is the largest log K(x, y) / K(x', y) over y.

    Terms where both probabilities are zero are skipped; c/0 is infinite; 0/c is minus infinity.
    """
    ratios = _largest_log_ratios(kernel, kernel)
    np.fill_diagonal(ratios, 0.0)
    return ratios


def _largest_log_ratios(first: Kernel, second: Kernel) -> Floats:
    above = np.where(first.possible, np.log(np.maximum(first.values, TINY)), _NUMERATOR_IMPOSSIBLE)
    known = second.possible & (second.values >= TINY)
    below = np.where(known, np.log(np.maximum(second.values, TINY)), _DENOMINATOR_IMPOSSIBLE)
    ratios = np.empty((len(above), len(below)))
    stride = max(1, _CHUNK // below.size)
    for start in range(0, len(above), stride):
        part = above[start : start + stride, None, :] - below[None, :, :]
        ratios[start : start + stride] = part.max(axis=2)
    ratios[ratios > _INFINITE] = np.inf
    ratios[ratios < -_INFINITE] = -np.inf
    return ratios
