"""The attacker that learns."""

import numpy as np
import pytest

import pufferkit as pk
from papers.lstm import LSTM, Training, cross_validate
from pufferkit.audit import ForwardBackward, SingleBit, success_bound
from tests.strategies.stand_ins import symmetric

pytestmark = pytest.mark.slow
QUICK = Training(window=32, hidden=8, epochs=8, examples=4000, batch=256)


@pytest.fixture
def torch():
    module = pytest.importorskip("torch", reason="the LSTM attacker needs torch")
    module.set_num_threads(1)  # networks this small are quicker so
    return module


def flipped(truth, rho, seed):
    return np.where(np.random.default_rng(seed).random(len(truth)) < rho, 1 - truth, truth)


def test_it_learns_what_the_chain_tells(torch):
    chain, rho = symmetric(0.05), 0.25
    matrix = [[1 - rho, rho], [rho, 1 - rho]]
    truth = chain.sample(4000, seed=1)
    seen = flipped(truth, rho, 2)
    attacker = LSTM(chain, matrix, training=QUICK)
    learnt = attacker.success(seen, truth)
    single, best = (a(chain, matrix).success(seen, truth) for a in (SingleBit, ForwardBackward))
    assert single + 0.08 < best - 0.02 < learnt < best + 0.01
    belief = attacker.posterior(seen)
    assert belief.shape == (4000, 2)
    assert np.abs(belief.sum(axis=1) - 1).max() < 1e-6


def test_it_stays_below_what_the_promise_allows(torch):
    """[B] 4.3: noise for the chain, and an attacker that knows more than one."""
    chain, epsilon = symmetric(0.1), 1.0
    b = pk.entry_epsilon(chain, 4000, epsilon)
    truth = chain.sample(4000, seed=3)
    report = cross_validate(flipped(truth, 1 / (np.exp(b) + 1), 4), truth, folds=3, training=QUICK)
    assert len(report.accuracies) == 3
    assert sum(report.sizes) == 4000
    assert report.accuracy <= success_bound(epsilon)


def test_folds_of_short_stretches_are_not_misled_by_a_slow_change(torch):
    """All ones by night, all zeros by day, outputs that say nothing: 1/2 is what can be had.

    Folds that are whole stretches learn the share of the other half, and guess the wrong one.
    """
    truth = np.repeat([0, 1], 1000)
    seen = np.random.default_rng(5).integers(0, 2, 2000)
    few = Training(window=4, hidden=4, epochs=2, batch=100)
    whole = cross_validate(seen, truth, folds=10, training=few)
    spread = cross_validate(seen, truth, folds=10, training=few, stretch=20)
    assert max(whole.accuracies[:5]) < 0.05
    assert 0.4 < spread.accuracy < 0.6
    assert sum(spread.sizes) == 2000


def test_what_is_guessed_is_never_learned_from(torch):
    from papers.lstm import _away_from

    assert _away_from(np.array([4, 5]), 10, 2).tolist() == [0, 1, 8, 9]
    assert _away_from(np.array([0]), 3, 0).tolist() == [1, 2]


def test_training_can_be_repeated_and_leaves_the_generator_alone(torch):
    chain = symmetric(0.2)
    few = Training(window=5, hidden=4, epochs=1, examples=300)
    seen = chain.sample(50, seed=1)
    torch.manual_seed(7)
    before = torch.random.get_rng_state()
    one, two = (LSTM(chain, np.eye(2), training=few).posterior(seen) for _ in range(2))
    assert (one == two).all()
    assert (torch.random.get_rng_state() == before).all()


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: Training(window=0), "at least 1"),
        (lambda: Training(epochs=0), "at least 1"),
        (lambda: Training(rate=0), "above 0"),
        (lambda: LSTM(pk.MarkovChain.steady(np.full((3, 3), 1 / 3)), np.eye(3)), "two states"),
        (lambda: cross_validate([0, 1], [0]), "1 entries for 2 outputs"),
        (lambda: cross_validate([0, 1], [0, 2]), "2 at position 2"),
        (lambda: cross_validate([0, -1], [0, 1]), "-1 at position 2"),
        (lambda: cross_validate([0, 1], [0, 1]), "too few"),
        (lambda: cross_validate([], []), "one row"),
        (lambda: cross_validate([0, 1] * 50, [0, 1] * 50, stretch=0), "at least 1"),
        (lambda: cross_validate([0, 1] * 50, [0, 1] * 50, stretch=20), "folds empty"),
        (lambda: cross_validate([0, 1] * 500, [0, 1] * 500, stretch=20), "window shorter than 128"),
    ],
)
def test_bad_input_needs_no_torch(call, said):
    with pytest.raises(ValueError, match=said):
        call()


def test_without_torch(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(ImportError, match="pip install torch"):
        LSTM(symmetric(0.2), np.eye(2), training=QUICK).guess([0, 1])
