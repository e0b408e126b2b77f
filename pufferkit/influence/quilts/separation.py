"""Markov quilts of a Bayesian network.

A quilt of X_i is a set X_Q without X_i. X_R is everything that X_Q d-separates from X_i, and X_N
("nearby") the rest, X_i included ([Q] Definition 4.2). Q = {} is a quilt too: X_N is then all that
X_i depends on.

Which quilts are considered depends only on the graph, never on epsilon, so that releases compose by
[Q] Theorem 4.4. Redundant ones are left out: if X_q with q in Q is d-separated from X_i by Q - {q},
then Q - {q} is at least as good as Q. For influence never grows when variables are left out, and
Q - {q} still separates X_R from X_i, together with X_q (contraction of independences).
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator
from typing import NamedTuple

from pufferkit.beliefs.graph import Graph, bits

EXHAUSTIVE = 12
"""Parts of a network with up to this many nodes are searched over all quilts."""

MOST_BORDER = 8
MOST_SETS = 1024

_WIDTH = 3
_WIDEST = 64  # a border shrinks by one node at a time, so it is hopeless beyond this

QuiltMasks = tuple[int, int]
"""X_Q and X_N, as bits."""


class Cut(NamedTuple):
    """A quilt that is the border of a connected set around a node.

    ``inside`` is that set, in the moral graph of the ancestral set ``within``. Its border separates
    it from the rest; ``quilt`` is the border without redundant nodes, ``near`` is X_N.
    """

    quilt: int
    near: int
    within: int
    inside: int


def quilts(
    graph: Graph, node: int, family: Collection[QuiltMasks] | None = None
) -> list[QuiltMasks]:
    """The quilts considered for a node, always including Q = {}, smallest X_N first.

    All of them, without the redundant ones, if the node is connected to at most `EXHAUSTIVE` nodes,
    itself included. In larger networks those of the `CutFamily` around the node, which may be
    given if they are known.
    """
    part = graph.component(node)
    if part.bit_count() <= EXHAUSTIVE:
        masks = all_quilts(graph, node, part)
    else:
        masks = set(family or ((cut.quilt, cut.near) for cut in CutFamily(graph, node)))
    return sorted(masks, key=lambda quilt: (quilt[1].bit_count(), quilt[0].bit_count(), quilt))


def all_quilts(graph: Graph, node: int, part: int) -> set[QuiltMasks]:
    """Every quilt within a part of the network, without the redundant ones."""
    subsets = [0]
    for j in bits(part & ~(1 << node)):
        subsets += [mask | 1 << j for mask in subsets]
    masks = set()
    for mask in subsets:
        near, working = graph.connected(node, mask)
        if working == mask:
            masks.add((mask, near))
    return masks


class CutFamily:
    """Cuts around a node, one after another: a search may stop before all of them are made.

    First Q = {}. Then, in the moral graph of the whole network and in that of the node's ancestors,

    - the spheres: all nodes at distance r, for every r;
    - borders of at most `MOST_BORDER` nodes: connected sets around the node are grown one node at a
      time, least (size + 3 times the border) first, up to `MOST_SETS` of them, and their borders
      taken; sets with borders of more than 64 nodes are not grown further.

    X_R of each cut is then determined by d-separation, and redundant nodes of the cut are dropped.

    Attributes
    ----------
    grown
        For each ancestral set, {connected set: the node it grew by}.
    """

    def __init__(self, graph: Graph, node: int) -> None:
        self.graph, self.node = graph, node
        self.part = graph.component(node)
        own = (self.part, graph.ancestors[node])
        self.grown: dict[int, dict[int, int]] = {within: {} for within in own}

    def __iter__(self) -> Iterator[Cut]:
        graph, node = self.graph, self.node
        yield Cut(0, graph.connected(node, 0)[0], self.part, self.part)
        for within, grown in self.grown.items():
            # If no unrelated parents collide, cuts in the moral graph are exact.
            whole = within == self.part
            adjacent, plain = graph.married(within) if whole else (graph.moral(within), False)
            done: set[int] = set()
            for inside, cut in _surroundings(adjacent, node, grown):
                if cut in done:
                    continue
                done.add(cut)
                near, working = (inside, cut) if plain else graph.connected(node, cut)
                yield Cut(working, near, within, inside)


def _surroundings(
    adjacent: list[int], node: int, grown: dict[int, int]
) -> Iterator[tuple[int, int]]:
    """Connected sets around a node, with their borders.

    First balls, then sets grown from the node, small ones with small borders first. ``grown``
    records the node by which each set was grown.
    """
    ball, sphere = 1 << node, adjacent[node]
    while sphere:
        yield ball, sphere
        beyond = 0
        for j in bits(sphere):
            ball |= 1 << j
            grown[ball] = j
            beyond |= adjacent[j]
        sphere = beyond & ~ball
    heap = [(0, 1 << node, adjacent[node])]
    seen = {1 << node}
    while heap:
        _, inside, border = heapq.heappop(heap)
        if border.bit_count() <= MOST_BORDER:
            yield inside, border
        for j in bits(border):
            if len(seen) >= MOST_SETS:
                break
            larger = inside | 1 << j
            if larger not in seen:
                seen.add(larger)
                grown[larger] = j
                rim = (border | adjacent[j]) & ~larger
                if (width := rim.bit_count()) <= _WIDEST:
                    heapq.heappush(heap, (larger.bit_count() + _WIDTH * width, larger, rim))
