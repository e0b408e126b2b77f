"""Series: coded entries, and every way data can be wrong."""

from itertools import pairwise
from math import nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pufferkit as pk


@given(st.lists(st.lists(st.sampled_from("xyz"), min_size=1, max_size=6), min_size=1, max_size=4))
def test_what_goes_in_comes_out(segments):
    series = pk.Series.of(segments, list("zyx"))
    assert series.labels == [label for segment in segments for label in segment]
    assert series.lengths == tuple(len(segment) for segment in segments)
    assert len(series) == sum(series.lengths)
    assert [["zyx"[code] for code in part] for part in series.segments] == segments
    assert series.counts.tolist() == [series.labels.count(label) for label in "zyx"]


@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=6), min_size=1, max_size=4))
def test_transitions_stay_within_segments(segments):
    table = np.zeros((3, 3), dtype=int)
    for segment in segments:
        for x, y in pairwise(segment):
            table[x, y] += 1
    assert pk.Series.of(segments, range(3)).transitions.tolist() == table.tolist()


@pytest.mark.parametrize(
    "data",
    [
        [1, 0, 1],
        (1, 0, 1),
        np.array([1, 0, 1]),
        np.array([1, 0, 1], dtype=np.int8),
        range(1, 0, -1),
    ],
)
def test_kinds_of_sequences(data):
    assert pk.Series.of(data, [0, 1]).labels == list(data)


def test_arrays_of_two_dimensions_are_segments():
    assert pk.Series.of(np.array([[0, 1], [1, 1]]), [0, 1]).lengths == (2, 2)


def test_states_are_found_if_not_given():
    assert pk.Series.of(["b", "a", "b"]).states == ("a", "b")
    assert pk.Series.of([2, "a"]).states == ("a", 2) or pk.Series.of([2, "a"]).states == (2, "a")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "empty"),
        ([[]], "segment 1 is empty"),
        ([[0, 1], []], "segment 2 is empty"),
        ([0, [1, 0]], "mixes"),
        ("0101", "str"),
        (b"0101", "bytes"),
        (7, "int"),
        (None, "NoneType"),
        ([None, nan], "no entry was observed"),
        ([0, None, 5], r"5 not among.*entry 3"),
        ([0, {}, 1], "state"),
        ([0, 1, 2], r"2 not among.*0, 1.*entry 3"),
        ([0, "1"], r"'1' not among"),
        ([[0, 1], [1, 5]], r"5 not among.*entry 4"),
    ],
)
def test_bad_data(data, message):
    with pytest.raises(ValueError, match=message):
        pk.Series.of(data, [0, 1])


@pytest.mark.parametrize("data", [{0, 1}, {0: 1, 1: 0}, frozenset([1])])
def test_data_without_an_order_is_no_series(data):
    with pytest.raises(ValueError, match="series"):
        pk.Series.of(data, [0, 1])


def test_many_unknown_states_are_listed_briefly():
    with pytest.raises(ValueError, match="and 92 more"):
        pk.Series.of(range(100, 200), [0, 1])


@pytest.mark.parametrize(("states", "message"), [([], "states"), ([0, 0], "twice")])
def test_bad_states(states, message):
    with pytest.raises(ValueError, match=message):
        pk.Series.of([0, 0], states)


@pytest.mark.parametrize(
    ("codes", "lengths", "message"),
    [
        ([0, 1, 0], (2,), "lengths"),
        ([0, 1, 0], (), "lengths"),
        ([0, 2], (2,), "between 0 and 1"),
        ([0, -2], (2,), "between 0 and 1"),
        ([-1, -1], (2,), "no entry was observed"),
        ([[0, 1]], (2,), "lengths"),
        ([0.5, 1], (2,), "codes"),
    ],
)
def test_bad_codes(codes, lengths, message):
    with pytest.raises(ValueError, match=message):
        pk.Series(codes, (0, 1), lengths)


def test_series_cannot_be_changed():
    codes = np.array([0, 1, 0])
    series = pk.Series(codes, ("a", "b"), (3,))
    codes[0] = 1
    assert series.codes.tolist() == [0, 1, 0]
    with pytest.raises(ValueError, match="read-only"):
        series.codes[0] = 1
    with pytest.raises(AttributeError):
        series.states = ("b", "a")


@pytest.mark.parametrize("nothing", [None, nan, np.nan, np.float64("nan")])
def test_what_was_not_observed_keeps_its_place(nothing):
    series = pk.Series.of([["a", "b", nothing, "b", "b"], [nothing, "a"]])
    assert series.lengths == (5, 2)
    assert series.observed_lengths == (4, 1)
    assert series.missing == 2
    assert series.codes.tolist() == [0, 1, -1, 1, 1, -1, 0]
    assert series.as_segments() == [["a", "b", None, "b", "b"], [None, "a"]]
    assert series.counts.tolist() == [2, 3]
    assert series.transitions.tolist() == [[0, 1], [0, 1]]  # nothing across the gap
    assert [part.tolist() for part in series.stretches] == [[0, 1], [1, 1], [0]]
    assert pk.Series.of(series, ["b", "a"]).labels == series.labels
    part = series.window(2, 6)
    assert (part.lengths, part.labels) == ((4, 1), ["b", None, "b", "b", None])


def test_missing_cells_of_dataframes():
    polars, pandas = pytest.importorskip("polars"), pytest.importorskip("pandas")
    for column in (
        polars.Series(["a", None, "b"]),
        pandas.Series(["a", None, "b"]),
        pandas.Series(["a", pandas.NA, "b"], dtype="string"),
    ):
        assert pk.Series.of(column).labels == ["a", None, "b"]
    assert pk.Series.of(pandas.Series([0, None, 1], dtype="Int64")).labels == [0, None, 1]


def test_moves_and_models_are_counted_between_observed_neighbours():
    cut = pk.Series.of([[0, 0, 1], [1, 0, 0, 1]])
    gap = pk.Series.of([0, 0, 1, None, 1, 0, 0, 1])
    assert pk.fit(gap).transition.tolist() == pk.fit(cut).transition.tolist()
    report = pk.check_model(gap, pk.ChainClass.any_start([[0.5, 0.5], [0.5, 0.5]]))
    expected = pk.check_model(cut, pk.ChainClass.any_start([[0.5, 0.5], [0.5, 0.5]]))
    assert report.checks[0] == expected.checks[0]
    assert report.checks[2] == expected.checks[2]
    with pytest.raises(ValueError, match="fitted to the very series"):
        pk.influence_curve(pk.fit(gap), pk.count(1, gap), 1).release(gap)
