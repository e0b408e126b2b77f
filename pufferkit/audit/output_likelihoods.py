"""Likelihoods of noisy outputs, and the choice of an event that tells two secrets apart.

An event chosen in advance is as good as any other for the truth of an audit: its two rates are
measured on fresh releases. What is chosen here decides only how much the audit can see.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from pufferkit.audit.answer_distributions import AnswerDistribution
from pufferkit.checks import Floats

_CELLS = 400_000


def log_density(distribution: AnswerDistribution, outputs: Floats, scale: float) -> Floats:
    """Log of the Laplace mixture at each output (one row each), up to one constant."""
    kept = distribution.weights > 0
    points, logs = distribution.points[kept], np.log(distribution.weights[kept])
    if points.shape[1] == 1:
        return _on_the_line(points[:, 0], logs, outputs[:, 0], scale)
    densities = np.empty(len(outputs))
    block = max(1, _CELLS // len(points))
    for begin in range(0, len(outputs), block):
        part = outputs[begin : begin + block]
        distance = np.zeros((len(part), len(points)))
        for j in range(points.shape[1]):
            distance += np.abs(part[:, j, None] - points[None, :, j])
        distance /= -scale
        distance += logs
        top = distance.max(axis=1)
        distance -= top[:, None]
        densities[begin : begin + block] = top + np.log(np.exp(distance, out=distance).sum(axis=1))
    return densities


def _on_the_line(centres: Floats, logs: Floats, outputs: Floats, scale: float) -> Floats:
    """By running sums: between two centres the mixture is A e^{-w/s} + B e^{w/s}."""
    order = np.argsort(centres)
    zero = centres[order[len(order) // 2]]  # keeps the exponents small
    sorted_ = (centres[order] - zero) / scale
    w = (outputs - zero) / scale
    below = np.concatenate([[-np.inf], np.logaddexp.accumulate(logs[order] + sorted_)])
    above = np.concatenate(
        [np.logaddexp.accumulate((logs[order] - sorted_)[::-1])[::-1], [-np.inf]]
    )
    place = np.searchsorted(sorted_, w, side="right")
    densities: Floats = np.logaddexp(below[place] - w, above[place] + w)
    return densities


@dataclass(frozen=True)
class ScoreEvent:
    """An event: the score is at least ``threshold`` (or at most, if ``flipped``).

    ``expected`` is what it should prove. Flipped, it speaks for the other secret.
    """

    threshold: float
    flipped: bool
    expected: float

    def hits(self, scores: Floats) -> int:
        """How often it happens."""
        level = rounded_scores(scores)
        held = level <= self.threshold if self.flipped else level >= self.threshold
        return int(np.count_nonzero(held))

    @property
    def side(self) -> str:
        """Which side of the threshold it is."""
        return "at most" if self.flipped else "at least"

    def described(self, likelihood: str, first: Hashable, second: Hashable) -> str:
        """The event in words; ``first`` is the secret it speaks for."""
        level = -self.threshold if self.flipped else self.threshold
        ratio = f"{likelihood.format(first)} / {likelihood.format(second)}"
        return f"{ratio} is at least {math.exp(min(level, 700)):.4g}"


def rounded_scores(scores: Floats) -> Floats:
    """Scores rounded: where a ratio is constant, rounding errors must not split the outputs."""
    rounded: Floats = np.round(scores, 9)
    return rounded


def choose(one: Floats, other: Floats, trials: int, confidence: float) -> ScoreEvent:
    """The event that should prove the most, from scores of pilot draws under each secret.

    A high score speaks for the first. Rates are taken as the pilot has them, and what ``trials``
    releases would prove is foreseen with a normal interval, a little wide for small rates.
    """
    one, other = rounded_scores(one), rounded_scores(other)
    upper = _best(one, other, trials, confidence)
    lower = _best(-other, -one, trials, confidence)
    if upper[1] >= lower[1]:
        return ScoreEvent(upper[0], False, upper[1])
    return ScoreEvent(-lower[0], True, lower[1])


def _best(one: Floats, other: Floats, trials: int, confidence: float) -> tuple[float, float]:
    """The threshold t for which {score >= t} should prove the most, and how much."""
    pilot = len(one)
    ordered, others = np.sort(one), np.sort(other)
    counts = np.unique(np.geomspace(min(20, pilot), pilot, 80).astype(int))
    thresholds = np.unique(ordered[pilot - counts])
    hits = pilot - np.searchsorted(ordered, thresholds, side="left")
    misses = pilot - np.searchsorted(others, thresholds, side="left")
    z = math.sqrt(2 * math.log(2 / (1 - confidence)))
    p, q = hits / pilot, (misses + 1) / pilot
    low = p - z * np.sqrt(p / trials)
    high = np.minimum(1.0, q + z * np.sqrt(q / trials) + z * z / trials)
    with np.errstate(divide="ignore", invalid="ignore"):
        proven = np.where(low > 0, np.log(np.maximum(low, 1e-300) / high), -np.inf)
    place = int(proven.argmax())
    return float(thresholds[place]), float(proven[place])
