"""How far events move a sum: the distance of the Wasserstein Mechanism for events as secrets."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from pufferkit.beliefs.bayesian_network import BayesianNetwork
from pufferkit.beliefs.chain_class import ChainClass
from pufferkit.beliefs.event_class import EventClass
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.beliefs.network_class import NetworkClass
from pufferkit.beliefs.secrets import Automaton, Counted, Events, Listed, Secrets, Sets
from pufferkit.checks import Bools, Ints
from pufferkit.data.query import Query
from pufferkit.errors import NotApplicable
from pufferkit.influence.progress import Progress
from pufferkit.influence.sums.chain_sums import WindowLabels, waited
from pufferkit.mechanisms.chain_distances import (
    Farthest,
    LargestDistance,
    chain_distance,
    checked_distance,
    known_members,
    summed_chain,
    summed_network,
    values_of,
    work_of_chain,
)

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
