"""The influence curve on graphs with cycles, recomputed for `verify`.

A release records a junction tree of each model and, for every message along it, in which order
nodes are removed from a clique and whether each is averaged or paid (docs/theory.md). Here the
tree is checked (every factor lies in a clique, the cliques of a node are connected), the
distributions of the cliques are computed once more, and the recorded ways are followed. Any order
and any ways give a valid bound, so a bad record can only ask for more noise; where the values of a
clique cannot all happen together, one way must serve all nodes of a message. Parts of the graph
that the record leaves out are bounded by drawing nodes again given their neighbours, or paid for
whole.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import combinations, product
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from pufferkit.beliefs.junction_tree import GraphModel
from pufferkit.checks import Floats
from pufferkit.verification.pair_tables import LARGEST, Allowance, BadBeliefs, NotChecked

if TYPE_CHECKING:
    from networkx import Graph

Messages = dict[tuple[int, int], dict[int, Floats]]

_MOST_TEXT = 50_000_000
_MOST_VALUES = 10
MOST_AROUND = 1 << 14
MOST_ROUNDS = 20_000


def loss_on_graphs(
    models: Sequence[GraphModel],
    states: Sequence[Hashable],
    cost: Floats,
    records: Any,
    work: Allowance,
) -> float:
    """The largest loss of a node, over models, when replacing a value costs ``cost``."""
    if not isinstance(records, list) or len(records) != len(models):
        raise BadBeliefs("have no junction trees recorded in the verification data")
    place = {state: number for number, state in enumerate(states)}
    largest = 0.0
    for model, record in zip(models, records, strict=True):
        try:
            own = _CliqueGraph(model, record, work)
        except (TypeError, KeyError, ValueError, zlib.error) as error:
            raise NotChecked(f"the recorded junction tree cannot be read ({error})") from None
        costs = []
        for n, node in enumerate(model.nodes):
            places = [place[model.values[node][value]] for value in own.possible[n]]
            costs.append(cost[np.ix_(places, places)])
        largest = max(largest, own.loss(costs))
    return largest


def graph_of(nodes: int, scopes: Iterable[Sequence[int]]) -> Graph[int]:
    """Nodes by number, with an edge between any two that a factor has in its scope."""
    import networkx as nx  # noqa: PLC0415  (slow to load)

    graph: Graph[int] = nx.Graph()
    graph.add_nodes_from(range(nodes))
    for scope in scopes:
        graph.add_edges_from(combinations(scope, 2))
    return graph


def components(graph: Graph[int]) -> Iterable[set[int]]:
    """The nodes of each connected component."""
    import networkx as nx  # noqa: PLC0415  (slow to load)

    parts: Iterable[set[int]] = nx.connected_components(graph)
    return parts


class _CliqueGraph:
    """One model with its recorded junction tree, checked."""

    def __init__(self, model: GraphModel, record: Mapping[str, Any], work: Allowance) -> None:
        self.work = work
        self.sizes = [len(model.values[node]) for node in model.nodes]
        self.factors = [(tuple(scope), table) for scope, table in model.log_factors]
        self.cliques = [tuple(int(n) for n in own) for own in record["cliques"]]
        self.parent = [int(c) for c in record["parent"]]
        unpacker = zlib.decompressobj()
        text = unpacker.decompress(base64.b64decode(record["ways"]), _MOST_TEXT)
        self.ways = {(c, to, n): (order, moves) for c, to, n, order, moves in json.loads(text)}
        self._check_tree()
        self.graph = graph_of(len(self.sizes), (scope for scope, _ in self.factors))
        tables = self._distributions()
        self.possible = [list(range(size)) for size in self.sizes]
        for own, table in zip(self.cliques, tables, strict=True):
            for axis, n in enumerate(own):
                others = tuple(a for a in range(table.ndim) if a != axis)
                self.possible[n] = [
                    int(v) for v in np.flatnonzero(table.max(axis=others) > -np.inf)
                ]
        self.tables = [
            table[np.ix_(*(self.possible[n] for n in own))]
            for own, table in zip(self.cliques, tables, strict=True)
        ]

    def _check_tree(self) -> None:
        count = len(self.sizes)
        if len(self.parent) != len(self.cliques) or any(
            not (above == -1 or c < above < len(self.cliques))
            for c, above in enumerate(self.parent)
        ):
            raise ValueError("a clique does not come before its parent")
        times, edges = [0] * count, [0] * count
        for c, own in enumerate(self.cliques):
            if len(set(own)) < len(own) or not all(0 <= n < count for n in own):
                raise ValueError("a clique is not a set of nodes")
            if prod(self.sizes[n] for n in own) > 1 << 20:
                raise ValueError("a clique is too large")
            for n in own:
                times[n] += 1
                edges[n] += self.parent[c] >= 0 and n in self.cliques[self.parent[c]]
        self.narrow = {n for n in range(count) if times[n]}
        if any(times[n] - edges[n] != 1 for n in self.narrow):
            raise ValueError("the cliques of a node are not connected")
        homes: dict[int, list[int]] = {}
        for c, own in enumerate(self.cliques):
            for n in own:
                homes.setdefault(n, []).append(c)
        self.home_of_factor = []
        for scope, _ in self.factors:
            inside = self.narrow.intersection(scope)
            if inside and len(inside) < len(scope):
                raise ValueError("a factor is partly inside the tree and partly outside")
            at = [c for c in homes.get(scope[0], []) if set(scope) <= set(self.cliques[c])]
            if inside and not at:
                raise ValueError("a factor lies in no clique")
            self.home_of_factor.append(at[0] if at else -1)

    def _distributions(self) -> list[Floats]:
        """Logarithms of the distributions of the cliques, from messages in both directions."""
        local = [np.zeros([self.sizes[n] for n in own]) for own in self.cliques]
        for (scope, table), at in zip(self.factors, self.home_of_factor, strict=True):
            if at >= 0:
                local[at] = local[at] + in_scope(table, scope, self.cliques[at])
        for own in local:
            self.work.spend(200.0 * own.size)
        sent: dict[tuple[int, int], Floats] = {}

        def gathered(c: int, to: int) -> Floats:
            """The table of a clique with all messages but the one from ``to``."""
            table = local[c]
            for other in self._beside(c):
                if other != to:
                    table = table + in_scope(
                        sent[other, c], self._between(other, c), self.cliques[c]
                    )
            return table

        for c, to in self._in_order():
            shared = self._between(c, to)
            table = gathered(c, to)
            out = tuple(axis for axis, n in enumerate(self.cliques[c]) if n not in shared)
            message = np.logaddexp.reduce(table, axis=out) if out else table
            sent[c, to] = message - message.max()
        tables = []
        for c in range(len(self.cliques)):
            table = gathered(c, -1)
            tables.append(table - table.max())
        return tables

    def _beside(self, c: int) -> list[int]:
        above = self.parent[c]
        return [*self._below[c], *([above] if above >= 0 else [])]

    @property
    def _below(self) -> list[list[int]]:
        if not hasattr(self, "_children"):
            self._children: list[list[int]] = [[] for _ in self.cliques]
            for c, above in enumerate(self.parent):
                if above >= 0:
                    self._children[above].append(c)
        return self._children

    def _between(self, c: int, d: int) -> tuple[int, ...]:
        return tuple(n for n in self.cliques[c] if n in set(self.cliques[d]))

    def _in_order(self) -> list[tuple[int, int]]:
        """Messages in an order such that each comes after those that it needs."""
        upward = [(c, above) for c, above in enumerate(self.parent) if above >= 0]
        return [*upward, *((above, c) for c, above in reversed(upward))]

    def loss(self, costs: Sequence[Floats]) -> float:
        """The largest loss of a node."""
        whole = np.array([float(own.max()) if own.size else 0.0 for own in costs])
        parts = {n: part for part in components(self.graph) for n in part}
        sent: Messages = {}
        below = [float(sum(whole[n] for n in own)) for own in self.cliques]
        for c, above in enumerate(self.parent):
            if above >= 0:
                below[above] += below[c] - sum(whole[n] for n in self._between(c, above))

        def received(c: int, without: int) -> dict[int, Floats]:
            total = {n: np.zeros_like(costs[n]) for n in self.cliques[c]}
            for other in self._beside(c):
                if other != without:
                    for n, added in sent[other, c].items():
                        total[n] = total[n] + added
            return total

        def message(c: int, to: int, kept: Sequence[int]) -> dict[int, Floats]:
            total = received(c, to)
            variations = {n: costs[n] + total[n] for n in self.cliques[c]}
            total_of_part = sum(whole[n] for n in parts[kept[0]]) if kept else 0.0
            if to >= 0 and to == self.parent[c]:
                everything = below[c] - sum(whole[n] for n in kept)
            else:
                everything = total_of_part - (below[to] if to >= 0 else whole[kept[0]])
            result = {}
            for n, (order, moves) in self._recorded(c, to, kept).items():
                own = total[n] + self._taken_out(c, n, kept, order, moves, variations)
                paid = everything * (1 - np.eye(len(own)))
                result[n] = np.minimum(own, paid)
            return result

        for c, to in self._in_order():
            sent[c, to] = message(c, to, self._between(c, to))
        largest = 0.0
        at = {n: c for c, _, n in sorted(key for key in self.ways if key[1] == -1)}
        for n in self.narrow:
            most = sum(whole[m] for m in parts[n])
            if n in at and n in self.cliques[at[n]]:
                most = min(most, float((costs[n] + message(at[n], -1, (n,))[n]).max(initial=0.0)))
            largest = max(largest, most if len(self.possible[n]) > 1 else 0.0)
        for part in components(self.graph):
            if not part <= self.narrow:
                most = float(sum(whole[n] for n in part))
                largest = max(largest, min(most, self._drawn_again(sorted(part), whole)))
        return largest

    def _recorded(
        self, c: int, to: int, kept: Sequence[int]
    ) -> dict[int, tuple[Sequence[int], str]]:
        """The recorded way for each node of a message; none where they may not differ but do."""
        ways = {n: self.ways.get((c, to, n), ([], "")) for n in kept}
        if not np.isfinite(self.tables[c]).all():
            followed = [way for way in ways.values() if way[0]]
            if any(way != followed[0] for way in followed):
                return {n: ([], "") for n in kept}
        return ways

    def _taken_out(
        self,
        c: int,
        target: int,
        kept: Sequence[int],
        order: Sequence[int],
        moves: str,
        variations: Mapping[int, Floats],
    ) -> Floats:
        """What removing nodes from a clique, as recorded, adds to a remaining node."""
        own, table = list(self.cliques[c]), self.tables[c]
        out = {n for n in own if n not in kept and len(self.possible[n]) > 1}
        size = len(self.possible[target])
        if set(order) != out or len(order) != len(out) or len(moves) != len(order):
            return np.where(np.eye(size) > 0, 0.0, np.inf)
        left = {n: variations[n] for n in order}
        left[target] = np.zeros((size, size))
        paid = 0.0
        for n, move in zip(order, moves, strict=True):
            mine = left.pop(n)
            self.work.spend(2e4 + 60.0 * table.size * len(left))
            axis = own.index(n)
            if move == "a":
                kernel = _given_others(table, axis)
                rest = [m for m in own if m != n]
                for m, known in left.items():
                    rows = np.moveaxis(kernel, rest.index(m), -2)
                    left[m] = known + _steps(rows.reshape(-1, *rows.shape[-2:]), mine)
            else:
                paid += float(mine.max())
            table = np.logaddexp.reduce(table, axis=axis)
            own.remove(n)
        return left[target] + paid * (1 - np.eye(size))

    def _drawn_again(self, part: Sequence[int], whole: Floats) -> float:
        """The bound from distributions of nodes given their neighbours, or infinity."""
        sways: dict[tuple[int, int], Callable[[float], float]] = {}
        for j in part:
            around = sorted(self.graph[j])
            entries = prod(self.sizes[n] for n in (*around, j))
            self.work.spend(1e4 + 100.0 * entries * len(around))
            if entries > MOST_AROUND:
                return np.inf
            local = np.zeros([self.sizes[n] for n in (*around, j)])
            for scope, table in self.factors:
                if j in scope:
                    if not np.isfinite(table).all():
                        return np.inf
                    local = local + in_scope(table, scope, (*around, j))
            for axis, k in enumerate(around):
                sways[j, k] = _sway(np.moveaxis(local, axis, 0))
        costs = {n: max(float(whole[n]), 1e-9 * float(whole.max())) for n in part}
        amounts = dict(costs)
        for _ in range(MOST_ROUNDS):
            self.work.spend(3e3 * len(sways))
            rates = {pair: sway(amounts[pair[0]]) for pair, sway in sways.items()}
            update = dict(costs)
            for (j, k), rate in rates.items():
                update[k] += rate * amounts[j]
            if max(update.values()) > 1e3:
                return np.inf
            if all(update[n] <= amounts[n] for n in part):
                break
            amounts = {n: max(amounts[n], update[n] * (1 + 1e-8)) for n in part}
        else:
            return np.inf
        returns = dict.fromkeys(part, 1.0)
        for (j, k), rate in rates.items():
            returns[j] += rate * rates[k, j]
        return max(amounts[n] / returns[n] for n in part)


def in_scope(table: Floats, scope: Sequence[int], whole: Sequence[int]) -> Floats:
    """A table over ``scope`` with an axis for each node of ``whole``."""
    order = sorted(range(len(scope)), key=lambda axis: list(whole).index(scope[axis]))
    index = tuple(slice(None) if n in scope else None for n in whole)
    turned: Floats = np.transpose(table, order)[index]
    return turned


def _given_others(table: Floats, axis: int) -> Floats:
    """The distribution along an axis, moved last; given impossible values, of the nearest."""
    logs = np.moveaxis(table, axis, -1)
    sums = np.logaddexp.reduce(logs, axis=-1)
    known = sums > -np.inf
    kernel: Floats = np.exp(logs - np.where(known, sums, 0.0)[..., None])
    while not known.all():
        before, rows = known.copy(), kernel.copy()
        for at in np.argwhere(~before):
            near = []
            for along, value in product(range(before.ndim), range(max(before.shape))):
                other = tuple(value if d == along else int(v) for d, v in enumerate(at))
                if value < before.shape[along] and before[other]:
                    near.append(rows[other])
            if near:
                kernel[tuple(at)] = np.mean(near, axis=0)
                known[tuple(at)] = True
    return kernel


def _steps(kernels: Floats, variation: Floats) -> Floats:
    """The largest step over kernels (u, x, y), for each pair of rows x, x'."""
    values = kernels.shape[-1]
    if not variation.max() < LARGEST:
        raise NotChecked(f"variations of {variation.max():.3g} and more are not checked here")
    if values == 2:
        odds = np.exp([variation[1, 0], -variation[0, 1]])
        means = kernels[:, :, None, 0] + kernels[:, :, None, 1] * odds
    elif values <= _MOST_VALUES:
        # By definition: any set of values may be more likely by the largest factor.
        sets = np.array(list(product((0.0, 1.0), repeat=values)))
        means = 1 + (kernels @ sets.T) * np.expm1(variation.max())
    else:
        raise NotChecked(f"nodes with more than {_MOST_VALUES} values are not checked here")
    logs = np.log(means)
    steps: Floats = (logs[:, :, None, :] - logs[:, None, :, :]).max(axis=(0, 3))
    return np.maximum(steps, 0.0)


def _sway(rows: Floats) -> Callable[[float], float]:
    """rate(a): how much a neighbour moves the distribution of a node; rows (x, ..., y) of logs."""
    rows = rows.reshape(len(rows), -1, rows.shape[-1])
    if rows.shape[-1] != 2:
        widest = 0.0
        for one, other in combinations(range(len(rows)), 2):
            ratio = rows[one] - rows[other]
            widest = max(widest, float((ratio.max(axis=1) - ratio.min(axis=1)).max()))
        return lambda _: float(np.tanh(widest / 4))
    odds = rows[:, :, 1] - rows[:, :, 0]
    pairs = [(odds[one], odds[other]) for one, other in combinations(range(len(rows)), 2)]
    if not pairs:
        return lambda _: 0.0
    first = np.concatenate([one for one, _ in pairs])
    second = np.concatenate([other for _, other in pairs])

    def rate(most: float) -> float:
        tilt = np.clip(-(first + second) / 2, -most, most)
        return float(np.abs(_sigmoid(first + tilt) - _sigmoid(second + tilt)).max())

    return rate


def _sigmoid(odds: Floats) -> Floats:
    return np.asarray(0.5 * (1 + np.tanh(odds / 2)))
