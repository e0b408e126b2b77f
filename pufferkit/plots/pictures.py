"""The picture of an object: `pufferkit.shown.Shown.plot` asks here."""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING, Any

from pufferkit.accounting.session import Session, SessionPlan
from pufferkit.audit.report import Audit
from pufferkit.experiments.result import Result
from pufferkit.fleet.releases import Releases
from pufferkit.mechanisms.explain import PairTable
from pufferkit.mechanisms.plan import Plan
from pufferkit.mechanisms.release import Release
from pufferkit.plots.canvas import BLACK, BLUE, COLOURS, blank, grid, legend
from pufferkit.plots.charts import experiment_figure
from pufferkit.plots.figures import audit_figure, pair_figure, plan_figure, release_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@singledispatch
def figure_of(thing: Any) -> Figure:
    """The picture of a plan, a release, releases, a session, an audit or a table of pairs."""
    raise ValueError(f"{type(thing).__name__}: there is no picture of it")


@figure_of.register(Plan)
def _(thing: Plan) -> Figure:
    return plan_figure(thing.rows, str(thing).partition("\n")[0].replace("; ", "\n"))


@figure_of.register(SessionPlan)
def _(thing: SessionPlan) -> Figure:
    return figure_of(thing.plan)


figure_of.register(Release, release_figure)
figure_of.register(PairTable, pair_figure)
figure_of.register(Audit, audit_figure)
figure_of.register(Result, experiment_figure)


@figure_of.register(Session)
def _(thing: Session) -> Figure:
    history = thing.history
    if not history:
        raise ValueError("session: nothing was released yet, so there is nothing to draw")
    figure, axes = blank(7.2, 4.0, str(thing))
    places = range(1, len(history) + 1)
    axes.step(places, [row["total"] for row in history], where="mid", color=BLUE, label="total")
    budget = history[-1]["total"] + thing.remaining
    axes.axhline(budget, color=BLACK, linestyle="--", linewidth=1.1, label="budget")
    axes.set_xlabel("release")
    axes.set_ylabel("epsilon for everything so far")
    axes.set_ylim(bottom=0)
    grid(axes)
    legend(figure, 2)
    return figure


@figure_of.register(Releases)
def _(thing: Releases) -> Figure:
    """One line for each state: over the windows of a subject, or over subjects."""
    one = thing.subjects is None or len(set(thing.subjects)) == 1
    if thing.windows is None or not one:
        raise ValueError("releases: there is a picture of the windows of one subject")
    figure, axes = blank(8.4, 4.6, f"{thing.query}: {thing.mechanism}, epsilon {thing.epsilon:g}")
    starts = thing.starts
    for number, label in enumerate(thing.labels):
        axes.errorbar(
            starts,
            thing.value[:, number],
            yerr=3.0 * thing.scale,
            color=COLOURS[number % len(COLOURS)],
            marker="o",
            markersize=4,
            capsize=2,
            elinewidth=0.7,
            label=label,
        )
    axes.set_xlabel("start of the window")
    axes.set_ylabel(f"{thing.query}, with 95% of the noise")
    for tick in axes.get_xticklabels():
        tick.set_rotation(30)
        tick.set_horizontalalignment("right")
    grid(axes)
    legend(figure, 4)
    return figure
