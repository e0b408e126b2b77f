"""Exact answers to a query: their distribution given a secret, and what has one.

An *answer model* is one distribution of the data together with a query. It lists the secrets (each
value that each entry can take) and draws exact answers given a secret.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import lcm
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pufferkit.checks import Floats
from pufferkit.data.query import Query
from pufferkit.fitting.sequences import Codes

Answer = tuple[Fraction, ...]


@dataclass(frozen=True, eq=False)
class Answers:
    """Exact answers: the distinct ones, and which of them each draw (or data set) has."""

    distinct: tuple[Answer, ...]
    which: Codes

    @cached_property
    def points(self) -> Floats:
        """The distinct answers as floats, one row each."""
        return np.array([[v.numerator / v.denominator for v in answer] for answer in self.distinct])


@dataclass(frozen=True, eq=False)
class AnswerDistribution:
    """A distribution of exact answers: points, one row each, and their probabilities."""

    points: Floats
    weights: Floats


class AnswerModel(Protocol):
    """One distribution of the data, and a query."""

    @property
    def entries(self) -> tuple[Hashable, ...]:
        """What the entries are called: numbers from 1, or names."""
        ...

    def values(self, entry: int) -> list[tuple[int, Hashable]]:
        """Codes and labels of the values that an entry (counted from 0) can take."""
        ...

    def distribution(self, entry: int, code: int) -> AnswerDistribution | None:
        """AnswerDistribution of the answer given a secret; ``None`` if it is not known exactly."""
        ...

    def draw(self, entry: int, code: int, trials: int, rng: np.random.Generator) -> Answers:
        """Exact answers on data drawn given a secret."""
        ...


def answers_of(codes: NDArray[np.uint16], states: tuple[Hashable, ...], query: Query) -> Answers:
    """The answer on each row of codes."""
    if query.weights is None:
        rows, which = np.unique(codes, axis=0, return_inverse=True)
        merged = distinct_answers([answer(query, [states[code] for code in row]) for row in rows])
        return Answers(merged.distinct, merged.which[which.ravel()])
    counts = np.stack([(codes == x).sum(axis=1) for x in range(len(states))], axis=1)
    return by_counts(counts, states, query)


def by_counts(counts: NDArray[np.int64], states: tuple[Hashable, ...], query: Query) -> Answers:
    """The answers to a sum, from how often each state occurs."""
    zero = (Fraction(0),) * query.size
    weights = [(query.weights or {}).get(state, zero) for state in states]
    unit = lcm(*(w.denominator for row in weights for w in row))
    # Whole multiples of 1 / unit; as Python's own integers where 64 bits could overflow.
    steps = [[int(w * unit) for w in row] for row in weights]
    most = max(abs(step) for row in steps for step in row) * int(counts.sum(axis=1).max())
    whole = (
        counts @ np.array(steps)
        if most < 2**62
        else counts.astype(object) @ np.array(steps, object)
    )
    if whole.dtype == object or query.size > 8:
        return distinct_answers([tuple(Fraction(int(v), unit) for v in row) for row in whole])
    rows, which = np.unique(whole, axis=0, return_inverse=True)
    made = {number: Fraction(number, unit) for number in np.unique(rows).tolist()}
    distinct = tuple(tuple(made[number] for number in row) for row in rows.tolist())
    return Answers(distinct, which.ravel())


def distinct_answers(answers: list[Answer]) -> Answers:
    """Each answer once, and which of them each one is."""
    index: dict[Answer, int] = {}
    which = np.fromiter(
        (index.setdefault(own, len(index)) for own in answers), dtype=np.intp, count=len(answers)
    )
    return Answers(tuple(index), which)


def answer(query: Query, row: Any) -> Answer:
    """The exact answer on one data set, given as labels."""
    if query.weights is not None:
        zero = (Fraction(0),) * query.size
        parts = [query.weights.get(label, zero) for label in row]
        return tuple(sum((part[j] for part in parts), Fraction(0)) for j in range(query.size))
    values = np.atleast_1d(np.asarray(query.evaluate(np.array(list(row))), dtype=float)).ravel()
    if len(values) != query.size:
        raise ValueError(
            f"evaluate: gave {len(values)} numbers but the query has {query.size} labels"
        )
    return tuple(Fraction(float(value)) for value in values)
