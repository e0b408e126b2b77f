"""Bits XORed with a noise chain, as a mechanism with a promise; the one with the least flips."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pufferkit import checks
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.checks import Floats
from pufferkit.errors import NotApplicable
from pufferkit.local.correlated import XorChain, check_bits, least_shares, noise_move
from pufferkit.local.response import BitResponse
from pufferkit.noise import WORD, local_answers

_TOTALS = 25
_SPLIT = 9
_ALIKE = 1e-6
_COARSE = 1e-7


@dataclass(frozen=True, eq=False)
class CorrelatedResponse(BitResponse):
    """Bits are answered wrongly in runs: the flips are a chain of their own ([B] 3.3).

    Parameters
    ----------
    chain
        The belief; two states, every move possible, any start.
    rho_0, rho_1
        P(a flip follows none) and P(none follows a flip), between 0 and 1. They are rounded up to
        multiples of 2^-64, which are drawn exactly; the promise is for these.
    epsilon, adversary, length
        As for `RandomizedResponse`.

    Attributes
    ----------
    loss
        The loss, against that adversary.
    expected_noise
        Share of entries that are answered wrongly: rho_0 / (rho_0 + rho_1).

    Examples
    --------
    >>> bits = MarkovChain.steady([[0.8, 0.2], [0.2, 0.8]])
    >>> made = CorrelatedResponse(bits, 0.0416, 0.4598)
    >>> print(f"{made.loss:.4f} with {made.expected_noise:.4f} of the answers wrong")
    4.9992 with 0.0830 of the answers wrong
    """

    kind = "correlated_response"

    def __post_init__(self) -> None:
        check_bits(self.chain)
        for name in ("rho_0", "rho_1"):
            rho = noise_move(name, getattr(self, name))
            object.__setattr__(self, name, float(Fraction(ceil(Fraction(rho) * WORD), WORD)))
        self._check_length()
        noise = XorChain(self.chain, self.rho_0, self.rho_1)
        self._promise(noise.loss(self.length, self.adversary), noise.expected_noise)

    @cached_property
    def matrix(self) -> Floats:
        """P(answer z | state x), row x: of one answer on its own."""
        flipped = self.expected_noise
        return checks.frozen(np.array([[1 - flipped, flipped], [flipped, 1 - flipped]]))

    @property
    def memory(self) -> float:
        """Correlation of neighbouring flips, 1 - rho_0 - rho_1."""
        return 1 - self.rho_0 - self.rho_1

    @cached_property
    def noise_states(self) -> tuple[Floats, Floats, Floats]:
        """Start and moves of the flips, and P(answer | state, flip) in rows (0, 0), (0, 1), ..."""
        flipped = self.expected_noise
        moves = np.array([[1 - self.rho_0, self.rho_0], [self.rho_1, 1 - self.rho_1]])
        return np.array([1 - flipped, flipped]), moves, np.eye(2)[[0, 1, 1, 0]]

    @cached_property
    def pair_matrix(self) -> Floats:
        """P(two neighbouring answers | the two states); rows and columns 00, 01, 10, 11."""
        start, moves, _ = self.noise_states
        pairs = start[:, None] * moves
        matrix = np.empty((4, 4))
        for (a, b), (c, d) in product(product((0, 1), repeat=2), repeat=2):
            matrix[2 * a + b, 2 * c + d] = pairs[a ^ c, b ^ d]
        return checks.frozen(matrix)

    @property
    def thresholds(self) -> tuple[int, int]:
        """Words of `pufferkit.noise.local_answers` that start and that end a run of flips."""
        return int(Fraction(self.rho_0) * WORD), int(Fraction(self.rho_1) * WORD)

    def answered(self, codes: NDArray[Any], lengths: Sequence[int]) -> NDArray[Any]:
        """Answers to series of these lengths, each with noise of its own."""
        flips = local_answers.chain_flips(lengths, self.thresholds)
        answers: NDArray[Any] = codes ^ flips.astype(codes.dtype)
        return answers

    def answer_stream(self, codes: Iterator[int]) -> Iterator[int]:
        """The answer to each entry of one series, before the next is asked for."""
        flips = local_answers.flip_stream(self.thresholds)
        return (code ^ next(flips) for code in codes)

    def __str__(self) -> str:
        return (
            f"correlated response: flips start with {self.rho_0:.6g}, end with {self.rho_1:.6g}, "
            f"expected noise {self.expected_noise:.6g}\n  {self.guarantee}\n  {self.loss}"
        )


def cheapest_correlated(
    chain: MarkovChain, epsilon: float, adversary: str, length: int | None
) -> CorrelatedResponse:
    """The noise chain with the least share of flips known to lose at most ``epsilon``.

    Of noise chains with the same share the one nearest to independent flips is taken: it leaves the
    smallest variance. The search is over rho_0 + rho_1, and what it ends with is checked.
    """
    check_bits(chain)
    every = adversary == "every"
    totals = np.linspace(0, 2, _TOTALS + 2)[1:-1]  # 1 is one of them
    shares = least_shares(chain, totals, epsilon, every, length, _COARSE)
    for edge in (False, False, True, True):
        least = shares.min()
        alike = np.flatnonzero(shares <= least * (1 + _ALIKE))
        at = int(alike[np.abs(totals[alike] - 1).argmin()])
        low, high = max(at - 1, 0), min(at + 1, len(totals) - 1)
        if edge:  # how near to 1 does the least share stay the least?
            low, high = (low, at) if totals[at] > 1 else (at, high)
        extra = np.linspace(totals[low], totals[high], _SPLIT + 2)[1:-1]
        more = least_shares(chain, extra, epsilon, every, length, _COARSE)
        order = np.argsort(np.concatenate([totals, extra]), kind="stable")
        totals = np.concatenate([totals, extra])[order]
        shares = np.concatenate([shares, more])[order]
    alike = np.flatnonzero(shares <= shares.min() * (1 + _ALIKE))
    total = float(totals[alike[np.abs(totals[alike] - 1).argmin()]])
    (share,) = least_shares(chain, np.array([total]), epsilon, every, length).tolist()
    for nudge in (0.0, *np.geomspace(1e-15, 1e-3, 13).tolist()):
        raised = share * (1 + nudge)
        if not 0 < raised <= 0.5:
            break
        made = CorrelatedResponse(
            chain, raised * total, (1 - raised) * total, epsilon, adversary, length
        )
        if made.is_private:
            return made
    raise NotApplicable("epsilon: no correlated noise is certified to keep this promise")
