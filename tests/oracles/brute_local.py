"""Bayesian DP losses by listing everything, straight from [B] Definitions 3 and 4."""

from itertools import combinations, pairwise, product
from math import inf, log

import numpy as np


def path_distributions(chain, n):
    """All paths of positive probability, with it."""
    for path in product(range(len(chain)), repeat=n):
        p = float(chain.initial[path[0]])
        for x, y in pairwise(path):
            p *= float(chain.transition[x, y])
        if p > 0:
            yield path, p


def joint(chain, matrix, n):
    """P(path, output) as {path: vector over all outputs}."""
    table = {}
    for path, p in path_distributions(chain, n):
        answers = np.array([1.0])
        for x in path:
            answers = np.multiply.outer(answers, matrix[x]).ravel()
        table[path] = p * answers
    return table


def worst_ratio(first, second):
    """Largest log first/second; terms that are both 0 are skipped, c/0 infinite."""
    if ((first > 0) & (second == 0)).any():
        return inf
    both = first > 0
    return float(np.log(first[both] / second[both]).max())


def losses_of_set(table, k, n, target, known):
    """{(x, x'): loss} for one target and one set of known positions (from 0), over all values."""
    groups = {}
    for path, weights in table.items():
        seen = tuple(path[j] for j in known)
        slot = groups.setdefault(seen, {})
        slot[path[target]] = slot.get(path[target], 0) + weights
    losses = {}
    for seen, slot in groups.items():
        distributions = {x: w / w.sum() for x, w in slot.items()}
        for x, y in product(distributions, distributions):
            if x != y:
                value = worst_ratio(distributions[x], distributions[y])
                losses[seen, x, y] = value
    return losses


def brute_loss(chain, matrix, n, adversary):
    """The loss by definition; with directions for two states."""
    matrix = np.asarray(matrix, dtype=float)
    table = joint(chain, matrix, n)
    best = {}
    for target in range(n):
        others = [j for j in range(n) if j != target]
        sizes = range(n) if adversary == "every" else [0]
        for size in sizes:
            for known in combinations(others, size):
                losses = losses_of_set(table, len(chain), n, target, known)
                for (_, x, y), value in losses.items():
                    best[x, y] = max(best.get((x, y), 0.0), value)
    return max(best.values(), default=0.0), best


def emission(rho_0, rho_1):
    return np.array([[1 - rho_0, rho_0], [rho_1, 1 - rho_1]])


def theorem_1(q, r, rho_0, rho_1):
    """log a^2 / (c d) of [B] Theorem 1, as printed."""
    root = (1 - q) ** 2 * (1 - rho_0) ** 2 - 2 * (1 - q - r - q * r) * (1 - rho_0) * rho_1
    a = (root + (1 - r) ** 2 * rho_1**2) ** 0.5 + (1 - rho_0) * (1 - q) - rho_1 * (1 - r)
    return log(a * a / (2 * r * rho_1 * 2 * r * (1 - rho_0)))
