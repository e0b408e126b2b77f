"""The spending of a history of releases on each entry, for tables and figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pufferkit import checks
from pufferkit.accounting.composition import spent_runs
from pufferkit.accounting.spending import Spending
from pufferkit.accounting.spent import curve_of
from pufferkit.beliefs.base import as_beliefs
from pufferkit.errors import NotApplicable, NoTheorem

MOST_ENTRIES = 5000
"""For longer segments only the largest loss is given."""


def entry_rows(
    history: Sequence[Spending], beliefs: Any, lengths: int | Sequence[int]
) -> list[dict[str, Any]]:
    """Runs of entries, with the spending of all releases together on each entry.

    ``event_epsilon`` is the event-level epsilon of the entry: the sum over the releases that used
    it, for the two values that they distinguish best. ``epsilon`` is the Pufferfish loss of the
    entry under that profile, by the influence curve: what all releases reveal about it, also
    through its neighbours. The largest over all entries is what `entry_profile` charges. In
    segments of more than `MOST_ENTRIES` entries every run has the largest loss of the segment.

    Raises
    ------
    NoTheorem
        For releases without a per-entry bound.
    """
    unknown = sorted({s.mechanism for s in history if s.entry_epsilon is None})
    if unknown:
        raise NoTheorem(f"{', '.join(unknown)} gives no per-entry bound")
    theta, sizes = as_beliefs(beliefs), checks.segment_lengths(lengths)
    if theta.entries is not None:
        raise NotApplicable(f"profiles over time are for chains, not for a {theta.description}")
    rows: list[dict[str, Any]] = []
    start = 0
    for size in sizes:
        runs = spent_runs(history, theta.states, start + 1, start + size)
        spent = np.repeat([float(run.cost.max()) for run in runs], [run.count for run in runs])
        curve = curve_of(theta, size)
        if size <= MOST_ENTRIES and spent.any():
            losses = np.max(list(curve.entry_losses(runs).values()), axis=0)
        else:
            losses = np.full(size, curve.epsilon(runs))
        changes = np.flatnonzero((np.diff(spent) != 0) | (np.diff(losses) != 0)) + 1
        for first, after in zip([0, *changes], [*changes, size], strict=True):
            rows.append(
                {
                    "first": start + int(first) + 1,
                    "last": start + int(after),
                    "event_epsilon": float(spent[first]),
                    "epsilon": float(losses[first]),
                }
            )
        start += size
    return rows
