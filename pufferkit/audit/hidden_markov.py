"""Hidden Markov kernels, compiled. Run as plain Python on short series, where compiling costs more.

Each takes the initial distribution, the transition matrix, the emission matrix (rows states,
columns symbols) and a series of symbols. Each returns the position of the first output that cannot
happen, or -1, or -2 if scaled numbers came too near to underflow; the caller then takes logarithms.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pufferkit.compiling import compiled_loop

FINE, TOO_SMALL = -1, -2

SMALLEST = 1e-200
"""Scaled probabilities below this are left to the kernel in logarithms."""


@compiled_loop
def forward(initial: Any, transition: Any, emission: Any, symbols: Any, out: Any) -> int:
    """P(X_t = x | outputs up to t), scaled at every step; written to ``out``."""
    length, size = out.shape
    for t in range(length):
        z = symbols[t]
        total = 0.0
        for y in range(size):
            mass = 0.0
            if t == 0:
                mass = initial[y]
            else:
                for x in range(size):
                    mass += out[t - 1, x] * transition[x, y]
            mass *= emission[y, z]
            out[t, y] = mass
            total += mass
        if total <= 0.0:
            return t
        for y in range(size):
            out[t, y] /= total
            if 0.0 < out[t, y] < SMALLEST:
                return TOO_SMALL
    return FINE


@compiled_loop
def backward(transition: Any, emission: Any, symbols: Any, out: Any) -> int:
    """Turn what `forward` wrote into P(X_t = x | all outputs)."""
    length, size = out.shape
    ahead = np.ones(size)
    fresh = np.ones(size)
    for t in range(length - 2, -1, -1):
        z = symbols[t + 1]
        for y in range(size):
            fresh[y] = ahead[y] * emission[y, z]
        total = 0.0
        for x in range(size):
            mass = 0.0
            for y in range(size):
                mass += transition[x, y] * fresh[y]
            ahead[x] = mass
            total += mass
        both = 0.0
        for x in range(size):
            ahead[x] /= total
            if 0.0 < ahead[x] < SMALLEST:
                return TOO_SMALL
            out[t, x] *= ahead[x]
            both += out[t, x]
        if both < SMALLEST:
            return TOO_SMALL
        for x in range(size):
            out[t, x] /= both
    return FINE


@compiled_loop
def log_forward(initial: Any, transition: Any, emission: Any, symbols: Any, out: Any) -> int:
    """Logarithms of what `forward` gives, where floats cannot hold the probabilities."""
    length, size = out.shape
    terms = np.empty(size)
    for t in range(length):
        z = symbols[t]
        for y in range(size):
            if t == 0:
                out[t, y] = initial[y] + emission[y, z]
            else:
                for x in range(size):
                    terms[x] = out[t - 1, x] + transition[x, y]
                out[t, y] = _log_sum(terms) + emission[y, z]
        total = _log_sum(out[t])
        if total == -np.inf:
            return t
        for y in range(size):
            out[t, y] -= total
    return FINE


@compiled_loop
def log_backward(transition: Any, emission: Any, symbols: Any, out: Any) -> int:
    """Turn what `log_forward` wrote into P(X_t = x | all outputs)."""
    length, size = out.shape
    terms = np.empty(size)
    ahead = np.zeros(size)
    fresh = np.zeros(size)
    for t in range(length - 1, -1, -1):
        if t < length - 1:
            z = symbols[t + 1]
            for x in range(size):
                for y in range(size):
                    terms[y] = transition[x, y] + emission[y, z] + ahead[y]
                fresh[x] = _log_sum(terms)
            top = np.max(fresh)
            for x in range(size):
                ahead[x] = fresh[x] - top
        for x in range(size):
            terms[x] = out[t, x] + ahead[x]
        total = _log_sum(terms)
        for x in range(size):
            out[t, x] = np.exp(terms[x] - total)
    return FINE


@compiled_loop
def viterbi(
    initial: Any, transition: Any, emission: Any, symbols: Any, back: Any, path: Any
) -> int:
    """The likeliest path, from logarithms of all three tables; ties go to the lower state."""
    length, size = back.shape
    score = np.empty(size)
    fresh = np.empty(size)
    for t in range(length):
        z = symbols[t]
        top = -np.inf
        for y in range(size):
            best, came = -np.inf, 0
            if t == 0:
                best = initial[y]
            else:
                for x in range(size):
                    value = score[x] + transition[x, y]
                    if value > best:
                        best, came = value, x
            back[t, y] = came
            fresh[y] = best + emission[y, z]
            top = max(top, fresh[y])
        if top == -np.inf:
            return t
        for y in range(size):
            score[y] = fresh[y] - top
    last = 0
    for y in range(1, size):
        if score[y] > score[last]:
            last = y
    for t in range(length - 1, -1, -1):
        path[t] = last
        last = back[t, last]
    return FINE


@compiled_loop
def _log_sum(values: Any) -> float:
    top = -np.inf
    for value in values:
        top = max(top, value)
    if top == -np.inf:
        return top
    total = 0.0
    for value in values:
        total += np.exp(value - top)
    return float(top + np.log(total))


@compiled_loop
def walk_counts(
    start: Any, moves: Any, which: Any, draws: Any, state: Any, counts: Any, first: bool
) -> None:
    """One block of steps for many walkers: counts of the states they visit.

    ``moves[which[t]]`` are the running sums of the rows of the matrix of step t; ``start`` the
    running sums of the first distribution, used at the first step of a walk.
    """
    steps, walkers = draws.shape
    size = counts.shape[1]
    for t in range(steps):
        for n in range(walkers):
            u = draws[t, n]
            x = 0
            if first and t == 0:
                while x < size - 1 and u >= start[x]:
                    x += 1
            else:
                row = moves[which[t], state[n]]
                while x < size - 1 and u >= row[x]:
                    x += 1
            state[n] = x
            counts[n, x] += 1
