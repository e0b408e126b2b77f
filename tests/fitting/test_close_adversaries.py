"""Guarantees against adversaries near the class, [Q] Theorem 2.4."""

import math
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
    MarkovRandomField,
    NotApplicable,
    closeness,
)
from pufferkit.fitting.closeness import max_divergence
from tests.oracles import brute_network as brute
from tests.strategies.graphs import factors_of, random_field


def test_max_divergence_of_section_2_3_is_log_2():
    p, q = {1: 1 / 3, 2: 1 / 2, 3: 1 / 6}, {1: 1 / 2, 2: 1 / 4, 3: 1 / 4}
    assert max_divergence(p, q) == pytest.approx(math.log(2))
    assert max_divergence({1: 1.0}, {2: 1.0}) == math.inf


def test_conditioning_raises_log_90_to_log_91_of_section_2_3():
    """Data sets D_1, D_2, D_3; the secret rules out D_3."""
    ours = FiniteJoint({("D1", 0): 0.9, ("D2", 0): 0.05, ("D3", 1): 0.05})
    theirs = FiniteJoint({("D1", 0): 0.01, ("D2", 0): 0.95, ("D3", 1): 0.04})
    both = max(max_divergence(ours.table, theirs.table), max_divergence(theirs.table, ours.table))
    assert both == pytest.approx(math.log(90))
    given_secret = [joint.conditional(2, 0).table for joint in (ours, theirs)]
    raised = max(max_divergence(*given_secret), max_divergence(*given_secret[::-1]))
    assert raised == pytest.approx(math.log(0.9 / 0.95 / (0.01 / 0.96)))
    assert raised > both
    assert closeness(theirs, ours).delta == pytest.approx(raised)
    # The paper rounds the conditional distributions first, which makes it log 91.0962.
    rounded = {"D1": 0.9474, "D2": 0.0526}, {"D1": 0.0104, "D2": 0.9896}
    assert max_divergence(*rounded) == pytest.approx(math.log(91.0962), abs=1e-6)


def brute_delta(theirs, ours, length):
    def distribution(chain):
        table = {}
        for path in product(range(len(chain)), repeat=length):
            p = chain.initial[path[0]]
            for x, y in pairwise(path):
                p *= chain.transition[x, y]
            if p > 0:
                table[path] = p
        return table

    first, second = distribution(theirs), distribution(ours)
    delta = 0.0
    for i in range(length):
        for a in range(len(theirs)):
            one = {path: p for path, p in first.items() if path[i] == a}
            other = {path: p for path, p in second.items() if path[i] == a}
            if not one:
                continue
            if not other:
                return math.inf
            one = {k: p / sum(one.values()) for k, p in one.items()}
            other = {k: p / sum(other.values()) for k, p in other.items()}
            delta = max(delta, max_divergence(one, other), max_divergence(other, one))
    return delta


rows = st.lists(st.sampled_from([0.0, 0.1, 0.3, 0.5, 1.0]), min_size=3, max_size=3).filter(
    lambda row: sum(row) > 0
)


def chain_from(table):
    array = np.array(table)
    array = array / array.sum(axis=1, keepdims=True)
    return MarkovChain(array[0], array[1:])


@pytest.mark.slow
@given(st.lists(rows, min_size=4, max_size=4), st.lists(rows, min_size=4, max_size=4))
@settings(max_examples=150, deadline=None)
def test_chains_by_max_plus_equal_listing_all_paths(one, other):
    theirs, ours = chain_from(one), chain_from(other)
    for length in (1, 2, 4):
        expected = brute_delta(theirs, ours, length)
        delta = closeness(theirs, ours, length).delta
        assert delta == pytest.approx(expected, abs=1e-9) or delta == expected == math.inf


def test_a_member_is_at_distance_zero():
    chain = MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    other = MarkovChain.steady([[0.7, 0.3], [0.4, 0.6]])
    nearest = closeness(chain, ChainClass.of(other, chain), 50)
    assert nearest.delta == pytest.approx(0, abs=1e-12)
    assert nearest.belief == "chain 2 of 2"
    assert nearest.epsilon(1.0) == pytest.approx(1.0)


def test_open_classes():
    chain = MarkovChain([1, 0], [[0.9, 0.1], [0.4, 0.6]])
    assert closeness(chain, ChainClass.any_start(chain.transition), 9).delta == 0
    assert closeness(chain, ChainClass.binary(0.5, 0.95), 9).delta == pytest.approx(0, abs=1e-12)
    near = closeness(chain, ChainClass.binary(0.65, 0.95), 9)
    assert 0 < near.delta < math.inf
    with pytest.raises(NotApplicable, match="no member"):
        closeness(chain, ChainClass.seasonal([chain.transition]), 9)


def test_linear_in_length():
    one = MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    other = MarkovChain.steady([[0.89, 0.11], [0.4, 0.6]])
    short, long = (closeness(one, other, n).delta for n in (1_000, 10_000))
    assert long / short == pytest.approx(10, rel=0.01)


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (lambda c, j: closeness(c, c), "length"),
        (lambda c, j: closeness("me", c, 3), "adversary"),
        (lambda c, j: closeness(j, c), "beliefs|iterable|FiniteJoint"),
        (lambda c, j: closeness(c, MarkovChain.steady([[1.0]]), 3), "states"),
        (lambda c, j: closeness(j, FiniteJoint({(0, 1): 1.0})), "variables"),
    ],
)
def test_bad_input(call, problem):
    chain = MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    joint = FiniteJoint({(0,): 0.5, (1,): 0.5})
    with pytest.raises((ValueError, TypeError), match=problem):
        call(chain, joint)


# --- networks -------------------------------------------------------------------------------------


def listed_delta(theirs, ours):
    """Given each value of each node that the adversary thinks possible, either way."""
    delta = 0.0
    for axis in range(theirs.ndim):
        for value in range(theirs.shape[axis]):
            one, other = np.take(theirs, value, axis), np.take(ours, value, axis)
            if not one.any():
                continue
            if ((one > 0) != (other > 0)).any():
                return math.inf
            ratios = (one / one.sum())[one > 0] / (other / other.sum())[one > 0]
            delta = max(delta, float(np.abs(np.log(ratios)).max()))
    return delta


@pytest.mark.parametrize("seed", range(30))
def test_networks_by_passing_maxima_equal_listing(seed):
    """Arrows may differ; zeros in some."""
    rng = np.random.default_rng(seed)
    parents, tables = brute.random_network(rng, int(rng.integers(1, 6)), 3, rng.random())
    sizes = brute.sizes(tables)
    arrows = {n: tuple(q for q in range(n) if rng.random() < 0.5)[:3] for n in parents}
    arrows = parents if seed % 2 else arrows
    others = {
        n: {
            key: brute.random_distribution(rng, sizes[n], seed % 3 == 0)
            for key in product(*(range(sizes[q]) for q in arrows[n]))
        }
        for n in arrows
    }
    near = closeness(BayesianNetwork(parents, tables), BayesianNetwork(arrows, others))
    wanted = listed_delta(brute.joint(parents, tables), brute.joint(arrows, others))
    assert near.delta == wanted or near.delta == pytest.approx(wanted, abs=1e-9)
    assert near.belief == "network 1 of 1"


@pytest.mark.parametrize("seed", range(6))
def test_random_fields_as_listed(seed):
    """Delta of two fields, and of a field and a network, is that of their joint distributions."""
    theirs = random_field(seed, most=5, values=3, zeros=seed % 2 == 1, strength=0.3)
    sizes, _ = factors_of(theirs)
    potentials = {**theirs.potentials, (0,): np.linspace(1, 1.3, sizes[0])}
    ours = MarkovRandomField(potentials, theirs.values)
    listed = closeness(theirs.joint(), ours.joint())
    for one, other in ((theirs, ours), (theirs, ours.network()), (theirs.network(), [ours, ours])):
        near = closeness(one, other)
        assert near.delta == pytest.approx(listed.delta, rel=1e-9, abs=1e-9)


def test_networks_about_other_nodes_are_refused():
    one, two = (BayesianNetwork({n: ()}, {n: {(): [0.5, 0.5]}}) for n in "ab")
    with pytest.raises(ValueError, match="adversary's nodes"):
        closeness(one, two)
    assert closeness(one, [one, one]).delta == 0


def test_where_the_class_leaves_the_start_open_it_is_the_adversarys():
    rng = np.random.default_rng(5)
    theirs = MarkovChain(rng.dirichlet([2.0] * 3), rng.dirichlet([3.0] * 3, 3))
    matrix = rng.dirichlet([3.0] * 3, 3)
    own = closeness(theirs, MarkovChain(theirs.initial, matrix), 5).delta
    assert closeness(theirs, ChainClass.any_start(matrix), 5).delta == own
