"""Every chain that mixes at least this well ([Q] 4.4.2)."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from pufferkit import checks
from pufferkit.beliefs.base import Member, Mixing
from pufferkit.beliefs.chain_class import ChainClass, plural
from pufferkit.errors import NotApplicable
from pufferkit.influence.curve.engine import Part, Side
from pufferkit.influence.curve.steps import Diameters, Ratios, off_diagonal
from pufferkit.influence.quilts.chains import MixingInfluence


@dataclass(frozen=True, eq=False, repr=False)
class MixingClass(ChainClass):
    """See `ChainClass.mixing`."""

    kind = "mixing"
    recorded = ("states", "pi_min", "gap", "reversible")
    lists_matrices = False
    names_matrices = False
    fixed_start = None

    states: tuple[Hashable, ...]
    pi_min: float
    gap: float
    reversible: bool

    def __init__(
        self,
        states: int | Iterable[Hashable],
        pi_min: float,
        gap: float,
        reversible: bool = False,
    ) -> None:
        labels = (
            checks.distinct_states(states)
            if isinstance(states, Iterable)
            else tuple(range(checks.whole("states", states, 1)))
        )
        checks.assign(
            self,
            states=labels,
            pi_min=checks.positive("pi_min", pi_min),
            gap=checks.positive("gap", gap),
            reversible=checks.flag("reversible", reversible),
        )
        if self.pi_min * len(labels) > 1 + 1e-12:
            raise ValueError(
                f"pi_min: {len(labels)} states cannot all have at least {self.pi_min:g}; "
                f"give at most {1 / len(labels):g}"
            )
        most = 2 if self.reversible else 1
        if self.gap > most:
            kind = "reversible" if self.reversible else "general"
            raise ValueError(
                f"gap: must be at most {most} for {kind} chains by [Q] (14), got {self.gap:g}"
            )

    @property
    def description(self) -> str:
        kind = "reversible " if self.reversible else ""
        return (
            f"every {kind}chain on {plural(len(self.states))} with pi_min >= {self.pi_min:g} "
            f"and gap >= {self.gap:g}"
        )

    def members(self) -> tuple[Member, ...]:
        raise NotApplicable(
            "the class is known only by pi_min and gap, so there is no matrix to compute with; "
            "use markov_quilt_approx, or name the matrices with ChainClass.any_start"
        )

    def mixing_bounds(self) -> tuple[Mixing, ...]:
        contraction = 1 - self.gap / 2 if self.reversible else math.sqrt(1 - self.gap)
        return (Mixing(self.pi_min, self.gap, contraction, stationary=False),)

    def parts(self, length: int) -> Sequence[Part]:
        """All chains of the class, any start.

        Entries of P^m are within a factor 1 +- Delta_m of the stationary distribution. So rows of
        P^m have log-ratios at most h = log (1 + Delta) / (1 - Delta), and the projective diameter
        is at most 2 h.
        """
        (mixing,) = self.mixing_bounds()
        bound, states = MixingInfluence.tight(mixing).bound, len(self.states)

        def diameters(size: int) -> Diameters:
            return Diameters(np.where(off_diagonal(states) > 0, 2 * bound(size), 0.0))

        left = Side.of_blocks(diameters, length)
        right = Side.of_blocks(lambda size: Ratios(bound(size), states), length)
        return [Part(self.description, left, right, [np.ones(states, dtype=bool)])]
