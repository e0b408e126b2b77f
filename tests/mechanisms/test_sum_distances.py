"""The Wasserstein Mechanism where events are the secrets, against lists of all series."""

from fractions import Fraction

import numpy as np
import pytest

from pufferkit import (
    BayesianNetwork,
    ChainClass,
    FiniteJoint,
    MarkovChain,
    NotApplicable,
    NoTheorem,
    Secrets,
    Spending,
    count,
    markov_quilt,
    plan,
    total,
    verify,
    wasserstein,
)
from tests.oracles.events import (
    farthest_sums,
    labels_of_windows,
    listed,
    sum_loss,
    values_of_windows,
)

LENGTH = 6


def exact_list(chain, length=LENGTH):
    """All series with their probabilities as fractions."""
    exact = np.vectorize(lambda p: Fraction(str(p)), otypes=[object])
    rows = exact(chain.transition)
    start = exact(chain.initial)
    rows, start = rows / rows.sum(axis=1, keepdims=True), start / start.sum()
    return listed(start, [rows] * (length - 1))


def random_chain(rng, size):
    rows = rng.integers(1, 10, size=(size, size)) * (rng.random((size, size)) > 0.15)
    rows += np.roll(np.eye(size, dtype=int), 1, axis=1)  # irreducible
    return MarkovChain.steady(rows / rows.sum(axis=1, keepdims=True))


@pytest.mark.parametrize("seed", range(8))
def test_windows_are_as_far_apart_as_the_list_says(seed):
    rng = np.random.default_rng(seed)
    size, window = int(rng.integers(2, 4)), int(rng.integers(1, 4))
    chain, weights = random_chain(rng, size), rng.permutation(size)
    series, chance = exact_list(chain)
    query = total(dict(zip(range(size), map(int, weights), strict=True)), LENGTH)
    table = rng.integers(3, size=(size,) * window)
    table.flat[:2] = 0, 1
    for secrets, labels in (
        (Secrets.runs(window), values_of_windows(series, window)),
        (
            Secrets.at_least(1, window),
            labels_of_windows(series, window, lambda v: int(1 in v)),
        ),
        (
            Secrets.patterns(window, lambda v: table[v]),
            labels_of_windows(series, window, lambda v: int(table[v])),
        ),
    ):
        theta = ChainClass.of(chain).with_secrets(secrets, entries=False)
        noise = wasserstein(theta, query, 1)
        wanted = max(farthest_sums(series, chance, own, weights) for own in labels)
        tie = any("tie" in note for note in noise.evidence.notes)
        assert noise.evidence.influence == wanted or (tie and noise.evidence.influence > wanted)
        release = noise.release(rng.integers(size, size=LENGTH).tolist()).to_dict()
        assert verify(release).ok, verify(release)
        if wanted > 1 and not tie:
            smaller = {**release, "scale": noise.scale * (wanted - 1) / wanted}
            assert not verify(smaller).ok


def test_the_promise_is_kept_by_the_definition():
    chain = MarkovChain.steady([[0.7, 0.3], [0.2, 0.8]])
    series, chance = listed(chain.initial, [chain.transition] * (LENGTH - 1))
    theta = ChainClass.of(chain).with_secrets(Secrets.throughout(1, 3), entries=False)
    noise = wasserstein(theta, count(1, LENGTH), 0.7)
    for labels in labels_of_windows(series, 3, lambda v: int(v == (1, 1, 1))):
        assert sum_loss(series, chance, labels, range(2), noise.scale) <= 0.7 * (1 + 1e-9)
    assert plan(theta, count(1, LENGTH), 0.7)["wasserstein"].scale == noise.scale
    runs = Secrets.runs(2)
    named = ChainClass.of(chain).with_secrets(runs)
    for mechanism in (wasserstein, markov_quilt):
        short = mechanism(chain, count(1, LENGTH), 1, secrets=runs)
        assert short.scale == mechanism(named, count(1, LENGTH), 1).scale
        assert short.guarantee == "events" or "name" in str(short.guarantee)


@pytest.mark.parametrize("start", ["stationary", "fixed"])
def test_named_events_about_a_chain(start):
    chain = MarkovChain.steady([[0.7, 0.3], [0.2, 0.8]])
    if start == "fixed":
        chain = MarkovChain([0.9, 0.1], chain.transition)
    series, chance = exact_list(chain)
    pairs = [({2: 0, 3: 0}, {2: 1}), ({6: 1}, {1: 0, 6: [0, 1]})]
    rows = [
        ((series[:, 1] == 0) & (series[:, 2] == 0), series[:, 1] == 1),
        (series[:, 5] == 1, series[:, 0] == 0),
    ]
    wanted = 0
    for one, other in rows:
        both = np.concatenate([np.flatnonzero(one), np.flatnonzero(other)])
        labels = np.repeat([0, 1], [one.sum(), other.sum()])
        wanted = max(wanted, farthest_sums(series[both], chance[both], labels, [0, 1]))
    noise = wasserstein(chain, count(1, LENGTH), 1, secrets=pairs)
    assert noise.evidence.influence == wanted
    release = noise.release([0, 1] * 3).to_dict()
    assert release["guarantee"] == "secrets"
    assert verify(release).ok
    assert not verify({**release, "scale": 0.9 * noise.scale}).ok
    with pytest.raises(NoTheorem):
        Spending.of(noise)


def test_events_in_two_segments_add_up():
    chain = MarkovChain.steady([[0.7, 0.3], [0.2, 0.8]])
    query = count(1, [4, 4])
    one = wasserstein(chain, query, 1, secrets=[({1: 0}, {1: 1})]).evidence.influence
    both = wasserstein(chain, query, 1, secrets=[({1: 0, 5: 0}, {1: 1, 5: 1})])
    assert both.evidence.influence == 2 * one
    assert verify(both.release([[0, 1, 1, 0], [1, 0, 0, 1]])).ok


def test_named_events_about_networks_and_joints_agree():
    network = BayesianNetwork(
        {"a": (), "b": ("a",), "c": ("a", "b")},
        {
            "a": {(): [0.6, 0.4]},
            "b": {(0,): [0.8, 0.2], (1,): [0.3, 0.7]},
            "c": {(0, 0): [0.9, 0.1], (0, 1): [0.5, 0.5], (1, 0): [0.4, 0.6], (1, 1): [0.1, 0.9]},
        },
    )
    pairs = [({"a": 0, "b": 0}, {"a": 1}), ({"c": [0, 1], "b": 1}, {"c": 0})]
    noise = wasserstein(network, count(1, 3), 1, secrets=pairs)
    tables, table = network.tables, {}
    for row in np.ndindex(2, 2, 2):
        a, b, c = row
        mass = [tables["a"][()][a], tables["b"][(a,)][b], tables["c"][(a, b)][c]]
        table[row] = float(np.prod(mass))
    joint = FiniteJoint(table, names=("a", "b", "c"))
    assert wasserstein(joint, count(1, 3), 1, secrets=pairs).scale == noise.scale
    release = noise.release([0, 1, 1]).to_dict()
    assert verify(release).ok
    assert not verify({**release, "scale": 0.9 * noise.scale}).ok


@pytest.mark.parametrize(
    ("secrets", "words"),
    [
        ([], "at least one pair"),
        ([({1: 0}, lambda row: True)], "mappings from entries"),
        ([({0: 0}, {1: 1})], "not an entry; the entries are 1 to 6"),
        ([({1: 7}, {1: 1})], "its values are"),
        ([({}, {1: 1})], "at least one entry"),
    ],
)
def test_bad_events_are_refused(secrets, words):
    chain = MarkovChain.steady([[0.7, 0.3], [0.2, 0.8]])
    with pytest.raises(ValueError, match=words):
        wasserstein(chain, count(1, LENGTH), 1, secrets=secrets)


def test_values_with_no_common_step_are_refused():
    theta = ChainClass.of(MarkovChain.steady([[0.8, 0.1, 0.1], [0.2, 0.5, 0.3], [0.3, 0.3, 0.4]]))
    windows = theta.with_secrets(Secrets.at_least(1, 2), entries=False)
    for values in ([1e-30, 1, 2], [1e-300, 1, 1e300]):
        for beliefs, pairs in ((theta, [({1: 0}, {1: 1})]), (windows, None)):
            with pytest.raises(NotApplicable, match="rounder values"):
                wasserstein(beliefs, total(values, 4), 1, secrets=pairs)


def test_what_is_too_much_is_refused():
    chain = MarkovChain.steady([[0.7, 0.3], [0.2, 0.8]])
    theta = ChainClass.of(chain)
    with pytest.raises(NotApplicable, match="values, more than"):
        wasserstein(theta.with_secrets(Secrets.runs(12)), count(1, 100), 1)
    long = theta.with_secrets(Secrets.at_least(1, 3), entries=False)
    with pytest.raises(NotApplicable, match="take about"):
        wasserstein(long, count(1, 10**5), 1)
    with pytest.raises(NotApplicable, match="not consecutive"):
        wasserstein(theta.with_secrets(Secrets.sets(2)), count(1, 100), 1)
    own = theta.with_secrets(Secrets.runs(2))
    with pytest.raises(ValueError, match="already have secrets"):
        wasserstein(own, count(1, 100), 1, secrets=[({1: 0}, {1: 1})])
