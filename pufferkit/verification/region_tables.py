"""Tables over a region of matrices, for `verify`: every entry between two bounds.

For every set S of states the largest and smallest P^m(x, S) follow from those of P^{m-1}, giving
each state its least share of a row and the rest to the best states first. Columns x, x' of P^m are
at most the projective distance apart that bounds on entries allow, and P^j brings them closer by
tanh(D_j / 4) (Birkhoff).
"""

from __future__ import annotations

from math import inf, tanh

import numpy as np

from pufferkit.beliefs.region_class import RegionClass
from pufferkit.checks import Bools, Floats
from pufferkit.verification.pair_tables import Allowance, Compared, NotChecked, projective_step

MOST_STATES = 8


class RegionBound(Compared):
    """One bound for all chains of a region, any start."""

    repeats_from, period = 0, 1

    def __init__(self, theta: RegionClass, work: Allowance) -> None:
        self.low, self.high, self.work = theta.low, theta.high, work
        self.before = None if theta.before is None else RegionBound(theta.before, work)
        self.size = len(theta.states)
        self.listed = self.size <= MOST_STATES
        masks = range(2**self.size) if self.listed else [1 << y for y in range(self.size)]
        self.sets = [[y for y in range(self.size) if mask >> y & 1] for mask in masks]
        self.single = [1 << y if self.listed else y for y in range(self.size)]
        whole = np.array([[float(x in s) for s in self.sets] for x in range(self.size)])
        self.most, self.least = [whole], [whole]
        self.distance = [np.where(np.eye(self.size) > 0, 0.0, inf)]
        self.ratio = [self.distance[0]]

    def pairs(self, node: int) -> Bools:
        """All pairs, as the start is arbitrary."""
        return np.ones((self.size, self.size), dtype=bool)

    def left(self, node: int, block: int, variation: float) -> Floats:
        """Columns of P^block, or rows of the kernels of that side."""
        if self.before is not None:
            return self.before.right(block, variation)
        self._up_to(block)
        bound = self.distance[block]
        return bound if variation == inf else projective_step(bound, variation)

    def right(self, block: int, variation: float) -> Floats:
        """Rows of P^block; the largest step over sets."""
        self._up_to(block)
        if variation == inf:
            return self.ratio[block]
        if not self.listed:
            raise NotChecked(
                f"the curve of a region with more than {MOST_STATES} states has no recomputation; "
                f"this one has {self.size}"
            )
        self.work.spend(2 * 10**4 + 40.0 * self.size**2 * len(self.sets))
        with np.errstate(divide="ignore"):
            above, below = (
                np.logaddexp(np.log1p(-p), np.log(p) + variation)
                for p in (self.most[block], self.least[block])
            )
        bound: Floats = np.maximum((above[:, None, :] - below[None, :, :]).max(axis=2), 0.0)
        np.fill_diagonal(bound, 0.0)
        widest = projective_step(np.full_like(bound, self.distance[block].max()), variation)
        least: Floats = np.minimum(np.minimum(bound, widest), variation)
        return least

    def _up_to(self, m: int) -> None:
        while len(self.most) <= m:
            self.work.spend(10**5 + 300.0 * self.size**2 * len(self.sets))
            most, least = self.most[-1], self.least[-1]
            self.most.append(np.minimum(self._shared(most, most), 1.0))
            self.least.append(np.clip(self._shared(least, -least), 0.0, 1.0))
            self._compare()

    def _shared(self, values: Floats, wish: Floats) -> Floats:
        """Sums over z of p(z) values(z, S), the free mass of p put where ``wish`` is largest."""
        shared = np.zeros_like(values)
        for s in range(len(self.sets)):
            order = np.argsort(-wish[:, s])
            for x in range(self.size):
                rest = max(0.0, 1 - self.low[x].sum())
                for z in order:
                    more = min(rest, self.high[x, z] - self.low[x, z])
                    rest -= more
                    shared[x, s] += (self.low[x, z] + more) * values[z, s]
        return shared

    def _compare(self) -> None:
        """Distances between columns and ratios of rows, never more than for fewer steps."""
        m, single = len(self.most) - 1, self.single
        high, low = self.most[-1][:, single], self.least[-1][:, single]
        size = range(self.size)
        distance, ratio = np.zeros((self.size,) * 2), np.zeros((self.size,) * 2)
        with np.errstate(divide="ignore", invalid="ignore"):
            for x in size:
                for y in size:
                    if x == y:
                        continue
                    ups = [self._ratio(low[u], high[u], x, y) for u in size]
                    downs = [self._ratio(low[u], high[u], y, x) for u in size]
                    sums = [a + b for u, a in enumerate(ups) for w, b in enumerate(downs) if u != w]
                    distance[x, y] = max(0.0, *(s for s in sums if not np.isnan(s)))
                    logs = np.log(high[x]) - np.log(low[y])
                    ratio[x, y] = max(0.0, float(np.nan_to_num(logs, nan=-inf, posinf=inf).max()))
        finite = [j for j, d in enumerate(self.distance) if d.max() < inf]
        if finite:
            j = finite[0]
            distance = np.minimum(distance, tanh(self.distance[j].max() / 4) * self.distance[m - j])
        distance = np.minimum(distance, self.distance[-1])
        ratio = np.minimum(np.minimum(ratio, self.ratio[-1]), distance.max())
        np.fill_diagonal(ratio, 0.0)
        self.distance.append(distance)
        self.ratio.append(ratio)

    def _ratio(self, low: Floats, high: Floats, x: int, y: int) -> float:
        """Log of the largest p(x) / p(y) of a distribution within bounds."""
        rest = [z for z in range(self.size) if z not in (x, y)]
        least = max(low[y], 1 - high[x] - high[rest].sum())
        most = min(high[x], 1 - least - low[rest].sum())
        if high[x] <= 0:
            return -inf
        return inf if least <= 0 else float(np.log(max(most, low[x])) - np.log(least))
