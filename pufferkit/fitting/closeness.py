"""Adversaries whose belief is near the class but not in it: [Q] Theorem 2.4.

Let Delta be the least, over beliefs theta of the class, of the largest max-divergence, either way,
between the adversary's belief and theta *given any secret*. What is epsilon-private for the class
is then (epsilon + 2 Delta)-private against that adversary. Conditioning on the secret cannot be
left out: the divergence can grow by it.

For chains the divergence given a secret is a maximum over paths of a sum of log-ratios, so a
forward and a backward pass of maxima give it for all of them at once, pairs and entries in a row
included. Any member of the class gives a valid Delta; where the class fixes no start the
adversary's own is taken.

**Chains.** For data x let r(x) = log p(x) / q(x), a sum over the start and the moves. Given a
secret S that both think possible, the max-divergence of p from q is

    max { r(x) : x in S }  -  log p(S) / q(S).

*An entry*, X_i = a: paths through a, by a forward and a backward pass of maxima.

*Entries in a row* have given moves between them, whose ratios cancel: what is left is what lies
before the first value and after the last, for any two ends that the adversary's moves can join.

Secrets that the adversary thinks impossible are not compared; what only one of the two thinks
possible, given such a secret, makes the divergence infinite.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pufferkit import checks
from pufferkit.beliefs.base import same_step
from pufferkit.beliefs.chain_class import as_chain_class
from pufferkit.beliefs.finite_joint import FiniteJoint
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.beliefs.secrets import Pairs, Runs, Secrets
from pufferkit.checks import Floats
from pufferkit.data.durations import of_seconds
from pufferkit.errors import NotApplicable

# A path impossible under the first never counts; one impossible under the second is infinite.
_NEVER, _UNSEEN, _INFINITE = 1e300, 1e200, 1e150


def chain_delta(
    adversary: MarkovChain,
    belief: MarkovChain,
    length: int,
    hidden: Sequence[Secrets] = (Runs(1),),
) -> float:
    """Largest divergence given any secret that the adversary thinks possible, either way."""
    if not all(isinstance(secrets, (Pairs, Runs)) for secrets in hidden):
        raise NotApplicable(
            "closeness: is for secrets that are single entries, pairs of their values or entries "
            "in a row; hide those by Secrets.pairs or Secrets.runs"
        )
    known, held = _marginals(adversary, length), _marginals(belief, length)
    possible = known > 0
    outside = possible & (held == 0)
    delta = 0.0
    for first, second, ours, theirs in (
        (adversary, belief, known, held),
        (belief, adversary, held, known),
    ):
        moves = _log_ratio(first.transition, second.transition)
        forward, backward = _passes(moves, _log_ratio(first.initial, second.initial), length)
        both = possible & ~outside
        odds = np.log(np.where(both, ours, 1.0)) - np.log(np.where(both, theirs, 1.0))
        given = np.where(both, forward - odds, -_NEVER)
        unseen = bool(outside.any()) or ((forward + backward)[both] > _INFINITE).any()
        for secrets in hidden:
            if isinstance(secrets, Pairs):
                named = secrets.parts(adversary.states).any(axis=1)
                if (outside & named).any():
                    return inf
                own = (given + backward)[:, named].max()
            elif first is adversary and unseen:
                # What only the adversary thinks possible has a secret too, whichever they are.
                return inf
            else:
                own = _runs(given, backward, adversary, secrets.window)
            if own > _INFINITE:
                return inf
            delta = max(delta, float(own))
    return delta


def _runs(given: Floats, backward: Floats, adversary: MarkovChain, window: int) -> float:
    own = min(window, len(given))
    joined = _reached(adversary.transition > 0, own - 1)
    # The best value to end with, for each to begin with.
    ends = np.where(joined[None], backward[own - 1 :, None, :], -_NEVER).max(axis=2)
    largest: float = (given[: len(given) - own + 1] + ends).max()
    return largest


def _passes(moves: Floats, start: Floats, length: int) -> tuple[Floats, Floats]:
    """Largest log-ratios up to each entry and value, and after it."""
    forward, backward = np.empty((length, len(start))), np.zeros((length, len(start)))
    forward[0] = start
    for i in range(1, length):
        forward[i] = (forward[i - 1][:, None] + moves).max(axis=0)
    for i in range(length - 2, -1, -1):
        backward[i] = (moves + backward[i + 1]).max(axis=1)
    return forward, backward


def _reached(possible: NDArray[np.bool_], steps: int) -> NDArray[np.bool_]:
    """Which values follow which after so many possible moves."""
    reached: Any = np.eye(len(possible), dtype=bool)
    power: Any = possible
    while steps:
        if steps & 1:
            reached = (reached[:, :, None] & power[None]).any(axis=1)
        power = (power[:, :, None] & power[None]).any(axis=1)
        steps >>= 1
    return np.asarray(reached)


def _log_ratio(above: Floats, below: Floats) -> Floats:
    """The log of above / below. A step impossible above outweighs any number of steps below."""
    possible = np.log(np.where(above > 0, above, 1.0)) - np.log(np.where(below > 0, below, 1.0))
    ratio: Floats = np.where(above > 0, np.where(below > 0, possible, _UNSEEN), -_NEVER)
    return ratio


def _marginals(chain: MarkovChain, length: int) -> Floats:
    distributions = np.empty((length, len(chain)))
    distributions[0] = chain.initial
    for i in range(1, length):
        distributions[i] = distributions[i - 1] @ chain.transition
    return distributions


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
    """Delta between an adversary's belief and a class.

    Theorem: [Q] Theorem 2.4. What is epsilon-private for the class is (epsilon + 2 Delta)-private
    against the adversary.

    Parameters
    ----------
    adversary
        A `FiniteJoint`, as small networks have (``network.joint()``), or a `MarkovChain`.
    beliefs
        For a joint distribution: a `FiniteJoint` or several. For a chain: a `MarkovChain`, or
        `ChainClass.of`, `any_start` or `binary`. Where the class leaves the start open, it is the
        adversary's. Of a class that is no list give a member near the adversary's belief: the Delta
        of any member is a valid one. With secrets of their own (`with_secrets`: entries in a row,
        or pairs of values), Delta is given these.
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
    else:
        raise ValueError(
            "adversary: must be a MarkovChain or a FiniteJoint (a small network has .joint()), "
            f"got {type(adversary).__name__}"
        )
    return min(distances, key=lambda one: one.delta)


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
        delta = chain_delta(adversary, member.chain, length, hidden)
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
