"""The same call on a cluster: counted and drawn in the executors, paid for once by the driver."""

import os
import shutil
import sys
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import pufferkit as pk
from tests.conftest import require

STATES = ["rest", "walk", "run"]
BELIEF = pk.MarkovChain.steady([[0.8, 0.15, 0.05], [0.2, 0.6, 0.2], [0.1, 0.3, 0.6]], states=STATES)
pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")
COLUMNS = {"subject": "who", "time": "when", "state": "what"}


@pytest.fixture(scope="module")
def spark():
    require("pyspark")
    require("pyarrow")
    from pyspark.sql import SparkSession

    # The executors' Python must find this package, wherever the tests are run from.
    root = str(Path(pk.__file__).parents[1])
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.ui.showConsoleProgress": "false",
    }
    path = os.environ.get("PYTHONPATH")
    patch = pytest.MonkeyPatch()
    patch.setenv("PYTHONPATH", root + (os.pathsep + path if path else ""))
    patch.setenv("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[2]").appName("pufferkit")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
    patch.undo()


@pytest.fixture(scope="module")
def rows():
    """Twelve subjects over three weeks of six-hour steps, with gaps and missing states."""
    rng = np.random.default_rng(8)
    found = []
    for number in range(12):
        now = datetime(2024, 1, 1)
        for code in BELIEF.sample(60 + number, seed=number):
            now += timedelta(hours=6 if rng.random() > 0.03 else 30)
            found.append((f"s{number:02}", now, None if rng.random() < 0.03 else STATES[code]))
    return pl.DataFrame(found, schema=["who", "when", "what"], orient="row")


@pytest.fixture(scope="module")
def cluster(spark, rows):
    return spark.createDataFrame(rows.rows(), "who string, when timestamp, what string")


@pytest.mark.parametrize(
    "gaps", [{}, {"independent_after": "6h"}, {"every": "12h", "independent_after": "1d"}]
)
def test_the_aggregates_are_those_of_polars(rows, cluster, gaps):
    options = {**COLUMNS, "states": STATES, "window": "7d", **gaps}
    here = pk.read_table(rows, **options)
    far = pk.read_table(cluster, **options)
    there, public = far.collect(), far.sizes()
    assert here.subjects == there.subjects == public.subjects
    for name in ("owner", "segment", "window", "first", "last", "spans"):
        expected = getattr(here, name).tolist()
        assert expected == getattr(there, name).tolist(), name
        assert expected == getattr(public, name).tolist(), name
    assert here.pieces.tolist() == there.pieces.tolist()
    assert here.transitions.tolist() == there.transitions.tolist()
    assert here.transitions.tolist() == far.transitions(STATES).tolist()
    for name in ("steps", "windows", "step", "independent_after", "begins", "missing"):
        assert getattr(here, name) == getattr(there, name) == getattr(public, name), name


def test_one_row_for_each_subject_and_window_paid_once(rows, cluster, tmp_path):
    options = {**COLUMNS, "states": STATES, "window": "7d"}
    table = pk.read_table(cluster, **options)
    book, call = str(tmp_path / "ledger.db"), {"budget": 20.0, "label": "spring"}
    place = str(tmp_path / "values")
    found = pk.release_each(table, BELIEF, 10, ledger=book, storage=place, **call)
    first = sorted(found.collect())
    here = pk.release_each(pk.read_table(rows, **options), BELIEF, 10)
    there = [row.asDict() for row in first]
    assert found.columns == list(here.columns())
    for one, other in zip(here.rows(), there, strict=True):
        assert one["subject"] == other["subject"]
        assert one["window_start"].replace(tzinfo=None) == other["window_start"]
        assert one["entries"] == other["entries"]
        assert one["scale"] == other["scale"]
        for state in STATES:  # two independent draws around one count
            assert abs(one[state] - other[state]) < 80 * one["scale"]
    # Evaluated again and asked for again: the same numbers, and nothing is charged.
    assert sorted(found.collect()) == first
    with pk.Ledger(book) as ledger:
        entries = len(ledger.entries())
        again = pk.release_each(table, BELIEF, 10, ledger=ledger, storage=place, **call)
        assert sorted(again.collect()) == first
        assert len(ledger.entries()) == entries
        assert ledger.remaining("s00") == 10.0
        assert ledger.verify() == []
        # A label is for one set of entries: nothing is drawn twice under one charge.
        less = pk.read_table(cluster.where("who < 's05'"), **options)
        with pytest.raises(ValueError, match="another label"):
            pk.release_each(less, BELIEF, 10, ledger=ledger, storage=place, **call)
        assert len(ledger.entries()) == entries
        # Values that are gone are not drawn again.
        shutil.rmtree(place)
        with pytest.raises(ValueError, match="not drawn again"):
            pk.release_each(table, BELIEF, 10, ledger=ledger, storage=place, **call)
        # The same accounts serve a run on one machine; a whole series costs what the profile says.
        with pytest.raises(pk.OverBudget):
            pk.release_each(
                pk.read_table(rows, **COLUMNS, states=STATES),
                BELIEF,
                20,
                ledger=ledger,
                budget=20.0,
            )


def test_all_subjects_together(rows, cluster):
    options = {**COLUMNS, "states": STATES, "max_gap": "6h"}
    found = pk.release_all(pk.read_table(cluster, **options), BELIEF, 10, query="frequencies")
    exact = pk.read_table(rows, **options).counts.sum(axis=0)
    assert np.abs(found.value - exact / exact.sum()).max() < 80 * found.scale[0]


def test_refusals(spark, cluster, tmp_path):
    table = pk.read_table(cluster, **COLUMNS, states=STATES)
    with pytest.raises(ValueError, match="storage"):
        pk.release_each(table, BELIEF, 1)
    when = datetime(2024, 1, 1)
    kind = "who string, when timestamp, what string"
    place = str(tmp_path / "values")
    for rows, match in [
        ([("a", when, "rest"), ("a", when, "run")], "same time: 'a' at"),
        ([("a", when, "swim")], "not declared: 'swim'"),
    ]:
        bad = pk.read_table(spark.createDataFrame(rows, kind), **COLUMNS, states=STATES)
        with pytest.raises(ValueError, match=match):
            pk.release_each(bad, BELIEF, 1, storage=place)
    assert not os.path.exists(place)


def test_beliefs_counted_from_the_table_are_refused(rows, cluster, tmp_path):
    options = {**COLUMNS, "states": STATES, "max_gap": "6h"}
    counted = pk.read_table(rows, **options).transitions
    fitted = pk.ChainClass.around(counted, 0.9, states=STATES)
    table = pk.read_table(cluster, **options)
    with pk.Ledger(tmp_path / "ledger.db") as book:
        with pytest.raises(ValueError, match="fitted to the very series"):
            pk.release_each(table, fitted, 1, ledger=book, budget=1, storage=str(tmp_path / "out"))
        assert book.accounts() == []


def test_float_times_are_those_of_polars(spark):
    times = [round(0.1 * n, 1) for n in range(40) if n != 30]
    cells = [("a", time, STATES[n % 3]) for n, time in enumerate(times)]
    schema = "who string, when double, what string"
    frame = spark.createDataFrame(cells, schema)
    for options in ({}, {"every": 0.1}):
        for after, lengths in ({}, (40,)), ({"independent_after": 0.1}, (30, 9)):
            table = pk.read_table(frame, **COLUMNS, **options, **after).collect()
            assert table.lengths_of(0) == lengths
    lost = spark.createDataFrame([*cells, ("a", float("nan"), "rest")], schema)
    with pytest.raises(ValueError, match="1 rows have no time"):
        pk.read_table(lost, **COLUMNS, max_gap=0.1).collect()
