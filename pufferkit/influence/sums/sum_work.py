"""The work for the distributions of a sum, estimated before anything is compiled or started."""

from __future__ import annotations

from math import log2

import numpy as np

from pufferkit.beliefs.secrets import Automaton

_EACH = 5e4
_END, _LABEL = 2.5e4, 30


def halving_cost(length: int, states: int) -> float:
    """Multiplications for each squared length, by halving."""
    return states**3 * log2(length + 1) * 2


def sides_cost(length: int, states: int) -> float:
    """Multiplications for each squared length, by sides."""
    return states * length / 6


def sum_work(length: int, states: int, largest: int) -> float:
    """Approximate nanoseconds for the distributions of a sum, for all entries.

    Two multiplications take one, because those that cannot matter are skipped. Small sums take
    a while for each entry and state in any case.
    """
    size = (length * max(1, largest)) ** 2
    products = size * min(halving_cost(length, states), sides_cost(length, states))
    return products / 2 + _EACH * length * states


def sum_bytes(length: int, states: int, largest: int) -> int:
    """Approximate number of bytes in memory at once."""
    if by_halving(length, states):
        # Three kinds of paths, and the product around a stretch, for each pair of states.
        return length * largest * states**2 * (8 + length.bit_length()) * 8
    # The sums after every node: half of all entries times all sums.
    return length * (length * largest + 32) * states * 9 // 2


def by_halving(length: int, states: int) -> bool:
    """Whether halving is the cheaper method."""
    return length < 3 or halving_cost(length, states) <= sides_cost(length, states)


def window_work(automaton: Automaton, length: int, states: int, largest: int) -> float:
    """Approximate nanoseconds for the labels of all windows of a series.

    A convolution for each way in which a window can end, after steps through all cases.
    """
    width, labels = len(automaton.moves), len(automaton.labels)
    cases = states * max(int(moves.max()) + 1 for moves in automaton.moves)
    room = length * max(1, largest) + 1
    ends = len(np.unique(automaton.moves[-1] * states + np.arange(states)))
    each = width * cases * states * room / 4 + ends * (room**2 / 6 + _END) + _LABEL * labels * room
    return float((length - width + 1) * each)
