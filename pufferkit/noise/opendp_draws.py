"""OpenDP's samplers, and the privacy loss that they charge.

We cannot clear the state of OpenDP's generators, and not every version of OpenDP detects a fork. In
a forked process we call it only on new threads, where its generators are seeded afresh from the
operating system.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from functools import cache, lru_cache
from math import exp, log
from typing import Any

import numpy as np

from pufferkit import checks
from pufferkit.rounding import at_least, last_passing, round_up

_home = [os.getpid()]
"""Not that of a process that was forked: Python's hook clears it, or other code forked."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_home.clear)


def drawn(made: tuple[Any, float], allowed: float, values: list[Any]) -> Any:
    """Noisy values or a noisy choice, if the sampler charges no more than ``allowed``.

    They are drawn with a generator that no other process shares. A generator of OpenDP belongs to a
    thread. OpenSSL's, which version 0.16 uses, starts anew after a fork; that of other versions
    does not, and would repeat the noise of the parent.

    Parameters
    ----------
    made
        A measurement, and the privacy loss that it charges.
    allowed
        The most that it may charge, up to a few units in the last place.
    values
        The exact values.
    """
    measurement, cost = made
    if cost > round_up(allowed):
        raise RuntimeError(
            f"noise: the sampler charges {cost!r} for {allowed!r}; nothing was released"
        )
    if _home != [os.getpid()]:  # forked
        with ThreadPoolExecutor(max_workers=1) as own:
            return own.submit(measurement, values).result()
    return measurement(values)


@cache
def _opendp() -> tuple[Any, Any, Any]:
    """Domains, metrics and samplers of OpenDP, loaded when first used.

    Its prelude would load scikit-learn and polars as well, which takes seconds.
    """
    from opendp import domains, measurements, metrics  # noqa: PLC0415
    from opendp.mod import enable_features  # noqa: PLC0415

    enable_features("contrib")
    return domains, metrics, measurements


_SMALL_RATE = 1e-3  # below this the cost is its limit, to one part in a thousand
_ROUNDING = 1e-10


def _sampler(atoms: dict[str, Any], size: int, scale: float, **grid: int) -> Any:
    domains, metrics, measurements = _opendp()
    domain = domains.vector_domain(domains.atom_domain(**atoms), size=size)
    return measurements.make_laplace(domain, metrics.l1_distance(T=float), scale=scale, **grid)


@lru_cache(8)
def grid_measurement(size: int, scale: float, k: int, lipschitz: float) -> tuple[Any, float]:
    """The sampler on multiples of 2^k, and its charge for this distance, rounding included."""
    measurement = _sampler({"T": float, "nan": False}, size, scale, k=k)
    return measurement, float(measurement.map(lipschitz))


@lru_cache(8)
def whole_measurement(size: int, scale: float) -> tuple[Any, float]:
    """The sampler on whole numbers, and its charge for a distance of 1."""
    measurement = _sampler({"T": "i64"}, size, scale)
    return measurement, float(measurement.map(1.0))


@lru_cache(8)
def choice_measurement(scale: float, step: int) -> tuple[Any, float]:
    """The sampler of a noisy choice, and its charge for scores that move by ``step``."""
    from opendp.measures import max_divergence  # noqa: PLC0415

    domains, metrics, measurements = _opendp()
    measurement = measurements.make_noisy_max(
        domains.vector_domain(domains.atom_domain(T="i64")),
        metrics.linf_distance(T="i64"),
        max_divergence(),
        scale=scale,
    )
    return measurement, float(measurement.map(step))


_MOST_NODES = 200  # nodes of a quadrature that are computed to full precision


def choice_cost(scale: float, levels: int) -> float:
    """How far an entry moves the log-likelihood of a quantile, noise of this scale on the ranks.

    Theorem: FIXES 4. For scores -max(0, F_{j-1} - q, q - F_j), with F_j entries at or below level
    j, and permute and flip, moving an entry by at most g = ``levels`` - 1 levels moves the
    log-likelihood of a choice by at most

        phi = log[(g + 1) E int_0^1 (1 - t) (1 - t / E)^(g - 1) dt],   E = e^(1 / scale),

    and some data attain it. It is concave in 1 / scale, and lies between 1 / scale and (2 - 1 / g)
    / scale. *Proof* in notes/proofs.md. The integrand is a polynomial, and all terms of the
    quadrature are positive, so it is right to a few roundings; those of a logarithm near 1 matter
    at large scales only, where the limit is used.
    """
    moved, rate = max(1, levels - 1), 1 / scale
    limit = (2 - 1 / moved) * rate
    if moved == 1 or rate < _SMALL_RATE:
        return limit
    nodes = (moved + 1) // 2 + 1
    if nodes > _MOST_NODES:
        return min(limit, rate + log((moved + 1) / 2))
    points, weights = np.polynomial.legendre.leggauss(nodes)
    t = (points + 1) / 2
    mean = float(weights @ ((1 - t) * (1 - t * exp(-rate)) ** (moved - 1))) / 2
    return min(limit, (rate + log((moved + 1) * mean)) * (1 + _ROUNDING))


@lru_cache(64)
def choice_scale(scale: float, levels: int) -> float:
    """The least scale of a quantile's choice that costs an entry no more than 2 / ``scale``.

    So much costs a histogram with Laplace noise of ``scale``, and a quantile has the same cost: a
    half of its scale for two levels, more of it the more levels there are.
    """
    cost = 2 / scale
    good, bad = scale, scale / 2
    if choice_cost(bad, levels) <= cost:
        return bad
    return last_passing(lambda s: cost - choice_cost(s, levels), good, bad, 1e-9)


def noisy_choice(scores: Sequence[int], scale: float, step: int = 1) -> int:
    """The place of the largest score after exponential noise on each, for quantiles.

    Only the place is released (permute-and-flip, which never errs more than the exponential
    mechanism: McKenna and Sheldon 2020).

    Parameters
    ----------
    scores
        Whole numbers, in units of 1 / ``step``.
    scale
        Scale of the noise on a score, not in that unit. Scores that move by at most 1 move the
        log-likelihood of the choice by at most 2 / ``scale``.
    step
        Number of units in 1.
    """
    wanted = at_least(Fraction(checks.positive("scale", scale)) * step)
    if len(scores) < 2 or any(abs(score) >= 2**62 for score in scores):
        raise ValueError("scores: must be two or more whole numbers of at most 62 bits")
    made = choice_measurement(wanted, step)
    return int(drawn(made, 2 / scale, [int(score) for score in scores]))
