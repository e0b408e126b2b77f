"""Markov quilts of Markov random fields: those of the network that a field is written as.

Averaging nodes out in some order gives a Bayesian network with the same distribution
(`MarkovRandomField.network`). Its graph has the edges of the field and some more, so what it
separates is separated in the field, and [Q] Theorem 4.3 holds with its quilts. Epsilon is lowered
by what the rounding of its tables may add to a loss (`FieldClass.networks`).
"""

from __future__ import annotations

from pufferkit.beliefs.field_class import FieldClass
from pufferkit.beliefs.network_class import NetworkClass
from pufferkit.errors import NotApplicable
from pufferkit.influence.quilts.hardest import QuiltBound, QuiltSearch, hardest_quilt
from pufferkit.influence.quilts.networks import hardest_node

MOST_NODES = 64
"""Most nodes of an independent part in which quilts are searched."""

MOST_IN_ALL = 2_000
"""Most nodes in all."""


def network_of(theta: FieldClass, epsilon: float) -> tuple[NetworkClass, float]:
    """The network that a field is written as, and epsilon lowered by the rounding of its tables."""
    nodes, part = len(theta.nodes), theta.largest_part
    if len(theta.fields) > 1 or part > MOST_NODES or nodes > MOST_IN_ALL:
        raise NotApplicable(
            f"quilts are searched for one Markov random field with independent parts of up to "
            f"{MOST_NODES} nodes, {MOST_IN_ALL:,} in all; here are {len(theta.fields)} of "
            f"{nodes:,}, in parts of up to {part:,}; use influence_curve"
        )
    (network,), rounding = theta.networks()
    if epsilon <= rounding:
        raise NotApplicable(
            f"epsilon {epsilon:g} is below the rounding error of this field; use a larger one"
        )
    return network, epsilon - rounding


@hardest_quilt.register
def _(theta: FieldClass, search: QuiltSearch) -> QuiltBound:
    network, epsilon = network_of(theta, search.epsilon)
    node, quilt, influence, score, quilts = hardest_node(network, epsilon, search.progress)
    length = len(theta.nodes)
    return QuiltBound(theta.description, node, length, quilt, influence, score, quilts=quilts)
