"""Chains from counts of transitions, and the evidence of the counts about chains.

A matrix counted from a series is information about that series. Counted from the series to be
released, it would itself be a release without noise; count it from public or historical data.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.beliefs.provenance import RARE
from pufferkit.data.series import Series
from pufferkit.data.table import Table

fit = MarkovChain.fit


def rarely_left(series: Series | Table, least: int = RARE) -> dict[Hashable, int]:
    """States left fewer than ``least`` times, whose row of the matrix is unreliable."""
    leaves = series.transitions.sum(axis=1).tolist()
    return {
        state: count for state, count in zip(series.states, leaves, strict=True) if count < least
    }


def impossible_moves(series: Series, chain: MarkovChain) -> dict[tuple[Hashable, Hashable], int]:
    """Transitions of a series to which a chain gives probability 0, and how often they occur.

    If there are any, the series is impossible under the chain, and a guarantee against adversaries
    who believe in the chain does not cover it.
    """
    position = {state: x for x, state in enumerate(chain.states)}
    rows = [position[state] for state in series.states]
    counts = np.where(chain.transition[np.ix_(rows, rows)] == 0, series.transitions, 0)
    return {(series.states[x], series.states[y]): int(counts[x, y]) for x, y in np.argwhere(counts)}
