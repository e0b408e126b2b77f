"""Tests of transition counts: rows of people against a class, and data against a chain.

A row is the transitions of one person out of one state in one part of the day. It is compared with
the hull of the same row of the kernels: the deviance 2 sum_y m_y log (m_y / n / p_y) at the nearest
p is at most chi-squared with k - 1 degrees of freedom if the row was drawn from a member. The least
*contamination* eta is the smallest for which (1 - eta) p + eta r, with p in the hull and r any
distribution, is plausible. The true contamination may be larger than the least that is plausible;
that of the counted shares, (m + 1/2) / (n + k/2), errs upwards instead. It is a linear programme,
1 - max { sum w : sum_j w_j p^j <= share, w >= 0 }.

Both optima of the test are computed by expectation-maximisation over the weights of the kernels and
over r, for all rows at once. Stopping early errs towards larger deviances and larger eta, which
refuses more.

**Likelihood-ratio tests** compare 2 sum n log (n / expected) with a chi-squared distribution.
Degrees of freedom count only contexts and moves that were seen, and p-values are those of large
samples.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import singledispatch
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pufferkit import checks
from pufferkit.beliefs.chain_class import ChainClass
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.beliefs.mixing_class import MixingClass
from pufferkit.checks import Floats
from pufferkit.data.series import Series
from pufferkit.errors import NotApplicable
from pufferkit.fitting.people import checked_people, checked_slots, tuple_counts
from pufferkit.rounding import EPS, last_passing, last_passing_each

VISITS = 30
"""Rows with fewer transitions are not tested."""

_ROUNDS, _LOOK, _HARDLY = 200, 20, 1e-3
_PRECISION = 2.0**-12
_LEAST = 1e-300


@dataclass(frozen=True)
class CoveredRow:
    """One row of one person."""

    person: int
    part: int
    state: int
    """Indices of the person, the part of the day and the state, from 0."""
    moves: int
    """Number of transitions."""
    deviance: float
    p_value: float
    """Deviance to the nearest row of the hull, and its p-value."""
    contamination: float
    """The least contamination that makes the row plausible, 0 if it already is; or that of the
    counted shares."""


@dataclass(frozen=True)
class RowCoverage:
    """How well kernels cover the rows of people who were held out."""

    rows: tuple[CoveredRow, ...]
    """The rows with enough transitions."""
    level: float
    """A row with a p-value below this fails, if it needs more contamination than ``inflate``."""
    inflate: float = 0.0
    """Contamination that the class allows in every row."""

    @property
    def failing(self) -> tuple[CoveredRow, ...]:
        """The rows that fail."""
        return tuple(
            row
            for row in self.rows
            if row.p_value < self.level and not row.contamination <= self.inflate
        )

    @property
    def plausible(self) -> int:
        """How many rows pass."""
        return len(self.rows) - len(self.failing)

    @property
    def contamination(self) -> float:
        """The least contamination that makes every row plausible."""
        return max((row.contamination for row in self.rows), default=0.0)

    @property
    def passed(self) -> bool | None:
        """Whether the failures can be due to chance; ``None`` without rows.

        One row in 1 / level fails by chance. This many failures must have probability at least
        ``level``, and the worst row must pass at the level divided by the number of rows.
        """
        from scipy.special import bdtrc  # noqa: PLC0415  (slow to load)

        if not self.rows:
            return None
        total, failing = len(self.rows), len(self.failing)
        often = float(bdtrc(failing - 1, total, self.level)) if failing else 1.0
        worst = min((row.p_value for row in self.failing), default=1.0)
        return often >= self.level and worst * total >= self.level


def row_coverage(
    people: Sequence[Any],
    kernels: Any,
    *,
    bounds: tuple[Floats, Floats] | None = None,
    schedule: Floats | None = None,
    day: int = 1,
    parts: int = 4,
    slots: Sequence[Any] | None = None,
    visits: int = VISITS,
    level: float = 0.01,
    inflate: float = 0.0,
) -> RowCoverage:
    """Compare the rows of people with the hull of the rows of kernels.

    Parameters
    ----------
    people
        One array of codes for each person who was held out, -1 where nothing was observed.
    kernels
        Matrices, or one array of them. For backward transitions give reversed sequences and the
        backward kernels.
    bounds
        In place of kernels, lower and upper bounds of a matrix: rows are compared with the nearest
        within them. The contamination is not computed; 1 stands for a row that fails.
    schedule
        In place of kernels, a matrix for each slot of the day: a row is compared with the mean over
        its transitions. Sums of draws from different distributions vary less than those from one,
        so this refuses less often than ``level``.
    day
        Entries in a day.
    parts
        Number of equal parts of the day, tested one by one.
    slots
        The time of day of each entry, a row for each person; if left out, sequences begin at 0.
    visits
        Rows with fewer transitions are left out.
    level
        Level of the test of a row.
    inflate
        Contamination that the class allows: rows that need no more than this pass.

    Examples
    --------
    >>> from pufferkit import MarkovChain
    >>> chain = MarkovChain.steady([[0.8, 0.2], [0.3, 0.7]])
    >>> covered = row_coverage([chain.sample(5000, seed=1)], [chain.transition], parts=1)
    >>> covered.plausible, covered.contamination, covered.passed
    (2, 0.0, True)
    """
    from scipy.special import chdtrc, chdtri  # noqa: PLC0415  (slow to load)

    matrices = np.array([checks.stochastic_matrix("kernels", kernel) for kernel in kernels])
    if not len(matrices) and bounds is None and schedule is None:
        raise ValueError("kernels: must hold at least one matrix, got none")
    given = matrices if bounds is None else bounds
    size = len(given[0] if schedule is None else schedule[0])
    coded = checked_people(people, size)
    length, share = checks.whole("day", day, 1), min(checks.whole("parts", parts, 1), day)
    if schedule is not None and len(schedule) != length:
        raise ValueError(
            f"schedule: must have {length} matrices, one for each slot, got {len(schedule)}"
        )
    times = checked_slots(slots, coded, length)
    level = checks.real("level", level)
    places, counts, means = [], [], []
    for number, (person, slot) in enumerate(zip(coded, times, strict=True)):
        seen = (person[:-1] >= 0) & (person[1:] >= 0)
        part = slot[:-1][seen] * share // length
        cell = (part * size + person[:-1][seen]) * size + person[1:][seen]
        table = np.bincount(cell, minlength=share * size * size).reshape(share, size, size)
        for which, state in np.argwhere(table.sum(axis=2) >= checks.whole("visits", visits, 1)):
            places.append((number, int(which), int(state)))
            counts.append(table[which, state])
            if schedule is not None:
                left = (part == which) & (person[:-1][seen] == state)
                means.append(schedule[slot[:-1][seen][left], state].mean(axis=0))
    if not places:
        return RowCoverage((), level, inflate)
    moves = np.array(counts, dtype=float)
    states = [state for _, _, state in places]
    if schedule is not None:
        own = np.array(means)[:, None]
    elif bounds is None:
        own = matrices[:, states, :].transpose(1, 0, 2)
    else:
        triples = zip(moves, bounds[0][states], bounds[1][states], strict=True)
        own = np.array([[closest_in_box(*triple)] for triple in triples])
    freedom = max(size - 1, 1)
    largest = float(chdtri(freedom, level))
    deviance = _deviances(moves, own, np.zeros(len(moves)), largest)
    p_values = chdtrc(freedom, deviance)
    if bounds is not None:
        contaminations = (p_values < level).astype(float)
    else:
        contaminations = _contaminations(moves, own, largest, deviance)
    rows = (
        CoveredRow(*place, int(each.sum()), float(statistic), float(p), float(eta))
        for place, each, statistic, p, eta in zip(
            places, moves, deviance, p_values, contaminations, strict=True
        )
    )
    return RowCoverage(tuple(rows), level, inflate)


def conformal_contamination(etas: Iterable[float], alpha: float) -> float:
    """A contamination that covers a new person with probability at least 1 - alpha.

    Theorem: CLASSES Theorem 10. With a class built on other people, n people's least contaminations
    and that of a new exchangeable person are equally likely in every order, so the ceil((n + 1)(1 -
    alpha))-th smallest of the n is at least the new one with that probability. The guarantee is for
    the score as computed from as much data: with scores of plausible rows, that no row of the new
    person is refuted.

    Raises
    ------
    NotApplicable
        If n people cannot give that confidence: n / (n + 1) is the most.

    Examples
    --------
    >>> conformal_contamination([0.0, 0.02, 0.0, 0.1], alpha=0.2)
    0.1
    """
    scores = sorted(checks.real("etas", eta) for eta in etas)
    missed = checks.real("alpha", alpha)
    if not 0 < missed < 1:
        raise ValueError(f"alpha: must lie between 0 and 1, got {missed:g}; for example 0.1")
    if any(not 0 <= eta <= 1 for eta in scores):
        raise ValueError("etas: must be contaminations between 0 and 1")
    total = len(scores)
    rank = ceil((total + 1) * (1 - Fraction(str(missed))))
    if rank > total:
        required = ceil((1 - Fraction(str(missed))) / Fraction(str(missed)))
        raise NotApplicable(
            f"etas: {total} people can give confidence {total / (total + 1):.3g} at most, not "
            f"{1 - missed:.3g}; hold out {required} people or lower the confidence"
        )
    return scores[rank - 1]


def closest_in_box(counts: Floats, low: Floats, high: Floats) -> Floats:
    """The distribution within bounds that maximises the likelihood of counts of transitions.

    It is a multiple of the counts, clipped to the bounds, that sums to one.
    """

    def distribution(share: float) -> Floats:
        clipped: Floats = np.clip(counts * share, low, high)
        return clipped

    def margin(share: float) -> float:
        return 1 - float(distribution(share).sum())

    least, most = 1e-12 / max(float(counts.sum()), 1.0), 1e12
    if margin(most) >= 0:
        return distribution(most)
    return distribution(last_passing(margin, least, most, EPS))


def _deviances(moves: Floats, rows: Floats, eta: Floats, enough: float) -> Floats:
    """Deviance of each row of counts to the nearest contaminated mixture of its rows.

    It falls from round to round: rows that are below ``enough`` end when it hardly does.
    """
    count, kernels, size = rows.shape
    deviances, left = np.full(count, np.inf), np.arange(count)
    weights = np.full((count, 1, kernels), 1 / kernels)
    rest, spoiled = np.full((count, size), 1 / size), eta[:, None]
    for _ in range(_ROUNDS // _LOOK):
        counts, given, share, by, off = moves[left], rows[left], spoiled[left], weights, rest
        for _ in range(_LOOK):
            mixed = (1 - share) * (by @ given)[:, 0] + share * off
            ratio = counts / np.maximum(mixed, _LEAST)
            by = by * (given @ ratio[:, :, None])[:, None, :, 0]
            by /= np.maximum(by.sum(axis=2, keepdims=True), _LEAST)
            off = off * ratio
            off /= np.maximum(off.sum(axis=1, keepdims=True), _LEAST)
        mixed = (1 - share) * (by @ given)[:, 0] + share * off
        seen = counts > 0
        shares = np.where(seen, counts / counts.sum(axis=1, keepdims=True), 1.0)
        logs = np.log(shares / np.where(seen, np.maximum(mixed, _LEAST), 1.0))
        deviance = 2 * np.maximum((counts * logs).sum(axis=1), 0.0)
        further = (deviance >= enough) | (deviances[left] - deviance > _HARDLY)
        deviances[left] = deviance
        left, weights, rest = left[further], by[further], off[further]
        if not left.size:
            break
    return deviances


def _contaminations(moves: Floats, rows: Floats, largest: float, deviance: Floats) -> Floats:
    """The least contamination with deviance below ``largest``; bisection ends where this holds."""
    least, fails = np.zeros(len(moves)), np.flatnonzero(deviance >= largest)

    def enough(eta: Floats) -> NDArray[np.bool_]:
        return np.asarray(_deviances(moves[fails], rows[fails], eta, largest) < largest)

    least[fails] = last_passing_each(
        enough, np.ones(fails.size), np.zeros(fails.size), _PRECISION, least=1.0
    )
    return least


MOST_STATES = 128
"""With more states, the table of triples is not made."""


@dataclass(frozen=True)
class Check:
    """One test of a model on data."""

    name: str
    """The hypothesis."""
    passed: bool | None
    """Whether it passed; ``None`` where the data are not enough."""
    text: str
    """The result as text."""
    statistic: float | None = None
    freedom: int | None = None
    p_value: float | None = None
    """Statistic, degrees of freedom and p-value, where there are any."""


def order_check(series: Series, level: float) -> Check:
    """Whether one step of memory is enough: order 1 against order 2.

    For triples x, y, z the expected count under order 1 is n(x y) n(y z) / n(y), over the inner
    entries y. Freedom: (contexts x seen before y - 1) (states z seen after - 1), summed over y.
    """
    size, name = len(series.states), "one step of memory is enough"
    if size > MOST_STATES:
        return Check(name, None, f"with more than {MOST_STATES} states triples are too many")
    return _homogeneous(
        name,
        np.moveaxis(tuple_counts(series.segments, size, 3), 1, 0),
        level,
        "the state before the last one still matters: look at fit(data, 'order')",
    )


def stationarity_check(series: Series, level: float) -> Check:
    """Whether moves in the first and the second half of the segments follow one distribution."""
    size = len(series.states)
    table = np.zeros((size, 2, size))
    for codes in series.segments:
        middle = (len(codes) - 1) // 2
        for half, part in enumerate((codes[: middle + 1], codes[middle:])):
            table[:, half] += tuple_counts([part], size, 2)
    return _homogeneous(
        "the distribution of the moves does not change over time",
        table,
        level,
        "the two halves differ: ChainClass.hull holds chains that change over time",
    )


COVERAGE = "the class covers the data"


@singledispatch
def coverage_check(
    theta: ChainClass, counts: NDArray[Any], starts: NDArray[Any], level: float
) -> Check:
    """Whether some chain of the class is a plausible source of the counts."""
    best = Check(COVERAGE, False, "no chain of the class allows these moves")
    for label, low, high, distribution in theta.boxes():
        fits = _fits(counts, starts, low, high, distribution, label, level)
        if best.p_value is None or (fits.p_value or 0.0) > best.p_value:
            best = fits
    return best


def _fits(
    counts: NDArray[Any],
    starts: NDArray[Any],
    low: Floats,
    high: Floats,
    distribution: Floats | None,
    label: str,
    level: float,
) -> Check:
    if distribution is not None and (starts[distribution == 0] > 0).any():
        return Check(COVERAGE, False, f"{label}: a segment starts where it cannot", p_value=0.0)
    statistic, freedom = 0.0, 0
    for row, least, most in zip(counts.astype(float), low, high, strict=True):
        if row.sum() == 0:
            continue
        nearest = closest_in_box(row, least, most)
        if (nearest[row > 0] == 0).any():
            text = f"{label}: moves occur that it says are impossible"
            return Check(COVERAGE, False, text, p_value=0.0)
        seen = row > 0
        statistic += 2 * float(np.sum(row[seen] * np.log(row[seen] / row.sum() / nearest[seen])))
        freedom += int((most > 0).sum()) - 1
    p = _tail(statistic, freedom)
    verdict = "is plausible" if p >= level else "is not plausible"
    text = f"{label} {verdict}: deviance {max(statistic, 0):.4g} on {freedom}, p = {p:.3g}"
    return Check(COVERAGE, p >= level, text, max(statistic, 0.0), freedom, p)


@coverage_check.register
def _(theta: MixingClass, counts: NDArray[Any], starts: NDArray[Any], level: float) -> Check:
    leaves = counts.sum(axis=1, keepdims=True)
    if (leaves == 0).any():
        return Check(COVERAGE, None, "some states are never left, so their mixing cannot be judged")
    chain = MarkovChain(np.full(len(counts), 1 / len(counts)), counts / leaves)
    try:
        (bounds,) = ChainClass.any_start(chain.transition).mixing_bounds()
    except NotApplicable as reason:
        return Check(COVERAGE, False, f"the counted chain does not mix ({reason})")
    gap = chain.reversible_eigengap if theta.reversible and chain.is_reversible else chain.eigengap
    inside = bounds.pi_min >= theta.pi_min and gap >= theta.gap
    text = f"the counted chain has pi_min {bounds.pi_min:.4g} and gap {gap:.4g}"
    return Check(
        COVERAGE, bool(inside), f"{text}; the class asks {theta.pi_min:g} and {theta.gap:g}"
    )


def _homogeneous(name: str, tables: NDArray[Any], level: float, otherwise: str) -> Check:
    """Whether in each table all rows follow one distribution."""
    statistic, freedom = 0.0, 0
    for table in tables.astype(float):
        used = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0]
        if min(used.shape, default=0) < 2:
            continue
        expected = used.sum(axis=1, keepdims=True) * used.sum(axis=0) / used.sum()
        seen = used > 0
        statistic += 2 * float(np.sum(used[seen] * np.log(used[seen] / expected[seen])))
        freedom += (used.shape[0] - 1) * (used.shape[1] - 1)
    if freedom == 0:
        return Check(name, None, "too few moves to tell")
    p = _tail(statistic, freedom)
    numbers = f"deviance {max(statistic, 0):.4g} on {freedom}, p = {p:.3g}"
    text = f"not refuted: {numbers}" if p >= level else f"{otherwise}; {numbers}"
    return Check(name, p >= level, text, max(statistic, 0.0), freedom, p)


def _tail(statistic: float, freedom: int) -> float:
    from scipy.special import chdtrc  # noqa: PLC0415  (slow to load)

    if freedom == 0:
        return 1.0 if statistic < 1e-9 else 0.0
    return float(chdtrc(freedom, max(statistic, 0.0)))
