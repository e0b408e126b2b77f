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
from collections.abc import Iterable
from dataclasses import dataclass
from math import inf, prod
from typing import Any, NamedTuple

import numpy as np

from pufferkit import checks
from pufferkit.beliefs.bayesian_network import BayesianNetwork
from pufferkit.beliefs.contraction import TINY, JointTable
from pufferkit.beliefs.graph import Graph, bits
from pufferkit.beliefs.network_checks import Node
from pufferkit.beliefs.network_class import NetworkClass, as_network_class
from pufferkit.errors import NotApplicable
from pufferkit.influence.progress import Progress
from pufferkit.influence.quilts.chains import Reading
from pufferkit.influence.quilts.hardest import QuiltBound, hardest_quilt
from pufferkit.influence.quilts.separation import Quilt, quilts
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


@dataclass(frozen=True)
class NetworkQuilt:
    """A quilt of a node: X_Q, X_N (the node included) and X_R, [Q] Definition 4.2."""

    nodes: tuple[Node, ...]
    nearby: tuple[Node, ...]
    remote: tuple[Node, ...]


def separated(network: BayesianNetwork, node: Node, given: Iterable[Node] = ()) -> tuple[Node, ...]:
    """Everything d-separated from ``node`` by ``given``, in topological order."""
    return quilt_of(network, node, given).remote


def quilt_of(network: BayesianNetwork, node: Node, given: Iterable[Node] = ()) -> NetworkQuilt:
    """The quilt with X_Q = ``given``: X_R is all that X_Q separates from the node, X_N the rest."""
    graph = network.graph
    own, mask = _checked(graph, node, given)
    return _named(graph, (mask, graph.connected(own, mask)[0]))


def quilts_of(network: BayesianNetwork, node: Node) -> tuple[NetworkQuilt, ...]:
    """The quilts that are looked at for a node; see `separation.quilts`."""
    graph = network.graph
    own, _ = _checked(graph, node, ())
    return tuple(_named(graph, quilt) for quilt in quilts(graph, own))


def network_influence(networks: Any, node: Node, others: Iterable[Node]) -> float:
    """Max-influence of a node on a set of others, [Q] Definition 4.1; never below the true value.

    Parameters
    ----------
    networks
        A `BayesianNetwork`, or several with the same graph: the largest over the class counts.
    node, others
        X_i, and X_Q without it.

    Raises
    ------
    NotApplicable
        If the joint distribution of all these nodes needs too much memory.

    Examples
    --------
    >>> step = {(0,): [0.9, 0.1], (1,): [0.4, 0.6]}
    >>> chain = BayesianNetwork(
    ...     parents={1: (), 2: (1,), 3: (2,)}, tables={1: {(): [0.8, 0.2]}, 2: step, 3: step}
    ... )
    >>> round(float(np.exp(network_influence(chain, 2, [1, 3]))), 6)
    36.0
    """
    theta = as_network_class(networks)
    graph = theta.networks[0].graph
    _, mask = _checked(graph, node, others)
    chosen = graph.names(mask)
    if not chosen:
        return 0.0
    return max(influence_in(network.table((node, *chosen))) for network in theta.networks)


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
    worst, score = _Solved(0, 0, 0.0, -inf, None), -inf
    chosen: dict[int, int] = {}
    for done, node in enumerate(order, 1):
        found = _NodeSearch(theta, graph, node, epsilon).best(worst.score * (1 + _ALIKE))
        # Nodes that are alike up to rounding are not solved again, but the largest score counts.
        score, chosen[node] = max(score, found.score), found.quilt
        if found.score > worst.score * (1 + _ALIKE):
            worst = found
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
def _(
    theta: NetworkClass,
    length: int,
    epsilon: float,
    reading: Reading = "definition",
    progress: Progress | None = None,
) -> QuiltBound:
    node, quilt, influence, score, quilts = hardest_node(theta, epsilon, progress)
    return QuiltBound(
        theta.description, node, len(theta.nodes), quilt, influence, score, quilts=quilts
    )


def best_quilt(networks: Any, node: Node, epsilon: float) -> Hardest:
    """The best quilt of one node, whatever the others need."""
    theta, epsilon = as_network_class(networks), checks.privacy(epsilon)
    graph = theta.networks[0].graph
    own, _ = _checked(graph, node, ())
    found = _NodeSearch(theta, graph, own, epsilon).best(enough=0.0)
    return Hardest(node, graph.names(found.quilt), found.influence, found.score)


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
class _Solved:
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

    def best(self, enough: float) -> _Solved:
        """Exact, unless the score is at most ``enough``."""
        found: tuple[int, float, float] = 0, 0.0, inf
        own = quilts(self.graph, self.node)
        # Bound, then the place in the list: ties go to the smallest quilt.
        heap = [(self._score(near, 0.0), place, False) for place, (_, near) in enumerate(own)]
        heapq.heapify(heap)
        while heap and found[2] > enough:
            bound, place, ready = heapq.heappop(heap)
            if bound >= found[2] * (1 - _TIE):
                break
            quilt, near = own[place]
            if not ready:
                least = max((self._on_one(q) for q in bits(quilt)), default=0.0)
                least = max(0.0, least * (1 - _SLACK) - _SLACK)
                heapq.heappush(heap, (self._score(near, least), place, True))
                continue
            value = self._influence(quilt)
            score = self._score(near, value)
            if score < found[2] * (1 - _TIE):
                found = quilt, value, score
        return _Solved(self.node, *found, self.refused)

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


def _checked(graph: Graph, node: Node, others: Iterable[Node]) -> tuple[int, int]:
    chosen = tuple(others)
    for name in (node, *chosen):
        if name not in graph.place:
            raise ValueError(f"node: {name!r} is not in the network")
    if node in chosen:
        raise ValueError(f"others: {node!r} cannot be in its own quilt; leave it out")
    return graph.place[node], graph.mask(chosen)


def _named(graph: Graph, quilt: Quilt) -> NetworkQuilt:
    given, near = quilt
    rest = (1 << len(graph.nodes)) - 1 & ~given & ~near
    return NetworkQuilt(graph.names(given), graph.names(near), graph.names(rest))
