"""The Wasserstein Mechanism: [Q] Algorithm 1."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial, singledispatch
from itertools import combinations, product
from math import comb, gcd, lcm, prod
from typing import Any

import numpy as np

from pufferkit import checks
from pufferkit.beliefs.base import Beliefs
from pufferkit.beliefs.bayesian_network import BayesianNetwork, NetworkClass
from pufferkit.beliefs.chain_class import ChainClass, Member
from pufferkit.beliefs.event_class import EventClass
from pufferkit.beliefs.finite_joint import FiniteJoint, JointClass, JointRow
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.beliefs.markov_random_field import FieldClass
from pufferkit.beliefs.secrets import Automaton, Counted, Events, Listed, Secrets, Sets
from pufferkit.checks import Bools, Ints
from pufferkit.data.query import Query, Question
from pufferkit.errors import NotApplicable
from pufferkit.influence.progress import Progress
from pufferkit.influence.sums.chain_sums import (
    Distance,
    SummedChain,
    WindowLabels,
    check_memory,
    value_work,
    waited,
)
from pufferkit.influence.sums.lattice import bottleneck_distance, fits_floats, w_infinity
from pufferkit.influence.sums.network_sums import MOST_EXACT, SummedNetwork
from pufferkit.mechanisms.calibration import GAPS, Calibration, checked
from pufferkit.mechanisms.release import Evidence, Guarantee
from pufferkit.rounding import as_fraction, at_least, round_up
from pufferkit.threads import one_thread

# --- how far secrets move a sum: the distances of the Wasserstein Mechanism ---------------------
#
# Secrets are the values of entries of a known chain, labels of windows, or events about named
# entries and nodes.

OPEN_TIE = "a tie could not be decided in floats and counted as the larger distance"


@dataclass(frozen=True)
class Farthest:
    """The largest distance for one belief, exactly or rounded up, and where it is."""

    distance: Fraction
    node: Hashable
    notes: tuple[str, ...] = ()
    rounding: float = 0.0  # the most that the rounding of probabilities adds to a loss


LargestDistance = tuple[Farthest, str, int, dict[str, Any] | None]
"""The largest distance over a class, the belief that attains it, the length, and verification
data."""


def known_members(theta: ChainClass) -> tuple[Member, ...]:
    """The chains of a class; ``NotApplicable`` if their distributions are unknown."""
    members = theta.members()
    if any(member.chain.has_underflow for member in members):
        raise NotApplicable("the probability of some states underflows; drop or merge them")
    if any(member.any_start for member in members):
        raise NotApplicable(
            "the Wasserstein Mechanism needs known distributions, and this class allows any "
            "start; name the starts with ChainClass.of, or use influence_curve"
        )
    return members


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


def chain_distance(
    chain: MarkovChain, query: Query, length: int, progress: Progress | None
) -> Farthest:
    """W between any two values of an entry, for the entries of a segment of one length."""
    values, unit = values_of(query, chain.states)
    if max(values) == 0:
        return Farthest(Fraction(0), 1)
    if np.ptp(chain.transition, axis=0).max() == 0:
        # Entries are independent: the distributions given two values are shifts of one another.
        possible = [values[x] for x in np.flatnonzero(chain.transition[0] > 0)]
        possible += [values[x] for x in np.flatnonzero(chain.initial > 0)] if length == 1 else []
        first = [values[x] for x in np.flatnonzero(chain.initial > 0)]
        spread = max(max(first) - min(first), (max(possible) - min(possible)) if length > 1 else 0)
        return Farthest(spread * unit, 1, ("entries are independent",))
    distance = summed_chain(chain, values, length).by_value(
        mirrored=chain.is_stationary and chain.is_reversible, progress=progress
    )
    if not (distance.unsure or distance.lost):
        return Farthest(distance.value * unit, distance.place)
    network = SummedNetwork.of_chain(chain.initial, chain.transition, values, length)
    if network.exact_work <= MOST_EXACT:
        exact = network.exactly()
        return Farthest(exact.value * unit, exact.place + 1, ("ties decided by exact arithmetic",))
    return checked_distance(distance, unit)


def summed_chain(chain: MarkovChain, values: Sequence[int], length: int) -> SummedChain:
    """The sum over a chain; ``NotApplicable`` if its distributions need too much memory."""
    check_memory(length, len(values), max(values))
    return SummedChain(chain.initial, chain.transition, np.array(values, dtype=np.int64), length)


def checked_distance(distance: Distance, unit: Fraction) -> Farthest:
    """A distance in the unit of the answer; refused if some probability underflowed."""
    if distance.lost:
        raise NotApplicable(
            "the probability of some sums underflows, and the least likely decide the distance; "
            "use influence_curve, a shorter series, or beliefs without transitions of tiny "
            "probability"
        )
    notes = (OPEN_TIE,) if distance.unsure else ()
    return Farthest(distance.value * unit, distance.place, notes)


def work_of_chain(chain: MarkovChain, length: int, largest: int) -> float:
    """Approximate nanoseconds of `chain_distance`, those of a compiler before it included."""
    work = value_work(length, len(chain), largest)
    if fits_floats(chain.initial, chain.transition, length, largest):
        return work
    return work + waited(work)


def values_of(query: Query, states: Sequence[Hashable]) -> tuple[list[int], Fraction]:
    """What each state adds to the answer, in whole multiples of a unit, and the unit."""
    nothing = (Fraction(0),)
    return whole_values((query.weights or {}).get(s, nothing)[0] for s in states)


def largest_between(
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


# --- labels of windows, and events ----------------------------------------------------------------

Event = Mapping[Hashable, Any]
"""Entries or variables by name, and the value or the values that each may have."""

Condition = dict[int, list[int]]
"""Indices of entries, and the indices of the states that each may have."""

_MOST_VALUES = 256  # of a window, as all pairs of them are compared


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


def of_conditions(
    theta: ChainClass, query: Query, pairs: Sequence[tuple[Event, Event]]
) -> LargestDistance:
    """W between events about named entries, counted through all segments.

    Segments are independent, so distances of the segments that a pair of events is about add up:
    moving the sum of each by at most its own distance moves the whole by at most their sum.
    """
    entries = range(1, sum(query.lengths) + 1)
    events = [[condition(event, entries, theta.states) for event in pair] for pair in pairs]
    worst, name = Farthest(Fraction(0), None), ""
    for member in known_members(theta):
        chain = member.chain
        values, unit = values_of(query, chain.states)
        for number, pair in enumerate(events, 1):
            total, notes, begin = Fraction(0), dict[str, None](), 0
            for length in query.lengths:
                own = [_within(event, begin, length, len(values)) for event in pair]
                begin += length
                if not any(own):
                    continue
                summed = summed_chain(chain, values, length)
                between = checked_distance(summed.by_condition(own[0], own[1]), unit)
                notes |= dict.fromkeys(between.notes)
                total += between.distance
            if total > worst.distance or not name:
                worst = Farthest(total, f"secret pair {number}", tuple(notes))
                name = member.name
    record = [[[[p + 1, v] for p, v in sorted(e.items())] for e in pair] for pair in events]
    return worst, name, query.longest, {"secrets": record}


def _within(event: Condition, begin: int, length: int, size: int) -> dict[int, Bools]:
    """The conditions of an event on one segment, entries counted from 1."""
    allowed = {}
    for place, states in event.items():
        if begin <= place < begin + length:
            allowed[place - begin + 1] = np.isin(np.arange(size), states)
    return allowed


def of_network_events(
    theta: NetworkClass,
    added: Mapping[Hashable, int],
    unit: Fraction,
    pairs: Sequence[tuple[Event, Event]],
) -> LargestDistance:
    """W between events about named nodes; values add multiples of ``unit``."""
    worst, name = Farthest(Fraction(0), None), ""
    every = events_of_nodes(theta, pairs)
    for number, events in enumerate(every, 1):
        for which, network in enumerate(theta.networks, 1):
            one, other = (_of_nodes(event, network) for event in events)
            between = checked_distance(
                summed_network(network, added).by_condition(one, other), unit
            )
            if between.distance > worst.distance or not name:
                worst = replace(between, node=f"secret pair {number}")
                name = f"network {which} of {len(theta.networks)}"
    return worst, name, len(theta.nodes), recorded_events(every)


def events_of_nodes(
    theta: NetworkClass, pairs: Sequence[tuple[Event, Event]]
) -> list[list[dict[Hashable, list[Hashable]]]]:
    """Pairs of events, each by its nodes and the values that these may have."""
    every = []
    for pair in pairs:
        places = [condition(event, theta.nodes, theta.states) for event in pair]
        every.append(
            [
                {theta.nodes[n]: [theta.states[v] for v in own] for n, own in event.items()}
                for event in places
            ]
        )
    return every


def recorded_events(every: Sequence[Sequence[Mapping[Hashable, Any]]]) -> dict[str, Any]:
    """The verification data of events about nodes."""
    record = [[[[node, own] for node, own in event.items()] for event in pair] for pair in every]
    return {"secrets": record}


def _of_nodes(event: Mapping[Hashable, Sequence[Hashable]], network: BayesianNetwork) -> Condition:
    """An event by the numbers of its nodes and of those of their values that it allows."""
    return {
        network.graph.place[node]: [
            n for n, value in enumerate(network.values[node]) if value in allowed
        ]
        for node, allowed in event.items()
    }


def window_distance(
    chain: MarkovChain, query: Query, hidden: Secrets, length: int, progress: Progress | None
) -> Farthest | None:
    """W between the secrets of the windows of a segment; ``None`` if there are no windows."""
    if hidden.window == 1 and not isinstance(hidden, Events):
        return chain_distance(chain, query, length, progress)
    if isinstance(hidden, Events) and hidden.window > length:
        return None
    values, unit = values_of(query, chain.states)
    of_sum = labels_of_sum(hidden, chain.states, values, length)
    if of_sum is not None:
        return checked_distance(summed_chain(chain, values, length).by_sum(of_sum), unit)
    labels = window_labels(hidden, chain.states, length)
    return checked_distance(summed_chain(chain, values, length).by_label(labels, progress), unit)


def labels_of_sum(
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


def window_labels(hidden: Secrets, states: Sequence[Hashable], length: int) -> WindowLabels:
    """What reads the secret of a window: its label, or all values of its entries."""
    if isinstance(hidden, Events):
        return _read_by(hidden.automaton(states))
    if isinstance(hidden, Sets):
        raise NotApplicable(
            "the Wasserstein Mechanism does not cover sets of entries that are not consecutive; "
            "use "
            "influence_curve, or name the events with secrets="
        )
    window = min(hidden.window, length)
    count = len(states) ** window
    if count > _MOST_VALUES:
        raise NotApplicable(
            f"{window} entries of {len(states)} states have {count} values, more than "
            f"{_MOST_VALUES} for the Wasserstein Mechanism; use influence_curve"
        )
    return _read_by(Listed(window, tuple(map(str, range(count)))).automaton(states))


def _read_by(automaton: Automaton) -> WindowLabels:
    return WindowLabels(automaton.moves, automaton.ends)


def work_of_windows(theta: EventClass, query: Query) -> float:
    """Approximate nanoseconds of `window_distance` for all; 0 if it refuses."""
    values, _ = values_of(query, theta.states)
    work = 0.0
    try:
        for chain in (member.chain for member in theta.known_chains()):
            for hidden, length in product(theta.hidden, set(query.lengths)):
                if hidden.window == 1 and not isinstance(hidden, Events):
                    work += work_of_chain(chain, length, max(values))
                elif hidden.window <= length:
                    summed = summed_chain(chain, values, length)
                    if labels_of_sum(hidden, theta.states, values, length) is not None:
                        work += 4.0 * length * len(values) ** 2 * length
                        continue
                    own = summed.work(window_labels(hidden, theta.states, length))
                    work += own + (0.0 if summed.plain else waited(own))
    except NotApplicable:
        return 0.0
    return work


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
