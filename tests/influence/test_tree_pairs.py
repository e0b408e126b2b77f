"""The curve on trees pair by pair: against every row of the joint distribution."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pufferkit as pk
from pufferkit.influence.profile import metric_of_sum
from tests.oracles import brute_network as brute
from tests.strategies.graphs import curve_of

amounts = st.sampled_from([0.05, 0.5, 1.5, 4.0])


def random_case(seed):
    """A tree of up to 7 nodes and 3 values, and what each value adds to a sum."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(2, 8))
    parents, tables = brute.random_network(rng, count, 3 if count < 7 else 2, tree=True)
    values = [rng.integers(0, 3, 3).astype(float), rng.random(3) * 2, [0.0, 0.0, 1.0]][seed % 3]
    return pk.BayesianNetwork(parents, tables), parents, tables, np.asarray(values)


def distances(network, values):
    own = list(dict.fromkeys(v for node in network.nodes for v in network.values[node]))
    return np.abs(values[own][:, None] - values[own][None, :]), own


@pytest.mark.slow
@settings(max_examples=120, deadline=None)
@given(st.integers(0, 10**6), amounts)
def test_losses_cover_every_row(seed, b):
    network, parents, tables, values = random_case(seed)
    distance, own = distances(network, values)
    bounds = curve_of(network, distance).pair_losses(b)
    joint = brute.joint(parents, tables)
    added = [values[list(network.values[node])] for node in parents]
    for axis, node in enumerate(parents):
        places = [own.index(v) for v in network.values[node]]
        bound = bounds[node][np.ix_(places, places)]
        true = brute.pair_losses(joint, brute.noisy_sums(added, b), axis)
        assert np.all(true <= bound + 1e-10)
        assert bound.max() <= b * distance.max() * len(parents) * (1 + 1e-12)


THREE = {(0,): [0.7, 0.2, 0.1], (1,): [0.25, 0.6, 0.15], (2,): [0.0, 0.35, 0.65]}
TREE = pk.BayesianNetwork(
    {"a": (), "b": ("a",), "c": ("a",), "d": ("b",), "e": ("b",), "f": ("e",)},
    {"a": {(): [0.5, 0.3, 0.2]}, **dict.fromkeys("bcdef", THREE)},
)


@pytest.mark.parametrize(
    ("query", "at_most"),
    [
        (pk.count(2, 6), 0.88),
        (pk.total([0, 1, 2], 6), 0.92),
        (pk.histogram([0, 1, 2], 6), 1.0),
    ],
    ids=["count", "total", "histogram"],
)
def test_less_noise_where_values_are_close(query, at_most):
    scale = pk.influence_curve(TREE, query, 1).scale
    flat, _ = curve_of(TREE).solve(1.0)  # all values equally far apart
    assert scale <= at_most * query.lipschitz / flat * (1 + 1e-6)
    added = [np.array([float(query.weights.get(v, (0,))[0]) for v in range(3)])] * 6
    joint = brute.joint(TREE.parents, {n: dict(rows) for n, rows in TREE.tables.items()})
    if query.size == 1:
        assert brute.real_loss(joint, brute.noisy_sums(added, 1 / scale)) <= 1


def test_a_class_of_trees_is_told_apart_too():
    other = pk.BayesianNetwork(TREE.parents, {**TREE.tables, "a": {(): [0.2, 0.4, 0.4]}})
    query = pk.total([0, 1, 2], 6)
    both = pk.influence_curve([TREE, other], query, 1)
    assert both.scale >= 0.99999 * max(pk.influence_curve(n, query, 1).scale for n in (TREE, other))
    assert both.scale < 2 / curve_of([TREE, other]).solve(1.0)[0]


def test_metric_of_a_pipeline_over_a_tree():
    line = np.abs(np.arange(3.0)[:, None] - np.arange(3.0)[None])
    assert pk.entry_epsilon(TREE, 6, 1, metric=line) > pk.entry_epsilon(TREE, 6, 1)
    with pytest.raises(ValueError, match="metric"):
        pk.entry_epsilon(TREE, 6, 1, metric=np.eye(2))


def test_two_releases_about_a_tree_are_charged_pair_by_pair():
    """The account knows the distances of each release; their sum is one profile of matrices."""
    queries = pk.total([0, 1, 2], 6), pk.count(2, 6)
    noise = [pk.influence_curve(TREE, query, 1) for query in queries]
    history = [pk.Spending.of(calibration) for calibration in noise]
    together = pk.compose(history, TREE, 6)
    added = [[value for _, value in spending.contributions] for spending in history]
    cost = sum(
        spending.entry_epsilon * metric_of_sum(kind)
        for spending, kind in zip(history, added, strict=True)
    )
    assert together.rule == "entry_profile"
    assert together.epsilon == pytest.approx(curve_of(TREE, cost).loss(1.0).value, abs=2e-6)
    flat = sum(calibration.entry_epsilon for calibration in noise)
    assert together.epsilon < curve_of(TREE).loss(flat).value
    alone = pk.compose(history[:1], TREE, 6)
    assert alone.epsilon == pytest.approx(1, abs=2e-6)


def test_every_pair_of_values_is_explained():
    table = pk.explain(pk.influence_curve(TREE, pk.total([0, 1, 2], 6), 1))
    assert table.states == (0, 1, 2)
    assert table.losses.max() == pytest.approx(1, rel=1e-4)
    assert table.losses[0, 1] < 0.8
    assert not table.losses.diagonal().any()
