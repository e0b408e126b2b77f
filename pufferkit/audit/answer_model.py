"""P(output | secret): answers to a query, and outputs with noise, given the value of an entry.

An *answer model* is one distribution of the data together with a query. It lists the secrets (each
value that each entry can take), knows the distribution of the exact answer given a secret where
that is affordable, and draws answers given it.

`ListedModel` has every data set with its probability. `SampledModel` is a chain of any length:
given X_i = a, X_1 ... X_T is again a Markov chain, with a matrix of its own at each step,

    P_t(x, y) proportional to P(x, y) h_{t+1}(y),

where h_t(x) is the probability of what is known at t and later, given X_t = x. Paths of it are data
given the secret, and a table over its states and the sums so far gives the distribution of a sum,
entry by entry. `ShownModel` is a hidden chain. `NamedPairs` are secrets that a release was given,
pairs of events: nothing else was promised, so nothing else is attacked.

With Laplace noise an output has a mixture of densities around the answers, `log_density`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations, pairwise
from math import lcm, log, prod
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pufferkit.audit.attackers import marginals, walk_counts
from pufferkit.beliefs.base import Beliefs, Distribution
from pufferkit.beliefs.bayesian_network import BayesianNetwork
from pufferkit.beliefs.finite_joint import FiniteJoint
from pufferkit.beliefs.hidden_model import HiddenChain
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.beliefs.secrets import Events, Pairs, Secrets, Sets
from pufferkit.checks import Bools, Floats
from pufferkit.data.query import Query
from pufferkit.errors import NotApplicable
from pufferkit.fitting.people import Codes
from pufferkit.mechanisms.calibration import Calibration
from pufferkit.mechanisms.release import Guarantee
from pufferkit.mechanisms.wasserstein import whole_values

Answer = tuple[Fraction, ...]

MOST_CELLS = 20_000
"""Most values of several sums in a table."""

MOST_STEPS = 3.2e6
"""Most products for one distribution."""

MOST_ROWS = 2_000_000
"""Most data sets that are listed one by one."""

MOST_EVALUATED = 100_000
"""Most data sets on which a query that is not a sum is evaluated."""

_MOST_ANSWERS = 4_000  # so many are compared with every output of an attack
_MOST_STEPS = 1e9
_MOST_CELLS = 10_000_000
_MOST_SETS = 500
_CELLS = 400_000
_BLOCK = 4_000_000


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


@dataclass(frozen=True, eq=False)
class Conditioned:
    """A chain with a matrix for each step: ``matrices[which[t]]`` moves X_{t+1} to X_{t+2}."""

    initial: Floats
    matrices: Floats
    which: Codes

    @property
    def length(self) -> int:
        """Number of entries."""
        return len(self.which) + 1

    def beside(self, start: Floats, moves: Floats) -> Conditioned:
        """The chain of pairs with an independent chain, which starts and moves like this."""
        pairs = np.array([np.kron(matrix, moves) for matrix in self.matrices])
        initial = np.kron(self.initial, start).astype(np.float64)
        return Conditioned(initial, pairs, self.which)

    def sample(self, trials: int, rng: np.random.Generator) -> NDArray[np.uint16]:
        """Independent paths, one row each, as codes."""
        paths = np.empty((trials, self.length), dtype=np.uint16)
        start, moves = cumulative_rows(self.initial[None, :])[0], cumulative_rows(self.matrices)
        state: Codes = (rng.random(trials)[:, None] >= start).sum(axis=1)
        paths[:, 0] = state
        for t, own in enumerate(self.which):
            state = (rng.random(trials)[:, None] >= moves[own][state]).sum(axis=1)
            paths[:, t + 1] = state
        return paths

    def sample_counts(self, trials: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """How often each of many independent paths visits each state; the paths are not kept."""
        counts = np.zeros((trials, len(self.initial)), dtype=np.int64)
        state = np.zeros(trials, dtype=np.intp)
        start, moves = cumulative_rows(self.initial[None, :])[0], cumulative_rows(self.matrices)
        steps = np.concatenate([[0], self.which]).astype(np.intp)
        block = max(1, _BLOCK // trials)
        for begin in range(0, self.length, block):
            part = steps[begin : begin + block]
            draws = rng.random((len(part), trials))
            walk_counts(start, moves, part, draws, state, counts, begin == 0)
        return counts


def conditioned(chain: MarkovChain, length: int, known: Mapping[int, int]) -> Conditioned:
    """The chain over ``length`` entries given some of them: {place counted from 0: code}.

    Raises
    ------
    ValueError
        If what is known has probability zero.
    """
    size = len(chain)
    if any(not 0 <= t < length or not 0 <= x < size for t, x in known.items()):
        raise ValueError(f"known: places 0 to {length - 1} and codes 0 to {size - 1}, got {known}")
    last = max(known, default=-1)
    ahead = np.ones(size)
    steps = np.full(length - 1, 0, dtype=np.intp)
    matrices = [chain.transition]
    for t in range(last, -1, -1):
        seen = _only(ahead, known.get(t))
        if t == 0:
            ahead = seen
            break
        weights = chain.transition * seen
        total = weights.sum(axis=1)
        steps[t - 1] = len(matrices)
        # Rows that cannot lead to what is known are never entered; any distribution will do.
        safe = np.where(total[:, None] > 0, weights, chain.transition)
        matrices.append(safe / safe.sum(axis=1, keepdims=True))
        ahead = total / total.max() if total.max() > 0 else total
    start = chain.initial * ahead
    if start.sum() <= 0:
        listed = ", ".join(f"X_{t + 1} = {chain.states[x]!r}" for t, x in sorted(known.items()))
        raise ValueError(f"known: {listed} cannot happen in this chain")
    return Conditioned(start / start.sum(), np.array(matrices), steps)


def cumulative_rows(rows: Floats) -> Floats:
    """Running sums of distributions along the last axis, 1 from the last possible state on."""
    sums: Floats = np.cumsum(rows, axis=-1)
    possible = rows > 0
    last = rows.shape[-1] - 1 - possible[..., ::-1].argmax(axis=-1)
    sums[np.arange(rows.shape[-1]) >= last[..., None]] = 1.0
    return sums


def split(lengths: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """First place and end of each segment."""
    ends = np.concatenate([[0], np.cumsum(lengths)])
    yield from ((int(a), int(b)) for a, b in pairwise(ends))


def _only(values: Floats, code: int | None) -> Floats:
    if code is None:
        return values
    kept = np.zeros_like(values)
    kept[code] = values[code]
    return kept


def check_steps(chain: MarkovChain, length: int) -> None:
    """Refuse chains of which a possible path could have probability 0 as a float."""
    tables = (chain.initial, chain.transition)
    if length * min(log(float(table[table > 0].min())) for table in tables) < log(1e-290):
        raise NotApplicable("some probabilities are too small to multiply exactly; merge states")


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
    chain: MarkovChain,
    query: Query,
    entry: int,
    code: int,
    columns: Sequence[int],
    cells: int = MOST_CELLS,
    steps: float = MOST_STEPS,
) -> AnswerDistribution | None:
    """Some coordinates of the answer given a secret; ``None`` if the table would be too large.

    ``entry`` counts from 0 over all segments. The secret must be possible. Sums are counted either
    as how often states with the same contribution occur, from which every answer follows, or as
    whole multiples of a unit in each of the coordinates, whichever table is smaller; a table of
    several axes may have ``cells``, and take so many ``steps``.
    """
    if query.weights is None:
        return None
    length, size = sum(query.lengths), len(chain)
    zero = (Fraction(0),) * query.size
    rows = [query.weights.get(state, zero) for state in chain.states]
    kinds = sorted(set(rows))
    scaled = [whole_values(row[column] for row in rows) for column in columns]
    by_value = prod(length * max(whole) + 1 for whole, _ in scaled)
    by_kind = (length + 1) ** (len(kinds) - 1)
    counted = len(kinds) > 1 and by_kind <= by_value
    table = by_kind if counted else by_value
    axes = len(kinds) - 1 if counted else len(columns)
    if (axes > 1 and table > cells) or float(table) * size * size * length > steps:
        return None
    parts = list(_parts(chain, query, entry, code))
    if counted:
        kind = [kinds.index(row) for row in rows]
        distribution = distribution_of_sums(parts, np.eye(len(kinds), dtype=np.int64)[kind, 1:])
        places = np.argwhere(distribution > 0)
        counts = np.hstack([length - places.sum(axis=1, keepdims=True), places])
        named = tuple(chain.states[kind.index(n)] for n in range(len(kinds)))
        answers = by_counts(counts, named, query)
        weights = np.bincount(answers.which, distribution[distribution > 0], len(answers.distinct))
        return AnswerDistribution(answers.points[:, list(columns)], weights / weights.sum())
    distribution = distribution_of_sums(
        parts, np.array([whole for whole, _ in scaled], dtype=np.int64).T
    )
    least = [length * float(min(row[column] for row in rows)) for column in columns]
    points = np.array(least) + np.argwhere(distribution > 0) * np.array(
        [float(unit) for _, unit in scaled]
    )
    return AnswerDistribution(points, distribution[distribution > 0] / distribution.sum())


def _parts(chain: MarkovChain, query: Query, entry: int, code: int) -> Iterator[Conditioned]:
    for begin, end in split(query.lengths):
        known = {entry - begin: code} if begin <= entry < end else {}
        yield conditioned(chain, end - begin, known)


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
        distinct_answers([answer(query, row) for row, _ in rows]),
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


def listed_model(
    distribution: MarkovChain | FiniteJoint | BayesianNetwork, query: Query
) -> ListedModel:
    """Every data set of a distribution."""
    match distribution:
        case FiniteJoint():
            return joint_table(distribution, query)
        case BayesianNetwork():
            return network_table(distribution, query)
        case _:
            return chain_table(distribution, query)


ValueLabels = Sequence[Sequence[Hashable]]
"""For each entry the labels of its codes."""


@dataclass(frozen=True, eq=False)
class NamedPairs(Distribution):
    """A distribution of which only pairs of events are hidden, as a release records them."""

    pairs: Any = ()

    @property
    def of_entries(self) -> bool:
        return False

    def rows(self, codes: NDArray[np.uint16], labels: ValueLabels) -> list[tuple[Bools, Bools]]:
        """For each pair, which of the listed data are in its first and in its second event."""
        return [
            (self._event(one, codes, labels), self._event(other, codes, labels))
            for one, other in self.pairs
        ]

    def _event(self, event: Any, codes: NDArray[np.uint16], labels: ValueLabels) -> Bools:
        if isinstance(self.distribution, FiniteJoint):
            listed = [n for n, p in enumerate(self.distribution.table.values()) if p > 0]
            return np.isin(listed, event)
        inside = np.ones(len(codes), dtype=bool)
        for entry, allowed in event:
            if isinstance(self.distribution, BayesianNetwork):
                place = self.distribution.nodes.index(entry)
                chosen = [n for n, label in enumerate(labels[place]) if label in allowed]
            else:  # entries of chains are counted from 1, and states by their places
                place, chosen = entry - 1, allowed
            inside &= np.isin(codes[:, place], chosen)
        return inside


def distributions_of(theta: Beliefs, calibration: Calibration) -> list[Distribution]:
    """The distributions of a class, with the secrets that were promised to be hidden."""
    each = theta.distributions()
    if calibration.guarantee != Guarantee.SECRETS:
        return each
    record = (calibration.verification_data or {}).get("secrets")
    if record is None:
        raise NotApplicable("this release does not say which events it hides; calibrate it again")
    by_joint = isinstance(each[0].distribution, FiniteJoint)
    if by_joint and len(record) != len(each):
        raise NotApplicable("its secrets are rows of other beliefs; audit it against its own")
    return [
        NamedPairs(
            own.name, own.distribution, own.complete, pairs=record[n] if by_joint else record
        )
        for n, own in enumerate(each)
    ]


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
        return distribution_of_answers(
            self.chain, self.query, entry, code, range(self.query.size), _MOST_ANSWERS, _MOST_STEPS
        )

    def draw(self, entry: int, code: int, trials: int, rng: np.random.Generator) -> Answers:
        given = self.chain, self.query, entry, code
        if self.query.weights is not None:
            counts = sum(
                (part.sample_counts(trials, rng) for part in _parts(*given)),
                np.zeros((trials, len(self.chain)), dtype=np.int64),
            )
            return by_counts(counts, self.chain.states, self.query)
        answers: list[Answer] = []
        block = max(1, _MOST_CELLS // sum(self.query.lengths))
        for begin in range(0, trials, block):
            count = min(block, trials - begin)
            paths = [part.sample(count, rng) for part in _parts(*given)]
            part = answers_of(np.hstack(paths), self.chain.states, self.query)
            answers += [part.distinct[n] for n in part.which]
        return distinct_answers(answers)


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


def log_density(distribution: AnswerDistribution, outputs: Floats, scale: float) -> Floats:
    """Log of the Laplace mixture at each output (one row each), up to one constant."""
    kept = distribution.weights > 0
    points, logs = distribution.points[kept], np.log(distribution.weights[kept])
    if points.shape[1] == 1:
        return _on_the_line(points[:, 0], logs, outputs[:, 0], scale)
    densities = np.empty(len(outputs))
    block = max(1, _CELLS // len(points))
    for begin in range(0, len(outputs), block):
        part = outputs[begin : begin + block]
        distance = np.zeros((len(part), len(points)))
        for j in range(points.shape[1]):
            distance += np.abs(part[:, j, None] - points[None, :, j])
        distance /= -scale
        distance += logs
        top = distance.max(axis=1)
        distance -= top[:, None]
        densities[begin : begin + block] = top + np.log(np.exp(distance, out=distance).sum(axis=1))
    return densities


def _on_the_line(centres: Floats, logs: Floats, outputs: Floats, scale: float) -> Floats:
    """By running sums: between two centres the mixture is A e^{-w/s} + B e^{w/s}."""
    order = np.argsort(centres)
    zero = centres[order[len(order) // 2]]  # keeps the exponents small
    sorted_ = (centres[order] - zero) / scale
    w = (outputs - zero) / scale
    below = np.concatenate([[-np.inf], np.logaddexp.accumulate(logs[order] + sorted_)])
    above = np.concatenate(
        [np.logaddexp.accumulate((logs[order] - sorted_)[::-1])[::-1], [-np.inf]]
    )
    place = np.searchsorted(sorted_, w, side="right")
    densities: Floats = np.logaddexp(below[place] - w, above[place] + w)
    return densities
