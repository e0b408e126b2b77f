"""Checks the proof of a curve of one chain: recorded limits, blocks and plans, nothing searched.

Replacing an entry x by x' costs D(x, x'), the same for all entries of a run. From one end to the
other, with n counted from that end, paid_j the largest cost of entry j, and any selection of blocks
m < n, a side adds

    adds_n = least over m of  paid_{n-m+1} + ... + paid_{n-1} + step(K_{n,m}; B_{n-m}),
    B_n    = cl(D_n + adds_n),                                       B_1 = cl(D_1),

or all that is paid on the side; and entry i loses at most D_i plus what both sides add. To the
right K is P^m. To the left it is P(X_{i-m} = u | X_i = x), or any distribution of X_{i-m}: then the
step has a formula. Steps of programmes come from recorded plans, each of which gives an upper bound
(`pufferkit.verification.recorded_plans`).

A recorded limit C bounds all entries from n to the end of a run if the B of the entries before, as
far as a block reaches, are at most C, and D + adds(C) <= C: then every later B is at most C, by
induction. A false record can only fail to show that a scale is enough.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import accumulate
from math import inf, isfinite
from typing import Any

import numpy as np

from pufferkit.checks import Bools, Floats
from pufferkit.verification.pair_steps import Programmes
from pufferkit.verification.pair_tables import Allowance, KnownChain, PairTables, projective_step

_FAR = 500.0
"""The variation between values that are never possible together."""

_MOST_BLOCKS = 64
_ROUNDING = 1e-12

SideRows = list[tuple[int, int, Floats]]
"""First and last entry of stretches, and what a side adds there."""


def loss_of_chain(
    chain: PairTables,
    runs: Sequence[tuple[int, Floats]],
    recorded: Any,
    work: Allowance,
    window: int = 1,
    weights: Floats | None = None,
) -> float:
    """Largest loss of a pair of values of an entry; infinite if a recorded limit does not hold.

    Parameters
    ----------
    chain
        A chain with a fixed initial distribution, stationary, or with any start; or bounds on all
        chains of a class.
    runs
        Numbers of consecutive entries, and their cost for each pair of states.
    recorded
        ``left`` and ``right``: limits, blocks and plans, counted from that end.
    window
        So many entries in a row are hidden together.
    weights
        What the loss of each pair of values is multiplied by, if pairs have different epsilons.
    """
    if not isinstance(recorded, Mapping):
        raise TypeError("the proof of a chain must have a left and a right side")
    with np.errstate(over="ignore", invalid="ignore"):
        found = _loss(chain, runs, recorded, work, window, weights)
    return found if isfinite(found) else inf  # what is no number bounds nothing


def _loss(
    chain: PairTables,
    runs: Sequence[tuple[int, Floats]],
    recorded: Mapping[str, Any],
    work: Allowance,
    window: int,
    weights: Floats | None,
) -> float:
    length = sum(count for count, _ in runs)
    whole = sum(count * float(cost.max()) for count, cost in runs)
    if weights is not None:
        whole *= float(weights.max())
    if window >= length > 1:
        return whole
    left = _CheckedSide(chain, runs, recorded["left"], work, to_left=True).rows()
    right = _CheckedSide(chain, runs[::-1], recorded["right"], work, to_left=False).rows()
    if left is None or right is None:
        return whole
    if window > 1:
        return min(whole, _of_windows(left, right, runs, window))
    firsts = {1, *(first for first, _, _ in left), *(length + 1 - last for _, last, _ in right)}
    firsts |= set(range(1, min(length, _nodes(chain)) + 1))
    firsts |= {end + 1 for end in accumulate(count for count, _ in runs) if end < length}
    largest = 0.0
    ends = list(accumulate(count for count, _ in runs))
    for node in firsts:
        loss = runs[bisect_left(ends, node)][1] + _at(left, node) + _at(right, length + 1 - node)
        last = _nodes(chain)
        own = node < last - chain.period
        known = isinstance(chain, KnownChain)
        pairs = chain.pairs(node) if own and known else _together(chain, last - chain.period, last)
        own_loss = float((loss if weights is None else loss * weights)[pairs].max())
        if not isfinite(own_loss):
            return whole
        largest = max(largest, own_loss)
    return min(largest, whole)


def _of_windows(
    left: SideRows, right: SideRows, runs: Sequence[tuple[int, Floats]], window: int
) -> float:
    """The most that the entries of a window cost, with what both sides add to its ends."""
    paid = [float(cost.max()) for count, cost in runs]
    length = sum(count for count, _ in runs)
    last = length - window + 1
    ends = list(accumulate(count for count, _ in runs))
    firsts = {1, last, *(first for first, _, _ in left)}
    firsts |= {last + 1 - stop for _, stop, _ in right} | {
        last + 1 - start for start, _, _ in right
    }
    firsts |= {end + n for end in ends for n in (0, 1)} | {
        end - window + n for end in ends for n in (1, 2)
    }
    firsts |= {first - 1 for first in firsts}
    largest = 0.0
    for first in (first for first in firsts if 1 <= first <= last):
        stop = first + window - 1
        inside, begun = 0.0, 1
        for end, own in zip(ends, paid, strict=True):
            inside += max(0, min(stop - 1, end) - max(first + 1, begun) + 1) * own
            begun = end + 1
        before = runs[bisect_left(ends, first)][1] + _at(left, first)
        after = runs[bisect_left(ends, stop)][1] + _at(right, length + 1 - stop)
        loss = float(before.max()) + inside + float(after.max())
        if not isfinite(loss):
            return inf
        largest = max(largest, loss)
    return largest


def _at(rows: SideRows, entry: int) -> Floats:
    return rows[bisect_left(rows, entry, key=lambda row: row[1])][2]


def _nodes(chain: PairTables) -> int:
    """From this node on, possible values repeat."""
    return chain.repeats_from + chain.period + 1


def _together(chain: PairTables, first: int, last: int) -> Bools:
    """Pairs of values that are possible together at some of these nodes."""
    if not isinstance(chain, KnownChain):
        return np.ones((chain.size, chain.size), dtype=bool)
    pairs: Bools = np.any([chain.pairs(node) for node in range(first, last + 1)], axis=0)
    return pairs


class _CheckedSide:
    """One side of all entries, counted from its end."""

    def __init__(
        self,
        chain: PairTables,
        runs: Sequence[tuple[int, Floats]],
        recorded: Any,
        work: Allowance,
        *,
        to_left: bool,
    ) -> None:
        self.chain, self.work, self.to_left = chain, work, to_left
        self.size = chain.size
        self.ends = list(accumulate(count for count, _ in runs))
        self.length = self.ends[-1]
        self.paid = [float(cost.max()) for _, cost in runs]
        outside = 1 - np.eye(self.size)
        self.counted = _together(chain, 1, min(self.length, _nodes(chain))) & (outside > 0)
        self.costs = [np.where(self.counted, cost, _FAR) * outside for _, cost in runs]
        self.limits, self.blocks, plans = _read(recorded, self.size, self.length)
        self.programmes = Programmes(plans, work)
        self.met: dict[int, Floats] = {}

    def rows(self) -> SideRows | None:
        """What the side adds to every entry; ``None`` if a limit does not hold."""
        rows: SideRows = [(1, 1, np.zeros((self.size, self.size)))]
        self.met[1] = self._closure(self.costs[0])
        entry = 2
        while entry <= self.length:
            self.work.spend(1e4 * len(self.ends))
            if entry in self.limits:
                last, limit = self.limits[entry]
                adds = self._within(entry, last, limit)
                if adds is None:
                    return None
                variation = adds + self.costs[self._run(last)] if limit is None else limit
                reach = _MOST_BLOCKS * _MOST_BLOCKS
                kept = range(max(entry, last - reach), last + 1)
                self.met.update(dict.fromkeys(kept, variation))
            else:
                last = entry
                adds = self._adds(entry, entry)
                self.met[entry] = self._closure(self.costs[self._run(entry)] + adds)
            rows.append((entry, last, adds))
            entry = last + 1
        self.programmes.end()
        return rows

    def _closure(self, variation: Floats) -> Floats:
        """The triangle closure; infinite where a way between values that never meet was shorter."""
        closed = _closed(variation)
        masked = not np.all(self.counted | np.eye(self.size, dtype=bool))
        if masked and not closed[self.counted].max(initial=0.0) <= _FAR / 2:
            return np.where(self.counted, inf, closed)
        return closed

    def _run(self, entry: int) -> int:
        return bisect_left(self.ends, entry)

    def _total(self, last: int) -> float:
        """What the entries 1 ... ``last`` pay together."""
        total, before = 0.0, 0
        for end, paid in zip(self.ends, self.paid, strict=True):
            total += max(0, min(end, last) - before) * paid
            before = end
        return total

    def _within(  # noqa: PLR0911  (each a way to fail)
        self, first: int, last: int, limit: Floats | None
    ) -> Floats | None:
        """What is added at entries bounded by a limit, if it holds; all paid for without one."""
        run = self._run(first)
        begun = self.ends[run - 1] if run else 0
        if self._run(last) != run:
            return None
        if limit is None:
            return self._total(last - 1) * (1 - np.eye(self.size))
        reach = max((size for size, _ in self.blocks.get(first, _ONE)), default=1)
        if begun and first - begun < reach:
            return None
        before = [self.met[entry] for entry in range(max(1, first - reach), first)]
        if not all(np.all((own <= limit) | ~self.counted) for own in before):
            return None
        adds = np.zeros((self.size, self.size))
        # Formulas are for all later entries at once, programmes for each until they repeat.
        own_kernels = any(kind != "any distribution" for _, kind in self.blocks.get(first, _ONE))
        repeats = self.chain.repeats_from + reach + 1 if self.to_left and own_kernels else first
        cyclic = self.to_left and self.chain.period > 1
        places = range(first, first + 1 if cyclic else min(max(first, repeats), last) + 1)
        if cyclic and own_kernels and first < self.chain.repeats_from + reach:
            return None
        for place in places:
            own = self._adds(first, place, limit, cyclic=cyclic)
            if not np.all((self.costs[run] + own <= limit) | ~self.counted):
                return None
            adds = np.maximum(adds, own)
        return adds

    def _adds(
        self,
        first: int,
        entry: int,
        limit: Floats | None = None,
        *,
        cyclic: bool = False,
    ) -> Floats:
        """The least over the recorded blocks of entry ``first``, with the kernels of ``entry``.

        With a limit, that is the variation everywhere beyond, and all entries pay alike.
        """
        run, alike = self._run(entry), limit is not None
        whole = inf if alike else self._total(entry - 1)
        least = np.where(self.counted, whole, 0.0)
        for size, kind in self.blocks.get(first, _ONE):
            if size >= entry and not alike:
                raise TypeError("a block is longer than the side of its entry")
            if alike:
                paid = (size - 1) * self.paid[run]
            else:
                paid = self._total(entry - 1) - self._total(entry - size)
            variation = self.met[entry - size] if limit is None else limit
            if kind == "any distribution":
                steps = self._over_starts(entry, size, variation, alike)
            elif kind == "largest variation":
                steps = self._at_largest(entry, size, variation)
            else:
                kernel = self._kernel(entry, size, cyclic)
                steps = self.programmes.steps(
                    kernel, variation, again=alike and entry > first, place=size
                )
            bound = paid + steps
            better = (bound < least) & np.isfinite(bound)
            least = np.where(better, bound, least)
        return np.where(self.counted, least, 0.0)

    def _kernel(self, entry: int, size: int, cyclic: bool) -> Floats:
        """The kernel to the entry ``size`` further on; impossible values get another's row."""
        if not isinstance(self.chain, KnownChain):
            raise TypeError("there is no kernel for all chains of a class")
        values, _ = self.chain.power(size)
        if not self.to_left:
            kernel: Floats = values / values.sum(axis=1, keepdims=True)
            return kernel
        if self.chain.any_start:
            raise TypeError("with any start there is no kernel to the left")
        if cyclic:
            first = self.chain.repeats_from + 1
            nodes = range(first, first + self.chain.period)
            before = np.mean([self.chain.distribution(node)[0] for node in nodes], axis=0)
            here = before > 0
        else:
            if entry <= size:
                raise TypeError("a block is longer than the side of its entry")
            if self.chain.period == 1:
                entry = min(entry, self.chain.repeats_from + size + 1)
            before = self.chain.distribution(entry - size)[0]
            here = self.chain.distribution(entry)[1]
        joint = (before[:, None] * values).T
        joint[~here] = joint[int(np.flatnonzero(here)[0])]
        sums = joint.sum(axis=1, keepdims=True)
        if not (sums > 0).all():
            raise TypeError("a kernel has underflowed")
        backward: Floats = joint / sums
        return backward

    def _at_largest(self, entry: int, size: int, variation: Floats) -> Floats:
        """The step of each pair of values at the largest variation beyond."""
        largest = float(variation[self.counted].max(initial=0.0))
        if self.to_left:
            if isinstance(self.chain, KnownChain) and self.chain.period == 1:
                entry = min(max(entry, size + 1), self.chain.repeats_from + size + 1)
            table = self.chain.left(max(entry, size + 1), size, largest)
        else:
            table = self.chain.right(size, largest)
        if table.shape != self.counted.shape:  # one pair of values stands for all
            table = np.full(self.counted.shape, float(table.max()))
        table = np.where(np.isnan(table), inf, table)
        # A way over a value that is not possible is never the shorter one.
        table = np.maximum(np.where(np.isneginf(table), table.max(), table), 0.0)
        np.fill_diagonal(table, 0.0)
        return table

    def _over_starts(self, entry: int, size: int, variation: Floats, alike: bool) -> Floats:
        """The step over all distributions of the entry beyond: PAIRS Theorem 5 with blocks."""
        if not self.to_left or not isinstance(self.chain, KnownChain):
            raise TypeError("to the right the kernels are known")
        values, possible = self.chain.power(size)
        last = _nodes(self.chain)
        nodes = range(max(1, min(entry - size, last - self.chain.period)), last + 1)
        if not alike and entry - size < last:
            nodes = range(entry - size, entry - size + 1)
        supports = [self.chain.distribution(node)[1] for node in nodes]
        columns = np.flatnonzero(np.any(supports, axis=0))
        self.work.spend(1e4 + 40 * self.size**2 * len(columns) ** 2)
        with np.errstate(divide="ignore"):
            logs = np.where(possible, np.log(values), -inf)[columns]
        ahead = variation[np.ix_(columns, columns)]
        table = np.zeros((self.size, self.size))
        for x in range(self.size):
            for other in range(self.size):
                if other == x or not self.counted[x, other]:
                    continue
                up = np.isfinite(logs[:, x])[:, None] & np.isfinite(logs[:, other])[None, :]
                with np.errstate(invalid="ignore"):
                    apart = logs[:, x] - logs[:, other]
                    diameter = apart[:, None] - apart[None, :]
                diameter = np.where(np.isfinite(diameter), np.maximum(diameter, 0.0), inf)
                near = projective_step(diameter, ahead) + _ROUNDING * float(ahead.max())
                # Where nothing is forgotten the step is the variation itself: no rounding.
                own = np.where(up, np.where(np.isinf(diameter), ahead, near), 0.0)
                table[x, other] = float(own.max(initial=0.0))
        # A way over a value that is not possible is never the shorter one.
        reached = np.isfinite(logs).any(axis=0)
        table[~np.outer(reached, reached)] = table.max()
        np.fill_diagonal(table, 0.0)
        return table


def _closed(variation: Floats) -> Floats:
    """The triangle closure: shortest paths, which leave the allowed functions unchanged."""
    closed = variation.copy()
    np.fill_diagonal(closed, 0.0)
    for middle in range(len(closed)):
        closed = np.minimum(closed, closed[:, middle, None] + closed[None, middle, :])
    return closed


BlocksOfEntries = dict[int, list[tuple[int, str]]]
"""The size of every block of an entry, and how its steps are found."""

_ONE = [(1, "plans")]


def _read(
    recorded: Any, size: int, length: int
) -> tuple[dict[int, tuple[int, Floats | None]], BlocksOfEntries, Any]:
    """Limits and blocks by their first entry, and the text of the plans."""
    if not isinstance(recorded, Mapping):
        raise TypeError("a side of a proof must have limits, blocks and plans")
    limits: dict[int, tuple[int, Floats | None]] = {}
    for one in recorded.get("limits") or ():
        first, last, table = _whole(one["first"]), _whole(one["last"]), one["limit"]
        if not 2 <= first <= last <= length:
            raise TypeError(f"a limit holds for entries {first} to {last}, of {length}")
        limits[first] = last, None if table is None else _table(table, size)
    blocks: BlocksOfEntries = {}
    for row in recorded.get("blocks") or ():
        if not isinstance(row, list) or len(row) != 2 or not isinstance(row[1], Mapping):
            raise TypeError("blocks are an entry and the sizes of each kind")
        first, kinds = row
        if not set(kinds) <= {"plans", "any distribution", "largest variation"}:
            raise TypeError(f"there are no blocks of these kinds: {sorted(kinds)}")
        sizes = [(_whole(size), kind) for kind, own in kinds.items() for size in own]
        if len(sizes) > _MOST_BLOCKS or any(not 1 <= m <= length for m, _ in sizes):
            raise TypeError("a proof names blocks that are not there")
        blocks[_whole(first)] = sorted(sizes)
    return limits, blocks, recorded.get("plans")


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"a proof counts entries, not {value!r}")
    return value


def _table(recorded: Any, size: int) -> Floats:
    try:
        table = np.array(recorded, dtype=float)
    except ValueError as error:
        raise TypeError(f"a limit of pairs must hold numbers; {error}") from None
    if table.shape != (size, size) or not np.isfinite(table).all() or table.min() < 0:
        raise TypeError("a limit of pairs must have a number for each pair of states")
    np.fill_diagonal(table, 0.0)
    return table
