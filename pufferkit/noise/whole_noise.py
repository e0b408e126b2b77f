"""Discrete Laplace noise, for answers that are whole multiples of a unit u.

Counts are (u = 1), and shares of T entries (u = 1/T). The noise is a whole multiple too, with

    P(Z = n u)  =  (1 - a) / (1 + a) a^|n|,    a = e^{-u / scale}.

Replacing an answer by another at L1 distance d moves the log-likelihood of every output by at most
d / scale, as |w - c'| <= |w - c| + |c - c'| in each coordinate: the guarantee of Laplace noise of
the same scale, pair by pair of states too. Nothing is rounded, so nothing is paid for rounding, and
the noise is smaller: its mean size is u / sinh(u / scale), below the scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from pufferkit import checks
from pufferkit.checks import Floats, Ints
from pufferkit.noise import opendp_draws
from pufferkit.noise.exact_laplace import DiscreteLaplace
from pufferkit.noise.samplers import BATCH, Sampler, sampler_of
from pufferkit.rounding import at_least, round_up

MOST_UNITS = 2.0**50
"""Answers of more units than this are no longer whole floats with their noise."""

LARGEST_SCALE = 2.0**40
"""In units. Beyond it discrete noise is Laplace noise to twelve digits."""

_AT_ONCE = 20_000
_SCALES_AT_ONCE = 256


def is_discrete(unit: Fraction | None, scale: float, largest: float | None = None) -> bool:
    """Whether answers that are multiples of ``unit`` get discrete Laplace noise of this scale.

    Decided by public numbers alone. Not if the unit is so small that the answer, or the noise,
    would not be a whole number of units that a float can hold.
    """
    if unit is None or Fraction(checks.positive("scale", scale)) > unit * Fraction(LARGEST_SCALE):
        return False
    return largest is None or Fraction(largest) <= unit * Fraction(MOST_UNITS)


def whole_sampler(scale: float, unit: Fraction, numbers: int = BATCH) -> Sampler:
    """Who draws discrete Laplace noise of this largest scale; see `sampler_of`."""
    return sampler_of(Fraction(at_least(Fraction(scale) / unit)), numbers)


def discrete_laplace(
    answers: Sequence[Sequence[Fraction]],
    which: Sequence[int],
    scales: Sequence[float],
    unit: Fraction,
) -> list[float]:
    """Discrete Laplace noise on releases of answers that are whole multiples of ``unit``.

    Release n is of ``answers[which[n]]``; every number gets a draw of its own. What is returned are
    whole numbers where the unit is one, release after release.

    Parameters
    ----------
    answers, which
        The exact answers, and which of them each release is of.
    scales
        What the theorem asks for each coordinate. It is drawn with that scale; if the unit is not 1
        with the next float number of units, rounded up.
    unit
        See `is_discrete`.
    """
    size = len(scales)
    if not size or any(len(answer) != size for answer in answers):
        raise ValueError("exact: has no numbers to add noise to")
    whole = [[_units(value, unit) for value in answer] for answer in answers]
    wanted = [at_least(Fraction(checks.positive("scale", scale)) / unit) for scale in scales]
    steps = np.array([whole[n] for n in which], dtype=np.int64)
    each = np.broadcast_to(np.array(wanted), steps.shape)
    noisy = discrete_laplace_rows(steps, each, whole_sampler(max(scales), unit, size))
    noisy_numbers = [unit * number for number in noisy.ravel().tolist()]
    return [int(number) if unit.denominator == 1 else float(number) for number in noisy_numbers]


def discrete_laplace_rows(
    rows: NDArray[np.int64], scales: Floats, sampler: Sampler | None = None
) -> NDArray[np.int64]:
    """Discrete Laplace noise on a table of whole numbers, each with the scale given for it.

    Parameters
    ----------
    rows
        Whole numbers: counts. A row may be one release of many; every number gets its own draw.
    scales
        One for each number, or a column with one for each row.
    sampler
        Who draws; left out, the one for tables (`whole_sampler`).
    """
    if rows.ndim != 2 or rows.size == 0 or rows.dtype.kind not in "iu":
        raise ValueError("rows: must be a table of whole numbers")
    if scales.shape not in (rows.shape, (len(rows), 1)):
        raise ValueError(
            f"scales: must be one for each number or row of {rows.shape}, got {scales.shape}"
        )
    values = rows.astype(np.int64)
    if (values != rows).any():
        raise ValueError("rows: must be whole numbers of 64 bits with a sign")
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
    """How many units; the message of a refusal must not tell the answer."""
    number = value / unit
    if number.denominator != 1:
        raise ValueError(f"answer: is not a whole multiple of {unit}, as its query says")
    if abs(number) > MOST_UNITS:
        raise ValueError(f"answer: is too large to be counted in units of {unit}")
    return int(number)


def as_shares(values: Floats, scales: Floats, entries: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Noisy counts and their scales over the number of entries of each row, which is public.

    It is post-processing and costs nothing. Scales are rounded up.
    """
    shares = np.array([round_up(s / n) for s, n in zip(scales, entries, strict=True)])
    return values / entries[:, None], shares
