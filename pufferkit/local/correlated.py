"""Correlated noise ([B] 3.3): the answers are the bits XORed with a second binary chain.

The noise chain y is stationary with P(0 -> 1) = rho_0 and P(1 -> 0) = rho_1, and z_t = x_t xor y_t.
If rho_0 + rho_1 = 1 its entries are independent: randomised response with rho = rho_0. Whoever
answers keeps one bit from entry to entry, the last y_t, so a phone can answer as entries arise.

[B] finds no gain over independent noise, against the ignorant adversary and with rho_0 + rho_1 <= 1
and theta < rho_0. Against *every* adversary there is one: at theta = 0.2 and epsilon = 5 a share of
0.0829 of the bits is flipped, where independent noise flips 0.1226. Who knows entries near X_i has
most to gain from bits that do not fit them, and flips that come in runs take that away.

`pufferkit.local.xor_sides` has the recursion and why it is exact.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pufferkit import checks
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.checks import Floats
from pufferkit.local.bayesian_loss import known_adversary
from pufferkit.local.losses import Loss
from pufferkit.local.one_sided import Binary
from pufferkit.local.xor_compiled import searched_losses
from pufferkit.local.xor_sides import CLOSE, XorSides, longest_losses, losses_of_length
from pufferkit.rounding import last_passing_each

LONGEST = 1 << 12
"""Series up to this length are followed to the end; longer ones are promised as any length is."""

_HALF = 0.5
_GRID = 24
_LARGE = 40.0
_SURE = 690.0


@dataclass(frozen=True, eq=False)
class XorChain:
    """Bits of a binary chain, XORed with a stationary binary noise chain.

    Parameters
    ----------
    chain
        The belief about the bits: all moves possible, any start.
    rho_0, rho_1
        P(noise 0 -> 1) and P(noise 1 -> 0), strictly between 0 and 1.

    Examples
    --------
    >>> chain = MarkovChain.steady([[0.8, 0.2], [0.2, 0.8]])
    >>> print(XorChain(chain, 0.0415, 0.4585).loss(9, "every"))
    loss = 4.68621 (adversary: every; length 9; exact recursion)
    """

    chain: MarkovChain
    rho_0: float
    rho_1: float

    def __post_init__(self) -> None:
        check_bits(self.chain)
        for name in ("rho_0", "rho_1"):
            object.__setattr__(self, name, noise_move(name, getattr(self, name)))

    @property
    def expected_noise(self) -> float:
        """Share of bits that are flipped: rho_0 / (rho_0 + rho_1)."""
        return self.rho_0 / (self.rho_0 + self.rho_1)

    @property
    def noise(self) -> Floats:
        """Transition matrix of the noise chain."""
        return np.array([[1 - self.rho_0, self.rho_0], [self.rho_1, 1 - self.rho_1]])

    def loss(self, length: int | None = None, adversary: str = "ignorant") -> Loss:
        """The loss of series of this length; ``None``: the supremum over all lengths.

        Parameters
        ----------
        length
            Number of entries. Up to 4096 the loss is exact; beyond, that of any length bounds it.
        adversary
            ``"ignorant"`` ([B] 3.3) or ``"every"`` ([B] Definition 4).
        """
        size = None if length is None else checks.whole("length", length, 1)
        every = known_adversary(adversary) == "every"
        sides = xor_sides(self.chain, np.array([[self.rho_0, self.rho_1]]))
        if size is not None and size <= LONGEST:
            zero, one = losses_of_length(sides, size, every)[0].tolist()
            return Loss((zero, one), adversary, size, "exact recursion", True)
        near, far = longest_losses(sides, every)
        (zero, one), exact = far[0].tolist(), bool((far - near).max() <= 2 * CLOSE)
        return Loss((zero, one), adversary, size, "recursion to the limit", exact and size is None)


def check_bits(chain: Any) -> None:
    """Raise an error unless this is a binary chain in which every move is possible."""
    if not isinstance(chain, MarkovChain) or len(chain) != 2:
        raise ValueError("chain: must be a MarkovChain of two states")
    if not (chain.transition > 0).all():
        raise ValueError("chain: must have no zeros, so that every move is possible")


def noise_move(name: str, value: Any) -> float:
    """A probability of the noise chain, or an error."""
    rho = checks.real(name, value)
    if not 0 < rho < 1:
        raise ValueError(f"{name}: must lie strictly between 0 and 1, got {rho:g}")
    return rho


def xor_sides(chain: MarkovChain, rho: Floats) -> XorSides:
    """The sides of an entry of this chain, for noise chains with these rows of rho_0, rho_1."""
    return XorSides(chain.transition, Binary.of(chain).start, rho)


def correlated_noise_rows(
    theta: float, epsilon: float, sums: Iterable[float], adversary: str = "ignorant"
) -> list[dict[str, Any]]:
    """Least expected noise of the XOR chain for each rho_0 + rho_1, over all lengths.

    Parameters
    ----------
    theta
        Probability that the (symmetric) data chain changes state.
    epsilon
        Loss allowed.
    sums
        Values of rho_0 + rho_1, in (0, 2); at 1 the noise is independent. [B] assumes a sum of at
        most 1, and theta < rho_0.
    adversary
        ``"ignorant"``, as in [B] 3.3, or ``"every"``.

    Returns
    -------
    list of dict
        ``sum``, ``rho_0``, ``rho_1``, ``expected_noise``, ``loss``, and ``assumptions``: whether
        those of [B] 3.3 hold at the solution. Sums at which no noise is private are left out.
    """
    theta, epsilon = checks.real("theta", theta), checks.privacy(epsilon)
    every = known_adversary(adversary) == "every"
    chain = MarkovChain.steady([[1 - theta, theta], [theta, 1 - theta]])
    check_bits(chain)
    totals = np.array([checks.real("sums", total) for total in sums])
    if not ((totals > 0) & (totals < 2)).all():
        raise ValueError("sums: rho_0 + rho_1 lies strictly between 0 and 2")
    rows = []
    for total, share in zip(
        totals.tolist(), least_shares(chain, totals, epsilon, every), strict=True
    ):
        if share > _HALF:
            continue
        made = XorChain(chain, share * total, (1 - share) * total)
        rows.append(
            {
                "sum": total,
                "rho_0": made.rho_0,
                "rho_1": made.rho_1,
                "expected_noise": made.expected_noise,
                "loss": float(made.loss(None, adversary)),
                "assumptions": bool(total <= 1 and theta < made.rho_0 < made.rho_1),
            }
        )
    return rows


def least_shares(
    chain: MarkovChain,
    totals: Floats,
    epsilon: float,
    every: bool,
    length: int | None = None,
    precision: float = 1e-12,
) -> Floats:
    """For each rho_0 + rho_1 the least share of flips that is private; above 1/2 where none is.

    The shares of a grid are tried, then those between the least that passed and the one below it,
    by a recursion that is quick and not certified.
    """
    start = float(np.exp(np.clip(Binary.of(chain).start, -_SURE, _SURE)))
    size = length if length is not None and length <= LONGEST else 0

    def private(shares: Floats, sums: Floats) -> NDArray[np.bool_]:
        rho = np.stack([shares * sums, (1 - shares) * sums], axis=-1)
        passed: NDArray[np.bool_] = np.asarray(((rho > 0) & (rho < 1)).all(axis=-1))
        losses = searched_losses(chain.transition, start, rho[passed], every, size, LONGEST)
        passed[passed] = losses.max(axis=1) <= epsilon
        return passed

    grid = np.geomspace(np.exp(-min(epsilon, _LARGE)) / 8, _HALF, _GRID)
    tried = private(np.tile(grid, len(totals)), np.repeat(totals, _GRID)).reshape(-1, _GRID)
    first = tried.argmax(axis=1)
    good = np.where(tried.any(axis=1), grid[first], 1.0)
    bad = np.where((first > 0) & (good < 1), grid[first - 1], good)
    return last_passing_each(lambda shares: private(shares, totals), good, bad, precision)
