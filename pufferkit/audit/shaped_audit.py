"""The audit of shaped noise: outputs are coordinates, and their noise is sech.

The attacker's likelihood of coordinates o given a secret is the mean over the answers of prod_j
sech((o_j - S_j) / s_j). The loss that outputs show is climbed for: the suprema over outputs of its
theorem are attained in no listed points, so what is found is a lower bound.
"""

from __future__ import annotations

from collections.abc import Hashable
from itertools import combinations, permutations, product
from math import log, pi, sqrt

import numpy as np

from pufferkit.audit.answer_model import AnswerDistribution, AnswerModel, distributions_of, model_of
from pufferkit.audit.limits import ScoreEvent, choose, detectable_epsilon, proven_epsilon
from pufferkit.audit.noise_drawn import NoiseDrawn
from pufferkit.audit.report import Audit, WorstCase
from pufferkit.beliefs.base import Beliefs, Distribution
from pufferkit.checks import Floats
from pufferkit.errors import NotApplicable
from pufferkit.mechanisms.shaped import ShapedCalibration
from pufferkit.noise import DiscreteSech

_PILOT, _CENTRES, _VALUES = 2_000, 400, 8
_MOST_BELIEFS, _MOST_AXES, _CELLS = 40, 8, 10**6
_RANDOM, _ROUNDS, _KEPT, _SHORT = 400, 12, 6, 8
_FAR = 40.0
"""Of the scales: outputs so far beyond all answers are outer ones."""

_NOTHING = "no entry can take two values, so there is no secret to distinguish"


def log_likelihood(known: AnswerDistribution, outputs: Floats, scales: Floats) -> Floats:
    """Of each output, up to one constant, from a distribution of coordinates."""
    kept = known.weights > 0
    points, logs = known.points[kept], np.log(known.weights[kept])
    found, block = np.empty(len(outputs)), max(1, _CELLS // len(points))
    for begin in range(0, len(outputs), block):
        part = outputs[begin : begin + block]
        terms = np.tile(logs, (len(part), 1))
        for j, scale in enumerate(scales):
            away = np.abs(part[:, j, None] - points[None, :, j]) / scale
            terms -= away + np.log1p(np.exp(-2 * away))
        top = terms.max(axis=1, keepdims=True)
        found[begin : begin + block] = top[:, 0] + np.log(np.exp(terms - top).sum(axis=1))
    return found


class _Attack:
    """One distribution of the data against one calibration."""

    def __init__(self, own: Distribution, calibration: ShapedCalibration) -> None:
        self.own, self.rotated = own, calibration.rotated
        self.model: AnswerModel = model_of(own, calibration.query)
        self.scales = np.array([float(s) for s in self.rotated.scales])

    def listed(self, at: int, code: int) -> AnswerDistribution | None:
        """The distribution of the coordinates given a secret, if it is known."""
        known = self.model.distribution(at, code)
        if known is None:
            return None
        units = np.rint(known.points / float(self.rotated.unit))
        return AnswerDistribution(units @ self.rotated.mix.astype(float), known.weights)

    def drawn(
        self, at: int, code: int, trials: int, rng: np.random.Generator
    ) -> tuple[Floats, Floats]:
        """Exact coordinates, and those with the noise of a release."""
        answers = self.model.draw(at, code, trials, rng)
        exact = self.rotated.exact(answers.distinct)[answers.which]
        places = np.tile(np.arange(len(self.scales)), len(exact))
        noisy = DiscreteSech.of(*self.rotated.scales).on(exact.ravel(), places)
        return exact.astype(float), noisy.reshape(exact.shape).astype(float)


def worst_shaped(theta: Beliefs, calibration: ShapedCalibration) -> WorstCase:
    """The output, entry and pair of values with the largest loss that was found; a lower bound."""
    best: WorstCase | None = None
    rng = np.random.default_rng(len(calibration.rotated.scales))
    for own in distributions_of(theta, calibration):
        attack = _Attack(own, calibration)
        for at, entry in enumerate(attack.model.entries):
            known = {label: attack.listed(at, c) for c, label in attack.model.values(at)}
            if None in known.values():
                raise NotApplicable("too many answers to list; shorten the series or merge levels")
            for one, other in permutations(known, 2):
                loss, output = _climbed(known[one], known[other], attack.scales, rng)
                if best is None or loss > best.loss:
                    best = WorstCase(loss, own.name, entry, one, other, tuple(output), False)
    if best is None:
        raise NotApplicable(_NOTHING)
    return best


def _climbed(
    one: AnswerDistribution | None,
    other: AnswerDistribution | None,
    scales: Floats,
    rng: np.random.Generator,
) -> tuple[float, list[float]]:
    """The largest log-ratio over outer and random outputs, and uphill from the best."""
    assert one is not None
    assert other is not None
    low = np.minimum(one.points.min(axis=0), other.points.min(axis=0)) - _FAR * scales
    high = np.maximum(one.points.max(axis=0), other.points.max(axis=0)) + _FAR * scales
    axes = min(len(scales), _MOST_AXES)
    sides = np.array(list(product((0.0, 1.0), repeat=axes)))
    sides = np.hstack([sides, rng.integers(0, 2, (len(sides), len(scales) - axes))])
    tried = np.vstack([low + (high - low) * sides, rng.uniform(low, high, (_RANDOM, len(scales)))])
    best, where = np.full(_KEPT, -np.inf), tried[:_KEPT]
    for turn in range(_ROUNDS):
        ratios = log_likelihood(one, tried, scales) - log_likelihood(other, tried, scales)
        every, places = np.append(best, ratios), np.vstack([where, tried])
        top = np.argsort(-every)[:_KEPT]
        best, where = every[top], places[top]
        steps = rng.normal(size=(_KEPT, 20, len(scales))) * scales * 4 / (1 + turn)
        tried = np.rint(where[:, None] + steps).reshape(-1, len(scales))
    return float(best[0]), where[0].tolist()


def audit_shaped(
    calibration: ShapedCalibration,
    theta: Beliefs,
    trials: int,
    confidence: float,
    entry: Hashable | None,
    rng: np.random.Generator,
) -> Audit:
    """See `pufferkit.audit.audit`: the likelihood ratio of noisy coordinates."""
    error = (1 - confidence) / 2
    best: tuple[ScoreEvent, _Attack, int, list[tuple[int, Hashable, AnswerDistribution]]] | None
    best = None
    for own in distributions_of(theta, calibration)[:_MOST_BELIEFS]:
        attack = _Attack(own, calibration)
        for at in _attacked(attack.model, calibration, entry):
            sides = []
            for code, label in attack.model.values(at)[:_VALUES]:
                exact, noisy = attack.drawn(at, code, _PILOT, rng)
                known = attack.listed(at, code)
                if known is None:
                    some = exact[:_CENTRES]
                    known = AnswerDistribution(some, np.full(len(some), 1 / len(some)))
                sides.append((code, label, known, noisy))
            for one, other in combinations(sides, 2):
                scores = [_ratio(one[2], other[2], own[3], attack.scales) for own in (one, other)]
                choice = choose(scores[0], scores[1], trials, 1 - error)
                if best is None or choice.expected > best[0].expected:
                    best = choice, attack, at, [one[:3], other[:3]]
    if best is None:
        raise NotApplicable(_NOTHING)
    choice, attack, at, pair = best
    first, second = pair[::-1] if choice.flipped else pair
    hits, noises = [], []
    for code, _, _ in (first, second):
        exact, noisy = attack.drawn(at, code, trials, rng)
        noises.append(noisy - exact)
        hits.append(choice.hits(_ratio(pair[0][2], pair[1][2], noisy, attack.scales)))
    short = sum(calibration.query.lengths) <= _SHORT
    try:
        exact_case = worst_shaped(theta, calibration) if short else None
    except NotApplicable:
        exact_case = None
    return Audit(
        mechanism=calibration.mechanism,
        promise=calibration.epsilon,
        guarantee=str(calibration.guarantee),
        proven=proven_epsilon(hits[0], hits[1], trials, 1 - error),
        confidence=confidence,
        attacker=f"likelihood ratio of the noisy coordinates of {calibration.query.name}",
        event=choice.described("p(w | {!r})", first[1], second[1]),
        trials=trials,
        hits=(hits[0], hits[1]),
        belief=attack.own.name,
        entry=attack.model.entries[at],
        secrets=(first[1], second[1]),
        exact=exact_case,
        noise=_measured(np.vstack(noises), attack.scales, error),
        detectable=detectable_epsilon(hits[0], trials, 1 - error, calibration.epsilon),
    )


def _ratio(
    one: AnswerDistribution, other: AnswerDistribution, outputs: Floats, scales: Floats
) -> Floats:
    return log_likelihood(one, outputs, scales) - log_likelihood(other, outputs, scales)


def _attacked(
    model: AnswerModel, calibration: ShapedCalibration, entry: Hashable | None
) -> list[int]:
    """All entries of a short series; else the ends, the middle and the one that binds."""
    count = len(model.entries)
    if entry is not None:
        if entry not in model.entries:
            raise ValueError(f"entry: {entry!r} is not an entry; they are 1 to {count}")
        return [model.entries.index(entry)]
    node = calibration.evidence.node
    chosen = {0, (count - 1) // 2, count - 1, node - 1 if isinstance(node, int) else 0}
    return list(range(count)) if count <= 6 else sorted(at for at in chosen if at < count)


def _measured(noise: Floats, scales: Floats, error: float) -> NoiseDrawn:
    """Whether each coordinate has sech noise of its scale, by the bound of Massart.

    Between whole numbers the distribution of discrete noise is that of real noise up to about
    e^(-pi^2 scale): (2 / pi) arctan(e^(x / s)). For small scales it is summed.
    """
    problems, rows = [], len(noise)
    reach = sqrt(log(2 * len(scales) / error) / (2 * rows))
    for j, scale in enumerate(scales):
        values, counts = np.unique(noise[:, j], return_counts=True)
        expected = _distribution(values + 0.5, float(scale))
        before = _distribution(values - 0.5, float(scale))
        seen = np.cumsum(counts) / rows
        gap = max(np.abs(seen - expected).max(), np.abs(seen - counts / rows - before).max())
        if gap > reach + 1e-6:
            problems.append(f"coordinate {j + 1} has not sech noise of scale {scale:.6g}")
    claimed = float(scales.max())
    least, most = (0.0, claimed) if problems else (claimed, claimed)
    return NoiseDrawn(claimed, least, most, noise.size, "; ".join(problems), 1 - 2 * reach)


def _distribution(at: Floats, scale: float) -> Floats:
    """P(Z <= at) halfway between whole numbers."""
    if scale >= 2:
        return np.asarray(2 / pi * np.arctan(np.exp(np.clip(at / scale, -700, 700))))
    places = np.arange(-200, 201)
    weights = 1 / np.cosh(np.clip(places / scale, -700, 700))
    below = np.cumsum(weights) / weights.sum()
    return np.asarray(below[np.clip(np.floor(at).astype(int) + 200, 0, 400)])
