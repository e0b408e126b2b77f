"""Pictures of questions by time and of moves: heat maps of shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pufferkit.data.calendar import WEEKDAYS
from pufferkit.mechanisms.calibration import DROWNED
from pufferkit.mechanisms.release import half_width
from pufferkit.plots.canvas import (
    BLACK,
    BLUE,
    COLOURS,
    FADED,
    blank,
    footnote,
    grid,
    legend,
    measure_up,
    panels,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from pufferkit.account.releases import Releases
    from pufferkit.mechanisms.post_processing import Derived
    from pufferkit.mechanisms.release import Release

_MOST_PANELS = 6
_MOST_NUMBERS = 12
_UNITS = {
    "transition rates": " (share of the moves from a state)",
    "mean length of a stay": " (entries)",
    "cumulative distribution": " (share of the entries)",
    "load duration": " (entries)",
}
_ACROSS = {"cumulative distribution": "level", "load duration": "level", "transition rates": "move"}
_SLOTS = {"hour": "hour of the day", "day": "day", "week": "week, by its Monday"}
_MOST_ROWS = 40


def time_figure(release: Release) -> Figure:
    """A question by time as a heat map of shares: dark where a state takes more of the slot.

    By weekday and hour there is a panel for each state, a row for each day. Otherwise there is a
    row for each state and a column for each slot.

    ``release`` is of a question by time.
    """
    question = release.question or {}
    return _slots(
        release.labels,
        np.array(release.value),
        question,
        np.array(question["observed"], dtype=float),
        f"{release.query.capitalize()} of {sum(release.lengths):,} entries: {release.mechanism} "
        f"at epsilon {release.epsilon:g}",
        half_width(release.scale, 0.95, unit=release.unit),
    )


def slots_figure(releases: Releases) -> Figure:
    """The same for all subjects together, or the first row of many.

    ``releases`` are of a question by time.
    """
    question, observed = releases.question or {}, releases.observed
    if observed is None:
        raise ValueError("releases: there is a picture of questions by time")
    whose = "all subjects" if releases.subjects is None else str(releases.subjects[0])
    return _slots(
        releases.labels,
        releases.value[0],
        question,
        observed[0].astype(float),
        f"{releases.query.capitalize()} of {whose}, {int(releases.entries[0]):,} entries: "
        f"{releases.mechanism} at epsilon {releases.epsilon:g}",
        float(releases.half_width()[0]),
    )


def _slots(
    labels: Sequence[str],
    numbers: Any,
    question: Mapping[str, Any],
    seen: Any,
    title: str,
    error: float,
) -> Figure:
    slots = list(question["slots"])
    values = numbers.reshape(len(slots), -1)
    shares = values / np.maximum(seen, 1.0)[:, None]
    shares[seen == 0] = np.nan
    drowned = error > DROWNED * seen / values.shape[1]
    faint = np.where(drowned, FADED, 1.0)
    states = [label.removeprefix(f"{slots[0]}, ") for label in labels[: values.shape[1]]]
    if question["by"] == "weekday and hour":
        shown = states[:_MOST_PANELS]
        figure, every = panels(len(shown), min(16.0, 1.6 + 4.2 * len(shown)), 3.4, title)
        for n, (axes, state) in enumerate(zip(every, shown, strict=True)):
            drawn = _heat(axes, shares[:, n].reshape(7, 24), faint.reshape(7, 24))
            axes.set_title(state, fontsize=10, parse_math=False)
            axes.set_xticks(range(0, 24, 6), [f"{hour}:00" for hour in range(0, 24, 6)])
            axes.set_yticks(range(7), [day[:3] for day in WEEKDAYS])
            axes.set_xlabel("hour of the day")
        every[0].set_ylabel("day of the week")
    else:
        figure, axes = blank(min(10.0, 3.4 + 0.3 * len(slots)), 2.2 + 0.4 * len(states), title)
        drawn = _heat(axes, shares.T, np.tile(faint, (len(states), 1)))
        step = -(-len(slots) // 24)
        names = [slot.removeprefix("week of ") for slot in slots]
        axes.set_xticks(range(0, len(slots), step), names[::step], rotation=45, ha="right")
        axes.set_yticks(range(len(states)), states, parse_math=False)
        axes.set_xlabel(_SLOTS.get(question["by"], "slot"))
        axes.set_ylabel("state")
    bar = figure.colorbar(drawn, ax=figure.axes, shrink=0.8)
    bar.set_label("share of the slot", fontsize=9)
    if question["by"] == "weekday and hour" and len(states) > _MOST_PANELS:
        footnote(figure, f"Not drawn: {', '.join(states[_MOST_PANELS:])}.")
    elif drowned.any():
        count = f"{int(drowned.sum()):,} of {len(slots):,} slots"
        footnote(figure, f"Faded: in {count} the noise is more than half of an average count.")
    return figure


def derived_figure(derived: Derived) -> Figure:
    """What follows from a release, with its intervals; curves as steps.

    Parameters
    ----------
    derived
        Such as a cumulative distribution, a load-duration curve, or transition rates.
    """
    count = len(derived.labels)
    title = f"{derived.what}, epsilon {derived.epsilon:g}\n{derived.how}"
    figure, axes = blank(min(14.0, max(5.0, 2.0 + 0.5 * count)), 4.2, title)
    places = list(range(count))
    most = max([abs(v) for v in (*derived.value, *derived.high) if np.isfinite(v)], default=1.0)
    high = [v if np.isfinite(v) else most for v in derived.high]
    axes.vlines(places, derived.low, high, color=BLACK, linewidth=1.3)
    axes.plot(places, derived.value, "o", color=BLUE)
    if derived.what in ("cumulative distribution", "load duration"):
        axes.step(places, derived.value, where="mid", color=BLUE)
    axes.set_xticks(places, list(derived.labels), rotation=40, ha="right", parse_math=False)
    axes.set_xlabel(_ACROSS.get(derived.what, ""))
    unit = _UNITS.get(derived.what, "")
    measure_up(axes, f"{derived.what}{unit}, {derived.level:.0%} intervals")
    grid(axes, "y")
    return figure


def measured(releases: Releases) -> str:
    """What the numbers of many releases are, for an axis."""
    if releases.days is not None:
        return "share of days"
    return "entries" if releases.asked is None else releases.asked.axis


def owners(releases: Releases) -> list[str]:
    """Whose each row is: a subject's, a group's, or that of all subjects."""
    names = [str(name) for name in releases.subjects or releases.groups or ()]
    return names or ["all subjects"] * len(releases)


def follows_figure(releases: Releases) -> Figure:
    """What follows from the release of each subject: a curve for each, or a point.

    ``releases`` are of a question such as a quantile, a variance or a load-duration curve.
    """
    names = owners(releases)
    if releases.windows is not None:
        names = [f"{name}, {start}" for name, start in zip(names, releases.starts, strict=True)]
    readings = releases.follows()
    shown = readings[:_MOST_ROWS]
    title = f"{releases.query}, epsilon {releases.epsilon:g}\n{readings[0].how}"
    if len(shown) < len(readings):
        title += f"\nthe first {len(shown)} of {len(readings):,}"
    single = len(readings[0].labels) == 1
    if single:
        figure, axes = blank(min(14.0, max(5.0, 2.0 + 0.5 * len(shown))), 4.2, title)
        places = list(range(len(shown)))
        most = max([abs(v) for one in shown for v in (*one.value, *one.high) if np.isfinite(v)])
        high = [one.high[0] if np.isfinite(one.high[0]) else most for one in shown]
        axes.vlines(places, [one.low[0] for one in shown], high, color=BLACK, linewidth=1.3)
        axes.plot(places, [one.value[0] for one in shown], "o", color=BLUE)
        axes.set_xticks(places, names[: len(shown)], rotation=40, ha="right", parse_math=False)
    else:
        labels = list(readings[0].labels)
        figure, axes = blank(min(14.0, max(5.0, 2.0 + 0.5 * len(labels))), 4.2, title)
        for number, one in enumerate(shown):
            colour = COLOURS[number % len(COLOURS)]
            few = len(shown) <= len(COLOURS)
            axes.step(
                range(len(labels)),
                one.value,
                where="mid",
                color=colour,
                label=names[number] if few else None,
            )
        axes.set_xticks(range(len(labels)), labels, rotation=40, ha="right", parse_math=False)
        if len(shown) <= len(COLOURS):
            legend(figure, 4)
    level = f", {readings[0].level:.0%} intervals" if single else ""
    measure_up(axes, f"{readings[0].what}{level}")
    grid(axes, "y")
    return figure


def moves_figure(release: Release) -> Figure:
    """Transition counts as rates: a row for each state, the shares of where it goes next.

    ``release`` is of transition counts.
    """
    rates, states = rates_of(release)
    size = len(states)
    title = f"Where each state goes next: {release.mechanism} at epsilon {release.epsilon:g}"
    side = min(12.0, 3.0 + 0.6 * size)
    figure, axes = blank(side + 1.2, side, title)
    drawn = _heat(axes, rates)
    axes.set_xticks(range(size), states, rotation=30, ha="right", parse_math=False)
    axes.set_yticks(range(size), states, parse_math=False)
    if size <= _MOST_NUMBERS:
        for (x, y), rate in np.ndenumerate(rates):
            if np.isfinite(rate):
                colour = "white" if rate > 0.6 else BLACK
                axes.text(y, x, f"{rate:.2f}", ha="center", va="center", color=colour)
    axes.set_xlabel("state of the next entry")
    axes.set_ylabel("state of an entry")
    bar = figure.colorbar(drawn, ax=axes, shrink=0.8)
    bar.set_label("share of the moves from a state", fontsize=9)
    return figure


def heat_rows(axes: Axes, release: Release) -> Any:
    """A question by time, or moves, on axes of their own: a row for each state."""
    if release.asks is not None and release.asks.picture == "slots":
        question = release.question or {}
        slots, seen = list(question["slots"]), np.array(question["observed"], dtype=float)
        shares = np.array(release.value).reshape(len(slots), -1) / np.maximum(seen, 1.0)[:, None]
        shares[seen == 0] = np.nan
        size = shares.shape[1]
        states = [label.removeprefix(f"{slots[0]}, ") for label in release.labels[:size]]
        step = max(1, len(slots) // 8)
        axes.set_xticks(range(0, len(slots), step), slots[::step], fontsize=8)
        axes.set_yticks(range(size), states, parse_math=False)
        return _heat(axes, shares.T)
    rates, states = rates_of(release)
    axes.set_xticks(range(len(states)), states, parse_math=False)
    axes.set_yticks(range(len(states)), states, parse_math=False)
    return _heat(axes, rates)


def rates_of(release: Release) -> tuple[Any, list[str]]:
    """Transition counts as the shares of where each state goes next, and the states."""
    size = round(len(release.labels) ** 0.5)
    counts = np.maximum(np.array(release.value).reshape(size, size), 0.0)
    sums = counts.sum(axis=1, keepdims=True)
    rates = np.where(sums > 0, counts / np.where(sums > 0, sums, 1.0), np.nan)
    own = [release.labels[n * size + n] for n in range(size)]
    return rates, [label[: (len(label) - len(" to ")) // 2] for label in own]


def _heat(axes: Axes, shares: Any, faint: Any = None) -> Any:
    axes.tick_params(length=0)
    axes.spines["bottom"].set_visible(False)
    return axes.imshow(shares, cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto", alpha=faint)
