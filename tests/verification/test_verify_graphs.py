"""Releases about graphs with cycles: planned, released, charged, verified, audited."""

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import pufferkit as pk
from pufferkit import records
from pufferkit.beliefs import junction_tree
from pufferkit.beliefs.bayesian_network import NetworkClass
from pufferkit.beliefs.finite_joint import JointClass
from pufferkit.verification.check_sums import RecordedSum, distance_of
from pufferkit.verification.claims import Allowance
from tests.asking import Asking
from tests.strategies.graphs import random_field

FLU = pk.MarkovRandomField.ising(
    [("a", "b"), ("b", "c"), ("a", "c"), ("c", "d"), ("e", "f")], 0.4, -0.3, ("well", "ill")
)
CASES = pk.count("ill", 6)
TRIANGLE = pk.BayesianNetwork(
    {1: (), 2: (1,), 3: (1, 2)},
    {
        1: {(): [0.8, 0.2]},
        2: {(0,): [0.9, 0.1], (1,): [0.3, 0.7]},
        3: {(0, 0): [0.9, 0.1], (0, 1): [0.5, 0.5], (1, 0): [0.5, 0.5], (1, 1): [0, 1]},
    },
)
MECHANISMS = {
    "influence_curve": pk.influence_curve,
    "markov_quilt": pk.markov_quilt,
    "wasserstein": pk.wasserstein,
    "group_dp": lambda beliefs, query, epsilon: pk.group_dp(query, epsilon, beliefs),
}


def packed(ways):
    return records.packed(json.dumps(ways).encode())


def unpacked(record):
    return json.loads(records.unpacked(record["ways"]))


def found_out(release):
    assert pk.verify(release).ok
    verdict = pk.verify(replace(release, scale=0.99 * release.scale))
    assert not verdict.ok
    return verdict


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_less_noise_is_found_out(mechanism):
    noise = MECHANISMS[mechanism](FLU, CASES, 1)
    release = noise.release(FLU.sample(seed=1))
    found_out(pk.Release.from_json(release.to_json()))


@pytest.mark.parametrize("seed", range(6))
def test_releases_of_any_graph_verify(seed):
    field = random_field(seed, values=2 + seed % 2, most=6, zeros=seed % 3 == 0)
    states = tuple(dict.fromkeys(v for own in field.values.values() for v in own))
    for query in (pk.count(1, len(field)), pk.histogram(states, len(field))):
        found_out(pk.influence_curve(field, query, 1).release(field.sample(seed=1)))


def test_networks_with_cycles_have_a_curve():
    noise = pk.influence_curve(TRIANGLE, pk.count(1, 3), 1)
    assert noise.scale < 3 == pytest.approx(pk.group_dp(pk.count(1, 3), 1, TRIANGLE).scale)
    found_out(noise.release([0, 1, 0]))
    assert pk.audit.audit(noise, seed=1, trials=2000).passed


def test_wide_fields_verify(monkeypatch):
    monkeypatch.setattr(junction_tree, "MOST_CLIQUE", 4)
    grid = pk.MarkovRandomField.grid(5, 5, 0.12, -0.2)
    noise = pk.influence_curve(grid, pk.count(1, 25), 1)
    assert "too wide" in str(noise.evidence)
    assert noise.scale < 3
    found_out(noise.release([0] * 25))


def test_a_record_that_was_changed_asks_for_more_or_is_not_read():
    release = pk.influence_curve(FLU, CASES, 1).release(FLU.sample(seed=1))
    record = release.verification_data["graphs"][0]
    for changes in (
        {"order": record["order"][:-1]},
        {"order": record["order"][:1] * len(record["order"])},
        {"ways": "AAAA"},
        {"ways": packed([[0, 0, 0, [0], [0], "a"]])},
        {"order": [99, *record["order"][1:]]},
    ):
        data = {**release.verification_data, "graphs": [{**record, **changes}]}
        assert not pk.verify(replace(release, verification_data=data)).ok
    assert not pk.verify(replace(release, verification_data={"weights": ["0", "1"]})).ok


def hilly_tree(values, count, seed=3):
    """A tree with so many values of each node, some of them impossible given the parent."""
    rng = np.random.default_rng(seed)
    parents = {0: (), **{n: (int(rng.integers(max(0, n - 3), n)),) for n in range(1, count)}}
    rows = rng.dirichlet(np.full(values, 0.7), values) * (rng.random((values, values)) < 0.8)
    rows = 0.3 * np.eye(values) + 0.7 * rows
    table = {(x,): row / row.sum() for x, row in enumerate(rows)}
    tables = {n: table if n else {(): np.full(values, 1 / values)} for n in range(count)}
    return pk.BayesianNetwork(parents, tables, {n: range(values) for n in range(count)})


@pytest.mark.parametrize("values", [2, 3, 5, 7, 18])
def test_releases_of_trees_verify_without_a_solver(values, monkeypatch):
    """From six values on the record has the plans of every edge."""
    tree = hilly_tree(values, 12)
    release = pk.influence_curve(tree, pk.total(range(values), 12), 2).release([0] * 12)
    assert ("plans" in release.verification_data["graphs"][0]) == (values > 5)

    def solver(*args, **options):
        raise AssertionError("a programme was solved")

    monkeypatch.setattr("scipy.optimize.linprog", solver)
    found_out(pk.Release.from_json(release.to_json()))


def test_where_nodes_skip_others_the_record_says_how():
    walk = {(x,): [(0, 0.5, 0, 0, 0, 0.5)[(y - x) % 6] for y in range(6)] for x in range(6)}
    parents = {0: (), **{n: (n - 1,) for n in range(1, 12)}}
    tables = {n: walk if n else {(): [1, 0, 0, 0, 0, 0]} for n in range(12)}
    path = pk.BayesianNetwork(parents, tables, {n: range(6) for n in range(12)})
    release = pk.influence_curve(path, pk.histogram(range(6), 12), 5).release([0, 1] * 6)
    found_out(release)
    record = release.verification_data["graphs"][0]
    ways = unpacked(record)
    assert any(len(cliques) > 1 for *_, cliques, _, _ in ways)
    for spoil in (
        lambda way: [*way[:4], way[4][:-1], way[5][1:]],  # a node is left out
        lambda way: [*way[:4], way[4], "a" * len(way[5])],  # all averaged
        lambda way: [*way[:3], [way[3][-1], *way[3][1:]], *way[4:]],  # another clique
        lambda way: [*way[:3], [*way[3][:1], len(parents) - 2, 0], *way[4:]],  # not in a row
    ):
        spoilt = [spoil(way) if len(way[3]) > 1 else way for way in ways]
        data = {**release.verification_data, "graphs": [{**record, "ways": packed(spoilt)}]}
        assert not pk.verify(replace(release, verification_data=data)).ok


@pytest.mark.parametrize(
    ("edges", "least"),
    [("ring", 1.0142), pytest.param("dense", 1.134, marks=pytest.mark.slow)],
)
def test_people_may_have_any_number_of_contacts(edges, least):
    if edges == "ring":
        field = pk.MarkovRandomField.ising(
            [(n, (n + d) % 200) for n in range(200) for d in range(1, 8)], 0.001
        )
    else:
        rng = np.random.default_rng(1)
        pairs = [(a, b) for a in range(138) for b in range(a)]
        chosen = rng.choice(len(pairs), 7497, replace=False)
        field = pk.MarkovRandomField.ising([pairs[n] for n in chosen], 0.001)
    noise = pk.influence_curve(field, pk.count(1, len(field)), 1)
    assert noise.scale == pytest.approx(least, rel=2e-3)
    release = noise.release([0] * len(field))
    found_out(release)
    record = release.verification_data["graphs"][0]
    low = np.frombuffer(records.unpacked(record["amounts"][0]), "<f8") * 0.999
    for amounts in (records.packed(low.tobytes()), "AAAA", None):
        data = {**release.verification_data, "graphs": [{**record, "amounts": [amounts]}]}
        assert not pk.verify(replace(release, verification_data=data)).ok


def test_a_plan_of_a_field():
    table = pk.plan(FLU, CASES, 1)
    scales = {row["mechanism"]: row["scale"] for row in table.rows if row["applicable"]}
    assert scales["group_dp"] == pytest.approx(4)  # of six people four hang together
    assert scales["influence_curve"] < scales["wasserstein"] <= scales["group_dp"]
    assert scales["influence_curve"] < scales["markov_quilt"]
    assert table["influence_curve"].evidence.node == "c"
    assert pk.audit.audit(table.best, seed=1, trials=2000).passed
    lost = pk.explain(table.best).losses.max()
    assert lost == pytest.approx(1, rel=1e-5)


def test_a_session_about_a_field(tmp_path):
    with pk.Ledger(str(tmp_path / "book.db")) as book:
        session = Asking(FLU.sample(seed=1), FLU, 3, book, name="flu")
        session.release(CASES, 1, mechanism="influence_curve")
        assert session.remaining == pytest.approx(2, abs=1e-5)
        session.release(CASES, 0.5, mechanism="influence_curve", label="again")
        assert session.history[-1]["rule"] == "entry_profile"
        assert session.spent < 1.55
        session.release(CASES, 0.5, mechanism="group_dp")
        with pytest.raises(pk.OverBudget):
            session.release(CASES, 2, mechanism="influence_curve")


def test_group_releases_add_up_only_over_parts_they_were_made_for():
    two = [pk.Spending.of(pk.group_dp(CASES, 1, FLU))] * 2
    rows = {row.rule: row for row in pk.compose(two, FLU, 6).considered}
    assert rows["group_sum"].micro == 2_000_000
    joined = pk.MarkovRandomField.ising([*FLU.edges, ("a", "e")], 0.4, -0.3, ("well", "ill"))
    rows = {row.rule: row for row in pk.compose(two, joined, 6).considered}
    assert rows["group_sum"].micro is None
    assert "smaller than 6 entries" in rows["group_sum"].why


def test_what_has_no_theorem_is_refused():
    with pytest.raises(pk.NotApplicable, match="Markov chains"):
        pk.markov_quilt_approx(FLU, CASES, 1)
    with pytest.raises(pk.NotApplicable, match="quilts are searched for one"):
        pk.markov_quilt([FLU, FLU], CASES, 1)
    pairs = pk.MarkovRandomField.ising([(n, n + 1) for n in range(0, 220, 2)], 0.1)
    with pytest.raises(pk.NotApplicable, match="up to 200 nodes"):
        pk.wasserstein(pairs, pk.count(1, 220), 1)
    with pytest.raises(pk.NotApplicable, match="parts of up to 64 nodes"):
        pk.markov_quilt(pk.MarkovRandomField.grid(9, 9, 0.1), pk.count(1, 81), 1)


@pytest.mark.slow
def test_a_sum_over_a_larger_grid():
    grid = pk.MarkovRandomField.grid(5, 9, 0.15)
    noise = pk.wasserstein(grid, pk.count(1, 45), 1)
    assert noise.scale == pytest.approx(3, abs=1e-6)
    release = noise.release(grid.sample(seed=1)).to_dict()
    assert pk.verify(release).ok
    assert not pk.verify({**release, "scale": 0.99 * noise.scale}).ok


def test_large_sums_are_checked_as_small_ones_are():
    """As by the joint distribution, with ties: fair coins, weights below zero."""
    wheel = pk.MarkovRandomField.ising([(0, 1), (1, 2), (2, 0), (2, 3)], 0.4, -0.3).network()
    coins = pk.BayesianNetwork(
        {"a": (), "b": ("a",)}, {"a": {(): [0.5, 0.5]}, "b": dict.fromkeys([(0,), (1,)], [0.5] * 2)}
    )
    for network in (wheel, coins):
        asked = RecordedSum([Fraction(-1, 2), Fraction(1)], (len(network),), Allowance(1e12))
        ours = distance_of(NetworkClass((network,)), asked)
        assert ours == distance_of(JointClass((network.joint(),)), asked)
        query = pk.total([-0.5, 1], len(network))
        assert ours == pytest.approx(pk.wasserstein(network.joint(), query, 1).scale)


def test_events_about_a_field():
    """W between the sums given two events, from the joint distribution."""
    field = pk.MarkovRandomField.ising([(0, 1), (1, 2), (0, 2), (2, 3)], 0.4, -0.3)
    secrets = [({0: 1, 1: 1}, {0: 0}), ({3: 1}, {3: 0, 2: 0})]
    both = (pk.wasserstein(m, pk.count(1, 4), 1, secrets=secrets) for m in (field, field.joint()))
    ours, listed = both
    assert ours.scale == pytest.approx(listed.scale, rel=1e-9)
    assert ours.guarantee == listed.guarantee
    assert pk.verify(ours.release([0, 1, 1, 0])).ok


def test_quilts_of_many_small_parts_are_those_of_one():
    """A union of cliques: what is outside a part moves nothing."""

    def cliques(count):
        edges = [(4 * c + a, 4 * c + b) for c in range(count) for b in range(4) for a in range(b)]
        return pk.MarkovRandomField.ising(edges, 0.05, nodes=range(4 * count))

    one, many = (pk.markov_quilt(cliques(n), pk.count(1, 4 * n), 1) for n in (1, 12))
    assert one.evidence.quilt
    assert many.scale == pytest.approx(one.scale, rel=1e-6)
    assert pk.verify(many.release([0, 1] * 24)).ok


def test_group_dp_needs_entries_that_fit():
    assert pk.group_dp(
        pk.count(1, 10), 1, pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    ).scale == (pytest.approx(10))
    with pytest.raises(ValueError, match="lengths=6"):
        pk.group_dp(pk.count("ill", 5), 1, FLU)
    assert pk.group_dp(pk.count(1, 2), 1, pk.FiniteJoint({(0, 1): 1.0, (1, 0): 0.0})).scale == (
        pytest.approx(2)
    )
