"""Quilts of a segment with unobserved entries.

An entry that was not observed cannot move the answer. In the proof of [Q] Theorem 4.3 the nearby
entries of a quilt are exchanged at L / scale each, and such an entry at nothing. So

    score_i = min over quilts of  (observed entries nearby) / (epsilon - max-influence)

is enough for entry i, and the largest score over *all* entries of the segment, observed or not, is
enough for the release: an entry in a gap is a secret like any other, and the chain runs on through
it. No entry may be skipped in favour of its neighbours, because the number of observed entries
differs from place to place; but a quilt that scores no more than the worst entry so far ends its
search.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch
from typing import Protocol

import numpy as np

from pufferkit.beliefs.base import Beliefs
from pufferkit.beliefs.binary_class import BinaryClass
from pufferkit.beliefs.chain_class import ChainClass
from pufferkit.beliefs.finite_class import AnyStartClass, FiniteClass
from pufferkit.beliefs.mixing_class import MixingClass
from pufferkit.beliefs.region_class import RegionClass
from pufferkit.data.series import observed_places
from pufferkit.influence.quilts.chains import InfluenceReading
from pufferkit.influence.quilts.hardest import QuiltBound, influence_of
from pufferkit.influence.quilts.mixing import MixingInfluence
from pufferkit.influence.quilts.search import NOTHING, Quilt, Solve, Until


class Solver(Protocol):
    """Bounds on influence that hold for one chain, or for all chains of a class."""

    def solve(self, length: int, epsilon: float, until: Until | None = None) -> Solve:
        """The best quilt of any one node."""
        ...


Named = Sequence[tuple[str, Solver]]
"""Bounds, named by the chains they hold for; together they cover a class."""


@singledispatch
def solvers(theta: Beliefs, length: int, reading: InfluenceReading = "definition") -> Named | None:
    """The bounds whose quilts may count observed entries only; ``None`` if a class has none."""
    return None


@solvers.register(FiniteClass)
@solvers.register(AnyStartClass)
@solvers.register(BinaryClass)
def _(theta: ChainClass, length: int, reading: InfluenceReading = "definition") -> Named | None:
    return [(m.name, influence_of(m, reading, length)) for m in theta.members()]


@solvers.register
def _(theta: RegionClass, length: int, reading: InfluenceReading = "definition") -> Named | None:
    corners = theta.corners()
    if corners is None:
        return None
    return [(m.name, influence_of(m, reading, length)) for m in corners]


@solvers.register
def _(theta: MixingClass, length: int, reading: InfluenceReading = "definition") -> Named | None:
    return [(theta.description, MixingInfluence.tight(m)) for m in theta.mixing_bounds()]


def hardest_observed(
    named: Named, runs: Sequence[int], epsilon: float, whole: QuiltBound
) -> QuiltBound:
    """The hardest node of a segment given as runs; ``whole`` if counting every entry is as good.

    Parameters
    ----------
    named
        From `solvers`, or bounds from mixing.
    runs
        Lengths of the runs of entries, alternately observed and not observed.
    whole
        The bound for the unbroken segment, which no node exceeds.
    """
    seen = observed_places(runs)
    until = np.concatenate([[0], np.cumsum(seen)])
    length = len(seen)
    # The middle of the longest observed run first: often it needs as much as an unbroken segment.
    ends = np.cumsum(runs)
    widest = 2 * int(np.argmax(runs[::2]))
    middle = int(ends[widest]) - runs[widest] // 2
    binding, worst, name = 0, NOTHING, ""
    for belief, solver in named:
        solve = solver.solve(length, epsilon, until)
        hint: Quilt | None = None
        for node in (max(1, middle), *range(1, length + 1)):
            hint = quilt = solve(node, max(0.0, worst.score), hint)
            if quilt.score > worst.score:
                binding, worst, name = node, quilt, belief
                if worst.score >= whole.score * (1 - 1e-9):
                    return whole
    return QuiltBound.of_chain(name, binding, length, worst, whole.variant, *whole.notes)
