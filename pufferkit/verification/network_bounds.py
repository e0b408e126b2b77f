"""What quilts and the influence curve ask for on Bayesian networks, again for `verify`.

Quilts: a release records one for every node. What it separates is found by networkx, its influence
from the joint distribution of the node and the quilt, and card / (epsilon - influence) is held
against the scale ([Q] Theorem 4.3).

Trees: with K_{n,j} the distribution of a neighbour given a node, and for one pair of values of n,

    branch(n, j)        = the least, over paths n, j = v_1, ..., v_m, of
                          mu(v_1) + ... + mu(v_{m-1}) + step(K_{n,v_m}, lambda(v_m without v_{m-1}))
    lambda(n without i) = b + the largest, over pairs, of the sum of branches away from i
    mu(v)               = b + the same, over the branches off the path

and a node loses b plus the largest sum of all its branches (docs/theory.md).
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Mapping, Sequence
from math import inf, log
from typing import Any

import networkx as nx
import numpy as np

from pufferkit.beliefs.bayesian_network import BayesianNetwork
from pufferkit.beliefs.network_class import NetworkClass
from pufferkit.verification.pair_tables import Floats, NotChecked, Work, prefixes, step
from pufferkit.verification.sum_distances import distribution_of

Node = Hashable


def score_of_quilts(
    theta: NetworkClass, workings: Mapping[str, Any], epsilon: float, work: Work
) -> float:
    """The largest score over nodes, each with the quilt that was recorded for it."""
    recorded = workings.get("quilts")
    nodes = theta.nodes
    if recorded is None or len(recorded) != len(nodes):
        raise NotChecked("the file does not hold a quilt for every node")
    graph = nx.DiGraph()
    graph.add_nodes_from(nodes)
    graph.add_edges_from((p, n) for n in nodes for p in theta.networks[0].parents[n])
    worst = 0.0
    for node, places in zip(nodes, recorded, strict=True):
        quilt = [nodes[place] for place in places]
        if node in quilt:
            raise NotChecked(f"the quilt recorded for {node!r} holds the node itself")
        separated = 0
        for other in nodes:
            work.spend(2 * 10**4 + 2000 * len(nodes))
            if other != node and other not in quilt:
                separated += nx.is_d_separator(graph, {node}, {other}, set(quilt))
        influence = max(_influence(network, node, quilt, work) for network in theta.networks)
        room, nearby = epsilon - influence, len(nodes) - len(quilt) - separated
        worst = max(worst, nearby / room if room > 0 else inf)
    return worst


def _influence(network: BayesianNetwork, node: Node, quilt: Sequence[Node], work: Work) -> float:
    """[Q] Definition 4.1, from the joint distribution of the node and its quilt."""
    distributions: dict[Node, dict[tuple[Node, ...], float]] = {}
    rows = network.tables
    tables = {n: {key: row.tolist() for key, row in rows[n].items()} for n in network.nodes}
    for ((value, *others), _), mass in distribution_of(
        network, (node, *quilt), tables, work
    ).items():
        distributions.setdefault(value, {})[tuple(others)] = mass
    whole = {value: sum(distribution.values()) for value, distribution in distributions.items()}
    worst = 0.0
    for x, distribution in distributions.items():
        for y, other in distributions.items():
            for key, mass in distribution.items():
                if key not in other:
                    return inf
                worst = max(worst, log(mass / whole[x]) - log(other[key] / whole[y]))
    return worst


def loss_on_trees(theta: NetworkClass, b: float, work: Work) -> float:
    """The largest loss of a node, over the networks of a class."""
    for network in theta.networks:
        if not network.is_tree:
            raise ValueError("are no tree, and the influence curve needs one")
    return max(_Tree(network, b, work).loss() for network in theta.networks)


class _Tree:
    """Branches of one tree, those with the fewest nodes behind them first."""

    def __init__(self, network: BayesianNetwork, b: float, work: Work) -> None:
        self.network, self.b, self.work = network, b, work
        self.around: dict[Node, list[Node]] = {
            n: [*network.parents[n], *network.children[n]] for n in network.nodes
        }
        self.distributions: dict[Node, Floats] = {}
        for n in network.nodes:
            (parent,) = network.parents[n] or (None,)
            table = network.arrays[n]
            self.distributions[n] = table if parent is None else self.distributions[parent] @ table
        self._shares: dict[tuple[Node, Node], Any] = {}
        self.branch: dict[tuple[Node, Node], Floats] = {}
        for n, j in self._in_order():
            self.branch[n, j] = self._branch(n, j)

    def loss(self) -> float:
        """The largest over nodes."""
        return max(self._spent(n, self.around[n]) for n in self.network.nodes)

    def _in_order(self) -> list[tuple[Node, Node]]:
        """Ways n, j so that those beyond j come before."""
        below = dict.fromkeys(self.network.nodes, 1)
        part: dict[Node, Node] = {}
        for n in reversed(self.network.nodes):
            for parent in self.network.parents[n]:
                below[parent] += below[n]
        for n in self.network.nodes:
            part[n] = part[self.network.parents[n][0]] if self.network.parents[n] else n
        behind = {}
        for n in self.network.nodes:
            for parent in self.network.parents[n]:
                behind[parent, n] = below[n]
                behind[n, parent] = below[part[n]] - below[n]
        return sorted(behind, key=lambda way: behind[way])

    def _spent(self, n: Node, others: Sequence[Node]) -> float:
        """The entry itself, and what hangs on it, for the worst pair of values."""
        support = self.distributions[n] > 0
        if support.sum() < 2:
            return 0.0
        total = np.zeros((len(support),) * 2)
        for j in others:
            total = total + self.branch[n, j]
        return self.b + float(total[np.outer(support, support)].max())

    def _branch(self, n: Node, j: Node) -> Floats:
        best = np.full((len(self.distributions[n]),) * 2, inf)
        support = self.distributions[n] > 0
        paths: list[tuple[float, int, Node, Node, Floats]] = [(0.0, 0, n, j, self._kernel(n, j))]
        count = 0
        while paths and paths[0][0] < best[np.outer(support, support)].max():
            spent, _, before, last, kernel = heapq.heappop(paths)
            self.work.spend(5 * 10**4 + 60.0 * kernel.shape[0] ** 2 * kernel.shape[1])
            beyond = self._spent(last, [k for k in self.around[last] if k != before])
            if (n, last) not in self._shares:
                self._shares[n, last] = prefixes(kernel)
            best = np.minimum(best, spent + step(self._shares[n, last], beyond))
            np.fill_diagonal(best, 0.0)
            for following in self.around[last]:
                if following != before:
                    aside = [k for k in self.around[last] if k not in (before, following)]
                    count += 1
                    further = kernel @ self._kernel(last, following)
                    cost = spent + self._spent(last, aside)
                    heapq.heappush(paths, (cost, count, last, following, further))
        return best

    def _kernel(self, n: Node, j: Node) -> Floats:
        """The distribution of a neighbour given a node."""
        if n in self.network.parents[j]:
            return self.network.arrays[j]
        joint = (self.distributions[j][:, None] * self.network.arrays[n]).T
        sums = joint.sum(axis=1, keepdims=True)
        turned: Floats = np.divide(joint, sums, out=np.zeros_like(joint), where=sums > 0)
        return turned
