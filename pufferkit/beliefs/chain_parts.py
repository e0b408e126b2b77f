"""The part of one chain of a class: kernels to both sides of every entry.

To the right the kernel of a block of m entries is P^m, whatever the start. To the left it is
P(X_{i-m} = u | X_i = x), which depends on the start:

- stationary: one kernel for all entries;
- a fixed initial distribution: one for every entry until the distribution has converged;
- any start, or one that is never forgotten: a formula for all distributions of X_{i-m} at once
  (`pufferkit.influence.curve.steps`).

Where all pairs of rows are too many to be programmes, the step at the largest variation serves all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from math import inf

import numpy as np

from pufferkit.beliefs.base import Member
from pufferkit.beliefs.chain_tables import (
    CONVERGED,
    AnyStartTables,
    GivenStartTables,
    Powers,
    StationaryTables,
    tables_of,
)
from pufferkit.checks import Bools, Floats
from pufferkit.errors import NotApplicable
from pufferkit.influence.curve.engine import EXPLICIT_WORK, FOREVER, Part, Parts, Side, block_sizes
from pufferkit.influence.curve.steps import KnownRows, Open, Steps, StepsInRow, Transport
from pufferkit.influence.curve.transport_plans import plans_bytes
from pufferkit.influence.kernels import TINY, Kernel
from pufferkit.rounding import EPS

MOST_BYTES = 8 * 10**9
"""Most memory that the curve of one chain, or of a class of kernels, may take."""

MOST_CELLS = 2.5e7
"""Most cells of all programmes of a side: those of 70 states with dense rows, ten seconds."""

TOO_DENSE = (
    "one bound for all pairs of values: this chain has too many transitions for each pair; merge "
    "states to 70 or fewer for less noise"
)

NEAR = 1e-8
"""A distribution whose log-ratios are this close to its limit has kernels like those of the limit:
twice this is added to their steps, far below a thousandth of what an entry loses."""

_FEW, _DOUBLED = 24, (1, 4, 16)
"""From so many states on few blocks are tried: each has programmes for all pairs."""

_OWN_BLOCKS = 200
"""Entries with kernels of their own for which blocks are tried."""


def chain_parts(members: Sequence[Member], length: int) -> Sequence[Part]:
    """The parts of these chains, each made when first used."""
    return Parts([partial(part_of, member, length) for member in members])


def part_of(member: Member, length: int) -> Part:
    """The part of one chain, for series of ``length`` entries."""
    return _Chain(member, length).part()


def curve_bytes(states: int) -> int:
    """About how many bytes the curve of a chain of dense rows takes: powers and tables."""
    return 600 * states**2


def takes_long(transition: Floats) -> bool:
    """Whether the programmes of all pairs have too many cells to be solved.

    A round of the search visits every cell of every programme, and there are about twenty rounds.
    With many states and dense rows every pair is much like the worst one.
    """
    return float((transition > 0).sum()) ** 2 > MOST_CELLS


def _uneven(transition: Floats, stationary: Floats) -> float:
    """How far a chain is from being reversible: the largest log of pi_x P(x, y) / pi_y P(y, x).

    Levels of a meter, which move by one at a time, are: up to rounding it is zero.
    """
    moves = transition > 0
    if not np.array_equal(moves, moves.T) or not (stationary > 0).all():
        return inf
    # In logarithms, so that no product underflows and passes for one that is the same both ways.
    flows = np.log(stationary)[:, None] + np.log(transition, where=moves, out=np.zeros(moves.shape))
    room = 8 * EPS * (1 + float(np.abs(flows[moves]).max(initial=0.0)))
    return float(np.abs(flows - flows.T)[moves].max(initial=0.0)) + room


class _Chain:
    """The kernels of one chain, made when first used."""

    def __init__(self, member: Member, length: int) -> None:
        self.member, self.length = member, length
        self.transition = member.chain.transition
        self.dense = takes_long(self.transition)
        states = len(self.transition)
        needed = curve_bytes(states)
        if not self.dense:
            needed = max(needed, plans_bytes(self.transition))
        if needed > MOST_BYTES:
            raise NotApplicable(
                f"the influence curve of {states:,} states needs about {needed / 1e9:.3g} GB "
                f"of memory, more than {MOST_BYTES / 1e9:.3g}; merge states, or use markov_quilt"
            )
        self.source = tables_of(member, length)
        self.powers: Powers = self.source.powers
        self.sizes = (
            block_sizes(length) if states < _FEW else [m for m in _DOUBLED if m < length or m == 1]
        )

    def part(self) -> Part:
        source = self.source
        notes = (TOO_DENSE,) if self.dense and not self.member.any_start else ()
        if isinstance(source, AnyStartTables):
            return self._any_start(source)
        if isinstance(source, StationaryTables):
            here = source.support(1)
            uneven = _uneven(self.transition, source.chain.initial)
            if self.sizes[-1] <= _DOUBLED[-1] and not self.dense and uneven <= CONVERGED:
                side = self._forward(None, uneven + 2 * CONVERGED)
                return Part(self.member.name, side, side, [here], notes=notes)
            left = self._settled(
                lambda size: self._backward(size, source.chain.initial, here, here, CONVERGED)
            )
            right = self._forward(None if here.all() else np.outer(here, here))
            return Part(self.member.name, left, right, [here], notes=notes)
        assert isinstance(source, GivenStartTables)
        return self._given_start(source, notes)

    def _settled(self, make: Callable[[int], Steps | None], together: Bools | None = None) -> Side:
        made = cache(make)
        return Side(lambda entry, size: made(size), self.sizes, together=together)

    def _steps(self, kernel: Kernel, rows: Bools, error: float) -> Steps | None:
        """The steps of a kernel; ``None`` where probabilities were lost to underflow."""
        if self.dense:
            return KnownRows(kernel, rows, error)
        if (kernel.possible & (kernel.values < TINY)).any():
            return None
        values = np.where(rows[:, None], kernel.values, kernel.values[int(rows.argmax())])
        values = values / values.sum(axis=1, keepdims=True)
        return Transport([values], 2 * error)

    def _forward(self, together: Bools | None, uneven: float = 0.0) -> Side:
        """To the right. Where the chain is `_uneven` by so little, also to the left.

        A path of m entries backwards is then as likely as forwards up to a factor e^(m uneven).
        """
        every = np.ones(len(self.transition), dtype=bool)
        rounding = self.powers.rounding
        return self._settled(
            lambda size: self._steps(self.powers[size], every, rounding(size) + size * uneven),
            together,
        )

    def _backward(
        self, size: int, before: Floats, columns: Bools, rows: Bools, error: float
    ) -> Steps | None:
        """Steps of P(X_{i-m} = u | X_i = x), where X_{i-m} has this distribution.

        Values that X_i cannot take get the row of one that it can, so they do not add to any bound.
        """
        kernel = self.powers[size]
        if (columns & (before < TINY)).any():
            return None
        joint = (np.where(columns, before, 0.0)[:, None] * kernel.values).T
        possible = (columns[:, None] & kernel.possible).T
        sums = joint.sum(axis=1, keepdims=True)
        values = np.divide(joint, sums, out=np.zeros_like(joint), where=sums > 0)
        lost = bool((possible & ((joint < TINY) | (kernel.values.T < TINY))).any())
        if lost:
            return None
        return self._steps(Kernel(values, possible), rows, self.powers.rounding(size) + error)

    @property
    def _open_sizes(self) -> Sequence[int]:
        """Blocks for any distribution: only long ones forget it where the chain is slow.

        They are formulas, so that many states have long ones too, each four times the one before.
        """
        if len(self.transition) < _FEW:
            return self.sizes
        longest = block_sizes(self.length)[-1]
        return [m for m in (1, 2, *(4**n for n in range(1, 9))) if m <= longest]

    def _open(self, size: int, rows: Bools, columns: Bools) -> Steps:
        return Open(self.powers[size], rows, columns, self.powers.rounding(size))

    def _any_start(self, source: AnyStartTables) -> Part:
        # The set of reachable states only shrinks, so the kernels of the first entry of a stretch
        # serve all.
        last = source.settled
        made = cache(self._open_at)
        left = Side(
            lambda entry, size: made(size, min(entry, last), min(max(1, entry - size), last)),
            self._open_sizes,
            settled=last + 1,
        )
        possible = [source.support(n) for n in range(1, min(last, self.length) + 1)]
        return Part(self.member.name, left, self._forward(None), possible)

    def _open_at(self, size: int, here: int, before: int) -> Steps:
        return self._open(size, self.source.support(here), self.source.support(before))

    def _given_start(self, source: GivenStartTables, notes: tuple[str, ...]) -> Part:
        together = np.any([np.outer(own, own) for own in source.patterns], axis=0)
        mask = None if together.all() else together
        error, room = source.prior_error(1) + CONVERGED, EXPLICIT_WORK // len(self.transition) ** 2
        known, apart = source.near_limit(NEAR)
        settled = min(known + 1, max(64, room), self.length + 1)
        if source.cycle > 1 and self.length < source.burn_in + source.cycle + 2:
            settled = min(max(64, room), self.length + 1)  # not once through the cycle
        supports = [source.support(n) for n in range(1, min(settled, self.length) + 1)]
        tail: Callable[[int], Steps | None] | None = None
        cycle = 1
        if settled <= self.length and settled < known + 1:
            # Never forgotten, or too late: any distribution of the states that are possible.
            which = np.unique(source.which[settled - 2 :])
            later = np.asarray(source.patterns[which].any(axis=0), dtype=bool)
            tail = cache(lambda size: self._open(size, later, later))
            supports.append(later)
        elif settled <= self.length and source.cycle > 1:
            # In every slot of the cycle the limit is the stationary distribution, given the slot.
            cycle = source.cycle
            slots = [source.distribution(settled - 1 + n) for n in range(cycle)]
            steady = np.mean(slots, axis=0)
            tail = cache(lambda size: self._backward(size, steady, steady > 0, steady > 0, error))
            supports += [source.support(settled + n) for n in range(1, cycle)]
        elif settled <= self.length:
            limit = source.distribution(source.burn_in + 1)
            tail = cache(
                lambda size: self._backward(size, limit, limit > 0, limit > 0, error + apart)
            )
        own = self._own_kernels(source, settled, error)

        @cache
        def exact(entry: int, size: int) -> Steps | None:
            if size > 1 and _OWN_BLOCKS < entry < settled + size - 1:
                return None
            before, here = source.support(entry - size), source.support(entry)
            return self._backward(size, source.distribution(entry - size), before, here, error)

        def at(entry: int, size: int) -> Steps | None:
            first = settled + size - 1
            if entry >= first:
                if tail is None:  # the series may end before any entry has the limit
                    return exact(first, size) if source.row(first) < len(source.logs) else None
                # A single entry has the kernel of its slot.
                alone = cycle > 1 and entry < FOREVER
                return exact(first + (entry - first) % cycle, size) if alone else tail(size)
            if size == 1 and own is not None:
                steps: Steps = own[entry - 2]
                return steps
            return exact(entry, size)

        # A series of one entry has no entry before, and so no step that later ones repeat.
        left = Side(at, self.sizes, settled if self.length > 1 else 3, own, mask)
        return Part(
            self.member.name,
            left,
            self._forward(mask),
            supports,
            cycle,
            notes=notes,
        )

    def _own_kernels(
        self, source: GivenStartTables, settled: int, error: float
    ) -> StepsInRow | None:
        """Kernels of the entries 2 ... ``settled - 1`` to the one before; ``None`` if some fail."""
        certain = not any(source.underflows_at(n) for n in range(1, settled))
        if self.dense or settled <= 2 or not certain:
            return None
        before, here = (source.rows(np.arange(first, settled + first - 2)) for first in (1, 2))
        possible = source.patterns[source.which]
        earlier = np.exp(source.logs[before]) * possible[before]
        joint = (earlier[:, :, None] * self.transition).transpose(0, 2, 1)
        moves = (earlier[:, :, None] > 0).transpose(0, 2, 1) & (self.transition.T > 0)
        if (joint[moves] < TINY).any():
            return None
        one = joint[np.arange(len(joint)), possible[here].argmax(axis=1)]
        joint = np.where(possible[here][:, :, None], joint, one[:, None, :])
        kernels = joint / joint.sum(axis=2, keepdims=True)
        return StepsInRow(kernels, 2 * (self.powers.rounding(1) + error))
