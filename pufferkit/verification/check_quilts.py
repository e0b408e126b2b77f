"""Checks recorded quilts and the vector of GK16: nothing is searched, every number is rounded up.

**Quilts on chains**, [Q] Theorem 4.3. A record has for each chain, in runs of consecutive nodes,
the distances a and b of the endpoints of their quilts: {X_{i-a}, X_{i+b}}, 0 for a side without
one, minus n for the entry X_n itself. Node i is hidden if

    card_i / (epsilon - e_i) <= scale / L,
    e_i = max over x, x' of  prior_i(x, x') + left_a(x, x') + right_b(x, x'),

card_i the number of observed entries between the endpoints. An endpoint beyond the segment is
dropped: fewer entries are nearby, and the influence is no larger. Shorter segments are covered by
the same runs. Where influence does not grow with i (stationary, any start, bounds on all chains of
a class) the first node of a run, and the first with both ends, decide for those after them. With a
fixed initial distribution every node is evaluated, until distributions repeat.

**Quilts on networks**: one for each node. What it does not separate from the node is nearby, its
influence follows from their joint distribution ([Q] Definition 4.1).

**GK16**: a vector x >= 0 with x >= 1 + Gamma x. As Gamma >= 0, x is then at least the row sums of
(I - Gamma)^-1, and Theorem 7 of notes/proofs.md holds.

A false record can only fail to show that a scale is enough. What a chain says about entries at a
distance is shared with the search (`pufferkit.beliefs.chain_tables`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import singledispatch
from itertools import permutations
from math import exp, inf, log1p
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pufferkit.beliefs.base import Beliefs, Member, Mixing
from pufferkit.beliefs.bayesian_network import BayesianNetwork
from pufferkit.beliefs.chain_class import ChainClass
from pufferkit.beliefs.chain_tables import ChainTables, GivenStartTables, tables_of
from pufferkit.beliefs.event_class import EventClass
from pufferkit.beliefs.graph import Node
from pufferkit.beliefs.secrets import Events, Sets
from pufferkit.checks import Bools, Floats
from pufferkit.mechanisms.release import is_whole
from pufferkit.verification.check_sums import NetworkSums, networks_of
from pufferkit.verification.claims import Allowance, BadBeliefs, Claim, NotChecked, largest

_FAR = 1 << 20
"""A nearer endpoint bounds one that is farther than this, where rounding would matter."""

_UP = 1 + 1e-12


def by_quilts(claim: Claim) -> float:
    """The scale that the recorded quilts need: of every chain or network, at every node."""
    theta: Any = claim.beliefs
    record, scores = claim.record, []
    networks, rounding = networks_of(theta)
    room = record.epsilon - rounding
    if networks:
        if record.mechanism != "markov_quilt":
            raise BadBeliefs(f"are networks, to which {record.mechanism} does not apply")
        if any(own.parents != networks[0].parents for own in networks):
            raise BadBeliefs("are networks of different graphs, which have no common quilts")
        claim.checks.append(
            f"markov_quilt: the recorded quilt of every node of a {theta.description}"
        )
        return claim.lipschitz * score_of_networks(networks, claim.proof, room, claim.work)
    cases = _cases(theta, claim)
    how = "how fast they mix" if record.mechanism != "markov_quilt" else "their transition matrices"
    claim.checks.append(
        f"{record.mechanism}: the recorded Markov quilts for {theta.description}, from {how}, over "
        f"segments of up to {max(segment.length for segment, _ in cases):,} entries"
    )
    for (segment, window), recorded in zip(cases, claim.proof["quilts"], strict=True):
        sides = _covering(theta, claim, segment.length)
        for side, runs in zip(sides, recorded, strict=True):
            scores.append(score_of_chain(side, runs, segment, room, claim.work, window))
    return claim.lipschitz * largest([*scores, _named_score(claim)])


def _named_score(claim: Claim) -> float:
    """What the quilt that is named as the binding one asks for, by its recorded influence."""
    evidence = claim.record.evidence
    node, quilt, influence = evidence.node, evidence.quilt, evidence.influence
    if quilt is None or influence is None or evidence.counted == "observed" or not is_whole(node):
        return 0.0  # with gaps its distances include entries that were not observed
    before = min((node - n for n in quilt if n < node), default=node)
    after = min((n - node for n in quilt if n > node), default=claim.longest - node + 1)
    return _score(max(1, before) + max(1, after) - 1, influence, claim.record.epsilon)


def _cases(theta: Any, claim: Claim) -> list[tuple[Nearby, int]]:
    """Segments, and how many entries in a row are hidden: one list of quilts for each."""
    longest = claim.longest
    for secrets in theta.every_secret() if theta.names_secrets else ():
        if isinstance(secrets, Sets) and secrets.window > 1:
            raise BadBeliefs("hide sets of entries that are not adjacent, which quilts do not")
        if isinstance(secrets, Events) and secrets.window > longest:
            raise BadBeliefs(f"hide {secrets.description}, which needs longer segments than these")
    if theta.names_secrets:
        windows = sorted({min(one.window, longest) for one in theta.every_secret()})
        return [(Nearby(longest), window) for window in windows]
    gaps = [(Nearby(sum(runs), _observed_until(runs)), 1) for runs in claim.patterns]
    return gaps or [(Nearby(longest), 1)]


def _observed_until(runs: Sequence[int]) -> NDArray[np.intp]:
    """The number of observed entries up to each entry; the first is before all of them."""
    seen = np.repeat([1 - n % 2 for n in range(len(runs))], runs)
    return np.concatenate([[0], np.cumsum(seen)]).astype(np.intp)


# --- influence on chains, as tables over pairs of values, rounded up ------------------------------


class EndpointBounds(NamedTuple):
    """Pairs of values that a node can have, prior_i + left_a, right_b; the tables of a chain."""

    pairs: Callable[[int], Bools]
    left: Callable[[int, int], Floats]
    right: Callable[[int], Floats]
    tables: ChainTables | None = None

    @property
    def changing(self) -> GivenStartTables | None:
        """The tables of a chain whose nodes differ by more than that influence falls."""
        return self.tables if isinstance(self.tables, GivenStartTables) else None

    def sure(self, entry: int, node: int) -> bool:
        """Whether an earlier entry has one possible value: then it ends every quilt."""
        known = self.changing
        return known is not None and entry < node and int(known.support(entry).sum()) == 1

    def influence(self, node: int, left: int, right: int, length: int, window: int) -> float:
        """e_i; of several entries in a row, the pairs on either side may differ."""
        ends = bool(right) and node + right <= length
        if (ends and right < window) or (left < 0 and not self.sure(-left, node)):
            return inf
        here, none = self.pairs(node), np.zeros((1, 1))
        before = self.left(node, left) if 0 < left < node else none
        after = self.right(right - window + 1) if ends else none
        tables = [before + after] if window == 1 else [before, after]
        most = (np.broadcast_to(table, here.shape)[here].max(initial=0.0) for table in tables)
        return sum(map(largest, ([one] for one in most)))


def of_chain(member: Member, length: int, *, as_printed: bool = False) -> EndpointBounds:
    """One chain with its start, or with any start; as printed, u in [Q] (5) is any state."""
    tables = tables_of(member, length)
    error = tables.powers.rounding

    def pairs(node: int) -> Bools:
        return np.outer(tables.support(node), tables.support(node))

    def left(node: int, steps: int) -> Floats:
        near = min(steps, _FAR)
        sources = tables.support(node - near) | as_printed
        return (
            tables.prior(node) + tables.left(near, sources) + tables.prior_error(node) + error(near)
        )

    def right(steps: int) -> Floats:
        return tables.right(min(steps, _FAR)) + error(min(steps, _FAR))

    return EndpointBounds(pairs, left, right, tables)


def by_mixing(norm: float, factor: float, weight: int, states: int) -> EndpointBounds:
    """Entries of P^t are within a factor 1 +- norm^t factor of the stationary distribution.

    By [Q] Lemma C.1; to the left ``weight`` times the bound on a row (Lemma C.3), as the
    prior changes with the value. One pair of values stands for all.
    """
    size = min(2, states)

    def right(steps: int) -> Floats:
        delta = norm**steps * factor * _UP
        bound = log1p(delta) - log1p(-delta) if delta < 1 else inf
        return np.where(np.eye(size) > 0, 0.0, bound * _UP)

    return EndpointBounds(
        lambda _: np.ones((size, size), bool), lambda _, t: weight * right(t), right
    )


def by_norm(own: Mixing, states: int) -> EndpointBounds:
    """From the operator norm of P, and with the exact prior of a stationary start."""
    return by_mixing(own.contraction, 1 / own.pi_min - 1, 1 if own.stationary else 2, states)


@singledispatch
def _covering(theta: Beliefs, claim: Claim, longest: int) -> Sequence[EndpointBounds]:
    """The chains, or the bounds on all chains of a class, that quilts are recorded for."""
    raise BadBeliefs(f"have no quilts: a {theta.description}")


@_covering.register
def _(theta: ChainClass, claim: Claim, longest: int) -> Sequence[EndpointBounds]:
    variant, states = claim.record.evidence.variant, len(theta.states)
    if claim.record.mechanism == "markov_quilt_approx":
        known = theta.mixing_bounds()
        if variant == "tight":
            return [by_norm(own, states) for own in known]
        least = min(own.pi_min for own in known), min(own.gap for own in known)
        return [by_mixing(exp(-least[1] / 2), 1 / least[0], 2, states)]
    members = theta.corners()
    if members is None:  # one bound for all chains of the class
        every, own = np.ones((states, states), dtype=bool), theta.influence
        left = lambda _, steps: np.asarray(own.left_ratio(steps) * _UP)  # noqa: E731
        return [EndpointBounds(lambda _: every, left, lambda t: np.asarray(own.ratio(t) * _UP))]
    claim.work.spend(len(members) * (1e5 + 40.0 * states**3))
    return [of_chain(m, longest, as_printed=variant == "formula") for m in members]


@_covering.register
def _(theta: EventClass, claim: Claim, longest: int) -> Sequence[EndpointBounds]:
    theta.known_chains()  # refuses what has none
    if claim.record.mechanism != "markov_quilt":
        raise BadBeliefs(f"name secrets, which {claim.record.mechanism} does not cover")
    return _covering(theta.beliefs, claim, longest)


# --- quilts on chains -----------------------------------------------------------------------------


class Nearby(NamedTuple):
    """A segment: how many entries it has, and for gaps how many were observed up to each."""

    length: int
    until: NDArray[np.intp] | None = None

    def most(self, first: int, last: int, left: int, right: int) -> float:
        """The most observed entries between the endpoints of a node from ``first`` to ``last``."""
        # Without gaps concave in the node, and linear between these.
        ends = {first, last, left, self.length - right + 1}
        near = [n for n in ends if first <= n <= last]
        nodes = np.array(near) if self.until is None else np.arange(first, last + 1)
        low = np.maximum(nodes - left, 0) if left > 0 else np.full_like(nodes, -left)
        high = np.minimum(nodes + right - 1, self.length) if right else self.length
        inside = high - low if self.until is None else self.until[high] - self.until[low]
        return float(inside.max())


def spans_of(recorded: Any, nodes: int, length: int) -> Iterator[tuple[int, int, int, int]]:
    """First and last node of each recorded run, and its distances; they must cover every node."""
    last = 0
    for run in recorded:
        count, left, right = run
        if not (0 < count <= nodes - last and abs(left) <= length and 0 <= right <= length):
            raise TypeError("nodes and the endpoints of quilts lie within the segment")
        yield last + 1, last + count, left, right
        last += count
    if last != nodes:
        raise TypeError(f"quilts are recorded for {last} nodes, there are {nodes}")


def score_of_chain(
    side: EndpointBounds,
    recorded: Any,
    segment: Nearby,
    epsilon: float,
    work: Allowance,
    window: int = 1,
) -> float:
    """The largest card / (epsilon - influence) over all nodes, by their recorded quilts.

    Parameters
    ----------
    side
        One chain, or bounds on all chains of a class.
    recorded
        Runs of quilts, see above.
    segment
        The longest segment, or one with gaps.
    window
        So many entries in a row are hidden together; the right distance counts from the first.
    """
    if window > 1 and side.changing is not None:
        raise TypeError("windows need a stationary chain")
    last = segment.length - min(window, segment.length) + 1
    scores = [1 / epsilon] if segment.until is None else [0.0]  # an entry by itself
    with np.errstate(over="ignore", invalid="ignore"):
        for first, end, left, right in spans_of(recorded, last, segment.length):
            for node, until in _deciding(side, first, end, left, segment):
                work.spend(5e4)
                own = side.influence(node, left, right, segment.length, window)
                scores.append(_score(segment.most(node, until, left, right), own, epsilon))
    return largest(scores)


def _deciding(
    side: EndpointBounds, first: int, last: int, left: int, segment: Nearby
) -> list[tuple[int, int]]:
    """Nodes of a run whose influence bounds that of all nodes after them, and up to which node."""
    known = side.changing
    if known is not None:
        stop = min(last, max(first - 1, known.burn_in + max(left, 0)) + known.cycle)
        hidden = [n for n in range(first, stop + 1) if known.support(n).sum() > 1]
        repeats = stop - known.cycle if stop < last else last
        return [(n, n if n <= repeats else last) for n in hidden]
    if segment.until is not None and side.tables is not None and not side.tables.steady:
        # The count differs from node to node, and the influence falls: each by itself.
        return [(n, n) for n in range(first, last + 1)]
    return [(first, left), (left + 1, last)] if first <= left < last else [(first, last)]


def _score(card: float, influence: float, epsilon: float) -> float:
    """What is no number bounds nothing."""
    room = epsilon - influence
    return card / room * _UP if room > 0 else inf


# --- quilts on networks ---------------------------------------------------------------------------


def score_of_networks(
    networks: Sequence[BayesianNetwork], proof: Mapping[str, Any], epsilon: float, work: Allowance
) -> float:
    """The largest score over nodes, each with the quilt that was recorded for it."""
    recorded, nodes = proof.get("quilts"), networks[0].nodes
    if recorded is None or len(recorded) != len(nodes):
        raise NotChecked("the file does not hold a quilt for every node")
    worst, sums = 0.0, [NetworkSums(network, work) for network in networks]
    for node, places in zip(nodes, recorded, strict=True):
        if not all(0 <= place < len(nodes) for place in places):
            raise TypeError("a quilt names a node that is not there")
        quilt = [nodes[place] for place in places]
        if node in quilt:
            raise NotChecked(f"the quilt recorded for {node!r} holds the node itself")
        work.spend(5e3 * len(nodes))
        nearby = len(connected(networks[0], node, set(quilt)))
        influence = max(_influence(own, node, quilt) for own in sums)
        worst = max(worst, _score(nearby, influence, epsilon))
    return worst


def connected(network: BayesianNetwork, node: Node, given: set[Node]) -> set[Node]:
    """The nodes not d-separated from ``node`` by ``given``, itself included.

    Trails that may still be open are followed from node to node, with the direction in which each
    is entered: from a child, or from a parent.
    """
    opened, todo = set[Node](), list(given)  # a collider is open if it or a descendant is given
    while todo:
        n = todo.pop()
        if n not in opened:
            opened.add(n)
            todo += network.parents[n]
    entered, trails = set[tuple[Node, bool]](), [(node, True)]
    while trails:
        n, from_child = step = trails.pop()
        if step in entered:
            continue
        entered.add(step)
        if n not in given:
            trails += [(child, False) for child in network.children[n]]
        if n not in given if from_child else n in opened:
            trails += [(parent, True) for parent in network.parents[n]]
    return {n for n, _ in entered} - given


def _influence(sums: NetworkSums, node: Node, quilt: Sequence[Node]) -> float:
    """[Q] Definition 4.1, from the joint distribution of the node and its quilt, rounded up."""
    joint = sums.joint((node, *quilt))
    rows = [row / row.sum() for row in joint.reshape(len(joint), -1) if row.any()]
    worst = 0.0
    with np.errstate(divide="ignore"):
        for one, other in permutations(rows, 2):
            ratios = np.log(one[one > 0] / other[one > 0])
            worst = max(worst, float(ratios.max()) + 1e-13)
    return worst


# --- GK16 -----------------------------------------------------------------------------------------


def by_neighbours(claim: Claim) -> float:
    """The scale of GK16: by the recorded vector of every chain."""
    theta: Any = claim.beliefs
    claim.checks.append(
        "gk16: distributions of an entry given its neighbours, and a recorded x >= 1 + Gamma x"
    )
    spreads = [
        spread_on_chain(own, claim.longest, x, claim.work)
        for own, x in zip(theta.members(), claim.proof["sums"], strict=True)
    ]
    return claim.lipschitz * largest(spreads) / claim.record.epsilon


def spread_on_chain(member: Member, length: int, recorded: Any, work: Allowance) -> float:
    """Twice the largest entry of the recorded vector on one chain; infinite if it shows nothing.

    It is recorded as runs of equal entries. All rows of Gamma between the ends are the same, so of
    a long run its first, its last and one entry between them stand for all.
    """
    if length == 1:
        return 2.0
    counts, numbers = zip(*recorded, strict=True)
    if not all(is_whole(n) and n > 0 for n in counts) or sum(counts) != length:
        raise TypeError(f"the vector of gk16 must have {length} entries")
    matrix = member.chain.transition
    work.spend(1e4 + 1e3 * len(counts) + 200.0 * len(matrix) ** 3)
    x = np.repeat(np.array(numbers, dtype=float), np.minimum(counts, 3))
    with np.errstate(divide="ignore", invalid="ignore"):
        moves, start = np.log(matrix), np.log(member.chain.initial)
        if member.any_start:  # the first entry: the projective diameter
            ratios = tables_of(member).left(1, np.ones(len(matrix), dtype=bool))
            first = float(np.nan_to_num(ratios + ratios.T, nan=inf, posinf=inf).max()) / 2 * _UP
        else:
            first = sway((start[:, None] + moves).T, 0)
        between = moves[:, None, :] + moves.T[None, :, :]  # [before, after, entry]
        needed = np.ones(len(x))
        needed[0] += first * x[1]
        needed[1:-1] += sway(between, 0) * x[:-2] + sway(between, 1) * x[2:]
        needed[-1] += sway(moves, 0) * x[-2]
    return _spread(x, needed)


def sway(weights: Floats, axis: int) -> float:
    """An entry of Gamma: half the largest log-ratio along the last axis when a neighbour changes.

    From logarithms of weights, with an axis for each neighbour. Neighbours that cannot be together
    do not count, nor do values that are impossible either way.
    """
    total = np.logaddexp.reduce(weights, axis=-1, keepdims=True)
    together = total > -inf
    logs = weights - np.where(together, total, 0.0)
    most = np.where(together, logs, -inf).max(axis=axis)
    least = np.where(together, logs, inf).min(axis=axis)
    return float((most - least)[most > -inf].max(initial=0.0)) / 2 * _UP


def _spread(x: Floats, needed: Floats) -> float:
    """Twice the largest x if it is as large as needed; what is no number shows nothing."""
    shown = bool((x >= 0).all() and (x >= needed * (1 + 1e-13)).all())
    return 2 * float(x.max()) * _UP if shown else inf
