"""Discrete sech noise on whole numbers, exactly, many at once.

*The distribution.* Z = n has probability proportional to sech(n / s) = 2 / (e^{n/s} + e^{-n/s}):
about e^{-|n|/s} in the tails, and round where Laplace noise has a kink. On a coordinate that mixes
bins this is what lets a loss be of second order (`pufferkit.mechanisms.shaped`).

*Draws.* Since sech(n / s) = 2 e^{-|n|/s} / (1 + q) with q = e^{-2|n|/s}, a draw is discrete Laplace
noise of scale s (`pufferkit.noise.exact_laplace`), accepted with probability 1 / (1 + q), at least
a half, and drawn anew otherwise. *The coin.* Toss a fair coin: heads accept. Tails: with
probability q reject, else toss again. So P(accept) = p solves p = 1/2 + (1 - q) p / 2, which is
1 / (1 + q). *Heads with probability q.* With the bits b_i of |n|,

    q = product over i with b_i = 1 of e^{-2^{i+1} / s},

so all coins of the bits of |n| must show heads: independent tosses, each of exact probability.

*Range.* The scale is at most 2^40 units. A draw of `exact_laplace` that 64 bits do not hold has a
probability below e^{-2^22}; its size is continued in Python's integers, which the distribution
allows because it is geometric beyond any number. A noisy answer of 2^62 or more is
replaced by 2^62 - 1.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pufferkit.checks import Bools, Ints
from pufferkit.noise.digits import WhichBits, first_words
from pufferkit.noise.exact_laplace import ByteSource, Coin, DiscreteLaplace, Which, tosses

LARGEST_SCALE = Fraction(2**40)
"""Largest scale, in units."""

_ANSWER, _MOST = 2**61, 2**62 - 1
"""The largest answer, and the largest noisy answer."""

_HELD = 2**63 - 1
"""Laplace draws of this size may have been larger."""

_ADDED = 2**63 - 2**61 - 1
"""Noise of this size leads to 2^62 - 1 from every answer, and sums of it fit in 64 bits."""


@dataclass(frozen=True)
class DiscreteSech:
    """The tosses that draw Z with P(Z = n) proportional to sech(n / scale), for some scales.

    Attributes
    ----------
    proposal
        Discrete Laplace noise of the same scales.
    bits
        For each bit i of |Z| the coin with heads e^{-2^{i+1} / scale}.

    Examples
    --------
    >>> import numpy as np
    >>> from fractions import Fraction
    >>> tiny = DiscreteSech.of(Fraction(3, 1000))
    >>> tiny.on(np.array([5, -7, 9])).tolist()
    [5, -7, 9]
    """

    proposal: DiscreteLaplace
    bits: tuple[Coin, ...]

    @staticmethod
    @lru_cache(8)
    def of(*scales: Fraction) -> DiscreteSech:
        """For scales in units, above 0 and at most `LARGEST_SCALE`."""
        if not all(0 < scale <= LARGEST_SCALE for scale in scales):
            raise ValueError("scale: must be above 0 and at most 2^40 units")
        places: list[tuple[WhichBits, int]] = [("power", i + 1) for i in range(63)]
        words = np.array([list(first_words(places, 1 / scale)) for scale in scales], np.uint64).T
        coins = (Coin(*place, scales, row) for place, row in zip(places, words, strict=True))
        return DiscreteSech(DiscreteLaplace.of(*scales), tuple(coins))

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
        exact = np.asarray(values, dtype=np.int64)
        if len(exact) and (exact.max() > _ANSWER or exact.min() < -_ANSWER):
            raise ValueError("values: must be at most 2^61 units")
        noisy, waiting = exact.copy(), np.arange(len(exact))
        while len(waiting):
            scales = None if which is None else which[waiting]
            noise = self.proposal.on(np.zeros(len(waiting), np.int64), scales, drawn)
            accepted = self._accepted(np.abs(np.maximum(noise, -_HELD)), scales, drawn)
            noisy[waiting[accepted]] += np.clip(noise[accepted], -_ADDED, _ADDED)
            waiting = waiting[~accepted]
        return np.clip(noisy, -_MOST, _MOST)

    def _accepted(self, sizes: Ints, which: Which, source: ByteSource) -> Bools:
        """For each size n, a coin with probability 1 / (1 + e^{-2 n / scale}) of being true."""
        accepted = np.zeros(len(sizes), dtype=bool)
        undecided = np.arange(len(sizes))
        while len(undecided):
            fair = np.frombuffer(source(-(-len(undecided) // 8)), np.uint8)
            heads = np.unpackbits(fair, count=len(undecided)).astype(bool)
            accepted[undecided[heads]] = True
            tails = undecided[~heads]
            scales = None if which is None else which[tails]
            undecided = tails[~self._all_heads(sizes[tails], scales, source)]
        return accepted

    def _all_heads(self, sizes: Ints, which: Which, source: ByteSource) -> Bools:
        """For each size n, a coin with probability e^{-2 n / scale} of being true."""
        heads = np.ones(len(sizes), dtype=bool)
        for i in range(int(sizes.max(initial=0)).bit_length()):
            at = np.flatnonzero(heads & (sizes >> i & 1 == 1))
            scales = None if which is None else which[at]
            heads[at] = tosses(self.bits[i], len(at), scales, source)
        for n in np.flatnonzero(heads & (sizes == _HELD)).tolist():  # never: below e^{-2^23}
            heads[n] = self._rest_heads(None if which is None else which[n : n + 1], source)
        return heads

    def _rest_heads(self, which: Any, source: ByteSource) -> bool:
        """The coin of what 64 bits did not hold of a size: a geometric number from 0 on."""
        while True:
            more = int(abs(self.proposal.on(np.zeros(1, np.int64), which, source)[0]))
            if more:
                return bool(self._all_heads(np.array([more - 1]), which, source)[0])
