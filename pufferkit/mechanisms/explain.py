"""How well a release hides each pair of values, not only the worst one."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from functools import singledispatch
from math import inf
from typing import Any

import numpy as np

from pufferkit import checks
from pufferkit.beliefs.base import Beliefs, GraphClass, beliefs_from_dict, loss_if_unsure
from pufferkit.beliefs.chain_class import ChainClass
from pufferkit.beliefs.provenance import words_of_tests
from pufferkit.beliefs.secrets import Secrets
from pufferkit.checks import Floats
from pufferkit.data.durations import of_seconds
from pufferkit.errors import NotApplicable, NoTheorem, printable
from pufferkit.influence.curve.graphs import GraphCurve
from pufferkit.influence.profile import InfluenceCurve, as_metric
from pufferkit.mechanisms.calibration import Calibration, chains_only
from pufferkit.mechanisms.influence_curve import loss_at, metric_of
from pufferkit.mechanisms.release import Guarantee, Release
from pufferkit.rounding import LARGEST_EXPONENT, round_up
from pufferkit.shown import Shown

# --- what an epsilon means to a person: how far a release can move an adversary's belief --------

_PRIOR = 0.1  # the example that every text tells: someone thinks 1 in 10


def posterior(prior: float, loss: float) -> float:
    """The largest posterior after a release of an adversary with this prior.

    The odds p / (1 - p) grow at most by the factor e^loss, so the posterior is at most
    p e^loss / (1 - p + p e^loss).

    >>> round(1 / posterior(0.1, 1.0), 1)
    4.3
    """
    p = checks.real("prior", prior)
    if not 0 < p < 1:
        raise ValueError(f"prior: must lie between 0 and 1, got {prior!r}; for example 0.1")
    if loss > LARGEST_EXPONENT:
        return 1.0
    odds = p / (1 - p) * math.exp(loss)
    return odds / (1 + odds)


def one_in(probability: float) -> str:
    """A probability in words.

    >>> one_in(0.1), one_in(0.25), one_in(0.995)
    ('1 in 10', '1 in 4', '99.5%')
    """
    if probability > 0.5:
        return f"{100 * probability:.3g}%"
    return f"1 in {1 / probability:.2g}" if probability > 0.01 else f"1 in {1 / probability:,.0f}"


def in_odds(loss: float) -> tuple[str, ...]:
    """A loss in words: the posterior for a prior of 1 in 10, up and down."""
    up, down = posterior(_PRIOR, loss), 1 - posterior(1 - _PRIOR, loss)
    return (
        f"epsilon {loss:.4g}: a prior probability of {one_in(_PRIOR)} that an entry has a "
        f"value becomes at most {one_in(up)}, and at least {one_in(down)}",
    )


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
        return np.exp(np.minimum(self.losses, LARGEST_EXPONENT))

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

    def caption(self) -> str:
        """The question and epsilon."""
        return f"{self.query}: loss of each pair of values, epsilon {self.epsilon:g}"

    def text_table(self) -> str:
        """The loss of each pair, and the posterior of each value."""
        names = [printable(str(state)) for state in self.states]
        wide = max(6, *(len(name) for name in names))
        lines = list[str]()
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
    cost = record.cost(record.asked_again(theta.states), theta.states)
    losses = _losses(theta, max(record.lengths), cost / cost.max(), float(cost.max()))
    if record.guarantee in (Guarantee.PUFFERFISH, Guarantee.GROUP):
        losses = np.minimum(losses, record.epsilon)
    return PairTable(theta.states, losses, record.epsilon, record.query)


def _about_entries(theta: Beliefs) -> None:
    if theta.names_secrets:
        raise NotApplicable(
            f"explain covers the values of single entries, not these secrets ({theta.description})"
        )


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


# --- what an epsilon means for one release, in the words of the data ----------------------------
#
# Epsilon is about one entry: one reading of five minutes, not a night, and not what is true of a
# person all the time. About w entries in a row the loss is that of `Secrets.runs`, at the same
# noise.

SPANS = (("an hour", 3600), ("a night of 8 hours", 8 * 3600), ("a week", 7 * 86400))
"""Stretches of time whose loss is told, in seconds."""

_ENTRIES = (10, 100)
"""Stretches in entries, where the time between entries is unknown."""

_VACUOUS = 20.0  # odds times e^20 leave nothing hidden


def meaning(calibration: Calibration) -> tuple[str, ...]:
    """What the epsilon of a calibration means: one entry, its states, longer stretches.

    Examples
    --------
    >>> import pufferkit as pk
    >>> chain = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]], ["rest", "run"], step="5m")
    >>> for line in meaning(pk.influence_curve(chain, pk.count("run", 2016), 1)):
    ...     print(line)
    epsilon 1 is about one entry, 5m: which value it has, not what is true of many together
    if someone gives 'run' a chance of 1 in 10 at some entry, it is at most 1 in 4.3 afterwards, \
and at least 1 in 25; the same for 'rest'
    a longer stretch loses more: an hour up to 4.3, a night of 8 hours up to 29.5 (it is not \
hidden), a week up to 604 (it is not hidden)
    """
    theta, query, epsilon = calibration.beliefs, calibration.query, calibration.epsilon
    if theta is None or theta.names_secrets or theta.entries is not None:
        return ()
    step = theta.step if theta.step is not None else query.step
    each = "one entry" if step is None else f"one entry, {of_seconds(step)}"
    up, down = posterior(_PRIOR, epsilon), 1 - posterior(1 - _PRIOR, epsilon)
    first, *more = sorted((repr(state) for state in theta.states), reverse=True)
    lines = [
        f"epsilon {epsilon:g} is about {each}: which value it has, not what is true of many "
        "together",
        f"if someone gives {first} a chance of {one_in(_PRIOR)} at some entry, it is at most "
        f"{one_in(up)} afterwards, and at least {one_in(down)}"
        + (f"; the same for {', '.join(more)}" if len(more) <= 5 else "; the same for all others"),
    ]
    losses = stretch_losses(calibration)
    if losses:
        told = ", ".join(
            f"{name} up to {loss:.3g}{' (it is not hidden)' if loss > _VACUOUS else ''}"
            for name, loss in losses
        )
        lines.append(f"a longer stretch loses more: {told}")
    if (unsure := loss_if_unsure(theta, epsilon)) is not None:
        lines.append(
            f"someone unsure which member of the class is in force loses up to {unsure:.3g}"
        )
    tested = words_of_tests(theta.sources)
    return (*lines, *([] if tested is None else [tested]))


def stretch_losses(calibration: Calibration) -> list[tuple[str, float]]:
    """Bounds on the loss of all that some entries in a row say together, at this noise."""
    query = calibration.query
    if calibration.beliefs is None or query.chooses or calibration.scales is not None:
        return []
    if calibration.spent_rows is not None:  # noise on mixtures, which no scale describes
        return []
    try:
        theta = chains_only(calibration.beliefs, "the loss of a stretch")
    except NotApplicable:
        return []
    step = theta.step if theta.step is not None else query.step
    spans = [(f"{count} entries in a row", count) for count in _ENTRIES]
    if step is not None:
        spans = [(name, round(seconds / step)) for name, seconds in SPANS]
    b = round_up(query.lipschitz / calibration.scale)
    losses = []
    for name, count in spans:
        if 1 < count <= query.longest:
            loss = min(_of_run(theta, calibration, count, b), b * query.longest)
            if loss < inf:
                losses.append((name, loss))
    return losses


def _of_run(theta: ChainClass, calibration: Calibration, count: int, b: float) -> float:
    """The loss of any two sequences of values of so many entries in a row."""
    try:
        hidden = theta.with_secrets(Secrets.runs(count), entries=False)
        return loss_at(hidden, calibration.query, b)
    except (NotApplicable, NoTheorem, ValueError):
        return inf
