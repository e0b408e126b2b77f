"""The scaled forward-backward recursion of hidden Markov models, compiled.

Regimes Z_1, Z_2, ... move by a matrix A; step t shows a symbol s_t with probability l(s_t, Z_t).
With a_t(z) = P(Z_t = z | s_1..s_t) and c_t = P(s_t | s_1..s_{t-1}),

    c_t a_t(z) = l(s_t, z) sum_w a_{t-1}(w) A(w, z),        log-likelihood = sum_t log c_t,
    q_t(z) = l(s_t, z) b_t(z) / c_t,    b_{t-1}(w) = sum_z A(w, z) q_t(z),    b_T = 1,
    P(Z_t = z | all) = a_t(z) b_t(z),
    P(Z_{t-1} = w, Z_t = z | all) = a_{t-1}(w) A(w, z) q_t(z).

Inner loops run along rows, so that the compiler can vectorise them without
reordering sums: results do not depend on the machine.
"""

# ruff: noqa: PLR0912  (compiled loops are long)

from __future__ import annotations

from typing import Any

import numpy as np

from pufferkit.compiling import compiled_loop


@compiled_loop
def forward_backward(
    initial: Any,
    transition: Any,
    likelihood: Any,
    symbols: Any,
    ends: Any,
    counted: bool,
    scales: Any,
    moves: Any,
    visits: Any,
    firsts: Any,
) -> bool:
    """Scales c_t, and expected counts if ``counted``; False if the symbols are impossible.

    Parameters
    ----------
    initial
        Row j is the distribution of the first regime of segment j.
    transition
        The matrix A.
    likelihood
        Row s is l(s, .).
    symbols, ends
        Symbols of all segments, one after another, and where each segment ends.
    counted
        Whether to compute expected counts.
    scales
        Output: c_t.
    moves, visits, firsts
        Output, added to: expected counts of transitions, *divided by A*; of symbols by regime; and
        of the first regime.
    """
    size = len(transition)
    # b_{t-1} is a weighted sum of columns of A.
    upright = np.ascontiguousarray(transition.T)
    alpha = np.empty((len(symbols), size))
    ahead = np.empty(size)
    weighted = np.empty(size)
    begin = 0
    for j in range(len(ends)):
        end = ends[j]
        for t in range(begin, end):
            here = alpha[t]
            if t == begin:
                for z in range(size):
                    here[z] = initial[j, z]
            else:
                for z in range(size):
                    here[z] = 0.0
                for w in range(size):
                    mass = alpha[t - 1, w]
                    for z in range(size):
                        here[z] += mass * transition[w, z]
            total = 0.0
            for z in range(size):
                here[z] *= likelihood[symbols[t], z]
                total += here[z]
            if not total > 0.0:
                return False
            for z in range(size):
                here[z] /= total
            scales[t] = total
        if counted:
            for z in range(size):
                ahead[z] = 1.0
            for t in range(end - 1, begin - 1, -1):
                seen = visits[symbols[t]]
                for z in range(size):
                    seen[z] += alpha[t, z] * ahead[z]
                    weighted[z] = likelihood[symbols[t], z] * ahead[z] / scales[t]
                if t == begin:
                    for z in range(size):
                        firsts[z] += alpha[t, z] * ahead[z]
                    break
                for w in range(size):
                    mass = alpha[t - 1, w]
                    for z in range(size):
                        moves[w, z] += mass * weighted[z]
                    ahead[w] = 0.0
                for z in range(size):
                    mass = weighted[z]
                    for w in range(size):
                        ahead[w] += upright[z, w] * mass
        begin = end
    return True
