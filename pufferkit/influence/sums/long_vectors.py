"""Long vectors of positive numbers that neither overflow nor underflow.

Numbers are kept in blocks; the numbers of a block share an exponent. Only sums and products of
non-negative numbers are taken, so every number keeps its *relative* accuracy, however small it is.
Convolutions go pair of blocks by pair of blocks, and pairs that cannot matter to one part in 10^22
are passed over, which is most of them for long distributions. A number more than 2^960 times
smaller than the largest of its block does not fit beside it; then the vectors say that they are
``lost``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pufferkit.checks import Floats
from pufferkit.compiling import compiled_loop

BLOCK = 32
"""Numbers that share an exponent."""

NOTHING = -(2**30)
"""The exponent of a block of zeros."""

_NEAR = 60
_NEGLIGIBLE = -74.0
_TINY = 2.0**-960

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Blocks:
    """Several vectors of one length: ``mantissas[n, j] * 2^exponents[n, j // BLOCK]``.

    ``lost`` says that some positive number was too small beside its neighbours to be kept.
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
                _normalise(made.mantissas[n], made.exponents[n], place // BLOCK)
        return made

    @property
    def length(self) -> int:
        """Numbers in each vector, rounded up to whole blocks."""
        return int(self.mantissas.shape[1])

    def mixed(self, weights: Floats) -> Blocks:
        """Vector m of the result is the sum over n of ``weights[m, n]`` times vector n."""
        out = Blocks.zeros(len(weights), self.length)
        lost = _mix(self.mantissas, self.exponents, weights, out.mantissas, out.exponents)
        return replace(out, lost=self.lost or bool(lost))


def convolved(first: Blocks, second: Blocks, pairs: NDArray[np.int64], length: int) -> Blocks:
    """Vector m is the sum over j of vector ``pairs[m, j, 0]`` convolved with ``pairs[m, j, 1]``."""
    out = Blocks.zeros(len(pairs), length)
    lost = first.lost or second.lost
    for m, chosen in enumerate(pairs):
        lost |= bool(
            _convolve(
                first.mantissas,
                first.exponents,
                second.mantissas,
                second.exponents,
                chosen,
                out.mantissas[m],
                out.exponents[m],
            )
        )
    return replace(out, lost=lost)


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
    shift = int(np.floor(np.log2(largest)))
    if shift != 0:
        for j in range(start, start + BLOCK):
            mantissa[j] = np.ldexp(mantissa[j], -shift)
        exponent[block] += shift


@compiled_loop
def _mix(mantissas, exponents, weights, out_mantissas, out_exponents):  # type: ignore[no-untyped-def]
    """Fill in the weighted sums; whether some number got lost."""
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
    """Fill in the sum of the convolutions of some pairs; whether some number got lost."""
    lost = False
    blocks_a, blocks_b = first_exp.shape[1], second_exp.shape[1]
    for block in range(len(out_exp)):
        start = block * BLOCK
        # Blocks p and q reach into this one if q = block - p - 1 or q = block - p.
        top = NOTHING
        for j in range(len(pairs)):
            a, b = pairs[j, 0], pairs[j, 1]
            for p in range(max(0, block - blocks_b), min(blocks_a, block + 1)):
                for q in (block - p - 1, block - p):
                    if 0 <= q < blocks_b and first_exp[a, p] > NOTHING < second_exp[b, q]:
                        top = max(top, first_exp[a, p] + second_exp[b, q])
        if top == NOTHING:
            continue
        out_exp[block] = top
        # First the pairs near the top; what they give says how far down to look after that.
        high, low = 2**30, top - _NEAR
        for _ in range(2):
            for j in range(len(pairs)):
                a, b = pairs[j, 0], pairs[j, 1]
                for p in range(max(0, block - blocks_b), min(blocks_a, block + 1)):
                    for q in (block - p - 1, block - p):
                        if not (0 <= q < blocks_b and first_exp[a, p] > NOTHING < second_exp[b, q]):
                            continue
                        size = first_exp[a, p] + second_exp[b, q]
                        if size < low or size >= high:
                            continue
                        scale = np.ldexp(1.0, max(size - top, -1060))
                        for i in range(p * BLOCK, (p + 1) * BLOCK):
                            weight = first[a, i] * scale
                            if weight > 0.0:
                                lowest = max(start - i, q * BLOCK)
                                beyond = min(start + BLOCK - i, (q + 1) * BLOCK)
                                for k in range(lowest, beyond):
                                    out[i + k] += weight * second[b, k]
            least = np.inf
            for j in range(start, start + BLOCK):
                least = min(least, out[j])
            high = low
            if least > 0.0:
                # All pairs left together add at most their number times BLOCK times 4.
                number = 8.0 * BLOCK * len(pairs) * (blocks_a + 1)
                low = top + int(np.floor(np.log2(least) + _NEGLIGIBLE - np.log2(number)))
            else:
                low = -(2**29)
            if low >= high:
                break
        for j in range(start, start + BLOCK):
            if out[j] < _TINY and not lost:
                lost = _reached(first, first_exp, second, pairs, j)
        _normalise(out, out_exp, block)
    return lost


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
def running_sums(distribution, exponents, backwards):  # type: ignore[no-untyped-def]
    """Sums with an exponent each: up to and including j, or strictly above j."""
    size = len(distribution)
    sums, sum_exps = np.zeros(size), np.zeros(size, dtype=np.int64)
    total, exponent = 0.0, 0
    for step in range(size):
        j = size - 1 - step if backwards else step
        if backwards:
            sums[j], sum_exps[j] = total, exponent
        if distribution[j] > 0.0:
            e = exponents[j // BLOCK]
            if total == 0.0:
                total, exponent = distribution[j], e
            elif e >= exponent:
                total = distribution[j] + np.ldexp(total, max(exponent - e, -1060))
                exponent = e
            else:
                total += np.ldexp(distribution[j], max(e - exponent, -1060))
            while total >= 2.0:
                total *= 0.5
                exponent += 1
            while total < 1.0:
                total *= 2.0
                exponent -= 1
        if not backwards:
            sums[j], sum_exps[j] = total, exponent
    return sums, sum_exps


@compiled_loop
def _compare(a, a_exp, b, b_exp, error):  # type: ignore[no-untyped-def]
    """1 if a <= b for sure, -1 if a > b for sure, 0 if rounding leaves it open."""
    if a == 0.0:
        return 1
    if b == 0.0 or b_exp - a_exp < -8:
        return -1
    if b_exp - a_exp > 8:
        return 1
    scaled = np.ldexp(b, b_exp - a_exp)
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
