"""The Wasserstein Mechanism: [Q] Algorithm 1."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import singledispatch
from math import gcd
from typing import Any

import numpy as np

from pufferkit import checks
from pufferkit.beliefs.chain_class import ChainClass, Member
from pufferkit.beliefs.field_class import FieldClass
from pufferkit.beliefs.finite_joint import FiniteJoint, Row
from pufferkit.beliefs.joint_class import JointClass
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.beliefs.network_class import NetworkClass
from pufferkit.beliefs.protocol import Beliefs
from pufferkit.data.queries import Query
from pufferkit.errors import NotApplicable
from pufferkit.influence.progress import Progress
from pufferkit.influence.sums.network_sums import conditional_distributions
from pufferkit.influence.sums.transport import w_infinity
from pufferkit.influence.sums.work import sum_work
from pufferkit.mechanisms.calibration import GAPS, Calibration, checked
from pufferkit.mechanisms.evidence import Evidence, Guarantee
from pufferkit.rounding import as_fraction, at_least, round_up

Event = Callable[[Row], bool]
Secrets = Iterable[tuple[Event, Event]]
"""Pairs of events that must not be told apart."""

_EXACT_WORK = 2 * 10**6

MOST_FIELD = 40
"""Nodes of a Markov random field up to which the distribution of a sum is computed."""


@dataclass(frozen=True)
class _Farthest:
    """The largest distance for one belief, exactly or rounded up, and where it is."""

    distance: Fraction
    node: Hashable
    notes: tuple[str, ...] = ()
    rounding: float = 0.0  # what the rounding of probabilities may add to a loss


_Distance = tuple[_Farthest, str, int, dict[str, Any] | None]


def wasserstein(
    beliefs: Any,
    query: Query,
    epsilon: float,
    *,
    secrets: Secrets | None = None,
    progress: Progress | None = None,
) -> Calibration:
    """Noise of the Wasserstein Mechanism for a number: W / epsilon, [Q] Theorem 3.2.

    W is the largest infinity-Wasserstein distance between the distributions of the answer given two
    values of one entry, over entries, values and beliefs.

    Parameters
    ----------
    beliefs
        A `FiniteJoint` or several, with any query. Or a `MarkovChain`, `ChainClass.of` chains, a
        `BayesianNetwork` or a `MarkovRandomField` or several, with a sum over entries: `count`,
        `total` or `mean`.
    query
        A number, not a vector.
    epsilon
        Pufferfish privacy for each entry.
    secrets
        For joint distributions: pairs of events (functions of a row) not to be told apart, and then
        these alone are hidden. By default every two values of every variable.
    progress
        Called with the number of entries done and their total.

    Raises
    ------
    NotApplicable
        For vectors, for queries that are not sums, for series with entries that were not observed,
        and for classes with any start.

    Examples
    --------
    >>> from pufferkit import MarkovChain, count
    >>> chain = MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    >>> round(wasserstein(chain, count(1, 20), epsilon=1).scale, 3)
    4.0
    """
    theta, epsilon = checked(beliefs, query, epsilon)
    check_scalar(query)
    if query.missing:
        raise NotApplicable(GAPS)
    worst, name, length, verification_data = _largest_distance(theta, query, secrets, progress)
    if worst.distance == 0:
        raise NotApplicable("no secret moves the answer: there is nothing to hide")
    if epsilon <= worst.rounding:
        raise NotApplicable(f"epsilon {epsilon:g} is below the rounding of {theta.description}")
    distance = at_least(worst.distance)
    return Calibration(
        "wasserstein",
        epsilon,
        round_up(distance / (epsilon - worst.rounding)),
        query,
        theta,
        Evidence(name, worst.node, length, influence=distance, notes=worst.notes, bound="distance"),
        guarantee=Guarantee.PUFFERFISH if secrets is None else Guarantee.SECRETS,
        verification_data=verification_data,
    )


def _pairs(secrets: Secrets) -> list[tuple[Event, Event]]:
    try:
        chosen = [(one, other) for one, other in secrets]
    except (TypeError, ValueError):
        chosen = []
    if not chosen or not all(callable(event) for pair in chosen for event in pair):
        raise ValueError(
            "secrets: must be pairs of functions of a row, at least one pair; for example "
            "[(lambda row: row[0] == 0, lambda row: row[0] == 1)]"
        )
    return chosen


def _verification_data(
    theta: JointClass, query: Query, secrets: Sequence[tuple[Event, Event]] | None
) -> dict[str, Any]:
    """The answer on every row, and the rows of every secret, so that a release can be checked."""
    record: dict[str, Any] = {
        "answers": [
            [str(_answer(query, row)) if p > 0 else None for row, p in joint.table.items()]
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
    theta: Beliefs, query: Query, secrets: Secrets | None, progress: Progress | None
) -> _Distance:
    """The largest distance over a class, where it is, and what a check of it needs."""
    raise NotApplicable(f"the Wasserstein Mechanism has no theorem for a {theta.description}")


@_largest_distance.register
def _(
    theta: ChainClass, query: Query, secrets: Secrets | None, progress: Progress | None
) -> _Distance:
    _only_sums(query, secrets)
    worst, name, length = _Farthest(Fraction(0), None), "", query.longest
    for member in _known(theta):
        for size in sorted(set(query.lengths), reverse=True):
            distance = _chain_distance(member.chain, query, size, progress)
            if distance.distance > worst.distance or not name:
                worst, name, length = distance, member.name, size
    return worst, name, length, None


@_largest_distance.register
def _(
    theta: NetworkClass, query: Query, secrets: Secrets | None, progress: Progress | None
) -> _Distance:
    _only_sums(query, secrets)
    worst, name = _Farthest(Fraction(0), None), ""
    weights = {state: row[0] for state, row in (query.weights or {}).items()}
    labels = list(theta.states)
    values, unit = whole_values(weights.get(label, Fraction(0)) for label in labels)
    for number, network in enumerate(theta.networks, 1):
        distributions = conditional_distributions(network, dict(zip(labels, values, strict=True)))
        for node, given in distributions.items():
            distance = _largest(list(given.values())) * unit
            if distance > worst.distance or not name:
                worst = _Farthest(distance, node)
                name = f"network {number} of {len(theta.networks)}"
    return worst, name, len(theta.nodes), None


@_largest_distance.register
def _(
    theta: FieldClass, query: Query, secrets: Secrets | None, progress: Progress | None
) -> _Distance:
    _only_sums(query, secrets)
    if len(theta.nodes) > MOST_FIELD:
        raise NotApplicable(
            f"the distribution of a sum over a Markov random field is computed for up to "
            f"{MOST_FIELD} nodes, here are {len(theta.nodes):,}; use influence_curve"
        )
    networks, rounding = theta.networks()
    each = [_largest_distance(network, query, None, progress)[0] for network in networks]
    worst = max(each, key=lambda farthest: farthest.distance)
    name = f"field {each.index(worst) + 1} of {len(each)}"
    return replace(worst, rounding=rounding), name, len(theta.nodes), None


@_largest_distance.register
def _(
    theta: JointClass, query: Query, secrets: Secrets | None, progress: Progress | None
) -> _Distance:
    chosen = None if secrets is None else _pairs(secrets)
    worst, name = _Farthest(Fraction(0), None), ""
    for number, joint in enumerate(theta.joints, 1):
        answers = {row: _answer(query, row) for row, p in joint.table.items() if p > 0}
        for node, events in _events(joint, chosen):
            distributions = [_distribution_given(joint, answers, event) for event in events]
            distance = _largest([distribution for distribution in distributions if distribution])
            if distance > worst.distance or not name:
                worst, name = _Farthest(distance, node), f"joint {number} of {len(theta.joints)}"
    return worst, name, theta.joints[0].variables, _verification_data(theta, query, chosen)


def _only_sums(query: Query, secrets: Secrets | None) -> None:
    """Without the whole distribution: secrets are values of entries, and answers are sums."""
    if secrets is not None:
        raise NotApplicable(
            "secrets of your own need the whole distribution; give it as a FiniteJoint"
        )
    if query.weights is None:
        raise NotApplicable(
            f"{query.name} is not a sum over entries, so its distribution needs listing all "
            "data; use influence_curve or markov_quilt, or a FiniteJoint"
        )


def _events(
    joint: FiniteJoint, secrets: Secrets | None
) -> Iterator[tuple[Hashable, list[Callable[[Row], bool]]]]:
    """Events to be told apart: the values of each variable, or the pairs that were given."""
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
    joint: FiniteJoint, answers: dict[Row, Fraction], event: Callable[[Row], bool]
) -> dict[Fraction, Fraction]:
    """Distribution of the answer given an event; empty if the event is impossible."""
    distribution: dict[Fraction, Fraction] = {}
    for row, answer in answers.items():
        if event(row):
            mass = as_fraction("table", joint.table[row])
            distribution[answer] = distribution.get(answer, Fraction(0)) + mass
    whole = sum(distribution.values(), Fraction(0))
    return {answer: mass / whole for answer, mass in distribution.items()}


def _answer(query: Query, row: Row) -> Fraction:
    if query.weights is not None:
        return sum((query.weights[v][0] for v in row if v in query.weights), Fraction(0))
    # As a release takes it, to the last digit: not the decimal it prints as.
    return Fraction(checks.real("answer", query.evaluate(np.array(row))))


def _largest(distributions: Sequence[Mapping[Any, Fraction]]) -> Fraction:
    pairs = (
        Fraction(w_infinity(one, other))
        for n, one in enumerate(distributions)
        for other in distributions[n + 1 :]
    )
    return max(pairs, default=Fraction(0))


def check_scalar(query: Query) -> None:
    """Refuse vectors: on more than a line, moving mass is not a matter of order."""
    if query.size > 1:
        raise NotApplicable(
            f"the Wasserstein Mechanism is for numbers, and {query.name} has {query.size} "
            "coordinates; use influence_curve or markov_quilt, which take vectors"
        )


def _known(theta: ChainClass) -> tuple[Member, ...]:
    members = theta.members()
    if any(member.chain.has_underflow for member in members):
        raise NotApplicable("some states are too rare for a float; drop or merge them")
    if any(member.any_start for member in members):
        raise NotApplicable(
            "the Wasserstein Mechanism needs known distributions, and this class leaves the start "
            "open; name the starts with ChainClass.of, or use influence_curve"
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


def _chain_distance(
    chain: MarkovChain, query: Query, length: int, progress: Progress | None
) -> _Farthest:
    weights = query.weights or {}
    values, unit = whole_values(weights.get(state, (Fraction(0),))[0] for state in chain.states)
    if max(values) == 0:
        return _Farthest(Fraction(0), 1)
    if np.ptp(chain.transition, axis=0).max() == 0:
        # Entries are independent: the distributions given two values are shifts of one another.
        possible = [values[x] for x in np.flatnonzero(chain.transition[0] > 0)]
        possible += [values[x] for x in np.flatnonzero(chain.initial > 0)] if length == 1 else []
        first = [values[x] for x in np.flatnonzero(chain.initial > 0)]
        spread = max(max(first) - min(first), (max(possible) - min(possible)) if length > 1 else 0)
        return _Farthest(spread * unit, 1, ("entries are independent",))
    # Compiled code, loaded when first needed: it takes a second.
    from pufferkit.influence.sums.chain_sums import check_memory, largest_distance  # noqa: PLC0415

    check_memory(length, len(values), max(values))
    distributions = _distributions(chain, length)
    distance = largest_distance(
        distributions,
        chain.transition,
        np.array(values, dtype=np.int64),
        mirrored=chain.is_stationary and chain.is_reversible,
        progress=progress,
    )
    if not (distance.unsure or distance.lost):
        return _Farthest(distance.value * unit, distance.node)
    if length**3 * len(values) ** 2 * max(values) <= _EXACT_WORK:
        exact = exact_distance(chain, values, length)
        return _Farthest(exact.distance * unit, exact.node, ("ties decided by exact arithmetic",))
    if distance.lost:
        raise NotApplicable(
            "some sums are too unlikely for floats next to others, and the least likely decide the "
            "distance; use influence_curve, a shorter series, or beliefs without transitions "
            "of next to no probability"
        )
    note = "a tie was too close for floats and counted as the larger distance"
    return _Farthest(distance.value * unit, distance.node, (note,))


def _distributions(chain: MarkovChain, length: int) -> list[np.ndarray[Any, np.dtype[np.float64]]]:
    """The distribution of every node; exactly zero where a state is impossible."""
    if chain.is_stationary:
        return [chain.initial] * length
    distributions = [chain.initial]
    for _ in range(length - 1):
        distributions.append(distributions[-1] @ chain.transition)
    return distributions


def exact_distance(chain: MarkovChain, values: Sequence[int], length: int) -> _Farthest:
    """The same with fractions throughout; a float of the chain stands for its decimal."""
    size = len(values)
    rows = [[as_fraction("transition", p) for p in row] for row in chain.transition.tolist()]
    rows = [[p / sum(row) for p in row] for row in rows]
    start = [as_fraction("initial", p) for p in chain.initial.tolist()]
    start = [p / sum(start) for p in start]
    worst = _Farthest(Fraction(0), 1)
    for node in range(1, length + 1):
        distributions = []
        for given in range(size):
            distribution: dict[tuple[int, int], Fraction] = {
                (x, values[x]): p for x, p in enumerate(start) if p and (node > 1 or x == given)
            }
            for step in range(2, length + 1):
                moved: dict[tuple[int, int], Fraction] = {}
                for (x, total), mass in distribution.items():
                    for y in range(size) if step != node else (given,):
                        if rows[x][y]:
                            key = y, total + values[y]
                            moved[key] = moved.get(key, Fraction(0)) + mass * rows[x][y]
                distribution = moved
            whole = sum(distribution.values(), Fraction(0))
            if whole:
                table: dict[int, Fraction] = {}
                for (_, total), mass in distribution.items():
                    table[total] = table.get(total, Fraction(0)) + mass / whole
                distributions.append(table)
        for n, one in enumerate(distributions):
            for other in distributions[n + 1 :]:
                distance = Fraction(w_infinity(one, other))
                if distance > worst.distance:
                    worst = _Farthest(distance, node)
    return worst


def estimated_work(theta: Beliefs, query: Query) -> float:
    """About how many multiplications the mechanism takes; 0 if it refuses or needs few."""
    if query.size > 1 or query.weights is None or theta.entries is not None:
        return 0.0
    values, _ = whole_values(query.weights.get(s, (Fraction(0),))[0] for s in theta.states)
    try:
        members = len(theta.members())
    except NotApplicable:
        return 0.0
    each = (sum_work(length, len(theta.states), max(values)) for length in set(query.lengths))
    return members * sum(each)
