"""Which chains of a large class may bind: a rough bound on the loss of many at once.

For a stationary chain with kernel P and time-reversed kernel R let step_{x,x'}(K, a) be the step of
`pufferkit.influence.curve.steps`, and

    F_K(v) = min over m in `BLOCKS` of  m b + max over pairs of step(K^m, v).

Started from v = infinity every iterate of F is a bound on the variation beyond an entry, and

    loss <= b + max over x, x' of step_{x,x'}(R, v_R) + step_{x,x'}(P, v_P)

is the curve with few blocks and one number for all pairs, so it is never below that of
`pufferkit.influence.curve.engine`. A chain whose bound is at most epsilon needs no further work.
All chains are taken at once: a few array operations for a thousand of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pufferkit.beliefs.base import Member
from pufferkit.beliefs.chain_tables import CONVERGED, Powers
from pufferkit.checks import Floats
from pufferkit.influence.kernels import TINY
from pufferkit.rounding import EPS

BLOCKS = (1, 2, 3)
FEW = 8
"""Classes of fewer chains are not screened."""

_ROUNDS = 5
_MOST_CELLS = 1 << 24
_LARGE = 300.0

StepTable = tuple[Floats, Floats, float]
"""K(x, S) and K(x', S) for every chain, pair and prefix S; the allowance for rounding."""


class Screen:
    """Rough losses of the chains of a class; infinite for those without a rough bound."""

    def __init__(self, members: Sequence[Member]) -> None:
        self.size = len(members)
        self._sides: list[list[StepTable]] = []
        states = len(members[0].chain)
        if self.size * states**3 * 2 * len(BLOCKS) > _MOST_CELLS:
            members = []
        self._known = np.array(
            [
                n
                for n, m in enumerate(members)
                if not m.any_start
                and m.chain.is_stationary
                and m.chain.transition.min() > TINY
                and m.chain.initial.min() > TINY
            ],
            dtype=np.intp,
        )
        if len(self._known):
            chains = [members[n].chain for n in self._known.tolist()]
            forward = np.array([chain.transition for chain in chains])
            initial = np.array([chain.initial for chain in chains])
            backward = (initial[:, :, None] * forward).transpose(0, 2, 1)
            backward /= backward.sum(axis=2, keepdims=True)
            powers = Powers(forward[0])
            self._sides = [_tables(forward, powers, 0.0), _tables(backward, powers, CONVERGED)]

    def losses(self, b: float) -> Floats:
        """An upper bound on the loss of every chain when every entry has event-level epsilon b."""
        bounds = np.full(self.size, inf)
        if len(self._known):
            pairs = [self._beyond(side, b) for side in self._sides]
            bounds[self._known] = (b + (pairs[0] + pairs[1]).max(axis=1)) * (1 + 1e-9)
        return bounds

    def limits(self, b: float) -> dict[int, list[Any]]:
        """For every chain with a rough bound: a block and a limit to the left, and to the right.

        A limit v has F(v) <= v, attained by the block; it is rounded up a little.
        """
        if not len(self._known):
            return {}
        forward, backward = (self._limit(side, b) for side in self._sides)
        rows = zip(*backward, *forward, strict=True)
        return {
            n: [int(a), float(v) * (1 + 1e-9), int(c), float(w) * (1 + 1e-9)]
            for n, (a, v, c, w) in zip(self._known.tolist(), rows, strict=True)
        }

    def _beyond(self, side: list[StepTable], b: float) -> Floats:
        """The step of one side for each pair of values."""
        return _steps(side[0], self._limit(side, b)[1])

    @staticmethod
    def _limit(side: list[StepTable], b: float) -> tuple[NDArray[np.intp], Floats]:
        """The least iterate of F of every chain, and the block by which it was reached."""
        limit = np.full(len(side[0][0]), inf)
        for _ in range(_ROUNDS):
            ways = [
                m * b + _steps(table, limit).max(axis=1)
                for m, table in zip(BLOCKS, side, strict=True)
            ]
            limit = np.minimum(limit, np.min(ways, axis=0))
        return np.array(BLOCKS)[np.argmin(ways, axis=0)], limit


def _tables(kernels: Floats, powers: Powers, error: float) -> list[StepTable]:
    tables, power = [], kernels
    for m in BLOCKS:
        power = kernels if m == 1 else power @ kernels
        first, second = np.broadcast_arrays(power[:, :, None, :], power[:, None, :, :])
        order = np.argsort(-(first / second), axis=3)
        shares = [
            np.minimum(np.take_along_axis(rows, order, axis=3).cumsum(axis=3), 1.0)
            for rows in (first, second)
        ]
        above, below = (rows.reshape(len(kernels), -1, kernels.shape[1]) for rows in shares)
        rounding = 2 * (powers.rounding(m) + error) + 8 * kernels.shape[1] * EPS
        tables.append((above, below, rounding))
    return tables


def _steps(table: StepTable, limit: Floats) -> Floats:
    """The step of every pair, at the limit of every chain."""
    above, below, rounding = table
    if limit.max() < _LARGE:
        rise = np.expm1(limit)[:, None, None]
        ratio = (1 + above * rise) / (1 + below * rise)
    else:  # as if all limits were infinite, which is on the safe side
        ratio = above / below
    steps: Floats = np.minimum(np.log(ratio.max(axis=2)) + rounding, limit[:, None])
    return steps
