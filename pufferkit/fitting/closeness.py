"""Adversaries whose belief is near the class but not in it: [Q] Theorem 2.4.

Let Delta be the least, over beliefs theta of the class, of the largest max-divergence, either way,
between the adversary's belief and theta *given any secret*. What is epsilon-private for the class
is then (epsilon + 2 Delta)-private against that adversary. Conditioning on the secret cannot be
left out: the divergence can grow by it.

For chains the divergence given a secret is a maximum over paths of a sum of log-ratios, so a
forward and a backward pass of maxima give it for all of them at once, secrets of the beliefs' own
included (`pufferkit.fitting.chain_closeness`); for networks two passes along the edges do
(`pufferkit.fitting.network_closeness`). Any member of the class gives a valid Delta: where the
class does not fix the matrix, one near the adversary's is taken and checked to be a member.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import singledispatch
from math import inf, log
from typing import Any

from pufferkit import checks
from pufferkit.beliefs.base import Beliefs, as_beliefs, same_step
from pufferkit.beliefs.bayesian_network import BayesianNetwork, NetworkClass
from pufferkit.beliefs.chain_class import as_chain_class
from pufferkit.beliefs.finite_joint import FiniteJoint
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.beliefs.markov_random_field import FieldClass, MarkovRandomField
from pufferkit.data.durations import of_seconds
from pufferkit.fitting.chain_closeness import chain_delta
from pufferkit.fitting.nearest_starts import nearest_starts
from pufferkit.fitting.network_closeness import network_delta

_ROUNDING = 1e-12


@dataclass(frozen=True)
class Closeness:
    """How near an adversary is to a class."""

    delta: float
    """Delta of [Q] Theorem 2.4; infinite if some possible data set is impossible for the other."""
    belief: str
    """The belief of the class that is nearest."""

    def epsilon(self, epsilon: float) -> float:
        """Epsilon against the adversary of a release that is epsilon-private for the class."""
        # Delta is a sum of logarithms of floats.
        return checks.privacy(epsilon) + 2 * self.delta * (1 + _ROUNDING)


def max_divergence(
    p: Mapping[Any, Any] | Sequence[Any], q: Mapping[Any, Any] | Sequence[Any]
) -> float:
    """The largest log p(x) / q(x) over the support of p.

    Theorem: [Q] Definition 2.3. Infinite where p has a value that is impossible under q.

    Parameters
    ----------
    p, q
        Value to probability, or the probabilities of the same values in order.

    Examples
    --------
    >>> from math import exp
    >>> from pufferkit import max_divergence
    >>> round(exp(max_divergence([0.5, 0.5], [0.9, 0.1])), 9)
    5.0
    >>> p, q = {1: 1 / 3, 2: 1 / 2, 3: 1 / 6}, {1: 1 / 2, 2: 1 / 4, 3: 1 / 4}
    >>> round(exp(max_divergence(p, q)), 9)
    2.0
    """
    above, below = _masses("p", p), _masses("q", q)
    largest = -inf
    for x, mass in above.items():
        if mass > 0:
            other = below.get(x, 0)
            largest = max(largest, log(mass / other) if other > 0 else inf)
    return largest


def _masses(name: str, given: Mapping[Any, Any] | Sequence[Any]) -> Mapping[Any, Any]:
    masses = given if isinstance(given, Mapping) else dict(enumerate(given))
    checks.probability_vector(name, [float(mass) for mass in masses.values()])
    return masses


def closeness(adversary: Any, beliefs: Any, length: int | None = None) -> Closeness:
    """Delta of [Q] Theorem 2.4 between an adversary's belief and a class.

    Parameters
    ----------
    adversary
        A `FiniteJoint`, a `MarkovChain`, a `BayesianNetwork` or a `MarkovRandomField`.
    beliefs
        For a joint distribution: a `FiniteJoint` or several. For a network or a random field: a
        `BayesianNetwork` or a `MarkovRandomField`, or several, over the same nodes. For a chain: a
        `MarkovChain`, or `ChainClass.of`, `any_start`, `binary`, `around` or `mixing`. Where the
        class leaves the start open, it is the best for a given matrix, by linear programmes
        (`pufferkit.fitting.nearest_starts`; for long series the adversary's initial distribution).
        Where it leaves the matrix open, one near the adversary's is taken
        (`pufferkit.beliefs.region_class`): its own, if the class has it. The Delta of any
        member is a valid one. With secrets of their own (`with_secrets`), Delta is given these.
    length
        Number of entries, for chains. Delta is for a series of one segment: with several
        independent ones, an adversary with another belief about each is further away.

    Examples
    --------
    >>> from pufferkit import MarkovChain
    >>> ours = MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    >>> theirs = MarkovChain.steady([[0.89, 0.11], [0.4, 0.6]])
    >>> round(closeness(theirs, ours, length=3).delta, 3)
    0.191
    """
    if isinstance(adversary, FiniteJoint):
        joints = [beliefs] if isinstance(beliefs, FiniteJoint) else list(beliefs)
        if not joints or not all(isinstance(joint, FiniteJoint) for joint in joints):
            raise ValueError("beliefs: must be FiniteJoint distributions, like the adversary's")
        distances = [
            Closeness(_joint_delta(adversary, joint), f"joint {n} of {len(joints)}")
            for n, joint in enumerate(joints, 1)
        ]
    elif isinstance(adversary, MarkovChain):
        if length is None:
            raise ValueError("length: is needed for chains; give the number of entries")
        size = checks.whole("length", length, 1)
        distances = _chain_distances(adversary, beliefs, size)
    elif isinstance(adversary, (BayesianNetwork, MarkovRandomField)):
        distances = _graph_distances(as_beliefs(beliefs), adversary)
    else:
        raise ValueError(
            "adversary: must be a FiniteJoint, a MarkovChain, a BayesianNetwork or a "
            f"MarkovRandomField, got {type(adversary).__name__}"
        )
    return min(distances, key=lambda one: one.delta)


@singledispatch
def _graph_distances(
    beliefs: Beliefs, adversary: BayesianNetwork | MarkovRandomField
) -> list[Closeness]:
    raise ValueError(
        f"beliefs: must be networks or random fields, like the adversary's; here is a "
        f"{beliefs.description}"
    )


@_graph_distances.register
def _(
    beliefs: NetworkClass | FieldClass, adversary: BayesianNetwork | MarkovRandomField
) -> list[Closeness]:
    theirs, rounding = _as_network(adversary)
    distances = []
    for number, model in enumerate(beliefs.listed, 1):
        ours, more = _as_network(model)
        delta = network_delta(theirs, ours) + rounding + more
        name = f"{beliefs.called} {number} of {len(beliefs.listed)}"
        distances.append(Closeness(delta, name))
    return distances


def _as_network(model: BayesianNetwork | MarkovRandomField) -> tuple[BayesianNetwork, float]:
    """A network, and how far distributions given a value may be from those of the model."""
    if isinstance(model, BayesianNetwork):
        return model, 0.0
    (network,), rounding = FieldClass((model,)).networks()
    return network.networks[0], rounding / 2


def _chain_distances(adversary: MarkovChain, beliefs: Any, length: int) -> list[Closeness]:
    theta = as_chain_class(beliefs)
    if theta.states != adversary.states:
        raise ValueError(
            f"beliefs: are about states {list(theta.states)}, the adversary about "
            f"{list(adversary.states)}"
        )
    if not same_step(theta.step, adversary.step):
        raise ValueError(
            f"beliefs: are about entries {of_seconds(theta.step)} apart, the adversary about "
            f"entries {of_seconds(adversary.step)} apart"
        )
    theta.check_length(length)
    hidden = theta.every_secret()
    distances = []
    for member in theta.nearest(adversary, length):
        chain = member.chain
        delta = chain_delta(adversary, chain, length, hidden)
        if member.any_start and delta < inf and not theta.names_secrets:
            for start in nearest_starts(adversary, chain.transition, length, delta):
                nearer = MarkovChain(start, chain.transition, chain.states)
                delta = min(delta, chain_delta(adversary, nearer, length))
        distances.append(Closeness(delta, member.name))
    return distances


def _joint_delta(adversary: FiniteJoint, belief: FiniteJoint) -> float:
    if adversary.names != belief.names:
        raise ValueError(
            f"beliefs: are about variables {list(belief.names)}, the adversary about "
            f"{list(adversary.names)}"
        )
    delta = 0.0
    for name in adversary.names:
        for value in adversary.values(name):
            if value not in belief.values(name):
                return inf
            theirs = adversary.conditional(name, value).table
            ours = belief.conditional(name, value).table
            delta = max(delta, max_divergence(theirs, ours), max_divergence(ours, theirs))
    return delta
