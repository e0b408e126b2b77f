"""The measured influence of an entry: against its definition, its limits, and the floor it sets."""

import numpy as np
import pytest

from pufferkit import MarkovChain, NotApplicable
from pufferkit.fitting.measured_influence import as_observed, measured_influence, plug_in_influence
from tests.oracles.switching import draw, outer_losses, switching, window_influence

STICKY = np.array([[0.95, 0.05, 0.0], [0.05, 0.9, 0.05], [0.0, 0.1, 0.9]])
REGIMES = np.array([[0.98, 0.02], [0.03, 0.97]])
SHOWN = np.array([[0.8, 0.15, 0.05], [0.1, 0.3, 0.6]])


def by_definition(people, states, window):
    """Mean histograms around visits, one visit at a time."""
    sums, visits = np.zeros((states, states)), np.zeros(states)
    for x in people:
        for t in range(window, len(x) - window):
            around = x[t - window : t + window + 1]
            around = around[around >= 0]
            if x[t] >= 0 and 2 * len(around) > 2 * window + 1:
                histogram = np.bincount(around, minlength=states)
                sums[x[t]] += histogram * (2 * window + 1) / len(around)
                visits[x[t]] += 1
    means = sums / visits[:, None]
    return np.abs(means[:, None] - means[None]).sum(axis=2) / 2


@pytest.mark.parametrize("gaps", [0.0, 0.2])
def test_the_plug_in_is_the_definition(gaps):
    rng = np.random.default_rng(1)
    people = [draw(REGIMES, SHOWN, n, n) for n in (700, 900)]
    people = [np.where(rng.random(len(x)) < gaps, -1, x) for x in people]
    measured = measured_influence(people, 3, 12, 100)
    table = by_definition(people, 3, 12)
    assert measured.plug_in == pytest.approx(table.max())
    assert table[measured.pair] == pytest.approx(table.max())
    assert measured.days == 16


@pytest.mark.slow
def test_it_nears_the_exact_influence_of_chains_and_regimes():
    for matrix, emission in ((STICKY, np.eye(3)), (REGIMES, SHOWN)):
        exact = window_influence(matrix, emission, 60).max()
        measured = measured_influence([draw(matrix, emission, 60_000, 3)], 3, 60, 600)
        assert measured.point == pytest.approx(exact, rel=0.12)
        assert abs(measured.point - exact) < 3 * measured.error
        assert 0.6 * exact < measured.lower < exact


def test_states_that_are_seldom_visited_are_not_compared():
    entries = MarkovChain.steady([[0.9, 0.1], [0.1, 0.9]]).sample(4000, seed=1)
    entries = np.asarray(entries).copy()
    entries[1000:1030] = 2  # thirty visits, all on one day, that would look like much
    measured = measured_influence([entries], 3, 20, 200)
    assert 2 not in measured.pair


def test_series_of_the_true_class_reach_the_data_and_those_of_a_chain_do_not():
    data = draw(REGIMES, SHOWN, 5000, 1)
    pairs = np.zeros((3, 3))
    np.add.at(pairs, (data[:-1], data[1:]), 1)
    chain = MarkovChain.steady(pairs / pairs.sum(axis=1, keepdims=True))
    reached = measured_influence([data], 3, 60, 500).plug_in
    right = [
        plug_in_influence([draw(REGIMES, SHOWN, 5000, 100 + n)], 3, 60, 500) for n in range(20)
    ]
    wrong = [plug_in_influence([chain.sample(5000, seed=n)], 3, 60, 500) for n in range(20)]
    assert np.mean(np.array(right) >= reached) >= 0.05
    assert max(wrong) < reached


def test_drawn_series_lose_the_entries_that_the_data_lack():
    entries = draw(REGIMES, SHOWN, 3000, 1)
    entries[500:1400] = -1
    (drawn,) = as_observed([entries.clip(0) + 1], [entries])
    assert ((drawn < 0) == (entries < 0)).all()


def test_too_little_to_measure_is_refused():
    with pytest.raises(NotApplicable, match=r"two days of 144 entries.*1 days and"):
        measured_influence([np.arange(144) % 2], 2, 10, 144)
    with pytest.raises(NotApplicable, match="0 states"):
        measured_influence([np.arange(100) % 2], 2, 48, 20)
    for wrong in ([0.5, 1.0], [[0, 1]], [0, 3], [0, -2], []):
        with pytest.raises(ValueError, match="people: sequence 1"):
            measured_influence([wrong], 2, 1, 10)
    with pytest.raises(ValueError, match="at least one sequence"):
        measured_influence([], 2, 1, 10)


def test_no_laplace_noise_loses_less_than_the_influence_budgets():
    """Outer outputs of random switching models lose b N as b goes to 0."""
    rng = np.random.default_rng(2)
    for _ in range(12):
        count, size = int(rng.integers(2, 4)), int(rng.integers(2, 4))
        regimes = 0.8 * np.eye(count) + 0.2 * rng.dirichlet(np.ones(count), count)
        kernels = rng.dirichlet(np.ones(size), (count, size)) / 2 + np.eye(size) / 2
        matrix, emission = switching(regimes, kernels)
        influence = window_influence(matrix, emission, 40).max()
        for loss, least in ((0.001, 0.9999), (0.2, 0.99), (1.0, 0.9)):
            entry = loss / influence  # a change of one entry moves v.h by 2, so b = 2 u
            outer = outer_losses(matrix, emission, 40, entry / 2).max()
            assert outer >= least * loss


@pytest.mark.slow
@pytest.mark.parametrize(("matrix", "emission"), [(STICKY, np.eye(3)), (REGIMES, SHOWN)])
def test_the_lower_limit_holds_in_nineteen_of_twenty_series(matrix, emission):
    exact = window_influence(matrix, emission, 48).max()
    series = [measured_influence([draw(matrix, emission, 2016, s)], 3, 48, 144) for s in range(150)]
    assert np.mean([one.lower <= exact for one in series]) >= 0.93
    points = np.array([one.point for one in series])
    assert points.mean() == pytest.approx(exact, rel=0.1)
