"""How tight a plan says it is: an attack, so never above what is lost by the definition."""

import numpy as np
import pytest

import pufferkit as pk


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
