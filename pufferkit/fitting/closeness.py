"""Adversaries whose belief is near the class but not in it: [Q] Theorem 2.4.

Let Delta be the least, over beliefs theta of the class, of the largest max-divergence, either way,
between the adversary's belief and theta *given any secret*. What is epsilon-private for the class
is then (epsilon + 2 Delta)-private against that adversary. Conditioning on the secret cannot be
left out: the divergence can grow by it.

For chains the divergence given a secret is a maximum over paths of a sum of log-ratios, so a
forward and a backward pass of maxima give it for all of them at once, secrets of the beliefs' own
included; for networks two passes along the edges do. Any member of the class gives a valid Delta:
where the class does not fix the matrix, one near the adversary's is taken and checked to be a
member.

**Chains.** For data x let r(x) = log p(x) / q(x), a sum over the start and the moves. Given a
secret S that both think possible, the max-divergence of p from q is

    max { r(x) : x in S }  -  log p(S) / q(S).

*An entry*, X_i = a: paths through a, by a forward and a backward pass of maxima.

*Entries in a row* have given moves between them, whose ratios cancel: what is left is what lies
before the first value and after the last, for any two ends that the adversary's moves can join.

*Entries anywhere* split the series into stretches, which are independent given the entries. Each
adds the largest ratio of a path between its ends minus the ratio of the probabilities of the two
ends; the best entries are found one by one, from left to right.

*The label of a window* is read by an automaton. Maxima (for paths) and sums (for probabilities)
over the windows from a to b that end in a label are tables, the same wherever the window lies.

Secrets that the adversary thinks impossible are not compared; what only one of the two thinks
possible, given such a secret, makes the divergence infinite.

**Networks.** The log-ratio of two networks is a sum of log-ratios of tables, so its maximum over
all data with X_i = a is found as a sum of products is, with maxima for sums and sums for products.
Two passes over the buckets of one elimination order give it for every node and value.

**The nearest start.** Let mu be the initial distribution of a chain with matrix P, theta the
adversary. In the divergence given X_i = a along data that begin with x, only

    log (mu P^{i-1})(a) - log mu(x)        (and its negative, the other way round)

depends on mu. So "Delta <= d" is a set of linear inequalities in mu, two for each i, a and x: the
infimum over initial distributions is found by bisection on d, each step a linear programme. Delta
of the result is then computed as for any other chain, so the returned value is always valid.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
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
from pufferkit.beliefs.secrets import Automaton, Events, Pairs, Runs, Secrets, Sets
from pufferkit.checks import Floats
from pufferkit.data.durations import of_seconds
from pufferkit.errors import NotApplicable
from pufferkit.rounding import last_passing

MOST_ROWS = 20_000
"""Most inequalities of a programme; longer series keep the adversary's initial distribution."""

_TOLERANCE = 1e-9
_NONE = -1e280


def nearest_starts(
    adversary: MarkovChain, transition: Floats, length: int, largest: float
) -> list[Floats]:
    """Initial distributions with decreasing Delta, from ``largest`` down to the infimum.

    Only from states that the adversary can start in. Any other must never lead to a value that the
    adversary thinks possible, or Delta is infinite; then its share changes no ratio.
    """
    states = np.flatnonzero(adversary.initial > 0)
    if 2 * length * len(states) * len(adversary) > MOST_ROWS or len(states) < 2:
        return []
    rows = _inequalities(adversary, transition, length, states)
    starts = list[Floats]()

    def margin(at: float) -> float:
        start = _feasible(*rows, at - 1)
        if start is None:
            return -1.0
        starts.append(np.zeros(len(adversary)))
        starts[-1][states] = start
        return 1.0

    # Counted from 1, so that the precision is absolute where Delta is near 0.
    last_passing(margin, 1 + largest, 1.0, _TOLERANCE)
    return starts


def _inequalities(
    adversary: MarkovChain, transition: Floats, length: int, states: Any
) -> tuple[Floats, Floats, Floats]:
    """Rows (above, below, c) with: log(above . mu) - log(below . mu) + c <= Delta."""
    with np.errstate(divide="ignore", invalid="ignore"):
        moves = np.log(adversary.transition) - np.log(transition)
    shared = (adversary.transition > 0) & (transition > 0)
    ways = (np.where(shared, moves, _NONE), np.where(shared, -moves, _NONE))
    size = len(adversary)
    backward = np.zeros((2, length, size))
    for way, steps in enumerate(ways):
        for i in range(length - 2, -1, -1):
            backward[way, i] = (steps + backward[way, i + 1]).max(axis=1)
    paths = [np.where(np.eye(size, dtype=bool), 0.0, _NONE) for _ in ways]
    power, theirs = np.eye(size), adversary.initial
    unit = np.eye(size)[states][:, states]
    above, below, constants = [], [], []
    for i in range(length):
        if i:
            power, theirs = power @ transition, theirs @ adversary.transition
            paths = [
                (path[:, :, None] + steps[None]).max(axis=1)
                for path, steps in zip(paths, ways, strict=True)
            ]
        for a in np.flatnonzero(theirs > 0):
            for x, state in enumerate(states):
                prior = np.log(adversary.initial[state]) - np.log(theirs[a])
                one, other = (paths[way][state, a] + backward[way, i, a] for way in (0, 1))
                if one > _NONE / 2:
                    above.append(power[states, a])
                    below.append(unit[x])
                    constants.append(one + prior)
                if other > _NONE / 2:
                    above.append(unit[x])
                    below.append(power[states, a])
                    constants.append(other - prior)
    return np.array(above), np.array(below), np.array(constants)


def _feasible(above: Floats, below: Floats, constants: Floats, delta: float) -> Floats | None:
    """An initial distribution with every loss at most ``delta``, or ``None``."""
    from scipy.optimize import linprog  # noqa: PLC0415

    factors = np.exp(np.clip(constants - delta, -600, 600))[:, None]
    rows = above * factors - below
    rows /= np.abs(rows).max(axis=1, keepdims=True).clip(1e-300)
    size = above.shape[1]
    answer = linprog(
        np.zeros(size), rows, np.zeros(len(rows)), np.ones((1, size)), [1.0], (1e-12, 1.0)
    )
    if answer.status != 0:
        return None
    start: Floats = np.maximum(answer.x, 1e-12)
    total: float = start.sum()
    return start / total


MOST_WORK = 200_000_000
"""Sums to compare for sets of entries."""

# A path impossible under the first never counts; one impossible under the second is infinite.
_NEVER, _UNSEEN, _INFINITE = 1e300, 1e200, 1e150


def chain_delta(
    adversary: MarkovChain,
    belief: MarkovChain,
    length: int,
    hidden: Sequence[Secrets] = (Runs(1),),
) -> float:
    """Largest divergence given any secret that the adversary thinks possible, either way."""
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
            elif isinstance(secrets, Runs):
                own = _runs(given, backward, adversary, secrets.window)
            elif isinstance(secrets, Sets):
                own = _sets(given, backward, moves, (first, second), adversary, secrets.window)
            else:
                assert isinstance(secrets, Events)
                logs = (_logs(ours), _logs(theirs))
                automaton = secrets.automaton(adversary.states)
                own = _events(forward, backward, moves, (first, second), logs, automaton)
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


def _sets(
    given: Floats,
    backward: Floats,
    moves: Floats,
    pair: tuple[MarkovChain, MarkovChain],
    adversary: MarkovChain,
    count: int,
) -> float:
    length, size = given.shape
    own = min(count, length)
    work = (own - 1) * (length * size) ** 2 // 2
    if work > MOST_WORK:
        raise NotApplicable(
            f"closeness: {own} entries of {length} need {work:.1e} sums (at most {MOST_WORK:.0e}); "
            "take shorter segments, or hide entries in a row by Secrets.runs"
        )
    stretches = np.array(list(_stretches(moves, pair, adversary, length if own > 1 else 1)))
    best = given
    for _ in range(own - 1):
        longer = np.full_like(best, -_NEVER)
        for j in range(1, length):
            sums = best[:j, :, None] + stretches[j - 1 :: -1]
            longer[j] = sums.max(axis=(0, 1))
        best = longer
    largest: float = (best + backward).max()
    return largest


def _stretches(
    moves: Floats, pair: tuple[MarkovChain, MarkovChain], adversary: MarkovChain, length: int
) -> Iterator[Floats]:
    """For 1, 2, ... steps: the divergence of what lies between two entries, given both."""
    possible = adversary.transition > 0
    between = moves
    joined: Any = possible
    powers = [chain.transition for chain in pair]
    for step in range(1, length):
        if step > 1:
            between = (between[:, :, None] + moves[None]).max(axis=1)
            joined = (joined[:, :, None] & possible[None]).any(axis=1)
            powers = [p @ c.transition for p, c in zip(powers, pair, strict=True)]
        if any((power[joined] <= 0).any() for power in powers):
            raise NotApplicable(
                "closeness: some moves of several steps are too rare for a float; merge or drop "
                "rare states, or hide entries in a row by Secrets.runs"
            )
        one, other = (np.log(np.where(joined, power, 1.0)) for power in powers)
        yield np.where(joined, between - one + other, -_NEVER)


def _events(
    forward: Floats,
    backward: Floats,
    moves: Floats,
    pair: tuple[MarkovChain, MarkovChain],
    logs: tuple[Floats, Floats],
    automaton: Automaton,
) -> float:
    window = len(automaton.moves)
    starts = len(forward) - window + 1
    paths = _through(moves, automaton, np.maximum)
    sums = [_through(_logs(chain.transition), automaton, np.logaddexp) for chain in pair]
    largest = -inf
    for label in range(len(automaton.labels)):
        ahead = (paths[label][None] + backward[window - 1 :, None, :]).max(axis=2)
        best = (forward[:starts] + ahead).max(axis=1)
        first, second = (
            np.logaddexp.reduce(own[:starts] + np.logaddexp.reduce(table[label], axis=1), axis=1)
            for own, table in zip(logs, sums, strict=True)
        )
        # What both think possible; what only one does is infinite by another way (chain_delta).
        compared = (first > -_UNSEEN) & (second > -_UNSEEN)
        given = best[compared] - first[compared] + second[compared]
        largest = max(largest, float(given.max(initial=-inf)))
    return largest


def _through(steps: Floats, automaton: Automaton, gather: np.ufunc) -> Floats:
    """For each label, first value and last value: all windows between them, gathered."""
    size = len(steps)
    values = np.arange(size)
    table = np.full((size, int(automaton.moves[0].max()) + 1, size), -_NEVER)
    table[values, automaton.moves[0][0], values] = 0.0
    for ahead in automaton.moves[1:]:
        longer = np.full((size, int(ahead.max()) + 1, size), -_NEVER)
        for state in range(table.shape[1]):
            step = gather.reduce(table[:, state, :, None] + steps[None], axis=1)
            place = (slice(None), ahead[state], values)
            longer[place] = gather(longer[place], step)
        table = longer
    result = np.full((len(automaton.labels), size, size), -_NEVER)
    for state in range(table.shape[1]):
        label = automaton.ends[state]
        result[label] = gather(result[label], table[:, state])
    return result


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


def _logs(values: Floats) -> Floats:
    logs: Floats = np.where(values > 0, np.log(np.where(values > 0, values, 1.0)), -_NEVER)
    return logs


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
    sizes = [first.sizes[node] for node in nodes]
    tables: list[_ScopedTable] = []
    for network, sign, never in ((first, 1.0, -_NEVER), (second, -1.0, _UNSEEN)):
        for node in nodes:
            own = network.arrays[node]
            logs = np.where(own > 0, sign * np.log(np.where(own > 0, own, 1.0)), never)
            tables.append(((*(place[p] for p in network.parents[node]), place[node]), logs))
    order, scopes = _order(len(nodes), [set(scope) for scope, _ in tables])
    largest = max(prod(sizes[u] for u in scopes[v]) * sizes[v] for v in order)
    if largest > MOST_ENTRIES:
        raise NotApplicable(
            f"closeness of these networks needs tables of {largest:.1e} entries (at most "
            f"{MOST_ENTRIES:.0e}); cut them into parts"
        )
    rank = {v: number for number, v in enumerate(order)}
    held: dict[int, list[_ScopedTable]] = {v: [] for v in (*order, -1)}
    for scope, values in tables:
        held[min(scope, key=lambda v: rank[v])].append((scope, values))
    below: dict[int, list[int]] = {v: [] for v in (*order, -1)}
    for v in order:
        below[min(scopes[v], key=lambda u: rank[u], default=-1)].append(v)
    up: dict[int, _ScopedTable] = {}
    for v in order:
        up[v] = _kept(_sum([*held[v], *(up[u] for u in below[v])]), scopes[v])
    down: dict[int, _ScopedTable] = {-1: ((), np.zeros(()))}
    result: dict[int, Floats] = {}
    for v in (-1, *reversed(order)):
        before = [_sum([*held[v], down[v]])]
        for u in below[v]:
            before.append(_sum([before[-1], up[u]]))
        if v >= 0:
            result[v] = _kept(before[-1], (v,))[1]
        after: _ScopedTable = (), np.zeros(())
        for number in range(len(below[v]) - 1, -1, -1):
            u = below[v][number]
            down[u] = _kept(_sum([before[number], after]), scopes[u])
            after = _sum([after, up[u]])
    return [result[v] for v in range(len(nodes))]


def _sum(tables: Sequence[_ScopedTable]) -> _ScopedTable:
    scope: tuple[int, ...] = tuple(dict.fromkeys(v for own, _ in tables for v in own))
    total: Floats = np.zeros(())
    for own, values in tables:
        moved = np.transpose(values, [own.index(v) for v in scope if v in own])
        total = total + moved[tuple(slice(None) if v in own else None for v in scope)]
    return scope, total


def _kept(table: _ScopedTable, keep: tuple[int, ...]) -> _ScopedTable:
    scope, values = table
    gone = tuple(axis for axis, v in enumerate(scope) if v not in keep)
    return tuple(v for v in scope if v in keep), values.max(axis=gone) if gone else values


def _order(
    count: int, families: Sequence[set[int]]
) -> tuple[list[int], dict[int, tuple[int, ...]]]:
    """Variables, least connected first, and what each is joined with when it goes."""
    near: dict[int, set[int]] = {v: set() for v in range(count)}
    for family in families:
        for v in family:
            near[v] |= family - {v}
    order, scopes = [], {}
    while near:
        v = min(near, key=lambda u: (len(near[u]), u))
        around = near.pop(v)
        order.append(v)
        scopes[v] = tuple(sorted(around))
        for u in around:
            near[u] |= around - {u}
            near[u].discard(v)
    return order, scopes


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
        (`pufferkit.fitting.closeness`; for long series the adversary's initial distribution).
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
