"""How well a release hides each pair of values, not only the worst one."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from fractions import Fraction
from functools import singledispatch
from typing import Any

import numpy as np

from pufferkit.beliefs.base import Beliefs, GraphClass, beliefs_from_dict
from pufferkit.beliefs.chain_class import ChainClass
from pufferkit.checks import Floats
from pufferkit.errors import NotApplicable, printable
from pufferkit.influence.curve.graphs import GraphCurve
from pufferkit.influence.curve.profile import InfluenceCurve, as_metric
from pufferkit.influence.curve.steps import off_diagonal
from pufferkit.mechanisms.calibration import Calibration
from pufferkit.mechanisms.evidence import Guarantee
from pufferkit.mechanisms.influence_curve import metric_of
from pufferkit.mechanisms.posterior_odds import one_in, posterior
from pufferkit.mechanisms.release import Release
from pufferkit.shown import Shown


@dataclass(frozen=True, eq=False, repr=False)
class PairTable(Shown):
    """Losses of pairs of values: how far a release moves the odds of one against the other.

    Attributes
    ----------
    states
        The values.
    losses
        For each pair of them a bound on the log of the factor by which the odds of the first
        against the second change, for every output and every entry. 0 on the diagonal.
    epsilon
        The guarantee for all pairs.
    query
        Name of the query.

    Examples
    --------
    >>> import pufferkit as pk
    >>> week = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]], states=["rest", "active"])
    >>> pairs = pk.explain(pk.influence_curve(week, pk.count("active", 1000), epsilon=1))
    >>> round(pairs.posterior(0.1), 3)
    0.232
    """

    states: tuple[Hashable, ...]
    losses: Floats
    epsilon: float
    query: str

    @property
    def factors(self) -> Floats:
        """The largest factor on the odds of the first value against the second."""
        return np.exp(np.minimum(self.losses, 700.0))

    def posterior(self, prior: float, state: Hashable | None = None) -> float:
        """The largest posterior after the release of an adversary with this prior.

        For one value, by its losses; if left out, for the value that is hidden worst.
        """
        if state is not None and state not in self.states:
            raise ValueError(f"state: {state!r} is not one of {list(self.states)}")
        rows = self.losses if state is None else self.losses[[self.states.index(state)]]
        return posterior(prior, float(rows.max()))

    def table_rows(self) -> list[dict[str, Any]]:
        """One for each ordered pair of values."""
        return [
            {"value": one, "against": other, "loss": float(loss), "odds_times": float(factor)}
            for one, losses, factors in zip(self.states, self.losses, self.factors, strict=True)
            for other, loss, factor in zip(self.states, losses, factors, strict=True)
            if one != other
        ]

    def __str__(self) -> str:
        names = [printable(str(state)) for state in self.states]
        wide = max(6, *(len(name) for name in names))
        lines = [f"{self.query}: loss of each pair of values, epsilon {self.epsilon:g}"]
        lines.append(" " * wide + "".join(f"  {name:>{wide}}" for name in names))
        for name, row in zip(names, self.losses, strict=True):
            cells = "".join(f"  {loss:>{wide}.3f}" for loss in row)
            lines.append(f"{name:<{wide}}{cells}")
        lines.append("a prior probability of 1 in 10 that an entry has this value becomes at most")
        for name, state in zip(names, self.states, strict=True):
            lines.append(f"{name:<{wide}}  {one_in(self.posterior(0.1, state))}")
        return "\n".join(lines)


def explain(calibration: Calibration) -> PairTable:
    """How well each pair of values of an entry is hidden.

    The guarantee is epsilon for every pair. Many pairs lose less: values that add about the same to
    a sum, and values with similar futures. For classes known by bounds only (mixing) all pairs
    share one.

    Parameters
    ----------
    calibration
        A calibration of a mechanism for chains or tree-shaped networks.

    Examples
    --------
    >>> from pufferkit import MarkovChain, explain, influence_curve, total
    >>> chain = MarkovChain.steady([[0.7, 0.2, 0.1], [0.2, 0.6, 0.2], [0.1, 0.2, 0.7]])
    >>> print(explain(influence_curve(chain, total([0, 1, 2], 1000), 1)))
    total: loss of each pair of values, epsilon 1
                 0       1       2
    0        0.000   0.507   1.000
    1        0.493   0.000   0.493
    2        1.000   0.507   0.000
    a prior probability of 1 in 10 that an entry has this value becomes at most
    0       1 in 4.3
    1       1 in 6.5
    2       1 in 4.3
    """
    if calibration.beliefs is None:
        raise NotApplicable(f"{calibration.mechanism} uses no beliefs, so there is no curve")
    theta, query = calibration.beliefs, calibration.query
    _about_entries(theta)
    metric = as_metric(metric_of(theta, query, calibration.scales), len(theta.states))
    losses = _losses(theta, query.longest, metric, calibration.entry_epsilon)
    if calibration.guarantee in (Guarantee.PUFFERFISH, Guarantee.GROUP):
        # The theorem of the mechanism may guarantee less than the curve shows.
        losses = np.minimum(losses, calibration.epsilon)
    return PairTable(theta.states, losses, calibration.epsilon, query.name)


def explain_release(record: Release) -> PairTable:
    """The same for a release, from its record; see `Release.explain`."""
    if record.beliefs is None:
        raise NotApplicable(f"{record.mechanism} uses no beliefs, so there is no curve")
    theta = beliefs_from_dict(record.beliefs)
    _about_entries(theta)
    cost = _recorded_cost(record, len(theta.states))
    losses = _losses(theta, max(record.lengths), cost / cost.max(), float(cost.max()))
    if record.guarantee in (Guarantee.PUFFERFISH, Guarantee.GROUP):
        losses = np.minimum(losses, record.epsilon)
    return PairTable(theta.states, losses, record.epsilon, record.query)


def _about_entries(theta: Beliefs) -> None:
    if theta.names_secrets:
        raise NotApplicable(
            f"explain covers the values of single entries, not these secrets ({theta.description})"
        )


def _recorded_cost(record: Release, size: int) -> Floats:
    """The cost of replacing a state by another; equal for all pairs if the record has no more."""
    alike = record.lipschitz / record.scale * off_diagonal(size)
    added = (record.verification_data or {}).get("weights")
    if record.asks is not None and record.asks.binned:
        if record.scales is None or len(record.scales) != size:
            return alike
        rows = record.lipschitz / 2 * np.eye(size)
    elif added is None or len(added) != size:
        return alike
    else:
        rows = np.array([[float(Fraction(w)) for w in np.atleast_1d(row)] for row in added])
    each = np.array(record.scales or [record.scale] * rows.shape[1])
    cost: Floats = (np.abs(rows[:, None, :] - rows[None, :, :]) / each).sum(axis=2)
    return cost if cost.max() > 0 else alike


def entry_losses(calibration: Calibration) -> dict[Hashable, float]:
    """For beliefs that are graphs: a bound on the loss of every entry, by the influence curve."""
    theta = calibration.beliefs
    if theta is None:
        raise NotApplicable(f"{calibration.mechanism} was calibrated without beliefs")
    metric = as_metric(metric_of(theta, calibration.query), len(theta.states))
    return _entry_losses(theta, metric, calibration.entry_epsilon)


@singledispatch
def _entry_losses(theta: Beliefs, metric: Floats, b: float) -> dict[Hashable, float]:
    raise NotApplicable(f"entry losses need a graph, not a {theta.description}")


@_entry_losses.register
def _(theta: GraphClass, metric: Floats, b: float) -> dict[Hashable, float]:
    return GraphCurve(theta.listed, theta.states, metric).losses(b)


@singledispatch
def _losses(theta: Beliefs, length: int, metric: Floats, b: float) -> Floats:
    """The loss of each pair of states, the largest over entries and over the class."""
    raise NotApplicable(f"explain needs Markov chains or a graph, not a {theta.description}")


@_losses.register
def _(theta: ChainClass, length: int, metric: Floats, b: float) -> Floats:
    return InfluenceCurve(theta, length, metric).losses(b)


@_losses.register
def _(theta: GraphClass, length: int, metric: Floats, b: float) -> Floats:
    each = GraphCurve(theta.listed, theta.states, metric).pair_losses(b)
    largest: Floats = np.max(list(each.values()), axis=0)
    return largest
