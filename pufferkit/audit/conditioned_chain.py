"""A chain of which some entries are known, and data drawn from it.

Given X_i = a (and any other known entries), X_1 ... X_T is again a Markov chain, with a matrix of
its own at each step: P_t(x, y) proportional to P(x, y) h_{t+1}(y), where h_t(x) is the probability
of what is known at t and later, given X_t = x. Drawing from it is drawing data given the secret.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from pufferkit.audit.hidden_markov import walk_counts
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.checks import Floats
from pufferkit.fitting.sequences import Codes

"""States or symbols, by their numbers."""

_BLOCK = 4_000_000


@dataclass(frozen=True, eq=False)
class Conditioned:
    """A chain with a matrix for each step: ``matrices[which[t]]`` moves X_{t+1} to X_{t+2}."""

    initial: Floats
    matrices: Floats
    which: Codes

    @property
    def length(self) -> int:
        """Number of entries."""
        return len(self.which) + 1

    def beside(self, start: Floats, moves: Floats) -> Conditioned:
        """The chain of pairs with an independent chain, which starts and moves like this."""
        pairs = np.array([np.kron(matrix, moves) for matrix in self.matrices])
        initial = np.kron(self.initial, start).astype(np.float64)
        return Conditioned(initial, pairs, self.which)

    def sample(self, trials: int, rng: np.random.Generator) -> NDArray[np.uint16]:
        """Independent paths, one row each, as codes."""
        paths = np.empty((trials, self.length), dtype=np.uint16)
        start, moves = cumulative_rows(self.initial[None, :])[0], cumulative_rows(self.matrices)
        state: Codes = (rng.random(trials)[:, None] >= start).sum(axis=1)
        paths[:, 0] = state
        for t, own in enumerate(self.which):
            state = (rng.random(trials)[:, None] >= moves[own][state]).sum(axis=1)
            paths[:, t + 1] = state
        return paths

    def sample_counts(self, trials: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """How often each of many independent paths visits each state; the paths are not kept."""
        counts = np.zeros((trials, len(self.initial)), dtype=np.int64)
        state = np.zeros(trials, dtype=np.intp)
        start, moves = cumulative_rows(self.initial[None, :])[0], cumulative_rows(self.matrices)
        steps = np.concatenate([[0], self.which]).astype(np.intp)
        block = max(1, _BLOCK // trials)
        for begin in range(0, self.length, block):
            part = steps[begin : begin + block]
            draws = rng.random((len(part), trials))
            walk_counts(start, moves, part, draws, state, counts, begin == 0)
        return counts

    def distribution_of_sum(self, values: NDArray[np.int64]) -> Floats:
        """Distribution of the sum of whole non-negative values over all entries, index the sum."""
        size, largest = len(self.initial), int(values.max())
        table = np.zeros((size, self.length * largest + 1))
        table[np.arange(size), values] = self.initial
        for own in self.which:
            moved = self.matrices[own].T @ table
            table = np.zeros_like(moved)
            for x, value in enumerate(values):
                table[x, value:] = moved[x, : moved.shape[1] - value]
        distribution: Floats = table.sum(axis=0)
        return distribution

    def distribution_of_counts(self) -> Floats:
        """Joint distribution of the counts of all states but the first; one axis for each."""
        size = len(self.initial)
        shape = (self.length + 1,) * (size - 1)
        table = np.zeros((size, *shape))
        table.reshape(size, -1)[:, 0] = self.initial
        for t in range(self.length):
            if t:
                table = np.tensordot(self.matrices[self.which[t - 1]].T, table, axes=1)
            # Counting state x shifts its own axis; what would fall off the end is 0.
            for x in range(1, size):
                table[x] = np.roll(table[x], 1, axis=x - 1)
        distribution: Floats = table.sum(axis=0)
        return distribution


def conditioned(chain: MarkovChain, length: int, known: Mapping[int, int]) -> Conditioned:
    """The chain over ``length`` entries given some of them: {place counted from 0: code}.

    Raises
    ------
    ValueError
        If what is known has probability zero.
    """
    size = len(chain)
    if any(not 0 <= t < length or not 0 <= x < size for t, x in known.items()):
        raise ValueError(f"known: places 0 to {length - 1} and codes 0 to {size - 1}, got {known}")
    last = max(known, default=-1)
    ahead = np.ones(size)
    steps = np.full(length - 1, 0, dtype=np.intp)
    matrices = [chain.transition]
    for t in range(last, -1, -1):
        seen = _only(ahead, known.get(t))
        if t == 0:
            ahead = seen
            break
        weights = chain.transition * seen
        total = weights.sum(axis=1)
        steps[t - 1] = len(matrices)
        # Rows that cannot lead to what is known are never entered; any distribution will do.
        safe = np.where(total[:, None] > 0, weights, chain.transition)
        matrices.append(safe / safe.sum(axis=1, keepdims=True))
        ahead = total / total.max() if total.max() > 0 else total
    start = chain.initial * ahead
    if start.sum() <= 0:
        listed = ", ".join(f"X_{t + 1} = {chain.states[x]!r}" for t, x in sorted(known.items()))
        raise ValueError(f"known: {listed} cannot happen in this chain")
    return Conditioned(start / start.sum(), np.array(matrices), steps)


def cumulative_rows(rows: Floats) -> Floats:
    """Running sums of distributions along the last axis, 1 from the last possible state on."""
    sums: Floats = np.cumsum(rows, axis=-1)
    possible = rows > 0
    last = rows.shape[-1] - 1 - possible[..., ::-1].argmax(axis=-1)
    sums[np.arange(rows.shape[-1]) >= last[..., None]] = 1.0
    return sums


def split(lengths: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """First place and end of each segment."""
    ends = np.concatenate([[0], np.cumsum(lengths)])
    yield from ((int(a), int(b)) for a, b in pairwise(ends))


def _only(values: Floats, code: int | None) -> Floats:
    if code is None:
        return values
    kept = np.zeros_like(values)
    kept[code] = values[code]
    return kept
