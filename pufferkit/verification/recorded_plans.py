"""Values of recorded transport plans: every plan is an upper bound on a step, none is solved for.

    step(p, q; B)  =  log min over plans of max over z of  sum_y x_yz e^B(y,z) / q_z,

x_yz >= 0 with row sums p. A record has, for every programme, the spanning tree that supports its
plan: the neighbour of every node on the path to the first source, one byte each. The variation B on
the arcs of the tree gives the potentials alpha_y = B(y, z) + beta_z, these give the masses p_y
e^alpha_y and q_z e^beta_z, each scaled to sum to one, and the flow on an arc is the excess mass of
the part of the tree behind it. The result is made into a plan: negative flows are set to zero, rows
are scaled to sum to p. Its value is a sum of positive numbers, rounded up. So a false tree can only
fail to show that a scale is enough.

All pairs of rows of a kernel are evaluated at once, level by level of their trees.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pufferkit.checks import Floats

STAY, NONE = 255, 254
"""All mass stays in place; there is no plan."""

LARGEST = 600.0
"""Variations up to this have an exponential that is far from the largest float."""

_ROUNDING = 1e-13
_MOST_BYTES = 100_000_000


class Plans:
    """The trees of a text, one kernel after another; each as its difference from the one before."""

    def __init__(self, text: Any) -> None:
        try:
            reader = zlib.decompressobj()
            self._bytes = reader.decompress(base64.b64decode(text, validate=True), _MOST_BYTES)
        except (binascii.Error, zlib.error, ValueError, TypeError) as error:
            raise ValueError(f"plans cannot be read; {error}") from None
        if not reader.eof or reader.unused_data:
            raise ValueError("the list of plans has the wrong length")
        self._place, self._before = 0, np.zeros(0, dtype=np.uint8)

    def following(self, kernel: Floats) -> NDArray[np.uint8]:
        """The trees of the next kernel, for all ordered pairs of different rows."""
        counts = (kernel > 0).sum(axis=1)
        length = int((len(counts) - 1) * (2 * counts.sum() - len(counts)))
        trees = np.frombuffer(self._bytes, np.uint8)[self._place : self._place + length]
        if len(trees) < length:
            raise ValueError("plans are missing")
        self._place += length
        if len(self._before) == length:
            trees = trees ^ self._before
        self._before = trees
        if len(set(counts.tolist())) > 1:
            return trees
        # A target and a source in turns: targets of all pairs by the second row, sources by the
        # first.
        rows, sources = trees.reshape(2 * int(counts[0]) - 1, -1), int(counts[0]) - 1
        x, other = np.nonzero(~np.eye(len(counts), dtype=bool))
        pairs = np.empty(rows.T.shape, dtype=np.uint8)
        pairs[np.lexsort((x, other)), sources:], pairs[:, :sources] = rows[::2].T, rows[1::2].T
        return pairs.ravel()

    def end(self) -> None:
        """Refuse trees that were not used."""
        if self._place != len(self._bytes):
            raise ValueError("there are plans for more entries than the series has")


def plan_values(
    kernel: Floats, variation: Floats, trees: NDArray[np.uint8], half: int = 0
) -> Floats:
    """A bound on the step of every ordered pair of rows; infinite where no plan is recorded.

    With ``half`` only pairs from the first so many rows to the others count; others are zero.
    """
    size = len(kernel)
    counts = (kernel > 0).sum(axis=1)
    x, other = np.nonzero(~np.eye(size, dtype=bool))
    begin = np.concatenate([[0], np.cumsum(counts[x] + counts[other] - 1)])[:-1]
    kept = (x < half) & (other >= half) if half else np.ones(len(x), dtype=bool)
    x, other, begin = x[kept], other[kept], begin[kept]
    values = np.full(len(x), np.inf)
    first = trees[begin]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        stay = first == STAY
        for at in np.flatnonzero(stay):
            p, q = kernel[x[at]], kernel[other[at]]
            values[at] = np.log((p[p > 0] / q[p > 0]).max()) + _ROUNDING
        solved = np.flatnonzero(~stay & (first != NONE))
        if solved.size and float(variation.max()) <= LARGEST:
            values[solved] = _Trees(
                kernel, variation, x[solved], other[solved], begin[solved], trees
            ).values()
    table = np.zeros((size, size))
    table[x, other] = np.where(values >= 0, values, np.where(np.isnan(values), np.inf, 0.0))
    return table


class _Trees:
    """The trees of many pairs of rows: sources first, then targets, each padded to the same number.

    Nodes of all pairs are numbered one after another; ``nodes`` lists those that are there, by
    their distance from the root, and ``levels`` says where each distance begins.
    """

    def __init__(
        self,
        kernel: Floats,
        variation: Floats,
        x: NDArray[np.intp],
        other: NDArray[np.intp],
        begin: NDArray[np.intp],
        trees: NDArray[np.uint8],
    ) -> None:
        counts = (kernel > 0).sum(axis=1)
        most = int(counts.max())
        # The states of every row, padded with its first one.
        states = np.argsort(kernel <= 0, axis=1, kind="stable")[:, :most]
        masses = np.take_along_axis(kernel, states, axis=1)
        sources, targets = counts[x][:, None], counts[other][:, None]
        node = np.arange(2 * most)
        is_source = node < most
        there = np.where(is_source, node < sources, node - most < targets)
        place = np.where(is_source, node - 1, sources - 1 + node - most)
        place = np.clip(begin[:, None] + place, 0, len(trees) - 1)
        named = trees[place].astype(np.intp)
        if np.any(there & (node > 0) & (named >= np.where(is_source, targets, sources))):
            raise ValueError("a plan names a state that is not there")
        self.most, self.pairs = most, len(x)
        offset = 2 * most * np.arange(len(x))[:, None]
        parent = offset + np.where(is_source, most + named, named)
        parent[:, 0] = offset[:, 0]
        self.parent = np.where(there, parent, offset).ravel()
        self.weights = np.hstack([masses[x], masses[other]])
        self.weights[~there] = 0.0
        label = np.hstack([states[x], states[other]]).ravel()
        mine, theirs = label, label[self.parent]
        outward = np.broadcast_to(is_source, there.shape).ravel()
        self.is_source = outward
        self.arc = np.where(outward, variation[mine, theirs], variation[theirs, mine])
        self._order(there.ravel())

    def _order(self, there: NDArray[np.bool_]) -> None:
        """Nodes by their distance from the root; refuses what is no tree."""
        root = np.repeat(np.arange(self.pairs) * 2 * self.most, 2 * self.most)
        number = np.arange(len(root))
        depth = (number != root).astype(np.intp)
        ahead = self.parent
        for _ in range(int(2 * self.most).bit_length()):
            depth = depth + depth[ahead]
            ahead = ahead[ahead]
        if np.any((ahead != root) & there):
            raise ValueError("the basis of a plan is not a tree")
        nodes = number[there]
        nodes = nodes[np.argsort(depth[nodes], kind="stable")]
        self.nodes = nodes
        self.levels = np.searchsorted(depth[nodes], np.arange(1, depth[nodes].max() + 2))

    def _downward(self) -> list[NDArray[np.intp]]:
        """The nodes at distance 1, 2, ... from the root."""
        ends = self.levels.tolist()
        return [self.nodes[a:b] for a, b in pairwise(ends)]

    def values(self) -> Floats:
        """Logarithms of the largest loads, rounded up."""
        levels, parent = self._downward(), self.parent
        potential = np.zeros(len(parent))
        for nodes in levels:
            rise = np.where(self.is_source[nodes], self.arc[nodes], -self.arc[nodes])
            potential[nodes] = potential[parent[nodes]] + rise
        net = self._masses(potential)
        weight, behind, light = np.abs(net), net.copy(), np.zeros(len(net))
        for nodes in reversed(levels):
            np.add.at(weight, parent[nodes], weight[nodes])
            few = nodes[weight[nodes] <= 1]
            np.add.at(light, parent[few], behind[few])
            np.add.at(behind, parent[nodes], behind[nodes])
        # Behind more than half of all mass the net is that of the rest, which is more accurate.
        rest = np.zeros(len(net))
        for nodes in levels:
            heavy = nodes[weight[nodes] > 1]
            rest[heavy] = rest[parent[heavy]] + net[parent[heavy]] + light[parent[heavy]]
            behind[heavy] = -rest[heavy]
        return self._loads(np.concatenate(levels), behind)

    def _masses(self, potential: Floats) -> Floats:
        """Tilted masses of sources, and minus those of targets, each scaled to sum to one."""
        shape = (self.pairs, 2, self.most)
        logs = np.where(self.weights.reshape(shape) > 0, potential.reshape(shape), -np.inf)
        tilted = self.weights.reshape(shape) * np.exp(logs - logs.max(axis=2, keepdims=True))
        tilted /= tilted.sum(axis=2, keepdims=True)
        return np.asarray(tilted * np.array([1.0, -1.0])[None, :, None]).ravel()

    def _loads(self, nodes: NDArray[np.intp], behind: Floats) -> Floats:
        """The value of the plan on the trees, whose arcs lead from ``nodes`` to their parents."""
        out, parent = self.is_source[nodes], self.parent[nodes]
        source, target = np.where(out, nodes, parent), np.where(out, parent, nodes)
        flow = np.maximum(np.where(out, behind[nodes], -behind[nodes]), 0.0)
        total = np.bincount(source, flow, len(behind))[source]
        arcs = np.bincount(source, minlength=len(behind))[source]
        # If the mass of a source is below a rounding error, any targets will do.
        share = np.divide(flow, total, out=1.0 / arcs, where=total > 0)
        weights = self.weights.ravel()
        loads = np.bincount(target, weights[source] * share * np.exp(self.arc[nodes]), len(behind))
        known = weights > 0
        ratio = np.where(known, loads, 0.0) / np.where(known, weights, 1.0)
        largest = ratio.reshape(self.pairs, 2, self.most)[:, 1].max(axis=1)
        return np.asarray(np.log(largest) + 2 * _ROUNDING * self.most)
