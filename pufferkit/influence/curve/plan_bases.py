"""Bases of transport plans, recorded so that steps can be verified without optimisation.

The best plan of a pair of rows is supported on a spanning tree of the sources y with p_y > 0 and
the targets z with q_z > 0. The tree is sufficient: with the variation B on its arcs, the plan and
its value follow by walking over it (as `pufferkit.verification.recorded_plans` does). It is written
as the neighbour of every node on the path to the first source: for the second and later sources an
index among the targets, then for every target an index among the sources, one byte each.

Pairs of equal rows, whose plan leaves everything in place, are filled with `STAY`; where no
programme was solved all bytes are `NONE`.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pufferkit.checks import Floats
from pufferkit.compiling import compiled_loop
from pufferkit.influence.curve.pairs import PairSteps
from pufferkit.influence.curve.transport_programme import all_steps

STAY, NONE = 255, 254

MOST_TEXT = 150_000
"""Longer texts are not recorded; verification must then solve the programmes again."""

_MOST_STATES = 250
_MOST_BYTES = 20_000_000


def bases_of(steps: Any) -> list[bytes]:
    """The trees of the last call of steps that are programmes."""
    programmes: PairSteps = steps.programmes
    return bases_in(programmes.kernels, programmes.trees, programmes.half)


def bases_in(
    kernels: Sequence[Floats], trees: Sequence[NDArray[Any]], half: int = 0
) -> list[bytes]:
    """Trees of plans, kernel by kernel, for all ordered pairs of different rows.

    With ``half`` only pairs from the first so many rows to the others have plans; `STAY` stands for
    all other pairs.
    """
    if kernels[0].shape[1] > _MOST_STATES:
        raise OverflowError("too many states for a byte")
    written = []
    for kernel, own in zip(kernels, trees, strict=True):
        counts = tuple((kernel > 0).sum(axis=1).tolist())
        same = (kernel[:, None, :] == kernel[None, :, :]).all(axis=2)
        if half:
            same[half:], same[:, :half] = True, True
        written.append(_of_kernel(counts, same.tobytes(), own.astype(np.int16).tobytes()))
    return written


@lru_cache(maxsize=4)  # consecutive entries mostly have the same trees
def _of_kernel(counts: tuple[int, ...], same: bytes, trees: bytes) -> bytes:
    """Trees of all pairs of rows with these numbers of states; ``same`` marks equal rows."""
    size = len(counts)
    arcs = np.frombuffer(trees, dtype=np.int16).reshape(size, size, -1, 2)
    written = np.empty((size - 1) * (2 * sum(counts) - size), dtype=np.uint8)
    equal = np.frombuffer(same, dtype=np.bool_).reshape(size, size)
    # Compiled if the plans were.
    write = _neighbours.plain if all_steps.patient() else _neighbours
    write(np.array(counts), equal, arcs, written)
    return written.tobytes()


def blank(kernel: Floats) -> bytes:
    """A blank record, as long as the bases of a kernel."""
    counts = (kernel > 0).sum(axis=1)
    pairs = len(counts) * (len(counts) - 1)
    return bytes([NONE]) * int(2 * (len(counts) - 1) * counts.sum() - pairs)


@compiled_loop
def _neighbours(counts, same, arcs, written):  # type: ignore[no-untyped-def]
    """The trees of all pairs, each rooted at its first source; any arcs stay within the arrays."""
    place, size = 0, len(counts)
    most = 2 * counts.max()
    first, following = np.empty(most, np.int64), np.empty(2 * most, np.int64)
    towards, order = np.empty(most, np.int64), np.empty(most, np.int64)
    for x in range(size):
        for other in range(size):
            if other == x:
                continue
            rows, number = counts[x], counts[x] + counts[other] - 1
            if same[x, other]:
                written[place : place + number] = STAY
                place += number
                continue
            first[: number + 1] = -1
            for arc in range(number):
                y, z = arcs[x, other, arc, 0], rows + arcs[x, other, arc, 1]
                following[2 * arc], following[2 * arc + 1] = first[y], first[z]
                first[y], first[z] = 2 * arc, 2 * arc + 1
            towards[: number + 1] = -1
            order[0], towards[0], seen, head = 0, 0, 1, 0
            while head < seen:
                node = order[head]
                head += 1
                link = first[node]
                while link >= 0:
                    arc = link // 2
                    far = rows + arcs[x, other, arc, 1] if link % 2 == 0 else arcs[x, other, arc, 0]
                    if towards[far] < 0:
                        towards[far], order[seen] = node, far
                        seen += 1
                    link = following[link]
            for node in range(1, number + 1):
                # What is no tree proves nothing.
                written[place] = max(towards[node] - (rows if node < rows else 0), 0)
                place += 1


def packed(bases: Iterable[bytes]) -> str | None:
    """Text of several bases, each as its difference from the one before where that is as long.

    ``None`` if it is longer than `MOST_TEXT`.
    """
    packer, before, total = zlib.compressobj(9), b"", 0
    parts = []
    try:
        for own in bases:
            total += len(own)
            if total > _MOST_BYTES:
                return None
            shown = np.frombuffer(own, dtype=np.uint8)
            if len(own) == len(before):
                shown = shown ^ np.frombuffer(before, dtype=np.uint8)
            parts.append(packer.compress(shown.tobytes()))
            before = own
    except OverflowError:
        return None
    text = base64.b64encode(b"".join([*parts, packer.flush()])).decode("ascii")
    return text if len(text) <= MOST_TEXT else None
