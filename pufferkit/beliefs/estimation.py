"""Chains from counts of transitions, and what the counts say about chains.

A matrix counted from a series is a fact about that series. Counted from the series to be released
it would itself be a release, and one without noise; count it from public or historical data.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Any

import numpy as np

from pufferkit import checks
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.beliefs.provenance import RARE, Provenance
from pufferkit.data.series import UNOBSERVED, Series
from pufferkit.data.table import Table

fit = MarkovChain.fit


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
        a distribution of what follows.
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
