"""The two sides of every entry, for each kind of belief.

To the right the kernel is P^m, whatever the start. To the left it is P(X_{i-l} = u | X_i = x),
which depends on the start:

- stationary: the time-reversed matrix to the power l, at every node;
- a fixed initial distribution: one kernel for each node until the distribution has converged. For
  long or large chains only the first nodes are exact, and the rest is a reweighting of the
  stationary kernel by factors whose spread shrinks with time;
- any start: all reweightings of the columns at once, by the projective diameter;
- known only by its mixing: bounds on both.

The worst chain of `ChainClass.binary` is at a corner here too: for two states, the steps to the
right and the diameters are increasing functions of the row log-ratios of P^m, which are largest at
a corner for every m.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, singledispatch
from math import inf, sqrt
from typing import Any, NamedTuple

import numpy as np

from pufferkit.beliefs.chain_class import ChainClass, Member, Mixing
from pufferkit.beliefs.event_class import EventClass
from pufferkit.beliefs.mixing_class import MixingClass
from pufferkit.checks import Bools, Floats
from pufferkit.influence.curve.node_tables import NodeTables
from pufferkit.influence.curve.steps import (
    DiameterStep,
    KernelStep,
    RatioStep,
    ReweightedStep,
    Step,
)
from pufferkit.influence.curve.sweep import Side, StepOf
from pufferkit.influence.quilts.chains import (
    AnyStartInfluence,
    ChainInfluence,
    StationaryInfluence,
)
from pufferkit.influence.quilts.given_start import GivenStartInfluence
from pufferkit.influence.quilts.hardest import influence_of
from pufferkit.influence.quilts.mixing import MixingInfluence
from pufferkit.influence.quilts.powers import Kernel, row_log_ratios

SHORT = 48
"""Segments up to this length are evaluated with all blocks at every node."""

_FORGOTTEN = 0.02
"""Blocks grow until the variation beyond them moves a log-likelihood by no more than this."""

_WORK = 3 * 10**7
_SMALL = 16
_MANY = 64
"""From this many nodes with their own kernels on, one table of them all pays."""


def sides_of(member: Member, length: int) -> tuple[Side, Side]:
    """Left and right side of the entries of a segment of ``length`` nodes."""
    source = influence_of(member, "definition", length)
    short = length <= SHORT and length**2 * len(member.chain) ** 3 <= _WORK
    if isinstance(source, StationaryInfluence):
        support = source.support(1)
        right = _forward(source, _square(support))
        left = cache(
            lambda m: (
                None
                if source.chain.has_underflow
                else _backward(source, source.chain.initial, support, support, m, 0.0)
            )
        )
        alike = _rows_alike(source, _square(support))
        blocks = _blocks(length, len(member.chain), short, alike)
        return Side([(1, left)], blocks), Side([(1, right)], blocks)
    if isinstance(source, AnyStartInfluence):
        return _any_start(source, length, short)
    assert isinstance(source, GivenStartInfluence)
    return _given_start(source, length, short)


def mixing_sides(mixing: Mixing, states: int, length: int) -> tuple[Side, Side]:
    """The sides for all chains that mix at least this well, any start.

    Entries of P^m are within a factor 1 +- Delta_m of the stationary distribution. So rows of P^m
    have log-ratios at most h = log (1 + Delta) / (1 - Delta), and the projective diameter is at
    most 2 h.
    """
    bound = MixingInfluence.tight(mixing)

    def ratio(m: int) -> Step:
        return RatioStep(bound.bound(m), states)

    def diameter(m: int) -> Step:
        return DiameterStep(
            2 * bound.bound(m) * (1 - np.eye(states))
            if bound.bound(m) < inf
            else np.where(np.eye(states) > 0, 0.0, inf)
        )

    left, right = cache(diameter), cache(ratio)
    blocks = _blocks(length, 2, length <= SHORT, lambda m: bound.bound(m) < _FORGOTTEN)
    return Side([(1, left)], blocks), Side([(1, right)], blocks)


class ClassSides(NamedTuple):
    """Sides that hold for all chains of a class at once, and remarks for readers."""

    name: str
    left: Side
    right: Side
    notes: tuple[str, ...] = ()


@singledispatch
def class_sides(theta: ChainClass, length: int) -> ClassSides | None:
    """The sides of a class that is bounded as a whole; ``None`` if its corners give more."""
    return None


@class_sides.register
def _(theta: EventClass, length: int) -> ClassSides | None:
    return class_sides(theta.beliefs, length)


@class_sides.register
def _(theta: MixingClass, length: int) -> ClassSides | None:
    (mixing,) = theta.mixing_bounds()
    return ClassSides(theta.description, *mixing_sides(mixing, len(theta.states), length))


def _any_start(source: AnyStartInfluence, length: int, short: bool) -> tuple[Side, Side]:
    right = _forward(source, _square(source.support(1)))

    def left_from(node: int) -> StepOf:
        rows = source.support(node)
        return cache(
            lambda m: (
                _over_starts(source, rows, source.support(node - m), m)
                if m < node
                else _over_starts(source, rows, source.support(1), m)
            )
        )

    # The set of reachable states only shrinks, so the kernels of the first node of a stretch serve
    # all.
    firsts = range(1, min(length, source.stretches) + 1)
    stretches = [(node, left_from(node)) for node in firsts]
    alike = _rows_alike(source, _square(source.support(1)))
    blocks = _blocks(length, len(source.chain), short, alike)
    return Side(stretches, blocks), Side([(1, right)], blocks)


def _given_start(source: GivenStartInfluence, length: int, short: bool) -> tuple[Side, Side]:
    size = len(source.chain)
    pairs = np.any([_square(pattern) for pattern in source.patterns], axis=0)
    right = _forward(source, np.asarray(pairs, dtype=bool))

    def exact(node: int) -> StepOf:
        return cache(lambda m: _given_left(source, node, m))

    limit = length + 1 if source.burn_in >= length else source.burn_in + 1
    final = cache(lambda m: _given_left(source, limit + m, m)) if limit <= length else None
    blocks = _blocks(length, size, short, _rows_alike(source, pairs))
    if short:
        backwards = [
            (r, _forward(source, _square(source.support(length + 1 - r))))
            for r in range(1, length + 1)
        ]
        return (
            Side([(node, exact(node)) for node in range(1, length + 1)], blocks),
            Side(backwards, blocks),
        )
    reach = max(blocks, default=1)
    own = int(
        min(length, source.burn_in + reach, max(64, _WORK // (size**3 * max(1, len(blocks)))))
    )
    stretches = [(node, exact(node)) for node in range(1, own + 1)]
    if own < length:
        stretches += _reweighted(source, own + 1, length, final, reach)
    tables = NodeTables(source, blocks, own) if own >= _MANY else None
    return Side(stretches, blocks, tables), Side([(1, right)], blocks)


def _reweighted(
    source: GivenStartInfluence, first: int, length: int, final: StepOf | None, reach: int
) -> list[tuple[int, StepOf]]:
    """Stretches on which the left kernels are the limiting ones up to a bounded reweighting."""
    if final is None or source.cycle > 1:
        return [(first, lambda _: None)]
    stretches: list[tuple[int, StepOf]] = []
    node = first
    while node <= min(length, source.burn_in + reach):

        def steps(m: int, node: int = node) -> Step | None:
            spread = source.spread_at(node - m) if m < node else inf
            return ReweightedStep(final(m), spread) if spread < inf else None  # type: ignore[arg-type]

        stretches.append((node, cache(steps)))
        here = source.spread_at(max(1, node - reach))
        # The next stretch starts where the spread has shrunk noticeably.
        node += 1
        while (
            node <= source.burn_in + reach and source.spread_at(max(1, node - reach)) > here * 0.8
        ):
            node += 1
    if node <= length:
        stretches.append((node, final))
    return stretches


def _given_left(source: GivenStartInfluence, node: int, m: int) -> Step | None:
    if m >= node:
        return None
    rows, columns = source.support(node), source.support(node - m)
    if source.underflows_at(node) or source.underflows_at(node - m):
        return None
    return _backward(source, source.distribution(node - m), rows, columns, m, source.prior(node)[1])


def _forward(source: ChainInfluence, allowed: Bools) -> StepOf:
    powers = source.powers
    return cache(lambda m: KernelStep(powers[m], allowed, powers.rounding(m)))


def _backward(
    source: Any, distribution: Floats, rows: Bools, columns: Bools, m: int, error: float
) -> Step:
    """Step of the kernel P(X_{i-m} = u | X_i = x), where X_{i-m} has this distribution."""
    kernel = source.powers[m]
    joint = (distribution[:, None] * kernel.values).T
    sums = joint.sum(axis=1, keepdims=True)
    values = np.divide(joint, sums, out=np.zeros_like(joint), where=sums > 0)
    possible = (columns[:, None] & kernel.possible).T
    return KernelStep(Kernel(values, possible), _square(rows), source.powers.rounding(m) + error)


def _over_starts(source: AnyStartInfluence, rows: Bools, columns: Bools, m: int) -> Step:
    """Step to the left over all starts: the diameters of pairs of columns of P^m."""
    ratios = row_log_ratios(source.powers[m].rows(columns).transposed)
    inside = _square(rows) & ~np.eye(len(rows), dtype=bool)
    diameters = np.zeros_like(ratios)
    diameters[inside] = ratios[inside] + ratios.T[inside] + 2 * source.powers.rounding(m)
    return DiameterStep(np.maximum(diameters, 0.0))


def _blocks(length: int, size: int, short: bool, forgotten: Callable[[int], bool]) -> list[int]:
    """Block sizes to try: all in short segments, else growing until the rest is forgotten."""
    if short:
        return list(range(1, length))
    ratio = 1.25 if size <= _SMALL else sqrt(2)
    blocks, m = [], 1.0
    while m < length:
        blocks.append(int(m))
        if forgotten(int(m)):
            break
        m = max(int(m) + 1, m * ratio)
    return blocks


def _rows_alike(source: ChainInfluence, pairs: Bools) -> Callable[[int], bool]:
    """Whether the rows of P^m are almost equal, so that the start is forgotten."""
    return lambda m: bool(source.right(m)[pairs].max() < _FORGOTTEN)


def _square(support: Bools) -> Bools:
    return np.outer(support, support)
