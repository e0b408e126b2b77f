"""Entries with kernels of their own, by one loop: the same as one object for each of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import pufferkit as pk
from pufferkit import compiling
from pufferkit.beliefs.chain_class import Member
from pufferkit.influence.curve.node_tables import NodeTables
from pufferkit.influence.curve.pair_curve import pair_losses, swept
from pufferkit.influence.curve.pair_sides import PairSide, pair_sides
from pufferkit.influence.curve.pairs import PairSteps, StepsInRow
from pufferkit.influence.curve.starts import sides_of
from pufferkit.influence.curve.sweep import Run, Sweep
from pufferkit.influence.quilts.given_start import GivenStartInfluence

LENGTH = 110
CHAINS = {
    "absorbing": ([0.5, 0.3, 0.2], [[0.9, 0.05, 0.05], [0.1, 0.8, 0.1], [0, 0, 1]]),
    "slow": ([1, 0], [[0.999, 0.001], [0.002, 0.998]]),
    "zeros": ([1, 0, 0], [[0.98, 0.02, 0], [0, 0.97, 0.03], [0.01, 0.01, 0.98]]),
}
TWO_PARTS = [[0.9, 0.1, 0, 0], [0.1, 0.9, 0, 0], [0, 0, 0.7, 0.3], [0, 0, 0.3, 0.7]]
ODD = {
    "periodic": ([1, 0, 0, 0], [[0, 0.5, 0, 0.5], [1, 0, 0, 0], [0.3, 0, 0, 0.7], [0, 0, 1, 0]]),
    "reducible": ([0.5, 0.2, 0.2, 0.1], TWO_PARTS),
    "ties": ([0.5, 0.5, 0], np.full((3, 3), 1 / 3)),
    "rare": ([1, 0, 0], [[1 - 1e-12, 1e-12, 0], [0.1, 0.8, 0.1], [0, 1e-9, 1 - 1e-9]]),
    **CHAINS,
}


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize(
    "runs",
    [
        [Run(30, 0.5), Run(LENGTH - 30, 0.01)],
        *(pytest.param([Run(LENGTH, b)], marks=pytest.mark.slow) for b in (0.02, 3.0)),
    ],
)
def test_scalar_curve_of_many_nodes_is_that_of_each(name: str, runs: list[Run]) -> None:
    member = Member(name, pk.MarkovChain(*CHAINS[name]), any_start=False)
    left, _ = sides_of(member, LENGTH)
    assert isinstance(left.tables, NodeTables)
    one_by_one = Sweep(replace(left, tables=None), runs)
    for by_loops in (False, True):
        left.tables.solves_by_loops = by_loops
        together = Sweep(left, runs)
        assert together.firsts == one_by_one.firsts
        assert together.values == pytest.approx(one_by_one.values, rel=1e-12)


@pytest.mark.parametrize("name", CHAINS)
def test_pairwise_curve_of_many_entries_is_that_of_each(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiling, "PATIENCE", np.inf)
    chain = pk.MarkovChain(*CHAINS[name])
    sides = pair_sides(Member(name, chain, any_start=False), LENGTH)
    assert sides is not None
    left, right, supports = sides
    assert isinstance(left.first, StepsInRow)
    objects = [PairSteps([kernel], left.first.error) for kernel in left.first.kernels]
    alone = PairSide(objects, objects[-1])
    runs = [(LENGTH, 0.003 * (1 - np.eye(len(chain))))]
    theirs = swept(alone, runs, 600.0)
    monkeypatch.setattr(compiling, "PATIENCE", -np.inf)
    assert left.first.may_follow
    ours = swept(left, runs, 600.0)
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


def _chain(name: str) -> pk.MarkovChain:
    if name in ODD:
        return pk.MarkovChain(*ODD[name])
    rng = np.random.default_rng(int(name))
    size = int(rng.integers(2, 6))
    transition = rng.dirichlet(np.full(size, 0.5), size=size)
    transition[rng.random((size, size)) < 0.3] = 0.0
    transition += 0.1 * np.eye(size)
    start = rng.dirichlet(np.full(size, 0.4))
    start[rng.random(size) < 0.4] = 0.0
    start[0] += 0.1
    return pk.MarkovChain(start / start.sum(), transition / transition.sum(axis=1, keepdims=True))


@pytest.mark.parametrize("name", [*ODD, *map(str, range(8))])
@pytest.mark.parametrize("b", [1e-9, 0.03, 2.0, 400.0])
def test_by_numpy_and_by_compiled_loops(name: str, b: float) -> None:
    source = GivenStartInfluence(_chain(name), "definition", 60)
    spent = b * np.arange(61)
    results = []
    for by_loops in (False, True):
        tables = NodeTables(source, [1, 2, 3, 5, 8, 13, 59, 60, 131], 60)
        tables.solves_by_loops = by_loops
        results.append(tables.values(spent))
    assert results[0] == pytest.approx(results[1], rel=1e-12, abs=1e-14)


def test_absorbing_chain_of_a_thousand_entries_verifies() -> None:
    chain = pk.MarkovChain(*CHAINS["absorbing"])
    calibration = pk.influence_curve(chain, pk.count(1, 1000), 1)
    assert calibration.scale == pytest.approx(218.05632874695, rel=1e-9)
    release = calibration.release(pk.Series.of([0, 1] * 500, chain.states))
    assert pk.verify(release).ok
