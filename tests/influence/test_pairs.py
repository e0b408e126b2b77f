"""The pairwise curve: steps against another solver, losses against every path, known numbers."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

import pufferkit as pk
from pufferkit.beliefs.chain_class import as_chain_class
from pufferkit.beliefs.chain_parts import _uneven, part_of
from pufferkit.influence.curve.certificates import certificate
from pufferkit.influence.curve.engine import PartCurve
from pufferkit.influence.curve.steps import Transport, closure, off_diagonal
from pufferkit.influence.sums.least_scale import Additive, SumWindows, outer_loss
from pufferkit.mechanisms.exact_sum import entry_distributions
from tests.oracles import pairs as oracle


def chains(seed, size, zeros=0.0):
    rng = np.random.default_rng(seed)
    matrix = rng.dirichlet(np.full(size, rng.choice([0.3, 1.0, 3.0])), size)
    matrix[rng.random((size, size)) < zeros] = 0
    for row in matrix:
        if row.sum() == 0:
            row[rng.integers(size)] = 1
    return matrix / matrix.sum(axis=1, keepdims=True)


def metrics(seed, size, largest):
    rng = np.random.default_rng(seed)
    limit = rng.random((size, size)) * largest
    if seed % 3 == 0:
        limit[rng.random((size, size)) < 0.4] = 0  # pairs that are not told apart
    if seed % 4 == 0:
        limit[:] = largest
    return closure(limit * off_diagonal(size))


def programme(seed):
    """A kernel and a variation for its steps."""
    size = 2 + seed % 6
    kernel = chains(seed, size, zeros=[0, 0.3, 0.6][seed % 3])
    return kernel, metrics(seed, size, [0.01, 1, 5, 20][seed % 4])


def curve_of(chain, length):
    return PartCurve(part_of(member(chain), length), length)


def member(chain):
    return as_chain_class(chain).members()[0]


@pytest.mark.parametrize("seed", range(24))
def test_steps_are_the_optimum_of_the_programme(seed):
    kernel, limit = programme(seed)
    size = len(kernel)
    steps = Transport([kernel])
    first = steps(limit)
    again = steps(limit)  # from where it ended
    assert np.all(np.abs(first - again) <= 1e-9 * (1 + first))
    for x in range(size):
        for y in range(size):
            if x != y:
                assert first[x, y] == pytest.approx(
                    oracle.step(kernel[x], kernel[y], limit), abs=2e-5
                )


@pytest.mark.parametrize("seed", range(15))
def test_no_allowed_function_has_a_larger_ratio(seed):
    size = 2 + seed % 5
    kernel, limit = chains(seed, size, 0.3), metrics(seed, size, [0.1, 1, 10][seed % 3])
    steps, rng = Transport([kernel])(limit), np.random.default_rng(seed)
    for _ in range(50):
        raw = rng.normal(size=size) * limit.max()
        g = np.min(limit + raw[None, :], axis=1)  # the largest allowed function below raw
        means = np.log(kernel @ np.exp(g))
        assert np.all(means[:, None] - means[None, :] <= steps + 1e-12)


def test_constant_variation_is_the_scalar_step():
    kernel = chains(3, 4)
    steps = Transport([kernel])(0.7 * off_diagonal(4))
    gain = np.exp(0.7) - 1
    subsets = np.array([[n >> j & 1 for j in range(4)] for n in range(16)], dtype=float)
    shares = kernel @ subsets.T
    scalar = np.log((1 + shares[:, None] * gain) / (1 + shares[None] * gain)).max(axis=2)
    assert steps == pytest.approx(scalar, abs=1e-13)


@pytest.mark.parametrize("seed", range(12))
def test_a_certificate_holds_under_another_solver(seed):
    size = 2 + seed % 4
    kernel = chains(seed, size, 0.2) * 0.8 + 0.2 / size
    cost = metrics(seed + 50, size, 0.1) + 0.01 * off_diagonal(size)
    limit = certificate(Transport([kernel]), cost, most=50.0, slack=1e-4 * cost.max())
    assert limit is not None
    for x in range(size):
        for y in range(size):
            if x != y:
                own = oracle.step(kernel[x], kernel[y], limit)
                assert cost[x, y] + own <= limit[x, y] + 1e-6


def test_products_lost_to_underflow_are_no_kernel():
    """P(X_1 = 1) P(X_2 = 0 | X_1 = 1) is 1e-350: possible, and zero as a float."""
    chain = pk.MarkovChain([1, 1e-200], [[0.5, 0.5], [1e-150, 1]])
    assert part_of(member(chain), 2).left.steps(2, 1) is None
    known = part_of(member(pk.MarkovChain([1, 1e-20], chain.transition)), 2)
    assert known.left.steps(2, 1) is not None


def test_closures_are_rounded_up():
    third = np.array([[0, 1 / 3, 1], [1, 0, 1 / 3], [1, 1, 0]])
    assert Fraction(closure(third)[0, 2]) >= 2 * Fraction(1 / 3)
    tiny = np.array([[0, 1.0, 9], [9, 0, 2.0**-53], [9, 9, 0]])
    assert Fraction(closure(tiny)[0, 2]) >= 1 + Fraction(2) ** -53


def test_no_certificate_where_nothing_is_forgotten():
    steps = Transport([np.eye(3)])
    assert certificate(steps, 0.1 * off_diagonal(3), most=20.0, slack=1e-6) is None


@pytest.mark.parametrize("seed", range(24))
def test_losses_cover_every_path(seed):
    rng = np.random.default_rng(seed)
    size, length = 2 + seed % 2, 1 + seed % 5
    kernel = chains(seed, size, [0, 0.35][seed % 2])
    chain = (
        pk.MarkovChain.steady(kernel)
        if seed % 3 and pk.MarkovChain(np.eye(size)[0], kernel).is_irreducible
        else pk.MarkovChain(rng.dirichlet(np.ones(size)), kernel)
    )
    contributions = np.eye(size) if seed % 4 == 0 else rng.integers(0, 3, (size, 1)).astype(float)
    scale = float(np.exp(rng.uniform(-1.5, 1.5)))
    cost = np.abs(contributions[:, None] - contributions[None]).sum(axis=2) / scale
    rows = curve_of(chain, length).losses([(length, cost)])
    assert rows is not None
    for entry in range(length):
        true = oracle.sum_losses(
            chain.initial, [kernel] * (length - 1), contributions, scale, entry
        )
        bound = next(losses for first, last, losses in rows if first <= entry + 1 <= last)
        assert np.all(true <= bound + 1e-10)


@pytest.mark.parametrize("seed", range(12))
def test_a_profile_covers_every_path(seed):
    """Two windows with a gap: what is told about entries that nothing was released about, too."""
    rng = np.random.default_rng(seed)
    size, spans = 2, (1 + seed % 2, seed % 3, 2)
    length = sum(spans)
    kernel = chains(seed, size)
    chain = pk.MarkovChain.steady(kernel)
    scales = np.exp(rng.uniform(-1, 1, 2))
    unit = off_diagonal(size)
    zero = np.zeros((size, size))
    runs = [
        (n, cost)
        for n, cost in zip(spans, (unit / scales[0], zero, unit / scales[1]), strict=True)
        if n
    ]
    rows = curve_of(chain, length).losses(runs)
    paths, weights = oracle.paths_of(chain.initial, [kernel] * (length - 1))
    values = np.array([[0.0], [1.0]])
    first = oracle.laplace_likelihoods(paths[:, : spans[0]], values, scales[0])
    last = oracle.laplace_likelihoods(paths[:, length - spans[2] :], values, scales[1])
    joint = (first[:, None, :] * last[None, :, :]).reshape(-1, len(paths))
    for entry in range(length):
        true = oracle.losses_of_likelihoods(paths, weights, joint, paths[:, entry])
        bound = next(losses for a, b, losses in rows if a <= entry + 1 <= b)
        assert np.all(true <= bound + 1e-10)


@pytest.mark.parametrize("seed", range(8))
def test_a_hull_covers_kernels_that_change(seed):
    """Kernels mixed anew at every step; the left side from the true backward kernels."""
    rng = np.random.default_rng(seed)
    size, length = 2 + seed % 2, 5
    vertices = [chains(10 * seed + n, size) for n in range(3)]
    mixed = [np.tensordot(rng.dirichlet(np.ones(3)), vertices, 1) for _ in range(length - 1)]
    initial = rng.dirichlet(np.ones(size))
    cost = off_diagonal(size) / 1.3
    marginals = [initial]
    for kernel in mixed:
        marginals.append(marginals[-1] @ kernel)
    right, variation = [np.zeros((size, size))], cost
    for _ in range(length - 1):
        own = Transport(vertices)(variation)
        right.insert(0, own)
        variation = closure(cost + own)
    left, variation = [np.zeros((size, size))], cost
    for t in range(1, length):
        joint = (marginals[t - 1][:, None] * mixed[t - 1]).T
        own = Transport([joint / joint.sum(axis=1, keepdims=True)])(variation)
        left.append(own)
        variation = closure(cost + own)
    contributions = np.arange(size, dtype=float)[:, None] / (size - 1)
    for entry in range(length):
        true = oracle.sum_losses(initial, mixed, contributions, 1.3, entry)
        assert np.all(true <= cost + left[entry] + right[entry] + 1e-10)


@pytest.mark.parametrize(
    ("stay", "epsilon", "scale"),
    [
        ((0.9, 0.6), 0.2, 15.390),
        ((0.9, 0.6), 1, 3.336),
        ((0.9, 0.6), 5, 0.532),
        ((0.9, 0.9), 1, 8.640),
        ((0.99, 0.99), 1, 94.99),
    ],
)
def test_long_binary_chains(stay, epsilon, scale):
    chain = pk.MarkovChain.steady([[stay[0], 1 - stay[0]], [1 - stay[1], stay[1]]])
    b, loss = curve_of(chain, 10**6).solve(off_diagonal(2), epsilon, epsilon)
    assert 1 / b == pytest.approx(scale, rel=1e-3)
    assert epsilon * (1 - 1e-4) <= loss.value <= epsilon


@pytest.mark.parametrize("seed", range(6))
def test_longer_series_lose_no_less(seed):
    chain = pk.MarkovChain.steady(chains(seed, 3) * 0.9 + 0.1 / 3)
    cost = metrics(seed + 7, 3, 0.5)
    values = [curve_of(chain, n).loss([(n, cost)]).value for n in (1, 2, 5, 20, 10**5)]
    assert all(one <= other + 1e-9 for one, other in itertools.pairwise(values))


def test_the_losses_of_a_class_are_those_of_its_chains():
    one, two = (pk.MarkovChain.steady(chains(seed, 3) * 0.9 + 0.1 / 3) for seed in (1, 2))
    both = pk.InfluenceCurve(pk.ChainClass.of(one, two), 500)
    own = [pk.InfluenceCurve(chain, 500).losses(0.1) for chain in (one, two)]
    assert both.losses(0.1) == pytest.approx(np.maximum(*own), rel=1e-12)


def entries_of(chain, length):
    """What a chain says: its matrix, and the distributions of its entries."""
    return chain.transition, entry_distributions(member(chain), length)


@pytest.mark.parametrize("seed", range(20))
def test_windows_cover_a_series_that_is_longer(seed):
    """Windows shorter than the series: valid, and not far from the truth."""
    chain = pk.MarkovChain.steady(chains(seed, 2) * 0.9 + 0.05)
    length, reach, scale = 7, 2 + seed % 2, float(np.exp(seed % 5 - 2))
    windows = SumWindows(
        *entries_of(chain, length), Additive.of_values(np.array([0, 1])), length, reach
    )
    bounds = {window.entry: window.loss(scale) for window in windows.windows()}
    values = np.array([[0.0], [1.0]])
    for entry in range(length):
        true = oracle.sum_losses(
            chain.initial, [chain.transition] * (length - 1), values, scale, entry
        ).max()
        shown = bounds.get(entry + 1, max(bounds.values()))
        assert true <= shown + 1e-9


@pytest.mark.parametrize("block", range(10))
def test_outer_outputs_never_pass_the_truth(block):
    """A thousand small cases, zeros and any starts included: it is the loss at some output."""
    for seed in range(100 * block, 100 * block + 100):
        rng = np.random.default_rng(seed)
        size, length = 2 + seed % 2, 1 + seed % 4
        kernel = chains(seed, size, [0, 0.3][seed % 2])
        chain = pk.MarkovChain(rng.dirichlet(np.ones(size)), kernel)
        contributions = np.eye(size) if seed % 3 else rng.integers(0, 4, (size, 1)).astype(float)
        scale = float(np.exp(rng.uniform(-1, 2)))
        true = max(
            oracle.sum_losses(
                chain.initial, [chain.transition] * (length - 1), contributions, scale, entry
            ).max()
            for entry in {0, (length + 1) // 2 - 1, length - 1}
        )
        assert (
            outer_loss(chain.initial, chain.transition, contributions, scale, length)
            <= true + 1e-12
        )


@pytest.mark.parametrize("seed", range(20))
def test_outer_outputs_never_pass_the_curve(seed):
    size = 2 + seed % 4
    chain = pk.MarkovChain.steady(chains(seed, size) * 0.9 + 0.1 / size)
    contributions = np.eye(size) if seed % 2 else np.arange(size, dtype=float)[:, None]
    length, scale = [1, 3, 10, 10**5][seed % 4], float(np.exp(seed % 5 - 1))
    cost = np.abs(contributions[:, None] - contributions[None]).sum(axis=2) / scale
    bound = curve_of(chain, length).loss([(length, cost)])
    assert bound is not None
    assert outer_loss(chain.initial, chain.transition, contributions, scale, length) <= bound.value


def levels(number, stay=0.7, seed=0):
    """A step leads to the next level, to the one before, or nowhere."""
    moves = np.random.default_rng(seed).random((2, number)) * 0.2 + 0.1
    matrix = stay * np.eye(number)
    matrix += np.diag(moves[0, 1:], 1) + np.diag(moves[1, 1:], -1)
    return matrix / matrix.sum(axis=1, keepdims=True)


def test_moves_that_underflow_with_their_state_do_not_pass_for_reversible():
    """Both products below are 0 in floats, and one is a million times the other."""
    stationary = np.array([1.0, 1e-200, 1e-200])
    transition = np.array([[1.0, 1e-200, 1e-200], [1.0, 0.5, 1e-150], [1.0, 1e-156, 0.5]])
    assert _uneven(transition, stationary) > 13
    transition[2, 1] = 1e-150
    assert _uneven(transition, stationary) < 1e-11


@pytest.mark.parametrize("seed", range(4))
def test_a_reversible_chain_has_one_side_and_loses_what_two_sides_do(seed):
    matrix = levels(5, seed=seed)
    part = part_of(member(pk.MarkovChain.steady(matrix)), 8)
    assert part.left is part.right
    around = matrix.copy()
    around[0, -1], around[-1, 0] = 1e-7, 1e-9  # one way round is likelier than the other
    two = part_of(member(pk.MarkovChain.steady(around / around.sum(axis=1, keepdims=True))), 8)
    assert two.left is not two.right
    cost = 0.3 * off_diagonal(5)
    losses = [PartCurve(own, 8).loss([(8, cost)]).value for own in (part, two)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_many_levels_are_verified():
    chain = pk.MarkovChain.steady(levels(24))
    calibration = pk.influence_curve(chain, pk.histogram(range(24), 10**4), 1)
    with pytest.warns(pk.DrownedAnswer):
        assert pk.verify(calibration.release(chain.sample(10**4, seed=1).tolist())).ok


def test_any_start_needs_no_more_noise_where_fewer_blocks_are_tried(monkeypatch):
    matrix = np.random.default_rng(0).dirichlet(np.ones(24), 24)
    query = pk.count(1, 10**5)
    calibration = pk.influence_curve(pk.ChainClass.any_start(matrix), query, 1)
    monkeypatch.setattr("pufferkit.beliefs.chain_parts._FEW", 100)
    moved = matrix + 1e-12 * np.eye(24)  # beliefs of which nothing is known yet
    every = pk.ChainClass.any_start(moved / moved.sum(axis=1, keepdims=True))
    assert calibration.scale <= 1.02 * pk.influence_curve(every, query, 1).scale
    assert pk.verify(calibration.release(np.arange(10**5) % 24)).ok


def test_progress_is_reported():
    told = []
    chain = pk.MarkovChain.steady([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4]])
    pk.plan(chain, pk.histogram([0, 1, 2], 50), 1, progress=lambda *at: told.append(at))
    curve = [(done, whole) for name, done, whole in told if name == "influence_curve"]
    assert curve
    assert all(0 < done <= whole for done, whole in curve)
