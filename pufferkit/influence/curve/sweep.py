"""The influence curve: from event-level privacy to Pufferfish privacy of a chain.

A release has *event-level epsilon* b if changing one entry moves the log-likelihood of every output
by at most b. Let b_t be the event-level epsilon spent on entry t. With the steps of
`pufferkit.influence.curve.steps`,

    beta_i  = min over m >= 1 of  b_i + ... + b_{i+m-1} + step(P^m, beta_{i+m})
    alpha_i = the same to the left, with the kernel P(X_{i-l} = u | X_i = x) in place of P^m
    loss_i  = min over l, m of  b_{i-l+1} + ... + b_{i+m-1}
              + max over pairs x, x' of step_{x,x'}(left kernel l, alpha_{i-l})
                                      + step_{x,x'}(P^m, beta_{i+m})

where a side may also be exhausted: all of its b's, step 0. Secrets are any two values of an entry,
beliefs the chains with these kernels. Any release of these b's is epsilon-Pufferfish private for
epsilon = max over i of loss_i.

Any choice of blocks l, m gives a valid bound, so the search over them may be partial. Nor does
every node need to be visited. On a stretch where b and the kernels do not change, let F(v) be the
least m b + step(P^m, v). If F(v) <= v and the nodes just before have at most v, so have all nodes
of the stretch, by induction. F has slope below 1, so one v bounds a stretch of any length. That is
why the cost does not depend on the length of the series, and why rounding v up is safe.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf
from operator import itemgetter

import numpy as np

from pufferkit.checks import Floats
from pufferkit.influence.curve.node_tables import NodeTables
from pufferkit.influence.curve.steps import KernelStep, Step, StepRow
from pufferkit.rounding import last_passing

StepOf = Callable[[int], Step | None]
"""From block size to step; ``None`` if that block has no kernel."""

PATIENCE = 8
"""Nodes of a stretch that are visited one by one before one bound covers the rest."""

_FIRST = itemgetter(0)
_FIXED = 1e-9
_NEAR = 1e-6


@dataclass(frozen=True)
class Run:
    """``count`` consecutive entries with event-level epsilon ``b`` each."""

    count: int
    b: float


@dataclass(frozen=True)
class Side:
    """One side of every entry, nodes counted from the end that the side runs towards.

    Attributes
    ----------
    stretches
        (first node, step of each block) for stretches of nodes with the same kernels.
    blocks
        Block sizes to try.
    tables
        The same steps of the first nodes, if each of many is a stretch of its own.
    """

    stretches: Sequence[tuple[int, StepOf]]
    blocks: Sequence[int]
    tables: NodeTables | None = None

    def steps_at(self, node: int) -> StepOf:
        """The kernels of one node."""
        return self.stretches[bisect_right(self.stretches, node, key=_FIRST) - 1][1]


@dataclass(frozen=True)
class EntryLoss:
    """The privacy loss of one entry, and the blocks around it that give the bound.

    ``left`` and ``right`` are block sizes; ``None`` means that side was exhausted. ``pairs`` is the
    loss of every pair of states, where the pairwise curve gave the bound.
    """

    value: float
    node: int
    left: int | None
    right: int | None
    pairs: Floats | None = None

    def __str__(self) -> str:
        if self.pairs is not None:
            return "pair by pair of values"
        sides = [
            "left side exhausted" if self.left is None else f"left block {self.left}",
            "right side exhausted" if self.right is None else f"right block {self.right}",
        ]
        return ", ".join(sides)


@dataclass(frozen=True)
class Option:
    """One bound of a side: a block of paid entries, then a step from the variation beyond."""

    block: int | None
    spent: float
    step: Step | None
    incoming: float

    def pairs(self) -> Floats | float:
        """The step for each pair of values, or one number for all."""
        if self.step is None:
            return 0.0
        pairwise = self.step.pairs(self.incoming)
        return self.step.largest(self.incoming) if pairwise is None else pairwise


@dataclass(frozen=True)
class Plateau:
    """Nodes up to ``last`` that share one bound, which also holds for all nodes a block reaches."""

    last: int
    b: float
    value: float
    blocks: tuple[int, ...]


class Sweep:
    """alpha (or beta) of every node, as stretches of nodes with one value each."""

    def __init__(self, side: Side, runs: Sequence[Run]) -> None:
        self.side = side
        self.runs = [run for run in runs if run.count > 0]
        self.ends = np.cumsum([run.count for run in self.runs]).tolist()
        self.length: int = self.ends[-1]
        # Whether all nodes spend the same and have the same kernels.
        self.is_uniform = len(self.runs) == 1 and len(side.stretches) == 1
        self._sums = np.cumsum([run.count * run.b for run in self.runs]).tolist()
        self.firsts: list[int] = []
        self.values: list[float] = []
        self._plateaus: dict[int, Plateau] = {}
        self._levels: dict[tuple[int, int], float] = {}
        self._sweep()

    def b_at(self, node: int) -> float:
        """Event-level epsilon of a node."""
        return self.runs[self._run(node)].b

    def value_at(self, node: int) -> float:
        """Bound on alpha of a node."""
        return self.values[bisect_right(self.firsts, node) - 1]

    def plateau_at(self, node: int) -> Plateau | None:
        """The bound that a node shares with others, if there is one."""
        return self._plateaus.get(bisect_right(self.firsts, node) - 1)

    def spent(self, node: int, block: int) -> float:
        """Sum of b over the ``block`` nodes that end at ``node``."""
        return self._until(node) - self._until(node - block)

    def options(self, node: int, most: int) -> list[tuple[float, Option]]:
        """The least bounds of this side of a node, and of all nodes on its plateau."""
        steps = self.side.steps_at(node)
        plateau = self.plateau_at(node)
        every = self._until(node if plateau is None else plateau.last)
        cheapest = [(every, Option(None, every, None, 0.0))]
        for block in self.side.blocks if plateau is None else plateau.blocks:
            spent = self.spent(node, block) if plateau is None else block * plateau.b
            if len(cheapest) == most and spent >= cheapest[-1][0]:
                break  # larger blocks cost more still
            if (plateau is not None or block < node) and (step := steps(block)) is not None:
                incoming = self.value_at(node - block) if plateau is None else plateau.value
                cost = spent + step.largest(incoming)  # of the worst pair of values
                insort(cheapest, (cost, Option(block, spent, step, incoming)), key=_FIRST)
                del cheapest[most:]
        return cheapest

    def _run(self, node: int) -> int:
        return bisect_right(self.ends, node - 1)

    def _until(self, node: int) -> float:
        if node <= 0:
            return 0.0
        run = self._run(node)
        before_nodes, before_sum = (self.ends[run - 1], self._sums[run - 1]) if run else (0, 0.0)
        return float(before_sum + (node - before_nodes) * self.runs[run].b)

    def _sweep(self) -> None:
        tables = self.side.tables
        if tables is not None:
            spent = np.array([self._until(node) for node in range(tables.nodes + 1)])
            self.firsts = list(range(1, tables.nodes + 1))
            self.values = tables.values(spent).tolist()
        done = len(self.values)
        # Ranges of nodes with constant b and constant kernels.
        marks = {1, *(end + 1 for end in self.ends), *(first for first, _ in self.side.stretches)}
        ordered = [mark for mark in sorted(marks) if mark <= self.length]
        for first, after in pairwise([*ordered, self.length + 1]):
            if first <= done:
                continue
            node, last, steps = first, after - 1, self.side.steps_at(first)
            while node <= last:
                plateau = None
                if node - first >= PATIENCE and last - node >= PATIENCE:
                    plateau = self._plateau(node, first, last, steps)
                self.firsts.append(node)
                if plateau is not None:
                    self._plateaus[len(self.values)] = plateau
                    self.values.append(plateau.value)
                    break
                self.values.append(self.options(node, 1)[0][0])
                node += 1

    def _plateau(self, node: int, first: int, last: int, steps: StepOf) -> Plateau | None:
        """One bound for nodes ``node`` ... ``last``, or ``None`` if it would be too loose here."""
        b = self.b_at(node)
        # A block may extend before the stretch if no node there costs more than b.
        reach = max(self.side.blocks, default=1)
        lowest = max(1, first - reach)
        older = max((self.b_at(n) for n in self._starts_between(lowest, first - 1)), default=0.0)
        usable = [m for m in self.side.blocks if m <= node - first or older <= b]
        known = first, len(usable)
        if known not in self._levels:
            self._levels[known] = fixed_point(steps, usable, b)
        level = self._levels[known]
        recent = max(
            self.values[place]
            for place in range(
                bisect_right(self.firsts, max(1, node - reach)) - 1, len(self.firsts)
            )
        )
        if level == inf and len(usable) < len(self.side.blocks) and node - first < 100 * PATIENCE:
            return None
        if recent > level * (1 + _NEAR) and node - first < 100 * PATIENCE:
            return None
        if level == inf:
            return Plateau(last, b, self._until(last), ())
        return Plateau(last, b, max(level, recent), tuple(usable))

    def _starts_between(self, low: int, high: int) -> Iterator[int]:
        """One node of every run that meets [low, high]."""
        if low > high:
            return
        for run in range(self._run(low), self._run(high) + 1):
            yield self.ends[run]


def fixed_point(steps: StepOf, blocks: Sequence[int], b: float) -> float:
    """A v, close to the least, with b <= v and F(v) <= v; infinite if the search has no result.

    F(v) is the least m b + step(P^m, v) over blocks m. The inequality was checked for the v that is
    returned.
    """
    if b == 0:
        return 0.0
    usable = [(m, step) for m in sorted(blocks) if (step := steps(m)) is not None]
    row = _row_of([step for _, step in usable])
    spent = b * np.array([m for m, _ in usable], dtype=float)

    def gap(v: float) -> float:
        if row is not None:
            return v - float((spent + row.largest(v)).min())
        least = inf
        for m, step in usable:
            if m * b >= least:
                break
            least = min(least, m * b + step.largest(v))
        return v - least

    high = min((m * b + step.largest(inf) for m, step in usable), default=inf)
    if high == inf:
        high = 2 * b
        while gap(high) < 0:
            high *= 2
            if high > 1e5:
                return inf
    if gap(b) >= 0:
        return b
    return last_passing(gap, high, b, _FIXED)


def _row_of(steps: Sequence[Step]) -> StepRow | None:
    """All steps in one table, if there are many and they are small."""
    if len(steps) < PATIENCE or not all(StepRow.serves(step) for step in steps):
        return None
    return StepRow([step for step in steps if isinstance(step, KernelStep)])


def largest_loss(left: Sweep, right: Sweep, most: int) -> EntryLoss:
    """The largest loss over all entries.

    Every stretch of entries has a quick bound, alpha + beta - b. Stretches are refined, largest
    bound first, by taking the same pair of values on both sides, until a refined one is on top.

    Parameters
    ----------
    most
        How many of the cheapest options of each side to combine.
    """
    bounds = _quick_bounds(left, right)
    middle = _hardest_of_all(left, right)
    worst = EntryLoss(-inf, 0, None, None)
    for quick, node in bounds if middle is None else [(inf, middle)]:
        if quick <= worst.value:
            break
        loss = entry_loss(left, right, node, most)
        if loss.value > worst.value:
            worst = loss
    # A quick bound has less rounding; a loss that it bounds must not count as larger.
    return worst if worst.value <= bounds[0][0] else replace(worst, value=bounds[0][0])


def window_loss(left: Sweep, right: Sweep, window: int) -> EntryLoss:
    """The largest loss between values of so many entries in a row, at least two.

    For the window X_i, ..., X_j it is alpha_i + b_{i+1} + ... + b_{j-1} + beta_j: given the window,
    its left and its right are independent, alpha_i bounds how the mean over the left varies with
    X_i, entry i included, and beta_j the mean over the right with X_j; each entry between costs
    its b. Two events about the window are mixtures of its values.
    """
    length, last = left.length, left.length - window + 1
    marks = {1, last + 1, *left.firsts}
    marks |= {last + 2 - first for first in right.firsts}
    # Between such places what the entries inside spend is linear, so its ends have the most.
    marks |= {end + n for end in left.ends for n in (0, 1)}
    marks |= {end - window + n for end in left.ends for n in (1, 2, 3)}
    ordered = sorted(mark for mark in marks if 1 <= mark <= last + 1)
    worst = EntryLoss(-inf, 1, None, None)
    for first, after in pairwise(ordered):
        for node in {first, after - 1}:
            end = length + 1 - (node + window - 1)
            inside = left.spent(node + window - 2, window - 2) if window > 2 else 0.0
            value = left.value_at(node) + inside + right.value_at(end)
            if value > worst.value:
                before, beyond = left.options(node, 1)[0][1], right.options(end, 1)[0][1]
                worst = EntryLoss(value, node, before.block, beyond.block)
    return worst


def quick_loss(left: Sweep, right: Sweep) -> float:
    """An upper bound on `largest_loss`, with one bound for all pairs of values."""
    return _quick_bounds(left, right)[0][0]


def _hardest_of_all(left: Sweep, right: Sweep) -> int | None:
    """The middle node, if its loss bounds that of every other.

    This holds if all nodes spend the same, have the same kernels, and the middle is on a plateau.
    For a node closer to an end, take the blocks of the middle one: beyond a block the
    variation is no larger there, and a block that reaches past the end is replaced by the whole
    side, which has fewer entries.
    """
    if not (left.is_uniform and right.is_uniform):
        return None
    middle = (left.length + 1) // 2
    for sweep, node in ((left, middle), (right, left.length + 1 - middle)):
        plateau = sweep.plateau_at(node)
        if plateau is None or max(sweep.values) > plateau.value:
            return None
    return middle


def _quick_bounds(left: Sweep, right: Sweep) -> list[tuple[float, int]]:
    """For every stretch of entries alpha + beta - b and one of its nodes, largest first."""
    length = left.length
    marks = {*left.firsts}
    # A stretch of the right sweep that starts at r nodes from the end ends at node length + 1 - r.
    marks |= {length + 2 - first for first in right.firsts if first > 1}
    marks |= {end + 1 for end in left.ends[:-1]}
    bounds = []
    ordered = sorted(mark for mark in marks if 1 <= mark <= length)
    for first, after in zip(ordered, [*ordered[1:], length + 1], strict=True):
        node = (first + after - 1) // 2
        quick = left.value_at(node) + right.value_at(length + 1 - node) - left.b_at(node)
        bounds.append((quick, node))
    bounds.sort(reverse=True)
    return bounds


def entry_loss(left: Sweep, right: Sweep, node: int, most: int) -> EntryLoss:
    """The loss of one entry: the cheapest pair of options, with one pair of values throughout."""
    b = left.b_at(node)
    before = [(option, option.pairs()) for _, option in left.options(node, most)]
    mirrored = left.length + 1 - node
    after = [(option, option.pairs()) for _, option in right.options(mirrored, most)]
    best = EntryLoss(inf, node, None, None)
    for first, first_pairs in before:
        for second, second_pairs in after:
            value = first.spent + second.spent - b + float(np.max(first_pairs + second_pairs))
            if value < best.value:
                best = EntryLoss(value, node, first.block, second.block)
    return best
