"""Whether a model is good enough for people who were held out.

Influence decides: the class must budget for the influence of one entry in the data. Rows and
predictions show where a class is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import ceil, prod, sqrt
from statistics import NormalDist
from typing import Any

import numpy as np

from pufferkit import checks
from pufferkit.beliefs.base import check_step
from pufferkit.beliefs.chain_class import ChainClass, as_chain_class
from pufferkit.beliefs.region_class import count_table
from pufferkit.data.query import Query
from pufferkit.data.series import Series
from pufferkit.data.table import Table
from pufferkit.errors import NotApplicable
from pufferkit.fitting.fit import fit
from pufferkit.fitting.measured_influence import (
    MeasuredInfluence,
    as_observed,
    measured_influence,
    plug_in_influence,
)
from pufferkit.fitting.members import (
    Predictor,
    best_member,
    boosted_predictor,
    budgeted_influence,
    class_predictor,
    forward_kernels,
    lists_all,
    memory_predictor,
    prediction_gap,
    region_bounds,
    schedule_of,
)
from pufferkit.fitting.people import Codes, People, checked_people
from pufferkit.fitting.row_tests import (
    COVERAGE,
    VISITS,
    Check,
    coverage_check,
    order_check,
    row_coverage,
    stationarity_check,
)
from pufferkit.mechanisms.influence_curve import influence_curve
from pufferkit.records import Report
from pufferkit.shown import wrapped
from pufferkit.threads import one_thread

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
_SMALL_ERROR = 0.05


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
    influence, which falls with the root of the data. It is estimated from few days, and a small
    estimate goes with a small influence: its upper limit is taken, e sqrt((d - 1) / q) with q the
    5% quantile of chi-squared with d - 1 degrees of freedom, d the days of the person.
    """
    try:
        measured = largest_influence(people, level)
        budget = budgeted_influence(theta, clock.window)
    except NotApplicable as reason:
        return InfluenceCheck(INFLUENCE, None, str(reason))
    share, covered = None, budget >= measured.lower
    listed = theta.lists_models and _HOPELESS * budget >= measured.lower
    if listed or (covered and budget < measured.point):
        try:
            used = [person for _, person in people]
            share = _predictive(used, theta, measured.plug_in, clock, level, repetitions, seed)
        except NotApplicable:  # nothing to draw from
            share = None
        covered = share is not None and share >= level
    more = _more_data([one for one, _ in people], budget, level)
    text = (
        f"this class budgets {budget:.3g} entries; the data show {measured.point:.3g} "
        f"(at least {measured.lower:.3g}"
    )
    if share is not None:
        text += f", reached by {share:.0%} of series drawn from it"
    text += ")" if covered else f"): {REMEDIES}"
    if covered and more > 1:
        text += "; no power: it would take "
        text += f"{times_the_data(more)} times the data to show twice the budget"
    return InfluenceCheck(INFLUENCE, covered, text, measured.point, None, share, budget, more)


def _more_data(people: Sequence[MeasuredInfluence], budget: float, level: float) -> float:
    """How many times the data would show twice the budget four times in five."""
    from scipy.special import chdtri  # noqa: PLC0415  (slow to load)

    normal = NormalDist()
    limit = normal.inv_cdf(1 - level / len(people))

    def unseen(one: MeasuredInfluence, times: float) -> float:
        freedom = max(one.days * times - 1, 1.0)
        error = one.error * sqrt(freedom / float(chdtri(freedom, 1 - _SMALL_ERROR)))
        return normal.cdf(limit - budget * sqrt(times) / max(error, _TINY))

    def power(times: float) -> float:
        return 1 - prod(unseen(one, times) for one in people)

    if power(1.0) >= _POWER:
        return 1.0
    low, high = 0.0, _MOST
    while high - low > 0.01:
        middle = (low + high) / 2
        low, high = (low, middle) if power(2.0**middle) >= _POWER else (middle, high)
    return float(2.0**high)


def times_the_data(more: float) -> str:
    """How many times the data, in two digits; never as if these were enough."""
    return f"{ceil(more * 10) / 10:.2g}"


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
        inflate=theta.contamination,
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


MOST_STATES = 7
"""With more states than this, pairs of states are too many to compare the noise."""

MEMORY = "one step of memory is enough"
CONSTANT = "the distribution of the moves does not change over time"

_SMOOTHING = 0.5
_COUNTS = "counts alone cannot tell; give the series, or a million rows of the table"


_MARKS = {True: "yes", False: "NO", None: "?"}


@dataclass(frozen=True, repr=False)
class ModelReport(Report):
    """Tests of beliefs on data, without noise: do not share them if the data are private."""

    beliefs: str
    """What was checked."""
    entries: int | None
    """How much data there were; ``None`` for counts."""
    level: float
    """A test with a p-value below this fails."""
    checks: tuple[Check, ...]
    """The answers."""
    epsilon: float
    """Epsilon at which noise is compared."""
    noise: dict[str, float | None]
    """Scale of the influence curve for a 1-Lipschitz query over these data: under the ``given``
    beliefs, and under chains of ``first`` and ``second`` order fitted to the data; empty where it
    not available."""

    def table_rows(self) -> list[dict[str, Any]]:
        """One for each check."""
        return [asdict(check) for check in self.checks]

    @property
    def passed(self) -> bool:
        """Whether no check failed; one that the data cannot decide does not fail."""
        return all(check.passed is not False for check in self.checks)

    @property
    def verdict(self) -> str:
        """One sentence. Influence decides, because it bounds the noise from below."""
        failed = [check for check in self.checks if check.passed is False]
        for name in (INFLUENCE, ROWS, PREDICTION):
            for check in failed:
                if check.name == name:
                    return check.text
        if failed:
            return f"these beliefs fail: {'; '.join(check.name for check in failed)}"
        return "no test refutes these beliefs"

    @property
    def second_order_factor(self) -> float | None:
        """The noise of a second-order chain relative to that of a first-order one."""
        first, second = self.noise.get("first"), self.noise.get("second")
        return None if not first or not second else second / first

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return {
            **asdict(self),
            "passed": self.passed,
            "verdict": self.verdict,
            "second_order_factor": self.second_order_factor,
        }

    def warnings(self) -> list[str]:
        """The verdict, if a check failed."""
        return [] if self.passed else [f"verdict: {self.verdict}"]

    def caption(self) -> str:
        """What was checked, and against how much."""
        over = "counts" if self.entries is None else f"{self.entries:,} entries"
        return f"{self.beliefs}; checked against {over}, level {self.level:g}"

    def shown_rows(self) -> list[dict[str, Any]]:
        """Each check with its answer, in words."""
        return [
            {"": _MARKS[c.passed], "check": c.name, "what it shows": c.text} for c in self.checks
        ]

    def text_table(self) -> str:
        """A line for each check."""
        rows = [f"{_MARKS[c.passed]:<3}  {c.name}: {c.text}" for c in self.checks]
        return "\n".join(line for row in rows for line in wrapped(row))

    def remarks(self) -> list[str]:
        """The noise, and the verdict."""
        lines = []
        for name, scale in self.noise.items():
            if scale is not None:
                what = {"given": "these beliefs"}.get(name, f"a {name}-order chain of these data")
                lines.append(f"noise scale under {what}: {scale:.4g}")
        factor = self.second_order_factor
        if factor is not None:
            lines.append(f"a second-order chain needs {factor:.3g} times the noise")
        return [*lines, f"verdict: {self.verdict}"] if self.passed else lines


@one_thread()
def check_model(
    data: Any,
    beliefs: Any,
    *,
    level: float = 0.01,
    epsilon: float = 1.0,
    day: int | None = None,
    window: int | None = None,
    public: Sequence[Any] | None = None,
    repetitions: int = 100,
    seed: int = 0,
) -> ModelReport:
    """Test whether beliefs fit data, and above all whether they budget for enough influence.

    The tests are: one step of memory, transitions constant over time, coverage of the counts by the
    class, rows by part of the day, predictions, and the influence of one entry, which decides: it
    bounds the noise of every mechanism from below (`pufferkit.fitting.measured_influence`).

    Parameters
    ----------
    data
        A `Series`, a sequence of states or of segments; several people, as a list of `Series` or as
        the `Table` of `read`; or transition counts, as a square numpy array in the order of
        the beliefs' states. For counts, and for tables of more than a million rows or in other
        engines, only coverage is tested. Best are public people that the beliefs were *not* fitted
        to.
    beliefs
        A `MarkovChain` or a `ChainClass`.
    level
        A test with a p-value below this fails.
    epsilon
        Epsilon at which the noise of first and second order is compared.
    day
        Entries in a day; a table with times knows it. Influence is compared day by day, rows by
        quarters of the day. Without it, blocks of a twentieth of the data replace days.
    window
        Entries on either side within which influence is measured; by default a third of a day.
    public
        Public people to train flexible predictors on, a `Series` each; without them predictions are
        not compared.
    repetitions, seed
        Number and seed of the series drawn from the class.

    Examples
    --------
    >>> from pufferkit import MarkovChain, check_model
    >>> chain = MarkovChain.steady([[0.8, 0.2], [0.3, 0.7]])
    >>> check_model(chain.sample(5000, seed=1), chain).passed
    True
    """
    theta = as_chain_class(beliefs)
    level, epsilon = checks.real("level", level), checks.privacy(epsilon)
    if not 0 < level < 1:
        raise ValueError(f"level: must lie between 0 and 1, got {level:g}; for example 0.01")
    for one in data if isinstance(data, (list, tuple)) else [data]:
        check_step(theta.step, getattr(one, "step", None))
    slots = None
    if isinstance(data, Table):
        counted = _in_order(data, theta)
        if data.codes is None:
            data = counted
        else:
            known = People.of(data, day)
            data, day = list(known.series), known.day
            slots = [row for number in range(len(data)) for row in known.slots(number)]
    if isinstance(data, np.ndarray) and data.ndim == 2:
        table = count_table(data)
        if len(table) != len(theta.states):
            raise ValueError(f"counts: have {len(table)} states, the beliefs {len(theta.states)}")
        covered = _coverage(table, np.zeros(len(table)), theta, level)
        unknown = [Check(name, None, _COUNTS) for name in (MEMORY, CONSTANT)]
        later = [Check(name, None, _COUNTS) for name in (ROWS, PREDICTION, INFLUENCE)]
        asked = (*unknown, covered, *later)
        return ModelReport(theta.description, None, level, asked, epsilon, {})
    people = _people(data, theta)
    everybody = [np.asarray(s) for person in people for s in person.segments]
    series = Series(np.concatenate(everybody), theta.states, tuple(len(s) for s in everybody))
    firsts = np.array([s[0] for s in everybody if s[0] >= 0], dtype=np.intp)
    starts = np.bincount(firsts, minlength=len(theta.states))
    clock = Days.of(everybody, day, window)
    each = [[np.asarray(segment) for segment in person.segments] for person in people]
    asked = (
        _claimed(MEMORY, theta, lambda: order_check(series, level)),
        _claimed(CONSTANT, theta, lambda: stationarity_check(series, level)),
        _coverage(series.transitions, starts, theta, level),
        rows_check(everybody, theta, clock, slots=slots, level=level),
        _predicted(everybody, theta, clock, public, seed),
        _influence(each, theta, clock, repetitions, seed),
    )
    noise = _noise(series, theta, epsilon)
    return ModelReport(theta.description, len(series), level, asked, epsilon, noise)


def _people(data: Any, theta: ChainClass) -> list[Series]:
    """One series for each person; anything but a list of `Series` is one person."""
    several = isinstance(data, (list, tuple)) and any(isinstance(one, Series) for one in data)
    return [Series.of(one, theta.states) for one in (data if several else [data])]


def _claimed(name: str, theta: ChainClass, check: Callable[[], Check]) -> Check:
    """A test of a chain that does not change, for classes that say so."""
    if not theta.homogeneous:
        chain = forward_kernels(theta) is not None
        if not chain or (name == CONSTANT and not lists_all(theta)):
            return Check(name, None, "these beliefs do not say so")
    return check()


def _influence(
    people: Sequence[Sequence[Codes]], theta: ChainClass, clock: Days, repetitions: int, seed: int
) -> Check:
    try:
        measured = influence_of_each(people, len(theta.states), clock, seed)
    except NotApplicable as reason:
        return Check(INFLUENCE, None, str(reason))
    return influence_check(measured, theta, clock, repetitions=repetitions, seed=seed)


def _predicted(
    people: Sequence[Codes],
    theta: ChainClass,
    clock: Days,
    public: Sequence[Any] | None,
    seed: int,
) -> Check:
    if public is None:
        return Check(PREDICTION, None, "give public people to learn from, public=")
    learned = [np.asarray(s) for person in _people(list(public), theta) for s in person.segments]
    flexible = flexible_predictors(learned, len(theta.states), clock, seed=seed)
    return prediction_check(people, theta, clock, flexible)


def _in_order(table: Table, theta: ChainClass) -> Any:
    """The transition counts of a table, by the states of the beliefs."""
    strange = [state for state in table.states if state not in theta.states]
    if strange:
        raise ValueError(
            f"table: has states {strange} that the beliefs do not know; theirs are "
            f"{list(theta.states)}; read it with states= as in the beliefs"
        )
    at = [theta.states.index(state) for state in table.states]
    counts = np.zeros((len(theta.states), len(theta.states)), dtype=np.int64)
    counts[np.ix_(at, at)] = table.transitions
    return counts


def _coverage(counts: Any, starts: Any, theta: ChainClass, level: float) -> Check:
    try:
        return coverage_check(theta, counts, starts, level)
    except NotApplicable as reason:
        return Check(COVERAGE, None, str(reason))


def _noise(series: Series, theta: ChainClass, epsilon: float) -> dict[str, float | None]:
    query = Query("any", lambda _: 0.0, 1, series.lengths)

    def scale(beliefs: Any) -> float | None:
        try:
            return influence_curve(beliefs, query, epsilon).scale
        except NotApplicable:
            return None

    scales = {"given": scale(theta)}
    if len(series.states) <= MOST_STATES and max(series.lengths) > 1:
        scales["first"] = scale(fit(series, smoothing=_SMOOTHING, theta_from_private_data=True))
        scales["second"] = scale(fit(series, "order", theta_from_private_data=True))
    return scales
