"""Quilts and max-influence in Bayesian networks, against listing trails and joint distributions."""

from itertools import product
from math import inf, log

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pufferkit as pk
from pufferkit.beliefs import junction_tree
from pufferkit.beliefs.bayesian_network import BayesianNetwork
from pufferkit.beliefs.graph import Graph
from pufferkit.influence.quilts import networks as separation
from pufferkit.influence.quilts.networks import NearTables, hardest_node
from tests.oracles import brute_network as brute
from tests.oracles.cases import NETWORKS
from tests.strategies.generators import chains
from tests.strategies.networks import (
    network_influence,
    quilt_of,
    quilts_of,
    separated,
)

close = pytest.approx
seeds = st.integers(0, 10**6)
epsilons = st.sampled_from([0.3, 1.0, 2.5, 6.0])


def random_case(seed: int, count: int = 5, most: int = 3):
    rng = np.random.default_rng(seed)
    return brute.random_network(rng, int(rng.integers(1, count + 1)), most, rng.random())


def chain_network(initial, transition, length: int) -> BayesianNetwork:
    rows = {(x,): row for x, row in enumerate(transition)}
    parents = {1: (), **{t: (t - 1,) for t in range(2, length + 1)}}
    return BayesianNetwork(parents, {1: {(): initial}, **dict.fromkeys(range(2, length + 1), rows)})


def floats(chain):
    return [float(p) for p in chain.initial], [[float(p) for p in r] for r in chain.transition]


# --- reference cases ------------------------------------------------------------------------------


@pytest.mark.parametrize(("parents", "tables", "epsilon", "scale"), NETWORKS)
def test_reference_cases(parents, tables, epsilon, scale):
    hardest = hardest_node(BayesianNetwork(parents, tables), epsilon)
    assert hardest.score == close(scale, rel=1e-9)
    assert brute.quilt_scale(parents, [brute.joint(parents, tables)], epsilon) == close(
        scale, rel=1e-9
    )


# --- d-separation ---------------------------------------------------------------------------------


def test_small_graphs_by_name():
    tables = {
        1: {(): [0.5, 0.5]},
        2: {(): [0.5, 0.5]},
        3: {k: [0.5, 0.5] for k in product((0, 1), repeat=2)},
    }
    collider = BayesianNetwork(
        {1: (), 2: (), 3: (1, 2), 4: (3,)}, {**tables, 4: {(0,): [1, 0], (1,): [0, 1]}}
    )
    assert separated(collider, 1) == (2,)
    assert separated(collider, 1, [3]) == (4,)  # 3 opens the trail to 2
    assert separated(collider, 1, [4]) == ()  # and so does what follows from it
    assert separated(collider, 1, [3, 2]) == (4,)
    quilt = quilt_of(collider, 1, [2])
    assert (quilt.nodes, quilt.nearby, quilt.remote) == ((2,), (1, 3, 4), ())


@given(seeds)
def test_separation_is_that_of_trails_and_of_networkx(seed):
    parents, tables = random_case(seed, 6, 2)
    network = BayesianNetwork(parents, tables)
    graph = nx.DiGraph()
    graph.add_nodes_from(parents)
    graph.add_edges_from((p, node) for node, own in parents.items() for p in own)
    rng = np.random.default_rng(seed)
    for node in parents:
        for given_nodes in brute.subsets([n for n in parents if n != node]):
            if rng.random() < 0.7:
                continue
            apart = set(separated(network, node, given_nodes))
            assert apart == brute.separated(parents, node, set(given_nodes))
            for other in set(parents) - {node} - set(given_nodes):
                assert (other in apart) == nx.is_d_separator(graph, node, other, set(given_nodes))


@given(seeds)
@settings(max_examples=25)
def test_what_is_remote_is_independent_given_the_quilt(seed):
    parents, tables = random_case(seed, 4, 2)
    network, distribution = BayesianNetwork(parents, tables), brute.joint(parents, tables)
    for node in parents:
        for quilt in quilts_of(network, node):
            assert node in quilt.nearby
            assert sorted(quilt.nodes + quilt.nearby + quilt.remote) == list(parents)
            assert brute.dependence(distribution, node, quilt.remote, quilt.nodes) < 1e-12


@given(seeds)
def test_a_given_node_is_reached_exactly_if_the_others_do_not_separate_it(seed):
    """The claim by which redundant nodes of a quilt are dropped."""
    parents, _ = random_case(seed, 7, 2)
    graph = Graph(parents)
    rng = np.random.default_rng(seed)
    for node in range(len(parents)):
        given_bits = int(rng.integers(1 << len(parents))) & ~(1 << node)
        near, working = graph.connected(node, given_bits)
        for q in range(len(parents)):
            if given_bits >> q & 1:
                assert working >> q & 1 == graph.connected(node, given_bits ^ 1 << q)[0] >> q & 1
        assert graph.connected(node, working) == (near, working)


def test_quilts_of_a_large_network_are_quilts():
    rng = np.random.default_rng(5)
    parents = {
        n: tuple(sorted(rng.choice(np.arange(max(0, n - 6), n), min(n, 2), replace=False).tolist()))
        for n in range(40)
    }
    tables = {
        n: {k: [0.5, 0.5] for k in product((0, 1), repeat=len(own))} for n, own in parents.items()
    }
    network = BayesianNetwork(parents, tables)
    graph = nx.DiGraph((p, node) for node, own in parents.items() for p in own)
    for node in (0, 17, 39):
        quilts = quilts_of(network, node)
        assert () in [quilt.nodes for quilt in quilts]
        assert len(quilts) > 20
        for quilt in quilts[:: len(quilts) // 12]:
            assert node in quilt.nearby
            assert len(quilt.nodes) + len(quilt.nearby) + len(quilt.remote) == 40
            if quilt.remote:
                assert nx.is_d_separator(graph, node, set(quilt.remote), set(quilt.nodes))
            for q in quilt.nodes:
                assert not nx.is_d_separator(graph, node, q, set(quilt.nodes) - {q})


# --- influence ------------------------------------------------------------------------------------


@given(seeds)
def test_influence_is_that_of_the_definition(seed):
    parents, tables = random_case(seed, 5, 3)
    network, distribution = BayesianNetwork(parents, tables), brute.joint(parents, tables)
    for node in parents:
        for others in brute.subsets([n for n in parents if n != node]):
            influence, truth = (
                network_influence(network, node, others),
                brute.influence(distribution, node, others),
            )
            assert influence == truth or influence == close(truth, abs=1e-9)


@given(seeds)
@settings(max_examples=25)
def test_influence_is_never_below_the_exact_one(seed):
    parents, tables = random_case(seed, 4, 3)
    network = BayesianNetwork(parents, tables)
    held = {n: {k: row.tolist() for k, row in network.tables[n].items()} for n in parents}
    distribution = brute.joint(parents, held, exact=True)
    for node in parents:
        for others in brute.subsets([n for n in parents if n != node]):
            truth = brute.influence(distribution, node, others)
            assert (
                truth <= network_influence(network, node, others) <= truth + 1e-11 or truth == inf
            )


@given(chains(3), st.integers(1, 5), st.data())
def test_a_chain_written_as_a_network_has_the_chains_influence(chain, length, data):
    network = chain_network(*floats(chain), length)
    node = data.draw(st.integers(1, length))
    left = data.draw(st.none() | st.integers(1, node - 1)) if node > 1 else None
    right = data.draw(st.none() | st.integers(1, length - node)) if node < length else None
    ends = [n for n in (node - (left or 0), node + (right or 0)) if n != node]
    wanted = pk.max_influence(chain.believed, node, left, right)
    influence = network_influence(network, node, ends)
    assert influence == wanted or influence == close(wanted, abs=1e-9)


def test_a_possible_value_lost_to_underflow_counts_as_impossible_below():
    """P(X_3 = 1 | X_1 = 0) = 1e-300 and P(X_3 = 1 | X_1 = 1) = 5e-101."""
    network = BayesianNetwork(
        {1: (), 2: (1,), 3: (2,)},
        {
            1: {(): [0.5, 0.5]},
            2: {(0,): [1, 1e-200], (1,): [0.5, 0.5]},
            3: {(0,): [1, 0], (1,): [1, 1e-100]},
        },
    )
    assert network_influence(network, 1, [3]) >= log(5e199)


def test_zero_over_zero_is_no_event_and_c_over_zero_is_infinite():
    copy = {(0,): [1, 0, 0], (1,): [0, 1, 0]}
    network = BayesianNetwork({1: (), 2: (1,)}, {1: {(): [0.5, 0.5]}, 2: copy})
    assert network_influence(network, 1, [2]) == inf
    noisy = {(0,): [0.8, 0.2, 0], (1,): [0.2, 0.8, 0]}
    network = BayesianNetwork({1: (), 2: (1,)}, {1: {(): [0.5, 0.5]}, 2: noisy})
    assert network_influence(network, 1, [2]) == close(log(4))
    sure = BayesianNetwork({1: (), 2: (1,)}, {1: {(): [1, 0]}, 2: copy})
    assert network_influence(sure, 1, [2]) == 0  # X_1 = 1 has probability zero
    assert network_influence(sure, 2, [1]) == 0


# --- the search -----------------------------------------------------------------------------------


@given(seeds, epsilons)
@settings(max_examples=40)
def test_the_search_finds_the_best_of_all_quilts(seed, epsilon):
    parents, tables = random_case(seed, 5, 3)
    network, distribution = BayesianNetwork(parents, tables), brute.joint(parents, tables)
    hardest = hardest_node(network, epsilon)
    assert hardest.score == close(brute.quilt_scale(parents, [distribution], epsilon), rel=1e-9)
    assert hardest.score == close(
        brute.best_score(parents, [distribution], hardest.node, epsilon), rel=1e-9
    )
    nearby = len(quilt_of(network, hardest.node, hardest.quilt).nearby)
    influence = network_influence(network, hardest.node, hardest.quilt)
    assert nearby / (epsilon - influence) == close(hardest.score, rel=1e-9)


@given(seeds, epsilons)
@settings(max_examples=25)
def test_a_class_needs_the_largest_influence_quilt_by_quilt(seed, epsilon):
    parents, tables = random_case(seed, 4, 2)
    rng = np.random.default_rng(seed)
    sets = [tables]
    for _ in range(2):
        sets.append(
            {
                n: {k: brute.random_distribution(rng, len(row), False) for k, row in rows.items()}
                for n, rows in tables.items()
            }
        )
    networks = [BayesianNetwork(parents, own) for own in sets]
    distributions = [brute.joint(parents, own) for own in sets]
    hardest = hardest_node(networks, epsilon)
    assert hardest.score == close(brute.quilt_scale(parents, distributions, epsilon), rel=1e-9)
    for network in networks:
        assert hardest_node(network, epsilon).score <= hardest.score * (1 + 1e-9)
    node = next(iter(parents))
    others = [n for n in parents if n != node]
    assert network_influence(networks, node, others) == max(
        network_influence(network, node, others) for network in networks
    )


@given(seeds, epsilons)
@settings(max_examples=30)
def test_the_family_for_large_networks_is_never_better_than_all_quilts(seed, epsilon):
    parents, tables = random_case(seed, 7, 2)
    network = BayesianNetwork(parents, tables)
    best = hardest_node(network, epsilon)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(separation, "EXHAUSTIVE", 0)
        family = hardest_node(network, epsilon)
    assert best.score * (1 - 1e-9) <= family.score <= len(parents) / epsilon * (1 + 1e-9)


@given(chains(3), st.integers(1, 7), epsilons)
@settings(max_examples=25)
def test_a_chain_written_as_a_network_needs_the_chains_noise(chain, length, epsilon):
    hardest = hardest_node(chain_network(*floats(chain), length), epsilon)
    scale = pk.markov_quilt(chain.believed, pk.count(0, length), epsilon).scale
    assert hardest.score == close(scale, rel=1e-9)


@pytest.mark.parametrize("epsilon", [0.7, 1, 4])
def test_a_longer_chain_as_a_network(epsilon):
    """Beyond `EXHAUSTIVE`, borders of connected sets are all quilts of [Q] Lemma 4.6."""
    chain = [1, 0], [[0.9, 0.1], [0.4, 0.6]]
    hardest = hardest_node(chain_network(*chain, 25), epsilon)
    scale = pk.markov_quilt(pk.MarkovChain(*chain), pk.count(1, 25), epsilon).scale
    assert hardest.score == close(scale, rel=1e-9)


@given(seeds, st.sampled_from([0.5, 2.0]))
@settings(max_examples=25)
def test_the_noise_hides_every_node(seed, epsilon):
    parents, tables = random_case(seed, 5, 3)
    distribution = brute.joint(parents, tables)
    scale = hardest_node(BayesianNetwork(parents, tables), epsilon).score
    rng = np.random.default_rng(seed)
    for values in (
        [np.linspace(0, 1, n) if n > 1 else [0.0] for n in distribution.shape],
        [rng.random(n) for n in distribution.shape],
        [rng.integers(0, 2, n) for n in distribution.shape],
    ):
        assert brute.real_loss(distribution, brute.noisy_sums(values, 1 / scale)) <= epsilon + 1e-9


def test_quilts_that_do_not_fit_into_memory_are_not_passed_over_in_silence(monkeypatch):
    parents, tables, epsilon, _ = NETWORKS[3]
    network = BayesianNetwork(parents, tables)
    monkeypatch.setattr(junction_tree, "MOST_TABLE", 3)
    with pytest.raises(pk.NotApplicable, match=r"every quilt is too large; .* needs about .* GB"):
        hardest_node(network, epsilon)
    with pytest.raises(pk.NotApplicable, match="GB"):
        network_influence(network, "X0", ["X1"])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda n: hardest_node(n, 0), "epsilon: must be above 0"),
        (lambda n: hardest_node(3, 1), "beliefs: must be a BayesianNetwork"),
    ],
)
def test_bad_arguments(call, message):
    with pytest.raises(ValueError, match=message):
        call(BayesianNetwork(*NETWORKS[1][:2]))


# --- the search of larger networks ----------------------------------------------------------------


def larger_network(seed: int, zeros: bool):
    rng = np.random.default_rng(seed)
    parents = {
        n: tuple(sorted(rng.choice(np.arange(max(0, n - 4), n), min(n, k), replace=False).tolist()))
        for n, k in enumerate(rng.integers(0 if seed % 3 else 1, 3, 15).tolist())
    }
    tables = {
        n: {k: brute.random_distribution(rng, 2, zeros) for k in product((0, 1), repeat=len(own))}
        for n, own in parents.items()
    }
    return parents, tables


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2, 3))])
@pytest.mark.parametrize("zeros", [False, True])
def test_influence_from_near_tables_is_that_of_the_definition(seed, zeros):
    """Equal on every cut if no table has a zero; never below it otherwise."""
    parents, tables = larger_network(seed, zeros)
    network = BayesianNetwork(parents, tables)
    graph, node = network.graph, 7 + seed
    distribution = brute.joint(parents, tables)
    family = separation.CutFamily(graph, node)
    near = {w: NearTables(network, graph, node, w, g) for w, g in family.grown.items()}
    for number, cut in enumerate(family):
        if cut.quilt and number % 5 == 0:
            bound = near[cut.within].influence(cut, contract=True)
            again = near[cut.within]._contracted(cut)
            places = list(separation.bits(cut.quilt))
            truth = brute.influence(distribution, node, places)
            assert again is not None
            assert bound >= truth
            if network.is_positive:
                assert bound == close(truth, abs=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_without_the_distribution_of_the_node_influence_is_bounded(seed, monkeypatch):
    """As in networks too wide for a junction tree."""
    parents, tables = larger_network(seed, seed % 2 == 1)
    network = BayesianNetwork(parents, tables)
    exact = hardest_node(network, 2.0).score
    monkeypatch.setattr(junction_tree, "MOST_CLIQUE", 1)
    wide = BayesianNetwork(parents, tables)
    assert wide.marginals == (None,) * 15
    distribution, node = brute.joint(parents, tables), 7 + seed
    family = separation.CutFamily(wide.graph, node)
    near = {w: NearTables(wide, wide.graph, node, w, g) for w, g in family.grown.items()}
    for number, cut in enumerate(family):
        if cut.quilt and number % 7 == 0:
            truth = brute.influence(distribution, node, list(separation.bits(cut.quilt)))
            assert near[cut.within].influence(cut, contract=True) >= truth
    assert exact * (1 - 1e-9) <= hardest_node(wide, 2.0).score <= 15 / 2.0 * (1 + 1e-9)


@pytest.mark.parametrize(("seed", "epsilon"), [(1, 1.0), (2, 3.0), (4, 1.0), (5, 3.0)])
def test_the_best_first_search_is_the_plain_search(seed, epsilon):
    """Every quilt of every node, by its joint distribution."""
    parents, tables = larger_network(seed, seed % 2 == 1)
    network = BayesianNetwork(parents, tables)

    def score(quilt):
        room = epsilon - network_influence(network, node, quilt.nodes)
        return len(quilt.nearby) / room if room > 0 else inf

    scores = {}
    for node in network.nodes:
        least = inf
        for quilt in quilts_of(network, node):
            if len(quilt.nearby) / epsilon >= least:
                break
            least = min(least, score(quilt))
        scores[node] = least
    hardest = hardest_node(network, epsilon)
    assert hardest.score == close(max(scores.values()), rel=1e-11)
    assert scores[hardest.node] == close(hardest.score, rel=1e-11)
