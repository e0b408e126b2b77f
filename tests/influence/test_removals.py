"""Ways through cliques, followed side by side, against the theorem term by term."""

from itertools import product

import numpy as np
import pytest

from pufferkit.beliefs import junction_tree
from pufferkit.beliefs.junction_tree import CliqueTree, JunctionTree
from pufferkit.influence.curve.graph_passes import GraphPasses
from pufferkit.influence.curve.pairs import off_diagonal
from pufferkit.influence.curve.removals import followed, strengths
from tests.oracles import graph_loss
from tests.strategies.graphs import factors_of, random_field


def step(p, q, variation):
    """log sum p e^g / sum q e^g, the largest over extreme g."""
    if len(p) == 2:
        extremes = [np.exp([0.0, variation[1, 0]]), np.exp([0.0, -variation[0, 1]])]
    else:
        extremes = [
            np.exp(variation.max() * np.array(own)) for own in product((0, 1), repeat=len(p))
        ]
    return max(np.log((p @ own) / (q @ own)) for own in extremes)


def removed(table, variations):
    """The matrix that is left after all nodes but the last were averaged."""
    own = [*variations, np.zeros((table.shape[-1],) * 2)]
    for _ in variations:
        kernel = table / table.sum(axis=0)
        steps = []
        for k in range(1, table.ndim):
            rows = np.moveaxis(kernel, (0, k), (-1, -2)).reshape(-1, table.shape[k], len(table))
            pairs = product(range(table.shape[k]), repeat=2)
            most = [max(step(u[x], u[z], own[0]) for u in rows) for x, z in pairs]
            steps.append(np.reshape(most, (table.shape[k],) * 2))
        own = [before + more for before, more in zip(own[1:], steps, strict=True)]
        table = table.sum(axis=0)
    return own[0]


@pytest.mark.parametrize("sizes", [(2, 2, 2), (3, 2, 4), (2, 5, 2), (8, 3), (7, 2, 2), (2, 9)])
def test_ways_side_by_side_are_those_of_the_theorem(sizes):
    rng = np.random.default_rng(len(sizes) + sizes[0])
    tables = rng.dirichlet(np.ones(np.prod(sizes)), 3).reshape(3, *sizes)
    tables[1] = 1 / tables[1].size  # all alike: nothing is added
    most = max(sizes)
    variations = np.zeros((len(sizes) - 1, 3, most, most))
    for n, size in enumerate(sizes[:-1]):
        scale = np.array([0.1, 1.0, 4.0])[:, None, None]
        variations[n, :, :size, :size] = scale * rng.random((3, size, size)) * off_diagonal(size)
    for logs in (False, True):
        own = np.log(tables) if logs else tables
        matrices, pays = followed(own, logs, variations, 1, np.zeros(3), greedy=False)
        assert not pays.any()
        for way in range(3):
            each = [v[way, :size, :size] for v, size in zip(variations, sizes, strict=False)]
            expected = removed(tables[way], each)
            added = matrices[0, way, : sizes[-1], : sizes[-1]]
            assert np.all(added >= expected - 1e-15)
            assert added == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_what_is_cheaper_is_paid():
    """The first is nearly decided by both others, so that averaging it would be paid twice."""
    table = np.where(np.indices((1, 2, 2, 2)).sum(axis=0) % 2, 1e-9, 0.25)
    variations = np.full((2, 1, 2, 2), 0.5) * off_diagonal(2)
    matrices, pays = followed(table, False, variations, 1, np.zeros(1), greedy=True)
    assert pays.tolist() == [[True, False]]
    assert 0.5 <= matrices.max() <= 1.0 + 1e-12
    huge, pays = followed(table, False, 2000 * variations, 1, np.zeros(1), greedy=False)
    assert pays[0, 0]
    assert huge.max() >= 1000


def test_strength_is_what_one_node_adds():
    rng = np.random.default_rng(2)
    table = rng.random((2, 3, 2))
    matrix = strengths(table[None], False, np.zeros(1))[0]
    for j in range(3):
        kernel = np.moveaxis(table / table.sum(axis=j, keepdims=True), j, -1)
        for k in range(3):
            if k != j:
                rows = np.moveaxis(kernel, k - (k > j), -2).reshape(
                    -1, *np.take(table.shape, [k, j])
                )
                unit = off_diagonal(table.shape[j])
                pairs = [*product(range(table.shape[k]), repeat=2)]
                most = max(step(u[x], u[z], unit) for u in rows for x, z in pairs)
                assert matrix[k, j] == pytest.approx(most, rel=1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_every_tree_bounds_every_product(seed):
    field = random_field(seed, values=2 + seed % 2, most=6, zeros=seed % 4 == 3)
    sizes, factors = factors_of(field)
    trees = CliqueTree.all_of(sizes, [scope for scope, _ in factors], "field")
    true = graph_loss.product_losses(sizes, factors, 0.4)
    for tree in trees:
        own = GraphPasses(JunctionTree.on(tree, sizes, factors), [range(n) for n in sizes])
        losses = own.losses([0.4 * off_diagonal(n) for n in sizes])
        assert all(true[n] <= loss.max() + 1e-12 for n, loss in losses.items())


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
