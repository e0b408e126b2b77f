"""Quilts and the influence curve on Bayesian networks, recomputed for `verify`.

Quilts: a release records one for every node. What it separates is computed by networkx, its
influence from the joint distribution of the node and the quilt, and card / (epsilon - influence) is
compared with the scale ([Q] Theorem 4.3).

Trees: with K_{n,j} the distribution of a neighbour given a node, D(y, y') the cost of replacing a
value of an entry, and for one pair of values of n,

    branch(n, j)        = the least, over paths n, j = v_1, ..., v_m, of
                          mu(v_1) + ... + mu(v_{m-1}) + step(K_{n,v_m}, lambda(v_m without v_{m-1}))
    lambda(n without i) = D + the sum of branches away from i
    mu(v)               = the largest entry of D + the sum of the branches off the path

and a node loses D plus the sum of all its branches (docs/theory.md). Steps use the largest entry of
lambda; those to a neighbour also all of its pairs, where a release was calibrated pair by pair.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

import numpy as np

from pufferkit.beliefs.bayesian_network import BayesianNetwork
from pufferkit.beliefs.network_checks import Node
from pufferkit.beliefs.network_class import NetworkClass
from pufferkit.checks import Floats
from pufferkit.verification.pair_steps import Programmes, steps
from pufferkit.verification.pair_tables import Allowance
from pufferkit.verification.recorded_plans import steps_of_bases
from pufferkit.verification.row_steps import RowSteps


def loss_on_trees(
    theta: NetworkClass, cost: Floats, work: Allowance, plans: Sequence[Any] | None = None
) -> float:
    """The largest loss of a node, over the networks of a class.

    Parameters
    ----------
    theta
        The class.
    cost
        D, for each pair of its states.
    work
        Allowance of work.
    plans
        For each network the bases of the plans along its edges, or ``None`` to solve them again; no
        list at all for the scalar curve.
    """
    for network in theta.networks:
        if not network.is_tree:
            raise ValueError("are not trees, which the influence curve needs")
    if plans is not None and (not isinstance(plans, list) or len(plans) != len(theta.networks)):
        raise TypeError("plans must be a list with an entry for each network")
    place = {state: number for number, state in enumerate(theta.states)}
    largest = 0.0
    for number, network in enumerate(theta.networks):
        tree = _Tree(network, cost, place, work)
        tree.follow(None if plans is None else Programmes(plans[number], work))
        largest = max(largest, tree.loss())
    return largest


class _Tree:
    """Branches of one tree, those with the fewest nodes behind them first.

    All matrices are over the values that a node can take.
    """

    def __init__(
        self, network: BayesianNetwork, cost: Floats, place: Mapping[Node, int], work: Allowance
    ) -> None:
        self.network, self.work = network, work
        self.around: dict[Node, list[Node]] = {
            n: [*network.parents[n], *network.children[n]] for n in network.nodes
        }
        self.distributions: dict[Node, Floats] = {}
        self.tables: dict[Node, Floats] = {}
        self.costs: dict[Node, Floats] = {}
        supports: dict[Node, Any] = {}
        for n in network.nodes:
            (parent,) = network.parents[n] or (None,)
            table = network.arrays[n]
            above = table[None, :] if parent is None else table[supports[parent]]
            supports[n] = (above > 0).any(axis=0)
            self.tables[n] = above[:, supports[n]]
            before = np.ones(1) if parent is None else self.distributions[parent]
            self.distributions[n] = before @ self.tables[n]
            values = zip(network.values[n], supports[n], strict=True)
            own = [place[value] for value, possible in values if possible]
            self.costs[n] = cost[np.ix_(own, own)]
        self._steps: dict[tuple[Node, Node], RowSteps] = {}
        self.branch: dict[tuple[Node, Node], Floats] = {}

    def follow(self, programmes: Programmes | None) -> None:
        """Compute all branches; with programmes, the pairwise curve to the neighbour."""
        bases: dict[tuple[Node, Node], bytes | None] = {}
        if programmes is not None and programmes.bases is not None:
            order = {n: number for number, n in enumerate(self.network.nodes)}
            for n in self.network.nodes:
                for j in sorted(self.around[n], key=lambda other: order[other]):
                    bases[n, j] = programmes.bases.following(self._kernel(n, j))
            programmes.end()
        for n, j in self._in_order():
            best = self._branch(n, j)
            if programmes is not None and len(best) > 1:
                kernel, beyond = self._kernel(n, j), self._beyond(j, n)
                known = bases.get((n, j))
                pairs = (
                    steps(kernel, beyond, self.work)
                    if known is None
                    else steps_of_bases(kernel, beyond, known, self.work)
                )
                best = np.minimum(best, pairs)
            self.branch[n, j] = best

    def loss(self) -> float:
        """The largest loss over nodes."""
        return max(float(self._spent(n, self.around[n]).max()) for n in self.network.nodes)

    def _in_order(self) -> list[tuple[Node, Node]]:
        """Edges n, j in an order such that those beyond j come first."""
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

    def _spent(self, n: Node, others: Sequence[Node]) -> Floats:
        """The cost of the entry and its branches; closed by shortest paths between values."""
        total = self.costs[n].copy()
        for j in others:
            total += self.branch[n, j]
        for middle in range(len(total)):
            total = np.minimum(total, total[:, middle, None] + total[None, middle, :])
        return total

    def _beyond(self, n: Node, without: Node) -> Floats:
        """lambda(n without a neighbour)."""
        return self._spent(n, [k for k in self.around[n] if k != without])

    def _branch(self, n: Node, j: Node) -> Floats:
        """The branch by all paths, from the largest entry of the variation beyond."""
        best = np.full_like(self.costs[n], inf)
        paths: list[tuple[float, int, Node, Node, Floats]] = [(0.0, 0, n, j, self._kernel(n, j))]
        count = 0
        while paths and paths[0][0] < best.max():
            spent, _, before, last, kernel = heapq.heappop(paths)
            self.work.spend(5 * 10**4 + 60.0 * kernel.shape[0] ** 2 * kernel.shape[1])
            beyond = float(self._beyond(last, before).max())
            if (n, last) not in self._steps:
                self._steps[n, last] = RowSteps(kernel)
            best = np.minimum(best, spent + self._steps[n, last].table(beyond))
            np.fill_diagonal(best, 0.0)
            for following in self.around[last]:
                if following != before:
                    aside = [k for k in self.around[last] if k not in (before, following)]
                    count += 1
                    further = kernel @ self._kernel(last, following)
                    cost = spent + float(self._spent(last, aside).max())
                    heapq.heappush(paths, (cost, count, last, following, further))
        return best

    def _kernel(self, n: Node, j: Node) -> Floats:
        """The distribution of a neighbour given a node."""
        if n in self.network.parents[j]:
            return self.tables[j]
        joint = (self.distributions[j][:, None] * self.tables[n]).T
        sums = joint.sum(axis=1, keepdims=True)
        turned: Floats = np.divide(joint, sums, out=np.zeros_like(joint), where=sums > 0)
        return turned
