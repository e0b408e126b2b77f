"""Many subjects' rows as a `Table`, from any engine or file."""

from __future__ import annotations

import io
import logging
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pufferkit import checks
from pufferkit.data.bins import Bins, as_bins
from pufferkit.data.durations import DAY, MONDAY, ticks
from pufferkit.data.table import Table, Windows
from pufferkit.frames import aggregate, row_batches, table_sources
from pufferkit.frames.aggregate import BASE, FRESH, STATE, SUBJECT, TIME, Rules
from pufferkit.frames.raw_files import TextFormat, readable
from pufferkit.frames.raw_times import Clock, Policy, check_every, time_columns
from pufferkit.frames.safe_csv import csv_bytes
from pufferkit.frames.series_files import state_labels
from pufferkit.frames.table_assembly import assembled

if TYPE_CHECKING:
    import polars as pl

    from pufferkit.frames.spark import ClusterTable

_LOG = logging.getLogger(__name__)

REPEATED = {"hour of day": 24, "hour of week": 168}
"""Recurring windows by name, and how many there are."""

BATCH = 1_000_000
"""Rows of a lazy table that are held in memory at once."""


@readable
def read_table(
    source: Any,
    *,
    state: str,
    time: str | Sequence[str] | None = None,
    subject: str | None = None,
    states: Iterable[Hashable] | None = None,
    bins: Bins | Sequence[float] | None = None,
    independent_after: Any = None,
    every: Any = None,
    window: Any = None,
    origin: int | float | None = None,
    max_gap: Any = None,
    text: TextFormat | None = None,
    timezone: str | None = None,
    times_in: str | None = None,
    repeated_hour: Policy = "refuse",
    start: str | None = None,
) -> Table | ClusterTable:
    """Counts, transition counts and segment lengths of many subjects; rows may be in any order.

    The counting happens in the engine that holds the table, and only aggregates leave it. For files
    and tables in memory with up to a million rows the entries are kept too (`Table.series`).

    Correlation persists across a gap. If the times are those of a clock (every time between
    neighbours is a whole multiple of the shortest, and more than half of them are the shortest), a
    gap of g steps is g - 1 entries that were not observed, and the segment continues after it.
    Otherwise successive rows are taken as neighbours, and the report states this.

    Parameters
    ----------
    source
        A pandas, polars (eager or lazy) or PySpark frame, a pyarrow table, a duckdb relation, or
        the path of a text file (also compressed with gzip, ``"-"`` for standard input) or a
        ``.parquet`` file. Several files, by a pattern like ``"N*"`` or a list of paths, are one
        subject each unless ``subject`` names a column. Lazy polars input and files in time order
        are read in batches, so memory does not grow with their rows; others are sorted in memory.
        PySpark gives a `ClusterTable`, which stays on the cluster.
    time
        Column with times: numbers, dates or timestamps; in a text file also like 2024-03-04T08:15
        or 04/03/2024 08:15. Two columns, of dates and of times, as a pair. Those without a zone
        are local times, on every engine; those with one are instants. ``None``: rows have no
        times but are ``every`` apart, in the order of the table. The index of a pandas frame is
        addressed by its name, or as ``"index"``.
    state
        Column with states, or with numbers if ``bins`` are given. A row without a state is an entry
        that was not observed, also at the ends of a series.
    subject
        Column with the subject of each row. If left out, all rows belong to one subject, ``"all"``.
    states
        All states that can occur, or labels for the bins. If left out, those that do occur, sorted;
        note that which states occur is itself a fact about the data.
    bins
        `Bins`, or their cut points. They must not come from the private data.
    independent_after
        Declare that rows further apart than this are independent, as [Q] 5.3.1 does: they start a
        new segment. A number, or for timestamps text like ``"3h"``, ``"7d"``, or a ``timedelta``.
        It is an assumption about the world, and every release records it.
    every
        Put the entries on a grid of this step: the first reading in each slot counts, and a slot
        without a reading is an unobserved entry. A series runs from its first slot with a reading
        to its last.
    window
        Cut into windows of this width, for releases day by day or week by week. ``"hour of day"``
        and ``"hour of week"`` count by recurring slots, for the questions ``by-hour`` and
        ``by-weekday-hour`` about many subjects; not on a cluster.
    origin
        Where slots and windows are counted from, in the units of the time column (microseconds
        since 1970 for timestamps). Default: Monday, 5 January 1970, midnight UTC; 0 for numbers.
    max_gap
        The old name of ``independent_after``.
    text
        Format of a text file, where it must not be detected.
    timezone, times_in, repeated_hour
        Cut windows at midnight in this zone, such as ``"Europe/Paris"``; the zone of times without
        one, if it differs; and how to treat the hour that occurs twice when clocks go back:
        ``"refuse"``, ``"shift"`` or ``"keep first"``. See `Clock`.
    start
        For rows without times: the moment of the first row of each subject.

    Raises
    ------
    ValueError
        If two rows of a subject have the same time, or a row has no subject, no time or an unknown
        state; the message names rows, counted from 1, or subject and time where rows have no order.

    Examples
    --------
    >>> import polars as pl
    >>> rows = pl.DataFrame({"who": ["a", "b", "a"], "t": [1, 1, 2], "x": [0, 1, 1]})
    >>> print(read_table(rows, subject="who", time="t", state="x", states=[0, 1]))
    Table(2 subjects, 3 entries, 2 segments of 1 to 2)
    """
    columns = {"state": state}
    if subject is not None:
        columns["subject"] = subject
    times = time_columns(time)
    for role, column in columns.items():
        if not isinstance(column, str):
            raise ValueError(f"{role}: must be the name of a column, got {column!r}; rename it")
    named = [*times, *columns.values()]
    if len(set(named)) < len(named):
        raise ValueError(f"columns: {', '.join(named)}: each role needs a different column")
    by_rows = None if times else every
    clock = Clock(timezone, times_in, repeated_hour, by_rows, start)
    check_every(time, clock)
    opened = table_sources.opened(
        source, columns, time=times, numeric=bins is not None, form=text, clock=clock
    )
    every = every if times else None
    cut = None if bins is None else as_bins(bins)
    if max_gap is not None:
        if independent_after is not None:
            raise ValueError("max_gap: is the old name of independent_after; give only one of them")
        independent_after = max_gap
    rules = _rules(opened.of_time, independent_after, every, window, origin, cut, timezone)
    rules = replace(rules, read_as=opened.notes)
    _LOG.info("%s: read as %s", opened.name, "; ".join(opened.notes) or "it stands")
    known = _known(states, cut)
    if opened.spark and rules.windows is not None and rules.windows.repeats:
        raise ValueError(f"window: {window} is not counted on a cluster; cut it with window='1h'")
    if opened.spark:
        from pufferkit.frames.spark import ClusterTable  # noqa: PLC0415

        return ClusterTable(opened, rules, known)
    if opened.sql:
        return _table_of_sql(opened, rules, known)
    if opened.lazy is not None:
        try:
            batches = _batches(opened, opened.lazy)
            return _from_batches(batches, opened, rules, known)
        except _OutOfOrder:
            frame = opened.collected(opened.lazy)
    else:
        frame = opened.eager
    return _from_batches(iter([frame]), opened, rules, known)


def _table_of_sql(
    source: table_sources.Source, rules: Rules, known: tuple[Hashable, ...] | None
) -> Table:
    """The aggregates of a table in an engine without an order of rows: duckdb or Spark."""
    frame = aggregate.entries(source.frame, rules)
    if rules.every is not None:
        low = aggregate.in_polars(aggregate.smallest_step(frame, ordered=False).collect())
        if low.item() is not None and low.item() <= 0:
            raise source.duplicates(frame)
    pieces, pairs = aggregate.collected(frame, rules)
    source.refuse_rows(pairs, frame)
    return assembled([pieces], pairs, rules, known, lambda bad: source.unknown(frame, bad))


def frame_of(rows: Sequence[Mapping[str, Any]], backend: str = "polars") -> Any:
    """Rows as a frame of polars, pandas or pyarrow."""
    import narwhals as nw  # noqa: PLC0415

    if backend not in ("polars", "pandas", "pyarrow"):
        raise ValueError(f"backend: must be polars, pandas or pyarrow, got {backend!r}")
    engine: Any = backend
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {name: [_plain_cell(row.get(name)) for row in rows] for name in names}
    try:
        return nw.from_dict(columns, backend=engine).to_native()
    except ImportError:
        raise ImportError(f"backend: {backend} is not installed; pip install {backend}") from None


def _plain_cell(cell: Any) -> Any:
    """Cells of types that frames support; others as text."""
    return cell if cell is None or isinstance(cell, (str, int, float, datetime)) else str(cell)


def write_columns(path: Path | str, columns: Mapping[str, Any]) -> bytes:
    """The bytes of a ``.csv`` or ``.parquet`` file with these columns."""
    import polars as pl  # noqa: PLC0415

    suffix = Path(path).suffix.lower()
    if suffix not in (".csv", ".parquet"):
        raise ValueError(f"{path}: cannot write {suffix or 'such'} files; name a .csv or .parquet")
    table = pl.DataFrame(dict(columns), strict=False)
    if suffix == ".csv":
        return csv_bytes(table)
    stream = io.BytesIO()
    table.write_parquet(stream)
    return stream.getvalue()


def _rules(
    of_time: bool,
    independent_after: Any,
    every: Any,
    window: Any,
    origin: Any,
    bins: Bins | None,
    timezone: str | None,
) -> Rules:
    start = (MONDAY if of_time else 0) if origin is None else checks.real("origin", origin)
    start = int(start) if float(start).is_integer() else start
    gap = None
    if independent_after is not None:
        gap = ticks("independent_after", independent_after, of_time)
    step = None if every is None else ticks("every", every, of_time)
    windows = None
    if window in REPEATED:
        if not of_time or origin is not None:
            raise ValueError(f"window: {window} needs timestamps, and takes no origin")
        windows = Windows(DAY // 24, MONDAY, of_time, timezone, REPEATED[window])
    elif window is not None:
        width = ticks("window", window, of_time)
        if not isinstance(width, int) or not isinstance(start, int):
            raise ValueError(
                f"window: width and origin must be whole numbers, got {width}, {start}"
            )
        if timezone is not None and width % DAY:
            raise ValueError(
                f"window: with a time zone, windows must be whole days or weeks, not {window}; "
                "days there differ in length"
            )
        windows = Windows(width, start, of_time, timezone)
        if step is not None and width % step:
            raise ValueError(f"window: must be a multiple of the grid step {step}, got {width}")
    return Rules(gap, step, start, windows, bins, of_time, timezone=timezone)


def _known(states: Iterable[Hashable] | None, bins: Bins | None) -> tuple[Hashable, ...] | None:
    if bins is not None:
        return bins.named(states)
    return None if states is None else checks.distinct_states(states)


# -- polars: all at once, or in batches --------------------------------------------------------


class _OutOfOrder(Exception):
    """A later batch has an earlier row of some subject."""


def _batches(source: table_sources.Source, lazy: pl.LazyFrame) -> Iterator[pl.DataFrame]:
    with source.reading():
        yield from lazy.collect_batches(chunk_size=BATCH, maintain_order=True)


def _from_batches(
    batches: Iterator[pl.DataFrame],
    source: table_sources.Source,
    rules: Rules,
    known: tuple[Hashable, ...] | None,
) -> Table:
    import polars as pl  # noqa: PLC0415

    pieces: list[pl.DataFrame] = []
    pairs: pl.DataFrame | None = None
    carry: pl.DataFrame | None = None
    kept: pl.DataFrame | None = None
    row, batch = 0, next(batches, None)
    while batch is not None:
        following = next(batches, None)
        source.refuse_lost(batch, row)
        frame = row_batches.with_carry(_entries(batch, rules), carry)
        frame = _sorted(frame)
        if carry is not None and _overtaken(frame):
            raise _OutOfOrder
        linked = row_batches.linked(frame, rules)
        counts = row_batches.collected(aggregate.pair_counts(row_batches.lazy(linked)))
        low: Any = counts["low"].min()
        if rules.every is not None:
            low = row_batches.smallest(frame)
        if low is not None and low <= 0:
            raise source.duplicates_in(batch, frame, row)
        pairs = aggregate.merged_pairs([counts] if pairs is None else [pairs, counts])
        found_pieces = row_batches.collected(
            aggregate.piece_counts(row_batches.lazy(linked), rules)
        )
        if following is not None or carry is not None:
            found_pieces, last = row_batches.numbered(found_pieces, linked, frame)
            carry = (
                last
                if carry is None
                else pl.concat([last, carry]).unique(SUBJECT, keep="first", maintain_order=True)
            )
        unknown = None if known is None else _unknown(found_pieces[STATE], known, rules)
        if unknown:
            raise source.unknown_in(batch, unknown, row)
        pieces.append(found_pieces.drop(BASE, strict=False))
        kept = linked if row == 0 and following is None else None
        row += batch.height
        batch = following
    return assembled(pieces, pairs, rules, known, None, kept)


def _entries(batch: pl.DataFrame, rules: Rules) -> pl.DataFrame:
    """The entries of a batch; states that are text as numbers with a dictionary, looked up once."""
    import narwhals as nw  # noqa: PLC0415
    import polars as pl  # noqa: PLC0415

    entries: pl.DataFrame = aggregate.entries(nw.from_native(batch), rules).to_native()
    if entries.schema[STATE] == pl.String:
        return entries.with_columns(pl.col(STATE).cast(pl.Categorical))
    return entries


def _overtaken(frame: pl.DataFrame) -> bool:
    import polars as pl  # noqa: PLC0415

    same = pl.col(SUBJECT) == pl.col(SUBJECT).shift(1)
    return bool(frame.select(((pl.col(FRESH) == 0) & same).any()).item())


def _sorted(frame: pl.DataFrame) -> pl.DataFrame:
    """Rows subject by subject in time order; by one integer key where that is possible."""
    import polars as pl  # noqa: PLC0415

    subject, time = pl.col(SUBJECT), pl.col(TIME)
    late = (subject < subject.shift(1)) | ((subject == subject.shift(1)) & (time < time.shift(1)))
    if not frame.select(late.any()).item():
        return frame
    code = subject
    if not frame.schema[SUBJECT].is_integer():
        code = subject.cast(pl.String).cast(pl.Categorical).to_physical()
    if frame.schema[TIME].is_integer():
        bounds = frame.select(
            time.min().alias("a"),
            time.max().alias("b"),
            code.min().alias("c"),
            code.max().alias("d"),
        ).row(0)
        if all(bound is not None for bound in bounds):
            first, last, low, high = (int(bound) for bound in bounds)
            span = last - first + 1
            if (high - low + 1) * span < 2**62:
                key = (code.cast(pl.Int64) - low) * span + (time - first)
                return frame.sort(key)
    return frame.sort(code, time)


def _unknown(column: pl.Series, known: tuple[Hashable, ...], rules: Rules) -> list[Any]:
    if rules.bins is not None:
        return []
    cells = column.unique().drop_nulls().to_list()
    labels = state_labels(cells, known)
    return [cell for cell, label in zip(cells, labels, strict=True) if label not in set(known)]
