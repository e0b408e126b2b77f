"""The audit of a release, in three parts.

*The exact loss.* Where it can be computed (`pufferkit.audit.exact_loss`), the loss of Laplace noise
of the claimed scale, by the definition. A scale that is too small for its promise is detected
whatever the number of trials, also where the outputs that reveal it are too rare ever to be drawn.

*The noise.* Whether the sampler of releases draws what it claims (`pufferkit.audit.noise_drawn`).

*The attack.* Draw data given each of two secrets, release them, and try to distinguish them.

The attacker knows the belief, the query and the noise, so the best test is the likelihood ratio of
the output under the two secrets. Which entry, which two values and which threshold, a pilot with
cheap noise decides. Then fresh data are drawn and noise is added by the very sampler of a release,
and what is counted there alone enters the verdict.

*A noisy choice* is a quantile whose level is chosen by the exponential mechanism. Among levels with
scores u_1, ..., u_k, level j has the largest sum of score and exponential noise of scale s with
probability

    x_j times the integral over v from 0 to 1 of the product over i other than j of (1 - v x_i),

x_i = e^{(u_i - max u) / s}: the noise of level j is above v' with probability e^{-v' / s}, and v is
that. The integrand is a polynomial of degree k - 1, so that Gauss-Legendre quadrature with k / 2
points or more has no error but rounding. Given a secret the output is a mixture of these over the
data, there are k outputs, and the loss is the largest log-ratio of all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from math import inf, sqrt
from typing import Any

import numpy as np

from pufferkit.audit.answer_model import (
    AnswerDistribution,
    AnswerModel,
    Answers,
    distributions_of,
    log_density,
    model_of,
)
from pufferkit.audit.exact_loss import (
    MOST_ENTRIES,
    furthest_apart,
    in_one_scale,
    stretches,
    worst_at,
    worst_release,
)
from pufferkit.audit.limits import ScoreEvent, choose, detectable_epsilon, proven_epsilon
from pufferkit.audit.noise_drawn import NoiseDrawn, measured, rehearsed
from pufferkit.audit.report import Audit, WorstCase
from pufferkit.beliefs.base import Beliefs, Distribution, as_beliefs
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
    complete = not any(member.any_start for member in theta.named_members)
    for own in theta.distributions():
        model = _model(own, mechanism)
        for entry in range(len(model.entries)):
            case = _worst_level(own, model, entry, mechanism)
            if case is not None and (best is None or case.loss > best.loss):
                best = case
        complete = complete and own.complete
    if best is None:
        raise NotApplicable("no entry can take two values, so there is no secret to distinguish")
    return replace(best, complete=complete)


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
    labels = [label for _, label in model.values(entry)]
    rows = [_probabilities(model, mechanism, entry, code) for code, _ in model.values(entry)]
    if len(rows) < 2:
        return None
    listed = [row for row in rows if row is not None]
    if len(listed) < len(rows):
        raise NotApplicable("too many counts of levels to list; shorten the series or merge levels")
    worst = furthest_apart(np.log(listed))
    output = ((mechanism.query.question or {})["levels"][worst[1]],)
    return worst_at(worst, own.name, model.entries[entry], labels, output)


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
        for at in _entries(model, mechanism, own, entry):
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


MOST_BELIEFS = 40
"""Most distributions of a class that are tried in the pilot."""

_PILOT_STEPS = 5e7
_MOST_STEPS = 2e10
_MOST_CENTRES = 200
_MOST_VALUES = 8


def audit_release(
    calibration: Calibration,
    beliefs: Any,
    trials: int,
    confidence: float,
    entry: Hashable | None,
    rng: np.random.Generator,
) -> Audit:
    """See `pufferkit.audit.audit`."""
    if calibration.query.chooses:
        return audit_choice(calibration, as_beliefs(beliefs), trials, confidence, entry, rng)
    stretch = np.array([float(more) for more in stretches(calibration)])
    distributions = distributions_of(as_beliefs(beliefs), calibration)
    notes = []
    if len(distributions) > MOST_BELIEFS:
        notes.append(f"{MOST_BELIEFS} of {len(distributions)} beliefs were tried")
        places = np.linspace(0, len(distributions) - 1, MOST_BELIEFS).astype(int)
        distributions = [distributions[n] for n in places]
    error = (1 - confidence) / 2  # one half for the attack, one for the noise
    walked = 2 * trials * sum(calibration.query.lengths)
    if walked > _MOST_STEPS:
        raise NotApplicable(
            f"drawing {sum(calibration.query.lengths):,} entries {2 * trials:,} times takes "
            f"{walked:.2g} steps, more than {_MOST_STEPS:.0e}; use fewer trials or a shorter series"
        )
    models = [(own, model_of(own, calibration.query)) for own in distributions]
    work = sum(len(_entries(m, calibration, own, entry)) for own, m in models)
    steps = sum(calibration.query.lengths) * max(1, work)
    pilot = int(min(20_000, trials, max(2_000, _PILOT_STEPS / steps)))
    best: tuple[_Found, Distribution, AnswerModel, int] | None = None
    for own, model in models:
        for at in _entries(model, calibration, own, entry):
            pair = _best_pair(model, at, calibration, pilot, trials, 1 - error, rng)
            if pair is not None and (best is None or pair.expected > best[0].expected):
                best = (pair, own, model, at)
    if best is None:
        raise NotApplicable("no entry can take two values, so there is no secret to distinguish")
    pair, own, model, at = best
    choice = pair.choice

    drawn: list[Floats] = []

    def hit(secret: _SecretModel) -> int:
        answers = model.draw(at, secret.code, trials, rng)
        outputs = _released(calibration, answers)
        drawn.append(outputs - answers.points[answers.which])
        return choice.hits(pair.score(outputs * stretch))

    sides = (pair.one, pair.other)
    first, second = sides[::-1] if choice.flipped else sides
    hits = hit(first), hit(second)
    claimed = calibration.drawn_scale
    checked = _measured(np.vstack(drawn), calibration, error)
    proven = proven_epsilon(*hits, trials, 1 - error)
    exact = _exact(beliefs, calibration, calibration.scale, None)
    weakest = detectable_epsilon(hits[0], trials, 1 - error, calibration.epsilon)
    if exact is not None:
        # The sampler may draw less than is claimed, by as much as goes unnoticed.
        # Whole noise may be so small that none at all would go unnoticed.
        least = claimed * checked.detectable
        unseen = _exact(beliefs, calibration, least, exact) if least > 0 else None
        weakest = max(calibration.epsilon, exact.loss if unseen is None else unseen.loss)
        weakest = weakest if least > 0 else inf
        if 0 < checked.most < claimed and checked.problem:
            really = _exact(beliefs, calibration, checked.most, exact)
            proven = max(proven, 0.0 if really is None else really.loss)
    return Audit(
        mechanism=calibration.mechanism,
        promise=calibration.epsilon,
        guarantee=str(calibration.guarantee),
        proven=proven,
        confidence=confidence,
        attacker=f"{pair.words} of the released {calibration.query.name}",
        event=pair.event(first.label, second.label),
        trials=trials,
        hits=hits,
        belief=own.name,
        entry=model.entries[at],
        secrets=(first.label, second.label),
        notes=tuple(notes),
        exact=exact,
        noise=checked,
        detectable=weakest,
    )


def _exact(
    beliefs: Any, calibration: Calibration, scale: float, near: WorstCase | None
) -> WorstCase | None:
    """The loss at this scale, where it can be computed; given where it was worst, only there."""
    query = in_one_scale(calibration)
    entries: list[int] | None = None
    if near is not None and isinstance(near.entry, int):
        entries = [near.entry - 1]
    elif sum(query.lengths) > MOST_ENTRIES:
        node, (length, *more) = calibration.evidence.node, query.lengths
        chosen = {0, (length - 1) // 2, length - 1}
        if isinstance(node, int) and not more:
            chosen.add(node - 1)
        entries = sorted(chosen)
    try:
        theta = as_beliefs(beliefs)
        return worst_release(theta, query, scale, distributions_of(theta, calibration), entries)
    except NotApplicable:
        return None


def _measured(noise: Floats, calibration: Calibration, error: float) -> NoiseDrawn:
    """The noise of all coordinates; where they have scales of their own, each scale by itself."""
    claimed, unit = calibration.drawn_scale, calibration.unit
    if calibration.scales is None:
        return measured(noise, claimed, error, unit)
    scales = np.array(calibration.scales)
    each = sorted(set(scales.tolist()))
    parts = [measured(noise[:, scales == own], own, error / len(each), unit) for own in each]
    worst = max(parts, key=lambda part: (bool(part.problem), -part.detectable))
    more = claimed / worst.claimed
    return replace(
        worst,
        claimed=claimed,
        least=worst.least * more,
        most=worst.most * more,
        draws=noise.size,
        problem="; ".join(part.problem for part in parts if part.problem),
    )


class _SecretModel:
    """One secret, the attacker's distribution of the answer, and pilot outputs."""

    def __init__(
        self,
        model: AnswerModel,
        at: int,
        secret: tuple[int, Hashable],
        pilot: int,
        calibration: Calibration,
        rng: np.random.Generator,
    ) -> None:
        self.code, self.label = secret
        answers = model.draw(at, self.code, 2 * pilot, rng)
        stretch = np.array([float(more) for more in stretches(calibration)])
        distribution = model.distribution(at, self.code)
        self.exact = distribution is not None
        known = distribution if distribution is not None else _empirical(answers, pilot)
        self.distribution = AnswerDistribution(known.points * stretch, known.weights)
        own = answers.points[answers.which[:pilot]] * stretch
        self.mean = own.mean(axis=0)
        self.spread = np.cov(own, rowvar=False).reshape(len(self.mean), -1)
        points = answers.points[answers.which[pilot:]]
        # Pilot only: this noise is quick, not safe, and is never released.
        self.outputs = (points + rehearsed(calibration, points.shape, rng)) * stretch


def _empirical(answers: Answers, pilot: int) -> AnswerDistribution:
    """The distribution of the first half of the draws, on few enough centres to compute with."""
    which = answers.which[:pilot]
    if answers.points.shape[1] > 1:
        which = which[:_MOST_CENTRES]
    seen, counts = np.unique(which, return_counts=True)
    return AnswerDistribution(answers.points[seen], counts / counts.sum())


@dataclass(frozen=True)
class _Found:
    """A score of outputs, high where they speak for ``one``, and an event made of it."""

    words: str
    score: Callable[[Floats], Floats]
    choice: ScoreEvent
    one: _SecretModel
    other: _SecretModel

    @property
    def expected(self) -> float:
        return self.choice.expected

    def event(self, first: Hashable, second: Hashable) -> str:
        if self.words == _LINEAR:
            edge = f"{self.choice.side} {self.choice.threshold:.4g}"
            return f"a weighted sum of the coordinates is {edge}"
        return self.choice.described("p(w | {!r})", first, second)


_LINEAR = "linear discriminant"


def _best_pair(
    model: AnswerModel,
    at: int,
    calibration: Calibration,
    pilot: int,
    trials: int,
    confidence: float,
    rng: np.random.Generator,
) -> _Found | None:
    scale = calibration.scale
    values = model.values(at)[:_MOST_VALUES]
    sides = [_SecretModel(model, at, secret, pilot, calibration, rng) for secret in values]
    best: _Found | None = None
    for one, other in combinations(sides, 2):
        for words, score in _scores(one, other, scale):
            choice = choose(score(one.outputs), score(other.outputs), trials, confidence)
            if best is None or choice.expected > best.expected:
                best = _Found(words, score, choice, one, other)
    return best


def _scores(
    one: _SecretModel, other: _SecretModel, scale: float
) -> Iterator[tuple[str, Callable[[Floats], Floats]]]:
    """The likelihood ratio; where it is only simulated, also a straight cut through the outputs.

    With many entries and coordinates a simulated distribution is too rough to divide by, and the
    answers are nearly normal, for which the straight cut is best.
    """

    def ratio(outputs: Floats) -> Floats:
        return log_density(one.distribution, outputs, scale) - log_density(
            other.distribution, outputs, scale
        )

    if one.exact:
        yield "likelihood ratio (exact distributions)", ratio
        return
    yield "likelihood ratio (simulated distributions)", ratio
    between = one.mean - other.mean
    within = (one.spread + other.spread) / 2 + 2 * scale**2 * np.eye(len(between))
    weights = np.linalg.solve(within, between)
    yield _LINEAR, lambda outputs: outputs @ weights


def _released(calibration: Calibration, answers: Answers) -> Floats:
    """Releases of these answers, as `Calibration.release` makes them, many in one call."""
    noisy = calibration.noisy(answers.distinct, answers.which.tolist())
    return np.array(noisy, dtype=float).reshape(-1, calibration.query.size)


def _entries(
    model: AnswerModel, calibration: Calibration, own: Distribution, entry: Hashable | None
) -> list[int]:
    """Entries to attack: all of a short series; else the one that binds, the middle, the ends."""
    count = len(model.entries)
    if entry is not None:
        if entry not in model.entries:
            raise ValueError(f"entry: {entry!r} is not an entry; they are 1 to {count} or named")
        return [model.entries.index(entry)]
    if count <= 10 and own.complete:
        return list(range(count))
    lengths, node = calibration.query.lengths, calibration.evidence.node
    begin = sum(lengths[: lengths.index(max(lengths))])
    chosen = {begin, begin + (max(lengths) - 1) // 2, begin + max(lengths) - 1}
    if node in model.entries:
        chosen.add(model.entries.index(node) + (begin if isinstance(node, int) else 0))
    return sorted(at for at in chosen if at < count)
