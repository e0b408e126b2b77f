"""The matrix closest to a given one, in a class that is not a list of matrices.

*Within bounds*, row by row: the row q with the least d such that p e^-d <= q <= p e^d. With the
bounds these are intervals, and a row fits into them if their lower ends sum to at most one and
their upper ends to at least one; bisection gives d.

*Within bounds in both directions.* Let J(x, y) = pi(x) Q(x, y) for a stationary chain. Then Q lies
in intervals if low(x, y) pi(x) <= J(x, y) <= high(x, y) pi(x), and the backward kernel
if the same holds with pi(y) and its bounds. Both are linear in J, and so is that J has equal
marginals: whether a chain with a given d exists is a linear programme.

*A minimal rate of mixing.* (1 - t) J + t r r' has the stationary distribution (1 - t) pi + t r, and
is symmetric (the chain reversible) if J is. With r = pi the stationary distribution stays and the
contraction falls by the factor 1 - t; with uniform r it becomes uniform. So t = 1 is in the class
for one of the two, and bisection gives the least t.

Rounding never decides: callers check that the result is in the class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import inf

import numpy as np

from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.checks import Floats
from pufferkit.rounding import last_passing

_PRECISION = 1e-12
_FARTHEST = 700.0
_INWARD = 1e-6
"""Share of its width by which each interval is narrowed, for the tolerance of linear programmes."""


def within_bounds(matrix: Floats, low: Floats, high: Floats) -> Floats:
    """The matrix within the bounds that is nearest in log-ratio, row by row."""
    return np.array([_row(*rows) for rows in zip(matrix, low, high, strict=True)])


def _row(row: Floats, low: Floats, high: Floats) -> Floats:
    if ((low <= row) & (row <= high)).all():
        return row

    def ends(d: float) -> tuple[Floats, Floats]:
        return np.maximum(low, row * np.exp(-d)), np.minimum(high, row * np.exp(d))

    def fits(d: float) -> bool:
        least, most = ends(d)
        return bool((least <= most).all() and least.sum() <= 1 <= most.sum())

    least, most = low, high  # if no row has the same zeros, any row
    if fits(_FARTHEST):
        least, most = ends(_least(fits, _FARTHEST))
    room = most.sum() - least.sum()
    share = (1 - least.sum()) / room if room > 0 else 0.0
    return np.asarray(np.clip(least + share * (most - least), low, high))


def stationary_within(
    matrix: Floats, low: Floats, high: Floats, low_before: Floats, high_before: Floats
) -> list[Floats]:
    """Matrices of stationary chains within bounds in both directions: the nearest, and any."""
    before = _inward(low_before, high_before)
    bounds = _inward(low, high)

    def solve(d: float) -> Floats | None:
        if d == inf:
            return _programme(bounds, before)
        least = np.maximum(bounds[0], matrix * np.exp(-d))
        most = np.minimum(bounds[1], matrix * np.exp(d))
        return _programme((least, most), before) if (least <= most).all() else None

    chosen = [solve(inf)]
    if chosen[0] is not None and solve(_FARTHEST / 10) is not None:
        least = _least(lambda d: solve(d) is not None, _FARTHEST / 10)
        # At the least d, rounding may leave the class; slightly further it does not.
        chosen += [solve(least), solve(least * 1.001 + 1e-6)]
    return [one for one in chosen if one is not None]


def _inward(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    margin = _INWARD * (high - low)
    # A zero stays zero: a transition that is impossible for the adversary may have to be so here.
    return np.where(low > 0, low + margin, low), high - margin


def _programme(bounds: tuple[Floats, Floats], before: tuple[Floats, Floats]) -> Floats | None:
    """A matrix from some J that satisfies all inequalities, or ``None``."""
    from scipy.optimize import linprog  # noqa: PLC0415

    size = len(bounds[0])
    cells = np.eye(size * size).reshape(size, size, -1)
    rows, columns = cells.sum(axis=1), cells.sum(axis=0)
    limits = []
    for (least, most), own in ((bounds, cells), (before, cells.transpose(1, 0, 2))):
        sums = own.sum(axis=1)[:, None, :]
        limits += [own - most[:, :, None] * sums, least[:, :, None] * sums - own]
    above = np.concatenate(limits).reshape(-1, size * size)
    equal = np.vstack([rows - columns, np.ones(size * size)])
    target = np.append(np.zeros(size), 1.0)
    answer = linprog(np.zeros(size * size), above, np.zeros(len(above)), equal, target, (0, 1))
    if answer.status != 0:
        return None
    joint = np.maximum(answer.x, 0).reshape(size, size)
    sums = joint.sum(axis=1, keepdims=True)
    if (sums <= 0).any():
        return None
    matrix: Floats = joint / sums
    return matrix


def mixtures(
    chain: MarkovChain, reversible: bool, member: Callable[[Floats], bool]
) -> Iterator[Floats]:
    """Matrices in the class (``member``): for each kind of mixture the one with the least t."""
    pi = chain.stationary
    joint = pi[:, None] * chain.transition
    if reversible:
        joint = (joint + joint.T) / 2
    for r in (pi, np.full(len(pi), 1 / len(pi))):

        def mixed(t: float, r: Floats = r) -> Floats:
            table = (1 - t) * joint + t * np.outer(r, r)
            return np.asarray(table / table.sum(axis=1, keepdims=True))

        if member(mixed(1.0)):
            yield mixed(_least(lambda t: member(mixed(t)), 1.0))


def _least(holds: Callable[[float], bool], most: float) -> float:
    """The least number that ``holds``, as ``most`` does; by bisection, ending on the safe side."""
    if holds(0.0):
        return 0.0
    return last_passing(lambda at: 1.0 if holds(at) else -1.0, most, 0.0, _PRECISION)
