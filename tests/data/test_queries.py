"""Queries: exact answers and exact Lipschitz constants."""

from fractions import Fraction
from math import inf, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pufferkit as pk
from tests.oracles import brute

close = pytest.approx
STATES = ["a", "b", "c"]


def answer(query, path):
    """What the query says on a path of state indices, as the release would compute it."""
    return tuple(query.exact(pk.Series.of([STATES[x] for x in path], STATES)))


def queries(length):
    return [
        pk.count("a", length),
        pk.histogram(STATES, length),
        pk.relative_frequencies(STATES, length),
        pk.total({"a": 0, "b": 1.5, "c": -2}, length),
        pk.total({"a": 0.1, "b": 0.2, "c": 0.3}, length),
        pk.mean({"a": 7, "b": 1 / 3, "c": 1e-3}, length),
    ]


@pytest.mark.parametrize("length", [1, 2, 3, 4])
@pytest.mark.parametrize("which", range(6))
def test_lipschitz_constant_is_the_largest_change_by_one_entry(which, length):
    query = queries(length)[which]
    largest = brute.lipschitz(lambda path: answer(query, path), len(STATES), length)
    assert Fraction(query.lipschitz) >= largest
    assert query.lipschitz == close(float(largest), rel=1e-15)


@given(
    st.lists(st.floats(-1e6, 1e6, allow_subnormal=False), min_size=3, max_size=3, unique=True),
    st.integers(1, 10**9),
)
def test_lipschitz_constant_is_never_rounded_down(values, length):
    query = pk.mean(dict(zip(STATES, values, strict=True)), length)
    spread = (Fraction(repr(max(values))) - Fraction(repr(min(values)))) / length
    assert Fraction(query.lipschitz) >= spread
    assert query.lipschitz == close(float(spread), rel=1e-14)


@given(st.lists(st.lists(st.sampled_from(STATES), min_size=1, max_size=9), min_size=1, max_size=4))
def test_answers_by_counting(segments):
    flat = [label for segment in segments for label in segment]
    series = pk.Series.of(segments, STATES)
    lengths = [len(segment) for segment in segments]
    assert pk.count("b", lengths).exact(series) == [flat.count("b")]
    assert pk.histogram(STATES, lengths).exact(series) == [flat.count(s) for s in STATES]
    shares = pk.relative_frequencies(STATES, lengths).exact(series)
    assert shares == [Fraction(flat.count(s), len(flat)) for s in STATES]
    assert sum(shares) == 1
    values = {"a": 1, "b": 10, "c": 100}
    assert pk.total(values, lengths).exact(series) == [sum(values[s] for s in flat)]
    assert pk.mean(values, lengths).exact(series) == [
        Fraction(sum(values[s] for s in flat), len(flat))
    ]


@pytest.mark.parametrize("which", range(6))
def test_evaluate_gives_the_same_as_the_exact_answer(which):
    entries = ["a", "c", "c", "b", "a", "c"]
    query = queries(len(entries))[which]
    exact = query.exact(pk.Series.of(entries, STATES))
    assert np.atleast_1d(query.evaluate(np.array(entries))).tolist() == close(
        [float(v) for v in exact]
    )


def test_order_of_states_in_the_data_does_not_matter():
    one = pk.Series.of(["a", "c", "c"], ["a", "b", "c"])
    two = pk.Series.of(["a", "c", "c"], ["c", "a", "b"])
    query = pk.histogram(STATES, 3)
    assert query.exact(one) == query.exact(two) == [1, 0, 2]


def test_values_as_a_list_belong_to_states_0_1_2():
    series = pk.Series.of([0, 2, 2, 1], [0, 1, 2])
    assert pk.total([5, 7, 11], 4).exact(series) == [34]


def test_a_query_of_ones_own():
    longest_run = pk.Query(
        "runs", lambda x: 1 + int((x[1:] != x[:-1]).sum()), lipschitz=2, lengths=5
    )
    series = pk.Series.of(["a", "a", "b", "a", "a"])
    assert longest_run.exact(series) == [3]
    assert (longest_run.size, longest_run.longest, longest_run.largest) == (1, 5, None)


def test_a_query_must_give_as_many_numbers_as_labels():
    query = pk.Query("pair", lambda _: [1, 2], lipschitz=1, lengths=2)
    with pytest.raises(ValueError, match="labels"):
        query.exact(pk.Series.of(["a", "b"]))


@pytest.mark.parametrize("bad", [nan, inf, "text", None])
def test_an_answer_that_is_not_a_number_is_refused_and_not_shown(bad):
    query = pk.Query("broken", lambda _: bad, lipschitz=1, lengths=2)
    with pytest.raises(ValueError, match="answer"):
        query.exact(pk.Series.of(["a", "b"]))


def test_lengths_are_kept_apart_and_summed():
    query = pk.relative_frequencies(STATES, [3, 5, 2])
    assert (query.lengths, query.longest, query.lipschitz) == ((3, 5, 2), 5, 0.2)
    assert query.total == 1
    assert pk.histogram(STATES, [3, 5, 2]).total == 10


def test_largest_bounds_every_answer():
    assert pk.count("a", [3, 4]).largest == 7
    assert pk.total({"a": -3, "b": 2}, 10).largest == 30
    assert pk.relative_frequencies(STATES, 8).largest == close(1)


@pytest.mark.parametrize("lengths", [0, -1, 1.5, nan, inf, "10", [], [5, 0], [2.5], True])
def test_bad_lengths(lengths):
    with pytest.raises(ValueError, match="lengths"):
        pk.count("a", lengths)


@pytest.mark.parametrize("lipschitz", [0, -1, nan, inf, "x", None])
def test_bad_lipschitz(lipschitz):
    with pytest.raises(ValueError, match="lipschitz"):
        pk.Query("q", len, lipschitz, 5)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: pk.histogram([], 5), "states"),
        (lambda: pk.histogram(["a"], 5), "two states"),
        (lambda: pk.histogram(["a", "a"], 5), "twice"),
        (lambda: pk.relative_frequencies(["a"], 5), "two states"),
        (lambda: pk.total({}, 5), "values"),
        (lambda: pk.total({"a": 1}, 5), "values"),
        (lambda: pk.total({"a": 1, "b": 1}, 5), "different"),
        (lambda: pk.total({"a": 1, "b": nan}, 5), "values"),
        (lambda: pk.total({"a": 1, "b": inf}, 5), "values"),
        (lambda: pk.total({"a": 1, "b": "x"}, 5), "values"),
        (lambda: pk.mean([1e308, -1e308, 0], 1), "values"),
        (lambda: pk.Query("q", 3, 1, 5), "evaluate"),
    ],
)
def test_bad_queries(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_queries_cannot_be_changed():
    query = pk.count("a", 10)
    with pytest.raises(AttributeError):
        query.lipschitz = 0.1


def test_lengths_of_many_subjects_are_not_those_of_one():
    with pytest.raises(ValueError, match=r"lengths: belong to many.*lengths_of\(0\)"):
        pk.histogram(["a", "b"], [(5, 6), (7,)])
