"""What several releases cost together, each theorem with its conditions."""

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pufferkit as pk
from pufferkit import (
    BayesianNetwork,
    ChainClass,
    FiniteJoint,
    InfluenceCurve,
    MarkovChain,
    NoTheorem,
    Query,
    Spending,
    compose,
    count,
    entry_dp,
    exact_sum,
    gk16,
    influence_curve,
    markov_quilt,
    markov_quilt_approx,
    max_influence,
    total,
    wasserstein,
)
from pufferkit.account import theorems as rules
from pufferkit.account.theorems import _stretches
from pufferkit.beliefs.region_class import RegionClass
from tests.asking import Asking
from tests.oracles.joint_loss import NoisySum, losses

CHAIN = MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])


def rule_of(result, name):
    return next(row for row in result.considered if row.rule == name)


def test_counterexample_of_theorem_3_4_epsilons_alone_do_not_add_up():
    p, q, e = 0.9, 0.01, math.e
    single = e * max((q + e * (1 - q)) / (p + e * (1 - p)), (e * p + 1 - p) / (e * q + 1 - q))
    joint = e**2 * max(
        (q + e**2 * (1 - q)) / (p + e**2 * (1 - p)), (e**2 * p + 1 - p) / (e**2 * q + 1 - q)
    )
    assert single**2 / e**2 == pytest.approx(6.2672, abs=5e-5)
    assert joint / e**2 == pytest.approx(6.3448, abs=5e-5)
    chain = MarkovChain([0.5, 0.5], [[1 - q, q], [1 - p, p]])
    epsilon = math.log(single)
    twice = [Spending("wasserstein", epsilon, (1, 2))] * 2
    with pytest.raises(NoTheorem, match="wasserstein gives no per-entry bound"):
        compose(twice, chain, 2)
    # The sum 2 epsilon would have been a lie.
    assert math.log(joint) > 2 * epsilon
    # Theorem 3.6 is the way out, if E is known.
    assert compose(twice, chain, 2, dependence=0.5).epsilon == pytest.approx(
        2 * epsilon + 1, abs=2e-6
    )


@pytest.mark.slow
def test_two_wasserstein_releases_are_charged_more_than_their_epsilons():
    """[C] 3.4 with the noise that the mechanism adds: the true loss is at most what is charged."""
    p, q = 0.9, 0.01
    chain = MarkovChain([0.5, 0.5], [[1 - q, q], [1 - p, p]])
    for epsilon in (0.5, 1.0, 2.0, 4.0):
        for mechanism in (wasserstein, exact_sum):
            made = mechanism(chain, total([0, 1], 2), epsilon)
            noisy_sum = NoisySum(1, 2, (0.0, 1.0), made.scale)
            charged = compose([Spending.of(made)] * 2, chain, 2)
            assert charged.rule == "entry_profile"
            true = losses(chain.initial, chain.transition, [noisy_sum, noisy_sum], (2,)).max()
            assert true <= charged.epsilon
            if mechanism is exact_sum and epsilon == 2.0:
                assert true > 2 * epsilon


def test_disjoint_exact_sums_of_an_alternating_chain_lose_more_than_they_promise():
    """Two sums of 4 entries each, with noise that is exact for one long sum at epsilon 1."""
    chain = MarkovChain.steady([[0.1, 0.9], [0.9, 0.1]])
    scale = exact_sum(chain, count(1, 300), 1).scale
    noisy_sums = [NoisySum(first, first + 3, (0.0, 1.0), scale) for first in (1, 5)]
    true = losses(chain.initial, chain.transition, noisy_sums, (8,)).max()
    assert true > 1.3
    made = replace(exact_sum(chain, count(1, 4), 1), scale=scale)
    history = [Spending.of(made, (1, 4)), Spending.of(made, (5, 8))]
    assert rules.entry_profile(history, chain, 8) >= true


def test_a_sum_is_charged_for_the_entries_it_was_made_for():
    """A chain that alternates: the sum over two entries tells nothing, over one it tells all."""
    flip = MarkovChain.steady([[0.01, 0.99], [0.99, 0.01]])
    for mechanism in (wasserstein, exact_sum):
        made = mechanism(flip, count(1, 20), 1)
        with pytest.raises(ValueError, match="shorter than the 20 entries"):
            Spending.of(made, (1, 19))
    longer, shorter = (exact_sum(flip, count(1, n), 1).scale for n in (20, 1))
    assert longer < shorter


def test_a_query_of_ones_own_has_no_entry_epsilon_by_its_distance():
    joint = FiniteJoint({(0, 0): 0.5, (1, 1): 0.5})
    made = wasserstein(joint, Query("and", lambda row: row.min(), 1, 2), 1)
    assert Spending.of(made).entry_epsilon is None


def test_the_entry_profile_covers_the_counterexample():
    """The same two releases as Laplace noise of scale 1: event-level epsilon 1 each, 2 together."""
    p, q = 0.9, 0.01
    chain = MarkovChain([0.5, 0.5], [[1 - q, q], [1 - p, p]])
    twice = [Spending("entry_dp", 1.0, (1, 2), entry_epsilon=1.0)] * 2
    loss = compose(twice, chain, 2).epsilon
    assert loss >= math.log(6.3448 * math.e**2)


def test_quilt_releases_over_one_chain_add_up_theorem_3_7():
    three = [Spending.of(markov_quilt(CHAIN, count(1, 200), 0.1))] * 3
    result = compose(three, CHAIN, 200)
    assert rule_of(result, "quilt_sum").micro == 300_000
    assert rule_of(result, "quilt_max").micro == 300_000
    # The profile is tighter, so it is used and named.
    assert result.rule == "entry_profile"
    assert result.micro < 300_000


def test_unequal_quilt_releases_add_up_where_theorem_4_4_takes_the_largest():
    history = [Spending.of(markov_quilt(CHAIN, count(1, 200), e)) for e in (0.1, 0.5)]
    assert rules.quilt_sum(history) == 600_000
    assert rules.quilt_max(history) == 1_000_000


def test_theorem_4_4_needs_the_same_quilt_sets():
    history = [
        Spending("markov_quilt", 1, (1, 9), quilt_sets="all"),
        Spending("markov_quilt", 1, (1, 9), quilt_sets="cuts"),
    ]
    with pytest.raises(NoTheorem, match="same quilt sets"):
        rules.quilt_max(history)


@pytest.mark.parametrize("gap", [1, 2, 5, 20])
def test_parallel_uses_the_pairing_of_the_proof(gap):
    chain = MarkovChain.steady([[0.7, 0.2, 0.1], [0.1, 0.5, 0.4], [0.3, 0.1, 0.6]])
    t2, t3 = 10, 10 + gap
    history = [Spending("gk16", 0.3, (1, t2)), Spending("gk16", 1.1, (t3, t3 + 9))]
    forward, backward = max_influence(chain, t2, right=gap), max_influence(chain, t3, left=gap)
    expected = [0.3 + min(1.1, forward), 1.1 + min(0.3, backward)]
    # An entry between the windows loses to both.
    for d in range(1, gap):
        sides = max_influence(chain, t2 + d, left=d), max_influence(chain, t2 + d, right=gap - d)
        both = max_influence(chain, t2 + d, left=d, right=gap - d)
        expected.append(min(min(0.3, sides[0]) + min(1.1, sides[1]), both))
    value = rules.parallel(history, chain, 60)
    assert value == pytest.approx(max(expected), abs=0.01 if gap > 8 else 1e-9)
    assert value >= max(expected) - 1e-9


def test_the_printed_pairing_of_theorem_3_1_can_be_too_small():
    """Exact likelihood ratios of two releases against both pairings."""
    chain = MarkovChain.steady([[0.98, 0.02], [0.5, 0.5]])
    forward, backward = max_influence(chain, 1, right=1), max_influence(chain, 2, left=1)
    # Reveal X_1 with epsilon_a, and X_2 fully enough that only the influence bounds it.
    eps_a, eps_b = 0.2, 60.0
    proof = max(eps_a + min(eps_b, forward), eps_b + min(eps_a, backward))
    history = [Spending("gk16", eps_a, (1, 1)), Spending("gk16", eps_b, (2, 2))]
    assert rules.parallel(history, chain, 2) == pytest.approx(proof)


@given(
    rows=st.lists(st.floats(0.05, 0.95), min_size=2, max_size=2),
    eps=st.tuples(st.floats(0.1, 3), st.floats(0.1, 3), st.floats(0.1, 3)),
    gaps=st.tuples(st.integers(1, 3), st.integers(1, 3)),
)
@settings(max_examples=60, deadline=None)
def test_parallel_is_never_below_the_loss_of_three_randomised_responses(rows, eps, gaps):
    """One entry per window, each released by randomised response with its own epsilon."""
    chain = MarkovChain.steady([[rows[0], 1 - rows[0]], [1 - rows[1], rows[1]]])
    places = [1, 1 + gaps[0], 1 + gaps[0] + gaps[1]]
    length = places[-1]
    history = [Spending("gk16", e, (place, place)) for e, place in zip(eps, places, strict=True)]
    joint = np.array(chain.stationary)[:, None, None] * (
        np.linalg.matrix_power(chain.transition, gaps[0])[:, :, None]
        * np.linalg.matrix_power(chain.transition, gaps[1])[None, :, :]
    )
    worst = 0.0
    for z in product((0, 1), repeat=3):
        likelihood = np.ones((2, 2, 2))
        for axis, (e, bit) in enumerate(zip(eps, z, strict=True)):
            factor = np.where(np.arange(2) == bit, math.exp(e), 1.0)
            likelihood = likelihood * factor.reshape([-1 if a == axis else 1 for a in range(3)])
        for axis in range(3):
            other = tuple(a for a in range(3) if a != axis)
            means = (joint * likelihood).sum(axis=other) / joint.sum(axis=other)
            worst = max(worst, abs(math.log(means[0] / means[1])))
    assert rules.parallel(history, chain, length) >= worst - 1e-9


def test_far_windows_cost_the_larger_epsilon_theorem_3_3():
    first = markov_quilt_approx(CHAIN, count(1, 200), 0.5)
    second = markov_quilt_approx(CHAIN, count(1, 100), 0.8)
    near = [Spending.of(first, (1, 200)), Spending.of(second, (300, 399))]
    far = [Spending.of(first, (1, 200)), Spending.of(second, (400, 499))]
    with pytest.raises(NoTheorem, match="gap of at least 199 entries, there are 100"):
        rules.far_apart(near, CHAIN, 500)
    assert rules.far_apart(far, CHAIN, 500) == 0.8
    just = [Spending.of(first, (1, 200)), Spending.of(second, (399, 498))]
    assert rules.far_apart(just, CHAIN, 500) == 0.8


def test_far_windows_need_quilts_with_two_endpoints():
    short = markov_quilt_approx(CHAIN, count(1, 3), 0.5)
    history = [Spending.of(short, (1, 3)), Spending.of(short, (100, 102))]
    with pytest.raises(NoTheorem, match="two endpoints"):
        rules.far_apart(history, CHAIN, 200)


def test_windows_need_beliefs_that_hold_from_any_time_on():
    chain = MarkovChain([1, 0], [[0.9, 0.1], [0.4, 0.6]])
    history = [Spending("gk16", 1, (1, 5)), Spending("gk16", 1, (7, 9))]
    with pytest.raises(NoTheorem, match="fixed initial distribution"):
        rules.parallel(history, chain, 9)


@pytest.mark.parametrize(
    "beliefs",
    [
        ChainClass.any_start([[0.9, 0.1], [0.4, 0.6]]),
        ChainClass.binary(0.3, 0.8),
        ChainClass.mixing(2, 0.2, 0.75),
    ],
)
def test_parallel_for_every_kind_of_class(beliefs):
    history = [Spending("influence_curve", 1, (1, 5)), Spending("influence_curve", 1, (60, 70))]
    value = rules.parallel(history, beliefs, 100)
    assert 1 <= value < 1.1


def test_entry_dp_alone_is_charged_by_what_it_really_loses():
    history = [Spending.of(entry_dp(count(1, 300), 0.1))]
    result = compose(history, CHAIN, 300)
    assert result.rule == "entry_profile"
    assert result.epsilon > 0.29


def test_mixed_mechanisms_go_through_the_profile():
    fast = MarkovChain.steady([[0.55, 0.45], [0.5, 0.5]])
    history = [
        Spending.of(markov_quilt(fast, count(1, 50), 0.5)),
        Spending.of(gk16(fast, count(1, 50), 0.5)),
        Spending.of(influence_curve(fast, count(1, 50), 0.5)),
    ]
    result = compose(history, fast, 50)
    assert result.rule == "entry_profile"
    b = sum(s.entry_epsilon for s in history)
    assert result.epsilon == pytest.approx(InfluenceCurve(fast, 50).epsilon(b), abs=2e-6)


def test_a_mechanism_that_only_promises_pufferfish_spoils_the_mix():
    history = [
        Spending.of(markov_quilt(CHAIN, count(1, 50), 0.5)),
        Spending("wasserstein", 0.5, (1, 50)),
    ]
    with pytest.raises(NoTheorem):
        compose(history, CHAIN, 50)


def test_overlapping_windows_add_up_only_where_they_overlap():
    week = influence_curve(CHAIN, count(1, 50), 0.5)
    apart = [Spending.of(week, (1, 50)), Spending.of(week, (51, 100))]
    overlap = [Spending.of(week, (1, 50)), Spending.of(week, (26, 75))]
    same = [Spending.of(week, (1, 50)), Spending.of(week, (1, 50))]
    costs = [compose(h, CHAIN, 100).epsilon for h in (apart, overlap, same)]
    assert costs[0] < costs[1] <= costs[2]


def test_segments_are_independent():
    history = [Spending("gk16", 1, (1, 10), 0.2), Spending("gk16", 1, (11, 20), 0.3)]
    joined = compose(history, CHAIN, 20)
    split = compose(history, CHAIN, (10, 10))
    assert rule_of(split, "entry_profile").micro < rule_of(joined, "entry_profile").micro
    alone = InfluenceCurve(CHAIN, 10).epsilon(0.3)
    assert split.epsilon == pytest.approx(alone, abs=2e-6)


def test_a_year_of_weekly_histograms():
    """Disjoint weeks: a fixed cost by the profile, a small one by [C] 3.1, 52 times by adding."""
    week = influence_curve(CHAIN, count(1, 2016), 0.5)
    history = [Spending.of(week, (2016 * n + 1, 2016 * (n + 1))) for n in range(52)]
    result = compose(history, CHAIN, 52 * 2016)
    assert result.rule == "entry_profile"
    assert result.epsilon == pytest.approx(0.5, abs=1e-5)
    # Adjacent weeks touch, so Theorem 3.1 pays for the influence of neighbouring entries.
    assert rule_of(result, "parallel").micro / 1e6 == pytest.approx(0.5 + 2 * math.log(6), abs=1e-3)
    assert sum(s.epsilon for s in history) == 26.0


# -- every entry, not only those of the windows ------------------------------------------------

PAIRS = [[0.5, 0.5, 0, 0], [0, 0, 0.5, 0.5]] * 2  # (u, v) to (v, a fair coin)


def test_an_entry_between_two_windows_loses_to_both(tmp_path):
    """X_2 = (coin, coin) is told by X_1 and by X_3, which are independent of one another."""
    chain = MarkovChain.steady(PAIRS)
    queries = [(total([0, 1, 0, 1], 1), (1, 1)), (total([0, 0, 1, 1], 1), (3, 3))]
    history = [Spending.of(influence_curve(chain, query, 1), window) for query, window in queries]
    noisy_sums = [NoisySum(1, 1, (0, 1, 0, 1), 1.0), NoisySum(3, 3, (0, 0, 1, 1), 1.0)]
    assert losses([0.25] * 4, PAIRS, noisy_sums, [3]) == pytest.approx([1, 2, 1])
    assert rules.parallel(history, chain, 3) == pytest.approx(2)
    assert compose(history, chain, 3).epsilon >= 2
    session = Asking([0, 1, 3], chain, 3.0, str(tmp_path / "l.db"))
    scales = [session.release(query, 1, window=window).scale for query, window in queries]
    told = [replace(one, scale=scale) for one, scale in zip(noisy_sums, scales, strict=True)]
    lost = max(losses([0.25] * 4, PAIRS, told, [3]))
    assert lost > max(1 / scale for scale in scales)
    assert session.spent >= lost


def test_entries_of_a_long_gap_are_covered_in_stretches():
    for count_ in (1, 8, 9, 30, 1000):
        stretches = list(_stretches(count_))
        covered = [d for near, far in stretches for d in range(near, far + 1)]
        assert sorted(covered) == list(range(1, count_ + 1))
    assert len(list(_stretches(10**9))) < 70


@pytest.mark.parametrize("kind", ["steady", "any start", "mixing", "region"])
@pytest.mark.parametrize("gap", [10, 17, 40])
def test_stretches_are_never_below_entry_by_entry(kind, gap, monkeypatch):
    matrix = np.array([[0.6, 0.3, 0.1], [0.1, 0.8, 0.1], [0.25, 0.05, 0.7]])
    theta = {
        "steady": ChainClass.of(MarkovChain.steady(matrix)),
        "any start": ChainClass.any_start(matrix),
        "mixing": ChainClass.mixing(3, 0.2, 0.5),
        "region": RegionClass(0.9 * matrix, 0.9 * matrix + 0.1),
    }[kind]
    history = [Spending("gk16", 1, (4, 5)), Spending("gk16", 1.5, (5 + gap, 8 + gap))]
    quick = rules.parallel(history, theta, 60)
    monkeypatch.setattr(rules, "_ONE_BY_ONE", 10**6)
    slow = rules.parallel(history, theta, 60)
    assert slow - 1e-9 <= quick <= slow + 0.35


def test_far_windows_are_checked_for_every_chain_of_the_class():
    """In windows this long the fast chain has a quilt with two endpoints, the slow one none."""
    fast = MarkovChain.steady([[0.5, 0.5], [0.5, 0.5]])
    slow = MarkovChain.steady([[0.95, 0.05], [0.05, 0.95]])
    theta = ChainClass.of(fast, slow)
    noise = markov_quilt_approx(theta, count(1, 30), 1, bound="tight")
    history = [Spending.of(noise, (1, 30)), Spending.of(noise, (101, 130))]
    assert rules.far_apart(history, fast, 130) == 1
    for beliefs in (slow, theta):
        with pytest.raises(NoTheorem, match="two endpoints"):
            rules.far_apart(history, beliefs, 130)


@pytest.mark.slow
def test_far_windows_whose_quilts_meet_in_the_gap_are_refused():
    """An entry between them would have entries of both windows nearby."""
    chain = MarkovChain.steady([[0.8, 0.2], [0.2, 0.8]])
    refusals = []
    for epsilon in np.geomspace(0.3, 3, 24):
        noise = [markov_quilt_approx(chain, count(1, 40), e, bound="tight") for e in (epsilon, 3)]
        history = [Spending.of(noise[0], (1, 40)), Spending.of(noise[1], (80, 119))]
        try:
            assert rules.far_apart(history, chain, 119) == 3
        except NoTheorem as reason:
            refusals.append(str(reason))
        profile = rules.entry_profile(history, chain, 119)
        assert profile <= 3 + 1e-6
    assert all("two endpoints" in reason or "between the windows" in reason for reason in refusals)


def test_quilt_releases_about_a_network_add_up():
    step = {(0,): [0.9, 0.1], (1,): [0.4, 0.6]}
    network = BayesianNetwork({1: (), 2: (1,), 3: (2,)}, {1: {(): [0.8, 0.2]}, 2: step, 3: step})
    history = [Spending.of(markov_quilt(network, count(1, 3), e)) for e in (1, 2)]
    assert rule_of(compose(history, network, 3), "quilt_sum").micro == 3_000_000


def test_a_release_for_given_secrets_is_no_release_for_every_entry():
    joint = FiniteJoint({(0, 0): 0.4, (0, 1): 0.1, (1, 0): 0.1, (1, 1): 0.4})
    secret = [(lambda row: row[0] == 0, lambda row: row[0] == 1)]
    noise = wasserstein(joint, count(1, 2), 1, secrets=secret)
    with pytest.raises(NoTheorem, match="every entry"):
        Spending.of(noise)


def test_noise_for_a_short_window_is_not_taken_for_a_long_one():
    noise = influence_curve(CHAIN, count(1, 5), 1)
    with pytest.raises(ValueError, match="calibrated for 5"):
        Spending.of(noise, (1, 6))


# -- a distribution that switches --------------------------------------------------------------


def test_a_chain_that_switches_is_in_no_class_of_homogeneous_chains():
    """Weekends by one matrix, weekdays by another: the class of both chains promises 1."""
    weekend, weekday = [[0.7, 0.3], [0.7, 0.3]], [[0.98, 0.02], [0.9, 0.1]]
    both = ChainClass.of(MarkovChain.steady(weekend), MarkovChain.steady(weekday))
    noisy_sums = [NoisySum(1, 8, (0, 1), influence_curve(both, count(1, 8), 1).scale)]
    for matrix, start in ((weekend, [0.7, 0.3]), (weekday, [0.9 / 0.92, 0.02 / 0.92])):
        assert losses(start, matrix, noisy_sums, [8]).max() <= 1 + 1e-9
    switching = np.array([weekend] * 3 + [weekday] * 4)
    assert losses([0.7, 0.3], switching, noisy_sums, [8]).max() > 1.19
    # Weekends and weekdays released apart, each under its own chain.
    apart = [
        NoisySum(1, 4, (0, 1), influence_curve(both.chains[0], count(1, 4), 1).scale),
        NoisySum(5, 8, (0, 1), influence_curve(both.chains[1], count(1, 4), 1).scale),
    ]
    assert losses([0.7, 0.3], switching, apart, [8]).max() > 1


@pytest.mark.parametrize(
    "mechanism", ["influence_curve", "markov_quilt", "wasserstein", "group_dp"]
)
def test_noise_for_independent_segments_is_charged_by_its_costs_where_they_are_one(mechanism):
    chain = pk.MarkovChain.steady([[0.95, 0.05], [0.05, 0.95]])
    two, one = pk.count(1, [5, 5]), pk.count(1, 10)
    if mechanism == "group_dp":
        noise = pk.group_dp(two, 1)
    else:
        noise = getattr(pk, mechanism)(chain, two, 1)
    history = [pk.Spending.of(noise)]
    assert pk.compose(history, chain, [5, 5]).epsilon <= 1 + 1e-6
    charged = pk.compose(history, chain, 10)
    true = pk.audit.exact_loss(replace(pk.influence_curve(chain, one, 1), scale=noise.scale))
    assert charged.rule == "entry_profile"
    assert 1.5 < true <= charged.epsilon


def test_noise_for_a_sum_is_charged_by_its_costs_over_other_segments():
    chain = pk.MarkovChain.steady([[0.1, 0.9], [0.9, 0.1]])
    noise = pk.exact_sum(chain, pk.count(1, [4, 4]), 1)
    history = [pk.Spending.of(noise)]
    assert pk.compose(history, chain, [4, 4]).epsilon <= 1 + 1e-6
    charged = pk.compose(history, chain, [4, 3, 1])
    assert charged.rule == "entry_profile"
    other = replace(pk.exact_sum(chain, pk.count(1, [4, 3, 1]), 1), scale=noise.scale)
    assert 1.05 < pk.audit.exact_loss(other) <= charged.epsilon
