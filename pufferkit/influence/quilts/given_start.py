"""Max-influence on a chain with a fixed initial distribution, where nodes differ.

Nodes are solved one by one, the one with the largest bound first; its quilt is then offered to all
others, and most are never solved. Once the start is forgotten all nodes are equal, and a bisection
over them is enough (`GivenStartInfluence.hardest`), so that neither time nor memory grows with the
length.
"""

from __future__ import annotations

import math
from dataclasses import replace
from math import inf

import numpy as np
from numpy.typing import NDArray

from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.beliefs.state_classes import boolean_product
from pufferkit.checks import Bools, Floats
from pufferkit.errors import NotApplicable
from pufferkit.influence.quilts.chains import CONVERGED, ChainInfluence, InfluenceReading
from pufferkit.influence.quilts.powers import TINY
from pufferkit.influence.quilts.search import NOTHING, Binding, Quilt, hardest_node

MOST_GIGABYTES = 8.0
"""Searches over nodes that need more memory are refused before they start."""

_SHORT = 4096
"""Up to this many nodes, memory is not checked."""

_CHUNK = 1 << 22


def bytes_needed(nodes: int, states: int) -> int:
    """Memory of a search over nodes that differ: bounds, and distributions while they are made."""
    return nodes * (64 + 28 * states)


def _check_memory(nodes: int, states: int, length: int) -> None:
    gigabytes = bytes_needed(nodes, states) / 1e9
    if gigabytes > MOST_GIGABYTES:
        raise NotApplicable(
            f"quilts of {length:,} nodes of {states} states that differ by their start need about "
            f"{gigabytes:,.0f} GB of memory; shorten the series, split it into segments, or use a "
            "stationary start, ChainClass.any_start or influence_curve"
        )


class GivenStartInfluence(ChainInfluence):
    """A chain with a fixed initial distribution: the prior moves with i until it has converged.

    The distribution of X_i is tabled for i = 1 ... ``burn_in``; from there on it is its limit (one
    distribution for each remainder modulo the period), because its distance to the limit never
    grows again. A chain that does not converge within the segment is tabulated completely.
    """

    def __init__(self, chain: MarkovChain, reading: InfluenceReading, length: int) -> None:
        super().__init__(chain, reading)
        if not self._converges():
            _check_memory(length, len(chain), length)
        distributions, possible = chain.initial[None, :], (chain.initial > 0)[None, :]
        self.cycle = chain.period if self._converges() else length
        repeats = self.cycle if self._converges() else 1
        limits = np.array([chain.limit_distribution(n) for n in range(1, repeats + 1)])
        self.burn_in = self._first_converged(distributions, possible, limits, 0)
        while self.burn_in == len(distributions) < length:
            _check_memory(self._nodes_expected(len(distributions), length), len(chain), length)
            kernel = self.powers[len(distributions)]
            known = len(distributions)
            distributions = np.vstack([distributions, distributions @ kernel.values])
            possible = np.vstack([possible, boolean_product(possible, kernel.possible)])
            self.burn_in = self._first_converged(distributions, possible, limits, known)
        self.burn_in = min(self.burn_in, length)
        tail = np.arange(self.burn_in, min(length, self.burn_in + repeats)) % repeats
        distributions = np.vstack([distributions[: self.burn_in], limits[tail]])
        possible = np.vstack([possible[: self.burn_in], limits[tail] > 0])
        self.patterns, self.which = np.unique(possible, axis=0, return_inverse=True)
        # Possible probabilities that underflowed have no known ratio: their prior is infinite.
        self.underflowed = possible & (distributions < TINY)
        self.logs = np.log(np.maximum(distributions, TINY))

    def _nodes_expected(self, known: int, length: int) -> int:
        """How many nodes will be tabulated, by the slowest component that has not converged.

        The influence of the start shrinks with the powers of the eigenvalues of P inside the unit
        circle. A short table is made first: the start may have no slow components.
        """
        twice = min(2 * known, length)
        if known < _SHORT:
            return twice
        sizes = np.abs(np.linalg.eigvals(self.chain.transition))
        slowest = sizes[sizes < 1 - 1e-14].max(initial=0.5)
        return min(length, max(twice, int(math.log(CONVERGED) / math.log(slowest))))

    def _converges(self) -> bool:
        """Whether no mass starts in transient states and the long-run cycle is short."""
        inside = sum(self.chain.initial[c.members].sum() for c in self.chain.closed_classes)
        return bool(inside > 1 - 1e-9) and self.chain.period <= 1000

    def _first_converged(
        self, distributions: Floats, possible: Bools, limits: Floats, known: int
    ) -> int:
        """How many distributions come before the first one that may be replaced by its limit."""
        if not self._converges():
            return len(distributions)
        later = np.arange(known, len(distributions))
        limit = limits[later % self.cycle]
        same = (possible[known:] == (limit > 0)).all(axis=1) & (
            (distributions[known:] > TINY) == possible[known:]
        ).all(axis=1)
        ratio = np.log(np.maximum(distributions[known:], TINY)) - np.log(np.maximum(limit, TINY))
        on = possible[known:]
        spread = np.where(on, ratio, -inf).max(axis=1) - np.where(on, ratio, inf).min(axis=1)
        hits = np.flatnonzero(same & (spread <= CONVERGED))
        return known + int(hits[0]) if hits.size else len(distributions)

    def row(self, node: int) -> int:
        """The row of the table with the distribution of X_node."""
        if node <= self.burn_in:
            return node - 1
        return self.burn_in + (node - 1 - self.burn_in) % self.cycle

    def rows(self, nodes: NDArray[np.intp]) -> NDArray[np.intp]:
        """``row`` for many nodes."""
        folded = self.burn_in + (nodes - 1 - self.burn_in) % self.cycle
        return np.where(nodes <= self.burn_in, nodes - 1, folded)

    def support(self, node: int) -> Bools:
        pattern: Bools = self.patterns[self.which[self.row(node)]]
        return pattern

    def distribution(self, node: int) -> Floats:
        """The distribution of X_node; entries that underflowed are not reliable."""
        distribution: Floats = np.where(self.support(node), np.exp(self.logs[self.row(node)]), 0.0)
        return distribution

    def underflows_at(self, node: int) -> bool:
        """Whether some possible value of X_node has a probability too small for a float."""
        return bool(self.underflowed[self.row(node)].any())

    def spread_at(self, node: int) -> float:
        """Spread of the log-ratio of X_node's distribution to its limit; it never grows."""
        if node > self.burn_in:
            return CONVERGED
        return self.chain.limit_distance(self.distribution(node), node)

    def prior(self, node: int) -> tuple[Floats, float]:
        row = self.row(node)
        logs = self.logs[row]
        prior = logs[None, :] - logs[:, None]
        if self.underflowed[row].any():
            prior[self.underflowed[row][None, :] | self.underflowed[row][:, None]] = inf
            np.fill_diagonal(prior, 0.0)
        return prior, self._error

    @property
    def _error(self) -> float:
        return CONVERGED + self.powers.rounding(self.burn_in)

    def hardest(
        self, length: int, epsilon: float, enough: float = 0.0, hint: Quilt | None = None
    ) -> Binding:
        """Solve the node with the largest bound, offer its quilt to all others, repeat.

        Every node keeps an upper bound on its least score. A node whose bound is at most the
        largest exact score so far cannot matter.

        Let the quilt of the middle node keep n nodes, and let neither the distribution nor the
        possible states of a node change from node p on. A later node, more than p + n from the
        start, has that quilt too, or a shorter one at its right end. So none of its better quilts
        keeps more than n nodes, all of them end beyond p, and their influence is the same at all
        such nodes.
        """
        tail = self._tail(length, epsilon, enough, hint)
        if tail is None:
            return self._among(length, length, epsilon, enough, hint)
        before, binding = tail
        floor = max(enough, binding.quilt.score)
        first = self._among(before, length, epsilon, floor, binding.quilt)
        return first if first.quilt.score > binding.quilt.score else binding

    def _tail(
        self, length: int, epsilon: float, enough: float, hint: Quilt | None
    ) -> tuple[int, Binding] | None:
        """The number of nodes before the ones that are equal, and the hardest of the latter.

        ``None`` if there are few such nodes.
        """
        if self.cycle > 1 or length <= 2 * self.burn_in:
            return None
        solve, middle = self.solve(length, epsilon), (length + 1) // 2
        quilt = solve(middle, 0.0, hint)
        settled = int(np.flatnonzero(self.which != self.which[-1]).max(initial=-1)) + 2
        before = self.burn_in + settled + int(quilt.score * epsilon) + 1
        if not (quilt.ends_left and quilt.ends_right) or 2 * before >= length:
            return None
        binding = hardest_node(solve, before + 1, length, enough, quilt, same_everywhere=True)
        return before, binding

    def _among(
        self, nodes: int, length: int, epsilon: float, enough: float, hint: Quilt | None
    ) -> Binding:
        """The hardest of the first ``nodes`` nodes of a segment."""
        _check_memory(nodes, len(self.chain), length)
        # Entries with one possible value at the start hide nothing and end every quilt.
        sure = next((n for n in range(1, nodes + 1) if self.support(n).sum() > 1), nodes + 1) - 1
        bounds = np.full(nodes, max(1, length - sure) / epsilon)
        bounds[:sure] = 1 / epsilon
        # Bounds carry the rounding slack, so differences below it do not count.
        tie = 1 + 1e-12 + 8 * self._error / epsilon
        solve = self.solve(length, epsilon)
        node, worst, candidate = 0, NOTHING, (nodes + 1) // 2
        while True:
            quilt = solve(candidate, max(enough, worst.score), hint)
            hint = quilt
            if quilt.score > worst.score:
                node, worst = candidate, quilt
            bounds[candidate - 1] = min(bounds[candidate - 1], quilt.score)
            self._offer(quilt, bounds, length, epsilon)
            candidate = int(bounds.argmax()) + 1
            if bounds[candidate - 1] <= max(enough, worst.score) * tie:
                # The largest bound covers every node, so it is what is reported.
                score = max(worst.score, float(bounds[candidate - 1]))
                return Binding(node, replace(worst, score=score))

    def _offer(self, quilt: Quilt, bounds: Floats, length: int, epsilon: float) -> None:
        """Lower ``bounds`` by the scores of this quilt's endpoints at every other node."""
        nodes = np.arange(1, len(bounds) + 1)
        a = quilt.keep_left if quilt.ends_left else None
        b = quilt.keep_right if quilt.ends_right else None
        for left, right in {(a, b), (a, None), (None, b)} - {(None, None)}:
            first = 1 if left is None else left + 1
            last = min(len(bounds), length if right is None else length - right)
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
        left = None if left is None else self.reach(left)
        right = None if right is None else self.reach(right)
        far = self.burn_in + (left or 0) + self.cycle
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
            repeats = np.tile(values[-self.cycle :], -(-beyond // self.cycle))
            values = np.concatenate([values, repeats[:beyond]])
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
            here[self.underflowed[np.ix_(part, states)].any(axis=1)] = inf
        return values
