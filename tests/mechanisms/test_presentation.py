"""Answers as they are shown: within what is possible, the raw answer kept, intervals valid."""

from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import exp

import numpy as np
import polars as pl
import pytest

import pufferkit as pk
from pufferkit.mechanisms.release import interval_around, project_to_simplex

CHAIN = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
DATA = [0, 0, 1] * 10


@pytest.mark.parametrize("make", [pk.histogram, pk.relative_frequencies])
def test_a_histogram_is_shown_as_the_nearest_proper_one(make):
    answer = pk.influence_curve(CHAIN, make([0, 1], 30), 0.3).release(DATA)
    assert answer.presentation == "nearest histogram"
    assert sum(answer.value) == pytest.approx(answer.total)
    assert min(answer.value) >= 0
    nearest = project_to_simplex(np.array(answer.raw, dtype=float), answer.total)
    assert answer.value == pytest.approx(nearest)
    assert "the nearest histogram" in str(answer)
    drawn = answer.as_drawn()
    assert drawn.value == drawn.raw == answer.raw
    assert drawn.as_histogram() == answer
    assert pk.verify(answer).ok
    assert pk.verify(drawn).ok
    record = answer.to_dict()
    assert record["raw"] != record["value"] or sum(answer.raw) == pytest.approx(answer.total)


@pytest.mark.parametrize(
    ("query", "low", "high"),
    [
        (pk.count(1, 30), 0, 30),
        (pk.total({0: -1, 1: 2}, 30), -30, 60),
        (pk.mean([1, 3], 30), 1, 3),
        (pk.episodes(1, 30), 0, 30),
        (pk.stays(1, 30), 0, 30),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_other_answers_are_cut_to_what_is_possible(query, low, high):
    made = replace(pk.influence_curve(CHAIN, query, 1).release(DATA, anyway=True), scale=20.0)
    for raw in (-100.0, low, (low + high) / 2, high, 300.0):
        answer = replace(made, raw=(raw,) * len(made.raw)).within_range()
        assert answer.presentation == "within range"
        assert set(answer.value) == {min(max(raw, low), high)}
        assert answer.as_drawn().value == answer.raw
        for value, (least, most) in zip(answer.value, answer.interval(), strict=True):
            assert low <= least <= value <= most <= high
        assert pk.verify(replace(answer, scale=made.scale)).problems == ()
        forged = replace(answer, value=(-5.0 - abs(low),) * len(answer.value))
        assert "does not follow from raw" in " ".join(pk.verify(forged).problems)
    drawn = pk.influence_curve(CHAIN, query, 0.05).release(DATA, anyway=True)
    assert all(low <= value <= high for value in drawn.value)
    assert pk.verify(drawn).ok


def test_an_answer_without_a_range_is_shown_as_drawn():
    own = pk.influence_curve(CHAIN, pk.Query("own", len, 1.0, 30), 1).release(DATA)
    assert own.presentation == "as drawn"
    assert own.value == own.raw


@pytest.mark.parametrize("asked", [pk.count(1), pk.mean({0: 1, 1: 3}), pk.episodes(1)], ids=str)
def test_rows_of_a_table_are_cut_too(asked):
    rows = {"who": [w for w in "abc" for _ in range(9)], "t": [*range(9)] * 3, "x": [0, 1, 1] * 9}
    table = pk.read(pl.DataFrame(rows), subject="who", time="t", state="x", states=[0, 1])
    low, high = asked.bind([0, 1], 9).bounds
    made = pk.release(table, CHAIN, asked, 0.05, per="subject", anyway=True)
    assert made.presentation == "within range"
    assert ((made.value >= low) & (made.value <= high)).all()
    assert pk.verify(made).ok
    assert (made.as_drawn().value == made.raw).all()
    forged = replace(made, value=made.value + high + 1)
    assert not pk.verify(forged).ok


ANY = pk.entry_dp(pk.histogram(["a", "b", "c"], 6), 1).release(["a"] * 6, anyway=True)


def shown(raw, scale):
    """A release of a histogram of 6 entries with this raw answer."""
    return replace(ANY, raw=raw, scale=scale).as_histogram()


def test_the_interval_of_a_histogram_by_the_definition():
    """Around raw, cut to what can be, drawn out to the value."""
    for raw in product(range(-4, 9, 3), repeat=3):
        answer = shown(raw, 1.5)
        for value, own, (low, high) in zip(answer.value, raw, answer.interval(0.8), strict=True):
            around = interval_around(own, 1.5, 0.8, 1, Fraction(1))
            possible = [exact for exact in range(7) if around[0] <= exact <= around[1]]
            assert all(low <= exact <= high for exact in possible)
            assert low <= value <= high
            assert 0 <= low <= high <= 6
            assert all(end in (*around, 0, 6, value) for end in (low, high))


@pytest.mark.parametrize("exact", [(6, 0, 0), (2, 2, 2), (5, 1, 0)])
@pytest.mark.parametrize(("scale", "level"), [(0.5, 0.5), (0.5, 0.9), (0.9, 0.8)])
def test_intervals_of_shown_histograms_hold_the_exact_answer_as_often_as_they_say(
    exact, scale, level
):
    """All draws of the noise up to what is too rare to matter, weighed by the definition."""
    b, reach = 1 / scale, int(8 * scale)
    steps = range(-reach, reach + 1)
    mass = {n: (1 - exp(-b)) / (1 + exp(-b)) * exp(-b * abs(n)) for n in steps}
    each, together = np.zeros(3), 0.0
    for noise in product(steps, repeat=3):
        chance = mass[noise[0]] * mass[noise[1]] * mass[noise[2]]
        if chance < 1e-6:
            continue
        answer = shown(tuple(e + n for e, n in zip(exact, noise, strict=True)), scale)
        inside = [
            low <= e <= high for e, (low, high) in zip(exact, answer.interval(level), strict=True)
        ]
        each += chance * np.array(inside)
        at_once = answer.interval(level, simultaneous=True)
        together += chance * all(
            low <= e <= high for e, (low, high) in zip(exact, at_once, strict=True)
        )
    assert (each >= level - 3e-3).all()
    assert together >= level - 3e-3


def test_projection_of_a_table_is_that_of_its_rows():
    rng = np.random.default_rng(4)
    rows, totals = rng.normal(0, 5, (50, 4)), rng.integers(1, 9, 50).astype(float)
    together = project_to_simplex(rows, totals)
    for row, total, nearest in zip(rows, totals, together, strict=True):
        assert project_to_simplex(row, total) == pytest.approx(nearest)
    assert together.sum(axis=1) == pytest.approx(totals)
    assert (together >= 0).all()
