"""How well a belief predicts held-out people, compared with flexible predictors.

Privacy against a belief is worth little where better predictions are easy. A *predictor* takes a
person's codes and the time of day of each entry and returns, for every entry after the first, its
predictive log-probability; NaN where nothing was observed. Its score is the mean negative
log-probability, in nats per step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pufferkit import checks
from pufferkit.checks import Floats
from pufferkit.errors import NotApplicable
from pufferkit.fitting.sequences import Codes, checked_people, checked_slots
from pufferkit.threads import one_thread

Predictor = Callable[[Codes, Codes], Floats]
"""Codes and slots of one person to log-probabilities of the entries after the first."""

TOLERANCE = 0.02
"""Nats per step that a belief may lose to the best flexible predictor."""

_SHARE = 0.03
"""The same as a share of what that one has, where there is much to predict."""

_BACK_OFF = 5.0
"""Visits to a context that weigh as much as the shorter contexts."""

_MOST_CELLS = 4_000_000
_MOST_ORDER = 4
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
    if not flexible:
        raise ValueError("flexible: name at least one predictor to compare with")
    coded = checked_people(people, states)
    length = checks.whole("day", day, 1)
    times = checked_slots(slots, coded, length)
    names = list(flexible)
    predictors = [given, *flexible.values()]
    scored, blocks, first = [], [], 0
    for person, slot in zip(coded, times, strict=True):
        if len(person) < 2:
            continue
        scores = np.array([-predict(person, slot) for predict in predictors])
        if scores.shape != (len(predictors), len(person) - 1):
            raise ValueError("predictors: must score every entry after the first, NaN if unknown")
        known = ~np.isnan(scores).any(axis=0)
        scored.append(scores[:, known])
        blocks.append(first + np.arange(1, len(person))[known] // length)
        first += len(person) // length + 1
    together = np.concatenate(scored, axis=1) if scored else np.empty((0, 0))
    if not together.size:
        raise NotApplicable("people: no two neighbouring entries were observed; nothing to predict")
    means = together.mean(axis=1)
    best = 1 + int(np.argmin(means[1:]))
    error = _error(together[0] - together[best], np.concatenate(blocks))
    others = dict(zip(names, means[1:].tolist(), strict=True))
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


def memory_predictor(people: Sequence[Any], states: int, order: int | None = None) -> Predictor:
    """A chain of higher order that backs off to shorter contexts.

    The distribution after a context of m entries is (n + 5 q) / (sum n + 5), with n the counts
    after it and q what the context of m - 1 entries says. A context that was not fully observed is
    as long as its observed end. ``order`` is at most 4, and less with many states.
    """
    coded = checked_people(people, states)
    most = next(m for m in range(_MOST_ORDER, 0, -1) if states ** (m + 1) <= _MOST_CELLS or m == 1)
    longest = most if order is None else checks.whole("order", order, 1)
    if longest > most:
        raise ValueError(f"order: {longest} needs too large a table; {states} states allow {most}")
    counts = np.bincount(np.concatenate(coded)[np.concatenate(coded) >= 0], minlength=states)
    tables = [((counts + 0.5) / (counts + 0.5).sum())[None, :]]
    for length in range(1, longest + 1):
        number = np.zeros(states**length * states)
        for person in coded:
            context = _contexts(person, states, length)
            seen = (context >= 0) & (person[1:] >= 0)
            moves = context[seen] * states + person[1:][seen]
            number += np.bincount(moves, minlength=len(number))
        own = number.reshape(-1, states)
        # The newest entry is the lowest digit, so shorter contexts repeat.
        shorter = np.tile(tables[-1], (len(own) // len(tables[-1]), 1))
        tables.append((own + _BACK_OFF * shorter) / (own.sum(axis=1, keepdims=True) + _BACK_OFF))

    def predict(person: Codes, slots: Codes) -> Floats:
        scores = np.full(len(person) - 1, np.nan)
        for length, table in enumerate(tables):
            context = _contexts(person, states, length)
            seen = (context >= 0) & (person[1:] >= 0)
            scores[seen] = np.log(table[context[seen], person[1:][seen]])
        return scores

    return predict


def _contexts(person: Codes, states: int, length: int) -> Codes:
    """Number of the last ``length`` entries before each but the first; -1 if not all are seen."""
    context = np.zeros(len(person) - 1, dtype=np.intp)
    for lag in range(length):
        earlier = np.concatenate((np.full(lag, -1, dtype=np.intp), person[: len(person) - 1 - lag]))
        context = np.where((context < 0) | (earlier < 0), -1, context + earlier * states**lag)
    return context


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
