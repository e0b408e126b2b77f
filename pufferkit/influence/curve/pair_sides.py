"""The two sides of every entry of a chain, for each pair of states.

To the right the kernel is P. To the left it is R_i(x, u) = P(X_{i-1} = u | X_i = x), which depends
on the start: one kernel if the chain is stationary, one for every entry until a fixed initial
distribution is forgotten. For any start there is no kernel to the left: the scalar curve, which may
skip blocks, is used instead (`pufferkit.influence.curve.starts`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pufferkit.beliefs.chain_class import Member
from pufferkit.checks import Bools, Floats
from pufferkit.influence.curve.pairs import PairSteps, Steps, StepsInRow
from pufferkit.influence.quilts.chains import (
    CONVERGED,
    StationaryInfluence,
)
from pufferkit.influence.quilts.given_start import GivenStartInfluence
from pufferkit.influence.quilts.hardest import influence_of
from pufferkit.influence.quilts.powers import TINY

LARGE = 24
"""From this many states on, plans are stored from one calibration to the next."""

MOST_CELLS = 4e6
"""Most cells of all programmes of a side: those of 44 states with dense rows."""

EXPLICIT_WORK = 50_000
"""Entries are computed one by one while entries x states^2 stays below this."""


@dataclass(frozen=True)
class PairSide:
    """One side of every entry, entries counted from the end that the side runs towards."""

    first: Sequence[Steps]
    """Steps of entries 2, 3, ..., with their own kernels."""
    then: Steps | None
    """Steps of all later entries; ``None`` if the kernels never become constant."""

    def at(self, entry: int) -> Steps | None:
        """Steps from an entry, 2 or later, to the previous one on this side."""
        return self.first[entry - 2] if entry - 2 < len(self.first) else self.then


Sides = tuple[PairSide, PairSide, list[Bools]]
"""Left and right side of the entries, and the states of entries 1, 2, ... (the last repeats)."""


def pair_sides(member: Member, length: int, *, often: bool = False) -> Sides | None:
    """The sides of the entries of one chain.

    ``None`` where the pairwise curve does not apply: any start, probabilities that underflow, or
    a start that is not forgotten in time. ``often`` is that of `PairSteps`.
    """
    source = influence_of(member, "definition", length)
    error = source.powers.rounding(1)
    if isinstance(source, StationaryInfluence):
        left, supports = _stationary(source, error, often)
    elif isinstance(source, GivenStartInfluence):
        left, supports = _given_start(source, length, error)
    else:
        return None
    if left is None:
        return None
    often |= isinstance(left.first, StepsInRow) and left.first.many  # loaded then
    right = PairSteps([member.chain.transition], error, often=often)
    return left, PairSide([], right), supports


def takes_long(member: Member) -> bool:
    """Whether the programmes of all pairs have too many cells to be solved.

    A round of the search visits every cell of every programme, and there are about twenty rounds.
    The scalar curve, which takes the worst pair for all, is close to the pairwise one there: with
    many states and dense rows every pair is much like the worst one.
    """
    moves = (member.chain.transition > 0).sum(axis=1).astype(float)
    return not member.any_start and float(moves.sum()) ** 2 > MOST_CELLS


def known_sides(member: Member, length: int, *, often: bool = False) -> Sides | None:
    """`pair_sides`; for recent large stationary chains, those with the stored plans.

    The optimum of each programme is a good start at another scale. For small chains nothing is
    stored: they are quick.
    """
    chain = member.chain
    if len(chain) < LARGE or member.any_start or not chain.is_stationary:
        return pair_sides(member, length, often=often)
    key = chain.initial.tobytes(), chain.transition.tobytes()
    sides = _KEPT.pop(key, None) or pair_sides(member, length)
    if sides is not None:
        _KEPT[key] = sides
        if len(_KEPT) > _MOST_KEPT:
            del _KEPT[next(iter(_KEPT))]
    return sides


_KEPT: dict[tuple[bytes, bytes], Sides] = {}
_MOST_KEPT = 4


def _stationary(
    source: StationaryInfluence, error: float, often: bool
) -> tuple[PairSide | None, list[Bools]]:
    chain, support = source.chain, source.support(1)
    if chain.has_underflow:
        return None, []
    kernels = _backward(chain.transition, chain.initial[None], support[None])
    if kernels is None:
        return None, [support]
    return PairSide([], PairSteps([kernels[0]], error + CONVERGED, often=often)), [support]


def _given_start(
    source: GivenStartInfluence, length: int, error: float
) -> tuple[PairSide | None, list[Bools]]:
    # From entry burn_in + 2 on, the entry before has the limiting distribution.
    own = min(length, source.burn_in + 2)
    certain = not any(source.underflows_at(n) for n in range(1, own + 1))
    short = own * len(source.chain) ** 2 <= EXPLICIT_WORK
    if not (certain and short) or (source.cycle > 1 and length > own):
        return None, []
    before, here = (source.rows(np.arange(first, own + first - 1)) for first in (1, 2))
    possible = source.patterns[source.which]
    kernels = _backward(
        source.chain.transition, np.exp(source.logs[before]) * possible[before], possible[here]
    )
    if kernels is None:
        return None, []
    supports = [source.support(n) for n in range(1, own + 1)]
    error += source.prior(1)[1] + CONVERGED
    steps = StepsInRow(kernels, error)
    return PairSide(steps, steps[-1] if steps else None), supports


def _backward(transition: Floats, before: Floats, here: Bools) -> Floats | None:
    """P(X_{i-1} = u | X_i = x) for rows of distributions of X_{i-1} and possible values of X_i.

    ``None`` after an underflow. Values that X_i cannot take get the row of one that it can, so they
    do not add to any bound.
    """
    joint = (before[:, :, None] * transition).transpose(0, 2, 1)
    moves = (before[:, :, None] > 0).transpose(0, 2, 1) & (transition.T > 0)
    if (joint[moves] < TINY).any():
        return None
    one = joint[np.arange(len(joint)), here.argmax(axis=1)]
    joint = np.where(here[:, :, None], joint, one[:, None, :])
    kernels: Floats = joint / joint.sum(axis=2, keepdims=True)
    return kernels
