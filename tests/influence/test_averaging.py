"""Nodes averaged out of cliques, against linear programmes and every likelihood there is."""

from itertools import product

import numpy as np
import pytest

import pufferkit as pk
from pufferkit.beliefs import junction_tree
from pufferkit.beliefs.junction_tree import CliqueTree, JunctionTree, SeparatorTree
from pufferkit.influence.curve.graphs import MOST_LISTED, Passes, extremes, followed
from pufferkit.influence.curve.steps import closure, off_diagonal
from tests.oracles import graph_loss, pairs
from tests.strategies.graphs import curve_of, factors_of, random_field


def random_variation(rng, size, scale):
    return scale * rng.random((size, size)) * off_diagonal(size)


def step(p, q, variation):
    """By a linear programme; from the largest entry where extreme functions are not listed."""
    if len(p) > MOST_LISTED:
        variation = variation.max() * off_diagonal(len(p))
    return pairs.step(p, q, closure(variation))


def removed(table, variations):
    """The matrix that is left after all nodes but the last were averaged, term by term."""
    own = [*variations, np.zeros((table.shape[-1],) * 2)]
    for _ in variations:
        kernel = table / table.sum(axis=0)
        steps = []
        for k in range(1, table.ndim):
            rows = np.moveaxis(kernel, (0, k), (-1, -2)).reshape(-1, table.shape[k], len(table))
            both = product(range(table.shape[k]), repeat=2)
            most = [max(step(u[x], u[z], own[0]) if x != z else 0 for u in rows) for x, z in both]
            steps.append(np.reshape(most, (table.shape[k],) * 2))
        own = [before + more for before, more in zip(own[1:], steps, strict=True)]
        table = table.sum(axis=0)
    return own[0]


@pytest.mark.parametrize("values", [2, 3, 4, 5])
@pytest.mark.parametrize("kind", ["any", "line", "equal", "ties"])
def test_some_extreme_function_attains_the_programme(values, kind):
    rng = np.random.default_rng(values)
    for scale in (0.1, 1.0, 5.0):
        variation = random_variation(rng, values, scale)
        if kind == "line":
            at = rng.random(values)
            variation = scale * np.abs(at[:, None] - at[None, :])
        elif kind == "equal":
            variation = scale * off_diagonal(values)
        elif kind == "ties":
            variation = scale * np.round(variation / scale)
        functions = np.exp(extremes(variation[None])[0])
        closed = closure(variation)
        logs = np.log(functions)
        assert np.all(logs[:, :, None] - logs[:, None, :] <= closed + 1e-12)
        for _ in range(5):
            p, q = rng.dirichlet(np.ones(values), 2)
            ours = np.log((functions @ p) / (functions @ q)).max()
            assert ours == pytest.approx(pairs.step(p, q, closed), abs=1e-8)


@pytest.mark.parametrize("sizes", [(2, 2, 2), (3, 2, 4), (2, 5, 2), (8, 3), (7, 2), (2, 9)])
def test_ways_side_by_side_are_those_of_the_theorem(sizes):
    rng = np.random.default_rng(len(sizes) + sizes[0])
    tables = rng.dirichlet(np.ones(np.prod(sizes)), 3).reshape(3, *sizes)
    tables[1] = 1 / tables[1].size  # all alike: nothing is added
    most = max(sizes)
    variations = np.zeros((len(sizes) - 1, 3, most, most))
    for n, size in enumerate(sizes[:-1]):
        for way, scale in enumerate((0.1, 1.0, 4.0)):
            variations[n, way, :size, :size] = random_variation(rng, size, scale)
    for logs in (False, True):
        own = np.log(tables) if logs else tables
        matrices, pays = followed(own, logs, variations, 1, 0.0, greedy=False)
        assert not pays.any()
        for way in range(3):
            each = [v[way, :size, :size] for v, size in zip(variations, sizes, strict=False)]
            expected = removed(tables[way], each)
            added = matrices[0, way, : sizes[-1], : sizes[-1]]
            assert added == pytest.approx(expected, rel=1e-7, abs=1e-8)


def test_what_is_cheaper_is_paid():
    """The first is nearly decided by both others, so that averaging it would be paid twice."""
    table = np.where(np.indices((1, 2, 2, 2)).sum(axis=0) % 2, 1e-9, 0.25)
    variations = np.full((2, 1, 2, 2), 0.5) * off_diagonal(2)
    matrices, pays = followed(table, False, variations, 1, 0.0, greedy=True)
    assert pays.tolist() == [[True, False]]
    assert 0.5 <= matrices.max() <= 1.0 + 1e-12
    huge, pays = followed(table, False, 2000 * variations, 1, 0.0, greedy=False)
    assert pays[0, 0]
    assert huge.max() >= 1000


@pytest.mark.parametrize("seed", range(8))
def test_every_tree_bounds_every_product(seed):
    field = random_field(seed, values=2 + seed % 2, most=6, zeros=seed % 4 == 3)
    sizes, factors = factors_of(field)
    trees = CliqueTree.all_of(sizes, [scope for scope, _ in factors], "field")
    true = graph_loss.product_losses(sizes, factors, 0.4)
    for tree in trees:
        own = SeparatorTree.of(JunctionTree.on(tree, sizes, factors), sizes)
        costs = [0.4 * off_diagonal(len(possible)) for possible in own.possible]
        for search in (False, True):
            losses = Passes(own).losses(costs, search)
            assert all(true[n] <= loss.max() + 1e-12 for n, loss in losses.items())


@pytest.mark.parametrize("values", [3, 4])
def test_values_that_are_close_lose_less_on_a_loop(values):
    """The transport step: a sum needs less noise than it would if all values were far apart."""
    rng = np.random.default_rng(values)
    edges = [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)]
    field = pk.MarkovRandomField({e: np.exp(rng.normal(0, 1, (values, values))) for e in edges})
    line = np.abs(np.subtract.outer(np.arange(values), np.arange(values))) / (values - 1)
    close = curve_of(field, line).solve(1.0)[0]
    assert close > 1.1 * curve_of(field).solve(1.0)[0]


def test_a_sweep_has_smaller_cliques_on_a_grid(monkeypatch):
    side = 9
    scopes = [
        ((r * side + c), (r + a) * side + c + b)
        for r in range(side)
        for c in range(side)
        for a, b in ((0, 1), (1, 0))
        if r + a < side and c + b < side
    ]
    trees = CliqueTree.all_of([2] * side**2, scopes, "grid")
    assert sorted(max(map(len, tree.cliques)) for tree in trees) == [side + 1, side + 3]
    chain = [(n, n + 1) for n in range(30)]
    assert max(map(len, CliqueTree.all_of([2] * 31, chain, "chain")[0].cliques)) == 2
    monkeypatch.setattr(junction_tree, "MOST_CLIQUE", 1 << side)
    with pytest.raises(junction_tree.TooWide):
        CliqueTree.all_of([2] * side**2, scopes, "grid")
