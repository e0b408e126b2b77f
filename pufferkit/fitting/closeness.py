"""Adversaries whose belief is near the class but not in it: [Q] Theorem 2.4.

Let Delta be the least, over beliefs theta of the class, of the largest max-divergence, either way,
between the adversary's belief and theta *given any secret*. What is epsilon-private for the class
is then (epsilon + 2 Delta)-private against that adversary. Conditioning on the secret cannot be
left out: the divergence can grow by it.

For chains the divergence given a secret is a maximum over paths of a sum of log-ratios, so a
forward and a backward pass of maxima give it for all of them at once, pairs and entries in a row
included; for networks two passes along the edges do. Any member of the class gives a valid Delta:
where the class fixes no start the adversary's own is taken, where it fixes no matrix one near the
adversary's, checked to be a member.

**Chains.** For data x let r(x) = log p(x) / q(x), a sum over the start and the moves. Given a
secret S that both think possible, the max-divergence of p from q is

    max { r(x) : x in S }  -  log p(S) / q(S).

*An entry*, X_i = a: paths through a, by a forward and a backward pass of maxima.

*Entries in a row* have given moves between them, whose ratios cancel: what is left is what lies
before the first value and after the last, for any two ends that the adversary's moves can join.

Secrets that the adversary thinks impossible are not compared; what only one of the two thinks
possible, given such a secret, makes the divergence infinite.

**Networks.** The log-ratio of two networks is a sum of log-ratios of tables, so its maximum over
all data with X_i = a is found as a sum of products is, with maxima for sums and sums for products:
all other nodes are eliminated, the least connected first.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import singledispatch
from math import inf, log, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pufferkit import checks
from pufferkit.beliefs.base import Beliefs, as_beliefs, same_step
from pufferkit.beliefs.bayesian_network import BayesianNetwork, NetworkClass
from pufferkit.beliefs.chain_class import as_chain_class
from pufferkit.beliefs.finite_joint import FiniteJoint
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.beliefs.markov_random_field import FieldClass, MarkovRandomField
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


MOST_ENTRIES = 1 << 22

# Impossible under the first never counts; impossible under the second alone is infinite.

_ScopedTable = tuple[tuple[int, ...], Floats]


def network_delta(adversary: BayesianNetwork, belief: BayesianNetwork) -> float:
    """Largest divergence given any X_i = a that the adversary thinks possible, either way.

    The two may have different arrows, but must be about the same nodes and values.
    """
    for node in adversary.nodes:
        if belief.values.get(node) != adversary.values[node]:
            raise ValueError(
                f"beliefs: must be about the adversary's nodes, with {node!r} among them"
            )
    if len(belief) != len(adversary):
        raise ValueError(f"beliefs: have {len(belief)} nodes, the adversary {len(adversary)}")
    theirs = [adversary.table((node,)) for node in adversary.nodes]
    ours = [belief.table((node,)) for node in adversary.nodes]
    if any((one.possible & ~other.possible).any() for one, other in zip(theirs, ours, strict=True)):
        return inf
    delta = 0.0
    for sign, first, second in ((1, adversary, belief), (-1, belief, adversary)):
        largest = _maxima(first, second, adversary.nodes)
        for one, other, own in zip(theirs, ours, largest, strict=True):
            maxima = own[one.possible]
            if (maxima > _INFINITE).any():
                return inf
            odds = np.log(other.values[one.possible]) - np.log(one.values[one.possible])
            delta = max(delta, float((maxima + sign * odds).max()))
    return delta


def _maxima(
    first: BayesianNetwork, second: BayesianNetwork, nodes: Sequence[Hashable]
) -> list[Floats]:
    """For every node and value, the largest log first(x) / second(x) over data x with it."""
    place = {node: number for number, node in enumerate(nodes)}
    tables: list[_ScopedTable] = []
    for network, sign, never in ((first, 1.0, -_NEVER), (second, -1.0, _UNSEEN)):
        for node in nodes:
            own = network.arrays[node]
            logs = np.where(own > 0, sign * np.log(np.where(own > 0, own, 1.0)), never)
            tables.append(((*(place[p] for p in network.parents[node]), place[node]), logs))
    order = _order([set(scope) for scope, _ in tables])
    return [_maximum(tables, [v for v in order if v != kept]) for kept in range(len(nodes))]


def _maximum(tables: Sequence[_ScopedTable], gone: Sequence[int]) -> Floats:
    """The largest sum of the tables over these variables, one after another."""
    left = list(tables)
    for v in gone:
        scope, values = _sum([table for table in left if v in table[0]])
        left = [table for table in left if v not in table[0]]
        left.append((tuple(u for u in scope if u != v), values.max(axis=scope.index(v))))
    return _sum(left)[1]


def _sum(tables: Sequence[_ScopedTable]) -> _ScopedTable:
    sizes = {v: size for own, values in tables for v, size in zip(own, values.shape, strict=True)}
    if prod(sizes.values()) > MOST_ENTRIES:
        raise NotApplicable(
            f"closeness of these networks needs tables of {prod(sizes.values()):.1e} entries (at "
            f"most {MOST_ENTRIES:.0e}); cut them into parts"
        )
    total: Floats = np.zeros(())
    for own, values in tables:
        moved = np.transpose(values, [own.index(v) for v in sizes if v in own])
        total = total + moved[tuple(slice(None) if v in own else None for v in sizes)]
    return tuple(sizes), total


def _order(families: Sequence[set[int]]) -> list[int]:
    """Variables, least connected first; those that remain are joined when one goes."""
    near = {v: set().union(*(one for one in families if v in one)) for v in set().union(*families)}
    order: list[int] = []
    while near:
        v = min(near, key=lambda u: (len(near[u]), u))
        order.append(v)
        around = near.pop(v) - {v}
        for u in around:
            near[u] = (near[u] | around) - {v}
    return order


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
        class leaves the start open, it is the adversary's. Where it leaves the matrix open, one
        near the adversary's is taken (`pufferkit.beliefs.region_class`): its own, if the class has
        it. The Delta of any member is a valid one. With secrets of their own (`with_secrets`:
        entries in a row, or pairs of values), Delta is given these.
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
