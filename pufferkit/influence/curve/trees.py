"""The influence curve on tree-shaped networks: every node has at most one parent.

Secrets: any two values of one node. Beliefs: one tree-shaped network, a class by the largest loss.
Releases: any with per-node costs.

Let replacing the value y of node n by y' move the log-likelihood of the output by at most
cost_n(y, y'). For neighbours i and n the kernel is K_{i,n}(x, y) = P(X_n = y | X_i = x), in either
direction of the arrow. Write "n without i" for the part of the tree that hangs on n when the edge
to i is cut. All matrices are over pairs of values that the node can take; step is the transport
programme of `pufferkit.influence.curve.transport_programme`, cl the triangle closure.

    branch(n, j)         = step(K_{n,j}; Lambda(j without n))
    Lambda(n without i)  = cl(cost_n + sum over neighbours j != i of branch(n, j))
    loss_i               = cl(cost_i + sum over all neighbours n of branch(i, n))

A release of these costs is epsilon-Pufferfish private for epsilon = the largest entry of any
loss_i. The *scalar* curve is the same with Lambda replaced by its largest entry.

*Proof.* Let f(data) be the likelihood of an output. Fix the data z outside "n without i", and let
H_z(y) be the mean of f over the rest of "n without i" given X_n = y. Claim: log H_z varies from y
to y' by at most Lambda(n without i)(y, y'), for every z. First exchange the entry of n itself
(cost_n). Given X_n, the parts that hang on its other neighbours j are independent, so their
distributions are exchanged one after the other, all for the same pair y, y'. With everything
outside "j without n" fixed, the logarithm of the mean of f given X_j varies by at most Lambda(j
without n), by induction; so exchanging the distribution of X_j given y for the one given y' costs
at most step_{y,y'}(K_{n,j}; Lambda(j without n)). The closure holds because log-ratios add up along
y, w, y'. The same around i, with nothing outside, gives loss_i.

*Blocks.* A branch may also skip over a path n, v_1 = j, ..., v_m of the tree:

    branch_{y,y'}(n, j) <= mu(v_1) + ... + mu(v_{m-1}) + step_{y,y'}(K_{n,v_m}; Lambda(v_m without
                           v_{m-1}))
    mu(v) = the largest entry of cost_v + the sum of branch(v, k) over the neighbours k of v that
            are off the path (0 if v has one possible value)

*Proof.* Fix all data outside the branch. Let F(u; c) be the mean of f given X_{v_m} = u and the
entries c of v_1 ... v_{m-1}; parts off the path depend on c alone, the part beyond v_m on u alone.
For one u, exchanging c for c' entry by entry, each with the parts that hang on it, costs at most
the sum of the mu. For one c, log F varies by at most Lambda(v_m without v_{m-1}) in u, and then so
does log G, where G(u) is the smallest F(u; c). The mean of f given y is at most e^(sum of mu) times
the mean of G(X_{v_m}) given y, and given y' it is at least the mean of G(X_{v_m}) given y'.

Each pair y, y' may use the path that is best for it, because the bound is for that pair. On a path
this is the curve of a chain, with at most its value. Blocks use the largest entry of Lambda.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, singledispatch
from math import inf
from typing import Any, NamedTuple

import numpy as np

from pufferkit import checks
from pufferkit.beliefs.base import Beliefs
from pufferkit.beliefs.field_class import FieldClass
from pufferkit.beliefs.network_checks import Node
from pufferkit.beliefs.network_class import NetworkClass, as_network_class
from pufferkit.checks import Floats
from pufferkit.influence.curve.graphs import GraphCurve
from pufferkit.influence.curve.pairs import LARGEST, off_diagonal
from pufferkit.influence.curve.plan_bases import bases_of, blank, packed
from pufferkit.influence.curve.tree_passes import Passes
from pufferkit.influence.curve.tree_steps import TreeKernels
from pufferkit.rounding import EPS, largest_within, last_passing, round_up

NodeProfile = float | Mapping[Node, float] | Sequence[float]
"""Event-level epsilon: one number, one for each node, or a list in the order of the nodes."""

_PRECISION = 1e-8
_PAIR_PRECISION = 1e-6


class TreeLoss(NamedTuple):
    """The largest loss, its node, the network, and whether the pairwise curve gave it."""

    value: float
    node: Node
    network: int
    pairwise: bool = False


@singledispatch
def record_loss(theta: Beliefs, cost: Floats) -> float:
    """Pufferfish epsilon when replacing a value by another costs ``cost`` at every named entry.

    Changing all entries that depend on an entry costs no more than the total spent on them.
    """
    return round_up(float(cost.max()) * len(theta.entries or ()))


@record_loss.register
def _(theta: NetworkClass, cost: Floats) -> float:
    # Parts without an edge between them are independent.
    whole = round_up(float(cost.max()) * theta.largest_part)
    if theta.networks[0].is_tree:
        return min(whole, TreeCurve(theta, cost).loss(1.0).value)
    return min(whole, GraphCurve(theta.networks, theta.states, cost).loss(1.0).value)


@record_loss.register
def _(theta: FieldClass, cost: Floats) -> float:
    return GraphCurve(theta.fields, theta.states, cost).loss(1.0).value


def tree_work(sizes: Iterable[int]) -> float:
    """Approximate nanoseconds for the curve of a tree of nodes with so many values."""
    return sum(1.2e6 + 5e3 * size**2 for size in sizes)


class TreeCurve:
    """Event-level epsilon b against Pufferfish epsilon, for a class of tree-shaped networks.

    Parameters
    ----------
    networks
        Networks with the same graph.
    distance
        For each pair of states of the class, in their order: replacing one by the other costs b
        times this. By default 1 for any two.
    pairwise
        Whether to use the pairwise curve too; otherwise the scalar curve only.
    """

    def __init__(
        self, networks: Any, distance: Floats | None = None, *, pairwise: bool = True
    ) -> None:
        self.beliefs = as_network_class(networks)
        states = self.beliefs.states
        self.distance = off_diagonal(len(states)) if distance is None else distance
        self.pairwise = pairwise
        self._place = {state: place for place, state in enumerate(states)}
        self._trees = [TreeKernels(network) for network in self.beliefs.networks]

    def loss(self, b: NodeProfile) -> TreeLoss:
        """The largest loss over networks and nodes."""
        spent = _profile(self.beliefs.nodes, b)
        each = [self._largest(number, spent) for number in range(len(self._trees))]
        return max(each, key=lambda loss: loss.value)

    def losses(self, b: NodeProfile) -> dict[Node, float]:
        """The loss of every node, the largest over the class."""
        return {node: float(pairs.max()) for node, pairs in self.pair_losses(b).items()}

    def pair_losses(self, b: NodeProfile) -> dict[Node, Floats]:
        """For every node, the loss of each pair of states; 0 if one is not a value of the node."""
        spent = _profile(self.beliefs.nodes, b)
        size = len(self.beliefs.states)
        tables = {node: np.zeros((size, size)) for node in self.beliefs.nodes}
        for number, tree in enumerate(self._trees):
            scalar = self._passes(number, spent, pairwise=False).losses()
            own = self._passes(number, spent, pairwise=True).losses() if self.pairwise else scalar
            for n, node in enumerate(tree.network.nodes):
                where = np.ix_(self._values(tree, n), self._values(tree, n))
                smaller = np.minimum(own[n], scalar[n])
                tables[node][where] = np.maximum(tables[node][where], smaller)
        return tables

    def solve(self, epsilon: float) -> tuple[float, TreeLoss]:
        """The largest b that the search reached, and the binding loss.

        The hardest network is solved; the others are only checked at its b.
        """
        epsilon = checks.privacy(epsilon)
        b, binding = inf, TreeLoss(0.0, self.beliefs.nodes[0], 0)
        for number in range(len(self._trees)):
            most, loss = self._solve(number, epsilon, b)
            if most < b:
                b, binding = most, loss
        return b, binding

    def pair_record(self, b: float) -> list[str | None]:
        """For every network the bases of the plans along all its edges, for `verify`; see `packed`.

        Edges in the order of their first node, then of their second; blank where the pairwise curve
        was not used.
        """
        spent = dict.fromkeys(self.beliefs.nodes, b)
        return [
            packed(self._bases(tree, self._passes(number, spent, pairwise=True)))
            for number, tree in enumerate(self._trees)
        ]

    def _bases(self, tree: TreeKernels, passes: Passes) -> Iterator[bytes]:
        for n, parent in enumerate(tree.parent):
            for j in sorted([*tree.children[n], *([parent] if parent >= 0 else [])]):
                way, beyond = tree.way(n, j), passes.variation(j, n)
                assert way is not None
                if way.pairs is None or float(beyond.max()) > LARGEST:
                    yield blank(way.kernel)
                else:
                    way.pairs(beyond)
                    yield bases_of(way.pairs)

    def _solve(self, number: int, epsilon: float, most: float) -> tuple[float, TreeLoss]:
        """The largest b up to ``most`` for one network: by the scalar curve, then by pairs."""
        nodes, count = self.beliefs.nodes, len(self._trees[number].network)

        @cache
        def loss(b: float, pairwise: bool) -> TreeLoss:
            return self._by(number, dict.fromkeys(nodes, b), pairwise)

        # The upper end is that of independent entries; losses are rounded up.
        furthest = float(self.distance.max()) or 1.0
        most = min(most, epsilon / furthest * (1 - (count + 32) * EPS))
        if self.pairwise:
            by_pairs = largest_within(
                lambda b: (loss(b, True).value, loss(b, True)), epsilon, most, most, _PRECISION
            )
            # No larger b passes the scalar curve if this one does not: its loss grows with b.
            if by_pairs is not None and (
                by_pairs[0] >= most
                or loss(min(most, by_pairs[0] * (1 + 2 * _PRECISION)), False).value > epsilon
            ):
                return by_pairs
        low = most
        if loss(most, False).value > epsilon:
            # If the whole tree is paid, the loss is at most epsilon.
            floor = epsilon / furthest / count * (1 - 1e-9)
            high = most
            while low > floor:
                high, low = low, max(floor, low / 4)
                if loss(low, False).value <= epsilon:
                    break
            low = last_passing(lambda b: epsilon - loss(b, False).value, low, high, _PRECISION)
        best = low, loss(low, False)
        if not self.pairwise or low >= most or loss(low, True).value > epsilon:
            return best
        high = low
        while high < most:
            low, high = high, min(most, 1.3 * high)
            if loss(high, True).value > epsilon:
                low = last_passing(
                    lambda b: epsilon - loss(b, True).value, low, high, _PAIR_PRECISION
                )
                break
        return (low, loss(low, True)) if low > best[0] else best

    def _largest(self, number: int, spent: Mapping[Node, float]) -> TreeLoss:
        scalar = self._by(number, spent, pairwise=False)
        if not self.pairwise:
            return scalar
        return min(self._by(number, spent, pairwise=True), scalar, key=lambda loss: loss.value)

    def _by(self, number: int, spent: Mapping[Node, float], pairwise: bool) -> TreeLoss:
        losses = [float(own.max()) for own in self._passes(number, spent, pairwise).losses()]
        worst = int(np.argmax(losses))
        nodes = self._trees[number].network.nodes
        return TreeLoss(losses[worst], nodes[worst], number, pairwise)

    def _passes(self, number: int, spent: Mapping[Node, float], pairwise: bool) -> Passes:
        tree = self._trees[number]
        costs = []
        for n, node in enumerate(tree.network.nodes):
            own = self._values(tree, n)
            costs.append(spent[node] * self.distance[np.ix_(own, own)])
        return Passes(tree, costs, pairwise)

    def _values(self, tree: TreeKernels, n: int) -> list[int]:
        """Indices among the states of the values that a node can take."""
        values = tree.network.values[tree.network.nodes[n]]
        return [
            self._place[value]
            for value, possible in zip(values, tree.supports[n], strict=True)
            if possible
        ]


def _profile(nodes: tuple[Node, ...], b: NodeProfile) -> dict[Node, float]:
    """Event-level epsilon of every node."""
    if isinstance(b, Mapping):
        known = set(nodes)
        for node in b:
            if node not in known:
                raise ValueError(f"b: names {node!r}, which is not a node; leave it out")
        for node in nodes:
            if node not in b:
                raise ValueError(f"b: has no entry for node {node!r}; give every node its own")
        amounts = checks.numbers("b", [b[node] for node in nodes])
    else:
        amounts = checks.numbers("b", b)
        if amounts.ndim == 0:
            amounts = np.full(len(nodes), float(amounts))
        if amounts.shape != (len(nodes),):
            raise ValueError(
                f"b: has shape {amounts.shape}, but the network has {len(nodes)} nodes"
            )
    if (amounts < 0).any():
        raise ValueError(f"b: event-level epsilon must not be negative, got {amounts.min():g}")
    return dict(zip(nodes, amounts.tolist(), strict=True))
