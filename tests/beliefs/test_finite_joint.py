"""Finite joint distributions: what they keep, what they derive, what they refuse."""

import json
import pickle
from fractions import Fraction
from math import comb, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pufferkit.beliefs.bayesian_network import BayesianNetwork
from pufferkit.beliefs.finite_joint import FiniteJoint

close = pytest.approx
THIRD = Fraction(1, 3)


def flu_clique() -> FiniteJoint:
    """[Q] 3.1: four people, symmetric, P(N = j) = 0.1, 0.15, 0.5, 0.15, 0.1."""
    distribution = [
        Fraction(1, 10),
        Fraction(3, 20),
        Fraction(1, 2),
        Fraction(3, 20),
        Fraction(1, 10),
    ]
    rows = [tuple(n >> j & 1 for j in range(4)) for n in range(16)]
    return FiniteJoint({row: distribution[sum(row)] / comb(4, sum(row)) for row in rows})


def test_flu_clique_of_section_3_1():
    flu = flu_clique()
    for value, wanted in ((0, [0.2, 0.225, 0.5, 0.075, 0]), (1, [0, 0.075, 0.5, 0.225, 0.2])):
        given_value = flu.conditional(2, value)
        infected = [Fraction(0)] * 5
        for row, p in given_value.table.items():
            infected[sum(row)] += p
        assert [float(p) for p in infected] == wanted


@given(st.lists(st.integers(0, 4), min_size=8, max_size=8).filter(any))
def test_fractions_stay_exact(weights):
    rows = [(x, y, z) for x in range(2) for y in "ab" for z in (None, 1.5)]
    table = {row: Fraction(w, sum(weights)) for row, w in zip(rows, weights, strict=True)}
    joint = FiniteJoint(table, names=["x", "y", "z"])
    assert joint.is_exact
    assert dict(joint.table) == table
    pair = joint.marginal("z", "x")
    assert pair.names == ("z", "x")
    for x in (0, 1):
        mass = sum(p for row, p in table.items() if row[0] == x)
        assert joint.probability("x", x) == pair.probability("x", x) == mass
        if mass == 0:
            assert x not in joint.values("x")
            with pytest.raises(ValueError, match="probability 0"):
                joint.conditional("x", x)
        else:
            given_x = joint.conditional("x", x)
            assert sum(given_x.table.values()) == 1
            assert all(p == table[row] / mass for row, p in given_x.table.items())


def test_floats_stay_what_they_were():
    table = {(0,): 0.1, (1,): 0.2, (2,): 0.7}
    joint = FiniteJoint(table)
    assert dict(joint.table) == table
    assert not joint.is_exact
    # One float among fractions: everything is a float.
    mixed = FiniteJoint({(0,): THIRD, (1,): 2 / 3})
    assert mixed.table[0,] == float(THIRD)


def test_rows_of_probability_zero_are_kept_but_not_possible():
    joint = FiniteJoint({(0, 0): 0.5, (1, 0): 0.5, (1, 1): 0.0})
    assert len(joint) == 3
    assert joint.variables == 2
    assert joint.values(1) == (0, 1)
    assert joint.values(2) == (0,)


def test_variables_count_from_1_or_have_names():
    table = {("a", 0): Fraction(1, 4), ("b", 1): Fraction(3, 4)}
    assert FiniteJoint(table).names == (1, 2)
    assert FiniteJoint(table).marginal(2).table == {(0,): Fraction(1, 4), (1,): Fraction(3, 4)}
    assert FiniteJoint(table, ["x", "y"]).values("x") == ("a", "b")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({}, "table: .*at least one row"),
        ([((0,), 1)], "table: must be a mapping"),
        ({(0,): 0.5, (1,): 0.4}, "table: sums to 0.9, not 1"),
        ({(0,): THIRD, (1,): THIRD}, "table: sums to 2/3, not 1"),
        ({(0,): Fraction(1, 2), (1,): Fraction(1, 2) + Fraction(1, 10**12)}, "table: sums to"),
        ({(0,): 1.5, (1,): -0.5}, r"table: row \(1,\) has probability -0.5, below 0"),
        ({(0,): nan, (1,): 1.0}, r"table: row \(0,\) has probability nan"),
        ({(0,): "half", (1,): 0.5}, r"table: row \(0,\) has 'half'"),
        ({(0,): 0.5, (1, 1): 0.5}, r"row \(0,\) has 1 values and row \(1, 1\) has 2"),
        ({0: 0.5, 1: 0.5}, r"rows are tuples.*write \(value,\)"),
        ({(): 1}, "rows are tuples"),
    ],
)
def test_bad_tables_are_named(table, message):
    with pytest.raises(ValueError, match=message):
        FiniteJoint(table)


def test_bad_names_are_named():
    joint = FiniteJoint({(0, 0): 0.5, (1, 1): 0.5})
    with pytest.raises(ValueError, match="names: need 2 different names"):
        FiniteJoint(joint.table, ["x", "x"])
    with pytest.raises(ValueError, match=r"name: 3 is unknown; the variables are \[1, 2\]"):
        joint.values(3)
    with pytest.raises(ValueError, match="names: must be different"):
        joint.marginal(1, 1)
    with pytest.raises(ValueError, match=r"choose one of \[0, 1\]"):
        joint.conditional(1, 7)


def test_nothing_can_be_changed():
    joint = flu_clique()
    with pytest.raises(TypeError):
        joint.table[0, 0, 0, 0] = 1
    with pytest.raises(AttributeError):
        joint.names = (1,)


@pytest.mark.parametrize(
    "joint",
    [
        flu_clique(),
        FiniteJoint({("well", 0): 0.1, ("ill", 1): 0.9}, ["Ada", "Ben"]),
        FiniteJoint({(0.1, None): 1 / 3, (0.2, True): 2 / 3}),
        FiniteJoint({((0, 1), "x"): 1}, [("a", 1), 2]),
    ],
)
def test_json_both_ways(joint):
    data = json.loads(joint.to_json())
    assert data["kind"] == "finite_joint"
    back = FiniteJoint.from_json(joint.to_json())
    assert dict(back.table) == dict(joint.table)
    assert back.names == joint.names


@pytest.mark.parametrize("data", [{}, {"rows": [1]}, {"rows": [[[0], 0.5]]}])
def test_bad_json_is_refused(data):
    with pytest.raises(ValueError, match=r"model|table"):
        FiniteJoint.from_dict(data)


def test_the_joint_distribution_of_a_network():
    network = BayesianNetwork(
        {"a": (), "b": ("a",)},
        {"a": {(): [0.25, 0.75]}, "b": {("no",): [0.5, 0.5], ("yes",): [0, 1]}},
        {"a": ["no", "yes"]},
    )
    joint = network.joint()
    assert joint.names == ("a", "b")
    assert joint.table == {("no", 0): 0.125, ("no", 1): 0.125, ("yes", 0): 0, ("yes", 1): 0.75}
    assert joint.conditional("b", 0).values("a") == ("no",)


def test_a_joint_can_be_sent_to_another_process():
    joint = flu_clique()
    assert dict(pickle.loads(pickle.dumps(joint)).table) == dict(joint.table)
