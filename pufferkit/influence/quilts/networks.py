"""Max-influence in Bayesian networks, and the node and quilt that determine the noise.

For X_i, a quilt X_Q and a class Theta of networks over one graph, [Q] Definition 4.1 reads

    e(X_Q | X_i) = max over theta, a, b, x_Q of log P(X_Q = x_Q | X_i = a) / P(X_Q = x_Q | X_i = b)

with a, b of probability above zero; terms where both probabilities are zero are skipped, c/0 is
infinite. The joint distribution of X_i and X_Q is one contraction. The score of a quilt is
card(X_N) / (epsilon - e), and the noise is set by the node whose least score is largest ([Q]
Algorithm 2, Theorem 4.3).

The search goes node by node, best first. Cuts around a node are made one after another, each
bounded by `pufferkit.influence.quilts.cut_influence` from the tables inside the cut; the node whose
least score so far is largest is searched further. When it has no cuts left, its best quilt is
solved from joint distributions, and every other node only needs one quilt with no larger score. On
a tree or a grid few nodes are searched completely: the cost is a few small sums of products for
each of the others, and about a thousand for each of the hardest.

Three facts prune the search. A score is never below card(X_N) / epsilon. Influence never shrinks
when a node joins X_Q. And if S lies in T, the border of S separates X_i from that of T, so that it
has no less influence (data processing): what lies inside a set whose border has influence epsilon
or more is not considered.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from math import inf, prod
from typing import Any, NamedTuple

import numpy as np

from pufferkit import checks
from pufferkit.beliefs.contraction import TINY, JointTable
from pufferkit.beliefs.graph import Graph, bits
from pufferkit.beliefs.network_checks import Node
from pufferkit.beliefs.network_class import NetworkClass, as_network_class
from pufferkit.errors import NotApplicable, TakesLong
from pufferkit.influence.progress import Progress
from pufferkit.influence.quilts.cut_influence import MOST_TABLE, NearTables, Room
from pufferkit.influence.quilts.hardest import QuiltBound, QuiltSearch, hardest_quilt
from pufferkit.influence.quilts.separation import (
    EXHAUSTIVE,
    Cut,
    CutFamily,
    QuiltMasks,
    quilts,
)
from pufferkit.rounding import EPS

_TIE = 1e-13
_ALIKE = 1e-11
_SLACK = 1e-9
_FIRST, _FURTHER = 24, 48  # cuts of every node at first, and then of the node that seems hardest
_PER_CUT, _PER_TABLE = 2e5, 5e6  # about how many nanoseconds a bound and a joint distribution take
_ROUNDS = 2  # rounds before expensive cuts are considered


class Hardest(NamedTuple):
    """The node that determines the noise, its best quilt, and the score for a 1-Lipschitz query.

    ``quilts`` has for every node one that scores no more, by indices in the order of the nodes.
    """

    node: Node
    quilt: tuple[Node, ...]
    influence: float
    score: float
    quilts: tuple[tuple[int, ...], ...] = ()


def hardest_node(
    networks: Any, epsilon: float, progress: Progress | None = None, most_work: float = inf
) -> Hardest:
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
        Called with the number of nodes done, and their total.
    most_work
        Give up after about so many nanoseconds, counted in cuts.

    Raises
    ------
    TakesLong
        If the search does not end within ``most_work``.
    NotApplicable
        If the node that decides has no quilt but Q = {} whose distribution fits into memory.
    """
    theta, epsilon = as_network_class(networks), checks.privacy(epsilon)
    graph = theta.networks[0].graph
    worst, score = _NodeQuilt(0, 0, 0.0, -inf, None), -inf
    work = _WorkLimit(most_work)
    # The first cuts of all nodes are sure to be looked at.
    work.add(_PER_CUT / 8 * _FIRST * len(graph.nodes), begin=False)
    room = Room()
    searches = [
        _NodeSearch(theta, graph, node, epsilon, work, room) for node in range(len(graph.nodes))
    ]
    # The node that seems hardest is searched further, until another seems harder: for most nodes it
    # is enough that they need less than the hardest.
    waiting = [(-search.quick(0.0, _FIRST).score, node) for node, search in enumerate(searches)]
    heapq.heapify(waiting)
    chosen: dict[int, int] = {}
    while waiting:
        bound, node = heapq.heappop(waiting)
        enough = worst.score * (1 + _ALIKE)
        search = searches[node]
        if -bound > enough and not search.ended:
            solved = search.quick(enough, _FURTHER)
            heapq.heappush(waiting, (-solved.score, node))
            continue
        solved = search.best(enough)
        # Nodes that are alike up to rounding are not solved again, but the largest score counts.
        score, chosen[node] = max(score, solved.score), solved.quilt
        if solved.score > enough:
            worst = solved
        if progress is not None:
            progress(len(chosen), len(searches))
    if worst.refused is not None and worst.quilt == 0:
        raise NotApplicable(
            f"node {graph.nodes[worst.node]!r}: every quilt is too large; {worst.refused}"
        )
    quilts = tuple(tuple(bits(chosen[j])) for j in range(len(graph.nodes)))
    hardest = graph.nodes[worst.node]
    return Hardest(hardest, graph.names(worst.quilt), worst.influence, score, quilts)


def best_quilts(
    networks: Any, epsilon: float, nodes: Sequence[Node], progress: Progress | None = None
) -> list[tuple[Hardest, int]]:
    """The quilt with the least score of each of these nodes, and how many nodes are nearby.

    Over the same quilts as `hardest_node`; each node is solved to the end.
    """
    theta, epsilon = as_network_class(networks), checks.privacy(epsilon)
    graph = theta.networks[0].graph
    place = {node: j for j, node in enumerate(graph.nodes)}
    rows = []
    for done, node in enumerate(nodes, 1):
        own = _NodeSearch(theta, graph, place[node], epsilon).best(0.0)
        near = graph.connected(place[node], own.quilt)[0]
        row = Hardest(node, graph.names(own.quilt), own.influence, own.score)
        rows.append((row, near.bit_count()))
        if progress is not None:
            progress(done, len(nodes))
    return rows


@hardest_quilt.register
def _(theta: NetworkClass, search: QuiltSearch) -> QuiltBound:
    node, quilt, influence, score, quilts = hardest_node(
        theta, search.epsilon, search.progress, search.most_work
    )
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
    # A possible entry that underflowed has no known ratio: as a denominator it counts as zero.
    below = np.where(rows & (values >= TINY), logs, -inf)
    worst = 0.0
    for x, own in enumerate(rows):
        ratios = (logs[x, own] - below[:, own]).max(axis=1)
        ratios[x] = 0.0
        worst = max(worst, float(ratios.max()))
    return worst + 4 * table.error + 4 * EPS * float(np.abs(logs[rows]).max()) + 1e-13


class _WorkLimit:
    """How long a search has taken, about, by what it looked at."""

    def __init__(self, most: float = inf) -> None:
        self._most, self._done = most, 0.0

    def add(self, nanoseconds: float, *, begin: bool = True) -> None:
        """Count something that is about to be done; not kept unless it ``begin`` s now."""
        if self._done + nanoseconds > self._most:
            raise TakesLong("the search for quilts takes long on this network")
        self._done += nanoseconds if begin else 0.0


@dataclass(frozen=True)
class _NodeQuilt:
    node: int
    quilt: int
    influence: float
    score: float
    refused: str | None


class _NodeSearch:
    """The quilt of one node with the least score."""

    def __init__(
        self,
        theta: NetworkClass,
        graph: Graph,
        node: int,
        epsilon: float,
        work: _WorkLimit | None = None,
        room: Room | None = None,
    ) -> None:
        self.theta, self.graph, self.node, self.epsilon = theta, graph, node, epsilon
        self._work, self._room = work or _WorkLimit(), room or Room()
        self.refused: str | None = None
        # Whether influences from near tables are exact.
        self.known = all(network.marginals[node] is not None for network in theta.networks)
        self.positive = self.known and all(network.is_positive for network in theta.networks)
        self._single: dict[int, float] = {}
        self._family = CutFamily(graph, node)
        self._cuts: Iterator[Cut] = iter(self._family)
        self.ended, self._rounds = False, 0
        self._near: dict[int, list[NearTables]] = {}
        self._seen: set[QuiltMasks] = set()
        self._bounds: dict[QuiltMasks, float] = {}
        self._vain: list[tuple[int, int]] = []
        self._best = _NodeQuilt(node, 0, 0.0, inf, None)

    def best(self, enough: float) -> _NodeQuilt:
        """The best quilt; exact unless the score is at most ``enough`` or the network too wide."""
        best = self.quick(enough)
        if best.score > enough and self._may_improve:
            best = self._exact(enough)
        for near in chain(*self._near.values()):
            near.forget()
        return best

    @property
    def _may_improve(self) -> bool:
        """Whether joint distributions may say more: of all quilts, or where there are zeros."""
        few = self._family.part.bit_count() <= EXHAUSTIVE
        return self.known and (few or not self.positive)

    def quick(self, enough: float, most: int | None = None) -> _NodeQuilt:
        """The best of the next ``most`` cuts and those before, by bounds from near tables.

        All cuts are tried if ``most`` is left out; the search ends at a score of ``enough``.
        Expensive cuts are postponed in the first rounds.
        """
        self._rounds += 1
        slow = most is None or self._rounds > _ROUNDS
        number = 0
        left: list[Cut] = []
        while self._best.score > enough and (most is None or number < most):
            cut = next(self._cuts, None)
            if cut is None:
                self.ended = not left
                break
            quilt = cut.quilt, cut.near
            if quilt in self._seen:
                continue
            number += 1
            value = 0.0
            if self._score(cut.near, 0.0) < self._best.score:
                value = self._at_most(cut, slow)
                if value == inf and not slow:
                    left.append(cut)
                    continue
            self._seen.add(quilt)
            if value < inf and self.positive:
                self._bounds[quilt] = value
            score = self._score(cut.near, value)
            if score < self._best.score:
                self._best = _NodeQuilt(self.node, cut.quilt, value, score, None)
        self._cuts = chain(left, self._cuts)
        return self._best

    def _at_most(self, cut: Cut, contract: bool) -> float:
        """Upper bound on the influence on a cut, its value if no table has a zero."""
        if not cut.quilt:
            return 0.0
        # X_Q of a set within another separates X_i from that of the other: it has more influence.
        if any(cut.within == within and not cut.inside & ~inside for within, inside in self._vain):
            return self.epsilon
        if cut.within not in self._near:
            grown = self._family.grown[cut.within]
            self._near[cut.within] = [
                NearTables(network, self.graph, self.node, cut.within, grown, self._room)
                for network in self.theta.networks
            ]
        worst = 0.0
        for near in self._near[cut.within]:
            self._work.add(_PER_CUT)
            worst = max(worst, near.influence(cut, contract=contract))
            if worst >= self.epsilon:
                break
        if self.positive and self.epsilon <= worst < inf:
            self._vain.append((cut.within, cut.inside))
        return worst

    def _exact(self, enough: float) -> _NodeQuilt:
        """The best of all quilts considered, by the joint distribution with X_i."""
        best: tuple[int, float, float] = 0, 0.0, inf
        own = quilts(self.graph, self.node, self._seen)
        # Bound, then the place in the list: ties go to the smallest quilt.
        heap = [(self._score(near, 0.0), place, False) for place, (_, near) in enumerate(own)]
        heapq.heapify(heap)
        while heap and best[2] > enough:
            bound, place, ready = heapq.heappop(heap)
            if bound >= best[2] * (1 - _TIE):
                break
            quilt, near = own[place]
            if not ready:
                least = self._at_least(own[place])
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

    def _at_least(self, quilt: QuiltMasks) -> float:
        """Lower bound on an influence: from tables without zeros, or that on one node."""
        least = self._bounds.get(quilt)
        if least is None and self._refused(quilt[0]):
            return inf
        if least is None:
            least = max((self._on_one(q) for q in bits(quilt[0])), default=0.0)
        return max(0.0, least * (1 - _SLACK) - _SLACK)

    def _on_one(self, other: int) -> float:
        if other not in self._single:
            self._single[other] = self._influence(1 << other)
        return self._single[other]

    def _refused(self, quilt: int) -> bool:
        """Whether the joint distribution of X_i and a quilt has too many entries."""
        entries = self._entries(quilt)
        if entries > MOST_TABLE:
            self.refused = f"the joint distribution with its quilt has {entries:.3g} entries"
        return entries > MOST_TABLE

    def _entries(self, quilt: int) -> int:
        sizes = self.theta.networks[0].sizes
        return prod(sizes[node] for node in self._with(quilt))

    def _with(self, quilt: int) -> tuple[Node, ...]:
        return (self.graph.nodes[self.node], *self.graph.names(quilt))

    def _influence(self, quilt: int) -> float:
        if not quilt:
            return 0.0
        if quilt.bit_count() == 1 and (only := quilt.bit_length() - 1) in self._single:
            return self._single[only]
        if self._refused(quilt):
            return inf
        worst = 0.0
        for network in self.theta.networks:
            self._work.add(_PER_TABLE)
            try:
                worst = max(worst, influence_in(network.table(self._with(quilt))))
            except NotApplicable as reason:
                self.refused = str(reason)
                return inf
            if worst >= self.epsilon:
                return inf
        return worst
