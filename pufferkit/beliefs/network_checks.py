"""Checks of a network's parts: its graph, the labels of its values, its tables."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
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
    try:
        labels = checks.distinct_states(given)
    except ValueError as error:
        raise ValueError(f"values[{node!r}]: {error}") from None
    if len(labels) != count:
        raise ValueError(
            f"values[{node!r}]: {len(labels)} labels, but its distributions have {count} entries; "
            "give one label for each"
        )
    return labels


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
    table = _distributions(name, [rows[key] for key in keys], size)
    if table is not None:
        return checks.frozen(table.reshape(*shape, size))
    table = np.empty((len(keys), size))
    for j, key in enumerate(keys):
        row = distribution(f"{name}[{key!r}]", rows[key])
        if len(row) != size:
            raise ValueError(
                f"{name}[{key!r}]: has {len(row)} entries, but node {node!r} has {size} values"
            )
        table[j] = row
    return checks.frozen(table.reshape(*shape, size))


def _distributions(name: str, rows: list[Any], size: int) -> Floats | None:
    """`distribution` of all rows at once; ``None`` if one is wrong or of another length."""
    try:
        given = checks.numbers(name, rows)
        if given.shape != (len(rows), size):
            return None
        scaled = checks.distributions(name, given)
    except ValueError:
        return None
    near = np.abs(given.sum(axis=1, keepdims=True) - 1) <= size * EPS
    table: Floats = np.where(near, given, scaled)
    return table


def distribution(name: str, values: ArrayLike) -> Floats:
    """A distribution, rescaled unless it sums to one up to rounding."""
    scaled = checks.probability_vector(name, values)
    given = np.array(values, dtype=np.float64)
    return given if abs(given.sum() - 1) <= len(given) * EPS else scaled
