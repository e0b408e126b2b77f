"""Steps of kernels with many states, without listing sets.

With c = e^a - 1, every set S has (1 + c K(x, S)) / (1 + c K(x', S)) <= r if and only if

    1 + c h(r) <= r,    h(r) = sum over y of max(0, K(x, y) - r K(x', y)),

since the sum is the largest K(x, S) - r K(x', S). So the step of a pair of rows is the logarithm of
the only root of r = 1 + c h(r), where h is the hockey-stick divergence of the two rows: convex and
falling in r. Where r is below the root, the set that attains h(r) has a ratio between r and the
root, which is Newton's method (Dinkelbach's, for ratios). It ends where the set of a root has no
larger ratio than that root: then no set has.

The step of the worst pair is the root for the largest h of all pairs, convex and falling too. What
was computed at some r bounds it from below by tangents and from above by chords, so most roots are
found without looking at all pairs again. Where it has to be looked up at another r, a pair of rows
whose own chord lies below a tangent is passed over. A root is taken from the chord: it is never too
small, and at most one part in 10^10 too large.

Cost: k^3 multiplications for the first few r and about k^2 for the others, in place of a sort for
each pair, k^3 log k, and tables of k^3 numbers.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from dataclasses import dataclass
from functools import cached_property
from math import expm1, log1p

import numpy as np

from pufferkit.checks import Bools, Floats
from pufferkit.compiling import compiled_loop
from pufferkit.influence.kernels import TINY, Kernel, row_log_ratios
from pufferkit.rounding import EPS

_CLOSE = 1e-10
_NOTHING = 1e-16
_MOST_TABLES = 12
_MOST_LOOKS = 60
_MOST_TURNS = 200
_FAR = 700.0


@dataclass(frozen=True, order=True)
class _Look:
    """At 1 + ``rise``: the largest h, the line that touches it there, bounds on h of each pair."""

    rise: float
    height: float
    more: float
    below: float
    each: Floats | None

    def root(self, growth: float) -> float:
        """The root, less 1, if the line were h: from below."""
        return growth * self.more / (1 + growth * self.below)


class HockeySticks:
    """Steps of one kernel, as a function of the variation."""

    def __init__(self, kernel: Kernel, allowed: Bools) -> None:
        self._kernel = kernel
        values, possible = kernel.values, kernel.possible
        # An entry that underflowed counts as TINY in the numerator and as 0 in the denominator.
        self._upper: Floats = np.where(possible, np.maximum(values, TINY), 0.0)
        self._lower: Floats = np.where(values >= TINY, values, 0.0)
        self._across: Floats = np.ascontiguousarray(self._lower.T)
        self._compared = allowed & ~np.eye(len(values), dtype=bool)
        self._rounding = 8 * EPS * (values.shape[1] + 2)
        self._looks: list[_Look] = []
        self._roots: dict[float, float] = {}
        self._last: Floats = np.zeros_like(allowed, dtype=float)

    def largest(self, variation: float) -> float:
        """The step of the worst pair of rows."""
        if not self._compared.any() or variation == 0:
            return 0.0
        if variation > _FAR:
            # A step has a slope of at most 1.
            return min(self._largest_limit, self.largest(_FAR) + variation - _FAR)
        if variation not in self._roots:
            self._roots[variation] = log1p(self._root(expm1(variation)))
        return self._roots[variation]

    def pairs(self, variation: float) -> Floats:
        """The step of every ordered pair of rows."""
        if variation > _FAR:
            return np.minimum(self._limits, self.pairs(_FAR) + variation - _FAR)
        self._last = _roots(self._upper, self._across, expm1(variation), self._last)
        steps: Floats = np.log1p(self._last)
        return steps

    @cached_property
    def _largest_limit(self) -> float:
        """The largest of `_limits`: of each column its most over its least, if all compare."""
        if not self._compared[~np.eye(len(self._compared), dtype=bool)].all():
            return float(self._limits[self._compared].max())
        above, below = self._upper.max(axis=0), self._lower.min(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.where(above > 0, np.log(above) - np.log(below), 0.0)
        return max(0.0, float(ratios.max()))

    @cached_property
    def _limits(self) -> Floats:
        """The steps from everything: the largest log-ratios of entries."""
        limits: Floats = np.maximum(row_log_ratios(self._kernel), 0.0)
        return limits

    def _root(self, growth: float) -> float:
        """The root for the largest h, less 1, from above."""
        if not self._looks:
            self._look(0.0)
        low = high = max(look.root(growth) for look in self._looks)
        for _ in range(_MOST_LOOKS):
            high = self._chord(low, growth)
            if high - low <= _CLOSE * low + _NOTHING:
                return max(high, low)
            following = self._look(low).root(growth)
            if following <= low:
                return low
            low = following
        return high

    def _chord(self, low: float, growth: float) -> float:
        """The root for the chord over ``low``; h is no larger beyond the last look."""
        place = bisect_right(self._looks, low, key=_rise)
        before = self._looks[place - 1]
        if place == len(self._looks):
            return growth * before.height
        after = self._looks[place]
        slope = max(0.0, (before.height - after.height) / (after.rise - before.rise))
        return growth * (before.height + slope * before.rise) / (1 + growth * slope)

    def _look(self, rise: float) -> _Look:
        """The largest h at 1 + ``rise``, and the line that touches it."""
        known = max((look.more - look.below * rise for look in self._looks), default=0.0)
        each = self._bounds(rise)
        first, second = np.nonzero(self._compared if each is None else each > known)
        if each is None or 3 * len(first) > each.size:
            each = np.where(self._compared, _sums(self._upper, self._across, 1 + rise), 0.0)
        else:
            each[first, second] = _sums_of(self._upper, self._lower, 1 + rise, first, second)
        x, other = np.unravel_index(int(each.argmax()), each.shape)
        inside = self._upper[x] > (1 + rise) * self._lower[other]
        below = float(self._lower[other][inside].sum())
        more = float((self._upper[x] - self._lower[other])[inside].sum())
        height = max(float(each[x, other]), known) + self._rounding
        kept = each if len(self._looks) < _MOST_TABLES else None
        look = _Look(rise, height, more, below, kept)
        insort(self._looks, look, key=_rise)
        return look

    def _bounds(self, rise: float) -> Floats | None:
        """For each pair the chord of what is known of its h; ``None`` if that is too little."""
        tables = [(look.rise, look.each) for look in self._looks if look.each is not None]
        place = bisect_right(tables, rise, key=lambda table: table[0])
        if place == len(tables):
            return None
        (start, first), (end, second) = tables[place - 1], tables[place]
        share = (rise - start) / (end - start)
        bounds: Floats = (1 - share) * first + share * second + self._rounding
        return np.where(self._compared, bounds, 0.0)


def _rise(look: _Look) -> float:
    return look.rise


@compiled_loop
def _sums(upper, across, ratio):  # type: ignore[no-untyped-def]
    """The divergence h of every pair of rows."""
    rows, columns = upper.shape
    sums = np.zeros((rows, rows))
    for x in range(rows):
        own = sums[x]
        for y in range(columns):
            above, below = upper[x, y], across[y]
            if above > 0:
                for other in range(rows):
                    own[other] += max(above - ratio * below[other], 0.0)
    return sums


@compiled_loop
def _sums_of(upper, lower, ratio, first, second):  # type: ignore[no-untyped-def]
    """The divergence h of some pairs of rows."""
    sums = np.zeros(len(first))
    for n in range(len(first)):
        above, below = upper[first[n]], lower[second[n]]
        total = 0.0
        for y in range(len(above)):
            total += max(above[y] - ratio * below[y], 0.0)
        sums[n] = total
    return sums


@compiled_loop
def _roots(upper, across, growth, rises):  # type: ignore[no-untyped-def]
    """The root of every pair of rows, less 1, searched from ``rises``."""
    rows, columns = upper.shape
    roots = np.zeros((rows, rows))
    more, below, height = np.empty(rows), np.empty(rows), np.empty(rows)
    for x in range(rows):
        low = roots[x]
        low[:] = rises[x]
        ended = False
        for turn in range(_MOST_TURNS):
            more[:], below[:], height[:] = 0.0, 0.0, 0.0
            for y in range(columns):
                above, lower = upper[x, y], across[y]
                if above > 0:
                    for other in range(rows):
                        gain = above - (1 + low[other]) * lower[other]
                        inside = 1.0 if gain > 0 else 0.0
                        height[other] += inside * gain
                        more[other] += inside * (above - lower[other])
                        below[other] += inside * lower[other]
            ended = turn > 0
            for other in range(rows):
                rise = growth * more[other] / (1 + growth * below[other])
                # What is searched from may lie above the root; what follows does not.
                if rise > low[other] or turn == 0:
                    ended = False
                    low[other] = rise
            if ended:
                break
        if not ended:
            for other in range(rows):
                low[other] = max(low[other], growth * (height[other] + 8e-16 * (columns + 2)))
    return roots
