"""A shape: the coordinates of a sum, the scale of the noise on each of them, and its kind.

An entry x adds row x of a matrix V of whole numbers to the answer S = sum_t V(X_t, .), of which
S_j + s_j U_j is published. The noise U_j is *Laplace*, or *sech*: its density is sech(u) / pi. On
whole-numbered coordinates both are drawn from the whole numbers, with probabilities in proportion
to e^{-|i| / s} and sech(i / s). As a function of what one entry adds, the likelihood of an output
is then the same as with real noise, for fewer outputs; so every bound on the loss holds for both.

With V = I and Laplace noise this is a scale for each bin. With hidden regimes V is better rotated:
one mood of a person moves every bin, in one direction, which needs loud noise; the others do not.

The answer goes back on the bins by least squares among histograms with the known number of entries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import pi
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pufferkit import checks
from pufferkit.checks import Floats
from pufferkit.rounding import EPS, as_fraction, at_least

Noise = Literal["laplace", "sech"]
"""Kinds of noise: density e^{-|u|} / 2, or sech(u) / pi."""

LARGEST_WHOLE = 1 << 20
"""Directions have entries up to this: their differences are floats without rounding."""

_TIMES = np.exp(np.linspace(np.log(1e-4), np.log(60.0), 900))
"""Arguments of characteristic functions, in units of one over the standard deviation."""


@dataclass(frozen=True, eq=False)
class Shape(checks.Frozen):
    """Coordinates of a sum, and the noise on each of them.

    Attributes
    ----------
    directions
        V, k x m, whole numbers: row x is what an entry of state x adds to each coordinate.
    scales
        The scale of the noise on each coordinate, in its unit.
    noise
        The kind of the noise.

    Examples
    --------
    >>> shape = Shape([[1, 0], [0, 1], [-1, -1]], (4, 2), "sech")
    >>> shape.cost.round(3).tolist()
    [[0.0, 0.75, 1.0], [0.75, 0.0, 1.25], [1.0, 1.25, 0.0]]
    """

    directions: NDArray[np.int64]
    scales: tuple[Fraction, ...]
    noise: Noise = "sech"

    def __post_init__(self) -> None:
        given = np.array(self.directions)
        if given.ndim != 2 or given.size == 0 or not np.issubdtype(given.dtype, np.integer):
            raise ValueError(
                "directions: must be a matrix of whole numbers, a row for each state; round them"
            )
        if int(np.abs(given).max()) > LARGEST_WHOLE:
            raise ValueError(
                f"directions: entries are at most {LARGEST_WHOLE:,}; give fewer digits"
            )
        scales = tuple(as_fraction("scales", scale) for scale in self.scales)
        if len(scales) != given.shape[1]:
            raise ValueError(
                f"scales: must be one for each of {given.shape[1]} coordinates, got {len(scales)}"
            )
        if not min(scales) > 0:
            raise ValueError(f"scales: must be above zero, got {float(min(scales)):g}")
        if self.noise not in ("laplace", "sech"):
            raise ValueError(f"noise: must be 'laplace' or 'sech', got {self.noise!r:.40}")
        checks.assign(self, directions=checks.frozen(given.astype(np.int64)), scales=scales)

    @classmethod
    def bins(cls, scales: Sequence[Any]) -> Shape:
        """A scale for each bin of a histogram, Laplace noise."""
        return cls(np.eye(len(scales), dtype=np.int64), tuple(scales), "laplace")

    @property
    def states(self) -> int:
        """Number k of values of an entry."""
        return len(self.directions)

    @property
    def coordinates(self) -> int:
        """Number m of coordinates."""
        return len(self.scales)

    @cached_property
    def rates(self) -> Floats:
        """One over each scale, rounded up."""
        return checks.frozen(np.array([at_least(1 / scale) for scale in self.scales]))

    @cached_property
    def cost(self) -> Floats:
        """What replacing an entry costs; see `cost_of`."""
        return checks.frozen(self.cost_of(tuple(range(self.coordinates))))

    def cost_of(self, coordinates: Sequence[int]) -> Floats:
        """What replacing an entry x by x' costs if only these coordinates count it.

        d(x, x') = sum over them of |V_j(x) - V_j(x')| / s_j, rounded up: the logarithm of the
        density of Laplace noise moves by no more than the noise in units of its scale, nor does
        that of sech noise.
        """
        chosen = list(coordinates)
        values = self.directions[:, chosen].astype(float)
        apart = np.abs(values[:, None, :] - values[None, :, :]) @ self.rates[chosen]
        return np.asarray(apart * (1 + (len(chosen) + 4) * EPS))

    def scaled(self, factor: Fraction) -> Shape:
        """The same with all scales times this."""
        scales = tuple(scale * factor for scale in self.scales)
        return Shape(self.directions, scales, self.noise)


def back_on_bins(shape: Shape) -> Floats:
    """The matrix P, k x m, that brings the coordinates back on the bins.

    With T entries and the noisy coordinates y, the histogram is T / k + P (y - V'1 T / k): least
    squares in units of the scales, among all histograms of T entries. On single bins P = I.
    """
    k, m = shape.directions.shape
    if k == m and np.array_equal(shape.directions, np.eye(k)):
        return np.eye(k)
    centred = np.eye(k) - 1 / k
    rates = np.array([float(1 / scale) for scale in shape.scales])
    seen = rates[:, None] * shape.directions.T @ centred
    if np.linalg.matrix_rank(seen) < k - 1:
        raise ValueError(
            f"directions: {m} coordinates must tell all histograms of {k} bins apart; add some"
        )
    return np.asarray(centred @ np.linalg.pinv(seen) * rates)


def bin_errors(shape: Shape) -> Floats:
    """The mean absolute error of each bin, E |sum_j P_xj s_j U_j|.

    By the characteristic function phi of the error it is (2 / pi) times the integral of (1 -
    phi(t)) / t^2 over t > 0, with factors sech(pi t / 2) for sech noise and 1 / (1 + t^2) for
    Laplace.
    """
    weights = np.abs(back_on_bins(shape)) * np.array([float(scale) for scale in shape.scales])
    spread = np.sqrt((weights**2).sum(axis=1))
    share = weights / np.maximum(spread, 1e-300)[:, None]
    at = _TIMES[:, None, None] * share[None]
    if shape.noise == "sech":
        logs = pi / 2 * at + np.log1p(np.exp(-pi * at)) - np.log(2.0)
    else:
        logs = np.log1p(at**2)
    falls = -np.expm1(-logs.sum(axis=2)) / _TIMES[:, None] ** 2
    inside = np.trapezoid(falls, _TIMES, axis=0) + falls[0] * _TIMES[0]
    return np.asarray((2 / pi) * (inside + 1 / _TIMES[-1]) * spread)
