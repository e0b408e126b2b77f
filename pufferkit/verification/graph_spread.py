"""GK16 and group DP on graphs, recomputed for `verify`: how far a change of one node spreads."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from pufferkit.beliefs.junction_tree import GraphModel
from pufferkit.verification.graph_bounds import (
    MOST_AROUND,
    MOST_ROUNDS,
    components,
    graph_of,
    in_scope,
)
from pufferkit.verification.pair_tables import Allowance

if TYPE_CHECKING:
    from networkx import Graph


def largest_part(model: GraphModel) -> int:
    """Number of nodes of the largest connected component."""
    graph = graph_of(len(model.nodes), (scope for scope, _ in model.log_factors))
    return max(len(part) for part in components(graph))


def spread_on_graph(model: GraphModel, work: Allowance) -> float:
    """Ghosh and Kleinberg (2016): twice the largest row sum of (I - Gamma)^-1, or infinite.

    Gamma_ij is half the largest log-ratio of the distribution of node i given its neighbours when
    neighbour j changes. Row sums are added up power by power, which is right where the norm is
    below 1; if they do not settle, it is not, or hardly.
    """
    sizes = [len(model.values[node]) for node in model.nodes]
    factors = [(tuple(scope), table) for scope, table in model.log_factors]
    graph = graph_of(len(sizes), (scope for scope, _ in factors))
    if any(not np.isfinite(table).all() for _, table in factors):
        return np.inf
    gamma: dict[tuple[int, int], float] = {}
    for i in graph:
        around = sorted(graph[i])
        entries = prod(sizes[n] for n in (*around, i))
        work.spend(1e4 + 100.0 * entries * (1 + len(around)))
        if entries > MOST_AROUND:
            return np.inf
        weights = np.zeros([sizes[n] for n in (*around, i)])
        for scope, table in factors:
            if i in scope:
                weights = weights + in_scope(table, scope, (*around, i))
        chance = np.exp(weights - weights.max(axis=-1, keepdims=True))
        logs = np.log(chance / chance.sum(axis=-1, keepdims=True))
        for axis, j in enumerate(around):
            gamma[i, j] = float(np.ptp(logs, axis=axis).max()) / 2
    if not _norm_below_one(gamma, graph, work):
        return np.inf
    sums = np.ones(len(sizes))
    rows, columns = np.array(list(gamma), dtype=int).reshape(-1, 2).T
    values = np.array(list(gamma.values()))
    for _ in range(MOST_ROUNDS):
        work.spend(20.0 * len(values) + 1e3)
        update = np.bincount(rows, values * sums[columns], minlength=len(sums)).astype(float) + 1
        if float(np.max(update - sums)) <= 1e-12:
            return 2 * float(update.max())
        sums = update
    return np.inf


def _norm_below_one(
    gamma: Mapping[tuple[int, int], float], graph: Graph[int], work: Allowance
) -> bool:
    """Whether the spectral norm of every independent part is below 1."""
    for part in components(graph):
        place = {n: at for at, n in enumerate(sorted(part))}
        own = {pair: value for pair, value in gamma.items() if pair[0] in place}
        by_rows, by_columns = np.zeros(len(part)), np.zeros(len(part))
        for (i, j), value in own.items():
            by_rows[place[i]] += value
            by_columns[place[j]] += value
        if by_rows.max() * by_columns.max() < 1:
            continue
        work.spend(20.0 * len(part) ** 3)
        matrix = np.zeros((len(part), len(part)))
        for (i, j), value in own.items():
            matrix[place[i], place[j]] = value
        if np.linalg.svd(matrix, compute_uv=False)[0] >= 1:
            return False
    return True
