"""The loss of events about several entries, by the definition; numpy only.

All series of a length are listed with their probabilities. An event is a set of them. An output is
a product likelihood as in `tests.oracles.kernel_losses`, searched for by coordinate ascent, or the
answer of a sum with Laplace noise, gone through at every point that matters.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, product

import numpy as np


def listed(initial, kernels):
    """Every series, one in a row, and its probability; ``kernels`` lead from entry to entry."""
    size, length = len(initial), len(kernels) + 1
    series = np.array(list(product(range(size), repeat=length)))
    chance = np.asarray(initial)[series[:, 0]]
    for t, kernel in enumerate(kernels):
        chance = chance * np.asarray(kernel)[series[:, t], series[:, t + 1]]
    return series, chance


def values_of_windows(series, window):
    """For each window the values of its entries, as one number each."""
    size = series.max() + 1
    for first in range(series.shape[1] - window + 1):
        yield series[:, first : first + window] @ size ** np.arange(window)


def values_of_sets(series, count):
    """For each set of so many entries their values, as one number each."""
    size = series.max() + 1
    for places in combinations(range(series.shape[1]), count):
        yield series[:, places] @ size ** np.arange(count)


def labels_of_windows(series, window, label):
    """For each window what ``label`` says of its values."""
    for first in range(series.shape[1] - window + 1):
        yield np.array([label(tuple(row)) for row in series[:, first : first + window]])


def sum_loss(series, chance, labels, values, scale):
    """The largest loss of a sum of values with Laplace noise, over outputs and pairs of labels."""
    sums = np.asarray(values, dtype=float)[series].sum(axis=1)
    names = [n for n in np.unique(labels) if chance[labels == n].sum() > 0]
    worst = 0.0
    for output in np.unique(sums):
        likelihood = np.exp(-np.abs(output - sums) / scale) * chance
        logs = [
            np.log(likelihood[labels == n].sum()) - np.log(chance[labels == n].sum()) for n in names
        ]
        worst = max(worst, max(logs) - min(logs))
    return worst


def attacked_loss(series, chance, labels, functions, rng, starts=2, weights=None):
    """The largest loss found over products of functions of the entries.

    ``functions`` are for every entry, or a list of them for each. ``weights`` says by what the loss
    of a pair of labels counts; 1 for all by default.
    """
    names = [n for n in np.unique(labels) if chance[labels == n].sum() > 0]
    sets = [labels == n for n in names]
    logs_of = [np.log(chance[s].sum()) for s in sets]
    length = series.shape[1]
    each = functions if isinstance(functions[0], list) else [functions] * length
    shown = [np.array(own)[:, series[:, t]] for t, own in enumerate(each)]

    def loss(choice):
        total = sum(shown[t][choice[t]] for t in range(length))
        likelihood = np.exp(total) * chance
        logs = np.array(
            [np.log(likelihood[s].sum()) - own for s, own in zip(sets, logs_of, strict=True)]
        )
        between = logs[:, None] - logs[None, :]
        if weights is not None:
            between = between * weights[np.ix_(names, names)]
        return float(between.max())

    best = 0.0
    for _ in range(starts):
        choice = [int(rng.integers(len(own))) for own in each]
        now = loss(choice)
        while True:
            trials = [
                [*choice[:t], f, *choice[t + 1 :]]
                for t in range(length)
                for f in range(len(each[t]))
            ]
            losses = [loss(trial) for trial in trials]
            at = int(np.argmax(losses))
            if losses[at] <= now + 1e-12:
                break
            now, choice = losses[at], trials[at]
        best = max(best, now)
    return best


def farthest_sums(series, chance, labels, values):
    """The largest W-infinity between distributions of the sum given two labels.

    ``chance`` are fractions: the quantiles of the two are compared exactly.
    """
    sums = np.asarray(values)[series].sum(axis=1)
    quantiles = []
    for name in np.unique(labels):
        rows = np.flatnonzero((labels == name) & (chance > 0))
        if not len(rows):
            continue
        whole, reached, steps = sum(chance[rows]), Fraction(0), []
        for value in np.unique(sums[rows]):
            reached += sum(chance[rows[sums[rows] == value]]) / whole
            steps.append((reached, int(value)))
        quantiles.append(steps)
    worst = 0
    for one, other in combinations(quantiles, 2):
        for level in {height for height, _ in (*one, *other)}:
            ends = [next(v for height, v in steps if height >= level) for steps in (one, other)]
            worst = max(worst, abs(ends[0] - ends[1]))
    return worst
