"""Other published amounts of noise, for comparison ([B] Figure 3), for a symmetric binary chain.

The chain changes state with probability theta < 1/2 either way, and rho_0 = rho_1 = rho. Only
`exact_rho` and `every_rho` are what this package uses; the others are bounds from the literature,
as the errata correct them, and what plain differential privacy would take.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import exp, expm1, log, log1p, sqrt
from typing import Any

from pufferkit import checks
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.local.least_noise import answer_limits
from pufferkit.local.one_sided import Binary

_LARGE = 700.0


def dp_rho(epsilon: float) -> float:
    """1 / (e^eps + 1): differential privacy for each entry, [B] (5); too little on chains."""
    return _logistic(-checks.privacy(epsilon))


def exact_rho(theta: float, epsilon: float) -> float:
    """The least rho against the ignorant adversary: [B] Theorem 1 solved, as the errata do."""
    return _by_limit(theta, epsilon, "ignorant")


def every_rho(theta: float, epsilon: float) -> float:
    """The least equal rho against every adversary, for any length."""
    return _by_limit(theta, epsilon, "every")


def approximate_rho(theta: float, epsilon: float) -> float:
    """The closed form of [B] Corollary 2: enough against the ignorant adversary, but loose.

    It is written here over e^eps, so that no large epsilon overflows.
    """
    theta, epsilon = _theta(theta), checks.privacy(epsilon)
    e, square = exp(-epsilon), theta * theta
    root = sqrt(square * ((4 - 4 * theta) * e + square))
    return (square + (4 - 2 * theta) * e - root) / (2 * square + (8 + 2 * square - 8 * theta) * e)


def zhao_3(theta: float, epsilon: float) -> float | None:
    """Zhao et al.'s eps_3 = eps - 6 log((1 - theta) / theta), then 1 / (e^{eps_3} + 1).

    ``None`` where eps_3 is not positive: it then says nothing. [B] (6) prints a factor 2 too many.
    """
    theta, epsilon = _theta(theta), checks.privacy(epsilon)
    left = epsilon - 6 * (log1p(-theta) - log(theta))
    return _logistic(-left) if left > 0 else None


def zhao_6(theta: float, epsilon: float, length: int) -> float | None:
    """Zhao et al.'s eps_6, then 1 / (e^{eps_6} + 1).

    eps_6 is the largest, over 1 <= t <= n/2, of
    (eps - 6 log((1 + (1 - 2 theta)^t) / (1 - (1 - 2 theta)^t))) / (2 t - 1).
    ``None`` where none is positive.
    """
    theta, epsilon = _theta(theta), checks.privacy(epsilon)
    size = checks.whole("length", length, 2)
    best, rate = 0.0, log1p(-2 * theta)
    for t in range(1, size // 2 + 1):
        if epsilon <= best * (2 * t - 1):
            break  # no larger t can do better
        power = exp(t * rate)
        cost = 6 * (log1p(power) - log(-expm1(t * rate)))
        best = max(best, (epsilon - cost) / (2 * t - 1))
    return _logistic(-best) if best > 0 else None


def noise_privacy_curves(
    theta: float, epsilons: Iterable[float], length: int = 30
) -> list[dict[str, Any]]:
    """Least rho by each bound, one row for each epsilon ([B] Figure 3).

    Parameters
    ----------
    theta
        Probability that the chain changes state, below 1/2.
    epsilons
        Where to evaluate.
    length
        For Zhao et al.'s eps_6, whose t goes up to half of it.
    """
    return [
        {
            "epsilon": float(epsilon),
            "dp": dp_rho(epsilon),
            "ignorant": exact_rho(theta, epsilon),
            "every": every_rho(theta, epsilon),
            "approximate": approximate_rho(theta, epsilon),
            "zhao_3": zhao_3(theta, epsilon),
            "zhao_6": zhao_6(theta, epsilon, length),
        }
        for epsilon in epsilons
    ]


def _by_limit(theta: float, epsilon: float, adversary: str) -> float:
    theta = _theta(theta)
    chain = MarkovChain.steady([[1 - theta, theta], [theta, 1 - theta]])
    a, b = answer_limits(Binary.of(chain), checks.privacy(epsilon), adversary, None)
    return _logistic(-min(a, b))


def _logistic(x: float) -> float:
    """1 / (1 + e^-x)."""
    return 1 / (1 + exp(-x)) if x > -_LARGE else exp(x)


def _theta(theta: float) -> float:
    number = checks.real("theta", theta)
    if not 0 < number < 0.5:
        raise ValueError(f"theta: must lie between 0 and 1/2, got {number:g}")
    return number
