"""Max-influence on a cut around a node, from the tables inside the cut only.

Let A be an ancestral set of a network, S a connected set around X_i in the moral graph of A, and Q
its border. No table of A reaches from S beyond S and Q, so the joint distribution of A is a product
f g with

    f(x_i, x_Q) = sum over x_j, j in S - {i}, of the product of the tables of A that touch S,

and g free of S. Hence P(x_Q | x_i) = f(x_i, x_Q) g(x_Q) / P(x_i), where g(x_Q) also stands for the
sum over all that lies beyond, and

    log P(x_Q | a) / P(x_Q | b) = log f(a, x_Q) / f(b, x_Q) + log P(b) / P(a)

wherever g(x_Q) > 0. The largest value over *all* x_Q is never below [Q] Definition 4.1, and equal
to it if no table has a zero. What of Q is separated from X_i by the rest of Q changes nothing: the
ratio does not depend on it.

Where the graph is too wide for P(x_i), the same holds with its bound: P(b) / P(a) is a mean of
f(b, x_Q) / f(a, x_Q), so it is at most their largest.

If S grows by j, a node of its border, f becomes

    sum over x_j of f times the tables that touch j and did not touch S,

one step of elimination. So a family of sets, each grown from another by one node, costs one small
sum of products for each set, whatever the size of the network.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from math import inf, prod
from typing import NamedTuple

import numpy as np

from pufferkit.beliefs.bayesian_network import BayesianNetwork
from pufferkit.beliefs.contraction import TINY, Factor, JointTable, Labels, contract
from pufferkit.beliefs.graph import Graph, bits
from pufferkit.checks import Floats
from pufferkit.errors import NotApplicable
from pufferkit.influence.quilts.separation import Cut
from pufferkit.rounding import EPS

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
    """f(x_i, x_Q) for connected sets around one node of a network.

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
