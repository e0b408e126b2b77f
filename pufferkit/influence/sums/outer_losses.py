"""Outer outputs: the loss of a release at outputs beyond all exact answers.

A sum of contributions V(X_1) + ... + V(X_T) with Laplace noise of scale s on each coordinate. At an
output that lies above every possible answer in some coordinates (sign +1) and below it in the
others (sign -1) the likelihood is a constant times e^{sum_j sign_j N_j / s}: a product over the
entries. So the loss there follows from products of the matrices P(x, y) g(y), g(y) = e^{sum_j
sign_j V_j(y) / s}.

This is an attack, not a bound: the true loss is at least as large. It shows how close to the
least noise a mechanism is, for any number of states and any length, and it never calibrates
anything.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np

from pufferkit.checks import Floats
from pufferkit.threads import one_thread

_ALL_SIGNS = 6
_ROUNDS = 3
_MOST_STEPS = 20_000
_SEARCHED = 1_000
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
        for _ in range(_ROUNDS if size > _ALL_SIGNS else 0):
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
