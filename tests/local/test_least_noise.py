"""Least noise for a promise: reference cases, a grid over all noise, and mechanisms as records."""

import dataclasses
from math import exp, inf, log, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pufferkit as pk
from papers.local_figures import (
    approximate_rho,
    dp_rho,
    exact_rho,
    zhao_3,
    zhao_6,
)
from pufferkit.local import (
    KaryResponse,
    RandomizedResponse,
    XorChain,
    cheapest_noise,
    constraint_planes,
    correlated_noise_rows,
    loss,
    mechanism_from_json,
)

REFERENCE = [
    # q, r, epsilon, best rho against the ignorant adversary, expected noise
    (0.283, 0.32, 2.05, (0.2768618635290978, 0.2592505570048231), 0.2685965239828793),
    (0.284, 0.157, 2.4, (0.24896906750577094, 0.36665634838456423), 0.3247586089333838),
    (0.156, 0.369, 2.07, (0.24583909557129272, 0.5), 0.32136119288725146),
    (0.159, 0.217, 0.38, (0.45822043164010345, 0.5), 0.4758878554944214),
    (0.216, 0.118, 1.38, (0.5, 0.38158971330633495), 0.4234232876472106),
    (0.2, 0.35, 2.0, (0.342902, 0.255443), None),
    (0.2, 0.35, 0.5, (0.415235, 0.5), None),
]


def binary(q, r):
    return pk.MarkovChain.steady([[1 - q, q], [r, 1 - r]])


@pytest.mark.parametrize(("q", "r", "epsilon", "rho", "noise"), REFERENCE)
def test_reference_cases(q, r, epsilon, rho, noise):
    cheapest = cheapest_noise(binary(q, r), epsilon, adversary="ignorant")
    digits = 1e-9 if noise is not None else 1e-6
    assert tuple(cheapest) == pytest.approx(rho, abs=digits)
    assert cheapest.loss <= cheapest.epsilon == epsilon
    assert loss(binary(q, r), *cheapest, adversary="ignorant") == cheapest.loss
    if noise is not None:
        assert cheapest.expected_noise == pytest.approx(noise, abs=1e-9)


def test_both_constraints_bind_at_the_vertex_of_the_paper():
    noise = cheapest_noise(binary(0.2, 0.35), 2, "ignorant")
    assert noise.loss.directions == pytest.approx((2, 2), abs=1e-9)


def slope(q, r, epsilon):
    """t^2 of the errata: the condition of Theorem 1 is 1 - rho_0 <= t^2 rho_1."""
    e = exp(epsilon / 2)
    w = r * e - q / e
    return ((w + sqrt(w * w + 4 * (1 - q) * (1 - r))) / (2 * (1 - q))) ** 2


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 2.0, 8.0])
def test_constraint_planes_have_the_closed_form(epsilon):
    rows = constraint_planes(binary(0.2, 0.35), epsilon, points=11)
    for row in rows:
        first = (1 - row["rho_0"]) / slope(0.2, 0.35, epsilon)
        second = 1 - slope(0.35, 0.2, epsilon) * row["rho_0"]
        assert (row["first"], row["second"]) == pytest.approx((first, second), abs=1e-9)
    assert any(row["feasible"] for row in rows)
    with pytest.raises(pk.NotApplicable, match="q \\+ r <= 1"):
        constraint_planes(binary(0.8, 0.7), 1)


@pytest.mark.slow
@settings(max_examples=12)
@given(
    st.sampled_from([(0.2, 0.35), (0.05, 0.4), (0.3, 0.3), (0.7, 0.9), (0.95, 0.4)]),
    st.sampled_from([0.1, 1.0, 4.0]),
    st.sampled_from(["every", "ignorant"]),
    st.sampled_from([None, 6]),
)
def test_nothing_on_a_grid_is_private_and_cheaper(rates, epsilon, adversary, length):
    chain = binary(*rates)
    noise = cheapest_noise(chain, epsilon, adversary, length)
    assert noise.loss <= epsilon
    weights = chain.stationary
    for rho_0 in np.linspace(0, 0.5, 12):
        for rho_1 in np.linspace(0, 0.5, 12):
            if weights @ [rho_0, rho_1] < noise.expected_noise - 1e-6:
                assert loss(chain, rho_0, rho_1, length, adversary) > epsilon


def test_unequal_noise_pays():
    chain = binary(0.05, 0.4)
    for adversary in ("every", "ignorant"):
        noise = cheapest_noise(chain, 1, adversary)
        assert noise.rho_0 != noise.rho_1
        equal = 0.5
        while loss(chain, equal, equal, None, adversary) <= 1:
            equal -= 1e-3
        assert noise.expected_noise < equal


def test_more_epsilon_never_means_more_noise_and_every_adversary_never_less():
    chain = binary(0.1, 0.25)
    last = inf
    for epsilon in (1e-6, 0.01, 0.3, 1.0, 3.0, 10.0, 40.0, 300.0):
        every = cheapest_noise(chain, epsilon)
        ignorant = cheapest_noise(chain, epsilon, "ignorant")
        assert every.loss <= epsilon
        assert ignorant.loss <= epsilon
        assert ignorant.expected_noise <= every.expected_noise + 1e-9
        assert every.expected_noise <= last
        last = every.expected_noise


@pytest.mark.parametrize("length", [1, 2, 50, 5000])
def test_a_known_length_needs_no_more_noise(length):
    chain = binary(0.1, 0.25)
    noise = cheapest_noise(chain, 1, length=length)
    assert noise.expected_noise <= cheapest_noise(chain, 1).expected_noise + 1e-9
    assert loss(chain, *noise, length=length) <= 1


def test_one_entry_needs_what_dp_needs():
    noise = cheapest_noise(binary(0.3, 0.3), 1, length=1)
    assert noise.expected_noise == pytest.approx(dp_rho(1), abs=1e-9)


def test_other_starts_and_stuck_chains():
    sure = pk.MarkovChain([1, 0], [[0.9, 0.1], [0.3, 0.7]])
    assert cheapest_noise(sure, 1).loss <= 1
    assert cheapest_noise(sure, 1, length=9).loss <= 1
    stuck = pk.MarkovChain([0.5, 0.5], [[1, 0], [0, 1]])
    noise = cheapest_noise(stuck, 2, length=20)
    assert noise.loss <= 2
    assert log((1 - noise.rho_0) / noise.rho_1) == pytest.approx(0.1, abs=1e-6)
    with pytest.raises(pk.NotApplicable, match="give a length"):
        cheapest_noise(stuck, 1)
    with pytest.raises(ValueError, match="nothing to hide"):
        cheapest_noise(pk.MarkovChain([1], [[1]]), 1)


THREE = [[0.8, 0.2, 0.0], [0.1, 0.8, 0.1], [0.0, 0.3, 0.7]]


@pytest.mark.parametrize("adversary", ["every", "ignorant"])
@pytest.mark.parametrize("length", [pytest.param(None, marks=pytest.mark.slow), 1, 20])
def test_more_states(adversary, length):
    chain = pk.MarkovChain.steady(THREE, states=["a", "b", "c"])
    noise = cheapest_noise(chain, 1.5, adversary, length)
    assert isinstance(noise, KaryResponse)
    assert noise.loss <= 1.5
    assert noise.matrix.sum(axis=1) == pytest.approx(np.ones(3))
    assert noise.entry_epsilon == pytest.approx(log(noise.matrix[0, 0] / noise.matrix[0, 1]))
    assert noise.expected_noise == pytest.approx(1 - noise.matrix[0, 0])
    if length == 1:
        assert noise.rho == pytest.approx(1 / (exp(1.5) + 2), rel=1e-6)


def test_states_that_never_mix_are_refused_without_a_length():
    cycle = pk.MarkovChain.steady([[0, 1, 0], [0, 0, 1], [1, 0, 0]])
    with pytest.raises(pk.NotApplicable, match="does not mix within"):
        cheapest_noise(cycle, 1)
    assert cheapest_noise(cycle, 1, length=10).loss <= 1


def test_mechanisms_go_to_json_and_back():
    kary = pk.MarkovChain.steady(THREE, states=["a", "b", "c"])
    for made in (
        cheapest_noise(binary(0.2, 0.35), 1),
        cheapest_noise(binary(0.2, 0.35), 1, "ignorant", 40),
        KaryResponse(kary, 0.3, length=4),
        RandomizedResponse(binary(0.2, 0.3), 0.5, 0.5),
    ):
        again = type(made).from_json(made.to_json())
        assert again.to_dict() == made.to_dict()
        assert again.loss == made.loss
        assert mechanism_from_json(made.to_json()).to_dict() == made.to_dict()
    with pytest.raises(ValueError, match="kind"):
        mechanism_from_json('{"kind": "magic"}')
    with pytest.raises(ValueError, match="is this what to_json"):
        RandomizedResponse.from_json('{"rho_0": 0.1}')


def test_a_mechanism_is_a_record():
    made = RandomizedResponse(binary(0.2, 0.35), 0.25, 0.125, 2.0)
    assert tuple(made) == (0.25, 0.125)
    assert made.matrix.tolist() == [[0.75, 0.25], [0.125, 0.875]]
    assert made.states == (0, 1)
    assert made.entry_epsilon == pytest.approx(log(0.75 / 0.125))
    assert "any other entries" in made.guarantee
    assert not made.is_private
    assert dataclasses.replace(made, epsilon=9.0).is_private
    assert RandomizedResponse(binary(0.2, 0.35), 0.25, 0.125).is_private
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.rho_0 = 0.1
    with pytest.raises(ValueError, match="between 0 and 1/2"):
        RandomizedResponse(binary(0.2, 0.35), 0.6, 0.1, 1.0)
    with pytest.raises(ValueError, match="between 0 and 1/3"):
        KaryResponse(pk.MarkovChain.steady(THREE), 0.4)


@pytest.mark.parametrize("epsilon", [0, -1, float("nan"), inf])
def test_bad_epsilon(epsilon):
    with pytest.raises(ValueError, match="epsilon"):
        cheapest_noise(binary(0.2, 0.3), epsilon)


class TestComparison:
    def test_corollary_2_is_loose(self):
        assert approximate_rho(0.35, 1) == pytest.approx(0.4328, abs=5e-5)
        assert exact_rho(0.35, 1) == pytest.approx(0.3649, abs=5e-5)
        chain = binary(0.35, 0.35)
        assert loss(chain, *[approximate_rho(0.35, 1)] * 2, None, "ignorant") < 1

    def test_corollary_2_as_printed(self):
        theta, e = 0.3, exp(1.7)
        root = sqrt(theta**2 * e * (4 + theta * (theta * e - 4)))
        printed = (4 + theta * (theta * e - 2) - root) / (8 + 2 * theta * (theta * e + theta - 4))
        assert approximate_rho(0.3, 1.7) == pytest.approx(printed, rel=1e-12)

    def test_zhao_has_no_factor_2(self):
        theta, epsilon = 0.35, 5.0
        bound = (1 - theta) ** 6 / (theta**6 * exp(epsilon) + (1 - theta) ** 6)
        assert zhao_3(theta, epsilon) == pytest.approx(bound, rel=1e-12)
        assert zhao_3(theta, 1.0) is None

    def test_zhao_6_by_listing(self):
        for epsilon in (0.01, 0.5, 2.0, 9.0):
            listed = max(
                (epsilon - 6 * log((1 + 0.3**t) / (1 - 0.3**t))) / (2 * t - 1) for t in range(1, 16)
            )
            bound = zhao_6(0.35, epsilon, 30)
            if listed <= 0:
                assert bound is None
            else:
                assert bound == pytest.approx(1 / (exp(listed) + 1), rel=1e-12)


class TestCorrelatedNoise:
    @pytest.mark.parametrize("length", [1, 2, 4, 6])
    @pytest.mark.parametrize(
        "rates", [(0.3, 0.6, 0.2, 0.7), (0.1, 0.2, 0.8, 0.9), (0.8, 0.5, 0.1, 0.2)]
    )
    def test_loss_is_the_definition(self, length, rates):
        q, r, a, b = rates
        made = XorChain(binary(q, r), a, b)
        chain, pi = made.chain.transition, made.chain.stationary
        start = np.array([b, a]) / (a + b)
        worst = 0.0
        for code in range(2**length):
            z = [(code >> t) & 1 for t in range(length)]
            given_x = np.zeros((length, 2))
            for hidden in range(2**length):
                x = [(hidden >> t) & 1 for t in range(length)]
                y = [s ^ t for s, t in zip(x, z, strict=True)]
                p = pi[x[0]] * start[y[0]]
                for t in range(length - 1):
                    p *= chain[x[t], x[t + 1]] * made.noise[y[t], y[t + 1]]
                for t in range(length):
                    given_x[t, x[t]] += p
            ratios = np.log(given_x[:, 0] / given_x[:, 1]) - log(pi[0] / pi[1])
            worst = max(worst, float(np.abs(ratios).max()))
        assert made.loss(length) == pytest.approx(worst, abs=1e-12)

    def test_independent_noise_is_a_special_case(self):
        chain = binary(0.2, 0.2)
        made = XorChain(chain, 0.15, 0.85)
        assert made.loss() == pytest.approx(loss(chain, 0.15, 0.15, None, "ignorant"), abs=1e-9)
        assert made.loss(9) == pytest.approx(loss(chain, 0.15, 0.15, 9, "ignorant"), abs=1e-12)

    def test_it_brings_nothing_under_the_papers_assumptions(self):
        rows = correlated_noise_rows(0.2, 1.0, [0.5, 0.75, 1.0, 1.8])
        least = exact_rho(0.2, 1.0)
        for row in rows[:3]:
            assert row["assumptions"]
            assert row["expected_noise"] == pytest.approx(least, abs=1e-9)
        # Outside them: noise that alternates more than it repeats costs more.
        assert not rows[3]["assumptions"]
        assert rows[3]["expected_noise"] > least + 0.01

    def test_bad_input(self):
        with pytest.raises(ValueError, match="rho_0"):
            XorChain(binary(0.2, 0.2), 0, 0.5)
        with pytest.raises(ValueError, match="no zeros"):
            XorChain(pk.MarkovChain.steady([[0, 1], [0.5, 0.5]]), 0.1, 0.5)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [1e3, 1e300])
@pytest.mark.parametrize(
    "matrix",
    [
        [[0.9, 0.1], [0.4, 0.6]],
        [[0.2, 0.8], [0.7, 0.3]],
        [[0.7, 0.2, 0.1], [0.2, 0.6, 0.2], [0.1, 0.4, 0.5]],
    ],
)
def test_a_huge_epsilon_is_no_overflow(matrix, epsilon):
    made = cheapest_noise(pk.MarkovChain.steady(matrix), epsilon, "every", 5)
    assert made.epsilon == epsilon
    assert 0 < made.expected_noise < 1e-6
    assert made.loss <= epsilon
