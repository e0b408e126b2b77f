"""Predictions, simulated series and influence of a class of beliefs.

A class is represented by its `distributions`: chains, or functions of a hidden chain. Where it
lists all of them, the one that predicts people best represents it. Where it contains more (a hull,
a region), its vertices are mixed in every part of the day, by weights chosen in hindsight.

Privacy against a belief is worth little where better predictions are easy. A *predictor* takes a
person's codes and the time of day of each entry and returns, for every entry after the first, its
predictive log-probability; NaN where nothing was observed. Its score is the mean negative
log-probability, in nats per step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, singledispatch
from typing import Any

import numpy as np

from pufferkit import checks
from pufferkit.beliefs.chain_class import ChainClass
from pufferkit.beliefs.hidden_model import HiddenChain, HiddenModel
from pufferkit.beliefs.markov_chain import MarkovChain, composed
from pufferkit.beliefs.regime_class import RegimeClass
from pufferkit.beliefs.seasonal_class import SeasonalClass
from pufferkit.checks import Floats
from pufferkit.errors import NotApplicable
from pufferkit.fitting.baum_welch import log_likelihood, regime_influence
from pufferkit.fitting.people import Codes, checked_people, checked_slots, shrunk_tables
from pufferkit.fitting.row_tests import closest_in_box
from pufferkit.influence.profile import InfluenceCurve
from pufferkit.threads import one_thread

Predictor = Callable[[Codes, Codes], Floats]
"""Codes and slots of one person to log-probabilities of the entries after the first."""

TOLERANCE = 0.02
"""Nats per step that a belief may lose to the best flexible predictor."""

_SHARE = 0.03
"""The same as a share of what that one has, where there is much to predict."""

_LAGS = 6
_SPANS = (5, 15, 60, 240)
_MOST_ROWS = 60_000
_FLOOR = 1e-4
_ONE_SIDED = 1.645


@dataclass(frozen=True)
class PredictionGap:
    """Nats a step of a belief and of flexible predictors on the same entries."""

    given: float
    """Score of the belief."""
    flexible: dict[str, float]
    """Scores of the others, by name."""
    error: float
    """Standard error over days of the difference to the best of them."""

    @property
    def best(self) -> str:
        """The flexible predictor that does best."""
        return min(self.flexible, key=self.flexible.__getitem__)

    @property
    def gap(self) -> float:
        """Nats a step that the belief loses to the best; below 0 if it is better."""
        return self.given - self.flexible[self.best]

    @property
    def passed(self) -> bool:
        """Whether the gap may be below the tolerance, at confidence 95%."""
        allowed = max(TOLERANCE, _SHARE * self.flexible[self.best])
        return self.gap - _ONE_SIDED * self.error <= allowed


def prediction_gap(
    given: Predictor,
    flexible: Mapping[str, Predictor],
    people: Sequence[Any],
    states: int,
    *,
    day: int = 1,
    slots: Sequence[Any] | None = None,
) -> PredictionGap:
    """Score a belief and flexible predictors on people whom none of them has seen.

    Parameters
    ----------
    given
        The belief's own predictor, for example `chain_predictor`.
    flexible
        Predictors by name: `memory_predictor`, `boosted_predictor`, or any other, such as the
        filter of hidden regimes.
    people, states, day, slots
        As in `row_coverage`. Only entries that all predictors scored count.

    Examples
    --------
    >>> from pufferkit import MarkovChain
    >>> chain = MarkovChain.steady([[0.8, 0.2], [0.3, 0.7]])
    >>> public, held_out = [chain.sample(9000, seed=1)], [chain.sample(9000, seed=2)]
    >>> longer = {"memory of 2": memory_predictor(public, 2, order=2)}
    >>> prediction_gap(chain_predictor(chain.transition), longer, held_out, 2, day=100).passed
    True
    """
    coded = checked_people(people, states)
    times = checked_slots(slots, coded, day)
    predictors = [given, *flexible.values()]
    scored, blocks, first = [], [], 0
    for person, slot in zip(coded, times, strict=True):
        if len(person) < 2:
            continue
        scores = np.array([-predict(person, slot) for predict in predictors])
        known = ~np.isnan(scores).any(axis=0)
        scored.append(scores[:, known])
        blocks.append(first + np.arange(1, len(person))[known] // day)
        first += len(person) // day + 1
    together = np.concatenate(scored, axis=1) if scored else np.empty((0, 0))
    if not together.size:
        raise NotApplicable("people: no two neighbouring entries were observed; nothing to predict")
    means = together.mean(axis=1)
    best = 1 + int(np.argmin(means[1:]))
    error = _error(together[0] - together[best], np.concatenate(blocks))
    others = dict(zip(flexible, means[1:].tolist(), strict=True))
    return PredictionGap(float(means[0]), others, error)


def _error(difference: Floats, blocks: Codes) -> float:
    """Standard error of a mean whose terms depend on one another within blocks."""
    _, own = np.unique(blocks, return_inverse=True)
    count = int(own.max()) + 1
    if count < 2:
        return 0.0
    sums = np.bincount(own, difference - difference.mean(), minlength=count)
    return float(np.sqrt(count / (count - 1) * np.sum(sums**2)) / len(difference))


def chain_predictor(kernels: Any, day: int = 1) -> Predictor:
    """The predictor of a chain: one matrix, or one for each of equal parts of a day."""
    matrices = np.array(kernels, dtype=float)
    table = matrices[None] if matrices.ndim == 2 else matrices

    def predict(person: Codes, slots: Codes) -> Floats:
        part = slots[:-1] * len(table) // day if len(table) > 1 else np.zeros_like(slots[:-1])
        with np.errstate(divide="ignore"):
            scores = np.log(table[part, person[:-1], person[1:]])
        return np.where((person[:-1] >= 0) & (person[1:] >= 0), scores, np.nan)

    return predict


def memory_predictor(people: Sequence[Any], states: int, order: int) -> Predictor:
    """A chain of higher order that backs off to shorter contexts (`shrunk_tables`).

    A context that was not fully observed is as long as its observed end.
    """
    tables = shrunk_tables(people, states, order)

    def predict(person: Codes, slots: Codes) -> Floats:
        chances = np.tile(tables[0], (len(person) - 1, 1))
        for length in range(1, min(order + 1, len(person))):
            context = np.lib.stride_tricks.sliding_window_view(person[:-1], length)
            known = (context >= 0).all(axis=1)
            chances[length - 1 :][known] = tables[length][tuple(context[known].T)]
        scores = np.log(chances[np.arange(len(chances)), person[1:]])
        return np.where(person[1:] >= 0, scores, np.nan)

    return predict


def boosted_predictor(
    people: Sequence[Any],
    states: int,
    *,
    day: int = 1,
    slots: Sequence[Any] | None = None,
    seed: int = 0,
) -> Predictor:
    """Gradient boosting on the last entries, shares of recent windows, run length and clock.

    Needs scikit-learn, the extra ``checks``.
    """
    try:
        from sklearn.ensemble import HistGradientBoostingClassifier  # noqa: PLC0415
    except ImportError:
        raise NotApplicable(
            "gradient boosting needs scikit-learn; install it with pip install 'pufferkit[checks]'"
        ) from None
    coded = checked_people(people, states)
    times = checked_slots(slots, coded, checks.whole("day", day, 1))
    inputs = np.concatenate(
        [_features(p, s, states, day) for p, s in zip(coded, times, strict=True)]
    )
    targets = np.concatenate([person[1:] for person in coded])
    usable = np.flatnonzero(targets >= 0)
    if np.unique(targets[usable]).size < 2:
        raise NotApplicable("people: only one state follows; there is nothing to learn")
    if usable.size > _MOST_ROWS:
        usable = np.random.default_rng(seed).choice(usable, _MOST_ROWS, replace=False)
    model = HistGradientBoostingClassifier(
        max_iter=100,
        learning_rate=0.08,
        max_leaf_nodes=15,
        min_samples_leaf=60,
        l2_regularization=5.0,
        early_stopping=True,
        random_state=seed,
    )
    with one_thread():
        model.fit(inputs[usable], targets[usable])

    def predict(person: Codes, slots: Codes) -> Floats:
        chances = np.full((len(person) - 1, states), _FLOOR)
        own = model.predict_proba(_features(person, slots, states, day))
        chances[:, model.classes_] = np.maximum(own, _FLOOR)
        chances /= chances.sum(axis=1, keepdims=True)
        scores = np.log(chances[np.arange(len(chances)), person[1:]])
        return np.where(person[1:] >= 0, scores, np.nan)

    return predict


def _features(person: Codes, slots: Codes, states: int, day: int) -> Floats:
    """What is known before each entry after the first."""
    length = len(person)
    place = np.arange(length)
    columns: list[Any] = [
        np.concatenate((np.full(lag, -1), person[: length - lag]))[:length] for lag in range(_LAGS)
    ]
    few = states <= 10  # with many ordered levels shares of each are too many columns
    marks = [person == state for state in range(states)] if few else [np.maximum(person, 0)]
    for span in _SPANS:
        start = np.maximum(place + 1 - span, 0)
        for mark in marks:
            upto = np.concatenate(([0], np.cumsum(mark)))
            columns.append((upto[place + 1] - upto[start]) / (place + 1 - start))
    changed = np.concatenate(([True], person[1:] != person[:-1]))
    columns.append(place - np.maximum.accumulate(np.where(changed, place, 0)))
    if day > 1:
        angle = 2 * np.pi * slots / day
        columns += [np.sin(angle), np.cos(angle), slots]
    return np.column_stack(columns)[:-1].astype(float)


SMALL = 1e-4
"""The event-level epsilon at which budgets are compared: a floor by influence holds as it goes to
0, where the loss is linear in it."""

_FIRST = 2_000
_MANY = 12
_ROUNDS = 40
_LEAST = 1e-300


_HARDEST = 4
"""Of many models of regimes those with most influence are asked for the budget."""


def budgeted_influence(theta: ChainClass, window: int) -> float:
    """The influence, in entries, that the noise of a class allows: epsilon / b at a small b.

    Over a series of 2 ``window`` + period entries, the period that of the clock of the class: in
    every slot there is an entry with whole windows on either side, the same window in which
    influence is measured. Of many models of regimes the few with most influence stand for all:
    the budget may then come out smaller than it is, which refutes more.
    """
    length = 2 * checks.whole("window", window, 1) + theta.period
    return InfluenceCurve(_hardest(theta, window), length).epsilon(SMALL) / SMALL


@singledispatch
def _hardest(theta: ChainClass, window: int) -> ChainClass:
    """The class, or of many models of regimes those with most influence."""
    return theta


@_hardest.register
def _(theta: RegimeClass, window: int) -> ChainClass:
    if theta.together == "hull" or theta.switching:
        return theta
    order = sorted(theta.models, key=lambda model: -regime_influence(model, window))
    known: Any = {name: getattr(theta, name) for name in ("emissions", "secret", "slow", "step")}
    each = (RegimeClass(m.transition, m.emission, theta.states, **known) for m in order[:_HARDEST])
    return RegimeClass.of(*each)


def filtered(member: MarkovChain | HiddenChain, person: Codes) -> Floats:
    """Distribution of each entry after the first given those before it, a row for each.

    The forward recursion over the hidden states that emit what was observed. A row is NaN once the
    data have probability zero under the member.
    """
    hidden = member.chain if isinstance(member, HiddenChain) else member
    shown = np.asarray(member.shown if isinstance(member, HiddenChain) else range(len(member)))
    showing = [np.flatnonzero(shown == state) for state in range(len(member.states))]
    everywhere = np.arange(len(shown))
    spread = np.zeros((len(shown), len(showing)))
    spread[everywhere, shown] = 1.0
    rows = np.full((len(person) - 1, len(showing)), np.nan)
    ahead = np.asarray(hidden.initial)
    for t, code in enumerate(person[:-1]):
        places = everywhere if code < 0 else showing[code]
        here = ahead[places]
        total = here.sum()
        if not total > 0:
            break
        ahead = (here / total) @ hidden.transition[places]
        rows[t] = ahead @ spread
    return rows


def member_predictor(member: MarkovChain | HiddenChain) -> Predictor:
    """The predictor of one distribution; entries of probability zero are not scored."""

    def predict(person: Codes, slots: Codes) -> Floats:
        rows = filtered(member, person)
        chances = rows[np.arange(len(rows)), person[1:]]
        with np.errstate(divide="ignore"):
            scores = np.log(chances)
        scores[np.isnan(chances)] = -np.inf
        return np.where(person[1:] >= 0, scores, np.nan)

    return predict


def schedule_predictor(kernels: Sequence[Floats], block: int) -> Predictor:
    """Mixtures of kernels whose weights are chosen in hindsight for every ``block`` of entries."""
    matrices = np.array(kernels)

    def predict(person: Codes, slots: Codes) -> Floats:
        scores = np.full(len(person) - 1, np.nan)
        for at in _observed_moves(person, block):
            if not at.size:
                continue
            chances = matrices[:, person[at], person[at + 1]].T
            weights = np.full(len(matrices), 1 / len(matrices))
            for _ in range(_ROUNDS):
                shares = chances * weights
                shares /= np.maximum(shares.sum(axis=1, keepdims=True), _LEAST)
                weights = shares.mean(axis=0)
            with np.errstate(divide="ignore"):
                scores[at] = np.log(chances @ weights)
        return scores

    return predict


def _observed_moves(person: Codes, block: int) -> Iterator[Codes]:
    """Where both ends of a transition were observed, for every ``block`` of entries."""
    seen = (person[:-1] >= 0) & (person[1:] >= 0)
    for first in range(0, len(seen), block):
        yield first + np.flatnonzero(seen[first : first + block])


@dataclass(frozen=True, eq=False)
class Speaker:
    """One distribution of a class: how it predicts, and how series are drawn from it."""

    name: str
    predict: Predictor
    sample: Callable[[int, np.random.Generator], Codes]
    nats: Callable[[Sequence[Codes]], float]
    """The negative log-likelihood of people."""


def region_predictor(low: Floats, high: Floats, block: int) -> Predictor:
    """Chains within bounds, the nearest in hindsight for every ``block`` of entries."""
    size = len(low)

    def predict(person: Codes, slots: Codes) -> Floats:
        scores = np.full(len(person) - 1, np.nan)
        for at in _observed_moves(person, block):
            counts = np.zeros((size, size))
            np.add.at(counts, (person[at], person[at + 1]), 1)
            rows = zip(counts, low, high, strict=True)
            nearest = np.array([closest_in_box(*row) for row in rows])
            with np.errstate(divide="ignore"):
                scores[at] = np.log(nearest[person[at], person[at + 1]])
        return scores

    return predict


def best_member(theta: ChainClass, people: Sequence[Codes]) -> Speaker:
    """The distribution with the largest likelihood; of many, judged by the first entries."""
    bounds = region_bounds(theta)
    if bounds is not None:
        return _nearest(people, theta, *bounds)
    speakers = _speakers(theta)
    if len(speakers) == 1:
        return speakers[0]
    length = _FIRST if len(speakers) > _MANY else max(len(person) for person in people)
    parts = [person[:length] for person in people if len(person) > 1]
    return min(speakers, key=lambda one: one.nats(parts))


def _nearest(people: Sequence[Codes], theta: ChainClass, low: Floats, high: Floats) -> Speaker:
    """The chain within bounds with the largest likelihood."""
    counts = np.zeros(low.shape)
    for person in people:
        seen = (person[:-1] >= 0) & (person[1:] >= 0)
        np.add.at(counts, (person[:-1][seen], person[1:][seen]), 1)
    middle = (low + high) / 2
    rows = zip(
        np.where(counts.sum(axis=1, keepdims=True) > 0, counts, middle), low, high, strict=True
    )
    matrix = np.array([closest_in_box(*row) for row in rows])
    try:
        chain = MarkovChain.steady(matrix / matrix.sum(axis=1, keepdims=True), theta.states)
    except ValueError as error:
        raise NotApplicable(f"nearest chain of the region: {error}") from None
    return _speaker("nearest chain of the region", chain)


def _speaker(
    name: str, member: Any, nats: Callable[[Sequence[Codes]], float] | None = None
) -> Speaker:
    """A chain, or what a hidden chain shows; ``nats`` is a quicker way to its likelihood."""
    if not isinstance(member, (MarkovChain, HiddenChain)):
        raise NotApplicable(f"{name}: is no series of entries")
    predict = member_predictor(member)
    quick = chain_predictor(member.transition) if isinstance(member, MarkovChain) else predict
    return Speaker(name, predict, member.sample, nats or partial(_nats, quick))


def _nats(predict: Predictor, people: Sequence[Codes]) -> float:
    return -float(sum(np.nansum(predict(person, np.zeros_like(person))) for person in people))


@singledispatch
def _speakers(theta: ChainClass) -> list[Speaker]:
    """The distributions of a class that can represent it."""
    return [_speaker(one.name, one.distribution) for one in theta.distributions()]


@_speakers.register
def _(theta: RegimeClass) -> list[Speaker]:
    """Each model, with its likelihood by the compiled recursion."""
    return [
        _speaker(one.name, one.distribution, partial(_regime_nats, model))
        for one, model in zip(theta.distributions(), theta.models, strict=True)
    ]


def _regime_nats(model: HiddenModel, people: Sequence[Codes]) -> float:
    return -log_likelihood(model, people)


@_speakers.register
def _(theta: SeasonalClass) -> list[Speaker]:
    """The chain of the clock from each slot; one chain of slots and states would be too large."""
    period = len(theta.matrices)
    slots = range(period) if theta.start is None else (theta.start,)
    matrices, sums = np.array(theta.matrices), np.cumsum(theta.matrices, axis=2)

    def speaker(first: int) -> Speaker:
        def predict(person: Codes, slots: Codes) -> Floats:
            clock = (first + np.arange(len(person))) % period
            return chain_predictor(matrices, period)(person, clock)

        def sample(length: int, rng: np.random.Generator) -> Codes:
            draws = rng.random(length)
            start = np.cumsum(theta.marginals[first])[:-1].searchsorted(draws[0], side="right")
            clock = (first + np.arange(length - 1)) % period
            upto = sums[clock, :, :-1] <= draws[1:, None, None]
            moves = upto.sum(axis=2, dtype=np.int16)
            return np.concatenate(([start], composed(int(start), moves)))

        return Speaker(f"first entry at slot {first}", predict, sample, partial(_nats, predict))

    return [speaker(first) for first in slots]


def class_predictor(theta: ChainClass, people: Sequence[Codes], block: int) -> Predictor:
    """The best predictor of a class."""
    bounds = region_bounds(theta)
    if bounds is not None:
        return region_predictor(*bounds, block)
    kernels = None if lists_all(theta) else forward_kernels(theta)
    if kernels is None:
        return best_member(theta, people).predict
    return schedule_predictor(kernels, block)


def region_bounds(theta: ChainClass) -> tuple[Floats, Floats] | None:
    """Bounds on the matrix that are the class; ``None`` for other classes."""
    if not theta.homogeneous or theta.lists_matrices or not theta.names_matrices:
        return None
    boxes = theta.boxes()
    return (boxes[0][1], boxes[0][2]) if len(boxes) == 1 else None


def lists_all(theta: ChainClass) -> bool:
    """Whether a class holds no more than the distributions it lists, but for their start."""
    return theta.lists_models and theta.contamination == 0


def forward_kernels(theta: ChainClass) -> list[Floats] | None:
    """The matrices of the chains a class lists; ``None`` where entries are no such chain."""
    if theta.period > 1:
        return None
    members = [one.distribution for one in theta.distributions()]
    if not all(isinstance(member, MarkovChain) for member in members):
        return None
    return [member.transition for member in members if isinstance(member, MarkovChain)]


@singledispatch
def schedule_of(theta: ChainClass, *, from_start: bool) -> Floats | None:
    """The matrix for each slot, where a class is one chain of the clock; ``None`` for others.

    ``from_start`` counts slots from the first entry of a series, if the class knows that slot.
    """
    return None


@schedule_of.register
def _(theta: SeasonalClass, *, from_start: bool) -> Floats | None:
    turned = (theta.start or 0) if from_start else 0
    return np.roll(theta.matrices, -turned, axis=0)
