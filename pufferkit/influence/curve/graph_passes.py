"""Two passes over a junction tree, towards the roots and back, give the loss of every node.

The theorem and its proof are in `pufferkit.influence.curve.averaging`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from pufferkit.beliefs.junction_tree import JunctionTree
from pufferkit.checks import Floats
from pufferkit.influence.curve.averaging import Clique, Removal, added
from pufferkit.rounding import EPS


class _NodeMessage(NamedTuple):
    """A message of a clique to another, about the nodes that they share, ``kept``.

    ``totals`` is what the clique was told about its nodes by all others, ``beyond`` the cost of all
    nodes that the message removes.
    """

    clique: int
    to: int
    kept: tuple[int, ...]
    totals: Floats
    beyond: float


class GraphPasses:
    """The cliques of the narrow parts of a model, and the losses of their nodes.

    Matrices of all nodes have the same size; they are zero beyond the values of a node.
    """

    def __init__(self, tree: JunctionTree, possible: Sequence[Sequence[int]]) -> None:
        self.tree, self.possible = tree, possible
        self.cliques: list[tuple[int, ...]] = []
        self._own: list[Clique] = []
        alike: dict[tuple[Any, ...], Clique] = {}
        for nodes, table in zip(tree.cliques, tree.tables, strict=True):
            # Nodes with one possible value hide nothing and reveal nothing.
            kept = tuple(n for n in nodes if len(self.possible[n]) > 1)
            small = table[np.ix_(*(self.possible[n] for n in nodes))]
            small = small.reshape([len(self.possible[n]) for n in kept])
            key = small.shape, small.tobytes()
            self.cliques.append(kept)
            self._own.append(alike.setdefault(key, Clique(small, tree.error)))
        self.separators = [
            tuple(n for n in kept if n in set(tree.separator(c)))
            for c, kept in enumerate(self.cliques)
        ]
        self.children: list[list[int]] = [[] for _ in self.cliques]
        for c, above in enumerate(tree.parent):
            if above >= 0:
                self.children[above].append(c)
        home: dict[int, int] = {}
        for c, kept in enumerate(self.cliques):
            for n in kept:
                if n not in home or self._own[c].table.size < self._own[home[n]].table.size:
                    home[n] = c
        self._home = home
        self._levels = _by_height(tree.parent)
        sizes = np.array([len(own) for own in possible], dtype=np.intp)
        inside = np.arange(max(sizes, default=1)) < sizes[:, None]
        self._outside = (
            inside[:, :, None] & inside[:, None, :] & ~np.eye(inside.shape[1], dtype=bool)
        )
        self.ways: list[list[Any]] = []
        self._costs: Floats = np.zeros(0)
        self._rounding = 0.0

    def losses(self, costs: Sequence[Floats]) -> dict[int, Floats]:
        """For every node that can vary the loss of each pair of values it can take, rounded up.

        ``ways`` then has, for every message and for every node, the derivation of its bound: the
        clique, the clique that the message is for (-1 for the loss of a node itself), the node, and
        the way, which is empty if everything beyond is paid.
        """
        self.ways = []
        self._costs = np.zeros(self._outside.shape)
        for matrix, cost in zip(self._costs, costs, strict=True):
            matrix[: len(cost), : len(cost)] = cost
        whole = self._costs.max(axis=(1, 2)).tolist()
        self._rounding = (len(costs) + 8) * EPS * sum(whole)
        totals = [np.zeros((len(kept), *self._outside.shape[1:])) for kept in self.cliques]
        beyond = [sum(whole[n] for n in kept) for kept in self.cliques]  # of the subtree
        inside = [sum(whole[n] for n in separator) for separator in self.separators]
        for c, children in enumerate(self.children):
            beyond[c] += sum(beyond[d] - inside[d] for d in children)
        upward: dict[int, Floats] = {}
        parent = self.tree.parent
        for level in self._levels:
            asked = [
                _NodeMessage(c, parent[c], self.separators[c], totals[c], beyond[c] - inside[c])
                for c in level
                if parent[c] >= 0
            ]
            for own, message in zip(asked, self._messages(asked), strict=True):
                upward[own.clique] = message
                totals[own.to][self._places(own.to, own.kept)] += message
        parts = self._part_totals(beyond)
        for level in reversed(self._levels):
            asked = [
                _NodeMessage(
                    c,
                    d,
                    self.separators[d],
                    self._without(c, d, totals[c], upward[d]),
                    parts[c] - beyond[d],
                )
                for c in level
                for d in self.children[c]
            ]
            for own, message in zip(asked, self._messages(asked), strict=True):
                totals[own.to][self._places(own.to, own.kept)] += message
        asked = [
            _NodeMessage(c, -1, (n,), totals[c], parts[c] - whole[n]) for n, c in self._home.items()
        ]
        raised = 1 + (len(self.cliques) + 32) * EPS
        return {
            n: (costs[n] + message[0, : len(costs[n]), : len(costs[n])]) * raised
            for n, message in zip(self._home, self._messages(asked), strict=True)
        }

    def largest(self, costs: Sequence[Floats]) -> float:
        """The largest loss of a node."""
        return max((float(own.max()) for own in self.losses(costs).values()), default=0.0)

    def _messages(self, asked: Sequence[_NodeMessage]) -> Iterator[Floats]:
        """What removing all nodes beyond those that are kept adds to each of these."""
        removals, places = [], []
        for own in asked:
            nodes = self.cliques[own.clique]
            targets = self._places(own.clique, own.kept)
            out = tuple(place for place in range(len(nodes)) if place not in targets)
            variations = self._costs[[nodes[place] for place in out]] + own.totals[list(out)]
            variations *= 1 + 2 * EPS
            removals.append(Removal(self._own[own.clique], tuple(targets), out, variations))
            places.append(targets)
        for own, targets, (more, ways) in zip(asked, places, added(removals), strict=True):
            nodes = self.cliques[own.clique]
            everything = own.beyond + self._rounding
            message = (own.totals[targets] + more) * (1 + 2 * EPS)
            cheaper = message.max(axis=(1, 2), initial=0.0) > everything
            if cheaper.any():
                paid = everything * self._outside[list(own.kept)]
                message = np.where(cheaper[:, None, None], paid, message)
            for n, way, paid in zip(own.kept, ways, cheaper, strict=True):
                order = [] if paid else [nodes[place] for place in way.order]
                self.ways.append([own.clique, own.to, n, order, "" if paid else way.moves])
            yield message

    def _places(self, c: int, nodes: Sequence[int]) -> list[int]:
        return [self.cliques[c].index(n) for n in nodes]

    def _without(self, c: int, d: int, totals: Floats, message: Floats) -> Floats:
        """The totals of a clique before the message of a child was added, rounded up."""
        before, places = totals.copy(), self._places(c, self.separators[d])
        rounding = 8 * EPS * (1 + len(self.children[c])) * totals[places]
        before[places] = (totals[places] - message) + rounding
        return before

    def _part_totals(self, beyond: Sequence[float]) -> list[float]:
        """For every clique, the cost of all nodes of its independent part."""
        totals = list(beyond)
        for c in reversed(range(len(totals))):
            if self.tree.parent[c] >= 0:
                totals[c] = totals[self.tree.parent[c]]
        return totals


def _by_height(parent: Sequence[int]) -> list[list[int]]:
    """Cliques whose messages upwards do not depend on one another, the lowest first."""
    height = [0] * len(parent)
    for c, above in enumerate(parent):
        if above >= 0:
            height[above] = max(height[above], height[c] + 1)
    levels: list[list[int]] = [[] for _ in range(max(height, default=-1) + 1)]
    for c, own in enumerate(height):
        levels[own].append(c)
    return levels
