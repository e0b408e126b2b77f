"""Every two-state chain with staying probabilities in an interval."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

import numpy as np

from pufferkit import checks
from pufferkit.beliefs.base import Member, Mixing
from pufferkit.beliefs.chain_class import ChainClass, KernelBounds
from pufferkit.beliefs.markov_chain import MarkovChain, state_labels
from pufferkit.errors import NotApplicable


@dataclass(frozen=True, eq=False, repr=False)
class BinaryClass(ChainClass):
    """See `ChainClass.binary`.

    The worst chain is at a corner. Write s = 1 - P(1|1), t = 1 - P(0|0), lambda = 1 - s - t, and
    R_n(x, x') for the largest log-ratio of rows x and x' of P^n. With any start, the max-influence
    of X_i on {X_{i-a}, X_{i+b}} is the larger, over the two orders of the states, of

        R_a(x, x') + R_b(x, x') + R_{i-1}(x', x),

    because the prior ratio turns columns of P^a into rows. Let m = |lambda|^n.

    - lambda >= 0: R_n(0, 1) = log (s + t m) / (s (1 - m)). It clearly decreases in s; its
    derivative
      in t has the sign of 1 - m - n (1 - lambda) / lambda < 0. So it grows with both staying
      probabilities, and the corner (high, high) is the worst case of this part.
    - lambda < 0: for odd n, R_n(0, 1) = log t (1 + m) / (t - s m), for even n as above with
      m = |lambda|^n. Both grow with s and t, because |lambda| = s + t - 1 is at most s and at most
      t. So the corner (low, low) is the worst case of this part.

    Hence every quilt of every node has its supremum over the class at one of two matrices: the
    bound is certified by the formula, no grid is needed, and its distance to the supremum is 0.
    """

    kind = "binary"
    recorded = ("low", "high", "states")
    lists_matrices = False
    where_worst = "worst chain of the interval is at a corner, exactly"

    low: float
    high: float
    states: tuple[Hashable, ...]

    def __init__(self, low: float, high: float, states: Iterable[Hashable] = (0, 1)) -> None:
        ends = {"low": checks.real("low", low), "high": checks.real("high", high)}
        checks.assign(self, states=state_labels(states, 2), **ends)
        if not 0 <= self.low <= self.high <= 1:
            raise ValueError(
                f"low, high: staying probabilities need 0 <= low <= high <= 1, "
                f"got low = {self.low:g}, high = {self.high:g}"
            )

    @property
    def description(self) -> str:
        return f"every two-state chain staying with probability {self.low:g} to {self.high:g}"

    def members(self) -> tuple[Member, ...]:
        return tuple(
            Member(
                f"staying probabilities ({stay:g}, {stay:g}), any start",
                MarkovChain([0.5, 0.5], [[stay, 1 - stay], [1 - stay, stay]], self.states),
                any_start=True,
            )
            for stay in dict.fromkeys((self.high, self.low))
        )

    def mixing_bounds(self) -> tuple[Mixing, ...]:
        slowest = max(abs(2 * self.high - 1), abs(2 * self.low - 1))
        if slowest >= 1:
            raise NotApplicable(
                f"the class contains chains that never mix (low = {self.low:g}, "
                f"high = {self.high:g}); keep 0 < low and high < 1"
            )
        # 1 - p is exact near 1, 2 - p - q is not; the bound must not be too good.
        leave, other = 1 - self.high, 1 - self.low
        rarest = min(0.5, leave / (leave + other) * (1 - 1e-15))
        gap = 2 * (1 - slowest) * (1 - 1e-15)
        return (Mixing(rarest, gap, slowest, stationary=False),)

    def nearest(self, chain: MarkovChain, length: int) -> list[Member]:
        stay = np.clip(np.diag(chain.transition), self.low, self.high)
        matrix = [[stay[0], 1 - stay[0]], [1 - stay[1], stay[1]]]
        name = f"staying probabilities ({stay[0]:g}, {stay[1]:g})"
        return [Member(name, MarkovChain(chain.initial, matrix, self.states), True)]

    def boxes(self) -> list[KernelBounds]:
        low = np.array([[self.low, 1 - self.high], [1 - self.high, self.low]])
        high = np.array([[self.high, 1 - self.low], [1 - self.low, self.high]])
        return [("the nearest chain of the interval", low, high, None)]
