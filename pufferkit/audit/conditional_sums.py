"""Distributions of sums over a chain given a secret, entry by entry; no data set is listed.

A table holds, for each state of the entry reached and each value of the sums so far, its
probability; an entry moves the state and shifts the sums. Sums are counted either as how often each
state but the first occurs, from which every answer follows, or as whole multiples of a unit in one
or two coordinates of the answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import prod

import numpy as np
from numpy.typing import NDArray

from pufferkit.audit.answer_distributions import AnswerDistribution, by_counts
from pufferkit.audit.conditioned_chain import Conditioned, conditioned, split
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.checks import Floats
from pufferkit.data.query import Query
from pufferkit.mechanisms.sum_distances import whole_values

MOST_CELLS = 20_000
"""Most values of the sums in a table."""

MOST_STEPS = 3.2e6
"""Most products for one distribution."""


def distribution_of_sums(parts: Sequence[Conditioned], values: NDArray[np.int64]) -> Floats:
    """Distribution of sums over the entries of all parts, an axis for each column of ``values``.

    Row x of ``values`` is what state x adds, in whole numbers from 0 up.
    """
    size, axes = values.shape
    total = np.ones((1,) * axes)
    room = values.max(axis=0)
    for part in parts:
        table = part.initial.reshape(-1, *(1,) * axes) * total
        for t in range(part.length):
            if t:
                table = np.tensordot(part.matrices[part.which[t - 1]].T, table, axes=1)
            grown = np.zeros((size, *(n + r for n, r in zip(table.shape[1:], room, strict=True))))
            for x in range(size):
                place = tuple(
                    slice(v, v + n) for v, n in zip(values[x], table.shape[1:], strict=True)
                )
                grown[x][place] = table[x]
            table = grown
        total = table.sum(axis=0)
    return total


def distribution_of_answers(
    chain: MarkovChain, query: Query, entry: int, code: int, columns: Sequence[int]
) -> AnswerDistribution | None:
    """Some coordinates of the answer given a secret; ``None`` if the table would be too large.

    ``entry`` counts from 0 over all segments. The secret must be possible.
    """
    if query.weights is None:
        return None
    length, size = sum(query.lengths), len(chain)
    zero = (Fraction(0),) * query.size
    rows = [query.weights.get(state, zero) for state in chain.states]
    scaled = [whole_values(row[column] for row in rows) for column in columns]
    by_value = prod(length * max(steps) + 1 for steps, _ in scaled)
    by_count = (length + 1) ** (size - 1)
    if not _affordable(min(by_value, by_count), length, size):
        return None
    parts = list(_parts(chain, query, entry, code))
    if by_count <= by_value:
        distribution = distribution_of_sums(parts, np.eye(size, dtype=np.int64)[:, 1:])
        places = np.argwhere(distribution > 0)
        counts = np.hstack([length - places.sum(axis=1, keepdims=True), places])
        answers = by_counts(counts, chain.states, query)
        weights = np.bincount(answers.which, distribution[distribution > 0], len(answers.distinct))
        return AnswerDistribution(answers.points[:, list(columns)], weights / weights.sum())
    distribution = distribution_of_sums(
        parts, np.array([steps for steps, _ in scaled], dtype=np.int64).T
    )
    least = [length * float(min(row[column] for row in rows)) for column in columns]
    points = np.array(least) + np.argwhere(distribution > 0) * np.array(
        [float(unit) for _, unit in scaled]
    )
    return AnswerDistribution(points, distribution[distribution > 0] / distribution.sum())


def _affordable(cells: int, length: int, size: int) -> bool:
    return cells <= MOST_CELLS and float(cells) * size * size * length <= MOST_STEPS


def _parts(chain: MarkovChain, query: Query, entry: int, code: int) -> Iterator[Conditioned]:
    for begin, end in split(query.lengths):
        known = {entry - begin: code} if begin <= entry < end else {}
        yield conditioned(chain, end - begin, known)
