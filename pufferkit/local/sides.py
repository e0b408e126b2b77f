"""What the entries on one side of X_i can say about it, at most, over all outputs.

Given X_i the two sides are independent, and every entry is answered by its own coin. So the
log-ratio of an output under X_i = 0 to that under X_i = 1 is a sum: own bit, left side, right side.
On a binary chain the log-ratio of a side is a Moebius function of that of the next entry,

    g -> log (m00 e^g + m01) / (m10 e^g + m11),

monotone, rising or falling by the sign of det P. An interval of log-ratios whose ends are reached
therefore goes to an interval whose ends are reached: following both ends is exact. Everything is in
logarithms on [-inf, inf], so zeros of P and of the noise need no special care, and nothing
underflows.

To the right the matrix is P and the vector is P(outputs | x). To the left it is the transpose of P,
and the vector is P(outputs, x) from the start or from the nearest known entry on. Dividing by the
same vector without outputs leaves the conditional probability: P(X_j = v | x) on the right, P(x) or
P(x | X_j = u) on the left. That reference is the same recursion with a coin that says nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import exp, inf, isfinite, log, log1p
from typing import NamedTuple

import numpy as np

from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.checks import Floats
from pufferkit.compiling import compiled_loop

Logs = tuple[float, float, float, float]
"""Logarithms of m00, m01, m10, m11."""


def moved_odds(logs: Logs, g: float) -> float:
    """Log (m00 e^g + m01) / (m10 e^g + m11) on [-inf, inf]."""
    a, b, c, d = logs
    if g == inf:
        return a - c
    if g == -inf:
        return b - d
    up, down = a + g, c + g
    above = up + log1p(exp(b - up)) if up > b else b + log1p(exp(up - b))
    below = down + log1p(exp(d - down)) if down > d else d + log1p(exp(down - d))
    return above - below


Map = Callable[[float], float]

SHORT = 128
"""Steps taken in plain Python; most chains have forgotten everything by then."""

_moved = compiled_loop(moved_odds)

SILENT = (0.0,)
"""The answers of a coin that says nothing."""


class Interval(NamedTuple):
    """A range of log-ratios, both ends reached."""

    low: float
    high: float


EVERYTHING = Interval(-inf, inf)


@dataclass(frozen=True)
class Trace:
    """A side at distance 0, 1, 2, ... from its end, reference taken off."""

    low: Floats
    high: Floats
    """Least and largest log-ratio over outputs. Where one of the two values of X_i cannot occur
    there is nothing to distinguish: ``low`` is inf and ``high`` is -inf."""


def logarithm(value: float) -> float:
    """log, with log 0 = -inf."""
    return log(value) if value > 0 else -inf


def answers(rho_0: float, rho_1: float) -> tuple[float, ...]:
    """For each output z that can occur, log P(z | 0) / P(z | 1)."""
    options = []
    for zero, one in ((1 - rho_0, rho_1), (rho_0, 1 - rho_1)):
        if zero > 0 or one > 0:
            options.append(inf if one == 0 else logarithm(zero / one))
    return tuple(options)


def spread(side: Interval, own: tuple[float, ...]) -> Interval:
    """A side with the answer of its nearest entry added; impossible pairs left out."""
    least, most = min(own), max(own)
    if -inf < least and most < inf:
        return Interval(side[0] + least, side[1] + most)
    lows, highs = [], []
    for answer in own:
        if answer == inf:
            if side.high > -inf:
                lows.append(inf)
                highs.append(inf)
        elif answer == -inf:
            if side.low < inf:
                lows.append(-inf)
                highs.append(-inf)
        else:
            lows.append(side.low + answer)
            highs.append(side.high + answer)
    return Interval(min(lows), max(highs))


def moebius(matrix: Floats) -> Map:
    """The map g -> log (m00 e^g + m01) / (m10 e^g + m11) on [-inf, inf]."""
    a, b, c, d = logs = _logs(matrix)
    return partial(moved_odds, logs) if (a, b) != (c, d) else lambda _: 0.0


def _logs(matrix: Floats) -> Logs:
    a, b, c, d = (logarithm(float(entry)) for entry in matrix.ravel())
    return a, b, c, d


@dataclass(frozen=True)
class Binary:
    """A binary chain as two maps, one for each side."""

    chain: MarkovChain
    right: Map
    left: Map
    rising: bool

    @classmethod
    def of(cls, chain: MarkovChain) -> Binary:
        p = chain.transition
        rising = bool(p[0, 0] >= p[1, 0])  # det P = P00 - P10, as rows sum to one
        return cls(chain, moebius(p), moebius(p.T), rising)

    @property
    def start(self) -> float:
        """The log of P(X_1 = 0) / P(X_1 = 1)."""
        p = self.chain.transition
        if self.chain.is_stationary and p[0, 1] > 0 and p[1, 0] > 0:
            return log(p[1, 0]) - log(p[0, 1])  # a rare state must not underflow
        zero, one = (float(p) for p in self.chain.initial)
        return inf if one == 0 else logarithm(zero / one)

    def step(self, odds_map: Map, side: Interval, own: tuple[float, ...]) -> Interval:
        """One entry further away from the end of the side."""
        full = spread(side, own)
        low, high = odds_map(full[0]), odds_map(full[1])
        return Interval(low, high) if self.rising else Interval(high, low)

    def unknown_right(self, own: tuple[float, ...], steps: int) -> Trace:
        """Nothing known to the right; index m: m entries there."""
        return self._trace(self.right, 0.0, own, steps, observed=True)

    def unknown_left(self, own: tuple[float, ...], steps: int) -> Trace:
        """Nothing known to the left; index m: node m + 1, counted from the start."""
        return self._trace(self.left, self.start, own, steps, observed=True)

    def known(self, side: str, value: int, own: tuple[float, ...], steps: int) -> Trace:
        """The entry at distance d is known to be ``value``; index d, from 1 on."""
        odds_map = self.right if side == "right" else self.left
        if side == "right" and not self.chain.transition[:, value].any():
            return Trace(np.full(steps + 1, inf), np.full(steps + 1, -inf))
        return self._trace(odds_map, -inf if value else inf, own, steps, observed=False)

    def tail(self, side: str, own: tuple[float, ...], steps: int) -> tuple[float, float]:
        """Bounds on (-low, high) of every trace of a side, at all distances from ``steps`` on.

        Every trace starts inside [-inf, inf], and so lies in what becomes of that after ``steps``.
        """
        odds_map = self.right if side == "right" else self.left
        answered, silent = EVERYTHING, EVERYTHING
        for m in range(steps):
            if m == SHORT:
                answered = self._after(odds_map, answered, own, steps - m)
                silent = self._after(odds_map, silent, SILENT, steps - m)
                break
            before = answered, silent
            answered = self.step(odds_map, answered, own)
            silent = self.step(odds_map, silent, SILENT)
            if before == (answered, silent):
                break
        if not all(isfinite(end) for end in silent):
            return inf, inf
        return silent.high - answered.low, answered.high - silent.low

    def _trace(
        self, odds_map: Map, start: float, own: tuple[float, ...], steps: int, observed: bool
    ) -> Trace:
        low, high = np.full(steps + 1, inf), np.full(steps + 1, -inf)
        side, reference = Interval(start, start), start
        past: list[tuple[Interval, float]] = []
        for m in range(steps + 1):
            if isfinite(reference):
                low[m], high[m] = side[0] - reference, side[1] - reference
            here = side, reference
            if len(past) == 2 and past[0] == here:
                # At its limit, or swinging between two values: the rest is known.
                for first in (m + 1, m + 2):
                    low[first::2], high[first::2] = low[first - 2], high[first - 2]
                break
            if m == SHORT and all(isfinite(answer) for answer in own):
                self._follow(odds_map, own, side, reference, low, high, m)
                break
            past = [*past[-1:], here]
            side = self.step(odds_map, side, own if observed or m else SILENT)
            reference = odds_map(reference)
        return Trace(low, high)

    def _follow(
        self,
        odds_map: Map,
        own: tuple[float, ...],
        side: Interval,
        reference: float,
        low: Floats,
        high: Floats,
        first: int,
    ) -> Interval:
        """The rest of a long trace, compiled."""
        p = self.chain.transition
        matrix = p if odds_map is self.right else p.T
        ends = (min(own), max(own))
        state = follow(_logs(matrix), self.rising, ends, (*side, reference), low, high, first)
        return Interval(state[0], state[1])

    def _after(self, odds_map: Map, side: Interval, own: tuple[float, ...], steps: int) -> Interval:
        scrap = np.empty(steps)
        return self._follow(odds_map, own, side, 0.0, scrap, scrap, 0)


@compiled_loop
def follow(
    logs: Logs,
    rising: bool,
    answers: tuple[float, float],
    state: tuple[float, float, float],
    lows: Floats,
    highs: Floats,
    first: int,
) -> tuple[float, float, float]:
    """Fill ``lows`` and ``highs`` from ``first`` on; ``state`` is (low, high, reference) there.

    Returns the state after the last one.
    """
    low, high, reference = state
    for m in range(first, len(lows)):
        if -inf < reference < inf:
            lows[m], highs[m] = low - reference, high - reference
        one, two = _moved(logs, low + answers[0]), _moved(logs, high + answers[1])
        low, high = (one, two) if rising else (two, one)
        reference = _moved(logs, reference)
    return low, high, reference


def supports(chain: MarkovChain, nodes: int) -> list[frozenset[int]]:
    """Values that X_1, X_2, ... can take.

    On two states, from X_3 on, either both are always possible or always just one.
    """
    sets = [frozenset(int(x) for x in np.flatnonzero(chain.possible_start))]
    while len(sets) < nodes:
        sets.append(successors(chain, sets[-1]))
    return sets


def successors(chain: MarkovChain, values: frozenset[int]) -> frozenset[int]:
    """Values that can follow one of these."""
    return frozenset(int(y) for x in values for y in np.flatnonzero(chain.transition[x]))
