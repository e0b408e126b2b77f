"""The audit of a noisy choice: a quantile whose level is chosen by the exponential mechanism.

Among levels with scores u_1, ..., u_k, level j has the largest sum of score and exponential noise
of scale s with probability

    x_j times the integral over v from 0 to 1 of the product over i other than j of (1 - v x_i),

x_i = e^{(u_i - max u) / s}: the noise of level j is above v' with probability e^{-v' / s}, and v is
that. The integrand is a polynomial of degree k - 1, so that Gauss-Legendre quadrature with k / 2
points or more has no error but rounding. Given a secret the output is a mixture of these over the
data, there are k outputs, and the loss is the largest log-ratio of all of them.
"""

from __future__ import annotations

from collections.abc import Hashable
from fractions import Fraction
from itertools import combinations, permutations
from math import sqrt
from typing import Any

import numpy as np

from pufferkit.audit.answer_distributions import AnswerModel
from pufferkit.audit.answer_models import model_of
from pufferkit.audit.noise_drawn import NoiseDrawn
from pufferkit.audit.report import Audit, WorstCase
from pufferkit.audit.success_limits import detectable_epsilon, proven_epsilon
from pufferkit.beliefs.base import Beliefs, Distribution
from pufferkit.checks import Floats
from pufferkit.data.asking import histogram
from pufferkit.data.queries import rank_scores
from pufferkit.errors import NotApplicable
from pufferkit.mechanisms.calibration import Calibration
from pufferkit.noise import choice_scale

_PILOT = 2_000


def chosen(counts: Floats, share: Fraction, scale: float) -> Floats:
    """The probability of each level, a row for each row of counts."""
    rows = []
    points, weights = np.polynomial.legendre.leggauss(counts.shape[1] // 2 + 1)
    at = (points + 1) / 2
    for row in counts.tolist():
        scores = np.array(rank_scores([Fraction(int(n)) for n in row], share), dtype=float)
        drawn = choice_scale(scale, len(scores))
        odds = np.exp((scores - scores.max()) / share.denominator / drawn)
        factors = 1 - at[:, None] * odds
        each = [np.delete(factors, j, axis=1).prod(axis=1) for j in range(len(odds))]
        rows.append([x * float(weights @ own) / 2 for x, own in zip(odds, each, strict=True)])
    return np.array(rows)


def worst_choice(theta: Beliefs, mechanism: Calibration) -> WorstCase:
    """The level, entry and pair of values with the largest loss."""
    best: WorstCase | None = None
    complete = not theta.any_start_members()
    for own in theta.distributions():
        model = _model(own, mechanism)
        for entry in range(len(model.entries)):
            case = _worst_level(own, model, entry, mechanism)
            if case is not None and (best is None or case.loss > best.loss):
                best = case
        complete = complete and own.complete
    if best is None:
        raise NotApplicable("no entry can take two values, so there is no secret to distinguish")
    return WorstCase(
        best.loss, best.belief, best.entry, best.likelier, best.other, best.output, complete
    )


def _model(own: Distribution, mechanism: Calibration) -> AnswerModel:
    """How often each level occurs, which is all that the choice depends on."""
    query = mechanism.query
    return model_of(own, histogram(query.states or (), query.lengths))


def _probabilities(
    model: AnswerModel, mechanism: Calibration, entry: int, code: int
) -> Floats | None:
    """Of each level, given a secret; ``None`` if that cannot be listed."""
    distribution = model.distribution(entry, code)
    if distribution is None:
        return None
    each = chosen(distribution.points, _share(mechanism), mechanism.scale)
    mixed: Floats = distribution.weights @ each
    return mixed


def _worst_level(
    own: Distribution, model: AnswerModel, entry: int, mechanism: Calibration
) -> WorstCase | None:
    levels = (mechanism.query.question or {})["levels"]
    best: WorstCase | None = None
    known: dict[Hashable, Floats] = {}
    for code, label in model.values(entry):
        probabilities = _probabilities(model, mechanism, entry, code)
        if probabilities is None:
            raise NotApplicable(
                "too many counts of levels to list; shorten the series or merge levels"
            )
        known[label] = np.log(probabilities)
    for one, other in permutations(known, 2):
        apart = known[one] - known[other]
        at = int(apart.argmax())
        if best is None or apart[at] > best.loss:
            best = WorstCase(
                float(apart[at]), own.name, model.entries[entry], one, other, (levels[at],)
            )
    return best


def audit_choice(
    mechanism: Calibration,
    theta: Beliefs,
    trials: int,
    confidence: float,
    entry: Hashable | None,
    rng: np.random.Generator,
) -> Audit:
    """See `pufferkit.audit.audit`: the attacker names a secret by the level that was chosen."""
    try:
        exact = worst_choice(theta, mechanism)
    except NotApplicable:
        exact = None
    error = (1 - confidence) / 2
    best: tuple[float, Any] | None = None
    for own in theta.distributions()[:40]:
        model = _model(own, mechanism)
        for at in _attacked(model, entry):
            for one, other in combinations(model.values(at), 2):
                rates = [_rates(model, mechanism, at, secret, rng) for secret in (one, other)]
                for first, second, order in ((0, 1, (one, other)), (1, 0, (other, one))):
                    for event in _events(rates[first], rates[second]):
                        hits = [rates[n][event].sum() * trials for n in (first, second)]
                        expected = proven_epsilon(int(hits[0]), int(hits[1]) + 1, trials, 1 - error)
                        if best is None or expected > best[0]:
                            best = (expected, (own, model, at, order, event))
    if best is None:
        raise NotApplicable("no entry can take two values, so there is no secret to distinguish")
    own, model, at, secrets, event = best[1]
    levels = (mechanism.query.question or {})["levels"]
    hits, problems = [], []
    for code, label in secrets:
        answers = model.draw(at, code, trials, rng)
        places = np.array([mechanism.chosen_place(answers.distinct[n]) for n in answers.which])
        hits.append(int(np.isin(places, event).sum()))
        problem = _not_as_claimed(answers.points[answers.which], places, mechanism, error / 2)
        problems += [f"{problem}, given {label}"] if problem else []
    scale = mechanism.scale
    return Audit(
        mechanism=mechanism.mechanism,
        promise=mechanism.epsilon,
        guarantee=str(mechanism.guarantee),
        proven=proven_epsilon(hits[0], hits[1], trials, 1 - error),
        confidence=confidence,
        attacker=f"the level that was chosen as {mechanism.query.name}",
        event=f"it is one of {', '.join(f'{levels[n]:g}' for n in event)}",
        trials=trials,
        hits=(hits[0], hits[1]),
        belief=own.name,
        entry=model.entries[at],
        secrets=(secrets[0][1], secrets[1][1]),
        exact=exact,
        noise=NoiseDrawn(scale, scale, scale, 2 * trials, "; ".join(problems), 0.0),
        detectable=detectable_epsilon(hits[0], trials, 1 - error, mechanism.epsilon),
    )


def _share(mechanism: Calibration) -> Fraction:
    return Fraction((mechanism.query.question or {})["share"])


def _attacked(model: AnswerModel, entry: Hashable | None) -> list[int]:
    """The first entry, the one in the middle and the last; or the one that is named."""
    if entry is not None:
        if entry not in model.entries:
            raise ValueError(f"entry: {entry!r} is not an entry")
        return [model.entries.index(entry)]
    count = len(model.entries)
    return sorted({0, (count - 1) // 2, count - 1})


def _rates(
    model: AnswerModel,
    mechanism: Calibration,
    at: int,
    secret: tuple[int, Hashable],
    rng: np.random.Generator,
) -> Floats:
    """How often each level is chosen given a secret: computed, or estimated from drawn data."""
    known = _probabilities(model, mechanism, at, secret[0])
    if known is not None:
        return known
    answers = model.draw(at, secret[0], _PILOT, rng)
    each = chosen(answers.points[answers.which], _share(mechanism), mechanism.scale)
    rates: Floats = each.mean(axis=0)
    return rates


def _events(one: Floats, other: Floats) -> list[Any]:
    """Sets of levels that speak for the first secret, the clearest ones first."""
    order = np.argsort(-(one / other))
    return [order[:n] for n in range(1, len(order))]


def _not_as_claimed(counts: Floats, places: Any, mechanism: Calibration, error: float) -> str:
    """Whether levels are chosen as often as they should be, up to the bound of Hoeffding."""
    rows, which = np.unique(counts, axis=0, return_inverse=True)
    each = chosen(rows, _share(mechanism), mechanism.scale)
    expected = np.bincount(which.ravel(), minlength=len(rows)) @ each / len(counts)
    seen = np.bincount(places, minlength=counts.shape[1]) / len(counts)
    reach = sqrt(np.log(2 * counts.shape[1] / error) / (2 * len(counts)))
    far = np.abs(seen - expected)
    if far.max() <= reach:
        return ""
    at = int(far.argmax())
    return f"a level is chosen with frequency {seen[at]:.4g}, not {expected[at]:.4g}"
