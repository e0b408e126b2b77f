"""Ratios and steps between the rows of a kernel, for `pufferkit.verification`."""

from __future__ import annotations

from functools import cached_property
from math import exp, expm1, inf

import numpy as np

from pufferkit.checks import Bools, Floats

SORTED = 64_000
"""Tables over pairs of rows and sets of states have at most so many numbers."""

_TINY = 1e-280
_FAR = 700.0
_CLOSE = 1e-14


def log_ratios(rows: Floats, possible: Bools) -> Floats:
    """Entry (x, x') is the largest log of rows(x, y) / rows(x', y).

    Terms where both probabilities are zero are skipped.
    """
    above = np.where(possible, np.maximum(rows, _TINY), 0.0)
    below = np.where(rows >= _TINY, rows, 0.0)  # underflow: the ratio counts as infinite
    with np.errstate(divide="ignore", invalid="ignore"):
        gaps = np.log(above)[:, None, :] - np.log(below)[None, :, :]
    gaps[np.isnan(gaps)] = -inf
    largest: Floats = gaps.max(axis=2)
    np.fill_diagonal(largest, 0.0)
    return largest


class RowSteps:
    """The steps of one kernel, for every ordered pair of rows x, x'.

    A step from a variation a is the largest over sets S of the logarithm of
    (1 + c K(x, S)) / (1 + c K(x', S)) with c = e^a - 1. The best set is a prefix of the states in
    the order of K(x, y) / K(x', y). Few states are sorted once, for all variations. With many, that
    takes too much memory: there the set with the largest K(x, S) - r K(x', S) has a ratio between r
    and the step, which is Newton's method for r.
    """

    def __init__(self, kernel: Floats) -> None:
        self._kernel = kernel

    def table(self, variation: float) -> Floats:
        """The steps from a variation."""
        if variation > _FAR:  # a step has a slope of at most 1
            limits = np.maximum(log_ratios(self._kernel, self._kernel > 0), 0.0)
            return np.minimum(limits, self.table(_FAR) + variation - _FAR)
        share, rest = -expm1(-variation), exp(-variation)
        if self._kernel.size * len(self._kernel) > SORTED:
            return np.log1p([self._rises(row, share, rest) for row in self._kernel])
        more, below = self._prefixes
        rises: Floats = (share * more / (rest + share * below)).max(axis=2)
        return np.log1p(np.maximum(rises, 0.0))

    def room(self, variation: float, most: float, pairs: Bools) -> float:
        """At least 0 if no step of these pairs is above ``most``, and below 0 if one is.

        All sets obey the ratio r = e^most if c h <= r - 1, where h is the largest
        K(x, S) - r K(x', S), the sum over y of max(0, K(x, y) - r K(x', y)).
        """
        if most < 0:
            return most
        kernel, largest = self._kernel, 0.0
        most = min(most, variation)  # which no step exceeds
        scaled = exp(min(most, _FAR)) * kernel
        many = max(1, SORTED // kernel.size)
        for start in range(0, len(kernel), many):
            rows = slice(start, start + many)
            heights = np.maximum(kernel[rows, None, :] - scaled, 0.0).sum(axis=2)
            largest = max(largest, float(heights.max(where=pairs[rows], initial=0.0)))
        return exp(most - variation) * expm1(-most) / expm1(-variation) - largest

    @cached_property
    def _prefixes(self) -> tuple[Floats, Floats]:
        """K(x, S) - K(x', S) and K(x', S) for all pairs of rows and all prefixes S."""
        first, second = np.broadcast_arrays(self._kernel[:, None, :], self._kernel[None, :, :])
        with np.errstate(all="ignore"):
            order = np.argsort(-np.where(first > 0, first / second, -1.0), axis=2)
        below = np.take_along_axis(second, order, 2).cumsum(axis=2)
        return np.take_along_axis(first - second, order, 2).cumsum(axis=2), below

    def _rises(self, row: Floats, share: float, rest: float) -> Floats:
        """e^step - 1 of a row against every other."""
        rises = np.zeros(len(self._kernel))
        while True:
            # Equal ratios stay out: beside them a set of tiny probabilities would not be seen.
            inside = row > ((1 + rises) * (1 + _CLOSE))[:, None] * self._kernel
            below = np.einsum("xy,xy->x", inside, self._kernel)
            more = np.einsum("xy,xy->x", inside, row - self._kernel)
            following = share * more / (rest + share * below)
            if (following <= rises * (1 + _CLOSE)).all():
                return rises
            rises = np.maximum(rises, following)
