"""Every picture can be read on a light and on a dark page, and its axes say what they count."""

from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest
from matplotlib.colors import to_rgb
from matplotlib.text import Text

import pufferkit as pk
from pufferkit import plots
from pufferkit.plots.canvas import COLOURS, darkened
from tests.plots.test_plots import CHAIN, PLAN, RELEASE

WEEK = pk.Series(
    CHAIN.sample(336, seed=1),
    CHAIN.states,
    (336,),
    calendar=pk.Calendar("2024-01-01 00:00", every="1h"),
)


def released(query):
    return pk.influence_curve(CHAIN, query, 1).release(WEEK)


NAMES = [f"a long name of a state, {n}" for n in range(9)]
LONG_CHAIN = pk.MarkovChain.steady(0.9 * np.eye(9) + 0.1 / 9, NAMES)
TABLE = pk.read(
    pl.DataFrame(
        {
            "who": [f"subject number {n}" for n in range(12) for _ in range(56)],
            "time": [datetime(2024, 1, 1) + timedelta(hours=6 * n) for n in range(56)] * 12,
            "state": [CHAIN.states[c] for n in range(12) for c in CHAIN.sample(56, seed=n)],
        }
    ),
    subject="who",
    time="time",
    state="state",
    states=CHAIN.states,
    window="7d",
)
LONG = pk.entry_dp(pk.histogram(NAMES, 900), 1).release(NAMES * 100)
FIGURES = {
    "plan": lambda: plots.plan_figure(PLAN.rows, "a plan"),
    "release": lambda: plots.release_figure(RELEASE),
    "exact": lambda: plots.release_figure(RELEASE, [100.0, 100.0]),
    "by hour": lambda: released(pk.by_time("hour", CHAIN.states, WEEK)).plot(),
    "by weekday": lambda: released(pk.by_time("weekday and hour", CHAIN.states, WEEK)).plot(),
    "moves": lambda: released(pk.transition_counts(CHAIN.states, WEEK)).plot(),
    "cumulative": lambda: RELEASE.derive("cumulative").plot(),
    "chain": CHAIN.plot,
    "pairs": lambda: pk.explain(PLAN.best).plot(),
    "network": lambda: pk.BayesianNetwork(
        {"a": (), "b": ("a",)}, {"a": {(): [0.5, 0.5]}, "b": {(0,): [0.9, 0.1], (1,): [0.2, 0.8]}}
    ).plot(),
    "drowned": lambda: (
        pk.group_dp(pk.relative_frequencies(CHAIN.states, 336), 1).release(WEEK, anyway=True).plot()
    ),
    "long labels": lambda: plots.release_figure(LONG),
    "plan with a head": PLAN.plot,
    "days": lambda: plots.days_figure(WEEK.codes.tolist(), WEEK.states, 24, "Days", clock=True),
    "subjects": lambda: pk.release(TABLE, CHAIN, "frequencies", 1, per="subject").plot(),
    "pairs of long names": lambda: pk.explain(
        pk.influence_curve(LONG_CHAIN, pk.histogram(NAMES, 300), 1)
    ).plot(),
    "matrices": lambda: pk.ChainClass.binary(0.1, 0.4).plot(),
    "long plan": lambda: pk.plan(LONG_CHAIN, pk.histogram(NAMES, 300), 0.1).plot(),
    "influence": lambda: plots.influence_figure(
        [{"name": "one", "budget": 3.0, "covers": True}], 2.0, 1.0
    ),
}


def brightness(colour):
    """Relative luminance as the guidelines for accessible pages define it."""
    parts = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), parts, strict=True))


def contrast(one, other):
    bright, dim = sorted((brightness(one), brightness(other)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


def outside_cells(figure):
    """Words that stand on the ground of the figure."""
    inside = {text for axes in figure.axes if axes.get_images() for text in axes.texts}
    every = [text for text in figure.findobj(Text) if text.get_text() and text not in inside]
    return [text for text in every if text.get_bbox_patch() is None]


SOON = (
    "plan with a head",
    "plan",
    "exact",
    "moves",
    "network",
    "rates",
    "drowned",
    "long labels",
    "subjects",
)
EVERY = [name if name in SOON else pytest.param(name, marks=pytest.mark.slow) for name in FIGURES]


@pytest.mark.parametrize("name", EVERY)
def test_words_stand_out_on_either_ground_and_axes_are_named(name):
    figure = FIGURES[name]()
    figure.draw_without_rendering()
    for text in outside_cells(figure):
        assert contrast(text.get_color(), figure.get_facecolor()) > 4.5, text
    with darkened(figure):
        assert brightness(figure.get_facecolor()) < 0.02
        for text in outside_cells(figure):
            assert contrast(text.get_color(), figure.get_facecolor()) > 4.5, text
    drawn = [axes for axes in figure.axes if axes.axison and axes.get_label() != "<colorbar>"]
    assert all(axes.get_xlabel() or name in ("release", "exact") for axes in drawn)


@pytest.mark.parametrize("name", EVERY)
def test_no_word_leaves_the_canvas(name):
    figure = FIGURES[name]()
    figure.draw_without_rendering()
    ground = figure.bbox
    for text in outside_cells(figure):
        if not text.get_visible() or not (text.axes is None or text.axes.get_visible()):
            continue
        box = text.get_window_extent()
        if text in shown_ticks(figure):
            assert box.x0 >= -1, text
            assert box.y0 >= -1, text
            assert box.x1 <= ground.x1 + 1, text
            assert box.y1 <= ground.y1 + 1, text


def shown_ticks(figure):
    """All words but labels of ticks outside the limits, which are never drawn."""
    hidden = set()
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
                slack = 1e-6 * (high - low)
                if not low - slack <= tick.get_loc() <= high + slack:
                    hidden |= {tick.label1, tick.label2}
    return {text for text in figure.findobj(Text) if text not in hidden}


def test_a_picture_is_as_it_was_after_the_dark_one():
    figure = FIGURES["exact"]()

    def colours():
        shown = [thing for thing in figure.findobj() if hasattr(thing, "get_color")]
        return [str(thing.get_color()) for thing in shown] + [figure.get_facecolor()]

    light, before = plots.picture(figure, "x.png"), colours()
    assert plots.picture(figure, "x.png", dark=True) != light
    assert colours() == before


def test_colours_of_curves_stand_out_on_either_ground():
    for colour in COLOURS[:-1]:
        assert contrast(colour, "white") > 1.9
        assert contrast(colour, "#121212") > 3
