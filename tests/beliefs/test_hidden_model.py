"""What follows from the two arrays of a stationary model with hidden regimes."""

import numpy as np
import pytest

from pufferkit.beliefs.hidden_model import HiddenModel, posterior_of

A = np.array([[0.9, 0.08, 0.02], [0.1, 0.85, 0.05], [0.2, 0.1, 0.7]])
E = np.array([[0.7, 0.2, 0.1, 0.0], [0.1, 0.6, 0.2, 0.1], [0.05, 0.05, 0.2, 0.7]])


def chains(seed=3):
    return np.random.default_rng(seed).dirichlet(np.ones(4), (3, 4))


@pytest.mark.parametrize("emission", [E, chains()])
def test_joint_is_stationary_under_the_kernel(emission):
    model = HiddenModel(A, emission)
    joint = model.joint.ravel()
    assert model.kernel.sum(axis=1) == pytest.approx(1)
    assert joint @ model.kernel == pytest.approx(joint, abs=1e-14)
    assert model.joint.sum(axis=1) == pytest.approx(model.regime_distribution)
    assert model.posterior == pytest.approx((model.joint / model.joint.sum(axis=0)).T)


def test_entries_of_the_kernel():
    switching = chains()
    assert HiddenModel(A, E).kernel[1 * 4 + 2, 0 * 4 + 1] == A[1, 0] * E[0, 1]
    assert HiddenModel(A, switching).kernel[1 * 4 + 2, 0 * 4 + 1] == A[1, 0] * switching[0, 2, 1]


def test_a_level_that_cannot_occur_has_the_regimes_as_its_posterior():
    posterior = posterior_of(np.array([[0.5, 0.0], [0.5, 0.0]]))
    assert posterior.tolist() == [[0.5, 0.5], [0.5, 0.5]]


@pytest.mark.parametrize("emission", [E, chains()])
def test_samples_have_the_pairs_of_the_model(emission):
    model = HiddenModel(A, emission)
    path = model.sample(60_000, seed=5)
    pairs = np.zeros((4, 4))
    np.add.at(pairs, (path[:-1], path[1:]), 1 / (len(path) - 1))
    both = model.joint.ravel()[:, None] * model.kernel
    truth = both.reshape(3, 4, 3, 4).sum(axis=(0, 2))
    assert np.abs(pairs - truth).max() < 0.01
    assert (path == model.sample(60_000, seed=5)).all()
    assert (path[:100] != model.sample(100, seed=6)).any()


def test_samples_never_show_what_is_impossible():
    never = np.array([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0]])
    model = HiddenModel(np.eye(2) * 0.8 + 0.1, never)
    assert set(model.sample(5000, seed=1)) == {0, 1}


@pytest.mark.parametrize(
    ("transition", "emission", "words"),
    [
        ([[1.0, 0.1], [0, 1]], E, "transition: row 0 sums to 1.1"),
        (A, E[:2], "emission: must be 3 rows of probabilities.*shape \\(2, 4\\)"),
        (A, chains()[:, :2], "emission: must be 3 rows.*shape \\(3, 2, 4\\)"),
        (A, E * 2, "emission: sums to 2"),
    ],
)
def test_arrays_are_checked(transition, emission, words):
    with pytest.raises(ValueError, match=words):
        HiddenModel(transition, emission)
