"""Queries that add up what single entries contribute: counts, histograms, totals and means."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pufferkit import checks
from pufferkit.checks import Floats
from pufferkit.data.queries import Kind, Lengths, Query, Weights, observed_in
from pufferkit.data.series import Series
from pufferkit.rounding import as_fraction, round_up

Values = Mapping[Hashable, float] | Mapping[Hashable, Fraction] | Sequence[float]
"""The value of each state, or of states 0, 1, ... in a row."""


def count(state: Hashable, lengths: Lengths) -> Query:
    """How many entries are in ``state``; 1-Lipschitz.

    Examples
    --------
    >>> from pufferkit import Series
    >>> count("active", 3).exact(Series.of(["rest", "active", "rest"], ["rest", "active"]))
    [Fraction(1, 1)]
    """
    return _additive("count", {state: (Fraction(1),)}, lengths, labels=[str(state)], open_=True)


def histogram(states: Iterable[Hashable], lengths: Lengths | None = None) -> Query:
    """How many entries are in each state; 2-Lipschitz (one bin loses, another gains).

    Entries that were not observed are in no bin; give the `Series` as ``lengths`` if there are any.

    Examples
    --------
    >>> from pufferkit import Series
    >>> data = Series.of(["rest", "active", "rest"], ["rest", "active"])
    >>> histogram(data.states, data).exact(data)
    [Fraction(2, 1), Fraction(1, 1)]
    """
    labels, observed = several_states(states), observed_in(lengths)
    whole = float(sum(observed))
    unit = _unit(labels, Fraction(1))
    return _additive("histogram", unit, lengths, labels, total=whole, observed=observed)


def relative_frequencies(states: Iterable[Hashable], lengths: Lengths | None = None) -> Query:
    """The share of entries in each state; 2/T-Lipschitz with T entries in all.

    T counts the entries that were observed; give the `Series` as ``lengths`` if some were not.

    Examples
    --------
    >>> from pufferkit import Series
    >>> data = Series.of(["rest", "active", "rest", "rest"], ["rest", "active"])
    >>> relative_frequencies(data.states, data).exact(data)
    [Fraction(3, 4), Fraction(1, 4)]
    """
    labels, observed = several_states(states), observed_in(lengths)
    unit = _unit(labels, Fraction(1, sum(observed)))
    return _additive("relative frequencies", unit, lengths, labels, total=1.0, observed=observed)


def total(values: Values, lengths: Lengths) -> Query:
    """The sum over entries of the value of each state; Lipschitz constant: the range of the values.

    ``values`` maps states to numbers, or lists the numbers for states 0, 1, ... A float counts as
    the decimal it prints as, so 0.1 is one tenth.

    Examples
    --------
    >>> from pufferkit import Series
    >>> data = Series.of(["low", "high", "high"], ["low", "high"])
    >>> total({"low": 0.5, "high": 2}, data).exact(data)
    [Fraction(9, 2)]
    """
    return _additive("total", _scaled(values, Fraction(1)), lengths, ["total"])


def mean(values: Values, lengths: Lengths) -> Query:
    """The mean over entries of the value of each state; Lipschitz constant: the range over T.

    T counts the entries that were observed; give the `Series` as ``lengths`` if some were not.

    Examples
    --------
    >>> from pufferkit import Series
    >>> data = Series.of(["low", "high", "high", "low"], ["low", "high"])
    >>> mean({"low": 0.5, "high": 2}, data).exact(data)
    [Fraction(5, 4)]
    """
    observed = observed_in(lengths)
    share = Fraction(1, sum(observed))
    return _additive("mean", _scaled(values, share), lengths, ["mean"], observed=observed)


@dataclass(frozen=True, eq=False)
class WeightedCounts:
    """The sum over entries of the weights of their states; an object, so that it can be pickled."""

    weights: Weights

    def __call__(self, entries: NDArray[Any]) -> Floats | float:
        answer = np.zeros(len(next(iter(self.weights.values()))))
        for state, row in self.weights.items():
            answer += int(np.sum(entries == state)) * np.array([float(w) for w in row])
        return answer if len(answer) > 1 else float(answer[0])


def several_states(states: Iterable[Hashable]) -> tuple[Hashable, ...]:
    """Two or more distinct states; a helpful error if data are given in their place."""
    if hasattr(states, "columns") or isinstance(states, Series) or hasattr(states, "subjects"):
        raise ValueError(
            f"states: is a {type(states).__name__}; name the states first and give the data as "
            "lengths, like histogram(['rest', 'walk'], read_series(...))"
        )
    labels = checks.distinct_states(states)
    if len(labels) < 2:
        raise ValueError(
            f"states: a histogram needs at least two states, got {list(labels)}; "
            "over one state it is constant"
        )
    return labels


def _unit(states: tuple[Hashable, ...], weight: Fraction) -> Weights:
    zero = Fraction(0)
    return {
        state: tuple(weight if j == own else zero for j in range(len(states)))
        for own, state in enumerate(states)
    }


def _scaled(values: Values, share: Fraction) -> Weights:
    items = values if isinstance(values, Mapping) else dict(enumerate(values))
    weights = {state: (as_fraction("values", value) * share,) for state, value in items.items()}
    if len(set(weights.values())) < 2:
        raise ValueError(
            "values: need at least two different values, or the answer is constant; "
            f"got {list(items.values())}"
        )
    return weights


def _additive(
    name: Kind,
    weights: Weights,
    lengths: Lengths | None,
    labels: Iterable[Hashable],
    total: float | None = None,
    open_: bool = False,
    observed: Iterable[int] | None = None,
) -> Query:
    if total is not None:
        # Histograms: any two of the rows have distance twice the weight of one bin.
        furthest = 2 * sum(next(iter(weights.values())))
    else:
        single = [row[0] for row in weights.values()] + [Fraction(0)] * open_
        furthest = max(single) - min(single)
    try:
        constant = float(furthest)
    except OverflowError:
        raise ValueError("values: their range is too large for a float; rescale them") from None
    if Fraction(constant) < furthest:
        constant = round_up(constant, 1)
    return Query(
        name,
        WeightedCounts(weights),
        constant,
        () if lengths is None else lengths,
        labels=[str(label) for label in labels],
        states=None if open_ else tuple(weights),
        total=total,
        weights=weights,
        kind=name,
        observed=observed,
    )
