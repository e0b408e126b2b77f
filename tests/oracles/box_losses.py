"""The loss of an entry under kernels within a box, chosen anew for every step; numpy only.

Rows of a kernel lie between ``low`` and ``high``. At every step each row is a vertex of its box:
the one with the largest or the one with the smallest mean of what follows. Outputs are products of
one function for each entry, each varying by at most what an entry costs. Backward from the last
entry both are chosen together, and of the many messages that come of it those are kept that tell
some pair of values best apart, and some at random: a lower bound on the loss of the class.
"""

from __future__ import annotations

from itertools import product

import numpy as np


def extreme_rows(low: np.ndarray, high: np.ndarray, values: np.ndarray) -> np.ndarray:
    """For each message the smallest and the largest mean of each row: messages, 2, rows."""
    means = []
    for order in (np.argsort(values, axis=1), np.argsort(-values, axis=1)):
        ranked = np.take_along_axis(values, order, axis=1)
        room = (high - low)[:, order].transpose(1, 0, 2)  # message, row, place
        before = np.cumsum(room, axis=2) - room
        rest = np.maximum(1 - low.sum(axis=1), 0)[None, :, None]
        more = np.clip(rest - before, 0, room)
        means.append(values @ low.T + (more * ranked[:, None, :]).sum(axis=2))
    return np.stack(means, axis=1)


def told_apart(
    low: np.ndarray,
    high: np.ndarray,
    functions: list[np.ndarray],
    entries: int,
    rng: np.random.Generator,
    kept: int = 12,
) -> np.ndarray:
    """For each pair x, x' the largest log-ratio found of what ``entries`` entries beyond tell.

    Row x, column x': log of E[output | x] / E[output | x'].
    """
    size = len(low)
    ends = np.array(list(product((0, 1), repeat=size)))
    shown = np.exp(np.array(functions))
    messages = np.ones((1, size))
    told = np.zeros((size, size))
    for _ in range(entries):
        values = (messages[:, None, :] * shown[None]).reshape(-1, size)
        means = extreme_rows(low, high, values)
        made = np.stack([means[:, ends[:, x], x] for x in range(size)], axis=2).reshape(-1, size)
        made /= made.max(axis=1, keepdims=True)
        logs = np.log(made)
        apart = logs[:, :, None] - logs[:, None, :]
        told = apart.max(axis=0)
        best = np.argpartition(-apart.reshape(len(made), -1), min(kept, len(made) - 1), axis=0)
        picked = np.unique(
            np.concatenate([best[:kept].ravel(), rng.integers(len(made), size=4 * kept)])
        )
        messages = np.unique(made[picked].round(14), axis=0)
    return told
