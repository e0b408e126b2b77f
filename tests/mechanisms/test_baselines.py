"""Entry DP, group DP and GK16."""

from itertools import product
from math import inf

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import pufferkit as pk
from pufferkit.mechanisms import baselines
from tests.oracles import brute
from tests.strategies.generators import chains, epsilons, positive_chains

close = pytest.approx


def binary(p: float, q: float) -> pk.MarkovChain:
    """Stationary, with P(1|0) = p and P(1|1) = q."""
    return pk.MarkovChain.steady([[1 - p, p], [1 - q, q]])


def gk16_or_none(beliefs, length, epsilon):
    try:
        return pk.gk16(beliefs, pk.count(0, length), epsilon)
    except pk.NotApplicable:
        return None


# --- GK16: known numbers -------------------------------------------------------------------------


@pytest.mark.parametrize(("p", "q", "scale"), [(0.5, 0.5, 2), (0.4, 0.6, 3.887), (0.6, 0.4, 3.887)])
def test_gk16_of_binary_chains(p, q, scale):
    assert pk.gk16(binary(p, q), pk.count(1, 100), 1).scale == close(scale, abs=5e-4)


def test_gk16_does_not_apply_to_stickier_chains():
    with pytest.raises(pk.NotApplicable, match=r"norm below 1.*1\.169"):
        pk.gk16(binary(0.3, 0.7), pk.count(1, 100), 1)


# --- GK16: by definition --------------------------------------------------------------------------


@given(positive_chains(3), st.integers(1, 5), epsilons)
def test_gk16_is_made_of_its_definitions(chain, length, epsilon):
    """Gamma from conditional distributions, entry by entry; norm and Phi from the matrix."""
    believed = chain.believed
    gamma = brute.gk16_matrix(believed.initial, believed.transition, length)
    norm = np.linalg.norm(gamma, 2) if np.isfinite(gamma).all() else inf
    assume(abs(norm - 1) > 1e-6)
    calibration = gk16_or_none(believed, length, epsilon)
    # A start that cannot be in some state leaves fewer neighbours to condition on than are counted.
    every = (believed.initial > 0).all()
    if norm >= 1:
        assert calibration is None
        return
    least = 2 * np.linalg.inv(np.eye(length) - gamma).sum(axis=1).max() / epsilon
    if every:
        assert calibration.scale == close(least, rel=1e-9)
        assert calibration.evidence.influence == close(gamma.max(), abs=1e-9)
        assert f"norm {norm:.6g}" in calibration.evidence.notes or norm < 1e-6
    elif calibration is not None:
        assert calibration.scale >= least * (1 - 1e-9)


def test_gk16_with_any_start_is_filled_entry_by_entry():
    """Only the first entry is swayed more by a start that may be anything."""
    alone = pk.gk16(pk.ChainClass.binary(0.4, 0.6), pk.mean([0, 1], 100), 1)
    assert alone.scale == close(0.0389, abs=5e-5)
    assert gk16_or_none(pk.ChainClass.binary(0.323, 0.677), 100, 1) is not None
    assert gk16_or_none(pk.ChainClass.binary(0.322, 0.678), 100, 1) is None


def test_gk16_of_an_interval_covers_the_chains_between():
    whole = gk16_or_none(pk.ChainClass.binary(0.38, 0.62), 6, 1)
    for p, q in product(np.linspace(0.38, 0.62, 7), repeat=2):
        inside = pk.ChainClass.any_start([[p, 1 - p], [1 - q, q]])
        assert gk16_or_none(inside, 6, 1).scale <= whole.scale * (1 + 1e-9)


@given(
    st.floats(0.34, 0.66), st.floats(0.34, 0.66), st.integers(2, 6), epsilons, st.floats(0.01, 0.99)
)
def test_gk16_with_any_start_is_private_for_each(p, q, length, epsilon, start):
    calibration = gk16_or_none(pk.ChainClass.any_start([[p, 1 - p], [q, 1 - q]]), length, epsilon)
    if calibration is not None:
        loss = brute.privacy_loss(
            [start, 1 - start],
            [[p, 1 - p], [q, 1 - q]],
            length,
            brute.count_of(0),
            calibration.scale,
        )
        assert loss <= epsilon * (1 + 1e-9)


def test_gk16_of_a_long_series_takes_the_limit():
    chain = binary(0.4, 0.6)
    middling, long = (pk.gk16(chain, pk.count(1, n), 1).scale for n in (9_999, 10**7))
    assert long == close(middling, rel=1e-9)
    assert long >= middling * (1 - 1e-11)


@settings(max_examples=40)
@given(st.tuples(*[st.floats(0, top) for top in (1.2, 0.6, 0.6, 1.2)]))
def test_the_norm_beyond_any_length_bounds_every_length(entries):
    """Not only the longest matrix that is looked at: the ends bind, and the limit does."""
    sway = baselines._Sway(*entries)
    beyond = sway.norm(10**9)
    exact = []
    for length in (201, 202):
        below, above = sway._beside(length)
        exact.append(np.linalg.norm(np.diag(below, -1) + np.diag(above, 1), 2))
    limit = max(sway.left + sway.right, *exact)
    assert beyond >= min(limit, 1) * (1 - 1e-11)
    if limit < 0.999:
        assert beyond == close(limit, rel=1e-3, abs=2e-9)


@settings(max_examples=60)
@given(st.tuples(*[st.floats(0, top) for top in (0.95, 0.6, 0.6, 0.95)]), st.integers(2, 80))
def test_the_vector_of_a_chain_is_at_least_the_row_sums(entries, length):
    """And hardly more; a long series has the same ends with more of the middle between them."""
    sway = baselines._Sway(*entries)
    if sway.norm(length) >= 0.999:
        return
    below, above = sway._beside(length)
    gamma = np.diag(below, -1) + np.diag(above, 1)
    sums = np.linalg.solve(np.eye(length) - gamma, np.ones(length))
    x = np.concatenate([np.full(count, value) for count, value in sway.row_sums(length)])
    assert (x >= 1 + gamma @ x).all()
    assert (x >= sums).all()
    assert x == close(sums, rel=1e-6)
    if sway.norm(10**9) < 0.999:
        assert sum(count for count, _ in sway.row_sums(10**9)) == 10**9


@given(chains(3, least=2), st.integers(1, 5), epsilons)
def test_gk16_is_private_where_it_applies(chain, length, epsilon):
    believed = chain.believed
    calibration = gk16_or_none(believed, length, epsilon)
    if calibration is not None:
        initial, transition = believed.initial, believed.transition
        loss = brute.privacy_loss(initial, transition, length, brute.count_of(0), calibration.scale)
        assert loss <= epsilon * (1 + 1e-9)


@given(
    st.floats(0.38, 0.62), st.floats(0.38, 0.62), st.integers(2, 7), epsilons, st.floats(0.3, 0.7)
)
def test_gk16_is_private_where_it_just_applies(p, q, length, epsilon, start):
    believed = pk.MarkovChain([start, 1 - start], [[p, 1 - p], [q, 1 - q]])
    calibration = gk16_or_none(believed, length, epsilon)
    if calibration is not None:
        loss = brute.privacy_loss(
            believed.initial, believed.transition, length, brute.count_of(0), calibration.scale
        )
        assert loss <= epsilon * (1 + 1e-9)


def test_gk16_of_a_class_takes_its_worst_chain():
    mild, strong = binary(0.45, 0.55), binary(0.4, 0.6)
    calibration = pk.gk16(pk.ChainClass.of(mild, strong), pk.count(1, 50), 1)
    assert calibration.scale == close(pk.gk16(strong, pk.count(1, 50), 1).scale)
    assert calibration.evidence.belief == "chain 2 of 2"


@pytest.mark.parametrize(
    "chain",
    [
        pk.MarkovChain([0.5, 0.5], [[0, 1], [1, 0]]),
        pk.MarkovChain([0.5, 0.5], np.eye(2)),
        pk.MarkovChain([1, 0], [[0.5, 0.5], [0, 1]]),
    ],
)
def test_gk16_with_certain_moves_does_not_apply(chain):
    with pytest.raises(pk.NotApplicable, match="inf"):
        pk.gk16(chain, pk.count(0, 10), 1)


def test_gk16_of_one_entry_is_twice_entry_epsilon():
    assert pk.gk16(binary(0.1, 0.9), pk.count(1, 1), 1).scale == close(2)


# --- group and entry ------------------------------------------------------------------------------


def test_group_dp_hides_the_longest_segment():
    assert pk.group_dp(pk.count(0, 100), 0.5).scale == close(200)
    assert pk.group_dp(pk.count(0, [100, 30, 7]), 0.5).scale == close(200)
    # [Q] 5.1 with the 2 that its Table 3 has: Lap(2 M / (T epsilon)) for relative frequencies.
    shares = pk.relative_frequencies(list("abcd"), [100, 30, 70])
    assert pk.group_dp(shares, 1).scale == close(2 * 100 / 200)


def test_entry_dp_is_only_for_independent_entries():
    noise = pk.entry_dp(pk.count(0, 6), 1)
    assert noise.scale == close(1)
    assert "does not hide" in noise.guarantee
    alone, together = [[0.3, 0.7]] * 2, [[0.9, 0.1], [0.1, 0.9]]
    loss = [
        brute.privacy_loss([0.3, 0.7], matrix, 6, brute.count_of(0), noise.scale)
        for matrix in (alone, together)
    ]
    assert loss[0] <= 1 + 1e-9
    assert loss[1] > 2


@pytest.mark.parametrize("epsilon", [0, -1, float("nan"), inf, "x", None])
def test_bad_epsilon(epsilon):
    query = pk.count(0, 10)
    for call in (
        lambda: pk.group_dp(query, epsilon),
        lambda: pk.entry_dp(query, epsilon),
        lambda: pk.gk16(binary(0.4, 0.6), query, epsilon),
    ):
        with pytest.raises(ValueError, match="epsilon"):
            call()


def test_gk16_needs_matrices():
    with pytest.raises(pk.NotApplicable, match="pi_min and gap"):
        pk.gk16(pk.ChainClass.mixing(2, 0.3, 0.9), pk.count(0, 10), 1)


def test_gk16_is_for_chains_and_the_curve_needs_less_on_graphs():
    grid = pk.MarkovRandomField.grid(3, 3, coupling=0.1)
    with pytest.raises(pk.NotApplicable, match="no Markov chains"):
        pk.gk16(grid, pk.count(1, 9), 1)
