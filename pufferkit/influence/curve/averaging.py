"""The influence curve of any graph: nodes are averaged out one at a time.

Secrets: any two values of one node. Beliefs: one distribution of the nodes. Releases: any with
per-node costs.

Let replacing the value x of node k by x' move the log-likelihood f of the output by at most
cost_k(x, x'). For a function F > 0 of the data of a set S of nodes let V_k(x, x') bound log F(x, u)
/ F(x', u) over all data u of S without k. At first S is the set of all nodes and F = f, so that
V_k = cost_k; then nodes j other than the secret one are removed from S, one after another, in one
of two ways. Write p(. | v) for the distribution of X_j given the data v of the rest of S.

*Average*: F'(v) = sum over y of p(y | v) F(y, v), and for each remaining k

    V'_k(x, x') = V_k(x, x') + max over u of step(p(. | x, u), p(. | x', u); V_j)

with step the transport programme of `pufferkit.influence.curve.transport_programme` (0 for nodes k
that p does not depend on).

*Pay*: F'(v) = the least F(y, v) over y, V' = V, and the largest entry of V_j is added to a total.

**Theorem.** A release of these costs is epsilon-Pufferfish private for every i with epsilon = the
total + the largest entry of V_i when only i is left, whatever the order and the choices.

*Proof.* E[f | X_i = x] = E[F(X_S) | X_i = x] holds at first, and averaging preserves it: F'(X_S')
is the mean of F(X_S) given X_S', i is in S', and means of means are means. Where k goes from x to
x' and the rest u of S' stays, F(y, x, u) is at most e^V_k(x, x') F(y, x', u) for every y, and y ->
F(y, x', u) varies by at most V_j, so that

    F'(x, u) <= e^V_k sum over y of p(y | x, u) F(y, x', u)
             <= e^(V_k + step) sum over y of p(y | x', u) F(y, x', u) = e^(V_k + step) F'(x', u).

Paying: F' <= F <= e^(the largest entry of V_j) F', so means of F and of F' differ by at most that
factor, upwards for x and not at all for x'; and the minimum of functions that vary by V_k in k
varies by V_k. When only i is left, F is a function of X_i. QED

What p(. | v) is where v cannot happen does not matter for the means, so there it may be any
distribution; it is taken from the nearest v that can happen.

*Junction trees.* All nodes beyond a separator are averaged out within their own part of the tree,
and they raise V of the nodes of the separator alone: a message. Two passes give the messages in
both directions of every edge, and then each node is left alone in a clique of its own. The V of a
message for node k of a separator speaks of data that differ in k alone, and where all values of
the separator can happen F' there is one function whatever the way. So the best way may be another
one for each k, and what is paid for there is added to V_k. Where some values of the clique cannot
happen together, different ways would speak of different functions: F' is known for the values that
can happen, and the V of one way bound its logarithm between any two of them, also if they differ in
several nodes; that is what lets F' be continued to the others. So there all nodes of a separator
take the same way. On a tree without paying this is the curve of `pufferkit.influence.curve.trees`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import exp
from typing import Any, NamedTuple

import numpy as np

from pufferkit.beliefs.junction_tree import log_sum
from pufferkit.checks import Floats
from pufferkit.influence.curve.pairs import LARGEST, off_diagonal
from pufferkit.rounding import EPS

_MANY = 4096  # rows from which on looking for the extreme ones is worth it


class AveragingPath(NamedTuple):
    """The order of removal of nodes, and whether each is averaged (``a``) or paid (``p``)."""

    order: tuple[int, ...]
    moves: str


@dataclass(frozen=True, eq=False)
class _Stage:
    """The removal of node ``j``: its distributions given each pair of values of another node.

    ``binary`` has, for every other node and every u (the last axis), p(0 | 0, u), p(1 | 0, u),
    p(0 | 1, u) and p(1 | 1, u), if all have two values; otherwise ``kernels`` has an
    array (u, x, y) for each.
    """

    j: int
    others: tuple[int, ...]
    binary: tuple[Floats, ...] | None
    kernels: tuple[Floats, ...]
    error: float

    def steps(self, variation: Floats) -> Floats | list[Floats]:
        """The step that averaging j adds to each other node."""
        if self.binary is None:
            largest = float(variation.max())
            return [scalar_steps(kernel, largest) + self.error for kernel in self.kernels]
        # The extreme likelihood ratios of value 1 against value 0.
        odds = np.array([[[exp(variation[1, 0])], [exp(-variation[0, 1])]]])
        p0, p1, q0, q1 = self.binary
        ratios = ((p0 + p1 * odds) / (q0 + q1 * odds)).reshape(len(self.others), -1)
        added = np.zeros((len(self.others), 2, 2))
        added[:, 0, 1] = np.log(ratios.max(axis=1)) + self.error
        added[:, 1, 0] = self.error - np.log(ratios.min(axis=1))
        return added


def _total(matrices: Floats | Sequence[Floats]) -> float:
    if isinstance(matrices, np.ndarray):
        return float(matrices.max(axis=(1, 2)).sum())
    return sum(float(own.max()) for own in matrices)


def scalar_steps(kernels: Floats, largest: float) -> Floats:
    """The largest step over kernels (u, x, y) for each pair of rows, given one variation."""
    growth = np.expm1(largest)
    p, q = np.broadcast_arrays(kernels[:, :, None, :], kernels[:, None, :, :])
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(q > 0, p / q, np.where(p > 0, np.inf, 0.0))
    order = np.argsort(-ratio, axis=-1)
    more = np.cumsum(np.take_along_axis(p, order, axis=-1), axis=-1)
    less = np.cumsum(np.take_along_axis(q, order, axis=-1), axis=-1)
    logs = np.log1p(more * growth) - np.log1p(less * growth)
    steps: Floats = np.maximum(logs.max(axis=(0, 3)), 0.0)
    np.fill_diagonal(steps, 0.0)
    return steps


class Clique:
    """The distribution of a clique, and what removing some of its nodes adds to another node."""

    def __init__(self, table: Floats, error: float) -> None:
        self.table, self.error = table, error
        self._stages: dict[tuple[Any, ...], _Stage] = {}
        self._rows: dict[tuple[frozenset[int], int], dict[int, Floats]] = {}
        self._known: dict[tuple[Any, ...], tuple[list[Floats], AveragingPath]] = {}
        self._alone: dict[tuple[Any, ...], list[tuple[Floats, AveragingPath]]] = {}
        self._positive = bool(np.isfinite(table).all())

    def added(
        self, targets: Sequence[int], out: tuple[int, ...], variations: Sequence[Floats]
    ) -> list[tuple[Floats, AveragingPath]]:
        """For each node that stays, the least that taking out others was seen to add, and how."""
        if self._positive and len(out) == 1 and targets:
            return self._without_one(tuple(targets), out, variations[0])
        if self._positive or not targets:
            each = [self._least((target,), out, variations) for target in targets]
            return [(matrices[0], way) for matrices, way in each]
        matrices, way = self._least(tuple(targets), out, variations)
        return [(own, way) for own in matrices]

    def _without_one(
        self, targets: tuple[int, ...], out: tuple[int, ...], variation: Floats
    ) -> list[tuple[Floats, AveragingPath]]:
        """One node is taken out: it is averaged or paid, whichever adds less to each target."""
        key = targets, out, variation.tobytes()
        if key not in self._alone:
            largest = float(variation.max())
            stage = self._stage(frozenset(range(self.table.ndim)), out[0], targets)
            each = []
            for step in stage.steps(np.minimum(variation, LARGEST)):
                paid, raised = largest * (1 + EPS), 1 + 2 * EPS
                if largest <= LARGEST and float(step.max()) * raised < paid:
                    averaged = step * off_diagonal(len(step)) * raised
                    each.append((averaged, AveragingPath(out, "a")))
                else:
                    each.append((paid * off_diagonal(len(step)), AveragingPath(out, "p")))
            self._alone[key] = each
        return self._alone[key]

    def _least(
        self, targets: tuple[int, ...], out: tuple[int, ...], variations: Sequence[Floats]
    ) -> tuple[list[Floats], AveragingPath]:
        """The least of the ways that are tried, the same one for all targets."""
        sizes = [self.table.shape[target] for target in targets]
        if not out:
            return [np.zeros((size, size)) for size in sizes], AveragingPath((), "")
        key = targets, out, b"".join(own.tobytes() for own in variations)
        if key not in self._known:
            paid = sum(float(own.max()) for own in variations) * (1 + len(out) * EPS)
            best = [paid * off_diagonal(size) for size in sizes], AveragingPath(out, "p" * len(out))
            own = dict(zip(out, variations, strict=True))
            for order in self._orders(targets, out):
                for greedy in (True, False):
                    other = self._follow(targets, order, own, greedy)
                    if _total(other[0]) < _total(best[0]):
                        best = other
                    if "p" not in other[1].moves:
                        break
            self._known[key] = best
        return self._known[key]

    def _orders(self, targets: tuple[int, ...], out: tuple[int, ...]) -> list[tuple[int, ...]]:
        if len(out) == 1:
            return [out]
        # Rounded, so that the last digit does not decide between nodes that are alike.
        strength = self._strengths[list(targets)].sum(axis=0).round(9)
        rising = tuple(sorted(out, key=lambda j: (strength[j], j)))
        return [rising, rising[::-1]]

    @cached_property
    def _strengths(self) -> Floats:
        """Bound on how far node k moves the distribution of node j: [k, j]."""
        count = self.table.ndim
        strengths = np.zeros((count, count))
        for j in range(count):
            stage = self._stage(
                frozenset(range(count)), j, tuple(k for k in range(count) if k != j)
            )
            for k, own in zip(
                stage.others, stage.steps(off_diagonal(self.table.shape[j])), strict=True
            ):
                strengths[k, j] = own.max()
        return strengths

    def _follow(
        self,
        targets: tuple[int, ...],
        order: tuple[int, ...],
        own: Mapping[int, Floats],
        greedy: bool,
    ) -> tuple[list[Floats], AveragingPath]:
        variations = dict(own)
        for target in targets:
            variations[target] = np.zeros((self.table.shape[target],) * 2)
        left, paid, moves = frozenset(range(self.table.ndim)), 0.0, ""
        for place, j in enumerate(order):
            mine = variations.pop(j)
            others = (*order[place + 1 :], *targets)
            steps = self._stage(left, j, others).steps(np.minimum(mine, LARGEST))
            largest = float(mine.max())
            left -= {j}
            if largest > LARGEST or (greedy and _total(steps) >= largest):
                paid += largest
                moves += "p"
                continue
            moves += "a"
            for k, step in zip(others, steps, strict=True):
                variations[k] = variations[k] + step
        raised = 1 + 2 * len(order) * EPS
        added = [
            (variations[target] + paid) * off_diagonal(len(variations[target])) * raised
            for target in targets
        ]
        return added, AveragingPath(order, moves)

    def _stage(self, left: frozenset[int], j: int, others: tuple[int, ...]) -> _Stage:
        key = left, j, others
        if key not in self._stages:
            own = [self._kernels(left, j, k) for k in others]
            slack = 4 * self.error + 64 * EPS
            binary = None
            if all(rows.shape[1:] == (2, 2) for rows in own):
                most = max(len(rows) for rows in own)
                # The last ones once more, so that all are of one length.
                stacked = np.array(
                    [rows[np.minimum(np.arange(most), len(rows) - 1)] for rows in own]
                    if any(len(rows) < most for rows in own)
                    else own
                )
                binary = tuple(
                    np.ascontiguousarray(stacked[:, None, :, x, y]) for x in (0, 1) for y in (0, 1)
                )
            self._stages[key] = _Stage(j, others, binary, () if binary else tuple(own), slack)
        return self._stages[key]

    def _kernels(self, left: frozenset[int], j: int, k: int) -> Floats:
        """For another remaining node k, p(y | x, u) as an array (u, x, y)."""
        rows = self._rows.setdefault((left, j), {})
        if j not in rows:
            table = log_sum(self.table, [a for a in range(self.table.ndim) if a not in left])
            rows[j] = conditional(table, sorted(left).index(j))
        if k not in rows:
            turned = np.moveaxis(rows[j], sorted(left - {j}).index(k), -2)
            own = turned.reshape(-1, *turned.shape[-2:])
            rows[k] = extreme(own) if own.shape[1:] == (2, 2) and len(own) > _MANY else own
        return rows[k]


def extreme(rows: Floats) -> Floats:
    """The undominated ones of pairs of distributions on two values.

    A step grows with the distance of p(1 | 0, u) from p(1 | 1, u) in either direction.
    """
    p, q = rows[:, 0, 1], rows[:, 1, 1]
    order = np.lexsort((q, -p))
    lowest = np.minimum.accumulate(q[order])
    first = order[np.r_[True, lowest[1:] < lowest[:-1]]]
    back = np.lexsort((-q, p))
    highest = np.maximum.accumulate(q[back])
    second = back[np.r_[True, highest[1:] > highest[:-1]]]
    return rows[np.union1d(first, second)]


def conditional(table: Floats, axis: int) -> Floats:
    """The distribution along one axis, moved to the end, given all others.

    Given impossible values of the others, the mean over the nearest possible ones.
    """
    logs = np.moveaxis(table, axis, -1)
    whole = log_sum(logs, [logs.ndim - 1])
    known = whole > -np.inf
    kernel: Floats = np.where(
        known[..., None], np.exp(logs - np.where(known, whole, 0.0)[..., None]), 0.0
    )
    while not known.all():
        sums, counts = np.zeros_like(kernel), np.zeros(known.shape)
        for along in range(known.ndim):
            sums += kernel.sum(axis=along, keepdims=True)
            counts += known.sum(axis=along, keepdims=True)
        fresh = ~known & (counts > 0)
        kernel[fresh] = sums[fresh] / counts[fresh][:, None]
        known |= fresh
    return kernel
