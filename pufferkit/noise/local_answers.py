"""Local answers that need more than one threshold: rows of any distribution, and flips in runs.

*Rows.* A state is answered by one of several symbols with probabilities that are whole multiples of
2^-64, drawn with the randomness of the operating system as in `pufferkit.noise`.

*Flips that are themselves a chain* ([B] 3.3). The chain of flips is stationary, moves from 0 to 1
with probability a / 2^64 and back with b / 2^64 for whole numbers a, b, and starts flipped with
probability a / (a + b): all of them exact.

A stream keeps one bit, the last flip. A process forked in the meantime would share that bit, and no
theorem bounds the joint loss of two series whose noise has a common past. So a stream continues
only in the process in which it began.
"""

from __future__ import annotations

import os
import secrets
import sys
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pufferkit.errors import NoTheorem

Flips = NDArray[np.bool_]

_CHUNK = 1 << 18
_WORD = 2**64
_forks = [0]


def _count_fork() -> None:
    _forks[0] += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_fork)


def row_answers(codes: NDArray[Any], words: Sequence[Sequence[int]]) -> NDArray[Any]:
    """A symbol for each entry: ``words[x][z]`` of the 2^64 words answer state x with z."""
    answers = np.empty_like(codes)
    cuts = [np.array(own, dtype=np.uint64) for own in _cuts(words)]
    for begin in range(0, len(codes), _CHUNK):
        piece = codes[begin : begin + _CHUNK]
        drawn = np.frombuffer(os.urandom(8 * len(piece)), dtype=np.uint64)
        for state, own in enumerate(cuts):
            here = piece == state
            answers[begin : begin + _CHUNK][here] = np.searchsorted(own, drawn[here], side="right")
    return answers


def row_answer_stream(codes: Iterator[int], words: Sequence[Sequence[int]]) -> Iterator[int]:
    """A symbol for one entry after another; the random word is drawn when its entry arrives."""
    cuts = _cuts(words)
    for code in codes:
        yield bisect_right(cuts[code], int.from_bytes(os.urandom(8), sys.byteorder))


def _cuts(words: Sequence[Sequence[int]]) -> list[list[int]]:
    """Where the words of one symbol end and those of the next begin; no word is 2^64."""
    return [[cut for cut in accumulate(own) if cut < _WORD] for own in words]


def chain_flips(lengths: Sequence[int], thresholds: tuple[int, int]) -> Flips:
    """Flips of independent series of these lengths, one after the other.

    Parameters
    ----------
    lengths
        Length of each series, at least 1.
    thresholds
        How many of the 2^64 words move the noise from 0 to 1, and from 1 to 0.
    """
    firsts = np.concatenate([[0], np.cumsum(lengths)])
    flips = np.empty(int(firsts[-1]), dtype=np.bool_)
    flips[firsts[:-1]] = [_first(thresholds) for _ in lengths]
    starts = np.zeros(len(flips), dtype=np.bool_)
    starts[firsts[:-1]] = True
    for begin in range(0, len(flips), _CHUNK):
        end = min(begin + _CHUNK, len(flips))
        words = np.frombuffer(os.urandom(8 * (end - begin)), dtype=np.uint64)
        up, down = (words < np.uint64(limit) for limit in thresholds)
        own = starts[begin:end]
        # A word sets the bit (one of the two moves), swaps it (both) or keeps it (neither).
        anchors, values = own | (up != down), np.where(own, flips[begin:end], up)
        if not own[0] and not anchors[0]:
            anchors[0], values[0] = True, flips[begin - 1] ^ up[0]
        swaps = np.cumsum(up & down & ~anchors)
        last = np.maximum.accumulate(np.where(anchors, np.arange(end - begin), 0))
        flips[begin:end] = values[last] ^ ((swaps - swaps[last]) & 1).astype(np.bool_)
    return flips


def flip_stream(thresholds: tuple[int, int]) -> Iterator[bool]:
    """One flip after another, each drawn when it is requested.

    Raises
    ------
    NoTheorem
        In a process that was forked after the stream began.
    """
    home = os.getpid(), _forks[0]
    flip = _first(thresholds)
    while True:
        if home != (os.getpid(), _forks[0]):
            raise NoTheorem(
                "stream: began in another process, and correlated noise must not continue in two; "
                "start a new stream here, which counts as a further release"
            )
        yield flip
        word = int.from_bytes(os.urandom(8), sys.byteorder)
        flip ^= word < thresholds[flip]


def _first(thresholds: tuple[int, int]) -> bool:
    """Flipped with probability a / (a + b)."""
    up, down = thresholds
    return secrets.randbelow(up + down) < up
