"""Rows in, figure out: which beliefs people fit, and what was spent on their entries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pufferkit.plots.canvas import (
    BLACK,
    BLUE,
    ORANGE,
    SKY,
    STATES,
    blank,
    footnote,
    grid,
    legend,
    name_bars,
    noted_dot,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_DAYS = 60
_HOURS = (0, 6, 12, 18, 24)


def influence_figure(rows: Sequence[Mapping[str, Any]], point: float, lower: float) -> Figure:
    """Entries that each class budgets, against what the data show.

    Parameters
    ----------
    rows
        With ``name``, ``budget`` and ``covers``.
    point, lower
        The influence measured, and its lower limit.
    """
    figure, axes = blank(
        7.2,
        1.6 + 0.42 * len(rows),
        "How many entries one entry gives away",
    )
    budgets = [row["budget"] for row in rows]
    axes.set_xscale("log")
    axes.set_xlim(min([*budgets, lower or point]) / 2, max([*budgets, point]) * 2)
    axes.set_ylim(-0.6, len(rows) - 0.4)
    for y, row in enumerate(rows):
        covers = row["covers"]
        why = "too few" if row["budget"] < point else "refuted by other tests"
        note = f"{row['budget']:,.3g}" + ("" if covers else f"  {why}")
        noted_dot(axes, y, row["budget"], note, good=covers)
    if lower > 0:
        axes.axvspan(lower, point, color=SKY, alpha=0.25, linewidth=0)
    axes.axvline(point, color=BLACK, linewidth=1.2)
    names = [row["name"] for row in rows]
    name_bars(axes, names, "entries budgeted by the noise of each class")
    footnote(
        figure, f"Line: measured on people held out, {point:.3g}; shade: down to the lower limit."
    )
    return figure


def days_figure(
    codes: Sequence[int], states: Sequence[Any], day: int, title: str, *, clock: bool = False
) -> Figure:
    """One person's days below one another, a colour for each state.

    Parameters
    ----------
    codes
        States by number, -1 where nothing was observed.
    states
        Their names.
    day
        Entries in a day, or in a line of the picture.
    title
        Drawn above.
    clock
        Whether lines are days from midnight, so that hours can be written below them.
    """
    entries = np.asarray(codes[: day * _MOST_DAYS], dtype=float)
    lines = -(-len(entries) // day)
    picture = np.full(lines * day, np.nan)
    picture[: len(entries)] = np.where(entries < 0, np.nan, entries)
    figure, axes = blank(7.2, 1.6 + 0.18 * lines, title)
    shown = axes.imshow(
        picture.reshape(lines, day),
        aspect="auto",
        interpolation="nearest",
        cmap=_colours(len(states)),
        vmin=-0.5,
        vmax=len(states) - 0.5,
    )
    if clock:
        axes.set_xticks([day * hour / 24 - 0.5 for hour in _HOURS], [f"{h}:00" for h in _HOURS])
    axes.set_xlabel("time of day" if clock else "entry")
    axes.set_ylabel("day")
    axes.set_yticks(range(0, lines, max(1, lines // 10)))
    axes.set_yticklabels([str(n + 1) for n in range(0, lines, max(1, lines // 10))])
    bar = figure.colorbar(shown, ticks=range(len(states)) if len(states) <= 12 else None)
    if len(states) <= 12:
        bar.ax.set_yticklabels([str(state) for state in states], fontsize=8, parse_math=False)
        bar.ax.tick_params(length=0)
    return figure


def _colours(count: int) -> Any:
    """The colours of states; a scale where there are more states than colours."""
    from matplotlib.colors import ListedColormap  # noqa: PLC0415

    return ListedColormap(STATES[:count]) if count <= len(STATES) else "Blues"


def profile_figure(rows: Sequence[Mapping[str, Any]], times: Sequence[int] | None = None) -> Figure:
    """The loss of each entry, and the event-level epsilon spent on it.

    Parameters
    ----------
    rows
        `Account.profile`.
    times
        The time of each entry in microseconds, if known.
    """
    figure, axes = blank(7.2, 4.0, "What all releases together say about each entry")
    ends = [row[end] for row in rows for end in ("first", "last")]
    across: Any = ends
    if times is not None:
        across = np.array([times[end - 1] for end in ends], dtype="datetime64[us]")
    for name, label, colour, dashes in (
        ("epsilon", "Pufferfish loss of the entry", BLUE, "-"),
        ("event_epsilon", "event-level epsilon spent on it", ORANGE, "--"),
    ):
        heights = [row[name] for row in rows for _ in ("first", "last")]
        axes.plot(across, heights, color=colour, linestyle=dashes, linewidth=2, label=label)
    if times is not None:
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter  # noqa: PLC0415

        places = AutoDateLocator(minticks=3, maxticks=9)  # type: ignore[no-untyped-call]
        axes.xaxis.set_major_locator(places)
        short = ConciseDateFormatter(places)  # type: ignore[no-untyped-call]
        axes.xaxis.set_major_formatter(short)
    axes.set_xlabel("entry" if times is None else "time")
    axes.set_ylabel("epsilon")
    axes.set_ylim(bottom=0)
    grid(axes)
    legend(figure, 1)
    return figure
