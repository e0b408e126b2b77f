"""Directed rounding, exact fractions, and the search that ends on the private side."""

import math
from fractions import Fraction
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pufferkit.rounding import (
    as_fraction,
    at_least,
    few_digits,
    largest_within,
    last_passing,
    last_passing_each,
    least_passing,
    round_up,
)


@pytest.mark.parametrize("value", [1.0, -1.0, 0.0, 5e-324, 1e300])
def test_rounding_up_moves_by_so_many_floats(value):
    one = math.nextafter(value, inf)
    four = math.nextafter(math.nextafter(math.nextafter(one, inf), inf), inf)
    assert round_up(value, 0) == value
    assert round_up(value, 1) == one
    assert round_up(value) == four


def test_fractions_are_taken_exactly_and_floats_as_the_decimals_they_print_as():
    assert as_fraction("x", Fraction(1, 3)) == Fraction(1, 3)
    assert as_fraction("x", 2**70 + 1) == 2**70 + 1
    assert as_fraction("x", 0.1) == Fraction(1, 10)
    assert as_fraction("x", np.float64(0.1)) == Fraction(1, 10)
    for bad in (float("nan"), inf, "one"):
        with pytest.raises(ValueError, match=r"^share: "):
            as_fraction("share", bad)


@given(st.fractions(-(10**6), 10**6))
def test_the_least_float_that_is_not_below(value):
    number = at_least(value)
    assert Fraction(number) >= value
    assert Fraction(math.nextafter(number, -inf)) < value


def test_a_float_is_its_own_least_float():
    assert at_least(Fraction(0.3)) == 0.3
    # A third is rounded down by float(), two thirds up.
    assert at_least(Fraction(1, 3)) == math.nextafter(1 / 3, inf)
    assert at_least(Fraction(1, 3) * 4 / 2) >= Fraction(2, 3)


class Margin:
    """A margin that remembers where it was asked."""

    def __init__(self, margin):
        self.margin, self.asked = margin, []

    def __call__(self, x):
        self.asked.append(x)
        return self.margin(x)


EDGE = 0.7312345678901234
SHAPES = {
    "line": lambda x: EDGE - x,
    "steep": lambda x: math.expm1(60 * (EDGE - x)),
    "flat": lambda x: (EDGE - x) ** 3,
    "step": lambda x: 1.0 if x <= EDGE else -1.0,
    "touching": lambda x: 0.0 if x <= EDGE else -1.0,
    "unbounded above": lambda x: inf if x < EDGE / 2 else EDGE - x,
    "unbounded below": lambda x: -inf if x > 1 else EDGE - x,
    "infinite step": lambda x: inf if x <= EDGE else -inf,
}


@pytest.mark.parametrize("precision", [1e-3, 1e-9, 1e-13])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("mirrored", [False, True])
def test_the_search_ends_at_a_point_that_passed_next_to_the_edge(shape, precision, mirrored):
    sign = -1.0 if mirrored else 1.0
    margin = Margin(lambda x: SHAPES[shape](EDGE + sign * (x - EDGE)))
    good, bad = EDGE - sign * 0.5, EDGE + sign * 0.6
    end = last_passing(margin, good, bad, precision)
    assert end in margin.asked
    assert margin(end) >= 0
    assert sign * (EDGE - end) <= precision * abs(end) * (1 + 1e-9)
    # A bisection halves; secants must never be worse than a few bisections.
    assert len(margin.asked) < 10 + 3 * math.log2(1 / precision)


def test_a_straight_line_takes_a_few_secants():
    margin = Margin(lambda x: 5.0 - x)
    assert last_passing(margin, 1.0, 100.0, 1e-9) == pytest.approx(5.0, rel=1e-9)
    assert len(margin.asked) <= 8


def test_ends_as_close_as_asked_for_are_not_searched():
    margin = Margin(lambda x: 1.5 - x)
    assert last_passing(margin, 1.0, 2.0, 1.0) == 1.0
    assert margin.asked == [1.0, 2.0]


def test_neighbouring_floats_end_the_search():
    """No precision is reachable: the search ends where no float lies between."""
    good, bad = 1.0, math.nextafter(1.0, 2.0)
    assert last_passing(lambda x: 1.0 if x <= good else -1.0, good, bad, 0.0) == good
    assert last_passing(lambda x: EDGE - x, 0.0, 1.0, 0.0) == EDGE


def test_a_margin_of_nothing_passes():
    assert last_passing(lambda x: 0.0 if x < 2 else -1.0, 1.0, 3.0, 1e-6) == pytest.approx(2.0)


@pytest.mark.parametrize("edge", [1, 2, 7, 99, 100])
def test_the_least_whole_number_that_passes(edge):
    tried = []

    def passes(n):
        tried.append(n)
        return n >= edge

    assert least_passing(passes, 0, 100) == edge
    assert len(tried) <= 7
    assert 0 not in tried


@pytest.mark.parametrize("precision", [1e-3, 1e-12, 0.0])
def test_many_searches_end_where_each_passed(precision):
    edges = np.array([EDGE, 0.25, 1e-6, 0.999])
    tried = []

    def passes(points):
        tried.append(points.copy())
        return points >= edges

    ends = last_passing_each(passes, np.ones(4), np.zeros(4), precision)
    assert (ends >= edges).all()
    assert (ends - edges <= precision * ends).all()
    assert all(any(end == points[n] for points in tried) for n, end in enumerate(ends))
    # Towards larger numbers as well; those that pass nowhere stay where they are.
    ends = last_passing_each(lambda x: x <= edges, np.zeros(4), np.ones(4), precision, least=1.0)
    assert (ends <= edges).all()
    assert (edges - ends <= precision).all()
    assert (last_passing_each(passes, np.ones(4), np.ones(4), precision) == 1).all()


@pytest.mark.parametrize("precision", [1e-4, 2e-5, 1e-8])
def test_the_last_bits_of_a_loss_do_not_move_the_end_of_a_search(precision):
    rng = np.random.default_rng(3)
    for _ in range(20):
        factor, power = rng.uniform(0.5, 3.0, 2)

        def loss(b, blur, factor=factor, power=power):
            return factor * b**power * (1 + blur * 1e-14)

        ends = {
            (
                largest_within(
                    lambda b, k=k: (loss(b, k), b), 1.0, 0.01 + k * 1e-17, 3.0, precision
                ),
                last_passing(lambda b, k=k: 1.0 - loss(b, k), 0.01, 3.0, precision),
            )
            for k in (-1, 0, 1)
        }
        assert len(ends) == 1


def test_few_digits_are_a_hundredth_of_the_precision_away():
    assert few_digits(1 / 3, 2e-5) == 0.3333333
    assert few_digits(1 / 3, 1e-8) == 0.3333333333
    assert few_digits(1 / 3, 0.0) == few_digits(1 / 3, 1e-15) == 1 / 3
    assert few_digits(5e-324, 1e-8) == 5e-324
