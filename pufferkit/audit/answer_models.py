"""One distribution of the data and a query: what an auditor draws answers from.

`ListedModel` lists every data set, so that distributions of answers are exact; `SampledModel` draws
paths of a chain of any length, and `ShownModel` those of a hidden chain.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pufferkit.audit.answer_distributions import (
    Answer,
    AnswerDistribution,
    AnswerModel,
    Answers,
    answers_of,
    by_counts,
    distinct_answers,
)
from pufferkit.audit.attackers import marginals
from pufferkit.audit.conditioned_chain import Conditioned, conditioned, split
from pufferkit.audit.listed_model import ListedModel, chain_table, listed_model
from pufferkit.audit.named_pairs import NamedPairs
from pufferkit.beliefs.base import Distribution
from pufferkit.beliefs.bayesian_network import BayesianNetwork
from pufferkit.beliefs.finite_joint import FiniteJoint
from pufferkit.beliefs.hidden_model import HiddenChain
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.beliefs.secrets import Events, Pairs, Secrets, Sets
from pufferkit.checks import Floats
from pufferkit.data.query import Query
from pufferkit.errors import NotApplicable
from pufferkit.mechanisms.sum_distances import whole_values

_MOST_SEGMENTS = 20
_MOST_PRODUCTS = 10**9
_MOST_COUNTS = 4_000
_MOST_CELLS = 10_000_000
_MOST_SETS = 500


def answer_model(
    distribution: MarkovChain | HiddenChain | FiniteJoint | BayesianNetwork,
    query: Query,
    listed: bool | None = None,
) -> AnswerModel:
    """Answers of one distribution: listed data set by data set if few (or asked), else drawn."""
    if isinstance(distribution, HiddenChain):
        return ShownModel(distribution, query, listed)
    if not isinstance(distribution, MarkovChain):
        return listed_model(distribution, query)
    if query.missing:
        raise NotApplicable(
            f"{query.missing} of {sum(query.lengths)} entries were not observed, and attacks are "
            "on whole series; audit the query over lengths instead, which asks as much noise or "
            "more, and check this release with verify"
        )
    rows = len(distribution) ** sum(query.lengths)
    small = rows <= (20_000 if query.weights is None else 100_000)
    if listed or (listed is None and small):
        return chain_table(distribution, query)
    return SampledModel(distribution, query)


def model_of(own: Distribution, query: Query) -> AnswerModel:
    """Answers of one distribution of a class, with its secrets."""
    if isinstance(own, NamedPairs):
        return _of_pairs(own, query)
    if own.hidden is None:
        return answer_model(own.distribution, query)
    if not isinstance(own.distribution, MarkovChain) or isinstance(own.hidden, Pairs):
        raise NotApplicable(
            f"audits of events are for Markov chains and events about windows, not for {own.name}; "
            "check the release with verify"
        )
    table = chain_table(own.distribution, query)
    labels: list[tuple[Hashable, ...]] = []
    columns: list[NDArray[np.uint16]] = []
    names: list[Hashable] = []
    for begin, end in split(query.lengths):
        width = min(own.hidden.window, end - begin)
        if width < own.hidden.window and isinstance(own.hidden, Events):
            continue
        for places in _places(own.hidden, begin, end, width):
            which, codes = _secrets_of(own, table.codes[:, places])
            labels.append(which)
            columns.append(codes)
            names.append(_name([place + 1 for place in places], isinstance(own.hidden, Sets)))
    if not names:
        raise NotApplicable("no segment is as long as the window, so there is nothing to hide")
    return ListedModel(
        tuple(names), tuple(labels), np.stack(columns, axis=1), table.probability, table.answers
    )


def _of_pairs(own: NamedPairs, query: Query) -> ListedModel:
    """Pairs of events in place of entries. Data may be in both, so they are listed twice."""
    if not isinstance(own.distribution, (FiniteJoint, BayesianNetwork, MarkovChain)):
        raise NotApplicable(f"audits of pairs of events are not for {own.name}")
    table = listed_model(own.distribution, query)
    neither = 2
    columns = [
        np.concatenate([np.where(first, 0, neither), np.where(second, 1, neither)])
        for first, second in own.rows(table.codes, table.labels)
    ]
    return ListedModel(
        tuple(f"secret pair {n}" for n in range(1, len(columns) + 1)),
        (("the first event", "the second event"),) * len(columns),
        np.stack(columns, axis=1).astype(np.uint16),
        np.tile(table.probability, 2),
        Answers(table.answers.distinct, np.tile(table.answers.which, 2)),
    )


def _places(hidden: Secrets, begin: int, end: int, width: int) -> list[tuple[int, ...]]:
    """The entries that a secret of one segment is about, for each secret; of many sets some."""
    if isinstance(hidden, Sets):
        sets = list(combinations(range(begin, end), width))
        return sets[:: 1 + len(sets) // _MOST_SETS]
    return [tuple(range(first, first + width)) for first in range(begin, end - width + 1)]


def _name(entries: list[int], apart: bool) -> Hashable:
    if len(entries) == 1:
        return entries[0]
    return ", ".join(map(str, entries)) if apart else f"{entries[0]} to {entries[-1]}"


def _secrets_of(
    own: Distribution, window: NDArray[np.uint16]
) -> tuple[tuple[Hashable, ...], NDArray[np.uint16]]:
    """The secrets of a window: their labels, and the code of each row's."""
    assert isinstance(own.distribution, MarkovChain)
    states = own.distribution.states
    if isinstance(own.hidden, Events):
        automaton = own.hidden.automaton(states)
        at = np.zeros(len(window), dtype=np.int64)
        for moves, values in zip(automaton.moves, window.T, strict=True):
            at = moves[at, values]
        return automaton.labels, np.array(automaton.ends, dtype=np.uint16)[at]
    rows, codes = np.unique(window, axis=0, return_inverse=True)
    labels = tuple(", ".join(str(states[x]) for x in row) for row in rows)
    return labels, codes.reshape(-1).astype(np.uint16)


@dataclass(frozen=True, eq=False)
class SampledModel:
    """A chain, from which paths are drawn; sums have exact distributions while affordable."""

    chain: MarkovChain
    query: Query

    @property
    def entries(self) -> tuple[Hashable, ...]:
        return tuple(range(1, sum(self.query.lengths) + 1))

    def values(self, entry: int) -> list[tuple[int, Hashable]]:
        place = next(entry - begin for begin, end in split(self.query.lengths) if entry < end)
        distribution = marginals(self.chain, place + 1)[place]
        return [
            (code, label) for code, label in enumerate(self.chain.states) if distribution[code] > 0
        ]

    def distribution(self, entry: int, code: int) -> AnswerDistribution | None:
        line = self._line
        if line is None:
            return self._distribution_of_counts(entry, code)
        if len(self.query.lengths) > _MOST_SEGMENTS:
            return None
        start, step, places = line
        length = sum(self.query.lengths)
        if length**2 * int(places.max()) * len(self.chain) ** 2 > _MOST_PRODUCTS:
            return None
        distribution = np.ones(1)
        for part in self._parts(entry, code):
            distribution = np.convolve(distribution, part.distribution_of_sum(places))
        kept = np.flatnonzero(distribution > 0)
        return AnswerDistribution(
            length * start + kept[:, None] * step, distribution[kept] / distribution[kept].sum()
        )

    def _distribution_of_counts(self, entry: int, code: int) -> AnswerDistribution | None:
        """For vectors: the distribution of how often each state occurs, while it has few points."""
        size, (length, *more) = len(self.chain), self.query.lengths
        if self.query.weights is None or more or (length + 1.0) ** (size - 1) > _MOST_COUNTS:
            return None
        (part,) = self._parts(entry, code)
        distribution = part.distribution_of_counts()
        places = np.argwhere(distribution > 0)
        counts = np.hstack([length - places.sum(axis=1, keepdims=True), places])
        answers = by_counts(counts, self.chain.states, self.query)
        weights = np.bincount(answers.which, distribution[distribution > 0], len(answers.distinct))
        return AnswerDistribution(answers.points, weights / weights.sum())

    @cached_property
    def _line(self) -> tuple[Floats, Floats, NDArray[np.int64]] | None:
        """Where each state stands on a line of contributions: start + whole number * step."""
        if self.query.weights is None:
            return None
        zero = (Fraction(0),) * self.query.size
        rows = [self.query.weights.get(state, zero) for state in self.chain.states]
        if self.query.size == 1:
            whole, unit = whole_values([row[0] for row in rows])
            return np.array([float(min(rows)[0])]), np.array([float(unit)]), np.array(whole)
        if len(set(rows)) != 2:
            return None
        low, high = sorted(set(rows))
        step = np.array([float(h - n) for n, h in zip(low, high, strict=True)])
        return np.array([float(v) for v in low]), step, np.array([int(r == high) for r in rows])

    def draw(self, entry: int, code: int, trials: int, rng: np.random.Generator) -> Answers:
        if self.query.weights is not None:
            counts = sum(
                (part.sample_counts(trials, rng) for part in self._parts(entry, code)),
                np.zeros((trials, len(self.chain)), dtype=np.int64),
            )
            return by_counts(counts, self.chain.states, self.query)
        answers: list[Answer] = []
        block = max(1, _MOST_CELLS // sum(self.query.lengths))
        for begin in range(0, trials, block):
            count = min(block, trials - begin)
            paths = [part.sample(count, rng) for part in self._parts(entry, code)]
            part = answers_of(np.hstack(paths), self.chain.states, self.query)
            answers += [part.distinct[n] for n in part.which]
        return distinct_answers(answers)

    def _parts(self, entry: int, code: int) -> Iterator[Conditioned]:
        for begin, end in split(self.query.lengths):
            known = {entry - begin: code} if begin <= entry < end else {}
            yield conditioned(self.chain, end - begin, known)


class ShownModel:
    """Entries that a hidden chain shows: the answers of the chain, secrets put together.

    Given that an entry shows x, its hidden state is w with probability P(W = w) over that of all
    hidden states that show x; the rest is the chain given w.
    """

    def __init__(self, shown: HiddenChain, query: Query, listed: bool | None) -> None:
        self.shown, self.query = shown, query
        self._chain = answer_model(shown.chain, _about_hidden(shown, query), listed)

    @property
    def entries(self) -> tuple[Hashable, ...]:
        return self._chain.entries

    def values(self, entry: int) -> list[tuple[int, Hashable]]:
        possible = {self.shown.shown[code] for code, _ in self._chain.values(entry)}
        return [(x, state) for x, state in enumerate(self.shown.states) if x in possible]

    def _behind(self, entry: int, code: int) -> tuple[list[int], Floats]:
        """The hidden states that show a value, and their probabilities."""
        place = next(entry - begin for begin, end in split(self.query.lengths) if entry < end)
        mass = marginals(self.shown.chain, place + 1)[place]
        behind = [w for w, x in enumerate(self.shown.shown) if x == code and mass[w] > 0]
        return behind, mass[behind] / mass[behind].sum()

    def distribution(self, entry: int, code: int) -> AnswerDistribution | None:
        behind, mass = self._behind(entry, code)
        parts = [self._chain.distribution(entry, w) for w in behind]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return None
        points, which = np.unique(
            np.vstack([part.points for part in known]), axis=0, return_inverse=True
        )
        weights = np.concatenate([p * part.weights for p, part in zip(mass, known, strict=True)])
        together: Floats = np.zeros(len(points))
        np.add.at(together, which.ravel(), weights)
        return AnswerDistribution(points, together)

    def draw(self, entry: int, code: int, trials: int, rng: np.random.Generator) -> Answers:
        behind, mass = self._behind(entry, code)
        drawn = [
            self._chain.draw(entry, w, int(count), rng)
            for w, count in zip(behind, rng.multinomial(trials, mass), strict=True)
            if count
        ]
        answers = distinct_answers([own.distinct[n] for own in drawn for n in own.which])
        order = rng.permutation(trials)
        return Answers(answers.distinct, answers.which[order])


def _about_hidden(shown: HiddenChain, query: Query) -> Query:
    """The same question, asked of the hidden states."""
    value = {w: shown.states[x] for w, x in zip(shown.chain.states, shown.shown, strict=True)}
    weights = query.weights
    if weights is not None:
        weights = {w: weights[x] for w, x in value.items() if x in weights}

    def evaluate(entries: NDArray[Any]) -> Any:
        seen = np.empty(len(entries), dtype=object)
        seen[:] = [value[w] for w in entries]
        return query.evaluate(seen)

    return Query(
        query.name,
        evaluate,
        query.lipschitz,
        query.lengths,
        labels=query.labels,
        states=value,
        total=query.total,
        weights=weights,
        observed=query.observed,
    )
