"""[B] Figure 2: noise that ignores correlation is broken by an attacker who knows it.

Bits from a symmetric chain that changes with probability theta are flipped with probability rho.
Two choices of rho at the same epsilon:

- *dp*: rho = 1 / (e^epsilon + 1), [B] (5), which hides a bit that no other bit predicts;
- *ours*: rho = 1 / (e^b + 1), with b the event-level epsilon that `entry_epsilon` allows, so
  that the promise holds against adversaries who know the chain.

For each the success of the correlation-aware attacker on the middle bit is measured, next to that
of the single-bit attacker, 1 - rho, and to the bound that the promise means.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from pufferkit import checks
from pufferkit.audit.conditioned_chain import conditioned, cumulative_rows
from pufferkit.audit.local_audit import log_likelihood
from pufferkit.audit.success_limits import charged_epsilon, success_bound
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.checks import Floats
from pufferkit.mechanisms.influence_curve import entry_epsilon

THETAS = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)


def attack_curve(
    epsilon: float = 0.5,
    thetas: Iterable[float] = THETAS,
    *,
    length: int = 30,
    trials: int = 20_000,
    seed: int = 0,
) -> list[dict[str, Any]]:
    """Rows of [B] Figure 2, one for each correlation and each kind of noise.

    Parameters
    ----------
    epsilon
        The promise.
    thetas
        Probabilities of a change between neighbours, above 0 and at most 1/2; lower is more
        correlated.
    length
        Bits in the series; the middle one is attacked.
    trials
        Sanitised series for each row.
    seed
        For data and noise, which are simulated.

    Returns
    -------
    Rows with ``theta``, ``noise`` ("dp" or "ours"), ``rho``, ``single_bit`` and
    ``correlation_aware`` (success), ``charged`` and ``charged_single`` (the epsilon
    that the success of the second and of the first means), ``bound`` and ``standard_error``.
    """
    epsilon = checks.privacy(epsilon)
    length = checks.whole("length", length, 1)
    trials = checks.whole("trials", trials, 1)
    rng = np.random.default_rng(seed)
    rows = []
    for theta in thetas:
        if not 0 < checks.real("thetas", theta) <= 0.5:
            raise ValueError(f"thetas: must lie above 0 and at most at 0.5, got {theta:g}")
        chain = MarkovChain.steady([[1 - theta, theta], [theta, 1 - theta]])
        b = entry_epsilon(chain, length, epsilon)
        for noise, privacy in (("dp", epsilon), ("ours", b)):
            rho = 1 / (math.exp(privacy) + 1)
            aware, error = _success(chain, rho, length, trials, rng)
            rows.append(
                {
                    "theta": float(theta),
                    "noise": noise,
                    "epsilon": epsilon,
                    "rho": rho,
                    "single_bit": 1 - rho,
                    "correlation_aware": aware,
                    "charged": charged_epsilon(aware),
                    "charged_single": charged_epsilon(1 - rho),
                    "bound": success_bound(epsilon),
                    "standard_error": error,
                }
            )
    return rows


def _success(
    chain: MarkovChain, rho: float, length: int, trials: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Success of the correlation-aware attacker on the middle bit, and its standard error.

    The mean, over sanitised series, of the chance that the likelier value is the true one: less
    noisy than counting hits, and with the same mean.
    """
    matrix: Floats = np.array([[1 - rho, rho], [rho, 1 - rho]])
    middle = (length - 1) // 2
    truth = conditioned(chain, length, {}).sample(trials, rng)
    sums = cumulative_rows(matrix)
    seen = (rng.random(truth.shape)[..., None] >= sums[truth]).sum(axis=-1).astype(np.uint16)
    sides = [conditioned(chain, length, {middle: x}) for x in (0, 1)]
    # Equal priors: the posterior odds are the ratio of the likelihoods.
    zero, one = (log_likelihood(side, matrix, seen) for side in sides)
    chance = 1 / (1 + np.exp(-np.abs(one - zero)))
    return float(chance.mean()), float(chance.std() / math.sqrt(trials))
