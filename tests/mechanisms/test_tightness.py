"""How tight a plan says it is: an attack, so never above what is lost by the definition."""

import numpy as np
import pytest

import pufferkit as pk
from pufferkit.influence.sums.least_scale import outer_loss
from tests.oracles.listed_sums import largest_loss

CASES = 2_000


def random_chain(rng, size):
    """With zeros in one case of two, and a start of its own in one of two."""
    rows = rng.dirichlet(np.full(size, 0.7), size)
    if rng.random() < 0.5:
        rows = np.where(rng.random((size, size)) < 0.3, 0, rows)
        rows += np.where(rows.sum(axis=1, keepdims=True) == 0, 1 / size, 0)
    rows /= rows.sum(axis=1, keepdims=True)
    start = rng.dirichlet(np.ones(size))
    return pk.MarkovChain(start, rows)


@pytest.mark.slow
def test_outer_outputs_never_tell_more_than_the_definition():
    """Thousands of random cases: sums and histograms, zeros, any size that can be listed."""
    rng = np.random.default_rng(12)
    reached = 0
    for case in range(CASES):
        size = int(rng.integers(2, 4))
        length = int(rng.integers(1, 5 if size == 2 else 4))
        chain = random_chain(rng, size)
        rows = np.eye(size, dtype=int) if case % 3 == 0 else rng.integers(0, 3, (size, 1))
        scale = float(np.exp(rng.uniform(-1, 2)))
        scales = [scale] * rows.shape[1]
        told = outer_loss(chain.initial, chain.transition, rows.astype(float), scale, length)
        lost = largest_loss(chain.initial, chain.transition, rows, scales, length)
        assert told <= lost * (1 + 1e-12) + 1e-12
        reached += told >= 0.999 * lost
    assert reached > 0.8 * CASES  # it is a good attack, too


@pytest.mark.parametrize("seed", range(6))
def test_no_row_of_a_plan_is_more_than_tight(seed):
    rng = np.random.default_rng(seed)
    size = 2 + seed % 2
    chain = pk.MarkovChain.steady(rng.dirichlet(np.full(size, 2.0), size))
    length, epsilon = int(rng.integers(2, 40)), float(np.exp(rng.uniform(-1.5, 1.5)))
    for query in (pk.total(list(range(size)), length), pk.histogram(list(range(size)), length)):
        told = [row["tightness"] for row in pk.plan(chain, query, epsilon).rows]
        assert all(share is None or 0 <= share <= 1 for share in told)
        assert max(share for share in told if share is not None) > 0.5


def test_the_table_and_the_picture_show_what_is_left():
    from pufferkit.plots import plan_figure

    table = pk.plan(pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]]), pk.count(1, 60), 1)
    rooms = {row["mechanism"]: row["room to improve"] for row in table.shown_rows()}
    assert rooms["influence_curve"] == "1%"
    assert rooms["entry_dp"] == "unknown"
    figure = plan_figure(table.rows)
    notes = [text.get_text() for text in figure.axes[0].texts]
    assert any("room 1%" in note for note in notes)
