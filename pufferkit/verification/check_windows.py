"""The proof of shaped noise by windows: only how far they reach is read, all else is computed.

Around an entry with value x let A be what the entries nearer than the reach r add to the
coordinates, in scales, and v the two states at distance r; where the series ends before, that side
has no such state. Exchanging x for x' loses at most (SHAPE Theorem W; proof in docs/theory.md)

    the largest  J(v),   or   log of the largest  sum_v p'(v) e^{J(v)} b(v) / sum_v p'(v) b(v)

over b between 1 and e^D, with p' = P(v | x') and J(v) = log P(v | x) / p'(v) + e(v). For directions
t in the box [-1, 1]^m, L and L' the log-moments log E[e^{tA} | v] under x and x', the least of

    max over corners  of  L(t) - t mu' + sum var' / 2,         (coordinates in groups: by Hoelder)
    max over cells of the box, their centres t0 and corners t,
         of  L(t) - L'(t0) - (t - t0) mu0 + sum_j kappa_j E0[(A_j - mu'_j)^2] / 2

is such an e, where mu0 and E0 are under the law of x' tilted by t0, and kappa_j is u / artanh u at
the u nearest to 0 of the cell. D is what the record proves of the states at both ends, and what
exchanging them says of A: at most max (L'(t) - t mu') + range of mu' + max var' / 2.

Moments are built up entry by entry from the end of a window; nothing here is read from the engine.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from math import inf
from typing import Any

import numpy as np

from pufferkit.checks import Floats
from pufferkit.rounding import EPS
from pufferkit.verification.claims import Allowance, BadBeliefs

_TWO, _FOUR = [-1.0, -0.9, -0.7, -0.4, -0.1, 0.1, 0.4, 0.7, 0.9, 1.0], [-1.0, -0.6, 0.6, 1.0]
_TOGETHER = 7
_LARGEST, _RAREST = 300.0, 1e-200
_CORNERS_AT_ONCE = 32


def loss_by_windows(
    part: Any,
    scaled: Floats,
    lengths: Iterable[int],
    reach: int,
    ends: tuple[float, float],
    work: Allowance,
) -> float:
    """The largest loss of an entry; infinite where nothing is shown.

    Parameters
    ----------
    part
        What a member of the class says: a chain of one kernel each way.
    scaled
        Row x is what an entry adds to each coordinate, in scales.
    lengths, reach, ends
        Those of the segments, of the windows, and what their ends reveal.
    """
    known = _WindowProof(part, scaled, reach, work)
    seen, worst = set(), 0.0
    for length in set(lengths):
        near = {*range(min(reach + 1, length)), *range(max(0, length - 1 - reach), length)}
        for n in near:
            seen.add((min(n, reach), min(length - 1 - n, reach)))
    for window in sorted(seen):
        worst = max(worst, known.loss(window, ends))
    return worst


class _WindowProof:
    """Laws of A around an entry, for one part."""

    def __init__(self, part: Any, scaled: Floats, reach: int, work: Allowance) -> None:
        sides, secret = (part.left, part.right), part.secret
        plain = part.clock is None and part.sojourns is None and len(part.possible) == 1
        alike = all(s is not None and s.settled <= 2 and s.together is None for s in sides)
        if not (plain and alike and secret.is_entry and secret.weights is None):
            raise BadBeliefs("are no chains that are the same at all times, which windows need")
        steps = [side.later(1) for side in sides]
        steps += [] if part.emission is None else [part.emission, *part.posterior]
        single = all(s is not None and s.kind == "plans" and len(s.kernels) == 1 for s in steps)
        if secret.state or not single or len(steps) not in (2, 4):
            raise BadBeliefs("are not known kernel by kernel, which windows need")
        tables = [s.kernels[0] for s in steps] + [np.eye(len(steps[0].kernels[0]))] * 2
        self.kernels, self.shown, self.given = tables[:2], tables[2], tables[3]
        self.error = max(s.error for s in steps) + 8 * EPS
        self.reach, self.m = reach, scaled.shape[1]
        # What all entries add alike tells nothing.
        self.scaled = scaled - (scaled.max(axis=0) + scaled.min(axis=0)) / 2
        self.work, self.largest, self._kept = work, 0.0, dict[Any, Any]()
        self.corners = np.array(list(product((-1.0, 1.0), repeat=min(self.m, _TOGETHER + 1))))
        _, _, variance = self._moments((reach, reach), np.zeros((1, self.m)))
        spread = np.sqrt(variance[0].max(axis=(1, 2))) + 1e-9
        groups = 1 if self.m <= _TOGETHER + 1 else -(-self.m // _TOGETHER)
        self.groups = np.array_split(np.argsort(-spread), groups)
        sizes = np.array([np.sqrt((spread[one] ** 2).sum()) for one in self.groups])
        self.shares = sizes / sizes.sum()

    def loss(self, window: tuple[int, int], ends: tuple[float, float]) -> float:
        """The largest loss of two values of the entry in the middle of a window."""
        with np.errstate(all="ignore"):
            logs, mean, variance = (one[0] for one in self._moments(window, np.zeros((1, self.m))))
            chance = np.exp(logs)
            if not self._safe(window, chance):
                return inf
            own, ratio = self._corners(window, logs, mean, variance.sum(axis=0) / 2)
            if self.m <= 4:
                ratio = np.minimum(ratio, self._cells(window, mean))
            beyond = sum(end for end, n in zip(ends, window, strict=True) if n == self.reach)
            worst = 0.0
            for y, below in enumerate(chance):
                seen = below > 0
                moved = own[y, seen].max() + (variance[:, y, seen].sum(axis=0) / 2).max()
                moved += float(np.ptp(mean[:, y, seen], axis=1).sum()) + beyond + 4 * self.room
                for x in range(len(chance)):
                    if x != y:
                        worst = max(worst, self._pair(ratio[x, y], chance[x], below, moved))
        return worst if self.largest * (2 * self.reach + 2) <= _LARGEST else inf

    def _pair(self, ratio: Floats, above: Floats, below: Floats, moved: float) -> float:
        """The least of both bounds, from J of every pair of ends."""
        if (above[below == 0] > 0).any():
            return inf
        j, p = ratio[below > 0], below[below > 0]
        j = np.where(above[below > 0] > 0, j, -inf)
        best = float(j.max())
        order = np.argsort(-j)
        weights, factors = p[order], np.exp(j[order])
        grown = np.expm1(moved)
        if np.isfinite(grown):
            tops = (weights * factors).sum() + grown * np.cumsum(weights * factors)
            bottoms = weights.sum() + grown * np.cumsum(weights)
            largest = max((tops / bottoms).max(), (weights * factors).sum() / weights.sum())
            best = min(best, float(np.log(largest)) + 64 * len(j) * EPS)
        return best + self.room if np.isfinite(best) else inf

    def _corners(
        self, window: tuple[int, int], logs: Floats, mean: Floats, half: Floats
    ) -> tuple[Floats, Floats]:
        """The largest L'(t) - t mu', and J by the corners of the box."""
        most = np.zeros((len(logs), *logs.shape))
        for group, share in zip(self.groups, self.shares, strict=True):
            signs = np.array(list(product((-1.0, 1.0), repeat=len(group))))
            tilts = np.zeros((len(signs), self.m))
            tilts[:, group] = signs / share
            rise = self._logs(window, tilts) - logs
            moved = np.tensordot(tilts, mean, axes=1)
            largest = np.full(most.shape, -inf)
            for n in range(0, len(tilts), _CORNERS_AT_ONCE):
                some = slice(n, n + _CORNERS_AT_ONCE)
                each = rise[some, :, None] - moved[some, None]
                largest = np.maximum(largest, each.max(axis=0))
            most += share * largest
        own = most[range(len(logs)), range(len(logs))]
        return own, logs[:, None] - logs[None] + most + half[None]

    def _cells(self, window: tuple[int, int], mean: Floats) -> Floats:
        """J by the cells of the box."""
        found: Any = inf * -1.0
        cuts = np.array(_TWO if self.m <= 2 else _FOUR)
        grid = np.array(list(product(range(len(cuts)), repeat=self.m)))
        logs = self._logs(window, cuts[grid])
        place = {tuple(point): n for n, point in enumerate(grid.tolist())}
        cells = list(product(range(len(cuts) - 1), repeat=self.m))
        centres = np.array([[(cuts[n] + cuts[n + 1]) / 2 for n in cell] for cell in cells])
        below, tilted, variance = self._moments(window, centres)
        squares = variance + (tilted - mean) ** 2
        for n, cell in enumerate(cells):
            sides = np.array([[cuts[i], cuts[i + 1]] for i in cell])
            nearest = np.where(sides[:, 0] * sides[:, 1] <= 0, 0, np.abs(sides).min(axis=1))
            inside = np.clip(nearest, 1e-9, 1 - 1e-12)
            curved = np.where(nearest > 0, inside / np.arctanh(inside), 1.0) * (1 + 1e-9)
            corners = [tuple(np.add(cell, step)) for step in product((0, 1), repeat=self.m)]
            which = [place[tuple(int(i) for i in corner)] for corner in corners]
            away = np.tensordot(cuts[np.array(corners)] - centres[n], tilted[n], axes=1)
            floor = below[n] + away - np.tensordot(curved / 2, squares[n], axes=1)
            found = np.maximum(found, (logs[which][:, :, None] - floor[:, None]).max(axis=0))
        return np.asarray(found)

    def _logs(self, window: tuple[int, int], tilts: Floats) -> Floats:
        """The log of E[e^{tA}; v | x], tilt by tilt."""
        (zero,) = self._around(window, tilts, None)
        return np.asarray(np.log(zero + 1e-300) + (tilts @ self.scaled.T)[:, :, None])

    def _moments(self, window: tuple[int, int], tilts: Floats) -> tuple[Floats, Floats, Floats]:
        """The same, and mean and variance of the coordinates under the tilted laws."""
        means, variances = [], []
        for j in range(self.m):
            zero, one, two = self._around(window, tilts, j)
            first = np.where(zero > 0, one / zero, 0.0)
            variances.append(np.maximum(np.where(zero > 0, two / zero, 0.0) - first**2, 0.0))
            means.append(first + self.scaled[:, j, None])
        logs = np.log(zero) + (tilts @ self.scaled.T)[:, :, None]
        return logs, np.stack(means, axis=1), np.stack(variances, axis=1)

    def _around(self, window: tuple[int, int], tilts: Floats, j: int | None) -> list[Floats]:
        """Sums over both sides: of e^{tA}, and with A_j and its square."""
        left, right = (self._side(side, n, tilts, j) for side, n in enumerate(window))
        pairs = [[(0, 0, 1)], [(0, 1, 1), (1, 0, 1)], [(0, 2, 1), (1, 1, 2), (2, 0, 1)]]
        found = []
        for terms in pairs[: len(left)]:
            total = sum(
                times * np.einsum("xz,nzu,nzw->nxuw", self.given, left[a], right[b])
                for a, b, times in terms
            )
            found.append(np.asarray(total).reshape(len(tilts), len(self.given), -1))
        return found

    def _side(self, side: int, count: int, tilts: Floats, j: int | None) -> Sequence[Floats]:
        """From the state of the entry: moments over ``count`` entries, or to the end at reach."""
        key = side, count == self.reach, j, tilts.tobytes()
        if key not in self._kept:
            if len(self._kept) > 64 + 8 * self.m:
                self._kept.clear()
            self._kept[key] = self._grown(side, tilts, j, ended=count == self.reach)
        moments: Sequence[Floats] = self._kept[key][-1 if count == self.reach else count]
        return moments

    def _grown(self, side: int, tilts: Floats, j: int | None, *, ended: bool) -> list[list[Floats]]:
        """Moments of 0, 1, 2, ... entries; with ``ended`` of all that lie before the end."""
        kernel, exponents = self.kernels[side], tilts @ self.scaled.T
        h, n = len(kernel), len(tilts)
        self.work.spend(2.0 * n * self.reach * h**2 * (h if ended else 1) * (1 if j is None else 6))
        self.largest = max(self.largest, float(np.abs(exponents).max(initial=0.0)))
        weights = np.exp(exponents)
        added = np.ones(len(self.scaled)) if j is None else self.scaled[:, j]
        shown = [(weights * added**p) @ self.shown.T for p in range(1 if j is None else 3)]
        steps = [kernel * one[:, None, :] for one in shown]
        start = np.broadcast_to(kernel if ended else np.ones((h, 1)), (n, h, h if ended else 1))
        now = [start, *(np.zeros_like(start) for _ in steps[1:])]
        found = [now]
        for _ in range(self.reach - 1):
            further = [steps[0] @ now[0]]
            if j is not None:
                further.append(steps[0] @ now[1] + steps[1] @ now[0])
                further.append(steps[0] @ now[2] + 2 * steps[1] @ now[1] + steps[2] @ now[0])
            now = further
            found = [now] if ended else [*found, now]
        return found

    @property
    def room(self) -> float:
        """More than all roundings; means and squares have absolute ones."""
        count, size = 2 * self.reach + 6, len(self.kernels[0]) + len(self.scaled) + self.m + 8
        share = count * (self.error + 4 * size * EPS * (2 + self.largest))
        sums = count * np.abs(self.scaled).max(axis=0)
        return float(share * (8 + 4 * sums.sum() + 8 * (sums**2).sum()))

    def _safe(self, window: tuple[int, int], chance: Floats) -> bool:
        """Whether no possible pair of ends is so rare that a float may have lost it."""
        likely = [np.ones((len(self.kernels[0]), 1))] * 2
        for side, n in enumerate(window):
            if n == self.reach:
                step = (self.kernels[side] > 0).astype(float)
                power, far = np.eye(len(step)), n
                while far:
                    power = np.minimum(power @ step, 1.0) if far & 1 else power
                    step, far = np.minimum(step @ step, 1.0), far >> 1
                likely[side] = power
        possible = np.einsum("xz,zu,zw->xuw", (self.given > 0) * 1.0, *likely)
        return not ((chance < _RAREST) & (possible.reshape(chance.shape) > 0)).any()
