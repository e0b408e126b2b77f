"""What a chain says about an entry and about entries at a distance, as tables over pairs of values.

For X_i with entries X_{i-a} and X_{i+b} beside it, [Q] (5) has three terms:

    right_b(x, x') = max over y of log P^b(x, y) / P^b(x', y)
    left_a(x, x')  = max over u of log P^a(u, x) / P^a(u, x')
    prior_i(x, x') = log P(X_i = x') / P(X_i = x)

where x, x' run over values X_i can take and u over values X_{i-a} can take. Three kinds of start
differ in the prior, and in how it moves with i:

- stationary: the same at every entry;
- any start ([Q] C.4): prior_i(x, x') = max over y of log P^{i-1}(y, x') / P^{i-1}(y, x), which
  never grows with i, and u, x, x' run over states that some start can reach;
- a fixed initial distribution: different at every entry, until the distribution has converged.

# Powers

Powers of a transition matrix and the largest log-ratios of their rows and columns.

Everything that privacy depends on here is a sum of products of non-negative numbers, so entries
have a small *relative* error: at most ``steps * k`` roundings for P^steps on k states, in whatever
order the products are taken. ``rounding`` bounds the error of a log-ratio that follows, and callers
add it.

Two things need more care than rounding.

- Zeros. Whether an entry is possible at all is stored separately, as an exact boolean pattern.
- Underflow. An entry that is possible but too small for a float has no known ratio to others, so a
  ratio over it counts as infinite. That can cost noise, never privacy.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import lru_cache
from math import inf

import numpy as np
from numpy.typing import NDArray

from pufferkit.beliefs.base import Member
from pufferkit.beliefs.markov_chain import MarkovChain, boolean_product
from pufferkit.checks import Bools, Floats
from pufferkit.errors import NotApplicable
from pufferkit.influence.kernels import TINY, Kernel, row_log_ratios
from pufferkit.rounding import EPS

_FAR = 1 << 20
"""Up to this many steps powers are used without a search; rounding does not matter yet."""


def _kept(each: int, memory: int) -> int:
    """How many arrays of so many bytes are kept: at least eight, more within a limit of memory."""
    return max(8, memory // each)


class Powers:
    """P^n for any n, by squaring, cached within a limit of memory."""

    def __init__(self, transition: Floats, memory: int = 1 << 29) -> None:
        self._squares = [Kernel(transition, transition > 0)]
        self.size = len(transition)
        self._farthest: int | None = None
        self._at = lru_cache(_kept(9 * transition.size, memory))(self._made)

    def __getitem__(self, steps: int) -> Kernel:
        return self._at(steps)

    def _made(self, steps: int) -> Kernel:
        low = steps & -steps
        while len(self._squares) < low.bit_length():
            self._squares.append(_product(self._squares[-1], self._squares[-1]))
        kernel = self._squares[low.bit_length() - 1]
        return kernel if low == steps else _product(self[steps - low], kernel)

    def rounding(self, steps: int) -> float:
        """Bound on the error of a log-ratio of entries of P^steps."""
        return 1e-13 + 3 * EPS * steps * (self.size + 2)

    def reach(self, steps: int) -> int:
        """A number of steps, at most ``steps``, whose log-ratios bound those after ``steps``.

        Log-ratios of rows and of columns never grow with the number of steps (data processing: a
        closer endpoint reveals at least as much), but the error of a computed power does. Where
        twice as many steps change the ratios by no more than that error, further ones would only
        add to it.
        """
        if steps <= _FAR:
            return steps
        if self._farthest is None:
            farthest, ratios = _FAR, row_log_ratios(self[_FAR])
            while True:
                further = row_log_ratios(self[2 * farthest])
                finite = np.isfinite(ratios)
                change = float(np.abs(ratios[finite] - further[finite]).max(initial=0.0))
                if change <= 4 * self.rounding(2 * farthest):
                    break
                farthest, ratios = 2 * farthest, further
            self._farthest = farthest
        return min(steps, self._farthest)


def _product(first: Kernel, second: Kernel) -> Kernel:
    return Kernel(first.values @ second.values, boolean_product(first.possible, second.possible))


CONVERGED = 1e-12
"""A distribution this close to its limit is replaced by it; the distance is added."""

MOST_GIGABYTES = 8.0
"""Tables that need more memory are refused before they are made."""

_RATIOS = 1 << 28
"""Bytes for the log-ratios of rows that are kept, and as many for those of columns."""

_MATRICES = 52
"""About how many matrices are in memory at least: squares, powers, ratios."""

_SHORT = 4096
"""Up to this many entries, memory is not checked."""


def tables_of(member: Member, length: int = 1) -> ChainTables:
    """The tables of one member of a class, for segments of up to ``length`` entries."""
    differ = not (member.any_start or member.chain.is_stationary)
    return _tables(member.chain, member.any_start, length if differ else None)


@lru_cache(maxsize=1)  # the mechanisms of a plan ask for the same ones, and for the powers in them
def _tables(chain: MarkovChain, any_start: bool, length: int | None) -> ChainTables:
    if any_start:
        return AnyStartTables(chain)
    return StationaryTables(chain) if length is None else GivenStartTables(chain, length)


class ChainTables(ABC):
    """Powers and log-ratios of one transition matrix with one kind of start.

    ``steady`` says that the prior is the same at every entry.
    """

    steady = False

    def __init__(self, chain: MarkovChain) -> None:
        self.chain = chain
        if (needed := _MATRICES * 8 * chain.transition.size / 1e9) > MOST_GIGABYTES:
            raise NotApplicable(
                f"quilts of a chain of {len(chain):,} states need about {needed:.3g} GB of "
                f"memory, more than {MOST_GIGABYTES:g}; merge states"
            )
        self.powers = Powers(chain.transition)
        kept = lru_cache(_kept(8 * chain.transition.size, _RATIOS))
        self.right = kept(self._right)
        self._left = kept(self._left_of)

    @abstractmethod
    def support(self, node: int) -> Bools:
        """States that X_node can be in."""

    @abstractmethod
    def prior(self, node: int) -> Floats:
        """prior_i over pairs of states."""

    @abstractmethod
    def prior_error(self, node: int) -> float:
        """Bound on the error of the prior."""

    @abstractmethod
    def stretches(self, length: int) -> list[tuple[int, int]]:
        """Stretches of equal supports on which priors never grow, by their first and last entries.

        Empty if entries differ by more than that.
        """

    def _right(self, steps: int) -> Floats:
        """right_b over all pairs of states."""
        return row_log_ratios(self.powers[steps])

    def left(self, steps: int, sources: Bools) -> Floats:
        """left_a over all pairs of states, u in ``sources``."""
        return self._left(steps, sources.tobytes())

    def _left_of(self, steps: int, sources: bytes) -> Floats:
        rows = np.frombuffer(sources, dtype=bool)
        return row_log_ratios(self.powers[steps].rows(rows).transposed)


class StationaryTables(ChainTables):
    """A chain that starts in a stationary distribution: one prior, one support, for all entries."""

    steady = True

    def __init__(self, chain: MarkovChain) -> None:
        super().__init__(chain)
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

    def prior(self, node: int) -> Floats:
        return self._prior

    def prior_error(self, node: int) -> float:
        return CONVERGED

    def stretches(self, length: int) -> list[tuple[int, int]]:
        return [(1, length)]

    def distribution(self, node: int) -> Floats:
        """The distribution of X_node."""
        return self.chain.initial


class AnyStartTables(ChainTables):
    """One matrix with every initial distribution, [Q] C.4."""

    def __init__(self, chain: MarkovChain) -> None:
        super().__init__(chain)
        # States that some start reaches after 0, 1, ... steps; shrinking, constant from the last.
        self._reached: list[Bools] = [np.ones(len(chain), dtype=bool)]
        while True:
            after: Bools = np.any(chain.transition[self._reached[-1]] > 0, axis=0)
            if (after == self._reached[-1]).all():
                break
            self._reached.append(after)
        self._priors: dict[int, Floats] = {}

    @property
    def settled(self) -> int:
        """From this entry on, the states that can be reached stay the same."""
        return len(self._reached)

    def support(self, node: int) -> Bools:
        return self._reached[min(node, len(self._reached)) - 1]

    def prior(self, node: int) -> Floats:
        if node not in self._priors:
            steps = self.powers.reach(node - 1)
            self._priors[node] = row_log_ratios(self.powers[steps].transposed).T
        return self._priors[node]

    def prior_error(self, node: int) -> float:
        return self.powers.rounding(self.powers.reach(node - 1))

    def stretches(self, length: int) -> list[tuple[int, int]]:
        starts = range(1, min(length, self.settled) + 1)
        return [*((n, n) for n in starts[:-1]), (starts[-1], length)]


def bytes_needed(nodes: int, states: int) -> int:
    """Memory of a search over nodes that differ: bounds, and distributions while they are made."""
    return nodes * (64 + 28 * states)


def check_memory(nodes: int, states: int, length: int) -> None:
    """Refuse tables of so many entries that do not fit."""
    gigabytes = bytes_needed(nodes, states) / 1e9
    if gigabytes > MOST_GIGABYTES:
        raise NotApplicable(
            f"quilts of {length:,} nodes of {states} states that differ by their start need about "
            f"{gigabytes:,.0f} GB of memory; shorten the series, split it into segments, or use a "
            "stationary start, ChainClass.any_start or influence_curve"
        )


class GivenStartTables(ChainTables):
    """A chain with a fixed initial distribution: the prior moves with i until it has converged.

    The distribution of X_i is tabled for i = 1 ... ``burn_in``; from there on it is its limit (one
    distribution for each remainder modulo the period), because its distance to the limit never
    grows again. A chain that does not converge within the segment is tabulated completely.
    """

    def __init__(self, chain: MarkovChain, length: int) -> None:
        super().__init__(chain)
        if not self._converges():
            check_memory(length, len(chain), length)
        distributions, possible = chain.initial[None, :], (chain.initial > 0)[None, :]
        self.cycle = chain.period if self._converges() else length
        repeats = self.cycle if self._converges() else 1
        limits = np.array([chain.limit_distribution(n) for n in range(1, repeats + 1)])
        self.burn_in = self._first_converged(distributions, possible, limits, 0)
        while self.burn_in == len(distributions) < length:
            check_memory(self._nodes_expected(len(distributions), length), len(chain), length)
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

    def near_limit(self, spread: float) -> tuple[int, float]:
        """The first entry with the support of its limit and log-ratios this near to it; how near.

        Their spread never grows again. With a cycle, or where no limit is tabled, the entry after
        the burn-in.
        """
        lost: Bools = np.asarray(self.underflowed.any(axis=1))
        if self.cycle > 1 or self.burn_in == len(self.logs) or lost[-1]:
            return self.burn_in + 1, 0.0
        ratios = (self.logs - self.logs[-1])[:, self.patterns[self.which[-1]]]
        spreads = np.where(lost | (self.which != self.which[-1]), inf, np.ptp(ratios, axis=1))
        first = int(np.argmax(spreads <= spread))
        return first + 1, float(spreads[first])

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

    def prior(self, node: int) -> Floats:
        row = self.row(node)
        logs = self.logs[row]
        prior: Floats = logs[None, :] - logs[:, None]
        if self.underflowed[row].any():
            prior[self.underflowed[row][None, :] | self.underflowed[row][:, None]] = inf
            np.fill_diagonal(prior, 0.0)
        return prior

    def prior_error(self, node: int) -> float:
        return CONVERGED + self.powers.rounding(self.burn_in)

    def stretches(self, length: int) -> list[tuple[int, int]]:
        return []
