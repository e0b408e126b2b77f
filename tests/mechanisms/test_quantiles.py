"""Quantiles by the exponential mechanism: brute force, the sampler, the record, the account."""

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise, product
from math import exp, log, sqrt

import numpy as np
import pytest

import pufferkit as pk
from pufferkit import noise
from pufferkit.data.queries import rank_scores
from pufferkit.mechanisms.quantiles import expected_errors
from pufferkit.noise import opendp_draws
from tests.asking import Asking
from tests.oracles.choice import chosen, misses

LEVELS = ["0 kW", "1 kW", "2 kW"]
VALUES = {"0 kW": 0, "1 kW": 1, "2 kW": 2.5}
CHAIN = pk.MarkovChain.steady([[0.8, 0.15, 0.05], [0.2, 0.7, 0.1], [0.1, 0.3, 0.6]], states=LEVELS)
MANY = [f"{n} W" for n in range(16)]
WIDE = pk.MarkovChain.steady(np.full((16, 16), 0.5 / 16) + 0.5 * np.eye(16), states=MANY)
WATTS = {state: n for n, state in enumerate(MANY)}


def counts_of(data, size=3):
    return [data.count(level) for level in range(size)]


@pytest.mark.parametrize("share", [Fraction(1, 2), Fraction(9, 10), Fraction(1, 3)])
def test_scores_are_the_ranks_missed(share):
    for data in product(range(3), repeat=4):
        counts = counts_of(data)
        scores = rank_scores([Fraction(n) for n in counts], share)
        assert [-Fraction(s, share.denominator) for s in scores] == misses(counts, share)
        assert max(scores) == 0


@pytest.mark.parametrize("share", [Fraction(1, 2), Fraction(9, 10)])
def test_histograms_at_distance_d_move_a_choice_by_d_over_scale(share):
    scale, largest = 1.3, 0.0
    every = {tuple(counts_of(data, 4)) for data in product(range(4), repeat=4)}
    losses = {counts: chosen([-float(m) for m in misses(counts, share)], scale) for counts in every}
    for one, other in product(every, every):
        apart = sum(abs(a - b) for a, b in zip(one, other, strict=True))
        loss = max(log(p / q) for p, q in zip(losses[one], losses[other], strict=True))
        assert loss <= apart / scale + 1e-9
        largest = max(largest, loss * scale if apart == 2 else 0.0)
    assert largest > 1  # more than an entry moves one score: the constant is no mere habit


@pytest.mark.parametrize("share", [0.5, 0.9])
def test_every_entry_is_hidden_by_definition(share):
    length, epsilon = 5, 0.8
    scale = pk.influence_curve(CHAIN, pk.quantile(share, VALUES, length), epsilon).scale
    outputs: dict = {}
    for data in product(range(3), repeat=length):
        p = CHAIN.stationary[data[0]]
        for a, b in pairwise(data):
            p *= CHAIN.transition[a][b]
        scores = [-float(m) for m in misses(counts_of(data), Fraction(str(share)))]
        choice = chosen(scores, noise.choice_scale(scale, 3))
        for entry, state in enumerate(data):
            sums = outputs.setdefault((entry, state), [0.0, np.zeros(3)])
            sums[0] += p
            sums[1] += p * np.array(choice)
    worst = max(
        np.log((one / p) / (other / q)).max()
        for (entry, _), (p, one) in outputs.items()
        for (place, _), (q, other) in outputs.items()
        if entry == place
    )
    assert 0.1 * epsilon < worst <= epsilon


def exact_choice(scores, sigma):
    """The probabilities of permute and flip: polynomials in t, integrated term by term."""
    odds = np.exp((np.array(scores) - max(scores)) / sigma)
    each = []
    for j in range(len(odds)):
        product_of_others = np.polynomial.Polynomial([1.0])
        for p in np.delete(odds, j):
            product_of_others *= np.polynomial.Polynomial([1.0, -p])
        whole = product_of_others.integ()
        each.append(odds[j] * (whole(1.0) - whole(0.0)))
    return np.array(each)


@pytest.mark.parametrize("levels", [2, 3, 4])
@pytest.mark.parametrize("sigma", [0.2, 1.0, 5.0, 200.0])
def test_a_moved_entry_costs_what_the_theorem_says(levels, sigma):
    """Every histogram of a few entries and every move; the bound holds, and is attained."""
    cost, worst = noise.choice_cost(sigma, levels), 0.0
    for entries, share in [(2, 1 / 2), (4, 1 / 4), (4, 1 / 2), (5, 0.37)]:
        logs = {}
        for counts in product(range(entries + 1), repeat=levels):
            if sum(counts) == entries:
                scores = [-float(m) for m in misses(list(counts), Fraction(share))]
                logs[counts] = np.log(exact_choice(scores, sigma))
        for counts, own in logs.items():
            for one, other in product(range(levels), repeat=2):
                moved = list(counts)
                moved[one] -= 1
                moved[other] += 1
                if tuple(moved) in logs:
                    worst = max(worst, float(np.abs(logs[tuple(moved)] - own).max()))
    assert worst <= cost * (1 + 1e-9)
    assert worst >= cost * (1 - (2e-3 if sigma > 100 else 1e-8))


@pytest.mark.parametrize("levels", [2, 3, 5, 10, 30, 500])
@pytest.mark.parametrize("scale", [1e-3, 0.2, 2.0, 40.0, 3e3, 1e9])
def test_the_scale_of_a_choice_is_the_least_of_its_cost(levels, scale):
    drawn = noise.choice_scale(scale, levels)
    assert scale / 2 <= drawn <= scale
    assert noise.choice_cost(drawn, levels) <= 2 / scale
    if levels > 2 and drawn < scale:
        assert noise.choice_cost(drawn * (1 - 1e-3), levels) > 2 / scale * (1 - 1e-9)
    assert drawn <= noise.choice_scale(scale, levels + 1) * (1 + 1e-3)


@pytest.mark.parametrize(("levels", "times"), [(3, 1.53), (5, 1.23), (10, 1.08)])
def test_few_levels_need_much_less_noise_than_twice_the_scores(levels, times):
    assert 2 / noise.choice_scale(2.0, levels) == pytest.approx(times, abs=6e-3)


@pytest.mark.slow
def test_the_sampler_draws_what_the_formula_says():
    draws, scale = 20_000, 1.0
    wrong = sum(noise.noisy_choice([0, -6], scale, 2) == 1 for _ in range(draws)) / draws

    def surprising(claimed):
        p = chosen([0.0, -3.0], claimed)[1]
        return abs(wrong - p) > 6.2 * sqrt(p * (1 - p) / draws)

    assert [surprising(s) for s in (0.8, 1.0, 1.25)] == [True, False, True]


def test_in_a_forked_process_a_choice_is_drawn_on_a_new_thread(monkeypatch):
    asked = []

    class Watched(opendp_draws.ThreadPoolExecutor):
        def submit(self, *given):
            asked.append(given)
            return super().submit(*given)

    monkeypatch.setattr(opendp_draws, "ThreadPoolExecutor", Watched)
    noise.noisy_choice([0, -1], 1.0)
    assert not asked
    monkeypatch.setattr(opendp_draws, "_home", [])
    noise.noisy_choice([0, -1], 1.0)
    assert len(asked) == 1


def test_many_levels_are_chosen_from_and_few_are_inverted():
    plan = pk.plan_quantile(WIDE, 0.9, WATTS, 200, epsilon=1)
    assert plan.way == "exponential mechanism"
    assert plan.errors["exponential mechanism"] < 0.8 * plan.errors["noisy histogram inverted"]
    few = pk.plan_quantile(CHAIN, 0.5, VALUES, 20_000, epsilon=1)
    assert few.way == "noisy histogram inverted"
    assert few.query.kind == "histogram"
    data = [LEVELS[code] for code in CHAIN.sample(20_000, seed=1)]
    assert few.release(data).value == (1.0,)


def test_expected_errors_are_those_of_the_formula():
    shares, scale, n = np.array([0.3, 0.25, 0.2, 0.15, 0.1]), 6.0, 100
    away = np.array([float(m) for m in misses([30, 25, 20, 15, 10], 0.85)])
    drawn = noise.choice_scale(scale, 5)
    exact = float(np.dot(chosen(list(-away), drawn), away)) / n
    _, by_choice = expected_errors(shares, 0.85, n, scale)
    assert by_choice == pytest.approx(exact, rel=0.15)


@pytest.mark.slow
def test_record_verdict_and_account():
    data = [MANY[code] for code in WIDE.sample(200, seed=1)]
    plan = pk.plan_quantile(WIDE, 0.9, WATTS, 200, epsilon=1)
    release = plan.calibration.release(data)
    assert release.value[0] in range(16)
    assert release.labels == ("quantile 0.9",)
    assert "exponential mechanism" in " ".join(str(release).split())
    assert "rank" in str(release)
    assert "exponential mechanism" in plan.answer(release).how
    again = pk.Release.from_json(release.to_json())
    assert pk.verify(again).ok
    assert any("values" in matter for matter in pk.verify(again).assumptions)
    assert not pk.verify(replace(again, scale=0.99 * again.scale)).ok
    assert not pk.verify(replace(again, noise="laplace")).ok
    assert not pk.verify(replace(again, raw=(0.5,), value=(0.5,))).ok
    assert not pk.verify(replace(again, lipschitz=1.0, scale=again.scale / 2)).ok
    # Weights that tell few pairs of states apart must not buy less noise.
    bribed = {"weights": ["0"] * 15 + ["1"]}
    cheaper = replace(again, scale=0.9 * again.scale, verification_data=bribed)
    assert not pk.verify(cheaper).ok


@pytest.mark.slow
def test_a_session_pays_once_and_keeps_the_choice(tmp_path):
    data = [LEVELS[code] for code in CHAIN.sample(300, seed=1)]
    query = pk.quantile(0.9, VALUES, 300)
    with pk.Ledger(tmp_path / "ledger.db") as book:
        session = Asking(data, CHAIN, 1.0, book)
        first = session.release(query, 0.4)
        assert session.remaining == pytest.approx(0.6, abs=1e-4)
        assert session.release(query, 0.4).value == first.value
        other = session.release(pk.quantile(0.5, VALUES, 300), 0.4)
        assert other.query == "quantile 0.5"
        assert len(session.history) == 2
        with pytest.raises(pk.OverBudget):
            session.release(pk.quantile(0.25, VALUES, 300), 0.4)


def test_gaps_are_left_out_of_the_ranks():
    series = pk.Series.of(["0 kW", None, "2 kW", "2 kW", None, "2 kW"] * 50, LEVELS)
    query = pk.quantile(0.5, VALUES, series)
    assert query.exact(series) == [50, 0, 150]
    release = pk.influence_curve(CHAIN, query, 20).release(series)
    assert release.value == (2.5,)
    assert pk.verify(release).ok


@pytest.mark.parametrize("share", [0, 1, -0.5, 1.5, 0.1234567, True, "half"])
def test_shares_that_cannot_be_are_refused(share):
    with pytest.raises(ValueError, match="share"):
        pk.quantile(share, VALUES, 10)


def test_what_has_no_theorem_is_refused():
    query = pk.quantile(0.5, VALUES, 6)
    with pytest.raises(ValueError, match="different values"):
        pk.quantile(0.5, {"a": 1, "b": 1}, 6)
    for mechanism in (pk.gk16, pk.wasserstein, pk.exact_sum):
        with pytest.raises(pk.NotApplicable):
            mechanism(pk.MarkovChain.steady(np.full((3, 3), 1 / 3), states=LEVELS), query, 1)
    with pytest.raises(pk.NotApplicable):
        pk.influence_curve(CHAIN, query, 1, per_bin=True)
    with pytest.raises(ValueError, match="use a histogram"):
        pk.plan(CHAIN, {"median": (query, 3)})


def test_the_rank_is_within_its_bound_as_often_as_said():
    scale, share, level = 4.0, Fraction(7, 10), 0.8
    counts = [20, 15, 10, 30, 25]
    away = [float(m) for m in misses(counts, share)]
    levels = {f"{n}": n for n in range(5)}
    calibration = replace(pk.group_dp(pk.quantile(0.7, levels, 100), 1), scale=scale)
    bound, drawn = calibration.half_width(level), noise.choice_scale(scale, 5)
    places = chosen([-m for m in away], drawn)
    assert sum(p for p, m in zip(places, away, strict=True) if m <= bound) >= level
    assert bound == pytest.approx(drawn * log(4 / 0.2))
    mean = sum(p * m for p, m in zip(places, away, strict=True))
    assert (
        mean <= calibration.expected_l1_error == pytest.approx(drawn * (1 + 1 / 2 + 1 / 3 + 1 / 4))
    )
    assert exp(-bound / drawn) == pytest.approx(0.05)
