"""The loss of noise on a sum over a chain, by listing all data. Nothing of pufferkit is used.

Contributions are rows of whole numbers, one for each state, and noise is discrete Laplace with a
scale for each coordinate. Outputs run over a box one step larger than the possible answers: beyond
it the ratio of likelihoods does not change.
"""

from itertools import product

import numpy as np


def listed(initial, transition, length):
    """All paths of positive probability, one in each row, and their probabilities."""
    size = len(initial)
    paths = np.array(list(product(range(size), repeat=length)))
    chance = np.asarray(initial, dtype=float)[paths[:, 0]]
    rows = np.asarray(transition, dtype=float)
    for before, after in zip(paths.T[:-1], paths.T[1:], strict=True):
        chance = chance * rows[before, after]
    return paths[chance > 0], chance[chance > 0]


def box(answers):
    """All whole outputs in the box around the answers."""
    ends = zip(answers.min(axis=0) - 1, answers.max(axis=0) + 2, strict=True)
    return np.array(list(product(*(range(low, high) for low, high in ends))))


def likelihoods(initial, transition, contributions, scales, length):
    """For every entry: P(output | X_entry = x) up to one factor; rows x that can be, columns."""
    paths, chance = listed(initial, transition, length)
    added = np.asarray(contributions)
    answers = added[paths].sum(axis=1)
    outputs = box(answers)
    kernel = np.exp(-(np.abs(outputs[None] - answers[:, None]) / np.asarray(scales)).sum(axis=2))
    for entry in range(length):
        given = [paths[:, entry] == x for x in range(len(initial))]
        yield np.array(
            [chance[own] @ kernel[own] / chance[own].sum() for own in given if own.any()]
        )


def largest_loss(initial, transition, contributions, scales, length):
    """Over entries, pairs of values and outputs."""
    losses = [
        np.log(rows.max(axis=0) / rows.min(axis=0)).max()
        for rows in likelihoods(initial, transition, contributions, scales, length)
    ]
    return float(max(losses))


def joint_loss(initial, transition, releases, length):
    """Several releases (contributions, scales) together, over all outputs of all of them."""
    paths, chance = listed(initial, transition, length)
    kernels = []
    for contributions, scales in releases:
        answers = np.asarray(contributions)[paths].sum(axis=1)
        outputs = box(answers)
        far = (np.abs(outputs[None] - answers[:, None]) / np.asarray(scales)).sum(axis=2)
        kernels.append(np.exp(-far))
    worst = 0.0
    for entry in range(length):
        given = [paths[:, entry] == x for x in range(len(initial))]
        rows = [
            np.einsum("p,pa,pb->ab", chance[own] / chance[own].sum(), *(k[own] for k in kernels))
            for own in given
            if own.any()
        ]
        worst = max(worst, float(np.log(np.max(rows, axis=0) / np.min(rows, axis=0)).max()))
    return worst
