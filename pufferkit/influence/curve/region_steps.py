"""Steps over a region of matrices, from bounds on the probabilities of sets of states.

For few states the largest and smallest probability of every set are listed. For many states only
bounds [l, h] on entries are known, and

    P(S) <= (1 - u) h(S) + u (1 - l(not S)),     P(S) >= (1 - v) l(S) + v (1 - h(not S)),

for any u, v in [0, 1]. With these two in place of the extremes the step is the log of a ratio of
affine functions of S, largest at a prefix of the states sorted by the ratio of their weights, as
long as the denominator is positive for all S. Every (u, v) gives a bound; the least of a few is
taken.
"""

from __future__ import annotations

from math import expm1, inf

import numpy as np

from pufferkit.checks import Floats
from pufferkit.influence.curve.steps import (
    Step,
    contracted,
    log_mean,
    log_mean_low,
    pareto,
    undominated,
)
from pufferkit.rounding import EPS

_ROUND = 1e-12
_WEIGHTS = ((0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (1.0, 1.0), (0.5, 0.5))
_PAIRWISE = 24
_HUGE = 600.0


class ListedStep(Step):
    """The step, from the largest and smallest probability of every set."""

    def __init__(self, upper: Floats, lower: Floats, diameter: float) -> None:
        self.upper, self.lower, self.diameter = upper, lower, diameter
        size = len(upper)
        other = ~np.eye(size, dtype=bool)
        shape = (size, size, upper.shape[1])
        self._best = undominated(
            np.broadcast_to(upper[:, None, :], shape)[other],
            np.broadcast_to(lower[None, :, :], shape)[other],
        )

    def largest(self, variation: float) -> float:
        above, below = self._best
        if above.size == 0:
            return 0.0
        value = float(np.max(log_mean(above, variation) - log_mean_low(below, variation)))
        return min(variation, value + _ROUND, contracted(self.diameter, variation, 4))

    def pairs(self, variation: float) -> Floats | None:
        if self.upper.shape[1] == 0:
            return np.zeros((len(self.upper), len(self.upper)))
        above, below = log_mean(self.upper, variation), log_mean_low(self.lower, variation)
        steps: Floats = np.max(above[:, None, :] - below[None, :, :], axis=2) + _ROUND
        most = min(variation, contracted(self.diameter, variation, 4))
        steps = np.clip(steps, 0.0, most)
        np.fill_diagonal(steps, 0.0)
        return steps


class RelaxedStep(Step):
    """A bound on the step from bounds on entries, for many states."""

    def __init__(self, lower: Floats, upper: Floats, diameter: float) -> None:
        self.diameter, self.size = diameter, len(lower)
        self._tables = [_affine(lower, upper, u, v) for u, v in _WEIGHTS]
        other = ~np.eye(self.size, dtype=bool)
        self._best = [
            pareto(above[other].ravel(), below[other].ravel()) for above, below in self._tables
        ]
        if self.size > _PAIRWISE:
            self._tables = []

    def largest(self, variation: float) -> float:
        bound = min(variation, contracted(self.diameter, variation, 4))
        for above, below in self._best:
            bound = min(bound, float(np.max(_affine_logs(above, below, variation))) + _ROUND)
        return max(bound, 0.0)

    def pairs(self, variation: float) -> Floats | None:
        if not self._tables:
            return None
        steps: Floats = np.full((self.size, self.size), self.largest(variation))
        for above, below in self._tables:
            steps = np.minimum(steps, _affine_logs(above, below, variation).max(axis=2) + _ROUND)
        steps = np.maximum(steps, 0.0)
        np.fill_diagonal(steps, 0.0)
        return steps


def _affine(lower: Floats, upper: Floats, u: float, v: float) -> tuple[Floats, Floats]:
    """Bounds on P(x, S) and P(x', S) for all pairs and all prefixes S, the empty one included."""
    size = len(lower)
    more = (1 - u) * upper + u * lower
    less = (1 - v) * lower + v * upper
    shape = (size, size, size)
    first = np.broadcast_to(more[:, None, :], shape)
    second = np.broadcast_to(less[None, :, :], shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(first > 0, first / second, -1.0)
    order = np.argsort(-ratio, axis=2)
    above, below = np.zeros((size, size, size + 1)), np.zeros((size, size, size + 1))
    above[:, :, 1:] = np.take_along_axis(first, order, axis=2).cumsum(axis=2)
    below[:, :, 1:] = np.take_along_axis(second, order, axis=2).cumsum(axis=2)
    # Sums are exact to a relative error, differences from 1 to an absolute one.
    slack = 8 * size * EPS
    above, below = above * (1 + slack), below * (1 - slack)
    if u > 0:
        above += u * (np.maximum(1 - lower.sum(axis=1), 0.0) + slack)[:, None, None]
    if v > 0:
        below += v * (1 - upper.sum(axis=1) - slack)[None, :, None]
    return above, below


def _affine_logs(above: Floats, below: Floats, variation: float) -> Floats:
    """The log of (1 + c A) / (1 + c B) with c = e^a - 1; infinite where B is too small."""
    if variation > _HUGE:
        # For A >= B > 0 the limit log A / B is an upper bound; the empty set gives a step of 0.
        # With B < 0 for the empty set, prefixes no longer decide.
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(above) - np.log(np.where(below > 0, below, 0.0))
        unknown = np.where((above > 0) | (below < 0), inf, 0.0)
        return np.where(below > 0, np.maximum(logs, 0.0), unknown)
    c = expm1(variation)
    denominator = 1 + c * below
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log1p(c * above) - np.log(denominator)
    return np.where(denominator > 0, logs, inf)
