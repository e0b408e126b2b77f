"""Noise that counts only the observed entries of a series with gaps, by the definition."""

from dataclasses import replace

import numpy as np
import pytest

import pufferkit as pk
from pufferkit.beliefs.chain_class import as_chain_class
from pufferkit.mechanisms.markov_quilt import by_mixing, max_influence
from tests.asking import Asking
from tests.oracles import brute

STICKY = [[0.9, 0.1], [0.1, 0.9]]
CLIMBING = [[0.8, 0.2, 0.0], [0.1, 0.7, 0.2], [0.0, 0.3, 0.7]]
SOME = [True, False, False, True, True, False, False, False, True, False]
MECHANISMS = {
    "influence_curve": pk.influence_curve,
    "markov_quilt": pk.markov_quilt,
    "markov_quilt_approx": pk.markov_quilt_approx,
}
CLASSES = {
    "steady": pk.MarkovChain.steady,
    "fixed": lambda p: pk.MarkovChain(np.eye(len(p))[0], p),
    "any start": pk.ChainClass.any_start,
    "two chains": lambda p: pk.ChainClass.of(
        pk.MarkovChain.steady(p), pk.MarkovChain.steady((np.array(p) + 1 / len(p)) / 2)
    ),
}


def series(observed, size=2):
    return pk.Series.of([0 if seen else None for seen in observed], range(size))


def card_score(theta, observed, epsilon):
    """[Q] Theorem 4.3 over all quilts of all nodes, with the observed entries nearby."""
    length, worst = len(observed), 0.0
    for node in range(1, length + 1):
        best = sum(observed) / epsilon
        for first in range(node):
            for last in range(node + 1, length + 2):
                left = node - first if first else None
                right = last - node if last <= length else None
                if left is None and right is None:
                    continue
                room = epsilon - max_influence(theta, node, left, right)
                if room > 0:
                    best = min(best, sum(observed[first : last - 1]) / room)
        worst = max(worst, best)
    return worst


@pytest.mark.parametrize("start", CLASSES)
@pytest.mark.parametrize("transition", [STICKY, CLIMBING, [[0.3, 0.7], [0.6, 0.4]]])
def test_quilts_count_observed_entries(start, transition):
    theta, data = CLASSES[start](transition), series(SOME, len(transition))
    members = as_chain_class(theta).members()
    alone = [theta] if start == "any start" else [member.chain for member in members]
    for epsilon in (1.0, 5.0):
        noise = pk.markov_quilt(theta, pk.count(0, data), epsilon)
        wanted = max(card_score(one, SOME, epsilon) for one in alone)
        if noise.evidence.counted == "observed":
            assert noise.scale == pytest.approx(wanted, rel=1e-6)
        else:
            assert wanted * (1 - 1e-3) <= noise.scale <= wanted * (1 + 2e-3)


@pytest.mark.parametrize("start", CLASSES)
def test_scattered_entries_need_far_less_noise_than_the_span(start):
    observed = ([True] + [False] * 9) * 3
    theta, data = CLASSES[start](STICKY), series(observed)
    for name, mechanism in MECHANISMS.items():
        noise = mechanism(theta, pk.count(0, data), 1)
        whole = mechanism(theta, pk.count(0, len(observed)), 1)
        assert noise.scale < 0.5 * whole.scale, name
        assert (noise.evidence.counted, whole.evidence.counted) == ("observed", None)
        release = noise.release(data)
        assert release.verification_data["pattern"] == [[1, 9] * 3]
        again = pk.Release.from_json(release.to_json())
        assert pk.verify(again).ok, name
        assert not pk.verify(replace(again, scale=0.99 * again.scale)).ok, name


@pytest.mark.parametrize(
    "theta",
    [
        pk.ChainClass.binary(0.4, 0.9),
        pk.ChainClass.mixing(2, pi_min=0.3, gap=0.6),
        pk.ChainClass.around([[900, 100], [120, 880]], 0.95),
        pk.ChainClass.around([[900, 60, 40], [50, 900, 50], [40, 60, 900]], 0.95),
    ],
    ids=lambda theta: theta.kind,
)
def test_classes_of_many_chains_have_their_gaps_counted_and_verified(theta):
    observed = ([True] + [False] * 9) * 6
    data = series(observed, len(theta.states))
    noise = pk.influence_curve(theta, pk.count(0, data), 1)
    assert noise.evidence.counted == "observed"
    assert noise.scale < 0.7 * pk.influence_curve(theta, pk.count(0, len(observed)), 1).scale
    release = noise.release(data)
    assert pk.verify(release).ok
    # Over a class the check may find a better bound than the mechanism did.
    assert not pk.verify(replace(release, scale=0.9 * release.scale)).ok


def test_members_of_a_class_lose_no_more_than_promised_in_gaps():
    theta, observed = pk.ChainClass.binary(0.2, 0.9), SOME[:8]
    for mechanism in (pk.influence_curve, pk.markov_quilt):
        scale = mechanism(theta, pk.count(0, series(observed)), 1).scale
        answer = brute.of_observed(brute.count_of(0), observed)
        for stay in (0.2, 0.5, 0.9):
            for back in (0.2, 0.9):
                transition = [[stay, 1 - stay], [1 - back, back]]
                for initial in ([1, 0], [0.5, 0.5], [0.999, 0.001]):
                    assert brute.privacy_loss(initial, transition, 8, answer, scale) <= 1 + 1e-9


def test_long_observed_stretches_keep_the_noise_of_the_span():
    data = series([True] * 400 + [False] * 20 + [True] * 400)
    theta = pk.MarkovChain.steady(STICKY)
    for mechanism in MECHANISMS.values():
        noise = mechanism(theta, pk.count(0, data), 1)
        assert noise.scale == mechanism(theta, pk.count(0, 820), 1).scale
        assert noise.evidence.counted == "span"
        assert "pattern" not in (noise.release(data).verification_data or {})
        assert "noise of the unbroken span" in str(noise.release(data))


def test_too_many_runs_keep_the_noise_of_the_span():
    data = series([True, False] * 120)
    theta = pk.MarkovChain.steady(STICKY)
    noise = pk.influence_curve(theta, pk.count(0, data), 1)
    assert noise.evidence.counted == "span"
    assert noise.scale == pk.influence_curve(theta, pk.count(0, 240), 1).scale


def test_the_hardest_segment_decides_also_if_it_is_not_the_longest():
    theta = pk.MarkovChain.steady(STICKY)
    sparse = [0 if n % 10 == 0 else None for n in range(60)]
    both = pk.Series.of([sparse, [0] * 6], [0, 1])
    for mechanism in MECHANISMS.values():
        noise = mechanism(theta, pk.count(0, both), 1)
        alone = mechanism(theta, pk.count(0, 6), 1)
        assert noise.scale == pytest.approx(alone.scale, rel=2e-3)
        assert noise.evidence.length == 6
        release = noise.release(both)
        assert pk.verify(release).ok
        assert not pk.verify(replace(release, scale=0.98 * release.scale)).ok


def test_noise_made_for_a_pattern_is_for_that_pattern():
    theta, data = pk.MarkovChain.steady(STICKY), series([True, False] * 10)
    noise = pk.influence_curve(theta, pk.count(0, data), 1)
    other = series([True] * 10 + [False] * 10)
    with pytest.raises(ValueError, match="not those that the noise of count was made for"):
        noise.release(other)
    with pytest.raises(ValueError, match="not those that the noise"):
        noise.release([0] * 20)
    with pytest.raises(ValueError, match=r"shorter than the 20 entries.*series of the window"):
        pk.Spending.of(noise, (1, 10))


def test_a_false_pattern_is_noticed():
    theta, data = pk.MarkovChain.steady(STICKY), series([True, False] * 10)
    release = pk.influence_curve(theta, pk.count(0, data), 1).release(data).to_dict()

    def forged(**verification_data):
        return pk.verify(
            {**release, "verification_data": {**release["verification_data"], **verification_data}}
        )

    assert pk.verify(release).ok
    assert not forged(pattern=[[1, 1] * 9 + [2]]).ok  # more observed than is said
    assert not forged(pattern=[[10, 10]]).ok  # as many, but together
    assert not forged(pattern=[[1, 9]]).ok  # shorter
    for none in ([[1, -1, 1]], None):
        assert not forged(pattern=none).ok
        assert "pattern" in forged(pattern=none).problems[0]
    assert not pk.verify({**release, "observed": None}).ok


@pytest.mark.parametrize("bound", ["paper", "tight"])
def test_mixing_bounds_count_observed_entries(bound):
    theta = pk.MarkovChain.steady([[0.7, 0.3], [0.4, 0.6]])
    observed = ([True] + [False] * 5) * 8
    noise = pk.markov_quilt_approx(theta, pk.count(0, series(observed)), 2, bound=bound)
    ((_, influence),), _ = by_mixing(pk.ChainClass.of(theta), bound)
    length, worst = len(observed), 0.0
    for node in range(1, length + 1):
        best = sum(observed) / 2
        for first in range(node):
            for last in range(node + 1, length + 2):
                left = influence.left_weight * influence.bound(node - first) if first else 0.0
                right = influence.bound(last - node) if last <= length else 0.0
                if left + right < 2:
                    best = min(best, sum(observed[first : last - 1]) / (2 - left - right))
        worst = max(worst, best)
    assert noise.scale == pytest.approx(worst, rel=1e-9)
    assert pk.verify(noise.release(series(observed))).ok


def test_two_releases_over_the_same_gaps(tmp_path):
    """A session charges what both spend on the observed entries, which covers the true loss."""
    theta, observed = pk.MarkovChain.steady(STICKY), [True, False, False, False] * 2
    data = series(observed)
    session = Asking(data, theta, 5.0, str(tmp_path / "l.db"))
    scales = [
        session.release(pk.count(0, data), 1.0, mechanism="influence_curve", label=name).scale
        for name in "ab"
    ]
    spent = session.spent
    assert spent < 2.1  # by the unbroken span it would be far more
    both = brute.of_observed(lambda path: 2 * brute.count_of(0)(path), observed)
    loss = brute.privacy_loss([0.5, 0.5], STICKY, 8, both, min(scales))
    assert loss <= spent
    # Windows are places, and a query over lengths has the same gaps.
    again = Asking(data, theta, 5.0, str(tmp_path / "l.db"))
    assert again.spent == spent
    again.release(pk.count(1, 8), 0.2, mechanism="markov_quilt")
    assert again.spent > spent


def test_quilts_add_up_only_over_the_same_gaps():
    theta = pk.MarkovChain.steady(STICKY)
    observed = [True, False, False, False] * 3
    some = pk.Spending.of(pk.markov_quilt(theta, pk.count(0, series(observed)), 1))
    whole = pk.Spending.of(pk.markov_quilt(theta, pk.count(0, 12), 1))
    assert some.used == [(1, 1), (5, 5), (9, 9)]
    assert whole.used == [(1, 12)]
    said = {row.rule: row for row in pk.compose([some, whole], theta, 12).considered}
    assert said["quilt_sum"].micro is None
    assert said["quilt_max"].micro is None
    assert {r.rule: r for r in pk.compose([some, some], theta, 12).considered}[
        "quilt_sum"
    ].micro == 2 * 10**6
    apart = [replace(some, window=(1, 12)), replace(some, window=(101, 112))]
    approx = [replace(s, mechanism="markov_quilt_approx") for s in apart]
    rules = {row.rule: row.why for row in pk.compose(approx, theta, 200).considered}
    assert "not observed" in rules["far_apart"]
    with pytest.raises(ValueError, match="gaps: they cover 12 entries"):
        replace(some, window=(1, 5))


def test_attacks_are_on_whole_series():
    theta, data = pk.MarkovChain.steady(STICKY), series([True, False] * 3)
    noise = pk.influence_curve(theta, pk.count(0, data), 1)
    with pytest.raises(pk.NotApplicable, match="3 of 6 entries were not observed"):
        pk.audit.audit(noise, trials=200)
    with pytest.raises(pk.NotApplicable, match="not observed"):
        pk.audit.exact_loss(noise)
