"""Certified influence over a region of matrices: bounds on every entry, rows that sum to one.

Write R_x for the distributions that row x may be. Everything below holds for every matrix of the
region, and for different ones from step to step.

*To the right.* The step needs, for every set S of states, the largest P^m(x, S) and the smallest
P^m(x', S). Both follow by recursion,

    U_m(x, S) = max over p in R_x of sum_z p(z) U_{m-1}(z, S),        L_m likewise with min,

and each maximum is attained by giving every z its least share and the rest to the best z first. For
few states all S are listed; for one step and x != x' that is the exact supremum of the step. For
many states only entries of P^m are followed (`pufferkit.influence.curve.steps`).

*To the left, with a region of backward kernels.* As to the right, with those kernels: the block
argument uses only that the series is Markov at the end of the block.

*To the left, any start.* A pair of columns x, x' of P^m has projective diameter

    D_m(x, x') = max over rows u != w of  log P^m(u,x) / P^m(u,x') + log P^m(w,x') / P^m(w,x),

and the largest ratio of two entries of a row within bounds is a closed form. Rows of P^m are means
of rows of P^{m-1}, so D never grows with m. By Birkhoff's theorem P^j brings two columns closer by
tanh(D_j / 4), so D_m <= tanh(D_j / 4) D_{m-j}: unlike the intervals, that goes to 0. Where a lower
bound is 0 a ratio may be infinite; only positive lower bounds contract.

*Rows*: log P^m(x, y) / P^m(x', y) is at most log h / l, never grows with m (data processing), and
is at most the largest D_m, because two distributions cannot differ in the same direction
everywhere.
"""

from __future__ import annotations

from math import inf, tanh
from typing import ClassVar

import numpy as np

from pufferkit.checks import Floats
from pufferkit.errors import NotApplicable
from pufferkit.influence.curve.engine import Part, Side
from pufferkit.influence.curve.steps import BoxEntries, BoxSets, Diameters, Widest
from pufferkit.influence.quilts.search import Pair
from pufferkit.rounding import EPS

LISTED = 10
"""Up to this many states, all sets of states are listed."""

_NEGLIGIBLE = 1e-4
_ROUND = 1e-12
_NO_CONTRACTION = (
    "too many transitions of the region may be impossible (lower bound 0), so the past is not "
    "known to be forgotten"
)


class RegionInfluence:
    """Bounds on the powers of all matrices of a region, computed one step after another.

    ``before`` is the region of the backward kernels; ``None`` for any start.
    """

    def __init__(self, low: Floats, high: Floats, before: RegionInfluence | None = None) -> None:
        self.low, self.high, self.before = low, high, before
        self.size = len(low)
        self.listed = self.size <= LISTED
        self.most = 1024 if self.size <= 6 else 256
        self.columns = _subsets(self.size) if self.listed else np.eye(self.size)
        upper, lower = self.columns, self.columns  # U_0 and L_0
        self._upper: list[Floats] = [upper]
        self._lower: list[Floats] = [lower]
        self._diameters: list[Floats] = [np.where(np.eye(self.size) > 0, 0.0, inf)]
        self._ratios: list[Floats] = [np.where(np.eye(self.size) > 0, 0.0, inf)]
        self._contracts: int | None = None

    def sets(self, m: int) -> tuple[Floats, Floats]:
        """U_m and L_m of the columns, up to ``most`` steps."""
        while len(self._upper) <= m:
            self._advance()
        return self._upper[m], self._lower[m]

    def entries(self, m: int) -> tuple[Floats, Floats]:
        """Bounds on the entries of P^m."""
        upper, lower = self.sets(m)
        if not self.listed:
            return lower, upper
        single = [(1 << y) - 1 for y in range(self.size)]  # the column of the set {y}
        return lower[:, single], upper[:, single]

    def diameter(self, m: int) -> Floats:
        """Bounds on D_m for all pairs of columns; beyond the computed ones, the last."""
        return self._diameters[self._known(m)]

    def ratio(self, m: int) -> Floats:
        """Bounds on the log-ratios of rows of P^m, for all pairs of rows."""
        return self._ratios[self._known(m)]

    @property
    def contracts(self) -> bool:
        """Whether some power is known to forget its start."""
        while not self._ended and self._contracts is None:
            self._extend()
        own = self._contracts is not None
        return own and (self.before is None or self.before.contracts)

    @property
    def _ended(self) -> bool:
        """Whether further steps are not worthwhile; a bound for fewer steps is valid for more."""
        m = len(self._diameters) - 1
        if self._contracts is None:
            # If the pattern of positive lower bounds ever fills the matrix, it has done so by then.
            return m > min(self.most, (self.size - 1) ** 2 + self.size + 1)
        return m >= self.most or bool(self._diameters[-1].max() < _NEGLIGIBLE)

    def _known(self, m: int) -> int:
        while len(self._diameters) <= m and not self._ended:
            self._extend()
        return min(m, len(self._diameters) - 1)

    def _advance(self) -> None:
        delta = 4 * (self.size + 4) * EPS
        above, below = self._upper[-1], self._lower[-1]
        most = _allocated(self.low, self.high, above, largest=True)
        least = _allocated(self.low, self.high, below, largest=False)
        # Rounding of the shares is absolute, of the products relative.
        upper = most * (1 + delta) + delta * above.max(axis=0)
        surely = (self.low @ below) * (1 - delta)
        lower = np.maximum(least * (1 - delta) - delta * below.max(axis=0), surely)
        self._upper.append(np.minimum(upper, 1.0))
        self._lower.append(np.maximum(lower, 0.0))

    def _extend(self) -> None:
        m = len(self._diameters)
        lower, upper = self.entries(m)
        diameter = np.minimum(self._diameters[-1], _diameters(lower, upper) + _ROUND)
        if self._contracts is not None:
            shrink = tanh(float(self._diameters[self._contracts].max()) / 4) * (1 + 1e-14)
            earlier = self._diameters[m - self._contracts]
            diameter = np.minimum(diameter, shrink * earlier)
        elif diameter.max() < inf:
            self._contracts = m
        np.fill_diagonal(diameter, 0.0)
        self._diameters.append(diameter)
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(upper)[:, None, :] - np.log(lower)[None, :, :]
        logs = np.where((upper > 0)[:, None, :], logs, -inf)
        ratio = np.minimum(np.maximum(logs.max(axis=2), 0.0) + _ROUND, self._ratios[-1])
        ratio = np.minimum(ratio, diameter.max())
        np.fill_diagonal(ratio, 0.0)
        self._ratios.append(ratio)

    def right_step(self, m: int) -> Widest:
        """The step of P^m over the region."""
        worst = float(self.diameter(m).max())
        upper, lower = self.sets(m)
        if self.listed:
            return BoxSets(upper, lower, worst)
        return BoxEntries(lower, upper, worst)

    def left_step(self, m: int) -> Widest:
        """The backward step, over the region of backward kernels or all starts."""
        if self.before is not None:
            return self.before.right_step(m)
        return Diameters(self.diameter(m))

    def left_ratio(self, m: int) -> Floats:
        """Bounds on the log-ratios of the distribution m entries before, given two values."""
        return self.diameter(m) if self.before is None else self.before.ratio(m)

    def part(self, length: int) -> Part:
        """What is known about the entries of a segment of ``length`` nodes."""
        most = min(length, self.most)
        left, right = (Side.of_blocks(s, most) for s in (self.left_step, self.right_step))
        notes = () if self.contracts else (_NO_CONTRACTION,)
        every = [np.ones(self.size, dtype=bool)]
        name = "all chains of the region"
        return Part(name, left, right, every, notes=notes)

    def between(self, node: int, left: int | None, right: int | None) -> tuple[float, Pair]:
        """Upper bound on the max-influence of any node on its endpoints, and the worst pair."""
        total = np.zeros((self.size, self.size))
        if left is not None:
            total = total + self.left_ratio(left)
        if right is not None:
            total = total + self.ratio(right)
        x, other = np.unravel_index(int(total.argmax()), total.shape)
        return float(total[x, other]), (int(x), int(other))

    def of_pair(self, side: int, node: int, steps: int, pair: Pair) -> float:
        """The bound of one endpoint for one pair."""
        return float((self.left_ratio, self.ratio)[side](steps)[pair])

    def slack(self, side: int, node: int, steps: int) -> float:
        """Nothing: bounds are rounded up."""
        return 0.0

    steady: ClassVar[bool] = True

    def stretches(self, length: int) -> list[tuple[int, int]]:
        """Every node has the same bounds.

        Raises
        ------
        NotApplicable
            If the influence on every quilt but the trivial one is unbounded.
        """
        if self.size > 1 and length > 1 and not self.contracts:
            raise NotApplicable(
                "no bound on max-influence is certified over this region: too many transitions "
                "may be impossible (their lower bounds are 0), so some chains of it never forget; "
                "count more public data, merge rare states, or use group_dp"
            )
        return [(1, length)]


def _subsets(size: int) -> Floats:
    """Every set of states but the empty and the whole one, as columns of 0 and 1."""
    masks = np.arange(1, max(2, 2**size - 1))
    subsets: Floats = (masks[None, :] >> np.arange(size)[:, None] & 1).astype(float)
    return subsets


def _allocated(low: Floats, high: Floats, values: Floats, *, largest: bool) -> Floats:
    """For row x and column c, the extreme of sum_z p(z) values(z, c) over p in bounds."""
    order = np.argsort(-values if largest else values, axis=0, kind="stable")
    ranked = np.take_along_axis(values, order, axis=0)
    room = (high - low)[:, order]  # row x, place, column
    before = np.cumsum(room, axis=1) - room
    rest = np.maximum(1 - low.sum(axis=1), 0.0)[:, None, None]
    extra = np.clip(rest - before, 0.0, room)
    means: Floats = low @ values + np.einsum("xzc,zc->xc", extra, ranked)
    return means


def _diameters(lower: Floats, upper: Floats) -> Floats:
    """Bounds on the projective diameter of pairs of columns, over all pairs of different rows."""
    size = len(lower)
    slack = 8 * size * EPS
    # The largest p(x) / p(y) of a distribution within bounds: p(y) least, then p(x) most.
    rest_high = upper.sum(axis=1)[:, None, None] - upper[:, :, None] - upper[:, None, :]
    rest_low = lower.sum(axis=1)[:, None, None] - lower[:, :, None] - lower[:, None, :]
    least = np.maximum(lower[:, None, :], 1 - upper[:, :, None] - rest_high - slack)
    most = np.minimum(upper[:, :, None], np.maximum(1 - least - rest_low + slack, 0.0))
    most = np.maximum(most, np.minimum(lower[:, :, None], upper[:, :, None]))
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(upper[:, :, None] > 0, np.log(most) - np.log(least), -inf)
    logs = np.where(np.isnan(logs), -inf, logs)  # row, x, y
    if size == 1:
        return np.zeros((1, 1))
    # The best sum over two different rows: the best of each, unless that is the same row.
    first, second = logs, logs.transpose(0, 2, 1)
    next_best, best = np.partition(first, size - 2, axis=0)[-2:]
    next_other, other = np.partition(second, size - 2, axis=0)[-2:]
    same = np.argmax(first, axis=0) == np.argmax(second, axis=0)
    with np.errstate(invalid="ignore"):
        apart = np.fmax(best + next_other, next_best + other)
        both = np.where(same, apart, best + other)
    diameters: Floats = np.fmax(both, 0.0)  # a row where neither column is possible is skipped
    np.fill_diagonal(diameters, 0.0)
    return diameters
