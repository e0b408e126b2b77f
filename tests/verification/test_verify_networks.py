"""Releases over networks, joint tables and sums are verified, lowered scales caught."""

import dataclasses
import json
from fractions import Fraction
from itertools import product

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pufferkit as pk
from pufferkit.verification.check_quilts import connected
from pufferkit.verification.check_sums import NetworkSums, RecordedSum, distance_of
from pufferkit.verification.claims import Allowance, NotChecked
from pufferkit.verification.verify import verify
from tests.fuzz.records import judged

STEP = {(0,): [0.9, 0.1], (1,): [0.4, 0.6]}
CHAIN = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
TREE = pk.BayesianNetwork(
    parents={"a": (), "b": ("a",), "c": ("a",), "d": ("b",), "e": ("b",), "f": ("e",)},
    tables={"a": {(): [0.8, 0.2]}, **dict.fromkeys("bcdef", STEP)},
)
COLLIDER = pk.BayesianNetwork(
    parents={"a": (), "b": (), "c": ("a", "b"), "d": ("c",)},
    tables={
        "a": {(): [0.5, 0.5]},
        "b": {(): [0.7, 0.3]},
        "c": {(0, 0): [0.9, 0.1], (0, 1): [0.6, 0.4], (1, 0): [0.5, 0.5], (1, 1): [0.2, 0.8]},
        "d": STEP,
    },
)
OTHER = pk.BayesianNetwork(TREE.parents, {**TREE.tables, "a": {(): [0.6, 0.4]}})
# [Q] 3.1: how many of four have the flu; which ones is equally likely.
HOW_MANY = [
    Fraction(n, 100) / ways for n, ways in zip([10, 15, 50, 15, 10], [1, 4, 6, 4, 1], strict=True)
]
CLIQUE = pk.FiniteJoint({row: HOW_MANY[sum(row)] for row in product((0, 1), repeat=4)})
AND = pk.Query("both", lambda entries: float(entries[0] * entries[1]), 1.0, 4)

CASES = {
    "clique": lambda: pk.wasserstein(CLIQUE, pk.count(1, 4), 1),
    "clique, no sum": lambda: pk.wasserstein(CLIQUE, AND, 1),
    "clique, own secrets": lambda: pk.wasserstein(
        CLIQUE, pk.count(1, 4), 1, secrets=[(lambda row: sum(row) < 2, lambda row: sum(row) > 2)]
    ),
    "sum over a tree": lambda: pk.wasserstein([TREE, OTHER], pk.total([0.25, 1.5], 6), 1),
    "sum over a collider": lambda: pk.wasserstein(COLLIDER, pk.count(1, 4), 0.5),
    "count on a chain": lambda: pk.wasserstein(CHAIN, pk.count(1, 40), 1),
    "mean on a chain": lambda: pk.wasserstein(CHAIN, pk.mean([1, 3.5], [20, 10]), 0.3),
    "start": lambda: pk.wasserstein(pk.MarkovChain([1, 0], CHAIN.transition), pk.count(1, 20), 1),
    "quilts of a tree": lambda: pk.markov_quilt([TREE, OTHER], pk.count(1, 6), 4),
    "quilts of a collider": lambda: pk.markov_quilt(COLLIDER, pk.histogram([0, 1], 4), 3),
    "curve of a tree": lambda: pk.influence_curve([TREE, OTHER], pk.count(1, 6), 1),
    "group": lambda: pk.group_dp(pk.count(1, 6), 1),
}


def entries(calibration):
    return [[0, 1] * (n // 2) for n in calibration.query.lengths]


@pytest.mark.parametrize("name", CASES)
def test_a_release_passes_and_one_percent_less_does_not(name):
    calibration = CASES[name]()
    record = json.loads(calibration.release(entries(calibration)).to_json())
    verdict = verify(record)
    assert verdict.ok, str(verdict)
    assert verdict.needed_scale <= record["scale"] * (1 + 1e-7)
    for lowered in ("scale", "epsilon"):
        assert not verify({**record, lowered: record[lowered] * 0.99}).ok
    verdict = verify({**record, "verification_data": None})
    assert name == "group" or verdict.checked or not verdict.ok
    for wrong in (5, [1], "x", True):
        verdict = verify({**record, "verification_data": wrong})
        assert not verdict.ok
        assert "verification_data" in verdict.problems[0]


def test_a_quilt_that_does_not_separate_is_caught():
    record = CASES["quilts of a tree"]().release([0] * 6).to_dict()
    record["verification_data"] = {
        **record["verification_data"],
        "quilts": [[1 if n == 0 else 0] for n in range(6)],
    }
    assert not verify(record).ok
    record["verification_data"]["quilts"][0] = [0]
    assert not verify(record).ok


def test_swapped_weights_are_caught():
    record = pk.wasserstein(CHAIN, pk.total([0, 1], 30), 1).release([0] * 30).to_dict()
    assert verify(record).ok
    other = pk.total([0, 2], 30).question
    assert not verify({**record, "question": other}).ok
    verdict = verify({**record, "question": {**other, "arguments": {"values": "many"}}})
    assert not verdict.ok
    assert "question" in verdict.problems[0]


def test_wrong_lipschitz_of_a_total_is_caught():
    record = pk.markov_quilt(CHAIN, pk.total([0, 5], 30), 1).release([0] * 30).to_dict()
    assert verify(record).ok
    low = {**record, "lipschitz": 1.0, "scale": record["scale"] / 5}
    assert "lipschitz" in " ".join(verify(low).problems)


@st.composite
def chains(draw):
    size = draw(st.integers(2, 3))
    cells = st.integers(0, 6)
    rows = [draw(st.lists(cells, min_size=size, max_size=size)) for _ in range(size + 1)]
    rows = [row if sum(row) else [1] * size for row in rows]
    distributions = [[x / sum(row) for x in row] for row in rows]
    return pk.MarkovChain(distributions[0], distributions[1:])


@settings(max_examples=40, deadline=None)
@given(chains(), st.integers(1, 7), st.lists(st.integers(0, 3), min_size=3, max_size=3))
def test_distances_on_chains_agree_with_the_mechanism(chain, length, values):
    size = len(chain.states)
    values = values[:size]
    if len(set(values)) < 2:
        values[0] = values[-1] + 1
    weights = [Fraction(value) for value in values]
    asked = RecordedSum(weights, [length], Allowance(1e11))
    distance = distance_of(pk.ChainClass.of(chain), asked)
    try:
        scale = pk.wasserstein(chain, pk.total(values, length), 1).scale
    except pk.NotApplicable:
        assert distance == 0
    else:
        assert float(distance) == pytest.approx(scale, rel=1e-9)


def test_distributions_walk_through_a_network():
    """Against the joint distribution, row by row, for sets of nodes and for sums."""
    for network in (TREE, COLLIDER):
        joint = network.joint().table
        last, first = network.nodes[-1], network.nodes[0]
        places = network.nodes.index(last), 0
        both = NetworkSums(network, Allowance(1e10)).joint((last, first))
        assert both.shape == (2, 2, 1)
        for x, y in np.ndindex(2, 2):
            rows = [p for row, p in joint.items() if tuple(row[j] for j in places) == (x, y)]
            assert float(both[x, y, 0]) == pytest.approx(sum(rows), rel=1e-12)
        sums = NetworkSums(network, Allowance(1e10), {1: 1}).joint((last,))
        for x, total in np.ndindex(2, len(network) + 1):
            rows = [p for row, p in joint.items() if row[places[0]] == x and sum(row) == total]
            assert float(sums[x, total]) == pytest.approx(sum(rows), rel=1e-12)
        given = NetworkSums(network, Allowance(1e10), {1: 1}).joint((), {first: {1}})
        for total in range(len(network) + 1):
            rows = [p for row, p in joint.items() if row[0] == 1 and sum(row) == total]
            assert float(given[total]) == pytest.approx(sum(rows), rel=1e-12)


def test_work_has_a_limit():
    record = CASES["sum over a tree"]().release([0] * 6)
    verdict = verify(record, most_work=10)
    assert not verdict.ok
    assert not verdict.checked


def test_a_long_chain_of_nodes():
    """A path of 60 nodes as a tree: the curve is checked, and a lowered scale caught."""
    names = list(range(60))
    network = pk.BayesianNetwork(
        {n: (n - 1,) if n else () for n in names},
        {n: STEP if n else {(): [0.8, 0.2]} for n in names},
    )
    release = pk.influence_curve(network, pk.count(1, 60), 1).release([0] * 60)
    assert verify(release).ok
    assert not verify(dataclasses.replace(release, scale=0.99 * release.scale)).ok


def test_thin_tails_are_not_guessed():
    chain = pk.MarkovChain.steady([[1 - 1e-9, 1e-9], [0.5, 0.5]])
    with pytest.raises(NotChecked, match="tails"):
        distance_of(
            pk.ChainClass.of(chain),
            RecordedSum([Fraction(0), Fraction(1)], [2000], Allowance(1e15)),
        )


def test_secrets_of_your_own_do_not_promise_every_entry():
    """Only the first variable is hidden here, and neither the release nor the check says more."""
    pair = pk.FiniteJoint({(0, 0): 0.25, (0, 1): 0.25, (1, 0): 0.25, (1, 1): 0.25})
    twice = pk.Query("twice the second", lambda row: float(row[0] + 10 * row[1]), 10, 2)
    secrets = [(lambda row: row[0] == 0, lambda row: row[0] == 1)]
    own, every = pk.wasserstein(pair, twice, 1, secrets=secrets), pk.wasserstein(pair, twice, 1)
    assert own.scale < every.scale
    assert "no others" in own.guarantee
    assert every.guarantee == "Pufferfish for each entry"
    record = own.release([0, 1]).to_dict()
    assert verify(record).ok
    verdict = verify({**record, "guarantee": every.guarantee.code})
    assert not verdict.ok
    assert "guarantee" in str(verdict)


@pytest.mark.parametrize("secrets", [[], [1], [(0, 1)], [(lambda row: True,)], 5])
def test_secrets_that_are_no_pairs_of_functions_are_refused(secrets):
    with pytest.raises(ValueError, match="secrets"):
        pk.wasserstein(CLIQUE, pk.count(1, 4), 1, secrets=secrets)


@pytest.mark.parametrize(
    ("name", "field", "wrong"),
    [
        ("clique", "secrets", 5),
        ("clique", "secrets", [5]),
        ("clique", "secrets", [[[[99], [0]]]]),
        ("clique, no sum", "answers", 3),
        ("clique, no sum", "answers", [3]),
        ("quilts of a tree", "quilts", 7),
        ("quilts of a tree", "quilts", [7] * 6),
        ("quilts of a tree", "quilts", [["a"]] * 6),
        ("quilts of a tree", "quilts", [[99]] * 6),
    ],
)
def test_verification_data_that_make_no_sense_are_a_problem_and_no_crash(name, field, wrong):
    calibration = CASES[name]()
    record = calibration.release(entries(calibration)).to_dict()
    data = {**record["verification_data"], field: wrong}
    assert judged({**record, "verification_data": data}) == "not ok"


def test_answers_of_a_sum_that_do_not_follow_from_its_weights_are_not_believed():
    record = CASES["clique"]().release([0, 1, 0, 1]).to_dict()
    closer = [
        [str(Fraction(answer) / 1000) for answer in own]
        for own in record["verification_data"]["answers"]
    ]
    lie = {
        **record,
        "scale": record["scale"] / 900,
        "verification_data": {**record["verification_data"], "answers": closer},
    }
    assert verify(record).ok
    assert not verify(lie).ok


@pytest.mark.parametrize("seed", range(12))
def test_what_is_connected_is_not_d_separated(seed):
    rng = np.random.default_rng(seed)
    parents = {
        n: tuple(rng.choice(n, min(n, int(rng.integers(0, 3))), replace=False).tolist())
        for n in range(9)
    }
    tables = {
        n: {k: [0.5, 0.5] for k in product((0, 1), repeat=len(own))} for n, own in parents.items()
    }
    network = pk.BayesianNetwork(parents, tables)
    graph = nx.DiGraph([(p, n) for n, own in parents.items() for p in own])
    graph.add_nodes_from(range(9))
    for node in range(9):
        others = [n for n in range(9) if n != node]
        given = set(rng.choice(others, int(rng.integers(0, 5)), replace=False).tolist())
        apart = {n for n in set(others) - given if nx.is_d_separator(graph, {node}, {n}, given)}
        assert connected(network, node, given) == set(range(9)) - given - apart


@pytest.mark.parametrize("name", ["clique", "sum over a tree", "curve of a tree"])
def test_as_many_entries_are_asked_about_as_the_beliefs_have(name):
    """A mean over a hundred times as many entries would need a hundredth of the noise."""
    length = CASES[name]().query.longest
    beliefs, query = CASES[name]().beliefs, pk.mean([0, 1], length)
    make = pk.influence_curve if name == "curve of a tree" else pk.wasserstein
    record = json.loads(make(beliefs, query, 1).release([0, 1] * (length // 2)).to_json())
    assert verify(record).ok
    unit = record["unit"] and str(Fraction(record["unit"]) / 100)
    long = {"lengths": [100 * length], "scale": record["scale"] / 100, "unit": unit}
    long |= {"lipschitz": record["lipschitz"] / 100, "calibration": None}
    evidence = {**record["evidence"], "length": None}
    verdict = verify({**record, **long, "evidence": evidence})
    assert not verdict.ok
    assert any("lengths" in problem for problem in verdict.problems)
