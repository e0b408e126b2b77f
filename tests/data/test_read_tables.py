"""Tables of many subjects: the same aggregates from every engine, in any order, in any batches."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pufferkit as pk
from pufferkit.data import read as reader
from pufferkit.data.durations import ticks
from pufferkit.data.table import Windows
from tests.conftest import require

START = datetime(2024, 1, 1)
MINUTE = 60 * 10**6


def clock(steps):
    """The step by the rule, one step at a time; None if there is none."""
    if not steps or any(step % min(steps) for step in steps):
        return None
    return min(steps) if 2 * steps.count(min(steps)) > len(steps) else None


def early_by(rows, every):
    """How early a reading may be: half a step if the clock jitters around the grid, else 0.

    It does if some reading is early and all are less than a fifth of a step away on average.
    """
    late = [time % every for _, time, _ in rows]
    away = [min(n, every - n) for n in late]
    jitters = max(late) > every / 2 and sum(away) < len(rows) * every / 5
    return (every - 1) // 2 if jitters else 0


def brute(rows, states, after=None, width=None, every=None):
    """Counts and places by (subject, segment, window), transitions and lengths, row by row."""
    series = {}
    early = 0 if every is None else early_by(rows, every)
    for subject in sorted({row[0] for row in rows}):
        own = sorted((row for row in rows if row[0] == subject), key=lambda row: row[1])
        own = [(time, time, state) for _, time, state in own]
        if every is not None:
            slots = {}
            for time, _, state in own:
                if state is not None:
                    slot = (time + early) // every
                    slots.setdefault(slot, (slot * every if early else time, state))
            own = [(slot, *entry) for slot, entry in sorted(slots.items())]
        parts = split(own, None if after is None else after / (every or 1))
        parts = [part for part in parts if any(state is not None for _, _, state in part)]
        if parts:
            series[subject] = parts
    every_step = [
        b[0] - a[0]
        for subject in sorted({row[0] for row in rows})
        for part in split(sorted((t, x or "") for who, t, x in rows if who == subject), after)
        for a, b in pairwise(part)
    ]
    step = 1 if every is not None else clock(every_step)
    pieces, transitions, lengths = {}, np.zeros((len(states), len(states)), int), {}
    for subject, parts in series.items():
        lengths[subject] = ()
        for number, part in enumerate(parts):
            start = part[0][0]
            places = [n if step is None else (e[0] - start) // step for n, e in enumerate(part)]
            offset = sum(lengths[subject]) + 1
            for n, (_, time, state) in enumerate(part):
                key = (subject, number, 0 if width is None else time // width)
                row = pieces.setdefault(key, [np.zeros(len(states), int), []])
                if state is not None:
                    row[0][states.index(state)] += 1
                if state is not None or step is None:  # without a clock, rows are the places
                    row[1].append(offset + places[n])
                near = n and (step is None or places[n] - places[n - 1] == 1)
                if near and state is not None and part[n - 1][2] is not None:
                    transitions[states.index(part[n - 1][2]), states.index(state)] += 1
            lengths[subject] += (places[-1] + 1,)
    return {key: row for key, row in pieces.items() if row[0].any()}, transitions, lengths


def split(entries, after):
    """Entries in parts that are further apart than ``after``; the place comes first."""
    parts = []
    for entry in entries:
        if parts and (after is None or entry[0] - parts[-1][-1][0] <= after):
            parts[-1].append(entry)
        else:
            parts.append([entry])
    return parts


def same(table, expected):
    pieces, transitions, lengths = expected
    facts = {
        (table.subjects[owner], int(segment), int(window)): (counts.tolist(), int(a), int(b))
        for owner, segment, window, counts, a, b in zip(
            table.owner, table.segment, table.window, table.pieces, *table.places, strict=True
        )
    }
    assert facts == {
        key: (counts.tolist(), min(places), max(places)) for key, (counts, places) in pieces.items()
    }
    assert table.transitions.tolist() == transitions.tolist()
    assert dict(zip(table.subjects, table.lengths, strict=True)) == lengths
    assert table.missing == sum(map(sum, lengths.values())) - sum(
        counts.sum() for counts, _ in pieces.values()
    )


def frame(rows):
    return pl.DataFrame(
        rows, schema={"who": pl.String, "when": pl.Int64, "what": pl.String}, orient="row"
    )


def entries(**extra):
    return st.lists(
        st.tuples(
            st.sampled_from(["a", "b", "c"]),
            st.integers(0, 60),
            st.sampled_from(["x", "y", "z", None]),
        ),
        min_size=1,
        max_size=60,
        unique_by=lambda row: row[:2],
        **extra,
    ).filter(lambda rows: any(row[2] is not None for row in rows))


COLUMNS = {"subject": "who", "time": "when", "state": "what"}


@pytest.mark.slow
@given(entries(), st.sampled_from([None, 1, 3]), st.sampled_from([None, 10]), st.integers(1, 9))
def test_equal_to_one_row_at_a_time_in_any_batches(rows, after, window, batch):
    states = ["x", "y", "z"]
    expected = brute(rows, states, after, window)
    options = {**COLUMNS, "states": states, "independent_after": after, "window": window}
    same(pk.read(frame(rows), **options), expected)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "BATCH", batch)
        same(pk.read(frame(rows).lazy(), **options), expected)
        same(pk.read(frame(rows).sort("when").lazy(), **options), expected)


@pytest.mark.slow
@given(entries(), st.sampled_from([2, 5]), st.sampled_from([None, 10]), st.integers(1, 9))
def test_a_grid_takes_the_first_reading_and_goes_on_behind_empty_slots(rows, every, after, batch):
    states = ["x", "y", "z"]
    expected = brute(rows, states, after, every=every, width=10)
    options = {**COLUMNS, "states": states, "every": every, "window": 10}
    options["independent_after"] = after
    same(pk.read(frame(rows), **options), expected)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "BATCH", batch)
        same(pk.read(frame(rows).sort("when").lazy(), **options), expected)
    same(pk.read(duckdb.from_arrow(frame(rows).to_arrow()), **options), expected)


@pytest.mark.parametrize("engine", ["eager", "lazy", "duckdb"])
def test_which_slot_a_reading_belongs_to_is_no_matter_of_states_engines_or_batches(engine):
    """The oracle's rule at its edge: on average a fifth of the step away, or just less."""
    for last, nearest in ((14, False), (15, True)):
        times = [0, 13, 21, last + 15]  # 0, 2, 1 and 1 or 0 away from a grid of 5; 13 is early
        for states in (["x", "x", "y", "x"], ["x", None, None, "y"], ["y", "y", None, "x"]):
            rows = [("a", when, what) for when, what in zip(times, states, strict=True)]
            assert bool(early_by(rows, 5)) == nearest
            source = frame(rows)
            if engine == "duckdb":
                source = duckdb.from_arrow(source.to_arrow())
            elif engine == "lazy":
                source = source.lazy()
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(reader, "BATCH", 1)
                table = pk.read(source, **COLUMNS, states=["x", "y"], every=5, window=5)
            same(table, brute(rows, ["x", "y"], every=5, width=5))
            assert any("nearest slot" in note for note in table.read_as) == nearest


def test_an_account_refuses_readings_that_have_become_other_entries(tmp_path):
    """Rows are added until the clock no longer jitters around the grid: the past has moved."""
    rng = np.random.default_rng(2)
    chain = pk.MarkovChain.steady([[0.9, 0.1], [0.2, 0.8]], ["x", "y"])
    states = [chain.states[code] for code in chain.sample(1200, seed=1)]
    jitter = rng.integers(-40, 41, 200).tolist()
    times = [300 * n + 300 + late for n, late in enumerate(jitter)]
    irregular = np.cumsum(rng.integers(150, 450, 1000)) + times[-1] + 200
    rows = pl.DataFrame({"when": [*times, *irregular.tolist()], "what": states})
    options = {"time": "when", "state": "what", "states": ["x", "y"], "every": 300}
    before, after = (pk.read(part, **options) for part in (rows.head(200), rows))
    assert before.lengths == (200,)
    assert before.codes.tolist() != after.codes[:200].tolist()
    with pk.Ledger(tmp_path / "book.db") as book:
        account = pk.Account(book, "ann", 5.0)
        pk.release(before, chain, pk.histogram(), 1.0, account=account)
        with pytest.raises(ValueError, match="differ from those it was charged"):
            pk.release(after, chain, pk.histogram(), 1.0, account=account, window=(201, 210))


@pytest.fixture(scope="module")
def week():
    """Three subjects with gaps and missing states, shuffled."""
    rng = np.random.default_rng(4)
    rows = []
    for who in ("ann", "bob", "cy"):
        now = START
        for _ in range(200):
            now += timedelta(minutes=5 if rng.random() > 0.03 else 50)
            state = None if rng.random() < 0.03 else str(rng.choice(["rest", "run"]))
            rows.append((who, now, state))
    order = rng.permutation(len(rows))
    return [rows[n] for n in order]


def expected_week(week, **options):
    numbers = [
        (who, int(when.replace(tzinfo=UTC).timestamp() * 1e6) - 4 * 24 * 60 * MINUTE, what)
        for who, when, what in week
    ]
    return brute(numbers, ["rest", "run"], **options)


ENGINES = ["polars", "polars lazy", "pandas", "pyarrow", "duckdb", "csv", "parquet"]


def native(kind, week, folder: Path):
    columns = {
        "who": [row[0] for row in week],
        "when": [row[1] for row in week],
        "what": [row[2] for row in week],
    }
    table = pl.DataFrame(columns)
    if kind == "polars":
        return table
    if kind == "polars lazy":
        return table.lazy()
    if kind == "pandas":
        return require("pandas").DataFrame(columns)
    if kind == "pyarrow":
        return require("pyarrow").table(columns)
    if kind == "duckdb":
        arrow = require("pyarrow").table(columns)
        return duckdb.connect().from_arrow(arrow)
    path = folder / f"week.{kind}"
    table.write_csv(path) if kind == "csv" else table.write_parquet(path)
    return str(path)


@pytest.mark.parametrize("kind", ENGINES)
def test_every_engine_gives_the_same(kind, week, tmp_path):
    source = native(kind, week, tmp_path)
    options = {**COLUMNS, "states": ["rest", "run"]}
    gaps = pk.read(source, **options, independent_after="10m", window="1d")
    same(gaps, expected_week(week, after=10 * MINUTE, width=24 * 60 * MINUTE))
    assert gaps.is_regular
    assert gaps.independent_after == "10m"
    assert gaps.windows == Windows(24 * 60 * MINUTE, 4 * 24 * 60 * MINUTE, True)
    grid = pk.read(source, **options, every=timedelta(minutes=10))
    same(grid, expected_week(week, every=10 * MINUTE))
    whole = pk.read(source, **options)  # the clock is found, the chain goes on
    same(whole, expected_week(week))
    assert whole.is_regular
    assert whole.every == 5 * MINUTE
    assert len(whole.segment_lengths) == 3
    assert whole.missing > 9 * 10


@pytest.mark.parametrize("kind", ENGINES)
def test_every_engine_refuses_the_same(kind, week, tmp_path):
    options = {**COLUMNS, "states": ["rest", "run"]}
    who, when, _ = week[0]
    ordered = kind != "duckdb"

    def refusal(rows):
        with pytest.raises(ValueError, match=r"\w") as caught:
            pk.read(native(kind, rows, tmp_path), **options)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    twice = refusal([*week, (who, when, "run")])
    assert "same time" in twice
    assert "rows 1, 601 have" in twice if ordered else repr(who) in twice
    unknown = refusal([*week[:7], (who, START, "swim"), *week[7:]])
    assert "'swim'" in unknown
    assert "row 8 has" in unknown if ordered else repr(who) in unknown
    null_time = refusal([*week[:3], (who, None, "run"), *week[3:]])
    assert "no time" in null_time
    assert "row 4 has" in null_time if ordered else repr(who) in null_time
    nobody = refusal([*week[:3], (None, START, "run"), *week[3:]])
    assert "no subject" in nobody


def test_null_states_are_entries_that_were_not_observed_and_never_glue():
    rows = [("a", 1, "x"), ("a", 2, None), ("a", 3, "x"), ("a", 4, "y")]
    table = pk.read(frame(rows), **COLUMNS, states=["x", "y"])
    assert list(table.lengths) == [(4,)]
    assert table.missing == 1
    assert table.transitions.tolist() == [[0, 1], [0, 0]]


def test_states_are_read_by_the_types_of_the_declared_ones(tmp_path):
    path = tmp_path / "numbers.csv"
    path.write_text("t,s\n1,0\n2,1\n3,1.0\n")
    table = pk.read(path, subject="file", time="t", state="s", states=[0, 1])
    assert table.subjects == ("numbers",)
    assert table.counts.tolist() == [[1, 2]]


def test_bins_by_cuts_width_and_public_quantiles():
    values = [0.0, 99.9, 100.0, 800.0, 1e9, -5.0, None, float("nan")]
    data = pl.DataFrame({"t": range(8), "v": values})
    series = pk.read(data, time="t", state="v", bins=[100, 760])
    assert series.states == ("below 100", "100 to 760", "760 and more")
    assert series.counts.tolist() == [3, 1, 2]
    assert series.lengths == (8,)  # two of which were not observed
    named = pk.read(
        data, time="t", state="v", bins=pk.Bins.width(200, high=600), states=["low", "mid", "high"]
    )
    assert named.counts.tolist() == [4, 0, 2]
    assert pk.Bins.quantiles(range(101), 4).cuts == (25.0, 50.0, 75.0)
    for wrong in ([], [1, 1], [2, 1], [float("nan")]):
        with pytest.raises(ValueError, match="cuts"):
            pk.Bins(wrong)
    with pytest.raises(ValueError, match="2 names for 3 bins"):
        pk.read(data, time="t", state="v", bins=[1, 2], states=["a", "b"])
    with pytest.raises(ValueError, match="bins need numbers"):
        pk.read(frame([("a", 1, "x")]), **COLUMNS, bins=[1])


def test_bins_are_the_same_in_duckdb():
    duckdb = require("duckdb")
    require("pyarrow")
    data = pl.DataFrame({"t": range(50), "v": [float(n * n % 1000) for n in range(50)]})
    options = {"time": "t", "state": "v", "bins": pk.Bins.width(200, high=1000)}
    here = pk.read(data, **options)
    there = pk.read(duckdb.connect().from_arrow(data.to_arrow()), **options)
    assert here.counts.tolist() == there.counts.tolist()
    assert here.transitions.tolist() == there.transitions.tolist()


@pytest.mark.parametrize(
    ("times", "ok"),
    [
        (["2024-03-04T08:15", "2024-03-04T08:20"], True),
        (["2024-03-04 08:15:00.5", "2024-03-04 08:20:00"], True),
        (["2024-03-04T08:15:00Z", "2024-03-04T08:20:00Z"], True),
        (["2024-03-04T08:15:00+02:00", "2024-03-04T08:20:00+01:00"], True),
        (["2024-03-04", "2024-03-05"], True),
        (["1.5", "2.5"], True),
        (["2024-03-04T08:15", "soon"], False),
        (["2024-03-04T08:15", "7"], False),
        (["soon", "7"], False),
        (["1", "2.5"], True),
        (["2024-03-04T08:15", "2024-03-04T08:15:30", "2024-03-04T08:15:30.5"], True),
        (["2024-03-04T08:15:30.5", "2024-03-04T08:15"], True),
        (["2024-03-04T08:15", "2024-03-04T08:15Z"], False),
    ],
)
def test_times_in_text(tmp_path, times, ok):
    path = tmp_path / "times.csv"
    path.write_text("t,s\n" + "".join(f"{time},x\n" for time in times))
    if ok:
        series = pk.read(path, time="t", state="s")
        assert len(series) - series.missing == len(times)
    else:
        with pytest.raises(ValueError, match=r"row [12] has"):
            pk.read(path, time="t", state="s")


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"independent_after": "5m"}, "times are numbers"),
        ({"independent_after": 0}, "above 0"),
        ({"window": 1.5}, "whole"),
        ({"window": 10, "every": 3}, "multiple of the grid step"),
        ({"every": "soon"}, "not a duration"),
        ({"time": "what"}, "a different column"),
        ({"subject": "nobody"}, "no column 'nobody' for subject"),
        ({"state": "when", "time": "what"}, "write times as numbers"),
    ],
)
def test_refusals_of_options(options, match):
    with pytest.raises(ValueError, match=match):
        pk.read(frame([("a", 1, "x"), ("a", 2, "y")]), **{**COLUMNS, **options})


def test_refusals_of_sources(tmp_path):
    for source, match in [
        (3, "must be a pandas"),
        (tmp_path, "directory"),
        (frame([]), "no entries|no rows|nothing"),
        (frame([("a", 1, None)]), "nothing to release"),
    ]:
        with pytest.raises(ValueError, match=match):
            pk.read(source, **COLUMNS)
    empty = tmp_path / "empty.csv"
    empty.write_text("who,when,what\n")
    with pytest.raises(ValueError, match="no rows"):
        pk.read(empty, **COLUMNS)
    with pytest.raises(FileNotFoundError):
        pk.read(tmp_path / "none.csv", **COLUMNS)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), None])
def test_times_that_are_no_times(bad):
    data = pl.DataFrame({"t": [1.0, bad, 2.0], "s": ["x"] * 3})
    with pytest.raises(ValueError, match="row 2 has no time"):
        pk.read(data, time="t", state="s")


def test_durations():
    assert ticks("x", timedelta(days=7), of_time=True) == ticks("x", "1w", of_time=True)
    with pytest.raises(ValueError, match="timestamps"):
        ticks("x", 5, of_time=True)


def test_pandas_with_zones_and_categories():
    pandas = require("pandas")
    times = pandas.date_range("2024-10-27 00:00", periods=6, freq="1h", tz="Europe/Berlin")
    data = pandas.DataFrame({"t": times, "s": pandas.Categorical(list("ababab"))})
    table = pk.read(data, time="t", state="s", states=["a", "b"], independent_after="1h")
    assert table.lengths == (6,)  # the clock goes back, time does not
    assert table.step == 3600
    assert table.counts.tolist() == [3, 3]


def test_large_ids_stay_apart():
    rows = pl.DataFrame({"s": [2**62, 2**62 + 1] * 2, "t": [1, 2, 3, 4], "x": ["a"] * 4})
    table = pk.read(rows, subject="s", time="t", state="x")
    assert list(table.lengths) == [(2,), (2,)]
    pandas = require("pandas")
    native = pandas.DataFrame({name: rows[name].to_list() for name in rows.columns})
    assert pk.read(native, subject="s", time="t", state="x").subjects == table.subjects


@pytest.mark.parametrize("engine", ["polars", "duckdb"])
@pytest.mark.parametrize("kind", [pl.Float32, pl.Float64])
@pytest.mark.parametrize("begin", [-3.0, pytest.param(1000.0, marks=pytest.mark.slow)])
def test_even_steps_in_floats_are_neither_gaps_nor_empty_slots(engine, kind, begin):
    times = pl.Series([round(begin + 0.1 * n, 1) for n in range(80)]).cast(kind)
    frame = pl.DataFrame({"s": ["a"] * 80, "t": times, "x": ["u", "v"] * 40})

    def lengths(rows, **options):
        source = rows if engine == "polars" else require("duckdb").from_arrow(rows.to_arrow())
        return pk.read(source, subject="s", time="t", state="x", **options).lengths_of(0)

    assert lengths(frame, independent_after=0.1) == lengths(frame, every=0.1) == (80,)
    assert lengths(frame, every=0.2) == (40,)
    holed = frame.filter(pl.int_range(80) != 30)
    assert lengths(holed) == lengths(holed, every=0.1) == (80,)
    assert (
        lengths(holed, independent_after=0.1)
        == lengths(holed, every=0.1, independent_after=0.1)
        == (30, 49)
    )
    late = frame.with_columns(pl.col("t") + pl.when(pl.int_range(80) > 60).then(0.03).otherwise(0))
    assert lengths(late) == (80,)  # no clock, so rows are the entries
    assert lengths(late.filter(pl.int_range(80) != 30)) == (79,)


@pytest.mark.parametrize("options", [{}, {"independent_after": 1}, {"every": 1}, {"window": 2}])
@pytest.mark.parametrize("bad", ["nan", "inf", "-inf"])
def test_times_that_are_no_numbers_are_refused_in_duckdb(options, bad):
    rows = f"values ('a', 1.0::double, 'u'), ('a', 2.0, 'v'), ('a', '{bad}'::double, 'u')"
    source = require("duckdb").sql(f"select * from ({rows}) rows(s, t, x)")
    with pytest.raises(ValueError, match="1 rows have no time"):
        pk.read(source, subject="s", time="t", state="x", **options)


def test_small_integers_as_times_do_not_overflow_in_duckdb():
    rows = "values ('a', -100::tinyint, 'u'), ('a', 100::tinyint, 'v')"
    source = require("duckdb").sql(f"select * from ({rows}) rows(s, t, x)")
    for options in ({}, {"every": 1}, {"window": 7, "origin": 200}):
        table = pk.read(source, subject="s", time="t", state="x", **options)
        assert table.totals.tolist() == [2]


def test_columns_of_mixed_kinds_lose_nothing():
    pandas = require("pandas")

    def states(*cells):
        frame = pandas.DataFrame({"t": range(len(cells)), "x": pandas.Series(cells, dtype=object)})
        table = pk.read(frame, time="t", state="x")
        return dict(zip(table.states, table.counts.tolist(), strict=True))

    assert states(np.int64(1), "x", None, "x") == {"1": 1, "x": 2}
    assert states(np.int64(1), np.float64(2), 3) == {1: 1, 2: 1, 3: 1}
    with pytest.raises(ValueError, match="'x' mixes incompatible types of cells"):
        states(pandas.Timestamp("2024-01-01"), "x")
    with pytest.raises(ValueError, match="time: must be the name of a column"):
        pk.read(pandas.DataFrame({0: [1], 1: ["u"]}), time=0, state=1)


def test_the_report_speaks_of_time_in_its_units():
    start = datetime(2024, 1, 1)
    times = [start, start + timedelta(minutes=1), start + timedelta(hours=6)]
    rows = {"who": ["p"] * 3, "when": times, "what": ["a", "b", "a"]}
    report = pk.read(pl.DataFrame(rows), **COLUMNS).report()
    assert report.startswith("1 subject, 3 entries, 1 segment of 3, irregular")
    assert "1m to 5.98h apart, without an even step; every= puts" in report
    rows = {"who": ["p"] * 4, "what": list("abab")}
    rows |= {"when": [*times[:2], start + timedelta(minutes=2), times[2]]}
    report = pk.read(pl.DataFrame(rows), **COLUMNS).report()
    assert report == "1 subject, 4 entries, 1 segment of 361, 357 not observed"
    rows = {"who": ["p"] * 3, "when": [0, 1, 5], "what": ["a", "b", "a"]}
    report = pk.read(pl.DataFrame(rows), **COLUMNS, independent_after=1).report()
    assert report == ("1 subject, 3 entries, 2 segments of 1 to 2, declared independent after 1")


def test_readings_are_not_taken_for_states():
    frame = pl.DataFrame({"when": range(1200), "watts": [n / 7 for n in range(1200)]})
    with pytest.raises(ValueError, match=r"state: the column has 1,200 distinct values.*bins="):
        pk.read(frame, time="when", state="watts")
    assert pk.read(frame, time="when", state="watts", bins=[50]).states[0] == "below 50"
    declared = pk.read(frame, time="when", state="watts", states=frame["watts"].to_list())
    assert len(declared.states) == 1200


@pytest.mark.parametrize("engine", ["polars", "duckdb"])
def test_decimal_times_are_numbers(engine):
    times = pl.Series(["1.5", "2.5", "3.5", "5.5"]).cast(pl.Decimal(10, 2))
    rows = pl.DataFrame({"who": ["a"] * 4, "t": times, "x": [0, 1, 0, 1]})
    if engine == "duckdb":
        connection = require("duckdb").connect()
        connection.register("made", rows.to_arrow())
        rows = connection.sql("SELECT * FROM made")
    table = pk.read(rows, subject="who", time="t", state="x")
    assert (table.every, table.begins, table.spans.tolist()) == (1.0, (1.5,), [5])
