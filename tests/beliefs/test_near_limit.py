"""A chain that has all but forgotten its start goes on with the kernels of its limit."""

import numpy as np
import pytest

import pufferkit as pk
from pufferkit.beliefs.chain_parts import NEAR, chain_parts
from pufferkit.beliefs.chain_tables import tables_of

LENGTH = 400


def chain_of(rng, states, stays):
    rows = (1 - stays) * rng.dirichlet(np.ones(states), states) + stays * np.eye(states)
    return pk.MarkovChain(np.eye(states)[0], rows)


@pytest.mark.parametrize("seed", range(6))
def test_later_kernels_differ_by_no_more_than_is_added(seed):
    """Exactly: of every later entry, the means of any positive function given two values."""
    rng = np.random.default_rng(seed)
    chain = chain_of(rng, int(rng.integers(2, 6)), rng.uniform(0, 0.9))
    (member,) = pk.ChainClass.of(chain).members()
    tables, (part,) = tables_of(member, LENGTH), chain_parts([member], LENGTH)
    first, apart = tables.near_limit(NEAR)
    assert first < tables.burn_in
    assert apart <= NEAR
    assert part.left.settled == first + 1
    steps = part.left.later(1)
    (kernel,) = steps.kernels
    at = chain.initial
    for entry in range(2, 3 * first):
        joint = at[:, None] * chain.transition
        exact = (joint / joint.sum(axis=0)).T
        if entry >= part.left.settled:
            log = np.log(exact / kernel)
            assert np.abs(log).max() <= steps.error / 2
        at = at @ chain.transition


def test_many_states_with_a_start_need_hardly_more_noise_than_without():
    rng = np.random.default_rng(1)
    chain = chain_of(rng, 30, 0.6)
    steady = pk.MarkovChain.steady(chain.transition)
    scales = [pk.influence_curve(own, pk.count(1, LENGTH), 1).scale for own in (chain, steady)]
    assert scales[0] == pytest.approx(scales[1], rel=1e-5)
    assert scales[0] >= scales[1] * (1 - 1e-9)
