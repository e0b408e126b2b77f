"""W-infinity between distributions on the line, exactly."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from pufferkit import w_infinity

REFERENCE = [
    (
        {16: "17/61", 35: "23/122", 43: "15/61", 48: "35/122"},
        {7: "13/27", 13: "8/81", 30: "22/81", 33: "4/27"},
        36,
    ),
    (
        {0: "31/156", 15: "8/39", 22: "1/13", 27: "2/39", 31: "2/13", 35: "3/26", 39: "31/156"},
        {4: "29/130", 9: "11/130", 15: "7/130", 30: "3/65", 37: "5/26", 40: "8/65", 49: "18/65"},
        15,
    ),
    (
        {
            1: "1/31",
            2: "1/186",
            8: "11/93",
            9: "2/93",
            15: "5/31",
            23: "37/186",
            29: "17/186",
            30: "37/186",
            37: "7/93",
            38: "7/186",
            39: "3/62",
            42: "1/93",
        },
        {
            1: "6/223",
            11: "38/223",
            12: "32/223",
            18: "12/223",
            19: "21/223",
            26: "36/223",
            28: "2/223",
            29: "10/223",
            31: "6/223",
            35: "15/223",
            37: "39/223",
            42: "6/223",
        },
        11,
    ),
]


def by_feasibility(mu, nu):
    """The least distance d for which a coupling within d exists, by linear programming."""
    xs, ys = sorted(mu), sorted(nu)
    for d in sorted({abs(x - y) for x in xs for y in ys}):
        allowed = [(i, j) for i, x in enumerate(xs) for j, y in enumerate(ys) if abs(x - y) <= d]
        if not allowed:
            continue
        rows = np.zeros((len(xs) + len(ys), len(allowed)))
        for n, (i, j) in enumerate(allowed):
            rows[i, n] = rows[len(xs) + j, n] = 1
        target = [float(mu[x]) for x in xs] + [float(nu[y]) for y in ys]
        if linprog(np.zeros(len(allowed)), A_eq=rows, b_eq=target).status == 0:
            return d
    raise AssertionError("no coupling")


@pytest.mark.parametrize(("mu", "nu", "distance"), REFERENCE)
def test_reference_distributions(mu, nu, distance):
    exact = [{x: Fraction(p) for x, p in distribution.items()} for distribution in (mu, nu)]
    assert w_infinity(*exact) == distance


def test_flu_clique_of_section_3_1():
    zero = {0: 0.2, 1: 0.225, 2: 0.5, 3: 0.075, 4: 0}
    one = {0: 0, 1: 0.075, 2: 0.5, 3: 0.225, 4: 0.2}
    assert w_infinity(zero, one) == 2


def test_ties_of_decimals_are_ties():
    """0.1 + 0.2 is 0.3 here, though not for floats."""
    mu = {0: 0.1, 1: 0.2, 9: 0.7}
    nu = {1: 0.3, 9: 0.7}
    assert w_infinity(mu, nu) == 1


def test_the_rarest_outcome_decides():
    tiny = Fraction(1, 10**40)
    assert w_infinity({0: 1 - tiny, 100: tiny}, {0: 1}) == 100
    assert w_infinity({0: 1 - 1e-9, 7: 1e-9}, {0: 1.0}) == 7


distribution = st.dictionaries(st.integers(-6, 6), st.integers(1, 6), min_size=1, max_size=5).map(
    lambda d: {x: Fraction(n, sum(d.values())) for x, n in d.items()}
)


@pytest.mark.slow
@given(distribution, distribution)
@settings(max_examples=120, deadline=None)
def test_equals_the_linear_programme_on_tie_heavy_distributions(mu, nu):
    assert w_infinity(mu, nu) == by_feasibility(mu, nu)


def test_float_values_round_up():
    distance = w_infinity({0.1: 1}, {0.4: 1})
    assert isinstance(distance, float)
    assert Fraction(distance) >= Fraction(3, 10)


@pytest.mark.parametrize(
    ("mu", "problem"),
    [
        ({0: 0.5}, "sum to 0.5"),
        ({0: -1, 1: 2}, "below 0"),
        ({0: float("nan")}, "finite"),
        ({}, "0"),
        ({0: 1 + 2e-8}, "sum to 1.00000002"),
        ({0: 1 - 2e-8}, "sum to 0.99999998"),
        ({"one": 1}, "value"),
    ],
)
def test_bad_distributions_are_named(mu, problem):
    with pytest.raises(ValueError, match=f"^mu: .*{problem}"):
        w_infinity(mu, {0: 1})
    with pytest.raises(ValueError, match=f"^nu: .*{problem}"):
        w_infinity({0: 1}, mu)


def test_a_sum_that_is_off_by_rounding_is_rescaled():
    for slip in (Fraction(1, 10**8), -Fraction(1, 10**8)):
        assert w_infinity({0: Fraction(1, 2) + slip, 3: Fraction(1, 2)}, {0: 0.5, 3: 0.5}) == 3
    assert w_infinity({0: 0.5 + 5e-9, 3: 0.5 + 5e-9}, {0: 0.5, 3: 0.5}) == 0


def test_values_without_mass_are_not_there():
    """A value of probability 0 is no event, wherever it lies and whatever it is."""
    assert w_infinity({0: 1, 100: 0}, {0: 1}) == 0
    assert w_infinity({0: 1}, {-100: 0, 0: 1, 7: 0.0}) == 0
    assert w_infinity({0: 1, "never": 0}, {0: 1}) == 0


def test_equal_values_written_differently_are_one():
    tenth = Fraction(1, 10)
    assert w_infinity({tenth: 0.25, 0.1: 0.25, 2: 0.5}, {0.1: 0.5, 2: 0.5}) == 0


def test_fractions_in_fractions_out():
    exact = w_infinity({Fraction(1, 3): 1}, {0: 0.5, Fraction(2, 3): 0.5})
    assert isinstance(exact, Fraction)
    assert exact == Fraction(1, 3)
    assert isinstance(w_infinity({0: 1}, {0.5: 1}), float)
    assert isinstance(w_infinity({0.5: 1}, {0: 1}), float)
