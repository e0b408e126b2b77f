"""Losses of pairs of values by listing every path, straight from the definition of Pufferfish."""

import itertools

import numpy as np
from scipy.optimize import linprog


def paths_of(initial, kernels):
    """All paths of a chain with the given kernel for every move, and their probabilities."""
    size, length = len(initial), len(kernels) + 1
    paths = np.array(list(itertools.product(range(size), repeat=length)))
    weights = np.asarray(initial)[paths[:, 0]]
    for t, kernel in enumerate(kernels):
        weights = weights * np.asarray(kernel)[paths[:, t], paths[:, t + 1]]
    return paths, weights


def losses_of_likelihoods(paths, weights, likelihoods, secret):
    """Largest log-ratio over outputs for each pair of values; impossible values lose nothing.

    ``likelihoods`` has a row for each output and a column for each path, ``secret`` the value of
    the secret on each path.
    """
    values = range(int(secret.max()) + 1)
    means = []
    for value in values:
        own = weights * (secret == value)
        means.append(likelihoods @ own / own.sum() if own.sum() > 0 else None)
    losses = np.zeros((len(means), len(means)))
    for x, one in enumerate(means):
        for y, other in enumerate(means):
            if x != y and one is not None and other is not None:
                losses[x, y] = np.log(one / other).max()
    return losses


def laplace_likelihoods(paths, contributions, scale):
    """Likelihoods of a noisy sum at every point of the grid of its values (PAIRS Theorem 3)."""
    answers = np.asarray(contributions, dtype=float)[paths].sum(axis=1)
    axes = [np.unique(answers[:, j]) for j in range(answers.shape[1])]
    outputs = np.array(list(itertools.product(*axes)))
    distances = np.abs(outputs[:, None, :] - answers[None, :, :]).sum(axis=2)
    return np.exp(-distances / scale)


def sum_losses(initial, kernels, contributions, scale, entry):
    """Loss of each pair of values of an entry (from 0) under Laplace noise on one sum."""
    paths, weights = paths_of(initial, kernels)
    likelihoods = laplace_likelihoods(paths, contributions, scale)
    size = len(initial)
    losses = np.zeros((size, size))
    partial = losses_of_likelihoods(paths, weights, likelihoods, paths[:, entry])
    losses[: len(partial), : len(partial)] = partial
    return losses


def step(p, q, limit):
    """The transport programme of one step, by HiGHS."""
    sources, targets = np.flatnonzero(p), np.flatnonzero(q)
    rows, columns = len(sources), len(targets)
    gains = np.exp(limit[np.ix_(sources, targets)])
    cost = np.zeros(rows * columns + 1)
    cost[-1] = 1
    sums = np.zeros((rows, rows * columns + 1))
    loads = np.zeros((columns, rows * columns + 1))
    for y in range(rows):
        sums[y, y * columns : (y + 1) * columns] = 1
        for z in range(columns):
            loads[z, y * columns + z] = gains[y, z] / q[targets[z]]
    loads[:, -1] = -1
    solution = linprog(
        cost, A_ub=loads, b_ub=np.zeros(columns), A_eq=sums, b_eq=p[sources], method="highs"
    )
    return float(np.log(solution.x[-1]))
