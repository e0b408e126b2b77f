"""People, slow regimes and refits of models with hidden regimes."""

import numpy as np
import pytest

from pufferkit.beliefs.baum_welch import fit, log_likelihood
from pufferkit.beliefs.hidden_model import HiddenModel
from pufferkit.beliefs.regime_estimation import (
    known_slow,
    mean_stays,
    people_models,
    refits,
)
from tests.oracles import regimes as oracle
from tests.strategies.regimes import EMISSION as E
from tests.strategies.regimes import STAYING as A

P = np.random.default_rng(8).dirichlet(np.ones(3), (2, 3))

AWAY = HiddenModel(
    [[0.8, 0.195, 0.005], [0.3, 0.7, 0.0], [0.0, 0.01, 0.99]],
    [[0.7, 0.2, 0.1], [0.1, 0.3, 0.6], [0.98, 0.01, 0.01]],
)


@pytest.mark.parametrize("emission", [E, P])
def test_kernels_of_a_model_by_bayes(emission):
    model = HiddenModel(A, emission)
    kernels = model.steps
    m, forward = kernels.distribution, kernels.forward
    assert m @ forward == pytest.approx(m)
    assert m[:, None] * forward == pytest.approx((m[:, None] * kernels.backward).T)
    assert kernels.posterior.sum(axis=1) == pytest.approx(1)
    by_regime = kernels.posterior.reshape(3, 2, -1).sum(axis=2)
    assert by_regime == pytest.approx(model.posterior)
    if emission is P:  # the level of the state is the entry itself
        levels = kernels.posterior.reshape(3, 2, 3).sum(axis=1)
        assert levels == pytest.approx(np.eye(3))


def test_people_have_their_own_moves_and_everybodys_emissions():
    restless = HiddenModel([[0.8, 0.2], [0.3, 0.7]], E)
    people = [[HiddenModel(A, E).sample(4000, 1)], [restless.sample(4000, 2)]]
    pooled = fit([segment for person in people for segment in person], 3, 2, restarts=2)
    calm, other = people_models(pooled, people)
    assert (calm.emission == pooled.emission).all()
    for own, segments in ((calm, people[0]), (other, people[1])):
        assert log_likelihood(own, segments) > log_likelihood(pooled, segments) + 10
    assert np.diag(calm.transition).min() > np.diag(other.transition).max()
    # Much shrinkage, and nobody differs.
    alike = people_models(pooled, people, shrinkage=1e9)
    assert alike[1].transition == pytest.approx(pooled.transition, abs=1e-4)


def test_people_of_switching_chains():
    truth = HiddenModel(A, P)
    people = [[truth.sample(6, seed)] for seed in range(2)]
    models = people_models(truth, people, shrinkage=5)
    assert all(m.within == "chain" and (m.emission == P).all() for m in models)
    one = people_models(truth, people, shrinkage=5, iterations=1)
    start = truth.regime_distribution
    counts = oracle.expected_moves(start, A, P, list(people[0][0])) + 5 * A
    assert one[0].transition == pytest.approx(counts / counts.sum(axis=1, keepdims=True))


def test_mean_stays():
    assert mean_stays([[0.5, 0.5], [0, 1]]).tolist() == [2, np.inf]


def test_known_slow_regimes_leave_the_others_and_their_returns():
    split = known_slow(AWAY, 24)
    assert split.slow.tolist() == [False, False, True]
    assert split.model.transition[0] == pytest.approx([0.8 / 0.995, 0.195 / 0.995])
    assert split.model.emission.tolist() == AWAY.emission[:2].tolist()
    moment, first, *_ = split.after_return
    # Away is left for regime 1 only, so the step after it knows where it came from.
    assert moment.distribution.tolist() == [0, 1]
    assert moment.posterior.tolist() == [[0, 1]] * 3
    assert first.backward.tolist() == [[0, 1]] * 2
    assert first.distribution == pytest.approx([0.3, 0.7])
    m = np.array([0.3, 0.7])
    flow = m[:, None] * split.model.transition
    assert split.after_return[2].backward == pytest.approx((flow / flow.sum(axis=0)).T)
    assert split.left < 0.05
    assert len(known_slow(AWAY, 24, steps=1).after_return) == 2
    # Only regime 0 leads away, so the step before is known too; the one before that by Bayes.
    moment, first, second, *_ = split.before_departure
    assert moment.distribution.tolist() == [1, 0]
    assert first.forward.tolist() == [[1, 0]] * 2
    v = split.model.transition[:, 0]
    weights = split.model.transition * v
    assert second.forward == pytest.approx(weights / weights.sum(axis=1, keepdims=True))
    m = split.model.regime_distribution * v
    assert first.distribution == pytest.approx(m / m.sum())
    assert known_slow(AWAY, 24, steps=1).left > 0.05


def test_no_slow_regime_changes_nothing():
    split = known_slow(AWAY, 1000)
    assert not split.slow.any()
    assert split.after_return == split.before_departure == ()
    assert split.left == 0
    assert split.model.transition == pytest.approx(AWAY.transition)
    with pytest.raises(ValueError, match="day: all 3 regimes last longer than 1 steps"):
        known_slow(AWAY, 1)


def test_known_slow_regimes_of_switching_chains():
    model = HiddenModel(AWAY.transition, np.random.default_rng(1).dirichlet(np.ones(3), (3, 3)))
    split = known_slow(model, 24)
    moment = split.after_return[0].distribution.reshape(2, 3)
    levels = model.joint[2] / model.joint[2].sum()
    assert moment == pytest.approx(np.array([np.zeros(3), levels @ model.emission[1]]))
    assert split.after_return[1].backward.sum(axis=1) == pytest.approx(1)
    assert split.before_departure[0].distribution.reshape(2, 3)[1].tolist() == [0, 0, 0]


def test_a_regime_that_leads_only_away_is_refused():
    model = HiddenModel([[0.0, 1.0], [0.01, 0.99]], E)
    with pytest.raises(ValueError, match="model: a regime of one step leads to slow"):
        known_slow(model, 24)


def test_refits_spread_around_the_model():
    model = HiddenModel(A, E)
    entries = model.sample(3000, 3)
    entries[50:60] = -1
    models = refits(model, [entries, entries[:500]], count=6, seed=2)
    stays = np.array([m.transition[0, 0] for m in models])
    assert len(set(stays)) == 6
    assert abs(stays.mean() - 0.95) < 0.02
    assert 0.001 < stays.std() < 0.03
    again = refits(model, [entries, entries[:500]], count=1, seed=2)[0]
    assert (again.transition == models[0].transition).all()
