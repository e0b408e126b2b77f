"""Limits of long series: found where they exist, beyond all releases, checked by verify."""

import numpy as np
import pytest

import pufferkit as pk
from pufferkit import ChainClass, InfluenceCurve, MarkovChain, compiling
from pufferkit.influence.curve import steps as steps_module
from pufferkit.influence.kernels import Kernel
from pufferkit.influence.shape.theorem_s import NoisyRun
from tests.oracles import brute_curve as brute

LADDER = [[0.9, 0.1, 0], [0.1, 0.8, 0.1], [0, 0.1, 0.9]]
TURNS = [[0, 0.7, 0.3], [1, 0, 0], [1, 0, 0]]
SLACK = 1e-9


def test_any_start_has_a_limit_where_two_values_cost_nothing():
    """States that are not counted step from one another: no slack may make them grow for ever."""
    chain = ChainClass.any_start(LADDER)
    scales = [pk.influence_curve(chain, pk.count(1, length), 1).scale for length in (100, 10**6)]
    assert scales[0] <= scales[1] * (1 + 1e-6)
    assert scales[1] <= 12
    release = pk.influence_curve(chain, pk.count(1, 10**4), 1).release([0] * 10**4, anyway=True)
    assert pk.verify(release).ok


@pytest.mark.parametrize(
    ("start", "length"), [([0, 1, 0], 12), ([1, 0, 0], 300), ([0.3, 0.5, 0.2], 5)]
)
def test_periodic_chains_with_a_start_are_verified(start, length):
    chain, path = MarkovChain(start, TURNS), [int(np.argmax(start))]
    while len(path) < length:
        path.append(int(np.argmax(TURNS[path[-1]])))
    for state in (0, 1):
        noise = pk.influence_curve(chain, pk.count(state, length), 0.2)
        assert pk.verify(noise.release(path, anyway=True)).ok


def real_losses(initial, matrix, bs, tilts, beam=48):
    """Losses of every entry to releases f(x) = exp(sum of b_t g_t(x_t)), each g_t one of tilts.

    Messages of all choices are followed; of too many, those that separate some pair of values most.
    """
    size = len(matrix)

    def messages(kernels, bs):
        found = [np.zeros((1, size))]
        for kernel, b in zip(kernels, bs, strict=False):
            here = (found[-1][:, None, :] + b * tilts[None]).reshape(-1, size)
            with np.errstate(divide="ignore"):
                logs = np.logaddexp.reduce(np.log(kernel)[None] + here[:, None, :], axis=2)
            known = kernel.any(axis=1)
            logs[:, ~known] = 0.0
            logs -= logs[:, known].max(axis=1, keepdims=True)
            if len(logs) > beam:
                apart = np.argsort(-(logs[:, :, None] - logs[:, None, :]), axis=0)
                logs = logs[np.unique(apart[: max(1, beam // size**2)])]
            found.append(logs)
        return found

    distributions = brute.marginals(initial, matrix, len(bs))
    backwards = [brute._reversed(own, matrix) for own in distributions[:-1]]
    right = messages([np.asarray(matrix)] * (len(bs) - 1), bs[::-1])[::-1]
    left = messages(backwards, bs)
    own = (tilts[:, :, None] - tilts[:, None, :]).max(axis=0)
    losses = np.zeros(len(bs))
    for i, distribution in enumerate(distributions):
        here = distribution > 0
        total = bs[i] * own + brute._best(left[i]) + brute._best(right[i])
        losses[i] = total[np.ix_(here, here)].max()
    return losses


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["dense", "sparse", "periodic", "reducible", "deterministic", "sticky"]
)
@pytest.mark.parametrize("known", [False, True])
def test_uneven_runs_with_free_pairs_never_below_product_releases(kind, known):
    rng = np.random.default_rng(len(kind))
    for turn in range(2):
        size = 3 + turn % 2
        matrix = brute.random_matrix(rng, size, kind)
        counted = np.eye(size)[turn % size]
        cost = np.abs(counted[:, None] - counted[None, :])
        runs = [
            (int(n), float(b))
            for n, b in zip([40, 9, 30], rng.permutation([0.3, 0, 1.0]), strict=True)
        ]
        if turn % 3 == 0:
            runs = [(80, 0.2)]
        starts = [brute.random_start(rng, size)] if known else brute.starts(rng, size)[:5]
        beliefs = MarkovChain(starts[0], matrix) if known else ChainClass.any_start(matrix)
        bs = np.repeat([b for _, b in runs], [n for n, _ in runs])
        curve = InfluenceCurve(beliefs, len(bs))
        spent = [NoisyRun(n, None, b * cost) for n, b in runs]
        promised = np.max(list(curve.entry_losses(spent).values()), axis=0)
        for start in starts:
            real = real_losses(start, matrix, bs, np.array([counted, -counted, 0 * counted]))
            assert (promised >= real - SLACK).all(), (matrix, start, runs)


def test_steps_with_any_start_are_the_same_compiled(monkeypatch):
    rng = np.random.default_rng(0)
    for _ in range(60):
        size = int(rng.integers(1, 7))
        matrix = brute.random_matrix(rng, size)
        columns = rng.random(size) < 0.8
        columns[rng.integers(size)] = True
        rows = (matrix[columns] > 0).any(axis=0)
        variation = rng.random((size, size)) * rng.choice([0.1, 1, 10])
        np.fill_diagonal(variation, 0)
        steps = steps_module.Open(Kernel(matrix, matrix > 0), rows, columns, 1e-13)
        found = []
        for little in (10**9, -1):
            monkeypatch.setattr(steps_module, "_LITTLE", little)
            found.append(steps(variation))
        assert np.abs(found[0] - found[1]).max() <= 1e-12 * (1 + variation.max())


@pytest.mark.parametrize("length", [1000, 10**6, 10**12])
def test_costs_of_a_few_roundings_have_a_limit_compiled_too(length, monkeypatch):
    """The state that is asked for is as likely in both regimes: its count costs nothing more."""
    monkeypatch.setattr(compiling, "PATIENCE", -1.0)
    moods = pk.RegimeClass([[0.9, 0.1], [0.2, 0.8]], [[0.6, 0.3, 0.1], [0.2, 0.3, 0.5]])
    assert pk.influence_curve(moods, pk.count(1, length), 0.3).scale == pytest.approx(1 / 0.3)
