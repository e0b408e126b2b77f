"""Secrets beyond the values of one entry, and what they lose.

# Values and labels of windows

Setting. The window is the entries i, ..., j = i + w - 1 of a Markov chain, and replacing an entry x
by x' moves the log-likelihood f of an output by at most cost(x, x'). Let L be what the left side
adds to entry i and R what the right side adds to entry j (`pufferkit.influence.curve.engine`).

*Values of the window.* For any two values p, p' of it

    log P(o | X_i..X_j = p) / P(o | X_i..X_j = p')
        <=  L(p_i, p'_i) + sum over t of cost(p_t, p'_t) + R(p_j, p'_j)  =: D(p, p').

Proof. Given all entries of the window, what lies left of it depends on X_i only and what lies right
of it on X_j only, and the two are independent. Exchange the entries of the window one by one inside
f, then the right part for each left part, then the left part: the costs are those of the theorem
on single entries. QED The largest D over all possible values is computed backwards, for each pair
of values of one entry:

    V_j = cost + R,    V_t(x, x') = cost(x, x') + max over y after x, y' after x' of V_{t+1}(y, y'),

and L + V_i. Any two *events* about the window are mixtures of its values, so they lose no more.

*Labels of the window.* An automaton reads the entries of the window and ends in a label. Entry and
automaton together, Z_t = (X_t, q_t), are a Markov chain through the window, and the secret depends
on the path through Z_j only. So the theorem on single entries holds for it, with cost the cost of
the entries: with K_t the kernel from Z_t back to Z_{t-1} and Pi(label, .) the distribution of Z_j,

    A_i = cost + L,    A_t = cl(cost + step(K_t; A_{t-1})),
    loss(label, label')  <=  step(Pi(label, .), Pi(label', .); cl(A_j + R)).

# Sets of entries

Setting. Entries i_1 < ... < i_m of a Markov chain with positive transition matrix P are the
secret, wherever they lie. Replacing an entry x by x' moves the log-likelihood of an output by at
most cost(x, x').

Theorem. Let R(x, x') be at least what the right side adds to an entry (`pufferkit.influence.curve.
engine`), be it open to the end of the series or *pinned*: the value of some entry further right is
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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pufferkit.checks import Bools, Floats
from pufferkit.errors import NotApplicable
from pufferkit.influence.curve.certificates import certificate, slack_of
from pufferkit.influence.curve.steps import LARGEST, Transport, closure, off_diagonal
from pufferkit.rounding import EPS

_KEPT = 64
"""Most entries of a window whose plans are stored from one call to the next."""

_NEAR = 1e-7
_MOST_STEPS = 2_000


@dataclass(frozen=True, eq=False)
class Secret:
    """What is hidden, if not any two values of an entry.

    Attributes
    ----------
    window
        Number of consecutive entries that a secret is about: all their values, or their label.
    labels
        How the label of a window arises, if labels are the secrets.
    sets
        What the left and the right side add if an entry beyond is given, if the secrets are the
        values of several entries wherever they lie.
    count
        How many entries such a set has.
    weights
        The share of the loss that counts for each pair of values, if pairs have different epsilons.
    state
        Whether the hidden state is the secret, and not its entry.
    """

    window: int = 1
    labels: LabelLosses | None = None
    sets: tuple[PinnedSide, PinnedSide] | None = None
    count: int = 1
    weights: Floats | None = None
    state: bool = False

    @property
    def is_entry(self) -> bool:
        """Whether the secret is a value of one entry, or its hidden state."""
        return self.window == 1 and self.labels is None and self.sets is None


@dataclass(frozen=True, eq=False)
class Pinned:
    """The most that a pinned side adds, the limit behind it, all steps with their variations."""

    adds: Floats
    limit: Floats
    taken: tuple[tuple[Transport, Floats], ...]


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
        self.near: list[Transport] = []
        power, each = kernel, 4 * (error + (len(kernel) + 2) * EPS)
        while (delta := spread(power)) > _NEAR:
            if len(self.near) == _MOST_STEPS:
                raise NotApplicable(
                    "secrets: this chain mixes too slowly for sets of entries; use Secrets.runs"
                )
            kernels = [pinned_kernel(kernel, column) for column in power.T]
            self.near.append(Transport(kernels, (len(self.near) + 3) * each))
            power = power @ kernel
        self.far = Transport([kernel], (len(self.near) + 3) * each + 2 * delta)

    def __call__(self, cost: Floats, most: float) -> Pinned | None:
        """The most that any such side adds; ``None`` without a bound within ``most``."""
        raised = (1 + 2 * EPS) * off_diagonal(len(cost))
        adds = np.zeros_like(cost)
        variation = closure(cost)
        start, taken = variation, list[tuple[Transport, Floats]]()
        for steps in self.near:
            own = steps(variation)
            taken.append((steps, variation))
            adds = np.maximum(adds, own)
            variation = closure((cost + own) * raised)
            start = np.maximum(start, variation)
            if float(variation.max()) > min(most, LARGEST):
                return None
        slack = slack_of(float(cost.max()))
        # Raised to the last of the computed sides, so that the induction begins there.
        limit = certificate(self.far, cost, most, slack, start)
        if limit is None:
            return None
        if not np.all(variation <= limit):
            shortfall = float(np.max(variation - limit))
            limit = certificate(self.far, cost + shortfall * off_diagonal(len(cost)), most, slack)
            if limit is None or not np.all(variation <= limit):
                return None
        taken.append((self.far, limit))
        return Pinned(np.maximum(adds, self.far(limit)), limit, tuple(taken))


def spread(power: Floats) -> float:
    """The largest log-ratio of two entries of one column, rounded up."""
    logs = np.log(power)
    return float((logs.max(axis=0) - logs.min(axis=0)).max()) + 64 * EPS


def pinned_kernel(kernel: Floats, ahead: Floats) -> Floats:
    """Kernel from an entry to the next, given a later one with likelihood ``ahead``."""
    joint = kernel * ahead
    pinned: Floats = joint / joint.sum(axis=1, keepdims=True)
    return pinned


def value_losses(
    cost: Floats, left: Floats, right: Floats, window: int, follows: Sequence[Bools] | None
) -> Floats:
    """The loss between values of a window, by their first entries: the largest of each pair.

    ``follows`` has, for every entry of the window but the last, which values can follow which;
    ``None`` if any value can follow any.
    """
    ahead = cost + right
    if follows is None:
        if window > 1:
            between = (window - 2) * float(cost.max())
            ahead = cost + between + float(ahead.max())
    else:
        for after in reversed(follows):
            best = np.where(after[:, :, None], ahead[None, :, :], -np.inf).max(axis=1)
            ahead = cost + np.where(after[None, :, :], best[:, None, :], -np.inf).max(axis=2)
    losses: Floats = (left + ahead) * (1 + (window + 8) * EPS)
    return losses


class LabelLosses:
    """The loss between labels of windows, for one chain.

    Parameters
    ----------
    entries
        For every entry of the window: its value in each case that can occur.
    kernels
        Kernels from the cases of each entry but the first to those of the previous entry.
    posterior
        Distribution of the last case given each label.
    error
        Bound on the relative error of the entries of kernels and posterior.
    """

    def __init__(
        self,
        entries: Sequence[NDArray[np.intp]],
        kernels: Sequence[Floats],
        posterior: Floats,
        error: float,
    ) -> None:
        self.entries, self._kernels, self._error = entries, kernels, error
        self._kept = [self._steps(kernel) for kernel in kernels[:_KEPT]]
        self.last = Transport([posterior], error)

    def _steps(self, kernel: Floats) -> Transport:
        return Transport([kernel], self._error)

    def steps(self) -> Iterator[Transport]:
        """The steps to each entry of the window but the first; `last` is that to the label."""
        for n, kernel in enumerate(self._kernels):
            yield self._kept[n] if n < _KEPT else self._steps(kernel)

    def taken(
        self, cost: Floats, left: Floats, right: Floats
    ) -> Iterator[tuple[Transport, Floats]]:
        """The steps through the window, each with its variation; they end where one is useless."""
        first = np.ix_(self.entries[0], self.entries[0])
        variation = closure((cost + left)[first] * (1 + 4 * EPS))
        for n, steps in enumerate(self.steps(), 1):
            if not float(variation.max()) <= LARGEST:
                return
            yield steps, variation
            here = np.ix_(self.entries[n], self.entries[n])
            outside = off_diagonal(steps.rows) * (1 + 4 * EPS)
            variation = closure((cost[here] + steps(variation)) * outside)
        end = np.ix_(self.entries[-1], self.entries[-1])
        whole = closure((variation + right[end]) * (1 + 4 * EPS))
        if float(whole.max()) <= LARGEST:
            yield self.last, whole

    def __call__(self, cost: Floats, left: Floats, right: Floats) -> Floats | None:
        """The loss of every pair of labels; ``None`` if it is too large to be useful."""
        for steps, variation in self.taken(cost, left, right):
            if steps is self.last:
                return steps(variation) * (1 + 8 * EPS)
        return None
