"""The best success of an attacker under a promise, and what observed attacks prove against it.

If every output moves the odds between two values of an entry by a factor of at most e^epsilon, an
attacker whose prior odds are at most m guesses right with probability at most

    m e^epsilon / (1 + m e^epsilon).

[B] 4.3 prints it upside down; that bound lies below what always guessing the commoner state gets.

In the other direction, an event that happens in k of n trials under one secret and in l of n under
another proves epsilon >= log(p / q) for the Clopper-Pearson bounds p from below and q from above.
"""

from __future__ import annotations

import math

from scipy.special import betainc, betaincinv

from pufferkit import checks
from pufferkit.beliefs.markov_chain import MarkovChain
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
