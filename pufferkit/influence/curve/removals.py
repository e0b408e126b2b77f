"""Nodes are removed from cliques, many ways side by side.

The theorem is in `pufferkit.influence.curve.averaging`. Here ways through tables of one shape are
followed at once: an array has an axis for each node, those to be removed first and in their order,
and the first axis counts the ways.

To average a node j, let m(v) be the mean of e^g(X_j) given the data v of the others. For the
extreme g with a given variation, the step of a pair of values x, x' of node k is the largest
log m(x, u) / m(x', u) over all u. So m is computed once for all other nodes, and each of them takes
a division and a maximum: about 2^n n operations for a way through a clique of n nodes with two
values, half of them for the first node, and no memory beyond a few tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, permutations
from math import prod

import numpy as np

from pufferkit.beliefs.junction_tree import log_sum
from pufferkit.checks import Bools, Floats
from pufferkit.influence.curve.pairs import LARGEST, off_diagonal
from pufferkit.rounding import EPS

MOST_VALUES = 6
"""Up to this many values of a node, all extreme g are listed."""

AT_ONCE = 1 << 17
"""About how many means are computed at once."""

_MOST_ROUNDS = 60


def batches(count: int, shape: Sequence[int]) -> Iterator[slice]:
    """So many ways through tables of one shape, cut into what is followed at once."""
    most = max(1, int(AT_ONCE / means_of(shape)))
    for first in range(0, count, most):
        yield slice(first, min(count, first + most))


def means_of(shape: Sequence[int]) -> float:
    """Most means for the removal of a node from a table; at least its number of entries."""
    return prod(shape) * max((_functions(values) / values for values in shape), default=1.0)


def _functions(values: int) -> int:
    """The number of extreme g of a node, or about what its roots cost."""
    return 4 * values if values > MOST_VALUES else max(2, 2**values - 2)


def ratios_of(out: Sequence[int], stay: Sequence[int], targets: Sequence[int]) -> float:
    """About how many ratios a way takes that removes nodes with so many values, in this order."""
    total, left = 0.0, [*out]
    while left:
        values, *left = left
        data = prod(left) * prod(stay)
        pairs = sum(size - 1 for size in (*left, *targets)) / 2
        total += data * _functions(values) * (pairs + 1)
    return total


def followed(
    tables: Floats,
    logs: bool,
    variations: Floats,
    targets: int,
    errors: Floats,
    greedy: bool,
) -> tuple[Floats, Bools]:
    """What is added to each pair of values of the targets, and which nodes were paid.

    Parameters
    ----------
    tables
        Distributions, or their logarithms if ``logs``; the axes are the ways, the nodes to be
        removed, nodes that stay, and the targets.
    variations
        V of each node to be removed, in all ways; zero beyond the values of a node.
    targets
        Their number.
    errors
        Bound on the relative error of each distribution.
    greedy
        Whether a node is paid where averaging adds more in total. A variation above `LARGEST` is
        paid in any case.
    """
    count, ways, most = variations.shape[:3]
    axes = [*range(1, count + 1), *range(tables.ndim - targets, tables.ndim)]
    own = np.concatenate([variations, np.zeros((targets, ways, most, most))])
    slack = 4 * errors + (64 + 4 * tables.ndim) * EPS
    paid, pays = np.zeros(ways), np.zeros((ways, count), dtype=bool)
    for place in range(count):
        size = tables.shape[1]
        largest = own[place].max(axis=(1, 2))
        kernel, tables = conditional(tables, logs)
        near = [axis - place - 1 for axis in axes[place + 1 :]]
        mine = np.minimum(own[place, :, :size, :size], LARGEST)
        steps = _steps(kernel, mine, near, slack, most)
        pay = largest > LARGEST
        if greedy:
            pay |= steps.max(axis=(2, 3)).sum(axis=0) >= largest
        own[place + 1 :] += np.where(pay[:, None, None], 0.0, steps)
        paid += np.where(pay, largest, 0.0)
        pays[:, place] = pay
    sizes = np.array(tables.shape[tables.ndim - targets :])
    inside = np.arange(most) < sizes[:, None]
    outside = inside[:, None, :, None] & inside[:, None, None, :] & ~np.eye(most, dtype=bool)
    return (own[count:] + paid[:, None, None]) * outside * (1 + 2 * count * EPS), pays


def strengths(tables: Floats, logs: bool, errors: Floats) -> Floats:
    """Bound on how far node k moves the distribution of node j, for each table: [k, j]."""
    ways, nodes = len(tables), tables.ndim - 1
    matrix = np.zeros((ways, nodes, nodes))
    slack = 4 * errors + 64 * EPS
    for j in range(nodes):
        kernel, _ = conditional(np.moveaxis(tables, j + 1, 1), logs)
        unit = np.broadcast_to(off_diagonal(kernel.shape[1]), (ways, *kernel.shape[1:2] * 2))
        steps = _steps(kernel, unit, range(1, nodes), slack, max(tables.shape[1:]))
        matrix[:, [k for k in range(nodes) if k != j], j] = steps.max(axis=(2, 3)).T
    return matrix


def _steps(
    kernel: Floats, variation: Floats, axes: Sequence[int], slack: Floats, most: int
) -> Floats:
    """The largest step over all u for each pair of values of each of these nodes.

    Parameters
    ----------
    kernel
        By ways, the distribution of the removed node along the second axis given the others.
    variation
        V of the removed node.
    axes
        The other nodes, as axes without that of the removed one.
    slack
        Added to the steps of each way.
    most
        Matrices have room for so many values.
    """
    ways, values = kernel.shape[:2]
    if values > MOST_VALUES:
        return _by_roots(kernel, variation.max(axis=(1, 2)), axes, slack, most)
    alone = (slice(None), *(None,) * (kernel.ndim - 2))
    if values == 2:
        # The extreme likelihood ratios of value 1 against value 0.
        odds = (np.exp(variation[:, 1, 0])[alone], np.exp(-variation[:, 0, 1])[alone])
        means = np.stack([kernel[:, 0] + kernel[:, 1] * own for own in odds], axis=1)
    else:
        # Any set of values may be more likely by the largest factor. Sets come by size, so that the
        # complement of the first is the last.
        sets = [own for size in range(1, values) for own in combinations(range(values), size)]
        sums = np.stack([kernel[:, list(own)].sum(axis=1) for own in sets], axis=1)
        means = sums * np.exp(variation.max(axis=(1, 2)))[alone][:, None] + sums[:, ::-1]
    pairs = [
        (place, axis + 1, one, other)
        for place, axis in enumerate(axes)
        for one, other in combinations(range(means.shape[axis + 1]), 2)
    ]
    extremes = np.empty((2, len(pairs), ways))
    for number, (_, axis, one, other) in enumerate(pairs):
        rows = means.reshape(prod(means.shape[:axis]), means.shape[axis], -1)
        ratios = (rows[:, one] / rows[:, other]).reshape(ways, -1)
        ratios.max(axis=1, out=extremes[0, number])
        ratios.min(axis=1, out=extremes[1, number])
    upper, lower = np.log(extremes)
    steps = np.zeros((len(axes), ways, most, most))
    places, _, ones, others = np.array(pairs, dtype=np.intp).reshape(-1, 4).T
    steps[places, :, ones, others] = upper + slack
    steps[places, :, others, ones] = slack - lower
    return np.maximum(steps, 0.0, out=steps)


def _by_roots(
    kernel: Floats, largest: Floats, axes: Sequence[int], slack: Floats, most: int
) -> Floats:
    """The same for many values of the removed node, one variation for all pairs of them.

    The largest ratio r of any set of values is the root of r = 1 + c sum of max(0, p - r q), with
    c = e^largest - 1; the sum falls with r, so what the right side is above r bounds the distance.
    The root is approached by the ratios of the sets that attain the sum (Dinkelbach's method).
    """
    ways, values = kernel.shape[:2]
    growth = np.expm1(largest)
    steps = np.zeros((len(axes), ways, most, most))
    for place, axis in enumerate(axes):
        rows = np.moveaxis(kernel, axis + 1, 0)
        rows = rows.reshape(len(rows), ways, values, -1)
        for one, other in permutations(range(len(rows)), 2):
            p, q, ratio = rows[one], rows[other], np.ones(ways)
            for _ in range(_MOST_ROUNDS):
                more = p > ratio[:, None, None] * q
                above = 1 + growth[:, None] * p.sum(axis=1, where=more)
                below = 1 + growth[:, None] * q.sum(axis=1, where=more)
                excess = np.maximum((above - ratio[:, None] * below).max(axis=1), 0.0)
                following = np.maximum(ratio, (above / below).max(axis=1))
                if not (following > ratio * (1 + EPS)).any():
                    break
                ratio = following
            rounding = (values + 8) * EPS * (1 + growth) * (1 + ratio)
            steps[place, :, one, other] = np.log(ratio + excess + rounding) + slack
    return steps


def conditional(tables: Floats, logs: bool) -> tuple[Floats, Floats]:
    """The distribution along the second axis given all others, and the tables without it.

    Given impossible values of the others, the mean over the nearest possible ones.
    """
    if not logs:
        whole: Floats = tables.sum(axis=1)
        return tables / whole[:, None], whole
    whole = log_sum(tables, [1])
    known = whole > -np.inf
    kernel: Floats = np.exp(tables - np.where(known, whole, 0.0)[:, None])
    while not known.all():
        sums, counts = np.zeros_like(kernel), np.zeros(known.shape)
        for along in range(1, known.ndim):
            sums += kernel.sum(axis=along + 1, keepdims=True)
            counts += known.sum(axis=along, keepdims=True)
        fresh = ~known & (counts > 0)
        filled = np.moveaxis(sums, 1, -1)[fresh] / counts[fresh][:, None]
        np.moveaxis(kernel, 1, -1)[fresh] = filled
        known |= fresh
    return kernel, whole
