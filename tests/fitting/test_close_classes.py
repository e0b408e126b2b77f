"""Adversaries near regions, mixing classes and beliefs with secrets of their own."""

import math
from itertools import pairwise, product

import numpy as np
import pytest

from pufferkit import ChainClass, MarkovChain, NotApplicable, Secrets, closeness
from pufferkit.beliefs.region_class import RegionClass, within_bounds
from pufferkit.fitting.closeness import chain_delta


def table(chain, length):
    """Every series and its probability."""
    probabilities = {}
    for path in product(range(len(chain)), repeat=length):
        p = chain.initial[path[0]]
        for x, y in pairwise(path):
            p *= chain.transition[x, y]
        probabilities[path] = p
    return probabilities


def listed_delta(theirs, ours, length, secrets):
    """By definition: ``secrets`` are functions of a series; a value of ``None`` is no secret."""
    first, second = table(theirs, length), table(ours, length)
    delta = 0.0
    for secret in secrets:
        groups = {}
        for path in first:
            groups.setdefault(secret(path), []).append(path)
        for value, paths in groups.items():
            one, other = (sum(t[path] for path in paths) for t in (first, second))
            if value is None or one == 0:
                continue
            if any((first[path] > 0) != (second[path] > 0) for path in paths):
                return math.inf
            for path in paths:
                if first[path] > 0:
                    ratio = first[path] / one / (second[path] / other)
                    delta = max(delta, abs(math.log(ratio)))
    return delta


def entries_of(sets):
    return [lambda path, own=own: tuple(path[i] for i in own) for own in sets]


def windows(length, window, label):
    return [
        lambda path, i=i: label(path[i : i + window]) for i in range(max(length - window + 1, 1))
    ]


# --- secrets of their own -------------------------------------------------------------------------


def random_pair(seed, size, zeros):
    """An adversary and a stationary belief; with zeros in some, mostly the same ones."""
    rng = np.random.default_rng(seed)
    mask = rng.random((size, size)) < (0.7 if zeros else 2)
    mask |= np.eye(size, dtype=bool) | np.roll(np.eye(size, dtype=bool), 1, axis=1)
    one, other = (rng.dirichlet([2.0] * size, size) * mask for _ in range(2))
    if seed % 4 == 3:
        one[0, 1:] = 0
    one, other = (m / m.sum(axis=1, keepdims=True) for m in (one, other))
    start = rng.dirichlet([2.0] * size)
    if seed % 3 == 2:
        start[0] = 0
    return MarkovChain(start / start.sum(), one), MarkovChain.steady(other)


def cases(length):
    return {
        "runs": (Secrets.runs(2), windows(length, 2, tuple)),
        "long runs": (Secrets.runs(3), windows(length, 3, tuple)),
        "all": (Secrets.runs(99), windows(length, length, tuple)),
        "pairs": (
            Secrets.pairs([(0, 1)]),
            [lambda path, i=i: path[i] if path[i] < 2 else None for i in range(length)],
        ),
    }


@pytest.mark.parametrize("name", cases(4))
@pytest.mark.parametrize("zeros", [False, True])
def test_given_own_secrets_equals_listing_all_series(name, zeros):
    infinite = 0
    for seed in range(12):
        size, length = 2 + seed % 2, 3 + seed % 3
        theirs, ours = random_pair(seed, size, zeros)
        secrets, events = cases(length)[name]
        theta = ChainClass.of(ours).with_secrets(secrets, entries=False)
        wanted = listed_delta(theirs, ours, length, events)
        delta = closeness(theirs, theta, length).delta
        assert delta == wanted or delta == pytest.approx(wanted, abs=1e-9)
        infinite += wanted == math.inf
    assert infinite < 12


def test_all_secrets_count_and_single_entries_are_among_them():
    theirs, ours = random_pair(1, 3, zeros=False)
    theta = ChainClass.of(ours)
    event = Secrets.pairs([(0, 1)])
    alone = closeness(theirs, theta.with_secrets(event, entries=False), 4).delta
    entry = closeness(theirs, theta, 4).delta
    assert closeness(theirs, theta.with_secrets(event), 4).delta == max(alone, entry)
    assert closeness(ours, theta.with_secrets(event), 4).delta == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("secrets", [Secrets.sets(2), Secrets.throughout(0, 3)])
def test_secrets_that_are_no_entries_in_a_row_are_refused(secrets):
    chain = MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    with pytest.raises(NotApplicable, match=r"Secrets\.runs"):
        closeness(chain, ChainClass.of(chain).with_secrets(secrets), 9)


# --- regions --------------------------------------------------------------------------------------


def test_a_chain_of_the_region_is_at_distance_zero():
    counts = [[900, 100], [80, 120]]
    inside = MarkovChain([1, 0], [[0.9, 0.1], [0.4, 0.6]])
    anywhere = ChainClass.around(counts, 0.95, sides="any start")
    assert closeness(inside, anywhere, 50).delta == 0
    both = ChainClass.around(counts, 0.95)
    assert closeness(MarkovChain.steady(inside.transition), both, 50).delta == 0
    # From a sure start the entry before the second is known, which no region of counts holds.
    assert not both.holds(inside, 2)
    assert closeness(inside, both, 50).delta == math.inf


@pytest.mark.parametrize("seed", range(6))
def test_the_nearest_row_of_a_region_by_listing(seed):
    rng = np.random.default_rng(seed)
    size = 2 + seed % 2
    centre = rng.dirichlet([2.0] * size, size)
    region = RegionClass(np.maximum(centre - 0.1, 0), np.minimum(centre + 0.1, 1))
    matrix = rng.dirichlet([2.0] * size, size)
    nearest = within_bounds(matrix, region.low, region.high)
    assert region.contains(nearest)
    distance = np.abs(np.log(nearest / matrix)).max(axis=1)
    draws = rng.dirichlet([1.0] * size, 20_000)
    for x in range(size):
        inside = ((draws >= region.low[x]) & (draws <= region.high[x])).all(axis=1)
        assert inside.any()
        others = np.abs(np.log(draws[inside] / matrix[x])).max(axis=1)
        assert distance[x] <= others.min() + 1e-9
    theirs = MarkovChain(rng.dirichlet([2.0] * size), matrix)
    member = MarkovChain(theirs.initial, nearest)
    singles = entries_of([(i,) for i in range(4)])
    delta = closeness(theirs, region, 4).delta
    assert delta <= listed_delta(theirs, member, 4, singles) + 1e-9
    assert (delta == 0) == region.contains(matrix)


def test_moves_that_a_region_rules_out_or_demands_are_infinite():
    region = RegionClass([[0.5, 0.1], [0.2, 0.2]], [[0.9, 0.5], [0.8, 0.8]])
    demanded = MarkovChain([0.5, 0.5], [[1, 0], [0.5, 0.5]])
    assert closeness(demanded, region, 3).delta == math.inf
    open_zero = RegionClass([[0.5, 0.0], [0.2, 0.2]], [[1.0, 0.5], [0.7, 0.8]])
    sure = MarkovChain([0.5, 0.5], [[1, 0], [0.1, 0.9]])
    assert 0 < closeness(sure, open_zero, 3).delta < math.inf


@pytest.mark.parametrize("seed", range(4))
def test_members_of_regions_of_both_directions_are_in_them(seed):
    rng = np.random.default_rng(seed)
    truth = MarkovChain.steady(rng.dirichlet([3.0] * 3, 3))
    counts = np.round(3000 * truth.initial[:, None] * truth.transition)
    region = ChainClass.around(counts, 0.95)
    theirs = MarkovChain.steady(0.5 * truth.transition + 0.5 * rng.dirichlet([3.0] * 3, 3))
    assert not region.holds(theirs, 6)
    members = region.nearest(theirs, 6)
    assert members
    assert not any(member.any_start for member in members)
    for member in members:
        chain = member.chain
        assert region.contains(chain.transition)
        here = chain.initial
        for _ in range(5):
            joint = here[:, None] * chain.transition
            here = joint.sum(axis=0)
            back = (joint / here).T
            assert (back >= region.before.low - 1e-12).all()
            assert (back <= region.before.high + 1e-12).all()
    singles = entries_of([(i,) for i in range(6)])
    wanted = min(listed_delta(theirs, m.chain, 6, singles) for m in members)
    assert closeness(theirs, region, 6).delta == pytest.approx(wanted, abs=1e-9)
    assert wanted < chain_delta(theirs, truth, 6)


def test_a_region_without_a_chain_is_refused():
    before = RegionClass([[0.1, 0.8], [0.8, 0.1]], [[0.2, 0.9], [0.9, 0.2]])
    region = RegionClass([[0.8, 0.1], [0.1, 0.8]], [[0.9, 0.2], [0.2, 0.9]], before=before)
    with pytest.raises(NotApplicable, match="no chain could be verified"):
        closeness(MarkovChain.steady([[0.85, 0.15], [0.1, 0.9]]), region, 5)


# --- mixing classes -------------------------------------------------------------------------------


def gap_of(matrix, reversible):
    """By definition, with pi from the eigenvector of the transpose."""
    values, vectors = np.linalg.eig(matrix.T)
    pi = np.real(vectors[:, np.argmin(abs(values - 1))])
    pi = pi / pi.sum()
    flow = pi[:, None] * matrix
    if reversible:
        assert np.allclose(flow, flow.T)
        return pi.min(), 2 * (1 - sorted(abs(np.linalg.eigvals(matrix)))[-2])
    back = flow.T / pi[:, None]
    return pi.min(), 1 - sorted(np.real(np.linalg.eigvals(matrix @ back)))[-2]


@pytest.mark.parametrize("reversible", [False, True])
@pytest.mark.parametrize("pi_min", [0.05, 0.3])
def test_members_of_mixing_classes_mix_as_well(reversible, pi_min):
    theirs = MarkovChain([0.2, 0.3, 0.5], [[0.9, 0.06, 0.04], [0.1, 0.8, 0.1], [0.2, 0.1, 0.7]])
    theta = ChainClass.mixing(3, pi_min, 0.8, reversible)
    members = theta.nearest(theirs, 5)
    for member in members:
        least, gap = gap_of(member.chain.transition, reversible)
        assert least >= pi_min - 1e-9
        assert gap >= 0.8 - 1e-9
    singles = entries_of([(i,) for i in range(5)])
    wanted = min(listed_delta(theirs, member.chain, 5, singles) for member in members)
    near = closeness(theirs, theta, 5)
    assert 0 < near.delta <= wanted + 1e-9
    # The least mixture: its gap or its rarest state is just enough.
    ends = [gap_of(member.chain.transition, reversible) for member in members]
    assert all(least < pi_min + 1e-6 or gap < 0.8 + 1e-6 for least, gap in ends)


def test_whoever_mixes_well_enough_is_at_distance_zero():
    theirs = MarkovChain([1, 0], [[0.9, 0.1], [0.4, 0.6]])  # pi_min 0.2, gap 0.75 and 1
    assert closeness(theirs, ChainClass.mixing(2, 0.2, 0.75), 9).delta == 0
    assert closeness(theirs, ChainClass.mixing(2, 0.2, 1.0, reversible=True), 9).delta == 0
    assert closeness(theirs, ChainClass.mixing(2, 0.2, 0.76), 9).delta > 0
    assert 0 < closeness(theirs, ChainClass.mixing(2, 0.5, 1.0), 9).delta < math.inf


def test_chains_that_never_mix():
    stuck = MarkovChain([0.5, 0.5], [[1, 0], [0.5, 0.5]])
    with pytest.raises(NotApplicable, match="reaches"):
        closeness(stuck, ChainClass.mixing(2, 0.2, 0.5), 5)
    two = MarkovChain([0.5, 0.5], [[0, 1], [1, 0]])
    assert closeness(two, ChainClass.mixing(2, 0.2, 0.5), 5).delta == math.inf
