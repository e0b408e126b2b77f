"""Networks by brute force, from definitions alone: no code of the package is used.

A network is ``parents`` {node: tuple of nodes}, parents first, and ``tables`` {node: {tuple of
parent values: distribution}}; values are 0, 1, ... A joint distribution is an array with one axis
for each node. Entries may be floats or fractions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import chain, combinations, product
from math import exp, inf, log
from typing import Any

import numpy as np

Parents = Mapping[Any, tuple[Any, ...]]
Tables = Mapping[Any, Mapping[tuple[int, ...], Sequence[Any]]]


# --- distributions --------------------------------------------------------------------------------


def sizes(tables: Tables) -> dict[Any, int]:
    return {node: len(next(iter(rows.values()))) for node, rows in tables.items()}


def joint(parents: Parents, tables: Tables, exact: bool = False) -> np.ndarray:
    """P(x_1, ..., x_n) = product of P(x_i | parents), for every x."""
    nodes, count = list(parents), sizes(tables)
    table = np.empty([count[node] for node in nodes], dtype=object if exact else float)
    for x in np.ndindex(table.shape):
        value = dict(zip(nodes, x, strict=True))
        p: Any = Fraction(1) if exact else 1.0
        for node in nodes:
            row = tables[node][tuple(value[parent] for parent in parents[node])]
            p *= Fraction(row[value[node]]) if exact else float(row[value[node]])
        table[x] = p
    return table


def marginal(distribution: np.ndarray, axes: Sequence[int]) -> np.ndarray:
    """The distribution of some axes, in the order given."""
    rest = tuple(n for n in range(distribution.ndim) if n not in axes)
    table = distribution.sum(axis=rest) if rest else distribution
    kept = sorted(axes)
    return np.transpose(table, [kept.index(axis) for axis in axes])


# --- d-separation ---------------------------------------------------------------------------------


def trails(parents: Parents, start: Any, end: Any) -> Iterator[list[Any]]:
    """All paths without repeated nodes, arrows ignored."""
    near = {node: set(own) for node, own in parents.items()}
    for node, own in parents.items():
        for parent in own:
            near[parent].add(node)
    todo = [[start]]
    while todo:
        walk = todo.pop()
        if walk[-1] == end:
            yield walk
        else:
            todo += [[*walk, node] for node in near[walk[-1]] if node not in walk]


def descendants(parents: Parents, node: Any) -> set[Any]:
    """The node and everything below it."""
    below = {node}
    for other, own in parents.items():  # parents come first
        if below & set(own):
            below.add(other)
    return below


def blocked(parents: Parents, walk: Sequence[Any], given: set[Any]) -> bool:
    for before, node, after in zip(walk, walk[1:], walk[2:], strict=False):
        if before in parents[node] and after in parents[node]:
            if not descendants(parents, node) & given:
                return True
        elif node in given:
            return True
    return False


def separated(parents: Parents, node: Any, given: set[Any]) -> set[Any]:
    """Everything outside ``given`` that it d-separates from ``node``, by listing trails."""
    return {
        other
        for other in parents
        if other != node
        and other not in given
        and all(blocked(parents, walk, given) for walk in trails(parents, node, other))
    }


def dependence(
    distribution: np.ndarray, node: int, others: Sequence[int], given: Sequence[int]
) -> float:
    """Largest |P(x, y, z) P(z) - P(x, z) P(y, z)| over values x of X_node, y of others, z given."""
    rest = int(np.prod([distribution.shape[n] for n in others], dtype=int))
    table = marginal(distribution, [node, *others, *given]).reshape(
        distribution.shape[node], rest, -1
    )
    total = table.sum(axis=(0, 1), keepdims=True)
    apart = table * total - table.sum(axis=1, keepdims=True) * table.sum(axis=0, keepdims=True)
    return float(np.abs(apart).max())


# --- influence and quilts -------------------------------------------------------------------------


def influence(distribution: np.ndarray, node: int, others: Sequence[int]) -> float:
    """[Q] Definition 4.1: terms that are both 0 and impossible secrets are skipped, c/0 is inf."""
    if not others:
        return 0.0
    rows = marginal(distribution, [node, *others]).reshape(distribution.shape[node], -1)
    distributions = [row / row.sum() for row in rows if row.sum() > 0]
    worst: Any = 1
    for above, below in product(distributions, repeat=2):
        for p, q in zip(above, below, strict=True):
            if p > 0 and q == 0:
                return inf
            if p > 0:
                worst = max(worst, p / q)
    return log(worst) if not isinstance(worst, Fraction) else _log(worst)


def _log(ratio: Fraction) -> float:
    return log(ratio.numerator) - log(ratio.denominator)


def subsets(items: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    return chain.from_iterable(combinations(items, n) for n in range(len(items) + 1))


def best_score(
    parents: Parents, distributions: Sequence[np.ndarray], node: Any, epsilon: float
) -> float:
    """The least card(X_N) / (epsilon - e) over all quilts; e is the largest over the class."""
    nodes = list(parents)
    place = nodes.index(node)
    best = inf
    for chosen in subsets([other for other in nodes if other != node]):
        nearby = len(nodes) - len(chosen) - len(separated(parents, node, set(chosen)))
        places = [nodes.index(other) for other in chosen]
        worst = max(influence(distribution, place, places) for distribution in distributions)
        if worst < epsilon:
            best = min(best, nearby / (epsilon - worst))
    return best


def quilt_scale(parents: Parents, distributions: Sequence[np.ndarray], epsilon: float) -> float:
    """[Q] Algorithm 2 over all quilts, for a 1-Lipschitz query."""
    return max(best_score(parents, distributions, node, epsilon) for node in parents)


# --- what a release really loses ------------------------------------------------------------------


def real_loss(distribution: np.ndarray, likelihoods: np.ndarray) -> float:
    """Largest log E[f | X_i = x] / E[f | X_i = x'] over nodes, possible x, x' and rows f."""
    worst = 0.0
    weighted = likelihoods * distribution
    for axis in range(distribution.ndim):
        mass = marginal(distribution, [axis])
        rest = tuple(n + 1 for n in range(distribution.ndim) if n != axis)
        means = weighted.sum(axis=rest)[:, mass > 0] / mass[mass > 0]
        logs = np.log(means)
        worst = max(worst, float((logs.max(axis=1) - logs.min(axis=1)).max()))
    return worst


def pair_losses(distribution: np.ndarray, likelihoods: np.ndarray, axis: int) -> np.ndarray:
    """Largest log E[f | X_i = x] / E[f | X_i = x'] over rows f; 0 where one is impossible."""
    mass = marginal(distribution, [axis])
    rest = tuple(n + 1 for n in range(distribution.ndim) if n != axis)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log((likelihoods * distribution).sum(axis=rest) / mass)
        losses = (logs[:, :, None] - logs[:, None, :]).max(axis=0)
    return np.where(np.outer(mass > 0, mass > 0), losses, 0.0)


def noisy_sums(values: Sequence[Sequence[float]], b: float) -> np.ndarray:
    """Likelihoods of Laplace noise of scale 1/b on a sum, for outputs at every atom.

    ``values`` gives what each value of each node adds. Between atoms log-ratios are monotone.
    """
    total = np.zeros([len(own) for own in values])
    for axis, own in enumerate(values):
        shape = [1] * len(values)
        shape[axis] = len(own)
        total = total + np.reshape(own, shape)
    atoms = np.unique(total)
    return np.exp(-b * np.abs(atoms.reshape(-1, *[1] * total.ndim) - total))


def products(chosen: Sequence[Sequence[bool]], bs: Sequence[float]) -> np.ndarray:
    """f(x) = exp(sum of b_t over t with x_t in S_t): randomised response, node by node."""
    return np.exp(exponent(chosen, bs))[None]


def exponent(chosen: Sequence[Sequence[bool]], bs: Sequence[float]) -> np.ndarray:
    total = np.zeros([len(own) for own in chosen])
    for axis, (own, b) in enumerate(zip(chosen, bs, strict=True)):
        shape = [1] * len(chosen)
        shape[axis] = len(own)
        total = total + b * np.reshape(np.array(own, dtype=float), shape)
    return total


def distances(
    shape: Sequence[int], points: Sequence[Sequence[int]], bs: Sequence[float]
) -> np.ndarray:
    """f(x) = exp(weighted Hamming distance from x to a set): f varies as far as it may."""
    grid = np.indices(shape)
    shortest = np.full(shape, inf)
    for point in points:
        apart = sum(
            b * (grid[axis] != x) for axis, (x, b) in enumerate(zip(point, bs, strict=True))
        )
        shortest = np.minimum(shortest, apart)
    return np.exp(shortest)[None]


# --- the theorem on trees, every step by all subsets ----------------------------------------------


def step(kernel: np.ndarray, a: float) -> np.ndarray:
    """step_{x,x'}(K, a) for every pair of rows, by all subsets of columns."""
    rows = len(kernel)
    largest = np.zeros((rows, rows))
    for chosen in product([0.0, 1.0], repeat=kernel.shape[1]):
        means = 1 + (kernel @ chosen) * (exp(a) - 1)
        largest = np.maximum(largest, np.log(means)[:, None] - np.log(means)[None, :])
    return largest


def tree_losses(
    parents: Parents,
    tables: Tables,
    bs: Mapping[Any, float],
    together: bool = True,
    distribution: np.ndarray | None = None,
) -> dict[Any, float]:
    """loss_i without blocks. ``together``: one pair of values for all branches of lambda as well.

    Without it this is docs/theory.md, Graphs, as it stands there.
    """
    nodes = list(parents)
    distribution = joint(parents, tables) if distribution is None else distribution
    near = {node: list(own) for node, own in parents.items()}
    for node, own in parents.items():
        for parent in own:
            near[parent].append(node)
    possible = {node: marginal(distribution, [n]) > 0 for n, node in enumerate(nodes)}

    def branch(n: Any, j: Any) -> np.ndarray:
        pair = marginal(distribution, [nodes.index(n), nodes.index(j)])
        rows = pair.sum(axis=1, keepdims=True)
        kernel = np.divide(pair, rows, out=np.zeros_like(pair), where=rows > 0)
        return step(kernel, variation(j, n, together))

    def variation(n: Any, without: Any, same: bool) -> float:
        if possible[n].sum() < 2:
            return 0.0
        pairs = np.outer(possible[n], possible[n])
        parts = [branch(n, j) for j in near[n] if j != without]
        if not same:
            return bs[n] + sum(float(part[pairs].max()) for part in parts)
        return bs[n] + float(sum(parts, np.zeros(pairs.shape))[pairs].max())

    return {node: variation(node, None, True) for node in nodes}


# --- random networks ------------------------------------------------------------------------------


def random_distribution(rng: np.random.Generator, size: int, zeros: bool) -> list[float]:
    weights = rng.integers(0 if zeros else 1, 6, size).astype(float)
    if rng.random() < 0.3:
        weights = rng.dirichlet(np.full(size, 0.5)) + 1e-3
    if not weights.any():
        weights[rng.integers(size)] = 1.0
    return (weights / weights.sum()).tolist()


def random_network(
    rng: np.random.Generator, count: int, most: int, arrows: float = 0.5, tree: bool = False
) -> tuple[dict[Any, tuple[Any, ...]], dict[Any, dict[tuple[int, ...], list[float]]]]:
    """Any graph (or any forest), different sizes, zeros in some tables."""
    size = {n: int(rng.integers(2, most + 1)) for n in range(count)}
    if rng.random() < 0.1:
        size[int(rng.integers(count))] = 1
    parents: dict[Any, tuple[Any, ...]] = {}
    for n in range(count):
        if tree:
            parents[n] = (int(rng.integers(n)),) if n and rng.random() < 0.92 else ()
        else:
            parents[n] = tuple(p for p in range(n) if rng.random() < arrows)[:3]
    zeros = bool(rng.random() < 0.4)
    tables = {
        n: {
            key: random_distribution(rng, size[n], zeros)
            for key in product(*(range(size[p]) for p in parents[n]))
        }
        for n in range(count)
    }
    return parents, tables
