"""Hidden regimes by their definition: sums over every path. Without a line of pufferkit."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np


def path_weights(initial, transition, emission, entries):
    """Every path of regimes, with the joint probability of the path and the entries.

    ``emission`` h x k: entries are independent given the path. h x k x k: regime t + 1 drives the
    step from entry t to entry t + 1, so the path has one regime for each step. -1 is not observed.
    """
    steps = entries if np.ndim(emission) == 2 else list(pairwise(entries))
    for path in product(range(len(transition)), repeat=len(steps)):
        weight = initial[path[0]]
        for z, w in pairwise(path):
            weight *= transition[z][w]
        for z, shown in zip(path, steps, strict=True):
            if np.min(shown) >= 0:
                weight *= np.asarray(emission[z])[shown]
        yield path, weight


def likelihood(initial, transition, emission, entries):
    """Probability of the entries (of those after the first, if a chain runs within regimes)."""
    return sum(weight for _, weight in path_weights(initial, transition, emission, entries))


def expected_moves(initial, transition, emission, entries):
    """Expected number of moves between regimes, given the entries."""
    counts = np.zeros_like(np.asarray(transition, dtype=float))
    total = 0.0
    for path, weight in path_weights(initial, transition, emission, entries):
        total += weight
        for z, w in pairwise(path):
            counts[z, w] += weight
    return counts / total
