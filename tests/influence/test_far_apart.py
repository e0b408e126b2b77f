"""Very long series, and very small epsilons: an answer that does not depend on the length."""

import numpy as np
import pytest

import pufferkit as pk
from pufferkit.beliefs import chain_tables
from pufferkit.beliefs.base import Member
from pufferkit.beliefs.chain_tables import tables_of
from pufferkit.influence.quilts import search
from pufferkit.influence.quilts.chains import ChainInfluence

SLEEP = [[0.9, 0.1], [0.4, 0.6]]


def source_of(transition, initial=None):
    start = [1.0] + [0.0] * (len(transition) - 1) if initial is None else initial
    member = Member("chain", pk.MarkovChain(start, transition), initial is None)
    return ChainInfluence(tables_of(member, 10**9))


@pytest.mark.parametrize(
    "transition",
    [
        SLEEP,
        [[0.0, 0.5, 0.5], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]],
        [[0.5, 0.5, 0.0], [0.0, 0.7, 0.3], [0.0, 0.2, 0.8]],
        [[1 - 1e-9, 1e-9], [1e-9, 1 - 1e-9]],
    ],
    ids=["irreducible", "periodic", "reducible", "slow"],
)
def test_a_nearer_endpoint_bounds_a_far_one(transition):
    source = source_of(transition)
    for steps in (1 << 19, (1 << 24) + 1, 10**12 + 1, 10**15):
        near = source.powers.reach(steps)
        assert near <= steps
        assert near == steps or near >= 1 << 20
        assert (
            source.tables.right(near) + 2 * source.powers.rounding(near)
            >= source.tables.right(steps)
        ).all()


def test_the_endpoint_that_is_taken_decides_which_states_are_possible(monkeypatch):
    """A periodic chain from one state: at even and odd distances the left end has other states."""
    monkeypatch.setattr(chain_tables, "_FAR", 4)
    cycle = np.roll(np.eye(2), 1, axis=1) * 0.9999 + 0.0001 * np.eye(2)
    walk = np.kron(np.roll(np.eye(2), 1, axis=1), [[0.7, 0.3], [0.2, 0.8]])
    for transition in (cycle, walk):
        start = np.eye(len(transition))[0]
        source = source_of(transition, start)
        for left in (5, 7, 9, 20):
            bound, _ = source.between(40, left, None)
            monkeypatch.setattr(chain_tables, "_FAR", 1 << 20)
            exact, _ = source.between(40, left, None)
            monkeypatch.setattr(chain_tables, "_FAR", 4)
            assert bound >= exact - 1e-12


@pytest.mark.parametrize("length", [10**9, 10**12, 10**15, 10**18])
def test_any_start_of_any_length(length):
    theta = pk.ChainClass.any_start(SLEEP)
    assert pk.entry_epsilon(theta, length, 1) == pytest.approx(0.2873248, rel=1e-6)
    quilt = pk.markov_quilt(theta, pk.count(1, length), 1)
    assert quilt.scale == pytest.approx(13.0219234961865, rel=1e-12)


@pytest.mark.parametrize("epsilon", [1e-9, 1e-12])
def test_epsilons_as_small_as_roundings(epsilon):
    """The search knows what roundings add, and does not look at every quilt."""
    chain = pk.MarkovChain.steady(SLEEP)
    assert 0 < pk.influence_curve(chain, pk.count(1, 1000), epsilon).entry_epsilon <= epsilon
    assert pk.markov_quilt(chain, pk.count(1, 1000), epsilon).scale <= 1001 / epsilon


def test_epsilons_that_floats_lose_are_refused():
    with pytest.raises(ValueError, match="epsilon: must be at least 1e-100, got"):
        pk.influence_curve(pk.MarkovChain.steady(SLEEP), pk.count(1, 1000), 5e-324)


def test_a_slow_chain_is_searched_in_few_looks():
    """Of 10^9 nodes the cheapest is found by halving, not one by one from the first."""
    asked = []

    def part(n):
        asked.append(n)
        return float(-np.log(np.tanh(1e-9 * n)))

    low, high, score = 1, 10**9, 3e8
    n, cost = search._least(part, float, low, high, score)
    assert len(asked) < 20_000
    best = min(m + score * part(m) for m in range(10**6, high, 10**6))
    assert cost <= best
    assert n + score * part(n) <= best * (1 + 1e-4)
