"""The loss of secrets about several consecutive entries.

Setting. The window is the entries i, ..., j = i + w - 1 of a Markov chain, and replacing an entry x
by x' moves the log-likelihood f of an output by at most cost(x, x'). Let L be what the left side
adds to entry i and R what the right side adds to entry j (`pufferkit.influence.curve.pairs`).

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
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from pufferkit.beliefs.kernel_class import Paths
from pufferkit.checks import Bools, Floats
from pufferkit.influence.curve.engine import CostRuns, Stretch
from pufferkit.influence.curve.pairs import LARGEST, PairSteps, closure, off_diagonal
from pufferkit.rounding import EPS

_KEPT = 64
"""Most entries of a window whose plans are stored from one call to the next."""


def windows_of_both(
    left: Sequence[Stretch], right: Sequence[Stretch], runs: CostRuns, window: int
) -> Iterator[tuple[int, int, Floats, Floats, Floats]]:
    """Ranges of first entries of equal windows: from, to, cost, and what each side adds.

    The cost is the largest of the window, pair by pair. ``right`` counts from the right end.
    """
    length = sum(count for count, _ in runs)
    last = length - window + 1
    firsts = {1, *(stretch.first for stretch in left)}
    firsts |= {length - stretch.last - window + 2 for stretch in right}
    starts = [1]
    for count, _ in runs:
        starts.append(starts[-1] + count)
    firsts |= {*starts, *(start - window + 1 for start in starts)}
    marks = sorted(first for first in firsts if 1 <= first <= last)
    ours, theirs = 0, len(right) - 1
    for first, after in pairwise([*marks, last + 1]):
        end = first + window - 1
        while left[ours].last < first:
            ours += 1
        while right[theirs].first > length + 1 - end:
            theirs -= 1
        within = [
            cost
            for (_, cost), (start, stop) in zip(runs, pairwise(starts), strict=True)
            if start <= end and stop > first
        ]
        cost = np.max(within, axis=0)
        yield first, after - 1, cost, left[ours].steps, right[theirs].steps


def value_losses(cost: Floats, left: Floats, right: Floats, follows: Sequence[Bools]) -> Floats:
    """The loss between values of a window, by their first entries: the largest of each pair.

    ``follows`` has, for every entry of the window but the last, which values can follow which.
    """
    ahead = cost + right
    for after in reversed(follows):
        best = np.where(after[:, :, None], ahead[None, :, :], -np.inf).max(axis=1)
        ahead = cost + np.where(after[None, :, :], best[:, None, :], -np.inf).max(axis=2)
    losses: Floats = (left + ahead) * (1 + (len(follows) + 8) * EPS)
    return losses


class LabelLosses:
    """The loss between labels of windows, for one chain."""

    def __init__(self, paths: Paths, error: float) -> None:
        self._paths, self._error = paths, error + paths.error
        often = len(paths.entries) > 4
        self._often = often
        self._kept = [self._steps(kernel) for kernel in paths.kernels[:_KEPT]]
        self._last = PairSteps([paths.posterior], self._error, often=often)

    def _steps(self, kernel: Floats) -> PairSteps:
        return PairSteps([kernel], self._error, often=self._often)

    def __call__(self, cost: Floats, left: Floats, right: Floats) -> Floats | None:
        """The loss of every pair of labels; ``None`` if it is too large to be useful."""
        paths = self._paths
        first = np.ix_(paths.entries[0], paths.entries[0])
        variation = closure((cost + left)[first] * (1 + 4 * EPS))
        for n, kernel in enumerate(paths.kernels):
            if float(variation.max()) > LARGEST:
                return None
            steps = self._kept[n] if n < _KEPT else self._steps(kernel)
            here = np.ix_(paths.entries[n + 1], paths.entries[n + 1])
            outside = off_diagonal(len(kernel)) * (1 + 4 * EPS)
            variation = closure((cost[here] + steps(variation)) * outside)
        end = np.ix_(paths.entries[-1], paths.entries[-1])
        whole = closure((variation + right[end]) * (1 + 4 * EPS))
        if float(whole.max()) > LARGEST:
            return None
        return self._last(whole) * (1 + 8 * EPS)
