"""Finitely many chains, or matrices with any start ([Q] C.4)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pufferkit import checks
from pufferkit.beliefs.base import Member, Mixing
from pufferkit.beliefs.chain_class import ChainClass, plural
from pufferkit.beliefs.markov_chain import RAREST, MarkovChain, common_step, state_labels
from pufferkit.checks import Floats
from pufferkit.errors import NotApplicable


def check_chains(chains: Sequence[MarkovChain]) -> float | None:
    """The step of the chains; anything but a list of chains over the same states is refused."""
    if not chains:
        raise ValueError("chains: a class needs at least one chain, got none")
    for chain in chains:
        if not isinstance(chain, MarkovChain):
            raise ValueError(f"chains: must be MarkovChain objects, got {type(chain).__name__}")
        if chain.states != chains[0].states:
            raise ValueError(
                f"chains: all must have the same states in the same order; "
                f"got {chains[0].states} and {chain.states}"
            )
    return common_step("chains", [chain.step for chain in chains])


@dataclass(frozen=True, eq=False, repr=False)
class FiniteClass(ChainClass):
    """See `ChainClass.of`."""

    kind = "finite"
    member, member_kind = MarkovChain, "markov_chain"
    recorded, if_known = ("chains",), ()

    chains: tuple[MarkovChain, ...]
    states: tuple[Hashable, ...] = field(init=False)

    def __post_init__(self) -> None:
        step = check_chains(self.chains)
        checks.assign(self, states=self.chains[0].states, step=step)

    def with_step(self, step: Any) -> FiniteClass:
        return self if step is None else FiniteClass(tuple(c.with_step(step) for c in self.chains))

    @property
    def description(self) -> str:
        count = len(self.chains)
        stationary = sum(chain.is_stationary for chain in self.chains)
        fixed = "fixed initial distribution" + ("s" if count > 1 else "")
        start = {count: "stationary start", 0: fixed}.get(stationary, "mixed starts")
        return f"{plural(count, 'chain')}, {plural(len(self.states))}, {start}{self.private_mark}"

    def members(self) -> tuple[Member, ...]:
        count = len(self.chains)
        return tuple(
            Member(f"chain {n} of {count}", chain, any_start=False)
            for n, chain in enumerate(self.chains, 1)
        )

    def mixing_bounds(self) -> tuple[Mixing, ...]:
        return tuple(_mixing(m.name, m.chain, m.chain.is_stationary) for m in self.members())

    def nearest(self, chain: MarkovChain, length: int) -> list[Member]:
        return list(self.members())


@dataclass(frozen=True, eq=False, repr=False)
class AnyStartClass(ChainClass):
    """See `ChainClass.any_start`."""

    kind = "any_start"
    recorded = ("states", "transitions")

    transitions: tuple[Floats, ...]
    states: tuple[Hashable, ...]

    def __init__(
        self, transitions: Iterable[ArrayLike], states: Iterable[Hashable] | None = None
    ) -> None:
        named = ((f"transition {n}", t) for n, t in enumerate(transitions, 1))
        matrices = checks.stochastic_matrices("transitions", named)
        object.__setattr__(self, "transitions", matrices)
        object.__setattr__(self, "states", state_labels(states, len(matrices[0])))

    @property
    def description(self) -> str:
        count = len(self.transitions)
        noun = "1 matrix" if count == 1 else f"{count} matrices"
        return f"{noun}, {plural(len(self.states))}, any start"

    def members(self) -> tuple[Member, ...]:
        count, distribution = len(self.transitions), np.full(len(self.states), 1 / len(self.states))
        return tuple(
            Member(
                f"matrix {n} of {count}, any start", MarkovChain(distribution, t, self.states), True
            )
            for n, t in enumerate(self.transitions, 1)
        )

    def mixing_bounds(self) -> tuple[Mixing, ...]:
        return tuple(_mixing(m.name, m.chain, stationary=False) for m in self.members())

    def nearest(self, chain: MarkovChain, length: int) -> list[Member]:
        return [
            Member(m.name, MarkovChain(chain.initial, m.chain.transition, self.states), True)
            for m in self.members()
        ]


def _mixing(name: str, chain: MarkovChain, stationary: bool) -> Mixing:
    if not chain.is_irreducible:
        raise NotApplicable(
            f"{name}: the chain is reducible (some states never reach others), so [Q] Lemma 4.8 "
            "does not hold; use markov_quilt"
        )
    if chain.period > 1:
        raise NotApplicable(
            f"{name}: the chain is periodic (period {chain.period}), so [Q] Lemma 4.8 does not "
            "hold; use markov_quilt"
        )
    if chain.pi_min < RAREST:
        raise NotApplicable(
            f"{name}: the probability of some states underflows, so their mixing is unknown; "
            "drop or "
            "merge them, or use markov_quilt"
        )
    gap = chain.reversible_eigengap if chain.is_reversible else chain.eigengap
    if gap <= 0:
        raise NotApplicable(
            f"{name}: the eigengap of P P* is 0, so [Q] Lemma 4.8 gives no bound although the "
            "chain "
            "mixes; use markov_quilt"
        )
    return Mixing(chain.pi_min, gap, chain.contraction, stationary)
