"""The theorems behind `verify`: plain loops over nodes and blocks.

With b = L / scale, entry X_i is hidden if for some l and m, the distances of an endpoint on either
side,

    (l + m - 1) b + max over pairs x, x' of [left(x, x') + right(x, x')]  <=  epsilon,

left and right the steps from the variation alpha beyond X_{i-l} and beta beyond X_{i+m}. A side
without an endpoint has all its entries paid and adds nothing.

Only the longest segment is checked, and in a long one only the first nodes:

- A choice with a left endpoint serves every later node whose distribution and reachable states are
  the same (stationary), or whose prior and reachable states have only shrunk (any start, [Q] C.4).
  With a fixed initial distribution, the distribution of X_i tends to a limit, or to a cycle of
  them; nodes after the first such cycle repeat it.
- If a choice extends beyond the end of the segment, its endpoint is dropped. Fewer entries are paid
  for and the influence is no larger ([Q] Lemma C.4). So shorter segments are covered as well.
- A choice without a left endpoint pays for i entries, so beyond node epsilon / b there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf, sqrt

import numpy as np

from pufferkit.checks import Bools, Floats
from pufferkit.rounding import last_passing
from pufferkit.verification.pair_tables import Allowance, PairTables

BlockPair = tuple[int, int]

SHORT = 48
"""Up to this length, the curve is computed by the recursion at every node."""

MEDIUM = 500
"""Up to this length, also if there is no fixed point."""

_FEW = 10**7
_PRECISION = 1e-10


@dataclass(frozen=True)
class Task:
    """Hide every entry at ``epsilon`` with event-level epsilon ``b``; try ``hint`` first."""

    length: int
    b: float
    epsilon: float
    hint: BlockPair | None
    work: Allowance

    @property
    def reach(self) -> int:
        """Larger blocks cost more than epsilon by themselves, with a small margin."""
        return int(1.05 * self.epsilon / self.b) + 1

    def sizes(self, values: int) -> list[int]:
        """Blocks to try on the curve: all, or a growing selection if entries have many values.

        Any selection gives a valid bound.
        """
        if self.reach * values**3 <= _FEW:
            return list(range(1, self.reach + 1))
        sizes = set(self.hint or ())
        for ratio in (1.25, sqrt(2)):
            block = 1.0
            while block <= self.reach:
                sizes.add(int(block))
                block = max(int(block) + 1, ratio * block)
        return sorted(size for size in sizes if size <= self.reach)


@dataclass(frozen=True)
class BlockChoice:
    """How one entry is hidden: blocks, and their loss."""

    blocks: BlockPair
    loss: float


def best_choice(
    task: Task,
    pairs: Bools,
    left: Callable[[int], Floats],
    right: Callable[[int], Floats],
    whole: BlockPair,
    sizes: Iterable[int],
    hint: BlockPair | None,
) -> BlockChoice:
    """The hint if it hides the entry, else the best choice of two ``sizes``.

    ``left`` and ``right`` give the table of a block; a block as long as ``whole`` is that whole
    side, paid.
    """
    nothing = np.zeros(int(pairs.sum()))

    def table(side: int, block: int) -> Floats:
        pairwise: Floats = nothing if block >= whole[side] else (left, right)[side](block)[pairs]
        return pairwise

    if hint is not None:
        first, second = min(hint[0], whole[0]), min(hint[1], whole[1])
        influence, card = float((table(0, first) + table(1, second)).max()), first + second - 1
        loss = card * task.b + influence
        if loss <= task.epsilon:
            return BlockChoice(hint, loss)
    best = BlockChoice((1, 1), inf)
    before, after = (
        [n for n in (*(m for m in sizes if m < end), end) if n <= task.reach] for end in whole
    )
    if not after:
        return best
    rights, paid = np.array([table(1, m) for m in after]), np.array(after)
    for first in before:
        task.work.spend(2 * 10**4 + 2 * rights.size)
        losses = (first + paid - 1) * task.b + (rights + table(0, first)).max(axis=1)
        least = int(losses.argmin())
        if losses[least] < best.loss:
            best = BlockChoice((first, after[least]), float(losses[least]))
    return best


def loss_by_curve(side: PairTables, task: Task, window: int = 1) -> float:
    """Largest loss of so many entries in a row on the curve, or one that is above epsilon.

    More than one are exchanged one by one: the first with all that lies left of it, which costs
    alpha, the last with all right of it, beta, and b for each between.
    """
    if task.length * task.b <= task.epsilon:
        return task.length * task.b
    if window >= task.length:
        return inf
    loss = _loss(side, task, window, every_node=task.length <= SHORT)
    if loss == inf and SHORT < task.length <= MEDIUM:
        loss = _loss(side, task, window, every_node=True)
    return loss


def _loss(side: PairTables, task: Task, window: int, *, every_node: bool) -> float:
    """The first nodes by their own alpha, the others by one bound; beta by one, or every node's."""
    length, first, sizes = task.length, 0, task.sizes(side.size)
    if every_node or side.repeats_from:
        first = length if every_node else side.repeats_from + task.reach + side.period
        first = min(first, length)

    def to_left(node: int, block: int, variation: float) -> float:
        return float(side.left(node, block, variation)[side.pairs(node)].max())

    def to_right(place: int, block: int, variation: float) -> float:
        return float(side.right(block, variation)[side.pairs(length + 1 - place)].max())

    def room_left(node: int, block: int, v: float) -> float:
        return side.left_room(node, block, v, v - block * task.b)

    def room_right(block: int, v: float) -> float:
        return side.right_room(anywhere, block, v, v - block * task.b)

    alpha = _variations(first, task.b, sizes, to_left)
    if every_node:
        beta = _variations(length, task.b, sizes, to_right)
    else:
        anywhere = np.any([side.pairs(node) for node in range(1, max(1, first) + 1)], axis=0)
        beta = [_fixed_point(task, sizes, task.b, [room_right])]
    # The nodes after the first ones repeat these.
    last = first or task.reach + 1  # stationary, or any start: one node stands for all
    others = range(last - side.period + 1, last + 1)
    rest = task.b
    if first < length:
        recent = max(alpha[-task.reach :], default=task.b)
        rest = _fixed_point(task, sizes, recent, [partial(room_left, node) for node in others])
    if max(*alpha, *beta, rest) > task.epsilon:
        return inf  # a loss is never below the variation on one of its sides

    def beyond(node: int) -> float:
        return beta[length - node] if every_node else beta[0]

    if window > 1:
        starts = alpha[: length - window + 1] + ([rest] if first < length else [])
        ends = [beyond(min(node + window - 1, length)) for node in range(1, len(starts) + 1)]
        sides = max(before + after for before, after in zip(starts, ends, strict=True))
        return sides + (window - 2) * task.b
    largest, hint = 0.0, task.hint
    nodes = [(node, True) for node in range(1, first + 1)]
    nodes += [(node, False) for node in others] if first < length else []
    for node, own in nodes:
        choice = best_choice(
            task,
            side.pairs(node),
            partial(_left_table, side, node, (lambda n: alpha[n - 1]) if own else (lambda _: rest)),
            partial(_right_table, side, node, beyond),
            (node, length - node + 1) if own else (length, length),
            sizes,
            hint,
        )
        largest, hint = max(largest, choice.loss), choice.blocks
        if largest > task.epsilon:
            break
    return largest


def _left_table(side: PairTables, node: int, alpha: Callable[[int], float], block: int) -> Floats:
    return side.left(node, block, alpha(node - block))


def _right_table(side: PairTables, node: int, beta: Callable[[int], float], block: int) -> Floats:
    return side.right(block, beta(node + block))


def _variations(
    count: int, b: float, sizes: Iterable[int], step: Callable[[int, int, float], float]
) -> list[float]:
    """Alpha of the first nodes, or beta of the last: the recursion of docs/theory.md."""
    variations: list[float] = []
    for node in range(1, count + 1):
        least = node * b
        for block in sizes:
            if block * b >= least:
                break
            least = min(least, block * b + step(node, block, variations[node - block - 1]))
        variations.append(least)
    return variations


def _fixed_point(
    task: Task, sizes: Iterable[int], low: float, rooms: Sequence[Callable[[int, float], float]]
) -> float:
    """A v, close to the least from ``low`` up, with F(v) <= v for each; infinite above epsilon.

    F(v) is the least m b + step(m, v), and ``rooms`` is at least 0 if m b + step(m, v) <= v. If
    F(v) <= v and the variations before a stretch are at most v, so are those of the stretch, by
    induction; blocks that extend beyond the end cost at most m b. Steps have a slope of at most 1,
    so what holds for some v holds for all above it: each block is tried once at the best v of those
    before it, and followed further down if that holds.
    """
    return max(_least_passing(task, sizes, low, room) for room in rooms)


def _least_passing(
    task: Task, sizes: Iterable[int], low: float, room: Callable[[int, float], float]
) -> float:
    best = inf
    for block in sizes:
        margin = partial(room, block)
        good = min(task.epsilon, best * (1 - _PRECISION))
        bad = max(low, block * task.b)
        if bad > good or not margin(good) >= 0:  # NaN shows nothing
            continue
        best = bad if margin(bad) >= 0 else last_passing(margin, good, bad, _PRECISION)
    return best
