"""The exact loss of every entry of a long stream, by definition, and an attack that climbs.

A stream is a list of windows, one after another. The answer of each is a sum over its entries with
Laplace noise. Given the outputs, the density of all of them and X_i = x is a product of matrices,
one for each window: M(u, v) = sum over paths from u to v through the window of the chance of the
path times exp(-|sum - output| / scale). The series may be a function of a chain (`shown`), so that
hidden states, clocks and longer memories are chains too.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np


@dataclass(frozen=True)
class Asked:
    """One window: how many entries, what each shown value adds, the scale, and the output."""

    length: int
    values: tuple[int, ...]
    scale: float
    output: int


class Told:
    """A chain with kernels that may change over time, and what of its states is shown."""

    def __init__(self, initial, kernels, shown):
        self.initial, self.shown = np.asarray(initial, float), tuple(shown)
        kernels = np.asarray(kernels, float)
        self.kernels = kernels if kernels.ndim == 3 else kernels[None]
        self._matrix = lru_cache(maxsize=100_000)(self._matrix_of)

    def kernel(self, t):
        """From entry t to the next, counted from 0."""
        return self.kernels[t % len(self.kernels)]

    def _matrix_of(self, slot, asked, fixed):
        """By first and last state: density of the output; ``fixed`` is an entry and its value."""
        size, reach = len(self.initial), max(abs(v) for v in asked.values) * asked.length
        sums = np.arange(-reach, reach + 1)
        table = np.zeros((size, size, len(sums)))  # first state, present state, sum so far + reach
        table[np.arange(size), np.arange(size), reach] = 1.0
        for n in range(asked.length):
            if n:
                table = np.einsum("uvs,vw->uws", table, self.kernel(slot + n - 1))
            moved = np.zeros_like(table)
            for v in range(size):
                if fixed is None or fixed[0] != n or self.shown[v] == fixed[1]:
                    moved[:, v] = np.roll(table[:, v], asked.values[self.shown[v]], axis=1)
            table = moved
        return table @ np.exp(-np.abs(sums - asked.output) / asked.scale)

    def losses(self, windows, entry=None):
        """Log-spread of p(outputs | X_i = x) over possible x, for every entry or for one."""
        size, starts = len(self.initial), np.cumsum([0, *(w.length for w in windows)])
        slots = [int(s) % len(self.kernels) for s in starts]
        whole = [self._matrix(slot, w, None) for slot, w in zip(slots, windows, strict=False)]
        left = [self.initial]
        for n, matrix in enumerate(whole[:-1]):
            after = left[-1] @ matrix @ self.kernel(int(starts[n + 1]) - 1)
            left.append(after / after.sum())
        right = [np.ones(size)]
        for n in range(len(windows) - 1, 0, -1):
            before = self.kernel(int(starts[n]) - 1) @ whole[n] @ right[0]
            right.insert(0, before / before.max())
        place, spread = self.initial, []
        chances = []
        for t in range(int(starts[-1])):
            chances.append(place)
            place = place @ self.kernel(t)
        shown = np.array(self.shown)
        for n, window in enumerate(windows):
            for m in range(window.length):
                t = int(starts[n]) + m
                if entry is not None and t != entry:
                    continue
                logs = []
                for x in sorted(set(self.shown)):
                    chance = chances[t][shown == x].sum()
                    if chance > 0:
                        own = self._matrix(slots[n], window, (m, x))
                        logs.append(np.log(left[n] @ own @ right[n] / chance))
                spread.append(max(logs) - min(logs))
        return np.array(spread)

    def climb(self, count, length, entry, choices, rounds=2):
        """The largest loss of one entry found, over outputs and questions, and what was told.

        ``choices`` are the questions that a window may be asked: values and scale. As each may be
        chosen after seeing earlier outputs, the worst course of events is the largest over both.
        It begins with the same everywhere, and moves one window at a time, the nearest first.
        """
        tries = [
            Asked(length, values, scale, output)
            for values, scale in choices
            for output in range(length * min(*values, 0), length * max(values) + 1)
        ]
        ends, here = np.arange(1, count + 1) * length, 0
        here = int(np.searchsorted(ends, entry, side="right"))
        best, windows = 0.0, []
        for before in tries:
            for after in tries:
                course = [before] * here + [after] * (count - here)
                loss = float(self.losses(course, entry)[0])
                best, windows = max((best, windows), (loss, course), key=lambda own: own[0])
        near = sorted(range(max(0, here - 5), min(count, here + 6)), key=lambda n: abs(n - here))
        for _ in range(rounds):
            for n in near:
                for tried in tries:
                    course = [*windows[:n], tried, *windows[n + 1 :]]
                    loss = float(self.losses(course, entry)[0])
                    if loss > best:
                        best, windows = loss, course
        return best, windows
