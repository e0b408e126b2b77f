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
- a fixed initial distribution (`given_start`): different at every node, until the distribution
  has converged.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import inf
from typing import Literal

import numpy as np

from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.checks import Bools, Floats
from pufferkit.errors import NotApplicable
from pufferkit.influence.quilts.powers import TINY, Powers, Recent, log_ratio, row_log_ratios
from pufferkit.influence.quilts.search import (
    NOTHING,
    Binding,
    Pair,
    Quilt,
    Solve,
    Until,
    best_quilt,
    hardest_node,
)

InfluenceReading = Literal["definition", "formula"]

CONVERGED = 1e-12
"""A distribution this close to its limit is replaced by it; the distance is added."""

_RATIOS = 1 << 28
"""Bytes for the log-ratios of rows that are kept, and as many for those of columns."""

_MATRICES, _MOST_BYTES = 52, 8e9
"""About how many matrices are in memory at least: squares, powers, ratios; and the most bytes."""

_FAR = 1 << 20
"""Up to this many steps powers are used without a search; rounding does not matter yet."""


class ChainInfluence(ABC):
    """Max-influence for one transition matrix and one kind of start."""

    def __init__(self, chain: MarkovChain, reading: InfluenceReading) -> None:
        self.chain, self.reading = chain, reading
        if (needed := _MATRICES * 8 * chain.transition.size) > _MOST_BYTES:
            raise NotApplicable(
                f"quilts of a chain of {len(chain):,} states need about {needed / 1e9:.3g} GB of "
                f"memory, more than {_MOST_BYTES / 1e9:g}; merge states"
            )
        self.powers = Powers(chain.transition)
        each = 8 * chain.transition.size
        self._right: Recent[int, Floats] = Recent(each, _RATIOS)
        self._left: Recent[tuple[int, bytes], Floats] = Recent(each, _RATIOS)
        self._farthest: int | None = None

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

    def reach(self, steps: int) -> int:
        """A number of steps, at most ``steps``, whose log-ratios bound those after ``steps``.

        Log-ratios of rows and of columns never grow with the number of steps (data processing: an
        closer endpoint reveals at least as much), but the error of a computed power does.
        Where twice as many steps change the ratios by no more than that error, further ones would
        only add to it.
        """
        if steps <= _FAR:
            return steps
        if self._farthest is None:
            farthest, ratios = _FAR, row_log_ratios(self.powers[_FAR])
            while True:
                further = row_log_ratios(self.powers[2 * farthest])
                finite = np.isfinite(ratios)
                change = float(np.abs(ratios[finite] - further[finite]).max(initial=0.0))
                if change <= 4 * self.powers.rounding(2 * farthest):
                    break
                farthest, ratios = 2 * farthest, further
            self._farthest = farthest
        return min(steps, self._farthest)

    def right(self, steps: int) -> Floats:
        """right_b over all pairs of states."""
        return self._right.get(steps, lambda: row_log_ratios(self.powers[steps]))

    def left(self, steps: int, sources: Bools) -> Floats:
        """left_a over all pairs of states, u in ``sources``."""
        if self.reading == "formula":
            sources = np.ones_like(sources)
        key = steps, sources.tobytes()
        return self._left.get(
            key, lambda: row_log_ratios(self.powers[steps].rows(sources).transposed)
        )

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
            left = self.reach(left)
            prior, error = self.prior(node)
            total = prior[pairs] + self.left(left, self.support(node - left))[pairs]
            slack += error + self.powers.rounding(left)
        if right is not None:
            right = self.reach(right)
            total = total + self.right(right)[pairs]
            slack += self.powers.rounding(right)
        x, other = divmod(int(total.argmax()), len(states))
        return float(total[x, other]) + slack, (int(states[x]), int(states[other]))

    def solve(self, length: int, epsilon: float, until: Until | None = None) -> Solve:
        """The best quilt of any one node of a segment, which may have unobserved entries."""
        return lambda node, enough, hint: best_quilt(
            _ChainNode(self, node, length), epsilon, enough, hint, until
        )


class _ChainNode:
    """The influence of one node of a segment, in the terms of the search."""

    def __init__(self, chain: ChainInfluence, node: int, length: int) -> None:
        self.chain, self.node = chain, node
        self.left, self.right = node, length - node + 1
        self._parts: dict[tuple[bool, int, Pair], float] = {}
        several = np.count_nonzero(chain.support(node)) > 1
        self._error = chain.prior(node)[1] if several else None

    def whole(self, a: int, b: int) -> tuple[float, Pair]:
        left = a if a < self.left else None
        right = b if b < self.right else None
        return self.chain.worst_pair(self.node, left, right)

    def left_part(self, a: int, pair: Pair) -> float:
        key = True, a, pair
        if key not in self._parts:
            chain, steps = self.chain, self.chain.reach(a)
            sources = chain.support(self.node - steps)
            if chain.reading == "formula":
                sources = np.ones_like(sources)
            columns = chain.powers[steps].rows(sources).transposed
            self._parts[key] = float(chain.prior(self.node)[0][pair]) + log_ratio(columns, *pair)
        return self._parts[key]

    def right_part(self, b: int, pair: Pair) -> float:
        key = False, b, pair
        if key not in self._parts:
            self._parts[key] = log_ratio(self.chain.powers[self.chain.reach(b)], *pair)
        return self._parts[key]

    def slack(self, n: int, side: int) -> float:
        if self._error is None:  # a node with one possible value hides nothing
            return 0.0
        return self.chain.powers.rounding(self.chain.reach(n)) + (self._error if side == 0 else 0.0)


class StationaryInfluence(ChainInfluence):
    """A chain that starts in a stationary distribution: one prior, one support, for all nodes."""

    def __init__(self, chain: MarkovChain, reading: InfluenceReading) -> None:
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
        return self._prior, CONVERGED

    def distribution(self, node: int) -> Floats:
        """The distribution of X_node."""
        return self.chain.initial

    def hardest(
        self, length: int, epsilon: float, enough: float = 0.0, hint: Quilt | None = None
    ) -> Binding:
        solve = self.solve(length, epsilon)
        return hardest_node(solve, 1, length, enough, hint, same_everywhere=True)


class AnyStartInfluence(ChainInfluence):
    """One matrix with every initial distribution, [Q] C.4."""

    def __init__(self, chain: MarkovChain, reading: InfluenceReading) -> None:
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
            self._priors[node] = row_log_ratios(self.powers[self.reach(node - 1)].transposed).T
        return self._priors[node], self.powers.rounding(self.reach(node - 1))

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
            here = hardest_node(solve, first, last, floor, hint, same_everywhere=False)
            worst = max(worst, here, key=lambda binding: binding.quilt.score)
            hint = worst.quilt
        return worst
