"""The influence curve: bounds far from the start, what is solved for, spellings and bad input."""

from __future__ import annotations

from itertools import groupby

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from pufferkit import (
    ChainClass,
    InfluenceCurve,
    MarkovChain,
    NotApplicable,
    count,
    entry_epsilon,
    histogram,
    influence_curve,
    markov_quilt,
    markov_quilt_approx,
    mean,
    total,
)
from pufferkit.influence.curve.steps import LARGEST
from pufferkit.influence.profile import Run
from tests.oracles import brute_curve as brute
from tests.strategies.curves import (
    KINDS,
    PROFILES,
    SLACK,
    curve_of,
    keeps_promise,
    listed,
    losses,
    profiles,
)


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(
    st.integers(2, 3),
    st.sampled_from(KINDS),
    st.lists(
        st.tuples(st.integers(1, 30), st.sampled_from([0.0, 0.0, 0.02, 0.2, 1.0])),
        min_size=1,
        max_size=6,
    ),
    st.integers(0, 2**32),
)
def test_random_runs_never_below_a_release_nor_far_above_the_theorem(size, kind, runs, seed):
    rng = np.random.default_rng(seed)
    matrix = brute.random_matrix(rng, size, kind)
    order = profiles(*runs)
    bs = listed(order)
    start = brute.random_start(rng, size) if rng.random() < 0.7 else None
    curve = curve_of(matrix, start, len(bs))
    with brute.within(30):
        promised, epsilon = losses(curve, order), curve.epsilon(order)
    assert epsilon <= brute.theorem_losses(matrix, bs, start).max() * 1.02 + SLACK
    if start is not None:
        real = brute.product_losses(start, matrix, bs, 24)
        assert (promised >= real - SLACK).all()
        assert epsilon >= real.max() - SLACK


# ---------------------------------------------------------------------------- never wasteful


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    st.integers(2, 4),
    st.sampled_from(KINDS),
    st.sampled_from([1, 2, 5, 16, 17, 30, 48, 49, 80, 300]),
    st.floats(0.005, 1),
    st.booleans(),
    st.integers(0, 2**32),
)
@example(2, "slow", 40, 0.01, False, 0)
@example(2, "slow", 100, 0.01, False, 0)
@example(2, "slow", 100, 0.01, True, 0)
def test_never_more_than_everything_that_was_spent(size, kind, length, b, any_start, seed):
    """Every entry changed at once costs T b. Nothing can cost more."""
    rng = np.random.default_rng(seed)
    slow = np.array([[0.99999, 0.00001], [0.00001, 0.99999]])
    matrix = slow if kind == "slow" else brute.random_matrix(rng, size, kind)
    start = None if any_start else brute.random_start(rng, size)
    curve = curve_of(matrix, start, length)
    assert curve.epsilon(b) <= length * b * (1 + 1e-9)
    assert curve_of(matrix, None, length).epsilon(b) <= length * b * (1 + 1e-9)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 4),
    st.sampled_from(KINDS),
    st.sampled_from([1, 2, 5, 16, 17, 40, 49, 130]),
    st.sampled_from([1e-6, 0.2, 1.0, 5.0, 60.0, 1000.0]),
    st.sampled_from(["given", "stationary", "any"]),
    st.integers(0, 2**32),
)
def test_what_is_solved_for_is_private_and_no_noisier_than_a_quilt(
    size, kind, length, epsilon, start, seed
):
    rng = np.random.default_rng(seed)
    matrix = brute.random_matrix(rng, size, kind)
    if start == "any":
        belief = ChainClass.any_start(matrix)
    elif start == "given":
        belief = MarkovChain(brute.random_start(rng, size), matrix)
    else:
        try:
            belief = MarkovChain.steady(matrix)
        except ValueError:
            assume(False)
    curve = InfluenceCurve(belief, length)
    b = curve.entry_epsilon(epsilon)
    assert 0 < b <= epsilon
    assert curve.epsilon(b) <= epsilon
    query = count(0, length)
    scale = influence_curve(belief, query, epsilon).scale
    if epsilon < LARGEST:  # beyond, the curve has no bound but for all entries together
        assert scale <= markov_quilt(belief, query, epsilon).scale * (1 + 1e-3)
    assert scale <= 1 / b * (1 + 1e-9)
    # b is the largest but for the precision of the search, or the curve is not the better bound.
    assert b == epsilon or curve.epsilon(b * (1 + 1e-4)) > epsilon or scale * b < 1


@settings(max_examples=10, deadline=None)
@given(
    st.integers(1, 4),
    st.floats(0.05, 1),
    st.floats(0.01, 1),
    st.sampled_from([1, 3, 20, 60, 1000]),
    st.sampled_from([0.2, 1.0, 5.0]),
)
def test_mixing_needs_no_more_than_the_approximate_quilt(states, share, gap, length, epsilon):
    belief = ChainClass.mixing(states, share / states, gap)
    query = count(0, length)
    scale = influence_curve(belief, query, epsilon).scale
    assert scale <= markov_quilt_approx(belief, query, epsilon, bound="tight").scale * (1 + 1e-3)
    curve = InfluenceCurve(belief, length)
    assert curve.epsilon(curve.entry_epsilon(epsilon)) <= epsilon


# ------------------------------------------------------------------------- large epsilon


@pytest.mark.parametrize("b", [8.0, 20.0, 60.0, 100.0, 300.0])
def test_an_absorbing_state_with_any_start_hides_nothing(b):
    """X_6 = 0 shows that all entries were 0; a start in 1 that all were 1. So the loss is 6 b."""
    curve = InfluenceCurve(ChainClass.any_start([[0.5, 0.5], [0, 1]]), 6)
    assert curve.epsilon(b) >= 6 * b * (1 - 1e-13)
    assert losses(curve, b)[-1] >= 6 * b * (1 - 1e-13)


@pytest.mark.parametrize("b", [30.0, 50.0, 100.0, 300.0])
def test_large_losses_with_any_start_never_below_a_product_release(b):
    for leave in (1e-3, 1e-12, 1e-20, 1e-30):
        matrix = [[1 - leave, leave], [leave, 1 - leave]]
        curve = InfluenceCurve(ChainClass.any_start(matrix), 3)
        for weight in np.exp(-np.linspace(0, b, 41)):
            distribution = np.array([weight, 1.0]) / (1 + weight)
            keeps_promise(
                curve, b, brute.product_losses(distribution, curve_matrix(curve), np.full(3, b))
            )


def curve_matrix(curve: InfluenceCurve) -> np.ndarray:
    """The matrix as the belief holds it, rescaled."""
    return np.asarray(curve.beliefs.members()[0].chain.transition)


@pytest.mark.parametrize("b", [10.0, 40.0])
def test_large_losses_of_a_mixing_class_never_below_a_product_release(b):
    matrix = np.array([[0.6, 0.4], [0.3, 0.7]])
    pi_min, gap = brute.mixing_of(matrix)
    slow = ChainClass.mixing(2, pi_min * 0.999, gap * 0.02)
    for length in (5, 20):
        curve = InfluenceCurve(slow, length)
        lazy = 0.02 * matrix + 0.98 * np.eye(2)
        for distribution in ([1, 0], [0.5, 0.5], [1e-9, 1 - 1e-9]):
            bs = np.full(length, b)
            keeps_promise(curve, b, brute.product_losses(distribution, lazy, bs, 64))


def test_probabilities_lost_to_underflow_are_not_forgotten():
    """0 reaches 2 in two steps with probability 1e-400: e^{3 b} of that is 2079 at b = 1000."""
    tiny = 1e-200
    matrix = [[1, tiny, 0, 0], [0, 1, tiny, 0], [0, 0, 1, 0], [1, 0, 0, 0]]
    belief = MarkovChain([0.5, 0, 0, 0.5], matrix)
    real = brute.product_losses(belief.initial, belief.transition, np.full(3, 1000.0))
    assert real[0] == pytest.approx(3000 + 2 * np.log(tiny), rel=1e-6)
    keeps_promise(InfluenceCurve(belief, 3), 1000.0, real)


# ------------------------------------------------------------------------------ using it


@pytest.mark.slow
@pytest.mark.parametrize("lengths", [30, [10, 50, 3]])
@pytest.mark.parametrize("belief", ["stationary", "given", "any", "binary", "mixing"])
def test_entry_epsilon_is_the_lipschitz_constant_over_the_scale(belief, lengths):
    matrix = [[0.9, 0.1], [0.4, 0.6]]
    theta = {
        "stationary": MarkovChain.steady(matrix),
        "given": MarkovChain([1, 0], matrix),
        "any": ChainClass.any_start(matrix),
        "binary": ChainClass.binary(0.2, 0.8),
        "mixing": ChainClass.mixing(2, 0.2, 0.75),
    }[belief]
    for query in (
        count(1, lengths),
        histogram([0, 1], lengths),
        total([0.5, 3.0], lengths),
        mean([0, 1], lengths),
    ):
        calibration = influence_curve(theta, query, 0.7)
        b = entry_epsilon(theta, lengths, 0.7)
        assert b == pytest.approx(query.lipschitz / calibration.scale, rel=1e-12)
        assert query.lipschitz / calibration.scale <= b
        assert calibration.epsilon == 0.7
    longest = max(np.atleast_1d(lengths))
    assert b == entry_epsilon(theta, int(longest), 0.7)


def test_several_segments_lose_no_more_than_the_longest():
    """Segments are independent: a release over two of them, entry by entry, by listing."""
    matrix, start = np.array([[0.9, 0.1], [0.4, 0.6]]), np.array([0.3, 0.7])
    both = np.kron(matrix, matrix)  # two chains side by side, as one chain on pairs
    logs = brute.paths(4, 4)
    ones = (logs // 2).sum(axis=1) + (logs % 2)[:, :3].sum(axis=1)  # the second is shorter
    likelihood = -0.6 * np.abs(ones[None, :] - np.arange(8)[:, None])
    distribution, promised = (
        np.kron(start, start),
        InfluenceCurve(MarkovChain(start, matrix), [4, 3]),
    )
    for i in range(4):
        real = 0.0
        for coordinate in (0, 1):
            real = max(real, _loss_of_coordinate(both, distribution, likelihood, i, coordinate))
        assert promised.epsilon(0.6) >= real - SLACK


def _loss_of_coordinate(both, distribution, likelihood, i: int, coordinate: int) -> float:
    all_paths = brute.paths(4, 4)
    chance = distribution[all_paths[:, 0]].copy()
    for before, after in zip(all_paths.T[:-1], all_paths.T[1:], strict=True):
        chance *= both[before, after]
    values = all_paths[:, i] // 2 if coordinate == 0 else all_paths[:, i] % 2
    means = [
        (np.exp(likelihood[:, values == x]) @ chance[values == x]) / chance[values == x].sum()
        for x in (0, 1)
    ]
    return float(np.abs(np.log(means[0] / means[1])).max())


def test_the_cost_does_not_depend_on_the_length():
    chain = MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    long, longer = (InfluenceCurve(chain, n).entry_epsilon(1.0) for n in (10**4, 10**9))
    assert longer == pytest.approx(long, rel=1e-4)
    assert influence_curve(ChainClass.any_start(chain.transition), count(1, 10**9), 1).scale < 12
    started = MarkovChain([1, 0], chain.transition)
    assert influence_curve(started, count(1, 10**9), 1).scale < 4
    quilts = [markov_quilt(started, count(1, n), 1).scale for n in (10**4, 10**9)]
    assert quilts[0] == quilts[1]


def test_binding_says_where_and_rows_make_a_table():
    chains_ = [MarkovChain([1, 0], [[p, 1 - p], [0.4, 0.6]]) for p in (0.5, 0.9, 0.7)]
    curve = InfluenceCurve(ChainClass.of(*chains_), 30)
    name, loss = curve.binding(0.3)
    assert name == "chain 2 of 3"
    assert loss.value == curve.epsilon(0.3)
    each = curve.entry_losses(0.3)
    assert set(each) == {f"chain {n} of 3" for n in (1, 2, 3)}
    assert each[name][loss.node - 1] == pytest.approx(loss.value)
    rows = curve.rows([0.1, 0.3])
    assert len(rows) == 6
    assert max(r["epsilon"] for r in rows if r["b"] == 0.3) == loss.value
    assert InfluenceCurve(chains_[1], 30).epsilon(0.3) == loss.value


def test_profiles_are_the_same_in_every_spelling():
    curve = InfluenceCurve(MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]]), 60)
    bs = listed(PROFILES["windows"])[:60]
    runs = [Run(len(list(group)), float(b)) for b, group in groupby(bs)]
    assert curve.epsilon(bs) == curve.epsilon(bs.tolist()) == curve.epsilon(runs)
    assert curve.epsilon(np.float64(0.3)) == curve.epsilon([Run(30, 0.3), Run(30, 0.3)])


@pytest.mark.parametrize(
    ("profile", "says"),
    [
        (-0.1, "negative"),
        (float("nan"), "finite"),
        (float("inf"), "finite"),
        ([0.1] * 9, "got 9"),
        ([0.1] * 11, "got 11"),
        ([], "got 0"),
        ([0.1] * 9 + [-1.0], "negative"),
        ([Run(9, 0.1)], "got 9"),
        ([Run(0, 0.1), Run(10, 0.1)], "at least 1"),
        ([Run(-1, 0.1), Run(11, 0.1)], "at least 1"),
        (["a"] * 10, "number"),
    ],
)
def test_bad_profiles_are_refused(profile, says):
    curve = InfluenceCurve(MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]]), 10)
    for ask in (curve.epsilon, curve.losses):
        with pytest.raises(ValueError, match=says):
            ask(profile)


@pytest.mark.parametrize("epsilon", [0, -1, float("nan"), float("inf"), "one", None])
def test_bad_epsilons_are_refused(epsilon):
    chain = MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    for ask in (
        lambda: InfluenceCurve(chain, 5).entry_epsilon(epsilon),
        lambda: entry_epsilon(chain, 5, epsilon),
        lambda: influence_curve(chain, count(1, 5), epsilon),
    ):
        with pytest.raises(ValueError, match="epsilon"):
            ask()


@pytest.mark.parametrize("lengths", [0, -3, 2.5, [], [5, 0], "ten"])
def test_bad_lengths_are_refused(lengths):
    chain = MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    for ask in (InfluenceCurve, lambda c, n: entry_epsilon(c, n, 1.0)):
        with pytest.raises(ValueError, match="lengths"):
            ask(chain, lengths)


def test_bad_beliefs_and_queries_are_refused():
    with pytest.raises(ValueError, match="beliefs"):
        InfluenceCurve([[0.9, 0.1], [0.4, 0.6]], 5)
    with pytest.raises(ValueError, match="beliefs"):
        entry_epsilon(None, 5, 1.0)
    chain = MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]], states=["a", "b"])
    with pytest.raises((ValueError, NotApplicable), match="states"):
        influence_curve(chain, histogram(["a", "c"], 5), 1.0)
