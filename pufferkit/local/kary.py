"""The loss of answers drawn from any matrix, on a chain of any number of states.

Given X_i the two sides of an entry are independent, and each answer is drawn on its own. So the
loss of an ordered pair of values is a sum, what the entry's own answer says about that pair, plus
the left side, plus the right side:

    loss(x, x') = max over z of log M(x, z) / M(x', z) + left(x, x') + right(x, x').

Where a side is not known to be bounded (chains that forget slowly or not at all, many states), the
bound from the event-level epsilon serves: `entry_loss`.

*What one side says*, pair by pair of k states, answer by answer. Let K be the kernel of a side: P
to the right; to the left the reversal R(x, y) = pi(y) P(y, x) / pi(x). What is known there, a value
at distance d or the start, is a weight w_m on the states: w_{m+1} = K w_m, with the column of K for
a known value (w = 1 if nothing is known, the initial distribution over pi at the start). Given X =
x the next entry has the distribution

    K_m(x, y) = K(x, y) w_m(y) / w_{m+1}(x),

so the probability q of all answers on that side obeys q(x) = sum_y K_m(x, y) M(y, z) q'(y), where
M(y, z) is the probability that y is answered by z. If log q' varies by at most V'(y, y'), then

    log q(x) / q(x')  <=  max over z of  log s_z(x) / s_z(x') + step(K_{m,z}(x), K_{m,z}(x'); V')

with s_z the row sums of K_m diag(M(., z)) and K_{m,z} the same with rows that sum to one: the
transport step of `pufferkit.influence.curve.transport_plans`, which is the supremum over all q'
that vary so. The answer is the same on both sides of the ratio, which a bound from the event-level
epsilon alone does not use. For two states it is exact; for more it forgets only that not all pairs
of a V' need be reached by the same answers.

*All distances.* If the weights vary by at most w from distance D on (they vary less and less) and
V_D <= C and F(C) + 2 w <= C, where F is the step with K itself, then V_d <= C for all d >= D, by
induction: the weights change both sums by at most e^w each.

*Reached.* Answers that say much are followed as well: all of them while they are few, then the best
for each pair of states. What all of them reach is the loss itself, what the best reach is a lower
bound; where it meets the upper bound, that is exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from math import inf
from typing import NamedTuple

import numpy as np

from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.checks import Bools, Floats
from pufferkit.errors import NotApplicable
from pufferkit.influence.curve.steps import LARGEST, Transport, closure, off_diagonal
from pufferkit.local.losses import MOST_BLOCK, Loss, entry_bound, known_adversary
from pufferkit.rounding import EPS, round_up

FORGOTTEN = 1e-8
"""Weights that vary by less than this count as gone; what is left of them is paid for."""

MOST_DISTANCE = 400
"""Distances that are followed one by one at most."""

MOST_ANSWERS = 20_000
"""Series of answers of which all are followed at most."""

_BEST = 3
_FEW = 64
_SETTLED = 1e-9
_SLACK = 1e-10
_ROUNDS = 60


class SideLoss(NamedTuple):
    """What a side says about each ordered pair of states; -inf where one of them cannot occur."""

    bound: Floats
    reached: Floats
    weight: Floats

    @property
    def spread(self) -> float:
        """How far the logarithms of the weights vary."""
        with np.errstate(divide="ignore"):
            return float(np.ptp(np.log(self.weight)))


class KarySide:
    """One side: its kernel, and how states are answered.

    Parameters
    ----------
    kernel
        K; rows are distributions.
    matrix
        P(answer z | state y), row y; no zeros.
    reach
        Whether answers are followed too; without, nothing is reached.
    """

    def __init__(self, kernel: Floats, matrix: Floats, *, reach: bool) -> None:
        self.kernel, self.matrix, self.reach = kernel, matrix, reach
        self.size = len(kernel)
        self._plain = _AnswerSteps(kernel, matrix)

    def trace(self, weight: Floats, all_answers: bool) -> Iterator[SideLoss]:
        """What is said at 0, 1, 2, ... entries from where ``weight`` stands."""
        bound = np.where(np.logical_and.outer(weight > 0, weight > 0), 0.0, -np.inf)
        reached, vectors = bound, np.ones((1, self.size))
        error, count, constant, steps = 0.0, 0, bool((weight == 1).all()), self._plain
        while True:
            yield SideLoss(bound, reached, weight)
            count += 1
            before = weight > 0
            if constant:
                kernel, after = self.kernel, before
            else:
                product = self.kernel[:, before] * weight[before]
                weight = product.sum(axis=1)
                after = weight > 0
                kernel = product[after] / weight[after, None]
                weight = weight / weight.max()
                steps = _AnswerSteps(kernel, self.matrix[before], steps)
                error += 4 * self.size * EPS
            inner = steps(bound[np.ix_(before, before)], error)
            bound = np.full((self.size, self.size), -np.inf)
            if self.reach:
                vectors = _answered(vectors[:, before], kernel, self.matrix[before], after)
                reached = _ratios(vectors, after)
                if all_answers:  # the loss itself, rounded up
                    pad = count * steps.padding(error)
                    inner = np.minimum(inner, reached[np.ix_(after, after)] + pad)
                else:
                    vectors = _best_of(vectors)
            bound[np.ix_(after, after)] = inner

    def unknown_or_known(
        self, start: Floats, every: bool, all_answers: bool
    ) -> list[Iterator[SideLoss]]:
        """Nothing known but where the side ends; then each value known next to the entry."""
        traces = [self.trace(start, all_answers)]
        if every:
            traces += [self.trace(column, all_answers) for column in self.kernel.T if column.any()]
        return traces

    def within(self, start: Floats, length: int, every: bool, all_answers: bool) -> list[SideLoss]:
        """What the side says at most if it has 0, 1, ... length - 1 entries."""
        ends, *known = (
            list(islice(trace, length))
            for trace in self.unknown_or_known(start, every, all_answers)
        )
        sides, nearer = [], None
        for m, end in enumerate(ends):
            for trace in known if m > 0 else []:
                nearer = trace[m - 1] if nearer is None else _larger(nearer, trace[m - 1])
            sides.append(end if nearer is None else _larger(end, nearer))
        return sides

    def at_any_distance(self, start: Floats, every: bool) -> SideLoss | None:
        """What the side says at most, however long it is; ``None`` if that is not known."""
        traces = self.unknown_or_known(start, every, all_answers=False)
        best, before = next(traces[0]), None
        best = best._replace(bound=np.maximum(best.bound, 0.0))
        for sides in islice(zip(*traces, strict=True), MOST_DISTANCE):
            for one in sides:
                best = _larger(best, one)
            if best.bound.max() == np.inf:
                return None
            spread = max(one.spread for one in sides)
            if spread <= FORGOTTEN:
                last = np.max([one.bound for one in sides], axis=0)
                if before is not None and float(np.abs(last - before).max()) <= _SETTLED:
                    limit = self._certificate(last, 2 * spread)
                    return None if limit is None else _larger(best, best._replace(bound=limit))
                before = last
        return None

    def _certificate(self, point: Floats, added: float) -> Floats | None:
        """C >= ``point`` with F(C) + ``added`` <= C off the diagonal, if one is near."""
        slack = off_diagonal(self.size) * _SLACK
        point = point + slack
        for _ in range(_ROUNDS):
            moved = self._plain(point, added)
            if (moved <= point).all():
                return point
            slack *= 1.5
            point = np.maximum(point, moved) + slack
        return None


class _AnswerSteps:
    """F: the variation of a side with one entry more, for a kernel and its answers.

    The programmes of each answer begin with the plans of ``like``, a kernel close by.
    """

    def __init__(self, kernel: Floats, matrix: Floats, like: _AnswerSteps | None = None) -> None:
        self.rows, self.states = kernel.shape
        weighted = kernel * matrix.T[:, None, :]
        sums = weighted.sum(axis=2)
        logs = np.log(sums)
        self._ratios = logs[:, :, None] - logs[:, None, :]
        self._steps = [Transport([own]) for own in weighted / sums[:, :, None]]
        for own, other in zip(self._steps, like._steps if like else (), strict=False):
            own.start_like(other)

    def padding(self, error: float) -> Floats:
        """More than rounding can have taken off; ``error`` is that of the kernel."""
        size = 16 * (self.states + 4) * EPS + error
        padding: Floats = size * off_diagonal(self.rows)
        return padding

    def __call__(self, variation: Floats, error: float) -> Floats:
        """The largest log-ratios of rows, rounded up; infinite where that is of no use."""
        limit = closure(variation)
        if not limit.max() <= LARGEST:
            return np.where(np.eye(self.rows) > 0, 0.0, np.inf)
        largest = (self._ratios + [steps(limit) for steps in self._steps]).max(axis=0)
        moved: Floats = np.maximum(largest, 0.0) * (1 + 4 * EPS) + self.padding(error)
        return moved


def _larger(one: SideLoss, other: SideLoss) -> SideLoss:
    return SideLoss(
        np.maximum(one.bound, other.bound), np.maximum(one.reached, other.reached), one.weight
    )


def _answered(vectors: Floats, kernel: Floats, matrix: Floats, after: Bools) -> Floats:
    """Probabilities of all series of answers with one answer more, scaled; rows are series."""
    more = np.concatenate([(vectors * answer) @ kernel.T for answer in matrix.T])
    full = np.zeros((len(more), len(after)))
    full[:, after] = more / more.max(axis=1, keepdims=True)
    return full


def _ratios(vectors: Floats, possible: Bools) -> Floats:
    """Largest log-ratio for each ordered pair of possible states."""
    reached = np.full((len(possible),) * 2, -np.inf)
    logs = np.log(vectors[:, possible])
    reached[np.ix_(possible, possible)] = [
        (logs[:, [x]] - logs).max(axis=0) for x in range(logs.shape[1])
    ]
    return reached


def _best_of(vectors: Floats) -> Floats:
    """The series that say most, a few for each ordered pair of states."""
    if len(vectors) <= _FEW:
        return vectors
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(vectors)
        ratios = np.nan_to_num(logs[:, :, None] - logs[:, None, :], nan=0.0, posinf=0.0, neginf=0.0)
    order = np.argpartition(-ratios, _BEST, axis=0)[:_BEST]
    return vectors[np.unique(order)]


MOST_STATES = 8
"""States whose pairs are followed; each known value has a sequence of its own."""

LONGEST = 100
"""Series up to this length are followed to the end; longer ones are promised as any length is."""

_EXACT = 1e-8
_LARGEST = 60.0


def pair_losses(
    chain: MarkovChain, matrix: Floats, length: int | None, every: bool, *, reach: bool = True
) -> tuple[Floats, Floats, str] | None:
    """Bound and reached loss of every ordered pair of values, and how they were got, or ``None``.

    Answers that say nothing about some state, or all about it, are not for this bound.
    """
    used = matrix[:, matrix.any(axis=0)]
    if len(chain) > MOST_STATES or not (used > 0).all() or len(chain.closed_classes) > 1:
        return None
    if not (chain.stationary > 0).all():
        return None
    logs = np.log(used)
    own = np.array([(row - logs).max(axis=1) for row in logs])
    if own.max() > _LARGEST:
        return None
    share, kernel = chain.stationary, chain.transition
    reverse = kernel.T * share / share[:, None]
    reverse /= reverse.sum(axis=1, keepdims=True)
    # The reversal is computed, so its entries are off by a few units in the last place.
    start = np.ones(len(chain)) if chain.is_stationary else chain.initial / share
    ends = np.ones(len(chain))
    left, right = (KarySide(own_kernel, used, reach=reach) for own_kernel in (reverse, kernel))
    own = own + 8 * EPS * (1 + np.abs(logs).max())
    np.fill_diagonal(own, 0.0)
    if length is not None and length <= LONGEST:
        listed = reach and used.shape[1] ** (length - 1) <= MOST_ANSWERS
        before = left.within(start, length, every, listed)
        after = right.within(ends, length, every, listed)
        pairs = list(zip(before, reversed(after), strict=True))
        bound = np.max([one.bound + other.bound for one, other in pairs], axis=0)
        reached = np.max([one.reached + other.reached for one, other in pairs], axis=0)
        return own + bound, own + reached, "all answers" if listed else "pairs of states"
    past, future = left.at_any_distance(start, every), right.at_any_distance(ends, every)
    if past is None or future is None:
        return None
    return (
        own + past.bound + future.bound,
        own + past.reached + future.reached,
        "pairs of states to the limit",
    )


def matrix_loss(
    chain: MarkovChain, matrix: Floats, length: int | None, adversary: str, *, reach: bool = True
) -> Loss:
    """A certified loss of answers drawn from the rows of ``matrix``.

    It is ``exact`` if all answers were compared, or if some reach the bound to eight digits.
    """
    rows = np.ascontiguousarray(matrix, dtype=np.float64).tobytes()
    return _loss_of(chain, rows, length, known_adversary(adversary), reach)


@lru_cache(maxsize=4)  # a mechanism is searched, then made, then made with its promise
def _loss_of(chain: MarkovChain, rows: bytes, length: int | None, name: str, reach: bool) -> Loss:
    matrix = np.frombuffer(rows).reshape(len(chain), -1)
    if (matrix == matrix[0]).all():
        return Loss((0.0, 0.0), name, length, "answers carry no information", True)
    losses = pair_losses(chain, matrix, length, name == "every", reach=reach)
    if losses is not None:
        bound, reached, method = losses
        value = round_up(float(bound.max()))
        whole = length is None or length <= LONGEST
        # A start without some states rules out values that were counted as known.
        whole = whole and (name == "ignorant" or bool((chain.initial > 0).all()))
        exact = whole and float(reached.max()) >= value - _EXACT * (1 + value)
        if value <= (inf if exact else entry_bound(chain, event_level(matrix))):
            return Loss((value, value), name, length, method, exact)
    return entry_loss(chain, event_level(matrix), length, name)


def event_level(matrix: Floats) -> float:
    """Largest log-ratio of an answer under two states, rounded up."""
    used = matrix[:, matrix.any(axis=0)]
    if not (used > 0).all():
        return inf
    logs = np.log(used)
    return round_up(float(np.ptp(logs, axis=0).max()))


def entry_loss(chain: MarkovChain, b: float, length: int | None, adversary: str) -> Loss:
    """A certified bound on the loss of answers with event-level epsilon ``b``.

    Every way to answer of that event-level epsilon is covered, and every number of states.
    """
    name = known_adversary(adversary)
    options: list[tuple[float, str]] = [(entry_bound(chain, b), "tanh bound")]
    if length is not None:
        options.append((round_up(length * b), "entries added up"))
    if name == "ignorant" and length is not None and 0 < b < inf:
        from pufferkit.influence.profile import InfluenceCurve  # noqa: PLC0415

        options.append((InfluenceCurve(chain, length).epsilon(b), "influence curve"))
    value, method = min(options)
    if value == inf and b < inf:
        raise NotApplicable(
            f"transition: this chain does not mix within {MOST_BLOCK} steps (it is periodic, "
            "reducible or very sparse), so no loss is certified for series of any length; give a "
            "length, for which entries can be added up"
        )
    return Loss((value, value), name, length, method, value == 0)
