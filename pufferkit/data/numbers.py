"""Questions about numbers: states that stand for values, clipped to a public range.

A float is taken for the decimal it prints as. The range is declared, never read off the data.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from fractions import Fraction

from pufferkit.data.own import linear
from pufferkit.data.queries import Lengths, Query, Values, mean, observed_in, total
from pufferkit.rounding import as_fraction


def clipped(values: Values, low: float, high: float) -> dict[Hashable, Fraction]:
    """The value of each state, moved into the range from ``low`` to ``high``."""
    least, most = as_fraction("low", low), as_fraction("high", high)
    if least >= most:
        raise ValueError(f"low: must be below high, got {low} and {high}")
    items = values.items() if isinstance(values, Mapping) else enumerate(values)
    return {state: min(max(as_fraction("values", v), least), most) for state, v in items}


def clipped_total(values: Values, lengths: Lengths, *, low: float, high: float) -> Query:
    """The sum of the values, each clipped to a declared range; Lipschitz by that range at most.

    Replacing x by x' moves it by the distance of their clipped values, which is what the noise
    follows, pair by pair.

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
    """Mean and mean square of the clipped values, from which `pufferkit.variance` follows.

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
