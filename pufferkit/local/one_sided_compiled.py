"""The recursion of `pufferkit.local.one_sided`, compiled, for chains that take long to forget."""

from __future__ import annotations

from math import exp, inf, log1p

from numba import njit

from pufferkit.checks import Floats

Logs = tuple[float, float, float, float]
"""Logarithms of m00, m01, m10, m11."""


@njit(cache=True)
def _image(logs: Logs, g: float) -> float:
    a, b, c, d = logs
    if g == inf:
        return a - c
    if g == -inf:
        return b - d
    up, down = a + g, c + g
    above = up + log1p(exp(b - up)) if up > b else b + log1p(exp(up - b))
    below = down + log1p(exp(d - down)) if down > d else d + log1p(exp(down - d))
    return above - below


@njit(cache=True)
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
        one, two = _image(logs, low + answers[0]), _image(logs, high + answers[1])
        low, high = (one, two) if rising else (two, one)
        reference = _image(logs, reference)
    return low, high, reference
