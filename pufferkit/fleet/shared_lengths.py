"""Which lengths to calibrate where series have many: the others share the noise of a longer one.

Noise for a longer segment also hides the entries of a shorter one ("the longest is the hardest"),
so the least noise grows with the length, and no more once a chain has mixed. It is computed for the
shortest and the longest, then between those neighbours whose noise differs most. The cost is that
of a few calibrations for each doubling of the noise, whatever the number of lengths.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable

import numpy as np

from pufferkit.data.table import Counts

_SAME, _MOST = 1.02, 96
"""Noise that differs by less than this factor is shared; lengths to calibrate at most."""


def shared_lengths(lengths: Counts, scale: Callable[[int], float]) -> Counts:
    """Those of these lengths to calibrate, sorted; each of the others takes the next longer one.

    ``scale`` is the noise for a length. What a length takes is at most 2% above its own noise, or
    as little above it as 96 calibrations allow.
    """
    known = np.unique(lengths).tolist()
    last = len(known) - 1
    scale(known[last])  # where a length is refused, this one is
    chosen, apart = {0, last}, list[tuple[float, int, int]]()

    def compare(low: int, high: int) -> None:
        if high - low > 1:
            heapq.heappush(apart, (scale(known[low]) / scale(known[high]), low, high))

    compare(0, last)
    while apart and apart[0][0] * _SAME < 1 and len(chosen) < _MOST:
        _, low, high = heapq.heappop(apart)
        middle = int(np.searchsorted(known, math.sqrt(known[low] * known[high])))
        middle = min(max(middle, low + 1), high - 1)
        chosen.add(middle)
        compare(low, middle)
        compare(middle, high)
    return np.array([known[at] for at in sorted(chosen)])
