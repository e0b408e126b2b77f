"""Details of reading a table in Spark: its types of time, and its cached list of files."""

from __future__ import annotations

from typing import Any

_DAY = 86_400_000_000
_EPOCH = "timestamp_ntz'1970-01-01 00:00:00'"


def is_zoned(native: Any, time: str) -> bool:
    """Whether a column holds instants, which Spark calls ``timestamp``."""
    return str(native.schema[time].dataType.typeName()) == "timestamp"


def with_ticks(native: Any, time: str, name_of_ticks: str) -> Any:
    """The frame with one more column: its times in microseconds since 1970.

    A date or a ``timestamp_ntz`` has no zone. Cast to ``timestamp`` it would get that of the
    session, and with it hours that come twice or never; so it is subtracted from its own epoch.
    """
    from pyspark.sql import functions as f  # noqa: PLC0415

    name = quoted(time)
    kind = native.schema[time].dataType.typeName()
    if kind == "date":
        ticks = f"unix_date({name}) * {_DAY}L"
    elif kind == "timestamp_ntz":
        seconds = f"cast({name} - {_EPOCH} as interval second)"
        ticks = f"cast(cast({seconds} as decimal(20, 6)) * 1000000 as bigint)"
    else:
        ticks = f"unix_micros({name})"
    return native.withColumn(name_of_ticks, f.expr(ticks))


def with_quotient(native: Any, time: str, origin: int, width: int, name: str) -> Any:
    """The frame with the column (time - origin) // width, in integer arithmetic throughout.

    Spark's division uses floats, which do not hold every integer beyond 2**53: times in nanoseconds
    would fall into a neighbouring window.
    """
    from pyspark.sql import functions as f  # noqa: PLC0415

    since = f"({quoted(time)} - {origin}L)"
    return native.withColumn(name, f.expr(f"({since} - pmod({since}, {width}L)) div {width}L"))


def moment(ticks: Any, *, zoned: bool) -> Any:
    """Back again: a column of microseconds as timestamps with or without a zone."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    if zoned:
        return f.timestamp_micros(ticks)
    seconds = ticks.cast("decimal(24, 0)") / f.lit(1_000_000)
    none = f.lit(0)
    return f.expr(_EPOCH) + f.make_dt_interval(none, none, none, seconds.cast("decimal(18, 6)"))


def list_files_anew(native: Any) -> None:
    """Make Spark list the files of a frame again.

    It lists the files of a folder or table once and keeps the list for the whole session, so rows
    that arrived later would be missing from what is released and charged.
    """
    if not hasattr(native, "_jdf"):  # a remote session (Spark Connect) lists on its own side
        return
    leaves = native._jdf.queryExecution().analyzed().collectLeaves()
    for number in range(leaves.size()):
        leaf = leaves.apply(number)
        if leaf.getClass().getSimpleName() == "LogicalRelation":
            relation = leaf.relation()
            if relation.getClass().getSimpleName() == "HadoopFsRelation":
                relation.location().refresh()


def quoted(name: str) -> str:
    """The name of a column in SQL."""
    return "`" + name.replace("`", "``") + "`"
