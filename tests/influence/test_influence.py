"""Max-influence: fast formulas against [Q] Definition 4.1."""

from fractions import Fraction
from math import inf, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pufferkit as pk
from tests.oracles import brute
from tests.oracles.cases import INFLUENCE
from tests.strategies.generators import chains, matrices, positive_chains

close = pytest.approx
PAPER = [[0.9, 0.1], [0.4, 0.6]]


def exactly(chain: pk.MarkovChain) -> tuple[list[Fraction], list[list[Fraction]]]:
    """The floats a chain really holds, as fractions."""
    return [Fraction(p) for p in chain.initial.tolist()], [
        [Fraction(p) for p in row] for row in chain.transition.tolist()
    ]


@pytest.mark.parametrize("case", INFLUENCE)
def test_reference_cases(case):
    chain = pk.MarkovChain(case.initial, case.transition)
    influence = pk.max_influence(chain, case.node, case.left, case.right)
    assert influence == case.influence or influence == close(case.influence, abs=1e-9)


def test_example_of_section_4_3():
    chain = pk.MarkovChain([0.8, 0.2], PAPER)
    assert pk.max_influence(chain, 2) == 0
    assert pk.max_influence(chain, 2, left=1) == close(log(6))
    assert pk.max_influence(chain, 2, right=1) == close(log(6))
    assert pk.max_influence(chain, 2, left=1, right=1) == close(log(36))


def test_printed_formula_counts_impossible_endpoints():
    sure_start = pk.MarkovChain([1, 0], PAPER)
    # X_1 is 0 for sure: seeing it tells nothing about X_2, but (5) lets it be 1.
    assert pk.max_influence(sure_start, 2, left=1) == close(0, abs=1e-11)
    assert pk.max_influence(sure_start, 2, left=1, influence="formula") == close(log(13.5))


@st.composite
def quilted(draw, of=None, longest=6):
    chain = draw(of if of is not None else chains(3))
    length = draw(st.integers(1, longest))
    node = draw(st.integers(1, length))
    left = draw(st.none() | st.integers(1, node - 1)) if node > 1 else None
    right = draw(st.none() | st.integers(1, length - node)) if node < length else None
    return chain, length, node, left, right


@given(quilted())
def test_influence_is_that_of_the_definition(case):
    chain, length, node, left, right = case
    truth = brute.influence(*chain, length, node, left, right)
    influence = pk.max_influence(chain.believed, node, left, right)
    assert influence == close(truth, abs=1e-9)
    assert influence >= 0


@given(quilted())
def test_printed_formula_is_formula_5_over_all_sources(case):
    chain, _, node, left, right = case
    truth = brute.three_point_influence(*chain, node, left, right, all_sources=True)
    printed = pk.max_influence(chain.believed, node, left, right, influence="formula")
    assert printed == close(truth, abs=1e-9)
    assert printed >= pk.max_influence(chain.believed, node, left, right) - 1e-12


@given(quilted(of=st.integers(2, 3).flatmap(matrices), longest=5))
def test_any_start_is_the_supremum_over_starts(case):
    transition, length, node, left, right = case
    transition = [[float(p) for p in row] for row in transition]
    truth = brute.influence_over_starts(transition, length, node, left, right)
    influence = pk.max_influence(pk.ChainClass.any_start(transition), node, left, right)
    assert influence == close(truth, abs=1e-9)


# --- zeros ----------------------------------------------------------------------------------------


def test_certain_events_are_infinitely_telling():
    swap = [[0, 1], [1, 0]]
    assert pk.max_influence(pk.MarkovChain([0.5, 0.5], swap), 5, left=3) == inf
    assert pk.max_influence(pk.MarkovChain([0.5, 0.5], swap), 5, right=10**6) == inf


def test_a_node_with_one_possible_value_has_no_secret():
    swap = pk.MarkovChain([1, 0], [[0, 1], [1, 0]])
    assert pk.max_influence(swap, 5, left=3, right=2) == 0
    assert pk.max_influence(pk.MarkovChain([1], [[1]]), 5, left=3, right=2) == 0


def test_zero_over_zero_is_no_event():
    # State 2 is only seen at the first node: at later nodes neither secret reaches it.
    chain = pk.MarkovChain([0.3, 0.3, 0.4], [[0.5, 0.5, 0], [0.25, 0.75, 0], [0.5, 0.5, 0]])
    assert pk.max_influence(chain, 2, right=1) == close(log(2))


# --- rounding: never below the truth --------------------------------------------------------------


@given(positive_chains(3), st.integers(1, 200), st.integers(0, 200), st.integers(0, 200))
def test_computed_influence_is_not_below_the_exact_one(case, node, left, right):
    chain = case.believed
    left, right = left % node or None, right or None
    truth = brute.three_point_influence(*exactly(chain), node, left, right)
    influence = pk.max_influence(chain, node, left, right)
    assert truth * (1 - 1e-15) <= influence <= truth + 1e-10


@given(positive_chains(3), st.integers(1, 150), st.integers(0, 150))
def test_stationary_influence_is_not_below_the_exact_one(case, left, right):
    chain = pk.MarkovChain.steady(case.transition)
    _, matrix = exactly(chain)
    # The float rows may sum to 1 only to rounding; the chain holds its own start.
    truth = brute.three_point_influence(exactly(chain)[0], matrix, left + 1, left, right or None)
    influence = pk.max_influence(chain, left + 1, left, right or None)
    assert truth * (1 - 1e-15) <= influence <= truth + 1e-10


@pytest.mark.parametrize("steps", [100, 700, 3000])
@pytest.mark.parametrize("p", [Fraction(1, 1000), Fraction(1, 10), Fraction(1, 2)])
def test_underflow_never_lowers_the_influence(steps, p):
    """A ladder climbed with probability p and left for its foot: P^n reaches p^n, then less."""
    size = 5
    climb = [[Fraction(0)] * size for _ in range(size)]
    for x in range(size):
        climb[x][min(x + 1, size - 1)] += p ** (steps // 20)
        climb[x][0] += 1 - p ** (steps // 20)
    chain = pk.MarkovChain([1, 0, 0, 0, 0], climb)
    truth = brute.three_point_influence(*exactly(chain), 9, 3, 2)
    assert pk.max_influence(chain, 9, 3, 2) >= truth * (1 - 1e-12)


@pytest.mark.slow
def test_long_sparse_chain_that_underflows():
    """From the foot the last state is 24 steps of probability 1e-20 away: 1e-480."""
    size = 25
    drift = np.zeros((size, size))
    for x in range(size):
        drift[x, min(x + 1, size - 1)] += 1e-20
        drift[x, max(x - 1, 0)] += 1 - 1e-20
    chain = pk.MarkovChain([1] + [0] * (size - 1), drift)
    initial, matrix = exactly(chain)
    for node, left, right in [(40, 20, None), (40, None, 1), (45, 20, 30), (45, 44, 30)]:
        truth = brute.three_point_influence(initial, matrix, node, left, right)
        influence = pk.max_influence(chain, node, left, right)
        assert influence >= truth * (1 - 1e-12)


def test_rows_that_differ_only_by_rounding_do_not_go_negative():
    chain = pk.MarkovChain([0.5, 0.5], [[1 / 3, 2 / 3], [1 / 3 + 1e-16, 2 / 3]])
    for n in (1, 10, 10**6):
        assert 0 <= pk.max_influence(chain, n + 1, n, n) < 1e-8


# --- arguments ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"node": 0}, "node"),
        ({"node": 1.5}, "node"),
        ({"node": 2, "left": 2}, "left"),
        ({"node": 2, "left": 0}, "left"),
        ({"node": 2, "right": 0}, "right"),
        ({"node": 2, "right": 1, "influence": "guess"}, "influence"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        pk.max_influence(pk.MarkovChain([0.5, 0.5], PAPER), **arguments)


def test_mixing_class_has_no_exact_influence():
    with pytest.raises(pk.NotApplicable, match="pi_min and gap"):
        pk.max_influence(pk.ChainClass.mixing(2, 0.2, 0.75), 2, 1)
