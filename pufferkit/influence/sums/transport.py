"""The infinity-Wasserstein distance between distributions on the line.

W(mu, nu) is the least d such that mass can be moved from mu to nu with no part of it going further
than d. On the line, moving the lowest mass to the lowest is best, so W is the largest gap between
the two values at equal heights of the distribution functions. The rarest outcomes decide, and so do
ties between sums of probabilities: a cumulative sum that is off by one rounding can pair the wrong
values. So the sums here are exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import lcm
from numbers import Rational
from typing import Any, TypeVar

from pufferkit.rounding import as_fraction, at_least

Place = TypeVar("Place", int, Fraction)


def w_infinity(mu: Mapping[Any, Any], nu: Mapping[Any, Any]) -> float | Fraction:
    """The infinity-Wasserstein distance, [Q] Definition 3.1.

    Parameters
    ----------
    mu, nu
        Value to probability. Fractions and integers are exact; a float counts as the
        decimal it prints as, so 0.1 is one tenth. Each distribution is rescaled to sum to one
        exactly.

    Returns
    -------
    float or Fraction
        A Fraction if all values are integers or Fractions, else a float that is never below the
        distance.

    Examples
    --------
    >>> flu_0 = {0: 0.2, 1: 0.225, 2: 0.5, 3: 0.075}
    >>> flu_1 = {1: 0.075, 2: 0.5, 3: 0.225, 4: 0.2}
    >>> print(w_infinity(flu_0, flu_1))
    2
    """
    furthest = exact_distance(_distribution("mu", mu), _distribution("nu", nu))
    exact = all(isinstance(value, Rational) for value in [*mu, *nu])
    return furthest if exact else at_least(furthest)


def exact_distance(
    first: Sequence[tuple[Place, int]], second: Sequence[tuple[Place, int]]
) -> Place:
    """The distance between distributions: values in order, with masses in whole numbers.

    Each is rescaled to sum to one exactly.
    """
    ones, others = (sum(mass for _, mass in rows) for rows in (first, second))
    ours = ((value, mass * others) for value, mass in first)
    theirs = ((value, mass * ones) for value, mass in second)
    (x, left), (y, right) = next(ours), next(theirs)
    furthest = abs(x - y)
    while True:
        furthest = max(furthest, abs(x - y))
        moved = min(left, right)
        left, right = left - moved, right - moved
        if left == 0 and (following := next(ours, None)) is not None:
            x, left = following
        if right == 0 and (following := next(theirs, None)) is not None:
            y, right = following
        if left == 0 and right == 0:
            return furthest


def _distribution(name: str, table: Mapping[Any, Any]) -> list[tuple[Fraction, int]]:
    """Values in order with their masses in whole numbers, up to one factor."""
    masses: dict[Fraction, Fraction] = {}
    for value, probability in table.items():
        mass = as_fraction(f"{name}: probability of {value}", probability)
        if mass < 0:
            raise ValueError(f"{name}: probability of {value} is {probability}, below 0")
        if mass > 0:
            place = as_fraction(f"{name}: value", value)
            masses[place] = masses.get(place, Fraction(0)) + mass
    total = sum(masses.values(), Fraction(0))
    if abs(total - 1) > Fraction(1, 10**8):
        raise ValueError(f"{name}: probabilities sum to {float(total):.9g}, not 1; normalise them")
    unit = lcm(*(mass.denominator for mass in masses.values()))
    return [(value, int(mass * unit)) for value, mass in sorted(masses.items())]
