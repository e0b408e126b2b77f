"""Printed statements that do not hold, each shown by running it; docs/papers.md lists them."""

from math import exp, log

import numpy as np
import pytest

import pufferkit as pk
from papers.local_figures import exact_rho, zhao_3
from pufferkit.audit import success_bound
from pufferkit.local import cheapest_noise, loss


def test_an_eigenvalue_of_modulus_one_is_left_out():
    """[Q] (7), [C] Lemma 2.3: the gap of a chain on pairs is none, and (7) finds one."""
    stay, apart = 0.95, 12
    pairs = np.zeros((4, 4))  # 00, 01, 10, 11; the second entry moves on by itself
    for now in range(4):
        last = now % 2
        pairs[now, 2 * last + last], pairs[now, 2 * last + 1 - last] = stay, 1 - stay
    chain = pk.MarkovChain.steady(pairs)
    pi = chain.stationary
    reversal = (pi[:, None] * pairs / pi[None, :]).T
    eigenvalues = abs(np.linalg.eigvals(pairs @ reversal))
    decay = exp(-min(1 - value for value in eigenvalues if value < 1 - 1e-9) * apart / 2)
    printed = 3 * log((pi.min() + decay) / (pi.min() - decay))
    truth = pk.max_influence(chain, apart + 1, left=apart, right=apart)
    assert round(printed, 3) == 0.597
    assert round(truth, 3) == 1.299
    with pytest.raises(pk.NotApplicable, match="gap"):
        pk.markov_quilt_approx(chain, pk.count(0, 1000), 1)


def test_the_constant_depends_on_epsilon_too():
    """[Q] Theorem 4.10: scale times epsilon grows without bound as epsilon falls."""
    mixing = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    products = [
        pk.markov_quilt_approx(mixing, pk.count(1, 10**6), epsilon).scale * epsilon
        for epsilon in (5, 1, 1e-2, 1e-4)
    ]
    assert products == sorted(products)
    assert products[-1] > 4 * products[0]


def test_the_captions_first_epsilon():
    """[Q] Figure 4: errors around 5, 1 and 0.2 are for 0.2, 1 and 5, not 0.5, 1 and 5."""
    frequency = pk.mean([0, 1], lengths=100)
    errors = [pk.group_dp(frequency, e).expected_l1_error for e in (0.2, 1, 5)]
    assert [round(error, 3) for error in errors] == [5, 1, 0.2]


def test_two_influences_are_swapped():
    """[C] Theorem 3.1: the loss of two randomised responses, by listing, is above the print."""
    matrix = np.array([[0.30, 0.17, 0.53], [0.35, 0.49, 0.16], [0.26, 0.14, 0.60]])
    chain = pk.MarkovChain.steady(matrix)

    def coin(epsilon):
        """Rows: the state; columns: the answer to "is it 1?", right with odds e^epsilon."""
        right = exp(epsilon) / (1 + exp(epsilon))
        return np.array([[right, 1 - right], [1 - right, right], [right, 1 - right]])

    joint = np.einsum("x,xy,xu,yv->xyuv", chain.stationary, matrix, coin(3), coin(4))
    truth = 0.0
    for window in (0, 1):
        given = joint.sum(axis=1 - window)
        given = np.log(given / given.sum(axis=(1, 2), keepdims=True))
        truth = max(truth, *((given[x] - given[y]).max() for x in range(3) for y in range(3)))
    ahead = pk.max_influence(chain, 1, right=1)  # e(X_T3 given X_T2)
    back = pk.max_influence(chain, 2, left=1)  # e(X_T2 given X_T3)
    printed = max(min(3 + 4, 3 + back), min(3 + 4, 4 + ahead))
    proved = max(min(3 + 4, 3 + ahead), min(3 + 4, 4 + back))
    assert printed < truth <= proved


def test_a_factor_two_too_many():
    """[B] (6): as printed it is above 1/2 where eps_3 is positive already."""
    theta, epsilon = 0.35, 4.0
    above, below = (1 - theta) ** 6, theta**6 * exp(epsilon)
    assert abs(zhao_3(theta, epsilon) - above / (below + above)) < 1e-12
    assert 2 * above / (below + above) > 0.5


def test_the_middle_is_the_ceiling():
    """[B] Theorem 1: of five entries the third loses most, not the second."""
    theta, rho, n = 0.35, exact_rho(0.35, 1), 5
    move, seen = np.array([[1 - theta, theta], [theta, 1 - theta]]), np.array([1 - rho, rho])
    before = [np.ones(2)]
    for _ in range(n - 1):
        before.append(move @ (seen * before[-1]))  # the chain read backwards is the same
    losses = [log(np.divide(*(before[i] * seen * before[n - 1 - i]))) for i in range(n)]
    assert losses.index(max(losses)) + 1 == 3


def test_the_reduction_to_dp_is_one_way():
    """[B] 4.2: less noise than epsilon_3 asks for can be epsilon-BDP."""
    even = pk.MarkovChain.steady([[0.65, 0.35], [0.35, 0.65]])
    assert cheapest_noise(even, 4.0).rho_0 < zhao_3(0.35, 4.0)


def test_the_bound_on_success_is_upside_down():
    """[B] 4.3: guessing the commoner state, without any data, does better than the bound."""
    odds, epsilon = 4.0, 0.5
    printed, guess = exp(epsilon) / (odds + exp(epsilon)), odds / (1 + odds)
    assert printed < guess < success_bound(epsilon, odds)


def test_who_knows_both_ends_learns_more_at_a_small_epsilon():
    lazy = pk.MarkovChain.steady([[0.8, 0.2], [0.35, 0.65]])
    coins = cheapest_noise(lazy, 0.5, "ignorant")
    assert loss(lazy, *coins, length=25, known={1: 1, 25: 1}, target=13) > 0.5 + 1e-5
    every = cheapest_noise(lazy, 2)
    assert loss(lazy, *every) <= 2 < loss(lazy, *cheapest_noise(lazy, 2, "ignorant"))


def test_outputs_beside_a_known_entry_say_most_when_they_differ_from_it():
    """[B] Theorem 2, proof: the loss is not largest where output, known entry and target are 0."""
    theta, rho = 0.2, 0.1
    move, seen = np.array([[1 - theta, theta], [theta, 1 - theta]]), np.array([1 - rho, rho])

    def log_ratio(output):
        """log P(output, X_1, X_2 | X_1 = output, X_3 = 0) over the same given the other X_1."""
        given = []
        for x in (output, 1 - output):
            paths = [
                move[x, y] * move[y, 0] * seen[int(x != output)] * seen[int(y != output)]
                for y in (0, 1)
            ]
            given.append(sum(paths) / (move @ move)[x, 0])
        return log(given[0] / given[1])

    assert round(log_ratio(0), 3) == 2.731
    assert round(log_ratio(1), 3) == 3.421
