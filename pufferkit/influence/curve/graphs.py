"""Event-level epsilon against Pufferfish epsilon on any graph: networks and random fields.

A graph consists of independent parts. If the cliques of a part are small, nodes are averaged out
exactly (`pufferkit.influence.curve.averaging` has the theorem; here are the two passes over the
junction tree). In wider parts nodes are resampled given their neighbours
(`pufferkit.influence.curve.resampling`). In any case no node loses more than the total cost of its
part, as in group DP.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from pufferkit import checks
from pufferkit.beliefs.junction_tree import (
    GraphModel,
    JunctionTree,
    LogFactor,
    narrow_nodes,
    neighbours,
    parts,
)
from pufferkit.checks import Floats
from pufferkit.errors import NotApplicable
from pufferkit.influence.curve.averaging import Clique
from pufferkit.influence.curve.pair_curve import WITHIN_EPSILON
from pufferkit.influence.curve.pairs import off_diagonal
from pufferkit.influence.curve.resampling import Rates
from pufferkit.influence.progress import Progress
from pufferkit.rounding import EPS, largest_within


class GraphLoss(NamedTuple):
    """The largest loss, the node that has it, and the number of the model."""

    value: float
    node: Hashable
    model: int


class GraphPasses:
    """The cliques of the narrow parts of a model, and the losses of their nodes."""

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
        self.ways: list[list[Any]] = []
        self._whole = 0.0

    def losses(self, costs: Sequence[Floats]) -> dict[int, Floats]:
        """For every node that can vary the loss of each pair of values it can take, rounded up.

        ``ways`` then has, for every message and for every node, the derivation of its bound: the
        clique, the clique that the message is for (-1 for the loss of a node itself), the node, and
        the way, which is empty if everything beyond is paid.
        """
        self.ways = []
        whole = [float(cost.max()) if cost.size else 0.0 for cost in costs]
        self._whole = sum(whole)
        totals = [{n: np.zeros_like(costs[n]) for n in kept} for kept in self.cliques]
        beyond = [sum(whole[n] for n in kept) for kept in self.cliques]  # of the subtree
        upward: list[dict[int, Floats]] = []
        for c, separator in enumerate(self.separators):
            beyond[c] += sum(
                beyond[d] - sum(whole[n] for n in self.separators[d]) for d in self.children[c]
            )
            own = beyond[c] - sum(whole[n] for n in separator)
            message = self._message(c, self.tree.parent[c], separator, totals[c], costs, own)
            upward.append(message)
            if (above := self.tree.parent[c]) >= 0:
                for n, added in message.items():
                    totals[above][n] = totals[above][n] + added
        parts = self._part_totals(beyond)
        for c in reversed(range(len(self.cliques))):
            for d in self.children[c]:
                without = {
                    n: (total - upward[d][n]) + 8 * EPS * (1 + len(self.children[c])) * total
                    if n in upward[d]
                    else total
                    for n, total in totals[c].items()
                }
                own = parts[c] - beyond[d]
                message = self._message(c, d, self.separators[d], without, costs, own)
                for n, added in message.items():
                    totals[d][n] = totals[d][n] + added
        losses = {}
        raised = 1 + (len(self.cliques) + 32) * EPS
        for n, c in self._home.items():
            message = self._message(c, -1, (n,), totals[c], costs, parts[c] - whole[n])
            losses[n] = (costs[n] + message[n]) * raised
        return losses

    def _message(
        self,
        c: int,
        to: int,
        kept: tuple[int, ...],
        totals: Mapping[int, Floats],
        costs: Sequence[Floats],
        beyond: float,
    ) -> dict[int, Floats]:
        """What removing all nodes beyond ``kept`` adds to each of these nodes of a clique."""
        nodes = self.cliques[c]
        out = tuple(place for place, n in enumerate(nodes) if n not in kept)
        variations = [(costs[nodes[place]] + totals[nodes[place]]) * (1 + 2 * EPS) for place in out]
        message = {}
        targets = [nodes.index(n) for n in kept]
        each = self._own[c].added(targets, out, variations)
        for n, (more, way) in zip(kept, each, strict=True):
            added = (totals[n] + more) * (1 + 2 * EPS)
            everything = beyond + (len(costs) + 8) * EPS * self._whole
            cheaper = float(added.max()) > everything
            message[n] = everything * off_diagonal(len(added)) if cheaper else added
            order = [] if cheaper else [nodes[place] for place in way.order]
            self.ways.append([c, to, n, order, "" if cheaper else way.moves])
        return message

    def _part_totals(self, beyond: Sequence[float]) -> list[float]:
        """For every clique, the cost of all nodes of its independent part."""
        totals = list(beyond)
        for c in reversed(range(len(totals))):
            if self.tree.parent[c] >= 0:
                totals[c] = totals[self.tree.parent[c]]
        return totals


class GraphLosses:
    """The losses of the nodes of one model when entries have given costs."""

    def __init__(self, model: GraphModel) -> None:
        sizes = [len(model.values[node]) for node in model.nodes]
        factors = model.log_factors
        scopes = [scope for scope, _ in factors]
        narrow = narrow_nodes(sizes, scopes)
        chosen = set(narrow)
        tree = JunctionTree.of(sizes, factors, "model", narrow)
        self.possible = [list(range(size)) for size in sizes]
        for nodes, table in zip(tree.cliques, tree.tables, strict=True):
            for axis, n in enumerate(nodes):
                others = tuple(a for a in range(table.ndim) if a != axis)
                self.possible[n] = np.flatnonzero(table.max(axis=others) > -np.inf).tolist()
        self.passes = GraphPasses(tree, self.possible)
        self.wide = [
            part for part in parts(neighbours(len(sizes), scopes)) if part[0] not in chosen
        ]
        self._rates = [_rates(sizes, factors, part) for part in self.wide]

    def of(self, costs: Sequence[Floats]) -> list[Floats]:
        """The loss of each pair of possible values of every node, rounded up."""
        losses = list(costs)
        for n, own in self.passes.losses(costs).items():
            losses[n] = own
        whole = np.array([float(cost.max()) if cost.size else 0.0 for cost in costs])
        for part, rates in zip(self.wide, self._rates, strict=True):
            everything = float(whole[list(part)].sum()) * (1 + len(part) * EPS)
            by_rates = None if rates is None else rates.losses(whole)
            for n in part:
                most = everything if by_rates is None else min(everything, float(by_rates[n]))
                losses[n] = most * off_diagonal(len(costs[n]))
        return losses


def _rates(sizes: Sequence[int], factors: Sequence[LogFactor], part: Sequence[int]) -> Rates | None:
    """The rates of a wide part; ``None`` if no theorem covers them."""
    chosen = set(part)
    try:
        return Rates.of(sizes, [own for own in factors if chosen.issuperset(own[0])], "part")
    except NotApplicable:
        return None


def packed_ways(ways: Sequence[Sequence[Any]]) -> str:
    """The ways as text that JSON can hold, compressed."""
    plain = json.dumps(ways, separators=(",", ":")).encode()
    return base64.b64encode(zlib.compress(plain, 9)).decode("ascii")


class GraphCurve:
    """Event-level epsilon b against Pufferfish epsilon, for models of the same nodes.

    Parameters
    ----------
    models
        Bayesian networks or Markov random fields over the same nodes.
    states
        Every value that a node can take.
    distance
        For each two states, in their order: replacing one by the other costs b times this. By
        default 1 for any two.
    """

    def __init__(
        self,
        models: Sequence[GraphModel],
        states: Sequence[Hashable],
        distance: Floats | None = None,
    ) -> None:
        self.models, self.states = tuple(models), tuple(states)
        self.distance = off_diagonal(len(states)) if distance is None else distance
        self._each = [GraphLosses(model) for model in self.models]
        place = {state: number for number, state in enumerate(self.states)}
        self._places = [
            [
                [place[model.values[node][value]] for value in own.possible[n]]
                for n, node in enumerate(model.nodes)
            ]
            for model, own in zip(self.models, self._each, strict=True)
        ]

    @property
    def notes(self) -> tuple[str, ...]:
        """Parts that were not computed exactly."""
        wide = sum(len(part) for own in self._each for part in own.wide)
        if not wide:
            return ()
        return (f"{wide:,} nodes in parts too wide for exact distributions",)

    def pair_losses(self, b: float) -> dict[Hashable, Floats]:
        """For every node, the loss of each pair of states; 0 if one is not a value of the node."""
        size = len(self.states)
        tables = {node: np.zeros((size, size)) for node in self.models[0].nodes}
        for number, model in enumerate(self.models):
            losses = self._losses(number, b)
            for own, node, places in zip(losses, model.nodes, self._places[number], strict=True):
                where = np.ix_(places, places)
                tables[node][where] = np.maximum(tables[node][where], own)
        return tables

    def losses(self, b: float) -> dict[Hashable, float]:
        """The loss of every node, the largest over the models."""
        return {node: float(pairs.max()) for node, pairs in self.pair_losses(b).items()}

    def loss(self, b: float) -> GraphLoss:
        """The largest loss over models and nodes."""
        each = [self._largest(number, b) for number in range(len(self.models))]
        return max(each, key=lambda loss: loss.value)

    def solve(self, epsilon: float, progress: Progress | None = None) -> tuple[float, GraphLoss]:
        """The largest b that the search reached, and the binding loss."""
        epsilon = checks.privacy(epsilon)
        furthest = float(self.distance.max()) or 1.0
        count = len(self.models[0].nodes)
        # The upper end is that of independent nodes; losses are rounded up.
        b = epsilon / furthest * (1 - (count + 64) * EPS)
        binding = GraphLoss(0.0, self.models[0].nodes[0], 0)
        for number in range(len(self.models)):
            b, loss = self._solve(number, epsilon, b, progress)
            binding = max(binding, loss, key=lambda own: own.value)
        return b, binding

    def _solve(
        self, number: int, epsilon: float, most: float, progress: Progress | None
    ) -> tuple[float, GraphLoss]:
        """For one model, up to ``most``; the loss of the result was checked."""

        def loss_at(b: float) -> tuple[float, GraphLoss]:
            loss = self._largest(number, b)
            return loss.value, loss

        best = largest_within(loss_at, epsilon, most, most, WITHIN_EPSILON, progress=progress)
        if best is not None:
            return best
        # If the whole part is paid, the loss is at most epsilon.
        whole = most / len(self.models[number].nodes) * (1 - 1e-9)
        return whole, self._largest(number, whole)

    def record(self, b: float) -> list[dict[str, Any]]:
        """Verification data: the cliques of every model, and the way behind each bound."""
        records = []
        for number, own in enumerate(self._each):
            self._losses(number, b)
            passes = own.passes
            records.append(
                {
                    "cliques": [list(own) for own in passes.tree.cliques],
                    "parent": list(passes.tree.parent),
                    "ways": packed_ways(passes.ways),
                }
            )
        return records

    def _largest(self, number: int, b: float) -> GraphLoss:
        losses = [float(own.max()) if own.size else 0.0 for own in self._losses(number, b)]
        worst = int(np.argmax(losses))
        return GraphLoss(losses[worst], self.models[number].nodes[worst], number)

    def _losses(self, number: int, b: float) -> list[Floats]:
        cost = b * self.distance
        costs = [cost[np.ix_(places, places)] for places in self._places[number]]
        return self._each[number].of(costs)
