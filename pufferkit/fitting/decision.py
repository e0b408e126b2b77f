"""The tests that decide between classes of beliefs, on people who were held out.

Influence decides: the class must budget for the influence of one entry in the data. Rows and
predictions show where a class is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod, sqrt
from statistics import NormalDist
from typing import Any

import numpy as np

from pufferkit import checks
from pufferkit.beliefs.chain_class import ChainClass
from pufferkit.errors import NotApplicable
from pufferkit.fitting.measured_influence import (
    MeasuredInfluence,
    as_observed,
    measured_influence,
    plug_in_influence,
)
from pufferkit.fitting.members import (
    allowed_contamination,
    best_member,
    budgeted_influence,
    class_predictor,
    forward_kernels,
    lists_models,
    region_bounds,
    schedule_of,
)
from pufferkit.fitting.prediction import (
    Predictor,
    boosted_predictor,
    memory_predictor,
    prediction_gap,
)
from pufferkit.fitting.ratio_tests import Check
from pufferkit.fitting.row_coverage import VISITS, row_coverage
from pufferkit.fitting.sequences import Codes, checked_people

INFLUENCE = "one entry gives away no more entries than the class budgets"
ROWS = "the moves of each part of the day are those of the class"
PREDICTION = "no flexible predictor does much better"

PREDICTIVE = 0.05
"""The least share of series drawn from a class that must reach the influence of the data."""

REMEDIES = "choose hidden regimes, or take coarser steps or fewer levels"
_PARTS = 4
_BLOCKS = 20
_SHORTEST = 3
_HOPELESS = 2.0
_ENOUGH, _FAR = 20, 10
_POWER, _TINY, _MOST = 0.8, 1e-12, 40.0


@dataclass(frozen=True)
class InfluenceCheck(Check):
    """The test that decides: ``statistic`` is the influence of the data."""

    budget: float | None = None
    """Entries that the class budgets; ``None`` if it could not be tested."""
    more_data: float | None = None
    """How many times the data it would take to notice twice the budget. Above 1 there is no power,
    and passing means nothing."""

    @property
    def power(self) -> bool:
        """Whether these data would show an influence of twice the budget."""
        return self.more_data is not None and self.more_data <= 1.0


@dataclass(frozen=True)
class Days:
    """The layout of entries in days.

    Attributes
    ----------
    day
        Entries in a day, or in a block of entries if no day is known.
    window
        Entries on either side within which influence is measured.
    known
        Whether ``day`` is a day.
    """

    day: int
    window: int
    known: bool

    @classmethod
    def of(cls, people: Sequence[Codes], day: int | None, window: int | None) -> Days:
        """A day as given, or a twentieth of the longest sequence; a third of it as window."""
        longest = max(len(person) for person in people)
        known = None if day is None else checks.whole("day", day, 2)
        entries = max(longest // _BLOCKS, _SHORTEST) if known is None else known
        width = max(entries // 3, 1) if window is None else checks.whole("window", window, 1)
        return cls(entries, width, known is not None)


Person = tuple[MeasuredInfluence, list[Codes]]
"""The influence of one person, and the sequences it was measured on."""


def influence_of_each(
    people: Sequence[Sequence[Codes]], states: int, clock: Days, seed: int = 0
) -> list[Person]:
    """The influence of each person with enough entries; of all together if nobody has.

    Each is measured separately: pooled entries would also reveal who it is.
    """
    alone: list[Person] = []
    for person in people:
        try:
            measured = measured_influence(person, states, clock.window, clock.day, seed=seed)
        except NotApplicable:
            continue
        alone.append((measured, list(person)))
    if not alone:
        pooled = [sequence for person in people for sequence in person]
        measured = measured_influence(pooled, states, clock.window, clock.day, seed=seed)
        return [(measured, pooled)]
    return alone


def largest_influence(people: Sequence[Person], level: float = 0.05) -> MeasuredInfluence:
    """The largest influence of any person; its lower limit holds for all people at once."""
    normal = NormalDist().inv_cdf(1 - level / len(people))
    largest = max((one for one, _ in people), key=lambda one: one.plug_in)
    lower = max(one.cross_fit - normal * one.error for one, _ in people)
    return replace(largest, lower=max(lower, 0.0))


def influence_check(
    people: Sequence[Person],
    theta: ChainClass,
    clock: Days,
    *,
    level: float = 0.05,
    repetitions: int = 100,
    seed: int = 0,
) -> InfluenceCheck:
    """Test whether the influence measured on people is within the budget of a class.

    Of series drawn from the best member of a class that lists all its members, this share at least
    must reach the data; that is the test, whatever bias the estimate has. A class that budgets less
    than half of the lower limit is refused without drawing. One that holds more than it lists (a
    hull, a region) must budget the lower limit, and the point estimate or such a share too.

    The test has power if four times in five it would notice people with twice the budget B: each
    stays below the limit with probability Phi(z - B / e), e the standard error of a person's
    influence, which falls with the root of the data.
    """
    try:
        measured = largest_influence(people, level)
        budget = budgeted_influence(theta, clock.window)
    except NotApplicable as reason:
        return InfluenceCheck(INFLUENCE, None, str(reason))
    share, covered = None, budget >= measured.lower
    listed = lists_models(theta) and _HOPELESS * budget >= measured.lower
    if listed or (covered and budget < measured.point):
        try:
            used = [person for _, person in people]
            share = _predictive(used, theta, measured.plug_in, clock, level, repetitions, seed)
        except NotApplicable:  # nothing to draw from
            share = None
        covered = share is not None and share >= level
    more = _more_data([one.error for one, _ in people], budget, level)
    text = (
        f"this class budgets {budget:.3g} entries; the data show {measured.point:.3g} "
        f"(at least {measured.lower:.3g}"
    )
    if share is not None:
        text += f", reached by {share:.0%} of series drawn from it"
    text += ")" if covered else f"): {REMEDIES}"
    if covered and more > 1:
        text += f"; no power: it would take {more:.2g} times the data to show twice the budget"
    return InfluenceCheck(INFLUENCE, covered, text, measured.point, None, share, budget, more)


def _more_data(errors: Sequence[float], budget: float, level: float) -> float:
    """How many times the data would show twice the budget four times in five."""
    normal = NormalDist()
    limit = normal.inv_cdf(1 - level / len(errors))

    def power(times: float) -> float:
        unseen = (normal.cdf(limit - budget * sqrt(times) / max(e, _TINY)) for e in errors)
        return 1 - prod(unseen)

    if power(1.0) >= _POWER:
        return 1.0
    low, high = 0.0, _MOST
    while high - low > 0.01:
        middle = (low + high) / 2
        low, high = (low, middle) if power(2.0**middle) >= _POWER else (middle, high)
    return float(2.0**high)


def _predictive(
    people: Sequence[Sequence[Codes]],
    theta: ChainClass,
    reached: float,
    clock: Days,
    level: float,
    repetitions: int,
    seed: int,
) -> float:
    """Share of simulated groups of people whose largest plug-in influence reaches the data's.

    Drawing stops when the share must be at least ``level``, or when data are further above all
    drawn groups than ten times their spread.
    """
    member = best_member(theta, [sequence for person in people for sequence in person])
    states, drawn = len(theta.states), []
    for number in range(repetitions):
        rng = np.random.default_rng([seed, number])
        largest = 0.0
        for person in people:
            other = as_observed([member.sample(len(s), rng) for s in person], person)
            largest = max(largest, plug_in_influence(other, states, clock.window, clock.day))
        drawn.append(largest)
        count = sum(one >= reached for one in drawn)
        if count >= level * repetitions:
            break
        if len(drawn) >= _ENOUGH and reached - max(drawn) > _FAR * float(np.std(drawn)):
            break
    return count / len(drawn)


def rows_check(
    people: Sequence[Codes],
    theta: ChainClass,
    clock: Days,
    *,
    slots: Sequence[Codes] | None = None,
    level: float = 0.01,
) -> Check:
    """Test whether people's rows, for each part of the day, are plausible under a class."""
    bounds, schedule = region_bounds(theta), schedule_of(theta, from_start=slots is None)
    try:
        kernels = forward_kernels(theta) if bounds is None else None
    except NotApplicable as reason:
        return Check(ROWS, None, str(reason))
    if schedule is not None and (not clock.known or len(schedule) != clock.day):
        words = f"its clock has {len(schedule)} slots, and that of the data is another"
        return Check(ROWS, None, words)
    if kernels is None and bounds is None and schedule is None:
        return Check(ROWS, None, "entries are no chain under these beliefs; predictions tell")
    covered = row_coverage(
        people,
        kernels or (),
        bounds=bounds,
        schedule=schedule,
        day=clock.day,
        parts=_PARTS if clock.known else 1,
        slots=slots if clock.known else None,
        level=level,
        inflate=allowed_contamination(theta),
    )
    if covered.passed is None:
        return Check(ROWS, None, f"no state is left {VISITS} times in a part of the day")
    total = len(covered.rows)
    text = f"{covered.plausible} of {total} rows are plausible"
    if not covered.passed and bounds is None:
        text += f"; all would be with contamination {covered.contamination:.3g}"
    return Check(ROWS, covered.passed, text, float(covered.plausible), total)


def prediction_check(
    people: Sequence[Codes],
    theta: ChainClass,
    clock: Days,
    flexible: Mapping[str, Predictor],
    *,
    slots: Sequence[Codes] | None = None,
) -> Check:
    """Test whether flexible predictors trained on public people do better on those held out."""
    try:
        given = class_predictor(theta, people, max(clock.day // _PARTS, 1))
        times = slots if clock.known else None
        gap = prediction_gap(given, flexible, people, len(theta.states), day=clock.day, slots=times)
    except NotApplicable as reason:
        return Check(PREDICTION, None, str(reason))
    text = (
        f"{gap.given:.4g} nats a step against {gap.flexible[gap.best]:.4g} of {gap.best}, "
        f"a difference of {gap.gap:.2g} (standard error {gap.error:.2g})"
    )
    return Check(PREDICTION, gap.passed, text, gap.gap)


def flexible_predictors(
    public: Sequence[Any],
    states: int,
    clock: Days,
    *,
    slots: Sequence[Codes] | None = None,
    seed: int = 0,
) -> dict[str, Predictor]:
    """Chains of longer memory, and boosting where scikit-learn is installed, from public people."""
    coded = checked_people(public, states)
    predictors = {}
    for order in (2, 3):
        if states ** (order + 1) <= 10 * sum(len(person) for person in coded):
            predictors[f"memory of {order}"] = memory_predictor(coded, states, order)
    times = slots if clock.known else None
    day = clock.day if clock.known else 1
    try:
        predictors["boosting"] = boosted_predictor(coded, states, day=day, slots=times, seed=seed)
    except NotApplicable:
        if not predictors:
            predictors["memory of 1"] = memory_predictor(coded, states, 1)
    return predictors
