"""Closed bounds on the loss of randomised response, from the projective diameter.

Conditioning a chain on any set of entries reweights the columns of its kernels, and the projective
diameter D of P does not change under reweighting. Over all reweightings, what varies by a beyond a
step varies before it by s with tanh(s/4) = tanh(D/4) tanh(a/4). With event-level epsilon b, each
side of an entry is at most the fixed point s of a = b + s, and the loss is at most b + 2 s. It
solves w Y^2 - k (w - 1) Y - 1 = 0 with Y = e^{s/2}, w = e^{b/2}, k = e^{D/2}.

That needs no laziness, no stationary start and no two states. If P has zeros, D is infinite and one
step is not enough: pay for blocks of m entries, then step by P^m, whose diameter is D_m. The sides
are then at most m b + s with a = m b + s, and the loss is at most 2 (m b + s) - b.
"""

from __future__ import annotations

from functools import lru_cache
from math import exp, expm1, inf, log, sqrt

import numpy as np

from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.checks import Floats
from pufferkit.rounding import EPS, last_passing, round_up

MOST_BLOCK = 64
"""Largest block of entries that is tried."""

_LARGE = 700.0
_FORGOTTEN = 1e-3
_SMALLEST = 1e-12


def projective_diameter(kernel: Floats) -> float:
    """Largest log of K(x,u) K(x',u') / (K(x,u') K(x',u)), rounded up; columns of zeros left out."""
    used = kernel[:, kernel.any(axis=0)]
    if (used == 0).any():
        return inf
    logs = np.log(used)
    worst = 0.0
    for row in logs:
        ratios = logs - row
        worst = max(worst, float((ratios.max(axis=1) - ratios.min(axis=1)).max()))
    # Rows that are equal by distribution but not to the last digit are not worth a zero.
    return worst * (1 + 1e-14) + 1e-15 if worst else 0.0


def side_bound(diameter: float, b: float) -> float:
    """The fixed point s of tanh(s/4) = tanh(D/4) tanh((b + s)/4), rounded up."""
    if b == 0 or diameter == 0:
        return 0.0
    if diameter / 2 > _LARGE or b > 2 * _LARGE:
        return inf if b > 0 and diameter == inf else diameter
    k = exp(diameter / 2)
    rise = -expm1(-b / 2)
    y = k / 2 * (rise + sqrt(rise * rise + 4 * exp(-b / 2) / (k * k)))
    return min(diameter, 2 * log(y) * (1 + 1e-14) + 1e-14) if y > 1 else 0.0


def entry_bound(chain: MarkovChain, b: float) -> float:
    """Loss against every adversary of answers of event-level epsilon ``b``, at any length.

    It holds for any start. Infinite if no block up to ``MOST_BLOCK`` makes the chain forget.
    """
    if b == 0 or len(chain) == 1:
        return 0.0
    best = inf
    for m, diameter in enumerate(_diameters(chain), 1):
        spent = m * b
        if 2 * spent - b >= best:
            break
        if diameter < inf:
            best = min(best, 2 * (spent + side_bound(diameter, spent)) - b)
    return round_up(best) if best < inf else inf


@lru_cache(maxsize=16)
def _diameters(chain: MarkovChain) -> tuple[float, ...]:
    """D_1, D_2, ... until next to nothing is left."""
    diameters, power = [], np.eye(len(chain))
    for m in range(1, MOST_BLOCK + 1):
        power = power @ chain.transition
        error = 16 * m * len(chain) * float(np.finfo(float).eps)
        diameters.append(projective_diameter(power) + error)
        if diameters[-1] < _FORGOTTEN:
            break
    return tuple(diameters)


def largest_entry_epsilon(chain: MarkovChain, epsilon: float) -> float:
    """The largest b found with ``entry_bound(chain, b) <= epsilon``; 0 if there is none."""

    def margin(b: float) -> float:
        return epsilon - entry_bound(chain, b)

    least = _SMALLEST * epsilon
    if margin(epsilon) >= 0:
        return epsilon
    return last_passing(margin, least, epsilon, 4 * EPS) if margin(least) >= 0 else 0.0
