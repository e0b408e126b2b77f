"""Figures of several questions at once, of two quantile methods, and of a synthetic series."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pufferkit.mechanisms.joint_plan import JointPlan, split
from pufferkit.plots.canvas import (
    BLACK,
    COLOURS,
    GREY,
    SKY,
    blank,
    footnote,
    grid,
    legend,
    name_bars,
    noted_bar,
    stacked,
)
from pufferkit.plots.question_figures import heat_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from pufferkit.mechanisms.quantiles import QuantilePlan
    from pufferkit.mechanisms.release import Release
    from pufferkit.mechanisms.synthetic import Synthetic

_MOST_LABELS = 12


def joint_figure(release: Release) -> Figure:
    """A joint release: a panel for each question, with the 95% intervals of its own noise.

    ``release`` is of several questions.
    """
    parts = split(release)
    title = f"{len(parts)} questions together: {release.mechanism}, epsilon {release.epsilon:g}"
    figure, every = stacked(len(parts), 2.6, title)
    for axes, (name, part) in zip(every, parts.items(), strict=True):
        axes.set_title(name, fontsize=10, loc="left", parse_math=False)
        if part.asks is not None and part.asks.picture != "bars":
            figure.colorbar(heat_rows(axes, part), ax=axes, shrink=0.8)
        else:
            _numbers(axes, part)
    return figure


def _numbers(axes: Axes, part: Release) -> None:
    """A bar for each number, with its interval."""
    places = list(range(len(part.labels)))
    low, high = zip(*part.as_drawn().interval(), strict=True)
    axes.bar(places, part.raw, width=0.6, color=SKY)
    axes.vlines(places, low, high, color=BLACK, linewidth=1.3)
    axes.axhline(0, color=BLACK, linewidth=0.9)
    few = len(places) <= _MOST_LABELS
    axes.set_xticks(places if few else [], list(part.labels) if few else [], parse_math=False)
    axes.set_xlim(-1.5, max(len(places), 3) + 0.5)
    grid(axes, "y")


def questions_figure(plan: JointPlan) -> Figure:
    """What each of several questions would cost alone, and all of them together.

    ``plan`` comes from `pufferkit.plan`, of several questions.
    """
    rows = plan.table_rows()
    title = f"{len(rows)} questions together: epsilon {plan.epsilon:.4g}"
    figure, axes = blank(8.4, 1.6 + 0.5 * len(rows), title)
    names = [row["question"] for row in rows]
    for place, row in enumerate(rows):
        note = f"{row['epsilon_alone']:.3g}, within {row['half_width']:.4g}"
        noted_bar(axes, place, row["epsilon_alone"], note, good=True)
    axes.axvline(plan.epsilon, color=BLACK, linestyle="--", linewidth=1.1, label="together")
    most = 1.3 * max(plan.epsilon, *plan.alone)
    name_bars(axes, names, "epsilon of each question alone", most)
    legend(figure, 1)
    return figure


def ways_figure(plan: QuantilePlan) -> Figure:
    """The two quantile methods, and their expected rank errors.

    ``plan`` comes from `pufferkit.plan_quantile`.
    """
    rows = plan.table_rows()
    title = f"quantile {plan.share:g} by {plan.way}, epsilon {plan.calibration.epsilon:g}"
    figure, axes = blank(8.4, 2.6, title)
    for place, row in enumerate(rows):
        note = f"{row['expected_error']:.3%}" + (", taken" if row["taken"] else "")
        noted_bar(axes, place, row["expected_error"], note, good=row["taken"])
    most = 1.25 * max(row["expected_error"] for row in rows) or 1.0
    ways = [row["way"] for row in rows]
    name_bars(axes, ways, "expected error, as a share of the entries", most)
    footnote(figure, plan.about)
    return figure


def synthetic_figure(made: Synthetic) -> Figure:
    """How close a synthetic series is: every released share against that of the series.

    ``made`` comes from `pufferkit.synthetic`.
    """
    rows = made.table_rows()
    kinds = list(dict.fromkeys(row["statistic"] for row in rows))
    figure, axes = blank(5.6, 5.4, str(made))
    axes.plot([0, 1], [0, 1], color=GREY, linewidth=1.0, label="the same")
    for kind, colour, marker in zip(kinds, COLOURS, "os", strict=False):
        own = [row for row in rows if row["statistic"] == kind]
        axes.plot(
            [row["released"] for row in own],
            [row["synthetic"] for row in own],
            marker,
            color=colour,
            markersize=5,
            alpha=0.75,
            label=kind,
        )
    largest = max([0.05, *(max(row["released"], row["synthetic"]) for row in rows)])
    axes.set_xlim(0, 1.05 * largest)
    axes.set_ylim(0, 1.05 * largest)
    axes.set_xlabel("released share")
    axes.set_ylabel("share in the synthetic series")
    axes.spines["left"].set_visible(True)
    axes.spines["left"].set_color(GREY)
    grid(axes)
    legend(figure, 3)
    return figure
