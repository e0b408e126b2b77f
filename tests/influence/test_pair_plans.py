"""Plans of all pairs at once, in numpy, are those of the compiled loop, or better."""

from itertools import permutations
from math import log

import numpy as np
import pytest

from pufferkit.influence.curve.certificates import certificate, converges, rough_limit
from pufferkit.influence.curve.steps import Transport, closure, off_diagonal
from pufferkit.influence.curve.transport_plans import (
    CompiledPlans,
    PlansAtOnce,
    bases_in,
    packed,
    plan_steps,
)
from pufferkit.verification.check_steps import Plans, plan_values


def kernel_of(rng, spread, zeros):
    rows, states = rng.integers(2, 6), rng.integers(1, 6)
    kernel = rng.dirichlet(np.full(states, spread), size=rows)
    kernel[rng.random(kernel.shape) < zeros] = 0
    kernel[kernel.sum(axis=1) == 0, 0] = 1
    if rng.random() < 0.3:
        kernel[0] = kernel[-1]
    return kernel / kernel.sum(axis=1, keepdims=True)


def variation_of(rng, size, most):
    return closure(most * rng.random((size, size)) * off_diagonal(size))


@pytest.mark.parametrize("seed", range(24))
def test_both_ways_find_the_same_steps(seed):
    rng = np.random.default_rng(seed)
    kernel = kernel_of(rng, spread=1.0, zeros=0.3 * (seed % 2))
    half = len(kernel) // 2 if seed % 5 == 0 else 0
    ways = PlansAtOnce(kernel, half), CompiledPlans(kernel, half)
    for most in (1e-6, 0.1, 0.11, 3.0, 0.1):
        limit = variation_of(rng, kernel.shape[1], most)
        ours, theirs = (way(limit) for way in ways)
        assert ours == pytest.approx(theirs, rel=1e-9, abs=1e-13)
        for each in (way.arcs for way in ways):  # masses that sum to one: none leaves more
            assert (each.flow > 0).all()
            assert (each.source != each.target).all()
            sent = np.bincount(each.pair, each.flow, minlength=len(kernel) ** 2)
            assert sent.max(initial=0.0) <= 1 + 1e-9


@pytest.mark.parametrize("seed", range(12))
def test_rare_states_are_bounded_alike_and_verified(seed):
    """With probabilities of 1e-20 flows are lost in rounding, unless taken from the light side."""
    rng = np.random.default_rng(seed)
    kernel = kernel_of(rng, spread=0.05, zeros=0.0)
    limit = variation_of(rng, kernel.shape[1], 20.0)
    ways = PlansAtOnce(kernel, 0), CompiledPlans(kernel, 0)
    at_once, compiled = (way(limit) for way in ways)
    assert compiled == pytest.approx(at_once, rel=1e-9, abs=1e-12)
    for way in ways:
        bases = Plans(packed(bases_in([kernel], [way.trees])))
        again = plan_values(kernel, limit, bases.following(kernel))
        assert again == pytest.approx(at_once, rel=1e-9, abs=1e-11)


@pytest.mark.parametrize("seed", range(6))
def test_kept_trees_of_many_states_give_the_steps_of_new_ones(seed):
    """Ties, metrics of two values, small and large changes from one variation to the next."""
    rng = np.random.default_rng(seed)
    kernel = rng.dirichlet(np.full(12, 0.5), 6)
    kernel[:, 3] = 0
    kernel[rng.random(kernel.shape) < 0.4 * (seed % 2)] = 0
    kernel[:, 0] += 0.01
    kernel /= kernel.sum(axis=1, keepdims=True)
    kept, first = CompiledPlans(kernel, 0), variation_of(rng, 12, 1.0)
    ties = off_diagonal(12) * (np.arange(12)[:, None] // 4 != np.arange(12) // 4)
    for limit in (first, 1.02 * first, ties, 0 * ties, variation_of(rng, 12, 300.0), 1e-9 * first):
        new = CompiledPlans(kernel, 0)(limit)
        assert kept(limit) == pytest.approx(new, rel=1e-9, abs=1e-13)
        assert new == pytest.approx(PlansAtOnce(kernel, 0)(limit), rel=1e-9, abs=1e-13)


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("way", [PlansAtOnce, CompiledPlans])
@pytest.mark.parametrize("seed", range(1))
def test_vertices_that_cannot_be_the_largest_are_left_out(seed, way, half):
    """The steps, plans and derivatives of a hull are those of its vertices solved one by one."""
    rng = np.random.default_rng(seed)
    kernels = [rng.dirichlet(np.full(4, rng.choice([0.3, 1.0, 30.0])), 4) for _ in range(12)]
    kernels[2][1] = kernels[2][0]
    kernels[3][:] = kernels[3][0]
    kernels[4][rng.random((4, 4)) < 0.4] = 0
    kernels[4] += 0.1 * np.eye(4)
    kernels[4] /= kernels[4].sum(axis=1, keepdims=True)
    hull, limit, left_out = Transport(kernels, half=half), variation_of(rng, 4, 0.3), 0
    hull._solve_by(way)
    alike = [limit * (1 + 0.1 / n**2) for n in range(1, 6)]
    apart = [0.01 * limit, variation_of(rng, 4, 8.0), 0 * limit, limit[::-1, ::-1]]
    for at in (*alike, *apart, *alike):
        steps = hull(at)
        each = [way(kernel, 2 * half)(at) for kernel in kernels]
        assert steps == pytest.approx(np.max(each, axis=0), rel=1e-12, abs=1e-15)
        left_out += int((~hull._now).sum())
        new = Transport(kernels, half=half)
        new(at)
        grown = [
            np.bincount(rows, values * at.ravel()[columns], minlength=16)
            for rows, columns, values in (hull.derivative(), new.derivative())
        ]
        assert grown[0] == pytest.approx(grown[1], rel=1e-6, abs=1e-9)
        for kernel, trees, own in zip(kernels, hull.trees, each, strict=True):
            bases = Plans(packed(bases_in([kernel], [trees], 2 * half)))
            again = plan_values(kernel, at, bases.following(kernel))
            asked = (slice(2), slice(2, 4)) if half else (slice(4), slice(4))
            assert again[asked] == pytest.approx(own[asked], rel=1e-9, abs=1e-11)
    assert left_out > 12


@pytest.mark.parametrize("seed", range(4))
def test_a_guess_is_below_the_certificate_it_leads_to(seed):
    rng = np.random.default_rng(seed)
    stay = 0.7 * (seed % 2)
    kernel = stay * np.eye(16) + (1 - stay) * rng.dirichlet(np.ones(16), 16)
    steps, cost = Transport([kernel]), variation_of(rng, 16, 0.1)
    steps._solve_by(CompiledPlans)
    guess = rough_limit(steps, cost)
    limit = certificate(steps, cost, 50.0, 1e-6, guess)
    assert np.all(guess <= limit + 1e-9)
    assert limit == pytest.approx(certificate(steps, cost, 50.0, 1e-6), abs=1e-5)


@pytest.mark.parametrize("seed", range(12))
def test_trees_of_a_kernel_close_by_give_the_same_steps(seed):
    rng = np.random.default_rng(seed)
    kernel = kernel_of(rng, spread=1.0, zeros=0.3 * (seed % 2))
    other = kernel * rng.uniform(0.9, 1.1, kernel.shape)
    other /= other.sum(axis=1, keepdims=True)
    before, alone, like = PlansAtOnce(other, 0), PlansAtOnce(kernel, 0), PlansAtOnce(kernel, 0)
    limit = variation_of(rng, kernel.shape[1], 2.0)
    like.start_like(before)  # that has no trees yet
    before(limit)
    like.start_like(before)
    for nearby in (limit, 1.01 * limit, 3 * limit):
        assert like(nearby) == pytest.approx(alone(nearby), rel=1e-9, abs=1e-13)


@pytest.mark.parametrize("way", [plan_steps.plain, plan_steps])
@pytest.mark.parametrize(
    ("sources", "targets", "flows", "fits"),
    [
        ([0, 0, 1], [1, 2, 1], [0.2, 0.3, 0.5], True),
        ([0, 0, 1], [1, 2, 1], [2.0, 3.0, 5.0], True),  # flows have no unit
        ([0, 0, 1], [1, 2, 1], [0.2, 0.3, 1e-300], True),
        ([0, 0, 1], [1, 2, 1], [0.2, 0.3, 0.0], False),  # nothing leaves the second state
        ([0, 0, 1], [1, 2, 1], [0.2, -0.3, -0.5], False),
        ([1, 0, 1], [0, 2, 1], [0.2, 0.3, 0.3], False),  # where q has none
        ([1, 1, 0], [2, 2, 0], [0.2, 0.3, 0.0], False),  # nothing leaves the first state
        ([0, 0, 1], [1, 2, 1], [np.nan, 0.3, 0.5], False),
        ([0, 0, 1], [1, 2, 1], [np.inf, 0.3, 0.5], False),
    ],
)
@pytest.mark.filterwarnings("ignore:invalid value")
def test_what_is_no_plan_has_no_value(way, sources, targets, flows, fits):
    p, q = np.array([[0.5, 0.5, 0.0]]), np.array([[0.0, 0.7, 0.3]])
    arcs = (np.array([ends]) for ends in (sources, targets))
    (value,) = way(p, q, np.exp(0.1 * off_diagonal(3)), np.arange(3), *arcs, np.array([flows]))
    assert (value < 1) == fits
    assert fits or value == np.inf


@pytest.mark.parametrize("way", [plan_steps.plain, plan_steps])
@pytest.mark.parametrize("seed", range(12))
def test_a_proposal_that_goes_astray_costs_noise_never_privacy(seed, way):
    """Whatever flows are proposed, no function that varies by at most B has a larger log-ratio."""
    rng, size = np.random.default_rng(seed), 4
    p, q = rng.dirichlet(np.full(size, 0.4), (2, 50))
    p[rng.random(p.shape) < 0.2] = 0
    p[:, 0] += 1e-9
    p /= p.sum(axis=1, keepdims=True)
    limit = variation_of(rng, size, float(rng.choice([1e-6, 0.5, 8.0])))
    ends = rng.integers(0, size, (2, 50, 6))
    everywhere = np.indices((size, size)).reshape(2, 1, -1).repeat(50, axis=1)
    sources, targets = np.concatenate([ends, everywhere], axis=2)
    flows = rng.random(sources.shape) ** rng.integers(1, 40, sources.shape)
    bounds = way(p, q, np.exp(limit), np.arange(size), sources, targets, flows)
    for _ in range(300):
        g = (limit + rng.normal(0, limit.max(), size)).min(axis=1)
        assert (np.log(p @ np.exp(g)) - np.log(q @ np.exp(g)) <= bounds).all()


@pytest.mark.parametrize("way", [PlansAtOnce, CompiledPlans])
def test_every_step_is_a_number_of_the_one_evaluator(way, monkeypatch):
    """Trees that were tampered with give a larger step, or the same: never a smaller one."""
    rng = np.random.default_rng(3)
    kernel, limit = rng.dirichlet(np.ones(4), 4), variation_of(rng, 4, 2.0)
    best = way(kernel, 0)(limit)
    monkeypatch.setattr("pufferkit.influence.curve.transport_plans.MOST_PIVOTS", 0)
    monkeypatch.setattr("pufferkit.influence.curve.transport_plans._MOST_ROUNDS", 0)
    worse = way(kernel, 0)(limit)
    assert (worse >= best - 1e-12).all()
    assert worse.max() > best.max() * (1 - 1e-9)


def test_a_limit_that_is_reached_within_the_entries():
    steps = Transport([np.array([[0.9, 0.1], [0.4, 0.6]])])
    limit = np.array([[0.0, 1.0], [1.0, 0.0]])
    assert converges(steps, limit, 200)
    assert not converges(steps, limit, 3)
    assert not converges(steps, None, 200)
    assert not converges(Transport([np.eye(2)]), limit, 200)


@pytest.mark.parametrize("largest", [701.0, np.inf, np.nan])
@pytest.mark.parametrize("way", [PlansAtOnce, CompiledPlans])
def test_at_variations_that_overflow_a_step_is_the_largest_ratio_of_two_rows(largest, way):
    kernel = np.array([[0.5, 0.5, 0.0], [0.1, 0.9, 0.0], [0.2, 0.2, 0.6]])
    steps = Transport([kernel], 0.0)
    steps._solve_by(way)
    limit = 1.0 - np.eye(3)
    assert steps(limit).max() <= 1.001
    limit[0, 1] = largest
    bounds = steps(limit)
    for x, y in permutations(range(3), 2):
        shown = kernel[x] > 0
        if (kernel[y][shown] == 0).any():
            assert bounds[x, y] == np.inf
        else:
            ratio = log(max(kernel[x][shown] / kernel[y][shown]))
            assert ratio <= bounds[x, y] <= ratio + 1e-11
    assert not bounds.diagonal().any()
