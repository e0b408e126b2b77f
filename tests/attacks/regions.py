"""Two-sided regions under kernels that are chosen anew for every step."""

import numpy as np

import pufferkit as pk
from tests.oracles.box_losses import told_apart
from tests.oracles.kernel_losses import extreme_functions


def attacked(seed: int | list[int]) -> tuple[pk.Verdict, float]:
    """A random region: the verdict on an untouched release, and the largest loss over epsilon."""
    rng = np.random.default_rng(seed)
    size = int(rng.integers(2, 5))
    matrix = rng.dirichlet(np.ones(size) * rng.choice([0.3, 1, 3]), size)
    matrix += rng.choice([0, 1, 5]) * np.eye(size)
    matrix /= matrix.sum(axis=1, keepdims=True)
    drawn = int(rng.choice([100, 1000, 3000, 20000]))
    region = pk.ChainClass.around([rng.multinomial(drawn, row) for row in matrix], 0.95)
    length, epsilon = int(rng.choice([2, 3, 5, 9, 21])), float(rng.choice([0.1, 1, 5]))
    metric = 1 - np.eye(size)
    query = pk.histogram(region.states, length)
    if rng.random() < 0.4:
        query, first = pk.count(region.states[0], length), np.arange(size) == 0
        metric = (first[:, None] != first[None, :]).astype(float)
    calibration = pk.influence_curve(region, query, epsilon)
    verdict = pk.verify(calibration.release([region.states[0]] * length))
    cost = query.lipschitz / calibration.scale
    functions = extreme_functions(metric, cost)
    loss = max(
        (
            cost * metric
            + told_apart(region.before.low, region.before.high, functions, node - 1, rng)
            + told_apart(region.low, region.high, functions, length - node, rng)
        ).max()
        for node in {1, (length + 1) // 2, length}
    )
    return verdict, loss / epsilon
