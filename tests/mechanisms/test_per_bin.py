"""A scale for each bin, and the distances of vector sums, by listing all data."""

import pickle
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import pufferkit as pk
from pufferkit.mechanisms.plan import calibrate
from tests.asking import Asking
from tests.oracles.listed_sums import joint_loss, largest_loss

ACTIVE = pk.MarkovChain.steady([[0.92, 0.07, 0.01], [0.3, 0.6, 0.1], [0.1, 0.5, 0.4]])
SPARSE = [[0.7, 0.3, 0.0], [0.0, 0.6, 0.4], [0.5, 0.0, 0.5]]
BINS = np.eye(3, dtype=int)
DATA = [0, 0, 1, 2] * 25


@pytest.mark.parametrize("transition", [ACTIVE.transition.tolist(), SPARSE])
@pytest.mark.parametrize("start", [None, [1.0, 0.0, 0.0], [0.2, 0.3, 0.5]])
@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_no_output_tells_more_than_epsilon(transition, start, epsilon):
    chain = pk.MarkovChain.steady(transition) if start is None else None
    chain = chain or pk.MarkovChain(start, transition)
    query = pk.histogram([0, 1, 2], 5)
    made = pk.influence_curve(chain, query, epsilon, per_bin=True)
    lost = largest_loss(chain.initial, transition, BINS, made.scales, 5)
    assert lost <= epsilon * (1 + 1e-9)
    assert pk.audit.exact_loss(made) == pytest.approx(lost, rel=1e-9)
    one = pk.influence_curve(chain, query, epsilon)
    assert sum(made.scales) <= 3 * one.scale * (1 + 1e-4)


def test_rare_levels_get_less_noise_and_the_total_falls():
    query = pk.histogram([0, 1, 2], 1000)
    one, each = (pk.influence_curve(ACTIVE, query, 1, per_bin=own) for own in (False, True))
    assert sum(each.scales) < 0.98 * 3 * one.scale
    assert each.scales[2] < 0.85 * one.scale
    assert each.expected_l1_error < 0.98 * one.expected_l1_error
    assert each.mean_scale == pytest.approx(sum(each.scales) / 3)
    # What an entry spends is that of one scale for all.
    spent = 1 / np.array(each.scales)
    pairs = [spent[i] + spent[j] for i in range(3) for j in range(i)]
    assert 2 / each.scale == pytest.approx(max(pairs), rel=1e-9)
    assert 2 / each.scale >= max(pairs) * (1 - 1e-12)


@pytest.mark.slow
def test_its_row_in_a_plan_is_an_option():
    table = pk.plan(ACTIVE, pk.histogram([0, 1, 2], 1000), 1)
    row = next(r for r in table.rows if r["mechanism"] == "influence_curve_per_bin")
    assert row["applicable"]
    assert row["tightness"] <= 1
    assert len(row["scales"]) == 3
    assert "a scale for each bin: 0 " in row["why"]
    assert table.best.scales is None
    shown = next(r for r in table.shown_rows() if r["mechanism"] == "influence_curve_per_bin")
    assert " to " in shown["95% within"]
    named = calibrate("influence_curve_per_bin", ACTIVE, pk.histogram([0, 1, 2], 1000), 1)
    assert list(named.scales) == row["scales"]


@pytest.mark.parametrize(
    ("beliefs", "query", "why"),
    [
        (ACTIVE, pk.count(1, 30), "at least three"),
        (ACTIVE, pk.Query("own", len, 1, 30, labels="abc"), "at least three"),
        (
            pk.MarkovChain.steady(np.full((41, 41), 1 / 41)),
            pk.histogram(list(range(41)), 30),
            "merge levels",
        ),
    ],
)
def test_where_it_does_not_apply(beliefs, query, why):
    with pytest.raises(pk.NotApplicable, match=why):
        pk.influence_curve(beliefs, query, 1, per_bin=True)


MOODS = pk.RegimeClass([[0.95, 0.05], [0.1, 0.9]], [[0.8, 0.15, 0.05], [0.1, 0.3, 0.6]])
NEAR = pk.MarkovChain.steady([[0.8, 0.15, 0.05], [0.2, 0.7, 0.1], [0.1, 0.4, 0.5]])


@pytest.mark.parametrize(
    "beliefs",
    [
        pk.ChainClass.any_start(ACTIVE.transition),
        pk.ChainClass.mixing(3, 0.1, 0.5),
        pk.ChainClass.hull(ACTIVE, NEAR),
        MOODS,
        pk.ChainClass.of(ACTIVE).with_secrets(pk.Secrets.at_least(1, within=4, times=2)),
    ],
)
def test_every_class_of_the_curve_is_served(beliefs):
    query = pk.histogram([0, 1, 2], 100)
    one, each = (pk.influence_curve(beliefs, query, 2, per_bin=own) for own in (False, True))
    assert sum(each.scales) <= 3 * one.scale * (1 + 1e-4)
    assert pk.verify(each.release(DATA, anyway=True)).ok


def test_regimes_lose_no_more_than_epsilon_by_the_definition():
    query = pk.histogram([0, 1, 2], 5)
    made = pk.influence_curve(MOODS, query, 1, per_bin=True)
    assert sum(made.scales) < 3 * pk.influence_curve(MOODS, query, 1).scale
    assert 0.5 < pk.audit.exact_loss(made) <= 1 + 1e-9


def test_release_record_intervals_and_verify():
    made = pk.influence_curve(ACTIVE, pk.relative_frequencies([0, 1, 2], 100), 2, per_bin=True)
    answer = made.release(DATA)
    assert pickle.loads(pickle.dumps(made)).scales == made.scales
    assert answer.scales == made.scales
    assert "scale " in str(answer)
    assert f"{min(made.scales):.4g} to {max(made.scales):.4g}" in str(answer)
    widths = [high - low for low, high in answer.as_drawn().interval()]
    assert np.argsort(widths).tolist() == np.argsort(made.scales).tolist()
    again = pk.Release.from_json(answer.to_json())
    assert again == answer
    assert pk.verify(again).ok
    for change in (
        {"scales": tuple(0.98 * s for s in answer.scales)},
        {"scales": answer.scales[::-1]},
        {"scales": None},
        {"mechanism": "markov_quilt"},
    ):
        assert not pk.verify(replace(answer, **change)).ok, change
    for wrong in ("wide", answer.scales[:2], (*answer.scales[:2], -1.0)):
        with pytest.raises(ValueError, match="scales"):
            pk.Release.from_dict({**answer.to_dict(), "scales": wrong})
    assert pk.audit.audit(made, trials=1000, seed=1).passed
    with pytest.raises(ValueError, match=r"^scales: must be one for each of 3"):
        replace(made, scales=(1.0, 2.0))


@pytest.mark.slow
def test_states_in_another_order_are_verified_by_their_names():
    query = pk.histogram([2, 0, 1], 100)
    made = pk.influence_curve(ACTIVE, query, 2, per_bin=True)
    assert pk.verify(made.release(DATA)).ok
    by_state = dict(zip(query.states, made.scales, strict=True))
    straight = pk.influence_curve(ACTIVE, pk.histogram([0, 1, 2], 100), 2, per_bin=True)
    assert [by_state[x] for x in (0, 1, 2)] == pytest.approx(straight.scales, rel=1e-2)


def test_a_session_charges_each_bin_by_its_own_scale(tmp_path):
    session = Asking(DATA, ACTIVE, 9.0, str(tmp_path / "book.db"))
    query = pk.histogram([0, 1, 2], 100)
    session.release(query, 1, mechanism="influence_curve_per_bin")
    assert session.remaining == pytest.approx(8, abs=1e-3)
    session.release(query, 1, mechanism="influence_curve_per_bin", label="again")
    # Twice the cost of every pair: about twice the loss, as with one scale for all.
    assert session.spent == pytest.approx(2, rel=0.05)
    again = Asking(DATA, ACTIVE, 9.0, str(tmp_path / "book.db"))
    assert again.spent == session.spent


def test_two_releases_lose_no_more_than_their_account_says():
    chain = pk.MarkovChain.steady([[0.6, 0.3, 0.1], [0.3, 0.4, 0.3], [0.2, 0.3, 0.5]])
    query = pk.histogram([0, 1, 2], 4)
    made = [pk.influence_curve(chain, query, e, per_bin=True) for e in (0.7, 1.5)]
    charged = pk.compose([pk.Spending.of(own) for own in made], chain, 4).epsilon
    lost = joint_loss(chain.initial, chain.transition, [(BINS, m.scales) for m in made], 4)
    assert 0.8 * charged < lost <= charged


# --- vector sums with weights of one's own ------------------------------------------------------

ROWS = {0: (0, 0), 1: (1, 0), 2: (1, 1)}


def steps_and_runs(length, lipschitz=2):
    weights = {state: tuple(Fraction(w) for w in row) for state, row in ROWS.items()}
    return pk.Query(
        "steps and runs", len, lipschitz, length, labels=["steps", "runs"], states=[0, 1, 2],
        weights=weights,
    )  # fmt: skip


@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_vector_sums_use_the_distances_of_their_rows(epsilon):
    """States 0 and 1 are at L1 distance 1, 0 and 2 at 2: less noise than if all were at 2."""
    added = [list(ROWS[x]) for x in (0, 1, 2)]
    made = pk.influence_curve(ACTIVE, steps_and_runs(5), epsilon)
    lost = largest_loss(ACTIVE.initial, ACTIVE.transition, added, [made.scale] * 2, 5)
    assert lost <= epsilon * (1 + 1e-9)
    long = pk.influence_curve(ACTIVE, steps_and_runs(500), epsilon)
    alike = pk.influence_curve(ACTIVE, pk.Query("any", len, 2, 500), epsilon)
    assert long.scale < 0.99 * alike.scale
    answer = long.release([0, 1, 2, 0, 1] * 100)
    assert answer.unit == 1
    assert pk.verify(pk.Release.from_json(answer.to_json())).ok
    assert not pk.verify(replace(answer, scale=0.99 * answer.scale)).ok
    further = replace(
        answer,
        verification_data={**answer.verification_data, "weights": [["0", "0"], ["1", "1"]] * 2},
    )
    assert not pk.verify(further).ok
    assert any("values that the weights" in own for own in pk.verify(answer).assumptions)
    two = [pk.Spending.of(pk.influence_curve(ACTIVE, steps_and_runs(3), epsilon))] * 2
    charged = pk.compose(two, ACTIVE, 3).epsilon
    scale = pk.influence_curve(ACTIVE, steps_and_runs(3), epsilon).scale
    both = joint_loss(ACTIVE.initial, ACTIVE.transition, [(added, [scale] * 2)] * 2, 3)
    assert 0.8 * charged < both <= charged


def test_weights_must_fit_the_query():
    with pytest.raises(ValueError, match=r"^lipschitz: an entry moves the answer by up to 2 with"):
        steps_and_runs(5, lipschitz=1.5)
    with pytest.raises(ValueError, match=r"^weights: must have 1 numbers for each state"):
        pk.Query("own", len, 2, 5, weights={0: (Fraction(1), Fraction(1))})


def test_contributions_of_a_history_are_scaled_rows():
    spent = pk.Spending.of(pk.influence_curve(ACTIVE, steps_and_runs(5), 1))
    assert spent.contributions == ((0, (0.0, 0.0)), (1, (0.5, 0.0)), (2, (0.5, 0.5)))
    for bad in (((0, (0.0,)), (1, (0.4,))), ((0, (0.1,)), (1, (1.0,)))):
        with pytest.raises(ValueError, match=r"^contributions: must have one for each state"):
            replace(spent, contributions=bad)
