"""The source of a table: its engine, its three columns, and the names of its rows in errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import numpy as np

from pufferkit.data import files, times
from pufferkit.data.count import END, FRESH, STATE, SUBJECT, TICKS, TIME, WALL
from pufferkit.data.files import TextFormat
from pufferkit.data.series import first_few
from pufferkit.data.times import FileClock

if TYPE_CHECKING:
    import polars as pl

ONLY = "all"
"""The subject of a table that has no column for it."""

REPEATED_HOUR = (
    "; if clocks went back, choose how to treat the repeated hour: repeated_hour='shift' or "
    "'keep first' (--repeated-hour shift or keep-first)"
)

_NAMED = 5

_SMALL = 1 << 27
"""Bytes of the largest files whose columns are held in memory."""


@dataclass(frozen=True)
class Source:
    """An opened table: one of ``frame`` (duckdb, Spark), ``lazy`` and ``eager`` (polars).

    Times have become numbers, the same in every engine. A timestamp without a zone, or a date, is a
    local time: microseconds as if in UTC, whatever the zone of the session, the process or the
    machine. A timestamp with a zone (``zoned``) is an instant. ``several`` files are a subject
    each, and ``role`` says what the column of subjects is.
    """

    name: str
    of_time: bool
    spark: bool = False
    zoned: bool = False
    frame: Any = None
    lazy: Any = None
    eager: Any = None
    notes: tuple[str, ...] = ()
    several: bool = False
    role: str = "subject"
    zone: str | None = None
    height: int | None = None
    """Rows of a wide table, which is read column by column."""
    unit: int | float | None = None
    """Microseconds in a unit of the times, where these are numbers that count from 1970."""

    def sorted_batches(self, size: int) -> Iterator[pl.DataFrame]:
        """The rows of a duckdb relation, sorted there, which takes what is too large to disk."""
        import polars as pl  # noqa: PLC0415

        rows = self.frame.to_native().order(f"{SUBJECT}, {TIME}")
        # Its name before duckdb 1.4.
        reader = (
            rows.to_arrow_reader if hasattr(rows, "to_arrow_reader") else rows.fetch_arrow_reader
        )
        for batch in reader(size):
            yield pl.DataFrame(batch)

    def refuse_lost(self, batch: pl.DataFrame, before: int) -> None:
        """Raise unless every row has a subject and a time."""
        for role, inner in ((self.role, SUBJECT), ("time", TIME)):
            column = batch[inner]
            missing = column.is_null()
            if column.dtype.is_float():
                missing = missing | ~column.is_finite().fill_null(False)
            if missing.any() and self.frame is None:
                raise self._lost(self._rows(batch, missing.arg_true(), before), role)
            if missing.any():
                raise self._lost_of(int(missing.sum()), batch.filter(missing)[SUBJECT], role)

    def duplicates_in(self, batch: pl.DataFrame, frame: pl.DataFrame, before: int) -> ValueError:
        """The error for rows of a subject with equal times."""
        keys = frame.select(SUBJECT, TIME)
        twice = keys.filter(keys.is_duplicated()).unique(maintain_order=True)
        numbered = batch.with_row_index("_row").join(twice, on=[SUBJECT, TIME], how="semi")
        first = numbered.sort("_row").row(0, named=True)
        return self._duplicates(
            self._rows(batch, numbered["_row"].sort(), before),
            " or an earlier row" if FRESH in frame.columns else "",
            first[SUBJECT] if self.role == "subject" else ONLY,
        )

    def unknown_in(self, batch: pl.DataFrame, cells: Sequence[Any], before: int) -> ValueError:
        """The error for rows with states that were not declared."""
        rows = batch[STATE].is_in(list(cells)).fill_null(False).arg_true()
        return self._unknown(self._rows(batch, rows, before), cells)

    def _rows(self, batch: pl.DataFrame, rows: pl.Series, before: int) -> str:
        """Rows by their numbers from 1, as the subject of a sentence; else by subject and time."""
        if self.frame is not None:
            return self._named(batch[rows.head(_NAMED)])
        if self.height is not None:
            rows = (rows % self.height).unique(maintain_order=True)
        named = ", ".join(str(before + row + 1) for row in rows.head(_NAMED).to_list())
        more = f" and {len(rows) - _NAMED} more" if len(rows) > _NAMED else ""
        return f"row {named} has" if len(rows) == 1 else f"rows {named}{more} have"

    def _named(self, rows: Any) -> str:
        """Rows without an order by subject and time, as the subject of a sentence."""
        moments = [_moment(time) if self.of_time else time for time in rows[TIME].to_list()]
        pairs = zip(rows[SUBJECT].to_list(), moments, strict=True)
        return f"rows of {', '.join(f'{who!r} at {when}' for who, when in pairs)} have"

    # Rows of a cluster are looked for there.

    def refuse_rows(self, pairs: pl.DataFrame, frame: Any) -> None:
        """Rows without a time, and equal times, on a cluster."""
        import narwhals as nw  # noqa: PLC0415

        lost = int(pairs["lost"].sum())
        if lost:
            rows = frame.filter(nw.col(TIME).is_null()).head(_NAMED).collect()
            raise self._lost_of(lost, rows[SUBJECT], "time")
        low: Any = pairs["low"].min()
        if low is not None and low <= 0:
            raise self.duplicates(frame)

    def duplicates(self, frame: Any) -> ValueError:
        """The error for equal times on a cluster."""
        import narwhals as nw  # noqa: PLC0415

        counted = frame.group_by(SUBJECT, TIME).agg(nw.len().alias("n")).filter(nw.col("n") > 1)
        return self._duplicates(self._named(counted.head(_NAMED).collect()))

    def unknown(self, frame: Any, cells: Sequence[Any]) -> ValueError:
        """The error for states that were not declared, on a cluster."""
        import narwhals as nw  # noqa: PLC0415

        rows = frame.filter(nw.col(STATE).is_in(list(cells))).head(_NAMED).collect()
        return self._unknown(self._named(rows), cells)

    # One set of words for all engines.

    def _lost_of(self, rows: int, subjects: Any, role: str) -> ValueError:
        whose = first_few(map(repr, subjects.head(_NAMED).to_list()))
        return self._lost(f"{rows} rows have", role, f", among them rows of {whose}")

    def _lost(self, rows: str, role: str, whose: str = "") -> ValueError:
        return ValueError(
            f"{self.name}: {rows} no {role} (or one that cannot be read){whose}; every entry needs "
            "one"
        )

    def _duplicates(self, rows: str, late: str = "", who: Any = None) -> ValueError:
        several = ""
        if who == ONLY and self.role != "segment":
            several = "; are there several subjects? name their column: subject= or --subject"
        first = "" if who in (None, ONLY) else f", first for {who!r}"
        return ValueError(
            f"{self.name}: {rows} the same time as another row of the same {self.role}{late}{first}"
            f"; one subject has one state at a time{several}"
            + (REPEATED_HOUR if self.of_time else "")
        )

    def _unknown(self, rows: str, cells: Sequence[Any]) -> ValueError:
        return ValueError(
            f"{self.name}: {rows} a state that is not declared: {first_few(map(repr, cells))}; add "
            "it to the states or clean the data"
        )


@dataclass(frozen=True)
class RowsWanted:
    """What is wanted of a table: the columns of its roles, and how they are to be read.

    Attributes
    ----------
    roles
        The column of the state, of the subject, and for rows that are intervals of their ``end``.
    time
        The columns that make up the times: one, two, or none for rows in order.
    numeric
        Whether the states are numbers.
    single
        Whether all rows are wanted in memory, as those of one subject.
    role
        What the column of the subject is to the user.
    wide
        The columns of a table that has one for each subject.
    """

    roles: Mapping[str, str]
    time: tuple[str, ...] = ()
    numeric: bool = False
    form: TextFormat | None = None
    clock: FileClock = field(default_factory=FileClock)
    single: bool = True
    role: str = "subject"
    wide: Any = None

    @property
    def listed(self) -> list[tuple[str, str]]:
        """The columns with what the user calls them."""
        named = [(self.role if n == "subject" else n, own) for n, own in self.roles.items()]
        return [*named, *(("time", name) for name in self.time)]

    @property
    def long(self) -> RowsWanted:
        """The same of a wide table with a row for each cell."""
        return replace(self, roles={"subject": WIDE, "state": "state"}, role="subject", wide=None)

    def of_time(self, name: str, schema: Any) -> bool:
        """Whether times are timestamps; columns of the wrong kind are refused."""
        import narwhals as nw  # noqa: PLC0415

        time, roles = " ".join(self.time), self.roles
        for role, column in {**roles, **({"time": time} if time else {})}.items():
            if schema[column].is_nested():
                raise ValueError(
                    f"{name}: column {column!r} holds lists or records, not one {role}"
                )
        if self.numeric and not schema[roles["state"]].is_numeric():
            kind = schema[roles["state"]]
            raise ValueError(f"{name}: bins need numbers, but {roles['state']!r} holds {kind}")
        who = roles.get("subject")
        if who is not None and schema[who].is_float():
            raise ValueError(f"{name}: column {who!r} holds floats; name subjects by text or int")
        if not time:
            return False
        moments = isinstance(schema[time], (nw.Datetime, nw.Date))
        if not moments and not schema[time].is_numeric():
            raise ValueError(
                f"{name}: column {time!r} holds {schema[time]}, not times; convert it to "
                "timestamps or numbers first"
            )
        return moments


def opened(source: Any, wanted: RowsWanted) -> Source:
    """The table with its columns under internal names and times as numbers."""
    import narwhals as nw  # noqa: PLC0415

    if files.is_files(source):
        return _files(source, wanted)
    if wanted.form not in (None, TextFormat(dates=getattr(wanted.form, "dates", None))):
        raise ValueError("text: describes a text file, and this is a table; give only dates in it")
    try:
        frame = nw.from_native(_with_index(source, [own for _, own in wanted.listed]))
    except TypeError:
        raise ValueError(
            "table: must be a pandas, polars or PySpark frame, a pyarrow table, a duckdb "
            "relation, or files by their path, a pattern or a list of paths, got "
            f"{type(source).__name__}"
        ) from None
    kind = frame.implementation
    name = f"{kind.name.lower()} table"
    if wanted.wide is not None:
        height = None if isinstance(frame, nw.LazyFrame) else len(frame)
        made, _ = _unpivoted(name, frame, wanted)
        return replace(opened(made.to_native(), wanted.long), height=height)
    if len(wanted.time) > 1:
        raise ValueError("time: two columns work for files only; combine them in the table")
    files.check_columns(name, frame.collect_schema().names(), wanted.listed)
    if isinstance(frame, nw.LazyFrame) and not kind.is_polars():
        of_time = wanted.of_time(name, frame.collect_schema())
        if not wanted.single or kind.is_spark_like() or not wanted.time:
            if not wanted.clock.is_plain or not wanted.time:
                raise ValueError(
                    f"{name}: timezone, repeated_hour and rows without times work for files and "
                    "tables in memory only; give instants, or cut windows by a column of your own"
                )
            return _unordered(frame, name, of_time, wanted)
        frame = frame.select(*(column for _, column in wanted.listed)).collect("polars")
        moments = [own for own in wanted.time if times.zone_of(frame.collect_schema()[own])]
        utc = nw.col(moments).dt.convert_time_zone("UTC")  # not that of its session
        frame = frame.with_columns(utc) if moments else frame
    elif wanted.single and isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    frame, notes = _read_times(frame, name, wanted)
    of_time = wanted.of_time(name, frame.collect_schema())
    return replace(_local(frame, name, of_time, wanted, notes), role=wanted.role)


def _with_index(source: Any, wanted: Sequence[str]) -> Any:
    """A pandas frame with the levels of its index that are wanted as columns."""
    if not type(source).__module__.startswith("pandas") or not hasattr(source, "columns"):
        return source
    names = [name or files.INDEX for name in source.index.names]
    levels = [
        level
        for level, name in enumerate(names)
        if name in wanted and name not in source.columns and names.count(name) == 1
    ]
    return source.rename_axis(names).reset_index(level=levels) if levels else source


def _read_times(frame: Any, name: str, wanted: RowsWanted) -> tuple[Any, tuple[str, ...]]:
    """A table whose times are text, as those of a file, with its times read."""
    import narwhals as nw  # noqa: PLC0415
    import polars as pl  # noqa: PLC0415

    schema, end = frame.collect_schema(), wanted.roles.get("end")
    texts = [c for c in (*wanted.time, end) if c is not None and schema[c] == nw.String]
    if not texts:
        return frame, ()
    if not frame.implementation.is_polars():
        chosen = dict.fromkeys(column for _, column in wanted.listed)
        frame = nw.from_native(pl.DataFrame({c: _cells(frame.get_column(c)) for c in chosen}))
    table = files.Opened(name, frame.to_native().lazy(), True, wanted.form or TextFormat())
    notes: tuple[str, ...] = ()
    for column in texts:
        lazy, said = _with_times(table, (column,))
        table, notes = replace(table, lazy=lazy), notes or said
    read = table.lazy if isinstance(frame, nw.LazyFrame) else table.lazy.collect()
    return nw.from_native(read), notes


def _unordered(frame: Any, name: str, of_time: bool, wanted: RowsWanted) -> Source:
    import narwhals as nw  # noqa: PLC0415

    spark, zoned, (column,) = frame.implementation.is_spark_like(), False, wanted.time
    if spark:
        from pufferkit.data import spark_source  # noqa: PLC0415

        spark_source.list_files_anew(frame.to_native())
        zoned = spark_source.is_zoned(frame.to_native(), column)
    unit, notes = _counted(frame, column, of_time)
    if of_time:
        frame, time = nw.from_native(_microseconds(frame, column)), nw.col(TICKS)
    else:
        time = _numbers(nw.col(column), frame.collect_schema()[column], unit)
    chosen = frame.select(*_selection(wanted.roles, time))
    of_time, zoned = of_time or unit is not None, zoned or (spark and unit is not None)
    return Source(name, of_time, spark, zoned, frame=chosen, notes=notes, unit=unit)


def _counted(frame: Any, column: str, of_time: bool) -> tuple[int | float | None, tuple[str, ...]]:
    """The microseconds in a unit of times that count from 1970, and a note; ``None`` for others."""
    import narwhals as nw  # noqa: PLC0415

    if of_time or isinstance(frame.collect_schema()[column], nw.Decimal):
        return None, ()
    since = _epoch(frame, column)
    return (
        (None, ()) if since is None else (since[1], (f"times are {since[0]} since 1970, in UTC",))
    )


def _epoch(frame: Any, time: str) -> tuple[str, int | float] | None:
    """The unit of times that count from 1970: of all rows in memory, else of the first."""
    import narwhals as nw  # noqa: PLC0415

    number = nw.col(time)
    if isinstance(frame, nw.LazyFrame):
        first = frame.select(time).filter(~number.is_null()).head(1).collect()
        return times.epoch(first.item(), first.item()) if len(first) else None
    least, most = frame.select(number.min().alias("a"), number.max().alias("b")).row(0)
    low, high = times.epoch(least, least), times.epoch(most, most)
    if low is not None and high is not None and low != high:
        raise ValueError(
            f"time: column {time!r} counts {low[0]} since 1970 in some rows and {high[0]} in "
            "others; write all times in the same way"
        )
    return times.epoch(least, most)


def _microseconds(frame: Any, time: str) -> Any:
    """The native frame with the column `TICKS`, which narwhals cannot express here."""
    native = frame.to_native()
    if frame.implementation.is_duckdb():
        import duckdb  # noqa: PLC0415

        column = duckdb.ColumnExpression(time)
        if str(frame.collect_schema()[time]) == "Date":
            column = column.cast("TIMESTAMP")
        ticks = duckdb.FunctionExpression("epoch_us", column).alias(TICKS)
        return native.select(duckdb.StarExpression(), ticks)
    from pufferkit.data import spark_source  # noqa: PLC0415

    return spark_source.with_ticks(native, time, TICKS)


def _local(
    frame: Any, name: str, of_time: bool, wanted: RowsWanted, notes: Sequence[str] = ()
) -> Source:
    import narwhals as nw  # noqa: PLC0415
    import polars as pl  # noqa: PLC0415

    roles, clock, column = wanted.roles, wanted.clock, " ".join(wanted.time)
    place = times.zone_of(frame.collect_schema()[column]) if column else None
    aware, notes = place is not None, list(notes)
    if clock.timezone is None and times.has_days(place):
        clock = replace(clock, timezone=place)
    if not frame.implementation.is_polars():
        # Only the needed columns, without copies where the engines share a memory layout.
        needed = dict.fromkeys([*roles.values(), *([column] if column else [])])
        cells = {c: _cells(frame.get_column(c)) for c in needed}
        frame = nw.from_native(pl.DataFrame(cells, strict=False))
    time, end, unit = None, None, None
    if column:
        kind = frame.collect_schema()[column]
        unit, said = _counted(frame, column, of_time)
        notes += said
        of_time, aware = of_time or unit is not None, aware or unit is not None
        time = _numbers(nw.col(column), kind, unit)
        if "end" in roles:
            other = frame.collect_schema()[roles["end"]]
            if isinstance(other, nw.Datetime) != isinstance(kind, nw.Datetime):
                raise ValueError(f"{name}: end: must be written like the times of {column}")
            end = _numbers(nw.col(roles["end"]), other, unit)
    selected = frame.select(*_selection(roles, time, end)).to_native()
    zone = clock.timezone or ("UTC" if aware else None)
    source = Source(name, of_time, zoned=aware, notes=tuple(notes), zone=zone, unit=unit)
    if time is not None and aware and clock.timezone is not None:
        selected = selected.with_columns(times.wall(pl.col(TIME), clock.timezone).alias(WALL))
        source = replace(source, notes=(*notes, f"days cut at midnight in {clock.timezone}"))
        clock = FileClock()
    if time is not None and clock.is_plain:
        if isinstance(selected, pl.LazyFrame):
            return replace(source, lazy=selected)
        return replace(source, eager=selected)
    rows = selected.collect() if isinstance(selected, pl.LazyFrame) else selected
    if time is None:
        rows, of_time, assumed = times.by_rows(rows, clock)
        notes += assumed
    if not of_time and not clock.is_plain:
        raise ValueError(f"{name}: timezone and repeated_hour: the times are numbers, not moments")
    if not rows[TIME].has_nulls():
        ends = rows
        rows, assumed = times.applied(name, rows, clock)
        if end is not None:
            ends = ends.with_columns(ends[END].alias(TIME))
            rows = rows.with_columns(times.applied(name, ends, clock)[0][TIME].alias(END))
        notes += assumed
    return replace(source, of_time=of_time, eager=rows, notes=tuple(notes))


def _numbers(time: Any, kind: Any, unit: int | float | None) -> Any:
    """A column of times as numbers: microseconds, or what the numbers count."""
    import narwhals as nw  # noqa: PLC0415

    if isinstance(kind, (nw.Date, nw.Datetime)):
        time = time.cast(nw.Datetime("us")) if isinstance(kind, nw.Date) else time
        return time.dt.timestamp("us")
    if kind.is_float():
        time = nw.when(time.is_finite()).then(time)
    if unit is not None:
        return times.since_1970(time, kind, unit)
    if isinstance(kind, nw.Decimal):
        return time.cast(nw.Float64)
    return time.cast(nw.Int64) if kind.is_integer() else time  # small ones would overflow


def _cells(series: Any) -> Any:
    """A column of pandas or pyarrow, for polars; timestamps of pandas as microseconds."""
    import narwhals as nw  # noqa: PLC0415
    import polars as pl  # noqa: PLC0415

    if series.implementation.is_pyarrow():
        return pl.Series(series.to_arrow())
    if isinstance(series.dtype, (nw.Categorical, nw.Enum)) and series.implementation.is_pandas():
        return _categories(series.to_native().array)
    missing = series.is_null().to_numpy()
    if isinstance(series.dtype, nw.Datetime) and not missing.any():
        return series.dt.timestamp("us").to_numpy()
    if series.dtype.is_numeric() and not missing.any():
        return series.to_numpy()
    if series.implementation.is_pandas():
        numbers, distinct = series.to_native().factorize()
        values = distinct.tolist()
        if {type(value) for value in values} in ({str}, {float}):
            return pl.Series(values).gather(pl.Series(numbers).replace(-1, None))
    cells = zip(series.to_list(), missing.tolist(), strict=True)
    plain = [None if gone else _plain(cell) for cell, gone in cells]
    try:
        column = pl.Series(plain, strict=False)
        whole = column.null_count() == int(missing.sum())
    except (pl.exceptions.PolarsError, TypeError):
        whole = False
    if not whole:
        raise ValueError(
            f"table: column {series.name!r} mixes incompatible types of cells; make all "
            "of them text or all of them numbers"
        )
    return column


def _categories(column: Any) -> Any:
    """A categorical column of pandas; text and intervals keep the order of the categories."""
    import polars as pl  # noqa: PLC0415

    values = [_plain(value) for value in column.categories.tolist()]
    if not all(isinstance(value, (bool, int, float)) for value in values):
        values = [str(value) for value in values]
    places = pl.Series(column.codes).cast(pl.Int64).replace(-1, None)
    cells = pl.Series(values).gather(places)
    return cells.cast(pl.Enum(values)) if values and isinstance(values[0], str) else cells


def _plain(cell: Any) -> Any:
    """A number of numpy in a column of mixed objects as one of Python; an interval as text."""
    if type(cell).__name__ == "Interval":
        return str(cell)
    return cell.item() if isinstance(cell, (np.number, np.bool_)) else cell


def _selection(columns: Mapping[str, str], time: Any, end: Any = None) -> list[Any]:
    import narwhals as nw  # noqa: PLC0415

    subject = nw.col(columns["subject"]) if "subject" in columns else nw.lit(ONLY)
    times = [] if time is None else [time.alias(TIME)]
    times += [] if end is None else [end.alias(END)]
    return [subject.alias(SUBJECT), *times, nw.col(columns["state"]).alias(STATE)]


def _files(source: Any, wanted: RowsWanted) -> Source:
    import narwhals as nw  # noqa: PLC0415
    import polars as pl  # noqa: PLC0415

    table, height, wide = files.opened(source, wanted.form), None, wanted.wide is not None
    if wide:
        table, height = _long(table, wanted)
        wanted = wanted.long
    who = wanted.roles.get("subject", files.FILE)
    if table.several and "subject" not in wanted.roles:
        wanted = replace(wanted, roles={**wanted.roles, "subject": files.FILE})
    elif "subject" in wanted.roles and who == files.FILE:
        table = files.with_name(table, source)
    wanted = replace(wanted, role=files.FILE) if who == files.FILE else wanted
    files.check_columns(table.name, table.lazy.collect_schema().names(), wanted.listed)
    held = wanted.single or table.size <= _SMALL
    table = _held(table, [name for _, name in wanted.listed]) if held else table
    lazy, notes = _with_times(table, wanted.time)
    if "end" in wanted.roles:
        lazy, _ = _with_times(replace(table, lazy=lazy), (wanted.roles["end"],))
    if table.is_text:
        state = wanted.roles["state"]
        if wanted.numeric:
            number, said = files.as_numbers(table, state)
            lazy, notes = lazy.with_columns(number.alias(state)), (*notes, *said)
        else:
            seen = ~pl.col(state).is_in(["", *table.form.missing])
            lazy = lazy.with_columns(pl.when(seen).then(pl.col(state)).alias(state))
    of_time = wanted.of_time(table.name, nw.from_native(lazy).collect_schema())
    frame = nw.from_native(lazy.collect() if held else lazy)
    rows = _local(frame, table.name, of_time, wanted, (*table.notes, *notes))
    role = wanted.role if "subject" in wanted.roles else "subject"
    return replace(rows, several=table.several, role=role, height=height)


def _held(table: files.Opened, wanted: Sequence[str]) -> files.Opened:
    """The wanted columns in memory; a row with too many cells or too few is refused."""
    whole = table.lazy
    if table.is_text:
        whole = _whole(table).lazy()
    chosen = whole.select(list(dict.fromkeys(wanted))).collect()
    if not chosen.height:
        raise ValueError(f"{table.name}: has a header but no rows")
    return replace(table, lazy=chosen.lazy())


def _whole(table: files.Opened) -> pl.DataFrame:
    """The rows of a text file without blank lines at its end; damaged ones are refused."""
    import polars as pl  # noqa: PLC0415

    rows = table.lazy.collect()
    columns = [name for name in rows.columns if name != files.FILE]
    if not rows[columns[-1]].has_nulls():  # a short row, and a blank one, has no last cell
        return rows
    if len(columns) > 1:
        files.refuse_ragged(table.paths, table.form)
    rows = rows.with_row_index("_row").with_columns(
        pl.all_horizontal(pl.col(columns).is_null()).alias("_blank")
    )
    last = pl.col("_row").filter(~pl.col("_blank")).max()
    rows = rows.filter(pl.col("_row") <= (last.over(files.FILE) if table.several else last))
    inside = rows["_blank"].arg_true()
    if len(inside):
        raise ValueError(
            f"{table.name}: row {inside[0] + 1} is blank, which may be an entry that was not "
            "observed or nothing; remove the line, or write a mark there (missing='NA' or "
            "--missing NA)"
        )
    return rows.drop("_row", "_blank")


def _long(table: files.Opened, wanted: RowsWanted) -> tuple[files.Opened, int]:
    """A wide table with a row for each cell, and the number of its own rows."""
    if table.several:
        raise ValueError("state: several columns are for one file; read the files one by one")
    rows = _whole(table) if table.is_text else table.lazy.collect()
    long, said = _unpivoted(table.name, rows, wanted)
    return replace(table, lazy=long.lazy(), notes=(*table.notes, said), paths=()), rows.height


WIDE = "column"
"""The subject of each cell of a wide table."""


def _unpivoted(name: str, rows: Any, wanted: RowsWanted) -> tuple[Any, str]:
    """A wide table with a row for each cell of its columns, and how many columns these are."""
    there, wide, time = rows.collect_schema().names(), wanted.wide, wanted.time
    chosen = list(wide)
    if isinstance(wide, str):
        own = (files.INDEX, *time)
        chosen = [name for name in there if fnmatchcase(name, wide) and name not in own]
        if not chosen:
            raise ValueError(f"{name}: no column is named like {wide!r}; it has {', '.join(there)}")
    asked = [*(("state", column) for column in chosen), *(("time", column) for column in time)]
    files.check_columns(name, there, asked)
    long = rows.unpivot(chosen, index=list(time), variable_name=WIDE, value_name="state")
    return long, f"a subject for each of {len(chosen)} columns"


def _with_times(table: files.Opened, time: Sequence[str]) -> tuple[pl.LazyFrame, tuple[str, ...]]:
    """The table with its times read, under the names of their columns joined by a space."""
    import polars as pl  # noqa: PLC0415

    if not time:
        return table.lazy, ()
    name = " ".join(time)
    lazy = table.lazy
    if len(time) > 1:
        parts = [pl.col(part).cast(pl.String).str.strip_chars() for part in time]
        lazy = lazy.with_columns(pl.concat_str(parts, separator=" ").alias(name))
    if len(time) == 1 and lazy.collect_schema()[name] != pl.String:
        return lazy, ()
    first = lazy.select(name).head(1).collect()
    if first.height == 0:
        raise ValueError(f"{table.name}: has a header but no rows")
    moment, notes = times.parsed(replace(table, lazy=lazy), name, first.item())
    return lazy.with_columns(moment.alias(name)), notes


def _moment(ticks: int) -> str:
    """Microseconds since 1970 as a date and time; as the number where no date exists."""
    try:
        return str(datetime(1970, 1, 1) + timedelta(microseconds=ticks))
    except OverflowError:
        return str(ticks)
