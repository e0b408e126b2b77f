"""The two sides of every entry of a chain, pair by pair of its states.

To the right the kernel is P. To the left it is R_i(x, u) = P(X_{i-1} = u | X_i = x), which depends
on the start as in `pufferkit.influence.curve.starts`: one kernel if the chain is stationary, one
for every entry until a fixed initial distribution is forgotten, and all reweightings at once for
any start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf

import numpy as np
from numpy.typing import NDArray

from pufferkit.beliefs.chain_class import Member
from pufferkit.beliefs.structure import Bools
from pufferkit.checks import Floats
from pufferkit.influence.curve.pairs import PairSteps, Steps
from pufferkit.influence.curve.steps import contracted
from pufferkit.influence.quilts.chains import (
    SETTLED,
    AnyStartInfluence,
    GivenStartInfluence,
    StationaryInfluence,
    influence_of,
)

EXPLICIT_WORK = 50_000
"""Entries are followed one by one while entries x states^2 stays below this."""

_MOST_ANY_START = 40


class AnyStartSteps:
    """Steps to the left over every initial distribution (PAIRS Theorem 5).

    The kernel to the left is R(x, u) proportional to m(u) P(u, x) with any m, and the largest ratio
    over all m has two atoms u, u':

        max over u, u' of s,   tanh(s / 4) = tanh(D / 4) tanh(limit(u, u') / 4),
        D = log P(u, x) P(u', x') / (P(u, x') P(u', x)),  the pairs with D > 0.
    """

    def __init__(self, transition: Floats, before: Bools, here: Bools, error: float) -> None:
        size = len(transition)
        self.size = size
        with np.errstate(divide="ignore"):
            logs = np.where(before[:, None], np.log(transition), -inf)
        # Entry [x, x', u, u']: what m can make of the two columns x, x' on the two atoms u, u'.
        above = logs.T[:, None, :, None] + logs.T[None, :, None, :]
        below = logs.T[None, :, :, None] + logs.T[:, None, None, :]
        with np.errstate(invalid="ignore"):
            diameter = np.where(above == -inf, 0.0, above - below)
        diameter = np.maximum(diameter, 0.0) + (diameter > 0) * 2 * error
        inside = here[:, None] & here[None, :] & ~np.eye(size, dtype=bool)
        diameter[~inside] = 0.0
        self.rate: Floats = np.tanh(diameter / 4).reshape(size * size, size * size)
        self._best: NDArray[np.intp] = np.zeros(size * size, dtype=np.intp)
        self._values: Floats = np.zeros(size * size)
        self._limit: Floats = np.zeros(size * size)

    def __call__(self, limit: Floats) -> Floats:
        self._limit = limit.ravel()
        products = self.rate * np.tanh(self._limit / 4)[None, :]
        self._best = products.argmax(axis=1)
        rows = np.arange(len(products))
        values = np.empty(len(products))
        for row in rows:
            rate, variation = self.rate[row, self._best[row]], self._limit[self._best[row]]
            diameter = inf if rate >= 1 else 4 * np.arctanh(rate)
            values[row] = contracted(float(diameter), float(variation), 4)
        self._values = values
        return values.reshape(self.size, self.size)

    def derivative(self) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
        rows = np.flatnonzero(self._values > 0)
        columns = self._best[rows]
        rate = self.rate[rows, columns]
        values, limit = self._values[rows], self._limit[columns]
        slopes = rate * np.cosh(values / 4) ** 2 / np.cosh(limit / 4) ** 2
        return rows, columns, slopes


@dataclass(frozen=True)
class PairSide:
    """One side of every entry, entries counted from the end that the side runs towards.

    Attributes
    ----------
    first
        Steps of entries 2, 3, ..., each its own.
    then
        Steps of all later entries; ``None`` if they never become the same.
    """

    first: Sequence[Steps]
    then: Steps | None

    def at(self, entry: int) -> Steps | None:
        """Steps from an entry, 2 or later, to the one before it on this side."""
        return self.first[entry - 2] if entry - 2 < len(self.first) else self.then


Sides = tuple[PairSide, PairSide, list[Bools]]
"""Left and right side of the entries, and the states of entries 1, 2, ... (the last repeats)."""


def pair_sides(member: Member, length: int) -> Sides | None:
    """The sides of the entries of one chain.

    ``None`` where the pairwise curve does not serve: probabilities lost to underflow, too many
    states for any start, or a start that is not forgotten in time.
    """
    source = influence_of(member, "definition", length)
    error = source.powers.rounding(1)
    right = PairSide([], PairSteps([member.chain.transition], error))
    if isinstance(source, StationaryInfluence):
        left, supports = _stationary(source, error)
    elif isinstance(source, AnyStartInfluence):
        left, supports = _any_start(source, length, error)
    else:
        assert isinstance(source, GivenStartInfluence)
        left, supports = _given_start(source, length, error)
    return None if left is None else (left, right, supports)


def _stationary(source: StationaryInfluence, error: float) -> tuple[PairSide | None, list[Bools]]:
    chain, support = source.chain, source.support(1)
    if chain.has_lost_states:
        return None, []
    return PairSide([], _backward(chain.transition, chain.initial, support, error)), [support]


def _any_start(
    source: AnyStartInfluence, length: int, error: float
) -> tuple[PairSide | None, list[Bools]]:
    if len(source.chain) > _MOST_ANY_START:
        return None, []
    supports = [source.support(n) for n in range(1, min(length, source.stretches) + 1)]
    steps = [
        AnyStartSteps(source.chain.transition, before, here, error)
        for before, here in pairwise([*supports, supports[-1]])
    ]
    return PairSide(steps[:-1], steps[-1]), supports


def _given_start(
    source: GivenStartInfluence, length: int, error: float
) -> tuple[PairSide | None, list[Bools]]:
    # From entry settled + 2 on, the entry before has the limiting distribution.
    own = min(length, source.settled + 2)
    known = not any(source.lost_at(n) for n in range(1, own + 1))
    short = own * len(source.chain) ** 2 <= EXPLICIT_WORK
    if not (known and short) or (source.cycle > 1 and length > own):
        return None, []
    steps = [
        _backward(
            source.chain.transition,
            source.law(n - 1),
            source.support(n),
            error + source.prior(n)[1],
        )
        for n in range(2, own + 1)
    ]
    supports = [source.support(n) for n in range(1, own + 1)]
    return PairSide(steps, steps[-1] if steps else None), supports


def _backward(transition: Floats, before: Floats, here: Bools, error: float) -> PairSteps:
    """P(X_{i-1} = u | X_i = x) for X_{i-1} distributed as ``before``.

    Values that X_i cannot take get the row of one that it can: nothing is told about them.
    """
    joint = (before[:, None] * transition).T
    joint[~here] = joint[int(np.flatnonzero(here)[0])]
    kernel = joint / joint.sum(axis=1, keepdims=True)
    return PairSteps([kernel], error + SETTLED)
