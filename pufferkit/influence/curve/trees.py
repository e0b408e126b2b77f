"""The influence curve on tree-shaped networks: every node has at most one parent.

Let b_n be the entry privacy spent on node n. For neighbours i and n the kernel is
K_{i,n}(x, y) = P(X_n = y | X_i = x), in either direction of the arrow. Write "n without i" for the
part of the tree that hangs on n when the edge to i is cut. With the steps of
`pufferkit.influence.curve.steps`, and y, y' over values that X_n can take,

    branch_{y,y'}(n, j)  = step_{y,y'}(K_{n,j}, lambda(j without n))
    lambda(n without i)  = b_n + max over y != y' of the sum over neighbours j != i of
                           branch_{y,y'}(n, j)
    loss_i               = b_i + max over x != x' of the sum over all neighbours n of
                           branch_{x,x'}(i, n)

and lambda = loss = 0 for a node with only one possible value. A release with entry privacy b is
epsilon-Pufferfish private for epsilon = max over i of loss_i.

*Proof.* Let f(data) be the likelihood of an output. Fix the data z outside "n without i", and let
H_z(y) be the mean of f over the rest of "n without i" given X_n = y. Claim: log H_z varies by at
most lambda(n without i), for every z. Going from y to y', first exchange the entry of n itself (at
most b_n). Given X_n, the parts that hang on its other neighbours j are independent, so their
distributions are exchanged one after the other, all for the same pair y, y'. With everything
outside "j without n" fixed, the logarithm of the mean of f given X_j = u varies with u by at most
lambda(j without n), by induction; so exchanging the distribution of X_j given y for the one given
y' costs at most step_{y,y'}(K_{n,j}, lambda(j without n)). The same around i, with nothing outside,
gives loss_i.

*Blocks.* A branch may also skip over a path n, v_1 = j, ..., v_m of the tree:

    branch_{y,y'}(n, j) <= mu(v_1) + ... + mu(v_{m-1}) + step_{y,y'}(K_{n,v_m}, lambda(v_m without
                           v_{m-1}))
    mu(v) = b_v + max over c != c' of the sum of branch_{c,c'}(v, k) over the neighbours k of v that
            are off the path (0 if v has one possible value)

*Proof.* Fix all data outside the branch. Let F(u; c) be the mean of f given X_{v_m} = u and the
entries c of v_1 ... v_{m-1}; parts off the path depend on c alone, the part beyond v_m on u alone.
For one u, exchanging c for c' entry by entry, each with the parts that hang on it, costs at most
the sum of the mu. For one c, log F varies by at most lambda(v_m without v_{m-1}) in u, and then so
does log G, where G(u) is the smallest F(u; c). The mean of f given y is at most e^(sum of mu) times
the mean of G(X_{v_m}) given y, and given y' it is at least the mean of G(X_{v_m}) given y'.

Each pair y, y' may use the path that is best for it, because the bound is for that pair. On a path
this is the curve of a chain, with at most its value. In docs/theory.md the largest pair is taken in
each branch of lambda apart; the sum for one pair is never larger.

Two passes over the tree, towards the roots and back, give every loss.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from functools import singledispatch
from math import inf
from typing import Any, NamedTuple

import numpy as np

from pufferkit import checks
from pufferkit.beliefs.base import Beliefs
from pufferkit.beliefs.network_checks import Node
from pufferkit.beliefs.network_class import NetworkClass, as_network_class
from pufferkit.checks import Floats
from pufferkit.influence.curve.steps import KernelStep, Step
from pufferkit.influence.curve.tree_steps import TreeKernels
from pufferkit.rounding import EPS, last_passing, round_up

Spent = float | Mapping[Node, float] | Sequence[float]
"""Entry privacy: one number, one for each node, or a list in the order of the nodes."""

_PRECISION = 1e-8
_MOST_DEGREE = 8


class TreeLoss(NamedTuple):
    """The largest loss, the node that has it, and the network of the class."""

    value: float
    node: Node
    network: int


def tree_loss(networks: Any, b: Spent) -> tuple[float, Node]:
    """The Pufferfish loss of a tree whose nodes have entry privacy ``b``, and the node it is at.

    Parameters
    ----------
    networks
        A tree-shaped `BayesianNetwork`, or several with the same graph.
    b
        One number for all nodes, {node: b}, or a list in the order of ``nodes``.

    Raises
    ------
    NotApplicable
        If some node has two parents.

    Examples
    --------
    >>> from pufferkit.beliefs.bayesian_network import BayesianNetwork
    >>> step = {(0,): [0.9, 0.1], (1,): [0.4, 0.6]}
    >>> pair = BayesianNetwork({1: (), 2: (1,)}, {1: {(): [0.8, 0.2]}, 2: step})
    >>> round(tree_loss(pair, 1.0)[0], 4)
    1.5499
    """
    found = TreeCurve(networks).loss(b)
    return found.value, found.node


def tree_entry_privacy(networks: Any, epsilon: float) -> float:
    """The largest entry privacy found whose loss on the tree is at most ``epsilon``.

    The search ends on the private side: for what is returned, the loss was computed and is at most
    epsilon.
    """
    return TreeCurve(networks).solve(epsilon)[0]


@singledispatch
def record_loss(theta: Beliefs, b: float) -> float:
    """Pufferfish epsilon when every one of the named entries has event-level epsilon ``b``.

    Changing everything that hangs together with an entry costs no more than all of it spends.
    """
    return round_up(b * len(theta.entries or ()))


@record_loss.register
def _(theta: NetworkClass, b: float) -> float:
    # Parts without an edge between them are independent.
    first = theta.networks[0]
    whole = round_up(b * max(len(part) for part in first.components))
    return min(whole, TreeCurve(theta).loss(b).value) if first.is_tree else whole


class TreeCurve:
    """Entry privacy b against Pufferfish epsilon, for a class of tree-shaped networks."""

    def __init__(self, networks: Any) -> None:
        self.beliefs = as_network_class(networks)
        self._trees = [TreeKernels(network) for network in self.beliefs.networks]

    def loss(self, b: Spent) -> TreeLoss:
        """The largest loss over networks and nodes."""
        spent = _profile(self.beliefs.nodes, b)
        found = [self._largest(number, spent) for number in range(len(self._trees))]
        return max(found, key=lambda loss: loss.value)

    def losses(self, b: Spent) -> dict[Node, float]:
        """The loss of every node, the largest over the class."""
        spent = _profile(self.beliefs.nodes, b)
        tables = [
            dict(zip(tree.network.nodes, _Passes(tree, spent).losses().tolist(), strict=True))
            for tree in self._trees
        ]
        return {node: max(table[node] for table in tables) for node in self.beliefs.nodes}

    def solve(self, epsilon: float) -> tuple[float, TreeLoss]:
        """The largest b found, and what binds there.

        The hardest network is solved; the others are only checked at its b.
        """
        epsilon = checks.privacy(epsilon)
        b, binding = inf, TreeLoss(0.0, self.beliefs.nodes[0], 0)
        for number, tree in enumerate(self._trees):

            def margin(b: float, number: int = number) -> float:
                return epsilon - self._largest(number, dict.fromkeys(self.beliefs.nodes, b)).value

            # Nothing loses less than b, and losses are rounded up by a little.
            most = min(b, epsilon * (1 - (len(tree.network) + 32) * EPS))
            if margin(most) < 0:
                # With the whole tree paid for the loss is at most epsilon.
                floor = epsilon / len(tree.network) * (1 - 1e-9)
                low = high = most
                while low > floor:
                    high, low = low, max(floor, low / 4)
                    if margin(low) >= 0:
                        break
                most = last_passing(margin, low, high, _PRECISION)
            if most < b:
                b, binding = most, self._largest(number, dict.fromkeys(self.beliefs.nodes, most))
        return b, binding

    def _largest(self, number: int, spent: Mapping[Node, float]) -> TreeLoss:
        tree = self._trees[number]
        losses = _Passes(tree, spent).losses()
        worst = int(losses.argmax())
        return TreeLoss(float(losses[worst]), tree.network.nodes[worst], number)


class _Passes:
    """Branches and lambdas of a tree for one profile of entry privacy."""

    def __init__(self, tree: TreeKernels, spent: Mapping[Node, float]) -> None:
        self.tree = tree
        count = len(tree.parent)
        # A node with one possible value has nothing to exchange.
        self.b = [
            spent[node] if support.sum() > 1 else 0.0
            for node, support in zip(tree.network.nodes, tree.supports, strict=True)
        ]
        self.below: dict[int, float] = {}  # lambda(child without parent)
        self.above: dict[int, float] = {}  # lambda(parent without child), by child
        self.to_child: dict[int, Floats] = {}  # branch(parent, child), by child
        self.to_parent: dict[int, Floats] = {}  # branch(child, parent), by child
        self._known: dict[tuple[int, float], Floats] = {}
        for n in reversed(range(count)):
            if tree.parent[n] >= 0:
                self.below[n] = self._variation(n, [self.to_child[c] for c in tree.children[n]])
                self.to_child[n] = self._branch(tree.parent[n], n)
        for n in range(count):
            self._downwards(n)

    def losses(self) -> Floats:
        """The loss of every node, rounded up."""
        tree = self.tree
        found = np.array([self._variation(n, self._branches(n)) for n in range(len(tree.parent))])
        return found * (1 + (len(found) + 16) * EPS)

    def _downwards(self, n: int) -> None:
        """lambda(n without child) and branch(child, n) for every child, by sums from both ends."""
        children = self.tree.children[n]
        nothing = np.zeros((len(self.tree.supports[n]),) * 2)
        after = [nothing]
        for child in reversed(children[1:]):
            after.append(after[-1] + self.to_child[child])
        before = self.to_parent.get(n, nothing)
        for child in children:
            self.above[child] = self._variation(n, [before + after.pop()])
            before = before + self.to_child[child]
            self.to_parent[child] = self._branch(child, n)

    def _branches(self, n: int) -> list[Floats]:
        found = [self.to_child[child] for child in self.tree.children[n]]
        return [*found, self.to_parent[n]] if n in self.to_parent else found

    def _variation(self, n: int, branches: Sequence[Floats]) -> float:
        """b_n and the largest sum of branches for one pair of values."""
        if not branches:
            return self.b[n]
        total = branches[0]
        for branch in branches[1:]:
            total = total + branch
        return self.b[n] + float(total.max())

    def _branch(self, n: int, j: int) -> Floats:
        """branch(n, j): the best of a few paths, for each pair of values of n."""
        tree = self.tree
        first = tree.way(n, j)
        assert first is not None
        best = self._pairs(first.step, self._lambda(j, n), n)
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
                best = np.minimum(best, spent + self._pairs(step, self._lambda(last, before), n))
                np.fill_diagonal(best, np.where(tree.supports[n], 0.0, -inf))
                worst = float(best.max())
            for following, cost in self._onwards(before, last):
                if spent + cost < worst:
                    heapq.heappush(heap, (spent + cost, last, following))
        return best

    def _onwards(self, before: int, v: int) -> Iterable[tuple[int, float]]:
        """Where a path through v may go on, and mu(v) for that."""
        tree = self.tree
        around = [*tree.children[v], tree.parent[v]] if tree.parent[v] >= 0 else tree.children[v]
        if len(around) > _MOST_DEGREE:
            return
        for following in around:
            if following != before:
                aside = [self._of(v, k) for k in around if k not in (before, following)]
                yield following, self._variation(v, aside)

    def _of(self, n: int, j: int) -> Floats:
        return self.to_child[j] if self.tree.parent[j] == n else self.to_parent[n]

    def _lambda(self, n: int, without: int) -> float:
        return self.below[n] if self.tree.parent[n] == without else self.above[without]

    def _pairs(self, step: Step, variation: float, n: int) -> Floats:
        """The step for all pairs of values of n; minus infinity where one is impossible."""
        key = id(step), variation
        if key not in self._known:
            found = step.pairs(variation)
            if found is None or not isinstance(step, KernelStep):
                support = self.tree.supports[n]
                same = step.largest(variation)
                found = np.where(np.outer(support, support), same, -inf)
                np.fill_diagonal(found, np.where(support, 0.0, -inf))
            self._known[key] = found
        return self._known[key]


def _profile(nodes: tuple[Node, ...], b: Spent) -> dict[Node, float]:
    """Entry privacy of every node."""
    if isinstance(b, Mapping):
        known = set(nodes)
        for node in b:
            if node not in known:
                raise ValueError(f"b: names {node!r}, which is not a node")
        for node in nodes:
            if node not in b:
                raise ValueError(f"b: has no entry for node {node!r}; give every node its own")
        found = checks.numbers("b", [b[node] for node in nodes])
    else:
        found = checks.numbers("b", b)
        if found.ndim == 0:
            found = np.full(len(nodes), float(found))
        if found.shape != (len(nodes),):
            raise ValueError(f"b: has shape {found.shape}, but the network has {len(nodes)} nodes")
    if (found < 0).any():
        raise ValueError(f"b: entry privacy cannot be negative, got {found.min():g}")
    return dict(zip(nodes, found.tolist(), strict=True))
