"""Files as people have them: epochs, row names, intervals, wide tables, clocks that jitter."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import pufferkit as pk

STATES = ["rest", "walk", "rest", "run", "walk", "rest"] * 20
BEGIN = datetime(2024, 3, 4)


def written(tmp_path: Path, lines: list[str], name: str = "data.csv") -> Path:
    path = tmp_path / name
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


@pytest.mark.parametrize(
    ("unit", "each"),
    [("seconds", 1), ("milliseconds", 10**3), ("microseconds", 10**6), ("nanoseconds", 10**9)],
)
@pytest.mark.parametrize("engine", ["file", "polars", "lazy", "duckdb", "pandas"])
def test_numbers_since_1970(tmp_path: Path, unit: str, each: int, engine: str):
    begin = int((BEGIN - datetime(1970, 1, 1)).total_seconds())
    times = [(begin + 300 * n) * each for n in range(len(STATES))]
    rows = pl.DataFrame({"t": times, "x": STATES, "who": ["ann"] * len(times)})
    source = rows
    if engine == "file":
        source = tmp_path / "data.csv"
        rows.write_csv(source)
    elif engine == "lazy":
        source = rows.lazy()
    elif engine == "duckdb":
        duckdb = pytest.importorskip("duckdb")
        source = duckdb.sql("select * from rows")
    elif engine == "pandas":
        source = rows.to_pandas()
    series = pk.read(source, state="x", time="t")
    assert (series.step, series.labels) == (300, STATES)
    assert series.calendar.starts == (begin * 10**6,)
    assert f"times are {unit} since 1970, in UTC" in series.read_as
    grid = pk.read(source, state="x", time="t", every="10m")
    assert pk.read(source, state="x", time="t", every=600 * each).labels == grid.labels
    table = pk.read(source, state="x", time="t", subject="who", window="1h")
    assert len(set(table.window.tolist())) == 10


def test_units_are_not_mixed(tmp_path: Path):
    path = written(tmp_path, ["t,x", "1700000000,a", "1700000300000,b"])
    with pytest.raises(ValueError, match="same way"):
        pk.read(path, state="x", time="t")


def test_small_numbers_are_numbers(tmp_path: Path):
    path = written(tmp_path, ["t,x", *(f"{n},a" for n in range(5))])
    assert pk.read(path, state="x", time="t").calendar is None


@pytest.mark.parametrize(
    "lines",
    [
        ['"t" "x"', *(f'"{n}" {n} "{x}"' for n, x in enumerate(STATES, 1))],
        ["t x", *(f"{n} {n} {x}" for n, x in enumerate(STATES, 1))],
        ['"t","x"', *(f'"{n}",{n},"{x}"' for n, x in enumerate(STATES, 1))],
        ['"","t","x"', *(f'"{n}",{n},"{x}"' for n, x in enumerate(STATES, 1))],
        [",t,x", *(f"{n},{n},{x}" for n, x in enumerate(STATES))],
        ["# a device", "# of the year 2024", "t,x", *(f"{n},{x}" for n, x in enumerate(STATES))],
    ],
)
def test_row_names_and_comments(tmp_path: Path, lines: list[str]):
    path = written(tmp_path, lines)
    series = pk.read(path, state="x", time="t")
    assert series.labels == STATES
    assert series.read_as


def test_the_index_of_pandas_is_a_time(tmp_path: Path):
    times = [BEGIN + timedelta(minutes=5 * n) for n in range(len(STATES))]
    path = written(tmp_path, [",x", *(f"{t},{x}" for t, x in zip(times, STATES, strict=True))])
    series = pk.read(path, state="x", time="index")
    assert (series.step, series.labels) == (300, STATES)


def intervals(*rows: tuple[int, int, str]) -> list[str]:
    moments = [BEGIN + timedelta(minutes=n) for n in range(1000)]
    return ["from,to,x", *(f"{moments[a]},{moments[b]},{x}" for a, b, x in rows)]


def frames(times: object) -> dict[str, object]:
    pytest.importorskip("pandas")
    rows = pl.DataFrame({"t": times, "x": STATES})
    return {
        "pandas": rows.to_pandas(),
        "index": rows.to_pandas().set_index("t"),
        "polars": rows,
        "lazy": rows.lazy(),
        "pyarrow": rows.to_arrow(),
    }


@pytest.mark.parametrize("kind", ["pandas", "index", "polars", "lazy", "pyarrow", "parquet"])
def test_a_zone_of_a_column_has_the_days(tmp_path: Path, kind: str):
    when = pl.Series([BEGIN + timedelta(hours=n) for n in range(len(STATES))])
    rows = frames(when.dt.replace_time_zone("Europe/Paris"))
    if kind == "parquet":
        rows["polars"].write_parquet(tmp_path / "rows.parquet")  # type: ignore[attr-defined]
        rows[kind] = tmp_path / "rows.parquet"
    series = pk.read(rows[kind], state="x", time="t")
    assert series.calendar.timezone == "Europe/Paris"
    assert series.calendar.hours(series.lengths)[0] == 0
    assert "days cut at midnight in Europe/Paris" in series.read_as
    table = pk.read(rows[kind], state="x", time="t", window="1d")
    assert table.sizes.tolist() == [24] * 5
    other = pk.read(rows[kind], state="x", time="t", timezone="UTC")
    assert other.calendar.hours(other.lengths)[0] == 23
    with pytest.raises(ValueError, match="converted to UTC"):
        pk.read(rows[kind], state="x", time="t", window="6h")


@pytest.mark.parametrize("kind", ["pandas", "index", "polars", "lazy", "pyarrow", "parquet"])
def test_times_as_text_in_tables(tmp_path: Path, kind: str):
    when = [BEGIN + timedelta(minutes=5 * n) for n in range(len(STATES))]
    rows = frames([str(moment) for moment in when])
    if kind == "parquet":
        rows["polars"].write_parquet(tmp_path / "rows.parquet")  # type: ignore[attr-defined]
        rows[kind] = tmp_path / "rows.parquet"
    series = pk.read(rows[kind], state="x", time="t")
    assert (series.labels, series.step) == (STATES, 300)
    days = frames([f"{n + 1:02d}/{n // 28 + 1:02d}/2024" for n in range(12)] * 10)
    if kind in days:
        with pytest.raises(ValueError, match="day or the month first"):
            pk.read(days[kind], state="x", time="t")
        form = pk.TextFormat(dates="day first")
        with pytest.raises(ValueError, match="same time"):
            pk.read(days[kind], state="x", time="t", text=form)


def test_the_index_of_pandas_in_parquet(tmp_path: Path):
    pandas = pytest.importorskip("pandas")
    index = pandas.date_range(BEGIN, periods=120, freq="5min")
    pandas.DataFrame({"x": STATES}, index=index).to_parquet(tmp_path / "rows.parquet")
    assert pk.read(tmp_path / "rows.parquet", state="x", time="index").step == 300


def test_levels_of_an_index():
    pandas = pytest.importorskip("pandas")
    when = pandas.date_range(BEGIN, periods=60, freq="5min")
    index = [["ann"] * 60 + ["bob"] * 60, [*when, *when]]
    rows = pandas.DataFrame({"x": STATES}, index=pandas.MultiIndex.from_arrays(index))
    rows.index.names = ["who", "t"]
    table = pk.read(rows, state="x", time="t", subject="who")
    assert table.subjects == ("ann", "bob")
    assert table.series("bob").labels == STATES[60:]
    with pytest.raises(ValueError, match="must be a pandas"):
        pk.read(rows["x"], state="x", time="t")


def test_blank_lines(tmp_path: Path):
    ends = written(tmp_path, ["t,x", "1,a", "2,b", "", ""])
    assert pk.read(ends, state="x", time="t").labels == ["a", "b"]
    for number in range(2):
        written(tmp_path, ["t,x", "1,a", "2,b", ""], f"{number}.csv")
    assert len(pk.read(tmp_path / "[01].csv", state="x", time="t").subjects) == 2
    assert pk.read(written(tmp_path, ["x", "a", '""', "b", ""]), state="x").missing == 1
    for lines in (["x", "a", "", "b"], ["x", "", "a"], ["t,x", "1,a", "", "2,b"]):
        with pytest.raises(ValueError, match="is blank"):
            pk.read(written(tmp_path, lines), state="x")


def test_intervals(tmp_path: Path):
    path = written(tmp_path, intervals((0, 3, "rest"), (3, 4, "walk"), (6, 8, "rest")))
    series = pk.read(path, state="x", time="from", end="to", every="1m")
    assert series.labels == ["rest"] * 3 + ["walk", None, None] + ["rest"] * 2
    assert series.step == 60
    coarse = pk.read(path, state="x", time="from", end="to", every="2m")
    assert coarse.labels == ["rest", "rest", None, "rest"]
    assert any("left out" in note for note in coarse.read_as)
    there = pk.read(path, state="x", time="from", end="to", every="1m", timezone="Asia/Tokyo")
    assert there.labels == series.labels


def test_every_entry_of_intervals_is_the_state_at_its_moment(tmp_path: Path):
    rng = np.random.default_rng(5)
    for _ in range(20):
        ends = np.cumsum(rng.integers(1, 9, 30))
        rows = [
            (int(a), int(b), str(rng.choice(["a", "b"])))
            for a, b in zip([0, *ends[:-1]], ends, strict=True)
            if a == 0 or rng.random() < 0.8
        ]
        path = written(tmp_path, intervals(*rows))
        step = int(rng.integers(1, 5))
        series = pk.read(path, state="x", time="from", end="to", every=f"{step}m")
        state = {m: x for a, b, x in rows for m in range(a, b)}
        moments = range(0, max(b for _, b, _ in rows), step)
        at = [state.get(m) for m in moments if m <= max(n for n in moments if n in state)]
        assert series.labels == at


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (((0, 3, "a"), (2, 4, "b")), "row 2 begins before"),
        (((3, 1, "a"),), "row 1 has no end"),
        (((0, 9, "a"), (1, 2, "b"), (3, 4, "b")), "row 2 begins before"),
    ],
)
def test_intervals_that_contradict(tmp_path: Path, rows: tuple, words: str):
    path = written(tmp_path, intervals(*rows))
    with pytest.raises(ValueError, match=words):
        pk.read(path, state="x", time="from", end="to", every="1m")


def test_intervals_need_a_step(tmp_path: Path):
    path = written(tmp_path, intervals((0, 3, "a")))
    with pytest.raises(ValueError, match="every="):
        pk.read(path, state="x", time="from", end="to")


@pytest.mark.parametrize("state", [["ann", "bob"], "*", "[ab]*"])
@pytest.mark.parametrize("framed", [False, True])
def test_a_column_for_each_subject(tmp_path: Path, state, framed: bool):
    both = enumerate(zip(STATES, STATES[::-1], strict=True))
    lines = ["t,ann,bob", *(f"{n},{x},{y}" for n, (x, y) in both)]
    path = written(tmp_path, lines)
    table = pk.read(pl.read_csv(path) if framed else path, state=state, time="t")
    assert table.subjects == ("ann", "bob")
    series = [own.labels for own in map(table.series, table.subjects)]
    assert series == [STATES, STATES[::-1]]


def test_rows_of_wide_tables_are_those_of_the_file(tmp_path: Path):
    path = written(tmp_path, ["t,ann,bob", "1,a,b", "2,a,b", "2,a,b"])
    with pytest.raises(ValueError, match="rows 2, 3 have the same time"):
        pk.read(path, state="*", time="t")
    with pytest.raises(ValueError, match="leave out subject"):
        pk.read(path, state="*", time="t", subject="ann")
    with pytest.raises(ValueError, match="no column is named like"):
        pk.read(path, state="house*", time="t")


def jittered(spread: float, late: float = 0.0) -> pl.DataFrame:
    rng = np.random.default_rng(1)
    away = late + rng.uniform(-spread, spread, len(STATES))
    times = [BEGIN + timedelta(seconds=300 * n + float(s)) for n, s in enumerate(away)]
    return pl.DataFrame({"t": times, "x": STATES, "who": "ann"})


@pytest.mark.parametrize(("spread", "late"), [(20, 0), (100, 0), (60, 40), (60, 150), (60, -60)])
@pytest.mark.parametrize("engine", ["polars", "duckdb", "lazy"])
def test_clocks_that_jitter_lose_no_reading(spread: float, late: float, engine: str):
    rows = jittered(spread, late)
    source = rows.lazy() if engine == "lazy" else rows
    if engine == "duckdb":
        source = pytest.importorskip("duckdb").sql("select * from rows")
    table = pk.read(source, state="x", time="t", subject="who", every="5m", window="1h")
    assert int(table.sizes.sum()) == len(STATES)
    assert table.spans.tolist() == [len(STATES)]
    if late == 0:  # windows are cut by the moments of the slots
        assert table.pieces.sum(axis=1).tolist() == [12] * 10
        assert any("at the nearest slot of 5m" in note for note in table.read_as)


def test_many_readings_in_a_slot_are_not_moved():
    times = [BEGIN + timedelta(minutes=7 * n + 3) for n in range(len(STATES))]
    rows = pl.DataFrame({"t": times, "x": STATES})
    series = pk.read(rows, state="x", time="t", every="1h")
    slots = [t.replace(minute=0) for t in times]
    first = dict(reversed(list(zip(slots, STATES, strict=True))))
    assert series.labels == [first[slot] for slot in sorted(first)]


def test_intervals_as_cells():
    pandas = pytest.importorskip("pandas")
    levels = pandas.cut(np.arange(120) % 30 * 100.0, [-1, 200, 1000, 3000])
    rows = pandas.DataFrame({"x": pandas.arrays.IntervalArray(levels)})
    assert pk.read(rows, state="x").states == ("(-1, 200]", "(200, 1000]", "(1000, 3000]")


def test_categories_of_intervals(tmp_path: Path):
    pd = pytest.importorskip("pandas")
    values = pd.Series([5.0, 150.0, 30.0, None, 7.0])
    frame = pd.DataFrame({"t": range(5), "x": pd.cut(values, [0, 20, 100, 200, 300])})
    levels = ("(0, 20]", "(20, 100]", "(100, 200]", "(200, 300]")
    series = pk.read(frame, state="x", time="t")
    assert series.states == levels  # those that are declared, in their order
    assert series.labels == [levels[0], levels[2], levels[1], None, levels[0]]
    frame.to_csv(tmp_path / "data.csv", index=False)
    again = pk.read(tmp_path / "data.csv", state="x", time="t")
    assert again.states == levels[:3]
    assert again.labels == series.labels


@pytest.mark.parametrize(
    "times",
    [
        ["13/01/2024 00:00", "13/01/2024 00:05:00", "13/01/2024 00:10:00.0"],
        ["2024-01-13 00:00", "2024-01-13 00:05:00", "2024-01-13 00:10:00.0"],
        ["1/13/2024 12:00 AM", "1/13/2024 12:05 am", "1/13/2024 12:10:00 AM"],
    ],
)
def test_mixed_precision(tmp_path: Path, times: list[str]):
    path = written(tmp_path, ["t,x", *(f"{t},a" for t in times)])
    series = pk.read(path, state="x", time="t")
    assert series.step == 300
    begin = datetime(2024, 1, 13) - datetime(1970, 1, 1)
    assert series.calendar.starts == (int(begin.total_seconds()) * 10**6,)


@pytest.mark.parametrize("engine", ["polars", "duckdb"])
def test_moments_since_1970_that_are_no_numbers_are_lost(engine: str):
    rows = pl.DataFrame({"t": [1.7e9, float("nan"), 1.7e9 + 300], "x": ["a", "b", "a"], "w": "p"})
    source = rows if engine == "polars" else pytest.importorskip("duckdb").sql("select * from rows")
    with pytest.raises(ValueError, match="no time"):
        pk.read(source, subject="w", time="t", state="x")
