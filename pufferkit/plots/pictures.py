"""The picture of an object: `pufferkit.shown.Shown.plot` asks here."""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING, Any

import numpy as np

from pufferkit.account.accounts import Account, AccountPlan
from pufferkit.account.releases import Releases
from pufferkit.audit.report import Audit
from pufferkit.beliefs.base import Beliefs
from pufferkit.beliefs.bayesian_network import BayesianNetwork, NetworkClass
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.beliefs.markov_random_field import FieldClass, MarkovRandomField
from pufferkit.beliefs.seasonal_class import SeasonalClass
from pufferkit.data.joint import Several
from pufferkit.data.queries import TopStates
from pufferkit.mechanisms.calibration import Calibration
from pufferkit.mechanisms.explain import PairTable, entry_losses
from pufferkit.mechanisms.joint_plan import JointPlan
from pufferkit.mechanisms.markov_quilt import ActiveQuilts
from pufferkit.mechanisms.plan import Plan
from pufferkit.mechanisms.post_processing import Derived
from pufferkit.mechanisms.quantiles import QuantilePlan
from pufferkit.mechanisms.release import Release
from pufferkit.mechanisms.synthetic import Synthetic
from pufferkit.plots.canvas import (
    BLACK,
    BLUE,
    COLOURS,
    STATES,
    blank,
    grid,
    legend,
    measure_up,
    panels,
    whole_numbers,
)
from pufferkit.plots.graph_figures import graph_figure
from pufferkit.plots.joint_figures import (
    joint_figure,
    questions_figure,
    synthetic_figure,
    ways_figure,
)
from pufferkit.plots.member_figures import clock_figure, matrices_figure, network_figure
from pufferkit.plots.question_figures import (
    derived_figure,
    follows_figure,
    measured,
    owners,
    slots_figure,
)
from pufferkit.plots.release_figures import (
    active_figure,
    audit_figure,
    pair_figure,
    plan_figure,
    release_figure,
)
from pufferkit.shown import Matrix

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_SUBJECTS = 40
_MOST_STATES = 6
"""Questions of many subjects whose picture is of what follows from the release."""


@singledispatch
def figure_of(thing: Any) -> Figure:
    """The picture of a plan, a release, releases, an account, an audit, beliefs or of pairs."""
    raise ValueError(f"{type(thing).__name__}: there is no picture of it")


@figure_of.register(Plan)
def _(thing: Plan) -> Figure:
    title = f"{thing.best.mechanism} hides every entry with the least error"
    return plan_figure(thing.rows, f"{title}\n{thing.caption()}")


@figure_of.register(AccountPlan)
def _(thing: AccountPlan) -> Figure:
    return figure_of(thing.plan)


@figure_of.register(Release)
def _(thing: Release) -> Figure:
    return joint_figure(thing) if thing.kind == Several.kind else release_figure(thing)


figure_of.register(JointPlan, questions_figure)
figure_of.register(QuantilePlan, ways_figure)
figure_of.register(Synthetic, synthetic_figure)
figure_of.register(PairTable, pair_figure)
figure_of.register(ActiveQuilts, active_figure)
figure_of.register(Audit, audit_figure)


@figure_of.register(MarkovChain)
def _(thing: MarkovChain) -> Figure:
    matrix = Matrix.of("probability of the next state", thing.states, thing.transition)
    return matrices_figure([matrix], f"What an adversary may know: {thing}")


@figure_of.register(Beliefs)
def _(thing: Beliefs) -> Figure:
    matrices = thing.matrices_shown()
    if not matrices:
        raise ValueError(f"{thing}: names no matrix, so there is no picture of it")
    return matrices_figure(matrices, f"What an adversary may know: {thing.description}")


@figure_of.register(SeasonalClass)
def _(thing: SeasonalClass) -> Figure:
    return clock_figure(thing)


@figure_of.register(BayesianNetwork)
def _(thing: BayesianNetwork) -> Figure:
    return network_figure(thing)


@figure_of.register(NetworkClass)
def _(thing: NetworkClass) -> Figure:
    return network_figure(thing.networks[0])


@figure_of.register(MarkovRandomField)
def _(thing: MarkovRandomField) -> Figure:
    return graph_figure(thing.nodes, thing.edges, thing.description)


@figure_of.register(FieldClass)
def _(thing: FieldClass) -> Figure:
    return figure_of(thing.fields[0])


@figure_of.register(Calibration)
def _(thing: Calibration) -> Figure:
    """Who binds, for beliefs that are graphs: every node with the loss of this release."""
    theta = thing.beliefs
    edges = None if theta is None else theta.edges
    if theta is None or theta.entries is None or edges is None:
        raise ValueError("Calibration: there is no picture of it, unless its beliefs are a graph")
    title = str(thing).partition("\n")[0].replace("; ", "\n")
    return graph_figure(theta.entries, edges, title, entry_losses(thing))


@figure_of.register(Account)
def _(thing: Account) -> Figure:
    history = thing.history
    if not history:
        raise ValueError("account: nothing was released yet, so there is nothing to draw")
    left = f"{thing.remaining:.3g} of {thing.budget:.3g} remain"
    figure, axes = blank(7.2, 4.0, f"What {thing.name} has spent: {left}")
    places = range(1, len(history) + 1)
    axes.step(places, [row["total"] for row in history], where="mid", color=BLUE, label="total")
    axes.axhline(thing.budget, color=BLACK, linestyle="--", linewidth=1.1, label="budget")
    whole_numbers(axes)
    axes.set_xlabel("releases, in their order")
    measure_up(axes, "epsilon for everything so far")
    axes.set_ylim(bottom=0)
    grid(axes)
    legend(figure, 2)
    return figure


@figure_of.register(Derived)
def _(thing: Derived) -> Figure:
    return derived_figure(thing)


@figure_of.register(Releases)
def _(thing: Releases) -> Figure:
    """Over the windows of one subject, over subjects, or a panel for each state over both.

    Questions by time and curves have the pictures of one subject.
    """
    if thing.observed is not None:
        return slots_figure(thing)
    derived = thing.asked is not None and thing.asked.replaced and thing.noise != "noisy choice"
    if derived and not isinstance(thing.asked, TopStates):
        return follows_figure(thing)
    title = f"{thing.query.capitalize()}: {thing.mechanism} at epsilon {thing.epsilon:g}"
    whose = owners(thing)
    subjects = tuple(dict.fromkeys(whose))
    height = measured(thing)
    if thing.windows is None or len(subjects) <= 1:
        return _states(thing, whose if thing.windows is None else thing.starts, title)
    shown, states = subjects[:_MOST_SUBJECTS], thing.labels[:_MOST_STATES]
    if len(shown) < len(subjects):
        title += f"\nthe first {len(shown)} of {len(subjects):,} subjects"
    if len(states) < len(thing.labels):
        title += f"\nthe first {len(states)} of {len(thing.labels)} states"
    figure, every = panels(len(states), min(16.0, 3.2 + 2.6 * len(states)), 4.4, title)
    starts = thing.starts
    place = np.array([shown.index(name) if name in shown else -1 for name in whose])
    for state, axes in enumerate(every):
        for number, subject in enumerate(shown):
            rows = np.flatnonzero(place == number)
            axes.plot(
                [starts[row] for row in rows],
                thing.value[rows, state],
                color=COLOURS[number % len(COLOURS)],
                marker="o",
                markersize=3,
                label=str(subject) if len(shown) <= len(COLOURS) else None,
            )
        axes.set_title(thing.labels[state], fontsize=10, loc="left", parse_math=False)
        axes.set_xlabel("start of the window")
        _slanted(axes)
        grid(axes)
    measure_up(every[0], f"{height}, with noise")
    if len(shown) <= len(COLOURS):
        legend(figure, 4)
    return figure


def _states(thing: Releases, over: Any, title: str) -> Figure:
    """A line for each state over windows, or points over subjects; with 95% of the noise."""
    windows = thing.windows is not None
    shown = slice(None) if windows else slice(0, _MOST_SUBJECTS)
    if not windows and len(thing) > _MOST_SUBJECTS:
        title += f"\nthe first {_MOST_SUBJECTS} of {len(thing):,} subjects"
    figure, axes = blank(8.4, 4.6, title)
    chosen = thing.noise == "noisy choice"
    half = None if chosen else thing.half_width()[shown]
    for number, label in enumerate(thing.labels):
        axes.errorbar(
            list(over)[shown],
            thing.value[shown, number],
            yerr=half,
            color=STATES[number % len(STATES)],
            linestyle="-" if windows else "none",
            marker="o",
            markersize=4,
            capsize=2,
            elinewidth=0.7,
            label=label,
        )
    axes.set_xlabel("start of the window" if windows else "group" if thing.groups else "subject")
    measure_up(axes, f"{measured(thing)}, {'with noise' if chosen else 'with 95% of the noise'}")
    _slanted(axes)
    grid(axes)
    legend(figure, 4)
    return figure


def _slanted(axes: Any) -> None:
    """Long labels below an axis."""
    for tick in axes.get_xticklabels():
        tick.set_rotation(30)
        tick.set_horizontalalignment("right")
