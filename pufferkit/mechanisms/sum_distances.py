"""How far secrets move a sum: the distances of the Wasserstein Mechanism.

Secrets are the values of entries of a known chain, labels of windows, or events about named entries
and nodes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations, product
from math import gcd, lcm
from typing import Any

import numpy as np

from pufferkit.beliefs.bayesian_network import BayesianNetwork, NetworkClass
from pufferkit.beliefs.chain_class import ChainClass, Member
from pufferkit.beliefs.event_class import EventClass
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.beliefs.secrets import Automaton, Counted, Events, Listed, Secrets, Sets
from pufferkit.checks import Bools, Ints
from pufferkit.data.query import Query
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
from pufferkit.influence.sums.lattice import fits_floats
from pufferkit.influence.sums.network_sums import MOST_EXACT, SummedNetwork
from pufferkit.influence.sums.transport import bottleneck_distance, w_infinity

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

_MOST_VALUES = 256


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
