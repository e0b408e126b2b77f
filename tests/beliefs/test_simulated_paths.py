"""Paths by composed maps are those of single steps."""

import numpy as np
import pytest

import pufferkit as pk
from pufferkit.beliefs.hidden_model import HiddenModel
from pufferkit.beliefs.markov_chain import composed, cumulative, drawn_path, single_steps


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 10, 199, 200, 1000, 1023])
@pytest.mark.parametrize("states", [1, 2, 5, 16, 17])
def test_composed_maps_are_single_steps(steps, states):
    rng = np.random.default_rng(steps + states)
    rows = rng.dirichlet(np.full(states, 0.4), states)
    rows[rng.random(rows.shape) < 0.3] = 0
    rows[rows.sum(axis=1) == 0, -1] = 1
    rows /= rows.sum(axis=1, keepdims=True)
    draws, start = rng.random(steps), states - 1
    one_by_one = single_steps(start, [cumulative(row).tolist() for row in rows], draws)
    assert drawn_path(start, list(rows), draws).tolist() == one_by_one.tolist()


@pytest.mark.parametrize("steps", [0, 1, 7, 50])
def test_maps_of_any_kind_compose(steps):
    rng = np.random.default_rng(steps)
    moves = rng.integers(0, 4, (steps, 4)).astype(np.int16)
    path, x = [], 2
    for row in moves:
        x = int(row[x])
        path.append(x)
    assert composed(2, moves).tolist() == path


def test_a_draw_never_reaches_an_impossible_state():
    chain = pk.MarkovChain([1, 0, 0], [[0.5, 0.5, 0], [1, 0, 0], [0, 0, 1]])
    path = chain.sample(2000, seed=1)
    assert set(path.tolist()) == {0, 1}
    assert not np.any((path[:-1] == 1) & (path[1:] == 1))


@pytest.mark.parametrize("chained", [False, True])
def test_hidden_regimes_show_what_they_emit(chained):
    """Regime 0 shows levels 0 and 1, regime 1 shows 2 alone; by chains, 0 and 1 alternate."""
    emission = [[0.5, 0.5, 0], [0, 0, 1]]
    if chained:
        emission = [[[0, 1, 0], [1, 0, 0], [0, 1, 0]], [[0, 0, 1]] * 3]
    path = HiddenModel([[0.9, 0.1], [0.2, 0.8]], emission).sample(20_000, seed=3)
    assert np.mean(path == 2) == pytest.approx(1 / 3, abs=0.02)
    inside = (path[:-1] < 2) & (path[1:] < 2)
    same = np.mean(path[:-1][inside] == path[1:][inside])
    assert same == (0 if chained else pytest.approx(0.5, abs=0.02))
