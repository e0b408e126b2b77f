"""Tables over the pairs of values of an entry, for `pufferkit.verification`.

A table has, for each ordered pair x, x', how well the entries beyond an endpoint can distinguish
the two values. From a variation a (how far the log-likelihood of the output varies with the
endpoint) it is the step of docs/theory.md; from an infinite one it is the influence of [Q]
Definition 4.1.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import singledispatch
from math import exp, inf, log1p, sqrt
from typing import Any, Protocol

import numpy as np

from pufferkit.beliefs.binary_class import BinaryClass
from pufferkit.beliefs.chain_class import ChainClass, Member
from pufferkit.beliefs.mixing_class import MixingClass
from pufferkit.beliefs.region_class import RegionClass
from pufferkit.checks import Bools, Floats
from pufferkit.verification.row_steps import SORTED, RowSteps, log_ratios

_SETTLED = 1e-12
_MEMORY = 3 * 10**7

TOLERANCE = 1e-7
"""Relative tolerance of the scale, for rounding on either side."""


LARGEST = 700.0
"""Costs and variations below it have an exponential that is a float."""


class NotChecked(Exception):
    """There is no recomputation for this release, or it would exceed the work allowed."""


class BadBeliefs(Exception):
    """The recorded beliefs cannot be read, or the mechanism has no theorem for them."""


class Allowance:
    """An allowance of work, in units of about a nanosecond."""

    def __init__(self, most: float) -> None:
        self.most, self.spent = most, 0.0

    def spend(self, amount: float) -> None:
        """Spend some of it, or give up."""
        self.spent += amount
        if self.spent > self.most:
            raise NotChecked(f"it takes more than the {self.most:.3g} units of work allowed")


class PairTables(Protocol):
    """Tables over pairs of values of an entry, for one chain or one bound on all chains.

    From node ``repeats_from`` on (0: always) distributions repeat with ``period``. ``left`` and
    ``right`` are the steps from a variation; from an infinite one, the influence that quilts use.
    """

    @property
    def size(self) -> int:
        """How many values an entry has."""
        ...

    @property
    def repeats_from(self) -> int:
        """Node from which distributions repeat."""
        ...

    @property
    def period(self) -> int:
        """How many distributions repeat."""
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

    def left_room(self, node: int, block: int, variation: float, most: float) -> float:
        """At least 0 if no step of ``left`` that can occur is above ``most``, else below 0."""
        ...

    def right_room(self, pairs: Bools, block: int, variation: float, most: float) -> float:
        """The same for the steps of ``right`` between these pairs."""
        ...


class Compared:
    """Rooms of tables that are cheap to compute: what remains below ``most``."""

    def left_room(self: PairTables, node: int, block: int, variation: float, most: float) -> float:
        """Above the largest step to the left."""
        return most - float(self.left(node, block, variation)[self.pairs(node)].max())

    def right_room(
        self: PairTables, pairs: Bools, block: int, variation: float, most: float
    ) -> float:
        """Above the largest step to the right."""
        return most - float(self.right(block, variation)[pairs].max())


def projective_step(diameter: Floats, a: Floats | float) -> Floats:
    """The s with tanh(s / 4) = tanh(D / 4) tanh(a / 4)."""
    finite = np.where(np.isfinite(diameter), diameter, 0.0)
    s = 2 * (np.logaddexp(0, (finite + a) / 2) - np.logaddexp(finite / 2, a / 2))
    return np.where(diameter == inf, a, s)


class KnownChain(Compared):
    """The tables of one transition matrix with its start, or with any start."""

    def __init__(
        self, member: Member, length: int, work: Allowance, *, as_printed: bool = False
    ) -> None:
        self.chain, self.any_start, self.work = member.chain, member.any_start, work
        self.matrix, self.as_printed = member.chain.transition, as_printed
        self.size = len(self.matrix)
        self.stationary = not self.any_start and self.chain.is_stationary
        self.period = 1 if self.stationary or self.any_start else self.chain.period
        self._distributions = [(self.chain.initial, self.chain.initial > 0)]
        self._memory: dict[Hashable, Any] = {}
        self.repeats_from = self._repeats_from(length)

    def _repeats_from(self, length: int) -> int:
        if self.stationary or (self.any_start and (self.matrix > 0).any(axis=0).all()):
            return 0
        if self.any_start:
            return self.size  # reachable states shrink at every node until they are constant
        node = 1
        while (
            node < length and self.chain.limit_distance(self.distribution(node)[0], node) > _SETTLED
        ):
            node += 16 if self.period == 1 else 1
        return min(node, length)

    def remembered(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """What has this key, made if need be."""
        if key not in self._memory:
            kept = self.size**3 if self.size**3 <= SORTED else self.size**2
            if len(self._memory) * (kept + 100) > _MEMORY:
                self._memory.clear()
            self.work.spend(10**4 + 40 * self.size**3)
            self._memory[key] = make()
        return self._memory[key]

    def backward(self, node: int) -> Floats:
        """P(X_{node-1} = u | X_node = x), a row for each x; for impossible x, that of another."""
        joint = (self.distribution(node - 1)[0][:, None] * self.matrix).T
        here = self.distribution(node)[1]
        joint[~here] = joint[int(np.flatnonzero(here)[0])]
        kernel: Floats = joint / joint.sum(axis=1, keepdims=True)
        return kernel

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
        power: tuple[Floats, Bools] = self.remembered(("power", steps), product)
        return power

    def distribution(self, node: int) -> tuple[Floats, Bools]:
        """The distribution of X_node and its support; for any start only the support counts."""
        if self.stationary:
            return self._distributions[0]
        while len(self._distributions) < node:
            self.work.spend(10**4 + 4 * self.size**2)
            distribution, possible = self._distributions[-1]
            more = possible.astype(float) @ (self.matrix > 0)
            self._distributions.append((distribution @ self.matrix, more > 0))
        return self._distributions[node - 1]

    def pairs(self, node: int) -> Bools:
        """Which pairs of values can occur at a node."""
        support = self.distribution(node)[1]
        return np.outer(support, support)

    def left(self, node: int, block: int, variation: float) -> Floats:
        """To X_{node-block}; [Q] (5) if the variation is infinite, else a step."""
        self.work.spend(2 * 10**4 + self.size**2)
        sources = self.distribution(node - block)[1]
        if not self.any_start and variation < inf:
            self.work.spend(30 * self.size**3)
            return self._left_steps(node, block).table(variation)
        if self.as_printed:  # [Q] (5) lets u run over all states
            sources = np.ones(self.size, dtype=bool)
        values, possible = self.power(block)
        columns: Floats = self.remembered(
            ("columns", block, sources.tobytes()),
            lambda: log_ratios(values[sources].T, possible[sources].T),
        )
        with np.errstate(invalid="ignore"):
            if variation == inf:
                return self.prior(node) + columns
            return projective_step(columns + columns.T, variation)

    def right(self, block: int, variation: float) -> Floats:
        """To X_{node+block}, at any node."""
        if variation == inf:
            influence: Floats = self.remembered(block, lambda: log_ratios(*self.power(block)))
            return influence
        self.work.spend(2 * 10**4 + 30 * self.size**3)
        return self._right_steps(block).table(variation)

    def left_room(self, node: int, block: int, variation: float, most: float) -> float:
        """Without the steps themselves, if rows are compared."""
        if self.any_start:
            return super().left_room(node, block, variation, most)
        self.work.spend(2 * 10**4 + 4 * self.size**3)
        return self._left_steps(node, block).room(variation, most, self.pairs(node))

    def right_room(self, pairs: Bools, block: int, variation: float, most: float) -> float:
        """Without the steps themselves."""
        self.work.spend(2 * 10**4 + 4 * self.size**3)
        return self._right_steps(block).room(variation, most, pairs)

    def prior(self, node: int) -> Floats:
        """(x, x') to log P(X_node = x') / P(X_node = x); its largest over all starts ([Q] C.4)."""
        if self.any_start:
            values, possible = self.power(node - 1)
            made = self.remembered(("prior", node), lambda: log_ratios(values.T, possible.T).T)
        else:
            distribution, possible = self.distribution(node)
            made = log_ratios(distribution[:, None], possible[:, None]).T
        prior: Floats = made
        return prior

    def _left_steps(self, node: int, block: int) -> RowSteps:
        """Steps of the kernel P(X_{node-block} = u | X_node = x)."""

        def steps() -> RowSteps:
            joint = (self.distribution(node - block)[0][:, None] * self.power(block)[0]).T
            sums = joint.sum(axis=1, keepdims=True)
            return RowSteps(np.divide(joint, sums, out=np.zeros_like(joint), where=sums > 0))

        where = 0 if self.stationary else node
        kept: RowSteps = self.remembered(("left", where, block), steps)
        return kept

    def _right_steps(self, block: int) -> RowSteps:
        kept: RowSteps = self.remembered(("right", block), lambda: RowSteps(self.power(block)[0]))
        return kept


@dataclass(frozen=True)
class MixingBound(Compared):
    """Entries of P^t are within a factor 1 +- norm^t factor of the stationary distribution."""

    norm: float
    factor: float
    weight: int
    size: int
    work: Allowance
    repeats_from: int = 0
    period: int = 1

    def pairs(self, node: int) -> Bools:
        """One pair of values stands for all."""
        return np.ones((min(2, self.size),) * 2, dtype=bool)

    def left(self, node: int, block: int, variation: float) -> Floats:
        """[Q] Lemma C.3: ``weight`` times the bound on a row, as the prior changes with it."""
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
        return np.where(np.eye(min(2, self.size)) > 0, 0.0, h)


def mixing_bounds(theta: ChainClass, work: Allowance, *, tight: bool) -> list[MixingBound]:
    """[Q] Lemma C.1 with the least pi_min and gap; or, tight, the operator norm of each chain."""
    states = len(theta.states)
    known = _known_mixing(theta)
    least = min(pi for pi, *_ in known), min(gap for _, gap, *_ in known)
    if not tight:
        return [MixingBound(exp(-least[1] / 2), 1 / least[0], 2, states, work)]
    if not theta.lists_matrices:  # the class is known only by common bounds
        known = [(*least, max(norm for *_, norm, _ in known), 2)]
    return [MixingBound(norm, 1 / pi - 1, weight, states, work) for pi, _, norm, weight in known]


MixingFacts = tuple[float, float, float, int]


@singledispatch
def _known_mixing(theta: ChainClass) -> list[MixingFacts]:
    return [_mixing(member) for member in members_to_check(theta)]


@_known_mixing.register
def _(theta: MixingClass) -> list[MixingFacts]:
    norm = 1 - theta.gap / 2 if theta.reversible else sqrt(1 - theta.gap)
    return [(theta.pi_min, theta.gap, norm, 2)]


def _mixing(member: Member) -> MixingFacts:
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


@singledispatch
def members_to_check(theta: ChainClass) -> tuple[Member, ...]:
    """The chains of a class; for a rectangle of binary chains, corners and some between."""
    return theta.members()


@members_to_check.register
def _(theta: BinaryClass) -> tuple[Member, ...]:
    return _rectangle([(theta.low, theta.high)] * 2)


@members_to_check.register
def _(theta: RegionClass) -> tuple[Member, ...]:
    if len(theta.states) != 2:
        return theta.members()
    return _rectangle([(float(theta.low[x, x]), float(theta.high[x, x])) for x in (0, 1)])


def _rectangle(sides: list[tuple[float, float]]) -> tuple[Member, ...]:
    first, second = (sorted({low, (low + high) / 2, high}, reverse=True) for low, high in sides)
    matrices = [[[p, 1 - p], [1 - q, q]] for p in first for q in second]
    return ChainClass.any_start(*matrices).members()
