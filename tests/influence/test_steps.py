"""Steps against their definitions: all subsets, all reweightings, all kernels with bounded ratios.

A step that is too small is a broken promise, so the lower side is checked to rounding. The upper
side is checked too, or a step that never contracts would pass.
"""

from __future__ import annotations

from math import inf, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pufferkit.influence.curve.steps import (
    Diameters,
    KnownRows,
    Ratios,
    contracted,
    off_diagonal,
)
from pufferkit.influence.kernels import Kernel
from tests.oracles import brute_curve as brute

VARIATIONS = [0.0, 1e-300, 1e-12, 1e-3, 0.4, 2.0, 29.9999, 30.0, 30.0001, 80.0, 700.0, 1e4]


def exact(kernel, rows=None) -> KnownRows:
    kernel = np.asarray(kernel, float)
    rows = np.ones(len(kernel), dtype=bool) if rows is None else rows
    return KnownRows(Kernel(kernel, kernel > 0), rows, 0.0)


@st.composite
def kernels(draw, most=6):
    size = draw(st.integers(1, most))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    return brute.random_matrix(rng, size)


variations = st.one_of(
    st.sampled_from(VARIATIONS), st.floats(0, 60), st.floats(-12, 6).map(lambda e: 10.0**e)
)


def tolerance(a: float) -> float:
    return 1e-13 + 4e-15 * a


# ------------------------------------------------------------------------------ exact kernels


@settings(max_examples=150, deadline=None)
@given(kernels(), variations)
def test_kernel_step_is_the_best_of_all_subsets(kernel, a):
    truth = brute.step(kernel, a)
    steps = exact(kernel).pairs(a)
    assert (steps >= np.minimum(truth, a) - tolerance(a)).all()
    assert (steps <= np.minimum(truth, a) + 1e-12 + tolerance(a)).all()
    assert exact(kernel).largest(a) == pytest.approx(steps.max(), abs=1e-12 + tolerance(a))
    assert exact(kernel).largest(a) >= truth.max() - tolerance(a)


@settings(max_examples=60, deadline=None)
@given(kernels())
def test_kernel_step_at_infinity_is_the_max_influence(kernel):
    truth = brute.step(kernel, inf)
    steps = exact(kernel).pairs(inf)
    assert (np.isinf(steps) == np.isinf(truth)).all()
    finite = np.isfinite(truth)
    assert steps[finite] == pytest.approx(truth[finite], abs=1e-12)
    assert exact(kernel).largest(inf) == pytest.approx(max(0.0, truth.max()), abs=1e-12)


@settings(max_examples=60, deadline=None)
@given(kernels(), variations, variations)
def test_steps_grow_with_slope_between_0_and_1(kernel, a, b):
    """What settles a whole stretch at once: F(v) <= v stays true for larger v."""
    low, high = sorted((a, b))
    step = exact(kernel)
    slack = 2 * tolerance(high)
    assert step.largest(low) <= step.largest(high) + slack
    assert step.largest(high) - step.largest(low) <= high - low + slack
    assert step.largest(high) <= high


@settings(max_examples=60, deadline=None)
@given(kernels(5), st.integers(0, 2**32), variations)
def test_only_allowed_pairs_count(kernel, seed, a):
    support = np.random.default_rng(seed).random(len(kernel)) < 0.6
    allowed = np.outer(support, support)
    truth = np.where(allowed, brute.step(kernel, a), -inf)
    step = exact(kernel, support)
    variation = np.full(kernel.shape, 9.0 + a)  # far apart, but not together
    variation[allowed] = a
    steps = step(variation * off_diagonal(len(kernel)))
    assert (steps[allowed] >= np.minimum(truth, a)[allowed] - tolerance(a)).all()
    assert (steps[~allowed] <= step.largest(a)).all()
    assert step.largest(a) >= max(0.0, truth.max()) - tolerance(a)
    assert step.largest(a) <= max(0.0, truth.max()) + 1e-12 + tolerance(a)


@pytest.mark.parametrize("a", [*VARIATIONS, inf])
def test_one_state_and_identical_rows_tell_nothing(a):
    assert exact([[1.0]]).largest(a) == 0
    assert exact([[1.0]]).pairs(a).tolist() == [[0.0]]
    same = [[0.2, 0.3, 0.5]] * 3
    assert 0 <= exact(same).largest(a) <= 1e-13
    assert exact(same).pairs(a) == pytest.approx(np.zeros((3, 3)), abs=1e-13)


@pytest.mark.parametrize("a", [*VARIATIONS, inf])
def test_disjoint_rows_let_everything_through(a):
    assert exact([[1, 0], [0, 1]]).largest(a) == a
    assert exact([[1, 0], [0, 1]]).pairs(a)[0, 1] == a


def test_error_is_added_but_never_beyond_the_variation():
    kernel = np.array([[0.7, 0.3], [0.4, 0.6]])
    plain, padded = (
        KnownRows(Kernel(kernel, kernel > 0), np.ones(2, bool), error) for error in (0, 1e-3)
    )
    assert padded.largest(1.0) >= plain.largest(1.0) + 1e-3
    assert padded.largest(1e-5) <= 1e-5
    assert padded.pairs(1.0)[0, 1] >= plain.pairs(1.0)[0, 1] + 1e-3


# --------------------------------------------------------------------------------- underflow


@pytest.mark.parametrize("a", [1e-3, 1.0, 29.0, 31.0, 300.0, 640.0])
def test_tiny_probabilities_keep_their_ratios(a):
    kernel = np.array([[1 - 1e-200, 1e-200], [1.0, 1e-270]])
    truth = np.logaddexp(0, log(1e-200) + a) - np.logaddexp(0, log(1e-270) + a)
    assert exact(kernel).largest(a) >= truth - 1e-12
    assert exact(kernel).largest(a) <= truth + 1e-11


@pytest.mark.parametrize("a", [1.0, 50.0, 700.0, inf])
def test_subnormal_probabilities_are_not_relied_on(a):
    """A probability below the smallest normal float has few digits: it counts as zero below."""
    kernel = np.array([[1.0, 1e-200], [1.0, 1e-310]])
    assert exact(kernel).largest(a) >= min(a, np.logaddexp(0, log(1e-200) + a) if a < inf else inf)
    ratio = np.array([[1.0, 1e-320], [1e-320, 1.0]])
    assert exact(ratio).largest(a) >= min(a, 730)


def test_a_possible_entry_lost_to_underflow_still_counts():
    """It may be as large as the least float, and from a = 745 on e^a of that decides."""
    possible = np.array([[True, True], [True, False]])
    kernel = Kernel(np.array([[1.0, 0.0], [1.0, 0.0]]), possible)
    step = KnownRows(kernel, np.ones(2, dtype=bool), 0.0)
    assert step.largest(1000.0) >= 254
    assert step.pairs(1000.0)[0, 1] >= 254
    assert step.largest(inf) == inf


# ----------------------------------------------------------- all reweightings: the diameter step


@settings(max_examples=80, deadline=None)
@given(kernels(4), st.floats(0.001, 12), st.integers(0, 2**32))
def test_no_reweighting_exceeds_the_diameter_step(kernel, a, seed):
    rng = np.random.default_rng(seed)
    promised = Diameters(brute.diameters(kernel.T)).pairs(a)
    for _ in range(25):
        weights = np.exp(rng.normal(0, rng.choice([0.5, 3, 10]), len(kernel)))
        assert (brute.step(reweighted(kernel, weights), a) <= promised + 1e-11).all()


@pytest.mark.parametrize("a", [1e-6, 1.0, 20.0, 45.0, 76.0, 700.0])
@pytest.mark.parametrize("spread", [0.3, 30.0, 90.0, 400.0])
def test_the_diameter_step_is_reached(a, spread):
    """Mirrored columns with one weighted by e^{-a/2} reach it, at any size."""
    ratio = np.exp(-spread / 2)
    kernel = np.array([[1.0, ratio], [ratio, 1.0]])
    truth = brute.step(reweighted(kernel, np.array([np.exp(-a / 2), 1.0])), a)[0, 1]
    assert brute.diameter_step(spread, a) == pytest.approx(truth, rel=1e-9, abs=1e-14)
    step = Diameters(np.array([[0.0, spread], [spread, 0.0]]))
    for value in (step.largest(a), step.pairs(a)[0, 1], contracted(spread, a, 4)):
        assert value >= truth * (1 - 1e-12) - 1e-15
        assert value <= truth * (1 + 1e-9) + 1e-15


@settings(max_examples=50, deadline=None)
@given(kernels(4), st.floats(0.01, 8))
def test_the_diameter_step_is_the_least_bound_for_every_pair(kernel, a):
    sizes = brute.diameters(kernel.T)
    promised = Diameters(sizes).pairs(a)
    for x in range(len(kernel)):
        for y in range(len(kernel)):
            if 0 < sizes[x, y] < 30:
                ratios = kernel[x] / np.where(kernel[y] > 0, kernel[y], 1.0)
                ratios[kernel[x] == 0] = np.nan
                most, least = np.nanargmax(ratios), np.nanargmin(ratios)
                weights = np.full(len(kernel), 1e-14)
                weights[most] = np.exp(-a / 2) / np.sqrt(kernel[x, most] * kernel[y, most])
                weights[least] = 1 / np.sqrt(kernel[x, least] * kernel[y, least])
                reached = brute.step(reweighted(kernel, weights), a)[x, y]
                assert reached >= promised[x, y] * (1 - 1e-5) - 1e-6


@pytest.mark.parametrize("a", [*VARIATIONS, inf])
def test_an_infinite_diameter_lets_everything_through(a):
    """One zero in P is enough: a start can be chosen that loses nothing."""
    step = Diameters(np.array([[0.0, inf], [inf, 0.0]]))
    assert step.largest(a) == a
    assert step.pairs(a)[0, 1] >= a * (1 - 1e-13)
    assert step.pairs(a)[0, 0] == 0


def reweighted(kernel: np.ndarray, weights: np.ndarray) -> np.ndarray:
    product = kernel * weights
    return product / product.sum(axis=1, keepdims=True)


# ----------------------------------------------- bounded ratios, and reweightings of bounded spread


@settings(max_examples=80, deadline=None)
@given(st.integers(2, 5), st.floats(0.01, 8), st.floats(0.001, 20), st.integers(0, 2**32))
def test_no_kernel_with_bounded_ratios_exceeds_the_ratio_step(size, ratio, a, seed):
    rng = np.random.default_rng(seed)
    step = Ratios(ratio, size)
    for _ in range(20):
        kernel = rng.dirichlet(np.ones(size)) * np.exp(ratio / 2 * rng.uniform(-1, 1, (size, size)))
        kernel /= kernel.sum(axis=1, keepdims=True)
        truth = brute.step(kernel, inf).max()
        if truth <= ratio:
            assert (brute.step(kernel, a) <= step.pairs(a) + 1e-11).all()
            assert brute.step(kernel, a).max() <= step.largest(a) + 1e-11


@pytest.mark.parametrize("ratio", [0.01, 1.0, 8.0, 25.0, 34.0])
@pytest.mark.parametrize("a", [1e-4, 1.0, 10.0, 30.0, 50.0, 300.0, inf])
def test_the_ratio_step_is_reached(ratio, a):
    kernel = np.array([[1.0, np.exp(-ratio)], [np.exp(-ratio), 1.0]]) / (1 + np.exp(-ratio))
    truth = brute.step(kernel, a)[0, 1]
    assert Ratios(ratio, 2).largest(a) >= truth * (1 - 1e-12) - 1e-14
    assert Ratios(ratio, 2).largest(a) <= truth * (1 + 1e-9) + 1e-12
    assert Ratios(inf, 2).largest(a) == a
