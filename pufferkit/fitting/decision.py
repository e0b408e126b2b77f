"""The tests that decide between classes of beliefs, on people who were held out.

Influence decides: the class must budget for the influence of one entry in the data. Rows and
predictions show where a class is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pufferkit import checks
from pufferkit.beliefs.chain_class import ChainClass
from pufferkit.beliefs.row_coverage import VISITS, row_coverage
from pufferkit.beliefs.sequences import Codes, checked_people
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
    lists_all,
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


@dataclass(frozen=True)
class InfluenceCheck(Check):
    """The test that decides: ``statistic`` is the influence of the data."""

    budget: float | None = None
    """Entries that the class budgets; ``None`` if it could not be tested."""


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


def influence_of_people(
    people: Sequence[Sequence[Codes]], states: int, clock: Days, seed: int = 0
) -> tuple[MeasuredInfluence, list[list[Codes]]]:
    """The largest influence of any person, and the people it was measured on.

    Each person is measured separately: pooled entries would also reveal who it is. If nobody has
    enough entries, all are pooled. The lower limit holds for all people at once.
    """
    confidence = 1 - 0.05 / len(people)
    alone: list[tuple[MeasuredInfluence, list[Codes]]] = []
    for person in people:
        try:
            measured = measured_influence(
                person, states, clock.window, clock.day, confidence=confidence, seed=seed
            )
        except NotApplicable:
            continue
        alone.append((measured, list(person)))
    if not alone:
        pooled = [sequence for person in people for sequence in person]
        return measured_influence(pooled, states, clock.window, clock.day, seed=seed), [pooled]
    largest = max((measured for measured, _ in alone), key=lambda one: one.plug_in)
    lower = max(measured.lower for measured, _ in alone)
    return replace(largest, lower=lower), [person for _, person in alone]


def influence_check(
    people: Sequence[Sequence[Codes]],
    theta: ChainClass,
    clock: Days,
    *,
    repetitions: int = 100,
    seed: int = 0,
) -> InfluenceCheck:
    """Test whether the influence measured on people is within the budget of a class.

    Of series drawn from the best member of a class that lists all its members, 5% at least must
    reach the data; that is the test, whatever bias the estimate has. A class that budgets less than
    half of the lower limit is refused without drawing. One that holds more than it lists (a hull, a
    region) must budget the lower limit, and the point estimate or such a share too.
    """
    states = len(theta.states)
    try:
        measured, used = influence_of_people(people, states, clock, seed)
        budget = budgeted_influence(theta, clock.window)
    except NotApplicable as reason:
        return InfluenceCheck(INFLUENCE, None, str(reason))
    share, covered = None, budget >= measured.lower
    listed = lists_all(theta) and _HOPELESS * budget >= measured.lower
    if listed or (covered and budget < measured.point):
        try:
            share = _predictive(used, theta, measured.plug_in, clock, repetitions, seed)
        except NotApplicable:  # nothing to draw from
            share = None
        covered = share is not None and share >= PREDICTIVE
    text = (
        f"this class budgets {budget:.3g} entries; the data show {measured.point:.3g} "
        f"(at least {measured.lower:.3g}"
    )
    if share is not None:
        text += f", reached by {share:.0%} of series drawn from it"
    text += ")" if covered else f"): {REMEDIES}"
    return InfluenceCheck(INFLUENCE, covered, text, measured.point, None, share, budget)


def _predictive(
    people: Sequence[Sequence[Codes]],
    theta: ChainClass,
    reached: float,
    clock: Days,
    repetitions: int,
    seed: int,
) -> float:
    """Share of simulated groups of people whose largest plug-in influence reaches the data's."""
    member = best_member(theta, [sequence for person in people for sequence in person])
    states, count = len(theta.states), 0
    for number in range(repetitions):
        rng = np.random.default_rng([seed, number])
        largest = 0.0
        for person in people:
            other = as_observed([member.sample(len(s), rng) for s in person], person)
            largest = max(largest, plug_in_influence(other, states, clock.window, clock.day))
        count += largest >= reached
    return count / repetitions


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
