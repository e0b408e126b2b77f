"""How far one entry of a chain moves a sum, for short series: arrays of plain floats.

As long as the probability of no path underflows, plain floats keep the relative accuracy of every
number, and numpy has nothing to wait for: no exponents beside the numbers, no loops to compile.
Convolutions by sides (`pufferkit.influence.sums.chain_sums`), all pairs of values compared at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import log2

import numpy as np

from pufferkit.checks import Bools, Floats

_LEAST = -960.0
_MOST_NUMBERS = 4e6
_MOST_PRODUCTS = 2e8


def fits_floats(initial: Floats, transition: Floats, length: int, largest: int) -> bool:
    """Whether the distributions of a sum of values up to ``largest`` fit plain floats, in time."""
    states, room = len(initial), length * largest + 1
    if length * states * room > _MOST_NUMBERS or length * states * room**2 > 6 * _MOST_PRODUCTS:
        return False
    moves = log2(transition[transition > 0].min()) * (length - 1)
    return bool(log2(initial[initial > 0].min()) + moves >= _LEAST)


def sums_given(
    initial: Floats, transition: Floats, values: Sequence[int], length: int
) -> Iterator[list[Floats]]:
    """For every entry, the distributions of the sum given each of its possible values."""
    size, room = len(values), length * max(values) + 1
    after = np.zeros((length, size, room))
    after[-1, :, 0] = 1
    for node in range(length - 2, -1, -1):
        after[node] = transition @ _shifted(after[node + 1], values)
    before = np.zeros((size, room))
    before[:, 0] = initial
    for node in range(length):
        before = _shifted(before, values)
        chances = before.sum(axis=1)
        yield [
            np.convolve(before[x] / chances[x], after[node, x])[:room]
            for x in range(size)
            if chances[x] > 0
        ]
        before = transition.T @ before


def _shifted(sums: Floats, values: Sequence[int]) -> Floats:
    moved = np.zeros_like(sums)
    for x, value in enumerate(values):
        moved[x, value:] = sums[x, : sums.shape[1] - value]
    return moved


def farthest(distributions: Sequence[Floats], least: int, error: float) -> tuple[int, bool]:
    """The largest W-infinity of two of these distributions, at least ``least``.

    Also whether rounding left it open; ``error`` bounds the relative error of every tail. Shifts
    grow until F_a(t) <= F_b(t + d) for all a, b and t: certainly, by the lower tails or by the
    upper ones, so the distance is never too small.
    """
    lower = np.cumsum(distributions, axis=1)
    upper = np.zeros_like(lower)
    upper[:, :-1] = np.cumsum(np.asarray(distributions)[:, :0:-1], axis=1)[:, ::-1]
    others: Bools = ~np.eye(len(lower), dtype=bool)[:, :, None]
    more, less = 1.0 + error, 1.0 - error
    shift, is_open = least, False
    while True:
        end = lower.shape[1] - shift
        low_a, low_b = lower[:, None, :end], lower[None, :, shift:]
        up_a, up_b = upper[:, None, :end], upper[None, :, shift:]
        passed = (low_a * more <= low_b * less) | (up_b * more <= up_a * less) | (up_b == 0)
        if not (others & ~passed).any():
            return shift, is_open
        failed = (low_a * less > low_b * more) | (up_b * less > up_a * more)
        shift, is_open = shift + 1, not (others & failed).any()
