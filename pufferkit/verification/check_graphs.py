"""The influence curve on graphs, from the proof that a release carries.

The record of a model has the order in which nodes are eliminated, which makes its junction tree,
and where more than one node leaves a clique, in which order and how (notes/proofs.md: nodes are
averaged out one by one). The order is replayed, and the recorded ways are followed. Nothing is
searched for and no programme is solved: any ways give a valid bound, so a false proof can only fail
to show that a scale is enough. Where the values of a separator cannot all happen together, one way
must serve all of its nodes. Of parts that are too wide for cliques the record has, for each node,
the most that it ever receives; one pass over the pairs of neighbours shows that it is.

Shared with the engine: factors of a model, the tree of an order, its separators, and the
distributions of cliques with the bound on their error (`pufferkit.beliefs.junction_tree`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache, singledispatch
from itertools import combinations, pairwise, permutations, product
from math import inf, prod
from typing import Any, NamedTuple

import numpy as np

from pufferkit.beliefs.base import Beliefs, GraphClass
from pufferkit.beliefs.junction_tree import (
    CliqueTree,
    GraphModel,
    JunctionTree,
    LogFactor,
    SeparatorTree,
    log_sum,
    neighbours,
    parts,
)
from pufferkit.checks import Floats
from pufferkit.records import unpacked
from pufferkit.rounding import EPS
from pufferkit.verification.check_steps import (
    LARGEST,
    Plans,
    closed,
    off_diagonal,
    plan_values,
    row_steps,
)
from pufferkit.verification.claims import (
    TOLERANCE,
    Allowance,
    Claim,
    NotChecked,
    largest,
)

_LISTED = 5  # values up to which extreme functions are listed
_UP = 1 + 1e-13  # sums and products of a few positive numbers


class _RecordedWay(NamedTuple):
    """Cliques taken together, nodes in the order of their removal, averaged or paid."""

    cliques: tuple[int, ...]
    order: tuple[int, ...]
    moves: str


@singledispatch
def models_of(theta: Beliefs) -> Sequence[GraphModel]:
    """The models of a graph; none of chains and joint distributions."""
    return ()


@models_of.register
def _(theta: GraphClass) -> Sequence[GraphModel]:
    return theta.listed


def largest_part(model: GraphModel) -> int:
    """Number of nodes of the largest connected component."""
    near = neighbours(len(model.nodes), [scope for scope, _ in model.log_factors])
    return max(len(part) for part in parts(near))


def loss_on_graphs(models: Sequence[GraphModel], claim: Claim) -> float:
    """The largest loss of a node, over models."""
    records, states = claim.proof["graphs"], claim.beliefs.states
    cost, work = claim.cost / (1 + TOLERANCE), claim.work
    if claim.record.evidence.beside:
        raise NotChecked("there is no theorem for graphs with other spending beside")
    if not (np.isfinite(cost).all() and cost.max(initial=0.0) <= LARGEST):
        raise NotChecked("a cost is too large to compute with")
    place = {state: number for number, state in enumerate(states)}
    losses = []
    for model, record in zip(models, records, strict=True):
        sizes = [len(model.values[node]) for node in model.nodes]
        factors = [(tuple(scope), table) for scope, table in model.log_factors]
        work.spend(2e4 * len(sizes) + sum(50.0 * table.size + 2e3 for _, table in factors))
        proof, costs = _Proof(sizes, factors, record, work), []
        for n, node in enumerate(model.nodes):
            own = [place[model.values[node][value]] for value in proof.tree.possible[n]]
            costs.append(cost[np.ix_(own, own)])
        losses.append(proof.loss(costs))
    claim.checks.append(
        f"influence_curve: the largest loss of a node is {largest(losses):.9g}, by the recorded "
        "ways out of its cliques"
    )
    return largest(losses)


class _Proof:
    """One model with its recorded proof."""

    def __init__(
        self,
        sizes: Sequence[int],
        factors: Sequence[LogFactor],
        record: Mapping[str, Any],
        work: Allowance,
    ) -> None:
        self.sizes, self.factors, self.work = sizes, factors, work
        shape = CliqueTree.in_order(sizes, [scope for scope, _ in factors], record["order"])
        work.spend(300.0 * sum(prod(sizes[n] for n in own) for own in shape.cliques))
        self.tree = SeparatorTree.of(JunctionTree.on(shape, sizes, factors), sizes)
        self.at: list[list[int]] = [[] for _ in shape.cliques]
        for s, around in enumerate(self.tree.around):
            for c in around:
                self.at[c].append(s)
        self.order = _in_order(self.tree, self.at)
        self.wide = [n for n in range(len(sizes)) if shape.home[n] < 0]
        self.amounts = record.get("amounts", [])
        self.ways: dict[tuple[int, int, int], list[_RecordedWay]] = {}
        if "ways" in record:
            for c, s, n, together, order, moves in json.loads(unpacked(record["ways"])):
                way = _RecordedWay(tuple(together), tuple(order), str(moves))
                self.ways.setdefault((c, s, n), []).append(way)
        self.plans: dict[tuple[int, int], Any] = {}
        for text, planned in zip(record.get("plans", []), record.get("planned", []), strict=True):
            if text is not None:
                bases = Plans(text)
                for c, s in planned:
                    kernel = self._kernel(c, self.tree.separators[s][0], self._other(c, s))
                    self.plans[c, s] = bases.following(kernel)
                bases.end()

    def _other(self, c: int, s: int) -> int:
        (other,) = (n for n in self.tree.cliques[c] if n not in self.tree.separators[s])
        return other

    def loss(self, costs: Sequence[Floats]) -> float:
        """The largest loss of a node."""
        tree = self.tree
        self.costs = costs
        self.most = [float(own.max(initial=0.0)) for own in costs]
        self.sums: dict[tuple[int, int], Floats] = {
            (s, n): np.zeros_like(costs[n]) for s, own in enumerate(tree.separators) for n in own
        }
        self.sent: dict[tuple[int, int], dict[int, Floats]] = {}
        self.beyond: dict[tuple[int, int], float] = {}
        self.into = [0.0] * len(tree.around)
        for c, s in self.order:
            own = self._message(c, s)
            self.sent[c, s] = own
            for n, added in own.items():
                self.sums[s, n] = self.sums[s, n] + added
        losses = [self._wide_loss()]
        for s, own_nodes in enumerate(tree.separators):
            if len(own_nodes) == 1:
                total = costs[own_nodes[0]] + self.sums[s, own_nodes[0]] * _UP
                losses.append(float(closed(total).max(initial=0.0)))
        return largest(losses)

    def _told(self, n: int, c: int, without: Sequence[int]) -> Floats:
        """What other cliques say about a node of a clique, through all but some separators."""
        total = np.zeros_like(self.costs[n])
        for s in self.at[c]:
            if s not in without and n in self.tree.separators[s]:
                total = total + self._aside(s, n, (c,))
        return total

    def _aside(self, s: int, n: int, cliques: Sequence[int]) -> Floats:
        """What all cliques at a separator but some say about a node, rounded up."""
        total = self.sums[s, n] * (1 + (len(self.tree.around[s]) + 8) * EPS)
        for c in cliques:
            if (c, s) in self.sent:
                total = total - self.sent[c, s][n]
        return np.maximum(total, 0.0)

    def _message(self, c: int, s: int) -> dict[int, Floats]:
        """What removing all nodes beyond a separator adds to each of its nodes."""
        tree, kept = self.tree, self.tree.separators[s]
        out = [n for n in tree.cliques[c] if n not in kept]
        variations = {n: (self.costs[n] + self._told(n, c, (s,))) * _UP for n in out}
        beyond = sum(self.most[n] for n in out)
        for t in self.at[c]:
            if t != s:
                beyond += self.into[t] - self.beyond.get((c, t), 0.0)
        self.beyond[c, s] = beyond
        self.into[s] += beyond
        everything = beyond + 1e-13 * len(self.most) * (1 + sum(self.most))
        paid = sum(float(own.max(initial=0.0)) for own in variations.values())
        added = {n: np.full_like(self.costs[n], paid) for n in kept}
        usual = [_RecordedWay((c,), tuple(out), "a")] if len(out) == 1 else []
        ways = {n: self.ways.get((c, s, n), []) + usual for n in kept} if out else {}
        if len(kept) > 1:
            gone = tuple(a for a, n in enumerate(tree.cliques[c]) if n not in kept)
            possible = tree.tables[c].max(axis=gone) > -inf
            if not possible.all():  # one way for all
                first = ways[kept[0]][:1] if ways else []
                ways = dict.fromkeys(kept, first) if all(ways[n][:1] == first for n in ways) else {}
        for way in dict.fromkeys(way for own in ways.values() for way in own):
            targets = [n for n in kept if way in ways.get(n, [])]
            for n, matrix in self._followed(c, s, targets, way, variations).items():
                added[n] = np.fmin(added[n], np.where(np.isfinite(matrix), matrix, inf))
        result = {}
        for n in kept:
            total = (added[n] + self._told(n, c, (s,))) * _UP
            result[n] = off_diagonal(np.minimum(total, everything))
        return result

    def _followed(
        self,
        c: int,
        s: int,
        targets: Sequence[int],
        way: _RecordedWay,
        variations: Mapping[int, Floats],
    ) -> dict[int, Floats]:
        """What a way adds to nodes of the separator."""
        tree, kept = self.tree, self.tree.separators[s]
        if len(way.cliques) > 1:
            return {kept[0]: self._jumped(c, s, way)}
        own, table = list(tree.cliques[c]), tree.tables[c]
        if (
            way.cliques != (c,)
            or sorted(way.order) != sorted(n for n in own if n not in kept)
            or len(way.moves) != len(way.order)
            or set(way.moves) - set("ap")
        ):
            raise ValueError("a way does not remove the nodes of its clique")
        if (c, s) in self.plans and way.moves == "a" and len(own) == 2:
            (n,) = way.order
            kernel = self._kernel(c, kept[0], n)
            self.work.spend(100.0 * kernel.size * len(kernel))
            steps = plan_values(kernel, closed(variations[n]), self.plans[c, s])
            return {kept[0]: off_diagonal(steps + self._slack(1))}
        left = {n: variations[n] for n in way.order}
        left |= {n: np.zeros_like(self.costs[n]) for n in targets}
        paid, slack = 0.0, self._slack(1)
        for n, move in zip(way.order, way.moves, strict=True):
            mine, axis = left.pop(n), own.index(n)
            if move == "a" and mine.max() <= LARGEST:
                self.work.spend(3e4 + 60.0 * table.size * len(left))
                means = _means(_given_others(table, axis), mine)
                rest = [m for m in own if m != n]
                for m, known in left.items():
                    left[m] = known + _steps(means, rest.index(m), slack)
            else:
                paid += float(mine.max())
            table = log_sum(table, [axis])
            own.remove(n)
        return {n: left[n] + paid for n in targets}

    def _jumped(self, c: int, s: int, way: _RecordedWay) -> Floats:
        """Cliques in a row that share single nodes; all is paid but the last node, averaged."""
        tree, row, end = self.tree, way.cliques, way.order[-1]
        between = []
        for one, other in pairwise(row):
            between += [t for t in self.at[one] if t in self.at[other]]
        alone = [tree.separators[t] for d in row for t in self.at[d]]
        if any(len(own) != 1 for own in alone) or len(between) != len(row) - 1:
            raise ValueError("the cliques of a jump do not share single nodes, in a row")
        nodes = [tree.separators[t][0] for t in (s, *between)]
        union = {n for d in row for n in tree.cliques[d]}
        if (
            row[0] != c
            or way.moves != "p" * (len(way.order) - 1) + "a"
            or len({*nodes, end}) <= len(row)
            or len({*row}) < len(row)
            or end not in tree.cliques[row[-1]]
            or sorted(way.order) != sorted(union - {nodes[0]})
        ):
            raise ValueError("a jump does not remove the nodes of its cliques")
        told = {}
        for n in way.order:
            inside = [d for d in row if n in tree.cliques[d]]
            (t,) = (t for t in self.at[inside[0]] if tree.separators[t] == (n,))
            told[n] = (self.costs[n] + self._aside(t, n, inside)) * _UP
        kernel = np.eye(len(self.costs[nodes[0]]))
        for d, (one, other) in zip(row, pairwise([*nodes, end]), strict=True):
            kernel = kernel @ self._kernel(d, one, other)
        variation = told.pop(end)
        if not variation.max() <= LARGEST:
            raise ValueError("a variation is too large to compute with")
        self.work.spend(5e4 + 100.0 * kernel.size * len(row))
        paid = sum(float(own.max()) for own in told.values()) * _UP
        return _steps(_means(kernel, variation), 0, self._slack(len(row))) + paid

    def _slack(self, cliques: int) -> float:
        """For the errors of distributions and of a few operations on them."""
        return 4 * cliques * self.tree.error + 1e-13

    def _kernel(self, c: int, n: int, m: int) -> Floats:
        """The distribution of one node of a clique given another, row by row."""
        own = self.tree.cliques[c]
        one, other = own.index(n), own.index(m)
        table = log_sum(self.tree.tables[c], [a for a in range(len(own)) if a not in (one, other)])
        table = table if one < other else table.T
        return np.asarray(np.exp(table - log_sum(table, [1])[:, None]))

    def _wide_loss(self) -> float:
        """Of parts without cliques: what each node receives, as recorded, or the whole part."""
        near = neighbours(len(self.sizes), [scope for scope, _ in self.factors])
        outside = set(self.wide)
        wide = [part for part in parts(near) if part[0] in outside]
        losses = []
        for number, part in enumerate(wide):
            bound = sum(self.most[n] for n in part) * _UP
            text = self.amounts[number] if number < len(self.amounts) else None
            if text is not None:
                amounts = np.frombuffer(unpacked(text), dtype="<f8")
                inside = set(part)
                own = [factor for factor in self.factors if inside.issuperset(factor[0])]
                self.work.spend(2e4 * len(own) + 1e4 * len(part))
                bound = min(bound, _received_at_most(part, self.sizes, own, self.costs, amounts))
            losses.append(bound)
        return largest(losses)


def _in_order(tree: SeparatorTree, at: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    """Messages of a clique to a separator, each after those that it needs: upward, then down."""
    upward, downward, seen = list[tuple[int, int]](), list[tuple[int, int]](), set[int]()
    for root in range(len(tree.cliques)):
        if root in seen:
            continue
        todo: list[tuple[int, int]] = [(root, -1)]  # a clique, and the separator it is reached by
        for c, before in todo:
            seen.add(c)
            upward += [(c, before)] if before >= 0 else []
            for s in (s for s in at[c] if s != before):
                downward.append((c, s))
                todo += [(other, s) for other in tree.around[s] if other != c]
    return [*reversed(upward), *downward]


def _given_others(table: Floats, axis: int) -> Floats:
    """The distribution along an axis, moved last; given impossible values, of the nearest."""
    logs = np.moveaxis(table, axis, -1)
    sums = log_sum(logs, [logs.ndim - 1])
    known = sums > -inf
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


@cache
def _joins(values: int) -> tuple[tuple[tuple[int, int], ...], ...]:
    """Spanning trees of the values whose arcs all lead from some of them to the others."""
    trees = []
    for size in range(1, values):
        for sources in combinations(range(values), size):
            arcs = [(y, z) for y in sources for z in range(values) if z not in sources]
            for tree in combinations(arcs, values - 1):
                part = list(range(values))
                for y, z in tree:
                    part = [part[y] if p == part[z] else p for p in part]
                if len(set(part)) == 1:
                    trees.append(tree)
    return tuple(trees)


def _extreme(variation: Floats) -> Floats:
    """All extreme G with G_y <= e^V(y, z) G_z, and other members: one in each row.

    At an extreme ray tight constraints connect all values; of a closed V they are those of a tree
    whose arcs lead from some values to the others.
    """
    values, logs = len(variation), list[list[float]]()
    nearest = closed(variation)
    rows = nearest.tolist()
    for tree in _joins(values):
        g, todo = {tree[0][1]: 0.0}, list(tree)
        while todo:
            y, z = todo.pop(0)
            if z in g and y not in g:
                g[y] = g[z] + rows[y][z]
            elif y in g and z not in g:
                g[z] = g[y] - rows[y][z]
            elif y not in g:
                todo.append((y, z))
        logs.append([g[y] for y in range(values)])
    inside = (nearest + np.array(logs)[:, None, :]).min(axis=2)
    return np.asarray(np.exp(inside - inside.max(axis=1, keepdims=True)))


Means = tuple[Floats, float | None]


def _means(kernel: Floats, variation: Floats) -> Means:
    """Logs of means of extreme functions of the last axis, or the kernel and the largest V."""
    if kernel.shape[-1] > _LISTED:
        return kernel, float(variation.max())
    return np.log(kernel @ _extreme(variation).T), None


def _steps(means: Means, axis: int, slack: float) -> Floats:
    """The largest step for each pair of values along an axis, over all values of the others."""
    table, most = means
    rows = np.moveaxis(table, axis, 0)
    rows = rows.reshape(len(rows), -1, rows.shape[-1])
    if most is not None:
        steps = np.max([row_steps(own, own > 0, most) for own in rows.swapaxes(0, 1)], axis=0)
    else:
        steps = np.array([(row - rows).max(axis=(1, 2)) for row in rows])
        slack += 1e-14 * (1 + float(np.abs(rows).max()))
    return off_diagonal(np.maximum(steps, 0.0) + slack)


def _received_at_most(
    part: Sequence[int],
    sizes: Sequence[int],
    factors: Sequence[LogFactor],
    costs: Sequence[Floats],
    amounts: Floats,
) -> float:
    """The largest loss of a part, if no node receives more than its amount; infinite otherwise."""
    if len(amounts) != len(part) or not (np.isfinite(amounts).all() and (amounts > 0).all()):
        raise ValueError("there is not one amount for each node")
    if any(not np.isfinite(table).all() for _, table in factors):
        return inf
    pairs, rates = _rates(part, sizes, factors, amounts)
    sender, receiver = np.array(pairs, dtype=np.intp).reshape(-1, 2).T
    count, largest = len(part), rates.max(axis=(1, 2), initial=0.0)
    own_costs = np.array([float(costs[n].max(initial=0.0)) for n in part])
    own_costs = np.maximum(own_costs, 1e-9 * own_costs.max(initial=0.0))
    rounding = 1 + (count + 64) * EPS
    needed = own_costs + np.bincount(receiver, largest * amounts[sender], count) * rounding
    if not (needed <= amounts).all():
        return inf
    number = {pair: at for at, pair in enumerate(pairs)}
    back = [number[k, j] for j, k in pairs]
    returns = np.bincount(sender, largest * largest[back], count)
    bounds = amounts / (1 + returns * (1 - 1e-9))
    sums = np.zeros((count, *rates.shape[1:]))
    np.add.at(sums, receiver, rates * amounts[sender][:, None, None])
    loss = 0.0
    for n, added, bound in zip(part, sums, bounds, strict=True):
        size = len(costs[n])
        by_pairs = (costs[n] + added[:size, :size]) * rounding * (1 - np.eye(size))
        loss = max(loss, min(float(by_pairs.max(initial=0.0)), float(bound)))
    return loss


def _rates(
    part: Sequence[int], sizes: Sequence[int], factors: Sequence[LogFactor], amounts: Floats
) -> tuple[list[tuple[int, int]], Floats]:
    """Ordered neighbours j, k, and how much of what j has reaches each pair of values of k.

    tanh(D / 4), with D the sum over the factors of j and k of how far replacing x by x' moves the
    log-ratios of j. Where j has two values and its log-odds stay away from 0, less.
    """
    place = {n: number for number, n in enumerate(part)}
    kinds: dict[tuple[Any, ...], tuple[Floats, list[list[int]]]] = {}
    for scope, table in factors:
        kind = kinds.setdefault((table.shape, table.tobytes()), (table, []))
        kind[1].append([place[n] for n in scope])
    pairs = sorted({own for _, all_ in kinds.values() for s in all_ for own in permutations(s, 2)})
    number = {pair: at for at, pair in enumerate(pairs)}
    most, count = max(sizes[n] for n in part), len(part)
    odds = np.zeros((2, count))  # least and largest log-odds of nodes with two values
    moved = np.zeros((3, len(pairs), most, most))  # D, and the ends of midpoints less those of odds
    for table, scopes in kinds.values():
        for a in range(table.ndim):
            if table.shape[a] == 2:
                own = np.diff(np.moveaxis(table, a, 0), axis=0)
                np.add.at(odds[0], [scope[a] for scope in scopes], own.min())
                np.add.at(odds[1], [scope[a] for scope in scopes], own.max())
            for b in (b for b in range(table.ndim) if b != a):
                at = [number[scope[a], scope[b]] for scope in scopes]
                for total, more in zip(moved, _moved(table, a, b, most), strict=True):
                    np.add.at(total, at, more)
    sender = np.array(pairs, dtype=np.intp).reshape(-1, 2)[:, 0]
    below = odds[0][sender][:, None, None] + moved[1]
    above = odds[1][sender][:, None, None] + moved[2]
    two = np.array([sizes[n] == 2 for n in part])[sender][:, None, None]
    away = np.where(two, np.maximum(np.maximum(below, -above) * (1 - 1e-12) - 1e-12, 0.0), 0.0)
    away = np.maximum(away - amounts[sender][:, None, None], 0.0)
    half = np.minimum(moved[0] * (1 + 1e-12) / 2, 300.0)
    rates = np.sinh(half) / (np.cosh(half) + np.cosh(np.minimum(away, 300.0))) * (1 + 1e-12)
    return pairs, np.where(half >= 300.0, 1.0, rates)


def _moved(table: Floats, a: int, b: int, most: int) -> Floats:
    """How far each two values along axis b move the log-ratios along axis a; ends of midpoints."""
    rows = np.moveaxis(table, (a, b), (0, 1)).reshape(table.shape[a], table.shape[b], -1)
    size, moved = table.shape[b], np.zeros((3, most, most))
    apart = rows[:, :, None] - rows[:, None, :]
    moved[0, :size, :size] = (apart.max(axis=0) - apart.min(axis=0)).max(axis=-1)
    if len(rows) == 2:
        odds = rows[1] - rows[0]
        middle = (odds[:, None] + odds[None, :]) / 2
        moved[1, :size, :size] = middle.min(axis=-1) - odds.min()
        moved[2, :size, :size] = middle.max(axis=-1) - odds.max()
    return moved
