"""Whether times are those of a clock, so that a gap can be counted in entries.

A clock is known if every time between neighbouring rows is a whole multiple of the shortest, and
more than half of them are the shortest. Then a gap of g steps is g - 1 entries that were not
observed. Otherwise rows themselves are the entries. One short step by accident must not become the
clock: it would put entries that are neighbours far apart, and noise would be too small.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

_SURE = 0.25
"""Part of a step by which rounding may move a place, at most."""


def even_step(steps: Mapping[Any, int]) -> Any:
    """The step of the clock, from how often each exact time between neighbours occurs, or None.

    >>> even_step({5: 90, 10: 3, 600: 1}), even_step({5: 90, 7: 3}), even_step({1: 2, 60: 90})
    (5, None, None)
    """
    if not steps or min(steps) <= 0:
        return None
    shortest = min(steps)
    even = all(step % shortest == 0 for step in steps)
    return shortest if even and 2 * steps[shortest] > sum(steps.values()) else None


def rounded_step(steps: NDArray[Any], counts: NDArray[Any], error: float) -> float | None:
    """The same for floats that are off by rounding, each by ``error`` at most.

    The step is the mean of those that are the shortest but for rounding, as the shortest decimal
    that rounding allows: 0.1, not 0.0999999.
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
