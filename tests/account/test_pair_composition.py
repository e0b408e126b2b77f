"""Histories charged pair by pair of states: by their own distances, never less than is told."""

from dataclasses import replace

import numpy as np
import pytest

import pufferkit as pk
from pufferkit.account.theorems import entry_profile
from tests.asking import Asking, spent_by
from tests.oracles import pairs

LADDER = [[0.7, 0.25, 0.05], [0.2, 0.6, 0.2], [0.05, 0.25, 0.7]]


def _spent(query, epsilon=0.5, states=(0, 1, 2)):
    chain = pk.MarkovChain.steady(LADDER, states=states)
    return chain, pk.Spending.of(pk.influence_curve(chain, query, epsilon))


def test_counts_are_charged_by_their_own_distances():
    """A count of 0 and a count of 2 tell no pair of states apart as well as two counts of 0."""
    chain, first = _spent(pk.count(0, 200))
    _, second = _spent(pk.count(2, 200))
    assert first.contributions == ((0, 1.0), (1, 0.0), (2, 0.0))
    alike = replace(first, contributions=None), replace(second, contributions=None)
    own, scalar = (entry_profile(h, chain, 200) for h in ((first, second), alike))
    same = entry_profile((first, first), chain, 200)
    assert own < 0.95 * scalar
    assert own <= 1.0 + 1e-9
    assert entry_profile((first,), chain, 200) <= 0.5
    assert same <= entry_profile((alike[0], alike[0]), chain, 200) * (1 + 1e-12)


def test_overlapping_sums_cover_every_path():
    """Two noisy sums over windows that overlap, against all paths and outputs of both."""
    chain = pk.MarkovChain.steady(LADDER)
    scales, windows, length = (1.5, 0.9), ((1, 3), (2, 5)), 5
    queries = pk.total([0, 1, 2], 3), pk.count(1, 4)
    history = [
        pk.Spending("influence_curve", 1.0, w, q.lipschitz / s, contributions=c)
        for q, w, s, c in zip(
            queries,
            windows,
            scales,
            (((0, 0.0), (1, 0.5), (2, 1.0)), ((0, 0.0), (1, 1.0), (2, 0.0))),
            strict=True,
        )
    ]
    charged = entry_profile(history, chain, length)
    paths, weights = pairs.paths_of(chain.initial, [chain.transition] * (length - 1))
    values = np.array([[0.0], [1.0], [2.0]]), np.array([[0.0], [1.0], [0.0]])
    one, two = (
        pairs.laplace_likelihoods(paths[:, first - 1 : last], v, s)
        for (first, last), v, s in zip(windows, values, scales, strict=True)
    )
    joint = (one[:, None, :] * two[None, :, :]).reshape(-1, len(paths))
    for entry in range(length):
        real = pairs.losses_of_likelihoods(paths, weights, joint, paths[:, entry])
        assert real.max() <= charged + 1e-9
    discrete = [replace(s, contributions=None) for s in history]
    assert charged < entry_profile(discrete, chain, length)


def test_contributions_follow_the_states_not_their_order():
    _, spending = _spent(pk.total({0: 0, 1: 1, 2: 5}, 50))
    turned = pk.MarkovChain.steady(np.array(LADDER)[::-1, ::-1], states=(2, 1, 0))
    straight = pk.MarkovChain.steady(LADDER)
    one, other = (entry_profile([spending], c, 50) for c in (turned, straight))
    assert one == pytest.approx(other, rel=1e-6)
    with pytest.raises(ValueError, match="contributions: are for the states"):
        entry_profile([spending], pk.MarkovChain.steady(LADDER, states=list("abc")), 50)


@pytest.mark.parametrize("values", [(), (0.0,), (0.0, 0.5), (0.0, 2.0), (-1.0, 1.0)])
def test_bad_contributions_are_refused(values):
    with pytest.raises(ValueError, match="contributions: must have one for each state"):
        pk.Spending("influence_curve", 1.0, (1, 5), 0.1, contributions=tuple(enumerate(values)))


def test_a_session_remembers_distances(tmp_path):
    chain, data = pk.MarkovChain.steady(LADDER), [0, 1, 2, 1] * 30
    session = Asking(data, chain, 2.0, str(tmp_path / "book.db"), name="a")
    for state in (0, 2):
        session.release(pk.count(state, 120), 0.5, mechanism="influence_curve")
    bodies = [entry.body for entry in session.charges]
    assert [body["contributions"] for body in bodies] == [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    assert session.spent == pytest.approx(2.0 - session.remaining)
    # Without distances all states are equally far apart.
    old = [replace(s, contributions=None) for s in spent_by(session)]
    assert session.spent < pk.compose(old, chain, 120).epsilon
    again = Asking(data, chain, 2.0, str(tmp_path / "book.db"), name="a")
    assert again.remaining == session.remaining


def test_the_grid_is_paid_for_close_states():
    """Rounding moves close answers as far as distant ones, relative to the least distance."""
    values = {0: 0, 1: 0.001, 2: 1}
    noise = pk.influence_curve(pk.MarkovChain.steady(LADDER), pk.total(values, 100), 1)
    assert noise.sensitivity == pytest.approx(0.001)
    close = pk.total({0: 0, 1: 1e-12, 2: 1}, 100)
    assert close.closest == 2.0**-20
    assert pk.count(1, 100).closest == 1
    assert pk.histogram([0, 1, 2], 100).closest == 2
