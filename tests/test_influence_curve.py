"""The influence curve: never below what a release really loses, never above what was proved.

Brute force comes from ``brute_curve``, which shares no code with the package. Short chains are done
by listing all paths. Long ones, where whole stretches are settled at once, are compared with the
theorem node by node and with the worst product release, which needs no listing.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import groupby, product

import brute_curve as brute
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
from pufferkit.influence import sides
from pufferkit.influence.curve import Run

SLACK = 1e-9
"""Brute force is itself rounded; a promise may lie this far below it."""

KINDS = ["dense", "skewed", "sparse", "periodic", "reducible", "ties", "deterministic", "sticky"]


def losses(curve: InfluenceCurve, b) -> np.ndarray:
    """The promise for every entry, over all beliefs."""
    return np.max(list(curve.losses(b).values()), axis=0)


def keeps_promise(curve: InfluenceCurve, b, real: np.ndarray) -> None:
    promised = losses(curve, b)
    assert (promised >= real - SLACK - 1e-13 * real).all(), (promised - real).min()
    assert curve.epsilon(b) >= real.max() - SLACK - 1e-13 * real.max()


def profiles(*runs: tuple[int, float]) -> list[Run]:
    return [Run(n, b) for n, b in runs]


def listed(runs: list[Run]) -> np.ndarray:
    return np.repeat([run.b for run in runs], [run.count for run in runs])


@st.composite
def chains(draw, most_states=4):
    """(random numbers, transition matrix, length); few enough paths to list."""
    size = draw(st.integers(1, most_states))
    length = draw(st.integers(1, {4: 5, 3: 6}.get(size, 7)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    return rng, brute.random_matrix(rng, size, draw(st.sampled_from(KINDS))), length


spending = st.one_of(st.sampled_from([0.01, 0.3, 1.0, 5.0, 20.0]), st.floats(0.001, 6))


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
        found = influence_curve(chain, query, epsilon).scale
        assert found == pytest.approx(scale, rel=2e-3)
        assert found <= scale + 6e-4 * max(1, scale / 10)
        assert markov_quilt(chain, query, epsilon).scale == pytest.approx(quilt, rel=2e-4)


@pytest.mark.parametrize(("matrix", "ours", "quilts"), TABLE)
@pytest.mark.parametrize("epsilon", [0.2, 1, 5])
def test_table_cannot_be_bettered(matrix, ours, quilts, epsilon):
    """2% less noise breaks the promise: a count then really loses more than epsilon."""
    b = entry_epsilon(MarkovChain.steady(matrix), 10**6, epsilon)
    length = 2000 if matrix[0][0] == 0.99 else 400
    pi = brute.stationary_law(matrix)
    real = brute.product_losses(pi, matrix, np.full(length, b), beam=4).max()
    assert epsilon * (1 - 1e-6) <= real <= epsilon
    assert brute.product_losses(pi, matrix, np.full(length, b * 1.02), beam=4).max() > epsilon


def test_tightness_of_the_theory():
    for matrix, b, worst in [
        ([[0.9, 0.1], [0.4, 0.6]], 1.0, 3.209),
        ([[0.9, 0.1], [0.1, 0.9]], 0.3, 1.7458),
    ]:
        pi = brute.stationary_law(matrix)
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
    assert promised == pytest.approx(real, abs=1e-6)
    assert (promised >= real - SLACK).all()


# ----------------------------------------------------------- short chains, by listing all paths


@settings(max_examples=60, deadline=None)
@given(chains(), spending)
def test_given_start_never_below_any_release(chain, b):
    rng, matrix, length = chain
    size, start = len(matrix), brute.random_start(rng, len(matrix))
    curve = InfluenceCurve(MarkovChain(start, matrix), length)
    logs = brute.every_release(rng, size, length, b)
    keeps_promise(curve, b, brute.losses_by_paths(start, matrix, length, logs))
    bs = np.full(length, b)
    keeps_promise(curve, b, brute.product_losses(start, matrix, bs, 512))
    assert losses(curve, b) == pytest.approx(
        brute.theorem_losses(matrix, bs, start), abs=1e-7, rel=1e-9
    )


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
    keeps_promise(curve, b, brute.losses_by_paths(start, matrix, length, logs))
    bs = np.full(length, b)
    keeps_promise(curve, b, brute.product_losses(start, matrix, bs, 512))
    assert losses(curve, b) == pytest.approx(
        brute.theorem_losses(matrix, bs, start), abs=1e-7, rel=1e-9
    )


@settings(max_examples=40, deadline=None)
@given(chains(), spending)
def test_any_start_never_below_any_release(chain, b):
    rng, matrix, length = chain
    size, bs = len(matrix), np.full(length, b)
    curve = InfluenceCurve(ChainClass.any_start(matrix), length)
    laws = brute.starts(rng, size)
    logs = brute.every_release(rng, size, length, b)
    keeps_promise(curve, b, brute.losses_by_paths(laws, matrix, length, logs))
    for law in laws[:: max(1, len(laws) // 12)]:
        keeps_promise(curve, b, brute.product_losses(law, matrix, bs, 64))
    theorem = brute.theorem_losses(matrix, bs)
    promised = losses(curve, b)
    assert (promised >= theorem - SLACK).all()
    if (np.asarray(matrix).max(axis=0) > 0).all():  # else some states are only ever a start
        assert promised == pytest.approx(theorem, abs=1e-7, rel=1e-9)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 3), st.integers(1, 5), spending, st.booleans())
def test_several_beliefs_cost_what_the_worst_costs(seed, size, length, b, open_start):
    rng = np.random.default_rng(seed)
    matrices = [brute.random_matrix(rng, size) for _ in range(3)]
    if open_start:
        curve = InfluenceCurve(ChainClass.any_start(*matrices), length)
        alone = [InfluenceCurve(ChainClass.any_start(m), length) for m in matrices]
        laws = [brute.starts(rng, size)] * 3
    else:
        laws = [brute.random_start(rng, size) for _ in range(3)]
        beliefs = [MarkovChain(law, m) for law, m in zip(laws, matrices, strict=True)]
        curve = InfluenceCurve(ChainClass.of(*beliefs), length)
        alone = [InfluenceCurve(belief, length) for belief in beliefs]
    assert curve.epsilon(b) == max(one.epsilon(b) for one in alone)
    logs = brute.every_release(rng, size, length, b)
    for law, matrix in zip(laws, matrices, strict=True):
        keeps_promise(curve, b, brute.losses_by_paths(law, matrix, length, logs))
    solved = curve.entry_privacy(b)
    assert curve.epsilon(solved) <= b
    assert solved == pytest.approx(min(one.entry_privacy(b) for one in alone), rel=1e-6)


@settings(max_examples=25, deadline=None)
@given(st.floats(0, 1), st.floats(0, 1), st.integers(1, 6), spending, st.integers(0, 2**32))
def test_binary_interval_never_below_any_chain_inside(low, high, length, b, seed):
    low, high = sorted((low, high))
    rng = np.random.default_rng(seed)
    curve = InfluenceCurve(ChainClass.binary(low, high), length)
    stays = [low, high, *rng.uniform(low, high, 3)]
    logs = brute.every_release(rng, 2, length, b)
    laws = brute.starts(rng, 2)
    for stay, other in product(stays, repeat=2):
        matrix = [[stay, 1 - stay], [1 - other, other]]
        keeps_promise(curve, b, brute.losses_by_paths(laws, matrix, length, logs))


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
        assert promised == pytest.approx(max(inside), abs=1e-7)


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
        pi_min, gap = brute.stationary_law(matrix).min(), 2 * (1 - second)
    else:
        matrix = brute.random_matrix(rng, size, kind)
        pi_min, gap = brute.mixing_of(matrix)
    assume(pi_min > 1e-6 and gap > 1e-4)
    belief = ChainClass.mixing(size, pi_min * (1 - 1e-9), gap * (1 - 1e-9), reversible)
    curve = InfluenceCurve(belief, length)
    logs = brute.every_release(rng, size, length, b)
    laws = [*brute.starts(rng, size), brute.stationary_law(matrix)]
    keeps_promise(curve, b, brute.losses_by_paths(laws, matrix, length, logs))
    for law in laws[:3]:
        keeps_promise(curve, b, brute.product_losses(law, matrix, np.full(length, b), 64))


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
def test_profiles_never_below_any_release(chain, data, open_start):
    rng, matrix, length = chain
    entry = st.one_of(st.just(0.0), st.floats(0.001, 4))
    bs = np.array(data.draw(st.lists(entry, min_size=length, max_size=length)))
    size = len(matrix)
    logs = brute.releases_with_profile(rng, size, bs)
    if open_start:
        start, laws = None, brute.starts(rng, size)
        curve = InfluenceCurve(ChainClass.any_start(matrix), length)
    else:
        start = laws = brute.random_start(rng, size)
        curve = InfluenceCurve(MarkovChain(start, matrix), length)
        keeps_promise(curve, bs, brute.product_losses(start, matrix, bs, 512))
    keeps_promise(curve, bs, brute.losses_by_paths(laws, matrix, length, logs))
    theorem = brute.theorem_losses(matrix, bs, start)
    assert (losses(curve, bs) >= theorem - SLACK).all()
    assert start is None or losses(curve, bs) == pytest.approx(theorem, abs=1e-7)


def test_overlapping_windows_add_up_entry_by_entry():
    rng = np.random.default_rng(1)
    matrix = np.array([[0.9, 0.1], [0.4, 0.6]])
    pi = brute.stationary_law(matrix)
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
    real = brute.product_losses(brute.stationary_law(matrix), matrix, bs)
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


def _ring(size: int, stay: float) -> np.ndarray:
    return stay * np.eye(size) + (1 - stay) * np.roll(np.eye(size), 1, axis=1)


LONG = {
    "binary": ([[0.9, 0.1], [0.4, 0.6]], [0.2, 0.8]),
    "binary slow": ([[0.98, 0.02], [0.01, 0.99]], [1, 0]),
    "binary alternating": ([[0.1, 0.9], [0.8, 0.2]], [1, 0]),
    "asymmetric": ([[0.999, 0.001], [0.3, 0.7]], [0, 1]),
    "ring": (_ring(3, 0.3), [1, 0, 0]),
    "sparse": ([[0.0, 1.0, 0.0], [0.3, 0.0, 0.7], [0.6, 0.4, 0.0]], [0.5, 0, 0.5]),
    "dense": ([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.15, 0.25, 0.6]], [0, 0.1, 0.9]),
    "ladder": ([[0.9, 0.1, 0], [0.1, 0.8, 0.1], [0, 0.1, 0.9]], [0, 0, 1]),
    "periodic": ([[0, 0.7, 0.3], [1, 0, 0], [1, 0, 0]], [0.3, 0.5, 0.2]),
    "absorbing": ([[0.95, 0.05], [0, 1]], [0.9, 0.1]),
    "transient": ([[0.5, 0.3, 0.2], [0, 0.7, 0.3], [0, 0.4, 0.6]], [1, 0, 0]),
    "two islands": ([[0.7, 0.3, 0], [0.3, 0.7, 0], [0, 0, 1]], [0.2, 0.3, 0.5]),
    "rare": ([[1 - 1e-6, 1e-6], [0.5, 0.5]], [1, 0]),
}
PROFILES = {
    "constant": profiles((110, 0.1)),
    "large": profiles((90, 1.5)),
    "high low zero high": profiles((40, 1.0), (30, 0.05), (25, 0.0), (20, 0.7)),
    "rising": profiles((25, 0.01), (25, 0.1), (25, 0.5), (25, 1.5)),
    "short runs by a long one": profiles((3, 2.0), (60, 0.1), (2, 1.0), (1, 0.0), (40, 0.05)),
    "one peak": profiles((50, 0.02), (1, 3.0), (50, 0.02)),
    "windows": [Run(10, 0.3 * (n % 3)) for n in range(10)],
    "one release": profiles((45, 0.0), (10, 0.8), (45, 0.0)),
}


@pytest.mark.parametrize("name", LONG)
def test_settled_stretches_never_below_the_theorem_node_by_node(name):
    matrix, start = LONG[name]
    for turn, (title, runs) in enumerate(PROFILES.items()):
        # Each chain meets half of the profiles forwards and the other half backwards.
        if (turn + len(name)) % 2:
            continue
        for order in (runs, runs[::-1]) if turn % 4 < 2 else (runs,):
            bs = listed(order)
            for law in _starts_for(matrix, start, turn):
                curve = _curve(matrix, law, len(bs))
                with brute.within(30):
                    promised, epsilon = losses(curve, order), curve.epsilon(order)
                theorem = brute.theorem_losses(matrix, bs, law)
                assert (promised >= theorem - SLACK).all(), (title, law)
                assert epsilon >= theorem.max() - SLACK, (title, law)
                if law is not None:
                    real = brute.product_losses(law, matrix, bs, 24)
                    assert (promised >= real - SLACK).all(), (title, law)
                    assert epsilon >= real.max() - SLACK, (title, law)


def _starts_for(matrix, start, turn: int) -> list[np.ndarray | None]:
    """Two of: the given start, any start (None), the stationary law if there is only one."""
    found: list[np.ndarray | None] = [np.array(start), None]
    with suppress(ValueError):
        found.append(MarkovChain.steady(matrix).initial)
    return [found[turn // 2 % len(found)]]


def _curve(matrix, law, length: int) -> InfluenceCurve:
    belief = ChainClass.any_start(matrix) if law is None else MarkovChain(law, matrix)
    return InfluenceCurve(belief, length)


@pytest.mark.parametrize("name", ["binary", "ring", "rare", "asymmetric", "two islands"])
def test_four_hundred_entries_never_below_product_releases(name):
    """No theorem here, only what really is lost: sets chosen to hurt, followed by messages."""
    matrix, start = LONG[name]
    for scale in (0.02, 0.3, 2.0):
        runs = profiles((150, scale), (8, 3 * scale), (100, 0.0), (12, scale), (130, 0.1 * scale))
        for order in (runs, runs[::-1], profiles((400, scale))):
            bs = listed(order)
            for law in (np.array(start, float), brute.stationary_law(matrix)):
                real = brute.product_losses(law, matrix, bs, 12)
                keeps_promise(_curve(matrix, law, 400), order, real)
            keeps_promise(_curve(matrix, None, 400), order, real)


@pytest.mark.parametrize("name", LONG)
def test_epsilon_is_the_largest_loss_of_any_entry(name):
    """Only some entries are refined in the search for the largest; none may be missed."""
    matrix, start = LONG[name]
    for runs in (PROFILES["short runs by a long one"], PROFILES["high low zero high"]):
        for law in (np.array(start), None):
            curve = _curve(matrix, law, len(listed(runs)))
            with brute.within(30):
                assert curve.epsilon(runs) == pytest.approx(losses(curve, runs).max(), abs=1e-9)


@pytest.mark.parametrize("work", [0, 3000])
@pytest.mark.parametrize("name", ["binary slow", "dense", "ladder", "rare", "absorbing", "ring"])
def test_reweighted_stretches_never_below_the_exact_ones(name, work, monkeypatch):
    """Large or long chains with a given start: beyond some nodes, left kernels are bounded."""
    matrix, start = LONG[name]
    for runs in (PROFILES["constant"], PROFILES["high low zero high"], [Run(100, 1.0)]):
        bs = listed(runs)
        theorem = brute.theorem_losses(matrix, bs, start)
        exact = losses(_curve(matrix, np.array(start), len(bs)), runs)
        with monkeypatch.context() as patch:
            patch.setattr(sides, "_WORK", work)
            curve = _curve(matrix, np.array(start), len(bs))
            with brute.within(30):
                bounded = losses(curve, runs)
                assert curve.epsilon(runs) >= theorem.max() - SLACK
        assert (bounded >= theorem - SLACK).all()
        assert (bounded >= exact - 1e-6 * exact - SLACK).all()


def test_many_states_and_a_long_way_from_the_start(monkeypatch):
    """Twelve states, own start, thousands of entries: the cheap bound is above the dear one."""
    rng = np.random.default_rng(12)
    matrix = brute.random_matrix(rng, 12, "sticky")
    belief = MarkovChain(np.eye(12)[3], matrix)
    dear = InfluenceCurve(belief, 3000).epsilon(0.1)
    monkeypatch.setattr(sides, "_WORK", 0)
    cheap = InfluenceCurve(belief, 3000).epsilon(0.1)
    assert dear * (1 - 1e-6) <= cheap <= dear * 1.5
    real = brute.product_losses(belief.initial[:], matrix, np.full(6, 0.1), 1).max()
    assert cheap >= real


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
def test_random_runs_never_below_the_theorem(size, kind, runs, seed):
    rng = np.random.default_rng(seed)
    matrix = brute.random_matrix(rng, size, kind)
    order = profiles(*runs)
    bs = listed(order)
    start = brute.random_start(rng, size) if rng.random() < 0.7 else None
    curve = _curve(matrix, start, len(bs))
    with brute.within(30):
        promised, epsilon = losses(curve, order), curve.epsilon(order)
    theorem = brute.theorem_losses(matrix, bs, start)
    assert (promised >= theorem - SLACK).all()
    assert epsilon >= theorem.max() - SLACK
    if start is not None:
        assert (promised >= brute.product_losses(start, matrix, bs, 24) - SLACK).all()


# ---------------------------------------------------------------------------- never wasteful


@settings(max_examples=40, deadline=None)
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
def test_never_more_than_everything_that_was_spent(size, kind, length, b, open_start, seed):
    """Every entry changed at once costs T b. Nothing can cost more."""
    rng = np.random.default_rng(seed)
    slow = np.array([[0.99999, 0.00001], [0.00001, 0.99999]])
    matrix = slow if kind == "slow" else brute.random_matrix(rng, size, kind)
    start = None if open_start else brute.random_start(rng, size)
    curve = _curve(matrix, start, length)
    assert curve.epsilon(b) <= length * b * (1 + 1e-9)
    assert _curve(matrix, None, length).epsilon(b) <= length * b * (1 + 1e-9)


@settings(max_examples=40, deadline=None)
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
    b = curve.entry_privacy(epsilon)
    assert 0 < b <= epsilon
    assert curve.epsilon(b) <= epsilon
    query = count(0, length)
    scale = influence_curve(belief, query, epsilon).scale
    assert scale <= markov_quilt(belief, query, epsilon).scale * (1 + 1e-9)
    assert scale <= 1 / b * (1 + 1e-9)
    # b is the largest but for the precision of the search, or the curve is not the better bound.
    assert b == epsilon or curve.epsilon(b * (1 + 1e-6)) > epsilon or scale * b < 1


@settings(max_examples=20, deadline=None)
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
    assert scale <= markov_quilt_approx(belief, query, epsilon, bound="tight").scale * (1 + 1e-9)
    curve = InfluenceCurve(belief, length)
    assert curve.epsilon(curve.entry_privacy(epsilon)) <= epsilon


@pytest.mark.parametrize("name", LONG)
@pytest.mark.parametrize("start", ["given", "any"])
def test_more_spent_or_more_entries_never_cost_less(name, start):
    matrix, law = LONG[name]
    law = np.array(law) if start == "given" else None
    lengths = [1, 2, 9, 17, 30, 48, 49, 60, 100, 250]
    bs = [0.001, 0.0102, 0.1, 0.5, 0.51, 2.0, 9.0]
    table = np.array([[_curve(matrix, law, n).epsilon(b) for b in bs] for n in lengths])
    assert (np.diff(table, axis=0) >= -1e-7 * table[1:]).all()
    assert (np.diff(table, axis=1) >= -1e-9).all()
    assert (table >= np.array(bs) - 1e-12).all() or name == "transient"


# ------------------------------------------------------------------------- large epsilon


@pytest.mark.parametrize("b", [8.0, 20.0, 60.0, 100.0, 300.0])
def test_an_absorbing_state_with_any_start_hides_nothing(b):
    """X_6 = 0 shows that all entries were 0; a start in 1 that all were 1. So the loss is 6 b."""
    curve = InfluenceCurve(ChainClass.any_start([[0.5, 0.5], [0, 1]]), 6)
    assert curve.epsilon(b) >= 6 * b * (1 - 1e-13)
    assert losses(curve, b)[-1] >= 6 * b * (1 - 1e-13)


@pytest.mark.parametrize("b", [30.0, 50.0, 100.0, 300.0])
def test_large_losses_with_any_start_never_below_a_product_release(b):
    matrix = [[1 - 1e-20, 1e-20], [1e-20, 1 - 1e-20]]
    for stay in (1e-3, 1e-12, 1e-20, 1e-30):
        matrix = [[1.0, stay], [stay, 1.0]]
        curve = InfluenceCurve(ChainClass.any_start(matrix), 3)
        for weight in np.exp(-np.linspace(0, b, 41)):
            law = np.array([weight, 1.0]) / (1 + weight)
            keeps_promise(curve, b, brute.product_losses(law, curve_matrix(curve), np.full(3, b)))


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
        for law in ([1, 0], [0.5, 0.5], [1e-9, 1 - 1e-9]):
            bs = np.full(length, b)
            keeps_promise(curve, b, brute.product_losses(law, lazy, bs, 64))


def test_probabilities_lost_to_underflow_are_not_forgotten():
    """0 reaches 2 in two steps with probability 1e-400: e^{3 b} of that is 2079 at b = 1000."""
    tiny = 1e-200
    matrix = [[1, tiny, 0, 0], [0, 1, tiny, 0], [0, 0, 1, 0], [1, 0, 0, 0]]
    belief = MarkovChain([0.5, 0, 0, 0.5], matrix)
    real = brute.product_losses(belief.initial, belief.transition, np.full(3, 1000.0))
    assert real[0] == pytest.approx(3000 + 2 * np.log(tiny), rel=1e-6)
    keeps_promise(InfluenceCurve(belief, 3), 1000.0, real)


# ------------------------------------------------------------------------------ using it


@pytest.mark.parametrize("lengths", [1, 30, [10, 50, 3], (200, 200)])
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
    law, promised = np.kron(start, start), InfluenceCurve(MarkovChain(start, matrix), [4, 3])
    for i in range(4):
        real = 0.0
        for coordinate in (0, 1):
            real = max(real, _loss_of_coordinate(both, law, likelihood, i, coordinate))
        assert promised.epsilon(0.6) >= real - SLACK


def _loss_of_coordinate(both, law, likelihood, i: int, coordinate: int) -> float:
    all_paths = brute.paths(4, 4)
    chance = law[all_paths[:, 0]].copy()
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
    long, longer = (InfluenceCurve(chain, n).entry_privacy(1.0) for n in (10**4, 10**9))
    assert longer == pytest.approx(long, rel=1e-7)
    assert influence_curve(ChainClass.any_start(chain.transition), count(1, 10**9), 1).scale < 12
    assert influence_curve(MarkovChain([1, 0], chain.transition), count(1, 10**9), 1).scale < 4


def test_binding_says_where_and_rows_make_a_table():
    chains_ = [MarkovChain([1, 0], [[p, 1 - p], [0.4, 0.6]]) for p in (0.5, 0.9, 0.7)]
    curve = InfluenceCurve(ChainClass.of(*chains_), 30)
    name, loss = curve.binding(0.3)
    assert name == "chain 2 of 3"
    assert loss.value == curve.epsilon(0.3)
    each = curve.losses(0.3)
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
        ([0.1] * 9, "covers 9 entries"),
        ([0.1] * 11, "covers 11 entries"),
        ([], "covers 0 entries"),
        ([0.1] * 9 + [-1.0], "negative"),
        ([Run(9, 0.1)], "covers 9"),
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
        lambda: InfluenceCurve(chain, 5).entry_privacy(epsilon),
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
