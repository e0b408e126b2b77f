"""How far an entry or a window of a chain moves a sum, for short series: arrays of plain floats.

As long as the probability of no path underflows, plain floats keep the relative accuracy of every
number, and numpy has nothing to wait for: no exponents beside the numbers, no loops to compile.
Convolutions by sides (`pufferkit.influence.sums.chain_sums`). All distributions are compared at
once: where the largest of their lower tails is below the least one further up, so is each of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import log2

import numpy as np
from numpy.typing import NDArray

from pufferkit.beliefs.secrets import Automaton
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


def sums_given_labels(
    initial: Floats,
    transition: Floats,
    values: Sequence[int],
    length: int,
    automaton: Automaton,
) -> Iterator[list[Floats]]:
    """For every window, the distributions of the sum given each of its possible labels."""
    size, room, width = len(values), length * max(values) + 1, len(automaton.moves)
    last = length - width
    after = np.zeros((last + 1, size, room))
    after[0, :, 0] = 1
    for entries in range(last):
        after[entries + 1] = transition @ _shifted(after[entries], values)
    before = np.zeros((size, room))
    before[:, 0] = initial
    for first in range(last + 1):
        rows = np.zeros((1 + int(automaton.moves[0].max()), size, room))
        rows[automaton.moves[0][0], np.arange(size)] = _shifted(before, values)
        for moves in automaton.moves[1:]:
            come = np.zeros((1 + int(moves.max()), size, room))
            for memory, own in enumerate(transition.T @ rows):
                come[moves[memory], np.arange(size)] += own
            rows = np.array([_shifted(own, values) for own in come])
        sums = np.zeros((len(automaton.labels), room))
        for label, own in zip(automaton.ends, rows, strict=True):
            for x in np.flatnonzero(own.any(axis=1)):
                sums[label] += np.convolve(own[x], after[last - first, x])[:room]
        yield [own / own.sum() for own in sums if own.any()]
        before = transition.T @ _shifted(before, values)


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
    more, less = 1.0 + error, 1.0 - error
    (low_least, low_most), (up_least, up_most) = (
        (own.min(axis=0), own.max(axis=0)) for own in (lower, upper)
    )
    shift, is_open = least, False
    while True:
        end = len(low_most) - shift
        by_lower = low_most[:end] * more <= low_least[shift:] * less
        by_upper = up_most[shift:] * more <= up_least[:end] * less
        unclear = np.flatnonzero(~(by_lower | by_upper | (up_most[shift:] == 0)))
        failed = low_most[unclear] * less > low_least[unclear + shift] * more
        failed |= up_most[unclear + shift] * less > up_least[unclear] * more
        if not failed.any() and _all_pass(lower, upper, unclear, shift, error):
            return shift, is_open
        shift, is_open = shift + 1, not failed.any()


def _all_pass(
    lower: Floats, upper: Floats, places: NDArray[np.intp], shift: int, error: float
) -> bool:
    """Whether F_a(t) <= F_b(t + shift) for sure at these places t, for all a other than b."""
    more, less = 1.0 + error, 1.0 - error
    beyond = places + shift
    for a in range(len(lower)):
        by_lower = lower[a, places] * more <= lower[:, beyond] * less
        by_upper = upper[:, beyond] * more <= upper[a, places] * less
        passed: Bools = by_lower | by_upper | (upper[:, beyond] == 0)
        passed[a] = True
        if not passed.all():
            return False
    return True
