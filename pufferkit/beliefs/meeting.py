"""Where data meet beliefs: data that the beliefs are not about are refused, before any noise.

Beliefs are about entries some time apart. A chain of five minutes says nothing about entries of one
minute, which predict one another far better: under it the noise would be too small. So data with
another step are refused, and where either has no clock the author of a release answers for it. The
same holds for the phase of a clock.
"""

from __future__ import annotations

from math import isclose

from pufferkit.beliefs.base import Beliefs
from pufferkit.beliefs.provenance import check_not_counted_from, check_not_fitted_on
from pufferkit.data.durations import of_seconds
from pufferkit.data.series import Series
from pufferkit.data.table import Table


def check_series(beliefs: Beliefs, series: Series) -> None:
    """Refuse a series with another step or phase than the beliefs, and one they were fitted on."""
    check_step(beliefs.step, series.step, uneven=series.between is not None)
    beliefs.check_clock(series.calendar, series.lengths)
    check_not_fitted_on(beliefs.sources, series)


def check_table(beliefs: Beliefs, table: Table) -> None:
    """Refuse a table with another step or phase than the beliefs, and one they were fitted on."""
    check_step(beliefs.step, table.step, uneven=table.of_time and not table.is_regular)
    beliefs.check_clock(table.calendar, table.segment_lengths.tolist())
    check_not_counted_from(beliefs.sources, table.transitions, table.states)


def same_step(believed: float | None, step: float | None) -> bool:
    """Whether these steps can be one, in seconds; an unknown one can be any."""
    return believed is None or step is None or isclose(believed, step, rel_tol=1e-9)


def check_step(believed: float | None, step: float | None, *, uneven: bool = False) -> None:
    """Refuse data whose entries are not as far apart as those of the beliefs."""
    if believed is None or (same_step(believed, step) and not uneven):
        return
    grid = of_seconds(believed)
    apart = "unevenly spaced" if step is None else f"{of_seconds(step)} apart"
    again = "an even step" if step is None else of_seconds(step)
    raise ValueError(
        f"data: entries are {apart}, but the beliefs are about entries {grid} apart, so their "
        f"noise is not for these data; fit the beliefs at {again}, or put the data on the grid of "
        f"the beliefs (every={grid!r}, --every {grid})"
    )


def step_assumed(believed: float | None, step: float | None) -> str | None:
    """What is taken on trust about the time between entries; ``None`` if both are known."""
    if believed is not None and step is not None:
        return None
    if believed is None and step is None:
        return "neither beliefs nor data say how far apart entries are"
    if believed is None:
        return f"entries are {of_seconds(step)} apart, but the beliefs do not say theirs"
    return f"the beliefs are about entries {of_seconds(believed)} apart, but the data have no clock"
