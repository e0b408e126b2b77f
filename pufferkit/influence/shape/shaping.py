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


def back_on_bins(shape: Shape, wanted: Floats | None = None) -> Floats:
    """The matrix P that brings the coordinates back on the bins, or on other sums, in rows.

    With T entries and the noisy coordinates y, the histogram is T / k + P (y - V'1 T / k): least
    squares in units of the scales, among all histograms of T entries. On single bins P = I. An
    answer to which an entry x adds row x of ``wanted`` is its sum over this histogram.
    """
    k, m = shape.directions.shape
    if wanted is None and k == m and np.array_equal(shape.directions, np.eye(k)):
        return np.eye(k)
    asked = np.eye(k) if wanted is None else wanted
    centred = np.eye(k) - 1 / k
    rates = np.array([float(1 / scale) for scale in shape.scales])
    seen = rates[:, None] * shape.directions.T @ centred
    inverse = np.linalg.pinv(seen)
    lost = (asked.T @ centred) @ (np.eye(k) - inverse @ seen)
    if np.abs(lost).max() > 1e-6 * np.abs(asked).max():
        raise ValueError(
            f"directions: {m} coordinates must tell all histograms of {k} bins apart that the "
            "answer tells apart; add some"
        )
    return np.asarray(asked.T @ centred @ inverse * rates)


def bin_errors(shape: Shape, wanted: Floats | None = None) -> Floats:
    """The mean absolute error of each bin, E |sum_j P_xj s_j U_j|, or of other sums.

    By the characteristic function phi of the error it is (2 / pi) times the integral of (1 -
    phi(t)) / t^2 over t > 0, with factors sech(pi t / 2) for sech noise and 1 / (1 + t^2) for
    Laplace.
    """
    scales = np.array([float(scale) for scale in shape.scales])
    weights = np.abs(back_on_bins(shape, wanted)) * scales
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


@dataclass(frozen=True, eq=False)
class Rotated(checks.Frozen):
    """Numbers that are sums over entries, the coordinates they are mixed into, and sech noise.

    Attributes
    ----------
    added
        Row x is what an entry of state x adds to each number, in whole units.
    mix
        Column j says which whole multiples of the numbers make coordinate j.
    scales
        The scale of the noise on each coordinate, in its unit.
    unit
        Of the numbers.
    total
        How many entries are counted, which is known.

    Examples
    --------
    >>> bins = [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    >>> rotated = Rotated(bins, [[1, 0], [0, 1], [-1, -1]], (4, 2), 1, 10)
    >>> rotated.exact([[5, 3, 2]]).tolist()
    [[3, 1]]
    >>> rotated.back([[3, 1]]).round(6).tolist()
    [[5.0, 3.0, 2.0]]
    >>> Rotated.from_dict(rotated.to_dict(), 10).scales == rotated.scales
    True
    """

    added: NDArray[np.int64]
    mix: NDArray[np.int64]
    scales: tuple[Fraction, ...]
    unit: Fraction
    total: int

    def __post_init__(self) -> None:
        added, mix = np.array(self.added), np.array(self.mix)
        for name, own in (("added", added), ("mix", mix)):
            whole = own.ndim == 2 and own.size and np.issubdtype(own.dtype, np.integer)
            if not whole or int(np.abs(own).max()) > LARGEST_WHOLE:
                raise ValueError(f"{name}: must be a matrix of whole numbers below 2^20")
        if added.shape[1] != len(mix):
            raise ValueError(f"mix: must have {added.shape[1]} rows, one for each number")
        unit = as_fraction("unit", self.unit)
        if not unit > 0:
            raise ValueError(f"unit: must be above zero, got {float(unit):g}")
        scales = tuple(as_fraction("scales", scale) for scale in self.scales)
        checks.assign(
            self,
            added=checks.frozen(added.astype(np.int64)),
            mix=checks.frozen(mix.astype(np.int64)),
            scales=scales,
            unit=unit,
            total=checks.whole("total", self.total, 0),
        )
        self.shape  # noqa: B018  (checks the directions and the scales)

    @cached_property
    def shape(self) -> Shape:
        """What an entry adds to each coordinate, and the noise there."""
        return Shape(self.added @ self.mix, self.scales, "sech")

    @cached_property
    def weights(self) -> Floats:
        """Row i has the share of the noise of each coordinate in the error of number i."""
        return checks.frozen(back_on_bins(self.shape, self.added.astype(float)))

    @cached_property
    def errors(self) -> Floats:
        """The mean absolute error of each number."""
        sizes = bin_errors(self.shape, self.added.astype(float)) * float(self.unit)
        return checks.frozen(np.asarray(sizes))

    def exact(self, answers: Any) -> NDArray[np.int64]:
        """The coordinates of exact answers, one in each row."""
        units = [[int(Fraction(number) / self.unit) for number in row] for row in answers]
        return np.array(units, dtype=np.int64).reshape(-1, len(self.mix)) @ self.mix

    def back(self, coordinates: Any) -> Floats:
        """The answers of least squares, from noisy coordinates in rows."""
        mean = self.total / len(self.added)
        around = np.asarray(coordinates, float) - self.shape.directions.sum(axis=0) * mean
        level = self.added.sum(axis=0) * mean
        return np.asarray((level + around @ self.weights.T) * float(self.unit))

    def half_widths(self, level: float, count: int = 1) -> Floats:
        """Half the width of the interval of each number; of ``count`` numbers at once."""
        outside = (1 - level) / count
        scales = np.array([float(scale) for scale in self.scales])
        sizes = np.abs(self.weights)
        if scales.min() < _SMOOTH:  # the noise is coarse: bounded coordinate by coordinate
            return np.asarray(sizes @ _reaches(scales, outside / len(scales)) * float(self.unit))
        # Discrete noise is real noise rounded, to about e^(-pi^2 scale).
        widths = _quantiles(sizes * scales, 1 - outside) + sizes.sum(axis=1) / 2
        return np.asarray(widths * (1 + 1e-9) * float(self.unit))

    def to_dict(self) -> dict[str, Any]:
        """Plain data, without the number of entries."""
        return {
            "added": self.added.tolist(),
            "mix": self.mix.tolist(),
            "scales": [str(scale) for scale in self.scales],
            "unit": str(self.unit),
        }

    @classmethod
    def from_dict(cls, data: Any, total: int) -> Rotated:
        """The shape that a record holds."""
        scales = tuple(Fraction(scale) for scale in data["scales"])
        return cls(data["added"], data["mix"], scales, Fraction(data["unit"]), total)


_SMOOTH = 2.0
"""From this scale on discrete noise differs from real noise by less than one part in 10^8."""


def _reaches(scales: Floats, outside: float) -> Floats:
    """The n with P(|Z| > n) <= outside for discrete sech noise of each scale.

    P(|Z| > n) <= 2 sum over i > n of 2 e^{-i / s}, over the sum of sech, which is at least 1.
    """
    room = 4 / (outside * -np.expm1(-1 / scales))
    return np.asarray(np.ceil(scales * np.log(room)))


def _quantiles(weights: Floats, level: float) -> Floats:
    """For each row the q with P(|sum_j w_j U_j| <= q) = level, for independent sech noise U_j.

    P(|X| <= q) = (2 / pi) times the integral of sin(q t) / t phi(t) over t > 0, phi(t) the product
    of sech(pi w_j t / 2), by the midpoint rule.
    """
    found = []
    for row in weights:
        spread = pi / 2 * float(np.sqrt((row**2).sum()))
        if not spread > 0:
            found.append(0.0)
            continue
        width = 0.02 / spread
        times = (np.arange(4000) + 0.5) * width
        x = pi / 2 * times[:, None] * row
        heights = np.exp(-(x + np.log1p(np.exp(-2 * x)) - np.log(2.0)).sum(axis=1)) / times
        low, high = 0.0, 100 * spread
        for _ in range(60):
            middle = (low + high) / 2
            inside = (2 / pi) * float(np.sin(times * middle) @ heights) * width
            low, high = (middle, high) if inside < level else (low, middle)
        found.append(high)
    return np.array(found)
