"""Secrets about several entries: never below what a release really loses, by enumeration."""

import numpy as np
import pytest

from pufferkit import ChainClass, InfluenceCurve, MarkovChain, Secrets
from tests.oracles.events import (
    attacked_loss,
    labels_of_windows,
    listed,
    sum_loss,
    values_of_windows,
)
from tests.oracles.kernel_losses import extreme_functions

LENGTH = 5


def random_chain(rng, size, zeros=True):
    while True:
        matrix = rng.dirichlet(np.full(size, 0.7), size=size)
        if zeros and size > 2:
            matrix[rng.random((size, size)) < 0.2] = 0.0
        if (matrix.sum(axis=1) == 0).any():
            continue
        matrix /= matrix.sum(axis=1, keepdims=True)
        try:
            chain = MarkovChain.steady(matrix)
        except ValueError:
            continue
        return chain


def metric_of(rng, size):
    if rng.random() < 0.5:
        return 1 - np.eye(size)
    values = np.sort(rng.random(size))
    return np.abs(values[:, None] - values[None, :]) / (values[-1] - values[0])


def secrets_and_labels(rng, size, window):
    """Secrets, and the same by a function of the values of a window."""
    state = int(rng.integers(size))
    yield Secrets.at_least(state, window), lambda v: int(state in v)
    if window > 1:
        yield Secrets.at_least(state, window, 2), lambda v: int(sum(x == state for x in v) >= 2)
    yield Secrets.throughout(state, window), lambda v: int(all(x == state for x in v))
    if size**window <= 81:
        table = rng.integers(3, size=(size,) * window)
        if len(np.unique(table)) > 1:
            yield Secrets.patterns(window, lambda v: table[v]), lambda v: int(table[v])


@pytest.mark.parametrize("seed", range(12))
def test_values_of_windows(seed):
    rng = np.random.default_rng(seed)
    size, window = int(rng.integers(2, 4)), int(rng.integers(1, 5))
    chain, metric, b = random_chain(rng, size), metric_of(rng, size), float(rng.uniform(0.1, 2))
    theta = ChainClass.of(chain).with_secrets(Secrets.runs(window))
    bound = InfluenceCurve(theta, LENGTH, metric).epsilon(b)
    series, chance = listed(chain.initial, [chain.transition] * (LENGTH - 1))
    functions = extreme_functions(metric, b)
    reached = max(
        attacked_loss(series, chance, labels, functions, rng, starts=1)
        for labels in values_of_windows(series, window)
    )
    assert reached <= bound * (1 + 1e-9)
    assert reached >= 0.9 * bound or size > 2


@pytest.mark.parametrize("seed", range(12))
def test_labels_of_windows(seed):
    rng = np.random.default_rng(seed)
    size, window = int(rng.integers(2, 4)), int(rng.integers(1, 5))
    chain, metric, b = random_chain(rng, size), metric_of(rng, size), float(rng.uniform(0.1, 2))
    series, chance = listed(chain.initial, [chain.transition] * (LENGTH - 1))
    functions = extreme_functions(metric, b)
    for secrets, label in secrets_and_labels(rng, size, window):
        theta = ChainClass.of(chain).with_secrets(secrets, entries=False)
        bound = InfluenceCurve(theta, LENGTH, metric).epsilon(b)
        reached = max(
            attacked_loss(series, chance, labels, functions, rng, starts=1)
            for labels in labels_of_windows(series, window, label)
        )
        assert reached <= bound * (1 + 1e-9), secrets


def test_one_entry_is_what_it_always_was():
    chain = MarkovChain.steady([[0.9, 0.1, 0.0], [0.2, 0.5, 0.3], [0.0, 0.4, 0.6]])
    metric = np.abs(np.subtract.outer([0, 1, 2], [0, 1, 2])) / 2
    usual = InfluenceCurve(chain, 200, metric)
    theta = ChainClass.of(chain).with_secrets(Secrets.runs(1))
    assert InfluenceCurve(theta, 200, metric).entry_epsilon(1) == pytest.approx(
        usual.entry_epsilon(1), rel=1e-4
    )
