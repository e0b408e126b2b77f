"""The questions as functions in Python.

Without lengths a function gives the `Question`, which mechanisms bind to ``over``; with the lengths
or the series, the `Query` about it. `pufferkit.data.queries` has the proofs of the bounds.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, overload

from pufferkit.data.calendar import Calendar
from pufferkit.data.queries import (
    By,
    ByTime,
    Clip,
    Count,
    DaysWith,
    Episodes,
    Histogram,
    Linear,
    Mean,
    Quantile,
    RelativeFrequencies,
    Stays,
    TimeIn,
    Total,
    TransitionCounts,
    Values,
    Variance,
)
from pufferkit.data.query import Lengths, Query, Question


def _asked(
    made: Question, states: Any, lengths: Lengths | None, calendar: Calendar | None = None
) -> Query | Question:
    """The question, which has no query yet without lengths: mechanisms bind it to ``over``."""
    return made if lengths is None else made.bind(states, lengths, calendar)


@overload
def count(state: Hashable, lengths: None = None) -> Question: ...
@overload
def count(state: Hashable, lengths: Lengths) -> Query: ...
def count(state: Hashable, lengths: Lengths | None = None) -> Query | Question:
    """How many entries are in ``state``; 1-Lipschitz.

    Examples
    --------
    >>> from pufferkit import Series
    >>> count("active", 3).exact(Series.of(["rest", "active", "rest"], ["rest", "active"]))
    [Fraction(1, 1)]
    """
    return _asked(Count((state,)), None, lengths)


@overload
def histogram(states: Iterable[Hashable] | None = None, lengths: None = None) -> Question: ...
@overload
def histogram(states: Iterable[Hashable] | None, lengths: Lengths) -> Query: ...
def histogram(
    states: Iterable[Hashable] | None = None, lengths: Lengths | None = None
) -> Query | Question:
    """How many entries are in each state; 2-Lipschitz (one bin loses, another gains).

    Entries that were not observed are in no bin; give the `Series` as ``lengths`` if there are any.

    Examples
    --------
    >>> from pufferkit import Series
    >>> data = Series.of(["rest", "active", "rest"], ["rest", "active"])
    >>> histogram(data.states, data).exact(data)
    [Fraction(2, 1), Fraction(1, 1)]
    >>> histogram().exact(data)
    [Fraction(2, 1), Fraction(1, 1)]
    """
    return _asked(Histogram(states), states, lengths)  # type: ignore[arg-type]


@overload
def relative_frequencies(
    states: Iterable[Hashable] | None = None, lengths: None = None
) -> Question: ...
@overload
def relative_frequencies(states: Iterable[Hashable] | None, lengths: Lengths) -> Query: ...
def relative_frequencies(
    states: Iterable[Hashable] | None = None, lengths: Lengths | None = None
) -> Query | Question:
    """The share of entries in each state; 2/T-Lipschitz with T entries in all.

    T counts the entries that were observed; give the `Series` as ``lengths`` if some were not.

    Examples
    --------
    >>> from pufferkit import Series
    >>> data = Series.of(["rest", "active", "rest", "rest"], ["rest", "active"])
    >>> relative_frequencies(data.states, data).exact(data)
    [Fraction(3, 4), Fraction(1, 4)]
    """
    return _asked(RelativeFrequencies(states), states, lengths)  # type: ignore[arg-type]


@overload
def total(values: Values, lengths: None = None, *, clip: Clip | None = None) -> Question: ...
@overload
def total(values: Values, lengths: Lengths, *, clip: Clip | None = None) -> Query: ...
def total(
    values: Values, lengths: Lengths | None = None, *, clip: Clip | None = None
) -> Query | Question:
    """The sum over entries of the value of each state; Lipschitz constant: the range of the values.

    Parameters
    ----------
    values
        The number of each state, or the numbers of states 0, 1, ... A float counts as the decimal
        it prints as, so 0.1 is one tenth.
    lengths
        The `Series`, the length, or the lengths of segments.
    clip
        A declared range, never taken from the data: values outside count as its ends, which bounds
        how far an entry moves the answer.

    Examples
    --------
    >>> from pufferkit import Series
    >>> data = Series.of(["low", "high", "high"], ["low", "high"])
    >>> total({"low": 0.5, "high": 2}, data).exact(data)
    [Fraction(9, 2)]
    >>> total({"low": 1, "high": 90}, 100, clip=(0, 10)).lipschitz
    9.0
    """
    return _asked(Total(values, clip), None, lengths)


@overload
def mean(values: Values, lengths: None = None, *, clip: Clip | None = None) -> Question: ...
@overload
def mean(values: Values, lengths: Lengths, *, clip: Clip | None = None) -> Query: ...
def mean(
    values: Values, lengths: Lengths | None = None, *, clip: Clip | None = None
) -> Query | Question:
    """The mean over entries of the value of each state; Lipschitz constant: the range over T.

    T counts the entries that were observed; give the `Series` as ``lengths`` if some were not.

    Parameters
    ----------
    values, lengths, clip
        As for `total`.

    Examples
    --------
    >>> from pufferkit import Series
    >>> data = Series.of(["low", "high", "high", "low"], ["low", "high"])
    >>> mean({"low": 0.5, "high": 2}, data).exact(data)
    [Fraction(5, 4)]
    """
    return _asked(Mean(values, clip), None, lengths)


@overload
def variance(values: Values, lengths: None = None, *, clip: Clip) -> Question: ...
@overload
def variance(values: Values, lengths: Lengths, *, clip: Clip) -> Query: ...
def variance(values: Values, lengths: Lengths | None = None, *, clip: Clip) -> Query | Question:
    """The variance of the values: released as mean and mean square, and derived from them.

    An entry moves mean and mean square together by at most 2/T (`Variance`), on the scale on which
    the range is -1 to 1; ``release.derive()`` gives the variance with its interval.

    Parameters
    ----------
    values, lengths
        As for `total`.
    clip
        The declared range of the values.

    Examples
    --------
    >>> variance({"low": 0, "middle": 5, "high": 10}, 100, clip=(0, 10)).lipschitz
    0.02
    """
    return _asked(Variance(values, clip), None, lengths)


@overload
def quantile(share: float, values: Mapping[Any, float], lengths: None = None) -> Question: ...
@overload
def quantile(share: float, values: Mapping[Any, float], lengths: Lengths) -> Query: ...
def quantile(
    share: float, values: Mapping[Any, float], lengths: Lengths | None = None
) -> Query | Question:
    """The level below which a share of the entries lies, chosen with noise; 2-Lipschitz.

    The answer is one of the levels; `Quantile` has the proof. The same level can be read from a
    noisy histogram, with an interval: ``release.derive("quantile", share=0.5, values=...)``.

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
    >>> query = quantile(0.9, {"0 kW": 0, "1 kW": 1, "2 kW": 2}, 1000)
    >>> query.lipschitz, query.labels
    (2.0, ('0 kW', '1 kW', '2 kW'))
    """
    return _asked(Quantile(share, values), None, lengths)


@overload
def linear(
    weights: Mapping[Hashable, Any],
    lengths: None = None,
    *,
    labels: Iterable[str] | None = None,
    name: str = "weighted sum",
    states: Iterable[Hashable] | None = None,
) -> Question: ...
@overload
def linear(
    weights: Mapping[Hashable, Any],
    lengths: Lengths,
    *,
    labels: Iterable[str] | None = None,
    name: str = "weighted sum",
    states: Iterable[Hashable] | None = None,
) -> Query: ...
def linear(
    weights: Mapping[Hashable, Any],
    lengths: Lengths | None = None,
    *,
    labels: Iterable[str] | None = None,
    name: str = "weighted sum",
    states: Iterable[Hashable] | None = None,
) -> Query | Question:
    """The sum over entries of weights that you give each state; any number of coordinates.

    Replacing x by x' at one entry moves the answer by exactly |w(x) - w(x')|_1: there is a bound
    for each pair of states, and `verify` recomputes it from the weights in the record.

    Parameters
    ----------
    weights
        For each state a number, or a row of numbers. States that are left out add nothing. A float
        counts as the decimal it prints as.
    lengths
        The `Series`, the length, or the lengths of segments.
    labels
        Names of the coordinates.
    name
        The name of the query in tables and records.
    states
        All states. If left out, states without weights may occur too.

    Examples
    --------
    >>> energy = linear({"walk": [1, 3.5], "run": [1, 9]}, 100, labels=["active", "energy"])
    >>> energy.lipschitz
    10.0
    """
    made = Linear(weights, labels, name, states)  # type: ignore[arg-type]
    return _asked(made, states, lengths)


@overload
def by_time(
    by: By | Sequence[Hashable],
    states: Iterable[Hashable] | None = None,
    lengths: None = None,
    calendar: Calendar | None = None,
) -> Question: ...
@overload
def by_time(
    by: By | Sequence[Hashable],
    states: Iterable[Hashable] | None,
    lengths: Lengths,
    calendar: Calendar | None = None,
) -> Query: ...
def by_time(
    by: By | Sequence[Hashable],
    states: Iterable[Hashable] | None = None,
    lengths: Lengths | None = None,
    calendar: Calendar | None = None,
) -> Query | Question:
    """How many entries are in each state, for each slot of time; 2-Lipschitz.

    No entry is in two slots, so all slots together cost as much as one histogram: see the
    module `pufferkit.data.queries` for the proof.

    Parameters
    ----------
    by
        ``"hour"`` of the day, ``"weekday and hour"``, ``"day"`` or ``"week"``; or a sequence as
        long as the series that names the slot of every entry, which is public.
    states
        All states.
    lengths
        The `Series`; or lengths, with a ``calendar``.
    calendar
        The times of the entries. If left out, the calendar of the series.

    Examples
    --------
    >>> from pufferkit import Calendar
    >>> when = Calendar("2024-03-04 22:00", every="1h")
    >>> by_time("day", ["rest", "walk"], 4, when).labels
    ('2024-03-04, rest', '2024-03-04, walk', '2024-03-05, rest', '2024-03-05, walk')
    """
    return _asked(ByTime(states, by), states, lengths, calendar)  # type: ignore[arg-type]


@overload
def time_in(
    of: Hashable | Iterable[Hashable],
    lengths: None = None,
    *,
    start: str = "00:00",
    end: str = "12:00",
    calendar: Calendar | None = None,
) -> Question: ...
@overload
def time_in(
    of: Hashable | Iterable[Hashable],
    lengths: Lengths,
    *,
    start: str = "00:00",
    end: str = "12:00",
    calendar: Calendar | None = None,
) -> Query: ...
def time_in(
    of: Hashable | Iterable[Hashable],
    lengths: Lengths | None = None,
    *,
    start: str = "00:00",
    end: str = "12:00",
    calendar: Calendar | None = None,
) -> Query | Question:
    """How many entries between two times of day are in some states; 1-Lipschitz.

    The default is before noon. Replacing the state of an entry moves the number by 1 if exactly one
    of the two states is among ``of`` and the entry lies between the times, and by 0 otherwise: the
    query does not distinguish other states at all.

    Parameters
    ----------
    of
        The state, or several.
    lengths, calendar
        As for `by_time`.
    start, end
        Times of the day like ``"22:00"``; ``end`` is not included and may be past midnight.

    Examples
    --------
    >>> from pufferkit import Calendar, Series
    >>> days = Calendar("2024-01-01 00:00", every="12h")
    >>> data = Series.of(["rest", "run", "rest", "run"], ["rest", "run"])
    >>> time_in("run", 4, start="12:00", end="00:00", calendar=days).exact(data)
    [Fraction(2, 1)]
    """
    return _asked(TimeIn(of, f"{start}-{end}"), None, lengths, calendar)  # type: ignore[arg-type]


@overload
def episodes(of: Hashable | Iterable[Hashable], lengths: None = None) -> Question: ...
@overload
def episodes(of: Hashable | Iterable[Hashable], lengths: Lengths) -> Query: ...
def episodes(of: Hashable | Iterable[Hashable], lengths: Lengths | None = None) -> Query | Question:
    """How often the series enters some states: runs of observed neighbours in them; 1-Lipschitz.

    An entry moves the number by at most 1, and only if exactly one of its two states is among
    ``of``: `Episodes` has the proof.

    Parameters
    ----------
    of
        The state, or several that count as one.
    lengths
        The `Series`, the length, or the lengths of segments. An entry that was not observed ends an
        episode.

    Examples
    --------
    >>> from pufferkit import Series
    >>> data = Series.of(["rest", "run", "run", "rest", "run"], ["rest", "run"])
    >>> episodes("run", data).exact(data)
    [Fraction(2, 1)]
    """
    return _asked(Episodes(of), None, lengths)  # type: ignore[arg-type]


@overload
def stays(of: Hashable | Iterable[Hashable], lengths: None = None) -> Question: ...
@overload
def stays(of: Hashable | Iterable[Hashable], lengths: Lengths) -> Query: ...
def stays(of: Hashable | Iterable[Hashable], lengths: Lengths | None = None) -> Query | Question:
    """Entries in some states, and their episodes; 2-Lipschitz. The ratio is the mean stay.

    An entry that enters or leaves the states moves the first number by 1 and the second by at most
    1 (`episodes`); any other change moves neither. ``release.derive()`` divides the two.

    Parameters
    ----------
    of, lengths
        As for `episodes`.

    Examples
    --------
    >>> from pufferkit import Series
    >>> data = Series.of(["rest", "run", "run", "rest", "run"], ["rest", "run"])
    >>> stays("run", data).name
    'stays in run'
    """
    return _asked(Stays(of), None, lengths)  # type: ignore[arg-type]


@overload
def days_with(
    of: Hashable | Iterable[Hashable],
    at_least: Any,
    lengths: None = None,
    *,
    calendar: Calendar | None = None,
    share: bool = False,
) -> Question: ...
@overload
def days_with(
    of: Hashable | Iterable[Hashable],
    at_least: Any,
    lengths: Lengths,
    *,
    calendar: Calendar | None = None,
    share: bool = False,
) -> Query: ...
def days_with(
    of: Hashable | Iterable[Hashable],
    at_least: Any,
    lengths: Lengths | None = None,
    *,
    calendar: Calendar | None = None,
    share: bool = False,
) -> Query | Question:
    """On how many days at least this much time was spent in some states; 1-Lipschitz.

    Every day adds 0 or 1. An entry lies in one day, so replacing its state moves the number by at
    most 1, and by nothing unless exactly one of the two states is among ``of``: however much
    happens on a day, it counts once.

    Parameters
    ----------
    of
        The state, or several that count together.
    at_least
        A time like ``"30m"``, or a number of entries.
    lengths, calendar
        The `Series`; or lengths, with a calendar. Days are in local time; a day that was recorded
        only in part counts like any other.
    share
        Divide by the number of days, which is public.

    Examples
    --------
    >>> from pufferkit import Calendar, Series
    >>> days = Calendar("2024-01-01 00:00", every="12h")
    >>> data = Series.of(["rest", "run", "rest", "rest"], ["rest", "run"])
    >>> days_with("run", 1, 4, calendar=days).exact(data)
    [Fraction(1, 1)]
    """
    made = DaysWith(of, at_least, bool(share))  # type: ignore[arg-type]
    return _asked(made, None, lengths, calendar)


@overload
def transition_counts(
    states: Iterable[Hashable] | None = None, lengths: None = None
) -> Question: ...
@overload
def transition_counts(states: Iterable[Hashable] | None, lengths: Lengths) -> Query: ...
def transition_counts(
    states: Iterable[Hashable] | None = None, lengths: Lengths | None = None
) -> Query | Question:
    """How often each state is followed by each other state, within segments; row by row.

    A transition is counted between neighbours that were both observed. An entry is part of two, so
    changing it takes away two counts and adds two: 4-Lipschitz, or 2-Lipschitz if no segment has
    more than two entries.

    Examples
    --------
    >>> from pufferkit import Series
    >>> data = Series.of(["rest", "active", "rest", "rest"], ["rest", "active"])
    >>> moves = transition_counts(data.states, data)
    >>> [(label, int(n)) for label, n in zip(moves.labels, moves.exact(data))][:2]
    [('rest to rest', 1), ('rest to active', 1)]
    """
    return _asked(TransitionCounts(states), states, lengths)  # type: ignore[arg-type]
