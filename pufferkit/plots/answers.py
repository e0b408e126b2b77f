"""Answers as they leave: releases, what follows from them, and those of many subjects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pufferkit.data.bins import Bins
from pufferkit.data.calendar import WEEKDAYS
from pufferkit.data.queries import TopStates
from pufferkit.mechanisms.joint_plan import split
from pufferkit.mechanisms.release import Guarantee
from pufferkit.mechanisms.usefulness import drowned_numbers
from pufferkit.plots.canvas import (
    BLACK,
    BLUE,
    COLOURS,
    FADED,
    GREY,
    ORANGE,
    SKY,
    WIDE,
    blank,
    dated,
    footnote,
    grid,
    heat,
    intervals,
    legend,
    measure_up,
    name_places,
    panels,
    wide_for,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from pufferkit.account.releases import Releases
    from pufferkit.mechanisms.post_processing import Derived
    from pufferkit.mechanisms.release import Release
    from pufferkit.mechanisms.synthetic import Synthetic

_MOST_PANELS = 6
_MOST_ROWS = 40
_CURVES = ("cumulative distribution", "load duration")
_ACROSS = {**dict.fromkeys(_CURVES, "level"), "transition rates": "move"}
_UNITS = {
    "transition rates": " (share of the moves from a state)",
    "mean length of a stay": " (entries)",
    "cumulative distribution": " (share of the entries)",
    "load duration": " (entries)",
}
_SLOTS = {"hour": "hour of the day", "day": "day", "week": "week, by its Monday"}


def hides(guarantee: Guarantee) -> str:
    """What noise with this guarantee does, as the predicate of a title."""
    others = {
        Guarantee.ENTRY: "hides too little",
        Guarantee.EVENTS: "hides the secrets that were named",
        Guarantee.SECRETS: "hides the pairs that were given",
    }
    return others.get(guarantee, "hides every entry")


def _heading(answer: Release | Releases, what: str, entries: int | None = None) -> str:
    of = "" if entries is None else f" of {entries:,} entries"
    told = f"{what[:1].upper()}{what[1:].replace('-', ' ')}{of}"
    return f"{told}: {answer.mechanism} {hides(answer.guarantee)} at epsilon {answer.epsilon:g}"


# --- one release --------------------------------------------------------------------------------


def release_figure(release: Release, exact: Sequence[float] | None = None) -> Figure:
    """A release as bars with 95% intervals of the noise; by time and for moves, as a heat map.

    Bars are ``raw``, the answer as drawn, around which the intervals lie. Where ``value`` is the
    nearest histogram, a mark shows it. What noise drowns is faded. Of several questions there is a
    panel for each.

    Parameters
    ----------
    release
        What was released.
    exact
        The exact answer, drawn only if given. It has no privacy.
    """
    count = len(release.labels)
    if exact is not None and len(exact) != count:
        raise ValueError(f"exact: has {len(exact)} numbers for {count} labels")
    parts = split(release) if release.kind == "several" and exact is None else {}
    if parts:
        title = f"{len(parts)} questions: {release.mechanism} at epsilon {release.epsilon:g}"
        columns = 1 if len(parts) <= 3 else 2
        size = WIDE * columns**0.5, 0.8 + 2.6 * -(-len(parts) // columns)
        figure, every = panels(len(parts), *size, title, columns=columns)
        for axes, (name, part) in zip(every, parts.items(), strict=True):
            axes.set_title(name, fontsize=10, loc="left", parse_math=False)
            _drawn(figure, axes, part, None)
        return figure
    title = _heading(release, release.query, sum(release.lengths))
    picture = "bars" if release.asks is None or exact is not None else release.asks.picture
    if picture == "slots":
        lost = drowned_numbers(release)
        return _slots(release.labels, release.value, release.question or {}, title, lost)
    if picture == "moves":
        figure, axes = blank(WIDE, 2.4 + 0.5 * count**0.5, title)
    else:
        if drowned_numbers(release).any():
            title += "\nfaded: the noise is more than half of what the beliefs expect"
        figure, axes = blank(wide_for(count), 4.0, title)
    _drawn(figure, axes, release, exact)
    if picture == "bars":
        legend(figure)
    return figure


def _drawn(figure: Figure, axes: Axes, release: Release, exact: Sequence[float] | None) -> None:
    """One answer on axes of its own, among others or alone."""
    picture = "bars" if release.asks is None or exact is not None else release.asks.picture
    if picture == "slots":
        shares, states, slots, _ = _by_slot(release.labels, release.value, release.question or {})
        figure.colorbar(heat(axes, shares.T, states, slots), ax=axes, shrink=0.8)
        return
    if picture == "moves":
        rates, states = rates_of(release)
        bar = figure.colorbar(heat(axes, rates, states, states, numbers=".2f"), ax=axes, shrink=0.8)
        bar.set_label("share of the moves from a state", fontsize=9)
        axes.set_xlabel("state of the next entry")
        axes.set_ylabel("state of an entry")
        return
    count, total, chosen = len(release.labels), release.total, release.noise == "noisy choice"
    places = range(count)
    few = total is not None and count <= len(COLOURS)  # of states
    bars = axes.bar(places, release.raw, width=0.62, color=COLOURS[:count] if few else SKY)
    for bar, faded in zip(bars, drowned_numbers(release), strict=True):
        bar.set_alpha(FADED if faded else 1.0)
    lows, highs = zip(*release.as_drawn().interval(), strict=True)
    if chosen:
        axes.plot([], [], "s", color=SKY, label="as drawn, with noise")
    else:
        name = "95% interval of the noise"
        intervals(axes, places, release.raw, lows, highs, label=name)
    for numbers, colour, name in (
        (release.value, BLACK, "nearest histogram"),
        (exact, ORANGE, "exact: not private"),
    ):
        if numbers is not None and (exact is numbers or release.presentation == name):
            look: dict[str, Any] = {"ms": 7, "mfc": colour, "mec": "white", "linestyle": "none"}
            axes.plot(places, list(numbers), marker="D", label=name, **look)
    if total is not None:
        shown = [*release.raw, *release.value, *highs, *(exact or ())]
        axes.set_ylim(0, min(total, 1.05 * max(shown)))
    axes.spines["bottom"].set_visible(False)
    axes.axhline(0, color=BLACK, linewidth=0.9)
    grid(axes, "y")
    counted = release.query if release.asks is None else release.asks.axis
    measure_up(axes, f"{counted}, with noise")
    if count > 1:
        axes.set_xlabel(_of_what(release.labels), parse_math=False)
    name_places(axes, release.labels)


def _of_what(labels: Sequence[str]) -> str:
    """What the labels of coordinates are: states, or levels with their unit."""
    bins = Bins.of_names(labels)
    if bins is None:
        return "state"
    return f"level in {bins.unit}" if bins.unit else "level"


def rates_of(release: Release) -> tuple[Any, list[str]]:
    """Transition counts as the shares of where each state goes next, and the states."""
    size = round(len(release.labels) ** 0.5)
    counts = np.maximum(np.array(release.value).reshape(size, size), 0.0)
    sums = counts.sum(axis=1, keepdims=True)
    rates = np.where(sums > 0, counts / np.where(sums > 0, sums, 1.0), np.nan)
    own = [release.labels[n * size + n] for n in range(size)]
    return rates, [label[: (len(label) - len(" to ")) // 2] for label in own]


def _by_slot(
    labels: Sequence[str], numbers: Any, question: Mapping[str, Any]
) -> tuple[Any, list[str], list[str], Any]:
    """Shares of each slot between 0 and 1, the states, the slots, and what was observed in each."""
    slots, seen = list(question["slots"]), np.array(question["observed"], dtype=float)
    values = np.asarray(numbers, dtype=float).reshape(len(slots), -1)
    shares = np.clip(values / np.maximum(seen, 1.0)[:, None], 0.0, 1.0)
    shares[seen == 0] = np.nan
    states = [label.removeprefix(f"{slots[0]}, ") for label in labels[: values.shape[1]]]
    return shares, states, [slot.removeprefix("week of ") for slot in slots], seen


def _slots(
    labels: Sequence[str], numbers: Any, question: Mapping[str, Any], title: str, lost: Any
) -> Figure:
    """A question by time as a heat map of shares: dark where a state takes more of the slot.

    By weekday and hour there is a panel for each state, a row for each day. Otherwise there is a
    row for each state and a column for each slot.
    """
    shares, states, slots, _ = _by_slot(labels, numbers, question)
    faint = np.where(lost.reshape(shares.shape), FADED, 1.0)
    notes = []
    if question["by"] == "weekday and hour":
        shown = states[:_MOST_PANELS]
        figure, every = panels(len(shown), WIDE, 1.2 + 1.7 * len(shown), title, columns=1)
        days, hours = [day[:3] for day in WEEKDAYS], [f"{hour}:00" for hour in range(24)]
        for n, (axes, state) in enumerate(zip(every, shown, strict=True)):
            drawn = heat(
                axes, shares[:, n].reshape(7, 24), days, hours, faint=faint[:, n].reshape(7, 24)
            )
            axes.set_xticks(range(0, 24, 3), hours[::3], rotation=0, ha="center")
            axes.set_title(state, fontsize=10, loc="left", parse_math=False)
            axes.set_ylabel("day of the week")
            axes.set_xlabel("hour of the day")
        if len(states) > _MOST_PANELS:
            notes.append(f"Not drawn: {', '.join(states[_MOST_PANELS:])}.")
    else:
        figure, axes = blank(WIDE, 2.4 + 0.4 * len(states), title)
        drawn = heat(axes, shares.T, states, slots, faint=faint.T)
        axes.set_xlabel(_SLOTS.get(question["by"], "slot"))
        axes.set_ylabel("state")
    bar = figure.colorbar(drawn, ax=figure.axes, shrink=0.8)
    bar.set_label("share of the slot", fontsize=9)
    if lost.any():
        count = f"{int(lost.sum()):,} of {lost.size:,} counts"
        notes.append(f"Faded: for {count} the noise is more than half of what is expected.")
    if notes:
        footnote(figure, " ".join(notes))
    return figure


def simulation_figure(
    exact: Sequence[float],
    drawn: Sequence[Sequence[float]],
    labels: Sequence[str],
    what: str = "answers",
    title: str = "",
) -> Figure:
    """Simulated releases of generated or public data beside the truth.

    Parameters
    ----------
    exact, drawn
        The true answer of simulated data, and several noisy ones.
    labels
        Of the coordinates.
    """
    if not drawn or any(len(one) != len(exact) for one in drawn):
        raise ValueError("drawn: needs at least one answer, each as long as the exact one")
    figure, axes = blank(wide_for(len(exact)), 4.0, title)
    beside = np.linspace(-0.12, 0.12, len(drawn)) if len(drawn) > 1 else np.zeros(1)
    for x, truth in enumerate(exact):
        heights = [one[x] for one in drawn]
        axes.plot(x + beside, heights, "o", markersize=4, color=SKY, label="simulated")
        name = "exact answer of simulated data"
        axes.plot([x - 0.3, x + 0.3], [truth] * 2, color=BLACK, linewidth=2, label=name)
    axes.axhline(0, color=BLACK, linewidth=0.6)
    grid(axes, "y")
    measure_up(axes, f"{what}, simulated and exact")
    if len(labels) > 1:
        axes.set_xlabel(_of_what(labels), parse_math=False)
    name_places(axes, labels)
    legend(figure)
    return figure


# --- what follows from a release ----------------------------------------------------------------


def derived_figure(derived: Derived) -> Figure:
    """What follows from a release, with its intervals; curves as steps.

    ``derived`` is such as a cumulative distribution, a load-duration curve, or transition rates.
    """
    what, count = derived.what, len(derived.labels)
    title = f"{what[:1].upper()}{what[1:]}, from a release at epsilon {derived.epsilon:g}"
    figure, axes = blank(wide_for(count), 3.8, f"{title}\n{derived.how}")
    places = range(count)
    intervals(axes, places, derived.value, derived.low, derived.high)
    axes.plot(places, derived.value, "o", color=BLUE)
    if what in _CURVES:
        axes.step(places, derived.value, where="mid", color=BLUE)
    name_places(axes, derived.labels)
    axes.set_xlabel(_ACROSS.get(what, ""))
    measure_up(axes, f"{what}{_UNITS.get(what, '')}, {derived.level:.0%} intervals")
    grid(axes, "y")
    return figure


def synthetic_figure(made: Synthetic) -> Figure:
    """How close a synthetic series is: every released share against that of the series.

    ``made`` comes from `pufferkit.synthetic`.
    """
    rows = made.table_rows()
    kinds = list(dict.fromkeys(row["statistic"] for row in rows))
    figure, axes = blank(WIDE, 5.4, str(made))
    axes.plot([0, 1], [0, 1], color=GREY, linewidth=1.0, label="the same")
    for kind, colour, marker in zip(kinds, COLOURS, "os", strict=False):
        points = [(row["released"], row["synthetic"]) for row in rows if row["statistic"] == kind]
        look: dict[str, Any] = {
            "color": colour,
            "markersize": 5,
            "alpha": 0.75,
            "linestyle": "none",
        }
        axes.plot(*zip(*points, strict=True), marker=marker, label=kind, **look)
    most = max([0.05, *(max(row["released"], row["synthetic"]) for row in rows)])
    axes.set(xlim=(0, 1.05 * most), ylim=(0, 1.05 * most))
    axes.set_xlabel("released share")
    axes.set_ylabel("share in the synthetic series")
    grid(axes)
    legend(figure)
    return figure


# --- many releases ------------------------------------------------------------------------------


def _named(releases: Releases) -> str:
    """What was asked, in the words of the question."""
    return next((one.query.name for one in releases.calibrations.values()), releases.query)


def releases_figure(releases: Releases) -> Figure:
    """Over the windows of one subject, over subjects, or a panel for each state over both.

    Questions by time and curves have the pictures of one subject.
    """
    subjects = [str(name) for name in releases.subjects or releases.groups or ()]
    owners = subjects or ["all subjects"] * len(releases)
    asked = releases.asked
    if releases.observed is not None:
        first = {**(releases.question or {}), "observed": releases.observed[0]}
        title = _heading(releases, f"{_named(releases)}, {owners[0]}", int(releases.entries[0]))
        return _slots(
            releases.labels, releases.value[0], first, title, drowned_numbers(releases.row(0))
        )
    derived = asked is not None and asked.replaced and releases.noise != "noisy choice"
    if derived and not isinstance(asked, TopStates):
        return _follows(releases, owners)
    height = "entries" if asked is None else asked.axis
    measure = f"{height if releases.days is None else 'share of days'}, with noise"
    if releases.windows is not None and len(set(owners)) > 1:
        return _windows(releases, owners, measure)
    windows = releases.windows is not None
    shown = slice(None if windows else _MOST_ROWS)
    title = _heading(releases, _named(releases))
    if not windows and len(releases) > _MOST_ROWS:
        title += f"\nthe first {_MOST_ROWS} of {len(releases):,} subjects"
    values = releases.raw[shown]  # around which the intervals lie
    figure, axes = blank(WIDE if windows else wide_for(len(values)), 4.2, title)
    half = np.zeros(len(releases)) if releases.noise == "noisy choice" else releases.half_width()
    for n, label in enumerate(releases.labels):
        beside = 0.12 * (n - (len(releases.labels) - 1) / 2) / max(1.0, len(releases.labels) / 4)
        over: Any = releases.starts if windows else np.arange(len(values)) + beside
        _line(axes, over, values[:, n], half[shown], n, label, "-" if windows else "none")
    if windows:
        _begins(axes, releases)
    else:
        name_places(axes, owners[shown])
        axes.set_xlabel("group" if releases.groups else "subject")
    measure_up(axes, measure)
    if releases.totals is not None:
        _possible(axes, float(np.max(releases.totals)))
    grid(axes)
    legend(figure)
    return figure


def _possible(axes: Axes, total: float) -> None:
    """Heights between 0 and the total alone, where the exact answers are."""
    low, high = axes.get_ylim()
    axes.set_ylim(max(low, 0.0), min(high, total))


def _line(
    axes: Axes, over: Any, values: Any, half: Any, number: int, label: str, line: str
) -> None:
    """The values of one state with the intervals around them, in its colour."""
    colour, ends = COLOURS[number % len(COLOURS)], (values - half, values + half)
    intervals(axes, over, values, *ends, marker="o", label=label, colour=colour, line=line)


def windows_figure(releases: Mapping[str, Release]) -> Figure:
    """The releases of one series over the windows of a rule: a line for each state."""
    if not releases:
        raise ValueError("releases: no window is complete, so there is nothing to draw")
    names, rows = list(releases), [one.as_drawn() for one in releases.values()]
    first = rows[0]
    title = f"{_heading(first, first.query)} in each of {len(rows):,} windows"
    figure, axes = blank(wide_for(len(rows)), 4.2, title)
    values, ends = np.array([row.raw for row in rows]), np.array([row.interval() for row in rows])
    half = (ends[:, :, 1] - ends[:, :, 0]) / 2
    for n, label in enumerate(first.labels[:_MOST_PANELS]):
        _line(axes, range(len(rows)), values[:, n], half[:, n], n, label, "-")
    name_places(axes, names)
    if first.total is not None:
        _possible(axes, max(row.total or 0.0 for row in rows))
    axes.set_xlabel("window")
    measure_up(axes, f"{first.query if first.asks is None else first.asks.axis}, with noise")
    grid(axes)
    legend(figure)
    return figure


def _begins(axes: Axes, releases: Releases) -> None:
    """The beginnings of windows below."""
    axes.set_xlabel("start of the window")
    if releases.cut is not None and releases.cut.of_time:
        dated(axes)


def _windows(releases: Releases, owners: list[str], measure: str) -> Figure:
    """A panel for each state: a line for each subject over its windows."""
    title, states = _heading(releases, _named(releases)), releases.labels[:_MOST_PANELS]
    shown = list(dict.fromkeys(owners))[:_MOST_ROWS]
    for part, whole, what in (
        (len(shown), len(set(owners)), "subjects"),
        (len(states), len(releases.labels), "states"),
    ):
        title += f"\nthe first {part} of {whole:,} {what}" * (part < whole)
    if releases.noise != "noisy choice":
        title += f"\n95% of the noise is within {releases.half_width().max():.3g}"
    figure, every = panels(len(states), WIDE, 1.4 + 1.8 * len(states), title, columns=1)
    few = len(shown) <= len(COLOURS)
    for state, axes in enumerate(every):
        for n, subject in enumerate(shown):
            rows = [row for row, owner in enumerate(owners) if owner == subject]
            begins = [releases.starts[row] for row in rows]
            heights, name = releases.value[rows, state], subject if few else None
            colour = COLOURS[n % len(COLOURS)]
            axes.plot(begins, heights, marker="o", markersize=3, color=colour, label=name)
        axes.set_title(states[state], fontsize=10, loc="left", parse_math=False)
        _begins(axes, releases)
        grid(axes)
    measure_up(every[0], measure)
    if few:
        legend(figure)
    return figure


def _follows(releases: Releases, owners: list[str]) -> Figure:
    """What follows from the release of each subject: a curve for each, or a point."""
    names = owners
    if releases.windows is not None:
        names = [f"{name}, {start}" for name, start in zip(owners, releases.starts, strict=True)]
    readings = releases.follows()
    shown, labels = readings[:_MOST_ROWS], readings[0].labels
    title = _heading(releases, _named(releases)) + f"\n{readings[0].how}"
    if len(shown) < len(readings):
        title += f"\nthe first {len(shown)} of {len(readings):,}"
    single, few = len(labels) == 1, len(shown) <= len(COLOURS)
    figure, axes = blank(wide_for(len(shown if single else labels)), 4.0, title)
    if single:
        numbers = [(one.value[0], one.low[0], one.high[0]) for one in shown]
        intervals(axes, range(len(shown)), *zip(*numbers, strict=True), colour=BLUE, marker="o")
        name_places(axes, names[: len(shown)])
        axes.set_xlabel("group" if releases.groups else "subject")
        measure_up(axes, f"{readings[0].what}, {readings[0].level:.0%} intervals")
    else:
        for n, one in enumerate(shown):
            colour, name = COLOURS[n % len(COLOURS)], names[n] if few else None
            axes.step(range(len(labels)), one.value, where="mid", color=colour, label=name)
        name_places(axes, labels)
        axes.set_xlabel(_ACROSS.get(readings[0].what, ""))
        measure_up(axes, readings[0].what)
        if few:
            legend(figure)
    grid(axes, "y")
    return figure
