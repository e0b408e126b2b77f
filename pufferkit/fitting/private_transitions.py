"""Beliefs bought with budget: noisy transition counts, and a region that accounts for the noise.

When there are no public data, part of the budget can buy a transition matrix. The counts are a
query like any other (4-Lipschitz: an entry is part of two transitions), released under *weaker*
beliefs
that need no data, or by group privacy when nothing is known. Around the noisy counts lies a
region that holds the chain with the stated confidence:

- half of what may fail goes to sampling, as in `ChainClass.around`, at the true counts;
- a quarter to the noise of single counts, which are all within a width of the true ones;
- a quarter to the noise of sums over the rest of a row, by a Chernoff bound for sums of Laplace
  draws, P(|sum of m| > t) <= 2 e^(-l t) / (1 - l^2 s^2)^m for every l below 1/s.

The ends of the intervals are monotone in the counts, so the corners of the box of possible counts
bound them all.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from pufferkit import checks
from pufferkit.beliefs.chain_class import ChainClass, as_chain_class
from pufferkit.beliefs.provenance import Bought, Provenance
from pufferkit.beliefs.region_class import (
    NOISY,
    RegionClass,
    cells,
    noisy_bounds,
)
from pufferkit.checks import Floats
from pufferkit.data.asking import transition_counts
from pufferkit.data.query import Query
from pufferkit.data.series import Series
from pufferkit.errors import OverBudget
from pufferkit.influence.profile import InfluenceCurve
from pufferkit.mechanisms.baselines import group_dp
from pufferkit.mechanisms.calibration import Calibration
from pufferkit.mechanisms.influence_curve import entry_epsilon_for, influence_curve
from pufferkit.mechanisms.release import Release, half_width
from pufferkit.rounding import round_up

_GRID = 1 + 1e-6  # noise lies on a grid, whose tails are heavier by less than this


@dataclass(frozen=True)
class PrivateTransitions:
    """Noisy transition counts, and the class of chains around them."""

    release: Release
    """The noisy counts, row by row, with everything a reader needs."""
    region: RegionClass
    """All chains in the confidence region of the noisy counts, any start."""
    entry_epsilon: float
    """What the counts have spent on every entry."""

    @property
    def counts(self) -> Floats:
        """The noisy counts as a table; they may be negative."""
        size = len(self.region.states)
        return np.array(self.release.raw, dtype=float).reshape(size, size)

    @property
    def for_others(self) -> RegionClass:
        """The region for data of other people, of whom the counts say nothing: no charge.

        The counts were made from some people's entries, and only their entries have been spent.
        """
        known = Bought(self.entry_epsilon, sum(self.release.lengths), for_others=True)
        region = replace(self.region, fitted_on=Provenance(bought=known))
        checks.assign(region, step=self.region.step)
        return region

    def calibrate(self, query: Query, epsilon: float) -> Calibration:
        """Noise for a further query, so that counts and answer *together* cost ``epsilon``.

        Event-level epsilons add up, so the answer may spend what the influence curve of the region
        allows at epsilon, less what the counts have spent. The promise is to every chain of the
        region, which contains the true chain with the region's confidence.

        Raises
        ------
        OverBudget
            If the counts alone cost that much.
        """
        epsilon = checks.privacy(epsilon)
        if sorted(query.lengths) != sorted(self.release.lengths):
            raise ValueError(
                "query: must run over the series whose transitions were counted, with segments of "
                f"{list(self.release.lengths)[:5]}; got {list(query.lengths)[:5]}"
            )
        region, longest = self.region, query.longest
        allowed, evidence, proof = entry_epsilon_for(region, longest, epsilon, None, None)
        left = allowed - self.entry_epsilon
        if left <= 0:
            spent = InfluenceCurve(self.region, query.lengths).epsilon(self.entry_epsilon)
            raise OverBudget(
                f"epsilon: the transition counts alone cost {spent:.4g} under their region, so "
                f"{epsilon:g} leaves nothing for the answer; ask for more, or spend less on counts"
            )
        note = f"together with the transition counts, event-level epsilon {self.entry_epsilon:.6g}"
        return Calibration(
            "influence_curve",
            epsilon,
            round_up(query.lipschitz / left),
            query,
            self.region,
            replace(
                evidence,
                belief="all chains of the region",
                notes=(note, *evidence.notes),
                beside=self.entry_epsilon,
                bought=self.entry_epsilon,
            ),
            verification_data=proof,
            options={"beside": self.entry_epsilon},
        )


def private_transitions(
    series: Any,
    epsilon: float,
    beliefs: Any = None,
    confidence: float = 0.95,
    *,
    states: Iterable[Hashable] | None = None,
) -> PrivateTransitions:
    """Release transition counts with noise, and the region of chains around them.

    Every call draws new noise and spends epsilon. The region remembers what it has spent, in files
    too: an `Account` charges that with the first release, and
    `PrivateTransitions.calibrate` shares epsilon with it. Any other use on these data is refused;
    for data of other people there is `PrivateTransitions.for_others`. A purchase whose region you
    throw away is in no account: charge its ``entry_epsilon`` by `Account.charge`.

    Parameters
    ----------
    series
        The private data: a `Series`, a sequence of states, or of segments.
    epsilon
        Pufferfish privacy of the counts for each entry, under ``beliefs``.
    beliefs
        Weak beliefs that need no data, for example `ChainClass.binary`, `ChainClass.mixing`, or
        a region around public counts. ``None``: group privacy, which assumes nothing but needs
        noise in proportion to the longest segment.
    confidence
        Of the region, over the draw of the data and of the noise.
    states
        All states that can occur; beliefs have their own.

    Examples
    --------
    >>> from pufferkit import ChainClass, MarkovChain, private_transitions
    >>> path = MarkovChain.steady([[0.8, 0.2], [0.3, 0.7]]).sample(20_000, seed=1)
    >>> bought = private_transitions(path, 1, ChainClass.binary(0.1, 0.9), confidence=0.9)
    >>> bought.region
    ChainClass(every chain on 2 states in the 90% region around 19,999 transitions, any start)
    """
    sure = checks.confidence(confidence)
    theta = None if beliefs is None else as_chain_class(beliefs)
    data = _series(series, theta, states)
    query = transition_counts(data.states, data)
    calibration = (
        group_dp(query, epsilon) if theta is None else influence_curve(theta, query, epsilon)
    )
    release = calibration.release(data, anyway=True)
    size = len(data.states)
    region = region_of_noisy(
        np.array(release.raw, dtype=float).reshape(size, size),
        release.scale,
        sure,
        data.states,
        query.total,
        release.unit,
    )
    spent = round_up(calibration.entry_epsilon)
    source = Provenance(bought=Bought(spent, len(data)))
    checks.assign(region, step=data.step, fitted_on=source)
    return PrivateTransitions(release, region, spent)


def region_of_noisy(
    counts: Floats,
    scale: float,
    confidence: float,
    states: Iterable[Hashable] | None = None,
    total: float | None = None,
    unit: Fraction | None = None,
) -> RegionClass:
    """The region around counts with independent noise of this scale: discrete, with a unit."""
    size = len(counts)
    fails = 1 - checks.confidence(confidence)
    width = half_width(scale, 1 - fails / 4, size * size, unit) * _GRID
    others = laplace_sum(size - 1, scale, fails / 4 / (size * size), unit) * _GRID
    low, high = noisy_bounds(counts, width, others, fails / 2 / cells(size))
    for x in range(size):
        if low[x].sum() > 1 or high[x].sum() < 1:  # the noise was larger than it should be
            low[x], high[x] = 0.0, 1.0
    counted = None if total is None else int(total)
    return RegionClass(low, high, states, confidence, NOISY, counted)


def laplace_sum(count: int, scale: float, alpha: float, unit: Fraction | None = None) -> float:
    """A t that the sum of ``count`` draws exceeds in size with probability alpha at most.

    The least over a grid of the Chernoff bounds, and of the union bound. Chernoff's holds for
    discrete noise too: with u the unit and b = u / scale, E e^{tZ} = 1 / (1 - sinh^2(tu/2) /
    sinh^2(b/2)) is at most 1 / (1 - (tu/b)^2), that of Laplace noise, as sinh(x) / x grows.
    """
    best = count * half_width(scale, 1 - alpha, count, unit)
    for n in range(1, 200):
        share = n / 200
        t = (math.log(2 / alpha) - count * math.log1p(-share * share)) * scale / share
        best = min(best, t)
    return best


def _series(series: Any, theta: ChainClass | None, states: Iterable[Hashable] | None) -> Series:
    if isinstance(series, Series):
        return series if theta is None else Series.of(series, theta.states)
    declared = states if theta is None else theta.states
    if declared is None:
        raise ValueError(
            "states: name all states that can occur; which ones do occur is itself a fact about "
            "the data"
        )
    return Series.of(series, declared)
