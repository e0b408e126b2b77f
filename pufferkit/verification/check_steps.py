"""Steps: bounds on how far means of a function given two rows are apart, evaluated, not searched.

The variation B bounds log g(y) / g(z) of a positive function g. The step of two distributions p and
q is the largest log-ratio of the means of such a g. A formula bounds it by the largest B alone, for
rows that are known, within bounds, or near one another (`_formula`); another for an entry of any
distribution (`_any_distribution`). All others are values of recorded transport plans: every plan is
an upper bound, and none is solved for.

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

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise, product
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pufferkit.checks import Bools, Floats
from pufferkit.records import unpacked
from pufferkit.rounding import EPS
from pufferkit.verification.claims import Allowance

STAY, NONE = 255, 254
"""All mass stays in place; there is no plan."""

LARGEST = 600.0
"""Variations up to this have an exponential that is far from the largest float."""

_ROUNDING = 1e-13
_UP = 1 + 16 * EPS
_TINY = 1e-280
_AT_ONCE = 1 << 18


class Plans:
    """The trees of a text, one kernel after another; each as its difference from the one before."""

    def __init__(self, text: Any) -> None:
        self._bytes = unpacked(text)
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


# --- steps ----------------------------------------------------------------------------------------


def evaluated(steps: Any, variation: Floats, plans: Any, work: Allowance) -> Floats:
    """A bound on the step of every pair of values, by the text of its plans or by its formula."""
    with np.errstate(all="ignore"):
        return Evaluator(plans, work).step(steps, variation)


class Evaluator:
    """Steps by the recorded plans, one after another, or by formulas."""

    def __init__(self, text: Any, work: Allowance) -> None:
        self.plans, self.work = None if text is None else Plans(text), work

    def step(self, steps: Any, variation: Floats) -> Floats:
        """A bound on the step of every pair of values at this variation, 0 on the diagonal."""
        self.work.spend(2e4)
        if steps.kind == "plans":
            return self._by_plans(steps, variation)
        if steps.kind == "contaminated":
            rows = steps.rows
            table = self._by_plans(steps.programmes, _with_extremes(variation))[:rows, rows:]
            return off_diagonal(table)
        if steps.kind == "tilted":  # rows reweighted by a function that varies by the tilt
            most = float(variation.max())
            more = 2 * float(_contracted(np.array(float(steps.tilt)), most, 4))
            return off_diagonal((self._by_plans(steps.programmes, variation) + more) * _UP)
        if not float(variation.max()) <= LARGEST:
            return np.where(np.eye(len(variation)) > 0, 0.0, inf)
        if steps.kind == "any distribution":
            self.work.spend(2.0 * len(variation) ** 4)
            return _any_distribution(steps, variation)
        widest = float(np.where(steps.counted, variation, 0.0).max())
        table = _formula(steps, widest)
        # A way over a value that is not possible is never the shorter one.
        worst = float(table[steps.counted].max(initial=0.0))
        return off_diagonal(np.where(steps.counted, table, worst))

    def _by_plans(self, steps: Any, variation: Floats) -> Floats:
        """The largest over the kernels of a hull; without plans, at the largest variation."""
        tables = []
        for kernel in steps.kernels:
            self.work.spend(100.0 * len(kernel) ** 2 * kernel.shape[1])
            if not float(variation.max()) <= LARGEST:
                own = np.full((len(kernel), len(kernel)), inf)
            elif self.plans is not None:
                own = plan_values(kernel, variation, self.plans.following(kernel), steps.half)
            else:
                own = row_steps(kernel, kernel > 0, float(variation.max()))
            tables.append(own)
        largest: Floats = np.max(tables, axis=0)
        return off_diagonal(largest + float(steps.error))

    def end(self) -> None:
        """All recorded plans must have been used."""
        if self.plans is not None:
            self.plans.end()


def _with_extremes(variation: Floats) -> Floats:
    """The variation with the largest and the smallest value of a function as two more states.

    For rows of which a share is unknown: it is at the largest value above, the smallest below.
    """
    k = len(variation)
    larger = np.zeros((k + 2, k + 2))
    larger[:k, :k] = variation
    larger[k, :k], larger[:k, k + 1] = variation.max(axis=0), variation.max(axis=1)
    larger[k, k + 1] = variation.max()
    return larger


def _any_distribution(steps: Any, variation: Floats) -> Floats:
    """Steps to an entry of any distribution (PAIRS Theorem 5): over pairs u, u' the largest s.

    tanh(s / 4) = tanh(D / 4) tanh(B(u, u') / 4),  D = log of P(u,x) P(u',x') / (P(u,x') P(u',x)),

    with P the kernel of a block; s = B(u, u') where the denominator is zero.
    """
    keep, error = np.flatnonzero(steps.columns), float(steps.error)
    values, possible = steps.kernel.values[keep].T, steps.kernel.possible[keep].T  # x, u
    roots, sure = np.where(possible, np.sqrt(values), 0.0), possible & (values >= _TINY)
    ahead, table = variation[np.ix_(keep, keep)], np.zeros_like(variation)
    gains = np.tanh(ahead / 4)
    for x in np.flatnonzero(steps.rows):  # of every x', u, u'
        above = roots[x][None, :, None] * roots[:, None, :]
        below = roots[:, :, None] * roots[x][None, None, :]
        tilts = (above - below) / (above + below)
        known = (sure & sure[x])[:, :, None] & (sure & sure[x])[:, None, :]
        counts = possible[x][None, :, None] & possible[:, None, :]
        bends = counts & known & (tilts * _UP + error < 1)
        most = np.where(bends, tilts * gains, 0.0).max(axis=(1, 2), initial=0.0) * _UP
        most = np.minimum(most + error * float(gains.max(initial=0.0)), 1 - EPS)
        certain = np.where(counts & ~bends, ahead, 0.0).max(axis=(1, 2), initial=0.0)
        table[x] = np.maximum(4 * np.arctanh(most) * _UP, certain)
    # A way over a value that is not possible is never the shorter one.
    both = np.outer(steps.rows, steps.rows)
    inside = off_diagonal(np.where(both, table, 0.0))
    return off_diagonal(np.where(both, table, inside.max(initial=0.0)))


def _formula(steps: Any, a: float) -> Floats:
    """The step of every pair of rows between functions that vary by at most ``a``, by its kind."""
    kind, size = steps.kind, len(steps.counted)
    if kind == "ratio":  # of any rows with log-ratios up to this
        most = _contracted(np.array(steps.ratio), a, 2)
    elif kind == "diameters":  # over all reweightings of columns at this projective distance
        most = _contracted(steps.diameters, a, 4)
    else:
        known = kind == "rows"
        most = np.array(a) if known else _contracted(np.array(steps.diameter), a, 4)
    table = np.broadcast_to(most, (size, size))
    if kind == "rows":
        table = row_steps(steps.kernel.values, steps.kernel.possible, a) + float(steps.error)
    elif kind == "entries":
        table = _prefixes(steps.upper, steps.lower, a, _MEANS)
    elif kind == "sets" and steps.upper.shape[1]:
        above, below = _log_mean(steps.upper, a), _log_mean(steps.lower, a)
        table = (above[:, None, :] - below[None, :, :]).max(axis=2) + 1e-12
    elif kind == "sets":
        table = np.zeros((size, size))
    elif kind not in ("ratio", "diameters"):
        raise TypeError(f"there is no formula for steps of kind {kind!r}")
    return np.minimum(np.maximum(table, 0.0), most)


_MEANS = (0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (1.0, 1.0), (0.5, 0.5)


def row_steps(values: Floats, possible: Bools, a: float) -> Floats:
    """The same of known rows; what underflowed may be zero or not."""
    upper = np.where(possible, np.maximum(values, _TINY), 0.0)
    lower = np.where(values >= _TINY, values, 0.0)
    return off_diagonal(_prefixes(upper, lower, a, _MEANS[:1]))


def _prefixes(
    upper: Floats, lower: Floats, a: float, means: Sequence[tuple[float, float]]
) -> Floats:
    """For all rows x, x' the largest log of (1 + c K(x, S)) / (1 + c K'(x', S)), c = e^a - 1.

    From bounds on the entries of rows that sum to one: K(S) is at most both the sum of the upper
    bounds in S and one less the lower bounds outside of it, so at most any mean of the two, and
    likewise from below: affine functions of S, by which the best set is a prefix of the states in
    the order of their ratios.
    """
    size, slack = len(lower), 8 * lower.shape[1] * EPS
    best, rest, share = np.full((size, size), a), np.exp(-a), -np.expm1(-a)
    many = max(1, _AT_ONCE // lower.size)
    for (u, v), start in product(means, range(0, size, many)):
        own = slice(start, start + many)
        more, less = ((1 - u) * upper + u * lower)[own, None, :], (1 - v) * lower + v * upper
        top = u * (np.maximum(1 - lower.sum(axis=1), 0.0) + slack * (u > 0))[own, None, None]
        bottom = v * (1 - upper.sum(axis=1) - slack * (v > 0))[None, :, None]
        ratio = np.where(more > 0, more / less[None], -1.0)
        order = np.argsort(-ratio, axis=2)
        above, below = (
            np.take_along_axis(np.broadcast_to(one, ratio.shape), order, axis=2).cumsum(axis=2)
            for one in (more, less[None])
        )
        above, below = above * (1 + slack), below * (1 - slack)
        above = np.concatenate([np.broadcast_to(top, (*ratio.shape[:2], 1)), above + top], axis=2)
        below = np.concatenate([np.broadcast_to(bottom, (*ratio.shape[:2], 1)), below + bottom], 2)
        rises, under = share * (above - below), rest + share * below
        logs = np.log1p(np.maximum(rises / under, 0.0).max(axis=2)) + slack
        bounded = (under > 0).all(axis=2) | (u == v == 0)  # else prefixes no longer decide
        best[own] = np.where(bounded & (logs < best[own]), logs, best[own])
    return best


def _log_mean(share: Floats, a: float) -> Floats:
    """log(1 + share (e^a - 1)), less a."""
    return np.asarray(np.log(np.exp(-a) - np.expm1(-a) * share))


def _contracted(limit: Floats, a: float, scale: int) -> Floats:
    """The s with tanh(s / scale) = tanh(limit / scale) tanh(a / scale), rounded up."""
    most, least = np.maximum(limit, a), np.minimum(limit, a)
    small = scale * np.arctanh(np.tanh(limit / scale) * np.tanh(a / scale)) * (1 + 1e-14)
    high, low = 2 * most / scale, 2 * least / scale
    large = low + np.log1p(np.exp(-high - low)) - np.log1p(np.exp(low - high))
    large = scale / 2 * large * (1 + 1e-14) + 1e-15 * scale
    found = np.minimum(np.where(least < 8, small, large), least)
    return np.where(np.isfinite(most) & np.isfinite(found), found, least)


# --- matrices -------------------------------------------------------------------------------------


def closed(variation: Floats) -> Floats:
    """The triangle closure: shortest paths, rounded up; the allowed functions stay the same."""
    nearest = off_diagonal(variation)
    for middle in range(len(nearest)):
        ways = nearest[:, middle, None] + nearest[None, middle, :]
        nearest = np.minimum(nearest, ways * (1 + 2 * EPS))
    return nearest


def off_diagonal(table: Floats) -> Floats:
    """The table with nothing to lose between a value and itself."""
    return np.where(np.eye(len(table)) > 0, 0.0, table)
