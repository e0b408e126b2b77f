"""The only door through which randomness enters a release.

Noise is drawn by OpenDP with exact integer arithmetic, from the randomness of the operating system.
A floating-point Laplace sampler leaks: some outputs are possible under one data set only (Mironov
2012). There are two families.

*Discrete Laplace noise*, for answers that are whole multiples of a unit u, as counts are (u = 1)
and shares of T entries (u = 1/T). The noise is a whole multiple too, with

    P(Z = n u)  =  (1 - a) / (1 + a) a^|n|,    a = e^{-u / scale}.

Replacing an answer by another at L1 distance d moves the log-likelihood of every output by at most
d / scale, as |w - c'| <= |w - c| + |c - c'| in each coordinate: the guarantee of Laplace noise of
the same scale, pair by pair of states too. Nothing is rounded, so nothing is paid for rounding, and
the noise is smaller: its mean size is u / sinh(u / scale), below the scale.

*Laplace noise*, for all other answers, on a grid of multiples of 2^k. The grid is paid for.
Rounding each of n coordinates to a multiple of 2^k can move two answers apart by n 2^k, so an
L-Lipschitz query becomes (L + n 2^k)-Lipschitz, and the scale is raised in that proportion. With n
2^k at most L / 2^30 that is one part in 10^9. Very long series need a coarser grid, because an
answer must stay a whole number of steps that a float can hold.

*A noisy choice*, for quantiles: exponential noise on the score of each candidate, of which only the
place of the largest sum is told (permute-and-flip, which never errs more than the exponential
mechanism: McKenna and Sheldon 2020). Moving every score by at most d moves the log-likelihood of
every choice by at most 2 d / scale.

Randomised response compares 64 random bits of the operating system with a whole number, so its
probabilities are exact multiples of 2^-64. A float of at least 2^-11 is such a multiple already; a
smaller one is rounded up, which hides more. Of two states the first byte decides mostly, and the
others are drawn only where it does not.

No random number is kept for later, so nothing can be drawn twice: a process that forks, or whose
memory is copied in another way, takes no words with it. What OpenDP keeps is not ours to clear, and
not every version of it looks for a fork; in a forked process it is asked on new threads only, where
its generators start anew from the operating system.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pufferkit import checks
from pufferkit.checks import Floats
from pufferkit.rounding import at_least, round_up

Family = Literal["laplace", "discrete laplace", "noisy choice"]
"""Laplace noise on a fine grid, discrete Laplace noise on the multiples of the answer's unit, or
exponential noise on scores of which the best is told."""

MOST_UNITS = 2.0**50
"""Answers of more units than this are no longer whole floats with their noise."""

LARGEST_SCALE = 2.0**40
"""In units. Beyond it discrete noise is Laplace noise to twelve digits."""

GRID_SHARE = 2.0**-30
"""Most of the Lipschitz constant that the grid may cost."""

WORD = 2**64
"""Randomised response draws whole numbers below this."""

_MOST = sys.float_info.max
_MOST_DIGITS = 52
_AT_ONCE = 20_000
_CHUNK = 1 << 18


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
    return round_up(checks.positive("scale", scale) * (1 + grid / lipschitz))


def laplace(
    answers: Sequence[Sequence[Fraction]],
    which: Sequence[int],
    scale: float,
    lipschitz: float,
    largest: float | None = None,
) -> list[float]:
    """Laplace noise of the scale `paid_scale` on every number of many releases.

    Release n is of ``answers[which[n]]``, and each has draws of its own; only the call is shared,
    because a call is slow and a draw is not.

    Parameters
    ----------
    answers, which
        The exact answers, each of which is rounded to the grid without further error; and which of
        them each release is of.
    scale
        What the theorem asks for a query of this Lipschitz constant.
    lipschitz
        L1 change of the whole answer when one entry changes.
    largest
        Public bound on the size of a number, if there is one.
    """
    size = len(answers[0])
    if size == 0:
        raise ValueError("exact: has no numbers to add noise to")
    paid = paid_scale(scale, lipschitz, size, largest)
    k = grid_exponent(lipschitz, size, largest)
    snapped = [[_snapped(value, k, scale) for value in exact] for exact in answers]
    measurement, cost = _measurement(size, paid, k, lipschitz)
    if cost > round_up(lipschitz / scale):
        raise RuntimeError(
            f"noise: the sampler charges {cost!r} for {lipschitz / scale!r}; nothing was released"
        )
    if len(which) > 1:  # the same noise on a longer vector
        measurement, _ = _measurement(size * len(which), paid, k, lipschitz)
    flat = [value for n in which for value in snapped[n]]
    # A draw beyond the largest float is given as that float: post-processing, which costs nothing.
    return [min(max(float(value), -_MOST), _MOST) for value in _asked(measurement, flat)]


def is_discrete(unit: Fraction | None, scale: float, largest: float | None = None) -> bool:
    """Whether answers that are multiples of ``unit`` get discrete Laplace noise of this scale.

    Decided by public numbers alone. Not if the unit is so small that the answer, or the noise,
    would not be a whole number of units that a float can hold.
    """
    if unit is None or Fraction(checks.positive("scale", scale)) > unit * Fraction(LARGEST_SCALE):
        return False
    return largest is None or Fraction(largest) <= unit * Fraction(MOST_UNITS)


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
    noisy = discrete_laplace_rows(steps, np.broadcast_to(np.array(wanted), steps.shape))
    noisy_numbers = [unit * number for number in noisy.ravel().tolist()]
    return [int(number) if unit.denominator == 1 else float(number) for number in noisy_numbers]


def discrete_laplace_rows(rows: NDArray[np.int64], scales: Floats) -> NDArray[np.int64]:
    """Discrete Laplace noise on a table of whole numbers, each with the scale given for it.

    Parameters
    ----------
    rows
        Whole numbers: counts. A row may be one release of many; every number gets its own draw.
    scales
        One for each number, or a column with one for each row.
    """
    if rows.ndim != 2 or rows.size == 0 or rows.dtype.kind not in "iu":
        raise ValueError("rows: must be a table of whole numbers")
    if scales.shape not in (rows.shape, (len(rows), 1)):
        raise ValueError(
            f"scales: must be one for each number or row of {rows.shape}, got {scales.shape}"
        )
    each = np.broadcast_to(scales, rows.shape)
    noisy = np.empty(rows.shape, dtype=np.int64)
    for scale in np.unique(each).tolist():
        chosen = np.nonzero(each == scale)
        noisy[chosen] = _drawn_whole(rows[chosen], checks.positive("scale", scale))
    return noisy


def _drawn_whole(values: NDArray[np.int64], scale: float) -> NDArray[np.int64]:
    """Whole numbers with noise of one scale, drawn in parts."""
    noisy = np.empty(len(values), dtype=np.int64)
    for start in range(0, len(values), _AT_ONCE):
        part = values[start : start + _AT_ONCE]
        measurement, cost = _whole_measurement(len(part), scale)
        if cost > round_up(1 / scale):
            raise RuntimeError(
                f"noise: the sampler charges {cost!r} for {1 / scale!r}; nothing was released"
            )
        noisy[start : start + len(part)] = _asked(measurement, part.tolist())
    return noisy


def noisy_choice(scores: Sequence[int], scale: float, step: int = 1) -> int:
    """The place of the largest score after exponential noise on each; permute-and-flip.

    Parameters
    ----------
    scores
        Whole numbers, in units of 1 / ``step``.
    scale
        Of the noise on a score, before that unit. Scores that move by at most 1 move the
        log-likelihood of the choice by at most 2 / ``scale``.
    step
        How many of the units are 1.
    """
    wanted = at_least(Fraction(checks.positive("scale", scale)) * step)
    if len(scores) < 2 or any(abs(score) >= 2**62 for score in scores):
        raise ValueError("scores: must be at least two whole numbers of 62 bits")
    measurement, cost = _choosing(wanted, step)
    if cost > round_up(2 / scale):
        raise RuntimeError(
            f"noise: the sampler charges {cost!r} for {2 / scale!r}; nothing was released"
        )
    return int(_asked(measurement, [int(score) for score in scores]))


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


def _snapped(value: Fraction, k: int, scale: float) -> float:
    steps = round(value / Fraction(2) ** k)
    if steps.bit_length() > _MOST_DIGITS:
        raise ValueError(
            f"answer: is too large to carry noise of scale {scale:g} on its grid; ask for it "
            "in smaller units"
        )
    return float(steps * Fraction(2) ** k)


def flip_threshold(rho: float, states: int) -> int:
    """How many of the 2^64 words move a state to one given other state: rho 2^64, rounded up.

    Each of the k states keeps the rest, never less than it gives to another: k times the threshold
    is at most 2^64. Rounding up makes outputs more alike, so the loss of the probabilities that
    were asked for is still promised. Only where that would pass 1/k (k no power of two and rho
    within 2^-64 of 1/k) is it rounded down; `KaryResponse` computes its promise from the result.
    """
    return min(math.ceil(Fraction(rho) * WORD), WORD // states)


def responses(codes: NDArray[Any], thresholds: Sequence[int]) -> NDArray[Any]:
    """Randomised response, entry by entry, with fresh randomness for each.

    Parameters
    ----------
    codes
        States as whole numbers 0 ... k - 1.
    thresholds
        For each state x, how many of the 2^64 words move x to each given other state.

    Notes
    -----
    A uniform word u < 2^64 moves x to x + 1 + floor(u / threshold) modulo k if that quotient is
    below k - 1, and keeps x otherwise. Every other state gets exactly threshold[x] words.
    """
    import numpy as np  # noqa: PLC0415

    states = len(thresholds)
    limits = np.array(thresholds, dtype=np.uint64)
    answers = np.empty_like(codes)
    for start in range(0, len(codes), _CHUNK):
        piece = codes[start : start + _CHUNK]
        if states == 2:
            zeros = piece == 0
            answers[start : start + _CHUNK] = zeros == _flips(zeros, limits)
            continue
        words = np.frombuffer(os.urandom(8 * len(piece)), dtype=np.uint64)
        limit = limits[piece]
        jump = words // np.maximum(limit, 1)
        moved = (jump < states - 1) & (limit > 0)
        shift = np.where(moved, jump + 1, 0).astype(np.intp)
        answers[start : start + _CHUNK] = (piece + shift) % states
    return answers


def _flips(zeros: NDArray[np.bool_], limits: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """For each entry whether a fresh word of 64 bits is below the limit of its state.

    The first byte of a word decides unless it is the first byte of the limit; the other seven are
    drawn only then, once in 256 times. Given the first byte they are uniform whenever they are
    drawn, so the probability is exactly the limit over 2^64.
    """
    first = np.frombuffer(os.urandom(len(zeros)), dtype=np.uint8)
    tops = (limits >> np.uint64(56)).astype(np.uint8)
    top = tops[0] if tops[0] == tops[1] else np.where(zeros, tops[0], tops[1])
    flips: NDArray[np.bool_] = first < top
    unsure = np.flatnonzero(first == top)
    rest = np.frombuffer(os.urandom(8 * len(unsure)), dtype=np.uint64) >> np.uint64(8)
    remainders = limits & np.uint64(2**56 - 1)
    flips[unsure] = rest < np.where(zeros[unsure], remainders[0], remainders[1])
    return flips


def response_stream(codes: Iterator[int], thresholds: Sequence[int]) -> Iterator[int]:
    """Randomised response to one entry after another, as `responses`, in constant memory.

    Each entry is answered before the next is asked for, and its random word is drawn with it. Words
    drawn ahead would be the same in every process that is forked from this one.
    """
    states = len(thresholds)
    moving = [(states - 1) * limit for limit in thresholds]
    for code in codes:
        word = int.from_bytes(os.urandom(8), sys.byteorder)
        if word >= moving[code]:
            yield code
        else:
            yield (code + 1 + word // thresholds[code]) % states


_home = [os.getpid()]
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_home.clear)


def _is_forked() -> bool:
    """By Python's own hook, or by the number of the process where other code has forked."""
    return _home != [os.getpid()]


def _asked(measurement: Any, values: list[Any]) -> Any:
    """Noisy values or a choice, drawn with a generator that no other process shares.

    A generator of OpenDP belongs to a thread. OpenSSL's, which version 0.16 uses, starts anew after
    a fork; that of other versions does not, and would repeat the noise of the parent.
    """
    if _is_forked():
        with ThreadPoolExecutor(max_workers=1) as own:
            return own.submit(measurement, values).result()
    return measurement(values)


@cache
def _opendp() -> tuple[Any, Any, Any]:
    """Domains, metrics and samplers of OpenDP, loaded when first used.

    Its prelude would load scikit-learn and polars as well, which takes seconds.
    """
    from opendp import domains, measurements, metrics  # noqa: PLC0415
    from opendp.mod import enable_features  # noqa: PLC0415

    enable_features("contrib")
    return domains, metrics, measurements


def _sampler(atoms: dict[str, Any], size: int, scale: float, **grid: int) -> Any:
    domains, metrics, measurements = _opendp()
    domain = domains.vector_domain(domains.atom_domain(**atoms), size=size)
    return measurements.make_laplace(domain, metrics.l1_distance(T=float), scale=scale, **grid)


def _measurement(size: int, scale: float, k: int, lipschitz: float) -> tuple[Any, float]:
    measurement = _sampler({"T": float, "nan": False}, size, scale, k=k)
    return measurement, float(measurement.map(lipschitz))


def _whole_measurement(size: int, scale: float) -> tuple[Any, float]:
    """The sampler on whole numbers, and what it charges for a distance of 1."""
    measurement = _sampler({"T": "i64"}, size, scale)
    return measurement, float(measurement.map(1.0))


@lru_cache(8)
def _choosing(scale: float, step: int) -> tuple[Any, float]:
    """The sampler of a choice, and what it charges for scores that move by ``step``."""
    from opendp.measures import max_divergence  # noqa: PLC0415

    domains, metrics, measurements = _opendp()
    measurement = measurements.make_noisy_max(
        domains.vector_domain(domains.atom_domain(T="i64")),
        metrics.linf_distance(T="i64"),
        max_divergence(),
        scale=scale,
    )
    return measurement, float(measurement.map(step))
