"""Chains counted from public data."""

import numpy as np
import polars as pl
import pytest

import pufferkit as pk
from pufferkit import MarkovChain, Series
from pufferkit.fitting.fit import fit, impossible_moves, rarely_left
from tests.asking import for_each


def test_shares_of_transitions_within_segments():
    series = Series.of([["a", "a", "b"], ["b", "a", "b", "b"]])
    chain = fit(series)
    # a: to a once, to b twice; b: to a once, to b once. The move from b to b across segments is
    # no transition.
    assert chain.transition == pytest.approx(np.array([[1 / 3, 2 / 3], [1 / 2, 1 / 2]]))
    assert chain.states == ("a", "b")
    assert chain.is_stationary


def test_smoothing_makes_every_move_possible():
    series = Series.of(["a", "b", "a", "b", "a"], states=["a", "b", "c"])
    chain = fit(series, smoothing=0.5)
    assert chain.transition[0] == pytest.approx([0.5 / 3.5, 2.5 / 3.5, 0.5 / 3.5])
    assert chain.transition[2] == pytest.approx([1 / 3] * 3)


def test_start_from_first_states():
    series = Series.of([["a", "b", "a"], ["a", "b"], ["b", "a", "b"]])
    assert fit(series, start="first").initial == pytest.approx([2 / 3, 1 / 3])
    assert fit(series, smoothing=1, start="first").initial == pytest.approx([3 / 5, 2 / 5])


def test_the_chain_is_found_again():
    truth = MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    fitted = fit(Series(truth.sample(100_000, seed=1), (0, 1), (100_000,)))
    assert np.abs(fitted.transition - truth.transition).max() < 0.01


@pytest.mark.parametrize(
    ("series", "options", "words"),
    [
        (Series.of(["a", "b"]), {}, "never leaves 'b'.*smoothing above 0"),
        (Series.of(["a"], states=["a", "b"]), {}, "'a', 'b'"),
        (Series.of([["a", "a"], ["b", "b"]]), {}, "closed classes.*smoothing above 0"),
        (Series.of(["a", "b", "a"]), {"smoothing": -1}, "smoothing: must be 0 or more"),
        (Series.of(["a", "b", "a"]), {"smoothing": float("nan")}, "smoothing: must be finite"),
        (Series.of(["a", "b", "a"]), {"start": "middle"}, "start: must be"),
    ],
)
def test_refusals(series: Series, options: dict[str, object], words: str):
    with pytest.raises(ValueError, match=words):
        fit(series, **options)


def test_two_closed_classes_are_fine_from_the_first_states():
    chain = fit(Series.of([["a", "a"], ["b", "b"]]), start="first")
    assert chain.transition.tolist() == [[1, 0], [0, 1]]


def test_rarely_left():
    series = Series.of(["a"] * 30 + ["b"], states=["a", "b", "c"])
    assert rarely_left(series) == {"b": 0, "c": 0}
    assert rarely_left(series, least=31) == {"a": 30, "b": 0, "c": 0}


def test_impossible_moves_follow_labels_not_positions():
    chain = MarkovChain([0.5, 0.5], [[1, 0], [0.5, 0.5]], states=["b", "a"])
    series = Series.of(["a", "b", "a", "b", "a"], states=["a", "b"])
    assert impossible_moves(series, chain) == {("b", "a"): 2}
    assert impossible_moves(Series.of(["a", "b", "b"]), chain) == {}


def test_tables_of_other_people_make_beliefs():
    chain = MarkovChain.steady([[0.8, 0.2], [0.3, 0.7]], states=["rest", "run"])
    frame = pl.DataFrame(
        [
            (who, n, chain.states[code])
            for who in range(3)
            for n, code in enumerate(chain.sample(500, seed=who))
        ],
        schema=["who", "when", "what"],
        orient="row",
    )
    table = pk.read(frame, subject="who", time="when", state="what")
    segments = [frame.filter(pl.col("who") == who)["what"].to_list() for who in range(3)]
    series = Series.of(segments, ["rest", "run"])
    assert np.array_equal(pk.fit(table).transition, fit(series).transition)
    assert np.array_equal(
        pk.fit(table, smoothing=0.5).transition, fit(series, smoothing=0.5).transition
    )
    region, other = pk.ChainClass.around(table, 0.95), pk.ChainClass.around(series, 0.95)
    assert np.array_equal(region.low, other.low)
    assert region.states == other.states

    turned = MarkovChain.steady([[0.7, 0.3], [0.2, 0.8]], states=["run", "rest"])
    ours, theirs = (pk.check_model(table, one).checks for one in (turned, chain))
    assert [(c.name, c.passed) for c in ours] == [(c.name, c.passed) for c in theirs]
    with pytest.raises(ValueError, match="states= as in the beliefs"):
        pk.check_model(table, MarkovChain.steady([[0.7, 0.3], [0.2, 0.8]]))
    for beliefs in (region, pk.fit(table), pk.fit(table, smoothing=0.5)):
        with pytest.raises(ValueError, match="very series being released"):
            for_each(table, beliefs, epsilon=1)
        with pytest.raises(ValueError, match="very series being released"):
            pk.influence_curve(beliefs, pk.histogram(table.states, [500] * 3), 1).release(series)
    with pytest.raises(ValueError, match="first states"):
        fit(table, start="first")
    owned = pk.fit(table, theta_from_private_data=True)
    assert pk.ChainClass.of(owned).is_private
    (source,) = pk.ChainClass.of(owned).sources
    assert source.digests == ()
