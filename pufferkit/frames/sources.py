"""Where a table comes from: its engine, its three columns, and how to name its rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pufferkit.frames.aggregate import FRESH, STATE, SUBJECT, TICKS, TIME
from pufferkit.frames.files import right_kind

if TYPE_CHECKING:
    import polars as pl

ONLY = "all"
"""The subject of a table that has no column for it."""

_INNER = {"subject": SUBJECT, "time": TIME, "state": STATE}
_NAMED = 5


@dataclass(frozen=True)
class Source:
    """An opened table: one of ``frame`` (duckdb, Spark), ``lazy`` and ``eager`` (polars).

    Times are numbers by now, read alike in every engine. A timestamp without a zone, or a date, is
    what the clock on the wall showed: microseconds as if it hung in UTC, whatever zone the session,
    the process or the machine is in. A timestamp with a zone (``zoned``) is an instant.
    """

    name: str
    of_time: bool
    spark: bool = False
    zoned: bool = False
    frame: Any = None
    lazy: Any = None
    eager: Any = None

    @property
    def sql(self) -> bool:
        """Whether the engine knows no order of rows."""
        return self.frame is not None

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Errors of the reader as errors about the table."""
        import polars as pl  # noqa: PLC0415

        try:
            yield
        except pl.exceptions.PolarsError as error:
            reason = str(error).partition("\n")[0]
            raise ValueError(f"{self.name}: cannot be read ({reason})") from None

    def collected(self, lazy: pl.LazyFrame) -> pl.DataFrame:
        """All rows in memory."""
        with self.reading():
            return lazy.collect(engine="streaming")

    def refuse_lost(self, batch: pl.DataFrame, before: int) -> None:
        """Every row needs a subject and a time."""
        for role in ("subject", "time"):
            column = batch[_INNER[role]]
            missing = column.is_null()
            if column.dtype.is_float():
                missing = missing | ~column.is_finite().fill_null(False)
            if missing.any():
                rows = missing.arg_true().head(_NAMED).to_list()
                raise ValueError(
                    f"{self.name}: {_rows(rows, before, int(missing.sum()))} no {role} (or one "
                    "that cannot be read); every entry needs one"
                )

    def duplicates_in(self, batch: pl.DataFrame, frame: pl.DataFrame, before: int) -> ValueError:
        """The error for rows of a subject with equal times."""
        keys = frame.select(SUBJECT, TIME)
        twice = keys.filter(keys.is_duplicated()).unique(maintain_order=True)
        numbered = batch.with_row_index("_row").join(twice, on=[SUBJECT, TIME], how="semi")
        rows = numbered["_row"].sort().to_list()
        first = numbered.sort("_row").row(0, named=True)
        late = "" if FRESH not in frame.columns else " or an earlier row"
        return ValueError(
            f"{self.name}: {_rows(rows[:_NAMED], before, len(rows))} the same time as another row "
            f"of the same subject{late}, first for {first[SUBJECT]!r}; one subject has one state "
            "at a time" + _whose(first[SUBJECT])
        )

    def unknown_in(self, batch: pl.DataFrame, cells: Sequence[Any], before: int) -> ValueError:
        """The error for rows with states that were not declared."""
        rows = batch[STATE].is_in(list(cells)).fill_null(False).arg_true().to_list()
        return ValueError(
            f"{self.name}: {_rows(rows[:_NAMED], before, len(rows))} a state that is not declared: "
            f"{_few(cells)}; add it to the states or clean the data"
        )

    # Rows of engines without order are named by subject and time.

    def refuse_rows(self, pairs: pl.DataFrame, frame: Any) -> None:
        """Rows without a time, and equal times, in an engine without order."""
        import narwhals as nw  # noqa: PLC0415

        lost = int(pairs["lost"].sum())
        if lost:
            rows = frame.filter(nw.col(TIME).is_null()).head(_NAMED).collect()
            raise ValueError(
                f"{self.name}: {lost} rows have no time, among them rows of "
                f"{_few(rows[SUBJECT].to_list())}; every entry needs one"
            )
        low: Any = pairs["low"].min()
        if low is not None and low <= 0:
            raise self.duplicates(frame)

    def duplicates(self, frame: Any) -> ValueError:
        """The error for equal times in an engine without order."""
        import narwhals as nw  # noqa: PLC0415

        counted = frame.group_by(SUBJECT, TIME).agg(nw.len().alias("n"))
        rows = counted.filter(nw.col("n") > 1).head(_NAMED).collect()
        named = self._named(rows)
        return ValueError(
            f"{self.name}: several rows of one subject have the same time: {', '.join(named)}; "
            "one subject has one state at a time"
        )

    def unknown(self, frame: Any, cells: Sequence[Any]) -> ValueError:
        """The error for states that were not declared, in an engine without order."""
        import narwhals as nw  # noqa: PLC0415

        rows = frame.filter(nw.col(STATE).is_in(list(cells))).head(_NAMED).collect()
        named = self._named(rows)
        return ValueError(
            f"{self.name}: has states that are not declared: {_few(cells)}, for example "
            f"{', '.join(named)}; add them to the states or clean the data"
        )

    def _named(self, rows: Any) -> list[str]:
        """Rows by subject and time, for people to read."""
        moments = [_moment(time) if self.of_time else time for time in rows[TIME].to_list()]
        return [f"{s!r} at {t}" for s, t in zip(rows[SUBJECT].to_list(), moments, strict=True)]


def refuse_nobody(counts: pl.DataFrame) -> None:
    """Every row needs a subject; for engines without order, seen in their counts."""
    nobody = counts[SUBJECT].is_null()
    if nobody.any():
        raise ValueError(f"table: {int(counts.filter(nobody)['n'].sum())} rows have no subject")


def opened(source: Any, columns: Mapping[str, str], *, numeric: bool) -> Source:
    """The table with its columns under their inner names and times as numbers."""
    import narwhals as nw  # noqa: PLC0415

    if isinstance(source, (str, Path)):
        return _file(Path(source), columns, numeric)
    try:
        frame = nw.from_native(source)
    except TypeError:
        raise ValueError(
            "table: must be a pandas, polars or PySpark frame, a pyarrow table, a duckdb "
            f"relation or the path of a .csv or .parquet file, got {type(source).__name__}"
        ) from None
    kind = frame.implementation
    name = f"{kind.name.lower()} table"
    schema = frame.collect_schema()
    _check_columns(name, schema.names(), columns)
    of_time = _check_kinds(name, schema, columns, numeric)
    if isinstance(frame, nw.LazyFrame) and not kind.is_polars():
        return _unordered(frame, name, kind.is_spark_like(), of_time, columns)
    return _local(frame, name, of_time, columns)


def _unordered(
    frame: Any, name: str, spark: bool, of_time: bool, columns: Mapping[str, str]
) -> Source:
    import narwhals as nw  # noqa: PLC0415

    time, zoned = nw.col(columns["time"]), False
    if spark:
        from pufferkit.frames import spark_source  # noqa: PLC0415

        spark_source.list_files_anew(frame.to_native())
        zoned = spark_source.is_zoned(frame.to_native(), columns["time"])
    if of_time:
        frame = nw.from_native(_microseconds(frame, columns["time"]))
        time = nw.col(TICKS)
    elif (kind := frame.collect_schema()[columns["time"]]).is_integer():
        time = time.cast(nw.Int64)  # differences of small integers would overflow
    elif kind.is_float():
        time = nw.when(time.is_finite()).then(time)
    return Source(name, of_time, spark, zoned, frame=frame.select(*_selection(columns, time)))


def _microseconds(frame: Any, time: str) -> Any:
    """The native frame with the column `TICKS`; narwhals has no word for this here."""
    native = frame.to_native()
    if frame.implementation.is_duckdb():
        import duckdb  # noqa: PLC0415

        column = duckdb.ColumnExpression(time)
        if str(frame.collect_schema()[time]) == "Date":
            column = column.cast("TIMESTAMP")
        found = duckdb.FunctionExpression("epoch_us", column).alias(TICKS)
        return native.select(duckdb.StarExpression(), found)
    from pufferkit.frames import spark_source  # noqa: PLC0415

    return spark_source.with_ticks(native, time, TICKS)


def _local(frame: Any, name: str, of_time: bool, columns: Mapping[str, str]) -> Source:
    import narwhals as nw  # noqa: PLC0415
    import polars as pl  # noqa: PLC0415

    if not frame.implementation.is_polars():
        # Only the columns that count, without copies where the engines agree on the layout.
        cells = {c: _cells(frame.get_column(c)) for c in dict.fromkeys(columns.values())}
        frame = nw.from_native(pl.DataFrame(cells, strict=False))
    time = nw.col(columns["time"])
    kind = frame.collect_schema()[columns["time"]]
    if isinstance(kind, (nw.Date, nw.Datetime)):
        time = time.cast(nw.Datetime("us")) if isinstance(kind, nw.Date) else time
        time = time.dt.timestamp("us")
    elif kind.is_integer():
        time = time.cast(nw.Int64)
    found = frame.select(*_selection(columns, time)).to_native()
    if isinstance(found, pl.LazyFrame):
        return Source(name, of_time, lazy=found)
    return Source(name, of_time, eager=found)


def _cells(series: Any) -> Any:
    """A column of pandas or pyarrow, for polars; timestamps of pandas as microseconds."""
    import narwhals as nw  # noqa: PLC0415
    import polars as pl  # noqa: PLC0415

    if series.implementation.is_pyarrow():
        return pl.Series(series.to_arrow())
    missing = series.is_null().to_numpy()
    if isinstance(series.dtype, nw.Datetime) and not missing.any():
        return series.dt.timestamp("us").to_numpy()
    if series.dtype.is_numeric() and not missing.any():
        return series.to_numpy()
    cells = zip(series.to_list(), missing.tolist(), strict=True)
    plain = [None if gone else _plain(cell) for cell, gone in cells]
    try:
        found = pl.Series(plain, strict=False)
        whole = found.null_count() == int(missing.sum())
    except (pl.exceptions.PolarsError, TypeError):
        whole = False
    if not whole:
        raise ValueError(
            f"table: column {series.name!r} mixes cells of kinds that do not go together; make all "
            "of them text or all of them numbers"
        )
    return found


def _plain(cell: Any) -> Any:
    """A number of numpy in a column of mixed objects as a number of Python."""
    return cell.item() if isinstance(cell, (np.number, np.bool_)) else cell


def _selection(columns: Mapping[str, str], time: Any) -> list[Any]:
    import narwhals as nw  # noqa: PLC0415

    subject = nw.col(columns["subject"]) if "subject" in columns else nw.lit(ONLY)
    return [
        subject.alias(SUBJECT),
        time.alias(TIME),
        nw.col(columns["state"]).alias(STATE),
    ]


def _check_columns(name: str, there: Sequence[str], columns: Mapping[str, str]) -> None:
    for role, column in columns.items():
        if column not in there:
            listed = ", ".join(repr(other) for other in there)
            raise ValueError(f"{name}: has no column {column!r} for {role}; it has {listed}")


def _check_kinds(name: str, schema: Any, columns: Mapping[str, str], numeric: bool) -> bool:
    """Whether times are timestamps; columns of the wrong kind are refused."""
    import narwhals as nw  # noqa: PLC0415

    for role, column in columns.items():
        if schema[column].is_nested():
            raise ValueError(f"{name}: column {column!r} holds lists or records, not one {role}")
    if numeric and not schema[columns["state"]].is_numeric():
        kind = schema[columns["state"]]
        raise ValueError(f"{name}: bins need numbers, but {columns['state']!r} holds {kind}")
    subject = columns.get("subject")
    if subject is not None and schema[subject].is_float():
        raise ValueError(f"{name}: column {subject!r} holds floats; name subjects by text or int")
    kind = schema[columns["time"]]
    of_time = isinstance(kind, (nw.Datetime, nw.Date))
    if not of_time and not kind.is_numeric():
        raise ValueError(
            f"{name}: column {columns['time']!r} holds {kind}, not times; convert it to "
            "timestamps or numbers first"
        )
    return of_time


def _file(file: Path, columns: Mapping[str, str], numeric: bool) -> Source:
    import narwhals as nw  # noqa: PLC0415
    import polars as pl  # noqa: PLC0415

    suffix = right_kind(file)
    try:
        if suffix == ".parquet":
            lazy = pl.scan_parquet(file, glob=False)
        else:
            # Text as it stands: what a cell means is decided here, not guessed by the reader.
            lazy = pl.scan_csv(file, infer_schema=False, glob=False)
        there = lazy.collect_schema().names()
        _check_columns(str(file), there, columns)
        if suffix == ".csv":
            first = lazy.select(columns["time"]).head(1).collect()
            if first.height == 0:
                raise ValueError(f"{file}: has a header but no rows")
            lazy = lazy.with_columns(_parsed(file, columns["time"], first.item()))
            if numeric:
                number = pl.col(columns["state"]).cast(pl.Float64, strict=True)
                lazy = lazy.with_columns(number)
        schema = nw.from_native(lazy).collect_schema()
    except pl.exceptions.NoDataError:
        raise ValueError(f"{file}: is empty") from None
    except pl.exceptions.PolarsError as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(f"{file}: is not a readable {suffix} file ({reason})") from None
    of_time = _check_kinds(str(file), schema, columns, numeric)
    return _local(nw.from_native(lazy), str(file), of_time, columns)


def _parsed(file: Path, time: str, first: str | None) -> pl.Expr:
    """Text as times, all in the way of the first; what cannot be read is missing, and refused."""
    import polars as pl  # noqa: PLC0415

    column, text = pl.col(time), pl.Series([first or ""])
    for kind in (pl.Int64, pl.Float64):
        if text.cast(kind, strict=False).item() is not None:
            return column.cast(kind, strict=False)
    try:
        datetime.fromisoformat((first or "").strip())
    except ValueError:
        raise ValueError(
            f"{file}: row 1 has time {first!r}; write times as numbers or like 2024-03-04T08:15, "
            "all in the same way"
        ) from None
    return column.str.to_datetime(_format(file, first or ""), time_unit="us", strict=False)


def _format(file: Path, text: str) -> str:
    """The format of an ISO timestamp."""
    body = text.strip()
    date, gap, rest = body[:10], body[10:11], body[11:]
    found = "%Y-%m-%d"
    if gap:
        found += gap
        digits = rest.replace("Z", "+").replace("-", "+").partition("+")[0]
        found += {1: "%H:%M", 2: "%H:%M:%S"}.get(digits.count(":"), "?")
        found += "%.f" if "." in digits else ""
        zone = rest[len(digits) :]
        found += ("Z" if zone == "Z" else "%#z") if zone else ""
    if len(date) != 10 or "?" in found:
        raise ValueError(f"{file}: row 1 has time {text!r}; write times like 2024-03-04T08:15")
    return found


def _moment(ticks: int) -> str:
    """Microseconds since 1970 as text; what no calendar holds, as the number."""
    try:
        return str(datetime(1970, 1, 1) + timedelta(microseconds=ticks))
    except OverflowError:
        return str(ticks)


def _whose(subject: Any) -> str:
    """A hint for those who named no column of subjects."""
    return (
        "; are there several? name their column: subject=, or release-each --subject"
        if subject == ONLY
        else ""
    )


def _rows(rows: Sequence[int], before: int, total: int) -> str:
    numbers = ", ".join(str(before + row + 1) for row in rows)
    more = f" and {total - len(rows)} more" if total > len(rows) else ""
    return f"row {numbers} has" if total == 1 else f"rows {numbers}{more} have"


def _few(names: Sequence[Any], most: int = 8) -> str:
    listed = [repr(name) for name in names]
    return ", ".join(listed[:most]) + (
        f" and {len(listed) - most} more" if len(listed) > most else ""
    )
