"""Least noise known to hide every entry of a chain, by the influence curve."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from functools import singledispatch
from typing import Any

import numpy as np

from pufferkit import checks
from pufferkit.beliefs.chain_class import ChainClass
from pufferkit.beliefs.network_class import NetworkClass
from pufferkit.beliefs.protocol import Beliefs, as_beliefs
from pufferkit.checks import Floats
from pufferkit.data.queries import Query
from pufferkit.errors import NotApplicable
from pufferkit.influence.answers import quilt_bound
from pufferkit.influence.curve.profile import InfluenceCurve, Metric, as_metric
from pufferkit.influence.curve.trees import TreeCurve
from pufferkit.mechanisms.calibration import Calibration, check_states
from pufferkit.mechanisms.release import Bound, Evidence
from pufferkit.rounding import round_up


def influence_curve(beliefs: Any, query: Query, epsilon: float) -> Calibration:
    """Least Laplace noise known to hide every entry of a chain.

    The scale is L / b, with b the largest entry privacy whose loss on the influence curve is at
    most epsilon. It never asks more than `markov_quilt`: where that bound is better, it is taken.

    Parameters
    ----------
    beliefs
        A `MarkovChain`, any `ChainClass`, or tree-shaped networks. Known distributions use exact
        kernels. Any start uses exact kernels to the right and projective diameters to the left.
        Mixing classes use bounds.
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
    """How far apart a sum holds the states; ``None`` if all are equally far apart."""
    contributions = contributions_of(beliefs, query)
    return None if contributions is None else Metric.of(contributions)


def contributions_of(beliefs: Beliefs | None, query: Query) -> tuple[float, ...] | None:
    """What each state adds to a sum, scaled to 0 ... 1; ``None`` for anything but such a sum."""
    if query.weights is None or query.size != 1 or beliefs is None:
        return None
    nothing = (Fraction(0),)
    added = [query.weights.get(state, nothing)[0] for state in beliefs.states]
    least, most = min(added), max(added)
    if least == most:
        return None
    scaled = tuple(float((weight - least) / (most - least)) for weight in added)
    # States that floats cannot tell apart would seem to be the same.
    return scaled if len(set(scaled)) == len(set(added)) else None


def added_by_state(beliefs: Beliefs, query: Query) -> Floats | None:
    """What an entry in each state adds to each coordinate; ``None`` if the query is no sum."""
    if query.weights is None:
        return None
    nothing = (Fraction(0),) * query.size
    rows = [query.weights.get(state, nothing) for state in beliefs.states]
    return np.array([[float(w) for w in row] for row in rows])


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


Solved = tuple[float, Evidence, dict[str, Any] | None]
"""An event-level epsilon, what binds there, and what a check of it needs."""


@singledispatch
def entry_privacy_for(
    beliefs: Beliefs, length: int, epsilon: float, metric: Metric | Floats | None = None
) -> Solved:
    """The largest event-level epsilon shown to hide every entry, what binds, what a check needs."""
    raise NotApplicable(f"influence_curve is about Markov chains; here is a {beliefs.description}")


@entry_privacy_for.register
def _(
    beliefs: NetworkClass, length: int, epsilon: float, metric: Metric | Floats | None = None
) -> Solved:
    curve = TreeCurve(beliefs, as_metric(metric, len(beliefs.states)).distance)
    b, tree = curve.solve(epsilon)
    name = f"network {tree.network + 1} of {len(beliefs.networks)}"
    bound: Bound = "pairs" if tree.pairwise else "curve"
    workings = {"pairs": curve.pair_record(b)} if tree.pairwise else None
    return b, Evidence(name, tree.node, len(beliefs.nodes), bound=bound), workings


@entry_privacy_for.register
def _(
    beliefs: ChainClass, length: int, epsilon: float, metric: Metric | Floats | None = None
) -> Solved:
    curve = InfluenceCurve(beliefs, length, metric)
    b, name, loss = curve.solve(epsilon)
    blocks = (loss.left, loss.right) if loss.pairs is None else None
    bound: Bound = "curve" if loss.pairs is None else "pairs"
    try:
        quilt = quilt_bound(beliefs, length, epsilon)
        by_quilt = 1 / round_up(quilt.score)
    except NotApplicable:  # too long for quilts, not for the curve; or nothing is forgotten
        by_quilt = 0.0
    if by_quilt > b:
        note = "the Markov quilt bound was the better one"
        evidence = Evidence(
            quilt.belief,
            quilt.node,
            length,
            notes=(note,),
            bound="quilts",
            variant=quilt.variant,
        )
        return by_quilt, evidence, None
    workings = None if loss.pairs is None else {"pairs": curve.pair_record(b, epsilon)}
    evidence = Evidence(name, loss.node, length, notes=curve.notes, blocks=blocks, bound=bound)
    return b, evidence, workings
