"""Exact distributions of groups of neighbours in a graph: a junction tree.

Nodes are eliminated one at a time, those that add the fewest edges first. A node and the neighbours
it has at that moment form a *clique*; the maximal cliques form a tree in which the cliques that
contain a node are connected (the running intersection property). Two passes of messages over it
give the distribution of every clique.

Tables are logarithms, minus infinity where the probability is zero, so that strong couplings do not
underflow. Each addition and each logarithm of a sum errs by a few units in the last place of the
largest number in the table; ``error`` bounds the accumulated relative error of a probability.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, prod
from typing import Protocol

import numpy as np

from pufferkit.checks import Floats
from pufferkit.errors import NotApplicable
from pufferkit.rounding import EPS

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
class JunctionTree:
    """Cliques, their parents in the tree, and their distributions.

    Attributes
    ----------
    cliques
        Indices of nodes, increasing. Children come before their parents.
    parent
        The parent of each clique; -1 for the root of each independent part.
    tables
        Logarithm of the distribution of each clique, an axis for each of its nodes.
    error
        Bound on the relative error of every probability.
    order
        Nodes in the order of elimination.
    home
        For every node a clique that contains it and its neighbours at the time of its elimination.
    """

    cliques: list[tuple[int, ...]]
    parent: list[int]
    tables: list[Floats]
    error: float
    order: list[int]
    home: list[int]

    @classmethod
    def of(
        cls,
        sizes: Sequence[int],
        factors: Sequence[LogFactor],
        what: str,
        within: Sequence[int] | None = None,
    ) -> JunctionTree:
        """The junction tree of a product of factors over nodes with these numbers of values.

        With ``within``, of these nodes only; they must be independent of all others.

        Raises
        ------
        TooWide
            If a clique, or all of them together, would have too many entries; nothing is computed
            then. ``what`` names the model in the message.
        ValueError
            If no data set has a weight above zero.
        """
        own = range(len(sizes)) if within is None else within
        chosen = set(own)
        factors = [factor for factor in factors if chosen.issuperset(factor[0])]
        order, cliques, parent, home = _cliques(sizes, factors, own, what)
        tables, error = _calibrated(sizes, factors, cliques, parent, home)
        return cls(cliques, parent, tables, error, order, home)

    def separator(self, clique: int) -> tuple[int, ...]:
        """The nodes that a clique shares with its parent."""
        above = self.parent[clique]
        if above < 0:
            return ()
        return tuple(sorted(set(self.cliques[clique]) & set(self.cliques[above])))


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


def narrow_nodes(sizes: Sequence[int], scopes: Sequence[Sequence[int]]) -> list[int]:
    """The nodes of those independent parts whose cliques are small enough, small parts first."""
    near = neighbours(len(sizes), scopes)
    narrow: list[int] = []
    used = 0
    for part in sorted(parts(near), key=len):
        try:
            around = _order(sizes, near, part, "part", MOST_ENTRIES - used)[1]
        except TooWide:
            continue
        used += sum(sizes[n] * prod(sizes[m] for m in around[n]) for n in part)
        narrow += part
    return sorted(narrow)


def _cliques(
    sizes: Sequence[int], factors: Sequence[LogFactor], within: Sequence[int], what: str
) -> tuple[list[int], list[tuple[int, ...]], list[int], list[int]]:
    """Order, cliques, their parents, and the clique of every node."""
    count = len(sizes)
    near = neighbours(count, [scope for scope, _ in factors])
    order, around = _order(sizes, near, within, what)
    place = {node: number for number, node in enumerate(order)}
    cliques: list[set[int]] = []
    next_node: list[int] = []  # for each clique, the node eliminated next above it
    below: dict[int, list[int]] = {}  # for each node, the cliques it is next above
    home = [-1] * count
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
    homes = [number.get(own, -1) for own in home]
    return order, [tuple(sorted(cliques[old])) for old in rank], parent, homes


def _order(
    sizes: Sequence[int],
    near: Sequence[set[int]],
    within: Iterable[int],
    what: str,
    most: int = MOST_ENTRIES,
) -> tuple[list[int], dict[int, set[int]]]:
    """Nodes that add the fewest edges first, and their neighbours at elimination."""
    left = {node: set(near[node]) for node in within}
    around: dict[int, set[int]] = {}

    def added(node: int) -> tuple[int, int, int]:
        own = left[node]
        missing = sum(len(own - left[other]) - 1 for other in own) // 2
        return missing, len(own), node

    keys = {node: added(node) for node in left}
    order, total = [], 0
    while keys:
        node = min(keys, key=keys.__getitem__)
        del keys[node]
        order.append(node)
        own = around[node] = left[node]
        entries = prod(sizes[other] for other in own) * sizes[node]
        total += entries
        if entries > MOST_CLIQUE or total > most:
            raise TooWide(
                f"exact distributions of this {what} need a table of {len(own) + 1} nodes at once "
                f"({entries:,} entries; the limits are {MOST_CLIQUE:,}, and {MOST_ENTRIES:,} in "
                "all)"
            )
        touched = set(own)
        for other in own:
            left[other].discard(node)
            fresh = own - left[other] - {other}
            if fresh:
                left[other] |= fresh
                touched |= left[other]
        for other in touched:
            keys[other] = added(other)
    return order, around


def _calibrated(
    sizes: Sequence[int],
    factors: Sequence[LogFactor],
    cliques: Sequence[tuple[int, ...]],
    parent: Sequence[int],
    home: Sequence[int],
) -> tuple[list[Floats], float]:
    """The distribution of every clique by two passes of messages, and a bound on the error."""
    tables = [np.zeros([sizes[node] for node in own]) for own in cliques]
    errors = [0.0] * len(cliques)
    sets = [set(own) for own in cliques]
    for scope, table in factors:
        # The home of the first eliminated node of a factor contains all nodes of the factor.
        at = next(c for c in sorted({home[node] for node in scope}) if set(scope) <= sets[c])
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
