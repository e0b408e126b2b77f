"""How far events about a chain move a sum: W-infinity between its distributions given two events.

The sum is v(X_1) + ... + v(X_T) with whole non-negative values v. Two kinds of events:

- *labels* of windows (`pufferkit.beliefs.secrets.Automaton`): entry and automaton together are a
  Markov chain through the window. Its joint distribution with the sum so far begins with that of
  the first entry and the sum before it, and ends with one convolution for each case of the last
  entry, with the sum after it;
- *conditions* on named entries: the joint distribution of entry and sum, restricted to the allowed
  states.

Only non-negative numbers are added and multiplied, as in `pufferkit.influence.sums.chain_sums`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import numpy as np

from pufferkit.beliefs.secrets import Automaton
from pufferkit.checks import Bools, Floats, Ints
from pufferkit.errors import NotApplicable
from pufferkit.influence.progress import Progress
from pufferkit.influence.sums.chain_sums import EntryDistance
from pufferkit.influence.sums.long_vectors import (
    NOTHING,
    Blocks,
    convolved,
    least_shift,
    running_sums,
)
from pufferkit.influence.sums.short_sums import farthest, fits_floats, sums_given_labels
from pufferkit.influence.sums.sum_work import window_work
from pufferkit.rounding import EPS

MOST_WORK = 6e10
"""Most nanoseconds, about."""

_LABELS = 3
"""So many distributions are compared at once before they are compared in pairs."""


@dataclass(frozen=True, eq=False)
class SummedChain:
    """A chain of given length, and the whole non-negative value of each state."""

    initial: Floats
    transition: Floats
    values: Ints
    length: int

    @property
    def room(self) -> int:
        """Numbers in a distribution of the whole sum."""
        return self.length * int(self.values.max()) + 1

    def rounding(self, cases: int) -> float:
        """Bound on the relative error of a probability, with this many cases of an entry."""
        return 4 * EPS * (self.length * (cases + 2) + self.room + 400)

    def by_labels(self, automaton: Automaton, progress: Progress | None = None) -> EntryDistance:
        """The largest distance between two labels of a window, over all windows."""
        width, size = len(automaton.moves), len(self.values)
        cases = size * max(int(moves.max()) + 1 for moves in automaton.moves)
        last = self.length - width + 1
        _check_work(window_work(automaton, self.length, size, int(self.values.max())))
        if fits_floats(self.initial, self.transition, self.length, int(self.values.max())):
            return self._in_floats(automaton, self.rounding(cases), progress)
        after = [Blocks.units(np.ones(size), np.zeros(size, dtype=np.int64))]
        for _ in range(self.length - width):
            after.append(self._moved(after[-1], np.arange(size), self.transition))
        before = Blocks.units(self.initial, np.zeros(size, dtype=np.int64))
        best = EntryDistance(0, 1, False)
        for first in range(1, last + 1):
            if first > 1:
                before = self._moved(before, np.arange(size), self.transition.T)
            rows = self._given_labels(automaton, before, after[last - first])
            best = _farther(rows, first, self.rounding(cases), best)
            if progress is not None:
                progress(first, last)
        return best

    def _in_floats(
        self, automaton: Automaton, error: float, progress: Progress | None
    ) -> EntryDistance:
        best, values = EntryDistance(0, 1, False), self.values.tolist()
        given = sums_given_labels(self.initial, self.transition, values, self.length, automaton)
        for first, sums in enumerate(given, 1):
            value, unsure = farthest(sums, best.value, error)
            if value > best.value:
                best = EntryDistance(value, first, unsure)
            if progress is not None:
                progress(first, self.length - len(automaton.moves) + 1)
        return best

    def _given_labels(self, automaton: Automaton, before: Blocks, after: Blocks) -> Blocks:
        """The joint distribution of the sum and the label of the window after ``before``."""
        size = len(self.values)
        states = np.arange(size)
        start = np.zeros((int(automaton.moves[0].max() + 1) * size, size))
        start[automaton.moves[0][0] * size + states, states] = 1.0
        rows = before.mixed(start)
        for moves in automaton.moves[1:]:
            cases, reached = len(moves) * size, int(moves.max()) + 1
            kernel = np.zeros((reached * size, cases))
            for memory, x in product(range(len(moves)), range(size)):
                kernel[moves[memory] * size + states, memory * size + x] = self.transition[x]
            rows = self._moved(rows, np.arange(cases) % size, kernel)
        own = np.arange(len(rows.exponents)) % size
        shifted = self._shifted(rows, own)
        pairs = np.array([[[n, x]] for n, x in enumerate(own)])
        whole = convolved(shifted, after, pairs, shifted.length + after.length)
        chosen = np.zeros((len(automaton.labels), len(own)))
        ends = np.array(automaton.ends)[np.arange(len(own)) // size]
        chosen[ends, np.arange(len(own))] = 1.0
        return whole.mixed(chosen)

    def by_conditions(
        self, pairs: Sequence[tuple[Mapping[int, Bools], Mapping[int, Bools]]]
    ) -> EntryDistance:
        """The largest distance between two conditions; its node is the number of the pair.

        A condition says which states named entries may have. Pairs of which one is impossible hide
        nothing and are passed over.
        """
        size = len(self.values)
        _check_work(2.0 * len(pairs) * self.length * size**2 * self.room)
        best = EntryDistance(0, 1, False)
        for number, pair in enumerate(pairs, 1):
            rows = [self._given(condition) for condition in pair]
            both = Blocks(
                np.concatenate([row.mantissas for row in rows]),
                np.concatenate([row.exponents for row in rows]),
                any(row.lost for row in rows),
            )
            best = _farther(both, number, self.rounding(size), best)
        return best

    def _given(self, condition: Mapping[int, Bools]) -> Blocks:
        size = len(self.values)
        states = np.arange(size)
        everything = np.ones(size, dtype=bool)
        kept = np.where(condition.get(1, everything), self.initial, 0.0)
        rows = Blocks.units(kept, np.zeros(size, dtype=np.int64))
        for entry in range(2, self.length + 1):
            allowed = condition.get(entry, everything)
            rows = self._moved(rows, states, np.where(allowed[:, None], self.transition.T, 0.0))
        return self._shifted(rows, states).mixed(np.ones((1, size)))

    def _shifted(self, rows: Blocks, states: Ints) -> Blocks:
        """Row n with the value of ``states[n]`` added to its sums."""
        points = Blocks.units(np.ones(len(states)), self.values[states])
        each = np.array([[[n, n]] for n in range(len(states))])
        length = min(self.room, rows.length + int(self.values.max()))
        return convolved(points, rows, each, length)

    def _moved(self, rows: Blocks, states: Ints, kernel: Floats) -> Blocks:
        """One entry further: values added, then row m is the sum over n of kernel[m, n] row n."""
        return self._shifted(rows, states).mixed(kernel)


def _farther(rows: Blocks, node: int, error: float, best: EntryDistance) -> EntryDistance:
    """The larger of ``best`` and the largest distance between two rows that have any weight."""
    tails = []
    for mantissa, exponent in zip(rows.mantissas, rows.exponents, strict=True):
        sums, exponents = running_sums(mantissa, exponent, False)
        if sums[-1] == 0.0:
            continue
        # Scaling by a power of two is exact, the remaining factor rounds once.
        wide = mantissa / sums[-1]
        scaled = np.where(exponent > -(2**29), exponent - exponents[-1], exponent)
        tails.append((*running_sums(wide, scaled, False), *running_sums(wide, scaled, True)))
    lost = best.lost or rows.lost
    value, where, unsure = best.value, best.node, best.unsure
    if len(tails) >= _LABELS:
        # If the largest F is below the least one further up, so is each of them.
        lower_a, upper_b = (_largest([row[at : at + 2] for row in tails]) for at in (0, 2))
        lower_b, upper_a = (_least([row[at : at + 2] for row in tails]) for at in (0, 2))
        d, open_ = least_shift.metered(*lower_a, *upper_a, *lower_b, *upper_b, value, error)
        if not open_:
            value, where, unsure = (int(d), node, False) if d > value else (value, where, unsure)
            return EntryDistance(value, where, unsure, lost)
    for one, other in combinations(tails, 2):
        for first, second in ((one, other), (other, one)):
            d, open_ = least_shift.metered(*first, *second, value, error)
            if d > value:
                value, where, unsure = int(d), node, bool(open_)
    return EntryDistance(value, where, unsure, lost)


def _largest(tails: Sequence[Sequence[Any]]) -> tuple[Floats, Ints]:
    """The largest of several numbers with exponents, place by place."""
    sums, exponents = (np.array(own) for own in zip(*tails, strict=True))
    exponents = np.where(sums > 0, exponents, NOTHING)
    top = exponents.max(axis=0)
    return np.where(exponents == top, sums, 0.0).max(axis=0), np.where(top > NOTHING, top, 0)


def _least(tails: Sequence[Sequence[Any]]) -> tuple[Floats, Ints]:
    """The least of them."""
    sums, exponents = (np.array(own) for own in zip(*tails, strict=True))
    exponents = np.where(sums > 0, exponents, NOTHING)
    low = exponents.min(axis=0)
    return np.where(exponents == low, sums, np.inf).min(axis=0), np.where(low > NOTHING, low, 0)


def _check_work(work: float) -> None:
    if work > MOST_WORK:
        raise NotApplicable(
            f"the distributions of the sum given these events take about {work / 1e9:.2g} s, more "
            f"than {MOST_WORK / 1e9:.0f}; use influence_curve, a shorter series or rounder values"
        )
