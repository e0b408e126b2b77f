"""The engine: steps over all starts by definition, blocks, proofs that are checked."""

from dataclasses import replace

import numpy as np
import pytest

import pufferkit as pk
from pufferkit.beliefs.chain_parts import part_of
from pufferkit.influence.curve.engine import Part, PartCurve, Side, loss
from pufferkit.influence.curve.steps import Open, closure, off_diagonal
from pufferkit.influence.kernels import Kernel
from tests.oracles import brute_curve as brute

RING = np.roll(np.eye(6), 1, axis=1)
CHAINS = {
    "ring": pk.MarkovChain([1, 0, 0, 0, 0, 0], RING),
    "lazy ring": pk.MarkovChain([0.5, 0.5, 0, 0, 0, 0], 0.3 * np.eye(6) + 0.7 * RING),
    "periodic": pk.MarkovChain([0.3, 0.5, 0.2], [[0, 0.7, 0.3], [1, 0, 0], [1, 0, 0]]),
    "absorbing": pk.MarkovChain([0.9, 0.1], [[0.95, 0.05], [0, 1]]),
    "islands": pk.MarkovChain(
        [0.5, 0.5, 0, 0],
        [[0.6, 0.4, 0, 0], [0.2, 0.8, 0, 0], [0, 0, 0.5, 0.5], [0, 0, 0.1, 0.9]],
    ),
    "any start": pk.ChainClass.any_start([[0.7, 0.2, 0.1], [0.3, 0.4, 0.3], [0.1, 0.3, 0.6]]),
    "any sparse": pk.ChainClass.any_start([[0, 0.5, 0.5], [0.4, 0.6, 0], [0, 0.3, 0.7]]),
    "mixing": pk.ChainClass.mixing(3, 0.2, 0.5),
    "region": pk.ChainClass.around([[90, 20, 9], [30, 50, 40], [9, 50, 99]], 0.9),
}


def member(beliefs):
    return (
        pk.ChainClass.of(beliefs).corners()[0]
        if isinstance(beliefs, pk.MarkovChain)
        else (beliefs.corners()[0])
    )


@pytest.mark.parametrize("seed", range(12))
def test_no_start_has_a_larger_step_and_some_start_has_it(seed):
    rng = np.random.default_rng(seed)
    size = int(rng.integers(2, 5))
    matrix = brute.random_matrix(rng, size, ["dense", "sparse"][seed % 2])
    limit = closure(rng.uniform(0, 3, (size, size)) * off_diagonal(size))
    every = np.ones(size, dtype=bool)
    table = Open(Kernel(matrix, matrix > 0), every, every, 0.0)(limit)
    best = np.zeros_like(table)
    for _ in range(300):
        start = np.zeros(size)
        start[rng.choice(size, 2, replace=False)] = np.exp(rng.uniform(-6, 6, 2))
        start = start if rng.random() < 0.7 else rng.dirichlet(np.ones(size))
        g = np.min(limit + rng.uniform(-3, 3, size), axis=1)  # g(y) - g(z) <= limit(y, z)
        joint = start[:, None] * matrix
        sums = joint.sum(axis=0)
        means = np.divide(np.exp(g) @ joint, sums, out=np.full(size, np.nan), where=sums > 0)
        ratios = np.log(means[:, None] / means[None, :])
        assert not np.any(ratios > table + 1e-9)
        best = np.fmax(best, ratios)
    assert np.all(best >= 0.5 * table * (table > 0.2) - 1e-12) or size > 2


@pytest.mark.parametrize("name", [n for n in CHAINS if n not in ("mixing", "region", "any start")])
@pytest.mark.parametrize("b", [0.05, 0.6, 90.0, 300.0])
def test_losses_are_never_below_a_release_nor_above_everything(name, b):
    beliefs, length = CHAINS[name], 6
    part = part_of(member(beliefs), length)
    size = len(part.possible[0])
    runs = [(2, b * off_diagonal(size)), (1, 0.0 * off_diagonal(size)), (3, b * off_diagonal(size))]
    bs = np.array([b, b, 0, b, b, b])
    bound = loss(part, runs).value
    assert bound <= 5 * b * (1 + 1e-9)
    matrix = member(beliefs).chain.transition
    starts = [beliefs.initial] if isinstance(beliefs, pk.MarkovChain) else list(np.eye(size) + 1e-3)
    for start in starts:
        real = brute.product_losses(start / start.sum(), matrix, bs, 256)
        assert bound >= real.max() * (1 - 1e-12) - 1e-9


def test_a_cycle_with_a_known_start_hides_nothing_and_blocks_find_it():
    assert loss(part_of(member(CHAINS["ring"]), 500), [(500, 0.1 * off_diagonal(6))]).value == 0


def test_a_bound_that_is_no_number_bounds_nothing():
    class Broken:
        def __call__(self, limit):
            return np.where(np.eye(2) > 0, 0.0, np.nan)

        def derivative(self):
            return np.zeros(0, int), np.zeros(0, int), np.zeros(0)

    side = Side(lambda entry, size: Broken())
    part = Part("broken", side, side, [np.ones(2, dtype=bool)])
    for length in (3, 100):
        assert (
            PartCurve(part, length).loss([(length, 0.01 * off_diagonal(2))]).value >= 0.01 * length
        )


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("gaps", [False, True])
def test_proofs_show_the_scale_and_no_smaller_one(name, gaps):
    beliefs = CHAINS[name]
    data = [beliefs.states[n % 2] for n in range(40)]
    if gaps:
        data[5:8] = [None] * 3
        data[20] = None
    series = pk.Series.of(data, beliefs.states)
    noise = pk.influence_curve(beliefs, pk.count(beliefs.states[0], series), 1.0)
    release = pk.Release.from_json(noise.release(series, anyway=True).to_json())
    assert pk.verify(release).ok, str(pk.verify(release))
    if name != "ring":
        assert not pk.verify(replace(release, scale=0.99 * release.scale)).ok
