"""Outer outputs: what a release gives away at outputs beyond all exact answers.

A sum of contributions V(X_1) + ... + V(X_T) with Laplace noise of scale s on each coordinate. At an
output that lies above every possible answer in some coordinates (sign +1) and below it in the
others (sign -1) the likelihood is a constant times e^{sum_j sign_j N_j / s}: a product over the
entries. So the loss there follows from products of the matrices P(x, y) g(y), g(y) = e^{sum_j
sign_j V_j(y) / s}.

This is an attack, not a bound: the true loss is at least what it gives. It says how near to the
least noise a mechanism is, for any number of states and any length, and it never calibrates
anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.checks import Floats

_ALL_SIGNS = 6
_MOST_STEPS = 20_000
_CONVERGED = 1e-13


def outer_loss(chain: MarkovChain, contributions: Floats, scale: float, length: int) -> float:
    """The largest loss of an entry at an outer output, rounded down.

    Parameters
    ----------
    chain
        What the adversary believes.
    contributions
        Row x is what an entry in state x adds to each coordinate of the answer.
    scale, length
        Of the noise, and of the series.
    """
    best = 0.0
    for signs in _signs(contributions.shape[1]):
        best = max(best, _loss_at(chain, contributions @ signs / scale, length))
    if contributions.shape[1] > _ALL_SIGNS:
        best = max(best, _climbed(chain, contributions, scale, length))
    return best * (1 - 1e-9)


def _signs(size: int) -> Iterator[Floats]:
    if size <= _ALL_SIGNS:
        for signs in product((1.0, -1.0), repeat=size):
            yield np.array(signs)
        return
    for cut in range(1, size):
        threshold = np.where(np.arange(size) < cut, 1.0, -1.0)
        yield threshold
        yield -threshold


def _climbed(chain: MarkovChain, contributions: Floats, scale: float, length: int) -> float:
    """Sign by sign uphill from the best threshold."""

    def loss(signs: Floats) -> float:
        return _loss_at(chain, contributions @ signs / scale, length)

    signs = max(_signs(contributions.shape[1]), key=loss).copy()
    best, improved = loss(signs), True
    while improved:
        improved = False
        for place in range(len(signs)):
            signs[place] *= -1
            value = loss(signs)
            if value > best * (1 + 1e-12):
                best, improved = value, True
            else:
                signs[place] *= -1
    return best


def _loss_at(chain: MarkovChain, exponents: Floats, length: int) -> float:
    """Largest loss of the first, a middle and the last entry; an entry weighs e^exponent."""
    weights = np.exp(exponents - exponents.max())
    middle = (length + 1) // 2
    worst = 0.0
    for entry in {1, middle, length}:
        after = _followed(chain.transition, weights, length - entry)
        joint = _before(chain, weights, entry)
        distribution = _marginal(chain, entry)
        here = (distribution > 0) & (joint > 0) & (after > 0)
        logs = np.log(joint[here]) - np.log(distribution[here]) + np.log(after[here])
        logs = logs + np.log(weights[here])
        if logs.size:
            worst = max(worst, float(logs.max() - logs.min()))
    return worst


def _followed(transition: Floats, weights: Floats, steps: int) -> Floats:
    """E[product of the weights of the next ``steps`` entries | this entry], up to a factor."""
    values = np.ones(len(weights))
    for _ in range(min(steps, _MOST_STEPS)):
        following = transition @ (weights * values)
        following /= following.max()
        if np.abs(following - values).max() < _CONVERGED:
            return following
        values = following
    return values


def _before(chain: MarkovChain, weights: Floats, entry: int) -> Floats:
    """P(X_entry = x) E[product of the weights of the entries before it | x], up to a factor."""
    values: Floats = chain.initial
    for _ in range(min(entry - 1, _MOST_STEPS)):
        following: Floats = (values * weights) @ chain.transition
        following = following / following.max()
        if np.abs(following - values).max() < _CONVERGED:
            return following
        values = following
    return values


def _marginal(chain: MarkovChain, entry: int) -> Floats:
    values: Floats = chain.initial
    for _ in range(min(entry - 1, _MOST_STEPS)):
        following: Floats = values @ chain.transition
        if np.abs(following - values).max() < _CONVERGED:
            return following
        values = following
    return values
