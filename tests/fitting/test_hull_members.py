"""A fitted hull holds every chain that it lists, by definition; a turn between two it may not."""

from itertools import product

import numpy as np
import pytest

import pufferkit as pk
from pufferkit.fitting.people import People

LENGTH = 7


def loss_by_definition(initial, kernels, scale):
    """Largest loss of an entry: a count of ones with Laplace noise, listing all series."""
    paths = np.array(list(product((0, 1), repeat=len(kernels) + 1)))
    chances = initial[paths[:, 0]].astype(float)
    for t, kernel in enumerate(kernels):
        chances *= kernel[paths[:, t], paths[:, t + 1]]
    counts, largest = paths.sum(axis=1), 0.0
    outputs = np.arange(-1, len(kernels) + 3)
    shown = np.exp(-np.abs(outputs[:, None] - counts) / scale)
    for entry in range(len(kernels) + 1):
        given = [np.where(paths[:, entry] == x, chances, 0.0) for x in (0, 1)]
        one, other = (np.log(shown @ (own / own.sum())) for own in given)
        largest = max(largest, float(np.abs(one - other).max()))
    return largest


def people(seed, count=3, day=8, days=30):
    """Nights and days by different chains, so that parts of the day are not stationary."""
    rng = np.random.default_rng(seed)
    parts = rng.uniform(0.05, 0.6, (count, 4, 2))
    series = []
    for rates in parts:
        codes = np.zeros(day * days, dtype=int)
        for t in range(1, len(codes)):
            away = rates[(t - 1) % day * 4 // day, codes[t - 1]]
            codes[t] = codes[t - 1] ^ int(rng.random() < away)
        series.append(pk.Series(codes, (0, 1), (len(codes),)))
    return People(tuple(series), day, (0,) * count)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("inflate", [0.0, 0.01])
def test_every_chain_that_is_listed_is_hidden(seed, inflate):
    hull = pk.fit(people(seed), "hull", inflate=inflate)
    noise = pk.influence_curve(hull, pk.count(1, LENGTH), 1.0)
    losses = [
        loss_by_definition(chain.stationary, [chain.transition] * (LENGTH - 1), noise.scale)
        for chain in (pk.MarkovChain.steady(own.transition) for own in hull.chains)
    ]
    assert max(losses) <= 1 + 1e-9
    assert max(losses) > 0.5


def test_a_turn_between_two_chains_is_promised_only_where_it_is_a_mixture_backwards():
    """Which is why the promise is about mixtures both ways, and not about every schedule."""
    one, other = (
        pk.MarkovChain.steady([[1 - a, a], [b, 1 - b]]) for a, b in ((0.05, 0.53), (0.18, 0.41))
    )
    hull = pk.ChainClass.hull(one, other)
    noise = pk.influence_curve(hull, pk.count(1, 6), 1.0)
    turns = [
        loss_by_definition(start.stationary, [own.transition for own in order], noise.scale)
        for order in product((one, other), repeat=5)
        for start in (one, other)
    ]
    assert 1.05 < max(turns) < 1.2
    assert "NOT for every schedule" in hull.promise


def test_a_hull_with_somebody_beyond_people_who_differ():
    """One more chain, slower than everybody's, and its time reversal; more noise, never less."""
    stays = (0.6, 0.75, 0.85, 0.9)
    chains = [pk.MarkovChain.steady([[p, 1 - p], [1 - p, p]]) for p in stays]
    people = [
        pk.Series.of(chain.sample(2000, seed=n).tolist(), [0, 1]) for n, chain in enumerate(chains)
    ]
    plain, wide = (pk.fit(people, "hull", beyond=beyond) for beyond in (False, True))
    assert len(wide.representatives()) == len(plain.representatives()) + 1
    query = pk.count(1, 300)
    noise = [pk.influence_curve(theta, query, 1).scale for theta in (plain, wide)]
    assert noise[0] < noise[1] < 4 * noise[0]
    alike = pk.fit(people[:1] * 3, "hull", beyond=True)
    assert len(alike.representatives()) == len(pk.fit(people[:1] * 3, "hull").representatives())
