"""Bayesian DP losses of bits XORed with a noise chain, by listing all series and all outputs."""

from itertools import combinations

import numpy as np


def _paths(start, kernel, n):
    """P of every path of a binary chain, as an array with one axis of two for each entry."""
    table = np.asarray(start, dtype=float)
    for t in range(1, n):
        table = table[..., None] * np.asarray(kernel, dtype=float).reshape((1,) * (t - 1) + (2, 2))
    return table


def xor_table(start, kernel, noise_start, noise, n):
    """P(x, z) for z = x xor y: axes of the n bits x, then one axis of all outputs z."""
    data = _paths(start, kernel, n)
    flips = _paths(noise_start, noise, n).ravel()
    outputs = np.arange(2**n)
    codes = outputs.reshape((2,) * n)  # the first entry is the highest bit
    return data[..., None] * flips[codes[..., None] ^ outputs]


def worst(table, adversary):
    """(loss of 0 over 1, loss of 1 over 0) by [B] Definitions 3 and 4."""
    n = table.ndim - 1
    best = [0.0, 0.0]
    for target in range(n):
        others = [j for j in range(n) if j != target]
        for size in range(n) if adversary == "every" else [0]:
            for known in combinations(others, size):
                unknown = tuple(j for j in others if j not in known)
                part = np.moveaxis(table.sum(axis=unknown, keepdims=True), target, 0)
                weight = part.sum(axis=-1, keepdims=True)
                possible = (weight[0] > 0) & (weight[1] > 0)
                given = part / np.where(weight > 0, weight, 1.0)
                with np.errstate(divide="ignore", invalid="ignore"):
                    ratio = np.log(given[0]) - np.log(given[1])
                ratio = np.where(possible & ~np.isnan(ratio), ratio, 0.0)
                best = [max(best[0], float(ratio.max())), max(best[1], float(-ratio.min()))]
    return best
