"""Kernels and steps along the edges of a tree-shaped network, in both directions.

Down the arrow the kernel is the table of the child. Up the arrow it is turned around by the
distributions of the two nodes, P(X_parent = u | X_child = x) = P(u) P(x | u) / P(x). Only
non-negative numbers are multiplied and added, so entries carry a small relative error, which the
steps add on the safe side. If the probability of a possible value underflows, the reversed kernel
is unknown, and the step up that edge does not contract.

Rows and columns are the values that a node can take; impossible ones are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, inf, log2
from typing import Any

import numpy as np

from pufferkit.beliefs.bayesian_network import BayesianNetwork
from pufferkit.beliefs.powers import TINY, Kernel
from pufferkit.checks import Bools, Floats
from pufferkit.errors import NotApplicable
from pufferkit.influence.curve.pairs import PairSteps
from pufferkit.influence.curve.steps import KernelStep, RatioStep, Step, candidates_kept
from pufferkit.rounding import EPS

MOST_GIGABYTES = 8.0
"""Trees whose step tables need more memory are refused."""

MOST_PATHS = 48
"""Most paths that a branch tries; fewer in large trees."""

MOST_PAIR_WORK = 2e7
"""Trees with more arcs in the programmes of one pass use the scalar curve only."""

_COMPILE = 5_000
_FINEST = 1e-14
_WORK = 8000


@dataclass(frozen=True, eq=False)
class EdgeSteps:
    """From one node to another along the tree: the kernel, its relative error, and its steps.

    ``pairs`` gives the step from a variation for each pair of values; ``None`` where the kernel is
    not known or the tree is too large.
    """

    kernel: Floats
    error: float
    step: Step
    pairs: PairSteps | None = None


class TreeKernels:
    """The distributions of the nodes of a tree-shaped network, and the steps along its edges.

    Nodes are numbered parents first. An edge is named by its child: ``down`` leads to the child,
    ``up`` to the parent.
    """

    def __init__(self, network: BayesianNetwork) -> None:
        for node, own in network.parents.items():
            if len(own) > 1:
                raise NotApplicable(
                    f"node {node!r} has {len(own)} parents, and the influence curve is proved for "
                    "networks in which every node has at most one; use markov_quilt"
                )
        self.network = network
        place = network.graph.place
        self.parent = [place[own[0]] if own else -1 for own in network.parents.values()]
        self.children: list[list[int]] = [[] for _ in self.parent]
        for child, parent in enumerate(self.parent):
            if parent >= 0:
                self.children[parent].append(child)
        self._distributions()
        self._steps: dict[tuple[Any, ...], EdgeSteps] = {}
        self._check_memory()
        sizes = [int(support.sum()) for support in self.supports]
        edges = [(sizes[n], sizes[p]) for n, p in enumerate(self.parent) if p >= 0]
        self._pair_work = sum(2 * (one * other) ** 2 for one, other in edges)
        self.down: dict[int, EdgeSteps] = {}
        self.up: dict[int, EdgeSteps] = {}
        for child, parent in enumerate(self.parent):
            if parent >= 0:
                self.down[child] = self._way(*self._downward(child), pairs=True)
                self.up[child] = self._way(*self._upward(child), pairs=True)
        most = max(sizes, default=1)
        self.most_paths = max(1, min(MOST_PATHS, _WORK // len(self.parent), 10**6 // most**3))
        self._longer: dict[tuple[int, int], EdgeSteps] = {}

    def _distributions(self) -> None:
        """The distribution of every node, its possible values, and the relative error."""
        self.distributions: list[Floats] = []
        self.supports: list[Bools] = []
        self.errors: list[float] = []
        for j, parent in enumerate(self.parent):
            table = self.network.arrays[self.network.nodes[j]]
            if parent < 0:
                distribution, support, error = table, table > 0, 0.0
            else:
                distribution = self.distributions[parent] @ table
                support = np.asarray((table[self.supports[parent]] > 0).any(axis=0), dtype=bool)
                error = self.errors[parent] + (len(table) + 1) * EPS
            self.distributions.append(distribution)
            self.supports.append(support)
            self.errors.append(error)

    def _table(self, child: int) -> Floats:
        """The table of a child, for the values that it and its parent can take."""
        table = self.network.arrays[self.network.nodes[child]]
        return np.asarray(table[np.ix_(self.supports[self.parent[child]], self.supports[child])])

    def _downward(self, child: int) -> tuple[Floats, float]:
        table = self._table(child)
        return table, table.shape[1] * EPS

    def _upward(self, child: int) -> tuple[Floats, float]:
        """P(X_parent = u | X_child = x); an infinite error after an underflow."""
        parent = self.parent[child]
        table = self._table(child)
        joint = (self.distributions[parent][self.supports[parent], None] * table).T
        lost = any((self.distributions[j][self.supports[j]] < TINY).any() for j in (parent, child))
        lost = lost or bool((joint[table.T > 0] < TINY).any())
        sums = joint.sum(axis=1, keepdims=True)
        kernel = np.divide(joint, sums, out=np.zeros_like(joint), where=sums > 0)
        return kernel, inf if lost else 2 * self.errors[parent] + (len(table) + 4) * EPS

    def _way(self, kernel: Floats, error: float, pairs: bool = False) -> EdgeSteps:
        if error == inf:
            return EdgeSteps(kernel, error, RatioStep(inf, len(kernel)))
        # Errors are rounded up coarsely, so that equal kernels share one step.
        coarse = _FINEST * 2.0 ** max(0, ceil(log2(max(error, _FINEST) / _FINEST)))
        key = kernel.shape, kernel.tobytes(), coarse, pairs
        if key not in self._steps:
            every = np.ones((len(kernel),) * 2, dtype=bool)
            own = None
            if pairs and self._pair_work <= MOST_PAIR_WORK:
                own = PairSteps([kernel], 2 * coarse, often=self._pair_work > _COMPILE)
            step = KernelStep(Kernel(kernel, kernel > 0), every, coarse)
            self._steps[key] = EdgeSteps(kernel, coarse, step, own)
        return self._steps[key]

    def _check_memory(self) -> None:
        """Refuse before anything large is built. Equal kernels are counted once."""
        entries: dict[tuple[Any, ...], int] = {}
        for child, parent in enumerate(self.parent):
            if parent >= 0:
                for kernel, _ in (self._downward(child), self._upward(child)):
                    size, columns = kernel.shape
                    key = kernel.shape, hash(kernel.tobytes())
                    entries[key] = candidates_kept(size, columns)
        needed = 2 * 8 * sum(entries.values()) / 1e9
        if needed > MOST_GIGABYTES:
            raise NotApplicable(
                f"the steps of this tree need about {needed:,.0f} GB of memory; merge values of "
                "nodes, or cut the tree into parts"
            )

    def longer(self, start: int, before: int, end: int) -> EdgeSteps:
        """The way from ``start`` to ``end``, whose previous node is ``before``."""
        if (start, end) not in self._longer:
            first = self.way(start, before) or self._longer[start, before]
            last = self.way(before, end)
            assert last is not None
            error = first.error + last.error + (len(last.kernel) + 1) * EPS
            self._longer[start, end] = self._way(first.kernel @ last.kernel, error)
        return self._longer[start, end]

    def way(self, start: int, end: int) -> EdgeSteps | None:
        """The way between neighbours; ``None`` for others."""
        if self.parent[end] == start:
            return self.down[end]
        return self.up[start] if self.parent[start] == end else None
