"""The same call on a cluster: counted in the executors, paid for once by the driver, in batches."""

import os
import shutil
import signal
from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest

import pufferkit as pk
from pufferkit.account import subjects as accounts_room
from pufferkit.account import subjects as run_room
from pufferkit.cluster import packs as cluster_room
from pufferkit.cluster import spark_workers
from tests.asking import for_all, for_each

STATES = ["rest", "walk", "run"]
BELIEF = pk.MarkovChain.steady([[0.8, 0.15, 0.05], [0.2, 0.6, 0.2], [0.1, 0.3, 0.6]], states=STATES)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
]
COLUMNS = {"subject": "who", "time": "when", "state": "what"}


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
    here = pk.read(rows, **options)
    far = pk.read(cluster, **options)
    there = far.collect()
    with far.counted() as counted:
        (public,), moves = counted.sizes(), counted.transitions(STATES)
        assert counted.lengths.longest.tolist() == sorted(set(here.longest.tolist()))
        assert counted.lengths.subjects == 12
        assert counted.lengths.segments == len(here.segment_lengths)
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
    table = pk.read(cluster, **options)
    book, call = str(tmp_path / "ledger.db"), {"budget": 20.0, "label": "spring"}
    place = str(tmp_path / "values")
    releases = for_each(table, BELIEF, 10, ledger=book, storage=place, **call)
    first = sorted(releases.collect())
    here = for_each(pk.read(rows, **options), BELIEF, 10)
    there = [row.asDict() for row in first]
    assert releases.columns == list(here.columns())
    for one, other in zip(here.table_rows(), there, strict=True):
        assert one["subject"] == other["subject"]
        assert one["window_start"].replace(tzinfo=None) == other["window_start"]
        assert one["entries"] == other["entries"]
        # The first calibrations of a process are interpreted, later ones compiled.
        assert one["scale"] == pytest.approx(other["scale"], rel=1e-12)
        for state in STATES:  # two independent draws around one count
            assert abs(one[state] - other[state]) < 80 * one["scale"]
    # Evaluated again and asked for again: the same numbers, and nothing is charged.
    assert sorted(releases.collect()) == first
    with pk.Ledger(book) as ledger:
        entries = len(ledger.entries())
        again = for_each(table, BELIEF, 10, ledger=ledger, storage=place, **call)
        assert sorted(again.collect()) == first
        assert len(ledger.entries()) == entries
        assert ledger.remaining("s00") == 10.0
        assert ledger.verify() == []
        # Fewer subjects under the same label: their values, at no cost.
        less = pk.read(cluster.where("who < 's05'"), **options)
        some = for_each(less, BELIEF, 10, ledger=ledger, storage=place, **call)
        assert sorted(some.collect()) == [row for row in first if row["subject"] < "s05"]
        # Other entries of a window: not what was paid for.
        other = pk.read(cluster.where("when < '2024-01-12'"), **options)
        with pytest.raises(ValueError, match=r"only grow at the end|another label"):
            for_each(other, BELIEF, 10, ledger=ledger, storage=place, **call)
        assert len(ledger.entries()) == entries
        # Files that are gone are written again, with the same values.
        shutil.rmtree(place)
        anew = for_each(table, BELIEF, 10, ledger=ledger, storage=place, **call)
        assert sorted(anew.collect()) == first
        assert len(ledger.entries()) == entries
        # The same accounts serve a run on one machine; a whole series costs what the profile says.
        with pytest.raises(pk.OverBudget):
            for_each(
                pk.read(rows, **COLUMNS, states=STATES),
                BELIEF,
                20,
                ledger=ledger,
                budget=20.0,
            )


POINTS = {"rest": 0, "walk": 2, "run": 5}
ASKED = [
    (pk.count("run"), None),
    (pk.relative_frequencies(), "7d"),
    (pk.total(POINTS), "7d"),
    (pk.mean(POINTS), None),
    (pk.variance(POINTS, clip=(0, 5)), None),
    (pk.quantile(0.5, POINTS), None),
    (pk.episodes("run"), None),
    (pk.stays("walk"), None),
    (pk.transition_counts(), None),
    (pk.days_with("run", "6h"), None),
    (pk.by_time("hour"), None),
    (pk.by_time("hour"), "1h"),
]


@pytest.mark.parametrize(("query", "window"), ASKED, ids=lambda asked: str(asked)[:30])
def test_every_question_of_each_subject_and_of_all(rows, cluster, tmp_path, query, window):
    """The same rows as on one machine, within the noise; paid once, and then for nothing."""
    options = {**COLUMNS, "states": STATES, "window": window}
    far, near = pk.read(cluster, **options), pk.read(rows, **options)
    book, place = pk.Ledger(str(tmp_path / "ledger.db")), str(tmp_path / "values")
    call = {"query": query, "ledger": book, "budget": 60.0, "label": "x", "anyway": True}
    paid = for_each(far, BELIEF, 50, storage=place, **call)
    free = for_each(far, BELIEF, 50, query=query, storage=place, anyway=True)
    here = for_each(near, BELIEF, 50, query=query, anyway=True)
    for there in (paid, free):
        lines = sorted(there.collect())
        assert [line["subject"] for line in lines] == list(here.subjects)
        assert [line["entries"] for line in lines] == here.entries.tolist()
        numbers = np.array([list(line)[-len(here.labels) :] for line in lines])
        names = [name.removeprefix("state ") for name in there.columns]
        assert names[-len(here.labels) :] == list(here.labels)
        apart = np.abs(numbers - here.raw) / here.scale[:, None]
        assert here.noise == "noisy choice" or apart.max() < 60
    entries = len(book.entries())
    again = for_each(far, BELIEF, 50, storage=place, **call)
    assert sorted(again.collect()) == sorted(paid.collect())
    # One machine finds what the cluster paid for.
    local = for_each(near, BELIEF, 50, **{**call, "confirm_data": True})
    assert local.raw.tolist() == [
        list(line)[-len(here.labels) :] for line in sorted(paid.collect())
    ]
    assert len(book.entries()) == entries
    together = for_all(far, BELIEF, 50, query=query, anyway=True)
    same = for_all(near, BELIEF, 50, query=query, anyway=True)
    assert together.entries.tolist() == same.entries.tolist()
    apart = np.abs(together.raw - same.raw) / same.scale[:, None]
    assert same.noise == "noisy choice" or apart.max() < 60


def test_all_subjects_together(rows, cluster, tmp_path):
    options = {**COLUMNS, "states": STATES, "independent_after": "6h"}
    far, near = pk.read(cluster, **options), pk.read(rows, **options)
    for query, window in ("frequencies", None), ("histogram", "7d"):
        own = {**options, "window": window}
        release = for_all(pk.read(cluster, **own), BELIEF, 10, query=query)
        here = for_all(pk.read(rows, **own), BELIEF, 10, query=query)
        assert np.abs(release.value - here.value).max() < 80 * release.scale.max()
        for name in ("scale", "entries", "lengths"):
            assert getattr(release, name).tolist() == getattr(here, name).tolist(), name
        assert (release.notes, release.labels) == (here.notes, here.labels)
        assert pk.verify(release).ok
    groups = {subject: subject < "s05" for subject in near.subjects}
    both = for_all(far, BELIEF, 10, groups=groups, keys=[True, False])
    assert both.groups == (True, False)


def test_everybody_pays_for_the_sum_and_it_is_drawn_once(cluster, tmp_path, monkeypatch):
    """Killed among the charges, and again before the draw; two charges do not fit the budget."""
    monkeypatch.setattr(run_room, "CHUNK", 5)
    table = pk.read(cluster, **COLUMNS, states=STATES, window="7d")
    call = {"ledger": str(tmp_path / "ledger.db"), "budget": 6.0, "label": "spring"}
    pay, calls = accounts_room.Accounts.pay, []

    def pay_once_then_die(accounts, batch, *shared):
        if calls:
            raise KeyboardInterrupt
        calls.append(sum(len(rows) for _, rows in batch))
        return pay(accounts, batch, *shared)

    def die_before_the_draw(accounts, batch, *shared):
        return 1 / 0 if shared else pay(accounts, batch)

    with monkeypatch.context() as patch:
        patch.setattr(accounts_room.Accounts, "pay", pay_once_then_die)
        with pytest.raises(KeyboardInterrupt):
            for_all(table, BELIEF, 4, **call)
    with pk.Ledger(call["ledger"]) as book:
        assert 0 < len([entry for entry in book.entries() if entry.epsilon]) == calls[0]
        assert not [entry for entry in book.entries() if entry.value is not None]
    with monkeypatch.context() as patch:
        patch.setattr(accounts_room.Accounts, "pay", die_before_the_draw)
        with pytest.raises(ZeroDivisionError):
            for_all(table, BELIEF, 4, **call)
    once = for_all(table, BELIEF, 4, **call)
    again = for_all(table, BELIEF, 4, **call)
    assert once.value.tolist() == again.value.tolist()
    with pk.Ledger(call["ledger"]) as book:
        entries = book.entries()
        assert [entry.account for entry in entries if entry.value is not None] == ["(all subjects)"]
        assert all(account.total == 4_000_000 for account in book.accounts())
        assert len(book.accounts()) == 13
        assert book.verify() == []
        with pytest.raises(pk.OverBudget, match=r"and \d+ more"):
            for_all(table, BELIEF, 4, **{**call, "label": "summer"})
        fewer = pk.read(cluster.where("who < 's05'"), **COLUMNS, states=STATES, window="7d")
        with pytest.raises(ValueError, match="other data"):
            for_all(fewer, BELIEF, 4, **call)
        assert len(book.entries()) == len(entries)


@pytest.mark.parametrize("budget", [0.4, 6.0])
def test_a_sum_taken_up_again_with_other_noise_is_paid_for(cluster, tmp_path, monkeypatch, budget):
    """Without the longest series less noise is drawn: what was charged for more does not cover it.

    Those who had paid before the first run was killed pay for both, or nobody pays for the second.
    """
    monkeypatch.setattr(run_room, "CHUNK", 5)
    call = {"ledger": str(tmp_path / "ledger.db"), "budget": budget, "mechanism": "group_dp"}
    pay = accounts_room.Accounts.pay

    def pay_then_die(accounts, batch):
        pay(accounts, batch)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(accounts_room.Accounts, "pay", pay_then_die)
        with pytest.raises(KeyboardInterrupt):
            for_all(pk.read(cluster, **COLUMNS, states=STATES), BELIEF, 4, **call)
    with pk.Ledger(call["ledger"]) as book:
        charged = {entry.account: entry.body["scale"] for entry in book.entries() if entry.epsilon}
        before = {account.account: account.total for account in book.accounts()}
    kept = sorted(charged)[:2]
    fewer = pk.read(cluster.where(cluster.who.isin(kept)), **COLUMNS, states=STATES)
    if budget < 1:
        with pytest.raises(pk.OverBudget, match="short by"):
            for_all(fewer, BELIEF, 4, **call)
        with pk.Ledger(call["ledger"]) as book:
            assert {one.account: one.total for one in book.accounts()} == before
        return
    drawn = for_all(fewer, BELIEF, 4, **call)
    assert drawn.scale[0] == for_all(fewer, BELIEF, 4, mechanism="group_dp").scale[0]
    assert drawn.scale[0] < min(charged.values())
    with pk.Ledger(call["ledger"]) as book:
        totals = {account.account: account.total for account in book.accounts()}
        assert all(totals[who] > 2 * before[who] > 0 for who in kept)
        assert totals["(all subjects)"] == max(totals[who] for who in kept)
    assert pk.verify(drawn).ok


def test_refusals(spark, cluster, tmp_path):
    table = pk.read(cluster, **COLUMNS, states=STATES)
    with pytest.raises(ValueError, match="storage"):
        for_each(table, BELIEF, 1)
    when = datetime(2024, 1, 1)
    kind = "who string, when timestamp_ntz, what string"
    place = str(tmp_path / "values")
    for rows, match in [
        (
            [("a", when, "rest"), ("a", when, "run")],
            "rows of 'a' at 2024-01-01 00:00:00 have the same time",
        ),
        ([("a", when, "swim")], "not declared: 'swim'"),
    ]:
        bad = pk.read(spark.createDataFrame(rows, kind), **COLUMNS, states=STATES)
        with pytest.raises(ValueError, match=match):
            for_each(bad, BELIEF, 1, storage=place)
    assert not os.path.exists(place)


def test_beliefs_counted_from_the_table_are_refused(rows, cluster, tmp_path):
    options = {**COLUMNS, "states": STATES, "independent_after": "6h"}
    counted = pk.read(rows, **options).transitions
    fitted = pk.ChainClass.around(counted, 0.9, states=STATES)
    table = pk.read(cluster, **options)
    with pk.Ledger(tmp_path / "ledger.db") as book:
        with pytest.raises(ValueError, match="fitted to the very series"):
            for_each(table, fitted, 1, ledger=book, budget=1, storage=str(tmp_path / "out"))
        assert book.accounts() == []


def test_float_times_are_those_of_polars(spark):
    times = [round(0.1 * n, 1) for n in range(40) if n != 30]
    cells = [("a", time, STATES[n % 3]) for n, time in enumerate(times)]
    schema = "who string, when double, what string"
    frame = spark.createDataFrame(cells, schema)
    for options in ({}, {"every": 0.1}):
        for after, lengths in ({}, (40,)), ({"independent_after": 0.1}, (30, 9)):
            table = pk.read(frame, **COLUMNS, **options, **after).collect()
            assert table.lengths_of(0) == lengths
    lost = spark.createDataFrame([*cells, ("a", float("nan"), "rest")], schema)
    with pytest.raises(ValueError, match="1 rows have no time"):
        pk.read(lost, **COLUMNS, independent_after=0.1).collect()


def test_a_file_that_was_added_is_seen(spark, tmp_path):
    folder, options = tmp_path / "rows", {**COLUMNS, "states": STATES}
    folder.mkdir()

    def add(name, subject):
        # Not through Spark, which would notice.
        when = [datetime(2024, 1, 1) + timedelta(hours=n) for n in range(30)]
        frame = {"who": [subject] * 30, "when": when, "what": (STATES * 10)}
        pl.DataFrame(frame).write_parquet(folder / name)

    def subjects(frame, name):
        table = pk.read(frame, **options)
        releases = for_each(table, BELIEF, 10, storage=str(tmp_path / name))
        return sorted(row["subject"] for row in releases.select("subject").collect())

    add("1.parquet", "a")
    spark.sql(f"create table diary using parquet location '{folder}'")
    frame = spark.read.parquet(str(folder))
    assert subjects(frame, "values") == ["a"]
    assert pk.read(spark.table("diary"), **options).collect().subjects == ("a",)
    kept = spark.sparkContext._jsc.getPersistentRDDs
    assert kept().size() == 0
    # While a table is being released, its kept counts are nobody else's.
    with pk.read(frame, **options).counted() as counted:
        assert next(counted.sizes()).subjects == ("a",)
        add("2.parquet", "b")
        assert subjects(spark.read.parquet(str(folder)), "later") == ["a", "b"]
    assert kept().size() == 0
    # The same frame again, and a table of the catalog, which keep a list of their files.
    assert pk.read(frame, **options).collect().subjects == ("a", "b")
    assert pk.read(spark.table("diary"), **options).collect().subjects == ("a", "b")
    spark.sql("drop table diary")


def test_nobody_pays_before_executors_have_drawn(spark, cluster, tmp_path, monkeypatch):
    table = pk.read(cluster, **COLUMNS, states=STATES)
    with pk.Ledger(tmp_path / "ledger.db") as book:
        call = {"ledger": book, "budget": 20.0}
        with monkeypatch.context() as patch:
            patch.setattr(spark.sparkContext, "pythonExec", "/nowhere/python")
            with pytest.raises(ValueError, match=r"nowhere.*nothing was charged.*PYSPARK_PYTHON"):
                for_each(table, BELIEF, 10, storage=str(tmp_path / "values"), **call)
        with monkeypatch.context() as patch:
            patch.setattr(pk, "__version__", "9.9")
            with pytest.raises(ValueError, match=r"pufferkit is .* there and 9\.9 here"):
                for_each(table, BELIEF, 10, storage=str(tmp_path / "values"), **call)
            with pytest.raises(ValueError, match=r"pufferkit is .* there and 9\.9 here"):
                for_all(table, BELIEF, 10, **call)
        (tmp_path / "file").write_text("not a folder")
        with pytest.raises(ValueError, match="nothing was charged"):
            for_each(table, BELIEF, 10, storage=str(tmp_path / "file"), **call)
        assert book.accounts() == []
    assert not [*(tmp_path / "values").glob("*")]


def test_both_calls_take_the_same_arguments_on_every_engine(rows, cluster, tmp_path):
    options, steps = {**COLUMNS, "states": STATES}, []
    call = {"storage": str(tmp_path / "values"), "progress": lambda *done: steps.append(done)}
    for source in (rows, cluster):
        for release in (for_each, for_all):
            release(pk.read(source, **options), BELIEF, 10, **call)
    assert steps == [(12, 12), (1, 1), (12, 12), (1, 1)]


def test_next_week_under_the_same_label(rows, cluster, tmp_path):
    options = {**COLUMNS, "states": STATES, "independent_after": "6h", "window": "7d"}
    ledgers = {"here": tmp_path / "here.db", "there": tmp_path / "there.db"}

    def until(where, end):
        near = where == "here"
        source = rows.filter(pl.col("when") < end) if near else cluster.where(f"when < '{end}'")
        table = pk.read(source, **options)
        call = {"ledger": str(ledgers[where]), "budget": 40.0, "label": "weekly"}
        return for_each(table, BELIEF, 5, storage=str(tmp_path / "values"), **call)

    seen = []
    for end in (datetime(2024, 1, 8), datetime(2024, 1, 12)):
        here, there = until("here", end), sorted(until("there", end).collect())
        public = [tuple(row.values())[:4] for row in here.table_rows()]
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


def test_files_that_fail_and_two_drivers_at_once(cluster, tmp_path, monkeypatch):
    table = pk.read(cluster, **COLUMNS, states=STATES)
    place, call = tmp_path / "values", {"budget": 10.0, "label": "spring"}
    call |= {"ledger": str(tmp_path / "ledger.db"), "storage": str(place)}
    paid, others = cluster_room._Packs.paid, []

    def pay_after_another(packs, accounts):
        if not others:
            others.append(None)
            others.extend(sorted(for_each(table, BELIEF, 10, **call).collect()))
        return paid(packs, accounts)

    def fail(batches):
        raise OSError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(cluster_room._Packs, "paid", pay_after_another)
        releases = for_each(table, BELIEF, 10, **call)
    assert [None, *sorted(releases.collect())] == others
    with monkeypatch.context() as patch:
        patch.setattr(spark_workers, "handed_on", fail)
        with pytest.raises(RuntimeError, match=r"disk is full.*values that were paid for"):
            for_each(table, BELIEF, 10, **call)
    with pk.Ledger(call["ledger"]) as book:
        assert book.remaining("s00") == 0
        assert sum(entry.epsilon > 0 for entry in book.entries()) == 12
        assert sum(entry.value is not None for entry in book.entries()) == 12


def test_a_worker_that_is_killed_and_one_that_is_slow(rows, cluster, tmp_path, monkeypatch):
    """Tasks that run twice count the same, and what they count is paid for once."""
    count, mark = spark_workers.count_rows, tmp_path / "killed"

    def count_at_the_second_time(batches, **options):
        packs = list(count(batches, **options))
        if not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        yield from packs

    monkeypatch.setattr(spark_workers, "count_rows", count_at_the_second_time)
    table = pk.read(cluster, **COLUMNS, states=STATES)
    call = {"ledger": str(tmp_path / "ledger.db"), "budget": 10.0, "storage": str(tmp_path / "v")}
    releases = for_each(table, BELIEF, 10, **call)
    assert mark.exists()
    here = pk.read(rows, **COLUMNS, states=STATES)
    assert sorted(row["subject"] for row in releases.collect()) == list(here.subjects)
    with pk.Ledger(call["ledger"]) as book:
        assert sum(entry.epsilon > 0 for entry in book.entries()) == 12
        assert sum(entry.value is not None for entry in book.entries()) == 12


def test_one_subject_with_nearly_all_rows(spark, tmp_path):
    """Its rows go through one worker in batches; the answer is that of polars."""
    frame = spark.range(0, 60_000).selectExpr(
        "if(id % 10 = 0, id % 1000, -1) as who", "id as `when`", "id * id % 7 % 3 as what"
    )
    options = {"subject": "who", "time": "when", "state": "what", "states": range(3)}
    number = np.arange(60_000)
    who = np.where(number % 10 == 0, number % 1000, -1)
    rows = pl.DataFrame({"who": who, "when": number, "what": number * number % 7 % 3})
    here = pk.read(rows, **options)
    there = pk.read(frame, **options).collect()
    assert here.subjects == there.subjects
    assert here.pieces.tolist() == there.pieces.tolist()
    assert here.transitions.tolist() == there.transitions.tolist()


def test_a_cluster_refuses_another_step(cluster, tmp_path):
    place, hourly = str(tmp_path / "values"), BELIEF.with_step("1h")
    table = pk.read(cluster, **COLUMNS, states=STATES)
    for act in (
        lambda own, theta: for_all(own, theta, 10),
        lambda own, theta: for_each(own, theta, 10, storage=place),
    ):
        with pytest.raises(ValueError, match="6h apart"):
            act(table, hourly)
        with pytest.raises(ValueError, match="12h apart"):
            act(pk.read(cluster, **COLUMNS, states=STATES, every="12h"), hourly)
        act(table, BELIEF.with_step("6h"))
    assert for_all(table, BELIEF.with_step("6h"), 10).step == 6 * 3600


def test_another_phase_of_the_clock_is_refused_before_anyone_pays(spark, tmp_path):
    """Also where no account pays: the executors look at the phase of every subject."""
    day, night = [[0.5, 0.5], [0.4, 0.6]], [[0.9, 0.1], [0.7, 0.3]]
    clock = {"step": "6h", "origin": "2024-01-01 00:00"}
    theta = pk.ChainClass.seasonal([night, day, day, night], start=0, **clock)
    begins = {"a": datetime(2024, 1, 1), "b": datetime(2024, 1, 1, 6)}  # b is in slot 1
    records = [
        (who, begin + timedelta(hours=6 * n), n % 2)
        for who, begin in begins.items()
        for n in range(40)
    ]
    frame = spark.createDataFrame(records, "who string, when timestamp_ntz, what int")
    options = {**COLUMNS, "states": [0, 1]}
    both, one = pk.read(frame, **options), pk.read(frame.where("who = 'a'"), **options)
    with pk.Ledger(str(tmp_path / "l.db")) as book:
        paid = {"ledger": book, "budget": 5.0, "anyway": True}
        for more in ({"anyway": True}, paid):
            for query in (pk.histogram(), pk.episodes(1)):
                with pytest.raises((ValueError, RuntimeError), match="slot"):
                    for_each(both, theta, 1, query=query, storage=str(tmp_path / "v"), **more)
                with pytest.raises((ValueError, RuntimeError), match="slot"):
                    for_all(both, theta, 1, query=query, **more)
        assert not book.exists
        for_each(one, theta, 1, storage=str(tmp_path / "v"), **paid).collect()
