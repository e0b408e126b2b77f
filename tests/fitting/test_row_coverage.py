"""Rows of people against kernels, and contamination calibrated on people who were held out."""

import numpy as np
import pytest
from scipy.optimize import linprog, minimize

from pufferkit import MarkovChain, NotApplicable
from pufferkit.fitting.row_tests import conformal_contamination, row_coverage

FIRST = np.array([[0.8, 0.15, 0.05], [0.3, 0.5, 0.2], [0.1, 0.4, 0.5]])
SECOND = np.array([[0.6, 0.3, 0.1], [0.2, 0.7, 0.1], [0.3, 0.3, 0.4]])


def walk(kernel, length, seed):
    return MarkovChain.steady(kernel).sample(length, seed=seed)


def test_members_of_the_hull_are_covered():
    for share in (0.0, 0.3, 1.0):
        kernel = share * FIRST + (1 - share) * SECOND
        covered = row_coverage([walk(kernel, 4000, 1)], [FIRST, SECOND], parts=1)
        assert covered.plausible == len(covered.rows) == 3
        assert covered.passed
        assert covered.contamination == 0


def test_a_row_outside_needs_the_contamination_it_has():
    strange = 0.7 * FIRST + 0.3 * np.array([0.0, 0.0, 1.0])
    covered = row_coverage([walk(strange, 40_000, 1)], [FIRST], parts=1)
    assert covered.plausible < 3
    assert covered.passed is False
    assert 0.2 < covered.contamination < 0.31
    allowed = row_coverage([walk(strange, 40_000, 1)], [FIRST], parts=1, inflate=0.31)
    assert allowed.passed
    assert allowed.plausible == 3


def test_rows_within_bounds():
    low, high = FIRST - 0.05, FIRST + 0.05
    inside = row_coverage([walk(FIRST, 20_000, 1)], (), bounds=(low, high), parts=1)
    assert inside.passed
    assert max(row.deviance for row in inside.rows) < 1e-6
    outside = row_coverage([walk(SECOND, 20_000, 1)], (), bounds=(low, high), parts=1)
    assert outside.passed is False


def test_the_optimum_is_that_of_a_general_solver():
    rng = np.random.default_rng(4)
    kernels = rng.dirichlet(np.ones(4), (3, 4))
    people = [rng.integers(0, 4, 400)]
    covered = row_coverage(people, kernels, parts=1)
    for row in covered.rows:
        after = people[0][1:][people[0][:-1] == row.state]
        counts = np.bincount(after, minlength=4)

        def deviance(z, counts=counts, state=row.state):
            weights = np.exp(z) / np.exp(z).sum()
            return 2 * np.sum(
                counts * np.log(counts / counts.sum() / (weights @ kernels[:, state]))
            )

        least = min(minimize(deviance, start).fun for start in rng.normal(size=(4, 3)))
        assert least - 1e-6 <= row.deviance <= least + 1e-2
        assert row.moves == counts.sum()


def test_moves_a_kernel_forbids_need_contamination():
    chain = np.array([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.5, 0.0, 0.5]])
    covered = row_coverage([walk(FIRST, 3000, 2)], [chain], parts=1)
    assert covered.plausible == 0
    assert 0 < covered.contamination < 1
    assert np.isfinite([row.deviance for row in covered.rows]).all()


def test_parts_of_the_day_gaps_and_few_visits():
    days = [np.r_[walk(FIRST, 500, day), walk(SECOND, 500, 50 + day)] for day in range(8)]
    entries = np.concatenate(days)
    apart = row_coverage([entries], [FIRST], day=1000, parts=2)
    assert {row.part for row in apart.rows if row.p_value < 0.01} == {1}
    turned = row_coverage(
        [entries], [FIRST], day=1000, parts=2, slots=[(np.arange(8000) + 500) % 1000]
    )
    assert {row.part for row in turned.rows if row.p_value < 0.01} == {0}
    gaps = entries.copy()
    gaps[::2] = -1
    nothing = row_coverage([gaps], [FIRST], day=1000)
    assert nothing.rows == ()
    assert nothing.passed is None
    with pytest.raises(ValueError, match="slots: must be one row for each person"):
        row_coverage([entries], [FIRST], day=1000, slots=[np.arange(3)])
    with pytest.raises(ValueError, match="kernels: must hold at least one"):
        row_coverage([entries], [])


def test_one_failure_in_a_hundred_rows_is_chance():
    people = [walk(FIRST, 2000, seed) for seed in range(60)]
    covered = row_coverage(people, [FIRST], parts=1)
    assert len(covered.rows) == 180
    assert 0 < 180 - covered.plausible < 8
    assert covered.passed


def test_ranks_and_refusals_of_the_conformal_contamination():
    etas = [0.01 * n for n in range(19)]
    assert conformal_contamination(etas, 0.1) == pytest.approx(0.17)  # the 18th of 19
    assert conformal_contamination(etas, 0.05) == pytest.approx(0.18)
    with pytest.raises(NotApplicable, match=r"4 people .* 0\.8 at most, not 0\.9; hold out 9"):
        conformal_contamination(etas[:4], 0.1)
    with pytest.raises(NotApplicable, match="0 people"):
        conformal_contamination([], 0.5)
    for alpha in (0, 1, -0.1):
        with pytest.raises(ValueError, match="alpha: must lie between 0 and 1"):
            conformal_contamination(etas, alpha)
    with pytest.raises(ValueError, match="etas: must be contaminations between"):
        conformal_contamination([0.1, 1.2], 0.5)


def least_contamination(kernel, kernels):
    """The exact one, row by row a linear programme: most weight of rows that fits below."""
    needed = 0.0
    for x, row in enumerate(kernel):
        below = np.array([other[x] for other in kernels])
        most = -linprog(-np.ones(len(below)), A_ub=below.T, b_ub=row, bounds=(0, None)).fun
        needed = max(needed, 1 - min(1.0, most))
    return needed


@pytest.mark.slow
def test_a_new_person_is_covered_as_often_as_promised():
    """A class from five people, nineteen others to calibrate, one more: nine times in ten."""
    rng = np.random.default_rng(5)

    def person():
        return np.array([rng.dirichlet(25 * row) for row in FIRST])

    covered = []
    for _ in range(40):
        public = [person() for _ in range(5)]
        kernels = [person() for _ in range(20)]
        people = [walk(kernel, 500, rng) for kernel in kernels]
        scores = [0.0] * len(people)
        for row in row_coverage(people, public, parts=1, visits=20).rows:
            scores[row.person] = max(scores[row.person], row.contamination)
        eta = conformal_contamination(scores[:-1], 0.1)
        covered.append((scores[-1] <= eta, least_contamination(kernels[-1], public) <= eta))
    plausible, needed = np.mean(covered, axis=0)
    assert plausible >= 0.8  # standard error 0.05 around at least 0.9
    assert needed < 0.7  # what data do not refute is below the person's true need
