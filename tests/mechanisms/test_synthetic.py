"""Made-up series: from released numbers alone, near to them, the same for the same seed."""

import numpy as np
import pytest

import pufferkit as pk

STATES = ["rest", "walk", "run"]
CHAIN = pk.MarkovChain.steady([[0.9, 0.09, 0.01], [0.2, 0.7, 0.1], [0.1, 0.3, 0.6]], states=STATES)
WHEN = pk.Calendar("2024-01-01", every="10m")
N = 6 * 24 * 60


def releases():
    """Of made-up days on which nobody runs at night; noise for single entries, to be quick."""
    codes = np.array(CHAIN.sample(N, seed=3))
    codes[(WHEN.hours([N]) < 7)] = 0
    data = pk.Series(codes, STATES, (N,), calendar=WHEN)
    moves = pk.entry_dp(pk.transition_counts(STATES, data), 1).release(data)
    hours = pk.entry_dp(pk.by_time("hour", STATES, data), 1).release(data)
    return moves, hours


def test_a_made_up_series_is_near_to_what_was_released():
    moves, hours = releases()
    made = pk.synthetic(moves, N, hours=hours, calendar=WHEN, seed=1)
    assert len(made.series) == N
    assert made.epsilon == 2
    by_hour = [row for row in made.rows if row["statistic"] == "shares by hour"]
    apart = [abs(row["released"] - row["synthetic"]) for row in by_hour]
    assert np.mean(apart) < 0.05
    night = [r for r in by_hour if r["label"] == "03:00, rest"]
    assert night[0]["synthetic"] > 0.95
    assert "shares by hour: 72 numbers" in str(made)
    again = pk.synthetic(moves, N, hours=hours, calendar=WHEN, seed=1)
    assert np.array_equal(made.series.codes, again.series.codes)


def test_moves_alone_give_a_chain_of_any_length():
    moves, _ = releases()
    made = pk.synthetic(moves, 20_000, seed=2)
    assert made.furthest < 0.05
    query = pk.by_time("day", STATES, 100, WHEN)
    with pytest.raises(ValueError, match="moves: must be a release of transition counts"):
        pk.synthetic(pk.entry_dp(query, 1).release(["rest"] * 100), 50)
    with pytest.raises(ValueError, match="calendar: must give the times"):
        pk.synthetic(moves, 50, hours=releases()[1])
