"""Whether the noise drawn is the noise claimed: Laplace, of this scale, independent.

Three tests share the error that is allowed:

- *Scale.* The sum of |x| over n Laplace draws of scale s is s times a Gamma(n) variable, so
  sum / (a quantile of Gamma(n)) bounds s from above and below.
- *Shape.* The distribution function of the draws is within sqrt(log(2 / error) / (2 n)) of the true
  one everywhere (Dvoretzky, Kiefer and Wolfowitz, with the constant of Massart).
- *Independence.* Two draws have the same sign half of the time, up to the bound of Hoeffding: the
  coordinates of one release, and the same coordinate of one release and the next.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import log, sqrt

import numpy as np
from scipy.special import gammaincinv

from pufferkit.checks import Floats

POWER = 0.95
"""How surely what is called detectable is found."""

_GRID = 1e-6


@dataclass(frozen=True)
class NoiseDrawn:
    """What was measured of the noise.

    Attributes
    ----------
    claimed
        The scale that releases report.
    least, most
        Bounds on the scale that was drawn.
    draws
        How many numbers were measured.
    problem
        What is not as claimed, in words; empty if all is.
    detectable
        The largest share of the claimed scale that would be found to be too little, with
        probability `POWER`.
    """

    claimed: float
    least: float
    most: float
    draws: int
    problem: str
    detectable: float


def measured(noise: Floats, claimed: float, error: float) -> NoiseDrawn:
    """Test the noise of releases, one row each, against Laplace noise of the claimed scale.

    Noise that is as claimed is found at fault with probability at most ``error``.
    """
    size = noise.size
    share = error / 4
    total = float(np.abs(noise).sum())
    low, high = float(gammaincinv(size, share)), float(gammaincinv(size, 1 - share))
    least, most = total / high, total / low
    problems = []
    if most < claimed * (1 - _GRID):
        problems.append(f"its scale is at most {most:.6g}, not {claimed:.6g}")
    elif least > claimed * (1 + _GRID):
        problems.append(f"its scale is at least {least:.6g}, not {claimed:.6g}")
    ordered = np.sort(noise.ravel()) / claimed
    upper = 0.5 * np.exp(-np.abs(ordered))
    true = np.where(ordered < 0, upper, 1 - upper)
    steps = np.arange(size + 1) / size
    gap = float(max((steps[1:] - true).max(), (true - steps[:-1]).max()))
    if gap > sqrt(log(2 / share) / (2 * size)) + _GRID:
        problems.append(f"it is not Laplace noise of this scale (distance {gap:.3g})")
    if _agreement(noise, share):
        problems.append("its draws are not independent")
    detectable = low / float(gammaincinv(size, POWER))
    return NoiseDrawn(claimed, least, most, size, "; ".join(problems), detectable)


def _agreement(noise: Floats, error: float) -> bool:
    """Whether signs agree more or less often than those of independent draws do."""
    signs = noise > 0
    pairs = [(signs[:, i], signs[:, j]) for i, j in combinations(range(signs.shape[1]), 2)]
    if len(signs) > 1:
        pairs += [(signs[:-1:2, i], signs[1::2, i]) for i in range(signs.shape[1])]
    for one, other in pairs:
        count = min(len(one), len(other))
        share = float(np.mean(one[:count] == other[:count]))
        if abs(share - 0.5) > sqrt(log(2 * len(pairs) / error) / (2 * count)):
            return True
    return False
