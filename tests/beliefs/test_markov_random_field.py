"""Markov random fields: exact distributions, the same as a network, JSON, and bad input."""

import pickle

import networkx as nx
import numpy as np
import pytest

import pufferkit as pk
from pufferkit.beliefs.base import as_beliefs, beliefs_from_json
from pufferkit.beliefs.junction_tree import JunctionTree
from pufferkit.beliefs.markov_random_field import FieldClass
from tests.oracles import graph_loss
from tests.strategies.graphs import factors_of, random_field

PAIR = pk.MarkovRandomField.ising([("a", "b")], 0.5, -1, values=("well", "ill"))


@pytest.mark.parametrize("seed", range(12))
def test_distributions_are_those_of_all_data_sets(seed):
    field = random_field(seed, values=3, zeros=seed % 2 == 1)
    rows, weights = graph_loss.weights_of(*factors_of(field))
    for n, node in enumerate(field.nodes):
        own = [weights[rows[:, n] == value].sum() for value in range(len(field.values[node]))]
        shares = np.array(own) / weights.sum()
        assert field.distribution(node) == pytest.approx(shares, rel=1e-12)
        assert field.network().distribution(node) == pytest.approx(shares, rel=1e-11)
    joint = field.joint()
    assert sum(joint.table.values()) == pytest.approx(1)
    whole = dict(zip(map(tuple, rows.tolist()), weights / weights.sum(), strict=True))
    assert joint.table == pytest.approx(whole)


@pytest.mark.parametrize("seed", range(8))
def test_cliques_hold_every_factor_and_hang_together(seed):
    sizes, factors = factors_of(random_field(seed, values=3))
    tree = JunctionTree.of(sizes, factors, "field")
    assert all(any(set(scope) <= set(own) for own in tree.cliques) for scope, _ in factors)
    for n in range(len(sizes)):
        holding = [c for c, own in enumerate(tree.cliques) if n in own]
        upward = [c for c in holding if tree.parent[c] >= 0 and n in tree.cliques[tree.parent[c]]]
        assert len(holding) == len(upward) + 1
    assert tree.error < 1e-12


def test_samples_follow_the_distribution():
    rng = np.random.default_rng(5)
    drawn = [PAIR.sample(rng) for _ in range(4000)]
    share = sum(row["a"] == "ill" for row in drawn) / 4000
    assert share == pytest.approx(PAIR.distribution("a")[1], abs=0.03)
    assert PAIR.sample(seed=1) == PAIR.sample(seed=1)


def test_an_ising_model_multiplies_odds_by_four_couplings():
    joint = PAIR.joint().table
    ratio = (
        joint["ill", "ill"] * joint["well", "well"] / joint["ill", "well"] / joint["well", "ill"]
    )
    assert np.log(ratio) == pytest.approx(4 * 0.5)
    potts = pk.MarkovRandomField.potts([(1, 2)], 0.7, list("xyz")).joint().table
    assert potts["x", "x"] / potts["x", "y"] == pytest.approx(np.exp(0.7))
    grid = pk.MarkovRandomField.grid(2, 3, 0.1)
    assert grid.nodes == ("1,1", "1,2", "1,3", "2,1", "2,2", "2,3")
    assert len(grid.edges) == 7


def test_json_pickle_and_words():
    for field in (PAIR, random_field(3, values=3)):
        theta = as_beliefs(field)
        assert beliefs_from_json(field.to_json()).to_dict() == theta.to_dict()
        assert beliefs_from_json(theta.to_json()).to_dict() == theta.to_dict()
        assert pickle.loads(pickle.dumps(field)).to_dict() == field.to_dict()
    assert str(PAIR) == "MarkovRandomField(Markov random field of 2 nodes, 1 edges)"
    assert as_beliefs([PAIR, PAIR]).description.startswith("2 sets of parameters")
    assert PAIR.table_rows()[0] == {"nodes": "a", "values": "well", "weight": pytest.approx(np.e)}


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: pk.MarkovRandomField({}), "at least one"),
        (lambda: pk.MarkovRandomField({"a": [1, 2]}), "tuples of different nodes"),
        (lambda: pk.MarkovRandomField({("a", "a"): [[1]]}), "tuples of different nodes"),
        (lambda: pk.MarkovRandomField({("a",): [[1, 2]]}), "an axis for each of its 1 nodes"),
        (lambda: pk.MarkovRandomField({("a",): [1, -2]}), "at least 0 and not all 0, got -2"),
        (lambda: pk.MarkovRandomField({("a",): [1, 2], ("a", "b"): [[1, 2]]}), "has 2 values"),
        (lambda: pk.MarkovRandomField({("a",): [1, 2]}, {"a": "xx"}), r"values\['a'\]"),
        (lambda: pk.MarkovRandomField.ising([("a", "a")], 1), "pairs of different nodes"),
        (lambda: pk.MarkovRandomField.ising([("a", "b"), ("b", "a")], 1), "listed twice"),
        (lambda: pk.MarkovRandomField.ising([], 1), "at least one node"),
        (lambda: pk.MarkovRandomField.ising([("a", "b")], 1, values=[1, 2, 3]), "values, got 3"),
        (lambda: pk.MarkovRandomField.ising([("a", "b")], {("b", "a"): 1}), "missing"),
        (lambda: pk.MarkovRandomField.ising([("a", "b")], 1000), "between -300 and 300"),
        (lambda: pk.MarkovRandomField.grid(0, 3, 1), "rows"),
        (lambda: PAIR.distribution("z"), "'z' is not in the field"),
        (lambda: pk.MarkovRandomField.from_dict({"kind": "x"}), "needs 'potentials'"),
        (lambda: pk.MarkovRandomField.from_dict({"potentials": [3]}), "malformed"),
        (lambda: FieldClass((PAIR, random_field(1))), "other nodes"),
        (
            lambda: FieldClass((PAIR, pk.MarkovRandomField.ising([("a", "b")], 1))),
            "gives 'a' the values",
        ),
    ],
)
def test_what_is_no_field_is_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_nothing_can_happen():
    never = {
        ("a", "b"): [[0, 1], [1, 0]],
        ("b", "c"): [[0, 1], [1, 0]],
        ("a", "c"): [[0, 1], [1, 0]],
    }
    with pytest.raises(ValueError, match="no data set"):
        pk.MarkovRandomField(never).distribution("a")


def test_too_much_is_refused_with_the_number():
    with pytest.raises(pk.NotApplicable, match="65,536"):
        pk.MarkovRandomField.grid(20, 20, 0.1).distribution("1,1")
    with pytest.raises(pk.NotApplicable, match="data sets"):
        pk.MarkovRandomField.grid(5, 5, 0.1).joint()


def test_a_graph_of_networkx_is_edges_and_nodes():
    graph = nx.Graph([("Ada", "Ben"), ("Ben", "Cem")])
    graph.add_node("Dia")
    field = pk.MarkovRandomField.ising(graph, 0.3)
    named = pk.MarkovRandomField.ising(list(graph.edges), 0.3, nodes=list(graph.nodes))
    assert field.nodes == named.nodes == ("Ada", "Ben", "Cem", "Dia")
    assert field.to_dict() == named.to_dict()


def test_a_question_about_all_nodes_needs_no_length():
    field = pk.MarkovRandomField.ising([(0, 1), (1, 2)], 0.3)
    curve = pk.influence_curve
    assert curve(field, pk.count(1), 1).scale == curve(field, pk.count(1), 1, over=3).scale
    assert pk.group_dp(pk.count(1), 1, field).scale == pk.group_dp(pk.count(1, 3), 1).scale
