"""Whether the times lie on an even grid, so that a gap can be counted in entries.

The times have an even step if every time between neighbouring rows is a whole multiple of the
shortest, and more than half of them are the shortest. Then a gap of g steps is g - 1 entries that
were not observed. Otherwise the rows themselves are the entries. One accidental short step must not
become the step of the grid: it would put neighbouring entries far apart, and noise would be too
small.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

_SURE = 0.25
"""Largest part of a step by which rounding may move an entry."""


def even_step(steps: Mapping[Any, int]) -> Any:
    """The even step, given how often each exact time between neighbours occurs, or None.

    >>> even_step({5: 90, 10: 3, 600: 1}), even_step({5: 90, 7: 3}), even_step({1: 2, 60: 90})
    (5, None, None)
    """
    if not steps or min(steps) <= 0:
        return None
    shortest = min(steps)
    even = all(step % shortest == 0 for step in steps)
    return shortest if even and 2 * steps[shortest] > sum(steps.values()) else None


def rounded_step(steps: NDArray[Any], counts: NDArray[Any], error: float) -> float | None:
    """The even step of floats, each with a rounding error of at most ``error``, or None.

    The step is the mean of those that equal the shortest up to rounding, written as the shortest
    decimal that the error allows: 0.1, not 0.0999999.
    """
    if not steps.size or steps.min() <= 0:
        return None
    near = steps <= steps.min() + 2 * error
    step = float(np.average(steps[near], weights=counts[near]))
    for digits in range(1, 16):
        decimal = float(f"{step:.{digits}g}")
        if abs(decimal - step) <= error:
            step = decimal
            break
    times = np.rint(steps / step)
    off = np.abs(steps - times * step)
    sure = error * (1 + times) <= _SURE * step
    even = bool(np.all(sure & (off <= error * (1 + times))))
    return step if even and 2 * counts[near].sum() > counts.sum() else None
