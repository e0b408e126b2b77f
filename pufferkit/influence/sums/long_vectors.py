"""Long vectors of positive numbers that neither overflow nor underflow.

Numbers are kept in blocks; the numbers of a block share an exponent. Only sums and products of
non-negative numbers are taken, so every number keeps its *relative* accuracy, however small it is.
Convolutions go pair of blocks by pair of blocks, and pairs that cannot matter to one part in 10^22
are skipped, which is most of them for long distributions. A number more than 2^960 times
smaller than the largest of its block cannot be represented; then the vectors are marked
``lost``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pufferkit.checks import Floats, Ints
from pufferkit.compiling import compiled_loop

BLOCK = 32
"""Numbers that share an exponent."""

NOTHING = -(2**30)
"""The exponent of a block of zeros."""

_NEAR = 60
_NEGLIGIBLE = 74
_TINY = 2.0**-960
_FAR = 60
_POWERS = 2.0 ** np.arange(-_FAR, _FAR + 1)


@dataclass(frozen=True, eq=False)
class Blocks:
    """Several vectors of one length: ``mantissas[n, j] * 2^exponents[n, j // BLOCK]``.

    ``lost`` says that some positive number underflowed relative to its block.
    """

    mantissas: Floats
    exponents: Ints
    lost: bool = False

    @classmethod
    def zeros(cls, count: int, length: int) -> Blocks:
        """Room for ``count`` vectors of at least ``length`` numbers."""
        blocks = max(1, -(-length // BLOCK))
        return cls(
            np.zeros((count, blocks * BLOCK)), np.full((count, blocks), NOTHING, dtype=np.int64)
        )

    @classmethod
    def units(cls, weights: Floats, places: Ints) -> Blocks:
        """Vector n is ``weights[n]`` at ``places[n]`` and zero elsewhere."""
        made = cls.zeros(len(weights), int(places.max()) + 1)
        for n, (weight, place) in enumerate(zip(weights, places, strict=True)):
            if weight > 0:
                made.mantissas[n, place] = weight
                made.exponents[n, place // BLOCK] = 0
                _normalise.metered(made.mantissas[n], made.exponents[n], place // BLOCK)
        return made

    @property
    def length(self) -> int:
        """Numbers in each vector, rounded up to whole blocks."""
        return int(self.mantissas.shape[1])

    def mixed(self, weights: Floats) -> Blocks:
        """Vector m of the result is the sum over n of ``weights[m, n]`` times vector n."""
        out = Blocks.zeros(len(weights), self.length)
        lost = _mix.metered(self.mantissas, self.exponents, weights, out.mantissas, out.exponents)
        return replace(out, lost=self.lost or bool(lost))


def convolved(first: Blocks, second: Blocks, pairs: NDArray[np.int64], length: int) -> Blocks:
    """Vector m is the sum over j of vector ``pairs[m, j, 0]`` convolved with ``pairs[m, j, 1]``."""
    blocks = max(1, -(-length // BLOCK))
    mantissas = np.empty((len(pairs), blocks * BLOCK))
    exponents = np.empty((len(pairs), blocks), dtype=np.int64)
    lost = first.lost or second.lost
    for m, chosen in enumerate(pairs):
        lost |= bool(
            _convolve.metered(
                first.mantissas,
                first.exponents,
                second.mantissas,
                second.exponents,
                chosen,
                mantissas[m],
                exponents[m],
            )
        )
    return Blocks(mantissas, exponents, lost)


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


def running_sums(distribution: Floats, exponents: Ints, backwards: bool) -> tuple[Floats, Ints]:
    """Sums with an exponent each: up to and including j, or strictly above j."""
    size = len(distribution)
    sums: tuple[Floats, Ints] = placed_sums.metered(
        distribution, exponents, backwards, 1.0, 0, size
    )
    return sums


@compiled_loop
def placed_sums(distribution, exponents, backwards, weight, shift, size):  # type: ignore[no-untyped-def]
    """Sums with an exponent each: up to and including j, or strictly above j.

    Of the numbers times ``weight``, ``shift`` places further up, in a vector of ``size``.
    """
    sums, sum_exps = np.zeros(size), np.zeros(size, dtype=np.int64)
    total, exponent = 0.0, 0
    block, scale = -1, 0.0
    for step in range(size):
        j = size - 1 - step if backwards else step
        if backwards:
            sums[j], sum_exps[j] = total, exponent
        place = j - shift
        if 0 <= place < len(distribution) and distribution[place] > 0.0:
            if total == 0.0:
                fraction, twos = math.frexp(distribution[place])
                more, further = math.frexp(fraction * weight)
                total, exponent = 2.0 * more, exponents[place // BLOCK] + twos + further - 1
                block = -1
            else:
                if place // BLOCK != block:
                    block = place // BLOCK
                    apart = exponents[block] - exponent
                    if apart > 0:
                        # Never above the largest: the sum is counted in the unit of this block.
                        total *= math.ldexp(1.0, int(max(-apart, -1060)))
                        exponent, apart = exponents[block], 0
                    scale = math.ldexp(1.0, int(max(apart, -1060))) * weight
                total += distribution[place] * scale
                if not 1.0 <= total < 2.0:
                    fraction, twos = math.frexp(total)
                    total, exponent = 2.0 * fraction, exponent + twos - 1
                    scale = math.ldexp(scale, 1 - twos)
        if not backwards:
            sums[j], sum_exps[j] = total, exponent
    return sums, sum_exps


@compiled_loop
def _compare(a, a_exp, b, b_exp, error):  # type: ignore[no-untyped-def]
    """1 if certainly a <= b, -1 if certainly a > b, 0 if rounding leaves it undecided."""
    if a == 0.0:
        return 1
    if b == 0.0 or b_exp - a_exp < -8:
        return -1
    if b_exp - a_exp > 8:
        return 1
    scaled = b * _POWERS[b_exp - a_exp + _FAR]
    if a * (1.0 + error) <= scaled * (1.0 - error):
        return 1
    if a * (1.0 - error) > scaled * (1.0 + error):
        return -1
    return 0


@compiled_loop
def least_shift(  # type: ignore[no-untyped-def]
    lower_a,
    lower_a_exp,
    upper_a,
    upper_a_exp,
    lower_b,
    lower_b_exp,
    upper_b,
    upper_b_exp,
    start,
    error,
):
    """Least d >= start with F_a(t) <= F_b(t + d) for all t, and whether rounding left it open.

    Lower tails are compared by sums from below, upper tails by sums from above; either may decide.
    Where neither does, the shift grows, so the distance is never too small.
    """
    size, d, unsure = len(lower_a), start, False
    for t in range(size):
        if lower_a[t] == 0.0:
            continue
        while t + d < size and upper_b[t + d] > 0.0:
            verdict = _compare(
                lower_a[t], lower_a_exp[t], lower_b[t + d], lower_b_exp[t + d], error
            )
            if verdict == 0:
                verdict = _compare(
                    upper_b[t + d], upper_b_exp[t + d], upper_a[t], upper_a_exp[t], error
                )
            if verdict == 1:
                break
            if verdict == 0:
                unsure = True
            d += 1
        if t + d >= size:
            break
    return d, unsure


@compiled_loop
def within(first, first_exp, second, second_exp, ratio, shift, error):  # type: ignore[no-untyped-def]
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
