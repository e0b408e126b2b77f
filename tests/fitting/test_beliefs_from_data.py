"""Beliefs from data: where they come from, what noise buys, what data say about them."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pufferkit as pk
from pufferkit import ChainClass, MarkovChain, OverBudget, Series
from pufferkit.beliefs.base import beliefs_from_json
from pufferkit.beliefs.provenance import PRIVATE_NOTE
from pufferkit.beliefs.region_class import RegionClass
from pufferkit.data.asking import transition_counts
from pufferkit.fitting.fit import fit
from pufferkit.fitting.private_transitions import laplace_sum, region_of_noisy
from pufferkit.fitting.row_tests import (
    closest_in_box,
    coverage_check,
    order_check,
    stationarity_check,
)

TRUTH = MarkovChain.steady([[0.8, 0.2], [0.3, 0.7]], states=["rest", "active"])


def labels(length, seed):
    return [TRUTH.states[x] for x in TRUTH.sample(length, seed=seed)]


# ------------------------------------------------------------------------- fitted to the released


def test_a_refusal_comes_before_the_account_is_charged(tmp_path):
    data = labels(100, 1)
    with pk.Ledger(str(tmp_path / "book.db")) as book:
        with pytest.raises(ValueError, match="very series"):
            pk.release(data, pk.fit(data), pk.histogram(), 1, account=pk.Account(book, "me", 1))
        assert book.accounts() == []


@pytest.mark.parametrize("kind", ["fit", "around"])
def test_private_theta_is_said_everywhere(kind):
    data = Series.of(labels(200, 1), TRUTH.states)
    beliefs = (
        pk.fit(data, theta_from_private_data=True)
        if kind == "fit"
        else ChainClass.around(data, 0.9, theta_from_private_data=True)
    )
    again = beliefs_from_json(beliefs.to_json())
    assert "digests" not in json.loads(beliefs.to_json())["fitted_on"]
    query = pk.histogram(TRUTH.states, 200)
    noise = pk.influence_curve(again, query, 1)
    release = noise.release(data)
    for text in (
        str(noise.evidence),
        str(release),
        release.to_json(),
        str(pk.plan(again, query, 1)),
    ):
        assert PRIVATE_NOTE in " ".join(text.split())
    assert "FITTED TO PRIVATE DATA" in again.description
    assert release.to_dict()["beliefs"]["kind"] in ("finite", "region")
    assert pk.Release.from_json(release.to_json()) == release


def test_smoothing_and_size_are_kept():
    chain = fit(Series.of(labels(50, 1), [*TRUTH.states, "run"]), smoothing=0.5)
    assert chain.fitted_on.smoothing == 0.5
    assert chain.fitted_on.transitions == 49
    assert dict(chain.fitted_on.rarely_left) == {"run": 0}
    assert MarkovChain.from_json(chain.to_json()).fitted_on == chain.fitted_on
    assert TRUTH.fitted_on is None
    assert "fitted_on" not in TRUTH.to_dict()


@pytest.mark.parametrize(
    "wrong", [3, [1], {"transitions": -1}, {"smoothing": "x"}, {"rarely_left": 1}]
)
def test_malformed_provenance(wrong):
    data = {**TRUTH.to_dict(), "fitted_on": wrong}
    with pytest.raises(ValueError, match="fitted_on"):
        MarkovChain.from_dict(data)


# ---------------------------------------------------------------------------- private transitions


@pytest.mark.parametrize("pair", [("a", "b"), (1, "b"), ((0, 1), (1, 0)), (0.5, 2), (True, False)])
def test_transition_counts_of_any_labels(pair):
    first, second = pair
    series = Series.of([[first, second, second], [second, first]], pair)
    query = transition_counts(pair, series.lengths)
    assert [float(v) for v in query.exact(series)] == [0.0, 1.0, 1.0, 1.0]


@pytest.mark.slow
@pytest.mark.parametrize(("size", "scale"), [(2, 15.0), (3, 6.0)])
def test_the_noisy_region_covers(size, scale):
    rng = np.random.default_rng(size)
    truth = MarkovChain.steady(rng.dirichlet(np.ones(size) * 2, size))
    inside, bare, runs = 0, 0, 200
    for n in range(runs):
        path = truth.sample(500, seed=n)
        counts = Series(path, tuple(range(size)), (500,)).transitions
        noisy = counts + rng.laplace(0, scale, counts.shape)
        inside += region_of_noisy(noisy, scale, 0.9).contains(truth.transition)
        # Without room for the noise the promise would be broken.
        naive = ChainClass.around(np.maximum(np.round(noisy), 0), 0.9)
        bare += naive.contains(truth.transition)
    assert inside >= 0.9 * runs
    assert bare < 0.9 * runs


def test_sums_of_laplace_noise():
    rng = np.random.default_rng(0)
    for count in (1, 4, 20):
        sums = np.abs(rng.laplace(0, 2.0, (20_000, count)).sum(axis=1))
        assert (sums > laplace_sum(count, 2.0, 0.05)).mean() <= 0.055
        assert (sums > laplace_sum(count, 2.0, 0.05) / 4).mean() > 0.05


def test_private_transitions_end_to_end():
    data = Series.of(labels(20_000, 5), TRUTH.states)
    prior = ChainClass.binary(0.1, 0.9, TRUTH.states)
    bought = pk.private_transitions(data, 0.5, prior, confidence=0.9)
    assert isinstance(bought.region, RegionClass)
    assert bought.release.mechanism == "influence_curve"
    assert np.abs(bought.counts - data.transitions).max() < 40 * bought.release.scale
    assert "widened for the noise" in bought.region.to_json()
    query = pk.histogram(TRUTH.states, 20_000)
    second = bought.calibrate(query, 1.0)
    # Whole counts have whole noise: nothing was paid for a grid.
    assert bought.release.unit == 1
    assert bought.entry_epsilon >= 4 / bought.release.scale
    spent = bought.entry_epsilon + second.entry_epsilon
    assert pk.InfluenceCurve(bought.region, 20_000).epsilon(spent) <= 1.0 + 1e-9
    assert second.scale > pk.influence_curve(bought.region, query, 1.0).scale
    assert "together with the transition counts" in str(second.release(data))
    with pytest.raises(OverBudget, match="leaves nothing"):
        bought.calibrate(query, 1e-3)
    with pytest.raises(ValueError, match="whose transitions were counted"):
        bought.calibrate(pk.histogram(TRUTH.states, 30), 1.0)


def test_with_no_beliefs_it_is_group_privacy():
    segments = [labels(5, n) for n in range(400)]
    bought = pk.private_transitions(segments, 1.0, states=TRUTH.states)
    assert bought.release.mechanism == "group_dp"
    assert bought.release.scale == pytest.approx(4 * 5)
    with pytest.raises(ValueError, match="states: name all states"):
        pk.private_transitions(segments, 1.0)
    with pytest.raises(ValueError, match="epsilon"):
        pk.private_transitions(segments, 0, states=TRUTH.states)
    with pytest.raises(ValueError, match="confidence"):
        pk.private_transitions(segments, 1, states=TRUTH.states, confidence=2)


# --------------------------------------------------------------------------------- checking a model


def second_order(length, seed):
    rng = np.random.default_rng(seed)
    path = [0, 0]
    for _ in range(length - 2):
        stay = 0.9 if path[-1] == path[-2] else 0.3
        path.append(path[-1] if rng.random() < stay else 1 - path[-1])
    return path


def test_a_good_model_passes_and_the_false_alarm_rate_is_as_stated():
    chain = MarkovChain.steady([[0.7, 0.2, 0.1], [0.3, 0.4, 0.3], [0.1, 0.3, 0.6]])
    failed = np.zeros(3)
    for seed in range(150):
        series = Series(chain.sample(1500, seed=seed), (0, 1, 2), (1500,))
        reports = [
            order_check(series, 0.05),
            stationarity_check(series, 0.05),
            coverage_check(ChainClass.of(chain), series.transitions, np.array([0, 0, 0]), 0.05),
        ]
        assert [check.freedom for check in reports] == [12, 6, 6]
        failed += [not check.passed for check in reports]
    assert (failed <= 18).all()  # 7.5 expected, seeds are fixed
    assert (failed >= 1).all()


def test_a_second_order_series_is_found_out():
    path = second_order(4000, 1)
    report = pk.check_model(path, pk.fit(path))
    order, stationary, cover, *_ = report.checks
    assert order.passed is False
    assert "'order'" in order.text
    assert stationary.passed
    assert cover.passed
    assert not report.passed
    assert report.second_order_factor > 1.2
    assert "times the noise" in str(report)
    assert json.loads(report.to_json())["passed"] is False


def test_a_change_of_distribution_is_found_out():
    slow, fast = (
        MarkovChain.steady([[0.9, 0.1], [0.1, 0.9]]),
        MarkovChain.steady(np.full((2, 2), 0.5)),
    )
    path = [*slow.sample(1000, seed=1), *fast.sample(1000, seed=2)]
    _, stationary, cover, *_ = pk.check_model(path, slow).checks
    assert stationary.passed is False
    assert cover.passed is False
    assert pk.check_model(path, ChainClass.binary(0.3, 0.9)).checks[2].passed


def test_coverage_of_every_kind_of_class():
    counts = np.array([[900, 100], [80, 120]])

    def covered(beliefs):
        return pk.check_model(counts, beliefs).checks[2].passed

    matrix = [[0.9, 0.1], [0.4, 0.6]]
    assert covered(MarkovChain.steady(matrix))
    assert covered(ChainClass.any_start([[0.5, 0.5], [0.5, 0.5]], matrix))
    assert not covered(ChainClass.any_start([[0.5, 0.5], [0.5, 0.5]]))
    assert covered(ChainClass.around(counts, 0.9))
    assert not covered(ChainClass.around(counts[::-1, ::-1], 0.9))
    assert covered(ChainClass.binary(0.5, 0.95))
    assert not covered(ChainClass.binary(0.5, 0.7))
    assert covered(ChainClass.mixing(2, 0.1, 0.5))
    assert not covered(ChainClass.mixing(2, 0.4, 0.5))
    assert not covered(MarkovChain.steady([[1, 0], [0.4, 0.6]]))
    assert pk.check_model(counts, MarkovChain.steady(matrix)).checks[0].passed is None


def test_an_impossible_start_is_found_out():
    beliefs = MarkovChain([1, 0], [[0.5, 0.5], [0.5, 0.5]])
    report = pk.check_model([1, 0, 1, 1, 0, 0, 1, 0, 0, 1], beliefs)
    assert "starts where it cannot" in report.checks[2].text


@pytest.mark.parametrize("data", [[0], [[0], [1]], [0, 0, 0, 0], [0, 1]])
def test_tiny_data_cannot_tell(data):
    report = pk.check_model(data, MarkovChain.steady([[0.5, 0.5], [0.5, 0.5]]))
    assert report.checks[0].passed is None
    assert str(report)
    assert report.to_json()


def test_refusals_of_check_model():
    chain = MarkovChain.steady([[0.5, 0.5], [0.5, 0.5]])
    with pytest.raises(ValueError, match="not among the declared states"):
        pk.check_model([0, 1, 2], chain)
    with pytest.raises(ValueError, match="level: must lie"):
        pk.check_model([0, 1], chain, level=1)
    with pytest.raises(ValueError, match="3 states"):
        pk.check_model(np.ones((3, 3)), chain)


@given(st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=40)
def test_the_nearest_distribution_in_a_box_is_the_most_likely(seed):
    rng = np.random.default_rng(seed)
    size = int(rng.integers(2, 5))
    counts = rng.integers(0, 20, size).astype(float)
    distribution = rng.dirichlet(np.ones(size))
    low, high = (
        distribution * rng.random(size),
        distribution + (1 - distribution) * rng.random(size),
    )
    nearest = closest_in_box(counts, low, high)
    assert (nearest >= low - 1e-12).all()
    assert (nearest <= high + 1e-12).all()
    assert nearest.sum() <= 1 + 1e-9
    seen = counts > 0
    best = np.sum(counts[seen] * np.log(nearest[seen]))
    region = RegionClass(np.tile(low, (size, 1)), np.tile(high, (size, 1)))
    for _ in range(20):
        row = region.low[0].copy()
        for y in rng.permutation(size):
            row[y] += min(region.high[0][y] - row[y], max(0.0, 1 - row.sum()))
        for t in (1.0, 0.5):
            mixed = t * row + (1 - t) * distribution
            assert np.sum(counts[seen] * np.log(mixed[seen])) <= best + 1e-6


# ------------------------------------------------------------------------------------ second order


def test_a_second_order_chain_is_found_again():
    path = second_order(60_000, 3)
    chain = pk.fit(pk.Series.of(path), "order")
    assert chain.table[0, 0] == pytest.approx([0.9, 0.1], abs=0.01)
    assert chain.table[1, 0] == pytest.approx([0.3, 0.7], abs=0.02)
    assert pk.ChainClass.from_json(chain.to_json()).states == chain.states
    private = pk.fit(pk.Series.of(path), "order", theta_from_private_data=True)
    assert private.is_private
