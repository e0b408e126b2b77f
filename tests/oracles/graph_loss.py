"""Losses on products of factors, by definition: every data set, every likelihood.

Nothing of the package is used here.
"""

from itertools import product

import numpy as np


def weights_of(sizes, factors):
    """All data sets, and the weight of each."""
    rows = np.array(list(product(*(range(size) for size in sizes))))
    logs = np.zeros(len(rows))
    for scope, table in factors:
        logs = logs + np.asarray(table)[tuple(rows[:, n] for n in scope)]
    return rows, np.exp(logs)


def product_losses(sizes, factors, b):
    """The largest loss of every node over likelihoods that favour one value of each entry."""
    rows, weights = weights_of(sizes, factors)
    worst = np.zeros(len(sizes))
    for favoured in product(*(range(size) for size in sizes)):
        more = np.exp(b * (rows == np.array(favoured)).sum(axis=1))
        for likelihood in (more, 1 / more):
            for n, size in enumerate(sizes):
                means = []
                for value in range(size):
                    own = rows[:, n] == value
                    if weights[own].sum() > 0:
                        means.append((weights * likelihood)[own].sum() / weights[own].sum())
                worst[n] = max(worst[n], np.log(max(means) / min(means)))
    return worst


def largest_loss(sizes, factors, b, node):
    """The largest loss of a node over *all* likelihoods that move by b at most with an entry.

    A linear-fractional programme: the mean given one value, that given another held at 1.
    """
    from scipy.optimize import linprog
    from scipy.sparse import coo_matrix

    rows, weights = weights_of(sizes, factors)
    number = {tuple(row): place for place, row in enumerate(rows.tolist())}
    above, below = [], []
    for row, place in number.items():
        for n, size in enumerate(sizes):
            for value in range(size):
                if value != row[n]:
                    above.append(place)
                    below.append(number[(*row[:n], value, *row[n + 1 :])])
    count = len(above)
    at = np.arange(count)
    limits = coo_matrix(
        (np.r_[np.ones(count), np.full(count, -np.exp(b))], (np.r_[at, at], np.r_[above, below])),
        shape=(count, len(rows)),
    )
    worst = 0.0
    for one in range(sizes[node]):
        for other in range(sizes[node]):
            p, q = (weights * (rows[:, node] == value) for value in (one, other))
            if one != other and p.sum() > 0 and q.sum() > 0:
                solved = linprog(
                    -p / p.sum(), A_ub=limits, b_ub=np.zeros(count), A_eq=[q / q.sum()], b_eq=[1]
                )
                worst = max(worst, np.log(-solved.fun))
    return worst
