"""One series from a file.

A table becomes a `Series` here or is refused here: later code never sees a timestamp or a column
name. Rows are counted from 1, without the header.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pufferkit.data.bins import Bins, as_bins
from pufferkit.data.series import Series
from pufferkit.frames import raw_files
from pufferkit.frames.aggregate import STATE, SUBJECT, TIME
from pufferkit.frames.quick_rows import quick_series
from pufferkit.frames.raw_files import TextFormat
from pufferkit.frames.raw_times import Clock, Policy, applied, time_columns
from pufferkit.frames.row_times import (
    NO_TIME,
    calendar_of,
    ends_of,
    exact_ticks,
    first_in_slots,
    increasing,
    nothing_in,
    places_of,
    split_after,
)

if TYPE_CHECKING:
    import polars as pl


def read_series(
    path: str | Path,
    state: str,
    *,
    time: str | Sequence[str] | None = None,
    segment: str | None = None,
    states: Iterable[Hashable] | None = None,
    independent_after: Any = None,
    bins: Bins | Sequence[float] | None = None,
    every: Any = None,
    text: TextFormat | None = None,
    timezone: str | None = None,
    times_in: str | None = None,
    repeated_hour: Policy = "refuse",
) -> Series:
    """One subject's series from a text or Parquet file, rows in time order.

    Correlation persists across a gap. A row without a state is an entry that was not observed. If
    the times are those of a clock (see `read_table`), a gap of g steps is g - 1 such entries. If
    there is no clock, the rows are the entries.

    Parameters
    ----------
    path
        A text file in UTF-8, also compressed with gzip (``"-"``: standard input), or a
        ``.parquet`` file. The separator and the header are detected; ``Series.read_as`` reports
        them where they are not commas and one header line.
    state
        Column with the state of each entry, or with numbers if ``bins`` are given.
    time
        Column with the time of each entry: numbers, dates or timestamps; two columns as a pair. It
        must increase strictly within a segment. A warning reports where almost evenly spaced times
        have gaps that are not counted. If left out, the order of the rows is trusted.
    segment
        Column with the independent segment of each entry; rows of a segment are contiguous.
    states
        All states that can occur, or labels for the bins. Text in the file then stands for the
        declared state that prints like it, so ``1`` in a CSV is the integer state 1. If left out,
        the states are those that occur: integers if all are integers, otherwise text.
    independent_after
        Declare that rows further apart than this are independent: they start a new segment. A
        number, or for timestamps text like ``"3h"`` or a ``timedelta``. Needs ``time``. It is an
        assumption about the world, and every release records it.
    bins
        `Bins`, or their cut points. They must not come from the private data.
    every
        Put the entries on a grid of this step: the first reading in each slot counts. Needs
        ``time``.
    text
        Format of a text file, where it must not be detected.
    timezone, times_in, repeated_hour
        The clock of the times, and how to treat the hour that occurs twice when clocks go back; see
        `Clock`.

    Raises
    ------
    ValueError
        If the file, a column or a row is not as described; the message names the row.
    OSError
        If the file cannot be opened.

    Examples
    --------
    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "meter.txt")
    >>> with open(path, "w") as file:
    ...     print("Date;Time;kW", file=file)
    ...     print("16/12/2006;17:24:00;4.2", file=file)
    ...     print("16/12/2006;17:25:00;0.3", file=file)
    >>> from pufferkit import Bins
    >>> read_series(path, "kW", time=("Date", "Time"), bins=Bins([1, 3], unit="kW")).labels
    ['3 kW and more', 'below 1 kW']
    """
    if hasattr(path, "columns"):
        raise ValueError(
            "path: this is a table, not a file; read it with read_table, or pass its column of "
            "states to Series.of or directly to release, one column for each segment"
        )
    clock = Clock(timezone, times_in, repeated_hour)
    names = time_columns(time)
    if every is not None and not names:
        raise ValueError("every: needs times to put on a grid; name their column with time=")
    if not clock.is_plain and not names:
        raise ValueError("timezone and repeated_hour: need times; name their column with time=")
    wanted = {"state": state, "segment": segment}
    there = {role: name for role, name in wanted.items() if name is not None}
    cut = None if bins is None else as_bins(bins)
    table = raw_files.opened(path, text)
    declared = None if states is None else tuple(states)
    chosen = _chosen(table, there, names, numeric=cut is not None)
    plain = segment is None and cut is None and every is None and independent_after is None
    if plain and clock.is_plain and len(names) < 2:
        when_read = chosen.rows[names[0]] if names else None
        quick = quick_series(chosen.rows[state], when_read, declared, state_labels)
        if quick is not None:
            return replace(quick, read_as=chosen.notes)
    columns, notes = _cells(chosen, there, names, clock)
    file, cells = table.name, columns["state"]
    lengths = _segment_lengths(file, columns.get("segment"), len(cells))
    if cut is not None:
        declared = cut.named(declared)
        cells = [None if cell is None else declared[cut.level(cell)] for cell in cells]
    times, declared_after = None, None
    if "time" in columns:
        times = increasing(file, columns["time"], lengths)
    step = None
    if every is not None and times is not None:
        step = exact_ticks("every", every, times)
        times, cells, lengths = first_in_slots(file, times, cells, lengths, step)
    if independent_after is not None:
        lengths, declared_after = split_after(file, times, lengths, independent_after)
    places = None if times is None else places_of(file, times, lengths, step)
    labels = _observed_labels(cells, declared)
    pieces = _placed(labels, lengths, places)
    try:
        series = Series.of(pieces, declared)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None
    when = None if places is None else calendar_of(times or (), lengths, step, timezone)
    uneven = ends_of(times) if times and places is None and max(lengths) > 1 else None
    series = replace(series, between=uneven, calendar=when)
    return replace(series, independent_after=declared_after, read_as=notes)


def read_record(
    path: str | Path,
    entry: str,
    state: str,
    names: Sequence[Hashable],
    states: Iterable[Hashable] | None = None,
) -> Series:
    """One value for each named entry, from a file with a row for each, in the order of ``names``.

    Parameters
    ----------
    path
        A ``.csv`` or ``.parquet`` file.
    entry, state
        Columns with the name of the entry and its value.
    names
        The required entries, each once.
    states
        All values that can occur.
    """
    table = raw_files.opened(path)
    file, columns = table.name, columns_of(table, {"entry": entry, "state": state})
    for row, cell in enumerate(columns["state"], 1):
        if nothing_in(cell):
            raise ValueError(f"{file}: row {row} has no state; the model needs one for each entry")
    record: dict[str, Any] = {}
    for row, (name, cell) in enumerate(zip(columns["entry"], columns["state"], strict=True), 1):
        if str(name) in record:
            raise ValueError(f"{file}: row {row}: entry {name!r} occurs twice")
        record[str(name)] = cell
    missing = [str(name) for name in names if str(name) not in record]
    extra = sorted(set(record) - {str(name) for name in names})
    if missing or extra:
        raise ValueError(
            f"{file}: needs one row for each entry of the model; missing {missing}, unknown {extra}"
        )
    known = None if states is None else tuple(states)
    return Series.of(state_labels([record[str(name)] for name in names], known), known)


def states_from_text(names: Iterable[str]) -> list[Hashable]:
    """Names of states as labels: integers if all are integers, as in a file."""
    return state_labels([name.strip() for name in names], None)


@dataclass(frozen=True, eq=False)
class _Chosen:
    """The columns that are read, the table of them alone, and what was detected about them."""

    rows: pl.DataFrame
    table: raw_files.Opened
    notes: tuple[str, ...]


def _chosen(
    table: raw_files.Opened,
    wanted: dict[str, str],
    time: Sequence[str] = (),
    *,
    numeric: bool = False,
) -> _Chosen:
    """The wanted columns, of which those of text are text, but for numbers to be cut."""
    import polars as pl  # noqa: PLC0415

    kind = "CSV" if table.is_text else "Parquet"
    if table.several:
        raise ValueError(
            f"{table.name}: several files mean several subjects; read them with read_table, or "
            "release-each"
        )
    try:
        schema = table.lazy.collect_schema()
        roles = [*wanted.items(), *(("time", name) for name in time)]
        raw_files.check_columns(table.name, schema.names(), roles)
        for role, name in roles:
            if schema[name].is_nested():
                raise ValueError(
                    f"{table.name}: column {name!r} holds lists or records, not one {role}"
                )
        rows = table.lazy.collect().select(list(dict.fromkeys(name for _, name in roles)))
        rows = rows.with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String))
        notes = table.notes
        read = replace(table, lazy=rows.lazy())
        if table.is_text and numeric:
            number, said = raw_files.as_numbers(read, wanted["state"])
            rows, notes = rows.with_columns(number.alias(wanted["state"])), (*notes, *said)
        elif table.is_text and table.form.missing:
            seen = ~pl.col(wanted["state"]).is_in(table.form.missing)
            own = pl.col(wanted["state"])
            rows = rows.with_columns(pl.when(seen).then(own).alias(wanted["state"]))
    except pl.exceptions.NoDataError:
        raise ValueError(f"{table.name}: is empty") from None
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise raw_files.unreadable(table.name, kind, error) from None
    if rows.height == 0:
        raise ValueError(f"{table.name}: has a header but no rows")
    if numeric and not rows.schema[wanted["state"]].is_numeric():
        raise ValueError(f"{table.name}: bins need numbers, but {wanted['state']!r} holds none")
    return _Chosen(rows, read, notes)


def columns_of(
    table: raw_files.Opened, wanted: dict[str, str], time: Sequence[str] = ()
) -> dict[str, list[Any]]:
    """The wanted columns as lists, by their role."""
    return _cells(_chosen(table, wanted, time), wanted, time)[0]


def _cells(
    chosen: _Chosen, wanted: dict[str, str], time: Sequence[str] = (), clock: Clock | None = None
) -> tuple[dict[str, list[Any]], tuple[str, ...]]:
    """The wanted columns as lists, by their role, and what was detected about them."""
    rows, notes = chosen.rows, chosen.notes
    cells = {role: rows[name].to_list() for role, name in wanted.items()}
    if time:
        plain = len(time) == 1 and (clock is None or clock.is_plain)
        if plain and not (chosen.table.is_text and _is_calendar(rows[time[0]])):
            cells["time"] = rows[time[0]].to_list()
        else:
            moments, said = _moments(chosen.table, time, wanted, clock or Clock())
            cells["time"], notes = moments["time"], (*notes, *said)
            cells["state"] = [
                cell if kept else None
                for cell, kept in zip(cells["state"], moments["kept"], strict=True)
            ]
    return cells, notes


def _is_calendar(cells: Any) -> bool:
    """Whether times are written like 16/12/2006, which takes the whole column to interpret."""
    first = (cells[0] or "").strip()
    return re.match(r"\d{1,4}([/.])\d{1,2}\1\d{1,4}|\d{1,2}-\d{1,2}-\d{4}", first) is not None


def _moments(
    table: raw_files.Opened, time: Sequence[str], wanted: dict[str, str], clock: Clock
) -> tuple[dict[str, list[Any]], tuple[str, ...]]:
    """Times that are more than a number or an ISO timestamp, and which rows are still used."""
    import polars as pl  # noqa: PLC0415

    from pufferkit.frames import table_sources  # noqa: PLC0415

    lazy, notes = table_sources.with_times(table, time)
    rows = lazy.collect()
    own = rows[" ".join(time)]
    lost = own.is_null()
    if lost.any():
        row = int(lost.arg_true()[0])
        text = " ".join(str(table.lazy.collect()[name][row] or "") for name in time).strip()
        raise ValueError(
            f"{table.name}: row {row + 1} has "
            + (f"time {text!r}, unlike row 1; write all times in the same way" if text else NO_TIME)
        )
    if not own.dtype.is_temporal():
        raise ValueError(f"{table.name}: timezone and repeated_hour: the times are numbers")
    aware = isinstance(own.dtype, pl.Datetime) and own.dtype.time_zone is not None
    inner = rows.select(
        (pl.col(wanted["segment"]) if "segment" in wanted else pl.lit("")).alias(SUBJECT),
        own.dt.timestamp("us").alias(TIME),
        pl.lit(True).alias(STATE),
    )
    placed, said = applied(table.name, inner, aware, clock)
    epoch = datetime(1970, 1, 1)
    times = [epoch + timedelta(microseconds=tick) for tick in placed[TIME].to_list()]
    kept = [cell is not None for cell in placed[STATE].to_list()]
    return {"time": times, "kept": kept}, (*notes, *said)


def _observed_labels(
    cells: Sequence[Any], declared: tuple[Hashable, ...] | None
) -> list[Hashable | None]:
    """Cells as state labels; ``None`` for empty cells."""
    present = iter(state_labels([cell for cell in cells if not nothing_in(cell)], declared))
    return [None if nothing_in(cell) else next(present) for cell in cells]


def _placed(
    labels: Sequence[Hashable | None], lengths: Sequence[int], places: Sequence[int] | None
) -> list[Sequence[Hashable | None]]:
    """Labels by segments, those of a clock at their places, with nothing between them."""
    pieces, start = [], 0
    for length in lengths:
        piece = labels[start : start + length]
        if places is not None:
            filled: list[Hashable | None] = [None] * (places[start + length - 1] + 1)
            for place, label in zip(places[start : start + length], piece, strict=True):
                filled[place] = label
            piece = filled
        pieces.append(piece)
        start += length
    return pieces


def _segment_lengths(file: str, segments: Sequence[Any] | None, rows: int) -> list[int]:
    if segments is None:
        return [rows]
    seen: set[Hashable] = set()
    lengths: list[int] = []
    row = 1
    for value, run in groupby(segments):
        if nothing_in(value):
            raise ValueError(f"{file}: row {row} has no segment; every entry belongs to one")
        if value in seen:
            raise ValueError(
                f"{file}: row {row} returns to segment {value!r} after another one; "
                "sort the rows by segment, then by time"
            )
        seen.add(value)
        lengths.append(sum(1 for _ in run))
        row += lengths[-1]
    return lengths


def state_labels(cells: Sequence[Any], states: tuple[Hashable, ...] | None) -> list[Hashable]:
    """Cells as state labels, by the types of the declared states."""
    wholes = {cell: _whole(cell) for cell in set(cells)}
    if states is None:
        return list(cells) if None in wholes.values() else [wholes[cell] for cell in cells]
    exact, printed = set(states), {str(label): label for label in states}
    integers = {label for label in states if isinstance(label, int)}

    def meaning(cell: Hashable) -> Hashable:
        if cell in exact:
            return cell
        return wholes[cell] if wholes[cell] in integers else printed.get(str(cell), cell)

    meanings = {cell: meaning(cell) for cell in wholes}
    return [meanings[cell] for cell in cells]


def _whole(cell: Any) -> int | None:
    """The integer in a cell, as a number or as plain text; ``None`` if there is none."""
    if isinstance(cell, str):
        spelled = cell.removesuffix(".0")
        return int(spelled) if re.fullmatch(r"0|-?[1-9][0-9]{0,17}", spelled) else None
    if isinstance(cell, float):
        return int(cell) if cell.is_integer() else None
    return cell if isinstance(cell, int) and not isinstance(cell, bool) else None
