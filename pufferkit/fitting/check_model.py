"""Whether a model is good enough for data, and what a longer memory would cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
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
from pufferkit.fitting.decision import (
    INFLUENCE,
    PREDICTION,
    ROWS,
    Days,
    flexible_predictors,
    influence_check,
    influence_of_each,
    prediction_check,
    rows_check,
)
from pufferkit.fitting.fit import fit
from pufferkit.fitting.members import forward_kernels, lists_all
from pufferkit.fitting.people import People
from pufferkit.fitting.ratio_tests import (
    Check,
    coverage_check,
    order_check,
    stationarity_check,
)
from pufferkit.fitting.sequences import Codes
from pufferkit.mechanisms.influence_curve import influence_curve
from pufferkit.records import Report
from pufferkit.threads import one_thread

MOST_STATES = 7
"""With more states than this, pairs of states are too many to compare the noise."""

MEMORY = "one step of memory is enough"
CONSTANT = "the distribution of the moves does not change over time"

_SMOOTHING = 0.5
_COUNTS = "counts alone cannot tell; give the series, or a million rows of the table"


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

    def __str__(self) -> str:
        marks = {True: "yes", False: "NO", None: "?"}
        over = "counts" if self.entries is None else f"{self.entries:,} entries"
        lines = [f"{self.beliefs}; checked against {over}, level {self.level:g}"]
        lines += [f"  {marks[c.passed]:<3}  {c.name}: {c.text}" for c in self.checks]
        for name, scale in self.noise.items():
            if scale is not None:
                what = {"given": "these beliefs"}.get(name, f"a {name}-order chain of these data")
                lines.append(f"  noise scale under {what}: {scale:.6g}")
        factor = self.second_order_factor
        if factor is not None:
            lines.append(f"  a second-order chain needs {factor:.3g} times the noise")
        lines.append(f"verdict: {self.verdict}")
        return "\n".join(lines)


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
    if theta.kernels():
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
        return coverage_check(counts, starts, theta, level)
    except NotApplicable as reason:
        return Check("the class covers the data", None, str(reason))


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
