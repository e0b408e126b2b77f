"""One distribution of the data and a query: what an auditor draws answers from.

An *answer model* is one distribution of the data together with a query. It lists the secrets (each
value that each entry can take) and draws exact answers given a secret. `ListedModel` lists every
data set, so that distributions of answers are exact; `SampledModel` draws paths of a chain of any
length.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from math import lcm
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pufferkit.audit.attackers import marginals
from pufferkit.audit.conditioned_chain import Conditioned, conditioned, split
from pufferkit.audit.named_pairs import NamedPairs
from pufferkit.beliefs.base import Distribution
from pufferkit.beliefs.bayesian_network import BayesianNetwork
from pufferkit.beliefs.finite_joint import FiniteJoint
from pufferkit.beliefs.hidden_chain import HiddenChain
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.beliefs.secrets import Events, Pairs, Secrets, Sets
from pufferkit.beliefs.sequences import Codes
from pufferkit.checks import Floats
from pufferkit.data.queries import Query
from pufferkit.errors import NotApplicable
from pufferkit.mechanisms.chain_distances import whole_values

Answer = tuple[Fraction, ...]

MOST_ROWS = 2_000_000
"""Most data sets that are listed one by one."""

MOST_EVALUATED = 100_000
"""Most data sets on which a query that is not a sum is evaluated."""

_MOST_SEGMENTS = 20
_MOST_PRODUCTS = 10**9
_MOST_COUNTS = 4_000
_MOST_CELLS = 10_000_000
_MOST_SETS = 500


@dataclass(frozen=True, eq=False)
class Answers:
    """Exact answers: the distinct ones, and which of them each draw (or data set) has."""

    distinct: tuple[Answer, ...]
    which: Codes

    @cached_property
    def points(self) -> Floats:
        """The distinct answers as floats, one row each."""
        return np.array([[float(v) for v in answer] for answer in self.distinct])


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


def answer_model(
    distribution: MarkovChain | HiddenChain | FiniteJoint | BayesianNetwork,
    query: Query,
    listed: bool | None = None,
) -> AnswerModel:
    """Answers of one distribution: listed data set by data set if few (or asked), else drawn."""
    if isinstance(distribution, HiddenChain):
        return ShownModel(distribution, query, listed)
    if isinstance(distribution, FiniteJoint):
        return joint_table(distribution, query)
    if isinstance(distribution, BayesianNetwork):
        return network_table(distribution, query)
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
    match own.distribution:
        case FiniteJoint():
            table = joint_table(own.distribution, query)
        case BayesianNetwork():
            table = network_table(own.distribution, query)
        case MarkovChain():
            table = chain_table(own.distribution, query)
        case _:
            raise NotApplicable(f"audits of pairs of events are not for {own.name}")
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
class ListedModel:
    """Every data set with its probability and its answer."""

    entries: tuple[Hashable, ...]
    labels: tuple[tuple[Hashable, ...], ...]
    codes: NDArray[np.uint16]
    probability: Floats
    answers: Answers

    def values(self, entry: int) -> list[tuple[int, Hashable]]:
        labels = self.labels[entry]
        mass = np.bincount(self.codes[:, entry], self.probability, minlength=len(labels))
        return [(code, label) for code, label in enumerate(labels) if mass[code] > 0]

    def mass(self, entry: int, code: int) -> float:
        """Probability of a secret."""
        return float(self.probability[self.codes[:, entry] == code].sum())

    def distribution(self, entry: int, code: int) -> AnswerDistribution:
        rows = self.codes[:, entry] == code
        mass = np.bincount(
            self.answers.which[rows], self.probability[rows], len(self.answers.distinct)
        )
        return AnswerDistribution(self.answers.points, mass / mass.sum())

    def draw(self, entry: int, code: int, trials: int, rng: np.random.Generator) -> Answers:
        distribution = self.distribution(entry, code)
        return Answers(
            self.answers.distinct,
            rng.choice(len(distribution.weights), size=trials, p=distribution.weights),
        )


def chain_table(chain: MarkovChain, query: Query) -> ListedModel:
    """Every path of a chain over the segments of a query."""
    length, size = sum(query.lengths), len(chain)
    most = MOST_ROWS if query.weights is not None else MOST_EVALUATED
    if length * np.log(size) > np.log(most) + 1e-9:
        raise NotApplicable(
            f"{size} states and {length} entries make {size}^{length} data sets, more than "
            f"{most:,}; shorten the series or merge states"
        )
    grid = np.indices((size,) * length, dtype=np.uint16).reshape(length, -1)
    probability = np.ones(grid.shape[1])
    for begin, end in split(query.lengths):
        probability *= chain.initial[grid[begin]]
        for t in range(begin + 1, end):
            probability *= chain.transition[grid[t - 1], grid[t]]
    possible = probability > 0
    codes = grid[:, possible].T
    return ListedModel(
        tuple(range(1, length + 1)),
        (chain.states,) * length,
        codes,
        probability[possible],
        answers_of(codes, chain.states, query),
    )


def joint_table(joint: FiniteJoint, query: Query) -> ListedModel:
    """Every row of a joint distribution."""
    rows = [(row, float(p)) for row, p in joint.table.items() if p > 0]
    labels = tuple(joint.values(name) for name in joint.names)
    codes = np.array(
        [[labels[j].index(value) for j, value in enumerate(row)] for row, _ in rows],
        dtype=np.uint16,
    )
    return ListedModel(
        joint.names,
        labels,
        codes,
        np.array([p for _, p in rows]),
        _distinct([answer(query, row) for row, _ in rows]),
    )


def network_table(network: BayesianNetwork, query: Query) -> ListedModel:
    """Every assignment of values to the nodes of a network."""
    sizes = tuple(len(network.values[node]) for node in network.nodes)
    most = MOST_ROWS if query.weights is not None else MOST_EVALUATED
    if np.sum(np.log(sizes)) > np.log(most) + 1e-9:
        raise NotApplicable(
            f"{len(sizes)} nodes make {np.prod(np.array(sizes, dtype=float)):.2g} data sets, more "
            f"than {most:,}; audit a part of the network"
        )
    joint = network.table(network.nodes)
    possible = joint.possible.ravel()
    states = tuple(dict.fromkeys(v for node in network.nodes for v in network.values[node]))
    place = {state: code for code, state in enumerate(states)}
    grid = np.indices(sizes, dtype=np.uint16).reshape(len(sizes), -1)[:, possible]
    codes = np.empty(grid.shape[::-1], dtype=np.uint16)
    for j, node in enumerate(network.nodes):
        codes[:, j] = np.array([place[v] for v in network.values[node]], dtype=np.uint16)[grid[j]]
    return ListedModel(
        network.nodes,
        (states,) * len(sizes),
        codes,
        joint.values.ravel()[possible],
        answers_of(codes, states, query),
    )


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
        return _distinct(answers)

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
        answers = _distinct([own.distinct[n] for own in drawn for n in own.which])
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


def answers_of(codes: NDArray[np.uint16], states: tuple[Hashable, ...], query: Query) -> Answers:
    """The answer on each row of codes."""
    if query.weights is None:
        rows, which = np.unique(codes, axis=0, return_inverse=True)
        merged = _distinct([answer(query, [states[code] for code in row]) for row in rows])
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
        return _distinct([tuple(Fraction(int(v), unit) for v in row) for row in whole])
    rows, which = np.unique(whole, axis=0, return_inverse=True)
    distinct = tuple(tuple(Fraction(v, unit) for v in row) for row in rows.tolist())
    return Answers(distinct, which.ravel())


def _distinct(answers: list[Answer]) -> Answers:
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
