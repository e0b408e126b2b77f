"""What audits are made of: draws given a secret, distributions, densities, events."""

import numpy as np
import pytest

import pufferkit as pk
from pufferkit.audit.answer_model import (
    AnswerDistribution,
    SampledModel,
    answer_model,
    chain_table,
    conditioned,
    distribution_of_sums,
    log_density,
)
from pufferkit.audit.limits import choose

LAZY = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
THREE = pk.MarkovChain.steady([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]])


@pytest.mark.parametrize("known", [{2: 1}, {0: 0, 4: 1}, {}, {3: 0, 2: 1}])
def test_paths_given_what_is_known(known):
    chain = pk.MarkovChain([0.7, 0.3], [[0.6, 0.4], [0.1, 0.9]])
    table = chain_table(chain, pk.count(1, 5))
    keep = np.all([table.codes[:, t] == x for t, x in known.items()] or [[True] * 32], axis=0)
    weights = table.probability[keep] / table.probability[keep].sum()
    truth = (table.codes[keep] * weights[:, None]).sum(axis=0)
    pairs = (table.codes[keep, :-1] * table.codes[keep, 1:] * weights[:, None]).sum(axis=0)
    given = conditioned(chain, 5, known)
    drawn = given.sample(40_000, np.random.default_rng(1))
    assert np.abs(drawn.mean(axis=0) - truth).max() < 0.02
    assert np.abs((drawn[:, :-1] * drawn[:, 1:]).mean(axis=0) - pairs).max() < 0.02
    counts = given.sample_counts(40_000, np.random.default_rng(2))
    assert counts.sum() == 5 * 40_000
    assert abs(counts[:, 1].mean() - truth.sum()) < 0.05
    distribution = distribution_of_sums([given], np.array([[0], [1]]))
    exact = np.bincount(table.codes[keep].sum(axis=1), weights, minlength=6)
    assert distribution == pytest.approx(exact, abs=1e-14)


def test_what_cannot_happen_is_not_known():
    cycle = pk.MarkovChain([1, 0], [[0, 1], [1, 0]])
    assert conditioned(cycle, 4, {2: 0}).sample(3, np.random.default_rng(0)).tolist() == (
        [[0, 1, 0, 1]] * 3
    )
    with pytest.raises(ValueError, match="X_2 = 0 cannot happen"):
        conditioned(cycle, 4, {1: 0})


@pytest.mark.parametrize(
    ("chain", "query"),
    [
        (LAZY, pk.count(1, [4, 3])),
        (LAZY, pk.total([0.1, 0.7], 6)),
        (LAZY, pk.histogram([0, 1], [2, 4])),
        (THREE, pk.histogram([0, 1, 2], 6)),
        (THREE, pk.total([0.5, 0.25, 0.5], [2, 4])),
    ],
)
def test_walks_and_tables_agree(chain, query):
    table, walk = answer_model(chain, query, listed=True), SampledModel(chain, query)
    for entry in (0, 3, 5):
        assert walk.values(entry) == table.values(entry)
        for code in (0, 1):
            one, other = table.distribution(entry, code), walk.distribution(entry, code)
            listed = {tuple(p.round(9)): w for p, w in zip(one.points, one.weights, strict=True)}
            for point, weight in zip(other.points, other.weights, strict=True):
                assert listed[tuple(point.round(9))] == pytest.approx(weight, abs=1e-13)
            drawn = walk.draw(entry, code, 4000, np.random.default_rng(3))
            means = drawn.points[drawn.which].mean(axis=0)
            assert means == pytest.approx(one.weights @ one.points, abs=0.15)


def test_densities_on_the_line_and_off_it():
    rng = np.random.default_rng(1)
    points, weights = rng.normal(size=(7, 1)) * 5, rng.dirichlet(np.ones(7))
    outputs = np.concatenate([rng.normal(size=(50, 1)) * 8, points])
    for scale in (0.01, 1.0, 30.0):
        direct = np.logaddexp.reduce(np.log(weights) - np.abs(outputs - points.T) / scale, axis=1)
        assert log_density(AnswerDistribution(points, weights), outputs, scale) == pytest.approx(
            direct, abs=1e-9
        )
        flat = np.hstack([outputs, np.zeros_like(outputs)])
        wide = AnswerDistribution(np.hstack([points, np.zeros_like(points)]), weights)
        assert log_density(wide, flat, scale) == pytest.approx(direct, abs=1e-9)


def test_the_choice_of_an_event_works_in_both_directions():
    rng = np.random.default_rng(0)
    one, other = rng.normal(1, 1, 20_000), rng.normal(0, 1, 20_000)
    assert choose(one, other, 20_000, 0.999).expected > 1
    rare = (
        np.where(rng.random(20_000) < 0.01, -5.0, 0.0),
        np.where(rng.random(20_000) < 0.2, -5.0, 0.0),
    )
    choice = choose(*rare, 20_000, 0.999)
    assert choice.flipped
    assert choice.hits(rare[1]) > 10 * choice.hits(rare[0])
