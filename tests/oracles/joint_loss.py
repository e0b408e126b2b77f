"""The exact joint loss of every entry, by listing all data. Imports nothing of pufferkit.

A history is a sequence of noisy sums: each adds up values of the states over a window and adds
Laplace noise. For one chain, the loss of entry i is the supremum over all outputs and all ordered
pairs of values x, x' that X_i can take of

    log p(output | X_i = x) / p(output | X_i = x').

The supremum over outputs is a maximum over a grid. Fix all coordinates of the output but one:
between neighbouring points of the support of that sum both densities are A e^(-w/s) + C e^(w/s)
with constants A, C >= 0, so their ratio is monotone, and beyond the outermost points it is constant
(the two tails). Moving one coordinate after the other to a support point never lowers the ratio.

With any start the supremum also runs over the distributions m of the first entry. The four means in

    [sum_u m_u p(output, x | u) / sum_u m_u P(x | u)] / [the same for x']

are linear in m. With the first numerator and the last denominator fixed, the rest is convex in m,
so a maximum has at most two atoms u, u'; for two atoms the best odds t solve a quadratic equation.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

FAR = 1e12


@dataclass(frozen=True)
class NoisySum:
    """One released number: values of the states, added up over a window, with Laplace noise.

    Entries that are ``missing`` were not observed and add nothing.
    """

    first: int
    last: int
    values: tuple[float, ...]
    scale: float
    missing: tuple[int, ...] = ()


def kernels_of(transition, initial, lengths):
    """One kernel for each step; a new segment starts anew."""
    matrix, total = np.asarray(transition, dtype=float), sum(lengths)
    steps = np.broadcast_to(matrix, (total - 1, *matrix.shape[-2:])).copy()
    for end in np.cumsum(lengths)[:-1]:
        steps[end - 1] = np.asarray(initial)
    return steps


def tables(steps, history: Sequence[NoisySum], states: int):
    """By entry i, first value u and value x: p(output, X_i = x | X_1 = u) on the grid, P(x | u)."""
    length = len(steps) + 1
    paths = np.indices((states,) * length).reshape(length, -1)
    chance = np.ones(paths.shape[1])
    for before, kernel in enumerate(steps):
        chance *= kernel[paths[before], paths[before + 1]]
    paths, chance = paths[:, chance > 0], chance[chance > 0]
    place, shape, kernels = np.zeros(paths.shape[1], dtype=int), [], []
    for noisy_sum in history:
        missing = noisy_sum.missing
        used = [t - 1 for t in range(noisy_sum.first, noisy_sum.last + 1) if t not in missing]
        sums = np.asarray(noisy_sum.values, dtype=float)[paths[used]].sum(axis=0)
        support, inverse = np.unique(np.round(sums, 12), return_inverse=True)
        place = place * len(support) + inverse
        shape.append(len(support))
        kernels.append(np.exp(-np.abs(support[:, None] - support[None, :]) / noisy_sum.scale))
    grid = int(np.prod(shape, dtype=int))
    joint = np.empty((length, states, states, grid))
    known = np.empty((length, states, states))
    for i in range(length):
        cell = paths[0] * states + paths[i]
        known[i] = np.bincount(cell, chance, states**2).reshape(states, states)
        counted = np.bincount(cell * grid + place, chance, states**2 * grid)
        table = counted.reshape(states**2, *shape)
        for axis, kernel in enumerate(kernels):
            table = np.moveaxis(np.tensordot(table, kernel, axes=(axis + 1, 0)), -1, axis + 1)
        joint[i] = table.reshape(states, states, grid)
    return joint, known


def densities(initial, transition, history, lengths):
    """p(output | X_i = x) on the grid, entry by entry, for values that can occur."""
    initial = np.asarray(initial, dtype=float)
    joint, known = tables(kernels_of(transition, initial, lengths), history, len(initial))
    rows = []
    for above, below in zip(np.einsum("u,iuxo->ixo", initial, joint), initial @ known, strict=True):
        can = below > 0
        rows.append(above[can] / below[can, None])
    return rows


def losses(initial, transition, history, lengths):
    """The loss of every entry under one chain; ``transition`` may be a matrix for each step."""
    spread = []
    for rows in densities(initial, transition, history, lengths):
        logs = np.log(rows)
        spread.append(float((logs.max(axis=0) - logs.min(axis=0)).max()))
    return np.array(spread)


def any_start_losses(transition, history, length):
    """The loss of every entry under one matrix, the largest over all initial distributions."""
    matrix = np.asarray(transition, dtype=float)
    states = matrix.shape[-1]
    joint, known = tables(kernels_of(matrix, None, [length]), history, states)
    worst = []
    for i in range(length):
        largest = 0.0
        if i == 0:  # the start is the secret itself
            logs = np.log(joint[0][np.arange(states), np.arange(states)])
            largest = float((logs.max(axis=0) - logs.min(axis=0)).max())
        else:
            for u, v in combinations(range(states), 2):
                for x, y in combinations(range(states), 2):
                    largest = max(largest, _two_starts(joint[i][[u, v]], known[i][[u, v]], x, y))
        worst.append(largest)
    return np.array(worst)


def _two_starts(joint, known, x, y):
    """The largest loss between values x and y over mixtures of two starts and all outputs."""
    if not (known[:, x].any() and known[:, y].any()):
        return 0.0
    largest = 0.0
    for one, other in ((x, y), (y, x)):
        a, c = joint[:, one], joint[:, other]
        b, d = known[:, [one]], known[:, [other]]
        n0, n1, n2 = a[0] * d[0], a[0] * d[1] + a[1] * d[0], a[1] * d[1]
        m0, m1, m2 = b[0] * c[0], b[0] * c[1] + b[1] * c[0], b[1] * c[1]
        q0, q1, q2 = n1 * m0 - n0 * m1, 2 * (n2 * m0 - n0 * m2), n2 * m1 - n1 * m2
        root = np.sqrt(np.maximum(q1 * q1 - 4 * q0 * q2, 0.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            stable = -(q1 + np.where(q1 < 0, -root, root)) / 2  # nothing cancels
            turns = [stable / q2, q0 / stable]
        # Every odds t > 0 is a start, so odds that are off cost tightness, never truth.
        odds = [np.clip(np.nan_to_num(np.abs(t), nan=1.0), 1 / FAR, FAR) for t in turns]
        for t in (*odds, np.full_like(n0, 1 / FAR), np.full_like(n0, FAR)):
            ratio = (n0 + n1 * t + n2 * t * t) / (m0 + m1 * t + m2 * t * t)
            largest = max(largest, float(np.log(ratio.max())))
    return largest


def dependence(initial, transition, one, other, lengths):
    """E of [C] 3.6: the largest |log joint - log product| given any value of any entry."""
    both = densities(initial, transition, [*one, *other], lengths)
    first = densities(initial, transition, one, lengths)
    second = densities(initial, transition, other, lengths)
    largest = 0.0
    for joint, left, right in zip(both, first, second, strict=True):
        product = (left[:, :, None] * right[:, None, :]).reshape(joint.shape)
        largest = max(largest, float(np.abs(np.log(joint / product)).max()))
    return largest
