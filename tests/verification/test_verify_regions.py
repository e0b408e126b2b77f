"""Two-sided regions: mechanism, `verify` and an attack by definition agree about their noise."""

from dataclasses import replace

import numpy as np
import pytest

import pufferkit as pk
from tests.oracles.box_losses import told_apart
from tests.oracles.kernel_losses import extreme_functions

COUNTS = [[2312, 252, 386, 51], [147, 2339, 510, 4], [68, 118, 2494, 320], [485, 51, 102, 2362]]


def attacked(seed):
    """A random region: the verdict on an untouched release, and the largest loss over epsilon.

    The loss is that of the worst entry under kernels chosen anew for every step.
    """
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


@pytest.mark.filterwarnings("error")
def test_a_region_whose_bounds_round_above_one():
    """It was released at 55.725, and `verify` asked for 56.848: a NaN bounded nothing there."""
    region = pk.ChainClass.around(COUNTS, 0.95)
    release = pk.influence_curve(region, pk.histogram(region.states, 500), 1.0).release([0] * 500)
    assert release.scale == pytest.approx(55.725, abs=1e-3)
    assert pk.verify(release).ok
    assert not pk.verify(replace(release, scale=release.scale * 0.999)).ok


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("seeds", [range(8), pytest.param(range(300), marks=pytest.mark.slow)])
def test_no_untouched_record_is_refused_and_no_scale_is_too_small(seeds):
    shares = []
    for seed in seeds:
        verdict, share = attacked(seed)
        assert verdict.ok, (seed, str(verdict))
        assert share <= 1 + 1e-9, seed
        shares.append(share)
    assert np.median(shares) > 0.9  # the attack is strong
