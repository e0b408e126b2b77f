"""A period of the calendar, cut out of a table."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from pufferkit.accounting.asked_window import Period
from pufferkit.data.exact_rows import Rows
from pufferkit.data.table import Table
from pufferkit.errors import NotApplicable


def rows_in(rows: Rows, table: Table, period: Period) -> Rows:
    """The rows of a table with windows that lie in a period, whole."""
    windows = table.windows
    assert windows is not None
    if not windows.of_time or windows.repeats is not None or period.instants:
        raise ValueError(
            f"window: {period.name} applies to windows of local time that follow one another"
        )
    starts = rows.window * windows.width + windows.origin
    own = (starts >= period.begin) & (starts + windows.width <= period.end)
    if not own.any():
        raise ValueError(f"window: no window of the table lies in {period.name}")
    kept: dict[str, Any] = {}
    for name in rows.__dataclass_fields__:
        array = getattr(rows, name)
        kept[name] = array if array is None else array[own]
    return Rows(**kept)


def cut(table: Table, period: Period) -> Table:
    """The entries of a table, read without windows, that lie in a period; others have none."""
    calendar = table.calendar
    if table.codes is None or calendar is None:
        raise NotApplicable(
            f"window: which rows are in {period.name} is not known, because this table holds only "
            "counts or its times are uneven; read the rows of the period, put times on a grid with "
            "every=, or read the table with windows: read(..., window='1d')"
        )
    spans = table.segment_lengths
    when = calendar.instants(spans) if period.instants else calendar.times(spans)
    inside = (when >= period.begin) & (when < period.end) & (table.codes >= 0)
    owners = np.repeat(np.arange(len(table.subjects)), [len(own) for own in table.lengths])
    kept = list[tuple[int, int, int, int]]()
    for number, end in enumerate(np.cumsum(spans).tolist()):
        begin = end - int(spans[number])
        own = np.flatnonzero(inside[begin:end]) + begin
        if own.size:
            kept.append((int(owners[number]), number, int(own[0]), int(own[-1]) + 1))
    if not kept:
        raise ValueError(f"window: no subject has entries in {period.name}")
    people = sorted({owner for owner, _, _, _ in kept})
    place = {owner: at for at, owner in enumerate(people)}
    parts = [table.codes[low:high] for _, _, low, high in kept]
    size = len(table.states)
    owner = np.array([place[own] for own, _, _, _ in kept])
    before = np.flatnonzero(np.append(True, np.diff(owner) != 0))
    segment = np.arange(len(kept)) - np.repeat(before, np.diff(np.append(before, len(kept))))
    moves = np.zeros((size, size), dtype=np.int64)
    for codes in parts:
        seen = (codes[:-1] >= 0) & (codes[1:] >= 0)
        np.add.at(moves, (codes[:-1][seen], codes[1:][seen]), 1)
    lengths = np.array([len(codes) for codes in parts])
    starts = tuple(
        int(table.starts[number] + (low - int(np.sum(spans[:number]))) * table.every)  # type: ignore[index, operator]
        for _, number, low, _ in kept
    )
    return replace(
        table,
        subjects=tuple(table.subjects[own] for own in people),
        owner=owner,
        segment=segment,
        window=np.zeros(len(kept), dtype=np.int64),
        pieces=np.array([np.bincount(codes[codes >= 0], minlength=size) for codes in parts]),
        transitions=moves,
        begins=tuple(starts[at] for at in before.tolist()),
        first=np.zeros(len(kept), dtype=np.int64),
        last=lengths - 1,
        spans=lengths,
        codes=np.concatenate(parts),
        starts=starts,
    )
