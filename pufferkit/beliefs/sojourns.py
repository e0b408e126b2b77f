"""Sojourns in the fast regimes, between slow ones that the adversary knows.

Regimes Z_t move by A, some of them are *slow*: asleep, away. Let Y_t = Z_t where Z_t is slow, and
"fast" elsewhere. The adversary knows Y on an interval of time that holds the series, and nothing
else about it: every stay in a slow regime, and of every *sojourn*, a maximal run of fast entries,
its length and the slow regimes before and after it, or that the interval ends first.

Theorem: FIXES 1, Lemma 1. Given Y sojourns are independent, and an entry in a slow regime tells of
no other. With A_f the part of A between fast regimes, a sojourn z_1 ... z_L has a probability
proportional to

    m_0(z_1) A_f(z_1, z_2) ... A_f(z_{L-1}, z_L) u_0(z_L),

m_0 = A(s, .) after a slow regime s, or the stationary distribution where the interval begins
inside; u_0 = A(., s') before a slow regime s', or 1 where the interval ends inside. With u_n =
A_f^n u_0 and m_a = m_0 A_f^a, the kernels of an entry with n fast entries after it in its sojourn
and a before it are

    forward K_n(z, w) = A_f(z, w) u_{n-1}(w) / u_n(z),
    backward R_a(w, z) = A_f(z, w) m_{a-1}(z) / m_a(w):

the forward one depends on what remains only, the backward one on what has passed only. Rows of a
regime that cannot occur there may be anything: it is never visited.

*The remainder.* Let r > 0 be the Perron vector of A_f, K(z, .) proportional to A_f(z, .) r, and
delta_n the variation of log(u_n / r). A_f does not expand Hilbert's metric, in which delta_n is the
distance of u_n from its fixed point r, so delta_n never grows. For n > N the row K_n(z, .) is K(z,
.) tilted by a function that varies by at most delta_N and is the same for all z, and steps of such
kernels are those of K plus a small remainder (`pufferkit.influence.curve.steps.Tilted`).

A computed r has no exact fixed point. Where A_f^q contracts Hilbert's metric by tau < 1 (Birkhoff:
tanh(D / 4), D the projective diameter of A_f^q), d(r', r) <= d(r', A_f^q r') / (1 - tau) for every
r', as d(r', r) <= d(r', A_f^q r') + d(A_f^q r', A_f^q r). So delta_n <= d(u_n, r') + 2 d(r', r)
bounds the distance of all later u_n from r'.
"""

from __future__ import annotations

from math import inf, log, tanh

import numpy as np

from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.checks import Bools, Floats
from pufferkit.errors import NotApplicable, NoTheorem
from pufferkit.influence.curve.engine import Side, Sojourns
from pufferkit.influence.curve.steps import StepsInRow, Tilted
from pufferkit.rounding import EPS

TILT = 1e-4
"""Kernels are listed until the rest differ by this tilt: it adds at most half of it to a step."""

MOST_KERNELS = 1_000
"""Beyond so many entries the rest is bounded by the tilt that is left, whatever it is."""

_CONTRACTS = 2.0
"""The projective diameter at which a power of a matrix has forgotten half."""

_MOST_SQUARES = 30
_LEAST = 1e-250


def lasting(transition: Floats, stay: float) -> Bools:
    """Which regimes last longer than ``stay`` entries on average: 1 / (1 - A_zz)."""
    found: Bools = 1 - np.diag(transition) < 1 / stay
    return found


def sojourns_of(transition: Floats, slow: Bools) -> Sojourns:
    """What the entries before and after one tell of its regime, for every kind of start and end."""
    fast, stationary = ~slow, MarkovChain.steady(transition).stationary
    inside, error = transition[np.ix_(fast, fast)], 32 * len(transition) ** 2 * EPS
    starts, ends = transition[slow][:, fast], transition[fast][:, slow].T
    back = [side_of(inside.T, own) for own in starts if own.any()]
    ahead = [side_of(inside, own) for own in ends if own.any()]
    return Sojourns(
        [*back, side_of(inside.T, stationary[fast], error)],
        [*ahead, side_of(inside, np.ones(len(inside)))],
    )


def middle_of(transition: Floats, slow: Bools) -> Floats:
    """The chain of a sojourn that began long ago and ends far ahead, by the kernel K."""
    inside = transition[np.ix_(~slow, ~slow)]
    return rows_of(inside, limit_of(inside)[1])


def side_of(matrix: Floats, end: Floats, error: float = 0.0) -> Side:
    """The kernels of entries by how many follow, until ``end``; entries are counted from there.

    Parameters
    ----------
    matrix
        A_f; read from the start of a sojourn, its transpose.
    end
        u_0, known up to a relative error of ``error``.
    """
    matrix = np.ascontiguousarray(matrix)
    remainder, direction = limit_of(matrix)
    rounding = (len(matrix) + 4) * EPS  # of one product, relative
    kernels: list[Floats] = []
    weights, possible = end / end.max(), np.asarray(end > 0)
    while True:
        own = error + 2 * (len(kernels) + 1) * rounding
        tilt = (distance(weights, direction) + 2 * remainder + 2 * own) * (1 + 8 * EPS)
        if kernels and (tilt <= TILT or len(kernels) == MOST_KERNELS):
            break
        kernels.append(rows_of(matrix, weights))
        further, possible = matrix @ weights, np.asarray(matrix[:, possible].any(axis=1))
        weights = further / further.max()
        if weights[possible].min() < _LEAST:
            raise NotApplicable(
                "slow: some fast regimes can hardly be in force some entries before a slow one; "
                "drop regimes that are rarely left, or leave slow out"
            )
    listed = StepsInRow(np.array(kernels), 2 * own)
    rest = Tilted(rows_of(matrix, direction), tilt, 2 * rounding)
    settled = len(kernels) + 2
    return Side(
        lambda entry, size: rest if entry >= settled else listed[entry - 2],
        settled=settled,
        own=listed,
        paid=False,
    )


def rows_of(matrix: Floats, weights: Floats) -> Floats:
    """The kernel proportional to ``matrix`` times ``weights``; impossible rows are like another."""
    joint = matrix * weights
    totals = joint.sum(axis=1, keepdims=True)
    possible = totals[:, 0] > 0
    joint[~possible] = joint[int(np.flatnonzero(possible)[0])]
    kernel: Floats = joint / joint.sum(axis=1, keepdims=True)
    return kernel


def distance(one: Floats, other: Floats) -> float:
    """Hilbert's distance of two vectors, rounded up: the variation of the log of their ratio."""
    if one.min() <= 0 or other.min() <= 0:
        return inf
    logs = np.log(one / other)
    return float(logs.max() - logs.min()) * (1 + 4 * EPS) + 16 * EPS


def limit_of(matrix: Floats) -> tuple[float, Floats]:
    """How far a computed vector is at most from the Perron vector, and the vector."""
    power, size, times = matrix / matrix.max(), len(matrix), 1
    for _ in range(_MOST_SQUARES):
        widest = _diameter(power) + 8 * times * (size + 4) * EPS
        if widest <= _CONTRACTS:
            break
        power, times = power @ power, 2 * times
        power /= power.max()
    else:
        raise NoTheorem(
            "slow: each of the other regimes must be reached from each without a slow one, and not "
            "in turns; take more regimes as slow, or leave slow out"
        )
    direction = np.ones(size)
    for _ in range(64):  # each halves what is left, at least
        direction = power @ direction
        direction /= direction.max()
    apart = distance(direction, power @ direction) + 8 * times * (size + 4) * EPS
    return apart / (1 - tanh(widest / 4)) * (1 + 8 * EPS), direction


def _diameter(matrix: Floats) -> float:
    """The projective diameter: the largest log of M(x,y) M(x',y') / (M(x,y') M(x',y))."""
    if matrix.min() < _LEAST:
        return inf
    logs = np.log(matrix)
    apart = logs[:, None, :] - logs[None, :, :]
    return float((apart.max(axis=2) - apart.min(axis=2)).max()) + 32 * EPS * abs(log(_LEAST))
