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
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pufferkit.checks import Bools, Floats

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
    found = _trees((kernel > 0).tobytes(), len(kernel), trees.tobytes(), half)
    values = np.full(len(found.x), np.inf)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for at in found.stay:
            p, q = kernel[found.x[at]], kernel[found.other[at]]
            values[at] = np.log((p[p > 0] / q[p > 0]).max()) + _ROUNDING
        if found.pairs and float(variation.max()) <= LARGEST:
            values[found.solved] = found.values(kernel, variation)
    table = np.zeros((len(kernel), len(kernel)))
    values = np.where(values >= 0, values, np.where(np.isnan(values), np.inf, 0.0))
    table[found.x, found.other] = values
    return table


@lru_cache(maxsize=2)  # consecutive entries mostly have the same trees
def _trees(support: bytes, size: int, trees: bytes, half: int) -> _Trees:
    possible = np.frombuffer(support, dtype=np.bool_).reshape(size, -1)
    return _Trees(possible, np.frombuffer(trees, dtype=np.uint8), half)


class _Trees:
    """The trees of many pairs of rows: sources first, then targets, each padded to the same number.

    Nodes of all pairs are numbered one after another; ``nodes`` lists those that are there, by
    their distance from the root, and ``levels`` says where each distance begins.
    """

    def __init__(self, possible: Bools, trees: NDArray[np.uint8], half: int) -> None:
        size, counts = len(possible), possible.sum(axis=1)
        x, other = np.nonzero(~np.eye(size, dtype=bool))
        begin = np.concatenate([[0], np.cumsum(counts[x] + counts[other] - 1)])[:-1]
        kept = (x < half) & (other >= half) if half else np.ones(len(x), dtype=bool)
        self.x, self.other, begin = x[kept], other[kept], begin[kept]
        first = trees[begin]
        self.stay = np.flatnonzero(first == STAY)
        self.solved = np.flatnonzero((first != STAY) & (first != NONE))
        self.pairs, self.most = len(self.solved), int(counts.max())
        if self.pairs:
            self._read(possible, counts, begin[self.solved], trees)

    def _read(
        self, possible: Bools, counts: NDArray[np.intp], begin: NDArray[np.intp], trees: Any
    ) -> None:
        x, other, most = self.x[self.solved], self.other[self.solved], self.most
        # The states of every row, padded with its first one.
        self.states = np.argsort(~possible, axis=1, kind="stable")[:, :most]
        sources, targets = counts[x][:, None], counts[other][:, None]
        node = np.arange(2 * most)
        is_source = node < most
        self.there = np.where(is_source, node < sources, node - most < targets)
        place = np.where(is_source, node - 1, sources - 1 + node - most)
        place = np.clip(begin[:, None] + place, 0, len(trees) - 1)
        named = trees[place].astype(np.intp)
        if np.any(self.there & (node > 0) & (named >= np.where(is_source, targets, sources))):
            raise ValueError("a plan names a state that is not there")
        offset = 2 * most * np.arange(len(x))[:, None]
        parent = offset + np.where(is_source, most + named, named)
        parent[:, 0] = offset[:, 0]
        self.parent = np.where(self.there, parent, offset).ravel()
        label = np.hstack([self.states[x], self.states[other]]).ravel()
        self.is_source = np.broadcast_to(is_source, self.there.shape).ravel()
        mine, theirs = label, label[self.parent]
        self.arcs = np.where(self.is_source, mine, theirs), np.where(self.is_source, theirs, mine)
        self._order(self.there.ravel())

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

    def values(self, kernel: Floats, variation: Floats) -> Floats:
        """Logarithms of the largest loads, rounded up."""
        masses = np.take_along_axis(kernel, self.states, axis=1)
        weights = np.hstack([masses[self.x[self.solved]], masses[self.other[self.solved]]])
        weights[~self.there] = 0.0
        arc = variation[self.arcs]
        levels, parent = self._downward(), self.parent
        potential = np.zeros(len(parent))
        for nodes in levels:
            rise = np.where(self.is_source[nodes], arc[nodes], -arc[nodes])
            potential[nodes] = potential[parent[nodes]] + rise
        net = self._masses(weights, potential)
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
        return self._loads(weights.ravel(), arc, np.concatenate(levels), behind)

    def _masses(self, weights: Floats, potential: Floats) -> Floats:
        """Tilted masses of sources, and minus those of targets, each scaled to sum to one."""
        shape = (self.pairs, 2, self.most)
        logs = np.where(weights.reshape(shape) > 0, potential.reshape(shape), -np.inf)
        tilted = weights.reshape(shape) * np.exp(logs - logs.max(axis=2, keepdims=True))
        tilted /= tilted.sum(axis=2, keepdims=True)
        return np.asarray(tilted * np.array([1.0, -1.0])[None, :, None]).ravel()

    def _loads(
        self, weights: Floats, arc: Floats, nodes: NDArray[np.intp], behind: Floats
    ) -> Floats:
        """The value of the plan on the trees, whose arcs lead from ``nodes`` to their parents."""
        out, parent = self.is_source[nodes], self.parent[nodes]
        source, target = np.where(out, nodes, parent), np.where(out, parent, nodes)
        flow = np.maximum(np.where(out, behind[nodes], -behind[nodes]), 0.0)
        total = np.bincount(source, flow, len(behind))[source]
        arcs = np.bincount(source, minlength=len(behind))[source]
        # If the mass of a source is below a rounding error, any targets will do.
        share = np.divide(flow, total, out=1.0 / arcs, where=total > 0)
        loads = np.bincount(target, weights[source] * share * np.exp(arc[nodes]), len(behind))
        known = weights > 0
        ratio = np.where(known, loads, 0.0) / np.where(known, weights, 1.0)
        largest = ratio.reshape(self.pairs, 2, self.most)[:, 1].max(axis=1)
        return np.asarray(np.log(largest) + 2 * _ROUNDING * self.most)
