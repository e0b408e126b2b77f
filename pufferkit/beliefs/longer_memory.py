"""Chains of order m from counts: the next entry depends on the last m entries.

With N the counts of tuples of neighbours within segments, all observed, tables are shrunk towards
those of one step of memory less,

    P_m(y | x_1..x_m) = (N(x_1..x_m, y) + kappa P_{m-1}(y | x_2..x_m)) / (N(x_1..x_m, .) + kappa),

down to P_0(y) = (N(y) + 1/2) / (n + k/2). So every tuple has a distribution of the next entry,
every transition is possible, and a tuple that never occurred has the prediction of its newer part.

On m-tuples the chain has one step of memory: (x_1..x_m) moves to (x_2..x_m, y). Tuples are numbered
with the oldest entry in front, sum_j x_j k^(m-j); the newest entry is the number modulo k.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from pufferkit import checks
from pufferkit.beliefs.baum_welch import checked_levels
from pufferkit.beliefs.step_kernels import shares
from pufferkit.checks import Floats

SHRINKAGE = 5.0
"""Pseudo-entries by which each row is shrunk towards that of one step of memory less."""

MOST_TUPLES = 2000
"""Most tuples: with more, neither their distribution nor a curve would be quick to compute."""


def tuple_counts(segments: Iterable[ArrayLike], levels: int, width: int) -> Floats:
    """How often each tuple of ``width`` neighbours occurs; an array with ``width`` axes.

    Tuples lie within a segment and have no entry that was not observed.

    Examples
    --------
    >>> tuple_counts([[0, 1, 1, -1, 1, 0]], 2, 2).tolist()
    [[0.0, 1.0], [1.0, 1.0]]
    """
    size = checks.whole("levels", levels, 1)
    counts = np.zeros(size**width)
    for segment in segments:
        codes = checked_levels(segment, size)
        if len(codes) < width:
            continue
        shown = np.lib.stride_tricks.sliding_window_view(codes, width)
        shown = shown[(shown >= 0).all(axis=1)]
        numbers = shown @ (size ** np.arange(width - 1, -1, -1))
        counts += np.bincount(numbers, minlength=len(counts))
    return counts.reshape((size,) * width)


def order_table(segments: Iterable[ArrayLike], levels: int, order: int) -> Floats:
    """P_m(y | x_1..x_m) of the formula above, an array with order + 1 axes, y last.

    Parameters
    ----------
    segments
        Rows of levels, as `pufferkit.beliefs.baum_welch.fit` reads them.
    levels, order
        k and m; k^m may be at most 2,000.
    """
    size, steps = checks.whole("levels", levels, 1), checks.whole("order", order, 1)
    if size**steps > MOST_TUPLES:
        raise ValueError(
            f"order: {size} levels with {steps} steps of memory make {size**steps:,} tuples, "
            f"more than {MOST_TUPLES:,}; use a lower order, or merge levels"
        )
    pieces = [checked_levels(segment, size) for segment in segments]
    table = shares(tuple_counts(pieces, size, 1) + 0.5)
    for width in range(2, steps + 2):
        table = shares(tuple_counts(pieces, size, width) + SHRINKAGE * table)
    return checks.frozen(table)


def tuple_kernel(table: Floats) -> Floats:
    """The matrix K of the chain on m-tuples: (x_1..x_m) to (x_2..x_m, y) with P_m(y | x_1..x_m)."""
    size = table.shape[-1]
    count = table.size // size
    kernel = np.zeros((count, count))
    rows = np.arange(count)[:, None]
    kernel[rows, rows * size % count + np.arange(size)] = table.reshape(count, size)
    return checks.frozen(kernel)
