"""Event-level epsilon against Pufferfish epsilon on any graph: networks and random fields.

A graph consists of independent parts. If the cliques of a part are small, nodes are averaged out
along its junction tree (`pufferkit.influence.curve.averaging`). In wider parts nodes are resampled
given their neighbours (`pufferkit.influence.curve.resampling`). In any case no node loses more than
the total cost of its part, as in group DP.
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
    CliqueTree,
    GraphModel,
    JunctionTree,
    LogFactor,
    neighbours,
    parts,
)
from pufferkit.checks import Floats
from pufferkit.errors import NotApplicable
from pufferkit.influence.curve.engine import PRECISION
from pufferkit.influence.curve.graph_passes import GraphPasses
from pufferkit.influence.curve.graph_work import check_memory, quick_trees, sizes_of
from pufferkit.influence.curve.pairs import off_diagonal
from pufferkit.influence.curve.resampling import Rates
from pufferkit.influence.progress import Progress
from pufferkit.rounding import EPS, largest_within

_START = 10  # the search begins at this part of what independent nodes may have
_COMPARED = 0.1  # event-level epsilon at which trees are compared


class GraphLoss(NamedTuple):
    """The largest loss, the node that has it, and the number of the model."""

    value: float
    node: Hashable
    model: int


class GraphLosses:
    """The losses of the nodes of one model when entries have given costs.

    Parameters
    ----------
    model
        Its nodes and factors.
    trees
        Those of its narrow parts, one or more to choose from.
    place
        The number of each state.
    distance
        Between states, by their numbers.
    """

    def __init__(
        self,
        model: GraphModel,
        trees: Sequence[CliqueTree],
        place: Mapping[Hashable, int],
        distance: Floats,
    ) -> None:
        sizes, factors = sizes_of(model), model.log_factors
        exact = [JunctionTree.on(tree, sizes, factors) for tree in trees]
        possible = [list(range(size)) for size in sizes]
        for nodes, table in zip(exact[0].cliques, exact[0].tables, strict=True):
            for axis, n in enumerate(nodes):
                others = tuple(a for a in range(table.ndim) if a != axis)
                possible[n] = np.flatnonzero(table.max(axis=others) > -np.inf).tolist()
        self.places = [
            [place[model.values[node][value]] for value in own]
            for node, own in zip(model.nodes, possible, strict=True)
        ]
        self._distances = [distance[np.ix_(own, own)] for own in self.places]
        passes = [GraphPasses(tree, possible) for tree in exact]
        if len(passes) > 1:
            b = _COMPARED / (float(distance.max()) or 1.0)
            costs = [b * own for own in self._distances]
            passes.sort(key=lambda own: own.largest(costs))
        self.passes = passes[0]
        near = neighbours(len(sizes), [scope for scope, _ in factors])
        self.wide = [part for part in parts(near) if trees[0].home[part[0]] < 0]
        self._rates = [_rates(sizes, factors, part) for part in self.wide]

    def at(self, b: float) -> list[Floats]:
        """The loss of each pair of possible values of every node, rounded up."""
        costs = [b * own for own in self._distances]
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
        trees = [quick_trees(model) for model in self.models]
        check_memory(self.models, trees)
        place = {state: number for number, state in enumerate(self.states)}
        self._each = [
            GraphLosses(model, own, place, self.distance)
            for model, own in zip(self.models, trees, strict=True)
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
        for model, each in zip(self.models, self._each, strict=True):
            for own, node, places in zip(each.at(b), model.nodes, each.places, strict=True):
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

        # Where b is small, losses are nearly proportional to it.
        start = most / _START
        best = largest_within(loss_at, epsilon, start, most, PRECISION, progress=progress)
        if best is not None:
            return best
        # If the whole part is paid, the loss is at most epsilon.
        whole = most / len(self.models[number].nodes) * (1 - 1e-9)
        return whole, self._largest(number, whole)

    def record(self, b: float) -> list[dict[str, Any]]:
        """Verification data: the cliques of every model, and the way behind each bound."""
        records = []
        for own in self._each:
            own.at(b)
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
        losses = [float(own.max()) if own.size else 0.0 for own in self._each[number].at(b)]
        worst = int(np.argmax(losses))
        return GraphLoss(losses[worst], self.models[number].nodes[worst], number)
