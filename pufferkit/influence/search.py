"""The best quilt for one node, over all quilts of [Q] Lemma 4.6, without looking at most of them.

A node has ``left`` entries on its left side and ``right`` on its right, itself counted in both. A
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
brackets can be minimised apart. So two searches on a line either show that a whole box of quilts
cannot beat s, or name the quilt to try next (Dinkelbach's step for ratios). Boxes that no single
pair excludes are split. The result is the exact optimum; every score it reports was evaluated.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from math import inf, isqrt
from typing import Protocol

Pair = tuple[int, int]

_TIE = 1e-13
"""Scores closer than this, relatively, count as equal."""


@dataclass(frozen=True)
class Quilt:
    """The winning quilt of a node: its score, and what it keeps on either side."""

    score: float
    influence: float
    keep_left: int
    keep_right: int
    ends_left: bool
    ends_right: bool


NOTHING = Quilt(-inf, 0.0, 0, 0, False, False)
"""Below every quilt: where a maximum over nodes starts."""


class NodeInfluence(Protocol):
    """Influence of one node as a function of what a quilt keeps."""

    @property
    def left(self) -> int:
        """Nodes on the left, the node itself included."""
        ...

    @property
    def right(self) -> int:
        """Nodes on the right, the node itself included."""
        ...

    def whole(self, a: int, b: int) -> tuple[float, Pair]:
        """Upper bound on e(a, b), and the pair of secrets that attains it."""
        ...

    def left_part(self, a: int, pair: Pair) -> float:
        """l_p(a) for 1 <= a < left."""
        ...

    def right_part(self, b: int, pair: Pair) -> float:
        """r_p(b) for 1 <= b < right."""
        ...


def best_quilt(
    node: NodeInfluence, epsilon: float, enough: float = 0.0, hint: Quilt | None = None
) -> Quilt:
    """The quilt with the least score ``nearby / (epsilon - influence)``.

    Parameters
    ----------
    node
        The node's influence and how many nodes lie on either side.
    enough
        Stop at the first quilt that scores no more than this.
    hint
        A quilt to try first: the best one of a similar node.
    """
    left, right = node.left, node.right
    best = Quilt((left + right - 1) / epsilon, 0.0, left, right, False, False)

    def attempt(a: int, b: int) -> tuple[bool, Pair]:
        nonlocal best
        value, pair = node.whole(a, b)
        score = (a + b - 1) / (epsilon - value) if value < epsilon else inf
        better = score < best.score * (1 - _TIE)
        if better:
            best = Quilt(score, value, a, b, a < left, b < right)
        return better, pair

    def least(low: int, high: int, pair: Pair, side: int) -> tuple[int, float]:
        if low == (left, right)[side]:
            return low, float(low)
        part = (node.left_part, node.right_part)[side]
        return _least(lambda n: part(n, pair), low, high, best.score)

    if hint is not None:
        attempt(min(hint.keep_left, left), min(hint.keep_right, right))
    else:
        # A first quilt by doubling, so that the cost does not depend on the length of the series.
        for n in _doublings(max(left, right)):
            better, _ = attempt(min(n, left), min(n, right))
            if best.influence > 0 and not better:
                break
    boxes = [(1, left - 1, right, right), (left, left, 1, right - 1), (1, left - 1, 1, right - 1)]
    while boxes and best.score > enough:
        a1, a2, b1, b2 = boxes.pop()
        # A quilt that keeps more than this scores more, whatever its influence.
        most = int(best.score * epsilon) + 1
        a2, b2 = min(a2, most), min(b2, most)
        if a1 > a2 or b1 > b2:
            continue
        _, pair = attempt(a2, b2)
        tried: set[Pair] = set()
        while best.score > enough:
            (a, cost_left), (b, cost_right) = least(a1, a2, pair, 0), least(b1, b2, pair, 1)
            if cost_left + cost_right - 1 >= best.score * epsilon * (1 - _TIE):
                break
            better, next_pair = attempt(a, b)
            if not better and (next_pair == pair or next_pair in tried):
                boxes.extend(_split(a1, a2, b1, b2, a, b))
                break
            tried.add(pair)
            pair = next_pair
    return best


def _doublings(most: int) -> list[int]:
    return [1 << j for j in range(most.bit_length())]


def _least(part: Callable[[int], float], low: int, high: int, score: float) -> tuple[int, float]:
    """The n in [low, high] with the least n + score * part(n), where part never grows.

    An interval [n1, n2] costs at least n1 + score * part(n2); the cheapest is halved until it is a
    point.
    """
    heap = [(low + score * part(high), low, high, part(high))]
    while True:
        cost, n1, n2, value = heapq.heappop(heap)
        if n1 == n2 or cost == inf:
            return n1, cost
        middle = _round_split(n1, n2)
        inner = part(middle)
        heapq.heappush(heap, (n1 + score * inner, n1, middle, inner))
        heapq.heappush(heap, (middle + 1 + score * value, middle + 1, n2, value))


def _round_split(low: int, high: int) -> int:
    """A point of [low, high) near the geometric middle with few binary digits, so powers repeat."""
    middle = min(isqrt(low * high), high - 1)
    step = 1 << max(0, (high - low).bit_length() - 3)
    return max(low, middle - middle % step)


def _split(a1: int, a2: int, b1: int, b2: int, a: int, b: int) -> list[tuple[int, int, int, int]]:
    """Two halves of a box, cut at (a, b) across its longer side; none for a single point."""
    if a1 == a2 and b1 == b2:
        return []
    if b1 == b2 or (a1 < a2 and a2 * b1 > b2 * a1):
        cut = min(a, a2 - 1)
        return [(cut + 1, a2, b1, b2), (a1, cut, b1, b2)]
    cut = min(b, b2 - 1)
    return [(a1, a2, cut + 1, b2), (a1, a2, b1, cut)]


class Solve(Protocol):
    """Best quilt of a node; may stop at a score of ``enough``; tries ``hint`` first."""

    def __call__(self, node: int, enough: float, hint: Quilt | None) -> Quilt: ...


def hardest_node(
    solve: Solve,
    low: int,
    high: int,
    enough: float,
    hint: Quilt | None = None,
    *,
    same_everywhere: bool,
) -> tuple[int, Quilt]:
    """The node of [low, high] whose best quilt scores most, where influence never grows with i.

    If the best quilt of node i has no left endpoint, it serves every earlier node at no higher
    score; if it has one, it serves every later node, whose right side is shorter. If influence is
    the same at all nodes, a quilt with both endpoints serves every node ([Q] Lemma C.4). So a
    bisection over nodes suffices. The same holds for any quilt that scores no more than the worst
    found so far, which is why each search may stop there.
    """
    node, worst = 0, NOTHING
    while low <= high:
        i = (low + high) // 2
        hint = quilt = solve(i, max(enough, worst.score), hint)
        if quilt.score > worst.score:
            node, worst = i, quilt
        if quilt.ends_left == quilt.ends_right and (same_everywhere or not quilt.ends_left):
            break
        if quilt.ends_left:
            high = i - 1
        else:
            low = i + 1
    return node, worst
