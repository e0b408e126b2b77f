"""One reading of time on every engine, whatever zone the session, the machine or Python is in."""

import os
import time
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import duckdb
import pandas as pd
import polars as pl
import pytest

import pufferkit as pk

STATES = ["rest", "walk", "run"]
ZONES = ["UTC", "America/New_York", "Australia/Lord_Howe"]
COLUMNS = {"subject": "who", "time": "when", "state": "what"}
CHANGES = {"spring": datetime(2024, 3, 10, 2), "autumn": datetime(2024, 11, 3, 1)}


def _hours(zone=None):
    """600 hours around both changes of the clock in New York, 312 of them before."""
    return [
        (who, (change + timedelta(hours=n - 312)).replace(tzinfo=zone), STATES[n % 3])
        for who, change in CHANGES.items()
        for n in range(600)
    ]


def _instants():
    start = {
        who: change.replace(tzinfo=ZoneInfo("America/New_York")) for who, change in CHANGES.items()
    }
    return [
        (who, start[who].astimezone(UTC) + timedelta(hours=n - 312), STATES[n % 3])
        for who in start
        for n in range(600)
    ]


def _days():
    return [
        (who, date(change.year, change.month, change.day) + timedelta(days=n - 7), STATES[n % 3])
        for who, change in CHANGES.items()
        for n in range(14)
    ]


KINDS = {
    "naive": (_hours(), "timestamp_ntz", {"independent_after": "1h", "window": "1d"}),
    "grid": (_hours(), "timestamp_ntz", {"every": "1h", "window": "7d"}),
    "dates": (_days(), "date", {"independent_after": "1d", "window": "7d"}),
    "zoned": (_instants(), "timestamp", {"independent_after": "1h", "window": "1d"}),
}


@contextmanager
def python_zone(zone):
    before = os.environ.get("TZ")
    os.environ["TZ"] = zone
    time.tzset()
    try:
        yield
    finally:
        if before is None:
            del os.environ["TZ"]
        else:
            os.environ["TZ"] = before
        time.tzset()


def _facts(table):
    arrays = {n: getattr(table, n).tolist() for n in ("owner", "segment", "window", "pieces")}
    arrays["transitions"] = table.transitions.tolist()
    return arrays | {"subjects": table.subjects, "steps": table.steps, "begins": table.begins}


def _expected(rows, options):
    table = pk.read(pl.DataFrame(rows, schema=list(COLUMNS.values()), orient="row"), **options)
    # No hour is lost and none comes twice: one segment for each subject.
    assert table.segment_lengths.tolist() == [len(rows) // 2] * 2
    return _facts(table)


@pytest.mark.parametrize(
    "kind", ["zoned", *(pytest.param(k, marks=pytest.mark.slow) for k in KINDS if k != "zoned")]
)
def test_local_engines_and_files(kind, tmp_path):
    rows, _, rules = KINDS[kind]
    options = {**COLUMNS, **rules, "states": STATES}
    expected = _expected(rows, options)
    for zone in ZONES:
        with python_zone(zone):
            frame = pl.DataFrame(rows, schema=list(COLUMNS.values()), orient="row")
            frame.write_parquet(tmp_path / "rows.parquet")
            text = [(who, when.isoformat(), what) for who, when, what in rows]
            pl.DataFrame(text, schema=frame.columns, orient="row").write_csv(tmp_path / "rows.csv")
            base = duckdb.connect()
            base.execute(f"set TimeZone = '{zone}'")
            base.register("arrow", frame.to_arrow())
            pandas = frame.to_pandas() if kind != "dates" else None
            sources = {
                "polars": frame,
                "lazy": frame.lazy(),
                "pyarrow": frame.to_arrow(),
                "duckdb": base.sql("select * from arrow"),
                "parquet": tmp_path / "rows.parquet",
                "csv": tmp_path / "rows.csv",
            }
            if kind == "zoned":  # a column with the zone of a place has its days, unless told
                here = frame.with_columns(pl.col("when").dt.convert_time_zone(zone))
                assert _facts(pk.read(here, **options, timezone="UTC")) == expected
            if pandas is not None:
                sources["pandas"] = pandas
                gone = pd.concat([pandas, pandas.iloc[:0]])
                sources["pandas objects"] = gone
            for name, source in sources.items():
                assert _facts(pk.read(source, **options)) == expected, (name, zone)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")
def test_spark(spark):
    expected = {}
    for kind, (rows, _, rules) in KINDS.items():
        expected[kind] = _expected(rows, {**COLUMNS, **rules, "states": STATES})
    zone_of = spark._jvm.java.util.TimeZone
    before = spark.conf.get("spark.sql.session.timeZone"), zone_of.getDefault()
    try:
        # Session, Java and Python each in every zone once.
        for number, session in enumerate(ZONES):
            java, python = ZONES[number - 1], ZONES[number - 2]
            spark.conf.set("spark.sql.session.timeZone", session)
            zone_of.setDefault(zone_of.getTimeZone(java))
            with python_zone(python):
                for kind, (rows, name, rules) in KINDS.items():
                    frame = spark.createDataFrame(rows, f"who string, when {name}, what string")
                    table = pk.read(frame, **COLUMNS, **rules, states=STATES)
                    assert _facts(table.collect()) == expected[kind], (kind, session)
    finally:
        spark.conf.set("spark.sql.session.timeZone", before[0])
        zone_of.setDefault(before[1])
