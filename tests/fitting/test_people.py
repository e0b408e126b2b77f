"""Classes counted from a table of public people in one call."""

from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest

import pufferkit as pk
from pufferkit import ChainClass, NotApplicable, Series
from pufferkit.fitting.check_model import ROWS
from pufferkit.fitting.people import People

HOURS = 24
NIGHT = np.array([[0.9, 0.1], [0.5, 0.5]])
BUSY = np.array([[0.4, 0.6], [0.2, 0.8]])


def entries(seed, days, first=0, kernels=(NIGHT, BUSY)):
    """By one matrix before noon, by the other after; the first entry at an hour of the day."""
    rng = np.random.default_rng(seed)
    codes = np.zeros(days * HOURS, dtype=int)
    for t in range(1, len(codes)):
        codes[t] = rng.random() >= kernels[((first + t - 1) % HOURS) // 12][codes[t - 1]][0]
    return codes


def table(count=3, days=30, firsts=(0, 5, 17), begin=datetime(2024, 1, 3)):
    rows = []
    for number in range(count):
        start = begin + timedelta(hours=firsts[number % len(firsts)])
        for t, code in enumerate(entries(number, days, firsts[number % len(firsts)])):
            rows.append((f"p{number:02}", start + timedelta(hours=t), ("rest", "run")[code]))
    frame = pl.DataFrame(rows, schema=["who", "when", "what"], orient="row")
    return pk.read(frame, subject="who", time="when", state="what")


def test_a_table_knows_its_clock():
    those = People.of(table())
    assert those.day == HOURS
    assert those.firsts == (0, 5, 17)
    weekly = People.of(table(), "7d")
    assert weekly.day == 7 * HOURS
    assert weekly.firsts == (48, 53, 65)  # a Wednesday
    assert People.of(table(), 12).firsts == (0, 5, 5)
    with pytest.raises(ValueError, match=r"period: '90m' needs a time step that divides it"):
        People.of(table(), "90m")


def test_a_table_without_times_has_no_clock():
    frame = pl.DataFrame({"who": ["a"] * 9, "n": range(9), "x": [0, 1, 1] * 3})
    untimed = pk.read(frame, subject="who", time="n", state="x")
    assert People.of(untimed).day is None
    assert People.of(untimed, 3).moves(3).sum() == 8
    with pytest.raises(NotApplicable, match="needs the time of day"):
        pk.fit(untimed, "seasonal")


def test_seasonal_of_a_table_counts_each_hour():
    theta = pk.fit(table(6, 60), "seasonal")
    assert theta.description == "1 chain, 2 states, 24 slots of the clock, any first slot"
    assert theta.matrices[3] == pytest.approx(NIGHT, abs=0.12)
    assert theta.matrices[15] == pytest.approx(BUSY, abs=0.12)
    halves = pk.fit(table(6, 60), "seasonal", slots=2, start=3)
    assert halves.matrices[0] == pytest.approx(halves.matrices[11])
    assert halves.start == 3
    assert len(pk.fit(table(), "seasonal", period="7d", slots=14).matrices) == 7 * HOURS


def test_series_count_as_a_table_does():
    those = table()
    series = [those.series(name) for name in those.subjects]
    aligned = [Series(one.codes, one.states, one.lengths) for one in series]
    without = pk.fit(those, "hull")
    assert len(without.chains) == 1 + 3 + 3 * 4
    assert pk.fit(aligned, "hull", parts=1).chains[0].transition == pytest.approx(
        without.chains[0].transition
    )


def test_fewer_matrices_than_slots_are_spread():
    spread = ChainClass.seasonal([NIGHT, BUSY], period=24)
    assert [np.allclose(matrix, NIGHT) for matrix in spread.matrices] == [True] * 12 + [False] * 12
    with pytest.raises(ValueError, match="period"):
        ChainClass.seasonal([NIGHT, BUSY], period=1)


@pytest.mark.parametrize("count", [3, 20])
def test_a_hull_calibrated_in_one_call(count):
    theta = pk.fit(table(count, 20), "hull", inflate="calibrated")
    words = "covers 90% of people, by 10 held out" if count == 20 else "the largest that one of 3"
    assert words in theta.description or theta.inflate == 0
    again = ChainClass.from_dict(theta.to_dict())
    assert again.description == theta.description
    assert again.to_dict() == theta.to_dict()


def test_a_class_of_people_does_not_release_them():
    those = table()
    for theta in (pk.fit(those, "hull"), pk.fit(those, "seasonal")):
        calibration = pk.influence_curve(theta, pk.histogram(theta.states, 720), 1)
        with pytest.raises(ValueError, match="fitted"):
            calibration.release(those.series("p01"))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: pk.fit(table(), "hull", inflate="much"), "'calibrated', got 'much'"),
        (lambda: pk.fit(table(), "hull", backward=[NIGHT]), "backward: is no option.*inflate"),
        (lambda: pk.fit(table(), "chains"), "kind: must be one of chain, around"),
        (lambda: pk.fit(table(), "regimes"), "regimes: hidden regimes need their number"),
        (lambda: ChainClass.hull(table()), r"fit\(data, 'hull'\)"),
        (lambda: ChainClass.seasonal(table()), r"fit\(data, 'seasonal'\)"),
        (lambda: ChainClass.order(2, table()), r"fit\(data, 'order'\)"),
        (lambda: ChainClass.seasonal([NIGHT], period=2, initial=[1, 0]), "initial: is for kernels"),
        (lambda: ChainClass.seasonal([NIGHT], initial=[1, 1]), "initial"),
        (lambda: People.of([]), "people: must be a Table"),
        (lambda: People.of(table(), firsts=[1]), "firsts: are known from the table"),
    ],
)
def test_near_misses(call, words):
    with pytest.raises(ValueError, match=words):
        call()


@pytest.mark.slow
def test_rows_of_a_clock_are_those_of_the_hour():
    those = table(4, 80)
    right = pk.check_model(those, ChainClass.seasonal([NIGHT, BUSY], ["rest", "run"], 24))
    wrong = pk.check_model(those, ChainClass.seasonal([BUSY, NIGHT], ["rest", "run"], 24))
    assert _rows(right).passed is True
    assert _rows(wrong).passed is False
    other = pk.check_model(those, ChainClass.seasonal([NIGHT, BUSY], ["rest", "run"], 10))
    assert "another" in _rows(other).text


def test_rows_count_from_the_first_slot_where_a_series_has_no_clock():
    theta = ChainClass.seasonal([NIGHT, BUSY], ["rest", "run"], 24, start=17)
    series = Series(entries(1, 200, 17), ("rest", "run"), (4800,))
    assert _rows(pk.check_model(series, theta, day=24)).passed is True


def _rows(report):
    return next(check for check in report.checks if check.name == ROWS)
