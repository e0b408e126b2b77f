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

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from pufferkit.checks import Floats
from pufferkit.influence.curve.removals import batches, followed, strengths
from pufferkit.rounding import EPS

_UNDERFLOW = -600.0


class AveragingPath(NamedTuple):
    """The order of removal of nodes, and whether each is averaged (``a``) or paid (``p``)."""

    order: tuple[int, ...]
    moves: str


Added = tuple[Floats, list[AveragingPath]]
"""What a removal adds to each pair of values of each node that stays, and how."""


class Clique:
    """The distribution of a clique.

    Attributes
    ----------
    table
        Its logarithm, an axis for each node.
    error
        Bound on the relative error of every probability.
    positive
        Whether all values can happen together.
    strengths
        [k, j]: bound on how far node k moves the distribution of node j; made when needed.
    """

    def __init__(self, table: Floats, error: float) -> None:
        self.table, self.error = table, error
        self.positive = bool(np.isfinite(table).all())
        self.strengths: Floats | None = None
        self.known: dict[object, Added] = {}

    @cached_property
    def logs(self) -> bool:
        """Whether probabilities are kept as logarithms: some are zero, or would underflow."""
        return bool(self.table.min(initial=0.0) < _UNDERFLOW)

    @cached_property
    def weights(self) -> Floats:
        """The distribution, or its logarithm if ``logs``."""
        return self.table if self.logs else np.exp(self.table)


class Removal(NamedTuple):
    """Nodes ``out`` of a clique, each with its V so far, are removed; ``targets`` stay.

    Matrices of V have the same size for all nodes, with zeros beyond the values of a node.
    """

    clique: Clique
    targets: tuple[int, ...]
    out: tuple[int, ...]
    variations: Floats

    def all_paid(self) -> Floats:
        """What is added to the targets if all are paid."""
        most = self.variations.shape[-1]
        sizes = np.array([self.clique.table.shape[target] for target in self.targets])
        inside = np.arange(most) < sizes[:, None]
        outside = inside[:, :, None] & inside[:, None, :] & ~np.eye(most, dtype=bool)
        paid = float(self.variations.max(axis=(1, 2)).sum()) * (1 + len(self.out) * EPS)
        return np.where(outside, paid, 0.0)


class _Way(NamedTuple):
    removal: Removal
    order: tuple[int, ...]

    @property
    def axes(self) -> tuple[int, ...]:
        """The nodes of the clique: removed, staying, and targets."""
        out, targets = self.removal.out, self.removal.targets
        stay = (a for a in range(self.removal.clique.table.ndim) if a not in out + targets)
        return (*self.order, *stay, *targets)


def added(removals: Sequence[Removal]) -> list[Added]:
    """For each node that stays, the least that each removal was seen to add, and how."""
    keys = [(own.targets, own.out, own.variations.tobytes()) for own in removals]
    fresh: dict[Callable[..., Iterator[Added]], dict[tuple[int, object], Removal]] = {}
    for own, key in zip(removals, keys, strict=True):
        if key not in own.clique.known:
            alone = _without_one if len(own.out) == 1 else _each_apart
            kind = alone if own.clique.positive else _least
            fresh.setdefault(kind, {})[id(own.clique), key] = own
    for kind, each in fresh.items():
        for ((_, asked), own), answer in zip(each.items(), kind([*each.values()]), strict=True):
            own.clique.known[asked] = answer
    return [own.clique.known[key] for own, key in zip(removals, keys, strict=True)]


def _without_one(removals: Sequence[Removal]) -> Iterator[Added]:
    """One node is taken out: it is averaged or paid, whichever adds less to each target."""
    each = _followed([_Way(own, own.out) for own in removals], greedy=False)
    for own, (steps, moves) in zip(removals, each, strict=True):
        paid = own.all_paid()
        averaged = (steps.max(axis=(1, 2)) < paid.max(axis=(1, 2))) & (moves == "a")
        ways = [AveragingPath(own.out, "a" if move else "p") for move in averaged]
        yield np.where(averaged[:, None, None], steps, paid), ways


def _each_apart(removals: Sequence[Removal]) -> Iterator[Added]:
    """Where all values can happen together, the best way may be another one for each target."""
    each = _least([own._replace(targets=(n,)) for own in removals for n in own.targets])
    for own in removals:
        answers = [next(each) for _ in own.targets]
        matrices = [matrix for matrix, _ in answers] or [own.all_paid()]
        yield np.concatenate(matrices), [way for _, ways in answers for way in ways]


def _least(removals: Sequence[Removal]) -> Iterator[Added]:
    """The least of the ways that are tried, the same one for all targets of a removal."""
    _make_strengths(own.clique for own in removals if len(own.out) > 1)
    ways = [_Way(own, order) for own in removals for order in _orders(own)]
    greedy = _followed(ways, greedy=True)
    again = [way for way, (_, moves) in zip(ways, greedy, strict=True) if "p" in moves]
    tried, others = iter(zip(ways, greedy, strict=True)), iter(_followed(again, greedy=False))
    for own in removals:
        best = own.all_paid()
        path = AveragingPath(own.out, "p" * len(own.out))
        for _ in range(min(2, len(own.out))):
            way, answer = next(tried)
            for matrices, moves in (answer, *([next(others)] if "p" in answer[1] else [])):
                if _total(matrices) < _total(best):
                    best, path = matrices, AveragingPath(way.order, moves)
        yield best, [path] * len(own.targets)


def _total(matrices: Floats) -> float:
    return float(matrices.max(axis=(1, 2), initial=0.0).sum())


def _orders(removal: Removal) -> list[tuple[int, ...]]:
    """Rising and falling by how far a target moves each node."""
    if len(removal.out) < 2:
        return [removal.out] if removal.out else []
    assert removal.clique.strengths is not None
    # Rounded, so that the last digit does not decide between nodes that are alike.
    strength = removal.clique.strengths[list(removal.targets)].sum(axis=0).round(9)
    rising = tuple(sorted(removal.out, key=lambda j: (strength[j], j)))
    return [rising, rising[::-1]]


def _make_strengths(cliques: Iterable[Clique]) -> None:
    """For those that have none yet, cliques of one shape side by side."""
    shapes: dict[object, list[Clique]] = {}
    for own in {id(own): own for own in cliques if own.strengths is None}.values():
        shapes.setdefault((own.table.shape, own.logs), []).append(own)
    for alike in shapes.values():
        for part in batches(len(alike), alike[0].table.shape):
            tables = np.stack([own.weights for own in alike[part]])
            errors = np.array([own.error for own in alike[part]])
            matrices = strengths(tables, alike[0].logs, errors)
            for own, matrix in zip(alike[part], matrices, strict=True):
                own.strengths = matrix


def _followed(ways: Sequence[_Way], *, greedy: bool) -> list[tuple[Floats, str]]:
    """What each way adds to its targets, and its moves; ways of one shape side by side."""
    shapes: dict[object, list[int]] = {}
    for number, way in enumerate(ways):
        clique, targets = way.removal.clique, way.removal.targets
        shape = tuple(clique.table.shape[a] for a in way.axes)
        key = shape, len(way.order), len(targets), clique.logs
        shapes.setdefault(key, []).append(number)
    answers: list[tuple[Floats, str]] = [(np.zeros(0), "")] * len(ways)
    for alike in shapes.values():
        shape = ways[alike[0]].removal.clique.table.shape
        for part in batches(len(alike), shape):
            own = alike[part]
            for number, answer in zip(
                own, _side_by_side([ways[n] for n in own], greedy), strict=True
            ):
                answers[number] = answer
    return answers


def _side_by_side(ways: Sequence[_Way], greedy: bool) -> Iterator[tuple[Floats, str]]:
    """`_followed` for ways of one shape."""
    cliques = [way.removal.clique for way in ways]
    tables = np.stack(
        [own.weights.transpose(way.axes) for own, way in zip(cliques, ways, strict=True)]
    )
    variations = np.stack(
        [way.removal.variations[[way.removal.out.index(j) for j in way.order]] for way in ways],
        axis=1,
    )
    errors = np.array([own.error for own in cliques])
    targets = len(ways[0].removal.targets)
    matrices, pays = followed(tables, cliques[0].logs, variations, targets, errors, greedy)
    for number, own in enumerate(pays.tolist()):
        yield matrices[:, number], "".join("p" if pay else "a" for pay in own)
