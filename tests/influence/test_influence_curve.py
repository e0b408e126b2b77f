"""The influence curve: never below what a release really loses, never above what was proved.

Brute force comes from ``brute_curve``, which shares no code with the package. Short chains are done
by listing all paths. Long ones, where whole stretches are bounded at once, are compared with the
theorem node by node and with the worst product release, which needs no listing.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pufferkit import (
    ChainClass,
    InfluenceCurve,
    MarkovChain,
    count,
    entry_epsilon,
    influence_curve,
    markov_quilt,
)
from pufferkit.influence.profile import Run
from tests.oracles import brute_curve as brute
from tests.strategies.curves import (
    KINDS,
    LONG,
    PROFILES,
    SLACK,
    curve_of,
    keeps_promise,
    listed,
    losses,
    starts_for,
)


@st.composite
def chains(draw, most_states=4):
    """(random numbers, transition matrix, length); few enough paths to list."""
    size = draw(st.integers(1, most_states))
    length = draw(st.integers(1, {4: 5, 3: 6}.get(size, 7)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    return rng, brute.random_matrix(rng, size, draw(st.sampled_from(KINDS))), length


spending = st.one_of(st.sampled_from([0.01, 0.3, 1.0, 5.0, 20.0]), st.floats(0.001, 6))


def _theorem(matrix, bs, start=None):
    """Losses node by node; of one state there is nothing to tell."""
    return brute.theorem_losses(matrix, bs, start) * (len(matrix) > 1)


# --------------------------------------------------------------------------- brute force itself


def test_product_releases_by_messages_are_those_by_paths():
    rng = np.random.default_rng(5)
    for size, length in [(2, 5), (3, 3)]:
        matrix, start = brute.random_matrix(rng, size, "sparse"), brute.random_start(rng, size)
        bs = rng.random(length)
        sets = [set(s) for n in range(size + 1) for s in product(range(size), repeat=n)]
        subsets = [set(s) for s in {tuple(sorted(one)) for one in sets}]
        logs = [brute.product_release(size, row, bs) for row in product(subsets, repeat=length)]
        by_paths = brute.losses_by_paths(start, matrix, length, np.vstack(logs))
        assert brute.product_losses(start, matrix, bs) == pytest.approx(by_paths, abs=1e-10)


def test_random_releases_spend_what_they_say():
    rng = np.random.default_rng(6)
    bs = np.array([0.5, 0.0, 2.0, 1.0])
    all_paths = brute.paths(3, 4)
    for logs in (brute.random_release(rng, 3, bs, 10), brute.releases_with_profile(rng, 3, bs)):
        moved = np.abs(logs[:, :, None] - logs[:, None, :]).max(axis=0)
        apart = (all_paths[:, None, :] != all_paths[None, :, :]) @ bs
        assert (moved <= apart + 1e-12).all()
    for logs in (brute.every_release(rng, 3, 4, 0.7), brute.count_release(3, 4, 1, 0.7)):
        moved = np.abs(logs[:, :, None] - logs[:, None, :]).max(axis=0)
        apart = (all_paths[:, None, :] != all_paths[None, :, :]).sum(axis=2)
        assert (moved <= 0.7 * apart + 1e-12).all()


# ----------------------------------------------------------------------------- published numbers

TABLE = [
    ([[0.9, 0.1], [0.4, 0.6]], (15.390, 3.336, 0.532), (93.073, 12.840, 0.706)),
    ([[0.8, 0.2], [0.3, 0.7]], (15.112, 3.024, 0.378), (80.739, 10.120, 0.401)),
    ([[0.9, 0.1], [0.1, 0.9]], (44.926, 8.640, 0.794), (251.371, 31.738, 1.525)),
    ([[0.99, 0.01], [0.01, 0.99]], (494.18, 94.99, 8.187), (2837.1, 364.40, 21.935)),
]


@pytest.mark.parametrize(("matrix", "ours", "quilts"), TABLE)
def test_table_of_the_theory(matrix, ours, quilts):
    chain, query = MarkovChain.steady(matrix), count(1, 10**6)
    for epsilon, scale, quilt in zip((0.2, 1, 5), ours, quilts, strict=True):
        noise = influence_curve(chain, query, epsilon).scale
        assert noise == pytest.approx(scale, rel=2e-3)
        assert noise <= scale + 6e-4 * max(1, scale / 10)
        assert markov_quilt(chain, query, epsilon).scale == pytest.approx(quilt, rel=5e-4)


@pytest.mark.slow
@pytest.mark.parametrize(("matrix", "ours", "quilts"), TABLE)
@pytest.mark.parametrize("epsilon", [0.2, 1, 5])
def test_table_cannot_be_bettered(matrix, ours, quilts, epsilon):
    """2% less noise breaks the promise: a count then really loses more than epsilon."""
    b = entry_epsilon(MarkovChain.steady(matrix), 10**6, epsilon)
    length = 2000 if matrix[0][0] == 0.99 else 400
    pi = brute.stationary_distribution(matrix)
    real = brute.product_losses(pi, matrix, np.full(length, b), beam=4).max()
    assert epsilon * (1 - 1e-6) <= real <= epsilon
    assert brute.product_losses(pi, matrix, np.full(length, b * 1.02), beam=4).max() > epsilon


def test_tightness_of_the_theory():
    for matrix, b, worst in [
        ([[0.9, 0.1], [0.4, 0.6]], 1.0, 3.209),
        ([[0.9, 0.1], [0.1, 0.9]], 0.3, 1.7458),
    ]:
        pi = brute.stationary_distribution(matrix)
        real = brute.losses_by_paths(pi, matrix, 10, brute.count_release(2, 10, 1, b)).max()
        real = max(
            real, brute.losses_by_paths(pi, matrix, 10, brute.count_release(2, 10, 0, b)).max()
        )
        promised = InfluenceCurve(MarkovChain.steady(matrix), 10).epsilon(b)
        assert real == pytest.approx(worst, rel=2e-4)
        assert promised == pytest.approx(real, abs=1e-6)


@settings(max_examples=40, deadline=None)
@given(st.floats(0.01, 0.98), st.floats(0.01, 0.98), st.integers(1, 10), st.floats(0.05, 4))
def test_a_count_of_a_positively_correlated_binary_chain_reaches_the_promise(q, r, length, b):
    assume(q + r <= 1)
    matrix = [[1 - q, q], [r, 1 - r]]
    pi = [r / (q + r), q / (q + r)]
    logs = np.vstack([brute.count_release(2, length, x, b) for x in (0, 1)])
    real = brute.losses_by_paths(pi, matrix, length, logs)
    promised = losses(InfluenceCurve(MarkovChain.steady(matrix), length), b)
    assert (promised >= real * (1 - 1e-9)).all()
    assert promised.max() == pytest.approx(real.max(), rel=2e-3)
    assert promised == pytest.approx(real, rel=2e-2)  # a limit for later entries serves them all
    assert (promised >= real - SLACK).all()


# ----------------------------------------------------------- short chains, by listing all paths


def covers_every_release(curve, b, start, matrix, logs):
    bs = np.full(curve.length, b)
    keeps_promise(curve, b, brute.losses_by_paths(start, matrix, curve.length, logs))
    keeps_promise(curve, b, brute.product_losses(start, matrix, bs, 512))
    by_one_number = _theorem(matrix, bs, start)
    assert (losses(curve, b) <= by_one_number * (1 + 1e-5) + 1e-7).all()


@settings(max_examples=60, deadline=None)
@given(chains(), spending)
def test_given_start_never_below_any_release(chain, b):
    rng, matrix, length = chain
    size, start = len(matrix), brute.random_start(rng, len(matrix))
    curve = InfluenceCurve(MarkovChain(start, matrix), length)
    logs = brute.every_release(rng, size, length, b)
    covers_every_release(curve, b, start, matrix, logs)


@settings(max_examples=50, deadline=None)
@given(chains(), spending)
def test_stationary_start_never_below_any_release(chain, b):
    rng, matrix, length = chain
    try:
        belief = MarkovChain.steady(matrix)
    except ValueError:
        assume(False)
    curve, start = InfluenceCurve(belief, length), belief.initial
    assert start @ matrix == pytest.approx(start, abs=1e-12)
    logs = brute.every_release(rng, len(matrix), length, b)
    covers_every_release(curve, b, start, matrix, logs)


def test_a_value_that_is_only_ever_a_start_is_no_short_cut():
    """From the second entry on 0 is impossible, and 1 and 2 last for ever: all entries tell."""
    curve = InfluenceCurve(ChainClass.any_start([[0, 1, 0], [0, 1, 0], [0, 0, 1]]), 5)
    assert (losses(curve, 0.01) >= 0.05 - SLACK).all()


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(chains(), spending)
def test_any_start_never_below_any_release(chain, b):
    rng, matrix, length = chain
    size, bs = len(matrix), np.full(length, b)
    curve = InfluenceCurve(ChainClass.any_start(matrix), length)
    distributions = brute.starts(rng, size)
    logs = brute.every_release(rng, size, length, b)
    keeps_promise(curve, b, brute.losses_by_paths(distributions, matrix, length, logs))
    for distribution in distributions[:: max(1, len(distributions) // 12)]:
        keeps_promise(curve, b, brute.product_losses(distribution, matrix, bs, 64))
    # One number for all pairs of values is hardly ever less.
    assert losses(curve, b).max() <= _theorem(matrix, bs).max() * 1.035 + SLACK


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 3), st.integers(1, 5), spending, st.booleans())
def test_several_beliefs_cost_what_the_worst_costs(seed, size, length, b, free_start):
    rng = np.random.default_rng(seed)
    matrices = [brute.random_matrix(rng, size) for _ in range(3)]
    if free_start:
        curve = InfluenceCurve(ChainClass.any_start(*matrices), length)
        alone = [InfluenceCurve(ChainClass.any_start(m), length) for m in matrices]
        distributions = [brute.starts(rng, size)] * 3
    else:
        distributions = [brute.random_start(rng, size) for _ in range(3)]
        beliefs = [
            MarkovChain(distribution, m)
            for distribution, m in zip(distributions, matrices, strict=True)
        ]
        curve = InfluenceCurve(ChainClass.of(*beliefs), length)
        alone = [InfluenceCurve(belief, length) for belief in beliefs]
    assert curve.epsilon(b) == pytest.approx(max(one.epsilon(b) for one in alone), rel=1e-9)
    logs = brute.every_release(rng, size, length, b)
    for distribution, matrix in zip(distributions, matrices, strict=True):
        keeps_promise(curve, b, brute.losses_by_paths(distribution, matrix, length, logs))
    solved = curve.entry_epsilon(b)
    assert curve.epsilon(solved) <= b
    assert solved == pytest.approx(min(one.entry_epsilon(b) for one in alone), rel=1e-4)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.floats(0, 1), st.floats(0, 1), st.integers(1, 6), spending, st.integers(0, 2**32))
def test_binary_interval_never_below_any_chain_inside(low, high, length, b, seed):
    # Six digits: the brute force works with plain probabilities and must not underflow.
    low, high = sorted((round(low, 6), round(high, 6)))
    rng = np.random.default_rng(seed)
    curve = InfluenceCurve(ChainClass.binary(low, high), length)
    stays = [low, high, *rng.uniform(low, high, 3)]
    logs = brute.every_release(rng, 2, length, b)
    distributions = brute.starts(rng, 2)
    for stay, other in product(stays, repeat=2):
        matrix = [[stay, 1 - stay], [1 - other, other]]
        keeps_promise(curve, b, brute.losses_by_paths(distributions, matrix, length, logs))


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(st.floats(0.02, 0.98), st.floats(0.02, 0.98), st.floats(0.02, 3), st.integers(0, 2**32))
def test_binary_interval_is_the_worst_of_its_chains(low, high, b, seed):
    """By the theorem, chain by chain: a corner is the worst, at every length."""
    low, high = sorted((low, high))
    rng = np.random.default_rng(seed)
    stays = [low, high, *rng.uniform(low, high, 2)]
    for length in (9, 16):
        bs = np.full(length, b)
        inside = [
            brute.theorem_losses([[s, 1 - s], [1 - o, o]], bs).max()
            for s, o in product(stays, repeat=2)
        ]
        promised = InfluenceCurve(ChainClass.binary(low, high), length).epsilon(b)
        assert max(inside) * (1 - 1e-9) <= promised <= max(inside) * 1.001


@settings(max_examples=30, deadline=None)
@given(
    st.integers(2, 3),
    st.integers(1, 6),
    spending,
    st.sampled_from(["dense", "ties", "sticky", "sparse"]),
    st.booleans(),
    st.integers(0, 2**32),
)
def test_mixing_class_never_below_a_chain_inside(size, length, b, kind, reversible, seed):
    rng = np.random.default_rng(seed)
    if reversible:
        flow = rng.random((size, size)) + 0.05
        flow += flow.T
        matrix = flow / flow.sum(axis=1, keepdims=True)
        second = np.sort(np.abs(np.linalg.eigvals(matrix)))[-2]
        pi_min, gap = brute.stationary_distribution(matrix).min(), 2 * (1 - second)
    else:
        matrix = brute.random_matrix(rng, size, kind)
        assume(brute.stationary_distribution(matrix).min() > 1e-6)
        pi_min, gap = brute.mixing_of(matrix)
    assume(pi_min > 1e-6 and gap > 1e-4)
    belief = ChainClass.mixing(size, pi_min * (1 - 1e-9), gap * (1 - 1e-9), reversible)
    curve = InfluenceCurve(belief, length)
    logs = brute.every_release(rng, size, length, b)
    distributions = [*brute.starts(rng, size), brute.stationary_distribution(matrix)]
    keeps_promise(curve, b, brute.losses_by_paths(distributions, matrix, length, logs))
    for distribution in distributions[:3]:
        keeps_promise(curve, b, brute.product_losses(distribution, matrix, np.full(length, b), 64))


def test_four_states_seven_entries():
    rng = np.random.default_rng(47)
    for kind in ("sparse", "periodic"):
        matrix, start = brute.random_matrix(rng, 4, kind), brute.random_start(rng, 4)
        logs = brute.every_release(rng, 4, 7, 0.6)
        real = brute.losses_by_paths(start, matrix, 7, logs)
        keeps_promise(InfluenceCurve(MarkovChain(start, matrix), 7), 0.6, real)
        any_start = brute.losses_by_paths(brute.starts(rng, 4), matrix, 7, logs)
        keeps_promise(InfluenceCurve(ChainClass.any_start(matrix), 7), 0.6, any_start)


# ------------------------------------------------------------------------------------ profiles


@settings(max_examples=50, deadline=None)
@given(chains(3), st.data(), st.booleans())
def test_profiles_never_below_any_release(chain, data, free_start):
    rng, matrix, length = chain
    entry = st.one_of(st.just(0.0), st.floats(0.001, 4))
    bs = np.array(data.draw(st.lists(entry, min_size=length, max_size=length)))
    size = len(matrix)
    logs = brute.releases_with_profile(rng, size, bs)
    if free_start:
        start, distributions = None, brute.starts(rng, size)
        curve = InfluenceCurve(ChainClass.any_start(matrix), length)
    else:
        start = distributions = brute.random_start(rng, size)
        curve = InfluenceCurve(MarkovChain(start, matrix), length)
        keeps_promise(curve, bs, brute.product_losses(start, matrix, bs, 512))
    keeps_promise(curve, bs, brute.losses_by_paths(distributions, matrix, length, logs))
    assert (losses(curve, bs) <= _theorem(matrix, bs, start) * (1 + 1e-5) + 1e-7).all()


def test_overlapping_windows_add_up_entry_by_entry():
    rng = np.random.default_rng(1)
    matrix = np.array([[0.9, 0.1], [0.4, 0.6]])
    pi = brute.stationary_distribution(matrix)
    first, second = np.array([1, 1, 1, 1, 0, 0, 0]) * 0.5, np.array([0, 0, 1, 1, 1, 1, 1]) * 0.8
    curve = InfluenceCurve(MarkovChain.steady(matrix), 7)
    # Both counts at once: f is a product of two Laplace likelihoods.
    ones = brute.paths(2, 7)
    counts = ones @ (first > 0), ones @ (second > 0)
    logs = np.array(
        [
            -0.5 * np.abs(counts[0] - w) - 0.8 * np.abs(counts[1] - v)
            for w, v in product(range(5), range(6))
        ]
    )
    real = brute.losses_by_paths(pi, matrix, 7, logs)
    keeps_promise(curve, first + second, real)
    keeps_promise(curve, first + second, brute.product_losses(pi, matrix, first + second))
    assert curve.epsilon(first + second) >= curve.epsilon(first)
    logs = brute.releases_with_profile(rng, 2, first + second)
    keeps_promise(curve, first + second, brute.losses_by_paths(pi, matrix, 7, logs))


def test_disjoint_windows_cost_what_one_release_over_all_costs():
    """A count each week for ever: one b for every entry, whatever the number of weeks."""
    curve = InfluenceCurve(MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]]), 700)
    weekly = curve.epsilon([Run(7, 0.2)] * 100)
    assert weekly == curve.epsilon(0.2) == curve.epsilon([0.2] * 700)
    one_week = curve.epsilon([Run(343, 0), Run(7, 0.2), Run(350, 0)])
    assert one_week < weekly < 2 * one_week


def test_entries_that_were_not_released_are_still_secrets():
    matrix = np.array([[0.9, 0.1], [0.4, 0.6]])
    bs = np.array([1.0, 0, 0, 0, 1.0, 0])
    curve = InfluenceCurve(MarkovChain.steady(matrix), 6)
    real = brute.product_losses(brute.stationary_distribution(matrix), matrix, bs)
    assert real[1] > 0.4
    keeps_promise(curve, bs, real)
    assert losses(curve, bs) == pytest.approx(real, abs=1e-6)
    assert curve.epsilon(0.0) == 0
    assert curve.epsilon([0.0] * 6) == 0


def test_a_reversible_chain_cannot_tell_left_from_right():
    chain = MarkovChain.steady([[0.8, 0.2, 0], [0.1, 0.8, 0.1], [0, 0.3, 0.7]])
    for length in (12, 200):
        curve = InfluenceCurve(chain, length)
        bs = np.repeat([0.4, 0.0, 0.05, 0.2], length // 4)
        assert losses(curve, bs) == pytest.approx(losses(curve, bs[::-1])[::-1], rel=1e-6)
        assert curve.epsilon(bs) == pytest.approx(curve.epsilon(bs[::-1]), rel=1e-6)


# ------------------------------------------------------- long chains: whole stretches at once


@pytest.mark.slow
@pytest.mark.parametrize("name", LONG)
def test_settled_stretches_never_below_the_theorem_node_by_node(name):
    matrix, start = LONG[name]
    for turn, (title, runs) in enumerate(PROFILES.items()):
        # Each chain meets a third of the profiles, some of them backwards, too.
        if (turn + len(name)) % 3:
            continue
        for order in (runs, runs[::-1]) if turn % 4 < 2 else (runs,):
            bs = listed(order)
            for distribution in starts_for(matrix, start, turn):
                curve = curve_of(matrix, distribution, len(bs))
                with brute.within(30):
                    promised, epsilon = losses(curve, order), curve.epsilon(order)
                theorem = brute.theorem_losses(matrix, bs, distribution)
                assert epsilon == pytest.approx(promised.max(), abs=1e-9)  # of any entry
                assert epsilon >= promised.max() - 1e-12
                assert epsilon <= theorem.max() * 1.02 + SLACK, (title, distribution)
                if distribution is not None:
                    real = brute.product_losses(distribution, matrix, bs, 24)
                    assert (promised >= real - SLACK).all(), (title, distribution)
                    assert epsilon >= real.max() - SLACK, (title, distribution)
