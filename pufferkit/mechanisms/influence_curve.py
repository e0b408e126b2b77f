"""Least noise known to hide every entry of a chain, by the influence curve."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from math import inf
from typing import Any

import numpy as np

from pufferkit import checks
from pufferkit.beliefs.chain_class import ChainClass, MixingClass
from pufferkit.beliefs.network_class import NetworkClass
from pufferkit.beliefs.protocol import Beliefs, as_beliefs
from pufferkit.beliefs.region_class import RegionClass
from pufferkit.checks import Floats
from pufferkit.data.queries import Query, count
from pufferkit.errors import NotApplicable
from pufferkit.influence.curve.profile import InfluenceCurve, Metric
from pufferkit.influence.curve.regions import region_influence
from pufferkit.influence.curve.trees import TreeCurve
from pufferkit.influence.quilts.hardest import hardest_member
from pufferkit.mechanisms.calibration import Calibration, chains_only, check_states
from pufferkit.mechanisms.markov_quilt import markov_quilt_approx
from pufferkit.mechanisms.release import Bound, Evidence, Variant
from pufferkit.rounding import round_up

_NO_CONTRACTION = (
    "too many moves of the region may be impossible (lower bound 0), so nothing to the left is "
    "known to be forgotten"
)


def influence_curve(beliefs: Any, query: Query, epsilon: float) -> Calibration:
    """Least Laplace noise known to hide every entry of a chain.

    The scale is L / b, with b the largest entry privacy whose loss on the influence curve is at
    most epsilon. It never asks more than `markov_quilt`: where that bound is better, it is taken.

    Parameters
    ----------
    beliefs
        A `MarkovChain`, any `ChainClass`, or tree-shaped networks. Known laws use exact kernels.
        Open starts use exact kernels to the right and projective diameters to the left. Mixing
        classes use bounds.
    query
        What is asked; any Lipschitz query, vectors included.
    epsilon
        Pufferfish privacy for each entry.

    Examples
    --------
    >>> from pufferkit import MarkovChain, count, influence_curve
    >>> chain = MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    >>> round(influence_curve(chain, count(1, 10**6), 1).scale, 3)
    3.336
    """
    epsilon = checks.privacy(epsilon)
    theta = as_beliefs(beliefs)
    check_states(theta, query)
    b, evidence, workings = entry_privacy_for(
        theta, query.longest, epsilon, metric_of(theta, query)
    )
    return Calibration(
        "influence_curve",
        epsilon,
        round_up(query.lipschitz / b),
        query,
        theta,
        evidence,
        workings=workings,
    )


def metric_of(beliefs: Beliefs, query: Query) -> Metric | None:
    """How far apart a sum holds the states of a chain; ``None`` if all are equally far apart."""
    if query.weights is None or not isinstance(beliefs, ChainClass):
        return None
    nothing = (Fraction(0),) * query.size
    contributions = [query.weights.get(state, nothing) for state in beliefs.states]
    return Metric.of(np.array([[float(w) for w in row] for row in contributions]))


def entry_epsilon(
    beliefs: Any,
    lengths: int | Iterable[int],
    epsilon: float,
    *,
    metric: Floats | None = None,
) -> float:
    """The event-level epsilon to give any DP library so that the result is Pufferfish private.

    Parameters
    ----------
    beliefs
        A `MarkovChain` or any `ChainClass`.
    lengths
        Length of the series, or of its independent segments.
    epsilon
        Pufferfish privacy wanted for each entry.
    metric
        For pipelines that are private in a metric: distances between the states, in their order.
        The pipeline must move the log-likelihood by at most b metric(x, x') / (largest distance)
        when an entry x is replaced by x'.

    Returns
    -------
    float
        b such that every pipeline that is b-DP with respect to changing one entry is
        epsilon-Pufferfish private for each entry.
    """
    longest = max(checks.segment_lengths(lengths))
    b, _, _ = entry_privacy_for(as_beliefs(beliefs), longest, checks.privacy(epsilon), metric)
    return b


def entry_privacy_for(
    beliefs: Beliefs, length: int, epsilon: float, metric: Metric | Floats | None = None
) -> tuple[float, Evidence, dict[str, Any] | None]:
    """The largest event-level epsilon shown to hide every entry, what binds, what a check needs."""
    if isinstance(beliefs, NetworkClass):
        b, tree = TreeCurve(beliefs).solve(epsilon)
        name = f"network {tree.network + 1} of {len(beliefs.networks)}"
        return b, Evidence(name, tree.node, len(beliefs.nodes), bound="curve"), None
    theta = chains_only(beliefs, "influence_curve")
    curve = InfluenceCurve(theta, length, metric)
    b, name, loss = curve.solve(epsilon)
    blocks = (loss.left, loss.right) if loss.pairs is None else None
    bound: Bound = "curve" if loss.pairs is None else "pairs"
    evidence = Evidence(name, loss.node, length, blocks=blocks, bound=bound)
    region = theta if isinstance(theta, RegionClass) and theta.corners() is None else None
    if region is not None and not region_influence(region).contracts:
        return b, replace(evidence, notes=(_NO_CONTRACTION,)), None
    try:
        score, belief, node = _quilt_bound(theta, length, epsilon)
    except NotApplicable:  # too long for quilts, not for the curve
        score, belief, node = inf, None, None
    by_quilt = 1 / round_up(score)
    if by_quilt > b:
        note = "the Markov quilt bound was the better one"
        variant: Variant = "tight" if isinstance(theta, MixingClass) else "definition"
        quilt = Evidence(belief, node, length, notes=(note,), bound="quilts", variant=variant)
        return by_quilt, quilt, None
    workings = None if loss.pairs is None else {"pairs": curve.pair_record(b, epsilon)}
    return b, evidence, workings


def _quilt_bound(
    theta: ChainClass, length: int, epsilon: float
) -> tuple[float, str | None, int | None]:
    """Score, belief and node of the Markov Quilt Mechanism."""
    if isinstance(theta, MixingClass):
        anything = count(theta.states[0], length)
        quilt = markov_quilt_approx(theta, anything, epsilon, bound="tight")
        return quilt.scale, quilt.evidence.belief, quilt.evidence.node
    members = theta.corners() if isinstance(theta, RegionClass) else theta.members()
    if members is None:
        node, found = region_influence(theta).hardest(length, epsilon)
        return found.score, theta.description, node
    member, binding = hardest_member(members, length, epsilon, "definition")
    return binding.quilt.score, member.name, binding.node
