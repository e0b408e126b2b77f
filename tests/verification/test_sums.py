"""W-infinity and exact sums: a record passes where the noise is enough by definition, only there.

All data are listed; nothing of the package computes what is compared with.
"""

import json
from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest

import pufferkit as pk
from tests.oracles.hidden import all_data, hidden
from tests.oracles.listed_sums import listed

STATES = ("a", "b", "c")
SECRETS = {
    "none": None,
    "runs of 2": pk.Secrets.runs(2),
    "runs of 3": pk.Secrets.runs(3),
    "at_least": pk.Secrets.at_least("b", 3),
    "at_least twice": pk.Secrets.at_least("b", 4, 2),
}
LENGTHS = ([4], [3, 1], [5], [1, 2])
OF_EVENTS = ([4], [4, 3], [5], [1, 4])


def chance_of(chain, lengths):
    """The probability of every series, segments being independent."""
    size, whole = len(chain.states), np.ones(1)
    for length in lengths:
        table = np.zeros((size,) * length)
        paths, chances = listed(chain.initial, chain.transition, length)
        table[tuple(paths.T)] = chances
        whole = np.outer(whole, table.ravel()).ravel()
    return whole


def distributions(labels, answers, chance):
    """The masses of the answers given each label, for every secret."""
    for _, own, _ in labels:
        events = [np.array([label == one for label in own]) for one in dict.fromkeys(own)]
        yield [
            {v: chance[e & (answers == v)].sum() / chance[e].sum() for v in np.unique(answers)}
            for e in events
            if chance[e].sum() > 0
        ]


def loss(given, scale):
    """The largest log-ratio over outputs, which are the values of the answer."""
    values = np.array(list(given[0]))
    kernel = np.exp(-np.abs(values[:, None] - values[None]) / scale)
    rows = np.log([kernel @ np.array(list(own.values())) for own in given])
    return float((rows.max(axis=0) - rows.min(axis=0)).max())


def w_infinity(one, other):
    """The least w with F(t) <= G(t + w) for all t, and the other way."""
    values = np.array(list(one))
    gaps = sorted({abs(a - b) for a, b in product(values, values)})
    f, g = (np.cumsum(list(own.values())) for own in (one, other))

    def within(first, second, most):
        later = [second[values <= t + most + 1e-9][-1] for t in values]
        return np.all(first <= np.array(later) + 1e-12)

    return next(w for w in gaps if within(f, g, w) and within(g, f, w))


def chains(rng, secret):
    size = int(rng.integers(2, 4))
    rows = rng.dirichlet(np.ones(size), size)
    rows[rng.random((size, size)) < 0.2] = 0
    rows += np.eye(size) * (rows.sum(axis=1) == 0)[:, None]
    rows /= rows.sum(axis=1, keepdims=True)
    states = STATES[:size]
    if secret != "none" or rng.random() < 0.5:
        return pk.MarkovChain.steady(0.9 * rows + 0.1 / size, states)
    return pk.MarkovChain(rng.dirichlet(np.ones(size)), rows, states)


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("seed", range(8))
def test_a_record_of_a_sum_passes_exactly_where_the_noise_is_enough(secret, seed):
    rng = np.random.default_rng([seed, len(secret)])
    chain, lengths = chains(rng, secret), LENGTHS[seed % 4]
    if secret.startswith("at_least"):
        lengths = OF_EVENTS[seed % 4]
    values = rng.permutation([0, 1, 3])[: len(chain.states)].tolist()
    theta = pk.ChainClass.of(chain)
    if SECRETS[secret] is not None:
        theta = theta.with_secrets(SECRETS[secret])
    query = pk.total(dict(zip(chain.states, values, strict=True)), lengths)
    data = [["a", *["b"] * (length - 1)] for length in lengths]
    place = dict(zip(chain.states, values, strict=True))
    answers = np.array([sum(place[s] for s in row) for row in all_data(chain.states, sum(lengths))])
    labels = hidden("single" if secret == "none" else secret, lengths, chain.states)
    every = list(distributions(labels, answers, chance_of(chain, lengths)))
    for mechanism in (pk.exact_sum, pk.wasserstein):
        release = mechanism(theta, query, 1).release(data, anyway=True)
        for scale in (release.scale, 0.7, 2.0):
            if mechanism is pk.exact_sum:
                needed = max(loss(given, scale) for given in every)
            else:
                pairs = (pair for given in every for pair in combinations(given, 2))
                needed = max(w_infinity(*pair) for pair in pairs) / scale
            for epsilon, ok in ((needed * (1 + 1e-5), True), (needed * (1 - 1e-5), False)):
                own = replace(release, scale=scale, epsilon=epsilon, calibration=None)
                if ok and mechanism is pk.wasserstein and len(lengths) > 1:
                    continue  # W of a segment is no less than that of the whole sum
                assert pk.verify(own).ok == ok, (mechanism, scale, epsilon)


def test_a_run_is_cut_off_where_a_segment_is_shorter():
    """Of a chain that alternates, the sum over four entries is known, and one entry is not."""
    chain = pk.MarkovChain.steady([[0.0, 1.0], [1.0, 0.0]], STATES[:2])
    theta = pk.ChainClass.of(chain).with_secrets(pk.Secrets.runs(2))
    noise = pk.exact_sum(theta, pk.count("b", [4, 1]), 1)
    assert noise.scale == pytest.approx(1, rel=1e-3)
    assert pk.verify(noise.release([["a", "b", "a", "b"], ["a"]], anyway=True)).ok


def test_w_of_chains_with_any_start_is_not_that_of_some_start():
    steps = [[0.6, 0.4], [0.3, 0.7]]
    release = pk.wasserstein(pk.MarkovChain([0.5, 0.5], steps), pk.count(1, 10), 1)
    record = release.release([0, 1] * 5, anyway=True).to_dict()
    record |= {"beliefs": pk.ChainClass.any_start(steps).to_dict(), "calibration": None}
    assert not pk.verify(record).ok


def test_no_named_secrets_are_all_of_them():
    network = pk.BayesianNetwork(
        {"a": (), "b": ("a",)}, {"a": {(): [0.5, 0.5]}, "b": {(0,): [0.9, 0.1], (1,): [0.2, 0.8]}}
    )
    for beliefs in (network, network.joint(), pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])):
        release = pk.wasserstein(beliefs, pk.count(1, 2), 1).release([0, 1], anyway=True)
        record = json.loads(release.to_json())
        own = {**(record["verification_data"] or {}), "secrets": []}
        assert pk.verify({**record, "verification_data": own, "calibration": None}).ok
        less = {**record, "verification_data": own, "scale": record["scale"] / 2}
        assert not pk.verify({**less, "calibration": None}).ok


def test_the_sum_over_a_tree_of_a_hundred_nodes_is_checked():
    rng = np.random.default_rng(3)
    parents = {n: (int(rng.integers(0, n)),) if n else () for n in range(100)}
    rows = {(0,): [0.8, 0.1, 0.1], (1,): [0.2, 0.6, 0.2], (2,): [0.1, 0.2, 0.7]}
    network = pk.BayesianNetwork(
        parents, {n: rows if n else {(): [0.5, 0.3, 0.2]} for n in parents}
    )
    release = pk.exact_sum(network, pk.count(1, 100), 1).release([0, 1] * 50)
    assert pk.verify(release).ok
    assert not pk.verify(replace(release, scale=0.98 * release.scale)).ok


def test_the_unit_of_a_sum_over_moves_is_that_of_the_question():
    """Counted in a unit of 1/1024, noise of a thousandth would look large."""
    chain = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]], STATES[:2])
    record = pk.exact_sum(chain, pk.episodes("b", 30), 1).release(["a", "b"] * 15).to_dict()
    assert pk.verify(record).ok
    assert not pk.verify({**record, "scale": record["scale"] / 1000, "unit": "1/1024"}).ok
