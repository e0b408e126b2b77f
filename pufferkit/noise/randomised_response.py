"""Randomised response, entry by entry.

It compares 64 random bits of the operating system with a whole number, so its probabilities are
exact multiples of 2^-64. A float of at least 2^-11 is such a multiple already; a smaller one is
rounded up, which hides more. With two states the first byte usually decides, and the other bytes
are drawn only where it does not.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

WORD = 2**64
"""Randomised response draws whole numbers below this."""

_CHUNK = 1 << 18


def flip_threshold(rho: float, states: int) -> int:
    """How many of the 2^64 words move a state to one given other state: rho 2^64, rounded up.

    The remaining words keep the state, never fewer than move it to any other: k times the threshold
    is at most 2^64. Rounding up makes outputs more alike, so the loss of the requested
    probabilities remains an upper bound. The threshold is rounded down only where it would exceed
    1/k (k not a power of two and rho within 2^-64 of 1/k); `KaryResponse` computes its guarantee
    from the result.
    """
    return min(math.ceil(Fraction(rho) * WORD), WORD // states)


def responses(codes: NDArray[Any], thresholds: Sequence[int]) -> NDArray[Any]:
    """Randomised response, entry by entry, with fresh randomness for each.

    Parameters
    ----------
    codes
        States as whole numbers 0 ... k - 1.
    thresholds
        For each state x, how many of the 2^64 words move x to each given other state.

    Notes
    -----
    A uniform word u < 2^64 moves x to x + 1 + floor(u / threshold) modulo k if that quotient is
    below k - 1, and keeps x otherwise. Every other state gets exactly threshold[x] words.
    """
    states = len(thresholds)
    limits = np.array(thresholds, dtype=np.uint64)
    answers = np.empty_like(codes)
    for start in range(0, len(codes), _CHUNK):
        piece = codes[start : start + _CHUNK]
        if states == 2:
            zeros = piece == 0
            answers[start : start + _CHUNK] = zeros == _flips(zeros, limits)
            continue
        words = np.frombuffer(os.urandom(8 * len(piece)), dtype=np.uint64)
        limit = limits[piece]
        jump = words // np.maximum(limit, 1)
        moved = (jump < states - 1) & (limit > 0)
        shift = np.where(moved, jump + 1, 0).astype(np.intp)
        answers[start : start + _CHUNK] = (piece + shift) % states
    return answers


def _flips(zeros: NDArray[np.bool_], limits: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """For each entry, whether a fresh 64-bit word is below the limit of its state.

    The first byte of a word decides unless it equals the first byte of the limit; the other seven
    are drawn only then, once in 256 times. Given the first byte they are uniform whenever they are
    drawn, so the probability is exactly the limit over 2^64.
    """
    first = np.frombuffer(os.urandom(len(zeros)), dtype=np.uint8)
    tops = (limits >> np.uint64(56)).astype(np.uint8)
    top = tops[0] if tops[0] == tops[1] else np.where(zeros, tops[0], tops[1])
    flips: NDArray[np.bool_] = first < top
    unsure = np.flatnonzero(first == top)
    rest = np.frombuffer(os.urandom(8 * len(unsure)), dtype=np.uint64) >> np.uint64(8)
    remainders = limits & np.uint64(2**56 - 1)
    flips[unsure] = rest < np.where(zeros[unsure], remainders[0], remainders[1])
    return flips


def response_stream(codes: Iterator[int], thresholds: Sequence[int]) -> Iterator[int]:
    """Randomised response to one entry after another, as `responses`, in constant memory.

    Each entry is answered before the next is read, and its random word is drawn then. Words
    drawn ahead would be the same in every process that is forked from this one.
    """
    states = len(thresholds)
    moving = [(states - 1) * limit for limit in thresholds]
    for code in codes:
        word = int.from_bytes(os.urandom(8), sys.byteorder)
        if word >= moving[code]:
            yield code
        else:
            yield (code + 1 + word // thresholds[code]) % states
