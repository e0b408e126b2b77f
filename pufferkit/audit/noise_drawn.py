"""Whether the noise drawn is the noise claimed: Laplace, of this scale, independent.

Three tests share the error that is allowed:

- *Scale.* The sum of |x| over n draws, which is all that they tell of the scale s. For Laplace
  noise it is s times a Gamma(n) variable, so sum / (a quantile of Gamma(n)) bounds s from above and
  below. For discrete noise in units, a = e^{-1/s}, the number K of draws other than 0 is binomial
  (n, 2a / (1 + a)), and given K the sum less K is negative binomial (K, 1 - a); the bounds are the
  scales at which the sum seen is at its quantiles.
- *Shape.* The distribution function of the draws is within sqrt(log(2 / error) / (2 n)) of the true
  one everywhere (Dvoretzky, Kiefer and Wolfowitz, with the constant of Massart).
- *Independence.* Two draws have the same sign half of the time (of discrete noise, as often as 0
  is none of them makes it), up to the bound of Hoeffding: the
  coordinates of one release, and the same coordinate of one release and the next.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import exp, log, sqrt

import numpy as np
from scipy.special import betainc, gammaincinv, gammaln, xlogy

from pufferkit.audit.limits import POWER
from pufferkit.checks import Floats
from pufferkit.mechanisms.calibration import Calibration
from pufferkit.rounding import EPS, last_passing, least_passing

_GRID = 1e-6
_WHOLE = 1e-6


@dataclass(frozen=True)
class NoiseDrawn:
    """What was measured of the noise."""

    claimed: float
    """The scale that releases report."""
    least: float
    most: float
    """Bounds on the scale that was drawn."""
    draws: int
    """How many numbers were measured."""
    problem: str
    """What is not as claimed, in words; empty if all is."""
    detectable: float
    """The largest share of the claimed scale that would be detected as too small, with probability
    `POWER`."""


def rehearsed(calibration: Calibration, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """Noise like that of releases, to be repeated: quick, not safe, and never for a release."""
    scale = np.array(calibration.scales or calibration.scale)
    if calibration.unit is None:
        return rng.laplace(scale=scale, size=shape)
    step = float(calibration.unit)
    one, other = rng.geometric(-np.expm1(-step / scale), (2, *shape))
    noise: Floats = (one - other) * step
    return noise


def measured(
    noise: Floats, claimed: float, error: float, unit: Fraction | None = None
) -> NoiseDrawn:
    """Test the noise of releases, one row each, against Laplace noise of the claimed scale.

    Noise that is as claimed is rejected with probability at most ``error``. With a ``unit``
    it is discrete noise.
    """
    size = noise.size
    share = error / 4
    problems = []
    if unit is None:
        total = float(np.abs(noise).sum())
        low, high = float(gammaincinv(size, share)), float(gammaincinv(size, 1 - share))
        least, most, detectable = total / high, total / low, low / gammaincinv(size, POWER)
    else:
        step = float(unit)
        units = np.rint(noise / step)
        if np.abs(noise / step - units).max() > _WHOLE:
            problems.append(f"it is not in whole multiples of {unit}")
        sums = _WholeSums(size)
        least, most = (step * s for s in sums.bounds(int(np.abs(units).sum()), share))
        detectable = sums.detectable(claimed / step, share)
        noise = units * step
    if most < claimed * (1 - _GRID):
        problems.append(f"its scale is at most {most:.6g}, not {claimed:.6g}")
    elif least > claimed * (1 + _GRID):
        problems.append(f"its scale is at least {least:.6g}, not {claimed:.6g}")
    values, counts = np.unique(noise, return_counts=True)
    seen = np.cumsum(counts) / size
    # Of discrete noise less than a unit above: half a unit, to be clear of rounding.
    half = 0.0 if unit is None else float(unit) / 2
    heavier = 1.0 if unit is None else 1 / np.cosh(half / claimed)
    at = _distribution((values + half) / claimed, heavier)
    before = _distribution((values - half) / claimed, heavier)
    gap = float(max(np.abs(seen - at).max(), np.abs(seen - counts / size - before).max()))
    if gap > sqrt(log(2 / share) / (2 * size)) + _GRID:
        problems.append(f"it is not Laplace noise of this scale (distance {gap:.3g})")
    positive = float(0.5 if unit is None else 1 / (1 + np.exp(float(unit) / claimed)))
    if _agreement(noise, share, positive**2 + (1 - positive) ** 2):
        problems.append("its draws are not independent")
    return NoiseDrawn(claimed, least, most, size, "; ".join(problems), float(detectable))


def _distribution(at: Floats, heavier: float) -> Floats:
    """P(Z <= at) of Laplace noise of scale 1; of discrete noise halfway between its values.

    There it is half a power of e^{-u} as for Laplace noise, 1 / cosh(u / 2) times as much.
    """
    upper = 0.5 * heavier * np.exp(-np.abs(at))
    return np.where(at < 0, upper, 1 - upper)


@dataclass(frozen=True)
class _WholeSums:
    """The sum of |x| over ``draws`` draws of discrete noise in units; scales are in units too."""

    draws: int

    def at_most(self, total: int, scale: float) -> float:
        """P(sum <= total)."""
        n, a = self.draws, float(np.exp(-1 / scale))
        other = 2 * a / (1 + a)
        mean, reach = n * other, 12 * sqrt(n * other * (1 - other)) + 40
        k = np.arange(max(0, int(mean - reach)), min(n, int(mean + reach), total) + 1)
        logs = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
        weights = np.exp(logs + xlogy(k, other) + xlogy(n - k, (1 - a) / (1 + a)))
        given = betainc(np.maximum(k, 1), total - k + 1, -np.expm1(-1 / scale))
        return float(min(1.0, (weights * np.where(k > 0, given, 1.0)).sum()))

    def bounds(self, total: int, share: float) -> tuple[float, float]:
        """Scales below and above which so small or so large a sum has at most this probability."""
        least = _crossing(lambda s: 1 - self.at_most(total - 1, s) <= share) if total else 0.0
        return least, _crossing(lambda s: self.at_most(total, s) > share)

    def detectable(self, claimed: float, share: float) -> float:
        """The largest share of the claimed scale that is detected as too small with `POWER`."""
        most = int(self.draws * (claimed + 1) * 2)
        small = least_passing(lambda total: self.at_most(total, claimed) > share, -1, most) - 1
        if small < 0:  # no sum counts as too small
            return 0.0
        return min(1.0, _crossing(lambda s: self.at_most(small, s) >= POWER) / claimed)


def _crossing(holds: Callable[[float], bool]) -> float:
    """The scale up to which something holds, by bisection of its logarithm."""
    least, most = -12.0, 30.0

    def margin(at: float) -> float:
        return 1.0 if at == least or holds(exp(at)) else -1.0

    return exp(last_passing(margin, least, most, 4 * EPS))


def _agreement(noise: Floats, error: float, expected: float) -> bool:
    """Whether signs agree more or less often than those of independent draws do."""
    signs = noise > 0
    pairs = [(signs[:, i], signs[:, j]) for i, j in combinations(range(signs.shape[1]), 2)]
    if len(signs) > 1:
        pairs += [(signs[:-1:2, i], signs[1::2, i]) for i in range(signs.shape[1])]
    for one, other in pairs:
        count = min(len(one), len(other))
        share = float(np.mean(one[:count] == other[:count]))
        if abs(share - expected) > sqrt(log(2 * len(pairs) / error) / (2 * count)):
            return True
    return False
