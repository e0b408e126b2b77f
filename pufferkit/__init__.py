"""Pufferfish privacy for correlated data.

>>> import pufferkit as pk
>>> week = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]], states=["rest", "active"])
>>> noise = pk.markov_quilt(week, pk.count("active", lengths=1000), epsilon=1)
>>> round(noise.scale, 2)
12.84

Names are loaded when first used, so that importing the package is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pufferkit import audit as audit
    from pufferkit import local as local
    from pufferkit import plots as plots
    from pufferkit.account.accounts import Account as Account
    from pufferkit.account.ledger import Ledger as Ledger
    from pufferkit.account.releases import Releases as Releases
    from pufferkit.account.selection import Selection as Selection
    from pufferkit.account.selection import select as select
    from pufferkit.account.spending import Spending as Spending
    from pufferkit.account.theorems import compose as compose
    from pufferkit.account.theorems import dependence as dependence
    from pufferkit.act import release as release
    from pufferkit.beliefs.bayesian_network import BayesianNetwork as BayesianNetwork
    from pufferkit.beliefs.chain_class import ChainClass as ChainClass
    from pufferkit.beliefs.finite_joint import FiniteJoint as FiniteJoint
    from pufferkit.beliefs.markov_chain import MarkovChain as MarkovChain
    from pufferkit.beliefs.markov_random_field import MarkovRandomField as MarkovRandomField
    from pufferkit.beliefs.regime_class import RegimeClass as RegimeClass
    from pufferkit.beliefs.secrets import Secrets as Secrets
    from pufferkit.data.asking import by_time as by_time
    from pufferkit.data.asking import count as count
    from pufferkit.data.asking import days_with as days_with
    from pufferkit.data.asking import episodes as episodes
    from pufferkit.data.asking import histogram as histogram
    from pufferkit.data.asking import linear as linear
    from pufferkit.data.asking import mean as mean
    from pufferkit.data.asking import quantile as quantile
    from pufferkit.data.asking import relative_frequencies as relative_frequencies
    from pufferkit.data.asking import stays as stays
    from pufferkit.data.asking import time_in as time_in
    from pufferkit.data.asking import total as total
    from pufferkit.data.asking import transition_counts as transition_counts
    from pufferkit.data.asking import variance as variance
    from pufferkit.data.bins import Bins as Bins
    from pufferkit.data.calendar import Calendar as Calendar
    from pufferkit.data.query import Query as Query
    from pufferkit.data.series import Series as Series
    from pufferkit.data.table import Table as Table
    from pufferkit.data.user_queries import per_entry as per_entry
    from pufferkit.errors import DrownedAnswer as DrownedAnswer
    from pufferkit.errors import LedgerError as LedgerError
    from pufferkit.errors import NotApplicable as NotApplicable
    from pufferkit.errors import NoTheorem as NoTheorem
    from pufferkit.errors import OverBudget as OverBudget
    from pufferkit.fitting.check_model import check_model as check_model
    from pufferkit.fitting.choosing import choose_beliefs as choose_beliefs
    from pufferkit.fitting.closeness import closeness as closeness
    from pufferkit.fitting.closeness import max_divergence as max_divergence
    from pufferkit.fitting.fit import fit as fit
    from pufferkit.fitting.measured_influence import measured_influence as measured_influence
    from pufferkit.fitting.private_transitions import private_transitions as private_transitions
    from pufferkit.influence.profile import InfluenceCurve as InfluenceCurve
    from pufferkit.influence.sums.lattice import w_infinity as w_infinity
    from pufferkit.mechanisms.baselines import entry_dp as entry_dp
    from pufferkit.mechanisms.baselines import gk16 as gk16
    from pufferkit.mechanisms.baselines import group_dp as group_dp
    from pufferkit.mechanisms.calibration import Calibration as Calibration
    from pufferkit.mechanisms.exact_sum import exact_sum as exact_sum
    from pufferkit.mechanisms.explain import PairTable as PairTable
    from pufferkit.mechanisms.explain import explain as explain
    from pufferkit.mechanisms.explain import posterior as posterior
    from pufferkit.mechanisms.influence_curve import entry_epsilon as entry_epsilon
    from pufferkit.mechanisms.influence_curve import influence_curve as influence_curve
    from pufferkit.mechanisms.markov_quilt import ActiveQuilts as ActiveQuilts
    from pufferkit.mechanisms.markov_quilt import active_quilts as active_quilts
    from pufferkit.mechanisms.markov_quilt import markov_quilt as markov_quilt
    from pufferkit.mechanisms.markov_quilt import markov_quilt_approx as markov_quilt_approx
    from pufferkit.mechanisms.markov_quilt import max_influence as max_influence
    from pufferkit.mechanisms.plan import Plan as Plan
    from pufferkit.mechanisms.plan import plan as plan
    from pufferkit.mechanisms.post_processing import Derived as Derived
    from pufferkit.mechanisms.quantiles import QuantilePlan as QuantilePlan
    from pufferkit.mechanisms.quantiles import plan_quantile as plan_quantile
    from pufferkit.mechanisms.release import Evidence as Evidence
    from pufferkit.mechanisms.release import Guarantee as Guarantee
    from pufferkit.mechanisms.release import Release as Release
    from pufferkit.mechanisms.shaped import shaped as shaped
    from pufferkit.mechanisms.synthetic import synthetic as synthetic
    from pufferkit.mechanisms.target_errors import Target as Target
    from pufferkit.mechanisms.target_errors import epsilon_for as epsilon_for
    from pufferkit.mechanisms.target_errors import remedies as remedies
    from pufferkit.mechanisms.usefulness import Usefulness as Usefulness
    from pufferkit.mechanisms.wasserstein import wasserstein as wasserstein
    from pufferkit.verification.verify import Verdict as Verdict
    from pufferkit.verification.verify import verify as verify

__version__ = "0.1.0"

_HOMES = {
    "account.theorems": ["compose", "dependence"],
    "account.selection": ["Selection", "select"],
    "account.spending": ["Spending"],
    "account.ledger": ["Ledger"],
    "account.accounts": ["Account"],
    "act": ["release"],
    "beliefs.chain_class": ["ChainClass"],
    "fitting.closeness": ["closeness", "max_divergence"],
    "beliefs.bayesian_network": ["BayesianNetwork"],
    "beliefs.finite_joint": ["FiniteJoint"],
    "beliefs.markov_chain": ["MarkovChain"],
    "beliefs.markov_random_field": ["MarkovRandomField"],
    "beliefs.regime_class": ["RegimeClass"],
    "beliefs.secrets": ["Secrets"],
    "errors": ["DrownedAnswer", "LedgerError", "NoTheorem", "NotApplicable", "OverBudget"],
    "account.releases": ["Releases"],
    "mechanisms.markov_quilt": [
        "ActiveQuilts",
        "active_quilts",
        "markov_quilt",
        "markov_quilt_approx",
        "max_influence",
    ],
    "mechanisms.baselines": ["entry_dp", "gk16", "group_dp"],
    "mechanisms.calibration": ["Calibration"],
    "mechanisms.usefulness": ["Usefulness"],
    "fitting.check_model": ["check_model"],
    "fitting.choosing": ["choose_beliefs"],
    "fitting.fit": ["fit"],
    "fitting.measured_influence": ["measured_influence"],
    "influence.profile": ["InfluenceCurve"],
    "mechanisms.exact_sum": ["exact_sum"],
    "mechanisms.shaped": ["shaped"],
    "mechanisms.explain": ["PairTable", "explain", "posterior"],
    "mechanisms.influence_curve": ["entry_epsilon", "influence_curve"],
    "mechanisms.plan": ["Plan", "plan"],
    "mechanisms.target_errors": ["Target", "epsilon_for", "remedies"],
    "fitting.private_transitions": ["private_transitions"],
    "mechanisms.wasserstein": ["wasserstein"],
    "mechanisms.release": ["Evidence", "Guarantee", "Release"],
    "data.query": ["Query"],
    "data.asking": [
        "by_time",
        "count",
        "days_with",
        "episodes",
        "histogram",
        "linear",
        "mean",
        "quantile",
        "relative_frequencies",
        "stays",
        "time_in",
        "total",
        "transition_counts",
        "variance",
    ],
    "data.calendar": ["Calendar"],
    "data.user_queries": ["per_entry"],
    "mechanisms.quantiles": ["QuantilePlan", "plan_quantile"],
    "mechanisms.post_processing": ["Derived"],
    "mechanisms.synthetic": ["synthetic"],
    "data.series": ["Series"],
    "data.files": ["TextFormat"],
    "data.read": ["read"],
    "data.bins": ["Bins"],
    "data.table": ["Table"],
    "influence.sums.lattice": ["w_infinity"],
    "verification.verify": ["Verdict", "verify"],
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [*sorted(_HOME_OF), "__version__"]  # noqa: PLE0604


_ROOMS = ("audit", "local", "plots")


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"pufferkit.{name}")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'pufferkit' has no attribute {name!r}")
    value = getattr(import_module(f"pufferkit.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, *_ROOMS]
