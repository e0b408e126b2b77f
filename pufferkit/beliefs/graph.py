"""The directed graph of a network: ancestors, d-separation, moral graphs.

Glossary
--------
trail
    a path that ignores the direction of arrows.
collider
    a node of a trail with both arrows pointing at it.
blocked
    a trail is blocked by a set Q if one of its nodes that is not a collider lies in Q, or a
    collider has neither itself nor a descendant in Q.
d-separated
    X_j is d-separated from X_i by Q if Q blocks every trail between them. Then X_j and X_i are
    independent given X_Q, whatever the tables; and if each X_j of a set is, so is the set jointly.

Sets of nodes are bits of an integer here: a small network has thousands of sets to examine, and one
pass gives everything that a set separates from a node. (networkx answers for one pair of sets at a
time, a thousand times slower here; the tests compare the two.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from pufferkit.beliefs.network_checks import Node


class Graph:
    """A directed graph without cycles, as bit masks: node j is bit j.

    Parameters
    ----------
    parents
        {node: parents}, parents before children.
    """

    def __init__(self, parents: Mapping[Node, tuple[Node, ...]]) -> None:
        self.nodes = tuple(parents)
        self.place = {node: j for j, node in enumerate(self.nodes)}
        self.parents = [self.mask(parents[node]) for node in self.nodes]
        self.children = [0] * len(self.nodes)
        self.ancestors: list[int] = []  # each node included
        for j, own in enumerate(self.parents):
            above = 1 << j
            for p in bits(own):
                self.children[p] |= 1 << j
                above |= self.ancestors[p]
            self.ancestors.append(above)
        self._kin: list[int] = []  # children of the proper ancestors
        for own in self.parents:
            near = 0
            for p in bits(own):
                near |= self.children[p] | self._kin[p]
            self._kin.append(near)
        self._married: dict[int, tuple[list[int], bool]] = {}
        self._components: list[int] = []
        self._related: dict[int, int] = {}  # by the roots above a node

    def mask(self, nodes: Iterable[Node]) -> int:
        """A set of nodes as bits."""
        mask = 0
        for node in nodes:
            mask |= 1 << self.place[node]
        return mask

    def names(self, mask: int) -> tuple[Node, ...]:
        """Bits as nodes, in topological order."""
        return tuple(self.nodes[j] for j in bits(mask))

    def above(self, mask: int) -> int:
        """These nodes and their ancestors."""
        above = 0
        while mask:
            j = mask.bit_length() - 1
            above |= self.ancestors[j]
            mask &= ~self.ancestors[j]
        return above

    def connected(self, node: int, given: int) -> tuple[int, int]:
        """The nodes not d-separated from ``node`` by ``given``, and the given nodes that matter.

        A walk along open trails (the "Bayes ball"): a node is entered from a child (going up) or
        from a parent (going down). Going up it passes on to all neighbours, unless it is given.
        Going down it passes on to its children, unless it is given, and as a collider to its
        parents, if it or a descendant is given.

        Returns
        -------
        tuple of int
            The nodes reached, ``node`` included, and the given nodes reached. The walk is the same
            if only these are given: a given node q is reached exactly if it is not d-separated from
            ``node`` by the other given nodes. (An open trail to q stays open without q: a collider
            on it that only q opens is an ancestor of q, and the trail may as well go down to q from
            there.)
        """
        if not given:
            return self._relatives(node), 0
        opened = self.above(given)
        parents, children = self.parents, self.children
        up = todo_up = 1 << node
        down = todo_down = 0
        while todo_up or todo_down:
            if todo_up:
                bit = todo_up & -todo_up
                todo_up ^= bit
                passes_up = passes_down = not bit & given
            else:
                bit = todo_down & -todo_down
                todo_down ^= bit
                passes_up, passes_down = bool(bit & opened), not bit & given
            j = bit.bit_length() - 1
            if passes_up:
                fresh = parents[j] & ~up
                up |= fresh
                todo_up |= fresh
            if passes_down:
                fresh = children[j] & ~down
                down |= fresh
                todo_down |= fresh
        return (up | down) & ~given, (up | down) & given

    def _relatives(self, node: int) -> int:
        """All descendants of its ancestors; nodes below the same roots have the same ones."""
        roots = 0
        for j in bits(self.ancestors[node]):
            roots |= 0 if self.parents[j] else 1 << j
        if roots not in self._related:
            below = roots
            for j, own in enumerate(self.parents):  # parents come first
                below |= 1 << j if own & below else 0
            self._related[roots] = below
        return self._related[roots]

    def component(self, node: int) -> int:
        """All nodes connected to this one by a trail."""
        known = next((own for own in self._components if own >> node & 1), 0)
        if known:
            return known
        reached = todo = 1 << node
        while todo:
            bit = todo & -todo
            j = bit.bit_length() - 1
            todo = (todo ^ bit) | ((self.parents[j] | self.children[j]) & ~reached)
            reached |= todo
        self._components.append(reached)
        return reached

    def moral(self, within: int) -> list[int]:
        """Neighbours in the moral graph of an ancestral set: parents of a child are married.

        Separation in it implies d-separation. If all parents of each child were neighbours before,
        the two are the same.
        """
        near = [0] * len(self.nodes)
        for j in bits(within):
            family = self.parents[j] | 1 << j
            for member in bits(family):
                near[member] |= family & ~(1 << member)
        return near

    def married(self, part: int) -> tuple[list[int], bool]:
        """The moral graph of a `component`, and whether it adds no edges to the network."""
        if part not in self._married:
            near = self.moral(part)
            arrows = zip(self.parents, self.children, strict=True)
            plain = all(near[j] in (0, above | below) for j, (above, below) in enumerate(arrows))
            self._married[part] = near, plain
        return self._married[part]

    def gates(self, chosen: int) -> int:
        """Nodes that separate their ancestors from ``chosen`` and from its other ancestors.

        The distribution of the chosen nodes then needs the marginal distribution of a gate, but no
        table above it.
        """
        whole = self.above(chosen)
        rest, gates = whole & ~chosen, 0
        while rest:
            j = rest.bit_length() - 1
            rest ^= 1 << j
            higher = self.ancestors[j] & ~(1 << j)
            if not higher & chosen and not self._kin[j] & whole & ~self.ancestors[j]:
                gates |= 1 << j
                rest &= ~higher
        return gates


def bits(mask: int) -> Iterator[int]:
    """Indices of the one bits, lowest first."""
    while mask:
        bit = mask & -mask
        yield bit.bit_length() - 1
        mask ^= bit
