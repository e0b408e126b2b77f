"""Tables in: what becomes a series, and what is refused and how."""

import io
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import pufferkit as pk
from pufferkit import read
from pufferkit.data.assemble import states_from_text


def csv(folder: Path, text: str, name: str = "data.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def parquet(folder: Path, name: str = "data.parquet", **columns: object) -> Path:
    path = folder / name
    pl.DataFrame(columns).write_parquet(path)
    return path


def refusal(path: Path, **options: object) -> str:
    options = {"state": "state", **options}
    with pytest.raises(ValueError, match=path.stem) as caught:
        read(path, **options)
    message = str(caught.value)
    assert "\n" not in message
    return message


# -- what is read -------------------------------------------------------------------------------


def test_csv_with_declared_text_states(tmp_path: Path):
    path = csv(tmp_path, "when,state\n1,rest\n2,run\n3,rest\n")
    series = read(path, state="state", time="when", states=["run", "rest", "swim"])
    assert series.labels == ["rest", "run", "rest"]
    assert series.states == ("run", "rest", "swim")
    assert series.lengths == (3,)


@pytest.mark.parametrize(
    ("cells", "states", "labels"),
    [
        (["0", "1"], (0, 1), [0, 1]),
        (["0.0", "1.0"], (0, 1), [0, 1]),
        (["-3", "12"], (12, -3), [-3, 12]),
        (["0", "1"], ("0", "1"), ["0", "1"]),
        (["01", "1"], ("01", "1"), ["01", "1"]),
        (["0.5", "1.5"], (0.5, 1.5), [0.5, 1.5]),
        (["1", "a"], (1, "a"), [1, "a"]),
        (["True", "False"], (False, True), [True, False]),
    ],
)
def test_text_means_the_declared_state_it_spells(
    tmp_path: Path, cells: list[str], states: tuple[object, ...], labels: list[object]
):
    series = read(csv(tmp_path, "\n".join(["state", *cells, ""])), state="state", states=states)
    assert series.labels == labels
    assert [type(label) for label in series.labels] == [type(label) for label in labels]


@pytest.mark.parametrize(
    ("cells", "labels"),
    [
        (["2", "10", "2"], [2, 10, 2]),
        (["2", "x"], ["2", "x"]),
        (["01", "1"], ["01", "1"]),
        (["1e3", "2"], ["1e3", "2"]),
    ],
)
def test_undeclared_states_are_integers_only_if_all_are(
    tmp_path: Path, cells: list[str], labels: list[object]
):
    series = read(csv(tmp_path, "\n".join(["state", *cells, ""])), state="state")
    assert series.labels == labels


def test_states_from_text():
    assert states_from_text(["a", " b"]) == ["a", "b"]
    assert states_from_text(["0", " 1"]) == [0, 1]


@pytest.mark.parametrize("cells", [[0, 1, 1], [0.0, 1.0, 1.0], [False, True, True]])
def test_parquet_numbers(tmp_path: Path, cells: list[object]):
    series = read(parquet(tmp_path, state=cells), state="state", states=(0, 1))
    assert series.codes.tolist() == [0, 1, 1]


def test_parquet_text_for_integer_states_and_integers_for_text_states(tmp_path: Path):
    assert read(parquet(tmp_path, state=["0", "1"]), state="state", states=(0, 1)).labels == [0, 1]
    numbers = parquet(tmp_path, state=[0, 1])
    assert read(numbers, state="state", states=("0", "1")).labels == ["0", "1"]


def test_parquet_categories(tmp_path: Path):
    column = pl.Series(["a", "b", "a"], dtype=pl.Categorical)
    assert read(parquet(tmp_path, state=column), state="state").labels == ["a", "b", "a"]


def test_segments(tmp_path: Path):
    path = csv(tmp_path, "day,t,state\nmon,1,a\nmon,2,b\ntue,1,b\nwed,0,a\nwed,5,a\nwed,6,b\n")
    series = read(path, state="state", time="t", segment="day")
    assert series.lengths == (2, 1, 7)  # on Wednesday 1 to 4 were not observed
    assert series.labels == ["a", "b", "b", "a", None, None, None, None, "a", "b"]


@pytest.mark.parametrize(
    "times",
    [
        ["9", "10", "11"],
        ["-1", "0.5", "1e3"],
        ["2024-03-04", "2024-03-05", "2024-03-06"],
        ["2024-03-04T09:00", "2024-03-04T10:00", "2024-03-04T10:00:01"],
        ["2024-03-04 09:00:00", "2024-03-04 10:00:00", "2024-03-05 00:00:00"],
        ["2024-03-04T10:00+02:00", "2024-03-04T09:00+00:00", "2024-03-04T09:30Z"],
    ],
)
def test_times_compare_as_times_not_as_text(tmp_path: Path, times: list[str]):
    rows = [f"{time},a" for time in times]
    assert len(read(csv(tmp_path, "\n".join(["t,state", *rows])), state="state", time="t")) == 3


def test_the_hour_that_comes_twice_is_no_duplicate(tmp_path: Path):
    utc = [datetime(2024, 10, 26, 23), datetime(2024, 10, 27, 0, 30), datetime(2024, 10, 27, 1, 30)]
    zoned = pl.Series(utc).dt.replace_time_zone("UTC").dt.convert_time_zone("Europe/Berlin")
    path = parquet(tmp_path, t=zoned, state=["a", "b", "a"])
    assert len(read(path, state="state", time="t")) == 3


def test_names_that_look_like_patterns_are_plain_names(tmp_path: Path):
    path = csv(tmp_path, "state\na\nb\n", name="week[1]*.csv")
    assert read(path, state="state").labels == ["a", "b"]


def test_byte_order_mark_and_windows_line_ends(tmp_path: Path):
    path = tmp_path / "data.csv"
    path.write_bytes(b"\xef\xbb\xbfstate\r\na\r\nb\r\n")
    assert read(path, state="state").labels == ["a", "b"]


# -- what is refused ----------------------------------------------------------------------------


def packed(**columns: object) -> bytes:
    """A Parquet file with these columns."""
    stream = io.BytesIO()
    pl.DataFrame(columns).write_parquet(stream)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "options", "words"),
    [
        ("data.csv", b"", {}, ["empty"]),
        ("data.csv", b"\n\n", {}, ["empty"]),
        ("data.csv", b"state\n", {}, ["no rows"]),
        ("data.xlsx", b"PK\x03\x04 and so on", {}, ["export it as CSV"]),
        ("data.csv", b"\x89PNG\r\n\x1a\n" + bytes(range(256)), {}, ["UTF-8"]),
        ("data.csv", "state\na\n".encode("utf-16"), {}, ["UTF-8"]),
        ("data.csv", b"state\n" + b"a\n" * 50_000 + b"caf\xe9\n", {}, ["line 50002 is not text"]),
        ("data.csv", packed(state=["a"]), {}, ["is a Parquet file"]),
        ("data.parquet", b"state\na\n", {}, ["not a Parquet file"]),
        ("data.parquet", packed(state=["a", "b"])[:-20], {}, ["not a readable"]),
        ("data.parquet", packed(state=[["a"], ["b"]]), {}, ["lists or records"]),
        ("data.csv", b"when,what\n1,a\n", {}, ["'state'", "'when', 'what'"]),
        ("data.csv", b"state\na\n", {"time": "nowhere"}, ["for time"]),
        ("data.csv", b"state\na\n", {"segment": "nowhere"}, ["for segment"]),
        ("data.csv", b"state\na\nz\n", {"states": ["a", "b"]}, ["'z'", "row 2"]),
        ("data.csv", b"state\n0\n01\n", {"states": (0, 1)}, ["'01'"]),
        (
            "data.csv",
            b"s,t,state\nx,1,a\nx,2,a\ny,1,a\ny,1,a\n",
            {"time": "t", "segment": "s"},
            ["rows 3, 4"],
        ),
        ("data.csv", b"s,state\nx,a\ny,a\nx,b\n", {"segment": "s"}, ["row 3", "'x'"]),
        ("data.csv", b"s,state\nx,a\n,a\nx,b\n", {"segment": "s"}, ["row 2"]),
    ],
)
def test_files_that_are_refused(tmp_path: Path, name: str, content: bytes, options, words):
    path = tmp_path / name
    path.write_bytes(content)
    said = refusal(path, **options)
    assert [word for word in words if word not in said] == []


@pytest.mark.parametrize("name", ["data.txt", "data.tsv", "data"])
def test_text_is_text_whatever_its_name(tmp_path: Path, name: str):
    assert read(csv(tmp_path, "state\na\n", name=name), state="state").labels == ["a"]


def test_missing_file(tmp_path: Path):
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "none.csv", state="state")


def test_a_row_without_a_state_is_an_entry_that_was_not_observed(tmp_path: Path):
    for path in (
        csv(tmp_path, "t,state\n1,a\n2,b\n3,\n4,a\n"),
        csv(tmp_path, 't,state\n1,a\n2,b\n3,""\n4,a\n'),
        parquet(tmp_path, t=[1, 2, 3, 4], state=[0.0, 1.0, None, 0.0]),
        parquet(tmp_path, t=[1, 2, 3, 4], state=[0.0, 1.0, float("nan"), 0.0]),
    ):
        series = read(path, state="state")
        assert series.lengths == (4,)
        assert series.observed.tolist() == [True, True, False, True]
        assert series.transitions.sum() == 1


@pytest.mark.parametrize(
    ("times", "words"),
    [
        (["1", "2", "2"], "rows 2, 3 have the same time"),
        (["1", "", "3"], "row 2 has no time"),
        (["1", "noon", "3"], "row 2 has time 'noon'"),
        (["1", "nan", "3"], "row 2 has no time"),
        (["noon", "1", "3"], "row 1 has time 'noon'"),
        (["2024-03-04T10:00", "2024-03-04T11:00Z", "2024-03-05T00:00"], "row 2 has time"),
        (["2024-03-04T10:00", "2024-03-04T10:00", "2024-03-05T00:00"], "rows 1, 2 have the same"),
    ],
)
def test_times_that_are_refused(tmp_path: Path, times: list[str], words: str):
    rows = [f"{time},a" for time in times]
    assert words in refusal(csv(tmp_path, "\n".join(["t,state", *rows])), time="t")


def test_columns_of_a_dataframe_are_series_and_segments():
    table = pl.DataFrame({"day": [1, 1, 2, 2, 2], "state": ["a", "b", "b", "a", "a"]})
    whole = pk.Series.of(table["state"])
    assert whole.labels == ["a", "b", "b", "a", "a"]
    days = pk.Series.of([day["state"] for day in table.partition_by("day")])
    assert days.lengths == (2, 3)
    assert days.labels == whole.labels
    chain = pk.MarkovChain.steady([[0.9, 0.1], [0.3, 0.7]], states=["a", "b"])
    answers = pk.local.sanitize(
        [day["state"] for day in table.partition_by("day")], pk.local.cheapest_noise(chain, 1)
    )
    assert [len(segment) for segment in answers] == [2, 3]


def test_the_error_for_an_entry_that_is_no_state_does_not_show_the_data():
    with pytest.raises(ValueError, match="is a dict") as refused:
        pk.Series.of([{"secret": 42}, {"secret": 43}])
    assert "42" not in str(refused.value)


@pytest.mark.parametrize("clock", ["{}", "2024-03-04T{:02d}:00"])
def test_a_gap_in_a_clock_is_counted_in_entries(tmp_path, clock):
    path = tmp_path / "gap.csv"

    def write(hours):
        rows = (f"{clock.format(hour)},{hour % 2},{hour // 12}" for hour in hours)
        path.write_text("\n".join(["time,state,half", *rows]) + "\n")

    write(range(24))
    assert len(read(path, state="state", time="time")) == 24
    write([*range(11), *range(13, 24)])
    series = read(path, state="state", time="time")
    assert series.lengths == (24,)
    assert np.flatnonzero(~series.observed).tolist() == [11, 12]
    assert read(path, state="state", time="time", segment="half").lengths == (11, 11)
    limit = 1 if clock == "{}" else "1h"
    apart = read(path, state="state", time="time", independent_after=limit)
    assert (apart.lengths, apart.independent_after) == ((11, 11), str(limit))
    wide = 3 if clock == "{}" else timedelta(hours=3)
    assert read(path, state="state", time="time", independent_after=wide).lengths == (24,)
    with pytest.raises(ValueError, match="independent_after: needs times"):
        read(path, state="state", independent_after=wide)
    write([0, 1, 3, 4, 9, 11, 12, 18, 23])
    assert len(read(path, state="state", time="time")) == 9  # no clock, so no gaps


def test_times_in_decimals_are_exact(tmp_path: Path):
    rows = [f"{n / 10},{n % 2}" for n in range(1000) if n not in (300, 301)]
    series = read(csv(tmp_path, "\n".join(["t,state", *rows])), state="state", time="t")
    assert series.lengths == (1000,)
    assert np.flatnonzero(~series.observed).tolist() == [300, 301]


def test_a_gap_that_no_clock_counts_is_told(tmp_path: Path):
    rows = [f"{n + (n > 30) * 7.5},{n % 2}" for n in range(60)]
    path = csv(tmp_path, "\n".join(["t,state", *rows]))
    with pytest.warns(UserWarning, match=r"longer gap.*wrongly treated as neighbours.*every="):
        assert len(read(path, state="state", time="t")) == 60


def test_a_span_too_long_to_be_listed_is_refused_with_its_number(tmp_path: Path):
    path = csv(tmp_path, "t,state\n0,a\n1,b\n2,a\n40000000,b\n")
    with pytest.raises(ValueError, match="4 rows span 40,000,001 entries of the clock"):
        read(path, state="state", time="t")
    assert read(path, state="state", time="t", independent_after=9).lengths == (3, 1)
    table = read(path, subject="file", state="state", time="t")
    assert table.lengths_of(0) == (40000001,)


def test_times_of_day_without_a_date_are_refused(tmp_path):
    path = tmp_path / "day.parquet"
    times = [datetime(2024, 3, 4, hour).time() for hour in (1, 2, 3, 4, 9)]
    pl.DataFrame({"time": times, "state": [0, 1, 1, 0, 1]}).write_parquet(path)
    with pytest.raises(ValueError, match="holds Time, not times"):
        read(path, state="state", time="time")


def test_rows_may_be_in_any_order(tmp_path):
    path = csv(tmp_path, "s,t,state\nx,3,c\ny,7,d\nx,1,a\nx,2,b\n")
    assert read(path, state="state", time="t").labels == ["a", "b", "c", None, None, None, "d"]
    parts = read(path, state="state", time="t", segment="s")
    assert (parts.lengths, parts.labels) == ((3, 1), ["a", "b", "c", "d"])


@pytest.mark.parametrize("row", [3, 400])
@pytest.mark.parametrize(
    ("damaged", "words"),
    [
        (b"2024-03-04 00:00:00", "has 1 cells and the file has 2 columns"),
        (b"2024-03-04 00:00:00,rest,oops", "has 3 cells and the file has 2 columns"),
        (b"2024-03-04 00:00:00,w\xe9lk", "is not text in UTF-8"),
    ],
    ids=["short", "long", "latin"],
)
def test_a_damaged_row_is_named_wherever_it_stands(tmp_path, row, damaged, words):
    """Also among the first rows, from which the separator is taken: times have a space."""
    start = datetime(2024, 3, 4)
    rows = [f"{start + timedelta(minutes=5 * n)},rest".encode() for n in range(500)]
    rows[row - 1] = damaged
    path = tmp_path / "rows.csv"
    path.write_bytes(b"\n".join([b"time,act", *rows]) + b"\n")
    said = refusal(path, time="time", state="act")
    assert words in said
    assert f"row {row} " in said or f"line {row + 1} " in said
    quoted = csv(tmp_path, 'state,x\n"a, b",1\na\n', "quoted.csv")
    assert "row 2 has 1 cells" in refusal(quoted)
