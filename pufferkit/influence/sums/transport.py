"""The infinity-Wasserstein distance between distributions, of numbers and of vectors.

W(mu, nu) is the least d such that mass can be moved from mu to nu with no part of it going further
than d. On the line, moving the lowest mass to the lowest is best, so W is the largest gap between
the two values at equal heights of the distribution functions. The rarest outcomes decide, and so do
ties between sums of probabilities: a cumulative sum that is off by one rounding can pair the wrong
values. So they are summed in whole numbers (`exact_distance`), or in floats with a bound on their
rounding, where a tie that stays open counts as the larger distance (`farthest`).

For vectors the distance is in L1. Whether all mass can move along pairs of values at most d apart
is a flow; masses are whole numbers, so it is exact, and the least d at which it passes is one of
the distances between two values (`bottleneck_distance`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import lcm
from numbers import Rational
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from pufferkit.checks import Floats, Ints
from pufferkit.errors import NotApplicable
from pufferkit.influence.sums.lattice import Masses, within
from pufferkit.rounding import EPS, as_fraction, at_least, least_passing

Place = TypeVar("Place", int, Fraction)


def w_infinity(mu: Mapping[Any, Any], nu: Mapping[Any, Any]) -> float | Fraction:
    """The infinity-Wasserstein distance; between vectors in L1.

    Theorem: [Q] Definition 3.1, for distributions on the line and of vectors.

    Parameters
    ----------
    mu, nu
        Value to probability; values are numbers, or tuples of equally many numbers. Fractions and
        integers are exact; a float counts as the decimal it prints as, so 0.1 is one tenth. Each
        distribution is rescaled to sum to one exactly.

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
    >>> pairs_0, pairs_1 = ({(4 - n, n): p for n, p in flu.items()} for flu in (flu_0, flu_1))
    >>> print(w_infinity(pairs_0, pairs_1))
    4
    """
    if any(isinstance(value, tuple) for value in [*mu, *nu]):
        return _between_vectors(mu, nu)
    furthest = exact_distance(_distribution("mu", mu), _distribution("nu", nu))
    exact = all(isinstance(value, Rational) for value in [*mu, *nu])
    return furthest if exact else at_least(furthest)


def _between_vectors(mu: Mapping[Any, Any], nu: Mapping[Any, Any]) -> float | Fraction:
    sizes = {len(value) if isinstance(value, tuple) else 0 for value in [*mu, *nu]}
    if len(sizes) > 1 or 0 in sizes:
        raise ValueError("mu, nu: values must be all numbers, or tuples of equally many numbers")
    furthest = bottleneck_distance(_distribution("mu", mu), _distribution("nu", nu))
    exact = all(isinstance(number, Rational) for value in [*mu, *nu] for number in value)
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


def _distribution(name: str, table: Mapping[Any, Any]) -> list[tuple[Any, int]]:
    """Values in order with their masses in whole numbers, up to one factor."""
    masses: dict[Any, Fraction] = {}
    for value, probability in table.items():
        mass = as_fraction(f"{name}: probability of {value}", probability)
        if mass < 0:
            raise ValueError(f"{name}: probability of {value} is {probability}, below 0")
        if mass > 0:
            place = _place(f"{name}: value", value)
            masses[place] = masses.get(place, Fraction(0)) + mass
    total = sum(masses.values(), Fraction(0))
    if abs(total - 1) > Fraction(1, 10**8):
        raise ValueError(f"{name}: probabilities sum to {float(total):.9g}, not 1; normalise them")
    unit = lcm(*(mass.denominator for mass in masses.values()))
    return [(value, int(mass * unit)) for value, mass in sorted(masses.items())]


def _place(name: str, value: Any) -> Fraction | tuple[Fraction, ...]:
    if isinstance(value, tuple):
        return tuple(as_fraction(name, number) for number in value)
    return as_fraction(name, value)


def farthest(rows: Masses, places: Ints, least: int, error: float) -> tuple[int, bool]:
    """The largest W-infinity between two rows, or ``least`` if that is more; never too small.

    With F_a the distribution function of row a, W of two
    rows is the least d with F_a(t) <= F_b(t + d) and F_b(t) <= F_a(t + d) for all t. If that holds,
    mass can go from the lowest to the lowest, and no part of it goes further than d. If F_a(t) is
    above F_b(t + d), some of the mass up to t must go beyond t + d.

    A comparison counts only if it is sure: by the lower tails, P(S_a <= t) <= P(S_b <= t + d), or
    by the upper ones, P(S_b > t + d) <= P(S_a > t), whichever rounding leaves clear. The shift
    grows until all of them are.

    Parameters
    ----------
    rows, places
        Distributions up to a factor, those without mass left out; row n is counted from
        ``places[n]``.
    least
        Where the search begins.
    error
        Bound on the relative error of a tail.

    Returns
    -------
    tuple
        The distance, and whether rounding left open that it is smaller.
    """
    if len(rows.numbers) < 2 or within(rows, places, least, error):
        return least, False
    lower, upper = rows.log_tails()
    size = rows.room + int(places.max())
    low, up = np.full((len(lower), size), -np.inf), np.full((len(lower), size), -np.inf)
    for n, place in enumerate(places):
        end = place + rows.room
        low[n, place:end], low[n, end:] = lower[n], 0.0
        up[n, place:end], up[n, :place] = upper[n], 0.0
    known = np.concatenate([low[low > -np.inf], up[up > -np.inf]])
    slack = 2 * error + 8 * EPS * float(np.abs(known).max(initial=0.0))
    low_most, low_least, up_most, up_least = (
        low.max(axis=0), low.min(axis=0), up.max(axis=0), up.min(axis=0)
    )  # fmt: skip

    def surely_within(shift: int) -> bool:
        end = max(0, size - shift)
        by_lower = low_most[:end] + slack <= low_least[shift:]
        by_upper = up_most[shift:] + slack <= up_least[:end]
        unclear = np.flatnonzero(~(by_lower | by_upper))
        return all(_passes(low, up, a, unclear, shift, slack) for a in range(len(low)))

    def surely_not(shift: int) -> bool:
        end = max(0, size - shift)
        by_lower = low_most[:end] > low_least[shift:] + slack
        return bool((by_lower | (up_most[shift:] > up_least[:end] + slack)).any())

    if surely_within(least):
        return least, False
    bad, step = least, 1
    while not surely_within(bad + step):
        bad, step = bad + step, 2 * step
    value = least_passing(surely_within, bad, bad + step)
    return value, not surely_not(value - 1)


def _passes(
    low: Floats, up: Floats, a: int, places: NDArray[np.intp], shift: int, slack: float
) -> bool:
    """Whether F_a(t) <= F_b(t + shift) for sure at these places t, for all b other than a."""
    if not places.size:
        return True
    others = np.arange(len(low)) != a
    by_lower = low[a, places] + slack <= low[others][:, places + shift]
    by_upper = up[others][:, places + shift] + slack <= up[a, places]
    return bool((by_lower | by_upper).all())


# --- vectors ------------------------------------------------------------------------------------

Vector = tuple[Fraction, ...]
Mass = tuple[Vector, int]
"""A value, and its mass up to a factor that all masses of a distribution share."""

MOST_PAIRS = 20_000
"""Most pairs of values between which mass may have to move; a flow through them takes a second."""


def bottleneck_distance(
    first: Sequence[Mass], second: Sequence[Mass], least: Fraction = Fraction(0)
) -> Fraction:
    """W-infinity in L1, or ``least`` if that is more.

    Theorem: W-infinity of vectors. Two of the values are that far apart, so any smaller
    distance leaves some mass unmoved.

    Parameters
    ----------
    first, second
        Values with masses in whole numbers; each distribution is rescaled to the same sum.
    least
        Where the search begins; one flow shows that W is no more.
    """
    if len(first) * len(second) > MOST_PAIRS:
        raise NotApplicable(
            f"answers with {len(first):,} and {len(second):,} values have more than "
            f"{MOST_PAIRS:,} pairs to move mass between; ask fewer coordinates, or use "
            "influence_curve"
        )
    ones, others = (sum(mass for _, mass in rows) for rows in (first, second))
    ours = [mass * others for _, mass in first]
    theirs = [mass * ones for _, mass in second]
    apart = [[_l1(x, y) for y, _ in second] for x, _ in first]
    places = sorted({least, *(d for row in apart for d in row if d > least)})

    def passes(place: int) -> bool:
        return _all_moves(ours, theirs, apart, places[place])

    if passes(0):
        return least
    return places[least_passing(passes, 0, len(places) - 1)]


def _l1(x: Vector, y: Vector) -> Fraction:
    return sum((abs(a - b) for a, b in zip(x, y, strict=True)), Fraction(0))


def _all_moves(
    ours: Sequence[int], theirs: Sequence[int], apart: Sequence[Sequence[Fraction]], most: Fraction
) -> bool:
    """Whether all mass can move along pairs of values at most so far apart."""
    import networkx as nx  # noqa: PLC0415  (slow to load)

    graph = nx.DiGraph()
    for n, mass in enumerate(ours):
        graph.add_edge("source", ("first", n), capacity=mass)
    for n, mass in enumerate(theirs):
        graph.add_edge(("second", n), "sink", capacity=mass)
    for n, row in enumerate(apart):
        near = [m for m, distance in enumerate(row) if distance <= most]
        if not near or ours[n] > sum(theirs[m] for m in near):
            return False
        graph.add_edges_from((("first", n), ("second", m)) for m in near)  # no limit
    value: int = nx.maximum_flow_value(graph, "source", "sink")
    return value == sum(ours)
