"""Attackers against brute force and against hmmlearn."""

import subprocess
import sys
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import pufferkit as pk
from pufferkit.audit import ForwardBackward, SingleBit, Viterbi, attackers
from tests.strategies.generators import Chain, chains

CHAIN = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
NOISE = [[0.8, 0.2], [0.3, 0.7]]


def random_case(rng, states, symbols):
    distribution = rng.dirichlet(np.ones(states))
    transition = rng.dirichlet(np.ones(states), size=states)
    emission = rng.dirichlet(np.ones(symbols), size=states)
    return pk.MarkovChain(distribution, transition), emission


def paths_and_weights(chain, matrix, outputs):
    """Every hidden path with its probability together with the outputs."""
    for path in product(range(len(chain)), repeat=len(outputs)):
        weight = chain.initial[path[0]] * matrix[path[0]][outputs[0]]
        for t in range(1, len(path)):
            weight *= chain.transition[path[t - 1], path[t]] * matrix[path[t]][outputs[t]]
        yield path, float(weight)


def posterior_by_paths(chain, matrix, outputs):
    table = np.zeros((len(outputs), len(chain)))
    for path, weight in paths_and_weights(chain, matrix, outputs):
        table[np.arange(len(path)), list(path)] += weight
    return table / table.sum(axis=1, keepdims=True)


@st.composite
def attacks(draw):
    believed: Chain = draw(chains(most=3))
    symbols = draw(st.integers(1, 3))
    weights = st.lists(st.integers(0, 4), min_size=symbols, max_size=symbols).filter(any)
    rows = [draw(weights) for _ in range(believed.size)]
    matrix = np.array([[n / sum(row) for n in row] for row in rows])
    outputs = draw(st.lists(st.integers(0, symbols - 1), min_size=1, max_size=5))
    return believed.believed, matrix, outputs


@given(attacks())
def test_forward_backward_is_the_posterior_over_all_paths(case):
    chain, matrix, outputs = case
    if sum(weight for _, weight in paths_and_weights(*case)) == 0:
        with pytest.raises(ValueError, match=r"at position \d+ cannot happen"):
            ForwardBackward(chain, matrix, range(matrix.shape[1])).posterior(outputs)
        return
    posterior = ForwardBackward(chain, matrix, range(matrix.shape[1])).posterior(outputs)
    assert posterior == pytest.approx(posterior_by_paths(*case), abs=1e-12)


@given(attacks())
def test_viterbi_is_the_likeliest_path(case):
    chain, matrix, outputs = case
    weights = dict(paths_and_weights(*case))
    assume(max(weights.values()) > 0)
    path = Viterbi(chain, matrix, range(matrix.shape[1])).guess(outputs)
    assert weights[tuple(path.tolist())] == pytest.approx(max(weights.values()), rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("states", "symbols"), [(2, 2), (3, 4), (5, 3)])
def test_against_hmmlearn(states, symbols):
    hmm = pytest.importorskip("hmmlearn.hmm")
    rng = np.random.default_rng(states)
    chain, matrix = random_case(rng, states, symbols)
    outputs = rng.integers(0, symbols, size=3000)
    oracle = hmm.CategoricalHMM(n_components=states, init_params="")
    oracle.n_features = symbols
    oracle.startprob_, oracle.transmat_ = chain.initial, chain.transition
    oracle.emissionprob_ = matrix
    theirs = oracle.predict_proba(outputs[:, None])
    assert ForwardBackward(chain, matrix).posterior(outputs) == pytest.approx(theirs, abs=1e-9)
    score, _ = oracle.decode(outputs[:, None], algorithm="viterbi")
    ours = Viterbi(chain, matrix).guess(outputs)
    logs = np.log(chain.initial[ours[0]]) + np.log(matrix[ours, outputs]).sum()
    logs += np.log(chain.transition[ours[:-1], ours[1:]]).sum()
    assert logs == pytest.approx(score, rel=1e-12)  # paths may differ: ties are common


def test_plain_and_compiled_agree(monkeypatch):
    rng = np.random.default_rng(4)
    chain, matrix = random_case(rng, 3, 3)
    outputs = rng.integers(0, 3, size=150)
    plain = ForwardBackward(chain, matrix).posterior(outputs), Viterbi(chain, matrix).guess(outputs)
    monkeypatch.setattr(attackers, "_SHORT", 0)
    assert np.allclose(ForwardBackward(chain, matrix).posterior(outputs), plain[0], atol=1e-13)
    assert (Viterbi(chain, matrix).guess(outputs) == plain[1]).all()


def test_a_million_steps():
    rng = np.random.default_rng(0)
    outputs = rng.integers(0, 2, size=1_000_000)
    posterior = ForwardBackward(CHAIN, NOISE).posterior(outputs)
    assert np.isfinite(posterior).all()
    assert np.abs(posterior.sum(axis=1) - 1).max() < 1e-12
    # Entries far from the ends of a window do not depend on what lies outside it.
    window = ForwardBackward(CHAIN, NOISE).posterior(outputs[500_000:500_400])
    assert posterior[500_200] == pytest.approx(window[200], abs=1e-12)
    assert Viterbi(CHAIN, NOISE).guess(outputs).shape == (1_000_000,)


def test_a_state_that_is_rare_for_long_and_certain_later():
    """Two states that never mix: 3,000 symbols speak for the first, the last one rules it out."""
    chain = pk.MarkovChain([0.5, 0.5], np.eye(2))
    matrix = [[0.9, 0.1, 0.0], [0.1, 0.8, 0.1]]
    outputs = [0] * 3000 + [2]
    posterior = ForwardBackward(chain, matrix).posterior(outputs)
    assert (posterior == [0.0, 1.0]).all()
    assert (Viterbi(chain, matrix).guess(outputs) == 1).all()
    opposite = ForwardBackward(chain, matrix).posterior([0] * 3000)
    assert (opposite[:, 0] == 1).all()


def test_probabilities_at_the_end_of_floats():
    chain = pk.MarkovChain([1 - 1e-300, 1e-300], [[1 - 1e-16, 1e-16], [1e-200, 1 - 1e-16]])
    posterior = ForwardBackward(chain, [[0.5, 0.5, 0], [1e-250, 0.5, 0.5]]).posterior(
        [0, 0, 2] * 200
    )
    assert np.isfinite(posterior).all()
    assert (posterior[2::3, 1] == 1).all()


@pytest.mark.parametrize("attacker", [ForwardBackward, Viterbi])
def test_impossible_outputs_say_where(attacker):
    cycle = pk.MarkovChain([1, 0], [[0, 1], [1, 0]], states=["day", "night"])
    sure = attacker(cycle, np.eye(2))
    assert sure.guess(["day", "night"] * 3).tolist() == ["day", "night"] * 3
    with pytest.raises(ValueError, match="'day' at position 4 cannot happen"):
        sure.guess(["day", "night", "day", "day", "night"])
    with pytest.raises(ValueError, match="position 2001 cannot happen"):
        sure.guess(["day", "night"] * 1000 + ["night"])


def test_a_single_bit_that_cannot_be():
    with pytest.raises(ValueError, match="1 at position 2 cannot happen"):
        SingleBit(pk.MarkovChain([1, 0], np.eye(2)), np.eye(2)).posterior([0, 1])


@pytest.mark.parametrize("attacker", [SingleBit, ForwardBackward, Viterbi])
@pytest.mark.parametrize(
    ("outputs", "said"),
    [
        ([0, 1, -1], "-1 at position 3"),
        (np.array([0, -1, 5]), "-1 at position 2"),
        ([2], "2 at position 1"),
        (["0", 1], "'0' at position 1"),
        ([0, None], "None at position 2"),
        ([0, [1]], r"\[1\] at position 2"),
        ([0, 0.5], "0.5 at position 2"),
        ([], "is empty"),
        ("01", "must be a series"),
        (7, "must be a series"),
        (np.zeros((2, 2), dtype=int), "one row"),
    ],
)
def test_unknown_symbols_say_where(attacker, outputs, said):
    with pytest.raises(ValueError, match=said):
        attacker(CHAIN, NOISE).guess(outputs)


def test_single_bit_weighs_the_symbol_by_the_distribution_of_the_entry():
    posterior = SingleBit(CHAIN, NOISE).posterior([0, 1])
    assert posterior[1] == pytest.approx([0.8 * 0.2 / 0.3, 0.2 * 0.7 / 0.3])
    equal = pk.MarkovChain.steady([[0.7, 0.3], [0.3, 0.7]])
    seen = equal.sample(50, seed=1)
    assert (SingleBit(equal, [[0.7, 0.3], [0.3, 0.7]]).guess(seen) == seen).all()
    moving = pk.MarkovChain([1, 0], [[0.5, 0.5], [0, 1]])
    assert SingleBit(moving, NOISE).posterior([0, 0])[0].tolist() == [1, 0]


def test_labels_and_series():
    chain = pk.MarkovChain.steady(CHAIN.transition, states=["rest", "run"])
    week = pk.Series.of(["rest", "run", "run"], chain.states)
    by_name = ForwardBackward(chain, NOISE).posterior(["rest", "run", "run"])
    assert (ForwardBackward(chain, NOISE).posterior(week) == by_name).all()
    assert (ForwardBackward(CHAIN, NOISE).posterior([0, 1, 1]) == by_name).all()
    assert set(Viterbi(chain, NOISE).guess(week)) <= {"rest", "run"}
    assert Viterbi(chain, NOISE).posterior(week).sum(axis=1).tolist() == [1, 1, 1]
    assert ForwardBackward(chain, np.eye(2)).success(week, week) == 1
    with pytest.raises(ValueError, match="truth: has shape"):
        ForwardBackward(chain, np.eye(2)).success(week, ["rest"])


def test_one_state_and_one_entry():
    only = pk.MarkovChain([1], [[1]])
    assert ForwardBackward(only, [[0.5, 0.5]]).posterior([0, 1]).tolist() == [[1], [1]]
    assert Viterbi(only, [[0.5, 0.5]]).guess([1]).tolist() == [0]


def test_knowing_the_chain_helps():
    chain = pk.MarkovChain.steady([[0.95, 0.05], [0.05, 0.95]])
    noise = np.array([[0.7, 0.3], [0.3, 0.7]])
    truth = chain.sample(20_000, seed=2)
    seen = np.where(np.random.default_rng(3).random(len(truth)) < 0.3, 1 - truth, truth)
    single, path, both = (
        a(chain, noise).success(seen, truth) for a in (SingleBit, Viterbi, ForwardBackward)
    )
    assert single == pytest.approx(0.7, abs=0.02)
    assert both > path > single + 0.1


@pytest.mark.parametrize(
    ("matrix", "said"),
    [
        ([[0.5, 0.5]], "one row for each of the 2 states"),
        ([[0.5, 0.4], [0.5, 0.5]], "matrix row 0: sums to 0.9"),
        ([[1.2, -0.2], [0.5, 0.5]], "below 0"),
        ([[np.nan, 1], [0.5, 0.5]], "not a finite number"),
    ],
)
def test_bad_matrices(matrix, said):
    with pytest.raises(ValueError, match=said):
        ForwardBackward(CHAIN, matrix)


def test_bad_chain_and_symbols():
    with pytest.raises(ValueError, match="must be a MarkovChain"):
        Viterbi([[1]], NOISE)
    with pytest.raises(ValueError, match="3 labels for 2 columns"):
        Viterbi(CHAIN, NOISE, symbols=["a", "b", "c"])


def test_torch_and_numba_stay_out_until_used():
    code = (
        "import sys, pufferkit.audit, pufferkit.cli;"
        "sys.exit('torch' in sys.modules or 'numba' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("attacker", [SingleBit, ForwardBackward, Viterbi])
def test_segments_start_anew(attacker):
    chain = pk.MarkovChain([0.9, 0.1], [[0.7, 0.3], [0.2, 0.8]])
    one, two = [0, 1, 1, 0], [1, 1, 0]
    both = attacker(chain, NOISE).posterior(pk.Series.of([one, two], chain.states))
    alone = [attacker(chain, NOISE).posterior(part) for part in (one, two)]
    assert (both == np.concatenate(alone)).all()
    guesses = attacker(chain, NOISE).guess(pk.Series.of([one, two], chain.states))
    assert guesses.tolist() == both.argmax(axis=1).tolist()


def test_impossible_in_a_later_segment():
    cycle = pk.MarkovChain([1, 0], [[0, 1], [1, 0]])
    with pytest.raises(ValueError, match="1 at position 4 cannot happen"):
        ForwardBackward(cycle, np.eye(2)).posterior(pk.Series.of([[0, 1, 0], [1, 0]], [0, 1]))
