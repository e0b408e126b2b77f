"""Audits of releases that were given pairs of events: these are attacked, and nothing else."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import pufferkit as pk
from pufferkit.audit import audit, exact_loss

MOVES = [[0.8, 0.2], [0.3, 0.7]]
CHAIN = pk.MarkovChain.steady(MOVES)
NETWORK = pk.BayesianNetwork(
    {"a": (), "b": ("a",), "c": ("a", "b")},
    {
        "a": {(): [0.7, 0.3]},
        "b": {(0,): [0.9, 0.1], (1,): [0.2, 0.8]},
        "c": {(0, 0): [1, 0], (0, 1): [0.5, 0.5], (1, 0): [0.4, 0.6], (1, 1): [0.1, 0.9]},
    },
)
# Data may be in both events of a pair, in neither, or events may be about several entries.
ENTRIES = [({1: 0, 3: 1}, {2: 1}), ({1: [0, 1], 5: 1}, {4: 0, 5: 0})]
NODES = [({"a": 0, "c": 1}, {"b": 1}), ({"c": 0}, {"c": 1})]


def chain_rows(lengths):
    """All data of independent segments, and their probabilities."""
    rows = np.array(list(product((0, 1), repeat=sum(lengths))))
    chances, begin = np.ones(len(rows)), 0
    for length in lengths:
        own = rows[:, begin : begin + length]
        chances = chances * CHAIN.initial[own[:, 0]]
        for one, other in zip(own.T[:-1], own.T[1:], strict=True):
            chances = chances * np.array(MOVES)[one, other]
        begin += length
    return rows, chances


def network_rows():
    rows = np.array(list(product((0, 1), repeat=3)))
    tables = NETWORK.tables
    chances = [
        tables["a"][()][a] * tables["b"][a,][b] * tables["c"][a, b][c] for a, b, c in rows.tolist()
    ]
    return rows, np.array(chances)


def loss_of(rows, chances, pairs, place, scale):
    """The largest loss over the pairs, by comparing every answer as an output."""
    answers = rows.sum(axis=1)
    kernel = np.exp(-np.abs(np.arange(rows.shape[1] + 1)[:, None] - answers) / scale)
    worst = 0.0
    for pair in pairs:
        densities = []
        for event in pair:
            inside = np.ones(len(rows), dtype=bool)
            for entry, allowed in event.items():
                inside &= np.isin(rows[:, place(entry)], allowed)
            densities.append(kernel[:, inside] @ chances[inside] / chances[inside].sum())
        worst = max(worst, np.abs(np.log(densities[0] / densities[1])).max())
    return worst


def cases():
    for lengths in ([5], [3, 2]):
        query = pk.count(1, lengths)
        noise = pk.wasserstein(CHAIN, query, 1, secrets=ENTRIES)
        yield noise, loss_of(*chain_rows(lengths), ENTRIES, lambda n: n - 1, noise.scale)
    query, joint = pk.count(1, 3), NETWORK.joint()
    true = loss_of(*network_rows(), NODES, "abc".index, 1.0)
    for beliefs in (NETWORK, joint):
        noise = pk.wasserstein(beliefs, query, 1, secrets=NODES)
        yield replace(noise, scale=1.0), true


@pytest.mark.parametrize("number", range(4))
def test_the_exact_loss_is_that_of_the_pairs(number):
    noise, true = list(cases())[number]
    assert exact_loss(noise) == pytest.approx(true, rel=1e-9)


def test_other_entries_are_no_secrets():
    """Noise for these pairs gives entry 6 away, which was not promised to be hidden."""
    noise = pk.wasserstein(CHAIN, pk.count(1, 8), 1, secrets=ENTRIES[:1])
    assert audit(noise, trials=2000, seed=1).verdict == "passed"
    assert audit(replace(noise, scale=noise.scale / 8), trials=2000, seed=1).verdict == "failed"
    assert exact_loss(replace(pk.wasserstein(CHAIN, pk.count(1, 8), 1), scale=noise.scale)) > 1


def test_rows_of_other_beliefs_are_refused():
    noise = pk.wasserstein(NETWORK.joint(), pk.count(1, 3), 1, secrets=NODES)
    both = [NETWORK.joint(), NETWORK.joint()]
    with pytest.raises(pk.NotApplicable, match="audit it against its own"):
        audit(noise, both, trials=2000)
