"""From public people to beliefs: what is built, what is recommended, what is refused."""

import json

import numpy as np
import pytest

import pufferkit as pk
from pufferkit import MarkovChain, NotApplicable, Series
from pufferkit.beliefs.hidden_model import HiddenModel
from pufferkit.fitting import baum_welch
from pufferkit.fitting.baum_welch import beyond, regime_influence
from pufferkit.fitting.check_model import INFLUENCE, ROWS, InfluenceCheck
from pufferkit.fitting.choosing import (
    Candidate,
    Choice,
    Fold,
    choose_beliefs,
    regime_class,
    regimes_of_people,
)
from pufferkit.fitting.fit import calibrated_contamination
from pufferkit.fitting.members import SMALL, budgeted_influence
from pufferkit.fitting.people import People
from pufferkit.fitting.row_tests import Check
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


def fitted_regimes(those):
    segments = [np.asarray(segment) for segment in those.pooled.segments]
    return baum_welch.fit(segments, len(those.states), 2, restarts=4)


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
    model = fitted_regimes(those)
    for theta in (
        pk.fit(those),
        pk.fit(those, "around"),
        pk.fit(those, "seasonal"),
        pk.fit(those, "hull"),
        regime_class(model, those),
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
    with pytest.raises(NotApplicable, match="needs the time of day"):
        pk.fit(People(those.series, None, (0, 0, 0)), "seasonal")


def test_calibration_with_few_and_with_many_people():
    few = calibrated_contamination(people(3), 0.1)
    assert 0 <= few.eta < 0.3
    assert "the largest that one of 3" in few.words
    many = calibrated_contamination(people(8), 0.2)
    assert "covers 80% of people, by 4 held out" in many.words
    with pytest.raises(NotApplicable, match="two people"):
        calibrated_contamination(people(1), 0.1)


def test_the_influence_of_a_fitted_model_is_the_exact_one():
    model = fitted_regimes(people(2))
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


def fold(*, influence=True, share=0.5, rows=None, more=1.0):
    check = InfluenceCheck(INFLUENCE, influence, "entries", 10.0, None, share, 12.0, more)
    return Fold((1,), Check(ROWS, rows, "rows"), check)


def row(name, scale, *folds, single=False, losses=None):
    chain = pk.ChainClass.of(MarkovChain.steady(NIGHT))
    return Candidate(name, chain, "promised", folds or (fold(),), scale, single, losses or {})


@pytest.mark.parametrize(
    ("said", "verdict"),
    [
        (fold(), "yes"),
        (fold(share=None, rows=True), "yes"),
        (fold(share=None, rows=None), "no power"),  # large by slack alone
        (fold(more=1.3), "no power"),
        (fold(rows=True, more=None), "no power"),
        (fold(influence=None, rows=True), "no power"),
        (fold(rows=False), "no"),
        (fold(influence=False, more=9.0), "no"),
    ],
)
def test_a_fold_refutes_or_is_survived_or_has_no_power(said, verdict):
    assert said.verdict == verdict
    assert row("one", 1.0, said).verdict == verdict


def test_one_fold_is_enough_to_refute_and_all_are_needed_to_survive():
    assert row("one", 1.0, fold(), fold(influence=False), fold()).verdict == "no"
    assert row("one", 1.0, fold(), fold(more=2.0)).verdict == "no power"
    assert row("one", 1.0, fold(), fold(more=2.0)).survived == 1
    assert row("one", 1.0, fold(), fold(rows=True)).covers
    assert not row("one", 1.0, single=True).covers
    assert row("one", None).verdict == "no"


def test_the_widest_promise_that_survives_is_recommended():
    rows = (
        row("wrong", 1.0, fold(), fold(influence=False), losses={"wide": 9.0}),
        row("bare fit", 2.0, single=True, losses={"people": 1.1, "wide": 1.5}),
        row("people", 3.0, losses={"wrong": 7.0, "bare fit": 1.0, "wide": 1.4}),
        row("wide", 4.0, losses={"wrong": 5.0, "bare fit": 0.9, "people": 1.0}),
        row("unsure", 5.0, fold(more=3.0), losses={"wide": 0.9}),
        Candidate("missing", None, "not built: no clock"),
    )
    known = (None, 3, ((1,), (2,), (3,)), 7, "histogram", 1.0)
    choice = Choice(rows, *known)
    assert [one.name for one in choice.ranked] == ["wide", "people"]
    assert choice.best is rows[3]
    assert choice.steps == (
        "wide: 1.33 times the noise of people; its adversaries learn 1, where people lets them "
        "learn 1.4",
        "people: 1.5 times the noise of bare fit; its adversaries learn 1, where bare fit lets "
        "them learn 1.1",
        "bare fit: 2 times the noise of wrong (refuted); its adversaries learn 1",
    )
    words = {
        name: (survived, loss)
        for name, _, survived, _, loss in (tuple(r.values()) for r in choice.shown_rows())
    }
    assert words["wrong"] == ("NO: influence, fold 2 of 3", "9 to wide")
    assert words["unsure"] == ("no power: 0 of 3", "at most 1")
    assert words["missing"] == ("not built", "-")
    text = str(choice)
    assert "seed 7, left out in turn: 1; 2; 3" in text
    assert "recommended: wide" in text
    assert "not covered: wrong (5)" in text
    plain = json.loads(choice.to_json())
    assert plain["recommended"] == "wide"
    assert plain["rows"][2]["losses"]["wide"] == 1.4
    nothing = Choice(rows[:2], *known)
    assert nothing.best is None
    assert "recommended: none of these; no class survives" in str(nothing)
    assert "these data have no power" in str(Choice(rows[4:], *known))


def test_what_the_others_would_learn_is_their_own_loss_at_this_noise():
    """The loss of a candidate's noise to another's adversaries is by their curve, not this one."""
    query = pk.relative_frequencies(("rest", "run"), 240)
    choice = choose_beliefs(people(4), query, regimes=(), repetitions=5)
    rows = {one.name: one for one in choice.rows}
    hull, single, one = rows["hull of people"], rows["single chain"], rows["seasonal chain"]
    curve = pk.InfluenceCurve(hull.beliefs, 240)
    loss = curve.epsilon(query.lipschitz / one.scale)
    assert one.losses["hull of people"] == pytest.approx(loss, rel=1e-6)
    assert one.losses["hull of people"] > 1
    assert hull.losses["single chain"] == 1
    assert single.verdict == "no"
    top = choice.best or max(choice.rows, key=lambda row: row.scale or 0)
    assert set(single.losses) == {"seasonal chain", top.name}  # the next step up, and the widest
    assert f"unsure of the member loses up to {1 + hull.beliefs.loss_of_type:.3g}" in hull.promise
    assert pk.InfluenceCurve(single.beliefs, 240).epsilon(query.lipschitz / hull.scale) <= 1
    assert choice.best is None or not choice.best.single


def test_the_few_models_with_most_influence_stand_for_many():
    """Their budget is never above that of all, which is asked here, and hardly below it."""
    shown = [[0.8, 0.2], [0.3, 0.7]]
    stays = np.linspace(0.6, 0.95, 8)
    each = [pk.RegimeClass([[p, 1 - p], [0.1, 0.9]], shown, ("rest", "run")) for p in stays]
    whole = pk.RegimeClass.of(*each)
    exact = pk.InfluenceCurve(whole, 25).epsilon(SMALL) / SMALL
    assert 0.99 * exact <= budgeted_influence(whole, 12) <= exact * (1 + 1e-9)
    assert budgeted_influence(whole, 12) >= max(regime_influence(m, 12) for m in whole.models)


def moving(stay):
    return HiddenModel(np.array([[stay, 1 - stay], [0.1, 0.9]]), np.array([[0.8, 0.2], [0.3, 0.7]]))


def test_somebody_beyond_people_who_differ():
    """The limit that one of a hundred exceeds, if logarithms of influence are normal.

    Alike people need nobody beyond them, and one person tells nothing about others.
    """
    assert regime_influence(moving(0.7)) == pytest.approx(regime_influence(moving(0.7), 400))
    stays = (0.75, 0.78, 0.8, 0.82, 0.84, 0.86)
    seen = [regime_influence(moving(stay)) for stay in stays]
    (one,) = beyond([moving(stay) for stay in stays])
    logs = np.log(seen)
    limit = np.exp(logs.mean() + 3.365 * logs.std(ddof=1) * np.sqrt(1 + 1 / 6))
    assert limit > max(seen)
    assert limit <= regime_influence(one) <= 1.02 * limit
    assert (one.emission == moving(0.5).emission).all()
    (far,) = beyond([moving(0.5), moving(0.99)])  # hardly known, so at most twice as long
    assert far.transition[0, 1] == pytest.approx(0.005)
    assert beyond([moving(0.9)] * 6) == []
    assert beyond([moving(0.9)]) == []


def test_what_cannot_be_split():
    query = pk.histogram(("rest", "run"), 100)
    with pytest.raises(ValueError, match="people: must be a Table"):
        choose_beliefs([[0, 1]], query)
    other = Series(np.array([0, 1]), ("a", "b"), (2,))
    with pytest.raises(ValueError, match="the same states"):
        choose_beliefs([person(1), other], query)
    with pytest.raises(ValueError, match="folds: 3 folds of 2"):
        choose_beliefs([person(1), person(2)], query, folds=3)
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
    assert told[0].startswith("2,880 entries of 5 people, 5 folds, 7 classes")
    assert "2 regimes of people, fold 5 of 5" in told
    assert "single chain, fold 2 of 5" not in told  # the first refutes it
    exact = window_influence(regimes, shown, 16).max()
    assert choice.measured.lower <= exact
    assert choice.best.influence.budget >= exact


def test_recommended_beliefs_tell_how_they_were_tested():
    theta = regime_class(fitted_regimes(people(2)), people(2))
    hull = pk.fit(people(2), "hull")
    for one in (theta, hull, pk.fit(people(2), "around")):
        rows = (
            Candidate("one", one, "promised", (fold(),), 2.0, False, {"two": 1.25}),
            row("two", 1.0, fold(influence=False)),
        )
        chosen = Choice(rows, None, 20, ((1,), (2,)), 7, "histogram", 1.0).tested_beliefs
        told = [source.tested for source in chosen.sources if source.tested is not None]
        assert told[0].others == (("two", 1.25),)
        assert "survived 2 folds of 20 people (seed 7)" in told[0].words
        assert chosen.digest == one.digest  # the same beliefs
        alone = Choice(rows, None, 4, ((1,), (2,)), 7, "histogram", 1.0, whose="stretches")
        told = [source.tested for source in alone.tested_beliefs.sources if source.tested]
        assert "2 folds of stretches of one person" in told[0].words
        noise = pk.influence_curve(chosen, pk.histogram(one.states, 480), 1)
        with pytest.raises(ValueError, match="fitted"):
            noise.release(people(2).series[0])


def test_no_power_names_the_data_it_would_take_and_the_states_it_did_not_test():
    """A second state is seen too rarely: how many times the data would show it enough."""
    codes = np.zeros(240, dtype=int)
    codes[::24] = 1
    codes[5] = 2
    those = [Series(codes, ("rest", "run", "fall"), (240,)) for _ in range(3)]
    query = pk.relative_frequencies(("rest", "run", "fall"), 240)
    choice = choose_beliefs(those, query, day=24, regimes=(), repetitions=2)
    assert choice.best is None
    hull = next(one for one in choice.rows if one.name == "hull of people")
    assert hull.verdict == "no power"
    assert hull.more_data == pytest.approx(51 / 9, rel=0.2)  # nine or ten visits in place of 51
    assert f"about {hull.more_data:.2g} times these 30 days of 3 people" in " ".join(
        str(choice).split()
    )
    assert "too rare to test what they give away" in " ".join(str(choice).split())
    assert "run (10), fall (1)" in " ".join(str(choice).split())
