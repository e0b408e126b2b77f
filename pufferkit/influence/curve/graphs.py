"""Event-level epsilon against Pufferfish epsilon on any graph: trees, networks, random fields.

Secrets: any two values of one node. Beliefs: one distribution of the nodes, a class by the largest
loss. Releases: any with per-node costs.

Let replacing the value x of node k by x' move the log-likelihood f of the output by at most
cost_k(x, x'). For a function F > 0 of the data of a set S of nodes let V_k(x, x') bound log F(x, u)
/ F(x', u) over all data u of S without k. At first S is the set of all nodes and F = f, so that
V_k = cost_k; then nodes j other than the secret one are removed from S, one after another, in one
of two ways. Write p(. | v) for the distribution of X_j given the data v of the rest of S.

*Average*: F'(v) = sum over y of p(y | v) F(y, v), and for each remaining k

    V'_k(x, x') = V_k(x, x') + max over u of step(p(. | x, u), p(. | x', u); V_j)

with step(p, q; V) = max of log (sum p e^g) / (sum q e^g) over all g that vary by at most V, the
step of PAIRS Theorem 1 (0 for nodes k that p does not depend on).

*Pay*: F'(v) = the least F(y, v) over y, V' = V, and the largest entry of V_j is added to a total.

Theorem: FIXES 6a. A release of these costs is epsilon-Pufferfish private for every i with epsilon =
the total + the largest entry of V_i when only i is left, whatever the order and the choices.

*Proof.* E[f | X_i = x] = E[F(X_S) | X_i = x] holds at first, and averaging preserves it: F'(X_S')
is the mean of F(X_S) given X_S', i is in S', and means of means are means. Where k goes from x to
x' and the rest u of S' stays, F(y, x, u) is at most e^V_k(x, x') F(y, x', u) for every y, and y ->
F(y, x', u) varies by at most V_j, so that

    F'(x, u) <= e^V_k sum over y of p(y | x, u) F(y, x', u)
             <= e^(V_k + step) sum over y of p(y | x', u) F(y, x', u) = e^(V_k + step) F'(x', u).

Paying: F' <= F <= e^(the largest entry of V_j) F', so means of F and of F' differ by at most that
factor, upwards for x and not at all for x'; and the minimum of functions that vary by V_k in k
varies by V_k. When only i is left, F is a function of X_i. QED

What p(. | v) is where v cannot happen does not matter for the means, so there it may be any
distribution; it is taken from the nearest v that can happen.

*Messages.* All nodes beyond a separator of a junction tree are removed within their own part of the
tree, and they raise V of the nodes of the separator alone: a *message* of a clique to a separator.
Two passes give the messages in both directions (`Passes`). Every node has a separator of its own,
and its loss is its cost and the messages to it. The V of a message for node k speaks of data that
differ in k alone, and where all values of the separator can happen together F' there is one
function whatever the way: each pair x, x' of k may use the way that is best for it, and what is
paid for there is added to V_k. Where they cannot, ways would speak of different functions:
the V of one way bound log F' between any two values that can happen, also if they differ in several
nodes, and that is what lets F' be continued to the others. So there all pairs of a separator take
the same way; that no node gains more than the costs of all nodes beyond holds beside it.

*Jumps.* Cliques C_1, ..., C_m in a row that share single nodes v_1, ..., v_{m-1} may be taken for
one. Paying all of it but a node v_m of C_m that is averaged last needs the distribution of v_m
given the node that stays, a product of kernels along the row. On a path of nodes this is a block of
the chain's curve, on a tree a skip over the nodes between.

In a wide part, without junction tree, nodes are resampled given their neighbours (`Rates`). In any
case no node loses more than the total cost of its part, as in group DP.
"""

from __future__ import annotations

import heapq
import json
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, singledispatch
from itertools import combinations, permutations, product
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pufferkit import checks, records
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
from pufferkit.checks import Bools, Floats
from pufferkit.errors import NotApplicable
from pufferkit.influence.curve.engine import PRECISION
from pufferkit.influence.curve.steps import LARGEST, Transport, closure, off_diagonal
from pufferkit.influence.curve.transport_plans import bases_of, packed
from pufferkit.influence.progress import Progress
from pufferkit.rounding import EPS, bounding, largest_within, round_up

Index = NDArray[np.intp]

MOST_LISTED = 5
"""Up to this many values of a node all extreme g are listed; of more there are thousands."""

MOST_BYTES = 2_000_000_000
"""Most memory that the curve of a class of graphs may take."""

_AT_ONCE = 1 << 17  # about how many means are computed at once
_KEPT = 1 << 16  # tables of so many entries are kept from one evaluation to the next
_UNDERFLOW = -600.0
_START = 10  # the search begins at this part of what independent nodes may have
_COMPARED = 0.1  # event-level epsilon at which trees are compared
_MOST_JUMPS, _JUMP_WORK, _MOST_DEGREE = 48, 8000, 8
_MOST_PLANS = 2e7  # arcs of the programmes of all messages
_GAIN = 1e-7
_MOST_TREES = 150_000  # bytes of recorded trees of plans in one text
_BOTH = 5e8  # up to so many nanoseconds both trees are tried
_MOST_ROUNDS, _WITHIN, _MOST_RECEIVED = 5000, 1e-7, 1e3


# --- one node is averaged -------------------------------------------------------------------------


@cache
def _alternating_trees(values: int) -> Floats:
    """For each spanning tree whose arcs lead from sources to sinks: g at each value from V.

    Rows of coefficients of V(y, z), with g = 0 at the first value; 2, 6, 32, 250 trees.
    """
    rows = []
    for size in range(1, values):
        for sources in combinations(range(values), size):
            sinks = [z for z in range(values) if z not in sources]
            arcs = [(y, z) for y in sources for z in sinks]
            for tree in combinations(arcs, values - 1):
                g = {0: np.zeros(values * values)}
                for _ in range(values - 1):
                    for y, z in tree:  # g_y = g_z + V(y, z)
                        one = np.zeros(values * values)
                        one[y * values + z] = 1.0
                        if y in g and z not in g:
                            g[z] = g[y] - one
                        elif z in g and y not in g:
                            g[y] = g[z] + one
                if len(g) == values:
                    rows.append([g[y] for y in range(values)])
    return np.array(rows)


def extremes(variation: Floats) -> Floats:
    """The extreme g that vary by at most V, for each V: [V, g, value], the largest value 0.

    Theorem: FIXES 6a, Lemma. The largest step over g is attained at one of these.

    *Proof.* sum p G / sum q G is largest on an extreme ray of the cone G_y <= e^V(y, z) G_z. There
    tight constraints connect all values, or two sets of values would have factors of their own. V
    is closed under the triangle inequality without changing the cone; then y -> z -> w tight makes
    y -> w tight, so the arcs from values that no arc leads to (one of each cycle of ties) connect
    all values too, and some spanning tree of them gives G. What other trees give is put into the
    cone by the least e^V(y, z) G_z, which moves no member. QED
    """
    ways, values = variation.shape[:2]
    if values == 2:
        two = np.zeros((ways, 2, 2))
        two[:, 0, 1], two[:, 1, 0] = -variation[:, 0, 1], -variation[:, 1, 0]
        return two
    closed = variation.copy()
    for middle in range(values):
        through = closed[:, :, middle, None] + closed[:, None, middle, :]
        np.minimum(closed, through * (1 + 2 * EPS), out=closed)
    trees = _alternating_trees(values)
    g = (closed.reshape(ways, -1) @ trees.reshape(-1, values * values).T).reshape(ways, -1, values)
    inside = (closed[:, None] + g[:, :, None, :]).min(axis=3)
    if values > 3:  # most trees are of no extreme ray
        moved = np.abs(inside - g).max(axis=2) > 1e-9 * (1 + closed.max())
        order = np.argsort(moved, axis=1, kind="stable")
        kept = int((~moved).sum(axis=1).max())
        inside = np.take_along_axis(inside, order[:, :kept, None], axis=1)
    return np.asarray(inside - inside.max(axis=2, keepdims=True))


def steps_at(
    kernel: Floats, variation: Floats, axes: Sequence[int], slack: Floats, most: int
) -> Floats:
    """The largest step over all u for each pair of values of each of these nodes.

    Parameters
    ----------
    kernel
        By ways, the distribution of the removed node along the second axis given the others.
    variation
        V of the removed node.
    axes
        The other nodes, as axes without that of the removed one.
    slack
        Added to the steps of each way.
    most
        Matrices have room for so many values.
    """
    ways, values = kernel.shape[:2]
    slack = slack + 16 * values * EPS * (1 + variation.max(axis=(1, 2), initial=0.0))
    if values > MOST_LISTED:
        return _by_largest(kernel, variation.max(axis=(1, 2)), axes, slack, most)
    tilted = np.exp(extremes(variation)) @ kernel.reshape(ways, values, -1)
    means = tilted.reshape(ways, -1, *kernel.shape[2:])
    pairs = [
        (place, axis + 1, one, other)
        for place, axis in enumerate(axes)
        for one, other in combinations(range(means.shape[axis + 1]), 2)
    ]
    ends = np.empty((2, len(pairs), ways))
    for number, (_, axis, one, other) in enumerate(pairs):
        rows = means.reshape(prod(means.shape[:axis]), means.shape[axis], -1)
        ratios = (rows[:, one] / rows[:, other]).reshape(ways, -1)
        ratios.max(axis=1, out=ends[0, number])
        ratios.min(axis=1, out=ends[1, number])
    upper, lower = np.log(ends)
    steps = np.zeros((len(axes), ways, most, most))
    places, _, ones, others = np.array(pairs, dtype=np.intp).reshape(-1, 4).T
    steps[places, :, ones, others] = upper + slack
    steps[places, :, others, ones] = slack - lower
    return np.maximum(steps, 0.0, out=steps)


def _by_largest(
    kernel: Floats, largest: Floats, axes: Sequence[int], slack: Floats, most: int
) -> Floats:
    """The same from the largest entry of V: some set of values is more likely by that factor.

    By Neyman and Pearson the best set has the values whose ratio p / q is above a threshold.
    """
    ways, values = kernel.shape[:2]
    growth = np.expm1(largest)[:, None, None]
    steps = np.zeros((len(axes), ways, most, most))
    for place, axis in enumerate(axes):
        rows = np.moveaxis(kernel, axis + 1, 0)
        rows = rows.reshape(len(rows), ways, values, -1)
        one, other = np.nonzero(off_diagonal(len(rows)))
        p, q = rows[one], rows[other]
        ratio = np.divide(p, q, out=np.where(p > 0, np.inf, 0.0), where=q > 0)
        order = np.argsort(-ratio, axis=2)
        above = 1 + growth * np.cumsum(np.take_along_axis(p, order, axis=2), axis=2)
        below = 1 + growth * np.cumsum(np.take_along_axis(q, order, axis=2), axis=2)
        steps[place][:, one, other] = (np.log((above / below).max(axis=(2, 3))) + slack).T
    return steps


def conditional(tables: Floats, logs: bool) -> tuple[Floats, Floats]:
    """The distribution along the second axis given all others, and the tables without it.

    Given impossible values of the others, the mean over the nearest possible ones.
    """
    if not logs:
        whole: Floats = tables.sum(axis=1)
        return tables / whole[:, None], whole
    whole = log_sum(tables, [1])
    known = whole > -np.inf
    kernel: Floats = np.exp(tables - np.where(known, whole, 0.0)[:, None])
    while not known.all():
        sums, counts = np.zeros_like(kernel), np.zeros(known.shape)
        for along in range(1, known.ndim):
            sums += kernel.sum(axis=along + 1, keepdims=True)
            counts += known.sum(axis=along, keepdims=True)
        fresh = ~known & (counts > 0)
        filled = np.moveaxis(sums, 1, -1)[fresh] / counts[fresh][:, None]
        np.moveaxis(kernel, 1, -1)[fresh] = filled
        known |= fresh
    return kernel, whole


def followed(
    tables: Floats, logs: bool, variations: Floats, targets: int, error: float, greedy: bool
) -> tuple[Floats, Bools]:
    """What is added to each pair of values of the targets, and which nodes were paid.

    Parameters
    ----------
    tables
        Distributions, or their logarithms if ``logs``; the axes are the ways, the nodes to be
        removed in their order, nodes that stay, and the targets.
    variations
        V of each node to be removed, in all ways; zero beyond the values of a node.
    targets
        Their number.
    error
        Bound on the relative error of the distributions.
    greedy
        Whether a node is paid where averaging adds more in total. A variation above `LARGEST` is
        paid in any case.
    """
    count, ways, most = variations.shape[:3]
    axes = [*range(1, count + 1), *range(tables.ndim - targets, tables.ndim)]
    own = np.concatenate([variations, np.zeros((targets, ways, most, most))])
    slack = np.full(ways, 4 * error + (64 + 4 * tables.ndim) * EPS)
    paid, pays = np.zeros(ways), np.zeros((ways, count), dtype=bool)
    for place in range(count):
        size = tables.shape[1]
        largest = own[place].max(axis=(1, 2))
        kernel, tables = conditional(tables, logs)
        near = [axis - place - 1 for axis in axes[place + 1 :]]
        mine = np.minimum(own[place, :, :size, :size], LARGEST)
        steps = steps_at(kernel, mine, near, slack, most)
        pay = ~(largest <= LARGEST)
        if greedy:
            pay |= steps.max(axis=(2, 3)).sum(axis=0) >= largest
        own[place + 1 :] += np.where(pay[:, None, None], 0.0, steps)
        paid += np.where(pay, largest, 0.0)
        pays[:, place] = pay
    sizes = np.array(tables.shape[tables.ndim - targets :])
    inside = np.arange(most) < sizes[:, None]
    outside = inside[:, None, :, None] & inside[:, None, None, :] & ~np.eye(most, dtype=bool)
    return (own[count:] + paid[:, None, None]) * outside * (1 + 2 * count * EPS), pays


# --- messages over a tree of separators -----------------------------------------------------------


class Way(NamedTuple):
    """How the nodes beyond are removed for the bound of one node of a separator.

    ``cliques`` are taken together; nodes are removed in ``order``, averaged (``a``) or paid
    (``p``).
    """

    cliques: tuple[int, ...]
    order: tuple[int, ...]
    moves: str


class _Jump(NamedTuple):
    """From the node of a separator over cliques to another node, with the kernel between them.

    ``paid`` has node, clique and the next clique (or -1) of each node on the way.
    """

    cliques: tuple[int, ...]
    kernel: Floats
    end: int
    paid: tuple[tuple[int, int, int], ...]


@dataclass
class _Group:
    """Ways through tables of one shape, from messages of one level.

    A message has one way in each turn; if it has ``one_way`` only, groups have one turn.
    """

    removed: int
    targets: int
    logs: bool
    one_way: bool
    cliques: list[tuple[int, tuple[int, ...]]]
    rows: Index
    places: Index
    messages: Index
    turns: Index
    kept: Floats | None = None


@dataclass
class _Level:
    """Messages that do not depend on one another.

    A row is a node of the clique of a message: one that is removed, with its V, or one that stays,
    with what others told about it. ``slots`` and ``sent`` are the sums and the messages to take
    from them that make up what others told.
    """

    messages: list[int]
    nodes: Index
    out: Bools
    message: Index
    slots: Index
    sent: Index
    entries: Index
    entry_rows: Index
    entry_message: Index
    groups: list[_Group]
    plans: list[tuple[int, int, Transport]]


class Passes:
    """Messages between the cliques of the narrow parts of a model, and the losses of its nodes.

    Matrices of all nodes have the same size; they are zero beyond the values of a node.
    """

    def __init__(self, tree: SeparatorTree) -> None:
        self.tree = tree
        self._at: list[list[int]] = [[] for _ in tree.cliques]
        for s, around in enumerate(tree.around):
            for c in around:
                self._at[c].append(s)
        sizes = np.array([len(own) for own in tree.possible], dtype=np.intp)
        self._most = int(sizes.max(initial=1))
        inside = np.arange(self._most) < sizes[:, None]
        eye = np.eye(self._most, dtype=bool)
        self._outside = inside[:, :, None] & inside[:, None, :] & ~eye
        self._slot = {
            key: number
            for number, key in enumerate(
                (s, k) for s, own in enumerate(tree.separators) for k in own
            )
        }
        every = [(c, s) for s, around in enumerate(tree.around) for c in around]
        self._pairs = every
        self._number = {pair: number for number, pair in enumerate(every)}
        self._strength: dict[Any, Floats] = {}
        self._kernels: dict[tuple[int, int, int], Floats] = {}
        entries = [(c, s, k) for c, s in every for k in tree.separators[s]]
        self._entry = {key: number for number, key in enumerate(entries)}
        self._slot_of = np.array([self._slot[s, k] for _, s, k in entries], dtype=np.intp)
        degree = np.bincount(self._slot_of, minlength=len(self._slot) + 1)
        self._raised = (1 + (degree + 8) * EPS)[:, None, None]
        self._single = [all(len(tree.separators[s]) == 1 for s in own) for own in self._at]
        self.may_jump = any(
            own and len(at) > 1 for own, at in zip(self._single, self._at, strict=True)
        )
        self._alone = {own[0]: s for s, own in enumerate(tree.separators) if len(own) == 1}
        self._jumps: dict[int, list[_Jump]] = defaultdict(list)
        work = sum(
            2 * tree.tables[c].size ** 2
            for c, own in enumerate(tree.cliques)
            if len(own) == 2 and max(tree.tables[c].shape) > MOST_LISTED
        )
        self._by_plans = work <= _MOST_PLANS
        self._levels = [self._level(own) for own in _levels(tree, self._at)]
        work_left = _JUMP_WORK // max(1, len(sizes)), 10**6 // self._most**3
        self._most_jumps = min(_MOST_JUMPS, *work_left)
        self._unit: tuple[bytes, Floats] = b"", np.zeros(0)

    # what does not depend on costs

    def _level(self, messages: Sequence[tuple[int, int]]) -> _Level:
        tree, nothing = self.tree, (len(self._slot), len(self._entry))
        nodes, out, message, sources = list[int](), list[bool](), list[int](), list[Any]()
        entries, entry_rows, entry_message = list[int](), list[int](), list[int]()
        grouped: dict[Any, list[Any]] = defaultdict(list)
        plans: list[tuple[int, int, Transport]] = []
        for number, (c, s) in enumerate(messages):
            kept, first, begin = tree.separators[s], len(nodes), len(entries)
            for k in tree.cliques[c]:
                others = [t for t in self._at[c] if t != s and k in tree.separators[t]]
                sources.append([(self._slot[t, k], self._entry[c, t, k]) for t in others])
                nodes.append(k)
                out.append(k not in kept)
                message.append(number)
            for k in kept:
                entries.append(self._entry[c, s, k])
                entry_rows.append(first + tree.cliques[c].index(k))
                entry_message.append(number)
            table = tree.tables[c]
            removed = [a for a, k in enumerate(tree.cliques[c]) if k not in kept]
            stay = [tree.cliques[c].index(k) for k in kept]
            if (
                self._by_plans
                and (len(removed), len(stay)) == (1, 1)
                and table.shape[removed[0]] > MOST_LISTED
                and table.shape[stay[0]] * 2 * table.size <= _MOST_TREES
            ):
                kernel = conditional(table.transpose(removed + stay)[None], logs=True)[0][0]
                steps = Transport([kernel.T], 4 * tree.error + 64 * EPS)
                plans.append((begin, first + removed[0], steps))
                continue
            for key, own, turn in self._ways(c, removed, stay):
                at = [begin + stay.index(a) for a in own[len(removed) + len(stay) - key[3] :]]
                rows = [first + a for a in own[: len(removed)]]
                grouped[key].append((c, own, rows, at, number, turn))
        groups = []
        for (_, removed_, logs, targets, one_way, _), group in grouped.items():
            cliques = [(each[0], each[1]) for each in group]
            own_ = [np.array([each[n] for each in group]) for n in (2, 3, 4, 5)]
            groups.append(_Group(removed_, targets, logs, one_way, cliques, *own_))
        most = max((len(own) for own in sources), default=0)
        padded = np.array(
            [own + [nothing] * (most - len(own)) for own in sources], dtype=np.intp
        ).reshape(len(nodes), most, 2)
        return _Level(
            [self._number[pair] for pair in messages],
            np.array(nodes, dtype=np.intp),
            np.array(out, dtype=bool),
            np.array(message, dtype=np.intp),
            padded[:, :, 0],
            padded[:, :, 1],
            np.array(entries, dtype=np.intp),
            np.array(entry_rows, dtype=np.intp),
            np.array(entry_message, dtype=np.intp),
            groups,
            plans,
        )

    def _ways(
        self, c: int, removed: Sequence[int], stay: Sequence[int]
    ) -> Iterator[tuple[tuple[Any, ...], tuple[int, ...], int]]:
        """Orders of the axes of a clique: removed, staying, targets; with what groups them."""
        if not removed:
            return
        table = self.tree.tables[c]
        logs = bool(table.min(initial=0.0) < _UNDERFLOW)
        possible = table.max(axis=tuple(removed)) > -np.inf
        one_way = len(stay) > 1 and not possible.all()
        together = one_way or len(removed) == 1
        for targets in [tuple(stay)] if together else [(a,) for a in stay]:
            others = tuple(a for a in stay if a not in targets)
            for turn, order in enumerate(self._orders(c, removed, targets)):
                axes = (*order, *others, *targets)
                shape = tuple(table.shape[a] for a in axes)
                yield (
                    (shape, len(removed), logs, len(targets), one_way, one_way and turn),
                    axes,
                    turn,
                )

    def _orders(
        self, c: int, removed: Sequence[int], targets: Sequence[int]
    ) -> list[tuple[int, ...]]:
        """Rising and falling by how far a target moves each node."""
        if len(removed) == 1:
            return [tuple(removed)]
        # Rounded, so that the last digit does not decide between nodes that are alike.
        strength = self._strengths(c)[list(targets)].sum(axis=0).round(9)
        rising = tuple(sorted(removed, key=lambda j: (strength[j], j)))
        return [rising, rising[::-1]]

    def _strengths(self, c: int) -> Floats:
        """How far node k moves the distribution of node j of a clique: [k, j]."""
        table = self.tree.tables[c]
        key = table.shape, table.tobytes()
        if key not in self._strength:
            matrix = np.zeros((table.ndim, table.ndim))
            logs = bool(table.min(initial=0.0) < _UNDERFLOW)
            own = table if logs else np.exp(table)
            for j in range(table.ndim):
                kernel, _ = conditional(np.moveaxis(own, j, 0)[None], logs)
                growth = np.zeros(1)
                unit = off_diagonal(kernel.shape[1])[None]
                steps = steps_at(kernel, unit, range(1, table.ndim), growth, max(table.shape))
                others = [k for k in range(table.ndim) if k != j]
                matrix[others, j] = steps.max(axis=(1, 2, 3))
            self._strength[key] = matrix
        return self._strength[key]

    # what does

    def losses(
        self, costs: Sequence[Floats], search: bool = False, ways: dict[Any, Any] | None = None
    ) -> dict[int, Floats]:
        """For every node that can vary the loss of each pair of values it can take, rounded up.

        With ``search`` better jumps are looked for and kept. ``ways`` is filled with those that
        were used, by clique, separator and node, and with the plans of messages.
        """
        self._costs = np.zeros(self._outside.shape)
        for matrix, cost in zip(self._costs, costs, strict=True):
            matrix[: len(cost), : len(cost)] = cost
        self._beyond = self._all_beyond(self._costs.max(axis=(1, 2)))
        self._sums = np.zeros((len(self._slot) + 1, self._most, self._most))
        self._sent = np.zeros((len(self._entry) + 1, self._most, self._most))
        for level in self._levels:
            self._pass(level, search, ways)
        raised = 1 + (len(self.tree.cliques) + 32) * EPS
        losses: dict[int, Floats] = {}
        for s, own in enumerate(self.tree.separators):
            if len(own) == 1:
                n, size = own[0], len(costs[own[0]])
                total = (costs[n] + self._sums[self._slot[s, n], :size, :size]) * raised
                total = closure(total) if size > 2 else total
                losses[n] = np.minimum(losses[n], total) if n in losses else total
        return losses

    def _pass(self, level: _Level, search: bool, ways: dict[Any, Any] | None) -> None:
        """The messages of a level."""
        told = self._sums[level.slots] * self._raised[level.slots] - self._sent[level.sent]
        variations = told.sum(axis=1) + self._costs[level.nodes] * level.out[:, None, None]
        variations *= 1 + (level.slots.shape[1] + 4) * EPS
        largest = variations.max(axis=(1, 2), initial=0.0) * level.out
        paid = np.bincount(level.message, largest, len(level.messages)) * (1 + 64 * EPS)
        outside = self._outside[level.nodes[level.entry_rows]]
        best = np.asarray(paid[level.entry_message][:, None, None] * outside, dtype=np.float64)
        seen: list[tuple[int, int, Way, Floats]] = []
        totals = np.bincount(
            level.entry_message, best.max(axis=(1, 2), initial=0.0), len(level.messages)
        )
        for group in level.groups:
            for chosen, matrices, pays in self._followed(group, variations):
                places = group.places[chosen]
                if group.one_way:
                    messages = group.messages[chosen]
                    own = matrices.max(axis=(2, 3)).sum(axis=0)
                    less = own < totals[messages]
                    totals[messages[less]] = own[less]
                    best[places[less]] = matrices.transpose(1, 0, 2, 3)[less]
                else:
                    for turn, target in product(range(2), range(group.targets)):
                        mine = group.turns[chosen] == turn
                        at = places[mine, target]
                        best[at] = np.minimum(best[at], matrices[target][mine])
                if ways is not None:
                    seen += _seen(self.tree, group, chosen, places, matrices, pays)
        for place, row, steps in level.plans:
            size = steps.states
            own = variations[row, :size, :size]
            if own.max() <= LARGEST:
                matrix = steps(closure(own))
                best[place, : steps.rows, : steps.rows] = np.minimum(
                    best[place, : steps.rows, : steps.rows], matrix
                )
                if ways is not None:
                    c, s = self._pair(level, place)
                    ways.setdefault("plans", {})[c, s] = b"".join(bases_of(steps))
        seen += self._by_jumps(level, best, search)
        result = (best + variations[level.entry_rows]) * (1 + 2 * EPS)
        everything = self._beyond[level.messages][level.entry_message]
        result = np.minimum(bounding(result), everything[:, None, None]) * outside
        self._sent[level.entries] = result
        np.add.at(self._sums, self._slot_of[level.entries], result)
        if ways is not None:
            self._keep(level, best, seen, ways)

    def _followed(self, group: _Group, variations: Floats) -> Iterator[tuple[Index, Floats, Bools]]:
        """All ways of a group; greedily, and where nodes are paid then, without paying too."""
        shape = self.tree.tables[group.cliques[0][0]].shape
        many = max(1, int(_AT_ONCE / means_of(shape)))
        for begin in range(0, len(group.cliques), many):
            chosen = np.arange(begin, min(len(group.cliques), begin + many))
            tables = self._tables(group, chosen)
            own = variations[group.rows[chosen]].transpose(1, 0, 2, 3)
            greedy = group.removed > 1
            error = self.tree.error
            answer = followed(tables, group.logs, own, group.targets, error, greedy)
            yield chosen, *answer
            again = answer[1].any(axis=1)
            if greedy and again.any():
                own, tables = own[:, again], tables[again]
                plain = followed(tables, group.logs, own, group.targets, error, False)
                yield chosen[again], *plain

    def _tables(self, group: _Group, chosen: Index) -> Floats:
        if group.kept is not None:
            return group.kept[chosen]
        own = []
        for c, axes in (group.cliques[way] for way in chosen):
            table = self.tree.tables[c].transpose(axes)
            own.append(table if group.logs else np.exp(table))
        tables = np.stack(own)
        if len(chosen) == len(group.cliques) and tables.size <= _KEPT:
            group.kept = tables
        return tables

    def _all_beyond(self, most: Floats) -> Floats:
        """For every message the costs of all nodes beyond its separator, rounded up."""
        largest = float(most.max(initial=0.0)) or 1.0
        unit = most / largest
        if self._unit[0] != unit.tobytes():
            beyond, into = np.zeros(len(self._number)), np.zeros(len(self.tree.around))
            for c, s in (
                self._pairs[number] for level in self._levels for number in level.messages
            ):
                kept = self.tree.separators[s]
                own = sum(unit[k] for k in self.tree.cliques[c] if k not in kept)
                for t in self._at[c]:
                    if t != s:
                        own += into[t] - beyond[self._number[c, t]]
                beyond[self._number[c, s]] = own
                into[s] += own
            beyond += (len(most) + 8) * EPS * (1 + float(unit.sum()))
            self._unit = unit.tobytes(), beyond * (1 + (len(most) + 8) * EPS)
        return self._unit[1] * largest

    def _pair(self, level: _Level, place: int) -> tuple[int, int]:
        return self._pairs[level.messages[int(level.entry_message[place])]]

    # jumps

    def _by_jumps(
        self, level: _Level, best: Floats, search: bool
    ) -> list[tuple[int, int, Way, Floats]]:
        """Lower the bounds by known jumps, and by new ones; what each gives."""
        asked: list[tuple[int, _Jump]] = []
        place, seen = 0, []
        for number in level.messages:
            c, s = self._pairs[number]
            count = len(self.tree.separators[s])
            if count == 1 and self._single[c]:
                jumps = self._jumps.get(number, [])
                if search:
                    seen_before = {(jump.cliques, jump.end) for jump in jumps}
                    others = self._candidates(c, s, float(best[place].max()))
                    jumps = [*jumps, *(j for j in others if (j.cliques, j.end) not in seen_before)]
                asked += [(place, jump) for jump in jumps]
            place += count
        for (at, jump), matrix in zip(asked, self._jumped([own for _, own in asked]), strict=True):
            c, s = self._pair(level, at)
            if search:
                known = self._jumps[self._number[c, s]]
                if (matrix < best[at] * (1 - _GAIN)).any() and all(
                    own is not jump for own in known
                ):
                    known.append(jump)
            size = len(jump.kernel)
            best[at, :size, :size] = np.minimum(best[at, :size, :size], matrix[:size, :size])
            order = (*(n for n, _, _ in jump.paid), jump.end)
            way = Way(jump.cliques, order, "p" * len(jump.paid) + "a")
            seen.append((at, size, way, matrix))
        return seen

    def _jumped(self, jumps: Sequence[_Jump]) -> list[Floats]:
        """What each adds to the node that stays."""
        matrices: list[Floats] = [np.zeros(0)] * len(jumps)
        shapes: dict[tuple[int, int], list[int]] = defaultdict(list)
        for number, jump in enumerate(jumps):
            shapes[jump.kernel.shape[0], jump.kernel.shape[1]].append(number)
        for alike in shapes.values():
            own = [jumps[number] for number in alike]
            tables = np.stack([jump.kernel.T for jump in own])
            ends = np.array([self._place(jump.end, jump.cliques[-1], -1) for jump in own]).T
            lengths = [len(jump.paid) for jump in own]
            paid = [self._place(*each) for jump in own for each in jump.paid]
            spent: Floats = np.zeros(len(own))
            if paid:
                largest = self._told(*np.array(paid).T).max(axis=(1, 2))
                which = np.repeat(np.arange(len(own)), lengths)
                sums = np.bincount(which, largest, len(own)).astype(np.float64)
                spent = sums * (1 + (max(lengths) + 8) * EPS)
            error = self.tree.error * 2 * (1 + max(len(jump.cliques) for jump in own))
            error += (16 + 2 * self._most * max(lengths, default=0)) * EPS
            added, pays = followed(tables, False, self._told(*ends)[None], 1, error, False)
            for number, matrix, cost, pay in zip(alike, added[0], spent, pays, strict=True):
                size = len(jumps[number].kernel)
                whole = np.full((self._most, self._most), np.inf)
                if not pay.any():
                    whole[:size, :size] = (matrix[:size, :size] + cost) * off_diagonal(size)
                matrices[number] = whole
        return matrices

    def _place(self, n: int, c: int, d: int) -> tuple[int, int, int, int]:
        """Where to read V of a node without what one or two cliques told about it."""
        s, nothing = self._alone[n], len(self._entry)
        return (
            n,
            self._slot[s, n],
            self._entry[c, s, n],
            self._entry[d, s, n] if d >= 0 else nothing,
        )

    def _told(self, nodes: Index, slots: Index, one: Index, other: Index) -> Floats:
        told = self._sums[slots] * self._raised[slots] - self._sent[one] - self._sent[other]
        return np.asarray((self._costs[nodes] + np.maximum(told, 0.0)) * (1 + 8 * EPS))

    def _candidates(self, c: int, s: int, worst: float) -> Iterator[_Jump]:
        """Jumps from a separator through a clique, those that pay least first."""
        tree, start = self.tree, self.tree.separators[s][0]
        heap: list[Any] = []
        count = 0

        def push(
            spent: float,
            cliques: tuple[int, ...],
            kernel: Floats | None,
            last: int,
            paid: tuple[tuple[int, int, int], ...],
        ) -> None:
            """On through the last clique, to each of its other nodes."""
            nonlocal count
            d = cliques[-1]
            others = [k for k in tree.cliques[d] if k != last]
            mu = {k: self._mu(k, d, -1) for k in others} if len(others) > 1 else {}
            for k in others:
                beside = [j for j in others if j != k]
                cost = spent + sum(mu[j] for j in beside)
                if cost < worst:
                    count += 1
                    more = paid + tuple((j, d, -1) for j in beside)
                    heapq.heappush(heap, (cost, count, cliques, kernel, last, k, more))

        push(0.0, (c,), None, start, ())
        tried = 0
        while heap and tried < self._most_jumps:
            spent, _, cliques, before, last, k, paid = heapq.heappop(heap)
            kernel = self._kernel(cliques[-1], last, k)
            kernel = kernel if before is None else before @ kernel
            if len(cliques) > 1 or paid:
                tried += 1
                yield _Jump(cliques, kernel, k, paid)
            around = tree.around[self._alone[k]]
            if len(around) <= _MOST_DEGREE:
                for d in around:
                    if d != cliques[-1] and self._single[d]:
                        cost = spent + self._mu(k, cliques[-1], d)
                        if cost < worst:
                            push(cost, (*cliques, d), kernel, k, (*paid, (k, cliques[-1], d)))

    def _mu(self, n: int, c: int, d: int) -> float:
        node, slot, one, other = self._place(n, c, d)
        told = self._sums[slot] - self._sent[one] - self._sent[other]
        return float((self._costs[node] + told).max())

    def _kernel(self, c: int, n: int, k: int) -> Floats:
        """The distribution of one node of a clique given another."""
        if (c, n, k) not in self._kernels:
            own = self.tree.cliques[c]
            one, other = own.index(n), own.index(k)
            table = log_sum(
                self.tree.tables[c], [a for a in range(len(own)) if a not in (one, other)]
            )
            table = table if one < other else table.T
            sums = log_sum(table, [1])
            self._kernels[c, n, k] = np.exp(table - sums[:, None])
        return self._kernels[c, n, k]

    # what is recorded

    def _keep(
        self,
        level: _Level,
        best: Floats,
        seen: Sequence[tuple[int, int, Way, Floats]],
        ways: dict[Any, Any],
    ) -> None:
        """The ways that some pair of values needs, those that most need first."""
        for group in level.groups:
            if group.one_way:
                seen = _one_way(group, seen, best)
        by_place: dict[int, list[tuple[Way, Bools]]] = defaultdict(list)
        for place, size, way, matrix in seen:
            by_place[place].append((way, matrix[:size, :size] <= best[place, :size, :size]))
        for place, own in by_place.items():
            c, s = self._pair(level, place)
            n = int(level.nodes[level.entry_rows[place]])
            need = ~np.eye(len(own[0][1]), dtype=bool)
            for way, reached in sorted(own, key=lambda one: -int(one[1].sum())):
                if (need & reached).any():
                    need &= ~reached
                    if (
                        len(way.order) > 1 or "p" in way.moves
                    ):  # one averaged node goes without saying
                        ways.setdefault("ways", []).append((c, s, n, way))


def _seen(
    tree: SeparatorTree, group: _Group, chosen: Index, places: Index, matrices: Floats, pays: Bools
) -> Iterator[tuple[int, int, Way, Floats]]:
    """The ways of a group, for each target: place, number of values, way, and what it adds."""
    for number, way in enumerate(chosen):
        c, axes = group.cliques[way]
        order = tuple(tree.cliques[c][a] for a in axes[: group.removed])
        moves = "".join("p" if pay else "a" for pay in pays[number])
        for target in range(group.targets):
            size = tree.tables[c].shape[axes[len(axes) - group.targets + target]]
            yield (
                int(places[number, target]),
                size,
                Way((c,), order, moves),
                matrices[target, number],
            )


def _one_way(
    group: _Group, seen: Sequence[tuple[int, int, Way, Floats]], best: Floats
) -> list[tuple[int, int, Way, Floats]]:
    """Without ways of a group that do not serve all targets of their message, or come second."""
    left = list(seen)
    for places in group.places.tolist():
        own = [one for one in left if one[0] in places]
        serving = [
            way
            for way in dict.fromkeys(way for _, _, way, _ in own)
            if all((m[:k, :k] <= best[at, :k, :k]).all() for at, k, other, m in own if other == way)
        ]
        left = [one for one in left if one[0] not in places or one[2] in serving[:1]]
    return left


def _levels(tree: SeparatorTree, at: Sequence[Sequence[int]]) -> list[list[tuple[int, int]]]:
    """Messages in an order such that each comes after those that it needs.

    First towards the middle of each part, from its ends, then back.
    """
    count = len(tree.cliques)
    beside = [[count + s for s in own] for own in at] + [list(own) for own in tree.around]
    upward: dict[int, list[tuple[int, int]]] = defaultdict(list)
    downward: dict[int, list[tuple[int, int]]] = defaultdict(list)
    visited: set[int] = set()
    for start in range(count):
        if start in visited or not beside[start]:
            continue
        root = start
        for _ in range(2):  # the middle of a longest path
            order, before = _reached(beside, root)
            root = order[-1]
        path = [root]
        while before[path[-1]] >= 0:
            path.append(before[path[-1]])
        order, before = _reached(beside, path[len(path) // 2])
        visited.update(order)
        height, depth = dict.fromkeys(order, 0), dict.fromkeys(order, 0)
        for vertex in reversed(order):
            above = before[vertex]
            if above >= 0:
                height[above] = max(height[above], height[vertex] + 1)
                if vertex < count:
                    upward[height[vertex]].append((vertex, above - count))
        for vertex in order:
            above = before[vertex]
            if above >= 0:
                depth[vertex] = depth[above] + 1
                if vertex >= count:
                    downward[depth[vertex]].append((above, vertex - count))
    return [own[key] for own in (upward, downward) for key in sorted(own)]


def _reached(beside: Sequence[Sequence[int]], root: int) -> tuple[list[int], dict[int, int]]:
    """Vertices by their distance from a root, and the one before each."""
    order, before = [root], {root: -1}
    for vertex in order:
        for other in beside[vertex]:
            if other not in before:
                before[other] = vertex
                order.append(other)
    return order, before


# --- wide parts: nodes are resampled, given their neighbours --------------------------------------


class Rates:
    """How far nodes of a part of any width send what they received on to their neighbours.

    All nodes stay in S. To *resample j*, for any j but the secret i, is to take F'(v) = E[F | all
    but j] in place of F. That preserves E[F | X_i], F' does not depend on node j, and with u the
    data of the other neighbours of j

        V'_j = 0,    V'_k = V_k + max over u of step(p(. | x, u), p(. | x', u); V_j)

    for neighbours k. Let rate_jk(a; x, x') bound the step over the largest entry of V_j where that
    is at most a, and rate_jk(a) be its largest over x, x'.

    Theorem: FIXES 6b, Theorem G. Let c_k > 0 be the largest cost of node k, and A_k >= c_k + sum
    over j of rate_jk(A_j) A_j for all k. Then

        loss_i(x, x') <= cost_i(x, x') + sum over j of rate_ji(A_j; x, x') A_j,
        loss_i        <= A_i / (1 + sum over j of rate_ij(A_i) rate_ji(A_j)).

    *Proof.* Resample the nodes other than i, in turn. Node k receives c_k at first and then what
    others send, each amount counted by its largest entry. Suppose no node has received more than A
    so far. What j sent away in all is at most what it received, at most A_j, and so were the
    amounts one by one; hence k has received at most c_k + sum over j of rate_jk(A_j) A_j <= A_k,
    and the pair x, x' of i no more than the first bound says. What is left outside i goes to zero,
    since A > rate^T A entry by entry bounds the spectral radius of the rates below 1; and the loss
    is at most the sum of all V_k at any time, because two data sets differ node by node. So it is
    at most R_i, what i receives without ever sending. Let i send too: with rates t = rate(A) fixed,
    all receive the solution of R = c + t^T R, R <= A, and R_i is what it received without sending
    times the sum of the returns (t^T)^n_ii, which is at least 1 + sum over j of t_ij t_ji. QED
    (Amounts are counted by their largest entries: entries of several amounts that j sends on may be
    largest at different pairs, and the largest entry of their sum would be too little.)

    Theorem: FIXES 6b, Lemma F. Let all factors be positive. Replacing x by x' at k moves the
    log-ratios of P(X_j = . | the others) by at most D = the sum over the factors of j and k of the
    largest oscillation over y of log phi(y, x, .) - log phi(y, x', .), and rate = tanh(D/4). If j
    has two values, with log-odds m + h and m - h given x and x', then h <= D/2, m lies between sums
    of the least and largest midpoints of the factors, and

        rate(a) = sinh(h) / (cosh(h) + cosh(m0)),  m0 = what is left of |m| after a tilt by a.

    *Proof.* Oscillations add up, and factors without both nodes cancel. The step contracts by
    tanh(D/4) (Birkhoff). For two values its derivative in V is the difference of the two
    probabilities, tilted by at most a; it grows with h and falls with the distance of m from 0. QED
    In an Ising model rate <= tanh(coupling): Dobrushin's condition, with sums along all paths.
    """

    def __init__(self, nodes: Sequence[int], sizes: Sequence[int], factors: Sequence[LogFactor]):
        self.nodes = np.array(nodes, dtype=np.intp)
        self._sizes = np.array([sizes[n] for n in nodes], dtype=np.intp)
        most = int(self._sizes.max())
        self._one, self._other = np.triu_indices(most, 1)
        place = {n: number for number, n in enumerate(nodes)}
        count = len(nodes)
        low, high = np.zeros(count), np.zeros(count)  # log-odds of nodes with two values
        alike: dict[tuple[int, ...], list[tuple[list[int], Floats]]] = defaultdict(list)
        for scope, table in factors:
            alike[table.shape].append(([place[n] for n in scope], table))
        made: list[tuple[Any, ...]] = []
        for shape, own in alike.items():
            scopes, tables = np.array([s for s, _ in own]), np.stack([t for _, t in own])
            for a, values in enumerate(shape):
                if values == 2:
                    odds = np.diff(np.moveaxis(tables, a + 1, 1), axis=1).reshape(len(own), -1)
                    np.add.at(low, scopes[:, a], odds.min(axis=1))
                    np.add.at(high, scopes[:, a], odds.max(axis=1))
            for a, b in permutations(range(len(shape)), 2):
                rows = np.moveaxis(tables, (a + 1, b + 1), (1, 2))
                rows = rows.reshape(len(own), shape[a], shape[b], -1)
                made.append((scopes[:, a] * count + scopes[:, b], *self._moved(rows)))
        keys = np.concatenate([np.zeros(0, dtype=np.intp), *(own[0] for own in made)])
        pairs, where = np.unique(keys, return_inverse=True)
        self.sender, self.receiver = np.divmod(pairs, count)
        shape = len(pairs), len(self._one)
        self._apart, least, largest = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        if made:
            apart, lows, highs = (np.concatenate([own[n] for own in made]) for n in (1, 2, 3))
            np.add.at(self._apart, where, apart)
            np.add.at(least, where, lows)
            np.add.at(largest, where, highs)
        # The midpoint of the log-odds: of the factors of both nodes, and of the others.
        below, above = low[self.sender][:, None] + least, high[self.sender][:, None] + largest
        size = 1 + np.maximum(np.abs(low), np.abs(high))[self.sender][:, None] + self._apart
        self._apart *= 1 + 1e-12
        self._apart += np.where(self._apart > 0, 1e-13 * size, 0.0)
        near = np.maximum(np.maximum(below, -above) - 1e-12 * size, 0.0)
        self._near = np.where(self._sizes[self.sender][:, None] == 2, near, 0.0)
        back = self.receiver * count + self.sender
        self._back = np.searchsorted(pairs, back)

    def _moved(self, rows: Floats) -> tuple[Floats, Floats, Floats]:
        """By how far each two values of k move j, and the ends of the midpoints less those of all.

        ``rows`` are logarithms by factor, value of j, value of k and the rest.
        """
        inside = (self._one < rows.shape[2]) & (self._other < rows.shape[2])
        one, other = self._one[inside], self._other[inside]
        each = [np.zeros((len(rows), len(inside))) for _ in range(3)]
        moved = rows[:, :, one] - rows[:, :, other]
        each[0][:, inside] = np.ptp(moved, axis=1).max(axis=2)
        if rows.shape[1] == 2:
            odds = rows[:, 1] - rows[:, 0]
            middle = (odds[:, one] + odds[:, other]) / 2
            each[1][:, inside] = middle.min(axis=2) - odds.min(axis=(1, 2))[:, None]
            each[2][:, inside] = middle.max(axis=2) - odds.max(axis=(1, 2))[:, None]
        return each[0], each[1], each[2]

    def at(self, amounts: Floats) -> Floats:
        """rate_jk(A_j; x, x') of every pair of neighbours, rounded up."""
        half = self._apart / 2
        left = np.maximum(self._near - amounts[self.sender][:, None], 0.0)
        # sinh(h) / (cosh(h) + cosh(m)), without overflow; tanh(D/4) where m is 0
        grown = np.exp(-2 * half)
        tail = 2 * np.exp(-half) * np.cosh(np.minimum(left, 700.0))
        rates = (1 - grown) / (1 + grown + tail)
        return np.where(half > 0, rates * (1 + 1e-12) + 1e-14, 0.0)

    def received(self, costs: Floats) -> Floats | None:
        """A of the theorem; ``None`` if the search has no result."""
        # The theorem needs costs above zero; larger ones are on the safe side.
        costs = np.maximum(costs, 1e-9 * float(costs.max()))
        amounts = costs * (1 + 1e-9)
        for _ in range(_MOST_ROUNDS):
            rates = self.at(amounts).max(axis=1, initial=0.0)
            sent = rates * amounts[self.sender]
            update = (costs + np.bincount(self.receiver, sent, len(costs))) * (1 + self._rounding)
            if bool(np.all(update <= amounts)):
                return amounts
            if not float(update.max()) <= _MOST_RECEIVED:
                return None
            amounts = np.maximum(amounts, update * (1 + _WITHIN))
        return None

    def amounts(self, costs: Sequence[Floats]) -> Floats | None:
        """A for these costs of all nodes of the model."""
        return self.received(np.array([float(costs[n].max(initial=0.0)) for n in self.nodes]))

    @property
    def _rounding(self) -> float:
        return (len(self.nodes) + 64) * EPS

    def losses(self, costs: Sequence[Floats]) -> dict[int, Floats]:
        """The loss of each pair of values, rounded up; of no node if the coupling is too strong."""
        own, amounts = [costs[n] for n in self.nodes], self.amounts(costs)
        if amounts is None:
            return {}
        each = self.at(amounts)
        rates = each.max(axis=1, initial=0.0)
        returns = np.bincount(self.sender, rates * rates[self._back], len(own))
        most = amounts / (1 + returns * (1 - 1e-9)) * (1 + 16 * EPS)
        pairs = np.zeros((len(own), each.shape[1]))
        np.add.at(pairs, self.receiver, each * amounts[self.sender][:, None])
        losses = {}
        for n, cost, upper, bound in zip(self.nodes.tolist(), own, pairs, most, strict=True):
            added = np.zeros((int(self._sizes.max()),) * 2)
            added[self._one, self._other] = added[self._other, self._one] = upper
            size = len(cost)
            total = (cost + added[:size, :size]) * (1 + self._rounding)
            losses[n] = np.minimum(total, bound) * off_diagonal(size)
        return losses


# --- time and memory ------------------------------------------------------------------------------


def means_of(shape: Sequence[int]) -> float:
    """Most means for the removal of a node from a table; at least its number of entries."""
    return prod(shape) * max((_functions(values) / values for values in shape), default=1.0)


def _functions(values: int) -> int:
    """The number of extreme g of a node."""
    return 4 * values if values > MOST_LISTED else (0, 1, 2, 6, 20, 70)[values]


def sizes_of(model: GraphModel) -> list[int]:
    """The number of values of each node."""
    return [len(model.values[node]) for node in model.nodes]


def quick_trees(model: GraphModel) -> list[CliqueTree]:
    """The quicker of the trees of narrow parts; both, if they take little time.

    Neither has always less loss, except that the graph itself is the best where it is a tree.
    """
    sizes = sizes_of(model)
    trees = CliqueTree.all_of(sizes, [scope for scope, _ in model.log_factors], None)
    for tree in trees:
        if max(map(len, tree.cliques), default=0) <= 2:
            return [tree]
    works = [_work(sizes, tree) for tree in trees]
    return trees if sum(works) <= _BOTH else [trees[works.index(min(works))]]


def graph_work(model: GraphModel) -> float:
    """Approximate nanoseconds for the search for the largest event-level epsilon."""
    return sum(_work(sizes_of(model), tree) for tree in quick_trees(model))


def _work(sizes: Sequence[int], tree: CliqueTree) -> float:
    """Those for one tree: about five evaluations of all messages, most ratios in three ways."""
    total, home = 0.0, dict[int, int]()
    for c, own in enumerate(tree.cliques):
        if tree.parent[c] >= 0:
            for d in (c, tree.parent[c]):
                total += _message_work(sizes, tree.cliques[d], tree.separator(c))
        for n in own:
            large = prod(sizes[m] for m in own)
            if n not in home or large < prod(sizes[m] for m in tree.cliques[home[n]]):
                home[n] = c
    return 5 * (total + sum(_message_work(sizes, tree.cliques[c], (n,)) for n, c in home.items()))


def _message_work(sizes: Sequence[int], clique: Sequence[int], kept: Sequence[int]) -> float:
    """Nanoseconds for one message: 4 for each ratio of two means."""
    out, stay = [sizes[n] for n in clique if n not in kept], [sizes[n] for n in kept]
    many = len(out) > 1
    ratios = 0.0
    while out:
        values, *out = out
        pairs = sum(size - 1 for size in out) * len(stay) + sum(size - 1 for size in stay)
        ratios += prod(out) * prod(stay) * _functions(values) * (pairs / 2 + 1)
    return 1e5 + 4 * ratios * (3 if many else 1)


def curve_bytes(model: GraphModel, trees: Sequence[CliqueTree]) -> float:
    """About how many bytes the curve of a graph takes: tables of cliques and their means."""
    sizes, needed, largest = sizes_of(model), 0.0, 0.0
    for clique in (clique for tree in trees for clique in tree.cliques):
        shape = [sizes[n] for n in clique]
        needed += 24.0 * prod(shape) + 15_000
        largest = max(largest, len(shape) * means_of(shape))
    return needed + 80 * largest


def check_memory(models: Sequence[GraphModel], trees: Sequence[Sequence[CliqueTree]]) -> None:
    """Refuse models that need too much memory, before it is used."""
    needed = sum(curve_bytes(*one) for one in zip(models, trees, strict=True))
    if needed > MOST_BYTES:
        raise NotApplicable(
            f"the influence curve of {len(models):,} graphs needs about {needed / 1e9:.3g} GB of "
            f"memory, more than {MOST_BYTES / 1e9:.3g}; list fewer, or merge values of nodes"
        )


# --- the curve ------------------------------------------------------------------------------------


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
        each = [(tree, JunctionTree.on(tree, sizes, factors)) for tree in trees]
        made = [(tree, Passes(SeparatorTree.of(own, sizes))) for tree, own in each]
        self.places = [
            [place[model.values[node][value]] for value in own]
            for node, own in zip(model.nodes, made[0][1].tree.possible, strict=True)
        ]
        self._distances = [distance[np.ix_(own, own)] for own in self.places]
        near = neighbours(len(sizes), [scope for scope, _ in factors])
        self.wide = [part for part in parts(near) if trees[0].home[part[0]] < 0]
        self._rates = [_rates(part, sizes, factors) for part in self.wide]
        self.tree, self.passes = made[0]
        if len(made) > 1:
            b = _COMPARED / (float(distance.max()) or 1.0)
            costs = self.costs(b)
            self.tree, self.passes = min(made, key=lambda own: _largest(own[1].losses(costs)))

    def costs(self, b: float | Floats) -> list[Floats]:
        """Of replacing a possible value of each node; ``b`` for all nodes or for each."""
        each = np.broadcast_to(b, len(self._distances))
        return [own * distance for own, distance in zip(each, self._distances, strict=True)]

    def at(self, b: float | Floats, search: bool = False) -> list[Floats]:
        """The loss of each pair of possible values of every node, rounded up."""
        costs = self.costs(b)
        losses = list(costs)
        for n, own in self.passes.losses(costs, search).items():
            losses[n] = own
        for part, rates in zip(self.wide, self._rates, strict=True):
            whole = sum(float(costs[n].max(initial=0.0)) for n in part) * (1 + len(part) * EPS)
            by_rates = {} if rates is None else rates.losses(costs)
            for n in part:
                most = whole * off_diagonal(len(costs[n]))
                losses[n] = np.minimum(most, by_rates[n]) if n in by_rates else most
        return losses

    def record(self, b: float) -> dict[str, Any]:
        """What `verify` needs: the order of elimination, ways, plans, and amounts of wide parts."""
        ways: dict[Any, Any] = {}
        costs = self.costs(b)
        self.passes.losses(costs, ways=ways)
        record: dict[str, Any] = {"order": list(self.tree.order)}
        if "ways" in ways:
            plain = [[c, s, n, way.cliques, way.order, way.moves] for c, s, n, way in ways["ways"]]
            record["ways"] = _text(plain)
        if "plans" in ways:
            some, size = list[list[tuple[int, int]]](), _MOST_TREES + 1
            for pair, own in sorted(ways["plans"].items()):
                size += len(own)
                if size > _MOST_TREES:
                    some.append([])
                    size = len(own)
                some[-1].append(pair)
            record["planned"] = [[list(pair) for pair in own] for own in some]
            record["plans"] = [packed(ways["plans"][pair] for pair in own) for own in some]
        amounts = [None if own is None else own.amounts(costs) for own in self._rates]
        if amounts:
            record["amounts"] = [None if own is None else _numbers(own) for own in amounts]
        return record


def _rates(part: Sequence[int], sizes: Sequence[int], factors: Sequence[LogFactor]) -> Rates | None:
    """The rates of a wide part; ``None`` where some combinations cannot happen: no theorem."""
    inside = set(part)
    own = [factor for factor in factors if inside.issuperset(factor[0])]
    return Rates(part, sizes, own) if all(np.isfinite(table).all() for _, table in own) else None


def _text(plain: Any) -> str:
    """A compressed text of JSON."""
    return records.packed(json.dumps(plain, separators=(",", ":")).encode())


def _numbers(values: Floats) -> str:
    """A compressed text of floats, byte by byte."""
    return records.packed(values.astype("<f8").tobytes())


def _largest(losses: Mapping[int, Floats]) -> float:
    return max((float(own.max()) for own in losses.values()), default=0.0)


@singledispatch
def record_loss(theta: Beliefs, cost: Floats) -> float:
    """Pufferfish epsilon when replacing a value by another costs ``cost`` at every named entry.

    Changing all entries that depend on an entry costs no more than the total spent on them.
    """
    return round_up(float(cost.max()) * len(theta.entries or ()))


@record_loss.register
def _(theta: GraphClass, cost: Floats) -> float:
    return GraphCurve(theta.listed, theta.states, cost).loss(1.0).value


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

    def pair_losses(self, b: float | Floats) -> dict[Hashable, Floats]:
        """For every node, the loss of each pair of states; 0 if one is not a value of the node."""
        size = len(self.states)
        tables = {node: np.zeros((size, size)) for node in self.models[0].nodes}
        for model, each in zip(self.models, self._each, strict=True):
            losses = each.at(self._profile(model, b), search=True)
            for own, node, places in zip(losses, model.nodes, each.places, strict=True):
                where = np.ix_(places, places)
                tables[node][where] = np.maximum(tables[node][where], own)
        return tables

    def _profile(self, model: GraphModel, b: float | Floats) -> float | Floats:
        """One b for all nodes, or one for each, in the order in which a model lists its nodes."""
        if np.ndim(b) == 0:
            return b
        own = dict(zip(self.models[0].nodes, np.asarray(b), strict=True))
        return np.array([own[node] for node in model.nodes])

    def losses(self, b: float | Floats) -> dict[Hashable, float]:
        """The loss of every node, the largest over the models."""
        return {node: float(pairs.max()) for node, pairs in self.pair_losses(b).items()}

    def loss(self, b: float | Floats) -> GraphLoss:
        """The largest loss over models and nodes."""
        each = [self._largest(number, b, search=True) for number in range(len(self.models))]
        return max(each, key=lambda loss: loss.value)

    def solve(self, epsilon: float, progress: Progress | None = None) -> tuple[float, GraphLoss]:
        """The largest b that the search reached, and the binding loss."""
        epsilon = checks.privacy(epsilon)
        furthest = float(self.distance.max()) or 1.0
        count = len(self.models[0].nodes)
        # The upper end is that of independent nodes; losses are rounded up.
        b = epsilon / furthest * (1 - (2 * count + 128) * EPS)
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
        start, best = most / _START, None
        for _ in range(4):
            found = largest_within(loss_at, epsilon, start, most, PRECISION, progress=progress)
            if found is None or (best is not None and found[0] <= best[0]):
                break
            best = found
            if not self._each[number].passes.may_jump:
                break
            # Jumps that help here let b grow.
            loss = self._largest(number, best[0], search=True)
            if best[0] >= most or not loss.value < best[1].value * (1 - 1e-6):
                break
            start = min(most, best[0] * epsilon / loss.value)
        if best is not None:
            return best
        # If the whole part is paid, the loss is at most epsilon.
        whole = most / len(self.models[number].nodes) * (1 - 1e-9)
        return whole, self._largest(number, whole)

    def record(self, b: float) -> list[dict[str, Any]]:
        """Verification data: for every model what its bounds were derived from."""
        return [own.record(b) for own in self._each]

    def _largest(self, number: int, b: float | Floats, search: bool = False) -> GraphLoss:
        each = self._each[number].at(self._profile(self.models[number], b), search)
        losses = [float(own.max()) if own.size else 0.0 for own in each]
        worst = int(np.argmax(losses))
        return GraphLoss(losses[worst], self.models[number].nodes[worst], number)
