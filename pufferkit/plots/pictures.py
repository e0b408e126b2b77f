"""The picture of an object: `pufferkit.shown.Shown.plot` asks here."""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING, Any

from pufferkit.account.accounts import Account, AccountPlan, WindowReleases
from pufferkit.account.releases import Releases
from pufferkit.audit.report import Audit
from pufferkit.beliefs.base import Beliefs
from pufferkit.beliefs.bayesian_network import BayesianNetwork, NetworkClass
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.beliefs.markov_random_field import FieldClass, MarkovRandomField
from pufferkit.beliefs.seasonal_class import SeasonalClass
from pufferkit.fitting.choosing import Choice
from pufferkit.mechanisms.calibration import Calibration
from pufferkit.mechanisms.explain import PairTable, entry_losses
from pufferkit.mechanisms.influence_curve import influence_curve
from pufferkit.mechanisms.joint_plan import JointPlan
from pufferkit.mechanisms.markov_quilt import ActiveQuilts
from pufferkit.mechanisms.plan import Plan
from pufferkit.mechanisms.post_processing import Derived
from pufferkit.mechanisms.quantiles import QuantilePlan
from pufferkit.mechanisms.release import Release
from pufferkit.mechanisms.shaped import ShapedCalibration
from pufferkit.mechanisms.synthetic import Synthetic
from pufferkit.plots.answers import (
    derived_figure,
    hides,
    release_figure,
    releases_figure,
    synthetic_figure,
    windows_figure,
)
from pufferkit.plots.belief_figures import (
    clock_figure,
    graph_figure,
    matrices_figure,
    network_figure,
)
from pufferkit.plots.plans import (
    account_figure,
    active_figure,
    audit_figure,
    influence_figure,
    pair_figure,
    plan_figure,
    questions_figure,
    shape_figure,
    ways_figure,
)
from pufferkit.shown import Matrix

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@singledispatch
def figure_of(thing: Any) -> Figure:
    """The picture of a plan, a release, releases, an account, an audit, beliefs or of pairs."""
    raise ValueError(f"{type(thing).__name__}: there is no picture of it")


@figure_of.register(Plan)
def _(thing: Plan) -> Figure:
    best = thing.best
    title = f"{best.mechanism} {hides(best.guarantee)} with the least error"
    return plan_figure(thing.rows, f"{title}\n{thing.caption()}")


@figure_of.register(AccountPlan)
def _(thing: AccountPlan) -> Figure:
    return figure_of(thing.plan)


@figure_of.register(Choice)
def _(thing: Choice) -> Figure:
    if thing.influence is None or thing.measured is None:
        raise ValueError("Choice: its influence could not be measured, so there is no picture")
    budgets = [
        {"name": name, "budget": tested.budget, "covers": name in {r.name for r in thing.ranked}}
        for name, tested in thing.influence.items()
    ]
    return influence_figure(budgets, thing.measured.point, thing.measured.lower)


figure_of.register(JointPlan, questions_figure)
figure_of.register(QuantilePlan, ways_figure)
figure_of.register(Synthetic, synthetic_figure)
figure_of.register(PairTable, pair_figure)
figure_of.register(ActiveQuilts, active_figure)
figure_of.register(Audit, audit_figure)
figure_of.register(Account, account_figure)
figure_of.register(Release, release_figure)
figure_of.register(Releases, releases_figure)
figure_of.register(WindowReleases, windows_figure)
figure_of.register(Derived, derived_figure)
figure_of.register(SeasonalClass, clock_figure)
figure_of.register(BayesianNetwork, network_figure)


@figure_of.register(MarkovChain)
def _(thing: MarkovChain) -> Figure:
    matrix = Matrix.of("probability of the next state", thing.states, thing.transition)
    return matrices_figure(
        [matrix], f"What an adversary may know: a chain on {len(thing.states)} states"
    )


@figure_of.register(Beliefs)
def _(thing: Beliefs) -> Figure:
    matrices = thing.matrices_shown()
    if not matrices:
        raise ValueError(f"{thing}: names no matrix, so there is no picture of it")
    return matrices_figure(matrices, f"What an adversary may know: {thing.description}")


@figure_of.register(NetworkClass)
def _(thing: NetworkClass) -> Figure:
    return network_figure(thing.networks[0])


@figure_of.register(MarkovRandomField)
def _(thing: MarkovRandomField) -> Figure:
    return graph_figure(
        thing.nodes, thing.edges, f"What an adversary may know: {thing.description}"
    )


@figure_of.register(FieldClass)
def _(thing: FieldClass) -> Figure:
    return figure_of(thing.fields[0])


@figure_of.register(ShapedCalibration)
def _(thing: ShapedCalibration) -> Figure:
    """The directions, and the error of each number beside that of equal noise."""
    return shape_figure(thing, influence_curve(thing.beliefs, thing.query, thing.epsilon))


@figure_of.register(Calibration)
def _(thing: Calibration) -> Figure:
    """Who sets the noise, for beliefs that are graphs: every node with the loss of this release."""
    theta = thing.beliefs
    edges = None if theta is None else theta.edges
    if theta is None or theta.entries is None or edges is None:
        raise ValueError("Calibration: there is no picture of it, unless its beliefs are a graph")
    title = f"How much a {thing.query.name} at epsilon {thing.epsilon:g} tells about each node"
    return graph_figure(theta.entries, edges, title, entry_losses(thing))
