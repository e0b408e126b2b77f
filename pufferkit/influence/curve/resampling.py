"""A bound for graphs of any width: nodes are resampled, given their neighbours.

The setting is that of `pufferkit.influence.curve.averaging`, with all nodes in S throughout: V_k
bounds how far log F varies with node k. To *resample j*, for any j but the secret i, is to take
F'(v) = E[F | all but j] in place of F. That preserves E[F | X_i], F' does not depend on node j, and
with u the data of the other neighbours of j

    V'_j = 0,    V'_k = V_k + max over u of step(p(. | x, u), p(. | x', u); V_j)  for neighbours k.

Distributions of one node given its neighbours follow from the potentials, without inference. Let
rate_jk(a) bound the step over V_j for all V_j <= a.

**Theorem.** Let c_k > 0 be the largest cost of node k, and A_k >= c_k + sum over j of rate_jk(A_j)
A_j for all k. Then the loss of node i is at most A_i / (1 + sum over j of rate_ij(A_i)
rate_ji(A_j)).

*Proof.* Resample the nodes other than i, in turn. Node k receives c_k at first and then what
others send. Suppose no node has received more than A so far. What j sent away in all is at most
what it received, at most A_j, and so were the amounts one by one; hence k has received at most c_k
+ sum over j of rate_jk(A_j) A_j <= A_k. What is left outside i goes to zero, since A > rate^T A
entry by entry bounds the spectral radius of the rates below 1; and the loss is at most the sum of
all V_k at any time, because two data sets differ node by node. So it is at most R_i, what i
receives without ever sending. Let i send too: with rates t = rate(A) fixed, all receive the
solution of R = c + t^T R, R <= A, and R_i is what it received without sending times the sum of the
returns (t^T)^n_ii, which is at least 1 + sum over j of t_ij t_ji. QED

*Rates.* Between two distributions p, q of a node with two values whose log-odds are m + h and m -
h, the derivative of the step in V is the difference of the two probabilities, tilted by at most V:

    rate(a) = max over u of |sigma(m + t + h) - sigma(m + t - h)|,  t in [-a, a] nearest to -m,

because that difference falls with the distance of m + t from 0. For more values rate(a) = tanh(D/4)
with D the projective distance of p and q, for any a. In an Ising model it is tanh(coupling) at
most: Dobrushin's condition, with sums along all paths. Fields enter through m: where an illness is
rare, one neighbour more or less reveals little.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pufferkit.beliefs.junction_tree import LogFactor, neighbours, spread
from pufferkit.checks import Floats
from pufferkit.errors import NotApplicable
from pufferkit.rounding import EPS

MOST_AROUND = 1 << 14
"""Most entries of the table of a node and its neighbours."""

_MOST_ROUNDS = 5000
_WITHIN = 1e-7
_LARGEST = 1e3


@dataclass(frozen=True, eq=False)
class Rates:
    """For every ordered pair of neighbours j, k: how a change of k moves the distribution of j.

    ``start`` says where the rows of each pair begin; a row has |m| and h for one u.
    """

    sender: NDArray[np.intp]
    receiver: NDArray[np.intp]
    start: NDArray[np.intp]
    centre: Floats
    half: Floats
    back: NDArray[np.intp]

    @classmethod
    def of(cls, sizes: Sequence[int], factors: Sequence[LogFactor], what: str) -> Rates:
        """From the factors of a model; all of them must be above zero."""
        sender, receiver, start, centres, halves = [], [], [], list[Floats](), list[Floats]()
        known: dict[tuple[Any, ...], list[tuple[Floats, Floats]]] = {}
        rows = 0
        for j, around, local in local_tables(sizes, factors, what):
            key = local.shape, local.tobytes()
            if key not in known:
                known[key] = [_moved(local, axis) for axis in range(len(around))]
            for k, (centre, half) in zip(around, known[key], strict=True):
                sender.append(j)
                receiver.append(k)
                start.append(rows)
                centres.append(centre)
                halves.append(half)
                rows += len(centre)
        place = {pair: n for n, pair in enumerate(zip(sender, receiver, strict=True))}
        back = [place[k, j] for j, k in zip(sender, receiver, strict=True)]
        nothing = np.zeros(0)
        return cls(
            np.array(sender, dtype=np.intp),
            np.array(receiver, dtype=np.intp),
            np.array(start, dtype=np.intp),
            np.concatenate([nothing, *centres]),
            np.concatenate([nothing, *halves]),
            np.array(back, dtype=np.intp),
        )

    def at(self, amounts: Floats) -> Floats:
        """rate_jk(A_j) of every pair, rounded up."""
        if not len(self.start):
            return np.zeros(0)
        counts = np.diff(np.append(self.start, len(self.centre)))
        tilt = np.repeat(amounts[self.sender], counts)
        nearest = np.maximum(self.centre - tilt, 0.0)
        # sigma(m + h) - sigma(m - h) = sinh(h) / (cosh(h) + cosh(m)), without overflow
        grown = np.exp(-2 * self.half)
        tail = 2 * np.exp(-self.half) * np.cosh(np.minimum(nearest, 700.0))
        rates = (1 - grown) / (1 + grown + tail)
        return np.maximum.reduceat(rates, self.start) * (1 + 1e-12) + 1e-14

    def received(self, costs: Floats) -> tuple[Floats, Floats] | None:
        """A of the theorem and the rates there; ``None`` if the search has no result."""
        # The theorem needs costs above zero; larger ones are on the safe side.
        costs = np.maximum(costs, 1e-9 * float(costs.max()))
        amounts = costs * (1 + 1e-9)
        for _ in range(_MOST_ROUNDS):
            rates = self.at(amounts)
            update = costs + np.bincount(
                self.receiver, rates * amounts[self.sender], minlength=len(costs)
            )
            update *= 1 + 64 * EPS
            if bool(np.all(update <= amounts)):
                return amounts, rates
            if float(update.max()) > _LARGEST or not np.isfinite(update).all():
                return None
            amounts = np.maximum(amounts, update * (1 + _WITHIN))
        return None

    def losses(self, costs: Floats) -> Floats | None:
        """A bound on the loss of every node, rounded up; ``None`` if the coupling is too strong."""
        solved = self.received(costs)
        if solved is None:
            return None
        amounts, rates = solved
        returns = np.bincount(self.sender, rates * rates[self.back], minlength=len(costs))
        lower = 1 + returns * (1 - 1e-9)
        return amounts / lower * (1 + 16 * EPS)


def local_tables(
    sizes: Sequence[int], factors: Sequence[LogFactor], what: str
) -> Iterator[tuple[int, tuple[int, ...], Floats]]:
    """Every node, its neighbours, and the logarithm of its weight given them.

    The node itself has the last axis. All factors must be above zero.
    """
    near = neighbours(len(sizes), [scope for scope, _ in factors])
    holding: list[list[LogFactor]] = [[] for _ in sizes]
    for scope, table in factors:
        if not np.isfinite(table).all():
            raise NotApplicable(
                f"this {what} rules out some combinations of values, and without exact "
                "distributions there is a theorem only if all have positive probability"
            )
        for node in scope:
            holding[node].append((scope, table))
    for j, own in enumerate(near):
        around = tuple(sorted(own))
        entries = prod(sizes[n] for n in (*around, j))
        if entries > MOST_AROUND:
            raise NotApplicable(
                f"a node of this {what} and its {len(own)} neighbours have {entries:,} "
                f"combinations of values, more than {MOST_AROUND:,}"
            )
        local = np.zeros([sizes[n] for n in (*around, j)])
        for scope, table in holding[j]:
            local = local + spread(table, scope, (*around, j))
        yield j, around, local


def _moved(local: Floats, axis: int) -> tuple[Floats, Floats]:
    """|m| and h for every two values of one neighbour and all u, rounded to the safe side."""
    rows = np.moveaxis(local, axis, 0)
    values = len(rows)
    rows = rows.reshape(values, -1, rows.shape[-1])
    one, other = np.triu_indices(values, 1)
    slack = 1e-13 * (1 + float(np.abs(local).max()))
    if rows.shape[-1] == 2:
        odds = rows[:, :, 1] - rows[:, :, 0]
        centre = np.abs(odds[one] + odds[other]) / 2
        half = np.abs(odds[one] - odds[other]) / 2
    else:
        ratios = rows[one] - rows[other]
        half = (ratios.max(axis=2) - ratios.min(axis=2)) / 2
        centre = np.zeros_like(half)
    if not half.size:
        return np.zeros(1), np.zeros(1)
    return np.maximum(centre - slack, 0.0).ravel(), (half + slack).ravel()
