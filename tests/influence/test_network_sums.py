"""Distributions of sums over networks by messages, against listing the joint distribution."""

import tracemalloc
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest

from pufferkit import BayesianNetwork, NotApplicable, count, wasserstein
from pufferkit.influence.sums import network_messages
from tests.oracles import brute_network as brute


def listed_distance(parents, tables, weights):
    """W by its definition: at equal heights of the distribution functions, in fractions."""
    held = {
        n: {
            k: [Fraction(str(p)) / sum(Fraction(str(q)) for q in row) for p in row]
            for k, row in rows.items()
        }
        for n, rows in tables.items()
    }
    joint = brute.joint(parents, held, exact=True)
    worst = 0
    for axis in range(joint.ndim):
        given = {}
        for x in np.ndindex(joint.shape):
            if joint[x]:
                own = given.setdefault(x[axis], {})
                total = sum(weights[value] for value in x)
                own[total] = own.get(total, 0) + joint[x]
        worst = max(worst, *(apart(p, q) for p, q in combinations(given.values(), 2)), 0)
    return worst


def apart(p, q):
    heights = set()
    for masses in (p, q):
        whole, total = sum(masses.values()), Fraction(0)
        for s in sorted(masses):
            total += masses[s] / whole
            heights.add(total)

    def quantile(masses, height):
        whole, total = sum(masses.values()), Fraction(0)
        for s in sorted(masses):
            total += masses[s] / whole
            if total >= height:
                return s
        raise AssertionError

    return max(abs(quantile(p, h) - quantile(q, h)) for h in heights)


@pytest.mark.parametrize("seed", range(30))
def test_messages_are_never_below_listing_and_equal_where_they_are_sure(seed):
    rng = np.random.default_rng(seed)
    parents, tables = brute.random_network(
        rng, int(rng.integers(1, 7)), 3, rng.random(), tree=bool(seed % 2)
    )
    weights = {0: 0, 1: int(rng.integers(0, 3)), 2: 1}
    bound = network_messages.largest_distance(BayesianNetwork(parents, tables), weights)
    truth = listed_distance(parents, tables, weights)
    assert bound.value >= truth
    assert bound.value == truth or not bound.exact


def grid(side, seed=None):
    rng = np.random.default_rng(seed)
    parents = {
        (r, c): ((r - 1, c),) * (r > 0) + ((r, c - 1),) * (c > 0)
        for r in range(side)
        for c in range(side)
    }
    tables = {}
    for node, own in parents.items():
        tables[node] = {}
        for key in product((0, 1), repeat=len(own)):
            p = 0.2 + 0.6 * sum(key) / max(1, len(key)) + rng.uniform(-0.1, 0.1)
            tables[node][key] = [1 - p, p]
    return BayesianNetwork(parents, tables)


def test_a_grid_of_sixty_four_nodes():
    network = grid(8, 1)
    assert 1 <= wasserstein(network, count(1, 64), 1).scale < 64


def test_messages_equal_whole_numbers_on_a_small_grid():
    network = grid(3, 2)
    bound = network_messages.largest_distance(network, {0: 0, 1: 1})
    assert bound.exact
    assert wasserstein(network, count(1, 9), 1).scale == pytest.approx(bound.value)


def test_memory_is_known_before():
    network = grid(7, 3)
    wanted = 8 * network_messages._checked_plan(network, {0: 0, 1: 1}).entries
    tracemalloc.start()
    network_messages.largest_distance(network, {0: 0, 1: 1})
    used = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert wanted / 2 < used < 2 * wanted


def test_what_takes_too_much_is_refused_with_the_number():
    with pytest.raises(NotApplicable, match=r"about .* products .* GB"):
        wasserstein(grid(14), count(1, 196), 1)


def test_probabilities_beyond_floats_are_refused():
    rare = {(0,): [1 - 1e-9, 1e-9], (1,): [0.5, 0.5]}
    length = 90
    network = BayesianNetwork(
        {n: (n - 1,) if n else () for n in range(length)},
        {n: rare if n else {(): [0.5, 0.5]} for n in range(length)},
    )
    with pytest.raises(NotApplicable, match="too unlikely for floats"):
        wasserstein(network, count(1, length), 1)
