"""The same call on a cluster: counted and drawn in the executors, paid for once by the driver."""

import os
import shutil
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import pufferkit as pk
from pufferkit.fleet import cluster as cluster_room
from pufferkit.frames import spark as frames
from tests.conftest import require
from tests.frames.spark_sessions import small_spark

STATES = ["rest", "walk", "run"]
BELIEF = pk.MarkovChain.steady([[0.8, 0.15, 0.05], [0.2, 0.6, 0.2], [0.1, 0.3, 0.6]], states=STATES)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
]
COLUMNS = {"subject": "who", "time": "when", "state": "what"}


@pytest.fixture(scope="module")
def spark():
    require("pyspark")
    require("pyarrow")
    with small_spark() as session:
        yield session


@pytest.fixture(scope="module")
def rows():
    """Twelve subjects over three weeks of six-hour steps, with gaps and missing states."""
    rng = np.random.default_rng(8)
    records = []
    for number in range(12):
        now = datetime(2024, 1, 1)
        for code in BELIEF.sample(60 + number, seed=number):
            now += timedelta(hours=6 if rng.random() > 0.03 else 30)
            records.append((f"s{number:02}", now, None if rng.random() < 0.03 else STATES[code]))
    return pl.DataFrame(records, schema=["who", "when", "what"], orient="row")


@pytest.fixture(scope="module")
def cluster(spark, rows):
    return spark.createDataFrame(rows.rows(), "who string, when timestamp_ntz, what string")


@pytest.mark.parametrize(
    "gaps", [{}, {"independent_after": "6h"}, {"every": "12h", "independent_after": "1d"}]
)
def test_the_aggregates_are_those_of_polars(rows, cluster, gaps):
    options = {**COLUMNS, "states": STATES, "window": "7d", **gaps}
    here = pk.read_table(rows, **options)
    far = pk.read_table(cluster, **options)
    there = far.collect()
    with far.counted() as counted:
        public, moves = counted.sizes(), counted.transitions(STATES)
    assert here.subjects == there.subjects == public.subjects
    for name in ("owner", "segment", "window", "first", "last", "spans"):
        expected = getattr(here, name).tolist()
        assert expected == getattr(there, name).tolist(), name
        assert expected == getattr(public, name).tolist(), name
    assert here.pieces.tolist() == there.pieces.tolist()
    assert here.transitions.tolist() == there.transitions.tolist()
    assert here.transitions.tolist() == moves.tolist()
    for name in ("steps", "windows", "step", "independent_after", "begins", "missing"):
        assert getattr(here, name) == getattr(there, name) == getattr(public, name), name


def test_one_row_for_each_subject_and_window_paid_once(rows, cluster, tmp_path):
    options = {**COLUMNS, "states": STATES, "window": "7d"}
    table = pk.read_table(cluster, **options)
    book, call = str(tmp_path / "ledger.db"), {"budget": 20.0, "label": "spring"}
    place = str(tmp_path / "values")
    releases = pk.release_each(table, BELIEF, 10, ledger=book, storage=place, **call)
    first = sorted(releases.collect())
    here = pk.release_each(pk.read_table(rows, **options), BELIEF, 10)
    there = [row.asDict() for row in first]
    assert releases.columns == list(here.columns())
    for one, other in zip(here.rows(), there, strict=True):
        assert one["subject"] == other["subject"]
        assert one["window_start"].replace(tzinfo=None) == other["window_start"]
        assert one["entries"] == other["entries"]
        assert one["scale"] == other["scale"]
        for state in STATES:  # two independent draws around one count
            assert abs(one[state] - other[state]) < 80 * one["scale"]
    # Evaluated again and asked for again: the same numbers, and nothing is charged.
    assert sorted(releases.collect()) == first
    with pk.Ledger(book) as ledger:
        entries = len(ledger.entries())
        again = pk.release_each(table, BELIEF, 10, ledger=ledger, storage=place, **call)
        assert sorted(again.collect()) == first
        assert len(ledger.entries()) == entries
        assert ledger.remaining("s00") == 10.0
        assert ledger.verify() == []
        # Fewer subjects under the same label: their values, at no cost.
        less = pk.read_table(cluster.where("who < 's05'"), **options)
        some = pk.release_each(less, BELIEF, 10, ledger=ledger, storage=place, **call)
        assert sorted(some.collect()) == [row for row in first if row["subject"] < "s05"]
        # Other entries of a window: not what was paid for.
        other = pk.read_table(cluster.where("when < '2024-01-12'"), **options)
        with pytest.raises(ValueError, match=r"only grow at the end|another label"):
            pk.release_each(other, BELIEF, 10, ledger=ledger, storage=place, **call)
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
    release = pk.release_all(pk.read_table(cluster, **options), BELIEF, 10, query="frequencies")
    exact = pk.read_table(rows, **options).counts.sum(axis=0)
    assert np.abs(release.value - exact / exact.sum()).max() < 80 * release.scale[0]


def test_refusals(spark, cluster, tmp_path):
    table = pk.read_table(cluster, **COLUMNS, states=STATES)
    with pytest.raises(ValueError, match="storage"):
        pk.release_each(table, BELIEF, 1)
    when = datetime(2024, 1, 1)
    kind = "who string, when timestamp_ntz, what string"
    place = str(tmp_path / "values")
    for rows, match in [
        ([("a", when, "rest"), ("a", when, "run")], "same time: 'a' at 2024-01-01 00:00:00"),
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


def test_a_file_that_was_added_is_seen(spark, tmp_path):
    folder, options = tmp_path / "rows", {**COLUMNS, "states": STATES}
    folder.mkdir()

    def add(name, subject):
        # Not through Spark, which would notice.
        when = [datetime(2024, 1, 1) + timedelta(hours=n) for n in range(30)]
        frame = {"who": [subject] * 30, "when": when, "what": (STATES * 10)}
        pl.DataFrame(frame).write_parquet(folder / name)

    def subjects(frame, name):
        table = pk.read_table(frame, **options)
        releases = pk.release_each(table, BELIEF, 10, storage=str(tmp_path / name))
        return sorted(row["subject"] for row in releases.select("subject").collect())

    add("1.parquet", "a")
    spark.sql(f"create table diary using parquet location '{folder}'")
    frame = spark.read.parquet(str(folder))
    assert subjects(frame, "values") == ["a"]
    assert pk.read_table(spark.table("diary"), **options).collect().subjects == ("a",)
    kept = spark.sparkContext._jsc.getPersistentRDDs
    assert kept().size() == 0
    # While a table is being released, its kept counts are nobody else's.
    with pk.read_table(frame, **options).counted() as counted:
        assert counted.sizes().subjects == ("a",)
        add("2.parquet", "b")
        assert subjects(spark.read.parquet(str(folder)), "later") == ["a", "b"]
    assert kept().size() == 0
    # The same frame again, and a table of the catalog, which keep a list of their files.
    assert pk.read_table(frame, **options).collect().subjects == ("a", "b")
    assert pk.read_table(spark.table("diary"), **options).collect().subjects == ("a", "b")
    spark.sql("drop table diary")


def test_nobody_pays_before_executors_have_drawn(spark, cluster, tmp_path, monkeypatch):
    table = pk.read_table(cluster, **COLUMNS, states=STATES)
    with pk.Ledger(tmp_path / "ledger.db") as book:
        call = {"ledger": book, "budget": 20.0}
        with monkeypatch.context() as patch:
            patch.setattr(spark.sparkContext, "pythonExec", "/nowhere/python")
            with pytest.raises(ValueError, match=r"nowhere.*nothing was charged.*PYSPARK_PYTHON"):
                pk.release_each(table, BELIEF, 10, storage=str(tmp_path / "values"), **call)
        with monkeypatch.context() as patch:
            patch.setattr(pk, "__version__", "9.9")
            with pytest.raises(ValueError, match=r"pufferkit is .* there and 9\.9 here"):
                pk.release_each(table, BELIEF, 10, storage=str(tmp_path / "values"), **call)
        (tmp_path / "file").write_text("not a folder")
        with pytest.raises(ValueError, match="nothing was charged"):
            pk.release_each(table, BELIEF, 10, storage=str(tmp_path / "file"), **call)
        assert book.accounts() == []
    assert not [*(tmp_path / "values").glob("*")]


def test_both_calls_take_the_same_arguments_on_every_engine(rows, cluster, tmp_path):
    options, steps = {**COLUMNS, "states": STATES}, []
    call = {"storage": str(tmp_path / "values"), "progress": lambda *done: steps.append(done)}
    for source in (rows, cluster):
        for release in (pk.release_each, pk.release_all):
            release(pk.read_table(source, **options), BELIEF, 10, **call)
    assert steps == [(12, 12), (1, 1), (12, 12), (1, 1)]


def test_next_week_under_the_same_label(rows, cluster, tmp_path):
    options = {**COLUMNS, "states": STATES, "max_gap": "6h", "window": "7d"}
    ledgers = {"here": tmp_path / "here.db", "there": tmp_path / "there.db"}

    def until(where, end):
        near = where == "here"
        source = rows.filter(pl.col("when") < end) if near else cluster.where(f"when < '{end}'")
        table = pk.read_table(source, **options)
        call = {"ledger": str(ledgers[where]), "budget": 40.0, "label": "weekly"}
        return pk.release_each(table, BELIEF, 5, storage=str(tmp_path / "values"), **call)

    seen = []
    for end in (datetime(2024, 1, 8), datetime(2024, 1, 12)):
        here, there = until("here", end), sorted(until("there", end).collect())
        public = [tuple(row.values())[:4] for row in here.rows()]
        assert [tuple(row)[:4] for row in there] == [
            (subject, start.replace(tzinfo=None), *rest) for subject, start, *rest in public
        ]
        assert set(seen) < set(there)
        seen = there
        # What everybody has paid is the same, too.
        with pk.Ledger(ledgers["here"]) as one, pk.Ledger(ledgers["there"]) as other:
            paid = {account.account: account.total for account in other.accounts()}
            assert all(paid[account.account] == account.total for account in one.accounts())
            assert other.verify() == []
    # The second week was not over: it has grown, and is refused on every engine.
    for where in ledgers:
        with pytest.raises(ValueError, match="another label"):
            until(where, datetime(2024, 1, 15))


def test_a_job_that_fails_and_two_drivers_at_once(cluster, tmp_path, monkeypatch):
    table = pk.read_table(cluster, **COLUMNS, states=STATES)
    place, call = tmp_path / "values", {"budget": 10.0, "label": "spring"}
    call |= {"ledger": str(tmp_path / "ledger.db"), "storage": str(place)}

    def fail(batches, **_options):
        raise OSError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(frames, "_draw_batches", fail)
        with pytest.raises(RuntimeError, match=r"disk is full.*under the same charge"):
            pk.release_each(table, BELIEF, 10, **call)
    write, others = cluster_room._ClusterDraw.write, []

    def write_after_another(draw, *job):
        if not others:
            others.append(None)
            others.extend(sorted(pk.release_each(table, BELIEF, 10, **call).collect()))
        write(draw, *job)

    monkeypatch.setattr(cluster_room._ClusterDraw, "write", write_after_another)
    releases = pk.release_each(table, BELIEF, 10, **call)
    assert [None, *sorted(releases.collect())] == others
    with pk.Ledger(call["ledger"]) as book:
        assert book.remaining("s00") == 0
        assert sum(entry.epsilon > 0 for entry in book.entries()) == 13
    # What was not noted is gone.
    assert [folder.name for folder in place.iterdir()] == [
        Path(releases.inputFiles()[0]).parent.name
    ]
