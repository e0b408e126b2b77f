"""The Wasserstein Mechanism: [Q] Algorithm 1."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial, singledispatch
from math import comb, prod
from typing import Any

import numpy as np

from pufferkit import checks
from pufferkit.beliefs.base import Beliefs
from pufferkit.beliefs.bayesian_network import BayesianNetwork, NetworkClass
from pufferkit.beliefs.chain_class import ChainClass
from pufferkit.beliefs.event_class import EventClass
from pufferkit.beliefs.finite_joint import FiniteJoint, JointClass, JointRow
from pufferkit.beliefs.markov_random_field import FieldClass
from pufferkit.beliefs.secrets import Secrets
from pufferkit.data.query import Query, Question
from pufferkit.errors import NotApplicable
from pufferkit.influence.progress import Progress
from pufferkit.mechanisms.calibration import GAPS, Calibration, checked
from pufferkit.mechanisms.evidence import Evidence, Guarantee
from pufferkit.mechanisms.sum_distances import (
    Event,
    Farthest,
    LargestDistance,
    chain_distance,
    checked_distance,
    condition,
    events_of_nodes,
    known_members,
    largest_between,
    of_conditions,
    of_network_events,
    recorded_events,
    summed_network,
    values_of,
    window_distance,
    work_of_chain,
    work_of_windows,
)
from pufferkit.rounding import as_fraction, at_least, round_up
from pufferkit.threads import one_thread

RowEvent = Callable[[JointRow], bool]
EventPairs = Iterable[tuple[Event | RowEvent, Event | RowEvent]]
"""Pairs of events that must stay indistinguishable."""

MOST_LISTED = 4096
"""Most data sets of a network that are listed for the distribution of a vector."""

_PAIR_OF_ANSWERS = 1e4  # nanoseconds in a flow

MOST_FIELD = 200
"""Most nodes of a Markov random field for which the distribution of a sum is computed."""


@one_thread()
def wasserstein(
    beliefs: Any,
    query: Query | Question,
    epsilon: float,
    over: Any = None,
    *,
    secrets: Secrets | Sequence[Secrets] | EventPairs | None = None,
    progress: Progress | None = None,
) -> Calibration:
    """Noise of the Wasserstein Mechanism: W / epsilon.

    Theorem: [Q] Theorem 3.2. *Secrets*: any two values of an entry, or the pairs of events that are
    named. *Beliefs*: known distributions. *Releases*: one; epsilons of several do not add up ([C]
    Theorem 3.4). W is the largest infinity-Wasserstein distance between the distributions of the
    answer given two secrets, over secrets and beliefs. For vectors it is the distance in L1:
    answers coupled at most W apart have densities within a factor e^(W / scale) under Laplace noise
    of that scale on every coordinate.

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
    worst, name, length, verification_data = _largest_distance(theta, query, pairs, progress)
    if worst.distance == 0:
        raise NotApplicable("no secret moves the answer: there is nothing to hide")
    if epsilon <= worst.rounding:
        raise NotApplicable(
            f"epsilon {epsilon:g} is below the rounding error of {theta.description}; use a "
            "larger one"
        )
    distance = at_least(worst.distance)
    return Calibration(
        "wasserstein",
        epsilon,
        round_up(distance / (epsilon - worst.rounding)),
        query,
        theta,
        Evidence(name, worst.node, length, influence=distance, notes=worst.notes, bound="distance"),
        guarantee=Guarantee.PUFFERFISH if pairs is None else Guarantee.SECRETS,
        verification_data=verification_data,
        # A function is known by the rows that it selects.
        options={}
        if pairs is None
        else {"secrets": (verification_data or {}).get("secrets", pairs)},
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


def _verification_data(
    theta: JointClass,
    query: Query,
    secrets: Sequence[tuple[RowEvent, RowEvent]] | None,
) -> dict[str, Any]:
    """Verification data: the answer on every row, and the rows of every secret."""
    record: dict[str, Any] = {
        "answers": [
            [_written(_answer(query, row)) if p > 0 else None for row, p in joint.table.items()]
            for joint in theta.joints
        ]
    }
    if secrets is not None:
        record["secrets"] = [
            [
                [[n for n, row in enumerate(joint.table) if event(row)] for event in pair]
                for pair in secrets
            ]
            for joint in theta.joints
        ]
    return record


@singledispatch
def _largest_distance(
    theta: Beliefs, query: Query, secrets: EventPairs | None, progress: Progress | None
) -> LargestDistance:
    """The largest distance over a class, where it is attained, and verification data."""
    raise NotApplicable(f"the Wasserstein Mechanism has no theorem for a {theta.description}")


@_largest_distance.register
def _(
    theta: ChainClass, query: Query, secrets: EventPairs | None, progress: Progress | None
) -> LargestDistance:
    _only_sums(query)
    if secrets is not None:
        return of_conditions(theta, query, _pairs(secrets))
    distances = (
        (member.name, partial(chain_distance, member.chain, query, progress=progress))
        for member in known_members(theta)
    )
    return _over_lengths(query, distances)


@_largest_distance.register
def _(
    theta: EventClass, query: Query, secrets: EventPairs | None, progress: Progress | None
) -> LargestDistance:
    _only_sums(query)
    if secrets is not None:
        raise ValueError("secrets: these beliefs already have secrets; name all of them there")
    theta.check_length(query.longest)
    distances = (
        (member.name, partial(window_distance, member.chain, query, hidden, progress=progress))
        for member in theta.known_chains()
        for hidden in theta.hidden
    )
    return _over_lengths(query, distances)


def _over_lengths(
    query: Query, distances: Iterable[tuple[str, Callable[[int], Farthest | None]]]
) -> LargestDistance:
    """The largest of named distances over the lengths of segments."""
    worst, name, length = Farthest(Fraction(0), None), "", query.longest
    for called, distance_over in distances:
        for size in sorted(set(query.lengths), reverse=True):
            distance = distance_over(size)
            if distance is not None and (distance.distance > worst.distance or not name):
                worst, name, length = distance, called, size
    return worst, name, length, None


@_largest_distance.register
def _(
    theta: NetworkClass, query: Query, secrets: EventPairs | None, progress: Progress | None
) -> LargestDistance:
    _only_sums(query)
    if query.size > 1:
        joints = JointClass(tuple(_listed(network) for network in theta.networks))
        pairs = None if secrets is None else _pairs(secrets)
        worst, name, length, _ = _largest_distance(joints, query, pairs, progress)
        record = None if pairs is None else recorded_events(events_of_nodes(theta, pairs))
        return worst, name.replace("joint", "network"), length, record
    worst, name = Farthest(Fraction(0), None), ""
    values, unit = values_of(query, theta.states)
    added = dict(zip(theta.states, values, strict=True))
    if secrets is not None:
        return of_network_events(theta, added, unit, _pairs(secrets))
    for number, network in enumerate(theta.networks, 1):
        between = summed_network(network, added).by_value()
        largest = checked_distance(between, unit)
        if largest.distance > worst.distance or not name:
            worst = replace(largest, node=network.nodes[between.place])
            name = f"network {number} of {len(theta.networks)}"
    return worst, name, len(theta.nodes), None


@_largest_distance.register
def _(
    theta: FieldClass, query: Query, secrets: EventPairs | None, progress: Progress | None
) -> LargestDistance:
    _only_sums(query)
    if len(theta.nodes) > MOST_FIELD:
        raise NotApplicable(
            f"the distribution of a sum over a Markov random field is computed for up to "
            f"{MOST_FIELD} nodes, here are {len(theta.nodes):,}; use influence_curve"
        )
    networks, rounding = theta.networks()
    each = [_largest_distance(network, query, secrets, progress) for network in networks]
    far = [distance.distance for distance, *_ in each]
    worst, _, length, verification_data = each[far.index(max(far))]
    name = f"field {far.index(max(far)) + 1} of {len(far)}"
    return replace(worst, rounding=rounding), name, length, verification_data


@_largest_distance.register
def _(
    theta: JointClass, query: Query, secrets: EventPairs | None, progress: Progress | None
) -> LargestDistance:
    chosen = None if secrets is None else _functions(theta, _pairs(secrets, functions=True))
    worst, name = Farthest(Fraction(0), None), ""
    for number, joint in enumerate(theta.joints, 1):
        answers = {row: _answer(query, row) for row, p in joint.table.items() if p > 0}
        for node, events in _events(joint, chosen):
            distributions = [_distribution_given(joint, answers, event) for event in events]
            distance = largest_between([own for own in distributions if own], worst.distance)
            if distance > worst.distance or not name:
                worst, name = Farthest(distance, node), f"joint {number} of {len(theta.joints)}"
    return worst, name, theta.joints[0].variables, _verification_data(theta, query, chosen)


def _only_sums(query: Query) -> None:
    """Refuse queries that are not sums: only the distribution of a sum is computed."""
    if query.weights is None:
        raise NotApplicable(
            f"{query.name} is not a sum over entries, so its distribution needs listing all "
            "data; use influence_curve or markov_quilt, or a FiniteJoint"
        )


def _functions(
    theta: JointClass, pairs: Sequence[tuple[Event | RowEvent, Event | RowEvent]]
) -> list[tuple[RowEvent, RowEvent]]:
    """Events as functions of a row."""
    joint = theta.joints[0]

    def function(event: Event | RowEvent) -> RowEvent:
        if not isinstance(event, Mapping):
            return event
        places = condition(event, joint.names, theta.states)
        allowed = {n: {theta.states[v] for v in own} for n, own in places.items()}
        return lambda row: all(row[n] in own for n, own in allowed.items())

    return [(function(one), function(other)) for one, other in pairs]


def _events(
    joint: FiniteJoint,
    secrets: Sequence[tuple[RowEvent, RowEvent]] | None,
) -> Iterator[tuple[Hashable, list[RowEvent]]]:
    """Events to be kept indistinguishable: the values of each variable, or the given pairs."""
    if secrets is not None:
        for number, pair in enumerate(secrets, 1):
            yield f"secret pair {number}", list(pair)
        return
    for place, name in enumerate(joint.names):
        yield (
            name,
            [
                lambda row, place=place, value=value: row[place] == value  # type: ignore[misc]
                for value in joint.values(name)
            ],
        )


def _distribution_given(
    joint: FiniteJoint, answers: dict[JointRow, tuple[Fraction, ...]], event: RowEvent
) -> dict[tuple[Fraction, ...], Fraction]:
    """Distribution of the answer given an event; empty if the event is impossible."""
    distribution: dict[tuple[Fraction, ...], Fraction] = {}
    for row, answer in answers.items():
        if event(row):
            mass = as_fraction("table", joint.table[row])
            distribution[answer] = distribution.get(answer, Fraction(0)) + mass
    whole = sum(distribution.values(), Fraction(0))
    return {answer: mass / whole for answer, mass in distribution.items()}


def _answer(query: Query, row: JointRow) -> tuple[Fraction, ...]:
    """The exact answer about one data set, as a release computes it."""
    if query.weights is not None:
        nothing = (Fraction(0),) * query.size
        rows = [query.weights.get(value, nothing) for value in row]
        return tuple(sum(column, Fraction(0)) for column in zip(*rows, strict=True))
    # The exact value of the floats, as a release uses them, not the decimals they print as.
    answer = np.atleast_1d(checks.numbers("answer", query.evaluate(np.array(row)))).ravel()
    if len(answer) != query.size:
        raise ValueError(
            f"evaluate: returned {len(answer)} numbers but the query has {query.size} labels"
        )
    return tuple(Fraction(float(number)) for number in answer)


def _written(answer: tuple[Fraction, ...]) -> str | list[str]:
    return str(answer[0]) if len(answer) == 1 else [str(number) for number in answer]


def _listed(network: BayesianNetwork) -> FiniteJoint:
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


@singledispatch
def estimated_work(theta: Beliefs, query: Query) -> float:
    """Approximate nanoseconds, of a compiler too; 0 if the mechanism refuses or needs few."""
    if query.size > 1 and theta.entries is not None:
        return _vector_work(theta, query)
    if query.size > 1 or query.weights is None or theta.entries is not None:
        return 0.0
    values, _ = values_of(query, theta.states)
    try:
        chains = [member.chain for member in theta.members()]
    except NotApplicable:
        return 0.0
    lengths = set(query.lengths)
    return sum(work_of_chain(chain, length, max(values)) for chain in chains for length in lengths)


@estimated_work.register
def _(theta: EventClass, query: Query) -> float:
    return 0.0 if query.size > 1 or query.weights is None else work_of_windows(theta, query)


@estimated_work.register
def _(theta: NetworkClass, query: Query) -> float:
    if query.weights is None:
        return 0.0
    if query.size > 1:
        return _vector_work(theta, query)
    values, _ = values_of(query, theta.states)
    added = dict(zip(theta.states, values, strict=True))
    return sum(summed_network(network, added).work for network in theta.networks)


@estimated_work.register
def _(theta: FieldClass, query: Query) -> float:
    if query.weights is None or len(theta.nodes) > MOST_FIELD:
        return 0.0
    if query.size > 1:
        return _vector_work(theta, query)
    try:
        networks, _ = theta.networks()
    except NotApplicable:
        return 0.0
    return sum(estimated_work(network, query) for network in networks)


@singledispatch
def _tables_of(theta: Beliefs) -> tuple[int, float] | None:
    """How many tables are listed, and the rows of the largest; ``None`` for other beliefs."""
    return None


@_tables_of.register
def _(theta: JointClass) -> tuple[int, float] | None:
    return len(theta.joints), float(max(len(own.table) for own in theta.joints))


def _vector_work(theta: Beliefs, query: Query) -> float:
    """A flow through all pairs of answers, for every entry and two of its values."""
    entries, values = len(theta.entries or ()), len(theta.states)
    members, listed = _tables_of(theta) or (1, float(values) ** entries)
    answers = min(listed, comb(entries + values - 1, entries)) if query.weights else listed
    return members * entries * values * (values - 1) / 2 * _PAIR_OF_ANSWERS * answers**2
