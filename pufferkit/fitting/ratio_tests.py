"""Whether a chain describes data: likelihood-ratio tests on transition counts.

Every test compares 2 sum n log (n / expected) with a chi-squared distribution. Degrees of freedom
count only contexts and moves that were seen, and p-values are those of large samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pufferkit.beliefs.chain_class import ChainClass
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.beliefs.mixing_class import MixingClass
from pufferkit.checks import Floats
from pufferkit.data.series import Series
from pufferkit.errors import NotApplicable
from pufferkit.fitting.row_coverage import closest_in_box

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
    table = np.zeros(size**3, dtype=np.int64)
    for codes in series.stretches:
        if len(codes) > 2:
            triples = (codes[:-2] * size + codes[1:-1]) * size + codes[2:]
            table += np.bincount(triples, minlength=size**3)
    return _homogeneous(
        name,
        np.moveaxis(table.reshape(size, size, size), 1, 0),
        level,
        "the state before the last one still matters: look at fit(data, 'order')",
    )


def stationarity_check(series: Series, level: float) -> Check:
    """Whether moves in the first and the second half of the segments follow one distribution."""
    size = len(series.states)
    table = np.zeros((size, 2, size), dtype=np.int64)
    for codes in series.segments:
        moves = codes[:-1] * size + codes[1:]
        seen = (codes[:-1] >= 0) & (codes[1:] >= 0)
        middle = len(moves) // 2
        for half, part in enumerate((slice(middle), slice(middle, None))):
            counted = np.bincount(moves[part][seen[part]], minlength=size * size)
            counts = counted.reshape(size, size)
            table[:, half, :] += counts
    return _homogeneous(
        "the distribution of the moves does not change over time",
        table,
        level,
        "the two halves differ: ChainClass.hull holds chains that change over time",
    )


def coverage_check(
    counts: NDArray[Any], starts: NDArray[Any], theta: ChainClass, level: float
) -> Check:
    """Whether some chain of the class is a plausible source of the counts."""
    name = "the class covers the data"
    return _coverage(theta, name, counts, starts, level)


@singledispatch
def _coverage(
    theta: ChainClass, name: str, counts: NDArray[Any], starts: NDArray[Any], level: float
) -> Check:
    best = Check(name, False, "no chain of the class allows these moves")
    for label, low, high, distribution in theta.boxes():
        fits = _fits(name, counts, starts, low, high, distribution, label, level)
        if best.p_value is None or (fits.p_value or 0.0) > best.p_value:
            best = fits
    return best


def _fits(
    name: str,
    counts: NDArray[Any],
    starts: NDArray[Any],
    low: Floats,
    high: Floats,
    distribution: Floats | None,
    label: str,
    level: float,
) -> Check:
    if distribution is not None and (starts[distribution == 0] > 0).any():
        return Check(name, False, f"{label}: a segment starts where it cannot", p_value=0.0)
    statistic, freedom = 0.0, 0
    for row, least, most in zip(counts.astype(float), low, high, strict=True):
        if row.sum() == 0:
            continue
        nearest = closest_in_box(row, least, most)
        if (nearest[row > 0] == 0).any():
            text = f"{label}: moves occur that it says are impossible"
            return Check(name, False, text, p_value=0.0)
        seen = row > 0
        statistic += 2 * float(np.sum(row[seen] * np.log(row[seen] / row.sum() / nearest[seen])))
        freedom += int((most > 0).sum()) - 1
    p = _tail(statistic, freedom)
    verdict = "is plausible" if p >= level else "is not plausible"
    text = f"{label} {verdict}: deviance {max(statistic, 0):.4g} on {freedom}, p = {p:.3g}"
    return Check(name, p >= level, text, max(statistic, 0.0), freedom, p)


@_coverage.register
def _(
    theta: MixingClass, name: str, counts: NDArray[Any], starts: NDArray[Any], level: float
) -> Check:
    leaves = counts.sum(axis=1, keepdims=True)
    if (leaves == 0).any():
        return Check(name, None, "some states are never left, so their mixing cannot be judged")
    chain = MarkovChain(np.full(len(counts), 1 / len(counts)), counts / leaves)
    try:
        (bounds,) = ChainClass.any_start(chain.transition).mixing_bounds()
    except NotApplicable as reason:
        return Check(name, False, f"the counted chain does not mix ({reason})")
    gap = chain.reversible_eigengap if theta.reversible and chain.is_reversible else chain.eigengap
    inside = bounds.pi_min >= theta.pi_min and gap >= theta.gap
    text = f"the counted chain has pi_min {bounds.pi_min:.4g} and gap {gap:.4g}"
    return Check(name, bool(inside), f"{text}; the class asks {theta.pi_min:g} and {theta.gap:g}")


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
