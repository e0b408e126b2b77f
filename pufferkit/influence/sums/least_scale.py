"""The least Laplace noise on one sum, by the exact distributions of the sum given each secret.

The sum is N = f(X_1) + c(X_1, X_2) + ... + c(X_{T-1}, X_T) over a chain, with whole non-negative
numbers (`Additive`): sums over entries, and counts of moves such as episodes. The noise is Laplace
of scale s.

The largest loss of entry i is at a value of N (`_likelihoods`, with the proof). For every T it is
at most that of publishing the ends of a window around the entry and the sum inside with the same
noise (`SumWindow`). A side may also be exhausted: it has no end to publish, and all its entries are
inside. With both sides exhausted the loss is exact: a whole series is a window too.

Where the secret is a label of a window, the value of a node or an event, the joint distributions of
secret and sum are given, and each is a window without ends (`least_scale_of_tables`).

Secrets: every pair of possible values of every entry; or those whose distributions are given.
Beliefs: one known chain; a finite class by the largest over its members. Releases: this sum and
nothing else. The loss of two such releases is not bounded by the sum of the two.

Only non-negative numbers are added and multiplied, so relative errors stay small and are added to
the loss. Underflow loses less than 1e-299 in all, so a likelihood is trusted from 1e-280
on; a smaller one counts as infinite loss. Which ends are possible at all is stored exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import inf
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from pufferkit.checks import Bools, Floats, Ints
from pufferkit.errors import NotApplicable, TakesLong
from pufferkit.influence.sums.lattice import BLOCK, Masses, SumTables
from pufferkit.rounding import EPS, last_passing
from pufferkit.threads import one_thread

MOST_BYTES = 16 * 10**7
"""Most memory that a window may take."""

_TRUSTED = 1e-280  # a smaller likelihood may have lost its accuracy to underflow
_MOST_VALUES = 4_000  # of the sum over a window
_BLOCK, _AT_ONCE = 32, 128  # numbers smoothed by one matrix; up to so many at once
_CELLS = 10**5  # numbers worked on at once, so that they stay near the processor
_FEW_ENDS, _NEW_ENDS = 64, 8  # from so many ends on only the hardest are searched, so many at once
_FIRST_REACH = 8  # of the first window; each next one is half as long again
_GOOD = 4e-4  # a larger window that gains less than this share is not made larger again
_PRECISION = 1e-6  # of a scale
_ROUNDS = 8  # searches at the hardest ends before all of them are searched


@dataclass(frozen=True, eq=False)
class EntryDistributions:
    """The distributions of X_1, X_2, ..., and, exactly, which of their values are possible.

    From row ``burn_in`` on they repeat with the period ``cycle``. ``error`` bounds the error of a
    logarithm of one. ``initial`` is the distribution of X_1 as it was given.
    """

    initial: Floats
    table: Floats
    possible: Bools
    burn_in: int
    cycle: int
    error: float

    @property
    def distinct(self) -> int:
        """Number of entries after which every distribution repeats an earlier one; 0 if all do."""
        return self.burn_in + self.cycle if len(self.table) > 1 else 0

    def rows(self, entries: Iterable[int]) -> NDArray[np.intp]:
        """The rows of some entries, counted from 1."""
        n = np.array(entries, dtype=np.int64)
        folded = self.burn_in + (n - 1 - self.burn_in) % self.cycle
        return np.where(n <= self.burn_in, n - 1, folded)


@dataclass(frozen=True, eq=False)
class Additive:
    """What the first entry and every move add to a sum, in whole non-negative numbers.

    N = ``first[X_1]`` plus the sum of ``moves[X_t, X_{t+1}]``. In a sum over entries a move adds
    the value of the entry that it leads to; the number of episodes of some states counts the moves
    into them from outside.
    """

    first: Ints
    moves: Ints

    @classmethod
    def of_values(cls, values: Ints) -> Additive:
        """The sum over entries of the values of their states."""
        return cls(values, np.broadcast_to(values, (len(values), len(values))))

    @property
    def largest(self) -> int:
        """The most that an entry adds."""
        return max(int(self.first.max()), int(self.moves.max()))


@dataclass(frozen=True)
class LeastScale:
    """The least scale, the entry and window that determine it, and the least length for it."""

    scale: float
    entry: Any
    left: int | None
    right: int | None
    enough: int
    limited: bool = False
    """Whether larger windows, which might need less noise, do not fit into memory."""


@one_thread()
def least_scale(
    transition: Floats,
    entries: EntryDistributions,
    added: Additive,
    length: int,
    epsilon: float,
    most_work: float = inf,
) -> LeastScale:
    """The least Laplace scale, in units of the sum, at which every entry loses at most epsilon.

    Windows grow, around the inner entries and the first one, until that gains hardly anything, or
    until all entries are inside. The search ends at a scale that was checked for every window. A
    series of at least ``enough`` entries has the same windows, and so the same scale.

    Parameters
    ----------
    transition, entries
        The matrix of the chain, and the distributions of its entries.
    added
        What the first entry and every move add.
    length, epsilon
        Number of entries, and the loss that each may have.
    most_work
        About how many nanoseconds before giving up.

    Raises
    ------
    NotApplicable
        If no window that is small enough gives a finite loss, or if it takes more
        than about ``most_work`` nanoseconds.
    """
    kept: tuple[SumWindows, float] | None = None
    inner: SumWindow | None
    reach, at_end = _FIRST_REACH, 0.0
    while True:
        inner = None  # makes room for a larger one
        try:
            whole = 2 * reach >= length
            windows = SumWindows(transition, entries, added, length, length if whole else reach)
        except NotApplicable:
            if kept is None:
                raise
            break
        if windows.work > most_work:
            raise TakesLong(
                f"windows of {windows.reach} entries on either side are needed, which takes long"
            )
        inner = windows.inner
        if inner is None:
            kept = windows, 0.0
            break
        if inner.error >= epsilon:
            if kept is None:
                raise NotApplicable(
                    f"epsilon {epsilon:g} is below the rounding error of the sums; use "
                    "influence_curve, or a larger one"
                )
            break
        start = kept[1] if kept is not None else 0.0
        scale = _scale_for(inner, epsilon, start)
        end = _scale_for(windows.window(1), epsilon, at_end)
        if scale is not None and end is not None:
            # The end matters if it needs more than the inner entries.
            ended = end <= scale or end > at_end * (1 - _GOOD)
            if ended and scale > start * (1 - _GOOD) and kept is not None:
                least = _over_all(windows, epsilon, scale, inner)
                if isinstance(least, LeastScale):
                    return least
            kept, at_end = (windows, scale), end
        reach += reach // 2
    least = _over_all(kept[0], epsilon, kept[1])
    if isinstance(least, int):
        raise NotApplicable(
            f"entry {least} has an infinite loss at every scale; use influence_curve"
        )
    return replace(least, limited=length > 2 * kept[0].reach)


def _over_all(
    windows: SumWindows, epsilon: float, scale: float, inner: SumWindow | None = None
) -> LeastScale | int:
    """The least scale from ``scale`` up that passes every window, or an entry with none."""
    least: LeastScale | None = None
    for window in windows.windows(inner):
        if least is not None and window.loss(least.scale) <= epsilon:
            continue
        own = _scale_for(window, epsilon, scale if least is None else least.scale)
        if own is None:
            return window.entry
        entry = window.hardest(own)[1]
        least = LeastScale(own, entry, window.left, window.right, windows.enough)
    assert least is not None
    return least


def _scale_for(window: SumWindow, epsilon: float, near: float) -> float | None:
    """The least scale that passes for one window, searched from ``near``; ``None`` if none does.

    Searched where the ends are hardest, which is quick, then checked for all of them: if it does
    not pass, the ends that need more are added.
    """
    if window.loss(inf) > epsilon:
        return None  # the ends alone reveal more, whatever the noise
    for _ in range(_ROUNDS):
        scale = _searched(window, window.at_hardest_ends, epsilon, near)
        if scale is None or window.loss(scale) <= epsilon:
            return scale
        near = scale
    return _searched(window, window.loss, epsilon, near)


def _searched(
    window: SumWindow, loss: Callable[[float], float], epsilon: float, near: float
) -> float | None:
    # Changing everything in the window moves the sum by its range, so this always suffices if the
    # ends reveal little enough.
    most = 1e3 * window.parts.shape[2] / epsilon
    good = near if near > 0 else 1.0 / epsilon
    while loss(good) > epsilon:
        good *= 2
        if good > most:
            return None
    bad = good / 2
    while loss(bad) <= epsilon:
        good, bad = bad, bad / 2
        if bad < 1e-4 / epsilon:
            return good
    return last_passing(lambda scale: epsilon - loss(scale), good, bad, _PRECISION)


@dataclass(frozen=True, eq=False)
class SumWindow:
    """Entries with the same surroundings: the sums around them, and their distributions.

    Theorem: PAIRS Theorem 4, for all additive sums. Let S be what the moves from i - l to i + m
    add. For every T the loss of entry i is at most that of publishing X_{i-l}, X_{i+m} and S with
    the same noise. *Proof.* Given these two the inside and the outside are independent, and N - S
    is a function of the outside and the ends. So the likelihood of an output is a mean over the
    outside of likelihoods of the inside, with the same weights for x and x'; a ratio of two means
    is at most the largest ratio of their terms.

    ``parts[x, (u, y)]`` is the distribution of the sum inside together with the ends, given X_i =
    x, up to the factor P(X_{i-l} = u) / P(X_i = x). The numerator is the same for all x and
    cancels in every ratio; ``chances`` has a row of denominators for each entry. ``possible``
    says, exactly, which values each entry can have, ``allowed`` which ends each value allows, and
    ``starts`` which left ends are possible at all.
    """

    entries: tuple[int, ...]
    left: int | None
    right: int | None
    parts: Floats
    allowed: Bools
    starts: Bools
    chances: Floats
    possible: Bools
    error: float

    @property
    def entry(self) -> int:
        """The first of the entries."""
        return self.entries[0]

    def loss(self, scale: float) -> float:
        """The largest loss of an entry at a scale, rounded up; in the unit of the values."""
        return self.hardest(scale)[0]

    def hardest(self, scale: float) -> tuple[float, int]:
        """The largest loss, and the entry that has it."""
        rate = float(np.exp(-1.0 / scale))
        if len(self.entries) == 1:
            ratio, place = self._of_one(rate), 0
        else:
            ratio, place = self._of_many(rate)
        return self._rounded_up(ratio), self.entries[place]

    def _rounded_up(self, ratio: float) -> float:
        """The logarithm of a ratio of likelihoods, with the errors of these."""
        if not ratio < inf:
            return inf
        largest = float(np.log(ratio))
        rounding = 8 * EPS * (int(self.parts.shape[2]) + 400 + largest)
        return largest + self.error + rounding

    def at_hardest_ends(self, scale: float) -> float:
        """The loss at a few ends, those that were hardest at the scales so far; at most `loss`."""
        if len(self.entries) > 1 or self._seen.shape[1] <= _FEW_ENDS:
            return self.loss(scale)
        chosen, chances = sorted(self._hardest), self.chances[0][self.possible[0]]
        ratios = _ratios(self._seen[:, chosen], chances, float(np.exp(-1.0 / scale)), _TRUSTED)
        return self._rounded_up(float(ratios.max(initial=1.0)))

    def _of_one(self, rate: float) -> float:
        ratios = _ratios(self._seen, self.chances[0][self.possible[0]], rate, _TRUSTED)
        self._hardest.update(np.argsort(-ratios)[:_NEW_ENDS].tolist())
        return float(ratios.max(initial=1.0))

    @cached_property
    def _hardest(self) -> set[int]:
        """Ends that were hardest at some scale."""
        return set()

    @cached_property
    def _seen(self) -> Floats:
        """Values and ends that are possible."""
        values = self.possible[0]
        ends = (self.starts[0][:, None] & self.allowed[values].any(axis=0)).ravel()
        if values.all() and ends.all():
            return self.parts
        return np.ascontiguousarray(self.parts[values][:, ends])

    def _of_many(self, rate: float) -> tuple[float, int]:
        tables = _ratio_tables(self.parts, self.allowed, self.starts.shape[1], rate, _TRUSTED)
        worst, place = 1.0, 0
        for starts, values, entries in self._alike:
            own = tables[starts].max(axis=0)[np.ix_(values, values)]
            chances = self.chances[entries][:, values]
            if not chances.size:
                continue
            given = (own * (chances[:, None, :] / chances[:, :, None])).max(axis=(1, 2))
            hardest = int(given.argmax())
            if not given[hardest] <= worst:
                worst, place = float(given[hardest]), int(entries[hardest])
        return worst, place

    @cached_property
    def _alike(self) -> list[tuple[Bools, Bools, NDArray[np.intp]]]:
        """Possible left ends and values, and the entries that share them."""
        patterns, which = np.unique(
            np.hstack([self.starts, self.possible]), axis=0, return_inverse=True
        )
        ends = self.starts.shape[1]
        return [
            (pattern[:ends], pattern[ends:], np.flatnonzero(which.ravel() == n))
            for n, pattern in enumerate(patterns)
        ]


def _likelihoods(parts: Floats, rate: float) -> Floats:
    """The likelihoods at w: the mass at each v times rate^|w - v|, summed; along the last axis.

    Theorem: PAIRS Theorem 3. Let D_x(w) = sum_n P(N = n | X_i = x) e^{-|w - n| / s}. The loss of
    entry i is the largest log D_x(w) / D_x'(w), and w need only run over the values of N; it never
    grows with s. *Proof.* Between two neighbouring values D_x is A e^{-w/s} + C e^{w/s} with A, C
    >= 0, so a ratio of two is monotone there, and outside all of them it is constant. Laplace noise
    of a larger scale is noise of a smaller one plus independent noise.

    Block by block: a small matrix inside, and what comes in from the blocks on either side. Sums of
    positive terms only.
    """
    size = parts.shape[-1]
    width = size if size <= _AT_ONCE else _BLOCK
    count = -(-size // width)
    blocks = parts
    if count * width > size:
        blocks = np.zeros((*parts.shape[:-1], count * width))
        blocks[..., :size] = parts
    blocks = blocks.reshape(*parts.shape[:-1], count, width)
    powers, places = rate ** np.arange(width + 1.0), np.arange(width)
    here: Floats = blocks @ powers[np.abs(places[:, None] - places)]
    if count == 1:
        return here[..., 0, :]
    carried = np.zeros(parts.shape[:-1])
    for block in range(count):
        here[..., block, :] += carried[..., None] * powers[1:]
        carried = carried * powers[-1] + blocks[..., block, :] @ powers[-2::-1]
    carried = np.zeros(parts.shape[:-1])
    for block in range(count - 1, -1, -1):
        here[..., block, :] += carried[..., None] * powers[:0:-1]
        carried = carried * powers[-1] + blocks[..., block, :] @ powers[:-1]
    return here.reshape(*parts.shape[:-1], -1)[..., :size]


def _ratios(parts: Floats, chances: Floats, rate: float, trusted: float) -> Floats:
    """For each end the largest ratio, over outputs, of likelihoods under two values of one entry.

    If one cannot be trusted, it is infinite, and later ones are not computed.
    """
    values, ends, size = parts.shape
    ratios, several = np.ones(ends), max(1, _CELLS // (values * size))
    if values == 1:
        return ratios
    for first in range(0, ends, several):
        here = _likelihoods(parts[:, first : first + several], rate)
        if here.min() < trusted:
            ratios[first] = inf
            break
        here /= chances[:, None, None]
        ratios[first : first + several] = (here.max(axis=0) / here.min(axis=0)).max(axis=1)
    return ratios


def _ratio_tables(parts: Floats, allowed: Bools, lefts: int, rate: float, trusted: float) -> Floats:
    """For each left end and pair of values the largest ratio of likelihoods, before chances."""
    values, ends, _ = parts.shape
    rights = ends // lefts
    tables = np.zeros((lefts, values, values))
    for u in range(lefts):
        here = _likelihoods(parts[:, u * rights : (u + 1) * rights], rate)
        known = (here >= trusted).all(axis=2) & allowed[:, u]
        here = np.where(known[:, :, None], here, 1.0)
        for x in range(values):
            ratios = np.where(known[x] & known, (here[x] / here).max(axis=2), inf)
            tables[u, x] = np.where(allowed[x, u], ratios, 0.0).max(axis=1)
            tables[u, x, x] = 0.0
    return tables


class SumWindows:
    """Windows of one reach around every entry of a chain of given length.

    Parameters
    ----------
    transition, entries
        The matrix of the chain, and the distributions of its entries.
    added
        What the first entry and every move add.
    length
        Number of entries.
    reach
        Distance of the ends from the entry; a side with fewer entries is exhausted.
    """

    def __init__(
        self,
        transition: Floats,
        entries: EntryDistributions,
        added: Additive,
        length: int,
        reach: int,
    ) -> None:
        self.transition, self.entries, self.size = transition, entries, len(transition)
        self.added, self.length, self.reach = added, length, min(reach, length)
        if self._span > _MOST_VALUES or self.bytes > MOST_BYTES:
            raise NotApplicable(
                f"the sum over a window takes {self._span:,} values for each of {self._ends:,} "
                f"pairs of ends, which needs about {self.bytes / 1e9:.2g} GB of memory; use fewer "
                "or rounder values, or influence_curve"
            )

    @property
    def _span(self) -> int:
        """How many values the sum over a window may take."""
        return (2 * self.reach + 1) * self.added.largest + 1

    @property
    def _ends(self) -> int:
        """Pairs of ends of a window: none are published if all entries are inside."""
        return self.size**2 if self.length > 2 * self.reach else 1

    @property
    def bytes(self) -> int:
        """About how much memory the largest window takes."""
        return 8 * self.size * self._ends * self._span

    @property
    def enough(self) -> int:
        """Every series of at least this length has the same windows; none, if all are inside."""
        periodic = self.entries.distinct and self.entries.cycle > 1
        if periodic or self.reach == self.length:
            return self.length + 1
        return self.entries.distinct + 3 * self.reach + 1

    @property
    def work(self) -> float:
        """About how many nanoseconds the search takes, with all windows of this reach."""
        size, width, span = self.size, self.reach * self.added.largest, self._span
        inside = self.length <= 2 * self.reach
        joined = 0.1 * width * span
        inner = 0.0 if inside else size**3 * (joined + 0.5 * width * self.reach + 50.0 * span)
        windows, cells = (self.length, size) if inside else (2 * self.reach, size**2)
        return (
            inner + windows * (cells * (joined + 30.0 * span) + 8e5) + 500.0 * self.entries.distinct
        )

    @cached_property
    def _across(self) -> Floats:
        """``reach`` moves lead from x to y and add a: by x, y and a."""
        rows: Floats = np.eye(self.size)[:, :, None]
        for _ in range(self.reach):
            rows = moved(rows, self.transition, self.added.moves)
        return rows

    @cached_property
    def _after(self) -> list[Floats]:
        """For r = 0, 1, ...: all r moves that follow add a, given x."""
        rows: list[Floats] = [np.ones((self.size, 1))]
        for _ in range(min(self.reach, self.length) - 1):
            rows.append(moved(rows[-1], self.transition.T, self.added.moves.T))
        return rows

    @cached_property
    def _before(self) -> list[Floats]:
        """For entries 1, 2, ...: it is x, and up to it a was added."""
        first = np.zeros((self.size, int(self.added.first.max()) + 1))
        first[np.arange(self.size), self.added.first] = self.entries.initial
        rows: list[Floats] = [first]
        for _ in range(min(self.reach, self.length) - 1):
            rows.append(moved(rows[-1], self.transition, self.added.moves))
        return rows

    @property
    def inner(self) -> SumWindow | None:
        """The window of all entries away from both ends; ``None`` if there are none."""
        first, last = self.reach + 1, self.length - self.reach
        if first > last:
            return None
        return self._window(
            range(first, max(first, min(last, self.entries.distinct + self.reach)) + 1)
        )

    def windows(self, inner: SumWindow | None = None) -> Iterator[SumWindow]:
        """All windows, the inner one first: that given, or made anew."""
        inner = inner or self.inner
        if inner is not None:
            yield inner
        ends = {*range(1, self.reach + 1)}
        ends |= {*range(max(1, self.length - self.reach + 1), self.length + 1)}
        for entry in sorted(ends, key=lambda n: -min(n, self.length + 1 - n)):
            yield self.window(entry)

    def window(self, entry: int) -> SumWindow:
        """The window around one entry."""
        return self._window(range(entry, entry + 1))

    def _window(self, entries: range) -> SumWindow:
        reach, size = self.reach, self.size
        first, after = entries[0], self.length - entries[-1]
        left_open, right_open = first > reach, after >= reach
        left = self._across.transpose(1, 0, 2) if left_open else self._before[first - 1][:, None, :]
        right = self._across if right_open else self._after[after][:, None, :]
        parts = _joined(np.ascontiguousarray(left), np.ascontiguousarray(right))
        anything: Bools = np.ones((size, 1), dtype=bool)
        ends_left = self._reachable.T if left_open else anything
        ends_right = self._reachable if right_open else anything
        rows = self.entries.rows(entries)
        starts: Bools = np.ones((len(rows), 1), dtype=bool)
        if left_open:
            starts = self.entries.possible[self.entries.rows([n - reach for n in entries])]
        roundings = 2 * reach * (size + 4) + left.shape[2] + right.shape[2] + 32
        return SumWindow(
            tuple(entries),
            reach if left_open else None,
            reach if right_open else None,
            parts,
            ends_left[:, :, None] & ends_right[:, None, :],
            starts,
            self.entries.table[rows],
            self.entries.possible[rows],
            2 * EPS * roundings + 2 * self.entries.error,
        )

    @cached_property
    def _reachable(self) -> Bools:
        """Which states are possible ``reach`` steps after each, exactly."""
        step = self.transition > 0
        reached = step
        for _ in range(self.reach - 1):
            reached = (reached.astype(np.float32) @ step.astype(np.float32)) > 0
        return reached


def moved(rows: Floats, kernel: Floats, added: Ints) -> Floats:
    """Rows by state and sum after a move from z to y of weight ``kernel[z, y]``.

    It adds ``added[z, y]``. The last two axes are states and sums.
    """
    width = rows.shape[-1]
    out = np.zeros((*rows.shape[:-2], kernel.shape[1], width + int(added.max())))
    for shift in np.unique(added[kernel > 0]).tolist():
        step = np.where(added == shift, kernel, 0.0)
        to = np.flatnonzero(step.any(axis=0))
        out[..., to, shift : shift + width] += step[:, to].T @ rows
    return out


def _joined(left: Floats, right: Floats) -> Floats:
    """Convolution of both sides for every value of the entry and every pair of ends.

    One product of matrices for each value and each end of the side that has fewer of them.
    """
    if right.shape[1] > left.shape[1]:
        turned = _joined(right, left).reshape(len(left), right.shape[1], left.shape[1], -1)
        return np.ascontiguousarray(turned.swapaxes(1, 2)).reshape(
            *turned.shape[:1], -1, turned.shape[3]
        )
    size, lefts, width = left.shape
    rights, depth = right.shape[1:]
    total = width + depth - 1
    parts = np.zeros((size, lefts, rights, total))
    padded = np.zeros(total + width - 1)
    shifted = sliding_window_view(padded, width).T
    for x, row in enumerate(left[:, :, ::-1]):
        for y in range(rights):
            padded[width - 1 : total] = right[x, y]
            parts[x, :, y] = row @ shifted
    return parts.reshape(size, lefts * rights, -1)


# --- secrets whose distributions are given ------------------------------------------------------


def least_scale_of_tables(tables: SumTables, epsilon: float) -> tuple[float, int] | None:
    """The least scale at which no two secrets of a place are told apart by more than epsilon.

    Theorem: [Q] Definition 2.1 for labels of windows, nodes and events, one sum with Laplace noise.

    Returns
    -------
    tuple
        The scale, which was itself checked, in units of the sum, and the place that decides;
        ``None`` if at no place two values are possible.
    """
    worst: tuple[float, int] | None = None
    for place, rows in tables.each():
        shares = _shares(rows)
        if len(shares) < 2:
            continue
        everything: Bools = np.ones((1, len(shares)), dtype=bool)
        window = SumWindow(
            (place,),
            None,
            None,
            shares[:, None, :],
            everything.reshape(-1, 1, 1),
            everything[:, :1],
            np.ones((1, len(shares))),
            everything,
            4 * rows.error,
        )
        if worst is not None and window.loss(worst[0]) <= epsilon:
            continue
        scale = _scale_for(window, epsilon, 0.0 if worst is None else worst[0])
        if scale is None:
            raise NotApplicable(
                f"epsilon {epsilon:g} is below the rounding error; use a larger one"
            )
        worst = scale, place
    return worst


def _shares(rows: Masses) -> Floats:
    """P(sum = s | secret), a row for each secret that is possible."""
    if rows.lost:
        raise NotApplicable(
            "the probability of some sums underflows; use a shorter series, or beliefs without "
            "transitions of tiny probability"
        )
    chosen = rows.chosen(rows.possible)
    numbers = chosen.numbers
    if chosen.exponents is not None:
        shift = chosen.exponents - chosen.exponents.max(axis=1, keepdims=True)
        numbers = np.ldexp(numbers, np.maximum(np.repeat(shift, BLOCK, axis=1), -1060))
    return np.asarray(numbers / numbers.sum(axis=1, keepdims=True))


# --- outer outputs: the loss of a release at outputs beyond all exact answers -------------------
#
# A sum of contributions V(X_1) + ... + V(X_T) with Laplace noise of scale s on each coordinate.
# At an output that lies above every possible answer in some coordinates (sign +1) and below it in
# the others (sign -1) the likelihood is a constant times e^{sum_j sign_j N_j / s}: a product over
# the entries. So the loss there follows from products of the matrices P(x, y) g(y), g(y) =
# e^{sum_j sign_j V_j(y) / s}.
#
# This is an attack, not a bound: the true loss is at least as large. It shows how close to the
# least noise a mechanism is, for any number of states and any length, and it never calibrates
# anything.

_ALL_SIGNS = 6  # coordinates up to which all 2^6 outer outputs are tried
_ASCENTS = 3  # more coordinates: rounds that flip the best sign
_MOST_STEPS, _SEARCHED = 20_000, 1_000  # entries followed for the final number, and for the search
_CONVERGED = 1e-13
_OFTEN = 200  # steps between looks at the speed of convergence
_ROUGHLY = 1e-9


@one_thread()
def outer_loss(
    initial: Floats, transition: Floats, contributions: Floats, scale: float, length: int
) -> float:
    """The largest loss of an entry at the outer outputs that were tried, rounded down.

    Up to six coordinates all signs are tried for the first, a middle and the last entry; beyond
    that thresholds, and a few rounds of ascent from the best, for the middle entry. The best is
    computed once more, to full precision.

    Parameters
    ----------
    initial, transition
        The adversary's belief: a chain.
    contributions
        Row x is what an entry in state x adds to each coordinate of the answer.
    scale, length
        Scale of the noise, and length of the series.
    """
    size, middle = contributions.shape[1], (length + 1) // 2

    def losses(signs: Floats, entry: int) -> Floats:
        exponents = signs @ contributions.T / scale
        return _losses(initial, transition, exponents, entry, length, _ROUGHLY, _SEARCHED)

    if size <= _ALL_SIGNS:
        tried, entries = np.array(list(product((1.0, -1.0), repeat=size))), {1, middle, length}
    else:
        below = np.where(np.tri(size - 1, size, dtype=bool), 1.0, -1.0)
        tried, entries = np.vstack([below, -below]), {middle}
    best = 0.0
    for entry in entries:
        values = losses(tried, entry)
        signs, value = tried[values.argmax()], values.max()
        for _ in range(_ASCENTS if size > _ALL_SIGNS else 0):
            flipped = signs * (1 - 2 * np.eye(size))
            values = losses(flipped, entry)
            if values.max() <= value:
                break
            signs, value = flipped[values.argmax()], values.max()
        exponents = (contributions @ signs / scale)[None, :]
        sure = _losses(initial, transition, exponents, entry, length, _CONVERGED, _MOST_STEPS)
        best = max(best, float(sure[0]))
    return best * (1 - 1e-9)


def _losses(
    initial: Floats,
    transition: Floats,
    exponents: Floats,
    entry: int,
    length: int,
    precision: float,
    most: int,
) -> Floats:
    """Loss of one entry when each entry weighs e^exponent, for each row of exponents.

    Zero if distant entries still matter after ``most`` steps.
    """
    weights = np.exp(exponents - exponents.max(axis=1, keepdims=True))
    ones, start = np.ones_like(weights), np.broadcast_to(initial, weights.shape)
    after = _power_iteration(
        lambda v: (weights * v) @ transition.T, ones, length - entry, precision, most
    )
    joint = _power_iteration(
        lambda v: (weights * v) @ transition, start, entry - 1, precision, most
    )
    alone = _power_iteration(lambda v: v @ transition, initial[None], entry - 1, precision, most)
    if after is None or joint is None or alone is None:
        return np.zeros(len(weights))
    here = (alone > 0) & (joint > 0) & (after > 0) & (weights > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(joint) - np.log(alone) + np.log(after) + np.log(weights)
    most_likely = np.where(here, logs, -np.inf).max(axis=1)
    least_likely = np.where(here, logs, np.inf).min(axis=1)
    losses: Floats = np.maximum(most_likely - least_likely, 0.0)
    return losses


def _power_iteration(
    step: Callable[[Floats], Floats], values: Floats, steps: int, precision: float, most: int
) -> Floats | None:
    """A number of steps, each up to a factor, or fewer after convergence.

    ``None`` if ``most`` steps are too few, as soon as that shows.
    """
    before = np.inf
    for n in range(steps):
        if n == most:
            return None
        following = step(values)
        largest = following.max(axis=1, keepdims=True)
        if not largest.all():
            return None  # underflow: no conclusion
        following /= largest
        change = float(np.abs(following - values).max())
        if change < precision:
            return following
        if steps > most and n % _OFTEN == _OFTEN - 1:
            shrunk = change / before
            if n >= _OFTEN and change * shrunk ** ((most - n) / _OFTEN) > precision:
                return None
            before = change
        values = following
    return values
