"""The recursion of `pufferkit.local.xor_sides` in odds, compiled, for a search over noise chains.

It neither bounds what is far away nor rounds up: what a search ends with is certified there.
"""

from __future__ import annotations

from math import log

import numpy as np

from pufferkit.checks import Floats
from pufferkit.compiling import compiled_loop

_SURE = 1e300
_SETTLED = 1e-12
_MANY = 3
"""Steps in which nothing may move before the rest is taken for the same."""


@compiled_loop
def searched_losses(
    transition: Floats, start: float, rho: Floats, every: bool, length: int, most: int
) -> Floats:
    """Largest ratio of 0 to 1, and of 1 to 0, for each noise chain, as losses.

    ``start`` is P(X_1 = 0) / P(X_1 = 1); ``length`` is 0 for any length, of which ``most`` entries
    on either side are followed.
    """
    losses = np.zeros((len(rho), 2))
    steps = length if length > 0 else most
    ratios = np.empty((steps, 2, 2, 2))  # side, output, end
    ends, fresh = np.empty((2, 6, 2)), np.empty((2, 2))  # least and largest, trace, output
    reference, best, moves = np.empty(6), np.empty((2, 2, 2)), np.empty((2, 2))
    for chain in range(len(rho)):
        moves[0, 1], moves[1, 0] = rho[chain, 0], rho[chain, 1]
        moves[0, 0], moves[1, 1] = 1 - moves[0, 1], 1 - moves[1, 0]
        own = moves[1, 0] / moves[0, 1]
        for trace in range(6):
            kind = trace % 3
            first = start if trace == 0 else 1.0
            reference[trace] = first if kind == 0 else _SURE if kind == 1 else 1 / _SURE
            for z in range(2):
                tilt = 1.0 if trace > 0 else own if z == 0 else 1 / own
                ends[0, trace, z] = ends[1, trace, z] = reference[trace] * tilt
                best[trace // 3, z, 0] = best[trace // 3, z, 1] = 0.0
        still, last = 0, steps
        for m in range(steps):
            moved = _record(ends, reference, every, length == 0, best, ratios, m)
            still = still + 1 if moved < _SETTLED else 0
            if still == _MANY:
                last = m + 1
                break
            for trace in range(6):
                _step(trace, moves, transition, ends, reference, fresh)
        for end in range(2):
            losses[chain, end] = log(max(_largest(ratios, last, length, end), 1.0))
    return losses


@compiled_loop
def _record(
    ends: Floats,
    reference: Floats,
    every: bool,
    any_length: bool,
    best: Floats,
    ratios: Floats,
    m: int,
) -> float:
    """Set what is said at distance ``m`` at most; ``best`` keeps what nearer entries said.

    Returns how far that moved since the last distance, in proportion.
    """
    moved = 0.0
    for code in range(8):
        side, z, end = code >> 2, (code >> 1) & 1, code & 1
        unknown = 0.0
        for kind in range(3 if every else 1):
            trace = 3 * side + kind
            middle = reference[trace]
            if not 1e-290 < middle < 1e290:
                continue
            ratio = ends[1, trace, z] / middle if end == 0 else middle / ends[0, trace, z]
            if kind > 0 or any_length:
                best[side, z, end] = max(best[side, z, end], ratio)
            else:
                unknown = ratio
        largest = max(unknown, best[side, z, end])
        before = ratios[m - 1, side, z, end] if m > 0 else 0.0
        moved = max(moved, abs(largest - before) / max(largest, 1e-300))
        ratios[m, side, z, end] = largest
    return moved


@compiled_loop
def _step(
    trace: int, moves: Floats, p: Floats, ends: Floats, reference: Floats, fresh: Floats
) -> None:
    """One entry further away."""
    left = trace < 3
    fresh[0, 0] = fresh[0, 1] = np.inf
    fresh[1, 0] = fresh[1, 1] = 0.0
    for code in range(8):
        far, near, end = code >> 2, (code >> 1) & 1, code & 1
        a, d = p[0, 0] * moves[far, near], p[1, 1] * moves[1 - far, 1 - near]
        if left:
            b, c = p[1, 0] * moves[1 - far, near], p[0, 1] * moves[far, 1 - near]
        else:
            a, d = p[0, 0] * moves[near, far], p[1, 1] * moves[1 - near, 1 - far]
            b, c = p[0, 1] * moves[near, 1 - far], p[1, 0] * moves[1 - near, far]
        g = ends[end, trace, far]
        odds = (a * g + b) / (c * g + d)
        fresh[0, near], fresh[1, near] = min(fresh[0, near], odds), max(fresh[1, near], odds)
    for z in range(2):
        ends[0, trace, z], ends[1, trace, z] = fresh[0, z], fresh[1, z]
    b, c = (p[1, 0], p[0, 1]) if left else (p[0, 1], p[1, 0])
    g = reference[trace]
    reference[trace] = (p[0, 0] * g + b) / (c * g + p[1, 1])


@compiled_loop
def _largest(ratios: Floats, last: int, length: int, end: int) -> float:
    """Largest product of a left and a right side that meet in one entry and its output."""
    worst = 0.0
    for z in range(2):
        for i in range(max(length, 1)):
            left = last - 1 if length == 0 else min(i, last - 1)
            right = last - 1 if length == 0 else min(length - 1 - i, last - 1)
            worst = max(worst, ratios[left, 0, z, end] * ratios[right, 1, z, end])
    return worst
