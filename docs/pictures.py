"""The pictures of the first page, drawn when the site is built; docstrings say them in words.

Every number in them is computed by the package. ``python docs/pictures.py`` draws the one of the
README, ``docs/images/three-panels.png``.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from matplotlib.colors import to_rgb

import pufferkit as pk
from pufferkit.plots import influence_figure
from pufferkit.plots.canvas import (
    BLACK,
    BLUE,
    COLOURS,
    GREEN,
    GREY,
    ORANGE,
    PALE,
    SKY,
    WIDE,
    blank,
    grid,
    panels,
    plain_numbers,
    ranked,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CHAIN = pk.MarkovChain.steady(
    [[0.90, 0.08, 0.02], [0.10, 0.80, 0.10], [0.05, 0.35, 0.60]],
    states=["resting", "sitting", "walking"],
)
WEEK = 2016


def _strip(axes: Any, codes: Any, hidden: int | None = None) -> None:
    """Entries as boxes in a row; one may be covered."""
    for place, code in enumerate(codes):
        covered = place == hidden
        axes.bar(
            place,
            1,
            width=0.92,
            color="white" if covered else COLOURS[code],
            edgecolor=ORANGE if covered else "white",
            linewidth=2 if covered else 0.5,
        )
        if covered:
            axes.text(place, 0.5, "?", ha="center", va="center", fontsize=15, color=ORANGE)
    axes.set_ylim(0, 1)
    axes.set_yticks([])
    axes.set_xticks([])
    axes.spines["bottom"].set_visible(False)


def leak() -> Figure:
    """An entry is covered; what its neighbours tell about it, against what is known of anybody."""
    figure, (strip, bars) = panels(2, 6.4, 2.5, "", shared=False)
    day = np.array([0, 0, 0, 0, 1, 1, 2, 1, 1, 1, 1, 0, 0])
    hidden = 9
    _strip(strip, day, hidden)
    strip.set_title("What did Anna do here?", fontsize=10, loc="left")
    for code, name in enumerate(CHAIN.states):
        strip.bar(0, 0, color=COLOURS[code], label=name)
    strip.legend(ncols=2, frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(0, 0))
    moves = CHAIN.transition
    told = moves[day[hidden - 1]] * moves[:, day[hidden + 1]]
    told /= told.sum()
    places = np.arange(3)
    bars.barh(places - 0.2, CHAIN.stationary, 0.36, color=GREY, label="of anybody, at any time")
    bars.barh(places + 0.2, told, 0.36, color=ORANGE, label="who sees the two beside it")
    for place, share in zip(places, told, strict=True):
        bars.annotate(f" {share:.0%}", (share, place + 0.2), va="center", fontsize=9)
    bars.set_yticks(places, CHAIN.states)
    bars.invert_yaxis()
    bars.set_xlim(0, 1.12)
    bars.set_xticks([])
    bars.spines["bottom"].set_visible(False)
    bars.legend(frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(0, 0))
    bars.set_title("How sure one can be", fontsize=10, loc="left")
    return figure


@cache
def _losses(most: int) -> list[float]:
    """The loss at event-level epsilon 1, over series of 1, 3, 5, ... entries."""
    return [pk.InfluenceCurve(CHAIN, 2 * reach + 1).epsilon(1.0) for reach in range(most)]


def grows() -> Figure:
    """The loss of an entry rises with the length of the series, to six times the promise.

    There it stays; group privacy assumes that it rises without an end.
    """
    losses = _losses(14)
    lengths = 2 * np.arange(len(losses)) + 1
    figure, axes = blank(WIDE, 3.3, "")
    axes.plot(lengths, lengths, color=ORANGE, label="what group privacy pays for")
    axes.plot(lengths, losses, color=BLUE, marker="o", markersize=4, label="what an entry loses")
    axes.axhline(1, color=BLACK, linestyle="--", linewidth=1, label="what was promised")
    axes.set_ylim(0, 3 * losses[-1])
    axes.set_xlabel("entries in the series")
    axes.set_ylabel("epsilon")
    axes.legend(frameon=False, fontsize=9, loc="upper left")
    grid(axes)
    return figure


def drowns() -> Figure:
    """The shares of a week with 95% of the noise, three kinds of it.

    Noise for independent entries is tiny, that of the influence curve small, that of group privacy
    covers everything.
    """
    query = pk.relative_frequencies(CHAIN.states, WEEK)
    shares = np.bincount(CHAIN.sample(WEEK, seed=1), minlength=3) / WEEK
    kinds = {
        "Too little noise:\nneighbours give\nan entry away": (pk.entry_dp(query, 1), ORANGE),
        "Enough:\npufferkit hides\nevery entry": (pk.influence_curve(CHAIN, query, 1), BLUE),
        "Too much:\nnothing is left\nof the answer": (pk.group_dp(query, 1), ORANGE),
    }
    figure, every = panels(3, 6.4, 3.2, "")
    for axes, (title, (noise, colour)) in zip(every, kinds.items(), strict=True):
        axes.bar(range(3), shares, color=COLOURS[:3], width=0.7)
        half = noise.half_width(0.95)
        axes.errorbar(
            range(3), shares, yerr=half, fmt="none", ecolor=BLACK, elinewidth=1.4, capsize=4
        )
        axes.set_title(title, fontsize=10, loc="left", color=colour)
        axes.set_xticks(range(3), CHAIN.states, fontsize=8)
        axes.set_ylim(0, 1)
        axes.set_xlabel(f"95% within {half:.2g}", fontsize=9, color=GREY)
    every[0].set_ylabel("share of the week")
    every[0].set_yticks([0, 0.5, 1], ["0%", "50%", "100%"])
    return figure


def quilt() -> Figure:
    """Around one entry those nearby, then two that separate it from the rest.

    The noise pays for those nearby; the rest tell nothing more once the two are known.
    """
    noise = pk.markov_quilt(CHAIN, pk.histogram(CHAIN.states, WEEK), 1)
    node, (left, right) = noise.evidence.node, noise.evidence.quilt
    reach = node - left + 6
    figure, axes = blank(6.4, 2.3, "")
    for place in range(-reach, reach + 1):
        nearby = left < node + place < right
        border = node + place in (left, right)
        colour = ORANGE if place == 0 else GREEN if border else SKY if nearby else PALE
        axes.bar(place, 1, width=0.9, color=colour)
    marks = {0: "the entry", left - node: "quilt", right - node: "quilt"}
    for place, words in marks.items():
        axes.annotate(words, (place, 1.1), ha="center", fontsize=10, color=BLACK)
    for place, words in (
        (-7, "nearby: the noise\npays for each"),
        (7, "nearby: the noise\npays for each"),
        (-reach + 1.5, "the rest:\nsilent"),
        (reach - 1.5, "the rest:\nsilent"),
    ):
        axes.annotate(words, (place, -0.15), ha="center", va="top", fontsize=9, color=GREY)
    axes.set_ylim(-0.75, 1.35)
    axes.set_yticks([])
    axes.set_xticks([])
    axes.spines["bottom"].set_visible(False)
    return figure


def curve() -> Figure:
    """What each neighbour is charged, by its distance.

    By the quilt in full up to its border and then nothing, by the curve what it still tells.
    """
    query = pk.histogram(CHAIN.states, WEEK)
    noise = pk.markov_quilt(CHAIN, query, 1)
    reach = noise.evidence.node - noise.evidence.quilt[0]
    spent = pk.influence_curve(CHAIN, query, 1).entry_epsilon
    losses = [pk.InfluenceCurve(CHAIN, 2 * far + 1).epsilon(spent) for far in range(reach + 7)]
    shares = np.diff(losses) / 2 / spent
    distances = np.arange(1, len(losses))
    figure, axes = blank(WIDE, 3.2, "")
    full = np.where(distances < reach, 1.0, 0.0)
    axes.bar(distances - 0.2, full, 0.38, color=GREEN, label="by the quilt")
    axes.bar(distances + 0.2, shares, 0.38, color=BLUE, label="by the influence curve")
    axes.set_xticks(distances[::2])
    axes.set_xlabel("steps from the entry")
    axes.set_ylabel("share of an entry\nthat is charged")
    axes.set_ylim(0, 1.2)
    axes.legend(frameon=False, fontsize=9, ncols=2, loc="upper right")
    grid(axes, "y")
    return figure


def scales() -> Figure:
    """Error of a week's shares against epsilon, for group privacy, the quilt and the curve."""
    query = pk.relative_frequencies(CHAIN.states, WEEK)
    epsilons = np.geomspace(0.2, 5, 7)
    kinds = {
        "group privacy": (lambda e: pk.group_dp(query, e), ORANGE, "s"),
        "Markov quilts": (lambda e: pk.markov_quilt(CHAIN, query, e), GREEN, "^"),
        "influence curve": (lambda e: pk.influence_curve(CHAIN, query, e), BLUE, "o"),
    }
    figure, axes = blank(WIDE, 3.4, "")
    for name, (noise, colour, marker) in kinds.items():
        halves = [noise(float(epsilon)).half_width(0.95) for epsilon in epsilons]
        axes.loglog(epsilons, halves, color=colour, marker=marker, markersize=4, label=name)
    axes.axhspan(0.5, 30, color=PALE, zorder=0)
    axes.annotate("a share is lost in this", (4.9, 0.62), ha="right", fontsize=9, color=GREY)
    axes.set_ylim(0.002, 30)
    axes.set_xticks([0.2, 0.5, 1, 2, 5], ["0.2", "0.5", "1", "2", "5"])
    axes.minorticks_off()
    axes.set_xlabel("epsilon")
    axes.set_ylabel("a share is off by, 95 of 100 times")
    axes.legend(frameon=False, fontsize=9, loc="lower left")
    grid(axes)
    return figure


def measured() -> Figure:
    """Entries that two classes budget, against those that measured people show.

    The numbers are those that ``examples/measured.sh`` printed.
    """
    budgets = [
        {"name": "one chain", "budget": 8.31, "covers": False},
        {"name": "three regimes", "budget": 80.8, "covers": False},
    ]
    return influence_figure(budgets, point=135, lower=112)


def years() -> Figure:
    """The error of a histogram a day, against the years it has run.

    By adding epsilons up it grows with every day; in an account it stays that of one day alone.
    """
    query = pk.histogram(CHAIN.states, 1440)
    alone = pk.influence_curve(CHAIN, query, 1.0).scale
    ratio = pk.entry_epsilon(CHAIN, 1440, 1.0) / pk.entry_epsilon(CHAIN, 10**12, 1.0)
    run = np.geomspace(1 / 365, 20, 6)
    added = [pk.influence_curve(CHAIN, query, 1 / round(365 * year)).scale for year in run]
    figure, axes = blank(WIDE, 3.4, "")
    axes.loglog(run, added, "o-", color=ORANGE, label="epsilons added up, 1 in all")
    axes.loglog(run, [alone * ratio] * 6, color=BLUE, lw=2.5, label="an account, epsilon 1 in all")
    axes.loglog(run, [alone] * 6, ":", color=BLACK, label="one day alone, epsilon 1")
    axes.set_xlabel("years it has run, a histogram every day")
    axes.set_ylabel("error of a bin, minutes")
    plain_numbers(axes.xaxis)
    plain_numbers(axes.yaxis)
    axes.legend(frameon=False, fontsize=9, loc="upper left")
    grid(axes)
    return figure


def week() -> Figure:
    """Seven generated days of one person, and how many entries one entry gives away.

    By one chain few, by hidden regimes many.
    """
    levels = ["still", "light", "brisk"]
    regimes = np.array([[0.98, 0.02, 0.0], [0.02, 0.95, 0.03], [0.0, 0.06, 0.94]])
    emissions = np.array([[0.95, 0.04, 0.01], [0.5, 0.4, 0.1], [0.1, 0.4, 0.5]])
    person = pk.RegimeClass(regimes, emissions, levels)
    single = pk.fit([levels[code] for code in person.models[0].sample(10_000, seed=1)])
    figure, (days, bars) = panels(2, WIDE, 4.6, "", columns=1)
    codes = person.models[0].sample(7 * 144, seed=3).reshape(7, 144)
    colours = np.array([to_rgb(colour) for colour in COLOURS[:3]])
    days.imshow(colours[codes], aspect="auto", extent=(0, 24, 7.5, 0.5), interpolation="nearest")
    days.set_xticks(range(0, 25, 6), [f"{hour}:00" for hour in range(0, 25, 6)])
    days.set_ylabel("day")
    for level, colour in zip(levels, COLOURS, strict=False):
        days.bar(0, 0, color=colour, label=level)
    days.set(xlim=(0, 24), ylim=(7.5, 0.5), yticks=range(1, 8))
    days.legend(ncols=3, frameon=False, fontsize=9, loc="lower left", bbox_to_anchor=(0, 1))
    entries = [0.05 / pk.entry_epsilon(belief, 1008, 0.05) for belief in (single, person)]
    notes = [f"{number:.0f}" for number in entries]
    ranked(
        bars, ["one chain", "hidden regimes"], entries, notes, "entries that one entry gives away"
    )
    return figure


def hours() -> Figure:
    """Shares of each hour of the week, for invented people together.

    They sleep at night and run on the mornings of weekends.
    """
    states, people, entries = ["rest", "walk", "run"], 100, 24 * 28
    habits = [[0.8, 0.15, 0.05], [0.4, 0.4, 0.2], [0.4, 0.3, 0.3]]
    rng = np.random.default_rng(1)
    hour, day = np.arange(entries) % 24, np.arange(entries) // 24 % 7
    chance = np.where((hour < 7) | (hour > 22), 0.02, 0.3)
    runs = np.where((day > 4) & (hour > 7) & (hour < 11), 0.7, 0.15)
    active = rng.random((people, entries)) < chance
    codes = np.where(active, np.where(rng.random((people, entries)) < runs, 2, 1), 0)
    first = datetime(2024, 1, 1)
    times = [first + timedelta(hours=n) for n in range(entries)] * people
    who, state = np.repeat(np.arange(people), entries), np.array(states)[codes.ravel()]
    columns = {"subject": "who", "time": "time", "state": "state", "states": states}
    rows = pl.DataFrame({"who": who, "time": times, "state": state})
    table = pk.read(rows, **columns, window="hour of week")
    chain = pk.MarkovChain.steady(habits, states=states)
    figure: Figure = pk.release(table, chain, "by-weekday-hour", 1, per="all").plot()
    figure.suptitle("")
    return figure


def shaped() -> Figure:
    """Noise that is loud in one direction, and the error of each bin before and after.

    Left: the shares of two states in a day asleep, and awake, and the regions that hold 95% of
    noisy answers, equal and shaped. Right: the error of each bin.
    """
    states = ["rest", "sit", "walk", "run"]
    shown = np.array([[0.90, 0.06, 0.03, 0.01], [0.20, 0.40, 0.28, 0.12]])
    moods = pk.RegimeClass([[0.99, 0.01], [0.02, 0.98]], shown, states=states)
    query = pk.histogram(states, 10_000)
    equal, made = pk.influence_curve(moods, query, 1), pk.shaped(moods, query, 1)
    figure, (plane, bars) = panels(2, 2 * WIDE, 3.6, "", shared=False)
    rng = np.random.default_rng(3)
    weights = made.rotated.weights * [float(s) for s in made.rotated.scales]
    sech = np.log(np.tan(np.pi / 2 * rng.random((400, weights.shape[1]))))
    clouds = rng.laplace(scale=equal.scale, size=(400, 4)), sech @ weights.T
    for cloud, colour, name in zip(clouds, (PALE, BLUE), ("equal", "shaped"), strict=True):
        plane.scatter(cloud[:, 0], cloud[:, 1], s=9, color=colour, label=f"{name} noise")
    moved = shown[1] - shown[0]
    reach = 2.5 * equal.scale * moved / np.abs(moved).max()
    plane.annotate("", reach[:2], -reach[:2], arrowprops={"arrowstyle": "<->", "color": ORANGE})
    plane.text(*(reach[:2] * 1.1), "asleep or awake", color=ORANGE, ha="center", va="bottom")
    far = 4 * equal.scale
    plane.set(xlim=(-far, far), ylim=(-far, far), xlabel="error of rest", ylabel="error of sit")
    plane.legend(frameon=False, fontsize=9, loc="lower left")
    names = [f"{state}, {kind}" for state in states for kind in ("equal", "shaped")]
    errors = [n for x in made.rotated.errors for n in (equal.scale, float(x))]
    notes = [f"{n:.0f}" for n in errors]
    ranked(bars, names, errors, notes, "mean error of a bin", colours=[GREY, BLUE] * len(states))
    return figure


if __name__ == "__main__":
    shaped().savefig(Path(__file__).parent / "images" / "shaped-noise.svg")
    drowns().savefig(Path(__file__).parent / "images" / "three-panels.png", dpi=150)
