"""How far a node of a network moves a sum: messages along an order of elimination.

The joint distribution is a product of tables over few variables each, and every value of a variable
adds a whole number to the sum. Variables are eliminated in a good order. What is summed out of a
bucket, the product of all tables and messages with its variable, is a message to the bucket of the
next variable in its scope, with the sum so far as one more axis. A second pass down the same tree
gives every bucket what lies beyond it, and so the joint distribution of every variable with the
whole sum: two passes, not one elimination for each node. A grid of m x m binary nodes has messages
of 2^m times m^2 entries.

The messages are floats: only numbers above zero are added and multiplied, so that every
probability has a small relative error with a known bound. Where that leaves a tie between tails
open, or where floats underflow, the same messages are passed in whole numbers, which decide it
exactly, unless that takes too long; then a tie counts as the larger distance. A chain is a network
too.

Secrets: two values of a variable, or two events about several. Beliefs: one network. Nothing here
knows a class of beliefs. Work and memory are counted before anything is allocated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from math import inf, lcm, log, prod
from typing import Any, NamedTuple

import numpy as np

from pufferkit.beliefs.junction_tree import CliqueTree, neighbours
from pufferkit.checks import Floats
from pufferkit.errors import NotApplicable
from pufferkit.influence.sums.lattice import Distance, Masses, SumTables, exact_distance
from pufferkit.rounding import EPS, as_fraction

MOST_PRODUCTS, MOST_BYTES = 4e9, 1e9
"""Most work, some seconds, and most memory for the messages of one network."""
MOST_EXACT = 3e9
"""Most nanoseconds, about, for messages in whole numbers."""

_LEAST = 1e-280  # less likely sums may underflow
_VARIABLE, _PAIR_OF_VARIABLES = 7e5, 7e3  # nanoseconds beside the products
_PAIR_OF_VALUES, _PER_SUM = 6e4, 400.0  # nanoseconds to compare two values
_EXACT = "ties decided by exact arithmetic"
_WHOLE, _WORD = 40.0, 0.2  # of a product of whole numbers, and for each squared word of 64 bits

SumFactor = tuple[tuple[int, ...], Floats]
"""Variables by number, and a table with an axis for each; rows along the last axis sum to one."""

Numbers = Any
"""An array of floats, or of whole numbers of any size."""


class _Message(NamedTuple):
    """A table over ``scope``, with the sum as its last axis, and its relative error."""

    scope: tuple[int, ...]
    values: Numbers
    error: float


@dataclass(frozen=True)
class _Elimination:
    """An order of elimination: buckets by variable, and its work and memory."""

    order: tuple[int, ...]
    scopes: Mapping[int, tuple[int, ...]]
    products: float
    entries: float


@dataclass(frozen=True, eq=False)
class SummedNetwork:
    """A product of tables, and what each value of each variable adds to the sum."""

    factors: Sequence[SumFactor]
    added: Sequence[Sequence[int]]
    allowed: Mapping[int, Sequence[int]] = field(default_factory=dict)
    """The values that some variables may have; all, where none are named."""

    @classmethod
    def of_chain(
        cls, initial: Floats, transition: Floats, values: Sequence[int], length: int
    ) -> SummedNetwork:
        """A chain as a network."""
        steps: list[SumFactor] = [((n, n + 1), transition) for n in range(length - 1)]
        return cls([((0,), initial), *steps], [values] * length)

    def of_values(self) -> SumTables:
        """The tables of the values of each variable, which is named by its number."""
        return self._tables(lambda whole: _SumMessages(self, whole).joints(), len(self.added))

    def of_conditions(
        self, one: Mapping[int, Sequence[int]], other: Mapping[int, Sequence[int]]
    ) -> SumTables:
        """The table of two events: which values some variables may have.

        If one of them is impossible there is nothing to hide, and the distance is 0.
        """
        both = [replace(self, allowed=event) for event in (one, other)]

        def given(whole: bool) -> Iterator[_Message]:
            sums = [_SumMessages(network, whole).whole_sum() for network in both]
            rows = np.zeros((2, max(len(own.values) for own in sums)), dtype=sums[0].values.dtype)
            for row, own in zip(rows, sums, strict=True):
                row[: len(own.values)] = own.values
            yield _Message((0,), rows, max(own.error for own in sums))

        return self._tables(given, 1)

    def _tables(self, messages: Callable[[bool], Iterator[_Message]], count: int) -> SumTables:
        """Tables of messages that can be had in floats and in whole numbers."""

        def each() -> Iterator[tuple[int, Masses]]:
            self._check_floats()
            self._check_plan()
            for own in messages(False):
                error = 2 * (own.error + (own.values.shape[1] + 4) * EPS)
                yield own.scope[0], Masses(own.values, error=error)

        def exactly() -> Distance | None:
            return _largest_exactly(messages(True)) if self.exact_work <= MOST_EXACT else None

        return SumTables(each, count, self.work, exactly, self._least >= log(_LEAST))

    @cached_property
    def _least(self) -> float:
        """Logarithm of a probability that no possible data set is below."""
        return sum(log(float(table.min(where=table > 0, initial=1.0))) for _, table in self.factors)

    def _check_floats(self) -> None:
        if self._least < log(_LEAST):
            raise NotApplicable(
                f"some sums can have a probability of 1e{self._least / log(10):.0f}, too unlikely "
                "for floats, and the least likely decide; use markov_quilt, or influence_curve on "
                "a tree"
            )

    @property
    def work(self) -> float:
        """Approximate nanoseconds of the tables of all values."""
        variables, sizes = len(self.added), map(len, self.added)
        pairs = sum(size * (size - 1) // 2 for size in sizes)
        compared = pairs * (_PAIR_OF_VALUES + variables * _PER_SUM)
        return (
            self.plan.products + compared + variables * (_VARIABLE + variables * _PAIR_OF_VARIABLES)
        )

    @property
    def exact_work(self) -> float:
        """Approximate nanoseconds of messages in whole numbers, which have the digits of all."""
        tables = {id(table): table for _, table in self.factors}
        if self.plan.products > MOST_EXACT / _WHOLE:
            return inf
        bits = {key: int(_whole_numbers(own).max()).bit_length() for key, own in tables.items()}
        words: float = sum(bits[id(table)] for _, table in self.factors) / 64
        return self.plan.products * (_WHOLE + _WORD * words**2)

    @cached_property
    def plan(self) -> _Elimination:
        """The better of the orders of two junction trees."""
        sizes, scopes = list(map(len, self.added)), [scope for scope, _ in self.factors]
        trees = CliqueTree.all_of(sizes, scopes, "network")
        return min((self._along(tree.order) for tree in trees), key=lambda plan: plan.products)

    def _check_plan(self) -> None:
        """Refuse what needs too much work or memory."""
        size = 8 * self.plan.entries
        if self.plan.products > MOST_PRODUCTS or size > MOST_BYTES:
            raise NotApplicable(
                f"the distributions of the sum take about {self.plan.products:.1e} products (at "
                f"most {MOST_PRODUCTS:.0e}) and {size / 1e9:.3g} GB (at most "
                f"{MOST_BYTES / 1e9:.0f}); use rounder values, markov_quilt, or influence_curve on "
                "a tree"
            )

    def _along(self, order: Sequence[int]) -> _Elimination:
        """The buckets of an order, with their work and memory."""
        sizes = list(map(len, self.added))
        near = neighbours(len(sizes), [scope for scope, _ in self.factors])
        rank = {v: number for number, v in enumerate(order)}
        # Floats: the numbers of multiplications may be too large for integers of fixed size.
        largest = [float(min(max(values), 10**60)) for values in self.added]
        spans, whole = [own + 1 for own in largest], sum(largest) + 1
        scopes, products, entries = dict[int, tuple[int, ...]](), 0.0, 0.0
        for v in order:
            scopes[v] = tuple(sorted(near[v]))
            clique, span = float(prod(sizes[u] for u in (v, *near[v]))), spans[v]
            # Up: over what lies below. Down: that with what lies beyond, for each message.
            products += clique * (span * (1 + sizes[v]) + 3 * span * (whole - span + 2))
            entries += clique / sizes[v] * (span + whole) + clique * 2 / len(sizes) * whole
            for u in near[v]:
                near[u] = (near[u] | near[v]) - {u, v}
            if near[v]:
                spans[min(near[v], key=rank.__getitem__)] += span - 1
        return _Elimination(tuple(order), scopes, products, entries)


def _largest_exactly(joints: Iterator[_Message]) -> Distance:
    """The largest distance between two rows of whole numbers."""
    best = Distance(0, 0, how=_EXACT)
    for joint in joints:
        rows = [[(s, int(n)) for s, n in enumerate(row) if n] for row in joint.values]
        for one, other in combinations([row for row in rows if row], 2):
            value = exact_distance(one, other)
            best = Distance(value, joint.scope[0], how=_EXACT) if value > best.value else best
    return best


class _SumMessages:
    """Both passes over the buckets of one network, in floats or in whole numbers."""

    def __init__(self, network: SummedNetwork, whole: bool) -> None:
        self.added, self.plan = network.added, network.plan
        self.sizes = [len(values) for values in network.added]
        self.type = np.dtype(object) if whole else np.dtype(np.float64)
        rank = {v: number for number, v in enumerate(self.plan.order)}
        self.own: dict[int, list[_Message]] = {v: [] for v in self.plan.order}
        for scope, table in network.factors:
            bucket = min(scope, key=lambda v: rank[v])
            values = _whole_numbers(table) if whole else table / table.sum(axis=-1, keepdims=True)
            error = (2 + table.shape[-1]) * EPS
            self.own[bucket].append(_Message(scope, values[..., None], error))
        for v, chosen in network.allowed.items():
            mask = np.isin(np.arange(self.sizes[v]), chosen).astype(int).astype(self.type)
            self.own[v].append(_Message((v,), mask[:, None], 0.0))
        # -1 is the last bucket, without a variable, where parts of the network meet.
        self.below: dict[int, list[int]] = {v: [] for v in (*self.plan.order, -1)}
        for v in self.plan.order:
            bucket = min(self.plan.scopes[v], key=lambda u: rank[u], default=-1)
            self.below[bucket].append(v)

    def _up(self) -> dict[int, _Message]:
        """What each bucket tells the next."""
        up: dict[int, _Message] = {}
        for v in self.plan.order:
            parts = [*self.own[v], *(up[u] for u in self.below[v])]
            up[v] = self._summed(self._shifted(self._product(parts), v), self.plan.scopes[v])
        return up

    def whole_sum(self) -> _Message:
        """The distribution of the whole sum."""
        up = self._up()
        return self._product([up[u] for u in self.below[-1]])

    def joints(self) -> Iterator[_Message]:
        """For each variable, its joint distribution with the whole sum."""
        up = self._up()
        down: dict[int, _Message] = {}
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
                yield self._summed(before[-1], (v,))
            after = self._nothing()
            for number in range(len(children) - 1, -1, -1):
                u = children[number]
                whole = self._product([before[number], after])
                down[u] = self._summed(whole, self.plan.scopes[u])
                after = self._product([after, up.pop(u)])

    def _nothing(self) -> _Message:
        """The sum 0 for certain."""
        return _Message((), np.ones(1, dtype=int).astype(self.type), 0.0)

    def _product(self, parts: Sequence[_Message]) -> _Message:
        """Sums add up by convolution, over the shorter one."""
        result = self._nothing()
        for part in parts:
            scope = result.scope + tuple(v for v in part.scope if v not in result.scope)
            long, short = _spread(result, scope), _spread(part, scope)
            if long.shape[-1] < short.shape[-1]:
                long, short = short, long
            length = long.shape[-1] + short.shape[-1] - 1
            values = np.zeros((*(self.sizes[v] for v in scope), length), dtype=self.type)
            for s in range(short.shape[-1]):
                values[..., s : s + long.shape[-1]] += long * short[..., s : s + 1]
            error = result.error + part.error + (1 + short.shape[-1]) * EPS
            result = _Message(scope, values, error)
        return result

    def _with(self, message: _Message, v: int) -> _Message:
        """The message with a variable among its axes."""
        if v in message.scope:
            return message
        ones = np.ones((self.sizes[v], 1), dtype=int).astype(self.type)
        return self._product([message, _Message((v,), ones, 0.0)])

    def _shifted(self, message: _Message, v: int) -> _Message:
        """The value of a variable counted into the sum."""
        values = np.moveaxis(message.values, message.scope.index(v), 0)
        room = values.shape[-1] + max(self.added[v])
        moved = np.zeros((*values.shape[:-1], room), dtype=self.type)
        for part, own, shift in zip(moved, values, self.added[v], strict=True):
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


def _spread(message: _Message, scope: tuple[int, ...]) -> Numbers:
    """The table with axes in the order of ``scope``, of length 1 where it does not depend."""
    order = [message.scope.index(v) for v in scope if v in message.scope]
    moved = np.transpose(message.values, [*order, len(message.scope)])
    return moved[(*(slice(None) if v in message.scope else None for v in scope), slice(None))]


def _whole_numbers(table: Floats) -> Numbers:
    """Rows that sum to one as whole numbers, up to one factor; floats count as their decimals."""
    exact = np.array([as_fraction("tables", float(p)) for p in table.ravel()], dtype=object)
    rows = exact.reshape(-1, table.shape[-1])
    rows = np.array([row / sum(row) for row in rows], dtype=object)
    denominator = lcm(*(p.denominator for p in rows.ravel()))
    whole = np.array([int(p * denominator) for p in rows.ravel()], dtype=object)
    return whole.reshape(table.shape)
