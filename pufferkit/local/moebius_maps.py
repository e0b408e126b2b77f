"""One Moebius map of log-ratios, in plain arithmetic, so that Python and numba share it."""

from __future__ import annotations

from math import exp, inf, log1p

Logs = tuple[float, float, float, float]
"""Logarithms of m00, m01, m10, m11."""


def moved_odds(logs: Logs, g: float) -> float:
    """Log (m00 e^g + m01) / (m10 e^g + m11) on [-inf, inf]."""
    a, b, c, d = logs
    if g == inf:
        return a - c
    if g == -inf:
        return b - d
    up, down = a + g, c + g
    above = up + log1p(exp(b - up)) if up > b else b + log1p(exp(up - b))
    below = down + log1p(exp(d - down)) if down > d else d + log1p(exp(down - d))
    return above - below
