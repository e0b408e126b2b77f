"""Parts that hold for all chains of a class at once: those that mix, regions of matrices."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, singledispatch
from math import inf

import numpy as np

from pufferkit.beliefs.chain_class import ChainClass, Mixing
from pufferkit.beliefs.event_class import EventClass
from pufferkit.beliefs.mixing_class import MixingClass
from pufferkit.influence.curve.chain_parts import block_sizes
from pufferkit.influence.curve.engine import Part, Side
from pufferkit.influence.curve.steps import DiameterStep, RatioStep, Step
from pufferkit.influence.curve.widest_steps import WidestSteps
from pufferkit.influence.quilts.chains import MixingInfluence


@singledispatch
def class_part(theta: ChainClass, length: int) -> Part | None:
    """The part of a class that is bounded as a whole; ``None`` if its corners give more."""
    return None


@class_part.register
def _(theta: EventClass, length: int) -> Part | None:
    return class_part(theta.beliefs, length)


@class_part.register
def _(theta: MixingClass, length: int) -> Part | None:
    (mixing,) = theta.mixing_bounds()
    return mixing_part(theta.description, mixing, len(theta.states), length)


def mixing_part(name: str, mixing: Mixing, states: int, length: int) -> Part:
    """All chains that mix at least this well, any start.

    Entries of P^m are within a factor 1 +- Delta_m of the stationary distribution. So rows of P^m
    have log-ratios at most h = log (1 + Delta) / (1 - Delta), and the projective diameter is at
    most 2 h.
    """
    bound, outside = MixingInfluence.tight(mixing), 1 - np.eye(states)

    def diameter(size: int) -> Step:
        h = bound.bound(size)
        return DiameterStep(2 * h * outside if h < inf else np.where(outside > 0, inf, 0.0))

    def ratio(size: int) -> Step:
        return RatioStep(bound.bound(size), states)

    left, right = (widest_side(step, states, length) for step in (diameter, ratio))
    return Part(name, left, right, [np.ones(states, dtype=bool)])


def widest_side(step: Callable[[int], Step], states: int, length: int) -> Side:
    """A side whose steps know the largest variation only, from the step of every block."""
    made = cache(lambda size: WidestSteps(step(size), states))
    return Side(lambda entry, size: made(size), block_sizes(length))
