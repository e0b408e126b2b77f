"""The Markov Quilt Mechanism: the paper's numbers, the optimum over all quilts, and privacy."""

from math import inf, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pufferkit as pk
from pufferkit.influence.quilts import chains as influence_of_chains
from tests.oracles import brute
from tests.oracles.cases import QUILT_EXACT
from tests.strategies.generators import chains, epsilons, matrices, positive_chains, walk_with_drift

close = pytest.approx

THETA_1 = pk.MarkovChain([1, 0], [[0.9, 0.1], [0.4, 0.6]])
THETA_2 = pk.MarkovChain([0.9, 0.1], [[0.8, 0.2], [0.3, 0.7]])


def scale(beliefs, lengths, epsilon, **options):
    """Noise for a 1-Lipschitz query."""
    return pk.markov_quilt(beliefs, pk.count(0, lengths), epsilon, **options).scale


# --- the paper ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("theta", "reading", "score", "node", "quilt"),
    [
        (THETA_1, "definition", 12.93405, 8, (1, 13)),
        (THETA_1, "formula", 13.02192, 8, (3, 13)),
        (THETA_2, "definition", 10.64019, 6, (10,)),
        (THETA_2, "formula", 10.64019, 6, (10,)),
    ],
)
def test_running_example_of_section_4_4(theta, reading, score, node, quilt):
    calibration = pk.markov_quilt(theta, pk.count(1, 100), 1, influence=reading)
    assert calibration.scale == close(score, abs=5e-6)
    assert (calibration.evidence.node, calibration.evidence.quilt) == (node, quilt)


@pytest.mark.parametrize(("reading", "score"), [("definition", 12.93405), ("formula", 13.02192)])
def test_running_example_takes_the_larger_of_its_class(reading, score):
    theta = pk.ChainClass.of(THETA_2, THETA_1)
    calibration = pk.markov_quilt(theta, pk.count(1, 100), 1, influence=reading)
    assert calibration.scale == close(score, abs=5e-6)
    assert calibration.evidence.belief == "chain 2 of 2"


def test_example_of_section_4_3():
    chain = pk.MarkovChain([0.8, 0.2], [[0.9, 0.1], [0.4, 0.6]])
    influences = [0, log(6), log(6), log(36)]
    scores = [n / (10 - e) for n, e in zip([3, 2, 2, 1], influences, strict=True)]
    assert scores == close([0.3, 0.2437, 0.2437, 0.1558], abs=5e-5)
    calibration = pk.markov_quilt(chain, pk.count(1, 3), 10)
    assert calibration.scale == close(scores[3])
    assert (calibration.evidence.node, calibration.evidence.quilt) == (2, (1, 3))
    assert calibration.evidence.influence == close(log(36))


@pytest.mark.parametrize("case", QUILT_EXACT)
def test_reference_cases(case):
    chain = pk.MarkovChain(case.initial, case.transition)
    calibration = pk.markov_quilt(chain, pk.count(0, case.length), case.epsilon)
    assert calibration.scale == close(case.scale, rel=1e-9)
    if case.node < 30:  # the distribution has settled by then, and nodes tie
        assert calibration.evidence.node == case.node


def test_long_stationary_chains_of_theory():
    table = {
        ((0.9, 0.1), (0.4, 0.6)): (93.073, 12.840, 0.706),
        ((0.8, 0.2), (0.3, 0.7)): (80.739, 10.120, 0.401),
        ((0.9, 0.1), (0.1, 0.9)): (251.371, 31.738, 1.525),
        ((0.99, 0.01), (0.01, 0.99)): (2837.1, 364.40, 21.935),
    }
    for transition, expected in table.items():
        chain = pk.MarkovChain.steady(transition)
        scales = [scale(chain, 10**6, epsilon) for epsilon in (0.2, 1, 5)]
        assert scales == close(expected, rel=1e-3)


# --- the optimum over all quilts ------------------------------------------------------------------


@given(chains(4), st.integers(1, 8), epsilons)
@settings(max_examples=100)
def test_search_finds_the_best_of_all_quilts(chain, length, epsilon):
    believed = chain.believed
    truth = brute.quilt_scale(believed.initial, believed.transition, length, epsilon)
    assert scale(believed, length, epsilon) == close(truth, rel=1e-9)


@pytest.mark.slow
@given(chains(4), st.integers(1, 40), epsilons, st.sampled_from(["definition", "formula"]))
@settings(max_examples=150)
def test_search_agrees_with_a_scan(chain, length, epsilon, reading):
    truth = brute.scan_scale(*chain, length, epsilon, all_sources=reading == "formula")
    assert scale(chain.believed, length, epsilon, influence=reading) == close(truth, rel=1e-9)


@given(chains(3), st.integers(1, 6), epsilons)
def test_the_scan_agrees_with_the_definition(chain, length, epsilon):
    """The scan above is trusted because it gives what listing paths gives."""
    believed = chain.believed
    truth = brute.quilt_scale(believed.initial, believed.transition, length, epsilon)
    assert brute.scan_scale(*chain, length, epsilon) == close(truth, rel=1e-9)


@given(st.integers(1, 3).flatmap(matrices), st.integers(1, 5), epsilons)
def test_any_start_is_the_supremum_over_starts(transition, length, epsilon):
    transition = np.array(transition, dtype=float)
    truth = brute.quilt_scale_over_starts(transition, length, epsilon)
    assert scale(pk.ChainClass.any_start(transition), length, epsilon) == close(truth, rel=1e-9)


@given(st.integers(1, 4).flatmap(matrices), st.integers(1, 30), epsilons)
def test_any_start_agrees_with_a_scan(transition, length, epsilon):
    start = [1 / len(transition)] * len(transition)
    truth = brute.scan_scale(start, transition, length, epsilon, any_start=True)
    assert scale(pk.ChainClass.any_start(transition), length, epsilon) == close(truth, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 2])
@pytest.mark.parametrize("kind", ["given", "stationary", "any start"])
def test_moderately_long_chains_against_a_scan(seed, kind):
    rng = np.random.default_rng(seed)
    size, epsilon = int(rng.integers(2, 4)), float(rng.choice([0.1, 0.5, 2]))
    length = 300 if size == 2 else 120
    transition = rng.dirichlet(np.full(size, 0.6), size) * 0.2 + 0.8 * np.eye(size)
    if seed % 3 == 2:
        transition = np.roll(transition, 1, axis=1)  # nearly periodic
    chain = pk.MarkovChain(rng.dirichlet(np.ones(size)), transition)
    beliefs = {
        "given": chain,
        "stationary": pk.MarkovChain.steady(transition),
        "any start": pk.ChainClass.any_start(transition),
    }[kind]
    start = beliefs.initial if kind == "stationary" else chain.initial
    truth = brute.scan_scale(
        start, chain.transition, length, epsilon, any_start=kind == "any start"
    )
    assert scale(beliefs, length, epsilon) == close(truth, rel=1e-9)


@pytest.mark.slow
@given(st.lists(chains(3, least=3), min_size=1, max_size=4), st.integers(1, 12), epsilons)
def test_a_finite_class_needs_what_its_worst_chain_needs(members, length, epsilon):
    believed = [chain.believed for chain in members]
    calibration = pk.markov_quilt(pk.ChainClass.of(*believed), pk.count(0, length), epsilon)
    alone = [scale(chain, length, epsilon) for chain in believed]
    assert calibration.scale == close(max(alone), rel=1e-9)
    worst = int(calibration.evidence.belief.split()[1]) - 1
    assert alone[worst] == close(max(alone), rel=1e-9)


@pytest.mark.slow
@given(st.lists(positive_chains(2), min_size=2, max_size=30), st.integers(1, 200), epsilons)
def test_screening_of_many_stationary_chains_loses_none(members, length, epsilon):
    steady = [pk.MarkovChain.steady(chain.transition) for chain in members]
    alone = max(scale(chain, length, epsilon) for chain in steady)
    assert scale(pk.ChainClass.of(*steady), length, epsilon) == close(alone, rel=1e-9)


@given(chains(3), st.lists(st.integers(1, 8), min_size=1, max_size=4), epsilons)
def test_several_segments_need_what_their_worst_needs(chain, lengths, epsilon):
    calibration = pk.markov_quilt(chain.believed, pk.count(0, lengths), epsilon)
    truth = max(brute.scan_scale(*chain, length, epsilon) for length in lengths)
    assert calibration.scale == close(truth, rel=1e-9)


@given(chains(3), st.integers(1, 12), epsilons)
def test_evidence_explains_the_scale(chain, length, epsilon):
    calibration = pk.markov_quilt(chain.believed, pk.count(0, length), epsilon)
    why = calibration.evidence
    assert why.length == length
    left = [why.node - n for n in why.quilt if n < why.node]
    right = [n - why.node for n in why.quilt if n > why.node]
    assert len(left) <= 1
    assert len(right) <= 1
    influence = pk.max_influence(chain.believed, why.node, *(left or [None]), *(right or [None]))
    assert why.influence == close(influence, abs=1e-9)
    nearby = {(a, b): n for a, b, n in brute.quilts(length, why.node)}
    kept = nearby[(left or [None])[0], (right or [None])[0]]
    assert calibration.scale == close(kept / (epsilon - influence), rel=1e-9)


# --- order ----------------------------------------------------------------------------------------


def test_lipschitz_constant_multiplies_the_score():
    score = scale(THETA_2, 100, 1)
    assert pk.markov_quilt(THETA_2, pk.histogram([0, 1], 100), 1).scale == close(2 * score)
    assert pk.markov_quilt(THETA_2, pk.total([0, 7], 100), 1).scale == close(7 * score)
    assert pk.markov_quilt(THETA_2, pk.mean([0, 7], 100), 1).scale == close(0.07 * score)
    shares = pk.markov_quilt(THETA_2, pk.relative_frequencies([0, 1], 100), 1)
    assert shares.scale == close(0.02 * score)


# --- chains at the edge ---------------------------------------------------------------------------


def test_one_state_has_nothing_to_hide():
    assert scale(pk.MarkovChain([1], [[1]]), 50, 2) == close(0.5)


def test_independent_entries_need_entry_dp_only():
    chain = pk.MarkovChain.steady([[0.3, 0.7], [0.3, 0.7]])
    assert scale(chain, 10**6, 0.5) == close(2)


def test_a_frozen_chain_needs_group_privacy():
    assert scale(pk.MarkovChain([0.5, 0.5], np.eye(2)), 1000, 1) == close(1000)
    assert scale(pk.ChainClass.any_start(np.eye(3)), 1000, 1) == close(1000)


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 6, 9, 40])
@pytest.mark.parametrize("period", [2, 3, 5, 7])
def test_periodic_chain_with_a_start_of_its_own(length, period):
    """Blocks of two states visited in turn: the distribution of X_i never settles."""
    rng = np.random.default_rng(period)
    transition = np.zeros((2 * period, 2 * period))
    for block in range(period):
        after = (block + 1) % period
        transition[2 * block : 2 * block + 2, 2 * after : 2 * after + 2] = rng.dirichlet([1, 1], 2)
    start = np.zeros(2 * period)
    start[:2] = 0.3, 0.7
    truth = brute.scan_scale(start, transition, length, 1.0)
    assert scale(pk.MarkovChain(start, transition), length, 1.0) == close(truth, rel=1e-9)


def test_start_so_close_to_stationary_that_it_counts_as_such():
    transition = [[0.9, 0.1], [0.4, 0.6]]
    steady = scale(pk.MarkovChain.steady(transition), 10**4, 1)
    for shift in (1e-16, 1e-13, 1e-10, 1e-6):
        near = pk.MarkovChain([0.8 + shift, 0.2 - shift], transition)
        assert scale(near, 10**4, 1) >= steady * (1 - 1e-9)
        assert scale(near, 10**4, 1) == close(steady, rel=1e-3)


@pytest.mark.slow
def test_nearly_decomposable_chain_is_not_taken_for_mixed():
    slow = [[0.6, 0.4, 0, 0], [0.4, 0.6 - 1e-12, 1e-12, 0], [0, 1e-12, 0.5 - 1e-12, 0.5]]
    slow.append([0, 0, 0.5, 0.5])
    assert scale(pk.MarkovChain.steady(slow), 10**6, 1) == close(10**6)


@pytest.mark.slow
def test_very_rare_states_count_as_secrets():
    """A state of stationary probability 1e-12 is as much a secret as any other."""
    transition = [[1 - 1e-12, 1e-12], [0.001, 0.999]]
    chain = pk.MarkovChain.steady(transition)
    truth = brute.scan_scale(chain.initial, transition, 300, 1)
    assert scale(chain, 300, 1) == close(truth, rel=1e-9)
    assert truth == 300


@pytest.mark.slow
def test_distributions_that_underflow_on_the_way():
    """Climbing 180 steps of probability 0.01 passes through 1e-360, which no float can hold."""
    size = 180
    walk = walk_with_drift(size, up=0.01)
    start = np.eye(size)[0]
    # X_1 is sure, so it ends a quilt at no cost; nothing else does.
    assert scale(pk.MarkovChain(start, walk), 190, 1) == close(189)


def test_evidence_names_the_chain_that_needs_the_noise():
    """Two chains whose scores differ; the second must not pass for the worst by rounding."""
    worst = pk.MarkovChain([0, 0.5, 0.5], [[1, 0, 0], [0, 0, 1], [1, 0, 0]])
    mild = pk.MarkovChain([0, 0, 1], [[0, 1, 0]] * 3)
    query = pk.count(0, 5)
    assert pk.markov_quilt(worst, query, 2.5).scale == close(0.8)
    assert pk.markov_quilt(mild, query, 2.5).scale == close(0.4)
    for chains_in_order, name in (([worst, mild], "chain 1 of 2"), ([mild, worst], "chain 2 of 2")):
        calibration = pk.markov_quilt(pk.ChainClass.of(*chains_in_order), query, 2.5)
        assert calibration.scale == close(0.8)
        assert calibration.evidence.belief == name


# --- cost -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "transition", "epsilon"),
    [
        ([0.3, 0.7], [[0.9, 0.1], [0.4, 0.6]], 1),
        ([1, 0], [[0.9, 0.1], [0.4, 0.6]], 1),
        ([1, 0, 0], [[0, 1, 0], [0, 0, 1], [1, 0, 0]], 1),  # nothing is ever secret
        ([1, 0], [[0.99, 0.01], [0, 1]], 1),  # absorbed, sooner or later
        ([1, 0, 0], [[0.99, 0.005, 0.005], [0, 0.9, 0.1], [0, 0.4, 0.6]], 20),  # transient start
        ([0.3, 0.7, 0, 0], np.kron([[0, 1], [1, 0]], [[0.6, 0.4], [0.2, 0.8]]), 1),  # periodic
    ],
)
def test_few_nodes_are_solved_whatever_the_length(start, transition, epsilon, monkeypatch):
    solved = 0
    best_quilt = influence_of_chains.best_quilt

    def counted(*arguments):
        nonlocal solved
        solved += 1
        return best_quilt(*arguments)

    monkeypatch.setattr(influence_of_chains, "best_quilt", counted)
    scale(pk.MarkovChain(start, transition), 150, epsilon)
    assert solved <= 50


@pytest.mark.parametrize("laziness", [1, 3])
def test_search_looks_at_few_quilts(laziness, monkeypatch):
    """Different pairs of secrets bind on either side of the optimum: no one pair excludes a box.

    A scan up to the optimum looks at 100,000 quilts, for the lazier chain at nine times as many.
    """
    evaluations = 0
    worst_pair = influence_of_chains.ChainInfluence.between

    def counted(*arguments):
        nonlocal evaluations
        evaluations += 1
        return worst_pair(*arguments)

    monkeypatch.setattr(influence_of_chains.ChainInfluence, "between", counted)
    quick = np.array(
        [
            [0.967, 0, 0, 0.033],
            [0.045, 0.953, 0, 0.002],
            [0.027, 0.0135, 0.9595, 0],
            [0.0002, 0, 0.0011, 0.9987],
        ]
    )
    lazy = np.eye(4) + (quick - np.eye(4)) / laziness
    noise = scale(pk.MarkovChain.steady(lazy), 10**6, 1)
    assert noise == close({1: 461.4554, 3: 1402.6851}[laziness], rel=1e-6)
    assert evaluations <= 2000


# --- privacy itself -------------------------------------------------------------------------------


@given(chains(3), st.integers(1, 6), epsilons)
@settings(max_examples=80)
def test_released_count_loses_at_most_epsilon(chain, length, epsilon):
    noise = pk.markov_quilt(chain.believed, pk.count(0, length), epsilon)
    initial, transition = chain.believed.initial, chain.believed.transition
    loss = brute.privacy_loss(initial, transition, length, brute.count_of(0), noise.scale)
    assert loss <= epsilon * (1 + 1e-9)


@given(chains(3, least=2), st.integers(1, 5), epsilons)
def test_released_histogram_loses_at_most_epsilon(chain, length, epsilon):
    size = chain.size
    noise = pk.markov_quilt(chain.believed, pk.histogram(range(size), length), epsilon)
    initial, transition = chain.believed.initial, chain.believed.transition
    loss = brute.privacy_loss(initial, transition, length, brute.histogram_of(size), noise.scale)
    assert loss <= epsilon * (1 + 1e-9)


@given(st.integers(2, 3).flatmap(matrices), st.integers(1, 5), epsilons)
def test_any_start_is_private_for_all_starts_tried(transition, length, epsilon):
    transition = np.array(transition, dtype=float)
    theta = pk.ChainClass.any_start(transition)
    noise = pk.markov_quilt(theta, pk.count(0, length), epsilon)
    rng = np.random.default_rng(length)
    size = len(transition)
    starts = [*np.eye(size), *brute.nearly_sure_starts(size), *rng.dirichlet(np.ones(size), 3)]
    for start in starts:
        loss = brute.privacy_loss(start, transition, length, brute.count_of(0), noise.scale)
        assert loss <= epsilon * (1 + 1e-9)


# --- arguments ------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0, -1, float("nan"), inf, "one", None])
def test_bad_epsilon(epsilon):
    with pytest.raises(ValueError, match="epsilon"):
        pk.markov_quilt(THETA_1, pk.count(1, 100), epsilon)


@pytest.mark.parametrize("beliefs", [None, [[0.9, 0.1], [0.4, 0.6]], "chain"])
def test_beliefs_must_be_beliefs(beliefs):
    with pytest.raises(ValueError, match="beliefs"):
        pk.markov_quilt(beliefs, pk.count(1, 100), 1)


def test_unknown_reading():
    with pytest.raises(ValueError, match="influence"):
        pk.markov_quilt(THETA_1, pk.count(1, 100), 1, influence="both")


def test_query_about_other_states():
    with pytest.raises(ValueError, match="states"):
        pk.markov_quilt(THETA_1, pk.histogram(["rest", "run"], 100), 1)
    with pytest.raises(ValueError, match="not among the states"):
        pk.markov_quilt(THETA_1, pk.count("run", 100), 1)


def test_mixing_class_needs_the_approximation():
    with pytest.raises(pk.NotApplicable, match="markov_quilt_approx"):
        pk.markov_quilt(pk.ChainClass.mixing(2, 0.2, 0.75), pk.count(1, 100), 1)


class TestLongest:
    """l of [Q] Algorithms 3 and 4: quilts of at most so many nearby entries."""

    @staticmethod
    def listed(chain, length, epsilon, longest, influence):
        """The definition: every node, every quilt of at most ``longest`` nearby entries."""
        worst = 0.0
        for i in range(1, length + 1):
            best = length / epsilon
            for a in [None, *range(1, i)]:
                for b in [None, *range(1, length - i + 1)]:
                    nearby = (i if a is None else a) + (length - i + 1 if b is None else b) - 1
                    if nearby > longest or (a is None and b is None):
                        continue
                    e = influence(chain, i, a, b)
                    if e < epsilon:
                        best = min(best, nearby / (epsilon - e))
            worst = max(worst, best)
        return worst

    @pytest.mark.parametrize("longest", [1, 3, 6, 9])
    @pytest.mark.parametrize("start", [None, [1, 0], [0.3, 0.7]])
    def test_it_is_the_least_score_among_the_listed(self, start, longest):
        rows = [[0.7, 0.3], [0.4, 0.6]]
        chain = pk.MarkovChain.steady(rows) if start is None else pk.MarkovChain(start, rows)
        noise = pk.markov_quilt(chain, pk.count(1, 9), 2, longest=longest)
        expected = self.listed(chain, 9, 2, longest, pk.max_influence)
        assert noise.scale == pytest.approx(expected, rel=1e-9)
        assert noise.scale >= pk.markov_quilt(chain, pk.count(1, 9), 2).scale * (1 - 1e-9)
        data = pk.Series.of([chain.sample(9, seed=1).tolist()], [0, 1])
        assert pk.verify(noise.release(data)).ok

    @pytest.mark.parametrize("longest", [20, 60, 100])
    def test_algorithm_4(self, longest):
        chain = pk.MarkovChain.steady([[0.8, 0.2], [0.3, 0.7]])
        noise = pk.markov_quilt_approx(chain, pk.count(1, 100), 1, longest=longest)
        whole = pk.markov_quilt_approx(chain, pk.count(1, 100), 1)
        assert noise.scale >= whole.scale * (1 - 1e-12)
        kept = max(whole.evidence.quilt) - min(whole.evidence.quilt) - 1
        assert (noise.scale == pytest.approx(whole.scale)) == (longest >= kept)

    def test_refusals(self):
        chain = pk.MarkovChain.steady([[0.8, 0.2], [0.3, 0.7]])
        with pytest.raises(ValueError, match="longest"):
            pk.markov_quilt(chain, pk.count(1, 9), 1, longest=0)
        with pytest.raises(pk.NotApplicable, match="longest"):
            pk.markov_quilt(pk.ChainClass.binary(0.3, 0.7), pk.count(1, 9), 1, longest=4)
        gaps = pk.Series.of([[0, 1, None, 0, 1, 1, 0, 0, 1]], [0, 1])
        with pytest.raises(pk.NotApplicable, match="longest"):
            pk.markov_quilt_approx(chain, pk.count(1, gaps), 1, longest=4)
