"""How much of a log-likelihood's variation survives one step of a chain.

For a kernel K whose rows are distributions, a pair of rows x, x' and a >= 0, the *step* is

    step_{x,x'}(K, a) = max over sets S of log(1 + K(x, S) (e^a - 1)) - log(1 + K(x', S) (e^a - 1)),

the largest log-ratio of (K G)(x) to (K G)(x') over positive functions G whose logarithm varies by
at most a. The best S is a prefix of the states sorted by K(x, y) / K(x', y), so one sort for each
pair lists every candidate (K(x, S), K(x', S)). Over all pairs at once, only candidates that no
other beats in both numbers matter. Large kernels do without a list
(`pufferkit.influence.curve.hockey_sticks`).

For any start of the chain, kernels against the direction of time are known only up to a
reweighting of their columns. The projective diameter D of a pair of rows does not change under
reweighting, and over all reweightings the step is largest at

    tanh(step / 4) = tanh(D / 4) tanh(a / 4).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from math import atanh, exp, expm1, inf, log1p, tanh
from typing import TYPE_CHECKING, Any

import numpy as np

from pufferkit.checks import Bools, Floats
from pufferkit.influence.kernels import TINY, Kernel
from pufferkit.rounding import EPS

if TYPE_CHECKING:
    from pufferkit.influence.curve.hockey_sticks import HockeySticks

MOST_CANDIDATES = 1 << 22
"""Above this many candidate sets (k^3 for k states), one bound serves all pairs of rows."""

TABLED = 1 << 15
"""Above this many, they are not listed."""

LARGE = 30.0
"""From this variation on, its exponential is factored out of sums."""

_SATURATES = 8.0
_FEW = 32
_KEPT_WITHOUT_LISTS = 16
_BINS = 1 << 16


class Step(ABC):
    """A step as a function of the incoming variation a, for all pairs of rows."""

    @abstractmethod
    def largest(self, variation: float) -> float:
        """The step for the worst pair of rows, rounded up."""

    @abstractmethod
    def pairs(self, variation: float) -> Floats | None:
        """The step for every ordered pair of rows; ``None`` if there are too many."""


class KernelStep(Step):
    """The exact step of a known kernel.

    Parameters
    ----------
    kernel
        Rows are distributions; it may have more or fewer columns than rows.
    allowed
        Which pairs of rows can be compared: both values must be possible at the same time.
    error
        Bound on the error of a log-ratio of entries; added to every step.
    """

    def __init__(self, kernel: Kernel, allowed: Bools, error: float) -> None:
        size, columns = kernel.values.shape
        self.error: float = kernel_error(error, size, columns)
        self.allowed = allowed
        self._tables: tuple[Floats, Floats] | None = None
        self._sticks: HockeySticks | None = None
        self._told_apart = size**2 * columns <= MOST_CANDIDATES
        if size**2 * columns <= TABLED:
            self._tables = _prefixes(kernel)
        else:
            # Compiled code, loaded when first needed.
            from pufferkit.influence.curve.hockey_sticks import HockeySticks  # noqa: PLC0415

            self._sticks = HockeySticks(kernel, allowed)

    @cached_property
    def best(self) -> tuple[Floats, Floats]:
        """The undominated candidates over all pairs; none if they are not listed."""
        if self._tables is None:
            return np.empty(0), np.empty(0)
        above, below = self._tables
        return undominated(above[self.allowed], below[self.allowed])

    def largest(self, variation: float) -> float:
        if self._sticks is not None:
            return min(variation, self._sticks.largest(variation) + self.error)
        above, below = self.best
        if above.size == 0:
            return 0.0
        return min(variation, float(_largest_of(above, below, variation)) + self.error)

    def pairs(self, variation: float) -> Floats | None:
        if not self._told_apart:
            return None
        if self._tables is not None:
            steps: Floats = _largest_of(*self._tables, variation)
        else:
            assert self._sticks is not None
            steps = self._sticks.pairs(variation)
        steps = np.minimum(steps + self.error, variation)
        steps[~self.allowed] = -inf
        np.fill_diagonal(steps, np.where(np.diag(self.allowed), 0.0, -inf))
        return steps


def kernel_error(error: float, size: int, columns: int) -> float:
    """The error of a step: of both entries of its ratios, and of sums over the columns."""
    return 2 * error + 8 * max(size, columns) * EPS


def candidates_kept(size: int, columns: int) -> int:
    """How many candidates, of two numbers each, a step of so many rows and columns keeps."""
    listed = size**2 * columns
    return listed if listed <= TABLED else min(columns, _KEPT_WITHOUT_LISTS) * size**2


class DiameterStep(Step):
    """The step over all reweightings of the columns, from projective diameters of pairs of rows."""

    def __init__(self, diameters: Floats) -> None:
        self.diameters = diameters
        self._worst = float(diameters.max())

    def largest(self, variation: float) -> float:
        return contracted(self._worst, variation, 4)

    def pairs(self, variation: float) -> Floats | None:
        if variation == inf:
            return self.diameters
        different, places = np.unique(self.diameters, return_inverse=True)
        steps = np.array([contracted(float(d), variation, 4) for d in different])
        pairwise: Floats = steps[places].reshape(self.diameters.shape)
        return pairwise


class RatioStep(Step):
    """The step of any kernel whose rows have log-ratios at most ``ratio``.

    The worst such kernel has two columns, e^ratio to 1, so tanh(step/2) = tanh(ratio/2) tanh(a/2).
    """

    def __init__(self, ratio: float, size: int) -> None:
        self.ratio, self.size = ratio, size

    def largest(self, variation: float) -> float:
        return contracted(self.ratio, variation, 2)

    def pairs(self, variation: float) -> Floats | None:
        steps = np.full((self.size, self.size), self.largest(variation))
        np.fill_diagonal(steps, 0.0)
        return steps


def contracted(limit: float, variation: float, scale: int) -> float:
    """The s with tanh(s / scale) = tanh(limit / scale) tanh(variation / scale), rounded up."""
    most, least = max(limit, variation), min(limit, variation)
    if most == inf or least == 0:
        return least
    if least < _SATURATES:
        product = tanh(limit / scale) * tanh(variation / scale)
        return min(least, scale * atanh(product) * (1 + 1e-14))
    # The product is too close to 1 for a float. With x = 2 limit / scale and y = 2 variation /
    # scale the equation is e^(2 s / scale) = (1 + e^(x + y)) / (e^x + e^y), which is safe to
    # compute.
    high, low = 2 * most / scale, 2 * least / scale
    value = low + log1p(exp(-high - low)) - log1p(exp(low - high))
    return min(least, scale / 2 * value * (1 + 1e-14) + 1e-15 * scale)


def _prefixes(kernel: Kernel) -> tuple[Floats, Floats]:
    """K(x, S) and K(x', S) for every x, every x' and every prefix S."""
    # An entry that underflowed counts as TINY in the numerator and as 0 in the denominator.
    values, possible = kernel.values, kernel.possible
    upper = np.where(possible, np.maximum(values, TINY), 0.0)
    lower = np.where(values >= TINY, values, 0.0)
    first, second = upper[:, None, :], lower[None, :, :]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = np.where(first > 0, first / second, -1.0)
    order = np.argsort(-ratio, axis=2)
    shape = ratio.shape
    above = np.take_along_axis(np.broadcast_to(first, shape), order, axis=2).cumsum(axis=2)
    below = np.take_along_axis(np.broadcast_to(second, shape), order, axis=2).cumsum(axis=2)
    return np.minimum(above, 1.0), np.minimum(below, 1.0)


def undominated(above: Floats, below: Floats) -> tuple[Floats, Floats]:
    """Candidates that are not dominated: no other has more above and no more below."""
    above, below = above.ravel(), below.ravel()
    keep = above > below
    above, below = above[keep], below[keep]
    if len(above) < _BINS:
        return pareto(above, below)
    # Most candidates are dropped by a coarse test: some candidate in a higher bin has less below.
    bins = (above * _BINS).astype(np.intp)
    least = np.full(_BINS + 2, inf)
    np.minimum.at(least, bins, below)
    beyond = np.minimum.accumulate(least[::-1])[::-1]
    keep = below < beyond[bins + 1]
    return pareto(above[keep], below[keep])


def pareto(above: Floats, below: Floats) -> tuple[Floats, Floats]:
    """Candidates that are not dominated: no other has more above and no more below."""
    order = np.lexsort((below, -above))
    above, below = above[order], below[order]
    least = np.minimum.accumulate(below)
    keep = np.ones(len(below), dtype=bool)
    keep[1:] = below[1:] < least[:-1]
    return above[keep], below[keep]


def _largest_of(above: Floats, below: Floats, variation: float) -> Any:
    """The largest log (1 + A (e^a - 1)) / (1 + B (e^a - 1)) along the last axis.

    One logarithm for each maximum; the error of a step covers the rounding of the ratio.
    """
    if variation < LARGE:
        rise = expm1(variation)
        ratio = (1 + above * rise) / (1 + below * rise)
        return np.log(ratio.max(axis=-1))
    return np.max(log_mean(above, variation) - log_mean_low(below, variation), axis=-1)


def log_mean(share: Floats, variation: float) -> Floats:
    """log(1 + share (e^a - 1)), rounded to the safe side for a numerator."""
    if variation < LARGE:
        return np.log1p(share * expm1(variation))
    shares = np.maximum(share, TINY)
    if variation == inf:
        return np.log(shares)
    return variation + np.log(shares + (1 - shares) * exp(-variation))


def log_mean_low(share: Floats, variation: float) -> Floats:
    """The same for a denominator: a share that may have underflowed counts as zero."""
    if variation < LARGE:
        return np.log1p(share * expm1(variation))
    known = np.where(share >= TINY, share, 0.0)
    with np.errstate(divide="ignore"):
        if variation == inf:
            return np.log(known)
        return np.where(
            known > 0,
            variation + np.log(known + (1 - known) * exp(-variation)),
            0.0,
        )
