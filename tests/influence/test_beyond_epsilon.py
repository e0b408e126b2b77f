"""Where not all pairs of values are secrets, an entry may cost more than epsilon (FIXES 2).

Every loss is computed by listing all series, and a climb moves chain, values and epsilon.
"""

from __future__ import annotations

from itertools import product
from math import inf

import numpy as np
import pytest

import pufferkit as pk


def laplace_losses(chances, secrets, sums, scale):
    """The largest log-ratio of densities of a noisy sum between any two secrets that differ.

    ``chances`` of the listed series, the secret and the sum of each; the worst output of a Laplace
    mixture is one of its centres.
    """
    centres = np.unique(sums)
    noise = np.exp(-np.abs(centres[:, None] - sums) / scale)
    dense = {
        s: np.log(noise[:, secrets == s] @ chances[secrets == s] / chances[secrets == s].sum())
        for s in np.unique(secrets)
        if chances[secrets == s].sum() > 0
    }
    return {(s, t): float((dense[s] - dense[t]).max()) for s in dense for t in dense if s != t}


def listed(initial, transition, length):
    """All series and their probabilities."""
    series = np.array(list(product(range(len(initial)), repeat=length)))
    chances = np.asarray(initial)[series[:, 0]]
    for before, after in zip(series.T, series.T[1:], strict=False):
        chances = chances * np.asarray(transition)[before, after]
    return series, chances


def share_of_pairs(transition, values, length, epsilon, multiples):
    """The largest loss of a named pair, in parts of what it is promised; and the calibration."""
    chain = pk.MarkovChain.steady(transition)
    theta = pk.ChainClass.of(chain).with_secrets(pk.Secrets.pairs(multiples))
    noise = pk.influence_curve(theta, pk.total(dict(enumerate(values)), length), epsilon)
    series, chances = listed(chain.initial, chain.transition, length)
    sums = np.asarray(values)[series].sum(axis=1)
    worst = 0.0
    for entry in range(length):
        losses = laplace_losses(chances, series[:, entry], sums, noise.scale)
        for (x, y), multiple in multiples.items():
            for pair in ((x, y), (y, x)):
                worst = max(worst, losses.get(pair, 0.0) / (multiple * epsilon))
    return worst, noise


def test_the_values_of_the_issue():
    sticky = np.full((3, 3), 0.1) + 0.7 * np.eye(3)
    scales = [
        share_of_pairs(sticky, [0.0, 1.0, 10.0], length, 1.0, {(0, 1): 1.0})[1].scale
        for length in (1, 5)
    ]
    assert scales[0] == pytest.approx(1.0, rel=1e-6)
    assert scales[1] < 4.0  # ten is the noise for all pairs of values
    release = share_of_pairs(sticky, [0.0, 1.0, 10.0], 5, 1.0, {(0, 1): 1.0})[1].release(
        [0, 1, 1, 0, 0], anyway=True
    )
    assert pk.verify(release).ok
    assert not pk.verify({**release.to_dict(), "scale": 0.9 * release.scale}).ok


def random_case(rng):
    values = np.sort(rng.choice([0.0, 1.0, 2.0, 5.0, 10.0], 3, replace=False))[rng.permutation(3)]
    pairs = [((0, 1), (0, 2), (1, 2))[n] for n in rng.permutation(3)[: rng.integers(1, 3)]]
    multiples = {pair: float(rng.choice([1.0, 2.0])) for pair in pairs}
    transition = rng.dirichlet(np.full(3, rng.choice([0.3, 1.0, 4.0])), 3) * 0.98 + 0.02 / 3
    return (
        transition,
        values,
        int(rng.integers(1, 5)),
        float(rng.choice([0.2, 1.0, 4.0])),
        multiples,
    )


@pytest.mark.parametrize("seed", range(12))
def test_named_pairs_never_lose_more(seed):
    rng = np.random.default_rng(seed)
    for _ in range(4):
        assert share_of_pairs(*random_case(rng))[0] <= 1 + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_no_climb_leads_above_the_promise(seed):
    rng = np.random.default_rng(100 + seed)
    transition, values, length, epsilon, multiples = random_case(rng)
    best = share_of_pairs(transition, values, length, epsilon, multiples)[0]
    for _ in range(60):
        logs = np.log(transition) + rng.normal(0, rng.choice([0.1, 1.0]), (3, 3))
        moved = np.exp(logs) / np.exp(logs).sum(axis=1, keepdims=True) * 0.999 + 0.001 / 3
        further = values + rng.normal(0, 0.3, 3) * (rng.random() < 0.5)
        if np.ptp(further) < 0.1:
            continue
        share = share_of_pairs(moved, further, length, epsilon, multiples)[0]
        assert share <= 1 + 1e-9
        if share > best:
            best, transition, values = share, moved, further


def share_of_regimes(move, shown, length, epsilon):
    """The largest loss of a regime of one entry, in parts of epsilon."""
    theta = pk.RegimeClass(move, shown, secret="regime")
    noise = pk.influence_curve(theta, pk.count(theta.states[1], length), epsilon)
    initial = pk.MarkovChain.steady(move).initial
    regimes, chances = listed(initial, move, length)
    worst, k = 0.0, np.asarray(shown).shape[1]
    entries = np.array(list(product(range(k), repeat=length)))
    joint = np.array([[np.prod(np.asarray(shown)[z, x]) for x in entries] for z in regimes])
    joint = (chances[:, None] * joint).ravel()
    sums = np.tile((entries == 1).sum(axis=1), len(regimes))
    for entry in range(length):
        secrets = np.repeat(regimes[:, entry], len(entries))
        losses = laplace_losses(joint, secrets, sums.astype(float), noise.scale)
        worst = max(worst, *losses.values()) if losses else worst
    return worst / epsilon, noise


@pytest.mark.parametrize("seed", range(10))
def test_regimes_never_lose_more(seed):
    rng = np.random.default_rng(seed)
    for _ in range(3):
        move = rng.dirichlet(np.ones(2), 2) * 0.9 + 0.05
        shown = rng.dirichlet(np.ones(2), 2) * 0.98 + 0.01
        share, noise = share_of_regimes(
            move, shown, int(rng.integers(1, 5)), float(rng.choice([0.2, 0.5, 2.0]))
        )
        assert share <= 1 + 1e-9
        assert noise.scale < inf


def test_regimes_that_entries_hardly_show_need_less_than_an_entry():
    move, shown = [[0.9, 0.1], [0.2, 0.8]], [[0.6, 0.4], [0.4, 0.6]]
    share, noise = share_of_regimes(move, shown, 4, 1.0)
    assert 0.9 < share <= 1 + 1e-9
    assert noise.scale < 0.6  # one entry by itself needs 1
    alone, least = share_of_regimes(move, shown, 1, 1.0)
    assert alone < 0.5  # log 0.6 / 0.4 without any noise
    assert least.scale < 0.01


def test_releases_without_end_of_what_hardly_shows_a_regime_stay_below_what_entries_show(tmp_path):
    """Each is nearly exact; the account charges at most what all entries, seen plainly, show."""
    move, shown = [[0.9, 0.1], [0.2, 0.8]], [[0.6, 0.4], [0.4, 0.6]]
    theta = pk.RegimeClass(move, shown, secret="regime")
    account = pk.Account(tmp_path / "book.db", "one", 10.0)
    for number in range(3):
        pk.release(
            theta.states[:1],
            theta,
            pk.count(theta.states[1]),
            2.0,
            account=account,
            label=str(number),
        )
    assert 0.4 < account.spent <= np.log(0.6 / 0.4) + 1e-6


@pytest.mark.parametrize("limit", [700.1, 1200.0, 1e6, inf])
def test_a_step_at_any_variation_is_the_largest_ratio_of_two_rows(limit):
    from pufferkit.influence.curve.steps import Transport, off_diagonal

    rng = np.random.default_rng(5)
    kernel = rng.dirichlet(np.ones(4), 3)
    kernel[0] = [0.0, 0.5, 0.25, 0.25]
    steps = Transport([kernel])(np.where(off_diagonal(4) > 0, limit, 0.0))
    own = np.log(kernel[:, None, 1:] / kernel[None, :, 1:]).max(axis=2)
    assert np.isinf(steps[1:, 0]).all()
    np.testing.assert_allclose(steps[0, 1:], own[0, 1:], atol=1e-9)
    assert (steps[1:, 1:] >= own[1:, 1:]).all()
