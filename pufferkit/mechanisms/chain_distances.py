"""How far one entry of a known chain moves a sum: the distance of the Wasserstein Mechanism."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import gcd, lcm
from typing import Any

import numpy as np

from pufferkit.beliefs.bayesian_network import BayesianNetwork
from pufferkit.beliefs.chain_class import ChainClass, Member
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.data.query import Query
from pufferkit.errors import NotApplicable
from pufferkit.influence.progress import Progress
from pufferkit.influence.sums.bottleneck import bottleneck_distance
from pufferkit.influence.sums.chain_sums import (
    Distance,
    SummedChain,
    check_memory,
    value_work,
    waited,
)
from pufferkit.influence.sums.lattice import fits_floats
from pufferkit.influence.sums.network_sums import MOST_EXACT, SummedNetwork
from pufferkit.influence.sums.transport import w_infinity

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
