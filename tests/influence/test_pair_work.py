"""The pairwise curve of many states: the same bound whatever was asked before, for less work."""

import numpy as np
import pytest

import pufferkit as pk
from pufferkit.beliefs.chain_parts import part_of
from pufferkit.influence.curve.engine import loss
from pufferkit.influence.curve.steps import Transport, off_diagonal

STATES = 26
LENGTH = 10**6


def levels():
    """A walk on levels that mostly stays, now and then jumps, with zeros far away."""
    rng = np.random.default_rng(7)
    far = np.abs(np.subtract.outer(np.arange(STATES), np.arange(STATES)))
    rows = np.where(far <= 6, np.exp(-far) * rng.uniform(0.5, 1.5, far.shape), 0.0)
    rows[:, 0] += 0.1
    return pk.MarkovChain.steady(rows / rows.sum(axis=1, keepdims=True))


@pytest.fixture
def solved(monkeypatch):
    """How many times all programmes were solved; nothing kept from other tests."""
    calls = []
    ask = Transport.__call__

    def counted(self, limit):
        calls.append(limit)
        return ask(self, limit)

    monkeypatch.setattr(Transport, "__call__", counted)
    return calls


@pytest.mark.slow
def test_a_scale_takes_few_rounds_and_does_not_hang_on_what_was_asked_before(solved):
    chain, query = levels(), pk.histogram(list(range(STATES)), LENGTH)
    first = pk.influence_curve(chain, query, 1)
    assert first.evidence.bound == "curve"
    assert len(solved) < 200
    solved.clear()
    second = pk.influence_curve(chain, query, 0.3)
    assert len(solved) < 200
    again = pk.influence_curve(chain, query, 1)
    assert again.scale == pytest.approx(first.scale, rel=1e-6)
    assert second.scale > 3 * first.scale
    # The loss at that scale, by a curve that knows nothing of the search.
    (member,) = pk.ChainClass.of(chain).corners()
    for made in (first, second, again):
        cost = 2 / made.scale * off_diagonal(STATES)
        assert loss(part_of(member, LENGTH), [(LENGTH, cost)]).value <= made.epsilon
        less = loss(part_of(member, LENGTH), [(LENGTH, cost * 1.0005)])
        assert less.value > made.epsilon


def test_progress_is_reported():
    told = []
    chain = pk.MarkovChain.steady([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4]])
    pk.plan(chain, pk.histogram([0, 1, 2], 50), 1, progress=lambda *at: told.append(at))
    curve = [(done, whole) for name, done, whole in told if name == "influence_curve"]
    assert curve
    assert all(0 < done <= whole for done, whole in curve)
