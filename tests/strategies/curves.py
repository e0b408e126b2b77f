"""Chains, profiles and helpers for the tests of the influence curve."""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from pufferkit import ChainClass, InfluenceCurve, MarkovChain
from pufferkit.influence.profile import Run

SLACK = 1e-9
"""Brute force is itself rounded; a promise may lie this far below it."""

KINDS = ["dense", "skewed", "sparse", "periodic", "reducible", "ties", "deterministic", "sticky"]


def losses(curve: InfluenceCurve, b) -> np.ndarray:
    """The promise for every entry, over all beliefs."""
    return np.max(list(curve.entry_losses(b).values()), axis=0)


def keeps_promise(curve: InfluenceCurve, b, real: np.ndarray) -> None:
    promised = losses(curve, b)
    assert (promised >= real - SLACK - 1e-13 * real).all(), (promised - real).min()
    assert curve.epsilon(b) >= real.max() - SLACK - 1e-13 * real.max()


def profiles(*runs: tuple[int, float]) -> list[Run]:
    return [Run(n, b) for n, b in runs]


def listed(runs: list[Run]) -> np.ndarray:
    return np.repeat([run.b for run in runs], [run.count for run in runs])


def ring(size: int, stay: float) -> np.ndarray:
    return stay * np.eye(size) + (1 - stay) * np.roll(np.eye(size), 1, axis=1)


LONG = {
    "binary": ([[0.9, 0.1], [0.4, 0.6]], [0.2, 0.8]),
    "binary slow": ([[0.98, 0.02], [0.01, 0.99]], [1, 0]),
    "binary alternating": ([[0.1, 0.9], [0.8, 0.2]], [1, 0]),
    "asymmetric": ([[0.999, 0.001], [0.3, 0.7]], [0, 1]),
    "ring": (ring(3, 0.3), [1, 0, 0]),
    "sparse": ([[0.0, 1.0, 0.0], [0.3, 0.0, 0.7], [0.6, 0.4, 0.0]], [0.5, 0, 0.5]),
    "dense": ([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.15, 0.25, 0.6]], [0, 0.1, 0.9]),
    "ladder": ([[0.9, 0.1, 0], [0.1, 0.8, 0.1], [0, 0.1, 0.9]], [0, 0, 1]),
    "periodic": ([[0, 0.7, 0.3], [1, 0, 0], [1, 0, 0]], [0.3, 0.5, 0.2]),
    "absorbing": ([[0.95, 0.05], [0, 1]], [0.9, 0.1]),
    "transient": ([[0.5, 0.3, 0.2], [0, 0.7, 0.3], [0, 0.4, 0.6]], [1, 0, 0]),
    "two islands": ([[0.7, 0.3, 0], [0.3, 0.7, 0], [0, 0, 1]], [0.2, 0.3, 0.5]),
    "rare": ([[1 - 1e-6, 1e-6], [0.5, 0.5]], [1, 0]),
}
PROFILES = {
    "constant": profiles((110, 0.1)),
    "large": profiles((90, 1.5)),
    "high low zero high": profiles((40, 1.0), (30, 0.05), (25, 0.0), (20, 0.7)),
    "rising": profiles((25, 0.01), (25, 0.1), (25, 0.5), (25, 1.5)),
    "short runs by a long one": profiles((3, 2.0), (60, 0.1), (2, 1.0), (1, 0.0), (40, 0.05)),
    "one peak": profiles((50, 0.02), (1, 3.0), (50, 0.02)),
    "windows": [Run(10, 0.3 * (n % 3)) for n in range(10)],
    "one release": profiles((45, 0.0), (10, 0.8), (45, 0.0)),
}


def starts_for(matrix, start, turn: int) -> list[np.ndarray | None]:
    """Two of: the given start, any start (None), the stationary one if unique."""
    distributions: list[np.ndarray | None] = [np.array(start), None]
    with suppress(ValueError):
        distributions.append(MarkovChain.steady(matrix).initial)
    return [distributions[turn // 2 % len(distributions)]]


def curve_of(matrix, distribution, length: int) -> InfluenceCurve:
    belief = (
        ChainClass.any_start(matrix) if distribution is None else MarkovChain(distribution, matrix)
    )
    return InfluenceCurve(belief, length)
