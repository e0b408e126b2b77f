"""Regions of chains around counts: coverage, certified noise, refusals."""

import json
from math import exp, lgamma, log, pi
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pufferkit as pk
from pufferkit import ChainClass, MarkovChain, NotApplicable, Series
from pufferkit.beliefs.base import beliefs_from_json
from pufferkit.beliefs.region_class import RegionClass, intervals, noisy_bounds
from pufferkit.influence.curve import regions as influence_region
from pufferkit.influence.curve.steps import BoxEntries, BoxSets
from tests.asking import Asking
from tests.oracles.brute_curve import every_release, losses_by_paths, random_matrix

seeds = st.integers(0, 2**32 - 1)


def random_region(rng, size):
    """A random matrix with random intervals around it; some are points, some touch 0."""
    matrix = random_matrix(rng, size)
    widths = rng.choice([0.0, 0.02, 0.1, 0.4], (2, size, size)) * rng.random((2, size, size))
    low, high = np.maximum(matrix - widths[0], 0), np.minimum(matrix + widths[1], 1)
    return RegionClass(low, high)


def random_member(rng, region):
    """A matrix of the region: each row filled up in a random order, so often at a corner."""
    rows = []
    for low, high in zip(region.low, region.high, strict=True):
        row = low.copy()
        if rng.random() < 0.3:
            row = low + (high - low) * rng.random() * max(0, 1 - low.sum()) / max(
                (high - low).sum(), 1e-300
            )
        for y in rng.permutation(len(low)):
            row[y] += min(high[y] - row[y], max(0.0, 1 - row.sum()))
        rows.append(row / row.sum())
    return np.array(rows)


# ------------------------------------------------------------------------------------- intervals


@pytest.mark.parametrize(("hits", "misses"), [(0, 0), (0, 5), (5, 0), (3, 7), (1, 10**6), (400, 2)])
@pytest.mark.parametrize("alpha", [0.3, 0.05, 1e-6])
def test_ends_of_the_interval_solve_the_equation(hits, misses, alpha):
    low = float(intervals(np.array(hits), np.array(misses), alpha))
    if hits == 0:
        assert low == 0
        return
    mean = lgamma(hits + 0.5) + lgamma(misses + 0.5) - lgamma(hits + misses + 1) - log(pi)
    tail = misses * np.log1p(-low) if misses else 0.0
    assert hits * log(low) + tail == pytest.approx(mean + log(alpha), abs=1e-6)
    assert low < hits / (hits + misses)


@given(st.integers(0, 60), st.integers(0, 60), st.sampled_from([0.5, 0.1, 0.01]))
@settings(deadline=None, max_examples=60)
def test_ends_are_monotone_in_hits_and_misses(hits, misses, alpha):
    def low(s, f):
        return float(intervals(np.array(s), np.array(f), alpha))

    assert low(hits + 1, misses) >= low(hits, misses) * (1 - 1e-9)
    assert low(hits, misses + 1) <= low(hits, misses) * (1 + 1e-9)


def test_the_martingale_has_mean_one_at_a_data_dependent_time():
    """Exact: stop at the first hit or after 6 draws; the mean of the ratio is 1 all the same."""
    p, mean = 0.3, 0.0
    for n in range(1, 7):
        for hit in (True, False):
            if not hit and n < 6:
                continue
            misses = n - hit
            ratio = exp(lgamma(hit + 0.5) + lgamma(misses + 0.5) - lgamma(n + 1)) / pi
            mean += ratio  # times the likelihood, divided by the likelihood
    assert mean == pytest.approx(1.0)
    assert p < 1


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 3])
def test_coverage(size):
    """At least the promised share of series has its chain in the region, at random lengths."""
    rng = np.random.default_rng(size)
    truth = MarkovChain.steady(rng.dirichlet(np.ones(size), size))
    inside, narrow, runs = 0, 0, 200
    for n in range(runs):
        path = truth.sample(400, seed=1000 + n)
        # Stop where the share of stays looks most unlike the truth: a fixed-n interval would break.
        stays = np.cumsum(path[1:] == path[:-1]) / np.arange(1, 400)
        stop = 20 + int(np.argmax(np.abs(stays - stays[-1])[20:]))
        counts = Series(path[: stop + 1], tuple(range(size)), (stop + 1,)).transitions
        region = ChainClass.around(counts, 0.9)
        inside += region.contains(truth.transition)
        shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
        half = (region.high - region.low) / 8
        narrow += bool((np.abs(shares - truth.transition) <= half).all())
    assert inside >= 0.9 * runs
    assert narrow < 0.9 * runs  # a quarter of the width would not do


def test_never_seen_cells_and_rows_stay_open():
    region = ChainClass.around([[50, 0, 3], [0, 0, 0], [2, 0, 9]], 0.95)
    assert region.low[0, 1] == 0
    assert 0 < region.high[0, 1] < 1
    assert region.low[1].tolist() == [0, 0, 0]
    assert region.high[1].tolist() == [1, 1, 1]


def test_more_data_and_less_confidence_narrow_the_region():
    wide = ChainClass.around([[90, 10, 5], [8, 12, 5], [5, 5, 5]], 0.95)
    more = ChainClass.around(100 * np.array([[90, 10, 5], [8, 12, 5], [5, 5, 5]]), 0.95)
    less = ChainClass.around([[90, 10, 5], [8, 12, 5], [5, 5, 5]], 0.6)
    for other in (more, less):
        assert (other.low >= wide.low - 1e-15).all()
        assert (other.high <= wide.high + 1e-15).all()


@given(seeds)
@settings(deadline=None, max_examples=25)
def test_noisy_bounds_hold_those_of_every_count_in_the_box(seed):
    rng = np.random.default_rng(seed)
    size = int(rng.integers(2, 4))
    true = rng.integers(0, 30, (size, size)).astype(float)
    noise = rng.uniform(-4, 4, (size, size))
    rest = np.abs(noise.sum(axis=1, keepdims=True) - noise).max()
    low, high = noisy_bounds(true + noise, 4.0, float(rest), 0.01)
    misses = true.sum(axis=1, keepdims=True) - true
    assert (low <= intervals(true, misses, 0.01) + 1e-12).all()
    assert (high >= 1 - intervals(misses, true, 0.01) - 1e-12).all()


# ------------------------------------------------------------------------ privacy over the region


@given(seeds)
@settings(deadline=None, max_examples=30)
def test_no_chain_of_the_region_loses_more_than_promised(seed):
    rng = np.random.default_rng(seed)
    size, length = int(rng.integers(2, 4)), int(rng.integers(2, 6))
    region = random_region(rng, size)
    b = float(rng.choice([0.05, 0.3, 1.0, 3.0]))
    promise = pk.InfluenceCurve(region, length).epsilon(b)
    assert promise <= length * b * (1 + 1e-9)
    outputs = every_release(rng, size, length, b)
    distributions = [*np.eye(size), *rng.dirichlet(np.ones(size) * 0.3, 4)]
    for _ in range(6):
        loss = losses_by_paths(distributions, random_member(rng, region), length, outputs).max()
        assert loss <= promise + 1e-9


@given(seeds)
@settings(deadline=None, max_examples=25)
def test_the_bounds_for_many_states_hold_too(seed):
    """The relaxation meant for many states, used on three, against all paths."""
    rng = np.random.default_rng(seed)
    region, length = random_region(rng, 3), int(rng.integers(2, 6))
    b = float(rng.choice([0.05, 0.3, 1.0, 3.0]))
    outputs = every_release(rng, 3, length, b)
    exact = pk.InfluenceCurve(region, length).epsilon(b)
    with mock.patch.object(influence_region, "LISTED", 1):
        promise = pk.InfluenceCurve(pk.ChainClass.from_dict(region.to_dict()), length).epsilon(b)
    assert exact * (1 - 1e-9) <= promise <= length * b * (1 + 1e-9)
    for _ in range(4):
        loss = losses_by_paths(np.eye(3), random_member(rng, region), length, outputs).max()
        assert loss <= promise + 1e-9


@pytest.mark.slow
@given(seeds)
@settings(deadline=None, max_examples=15)
def test_never_less_noise_than_for_a_member(seed):
    rng = np.random.default_rng(seed)
    size, length = int(rng.integers(1, 5)), int(rng.choice([1, 2, 5, 20, 100]))
    region, epsilon = random_region(rng, size), float(rng.choice([0.1, 1.0, 6.0]))
    query = pk.count(0, length)
    curve = pk.influence_curve(region, query, epsilon).scale
    assert curve <= length / epsilon * (1 + 1e-9)
    try:
        quilt = pk.markov_quilt(region, query, epsilon).scale
    except NotApplicable:
        quilt = np.inf
    assert curve <= quilt * (1 + 1e-9)
    for _ in range(2):
        member = ChainClass.any_start(random_member(rng, region))
        # Both searches end on the private side, to one part in 10^8.
        assert pk.influence_curve(member, query, epsilon).scale <= curve * (1 + 1e-6)
        assert pk.markov_quilt(member, query, epsilon).scale <= quilt * (1 + 1e-9)


@given(seeds)
@settings(deadline=None, max_examples=30)
def test_powers_of_members_stay_within_the_bounds(seed):
    rng = np.random.default_rng(seed)
    size = int(rng.integers(2, 6))
    region = random_region(rng, size)
    source = region.influence
    for _ in range(4):
        product = np.eye(size)
        fixed = random_member(rng, region)
        for m in range(1, 6):
            product = product @ fixed
            low, high = source.entries(m)
            assert (low <= product + 1e-12).all()
            assert (product <= high + 1e-12).all()
            with np.errstate(divide="ignore", invalid="ignore"):
                logs = np.log(product)
                rows = np.nan_to_num(logs[:, None, :] - logs[None, :, :], nan=-np.inf, posinf=1e9)
                columns = np.nan_to_num(
                    logs.T[:, None, :] - logs.T[None, :, :], nan=-np.inf, posinf=1e9
                ).max(axis=2)
            assert (rows.max(axis=2) <= source.ratio(m) + 1e-9).all()
            if (product > 0).all():
                assert (columns + columns.T <= source.diameter(m) + 1e-9).all()


def test_a_region_of_one_matrix_gives_the_noise_of_that_matrix():
    matrix = [[0.7, 0.2, 0.1], [0.3, 0.4, 0.3], [0.1, 0.3, 0.6]]
    query = pk.count(0, 1000)
    point = pk.influence_curve(RegionClass(matrix, matrix), query, 1).scale
    exact = pk.influence_curve(ChainClass.any_start(matrix), query, 1).scale
    # A region takes the largest variation of all pairs, a matrix that of each.
    assert exact * (1 - 1e-7) <= point <= 1.06 * exact


def test_two_states_are_exact_at_a_corner():
    region = RegionClass([[0.6, 0.1], [0.2, 0.5]], [[0.9, 0.4], [0.5, 0.8]])
    worst = ChainClass.any_start([[0.9, 0.1], [0.2, 0.8]], [[0.6, 0.4], [0.5, 0.5]])
    query = pk.count(0, 500)
    for mechanism in (pk.influence_curve, pk.markov_quilt):
        assert mechanism(region, query, 1).scale == pytest.approx(mechanism(worst, query, 1).scale)
    square = RegionClass([[0.3, 0.1], [0.1, 0.3]], [[0.9, 0.7], [0.7, 0.9]])
    binary = ChainClass.binary(0.3, 0.9)
    for mechanism in (pk.influence_curve, pk.markov_quilt, pk.markov_quilt_approx):
        same = mechanism(binary, query, 1).scale
        assert mechanism(square, query, 1).scale == pytest.approx(same)


@given(seeds)
@settings(deadline=None, max_examples=30)
def test_the_relaxed_step_is_never_below_the_listed_one(seed):
    rng = np.random.default_rng(seed)
    size = int(rng.integers(3, 7))
    source = random_region(rng, size).influence
    for m in (1, 2):
        upper, lower = source.sets(m)
        low, high = source.entries(m)
        worst = float(source.diameter(m).max())
        listed, relaxed = BoxSets(upper, lower, worst), BoxEntries(low, high, worst)
        for a in (0.01, 0.5, 3.0, 40.0, 700.0, np.inf):
            if m == 1:
                assert relaxed.largest(a) >= listed.largest(a) * (1 - 1e-9) - 1e-11
                pairs = relaxed.pairs(a)
                assert (pairs >= listed.pairs(a) * (1 - 1e-9) - 1e-11).all()
            assert 0 <= relaxed.largest(a) <= a


@pytest.mark.slow
def test_many_states():
    rng = np.random.default_rng(5)
    matrix = rng.dirichlet(np.ones(30) * 2, 30)
    region = ChainClass.around(np.floor(matrix * 1e5), 0.95)
    calibration = pk.influence_curve(region, pk.count(0, 10_000), 1)
    member = pk.influence_curve(ChainClass.any_start(matrix), pk.count(0, 10_000), 1)
    assert member.scale <= calibration.scale < 3 * member.scale


# ----------------------------------------------------------------------- what is said and refused


def test_json_both_ways_and_what_is_said():
    region = ChainClass.around([[90, 10, 5], [8, 12, 5], [5, 5, 5]], 0.95, states=["a", "b", "c"])
    again = beliefs_from_json(region.to_json())
    assert again.to_dict() == region.to_dict()
    data = json.loads(region.to_json())
    assert data["kind"] == "region"
    assert data["confidence"] == 0.95
    assert "time-uniform" in data["region"]
    calibration = pk.influence_curve(region, pk.histogram(["a", "b", "c"], 50), 1)
    assert "confidence 0.95" in str(calibration.evidence)
    release = calibration.release(["a", "b"] * 25)
    assert release.to_dict()["beliefs"]["confidence"] == 0.95
    assert "time-uniform" in str(release)
    table = pk.plan(region, pk.histogram(["a", "b", "c"], 50), 1)
    assert {row["mechanism"]: row["applicable"] for row in table.rows}["gk16"] is False
    assert table.best.mechanism in ("influence_curve", "group_dp")
    assert "95% region" in str(table)


def test_lower_bounds_of_zero_fall_back_to_the_group():
    region = ChainClass.around(np.zeros((3, 3)), 0.95)
    query = pk.count(0, 40)
    calibration = pk.influence_curve(region, query, 1)
    assert calibration.scale == pytest.approx(40)
    assert "lower bound 0" in str(calibration.evidence)
    with pytest.raises(NotApplicable, match="count more public data"):
        pk.markov_quilt(region, query, 1)
    for mechanism in (pk.gk16, pk.markov_quilt_approx):
        with pytest.raises(NotApplicable, match="influence_curve"):
            mechanism(region, query, 1)


def test_one_state_and_length_one():
    region = ChainClass.around([[7]], 0.95)
    assert region.low.tolist() == [[1.0]]
    assert pk.influence_curve(region, pk.count(0, 5), 1).scale == pytest.approx(1)
    wide = ChainClass.around([[7, 1, 1], [1, 2, 3], [4, 4, 4]], 0.95)
    assert pk.influence_curve(wide, pk.count(0, 1), 1).scale == pytest.approx(1)


@pytest.mark.parametrize(
    ("counts", "confidence", "words"),
    [
        ([[1, 2]], 0.95, "square table"),
        ([[1, -2], [3, 4]], 0.95, r"\(0, 1\) is -2"),
        ([[1, 0.5], [3, 4]], 0.95, "whole number.*without smoothing"),
        ([[1, float("nan")], [3, 4]], 0.95, "finite"),
        ([[1, 2], [3, 4]], 1.0, "confidence: must be at least 0.5"),
        ([[1, 2], [3, 4]], 0.3, "confidence: must be at least 0.5"),
        ([[1, 2], [3, 4]], "x", "confidence: must be a number"),
    ],
)
def test_refusals(counts, confidence, words):
    with pytest.raises(ValueError, match=words):
        ChainClass.around(counts, confidence)


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        ([[0.5, 0.1], [0, 0]], [[0.4, 0.9], [1, 1]], "low <= high"),
        ([[0.6, 0.6], [0, 0]], [[0.9, 0.9], [1, 1]], "no distribution fits row 0"),
        ([[0, 0], [0, 0]], [[0.2, 0.2], [1, 1]], "no distribution fits row 0"),
        ([[0, 0]], [[1, 1]], "square"),
    ],
)
def test_impossible_regions(low, high, words):
    with pytest.raises(ValueError, match=words):
        RegionClass(low, high)


def test_an_account_with_a_region(tmp_path):
    region = ChainClass.around([[900, 80, 60], [80, 900, 70], [60, 70, 900]], 0.9)
    data = Series(np.arange(200) % 3, (0, 1, 2), (200,))
    with pk.Ledger(str(tmp_path / "book.db")) as book:
        session = Asking(data, region, 2.0, book, name="me")
        session.release(pk.histogram((0, 1, 2), 80), 0.5, window=(1, 80))
        session.release(pk.histogram((0, 1, 2), 80), 0.5, window=(121, 200))
        assert 0.9 <= session.remaining <= 1.51
    from pufferkit.account.theorems import parallel

    history = [
        pk.Spending(epsilon=0.5, window=w, mechanism="markov_quilt") for w in ((1, 80), (121, 200))
    ]
    together = parallel(history, region, 200)
    assert 0.5 <= together <= 1.0
    member = ChainClass.any_start([[0.87, 0.07, 0.06], [0.08, 0.85, 0.07], [0.06, 0.07, 0.87]])
    assert region.contains(member.transitions[0])
    assert parallel(history, member, 200) <= together + 1e-9


def test_pairs_of_states_come_back_from_json():
    region = ChainClass.around([[5, 1], [2, 2]], 0.9, states=[(0, 1), (1, 0)])
    assert beliefs_from_json(region.to_json()).states == ((0, 1), (1, 0))


@pytest.mark.parametrize("wrong", [{"low": [[1]]}, {"low": 3, "high": 4}, {"low": "x", "high": []}])
def test_malformed_regions(wrong):
    with pytest.raises(ValueError, match=r"model|low|high"):
        ChainClass.from_dict({"kind": "region", **wrong})
