"""Chains and regions of chains from counts of transitions.

A matrix counted from a series is a fact about that series. Counted from the series to be released
it would itself be a release, and one without noise; count it from public or historical data.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np

from pufferkit import checks
from pufferkit.beliefs.markov_chain import MarkovChain, state_labels
from pufferkit.beliefs.provenance import RARE, Provenance
from pufferkit.beliefs.region_class import RegionClass, count_table, region_around
from pufferkit.data.series import UNOBSERVED, Series
from pufferkit.data.table import Table

Start = Literal["stationary", "first"]


def fit(
    series: Any,
    smoothing: float = 0.0,
    start: Start = "stationary",
    *,
    theta_from_private_data: bool = False,
) -> MarkovChain:
    """The chain whose rows are the shares of transitions in a *public* series.

    Parameters
    ----------
    series
        Public or historical data, never the series to be released: a `Series`, a sequence of
        states, or a sequence of segments; or the `Table` of `read_table`, all subjects together.
    smoothing
        Added to every count before the shares are taken. Above 0, every transition is possible.
    start
        ``"stationary"``: the stationary law of the counted matrix. ``"first"``: the shares of the
        first states of the segments, smoothed in the same way.
    theta_from_private_data
        Say that the data are private all the same. Without it, releasing these data under the
        chain is refused; with it, every artefact says where the chain comes from.

    Raises
    ------
    ValueError
        If a state is never left and nothing is added, so that its row has no law.

    Examples
    --------
    >>> fit(Series.of([[0, 0, 1, 1, 0, 1]])).transition.tolist()
    [[0.3333333333333333, 0.6666666666666666], [0.5, 0.5]]
    """
    added = checks.real("smoothing", smoothing)
    if added < 0:
        raise ValueError(f"smoothing: must be 0 or more, got {added:g}")
    if start not in get_args(Start):
        raise ValueError(f"start: must be 'stationary' or 'first', got {start!r}")
    private = checks.flag("theta_from_private_data", theta_from_private_data)
    if isinstance(series, Table):
        counted = Provenance.of_counts(series.transitions, series.states, private)
        source = replace(counted, smoothing=added)
    else:
        series = series if isinstance(series, Series) else Series.of(series)
        source = Provenance.of_series(series, added, private)
    counts = series.transitions + added
    leaves = counts.sum(axis=1, keepdims=True)
    if (leaves == 0).any():
        stuck = [series.states[x] for x in np.flatnonzero(leaves[:, 0] == 0)]
        raise ValueError(
            f"series: never leaves {_listed(stuck)}, so there is no law of what follows; use "
            "smoothing above 0 (for example 0.5), more data, or fewer states"
        )
    transition = counts / leaves
    if start == "first":
        if isinstance(series, Table):
            raise ValueError(
                "start: a table keeps no first states; leave start out, or give the segments"
            )
        firsts = np.array([s[0] for s in series.segments if s[0] >= 0], dtype=np.intp)
        if not firsts.size and added == 0:
            raise ValueError("start: the first entry of every segment is missing; leave start out")
        initial = np.bincount(firsts, minlength=len(series.states)) + added
        return MarkovChain(initial / initial.sum(), transition, series.states, source)
    try:
        return MarkovChain.steady(transition, series.states, source)
    except ValueError as error:
        raise ValueError(
            f"{error}, use smoothing above 0, or start from the first states"
        ) from None


def around(
    counts: Any,
    confidence: float,
    states: Iterable[Hashable] | None = None,
    theta_from_private_data: bool = False,
) -> RegionClass:
    """The region of `ChainClass.around`."""
    private = checks.flag("theta_from_private_data", theta_from_private_data)
    if isinstance(counts, (Series, Table)):
        if states is not None and tuple(states) != counts.states:
            kind = "series" if isinstance(counts, Series) else "table"
            raise ValueError(
                f"states: the {kind} has its own, {list(counts.states)}; leave states out"
            )
        if isinstance(counts, Series):
            source = Provenance.of_series(counts, private=private)
        else:
            source = Provenance.of_counts(counts.transitions, counts.states, private)
        return region_around(counts.transitions, confidence, counts.states, source)
    table = count_table(counts)
    labels = state_labels(states, len(table))
    return region_around(table, confidence, labels, Provenance.of_counts(table, labels, private))


def rarely_left(series: Series | Table, least: int = RARE) -> dict[Hashable, int]:
    """States left fewer than ``least`` times, whose row of the matrix is guesswork."""
    leaves = series.transitions.sum(axis=1).tolist()
    return {
        state: count for state, count in zip(series.states, leaves, strict=True) if count < least
    }


def impossible_moves(series: Series, chain: MarkovChain) -> dict[tuple[Hashable, Hashable], int]:
    """Moves of a series that a chain gives probability 0, and how often they occur.

    If there are any, the chain says that the series cannot happen, and a promise against those who
    believe in the chain says nothing about it.
    """
    position = {state: x for x, state in enumerate(chain.states)}
    rows = [position[state] for state in series.states]
    counts = np.where(chain.transition[np.ix_(rows, rows)] == 0, series.transitions, 0)
    return {(series.states[x], series.states[y]): int(counts[x, y]) for x, y in np.argwhere(counts)}


def _listed(states: list[Hashable]) -> str:
    return ", ".join(repr(state) for state in states)


def pair_states(series: Any) -> Series:
    """The series of pairs (X_{t-1}, X_t): one step of memory on pairs is two steps on states.

    Each segment loses its first entry, and a pair of which one was not observed is not observed. A
    query about states is a query about the second member of
    the pairs, with the same Lipschitz constant: a count of y is ``total`` with value 1 for every
    pair (x, y). What hides every pair hides every state, because a state is a function of its pair.
    """
    data = series if isinstance(series, Series) else Series.of(series)
    size = len(data.states)
    parts = [
        np.where((s[:-1] >= 0) & (s[1:] >= 0), s[:-1] * size + s[1:], UNOBSERVED)
        for s in data.segments
        if len(s) > 1
    ]
    if not parts:
        raise ValueError("series: pairs need a segment of at least two entries")
    labels = tuple((x, y) for x in data.states for y in data.states)
    lengths = tuple(len(part) for part in parts)
    return Series(np.concatenate(parts), labels, lengths, data.independent_after)


def order_two(
    series: Any, smoothing: float = 0.5, *, theta_from_private_data: bool = False
) -> MarkovChain:
    """The second-order chain of a *public* series, as a first-order chain on pairs of states.

    Parameters
    ----------
    series
        As in `fit`.
    smoothing
        Added to the count of every possible move (x, y) to (y, z); above 0, so that every pair has
        a law of what follows.
    theta_from_private_data
        As in `fit`.
    """
    added = checks.positive("smoothing", smoothing)
    data = series if isinstance(series, Series) else Series.of(series)
    pairs = pair_states(data)
    size = len(data.states)
    ends, begins = np.arange(size * size) % size, np.arange(size * size) // size
    possible = ends[:, None] == begins[None, :]
    counts = pairs.transitions + np.where(possible, added, 0.0)
    private = checks.flag("theta_from_private_data", theta_from_private_data)
    own = Provenance.of_series(data, added, private)
    paired = Provenance.of_series(pairs, added, private)
    source = replace(
        paired,
        digests=(*own.digests, *paired.digests),
        passages=(*own.passages, *paired.passages),
    )
    return MarkovChain.steady(counts / counts.sum(axis=1, keepdims=True), pairs.states, source)
