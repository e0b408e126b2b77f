"""GK16 and group DP on graphs, recomputed for `verify`: how far a change of one node spreads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from pufferkit.beliefs.junction_tree import GraphModel, neighbours, parts, spread
from pufferkit.verification.pair_tables import Allowance

_MOST_AROUND = 1 << 14
_MOST_ROUNDS = 20_000


def largest_part(model: GraphModel) -> int:
    """Number of nodes of the largest connected component."""
    near = neighbours(len(model.nodes), [scope for scope, _ in model.log_factors])
    return max(len(part) for part in parts(near))


def spread_on_graph(model: GraphModel, work: Allowance) -> float:
    """Ghosh and Kleinberg (2016): twice the largest row sum of (I - Gamma)^-1, or infinite.

    Gamma_ij is half the largest log-ratio of the distribution of node i given its neighbours when
    neighbour j changes. Row sums are added up power by power, which is right where the norm is
    below 1; if they do not settle, it is not, or hardly.
    """
    sizes = [len(model.values[node]) for node in model.nodes]
    factors = [(tuple(scope), table) for scope, table in model.log_factors]
    near = neighbours(len(sizes), [scope for scope, _ in factors])
    if any(not np.isfinite(table).all() for _, table in factors):
        return np.inf
    gamma: dict[tuple[int, int], float] = {}
    for i, own in enumerate(near):
        around = sorted(own)
        entries = prod(sizes[n] for n in (*around, i))
        work.spend(1e4 + 100.0 * entries * (1 + len(around)))
        if entries > _MOST_AROUND:
            return np.inf
        weights = np.zeros([sizes[n] for n in (*around, i)])
        for scope, table in factors:
            if i in scope:
                weights = weights + spread(table, scope, (*around, i))
        chance = np.exp(weights - weights.max(axis=-1, keepdims=True))
        logs = np.log(chance / chance.sum(axis=-1, keepdims=True))
        for axis, j in enumerate(around):
            gamma[i, j] = float(np.ptp(logs, axis=axis).max()) / 2
    if not _norm_below_one(gamma, parts(near), work):
        return np.inf
    sums = np.ones(len(sizes))
    rows, columns = np.array(list(gamma), dtype=int).reshape(-1, 2).T
    values = np.array(list(gamma.values()))
    for _ in range(_MOST_ROUNDS):
        work.spend(20.0 * len(values) + 1e3)
        update = np.bincount(rows, values * sums[columns], minlength=len(sums)).astype(float) + 1
        if float(np.max(update - sums)) <= 1e-12:
            return 2 * float(update.max())
        sums = update
    return np.inf


def _norm_below_one(
    gamma: Mapping[tuple[int, int], float], together: Sequence[Sequence[int]], work: Allowance
) -> bool:
    """Whether the spectral norm of every independent part is below 1."""
    for part in together:
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
