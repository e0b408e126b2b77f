"""Rows in, figure out: which beliefs people fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pufferkit.plots.canvas import BLACK, SKY, blank, footnote, name_bars, noted_bar

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_DAYS = 60


def influence_figure(rows: Sequence[Mapping[str, Any]], point: float, lower: float) -> Figure:
    """Entries that each class budgets, against what the data show.

    Parameters
    ----------
    rows
        With ``name``, ``budget`` and ``covers``.
    point, lower
        The influence measured, and its lower limit.
    """
    figure, axes = blank(7.2, 1.6 + 0.42 * len(rows), "Entries that one entry may give away")
    budgets = [row["budget"] for row in rows]
    axes.set_xscale("log")
    axes.set_xlim(min([*budgets, lower or point]) / 2, max([*budgets, point]) * 3)
    for y, row in enumerate(rows):
        covers = row["covers"]
        why = "too few" if row["budget"] < point else "refuted by other tests"
        note = f"{row['budget']:,.3g}" + ("" if covers else f"  {why}")
        noted_bar(axes, y, row["budget"], note, good=covers)
    if lower > 0:
        axes.axvspan(lower, point, color=SKY, alpha=0.25, linewidth=0)
    axes.axvline(point, color=BLACK, linewidth=1.2)
    names = [row["name"] for row in rows]
    name_bars(axes, names, "entries budgeted by the noise of each class")
    footnote(
        figure, f"Line: measured on people held out, {point:.3g}; shade: down to the lower limit."
    )
    return figure


def days_figure(codes: Sequence[int], states: Sequence[Any], day: int, title: str) -> Figure:
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
        cmap="viridis",
        vmin=0,
        vmax=max(len(states) - 1, 1),
    )
    axes.set_xlabel("entry of the day")
    axes.set_ylabel("day")
    bar = figure.colorbar(shown, ticks=range(len(states)) if len(states) <= 12 else None)
    if len(states) <= 12:
        bar.ax.set_yticklabels([str(state) for state in states], fontsize=8, parse_math=False)
    return figure
