"""Paths of chains, drawn without a loop over their entries.

A uniform draw u turns a state into the next one, so each step is a map of states to states, and
maps compose. The steps are cut into about sqrt(T) stretches. All stretches are followed together,
from every state each, then only their ends one after another. The path is the one that single steps
give, in k T operations on arrays. With many states single steps are quicker, and are taken.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from pufferkit.checks import Floats

_FEW = 16
_SHORT = 200

PathMoves = NDArray[np.int16]


def cumulative(probabilities: Floats) -> Floats:
    """Cumulative sums, without the last: a draw above them all means the last possible value."""
    sums: Floats = np.cumsum(probabilities)[: np.flatnonzero(probabilities)[-1]]
    return sums


def drawn_path(start: int, rows: Sequence[Floats], draws: Floats) -> NDArray[np.intp]:
    """The states after ``start``: from x by a draw, in the row of the probabilities from x."""
    tables = [cumulative(row) for row in rows]
    if len(rows) > _FEW or len(draws) < _SHORT:
        return single_steps(start, [table.tolist() for table in tables], draws)
    return composed(start, np.stack([moves_of(table, draws) for table in tables], axis=1))


def single_steps(start: int, tables: Sequence[list[float]], draws: Floats) -> NDArray[np.intp]:
    """The same, one step after another. Lists: for single numbers far quicker than arrays."""
    path, x = [], start
    for u in draws.tolist():
        x = bisect_right(tables[x], u)
        path.append(x)
    return np.array(path, dtype=np.intp)


def moves_of(table: Floats, draws: Floats) -> PathMoves:
    """Where each draw leads by one row of cumulative sums: how many of them are not above it."""
    moves = np.zeros(len(draws), dtype=np.int16)
    for bound in table:
        moves += draws >= bound
    return moves


def composed(start: int, moves: PathMoves) -> NDArray[np.intp]:
    """The path from ``start`` where step t leads from x to ``moves[t, x]``."""
    steps, states = moves.shape
    width = max(1, isqrt(steps))
    stretches = -(-steps // width)
    padded = np.zeros((stretches * width, states), dtype=np.int16)
    padded[:steps] = moves
    # Of every stretch, where each of its first states is after each of its steps.
    flat, places = padded.ravel(), np.arange(stretches)[:, None] * (width * states)
    now = np.broadcast_to(np.arange(states, dtype=np.intp), (stretches, states))
    after = np.empty((width, stretches, states), dtype=np.int16)
    for step in range(width):
        after[step] = flat[places + step * states + now]
        now = after[step].astype(np.intp)
    firsts, x = [], start
    for ends in now.tolist():
        firsts.append(x)
        x = ends[x]
    chosen = np.array(firsts, dtype=np.intp)
    path = after[:, np.arange(stretches), chosen].T.ravel()[:steps]
    return path.astype(np.intp)
