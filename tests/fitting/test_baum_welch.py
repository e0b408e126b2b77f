"""Hidden regimes fitted to sequences of levels, against the definition and against hmmlearn."""

import numpy as np
import pytest
from hmmlearn.hmm import CategoricalHMM
from hypothesis import given, settings
from hypothesis import strategies as st

from pufferkit.beliefs.hidden_model import HiddenModel
from pufferkit.fitting.baum_welch import (
    Symbols,
    expectation,
    fit,
    log_likelihood,
    refine,
)
from tests.oracles import regimes as oracle
from tests.strategies.regimes import EMISSION as E
from tests.strategies.regimes import STAYING as A

P = np.array(
    [[[0.8, 0.1, 0.1], [0.3, 0.6, 0.1], [0.3, 0.3, 0.4]],
     [[0.2, 0.4, 0.4], [0.1, 0.2, 0.7], [0.1, 0.1, 0.8]]]
)  # fmt: skip


def random_model(rng, regimes, levels, within):
    shape = (regimes, levels) if within == "chain" else (regimes,)
    return HiddenModel(
        rng.dirichlet(np.ones(regimes), regimes), rng.dirichlet(np.ones(levels), shape)
    )


def hmmlearn_of(initial, model):
    oracle = CategoricalHMM(model.regimes, n_features=model.levels)
    oracle.startprob_, oracle.transmat_ = initial, model.transition
    oracle.emissionprob_ = model.emission
    return oracle


@given(
    seed=st.integers(0, 10**6),
    within=st.sampled_from(["independent", "chain"]),
    entries=st.lists(st.integers(-1, 2), min_size=2, max_size=5),
)
def test_likelihood_and_moves_are_sums_over_paths(seed, within, entries):
    rng = np.random.default_rng(seed)
    model, initial = random_model(rng, 2, 3, within), rng.dirichlet(np.ones(2))
    data = Symbols.of([entries], 3, within)
    expected = expectation(initial, model.transition, model.emission, data)
    arguments = (initial, model.transition, model.emission, entries)
    assert expected.log_likelihood == pytest.approx(np.log(oracle.likelihood(*arguments)))
    assert expected.moves == pytest.approx(oracle.expected_moves(*arguments))


@pytest.mark.parametrize("within", ["independent", "chain"])
def test_stationary_likelihood_by_definition(within):
    model = HiddenModel(A, E if within == "independent" else P)
    segments = [[0, 2, -1, 1], [1], [2, 2, 0]]
    if within == "independent":
        starts = [model.regime_distribution] * 3
    else:  # the regime that drives the second entry, given the first
        starts = [model.posterior[s[0]] @ A for s in segments]
    pairs = list(zip(starts, segments, strict=True))
    if within == "chain":
        del pairs[1]
    logs = [np.log(oracle.likelihood(s, A, model.emission, e)) for s, e in pairs]
    assert log_likelihood(model, segments) == pytest.approx(sum(logs))


def test_compiled_and_plain_recursion_agree_with_hmmlearn():
    rng = np.random.default_rng(0)
    model, initial = random_model(rng, 4, 5, "independent"), rng.dirichlet(np.ones(4))
    segments = [rng.integers(0, 5, n) for n in (40, 1, 300)]
    data = Symbols.of(segments, 5)
    other = hmmlearn_of(initial, model)
    score = other.score(np.concatenate(segments)[:, None], [40, 1, 300])
    arguments = (initial, model.transition, model.emission, data)
    plain, compiled = expectation(*arguments), expectation(*arguments, rounds=10**6)
    for result in (plain, compiled):
        assert result.log_likelihood == pytest.approx(score, rel=1e-12)
        assert result.moves.sum() == pytest.approx(39 + 299)
        assert result.visits.sum(axis=0) == pytest.approx(data.counts)
    posterior = other.predict_proba(np.concatenate(segments)[:, None], [40, 1, 300])
    assert compiled.visits.sum(axis=1) == pytest.approx(posterior.sum(axis=0))
    assert compiled.moves == pytest.approx(plain.moves)


@pytest.mark.parametrize("within", ["independent", "chain"])
def test_rounds_never_lose_and_the_model_is_found_again(within):
    truth = HiddenModel(A, E if within == "independent" else P)
    people = [truth.sample(6000, seed) for seed in range(4)]
    people[0][100:130] = -1
    fitted = fit(people, 3, 2, within=within, restarts=3)
    assert len(fitted.rounds) > 10
    assert np.diff(fitted.rounds).min() > -1e-7
    assert fitted.log_likelihood >= log_likelihood(truth, people) - 1
    assert np.abs(fitted.transition - A).max() < 0.03
    assert np.abs(fitted.emission - truth.emission).max() < 0.06
    fresh = [truth.sample(6000, 9)]
    assert log_likelihood(fitted, fresh) == pytest.approx(log_likelihood(truth, fresh), abs=18)


@settings(max_examples=20)
@given(
    segments=st.lists(st.lists(st.integers(-1, 2), min_size=2, max_size=8), min_size=1, max_size=3),
    within=st.sampled_from(["independent", "chain"]),
    smoothing=st.sampled_from([1e-9, 0.02, 3.0]),
)
def test_rounds_never_lose_on_little_data(segments, within, smoothing):
    model = fit(
        segments, 3, 2, within=within, smoothing=smoothing, restarts=1, iterations=20,
        tolerance=1e-12,
    )  # fmt: skip
    steps = np.diff(model.rounds)
    assert (steps >= -1e-9 * np.abs(model.rounds[1:])).all()


def test_fit_is_at_least_as_good_as_that_of_hmmlearn():
    rng = np.random.default_rng(2)
    truth = random_model(rng, 3, 6, "independent")
    entries = truth.sample(1500, 1)
    ours = fit([entries], 6, 3, smoothing=1e-6)
    theirs = CategoricalHMM(3, n_iter=60, tol=1e-2, random_state=0).fit(entries[:, None])
    assert ours.log_likelihood > theirs.score(entries[:, None]) - 3


def test_the_same_seed_gives_the_same_fit_and_regimes_are_in_order():
    entries = [HiddenModel(A, E).sample(2000, 4)]
    first, second = (fit(entries, 3, 3, restarts=2, seed=7) for _ in range(2))
    assert (first.transition == second.transition).all()
    assert (first.emission == second.emission).all()
    assert (np.diff(first.regime_distribution) <= 0).all()


def test_levels_that_never_occur_keep_a_little_probability():
    for within in ("independent", "chain"):
        model = fit([[0, 1, 0, 0, 1, 1, 0, 1]], 3, 2, within=within, restarts=1)
        assert (model.emission > 0).all()
        assert (model.transition > 0).all()
        assert np.isfinite(log_likelihood(model, [[2, 2, 1]]))


def test_one_regime_is_the_marginal_or_the_chain_of_the_data():
    entries = [0, 1, 1, 0, 1, 1, 1, 0]
    alone = fit([entries], 2, 1, smoothing=1e-9)
    assert alone.emission[0] == pytest.approx([3 / 8, 5 / 8])
    chain = fit([entries], 2, 1, within="chain", shrinkage=1e-9)
    assert chain.emission[0] == pytest.approx(np.array([[0, 1], [2 / 5, 3 / 5]]), abs=1e-6)


def test_refined_from_a_model():
    entries = [HiddenModel(A, E).sample(3000, 4)]
    rough = HiddenModel([[0.8, 0.2], [0.2, 0.8]], [[0.6, 0.2, 0.2], [0.2, 0.2, 0.6]])
    better = refine(rough, entries)
    assert better.log_likelihood > log_likelihood(rough, entries)
    assert better.log_likelihood == pytest.approx(fit(entries, 3, 2).log_likelihood, abs=0.5)


def test_impossible_entries_are_infinitely_surprising():
    model = HiddenModel(A, [[0.5, 0.5, 0], [0.5, 0.5, 0]])
    assert log_likelihood(model, [[0, 2, 1]]) == -np.inf
    with pytest.raises(ValueError, match="segments: contain entries that are impossible"):
        refine(model, [[0, 2, 1]])
    # Zeros that the data do not contradict are no obstacle.
    assert refine(model, [[0, 1, 1, 0]]).emission[0, 2] > 0


@pytest.mark.parametrize(
    ("segments", "options", "words"),
    [
        ([[0, 3]], {}, "segments: levels must lie between 0 and 2"),
        ([[0, -2]], {}, "or be -1 where nothing was observed; got -2"),
        ([[0.5, 1]], {}, "segments: each must be a row of whole numbers"),
        ([], {}, "segments: regimes need at least one entry"),
        ([[1], [2]], {"within": "chain"}, "segments: .*two entries"),
        ([[0, 1]], {"within": "pairs"}, "within: must be 'independent' or 'chain', got 'pairs'"),
        ([[0, 1]], {"regimes": 0}, "regimes: must be at least 1"),
        ([[0, 1]], {"smoothing": 0}, "smoothing: must be above 0"),
        ([[0, 1]], {"restarts": 0}, "restarts: must be at least 1"),
    ],
)
def test_bad_arguments(segments, options, words):
    with pytest.raises(ValueError, match=words):
        fit(segments, 3, **{"regimes": 2, **options})
