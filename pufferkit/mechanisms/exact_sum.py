"""The least Laplace noise for one sum over a known chain, by the exact distribution of the sum."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import singledispatch
from itertools import product
from typing import Any

import numpy as np

from pufferkit.beliefs.base import Member
from pufferkit.beliefs.chain_class import ChainClass
from pufferkit.beliefs.chain_tables import GivenStartTables, tables_of
from pufferkit.beliefs.event_class import EventClass
from pufferkit.beliefs.secrets import Events, Runs, Secrets
from pufferkit.data.query import Query, Question
from pufferkit.errors import NotApplicable
from pufferkit.influence.sums.chain_sums import check_work
from pufferkit.influence.sums.label_scale import label_shares, least_label_scale
from pufferkit.influence.sums.least_scale import EntryDistributions, LeastScale, least_scale
from pufferkit.mechanisms.calibration import GAPS, Calibration, chains_only, checked
from pufferkit.mechanisms.chain_distances import summed_chain, values_of
from pufferkit.mechanisms.event_distances import labels_of_sum, window_labels
from pufferkit.mechanisms.evidence import Evidence
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
    window, such as whether a state took more than 30% of the week. *Beliefs*: one known chain, or
    finitely many; for labels with a stationary start. *Releases*: this sum only. The scale is the
    least, to about one part in a thousand, at which

        sup over w of log p(w | X_i = x) / p(w | X_i = x')  <=  epsilon

    for every entry i and all its values x, x'. The distribution of the sum is followed through a
    window around the entry; what lies outside counts as if the ends of the window were published
    too, which can only add to the loss. Windows grow until that changes hardly anything, so the
    cost does not depend on the length of the series.

    For labels the distributions of the sum given either are compared
    (`pufferkit.influence.sums.label_scale`). Where the sum counts what the label is about, one pass
    through the chain gives them, for windows of thousands of entries; else windows must be short.

    A second release about the same data is charged by the event-level epsilons of both, which can
    be far more than the sum of the two epsilons. If other releases follow, use `influence_curve`.

    Parameters
    ----------
    beliefs
        A `MarkovChain`, or `ChainClass.of` several.
    query
        One number that is a sum over entries: `count`, `total` or `mean`.
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
    if query.weights is None:
        raise NotApplicable(f"{query.name} is not a sum over entries; use influence_curve")
    if query.missing:
        raise NotApplicable(GAPS)
    chains = chains_only(theta, "exact_sum")
    named = chains.names_secrets
    members = _known(chains)
    values, unit = values_of(query, chains.states)
    if max(values) == 0:
        raise NotApplicable("no entry moves the answer: there is nothing to hide")
    # Discrete noise has no grid; no scale is above that of group privacy.
    coarsest = query.lipschitz * query.longest / epsilon
    discrete = is_discrete(query.unit, coarsest, query.largest)
    kept = epsilon if discrete else epsilon * (1 - _FOR_THE_GRID)
    worst: tuple[LeastScale, str, int] | None = None
    if named:
        chains.check_length(query.longest)
        worst = _of_labels(chains, members, query, kept)
        if not any(_of_entries(hidden) for hidden in chains.every_secret()):
            members = ()
        if worst is None and not members:
            raise NotApplicable("no secret moves the answer: there is nothing to hide")
    for member in members:
        enough = None
        # The longest segment need not be the hardest: counts of a chain that alternates are not.
        for length in sorted(set(query.lengths), reverse=True):
            if enough is not None and length >= enough:
                continue
            least = least_scale(
                member.chain.transition,
                entry_distributions(member, length),
                np.array(values, dtype=np.int64),
                length,
                kept,
                most_work / len(members),
            )
            enough = least.enough
            if worst is None or least.scale > worst[0].scale:
                worst = least, member.name, length
    assert worst is not None
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
    return calibration


def _of_entries(hidden: Secrets) -> bool:
    return isinstance(hidden, Runs) and hidden.window == 1


def _of_labels(
    theta: ChainClass, members: Sequence[Member], query: Query, epsilon: float
) -> tuple[LeastScale, str, int] | None:
    """The least scale for the labels of all windows; ``None`` if they need hardly any noise.

    Another segment is independent of the label, so its part of the sum only blurs the answer.
    """
    worst: tuple[LeastScale, str, int] | None = None
    values, _ = values_of(query, theta.states)
    for hidden, member, length in product(theta.every_secret(), members, set(query.lengths)):
        if _of_entries(hidden) or hidden.window > length:
            continue
        if not isinstance(hidden, (Events, Runs)):
            raise NotApplicable(
                f"exact_sum does not cover {hidden.description}; use influence_curve"
            )
        summed = summed_chain(member.chain, values, length)
        of_sum = labels_of_sum(hidden, theta.states, values, length)
        if of_sum is not None:
            windows, cases = [summed.split(of_sum)], len(values)
        else:
            labels = window_labels(hidden, theta.states, length)
            check_work(summed.work(labels))
            windows = list(summed.joint(labels))
            cases = max(map(len, labels.cases(summed.transition)))
        shares = [label_shares(rows) for rows in windows]
        least = least_label_scale(shares, epsilon, summed.error(cases))
        if least is not None and (worst is None or least[0] > worst[0].scale):
            found = LeastScale(least[0], least[1], None, None, length)
            worst = found, f"{member.name}: {hidden.description}", length
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


@singledispatch
def _known(theta: ChainClass) -> tuple[Member, ...]:
    """The chains of the beliefs, with known starts."""
    try:
        members = theta.members()
    except NotApplicable:
        raise NotApplicable(
            "exact_sum needs the distribution of the sum, and this class does not name its chains; "
            "use influence_curve"
        ) from None
    if any(member.any_start for member in members):
        raise NotApplicable(
            "exact_sum needs the distribution of the sum, and this class allows any start; name "
            "the starts with ChainClass.of, or use influence_curve"
        )
    return members


@_known.register
def _(theta: EventClass) -> tuple[Member, ...]:
    return theta.known_chains()


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
