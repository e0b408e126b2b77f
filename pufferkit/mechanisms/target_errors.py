"""From a target error back to the epsilon, the data or the query that it takes."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from pufferkit import checks
from pufferkit.beliefs.base import Beliefs, as_beliefs
from pufferkit.beliefs.chain_class import ChainClass
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.checks import Floats
from pufferkit.data.query import Query
from pufferkit.data.series import Series
from pufferkit.errors import NotApplicable
from pufferkit.mechanisms.baselines import group_dp
from pufferkit.mechanisms.calibration import Calibration, check_states
from pufferkit.mechanisms.influence_curve import influence_curve, loss_at
from pufferkit.mechanisms.markov_quilt import markov_quilt
from pufferkit.mechanisms.usefulness import (
    DROWNED,
    LARGE_EPSILON,
    Usefulness,
    drawn,
    first_model,
    typical_answer,
)
from pufferkit.rounding import last_passing
from pufferkit.shown import Shown

# --- changed queries that may meet a target error: over more entries, or coarser ----------------

_THINNED = (2, 5, 10, 60)  # one reading in so many is suggested
_FEW_LEVELS = (4, 2)  # so many levels in place of more


def over(query: Query, lengths: Sequence[int], observed: Sequence[int] | None = None) -> Query:
    """The same query over segments of other lengths, of which so many entries are observed.

    Shares and means are of the observed entries; noise is that of the unbroken span.
    """
    if query.asks is None or query.weights is None:
        raise NotApplicable(f"{query.name}: its dependence on the length is unknown")
    made = query.asks.bind(query.states, lengths if observed is None else [sum(observed)])
    if observed is not None:
        checks.assign(made, lengths=tuple(lengths), observed=tuple(observed))
    return made


def coarser(theta: Beliefs, query: Query) -> Iterator[tuple[str, Any, Query, int]]:
    """Coarser queries: rare states merged, fewer levels, one reading in so many."""
    states = theta.states
    chains = _chains(theta)
    if query.binned and query.weights is not None:
        if len(states) > 2 and chains:
            rare = np.argsort(chains[0].stationary)[:2]
            groups = [[s] for n, s in enumerate(states) if n not in rare]
            pair = [states[n] for n in sorted(rare)]
            both = f"merge {pair[0]!r} and {pair[1]!r}, the rarest"
            yield both, theta, merged(query, [*groups, pair]), 1
        for few in _FEW_LEVELS:
            if len(states) > few:
                parts = [list(part) for part in np.array_split(np.array(states, object), few)]
                text = f"{few} levels for {len(states)}, neighbours together"
                yield text, theta, merged(query, parts), 1
    for step in _THINNED if query.per_entry else ():
        fewer = [max(1, length // step) for length in query.lengths]
        seen = [max(1, count // step) for count in query.observed or query.lengths]
        if not chains or max(fewer) < 2:
            return
        thinned = [_every(chain, step) for chain in chains]
        text = f"one reading in {step} (the guarantee is then about these readings)"
        again = over(query, fewer, seen if query.missing else None)
        yield text, ChainClass.of(*thinned), again, step


def _chains(theta: Beliefs) -> list[MarkovChain]:
    """The chains of a finite class that start in their stationary distribution."""
    chains = []
    for member in theta.named_members:
        try:
            steady = not member.any_start and np.allclose(
                member.chain.initial, member.chain.stationary, atol=1e-9
            )
        except ValueError:
            steady = False
        if not steady:
            return []
        chains.append(member.chain)
    return chains


def _every(chain: MarkovChain, step: int) -> MarkovChain:
    power = np.linalg.matrix_power(np.asarray(chain.transition), step)
    power = power / power.sum(axis=1, keepdims=True)
    return MarkovChain.steady(power, states=chain.states)


def merged(query: Query, groups: Sequence[Sequence[Hashable]]) -> Query:
    """A histogram whose bins are these groups of states."""
    weights = query.weights or {}
    unit = max(weight for row in weights.values() for weight in row)
    zero = Fraction(0)
    rows = {
        state: tuple(unit if j == own else zero for j in range(len(groups)))
        for own, group in enumerate(groups)
        for state in group
    }
    return Query(
        query.name,
        query.evaluate,
        query.lipschitz,
        query.lengths,
        labels=[" or ".join(str(state) for state in group) for group in groups],
        states=query.states,
        total=query.total,
        weights=rows,
        observed=query.observed,
    )


MOST_EPSILON = 100.0
"""Largest epsilon that is tried; a larger one is no meaningful guarantee."""

_ROUNDING = 1e-9  # of an expected answer
_DIGITS = 3  # of an epsilon that is shown
_LEAST_EPSILON = 1e-6  # an account counts in millionths
_CLOSE = 2e-3  # relative; below the last digit shown
_STEP = 0.02  # beyond where the noise would be proportional to 1 / epsilon, so that it is passed
_MOST_ENTRIES = 10**7  # a longer series is no remedy
_SIMULATED, _MOST_SIMULATED = 50, 1 << 16  # data sets, and entries of each
_TRIES = 12  # lengths; each is nearly right, as noise hardly grows with the length


@dataclass(frozen=True)
class Target:
    """A target error: the half-width of the confidence interval of one coordinate.

    ``relative``: as a share of a typical answer, as the beliefs expect it, not in its units.

    Examples
    --------
    >>> from pufferkit import relative_frequencies
    >>> Target.of_text("5%").half_width(relative_frequencies(["a", "b"], 100))
    0.025
    >>> print(Target.of_text("0.05"))
    95% within 0.05
    >>> import pufferkit as pk
    >>> week = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    >>> Target.of_text("20").is_met(pk.influence_curve(week, pk.count(1, 1000), epsilon=1))
    True
    """

    error: float
    level: float = 0.95
    relative: bool = False

    def __post_init__(self) -> None:
        checks.positive("target", self.error)
        if not 0 < checks.real("level", self.level) < 1:
            raise ValueError(f"level: must lie between 0 and 1, got {self.level:g}")

    @classmethod
    def of_text(cls, text: str) -> Target:
        """``0.05`` in the units of the answer, ``5%`` of a typical one.

        >>> Target.of_text("5%")
        Target(error=0.05, level=0.95, relative=True)
        """
        plain = text.strip()
        relative = plain.endswith("%")
        try:
            number = float(plain.removesuffix("%"))
        except ValueError:
            raise ValueError(f"target: {text!r} is not a number like 0.05 or 5%") from None
        return cls(number / 100 if relative else number, relative=relative)

    def half_width(self, query: Query, beliefs: Beliefs | None = None) -> float:
        """The target in the units of the answer."""
        if not self.relative:
            return self.error
        typical = typical_answer(query, beliefs)
        if not typical:
            raise ValueError(
                "target: a percentage needs an answer that the beliefs expect to be above its "
                "least value; give a number"
            )
        return self.error * typical

    def is_met(self, calibration: Calibration, beliefs: Beliefs | None = None) -> bool:
        """Whether this noise is small enough; if relative, for levels with half of the answer."""
        if not self.relative:
            return calibration.half_width(self.level) <= self.error
        relative = Usefulness.of(calibration, self.level, beliefs).relative
        if relative is None:
            self.half_width(calibration.query, calibration.beliefs or beliefs)
        return relative is not None and relative <= self.error * (1 + _ROUNDING)

    def __str__(self) -> str:
        size = f"{100 * self.error:g}% of a typical answer" if self.relative else f"{self.error:g}"
        return f"{100 * self.level:g}% within {size}"


@dataclass(frozen=True, repr=False)
class Remedy(Shown):
    """A change that meets the target: in words, and the calibration that shows it."""

    text: str
    calibration: Calibration

    def __str__(self) -> str:
        return f"{self.text}: {100 * 0.95:g}% within {self.calibration.half_width():.3g}"


def least_noise(beliefs: Any, query: Query, epsilon: float) -> Calibration:
    """The least noise of the quick mechanisms that allow further releases."""
    for mechanism in (influence_curve, markov_quilt):
        try:
            return mechanism(beliefs, query, epsilon)
        except NotApplicable:
            continue
    return group_dp(query, epsilon, beliefs)


def epsilon_for(
    beliefs: Any, query: Query, error: float, level: float = 0.95, *, relative: bool = False
) -> float:
    """The least epsilon, to three digits, that meets a target error.

    Parameters
    ----------
    beliefs, query
        As for `plan`.
    error
        Half the width of the confidence interval of one coordinate; with ``relative``, as a share
        of a typical answer, as the beliefs expect it.
    level
        Confidence level of the interval.

    Raises
    ------
    NotApplicable
        If no epsilon up to 100 is enough.

    Examples
    --------
    >>> from pufferkit import MarkovChain, epsilon_for, relative_frequencies
    >>> chain = MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    >>> 0.4 < epsilon_for(chain, relative_frequencies([0, 1], 1000), 0.04) < 0.6
    True
    """
    theta = as_beliefs(beliefs)
    check_states(theta, query)
    target = Target(checks.positive("error", error), level, relative)
    return _least_that_meets(theta, query, target).epsilon


def _least_that_meets(theta: Beliefs, query: Query, target: Target) -> Calibration:
    """The noise at the least epsilon, to three digits, that meets a target error.

    The influence curve goes both ways: the loss at the wanted scale is the epsilon, without a
    search. Where quilts or gaps decide, that is where the search begins.
    """
    scale = _largest_scale(theta, query, target)
    noise = cache(lambda epsilon: least_noise(theta, query, epsilon))

    @cache
    def slack(logarithm: float) -> float:
        """Log of the allowed over the actual noise, about linear in log epsilon."""
        return math.log(scale / noise(math.exp(logarithm)).scale)

    most, least = math.log(MOST_EPSILON), math.log(_LEAST_EPSILON)
    try:
        first = _rounded_up(loss_at(theta, query, query.lipschitz / scale))
    except NotApplicable:
        first = 1.0
    first = min(max(first, _LEAST_EPSILON), MOST_EPSILON)
    by_curve = noise(first).mechanism == "influence_curve" and not query.missing
    if by_curve and noise(first).scale <= scale and noise(first).evidence.bound != "quilts":
        return noise(first)
    # Noise is about inversely proportional to epsilon, so the slack gives the step.
    good = bad = math.log(first)
    while slack(bad) >= 0:
        if bad == least:
            return noise(_LEAST_EPSILON)
        good, bad = bad, max(bad - 1.2 * slack(bad) - _STEP, least)
    while slack(good) < 0:
        if good == most:
            raise NotApplicable(
                f"error: no epsilon up to {MOST_EPSILON:g} gets {target}; allow more error, or "
                "use more "
                "data"
            )
        good, bad = min(good - 1.2 * slack(good) + _STEP, most), good
    # Relative to the least, so that the precision of the search is that of epsilon.
    ends = good - least, bad - least
    enough = least + last_passing(lambda way: slack(least + way), *ends, _CLOSE / 10)
    rounded = noise(_rounded_up(math.exp(enough)))
    return rounded if rounded.scale <= scale else noise(math.exp(enough))


def _largest_scale(theta: Beliefs, query: Query, target: Target) -> float:
    """The largest scale whose interval is within the target.

    Discrete noise has intervals with whole ends, so they grow with the scale in steps.
    """
    allowed, any_scale = target.half_width(query, theta), group_dp(query, 1.0)

    def within(scale: float) -> float:
        width = replace(any_scale, scale=scale).half_width(target.level)
        return 1.0 if width <= allowed else -1.0

    good = allowed / -math.log1p(-target.level)
    while within(good) < 0:
        good /= 2
    bad = 2 * good
    while within(bad) > 0:
        good, bad = bad, 2 * bad
    return last_passing(within, good, bad, _CLOSE / 1000)


def _rounded_up(epsilon: float) -> float:
    digits = Decimal(repr(epsilon))
    step = Decimal((0, (1,), digits.adjusted() - _DIGITS + 1))
    return float(digits.quantize(step, ROUND_CEILING))


def with_fewest_entries(
    theta: Beliefs,
    query: Query,
    epsilon: float,
    target: Target,
    present: Calibration | None = None,
) -> Calibration | None:
    """The noise over the shortest series, among the lengths tried, that meets the target.

    ``None`` if more data do not help: absolute errors of counts do not shrink. One segment, in
    which the same share of entries is observed.
    ``present`` is the noise over the present series, if it is known.
    """
    shrinks = query.per_entry or target.relative
    if theta.entries is not None or not shrinks:
        return None
    size = sum(query.lengths)
    noise = present if len(query.lengths) == 1 and not query.missing else None
    for _ in range(_TRIES):
        question = over(query, [size], _as_observed(query, size))
        noise = noise or least_noise(theta, question, epsilon)
        times = noise.half_width(target.level) / target.half_width(question, theta)
        if times <= 1:
            return noise
        # The noise of a sum hardly grows with the length, that of a share falls with it.
        size, noise = math.ceil(size * max(times, 1.0 + 1e-3)), None
        if size > _MOST_ENTRIES:
            return None
    return None


def _as_observed(query: Query, size: int) -> list[int] | None:
    """How many of so many entries are observed, if as many are missing as now."""
    if not query.missing or query.observed is None:
        return None
    return [max(1, size * sum(query.observed) // sum(query.lengths))]


def remedies(
    beliefs: Any,
    query: Query,
    epsilon: float,
    target: Target,
    *,
    present: Calibration | None = None,
) -> list[Remedy]:
    """Changes that meet a target: more epsilon, more data, or a coarser query.

    Each changes one thing, and its calibration shows that it is enough. ``present`` is the noise
    of `influence_curve` for this query, if it is known.

    Examples
    --------
    >>> import pufferkit as pk
    >>> week = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]], states=["rest", "active"])
    >>> query = pk.relative_frequencies(week.states, 1000)
    >>> ways = remedies(week, query, 0.2, pk.Target.of_text("0.05"))
    >>> print(ways[0].text)
    epsilon 0.373 in place of 0.2
    """
    theta = as_beliefs(beliefs)
    return list(_remedies(theta, query, epsilon, target, present))


def worth_having() -> Target:
    """The target at which the noise does not drown the answer."""
    return Target(DROWNED, relative=True)


def _remedies(
    theta: Beliefs, query: Query, epsilon: float, target: Target, present: Calibration | None
) -> Iterator[Remedy]:
    with suppress(NotApplicable):
        enough = _least_that_meets(theta, query, target)
        if enough.epsilon <= LARGE_EPSILON:  # more is no remedy: it promises hardly anything
            yield Remedy(f"epsilon {enough.epsilon:g} in place of {epsilon:g}", enough)
    if query.asks is None or query.weights is None or theta.entries is not None:
        return
    longer = with_fewest_entries(theta, query, epsilon, target, present)
    before, size = sum(query.lengths), 0 if longer is None else sum(longer.query.lengths)
    if longer is not None and size > before:
        times = f"{size / before:.3g} times as long"
        seen = f" ({sum(longer.query.observed or ()):,} of them observed)" if query.missing else ""
        yield Remedy(f"{size:,} entries{seen} in place of {before:,}, {times}", longer)
    least = present or least_noise(theta, query, epsilon)
    for text, beliefs, question, step in coarser(theta, query):
        with suppress(NotApplicable):
            # One loss tells of most that they are not enough.
            own = as_beliefs(beliefs)
            scale = _largest_scale(own, question, target)
            if loss_at(own, question, question.lipschitz / scale) > epsilon:
                continue
            noise = least_noise(beliefs, question, epsilon)
            if target.is_met(noise, own) and helps(theta, query, target, least, noise, step):
                yield Remedy(text, noise)


def helps(
    theta: Beliefs, query: Query, target: Target, present: Calibration, way: Calibration, step: int
) -> bool:
    """Whether a coarser question meets the target on simulated data, better than the present one.

    Data are drawn from the beliefs at their own step, and errors are from the answer over all
    entries, so that readings left out count. If what the present question says about the same
    numbers is as near, only the yardstick has moved, and that is no remedy.

    Parameters
    ----------
    theta, query, target
        The beliefs, the question as it was asked, and the target.
    present, way
        The noise of that question, and of the coarser one.
    step
        The coarser question reads one entry in so many.
    """
    model, states = first_model(theta), theta.states
    size = min(sum(query.lengths), _MOST_SIMULATED)
    if model is None or query.asks is None or way.query.weights is None:
        return True
    rng = np.random.default_rng(0)
    times = 1.0 if query.per_entry else sum(query.lengths) / size
    whole = query.asks.bind(states, size)
    added = way.query.added(query.states or states)
    merge = np.array([[float(number > 0) for number in row] for row in added])
    met = nearer = 0
    for seed in range(_SIMULATED):
        data = drawn(model, states, (size,), seed)
        truth = _answer(whole, data)
        off = rng.laplace(scale=way.scale, size=way.query.size)
        before = rng.laplace(scale=present.scale, size=query.size)
        if step > 1:
            part = data.codes[::step]
            off += _answer(over(query, [len(part)]), Series(part, states, (len(part),))) - truth
        else:
            truth, before = truth @ merge, before @ merge
        allowed = target.error * (times * truth if target.relative else np.ones(len(off)))
        good = truth[np.abs(off) <= allowed].sum() if target.relative else np.abs(off).max()
        met += bool(good >= truth.sum() / 2 if target.relative else good <= target.error)
        nearer += bool(np.abs(off).mean() < np.abs(before).mean())
    return met >= 0.9 * _SIMULATED and nearer > 0.5 * _SIMULATED


def _answer(query: Query, data: Series) -> Floats:
    return np.array([float(value) for value in query.exact(data)])


def error_rows(
    beliefs: Any, query: Query, epsilons: Sequence[float], mechanisms: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    """Rows for a figure: the half-width at 95% of each mechanism at each epsilon."""
    from pufferkit.mechanisms.plan import QUICK, calibrate  # noqa: PLC0415

    rows = []
    for name in mechanisms or QUICK:
        for epsilon in epsilons:
            try:
                calibration = calibrate(name, beliefs, query, epsilon)
            except NotApplicable:
                break
            useful = Usefulness.of(calibration)
            rows.append(
                {
                    "mechanism": name,
                    "epsilon": float(epsilon),
                    "half_width": useful.half_width,
                    "relative": useful.relative,
                }
            )
    return rows
