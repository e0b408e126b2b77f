"""Audits of releases about a random field: all mechanisms pass, too little noise fails."""

from dataclasses import replace

import pytest

import pufferkit as pk

FIELD = pk.MarkovRandomField.ising([(0, 1), (1, 2), (2, 0), (2, 3)], 0.12, -0.2)
ONES = pk.count(1, 4)


@pytest.mark.parametrize(
    ("mechanism", "scale", "loss"),
    [
        (pk.markov_quilt, 4.0, 0.344253),
        (pk.influence_curve, 1.381604, 0.999651),
        (pk.wasserstein, 2.0, 0.690669),
    ],
)
def test_scales_of_a_field_and_what_they_lose(mechanism, scale, loss):
    noise = mechanism(FIELD, ONES, 1)
    assert noise.scale == pytest.approx(scale, rel=1e-5)
    report = pk.audit.audit(noise, seed=1, trials=500)
    assert report.passed
    assert pk.audit.exact_loss(noise) == pytest.approx(loss, abs=1e-5)
    halved = replace(noise, scale=0.25 * noise.scale)
    assert not pk.audit.audit(halved, seed=1, trials=500).passed
