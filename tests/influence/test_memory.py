"""Memory is estimated before work begins, within a factor of two of what is used."""

import tracemalloc

import numpy as np
import pytest

import pufferkit as pk
from pufferkit.beliefs import chain_parts
from pufferkit.beliefs.chain_parts import curve_bytes
from pufferkit.influence.curve import graphs
from pufferkit.influence.sums.chain_sums import value_bytes
from pufferkit.mechanisms.wasserstein import summed_network


def dense(size):
    return pk.MarkovChain.steady(np.random.default_rng(0).dirichlet(np.ones(size), size=size))


def lattice(side):
    parents = {
        (r, c): ((r - 1, c),) * (r > 0) + ((r, c - 1),) * (c > 0)
        for r in range(side)
        for c in range(side)
    }
    rows = {0: {(): [0.4, 0.6]}, 1: {(0,): [0.7, 0.3], (1,): [0.2, 0.8]}}
    rows[2] = {
        (a, b): [0.8 - 0.3 * a - 0.3 * b, 0.2 + 0.3 * (a + b)] for a in (0, 1) for b in (0, 1)
    }
    return pk.BayesianNetwork(parents, {node: rows[len(own)] for node, own in parents.items()})


def peak(work):
    """Most bytes in use at once, beyond what a first run keeps."""
    work()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        work()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def graph_bytes(model):
    return graphs.curve_bytes(model, graphs.quick_trees(model))


@pytest.mark.slow
def test_memory_of_distributions_of_a_sum():
    used = peak(lambda: pk.wasserstein(dense(5), pk.count(1, 500), 1))
    assert 0.5 < value_bytes(500, 5, 1) / used < 2


@pytest.mark.slow
def test_memory_of_messages():
    network = lattice(8)
    used = peak(lambda: pk.wasserstein(network, pk.count(1, 64), 1))
    assert 0.5 < 8 * summed_network(network, {1: 1}).plan.entries / used < 2


@pytest.mark.slow
def test_memory_of_the_curve_of_dense_rows():
    used = peak(lambda: pk.influence_curve(dense(80), pk.count(1, 10**6), 1))
    assert 0.5 < curve_bytes(80) / used < 2


def test_a_curve_that_does_not_fit_is_refused_with_the_number(monkeypatch):
    monkeypatch.setattr(chain_parts, "MOST_BYTES", 10**6)
    with pytest.raises(pk.NotApplicable, match=r"needs about 0\.003 GB of memory"):
        pk.influence_curve(dense(50), pk.count(1, 100), 1)


@pytest.mark.parametrize("side", [4, 6, pytest.param(9, marks=pytest.mark.slow)])
def test_memory_of_the_curve_of_a_grid(side):
    network = lattice(side)
    used = peak(lambda: pk.influence_curve(network, pk.count(1, side**2), 1))
    assert 0.5 < graph_bytes(network) / used < 2


@pytest.mark.parametrize(
    ("nodes", "values"), [(10, 2), (4, 5), pytest.param(13, 2, marks=pytest.mark.slow)]
)
def test_memory_of_the_curve_of_a_clique(nodes, values):
    rng = np.random.default_rng(0)
    field = pk.MarkovRandomField(
        {tuple(range(nodes)): rng.random((values,) * nodes) + 0.5},
        {n: range(values) for n in range(nodes)},
    )
    used = peak(lambda: pk.influence_curve(field, pk.count(1, nodes), 1))
    assert 0.5 < graph_bytes(field) / used < 2


def test_graphs_that_do_not_fit_are_refused_with_the_number(monkeypatch):
    monkeypatch.setattr(graphs, "MOST_BYTES", 10**6)
    with pytest.raises(pk.NotApplicable, match=r"of 2 graphs needs about 0\.00\d+ GB of memory"):
        pk.influence_curve([lattice(5), lattice(5)], pk.count(1, 25), 1)
