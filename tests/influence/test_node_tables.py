"""Entries with kernels of their own, by one loop: the same as one object for each of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import pufferkit as pk
from pufferkit.beliefs.chain_class import Member
from pufferkit.influence.curve.pair_curve import pair_losses, swept
from pufferkit.influence.curve.pair_sides import PairSide, pair_sides
from pufferkit.influence.curve.pairs import PairSteps, StepsInRow
from pufferkit.influence.curve.starts import sides_of
from pufferkit.influence.curve.sweep import Run, Sweep

LENGTH = 110
CHAINS = {
    "absorbing": ([0.5, 0.3, 0.2], [[0.9, 0.05, 0.05], [0.1, 0.8, 0.1], [0, 0, 1]]),
    "slow": ([1, 0], [[0.999, 0.001], [0.002, 0.998]]),
    "zeros": ([1, 0, 0], [[0.98, 0.02, 0], [0, 0.97, 0.03], [0.01, 0.01, 0.98]]),
}


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize(
    "runs", [[Run(LENGTH, 0.02)], [Run(30, 0.5), Run(LENGTH - 30, 0.01)], [Run(LENGTH, 3.0)]]
)
def test_scalar_curve_of_many_nodes_is_that_of_each(name: str, runs: list[Run]) -> None:
    member = Member(name, pk.MarkovChain(*CHAINS[name]), any_start=False)
    left, _ = sides_of(member, LENGTH)
    assert left.tables is not None
    by_loop, one_by_one = Sweep(left, runs), Sweep(replace(left, tables=None), runs)
    assert by_loop.firsts == one_by_one.firsts
    assert by_loop.values == pytest.approx(one_by_one.values, rel=1e-12)


@pytest.mark.parametrize("name", CHAINS)
def test_pairwise_curve_of_many_entries_is_that_of_each(name: str) -> None:
    chain = pk.MarkovChain(*CHAINS[name])
    sides = pair_sides(Member(name, chain, any_start=False), LENGTH)
    assert sides is not None
    left, right, supports = sides
    assert isinstance(left.first, StepsInRow)
    objects = [PairSteps([kernel], left.first.error) for kernel in left.first.kernels]
    alone = PairSide(objects, objects[-1])
    runs = [(LENGTH, 0.003 * (1 - np.eye(len(chain))))]
    ours, theirs = (swept(side, runs, 600.0) for side in (left, alone))
    beyond = swept(right, runs, 600.0)
    assert ours is not None
    assert theirs is not None
    assert beyond is not None
    assert [s.first for s in ours] == [s.first for s in theirs]
    for one, other in zip(
        pair_losses(ours, beyond, runs, supports),
        pair_losses(theirs, beyond, runs, supports),
        strict=True,
    ):
        assert one[:2] == other[:2]
        np.testing.assert_allclose(one[2], other[2], rtol=1e-9, atol=1e-12)


def test_absorbing_chain_of_a_thousand_entries_verifies() -> None:
    chain = pk.MarkovChain(*CHAINS["absorbing"])
    calibration = pk.influence_curve(chain, pk.count(1, 1000), 1)
    assert calibration.scale == pytest.approx(218.05630837974, rel=1e-9)
    release = calibration.release(pk.Series.of([0, 1] * 500, chain.states))
    assert pk.verify(release).ok
