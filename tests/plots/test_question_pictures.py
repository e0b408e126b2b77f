"""Pictures of questions: heat maps by time and of moves, curves that follow from releases."""

import numpy as np
import polars as pl
import pytest

import pufferkit as pk
from pufferkit import plots
from tests.asking import for_all

STATES = ["rest", "walk"]
WHEN = pk.Calendar("2024-01-01", every="1h")
DATA = STATES * 24


def released(query):
    return pk.entry_dp(query, 1).release(DATA)


@pytest.mark.parametrize("by", ["hour", "weekday and hour", "day"])
def test_questions_by_time_are_heat_maps_of_shares(by):
    figure = plots.figure_of(released(pk.by_time(by, STATES, 48, WHEN)))
    image = figure.axes[0].images[0].get_array()
    assert image.shape == {"hour": (2, 24), "weekday and hour": (7, 24), "day": (2, 2)}[by]
    assert 0 <= np.nanmin(image) <= np.nanmax(image) <= 1


def test_moves_are_a_heat_map_of_rates_and_curves_have_intervals():
    moves = released(pk.transition_counts(STATES, 48))
    assert plots.figure_of(moves).axes[0].images[0].get_array().shape == (2, 2)
    curve = plots.figure_of(released(pk.histogram(STATES, 48)).derive("cumulative"))
    assert "cumulative" in curve.axes[0].get_ylabel()
    assert plots.picture(plots.figure_of(moves.derive("rates")), "a.png")


def test_all_subjects_together_have_a_heat_map():
    times = pl.datetime_range(pl.datetime(2024, 1, 1), pl.datetime(2024, 1, 2), "1h", eager=True)
    rows = pl.DataFrame({"time": times, "state": (STATES * 13)[:25]})
    chain = pk.MarkovChain.steady([[0.6, 0.4], [0.4, 0.6]], states=STATES)
    table = pk.read(rows, time="time", state="state", states=STATES, window="hour of week")
    heat = for_all(table, chain, 1, query="by-weekday-hour")
    assert len(plots.figure_of(heat).axes) == 3  # two states and the scale of colours
