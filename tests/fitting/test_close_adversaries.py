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
    NotApplicable,
    closeness,
)
from pufferkit.fitting.closeness import max_divergence


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
    with pytest.raises(NotApplicable, match="no list"):
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


def test_a_small_network_is_compared_by_its_joint_distribution():
    parents, tables = {"a": (), "b": ("a",)}, {"a": {(): [0.5, 0.5]}}
    one, two = (
        BayesianNetwork(parents, {**tables, "b": {(0,): [p, 1 - p], (1,): [0.5, 0.5]}})
        for p in (0.5, 0.6)
    )
    assert closeness(one.joint(), two.joint()).delta == pytest.approx(math.log(0.5 / 0.4))
    with pytest.raises(ValueError, match="joint"):
        closeness(one, two)


def test_where_the_class_leaves_the_start_open_it_is_the_adversarys():
    rng = np.random.default_rng(5)
    theirs = MarkovChain(rng.dirichlet([2.0] * 3), rng.dirichlet([3.0] * 3, 3))
    matrix = rng.dirichlet([3.0] * 3, 3)
    own = closeness(theirs, MarkovChain(theirs.initial, matrix), 5).delta
    assert closeness(theirs, ChainClass.any_start(matrix), 5).delta == own
