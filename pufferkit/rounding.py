"""Rounding that never favours less noise: directed floats, fractions and three bisections.

A search for a scale or an event-level epsilon ends at a point that was checked to be private, never
at a midpoint. Every number is rounded towards more privacy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from math import inf
from numbers import Rational
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pufferkit import checks
from pufferkit.checks import Floats

EPS = math.ulp(1.0)
"""Relative spacing of floats: one rounding errs by at most half of it."""


def round_up(value: float, ulps: int = 4) -> float:
    """A float a few units in the last place above ``value``: rounding never favours less noise."""
    for _ in range(ulps):
        value = math.nextafter(value, math.inf)
    return value


def as_fraction(name: str, value: Any) -> Fraction:
    """A number as an exact fraction; a float counts as the decimal it prints as."""
    if isinstance(value, Rational) and not isinstance(value, bool):
        return Fraction(value)
    return Fraction(repr(checks.real(name, value)))


def at_least(value: Fraction) -> float:
    """The smallest float that is not below a fraction."""
    number = float(value)
    return number if Fraction(number) >= value else math.nextafter(number, math.inf)


def last_passing(
    margin: Callable[[float], float], good: float, bad: float, precision: float
) -> float:
    """The point nearest to ``bad`` with a margin of at least 0, to a relative precision.

    ``good`` passes, ``bad`` does not. The result was itself checked to pass, so neither rounding
    nor the shape of the function can put it on the wrong side. The search makes secant steps, and
    bisects whenever the same end has not moved for two steps.
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
