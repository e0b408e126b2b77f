"""Queries about numbers: states that stand for values, clipped to a public range.

A float counts as the decimal it prints as. The range is declared, never taken from the data.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from numpy.typing import NDArray

from pufferkit.data.additive import Values, mean, total
from pufferkit.data.queries import Lengths, Query, observed_in
from pufferkit.data.series import Series
from pufferkit.data.user_queries import linear
from pufferkit.rounding import as_fraction


def clipped(values: Values, low: float, high: float) -> dict[Hashable, Fraction]:
    """The value of each state, clipped to the range from ``low`` to ``high``."""
    least, most = as_fraction("low", low), as_fraction("high", high)
    if least >= most:
        raise ValueError(f"low: must be below high, got {low} and {high}")
    items = values.items() if isinstance(values, Mapping) else enumerate(values)
    return {state: min(max(as_fraction("values", v), least), most) for state, v in items}


def clipped_total(values: Values, lengths: Lengths, *, low: float, high: float) -> Query:
    """The sum of the values, each clipped to a declared range, which bounds its Lipschitz constant.

    Replacing x by x' moves it by the distance of their clipped values; the noise is calibrated to
    these distances, pair by pair.

    Examples
    --------
    >>> clipped_total({"low": 1, "high": 90}, 100, low=0, high=10).lipschitz
    9.0
    """
    return total(clipped(values, low, high), lengths)


def clipped_mean(values: Values, lengths: Lengths, *, low: float, high: float) -> Query:
    """The mean of the values, each clipped to a declared range.

    Examples
    --------
    >>> clipped_mean({"low": 1, "high": 90}, 100, low=0, high=11).lipschitz
    0.1
    """
    return mean(clipped(values, low, high), lengths)


def moments(values: Values, lengths: Lengths, *, low: float, high: float) -> Query:
    """Mean and mean square of the clipped values, from which `pufferkit.variance` is computed.

    With the middle m and half the width h of the range, the value v of an entry is u = (v - m) / h
    in [-1, 1], and the answer is (mean of u, mean of u^2). Replacing x by x' moves it by
    (|u - u'| + |u^2 - u'^2|) / n with n observed entries: at most 2 / n if the middle of the range
    counts among the values, exactly so pair by pair.

    Examples
    --------
    >>> moments({"low": 0, "middle": 5, "high": 10}, 100, low=0, high=10).lipschitz
    0.02
    """
    numbers, n = clipped(values, low, high), sum(observed_in(lengths))
    middle = (as_fraction("low", low) + as_fraction("high", high)) / 2
    half = (as_fraction("high", high) - as_fraction("low", low)) / 2
    rows = {state: (v - middle) / half for state, v in numbers.items()}
    weights = {state: (u / n, u * u / n) for state, u in rows.items()}
    if len(set(weights.values())) < 2:
        raise ValueError("values: need at least two different values, or the answer is constant")
    names = ["mean", "mean square"]
    return linear(weights, lengths, labels=names, name="moments", states=list(weights))


FINEST = 10**6
"""Shares of quantiles are fractions of at most this denominator."""


@dataclass(frozen=True, eq=False)
class Levels:
    """How many entries are at each level, in the order of the levels; it can be pickled."""

    states: tuple[Hashable, ...]
    share: Fraction

    def __call__(self, entries: NDArray[Any]) -> list[int]:
        return [int((entries == state).sum()) for state in self.states]

    def exact(self, series: Series) -> list[Fraction]:
        """The counts."""
        counts = dict(zip(series.states, series.counts.tolist(), strict=True))
        return [Fraction(counts.get(state, 0)) for state in self.states]


def quantile_of(share: float, values: Mapping[Any, float], lengths: Lengths) -> Query:
    """The level below which a share of the entries lies, chosen with noise.

    The answer is one of the levels, drawn by `rank_scores` and `pufferkit.noise.noisy_choice`. With
    scale s the log-likelihood of every choice moves by at most |h - h'|_1 / s when the histogram h
    of the levels becomes h' with the same total, the bound that also holds for the histogram
    itself with Laplace noise of scale s. One entry moves the histogram by 2, so the Lipschitz
    constant is 2.

    *Proof.* Cumulative counts move by at most |h - h'|_1 / 2, because what is added below a level
    and what is added above it cancel. Scores move by no more than these, and `noisy_choice` moves
    the log-likelihood by at most 2 / s for each unit that scores move.

    Parameters
    ----------
    share
        Between 0 and 1, with six decimals at most; 0.5 is the median.
    values
        The value of each state, all different.
    lengths
        The `Series`, the length, or the lengths of segments.

    Examples
    --------
    >>> query = quantile_of(0.9, {"0 kW": 0, "1 kW": 1, "2 kW": 2}, 1000)
    >>> query.lipschitz, query.labels
    (2.0, ('0 kW', '1 kW', '2 kW'))
    """
    part = as_fraction("share", share)
    if not 0 < part < 1 or part.denominator > FINEST:
        raise ValueError(
            f"share: must lie between 0 and 1, with six decimals at most, got {share}; 0.5 is the "
            "median"
        )
    numbers = {state: float(as_fraction("values", v)) for state, v in values.items()}
    states = sorted(numbers, key=lambda state: numbers[state])
    if len(set(numbers.values())) < max(2, len(states)):
        raise ValueError("values: need at least two levels, all with different values")
    return Query(
        f"quantile {float(part):g}",
        Levels(tuple(states), part),
        2,
        lengths,
        labels=[str(state) for state in states],
        states=states,
        total=sum(observed_in(lengths)),
        kind="quantile",
        unit=Fraction(1),
        question={
            "share": str(part),
            "levels": [numbers[state] for state in states],
            "states": [str(state) for state in states],
        },
    )


def rank_scores(counts: list[Fraction], share: Fraction) -> list[int]:
    """Minus the distance of each level from the rank sought, times the denominator of the share.

    With n entries, F_j of them at or below level j, the score is - max(0, F_{j-1} - q n, q n - F_j)
    and 0 exactly where level j is a q-quantile. It moves by at most 1 if all F_j do.
    """
    below, n, scores = Fraction(0), sum(counts), []
    for count in counts:
        away = max(Fraction(0), below - share * n, share * n - below - count)
        scores.append(-int(away * share.denominator))
        below += count
    return scores
