"""The scale that a recorded sum needs if its noise was calibrated for that sum only."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import singledispatch

from pufferkit.beliefs.base import Beliefs
from pufferkit.beliefs.chain_class import ChainClass
from pufferkit.beliefs.event_class import EventClass
from pufferkit.beliefs.field_class import FieldClass
from pufferkit.beliefs.joint_class import JointClass
from pufferkit.beliefs.network_class import NetworkClass
from pufferkit.errors import NotApplicable
from pufferkit.mechanisms.release import Release
from pufferkit.verification.pair_tables import TOLERANCE, Allowance, BadBeliefs, NotChecked
from pufferkit.verification.query_checks import weights_of
from pufferkit.verification.sum_distances import (
    distance_of_chains,
    distance_of_conditions,
    distance_of_joints,
    distance_of_network_events,
    distance_of_networks,
    distance_of_windows,
)
from pufferkit.verification.sum_windows import loss_of_sum

_NO_WEIGHTS = "the file does not hold what each state adds to the answer"


def wasserstein_scale(record: Release, theta: Beliefs, checks: list[str], work: Allowance) -> float:
    """The scale W over epsilon."""
    weights = weights_of(record)
    if weights is not None and len(weights) != len(theta.states):
        weights = None
    distance = _distance(theta, weights, record, work)
    checks.append(
        f"wasserstein: distributions of the answer given two {_what(record, theta)} are at most "
        f"{float(distance):.9g} apart, over {theta.description}"
    )
    return float(distance) / record.epsilon


def _what(record: Release, theta: Beliefs) -> str:
    named = theta.names_secrets or (record.verification_data or {}).get("secrets") is not None
    return "of the secrets" if named else "values of an entry"


def exact_sum_scale(record: Release, theta: Beliefs, checks: list[str], work: Allowance) -> float:
    """The loss at the recorded scale, of every chain and length."""
    weights = weights_of(record)
    if record.observed is not None:
        raise BadBeliefs("exact_sum has no theorem for entries that were not observed")
    try:
        members = theta.members()
    except NotApplicable as reason:
        raise BadBeliefs(f"exact_sum needs known chains: {reason}") from None
    if any(member.any_start for member in members):
        raise BadBeliefs("exact_sum needs known chains with known initial distributions")
    if weights is None or len(weights) != len(theta.states):
        raise NotChecked(_NO_WEIGHTS)
    reach = max((n for n in record.evidence.blocks or () if n is not None), default=None)
    enough, worst = record.epsilon * (1 + TOLERANCE), 0.0
    for chain in (member.chain for member in members):
        for length in sorted(set(record.lengths)):
            worst = max(
                worst,
                loss_of_sum(
                    chain, weights, length, record.scale * (1 + TOLERANCE), enough, reach, work
                ),
            )
    checks.append(
        f"exact_sum: the largest loss of an entry is {worst:.9g}, by the distribution of the sum "
        f"given its value, over {theta.description}"
    )
    return record.scale if worst <= enough else record.scale * (1 + 2 * TOLERANCE)


ExactWeights = Sequence[Fraction] | None
"""What each state adds to the answer; ``None`` if the file does not contain it."""


@singledispatch
def _distance(theta: Beliefs, weights: ExactWeights, record: Release, work: Allowance) -> Fraction:
    """W, from what each state adds to the answer if the file contains it."""
    raise NotChecked(f"there is no recomputation of W for a {theta.description}")


@_distance.register
def _(theta: JointClass, weights: ExactWeights, record: Release, work: Allowance) -> Fraction:
    verification_data = record.verification_data or {}
    if weights is not None:
        # The answers of a sum are computed from the weights, not read from the file.
        added = dict(zip(theta.states, weights, strict=True))
        answers = [[sum(added[v] for v in row) for row in j.table] for j in theta.joints]
        verification_data = {**verification_data, "answers": answers}
    return distance_of_joints(theta, verification_data, work)


@_distance.register
def _(theta: NetworkClass, weights: ExactWeights, record: Release, work: Allowance) -> Fraction:
    if weights is None:
        raise NotChecked(_NO_WEIGHTS)
    added = dict(zip(theta.states, weights, strict=True))
    events = (record.verification_data or {}).get("secrets")
    if events is not None:
        return distance_of_network_events(theta, added, events, work)
    return distance_of_networks(theta, added, work)


@_distance.register
def _(theta: FieldClass, weights: ExactWeights, record: Release, work: Allowance) -> Fraction:
    return max(_distance(network, weights, record, work) for network in theta.networks()[0])


@_distance.register
def _(theta: ChainClass, weights: ExactWeights, record: Release, work: Allowance) -> Fraction:
    if weights is None:
        raise NotChecked(_NO_WEIGHTS)
    events = (record.verification_data or {}).get("secrets")
    if events is not None:
        return distance_of_conditions(theta, weights, record.lengths, events, work)
    return distance_of_chains(theta, weights, record.lengths, work)


@_distance.register
def _(theta: EventClass, weights: ExactWeights, record: Release, work: Allowance) -> Fraction:
    if weights is None:
        raise NotChecked(_NO_WEIGHTS)
    theta.check_length(max(record.lengths))
    return distance_of_windows(theta, weights, record.lengths, work)
