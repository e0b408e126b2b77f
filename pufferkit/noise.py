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
    rows: NDArray[np.int64], scales: Floats, lipschitz: float, largest: float
) -> tuple[Floats, Floats]:
    """Laplace noise on many answers at once: a row for each, with at least the scale of its own.

    The rows must be about different entries, so that changing one entry moves one row alone. Then
    the grid is paid for by the coordinates of one row, as if the rows were drawn one by one; every
    number gets its own draw either way.

    Parameters
    ----------
    rows
        Whole numbers: counts.
    scales
        What the theorem asks for each row.
    lipschitz, largest
        As for `laplace`, of one row; here the bound on the size of a number is needed.

    Returns
    -------
    tuple
        The noisy rows, and the scale of the noise that was added to each.
    """
    if rows.ndim != 2 or rows.size == 0 or rows.dtype.kind not in "iu":
        raise ValueError("rows: must be a table of whole numbers")
    if scales.shape != (len(rows),):
        raise ValueError(f"scales: must be one for each of {len(rows)} rows, got {scales.shape}")
    if int(np.abs(rows).max()) > largest:
        raise ValueError(f"rows: hold {int(np.abs(rows).max())}, above the bound {largest:g}")
    k = grid_exponent(lipschitz, rows.shape[1], largest)
    exact = rows.astype(np.float64)
    if k > 0:
        exact = np.rint(exact / 2.0**k) * 2.0**k
    noisy, paid = np.empty_like(exact), np.empty(len(rows))
    for scale in np.unique(scales).tolist():
        some = np.flatnonzero(scales == scale)
        paid[some] = paid_scale(scale, lipschitz, rows.shape[1], largest)
        noisy[some] = _drawn(exact[some], scale, float(paid[some[0]]), lipschitz, k)
    return noisy, paid


def _drawn(exact: Floats, scale: float, paid: float, lipschitz: float, k: int) -> Floats:
    """Rows on the grid with noise of one scale, drawn in parts."""
    _, cost = _measurement(exact.shape[1], paid, k, lipschitz)
    if cost > checks.round_up(lipschitz / scale):
        raise RuntimeError(
            f"noise: the sampler charges {cost!r} for {lipschitz / scale!r}; nothing was released"
        )
    flat = exact.ravel()
    noisy = np.empty_like(flat)
    for start in range(0, flat.size, _AT_ONCE):
        part = flat[start : start + _AT_ONCE]
        measurement, _ = _measurement(part.size, paid, k, lipschitz)
        noisy[start : start + part.size] = measurement(part.tolist())
    return noisy.reshape(exact.shape)


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
