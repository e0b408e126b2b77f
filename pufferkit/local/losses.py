"""A privacy loss with the method behind it, and its parts in two directions."""

from __future__ import annotations

from math import inf, isfinite, tanh
from typing import Any, NamedTuple

import numpy as np

from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.checks import Floats
from pufferkit.local.diameter_bounds import projective_diameter
from pufferkit.local.one_sided import Trace
from pufferkit.rounding import EPS


class Loss(float):
    """A privacy loss with the method behind it. It is a number, rounded up.

    Attributes
    ----------
    adversary
        ``"every"``, ``"ignorant"``, or a description of the known entries.
    length
        Length of the series; ``None`` for the supremum over all lengths.
    method
        The method: ``"closed form"``, ``"exact recursion"``, ``"tanh bound"``, ...
    exact
        Whether it is the loss itself, to rounding, and not only a bound on it.
    directions
        The two log-ratios it is the larger of: X_i = 0 over X_i = 1, and the other way round.
    """

    adversary: str
    length: int | None
    method: str
    exact: bool
    directions: tuple[float, float]

    def __new__(
        cls,
        directions: tuple[float, float],
        adversary: str,
        length: int | None,
        method: str,
        exact: bool,
    ) -> Loss:
        made = super().__new__(cls, max(directions))
        made.adversary, made.length = adversary, length
        made.method, made.exact, made.directions = method, exact, directions
        return made

    def __getnewargs__(self) -> tuple[Any, ...]:
        return self.directions, self.adversary, self.length, self.method, self.exact

    def __str__(self) -> str:
        kind = "=" if self.exact else "<="
        size = "any length" if self.length is None else f"length {self.length}"
        return f"loss {kind} {float(self):.6g} (adversary: {self.adversary}; {size}; {self.method})"


class LossPair(NamedTuple):
    """Something for each of the two directions: 0 over 1, and 1 over 0."""

    zero: float
    one: float


def own_pair(own: tuple[float, ...]) -> LossPair:
    """The most an entry's own answer says, in each direction."""
    return LossPair(max(own), -min(own))


def unbounded(name: str, length: int | None) -> Loss:
    """The loss of answers that can give a state away."""
    return Loss((inf, inf), name, length, "an output is possible under one state only", True)


def padded(chain: MarkovChain, pair: LossPair, steps: int) -> tuple[float, float]:
    """Rounded up by more than the recursion can have lost.

    Every step adds a few units in the last place and shrinks what came before by tanh(D/4).
    """
    kept = tanh(projective_diameter(chain.transition) / 4)
    count = min(steps, 1 / (1 - kept)) if kept < 1 else steps
    return tuple(  # type: ignore[return-value]
        value + 16 * EPS * (1 + abs(value)) * (1 + count) if isfinite(value) else value
        for value in pair
    )


def ends_of(trace: Trace) -> Floats:
    """(-low, high) of a trace: what it says for state 1, and for state 0."""
    return np.array([-trace.low, trace.high])
