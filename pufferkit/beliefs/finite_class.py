"""Finitely many chains, or matrices with any start ([Q] C.4), and the chains of an interval."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pufferkit import checks
from pufferkit.beliefs.base import Member, Mixing
from pufferkit.beliefs.chain_class import ChainClass, KernelBounds, plural
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


@dataclass(frozen=True, eq=False, repr=False)
class BinaryClass(ChainClass):
    """See `ChainClass.binary`.

    The worst chain is at a corner. Write s = 1 - P(1|1), t = 1 - P(0|0), lambda = 1 - s - t, and
    R_n(x, x') for the largest log-ratio of rows x and x' of P^n. With any start, the max-influence
    of X_i on {X_{i-a}, X_{i+b}} is the larger, over the two orders of the states, of

        R_a(x, x') + R_b(x, x') + R_{i-1}(x', x),

    because the prior ratio turns columns of P^a into rows. Let m = |lambda|^n.

    - lambda >= 0: R_n(0, 1) = log (s + t m) / (s (1 - m)). It clearly decreases in s; its
    derivative
      in t has the sign of 1 - m - n (1 - lambda) / lambda < 0. So it grows with both staying
      probabilities, and the corner (high, high) is the worst case of this part.
    - lambda < 0: for odd n, R_n(0, 1) = log t (1 + m) / (t - s m), for even n as above with
      m = |lambda|^n. Both grow with s and t, because |lambda| = s + t - 1 is at most s and at most
      t. So the corner (low, low) is the worst case of this part.

    Hence every quilt of every node has its supremum over the class at one of two matrices: the
    bound is certified by the formula, no grid is needed, and its distance to the supremum is 0.
    """

    kind = "binary"
    recorded = ("low", "high", "states")
    lists_matrices = False
    where_worst = "worst chain of the interval is at a corner, exactly"

    low: float
    high: float
    states: tuple[Hashable, ...]

    def __init__(self, low: float, high: float, states: Iterable[Hashable] = (0, 1)) -> None:
        ends = {"low": checks.real("low", low), "high": checks.real("high", high)}
        checks.assign(self, states=state_labels(states, 2), **ends)
        if not 0 <= self.low <= self.high <= 1:
            raise ValueError(
                f"low, high: staying probabilities need 0 <= low <= high <= 1, "
                f"got low = {self.low:g}, high = {self.high:g}"
            )

    @property
    def description(self) -> str:
        return f"every two-state chain staying with probability {self.low:g} to {self.high:g}"

    def members(self) -> tuple[Member, ...]:
        return tuple(
            Member(
                f"staying probabilities ({stay:g}, {stay:g}), any start",
                MarkovChain([0.5, 0.5], [[stay, 1 - stay], [1 - stay, stay]], self.states),
                any_start=True,
            )
            for stay in dict.fromkeys((self.high, self.low))
        )

    def mixing_bounds(self) -> tuple[Mixing, ...]:
        slowest = max(abs(2 * self.high - 1), abs(2 * self.low - 1))
        if slowest >= 1:
            raise NotApplicable(
                f"the class contains chains that never mix (low = {self.low:g}, "
                f"high = {self.high:g}); keep 0 < low and high < 1"
            )
        # 1 - p is exact near 1, 2 - p - q is not; the bound must not be too good.
        leave, other = 1 - self.high, 1 - self.low
        rarest = min(0.5, leave / (leave + other) * (1 - 1e-15))
        gap = 2 * (1 - slowest) * (1 - 1e-15)
        return (Mixing(rarest, gap, slowest, stationary=False),)

    def nearest(self, chain: MarkovChain, length: int) -> list[Member]:
        stay = np.clip(np.diag(chain.transition), self.low, self.high)
        matrix = [[stay[0], 1 - stay[0]], [1 - stay[1], stay[1]]]
        name = f"staying probabilities ({stay[0]:g}, {stay[1]:g})"
        return [Member(name, MarkovChain(chain.initial, matrix, self.states), True)]

    def boxes(self) -> list[KernelBounds]:
        low = np.array([[self.low, 1 - self.high], [1 - self.high, self.low]])
        high = np.array([[self.high, 1 - self.low], [1 - self.low, self.high]])
        return [("the nearest chain of the interval", low, high, None)]


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
