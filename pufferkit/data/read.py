"""The one reader: rows of any engine or file as a `Series` or a `Table`.

A table becomes data here or is refused here: later code never sees a timestamp or a column name.
Rows are counted from 1, without the header. `files` opens files, `sources` chooses the columns and
turns times into numbers, `times` knows how times are written, `count` links neighbours and counts,
and `assemble` makes a `Table` of the counts.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from pufferkit import checks
from pufferkit.data import count, files, sources
from pufferkit.data.assemble import MOST_ENTRIES, assembled, state_labels
from pufferkit.data.bins import Bins, as_bins
from pufferkit.data.count import BASE, END, FRESH, STATE, SUBJECT, TIME, WALL, Rules
from pufferkit.data.durations import DAY, MONDAY, in_words, seconds, ticks
from pufferkit.data.files import TextFormat, readable
from pufferkit.data.series import Series
from pufferkit.data.table import Table, Windows
from pufferkit.data.times import FileClock, Policy, time_columns, wall

if TYPE_CHECKING:
    import polars as pl

_LOG = logging.getLogger(__name__)

REPEATED = {"hour of day": 24, "hour of week": 168}
"""Recurring windows by name, and how many there are."""

BATCH = 1_000_000
"""Rows of a lazy table that are held in memory at once."""

_REGULAR = 0.9  # share of equal steps from which times count as a clock's
_LONG = 1.5  # steps longer than the usual by this factor are gaps


@readable
def read(
    source: Any,
    *,
    state: str | Sequence[str],
    time: str | Sequence[str] | None = None,
    end: str | None = None,
    subject: str | None = None,
    segment: str | None = None,
    states: Iterable[Hashable] | None = None,
    bins: Bins | Sequence[float] | None = None,
    independent_after: Any = None,
    every: Any = None,
    start: str | None = None,
    window: Any = None,
    origin: int | float | None = None,
    text: TextFormat | None = None,
    timezone: str | None = None,
    times_in: str | None = None,
    repeated_hour: Policy = "refuse",
    entry: str | None = None,
    names: Sequence[Hashable] | None = None,
    groups: str | Sequence[str] | None = None,
) -> Any:
    """The data of one subject as a `Series`, or of many subjects as a `Table`.

    Without ``subject`` all rows belong to one subject. Several files are one subject each. Rows may
    be in any order: their times decide.

    Correlation persists across a gap. A row without a state is an entry that was not observed. If
    the times are those of a clock (every time between neighbours is a whole multiple of the
    shortest, and more than half of them are the shortest), a gap of g steps is g - 1 such entries,
    and the segment continues after it. Otherwise successive rows are taken as neighbours, and the
    report states this.

    Of a large `Table` only counts are kept; for tables of up to a million rows and files that are
    not large the entries too (`Table.series`).

    Parameters
    ----------
    source
        A pandas, polars (eager or lazy) or PySpark frame, a pyarrow table, a duckdb relation, or
        the path of a text file (also compressed with gzip, ``"-"`` for standard input) or a
        ``.parquet`` file; several files by a pattern like ``"N*"`` or a list of paths. Tables of
        duckdb, which sorts them, and of lazy polars frames and large files in time order are read
        in batches, so memory does not grow with their rows; others are sorted in memory. PySpark
        gives a `ClusterTable`, which stays on the cluster.
    state
        Column with states, or with numbers if ``bins`` are given. In a wide table, which has a
        column for each subject, a list of columns or a pattern such as ``"house *"``: a `Table`
        whose subjects have the names of the columns.
    time
        Column with times: numbers, dates or timestamps; in a text file also like 2024-03-04T08:15
        or 04/03/2024 8:15 PM. Numbers that are moments of the years 2000 to 2099, in seconds,
        milli-, micro- or nanoseconds since 1970, are instants; durations may then be numbers too.
        Two columns of a file, of dates and of times, as a pair. Times without a zone are local
        times, on every engine; those with one are instants. ``None``: rows are successive entries
        in the order of the table, ``every`` apart. The index of a pandas frame is addressed by its
        name, or as ``"index"``; so are the row names of R and the index of pandas in a text file,
        where they have no name.
    end
        For rows that are intervals: column with the time at which the state of a row ends,
        excluded. ``every`` must be given: an entry is the state at each moment of the grid.
    subject
        Column with the subject of each row; ``"file"`` for the name of its file.
    segment
        For one subject: column that names the independent segment of each row.
    states
        All states that can occur, or labels for the bins. Text then stands for the declared state
        that prints like it, so ``1`` in a CSV is the integer state 1. If left out, the categories
        of a column that has them; else those that do occur, sorted, as integers if all are
        integers; note that which states occur is itself a fact about the data.
    bins
        `Bins`, or their cut points. They must not come from the private data.
    independent_after
        Declare that rows further apart than this are independent, as [Q] 5.3.1 does: they start a
        new segment. A number, or for timestamps text like ``"3h"``, ``"7d"``, or a ``timedelta``.
        It is an assumption about the world, and every release records it.
    every
        Put the entries on a grid of this step: the first reading in each slot counts, and a slot
        without a reading is an unobserved entry. Readings of a clock that jitters belong to the
        nearest slot, and the report says how far they are from it. A series runs from its first
        slot with a reading to its last. Without ``time``: the time between rows.
    start
        For rows without times: the moment of the first row of each subject.
    window
        Give a `Table` cut into windows of this width, for releases day by day or week by week.
        ``"hour of day"`` and ``"hour of week"`` count by recurring slots; not on a cluster.
    origin
        Where slots and windows are counted from, in the units of the time column (microseconds
        since 1970 for timestamps). Default: Monday, 5 January 1970, midnight UTC; 0 for numbers.
    text
        Format of a text file, where it must not be detected; of text in a table, its ``dates``.
    timezone, times_in, repeated_hour
        Cut windows at midnight in this zone, such as ``"Europe/Paris"``; without it instants have
        the days and hours of the zone of their column, else of UTC. The zone of times without one,
        if it differs. And how to treat the hour that occurs twice when clocks go back:
        ``"refuse"``, ``"shift"`` or ``"keep first"``. See `FileClock`.
    entry, names
        For networks and joint distributions: the column that names the entry of each row, and all
        entries in the order of the beliefs (``beliefs.entries``).
    groups
        Column, or columns, with a group of each subject, for ``release(table, ..., per=column)``.

    Raises
    ------
    ValueError
        If two rows of a subject have the same time, or a row has no subject, no time or an unknown
        state; the message names rows, counted from 1, or subject and time where rows have no order.
    OSError
        If a file cannot be opened.

    Examples
    --------
    >>> import polars as pl
    >>> rows = pl.DataFrame({"who": ["a", "b", "a"], "t": [1, 1, 2], "x": [0, 1, 1]})
    >>> print(read(rows, subject="who", time="t", state="x", states=[0, 1]))
    Table(2 subjects, 3 entries, 2 segments of 1 to 2)
    >>> day = pl.DataFrame({"hour": [3, 1, 2], "x": ["rest", "walk", "rest"]})
    >>> read(day, time="hour", state="x").labels
    ['walk', 'rest', 'rest']
    """
    if entry is not None:
        return _record(source, entry, str(state), names, states, text)
    if names is not None:
        raise ValueError("names: lists the entries of a network; also give entry=, their column")
    if segment is not None and (subject is not None or window is not None):
        raise ValueError("segment: applies to one subject without windows; leave it out")
    pattern = isinstance(state, str) and "*" in state
    wide = state if pattern or isinstance(state, (list, tuple)) else None
    columns = _roles(state, wide, end, subject, segment)
    if end is not None and (time is None or every is None):
        raise ValueError("end: needs time=, where intervals begin, and every=, the step")
    times = _checked(columns, time)
    clock = FileClock(timezone, times_in, repeated_hour, None if times else every, start)
    if times and start is not None:
        raise ValueError("start: applies to rows without times; leave it out with time=")
    if not times:
        _refuse_clock(clock, independent_after)
    single = subject is None and window is None and wide is None
    role, held = "segment" if segment is not None else "subject", single or end is not None
    wanted = sources.RowsWanted(columns, times, bins is not None, text, clock, held, role, wide)
    opened = sources.opened(source, wanted)
    cut = None if bins is None else as_bins(bins)
    after, step, width = (
        _in_unit(given, opened.unit) for given in (independent_after, every, window)
    )
    if opened.unit is not None and origin is not None:
        origin = round(checks.real("origin", origin) * opened.unit)
    days = timezone if opened.zone == "UTC" else opened.zone
    rules = _rules(opened.of_time, after, step if times else None, width, origin, cut, days)
    if end is not None:
        opened = _moments(opened, rules)
    opened, rules = _on_grid(opened, rules)
    rules = replace(rules, read_as=opened.notes, name=opened.name, timezone=opened.zone)
    _LOG.info("%s: read as %s", opened.name, "; ".join(opened.notes) or "it stands")
    known = _known(_categories(opened) if states is None else states, cut)
    if segment is not None:
        opened = replace(opened, eager=_segments(opened, timed=bool(times)))
    table = _table(opened, rules, known)
    if groups is not None:
        table = replace(table, groups=_groups(source, subject, groups, text))
    if opened.eager is None or opened.several or not single:
        return table
    return _series(table, opened, None if times else every, start)


def _roles(state: Any, wide: Any, end: Any, subject: Any, segment: Any) -> dict[str, str]:
    """The column of each role but the times; of a wide table none but a placeholder."""
    if wide is not None:
        if not (subject is None and segment is None and end is None):
            raise ValueError(
                "state: several columns are a subject each; leave out subject, segment and end"
            )
        if not isinstance(wide, str) and not (wide and all(isinstance(n, str) for n in wide)):
            raise ValueError(f"state: must be the name of a column, or some, got {wide!r}")
        return {"state": "state"}
    who = segment if subject is None else subject
    named = {"state": state, "end": end, "subject": who}
    return {role: column for role, column in named.items() if column is not None}


def _in_unit(given: Any, unit: int | float | None) -> Any:
    """A duration given as a number, where times are numbers that count from 1970."""
    if unit is None or isinstance(given, bool) or not isinstance(given, (int, float)):
        return given
    return timedelta(microseconds=given * unit) if np.isfinite(given) else given


def _checked(columns: Mapping[str, Any], time: Any) -> tuple[str, ...]:
    """The columns of the times; columns that are no names, or have two roles, are refused."""
    times = time_columns(time)
    for role, column in columns.items():
        if not isinstance(column, str):
            raise ValueError(f"{role}: must be the name of a column, got {column!r}; rename it")
    named = [*times, *columns.values()]
    if len(set(named)) < len(named):
        raise ValueError(f"columns: {', '.join(named)}: each role needs a different column")
    return times


def _refuse_clock(clock: FileClock, independent_after: Any) -> None:
    """Raise if an option needs the times that the rows do not have."""
    if clock.every is None and independent_after is not None:
        raise ValueError("independent_after: needs times; name their column with time=")
    if not clock.is_plain:
        raise ValueError("timezone and repeated_hour: need times; name their column with time=")
    if clock.start is not None and clock.every is None:
        raise ValueError("start: needs the time between rows; give every= too")


def _table(source: sources.Source, rules: Rules, known: tuple[Hashable, ...] | None) -> Any:
    """The table, counted where its rows are."""
    if source.spark:
        if rules.windows is not None and rules.windows.repeats:
            raise ValueError(
                "window: hours of the day or week are not counted on a cluster; cut "
                "them with window='1h'"
            )
        # A cluster stands above the data, so it is found by name.
        return import_module("pufferkit.cluster.spark").ClusterTable(source, rules, known)
    if source.frame is not None:
        return _from_batches(source.sorted_batches(BATCH), source, rules, known)
    frame = source.eager
    if source.lazy is not None:
        try:
            batches = source.lazy.collect_batches(chunk_size=BATCH, maintain_order=True)
            return _from_batches(iter(batches), source, rules, known)
        except _OutOfOrder:
            frame = source.lazy.collect(engine="streaming")
    return _from_batches(iter([frame]), source, rules, known)


def _categories(source: sources.Source) -> Iterable[Hashable] | None:
    """The declared categories of a column that has them."""
    import polars as pl  # noqa: PLC0415

    kind = None if source.eager is None else source.eager.schema[STATE]
    return kind.categories.to_list() if isinstance(kind, pl.Enum) else None


def _on_grid(source: sources.Source, rules: Rules) -> tuple[sources.Source, Rules]:
    """Whether readings belong to the nearest slot, which the report then says."""
    import narwhals as nw  # noqa: PLC0415

    if rules.every is None:
        return source, rules
    rows = next(own for own in (source.frame, source.lazy, source.eager) if own is not None)
    off = count.off_the_grid(nw.from_native(rows, pass_through=False), rules)
    if off is None:
        return source, rules
    mean, most = (in_words(away, rules.of_time) for away in off)
    step = in_words(rules.every, rules.of_time)
    note = f"readings at the nearest slot of {step}: {mean} away on average, {most} at most"
    return replace(source, notes=(*source.notes, note)), replace(rules, nearest=True)


def _moments(source: sources.Source, rules: Rules) -> sources.Source:
    """Rows that are intervals as readings at the moments of the grid within them."""
    import polars as pl  # noqa: PLC0415

    rows: pl.DataFrame = source.eager
    source.refuse_lost(rows, 0)
    back = (rows[END] < rows[TIME]) | rows[END].is_null()
    if back.fill_null(True).any():
        raise ValueError(
            f"{source.name}: row {int(back.arg_true()[0]) + 1} has no end, or one before its time"
        )
    ordered = rows.with_row_index("_row").sort(SUBJECT, TIME)
    over = ordered.filter(pl.col(TIME) < pl.col(END).shift(1).cum_max().over(SUBJECT))
    if over.height:
        raise ValueError(
            f"{source.name}: row {int(over['_row'].min()) + 1} begins before another interval of "  # type: ignore[arg-type]
            f"the same {source.role} ends; one subject has one state at a time"
        )
    step: Any = rules.every
    first, after = (-((rules.origin - pl.col(own)) // step) for own in (TIME, END))
    if int(rows.select((after - first).sum()).item()) > MOST_ENTRIES:
        raise ValueError(f"end: the intervals have more than {MOST_ENTRIES:,} entries")
    whole = rows.with_columns(
        pl.int_ranges(first.cast(pl.Int64), after.cast(pl.Int64)).alias("_at")
    )
    short = int((whole["_at"].list.len() == 0).sum())
    moments = whole.filter(pl.col("_at").list.len() > 0).explode("_at")
    moved = (pl.col("_at") * step + rules.origin).alias(TIME)
    moments = moments.with_columns(moved).drop("_at", END)
    if WALL in moments.columns and rules.timezone is not None:
        moments = moments.with_columns(wall(pl.col(TIME), rules.timezone).alias(WALL))
    apart = in_words(step, rules.of_time)
    note = f"{rows.height:,} intervals as {moments.height:,} entries, {apart} apart"
    note += f"; {short:,} of them lie between two moments and are left out" if short else ""
    return replace(source, eager=moments, notes=(*source.notes, note))


def _series(table: Table, source: sources.Source, apart: Any, start: str | None) -> Series:
    """The entries of the only subject, whose segments may be the subjects of the table.

    ``apart`` is the time between rows that have no times, and ``start`` that of the first.
    """
    if table.codes is None:
        raise ValueError(
            f"{source.name}: {int(table.sizes.sum()):,} rows span "
            f"{int(table.segment_lengths.sum()):,} entries of the clock, more than the "
            f"{MOST_ENTRIES:,} that a series may hold; declare distant rows independent with "
            "independent_after="
        )
    series = table.all_series
    if apart is not None and start is None:
        step = apart if isinstance(apart, (str, timedelta)) else None
        return replace(series, calendar=None, spacing=seconds("every", step))
    if table.every is not None or max(series.lengths) == 1:
        return series
    _tell_gaps(source)
    if not table.of_time:
        return series
    times = source.eager[TIME]
    axis = "instants" if table.timezone is not None else "time"
    return replace(series, between=(axis, int(times.min()), int(times.max())))


def _segments(source: sources.Source, *, timed: bool) -> pl.DataFrame:
    """The rows, with the segments numbered in the order in which they first occur."""
    import polars as pl  # noqa: PLC0415

    rows: pl.DataFrame = source.eager
    source.refuse_lost(rows, 0)
    first = rows.with_row_index("_row").select(pl.col("_row").min().over(SUBJECT)).to_series()
    first = first.cast(pl.Int64)
    back = (first.diff() < 0).fill_null(False)
    if not timed and back.any():
        row = int(back.arg_true()[0])
        raise ValueError(
            f"{source.name}: row {row + 1} returns to segment {rows[SUBJECT][row]!r} after another "
            "one; sort the rows by segment, then by time"
        )
    return rows.with_columns(first.alias(SUBJECT))


def _tell_gaps(source: sources.Source) -> None:
    """Warn where almost evenly spaced times have a gap within a segment."""
    rows = source.eager.sort(SUBJECT, TIME)
    inside = rows[SUBJECT].rle_id().diff().to_numpy() == 0
    steps = np.diff(rows[TIME].to_numpy())[inside[1:]]
    if len(steps) < 2:  # one step is neither even nor uneven
        return
    usual = np.median(steps)
    gaps = np.flatnonzero(steps > _LONG * usual)
    if gaps.size and np.mean(np.abs(steps - usual) <= usual / 100) >= _REGULAR:
        shown = in_words(float(usual), source.of_time)
        warnings.warn(
            f"{source.name}: times are about {shown} apart, except at {gaps.size:,} longer gaps; "
            "they are not exactly evenly spaced, so rows on both sides of such a gap are wrongly "
            f"treated as neighbours: put the entries on a grid with every= (--every {shown})",
            stacklevel=4,
        )


def _record(
    source: Any,
    entry: str,
    state: str,
    names: Sequence[Hashable] | None,
    states: Iterable[Hashable] | None,
    text: TextFormat | None,
) -> Series:
    """One value for each named entry, in the order of ``names``."""
    if names is None:
        raise ValueError("names: list all entries in the order of the beliefs (beliefs.entries)")
    columns = {"state": state, "subject": entry}
    rows = sources.opened(source, sources.RowsWanted(columns, form=text, role="entry"))
    rows.refuse_lost(rows.eager, 0)
    found, cells = rows.eager[SUBJECT].to_list(), rows.eager[STATE].to_list()
    record: dict[str, Any] = {}
    for row, (name, cell) in enumerate(zip(map(str, found), cells, strict=True), 1):
        if cell is None:
            raise ValueError(
                f"{rows.name}: row {row} has no state; the model needs one for each entry"
            )
        if name in record:
            raise ValueError(f"{rows.name}: row {row}: entry {name!r} occurs twice")
        record[name] = cell
    missing = [str(name) for name in names if str(name) not in record]
    extra = sorted(set(record) - {str(name) for name in names})
    if missing or extra:
        raise ValueError(
            f"{rows.name}: needs one row for each entry of the model; missing {missing}, unknown "
            f"{extra}; in a list of contacts a row with one name is somebody without contacts"
        )
    known = None if states is None else tuple(states)
    return Series.of(state_labels([record[str(name)] for name in names], known), known)


@readable
def groups_of(rows: Any, *, subject: str, group: str) -> dict[Hashable, Hashable]:
    """The group of each subject, for ``release(table, ..., per=groups)``; `read` does the same.

    Parameters
    ----------
    rows
        A pandas, polars or pyarrow table, or a duckdb relation.
    subject, group
        Columns with the subject and its group. A subject is in one group.

    Examples
    --------
    >>> import polars as pl
    >>> people = pl.DataFrame({"who": ["ann", "ann", "bob"], "region": ["north", "north", "south"]})
    >>> groups_of(people, subject="who", group="region")
    {'ann': 'north', 'bob': 'south'}
    """
    import narwhals as nw  # noqa: PLC0415

    if subject == group:
        raise ValueError(
            f"group: {group!r} is the column of subjects; for one row each give per='subject'"
        )
    frame: Any = nw.from_native(rows)
    for role, column in {"subject": subject, "group": group}.items():
        if column not in frame.collect_schema().names():
            raise ValueError(f"{role}: there is no column {column!r}")
    pairs: Any = frame.lazy().select(subject, group).unique().collect()
    members: dict[Hashable, Hashable] = {}
    for who, key in sorted(pairs.iter_rows(), key=repr):
        if who in members or key is None:
            count = "no group" if key is None else "two groups"
            raise ValueError(f"group: subject {who!r} is in {count}; give each exactly one")
        members[who] = key
    return members


def _groups(
    source: Any, subject: str | None, columns: str | Sequence[str], form: TextFormat | None
) -> dict[str, dict[Hashable, Hashable]]:
    """For each column of groups the group of each subject."""
    if subject is None:
        raise ValueError("groups: are groups of subjects; name their column too, with subject=")
    if files.is_files(source):
        table = files.opened(source, form)
        source = (files.with_name(table, source) if subject == files.FILE else table).lazy
    named = [columns] if isinstance(columns, str) else columns
    return {column: groups_of(source, subject=subject, group=column) for column in named}


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
                "days there differ in length (times converted to UTC have windows of hours)"
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


def _from_batches(
    batches: Iterator[pl.DataFrame],
    source: sources.Source,
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
        frame = count.with_carry(_entries(batch, rules), carry)
        frame = _sorted(frame)
        if carry is not None and _overtaken(frame):
            raise _OutOfOrder
        linked = count.linked(frame, rules)
        counts = count.pair_counts(linked)
        low: Any = counts["low"].min()
        if rules.every is not None:
            low = count.smallest_step(frame)
        if low is not None and low <= 0:
            raise source.duplicates_in(batch, frame, row)
        pairs = count.merged_pairs([counts] if pairs is None else [pairs, counts])
        found_pieces = count.piece_counts(linked, rules)
        if following is not None or carry is not None:
            found_pieces, last = count.numbered(found_pieces, linked, frame)
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

    entries: pl.DataFrame = count.entries(nw.from_native(batch), rules).to_native()
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
