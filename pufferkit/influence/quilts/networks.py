"""Max-influence in Bayesian networks, and the node and quilt that determine the noise.

For X_i, a quilt X_Q and a class Theta of networks over one graph, [Q] Definition 4.1 reads

    e(X_Q | X_i) = max over theta, a, b, x_Q of log P(X_Q = x_Q | X_i = a) / P(X_Q = x_Q | X_i = b)

with a, b of probability above zero; terms where both probabilities are zero are skipped, c/0 is
infinite. The joint distribution of X_i and X_Q is one contraction. The score of a quilt is
card(X_N) / (epsilon - e), and the noise is set by the node whose least score is largest ([Q]
Algorithm 2, Theorem 4.3).

The search goes node by node, best first. Cuts around a node are made one after another, each
bounded by `NearTables` from the tables inside the cut; the node whose
least score so far is largest is searched further. When it has no cuts left, its best quilt is
solved from joint distributions, and every other node only needs one quilt with no larger score. On
a tree or a grid few nodes are searched completely: the cost is a few small sums of products for
each of the others, and about a thousand for each of the hardest.

Three facts prune the search. A score is never below card(X_N) / epsilon. Influence never shrinks
when a node joins X_Q. And if S lies in T, the border of S separates X_i from that of T, so that it
has no less influence (data processing): what lies inside a set whose border has influence epsilon
or more is not considered.

**Quilts.** A quilt of X_i is a set X_Q without X_i. X_R is everything that X_Q d-separates from
X_i, and X_N ("nearby") the rest, X_i included ([Q] Definition 4.2). Q = {} is a quilt too: X_N is
then all that X_i depends on.

Which quilts are considered depends only on the graph, never on epsilon, so that releases compose by
[Q] Theorem 4.4. Redundant ones are left out: if X_q with q in Q is d-separated from X_i by Q - {q},
then Q - {q} is at least as good as Q. For influence never grows when variables are left out, and
Q - {q} still separates X_R from X_i, together with X_q (contraction of independences).
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from math import inf, prod
from typing import Any, NamedTuple

import numpy as np

from pufferkit import checks
from pufferkit.beliefs.bayesian_network import BayesianNetwork, NetworkClass, as_network_class
from pufferkit.beliefs.graph import Graph, Node, bits
from pufferkit.beliefs.junction_tree import TINY, Factor, JointTable, Labels, contract
from pufferkit.checks import Floats
from pufferkit.errors import NotApplicable, TakesLong
from pufferkit.influence.progress import Progress
from pufferkit.rounding import EPS

EXHAUSTIVE = 12
"""Parts of a network with up to this many nodes are searched over all quilts."""

MOST_BORDER, MOST_SETS = 8, 1024
"""Most nodes of a border that is looked at, and most sets that are grown around a node: some
milliseconds a node. Fewer quilts never need less noise."""

_WIDTH = 3  # a wide border influences more, so it counts like so many nodes
_WIDEST = 64  # a border shrinks by one node at a time, so it is hopeless beyond this

QuiltMasks = tuple[int, int]
"""X_Q and X_N, as bits."""


class Cut(NamedTuple):
    """A quilt that is the border of a connected set around a node.

    ``inside`` is that set, in the moral graph of the ancestral set ``within``. Its border separates
    it from the rest; ``quilt`` is the border without redundant nodes, ``near`` is X_N.
    """

    quilt: int
    near: int
    within: int
    inside: int


def quilts(
    graph: Graph, node: int, family: Collection[QuiltMasks] | None = None
) -> list[QuiltMasks]:
    """The quilts considered for a node, always including Q = {}, smallest X_N first.

    All of them, without the redundant ones, if the node is connected to at most `EXHAUSTIVE` nodes,
    itself included. In larger networks those of the `CutFamily` around the node, which may be
    given if they are known.
    """
    part = graph.component(node)
    if part.bit_count() <= EXHAUSTIVE:
        masks = all_quilts(graph, node, part)
    else:
        masks = set(family or ((cut.quilt, cut.near) for cut in CutFamily(graph, node)))
    return sorted(masks, key=lambda quilt: (quilt[1].bit_count(), quilt[0].bit_count(), quilt))


def all_quilts(graph: Graph, node: int, part: int) -> set[QuiltMasks]:
    """Every quilt within a part of the network, without the redundant ones."""
    subsets = [0]
    for j in bits(part & ~(1 << node)):
        subsets += [mask | 1 << j for mask in subsets]
    masks = set()
    for mask in subsets:
        near, working = graph.connected(node, mask)
        if working == mask:
            masks.add((mask, near))
    return masks


class CutFamily:
    """Cuts around a node, one after another: a search may stop before all of them are made.

    First Q = {}. Then, in the moral graph of the whole network and in that of the node's ancestors,

    - the spheres: all nodes at distance r, for every r;
    - borders of at most `MOST_BORDER` nodes: connected sets around the node are grown one node at a
      time, least (size + 3 times the border) first, up to `MOST_SETS` of them, and their borders
      taken; sets with borders of more than 64 nodes are not grown further.

    X_R of each cut is then determined by d-separation, and redundant nodes of the cut are dropped.

    Attributes
    ----------
    grown
        For each ancestral set, {connected set: the node it grew by}.
    """

    def __init__(self, graph: Graph, node: int) -> None:
        self.graph, self.node = graph, node
        self.part = graph.component(node)
        own = (self.part, graph.ancestors[node])
        self.grown: dict[int, dict[int, int]] = {within: {} for within in own}

    def __iter__(self) -> Iterator[Cut]:
        graph, node = self.graph, self.node
        yield Cut(0, graph.connected(node, 0)[0], self.part, self.part)
        for within, grown in self.grown.items():
            # If no unrelated parents collide, cuts in the moral graph are exact.
            whole = within == self.part
            adjacent, plain = graph.married(within) if whole else (graph.moral(within), False)
            done: set[int] = set()
            for inside, cut in _surroundings(adjacent, node, grown):
                if cut in done:
                    continue
                done.add(cut)
                near, working = (inside, cut) if plain else graph.connected(node, cut)
                yield Cut(working, near, within, inside)


def _surroundings(
    adjacent: list[int], node: int, grown: dict[int, int]
) -> Iterator[tuple[int, int]]:
    """Connected sets around a node, with their borders.

    First balls, then sets grown from the node, small ones with small borders first. ``grown``
    records the node by which each set was grown.
    """
    ball, sphere = 1 << node, adjacent[node]
    while sphere:
        yield ball, sphere
        beyond = 0
        for j in bits(sphere):
            ball |= 1 << j
            grown[ball] = j
            beyond |= adjacent[j]
        sphere = beyond & ~ball
    heap = [(0, 1 << node, adjacent[node])]
    seen = {1 << node}
    while heap:
        _, inside, border = heapq.heappop(heap)
        if border.bit_count() <= MOST_BORDER:
            yield inside, border
        for j in bits(border):
            if len(seen) >= MOST_SETS:
                break
            larger = inside | 1 << j
            if larger not in seen:
                seen.add(larger)
                grown[larger] = j
                rim = (border | adjacent[j]) & ~larger
                if (width := rim.bit_count()) <= _WIDEST:
                    heapq.heappush(heap, (larger.bit_count() + _WIDTH * width, larger, rim))


MOST_ENTRIES = 1 << 14
"""Most combinations of values in a sum of products."""

MOST_TABLE = 1 << 20
"""Most entries of the joint distribution of X_i and a quilt that is considered."""

MOST_KEPT = 1 << 23
"""Most entries of all tables stored, for all nodes together."""


class Room:
    """How many entries may still be stored."""

    def __init__(self) -> None:
        self.left = MOST_KEPT


class _Grown(NamedTuple):
    """f for one set, up to a factor: a table, its labels (X_i first), and its relative error."""

    values: Floats
    labels: Labels
    error: float


class NearTables:
    """Max-influence on a cut around a node, from the tables inside the cut only.

    Let A be an ancestral set of a network, S a connected set around X_i in the moral graph of A,
    and Q its border. No table of A reaches from S beyond S and Q, so the joint distribution of A is
    a product f g with

        f(x_i, x_Q) = sum over x_j, j in S - {i}, of the product of the tables of A that touch S,

    and g free of S. Hence P(x_Q | x_i) = f(x_i, x_Q) g(x_Q) / P(x_i), where g(x_Q) also stands for
    the sum over all that lies beyond, and

        log P(x_Q | a) / P(x_Q | b) = log f(a, x_Q) / f(b, x_Q) + log P(b) / P(a)

    wherever g(x_Q) > 0. The largest value over *all* x_Q is never below [Q] Definition 4.1, and
    equal to it if no table has a zero. What of Q is separated from X_i by the rest of Q changes
    nothing: the ratio does not depend on it.

    Where the graph is too wide for P(x_i), the same holds with its bound: P(b) / P(a) is a mean of
    f(b, x_Q) / f(a, x_Q), so it is at most their largest.

    If S grows by j, a node of its border, f becomes

        sum over x_j of f times the tables that touch j and did not touch S,

    one step of elimination. So a family of sets, each grown from another by one node, costs one
    small sum of products for each set, whatever the size of the network.

    Parameters
    ----------
    network
        Its tables.
    graph
        The numbers of the nodes.
    node
        i.
    within
        The ancestral set.
    grown
        {connected set: the node it grew by}; may be added to later.
    room
        For the tables of all nodes.

    Attributes
    ----------
    exact
        Whether the influence is exact if no table has a zero: the distribution of X_i is known.
    """

    def __init__(
        self,
        network: BayesianNetwork,
        graph: Graph,
        node: int,
        within: int,
        grown: Mapping[int, int],
        room: Room | None = None,
    ) -> None:
        self._network, self._graph, self._node = network, graph, node
        self._within, self._grown = within, grown
        own = network.marginals[node]
        self.exact = own is not None
        size = network.sizes[graph.nodes[node]]
        if own is None:
            own = JointTable.exact(np.ones(size))
        self._rows, self._error = own.possible, own.error
        self._own = own.values[own.possible][:, None]
        self._lost = not self._rows.any() or bool((self._own < TINY).any())
        start = _Grown(np.ones(size), (node,), 0.0)
        self._kept: dict[int, _Grown | None] = {1 << node: self._product(start, 0, node)}
        self._room, self._entries = room or Room(), 0

    def forget(self) -> None:
        """Make room for other nodes."""
        self._kept = {inside: own for inside, own in self._kept.items() if not inside & inside - 1}
        self._room.left += self._entries
        self._entries = 0

    def influence(self, cut: Cut, *, contract: bool) -> float:
        """Upper bound on the max-influence of X_i on a cut; infinite where none is known.

        Sets too large to be grown step by step are contracted if ``contract`` is true.
        """
        if self._lost:
            return inf
        grown = self._table(cut.inside)
        if grown is None and contract:
            grown = self._contracted(cut)
        if grown is None:
            return inf
        values = grown.values.reshape(len(grown.values), -1)[self._rows]
        if len(values) < 2:
            return 0.0
        # Each row divided by P(x_i).
        worst = self._largest_ratio(values / self._own)
        return max(0.0, worst) + 4 * (grown.error + self._error + 8 * EPS) + 1e-13

    def _largest_ratio(self, values: Floats) -> float:
        """The largest logarithm of a ratio of two rows, or its bound where P(x_i) is unknown."""
        worst = 1.0
        if self.exact and len(values) > 2:
            values = np.stack([values.max(axis=0), values.min(axis=0)])
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            for one, other in combinations(values, 2):
                # Columns where both are zero are skipped.
                ratios = one / other
                most, least = np.fmax.reduce(ratios), np.fmin.reduce(ratios)
                own = max(most, 1 / least) if self.exact else most / least
                worst = max(worst, float(own)) if own > 0 else worst
            return float(np.log(worst))

    def _contracted(self, cut: Cut) -> _Grown | None:
        """The same by one contraction, for the nodes of the quilt and their ancestors."""
        graph, own = self._graph, 1 << self._node
        labels = (self._node, *bits(cut.quilt))
        if prod(self._network.sizes[graph.nodes[j]] for j in labels) > MOST_TABLE:
            return None
        above = graph.above(cut.quilt | own)
        nearby = cut.near & above
        factors = [
            Factor(JointTable.exact(self._network.arrays[graph.nodes[k]]), self._labels(k))
            for k in bits(above)
            if (graph.parents[k] | 1 << k) & nearby
        ]
        try:
            table = contract(factors, labels, "a quilt", 4 * MOST_TABLE)
        except NotApplicable:
            return None
        # Zeros must be exact zeros, not underflows.
        if (table.values[table.possible] < TINY).any():
            return None
        return _Grown(table.values, labels, table.error)

    def _table(self, inside: int) -> _Grown | None:
        path = []
        while inside not in self._kept:
            path.append(inside)
            inside ^= 1 << self._grown[inside]
        grown = self._kept[inside]
        for larger in reversed(path):
            if grown is not None:
                grown = self._product(grown, inside, self._grown[larger])
            inside = larger
            size = 0 if grown is None else grown.values.size
            if size <= self._room.left:
                self._kept[inside] = grown
                self._room.left -= size
                self._entries += size
        return grown

    def _product(self, grown: _Grown, inside: int, j: int) -> _Grown | None:
        """F for ``inside`` and j; ``None`` if it is too large, or if it might underflow."""
        graph = self._graph
        operands: list[object] = []
        place = {label: n for n, label in enumerate(grown.labels)}
        sizes = list(grown.values.shape)
        floor, factors, entries = _least(grown.values), 0, grown.values.size
        for k in bits((graph.children[j] | 1 << j) & self._within):
            if (graph.parents[k] | 1 << k) & inside:
                continue
            table, labels = self._network.arrays[graph.nodes[k]], self._labels(k)
            for label, size in zip(labels, table.shape, strict=True):
                if label not in place:
                    place[label] = len(sizes)
                    sizes.append(size)
                    entries *= size
            operands += [table, [place[label] for label in labels]]
            floor *= _least(table)
            factors += 1
            # Every product of possible values is above the floor, so that zeros are exact.
            if floor < TINY or entries > MOST_ENTRIES:
                return None
        keep = [label for label in place if label != j or not inside]
        values: Floats = np.einsum(  # type: ignore[call-overload]
            grown.values,
            list(range(len(grown.labels))),
            *operands,
            [place[label] for label in keep],
        )
        top = values.max(initial=0.0)
        if 0 < top < 0.5:
            values = np.ldexp(values, 1 - int(np.frexp(top)[1]))
        summed = sizes[place[j]] if inside else 1
        return _Grown(values, tuple(keep), grown.error + (factors + summed) * EPS)

    def _labels(self, k: int) -> Labels:
        """The axes of the table of a node."""
        return (*(self._graph.place[p] for p in self._network.parents[self._graph.nodes[k]]), k)


def _least(table: Floats) -> float:
    """The least entry above zero."""
    least = float(table.min())
    return least if least > 0 else float(table.min(where=table > 0, initial=1.0))


_TIE, _ALIKE = 1e-13, 1e-11  # scores closer than this, relatively, are not told apart
_SLACK = 1e-9  # taken off a quick bound, far more than its rounding
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
    """The node whose best quilt scores most.

    Theorem: [Q] Algorithm 2 (the Markov Quilt Mechanism on a Bayesian network).

    The noise scale for an L-Lipschitz query is L times the score. Small networks are searched over
    all quilts, larger ones over a family that the graph decides (see
    `quilts`); Q = {} is always in it.

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
    serving = tuple(tuple(bits(chosen[j])) for j in range(len(graph.nodes)))
    hardest = graph.nodes[worst.node]
    return Hardest(hardest, graph.names(worst.quilt), worst.influence, score, serving)


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
