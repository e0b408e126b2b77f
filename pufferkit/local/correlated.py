"""Correlated noise ([B] 3.3): the answers are the bits XORed with a second binary chain.

The noise chain y is stationary with P(0 -> 1) = rho_0 and P(1 -> 0) = rho_1, and z_t = x_t xor y_t.
If rho_0 + rho_1 = 1 its entries are independent: randomised response with rho = rho_0. Whoever
draws the noise must see the whole series, so this is not local any more.

Given outputs, y_t = x_t xor z_t, so x alone is hidden and moves from t to t + 1 by

    M_{z_t, z_{t+1}}(x, x') = P(x, x') N(x xor z_t, x' xor z_{t+1}).

For a fixed pair of outputs the log-ratio of forward probabilities is again a monotone Moebius
function of the one before. Following its least and largest value for each last output z_t is exact,
and linear in the length.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf, log
from typing import Any

import numpy as np

from pufferkit import checks
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.checks import Floats
from pufferkit.local.losses import Loss
from pufferkit.local.one_sided import Interval, moebius

_SETTLED = 1e-13
_MOST = 4096


@dataclass(frozen=True, eq=False)
class XorChain:
    """Bits of a stationary binary chain, XORed with a stationary binary noise chain.

    Parameters
    ----------
    chain
        The belief about the bits: stationary, all moves possible.
    rho_0, rho_1
        P(noise 0 -> 1) and P(noise 1 -> 0), strictly between 0 and 1.
    """

    chain: MarkovChain
    rho_0: float
    rho_1: float

    def __post_init__(self) -> None:
        if not isinstance(self.chain, MarkovChain) or len(self.chain) != 2:
            raise ValueError("chain: must be a MarkovChain of two states")
        if not self.chain.is_stationary or not (self.chain.transition > 0).all():
            raise ValueError("chain: must start in its stationary distribution and have no zeros")
        for name in ("rho_0", "rho_1"):
            rho = checks.real(name, getattr(self, name))
            if not 0 < rho < 1:
                raise ValueError(f"{name}: must lie strictly between 0 and 1, got {rho:g}")
            object.__setattr__(self, name, rho)

    @property
    def expected_noise(self) -> float:
        """Share of bits that are flipped: rho_0 / (rho_0 + rho_1)."""
        return self.rho_0 / (self.rho_0 + self.rho_1)

    @property
    def noise(self) -> Floats:
        """Transition matrix of the noise chain."""
        return np.array([[1 - self.rho_0, self.rho_0], [self.rho_1, 1 - self.rho_1]])

    def loss(self, length: int | None = None) -> Loss:
        """Exact loss against the ignorant adversary; ``None``: the limit of long series.

        The limit is the value at which the recursion stands still, not a certified supremum.
        """
        size = None if length is None else checks.whole("length", length, 1)
        steps = _MOST if size is None else size
        lefts = self._sweep(self._left_maps(), self._left_start(), steps)
        rights = self._sweep(self._right_maps(), (Interval(0.0, 0.0),) * 2, steps)
        zero, one = -inf, -inf
        for node in range(1, steps + 1) if size is not None else [0]:
            left = lefts[min(node, len(lefts)) - 1]
            right = rights[min(steps - node + 1, len(rights)) - 1 if size is not None else -1]
            for z in (0, 1):
                zero = max(zero, left[z].high + right[z].high)
                one = max(one, -(left[z].low + right[z].low))
        return Loss((max(zero, 0.0), max(one, 0.0)), "ignorant", size, "exact recursion", True)

    def _left_start(self) -> tuple[Interval, Interval]:
        """For each z_1, log P(z_1 | x_1 = 0) / P(z_1 | x_1 = 1)."""
        ratio = log(self.rho_1 / self.rho_0)
        return Interval(ratio, ratio), Interval(-ratio, -ratio)

    def _kernel(self, z: int, after: int) -> Floats:
        """M_{z, after}(x, x')."""
        moved = self.noise[np.ix_([z, 1 - z], [after, 1 - after])]
        kernel: Floats = self.chain.transition * moved
        return kernel

    def _left_maps(self) -> dict[tuple[int, int], Floats]:
        """From P(z_1 ... z_t | x_t) to P(z_1 ... z_{t+1} | x_{t+1}), both over the prior of x."""
        prior = self.chain.stationary
        return {
            (z, after): (self._kernel(z, after) * prior[:, None]).T / prior[:, None]
            for z in (0, 1)
            for after in (0, 1)
        }

    def _right_maps(self) -> dict[tuple[int, int], Floats]:
        """From P(later outputs | x_{t+1}) to the same for x_t; keys (z_{t+1}, z_t)."""
        return {(after, z): self._kernel(z, after) for z in (0, 1) for after in (0, 1)}

    def _sweep(
        self,
        maps: dict[tuple[int, int], Floats],
        start: tuple[Interval, Interval],
        steps: int,
    ) -> list[tuple[Interval, Interval]]:
        """Ranges for each output at the near end, step by step, until they stand still."""
        moved_odds = {key: moebius(kernel) for key, kernel in maps.items()}
        messages = [start]
        while len(messages) < steps:
            now = []
            for near in (0, 1):
                ends = []
                for far in (0, 1):
                    mapped = moved_odds[far, near]
                    side = messages[-1][far]
                    ends += [mapped(side.low), mapped(side.high)]
                now.append(Interval(min(ends), max(ends)))
            moved = max(
                abs(a - b)
                for one, two in zip(now, messages[-1], strict=True)
                for a, b in zip(one, two, strict=True)
            )
            messages.append((now[0], now[1]))
            if moved < _SETTLED:
                break
        return messages


def correlated_noise_rows(
    theta: float, epsilon: float, sums: Iterable[float]
) -> list[dict[str, Any]]:
    """Least expected noise of the XOR chain for each rho_0 + rho_1, in the limit.

    Parameters
    ----------
    theta
        Probability that the (symmetric) data chain changes state.
    epsilon
        Loss allowed, against the ignorant adversary.
    sums
        Values of rho_0 + rho_1, in (0, 2); at 1 the noise is independent. [B] assumes a sum of at
        most 1, and theta < rho_0.

    Returns
    -------
    list of dict
        ``sum``, ``rho_0``, ``rho_1``, ``expected_noise``, ``loss``, and ``assumptions``: whether
        those of [B] 3.3 hold at the solution.
    """
    theta, epsilon = checks.real("theta", theta), checks.privacy(epsilon)
    chain = MarkovChain.steady([[1 - theta, theta], [theta, 1 - theta]])
    rows = []
    for total in sums:
        low, high = max(0.0, (total - 1) / total), 0.5  # expected noise: not private, private

        def mechanism(share: float, total: float = total) -> XorChain:
            return XorChain(chain, share * total, (1 - share) * total)

        while high - low > 1e-12:
            middle = (low + high) / 2
            if middle * total <= 0 or mechanism(middle).loss() > epsilon:
                low = middle
            else:
                high = middle
        response = mechanism(high)
        rows.append(
            {
                "sum": float(total),
                "rho_0": response.rho_0,
                "rho_1": response.rho_1,
                "expected_noise": response.expected_noise,
                "loss": float(response.loss()),
                "assumptions": bool(total <= 1 and theta < response.rho_0 < response.rho_1),
            }
        )
    return rows
