"""The exact loss of Laplace noise on one sum over a chain, by windows around an entry.

The sum is N = v(X_1) + ... + v(X_T) with whole non-negative values v, the noise is Laplace of scale
s.

Theorem (PAIRS 3). Let D_x(w) = sum_n P(N = n | X_i = x) e^{-|w - n| / s}. The loss of entry i is
the largest log D_x(w) / D_x'(w), and w need only run over the values of N: between two of them D_x
is A e^{-w/s} + C e^{w/s} with A, C >= 0, so a ratio of two is monotone there, and outside it is
constant. The loss never grows with s, because Laplace noise of a larger scale is noise of a smaller
one plus independent noise.

Theorem (PAIRS 4). Let S be the sum over the entries strictly between i - l and i + m. For every T
the loss of entry i is at most that of publishing X_{i-l}, X_{i+m} and S with the same noise: given
these two, the inside and the outside are independent, so the likelihood of an output is a mean over
the outside of the likelihoods of the inside, with the same weights for x and x'. A side may also be
exhausted: no end is given away, and all its entries are in S. With both sides exhausted it is
exact.

Secrets: every pair of possible values of every entry. Beliefs: one known chain; a finite class by
the largest over its members. Releases: this sum and nothing else. The loss of two such releases is
not bounded by the sum of the two.

Only non-negative numbers are added and multiplied, so relative errors stay small and are added to
the loss. What is lost to underflow is below 1e-299 in all, so a likelihood is trusted from 1e-280
on; a smaller one counts as infinite loss. Which ends are possible at all is kept apart, exactly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pufferkit.beliefs.chain_class import Member
from pufferkit.beliefs.structure import Bools
from pufferkit.checks import Floats
from pufferkit.errors import NotApplicable
from pufferkit.influence.quilts.chains import (
    SETTLED,
    AnyStartInfluence,
    ChainInfluence,
    GivenStartInfluence,
    influence_of,
)
from pufferkit.rounding import EPS, last_passing

_TRUSTED = 1e-280
_MOST_CELLS = 2 * 10**7
_MOST_VALUES = 4_000
_FIRST_REACH = 8
_GOOD = 4e-4
_PRECISION = 1e-6


@dataclass(frozen=True, eq=False)
class Window:
    """One entry with what is summed around it.

    ``parts`` has for each value x of the entry and each pair of ends (u, y) the distribution of the
    sum inside, together with the probability of these ends, given X_i = x. ``possible`` are the
    values of the entry, ``ends`` the pairs of ends that some value of it allows.
    """

    entry: int
    left: int | None
    right: int | None
    parts: Floats
    possible: Bools
    ends: Bools
    error: float

    def loss(self, scale: float) -> float:
        """The loss of this entry at a scale, rounded up; in the unit of the values."""
        ratio = float(_largest_ratio(self._seen, float(np.exp(-1.0 / scale)), _TRUSTED))
        if ratio == inf:
            return inf
        largest = float(np.log(ratio))
        return float(largest + self.error + 8 * EPS * (self.parts.shape[2] + 4 + largest))

    @cached_property
    def _seen(self) -> Floats:
        return np.ascontiguousarray(self.parts[self.possible][:, self.ends])


@njit(cache=True)
def _largest_ratio(parts, rate, trusted):  # type: ignore[no-untyped-def]
    """The largest ratio, over ends and outputs, of likelihoods under two values of the entry.

    The likelihood at w is the sum of what lies below, times rate for each unit, and the same above:
    two recursions, with sums of positive terms only.
    """
    values, ends, size = parts.shape
    most, least = np.empty(size), np.empty(size)
    above = np.empty(size)
    worst = 1.0
    for end in range(ends):
        for x in range(values):
            carried = 0.0
            for w in range(size - 1, -1, -1):
                above[w] = carried
                carried = (carried + parts[x, end, w]) * rate
            carried = 0.0
            for w in range(size):
                carried = carried * rate + parts[x, end, w]
                likelihood = carried + above[w]
                if likelihood < trusted:
                    return np.inf
                if x == 0 or likelihood > most[w]:
                    most[w] = likelihood
                if x == 0 or likelihood < least[w]:
                    least[w] = likelihood
        for w in range(size):
            worst = max(worst, most[w] / least[w])
    return worst


class SumWindows:
    """Windows of one reach around every entry of a chain of given length.

    Parameters
    ----------
    member
        A known chain.
    values
        Whole non-negative value of every state.
    length
        Number of entries.
    reach
        Distance of the ends from the entry; a side with fewer entries is exhausted.
    """

    def __init__(self, member: Member, values: NDArray[np.int64], length: int, reach: int) -> None:
        source = influence_of(member, "definition", length)
        if isinstance(source, AnyStartInfluence):
            raise NotApplicable("the distribution of a sum is not known when the start is not")
        self.source: ChainInfluence = source
        if member.chain.has_lost_states:
            raise NotApplicable("some states are too rare for a float; drop or merge them")
        self.transition = member.chain.transition
        self.values, self.length, self.reach = values, length, reach
        size = len(values)
        span = (2 * min(reach, length) + 1) * int(values.max()) + 1
        if span > _MOST_VALUES or size**3 * span > _MOST_CELLS:
            raise NotApplicable(
                f"the sum over a window takes {span} values for each of {size**2} pairs of ends, "
                "which is too much work; use fewer or rounder values, or influence_curve"
            )

    @property
    def _tabled(self) -> int:
        """Entries whose backward kernels are their own."""
        source = self.source
        return (
            min(self.length, source.settled + 1) if isinstance(source, GivenStartInfluence) else 0
        )

    @cached_property
    def _right(self) -> tuple[list[Floats], list[Floats]]:
        depth = min(self.reach, self.length)
        return side_sums([self.transition] * depth, self.values)

    def _left(self, entry: int) -> tuple[list[Floats], list[Floats]]:
        depth = min(self.reach, entry)
        return side_sums([self._backward(entry - n) for n in range(depth)], self.values)

    @cached_property
    def _settled_left(self) -> tuple[list[Floats], list[Floats]]:
        depth = min(self.reach, self.length)
        last = self._tabled + depth + 1
        return side_sums([self._backward(last)] * depth, self.values)

    def _backward(self, entry: int) -> Floats:
        """P(X_{entry-1} = u | X_entry = x); rows of impossible values are zero."""
        if entry < 2:
            return np.eye(len(self.values))
        source = self.source
        before = source.law(entry - 1)  # type: ignore[attr-defined]
        joint = (before[:, None] * self.transition).T
        sums = joint.sum(axis=1, keepdims=True)
        kernel: Floats = np.divide(joint, sums, out=np.zeros_like(joint), where=sums > 0)
        return kernel

    def _patterns(self, entry: int, left_open: bool, right_open: bool) -> tuple[Bools, Bools]:
        """Which ends each value of the entry allows, exactly."""
        size = len(self.values)
        anything: Bools = np.ones((size, 1), dtype=bool)
        across = self.source.powers[self.reach].possible if left_open or right_open else anything
        left = anything
        if left_open:
            left = (self.source.support(entry - self.reach)[:, None] & across).T
        return left, across if right_open else anything

    def entries(self) -> list[int]:
        """Entries whose windows differ; every other entry has the window of one of them."""
        inner = self._tabled + self.reach
        near = min(self.length, max(inner, self.reach) + 1)
        ends = range(max(near + 1, self.length - self.reach), self.length + 1)
        return [*range(1, near + 1), *ends]

    @property
    def inner(self) -> int | None:
        """An entry that is away from both ends; ``None`` if there is none."""
        entry = self._tabled + self.reach + 1
        return entry if self.length - entry >= self.reach else None

    def windows(self) -> Iterator[Window]:
        """The windows, inner ones first."""
        ordered = sorted(self.entries(), key=lambda n: -min(n, self.length + 1 - n))
        for entry in ordered:
            yield self.window(entry)

    def window(self, entry: int) -> Window:
        """The window around one entry."""
        settled = self._tabled == 0 or entry > self._tabled + self.reach
        ends, whole = self._settled_left if settled else self._left(entry)
        left_open, right_open = entry > self.reach, self.length - entry >= self.reach
        left = ends[self.reach - 1] if left_open else whole[entry - 1][:, None, :]
        ends, whole = self._right
        after = self.length - entry
        right = ends[self.reach - 1] if right_open else whole[after][:, None, :]
        parts = _joined(left, right, self.values)
        ends_left, ends_right = self._patterns(entry, left_open, right_open)
        steps = left.shape[2] + right.shape[2]
        roundings = 2 * min(self.reach, self.length) * (len(self.values) + 4) + steps + 32
        error = 2 * EPS * roundings + 2 * (min(self.reach, self.length) + 1) * SETTLED
        return Window(
            entry,
            self.reach if left_open else None,
            self.reach if right_open else None,
            parts,
            self.source.support(entry),
            (ends_left[:, :, None] & ends_right[:, None, :])[self.source.support(entry)]
            .any(axis=0)
            .ravel(),
            error,
        )


def side_sums(
    kernels: Sequence[Floats], values: NDArray[np.int64]
) -> tuple[list[Floats], list[Floats]]:
    """Distributions of sums on one side of an entry, by how far it is followed.

    Returns
    -------
    tuple
        ``ends[m - 1][x, y, a]``: the entry m steps away is y, and the entries strictly between sum
        to a, given x. ``whole[r][x, a]``: all r entries of the side sum to a, given x.
    """
    size, largest = len(values), int(values.max())
    ends: list[Floats] = []
    whole = [np.ones((size, 1))]
    reached = np.eye(size)[:, :, None]
    for n, kernel in enumerate(kernels):
        width = n * largest + 1 if n else 1
        following = np.zeros((size, size, width))
        for z in range(size):
            # Passing through z on the way adds its value; the entry itself is not part of the side.
            shift = int(values[z]) if n else 0
            own = reached[:, z, :]
            following[:, :, shift : shift + own.shape[1]] += own[:, None, :] * kernel[z][:, None]
        ends.append(following)
        summed = np.zeros((size, width + largest))
        for z in range(size):
            shift = int(values[z])
            summed[:, shift : shift + width] += following[:, z, :]
        whole.append(summed)
        reached = following
    return ends, whole


def _joined(left: Floats, right: Floats, values: NDArray[np.int64]) -> Floats:
    """Convolution of both sides for every value of the entry and every pair of ends."""
    size, ends, width = left.shape
    others, depth = right.shape[1], right.shape[2]
    parts = np.zeros((size, ends, others, width + depth - 1 + int(values.max())))
    for x in range(size):
        shift = int(values[x])
        for a in range(width):
            column = left[x, :, a]
            if column.any():
                parts[x, :, :, shift + a : shift + a + depth] += (
                    column[:, None, None] * right[x][None, :, :]
                )
    return parts.reshape(size, ends * others, -1)


@dataclass(frozen=True)
class LeastScale:
    """The least scale found, and the entry and window that decide it."""

    scale: float
    entry: int
    left: int | None
    right: int | None


def least_scale(
    member: Member, values: NDArray[np.int64], length: int, epsilon: float
) -> LeastScale:
    """The least Laplace scale, in units of the values, at which every entry loses at most epsilon.

    Windows grow, around an inner entry and the first one, until that gains next to nothing, or
    until all entries are inside. The search ends at a scale that was checked for every window.

    Raises
    ------
    NotApplicable
        If no window that is small enough to compute with gives a finite loss.
    """
    chosen: tuple[SumWindows, LeastScale] | None = None
    reach, at_end = _FIRST_REACH, 0.0
    while True:
        try:
            windows = SumWindows(member, values, length, min(reach, length))
        except NotApplicable:
            if chosen is None:
                raise
            break
        inner = windows.inner
        if inner is None:
            chosen = windows, LeastScale(0.0, 1, None, None)
            break
        start = chosen[1].scale if chosen is not None else 0.0
        scale = _scale_for(windows.window(inner), epsilon, start)
        end = _scale_for(windows.window(1), epsilon, at_end)
        if scale is not None and end is not None:
            settled = min(scale - start * (1 - _GOOD), end - at_end * (1 - _GOOD)) > 0
            settled = settled and chosen is not None
            chosen = windows, LeastScale(scale, inner, windows.reach, windows.reach)
            at_end = end
            if settled:
                break
        reach += reach // 2
    if chosen is None:
        raise NotApplicable("no window gives a finite loss; the chain does not forget")
    windows, least = chosen
    for window in windows.windows():
        if least.scale > 0 and window.loss(least.scale) <= epsilon:
            continue
        scale = _scale_for(window, epsilon, least.scale)
        if scale is None:
            raise NotApplicable(f"entry {window.entry} has an infinite loss under every scale")
        least = LeastScale(scale, window.entry, window.left, window.right)
    return least


def _scale_for(window: Window, epsilon: float, near: float) -> float | None:
    """The least scale that passes for one window, searched from ``near``; ``None`` if none does."""
    # Changing everything in the window moves the sum by its range, so this always suffices if the
    # ends tell little enough.
    most = 1e3 * window.parts.shape[2] / epsilon
    good = near if near > 0 else 1.0 / epsilon
    while window.loss(good) > epsilon:
        good *= 2
        if good > most:
            return None
    bad = good / 2
    while window.loss(bad) <= epsilon:
        good, bad = bad, bad / 2
        if bad < 1e-4 / epsilon:
            return good
    return last_passing(lambda scale: epsilon - window.loss(scale), good, bad, _PRECISION)
