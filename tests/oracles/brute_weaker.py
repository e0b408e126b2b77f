"""By definition, over every path: temporal leakage, and promises with a delta."""

from itertools import pairwise, product

import numpy as np
from scipy.optimize import linprog


def paths(initial, transition, length):
    """Every path with its probability."""
    initial, transition = np.asarray(initial, float), np.asarray(transition, float)
    for path in product(range(len(initial)), repeat=length):
        chance = initial[path[0]]
        for x, y in pairwise(path):
            chance *= transition[x, y]
        if chance > 0:
            yield path, chance


def sums_given(initial, transition, values, length, node):
    """For each possible value of an entry, the distribution of the sum, as {sum: chance}."""
    tables = {}
    for path, chance in paths(initial, transition, length):
        table = tables.setdefault(path[node], {})
        total = sum(values[x] for x in path)
        table[total] = table.get(total, 0.0) + chance
    return [
        {total: chance / sum(table.values()) for total, chance in table.items()}
        for table in tables.values()
    ]


def unpaired(mu, nu, reach):
    """The least mass that moves further than ``reach``, by linear programming."""
    pairs = [(x, y) for x in mu for y in nu]
    gain = [-1.0 if abs(x - y) <= reach else 0.0 for x, y in pairs]
    rows = [[float(x == own) for x, _ in pairs] for own in mu]
    rows += [[float(y == own) for _, y in pairs] for own in nu]
    solved = linprog(gain, A_ub=rows, b_ub=[*mu.values(), *nu.values()])
    return 1 + solved.fun


def left_out(mu, nu, density, epsilon, width):
    """The least delta of two mixtures at this epsilon, by a sum over a fine grid."""
    ends = [*mu, *nu]
    grid = np.linspace(min(ends) - 12 * width, max(ends) + 12 * width, 40_001)
    first, second = (
        sum(chance * density(grid - at) for at, chance in table.items()) for table in (mu, nu)
    )
    return float(np.maximum(first - np.exp(epsilon) * second, 0).sum() * (grid[1] - grid[0]))


def leakage(initial, transition, epsilons, node):
    """The largest loss of an entry over releases of every time that are private for it alone.

    The likelihood of the output of time t as a function of X_t varies by a factor of e^eps_t at
    most; the loss is largest at functions that take the two extreme values.
    """
    size, length = len(initial), len(epsilons)
    listed = list(paths(initial, transition, length))
    masses = np.zeros(size)
    for path, chance in listed:
        masses[path[node]] += chance
    possible = np.flatnonzero(masses)
    worst = 0.0
    for shape in product(*(product((0, 1), repeat=size) for _ in epsilons)):
        means = np.zeros(size)
        for path, chance in listed:
            means[path[node]] += chance * np.exp(
                sum(e * own[x] for e, own, x in zip(epsilons, shape, path, strict=True))
            )
        logs = np.log(means[possible] / masses[possible])
        worst = max(worst, float(np.ptp(logs)))
    return worst
