"""The recursion of `pufferkit.local.one_sided`, compiled, for chains that take long to forget."""

from __future__ import annotations

from math import inf

from pufferkit.checks import Floats
from pufferkit.compiling import compiled_loop
from pufferkit.local.moebius_maps import Logs, moved_odds

_moved = compiled_loop(moved_odds)


@compiled_loop
def follow(
    logs: Logs,
    rising: bool,
    answers: tuple[float, float],
    state: tuple[float, float, float],
    lows: Floats,
    highs: Floats,
    first: int,
) -> tuple[float, float, float]:
    """Fill ``lows`` and ``highs`` from ``first`` on; ``state`` is (low, high, reference) there.

    Returns the state after the last one.
    """
    low, high, reference = state
    for m in range(first, len(lows)):
        if -inf < reference < inf:
            lows[m], highs[m] = low - reference, high - reference
        one, two = _moved(logs, low + answers[0]), _moved(logs, high + answers[1])
        low, high = (one, two) if rising else (two, one)
        reference = _moved(logs, reference)
    return low, high, reference
