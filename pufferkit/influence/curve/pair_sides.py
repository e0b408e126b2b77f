"""The two sides of every entry of a chain, pair by pair of its states.

To the right the kernel is P. To the left it is R_i(x, u) = P(X_{i-1} = u | X_i = x), which depends
on the start: one kernel if the chain is stationary, one for every entry until a fixed initial
distribution is forgotten. Any start has no kernel to the left: there the scalar curve, which may
jump over blocks, serves better (`pufferkit.influence.curve.starts`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pufferkit.beliefs.chain_class import Member
from pufferkit.beliefs.structure import Bools
from pufferkit.checks import Floats
from pufferkit.influence.curve.pairs import PairSteps, Steps
from pufferkit.influence.quilts.chains import (
    CONVERGED,
    StationaryInfluence,
)
from pufferkit.influence.quilts.given_start import GivenStartInfluence
from pufferkit.influence.quilts.hardest import influence_of
from pufferkit.influence.quilts.powers import TINY

LARGE = 24
"""From so many states on, plans are kept from one calibration to the next."""

MOST_CELLS = 4e6
"""Most cells of all programmes of a side: those of 44 states with dense rows."""

_MANY = 100
"""From so many entries with kernels of their own on, waiting for a compiler pays."""

EXPLICIT_WORK = 50_000
"""Entries are followed one by one while entries x states^2 stays below this."""


@dataclass(frozen=True)
class PairSide:
    """One side of every entry, entries counted from the end that the side runs towards."""

    first: Sequence[Steps]
    """Steps of entries 2, 3, ..., each its own."""
    then: Steps | None
    """Steps of all later entries; ``None`` if they never become the same."""

    def at(self, entry: int) -> Steps | None:
        """Steps from an entry, 2 or later, to the one before it on this side."""
        return self.first[entry - 2] if entry - 2 < len(self.first) else self.then


Sides = tuple[PairSide, PairSide, list[Bools]]
"""Left and right side of the entries, and the states of entries 1, 2, ... (the last repeats)."""


def pair_sides(member: Member, length: int) -> Sides | None:
    """The sides of the entries of one chain.

    ``None`` where the pairwise curve does not serve: any start, probabilities lost to underflow, or
    a start that is not forgotten in time.
    """
    source = influence_of(member, "definition", length)
    error = source.powers.rounding(1)
    right = PairSide([], PairSteps([member.chain.transition], error))
    if isinstance(source, StationaryInfluence):
        left, supports = _stationary(source, error)
    elif isinstance(source, GivenStartInfluence):
        left, supports = _given_start(source, length, error)
    else:
        return None
    return None if left is None else (left, right, supports)


def takes_long(member: Member) -> bool:
    """Whether the programmes of all pairs have so many cells that they are not solved.

    A round of the search looks at every cell of every programme, and there are about twenty rounds.
    The scalar curve, which takes the worst pair for all, is close to the pairwise one there: with
    many states and dense rows every pair is much like the worst one.
    """
    moves = (member.chain.transition > 0).sum(axis=1).astype(float)
    return not member.any_start and float(moves.sum()) ** 2 > MOST_CELLS


def known_sides(member: Member, length: int) -> Sides | None:
    """`pair_sides`; of the last large stationary chains, those with the plans found before.

    Where each programme ended is a good place to begin at another scale. Of small chains nothing is
    kept: they are quick.
    """
    chain = member.chain
    if len(chain) < LARGE or member.any_start or not chain.is_stationary:
        return pair_sides(member, length)
    key = chain.initial.tobytes(), chain.transition.tobytes()
    sides = _KEPT.pop(key, None) or pair_sides(member, length)
    if sides is not None:
        _KEPT[key] = sides
        if len(_KEPT) > _MOST_KEPT:
            del _KEPT[next(iter(_KEPT))]
    return sides


_KEPT: dict[tuple[bytes, bytes], Sides] = {}
_MOST_KEPT = 4


def _stationary(source: StationaryInfluence, error: float) -> tuple[PairSide | None, list[Bools]]:
    chain, support = source.chain, source.support(1)
    if chain.has_underflow:
        return None, []
    steps = _backward(chain.transition, chain.initial, support, error)
    return None if steps is None else PairSide([], steps), [support]


def _given_start(
    source: GivenStartInfluence, length: int, error: float
) -> tuple[PairSide | None, list[Bools]]:
    # From entry burn_in + 2 on, the entry before has the limiting distribution.
    own = min(length, source.burn_in + 2)
    certain = not any(source.underflows_at(n) for n in range(1, own + 1))
    short = own * len(source.chain) ** 2 <= EXPLICIT_WORK
    if not (certain and short) or (source.cycle > 1 and length > own):
        return None, []
    steps = [
        _backward(
            source.chain.transition,
            source.distribution(n - 1),
            source.support(n),
            error + source.prior(n)[1],
            often=own > _MANY,
        )
        for n in range(2, own + 1)
    ]
    known = [step for step in steps if step is not None]
    if len(known) < len(steps):
        return None, []
    supports = [source.support(n) for n in range(1, own + 1)]
    return PairSide(known, known[-1] if known else None), supports


def _backward(
    transition: Floats, before: Floats, here: Bools, error: float, *, often: bool = False
) -> PairSteps | None:
    """P(X_{i-1} = u | X_i = x) for X_{i-1} distributed as ``before``; ``None`` after an underflow.

    Values that X_i cannot take get the row of one that it can: nothing is told about them.
    """
    joint = (before[:, None] * transition).T
    if (joint[(before[:, None] > 0).T & (transition.T > 0)] < TINY).any():
        return None
    joint[~here] = joint[int(np.flatnonzero(here)[0])]
    kernel = joint / joint.sum(axis=1, keepdims=True)
    return PairSteps([kernel], error + CONVERGED, often=often)
