"""Files as they come: sniffed, said, overridden; clocks that change; rows without a clock."""

import gzip
from datetime import datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

import pufferkit as pk
from pufferkit.data import files
from pufferkit.data.files import TextFormat
from tests.asking import for_each
from tests.strategies import look_alikes


def text(folder: Path, content: str, name: str = "data.txt") -> Path:
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return path


SAME = [
    ("a,b\n1,x\n2,y\n", ()),
    ("a;b\n1;x\n2;y\n", ("separator ;",)),
    ("a\tb\n1\tx\n2\ty\n", ("separator tab",)),
    ("a|b\n1|x\n2|y\n", ("separator |",)),
    ("1 x\n2 y\n", ("separator space", "no header, columns 1 to 2")),
    ("1\t  x\n2 y\n", ("separator space", "no header, columns 1 to 2")),
    ('a;b\n"1";"x"\n"2";"y"\n', ("separator ;",)),
    ("\ufeffa,b\n1,x\n2,y\n", ()),
]


@pytest.mark.parametrize(("content", "notes"), SAME)
def test_separators_and_headers_are_sniffed_and_said(tmp_path, content, notes):
    found = files.opened(text(tmp_path, content))
    assert found.notes == notes
    assert found.lazy.collect().rows() == [("1", "x"), ("2", "y")]
    packed = tmp_path / "data.csv.gz"
    packed.write_bytes(gzip.compress(content.encode()))
    assert files.opened(packed).lazy.collect().rows() == [("1", "x"), ("2", "y")]


def test_what_is_sniffed_can_be_overridden(tmp_path):
    path = text(tmp_path, "1;2\n3;4\n")
    assert files.opened(path).lazy.collect().height == 2
    as_header = files.opened(path, TextFormat(header=True))
    assert as_header.lazy.collect_schema().names() == ["1", "2"]
    assert as_header.lazy.collect().height == 1
    other = files.opened(path, TextFormat(separator=",", header=False))
    assert other.lazy.collect().rows() == [("1;2",), ("3;4",)]
    for wrong in ({"separator": ";;"}, {"decimal": ";"}, {"dates": "year first"}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            TextFormat(**wrong)


def test_words_with_spaces_are_one_cell(tmp_path):
    series = pk.read(text(tmp_path, "state\nfast asleep\nwide awake\n"), state="state")
    assert series.states == ("fast asleep", "wide awake")


@pytest.mark.parametrize(
    ("cells", "sign", "wanted"),
    [
        (["0,5", "1,5", "2"], None, [0, 1, 1]),
        (["0.5", "1.5", "2"], None, [0, 1, 1]),
        (["0,5", "1,5", "?"], ",", [0, 1, None]),
    ],
)
def test_decimal_commas(tmp_path, cells, sign, wanted):
    path = text(tmp_path, "t;x\n" + "".join(f"{n};{c}\n" for n, c in enumerate(cells)))
    form = None if sign is None else TextFormat(decimal=sign)
    series = pk.read(path, state="x", bins=[1], states=[0, 1], text=form)
    assert series.labels == wanted
    assert ("decimal comma" in series.read_as) == (cells[0] == "0,5" and sign is None)
    table = pk.read(path, subject="file", time="t", state="x", bins=[1], states=[0, 1], text=form)
    assert table.counts.tolist() == [[1, 2 - wanted.count(None)]]


def test_both_decimal_signs_and_words_are_refused(tmp_path):
    path = text(tmp_path, "x;y\n0,5;1\n1.5;2\n")
    with pytest.raises(ValueError, match="--decimal"):
        pk.read(path, state="x", bins=[1])
    path = text(tmp_path, "x;y\n0,5;1\noff;2\n")
    with pytest.raises(ValueError, match=r"row 2 has 'off'.*--missing"):
        pk.read(path, state="x", bins=[1])
    series = pk.read(path, state="x", bins=[1], text=TextFormat(missing=("off",)))
    assert series.missing == 1


def test_commas_that_may_separate_thousands_are_refused(tmp_path):
    path = text(tmp_path, 't,x\n0,"1,234"\n1,345\n')
    with pytest.raises(ValueError, match=r"thousands.*--decimal ,"):
        pk.read(path, state="x", bins=[300])
    series = pk.read(path, state="x", bins=[300], text=TextFormat(decimal=","))
    assert series.codes.tolist() == [0, 1]
    for clear in ('t,x\n0,"1,234"\n1,"0,345"\n', "t;x\n0;1,234\n1;345\n"):
        assert "decimal comma" in pk.read(text(tmp_path, clear), state="x", bins=[300]).read_as


DATES = [
    ("16/12/2006 17:24:00", "1/1/2007 0:00:00", "day first"),
    ("12/16/2006 17:24", "1/1/2007 00:00", "month first"),
    ("16.12.2006", "01.01.2007", "day first"),
    ("2006/12/16 17:24", "2007/01/01 00:00", None),
]


@pytest.mark.parametrize(("first", "second", "said"), DATES)
def test_dates_in_other_orders(tmp_path, first, second, said):
    path = text(tmp_path, f"t;x\n{first};a\n{second};b\n")
    series = pk.read(path, state="x", time="t")
    table = pk.read(path, subject="file", time="t", state="x")
    assert [series.labels[0], series.labels[-1]] == ["a", "b"]
    assert (said in series.read_as) == (said in table.read_as) == (said is not None)
    day = timedelta(microseconds=table.begins[0]) + datetime(1970, 1, 1)
    assert day.date() == datetime(2006, 12, 16).date()


def test_dates_that_can_be_read_in_two_ways_need_a_word(tmp_path):
    path = text(tmp_path, "t;x\n03/04/2024 08:00;a\n03/04/2024 09:00;b\n")
    with pytest.raises(ValueError, match="--dates day-first"):
        pk.read(path, state="x", time="t")
    for dates, month in (("day first", 4), ("month first", 3)):
        series = pk.read(path, time="t", state="x", text=TextFormat(dates=dates))
        begin = datetime(1970, 1, 1) + timedelta(microseconds=series.calendar.starts[0])
        assert begin.month == month
    with pytest.raises(ValueError, match="four digits"):
        pk.read(text(tmp_path, "t;x\n03/04/24 08:00;a\n"), state="x", time="t")
    with pytest.raises(ValueError, match="row 2"):
        pk.read(text(tmp_path, "t;x\n13/04/2024;a\n04/13/2024;b\n"), state="x", time="t",
                       text=TextFormat(dates="day first"))  # fmt: skip


# -- clocks ------------------------------------------------------------------------------------


def autumn(folder: Path, zone: str = "") -> Path:
    """Half-hours in Paris, 25 to 27 October 2008: 02:00 and 02:30 come twice."""
    start = datetime(2008, 10, 24, 22)
    local = [start + timedelta(minutes=30 * n) for n in range(2 * 73)]
    back = datetime(2008, 10, 26, 1)
    rows = [
        f"{(t + timedelta(hours=2 if t < back else 1)):%Y-%m-%dT%H:%M:%S}"
        + (zone and ("+02:00" if t < back else "+01:00"))
        for t in local
    ]
    content = "".join(f"{t},{'ab'[n % 2]}\n" for n, t in enumerate(rows))
    return text(folder, "t,x\n" + content, "autumn.csv")


PARIS = {"time": "t", "state": "x", "timezone": "Europe/Paris", "window": "1d"}


def test_days_are_cut_at_local_midnight_with_and_without_a_zone_in_the_file(tmp_path):
    table = pk.read(autumn(tmp_path, "zone"), **PARIS)
    assert table.sizes.tolist() == [48, 50, 48]
    assert list(table.lengths) == [(146,)]
    with pytest.raises(ValueError, match=r"4 rows are in an hour.*occurs twice.*--repeated-hour"):
        pk.read(autumn(tmp_path), **PARIS)
    moved = pk.read(autumn(tmp_path), **PARIS, repeated_hour="shift")
    assert moved.sizes.tolist() == [48, 50, 48]
    assert (moved.every, list(moved.lengths)) == (1800 * 10**6, [(146,)])
    assert "2 rows in a repeated hour moved to the hour after" in moved.read_as
    kept = pk.read(autumn(tmp_path), **PARIS, repeated_hour="keep first")
    assert kept.sizes.tolist() == [48, 48, 48]
    assert list(kept.lengths) == [(146,)]  # the second hour is not observed, but was there
    series = pk.read(
        autumn(tmp_path), state="x", time="t", timezone="Europe/Paris", repeated_hour="keep first"
    )
    assert (len(series), series.missing) == (146, 2)


def test_windows_of_a_zone_start_there(tmp_path):
    table = pk.read(autumn(tmp_path, "zone"), **PARIS)
    chain = pk.MarkovChain.steady([[0.6, 0.4], [0.4, 0.6]], states=["a", "b"])
    starts = for_each(table, chain, 1).starts
    assert [start.isoformat() for start in starts] == [
        "2008-10-25T00:00:00+02:00",
        "2008-10-26T00:00:00+02:00",
        "2008-10-27T00:00:00+01:00",
    ]
    with pytest.raises(ValueError, match="whole days or weeks"):
        pk.read(autumn(tmp_path, "zone"), **{**PARIS, "window": "6h"})


def test_without_a_zone_a_repeated_hour_has_a_policy_too(tmp_path):
    plain = {"subject": "file", "time": "t", "state": "x"}
    with pytest.raises(ValueError, match=r"same time.*--repeated-hour"):
        pk.read(autumn(tmp_path), **plain)
    with pytest.raises(ValueError, match="--repeated-hour"):
        pk.read(autumn(tmp_path), state="x", time="t")
    for policy, seen in (("shift", 146), ("keep first", 144)):
        table = pk.read(autumn(tmp_path), **plain, repeated_hour=policy)
        assert (int(table.sizes.sum()), list(table.lengths)) == (seen, [(146,)])
        series = pk.read(autumn(tmp_path), state="x", time="t", repeated_hour=policy)
        assert (len(series), len(series) - series.missing) == (146, seen)
    shuffled = text(tmp_path, "t,x\n2024-01-01T05:00,a\n2024-01-01T01:00,b\n2024-01-01T06:00,b\n")
    with pytest.raises(ValueError, match="not because clocks went back"):
        pk.read(shuffled, **plain, repeated_hour="shift")


def test_times_that_never_were_and_fixed_clocks(tmp_path):
    path = text(tmp_path, "t,x\n2008-03-30T01:30,a\n2008-03-30T02:30,b\n2008-03-30T03:30,a\n")
    options = {"time": "t", "state": "x", "timezone": "Europe/Paris"}
    with pytest.raises(ValueError, match=r"row 2.*does not exist.*--times-in"):
        pk.read(path, **options)
    table = pk.read(path, **options, times_in="+01:00", window="1d")
    assert (table.every, table.sizes.tolist()) == (3600 * 10**6, [3])
    with pytest.raises(ValueError, match="timezone="):
        pk.read(path, time="t", state="x", times_in="UTC")
    with pytest.raises(ValueError, match="not a time zone"):
        pk.read(path, time="t", state="x", timezone="Paris")


def test_frames_in_memory_have_zones_too():
    start = datetime(2008, 10, 24, 22)
    times = [start + timedelta(minutes=30 * n) for n in range(146)]
    frame = pl.DataFrame({"t": times, "x": ["a", "b"] * 73})
    aware = frame.with_columns(pl.col("t").dt.replace_time_zone("UTC"))
    assert pk.read(aware, **PARIS).sizes.tolist() == [48, 50, 48]
    told = pk.read(frame, **PARIS, times_in="UTC")
    assert told.sizes.tolist() == [48, 50, 48]
    assert pk.read(frame, time="t", state="x", window="1d").sizes.tolist() == [4, 48, 48, 46]


def test_rows_without_a_clock(tmp_path):
    path = text(tmp_path, "who;x\n" + "".join(f"{w};{x}\n" for w in "pq" for x in [1, 2, 3] * 960))
    table = pk.read(
        path, subject="who", state="x", bins=[2], every="1m", start="2024-01-01T00:00", window="1d"
    )
    assert table.sizes.tolist() == [1440, 1440] * 2
    assert table.every == 60 * 10**6
    assert any("rows assumed to be 1m apart" in note for note in table.read_as)
    numbered = pk.read(path, subject="who", state="x", bins=[2], every=1, window=480)
    assert numbered.sizes.tolist() == [480] * 12
    assert pk.read(path, subject="who", state="x", bins=[2]).sizes.tolist() == [2880] * 2
    with pytest.raises(ValueError, match="start"):
        pk.read(path, subject="who", state="x", bins=[2], every="1m", start="noon")


def test_a_grid_for_one_series(tmp_path):
    rows = [(0.0, 1), (0.4, 5), (1.1, 5), (1.9, 1), (4.2, 1)]
    path = text(tmp_path, "t x\n".replace(" ", ",") + "".join(f"{t},{x}\n" for t, x in rows))
    series = pk.read(path, state="x", time="t", bins=[3], states=["low", "high"], every=1)
    assert series.labels == ["low", "high", None, None, "low"]
    table = pk.read(path, subject="file", time="t", state="x", bins=[3], every=1)
    assert table.counts.tolist() == [[2, 1]]


# -- several files, and the four that people stumble over ---------------------------------------


def test_a_file_for_each_subject(tmp_path):
    folder = look_alikes.heart_beats(tmp_path / "normal")
    table = pk.read(str(folder / "N*"), time="1", state="2", bins=[65], every=1)
    assert table.subjects == ("N1", "N2", "N3")
    assert "a subject for each of 3 files" in table.read_as
    same = pk.read(sorted(folder.iterdir()), time="1", state="2", bins=[65], every=1)
    assert same.counts.tolist() == table.counts.tolist()
    with pytest.raises(ValueError, match="no such file"):
        pk.read(str(folder / "X*"), time="1", state="2")
    text(folder, "1 2 3\n", "N9")
    with pytest.raises(ValueError, match="must have the same"):
        pk.read(str(folder / "N*"), time="1", state="2", bins=[65])


def test_the_household_by_minute(tmp_path):
    path = look_alikes.power_by_minute(tmp_path / "power.txt", days=8)
    table = pk.read(
        path, time=("Date", "Time"), state="Global_active_power", bins=[1, 3], window="7d"
    )
    assert table.read_as == (
        "separator ;",
        "day first",
        "not observed where Global_active_power is ?",
    )
    assert (table.every, list(table.lengths), table.missing) == (60 * 10**6, [(8 * 1440,)], 5)
    series = pk.read(path, state="Global_active_power", time=("Date", "Time"), bins=[1, 3])
    assert series.states == table.states == ("below 1", "1 to 3", "3 and more")
    assert (len(series), series.missing) == (8 * 1440, 5)
    assert series.counts.tolist() == table.counts[0].tolist()


def test_the_household_by_ten_minutes(tmp_path):
    path = look_alikes.power_by_ten_minutes(tmp_path / "year.csv")
    options = {"subject": "file", "state": "active_power", "bins": [1, 3]}
    with pytest.raises(ValueError, match="--repeated-hour"):
        pk.read(path, time="date_time", **options)
    table = pk.read(path, time="date_time", repeated_hour="shift", **options)
    assert list(table.lengths) == [(366 * 144,)]  # put back in March, forward in October
    assert table.missing == 4
    by_rows = pk.read(path, every="10m", start="2008-01-01T00:00", **options)
    assert by_rows.counts.tolist() == table.counts.tolist()
    assert by_rows.transitions.tolist() == table.transitions.tolist()


def test_activity_without_a_clock(tmp_path):
    path = look_alikes.activity(tmp_path / "unidata.csv")
    table = pk.read(
        path, subject="seqn", state="paxinten", bins=[100, 760], every="1m", window="1d"
    )
    assert table.subjects == ("21005", "21006", "21007")
    assert table.sizes.tolist() == [1440] * 21
