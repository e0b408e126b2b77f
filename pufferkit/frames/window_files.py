"""The rows of one window of a stream from a file, and how to treat late rows.

The file of a daily job holds the rows that arrived since the last run. Most belong to the window;
some may be older, from a window that was already released.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from pufferkit.data.calendar import Calendar, microseconds
from pufferkit.data.durations import MONDAY, ticks
from pufferkit.data.series import UNOBSERVED, Series
from pufferkit.frames import raw_files
from pufferkit.frames.raw_files import TextFormat
from pufferkit.frames.row_times import NO_TIME, _times, nothing_in
from pufferkit.frames.series_files import columns_of, state_labels

Late = Literal["refuse", "leave out"]
"""How to treat rows before the window: raise, or leave them out. They are not counted in a later
window, because it could not be checked whether an earlier window used them."""


def read_window(
    path: str | Path,
    state: str,
    time: str,
    window: tuple[datetime, datetime],
    *,
    states: Iterable[Hashable],
    late: Late = "refuse",
    every: Any = None,
    text: TextFormat | None = None,
) -> tuple[Series, int]:
    """The rows of a window in the order of their times, and how many rows were before it.

    Rows are the entries, unless ``every`` puts them on a grid. A window pays only for its own rows.

    Parameters
    ----------
    path
        A text or Parquet file.
    state, time
        Columns with the state and the time of each row.
    window
        Start, and end (excluded).
    states
        All states that can occur.
    late
        How to treat rows before the window. Rows after it are refused, or left out with
        ``"leave out"``: they belong to a later window.
    every
        Put the entries on a grid of this step: the first reading in each slot counts.
    text
        Format of a text file, where it must not be detected.
    """
    if late not in get_args(Late):
        raise ValueError(f"late: must be one of {', '.join(get_args(Late))}, got {late!r}")
    table = raw_files.opened(path, text)
    columns = columns_of(table, {"state": state}, (time,))
    moments = _moments(table.name, columns["time"])
    labels = state_labels(columns["state"], tuple(states))
    begin, end = (_plain("window", 0, own) for own in window)
    if len({own.tzinfo is None for own in (begin, end, moments[0])}) > 1:
        raise ValueError("window: the times of the file or of the window lack a time zone")
    order = sorted(range(len(moments)), key=moments.__getitem__)
    for one, other in pairwise(order):
        if moments[one] == moments[other]:
            raise ValueError(f"{table.name}: rows {one + 1} and {other + 1} have the same time")
    before = [n for n in order if moments[n] < begin]
    inside = [n for n in order if begin <= moments[n] < end]
    after = len(order) - len(before) - len(inside)
    if late != "leave out":
        if after:
            raise ValueError(
                f"{table.name}: {after} rows are after the window; they belong to a later one. "
                "Leave them out (late='leave out', --late 'leave out') if they will come again"
            )
        if before and late == "refuse":
            raise ValueError(
                f"{table.name}: {len(before)} rows are before the window, the first at "
                f"{moments[before[0]]}; they arrived late, and this window does not pay for them. "
                "Leave them out (late='leave out', --late 'leave out')"
            )
    if not inside:
        raise ValueError(f"{table.name}: no row is in the window")
    rows = Series.of([labels[n] for n in inside], states)
    if every is not None:
        return _on_grid(rows, [moments[n] for n in inside], every), len(before)
    axis = "time" if begin.tzinfo is None else "instants"
    between = (axis, microseconds(moments[inside[0]]), microseconds(moments[inside[-1]]))
    return replace(rows, between=between), len(before)


def _on_grid(rows: Series, moments: list[datetime], every: Any) -> Series:
    """The first reading in each slot of a grid that is counted from Monday at midnight."""
    step = int(ticks("every", every, of_time=True))
    slots = np.array([(microseconds(moment) - MONDAY) // step for moment in moments])[rows.observed]
    taken, first = np.unique(slots, return_index=True)
    codes = np.full(int(taken[-1] - taken[0]) + 1, UNOBSERVED, dtype=np.intp)
    codes[taken - taken[0]] = rows.codes[rows.observed][first]
    start, zone = int(taken[0]) * step + MONDAY, None if moments[0].tzinfo is None else "UTC"
    return Series(codes, rows.states, (len(codes),), calendar=Calendar(start, step, zone))


def _moments(file: str, cells: list[Any]) -> list[datetime]:
    for row, cell in enumerate(cells, 1):
        if nothing_in(cell):
            raise ValueError(f"{file}: row {row} has {NO_TIME}")
    return [_plain(file, row, own) for row, own in enumerate(_times(file, cells), 1)]


def _plain(file: str, row: int, moment: Any) -> datetime:
    if not isinstance(moment, datetime):
        raise ValueError(f"{file}: row {row} has time {moment!r}; a window needs dates and times")
    return moment if moment.tzinfo is None else moment.astimezone(UTC)
