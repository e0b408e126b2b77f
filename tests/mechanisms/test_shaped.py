"""Shaped noise: by the definition on short series, its record, its checks, and who is refused."""

from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import pufferkit as pk
from pufferkit.mechanisms.explain import meaning
from pufferkit.mechanisms.plan import calibrate
from tests.asking import Asking
from tests.attacks.shapes import worst_charge
from tests.oracles.shape import Outputs

MOVES, SHOWN = [[0.95, 0.05], [0.1, 0.9]], [[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]]
MOODS = pk.RegimeClass(MOVES, SHOWN)
STATES = [0, 1, 2]
DATA = [0, 0, 1, 2] * 500
GAPS = pk.Series.of([0, 0, None, 1, 2] * 10, STATES)
QUERY = pk.histogram(STATES, 2000)


@pytest.fixture(scope="module")
def made():
    return pk.shaped(MOODS, QUERY, 1)


def loss_by_definition(made, kernel, emission, length, rng):
    """The largest loss that outputs show, those that climb among them."""
    kernel, emission = np.array(kernel), np.array(emission)
    start = np.linalg.matrix_power(kernel, 4000)[0]
    shape = made.rotated.shape
    found = Outputs(
        start,
        [kernel] * (length - 1),
        [emission] * length,
        [shape.directions] * length,
        [float(s) for s in shape.scales],
        ["sech"] * shape.coordinates,
        1.0,
    ).climbed(rng, 400, 25)
    return float(found.max())


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("shape", ["total", "largest", "equal"])
def test_no_output_tells_more_than_epsilon(epsilon, shape):
    rng = np.random.default_rng(7)
    made = pk.shaped(MOODS, pk.histogram(STATES, 5), epsilon, shape=shape)
    lost = loss_by_definition(made, MOVES, SHOWN, 5, rng)
    assert 0.3 * epsilon < lost <= epsilon * (1 + 1e-9)


CHAIN = [[0.1, 0.8, 0.1], [0.1, 0.1, 0.8], [0.8, 0.1, 0.1]]
STICKY = [[0.8, 0.15, 0.05], [0.1, 0.8, 0.1], [0.05, 0.25, 0.7]]
KNOWN = np.eye(3)


@pytest.mark.parametrize(("epsilon", "matrix"), [(0.3, CHAIN), (1.0, STICKY), (4.0, CHAIN)])
def test_windows_hide_every_entry_of_a_chain(epsilon, matrix):
    rng, chain = np.random.default_rng(5), pk.MarkovChain.steady(matrix)
    for length in (1, 2, 5):
        made = pk.shaped(chain, pk.histogram(STATES, length), epsilon)
        assert made.reach
        assert loss_by_definition(made, matrix, KNOWN, length, rng) <= epsilon * (1 + 1e-9)


def test_the_ends_of_a_cycle_lose_most():
    """The first entry has cancellation on one side only: noise for inner ones would be too little.

    Exact losses at outer outputs, where every coordinate is far beyond all answers.
    """
    chain, kernel = pk.MarkovChain.steady(CHAIN), np.array(CHAIN)
    shape = pk.shaped(chain, pk.histogram(STATES, 2000), 0.2).rotated.shape
    added = shape.directions * shape.rates

    def outer_loss(before, after):
        losses = []
        for sign in product((-1, 1), repeat=shape.coordinates):
            weights = np.exp(added @ sign - np.mean(added @ sign))
            told = weights
            for step, count in ((kernel.T, before), (kernel, after)):  # all states are as frequent
                told = told * np.linalg.matrix_power(step * weights, count).sum(axis=1)
            losses.append(np.ptp(np.log(told)))
        return max(losses)

    first, middle = outer_loss(0, 400), outer_loss(200, 200)
    assert 2.5 * middle < first <= 0.2
    assert first > 0.8 * 0.2


def test_short_segments_are_covered_too():
    chain = pk.MarkovChain.steady(CHAIN)
    made = pk.shaped(chain, pk.histogram(STATES, [1, 2, 40, 3]), 1.0)
    rng = np.random.default_rng(6)
    for length in (1, 2, 3):
        assert loss_by_definition(made, CHAIN, KNOWN, length, rng) <= 1 + 1e-9


def test_windows_need_far_less_noise_where_entries_cancel():
    chain, query = pk.MarkovChain.steady(CHAIN), pk.histogram(STATES, 2000)
    made = pk.shaped(chain, query, 1)
    assert made.expected_l1_error < pk.influence_curve(chain, query, 1).expected_l1_error / 5
    answer = made.release(DATA)
    assert pk.verify(pk.Release.from_json(answer.to_json())).ok
    data = answer.verification_data
    for change in (
        {"reach": 1},
        {"reach": None},
        {"reach": 10**6},
        {"scales": [str(Fraction(s) * Fraction(98, 100)) for s in data["shape"]["scales"]]},
    ):
        spoiled = {**data, "shape": {**data["shape"], **change}}
        assert not pk.verify(replace(answer, verification_data=spoiled)).ok, change


def test_windows_of_many_regimes_of_switching_chains_and_of_finite_classes():
    moves = [[0.9, 0.05, 0.05], [0.1, 0.8, 0.1], [0.05, 0.05, 0.9]]
    shown = [[0.7, 0.2, 0.1], [0.1, 0.3, 0.6], [0.2, 0.6, 0.2]]
    for theta in (
        pk.RegimeClass(moves, shown),
        pk.RegimeClass(MOVES, [CHAIN, STICKY]),
        pk.ChainClass.of(pk.MarkovChain.steady(CHAIN), pk.MarkovChain.steady(STICKY)),
    ):
        made = pk.shaped(theta, pk.histogram(STATES, 60), 0.5)
        assert made.reach or theta.hides_states
        assert pk.verify(made.release([0, 1, 2] * 20, anyway=True)).ok


def test_windows_are_for_one_release_over_whole_segments(tmp_path):
    chain = pk.MarkovChain.steady(CHAIN)
    made = pk.shaped(chain, pk.histogram(STATES, 20), 1)
    with pytest.raises(pk.NotApplicable, match="gaps"):
        made.release(pk.Series.of([0, 1, None, 2] * 5, STATES), anyway=True)
    with pytest.raises(ValueError, match="shorter"):
        pk.Spending.of(made, (1, 19))
    once = pk.compose([pk.Spending.of(made)], chain, 20)
    assert once.epsilon == pytest.approx(1)
    # Beside anything else it costs what its noise spends on an entry, by the curve.
    asking = Asking([0, 1, 2] * 100, pk.ChainClass.of(chain), 60.0, str(tmp_path / "book.db"))
    first = asking.release(pk.histogram(STATES, 300), 1, mechanism="shaped")
    assert asking.spent == pytest.approx(1)
    spends = pk.InfluenceCurve(chain, 300).epsilon(first.lipschitz / first.scale)
    asking.release(pk.count(1, 300), 0.1)
    assert 1.1 < asking.spent <= spends + 0.1 + 1e-6


def test_every_model_of_a_class_is_covered():
    other = [[0.6, 0.4], [0.4, 0.6]], [[0.5, 0.4, 0.1], [0.2, 0.2, 0.6]]
    theta = pk.RegimeClass.of(MOODS, pk.RegimeClass(*other))
    made = pk.shaped(theta, pk.histogram(STATES, 4), 1.0)
    rng = np.random.default_rng(3)
    for model in ((MOVES, SHOWN), other):
        assert loss_by_definition(made, *model, 4, rng) <= 1 + 1e-9


def test_less_error_than_equal_noise(made):
    equal = pk.influence_curve(MOODS, QUERY, 1)
    assert made.expected_l1_error < 0.65 * equal.expected_l1_error
    worst = pk.shaped(MOODS, QUERY, 1, shape="largest")
    assert worst.rotated.errors.max() <= made.rotated.errors.max() * 1.001
    assert made.expected_l1_error <= worst.expected_l1_error * 1.001


def test_releases_are_unbiased_and_their_intervals_hold(made):
    exact = np.array([1000.0, 500.0, 500.0])
    answers = [[Fraction(int(n)) for n in exact]]
    drawn = np.array(made.noisy(answers, [0] * 4000)).reshape(-1, 3)
    errors = np.abs(drawn - exact)
    assert drawn.mean(axis=0) == pytest.approx(exact, abs=6 * errors.max() / 4000**0.5)
    assert errors.mean(axis=0) == pytest.approx(made.rotated.errors, rel=0.1)
    assert drawn.sum(axis=1) == pytest.approx(np.full(4000, 2000.0))
    inside = (errors <= made.half_widths(0.9)).mean(axis=0)
    assert ((inside > 0.88) & (inside < 0.94)).all()


def test_coarse_noise_has_intervals_too():
    coarse = pk.shaped(MOODS, QUERY, 40).rotated
    few = replace(coarse, scales=tuple(Fraction(1, 2) for _ in coarse.scales))
    assert (few.half_widths(0.95) > 0).all()
    assert (few.half_widths(0.99) >= few.half_widths(0.9)).all()


def test_its_record_is_verified_and_a_spoiled_one_is_not(made):
    answer = made.release(DATA)
    assert sum(answer.value) == pytest.approx(2000)
    again = pk.Release.from_json(answer.to_json())
    assert again == answer
    assert pk.verify(again).ok
    data = answer.verification_data
    shape = data["shape"]
    less = [str(Fraction(s) * Fraction(98, 100)) for s in shape["scales"]]
    (proofs,) = data["curve"]
    limits = [[{**own, "left": {**own["left"], "limits": []}} for own in proofs]]
    for change in (
        {
            "verification_data": {**data, "shape": {**shape, "scales": less}},
            "scale": answer.scale * 0.98,
        },
        {"verification_data": {**data, "shape": {**shape, "scales": less}}},
        {"verification_data": {**data, "shape": {**shape, "scales": less[:1]}}},
        {"verification_data": {**data, "shape": {**shape, "mix": [[1, 0], [0, 1], [0, 0]]}}},
        {"verification_data": {**data, "shape": {**shape, "added": [[1, 0, 0]] * 3}}},
        {"verification_data": {**data, "shape": {**shape, "unit": "2"}}},
        {"verification_data": {**data, "shape": {**shape, "objective": "largest"}}},
        {"verification_data": {**data, "curve": limits}},
        {"verification_data": {**data, "curve": []}},
        {"raw": (answer.raw[0] + 5, *answer.raw[1:])},
        {"noise": "laplace"},
        {"epsilon": 0.9},
        {"scale": answer.scale * 1.1},
        {"mechanism": "influence_curve"},
    ):
        assert not pk.verify(replace(answer, **change)).ok, change


@pytest.mark.parametrize(
    "theta",
    [
        pk.RegimeClass(MOVES, SHOWN, emissions=0.1),
        pk.RegimeClass.hull_of(MOODS, pk.RegimeClass([[0.8, 0.2], [0.3, 0.7]], SHOWN)),
        pk.RegimeClass.of(MOODS, pk.RegimeClass([[0.8, 0.2], [0.3, 0.7]], SHOWN)),
        pk.RegimeClass(MOVES, SHOWN, secret="regime"),
        pk.RegimeClass([[0.9999, 0.0001, 0], [0.01, 0.9, 0.09], [0, 0.1, 0.9]], [*SHOWN, [1, 0, 0]],
                       slow=1000),
    ],
)  # fmt: skip
def test_classes_of_regimes_are_served_and_verified(theta):
    made = pk.shaped(theta, pk.relative_frequencies(STATES, 2000), 1)
    assert made.rotated.unit == Fraction(1, 2000)
    verdict = pk.verify(made.release(DATA, anyway=True))
    assert verdict.ok, verdict


def test_sums_of_vectors_and_gaps():
    query = pk.linear({1: [1, 3.5], 2: [1, 9]}, 2000)
    made = pk.shaped(MOODS, query, 1)
    equal = pk.influence_curve(MOODS, query, 1)
    assert made.expected_l1_error < equal.expected_l1_error
    assert pk.verify(made.release(DATA)).ok
    gaps = pk.Series.of([0, 0, None, 1, 2] * 400, STATES)
    told = pk.shaped(MOODS, pk.histogram(STATES, gaps), 1).release(gaps)
    assert told.total == 1600
    assert pk.verify(told).ok


@pytest.mark.parametrize(
    ("beliefs", "query", "why"),
    [
        (pk.ChainClass.any_start(np.full((3, 3), 1 / 3)), QUERY, "matrix each|known chains"),
        (pk.MarkovChain([1, 0, 0], CHAIN), pk.histogram(STATES, 30), "known chains"),
        (pk.MarkovChain([0.2, 0.2, 0.6], CHAIN), pk.histogram(STATES, 1), "known chains"),
        (pk.MarkovChain.steady(CHAIN), pk.histogram(STATES, GAPS), "without gaps"),
        (MOODS, pk.count(1, 30), "at least two"),
        (MOODS, pk.quantile(0.5, {0: 0, 1: 1, 2: 2}, 30), "at least two|choice"),
    ],
)
def test_where_it_does_not_apply(beliefs, query, why):
    with pytest.raises(pk.NotApplicable, match=why):
        pk.shaped(beliefs, query, 1)


def test_words_and_picture_say_what_is_loud(made):
    assert "noise is loudest on" in str(made)
    rows = [text.get_text() for text in made.plot().axes[0].get_yticklabels()]
    noises = [float(row.split()[1]) for row in rows]
    assert noises == sorted(noises, reverse=True)
    assert len(noises) == len(made.rotated.scales)


def test_no_scale_says_what_a_stretch_loses(made):
    assert not any("longer stretch" in line for line in meaning(made))


def test_an_unknown_objective_is_refused():
    with pytest.raises(ValueError, match=r"^shape: must be one of total, largest, equal"):
        pk.shaped(MOODS, QUERY, 1, shape="round")


def test_plan_shows_it_beside_the_others():
    table = pk.plan(MOODS, QUERY, 1)
    row = next(r for r in table.entries if r.mechanism == "shaped")
    assert not row.alone
    assert row.together is None
    assert table.best.mechanism == "shaped"
    names = [r["mechanism"] for r in table.rows if r["applicable"]]
    assert names[0] == "shaped"
    assert {"influence_curve", "influence_curve_per_bin"} <= set(names)
    assert calibrate("shaped", MOODS, QUERY, 1).rotated.scales == row.calibration.rotated.scales


def test_a_plan_has_windows_if_time_allows():
    chain, query = pk.MarkovChain.steady(CHAIN), pk.histogram(STATES, 500)
    assert pk.plan(chain, query, 1).best.mechanism == "influence_curve"
    table = pk.plan(chain, query, 1, most_work=1e11)
    assert table.best.mechanism == "shaped"
    row = next(r for r in table.entries if r.mechanism == "shaped")
    assert row.tightness is None
    assert row.together > 2


def test_accounts_charge_what_all_releases_lose_together(tmp_path):
    """By Theorem S: about the sum of their epsilons, far below what an entry spends."""
    asking = Asking(DATA, MOODS, 60.0, str(tmp_path / "book.db"))
    first = asking.release(QUERY, 1, mechanism="shaped")
    spends = pk.InfluenceCurve(MOODS, 2000).epsilon(first.lipschitz / first.scale)
    assert spends > 1.9
    assert asking.spent == pytest.approx(1, rel=1e-3)
    asking.release(QUERY, 1, mechanism="shaped", label="again")
    assert asking.spent == pytest.approx(2, rel=0.01)
    asking.release(pk.count(1, 2000), 0.2)
    assert 2.1 < asking.spent < 2.4
    profile = asking.account.profile
    assert max(row["epsilon"] for row in profile) == pytest.approx(asking.spent, abs=2e-6)
    two = [pk.Spending.of(pk.shaped(MOODS, QUERY, 1))] * 2
    assert pk.compose(two, MOODS, 2000).epsilon == pytest.approx(2, rel=0.01)


@pytest.mark.parametrize("seed", range(12))
def test_no_history_with_shaped_noise_loses_more_than_is_charged(seed):
    assert worst_charge(np.random.default_rng([9, seed])) <= 1 + 1e-9


@pytest.mark.slow
def test_an_audit_passes_and_finds_too_little_noise():
    made = pk.shaped(MOODS, pk.histogram(STATES, 5), 1)
    report = pk.audit.audit(made, trials=4000, seed=1)
    assert report.passed
    assert 0.5 < report.exact.loss <= 1
    scales = tuple(s / 4 for s in made.rotated.scales)
    weak = replace(made, rotated=replace(made.rotated, scales=scales))
    assert not pk.audit.audit(weak, trials=4000, seed=1).passed
    assert pk.audit.exact_loss(weak) > 1.5
