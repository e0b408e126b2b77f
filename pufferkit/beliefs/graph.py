"""The directed graph of a network: ancestors, d-separation, moral graphs.

Glossary
--------
trail
    a path that ignores the direction of arrows.
collider
    a node of a trail with both arrows pointing at it.
blocked
    a trail is blocked by a set Q if one of its nodes that is not a collider lies in Q, or a
    collider has neither itself nor a descendant in Q.
d-separated
    X_j is d-separated from X_i by Q if Q blocks every trail between them. Then X_j and X_i are
    independent given X_Q, whatever the tables; and if each X_j of a set is, so is the set jointly.

Sets of nodes are bits of an integer here: a small network has thousands of sets to examine, and one
pass gives everything that a set separates from a node. (networkx answers for one pair of sets at a
time, a thousand times slower here; the tests compare the two.)

# Checks

Checks of a network's parts: its graph, the labels of its values, its tables.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from heapq import heapify, heappop, heappush
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pufferkit import checks
from pufferkit.checks import Floats
from pufferkit.rounding import EPS

Node = Hashable
NodeValues = tuple[Hashable, ...]
TableRows = Mapping[NodeValues, ArrayLike]


def graph(parents: Mapping[Node, Iterable[Node]]) -> dict[Node, tuple[Node, ...]]:
    """{node: parents}, every parent known and named once."""
    if not isinstance(parents, Mapping) or not parents:
        raise ValueError("parents: must be a mapping {node: tuple of parents}, at least one node")
    parents_of: dict[Node, tuple[Node, ...]] = {}
    for node, own in parents.items():
        if isinstance(own, str) or not isinstance(own, Iterable):
            raise ValueError(
                f"parents[{node!r}]: must be a tuple of nodes, got {own!r}; write ({own!r},) for "
                "one parent, () for none"
            )
        parents_of[node] = tuple(own)
        for parent in parents_of[node]:
            if parent not in parents:
                raise ValueError(
                    f"parents[{node!r}]: {parent!r} is not a node; give every node an entry, "
                    "() if it has no parents"
                )
        if len(set(parents_of[node])) < len(parents_of[node]):
            raise ValueError(f"parents[{node!r}]: names a parent twice, {parents_of[node]}")
    return parents_of


def topological(parents: Mapping[Node, tuple[Node, ...]]) -> tuple[Node, ...]:
    """Parents first, otherwise in the order given; a cycle is named."""
    place = {node: j for j, node in enumerate(parents)}
    nodes = list(parents)
    children: dict[Node, list[Node]] = {node: [] for node in nodes}
    for node, own in parents.items():
        for parent in own:
            children[parent].append(node)
    missing = {node: len(own) for node, own in parents.items()}
    ready = [place[node] for node, count in missing.items() if count == 0]
    heapify(ready)
    order: list[Node] = []
    while ready:
        node = nodes[heappop(ready)]
        order.append(node)
        for child in children[node]:
            missing[child] -= 1
            if missing[child] == 0:
                heappush(ready, place[child])
    if len(order) < len(nodes):
        cycle = _cycle(parents, set(nodes) - set(order))
        raise ValueError(
            f"parents: the graph has a cycle, {' -> '.join(repr(n) for n in cycle)}; "
            "a Bayesian network has none"
        )
    return tuple(order)


def _cycle(parents: Mapping[Node, tuple[Node, ...]], stuck: set[Node]) -> list[Node]:
    """A cycle, in the direction of the arrows. Every stuck node has a stuck parent."""
    node = next(n for n in parents if n in stuck)
    walk: list[Node] = []
    while node not in walk:
        walk.append(node)
        node = next(p for p in parents[node] if p in stuck)
    return [node, *reversed(walk[walk.index(node) :])]


def same_nodes(
    name: str, given: Mapping[Node, Any], parents: Mapping[Node, Any], *, every: bool
) -> None:
    """Refuse entries for unknown nodes and, with ``every``, missing entries."""
    for node in given:
        if node not in parents:
            raise ValueError(f"{name}[{node!r}]: is not a node; add it to parents or drop it")
    for node in parents:
        if every and node not in given:
            raise ValueError(f"{name}: node {node!r} has none; give every node its table")


def value_labels(node: Node, rows: TableRows, given: Iterable[Hashable] | None) -> NodeValues:
    """Labels of a node's values: those given, or 0, 1, ... for the length of its distributions."""
    if not isinstance(rows, Mapping) or not rows:
        raise ValueError(
            f"tables[{node!r}]: must be a mapping {{parent values: distribution}}, got {rows!r}; "
            "write {(): distribution} for a node without parents"
        )
    count = len(checks.numbers(f"tables[{node!r}]", next(iter(rows.values()))).ravel())
    if given is None:
        return tuple(range(count))
    labels = node_labels(node, given)
    if len(labels) != count:
        raise ValueError(
            f"values[{node!r}]: {len(labels)} labels, but its distributions have {count} entries; "
            "give one label for each"
        )
    return labels


def node_labels(node: Node, given: Iterable[Hashable]) -> NodeValues:
    """Checked labels of the values of a node."""
    try:
        return checks.distinct_states(given)
    except ValueError as error:
        raise ValueError(f"values[{node!r}]: {error}") from None


def array(
    node: Node, rows: TableRows, parents: tuple[Node, ...], values: Mapping[Node, NodeValues]
) -> Floats:
    """The table of a node: one axis for each parent, then one for the node; read-only."""
    name = f"tables[{node!r}]"
    keys = list(product(*(values[parent] for parent in parents)))
    wanted = set(keys)
    about = f"its parents {parents}" if parents else "a node without parents"
    for key in rows:
        if key not in wanted:
            example = keys[0]
            raise ValueError(
                f"{name}: has a row for {key!r}, which is not a combination of values of {about}; "
                f"rows look like {example!r}"
            )
    for key in keys:
        if key not in rows:
            raise ValueError(
                f"{name}: has no row for {key!r}, values of {about}; every combination needs one"
            )
    size = len(values[node])
    shape = [len(values[parent]) for parent in parents]
    given: Any = [rows[key] for key in keys]
    try:
        table = checks.numbers(name, given)
        scaled = checks.distributions(name, table) if table.shape == (len(keys), size) else None
    except ValueError:
        scaled = None
    for key in keys if scaled is None else ():  # one of them is wrong
        row = checks.probability_vector(f"{name}[{key!r}]", rows[key])
        if len(row) != size:
            raise ValueError(
                f"{name}[{key!r}]: has {len(row)} entries, but node {node!r} has {size} values"
            )
    assert scaled is not None
    # Rows that sum to one up to rounding are left unchanged.
    near = np.abs(table.sum(axis=1, keepdims=True) - 1) <= size * EPS
    return checks.frozen(np.where(near, table, scaled).reshape(*shape, size))


class Graph:
    """A directed graph without cycles, as bit masks: node j is bit j.

    Parameters
    ----------
    parents
        {node: parents}, parents before children.
    """

    def __init__(self, parents: Mapping[Node, tuple[Node, ...]]) -> None:
        self.nodes = tuple(parents)
        self.place = {node: j for j, node in enumerate(self.nodes)}
        self.parents = [self.mask(parents[node]) for node in self.nodes]
        self.children = [0] * len(self.nodes)
        self.ancestors: list[int] = []  # each node included
        for j, own in enumerate(self.parents):
            above = 1 << j
            for p in bits(own):
                self.children[p] |= 1 << j
                above |= self.ancestors[p]
            self.ancestors.append(above)
        self._kin: list[int] = []  # children of the proper ancestors
        for own in self.parents:
            near = 0
            for p in bits(own):
                near |= self.children[p] | self._kin[p]
            self._kin.append(near)
        self._married: dict[int, tuple[list[int], bool]] = {}
        self._components: list[int] = []
        self._related: dict[int, int] = {}  # by the roots above a node

    def mask(self, nodes: Iterable[Node]) -> int:
        """A set of nodes as bits."""
        mask = 0
        for node in nodes:
            mask |= 1 << self.place[node]
        return mask

    def names(self, mask: int) -> tuple[Node, ...]:
        """Bits as nodes, in topological order."""
        return tuple(self.nodes[j] for j in bits(mask))

    def above(self, mask: int) -> int:
        """These nodes and their ancestors."""
        above = 0
        while mask:
            j = mask.bit_length() - 1
            above |= self.ancestors[j]
            mask &= ~self.ancestors[j]
        return above

    def connected(self, node: int, given: int) -> tuple[int, int]:
        """The nodes not d-separated from ``node`` by ``given``, and the given nodes that matter.

        A walk along open trails (the "Bayes ball"): a node is entered from a child (going up) or
        from a parent (going down). Going up it passes on to all neighbours, unless it is given.
        Going down it passes on to its children, unless it is given, and as a collider to its
        parents, if it or a descendant is given.

        Returns
        -------
        tuple of int
            The nodes reached, ``node`` included, and the given nodes reached. The walk is the same
            if only these are given: a given node q is reached exactly if it is not d-separated from
            ``node`` by the other given nodes. (An open trail to q stays open without q: a collider
            on it that only q opens is an ancestor of q, and the trail may as well go down to q from
            there.)
        """
        if not given:
            return self._relatives(node), 0
        opened = self.above(given)
        parents, children = self.parents, self.children
        up = todo_up = 1 << node
        down = todo_down = 0
        while todo_up or todo_down:
            if todo_up:
                bit = todo_up & -todo_up
                todo_up ^= bit
                passes_up = passes_down = not bit & given
            else:
                bit = todo_down & -todo_down
                todo_down ^= bit
                passes_up, passes_down = bool(bit & opened), not bit & given
            j = bit.bit_length() - 1
            if passes_up:
                fresh = parents[j] & ~up
                up |= fresh
                todo_up |= fresh
            if passes_down:
                fresh = children[j] & ~down
                down |= fresh
                todo_down |= fresh
        return (up | down) & ~given, (up | down) & given

    def _relatives(self, node: int) -> int:
        """All descendants of its ancestors; nodes below the same roots have the same ones."""
        roots = 0
        for j in bits(self.ancestors[node]):
            roots |= 0 if self.parents[j] else 1 << j
        if roots not in self._related:
            below = roots
            for j, own in enumerate(self.parents):  # parents come first
                below |= 1 << j if own & below else 0
            self._related[roots] = below
        return self._related[roots]

    def component(self, node: int) -> int:
        """All nodes connected to this one by a trail."""
        known = next((own for own in self._components if own >> node & 1), 0)
        if known:
            return known
        reached = todo = 1 << node
        while todo:
            bit = todo & -todo
            j = bit.bit_length() - 1
            todo = (todo ^ bit) | ((self.parents[j] | self.children[j]) & ~reached)
            reached |= todo
        self._components.append(reached)
        return reached

    def moral(self, within: int) -> list[int]:
        """Neighbours in the moral graph of an ancestral set: parents of a child are married.

        Separation in it implies d-separation. If all parents of each child were neighbours before,
        the two are the same.
        """
        near = [0] * len(self.nodes)
        for j in bits(within):
            family = self.parents[j] | 1 << j
            for member in bits(family):
                near[member] |= family & ~(1 << member)
        return near

    def married(self, part: int) -> tuple[list[int], bool]:
        """The moral graph of a `component`, and whether it adds no edges to the network."""
        if part not in self._married:
            near = self.moral(part)
            arrows = zip(self.parents, self.children, strict=True)
            plain = all(near[j] in (0, above | below) for j, (above, below) in enumerate(arrows))
            self._married[part] = near, plain
        return self._married[part]

    def gates(self, chosen: int) -> int:
        """Nodes that separate their ancestors from ``chosen`` and from its other ancestors.

        The distribution of the chosen nodes then needs the marginal distribution of a gate, but no
        table above it.
        """
        whole = self.above(chosen)
        rest, gates = whole & ~chosen, 0
        while rest:
            j = rest.bit_length() - 1
            rest ^= 1 << j
            higher = self.ancestors[j] & ~(1 << j)
            if not higher & chosen and not self._kin[j] & whole & ~self.ancestors[j]:
                gates |= 1 << j
                rest &= ~higher
        return gates


def bits(mask: int) -> Iterator[int]:
    """Indices of the one bits, lowest first."""
    while mask:
        bit = mask & -mask
        yield bit.bit_length() - 1
        mask ^= bit
