"""Sums of products of probability tables: the distribution of a few nodes out of many.

A factor is an array with one label for each axis. A contraction multiplies factors and sums over
every other label than those of the result, two factors at a time in an order chosen by opt_einsum.

Properties of the result:

- *Rounding.* Only non-negative numbers are added and multiplied, so every entry has a small
  relative error: one rounding for each product and each addition that led to it. ``error`` bounds
  it, whatever the order of the additions.
- *Underflow.* If the factors are the tables of a network, each intermediate entry is a probability,
  and so is every number it is later multiplied with: all sums are over nodes whose own table is
  among the factors, and such a sum is at most 1. So the error of an entry by underflow is far below
  its rounding error, unless the entry itself is below `TINY`.
- *Zeros.* Whether an entry is possible at all is computed separately and exactly, in booleans.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from pufferkit.checks import Bools, Floats
from pufferkit.errors import NotApplicable
from pufferkit.rounding import EPS

TINY = 1e-280
"""Possible entries below this have lost their relative accuracy to underflow."""

MOST_ENTRIES = 10**8
"""Largest table, in entries, that a contraction may hold."""

Labels = tuple[int, ...]

_LARGE = 1 << 16  # from this size on matrix products repay their set-up
_BYTES = 24  # an entry, its pattern, and the copy made while multiplying


@dataclass(frozen=True, eq=False)
class JointTable:
    """A table of probabilities, which entries can occur, and a bound on the relative error."""

    values: Floats
    possible: Bools
    error: float

    @classmethod
    def exact(cls, values: Floats) -> JointTable:
        """A table without rounding errors."""
        return cls(values, values > 0, 0.0)


@dataclass(frozen=True, eq=False)
class Factor:
    """A table with one label for each axis."""

    table: JointTable
    labels: Labels

    def at(self, fixed: Mapping[int, int]) -> Factor:
        """The factor at fixed values of some of its labels."""
        if fixed.keys().isdisjoint(self.labels):
            return self
        places = tuple(fixed.get(label, slice(None)) for label in self.labels)
        rest = tuple(label for label in self.labels if label not in fixed)
        own = self.table
        return Factor(JointTable(own.values[places], own.possible[places], own.error), rest)


@dataclass(frozen=True)
class _Contraction:
    """Multiply the factors at ``places``, keep the labels ``keep``."""

    places: tuple[int, ...]
    keep: Labels
    entries: int
    summed: int


def contract(
    factors: Sequence[Factor], keep: Labels, what: str, most: int | None = None
) -> JointTable:
    """The product of ``factors``, summed over all labels but ``keep``; axes in the order of those.

    Raises
    ------
    NotApplicable
        If an intermediate table would have more than ``most`` entries, by default `MOST_ENTRIES`;
        nothing is allocated then. ``what`` names the result in the message.
    """
    steps = _plan(factors, keep)
    entries = max(step.entries for step in steps)
    if entries > (MOST_ENTRIES if most is None else most):
        raise NotApplicable(
            f"{what} needs about {entries * _BYTES / 1e9:,.0f} GB of memory; take fewer nodes, "
            "merge values, or cut the network into parts"
        )
    values = _run([(own.table.values, own.labels) for own in factors], steps, clip=False)
    if all(own.table.possible.all() for own in factors):
        possible = np.ones(values.shape, dtype=bool)
    else:
        patterns = [(own.table.possible.astype(np.float64), own.labels) for own in factors]
        possible = _run(patterns, steps, clip=True) > 0
    roundings = sum(1 + step.summed for step in steps)
    return JointTable(values, possible, roundings * EPS + sum(own.table.error for own in factors))


def _plan(factors: Sequence[Factor], keep: Labels) -> list[_Contraction]:
    """The order of a contraction, chosen from labels and sizes only."""
    order: Sequence[tuple[int, ...]] = [tuple(range(len(factors)))]
    sizes = {
        label: size
        for own in factors
        for label, size in zip(own.labels, own.table.values.shape, strict=True)
    }
    held = [frozenset(own.labels) for own in factors]
    if len(factors) > 2:
        from opt_einsum import paths  # type: ignore[import-untyped]  # noqa: PLC0415 - slow to load

        order = paths.greedy(list(held), frozenset(keep), sizes)
    return list(_steps(held, order, keep, sizes))


def _steps(
    held: list[frozenset[int]],
    order: Sequence[tuple[int, ...]],
    keep: Labels,
    sizes: Mapping[int, int],
) -> Iterator[_Contraction]:
    for number, places in enumerate(order, 1):
        merged = frozenset().union(*(held[place] for place in places))
        for place in sorted(places, reverse=True):
            held.pop(place)
        needed = merged & frozenset(keep).union(*held)
        # The axes of the last table are in the order of ``keep``.
        kept = keep if number == len(order) else tuple(sorted(needed))
        summed = prod(sizes[label] for label in merged - needed)
        yield _Contraction(places, kept, prod(sizes[label] for label in needed), summed)
        held.append(needed)


def _run(held: list[tuple[Floats, Labels]], steps: Sequence[_Contraction], *, clip: bool) -> Floats:
    """The contraction itself; with ``clip``, numbers only record whether they are above zero."""
    for step in steps:
        used = [held[place] for place in step.places]
        for place in sorted(step.places, reverse=True):
            held.pop(place)
        # einsum has few labels, so they are numbered afresh for each product.
        own = {label: n for n, label in enumerate(dict.fromkeys(x for _, ls in used for x in ls))}
        operands: list[object] = []
        for table, names in used:
            operands += [table, [own[label] for label in names]]
        operands.append([own[label] for label in step.keep])
        large = step.entries * step.summed > _LARGE
        product = np.einsum(*operands, optimize=large)  # type: ignore[call-overload]
        held.append((np.minimum(product, 1.0) if clip else product, step.keep))
    ((table, _),) = held
    return np.asarray(table, dtype=np.float64)
