"""The true loss of a small release, by the definition.

The loss is the largest |log p(w | X_i = a) - log p(w | X_i = a')| over outputs w, entries i,
possible values a, a' and beliefs. Given a secret the answer has a distribution with finitely many
centres, so the output has a mixture of Laplace densities.

**Where the ratio is largest.** Fix all coordinates of w but one, and let that one move between two
neighbouring centres c < c' of its own coordinate. Every mixture is there A u + B / u with
u = e^{w_j / s} and A, B >= 0, so the ratio of two of them is (A u^2 + B) / (A' u^2 + B'), which is
monotone in u^2: one end of the interval is at least as good. Below the least and above the largest
centre the ratio does not change at all. Moving one coordinate after the other, the supremum over
all outputs is reached on the grid of the coordinates' centres. Nothing is integrated or searched,
and on the line the grid is just the set of possible answers.

**Many states.** Where the whole grid is too large, two coordinates of the answer are looked at at a
time, and leaving out the others is post-processing; and all coordinates at outputs beyond every
answer. The loss found is then a lower bound.

**Every start.** For one output w and two values a, a' of entry i the odds o of the start (one state
against another) enter as

    f(o) = (n_0 + n_1 o) (m'_0 + m'_1 o) / ((m_0 + m_1 o) (n'_0 + n'_1 o)),

with m_x = P(X_i = a | X_1 = x), n_x the same times the density of w given both, and primes for a'.
The derivative of log f vanishes at the roots of a quadratic (the cubic terms cancel), so f is
largest there or at a sure start. For every start
the ratio is largest at a centre.

No start needs more than two states. With weights v_x of the start, f is

    (sum n_x v_x) (sum m'_x v_x) / ((sum m_x v_x) (sum n'_x v_x)),

the same for all multiples of v. With the first and the last of these sums fixed, the rest is a
ratio of linear functions, which is largest at a vertex, and a vertex under two equations has at
most two weights above 0.

**Outputs beyond all exact answers**, for any number of states and any length. At an output that
lies above every possible answer in some coordinates and below it in the others (one sign each), the
density is a constant times e^{sum_j sign_j answer_j / s}. For a sum over entries that is a product,
so with g(x) = e^{sum_j sign_j V_j(x) / s}

    p(w, X_i = x | X_1 = u)  ~  (G P G ... P G)(u, x) (P G ... P G 1)(x),    G = diag(g),

i factors G in the first part and one for each later entry in the second. Other segments are
independent of the secret and add nothing. Few outputs are looked at, so what is found is a lower
bound; where a whole grid of outputs is too large to list, it is often the loss itself.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, permutations, product
from math import inf, log, prod
from typing import Any

import numpy as np

from pufferkit.audit.answer_model import (
    AnswerDistribution,
    AnswerModel,
    ListedModel,
    ShownModel,
    answer_model,
    check_steps,
    distribution_of_answers,
    log_density,
    model_of,
)
from pufferkit.audit.attackers import marginals
from pufferkit.audit.report import WorstCase
from pufferkit.beliefs.base import Beliefs, Distribution, Member
from pufferkit.beliefs.bayesian_network import BayesianNetwork
from pufferkit.beliefs.finite_joint import FiniteJoint
from pufferkit.beliefs.hidden_model import HiddenChain
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.checks import Floats
from pufferkit.data.query import Query
from pufferkit.errors import NotApplicable
from pufferkit.mechanisms.calibration import Calibration

_FAR, _WIDEST = 1e60, 600.0


def largest_ratios(
    one: Floats, other: Floats, mass: Floats, other_mass: Floats
) -> tuple[Floats, Floats]:
    """Largest log f over the odds of the start, and these odds, for each output.

    Parameters
    ----------
    one, other
        Logarithms of (n_0, n_1) and (n'_0, n'_1), a column for each output.
    mass, other_mass
        (m_0, m_1) and (m'_0, m'_1).
    """
    top, low = one.max(axis=0), other.max(axis=0)
    if (top == -np.inf).any() or (low == -np.inf).any():
        # One of the two values cannot happen, whatever the start.
        return np.full(one.shape[1], -np.inf), np.ones(one.shape[1])
    for pair in (one, other):
        if np.isfinite(pair).all() and (np.abs(pair[0] - pair[1]) > _WIDEST).any():
            raise NotApplicable("the noise is too small for an exact comparison of all starts")
    up = (np.exp(one - top), np.broadcast_to(other_mass[:, None], one.shape))
    down = (np.broadcast_to(mass[:, None], one.shape), np.exp(other - low))
    best = np.full(one.shape[1], -np.inf)
    where = np.ones(one.shape[1])
    for odds in _candidates((*up, *down)):
        # A start at which a value cannot happen is a limit; an odd a little off it stands for it.
        parts = [np.log(pair[0] + pair[1] * odds) for pair in (*up, *down)]
        value = parts[0] + parts[1] - parts[2] - parts[3] + top - low
        better = value > best
        best, where = np.where(better, value, best), np.where(better, odds, where)
    return best, where


def _candidates(factors: tuple[Floats, ...]) -> list[Floats]:
    """Sure starts, and where the derivative vanishes; a sure start stands where it does not."""
    slope = [np.zeros(factors[0].shape[1]) for _ in range(3)]
    for n, sign in enumerate((1, 1, -1, -1)):
        (a, b), (c, d), (e, f) = (pair for k, pair in enumerate(factors) if k != n)
        own = sign * factors[n][1]
        slope[0] += own * a * c * e
        slope[1] += own * (b * c * e + a * d * e + a * c * f)
        slope[2] += own * (b * d * e + b * c * f + a * d * f)
    c0, c1, c2 = slope
    ends = [np.full_like(c0, 1 / _FAR), np.full_like(c0, _FAR)]
    with np.errstate(all="ignore"):
        half = -(c1 + np.copysign(np.sqrt(np.maximum(c1 * c1 - 4 * c2 * c0, 0.0)), c1)) / 2
        roots = [half / c2, c0 / half]
        return ends + [
            np.where((root > 1 / _FAR) & (root < _FAR), root, 1 / _FAR) for root in roots
        ]


_ALL_SIGNS = 8
_MOST_LENGTH = 2_000


def outer_cases(member: Member, query: Query, scale: float) -> Iterator[WorstCase]:
    """The worst outer output for every entry of the longest segment; none for other queries."""
    if query.weights is None or query.size < 2 or query.longest > _MOST_LENGTH:
        return
    chain = member.chain
    nothing = (Fraction(0),) * query.size
    added = np.array(
        [[float(w) for w in query.weights.get(state, nothing)] for state in chain.states]
    )
    signs = _signs(query.size)
    exponents = signs @ added.T / scale
    begin = sum(query.lengths[: query.lengths.index(query.longest)])
    # The outermost answers stand for all outputs beyond them: the ratio does not change there.
    outermost = sum(query.lengths) * np.where(signs > 0, added.max(axis=0), added.min(axis=0))
    for place, (logs, mass) in enumerate(_tables(chain, exponents, query.longest), 1):
        try:
            worst = (_over_odds if member.any_start else _from_start)(chain, logs, mass)
        except NotApplicable:
            continue
        if worst is not None:
            output = tuple(outermost[worst[1]].tolist())
            yield worst_at(worst, member.name, begin + place, chain.states, output, False)


def _signs(size: int) -> Floats:
    """All signs of a few coordinates; of many, one or two against the others."""
    if size <= _ALL_SIGNS:
        return np.array(list(product((1.0, -1.0), repeat=size)))
    rows = [np.ones(size)]
    for chosen in (c for n in (1, 2) for c in combinations(range(size), n)):
        rows.append(np.ones(size))
        rows[-1][list(chosen)] = -1.0
    return np.vstack([np.array(rows), -np.array(rows)])


def _tables(chain: MarkovChain, exponents: Floats, length: int) -> Iterator[tuple[Floats, Floats]]:
    """For entries 1, 2, ...: log p(w, x | u) by output, u and x, up to a constant; and P(x | u)."""
    weights = np.exp(exponents - exponents.max(axis=1, keepdims=True))
    moves, size = chain.transition, len(chain)
    after = [np.ones_like(weights)]
    for _ in range(length - 1):
        before = (weights * after[-1]) @ moves.T
        after.append(before / before.max(axis=1, keepdims=True))
    first = np.einsum("ux,ox->oux", np.eye(size), weights)
    mass = np.eye(size)
    for place in range(length):
        if place:
            first = (first @ moves) * weights[:, None, :]
            first /= first.max(axis=(1, 2), keepdims=True)
            mass = mass @ moves
        with np.errstate(divide="ignore"):
            logs = np.log(first) + np.log(after[length - 1 - place])[:, None, :]
        yield np.moveaxis(logs, 0, -1), mass


_Worst = tuple[float, int, int, int, str]
"""Loss, place of the output, the likelier and the unlikelier value, and words for the start."""


def furthest_apart(logs: Floats) -> _Worst:
    """Where log-densities given each value (rows) are furthest apart, over outputs (columns)."""
    spread = logs.max(axis=0) - logs.min(axis=0)
    at = int(spread.argmax())
    return float(spread[at]), at, int(logs[:, at].argmax()), int(logs[:, at].argmin()), ""


def _from_start(chain: MarkovChain, logs: Floats, mass: Floats) -> _Worst | None:
    """The worst output for the start of the chain, from log p(w, x | u) and P(x | u)."""
    with np.errstate(divide="ignore"):
        given = np.logaddexp.reduce(logs + np.log(chain.initial)[:, None, None], axis=0)
        alone = np.log(chain.initial @ mass)
    can = np.flatnonzero(np.isfinite(alone))
    if len(can) < 2:
        return None
    odds = given[can] - alone[can, None]
    if not np.isfinite(odds).all():
        return None  # underflow: nothing is proved there
    loss, at, one, other, start = furthest_apart(odds)
    return loss, at, int(can[one]), int(can[other]), start


def _over_odds(chain: MarkovChain, logs: Floats, mass: Floats) -> _Worst | None:
    """The same over all starts: no start needs more than two states."""
    best: _Worst | None = None
    for rows in map(list, combinations(range(len(chain)), 2)):
        for a, b in permutations(range(len(chain)), 2):
            losses, odds = largest_ratios(
                logs[rows, a], logs[rows, b], mass[rows, a], mass[rows, b]
            )
            at = int(losses.argmax())
            if np.isfinite(losses[at]) and (best is None or losses[at] > best[0]):
                x, y = (chain.states[u] for u in rows)
                start = f": start in {x} or {y} at odds 1 : {odds[at]:.6g}"
                best = float(losses[at]), at, a, b, start
    return best


def worst_at(
    worst: _Worst,
    name: str,
    entry: Hashable,
    labels: Sequence[Hashable],
    output: tuple[float, ...],
    complete: bool = True,
) -> WorstCase:
    """What `furthest_apart` and the like found, in words."""
    loss, _, one, other, start = worst
    return WorstCase(loss, name + start, entry, labels[one], labels[other], output, complete)


MOST_ENTRIES = 20
"""Longest data of which the loss of a release is computed at every entry."""

MOST_POINTS = 200_000
"""Most outputs that are compared for each secret."""

_LEAST_ROW = 1e-290
_MOST_GRID = 250_000
_MOST_IN_LOGS = 30_000
_MOST_AXES = 60
_MOST_STATES = 4
_MOST_PAIRS = 15
_MOST_DISTRIBUTIONS = 1_000
_LOG_ROOM = 650.0


def in_one_scale(mechanism: Calibration) -> Query:
    """The query with its coordinates stretched, so that one scale for all loses the same."""
    query, weights = mechanism.query, mechanism.query.weights
    if mechanism.scales is None:
        return query
    stretch = stretches(mechanism)
    constant = query.lipschitz * float(max(stretch)) * 2
    stretched = weights and {
        state: tuple(w * more for w, more in zip(row, stretch, strict=True))
        for state, row in weights.items()
    }
    floats = np.array([float(more) for more in stretch])
    return Query(
        query.name,
        query.evaluate if stretched is not None else lambda x: query.evaluate(x) * floats,
        constant,
        query.lengths,
        labels=query.labels,
        states=query.states,
        weights=stretched,
    )


def stretches(mechanism: Calibration) -> list[Fraction]:
    """How far each coordinate is to be stretched for one scale to lose the same."""
    if mechanism.scales is None:
        return [Fraction(1)] * mechanism.query.size
    return [Fraction(mechanism.scale) / Fraction(scale) for scale in mechanism.scales]


def worst_release(
    theta: Beliefs,
    query: Query,
    scale: float,
    distributions: Sequence[Distribution],
    only: Sequence[int] | None = None,
) -> WorstCase:
    """The worst output of Laplace noise of this scale, over ``only`` these entries (from 0)."""
    best: WorstCase | None = None
    complete = only is None
    opened = [m for m in theta.named_members if m.any_start and len(query.lengths) == 1]
    for member in opened:
        best = _worse(best, _over_starts(member, query, scale, only))
        complete = complete and theta.lists_matrices
    for own in distributions if not opened else ():
        check_floats(own.distribution, sum(query.lengths))
        best = _worse(best, _given(own, query, scale, only))
        complete = complete and own.complete
    if best is not None and not best.complete:
        known = [
            Member(d.name, d.distribution, any_start=False)
            for d in distributions
            if isinstance(d.distribution, MarkovChain) and d.of_entries
        ]
        for member in opened or known:
            for case in outer_cases(member, query, scale):
                best = _worse(best, case)
    if best is None or not np.isfinite(best.loss):
        raise NotApplicable("no entry can take two values, so there is no secret to distinguish")
    return replace(best, complete=complete and best.complete)


def _worse(best: WorstCase | None, other: WorstCase | None) -> WorstCase | None:
    """Of two the worse; complete if both are."""
    if best is None or other is None:
        return best or other
    worst = best if best.loss >= other.loss else other
    return replace(worst, complete=best.complete and other.complete)


def check_floats(
    distribution: MarkovChain | HiddenChain | FiniteJoint | BayesianNetwork, length: int
) -> None:
    """Refuse distributions whose possible data may have probability 0 as a float."""
    if isinstance(distribution, FiniteJoint):
        least = min(
            log(float(p)) if float(p) > 0 else -inf for p in distribution.table.values() if p > 0
        )
    elif isinstance(distribution, BayesianNetwork):
        tables = [distribution.arrays[node] for node in distribution.nodes]
        least = sum(log(float(table[table > 0].min())) for table in tables)
    else:
        if isinstance(distribution, HiddenChain):
            distribution = distribution.chain
        return check_steps(distribution, length)
    if least < log(_LEAST_ROW):
        raise NotApplicable("some probabilities are too small to multiply exactly; merge states")


def _given(
    own: Distribution, query: Query, scale: float, only: Sequence[int] | None
) -> WorstCase | None:
    """One distribution, every entry (or only some) and output."""
    model = model_of(own, query)
    sets = _columns(query, own.distribution)
    best: WorstCase | None = None
    some = _entries(query, only, len(sets) ** 2) if own.of_entries else None
    for entry in some or range(len(model.entries)):
        values = model.values(entry)
        if len(values) < 2:
            continue
        for columns in sets:
            distributions = [
                _distribution(model, own.distribution, query, entry, code, columns)
                for code, _ in values
            ]
            axes = _centres(distributions)
            worst = furthest_apart(
                np.stack([log_densities(one, axes, scale) for one in distributions])
            )
            labels = [label for _, label in values]
            complete = len(columns) == query.size and some is None
            output = _output(axes, worst[1])
            case = worst_at(worst, own.name, model.entries[entry], labels, output, complete)
            best = _worse(best, case)
    return best


def _centres(distributions: Iterable[AnswerDistribution]) -> list[Floats]:
    """The possible answers of all, coordinate by coordinate."""
    return [np.unique(column) for column in np.vstack([one.points for one in distributions]).T]


def _distribution(
    model: AnswerModel,
    distribution: Any,
    query: Query,
    entry: int,
    code: int,
    columns: tuple[int, ...],
) -> AnswerDistribution:
    """The answer given a secret: listed, or by its sums."""
    sums = None
    if isinstance(model, (ListedModel, ShownModel)):
        whole = model.distribution(entry, code)
        if whole is not None:
            return AnswerDistribution(whole.points[:, list(columns)], whole.weights)
    else:
        sums = distribution_of_answers(distribution, query, entry, code, columns)
    if sums is None:
        raise NotApplicable(
            f"{len(distribution)} states and {sum(query.lengths)} entries make too many data "
            "sets to "
            "compare; shorten the series or merge states"
        )
    return sums


def _entries(query: Query, only: Sequence[int] | None, work: int) -> Sequence[int] | None:
    """All entries (``None``), or if that is too much work those near the ends and the middle."""
    length = sum(query.lengths)
    if only is not None or length * work <= _MOST_DISTRIBUTIONS:
        return only
    begin = sum(query.lengths[: query.lengths.index(max(query.lengths))])
    end, middle = begin + query.longest - 1, begin + (query.longest - 1) // 2
    return sorted({begin, min(begin + 1, end), middle, max(begin, end - 1), end})


def _columns(query: Query, distribution: Any, most: int = _MOST_GRID) -> list[tuple[int, ...]]:
    """The coordinates to look at together: all, or pairs where the grid would be too large."""
    if query.weights is None or query.size <= 2 or not isinstance(distribution, MarkovChain):
        return [tuple(range(query.size))]
    if (sum(query.lengths) + 1.0) ** query.size <= most and len(distribution) <= _MOST_STATES:
        return [tuple(range(query.size))]
    pairs: list[tuple[int, ...]] = list(combinations(range(query.size), 2))
    return pairs[:_MOST_PAIRS]


def _output(axes: list[Floats], place: int) -> tuple[float, ...]:
    output = []
    for axis in reversed(axes):
        place, at = divmod(place, len(axis))
        output.append(float(axis[at]))
    return tuple(reversed(output))


def _over_starts(
    member: Member, query: Query, scale: float, only: Sequence[int] | None
) -> WorstCase | None:
    """Every start of a matrix; see `pufferkit.audit.exact_loss`."""
    chain, states = member.chain, member.chain.states
    size, length = len(chain), sum(query.lengths)
    sure = [MarkovChain(np.eye(size)[x], chain.transition, states) for x in range(size)]
    check_floats(sure[0], length)
    places = [answer_model(own, query) for own in sure]
    sets = _columns(query, chain, _MOST_IN_LOGS if size <= 3 else 0)
    best: WorstCase | None = None
    some = _entries(query, only, len(sets) * size * size)
    for entry in some or range(length):
        # Rows: start; columns: value of the entry.
        mass = np.array([marginals(own, entry + 1)[entry] for own in sure])
        for columns in sets:
            distributions = {
                (x, code): _distribution(places[x], sure[x], query, entry, code, columns)
                for x, code in np.argwhere(mass > 0).tolist()
            }
            axes = _centres(distributions.values())
            logs = np.full((size, size, prod(len(axis) for axis in axes)), -np.inf)
            for (x, code), distribution in distributions.items():
                logs[x, code] = log_densities(distribution, axes, scale) + np.log(mass[x, code])
            worst = _over_odds(chain, logs, mass)
            if worst is not None:
                complete = len(columns) == query.size and some is None
                output = _output(axes, worst[1])
                case = worst_at(worst, member.name, entry + 1, states, output, complete)
                best = _worse(best, case)
    return best


def log_densities(distribution: AnswerDistribution, axes: list[Floats], scale: float) -> Floats:
    """Log of the mixture on the grid of centres, up to one constant, flattened."""
    # What never varies is the same under all secrets, and arrays have few dimensions.
    varied = [j for j, axis in enumerate(axes) if len(axis) > 1] or [0]
    if len(varied) < len(axes):
        kept_axes = [axes[j] for j in varied]
        distribution = AnswerDistribution(distribution.points[:, varied], distribution.weights)
        return log_densities(distribution, kept_axes, scale)
    if len(axes) == 1:
        return log_density(distribution, axes[0][:, None], scale)
    shape = tuple(len(axis) for axis in axes)
    points = np.prod(np.array(shape, dtype=float))
    kept = distribution.weights > 0
    least = float(np.log(distribution.weights[kept].min()))
    # Products of floats where none of them can vanish, else sums in logarithms, which are slow.
    deep = sum(float(np.ptp(axis)) for axis in axes) / scale - least > _LOG_ROOM
    if (
        len(shape) > _MOST_AXES
        or points * max(shape) > 50 * MOST_POINTS
        or (deep and points > _MOST_IN_LOGS)
    ):
        raise NotApplicable(
            f"the answer has {len(shape)} coordinates with {', '.join(map(str, shape))} values, "
            "too many outputs to compare; use fewer states or a shorter series"
        )
    places = tuple(
        np.searchsorted(axis, column)
        for axis, column in zip(axes, distribution.points.T, strict=True)
    )
    mass = np.zeros(shape)
    np.add.at(mass, places, distribution.weights)
    if not deep:
        for j, axis in enumerate(axes):
            kernel = np.exp(-np.abs(axis[:, None] - axis[None, :]) / scale)
            mass = np.moveaxis(np.tensordot(mass, kernel, axes=(j, 0)), -1, j)
        logs: Floats = np.log(mass).ravel()
        return logs
    with np.errstate(divide="ignore"):
        table = np.log(mass)
    for j, axis in enumerate(axes):
        lines = np.moveaxis(table, j, -1)
        moved = np.empty_like(lines)
        for g, centre in enumerate(axis):
            moved[..., g] = np.logaddexp.reduce(lines - np.abs(axis - centre) / scale, axis=-1)
        table = np.moveaxis(moved, -1, j)
    return np.ascontiguousarray(table).ravel()
