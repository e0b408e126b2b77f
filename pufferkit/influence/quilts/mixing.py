"""Bounds on max-influence from how fast a chain mixes: [Q] Lemmas 4.8 and C.1.

If |P^t(x, y) / pi(y) - 1| <= Delta_t < 1 for all states, then with h(t) = log (1 + Delta_t) /
(1 - Delta_t) the max-influence of X_i on {X_{i-a}, X_{i+b}} is at most 2 h(a) + h(b), on {X_{i-a}}
at most 2 h(a), on {X_{i+b}} at most h(b), for every initial distribution.

The paper takes Delta_t = exp(-gap t / 2) / pi_min. The operator norm c of P on functions of
stationary mean zero gives more: P^t(x, y) / pi(y) - 1 is the inner product of two such functions
(the centred point masses at x and y) with P^t between them, so

    Delta_t = c^t (1 / pi_min - 1),

which is smaller, because c <= exp(-gap / 2). In a stationary chain the prior ratio is exact, the
time-reversed kernel has the same norm, and the 2 in 2 h(a) becomes 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, inf, log, log1p
from typing import Literal

from pufferkit.beliefs.base import Mixing
from pufferkit.beliefs.chain_class import ChainClass
from pufferkit.beliefs.mixing_class import MixingClass
from pufferkit.influence.quilts.hardest import QuiltBound, influence_between, quilt_bound
from pufferkit.influence.quilts.search import (
    Pair,
    Quilt,
    Solve,
    Until,
    best_quilt,
    hardest_node,
)

_ONLY: Pair = (0, 1)


@dataclass(frozen=True)
class MixingInfluence:
    """h(t) = log (1 + Delta_t) / (1 - Delta_t) with Delta_t = exp(-rate t) * factor."""

    rate: float
    factor: float
    left_weight: int

    @classmethod
    def paper(cls, mixing: Mixing) -> MixingInfluence:
        """As in [Q] Lemma C.1."""
        return cls(mixing.gap / 2, 1 / mixing.pi_min, 2)

    @classmethod
    def tight(cls, mixing: Mixing) -> MixingInfluence:
        """From the operator norm of P."""
        rate = -log(mixing.contraction) * (1 - 1e-15) if mixing.contraction > 0 else inf
        return cls(rate, 1 / mixing.pi_min - 1, 1 if mixing.stationary else 2)

    def bound(self, steps: int) -> float:
        """h(steps); infinite while Delta is not below 1."""
        delta = self.factor * exp(-self.rate * steps) * (1 + 1e-12) if self.factor > 0 else 0.0
        if delta >= 1:
            return inf
        return (log1p(delta) - log1p(-delta)) * (1 + 1e-14)

    def solve(self, length: int, epsilon: float, until: Until | None = None) -> Solve:
        """The best quilt of any one node of a segment, of which perhaps not all was observed."""
        return lambda node, enough, hint: best_quilt(
            _MixingNode(self, node, length - node + 1), epsilon, enough, hint, until
        )

    def hardest(self, length: int, epsilon: float) -> tuple[int, Quilt]:
        """The node with the largest least score; every node has the same influence."""
        return hardest_node(self.solve(length, epsilon), 1, length, 0.0, same_everywhere=True)


def hardest_by_mixing(
    theta: ChainClass, length: int, epsilon: float, bound: Literal["paper", "tight"]
) -> QuiltBound:
    """[Q] Algorithm 4: the hardest node when only the speed of mixing is used."""
    influences, note = influences_by_mixing(theta, bound)
    solved = [influence.hardest(length, epsilon) for influence in influences]
    node, quilt = max(solved, key=lambda pair: pair[1].score)
    return QuiltBound.of_chain(theta.description, node, length, quilt, bound, note)


def influences_by_mixing(
    theta: ChainClass, bound: Literal["paper", "tight"]
) -> tuple[list[MixingInfluence], str]:
    """The bounds that together hold for every chain of a class, and their source."""
    bounds = theta.mixing_bounds()
    if bound == "paper":
        pi_min, gap = min(m.pi_min for m in bounds), min(m.gap for m in bounds)
        note = f"pi_min {pi_min:.6g}, gap {gap:.6g}, [Q] Lemma C.1"
        return [MixingInfluence(gap / 2, 1 / pi_min, 2)], note
    if bound == "tight":
        note = "influence from the operator norm of P"
        return [MixingInfluence.tight(m) for m in bounds], note
    raise ValueError(f"bound: must be 'paper' or 'tight', got {bound!r}")


@quilt_bound.register
def _(theta: MixingClass, length: int, epsilon: float) -> QuiltBound:
    return hardest_by_mixing(theta, length, epsilon, "tight")


@influence_between.register
def _(theta: MixingClass, node: int, left: int | None = None, right: int | None = None) -> float:
    (mixing,) = theta.mixing_bounds()
    bound = MixingInfluence.tight(mixing)
    total = 2 * bound.bound(left) if left is not None else 0.0
    return total + (bound.bound(right) if right is not None else 0.0)


@dataclass(frozen=True)
class _MixingNode:
    mixing: MixingInfluence
    left: int
    right: int

    def whole(self, a: int, b: int) -> tuple[float, Pair]:
        total = self.left_part(a, _ONLY) if a < self.left else 0.0
        total += self.right_part(b, _ONLY) if b < self.right else 0.0
        return total, _ONLY

    def left_part(self, a: int, pair: Pair) -> float:
        return self.mixing.left_weight * self.mixing.bound(a)

    def right_part(self, b: int, pair: Pair) -> float:
        return self.mixing.bound(b)

    def slack(self, n: int, side: int) -> float:
        return 0.0
