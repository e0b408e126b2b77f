"""Checks recorded quilts and the vector of GK16: nothing is searched, every number is rounded up.

**Quilts on chains**, [Q] Theorem 4.3. A record has for each chain, in runs of consecutive nodes,
the distances a and b of the endpoints of their quilts: {X_{i-a}, X_{i+b}}, 0 for a side without
one, minus n for the entry X_n itself. Node i is hidden if

    card_i / (epsilon - e_i) <= scale / L,
    e_i = max over x, x' of  prior_i(x, x') + left_a(x, x') + right_b(x, x'),

card_i the number of observed entries between the endpoints. An endpoint beyond the segment is
dropped: fewer entries are nearby, and the influence is no larger. Shorter segments are covered by
the same runs. Where influence does not grow with i (stationary, any start, bounds on all chains of
a class) the first node of a run decides for all of them. With a fixed initial distribution every
node is evaluated, until distributions repeat.

**Quilts on networks**: one for each node. What it does not separate from the node is nearby, its
influence follows from their joint distribution ([Q] Definition 4.1).

**GK16**: a vector x >= 0 with x >= 1 + Gamma x. As Gamma >= 0, x is then at least the row sums of
(I - Gamma)^-1, and Theorem 7 of notes/proofs.md holds.

A false record can only fail to show that a scale is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import singledispatch
from itertools import permutations, product
from math import exp, inf, isfinite, log1p
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pufferkit.beliefs.base import Beliefs, Member
from pufferkit.beliefs.bayesian_network import BayesianNetwork
from pufferkit.beliefs.chain_class import ChainClass
from pufferkit.beliefs.event_class import EventClass
from pufferkit.beliefs.graph import Node
from pufferkit.beliefs.junction_tree import GraphModel, neighbours, spread
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.beliefs.region_class import RegionClass
from pufferkit.beliefs.secrets import Events, Sets
from pufferkit.checks import Bools, Floats
from pufferkit.mechanisms.release import is_number, is_whole
from pufferkit.rounding import EPS
from pufferkit.verification.check_graphs import models_of
from pufferkit.verification.check_sums import NetworkSums, networks_of
from pufferkit.verification.claims import Allowance, BadBeliefs, Claim, NotChecked, largest

_FAR = 1 << 20
"""The prior of any start never grows along a series, so a nearer entry bounds it."""

_SETTLED = 1e-12
_MEMORY = 3 * 10**7
_UP = 1 + 1e-12
_TINY = 1e-280
_MOST_AROUND = 1 << 14


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
    for case, (segment, window) in enumerate(cases):
        sides = _covering(theta, claim, segment.length)
        runs = quilts_of_case(claim.proof, case, len(cases), len(sides))
        for side, own in zip(sides, runs, strict=True):
            scores.append(score_of_chain(side, own, segment, room, claim.work, window))
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


@singledispatch
def _covering(theta: Beliefs, claim: Claim, longest: int) -> Sequence[Any]:
    """The chains, or the bounds on all chains of a class, that quilts are recorded for."""
    raise BadBeliefs(f"have no quilts: a {theta.description}")


@_covering.register
def _(theta: ChainClass, claim: Claim, longest: int) -> Sequence[Any]:
    variant = claim.record.evidence.variant
    if claim.record.mechanism == "markov_quilt_approx":
        return mixing_bounds(theta, tight=variant == "tight")
    members = theta.corners()
    if members is None:
        return _whole(theta)
    printed = variant == "formula"
    return [KnownChain(m, longest, claim.work, as_printed=printed) for m in members]


@_covering.register
def _(theta: EventClass, claim: Claim, longest: int) -> Sequence[Any]:
    theta.known_chains()  # refuses what has none
    if claim.record.mechanism != "markov_quilt":
        raise BadBeliefs(f"name secrets, which {claim.record.mechanism} does not cover")
    return _covering(theta.beliefs, claim, longest)


@singledispatch
def _whole(theta: ChainClass) -> Sequence[Any]:
    """The bound on all chains of a class at once."""
    theta.members()  # says why there is none
    raise BadBeliefs("are covered by influence_curve only")


@_whole.register
def _(theta: RegionClass) -> Sequence[Any]:
    return [RegionBound(theta)]


# --- quilts on chains -----------------------------------------------------------------------------


class Nearby(NamedTuple):
    """A segment: how many entries it has, and for gaps how many were observed up to each."""

    length: int
    until: NDArray[np.intp] | None = None

    def most(self, first: int, last: int, left: int, right: int) -> float:
        """The most observed entries between the endpoints of a node from ``first`` to ``last``."""
        if self.until is None:
            # Concave in the node, and linear between these.
            ends = {first, last, left, self.length - right + 1}
            nodes = np.array([n for n in ends if first <= n <= last])
        else:
            nodes = np.arange(first, last + 1)
        return float(self.at(nodes, left, right).max())

    def at(self, nodes: NDArray[np.intp], left: int, right: int) -> NDArray[np.intp]:
        """Observed entries between the endpoints of each node."""
        low = np.maximum(nodes - left, 0) if left > 0 else np.full_like(nodes, -left)
        high = np.minimum(nodes + right - 1, self.length) if right else self.length
        return high - low if self.until is None else self.until[high] - self.until[low]


def quilts_of_case(data: Mapping[str, Any], case: int, cases: int, chains: int) -> list[Any]:
    """The recorded runs of every chain, for one pattern of gaps or one width of a window."""
    recorded = data.get("quilts")
    if not isinstance(recorded, list) or len(recorded) != cases:
        raise TypeError(f"there must be quilts for {cases} pattern(s) of entries")
    rows = recorded[case]
    if not isinstance(rows, list) or len(rows) != chains:
        raise TypeError(f"there must be quilts for each of {chains} chain(s)")
    for number, row in enumerate(rows):
        if isinstance(row, int) and not (0 <= row < number and isinstance(rows[row], list)):
            raise TypeError("quilts refer to a chain that has none")
    return [rows[row] if isinstance(row, int) else row for row in rows]


def spans_of(recorded: Any, nodes: int, length: int) -> list[tuple[int, int, int, int]]:
    """First and last node of each recorded run, and its distances; they must cover every node."""
    spans, last = [], 0
    for run in recorded:
        count, left, right = run
        if not all(map(is_whole, run)) or min(count - 1, right) < 0:
            raise TypeError("a run of quilts has a number of nodes and two distances")
        if abs(left) > length or right > length:
            raise TypeError("the endpoints of quilts lie within the segment")
        spans.append((last + 1, last + count, left, right))
        last += count
    if last != nodes:
        raise TypeError(f"quilts are recorded for {last} nodes, there are {nodes}")
    return spans


def score_of_chain(
    side: Any,
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
    last = segment.length - min(window, segment.length) + 1
    worst = 1 / epsilon if segment.until is None else 0.0  # an entry by itself
    with np.errstate(over="ignore", invalid="ignore"):
        spans = spans_of(recorded, last, segment.length)
        if segment.until is not None and isinstance(side, KnownChain) and side.any_start:
            # The count differs from node to node, and the influence falls: each by itself.
            spans = [(n, n, a, b) for first, end, a, b in spans for n in range(first, end + 1)]
        for span in spans:
            work.spend(2e4)
            worst = max(worst, _score_of_run(side, span, segment, epsilon, work, window))
    return worst


def _score(card: float, influence: float, epsilon: float) -> float:
    """What is no number bounds nothing."""
    room = epsilon - influence
    return card / room * _UP if room > 0 else inf


def _score_of_run(
    side: Any,
    span: tuple[int, int, int, int],
    segment: Nearby,
    epsilon: float,
    work: Allowance,
    window: int,
) -> float:
    """The largest score of a run of nodes.

    Where influence does not grow, the first node and the first with both ends decide; else each
    node counts, until distributions repeat: from then on one is as far from its limit, or less, and
    this distance is added.
    """
    first, last, left, right = span

    def most(table: Floats, here: Bools) -> float:
        return largest([0.0, np.broadcast_to(table, here.shape)[here].max()])

    def influence(node: int) -> float:
        ends = bool(right) and node + right <= segment.length
        if ends and right < window:
            return inf
        if left < 0 and not (isinstance(side, KnownChain) and side.is_sure(-left, node)):
            return inf
        here, none = side.pairs(node), np.zeros((1, 1))
        after = side.right(right - window + 1) if ends else none
        before = side.left(node, left) if 0 < left < node else none
        if window > 1:  # the pairs on either side may differ
            return most(before, here) + most(after, here)
        return most(before + after, here)

    if not (isinstance(side, KnownChain) and side.differs):
        nodes = {first, max(first, left + 1)} if left < last else {first}
        largest_one = largest(influence(node) for node in nodes)
        return _score(segment.most(first, last, left, right), largest_one, epsilon)
    if window > 1:
        raise TypeError("windows need a stationary chain")
    settled = side.repeats_from + side.period + max(left, 0)
    stop = min(last, max(first, settled) + side.period - 1)
    work.spend(5e4 * (stop - first + 1))
    hidden = [n for n in range(first, stop + 1) if side.distribution(n)[1].sum() > 1]
    error = side.rounding(side.repeats_from)
    if last > side.repeats_from:
        limit = side.distribution(side.repeats_from)[0]
        error += side.chain.limit_distance(limit, side.repeats_from)
    each = {node: influence(node) + error for node in hidden}
    cards = segment.at(np.array(hidden, dtype=np.intp), left, right).tolist()
    scores = [_score(card, own, epsilon) for card, own in zip(cards, each.values(), strict=True)]
    later = [own for node, own in each.items() if node > stop - side.period]
    if stop < last and later:
        scores.append(_score(segment.most(stop + 1, last, left, right), largest(later), epsilon))
    return largest(scores)


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
        if not all(is_whole(place) and 0 <= place < len(nodes) for place in places):
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
    """The scale of GK16: by the recorded vector of every chain or graph."""
    theta: Any = claim.beliefs
    claim.checks.append(
        "gk16: distributions of an entry given its neighbours, and a recorded x >= 1 + Gamma x"
    )
    models = models_of(theta)
    members = () if models else theta.members()
    recorded = claim.proof.get("sums")
    if not isinstance(recorded, list) or len(recorded) != len(models or members):
        raise TypeError("there must be a vector for each of the beliefs")
    spreads = [
        spread_on_graph(model, own, claim.work)
        for model, own in zip(models, recorded, strict=False)
    ] + [
        spread_on_chain(member, claim.longest, own, claim.work)
        for member, own in zip(members, recorded, strict=False)
    ]
    return claim.lipschitz * largest(spreads) / claim.record.epsilon


def spread_on_chain(member: Member, length: int, recorded: Any, work: Allowance) -> float:
    """Twice the largest entry of the recorded vector on one chain; infinite if it shows nothing.

    It is recorded as runs of equal entries. All rows of Gamma between the ends are the same, so of
    a long run its first, its last and one entry between them stand for all.
    """
    if length == 1:
        return 2.0
    if not isinstance(recorded, list) or not all(len(run) == 2 for run in recorded):
        raise TypeError("the vector of gk16 must be runs of equal numbers")
    counts = [run[0] for run in recorded]
    if not all(is_whole(n) and n > 0 for n in counts) or sum(counts) != length:
        raise TypeError(f"the vector of gk16 must have {length} entries")
    work.spend(1e4 + 1e3 * len(counts) + 200.0 * len(member.chain) ** 3)
    x = np.repeat(_numbers([run[1] for run in recorded]), np.minimum(counts, 3))
    first, left, right, last = sways(member, length)
    needed = np.ones(len(x))
    with np.errstate(invalid="ignore"):
        needed[0] += first * x[1]
        needed[1:-1] += left * x[:-2] + right * x[2:]
        needed[-1] += last * x[-2]
    return _spread(x, needed)


def _spread(x: Floats, needed: Floats) -> float:
    """Twice the largest x if it is as large as needed; what is no number shows nothing."""
    shown = bool((x >= 0).all() and (x >= needed * (1 + 1e-13)).all())
    return 2 * float(x.max()) * _UP if shown else inf


def sways(member: Member, length: int) -> tuple[float, float, float, float]:
    """The entries of Gamma on a chain: first, left, right, last; rounded up.

    Half the largest log-ratio of the distribution of an entry given its neighbours when the next
    one changes (the first entry), the one before or after (entries between), the one before (last).
    """
    matrix = member.chain.transition
    if member.any_start:  # the first entry: the projective diameter
        columns = log_ratios(matrix.T, matrix.T > 0)
        with np.errstate(invalid="ignore"):
            first = float(np.nan_to_num(columns + columns.T, nan=inf, posinf=inf).max())
    else:
        first = _sway([(member.chain.initial[:, None] * matrix).T])
    last = _sway([matrix])
    left = right = 0.0
    if length > 2:
        left = _sway([matrix * column for column in matrix.T])
        right = _sway([row * matrix.T for row in matrix])
    first, left, right, last = (0.5 * ratio * _UP for ratio in (first, left, right, last))
    return first, left, right, last


def _sway(families: list[Floats]) -> float:
    """Largest log-ratio of two distributions of one family, from their joint weights."""
    largest = 0.0
    for joint in families:
        rows = joint[joint.sum(axis=1) > 0]
        distributions = rows / rows.sum(axis=1, keepdims=True)
        largest = max(largest, float(log_ratios(distributions, distributions > 0).max(initial=0.0)))
    return largest


def spread_on_graph(model: GraphModel, recorded: Any, work: Allowance) -> float:
    """Twice the largest entry of the recorded vector on a graph; infinite if it shows nothing.

    Gamma_ij is half the largest log-ratio of the distribution of node i given its neighbours when
    neighbour j changes.
    """
    sizes = [len(model.values[node]) for node in model.nodes]
    factors = [(tuple(scope), table) for scope, table in model.log_factors]
    if any(not np.isfinite(table).all() for _, table in factors):
        return inf
    x = np.array(_numbers(recorded))
    if len(x) != len(sizes):
        raise TypeError(f"the vector of gk16 must have {len(sizes)} entries")
    needed = np.ones(len(sizes))
    for i, own in enumerate(neighbours(len(sizes), [scope for scope, _ in factors])):
        around = sorted(own)
        shape = [sizes[n] for n in (*around, i)]
        entries = float(np.prod([float(size) for size in shape]))
        work.spend(1e4 + 100.0 * entries * (1 + len(around)))
        if entries > _MOST_AROUND:
            return inf
        weights = np.zeros(shape)
        for scope, table in factors:
            if i in scope:
                weights = weights + spread(table, scope, (*around, i))
        logs = weights - np.logaddexp.reduce(weights, axis=-1, keepdims=True)
        for axis, j in enumerate(around):
            needed[i] += float(np.ptp(logs, axis=axis).max()) / 2 * _UP * x[j]
    return _spread(x, needed)


def _numbers(recorded: Any) -> list[float]:
    """Finite numbers."""
    if not isinstance(recorded, list) or not recorded:
        raise TypeError("the vector of gk16 is missing")
    if not all(is_number(n) and isfinite(n) for n in recorded):
        raise TypeError("the vector of gk16 must have finite numbers")
    return [float(n) for n in recorded]


# --- what chains and classes say ------------------------------------------------------------------


def log_ratios(rows: Floats, possible: Bools) -> Floats:
    """Entry (x, x') is the largest log of rows(x, y) / rows(x', y).

    Terms where both probabilities are zero are skipped; what underflowed counts as infinite.
    """
    above = np.where(possible, np.maximum(rows, _TINY), 0.0)
    below = np.where(rows >= _TINY, rows, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        gaps = np.log(above)[:, None, :] - np.log(below)[None, :, :]
    gaps[np.isnan(gaps)] = -inf
    largest: Floats = gaps.max(axis=2)
    np.fill_diagonal(largest, 0.0)
    return largest


class KnownChain:
    """Powers and distributions of one transition matrix with its start, or with any start.

    From node ``repeats_from`` on (0: always) distributions repeat with ``period``. ``as_printed``
    reads [Q] (5) as it stands: u runs over all states.
    """

    def __init__(
        self, member: Member, length: int, work: Allowance, *, as_printed: bool = False
    ) -> None:
        self.chain, self.any_start, self.work = member.chain, member.any_start, work
        self.matrix, self.as_printed = member.chain.transition, as_printed
        self.size = len(self.matrix)
        self.stationary = not self.any_start and self.chain.is_stationary
        self.differs = not (self.stationary or self.any_start)
        self.period = self.chain.period if self.differs else 1
        self._distributions = [(self.chain.initial, self.chain.initial > 0)]
        self._memory: dict[Hashable, Any] = {}
        self.repeats_from = self._repeats_from(length)

    def _repeats_from(self, length: int) -> int:
        if self.stationary or (self.any_start and (self.matrix > 0).any(axis=0).all()):
            return 0
        if self.any_start:
            return self.size  # reachable states shrink at every node until they are constant
        node = 1
        while node < length and self.chain.limit_distance(self._exact(node)[0], node) > _SETTLED:
            node += 16 if self.period == 1 else 1
        return min(node, length)

    def remembered(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """What has this key, made if need be."""
        if key not in self._memory:
            if len(self._memory) * (self.size**2 + 100) > _MEMORY:
                self._memory.clear()
            self.work.spend(10**4 + 40 * self.size**3)
            self._memory[key] = make()
        return self._memory[key]

    def power(self, steps: int) -> tuple[Floats, Bools]:
        """P^steps, and which of its entries are possible."""

        def product() -> tuple[Floats, Bools]:
            (first, one), (second, other) = self.power(steps // 2), self.power((steps + 1) // 2)
            return first @ second, one.astype(float) @ other > 0

        if steps < 2:
            matrix = self.matrix if steps else np.eye(self.size)
            return matrix, matrix > 0
        power: tuple[Floats, Bools] = self.remembered(("power", steps), product)
        return power

    def _exact(self, node: int) -> tuple[Floats, Bools]:
        while len(self._distributions) < node:
            self.work.spend(10**4 + 4 * self.size**2)
            distribution, possible = self._distributions[-1]
            more = possible.astype(float) @ (self.matrix > 0)
            self._distributions.append((distribution @ self.matrix, more > 0))
        return self._distributions[node - 1]

    def distribution(self, node: int) -> tuple[Floats, Bools]:
        """The distribution of X_node and its support; for any start only the support counts."""
        if self.stationary:
            return self._distributions[0]
        start = max(1, self.repeats_from)
        return self._exact(node if node <= start else start + (node - start) % self.period)

    def pairs(self, node: int) -> Bools:
        """Which pairs of values can occur at a node."""
        support = self.distribution(node)[1]
        return np.outer(support, support)

    def right(self, steps: int) -> Floats:
        """right_b, rounded up."""
        table: Floats = self.remembered(steps, lambda: log_ratios(*self.power(steps)))
        return table + self.rounding(steps)

    def columns(self, steps: int, sources: Bools) -> Floats:
        """left_a, rounded up."""
        values, possible = self.power(steps)
        kept = np.ones(self.size, dtype=bool) if self.as_printed else sources
        table: Floats = self.remembered(
            ("columns", steps, kept.tobytes()), lambda: log_ratios(values[kept].T, possible[kept].T)
        )
        return table + self.rounding(steps)

    def left(self, node: int, steps: int) -> Floats:
        """prior_i + left_a, rounded up; for differing distributions but for the error of those."""
        columns = self.columns(steps, self.distribution(node - steps)[1])
        values, possible = self.distribution(node)
        if self.stationary:
            return log_ratios(values[:, None], possible[:, None]).T + columns + 1e-12
        if self.differs:  # those lost to underflow are no numbers
            logs = np.where(possible & (values < _TINY), np.nan, np.log(np.maximum(values, _TINY)))
            return np.asarray(logs[None, :] - logs[:, None] + columns)
        near = min(node, _FAR) - 1
        values, possible = self.power(near)
        prior = self.remembered(("prior", near), lambda: log_ratios(values.T, possible.T).T)
        return np.asarray(prior + self.rounding(near) + columns)

    def is_sure(self, entry: int, node: int) -> bool:
        """Whether an earlier entry has one possible value: then it ends every quilt."""
        return self.differs and entry < node and int(self.distribution(entry)[1].sum()) == 1

    def rounding(self, steps: int) -> float:
        """Bound on the error of a log-ratio of entries of P^steps."""
        return 1e-13 + 3 * EPS * steps * (self.size + 2)


@dataclass(frozen=True)
class MixingBound:
    """Entries of P^t are within a factor 1 +- norm^t factor of the stationary distribution.

    By [Q] Lemma C.1; to the left ``weight`` times the bound on a row (Lemma C.3), as the
    prior changes with the value.
    """

    norm: float
    factor: float
    weight: int
    size: int
    differs = False

    def pairs(self, node: int) -> Bools:
        """One pair of values stands for all."""
        return np.ones((min(2, self.size),) * 2, dtype=bool)

    def left(self, node: int, steps: int) -> Floats:
        """prior_i + left_a."""
        return self.weight * self.right(steps)

    def right(self, steps: int) -> Floats:
        """right_b, rounded up."""
        delta = self.norm**steps * self.factor
        h = log1p(delta) - log1p(-delta) if delta < 1 else inf
        return np.where(np.eye(min(2, self.size)) > 0, 0.0, h * _UP + 1e-14)


@dataclass(frozen=True)
class RegionBound:
    """One bound for all chains of a region, any start, as the beliefs give it."""

    theta: RegionClass
    differs = False

    def pairs(self, node: int) -> Bools:
        """All pairs, as the start is arbitrary."""
        return np.ones((len(self.theta.states),) * 2, dtype=bool)

    def left(self, node: int, steps: int) -> Floats:
        """prior_i + left_a."""
        return np.asarray(self.theta.influence.left_ratio(steps) * _UP)

    def right(self, steps: int) -> Floats:
        """right_b."""
        return np.asarray(self.theta.influence.ratio(steps) * _UP)


def mixing_bounds(theta: ChainClass, *, tight: bool) -> list[MixingBound]:
    """[Q] Lemma C.1 with the least pi_min and gap; or, tight, the operator norm of each chain."""
    states = len(theta.states)
    if theta.names_matrices:
        known = [fact for box in theta.boxes() for fact in _in_box(*box)]
    else:  # what was declared
        known = [(own.pi_min, own.gap, own.contraction, 2) for own in theta.mixing_bounds()]
    least = min(pi for pi, *_ in known), min(gap for _, gap, *_ in known)
    if not tight:
        return [MixingBound(exp(-least[1] / 2), 1 / least[0], 2, states)]
    if not theta.lists_matrices:  # the class is known only by common bounds
        known = [(*least, max(norm for *_, norm, _ in known), 2)]
    return [MixingBound(norm, 1 / pi - 1, weight, states) for pi, _, norm, weight in known]


def _in_box(
    name: str, low: Floats, high: Floats, start: Floats | None
) -> list[tuple[float, float, float, int]]:
    """Of a matrix; of two states with bounds: corners, and some chains between them."""
    if np.array_equal(low, high):
        return [_mixing(name, low, start)]
    if len(low) > 2:
        raise BadBeliefs("are a region of matrices, without a bound on how fast they mix")
    sides = [sorted({low[x, x], (low[x, x] + high[x, x]) / 2, high[x, x]}) for x in (0, 1)]
    return [_mixing(name, np.array([[p, 1 - p], [1 - q, q]]), None) for p, q in product(*sides)]


def _mixing(name: str, matrix: Floats, start: Floats | None) -> tuple[float, float, float, int]:
    """pi_min, gap by [Q] (14), operator norm, and 1 for a stationary start or 2."""
    size = len(matrix)
    equations = np.vstack([matrix.T - np.eye(size), np.ones(size)])
    pi = np.linalg.lstsq(equations, np.append(np.zeros(size), 1.0), rcond=None)[0]
    chain = MarkovChain(np.eye(size)[0] if start is None else start, matrix)
    if pi.min() <= 0 or not chain.is_irreducible or chain.period > 1:
        raise BadBeliefs(f"{name} is reducible or periodic, and [Q] Lemma 4.8 needs neither")
    root, flow = np.sqrt(pi), pi[:, None] * matrix
    values = np.linalg.svd(matrix * root[:, None] / root, compute_uv=False)
    norm = float(values[1]) if size > 1 else 0.0
    reversible = np.allclose(flow, flow.T, rtol=1e-8, atol=1e-15)
    weight = 1 if start is not None and chain.is_stationary else 2
    return float(pi.min()), 2 * (1 - norm) if reversible else 1 - norm**2, norm, weight
