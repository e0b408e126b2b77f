"""Least noise known to hide every entry of a chain, by the influence curve."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache, lru_cache, singledispatch
from itertools import combinations
from typing import Any

import numpy as np

from pufferkit import checks
from pufferkit.beliefs.base import Beliefs, GraphClass, as_beliefs
from pufferkit.beliefs.chain_class import ChainClass
from pufferkit.beliefs.secrets import Secrets
from pufferkit.checks import Floats
from pufferkit.data.query import Query, Question
from pufferkit.data.series import SegmentPattern
from pufferkit.errors import NotApplicable, NoTheorem
from pufferkit.influence.curve.engine import EntryLoss, PartCurve, everything
from pufferkit.influence.curve.graphs import GraphCurve, graph_work, record_loss
from pufferkit.influence.profile import InfluenceCurve, Run, as_metric, metric_of_sum
from pufferkit.influence.progress import Progress
from pufferkit.influence.shape.design import best_scales
from pufferkit.mechanisms.calibration import Calibration, chains_only, checked
from pufferkit.mechanisms.release import Evidence
from pufferkit.records import ByDigest
from pufferkit.rounding import largest_within, round_up
from pufferkit.threads import one_thread

# --- series with gaps: noise that counts only the entries that were observed --------------------
#
# An entry that was not observed has event-level epsilon 0, and the chain runs on through it. Noise
# for the unbroken span hides such a series as well (see `pufferkit.data.queries`); here the same
# theorems are applied to the pattern of observed entries, which never gives more noise. Every entry
# of the span stays a secret. If the pattern is long or gains hardly anything, the noise of the span
# is used, which the evidence states (`Evidence.counted`).

MOST_ENTRIES, MOST_RUNS = 5_000, 200
"""Longest segment, and most runs in one, whose pattern is used."""

MOST_PATTERNS = 20
"""Most distinct segments whose patterns are used."""

WORTH = 1e-3
"""The least relative gain for which a pattern is recorded."""

_CLOSE = 1e-4
"""Relative precision of the search."""

_LONG = 200
"""A stretch of so many entries without a gap is judged by itself first, since a pattern takes many
times as long; where it alone loses too much, its gaps gain nothing, and the span's noise stays."""


def patterns_of(query: Query) -> list[SegmentPattern]:
    """The distinct patterns of the segments, most entries first; empty if they are not used."""
    if query.pattern is None:
        return []
    different = sorted(set(query.pattern), key=lambda runs: -sum(runs[::2]))
    few = len(different) <= MOST_PATTERNS
    short = all(sum(runs) <= MOST_ENTRIES and len(runs) <= MOST_RUNS for runs in different)
    return different if few and short else []


def recorded(query: Query) -> dict[str, Any]:
    """Verification data about the gaps."""
    return {"pattern": [list(runs) for runs in query.pattern or ()]}


def curve_of_observed(
    theta: ChainClass, query: Query, epsilon: float, metric: Floats | None, least: float
) -> tuple[float, Evidence, dict[str, Any]] | None:
    """The largest event-level epsilon of the observed entries, its evidence, verification data.

    ``None`` to keep ``least``, that of the unbroken span.
    """
    patterns = patterns_of(query)
    if not patterns:
        return None
    curves = {n: InfluenceCurve(theta, n, metric) for n in {sum(runs) for runs in patterns}}

    @cache
    def binding(b: float) -> tuple[float, tuple[str, EntryLoss, int]]:
        """The largest loss, whose it is, and in a segment of which length."""
        rows = [(*curves[sum(runs)].binding(profile(runs, b)), sum(runs)) for runs in patterns]
        worst = max(rows, key=lambda row: row[1].value)
        return worst[1].value, worst

    most = min(curve.largest_cost(epsilon) for curve in curves.values())
    start = min(most, least * (1 + WORTH))
    stretch = max(max(runs[::2]) for runs in patterns)
    if stretch >= _LONG and InfluenceCurve(theta, stretch, metric).epsilon(start) > epsilon:
        return None
    if binding(start)[0] > epsilon:
        return None
    best = largest_within(binding, epsilon, start, most, _CLOSE)
    if best is None or best[0] <= least:
        return None
    b, (name, loss, length) = best
    ordered = sorted(patterns)
    proofs = [curves[sum(runs)].proof(profile(runs, b), epsilon) for runs in ordered]
    notes = curves[length].notes
    evidence = Evidence(name, loss.node, length, notes=notes, bound="curve", counted="observed")
    return b, evidence, recorded(query) | ({"curve": proofs} if any(proofs) else {})


def profile(runs: Sequence[int], b: float) -> list[Run]:
    """The event-level epsilon of a segment given as runs."""
    return [Run(count, 0.0 if n % 2 else b) for n, count in enumerate(runs) if count]


Metric = Floats | None
"""Distances between states; ``None``: 1 between any two."""

Solved = tuple[float, Evidence, dict[str, Any] | None]
"""An event-level epsilon, the binding evidence, and verification data."""


def influence_curve(
    beliefs: Any,
    query: Query | Question,
    epsilon: float,
    over: Any = None,
    *,
    secrets: Secrets | Sequence[Secrets] | None = None,
    per_bin: bool = False,
    progress: Progress | None = None,
) -> Calibration:
    """Least Laplace noise known to hide every entry of a chain.

    The scale is L / b, with b the largest event-level epsilon whose loss on the influence curve is
    at most epsilon. Secrets are any two values of an entry (or ``secrets``), releases any Lipschitz
    query with Laplace noise.

    Parameters
    ----------
    beliefs
        A `MarkovChain`, any `ChainClass`, a `BayesianNetwork` or a `MarkovRandomField`, or several
        of one kind. Known distributions use exact kernels. Any start uses exact kernels to the
        right and a formula for all distributions to the left. Mixing classes use bounds.
    query
        Any Lipschitz query, vectors included. Made with a `Series` that has gaps, it
        has event-level epsilon 0 at the entries that were not observed.
    epsilon
        Pufferfish privacy for each entry.
    secrets
        Other secrets than single entries; short for beliefs made by `ChainClass.with_secrets`.
    per_bin
        A scale for each coordinate of a sum of vectors, so that their total is about the least:
        rare levels of a histogram get less noise, common ones more.
    progress
        Called with the number of scales tried, and about how many there will be.

    Examples
    --------
    >>> from pufferkit import MarkovChain, count, influence_curve
    >>> chain = MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    >>> round(influence_curve(chain, count(1, 10**6), 1).scale, 3)
    3.336
    """
    theta, query, epsilon = checked(beliefs, query, epsilon, over, secrets)
    if per_bin:
        _check_bins(theta, query)
    one_scale = _calibrated(theta, query, epsilon, None, progress)
    return scale_per_bin(one_scale) if per_bin else one_scale


HORIZON = 10**12
"""Number of entries, observed or not, that stand for a series without an end: one a second for
31,000 years."""

_SCREEN, _FORGETS = 10**6, 10
"""Beliefs whose loss still grows over this many entries, to more than this many times that of one
entry, are treated as not mixing."""

_SHORT, _NOTHING = 10**3, 1e-7
"""Beliefs under which so many entries lose as if they were one, up to rounding, do not mix either;
which is found out sooner."""

_LEAST = 10**12
"""Event-level epsilons of accounts are whole multiples of one over this."""


def endless(theta: Beliefs, query: Query, epsilon: float, horizon: int = HORIZON) -> Calibration:
    """The noise at which every entry of a series that goes on could be asked like these, for ever.

    Theorem: PAIRS Theorem 7. *Secrets*: any two values of any entry, used or not, or those that
    the beliefs name. *Beliefs*: any class of chains. *Releases*: any number, each about a window
    and each chosen after looking at earlier outputs, such that for every sequence of outputs the
    releases that use entry t together change the log-likelihood by at most b d(x, x') when its
    value x is replaced by x'. If the loss on the influence curve under the constant profile b d is
    at most epsilon over N entries, then everything released about N entries is
    epsilon-Pufferfish private for each of them.

    *Proof.* The density of all outputs is the product of the densities of each given the earlier
    ones. Fix the outputs. Each factor is then a likelihood of the data, entry t changes the
    logarithm of the product by at most b d, and entries that were not used do not change it. So
    the theorem of the influence curve applies to the product with a profile of at most b d at each
    entry, and the loss does not fall when the profile rises. QED

    For beliefs that mix the loss has a bound that is the same for all N, because a power of the
    kernel with positive entries contracts. It is computed for ``horizon`` entries.

    Raises
    ------
    NoTheorem
        If the beliefs do not mix and the horizon is that of a series without an end.
    """
    metric = metric_of(theta, query)
    b, evidence, verification_data = for_ever(theta, epsilon, metric, horizon)
    units = int(Fraction(b) * _LEAST)
    if units < 1:
        raise NoTheorem("the event-level epsilon is below 10^-12, the least an account holds")
    return Calibration(
        "influence_curve",
        epsilon,
        round_up(query.lipschitz * _LEAST / units, 8),
        query,
        theta,
        replace(evidence, horizon=horizon),
        verification_data=verification_data,
        options={"horizon": horizon},
    )


def goes_on(theta: Beliefs) -> bool:
    """Whether a bound holds for series of every length, however long: the beliefs mix."""
    try:
        for_ever(theta, 1.0)
    except (NotApplicable, NoTheorem):
        return False
    return True


def for_ever(
    theta: Beliefs, epsilon: float, metric: Metric = None, horizon: int = HORIZON
) -> Solved:
    """The event-level epsilon at which a series of this length still hides each entry."""
    distances = None if metric is None else metric.tobytes()
    return _for_ever(ByDigest(theta), epsilon, distances, horizon)


@lru_cache(maxsize=64)
@one_thread()
def _for_ever(
    known: ByDigest[Beliefs], epsilon: float, distances: bytes | None, horizon: int
) -> Solved:
    theta = known.itself
    size = len(theta.states)
    metric = None if distances is None else np.frombuffer(distances).reshape(size, size)
    if horizon == HORIZON:
        b, _, _ = entry_epsilon_for(theta, _SHORT, epsilon, metric, None)
        forgets = b * _SHORT > epsilon * (1 + _NOTHING)
        if forgets:
            b, _, _ = entry_epsilon_for(theta, _SCREEN, epsilon, metric, None)
        if not forgets or b * _SCREEN < _FORGETS * epsilon:
            raise NoTheorem(
                f"a series without an end needs beliefs that mix: under {theta.description} "
                f"entries {_SCREEN:,} steps away still predict an entry. Give chains that mix, or "
                "declare how long the series may become: Account(..., horizon=)"
            )
    return entry_epsilon_for(theta, horizon, epsilon, metric, None)


@one_thread()
def _calibrated(
    theta: Beliefs,
    query: Query,
    epsilon: float,
    scales: Sequence[float] | None,
    progress: Progress | None = None,
) -> Calibration:
    """The noise by the curve: of one scale, or of scales in these proportions."""
    metric = metric_of(theta, query, scales)
    b, evidence, verification_data = entry_epsilon_for(
        theta, query.longest, epsilon, metric, progress
    )
    if query.missing and theta.entries is None:
        whole = b, evidence, verification_data
        chains = chains_only(theta, "influence_curve")
        b, evidence, verification_data = _where_observed(chains, query, epsilon, metric, whole)
    return Calibration(
        "influence_curve",
        epsilon,
        round_up(query.lipschitz / b),
        query,
        theta,
        evidence,
        verification_data=verification_data,
        scales=None if scales is None else _scales_at(b, theta, query, scales),
        options={} if scales is None else {"per_bin": True},
    )


def scale_per_bin(one_scale: Calibration) -> Calibration:
    """A scale for each bin, in the best proportions, in place of the one scale of the curve.

    Noise of scale s_j on coordinate j costs an entry the sum over j of |V_j(x) - V_j(x')| / s_j,
    and the theorem of the curve takes any cost. So rare levels, which reveal little of their
    neighbours, may have less noise. The search (`pufferkit.influence.shape.design`) gives the
    proportions; how large the scales must be is decided by the curve.
    """
    query, epsilon, theta = one_scale.query, one_scale.epsilon, one_scale.beliefs
    assert theta is not None
    added = _check_bins(theta, query)
    apart = np.abs(added[:, None, :] - added[None, :, :])
    losses = _losses_at(theta, query.longest)
    start = np.full(query.size, one_scale.scale)
    scales = best_scales(
        lambda s: losses(apart @ (1 / s)),
        lambda s: float(s.sum()),
        start,
        epsilon,
        seconds=_SECONDS,
    )
    if scales is None:
        raise NotApplicable("nothing is to be hidden, so no bin needs a scale of its own")
    return _calibrated(theta, query, epsilon, scales.tolist())


def _losses_at(theta: Beliefs, length: int) -> Callable[[Floats], Floats]:
    """From the cost of every entry to the losses of all pairs of secrets."""
    if theta.entries is not None:
        return lambda cost: np.array([record_loss(theta, cost)])
    chains = chains_only(theta, "a scale for each bin")
    chains.check_length(length)
    curves = [PartCurve(part, length) for part in chains.parts(length)]

    def losses(cost: Floats) -> Floats:
        runs = [(length, cost)]
        rows = [curve.losses(runs) for curve in curves]
        each = [np.max([loss for *_, loss in own], axis=0).ravel() for own in rows if own]
        if len(each) < len(rows):  # nothing is forgotten: every entry is paid for
            each.append(everything(runs) * (cost / max(float(cost.max()), 1e-300)).ravel())
        return np.asarray(np.nan_to_num(np.concatenate(each), nan=np.inf))

    return losses


def _check_bins(theta: Beliefs, query: Query) -> Floats:
    """What each state adds to each bin, where bins may have scales of their own."""
    added = added_by_state(theta, query)
    if query.size < 3 or added is None or query.unit is None:
        raise NotApplicable(
            "a scale for each bin is for histograms and other sums of at least three coordinates"
        )
    if query.size > MOST_BINS:
        raise NotApplicable(
            f"a scale for each bin takes long for more than {MOST_BINS} bins, here are "
            f"{query.size}; merge levels, or use one scale for all"
        )
    return added


def _scales_at(
    b: float, theta: Beliefs, query: Query, scales: Sequence[float]
) -> tuple[float, ...]:
    """Scales in these proportions, such that the distance of two states is at most b."""
    added = added_by_state(theta, query)
    assert added is not None
    each = np.array(scales)
    apart = (np.abs(added[:, None, :] - added[None, :, :]) / each).sum(axis=2).max()
    return tuple(round_up(float(scale), 8 + 2 * query.size) for scale in each * (apart / b))


MOST_BINS, _SECONDS = 40, 5.0
"""Most coordinates for which the proportions of the scales are searched, and for about how long."""

Contribution = float | tuple[float, ...]
"""The contribution of a state to a number, or to each coordinate of a vector."""


def _where_observed(
    theta: ChainClass, query: Query, epsilon: float, metric: Metric, whole: Solved
) -> Solved:
    """The same for the pattern of observed entries, if that is more.

    ``whole`` is the result for the unbroken span.
    """
    if not theta.homogeneous or theta.names_secrets:  # their curve is that of the unbroken span
        return whole
    by_curve = curve_of_observed(theta, query, epsilon, metric, whole[0])
    return whole if by_curve is None else by_curve


def metric_of(beliefs: Beliefs, query: Query, scales: Sequence[float] | None = None) -> Metric:
    """The metric of a sum on the states of a chain; ``None`` if all are equally far apart."""
    contributions = contributions_of(beliefs, query, scales)
    return None if contributions is None else metric_of_sum(contributions)


def contributions_of(
    beliefs: Beliefs | None, query: Query, scales: Sequence[float] | None = None
) -> tuple[Contribution, ...] | None:
    """What each state adds to a sum: a number from 0 to 1, or a row of them for a vector.

    For queries that are not sums, rows whose distances bound how far an entry moves the answer
    (`Query.apart`): the theorem of the pairwise curve needs no more than that. Scaled so that the
    two states that are furthest apart are at L1 distance 1. With a scale for each coordinate,
    contributions to it are in units of its scale. ``None`` if only the Lipschitz constant is known,
    and if all states are equally far apart.
    """
    moved = query.rows
    if moved is None or beliefs is None:
        return None
    if scales is None and query.uniform:
        return None
    width = len(next(iter(moved.values())))
    nothing = (Fraction(0),) * width
    each = list(scales or [1.0] * max(width, query.size))
    units = [Fraction(each[at]) for at in query.columns or range(width)]
    rows = [moved.get(state, nothing) for state in beliefs.states]
    rows = [tuple(w / unit for w, unit in zip(row, units, strict=True)) for row in rows]
    different = set(rows)
    apart = {
        sum(abs(a - b) for a, b in zip(*pair, strict=True)) for pair in combinations(different, 2)
    }
    if len(different) < len(rows):
        apart.add(Fraction(0))
    furthest = max(apart, default=Fraction(0))
    if not furthest or (width > 1 and len(apart) == 1):
        return None
    least = [min(column) for column in zip(*rows, strict=True)]
    scaled = [
        tuple(float((w - low) / furthest) for w, low in zip(row, least, strict=True))
        for row in rows
    ]
    # States closer than the precision of floats would seem to be the same.
    if len(set(scaled)) < len(different):
        return None
    return tuple(row[0] if width == 1 else row for row in scaled)


def added_by_state(beliefs: Beliefs, query: Query) -> Floats | None:
    """What an entry in each state adds to each coordinate; ``None`` if the query is not a sum."""
    if query.weights is None:
        return None
    return np.array([[float(w) for w in row] for row in query.added(beliefs.states)])


def entry_epsilon(
    beliefs: Any,
    lengths: int | Iterable[int],
    epsilon: float,
    *,
    metric: Floats | None = None,
) -> float:
    """The event-level epsilon to give any DP library so that the result is Pufferfish private.

    Parameters
    ----------
    beliefs
        A `MarkovChain` or any `ChainClass`.
    lengths
        Length of the series, or of its independent segments.
    epsilon
        Pufferfish privacy required for each entry.
    metric
        For pipelines that are private in a metric: distances between the states, in their order.
        The pipeline must move the log-likelihood by at most b metric(x, x') / (largest distance)
        when an entry x is replaced by x'.

    Returns
    -------
    float
        b such that every pipeline that is b-DP with respect to changing one entry is
        epsilon-Pufferfish private for each entry.

    Examples
    --------
    >>> from pufferkit import MarkovChain
    >>> round(entry_epsilon(MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]]), 1000, epsilon=1), 3)
    0.3
    """
    longest = max(checks.segment_lengths(lengths))
    return entry_epsilon_for(as_beliefs(beliefs), longest, checks.privacy(epsilon), metric, None)[0]


def loss_at(theta: Beliefs, query: Query, b: float) -> float:
    """Pufferfish epsilon of noise on a query that has event-level epsilon b, by the curve."""
    metric = metric_of(theta, query)
    if theta.entries is not None:
        return record_loss(theta, b * as_metric(metric, len(theta.states)))
    return InfluenceCurve(theta, query.longest, metric).epsilon(b)


@singledispatch
def entry_epsilon_for(
    beliefs: Beliefs, length: int, epsilon: float, metric: Metric, progress: Progress | None
) -> Solved:
    """The largest event-level epsilon that hides every entry, its evidence, verification data."""
    raise NotApplicable(
        f"influence_curve needs Markov chains or a graph, not a {beliefs.description}"
    )


@singledispatch
def curve_work(beliefs: Beliefs) -> float:
    """Approximate nanoseconds; 0 if the mechanism refuses or is quick."""
    return 0.0


@curve_work.register
def _(beliefs: GraphClass) -> float:
    return sum(graph_work(model) for model in beliefs.listed)


@entry_epsilon_for.register
def _on_graphs(
    beliefs: GraphClass, length: int, epsilon: float, metric: Metric, progress: Progress | None
) -> Solved:
    """Nodes averaged out of a graph, or resampled given their neighbours where it is wide."""
    distance = as_metric(metric, len(beliefs.states))
    curve = GraphCurve(beliefs.listed, beliefs.states, distance)
    b, loss = curve.solve(epsilon, progress)
    name = f"{beliefs.called} {loss.model + 1} of {len(beliefs.listed)}"
    evidence = Evidence(name, loss.node, len(beliefs.nodes), notes=curve.notes, bound="curve")
    return b, evidence, {"graphs": curve.record(b)}


@entry_epsilon_for.register
def _(
    beliefs: ChainClass, length: int, epsilon: float, metric: Metric, progress: Progress | None
) -> Solved:
    beliefs.check_length(length)
    curve = InfluenceCurve(beliefs, length, metric)
    b, name, loss = curve.solve(epsilon, progress)
    proof = curve.proof(b, epsilon)
    evidence = Evidence(name, loss.node, length, notes=curve.notes, bound="curve")
    return b, evidence, {"curve": [proof]} if proof else None
