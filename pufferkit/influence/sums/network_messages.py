"""Distributions of a sum over a larger Bayesian network, given one node: messages in floats.

Variables are eliminated in a good order. What is summed out of a bucket, the product of all tables
and messages with its variable, is a message to the bucket of the next variable in its scope, with
the sum so far as one more axis. A second pass down the same tree gives every bucket what lies
beyond it, and so the joint distribution of every node with the whole sum: two passes, not one
elimination for each node. A grid of m x m binary nodes has messages of 2^m times m^2 entries.

Only numbers above zero are added and multiplied, so that every probability has a small relative
error with a known bound; ties that it cannot decide count as the larger distance. Work and memory
are counted before anything is allocated.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from math import inf, log, prod
from typing import NamedTuple

import numpy as np

from pufferkit.beliefs.bayesian_network import BayesianNetwork
from pufferkit.beliefs.contraction import TINY
from pufferkit.checks import Floats
from pufferkit.errors import NotApplicable
from pufferkit.rounding import EPS

MOST_PRODUCTS = 4e9
MOST_BYTES = 1e9
_HUB = 64  # with more neighbours, how many edges a node adds is not counted


class NodeDistance(NamedTuple):
    """An upper bound on W, the node where it is attained, and whether it is exact."""

    value: int
    node: Hashable
    exact: bool


class _Message(NamedTuple):
    """A table over ``scope``, with the sum as its last axis, and its relative error."""

    scope: tuple[int, ...]
    values: Floats
    error: float


@dataclass(frozen=True)
class _Elimination:
    """An order of elimination: buckets by variable, and its work and memory."""

    order: tuple[int, ...]
    scopes: Mapping[int, tuple[int, ...]]
    products: float
    entries: float


def largest_distance(network: BayesianNetwork, weights: Mapping[Hashable, int]) -> NodeDistance:
    """The largest W between distributions of the sum given two values of one node.

    Parameters
    ----------
    network
        The belief.
    weights
        Values of nodes to whole numbers from 0 up; other values count 0.

    Raises
    ------
    NotApplicable
        If it takes too much work or memory, or if probabilities underflow.
    """
    plan = _checked_plan(network, weights)
    floor = sum(log(float(own.min(where=own > 0, initial=1.0))) for own in network.arrays.values())
    if floor < log(TINY):
        raise NotApplicable(
            f"some sums can have a probability of 1e{floor / log(10):.0f}, too unlikely for "
            "floats, and the least likely decide the distance; use markov_quilt, or "
            "influence_curve on a tree"
        )
    worst = NodeDistance(0, network.nodes[0], True)
    for place, joint in _SumMessages(network, weights, plan).joints():
        rows = [row for row in joint.values if row.any()]
        for number, one in enumerate(rows):
            for other in rows[number + 1 :]:
                value, exact = _distance(one, other, joint.error)
                if value > worst.value:
                    worst = NodeDistance(value, network.nodes[place], exact)
    return worst


def _distance(one: Floats, other: Floats, error: float) -> tuple[int, bool]:
    """A bound on W between two distributions with a relative error, and whether it is exact.

    W is the least d with P(S <= s) <= P(S' <= s + d) and the other way round, for all s. Each of
    these is also a comparison of upper tails; one of the two must be sure.
    """
    slack = 4 * (error + (len(one) + 4) * EPS)
    largest, sure = 0, 0
    for p, q in ((one / one.sum(), other / other.sum()), (other / other.sum(), one / one.sum())):
        below, below_q = np.cumsum(p)[:, None], np.cumsum(q)[None, :]
        # By separate sums, not by subtraction: the rarest outcomes decide.
        above = np.append(np.cumsum(p[::-1])[::-1][1:], 0.0)[:, None]
        above_q = np.append(np.cumsum(q[::-1])[::-1][1:], 0.0)[None, :]
        holds = (below * (1 + slack) <= below_q) | (above >= above_q * (1 + slack))
        may_hold = (below <= below_q * (1 + slack)) | (above * (1 + slack) >= above_q)
        places = np.arange(len(p))
        largest = max(largest, int((holds.argmax(axis=1) - places).max()))
        sure = max(sure, int((may_hold.argmax(axis=1) - places).max()))
    return largest, sure == largest


class _SumMessages:
    """Both passes over the buckets of one network."""

    def __init__(
        self, network: BayesianNetwork, weights: Mapping[Hashable, int], plan: _Elimination
    ) -> None:
        place = network.graph.place
        self.plan = plan
        self.sizes = [network.sizes[node] for node in network.nodes]
        self.shifts = [[weights.get(v, 0) for v in network.values[n]] for n in network.nodes]
        rank = {v: number for number, v in enumerate(plan.order)}
        self.own: dict[int, list[_Message]] = {v: [] for v in plan.order}
        for node in network.nodes:
            scope = (*(place[p] for p in network.parents[node]), place[node])
            table = network.arrays[node]
            values = (table / table.sum(axis=-1, keepdims=True))[..., None]
            bucket = min(scope, key=lambda v: rank[v])
            self.own[bucket].append(_Message(scope, values, (2 + table.shape[-1]) * EPS))
        # -1 is the last bucket, without a variable, where parts of the network meet.
        self.below: dict[int, list[int]] = {v: [] for v in (*plan.order, -1)}
        for v in plan.order:
            self.below[min(plan.scopes[v], key=lambda u: rank[u], default=-1)].append(v)

    def joints(self) -> list[tuple[int, _Message]]:
        """For each variable, its joint distribution with the whole sum."""
        up: dict[int, _Message] = {}
        for v in self.plan.order:
            parts = [*self.own[v], *(up[u] for u in self.below[v])]
            up[v] = self._summed(self._shifted(self._product(parts), v), self.plan.scopes[v])
        down: dict[int, _Message] = {}
        joints = []
        for v in (-1, *reversed(self.plan.order)):
            beyond = [down.pop(v)] if v in down else []
            base = self._product([*self.own.get(v, []), *beyond])
            if v >= 0:
                base = self._shifted(self._with(base, v), v)
            children = self.below[v]
            # Products of all children before and after one another.
            before = [base]
            for u in children:
                before.append(self._product([before[-1], up[u]]))
            if v >= 0:
                joints.append((v, self._summed(before[-1], (v,))))
            after = _Message((), np.ones(1), 0.0)
            for number in range(len(children) - 1, -1, -1):
                u = children[number]
                whole = self._product([before[number], after])
                down[u] = self._summed(whole, self.plan.scopes[u])
                after = self._product([after, up.pop(u)])
        return joints

    def _product(self, parts: Sequence[_Message]) -> _Message:
        """Sums add up by convolution, over the shorter one."""
        result = _Message((), np.ones(1), 0.0)
        for part in parts:
            scope = result.scope + tuple(v for v in part.scope if v not in result.scope)
            long, short = _spread(result, scope), _spread(part, scope)
            if long.shape[-1] < short.shape[-1]:
                long, short = short, long
            length = long.shape[-1] + short.shape[-1] - 1
            values = np.zeros((*(self.sizes[v] for v in scope), length))
            for s in range(short.shape[-1]):
                values[..., s : s + long.shape[-1]] += long * short[..., s : s + 1]
            error = result.error + part.error + (1 + short.shape[-1]) * EPS
            result = _Message(scope, values, error)
        return result

    def _with(self, message: _Message, v: int) -> _Message:
        """The message with a variable among its axes."""
        if v in message.scope:
            return message
        return self._product([message, _Message((v,), np.ones((self.sizes[v], 1)), 0.0)])

    def _shifted(self, message: _Message, v: int) -> _Message:
        """The value of a variable counted into the sum."""
        shifts = self.shifts[v]
        values = np.moveaxis(message.values, message.scope.index(v), 0)
        moved = np.zeros((*values.shape[:-1], values.shape[-1] + max(shifts)))
        for part, own, shift in zip(moved, values, shifts, strict=True):
            part[..., shift : shift + values.shape[-1]] = own
        scope = (v, *(u for u in message.scope if u != v))
        return _Message(scope, moved, message.error)

    def _summed(self, message: _Message, keep: tuple[int, ...]) -> _Message:
        """Only some variables kept, in their order."""
        gone = tuple(axis for axis, v in enumerate(message.scope) if v not in keep)
        values = message.values.sum(axis=gone) if gone else message.values
        rest = tuple(v for v in message.scope if v in keep)
        terms = prod(message.values.shape[axis] for axis in gone)
        return _Message(rest, values, message.error + terms * EPS)


def _spread(message: _Message, scope: tuple[int, ...]) -> Floats:
    """The table with axes in the order of ``scope``, of length 1 where it does not depend."""
    order = [message.scope.index(v) for v in scope if v in message.scope]
    moved = np.transpose(message.values, [*order, len(message.scope)])
    return moved[(*(slice(None) if v in message.scope else None for v in scope), slice(None))]


def work_of(network: BayesianNetwork, weights: Mapping[Hashable, int]) -> float:
    """Approximate number of multiplications."""
    return _cheaper(network, weights).products


def _cheaper(network: BayesianNetwork, weights: Mapping[Hashable, int]) -> _Elimination:
    """The better of two orders."""
    plans = (_plan(network, weights, fill=fill) for fill in (True, False))
    return min(plans, key=lambda plan: plan.products)


def _checked_plan(network: BayesianNetwork, weights: Mapping[Hashable, int]) -> _Elimination:
    """A plan, refused if it needs too much work or memory."""
    plan = _cheaper(network, weights)
    size = 8 * plan.entries
    if plan.products > MOST_PRODUCTS or size > MOST_BYTES:
        raise NotApplicable(
            f"the distributions of the sum take about {plan.products:.1e} products (at most "
            f"{MOST_PRODUCTS:.0e}) and {size / 1e9:.3g} GB (at most {MOST_BYTES / 1e9:.0f}); use "
            "rounder values, markov_quilt, or influence_curve on a tree"
        )
    return plan


def _plan(network: BayesianNetwork, weights: Mapping[Hashable, int], *, fill: bool) -> _Elimination:
    """An order of elimination in the moral graph: fewest new edges first, or least connected."""
    place = network.graph.place
    sizes = [network.sizes[node] for node in network.nodes]
    # Floats: the numbers of multiplications may be too large for integers of fixed size.
    largest = [
        float(min(max(weights.get(v, 0) for v in network.values[node]), 10**60))
        for node in network.nodes
    ]
    near: dict[int, set[int]] = {v: set() for v in range(len(sizes))}
    for node in network.nodes:
        family = {place[node], *(place[p] for p in network.parents[node])}
        for v in family:
            near[v] |= family - {v}

    def cost(v: int) -> tuple[float, float, int]:
        if len(near[v]) > _HUB:
            return float(len(near[v]) ** 2), inf, v
        entries = prod(sizes[u] for u in near[v]) * sizes[v]
        if not fill:
            return entries, 0, v
        return sum(len(near[v] - near[u]) - 1 for u in near[v]), entries, v

    costs = {v: cost(v) for v in near}
    waiting = list(costs.values())
    heapify(waiting)
    order, scopes = [], {}
    spans = dict.fromkeys(near, 0.0)
    whole = sum(largest) + 1
    products = entries = 0.0
    while near:
        least = heappop(waiting)
        v = least[-1]
        if costs.get(v) != least:
            continue  # it was counted anew, or is gone
        around = near.pop(v)
        del costs[v]
        order.append(v)
        scopes[v] = tuple(sorted(around))
        clique = float(prod(sizes[u] for u in around) * sizes[v])
        span = spans[v] + largest[v] + 1
        # Up: over what lies below. Down: what lies below with what lies beyond, for each message.
        products += clique * (span * (1 + sizes[v]) + 3 * span * (whole - span + 2))
        entries += clique / sizes[v] * (span + whole) + clique * 2 / len(sizes) * whole
        for u in around:
            near[u] |= around - {u}
            near[u].discard(v)
        if around:
            # It goes to one of these, not yet known which, so it counts for the least connected.
            spans[min(around, key=lambda u: costs[u])] += span - 1
        for u in around.union(*(near[w] for w in around)):
            costs[u] = cost(u)
            heappush(waiting, costs[u])
    return _Elimination(tuple(order), scopes, products, entries)
