"""The only door through which randomness enters a release.

Noise is drawn by OpenDP, which samples the Laplace law on a grid of multiples of 2^k with exact
integer arithmetic, from the randomness of the operating system. A floating-point Laplace sampler
leaks: some outputs are possible under one data set only (Mironov 2012).

The grid is paid for. Rounding each of n coordinates to a multiple of 2^k can move two answers apart
by n 2^k, so an L-Lipschitz query becomes (L + n 2^k)-Lipschitz, and the scale is raised in that
proportion. With n 2^k at most L / 2^30 that is one part in 10^9. Very long series need a coarser
grid, because an answer must stay a whole number of steps that a float can hold.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pufferkit import checks
from pufferkit.checks import Floats

GRID_SHARE = 2.0**-30
"""Most of the Lipschitz constant that the grid may cost."""

_MOST_DIGITS = 52
_AT_ONCE = 20_000


@dataclass(frozen=True)
class Noisy:
    """Noisy numbers, and the scale of the noise that was actually added."""

    values: tuple[float, ...]
    scale: float


def grid_exponent(lipschitz: float, size: int, largest: float | None = None) -> int:
    """The k of the grid: fine against the Lipschitz constant, coarse enough for the answer.

    Parameters
    ----------
    lipschitz, size
        Of the query; the grid may cost ``GRID_SHARE`` of the constant over all coordinates.
    largest
        Public bound on the size of a coordinate of the answer, if there is one.
    """
    k = math.floor(math.log2(checks.positive("lipschitz", lipschitz) * GRID_SHARE / size))
    if largest:
        k = max(k, math.ceil(math.log2(largest)) + 1 - _MOST_DIGITS)
    return k


def paid_scale(scale: float, lipschitz: float, size: int, largest: float | None = None) -> float:
    """The scale that pays for the grid as well, rounded up."""
    grid = size * 2.0 ** grid_exponent(lipschitz, size, largest)
    return checks.round_up(checks.positive("scale", scale) * (1 + grid / lipschitz))


def laplace(
    exact: Sequence[Fraction], scale: float, lipschitz: float, largest: float | None = None
) -> Noisy:
    """Add Laplace noise of at least ``scale`` to every number.

    Parameters
    ----------
    exact
        The exact answers; each is rounded to the grid without further error.
    scale
        What the theorem asks for a query of this Lipschitz constant.
    lipschitz
        L1 change of the whole answer when one entry changes.
    largest
        Public bound on the size of a number, if there is one.
    """
    size = len(exact)
    if size == 0:
        raise ValueError("exact: has no numbers to add noise to")
    paid = paid_scale(scale, lipschitz, size, largest)
    k = grid_exponent(lipschitz, size, largest)
    snapped = []
    for value in exact:
        steps = round(value / Fraction(2) ** k)
        if steps.bit_length() > _MOST_DIGITS:
            raise ValueError(
                f"answer: is too large to carry noise of scale {scale:g} on its grid; ask for it "
                "in smaller units"
            )
        snapped.append(float(steps * Fraction(2) ** k))
    measurement, cost = _measurement(size, paid, k, lipschitz)
    if cost > checks.round_up(lipschitz / scale):
        raise RuntimeError(
            f"noise: the sampler charges {cost!r} for {lipschitz / scale!r}; nothing was released"
        )
    return Noisy(tuple(float(value) for value in measurement(snapped)), paid)


def laplace_rows(
    rows: NDArray[np.int64], scale: float, lipschitz: float, largest: float
) -> tuple[Floats, float]:
    """Laplace noise of at least ``scale`` on many answers at once, a row for each.

    The rows must be about different entries, so that changing one entry moves one row alone. Then
    the grid is paid for by the coordinates of one row, as if the rows were drawn one by one; every
    number gets its own draw either way.

    Parameters
    ----------
    rows
        Whole numbers: counts.
    scale, lipschitz
        As for `laplace`, of one row.
    largest
        Public bound on the size of a number.

    Returns
    -------
    tuple
        The noisy rows, and the scale of the noise that was added.
    """
    if rows.ndim != 2 or rows.size == 0 or rows.dtype.kind not in "iu":
        raise ValueError("rows: must be a table of whole numbers")
    if int(np.abs(rows).max()) > largest:
        raise ValueError(f"rows: hold {int(np.abs(rows).max())}, above the bound {largest:g}")
    size = rows.shape[1]
    paid = paid_scale(scale, lipschitz, size, largest)
    k = grid_exponent(lipschitz, size, largest)
    _, cost = _measurement(size, paid, k, lipschitz)
    if cost > checks.round_up(lipschitz / scale):
        raise RuntimeError(
            f"noise: the sampler charges {cost!r} for {lipschitz / scale!r}; nothing was released"
        )
    exact = rows.astype(np.float64).ravel()
    if k > 0:
        exact = np.rint(exact / 2.0**k) * 2.0**k
    noisy = np.empty_like(exact)
    for start in range(0, exact.size, _AT_ONCE):
        part = exact[start : start + _AT_ONCE]
        measurement, _ = _measurement(part.size, paid, k, lipschitz)
        noisy[start : start + part.size] = measurement(part.tolist())
    return noisy.reshape(rows.shape), paid


@cache
def _opendp() -> Any:
    """OpenDP, loaded when first used: it takes seconds."""
    import opendp.prelude as dp  # noqa: PLC0415

    dp.enable_features("contrib")
    return dp


def _measurement(size: int, scale: float, k: int, lipschitz: float) -> tuple[Any, float]:
    dp = _opendp()
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=size)
    measurement = dp.m.make_laplace(domain, dp.l1_distance(T=float), scale=scale, k=k)
    return measurement, float(measurement.map(lipschitz))
