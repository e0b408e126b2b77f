"""The initial distribution that brings a chain with a given matrix nearest to an adversary.

Let mu be the initial distribution of a chain with matrix P, theta the adversary. In the divergence
given X_i = a along data that begin with x, only

    log (mu P^{i-1})(a) - log mu(x)        (and its negative, the other way round)

depends on mu. So "Delta <= d" is a set of linear inequalities in mu, two for each i, a and x: the
infimum over initial distributions is found by bisection on d, each step a linear programme. Delta
of the result is then computed as for any other chain, so the returned value is always valid.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.checks import Floats
from pufferkit.rounding import last_passing

MOST_ROWS = 20_000
"""Most inequalities of a programme; longer series keep the adversary's initial distribution."""

_TOLERANCE = 1e-9
_NONE = -1e280


def nearest_starts(
    adversary: MarkovChain, transition: Floats, length: int, largest: float
) -> list[Floats]:
    """Initial distributions with decreasing Delta, from ``largest`` down to the infimum.

    Only from states that the adversary can start in. Any other must never lead to a value that the
    adversary thinks possible, or Delta is infinite; then its share changes no ratio.
    """
    states = np.flatnonzero(adversary.initial > 0)
    if 2 * length * len(states) * len(adversary) > MOST_ROWS or len(states) < 2:
        return []
    rows = _inequalities(adversary, transition, length, states)
    starts = list[Floats]()

    def margin(at: float) -> float:
        start = _feasible(*rows, at - 1)
        if start is None:
            return -1.0
        starts.append(np.zeros(len(adversary)))
        starts[-1][states] = start
        return 1.0

    # Counted from 1, so that the precision is absolute where Delta is near 0.
    last_passing(margin, 1 + largest, 1.0, _TOLERANCE)
    return starts


def _inequalities(
    adversary: MarkovChain, transition: Floats, length: int, states: Any
) -> tuple[Floats, Floats, Floats]:
    """Rows (above, below, c) with: log(above . mu) - log(below . mu) + c <= Delta."""
    with np.errstate(divide="ignore", invalid="ignore"):
        moves = np.log(adversary.transition) - np.log(transition)
    shared = (adversary.transition > 0) & (transition > 0)
    ways = (np.where(shared, moves, _NONE), np.where(shared, -moves, _NONE))
    size = len(adversary)
    backward = np.zeros((2, length, size))
    for way, steps in enumerate(ways):
        for i in range(length - 2, -1, -1):
            backward[way, i] = (steps + backward[way, i + 1]).max(axis=1)
    paths = [np.where(np.eye(size, dtype=bool), 0.0, _NONE) for _ in ways]
    power, theirs = np.eye(size), adversary.initial
    unit = np.eye(size)[states][:, states]
    above, below, constants = [], [], []
    for i in range(length):
        if i:
            power, theirs = power @ transition, theirs @ adversary.transition
            paths = [
                (path[:, :, None] + steps[None]).max(axis=1)
                for path, steps in zip(paths, ways, strict=True)
            ]
        for a in np.flatnonzero(theirs > 0):
            for x, state in enumerate(states):
                prior = np.log(adversary.initial[state]) - np.log(theirs[a])
                one, other = (paths[way][state, a] + backward[way, i, a] for way in (0, 1))
                if one > _NONE / 2:
                    above.append(power[states, a])
                    below.append(unit[x])
                    constants.append(one + prior)
                if other > _NONE / 2:
                    above.append(unit[x])
                    below.append(power[states, a])
                    constants.append(other - prior)
    return np.array(above), np.array(below), np.array(constants)


def _feasible(above: Floats, below: Floats, constants: Floats, delta: float) -> Floats | None:
    """An initial distribution with every loss at most ``delta``, or ``None``."""
    from scipy.optimize import linprog  # noqa: PLC0415

    factors = np.exp(np.clip(constants - delta, -600, 600))[:, None]
    rows = above * factors - below
    rows /= np.abs(rows).max(axis=1, keepdims=True).clip(1e-300)
    size = above.shape[1]
    answer = linprog(
        np.zeros(size), rows, np.zeros(len(rows)), np.ones((1, size)), [1.0], (1e-12, 1.0)
    )
    if answer.status != 0:
        return None
    start: Floats = np.maximum(answer.x, 1e-12)
    total: float = start.sum()
    return start / total
