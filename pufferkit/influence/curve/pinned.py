"""What a side adds to an entry when some entry further on is given: sets of entries.

Setting. Entries i_1 < ... < i_m of a Markov chain with positive transition matrix P are the
secret, wherever they lie. Replacing an entry x by x' moves the log-likelihood of an output by at
most cost(x, x').

Theorem. Let R(x, x') be at least what the right side adds to an entry (`pufferkit.influence.curve.
pairs`), be it open to the end of the series or *pinned*: the value of some entry further right is
given, whichever it is and wherever it lies. Let L be the same on the left. For any two values p, p'
of the m entries

    log P(o | X_{i_1}..X_{i_m} = p) / P(o | X_{i_1}..X_{i_m} = p')
        <=  m max over x, x' of [cost(x, x') + L(x, x') + R(x, x')].

Proof. Exchange the m values one by one; as all transitions are possible, so is every intermediate
value. While one of them is exchanged, the nearest others on either side are given, so that
everything beyond them is unchanged. The entries between are Markov, and independent on the two
sides given the entry that is exchanged: the theorem on single entries applies with the kernels of
the pinned chain,

    K_n^y(x, z) = P(x, z) P^n(z, y) / P^{n+1}(x, y)

from an entry with value x to the next one, if the entry n steps after that has value y. QED

Pinned sides of n entries are computed for n < N: zero for n = 0, and then the largest step over
y of cost plus what n - 1 entries add. From N on, P^n(z, y) / P^n(z', y) <= e^delta for all z, z',
and so for every larger n, since a row of P^{n+1} is a mean of rows of P^n. Then K_n^y is P up to
factors e^{+-delta}, a step differs from that of P by at most 2 delta, and a certificate bounds the
rest.

To the left it is the same with the reversed chain.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pufferkit.checks import Floats
from pufferkit.errors import NotApplicable
from pufferkit.influence.curve.pairs import (
    LARGEST,
    SLACK,
    PairSteps,
    certificate,
    closure,
    off_diagonal,
)
from pufferkit.rounding import EPS

_NEAR = 1e-7
_MOST_STEPS = 2_000


@dataclass(frozen=True, eq=False)
class Pinned:
    """The most that a pinned side adds, and the limit that implies it."""

    adds: Floats
    limit: Floats


class PinnedSide:
    """Sides of one chain, of any number of entries, with the entry beyond them given.

    Parameters
    ----------
    kernel
        Kernel of the side without a given entry: from an entry to the next one away, rows are
        distributions.
    error
        Bound on the relative error of the entries of the kernel.
    """

    def __init__(self, kernel: Floats, error: float) -> None:
        self._near: list[PairSteps] = []
        power, each = kernel, 4 * (error + (len(kernel) + 2) * EPS)
        while (delta := spread(power)) > _NEAR:
            if len(self._near) == _MOST_STEPS:
                raise NotApplicable(
                    "secrets: this chain mixes too slowly for sets of entries; use Secrets.runs"
                )
            kernels = [pinned_kernel(kernel, column) for column in power.T]
            self._near.append(PairSteps(kernels, (len(self._near) + 3) * each, often=True))
            power = power @ kernel
        self._far = PairSteps([kernel], (len(self._near) + 3) * each + 2 * delta, often=True)

    def __call__(self, cost: Floats, most: float) -> Pinned | None:
        """The most that any such side adds; ``None`` without a bound within ``most``."""
        raised = (1 + 2 * EPS) * off_diagonal(len(cost))
        adds = np.zeros_like(cost)
        variation = closure(cost)
        start = variation
        for steps in self._near:
            own = steps(variation)
            adds = np.maximum(adds, own)
            variation = closure((cost + own) * raised)
            start = np.maximum(start, variation)
            if float(variation.max()) > min(most, LARGEST):
                return None
        slack = SLACK * float(cost.max()) or SLACK
        # Raised to the last of the computed sides, so that the induction begins there.
        limit = certificate(self._far, cost, most, slack, start)
        if limit is None:
            return None
        if not np.all(variation <= limit):
            shortfall = float(np.max(variation - limit))
            limit = certificate(self._far, cost + shortfall * off_diagonal(len(cost)), most, slack)
            if limit is None or not np.all(variation <= limit):
                return None
        return Pinned(np.maximum(adds, self._far(limit)), limit)


def spread(power: Floats) -> float:
    """The largest log-ratio of two entries of one column, rounded up."""
    logs = np.log(power)
    return float((logs.max(axis=0) - logs.min(axis=0)).max()) + 64 * EPS


def pinned_kernel(kernel: Floats, ahead: Floats) -> Floats:
    """Kernel from an entry to the next, given a later one with likelihood ``ahead``."""
    joint = kernel * ahead
    pinned: Floats = joint / joint.sum(axis=1, keepdims=True)
    return pinned
