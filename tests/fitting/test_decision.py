"""The tests that decide: what a class budgets, how it predicts, and what people show."""

import json
from itertools import pairwise, product

import numpy as np
import pytest

import pufferkit as pk
from pufferkit import ChainClass, MarkovChain, RegimeClass, Series
from pufferkit.fitting.check_model import (
    INFLUENCE,
    PREDICTION,
    ROWS,
    Days,
    influence_check,
    influence_of_each,
    largest_influence,
)
from pufferkit.fitting.members import (
    best_member,
    budgeted_influence,
    class_predictor,
    filtered,
    lists_all,
    member_predictor,
    region_predictor,
    schedule_predictor,
)
from tests.oracles.switching import draw, stationary, window_influence

REGIMES = np.array([[0.98, 0.02], [0.03, 0.97]])
SHOWN = np.array([[0.8, 0.15, 0.05], [0.1, 0.3, 0.6]])
DAY = 200


def person(seed, days=12):
    entries = draw(REGIMES, SHOWN, days * DAY, seed)
    return Series(entries, (0, 1, 2), (len(entries),))


def named(report, name):
    return next(check for check in report.checks if check.name == name)


# ------------------------------------------------------------------------------- what is budgeted


def test_a_class_budgets_at_least_the_influence_of_its_members():
    rng = np.random.default_rng(1)
    for size in (2, 3):
        kernels = [np.eye(size) / 2 + rng.dirichlet(np.ones(size), size) / 2 for _ in range(2)]
        chains = [MarkovChain.steady(kernel) for kernel in kernels]
        exact = [window_influence(kernel, np.eye(size), 30).max() for kernel in kernels]
        for chain, own in zip(chains, exact, strict=True):
            assert own * 0.999 <= budgeted_influence(ChainClass.of(chain), 30) <= 1.1 * own
        assert budgeted_influence(ChainClass.hull(*chains), 30) >= 0.999 * max(exact)
    own = window_influence(REGIMES, SHOWN, 66).max()
    assert 0.999 * own <= budgeted_influence(RegimeClass(REGIMES, SHOWN), 66) <= 1.1 * own


def test_who_lists_all_distributions():
    one, other = MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]]), MarkovChain.steady([[0.8, 0.2]] * 2)
    assert lists_all(ChainClass.of(one, other))
    assert lists_all(ChainClass.seasonal([one.transition, other.transition]))
    assert lists_all(RegimeClass(REGIMES, SHOWN))
    assert not lists_all(RegimeClass(REGIMES, SHOWN, emissions=0.1))
    assert not lists_all(ChainClass.hull(one, other))
    assert not lists_all(ChainClass.around([[90, 10], [40, 60]], 0.9))
    assert not lists_all(ChainClass.binary(0.5, 0.9))


# ---------------------------------------------------------------------------------- how it predicts


def test_filtered_predictions_are_those_of_all_paths():
    model = RegimeClass(REGIMES, SHOWN).distributions()[0].distribution
    entries = np.array([0, 2, -1, 1, 1])
    weight = {}
    for path in product(range(2), repeat=5):
        chance = stationary(REGIMES)[path[0]]
        for now, after in pairwise(path):
            chance *= REGIMES[now, after]
        weight[path] = chance
    rows = filtered(model, entries)
    for t in range(4):
        joint = np.zeros(3)
        for path, chance in weight.items():
            seen = [SHOWN[path[s], entries[s]] for s in range(t + 1) if entries[s] >= 0]
            joint += chance * np.prod(seen) * SHOWN[path[t + 1]]
        assert rows[t] == pytest.approx(joint / joint.sum())
    scores = member_predictor(model)(entries, np.zeros(5, dtype=int))
    assert np.isnan(scores).tolist() == [False, True, False, False]
    assert scores[0] == pytest.approx(np.log(rows[0, 2]))


def test_what_a_member_holds_for_impossible_is_infinitely_surprising():
    chain = MarkovChain.steady([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.5, 0.0, 0.5]])
    scores = member_predictor(chain)(np.array([0, 1, 0, 0]), np.zeros(4, dtype=int))
    assert scores[0] == pytest.approx(np.log(0.5))
    assert (scores[1:] == -np.inf).all()


def test_a_hull_predicts_by_its_best_schedule():
    kernels = [np.array([[0.9, 0.1], [0.1, 0.9]]), np.array([[0.2, 0.8], [0.8, 0.2]])]
    halves = [MarkovChain.steady(kernel).sample(400, seed=1) for kernel in kernels]
    entries, slots = np.concatenate(halves), np.zeros(800, dtype=int)
    mixed = schedule_predictor(kernels, 400)(entries, slots)
    alone = [member_predictor(MarkovChain.steady(kernel))(entries, slots) for kernel in kernels]
    assert mixed.sum() > max(each.sum() for each in alone) + 100
    hull = ChainClass.hull(*(MarkovChain.steady(kernel) for kernel in kernels))
    assert class_predictor(hull, [entries], 400)(entries, slots) == pytest.approx(mixed)
    gaps = np.where(np.arange(800) % 2 == 0, entries, -1)
    assert np.isnan(schedule_predictor(kernels, 400)(gaps, slots)).all()


def test_a_region_predicts_by_its_nearest_chain():
    low, high = np.array([[0.6, 0.1], [0.1, 0.6]]), np.array([[0.9, 0.4], [0.4, 0.9]])
    entries = MarkovChain.steady([[0.8, 0.2], [0.2, 0.8]]).sample(500, seed=1)
    table = np.zeros((2, 2))
    np.add.at(table, (entries[:-1], entries[1:]), 1)
    own = table / table.sum(axis=1, keepdims=True)
    scores = region_predictor(low, high, 1000)(entries, np.zeros(500, dtype=int))
    assert scores == pytest.approx(np.log(own[entries[:-1], entries[1:]]))
    region = ChainClass.around(1000 * np.array([[8, 2], [2, 8]]), 0.95)
    assert class_predictor(region, [entries], 1000)(entries, entries).sum() <= scores.sum() + 1e-9


def test_the_best_of_several_members_speaks():
    chains = [MarkovChain.steady([[stay, 1 - stay], [1 - stay, stay]]) for stay in (0.6, 0.9)]
    entries = chains[1].sample(500, seed=3)
    best = best_member(ChainClass.of(*chains), [entries])
    assert best.name == ChainClass.of(*chains).distributions()[1].name


def test_a_seasonal_class_speaks_from_its_best_slot():
    day = [np.array([[0.9, 0.1], [0.2, 0.8]])] * 3 + [np.array([[0.3, 0.7], [0.6, 0.4]])] * 2
    theta = ChainClass.seasonal(day)
    entries = theta.representatives()[3][1].sample(3000, seed=1)
    best = best_member(theta, [entries])
    assert best.name == "first entry at slot 3"
    exact = member_predictor(theta.representatives()[3][1])(entries, np.zeros(3000, dtype=int))
    assert best.predict(entries, np.zeros(3000, dtype=int)) == pytest.approx(exact)
    drawn = best.sample(40_000, np.random.default_rng(2))
    for slot, matrix in enumerate(day):
        at = np.arange((slot - 3) % 5, 39_999, 5)
        table = np.zeros((2, 2))
        np.add.at(table, (drawn[at], drawn[at + 1]), 1)
        assert table / table.sum(axis=1, keepdims=True) == pytest.approx(matrix, abs=0.04)


# ------------------------------------------------------------------------------------- the verdict


@pytest.mark.slow
def test_the_verdict_about_one_chain_and_about_the_regimes_behind_the_data():
    public, held_out = [person(seed) for seed in (1, 2)], [person(3)]
    chain = pk.fit(public, smoothing=0.5)
    given = {"day": DAY, "public": public, "repetitions": 40}
    wrong = pk.check_model(held_out, chain, **given)
    assert named(wrong, INFLUENCE).passed is False
    assert named(wrong, PREDICTION).passed is False
    assert not wrong.passed
    exact = window_influence(REGIMES, SHOWN, DAY // 3).max()
    assert named(wrong, INFLUENCE).statistic == pytest.approx(exact, rel=0.35)
    assert wrong.verdict.startswith("this class budgets ")
    assert "choose hidden regimes" in wrong.verdict
    assert f"verdict: {wrong.verdict}" in " ".join(str(wrong).split())
    assert json.loads(wrong.to_json())["verdict"] == wrong.verdict

    right = pk.check_model(held_out, RegimeClass(REGIMES, SHOWN), **given)
    assert named(right, INFLUENCE).passed
    assert named(right, INFLUENCE).p_value >= 0.05
    assert named(right, PREDICTION).passed
    assert named(right, ROWS).passed is None
    assert right.passed
    assert right.verdict == "no test refutes these beliefs"


def test_a_region_that_budgets_the_point_estimate_need_not_draw():
    chain = MarkovChain.steady([[0.8, 0.2], [0.3, 0.7]])
    counts = Series(chain.sample(50_000, seed=1), (0, 1), (50_000,)).transitions
    report = pk.check_model(chain.sample(5000, seed=3), ChainClass.around(counts, 0.95))
    found = named(report, INFLUENCE)
    assert found.passed
    assert found.p_value is None


def test_counts_and_short_series_cannot_tell():
    chain = MarkovChain.steady([[0.8, 0.2], [0.3, 0.7]])
    counted = pk.check_model(np.array([[80, 20], [30, 70]]), chain)
    for name in (INFLUENCE, ROWS, PREDICTION):
        assert named(counted, name).passed is None
        assert "give the series" in named(counted, name).text
    short = pk.check_model(chain.sample(40, seed=1), chain)
    assert named(short, INFLUENCE).passed is None
    assert "give more data" in named(short, INFLUENCE).text
    assert "public=" in named(short, PREDICTION).text


def test_people_are_measured_one_by_one_if_they_can_be():
    """Two people who differ: pooled, an entry would also tell who it is."""
    chains = [MarkovChain.steady([[0.9, 0.1], [q, 1 - q]]) for q in (0.02, 0.6)]
    people = [[chain.sample(3000, seed=n)] for n, chain in enumerate(chains)]
    clock = Days.of([p[0] for p in people], 300, 100)
    each = influence_of_each(people, 2, clock)
    assert len(each) == 2
    alone = largest_influence(each)
    exact = max(window_influence(chain.transition, np.eye(2), 100).max() for chain in chains)
    assert alone.lower < exact
    short = [[np.asarray(p[0][:301])] for p in people] * 4
    ((pooled, _),) = influence_of_each(short, 2, clock)
    assert pooled.point > 2 * exact


def test_too_little_data_have_no_power_whatever_they_show():
    """Twice the budget is noticed four times in five with the data that the check asks for."""
    chain = MarkovChain.steady([[0.9, 0.1], [0.1, 0.9]])
    theta = ChainClass.of(chain)
    clock = Days(300, 60, known=True)

    def check(entries, of=chain, seed=1):
        people = [[of.sample(entries, seed=seed)]]
        return influence_check(influence_of_each(people, 2, clock), theta, clock, repetitions=20)

    long, short = check(30_000), check(1200)
    assert long.passed
    assert long.power
    assert long.more_data == 1.0
    assert not short.power
    assert short.more_data > 1
    assert "no power: it would take" in short.text
    twice = MarkovChain.steady([[0.95, 0.05], [0.05, 0.95]])  # 19 entries where 9 are budgeted
    assert sum(check(30_000, twice, seed).passed is False for seed in range(10)) >= 8


def test_people_with_twice_the_budget_are_hardly_ever_said_to_survive():
    """Few days: the error is estimated badly, and no power is the only honest answer."""
    clock, wrong = Days(48, 16, known=True), 0
    for seed in range(20):
        people = [[_sticky(0.75).sample(4 * 48, seed=1000 * seed + n)] for n in range(2)]
        measured = influence_of_each(people, 2, clock)
        check = influence_check(measured, ChainClass.of(_sticky(0.6)), clock, level=0.01)
        wrong += bool(check.passed and check.power)
    assert wrong <= 1


def _sticky(stay):
    return MarkovChain.steady([[stay, 1 - stay], [1 - stay, stay]])
