"""Distributions of whole-valued sums on a lattice, each number with a bound on its rounding.

The rarest outcomes decide W-infinity, so every probability needs its *relative* accuracy, however
small it is. Numbers here are only added and multiplied, and none is negative, so a number that was
rounded n times is off by a factor of at most (1 + EPS / 2)^n; no difference is ever taken. A
distribution is kept up to a factor, in one of two forms:

- plain floats, where the least likely path is still a normal float;
- blocks of 32 floats that share an exponent. A convolution goes pair of blocks by pair of blocks
  and skips what cannot matter to one part in 10^22, which is most of a long one. A number more than
  2^960 times smaller than the largest of its block is ``lost``, and the rows say so.

Both forms have the same operations, so what is computed with them is written once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import lcm, log, log2
from numbers import Rational
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from pufferkit.checks import Bools, Floats, Ints
from pufferkit.compiling import compiled_loop
from pufferkit.errors import NotApplicable
from pufferkit.influence.progress import Progress
from pufferkit.rounding import EPS, as_fraction, at_least, least_passing

BLOCK = 32
"""Numbers that share an exponent."""

NOTHING = -(2**30)
"""The exponent of a block of zeros."""

_NEAR = 60  # twos below the largest pair of blocks that a convolution looks at first
_NEGLIGIBLE = 74  # twos below a sum at which all terms left out together do not matter
_TINY = 2.0**-960  # smaller numbers of a block may have lost their accuracy
_FAR = 60  # twos by which two numbers that are compared may differ at most
_POWERS = 2.0 ** np.arange(-_FAR, _FAR + 1)
_PLAIN_NUMBERS, _PLAIN_PRODUCTS = 4e6, 1.2e9  # more are left to compiled loops, which skip most

RowPairs = Sequence[Sequence[tuple[int, int]]]
"""For each row of a result the rows, of a first and a second, that are convolved and added."""


def fits_floats(initial: Floats, transition: Floats, length: int, largest: int) -> bool:
    """Whether the distributions of a sum of values up to ``largest`` fit plain floats, in time."""
    states, room = len(initial), length * largest + 1
    if length * states * room > _PLAIN_NUMBERS or length * states * room**2 > _PLAIN_PRODUCTS:
        return False
    moves = log2(transition[transition > 0].min()) * (length - 1)
    return bool(log2(initial[initial > 0].min()) + moves >= log2(_TINY))


@dataclass(frozen=True, eq=False)
class Masses:
    """Several distributions of a sum, each up to a factor.

    Row n has ``numbers[n, s]`` at the sum s; with ``exponents``, times 2^exponents[n, s // BLOCK].
    ``lost`` says that some positive number underflowed beside its block, ``error`` bounds the
    relative error of every sum of numbers, where whoever made the rows has said so.
    """

    numbers: Floats
    exponents: Ints | None = None
    lost: bool = False
    error: float = 0.0

    @classmethod
    def points(cls, weights: Floats, places: Ints, *, plain: bool) -> Masses:
        """Row n is ``weights[n]`` at ``places[n]`` and zero elsewhere."""
        which = np.flatnonzero(weights > 0)
        at, room = places[which], int(places.max()) + 1
        rows = cls(np.zeros((len(weights), room))) if plain else cls._zeros(len(weights), room)
        if rows.exponents is None:
            rows.numbers[which, at] = weights[which]
        else:
            fractions, twos = np.frexp(weights[which])
            rows.numbers[which, at], rows.exponents[which, at // BLOCK] = 2 * fractions, twos - 1
        return rows

    @classmethod
    def _zeros(cls, count: int, room: int) -> Masses:
        blocks = max(1, -(-room // BLOCK))
        exponents = np.full((count, blocks), NOTHING, dtype=np.int64)
        return cls(np.zeros((count, blocks * BLOCK)), exponents)

    @property
    def room(self) -> int:
        """Numbers in each row."""
        return int(self.numbers.shape[1])

    @property
    def possible(self) -> Bools:
        """Which rows have any mass."""
        return np.asarray(self.numbers.any(axis=1))

    def chosen(self, which: Bools | Sequence[int]) -> Masses:
        """Some of the rows."""
        exponents = None if self.exponents is None else self.exponents[which]
        return replace(self, numbers=self.numbers[which], exponents=exponents)

    def mixed(self, weights: Floats) -> Masses:
        """Row m of the result is the sum over n of ``weights[m, n]`` times row n."""
        if self.exponents is None:
            return Masses(weights @ self.numbers)
        out = Masses._zeros(len(weights), self.room)
        lost = _mix.metered(self.numbers, self.exponents, weights, out.numbers, out.exponents)
        return replace(out, lost=self.lost or bool(lost))

    def shifted(self, places: Ints, room: int) -> Masses:
        """Row n with ``places[n]`` added to its sums, in rows of ``room``."""
        if self.exponents is not None:
            points = Masses.points(np.ones(len(places)), places, plain=False)
            each = [[(n, n)] for n in range(len(places))]
            return convolved(points, self, each, room)
        numbers = np.zeros((len(places), room))
        for n, place in enumerate(places):
            numbers[n, place : place + self.room] = self.numbers[n, : room - place]
        return Masses(numbers)

    def joined(self, other: Masses) -> Masses:
        """These rows and those of another, of the same room."""
        numbers = np.concatenate([self.numbers, other.numbers])
        if self.exponents is None or other.exponents is None:
            return Masses(numbers)
        exponents = np.concatenate([self.exponents, other.exponents])
        return Masses(numbers, exponents, self.lost or other.lost)

    def log_tails(self) -> tuple[Floats, Floats]:
        """Logarithms of P(S <= s) and of P(S > s), for each row and s, as shares of its mass.

        Both are sums of their own: by subtraction one of them would lose its accuracy.
        """
        lower, upper = (self._log_sums(backwards) for backwards in (False, True))
        whole = lower[:, -1:].copy()
        return lower - whole, upper - whole

    def _log_sums(self, backwards: bool) -> Floats:
        """Logarithms of sums up to and including s, or strictly above s."""
        with np.errstate(divide="ignore"):
            if self.exponents is None:
                if not backwards:
                    return np.log(np.cumsum(self.numbers, axis=1))
                above = np.zeros_like(self.numbers)
                above[:, :-1] = np.cumsum(self.numbers[:, :0:-1], axis=1)[:, ::-1]
                return np.log(above)
            sums, exponents = np.zeros_like(self.numbers), np.zeros(self.numbers.shape)
            for n, row in enumerate(self.numbers):
                _add_up.metered(row, self.exponents[n], backwards, sums[n], exponents[n])
            return np.log(sums) + exponents * log(2)


def convolved(first: Masses, second: Masses, pairs: RowPairs, room: int) -> Masses:
    """Row m is the sum, over its pairs (a, b), of row a of one convolved with row b of another."""
    if first.exponents is None or second.exponents is None:
        numbers = np.zeros((len(pairs), room))
        for row, terms in zip(numbers, pairs, strict=True):
            for a, b in terms:
                product = np.convolve(first.numbers[a], second.numbers[b])[:room]
                row[: len(product)] += product
        return Masses(numbers)
    blocks = max(1, -(-room // BLOCK))
    numbers = np.empty((len(pairs), blocks * BLOCK))
    exponents = np.empty((len(pairs), blocks), dtype=np.int64)
    lost = _convolve_all.metered(
        first.numbers,
        first.exponents,
        second.numbers,
        second.exponents,
        np.array([pair for terms in pairs for pair in terms], dtype=np.int64).reshape(-1, 2),
        np.cumsum([0, *map(len, pairs)]),
        numbers,
        exponents,
    )
    return Masses(numbers, exponents, first.lost or second.lost or bool(lost))


def within(rows: Masses, most: int) -> bool:
    """Whether single probabilities show, quickly, that no two rows are further apart than ``most``.

    ``False`` may also mean that only tails can tell.
    """
    if rows.exponents is None or most == 0:
        return False
    tops = rows.exponents.max(axis=1)
    sums = rows.numbers.reshape(len(tops), -1, BLOCK).sum(axis=2)
    shares = np.ldexp(sums, np.maximum(rows.exponents - tops[:, None], -2000)).sum(axis=1)
    if np.ptp(tops) > _NEAR:  # a product with one so rare might underflow
        return False
    ratios = np.ldexp(shares[:, None] / shares, tops[:, None] - tops)
    return bool(_all_cross_once.metered(rows.numbers, rows.exponents, ratios, most, rows.error))


@compiled_loop
def _normalise(mantissa, exponent, block):  # type: ignore[no-untyped-def]
    """Bring the largest number of one block into [1, 2)."""
    start = block * BLOCK
    largest = 0.0
    for j in range(start, start + BLOCK):
        largest = max(largest, mantissa[j])
    if largest == 0.0:
        exponent[block] = NOTHING
        return
    shift = math.frexp(largest)[1] - 1
    if shift != 0:
        # In two parts: neither leaves the range of floats.
        half = shift // 2
        one, other = math.ldexp(1.0, -half), math.ldexp(1.0, half - shift)
        for j in range(start, start + BLOCK):
            mantissa[j] = mantissa[j] * one * other
        exponent[block] += shift


@compiled_loop
def _mix(mantissas, exponents, weights, out_mantissas, out_exponents):  # type: ignore[no-untyped-def]
    """Fill in the weighted sums; whether some number underflowed."""
    lost = False
    for m in range(weights.shape[0]):
        for block in range(exponents.shape[1]):
            top = NOTHING
            for n in range(weights.shape[1]):
                if weights[m, n] > 0.0:
                    top = max(top, exponents[n, block])
            if top == NOTHING:
                continue
            out_exponents[m, block] = top
            for n in range(weights.shape[1]):
                shift = exponents[n, block] - top
                if weights[m, n] > 0.0 and shift > -1060:
                    scale = np.ldexp(weights[m, n], shift)
                    for j in range(block * BLOCK, (block + 1) * BLOCK):
                        out_mantissas[m, j] += scale * mantissas[n, j]
            for j in range(block * BLOCK, (block + 1) * BLOCK):
                if out_mantissas[m, j] < _TINY:
                    for n in range(weights.shape[1]):
                        lost |= weights[m, n] > 0.0 and mantissas[n, j] > 0.0
            _normalise(out_mantissas[m], out_exponents[m], block)
    return lost


@compiled_loop
def _convolve_all(  # type: ignore[no-untyped-def]
    first, first_exp, second, second_exp, pairs, bounds, out, out_exp
):
    """Fill in a row for each part of the pairs; whether some number underflowed."""
    lost = False
    for m in range(len(out)):
        chosen = pairs[bounds[m] : bounds[m + 1]]
        lost |= _convolve(first, first_exp, second, second_exp, chosen, out[m], out_exp[m])
    return lost


@compiled_loop
def _convolve(  # type: ignore[no-untyped-def]  # noqa: PLR0912
    first, first_exp, second, second_exp, pairs, out, out_exp
):
    """Fill in the sum of the convolutions of some pairs; whether some number underflowed."""
    lost = False
    blocks_a, blocks_b = first_exp.shape[1], second_exp.shape[1]
    sums, both = np.empty(BLOCK), np.empty(2 * BLOCK)
    # All pairs that are left out together add at most their number times BLOCK times 4.
    below = _NEGLIGIBLE + math.frexp(8.0 * BLOCK * len(pairs) * (blocks_a + 1))[1]
    for block in range(len(out_exp)):
        start = block * BLOCK
        # Blocks p and q reach into this one if q = block - p - 1 or q = block - p.
        top, bottom = NOTHING, -NOTHING
        for j in range(len(pairs)):
            a, b = pairs[j, 0], pairs[j, 1]
            for p in range(max(0, block - blocks_b), min(blocks_a, block + 1)):
                for q in (block - p - 1, block - p):
                    if 0 <= q < blocks_b and first_exp[a, p] > NOTHING < second_exp[b, q]:
                        size = first_exp[a, p] + second_exp[b, q]
                        top, bottom = max(top, size), min(bottom, size)
        out_exp[block] = top
        if top == NOTHING:
            out[start : start + BLOCK] = 0.0
            continue
        # First the pairs near the top; what they give says how far down to look after that.
        high, low = 2**30, top - _NEAR
        sums[:] = 0.0
        for _ in range(2):
            for j in range(len(pairs)):
                a, b = pairs[j, 0], pairs[j, 1]
                for p in range(max(0, block - blocks_b), min(blocks_a, block + 1)):
                    if first_exp[a, p] > NOTHING and _gathered(
                        second[b],
                        second_exp[b],
                        block - p - 1,
                        first_exp[a, p] - top,
                        low - top,
                        high - top,
                        both,
                    ):
                        _add_products(first[a, p * BLOCK : (p + 1) * BLOCK], both, sums)
            least = np.inf
            for j in range(BLOCK):
                least = min(least, sums[j])
            high = low
            low = top + math.frexp(least)[1] - 1 - below if least > 0.0 else -(2**29)
            if low >= high or bottom >= high:
                break
        out[start : start + BLOCK] = sums
        for j in range(start, start + BLOCK):
            if least < _TINY and out[j] < _TINY and not lost:
                lost = _reached(first, first_exp, second, pairs, j)
        _normalise(out, out_exp, block)
    return lost


@compiled_loop
def _gathered(vector, exponents, block, exponent, low, high, both):  # type: ignore[no-untyped-def]
    """Two blocks in a row with one exponent; zeros for what is not from ``low`` up to ``high``."""
    some = False
    for side in range(2):
        place = block + side
        size = exponents[place] + exponent if 0 <= place < len(exponents) else 0
        known = 0 <= place < len(exponents) and exponents[place] > NOTHING
        if known and low <= size < high:
            scale = math.ldexp(1.0, int(max(size, -1060)))
            for j in range(BLOCK):
                both[side * BLOCK + j] = vector[place * BLOCK + j] * scale
            some = True
        else:
            for j in range(BLOCK):
                both[side * BLOCK + j] = 0.0
    return some


@compiled_loop
def _add_products(weights, both, sums):  # type: ignore[no-untyped-def]
    """Add to ``sums[k]`` the sum over i of ``weights[i] both[BLOCK + k - i]``."""
    for i in range(0, BLOCK, 4):
        one, two, three, four = weights[i], weights[i + 1], weights[i + 2], weights[i + 3]
        if one + two + three + four > 0.0:
            at = BLOCK - i
            for k in range(BLOCK):
                sums[k] += (one * both[at + k] + two * both[at + k - 1]) + (
                    three * both[at + k - 2] + four * both[at + k - 3]
                )


@compiled_loop
def _reached(first, first_exp, second, pairs, j):  # type: ignore[no-untyped-def]
    """Whether some pair has positive numbers whose places add up to j."""
    for n in range(len(pairs)):
        a, b = pairs[n, 0], pairs[n, 1]
        for p in range(first_exp.shape[1]):
            if first_exp[a, p] == NOTHING:
                continue
            for i in range(max(p * BLOCK, j + 1 - second.shape[1]), min((p + 1) * BLOCK, j + 1)):
                if first[a, i] > 0.0 and second[b, j - i] > 0.0:
                    return True
    return False


@compiled_loop
def _add_up(mantissas, exponents, backwards, sums, sum_exponents):  # type: ignore[no-untyped-def]
    """Fill in sums with an exponent each: up to and including j, or strictly above j."""
    size, total, exponent = len(mantissas), 0.0, 0
    block, scale = -1, 0.0
    for step in range(size):
        j = size - 1 - step if backwards else step
        if backwards:
            sums[j], sum_exponents[j] = total, exponent
        if mantissas[j] > 0.0:
            if j // BLOCK != block:
                block = j // BLOCK
                apart = exponents[block] - exponent
                if total == 0.0 or apart > 0:
                    # The sum is counted in the unit of the largest block so far.
                    if total > 0.0:
                        total *= math.ldexp(1.0, int(max(-apart, -1060)))
                    exponent, apart = exponents[block], 0
                scale = math.ldexp(1.0, int(max(apart, -1060)))
            total += mantissas[j] * scale
            fraction, twos = math.frexp(total)
            if twos != 1:
                total, exponent = 2.0 * fraction, exponent + twos - 1
                if twos < -1000:
                    block = -1  # too small for a factor: what follows is the larger unit
                else:
                    scale = math.ldexp(scale, 1 - twos)
        if not backwards:
            sums[j], sum_exponents[j] = total, exponent


@compiled_loop
def _all_cross_once(numbers, exponents, ratios, shift, error):  # type: ignore[no-untyped-def]
    """Whether `_crosses_once` holds for all pairs of rows."""
    for a in range(len(numbers)):
        for b in range(len(numbers)):
            if a != b and not _crosses_once(
                numbers[a], exponents[a], numbers[b], exponents[b], ratios[a, b], shift, error
            ):
                return False
    return True


@compiled_loop
def _crosses_once(first, first_exp, second, second_exp, ratio, shift, error):  # type: ignore[no-untyped-def]
    """Whether F_a(t) <= F_b(t + shift) for all t follows from comparing single probabilities.

    a is ``first`` and b is ``ratio`` times ``second``, up to one factor. This holds if up to some
    place s no a(s) is above b(s + shift), and beyond no b(s + shift) is above a(s): lower tails
    are compared term by term before the place, upper tails beyond it. ``False`` may mean that
    there is no such place, or that rounding leaves it open.
    """
    beyond = False
    for s in range(min(0, -shift), max(len(first), len(second) - shift)):
        a, b, apart = 0.0, 0.0, 0
        if 0 <= s < len(first):
            a, apart = first[s], -first_exp[s // BLOCK]
        if 0 <= s + shift < len(second):
            b = ratio * second[s + shift]
            apart += second_exp[(s + shift) // BLOCK]
        if a == 0.0 and b == 0.0:
            continue
        if a > 0.0 and b > 0.0:
            if -_FAR <= apart <= _FAR:
                b *= _POWERS[apart + _FAR]
            else:
                (a, twos), (b, more) = math.frexp(a), math.frexp(b)
                b = math.ldexp(b, int(min(max(more + apart - twos, -_FAR), _FAR)))
        if not beyond:
            beyond = a * (1.0 + error) > b * (1.0 - error)
        if beyond and b * (1.0 + error) > a * (1.0 - error):
            return False
    return True


def expect(seconds: float) -> None:
    """Compile the loops at once if they would run for so many seconds as plain Python."""
    _convolve_all.expect(seconds)


def wait(seconds: float) -> float:
    """How many seconds the loops would wait for a compiler, if they took so many without."""
    return float(_convolve_all.wait(seconds))


# --- the infinity-Wasserstein distance between distributions, of numbers and of vectors ---------
#
# W(mu, nu) is the least d such that mass can be moved from mu to nu with no part of it going
# further than d. On the line, moving the lowest mass to the lowest is best, so W is the largest
# gap between the two values at equal heights of the distribution functions. The rarest outcomes
# decide, and so do ties between sums of probabilities: a cumulative sum that is off by one
# rounding can pair the wrong values. So they are summed in whole numbers (`exact_distance`), or
# in floats with a bound on their rounding, where a tie that stays open counts as the larger
# distance (`farthest`).
#
# For vectors the distance is in L1. Whether all mass can move along pairs of values at most d
# apart is a flow; masses are whole numbers, so it is exact, and the least d at which it passes is
# one of the distances between two values (`bottleneck_distance`).

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
    values = [value if isinstance(value, tuple) else (value,) for value in [*mu, *nu]]
    vectors = any(isinstance(value, tuple) for value in [*mu, *nu])
    if vectors and len({isinstance(value, tuple) and len(value) for value in [*mu, *nu]}) > 1:
        raise ValueError("mu, nu: values must be all numbers, or tuples of equally many numbers")
    distance: Callable[..., Fraction] = bottleneck_distance if vectors else exact_distance
    furthest = distance(_distribution("mu", mu), _distribution("nu", nu))
    exact = all(isinstance(number, Rational) for value in values for number in value)
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


def farthest(rows: Masses, least: int) -> tuple[int, bool]:
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
    rows
        Distributions up to a factor, those without mass left out.
    least
        Where the search begins.

    Returns
    -------
    tuple
        The distance, and whether rounding left open that it is smaller.
    """
    if len(rows.numbers) < 2 or within(rows, least):
        return least, False
    low, up = rows.log_tails()
    size = rows.room
    known = np.concatenate([low[low > -np.inf], up[up > -np.inf]])
    slack = 2 * rows.error + 8 * EPS * float(np.abs(known).max(initial=0.0))
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


@dataclass(frozen=True)
class Distance:
    """The largest W-infinity over places and pairs of secrets there, and the place.

    ``unsure`` says that rounding could not decide a comparison, so that the true distance may be
    smaller; ``lost`` that the probability of some sum underflows, so that it may be larger. ``how``
    is a remark on what decided.
    """

    value: int
    place: int
    unsure: bool = False
    lost: bool = False
    how: str = ""


@dataclass(frozen=True, eq=False)
class SumTables:
    """The joint distributions of a sum and each secret about some places, under one belief.

    Attributes
    ----------
    each
        Makes them: a place and a row for each of its secrets, place by place.
    count
        The number of places.
    work
        Approximate nanoseconds to make and compare them.
    exactly
        The distance in whole numbers; ``None`` if that takes too long.
    floats
        Whether floats can hold the rows. If not, making them raises `NotApplicable`.
    """

    each: Callable[[], Iterable[tuple[int, Masses]]]
    count: int = 1
    work: float = 0.0
    exactly: Callable[[], Distance | None] = lambda: None
    floats: bool = True

    def in_floats(self, progress: Progress | None = None) -> Distance:
        """The largest distance between two secrets of a place, never too small."""
        best = Distance(0, 0)
        for done, (place, rows) in enumerate(self.each(), 1):
            value, unsure = farthest(rows.chosen(rows.possible), best.value)
            lost = best.lost or rows.lost
            if value > best.value or done == 1:
                best = Distance(value, place, unsure)
            best = replace(best, lost=lost)
            if progress is not None:
                progress(done, self.count)
        return best

    def distance(self, progress: Progress | None = None) -> Distance:
        """The same, decided by whole numbers where floats leave it open and that is quick enough.

        Raises
        ------
        NotApplicable
            If the probability of some sum underflows.
        """
        best = self.in_floats(progress) if self.floats else None
        if best is None or best.unsure or best.lost:
            exact = self.exactly()
            if exact is not None:
                return exact
        best = best or self.in_floats(progress)
        if best.lost:
            raise NotApplicable(
                "the probability of some sums underflows, and the least likely decide the "
                "distance; use influence_curve, a shorter series, or beliefs without transitions "
                "of tiny probability"
            )
        return best


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
