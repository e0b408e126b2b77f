"""The least Laplace noise for one sum under known beliefs, by exact distributions of the sum."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import singledispatch
from itertools import product
from typing import Any

import numpy as np

from pufferkit.beliefs.base import Beliefs, GraphClass, Member
from pufferkit.beliefs.bayesian_network import NetworkClass
from pufferkit.beliefs.chain_class import ChainClass
from pufferkit.beliefs.chain_tables import GivenStartTables, tables_of
from pufferkit.beliefs.event_class import EventClass
from pufferkit.beliefs.markov_random_field import FieldClass
from pufferkit.beliefs.secrets import Events, Runs
from pufferkit.checks import Bools, Ints
from pufferkit.data.query import Query, Question
from pufferkit.errors import NotApplicable, TakesLong
from pufferkit.influence.sums.chain_sums import CountedDays
from pufferkit.influence.sums.least_scale import (
    Additive,
    EntryDistributions,
    LeastScale,
    least_scale,
    least_scale_of_tables,
)
from pufferkit.mechanisms.calibration import GAPS, Calibration, checked
from pufferkit.mechanisms.influence_curve import influence_curve
from pufferkit.mechanisms.release import Evidence
from pufferkit.mechanisms.wasserstein import SumGiven, sums_given, values_of, window_tables
from pufferkit.noise import grid_exponent, is_discrete
from pufferkit.rounding import at_least, round_up

MOST_WORK = 5e11
"""Most nanoseconds, about, before the mechanism gives up: some minutes."""

_FOR_THE_GRID = 2.0**-24
"""Share of epsilon kept for rounding the answer to the grid of noise that is not discrete."""


def exact_sum(
    beliefs: Any,
    query: Query | Question,
    epsilon: float,
    over: Any = None,
    *,
    most_work: float = MOST_WORK,
) -> Calibration:
    """The least Laplace noise that hides every entry when one sum is released and nothing else.

    *Secrets*: any two values of any entry; or, for beliefs ``with_secrets``, any two labels of a
    window, such as whether a state took more than 30% of the week. *Beliefs*: one known chain,
    network or random field, or finitely many; for labels with a stationary start. *Releases*: this
    sum only. The scale is the least, to about one part in a thousand, at which

        sup over w of log p(w | X_i = x) / p(w | X_i = x')  <=  epsilon

    for every entry i and all its values x, x'. The distribution of the sum is followed through a
    window around the entry; what lies outside counts as if the ends of the window were published
    too, which can only add to the loss. Windows grow until that changes hardly anything, so the
    cost does not depend on the length of the series.

    For labels and nodes the distributions of the sum given each of two are compared. Where the sum
    counts what the label is about, one pass through the chain gives them, for windows of thousands
    of entries; else windows must be short.

    Where larger windows do not fit into memory and the influence curve needs less noise, the
    calibration is that of `influence_curve`.

    A second release about the same data is charged by the event-level epsilons of both, which can
    be far more than the sum of the two epsilons. If other releases follow, use `influence_curve`.

    Parameters
    ----------
    beliefs
        A `MarkovChain`, or `ChainClass.of` several; a `BayesianNetwork` or a `MarkovRandomField`.
    query
        One number that is a sum over entries: `count`, `total` or `mean`; for chains also one that
        is a sum over moves: `episodes`, and for one segment `days_with`.
    epsilon
        Pufferfish privacy for each entry.
    most_work
        About how many nanoseconds before giving up.

    Raises
    ------
    NotApplicable
        For vectors, for queries that are not sums, for entries that were not observed, for beliefs
        under which the distribution of the sum is unknown, and if it takes too much work.

    Examples
    --------
    >>> from pufferkit import MarkovChain, count, exact_sum, influence_curve
    >>> chain = MarkovChain.steady([[0.1, 0.9], [0.9, 0.1]])
    >>> round(exact_sum(chain, count(1, 10**6), 1).scale, 3)
    0.563
    """
    theta, query, epsilon = checked(beliefs, query, epsilon, over)
    if query.size > 1:
        raise NotApplicable(
            f"exact_sum is for numbers, and {query.name} has {query.size} coordinates; use "
            "influence_curve"
        )
    if query.missing:
        raise NotApplicable(GAPS)
    added, unit = _additive(query, theta.states)
    if isinstance(added, Additive) and added.largest == 0:
        raise NotApplicable("no entry moves the answer: there is nothing to hide")
    # Discrete noise has no grid; no scale is above that of group privacy.
    coarsest = query.lipschitz * query.longest / epsilon
    discrete = is_discrete(query.unit, coarsest, query.largest)
    kept = epsilon if discrete else epsilon * (1 - _FOR_THE_GRID)
    worst = _worst(theta, _SumAsked(query, added, kept, most_work))
    if worst is None:
        raise NotApplicable("no secret moves the answer: there is nothing to hide")
    least, name, length = worst
    calibration = Calibration(
        "exact_sum",
        epsilon,
        round_up(at_least(Fraction(least.scale) * unit)),
        query,
        theta,
        Evidence(name, least.entry, length, blocks=(least.left, least.right), bound="window"),
    )
    if not discrete or calibration.unit is None:
        _check_grid(calibration)
    if least.limited:
        curve = influence_curve(theta, query, epsilon)
        if curve.scale < calibration.scale:
            notes = (*curve.evidence.notes, "windows of the sum that fit into memory need more")
            return replace(curve, evidence=replace(curve.evidence, notes=notes))
    return calibration


DaysAsked = tuple[Bools, int, Ints]
"""For a number of days: which states count, how many entries a day needs, the sizes of the days."""


@dataclass(frozen=True)
class _SumAsked:
    """A query, what entries add to its answer in whole units, and the most loss and work."""

    query: Query
    added: Additive | DaysAsked
    epsilon: float
    most_work: float


HardestSum = tuple[LeastScale, str, int]
"""The largest of the least scales, the belief that needs it, and the length."""


def _additive(query: Query, states: Sequence[Hashable]) -> tuple[Additive | DaysAsked, Fraction]:
    """What entries and moves add to an answer in whole units, or its days, and the unit."""
    if query.weights is not None:
        values, unit = values_of(query, states)
        return Additive.of_values(np.array(values, dtype=np.int64)), unit
    asks = query.asks
    moves = None if asks is None else asks.additive(states)
    if moves is not None and query.unit is not None:
        return Additive(*moves), query.unit
    over = getattr(query.evaluate, "over", None)
    days = None if asks is None or over is None else asks.counted_days(over, states)
    if days is None or query.unit is None:
        raise NotApplicable(f"{query.name} is not a sum over entries or moves; use influence_curve")
    return days, query.unit


@singledispatch
def _worst(theta: Beliefs, asked: _SumAsked) -> HardestSum | None:
    """The largest scale over a class; ``None`` if no secret moves the answer."""
    raise NotApplicable(
        f"exact_sum needs Markov chains, networks or random fields, not a {theta.description}"
    )


@_worst.register
def _(theta: ChainClass, asked: _SumAsked) -> HardestSum | None:
    members = theta.known_members("exact_sum")
    if isinstance(asked.added, Additive):
        return _of_entries(members, asked, asked.added)
    length, given = asked.query.longest, []
    for member in members:
        entry_distributions(member, length)  # refuses what underflows
        days = CountedDays(member.chain.initial, member.chain.transition, *asked.added)
        given.append(SumGiven(member.name, length, Fraction(1), [days.of_values]))
    return _of_tables(given, asked)


@_worst.register
def _(theta: EventClass, asked: _SumAsked) -> HardestSum | None:
    theta.check_length(asked.query.longest)
    if asked.query.weights is None:
        raise NotApplicable(
            f"exact_sum covers {asked.query.name} for single entries only; use influence_curve"
        )
    members, given, single = theta.known_chains(), [], False
    values, unit = values_of(asked.query, theta.states)
    for hidden, member, length in product(theta.every_secret(), members, set(asked.query.lengths)):
        if isinstance(hidden, Runs) and hidden.window == 1:
            single = True
            continue
        if not isinstance(hidden, (Events, Runs)):
            raise NotApplicable(
                f"exact_sum does not cover {hidden.description}; use influence_curve"
            )
        # Another segment is independent of the label, so its part of the sum only blurs the answer.
        tables = window_tables(member.chain, values, hidden, length)
        if tables is not None:
            belief = f"{member.name}: {hidden.description}"
            given.append(SumGiven(belief, length, unit, [tables]))
    worst = _of_tables(given, asked, check=False)
    if single:
        added = Additive.of_values(np.array(values))
        entries = _of_entries(members, asked, added)
        worst = entries if worst is None or entries[0].scale > worst[0].scale else worst
    return worst


@_worst.register(NetworkClass)
@_worst.register(FieldClass)
def _(theta: GraphClass, asked: _SumAsked) -> HardestSum | None:
    if asked.query.weights is None:
        raise NotApplicable(f"{asked.query.name} is not a sum over entries; use influence_curve")
    given = list(sums_given(theta, asked.query, None))
    rounding = max(own.rounding for own in given)
    if asked.epsilon <= rounding:
        raise NotApplicable(
            f"epsilon {asked.epsilon:g} is below the rounding error of {theta.description}; use a "
            "larger one"
        )
    return _of_tables(given, replace(asked, epsilon=asked.epsilon - rounding))


def _of_tables(
    given: Sequence[SumGiven], asked: _SumAsked, *, check: bool = True
) -> HardestSum | None:
    """The largest of the least scales of given tables; ``None`` if no secret moves the answer."""
    worst: HardestSum | None = None
    for own in given:
        (tables,) = own.segments
        if check and tables.work > asked.most_work:
            raise TakesLong("the distributions of the sum take long")
        least = least_scale_of_tables(tables, asked.epsilon)
        if least is not None and (worst is None or least[0] > worst[0].scale):
            found = LeastScale(least[0], own.node(least[1]), None, None, own.length)
            worst = found, own.belief, own.length
    return worst


def _of_entries(members: Sequence[Member], asked: _SumAsked, added: Additive) -> HardestSum:
    """The least scale for the values of all entries of known chains."""
    worst: HardestSum | None = None
    for member in members:
        enough = None
        # The longest segment need not be the hardest: counts of a chain that alternates are not.
        for length in sorted(set(asked.query.lengths), reverse=True):
            if enough is not None and length >= enough:
                continue
            least = least_scale(
                member.chain.transition,
                entry_distributions(member, length),
                added,
                length,
                asked.epsilon,
                asked.most_work / len(members),
            )
            enough = least.enough
            if worst is None or least.scale > worst[0].scale:
                worst = least, member.name, length
    assert worst is not None
    return worst


def entry_distributions(member: Member, length: int) -> EntryDistributions:
    """The distributions of the entries of a chain."""
    if member.chain.has_underflow:
        raise NotApplicable("the probability of some states underflows; drop or merge them")
    source, initial = tables_of(member, length), member.chain.initial
    possible, table, repeats = source.support(1)[None, :], initial[None, :], (0, 1)
    if isinstance(source, GivenStartTables):
        possible, repeats = source.patterns[source.which], (source.burn_in, source.cycle)
        table = np.where(possible, np.exp(source.logs), 0.0)
    return EntryDistributions(initial, table, possible, *repeats, source.prior_error(1))


def _check_grid(calibration: Calibration) -> None:
    """Refuse if rounding to the grid of the noise could cost more than the share set aside.

    An answer rounded to a multiple of g moves by at most g / 2, so a ratio of likelihoods by at
    most e^{g / scale}. A larger scale does not pay for that here, as the loss may hardly fall with
    it; a part of epsilon does.
    """
    query = calibration.query
    grid = Fraction(2) ** grid_exponent(calibration.sensitivity, 1, query.largest)
    weights = [row[0] for row in (query.weights or {}).values()]
    if all((weight / grid).denominator == 1 for weight in weights):
        return
    if grid / Fraction(calibration.scale) > Fraction(calibration.epsilon * _FOR_THE_GRID / 2):
        raise NotApplicable(
            "the series is too long for the grid of this noise; use influence_curve"
        )
