"""Shares of the transitions in a series, from which a chain is fitted."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from pufferkit import checks
from pufferkit.beliefs.provenance import Provenance
from pufferkit.checks import Floats
from pufferkit.data.series import Series
from pufferkit.data.table import Table

Start = Literal["stationary", "first"]


@dataclass(frozen=True, eq=False)
class Shares:
    """Shares of the transitions out of every state and, if requested, of the first states."""

    transition: Floats
    initial: Floats | None
    states: tuple[Hashable, ...]
    source: Provenance


def shares(series: Any, smoothing: float, start: Start, private: bool) -> Shares:
    """The shares of transitions in a series or a table; see `MarkovChain.fit`."""
    added = checks.real("smoothing", smoothing)
    if added < 0:
        raise ValueError(f"smoothing: must be 0 or more, got {added:g}")
    if start not in get_args(Start):
        raise ValueError(f"start: must be 'stationary' or 'first', got {start!r}")
    private = checks.flag("theta_from_private_data", private)
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
            f"series: never leaves {', '.join(repr(state) for state in stuck)}, so the data do not "
            "show what follows; use smoothing above 0 (for example 0.5), more data, or fewer states"
        )
    initial = _first_states(series, added) if start == "first" else None
    return Shares(counts / leaves, initial, series.states, source)


def _first_states(series: Series | Table, added: float) -> Floats:
    if isinstance(series, Table):
        raise ValueError(
            "start: a table does not hold the first states; leave start out, or give the segments"
        )
    firsts = np.array([s[0] for s in series.segments if s[0] >= 0], dtype=np.intp)
    if not firsts.size and added == 0:
        raise ValueError("start: the first entry of every segment is missing; leave start out")
    counts = np.bincount(firsts, minlength=len(series.states)) + added
    initial: Floats = counts / counts.sum()
    return initial
