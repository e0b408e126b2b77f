"""Two passes over a tree, towards the roots and back, give the loss of every node.

The theorem and its proof are in `pufferkit.influence.curve.trees`.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence

import numpy as np

from pufferkit.checks import Floats
from pufferkit.influence.curve.pairs import LARGEST, PairSteps, closure, off_diagonal
from pufferkit.influence.curve.steps import KernelStep, Step
from pufferkit.influence.curve.tree_steps import TreeKernels
from pufferkit.rounding import EPS

_MOST_DEGREE = 8


class Passes:
    """Branches and variations of a tree for one profile of costs.

    Parameters
    ----------
    tree
        The kernels along its edges.
    costs
        For every node, the cost of replacing a possible value by another.
    pairwise
        Whether steps use the variation between each pair of values, or only its maximum.
    """

    def __init__(self, tree: TreeKernels, costs: Sequence[Floats], pairwise: bool) -> None:
        self.tree, self.costs, self.pairwise = tree, costs, pairwise
        self._below: dict[int, Floats] = {}  # Lambda(child without parent)
        self._above: dict[int, Floats] = {}  # Lambda(parent without child), by child
        self._to_child: dict[int, Floats] = {}  # branch(parent, child), by child
        self._to_parent: dict[int, Floats] = {}  # branch(child, parent), by child
        self._known: dict[tuple[int, float], Floats] = {}
        self._solved: dict[tuple[int, bytes], Floats] = {}
        for n in reversed(range(len(tree.parent))):
            if tree.parent[n] >= 0:
                self._below[n] = self._variation(n, [self._to_child[c] for c in tree.children[n]])
                self._to_child[n] = self._branch(tree.parent[n], n)
        for n in range(len(tree.parent)):
            self._downwards(n)

    def losses(self) -> list[Floats]:
        """For every node the loss of each pair of values it can take, rounded up."""
        count = len(self.tree.parent)
        raised = 1 + (count + 16) * EPS
        return [self._variation(n, self._branches(n)) * raised for n in range(count)]

    def variation(self, n: int, without: int) -> Floats:
        """Lambda(n without a neighbour)."""
        return self._below[n] if self.tree.parent[n] == without else self._above[without]

    def _downwards(self, n: int) -> None:
        """Lambda(n without child) and branch(child, n) for every child, by sums from both ends."""
        children = self.tree.children[n]
        nothing = np.zeros_like(self.costs[n])
        after = [nothing]
        for child in reversed(children[1:]):
            after.append(after[-1] + self._to_child[child])
        before = self._to_parent.get(n, nothing)
        for child in children:
            self._above[child] = self._variation(n, [before + after.pop()])
            before = before + self._to_child[child]
            self._to_parent[child] = self._branch(child, n)

    def _branches(self, n: int) -> list[Floats]:
        branches = [self._to_child[child] for child in self.tree.children[n]]
        return [*branches, self._to_parent[n]] if n in self._to_parent else branches

    def _variation(self, n: int, branches: Sequence[Floats]) -> Floats:
        """The cost of n and the sum of branches, for one pair of values throughout."""
        total = self._sum(n, branches)
        return closure(total) if self.pairwise and len(total) > 2 else total

    def _sum(self, n: int, branches: Sequence[Floats]) -> Floats:
        total = self.costs[n]
        for branch in branches:
            total = total + branch
        return total * (1 + (len(branches) + 1) * EPS)

    def _branch(self, n: int, j: int) -> Floats:
        """branch(n, j): the best of a few paths, for each pair of values of n."""
        tree = self.tree
        first = tree.way(n, j)
        assert first is not None
        beyond = self.variation(j, n)
        best = self._scalar(first.step, float(beyond.max()), len(self.costs[n]))
        if self.pairwise and first.pairs is not None and float(beyond.max()) <= LARGEST:
            best = np.minimum(best, self._pairs(first.pairs, beyond))
        if tree.most_paths == 1:
            return best
        # Paths by what is spent on them: (spent, last but one, last).
        heap = [(0.0, n, j)]
        tried = 1
        worst = float(best.max())
        while heap and heap[0][0] < worst and tried < tree.most_paths:
            spent, before, last = heapq.heappop(heap)
            if before != n:
                tried += 1
                step = tree.longer(n, before, last).step
                far = float(self.variation(last, before).max())
                best = np.minimum(best, spent + self._scalar(step, far, len(best)))
                np.fill_diagonal(best, 0.0)
                worst = float(best.max())
            for following, cost in self._onwards(before, last):
                if spent + cost < worst:
                    heapq.heappush(heap, (spent + cost, last, following))
        return best

    def _onwards(self, before: int, v: int) -> Iterable[tuple[int, float]]:
        """The continuations of a path through v, and mu(v) for each."""
        tree = self.tree
        around = [*tree.children[v], tree.parent[v]] if tree.parent[v] >= 0 else tree.children[v]
        if len(around) > _MOST_DEGREE:
            return
        for following in around:
            if following != before:
                aside = [self._of(v, k) for k in around if k not in (before, following)]
                yield following, float(self._sum(v, aside).max())

    def _of(self, n: int, j: int) -> Floats:
        return self._to_child[j] if self.tree.parent[j] == n else self._to_parent[n]

    def _scalar(self, step: Step, variation: float, size: int) -> Floats:
        """The step from one number, for all pairs of values."""
        key = id(step), variation
        if key not in self._known:
            pairs = step.pairs(variation)
            if pairs is None or not isinstance(step, KernelStep):
                pairs = step.largest(variation) * off_diagonal(size)
            self._known[key] = pairs
        return self._known[key]

    def _pairs(self, steps: PairSteps, variation: Floats) -> Floats:
        """The step from a matrix, for all pairs of values."""
        key = id(steps), variation.tobytes()
        if key not in self._solved:
            self._solved[key] = steps(variation)
        return self._solved[key]
