"""Distributions of sums over networks by messages, against listing the joint distribution."""

import tracemalloc
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest

from pufferkit import BayesianNetwork, NotApplicable, count, total, wasserstein
from pufferkit.influence.sums import network_sums
from pufferkit.mechanisms.wasserstein import summed_network
from tests.oracles import brute_network as brute


def exactly(tables):
    """The tables in fractions, a float as the decimal it prints as."""
    return {
        n: {
            k: [Fraction(str(p)) / sum(Fraction(str(q)) for q in row) for p in row]
            for k, row in rows.items()
        }
        for n, rows in tables.items()
    }


def listed_distance(parents, tables, weights):
    """W by its definition: at equal heights of the distribution functions, in fractions."""
    joint = brute.joint(parents, exactly(tables), exact=True)
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


def random_network(seed):
    rng = np.random.default_rng(seed)
    parents, tables = brute.random_network(
        rng, int(rng.integers(1, 7)), 3, rng.random(), tree=bool(seed % 2)
    )
    if seed % 3 == 0:  # ties
        tables = {
            n: {k: [max(1, round(5 * p)) for p in row] for k, row in rows.items()}
            for n, rows in tables.items()
        }
        tables = {
            n: {k: [p / sum(row) for p in row] for k, row in rows.items()}
            for n, rows in tables.items()
        }
    return parents, tables, {0: 0, 1: int(rng.integers(0, 3)), 2: 1}


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("seed", range(16))
def test_distances_of_values_by_listing(seed, exact, monkeypatch):
    """Never below; equal where floats are sure, and where whole numbers may decide ties."""
    if not exact:
        monkeypatch.setattr(network_sums, "MOST_EXACT", 0)
    parents, tables, weights = random_network(seed)
    summed = summed_network(BayesianNetwork(parents, tables), weights)
    truth, distance = listed_distance(parents, tables, weights), summed.of_values().distance()
    assert distance.value >= truth
    assert distance.value == truth or (distance.unsure and not exact)
    monkeypatch.undo()
    assert summed.of_values().exactly().value == truth


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("seed", range(16))
def test_distances_of_events_by_listing(seed, exact, monkeypatch):
    if not exact:
        monkeypatch.setattr(network_sums, "MOST_EXACT", 0)
    parents, tables, weights = random_network(seed)
    network, rng = BayesianNetwork(parents, tables), np.random.default_rng(seed)
    events = [
        {
            int(v): [int(x) for x in np.flatnonzero(rng.random(3) < 0.6)]
            for v in rng.integers(0, len(parents), 2)
        }
        for _ in range(2)
    ]
    joint, given = brute.joint(parents, exactly(tables), exact=True), [{}, {}]
    for x in np.ndindex(joint.shape):
        for own, event in zip(given, events, strict=True):
            named = {network.graph.place[n]: x[j] for j, n in enumerate(parents)}
            if joint[x] and all(named[v] in allowed for v, allowed in event.items()):
                total = sum(weights[value] for value in x)
                own[total] = own.get(total, 0) + joint[x]
    truth = apart(*given) if all(given) else 0
    distance = summed_network(network, weights).of_conditions(*events).distance()
    assert distance.value >= truth
    assert distance.value == truth or (distance.unsure and not exact)


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


def test_a_small_grid_in_floats_and_in_whole_numbers():
    summed = summed_network(grid(3, 2), {0: 0, 1: 1})
    assert summed.of_values().in_floats().value == summed.of_values().exactly().value
    assert not summed.of_values().distance().unsure


def test_ties_that_take_too_long_count_as_the_larger_distance(monkeypatch):
    """Fair coins: given either value of one, the others are exactly alike."""
    coins = BayesianNetwork(dict.fromkeys(range(9), ()), {n: {(): [0.5, 0.5]} for n in range(9)})
    made = wasserstein(coins, count(1, 9), 1)
    assert made.evidence.influence == 1
    assert made.evidence.notes == ("ties decided by exact arithmetic",)
    monkeypatch.setattr(network_sums, "MOST_EXACT", 0)
    made = wasserstein(coins, count(1, 9), 1)
    assert made.evidence.influence == 2
    assert "tie" in made.evidence.notes[0]


def test_events_name_values_of_their_own_node():
    """Nodes with other values, in another order, than the states of the class."""
    network = BayesianNetwork(
        {"a": (), "b": ("a",)},
        {"a": {(): [0.5, 0.5]}, "b": {(2,): [0.75, 0.25], (0,): [0.125, 0.875]}},
        values={"a": (2, 0), "b": (1, 0)},
    )
    made = wasserstein(network, total([0, 1, 2], 2), 1, secrets=[({"a": 2}, {"a": 0})])
    assert made.evidence.influence == 3  # 2 + 1 or 2 + 0 against 0 + 0, mostly
    with pytest.raises(NotApplicable, match="nothing to hide"):
        wasserstein(network, total([0, 1, 2], 2), 1, secrets=[({"a": 1}, {"a": 0})])


def test_memory_is_known_before():
    summed = summed_network(grid(7, 3), {0: 0, 1: 1})
    wanted = 8 * summed.plan.entries
    tracemalloc.start()
    summed.of_values().distance()
    used = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert wanted / 2 < used < 2 * wanted


def test_what_takes_too_much_is_refused_with_the_number():
    with pytest.raises(NotApplicable, match=r"about .* products .* GB"):
        wasserstein(grid(14), count(1, 196), 1)


def test_probabilities_beyond_floats_are_refused():
    rare = {(0,): [1 - 1e-9, 1e-9], (1,): [0.5, 0.5]}
    length = 300
    network = BayesianNetwork(
        {n: (n - 1,) if n else () for n in range(length)},
        {n: rare if n else {(): [0.5, 0.5]} for n in range(length)},
    )
    with pytest.raises(NotApplicable, match="too unlikely for floats"):
        wasserstein(network, count(1, length), 1)
