"""Audits: a real mechanism passes, half the noise fails."""

import json
from dataclasses import replace

import numpy as np
import pytest

import pufferkit as pk
from pufferkit.audit import Audit, audit, exact_loss
from tests.strategies.stand_ins import symmetric

LAZY = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])


def halved(calibration):
    return replace(calibration, scale=calibration.scale / 2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "epsilon"), [(pk.count(1, 5), 1.0), (pk.histogram([0, 1], 4), 0.5)]
)
def test_the_real_noise_passes_and_half_of_it_fails(query, epsilon):
    """At the default level a sound mechanism fails once in a million."""
    real = pk.influence_curve(LAZY, query, epsilon)
    report = audit(real, trials=20_000, seed=1)
    assert report.passed
    assert report.verdict == "passed"
    assert 0.3 * epsilon < report.proven <= epsilon  # near enough to see what is there
    broken = audit(halved(real), trials=20_000, seed=1)
    assert not broken.passed
    assert 1.2 * epsilon < broken.proven <= exact_loss(halved(real))
    assert broken.confidence >= 1 - 1e-6


def test_entry_dp_does_not_hide_what_others_predict():
    report = audit(pk.entry_dp(pk.count(1, 6), 1), symmetric(0.1), trials=10_000, seed=1)
    assert not report.passed
    assert report.proven > 2
    assert "entry DP only" in str(report)


@pytest.mark.slow
def test_long_series_by_the_distribution_of_the_sum():
    real = pk.influence_curve(LAZY, pk.count(1, 60), 1)
    report = audit(real, trials=10_000, seed=1)
    assert report.passed
    assert "exact distributions" in report.attacker
    assert report.proven > 0.2
    # The noise for six entries instead of sixty, on a chain that hardly moves.
    slow = symmetric(0.02)
    short = pk.influence_curve(slow, pk.count(1, 6), 1)
    wrong = replace(pk.influence_curve(slow, pk.count(1, 60), 1), scale=short.scale)
    assert not audit(wrong, trials=10_000, seed=1).passed


THREE = pk.MarkovChain.steady([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]])


@pytest.mark.slow
def test_longer_vectors_by_simulation():
    query = pk.histogram(range(3), 120)
    report = audit(pk.influence_curve(THREE, query, 1), trials=2000, seed=1)
    assert report.passed
    slow = pk.MarkovChain.steady(np.full((3, 3), 0.01) + 0.97 * np.eye(3))
    broken = audit(pk.entry_dp(query, 0.5), slow, trials=5000, seed=1)
    assert "simulated" in broken.attacker or "linear" in broken.attacker
    assert not broken.passed


def test_other_beliefs():
    theta = pk.ChainClass.any_start(LAZY.transition)
    report = audit(pk.influence_curve(theta, pk.count(1, 4), 1), trials=5000, seed=1)
    assert report.passed
    assert "start" in report.belief
    both = pk.ChainClass.of(LAZY, symmetric(0.1))
    assert audit(pk.influence_curve(both, pk.count(1, 4), 1), trials=5000, seed=1).passed
    flu = pk.FiniteJoint({(0, 0): 0.4, (0, 1): 0.1, (1, 0): 0.1, (1, 1): 0.4}, names=["ann", "bob"])
    real = pk.wasserstein(flu, pk.count(1, 2), 1)
    report = audit(real, trials=5000, seed=1)
    assert report.passed
    assert report.entry in ("ann", "bob")
    with pytest.raises(pk.NotApplicable, match="pass one of its chains"):
        audit(pk.group_dp(pk.count(1, 4), 1), pk.ChainClass.mixing(2, 0.2, 0.5))


def test_segments_and_a_query_that_is_no_sum():
    real = pk.influence_curve(LAZY, pk.count(1, [3, 30, 3]), 1)
    report = audit(real, trials=3000, seed=1)
    assert report.passed
    assert 4 <= report.entry <= 33
    changes = pk.Query("changes", lambda x: int(np.sum(x[1:] != x[:-1])), 2, 5)
    assert audit(pk.influence_curve(LAZY, changes, 1), trials=3000, seed=1).passed
    assert not audit(pk.entry_dp(changes, 3), symmetric(0.02), trials=3000, seed=1).proven > 6


def test_a_chosen_entry():
    real = pk.influence_curve(LAZY, pk.count(1, 5), 1)
    assert audit(real, trials=1000, entry=1, seed=1).entry == 1
    with pytest.raises(ValueError, match="entry: 9 is not an entry"):
        audit(real, trials=1000, entry=9)


@pytest.mark.parametrize(
    ("mechanism", "options", "said"),
    [
        (pk.entry_dp(pk.count(1, 3), 1), {}, "give those to audit it against"),
        (pk.influence_curve(LAZY, pk.count(1, 3), 1), {"length": 3}, "only for local"),
        (pk.entry_dp(pk.count(1, 3), 1), {"beliefs": 7}, "beliefs"),
        ("laplace", {"beliefs": LAZY}, "a matrix and an epsilon"),
        (pk.entry_dp(pk.count("x", 3), 1), {"beliefs": LAZY}, "not among the states"),
        (pk.entry_dp(pk.count(1, 10**7), 1), {"beliefs": LAZY}, "fewer trials"),
    ],
)
def test_refusals(mechanism, options, said):
    with pytest.raises(ValueError, match=said):
        audit(mechanism, **options)


def test_json_and_print():
    report = audit(pk.influence_curve(LAZY, pk.count(1, 3), 1), trials=1000, seed=1)
    record = json.loads(report.to_json())
    assert record["verdict"] == "passed"
    assert Audit.from_json(report.to_json()) == report
    with pytest.raises(ValueError, match="format"):
        Audit.from_dict({})
    with pytest.raises(ValueError, match="lacks"):
        Audit.from_dict({"format": "pufferkit-audit/1"})
    text = str(report)
    assert "promises epsilon 1" in text
    assert "best attack" in text
    assert "verdict      passed" in text
    broken = replace(report, proven=1.5)
    assert "FAILED" in str(broken)
    # The verdict in a file is not believed: it follows from the numbers.
    assert Audit.from_dict({**broken.to_dict(), "verdict": "passed"}).verdict == "failed"
    assert "proves nothing" in str(replace(report, proven=0.0, exact=None))
    assert "keeps the promise" in str(report)
    assert "would find   any loss of" in text
    assert "no loss, however large" in str(replace(report, detectable=np.inf))


def test_an_adversary_outside_the_beliefs_is_attacked_with_and_bounded():
    """Noise for a chain that hardly remembers, and someone who believes in a sticky one."""
    light = pk.MarkovChain.steady([[0.6, 0.4], [0.4, 0.6]])
    sticky = pk.MarkovChain.steady([[0.9, 0.1], [0.1, 0.9]])
    noise = pk.influence_curve(light, pk.count(1, lengths=8), epsilon=1)
    own = audit(noise, trials=2000, seed=1)
    assert own.outside is None
    assert own.passed
    result = audit(noise, sticky, trials=2000, seed=1)
    assert result.exact.loss > 1.5
    assert result.exact.loss <= result.outside
    assert result.outside == pytest.approx(
        pk.InfluenceCurve(sticky, 8).epsilon(1 / noise.scale), rel=1e-9
    )
    assert not result.passed
    assert "NOT COVERED" in str(result)
    assert Audit.from_dict(result.to_dict()).outside == result.outside
    more = audit(pk.influence_curve(sticky, pk.count(1, lengths=8), 1), light, trials=2000, seed=1)
    assert more.passed
    assert more.outside < 1
    assert "covered: this adversary learns no more" in str(more)
