"""Quilts around several consecutive entries: [Q] Theorem 4.3 with the block as one node.

Let the secret be the values of X_i, ..., X_j, j = i + w - 1. Given them, the left of the block
depends on X_i only and the right on X_j only. So the quilt {X_{i-a}, X_{j+b}} separates the block
from what lies beyond it, and its max-influence is at most

    max over x, x' of [prior_i + left_a](x, x')  +  max over y, y' of right_b(y, y'),

with the tables of `pufferkit.influence.quilts.chains`; the two pairs are the first and the last
entries of the two values. The proof of the theorem holds for a block in place of a node: with a + b
+ w - 2 nearby entries the block loses (a + b + w - 2) L / scale + influence. Any event about the
block is a mixture of its values, and loses no more.

Distances on the right count from X_i here, b + w - 1 of them, so that the search for single nodes
applies: closer endpoints would lie within the block and reveal everything.
"""

from __future__ import annotations

from math import inf

from pufferkit.beliefs.event_class import EventClass
from pufferkit.beliefs.secrets import Sets
from pufferkit.errors import NotApplicable
from pufferkit.influence.quilts.chains import ChainInfluence, StationaryInfluence
from pufferkit.influence.quilts.hardest import (
    QuiltBound,
    QuiltSearch,
    hardest_corner,
    hardest_quilt,
    quilt_bound,
)
from pufferkit.influence.quilts.search import Pair, Quilt, best_quilt, hardest_node


@hardest_quilt.register
def _(theta: EventClass, search: QuiltSearch) -> QuiltBound:
    if any(isinstance(one, Sets) and one.window > 1 for one in theta.hidden):
        raise NotApplicable(
            "markov_quilt has no theorem for sets of entries that lie apart; use influence_curve"
        )
    theta.check_length(search.length)
    members = theta.known_chains()
    bounds = []
    for window in sorted({min(one.window, search.length) for one in theta.hidden}):
        if window == 1:
            bounds.append(hardest_corner(theta.beliefs, members, search))
            continue
        last = search.length - window + 1
        for member in members:
            influence = StationaryInfluence(member.chain, search.reading)

            def solve(node: int, enough: float, hint: Quilt | None) -> Quilt:
                block = _Block(influence, node, window, search.length)  # noqa: B023
                return best_quilt(block, search.epsilon, enough, hint)

            node, quilt = hardest_node(solve, 1, last, 0.0, same_everywhere=True)
            around = f"around {window} entries from the node on"
            bounds.append(
                QuiltBound.of_chain(member.name, node, search.length, quilt, search.reading, around)
            )
    return max(bounds, key=lambda bound: bound.score)


@quilt_bound.register
def _(theta: EventClass, length: int, epsilon: float) -> QuiltBound:
    raise NotApplicable("the pairwise curve bounds events by itself")


class _Block:
    """The influence of a block on its endpoints, in the terms of the search."""

    def __init__(self, chain: ChainInfluence, node: int, window: int, length: int) -> None:
        self._chain, self._node, self._window = chain, node, window
        self.left, self.right = node, length - node + 1

    def whole(self, a: int, b: int) -> tuple[float, Pair]:
        pair = (0, 0)
        total = 0.0
        if a < self.left:
            total += self._chain.worst_pair(self._node, a, None)[0]
        if b < self.right:
            total += self.right_part(b, pair)
        return total, pair

    def left_part(self, a: int, pair: Pair) -> float:
        return self._chain.worst_pair(self._node, a, None)[0]

    def right_part(self, b: int, pair: Pair) -> float:
        if b < self._window:
            return inf
        return self._chain.worst_pair(self._node, None, b - self._window + 1)[0]

    def slack(self, n: int, side: int) -> float:
        return 0.0  # already included in the parts
