"""Theorems S and W against the definition: every series, outputs by ascent, hand-made cases."""

from fractions import Fraction

import numpy as np
import pytest

import pufferkit as pk
from pufferkit.errors import NoTheorem
from pufferkit.influence.shape.costs import Beside, row_costs
from pufferkit.influence.shape.design import best_directions
from pufferkit.influence.shape.shaping import Shape, back_on_bins, bin_errors
from pufferkit.influence.shape.theorem_s import NoisyRun, ShapedCurve, loss_s
from pufferkit.influence.shape.theorem_w import windows
from tests.attacks.shapes import WINDOWED, instance_s, worst_s, worst_w


@pytest.mark.parametrize("mode", ["plain", "contaminated", "hull", "windows", "beside"])
def test_no_output_tells_more_than_theorem_s(mode):
    rng = np.random.default_rng(len(mode))
    for _ in range(6):
        assert worst_s(instance_s(rng, mode), rng) <= 1 + 1e-9


@pytest.mark.parametrize("mode", WINDOWED)
def test_no_output_tells_more_than_theorem_w(mode):
    rng = np.random.default_rng(len(mode))
    for _ in range(8):
        assert worst_w(mode, rng) <= 1 + 1e-9


@pytest.mark.parametrize("reach", [1, 2, 5, 9])
def test_windows_are_those_of_all_entries(reach):
    lengths = [1, 4, 10, 30]
    every = {(min(n, reach), min(t - 1 - n, reach)) for t in lengths for n in range(t)}
    assert set(windows(lengths, reach)) == every


def test_what_cancels_within_a_window_costs_nothing():
    """A chain that nearly turns in a circle: its counts hardly depend on any entry."""
    theta = pk.MarkovChain.steady([[0.1, 0.8, 0.1], [0.1, 0.1, 0.8], [0.8, 0.1, 0.1]])
    parts = pk.ChainClass.of(theta).parts(1000)
    shape = Shape([[2, 0], [-1, 1], [-1, -1]], (10, 10))
    by_curve, by_windows = (ShapedCurve(parts, 1000, reach).loss(shape) for reach in (None, 16))
    assert by_windows < by_curve / 4


def test_windows_need_kernels_that_are_known():
    shape = Shape([[1], [0], [0]], (9,))
    for theta in (
        pk.RegimeClass(
            [[0.95, 0.05], [0.1, 0.9]], [[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]], emissions=0.1
        ),
        pk.ChainClass.any_start([[0.5, 0.25, 0.25]] * 3),
    ):
        with pytest.raises(NoTheorem, match="known"):
            ShapedCurve(theta.parts(50), 50, 5).loss(shape)


def two_moods():
    return pk.RegimeClass([[0.95, 0.05], [0.1, 0.9]], [[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]])


def test_a_direction_in_which_the_regimes_agree_is_quiet():
    """Its mean is the same in both: the loss is that of the entry, up to the second order."""
    emission = np.array([[0.4, 0.2, 0.4], [0.2, 0.6, 0.2]])
    theta = pk.RegimeClass([[0.99, 0.01], [0.01, 0.99]], emission)
    agree, disagree = np.array([[1], [0], [-1]]), np.array([[0], [1], [0]])
    quiet = loss_s(theta.parts(1000), [NoisyRun.of(Shape(agree, (200,)), 1000)])
    loud = loss_s(theta.parts(1000), [NoisyRun.of(Shape(disagree, (200,)), 1000)])
    assert quiet < 0.02
    assert loud > 4 * quiet


def test_costs_are_numbers_however_far_apart_entries_are():
    rows, before = np.array([[0.5, 0.5], [0.9, 0.1]]), 0.0
    beside = Beside(np.array([[0.0, 0.5], [0.5, 0.0]]), np.zeros((2, 2)))
    for far in (1.0, 100.0, 230.0, 240.0, 299.0):
        largest = row_costs(rows, np.array([[-far], [far]]), beside).max()
        assert before < largest < np.inf
        before = largest


def test_equal_rows_reveal_only_the_entry():
    theta = pk.RegimeClass([[0.9, 0.1], [0.1, 0.9]], [[0.3, 0.7], [0.3, 0.7]])
    loss = loss_s(theta.parts(500), [NoisyRun.of(Shape([[1], [0]], (3,)), 500)])
    assert loss == pytest.approx(1 / 3, rel=1e-9)


def test_sech_never_costs_more_than_laplace():
    theta = two_moods()
    for scale in (1, 10, 100):
        losses = [
            ShapedCurve(theta.parts(300), 300).loss(
                Shape(np.eye(3, dtype=int), (scale,) * 3, noise)
            )
            for noise in ("sech", "laplace")
        ]
        assert losses[0] <= losses[1] * (1 + 1e-9)


def test_laplace_on_bins_is_the_engine_with_its_own_cost():
    theta = two_moods()
    curve = ShapedCurve(theta.parts(300), 300)
    one = pk.influence_curve(theta, pk.histogram(), 1.0, 300).scale
    assert curve.loss(Shape.bins([one] * 3)) == pytest.approx(1.0, rel=1e-5)


def test_gaps_lose_no_more_than_the_whole():
    theta, shape = two_moods(), Shape([[1, 0], [0, 1], [-1, -1]], (30, 20))
    curve = ShapedCurve(theta.parts(50), 50)
    gap = curve.loss([NoisyRun.of(shape, 20), NoisyRun(10), NoisyRun.of(shape, 20)])
    assert gap <= curve.loss(shape) * (1 + 1e-6)


def test_the_histogram_comes_back_unchanged_without_noise():
    shape = Shape([[3, 0, 1], [-1, 2, 1], [-1, -1, 1], [-1, -1, -3]], (5, 4, 3))
    counts = np.array([7.0, 1.0, 0.0, 12.0])
    back = counts.sum() / 4 + back_on_bins(shape) @ (
        shape.directions.T @ counts - shape.directions.sum(axis=0) * counts.sum() / 4
    )
    assert back == pytest.approx(counts)


def test_directions_turn_to_where_little_is_told():
    """Two numbers of which only the difference is to be hidden: their sum gets little noise."""
    hidden = np.array([1.0, -1.0])

    def losses(rates):
        return np.array([np.abs(hidden @ rates).sum(), 0.01 * np.abs(np.ones(2) @ rates).sum()])

    def error(rates):
        return float(np.linalg.norm(np.linalg.inv(rates), axis=1).sum())

    found = best_directions(losses, error, 0.5 * np.eye(2), 1.0, seconds=10)
    assert losses(found).max() <= 1.02
    assert error(found) < 0.55 * error(0.5 * np.eye(2))


@pytest.mark.parametrize(("noise", "one"), [("laplace", 1.0), ("sech", 1.16624)])
def test_errors_of_bins_are_those_of_the_noise(noise, one):
    assert bin_errors(Shape(np.eye(3, dtype=int), (1, 10, 100), noise)) == pytest.approx(
        one * np.array([1, 10, 100]), rel=1e-3
    )


def test_what_is_no_shape_is_refused():
    for directions, scales in (([[1.5]], (1,)), ([[1], [0]], (0,)), ([[1], [0]], (1, 2))):
        with pytest.raises(ValueError, match=r"directions|scales"):
            Shape(directions, scales)
    with pytest.raises(ValueError, match="scales"):
        Shape([[1], [0]], (float("nan"),))
    with pytest.raises(ValueError, match="cover"):
        ShapedCurve(two_moods().parts(5), 5).loss([NoisyRun(4)])


def test_the_shape_is_exact():
    shape = Shape([[1], [0]], (Fraction(1, 3),))
    assert shape.scaled(Fraction(3)).scales == (Fraction(1),)
