"""How much work the distributions of a sum take, known before anything is compiled or started."""

from __future__ import annotations

from math import log2

from pufferkit.beliefs.secrets import Automaton


def halving_cost(length: int, states: int) -> float:
    """Multiplications for each squared length, by halving."""
    return states**3 * log2(length + 1) * 2


def sides_cost(length: int, states: int) -> float:
    """Multiplications for each squared length, by sides."""
    return states * length / 6


def sum_work(length: int, states: int, largest: int) -> float:
    """About how many multiplications the distributions of a sum take, for all entries."""
    size = (length * max(1, largest)) ** 2
    return size * min(halving_cost(length, states), sides_cost(length, states))


def window_work(automaton: Automaton, length: int, states: int, largest: int) -> float:
    """The same for the labels of all windows of a series."""
    width, labels = len(automaton.moves), len(automaton.labels)
    cases = states * max(int(moves.max()) + 1 for moves in automaton.moves)
    room = length * max(1, largest) + 1
    each = width * cases * states * room + cases * room**2 / 6 + labels**2 * room
    return float((length - width + 1) * each)
