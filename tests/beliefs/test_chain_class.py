"""Classes of chains, and the proof that the worst binary chain is at a corner."""

import json
from math import inf, isinf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pufferkit as pk
from tests.oracles import brute

close = pytest.approx
PAPER = [[0.9, 0.1], [0.4, 0.6]]
shares = st.floats(0, 1, allow_subnormal=False).map(lambda p: 0.0 if p < 1e-12 else p)


def staying(p0: float, p1: float) -> list[list[float]]:
    return [[p0, 1 - p0], [1 - p1, p1]]


def scale(beliefs, length, epsilon):
    return pk.markov_quilt(beliefs, pk.count(0, length), epsilon).scale


# --- binary: the supremum is at a corner ----------------------------------------------------------


@st.composite
def intervals(draw):
    low, high = sorted([draw(shares), draw(shares)])
    inside = st.floats(low, high)
    return low, high, draw(inside), draw(inside)


@given(intervals(), st.integers(1, 5), st.integers(0, 4), st.integers(0, 4))
def test_corner_bound_by_the_definition(interval, node, left, right):
    """The same without pufferkit's own influence on the inner side."""
    low, high, p0, p1 = interval
    left, right = left % node or None, right or None
    inner = brute.influence_over_starts(staying(p0, p1), node + (right or 0), node, left, right)
    outer = pk.max_influence(pk.ChainClass.binary(low, high), node, left, right)
    assert inner <= outer + 1e-9 or (isinf(inner) and outer > 100)


@given(intervals(), st.integers(1, 60), st.sampled_from([0.1, 1.0, 5.0]))
def test_binary_class_covers_every_chain_inside(interval, length, epsilon):
    low, high, p0, p1 = interval
    bound = scale(pk.ChainClass.binary(low, high), length, epsilon)
    assert bound >= scale(pk.ChainClass.any_start(staying(p0, p1)), length, epsilon) * (1 - 1e-9)
    corners = [scale(pk.ChainClass.any_start(staying(p, p)), length, epsilon) for p in (low, high)]
    assert bound == close(max(corners), rel=1e-9)


@pytest.mark.parametrize(("low", "high"), [(0, 0.5), (0.5, 1), (0, 1), (1, 1), (0, 0)])
def test_binary_classes_with_frozen_or_alternating_chains_need_group_privacy(low, high):
    assert scale(pk.ChainClass.binary(low, high), 500, 1) == close(500)
    with pytest.raises(pk.NotApplicable, match="never mix"):
        pk.markov_quilt_approx(pk.ChainClass.binary(low, high), pk.count(0, 500), 1)


@given(intervals())
def test_mixing_bounds_hold_for_every_binary_chain_inside(interval):
    low, high, p0, p1 = interval
    theta = pk.ChainClass.binary(low, high)
    try:
        (known,) = theta.mixing_bounds()
    except pk.NotApplicable:
        assert low < 1e-12 or high > 1 - 1e-12
        return
    chain = pk.MarkovChain.steady(staying(p0, p1))
    assert known.pi_min <= chain.pi_min * (1 + 1e-9)
    assert known.contraction >= abs(p0 + p1 - 1) - 1e-12
    assert known.gap <= 2 * (1 - abs(p0 + p1 - 1)) + 1e-12


# --- what classes hold ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "theta",
    [
        pk.ChainClass.of(pk.MarkovChain([0.3, 0.7], PAPER, states=["a", "b"])),
        pk.ChainClass.any_start(PAPER, [[0.5, 0.5], [0.25, 0.75]], states=["a", "b"]),
        pk.ChainClass.binary(0.2, 0.7, states=["a", "b"]),
        pk.ChainClass.mixing(["a", "b", "c"], 0.1, 0.5),
        pk.ChainClass.mixing(["a", "b"], 0.1, 1.5, reversible=True),
    ],
)
def test_json_both_ways(theta):
    back = pk.ChainClass.from_json(theta.to_json())
    assert type(back) is type(theta)
    assert back.to_dict() == theta.to_dict()
    assert json.loads(theta.to_json()) == json.loads(back.to_json())


def test_json_of_a_chain_is_a_class_of_one():
    theta = pk.ChainClass.from_json(pk.MarkovChain.steady(PAPER).to_json())
    assert scale(theta, 100, 1) == close(scale(pk.MarkovChain.steady(PAPER), 100, 1))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON"),
        ("[1, 2]", "JSON object"),
        ("7", "JSON object"),
        ('{"kind": "magic"}', "magic.*must be one of"),
        ('{"kind": "binary", "low": 0.2}', "high"),
        ('{"kind": "finite"}', "chains"),
        ('{"kind": "finite", "chains": []}', "at least one"),
        ('{"kind": "any_start"}', "transitions"),
        ("{}", "transition"),
        ('{"kind": "finite", "chains": 3}', "finite is malformed"),
        ('{"kind": "finite", "chains": [3]}', "finite is malformed"),
        ('{"kind": "any_start", "transitions": 3}', "any_start is malformed"),
        ('{"kind": "mixing", "states": null, "pi_min": 0.2, "gap": 0.5}', "states"),
    ],
)
def test_json_of_something_else(text, message):
    with pytest.raises(ValueError, match=message):
        pk.ChainClass.from_json(text)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (pk.ChainClass.of, "at least one chain"),
        (lambda: pk.ChainClass.of(PAPER), "MarkovChain"),
        (
            lambda: pk.ChainClass.of(
                pk.MarkovChain.steady(PAPER), pk.MarkovChain.steady(PAPER, states=["a", "b"])
            ),
            "same states",
        ),
        (pk.ChainClass.any_start, "at least one matrix"),
        (lambda: pk.ChainClass.any_start(PAPER, np.eye(3)), "sizes"),
        (lambda: pk.ChainClass.any_start([[0.5, 0.6], [0.5, 0.5]]), "transition 1: row 0 sums"),
        (lambda: pk.ChainClass.any_start(PAPER, states=["a"]), "labels"),
        (lambda: pk.ChainClass.binary(0.8, 0.2), "low <= high"),
        (lambda: pk.ChainClass.binary(-0.1, 0.2), "0 <= low"),
        (lambda: pk.ChainClass.binary(0.1, 1.2), "high <= 1"),
        (lambda: pk.ChainClass.binary(float("nan"), 1), "low"),
        (lambda: pk.ChainClass.binary(0.1, 0.2, states=["a"]), "labels"),
        (lambda: pk.ChainClass.mixing(0, 0.2, 0.5), "states"),
        (lambda: pk.ChainClass.mixing(2, 0, 0.5), "pi_min"),
        (lambda: pk.ChainClass.mixing(2, 0.6, 0.5), "cannot all"),
        (lambda: pk.ChainClass.mixing(2, 0.2, 0), "gap"),
        (lambda: pk.ChainClass.mixing(2, 0.2, 1.5), "at most 1"),
        (lambda: pk.ChainClass.mixing(2, 0.2, 2.5, reversible=True), "at most 2"),
        (lambda: pk.ChainClass.mixing(2, 0.2, inf), "gap"),
    ],
)
def test_bad_classes(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_classes_cannot_be_changed():
    theta = pk.ChainClass.binary(0.2, 0.8)
    with pytest.raises(AttributeError):
        theta.low = 0.5
    matrix = np.array(PAPER)
    some = pk.ChainClass.any_start(matrix)
    before = scale(some, 50, 1)
    matrix[:] = 0.5
    assert scale(some, 50, 1) == before
    with pytest.raises(ValueError, match="read-only"):
        some.transitions[0][0, 0] = 0.5
