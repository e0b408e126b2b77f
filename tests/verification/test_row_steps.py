"""Steps of `verify` against trying all sets, and releases about many states."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import pufferkit as pk
from pufferkit.verification import row_steps
from pufferkit.verification.row_steps import RowSteps


def by_all_sets(kernel, variation):
    """Log of (1 - K(x, S) + K(x, S) e^a) over the same of x', the largest over sets S."""
    largest = np.zeros((len(kernel),) * 2)
    for chosen in product((0.0, 1.0), repeat=kernel.shape[1]):
        shares = np.minimum(kernel @ np.array(chosen), 1)
        with np.errstate(divide="ignore"):
            logs = np.logaddexp(np.log1p(-shares), np.log(shares) + variation)
        largest = np.maximum(largest, logs[:, None] - logs)
    return largest


def a_kernel(rng):
    """Rows with zeros, probabilities of many sizes and sometimes two that are equal."""
    rows, columns = rng.integers(1, 6, 2)
    kernel = rng.dirichlet(np.full(columns, rng.choice([0.1, 1, 10])), rows)
    kernel *= rng.random(kernel.shape) < rng.choice([0.6, 1])
    kernel[kernel.sum(axis=1) == 0] = 1
    if rng.random() < 0.2:
        kernel[-1] = kernel[0]
    return kernel / kernel.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("kept", [0, row_steps.SORTED], ids=["by Newton's method", "sorted"])
def test_steps_are_those_of_the_best_sets(kept, monkeypatch):
    monkeypatch.setattr(row_steps, "SORTED", kept)
    rng = np.random.default_rng(3)
    for _ in range(400):
        kernel, variation = a_kernel(rng), float(rng.choice([1e-3, 0.5, 3, 50, 699, 5000]))
        steps, exact = RowSteps(kernel), by_all_sets(kernel, variation)
        table = steps.table(variation)
        assert (table >= exact - 1e-12 * variation - 1e-13).all()
        if variation < 700:
            assert table == pytest.approx(exact, rel=1e-9, abs=1e-12 * variation + 1e-13)
        pairs = rng.random(exact.shape) < 0.7
        most = float(table.max(where=pairs, initial=0))
        assert steps.room(variation, 0.999 * variation, pairs) >= 0 or most > 0.998 * variation
        if 1e-6 < most < 0.99 * variation:
            assert steps.room(variation, most * (1 + 1e-9), pairs) >= 0
            assert steps.room(variation, most * (1 - 1e-9), pairs) < 0
    assert steps.room(1, -0.5, pairs) < 0


def test_a_tiny_probability_beside_equal_ratios_counts(monkeypatch):
    """0.4 to 0.2 is a ratio of 2, as is the whole set at first; 1e-17 to 0 is far more."""
    kernel = np.array([[0.4, 0.6 - 1e-17, 1e-17], [0.2, 0.8, 0]])
    for kept in (0, row_steps.SORTED):
        monkeypatch.setattr(row_steps, "SORTED", kept)
        assert RowSteps(kernel).table(50)[0, 1] == pytest.approx(50 + np.log(1e-17), abs=1e-4)


def test_many_states():
    states = 50
    rows = np.random.default_rng(0).dirichlet(np.ones(states), states)
    chain = pk.MarkovChain.steady(0.2 * rows + 0.8 * np.eye(states))
    noise = pk.influence_curve(chain, pk.histogram(chain.states, 5000), 1)
    release = noise.release(chain.sample(5000, seed=1).tolist())
    assert pk.verify(release).ok
    assert not pk.verify(replace(release, scale=0.99 * release.scale)).ok
