"""Max-influence in Bayesian networks, and the node and quilt that decide the noise.

For X_i, a quilt X_Q and a class Theta of networks over one graph, [Q] Definition 4.1 reads

    e(X_Q | X_i) = max over theta, a, b, x_Q of log P(X_Q = x_Q | X_i = a) / P(X_Q = x_Q | X_i = b)

with a, b of probability above zero; terms where both probabilities are zero are skipped, c/0 is
infinite. The joint distribution of X_i and X_Q is one contraction. The score of a quilt is
card(X_N) / (epsilon - e), and the noise is set by the node whose least score is largest ([Q]
Algorithm 2, Theorem 4.3).

Influence never shrinks when a node joins X_Q, and a score is never below card(X_N) / epsilon. So
quilts are tried in the order of what they can score at best, first by card(X_N) alone, then by the
largest influence on a single node of X_Q, and most are never contracted.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from math import inf, prod
from typing import Any, NamedTuple

import numpy as np

from pufferkit import checks
from pufferkit.beliefs.contraction import TINY, JointTable
from pufferkit.beliefs.graph import Graph, bits
from pufferkit.beliefs.network_checks import Node
from pufferkit.beliefs.network_class import NetworkClass, as_network_class
from pufferkit.errors import NotApplicable
from pufferkit.influence.progress import Progress
from pufferkit.influence.quilts.hardest import QuiltBound, QuiltSearch, hardest_quilt
from pufferkit.influence.quilts.separation import quilts
from pufferkit.rounding import EPS

MOST_TABLE = 1 << 20
"""Quilts whose joint distribution with X_i has more entries than this are not looked at."""

_TIE = 1e-13
_ALIKE = 1e-11
_SLACK = 1e-9


class Hardest(NamedTuple):
    """The node that decides the noise, its best quilt, and the score for a 1-Lipschitz query.

    ``quilts`` has for every node one that scores no more, by places in the order of the nodes.
    """

    node: Node
    quilt: tuple[Node, ...]
    influence: float
    score: float
    quilts: tuple[tuple[int, ...], ...] = ()


def hardest_node(networks: Any, epsilon: float, progress: Progress | None = None) -> Hardest:
    """The node whose best quilt scores most, [Q] Algorithm 2.

    The noise scale for an L-Lipschitz query is L times the score. Small networks are searched over
    all quilts, larger ones over a family that the graph decides (see
    `pufferkit.influence.quilts.separation.quilts`); Q = {} is always in it.

    Parameters
    ----------
    networks
        A `BayesianNetwork`, or several with the same graph.
    epsilon
        Pufferfish privacy for each node.
    progress
        Called with the number of nodes done, and of all.

    Raises
    ------
    NotApplicable
        If the node that decides has no quilt but Q = {} whose distribution fits into memory.
    """
    theta, epsilon = as_network_class(networks), checks.privacy(epsilon)
    graph = theta.networks[0].graph
    order = sorted(range(len(graph.nodes)), key=lambda j: -graph.connected(j, 0)[0].bit_count())
    worst, score = _NodeQuilt(0, 0, 0.0, -inf, None), -inf
    chosen: dict[int, int] = {}
    for done, node in enumerate(order, 1):
        solved = _NodeSearch(theta, graph, node, epsilon).best(worst.score * (1 + _ALIKE))
        # Nodes that are alike up to rounding are not solved again, but the largest score counts.
        score, chosen[node] = max(score, solved.score), solved.quilt
        if solved.score > worst.score * (1 + _ALIKE):
            worst = solved
        if progress is not None:
            progress(done, len(order))
    if worst.refused is not None and worst.quilt == 0:
        raise NotApplicable(
            f"node {graph.nodes[worst.node]!r}: every quilt is out of reach; {worst.refused}"
        )
    quilts = tuple(tuple(bits(chosen[j])) for j in range(len(graph.nodes)))
    hardest = graph.nodes[worst.node]
    return Hardest(hardest, graph.names(worst.quilt), worst.influence, score, quilts)


@hardest_quilt.register
def _(theta: NetworkClass, search: QuiltSearch) -> QuiltBound:
    node, quilt, influence, score, quilts = hardest_node(theta, search.epsilon, search.progress)
    return QuiltBound(
        theta.description, node, len(theta.nodes), quilt, influence, score, quilts=quilts
    )


def influence_in(table: JointTable) -> float:
    """Max-influence of the first variable of a joint distribution on all others, rounded up."""
    rows = table.possible.reshape(len(table.values), -1)
    values = np.ascontiguousarray(table.values).reshape(rows.shape)
    can_be = rows.any(axis=1)
    if can_be.sum() < 2:
        return 0.0
    rows, values = rows[can_be], values[can_be]
    distributions = values.sum(axis=1, keepdims=True)
    if (distributions < TINY).any():
        return inf
    logs = np.log(np.maximum(values, TINY)) - np.log(distributions)
    # A possible entry lost to underflow has no known ratio: as a denominator it counts as zero.
    below = np.where(rows & (values >= TINY), logs, -inf)
    worst = 0.0
    for x, own in enumerate(rows):
        ratios = (logs[x, own] - below[:, own]).max(axis=1)
        ratios[x] = 0.0
        worst = max(worst, float(ratios.max()))
    return worst + 4 * table.error + 4 * EPS * float(np.abs(logs[rows]).max()) + 1e-13


@dataclass(frozen=True)
class _NodeQuilt:
    node: int
    quilt: int
    influence: float
    score: float
    refused: str | None


class _NodeSearch:
    """The quilt of one node with the least score."""

    def __init__(self, theta: NetworkClass, graph: Graph, node: int, epsilon: float) -> None:
        self.theta, self.graph, self.node, self.epsilon = theta, graph, node, epsilon
        self.refused: str | None = None
        self._single: dict[int, float] = {}

    def best(self, enough: float) -> _NodeQuilt:
        """Exact, unless the score is at most ``enough``."""
        best: tuple[int, float, float] = 0, 0.0, inf
        own = quilts(self.graph, self.node)
        # Bound, then the place in the list: ties go to the smallest quilt.
        heap = [(self._score(near, 0.0), place, False) for place, (_, near) in enumerate(own)]
        heapq.heapify(heap)
        while heap and best[2] > enough:
            bound, place, ready = heapq.heappop(heap)
            if bound >= best[2] * (1 - _TIE):
                break
            quilt, near = own[place]
            if not ready:
                least = max((self._on_one(q) for q in bits(quilt)), default=0.0)
                least = max(0.0, least * (1 - _SLACK) - _SLACK)
                heapq.heappush(heap, (self._score(near, least), place, True))
                continue
            value = self._influence(quilt)
            score = self._score(near, value)
            if score < best[2] * (1 - _TIE):
                best = quilt, value, score
        return _NodeQuilt(self.node, *best, self.refused)

    def _score(self, near: int, influence: float) -> float:
        room = self.epsilon - influence
        return near.bit_count() / room if room > 0 else inf

    def _on_one(self, other: int) -> float:
        if other not in self._single:
            self._single[other] = self._influence(1 << other)
        return self._single[other]

    def _influence(self, quilt: int) -> float:
        if not quilt:
            return 0.0
        if quilt.bit_count() == 1 and (only := quilt.bit_length() - 1) in self._single:
            return self._single[only]
        nodes = (self.graph.nodes[self.node], *self.graph.names(quilt))
        worst = 0.0
        for network in self.theta.networks:
            entries = prod(network.sizes[node] for node in nodes)
            if entries > MOST_TABLE:
                self.refused = f"the joint distribution with its quilt has {entries:.3g} entries"
                return inf
            try:
                worst = max(worst, influence_in(network.table(nodes)))
            except NotApplicable as reason:
                self.refused = str(reason)
                return inf
            if worst >= self.epsilon:
                return inf
        return worst
