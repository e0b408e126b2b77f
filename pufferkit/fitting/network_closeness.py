"""The largest divergence of one network from another given any node: maxima passed along edges.

The log-ratio of two networks is a sum of log-ratios of tables, so its maximum over all data with
X_i = a is found as a sum of products is, with maxima for sums and sums for products. Two passes
over the buckets of one elimination order give it for every node and value.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import inf, prod

import numpy as np

from pufferkit.beliefs.bayesian_network import BayesianNetwork
from pufferkit.checks import Floats
from pufferkit.errors import NotApplicable

MOST_ENTRIES = 1 << 22

# Impossible under the first never counts; impossible under the second alone is infinite.
_NEVER, _UNSEEN, _INFINITE = 1e300, 1e200, 1e150

_ScopedTable = tuple[tuple[int, ...], Floats]


def network_delta(adversary: BayesianNetwork, belief: BayesianNetwork) -> float:
    """Largest divergence given any X_i = a that the adversary thinks possible, either way.

    The two may have different arrows, but must be about the same nodes and values.
    """
    for node in adversary.nodes:
        if belief.values.get(node) != adversary.values[node]:
            raise ValueError(
                f"beliefs: must be about the adversary's nodes, with {node!r} among them"
            )
    if len(belief) != len(adversary):
        raise ValueError(f"beliefs: have {len(belief)} nodes, the adversary {len(adversary)}")
    theirs = [adversary.table((node,)) for node in adversary.nodes]
    ours = [belief.table((node,)) for node in adversary.nodes]
    if any((one.possible & ~other.possible).any() for one, other in zip(theirs, ours, strict=True)):
        return inf
    delta = 0.0
    for sign, first, second in ((1, adversary, belief), (-1, belief, adversary)):
        largest = _maxima(first, second, adversary.nodes)
        for one, other, own in zip(theirs, ours, largest, strict=True):
            maxima = own[one.possible]
            if (maxima > _INFINITE).any():
                return inf
            odds = np.log(other.values[one.possible]) - np.log(one.values[one.possible])
            delta = max(delta, float((maxima + sign * odds).max()))
    return delta


def _maxima(
    first: BayesianNetwork, second: BayesianNetwork, nodes: Sequence[Hashable]
) -> list[Floats]:
    """For every node and value, the largest log first(x) / second(x) over data x with it."""
    place = {node: number for number, node in enumerate(nodes)}
    sizes = [first.sizes[node] for node in nodes]
    tables: list[_ScopedTable] = []
    for network, sign, never in ((first, 1.0, -_NEVER), (second, -1.0, _UNSEEN)):
        for node in nodes:
            own = network.arrays[node]
            logs = np.where(own > 0, sign * np.log(np.where(own > 0, own, 1.0)), never)
            tables.append(((*(place[p] for p in network.parents[node]), place[node]), logs))
    order, scopes = _order(len(nodes), [set(scope) for scope, _ in tables])
    largest = max(prod(sizes[u] for u in scopes[v]) * sizes[v] for v in order)
    if largest > MOST_ENTRIES:
        raise NotApplicable(
            f"closeness of these networks needs tables of {largest:.1e} entries (at most "
            f"{MOST_ENTRIES:.0e}); cut them into parts"
        )
    rank = {v: number for number, v in enumerate(order)}
    held: dict[int, list[_ScopedTable]] = {v: [] for v in (*order, -1)}
    for scope, values in tables:
        held[min(scope, key=lambda v: rank[v])].append((scope, values))
    below: dict[int, list[int]] = {v: [] for v in (*order, -1)}
    for v in order:
        below[min(scopes[v], key=lambda u: rank[u], default=-1)].append(v)
    up: dict[int, _ScopedTable] = {}
    for v in order:
        up[v] = _kept(_sum([*held[v], *(up[u] for u in below[v])]), scopes[v])
    down: dict[int, _ScopedTable] = {-1: ((), np.zeros(()))}
    result: dict[int, Floats] = {}
    for v in (-1, *reversed(order)):
        before = [_sum([*held[v], down[v]])]
        for u in below[v]:
            before.append(_sum([before[-1], up[u]]))
        if v >= 0:
            result[v] = _kept(before[-1], (v,))[1]
        after: _ScopedTable = (), np.zeros(())
        for number in range(len(below[v]) - 1, -1, -1):
            u = below[v][number]
            down[u] = _kept(_sum([before[number], after]), scopes[u])
            after = _sum([after, up[u]])
    return [result[v] for v in range(len(nodes))]


def _sum(tables: Sequence[_ScopedTable]) -> _ScopedTable:
    scope: tuple[int, ...] = tuple(dict.fromkeys(v for own, _ in tables for v in own))
    total: Floats = np.zeros(())
    for own, values in tables:
        moved = np.transpose(values, [own.index(v) for v in scope if v in own])
        total = total + moved[tuple(slice(None) if v in own else None for v in scope)]
    return scope, total


def _kept(table: _ScopedTable, keep: tuple[int, ...]) -> _ScopedTable:
    scope, values = table
    gone = tuple(axis for axis, v in enumerate(scope) if v not in keep)
    return tuple(v for v in scope if v in keep), values.max(axis=gone) if gone else values


def _order(
    count: int, families: Sequence[set[int]]
) -> tuple[list[int], dict[int, tuple[int, ...]]]:
    """Variables, least connected first, and what each is joined with when it goes."""
    near: dict[int, set[int]] = {v: set() for v in range(count)}
    for family in families:
        for v in family:
            near[v] |= family - {v}
    order, scopes = [], {}
    while near:
        v = min(near, key=lambda u: (len(near[u]), u))
        around = near.pop(v)
        order.append(v)
        scopes[v] = tuple(sorted(around))
        for u in around:
            near[u] |= around - {u}
            near[u].discard(v)
    return order, scopes
