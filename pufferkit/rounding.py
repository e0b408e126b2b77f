"""Rounding that never favours less noise: directed floats, fractions and four bisections.

A search for a scale or an event-level epsilon ends at a point that was checked to be private, never
at a midpoint. Every number is rounded towards more privacy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from math import inf
from numbers import Rational
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from pufferkit import checks
from pufferkit.checks import Floats

Found = TypeVar("Found")

EPS = math.ulp(1.0)
"""Relative spacing of floats: one rounding errs by at most half of it."""

LARGEST_EXPONENT = 700.0
"""e to this is still a float."""

_FINEST = 1e-13
_MOST_TRIALS, _USUAL_TRIALS = 40, 5
_LEAST_POWER = 0.1


def round_up(value: float, ulps: int = 4) -> float:
    """A float a few units in the last place above ``value``: rounding never favours less noise."""
    for _ in range(ulps):
        value = math.nextafter(value, math.inf)
    return value


def bounding(bounds: Floats) -> Floats:
    """The bounds, infinite where one is no finite number: such a bound bounds nothing."""
    return np.where(np.isfinite(bounds), bounds, inf)


def as_fraction(name: str, value: Any) -> Fraction:
    """A number as an exact fraction; a float counts as the decimal it prints as."""
    if isinstance(value, Rational) and not isinstance(value, bool):
        return Fraction(value)
    return Fraction(repr(checks.real(name, value)))


def at_least(value: Fraction) -> float:
    """The smallest float that is not below a fraction."""
    number = float(value)
    return number if Fraction(number) >= value else math.nextafter(number, math.inf)


def few_digits(value: float, precision: float) -> float:
    """About ``value``, with a hundredth of the precision.

    Where the last bits of a loss depend on the machine, or on the way it was computed, a search
    through such numbers still ends at the same one, except by rare chance.
    """
    if precision < _FINEST:
        return value
    return float(f"{value:.{2 - math.floor(math.log10(precision))}g}")


def last_passing(
    margin: Callable[[float], float], good: float, bad: float, precision: float
) -> float:
    """The point nearest to ``bad`` with a margin of at least 0, to a relative precision.

    ``good`` passes, ``bad`` does not. The result was itself checked to pass, so neither rounding
    nor the shape of the function can put it on the wrong side. The search makes secant steps, and
    bisects whenever the same end has not moved for two steps. It tries numbers of few digits.
    """
    at_good, at_bad = margin(good), margin(bad)
    kept = 0
    while abs(good - bad) > precision * abs(good):
        middle = (good + bad) / 2
        guess = middle
        if abs(kept) < 2 and at_good - at_bad not in (0.0, inf):
            guess = bad + (good - bad) * (-at_bad) / (at_good - at_bad)
            # Stay clear of the ends, so that both move.
            low, high = sorted((good, bad))
            edge = max(0.2 * precision * abs(good), 1e-4 * (high - low))
            guess = min(max(guess, low + edge), high - edge)
        else:
            kept = 0
        short = few_digits(guess, precision)
        if min(good, bad) < short < max(good, bad):
            guess = short
        distance = margin(guess)
        if guess in (good, bad):
            break
        if distance >= 0:
            good, at_good, kept = guess, distance, max(1, kept + 1)
        else:
            bad, at_bad, kept = guess, distance, min(-1, kept - 1)
    return good


def least_passing(passes: Callable[[int], bool], bad: int, good: int) -> int:
    """The least whole number that passes; ``good`` passes, and the smaller ``bad`` does not."""
    while good - bad > 1:
        middle = (good + bad) // 2
        if passes(middle):
            good = middle
        else:
            bad = middle
    return good


def last_passing_each(
    passes: Callable[[Floats], NDArray[np.bool_]],
    good: Floats,
    bad: Floats,
    precision: float,
    least: float = 0.0,
) -> Floats:
    """Many bisections at once: for each, the point nearest to ``bad`` that passed.

    ``good`` passes and ``bad`` does not, elementwise. The search ends when every bracket is at most
    ``precision`` times the point that passed, or times ``least`` where that point is smaller.
    """
    while (np.abs(good - bad) > precision * np.maximum(np.abs(good), least)).any():
        middle = (good + bad) / 2
        if ((middle == good) | (middle == bad)).all():
            break
        passed = passes(middle)
        good, bad = np.where(passed, middle, good), np.where(passed, bad, middle)
    return good


def largest_within(
    loss_at: Callable[[float], tuple[float, Found] | None],
    limit: float,
    start: float,
    most: float,
    precision: float,
    *,
    least: float = 0.0,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[float, Found] | None:
    """The largest b tried up to ``most`` whose loss is at most ``limit``, and what comes with it.

    A loss grows about like a power of b, so each guess is read off the last two; where it leaves
    the bracket, the bracket is halved. Guesses have few digits. ``loss_at`` may have no answer
    where b is too large. ``None`` if no b passed above ``least``, below which none is of use.
    """
    good: tuple[float, Found] | None = None
    high, b = inf, most if start >= most else min(few_digits(start, precision), most)
    seen: list[tuple[float, float]] = []
    for trial in range(_MOST_TRIALS):
        answer = loss_at(b)
        if progress is not None:
            progress(min(trial + 1, _USUAL_TRIALS), _USUAL_TRIALS)
        if answer is not None and answer[0] <= limit:
            good = b, answer[1]
            if answer[0] >= limit * (1 - precision) or b >= most:
                break
        else:
            high = b
        low = 0.0 if good is None else good[0]
        if answer is None:
            if good is None and b <= least:
                break
            guess = b / 3
        elif answer[0] <= 0:
            guess = 2 * b
        else:
            seen.append((math.log(b), math.log(answer[0])))
            guess = b * (limit * (1 - precision / 2) / answer[0]) ** (1 / _power(seen))
            guess = few_digits(guess, precision)
        if not low < guess < high:
            guess = (low + high) / 2 if high < inf else 2 * low
        if high - low <= precision * low:
            break
        b = min(guess, most)
    return good


def _power(seen: list[tuple[float, float]]) -> float:
    """By which power of b the loss grows, by the last two points; 1 where that makes no sense."""
    if len(seen) < 2 or seen[-1][0] == seen[-2][0]:
        return 1.0
    slope = (seen[-1][1] - seen[-2][1]) / (seen[-1][0] - seen[-2][0])
    return min(max(slope, _LEAST_POWER), 1 / _LEAST_POWER) if slope > 0 else 1.0
