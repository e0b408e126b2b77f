"""Sums over networks too large for fractions, again for `verify`: one sweep for each node.

Nodes join one at a time, parents first, and are forgotten once their children are there; a table
has an axis for each that is still open and one for the sum. Only numbers above zero are added and
multiplied, so every entry is right up to a known factor.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import combinations
from math import prod

import numpy as np

from pufferkit.beliefs.bayesian_network import BayesianNetwork
from pufferkit.checks import Floats
from pufferkit.verification.pair_tables import Allowance, NotChecked

LARGE = 40
"""Networks with more nodes are tried in floats before they are walked through in fractions."""

_ROUNDING = 1e-11
_MOST_ENTRIES = 2**25


def rounded_distance(
    network: BayesianNetwork, steps: Mapping[Hashable, int], work: Allowance
) -> tuple[int, int]:
    """Bounds on W of a sum to which a value adds so many steps: from below and from above."""
    least = most = 0
    for node in network.nodes:
        table = _with_sum(network, node, steps, work)
        if table[table > 0].min() < 1e-290:
            raise NotChecked("the probability of some sums underflows")
        rows = [row for row in table if row.any()]
        for one, other in combinations(rows, 2):
            for first, second in ((one, other), (other, one)):
                below, above = _moved(first / first.sum(), second / second.sum())
                least, most = max(least, below), max(most, above)
    return least, most


def _with_sum(
    network: BayesianNetwork, keep: Hashable, steps: Mapping[Hashable, int], work: Allowance
) -> Floats:
    """The joint distribution of one node and the sum."""
    rest, done = list(network.nodes), set[Hashable]()
    around: list[Hashable] = []
    table: Floats = np.ones(1)

    def over(node: Hashable) -> bool:
        return node != keep and all(child in done for child in network.children[node])

    def left_open(node: Hashable) -> int:
        closed = [p for p in network.parents[node] if p != keep]
        return -sum(all(c in done or c == node for c in network.children[p]) for p in closed)

    while rest:
        ready = [n for n in rest if all(p in done for p in network.parents[n])]
        node = min(ready, key=left_open)
        rest.remove(node)
        done.add(node)
        own = _given_parents(network, node, around)
        entries = prod(table.shape[:-1]) * own.shape[-1] * (table.shape[-1] + 1)
        if entries > _MOST_ENTRIES:
            raise NotChecked("the network is too wide for the distribution of a sum")
        work.spend(1e5 + 20.0 * entries)
        added = [steps.get(value, 0) for value in network.values[node]]
        joined = np.zeros((*table.shape[:-1], own.shape[-1], table.shape[-1] + max(added)))
        for value, more in enumerate(added):
            joined[..., value, more : more + table.shape[-1]] += table * own[..., value, None]
        around.append(node)
        out = [axis for axis, n in enumerate(around) if over(n)]
        table = joined.sum(axis=tuple(out)) if out else joined
        around = [n for axis, n in enumerate(around) if axis not in out]
    return table


def _given_parents(network: BayesianNetwork, node: Hashable, around: Sequence[Hashable]) -> Floats:
    """The table of a node, with an axis for each open node and one for itself."""
    parents = network.parents[node]
    rows = [network.tables[node][key] for key in network.tables[node]]
    values = [network.values[parent] for parent in parents]
    table = np.zeros([*(len(own) for own in values), len(network.values[node])])
    for key, row in zip(network.tables[node], rows, strict=True):
        place = tuple(own.index(value) for own, value in zip(values, key, strict=True))
        table[place] = np.asarray(row, dtype=float) / np.sum(np.asarray(row, dtype=float))
    order = sorted(range(len(parents)), key=lambda axis: list(around).index(parents[axis]))
    index = tuple(slice(None) if other in parents else None for other in around)
    turned: Floats = np.transpose(table, [*order, len(parents)])[(*index, slice(None))]
    return turned


def _moved(first: Floats, second: Floats) -> tuple[int, int]:
    """How far mass of the first must move up at least, ties counted as reached and as not."""
    low, low_other = np.cumsum(first), np.cumsum(second)
    high, high_other = (np.append(np.cumsum(own[::-1])[::-1][1:], 0.0) for own in (first, second))
    bounds = []
    for factor in (1 - _ROUNDING, 1 + _ROUNDING):
        farthest = 0
        for place in np.flatnonzero(first):
            reached = (low_other >= low[place] * factor) | (high_other * factor <= high[place])
            farthest = max(farthest, int(np.argmax(reached)) - int(place))
        bounds.append(farthest)
    return bounds[0], bounds[1]
