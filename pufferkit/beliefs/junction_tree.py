"""Exact distributions of groups of neighbours in a graph: a junction tree.

Nodes are eliminated one at a time. A node and the neighbours it has at that moment form a *clique*;
the maximal cliques form a tree in which the cliques that contain a node are connected (the running
intersection property). Two passes of messages over it give the distribution of every clique.

The order decides how large the cliques are. Two are made for each independent part of a graph:
nodes that add the fewest edges first, which suits trees and what looks like them, and a sweep from
one end of the part to the other, which suits grids: the largest of 10 x 10 nodes have 2^11 entries
in place of 2^15.

Tables are logarithms, minus infinity where the probability is zero, so that strong couplings do not
underflow. Each addition and each logarithm of a sum errs by a few units in the last place of the
largest number in the table; ``error`` bounds the accumulated relative error of a probability.

# Contractions

Sums of products of probability tables: the distribution of a few nodes out of many.

A factor is an array with one label for each axis. A contraction multiplies factors and sums over
every other label than those of the result, two factors at a time in an order chosen by opt_einsum.

Properties of the result:

- *Rounding.* Only non-negative numbers are added and multiplied, so every entry has a small
  relative error: one rounding for each product and each addition that led to it. ``error`` bounds
  it, whatever the order of the additions.
- *Underflow.* If the factors are the tables of a network, each intermediate entry is a probability,
  and so is every number it is later multiplied with: all sums are over nodes whose own table is
  among the factors, and such a sum is at most 1. So the error of an entry by underflow is far below
  its rounding error, unless the entry itself is below `TINY`.
- *Zeros.* Whether an entry is possible at all is computed separately and exactly, in booleans.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from math import inf, prod
from typing import NamedTuple, Protocol

import numpy as np

from pufferkit.checks import Bools, Floats
from pufferkit.errors import NotApplicable
from pufferkit.rounding import EPS

TINY = 1e-280
"""Possible entries below this have lost their relative accuracy to underflow."""

MOST_TABLE = 10**8
"""Largest table, in entries, that a contraction may hold."""

Labels = tuple[int, ...]

_LARGE = 1 << 16  # from this size on matrix products repay their set-up
_BYTES = 24  # an entry, its pattern, and the copy made while multiplying


@dataclass(frozen=True, eq=False)
class JointTable:
    """A table of probabilities, which entries can occur, and a bound on the relative error."""

    values: Floats
    possible: Bools
    error: float

    @classmethod
    def exact(cls, values: Floats) -> JointTable:
        """A table without rounding errors."""
        return cls(values, values > 0, 0.0)


@dataclass(frozen=True, eq=False)
class Factor:
    """A table with one label for each axis."""

    table: JointTable
    labels: Labels

    def at(self, fixed: Mapping[int, int]) -> Factor:
        """The factor at fixed values of some of its labels."""
        if fixed.keys().isdisjoint(self.labels):
            return self
        places = tuple(fixed.get(label, slice(None)) for label in self.labels)
        rest = tuple(label for label in self.labels if label not in fixed)
        own = self.table
        return Factor(JointTable(own.values[places], own.possible[places], own.error), rest)


@dataclass(frozen=True)
class _Contraction:
    """Multiply the factors at ``places``, keep the labels ``keep``."""

    places: tuple[int, ...]
    keep: Labels
    entries: int
    summed: int


def contract(
    factors: Sequence[Factor], keep: Labels, what: str, most: int | None = None
) -> JointTable:
    """The product of ``factors``, summed over all labels but ``keep``; axes in the order of those.

    Raises
    ------
    NotApplicable
        If an intermediate table would have more than ``most`` entries, by default `MOST_TABLE`;
        nothing is allocated then. ``what`` names the result in the message.
    """
    steps = _plan(factors, keep)
    entries = max(step.entries for step in steps)
    if entries > (MOST_TABLE if most is None else most):
        raise NotApplicable(
            f"{what} needs about {entries * _BYTES / 1e9:,.0f} GB of memory; take fewer nodes, "
            "merge values, or cut the network into parts"
        )
    values = _run([(own.table.values, own.labels) for own in factors], steps, clip=False)
    if all(own.table.possible.all() for own in factors):
        possible = np.ones(values.shape, dtype=bool)
    else:
        patterns = [(own.table.possible.astype(np.float64), own.labels) for own in factors]
        possible = _run(patterns, steps, clip=True) > 0
    roundings = sum(1 + step.summed for step in steps)
    return JointTable(values, possible, roundings * EPS + sum(own.table.error for own in factors))


def _plan(factors: Sequence[Factor], keep: Labels) -> list[_Contraction]:
    """The order of a contraction, chosen from labels and sizes only."""
    order: Sequence[tuple[int, ...]] = [tuple(range(len(factors)))]
    sizes = {
        label: size
        for own in factors
        for label, size in zip(own.labels, own.table.values.shape, strict=True)
    }
    held = [frozenset(own.labels) for own in factors]
    if len(factors) > 2:
        from opt_einsum import paths  # type: ignore[import-untyped]  # noqa: PLC0415 - slow to load

        order = paths.greedy(list(held), frozenset(keep), sizes)
    return list(_steps(held, order, keep, sizes))


def _steps(
    held: list[frozenset[int]],
    order: Sequence[tuple[int, ...]],
    keep: Labels,
    sizes: Mapping[int, int],
) -> Iterator[_Contraction]:
    for number, places in enumerate(order, 1):
        merged = frozenset().union(*(held[place] for place in places))
        for place in sorted(places, reverse=True):
            held.pop(place)
        needed = merged & frozenset(keep).union(*held)
        # The axes of the last table are in the order of ``keep``.
        kept = keep if number == len(order) else tuple(sorted(needed))
        summed = prod(sizes[label] for label in merged - needed)
        yield _Contraction(places, kept, prod(sizes[label] for label in needed), summed)
        held.append(needed)


def _run(held: list[tuple[Floats, Labels]], steps: Sequence[_Contraction], *, clip: bool) -> Floats:
    """The contraction itself; with ``clip``, numbers only record whether they are above zero."""
    for step in steps:
        used = [held[place] for place in step.places]
        for place in sorted(step.places, reverse=True):
            held.pop(place)
        # einsum has few labels, so they are numbered afresh for each product.
        own = {label: n for n, label in enumerate(dict.fromkeys(x for _, ls in used for x in ls))}
        operands: list[object] = []
        for table, names in used:
            operands += [table, [own[label] for label in names]]
        operands.append([own[label] for label in step.keep])
        large = step.entries * step.summed > _LARGE
        product = np.einsum(*operands, optimize=large)  # type: ignore[call-overload]
        held.append((np.minimum(product, 1.0) if clip else product, step.keep))
    ((table, _),) = held
    return np.asarray(table, dtype=np.float64)


MOST_CLIQUE = 1 << 16
"""Most entries of one clique."""

MOST_ENTRIES = 1 << 21
"""Most entries of all cliques together."""

LogFactor = tuple[tuple[int, ...], Floats]
"""Nodes, and the logarithm of a table with an axis for each of them."""


class GraphModel(Protocol):
    """A distribution of named nodes as a product of factors."""

    @property
    def nodes(self) -> tuple[Hashable, ...]:
        """Names."""
        ...

    @property
    def values(self) -> Mapping[Hashable, tuple[Hashable, ...]]:
        """The values of each node."""
        ...

    @property
    def log_factors(self) -> Sequence[LogFactor]:
        """Indices of nodes, and logarithms of tables."""
        ...


class TooWide(NotApplicable):
    """The cliques are too large for exact distributions."""


@dataclass(frozen=True, eq=False)
class CliqueTree:
    """Cliques and their parents in the tree, without their distributions.

    Attributes
    ----------
    order
        Nodes in the order of elimination.
    cliques
        Indices of nodes, increasing. Children come before their parents.
    parent
        The parent of each clique; -1 for the root of each independent part.
    home
        For every node a clique that contains it and its neighbours at the time of its elimination.
    """

    order: list[int]
    cliques: list[tuple[int, ...]]
    parent: list[int]
    home: list[int]

    @classmethod
    def all_of(
        cls, sizes: Sequence[int], scopes: Sequence[Sequence[int]], what: str | None
    ) -> list[CliqueTree]:
        """One or two trees of nodes with these numbers of values, that with fewer entries first.

        Raises
        ------
        TooWide
            If a clique, or all of them together, would have too many entries; nothing is computed
            then. ``what`` names the model in the message. If it is ``None``, independent parts
            that are too wide are left out instead; small ones come first.
        """
        orders = _eliminations(sizes, neighbours(len(sizes), scopes), what)
        trees = {frozenset(tree.cliques): tree for tree in map(cls._of, reversed(orders))}
        return [*trees.values()][::-1]

    @classmethod
    def in_order(
        cls, sizes: Sequence[int], scopes: Sequence[Sequence[int]], order: Sequence[int]
    ) -> CliqueTree:
        """The tree of an order of elimination of some independent parts; each must be whole.

        Examples
        --------
        >>> CliqueTree.in_order([2, 2, 2], [(0, 1), (1, 2)], [0, 2, 1]).cliques
        [(1, 2), (0, 1)]
        """
        place = {node: number for number, node in enumerate(order)}
        if len(place) < len(order) or not set(place) <= set(range(len(sizes))):
            raise ValueError("order: must name nodes, each once")
        near = neighbours(len(sizes), scopes)
        if any(not near[node] <= set(place) for node in place):
            raise ValueError("order: must name all nodes of a part, or none")
        elimination = _eliminated(sizes, near, order, MOST_ENTRIES, place)
        if len(elimination.order) < len(order):
            raise TooWide("the tables of this order of elimination are too large")
        return cls._of(elimination)

    @classmethod
    def _of(cls, elimination: _NodeOrder) -> CliqueTree:
        order, around = elimination.order, elimination.around
        place = {node: number for number, node in enumerate(order)}
        cliques: list[set[int]] = []
        next_node: list[int] = []  # for each clique, the node eliminated next above it
        below: dict[int, list[int]] = {}  # for each node, the cliques it is next above
        home = dict.fromkeys(range(elimination.nodes), -1)
        for node in order:
            own = around[node] | {node}
            first = min(around[node], key=place.__getitem__, default=-1)
            holding = next((c for c in below.get(node, ()) if own <= cliques[c]), None)
            if holding is None:
                holding = len(cliques)
                cliques.append(own)
                next_node.append(first)
            home[node], next_node[holding] = holding, first
            below.setdefault(first, []).append(holding)
        # Children first: by the position of the last node whose home the clique is.
        last = [0] * len(cliques)
        for node in order:
            last[home[node]] = place[node]
        rank = sorted(range(len(cliques)), key=last.__getitem__)
        number = {old: new for new, old in enumerate(rank)}
        parent = [-1 if next_node[old] < 0 else number[home[next_node[old]]] for old in rank]
        homes = [number.get(own, -1) for own in home.values()]
        return cls(order, [tuple(sorted(cliques[old])) for old in rank], parent, homes)

    def separator(self, clique: int) -> tuple[int, ...]:
        """The nodes that a clique shares with its parent."""
        above = self.parent[clique]
        if above < 0:
            return ()
        return tuple(sorted(set(self.cliques[clique]) & set(self.cliques[above])))


@dataclass(frozen=True, eq=False)
class JunctionTree(CliqueTree):
    """A tree of cliques with their distributions.

    Attributes
    ----------
    tables
        Logarithm of the distribution of each clique, an axis for each of its nodes.
    error
        Bound on the relative error of every probability.
    """

    tables: list[Floats]
    error: float

    @classmethod
    def of(cls, sizes: Sequence[int], factors: Sequence[LogFactor], what: str) -> JunctionTree:
        """The junction tree of a product of factors over nodes with these numbers of values.

        Raises
        ------
        TooWide
            As in `CliqueTree.all_of`.
        ValueError
            If no data set has a weight above zero.
        """
        scopes = [scope for scope, _ in factors]
        return cls.on(CliqueTree.all_of(sizes, scopes, what)[0], sizes, factors)

    @classmethod
    def on(
        cls, tree: CliqueTree, sizes: Sequence[int], factors: Sequence[LogFactor]
    ) -> JunctionTree:
        """The distributions of a tree; factors of nodes outside of it are left out."""
        own = [factor for factor in factors if tree.home[factor[0][0]] >= 0]
        tables, error = _calibrated(sizes, own, tree.cliques, tree.parent)
        return cls(tree.order, tree.cliques, tree.parent, tree.home, tables, error)

    def marginal(self, node: int) -> JointTable:
        """The distribution of one node."""
        home, table = self.cliques[self.home[node]], self.tables[self.home[node]]
        logs = log_sum(table, [axis for axis, other in enumerate(home) if other != node])
        error = self.error + EPS * (_largest(logs) + table.size + 16)
        return JointTable(np.exp(logs), logs > -inf, error)


@dataclass(frozen=True, eq=False)
class SeparatorTree:
    """Cliques and the separators between them: what the graph says, one part for each clique.

    A junction tree drawn with a vertex for each separator; neighbouring edges with one separator
    share it. Every node has a separator of its own too. Nodes with one possible value are left out.

    Attributes
    ----------
    possible
        The values of each node that can happen.
    cliques
        Indices of nodes.
    tables
        Logarithm of the distribution of each clique over possible values.
    error
        Bound on the relative error of every probability.
    separators
        Indices of nodes.
    around
        The cliques at each separator; all of them contain it.
    """

    possible: list[list[int]]
    cliques: list[tuple[int, ...]]
    tables: list[Floats]
    error: float
    separators: list[tuple[int, ...]]
    around: list[list[int]]

    @classmethod
    def of(cls, tree: JunctionTree, sizes: Sequence[int]) -> SeparatorTree:
        """That of a junction tree."""
        possible = [list(range(size)) for size in sizes]
        for nodes, table in zip(tree.cliques, tree.tables, strict=True):
            for axis, n in enumerate(nodes):
                others = tuple(a for a in range(table.ndim) if a != axis)
                possible[n] = np.flatnonzero(table.max(axis=others) > -inf).tolist()
        cliques, tables = list[tuple[int, ...]](), list[Floats]()
        for nodes, table in zip(tree.cliques, tree.tables, strict=True):
            kept = tuple(n for n in nodes if len(possible[n]) > 1)
            small = table[np.ix_(*(possible[n] for n in nodes))]
            cliques.append(kept)
            tables.append(small.reshape([len(possible[n]) for n in kept]))
        around: list[list[int]] = []
        at: list[dict[tuple[int, ...], int]] = [{} for _ in cliques]  # separators of each clique
        for c in reversed(range(len(cliques))):
            above = tree.parent[c]
            shared = () if above < 0 else tuple(n for n in cliques[c] if n in set(cliques[above]))
            if shared:
                if shared not in at[above]:
                    at[above][shared] = len(around)
                    around.append([above])
                at[c][shared] = at[above][shared]
                around[at[c][shared]].append(c)
        alone = {own for each in at for own in each if len(own) == 1}
        for c in sorted(range(len(cliques)), key=lambda c: (tables[c].size, c)):
            for n in cliques[c]:
                if (n,) not in alone:
                    alone.add((n,))
                    at[c][n,] = len(around)
                    around.append([c])
        separators = {number: own for each in at for own, number in each.items()}
        nodes_of = [separators[number] for number in range(len(around))]
        return cls(possible, cliques, tables, tree.error, nodes_of, around)


def neighbours(count: int, scopes: Sequence[Sequence[int]]) -> list[set[int]]:
    """For every node the nodes with which it shares a factor."""
    near: list[set[int]] = [set() for _ in range(count)]
    for scope in scopes:
        for node in scope:
            near[node].update(scope)
    for node, own in enumerate(near):
        own.discard(node)
    return near


def parts(near: Sequence[set[int]]) -> list[tuple[int, ...]]:
    """The connected components of a graph, each sorted."""
    left, components = set(range(len(near))), []
    for node in range(len(near)):
        if node in left:
            reached, todo = {node}, [node]
            while todo:
                fresh = near[todo.pop()] - reached
                reached |= fresh
                todo += fresh
            left -= reached
            components.append(tuple(sorted(reached)))
    return components


class _NodeOrder(NamedTuple):
    """An order of elimination; ended early where its tables are too large."""

    nodes: int
    order: list[int]
    around: dict[int, set[int]]
    entries: int
    largest: int
    width: int


def _eliminations(
    sizes: Sequence[int], near: Sequence[set[int]], what: str | None
) -> list[_NodeOrder]:
    """One or two orders, that with fewer entries first."""
    best, other, most = list[_NodeOrder](), list[_NodeOrder](), MOST_ENTRIES
    for part in sorted(parts(near), key=len):
        places = {node: place for place, node in enumerate(_sweep(near, part))}
        orders = [_eliminated(sizes, near, part, most, own) for own in (None, places)]
        fits = [own for own in orders if own.largest <= MOST_CLIQUE and own.entries <= most]
        first, *second = sorted(fits or orders, key=lambda own: own.entries)
        if fits:
            best.append(first)
            other += second or [first]
            most -= first.entries
        elif what is not None:
            raise TooWide(
                f"exact distributions of this {what} need a table of {first.width} nodes at once "
                f"({first.largest:,} entries; the limits are {MOST_CLIQUE:,}, and "
                f"{MOST_ENTRIES:,} in all)"
            )
    more = sum(own.entries for own in other) - sum(own.entries for own in best)
    both = any(one is not two for one, two in zip(best, other, strict=True)) and more <= most
    return [_joined(len(sizes), own) for own in ((best, other) if both else (best,))]


def _joined(nodes: int, orders: Sequence[_NodeOrder]) -> _NodeOrder:
    """The order of several independent parts."""
    return _NodeOrder(
        nodes,
        [node for own in orders for node in own.order],
        {node: near for own in orders for node, near in own.around.items()},
        sum(own.entries for own in orders),
        max((own.largest for own in orders), default=1),
        max((own.width for own in orders), default=0),
    )


def _eliminated(
    sizes: Sequence[int],
    near: Sequence[set[int]],
    within: Iterable[int],
    most: int,
    place: Mapping[int, int] | None,
) -> _NodeOrder:
    """Nodes in their given places, or those that add the fewest edges first."""
    left = {node: set(near[node]) for node in within}
    around: dict[int, set[int]] = {}

    def key_of(node: int) -> tuple[int, ...]:
        if place is not None:
            return (place[node],)
        own = left[node]
        missing = sum(len(own - left[other]) - 1 for other in own) // 2
        return missing, len(own), node

    keys = {node: key_of(node) for node in left}
    waiting = [(key, node) for node, key in keys.items()]
    heapify(waiting)
    order, total, largest, width = list[int](), 0, 0, 0
    while keys:
        key, node = heappop(waiting)
        if keys.get(node) != key:
            continue  # it was counted anew, or is gone
        del keys[node]
        order.append(node)
        own = around[node] = left[node]
        entries = prod(sizes[other] for other in own) * sizes[node]
        total += entries
        if entries > largest:
            largest, width = entries, len(own) + 1
        if largest > MOST_CLIQUE or total > most:
            break
        touched = set(own)
        for other in own:
            left[other].discard(node)
            fresh = own - left[other] - {other}
            if fresh:
                left[other] |= fresh
                touched |= left[other]
        for other in touched if place is None else ():
            keys[other] = key_of(other)
            heappush(waiting, (keys[other], other))
    return _NodeOrder(len(sizes), order, around, total, largest, width)


def _sweep(near: Sequence[set[int]], part: Sequence[int]) -> list[int]:
    """Nodes by their distance from one end of a part, neighbours of earlier ones first."""
    start = min(part, key=lambda node: (len(near[node]), node))
    for _ in range(3):  # the last of a sweep is at an end
        order, reached = [start], {start}
        for node in order:
            fresh = sorted(near[node] - reached, key=lambda other: (len(near[other]), other))
            order += fresh
            reached.update(fresh)
        start = order[-1]
    return order


def _calibrated(
    sizes: Sequence[int],
    factors: Sequence[LogFactor],
    cliques: Sequence[tuple[int, ...]],
    parent: Sequence[int],
) -> tuple[list[Floats], float]:
    """The distribution of every clique by two passes of messages, and a bound on the error."""
    tables = [np.zeros([sizes[node] for node in own]) for own in cliques]
    errors = [0.0] * len(cliques)
    sets = [set(own) for own in cliques]
    holding: dict[int, list[int]] = {}
    for c, own in enumerate(cliques):
        for node in own:
            holding.setdefault(node, []).append(c)
    for scope, table in factors:
        # The clique of the first eliminated node of a factor contains all nodes of the factor.
        at = next(c for c in holding[scope[0]] if sets[c].issuperset(scope))
        tables[at] = tables[at] + spread(table, scope, cliques[at])
        errors[at] += 2 * EPS * (_largest(tables[at]) + 1)
    messages: list[Floats | None] = [None] * len(cliques)
    shared = [
        () if above < 0 else tuple(n for n in own if n in sets[above])
        for own, above in zip(cliques, parent, strict=True)
    ]
    upward = [0.0] * len(cliques)
    for c, above in enumerate(parent):
        whole = float(tables[c].max())
        if whole == -inf:
            raise ValueError("model: no data set has a probability above zero")
        tables[c] = tables[c] - whole
        errors[c] += EPS * _largest(tables[c])
        message = log_sum(
            tables[c], [cliques[c].index(n) for n in cliques[c] if n not in shared[c]]
        )
        upward[c] = errors[c] + EPS * (_largest(message) + tables[c].size / message.size + 8)
        if above >= 0:
            messages[c] = message
            tables[above] = tables[above] + spread(message, shared[c], cliques[above])
            errors[above] += upward[c] + EPS * _largest(tables[above])
    for c in reversed(range(len(cliques))):
        above, sent = parent[c], messages[c]
        if sent is not None:
            axes = [cliques[above].index(n) for n in cliques[above] if n not in shared[c]]
            beyond = log_sum(tables[above], axes)
            ratio = np.where(sent == -inf, -inf, beyond - np.where(sent == -inf, 0, sent))
            tables[c] = tables[c] + spread(ratio, shared[c], cliques[c])
            errors[c] += upward[c] + errors[above]
            errors[c] += EPS * (2 * _largest(tables[c]) + tables[above].size / beyond.size + 16)
        tables[c] = tables[c] - log_sum(tables[c], list(range(tables[c].ndim)))
        errors[c] += EPS * (_largest(tables[c]) + tables[c].size + 8)
    return tables, max(errors, default=0.0)


def spread(table: Floats, own: Sequence[int], whole: Sequence[int]) -> Floats:
    """A table with axes ``own`` shaped so that it adds to one with the axes ``whole``."""
    place = {node: number for number, node in enumerate(whole)}
    turned = np.transpose(table, np.argsort([place[node] for node in own]))
    shape = iter(turned.shape)
    return turned.reshape([next(shape) if node in own else 1 for node in whole])


def log_sum(table: Floats, axes: Sequence[int]) -> Floats:
    """The logarithm of the sum of exponentials over some axes."""
    if not axes:
        return table
    own = tuple(axes)
    top = table.max(axis=own, keepdims=True)
    safe = np.where(top == -inf, 0.0, top)
    with np.errstate(divide="ignore"):
        sums: Floats = np.log(np.exp(table - safe).sum(axis=own)) + safe.squeeze(axis=own)
    return sums


def _largest(table: Floats) -> float:
    finite = table[np.isfinite(table)]
    return float(np.abs(finite).max()) if finite.size else 0.0
