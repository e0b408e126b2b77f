"""The Wasserstein Mechanism, [Q] Algorithm 1."""

import math
from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pufferkit import (
    BayesianNetwork,
    ChainClass,
    FiniteJoint,
    MarkovChain,
    NotApplicable,
    Query,
    Release,
    count,
    group_dp,
    histogram,
    mean,
    noise,
    plan,
    total,
    w_infinity,
    wasserstein,
)
from pufferkit.influence.sums.network_sums import SummedNetwork


def flu_clique(size, distribution):
    """Everyone alike: given the number of infected, all sets of that size are equally likely."""
    table = {}
    for row in product((0, 1), repeat=size):
        table[row] = Fraction(distribution[sum(row)]) / math.comb(size, sum(row))
    return FiniteJoint(table)


def test_flu_clique_needs_noise_2_where_group_privacy_needs_4():
    distribution = [Fraction(n, 100) for n in (10, 15, 50, 15, 10)]
    joint, infected = flu_clique(4, distribution), count(1, 4)
    assert wasserstein(joint, infected, 1).scale == pytest.approx(2)
    assert group_dp(infected, 1).scale == pytest.approx(4)
    release = wasserstein(joint, infected, 1).release([1, 0, 1, 1])
    assert Release.from_json(release.to_json()) == release


def test_union_of_cliques():
    """P(N = j) proportional to e^{2j} in each clique: cliques do not add up."""
    weights = [Fraction(math.exp(2 * j)).limit_denominator(10**9) for j in range(4)]
    distribution = [w / sum(weights) for w in weights]
    one = flu_clique(3, distribution)
    alone = wasserstein(one, count(1, 3), 1).scale
    table = {a + b: p * q for (a, p), (b, q) in product(one.table.items(), repeat=2)}
    both = wasserstein(FiniteJoint(table), count(1, 6), 1).scale
    assert both <= alone * (1 + 1e-9)
    assert alone < 3


def test_independent_entries_give_the_laplace_mechanism():
    table = {}
    for row in product((0, 1), repeat=3):
        p = math.prod((Fraction(1, 3), Fraction(2, 3))[x] for x in row)
        table[row] = p
    assert wasserstein(FiniteJoint(table), count(1, 3), 1).scale == pytest.approx(1)
    chain = MarkovChain.steady([[0.3, 0.7], [0.3, 0.7]])
    assert wasserstein(chain, count(1, 5000), 1).scale == pytest.approx(1)
    network = BayesianNetwork(dict.fromkeys(range(4), ()), {n: {(): [0.3, 0.7]} for n in range(4)})
    assert wasserstein(network, count(1, 4), 1).scale == pytest.approx(1)


@pytest.mark.parametrize(
    ("matrix", "expected"),
    [
        ([[0.9, 0.1], [0.4, 0.6]], {30: 4, 100: 4, 300: 4, 600: 4}),
        ([[0.9, 0.1], [0.1, 0.9]], {30: 10, 100: 10, 300: 10, 600: 10}),
        ([[0.95, 0.05], [0.05, 0.95]], {30: 17, 100: 20, 300: 20, 600: 20}),
    ],
)
def test_stationary_binary_chains(matrix, expected):
    chain = MarkovChain.steady(matrix)
    scales = {n: round(wasserstein(chain, count(1, n), 1).scale, 6) for n in expected}
    assert scales == expected


CHAINS = [
    (["39/50", "11/50"], [["1/10", "9/10"], ["59/100", "41/100"]], [0, 1], 8, 1),
    (["7/10", "3/10"], [["33/50", "17/50"], ["7/50", "43/50"]], [0, 1], 15, 4),
    (["14/25", "11/25"], [["7/20", "13/20"], ["19/100", "81/100"]], [0, 1], 25, 2),
    (
        ["7/100", "6/25", "69/100"],
        [["2/5", "1/20", "11/20"], ["67/100", "21/100", "3/25"], ["19/50", "1/2", "3/25"]],
        [0, 1, 2],
        10,
        3,
    ),
]


@pytest.mark.parametrize(("initial", "transition", "values", "length", "distance"), CHAINS)
def test_reference_chains(initial, transition, values, length, distance):
    chain = MarkovChain(
        [float(Fraction(p)) for p in initial],
        [[float(Fraction(p)) for p in row] for row in transition],
    )
    assert wasserstein(chain, total(values, length), 1).scale == pytest.approx(distance)


def brute(chain, values, length):
    """By listing all paths, with fractions."""
    rows = [[Fraction(repr(float(p))) for p in row] for row in chain.transition]
    rows = [[p / sum(row) for p in row] for row in rows]
    start = [Fraction(repr(float(p))) for p in chain.initial]
    start = [p / sum(start) for p in start]
    distributions = {}
    for path in product(range(len(values)), repeat=length):
        p = start[path[0]]
        for x, y in pairwise(path):
            p *= rows[x][y]
        if p:
            answer = sum(values[x] for x in path)
            for i, x in enumerate(path):
                distribution = distributions.setdefault((i, x), {})
                distribution[answer] = distribution.get(answer, 0) + p
    worst = 0
    for i in range(length):
        given_i = [distribution for (node, _), distribution in distributions.items() if node == i]
        given_i = [
            {a: p / sum(distribution.values()) for a, p in distribution.items()}
            for distribution in given_i
        ]
        for n, one in enumerate(given_i):
            for other in given_i[n + 1 :]:
                worst = max(worst, w_infinity(one, other))
    return worst


tenths = st.lists(st.integers(0, 4), min_size=3, max_size=3).filter(lambda row: sum(row) > 0)


@given(
    st.lists(tenths, min_size=4, max_size=4),
    st.lists(st.integers(0, 3), min_size=3, max_size=3).filter(lambda v: len(set(v)) > 1),
    st.integers(1, 5),
)
@settings(max_examples=60, deadline=None)
def test_never_below_the_truth_and_exact_where_fractions_decide(table, values, length):
    array = np.array(table, dtype=float)
    array /= array.sum(axis=1, keepdims=True)
    chain = MarkovChain(array[0], array[1:])
    truth = brute(chain, values, length)
    from_0 = [v - min(values) for v in values]
    network = SummedNetwork.of_chain(chain.initial, chain.transition, from_0, length)
    assert network.of_values().exactly().value == truth
    try:
        scale = wasserstein(chain, total(values, length), 1).scale
    except NotApplicable:
        assert truth == 0
    else:
        assert scale == pytest.approx(float(truth))
        assert scale <= group_dp(total(values, length), 1).scale * (1 + 1e-9)  # Theorem 3.3


def test_mean_is_total_over_length():
    chain = MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    assert wasserstein(chain, mean([0, 1], 100), 1).scale == pytest.approx(0.04)


def test_class_takes_the_larger_and_names_it():
    chains = [MarkovChain.steady([[p, 1 - p], [1 - p, p]]) for p in (0.7, 0.9)]
    calibration = wasserstein(ChainClass.of(*chains), count(1, 100), 1)
    assert calibration.scale == pytest.approx(10)
    assert calibration.evidence.belief == "chain 2 of 2"


def flu_tree():
    """Who may have caught it from whom."""
    catch = {(0,): [0.9, 0.1], (1,): [0.4, 0.6]}
    parents = {"a": (), "b": ("a",), "c": ("a",), "d": ("b",)}
    tables = {"a": {(): [0.8, 0.2]}, "b": catch, "c": catch, "d": catch}
    return BayesianNetwork(parents, tables)


def test_networks_by_message_passing_equal_listing_the_joint():
    tree = flu_tree()
    listed = wasserstein(tree.joint(), count(1, 4), 1)
    passed = wasserstein(tree, count(1, 4), 1)
    assert passed.scale == pytest.approx(listed.scale)
    assert wasserstein([tree, tree], count(1, 4), 1).scale == pytest.approx(passed.scale)
    assert passed.scale < group_dp(count(1, 4), 1).scale


def test_a_network_with_a_collider():
    parents = {"a": (), "b": (), "c": ("a", "b")}
    tables = {
        "a": {(): [0.5, 0.5]},
        "b": {(): [0.7, 0.3]},
        "c": {(0, 0): [0.9, 0.1], (0, 1): [0.2, 0.8], (1, 0): [0.3, 0.7], (1, 1): [0.1, 0.9]},
    }
    network = BayesianNetwork(parents, tables)
    assert wasserstein(network, count(1, 3), 1).scale == pytest.approx(
        wasserstein(network.joint(), count(1, 3), 1).scale
    )


def test_a_chain_written_as_a_network():
    chain = MarkovChain([0.5, 0.5], [[0.9, 0.1], [0.4, 0.6]])
    step = {(x,): chain.transition[x].tolist() for x in range(2)}
    length = 7
    network = BayesianNetwork(
        {n: (n - 1,) if n else () for n in range(length)},
        {n: step if n else {(): [0.5, 0.5]} for n in range(length)},
    )
    one, other = wasserstein(network, count(1, length), 1), wasserstein(chain, count(1, length), 1)
    assert one.scale == pytest.approx(other.scale)


def test_secrets_of_your_own():
    """Only whether anyone is ill at all is to be hidden."""
    joint = flu_clique(3, [Fraction(1, 4)] * 4)
    secrets = [(lambda row: sum(row) == 0, lambda row: sum(row) > 0)]
    assert wasserstein(joint, count(1, 3), 1, secrets=secrets).scale == pytest.approx(3)


@pytest.mark.parametrize(
    ("beliefs", "query", "problem"),
    [
        (MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]]), histogram([0, 1], 9), "numbers"),
        (ChainClass.binary(0.2, 0.8), count(1, 9), "any start"),
        (ChainClass.mixing(2, 0.2, 0.5), count(1, 9), "only by pi_min"),
        (MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]]), Query("own", sum, 1, 9), "not a sum"),
        (MarkovChain.steady([[1.0]]), count(0, 9), "nothing to hide"),
    ],
)
def test_what_it_refuses(beliefs, query, problem):
    with pytest.raises(NotApplicable, match=problem):
        wasserstein(beliefs, query, 1)


def test_too_long_for_memory_is_refused_before_starting():
    rng = np.random.default_rng(0)
    chain = MarkovChain.steady(rng.dirichlet(np.ones(12), 12))
    with pytest.raises(NotApplicable, match="GB"):
        wasserstein(chain, total(list(range(12)), 20_000), 1)


def test_plans_show_it_where_it_applies():
    chain = MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    assert plan(chain, count(1, 100), 1)["wasserstein"].scale == pytest.approx(4)
    rows = {row["mechanism"]: row for row in plan(chain, count(1, 10**6), 1).rows}
    assert "ask for it by name" in rows["wasserstein"]["why"]
    table = plan(flu_tree(), count(1, 4), 1)
    assert table.best.scale <= table["wasserstein"].scale
    assert "no Markov chains" in {r["mechanism"]: r for r in table.rows}["gk16"]["why"]
    joint = plan(flu_tree().joint(), count(1, 4), 1)
    assert joint.best.mechanism == "wasserstein"


@pytest.mark.parametrize("length", [1, 2, 4, 30])
def test_decimal_values_are_taken_as_decimals(length):
    chain = MarkovChain.steady([[0.8, 0.1, 0.1], [0.2, 0.5, 0.3], [0.3, 0.3, 0.4]])
    tenths = wasserstein(chain, total([0.1, 0.2, 0.7], length), 1)
    whole = wasserstein(chain, total([1, 2, 7], length), 1)
    assert tenths.scale == pytest.approx(whole.scale / 10, rel=1e-14)


@pytest.mark.parametrize("length", [1, 2, 4, 30, 3000])
@pytest.mark.parametrize("values", [[1 / 3, 0.1, 1], [1e-30, 1, 2], [1e-300, 1, 1e300]])
def test_values_with_no_common_step_are_refused_before_memory_is_asked_for(values, length):
    chain = MarkovChain.steady([[0.8, 0.1, 0.1], [0.2, 0.5, 0.3], [0.3, 0.3, 0.4]])
    with pytest.raises(NotApplicable, match="rounder values"):
        wasserstein(chain, total(values, length), 1)


def test_values_with_no_common_step_are_refused_on_networks():
    step = {(0,): [0.8, 0.1, 0.1], (1,): [0.2, 0.5, 0.3], (2,): [0.3, 0.3, 0.4]}
    pair = BayesianNetwork({"a": (), "b": ("a",)}, {"a": {(): [0.5, 0.3, 0.2]}, "b": step})
    assert wasserstein(pair, total([0.1, 0.2, 0.7], 2), 1).scale == pytest.approx(1.2)
    with pytest.raises(NotApplicable, match="rounder values"):
        wasserstein(pair, total([1e-300, 1, 1e300], 2), 1)


@pytest.mark.parametrize("share", [0.51, 0.9, 1.4, 3.3, 1e-6, 1e6])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 20.0])
def test_the_grid_of_the_noise_is_paid_for_over_the_distance(share, epsilon):
    """One answer always makes up for the other, so the distance is far below the constant."""
    apart = share * 2.0**-30
    query = total({"a": 0, "b": 1, "c": 1 + apart}, 2)
    distribution = FiniteJoint({("a", "c"): 0.5, ("b", "a"): 0.5})
    made = wasserstein(distribution, query, epsilon)
    assert made.sensitivity < query.lipschitz
    step = 2.0 ** noise.grid_exponent(made.sensitivity, 1, query.largest)
    rows = [made.release(row) for row in (["a", "c"], ["b", "a"])]
    snapped = [round(1 / step), round((1 + apart) / step)]
    assert abs(snapped[0] - snapped[1]) * step / rows[0].scale <= epsilon * (1 + 1e-12)
    assert all(release.raw[0] % step == 0 for release in rows)


def test_answers_are_as_far_apart_as_in_a_release():
    """Two neighbouring floats print as decimals that are nearer to one another."""
    low, high = 1e6, math.nextafter(1e6, 2e6)
    query = Query("either", lambda row: high if row[0] else low, 1.0, 1)
    made = wasserstein(FiniteJoint({(0,): 0.5, (1,): 0.5}), query, 1.0)
    assert made.scale >= high - low > 1e-10
