"""What each side of an entry can say about it when the noise is a chain: many noise chains at once.

With z_t = x_t xor y_t and both chains independent, the outputs leave x alone hidden. It moves from
t to t + 1 by

    M_{z, w}(x, x') = P(x, x') N(x xor z, x' xor w),    z = z_t, w = z_{t+1}.

Fixing X_j cuts the sum over paths in two, and what lies beyond the nearest known entry cancels in
the ratio of X_i = 0 to X_i = 1. So that log-ratio is a left part plus a right part, which share the
output z_i and nothing else. For a given pair of outputs a part is a monotone Moebius function of
the part one entry further away. The least and the largest value for each output at the near end,
both reached, therefore go to the least and the largest of the next entry: following them is exact,
against an adversary who knows any set of entries, and linear in the length.

Dividing by the same sum without outputs, P(x), P(x | X_j = u) or P(X_j = v | x), leaves the
conditional probability of [B] Definition 3.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import inf

import numpy as np

from pufferkit.checks import Floats
from pufferkit.rounding import EPS

CLOSE = 1e-10
"""Distances are followed until all that are further away add no more than this."""

FARTHEST = 1 << 14
"""Distances that are followed at most; what lies further away is bounded."""

_LEFT, _RIGHT = slice(0, 3), slice(3, 6)
"""Sides: nothing known, the entry at that distance known to be 0, known to be 1."""


class XorSides:
    """The two sides of an entry, for one data chain and many noise chains.

    Parameters
    ----------
    transition, start
        The data chain: its matrix, all moves possible, and log P(X_1 = 0) / P(X_1 = 1).
    rho
        One row for each noise chain: P(0 -> 1) and P(1 -> 0).
    """

    def __init__(self, transition: Floats, start: float, rho: Floats) -> None:
        self.start = start
        self.rho = rho
        moves = np.log(np.stack([1 - rho[:, 0], rho[:, 0], rho[:, 1], 1 - rho[:, 1]], axis=1))
        moves = moves.reshape(-1, 2, 2)
        kernels = np.empty((len(rho), 2, 2, 2, 2))
        for z, w in product((0, 1), repeat=2):
            kernels[:, z, w] = np.log(transition) + moves[:, [z, 1 - z]][:, :, [w, 1 - w]]
        to_left = kernels.swapaxes(3, 4)  # far output first, then near output
        to_right = kernels.swapaxes(1, 2)
        self._maps = np.stack([to_left] * 3 + [to_right] * 3)
        plain = np.log(transition)
        self._plain = np.stack([plain.T] * 3 + [plain] * 3)
        self._size = 1 + float(np.abs(kernels).max())

    def padding(self, steps: int) -> Floats:
        """More than rounding can have taken off a part, for each noise chain.

        Every step adds a few units in the last place and shrinks what came before by tanh(D/4),
        where D is the projective diameter of the kernel.
        """
        logs = self._maps[0]
        crossed = logs[..., 0, 0] + logs[..., 1, 1] - logs[..., 0, 1] - logs[..., 1, 0]
        kept = np.tanh(np.abs(crossed).max(axis=(1, 2)) / 4)
        count = np.minimum(steps, 1 / np.maximum(1 - kept, EPS))
        pad: Floats = 32 * EPS * self._size * (1 + count)
        return pad

    def walk(self) -> Iterator[tuple[Floats, Floats]]:
        """At distance 0, 1, 2, ...: what is said at most, and a bound on all that is further away.

        Shapes (6 sides, chains, outputs, 2) and (2 sides, chains, outputs, 2); the last axis is for
        state 1 and for state 0.
        """
        count = len(self.rho)
        own = np.log(self.rho[:, 1] / self.rho[:, 0])
        low = np.empty((6, count, 2))
        low[0] = self.start + np.stack([own, -own], axis=1)
        low[1], low[2], low[3], low[4], low[5] = inf, -inf, 0.0, inf, -inf
        high = low.copy()
        reference = np.array([self.start, inf, -inf, 0.0, inf, -inf])
        outer = np.broadcast_to(np.array([-inf, inf])[:, None, None, None], (2, 2, count, 2))
        silent = np.array([[-inf, -inf], [inf, inf]])
        sides = [0, 3]
        while True:
            ratios = np.full((6, count, 2, 2), -inf)
            finite = np.isfinite(reference)
            away = reference[finite][:, None, None]
            ratios[finite] = np.stack([away - low[finite], high[finite] - away], axis=-1)
            if np.isfinite(silent).all():
                limits = silent[:, :, None, None]
                beyond = np.stack([limits[1] - outer[0], outer[1] - limits[0]], axis=-1)
            else:
                beyond = np.full((2, count, 2, 2), inf)
            yield ratios, beyond
            low, high = _moved_range(self._maps, low, high)
            reference = _moved(self._plain, reference)
            outer = np.stack(_moved_range(self._maps[sides], outer[0], outer[1]))
            ends = np.stack([_moved(self._plain[sides], silent[end]) for end in (0, 1)])
            silent = np.stack([ends.min(axis=0), ends.max(axis=0)])


def _moved(logs: Floats, g: Floats) -> Floats:
    """Log (m00 e^g + m01) / (m10 e^g + m11), with the limits at g = +-inf."""
    a, b, c, d = logs[..., 0, 0], logs[..., 0, 1], logs[..., 1, 0], logs[..., 1, 1]
    finite = np.isfinite(g)
    if finite.all():
        moved: Floats = np.logaddexp(a + g, b) - np.logaddexp(c + g, d)
        return moved
    inner = np.where(finite, g, 0.0)
    moved = np.logaddexp(a + inner, b) - np.logaddexp(c + inner, d)
    limited: Floats = np.where(finite, moved, np.where(g > 0, a - c, b - d))
    return limited


def _moved_range(maps: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Least and largest value for each near output, over the far ones."""
    shape = maps.shape[:-2]
    one = _moved(maps, np.broadcast_to(low[..., None], shape))
    two = _moved(maps, np.broadcast_to(high[..., None], shape))
    return np.minimum(one, two).min(axis=-2), np.maximum(one, two).max(axis=-2)


def longest_losses(sides: XorSides, every: bool) -> tuple[Floats, Floats]:
    """Supremum over all lengths: what near distances reach, and a bound on it.

    Both have a row for each noise chain: 0 over 1, and 1 over 0.
    """
    parts = (_LEFT, _RIGHT) if every else (slice(0, 1), slice(3, 4))
    best = np.full((2, len(sides.rho), 2, 2), -inf)
    for steps, (ratios, beyond) in enumerate(sides.walk()):
        best = np.maximum(best, np.stack([ratios[part].max(axis=0) for part in parts]))
        if steps & 7 and steps < FARTHEST:
            continue
        near = best.sum(axis=0).max(axis=1)
        far = np.maximum(best, beyond).sum(axis=0).max(axis=1)
        if steps >= FARTHEST or bool((far - near <= CLOSE).all()):
            break
    pad = 2 * sides.padding(steps)[:, None]
    return np.maximum(near[:, ::-1], 0.0), np.maximum(far[:, ::-1] + pad, 0.0)


def losses_of_length(sides: XorSides, length: int, every: bool) -> Floats:
    """Largest losses over all entries of a series: a row for each noise chain, rounded up."""
    ratios = np.stack([step[0] for step, _ in zip(sides.walk(), range(length), strict=False)])
    left, right = ratios[:, 0], ratios[:, 3]
    if every and length > 1:
        known = np.maximum.accumulate(ratios, axis=0)
        right = np.maximum(right, known[:, 4:].max(axis=1))
        # An entry known at X_1 has a value that X_1 can take.
        first = [u for u, end in enumerate((-inf, inf)) if sides.start != end]
        left[1:] = np.maximum(left[1:], ratios[1:, [1 + u for u in first]].max(axis=1))
        left[2:] = np.maximum(left[2:], known[1:-1, 1:3].max(axis=1))
    worst: Floats = (left + right[::-1]).max(axis=(0, 2))
    return np.maximum(worst[:, ::-1] + 2 * sides.padding(length)[:, None], 0.0)
