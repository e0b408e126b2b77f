"""From public people to beliefs: what is built, what is recommended, what is refused."""

import json

import numpy as np
import pytest

import pufferkit as pk
from pufferkit import MarkovChain, NotApplicable, Series
from pufferkit.beliefs.hidden_model import HiddenModel
from pufferkit.beliefs.people_counts import People, calibrated_contamination
from pufferkit.fitting.candidates import hidden_regimes as fitted_regimes
from pufferkit.fitting.candidates import (
    people_hull,
    regime_influence,
    regimes_of_people,
    seasonal_chain,
    single_chain,
    unsure_of_person,
)
from pufferkit.fitting.choosing import Candidate, Choice, choose_beliefs
from pufferkit.fitting.decision import INFLUENCE, PREDICTION, ROWS, InfluenceCheck
from pufferkit.fitting.ratio_tests import Check
from tests.oracles.switching import draw, window_influence

DAY = 12
NIGHT = np.array([[0.9, 0.1], [0.5, 0.5]])
BUSY = np.array([[0.4, 0.6], [0.2, 0.8]])


def person(seed, days=40):
    """Half of the day by one matrix, half by the other."""
    rng = np.random.default_rng(seed)
    codes = np.zeros(days * DAY, dtype=int)
    for t in range(1, len(codes)):
        row = (NIGHT if (t - 1) % DAY < DAY // 2 else BUSY)[codes[t - 1]]
        codes[t] = rng.random() >= row[0]
    return Series(codes, ("rest", "run"), (len(codes),))


def people(count):
    return People(tuple(person(seed) for seed in range(count)), DAY, (0,) * count)


def test_counts_of_moves_by_person_and_part_of_the_day():
    those = people(3)
    tables = those.moves(4)
    assert tables.sum(axis=(0, 1)) == pytest.approx(those.pooled.transitions)
    assert tables[1].sum(axis=0) == pytest.approx(those.series[1].transitions)
    shifted = People(those.series, DAY, (6, 6, 6)).moves(4)
    assert shifted == pytest.approx(np.roll(tables, 2, axis=1))
    timeless = People(those.series, None, (0, 0, 0)).moves(1)
    assert timeless.sum(axis=1) == pytest.approx(tables.sum(axis=1))


def test_every_class_remembers_the_people_it_was_made_of():
    those = people(2)
    model = fitted_regimes(those, 2)[1]
    for theta in (
        single_chain(those),
        seasonal_chain(those),
        people_hull(those),
        fitted_regimes(those, 2)[0],
        regimes_of_people(those, model, 4),
    ):
        assert theta.states == ("rest", "run")
        noise = pk.influence_curve(theta, pk.histogram(theta.states, 480), 1)
        with pytest.raises(ValueError, match="fitted"):
            noise.release(those.series[0])


def test_the_hull_holds_people_parts_of_the_day_and_everybody():
    those = people(3)
    forward, backward = those.hull_kernels()
    assert len(forward) == len(backward) == 1 + 3 + 3 * 4
    table = those.pooled.transitions + 0.5
    assert forward[0] == pytest.approx(table / table.sum(axis=1, keepdims=True))
    assert backward[0] == pytest.approx(table.T / table.T.sum(axis=1, keepdims=True))
    assert forward[4] == pytest.approx(NIGHT, abs=0.15)  # the first person's first quarter
    assert unsure_of_person(those) >= 0
    with pytest.raises(NotApplicable, match="needs the time of day"):
        seasonal_chain(People(those.series, None, (0, 0, 0)))


def test_calibration_with_few_and_with_many_people():
    few = calibrated_contamination(people(3), 0.1)
    assert 0 <= few.eta < 0.3
    assert "the largest that one of 3" in few.words
    many = calibrated_contamination(people(8), 0.2)
    assert "covers 80% of people, by 4 held out" in many.words
    with pytest.raises(NotApplicable, match="two people"):
        calibrated_contamination(people(1), 0.1)


def test_the_influence_of_a_fitted_model_is_the_exact_one():
    model = fitted_regimes(people(2), 2)[1]
    exact = window_influence(np.array(model.transition), np.array(model.emission), 9).max()
    assert regime_influence(model, 9) == pytest.approx(exact)


def test_a_regime_that_lasts_for_days_is_hidden_like_the_others():
    """For adversaries who know when it is in force no theorem stands yet."""
    those = people(2)
    stays = HiddenModel([[0.9, 0.1], [0.001, 0.999]], [[0.9, 0.1], [0.2, 0.8]])
    theta = regimes_of_people(those, stays, 4)
    assert "known" not in theta.promise
    assert theta.models[0].transition.tolist() == stays.transition.tolist()


# ----------------------------------------------------------------------------- the recommendation


def row(name, scale, *, influence=True, share=0.5, rows=None, prediction=True, bare=False):
    checks = (
        Check(ROWS, rows, "rows"),
        Check(PREDICTION, prediction, "nats"),
        InfluenceCheck(INFLUENCE, influence, "entries", 10.0, None, share, 12.0),
    )
    chain = pk.ChainClass.of(MarkovChain.steady(NIGHT))
    return Candidate(name, chain, "promised", checks, scale, bare)


def test_the_least_noise_that_nobody_refutes_is_recommended():
    rows = (
        row("cheap and wrong", 1.0, influence=False, share=None, rows=False),
        row("large by slack", 1.5, share=None, rows=None),
        row("rows are others'", 1.6, share=None, rows=False),
        row("bare fit", 2.0, bare=True),
        row("people", 3.0, prediction=False),
        row("wide", 4.0, share=None, rows=True),
        Candidate("missing", None, "not built: no clock"),
    )
    choice = Choice(rows, None, 3, 1, "histogram", 1.0)
    assert choice.best is rows[4]
    covers = {name: words for name, _, words, _ in choice.table()}
    assert covers["cheap and wrong"] == "NO: rows, influence"
    assert covers["large by slack"] == "?"
    assert covers["bare fit"] == "as fitted"
    assert covers["people"] == "yes, but: prediction"
    assert covers["missing"] == "not built"
    assert "recommended: people" in str(choice)
    plain = json.loads(choice.to_json())
    assert plain["recommended"] == "people"
    nothing = Choice(rows[:3], None, 3, 1, "histogram", 1.0)
    assert nothing.best is None
    assert "recommended: none of these" in str(nothing)


def test_what_cannot_be_split():
    query = pk.histogram(("rest", "run"), 100)
    with pytest.raises(ValueError, match="people: must be a Table"):
        choose_beliefs([[0, 1]], query)
    other = Series(np.array([0, 1]), ("a", "b"), (2,))
    with pytest.raises(ValueError, match="the same states"):
        choose_beliefs([person(1), other], query)
    with pytest.raises(ValueError, match="held_out: 2 of 2"):
        choose_beliefs([person(1), person(2)], query, held_out=2)
    with pytest.raises(ValueError, match="firsts: must have one slot for each of 2"):
        choose_beliefs([person(1), person(2)], query, firsts=[0])
    with pytest.raises(NotApplicable, match="too short to build and to test"):
        choose_beliefs([Series(np.array([0, 1, 0]), ("rest", "run"), (3,))], query)


@pytest.mark.slow
def test_regimes_are_recommended_for_people_with_regimes():
    regimes = np.array([[0.97, 0.03], [0.03, 0.97]])
    shown = np.array([[0.9, 0.1], [0.2, 0.8]])
    those = [Series(draw(regimes, shown, 576, seed), (0, 1), (576,)) for seed in range(5)]
    told = []
    choice = choose_beliefs(
        those, pk.relative_frequencies((0, 1), 576), day=48, regimes=(2, 3), progress=told.append
    )
    assert choice.best is not None
    assert "regimes of people" in choice.best.name
    assert told[0] == "flexible predictors"
    exact = window_influence(regimes, shown, 16).max()
    assert choice.measured.lower <= exact
    assert choice.best.influence.budget >= exact
