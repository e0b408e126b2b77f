"""The influence curve on trees: never below what is really lost, never above the theorem."""

from math import expm1, log1p

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pufferkit as pk
from pufferkit.beliefs.bayesian_network import BayesianNetwork
from pufferkit.influence.curve import graphs
from pufferkit.influence.quilts.networks import hardest_node
from tests.oracles import brute_curve as chains_brute
from tests.oracles import brute_network as brute
from tests.strategies.graphs import curve_of

close = pytest.approx
seeds = st.integers(0, 10**6)
amounts = st.sampled_from([0.05, 0.3, 1.0, 3.0])


def random_tree(seed: int, count: int = 7, most: int = 3):
    rng = np.random.default_rng(seed)
    return brute.random_network(rng, int(rng.integers(1, count + 1)), most, tree=True)


def profile(seed: int, b: float, parents) -> dict:
    """The same for all nodes, or different ones with zeros."""
    rng = np.random.default_rng(seed + 1)
    if seed % 3 == 0:
        return dict.fromkeys(parents, b)
    return {n: float(b * rng.random() * (rng.random() < 0.8)) for n in parents}


def in_order(network, bs: dict) -> list:
    return [bs[n] for n in network.nodes]


def path(initial, transition, length: int) -> BayesianNetwork:
    rows = {(x,): row for x, row in enumerate(transition)}
    parents = {1: (), **{t: (t - 1,) for t in range(2, length + 1)}}
    return BayesianNetwork(parents, {1: {(): initial}, **dict.fromkeys(range(2, length + 1), rows)})


def tree_loss(networks, b):
    largest = curve_of(networks).loss(b)
    return largest.value, largest.node


def tree_entry_epsilon(networks, epsilon: float) -> float:
    return curve_of(networks).solve(epsilon)[0]


@pytest.fixture
def without_jumps(monkeypatch):
    monkeypatch.setattr(graphs, "_MOST_JUMPS", 0)


# --- the theorem ----------------------------------------------------------------------------------


@given(seeds, amounts)
@settings(suppress_health_check=["function_scoped_fixture", "too_slow"])
def test_without_jumps_no_loss_is_above_the_formula(without_jumps, seed, b):
    parents, tables = random_tree(seed)
    bs, network = profile(seed, b, parents), BayesianNetwork(parents, tables)
    losses = curve_of(network).losses(in_order(network, bs))
    truth = brute.tree_losses(parents, tables, bs)
    as_printed = brute.tree_losses(parents, tables, bs, together=False)
    for node in parents:
        assert losses[node] <= truth[node] * (1 + 1e-9) + 1e-11
        assert truth[node] <= as_printed[node] + 1e-12


@given(seeds, amounts)
def test_jumps_and_pairs_only_help(seed, b):
    parents, tables = random_tree(seed)
    bs, network = profile(seed, b, parents), BayesianNetwork(parents, tables)
    losses = curve_of(network).losses(in_order(network, bs))
    truth = brute.tree_losses(parents, tables, bs)
    for node in parents:
        assert losses[node] <= truth[node] * (1 + 1e-9) + 1e-11
        assert losses[node] <= sum(bs.values()) * (1 + 1e-12)


@pytest.mark.slow
@given(seeds, amounts)
@settings(max_examples=100)
def test_never_below_what_a_release_really_loses(seed, b):
    parents, tables = random_tree(seed)
    distribution, bs = brute.joint(parents, tables), profile(seed, b, parents)
    network = BayesianNetwork(parents, tables)
    promised = tree_loss(network, in_order(network, bs))[0] + 1e-12
    rng = np.random.default_rng(seed)
    spent = list(bs.values())
    for _ in range(10):
        chosen = [rng.random(n) < 0.5 for n in distribution.shape]
        assert brute.real_loss(distribution, brute.products(chosen, spent)) <= promised
        points = [
            [int(rng.integers(n)) for n in distribution.shape] for _ in range(rng.integers(1, 5))
        ]
        assert (
            brute.real_loss(distribution, brute.distances(distribution.shape, points, spent))
            <= promised
        )
    if len(set(spent)) == 1:
        for values in (
            [np.linspace(0, 1, n) if n > 1 else [0.0] for n in distribution.shape],
            [rng.random(n) for n in distribution.shape],
        ):
            assert brute.real_loss(distribution, brute.noisy_sums(values, spent[0])) <= promised


@pytest.mark.parametrize("kind", ["sums", "products"])
def test_the_bound_is_reached(kind):
    """Binary nodes that copy their parent with probability 0.9."""
    copy = {(0,): [0.9, 0.1], (1,): [0.1, 0.9]}
    parents = {0: (), 1: (0,), 2: (0,), 3: (1,), 4: (1,), 5: (2,)}
    tables = {0: {(): [0.5, 0.5]}, **dict.fromkeys(range(1, 6), copy)}
    distribution = brute.joint(parents, tables)
    outputs = (
        brute.noisy_sums([[0, 1]] * 6, 0.4)
        if kind == "sums"
        else brute.products([[False, True]] * 6, [0.4] * 6)
    )
    assert tree_loss(BayesianNetwork(parents, tables), 0.4)[0] == close(
        brute.real_loss(distribution, outputs)
    )


# --- paths ----------------------------------------------------------------------------------------


def test_numbers_of_theory():
    sticky = path([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], 10)
    assert tree_loss(path([0.8, 0.2], [[0.9, 0.1], [0.4, 0.6]], 10), 1)[0] == close(3.209, abs=5e-4)
    assert tree_loss(sticky, 0.3)[0] == close(1.7458, abs=5e-5)


@given(seeds, amounts)
def test_a_path_loses_at_most_what_the_chain_does(seed, b):
    rng = np.random.default_rng(seed)
    size, length = int(rng.integers(2, 4)), int(rng.integers(1, 9))
    initial = brute.random_distribution(rng, size, True)
    transition = [brute.random_distribution(rng, size, True) for _ in range(size)]
    curve = pk.InfluenceCurve(pk.MarkovChain(initial, transition), length)
    loss, _ = tree_loss(path(initial, transition, length), b)
    one_number = chains_brute.theorem_losses(
        np.array(transition), np.full(length, b), initial
    ).max()
    assert loss <= one_number * (1 + 1e-9)
    assert curve.epsilon(b) <= one_number * (1 + 1e-6)


def test_jumps_matter_where_one_step_does_not_contract(monkeypatch):
    """A walk on a ring of six, always on to a neighbour: every second entry is one of three."""
    walk = [[(0, 0.5, 0, 0, 0, 0.5)[(y - x) % 6] for y in range(6)] for x in range(6)]
    start, length, b = [1, 0, 0, 0, 0, 0], 12, 1
    network = path(start, walk, length)
    with_jumps = curve_of(network).loss(b).value
    monkeypatch.setattr(graphs, "_MOST_JUMPS", 0)
    assert curve_of(network).loss(b).value > 1.3 * with_jumps
    theorem = chains_brute.theorem_losses(np.array(walk), np.full(length, b), start)
    assert with_jumps <= theorem.max() * (1 + 1e-9)


@given(seeds, st.sampled_from([0.3, 1.0, 4.0]))
@settings(max_examples=25)
def test_a_path_needs_no_more_noise_than_its_quilts(seed, epsilon):
    rng = np.random.default_rng(seed)
    size, length = int(rng.integers(2, 4)), int(rng.integers(1, 7))
    network = path(
        brute.random_distribution(rng, size, True),
        [brute.random_distribution(rng, size, True) for _ in range(size)],
        length,
    )
    assert 1 / tree_entry_epsilon(network, epsilon) <= hardest_node(network, epsilon).score * (
        1 + 1e-7
    )


# --- trees ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("depth", [3, 10])
def test_complete_binary_tree_by_hand(depth):
    """Copies with probability 0.9, so step(a) is one formula and all depths have one lambda."""

    def step(a):
        return log1p(0.9 * expm1(a)) - log1p(0.1 * expm1(a))

    b, below, above = 0.2, [0.2], [0.0]
    for _ in range(depth - 1):
        below.append(b + 2 * step(below[-1]))
    for level in range(depth - 1):  # from the root down: the other child and what is above
        above.append(step(b + step(below[depth - 2 - level]) + above[-1]))
    wanted = [b + 2 * step(below[depth - 2 - n]) + above[n] for n in range(depth - 1)]
    wanted.append(b + above[-1])
    count = 2**depth - 1
    copy = {(0,): [0.9, 0.1], (1,): [0.1, 0.9]}
    network = BayesianNetwork(
        {n: ((n - 1) // 2,) if n else () for n in range(count)},
        {n: copy if n else {(): [0.5, 0.5]} for n in range(count)},
    )
    losses = curve_of(network).losses(b)
    for n in range(count):
        assert losses[n] <= wanted[(n + 1).bit_length() - 1] * (1 + 1e-8)
    assert max(losses.values()) == close(max(wanted), rel=0.05)


def test_independent_trees_do_not_matter_to_each_other():
    copy = {(0,): [0.9, 0.1], (1,): [0.1, 0.9]}
    one = BayesianNetwork({1: (), 2: (1,)}, {1: {(): [0.5, 0.5]}, 2: copy})
    two = BayesianNetwork(
        {1: (), 3: (), 2: (1,), 4: (3,)},
        {1: {(): [0.5, 0.5]}, 2: copy, 3: {(): [0.5, 0.5]}, 4: copy},
    )
    assert tree_loss(two, 1)[0] == close(tree_loss(one, 1)[0], rel=1e-12)
    coins = BayesianNetwork(dict.fromkeys(range(9), ()), {n: {(): [0.5, 0.5]} for n in range(9)})
    assert tree_entry_epsilon(coins, 1.0) == close(1, rel=1e-7)


def test_a_node_with_one_possible_value_hides_nothing_and_passes_nothing_on():
    copy = {(0,): [1, 0], (1,): [0, 1]}
    sure = BayesianNetwork({1: (), 2: (1,), 3: (2,)}, {1: {(): [1, 0]}, 2: copy, 3: copy})
    assert tree_loss(sure, 1.0)[0] == 0
    wall = {(0,): [1.0], (1,): [1.0]}
    split = BayesianNetwork(
        {1: (), 2: (1,), 3: (2,)}, {1: {(): [0.5, 0.5]}, 2: wall, 3: {(0,): [0.3, 0.7]}}
    )
    assert curve_of(split).losses(1.0) == close({1: 1, 2: 0, 3: 1})


def test_underflow_costs_noise_never_privacy():
    """Each node is 1 with probability 1e-40 times that of its parent: 1e-320 after eight."""
    rare = {(0,): [1, 0], (1,): [1, 1e-40]}
    parents = {0: (), **{n: (n - 1,) for n in range(1, 9)}}
    network = BayesianNetwork(parents, {0: {(): [0.5, 0.5]}, **dict.fromkeys(range(1, 9), rare)})
    losses = curve_of(network).losses(0.5)
    # Given X_8 = 1 every node is 1; given X_8 = 0 the first may be either.
    assert losses[8] >= 0.5 * 8
    assert losses[0] >= 0.5


@pytest.mark.slow
def test_thousands_of_nodes():
    rng = np.random.default_rng(4)
    count = 3000
    parents = {0: (), **{n: (int(rng.integers(max(0, n - 40), n)),) for n in range(1, count)}}
    tables = {0: {(): [0.4, 0.3, 0.3]}}
    for n in range(1, count):
        tables[n] = {(x,): rng.dirichlet([2, 2, 2]) for x in range(3)}
    value, node = tree_loss(BayesianNetwork(parents, tables), 0.1)
    assert 0.1 < value < 0.1 * count
    assert node in parents


def test_flu_on_a_contact_tree():
    """Eleven people; a person whose contact has the flu has it with probability 0.3, else 0.05."""
    contacts = {"Ada": (), "Ben": ("Ada",), "Cy": ("Ada",), "Dee": ("Ben",), "Eva": ("Ben",)}
    contacts |= {
        "Flo": ("Cy",),
        "Gus": ("Flo",),
        "Hal": ("Flo",),
        "Ida": ("Eva",),
        "Jo": ("Eva",),
        "Kim": ("Jo",),
    }
    spread = {("well",): [0.95, 0.05], ("ill",): [0.7, 0.3]}
    tables = {p: spread if own else {(): [0.93, 0.07]} for p, own in contacts.items()}
    network = BayesianNetwork(contacts, tables, dict.fromkeys(contacts, ("well", "ill")))
    assert network.is_tree
    curve, quilt, group = 1 / tree_entry_epsilon(network, 1), hardest_node(network, 1).score, 11
    assert curve < quilt < group
    assert curve < 0.25 * group


# --- the search for b, classes, arguments ---------------------------------------------------------


@given(seeds, st.sampled_from([0.2, 1.0, 5.0]))
@settings(max_examples=20)
def test_the_entry_epsilon_is_private_and_close_to_the_best(seed, epsilon):
    network = BayesianNetwork(*random_tree(seed, 6))
    b, binding = curve_of(network).solve(epsilon)
    assert b == tree_entry_epsilon(network, epsilon)
    assert tree_loss(network, b)[0] <= binding.value * (1 + 1e-12) <= epsilon * (1 + 1e-12)
    assert binding.value <= epsilon
    assert b >= epsilon * (1 - 1e-9) or tree_loss(network, b * (1 + 3e-6))[0] > epsilon


def test_a_class_takes_its_hardest_network():
    def pair(p):
        return BayesianNetwork(
            {1: (), 2: (1,)}, {1: {(): [0.5, 0.5]}, 2: {(0,): [p, 1 - p], (1,): [1 - p, p]}}
        )

    easy, hard = pair(0.6), pair(0.95)
    for networks in ([easy, hard], [hard, easy]):
        b, binding = curve_of(networks).solve(1.0)
        assert b == close(tree_entry_epsilon(hard, 1.0), rel=1e-9)
        assert networks[binding.model] is hard
        assert tree_loss(networks, 0.5)[0] == tree_loss(hard, 0.5)[0]
        assert curve_of(networks).losses(0.5) == curve_of(hard).losses(0.5)


def test_a_profile_has_one_amount_for_each_node():
    network = path([0.8, 0.2], [[0.9, 0.1], [0.4, 0.6]], 3)
    assert tree_loss(network, 0.5)[0] == close(tree_loss(network, [0.5] * 3)[0])
    assert tree_loss(network, 0)[0] == 0
    with pytest.raises(ValueError, match="epsilon"):
        tree_entry_epsilon(path([1], [[1]], 2), 0)


def test_memory_is_checked_before_it_is_used(monkeypatch):
    monkeypatch.setattr(graphs, "MOST_BYTES", 10)
    with pytest.raises(pk.NotApplicable, match="memory"):
        tree_loss(path([0.8, 0.2], [[0.9, 0.1], [0.4, 0.6]], 3), 1)
