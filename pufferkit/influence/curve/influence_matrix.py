"""How much the nodes of a graph are swayed by their neighbours: the influence matrix of GK16.

Gamma_ij is half the largest log-ratio of P(X_i = x | the neighbours of i) when neighbour j changes
and the others stay. If the spectral norm of Gamma is below 1, a release with event-level epsilon b
is epsilon-private for epsilon = 2 b max_i sum_j Phi_ij with Phi = (I - Gamma)^-1 (Ghosh and
Kleinberg, 2016; notes/proofs.md has a proof).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod, sqrt
from typing import Any, NamedTuple

import numpy as np

from pufferkit.beliefs.junction_tree import LogFactor, neighbours, parts, spread
from pufferkit.checks import Floats
from pufferkit.errors import NotApplicable

MOST_AROUND = 1 << 14
"""Most entries of the table of a node and its neighbours."""

_MOST_NODES = 2_000
"""Nodes of an independent part up to which the spectral norm is computed or bounded."""

_DENSE, _ROUNDS = 400, 300


class Spread(NamedTuple):
    """A vector x >= 1 + Gamma x, a bound on the norm, and the largest entry of Gamma.

    As Gamma >= 0, x is at least the row sums of Phi. It is empty if the norm is not shown to be
    below 1, and on chains it is given as runs of equal entries.
    """

    vector: tuple[Any, ...]
    norm: float
    gamma: float


def graph_spread(sizes: Sequence[int], factors: Sequence[LogFactor], what: str) -> Spread:
    """The spread of a product of factors; ``NotApplicable`` where one of them has a zero."""
    swayed, by, gammas = [], [], []
    for node, around, local in _local_tables(sizes, factors, what):
        given = local - np.logaddexp.reduce(local, axis=-1, keepdims=True)
        for axis, other in enumerate(around):
            ratio = float((given.max(axis=axis) - given.min(axis=axis)).max())
            swayed.append(node)
            by.append(other)
            gammas.append(ratio / 2 * (1 + 1e-12))
    if not gammas or max(gammas) == 0:
        return Spread((1.0 + 1e-12,) * len(sizes), 0.0, 0.0)
    from scipy.sparse import csr_array  # noqa: PLC0415  (slow to load)

    gamma = csr_array((gammas, (swayed, by)), shape=(len(sizes), len(sizes)))
    together = parts(neighbours(len(sizes), [scope for scope, _ in factors]))
    norm = max(_norm(gamma[list(own)][:, list(own)]) for own in together if len(own) > 1)
    if not norm < 1:
        return Spread((), norm, max(gammas))
    return Spread(_row_sums(gamma), norm, max(gammas))


def _norm(gamma: Any) -> float:
    """The spectral norm of a part, rounded up, or the root of its largest row and column sums.

    Of a large part a bound: Gamma^T Gamma >= 0, so for any x > 0 its largest eigenvalue is at most
    the largest (Gamma^T Gamma x)_i / x_i (Collatz and Wielandt). Powers make x a good one.
    """
    by_sums = sqrt(float(gamma.sum(axis=1).max()) * float(gamma.sum(axis=0).max()))
    if by_sums < 0.5 or gamma.shape[0] > _MOST_NODES:
        return by_sums * (1 + 1e-9)
    if gamma.shape[0] <= _DENSE:
        return min(by_sums, float(np.linalg.norm(gamma.toarray(), 2))) * (1 + 1e-9)
    x, turned, largest = np.ones(gamma.shape[0]), gamma.T.tocsr(), by_sums**2
    for _ in range(_ROUNDS):
        following = turned @ (gamma @ x)
        largest = min(largest, float((following / x).max()))
        x = following / following.max() + 1e-6
    return sqrt(largest) * (1 + 1e-9)


def _row_sums(gamma: Any) -> tuple[float, ...]:
    """Upper bounds: x with (I - Gamma) x >= 1 is at least the row sums of Phi, as Phi >= 0."""
    from scipy.sparse import eye_array  # noqa: PLC0415  (slow to load)
    from scipy.sparse.linalg import spsolve  # noqa: PLC0415

    ones = np.ones(gamma.shape[0])
    sums: Floats = spsolve((eye_array(len(ones)) - gamma).tocsc(), ones)
    for slack in (1e-9, 1e-6, 1e-3):
        raised = sums * (1 + slack)
        if bool((raised >= (1 + gamma @ raised) * (1 + 1e-12)).all()):
            return tuple(raised.tolist())
    return ()


def _local_tables(
    sizes: Sequence[int], factors: Sequence[LogFactor], what: str
) -> Iterator[tuple[int, tuple[int, ...], Floats]]:
    """Every node, its neighbours, and the logarithm of its weight given them.

    The node itself has the last axis. All factors must be above zero.
    """
    near = neighbours(len(sizes), [scope for scope, _ in factors])
    holding: list[list[LogFactor]] = [[] for _ in sizes]
    for scope, table in factors:
        if not np.isfinite(table).all():
            raise NotApplicable(
                f"this {what} rules out some combinations of values, and without exact "
                "distributions there is a theorem only if all have positive probability"
            )
        for node in scope:
            holding[node].append((scope, table))
    for j, own in enumerate(near):
        around = tuple(sorted(own))
        entries = prod(sizes[n] for n in (*around, j))
        if entries > MOST_AROUND:
            raise NotApplicable(
                f"a node of this {what} and its {len(own)} neighbours have {entries:,} "
                f"combinations of values, more than {MOST_AROUND:,}"
            )
        local = np.zeros([sizes[n] for n in (*around, j)])
        for scope, table in holding[j]:
            local = local + spread(table, scope, (*around, j))
        yield j, around, local
