"""People and refits of models with hidden regimes."""

import numpy as np
import pytest

from pufferkit.beliefs.hidden_model import HiddenChain, HiddenModel
from pufferkit.beliefs.kernel_class import hidden_part
from pufferkit.fitting.baum_welch import (
    fit,
    log_likelihood,
    people_models,
    refits,
)
from tests.oracles import regimes as oracle
from tests.strategies.regimes import EMISSION as E
from tests.strategies.regimes import STAYING as A

P = np.random.default_rng(8).dirichlet(np.ones(3), (2, 3))


@pytest.mark.parametrize("emission", [E, P])
def test_kernels_of_a_model_by_bayes(emission):
    model = HiddenModel(A, emission)
    hidden = HiddenChain.of_model(model, (0, 1, 2))
    part, m = hidden_part("model", [hidden.emitting]), hidden.chain.stationary
    steps = part.right.later(1), part.left.later(1), part.posterior[0]
    forward, backward, posterior = (own.kernels[0] for own in steps)
    assert m @ forward == pytest.approx(m)
    assert m[:, None] * forward == pytest.approx((m[:, None] * backward).T)
    assert posterior.sum(axis=1) == pytest.approx(1)
    by_regime = posterior.reshape(3, 2, 3).sum(axis=2)
    assert by_regime == pytest.approx(model.posterior)
    levels = posterior.reshape(3, 2, 3).sum(axis=1)  # the level of a state is the entry itself
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
