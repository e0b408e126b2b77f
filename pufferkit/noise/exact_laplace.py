"""Discrete Laplace noise on many whole numbers at once, exactly, from random bits.

*The distribution.* With a = e^{-1 / scale}, Z = n has probability (1 - a) / (1 + a) a^|n|. So

    P(Z is not 0)         =  2 a / (1 + a),
    P(|Z| = 1 + g given that)  =  (1 - a) a^g,    either sign alike.

*Its bits.* Write g = sum of b_i 2^i. Then a^g is the product of the a^(b_i 2^i), so the bits of a
geometric number are independent, and b_i is 1 with odds a^(2^i) to 1. Bits from the m-th on are one
geometric number again, floor(g / 2^m), with a^(2^m) in the place of a. So a draw is: one toss for
"not 0", one for each of m bits, one for "there are more bits", which has probability a^(2^m), and a
fair sign. Nothing is rejected or truncated: if there are more bits, which has a probability
below 2^-64, they are drawn with integers of any size.

*A toss.* A uniform number U in [0, 1] is below p if, at the first digit where they differ, U has 0
and p has 1. So digits of U are drawn until they differ from those of p: eight, in 255 of 256 cases
enough; 56 more; and then 64 at a time. The digits of p are certain (`pufferkit.noise.digits`), and
so P(heads) is exactly p, an irrational number, and not a float close to it.

*Range of the integers.* The scale is at most 2^56 units and m the least number with 2^m >= 45
scale, so m <= 62 and |Z| <= 2^62 unless there are more bits; those draws are finished in Python's
integers. A noisy answer beyond 64 bits is replaced by the largest or smallest integer of 64
bits: post-processing of the noisy answer, which costs nothing.

*Random bits* are requested from the operating system when they are used, and none are kept, so no
two processes, forked or copied, share any.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pufferkit.noise.digits import WORD_BITS, WhichBits, digits, first_words

ByteSource = Callable[[int], bytes]
"""Returns a given number of random bytes. Releases draw from the operating system; tests
supply their own bytes."""

Heads = NDArray[np.bool_]
Which = NDArray[np.intp] | None

LARGEST_SCALE = Fraction(2**56)
"""Largest scale, in units; noise of a larger scale would not fit in 64 bits."""

_REACH = 45
"""Single bits are drawn up to this many scales; e^-45 is below 2^-64."""

_AT_ONCE = 1 << 17
_LEAST, _MOST = -(2**63), 2**63 - 1


@dataclass(frozen=True)
class Coin:
    """A coin whose probability of heads is a function of e^{-2^i / scale}, for some scales.

    Attributes
    ----------
    shape, i
        Which function, and which power of 2; see `pufferkit.noise.digits.WhichBits`.
    scales
        Scales of the noise, in units.
    words
        The first 64 binary digits of each probability.
    """

    shape: WhichBits
    i: int
    scales: tuple[Fraction, ...]
    words: NDArray[np.uint64]

    def next_word(self, compared: int, which: int) -> int:
        """The 64 binary digits after the first ``compared``."""
        x = 2**self.i / self.scales[which]
        return digits(self.shape, x, compared + WORD_BITS) & (1 << WORD_BITS) - 1


@dataclass(frozen=True)
class DiscreteLaplace:
    """The tosses that draw Z with P(Z = n) proportional to e^{-|n| / scale}, for some scales.

    Attributes
    ----------
    nonzero
        Whether Z is not 0.
    bits
        The bits of |Z| - 1, from the lowest.
    more
        Whether |Z| - 1 has further bits.

    Examples
    --------
    >>> import numpy as np
    >>> from fractions import Fraction
    >>> tiny = DiscreteLaplace.of(Fraction(3, 1000))
    >>> tiny.on(np.array([5, -7, 9])).tolist()
    [5, -7, 9]
    """

    nonzero: Coin
    bits: tuple[Coin, ...]
    more: Coin

    @staticmethod
    @lru_cache(8)
    def of(*scales: Fraction) -> DiscreteLaplace:
        """For scales in units, above 0 and at most `LARGEST_SCALE`."""
        if not all(0 < scale <= LARGEST_SCALE for scale in scales):
            raise ValueError("scale: must be above 0 and at most 2^56 units")
        reach = _REACH * max(scales)
        bits = (-(-reach.numerator // reach.denominator) - 1).bit_length()
        places: list[tuple[WhichBits, int]] = [("nonzero", 0)]
        places += [("odds", i) for i in range(bits)]
        places += [("power", bits)]
        table = [list(first_words(places, 1 / scale)) for scale in scales]
        words = np.array(table, dtype=np.uint64).T
        coins = [Coin(*place, scales, own) for place, own in zip(places, words, strict=True)]
        return DiscreteLaplace(coins[0], tuple(coins[1:-1]), coins[-1])

    def on(
        self,
        values: NDArray[np.int64],
        which: NDArray[np.intp] | None = None,
        source: ByteSource | None = None,
    ) -> NDArray[np.int64]:
        """Whole numbers, each with independent noise added.

        Parameters
        ----------
        values
            The exact numbers, in units.
        which
            The index of the scale of each number; left out if one scale serves all.
        source
            Random bytes, for tests; if left out, those of the operating system.
        """
        drawn = os.urandom if source is None else source
        noisy = np.empty(len(values), dtype=np.int64)
        for start in range(0, len(values), _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            own = None if which is None else which[part]
            noisy[part] = self._on_some(values[part], own, drawn)
        return noisy

    def _on_some(self, values: NDArray[np.int64], which: Which, source: ByteSource) -> Any:
        count = len(values)
        nonzero = tosses(self.nonzero, count, which, source)
        negative = np.unpackbits(np.frombuffer(source(-(-count // 8)), np.uint8), count=count)
        octets = np.zeros((count, 8), dtype=np.uint8)
        for place, coin in enumerate(self.bits):
            heads = tosses(coin, count, which, source).view(np.uint8)
            octets[:, place // 8] |= heads << np.uint8(place % 8)
        size = octets.view("<i8").ravel().astype(np.int64) + 1
        noise = np.where(nonzero, np.where(negative, -size, size), 0)
        noisy = saturated_sum(values, noise)
        for n in np.flatnonzero(tosses(self.more, count, which, source)).tolist():
            blocks, scale_of_n = 1, None if which is None else which[n : n + 1]
            while tosses(self.more, 1, scale_of_n, source)[0]:
                blocks += 1
            far = int(noise[n]) + int(np.sign(noise[n])) * (blocks << len(self.bits))
            noisy[n] = min(max(int(values[n]) + far, _LEAST), _MOST)
        return noisy


def tosses(coin: Coin, count: int, which: Which, source: ByteSource) -> Heads:
    """Independent tosses, each heads with exactly the probability of its scale."""
    first = np.frombuffer(source(count), np.uint8)
    tops = (coin.words >> np.uint64(WORD_BITS - 8)).astype(np.uint8)
    top = tops[0] if which is None else tops[which]
    heads: Heads = first < top
    unsure = np.flatnonzero(first == top)
    rest = np.frombuffer(source(8 * len(unsure)), np.uint64) >> np.uint64(8)
    lows = coin.words & np.uint64(2**56 - 1)
    low = lows[0] if which is None else lows[which[unsure]]
    heads[unsure] = rest < low
    for n in unsure[rest == low].tolist():
        heads[n] = _toss_after_ties(coin, 0 if which is None else int(which[n]), source)
    return heads


def _toss_after_ties(coin: Coin, which: int, source: ByteSource) -> bool:
    """A toss whose first random word equals the first word of the probability."""
    compared = WORD_BITS
    while True:
        drawn, word = int.from_bytes(source(8), "big"), coin.next_word(compared, which)
        if drawn != word:
            return drawn < word
        compared += WORD_BITS


def saturated_sum(values: NDArray[np.int64], noise: NDArray[np.int64]) -> NDArray[np.int64]:
    """Values + noise, clipped to the largest and smallest integer of 64 bits."""
    total: NDArray[np.int64] = values + noise
    # A sum has overflowed if, modulo 2^64, its sign differs from that of both terms.
    overflowed = (values ^ total) & (noise ^ total) < 0
    if overflowed.any():
        total[overflowed] = np.where(noise[overflowed] > 0, _MOST, _LEAST)
    return total
