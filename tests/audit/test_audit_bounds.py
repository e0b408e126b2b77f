"""What a promise allows, and what counts prove."""

import math
from fractions import Fraction
from math import comb

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import pufferkit as pk
from pufferkit.audit import (
    charged_epsilon,
    clopper_pearson,
    prior_odds,
    proven_epsilon,
    success_bound,
)


def test_numbers_of_section_4_1():
    assert success_bound(0.5) == pytest.approx(0.622459, abs=1e-6)
    assert success_bound(0.5, 4) == pytest.approx(4 * math.exp(0.5) / (1 + 4 * math.exp(0.5)))


@given(st.floats(0, 50), st.floats(1e-6, 1e6))
def test_charged_epsilon_inverts_the_bound(epsilon, odds):
    bound = success_bound(epsilon, odds)
    assert 0 <= bound <= 1
    if bound < 1 - 1e-9:
        assert charged_epsilon(bound, odds) == pytest.approx(epsilon, abs=1e-6)


def test_extremes():
    assert success_bound(0) == 0.5
    assert success_bound(1e6) == 1
    assert success_bound(0, 1e-300) == pytest.approx(1e-300)
    assert charged_epsilon(1) == math.inf
    assert charged_epsilon(0) == charged_epsilon(0.2) == 0
    assert prior_odds(pk.MarkovChain([1, 0], [[0.5, 0.5], [0.5, 0.5]]), 1) == math.inf


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: success_bound(-1), "at least 0"),
        (lambda: success_bound(math.nan), "finite"),
        (lambda: success_bound(1, 0), "above 0"),
        (lambda: charged_epsilon(1.5), "probability"),
        (lambda: clopper_pearson(3, 2, 0.01), "at most the number"),
        (lambda: clopper_pearson(1, 2, 0.7), "between 0 and 0.5"),
        (lambda: clopper_pearson(-1, 2, 0.1), "at least 0"),
        (lambda: proven_epsilon(1, 1, 10, 1.0), "at least 0.5 and below 1"),
    ],
)
def test_bad_arguments(call, said):
    with pytest.raises(ValueError, match=said):
        call()


@given(
    st.integers(1, 200_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))),
    st.sampled_from([0.3, 0.025, 1e-6, 5e-10]),
)
def test_clopper_pearson_is_scipys(case, error):
    hits, trials = case
    low, high = clopper_pearson(hits, trials, error)
    assert low == pytest.approx(stats.beta.ppf(error, hits, trials - hits + 1) if hits else 0)
    above = stats.beta.ppf(1 - error, hits + 1, trials - hits) if hits < trials else 1
    assert high == pytest.approx(above, rel=1e-6)
    # On the outer side: the count is no likelier there than the error.
    assert stats.binom.sf(hits - 1, trials, low) <= error * (1 + 1e-9) or hits == 0
    assert stats.binom.cdf(hits, trials, high) <= error * (1 + 1e-8) or hits == trials


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 60).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))),
    st.sampled_from([1e-12, 1e-6, 0.001, 0.05, 0.4]),
)
def test_clopper_pearson_lies_outside_by_exact_arithmetic(case, error):
    """The tails at the bounds, as sums of fractions: not above the error, and hardly below."""
    hits, trials = case
    low, high = map(Fraction, clopper_pearson(hits, trials, error))

    def tail(p: Fraction, counts: range) -> Fraction:
        return sum(
            (comb(trials, k) * p**k * (1 - p) ** (trials - k) for k in counts), start=Fraction(0)
        )

    if hits > 0:
        above = tail(low, range(hits, trials + 1))
        assert error * (1 - 1e-6) < above <= Fraction(error)
    if hits < trials and high < 1:
        below = tail(high, range(hits + 1))
        assert error * (1 - 1e-3) < below <= Fraction(error)


def test_what_counts_prove():
    assert proven_epsilon(10, 10, 100, 0.99) == 0
    assert proven_epsilon(0, 0, 100, 0.99) == 0
    assert proven_epsilon(5000, 5000, 10_000, 0.99) == 0
    epsilon = proven_epsilon(27_183, 10_000, 100_000, 0.999999)
    assert 0.9 < epsilon < 1
    # The more is seen, the nearer.
    assert epsilon < proven_epsilon(271_828, 100_000, 1_000_000, 0.999999) < 1


@pytest.mark.slow
def test_the_bound_holds_as_often_as_it_says():
    """Exact coverage for a pair of rates, at a level low enough to be seen failing."""
    n, p, q = 30, 0.6, 0.25
    truth = math.log(p / q)
    wrong = sum(
        stats.binom.pmf(k, n, p) * stats.binom.pmf(j, n, q)
        for k in range(n + 1)
        for j in range(n + 1)
        if proven_epsilon(k, j, n, 0.8) > truth
    )
    assert 0 < wrong <= 0.2
