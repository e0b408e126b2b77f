"""How far secrets about a chain move a sum: W-infinity between its distributions given either.

The sum is S = v(X_1) + ... + v(X_T) with whole non-negative values v. A secret is the value of an
entry, the label of a window, or an event about named entries. The chain is a product of matrices of
polynomials, P(x, y) z^{v(y)}: the coefficient of z^s is the mass of the paths that sum to s. So the
joint distribution of the secret and S is

    (what comes before the window) (the window, by its label) (what comes after it),

and there are two ways to have it for all windows:

- *sides*: before and after by recursion, entry by entry, then one convolution for each case of the
  last entry of the window: about k T^3 / 6 products for k states. Any window and any label.
- *halving*, for single entries: what surrounds the left half of a stretch is what surrounds the
  stretch times its right half. k^3 T^2 log T products: less for few states and long series.

The cheaper one is used; both give the same numbers up to rounding. A label is read by an automaton
along the window; entry and automaton together are a chain. The value of an entry is a label of a
window of one.

Secrets: as above. Beliefs: one known chain. The distances of a class are the largest of its
members. Nothing here knows a class of beliefs: arrays in, numbers out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import pairwise
from math import inf, log2

import numpy as np

from pufferkit.checks import Bools, Floats, Ints
from pufferkit.errors import NotApplicable
from pufferkit.influence.sums import lattice
from pufferkit.influence.sums.lattice import Distance, Masses, SumTables, convolved, fits_floats
from pufferkit.influence.sums.network_sums import SummedNetwork
from pufferkit.rounding import EPS

MOST_BYTES = 8 * 10**9
"""Largest table of distributions, in bytes."""

MOST_WORK = 6e10
"""Most nanoseconds, about, for labels of windows and for conditions."""

_RARE = 1e-15  # beside less likely values the sums that underflow might matter
_PLAIN = 50.0  # so many times as long as compiled loops take those that run as plain Python
_EACH = 5e4  # nanoseconds for one row of a window, however short
_COMPARED = 30.0  # nanoseconds to compare one number of a row


@dataclass(frozen=True, eq=False)
class WindowLabels:
    """What reads the label of a window: an automaton.

    ``moves[n][m, x]`` is the memory after entry n of the window is x with memory m before it;
    ``ends[m]`` is the label of a window that ends with memory m.
    """

    moves: Sequence[Ints]
    ends: Sequence[int]

    @classmethod
    def values(cls, size: int) -> WindowLabels:
        """The label of one entry is its value."""
        return cls([np.arange(size)[None, :]], range(size))

    def cases(self, transition: Floats) -> list[list[tuple[int, int]]]:
        """For each entry of the window, the possible pairs of memory and state."""
        cases = [[(int(m), x) for x, m in enumerate(self.moves[0][0])]]
        for moves in self.moves[1:]:
            reached = {
                (int(moves[m, y]), int(y))
                for m, x in cases[-1]
                for y in np.flatnonzero(transition[x] > 0)
            }
            cases.append(sorted(reached))
        return cases


@dataclass(frozen=True, eq=False)
class SummedChain:
    """A chain of given length, and the whole non-negative value of each state."""

    initial: Floats
    transition: Floats
    values: Ints
    length: int

    @property
    def largest(self) -> int:
        """The largest value of a state."""
        return int(self.values.max())

    @cached_property
    def plain(self) -> bool:
        """Whether plain floats hold every number."""
        return fits_floats(self.initial, self.transition, self.length, self.largest)

    def of_values(self, *, mirrored: bool = False) -> SumTables:
        """The tables of the values of each entry.

        Where entries i and T + 1 - i are alike (``mirrored``) half of them suffice.
        """
        last = (self.length + 1) // 2 if mirrored else self.length
        size = len(self.values)

        def rows() -> Iterator[Masses]:
            if _by_halving(self.length, size):
                return self._halving(last)
            return self.joint(WindowLabels.values(size))

        work = value_work(self.length, size, self.largest)
        return replace(self._tables(rows, size, last, work), exactly=self.exactly)

    def exactly(self) -> Distance | None:
        """The largest distance between two values of an entry, in whole numbers, if that is quick.

        The chain is a network then.
        """
        values = self.values.tolist()
        network = SummedNetwork.of_chain(self.initial, self.transition, values, self.length)
        exact = network.of_values().exactly()
        return None if exact is None else replace(exact, place=exact.place + 1)

    def of_labels(self, labels: WindowLabels) -> SumTables:
        """The tables of the labels of every window."""
        cases = labels.cases(self.transition)
        last, work = self.length - len(labels.moves) + 1, self._label_work(labels, cases)
        most = max(map(len, cases))
        return self._tables(lambda: self.joint(labels), most, last, work, MOST_WORK)

    def of_sum(self, labels: Ints) -> SumTables:
        """The table of a label that the sum itself determines: ``labels[s]`` is that of the sum s.

        One pass through the chain is enough.
        """
        return self._once(lambda: self._split(labels))

    def of_conditions(self, one: Mapping[int, Bools], other: Mapping[int, Bools]) -> SumTables:
        """The table of two conditions: which states named entries may have.

        If one of them is impossible there is nothing to hide, and the distance is 0.
        """
        return self._once(lambda: self._given(one).joined(self._given(other)))

    def _once(self, rows: Callable[[], Masses]) -> SumTables:
        size = len(self.values)
        work = 4.0 * self.length * size**2 * (self.length * self.largest + 1)
        return self._tables(lambda: iter([rows()]), size, 1, work, MOST_WORK)

    def _tables(
        self,
        rows: Callable[[], Iterator[Masses]],
        cases: int,
        last: int,
        work: float,
        most: float = inf,
    ) -> SumTables:
        """Tables of places 1, 2, ..., ``last``; ``cases`` are those of an entry."""
        # Each number undergoes at most about half as many roundings.
        error = 4 * EPS * (self.length * (cases + 2) + self.length * self.largest + 400)

        def each() -> Iterator[tuple[int, Masses]]:
            if work > most:
                raise NotApplicable(
                    f"the distributions of the sum given these events take about {work / 1e9:.2g} "
                    f"s, more than {most / 1e9:.0f}; use influence_curve, a shorter series or "
                    "rounder values"
                )
            if not self.plain:
                lattice.expect(_PLAIN * 1e-9 * work)
            for place, own in zip(range(1, last + 1), rows(), strict=False):
                yield place, replace(own, error=error)

        waits = 1e9 * lattice.wait(_PLAIN * 1e-9 * work) if last > 1 and not self.plain else 0.0
        return SumTables(each, last, work + waits)

    def _split(self, labels: Ints) -> Masses:
        """The distribution of the sum together with a label that it determines, a row for each."""
        whole = self._given({})
        known = np.concatenate([labels, np.full(whole.room - len(labels), -1)])
        own = known == np.arange(labels.max() + 1)[:, None]
        numbers = np.where(own, whole.numbers, 0.0)
        if whole.exponents is None:
            return Masses(numbers)
        some = numbers.reshape(len(own), -1, lattice.BLOCK).any(axis=2)
        return Masses(numbers, np.where(some, whole.exponents, lattice.NOTHING), whole.lost)

    def _label_work(
        self, labels: WindowLabels, cases: Sequence[Sequence[tuple[int, int]]]
    ) -> float:
        """Approximate nanoseconds for the distances of all windows.

        Two products take one, because those that cannot matter are skipped.
        """
        room = self.length * max(1, self.largest) + 1
        steps = sum(len(one) * len(other) for one, other in pairwise(cases))
        ends = len(cases[-1]) * (room**2 / 12 + _EACH / 2)
        windows = self.length - len(labels.moves) + 1
        return windows * (steps * room / 4 + ends + _COMPARED * (1 + max(labels.ends)) * room)

    # --- sides ------------------------------------------------------------------------------------

    def joint(self, labels: WindowLabels) -> Iterator[Masses]:
        """For every window, the joint distribution of its label and the sum, a row for a label."""
        size, width = len(self.values), len(labels.moves)
        last, states = self.length - width + 1, np.arange(size)
        after = [self._points(np.ones(size))]
        for n in range(1, last):
            after.append(self._moved(after[-1], states, self.transition, n))
        cases = labels.cases(self.transition)
        own = [[x for _, x in here] for here in cases]
        kernels = [
            self._kernel(labels.moves[n + 1], cases[n], cases[n + 1]) for n in range(width - 1)
        ]
        ends = [(n, x, labels.ends[memory]) for n, (memory, x) in enumerate(cases[-1])]
        pairs = [
            [(n, x) for n, x, end in ends if end == label] for label in range(1 + max(labels.ends))
        ]
        before = self._points(self.initial)
        for first in range(last):
            rows = before.chosen(own[0])
            for n, kernel in enumerate(kernels, first + 1):
                rows = self._moved(rows, own[n - first - 1], kernel, n)
            rows = rows.shifted(self.values[own[-1]], (first + width) * self.largest + 1)
            yield convolved(rows, after.pop(), pairs, self.length * self.largest + 1)
            before = self._moved(before, states, self.transition.T, first + 1)

    def _kernel(
        self, moves: Ints, cases: Sequence[tuple[int, int]], following: Sequence[tuple[int, int]]
    ) -> Floats:
        """From each case of an entry of a window to those of the next."""
        place = {case: n for n, case in enumerate(following)}
        kernel = np.zeros((len(following), len(cases)))
        for n, (memory, x) in enumerate(cases):
            for y in np.flatnonzero(self.transition[x] > 0):
                kernel[place[int(moves[memory, y]), int(y)], n] += self.transition[x, y]
        return kernel

    def _given(self, condition: Mapping[int, Bools]) -> Masses:
        """The distribution of the sum where named entries have allowed states; one row."""
        everything = np.ones(len(self.values), dtype=bool)
        rows = self._points(np.where(condition.get(1, everything), self.initial, 0.0))
        for entry in range(2, self.length + 1):
            allowed = condition.get(entry, everything)[:, None]
            kernel = np.where(allowed, self.transition.T, 0.0)
            rows = self._moved(rows, np.arange(len(self.values)), kernel, entry - 1)
        whole = np.ones((1, len(self.values)))
        return self._moved(rows, np.arange(len(self.values)), whole, self.length)

    def _moved(
        self, rows: Masses, states: Ints | list[int], kernel: Floats, entries: int
    ) -> Masses:
        """The values of an entry added, which makes so many ``entries``, then mixed by a kernel."""
        return rows.shifted(self.values[states], entries * self.largest + 1).mixed(kernel)

    def _points(self, weights: Floats) -> Masses:
        """Row x is ``weights[x]`` at the sum 0."""
        return Masses.points(weights, np.zeros(len(weights), dtype=np.int64), plain=self.plain)

    # --- halving ----------------------------------------------------------------------------------

    def _halving(self, last: int) -> Iterator[Masses]:
        """For entries 1 ... last the joint distribution of X_i and the sum, a row for each value.

        Rows of pairs of states are numbered x k + y; row (x, y) of a product sums over z.
        """
        size, values, transition = len(self.values), self.values, self.transition
        states, one = range(size), np.eye(size)
        both = [(x, y) for x in states for y in states]
        through = [[(x * size + z, z * size + y) for z in states] for x, y in both]
        leftwards = [[(y * size + z, x * size + z) for z in states] for x, y in both]
        rightwards = [[(z * size + x, z * size + y) for z in states] for x, y in both]

        @cache
        def paths(count: int) -> Masses:
            """Paths through ``count`` entries from x to y, by the sum of their values."""
            if count == 1:
                return Masses.points(one.ravel(), np.repeat(values, size), plain=self.plain)
            half = count // 2
            return convolved(then(half), paths(count - half), through, count * self.largest + 1)

        @cache
        def then(count: int) -> Masses:
            """The same with one transition after the last entry."""
            return paths(count).mixed(np.kron(one, transition.T).astype(np.float64))

        @cache
        def ahead(count: int) -> Masses:
            """The same with one transition before the first entry."""
            return paths(count).mixed(np.kron(transition, one).astype(np.float64))

        def descend(first: int, count: int, around: Masses) -> Iterator[Masses]:
            if first > last:
                return
            if count == 1:
                yield around
                return
            half = count // 2
            # around_left[x, m] = sum over y of around[x, y] (P right)[m, y]
            yield from descend(first, half, extended(ahead(count - half), around, leftwards, half))
            # around_right[n, y] = sum over x of around[x, y] (left P)[x, n]
            right = extended(then(half), around, rightwards, count - half)
            yield from descend(first + half, count - half, right)

        def extended(half: Masses, around: Masses, pairs: lattice.RowPairs, count: int) -> Masses:
            chosen = pairs if count > 1 else pairs[:: size + 1]  # one entry needs the diagonal only
            return convolved(half, around, chosen, (self.length - count) * self.largest + 1)

        root = self._points(np.repeat(self.initial, size))
        room = self.length * self.largest + 1
        return (rows.shifted(values, room) for rows in descend(1, self.length, root))


# --- counted days ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class CountedDays:
    """How many days of a chain have at least ``needed`` entries ``inside`` some states.

    Theorem: FIXES 3. Let q_t count such entries since the day began, up to ``needed``. Then (X_t,
    q_t) is a chain, and a move of it adds 1 where q_t becomes ``needed``: the number of days is
    Markov-additive. So the joint distribution of X_i and that number is, summed over q_i, what came
    before convolved with what follows.

    Secrets: the value of any entry. Beliefs: one known chain; one segment, all entries observed.
    ``days`` are the numbers of entries of the days, in order.
    """

    initial: Floats
    transition: Floats
    inside: Bools
    needed: int
    days: Ints

    @property
    def of_values(self) -> SumTables:
        """The tables of the values of each entry."""
        size, room, length = len(self.initial), len(self.days) + 1, int(self.days.sum())
        cases = size * (self.needed + 1)
        error = 4 * EPS * (length * (cases + 2) + len(self.days) + 400)
        work = length * (4 * _EACH + cases * (1e4 + room * (room / 6 + 4 * size)))
        return SumTables(
            lambda: enumerate((replace(own, error=error) for own in self._joint()), 1), length, work
        )

    def _joint(self) -> Iterator[Masses]:
        """For every entry the joint distribution of its value and the number of days."""
        size = len(self.initial)
        after = [np.ones((self.needed + 1, size, 1))]  # by memory, state and days that follow
        for count in self.days[:0:-1].tolist():
            after.append(self._day_before(after[-1], count)[0])
        before = np.zeros((self.needed + 1, size, 0))
        for count in self.days.tolist():
            following = [*self._day_before(after.pop(), count)[1:]]
            for n in range(count):
                before = self._with_entry(before, first=n == 0)
                yield self._joined(before, following[n])

    def _with_entry(self, before: Floats, *, first: bool) -> Floats:
        """By memory, state and days so far, after one more entry; at first it forgets."""
        room = before.shape[2] + first
        came = np.zeros((*before.shape[:2], max(room, 2)))
        if not before.shape[2]:
            came[0, :, 0] = self.initial
        elif first:
            came[0, :, : room - 1] = self.transition.T @ before.sum(axis=0)
        else:
            came[:] = self.transition.T @ before
        chosen = np.flatnonzero(self.inside)
        out: Floats = np.where(self.inside[:, None], 0.0, came)
        out[1:-1, chosen] = came[:-2, chosen]
        out[-1, chosen] = came[-1, chosen]
        out[-1, chosen, 1:] += came[-2, chosen, :-1]  # the day counts from here on
        return out

    def _day_before(self, end: Floats, count: int) -> list[Floats]:
        """What follows each entry of a day of so many, given what follows its last one.

        The first of the list is what follows the last entry of the day before.
        """
        rows = [np.concatenate([end, np.zeros((*end.shape[:2], 1))], axis=2)]
        chosen = np.flatnonzero(self.inside)
        for n in range(count):
            later = rows[-1]
            came: Floats = later.copy()
            came[:-2, chosen] = later[1:-1, chosen]
            came[-2, chosen, 1:], came[-2, chosen, 0] = later[-1, chosen, :-1], 0.0
            first = came[:1].repeat(len(came), axis=0) if n == count - 1 else came
            rows.append(self.transition @ first)
        return rows[::-1]

    def _joined(self, before: Floats, after: Floats) -> Masses:
        """The joint distribution of the value of an entry and the number of all days."""
        room = len(self.days) + 1
        numbers = np.zeros((len(self.initial), room))
        for q, x in np.ndindex(*before.shape[:2]):
            if before[q, x].any():
                numbers[x] += np.convolve(before[q, x], after[q, x])[:room]
        masses = numbers.sum(axis=1)
        return Masses(numbers, lost=bool(((masses > 0) & (masses < _RARE)).any()))


def value_work(length: int, states: int, largest: int) -> float:
    """Approximate nanoseconds for the distances between values of entries."""
    size = (float(length) * max(1, largest)) ** 2
    return size * min(_halving_cost(length, states), _sides_cost(length, states)) / 2 + (
        _EACH * length * states
    )


def _halving_cost(length: int, states: int) -> float:
    """Products for each squared length."""
    return states**3 * log2(length + 1) * 2


def _sides_cost(length: int, states: int) -> float:
    return states * length / 6


def _by_halving(length: int, states: int) -> bool:
    return _halving_cost(length, states) <= _sides_cost(length, states)


def value_bytes(length: int, states: int, largest: int) -> int:
    """Approximate number of bytes in memory at once."""
    if _by_halving(length, states):
        # Three kinds of paths, and the product around a stretch, for each pair of states.
        return length * largest * states**2 * (8 + length.bit_length()) * 8
    # The sums after every entry: half of all entries times all sums.
    return length * (length * largest + 32) * states * 9 // 2


def check_memory(length: int, states: int, largest: int) -> None:
    """Refuse what needs too much memory before it is started; ``largest`` may have any size."""
    needed = value_bytes(length, states, largest)
    if needed > MOST_BYTES:
        gigabytes, steps = (float(min(n, 10**300)) for n in (needed // 10**9, largest))
        raise NotApplicable(
            f"its distributions need about {gigabytes:.2g} GB for {length:,} entries: in multiples "
            f"of their greatest common divisor, the values differ by {steps:.2g}; use "
            "rounder values, such as 0.25 or Fraction(1, 3), a shorter series, or influence_curve"
        )
