"""Plans: every mechanism side by side."""

from math import inf, nan, sinh

import numpy as np
import pytest

import pufferkit as pk

STATES = ["rest", "run"]
CHAIN = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]], states=STATES)
QUERY = pk.count("run", 1000)
close = pytest.approx


def named(plan):
    return {row["mechanism"]: row for row in plan.rows}


def test_plan_lists_every_mechanism_with_its_own_scale():
    rows = named(pk.plan(CHAIN, QUERY, 1))
    assert rows["markov_quilt"]["scale"] == pk.markov_quilt(CHAIN, QUERY, 1).scale
    assert rows["markov_quilt_approx"]["scale"] == pk.markov_quilt_approx(CHAIN, QUERY, 1).scale
    assert rows["group_dp"]["scale"] == close(1000)
    assert rows["entry_dp"]["scale"] == close(1)
    assert not rows["entry_dp"]["pufferfish"]
    assert not rows["gk16"]["applicable"]
    assert "norm" in rows["gk16"]["why"]


def test_expected_error_counts_every_coordinate():
    query = pk.histogram(STATES, 1000)
    for row in pk.plan(CHAIN, query, 1).rows:
        if row["applicable"]:
            assert row["expected_l1_error"] == close(2 / sinh(1 / row["scale"]))
            assert row["half_width_95"] == round(row["half_width_95"])
            assert row["half_width_95"] == close(-row["scale"] * np.log(0.05), abs=1)


@pytest.mark.parametrize(
    "beliefs",
    [
        pk.MarkovChain([0.5, 0.5], [[0, 1], [1, 0]], states=STATES),
        pk.MarkovChain([0.5, 0.5], np.eye(2), states=STATES),
        pk.ChainClass.any_start([[0.9, 0.1], [0.4, 0.6]], states=STATES),
        pk.ChainClass.binary(0, 1, states=STATES),
        pk.ChainClass.binary(0.3, 0.6, states=STATES),
        pk.ChainClass.binary(1 - 2.0**-53, 1 - 2.0**-53, states=STATES),
        pk.ChainClass.mixing(STATES, 0.2, 0.75),
        pk.ChainClass.mixing(STATES, 1e-300, 1e-300),
    ],
)
def test_plan_for_every_kind_of_belief(beliefs):
    plan = pk.plan(beliefs, QUERY, 1)
    rows = named(plan)
    assert rows["group_dp"]["applicable"]
    assert rows["entry_dp"]["applicable"]
    for row in plan.rows:
        assert row["why"]
        if not row["applicable"]:
            assert row["scale"] is None
    assert plan.best.scale <= 1000 * (1 + 1e-12)


def test_chains_that_hardly_move_need_group_privacy_in_every_plan():
    """Staying probabilities one unit in the last place below 1."""
    for stay in (1 - 2.0**-53, 1 - 2.0**-52, 1 - 1e-12):
        plan = pk.plan(pk.ChainClass.binary(stay, stay, states=STATES), QUERY, 1)
        assert plan.best.scale == close(1000)


def test_lookup_by_name():
    plan = pk.plan(CHAIN, QUERY, 1)
    assert plan["markov_quilt"].scale == pk.markov_quilt(CHAIN, QUERY, 1).scale
    with pytest.raises(pk.NotApplicable, match=r"gk16.*norm"):
        _ = plan["gk16"]
    with pytest.raises(ValueError, match=r"known are.*markov_quilt"):
        _ = plan["magic"]


def test_plan_prints_as_a_table():
    plan = pk.plan(CHAIN, QUERY, 1)
    lines = str(plan).splitlines()
    assert all(len(line) <= 80 for line in lines)
    safe, below = [place for place, line in enumerate(lines) if set(line) == {"-"}]
    assert lines[safe + 1].startswith(plan.best.mechanism)
    assert lines[below + 1].startswith("entry_dp")
    assert "NO" in lines[below + 1]
    table = lines[safe + 1 : below]
    errors = [plan[line.split()[0]].half_width() for line in table]
    assert errors == sorted(errors)
    assert "do not apply: " in str(plan)
    assert {name for name, _ in plan.explain().rows} == {row.mechanism for row in plan.entries}


@pytest.mark.parametrize("epsilon", [0, -1, nan, inf, None])
def test_bad_epsilon(epsilon):
    with pytest.raises(ValueError, match="epsilon"):
        pk.plan(CHAIN, QUERY, epsilon)


def test_query_and_beliefs_must_fit():
    with pytest.raises(ValueError, match="states"):
        pk.plan(CHAIN, pk.histogram(["a", "b"], 100), 1)
    with pytest.raises(ValueError, match="beliefs"):
        pk.plan([[0.9, 0.1], [0.4, 0.6]], QUERY, 1)


@pytest.mark.parametrize("data", [[0, 1, 1, 0], np.zeros(3), None])
def test_data_in_place_of_a_query_are_refused(data):
    chain = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    with pytest.raises(ValueError, match=r"query: expected a Query, such as histogram\(states"):
        pk.plan(chain, data, 1)
    with pytest.raises(ValueError, match="query: expected a Query"):
        pk.influence_curve(chain, data, 1)


def line(nodes):
    table = {(0,): [0.8, 0.2], (1,): [0.3, 0.7]}
    parents = {n: (n - 1,) if n else () for n in range(nodes)}
    return pk.BayesianNetwork(parents, {n: table if n else {(): [0.6, 0.4]} for n in range(nodes)})


def test_the_curve_of_a_network_is_left_out_only_where_it_takes_many_times_as_long():
    network, query = line(30), pk.count(1, 30)
    rows = named(pk.plan(network, query, 1, most_work=1e7))
    assert rows["influence_curve"]["applicable"]
    left_out = named(pk.plan(network, query, 1, most_work=1e5))["influence_curve"]
    assert left_out["slow"]
    assert "it would take about 0 s; ask for it" in left_out["why"]


def test_quilts_of_a_large_network_are_left_out_of_a_plan_with_a_word():
    network = line(30)
    query = pk.count(1, 30)
    left_out = named(pk.plan(network, query, 1, most_work=1e7))["markov_quilt"]
    assert left_out["slow"]
    assert "--thorough" in left_out["why"]
    every = named(pk.plan(network, query, 1, most_work=inf))
    assert every["markov_quilt"]["scale"] == pk.markov_quilt(network, query, 1).scale
    assert every["wasserstein"]["applicable"]
    with pytest.raises(pk.NotApplicable, match="takes long"):
        pk.markov_quilt(network, query, 1, most_work=1e7)


def test_the_plan_names_the_bound_it_used_and_how_near_it_is():
    chain = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    shown = pk.plan(chain, pk.histogram([0, 1], 1000), 1)
    assert any("pair of values by pair; an output that loses 99%" in s for s in shown.remarks())
    by_name = {row["mechanism"]: row["bound"] for row in shown.rows}
    assert by_name["influence_curve"] == "curve"
    assert by_name["exact_sum"] is None  # does not apply
    assert all(row["bound"] for row in shown.rows if row["applicable"])
    long = pk.plan(chain, pk.count(1, 20_000), 1)
    assert "exact_sum never needs" in dict(long.explain().rows)["wasserstein"]


@pytest.mark.parametrize("length", [1, 2, 12, 40])
@pytest.mark.parametrize("turns", [[[0.9, 0.1], [0.4, 0.6]], [[0.0, 1.0], [1.0, 0.0]]])
def test_a_series_may_end_before_a_fixed_start_is_forgotten(length, turns):
    plan = pk.plan(pk.MarkovChain([1.0, 0.0], turns), pk.histogram([0, 1], length), 1.0)
    assert plan.best.scale > 0
