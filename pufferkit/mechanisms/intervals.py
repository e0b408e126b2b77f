"""The size of noise: its mean, the intervals it gives, and the nearest proper histogram.

With a ``unit`` u the noise is discrete Laplace (`pufferkit.noise`): a whole multiple n u with
probability (1 - a) / (1 + a) a^|n|, a = e^{-u / scale}. Then E|Z| = u / sinh(u / scale), and

    P(|Z| > m u)  =  2 a^{m + 1} / (1 + a),

so an interval of m units to either side has at least its level, and the least such m is taken. With
``unit=None`` it is Laplace noise: E|Z| = scale, P(|Z| > t) = e^{-t / scale}.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from pufferkit import checks
from pufferkit.checks import Floats

_MOST = 700.0
_ROUNDING = 1e-9


def expected_size(scale: float, unit: Fraction | None = None) -> float:
    """The mean of |Z|."""
    if unit is None:
        return scale
    b = float(unit / Fraction(scale))
    return float(unit) / math.sinh(b) if b < _MOST else 0.0


def half_width(scale: float, level: float, count: int = 1, unit: Fraction | None = None) -> float:
    """Half the width of the interval that contains ``count`` draws at once."""
    level = checks.real("level", level)
    if not 0 < level < 1:
        raise ValueError(f"level: must lie between 0 and 1, got {level:g}; for example 0.95")
    outside = -math.expm1(math.log(level) / count)
    if unit is None:
        return -scale * math.log(outside)
    return float(_units_to_either_side(scale, outside, unit) * unit)


def interval_around(
    value: float, scale: float, level: float, count: int = 1, unit: Fraction | None = None
) -> tuple[float, float]:
    """The closed confidence interval of the exact answer."""
    width = half_width(scale, level, count, unit)
    if unit is None:
        return value - width, value + width
    # Counted in units: floats are rounded in order, so an exact answer inside is a float inside.
    at, reach = round(Fraction(value) / unit), round(Fraction(width) / unit)
    return float((at - reach) * unit), float((at + reach) * unit)


def _units_to_either_side(scale: float, outside: float, unit: Fraction) -> int:
    """The least m with P(|Z| > m u) <= outside, with room for rounding."""
    b = float(unit / Fraction(scale)) * (1 - _ROUNDING)
    # log of 2 / (1 + a), for any b.
    heavier = math.log(2) - math.log1p(math.exp(-b))
    return max(0, math.ceil((heavier - math.log(outside)) / b * (1 + _ROUNDING) - 1))


def rank_error(scale: float, levels: int, level: float) -> float:
    """A bound on the error in ranks of a noisy choice among levels, with this probability.

    A level with error t is chosen only if its exponential noise is at least t, because some
    level has no error: P(error >= t) <= (levels - 1) e^{-t / scale}.
    """
    if not 0 < checks.real("level", level) < 1:
        raise ValueError(f"level: must lie between 0 and 1, got {level:g}; for example 0.95")
    return scale * max(0.0, math.log((levels - 1) / (1 - level)))


def project_to_simplex(values: Floats, total: float | Floats) -> Floats:
    """The nearest point, in Euclidean distance, that is non-negative and sums to ``total``.

    Rows of a table are taken one by one, each with its own total.
    """
    rows, totals = np.atleast_2d(values), np.atleast_1d(total)[:, None]
    ordered = np.sort(rows, axis=1)[:, ::-1]
    excess = (np.cumsum(ordered, axis=1) - totals) / np.arange(1, rows.shape[1] + 1)
    last = rows.shape[1] - 1 - np.argmax((ordered > excess)[:, ::-1], axis=1)
    nearest: Floats = np.maximum(rows - np.take_along_axis(excess, last[:, None], axis=1), 0.0)
    nearest = np.where(totals > 0, nearest, 0.0)
    return nearest.reshape(np.shape(values))
