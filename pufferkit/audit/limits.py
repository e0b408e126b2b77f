"""The best success of an attacker under a promise, and what observed attacks prove against it.

If every output moves the odds between two values of an entry by a factor of at most e^epsilon, an
attacker whose prior odds are at most m guesses right with probability at most

    m e^epsilon / (1 + m e^epsilon).

[B] 4.3 prints it upside down; that bound lies below what always guessing the commoner state gets.

In the other direction, an event that happens in k of n trials under one secret and in l of n under
another proves epsilon >= log(p / q) for the Clopper-Pearson bounds p from below and q from above.

An event chosen in advance is as good as any other for the truth of an audit: its two rates are
measured on fresh releases. What is chosen here decides only how much the audit can see.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
from scipy.special import betainc, betaincinv

from pufferkit import checks
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.checks import Floats
from pufferkit.rounding import last_passing

POWER = 0.95
"""Probability with which a detectable loss is detected."""

_TAIL_ROUNDING = 1e-9
"""Relative error of the incomplete beta function that is allowed for; scipy has far less."""


def success_bound(epsilon: float, prior_odds: float = 1.0) -> float:
    """Largest probability of guessing an entry under a promise: m e^eps / (1 + m e^eps).

    Parameters
    ----------
    epsilon
        The promise; 0 is allowed, and leaves the prior.
    prior_odds
        Largest odds m of any value of the entry before the release, see `prior_odds`.

    Examples
    --------
    >>> round(success_bound(0.5), 4)
    0.6225
    >>> round(success_bound(0.5, prior_odds=4), 4)
    0.8683
    """
    exponent = _not_negative(epsilon) + math.log(checks.positive("prior_odds", prior_odds))
    if exponent < 0:
        return math.exp(exponent) / (1 + math.exp(exponent))
    return 1 / (1 + math.exp(-exponent))


def charged_epsilon(success: float, prior_odds: float = 1.0) -> float:
    """The epsilon whose bound is this success, at least 0; what [B] Figure 2 (b) plots."""
    chance = checks.real("success", success)
    if not 0 <= chance <= 1:
        raise ValueError(f"success: must be a probability, got {chance:g}")
    if chance in (0.0, 1.0):
        return math.inf if chance else 0.0
    odds = math.log(chance) - math.log1p(-chance)
    return max(0.0, odds - math.log(checks.positive("prior_odds", prior_odds)))


def prior_odds(chain: MarkovChain, node: int) -> float:
    """Largest odds of a value of X_node before anything is released; infinite if it is sure."""
    distribution = chain.marginal(node)
    best = float(distribution.max())
    rest = float(distribution.sum()) - best
    return best / rest if rest > 0 else math.inf


def clopper_pearson(hits: int, trials: int, error: float) -> tuple[float, float]:
    """Bounds on a probability from below and above, each wrong with probability at most ``error``.

    Each is the value at which the observed count would be this extreme with probability ``error``,
    moved to the outer side of all rounding.
    """
    trials = checks.whole("trials", trials, 1)
    hits = checks.whole("hits", hits, 0)
    if hits > trials:
        raise ValueError(f"hits: must be at most the number of trials, got {hits} of {trials}")
    if not 0 < checks.real("error", error) < 0.5:
        raise ValueError(f"error: must lie between 0 and 0.5, got {error:g}")
    low, high = 0.0, 1.0
    if hits > 0:  # P(Bin(n, p) >= k) = I_p(k, n - k + 1)
        low = _outer(hits, trials - hits + 1, error)
    if hits < trials:  # P(Bin(n, p) <= k) = I_{1-p}(n - k, k + 1)
        high = min(1.0, math.nextafter(1 - _outer(trials - hits, hits + 1, error), 2.0))
    return low, high


def proven_epsilon(hits: int, other_hits: int, trials: int, confidence: float) -> float:
    """The lower bound on epsilon that an event proves, with this confidence.

    ``hits`` of ``trials`` under one secret, ``other_hits`` of as many under the other. Both rates
    are bounded at half the error, so that both hold together. Never below 0.
    """
    level = checks.confidence(confidence, 0.999)
    low, _ = clopper_pearson(hits, trials, (1 - level) / 2)
    _, high = clopper_pearson(other_hits, trials, (1 - level) / 2)
    if low <= high:
        return 0.0
    return math.log(low) - math.log(high)


def detectable_epsilon(hits: int, trials: int, confidence: float, promise: float) -> float:
    """The least true epsilon that an event would show to be above the promise.

    The event has the rate p = hits / trials under one secret and p e^-epsilon under the other. For
    the epsilon returned, and every larger one, what it proves is above ``promise`` with probability
    at least `POWER`. Infinite if these trials cannot prove that much, whatever epsilon.
    """
    from scipy.stats import binom  # noqa: PLC0415  (slow to load)

    spare = (1 - POWER) / 2
    rate = max(hits, 1) / trials
    low = int(binom.ppf(spare, trials, rate))

    def proves(epsilon: float) -> bool:
        other = int(binom.ppf(1 - spare, trials, rate * math.exp(-epsilon)))
        return proven_epsilon(low, other, trials, confidence) > promise

    most = promise + 60.0
    if not proves(most):
        return math.inf
    return last_passing(lambda epsilon: 1.0 if proves(epsilon) else -1.0, most, promise, 1e-4)


def _outer(a: float, b: float, error: float) -> float:
    """A p just below the root of I_p(a, b) = error: there, the tail is smaller for certain.

    The inverse of scipy is close and on either side. It is lowered until the tail is below
    ``error`` by more than the rounding of the tail itself.
    """
    p, step = float(betaincinv(a, b, error)), 1e-15
    while p > 0 and betainc(a, b, p) > error * (1 - _TAIL_ROUNDING):
        p, step = p * (1 - step), 2 * step
    return p


def _not_negative(epsilon: float) -> float:
    value = checks.real("epsilon", epsilon)
    if value < 0:
        raise ValueError(f"epsilon: must be at least 0, got {value:g}")
    return value


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
