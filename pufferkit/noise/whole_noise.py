"""Discrete Laplace noise, for answers that are whole multiples of a unit u.

Examples are counts (u = 1) and shares of T entries (u = 1/T). The noise is a multiple of u, with

    P(Z = n u)  =  (1 - a) / (1 + a) a^|n|,    a = e^{-u / scale}.

Replacing an answer by another at L1 distance d moves the log-likelihood of every output by at most
d / scale, as |w - c'| <= |w - c| + |c - c'| in each coordinate: the guarantee of Laplace noise of
the same scale, for each pair of states too. Nothing is rounded, so rounding costs nothing, and
the noise is smaller: its mean size is u / sinh(u / scale), below the scale.

Two samplers draw it, both exactly, from the randomness of the operating system: OpenDP's, one
number after another, or our own, many at once. A call of OpenDP takes a tenth of a millisecond and
each draw ten microseconds; our own takes most of a millisecond for its first draw and a tenth of a
microsecond for each of a million. So releases of a few numbers are drawn by OpenDP, which many have
reviewed, and tables by our own, proved in `pufferkit.noise.exact_laplace`. The choice depends on
public numbers only.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from fractions import Fraction
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from pufferkit import checks
from pufferkit.checks import Floats, Ints
from pufferkit.noise import opendp_draws
from pufferkit.noise.exact_laplace import LARGEST_SCALE, DiscreteLaplace
from pufferkit.rounding import at_least, round_up

Sampler = Literal["opendp", "pufferkit"]
"""The sampler of Laplace noise; releases record it."""

SAMPLER_NAMES: dict[Sampler, str] = {
    "opendp": "OpenDP",
    "pufferkit": "pufferkit's own exact sampler",
}
"""The samplers in words."""

CHOICE = "PUFFERKIT_SAMPLER"
"""The environment variable that names a sampler for all noise that both can draw."""

BATCH = 32
"""A release of this many numbers is drawn at once."""

MOST_UNITS = 2.0**50
"""Beyond this many units, a float no longer holds the noisy answer as a whole number."""

MOST_SCALE = 2.0**40
"""Largest scale in units; beyond it discrete noise agrees with Laplace noise to twelve digits."""

_AT_ONCE = 20_000
_SCALES_AT_ONCE = 256


def sampler_of(scale: Fraction, numbers: int = BATCH) -> Sampler:
    """The sampler of a release of this many numbers, or of a table of releases.

    Parameters
    ----------
    scale
        The largest scale, in units of the answer or steps of the grid. Beyond 2^56, OpenDP's
        integers of any size are needed.
    numbers
        How many numbers one release has; for a table it does not matter.
    """
    named = os.environ.get(CHOICE) or ("pufferkit" if numbers >= BATCH else "opendp")
    if named not in get_args(Sampler):
        raise ValueError(
            f"{CHOICE}: must be one of {', '.join(get_args(Sampler))}, got {named!r}; nothing was "
            "drawn"
        )
    return "pufferkit" if named == "pufferkit" and scale <= LARGEST_SCALE else "opendp"


def is_discrete(unit: Fraction | None, scale: float, largest: float | None = None) -> bool:
    """Whether answers that are multiples of ``unit`` get discrete Laplace noise of this scale.

    The decision uses public numbers only. It is no if the unit is so small that a float cannot hold
    the answer or the noise as a whole number of units.
    """
    if unit is None or Fraction(checks.positive("scale", scale)) > unit * Fraction(MOST_SCALE):
        return False
    return largest is None or Fraction(largest) <= unit * Fraction(MOST_UNITS)


def whole_sampler(scale: float, unit: Fraction, numbers: int = BATCH) -> Sampler:
    """The sampler of discrete Laplace noise of this largest scale; see `sampler_of`."""
    return sampler_of(Fraction(at_least(Fraction(scale) / unit)), numbers)


def discrete_laplace(
    answers: Sequence[Sequence[Fraction]],
    which: Sequence[int],
    scales: Sequence[float],
    unit: Fraction,
) -> list[float]:
    """Discrete Laplace noise on releases of answers that are whole multiples of ``unit``.

    Release n adds noise to ``answers[which[n]]``; all noise is independent. The values are returned
    release after release, as whole numbers if the unit is 1.

    Parameters
    ----------
    answers, which
        The exact answers, and the index of the answer that each release is about.
    scales
        The scale that the theorem demands for each coordinate. Noise has that scale; if the unit is
        not 1, it has that scale in units, rounded up to a float.
    unit
        See `is_discrete`.
    """
    size = len(scales)
    if not size or any(len(answer) != size for answer in answers):
        raise ValueError("exact: must contain at least one number to add noise to")
    whole = [[_units(value, unit) for value in answer] for answer in answers]
    wanted = [at_least(Fraction(checks.positive("scale", scale)) / unit) for scale in scales]
    steps = np.array([whole[n] for n in which], dtype=np.int64)
    each = np.broadcast_to(np.array(wanted), steps.shape)
    noisy = discrete_laplace_rows(steps, each, whole_sampler(max(scales), unit, size))
    times, over = unit.as_integer_ratio()
    noisy_numbers: list[float] = [number * times for number in noisy.ravel().tolist()]
    # Python divides whole numbers without rounding them first.
    return noisy_numbers if over == 1 else [number / over for number in noisy_numbers]


def discrete_laplace_rows(
    rows: NDArray[np.int64], scales: Floats, sampler: Sampler | None = None
) -> NDArray[np.int64]:
    """Discrete Laplace noise on a table of whole numbers, each with the scale given for it.

    Parameters
    ----------
    rows
        Whole numbers: counts. A row may be one of many releases; all noise is independent.
    scales
        One for each number, or a column with one for each row.
    sampler
        The sampler; if left out, the one for tables (`whole_sampler`).
    """
    if rows.ndim != 2 or rows.size == 0 or rows.dtype.kind not in "iu":
        raise ValueError("rows: must be a table of whole numbers")
    if scales.shape not in (rows.shape, (len(rows), 1)):
        raise ValueError(
            f"scales: must be one for each number or row of {rows.shape}, got {scales.shape}"
        )
    values = rows.astype(np.int64)
    if (values != rows).any():
        raise ValueError("rows: must be signed integers of 64 bits")
    each, which = np.unique(np.broadcast_to(scales, rows.shape), return_inverse=True)
    units = [Fraction(checks.positive("scale", scale)) for scale in each.tolist()]
    draw = _by_opendp if (sampler or sampler_of(units[-1])) == "opendp" else _by_pufferkit
    return draw(values.ravel(), units, which.ravel()).reshape(rows.shape)


def _by_pufferkit(values: Ints, scales: list[Fraction], which: NDArray[np.intp]) -> Ints:
    if len(scales) == 1:
        return DiscreteLaplace.of(scales[0]).on(values)
    noisy = np.empty_like(values)
    order = np.argsort(which, kind="stable")
    firsts = np.searchsorted(which[order], range(0, len(scales), _SCALES_AT_ONCE))
    for n, chosen in enumerate(np.split(order, firsts[1:])):
        some = scales[n * _SCALES_AT_ONCE : (n + 1) * _SCALES_AT_ONCE]
        noisy[chosen] = DiscreteLaplace.of(*some).on(
            values[chosen], which[chosen] - n * _SCALES_AT_ONCE
        )
    return noisy


def _by_opendp(values: Ints, scales: list[Fraction], which: NDArray[np.intp]) -> Ints:
    noisy = np.empty_like(values)
    for chosen in np.split(np.argsort(which, kind="stable"), np.cumsum(np.bincount(which))[:-1]):
        scale = float(scales[which[chosen[0]]])
        for start in range(0, len(chosen), _AT_ONCE):
            part = chosen[start : start + _AT_ONCE]
            made = opendp_draws.whole_measurement(len(part), scale)
            noisy[part] = opendp_draws.drawn(made, 1 / scale, values[part].tolist())
    return noisy


def _units(value: Fraction, unit: Fraction) -> int:
    """The number of units; the error message must not reveal the answer."""
    number, rest = divmod(value.numerator * unit.denominator, value.denominator * unit.numerator)
    if rest:
        raise ValueError(f"answer: is not a whole multiple of {unit}, the unit of its query")
    if abs(number) > MOST_UNITS:
        raise ValueError(f"answer: is too large to be counted in units of {unit}")
    return number


def as_shares(values: Floats, scales: Floats, entries: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Noisy counts and their scales over the number of entries of each row, which is public.

    It is post-processing and costs nothing. Scales are rounded up.
    """
    shares = np.array([round_up(s / n) for s, n in zip(scales, entries, strict=True)])
    return values / entries[:, None], shares
