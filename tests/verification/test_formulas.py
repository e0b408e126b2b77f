"""Formulas of steps in `verify` against their definitions, and releases about many states."""

from dataclasses import replace
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest

import pufferkit as pk
from pufferkit.verification import check_steps as formulas
from pufferkit.verification.check_steps import evaluated
from pufferkit.verification.claims import Allowance


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


def by_rows(kernel, variation):
    known = SimpleNamespace(values=kernel, possible=kernel > 0)
    outside = ~np.eye(len(kernel), dtype=bool)
    steps = SimpleNamespace(kind="rows", kernel=known, counted=outside, error=0.0)
    return evaluated(steps, variation * outside, None, Allowance(1e12))


@pytest.mark.parametrize("at_once", [1, formulas._AT_ONCE], ids=["row by row", "at once"])
def test_steps_are_those_of_the_best_sets(at_once, monkeypatch):
    monkeypatch.setattr(formulas, "_AT_ONCE", at_once)
    rng = np.random.default_rng(3)
    for _ in range(400):
        kernel, variation = a_kernel(rng), float(rng.choice([1e-3, 0.5, 3, 50, 599]))
        exact = by_all_sets(kernel, variation) * (1 - np.eye(len(kernel)))
        if len(kernel) > 1:
            table = by_rows(kernel, variation)
            assert (table >= np.minimum(exact, variation) - 1e-12 * variation - 1e-13).all()
            assert table == pytest.approx(exact, rel=1e-9, abs=1e-12 * variation + 1e-13)


def test_a_tiny_probability_beside_equal_ratios_counts():
    """0.4 to 0.2 is a ratio of 2, as is the whole set at first; 1e-17 to 0 is far more."""
    kernel = np.array([[0.4, 0.6 - 1e-17, 1e-17], [0.2, 0.8, 0], [0.2, 0.8, 0]])
    assert by_rows(kernel, 50.0)[0, 1] == pytest.approx(50 + np.log(1e-17), abs=1e-4)


def test_any_distribution_beyond():
    """No start, and no function of it that varies by the limit, has means further apart."""
    rng = np.random.default_rng(5)
    for seed in range(60):
        size = 2 + seed % 3
        kernel = rng.dirichlet(np.full(size, 0.7), size) * (rng.random((size, size)) < 0.8)
        kernel[:, 0] += 0.05
        kernel /= kernel.sum(axis=1, keepdims=True)
        known = SimpleNamespace(values=kernel, possible=kernel > 0)
        every = np.ones(size, bool)
        steps = SimpleNamespace(
            kind="any distribution", kernel=known, rows=every, columns=every, error=0.0
        )
        points = rng.random((size, 2)) * 3
        limit = np.abs(points[:, None] - points[None]).sum(axis=2)
        table = evaluated(steps, limit, None, Allowance(1e12))
        largest = np.zeros((size, size))
        for _ in range(400):
            start = rng.dirichlet(np.full(size, rng.choice([0.1, 1])))
            g = (limit + rng.choice([0, 50.0]) * rng.random(size)[None, :]).min(axis=1)
            joint = start[:, None] * kernel
            with np.errstate(all="ignore"):
                means = np.log((joint * np.exp(g)[:, None]).sum(axis=0) / joint.sum(axis=0))
            means = means[None, :] - means[:, None]
            largest = np.maximum(largest, np.nan_to_num(means.T, nan=0.0, neginf=0.0, posinf=0.0))
        assert (largest <= table + 1e-9).all()
        assert table.max() <= limit.max() + 1e-12


@pytest.mark.parametrize("scale", [2, 4])
def test_contraction_of_tangents(scale):
    for limit, a in product([0.0, 1e-9, 0.3, 5, 9, 40, np.inf], [1e-9, 0.3, 5, 9, 40, 300]):
        kind = "ratio" if scale == 2 else "diameters"
        held = {"ratio": limit, "diameters": np.full((2, 2), limit)}
        outside = ~np.eye(2, dtype=bool)
        steps = SimpleNamespace(kind=kind, counted=outside, **held)
        made = evaluated(steps, a * outside, None, Allowance(1e12))[0, 1]
        assert made <= min(limit, a)
        if max(limit, a) < 10:
            exact = scale * np.arctanh(np.tanh(limit / scale) * np.tanh(a / scale))
            assert made == pytest.approx(exact, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("seed", range(8))
def test_regions_of_few_and_of_many_states(seed):
    """Matrices within bounds never step further than either formula says."""
    rng = np.random.default_rng(seed)
    size, a = int(rng.integers(2, 5)), float(rng.choice([0.1, 2, 30]))
    middle = rng.dirichlet(np.full(size, 2.0), size)
    low = np.maximum(middle - rng.random() * 0.1, 0)
    high = np.minimum(middle + rng.random() * 0.1, 1)
    sets = (np.arange(1, 2**size - 1)[None, :] >> np.arange(size)[:, None] & 1).astype(float)
    upper = np.minimum(high @ sets, 1 - low @ (1 - sets))
    lower = np.maximum(low @ sets, 1 - high @ (1 - sets))
    outside = ~np.eye(size, dtype=bool)
    common = {"counted": outside, "diameter": np.inf}
    ways = [
        SimpleNamespace(kind="sets", upper=upper, lower=lower, **common),
        SimpleNamespace(kind="entries", upper=high, lower=low, **common),
    ]
    tables = [evaluated(steps, a * outside, None, Allowance(1e12)) for steps in ways]
    assert (tables[1] >= tables[0] - 1e-9).all()
    for _ in range(50):
        shares = low + rng.random(low.shape) * (high - low)
        kernel = (
            low
            + (shares - low)
            * np.divide(1 - low.sum(axis=1), (shares - low).sum(axis=1), where=True)[:, None]
        )
        if ((kernel <= high + 1e-12) & (kernel >= low - 1e-12)).all():
            assert (by_all_sets(kernel, a) <= tables[0] + 1e-9).all()


@pytest.mark.slow
def test_many_states():
    states = 50
    rows = np.random.default_rng(0).dirichlet(np.ones(states), states)
    chain = pk.MarkovChain.steady(0.2 * rows + 0.8 * np.eye(states))
    noise = pk.influence_curve(chain, pk.histogram(chain.states, 5000), 1)
    release = noise.release(chain.sample(5000, seed=1).tolist())
    assert pk.verify(release).ok
    assert not pk.verify(replace(release, scale=0.99 * release.scale)).ok
