"""One chain and the facts that follow from it."""

import json
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import pufferkit as pk
from tests.oracles import brute
from tests.strategies.generators import chains, positive_chains

PAPER = [[0.9, 0.1], [0.4, 0.6]]
close = pytest.approx


def cycle(size: int) -> np.ndarray:
    return np.roll(np.eye(size), 1, axis=1)


def in_fractions(matrix: np.ndarray) -> list[list[Fraction]]:
    """The floats as they are, each row scaled to sum to one exactly."""
    rows = [[Fraction(p) for p in row] for row in np.asarray(matrix).tolist()]
    return [[p / sum(row) for p in row] for row in rows]


# --- the stationary distribution ------------------------------------------------------------------


@given(positive_chains(5))
def test_stationary_distribution_is_the_exact_one(chain):
    exact = [float(p) for p in brute.exact_stationary(chain.transition)]
    assert pk.MarkovChain.steady(chain.transition).stationary == close(exact, rel=1e-13)


@pytest.mark.parametrize("bridge", [1e-3, 1e-9, 1e-12, 1e-15, 1e-100, 1e-250])
def test_nearly_decomposable_chain_keeps_every_digit(bridge):
    """Two blocks joined by a bridge: a linear solve loses all digits here, GTH none."""
    matrix = np.zeros((5, 5))
    matrix[:2, :2] = [[0.7, 0.3], [0.2, 0.8]]
    matrix[2:, 2:] = [[0.1, 0.6, 0.3], [0.5, 0.25, 0.25], [0.3, 0.3, 0.4]]
    matrix[1, 2], matrix[4, 0] = 3 * bridge, 2 * bridge
    chain = pk.MarkovChain.steady(matrix / matrix.sum(axis=1, keepdims=True))
    exact = brute.exact_stationary(in_fractions(chain.transition))
    assert chain.stationary == close([float(p) for p in exact], rel=1e-13)


def test_bridges_in_a_row():
    """A ladder of states joined by ever weaker bridges."""
    size = 8
    matrix = np.zeros((size, size))
    for x in range(size - 1):
        matrix[x, x + 1], matrix[x + 1, x] = 10.0 ** -(3 * x + 2), 10.0 ** -(2 * x + 3)
    matrix[range(size), range(size)] = 1 - matrix.sum(axis=1)
    chain = pk.MarkovChain.steady(matrix)
    exact = brute.exact_stationary(in_fractions(chain.transition))
    assert chain.stationary == close([float(p) for p in exact], rel=1e-12)


@pytest.mark.parametrize("up", [0.1, 0.9])
@pytest.mark.parametrize("size", [100, 400, 600])
def test_stationary_distributions_that_span_more_than_floats_can(size, up):
    """A walk with drift: the distribution is geometric, down to 9^-600."""
    walk = np.zeros((size, size))
    for x in range(size):
        walk[x, min(x + 1, size - 1)] += up
        walk[x, max(x - 1, 0)] += 1 - up
    distribution = pk.MarkovChain.steady(walk).stationary
    ratio = up / (1 - up)
    middle = range(1, 40) if up < 0.5 else range(size - 40, size)
    assert np.isfinite(distribution).all()
    assert distribution.sum() == close(1)
    assert [distribution[x] / distribution[x - 1] for x in middle] == close([ratio] * len(middle))


def test_hundreds_of_states():
    rng = np.random.default_rng(0)
    matrix = rng.dirichlet(np.full(400, 0.1), 400)
    chain = pk.MarkovChain.steady(matrix)
    assert chain.stationary @ chain.transition == close(chain.stationary, rel=1e-11)
    assert chain.is_stationary
    assert 0 < chain.contraction < 1


def test_transient_states_have_stationary_probability_zero():
    chain = pk.MarkovChain.steady([[0.5, 0.25, 0.25], [0, 0.9, 0.1], [0, 0.4, 0.6]])
    assert chain.stationary == close([0, 0.8, 0.2])


def test_several_closed_classes_have_no_one_stationary_distribution():
    with pytest.raises(ValueError, match="not unique"):
        pk.MarkovChain.steady(np.eye(3))
    chain = pk.MarkovChain([0.2, 0.3, 0.5], np.eye(3))
    assert chain.is_stationary
    with pytest.raises(ValueError, match="closed classes"):
        _ = chain.stationary


@given(chains(4), st.integers(1, 30))
def test_marginals_by_listing(chain, node):
    truth = [
        float(p) for p in brute._row(chain.initial, brute.exact_power(chain.transition, node - 1))
    ]
    assert chain.believed.marginal(node) == close(truth, rel=1e-11, abs=1e-300)


@given(chains(4))
def test_is_stationary_means_that_the_distribution_does_not_move(chain):
    after = brute._row(chain.initial, chain.transition)
    assert chain.believed.is_stationary == (after == chain.initial)


def test_is_stationary_looks_at_rare_states_too():
    transition = [[1 - 1e-15, 1e-15], [0.5, 0.5]]
    distribution = pk.MarkovChain.steady(transition).stationary
    twice = [1 - 2 * distribution[1], 2 * distribution[1]]
    assert np.abs(np.array(twice) - distribution).max() < 1e-14
    assert not pk.MarkovChain(twice, transition).is_stationary


@given(chains(4), st.integers(1, 4))
def test_limit_distribution_is_where_the_distribution_goes(chain, node):
    """Without transient states, far from the start it is at its limit in the same phase."""
    believed = chain.believed
    inside = {x for c in believed.closed_classes for x in c.members.tolist()}
    if any(p for x, p in enumerate(chain.initial) if x not in inside):
        return
    far = node + believed.period * 4096
    distribution = believed.initial @ np.linalg.matrix_power(believed.transition, far - 1)
    assert believed.limit_distribution(node) == close(distribution, abs=1e-6)
    assert believed.limit_distribution(far) == close(believed.limit_distribution(node))


# --- structure ------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 3, 10, 300])
def test_period_of_a_cycle(size):
    chain = pk.MarkovChain.steady(cycle(size))
    assert chain.period == size
    assert chain.is_irreducible
    assert chain.stationary == close([1 / size] * size)


@pytest.mark.parametrize(
    ("edges", "period"),
    [
        ([(0, 1), (1, 0)], 2),
        ([(0, 1), (1, 2), (2, 0), (0, 0)], 1),
        ([(0, 1), (1, 0), (1, 2), (2, 1)], 2),
        ([(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 2)], 3),
        ([(0, 1), (1, 2), (2, 3), (3, 0), (1, 0)], 2),
        ([(0, 1), (1, 2), (2, 0), (1, 0)], 1),
        ([(0, 1), (1, 0), (2, 3), (3, 4), (4, 2)], 6),  # two closed classes: least common multiple
        ([(0, 0), (0, 1), (1, 2), (2, 1)], 2),  # a transient state has no say
    ],
)
def test_period(edges, period):
    size = 1 + max(max(edge) for edge in edges)
    matrix = np.zeros((size, size))
    for x, y in edges:
        matrix[x, y] = 1
    matrix /= matrix.sum(axis=1, keepdims=True)
    assert pk.MarkovChain(np.full(size, 1 / size), matrix).period == period


@given(chains(5))
def test_irreducible_and_period_by_powers(chain):
    """All of (I + P)^n positive; period from the return times of one state."""
    size = chain.size
    steps = np.array(chain.transition, dtype=float) > 0
    lazy = np.linalg.matrix_power((steps | np.eye(size, dtype=bool)).astype(int), size) > 0
    assert chain.believed.is_irreducible == lazy.all()
    if lazy.all():
        power, returns = np.eye(size, dtype=int), 0
        for n in range(1, 4 * size * size):
            power = (power @ steps > 0).astype(int)
            if power[0, 0]:
                returns = np.gcd(returns, n)
        assert chain.believed.period == returns


def test_one_state():
    chain = pk.MarkovChain.steady([[1]])
    assert (chain.period, chain.is_irreducible, chain.is_reversible) == (1, True, True)
    assert (chain.contraction, chain.eigengap, chain.pi_min) == (0, 1, 1)
    assert chain.reversal.transition.tolist() == [[1]]
    assert chain.sample(3, seed=0).tolist() == [0, 0, 0]


def test_reducible_chain_has_no_gap():
    chain = pk.MarkovChain([1, 0], [[0.5, 0.5], [0, 1]])
    assert not chain.is_irreducible
    assert not chain.is_reversible
    with pytest.raises(ValueError, match="reducible"):
        _ = chain.eigengap
    with pytest.raises(ValueError, match="stationary probability 0"):
        _ = chain.reversal


# --- reversal and gaps ----------------------------------------------------------------------------


@given(positive_chains(4))
def test_reversal_is_definition_4_7(chain):
    pi = brute.exact_stationary(chain.transition)
    backwards = [
        [chain.transition[y][x] * pi[y] / pi[x] for y in range(chain.size)]
        for x in range(chain.size)
    ]
    steady = pk.MarkovChain.steady(chain.transition)
    assert steady.reversal.transition == close(np.array(backwards, dtype=float), rel=1e-12)
    assert steady.reversal.reversal.transition == close(steady.transition, rel=1e-12)


@given(positive_chains(4))
def test_eigengap_is_formula_7(chain):
    """All eigenvalues of P P* but one 1, by a solver that knows nothing of symmetry."""
    steady = pk.MarkovChain.steady(chain.transition)
    product = steady.transition @ steady.reversal.transition
    second = np.sort(np.abs(np.linalg.eigvals(product)))[-2]
    assert steady.eigengap == close(1 - second, abs=1e-7)
    assert steady.eigengap <= 1 - second + 1e-7


def test_gap_counts_eigenvalues_with_multiplicity():
    """Irreducible and aperiodic, and yet P P* has the eigenvalue 1 twice.

    P P* takes a step and then a step back. From 1 the step leads to 2, and back only to 1. (7) as
    printed skips both eigenvalues 1 and finds a gap, though one step does not contract at all.
    """
    matrix = [[0, 1, 0], [0, 0, 1], [0.5, 0.5, 0]]
    chain = pk.MarkovChain.steady(matrix)
    assert chain.is_irreducible
    assert chain.period == 1
    product = chain.transition @ chain.reversal.transition
    values = np.sort(np.abs(np.linalg.eigvals(product)))
    assert values[-2:] == close([1, 1])
    printed = 1 - max(value for value in values if value < 1 - 1e-9)
    assert printed > 0.1
    assert chain.eigengap == close(0, abs=1e-9)
    assert chain.eigengap >= 0


def test_reversible():
    assert pk.MarkovChain.steady(PAPER).is_reversible
    assert not pk.MarkovChain.steady(cycle(3)).is_reversible
    walk = [[0.5, 0.5, 0], [0.25, 0.5, 0.25], [0, 0.5, 0.5]]
    assert pk.MarkovChain.steady(walk).is_reversible
    with pytest.raises(ValueError, match="not reversible"):
        _ = pk.MarkovChain.steady(
            [[0.1, 0.8, 0.1], [0.1, 0.1, 0.8], [0.8, 0.1, 0.1]]
        ).reversible_eigengap


@given(positive_chains(4), st.integers(1, 12))
def test_contraction_bounds_the_distance_from_stationarity(chain, steps):
    """What the approximation stands on: |P^t(x, y) / pi(y) - 1| <= c^t (1 / pi_min - 1)."""
    steady = pk.MarkovChain.steady(chain.transition)
    distance = np.abs(steady.power(steps) / steady.stationary - 1).max()
    assert distance <= steady.contraction**steps * (1 / steady.pi_min - 1) + 1e-12


# --- simulation -----------------------------------------------------------------------------------


def test_sample_follows_the_matrix():
    matrix = np.array(
        [[0.5, 0.3, 0.2, 0], [0.1, 0.1, 0.4, 0.4], [0, 0, 0.45, 0.55], [0.7, 0.1, 0.1, 0.1]]
    )
    path = pk.MarkovChain([0, 1, 0, 0], matrix).sample(40_000, seed=1)
    assert path[0] == 1
    moves = np.zeros((4, 4))
    np.add.at(moves, (path[:-1], path[1:]), 1)
    assert (moves[matrix == 0] == 0).all()
    for x in range(4):
        seen, expected = moves[x][matrix[x] > 0], matrix[x][matrix[x] > 0] * moves[x].sum()
        assert stats.chisquare(seen, expected).pvalue > 1e-4
        assert stats.chisquare(seen).pvalue < 1e-9  # against all moves being as likely


def test_sample_never_takes_impossible_moves():
    chain = pk.MarkovChain([1, 0], [[1 - 1e-17, 0], [0.5, 0.5]])
    assert set(chain.sample(10_000, seed=4).tolist()) == {0}


@pytest.mark.parametrize("length", [0, -1, 2.5, "7"])
def test_sample_length(length):
    with pytest.raises(ValueError, match="length"):
        pk.MarkovChain.steady(PAPER).sample(length)


# --- what a chain is ------------------------------------------------------------------------------


@given(chains(4))
def test_json_both_ways_keeps_every_digit(chain):
    there = chain.believed
    back = pk.MarkovChain.from_json(there.to_json())
    assert back.initial.tolist() == there.initial.tolist()
    assert back.transition.tolist() == there.transition.tolist()
    assert back.states == there.states


def test_json_keeps_labels_and_fills_in_a_stationary_start():
    chain = pk.MarkovChain([0.5, 0.5], PAPER, states=["rest", "run"])
    assert pk.MarkovChain.from_json(chain.to_json()).states == ("rest", "run")
    data = {key: value for key, value in chain.to_dict().items() if key != "initial"}
    assert pk.MarkovChain.from_json(json.dumps(data)).initial == close([0.8, 0.2])


@pytest.mark.parametrize("text", ["", "nonsense", "[]", "3", "{}", '{"transition": "none"}'])
def test_json_of_something_else(text):
    with pytest.raises(ValueError):  # noqa: PT011
        pk.MarkovChain.from_json(text)


@pytest.mark.parametrize(
    ("initial", "transition", "message"),
    [
        ([0.5, 0.5], [[0.9, 0.2], [0.4, 0.6]], "row 0 sums to 1.1"),
        ([0.5, 0.5], [[0.9, 0.1], [0.4, 0.5]], "row 1 sums to 0.9"),
        ([0.5, 0.5], [[1.1, -0.1], [0.4, 0.6]], "below 0"),
        ([0.5, 0.5], [[0.9, float("nan")], [0.4, 0.6]], "nan"),
        ([0.5, 0.5], [[0.9, float("inf")], [0.4, 0.6]], "inf"),
        ([0.5, 0.5], [[0.9, 0.1]], "square"),
        ([0.5, 0.5], [[0.9, 0.1], [0.4]], "transition"),
        ([0.5, 0.5], [], "square"),
        ([0.5, 0.5], "matrix", "transition"),
        ([0.5, 0.5], None, "transition"),
        ([0.5, 0.4], PAPER, "initial: sums to 0.9"),
        ([1.5, -0.5], PAPER, "initial.*below 0"),
        ([0.5, float("nan")], PAPER, "initial"),
        ([1], PAPER, "1 entries but transition has 2 rows"),
        ([], PAPER, "initial"),
        ([[0.5, 0.5]], PAPER, "initial"),
    ],
)
def test_bad_chains(initial, transition, message):
    with pytest.raises(ValueError, match=message):
        pk.MarkovChain(initial, transition)


@pytest.mark.parametrize(
    ("states", "message"), [(["a"], "1 labels for 2"), (["a", "a"], "twice"), ([], "states")]
)
def test_bad_labels(states, message):
    with pytest.raises(ValueError, match=message):
        pk.MarkovChain([0.5, 0.5], PAPER, states=states)


def test_rows_are_rescaled_when_they_are_off_by_rounding_only():
    chain = pk.MarkovChain([0.5, 0.5], [[0.9, 0.1 + 1e-10], [0.4, 0.6]])
    assert chain.transition.sum(axis=1) == close([1, 1], abs=1e-15)
    with pytest.raises(ValueError, match="sums to"):
        pk.MarkovChain([0.5, 0.5], [[0.9, 0.1 + 1e-6], [0.4, 0.6]])


def test_chains_cannot_be_changed():
    matrix = np.array(PAPER)
    chain = pk.MarkovChain([0.5, 0.5], matrix)
    matrix[0, 0] = 7
    assert chain.transition[0, 0] == 0.9
    for array in (chain.initial, chain.transition, chain.stationary):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    with pytest.raises(AttributeError):
        chain.initial = np.array([1.0, 0.0])
    with pytest.raises(AttributeError):
        chain.states = (1, 2)


@pytest.mark.parametrize("steps", [-1, 0.5, None])
def test_bad_powers_and_nodes(steps):
    chain = pk.MarkovChain.steady(PAPER)
    with pytest.raises(ValueError, match="steps"):
        chain.power(steps)
    with pytest.raises(ValueError, match="node"):
        chain.marginal(steps)
    assert chain.power(0).tolist() == [[1, 0], [0, 1]]


def test_a_chain_with_other_secrets_is_a_class_of_one():
    chain = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    runs = pk.Secrets.runs(3)
    assert (
        chain.with_secrets(runs).to_dict() == pk.ChainClass.of(chain).with_secrets(runs).to_dict()
    )
