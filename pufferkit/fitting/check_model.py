"""Whether a model is good enough for data, and what a longer memory would cost."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from pufferkit import checks
from pufferkit.beliefs.chain_class import ChainClass, as_chain_class
from pufferkit.beliefs.estimation import fit, order_two
from pufferkit.beliefs.region_class import count_table
from pufferkit.data.queries import Query
from pufferkit.data.series import Series
from pufferkit.data.table import Table
from pufferkit.errors import NotApplicable
from pufferkit.fitting.ratio_tests import (
    Check,
    coverage_check,
    order_check,
    stationarity_check,
)
from pufferkit.mechanisms.influence_curve import influence_curve
from pufferkit.records import Report

MOST_STATES = 7
"""With more states than this, pairs of states are too many to compare the noise."""

_SMOOTHING = 0.5


@dataclass(frozen=True, repr=False)
class ModelReport(Report):
    """What data say about beliefs, without noise: keep it to yourself if they are private.

    Attributes
    ----------
    beliefs
        What was checked.
    entries
        How much data there were; ``None`` for counts.
    level
        A test with a p-value below this fails.
    checks
        The answers.
    epsilon
        Where noise is compared.
    noise
        Scale of the influence curve for a 1-Lipschitz query over these data: under the ``given``
        beliefs, and under chains of ``first`` and ``second`` order fitted to the data; empty where
        it cannot be told.
    """

    beliefs: str
    entries: int | None
    level: float
    checks: tuple[Check, ...]
    epsilon: float
    noise: dict[str, float | None]

    def table_rows(self) -> list[dict[str, Any]]:
        """One for each check."""
        return [asdict(check) for check in self.checks]

    @property
    def passed(self) -> bool:
        """Whether no check failed; one that the data cannot decide does not fail."""
        return all(check.passed is not False for check in self.checks)

    @property
    def second_order_factor(self) -> float | None:
        """How many times the noise a second-order chain needs."""
        first, second = self.noise.get("first"), self.noise.get("second")
        return None if not first or not second else second / first

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return {
            **asdict(self),
            "passed": self.passed,
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
        return "\n".join(lines)


def check_model(
    data: Any, beliefs: Any, *, level: float = 0.01, epsilon: float = 1.0
) -> ModelReport:
    """Ask whether one step of memory is enough, whether it lasts, whether the class covers.

    Parameters
    ----------
    data
        A `Series`, the `Table` of `read_table`, a sequence of states or of segments; or transition
        counts, as a square numpy array in the order of the beliefs' states. Counts, and tables of
        more than a million rows or in other engines, can only tell whether the class covers them.
    beliefs
        A `MarkovChain` or a `ChainClass`.
    level
        A test with a p-value below this fails.
    epsilon
        Where the noise of first and second order is compared.

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
    if isinstance(data, Table):
        data = _in_order(data, theta) if data.codes is None else data.all_series
    if isinstance(data, np.ndarray) and data.ndim == 2:
        table = count_table(data)
        if len(table) != len(theta.states):
            raise ValueError(f"counts: have {len(table)} states, the beliefs {len(theta.states)}")
        coverage = _coverage(table, np.zeros(len(table)), theta, level)
        unknown = "counts alone cannot tell; give the series, or a million rows of the table"
        names = (
            "one step of memory is enough",
            "the distribution of the moves does not change over time",
        )
        asked = tuple(Check(name, None, unknown) for name in names)
        return ModelReport(theta.description, None, level, (*asked, coverage), epsilon, {})
    series = Series.of(data, theta.states)
    firsts = np.array([s[0] for s in series.segments if s[0] >= 0], dtype=np.intp)
    starts = np.bincount(firsts, minlength=len(series.states))
    asked = (
        order_check(series, level),
        stationarity_check(series, level),
        _coverage(series.transitions, starts, theta, level),
    )
    noise = _noise(series, theta, epsilon)
    return ModelReport(theta.description, len(series), level, asked, epsilon, noise)


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
        scales["first"] = scale(fit(series, _SMOOTHING, theta_from_private_data=True))
        scales["second"] = scale(order_two(series, _SMOOTHING, theta_from_private_data=True))
    return scales
