"""Several queries at once: one joint release, each query with the noise that its error allows.

If query j moves by at most d_j(x, x') when one entry x is replaced by x', and its coordinates
have noise of scale s_j, then the joint release moves the log-likelihood of its output by at most

    cost(x, x')  =  sum over j of  d_j(x, x') / s_j,

whatever the other entries are, and the pairwise influence curve takes any such cost. It is never
more than the sum of what the queries spend on an entry one by one, and less if they distinguish
different pairs of states. (Pufferfish epsilons themselves do not add up: the cost of releases
together is the loss at their joint cost, a little more or less than the sum.)

The loss rises with every 1 / s_j. So the least total epsilon at which every query meets a given
error is reached with each s_j as large as its error allows. That solves the programme (minimise the
loss over 1 / s_j >= 1 / allowed_j) exactly, and no search over splits is needed. For a given total
epsilon, all errors are multiplied by one factor, the least that it allows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from typing import Any, ClassVar

import numpy as np

from pufferkit import checks
from pufferkit.beliefs.base import Beliefs, as_beliefs
from pufferkit.data.joint import Several, joint_query
from pufferkit.data.query import Query, Question, bound
from pufferkit.errors import NotApplicable
from pufferkit.influence.profile import InfluenceCurve
from pufferkit.mechanisms.calibration import Calibration, chains_only, check_states
from pufferkit.mechanisms.influence_curve import entry_epsilon_for, metric_of
from pufferkit.mechanisms.release import Release, half_width
from pufferkit.rounding import EPS, last_passing, round_up
from pufferkit.shown import Shown, aligned

Questions = Mapping[str, tuple[Query | Question, float]]
"""From the name of each question to the question and the error it may have."""


@dataclass(frozen=True, repr=False)
class JointPlan(Shown):
    """Several queries, calibrated together.

    Attributes
    ----------
    calibration
        The calibration of the joint query, with a scale for each coordinate: one release, and
        one charge.
    names, sizes, errors, alone
        For each query: its name, its number of coordinates, the half-width of their intervals, and
        the epsilon it would cost by itself.

    Examples
    --------
    >>> import pufferkit as pk
    >>> chain = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]], states=["rest", "walk"])
    >>> both = {"time": (pk.count("walk", 90), 30), "runs": (pk.episodes("walk", 90), 20)}
    >>> plan = pk.plan(chain, both)
    >>> list(plan.release(["rest", "rest", "walk"] * 30))
    ['time', 'runs']
    """

    calibration: Calibration
    names: tuple[str, ...]
    sizes: tuple[int, ...]
    errors: tuple[float, ...]
    alone: tuple[float, ...]
    level: ClassVar[float] = 0.95
    """Confidence level of the intervals, for each number by itself."""

    @property
    def epsilon(self) -> float:
        """The epsilon of all queries together."""
        return self.calibration.epsilon

    def table_rows(self) -> list[dict[str, Any]]:
        """One for each query."""
        first = np.cumsum([0, *self.sizes])[:-1]
        scales = self.calibration.scales or ()
        rows = zip(self.names, self.sizes, first, self.errors, self.alone, strict=True)
        return [
            {
                "question": name,
                "numbers": size,
                "scale": scales[at],
                "half_width": error,
                "epsilon_alone": alone,
            }
            for name, size, at, error, alone in rows
        ]

    def caption(self) -> str:
        """How many questions, and what they cost."""
        several = f"{len(self.names)} questions together"
        return f"{'1 question' if len(self.names) == 1 else several}: epsilon {self.epsilon:.4g}"

    def text_table(self) -> str:
        """The error of each, and what it would cost alone."""
        each = (
            f"{size:>6} numbers, {self.level:.0%} within {error:.4g}, alone epsilon {alone:.4g}"
            for size, error, alone in zip(self.sizes, self.errors, self.alone, strict=True)
        )
        return "\n".join(aligned(zip(self.names, each, strict=True)))

    def release(self, series: Any) -> dict[str, Release]:
        """All noisy answers, by name; epsilon is that of all of them together.

        For a record that `verify` checks, release ``calibration`` and `split` the result.
        """
        return split(self.calibration.release(series, anyway=True))  # the errors were asked for


def split(release: Release) -> dict[str, Release]:
    """The queries of a joint release, one by one; the epsilon of each is the joint one.

    `verify` checks the joint release.
    """
    if release.kind != Several.kind:
        raise ValueError(f"release: must be of several queries, got {release.query}")
    parts: dict[str, Release] = {}
    at = 0
    scales = release.scales or (release.scale,) * len(release.raw)
    for part in (release.question or {})["parts"]:
        size = len(part["labels"])
        values = release.raw[at : at + size]
        weights = part.get("weights")
        own = replace(
            release,
            value=values,
            raw=values,
            scale=scales[at],
            scales=None,
            query=part["query"],
            kind=part["kind"],
            labels=tuple(part["labels"]),
            lipschitz=part["lipschitz"],
            total=part["total"],
            question=part["question"],
            verification_data=None
            if weights is None
            else {"weights": [row[0] if size == 1 else row for row in weights]},
        )
        parts[part["name"]] = own.within_range() if own.totals is None else own.as_histogram()
        at += size
    return parts


def joint_plan(
    beliefs: Any,
    asked: Questions,
    epsilon: float | None = None,
    over: Any = None,
) -> JointPlan:
    """Several queries, each with its allowed error, at the least total epsilon.

    Parameters
    ----------
    beliefs
        A `MarkovChain` or any `ChainClass`.
    asked
        From the name of each query to the query and the half-width allowed for its intervals.
        Queries are made for the same series, questions are asked over ``over``.
    epsilon
        If given, errors are only proportions: all are multiplied by one factor, so that the total
        is this.

    Examples
    --------
    >>> from pufferkit import MarkovChain, count, episodes
    >>> chain = MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]], states=["rest", "walk"])
    >>> both = {"time": (count("walk", 1000), 30), "episodes": (episodes("walk", 1000), 20)}
    >>> plan = joint_plan(chain, both)
    >>> plan.errors, max(plan.alone) < plan.epsilon
    ((30.0, 20.0), True)
    """
    theta = chains_only(as_beliefs(beliefs), "a plan for several questions")
    check_pairs(asked)
    several = {name: bound(own, theta.states, over) for name, (own, _) in asked.items()}
    query = joint_query(several, theta.states)
    check_states(theta, query)
    unit = query.unit
    wanted = [
        largest_scale(name, checks.positive(f"error of {name}", error), unit)
        for name, (_, error) in asked.items()
    ]
    queries = list(several.values())
    scales = [scale for own, scale in zip(queries, wanted, strict=True) for _ in own.labels]
    cost = _largest_cost(query, theta, scales)
    total = _loss(theta, query, scales, cost) if epsilon is None else checks.privacy(epsilon)
    for _ in range(_TRIES):
        b, evidence, data = entry_epsilon_for(
            theta, query.longest, total, metric_of(theta, query, scales), None
        )
        if epsilon is not None or b >= cost:
            break
        total *= 1 + _STEP
    else:
        raise NotApplicable("no epsilon meets these errors; allow larger ones")
    factor = round_up(cost / b, 8 + 2 * query.size)
    stretched = tuple(round_up(scale * factor) for scale in scales)
    calibration = Calibration(
        "influence_curve",
        total,
        round_up(query.lipschitz / b),
        query,
        theta,
        evidence,
        verification_data=data,
        scales=stretched,
        options={
            "epsilon": epsilon,
            "errors": [float(error) for _, error in asked.values()],
        },
    )
    first = np.cumsum([0, *(own.size for own in queries)])[:-1]
    own_scales = [stretched[n] for n in first]
    return JointPlan(
        calibration,
        tuple(asked),
        tuple(own.size for own in queries),
        tuple(half_width(scale, JointPlan.level, unit=unit) for scale in own_scales),
        tuple(_alone(theta, own, scale) for own, scale in zip(queries, own_scales, strict=True)),
    )


def check_pairs(asked: Mapping[str, Any]) -> None:
    """Refuse several questions of which one is not given with the error it may have."""
    for name, pair in asked.items():
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise ValueError(
                f"query: {name} must be a query and the error it may have, as in "
                f"plan(beliefs, {{name: (query, error)}}), got {pair!r:.60}"
            )


_TRIES, _STEP = 40, 2e-5  # epsilon rises so often by so much, until the curve affords the cost
_SMALLEST = 1e-12  # share of an error below which no scale is tried


def largest_scale(name: str, error: float, unit: Fraction | None) -> float:
    """The largest scale at which the half-width of the interval is at most ``error``."""

    def room(scale: float) -> float:
        return error - half_width(scale, JointPlan.level, unit=unit)

    least = error * _SMALLEST
    if room(least) < 0:
        raise ValueError(f"error: {name} cannot be within {error:g}; allow a larger error")
    return last_passing(room, least, error * 4, EPS)


def _largest_cost(query: Query, theta: Beliefs, scales: Sequence[float]) -> float:
    """The event-level epsilon of the joint release."""
    moved, columns = query.apart or {}, query.columns or ()
    units = [Fraction(scales[at]) for at in columns]
    largest = max(
        sum(abs(a - b) / u for a, b, u in zip(moved[x], moved[y], units, strict=True))
        for x, y in combinations(theta.states, 2)
    )
    return float(largest)


def _loss(theta: Any, query: Query, scales: Sequence[float], cost: float) -> float:
    """The Pufferfish epsilon of the joint release; where nothing is hidden, what it spends."""
    curve = InfluenceCurve(theta, query.longest, metric_of(theta, query, scales))
    loss = float(curve.epsilon(cost))
    return (loss if loss > 0 else cost) * (1 + _STEP)


def _alone(theta: Any, query: Query, scale: float) -> float:
    """The epsilon of one query by itself with this noise."""
    curve = InfluenceCurve(theta, query.longest, metric_of(theta, query))
    return float(curve.epsilon(query.lipschitz / scale))
