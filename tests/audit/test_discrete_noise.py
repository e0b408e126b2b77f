"""The audit measures discrete noise: its sums by the definition, and what it finds at fault."""

from fractions import Fraction
from math import exp

import numpy as np
import pytest

import pufferkit as pk
from pufferkit.audit.noise_drawn import POWER, _WholeSums, measured, rehearsed

ERROR = 1e-6


def drawn(rng, scale, draws, unit=1.0):
    one, other = rng.geometric(1 - exp(-1 / scale), (2, draws, 1))
    return (one - other) * unit


@pytest.mark.parametrize("scale", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("draws", [1, 2, 5])
def test_the_sum_of_sizes_by_the_definition(scale, draws):
    """Convolution of P(|Z| = n), against the mixture of negative binomial distributions."""
    a = exp(-1 / scale)
    reach = int(60 * scale) + 10
    size = np.array([(1 - a) / (1 + a) * (1 if n == 0 else 2 * a**n) for n in range(reach)])
    total = np.array([1.0])
    for _ in range(draws):
        total = np.convolve(total, size)[:reach]
    sums = _WholeSums(draws)
    for n in (0, 1, 2, 3, 7, 15):
        assert sums.at_most(n, scale) == pytest.approx(total[: n + 1].sum(), rel=1e-9)


@pytest.mark.parametrize("scale", [0.3, 0.7, 5.0, 300.0])
@pytest.mark.parametrize(
    "unit",
    [
        Fraction(1),
        *(pytest.param(u, marks=pytest.mark.slow) for u in (Fraction(1, 30), Fraction(5))),
    ],
)
def test_true_noise_passes_and_other_noise_does_not(scale, unit):
    rng = np.random.default_rng(3)
    claimed = scale * float(unit)
    true = measured(drawn(rng, scale, 20_000, float(unit)), claimed, ERROR, unit)
    assert not true.problem
    assert true.least < claimed < true.most
    for wrong in (0.8, 1.25):
        other = measured(drawn(rng, wrong * scale, 20_000, float(unit)), claimed, ERROR, unit)
        assert "scale is at" in other.problem
    smooth = rng.laplace(scale=claimed, size=(20_000, 1))
    assert "not in whole multiples" in measured(smooth, claimed, ERROR, unit).problem
    again = drawn(rng, scale, 10_000, float(unit))
    twice = np.repeat(again, 2, axis=0)
    assert "not independent" in measured(twice, claimed, ERROR, unit).problem


@pytest.mark.slow
def test_what_is_detectable_is_detected():
    rng, scale, draws = np.random.default_rng(8), 0.7, 2_000
    one = Fraction(1)
    share = measured(drawn(rng, scale, draws), scale, 1e-3, one).detectable
    assert 0.8 < share < 1
    found = [
        measured(drawn(rng, share * scale, draws), scale, 1e-3, one).problem for _ in range(60)
    ]
    assert sum(map(bool, found)) >= 60 * POWER - 8
    assert measured(np.zeros((3, 1)), 5.0, 1e-3, one).least == 0


def test_noise_to_rehearse_with_is_that_of_a_release():
    chain = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    rng = np.random.default_rng(1)
    for query in (pk.count(1, 9), pk.relative_frequencies([0, 1], 9)):
        made = pk.influence_curve(chain, query, 3)
        noise = rehearsed(made, (9_000, query.size), rng)
        assert not measured(noise, made.scale, ERROR, made.unit).problem
    own = pk.influence_curve(chain, pk.Query("own", len, 1, 9), 3)
    assert not measured(rehearsed(own, (9_000, 1), rng), own.scale, ERROR).problem


def test_an_audit_of_counts_measures_what_releases_draw():
    chain = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    told = pk.audit.audit(pk.influence_curve(chain, pk.count(1, 8), 3), trials=3000, seed=1)
    assert told.passed
    assert told.noise.least < told.noise.claimed < told.noise.most
