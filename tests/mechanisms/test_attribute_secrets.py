"""Attributes of a whole window as secrets: "active more than 30% of the week", against not."""

from dataclasses import replace
from itertools import combinations, pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pufferkit as pk
from pufferkit.audit import audit, exact_loss

WEEK = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]], ["rest", "active"])
THREE = pk.MarkovChain.steady(
    [[0.7, 0.3, 0.0], [0.2, 0.5, 0.3], [0.0, 0.4, 0.6]], ["sit", "walk", "run"]
)


def hiding(chain, secrets):
    return pk.ChainClass.of(chain).with_secrets(secrets, entries=False)


def given_labels(chain, length, window, label, value):
    """For every window, P(sum = s | label) by listing all paths."""
    windows = []
    for first in range(length - window + 1):
        masses = {}
        for path in product(range(len(chain)), repeat=length):
            p = chain.initial[path[0]]
            for x, y in pairwise(path):
                p *= chain.transition[x, y]
            if p > 0:
                own = masses.setdefault(label(path[first : first + window]), {})
                total = sum(value[x] for x in path)
                own[total] = own.get(total, 0.0) + p
        windows.append([{s: p / sum(m.values()) for s, p in m.items()} for m in masses.values()])
    return windows


def loss(windows, scale, step):
    """The largest log-ratio over a fine grid of outputs, beyond both ends too."""
    worst = 0.0
    sums = [s for labels in windows for own in labels for s in own]
    outputs = np.arange(min(sums) - 3, max(sums) + 3 + step, step)
    for labels in windows:
        logs = [
            np.log(sum(p * np.exp(-np.abs(outputs - s) / scale) for s, p in own.items()))
            for own in labels
        ]
        for one, other in combinations(logs, 2):
            worst = max(worst, float(np.abs(one - other).max()))
    return worst


CASES = {
    "the sum tells the label": (WEEK, 7, {"rest": 0, "active": 1}, ("active",), 3),
    "the sum counts the others": (WEEK, 7, {"rest": 1, "active": 0}, ("active",), 3),
    "another sum": (THREE, 6, {"sit": 0, "walk": 1, "run": 3}, ("run",), 2),
    "two states count": (THREE, 6, {"sit": 0, "walk": 1, "run": 1}, ("walk", "run"), 4),
    "all of them": (WEEK, 6, {"rest": 0, "active": 1}, ("active",), None),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
def test_exact_sum_is_the_least_noise_by_definition(name, epsilon):
    chain, length, values, counted, times = CASES[name]
    secret = (
        pk.Secrets.throughout(counted, within=length)
        if times is None
        else pk.Secrets.at_least(counted, within=length, times=times)
    )
    theta, query = hiding(chain, secret), pk.total(values, length)
    noise = pk.exact_sum(theta, query, epsilon)

    def label(window):
        often = sum(chain.states[x] in counted for x in window)
        return often >= (length if times is None else times)

    value = [values[state] for state in chain.states]
    windows = given_labels(chain, length, length, label, value)
    assert loss(windows, noise.scale, 0.25) <= epsilon
    assert loss(windows, noise.scale * 0.995, 0.25) > epsilon
    assert exact_loss(noise) <= epsilon
    release = noise.release([[chain.states[0]] * length], anyway=True)
    assert pk.verify(release).ok
    less = pk.Release.from_dict({**release.to_dict(), "scale": release.scale * 0.98})
    assert not pk.verify(less).ok


@pytest.mark.parametrize("mechanism", [pk.exact_sum, pk.wasserstein])
def test_windows_anywhere_and_entries_too(mechanism):
    theta = pk.ChainClass.of(WEEK).with_secrets(pk.Secrets.at_least("active", within=3, times=2))
    query = pk.count("active", 6)
    noise = mechanism(theta, query, 1)
    windows = given_labels(WEEK, 6, 3, lambda own: sum(own) >= 2, [0, 1])
    entries = given_labels(WEEK, 6, 1, tuple, [0, 1])
    assert max(loss(windows, noise.scale, 0.25), loss(entries, noise.scale, 0.25)) <= 1
    assert noise.scale >= mechanism(WEEK, query, 1).scale * (1 - 1e-3)
    assert pk.verify(noise.release([["rest"] * 6], anyway=True)).ok


@settings(max_examples=15, deadline=None)
@given(
    st.floats(0.05, 0.95), st.floats(0.05, 0.95), st.integers(2, 7), st.data(),
    st.sampled_from([0.2, 1.0, 5.0]),
)  # fmt: skip
def test_random_chains(stay, move, length, data, epsilon):
    chain = pk.MarkovChain.steady([[stay, 1 - stay], [move, 1 - move]])
    times = data.draw(st.integers(1, length))
    theta = hiding(chain, pk.Secrets.at_least(1, within=length, times=times))
    noise = pk.exact_sum(theta, pk.count(1, length), epsilon)
    windows = given_labels(chain, length, length, lambda own: sum(own) >= times, [0, 1])
    assert loss(windows, noise.scale, 0.5) <= epsilon * (1 + 1e-12)
    assert noise.scale <= pk.wasserstein(theta, pk.count(1, length), epsilon).scale * (1 + 1e-5)


@pytest.mark.slow
def test_a_week_of_2016_entries():
    """W-infinity pairs the rarest sums; the loss does not."""
    theta = hiding(WEEK, pk.Secrets.at_least("active", within=2016, times=605))
    query = pk.count("active", 2016)
    noise, paired = pk.exact_sum(theta, query, 1), pk.wasserstein(theta, query, 1)
    assert paired.scale == pytest.approx(1412, rel=1e-9)
    assert noise.scale == pytest.approx(209.204, rel=1e-4)
    for made in (noise, paired):
        assert pk.verify(made.release([["rest"] * 2016], anyway=True)).ok
    # The far end by hand: ratios of moment generating functions, in logarithms.
    logs = np.full((2, 2017), -np.inf)
    logs[:, 0] = np.log(WEEK.initial)
    for n in range(2016):
        logs[1, 1:], logs[1, 0] = logs[1, :-1].copy(), -np.inf
        if n < 2015:
            with np.errstate(divide="ignore"):
                logs = np.logaddexp.reduce(logs[:, None] + np.log(WEEK.transition)[..., None])
    whole = np.logaddexp(*logs)
    tilted = whole + np.arange(2017) / noise.scale
    often, seldom = (np.logaddexp.reduce(t[605:]) - np.logaddexp.reduce(t[:605]) for t in
                     (tilted, whole))  # fmt: skip
    assert often - seldom <= 1 + 1e-9


def test_shares_of_several_segments():
    theta = hiding(WEEK, pk.Secrets.at_least("active", within=5, times=3))
    one, two = (pk.exact_sum(theta, pk.count("active", n), 1).scale for n in (5, [5, 5]))
    assert one == pytest.approx(two)


@pytest.mark.slow
def test_an_attack_on_a_label():
    theta = hiding(WEEK, pk.Secrets.at_least("active", within=6, times=3))
    noise = pk.exact_sum(theta, pk.count("active", 6), 1)
    assert audit(noise, trials=500).passed
    assert not audit(replace(noise, scale=noise.scale / 2), trials=20_000).passed


def test_what_has_no_theorem_is_refused():
    secret = pk.Secrets.at_least("active", within=400, times=120)
    theta = hiding(WEEK, secret)
    with pytest.raises(pk.NotApplicable, match="exact_sum"):
        pk.influence_curve(theta, pk.count("active", 400), 1)
    with pytest.raises(pk.NotApplicable, match="nothing would be hidden"):
        pk.exact_sum(theta, pk.count("active", 300), 1)
    with pytest.raises(pk.NotApplicable, match="coordinates"):
        pk.exact_sum(theta, pk.histogram(["rest", "active"], 400), 1)
    late = pk.MarkovChain([1, 0], [[0.9, 0.1], [0.4, 0.6]], ["rest", "active"])
    with pytest.raises(pk.NotApplicable):
        hiding(late, secret)
    with pytest.raises(pk.NotApplicable):
        pk.exact_sum(hiding(WEEK, pk.Secrets.sets(2)), pk.count("active", 40), 1)
