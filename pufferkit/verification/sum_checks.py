"""W-infinity and exact sums, recomputed for `pufferkit.verification.verify`.

Nothing shorter than the distribution of a sum proves how far a secret moves it, so it is computed
again, in the plainest way and in extended precision: forwards entry by entry or node by node, then
backwards, then convolved. Only numbers above zero are added and multiplied, so each is right up to
a known factor.

**W** ([Q] Definition 3.1) is the least w such that for any two secrets, with F and G the
distribution functions of the answer given either, F(t) <= G(t + w) and G(t) <= F(t + w) for all t.
A tail counts as larger only if it is so by more than rounding, one part in 10^11.

**The loss of a noisy sum** at entry i is the largest log-ratio, over outputs w and values x, x', of

    D_x(w) = sum over c of P(sum = c | X_i = x) e^(-|w - c| / scale),

and w need only run over the values of the sum: between two of them D_x is A e^(-w/scale) + C
e^(w/scale), so a ratio of two is monotone. It is at most that of publishing, besides the noisy sum
over a window, the entries at both ends of it, whatever lies beyond; a side that reaches to the end
of the segment has no end to publish. Any reach of the window proves its bound; the recorded one is
tried first.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, singledispatch
from itertools import combinations, product
from math import inf, lcm, prod
from typing import Any

import numpy as np

from pufferkit.beliefs.base import Beliefs
from pufferkit.beliefs.bayesian_network import BayesianNetwork, NetworkClass
from pufferkit.beliefs.chain_class import ChainClass
from pufferkit.beliefs.event_class import EventClass
from pufferkit.beliefs.finite_joint import JointClass
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.beliefs.markov_random_field import FieldClass
from pufferkit.beliefs.secrets import Counted, Events, Runs, Secrets, Sets
from pufferkit.errors import NotApplicable
from pufferkit.mechanisms.release import Release
from pufferkit.rounding import as_fraction
from pufferkit.verification.allowance import (
    TOLERANCE,
    Allowance,
    BadBeliefs,
    NotChecked,
    larger_than,
    largest,
)
from pufferkit.verification.query_checks import days_of, moves_of, vectors_of, weights_of

Numbers = Any  # arrays of np.longdouble

_NO_WEIGHTS = "the file does not hold what each state adds to the answer"
_ROUNDING = 1e-11
_LEAST = float(np.finfo(np.longdouble).minexp) + 200  # powers of 2 that extended precision holds
_MOST_BYTES = 2e9
_MOST_CELLS = 4e7
_SETTLED = 1e-13
_TRIES = 3


def wasserstein_scale(record: Release, theta: Beliefs, checks: list[str], work: Allowance) -> float:
    """The scale W over epsilon."""
    weights: Sequence[Any] | None = weights_of(record, theta.states)
    if len(record.labels) > 1:
        weights = vectors_of(record, theta.states)
    if weights is not None and len(weights) != len(theta.states):
        weights = None
    asked = RecordedSum(weights, record.lengths, work, record.verification_data or {})
    distance = _of_vectors(theta, asked) if len(record.labels) > 1 else distance_of(theta, asked)
    named = theta.names_secrets or asked.secrets is not None
    checks.append(
        f"wasserstein: distributions of the answer given two "
        f"{'of the secrets' if named else 'values of an entry'} are at most "
        f"{float(distance):.9g} apart, over {theta.description}"
    )
    return float(distance) / record.epsilon


def exact_sum_scale(record: Release, theta: Beliefs, checks: list[str], work: Allowance) -> float:
    """The recorded scale if the loss at it is small enough, of every belief and length."""
    if record.observed is not None:
        raise BadBeliefs("exact_sum has no theorem for entries that were not observed")
    weights = weights_of(record, theta.states)
    moves = moves_of(record, theta.states)
    days = days_of(record, theta.states)
    if moves is None and days is None and (weights is None or len(weights) != len(theta.states)):
        raise NotChecked(_NO_WEIGHTS)
    enough = record.epsilon * (1 + TOLERANCE)
    asked = RecordedSum(weights, record.lengths, work)
    unit = asked.values[1] if weights is not None else record.unit or 1
    reach = max((n for n in record.evidence.blocks or () if n is not None), default=None)
    noise = _Noise(record.scale * (1 + TOLERANCE) / float(unit), enough, reach, moves, days)
    worst = _loss_of(theta, asked, noise)
    checks.append(
        f"exact_sum: the largest loss of a secret is {worst:.9g}, by the distribution of the sum "
        f"given its value, over {theta.description}"
    )
    return record.scale if worst <= enough else larger_than(record.scale)


# --- W-infinity -----------------------------------------------------------------------------------


def _apart(distributions: Iterable[Numbers], places: Sequence[Any] | None = None) -> Any:
    """The largest W between two distributions, those without mass left out.

    Masses stand at 0, 1, 2, ... or at ``places``. Lower tails are compared below the middle and
    upper tails above it, each summed from its own end: by subtraction they would lose the rarest
    outcomes, and these decide.
    """
    given = [masses / masses.sum() for masses in distributions if masses.any()]
    room = max((len(masses) for masses in given), default=1)
    axis = np.arange(room) if places is None else np.array([*places, 0], dtype=object)[:-1]
    worst = 0 * axis[0]
    for one, other in combinations(given, 2):
        f, g = (np.pad(masses, (0, room - len(masses))) for masses in (one, other))
        for a, b in ((f, g), (g, f)):
            for first, second, along in ((a, b, axis), (a[::-1], b[::-1], -axis[::-1])):
                lower = np.cumsum(first)
                low = np.flatnonzero((first > 0) & (lower - first < 0.5))
                heights = np.minimum(lower[low], 0.5)
                reached = np.searchsorted(np.cumsum(second) * (1 + _ROUNDING), heights)
                worst = max(worst, (along[reached] - along[low]).max())
    return worst


def _whole(weights: Sequence[Fraction]) -> tuple[list[int], Fraction]:
    """The weights as whole multiples of a unit above the least of them, and the unit."""
    denominator, least = lcm(*(weight.denominator for weight in weights)), min(weights)
    steps = [int((weight - least) * denominator) for weight in weights]
    unit = int(np.gcd.reduce(np.array(steps, dtype=object))) or 1
    return [step // unit for step in steps], Fraction(unit, denominator)


@dataclass(frozen=True)
class RecordedSum:
    """What each state adds to the answer, if the file holds it, over which lengths."""

    weights: Sequence[Any] | None
    lengths: Sequence[int]
    work: Allowance
    data: Mapping[str, Any] = field(default_factory=dict)

    @property
    def secrets(self) -> Any:
        """Pairs of events that were to be hidden, if any were named."""
        return self.data.get("secrets")

    @property
    def values(self) -> tuple[list[int], Fraction]:
        """The weights in whole numbers, and their unit."""
        if self.weights is None:
            raise NotChecked(_NO_WEIGHTS)
        return _whole(self.weights)


@singledispatch
def distance_of(theta: Beliefs, asked: RecordedSum) -> Fraction:
    """W between any two secrets."""
    raise NotChecked(f"there is no recomputation of W for a {theta.description}")


@distance_of.register
def _(theta: ChainClass, asked: RecordedSum) -> Fraction:
    values, unit = asked.values
    worst = 0
    for chain in (member.chain for member in theta.members()):
        for pair in asked.secrets or ():
            worst = max(worst, _of_events(chain, values, asked, pair))
        for length in set(asked.lengths) if asked.secrets is None else ():
            worst = max(worst, _SegmentSums(chain, values, length, asked.work).by_window(1))
    return worst * unit


@distance_of.register
def _(theta: EventClass, asked: RecordedSum) -> Fraction:
    theta.check_length(max(asked.lengths))
    values, unit = asked.values
    worst = 0
    for chain in (member.chain for member in theta.known_chains()):
        for hidden in theta.hidden:
            for length in set(asked.lengths):
                sums = _SegmentSums(chain, values, length, asked.work)
                worst = max(worst, _of_windows(sums, hidden, chain.states))
    return worst * unit


@distance_of.register
def _(theta: NetworkClass, asked: RecordedSum) -> Fraction:
    values, unit = asked.values
    added = dict(zip(theta.states, values, strict=True))
    worst = 0
    for network in theta.networks:
        for node in network.nodes if asked.secrets is None else ():
            worst = max(worst, _apart(joint_with_sum(network, (node,), asked.work, added)))
        for pair in asked.secrets or ():
            events = [{_hashable(n): set(allowed) for n, allowed in event} for event in pair]
            given = [joint_with_sum(network, (), asked.work, added, event) for event in events]
            worst = max(worst, _apart(given))
    return worst * unit


@distance_of.register
def _(theta: FieldClass, asked: RecordedSum) -> Fraction:
    return max(distance_of(network, asked) for network in theta.networks()[0])


@distance_of.register
def _(theta: JointClass, asked: RecordedSum) -> Fraction:
    answers, worst = asked.data.get("answers"), Fraction(0)
    if asked.weights is not None:  # the answers of a sum are computed, not read from the file
        added = dict(zip(theta.states, asked.weights, strict=True))
        answers = [[sum(added[v] for v in row) for row in j.table] for j in theta.joints]
    if answers is None or len(answers) != len(theta.joints):
        raise NotChecked("the record does not hold the answer to the query on each row")
    secrets = asked.secrets or [None] * len(theta.joints)
    for joint, own, events in zip(theta.joints, answers, secrets, strict=True):
        rows, masses = list(joint.table), np.array([*joint.table.values()], dtype=np.longdouble)
        if len(own) != len(rows):
            raise NotChecked(
                "the file does not hold one answer for each row of the joint distribution"
            )
        values = [None if answer is None else Fraction(answer) for answer in own]
        places = sorted({value for value in values if value is not None})
        rank = {value: n for n, value in enumerate(places)}
        for named in _events(rows) if events is None else events:
            given = np.zeros((len(named), len(places)), dtype=np.longdouble)
            for masses_of, event in zip(given, named, strict=True):
                asked.work.spend(2000.0 * len(event))
                for place in event:
                    if values[place] is not None:
                        masses_of[rank[values[place]]] += masses[place]
            worst = max(worst, _apart(given, places))
    return worst


@singledispatch
def _of_vectors(theta: Beliefs, asked: RecordedSum) -> Fraction:
    """W between any two secrets, for vectors in L1.

    In whole numbers throughout, because there is no order by which tails could be compared.
    """
    raise NotChecked(f"there is no recomputation of W for vectors over a {theta.description}")


@_of_vectors.register
def _(theta: JointClass, asked: RecordedSum) -> Fraction:
    answers, worst = asked.data.get("answers"), Fraction(0)
    if asked.weights is not None:
        added = dict(zip(theta.states, asked.weights, strict=True))
        answers = [[_total(added, row) for row in joint.table] for joint in theta.joints]
    if answers is None or len(answers) != len(theta.joints):
        raise NotChecked("the record does not hold the answer to the query on each row")
    secrets = asked.secrets or [None] * len(theta.joints)
    for joint, own, events in zip(theta.joints, answers, secrets, strict=True):
        rows = list(joint.table)
        if len(own) != len(rows):
            raise NotChecked(
                "the file does not hold one answer for each row of the joint distribution"
            )
        masses = [as_fraction("table", p) for p in joint.table.values()]
        values = [None if one is None else tuple(Fraction(number) for number in one) for one in own]
        for named in _events(rows) if events is None else events:
            worst = max(worst, _vectors_apart(values, masses, named, asked.work))
    return worst


@_of_vectors.register
def _(theta: NetworkClass, asked: RecordedSum) -> Fraction:
    if asked.weights is None:
        raise NotChecked(_NO_WEIGHTS)
    added, worst = dict(zip(theta.states, asked.weights, strict=True)), Fraction(0)
    for network in theta.networks:
        rows, masses = _listed_rows(network, asked.work)
        values = [_total(added, row) for row in rows]
        every = (
            _events(rows)
            if asked.secrets is None
            else (
                [
                    [n for n, row in enumerate(rows) if _within(row, network.nodes, event)]
                    for event in pair
                ]
                for pair in asked.secrets
            )
        )
        for named in every:
            worst = max(worst, _vectors_apart(values, masses, named, asked.work))
    return worst


@_of_vectors.register
def _(theta: FieldClass, asked: RecordedSum) -> Fraction:
    return max(_of_vectors(network, asked) for network in theta.networks()[0])


def _total(added: Mapping[Hashable, Sequence[Fraction]], row: Sequence[Hashable]) -> Any:
    return tuple(sum(column, Fraction(0)) for column in zip(*(added[v] for v in row), strict=True))


def _within(row: Sequence[Hashable], nodes: Sequence[Hashable], event: Any) -> bool:
    return all(row[nodes.index(_hashable(node))] in allowed for node, allowed in event)


def _listed_rows(
    network: BayesianNetwork, work: Allowance
) -> tuple[list[tuple[Hashable, ...]], list[Fraction]]:
    """Every data set of a network and its probability, in fractions."""
    rows, masses = list(product(*(network.values[node] for node in network.nodes))), []
    work.spend(2e4 * len(rows) * len(network.nodes))
    for row in rows:
        named, mass = dict(zip(network.nodes, row, strict=True)), Fraction(1)
        for node in network.nodes:
            table = network.tables[node][tuple(named[p] for p in network.parents[node])]
            exact = [as_fraction("tables", p) for p in table]
            mass *= exact[network.values[node].index(named[node])] / sum(exact)
        masses.append(mass)
    return rows, masses


def _vectors_apart(
    values: Sequence[Any], masses: Sequence[Fraction], events: Iterable[Any], work: Allowance
) -> Fraction:
    """The largest W in L1 between the answers given two of these events, which list rows."""
    given: list[dict[Any, Fraction]] = []
    for event in events:
        own: dict[Any, Fraction] = {}
        for place in event:
            if masses[place] > 0:
                own[values[place]] = own.get(values[place], Fraction(0)) + masses[place]
        if own:
            whole = sum(own.values())
            given.append({value: mass / whole for value, mass in own.items()})
    pairs = combinations(given, 2)
    return max((_moved_within(one, other, work) for one, other in pairs), default=Fraction(0))


def _moved_within(
    first: Mapping[Any, Fraction], second: Mapping[Any, Fraction], work: Allowance
) -> Fraction:
    """The least distance within which all mass can move.

    Pairs of values join by their distance; whenever some joined, mass is sent along shortest paths
    of what is left, forwards along pairs and back along mass already sent.
    """
    unit = lcm(*(mass.denominator for mass in (*first.values(), *second.values())))
    left = [int(mass * unit) for mass in first.values()]
    room = [int(mass * unit) for mass in second.values()]
    pairs: dict[Fraction, list[tuple[int, int]]] = {}
    for n, x in enumerate(first):
        for m, y in enumerate(second):
            work.spend(3e3 * len(x))
            apart = sum((abs(a - b) for a, b in zip(x, y, strict=True)), Fraction(0))
            pairs.setdefault(apart, []).append((n, m))
    open_: list[list[int]] = [[] for _ in left]
    sent: list[dict[int, int]] = [{} for _ in room]
    for apart in sorted(pairs):
        for n, m in pairs[apart]:
            open_[n].append(m)
        while _send(left, room, open_, sent, work):
            pass
        if not any(left):
            return apart
    raise NotChecked("the masses of two distributions do not balance")


def _send(
    left: list[int],
    room: list[int],
    open_: Sequence[Sequence[int]],
    sent: Sequence[dict[int, int]],
    work: Allowance,
) -> bool:
    """Send mass along one shortest path; whether there was one."""
    come: dict[int, int] = {}
    back: dict[int, int | None] = {n: None for n, mass in enumerate(left) if mass}
    waiting = list(back)
    for n in waiting:
        work.spend(100.0 * len(open_[n]))
        for m in open_[n]:
            if m in come:
                continue
            come[m] = n
            if room[m]:
                return _along(m, come, back, left, room, sent)
            for other, mass in sent[m].items():
                if mass and other not in back:
                    back[other] = m
                    waiting.append(other)
    return False


def _along(
    end: int,
    come: Mapping[int, int],
    back: Mapping[int, int | None],
    left: list[int],
    room: list[int],
    sent: Sequence[dict[int, int]],
) -> bool:
    """Send as much as fits to ``end``, taking back what was sent on the way."""
    path, m = [], end
    while True:
        n = come[m]
        before = back[n]
        path.append((n, m, before))
        if before is None:
            break
        m = before
    start = path[-1][0]
    most = min([left[start], room[end], *(sent[b][n] for n, _, b in path if b is not None)])
    for n, m, before in path:
        sent[m][n] = sent[m].get(n, 0) + most
        if before is not None:
            sent[before][n] -= most
    left[start] -= most
    room[end] -= most
    return True


def _hashable(node: Any) -> Hashable:
    """A name as read from JSON."""
    return tuple(node) if isinstance(node, list) else node


def _events(rows: Sequence[tuple[Hashable, ...]]) -> Iterator[list[list[int]]]:
    """The values of each variable, as indices of rows."""
    for variable in range(len(rows[0])):
        events: dict[Hashable, list[int]] = {}
        for place, row in enumerate(rows):
            events.setdefault(row[variable], []).append(place)
        yield list(events.values())


# --- chains ---------------------------------------------------------------------------------------


class _SegmentSums:
    """Sums over a segment of a known chain, forwards and backwards."""

    def __init__(self, chain: MarkovChain, values: list[int], length: int, work: Allowance) -> None:
        self.matrix = chain.transition.astype(np.longdouble)
        self.start = chain.initial.astype(np.longdouble)
        self.values, self.length, self.work = values, length, work
        self.size, self.top = len(values), max(values)

    def check_tails(self, entries: int) -> None:
        """Whether extended precision holds the probability of every path of so many entries."""
        positive = np.concatenate([self.matrix.ravel(), self.start])
        if entries * float(np.log2(positive[positive > 0].min())) < _LEAST:
            raise NotChecked("the probabilities of its tails underflow")
        gigabytes = 16e-9 * entries * self.size * (float(entries) * self.top + 1) / 2
        if gigabytes > _MOST_BYTES / 1e9:
            raise NotChecked(f"distributions of the sum need about {gigabytes:,.0f} GB of memory")

    def shifted(self, table: Numbers) -> Numbers:
        """Row x with the value of x added to its sums; any axes between."""
        longer = np.zeros((*table.shape[:-1], table.shape[-1] + self.top), dtype=np.longdouble)
        for x, value in enumerate(self.values):
            longer[x, ..., value : value + table.shape[-1]] = table[x]
        return longer

    def ahead(self, count: int) -> list[Numbers]:
        """For r = 0, 1, ...: the next r entries, the last of the segment, sum to a, given x."""
        tables = [np.ones((self.size, 1), dtype=np.longdouble)]
        while len(tables) <= count:
            self.work.spend(50.0 * self.size**2 * tables[-1].shape[1])
            tables.append(self.matrix @ self.shifted(tables[-1]))
        return tables

    def behind(self, count: int) -> Iterator[Numbers]:
        """For X_1, X_2, ...: it is x, and the entries before it sum to a."""
        table = self.start[:, None]
        for _ in range(count):
            self.work.spend(50.0 * self.size**2 * table.shape[1])
            yield table
            table = self.matrix.T @ self.shifted(table)

    def by_window(
        self, width: int, moves: Sequence[Any] | None = None, ends: Sequence[int] = ()
    ) -> int:
        """The largest W between two labels of a window, read along it, or all its values."""
        return int(max(map(_apart, self.labelled(width, moves, ends))))

    def labelled(
        self, width: int, moves: Sequence[Any] | None = None, ends: Sequence[int] = ()
    ) -> Iterator[list[Numbers]]:
        """For every window, the sum over the segment together with each label of the window."""
        self.check_tails(self.length)
        last = self.length - width
        after = self.ahead(last)
        for before in self.behind(last + 1):
            rest = after.pop()
            cases: dict[tuple[Any, int], Numbers] = {}
            for x, sums in enumerate(self.shifted(before)):
                if sums.any():
                    cases[(x,) if moves is None else int(moves[0][0, x]), x] = sums
            for n in range(1, width):
                further: dict[tuple[Any, int], Numbers] = {}
                for (memory, x), sums in cases.items():
                    self.work.spend(20.0 * self.size * len(sums))
                    for y in np.flatnonzero(self.matrix[x] > 0).tolist():
                        read = (*memory, y) if moves is None else int(moves[n][memory, y])
                        room = self.values[y], self.top - self.values[y]
                        moved = np.pad(self.matrix[x, y] * sums, room)
                        further[read, y] = further.get((read, y), 0) + moved
                cases = further
            labels: dict[Any, Numbers] = {}
            for (memory, x), sums in cases.items():
                self.work.spend(1.5 * float(len(sums)) * rest.shape[1])
                label = memory if moves is None else ends[memory]
                labels[label] = labels.get(label, 0) + np.convolve(sums, rest[x])
            self.work.spend(30.0 * len(labels) ** 2 * self.length * self.top)
            yield list(labels.values())

    def given(self, allowed: Mapping[int, set[int]]) -> Numbers:
        """The sum over the segment together with an event: which states entries may have."""
        self.check_tails(self.length)
        sums = self.start[:, None]
        for n in range(1, self.length + 1):
            self.work.spend(50.0 * self.size**2 * sums.shape[1])
            possible = [x in allowed.get(n, range(self.size)) for x in range(self.size)]
            sums = np.where(np.array(possible)[:, None], self.shifted(sums), 0)
            sums = self.matrix.T @ sums if n < self.length else sums
        return sums.sum(axis=0)


def _of_windows(sums: _SegmentSums, hidden: Secrets, states: Sequence[Hashable]) -> int:
    if isinstance(hidden, Sets) and hidden.window > 1:
        raise NotChecked("there is no recomputation of W for sets of entries")
    if not isinstance(hidden, Events):
        return sums.by_window(min(hidden.window, sums.length))
    if hidden.window > sums.length:
        return 0
    return int(max(map(_apart, _of_labels(sums, hidden, states))))


def _of_labels(
    sums: _SegmentSums, hidden: Secrets, states: Sequence[Hashable]
) -> Iterable[list[Numbers]]:
    """For every window of a segment, the sum together with each label of the window.

    A sum that counts what the label is about, over the whole segment, tells the label itself.
    """
    if not isinstance(hidden, Events):
        return sums.labelled(min(hidden.window, sums.length))
    if isinstance(hidden, Counted) and hidden.window == sums.length:
        counted = [int(state in hidden.states) for state in states]
        if sums.values in (counted, [1 - one for one in counted]):
            whole = sums.given({})
            times = np.arange(len(whole))
            times = times if sums.values == counted else sums.length - times
            often = times >= (sums.length if hidden.times is None else hidden.times)
            return [[np.where(often, whole, 0), np.where(often, 0, whole)]]
    automaton = hidden.automaton(states)
    return sums.labelled(hidden.window, automaton.moves, automaton.ends)


def _of_events(chain: MarkovChain, values: list[int], asked: RecordedSum, pair: Any) -> int:
    """W between events about named entries; the distances of several segments add up."""
    events = [{int(entry): set(allowed) for entry, allowed in event} for event in pair]
    total, begin = 0, 0
    for length in asked.lengths:
        own = [
            {n - begin: states for n, states in event.items() if begin < n <= begin + length}
            for event in events
        ]
        if any(own):
            sums = _SegmentSums(chain, values, length, asked.work)
            total += int(_apart([sums.given(event) for event in own]))
        begin += length
    return total


# --- networks -------------------------------------------------------------------------------------


def joint_with_sum(
    network: BayesianNetwork,
    keep: Sequence[Hashable],
    work: Allowance,
    added: Mapping[Hashable, int] | None = None,
    allowed: Mapping[Hashable, set[Any]] | None = None,
) -> Numbers:
    """The joint distribution of some nodes and of a sum over all: axes of ``keep``, then the sum.

    Nodes join one at a time, parents first, those that leave the fewest open, and are summed out
    once their children are there. Without ``added`` there is no sum, and nodes that ``keep`` does
    not descend from are left out; with ``allowed`` other values of a node are impossible.
    """
    rest = list(network.nodes if added is not None else network.ancestors(keep))
    needed, done = set(rest), set[Hashable]()
    open_: list[Hashable] = []
    table: Numbers = np.ones(1, dtype=np.longdouble)
    least = sum(float(np.log2(own[own > 0].min())) for own in network.arrays.values())
    if least < _LEAST:
        raise NotChecked("the probability of some sums underflows")

    def over(node: Hashable, after: Hashable) -> bool:
        later = (c for c in network.children[node] if c in needed)
        return node not in keep and all(c in done or c == after for c in later)

    while rest:
        ready = [n for n in rest if all(p in done for p in network.parents[n])]
        node = min(ready, key=lambda n: -sum(over(p, n) for p in network.parents[n]))
        rest.remove(node)
        done.add(node)
        own = _given_parents(network, node, open_, (allowed or {}).get(node))
        steps = [(added or {}).get(value, 0) for value in network.values[node]]
        entries = prod(table.shape[:-1]) * len(steps) * (table.shape[-1] + max(steps))
        if 16.0 * entries > _MOST_BYTES / 4:
            raise NotChecked("the network is too wide for the distribution of a sum")
        work.spend(1e5 + 20.0 * entries)
        shape = (*table.shape[:-1], len(steps), table.shape[-1] + max(steps))
        joined = np.zeros(shape, dtype=np.longdouble)
        for value, more in enumerate(steps):
            joined[..., value, more : more + table.shape[-1]] = table * own[..., value, None]
        open_.append(node)
        out = tuple(axis for axis, n in enumerate(open_) if over(n, node))
        table = joined.sum(axis=out)
        open_ = [n for axis, n in enumerate(open_) if axis not in out]
    return np.transpose(table, [*(open_.index(node) for node in keep), len(keep)])


def _given_parents(
    network: BayesianNetwork, node: Hashable, open_: Sequence[Hashable], allowed: set[Any] | None
) -> Numbers:
    """The table of a node, with an axis for each open node and one for itself."""
    parents, values = network.parents[node], [network.values[p] for p in network.parents[node]]
    table = np.zeros([*map(len, values), len(network.values[node])], dtype=np.longdouble)
    for key, row in network.tables[node].items():
        place = tuple(own.index(value) for own, value in zip(values, key, strict=True))
        table[place] = np.asarray(row, dtype=np.longdouble) / np.sum(row, dtype=np.longdouble)
    if allowed is not None:
        table *= np.array([value in allowed for value in network.values[node]])
    order = sorted(range(len(parents)), key=lambda axis: list(open_).index(parents[axis]))
    index = tuple(slice(None) if other in parents else None for other in open_)
    return np.transpose(table, [*order, len(parents)])[(*index, slice(None))]


# --- the loss of a noisy sum ----------------------------------------------------------------------


@dataclass(frozen=True)
class _Noise:
    """The scale in units of the sum, the most loss, the reach of windows that is tried first."""

    scale: float
    epsilon: float
    reach: int | None
    moves: tuple[Any, Any] | None
    days: tuple[Any, int, Any] | None = None


@singledispatch
def _loss_of(theta: Beliefs, asked: RecordedSum, noise: _Noise) -> float:
    """The largest loss of a secret, or a bound on it that suffices."""
    raise BadBeliefs(f"exact_sum has no theorem for a {theta.description}")


@_loss_of.register
def _(theta: ChainClass, asked: RecordedSum, noise: _Noise) -> float:
    try:
        members = theta.members()
    except NotApplicable as reason:
        raise BadBeliefs(f"exact_sum needs known chains: {reason}") from None
    if any(member.any_start for member in members):
        raise BadBeliefs("exact_sum needs known chains with known initial distributions")
    return _loss_of_entries([member.chain for member in members], asked, noise)


@_loss_of.register
def _(theta: EventClass, asked: RecordedSum, noise: _Noise) -> float:
    try:
        chains = [member.chain for member in theta.known_chains()]
    except NotApplicable as reason:
        raise BadBeliefs(f"exact_sum needs known chains: {reason}") from None
    values, _ = asked.values
    labels = [hidden for hidden in theta.hidden if not _of_entries(hidden)]
    worst = []
    for chain, length in product(chains, set(asked.lengths)):
        sums = _SegmentSums(chain, values, length, asked.work)
        worst.append(_loss_of_labels(sums, labels, theta.states, noise.scale))
    if any(map(_of_entries, theta.hidden)):
        worst.append(_loss_of_entries(chains, asked, noise))
    return largest(worst)


@_loss_of.register
def _(theta: NetworkClass, asked: RecordedSum, noise: _Noise) -> float:
    values, _ = asked.values
    added = dict(zip(theta.states, values, strict=True))
    return largest(
        _loss_given(joint_with_sum(network, (node,), asked.work, added), noise.scale)
        for network in theta.networks
        for node in network.nodes
    )


@_loss_of.register
def _(theta: FieldClass, asked: RecordedSum, noise: _Noise) -> float:
    networks, rounding = theta.networks()
    return largest(_loss_of(network, asked, noise) for network in networks) + rounding


def _loss_of_entries(chains: Sequence[MarkovChain], asked: RecordedSum, noise: _Noise) -> float:
    if noise.days is not None:
        return largest(
            _loss_of_days(chain, *noise.days, noise.scale, asked.work) for chain in chains
        )
    values = None if noise.moves is not None else asked.values[0]
    added = noise.moves or (values, [values] * len(values or ()))
    return largest(
        _loss_of_sum(chain, added, length, noise, asked.work)
        for chain, length in product(chains, set(asked.lengths))
    )


def _loss_of_sum(
    chain: MarkovChain, added: tuple[Any, Any], length: int, noise: _Noise, work: Allowance
) -> float:
    """An upper bound on the loss of every entry: the first below epsilon, or the least tried."""
    tried, best = noise.reach or 8, inf
    for _ in range(_TRIES if noise.reach else 4 * _TRIES):
        whole = 2 * tried >= length
        windows = _WindowSums(chain, added, length, length if whole else tried, work)
        best = min(best, windows.largest_loss(noise.scale))
        if best <= noise.epsilon or whole:
            break
        tried += tried // 2
    return best


def _loss_of_days(
    chain: MarkovChain, inside: Any, needed: int, days: Any, scale: float, work: Allowance
) -> float:
    """The largest loss of an entry where the answer is the number of days with enough entries.

    The state and the number of entries of today that count, up to ``needed``, are a chain together;
    a move of it adds a day where that number is reached.
    """
    size, cases = len(inside), [(x, q) for x in range(len(inside)) for q in range(needed + 1)]
    place = {case: n for n, case in enumerate(cases)}
    entries, room = int(sum(days)), len(days) + 1
    work.spend(entries * len(cases) * room * (60.0 * size + 3.0 * room))
    matrix = np.array(chain.transition, dtype=np.longdouble)
    matrix /= matrix.sum(axis=1, keepdims=True)
    begins = {int(n) for n in np.cumsum([0, *days[:-1]])}

    def read(q: int, y: int, at: int) -> tuple[int, int]:
        """Where state y leads at an entry with q counted before it, and whether the day counts."""
        before = 0 if at in begins else q
        after = min(before + bool(inside[y]), needed)
        return place[y, after], int(before < needed <= after)

    before = [np.zeros((len(cases), room), dtype=np.longdouble) for _ in range(entries)]
    for y in range(size):
        to, added = read(0, y, 0)
        before[0][to, added] += np.longdouble(chain.initial[y])
    after = [np.zeros((len(cases), room), dtype=np.longdouble) for _ in range(entries)]
    after[-1][:, 0] = 1
    for at in range(1, entries):
        back = entries - at
        for n, (x, q) in enumerate(cases):
            for y in np.flatnonzero(matrix[x] > 0).tolist():
                to, added = read(q, y, at)
                before[at][to, added:] += matrix[x, y] * before[at - 1][n, : room - added]
                to, added = read(q, y, back)
                after[back - 1][n, added:] += matrix[x, y] * after[back][to, : room - added]
    worst = 0.0
    for one, other in zip(before, after, strict=True):
        rows = np.zeros((size, room), dtype=np.longdouble)
        for n, (x, _) in enumerate(cases):
            if one[n].any():
                rows[x] += np.convolve(one[n], other[n])[:room]
        worst = largest([worst, _loss_given(rows, scale)])
    return worst


def _of_entries(hidden: Secrets) -> bool:
    return isinstance(hidden, Runs) and hidden.window == 1


def _loss_of_labels(
    sums: _SegmentSums, secrets: Sequence[Secrets], states: Sequence[Hashable], scale: float
) -> float:
    """The largest loss of a label of a window, by the sums given each."""
    worst = 0.0
    for hidden in secrets:
        if not isinstance(hidden, (Events, Runs)):
            raise BadBeliefs(f"exact_sum has no theorem for {hidden.description}")
        if hidden.window > sums.length:
            continue
        for labels in _of_labels(sums, hidden, states):
            worst = largest([worst, _loss_given(labels, scale)])
    return worst


def _loss_given(rows: Iterable[Numbers], scale: float) -> float:
    """The largest loss between secrets, by the joint distribution of each with the sum."""
    given = np.array([masses / masses.sum() for masses in rows if masses.any()])
    with np.errstate(divide="ignore"):
        logs = np.log(_smoothed(given, scale)[:, given.any(axis=0)])
    return float((logs.max(axis=0) - logs.min(axis=0)).max())


def _smoothed(sums: Numbers, scale: float) -> Numbers:
    """The sum over c of P(c) e^(-|w - c| / scale), along the last axis."""
    fall, span = np.exp(-1 / np.longdouble(scale)), sums.shape[-1]
    below, above = np.zeros_like(sums), np.zeros_like(sums)
    below[..., 0] = sums[..., 0]
    for w in range(1, span):
        below[..., w] = below[..., w - 1] * fall + sums[..., w]
        above[..., -1 - w] = (above[..., -w] + sums[..., -w]) * fall
    return below + above


class _WindowSums:
    """All windows of one reach, of a sum over moves; a first entry x adds ``added[0][x]``."""

    def __init__(
        self, chain: MarkovChain, added: tuple[Any, Any], length: int, reach: int, work: Allowance
    ) -> None:
        top = int(max(np.max(part) for part in added))
        segment = _SegmentSums(chain, [top] * len(added[0]), length, work)
        segment.check_tails(min(length, 2 * reach + 2))
        self.matrix, self.start, self.size = segment.matrix, segment.start, len(segment.matrix)
        self.first, self.moves = added
        self.length, self.reach, self.work = length, reach, work
        width = float(reach * top + 1)
        if length > 2 * reach and 2 * self.size**3 * width > _MOST_CELLS:
            raise NotChecked("the sums over a window take too many values")
        work.spend(3.0 * self.size**3 * width * (reach + (width if length > 2 * reach else 0.0)))
        self.ends = [np.ones((self.size, 1), dtype=np.longdouble)]
        self.starts = [np.zeros((self.size, int(max(self.first)) + 1), dtype=np.longdouble)]
        for x, value in enumerate(self.first):
            self.starts[0][x, value] = self.start[x]
        for _ in range(min(reach, length) - 1):
            self.ends.append(self.moved(self.ends[-1], backwards=True))
            self.starts.append(self.moved(self.starts[-1]))

    def moved(self, table: Numbers, *, backwards: bool = False) -> Numbers:
        """Sums by state after one more move, or with one more move before; any axes between."""
        width = table.shape[-1]
        self.work.spend(50.0 * self.size * table.size)
        shape = (*table.shape[:-1], width + int(np.max(self.moves)))
        longer = np.zeros(shape, dtype=np.longdouble)
        for x, y in np.ndindex(self.size, self.size):
            add, (source, target) = int(self.moves[x][y]), (y, x) if backwards else (x, y)
            if self.matrix[x, y] > 0:
                longer[target, ..., add : add + width] += self.matrix[x, y] * table[source]
        return longer

    @cached_property
    def distributions(self) -> list[Numbers]:
        """The distributions of X_1, X_2, ... until they are constant, or to the end."""
        distributions = [self.start]
        while len(distributions) < self.length:
            self.work.spend(4000.0)
            following = distributions[-1] @ self.matrix
            if np.array_equal(following > 0, distributions[-1] > 0):
                moved = np.abs(following - distributions[-1])[following > 0]
                if (moved <= _SETTLED * following[following > 0]).all():
                    break
            distributions.append(following)
        return distributions

    def distribution(self, entry: int) -> Numbers:
        return self.distributions[min(entry, len(self.distributions)) - 1]

    @cached_property
    def across(self) -> Numbers:
        """[x, y, a]: ``reach`` moves lead from x to y and add a."""
        table = np.eye(self.size, dtype=np.longdouble)[:, :, None]  # [y, x, a] until the end
        for _ in range(self.reach):
            table = self.moved(table)
        return table.swapaxes(0, 1)

    def largest_loss(self, scale: float) -> float:
        """The largest loss of an entry."""
        worst = 0.0
        for entries in self._alike():
            logs = self._log_likelihoods(entries[0], scale)
            with np.errstate(invalid="ignore"):
                apart = logs[:, None] - logs
            # If both probabilities are zero, there is no such output.
            apart = np.where(np.isnan(apart), -inf, apart).max(axis=(3, 4))  # [x, x', left end]
            for entry in entries:
                distribution = self.distribution(entry)
                ends: Numbers = slice(None)
                possible = distribution > 0
                if entry > self.reach:
                    ends = np.flatnonzero(self.distribution(entry - self.reach) > 0)
                own = apart[:, :, ends].max(axis=2)[np.ix_(possible, possible)]
                logs_of = np.log(distribution[possible])
                worst = max(worst, float((own + logs_of[None, :] - logs_of[:, None]).max()))
        return worst

    def _alike(self) -> Iterator[Sequence[int]]:
        """Entries in groups with the same window."""
        reach, length = self.reach, self.length
        inner = range(reach + 1, min(length - reach, len(self.distributions) + reach) + 1)
        if inner:
            yield inner
        near_start = range(1, min(reach, length) + 1)
        for entry in sorted({*near_start, *range(max(1, length - reach + 1), length + 1)}):
            yield [entry]

    def _log_likelihoods(self, entry: int, scale: float) -> Numbers:
        """[x, left end, right end, w]: log D_x(w), without the factors of x and the left end."""
        after = self.length - entry
        left = self.across.transpose(1, 0, 2) if entry > self.reach else None
        left = self.starts[entry - 1][:, None] if left is None else left
        right = self.across if after >= self.reach else self.ends[after][:, None]
        lefts, rights = left.shape[1], right.shape[1]
        span = left.shape[2] + right.shape[2] - 1
        self.work.spend(3.0 * self.size * lefts * rights * left.shape[2] * right.shape[2])
        self.work.spend(60.0 * self.size * lefts * rights * span)
        sums = np.zeros((self.size, lefts, rights, span), dtype=np.longdouble)
        for x, u, y in np.ndindex(self.size, lefts, rights):
            sums[x, u, y] = np.convolve(left[x, u], right[x, y])
        with np.errstate(divide="ignore"):
            return np.log(_smoothed(sums, scale))
