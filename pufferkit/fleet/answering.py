"""From the counts of a table to exact rows, and from noisy rows to `Releases`."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pufferkit.beliefs.base import check_table
from pufferkit.beliefs.provenance import check_paid
from pufferkit.checks import Floats
from pufferkit.data.exact_rows import Rows, RowsAndQuery, exact_rows, whole_series
from pufferkit.data.queries import Histogram
from pufferkit.data.query import Query, Question
from pufferkit.data.table import Counts, Table
from pufferkit.fleet.groups import Groups
from pufferkit.fleet.releases import Releases
from pufferkit.fleet.subject_run import FleetRun
from pufferkit.mechanisms.calibration import Calibration
from pufferkit.mechanisms.changed_queries import over
from pufferkit.mechanisms.usefulness import warn_if_drowned
from pufferkit.noise import Family


def asked_of(table: Table, run: FleetRun) -> RowsAndQuery:
    """The question about a table; refused for beliefs that are not about it, or bought."""
    check_paid(run.beliefs.sources)
    check_table(run.beliefs, table)
    return exact_rows(table, run.question, run.beliefs.states)


def rows_used(sizes: Table, question: Question) -> Rows:
    """The same rows without answers, from a table of sizes: the entries that each row uses."""
    if question.counting:
        return Rows.of(sizes, sizes.pieces)
    return whole_series(sizes, sizes.totals[:, None], None)


def summed_up(asked: Rows, grouped: Groups | None) -> Rows:
    """The rows of all subjects, or of each group, added up window by window."""
    windows, place = np.unique(asked.window, return_inverse=True)
    if grouped is not None:
        place = grouped.place[asked.owner] * len(windows) + place
        windows = np.tile(windows, len(grouped.keys))

    def summed(rows: Counts) -> Counts:
        sums = np.zeros((len(windows), *rows.shape[1:]), dtype=np.int64)
        np.add.at(sums, place, rows)
        return sums

    observed = None if asked.observed is None else summed(asked.observed)
    days = None if asked.days is None else summed(asked.days)
    nobody = np.zeros(len(windows), dtype=np.int64)
    counts, seen = summed(asked.counts), summed(asked.entries)
    return Rows(nobody, windows, counts, nobody, nobody, observed, seen, days)


def noisy_sums(sums: Counts, run: FleetRun, scale: float) -> tuple[Floats, Floats]:
    """Noise on the sums of all subjects."""
    wanted = np.full(len(sums), scale)
    return run.draw(sums, wanted), wanted


def warn_if_rows_drown(
    run: FleetRun, rows: Rows, made: Sequence[Calibration], anyway: bool
) -> None:
    """Warn if noise drowns the row of median size; ``made`` has the calibration of each row."""
    if anyway or not rows.entries.any():
        return
    seen = np.flatnonzero(rows.entries)
    row = int(seen[np.argsort(rows.entries[seen], kind="stable")[len(seen) // 2]])
    entries = int(rows.entries[row])
    noise = _noise_of_row(run, rows, made[row], row)
    warn_if_drowned(noise, anyway=anyway, rows=f" (a row of {entries:,} entries)", stacklevel=5)


def _noise_of_row(run: FleetRun, rows: Rows, made: Calibration, row: int) -> Calibration:
    """The noise on one row as a calibration of its own, in the units of its answer."""
    states, entries = run.beliefs.states, int(rows.entries[row])
    if rows.observed is not None:  # as in one slot of average size
        slot = max(1, round(entries / len(rows.observed[row])))
        query = Histogram().bind(states, slot)
    elif run.question.clocked:
        return made  # the range of its answer is not known
    else:
        query, span = run.released.bind(states, entries), made.query.longest
        if run.of_states and entries < span:  # for remedies: their noise is that of the span
            query = over(query, [span], [entries])
    if query.bounds is None and not query.chooses:
        return made
    per = rows.per(run.per)
    size = made.scale * float(run.unit) / (1 if per is None else int(per[row]))
    return replace(made, scale=size, scales=None, query=query)


def shared(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record of a question, without what is true of one subject only."""
    return {
        key: record[key] for key in record if key not in ("calendar", "gaps", "observed", "days")
    }


def releases_of(
    run: FleetRun,
    subjects: tuple[Hashable, ...] | None,
    asked: Rows,
    values: Floats,
    scales: Floats,
    calibrations: dict[int, Calibration],
    query: Query,
) -> Releases:
    """The draws, with what a reader needs to judge them."""
    entries = asked.entries.copy()
    if run.question.counting:
        query = run.released.about(run.one_entry)
    family: Family = "noisy choice" if run.chooses else "discrete laplace"
    per = asked.per(run.per)
    values, scales = run.answers(values, scales, per)
    for array in (values, scales, entries):
        array.setflags(write=False)
    drawn = Releases(
        subjects=subjects,
        windows=asked.window if run.windows is not None else None,
        value=values,
        raw=values,
        scale=scales,
        entries=entries,
        labels=(run.query,) if run.chooses else query.labels,
        query=run.query,
        mechanism=run.mechanism,
        epsilon=run.epsilon,
        guarantee=next(iter(calibrations.values())).guarantee,
        cut=run.windows,
        calibrations=calibrations,
        noise=family,
        kind=query.kind,
        question=shared(query.question or {}),
        observed=asked.observed,
        days=asked.days,
        asked=run.question,
    )
    return drawn if drawn.totals is None else drawn.as_histogram()
