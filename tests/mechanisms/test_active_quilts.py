"""The active quilt of every node: against all quilts by definition, and the mechanism's scale."""

import numpy as np
import pytest

import pufferkit as pk
from tests.oracles import brute, brute_network

ROW = [[0.9, 0.1], [0.4, 0.6]]
EVENTS = pk.ChainClass.of(pk.MarkovChain.steady(ROW)).with_secrets(pk.Secrets.runs(2))


def close(value):
    return pytest.approx(value, rel=1e-9)


def least_scores(initial, transition, length, epsilon):
    def influence(node, left, right):
        return brute.influence(initial, transition, length, node, left, right)

    return brute.node_scores(influence, length, epsilon)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("epsilon", [0.5, 3])
def test_every_node_of_chains_against_all_quilts(seed, epsilon):
    rng = np.random.default_rng(seed)
    chains = []
    for n in range(2):
        matrix = rng.dirichlet(np.full(2 + seed % 2, 2.0), size=2 + seed % 2)
        start = rng.dirichlet(np.ones(len(matrix)))
        chain = pk.MarkovChain.steady(matrix) if n else pk.MarkovChain(start, matrix)
        chains.append(chain)
    scores = [least_scores(c.initial, c.transition, 6, epsilon) for c in chains]
    query = pk.histogram(range(len(matrix)), 6)
    theta = pk.ChainClass.of(*chains)
    table = pk.active_quilts(theta, query, epsilon)
    assert [row.node for row in table.rows] == list(range(1, 7))
    assert [row.scale for row in table.rows] == close([2 * s for s in np.max(scores, axis=0)])
    for row, own in zip(table.rows, np.transpose(scores), strict=True):
        (place,) = [n for n in (0, 1) if row.belief == f"chain {n + 1} of 2"]
        assert own[place] == close(own.max())
        chain = chains[place]
        joint = brute.joint_distribution(chain.initial, chain.transition, 6)
        assert row.influence == pytest.approx(
            brute.influence_in(joint, row.node, row.quilt), abs=1e-9
        )
        assert row.scale == close(2 * row.nearby / (epsilon - row.influence))
    assert table.scale == close(pk.markov_quilt(theta, query, epsilon).scale)


@pytest.mark.parametrize("seed", range(8))
def test_every_node_of_networks_against_all_quilts(seed):
    rng = np.random.default_rng(seed)
    parents, tables = brute_network.random_network(rng, 6, 2)
    joint = brute_network.joint(parents, tables)
    network = pk.BayesianNetwork(parents, tables)
    table = pk.active_quilts(network, pk.count(1, 6), 2)
    places = list(parents)
    assert {row.node for row in table.rows} == set(parents)
    for row in table.rows:
        score = brute_network.best_score(parents, [joint], row.node, 2)
        assert row.scale == close(score)
        remote = brute_network.separated(parents, row.node, set(row.quilt))
        assert row.nearby == 6 - len(row.quilt) - len(remote)
        others = [places.index(node) for node in row.quilt]
        assert row.influence == pytest.approx(
            brute_network.influence(joint, places.index(row.node), others), abs=1e-9
        )
    assert table.scale == close(pk.markov_quilt(network, pk.count(1, 6), 2).scale)


@pytest.mark.parametrize(
    "beliefs",
    [
        pk.MarkovChain([1, 0], ROW),
        pk.MarkovChain.steady(ROW),
        pk.ChainClass.any_start(ROW),
        pk.ChainClass.binary(0.3, 0.8),
        pk.ChainClass.of(pk.MarkovChain([1, 0], ROW), pk.MarkovChain.steady(ROW)),
    ],
    ids=lambda own: str(own)[:30],
)
def test_the_largest_scale_is_that_of_the_mechanism(beliefs):
    query = pk.count(1, [100, 30])
    table = pk.active_quilts(beliefs, query, 1)
    assert len(table.rows) == 100
    assert table.scale == close(pk.markov_quilt(beliefs, query, 1).scale)
    some = pk.active_quilts(beliefs, query, 1, nodes=[50, 1])
    assert [row.node for row in some.rows] == [50, 1]
    assert [row.scale for row in some.rows] == close([table.rows[49].scale, table.rows[0].scale])


def test_random_fields_and_mixing():
    edges = [("Ada", "Ben"), ("Ben", "Cem"), ("Ada", "Cem"), ("Cem", "Dia")]
    field = pk.MarkovRandomField.ising(edges, 0.2)
    table = pk.active_quilts(field, pk.count(1, 4), 1)
    assert table.scale == close(pk.markov_quilt(field, pk.count(1, 4), 1).scale)
    assert {row.node for row in table.rows} == {"Ada", "Ben", "Cem", "Dia"}
    mixing = pk.ChainClass.mixing(states=2, pi_min=0.2, gap=0.75)
    table = pk.active_quilts(mixing, pk.count(1, 100), 1)
    approx = pk.markov_quilt_approx(mixing, pk.count(1, 100), 1, bound="tight")
    assert table.scale == close(approx.scale)
    assert "mixing" in table.notes[0]


def test_rows_words_and_gaps():
    chain = pk.MarkovChain.steady(ROW)
    table = pk.active_quilts(chain, pk.count(1, 100), 1)
    frame = table.to_frame()
    assert frame.columns == ["node", "quilt", "nearby", "influence", "scale", "belief"]
    assert frame["quilt"][49] == ", ".join(map(str, table.rows[49].quilt))
    assert str(table).splitlines()[-1] == "and 80 nodes that need no more noise"
    gaps = pk.Series.of([0, 1, None, None, 1, 0], [0, 1])
    noted = pk.active_quilts(chain, pk.count(1, gaps), 1)
    assert len(noted.rows) == 6
    assert "not observed" in noted.remarks()[0]
    assert noted.scale >= pk.markov_quilt(chain, pk.count(1, gaps), 1).scale


@pytest.mark.parametrize(
    ("beliefs", "length", "nodes", "words"),
    [
        (pk.MarkovChain.steady(ROW), 10**6, None, "1,000,000 nodes are too many.*name some"),
        (pk.MarkovChain.steady(ROW), 10, [11], "nodes: must be at most 10, the last entry, got 11"),
        (pk.MarkovChain.steady(ROW), 10, [0], "nodes"),
        (pk.MarkovChain.steady(ROW), 10, ["Ada"], "nodes"),
        (pk.MarkovChain.steady(ROW), 10, [], "must name at least one"),
        (pk.MarkovChain.steady(ROW), 10, 3, r"write \[3\]"),
        (pk.MarkovRandomField.ising([("a", "b")], 0.1), 2, ["c"], "'c' is not a node.*'a', 'b'"),
        (EVENTS, 10, None, "not for these secrets"),
        (pk.ChainClass.around([[900, 100], [400, 600]], 0.95), 10, None, "no single chain"),
        (pk.FiniteJoint({(0, 0): 0.5, (1, 1): 0.5}), 2, None, "not for a joint distribution"),
    ],
)
def test_refusals(beliefs, length, nodes, words):
    with pytest.raises(ValueError, match=words):
        pk.active_quilts(beliefs, pk.count(1, length), 1, nodes)


def test_pictures_of_entries_and_of_names():
    chain = pk.active_quilts(pk.MarkovChain.steady(ROW), pk.count(1, 30), 1).plot()
    assert len(chain.axes[0].lines[0].get_xdata()) == 30
    field = pk.MarkovRandomField.ising([("a", "b"), ("b", "c")], 0.1)
    bars = pk.active_quilts(field, pk.count(1, 3), 1).plot()
    assert len(bars.axes[0].patches) == 3
