"""The pairwise curve on trees: against every row of the joint distribution, never above scalar."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pufferkit as pk
from pufferkit.influence.curve.trees import TreeCurve
from tests.oracles import brute_network as brute

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


@settings(max_examples=120, deadline=None)
@given(st.integers(0, 10**6), amounts)
def test_losses_cover_every_row(seed, b):
    network, parents, tables, values = random_case(seed)
    distance, own = distances(network, values)
    bounds = TreeCurve(network, distance).pair_losses(b)
    scalar = TreeCurve(network, distance, pairwise=False).losses(b)
    joint = brute.joint(parents, tables)
    added = [values[list(network.values[node])] for node in parents]
    for axis, node in enumerate(parents):
        places = [own.index(v) for v in network.values[node]]
        bound = bounds[node][np.ix_(places, places)]
        true = brute.pair_losses(joint, brute.noisy_sums(added, b), axis)
        assert np.all(true <= bound + 1e-10)
        assert bound.max() <= scalar[node] * (1 + 1e-12)
