"""The loss of `exact_sum`, recomputed for `pufferkit.verification.verify`.

The loss of entry i at a noisy sum is the largest log-ratio, over outputs w and values x, x', of

    D_x(w) = sum over c of P(sum = c | X_i = x) e^(-|w - c| / scale),

and w need only run over the values of the sum: between two of them D_x is A e^(-w/scale) + C
e^(w/scale), so a ratio of two is monotone. It is at most that of publishing, besides the noisy sum
over a window, the entries at both ends of it, whatever lies beyond. Everything is computed forwards
and backwards through the window in extended precision; a side that reaches to the end of the
segment has no end to publish. Any reach of the window proves its bound; the recorded one is tried
first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cached_property
from math import inf, lcm
from typing import Any

import numpy as np

from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.verification.pair_tables import Allowance, NotChecked

Numbers = Any  # arrays of np.longdouble

_LEAST = float(np.finfo(np.longdouble).minexp) + 200  # powers of 2 that extended precision holds
_SETTLED = 1e-13
_MOST_CELLS = 4e7
_TRIES = 3


def loss_of_sum(
    chain: MarkovChain,
    weights: Sequence[Fraction],
    length: int,
    scale: float,
    epsilon: float,
    reach: int | None,
    work: Allowance,
) -> float:
    """An upper bound on the loss of every entry: the first below epsilon, or the least tried."""
    least, denominator = min(weights), lcm(*(weight.denominator for weight in weights))
    steps = [int((weight - least) * denominator) for weight in weights]
    unit = int(np.gcd.reduce(np.array(steps, dtype=object))) or 1
    values, rate = [step // unit for step in steps], scale * denominator / unit
    tried, best = reach or 8, inf
    for _ in range(_TRIES if reach else 4 * _TRIES):
        whole = 2 * tried >= length
        loss = _WindowSums(chain, values, length, length if whole else tried, work).largest(rate)
        best = min(best, loss)
        if best <= epsilon or whole:
            break
        tried += tried // 2
    return best


class _WindowSums:
    """All windows of one reach."""

    def __init__(
        self, chain: MarkovChain, values: list[int], length: int, reach: int, work: Allowance
    ) -> None:
        self.matrix = chain.transition.astype(np.longdouble)
        self.start = chain.initial.astype(np.longdouble)
        self.values, self.length, self.reach, self.work = values, length, reach, work
        self.top = max(values)
        positive = np.concatenate([chain.transition.ravel(), chain.initial])
        if (2 * reach + 2) * np.log2(positive[positive > 0].min()) < _LEAST:
            raise NotChecked("the probabilities of its tails underflow")
        size, width = len(values), float(reach * self.top + 1)
        if length > 2 * reach and 2 * size**3 * width > _MOST_CELLS:
            raise NotChecked("the sums over a window take too many values")
        work.spend(3.0 * size**3 * width * (reach + (width if length > 2 * reach else 0.0)))

    @cached_property
    def distributions(self) -> list[Numbers]:
        """The distributions of X_1, X_2, ... until they are constant, or to the end."""
        distributions = [self.start]
        while len(distributions) < self.length:
            self.work.spend(4000.0)
            following = distributions[-1] @ self.matrix
            if np.array_equal(following > 0, distributions[-1] > 0):
                moved = np.abs(following - distributions[-1])[following > 0]
                if (moved <= _SETTLED * following[following > 0]).all():
                    break
            distributions.append(following)
        return distributions

    def distribution(self, entry: int) -> Numbers:
        return self.distributions[min(entry, len(self.distributions)) - 1]

    @cached_property
    def across(self) -> Numbers:
        """[x, y, a]: ``reach`` steps after x comes y, and the entries between sum to a."""
        size = len(self.values)
        table = self.matrix[:, :, None]
        for _ in range(self.reach - 1):
            longer = np.zeros((size, size, table.shape[2] + self.top), dtype=np.longdouble)
            for z, value in enumerate(self.values):
                longer[:, z, value : value + table.shape[2]] = table[:, z]
            table = np.einsum("xza,zy->xya", longer, self.matrix)
        return table

    @cached_property
    def ahead(self) -> list[Numbers]:
        """For r = 0, 1, ...: the next r entries, the last of the segment, sum to a, given x."""
        tables = [np.ones((len(self.values), 1), dtype=np.longdouble)]
        while len(tables) < min(self.reach, self.length):
            tables.append(self.matrix @ self._with_own(tables[-1]))
        return tables

    @cached_property
    def behind(self) -> list[Numbers]:
        """For X_1, X_2, ...: it is x, and the entries before it sum to a."""
        tables = [self.start[:, None]]
        while len(tables) < min(self.reach, self.length):
            tables.append(self.matrix.T @ self._with_own(tables[-1]))
        return tables

    def _with_own(self, table: Numbers) -> Numbers:
        longer = np.zeros((len(self.values), table.shape[1] + self.top), dtype=np.longdouble)
        for x, value in enumerate(self.values):
            longer[x, value : value + table.shape[1]] = table[x]
        return longer

    def largest(self, scale: float) -> float:
        """The largest loss of an entry."""
        worst = 0.0
        for entries in self._alike():
            logs = self._log_likelihoods(entries[0], scale)
            with np.errstate(invalid="ignore"):
                apart = logs[:, None] - logs
            # If both probabilities are zero, there is no such output.
            apart = np.where(np.isnan(apart), -inf, apart).max(axis=(3, 4))  # [x, x', left end]
            for entry in entries:
                distribution = self.distribution(entry)
                ends: Numbers = slice(None)
                possible = distribution > 0
                if entry > self.reach:
                    ends = np.flatnonzero(self.distribution(entry - self.reach) > 0)
                own = apart[:, :, ends].max(axis=2)[np.ix_(possible, possible)]
                logs_of = np.log(distribution[possible])
                worst = max(worst, float((own + logs_of[None, :] - logs_of[:, None]).max()))
        return worst

    def _alike(self) -> Iterator[Sequence[int]]:
        """Entries in groups with the same window."""
        reach, length = self.reach, self.length
        inner = range(reach + 1, min(length - reach, len(self.distributions) + reach) + 1)
        if inner:
            yield inner
        for entry in range(1, length + 1) if length <= 2 * reach else range(1, reach + 1):
            yield [entry]
        if length > 2 * reach:
            for entry in range(length - reach + 1, length + 1):
                yield [entry]

    def _log_likelihoods(self, entry: int, scale: float) -> Numbers:
        """[x, left end, right end, w]: log D_x(w), without the factors of x and the left end."""
        after = self.length - entry
        left = self.across.transpose(1, 0, 2) if entry > self.reach else None
        left = self.behind[entry - 1][:, None] if left is None else left
        right = self.across if after >= self.reach else self.ahead[after][:, None]
        size, lefts, rights = len(self.values), left.shape[1], right.shape[1]
        span = left.shape[2] + right.shape[2] - 1 + self.top
        self.work.spend(3.0 * size * lefts * rights * left.shape[2] * right.shape[2])
        self.work.spend(60.0 * size * lefts * rights * span)
        sums = np.zeros((size, lefts, rights, span), dtype=np.longdouble)
        for x, value in enumerate(self.values):
            for u in range(lefts):
                for y in range(rights):
                    both = np.convolve(left[x, u], right[x, y])
                    sums[x, u, y, value : value + len(both)] = both
        fall = np.exp(-1 / np.longdouble(scale))
        below, above = np.zeros_like(sums), np.zeros_like(sums)
        below[..., 0] = sums[..., 0]
        for w in range(1, span):
            below[..., w] = below[..., w - 1] * fall + sums[..., w]
            above[..., -1 - w] = (above[..., -w] + sums[..., -w]) * fall
        with np.errstate(divide="ignore"):
            return np.log(below + above)
