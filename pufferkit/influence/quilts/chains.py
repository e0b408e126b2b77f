"""Max-influence on Markov chains, and the node and quilt that decide the noise.

For X_i with a left endpoint X_{i-a} and a right endpoint X_{i+b}, [Q] Definition 4.1 becomes

    e = max over x, x' of  prior_i(x, x') + left_a(x, x') + right_b(x, x')

    right_b(x, x') = max over y of log P^b(x, y) / P^b(x', y)
    left_a(x, x')  = max over u of log P^a(u, x) / P^a(u, x')
    prior_i(x, x') = log P(X_i = x') / P(X_i = x)

where x, x' run over values X_i can take and u over values X_{i-a} can take. Without a left endpoint
the prior goes too. [Q] (5) as printed lets u run over all states, possible or not; that is
``influence="formula"``.

Three kinds of start differ in the prior only, and in how it moves with i:

- stationary: the same at every node;
- any start ([Q] C.4): prior_i(x, x') = max over y of log P^{i-1}(y, x') / P^{i-1}(y, x), which
  never grows with i, and u, x, x' run over states that some start can reach;
- one given start: different at every node, until the distribution has settled.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import singledispatch
from math import inf
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pufferkit import checks
from pufferkit.beliefs.chain_class import ChainClass, Member, as_chain_class
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.beliefs.structure import Bools, boolean_product
from pufferkit.checks import Floats
from pufferkit.errors import NotApplicable
from pufferkit.influence.quilts.powers import TINY, Kernel, Powers, log_ratio, row_log_ratios
from pufferkit.influence.quilts.search import (
    NOTHING,
    Pair,
    Quilt,
    Solve,
    Until,
    best_quilt,
    counted_near,
    hardest_node,
)

Reading = Literal["definition", "formula"]

SETTLED = 1e-12
"""A distribution this close to its limit is taken for it; the distance is added."""

MOST_ENTRIES = 2 * 10**8
"""Largest table of distributions, in entries, before a segment counts as too long to table."""

MOST_GIGABYTES = 8.0
"""Searches over nodes that need more memory are refused before they start."""

_BYTES_A_NODE = 64
_CHUNK = 1 << 22


def max_influence(
    beliefs: object,
    node: int,
    left: int | None = None,
    right: int | None = None,
    *,
    influence: Reading = "definition",
) -> float:
    """Max-influence of X_node on {X_{node-left}, X_{node+right}}, [Q] Definition 4.1.

    Parameters
    ----------
    beliefs
        A chain or a class of chains; the largest influence over the class is returned.
    node
        i, counted from 1.
    left, right
        Distances a and b of the endpoints; ``None`` for no endpoint on that side.
    influence
        ``"definition"``, or ``"formula"`` for [Q] (5) as printed.

    Examples
    --------
    >>> chain = MarkovChain([0.8, 0.2], [[0.9, 0.1], [0.4, 0.6]])
    >>> round(float(np.exp(max_influence(chain, 2, 1, 1))), 6)
    36.0
    """
    check_reading(influence)
    node = checks.whole("node", node, 1)
    if left is not None and not 1 <= checks.whole("left", left, 1) < node:
        raise ValueError(f"left: X_{node} has no node {left} to its left; it has {node - 1}")
    if right is not None:
        right = checks.whole("right", right, 1)
    members = as_chain_class(beliefs).members()
    values = [influence_of(m, influence, node).worst_pair(node, left, right)[0] for m in members]
    return max(0.0, *values)


@singledispatch
def influence_between(
    theta: ChainClass, node: int, left: int | None = None, right: int | None = None
) -> float:
    """Upper bound on the max-influence of X_node on its endpoints, over the class.

    Classes without members have bounds of their own; ask through `pufferkit.influence.answers`.
    """
    return max_influence(theta, node, left, right)


def check_reading(influence: str) -> None:
    """Refuse a reading of max-influence that does not exist."""
    if influence not in ("definition", "formula"):
        raise ValueError(f"influence: must be 'definition' or 'formula', got {influence!r}")


@dataclass(frozen=True)
class Binding:
    """The node that decides the noise of one member, and its best quilt."""

    node: int
    quilt: Quilt


class ChainInfluence(ABC):
    """Max-influence for one transition matrix and one kind of start."""

    def __init__(self, chain: MarkovChain, reading: Reading) -> None:
        self.chain, self.reading = chain, reading
        self.powers = Powers(chain.transition)
        self._right: dict[int, Floats] = {}
        self._left: dict[tuple[int, bytes], Floats] = {}

    @abstractmethod
    def support(self, node: int) -> Bools:
        """States that X_node can be in."""

    @abstractmethod
    def prior(self, node: int) -> tuple[Floats, float]:
        """The prior term over pairs of states, and a bound on its error."""

    @abstractmethod
    def hardest(
        self, length: int, epsilon: float, enough: float = 0.0, hint: Quilt | None = None
    ) -> Binding:
        """The node with the largest least score; exact unless it is at most ``enough``."""

    def right(self, steps: int) -> Floats:
        """right_b over all pairs of states."""
        if steps not in self._right:
            self._right[steps] = row_log_ratios(self.powers[steps])
        return self._right[steps]

    def left(self, steps: int, sources: Bools) -> Floats:
        """left_a over all pairs of states, u in ``sources``."""
        if self.reading == "formula":
            sources = np.ones_like(sources)
        key = steps, sources.tobytes()
        if key not in self._left:
            self._left[key] = row_log_ratios(self.powers[steps].rows(sources).transposed)
        return self._left[key]

    def worst_pair(
        self, node: int, left: int | None, right: int | None
    ) -> tuple[float, tuple[int, int]]:
        """Upper bound on the max-influence, and the pair of states that attains it."""
        states = np.flatnonzero(self.support(node))
        first = int(states[0])
        if len(states) == 1 or (left is None and right is None):
            return 0.0, (first, first)
        pairs = np.ix_(states, states)
        total, slack = np.zeros((len(states), len(states))), 0.0
        if left is not None:
            prior, error = self.prior(node)
            total = prior[pairs] + self.left(left, self.support(node - left))[pairs]
            slack += error + self.powers.rounding(left)
        if right is not None:
            total = total + self.right(right)[pairs]
            slack += self.powers.rounding(right)
        x, other = divmod(int(total.argmax()), len(states))
        return float(total[x, other]) + slack, (int(states[x]), int(states[other]))

    def solve(self, length: int, epsilon: float, until: Until | None = None) -> Solve:
        """The best quilt of any one node of a segment, of which perhaps not all was observed."""
        return lambda node, enough, hint: best_quilt(
            _ChainNode(self, node, length), epsilon, enough, hint, counted_near(node, until)
        )


class _ChainNode:
    """The influence of one node of a segment, in the terms of the search."""

    def __init__(self, chain: ChainInfluence, node: int, length: int) -> None:
        self.chain, self.node = chain, node
        self.left, self.right = node, length - node + 1
        self._parts: dict[tuple[bool, int, Pair], float] = {}

    def whole(self, a: int, b: int) -> tuple[float, Pair]:
        left = a if a < self.left else None
        right = b if b < self.right else None
        return self.chain.worst_pair(self.node, left, right)

    def left_part(self, a: int, pair: Pair) -> float:
        key = True, a, pair
        if key not in self._parts:
            chain = self.chain
            sources = chain.support(self.node - a)
            if chain.reading == "formula":
                sources = np.ones_like(sources)
            columns = chain.powers[a].rows(sources).transposed
            self._parts[key] = float(chain.prior(self.node)[0][pair]) + _of_pair(columns, pair)
        return self._parts[key]

    def right_part(self, b: int, pair: Pair) -> float:
        key = False, b, pair
        if key not in self._parts:
            self._parts[key] = _of_pair(self.chain.powers[b], pair)
        return self._parts[key]


def _of_pair(kernel: Kernel, pair: Pair) -> float:
    x, other = pair
    if x == other:
        return 0.0
    return log_ratio(kernel.rows(slice(x, x + 1)), kernel.rows(slice(other, other + 1)))


class StationaryInfluence(ChainInfluence):
    """A chain that starts in a stationary distribution: one prior, one support, for all nodes."""

    def __init__(self, chain: MarkovChain, reading: Reading) -> None:
        super().__init__(chain, reading)
        distribution = chain.initial
        self._support: Bools = chain.possible_start
        logs = np.log(np.maximum(distribution, TINY))
        self._prior = logs[None, :] - logs[:, None]
        lost = self._support & (distribution < TINY)
        if lost.any():
            self._prior[lost[None, :] | lost[:, None]] = inf
            np.fill_diagonal(self._prior, 0.0)

    def support(self, node: int) -> Bools:
        return self._support

    def prior(self, node: int) -> tuple[Floats, float]:
        return self._prior, SETTLED

    def distribution(self, node: int) -> Floats:
        """The distribution of X_node."""
        return self.chain.initial

    def hardest(
        self, length: int, epsilon: float, enough: float = 0.0, hint: Quilt | None = None
    ) -> Binding:
        solve = self.solve(length, epsilon)
        found = hardest_node(solve, 1, length, enough, hint, same_everywhere=True)
        return Binding(*found)


class AnyStartInfluence(ChainInfluence):
    """One matrix with every initial distribution, [Q] C.4."""

    def __init__(self, chain: MarkovChain, reading: Reading) -> None:
        super().__init__(chain, reading)
        # States that some start reaches after 0, 1, ... steps; shrinking, constant from the last.
        self._reached: list[Bools] = [np.ones(len(chain), dtype=bool)]
        while True:
            after: Bools = np.any(chain.transition[self._reached[-1]] > 0, axis=0)
            if (after == self._reached[-1]).all():
                break
            self._reached.append(after)
        self._priors: dict[int, Floats] = {}

    @property
    def stretches(self) -> int:
        """From this node on, the states that can be reached stay the same."""
        return len(self._reached)

    def support(self, node: int) -> Bools:
        return self._reached[min(node, len(self._reached)) - 1]

    def prior(self, node: int) -> tuple[Floats, float]:
        if node not in self._priors:
            self._priors[node] = row_log_ratios(self.powers[node - 1].transposed).T
        return self._priors[node], self.powers.rounding(node)

    def hardest(
        self, length: int, epsilon: float, enough: float = 0.0, hint: Quilt | None = None
    ) -> Binding:
        # Influence never grows with i, and on a stretch where the reachable states stay the same a
        # quilt without a left endpoint has one influence, so `hardest_node` applies to a stretch.
        starts = [n for n in range(1, len(self._reached) + 1) if n <= length]
        ends = [*(n - 1 for n in starts[1:]), length]
        solve, worst = self.solve(length, epsilon), Binding(0, NOTHING)
        for first, last in zip(reversed(starts), reversed(ends), strict=True):
            floor = max(enough, worst.quilt.score)
            found = Binding(*hardest_node(solve, first, last, floor, hint, same_everywhere=False))
            worst = max(worst, found, key=lambda binding: binding.quilt.score)
            hint = worst.quilt
        return worst


class GivenStartInfluence(ChainInfluence):
    """A chain with a start of its own: the prior moves with i until the distribution has settled.

    The distribution of X_i is tabled for i = 1 ... ``settled``; from there on it is its limit (one
    distribution for each remainder modulo the period), because its distance to the limit never
    grows again. A chain that does not settle within the segment is tabled whole.
    """

    def __init__(self, chain: MarkovChain, reading: Reading, length: int) -> None:
        super().__init__(chain, reading)
        if length * len(chain) > MOST_ENTRIES and not self._may_settle():
            raise NotApplicable(
                f"the distribution of X_i does not settle, and a table of {length:,} nodes by "
                f"{len(chain)} states needs about {length * len(chain) * 18 / 1e9:.0f} GB; "
                "use ChainClass.any_start, or influence_curve"
            )
        distributions, possible = chain.initial[None, :], (chain.initial > 0)[None, :]
        self.cycle = chain.period if self._may_settle() else length
        repeats = self.cycle if self._may_settle() else 1
        limits = np.array([chain.limit_distribution(n) for n in range(1, repeats + 1)])
        self.settled = self._first_settled(distributions, possible, limits, 0)
        while self.settled == len(distributions) < length:
            kernel = self.powers[len(distributions)]
            settled = len(distributions)
            distributions = np.vstack([distributions, distributions @ kernel.values])
            possible = np.vstack([possible, boolean_product(possible, kernel.possible)])
            self.settled = self._first_settled(distributions, possible, limits, settled)
        self.settled = min(self.settled, length)
        tail = np.arange(self.settled, min(length, self.settled + repeats)) % repeats
        distributions = np.vstack([distributions[: self.settled], limits[tail]])
        possible = np.vstack([possible[: self.settled], limits[tail] > 0])
        self.patterns, self.which = np.unique(possible, axis=0, return_inverse=True)
        # Possible but underflowed probabilities have no known ratio: their prior is infinite.
        self.lost = possible & (distributions < TINY)
        self.logs = np.log(np.maximum(distributions, TINY))

    def _may_settle(self) -> bool:
        """Whether no mass starts in transient states and the long-run cycle is short."""
        inside = sum(self.chain.initial[c.members].sum() for c in self.chain.closed_classes)
        return bool(inside > 1 - 1e-9) and self.chain.period <= 1000

    def _first_settled(
        self, distributions: Floats, possible: Bools, limits: Floats, known: int
    ) -> int:
        """How many distributions come before the first one that is as good as its limit."""
        if not self._may_settle():
            return len(distributions)
        later = np.arange(known, len(distributions))
        limit = limits[later % self.cycle]
        same = (possible[known:] == (limit > 0)).all(axis=1) & (
            (distributions[known:] > TINY) == possible[known:]
        ).all(axis=1)
        ratio = np.log(np.maximum(distributions[known:], TINY)) - np.log(np.maximum(limit, TINY))
        on = possible[known:]
        spread = np.where(on, ratio, -inf).max(axis=1) - np.where(on, ratio, inf).min(axis=1)
        hits = np.flatnonzero(same & (spread <= SETTLED))
        return known + int(hits[0]) if hits.size else len(distributions)

    def row(self, node: int) -> int:
        """Where the distribution of X_node stands in the table."""
        if node <= self.settled:
            return node - 1
        return self.settled + (node - 1 - self.settled) % self.cycle

    def rows(self, nodes: NDArray[np.intp]) -> NDArray[np.intp]:
        """``row`` for many nodes."""
        folded = self.settled + (nodes - 1 - self.settled) % self.cycle
        return np.where(nodes <= self.settled, nodes - 1, folded)

    def support(self, node: int) -> Bools:
        pattern: Bools = self.patterns[self.which[self.row(node)]]
        return pattern

    def distribution(self, node: int) -> Floats:
        """The distribution of X_node; entries lost to underflow are not to be relied on."""
        distribution: Floats = np.where(self.support(node), np.exp(self.logs[self.row(node)]), 0.0)
        return distribution

    def lost_at(self, node: int) -> bool:
        """Whether some possible value of X_node has a probability too small for a float."""
        return bool(self.lost[self.row(node)].any())

    def spread_at(self, node: int) -> float:
        """Spread of the log-ratio of X_node's distribution to its limit; it never grows."""
        if node > self.settled:
            return SETTLED
        return self.chain.limit_distance(self.distribution(node), node)

    def prior(self, node: int) -> tuple[Floats, float]:
        row = self.row(node)
        logs = self.logs[row]
        prior = logs[None, :] - logs[:, None]
        if self.lost[row].any():
            prior[self.lost[row][None, :] | self.lost[row][:, None]] = inf
            np.fill_diagonal(prior, 0.0)
        return prior, self._error

    @property
    def _error(self) -> float:
        return SETTLED + self.powers.rounding(self.settled)

    def hardest(
        self, length: int, epsilon: float, enough: float = 0.0, hint: Quilt | None = None
    ) -> Binding:
        """Solve the node with the largest bound, offer its quilt to all others, repeat.

        Every node keeps an upper bound on its least score. A node whose bound is at most the
        largest exact score found so far cannot matter.
        """
        gigabytes = _BYTES_A_NODE * length / 1e9
        if gigabytes > MOST_GIGABYTES:
            raise NotApplicable(
                f"quilts of {length:,} nodes that differ by their start need about "
                f"{gigabytes:,.0f} GB of memory; shorten the series, split it into segments, or "
                "use a stationary start or any start"
            )
        # Entries that are sure at the start have nothing to hide and end every quilt.
        sure = next((n for n in range(1, length + 1) if self.support(n).sum() > 1), length + 1) - 1
        bounds = np.full(length, max(1, length - sure) / epsilon)
        bounds[:sure] = 1 / epsilon
        # Bounds carry the rounding slack, so they are not told apart below it.
        tie = 1 + 1e-12 + 8 * self._error / epsilon
        solve = self.solve(length, epsilon)
        node, worst, candidate = 0, NOTHING, (length + 1) // 2
        while True:
            quilt = solve(candidate, max(enough, worst.score), hint)
            hint = quilt
            if quilt.score > worst.score:
                node, worst = candidate, quilt
            bounds[candidate - 1] = min(bounds[candidate - 1], quilt.score)
            self._offer(quilt, bounds, epsilon)
            candidate = int(bounds.argmax()) + 1
            if bounds[candidate - 1] <= max(enough, worst.score) * tie:
                # The largest bound covers every node, so it is what is reported.
                score = max(worst.score, float(bounds[candidate - 1]))
                return Binding(node, replace(worst, score=score))

    def _offer(self, quilt: Quilt, bounds: Floats, epsilon: float) -> None:
        """Lower ``bounds`` by what the endpoints of this quilt give at every other node."""
        length = len(bounds)
        nodes = np.arange(1, length + 1)
        a = quilt.keep_left if quilt.ends_left else None
        b = quilt.keep_right if quilt.ends_right else None
        for left, right in {(a, b), (a, None), (None, b)} - {(None, None)}:
            first = 1 if left is None else left + 1
            last = length if right is None else length - right
            if first > last:
                continue
            inside = nodes[first - 1 : last]
            kept = (inside if left is None else left) + (
                length - inside + 1 if right is None else right
            )
            room = epsilon - self._at_nodes(inside, left, right)
            with np.errstate(divide="ignore"):
                scores = np.where(room > 0, (kept - 1) / np.maximum(room, 1e-300), inf)
            np.minimum(bounds[first - 1 : last], scores, out=bounds[first - 1 : last])

    def _at_nodes(self, nodes: NDArray[np.intp], left: int | None, right: int | None) -> Floats:
        """Upper bounds on the influence at consecutive ``nodes``, for endpoints that all have."""
        far = self.settled + (left or 0) + self.cycle
        near = nodes[nodes <= far + self.cycle]
        rows = self.rows(near)
        sources = self.which[self.rows(near - left)] if left is not None else np.zeros_like(rows)
        values = np.empty(len(near))
        slack = 0.0 if right is None else self.powers.rounding(right)
        if left is not None:
            slack += self._error + self.powers.rounding(left)
        for source, target in set(zip(sources.tolist(), self.which[rows].tolist(), strict=True)):
            here = np.flatnonzero((sources == source) & (self.which[rows] == target))
            states = np.flatnonzero(self.patterns[target])
            pairs = np.ix_(states, states)
            total = np.zeros((len(states), len(states)))
            if right is not None:
                total = total + self.right(right)[pairs]
            if left is None:
                values[here] = total.max()
                continue
            total = total + self.left(left, self.patterns[source])[pairs]
            values[here] = self._with_priors(rows[here], states, total)
        values = np.where(values > 0, values + slack, slack)
        # Beyond the table everything repeats with the period.
        beyond = len(nodes) - len(near)
        if beyond:
            values = np.concatenate([values, np.resize(values[-self.cycle :], beyond)])
        return values

    def _with_priors(
        self, rows: NDArray[np.intp], states: NDArray[np.intp], total: Floats
    ) -> Floats:
        """Largest ``total + prior`` over pairs of states, for many distributions at once."""
        values = np.full(len(rows), -inf)
        stride = max(1, _CHUNK // max(1, len(states)))
        for start in range(0, len(rows), stride):
            part = rows[start : start + stride]
            logs = np.ascontiguousarray(self.logs[np.ix_(part, states)])
            here = values[start : start + stride]
            for x in range(len(states)):
                np.maximum(here, (logs + total[x]).max(axis=1) - logs[:, x], out=here)
            here[self.lost[np.ix_(part, states)].any(axis=1)] = inf
        return values


def influence_of(member: Member, reading: Reading, length: int | None = None) -> ChainInfluence:
    """The influence of one member of a class, for segments of up to ``length`` nodes."""
    if member.any_start:
        return AnyStartInfluence(member.chain, reading)
    if member.chain.is_stationary:
        return StationaryInfluence(member.chain, reading)
    return GivenStartInfluence(member.chain, reading, length or 1)
