"""Memory of quilts with a fixed initial distribution: estimated before, and about what is used."""

import tracemalloc

import numpy as np
import pytest

import pufferkit as pk
from pufferkit.beliefs import chain_tables
from pufferkit.beliefs.chain_tables import bytes_needed


def absorbing(states: int) -> pk.MarkovChain:
    """Ends in its last state, so that the distributions of all entries differ."""
    inner = states - 1
    rows = np.hstack([0.5 * np.eye(inner) + 0.4 / inner, np.full((inner, 1), 0.1)])
    return pk.MarkovChain(np.full(states, 1 / states), np.vstack([rows, np.eye(states)[-1]]))


@pytest.mark.parametrize("states", [3, 20])
def test_the_estimate_is_within_twice_of_what_is_used(states):
    chain, nodes = absorbing(states), 30_000
    pk.markov_quilt(chain, pk.count(1, 10), 1)
    tracemalloc.start()
    try:
        pk.markov_quilt(chain, pk.count(1, nodes), 1)
        used = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert 0.5 <= bytes_needed(nodes, states) / used <= 2


@pytest.mark.parametrize(
    ("chain", "length", "gigabytes"),
    [
        (absorbing(20), 2 * 10**7, "12"),
        (pk.MarkovChain([1.0, 0.0], [[1 - 1e-12, 1e-12], [1e-12, 1 - 1e-12]]), 10**10, "1,200"),
    ],
)
def test_what_does_not_fit_is_refused_before_it_is_tabled(chain, length, gigabytes):
    """The second chain forgets its start, but not within its length."""
    with pytest.raises(pk.NotApplicable, match=rf"about {gigabytes} GB of memory"):
        pk.markov_quilt(chain, pk.count(1, length), 1)


def test_chains_whose_matrices_do_not_fit_are_refused(monkeypatch):
    monkeypatch.setattr(chain_tables, "MOST_GIGABYTES", 1e-6)
    with pytest.raises(pk.NotApplicable, match=r"chain of 3 states need about 3.74e-06 GB"):
        chain_tables.StationaryTables(pk.MarkovChain.steady(np.full((3, 3), 1 / 3)))
