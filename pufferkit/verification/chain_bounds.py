"""The theorems behind `verify`: plain loops over nodes and blocks.

One inequality serves every mechanism on chains. With b = L / scale, entry X_i is hidden if for some
l and m, the distances of an endpoint on either side,

    (l + m - 1) b + max over pairs x, x' of [left(x, x') + right(x, x')]  <=  epsilon.

- Markov quilts, [Q] Theorem 4.3: left + right is the max-influence of X_i on {X_{i-l}, X_{i+m}},
  and the inequality is card / (epsilon - influence) <= scale / L.
- Influence curve: left and right are steps from the variation alpha beyond X_{i-l} and
  beta beyond X_{i+m}. A step from an infinite variation is the influence.
- A side without an endpoint has all its entries paid and adds nothing.

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
from dataclasses import dataclass, replace
from functools import partial
from math import inf, sqrt

import numpy as np

from pufferkit.beliefs.chain_class import Member
from pufferkit.checks import Bools, Floats
from pufferkit.rounding import last_passing
from pufferkit.verification.pair_tables import Allowance, PairTables
from pufferkit.verification.row_steps import log_ratios

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
    """How one entry is hidden: blocks, their loss, and the scale over L that quilts would need."""

    blocks: BlockPair
    loss: float
    score: float


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
    side, paid. If no choice hides the entry, ``score`` is still a lower bound on what quilts need.
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
            return BlockChoice(hint, loss, card / (task.epsilon - influence))
    # Larger blocks than the reach need more than this.
    best = BlockChoice((1, 1), inf, (task.reach + 1) / task.epsilon)
    before, after = (
        [n for n in (*(m for m in sizes if m < end), end) if n <= task.reach] for end in whole
    )
    if not after:
        return best
    rights, paid = np.array([table(1, m) for m in after]), np.array(after)
    for first in before:
        task.work.spend(2 * 10**4 + 2 * rights.size)
        influences = (rights + table(0, first)).max(axis=1)
        cards = first + paid - 1
        losses = cards * task.b + influences
        room = np.maximum(task.epsilon - influences, 0.0)
        with np.errstate(divide="ignore"):
            score = min(best.score, float((cards / room).min()))
        least = int(losses.argmin())
        if losses[least] < best.loss:
            best = BlockChoice((first, after[least]), float(losses[least]), score)
        best = replace(best, score=score)
    return best


def score_by_quilts(side: PairTables, task: Task) -> float:
    """Scale over L that is enough by [Q] Theorem 4.3; if above 1 / b, a lower bound on it."""
    if task.length * task.b <= task.epsilon:
        return task.length / task.epsilon  # the trivial quilt, for every node
    worst, hint = 0.0, task.hint
    nodes = range(1, min(task.length, side.repeats_from + task.reach + side.period) + 1)
    for node in reversed(nodes):  # usually the nodes far from the start are the hardest
        choice = best_choice(
            task,
            side.pairs(node),
            partial(_left_table, side, node, lambda _: inf),
            partial(_right_table, side, node, lambda _: inf),
            (node, task.length - node + 1),
            range(1, task.reach + 1),
            hint,
        )
        worst, hint = max(worst, choice.score), choice.blocks
        if choice.loss > task.epsilon:
            return choice.score
    return worst


def score_around_blocks(side: PairTables, task: Task, window: int) -> float:
    """The same for several consecutive entries: endpoints beyond the first and the last of them.

    The two values of the block may differ in any two pairs of first and last values. A block on the
    right counts from the first entry, so it is at least the window. ``side`` is stationary.
    """
    one_pair = np.ones(1, dtype=bool)

    def left(node: int, block: int) -> Floats:
        return np.array([side.left(node, block, inf)[side.pairs(node)].max()])

    def right(node: int, block: int) -> Floats:
        if block < window:
            return np.array([inf])
        return np.array([side.right(block - window + 1, inf)[side.pairs(node)].max()])

    worst = min(window, task.length) / task.epsilon
    for node in range(1, max(0, min(task.length - window, task.reach)) + 2):
        choice = best_choice(
            task,
            one_pair,
            partial(left, node),
            partial(right, node),
            (node, task.length - node + 1),
            range(1, task.reach + 1),
            task.hint,
        )
        worst = max(worst, choice.score)
        if choice.loss > task.epsilon:
            break
    return worst


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


def spread_by_neighbours(member: Member, length: int) -> float:
    """Ghosh and Kleinberg (2016): twice the largest row sum of (I - Gamma)^-1, or infinite.

    Gamma_ij is half the largest log-ratio of the distribution of entry i given its neighbours when
    neighbour j changes.
    """
    if length == 1:
        return 2.0
    matrix = member.chain.transition
    if member.any_start:  # the first entry: the projective diameter
        columns = log_ratios(matrix.T, matrix.T > 0)
        with np.errstate(invalid="ignore"):
            first = float(np.nan_to_num(columns + columns.T, nan=inf, posinf=inf).max())
    else:
        first = _sway([(member.chain.initial[:, None] * matrix).T])
    last = _sway([matrix])
    left = _sway([matrix * column for column in matrix.T])
    right = _sway([row * matrix.T for row in matrix])
    if max(first, last) == inf or (length > 2 and max(left, right) == inf):
        return inf
    rows = min(length, MEDIUM)
    gamma = np.diag(np.full(rows - 1, right), 1) + np.diag(np.full(rows - 1, left), -1)
    gamma[0, 1], gamma[-1, -2] = first, last
    gamma /= 2
    if np.linalg.norm(gamma, 2) >= 1:
        return inf
    if rows < length and not _below_one(first / 2, left / 2, right / 2, last / 2):
        return inf
    if rows == length:
        return 2 * float(np.linalg.solve(np.eye(rows) - gamma, np.ones(rows)).max())
    # Far from both ends x = 1 / (1 - g - h), and the effect of an end decays like p^i with
    # h p^2 - p + g = 0: solve for the end only.
    g, h = left / 2, right / 2
    middle, sums = 1 / (1 - g - h), [1 / (1 - g - h)]
    for end, near, far in ((first / 2, g, h), (last / 2, h, g)):
        decay = near if far == 0 else (1 - sqrt(1 - 4 * near * far)) / (2 * far)
        sums.append(middle + (1 - middle * (1 - end)) / (1 - end * decay))
    return 2 * max(sums)


def _below_one(first: float, left: float, right: float, last: float) -> bool:
    """Whether the norm of Gamma is below 1 at every length above `MEDIUM`.

    Odd and even rows of I - Gamma Gamma^T are two tridiagonal matrices. Elimination leaves pivots
    p' = m - s / p between the ends, which rise or fall to the larger root of p^2 - m p + s = 0
    unless they are below the smaller one.
    """
    m, s = 1 - left**2 - right**2, (left * right) ** 2
    if left + right >= 1 or first >= 1:
        return False
    gap = sqrt(m * m - 4 * s)
    p = m - (first * left) ** 2 / (1 - first**2)
    for _ in range(MEDIUM // 4):
        if p <= (m - gap) / 2:
            return False
        p = m - s / p
    return last**2 + (right * last) ** 2 / min(p, (m + gap) / 2) < 1


def _sway(families: list[Floats]) -> float:
    """Largest log-ratio of two distributions of one family, from their joint weights."""
    largest = 0.0
    for joint in families:
        rows = joint[joint.sum(axis=1) > 0]
        distributions = rows / rows.sum(axis=1, keepdims=True)
        largest = max(largest, float(log_ratios(distributions, distributions > 0).max(initial=0.0)))
    return largest
