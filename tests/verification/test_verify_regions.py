"""Two-sided regions: mechanism, `verify` and an attack by definition agree about their noise."""

from dataclasses import replace

import numpy as np
import pytest

import pufferkit as pk
from tests.attacks.regions import attacked

COUNTS = [[2312, 252, 386, 51], [147, 2339, 510, 4], [68, 118, 2494, 320], [485, 51, 102, 2362]]


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
