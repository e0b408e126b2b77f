"""How far one entry of a chain moves a sum: W-infinity for all entries at once.

The sum is v(X_1) + ... + v(X_T) with whole non-negative values v. Its distribution given X_i = a is
needed for every i and a. Write the chain as a product of matrices of polynomials, P(x, y) z^{v(y)};
the distribution given X_i = a is then the product around node i. Two methods compute it for all i:

- *halving*: the product around the left half of a stretch is the product around the stretch times
  that of its right half. T^2 log T products of numbers for each of k^3 triples of states.
- *sides*: the distributions of the sums before and after node i by recursion, then one convolution
  for each node and state: k T^3 / 6.

The cheaper one is used. Both only add and multiply non-negative numbers. Short series need neither
exponents nor compiled loops (`pufferkit.influence.sums.short_sums`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice, permutations

import numpy as np
from numpy.typing import NDArray

from pufferkit.checks import Floats, Ints
from pufferkit.errors import NotApplicable
from pufferkit.influence.progress import Progress
from pufferkit.influence.sums.long_vectors import (
    Blocks,
    convolved,
    least_shift,
    placed_sums,
    within,
)
from pufferkit.influence.sums.short_sums import farthest, fits_floats, sums_given
from pufferkit.influence.sums.sum_work import by_halving, sum_bytes, sum_work
from pufferkit.rounding import EPS

MOST_BYTES = 8 * 10**9
"""Largest table of distributions, in bytes."""

_LEAST = 2.0**-960
_RARE = 2.0**-40
_PLAIN = 50.0
"""So many times as long as compiled loops take those that run as plain Python."""


@dataclass(frozen=True)
class EntryDistance:
    """The largest W-infinity over nodes and pairs of states, and where it is.

    ``unsure`` says that rounding could not decide a comparison, so that the true distance may be
    smaller; ``lost`` that the probability of some sum underflows, so that it may be larger.
    """

    value: int
    node: int
    unsure: bool
    lost: bool = False


def largest_distance(
    distributions: Sequence[Floats],
    transition: Floats,
    values: Ints,
    *,
    mirrored: bool = False,
    progress: Progress | None = None,
) -> EntryDistance:
    """Largest W-infinity of the sum over nodes and pairs of values of a node.

    Parameters
    ----------
    distributions
        The distribution of X_i for every node; impossible states have probability exactly 0.
    transition, values
        The matrix, and the whole non-negative value of each state.
    mirrored
        Whether node i and node T + 1 - i are alike, so that half of them suffice.
    progress
        Called with the number of nodes done and their total.
    """
    length, size = len(distributions), len(values)
    last = (length + 1) // 2 if mirrored else length
    best = EntryDistance(0, 1, False)
    # Each number undergoes at most about this many roundings.
    error = 4 * EPS * (length * (size + 2) + length * int(values.max()) + 200)
    if fits_floats(distributions[0], transition, length, int(values.max())):
        given = sums_given(distributions[0], transition, values.tolist(), length)
        for node, each in enumerate(islice(given, last), 1):
            value, unsure = farthest(each, best.value, error)
            if value > best.value:
                best = EntryDistance(value, node, unsure)
            if progress is not None:
                progress(node, last)
        return best
    lost = _underflow(distributions, transition)
    within.expect(_PLAIN * 1e-9 * sum_work(length, size, int(values.max())))
    for node, around in _around(distributions[0], transition, values, length, last):
        best = _at_node(node, around, distributions[node - 1], values, error, best)
        lost |= around.lost
        if progress is not None:
            progress(node, last)
    return replace(best, lost=lost)


def plain_wait(work: float) -> float:
    """Nanoseconds that work of so many waits for a compiler, or for plain Python."""
    return 1e9 * float(within.wait(_PLAIN * 1e-9 * work))


def _underflow(distributions: Sequence[Floats], transition: Floats) -> bool:
    """Whether the probability of a possible state underflows, or nearly so."""
    possible = distributions[0] > 0
    for distribution in distributions:
        if (distribution[possible] < _LEAST).any():
            return True
        possible = possible @ (transition > 0)
    return False


def check_memory(length: int, size: int, largest: int) -> None:
    """Refuse a computation that needs too much memory, before it is started.

    ``size`` is the number of states, ``largest`` the largest value, of any size.
    """
    needed = sum_bytes(length, size, largest)
    if needed > MOST_BYTES:
        gigabytes, steps = (float(min(n, 10**300)) for n in (needed // 10**9, largest))
        raise NotApplicable(
            f"its distributions need about {gigabytes:.2g} GB for {length:,} entries: in multiples "
            f"of their greatest common divisor, the values differ by {steps:.2g}; use "
            "rounder values, such as 0.25 or Fraction(1, 3), a shorter series, or influence_curve"
        )


def _at_node(
    node: int, around: Blocks, distribution: Floats, values: Ints, error: float, best: EntryDistance
) -> EntryDistance:
    possible = np.flatnonzero(distribution > 0)
    if best.value and _all_within(possible, around, distribution, values, error, best.value):
        return best
    size, tails = around.length + int(values.max()), []
    for x in possible:
        given = around.mantissas[x], around.exponents[x]
        placed = 1.0 / distribution[x], values[x], size
        lower, upper = (placed_sums.metered(*given, up, *placed) for up in (False, True))
        tails.append((*lower, *upper))
    for n, one in enumerate(tails):
        for other in tails[n + 1 :]:
            for first, second in ((one, other), (other, one)):
                d, unsure = least_shift.metered(*first, *second, best.value, error)
                if d > best.value:
                    best = EntryDistance(int(d), node, bool(unsure))
    return best


def _all_within(
    possible: NDArray[np.intp],
    around: Blocks,
    distribution: Floats,
    values: Ints,
    error: float,
    most: int,
) -> bool:
    """Whether a quick test shows that no two values of a node are further apart than ``most``."""
    chances = distribution[possible]
    if chances.min() < _RARE:
        return False  # products with a state this rare may underflow
    return all(
        within.metered(
            around.mantissas[x],
            around.exponents[x],
            around.mantissas[y],
            around.exponents[y],
            distribution[x] / distribution[y],
            most + int(values[x] - values[y]),
            error,
        )
        for x, y in permutations(possible.tolist(), 2)
    )


def _around(
    initial: Floats, transition: Floats, values: Ints, length: int, last: int
) -> Iterator[tuple[int, Blocks]]:
    """For nodes 1 ... last, the joint distributions of (X_i = x, sum of all other values)."""
    way = _halving if by_halving(length, len(values)) else _by_sides
    yield from way(initial, transition, values, length, last)


def _halving(
    initial: Floats, transition: Floats, values: Ints, length: int, last: int
) -> Iterator[tuple[int, Blocks]]:
    size = len(values)
    triples = [(x, y, z) for x in range(size) for y in range(size) for z in range(size)]
    # Rows of pairs of states are numbered x * k + y; row (x, y) of a product sums over z.
    through = _grouped([(x * size + z, z * size + y) for x, y, z in triples], size)
    leftwards = _grouped([(y * size + z, x * size + z) for x, y, z in triples], size)
    diagonal = np.arange(size) * (size + 1)  # all that a single node needs
    rightwards = _grouped([(z * size + x, z * size + y) for x, y, z in triples], size)

    @cache
    def paths(count: int) -> Blocks:
        """Paths through ``count`` nodes from x to y, by the sum of their values."""
        if count == 1:
            return Blocks.units(np.eye(size).ravel(), np.repeat(values, size))
        half = count // 2
        second = paths(count - half)
        return convolved(then(half), second, through, count * int(values.max()) + 1)

    @cache
    def then(count: int) -> Blocks:
        """The same with one transition after the last node."""
        return paths(count).mixed(np.kron(np.eye(size), transition.T).astype(np.float64))

    @cache
    def ahead(count: int) -> Blocks:
        """The same with one transition before the first node."""
        return paths(count).mixed(np.kron(transition, np.eye(size)).astype(np.float64))

    def descend(first: int, count: int, around: Blocks) -> Iterator[tuple[int, Blocks]]:
        if first > last:
            return
        if count == 1:
            yield first, around
            return
        half = count // 2
        # around_left[x, m] = sum over y of around[x, y] * (P right)[m, y]
        rows = slice(None) if half > 1 else diagonal
        left = convolved(ahead(count - half), around, leftwards[rows], outside(half))
        yield from descend(first, half, left)
        # around_right[n, y] = sum over x of around[x, y] * (left P)[x, n]
        rows = slice(None) if count - half > 1 else diagonal
        right = convolved(then(half), around, rightwards[rows], outside(count - half))
        yield from descend(first + half, count - half, right)

    def outside(count: int) -> int:
        """Numbers in the distribution of the sum of all nodes but ``count``."""
        return (length - count) * int(values.max()) + 1

    if length == 1:
        yield 1, Blocks.units(initial, np.zeros(size, dtype=np.int64))
        return
    root = Blocks.units(np.repeat(initial, size), np.zeros(size * size, dtype=np.int64))
    yield from descend(1, length, root)


def _grouped(rows: list[tuple[int, int]], size: int) -> Ints:
    """Pairs to convolve and add, ``size`` of them for each row of the result."""
    return np.array(rows, dtype=np.int64).reshape(size * size, size, 2)


def _by_sides(
    initial: Floats, transition: Floats, values: Ints, length: int, last: int
) -> Iterator[tuple[int, Blocks]]:
    size = len(values)
    points = Blocks.units(np.ones(size), values)
    nowhere = np.zeros(size, dtype=np.int64)
    each = np.array([[[x, x]] for x in range(size)])

    def extended(side: Blocks, kernel: Floats, nodes: int) -> Blocks:
        """Row y is the sum over x of kernel[y, x] times (row x shifted by v(x))."""
        return convolved(points, side, each, nodes * most + 1).mixed(kernel)

    most, after = int(values.max()), [Blocks.units(np.ones(size), nowhere)]
    for nodes in range(1, length):
        after.append(extended(after[-1], transition, nodes))
    # Jointly with X_i, not given it: a product of two probabilities may underflow.
    before = Blocks.units(initial, nowhere)
    for node in range(1, last + 1):
        if node > 1:
            before = extended(before, transition.T, node - 1)
        yield node, convolved(before, after.pop(), each, (length - 1) * most + 1)
