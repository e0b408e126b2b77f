"""The Wasserstein Mechanism for vectors: W-infinity in L1, by definition and by attack."""

from dataclasses import replace
from fractions import Fraction
from itertools import chain, combinations, product
from math import comb

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import pufferkit as pk
from pufferkit.audit import audit, exact_loss
from pufferkit.influence.sums import lattice


def l1(x, y):
    return sum(abs(a - b) for a, b in zip(x, y, strict=True))


def by_hall(mu, nu):
    """The least d with mu(A) <= nu(all within d of A) for every set A: that is when mass can move.

    Hall's theorem for masses, over all subsets, in fractions.
    """
    subsets = list(chain.from_iterable(combinations(mu, n) for n in range(1, len(mu) + 1)))
    for d in sorted({l1(x, y) for x in mu for y in nu}):
        if all(
            sum(mu[x] for x in chosen)
            <= sum(p for y, p in nu.items() if any(l1(x, y) <= d for x in chosen))
            for chosen in subsets
        ):
            return d
    raise AssertionError


def distributions(size):
    place = st.tuples(*[st.integers(0, 3)] * size)
    masses = st.dictionaries(place, st.integers(1, 4), min_size=1, max_size=5)
    return masses.map(lambda m: {x: Fraction(p, sum(m.values())) for x, p in m.items()})


@settings(max_examples=150, deadline=None)
@given(st.integers(2, 3).flatmap(lambda n: st.tuples(distributions(n), distributions(n))))
def test_the_distance_is_the_definition(pair):
    mu, nu = pair
    assert pk.w_infinity(mu, nu) == pk.w_infinity(nu, mu) == by_hall(mu, nu)


@given(distributions(1), distributions(1))
def test_one_coordinate_is_the_line(mu, nu):
    flat = [{x[0]: p for x, p in one.items()} for one in (mu, nu)]
    assert pk.w_infinity(mu, nu) == pk.w_infinity(*flat)


def test_values_of_different_kinds_are_refused():
    with pytest.raises(ValueError, match="tuples"):
        pk.w_infinity({(0, 1): 1}, {0: 1})
    with pytest.raises(ValueError, match="tuples"):
        pk.w_infinity({(0, 1): 1}, {(0, 1, 2): 1})


def clique(size=4):
    """[Q] 3.1: how many of a clique are ill is known, who it is is not."""
    ill = [Fraction(n, 100) for n in (10, 15, 50, 15, 10)]
    return {row: ill[sum(row)] / comb(size, sum(row)) for row in product((0, 1), repeat=size)}


def test_the_flu_clique_needs_4_where_group_privacy_needs_8():
    theta, sick = pk.FiniteJoint(clique()), pk.histogram([0, 1], 4)
    noise = pk.wasserstein(theta, sick, 1)
    assert noise.scale == pytest.approx(4, rel=1e-12)
    assert pk.group_dp(sick, 1).scale == pytest.approx(8, rel=1e-12)
    assert pk.wasserstein(theta, pk.count(1, 4), 1).scale == pytest.approx(2, rel=1e-12)
    assert exact_loss(noise) <= 1
    best = {row.mechanism: row.calibration for row in pk.plan(theta, sick, 1).entries}
    assert best["wasserstein"].scale == noise.scale


@pytest.mark.slow
def test_an_attack_on_the_flu_clique():
    noise = pk.wasserstein(pk.FiniteJoint(clique()), pk.histogram([0, 1], 4), 1)
    assert audit(noise, trials=500).passed
    assert not audit(replace(noise, scale=noise.scale / 4), trials=20_000).passed


@st.composite
def joints(draw):
    """Small tables with zeros and ties; three variables of two or three values."""
    rows = list(product(range(draw(st.integers(2, 3))), repeat=3))
    weights = draw(st.lists(st.integers(0, 3), min_size=len(rows), max_size=len(rows)))
    if sum(weights) == 0:
        weights[0] = 1
    return {row: Fraction(w, sum(weights)) for row, w in zip(rows, weights, strict=True)}


def given_two_values(table, answer):
    """W by definition over all entries and pairs of their values."""
    worst = 0
    for place in range(3):
        each = []
        for value in sorted({row[place] for row in table}):
            masses = {}
            for row, p in table.items():
                if row[place] == value and p:
                    masses[answer(row)] = masses.get(answer(row), 0) + p
            if masses:
                each.append({x: p / sum(masses.values()) for x, p in masses.items()})
        worst = max([worst, *(by_hall(one, other) for one, other in combinations(each, 2))])
    return worst


@settings(max_examples=25, deadline=None)
@given(joints(), st.sampled_from([0.3, 1.0, 4.0]))
def test_joint_tables_lose_no_more_than_promised(table, epsilon):
    states = sorted({value for row, p in table.items() if p for value in row})
    assume(len(states) > 1)
    query, theta = pk.histogram(states, 3), pk.FiniteJoint(table)
    expected = given_two_values(table, lambda row: tuple(row.count(s) for s in states))
    if expected == 0:
        with pytest.raises(pk.NotApplicable, match="nothing to hide"):
            pk.wasserstein(theta, query, epsilon)
        return
    noise = pk.wasserstein(theta, query, epsilon)
    assert noise.scale == pytest.approx(float(expected) / epsilon, rel=1e-12)
    assert noise.scale * epsilon >= expected
    release = noise.release(next(row for row, p in table.items() if p), anyway=True)
    assert pk.verify(release).ok
    less = pk.Release.from_dict({**release.to_dict(), "scale": release.scale * 0.99})
    assert not pk.verify(less).ok


def test_a_vector_of_ones_own():
    def ends(entries):
        return [float(entries[0]), float(entries[-1]) / 4]

    query = pk.Query("ends", ends, 1.0, 4, labels=("first", "last"))
    noise = pk.wasserstein(pk.FiniteJoint(clique()), query, 1)
    by_hand = 0
    for place in range(4):
        two = []
        for value in (0, 1):
            masses = {}
            for row, p in clique().items():
                if row[place] == value:
                    at = (Fraction(row[0]), Fraction(row[-1], 4))
                    masses[at] = masses.get(at, 0) + p
            two.append({x: p / sum(masses.values()) for x, p in masses.items()})
        by_hand = max(by_hand, by_hall(*two))
    assert noise.scale == pytest.approx(float(by_hand), rel=1e-12)
    assert pk.verify(noise.release([0, 1, 1, 0], anyway=True)).ok


def test_a_list_of_one_number_is_a_number():
    theta = pk.FiniteJoint(clique())
    plain = pk.wasserstein(theta, pk.Query("ill", lambda row: float(row.sum()), 1.0, 4), 1)
    for answer in (lambda row: [float(row.sum())], lambda row: np.array([row.sum()])):
        listed = pk.wasserstein(theta, pk.Query("ill", answer, 1.0, 4), 1)
        assert listed.scale == plain.scale
        assert pk.verify(listed.release([0, 1, 1, 0], anyway=True)).ok
    with pytest.raises(ValueError, match="labels"):
        pk.wasserstein(theta, pk.Query("ill", lambda row: [1.0, 2.0], 1.0, 4), 1)


NETWORK = pk.BayesianNetwork(
    {"a": (), "b": ("a",), "c": ("a", "b")},
    {
        "a": {(): [0.3, 0.7]},
        "b": {(0,): [0.5, 0.5], (1,): [1.0, 0.0]},
        "c": {(0, 0): [0.2, 0.8], (0, 1): [0.6, 0.4], (1, 0): [0.1, 0.9], (1, 1): [0.5, 0.5]},
    },
)


def network_table():
    tables = {n: {k: [Fraction(repr(float(p))) for p in v] for k, v in t.items()}
              for n, t in NETWORK.tables.items()}  # fmt: skip
    return {
        (a, b, c): tables["a"][()][a] * tables["b"][(a,)][b] * tables["c"][(a, b)][c]
        for a, b, c in product((0, 1), repeat=3)
    }


@pytest.mark.parametrize("secrets", [None, [({"a": 0, "b": 0}, {"c": 1})]])
def test_networks_are_their_joint_tables(secrets):
    query = pk.histogram([0, 1], 3)
    noise = pk.wasserstein(NETWORK, query, 1, secrets=secrets)
    joint = pk.FiniteJoint(network_table(), NETWORK.nodes)
    assert noise.scale == pk.wasserstein(joint, query, 1, secrets=secrets).scale
    release = noise.release({"a": 0, "b": 1, "c": 1}, anyway=True)
    assert pk.verify(release).ok
    less = pk.Release.from_dict({**release.to_dict(), "scale": release.scale * 0.99})
    assert not pk.verify(less).ok
    assert exact_loss(noise) <= 1
    if secrets is None:
        answer = lambda row: tuple(row.count(s) for s in (0, 1))  # noqa: E731
        assert noise.scale == pytest.approx(float(given_two_values(network_table(), answer)))


def test_fields():
    field = pk.MarkovRandomField.ising([(1, 2), (2, 3), (1, 3)], coupling=1.0)
    query = pk.histogram([0, 1], 3)
    noise = pk.wasserstein(field, query, 1)
    assert noise.scale <= pk.group_dp(query, 1).scale * (1 + 1e-9)
    assert exact_loss(noise) <= 1
    assert pk.verify(noise.release([0, 1, 1], anyway=True)).ok


def test_what_has_no_theorem_is_refused(monkeypatch):
    steady = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    with pytest.raises(pk.NotApplicable, match="coordinates"):
        pk.wasserstein(steady, pk.histogram([0, 1], 9), 1)
    theta = pk.FiniteJoint(clique())
    with pytest.raises(pk.NotApplicable, match="Wasserstein"):
        pk.wasserstein(theta, pk.quantile(0.5, {0: 0, 1: 1}, 4), 1)
    monkeypatch.setattr(lattice, "MOST_PAIRS", 3)
    with pytest.raises(pk.NotApplicable, match="pairs"):
        pk.wasserstein(theta, pk.histogram([0, 1], 4), 1)
    wide = pk.MarkovRandomField.ising([(n, n + 1) for n in range(12)], coupling=0.1)
    with pytest.raises(pk.NotApplicable, match="list"):
        pk.wasserstein(wide, pk.histogram([0, 1], 13), 1)
