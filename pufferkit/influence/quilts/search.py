"""The best quilt for one node, over all quilts of [Q] Lemma 4.6, without evaluating most of them.

A node has ``left`` entries on its left side and ``right`` on its right, the node counted in both. A
quilt keeps a nodes on the left and b on the right, again with the node in both, so its nearby set
has a + b - 1 nodes. An endpoint at distance a stands just outside. Keeping *all* of a side
(a = left) leaves no endpoint there and no influence from it, which is how one-sided quilts and the
trivial one fit the same picture:

    ===================  =======================  ================
    quilt                a, b                     nearby nodes
    ===================  =======================  ================
    {X_{i-a}, X_{i+b}}   a < left, b < right      a + b - 1
    {X_{i+b}}            a = left, b < right      i + b - 1
    {X_{i-a}}            a < left, b = right      T - i + a
    trivial              a = left, b = right      T
    ===================  =======================  ================

The influence is e(a, b) = max over pairs p of secrets of l_p(a) + r_p(b); l_p and r_p never grow as
their endpoint moves away (data processing). A quilt scores less than s exactly when

    a + s e(a, b) + b - 1 < s epsilon.

For any one pair p the left-hand side is at least [a + s l_p(a)] + [b + s r_p(b)] - 1, and the two
brackets can be minimised separately. So two searches on a line either show that a whole box of
quilts cannot beat s, or name the quilt to try next (Dinkelbach's step for ratios). A maximum over
pairs is also at least any weighted mean of two of them, so if different pairs bind on different
sides of a box, the weight that excludes most is computed by bisection. Boxes that this does not
exclude are split. The result is the exact optimum, or, of quilts that keep more than `_EXACT`
nodes, within `_NEAR` of it (mostly far closer: the cost is flat around its minimum, which is why
locating the exact node would take about sqrt(n) evaluations). Every score it reports was evaluated.

Entries that a release does not use, because they were not observed, are nearby nodes that cannot
move the answer: in the proof of [Q] Theorem 4.3 the nearby entries are exchanged at L each, and
exchanging such an entry costs nothing. So card(nearby) counts the observed entries only, for every
node, observed or not. This count never decreases as a side grows, and the search uses nothing else.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import inf, isqrt
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Pair = tuple[int, int]
Box = tuple[int, int, int, int]
"""Least and most kept on the left, then on the right."""

Until = NDArray[np.intp]
"""Number of observed entries of a segment up to each index; index 0 is before the first."""

Mix = Sequence[tuple[Pair, float]]
"""Pairs of secrets with weights above 0 that sum to 1."""

_WEIGHINGS = 12
"""Weights of two pairs tried on a box before it is split."""

_TIE = 1e-13
"""Scores closer than this, relatively, count as equal."""

_EXACT = 1 << 21
"""Sides of up to this many nodes are searched exactly, longer ones to 1 / `_FINE` of them."""

_FINE = 1 << 16
_NEAR = 4 / _FINE
"""Scores of quilts beyond `_EXACT` that are closer than this, relatively, count as equal."""


@dataclass(frozen=True)
class Quilt:
    """The best quilt of a node: its score, and how many nodes it keeps on either side."""

    score: float
    influence: float
    keep_left: int
    keep_right: int
    ends_left: bool
    ends_right: bool

    @property
    def ends(self) -> tuple[int, int]:
        """Distances of the endpoints; 0 for a side without one."""
        left = self.keep_left if self.ends_left else 0
        return left, self.keep_right if self.ends_right else 0


QuiltRuns = tuple[tuple[int, int, int], ...]
"""Quilts that serve consecutive nodes: how many, and the distances of the endpoints to the left and
right of each (0: none). An endpoint beyond the segment is dropped. Minus n is the entry X_n."""


def as_runs(quilts: Iterable[tuple[int, int]]) -> QuiltRuns:
    """QuiltRuns of the quilts of consecutive nodes."""
    return tuple((len(list(same)), *ends) for ends, same in groupby(quilts))


NOTHING = Quilt(-inf, 0.0, 0, 0, False, False)
"""Scores below every quilt: the start of a maximum over nodes."""


class Binding(NamedTuple):
    """The node that determines the noise of a segment, its best quilt, and quilts for all nodes.

    None of ``runs`` scores more than the largest of this score and what was asked to be enough.
    """

    node: int
    quilt: Quilt
    runs: QuiltRuns = ()


class Influence(Protocol):
    """Bounds on the max-influence of nodes of a chain on their endpoints."""

    @property
    def steady(self) -> bool:
        """Whether nodes differ in nothing but how many others lie on either side."""
        ...

    def stretches(self, length: int) -> list[tuple[int, int]]:
        """Stretches of a segment on which influence never grows; none if entries differ by more."""
        ...

    def between(self, node: int, left: int | None, right: int | None) -> tuple[float, Pair]:
        """Upper bound on e(a, b), and the worst pair of secrets; ``None`` for no endpoint."""
        ...

    def of_pair(self, side: int, node: int, steps: int, pair: Pair) -> float:
        """l_p(steps) for side 0, r_p(steps) for side 1."""
        ...

    def slack(self, side: int, node: int, steps: int) -> float:
        """The allowance of `between` for rounding; it never decreases as ``steps`` grow.

        Without it a search for influences as small as rounding errors would visit every quilt.
        """
        ...


def best_quilt(
    influence: Influence,
    node: int,
    length: int,
    epsilon: float,
    enough: float = 0.0,
    hint: Quilt | None = None,
    until: Until | None = None,
) -> Quilt:
    """The quilt with the least score ``nearby / (epsilon - influence)``.

    Theorem: [Q] Lemma 4.6, the three forms of quilts that a node of a chain needs.

    Parameters
    ----------
    influence
        Bounds on the influence of the node.
    node, length
        Its place in a segment of so many.
    enough
        Stop at the first quilt that scores no more than this.
    hint
        A quilt to try first: the best one of a similar node.
    until
        Which nearby nodes count, those that were observed; all of them if left out.
    """
    search = _BoxSearch(influence, node, length, epsilon, enough, until)
    left, right = search.left, search.right
    if hint is not None:
        search.attempt(min(hint.keep_left, left), min(hint.keep_right, right))
    else:
        # A first quilt by doubling, so that the time does not depend on the length of the series.
        for n in (1 << j for j in range(max(left, right).bit_length())):
            better, _ = search.attempt(min(n, left), min(n, right))
            if search.best.influence > 0 and not better:
                break
    boxes = [
        (1, left - 1, right, right),
        (left, left, 1, right - 1),
        (1, left - 1, 1, right - 1),
    ]
    while boxes and search.best.score > enough:
        a1, a2, b1, b2 = boxes.pop()
        # A quilt that keeps more than this scores more, whatever its influence.
        most = int(search.best.score * epsilon) + 1
        a2, b2 = min(a2, search.reach(most, 0)), min(b2, search.reach(most, 1))
        if a1 <= a2 and b1 <= b2:
            boxes.extend(search.parts((a1, a2, b1, b2)))
    return search.best


class _BoxSearch:
    """The best quilt of a node so far, and what can still beat it."""

    def __init__(
        self,
        influence: Influence,
        node: int,
        length: int,
        epsilon: float,
        enough: float,
        until: Until | None,
    ) -> None:
        self.influence, self.node, self.epsilon, self.enough = influence, node, epsilon, enough
        self.left, self.right, self.until = node, length - node + 1, until
        self.own = self.count(1, 0)
        score = self.card(self.left, self.right) / epsilon
        self.best = Quilt(score, 0.0, self.left, self.right, False, False)

    def count(self, n: int, side: int) -> int:
        """Nodes that count among n of a side, the node itself included."""
        if self.until is None:
            return n
        first, last = (
            (self.node - n, self.node) if side == 0 else (self.node - 1, self.node + n - 1)
        )
        return int(self.until[last] - self.until[first])

    def reach(self, most: int, side: int) -> int:
        """The most nodes of a side of which at most ``most`` count."""
        until = self.until
        if until is None:
            return most
        if side == 0:
            return self.node - int(np.searchsorted(until, until[self.node] - most))
        return int(np.searchsorted(until, until[self.node - 1] + most, side="right")) - self.node

    def card(self, a: int, b: int) -> int:
        """Nodes that count in the nearby set."""
        return self.count(a, 0) + self.count(b, 1) - self.own

    def attempt(self, a: int, b: int) -> tuple[bool, Pair]:
        """Evaluate a quilt: whether it is the best so far, and the pair that decides it."""
        ends = a if a < self.left else None, b if b < self.right else None
        value, pair = self.influence.between(self.node, *ends)
        score = self.card(a, b) / (self.epsilon - value) if value < self.epsilon else inf
        better = score < self.best.score * (1 - _TIE)
        if better:
            self.best = Quilt(score, value, a, b, a < self.left, b < self.right)
        return better, pair

    def parts(self, box: Box) -> list[Box]:
        """The parts of a box that may still contain a better quilt."""
        tried: set[Pair] = set()
        _, pair = self.attempt(box[1], box[3])
        while self.best.score > self.enough:
            at = self.cheapest(box, [(pair, 1.0)])
            if at is None:
                break
            better, next_pair = self.attempt(*at)
            if not better and next_pair == pair:
                return _split(*box, *at)
            if not better and next_pair in tried:
                return [] if self.excluded(box, pair, next_pair) else _split(*box, *at)
            tried.add(pair)
            pair = next_pair
        return []

    def cheapest(self, box: Box, mix: Mix) -> tuple[int, int] | None:
        """The quilt of least cost if only these pairs count; ``None`` if it costs too much."""
        (a, cost_left), (b, cost_right) = self.least(*box[:2], mix, 0), self.least(*box[2:], mix, 1)
        near = _TIE if max(box[1], box[3]) <= _EXACT else _NEAR
        if cost_left + cost_right - self.own >= self.best.score * self.epsilon * (1 - near):
            return None
        return a, b

    def least(self, low: int, high: int, mix: Mix, side: int) -> tuple[int, float]:
        """The cheapest n of one side, and its cost."""
        if low == (self.left, self.right)[side]:
            return low, float(self.count(low, side))
        slack, node = self.influence.slack, self.node
        return _least(
            lambda n: sum(weight * self.part(side, n, pair) for pair, weight in mix),
            lambda n: self.count(n, side) + self.best.score * slack(side, node, n),
            low,
            high,
            self.best.score,
        )

    def excluded(self, box: Box, first: Pair, second: Pair) -> bool:
        """Whether some weighted mean of two pairs shows that a box contains nothing better."""
        low, high = 0.0, 1.0
        for _ in range(_WEIGHINGS):
            weight = (low + high) / 2
            at = self.cheapest(box, [(first, weight), (second, 1 - weight)])
            if at is None or self.attempt(*at)[0]:
                return at is None
            # The bound is concave in the weight; this is its slope.
            if self.sides(*at, first) > self.sides(*at, second):
                low = weight
            else:
                high = weight
        return False

    def part(self, side: int, n: int, pair: Pair) -> float:
        """l_p(n) or r_p(n), for an endpoint that exists."""
        return self.influence.of_pair(side, self.node, n, pair)

    def sides(self, a: int, b: int, pair: Pair) -> float:
        """l_p(a) + r_p(b)."""
        value = self.part(0, a, pair) if a < self.left else 0.0
        return value + self.part(1, b, pair) if b < self.right else value


def _least(
    part: Callable[[int], float],
    count: Callable[[int], float],
    low: int,
    high: int,
    score: float,
) -> tuple[int, float]:
    """The n in [low, high] with the least count(n) + score * part(n).

    ``part`` never increases, ``count`` never decreases.

    An interval [n1, n2] costs at least count(n1) + score * part(n2); the cheapest is halved until
    it is a point, or so short that its last node costs hardly more than that bound. The bound is
    returned.
    """
    heap = [(count(low) + score * part(high), low, high, part(high))]
    while True:
        cost, n1, n2, value = heapq.heappop(heap)
        if n2 - n1 <= (n1 // _FINE if n1 > _EXACT else 0) or cost == inf:
            return n2, cost
        middle = _round_split(n1, n2)
        inner = part(middle)
        heapq.heappush(heap, (count(n1) + score * inner, n1, middle, inner))
        heapq.heappush(heap, (count(middle + 1) + score * value, middle + 1, n2, value))


def _round_split(low: int, high: int) -> int:
    """A point of [low, high) near the geometric mean with few binary digits, so powers repeat."""
    middle = min(isqrt(low * high), high - 1)
    step = 1 << max(0, min((high - low).bit_length() - 3, middle.bit_length() - 1))
    return max(low, middle - middle % step)


def _split(a1: int, a2: int, b1: int, b2: int, a: int, b: int) -> list[Box]:
    """Two parts of a box, cut across its longer side near (a, b); none for a single point."""
    if a1 == a2 and b1 == b2:
        return []
    if b1 == b2 or (a1 < a2 and a2 * b1 > b2 * a1):
        cut = _inner(a1, a2, a)
        return [(cut + 1, a2, b1, b2), (a1, cut, b1, b2)]
    cut = _inner(b1, b2, b)
    return [(a1, a2, cut + 1, b2), (a1, a2, b1, cut)]


def _inner(low: int, high: int, n: int) -> int:
    """The point of [low, high) nearest to n that leaves a quarter on either side."""
    margin = (high - low) // 4
    return min(max(n, low + margin), high - 1 - margin)


Solve = Callable[[int, float, Quilt | None], Quilt]
"""Best quilt of a node; may stop at a score that is enough; tries a quilt first."""


def hardest_node(
    solve: Solve,
    low: int,
    high: int,
    enough: float,
    hint: Quilt | None = None,
    *,
    same_everywhere: bool,
) -> Binding:
    """The node of [low, high] whose best quilt scores most, where influence never grows with i.

    If the best quilt of node i has no left endpoint, it serves every earlier node at no higher
    score; if it has one, it serves every later node, whose right side is shorter. If influence is
    the same at all nodes, a quilt with both endpoints serves every node ([Q] Lemma C.4). So a
    bisection over nodes suffices. The same holds for any quilt that scores no more than the worst
    so far, which is why each search may stop there.

    Theorem: [Q] Lemma C.4.
    """
    first, last, node, worst = low, high, 0, NOTHING
    early, late = (0, 0), (0, 0)  # endpoints that serve all nodes before low, all after high
    while low <= high:
        i = (low + high) // 2
        hint = quilt = solve(i, max(enough, worst.score), hint)
        if quilt.score > worst.score:
            node, worst = i, quilt
        if quilt.ends_left == quilt.ends_right and (same_everywhere or not quilt.ends_left):
            return Binding(node, worst, ((last - first + 1, *quilt.ends),))
        if quilt.ends_left:
            high, late = i - 1, quilt.ends
        else:
            low, early = i + 1, quilt.ends
    served = (low - first, *early), (last - low + 1, *late)
    return Binding(node, worst, tuple(run for run in served if run[0]))
