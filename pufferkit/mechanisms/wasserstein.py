"""The Wasserstein Mechanism: [Q] Algorithm 1.

For a sum over entries a class is a list of `SumGiven`: the sum under one belief with the tables of
its secrets, which may be the values of entries, labels of windows, or events about named entries
and nodes. The largest distance over the list decides here, the least scale in `exact_sum`. Small
joint distributions are listed row by row, with any answer.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import singledispatch
from itertools import combinations, product
from math import comb, gcd, inf, lcm, prod
from typing import Any, NamedTuple

import numpy as np

from pufferkit import checks
from pufferkit.beliefs.base import Beliefs, GraphClass
from pufferkit.beliefs.bayesian_network import BayesianNetwork, NetworkClass
from pufferkit.beliefs.chain_class import ChainClass
from pufferkit.beliefs.event_class import EventClass
from pufferkit.beliefs.finite_joint import FiniteJoint, JointClass, JointRow
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.beliefs.markov_random_field import FieldClass
from pufferkit.beliefs.secrets import Counted, Events, Listed, Secrets, Sets
from pufferkit.checks import Bools, Ints
from pufferkit.data.query import Query, Question
from pufferkit.errors import NotApplicable, TakesLong
from pufferkit.influence.progress import Progress
from pufferkit.influence.sums.chain_sums import SummedChain, WindowLabels, check_memory
from pufferkit.influence.sums.lattice import (
    Distance,
    SumTables,
    bottleneck_distance,
    w_infinity,
)
from pufferkit.influence.sums.network_sums import SummedNetwork
from pufferkit.mechanisms.calibration import GAPS, Calibration, checked
from pufferkit.mechanisms.release import Evidence, Guarantee
from pufferkit.rounding import as_fraction, at_least, round_up
from pufferkit.threads import one_thread

OPEN_TIE = "a tie could not be decided in floats and counted as the larger distance"

Event = Mapping[Hashable, Any]
"""Entries or variables by name, and the value or the values that each may have."""

RowEvent = Callable[[JointRow], bool]
EventPairs = Iterable[tuple[Event | RowEvent, Event | RowEvent]]
"""Pairs of events that must stay indistinguishable."""

Condition = dict[int, list[int]]
"""Indices of entries, and the indices of the states that each may have."""

MOST_LISTED = 4096
"""Most data sets of a network that are listed for the distribution of a vector."""

MOST_FIELD = 200
"""Most nodes of a Markov random field for which the distribution of a sum is computed."""

_MOST_VALUES = 256  # of a window, as all pairs of them are compared
_PAIR_OF_ANSWERS = 1e4  # nanoseconds in a flow


class Farthest(NamedTuple):
    """The largest distance for one belief, exactly or rounded up, and where it is."""

    distance: Fraction
    node: Hashable
    belief: str
    length: int
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class SumGiven:
    """A sum under one belief, in whole multiples of ``unit``, and the tables of its secrets.

    Segments are independent, so distances of the segments that a secret is about add up: moving the
    sum of each by at most its own distance moves the whole by at most their sum. ``nodes`` are the
    names of places, where these have names, ``pair`` is that of a pair of events; ``rounding`` is
    the most that rounded probabilities add to a loss.
    """

    belief: str
    length: int
    unit: Fraction
    segments: Sequence[SumTables]
    rounding: float = 0.0
    nodes: Sequence[Hashable] = ()
    pair: str | None = None

    def node(self, place: Any) -> Hashable:
        """The name of a place of the tables."""
        return self.pair or (self.nodes[place] if self.nodes else place)

    def farthest(self, progress: Progress | None = None) -> Farthest:
        """The largest distance between two secrets."""
        each = [tables.distance(progress) for tables in self.segments]
        notes = [own.how for own in each if own.how] + [OPEN_TIE for own in each if own.unsure]
        distance = sum(own.value for own in each) * self.unit
        node = self.node(each[0].place if each else None)
        return Farthest(distance, node, self.belief, self.length, tuple(dict.fromkeys(notes)))


def whole_values(weights: Iterable[Fraction]) -> tuple[list[int], Fraction]:
    """Values as whole numbers from 0 up, and the unit they are counted in."""
    values = list(weights)
    least = min(values)
    steps = [value - least for value in values]
    denominator = 1
    for step in steps:
        denominator = denominator * step.denominator // gcd(denominator, step.denominator)
    unit = gcd(*(int(step * denominator) for step in steps)) or 1
    return [int(step * denominator) // unit for step in steps], Fraction(unit, denominator)


def values_of(query: Query, states: Sequence[Hashable]) -> tuple[list[int], Fraction]:
    """What each state adds to the answer, in whole multiples of a unit, and the unit."""
    return whole_values(row[0] for row in query.added(states))


@singledispatch
def sums_given(
    theta: Beliefs, query: Query, pairs: Sequence[tuple[Event, Event]] | None
) -> Iterator[SumGiven]:
    """The sum under each belief, with these pairs of events as secrets, or those of the class."""
    raise NotApplicable(f"the Wasserstein Mechanism has no theorem for a {theta.description}")


# --- chains: values of entries, labels of windows, events ----------------------------------------


@sums_given.register
def _(
    theta: ChainClass, query: Query, pairs: Sequence[tuple[Event, Event]] | None
) -> Iterator[SumGiven]:
    values, unit = values_of(query, theta.states)
    for member in theta.known_members("the Wasserstein Mechanism"):
        if pairs is None:
            for length in sorted(set(query.lengths), reverse=True):
                tables = entry_tables(member.chain, values, length)
                yield SumGiven(member.name, length, unit, [tables])
        for number, pair in enumerate(pairs or (), 1):
            events = [condition(e, range(1, sum(query.lengths) + 1), theta.states) for e in pair]
            segments, begin = [], 0
            for length in query.lengths:
                one, other = (_within(event, begin, length, len(values)) for event in events)
                begin += length
                if one or other:
                    summed = summed_chain(member.chain, values, length)
                    segments.append(summed.of_conditions(one, other))
            name = f"secret pair {number}"
            yield SumGiven(member.name, query.longest, unit, segments, pair=name)


@sums_given.register
def _(
    theta: EventClass, query: Query, pairs: Sequence[tuple[Event, Event]] | None
) -> Iterator[SumGiven]:
    if pairs is not None:
        raise ValueError("secrets: these beliefs already have secrets; name all of them there")
    theta.check_length(query.longest)
    values, unit = values_of(query, theta.states)
    for member, hidden in product(theta.known_chains(), theta.hidden):
        for length in sorted(set(query.lengths), reverse=True):
            tables = window_tables(member.chain, values, hidden, length)
            if tables is not None:
                yield SumGiven(member.name, length, unit, [tables])


def summed_chain(chain: MarkovChain, values: Sequence[int], length: int) -> SummedChain:
    """The sum over a chain; ``NotApplicable`` if its distributions need too much memory."""
    check_memory(length, len(values), max(values))
    return SummedChain(chain.initial, chain.transition, np.array(values, dtype=np.int64), length)


def entry_tables(chain: MarkovChain, values: Sequence[int], length: int) -> SumTables:
    """The tables of the values of each entry of a segment."""
    if max(values) == 0 or np.ptp(chain.transition, axis=0).max() == 0:
        # Entries are independent: the distributions given two values are shifts of one another.
        first = [values[x] for x in np.flatnonzero(chain.initial > 0).tolist()]
        later = [values[x] for x in np.flatnonzero(chain.transition[0] > 0).tolist()]
        spread = max(max(own) - min(own) for own in (first, later if length > 1 else first))
        alone = Distance(spread, 1, how="entries are independent")
        return SumTables(lambda: (), exactly=lambda: alone, floats=False)
    mirrored = chain.is_stationary and chain.is_reversible
    return summed_chain(chain, values, length).of_values(mirrored=mirrored)


def window_tables(
    chain: MarkovChain, values: Sequence[int], hidden: Secrets, length: int
) -> SumTables | None:
    """The tables of the secrets of each window of a segment; ``None`` if there are no windows."""
    if hidden.window == 1 and not isinstance(hidden, Events):
        return entry_tables(chain, values, length)
    if isinstance(hidden, Events) and hidden.window > length:
        return None  # a run is cut off where a segment is shorter
    summed = summed_chain(chain, values, length)
    of_sum = _labels_of_sum(hidden, chain.states, values, length)
    if of_sum is not None:
        return summed.of_sum(of_sum)
    return summed.of_labels(_window_labels(hidden, chain.states, length))


def _labels_of_sum(
    hidden: Secrets, states: Sequence[Hashable], values: Sequence[int], length: int
) -> Ints | None:
    """The label for each value of the sum, if the sum over the window tells how often it counts.

    So for "active at least 605 times" and the number of active entries, or of all others.
    """
    if not isinstance(hidden, Counted) or hidden.window != length or max(values) != 1:
        return None
    counted = [int(state in hidden.states) for state in states]
    if list(values) not in (counted, [1 - one for one in counted]):
        return None
    times = np.arange(length + 1) if list(values) == counted else length - np.arange(length + 1)
    return np.asarray(times >= (length if hidden.times is None else hidden.times), dtype=np.int64)


def _window_labels(hidden: Secrets, states: Sequence[Hashable], length: int) -> WindowLabels:
    """What reads the secret of a window: its label, or all values of its entries."""
    if isinstance(hidden, Events):
        automaton = hidden.automaton(states)
        return WindowLabels(automaton.moves, automaton.ends)
    if isinstance(hidden, Sets):
        raise NotApplicable(
            "the Wasserstein Mechanism does not cover sets of entries that are not consecutive; "
            "use influence_curve, or name the events with secrets="
        )
    window = min(hidden.window, length)
    count = len(states) ** window
    if count > _MOST_VALUES:
        raise NotApplicable(
            f"{window} entries of {len(states)} states have {count} values, more than "
            f"{_MOST_VALUES} for the Wasserstein Mechanism; use influence_curve"
        )
    own = Listed(window, tuple(map(str, range(count)))).automaton(states)
    return WindowLabels(own.moves, own.ends)


def condition(
    event: Mapping[Hashable, Any], entries: Sequence[Hashable], values: Sequence[Hashable]
) -> Condition:
    """An event by the indices of its entries and of the values that they may have."""
    places: Condition = {}
    for entry, allowed in event.items():
        if entry not in entries or isinstance(entry, bool):
            named = f"1 to {len(entries)}" if isinstance(entries, range) else list(entries)
            raise ValueError(f"secrets: {entry!r} is not an entry; the entries are {named}")
        several = isinstance(allowed, (list, tuple, set, frozenset)) and allowed not in values
        chosen = list(allowed) if several else [allowed]
        unknown = [value for value in chosen if value not in values]
        if unknown or not chosen:
            raise ValueError(
                f"secrets: entry {entry!r} cannot be {unknown or chosen}; its values are "
                f"{list(values)}"
            )
        places[entries.index(entry)] = sorted(values.index(value) for value in chosen)
    if not places:
        raise ValueError("secrets: an event must name at least one entry")
    return places


def _within(event: Condition, begin: int, length: int, size: int) -> dict[int, Bools]:
    """The conditions of an event on one segment, entries counted from 1."""
    allowed = {}
    for place, states in event.items():
        if begin <= place < begin + length:
            allowed[place - begin + 1] = np.isin(np.arange(size), states)
    return allowed


# --- networks and random fields ------------------------------------------------------------------


@sums_given.register(NetworkClass)
@sums_given.register(FieldClass)
def _(
    theta: GraphClass, query: Query, pairs: Sequence[tuple[Event, Event]] | None
) -> Iterator[SumGiven]:
    values, unit = values_of(query, theta.states)
    added = dict(zip(theta.states, values, strict=True))
    networks, rounding = as_networks(theta)
    for number, network in enumerate(networks, 1):
        belief = f"{theta.called} {number} of {len(networks)}"
        summed, nodes = summed_network(network, added), network.nodes
        if pairs is None:
            yield SumGiven(belief, len(nodes), unit, [summed.of_values()], rounding, nodes)
        for which, pair in enumerate(pairs or (), 1):
            one, other = (_of_nodes(event, network, theta.states) for event in pair)
            tables, name = summed.of_conditions(one, other), f"secret pair {which}"
            yield SumGiven(belief, len(nodes), unit, [tables], rounding, nodes, name)


@singledispatch
def as_networks(theta: Beliefs) -> tuple[Sequence[BayesianNetwork], float]:
    """The networks of a class, and the most that rounding adds to a loss; none for others."""
    return (), 0.0


@as_networks.register
def _(theta: NetworkClass) -> tuple[Sequence[BayesianNetwork], float]:
    return theta.networks, 0.0


@as_networks.register
def _(theta: FieldClass) -> tuple[Sequence[BayesianNetwork], float]:
    if len(theta.nodes) > MOST_FIELD:
        raise NotApplicable(
            f"the distribution of a sum over a Markov random field is computed for up to "
            f"{MOST_FIELD} nodes, here are {len(theta.nodes):,}; use influence_curve"
        )
    each, rounding = theta.networks()
    return [network for own in each for network in own.networks], rounding


def summed_network(network: BayesianNetwork, added: Mapping[Hashable, int]) -> SummedNetwork:
    """The sum over the nodes of a network, to which values add so many units."""
    place = network.graph.place
    factors = [
        ((*(place[p] for p in network.parents[node]), place[node]), network.arrays[node])
        for node in network.nodes
    ]
    return SummedNetwork(
        factors, [[added.get(v, 0) for v in network.values[n]] for n in network.nodes]
    )


def _of_nodes(event: Event, network: BayesianNetwork, states: Sequence[Hashable]) -> Condition:
    """An event about nodes; values that a node does not have are impossible there."""
    each = [network.values[node] for node in network.nodes]
    places = condition(event, network.nodes, states)
    return {
        n: [each[n].index(states[v]) for v in own if states[v] in each[n]]
        for n, own in places.items()
    }


# --- the mechanism -------------------------------------------------------------------------------


@one_thread()
def wasserstein(
    beliefs: Any,
    query: Query | Question,
    epsilon: float,
    over: Any = None,
    *,
    secrets: Secrets | Sequence[Secrets] | EventPairs | None = None,
    progress: Progress | None = None,
    most_work: float = inf,
) -> Calibration:
    """Noise of the Wasserstein Mechanism: W / epsilon.

    Theorem: [Q] Theorem 3.2. *Secrets*: any two values of an entry, or the pairs of events that are
    named. *Beliefs*: known distributions. *Releases*: one; epsilons of several do not add up ([C]
    Theorem 3.4). W is the largest infinity-Wasserstein distance between the distributions of the
    answer given two secrets, over secrets and beliefs. For vectors it is the distance in L1:
    answers coupled at most W apart have densities within a factor e^(W / scale) under Laplace noise
    of that scale on every coordinate.

    For one sum over a long series `exact_sum` is far quicker and never needs a thousandth more
    noise.

    Parameters
    ----------
    beliefs
        A `FiniteJoint` or several, with any query. Or a `MarkovChain`, `ChainClass.of` chains, a
        `BayesianNetwork` or a `MarkovRandomField` or several, with a sum over entries: `count`,
        `total` or `mean`.
    query
        A number. Also a vector for a `FiniteJoint`, and a vector of sums (a histogram) for networks
        and random fields that are small enough to list all data.
    epsilon
        Pufferfish privacy for each entry.
    secrets
        Pairs of events to be kept indistinguishable; then only these are hidden. An event is a
        mapping from entries (counted from 1) or names of variables to the value, or the values,
        that each may have; for joint distributions also a function of a row. By default every two
        values of every entry. Or `Secrets`, about windows wherever they lie.
    progress
        Called with the number of entries done and their total.
    most_work
        About how many nanoseconds before giving up.

    Raises
    ------
    NotApplicable
        For vectors over chains, for queries that are not sums, for series with entries that were
        not observed, and for classes with any start.

    Examples
    --------
    >>> from pufferkit import MarkovChain, count
    >>> chain = MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    >>> round(wasserstein(chain, count(1, 20), epsilon=1).scale, 3)
    4.0
    >>> slept, awake = {6: 0, 7: 0}, {6: 1}
    >>> round(wasserstein(chain, count(1, 20), epsilon=1, secrets=[(slept, awake)]).scale, 3)
    5.0
    """
    windows, pairs = _kinds(secrets)
    theta, query, epsilon = checked(beliefs, query, epsilon, over, windows)
    if query.chooses or (query.size > 1 and theta.entries is None):
        raise NotApplicable(
            f"the Wasserstein Mechanism is for numbers over chains, and {query.name} has "
            f"{query.size} coordinates; use influence_curve or markov_quilt, which take vectors"
        )
    if query.missing:
        raise NotApplicable(GAPS)
    worst, rounding, record = _largest_distance(theta, query, pairs, progress, most_work)
    if worst.distance == 0:
        raise NotApplicable("no secret moves the answer: there is nothing to hide")
    if epsilon <= rounding:
        raise NotApplicable(
            f"epsilon {epsilon:g} is below the rounding error of {theta.description}; use a "
            "larger one"
        )
    distance, belief = at_least(worst.distance), worst.belief
    return Calibration(
        "wasserstein",
        epsilon,
        round_up(distance / (epsilon - rounding)),
        query,
        theta,
        Evidence(
            belief,
            worst.node,
            worst.length,
            influence=distance,
            notes=worst.notes,
            bound="distance",
        ),
        guarantee=Guarantee.PUFFERFISH if pairs is None else Guarantee.SECRETS,
        verification_data=record,
        # A function is known by the rows that it selects.
        options={} if pairs is None else {"secrets": (record or {}).get("secrets", pairs)},
    )


def _kinds(secrets: Any) -> tuple[list[Secrets] | None, EventPairs | None]:
    """Secrets about windows, or pairs of events."""
    if isinstance(secrets, Secrets):
        return [secrets], None
    given = list(secrets) if isinstance(secrets, Iterable) else secrets
    if isinstance(given, list) and given and all(isinstance(one, Secrets) for one in given):
        return given, None
    return None, given


def _pairs(secrets: EventPairs, *, functions: bool = False) -> list[tuple[Any, Any]]:
    """The pairs as given, each of two mappings or, for joint distributions, functions."""
    try:
        chosen = [(one, other) for one, other in secrets]
    except (TypeError, ValueError):
        chosen = []
    events = [event for pair in chosen for event in pair]
    if not events or not all(isinstance(e, Mapping) or (functions and callable(e)) for e in events):
        also = ", or functions of a row" if functions else ""
        raise ValueError(
            f"secrets: must be pairs of events, at least one pair: mappings from entries to values"
            f"{also}; for example [({{1: 0}}, {{1: 1}})]"
        )
    return chosen


def _largest_distance(
    theta: Beliefs,
    query: Query,
    secrets: EventPairs | None,
    progress: Progress | None,
    most_work: float,
) -> tuple[Farthest, float, dict[str, Any] | None]:
    """The largest distance over a class, what rounding adds to a loss, and verification data."""
    joints, called, rounding = _listed(theta, query, most_work)
    pairs = None if secrets is None else _pairs(secrets, functions=joints is theta)
    if query.weights is None and joints is None:
        raise NotApplicable(
            f"{query.name} is not a sum over entries, so its distribution needs listing all "
            "data; use influence_curve or markov_quilt, or a FiniteJoint"
        )
    if joints is not None:
        found, record = _by_listing(joints, called, query, pairs)
        return found, rounding, record if joints is theta else _recorded(theta, query, pairs)
    given = list(sums_given(theta, query, pairs))
    check_work(sum(tables.work for own in given for tables in own.segments), most_work)
    worst = Farthest(Fraction(0), None, "", query.longest)
    for own in given:
        farthest = own.farthest(progress)
        worst = farthest if farthest.distance > worst.distance or not worst.belief else worst
    rounding = max((own.rounding for own in given), default=0.0)
    return worst, rounding, _recorded(theta, query, pairs)


def check_work(work: float, most: float) -> None:
    """Refuse what takes more nanoseconds than are allowed, before it is begun."""
    if work > most:
        raise TakesLong(
            "it would take too long here, and exact_sum never needs a thousandth more noise"
        )


def _recorded(
    theta: Beliefs, query: Query, pairs: Sequence[tuple[Event, Event]] | None
) -> dict[str, Any] | None:
    """The verification data of events: by numbers of entries, or by nodes and their values."""
    if pairs is None:
        return None
    graph = theta.entries is not None
    entries: Sequence[Hashable] = theta.entries or range(1, sum(query.lengths) + 1)

    def written(event: Event) -> list[Any]:
        places = sorted(condition(event, entries, theta.states).items())
        return [[entries[n], [theta.states[v] for v in own] if graph else own] for n, own in places]

    return {"secrets": [[written(event) for event in pair] for pair in pairs]}


# --- joint distributions, row by row -------------------------------------------------------------


@singledispatch
def _listed(theta: Beliefs, query: Query, most_work: float) -> tuple[JointClass | None, str, float]:
    """Joint distributions as they are, and networks where a vector is asked; else ``None``.

    With the noun for one of them, and the most that rounding adds to a loss.
    """
    return None, "", 0.0


@_listed.register
def _(theta: JointClass, query: Query, most_work: float) -> tuple[JointClass | None, str, float]:
    rows = float(max(len(own.table) for own in theta.joints))
    check_work(len(theta.joints) * _vector_work(theta, query, rows), most_work)
    return theta, "joint", 0.0


@_listed.register
def _(theta: GraphClass, query: Query, most_work: float) -> tuple[JointClass | None, str, float]:
    if query.size == 1 or query.weights is None:
        return None, "", 0.0
    check_work(_vector_work(theta, query, float(len(theta.states)) ** len(theta.nodes)), most_work)
    networks, rounding = as_networks(theta)
    return JointClass(tuple(_as_joint(network) for network in networks)), theta.called, rounding


def _vector_work(theta: Beliefs, query: Query, rows: float) -> float:
    """A flow through all pairs of answers, for every entry and two of its values."""
    if query.size == 1:
        return 0.0
    entries, values = len(theta.entries or ()), len(theta.states)
    answers = min(rows, comb(entries + values - 1, entries)) if query.weights else rows
    return entries * values * (values - 1) / 2 * _PAIR_OF_ANSWERS * answers**2


def _by_listing(
    theta: JointClass,
    called: str,
    query: Query,
    pairs: Sequence[tuple[Event | RowEvent, Event | RowEvent]] | None,
) -> tuple[Farthest, dict[str, Any]]:
    """The largest distance over joint distributions, and the record for `verify`.

    It holds all answers, and the rows of the secrets that were given.
    """
    worst = Farthest(Fraction(0), None, "", theta.joints[0].variables)
    every, secrets = [], []
    for number, joint in enumerate(theta.joints, 1):
        answers = [_answer(query, row) if p > 0 else None for row, p in joint.table.items()]
        every.append([None if own is None else _written(own) for own in answers])
        named = _values(joint) if pairs is None else _given(joint, theta.states, pairs)
        secrets.append([rows for _, rows in named])
        for node, events in named:
            distributions = [_distribution_given(joint, answers, rows) for rows in events]
            distance = _largest_between([own for own in distributions if own], worst.distance)
            if distance > worst.distance or not worst.belief:
                belief = f"{called} {number} of {len(theta.joints)}"
                worst = Farthest(distance, node, belief, joint.variables)
    return worst, {"answers": every} | ({} if pairs is None else {"secrets": secrets})


RowsOfEvents = list[list[int]]
"""For each of several events, the rows of the table where it holds."""


def _values(joint: FiniteJoint) -> list[tuple[Hashable, RowsOfEvents]]:
    """Of each variable, the rows with each of its values."""
    named = []
    for place, name in enumerate(joint.names):
        rows: dict[Hashable, list[int]] = {}
        for n, row in enumerate(joint.table):
            rows.setdefault(row[place], []).append(n)
        named.append((name, list(rows.values())))
    return named


def _given(
    joint: FiniteJoint,
    states: Sequence[Hashable],
    pairs: Sequence[tuple[Event | RowEvent, Event | RowEvent]],
) -> list[tuple[Hashable, RowsOfEvents]]:
    """Of each pair of events, the rows where either holds."""

    def rows(event: Event | RowEvent) -> list[int]:
        if not isinstance(event, Mapping):
            return [n for n, row in enumerate(joint.table) if event(row)]
        places = condition(event, joint.names, states).items()
        allowed = [(n, {states[v] for v in own}) for n, own in places]
        return [
            n for n, row in enumerate(joint.table) if all(row[at] in own for at, own in allowed)
        ]

    return [(f"secret pair {n}", [*map(rows, pair)]) for n, pair in enumerate(pairs, 1)]


def _largest_between(
    distributions: Sequence[Mapping[tuple[Fraction, ...], Fraction]], least: Fraction
) -> Fraction:
    """The largest W-infinity between two of these distributions, or ``least`` if that is more."""
    for pair in combinations(distributions, 2):
        if all(len(answer) == 1 for masses in pair for answer in masses):
            numbers = ({answer[0]: p for answer, p in masses.items()} for masses in pair)
            least = max(least, Fraction(w_infinity(*numbers)))
        else:
            one, other = map(_whole_masses, pair)
            least = bottleneck_distance(one, other, least)
    return least


def _whole_masses(
    masses: Mapping[tuple[Fraction, ...], Fraction],
) -> list[tuple[tuple[Fraction, ...], int]]:
    unit = lcm(*(mass.denominator for mass in masses.values()))
    return [(answer, int(mass * unit)) for answer, mass in masses.items()]


def _distribution_given(
    joint: FiniteJoint, answers: Sequence[tuple[Fraction, ...] | None], rows: Sequence[int]
) -> dict[tuple[Fraction, ...], Fraction]:
    """Distribution of the answer on these rows; empty if they are impossible."""
    distribution: dict[tuple[Fraction, ...], Fraction] = {}
    chances = list(joint.table.values())
    for n in rows:
        if (answer := answers[n]) is not None:
            mass = as_fraction("table", chances[n])
            distribution[answer] = distribution.get(answer, Fraction(0)) + mass
    whole = sum(distribution.values(), Fraction(0))
    return {answer: mass / whole for answer, mass in distribution.items()}


def _answer(query: Query, row: JointRow) -> tuple[Fraction, ...]:
    """The exact answer about one data set, as a release computes it."""
    if query.weights is not None:
        columns = zip(*query.added(row), strict=True)
        return tuple(sum(column, Fraction(0)) for column in columns)
    # The exact value of the floats, as a release uses them, not the decimals they print as.
    answer = np.atleast_1d(checks.numbers("answer", query.evaluate(np.array(row)))).ravel()
    if len(answer) != query.size:
        raise ValueError(
            f"evaluate: returned {len(answer)} numbers but the query has {query.size} labels"
        )
    return tuple(Fraction(float(number)) for number in answer)


def _written(answer: tuple[Fraction, ...]) -> str | list[str]:
    return str(answer[0]) if len(answer) == 1 else [str(number) for number in answer]


def _as_joint(network: BayesianNetwork) -> FiniteJoint:
    """Every data set of a network with its exact probability; floats count as their decimals."""
    sizes = [len(network.values[node]) for node in network.nodes]
    if prod(sizes) > MOST_LISTED:
        raise NotApplicable(
            f"{len(sizes)} nodes make {prod(sizes):,} data sets, more than {MOST_LISTED:,} to list "
            "for the distribution of a vector; ask for one number, or use influence_curve"
        )
    rows: dict[tuple[Hashable, ...], Fraction] = {(): Fraction(1)}
    place = {node: n for n, node in enumerate(network.nodes)}  # parents before children
    for node in network.nodes:
        parents = network.parents[node]
        tables = {
            key: [as_fraction("tables", p) for p in probabilities]
            for key, probabilities in network.tables[node].items()
        }
        following = {}
        for row, mass in rows.items():
            own = tables[tuple(row[place[parent]] for parent in parents)]
            whole = sum(own, Fraction(0))
            for value, p in zip(network.values[node], own, strict=True):
                following[(*row, value)] = mass * p / whole
        rows = following
    return FiniteJoint(rows, network.nodes)
