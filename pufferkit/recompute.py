"""The mathematics of `pufferkit.verify`: plain loops over nodes and blocks, to be read.

One inequality serves every mechanism on chains. With b = L / scale, entry X_i is hidden if for some
l and m, the distances of an endpoint on either side,

    (l + m - 1) b + max over pairs x, x' of [left(x, x') + right(x, x')]  <=  epsilon.

- Markov quilts, [Q] Theorem 4.3: left + right is the max-influence of X_i on {X_{i-l}, X_{i+m}},
  and the inequality is card / (epsilon - influence) <= scale / L.
- Influence curve, THEORY.md: left and right are steps from the variation alpha beyond X_{i-l} and
  beta beyond X_{i+m}. A step from an infinite variation is the influence.
- A side without an endpoint has all its entries paid for and adds nothing.

Only the longest segment is looked at, and in a long one only the first nodes:

- A choice with a left endpoint serves every later node whose law and reachable states are the same
  (stationary), or whose prior and reachable states have only shrunk (any start, [Q] C.4). With a
  start of its own, the law of X_i tends to a limit, or to a cycle of them; nodes after the first
  such cycle repeat it.
- Where a choice overhangs the end of the segment, its endpoint is dropped. Fewer entries are paid
  for and the influence is no larger ([Q] Lemma C.4). So shorter segments are served as well.
- A choice without a left endpoint pays for i entries, so beyond node epsilon / b there is none.
"""

from __future__ import annotations

import cmath
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import cos, exp, inf, log1p, pi, sqrt
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pufferkit.beliefs.chain_class import BinaryClass, ChainClass, Member, MixingClass

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Blocks = tuple[int, int]

SHORT = 48
"""Up to this length, the curve is followed by the recursion at every node."""

MEDIUM = 500
"""Up to this length, also where there is no fixed point."""

_TINY = 1e-280
_SETTLED = 1e-11
_PRECISION = 1e-10
_MEMORY = 3 * 10**7


class TooHeavy(Exception):
    """The work would exceed what was allowed."""


class Work:
    """An allowance, in units of about a nanosecond."""

    def __init__(self, most: float) -> None:
        self.most, self.spent = most, 0.0

    def spend(self, amount: float) -> None:
        """Take some of it, or give up."""
        self.spent += amount
        if self.spent > self.most:
            raise TooHeavy(f"it takes more than the {self.most:.3g} units of work allowed")


@dataclass(frozen=True)
class Task:
    """Hide every entry of a segment at ``epsilon`` with entry privacy ``b``; try ``hint`` first."""

    length: int
    b: float
    epsilon: float
    hint: Blocks | None
    work: Work

    @property
    def reach(self) -> int:
        """The largest block that does not cost more than epsilon by itself."""
        return int(self.epsilon / self.b)


class Side(Protocol):
    """Tables over pairs of values of an entry, for one chain or one bound on all chains.

    From node ``settled`` on (0: always) laws repeat with ``period``. ``left`` and ``right`` are the
    steps from a variation; from an infinite one, the influence that quilts use.
    """

    @property
    def settled(self) -> int:
        """Node from which laws repeat."""
        ...

    @property
    def period(self) -> int:
        """How many laws repeat."""
        ...

    def pairs(self, node: int) -> Bools:
        """Which pairs of values can occur at a node."""
        ...

    def left(self, node: int, block: int, variation: float) -> Floats:
        """To X_{node-block}."""
        ...

    def right(self, block: int, variation: float) -> Floats:
        """To X_{node+block}."""
        ...


def log_ratios(rows: Floats, possible: Bools) -> Floats:
    """Entry (x, x') is the largest log of rows(x, y) / rows(x', y); 0/0 is no event."""
    above = np.where(possible, np.maximum(rows, _TINY), 0.0)
    below = np.where(rows >= _TINY, rows, 0.0)  # lost to underflow: the ratio counts as infinite
    with np.errstate(divide="ignore", invalid="ignore"):
        gaps = np.log(above)[:, None, :] - np.log(below)[None, :, :]
    gaps[np.isnan(gaps)] = -inf
    found: Floats = gaps.max(axis=2)
    np.fill_diagonal(found, 0.0)
    return found


def prefixes(kernel: Floats) -> tuple[Floats, Floats]:
    """K(x, S) and K(x', S) for all pairs of rows, S the prefixes of states by K(x, y) / K(x', y).

    One of them is the best set of the step in THEORY.md.
    """
    first, second = np.broadcast_arrays(kernel[:, None, :], kernel[None, :, :])
    with np.errstate(divide="ignore", invalid="ignore"):
        order = np.argsort(-np.where(first > 0, first / second, -1.0), axis=2)
    above = np.take_along_axis(first, order, 2).cumsum(axis=2)
    below = np.take_along_axis(second, order, 2).cumsum(axis=2)
    return np.minimum(above, 1.0), np.minimum(below, 1.0)


def step(shares: tuple[Floats, Floats], variation: float) -> Floats:
    """Log (1 + K(x, S) (e^a - 1)) / (1 + K(x', S) (e^a - 1)), the largest over ``prefixes``."""
    with np.errstate(divide="ignore"):
        above, below = (np.logaddexp(np.log1p(-s), np.log(s) + variation) for s in shares)
    largest: Floats = np.maximum((above - below).max(axis=2), 0.0)
    return largest


def projective_step(diameter: Floats, a: float) -> Floats:
    """The s with tanh(s / 4) = tanh(D / 4) tanh(a / 4)."""
    finite = np.where(np.isfinite(diameter), diameter, 0.0)
    s = 2 * (np.logaddexp(0, (finite + a) / 2) - np.logaddexp(finite / 2, a / 2))
    return np.where(diameter == inf, a, s)


class KnownChain:
    """The tables of one transition matrix with its start, or with any start."""

    def __init__(self, member: Member, task: Task, *, as_printed: bool = False) -> None:
        self.chain, self.any_start, self.work = member.chain, member.any_start, task.work
        self.matrix, self.as_printed = member.chain.transition, as_printed
        self.size = len(self.matrix)
        self.stationary = not self.any_start and self.chain.is_stationary
        self.period = 1 if self.stationary or self.any_start else self.chain.period
        self._laws = [(self.chain.initial, self.chain.initial > 0)]
        self._memory: dict[Hashable, Any] = {}
        self.settled = self._settled(task.length)

    def _settled(self, length: int) -> int:
        if self.stationary or (self.any_start and (self.matrix > 0).any(axis=0).all()):
            return 0
        if self.any_start:
            return self.size  # reachable states shrink at every node until they stay
        node = 1
        while node < length and self.chain.limit_distance(self.law(node)[0], node) > _SETTLED:
            node += 16
        return min(node, length)

    def _remembered(self, key: Hashable, make: Callable[[], Any]) -> Any:
        if key not in self._memory:
            if len(self._memory) * (self.size**3 + 100) > _MEMORY:
                self._memory.clear()
            self.work.spend(10**4 + 40 * self.size**3)
            self._memory[key] = make()
        return self._memory[key]

    def power(self, steps: int) -> tuple[Floats, Bools]:
        """P^steps, and which of its entries are possible."""

        def product() -> tuple[Floats, Bools]:
            (first, one), (second, other) = self.power(steps // 2), self.power((steps + 1) // 2)
            return first @ second, one.astype(float) @ other > 0

        if steps < 2:
            return (
                (self.matrix, self.matrix > 0)
                if steps
                else (np.eye(self.size), np.eye(self.size) > 0)
            )
        found: tuple[Floats, Bools] = self._remembered(("power", steps), product)
        return found

    def law(self, node: int) -> tuple[Floats, Bools]:
        """The law of X_node and its support; of any start only the support has a meaning."""
        if self.stationary:
            return self._laws[0]
        while len(self._laws) < node:
            self.work.spend(10**4 + 4 * self.size**2)
            law, possible = self._laws[-1]
            more = possible.astype(float) @ (self.matrix > 0)
            self._laws.append((law @ self.matrix, more > 0))
        return self._laws[node - 1]

    def pairs(self, node: int) -> Bools:
        """Which pairs of values can occur at a node."""
        support = self.law(node)[1]
        return np.outer(support, support)

    def left(self, node: int, block: int, variation: float) -> Floats:
        """To X_{node-block}; [Q] (5) if the variation is infinite, else a step."""
        self.work.spend(2 * 10**4 + self.size**2)
        sources = self.law(node - block)[1]
        if not self.any_start and variation < inf:
            where = 0 if self.stationary else node
            found = self._remembered(("left", where, block), lambda: self._kernel(node, block))
            self.work.spend(60 * self.size**3)
            return step(found, variation)
        if self.as_printed:  # [Q] (5) lets u run over all states
            sources = np.ones(self.size, dtype=bool)
        values, possible = self.power(block)
        columns: Floats = self._remembered(
            ("columns", block, sources.tobytes()),
            lambda: log_ratios(values[sources].T, possible[sources].T),
        )
        with np.errstate(invalid="ignore"):
            if variation == inf:
                return self._prior(node) + columns
            return projective_step(columns + columns.T, variation)

    def right(self, block: int, variation: float) -> Floats:
        """To X_{node+block}, at any node."""
        if variation == inf:
            influence: Floats = self._remembered(block, lambda: log_ratios(*self.power(block)))
            return influence
        found = self._remembered(("right", block), lambda: prefixes(self.power(block)[0]))
        self.work.spend(2 * 10**4 + 60 * self.size**3)
        return step(found, variation)

    def _prior(self, node: int) -> Floats:
        """(x, x') to log P(X_node = x') / P(X_node = x); its largest over all starts ([Q] C.4)."""
        if self.any_start:
            values, possible = self.power(node - 1)
            made = self._remembered(("prior", node), lambda: log_ratios(values.T, possible.T).T)
        else:
            law, possible = self.law(node)
            made = log_ratios(law[:, None], possible[:, None]).T
        prior: Floats = made
        return prior

    def _kernel(self, node: int, block: int) -> tuple[Floats, Floats]:
        """Prefixes of the kernel P(X_{node-block} = u | X_node = x)."""
        joint = (self.law(node - block)[0][:, None] * self.power(block)[0]).T
        sums = joint.sum(axis=1, keepdims=True)
        return prefixes(np.divide(joint, sums, out=np.zeros_like(joint), where=sums > 0))


@dataclass(frozen=True)
class MixingBound:
    """Entries of P^t are within a factor 1 +- norm^t factor of the stationary law."""

    norm: float
    factor: float
    weight: int
    states: int
    work: Work
    settled: int = 0
    period: int = 1

    def pairs(self, node: int) -> Bools:
        """Two values stand for all."""
        return np.ones((min(2, self.states),) * 2, dtype=bool)

    def left(self, node: int, block: int, variation: float) -> Floats:
        """[Q] Lemma C.3: ``weight`` times the bound on a row, for the prior turns with it."""
        bound = self.weight * self._row(block)
        return bound if variation == inf else projective_step(bound, variation)

    def right(self, block: int, variation: float) -> Floats:
        """Rows with log-ratios at most h: tanh(s / 2) = tanh(h / 2) tanh(a / 2)."""
        bound = self._row(block)
        return bound if variation == inf else projective_step(2 * bound, 2 * variation) / 2

    def _row(self, block: int) -> Floats:
        self.work.spend(2 * 10**4)
        delta = self.norm**block * self.factor
        h = log1p(delta) - log1p(-delta) if delta < 1 else inf
        return np.where(np.eye(min(2, self.states)) > 0, 0.0, h)


def mixing_bounds(theta: ChainClass, work: Work, *, tight: bool) -> list[MixingBound]:
    """[Q] Lemma C.1 with the least pi_min and gap; or, tight, the operator norm of each chain."""
    states = len(theta.states)
    if isinstance(theta, MixingClass):
        norm = 1 - theta.gap / 2 if theta.reversible else sqrt(1 - theta.gap)
        known = [(theta.pi_min, theta.gap, norm, 2)]
    else:
        known = [_mixing(m) for m in members_to_check(theta)]
    least = min(pi for pi, *_ in known), min(gap for _, gap, *_ in known)
    if not tight:
        return [MixingBound(exp(-least[1] / 2), 1 / least[0], 2, states, work)]
    if isinstance(theta, BinaryClass):  # its chains are known only together
        known = [(*least, max(norm for *_, norm, _ in known), 2)]
    return [MixingBound(norm, 1 / pi - 1, weight, states, work) for pi, _, norm, weight in known]


def _mixing(member: Member) -> tuple[float, float, float, int]:
    """pi_min, gap by [Q] (14), operator norm, and 1 for a stationary start or 2."""
    matrix = member.chain.transition
    size = len(matrix)
    equations = np.vstack([matrix.T - np.eye(size), np.ones(size)])
    pi = np.linalg.lstsq(equations, np.append(np.zeros(size), 1.0), rcond=None)[0]
    if pi.min() <= 0 or not member.chain.is_irreducible or member.chain.period > 1:
        raise ValueError(f"{member.name} is reducible or periodic, and [Q] Lemma 4.8 needs neither")
    root, flow = np.sqrt(pi), pi[:, None] * matrix
    values = np.linalg.svd(matrix * root[:, None] / root, compute_uv=False)
    norm = float(values[1]) if size > 1 else 0.0
    reversible = np.allclose(flow, flow.T, rtol=1e-8, atol=1e-15)
    weight = 1 if not member.any_start and member.chain.is_stationary else 2
    return float(pi.min()), 2 * (1 - norm) if reversible else 1 - norm**2, norm, weight


def members_to_check(theta: ChainClass) -> tuple[Member, ...]:
    """The chains of a class; of an interval of binary chains, corners and some between."""
    if not isinstance(theta, BinaryClass):
        return theta.members()
    stays = sorted({theta.low, (theta.low + theta.high) / 2, theta.high}, reverse=True)
    matrices = [[[p, 1 - p], [1 - q, q]] for p in stays for q in stays]
    return ChainClass.any_start(*matrices).members()


@dataclass(frozen=True)
class Choice:
    """How one entry is hidden: blocks, their loss, and the scale over L that quilts would ask."""

    blocks: Blocks
    loss: float
    score: float


def best_choice(
    task: Task,
    pairs: Bools,
    left: Callable[[int], Floats],
    right: Callable[[int], Floats],
    whole: Blocks,
    hint: Blocks | None,
) -> Choice:
    """The hint if it hides the entry, else the best of all choices.

    ``left`` and ``right`` give the table of a block; a block as long as ``whole`` is that side,
    paid for. If no choice hides the entry, ``score`` is still what quilts ask at least.
    """
    nothing = np.zeros(int(pairs.sum()))

    def table(side: int, block: int) -> Floats:
        found: Floats = nothing if block >= whole[side] else (left, right)[side](block)[pairs]
        return found

    if hint is not None:
        first, second = min(hint[0], whole[0]), min(hint[1], whole[1])
        influence, card = float((table(0, first) + table(1, second)).max()), first + second - 1
        if card * task.b + influence <= task.epsilon:
            return Choice(
                (first, second), card * task.b + influence, card / (task.epsilon - influence)
            )
    best = Choice((1, 1), inf, (task.reach + 1) / task.epsilon)  # more entries ask more than this
    sizes = np.arange(1, min(whole[1], task.reach) + 1)
    after = np.array([table(1, int(m)) for m in sizes]).reshape(len(sizes), len(nothing))
    for first in range(1, min(whole[0], task.reach) + 1 if len(sizes) else 1):
        task.work.spend(2 * 10**4 + 2 * after.size)
        influences = (after + table(0, first)).max(axis=1)
        cards = first + sizes - 1
        losses = cards * task.b + influences
        with np.errstate(divide="ignore"):
            scores = np.where(influences < task.epsilon, cards / (task.epsilon - influences), inf)
        least = int(losses.argmin())
        score = min(best.score, float(scores.min()))
        if losses[least] < best.loss:
            best = Choice((first, int(sizes[least])), float(losses[least]), score)
        best = replace(best, score=score)
    return best


def score_by_quilts(side: Side, task: Task) -> float:
    """Scale over L that is enough by [Q] Theorem 4.3; if above 1 / b, a lower bound on it."""
    if task.length * task.b <= task.epsilon:
        return task.length / task.epsilon  # the trivial quilt, for every node
    worst, hint = 0.0, task.hint
    for node in range(1, min(task.length, side.settled + task.reach + side.period) + 1):
        found = best_choice(
            task,
            side.pairs(node),
            partial(_left_table, side, node, lambda _: inf),
            partial(_right_table, side, node, lambda _: inf),
            (node, task.length - node + 1),
            hint,
        )
        worst, hint = max(worst, found.score), found.blocks
        if found.loss > task.epsilon:
            return found.score
    return worst


def loss_by_curve(side: Side, task: Task) -> float:
    """Largest loss of an entry by THEORY.md, or one that is above epsilon."""
    if task.length * task.b <= task.epsilon:
        return task.length * task.b
    loss = _loss(side, task, every_node=task.length <= SHORT)
    if loss == inf and SHORT < task.length <= MEDIUM:
        loss = _loss(side, task, every_node=True)
    return loss


def _loss(side: Side, task: Task, *, every_node: bool) -> float:
    """The first nodes by their own alpha, the others by one bound; beta by one, or every node's."""
    length, first = task.length, 0
    if every_node or side.settled:
        first = length if every_node else side.settled + task.reach + side.period
        first = min(first, length)

    def to_left(node: int, block: int, variation: float) -> float:
        return float(side.left(node, block, variation)[side.pairs(node)].max())

    def to_right(place: int, block: int, variation: float) -> float:
        pairs = side.pairs(length + 1 - place) if every_node else anywhere
        return float(side.right(block, variation)[pairs].max())

    alpha = _variations(first, task, to_left)
    if every_node:
        beta = _variations(length, task, to_right)
    else:
        anywhere = np.any([side.pairs(node) for node in range(1, max(1, first) + 1)], axis=0)
        beta = [_fixed_point(task, task.b, [partial(to_right, 0)])]
    # The nodes after the first ones repeat these.
    last = first or task.reach + 1  # stationary, or any start: one node stands for all
    others = range(last - side.period + 1, last + 1)
    rest = task.b
    if first < length:
        recent = max(alpha[-task.reach :], default=task.b)
        rest = _fixed_point(task, recent, [partial(to_left, node) for node in others])
    if max(*alpha, *beta, rest) > task.epsilon:
        return inf  # a loss is never below the variation on one of its sides

    def beyond(node: int) -> float:
        return beta[length - node] if every_node else beta[0]

    largest, hint = 0.0, task.hint
    nodes = [(node, True) for node in range(1, first + 1)]
    nodes += [(node, False) for node in others] if first < length else []
    for node, own in nodes:
        found = best_choice(
            task,
            side.pairs(node),
            partial(_left_table, side, node, (lambda n: alpha[n - 1]) if own else (lambda _: rest)),
            partial(_right_table, side, node, beyond),
            (node, length - node + 1) if own else (length, length),
            hint,
        )
        largest, hint = max(largest, found.loss), found.blocks
        if largest > task.epsilon:
            break
    return largest


def _left_table(side: Side, node: int, alpha: Callable[[int], float], block: int) -> Floats:
    return side.left(node, block, alpha(node - block))


def _right_table(side: Side, node: int, beta: Callable[[int], float], block: int) -> Floats:
    return side.right(block, beta(node + block))


def _variations(count: int, task: Task, step: Callable[[int, int, float], float]) -> list[float]:
    """Alpha of the first nodes, or beta of the last: the recursion of THEORY.md."""
    found: list[float] = []
    for node in range(1, count + 1):
        least = node * task.b
        for block in range(1, min(node - 1, task.reach) + 1):
            if block * task.b >= least:
                break
            least = min(least, block * task.b + step(node, block, found[node - block - 1]))
        found.append(least)
    return found


def _fixed_point(task: Task, low: float, steps: Sequence[Callable[[int, float], float]]) -> float:
    """A v, close to the least from ``low`` up, with F(v) <= v for each; infinite above epsilon.

    F(v) is the least m b + step(m, v). If F(v) <= v and the variations before a stretch are at most
    v, so are those of the stretch, by induction; blocks that overhang the end cost m b at most.
    """
    last = 1

    def holds(v: float) -> bool:
        nonlocal last
        for step in steps:
            for block in (last, *range(1, int(v / task.b) + 1)):
                if block * task.b + step(block, v) <= v:
                    last = block
                    break
            else:
                return False
        return True

    high = task.epsilon
    if low > high or not holds(high):
        return inf
    if holds(low):
        return low
    while high > low * (1 + _PRECISION):
        middle = sqrt(low * high)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def spread_by_neighbours(member: Member, length: int) -> float:
    """Ghosh and Kleinberg (2016): twice the largest row sum of (I - Gamma)^-1, or infinite.

    Gamma is T x T with gamma beside the diagonal: half the largest log-ratio of the law of an entry
    given its neighbours when one of them changes.
    """
    if length == 1:
        return 2.0
    matrix = member.chain.transition
    families = [matrix]  # the last entry, given its left neighbour
    if length > 2:  # entries between, given the other neighbour
        families += [row * matrix.T for row in matrix]
        families += [matrix * column for column in matrix.T]
    largest = 0.0
    if member.any_start:  # the first entry: the projective diameter
        columns = log_ratios(matrix.T, matrix.T > 0)
        with np.errstate(invalid="ignore"):
            largest = float(np.nan_to_num(columns + columns.T, nan=inf, posinf=inf).max())
    else:
        families.append((member.chain.initial[:, None] * matrix).T)
    for joint in families:
        rows = joint[joint.sum(axis=1) > 0]
        laws = rows / rows.sum(axis=1, keepdims=True)
        largest = max(largest, float(log_ratios(laws, laws > 0).max(initial=0.0)))
    gamma = largest / 2
    if gamma == inf or 2 * gamma * cos(pi / (length + 1)) >= 1:
        return inf
    if length <= MEDIUM:
        beside = np.eye(length, k=1) + np.eye(length, k=-1)
        sums = np.linalg.solve(np.eye(length) - gamma * beside, np.ones(length))
        return 2 * float(sums.max())
    # Counted from the middle, x_j = (1 - cosh(j mu) / cosh(c mu)) / (1 - 2 gamma) solves
    # -gamma x_{j-1} + x_j - gamma x_{j+1} = 1 with cosh(mu) = 1 / (2 gamma), c = (T + 1) / 2.
    middle, end = (0.0 if length % 2 else 0.5), (length + 1) / 2
    if gamma == 0.5:
        return 2 * (end**2 - middle**2)
    mu = cmath.acosh(1 / (2 * gamma)) if gamma > 0 else inf
    share = cmath.cosh(middle * mu) / cmath.cosh(end * mu) if (end * mu).real < 700 else 0.0
    return 2 * (1 - share.real) / (1 - 2 * gamma)
