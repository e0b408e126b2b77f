"""Answers of k states: the loss by definition, against closed forms for two, and by attack."""

from math import log

import numpy as np
import pytest
from scipy import stats

import pufferkit as pk
from pufferkit.audit import audit
from pufferkit.local import (
    KaryResponse,
    MatrixResponse,
    RandomizedResponse,
    cheapest_noise,
    estimate,
    loss,
    mechanism_from_json,
)
from pufferkit.local.kary import event_level, matrix_loss
from pufferkit.local.least_noise import fewest_wrong
from pufferkit.local.losses import entry_bound, largest_entry_epsilon
from tests.oracles.brute_local import brute_loss

LEVELS = pk.MarkovChain.steady([[0.8, 0.15, 0.05], [0.2, 0.6, 0.2], [0.05, 0.25, 0.7]])
SPARSE = [[0.8, 0.2, 0.0], [0.1, 0.8, 0.1], [0.0, 0.3, 0.7]]


def symmetric(size, rho):
    matrix = np.full((size, size), rho)
    np.fill_diagonal(matrix, 1 - (size - 1) * rho)
    return matrix


def cases():
    rng = np.random.default_rng(4)
    yield LEVELS, symmetric(3, 0.25)
    yield pk.MarkovChain.steady(SPARSE), symmetric(3, 0.1)
    yield pk.MarkovChain([0, 1, 0], SPARSE), symmetric(3, 0.2)
    for _ in range(3):
        chain = pk.MarkovChain(rng.dirichlet([1] * 3), rng.dirichlet([0.6] * 3, 3))
        yield chain, rng.dirichlet([2] * 3, 3)


@pytest.mark.parametrize("adversary", ["every", "ignorant"])
@pytest.mark.parametrize("case", range(6))
def test_loss_is_the_definition(case, adversary):
    chain, matrix = list(cases())[case]
    real, _ = brute_loss(chain, matrix, 4, adversary)
    listed = matrix_loss(chain, matrix, 4, adversary)
    assert listed >= real
    if listed.exact:
        assert listed == pytest.approx(real, abs=1e-9)
    assert listed.exact or not chain.initial.all()
    bound = matrix_loss(chain, matrix, 4, adversary, reach=False)
    assert bound >= real
    assert bound <= 1.15 * real
    limit = matrix_loss(chain, matrix, None, adversary)
    assert real <= limit <= entry_bound(chain, event_level(matrix))


@pytest.mark.parametrize("adversary", ["every", "ignorant"])
def test_two_states_have_the_closed_forms(adversary):
    for q, r, rho_0, rho_1 in ((0.2, 0.35, 0.3, 0.25), (0.7, 0.6, 0.2, 0.4)):
        chain = pk.MarkovChain.steady([[1 - q, q], [r, 1 - r]])
        matrix = np.array([[1 - rho_0, rho_0], [rho_1, 1 - rho_1]])
        for length in (1, 2, 20, None):
            scalar = loss(chain, rho_0, rho_1, length, adversary)
            assert matrix_loss(chain, matrix, length, adversary) == pytest.approx(scalar, abs=1e-6)


def test_less_noise_than_by_the_event_level_epsilon():
    """Six entries of three states: 3 are promised and 3 are lost; it was 1.6."""
    before = symmetric(3, 1 / (np.expm1(largest_entry_epsilon(LEVELS, 3)) + 3))
    assert matrix_loss(LEVELS, before, 6, "every") < 1.9
    now = cheapest_noise(LEVELS, 3, length=6)
    assert now.loss.exact
    assert 3 - 1e-4 < now.loss <= 3
    assert max(brute_loss(LEVELS, now.matrix, 4, "every")[1].values()) <= 3


@pytest.mark.slow
def test_less_noise_at_any_length():
    before = symmetric(3, 1 / (np.expm1(largest_entry_epsilon(LEVELS, 3)) + 3))
    anywhere = cheapest_noise(LEVELS, 3)
    ignorant = cheapest_noise(LEVELS, 3, "ignorant")
    assert ignorant.expected_noise < anywhere.expected_noise
    assert anywhere.expected_noise == pytest.approx(0.5455, abs=1e-4)
    assert ignorant.expected_noise == pytest.approx(0.5432, abs=1e-4)
    assert 2 * before[0, 1] == pytest.approx(0.6009, abs=1e-4)


def test_an_attack_that_climbs_finds_nothing_above_the_bound():
    """Coordinate ascent on the true loss over the bound: chain, start and answers move."""

    def gain(point):
        tables = np.exp(point.reshape(7, 3))
        tables /= tables.sum(axis=1, keepdims=True)
        chain = pk.MarkovChain(tables[0], tables[1:4])
        real = brute_loss(chain, tables[4:], 3, "every")[0]
        bound = matrix_loss(chain, tables[4:], 3, "every", reach=False)
        return real - bound

    rng = np.random.default_rng(7)
    point = rng.normal(size=21)
    best = gain(point)
    for place in rng.permutation(21):
        for step in (-1.5, 1.5):
            moved = point.copy()
            moved[place] += step
            value = gain(moved)
            if value > best:
                point, best = moved, value
    assert best <= 0


def test_the_programme_for_two_states_is_the_polygon():
    chain = pk.MarkovChain.steady([[0.8, 0.2], [0.35, 0.65]])
    for epsilon in (0.5, 2):
        rho_0, rho_1 = cheapest_noise(chain, epsilon, "ignorant")
        limits = np.array([[0, log((1 - rho_0) / rho_1)], [log((1 - rho_1) / rho_0), 0]])
        matrix = fewest_wrong(limits, chain.stationary)
        assert matrix == pytest.approx(np.array([[1 - rho_0, rho_0], [rho_1, 1 - rho_1]]), abs=1e-6)
    assert isinstance(cheapest_noise(chain, 2, design="optimised"), RandomizedResponse)


def test_optimised_designs_answer_wrongly_less_often():
    alike = cheapest_noise(LEVELS, 3, length=5)
    made = cheapest_noise(LEVELS, 3, length=5, design="optimised")
    assert isinstance(made, MatrixResponse)
    assert made.loss <= 3
    assert made.expected_noise < 0.95 * alike.expected_noise
    assert brute_loss(LEVELS, made.matrix, 4, "every")[0] <= 3
    assert (made.matrix <= np.diagonal(made.matrix)[:, None] + 1e-12).all()
    assert mechanism_from_json(made.to_json()).to_dict() == made.to_dict()
    assert "response by a matrix" in str(made)
    assert audit(made, length=5, trials=2000, confidence=0.999, seed=1).passed


def test_answers_come_from_their_rows():
    rows = [[0.5, 0.3, 0.2], [0.1, 0.7, 0.2], [0.25, 0.25, 0.5]]
    made = MatrixResponse(LEVELS, rows)
    assert all(sum(row) == 2**64 for row in made.drawn)
    for state in range(3):
        seen = np.bincount(made.sanitize(np.full(100_000, state)), minlength=3)
        streamed = list(made.sanitize(iter([state] * 20_000)))
        for counts in (seen, np.bincount(streamed, minlength=3)):
            assert stats.chisquare(counts, counts.sum() * made.matrix[state]).pvalue > 1e-10
    truth = LEVELS.sample(50_000, seed=3)
    told = estimate(made.sanitize(truth), made, 1 - 1e-10)
    assert (abs(told.counts - np.bincount(truth)) <= told.counts_error).all()


def test_chains_that_do_not_forget_have_the_bound_of_added_entries():
    stuck = pk.MarkovChain([1 / 3] * 3, np.eye(3))
    made = KaryResponse(stuck, 0.25, length=5)
    assert made.loss == pytest.approx(5 * log(2))
    assert made.loss >= brute_loss(stuck, made.matrix, 3, "every")[0]
    with pytest.raises(pk.NotApplicable, match="does not mix within 64 steps"):
        KaryResponse(stuck, 0.25)
    fading = pk.MarkovChain([0.5, 0.5, 0], [[0.5, 0.5, 0], [0, 1, 0], [0, 0.5, 0.5]])
    assert (
        matrix_loss(fading, made.matrix, 3, "every")
        >= (brute_loss(fading, made.matrix, 3, "every")[0])
    )


def test_refusals():
    with pytest.raises(ValueError, match="rows"):
        MatrixResponse(LEVELS, [[0.5, 0.5], [0.5, 0.5]])
    with pytest.raises(ValueError, match="rows"):
        MatrixResponse(LEVELS, [[0.5, 0.6, 0.2]] * 3)
    with pytest.raises(ValueError, match="nothing to hide"):
        MatrixResponse(pk.MarkovChain([1], [[1]]), [[1]])
    sure = MatrixResponse(LEVELS, np.eye(3))
    assert sure.loss == float("inf")
    assert sure.sanitize([0, 1, 2]) == [0, 1, 2]
    silent = MatrixResponse(LEVELS, np.full((3, 3), 1 / 3))
    assert silent.loss == 0
    assert KaryResponse(LEVELS, 0.2, length=3).loss.exact


def test_impossible_moves_have_no_bound_by_pairs():
    """A known entry rules out others: variations without limit, where no plan is of use."""
    chain = pk.MarkovChain([0.5, 0.3, 0.2], [[0.6, 0.4, 0], [0, 0.7, 0.3], [0.5, 0, 0.5]])
    matrix = np.full((3, 3), 0.23) + 0.31 * np.eye(3)
    for length in (None, 80):
        loss = matrix_loss(chain, matrix, length, "every")
        assert 0 < loss <= entry_bound(chain, event_level(matrix)) < 20
