"""What follows from releases: values, and intervals that hold as often as they say."""

from dataclasses import replace

import numpy as np
import pytest

import pufferkit as pk

STATES = ["0 kW", "1 kW", "2 kW", "3 kW"]
VALUES = [0, 1, 2, 3]
RATES = np.array([[0.8, 0.2, 0, 0], [0.2, 0.6, 0.2, 0], [0, 0.3, 0.6, 0.1], [0, 0, 0.5, 0.5]])
CHAIN = pk.MarkovChain.steady(RATES, states=STATES)
CODES = CHAIN.sample(3000, seed=2)
DATA = pk.Series(CODES, STATES, (3000,))
N = len(DATA)
LEAST = 0.8 - 4 * (0.8 * 0.2 / 400) ** 0.5
"""Of 400 intervals at level 0.8 fewer hold once in 30,000 times; the noise has no seed."""


def many(query, times=400, scale=40.0):
    """Releases with noise of a known scale."""
    calibration = replace(pk.entry_dp(query, 1), scale=scale)
    return [calibration.release(DATA) for _ in range(times)]


def share_inside(derived, truth):
    """How often all intervals hold."""
    truth = np.ravel(truth)
    inside = [(np.array(d.low) <= truth + 1e-9) & (truth - 1e-9 <= d.high) for d in derived]
    return np.mean([bool(np.all(own)) for own in inside])


@pytest.mark.slow
def test_intervals_hold_at_least_as_often_as_they_say():
    counts = DATA.counts
    histograms = many(pk.histogram(STATES, N))
    below = np.cumsum(counts) / N
    assert share_inside([pk.cumulative(r, 0.8) for r in histograms], below) >= LEAST
    for share in (0.25, 0.5, 0.9):
        truth = VALUES[int(np.searchsorted(below, share))]
        derived = [pk.quantile(r, share, VALUES, 0.8) for r in histograms]
        assert share_inside(derived, truth) >= LEAST
    above = N - np.concatenate([[0], np.cumsum(counts)[:-1]])
    assert share_inside([pk.load_duration(r, VALUES, 0.8) for r in histograms], above) >= LEAST
    assert share_inside([pk.peak(r, VALUES, 0.8) for r in histograms], 3) >= LEAST
    moves = DATA.transitions
    rates = moves / moves.sum(axis=1, keepdims=True)
    transitions = many(pk.transition_counts(STATES, N))
    assert share_inside([pk.transition_rates(r, 0.8) for r in transitions], rates) >= LEAST
    inside = np.isin(CODES, [2, 3])
    episodes = int((inside & ~np.concatenate([[False], inside[:-1]])).sum())
    stays = many(pk.stays(STATES[2:], N))
    assert share_inside([pk.mean_stay(r, 0.8) for r in stays], inside.sum() / episodes) >= LEAST


def test_the_variance_of_clipped_values():
    values = dict(zip(STATES, (0, 1, 2, 30), strict=True))
    query = pk.moments(values, N, low=0, high=3)
    clipped = np.array([0, 1, 2, 3])[CODES]
    assert query.lipschitz <= 4 / N
    exact = [float(v) for v in query.exact(DATA)]
    u = (clipped - 1.5) / 1.5
    assert exact == pytest.approx([u.mean(), (u**2).mean()])
    release = pk.influence_curve(CHAIN, query, 20).release(DATA)
    assert pk.verify(release).ok
    derived = pk.variance(release, 0, 3)
    assert derived.value[0] == pytest.approx(clipped.var(), rel=0.3)
    inside = [pk.variance(r, 0, 3, 0.8) for r in many(query, scale=0.02)]
    assert share_inside(inside, clipped.var()) >= LEAST
    assert pk.clipped_total(values, N, low=0, high=3).lipschitz == 3
    mean = pk.clipped_mean(values, N, low=0, high=3).exact(DATA)[0]
    assert float(mean) == pytest.approx(clipped.mean())
    with pytest.raises(ValueError, match="low: must be below high"):
        pk.clipped_total(values, N, low=3, high=3)


def test_top_states_say_when_the_noise_may_have_chosen():
    query = pk.histogram(STATES, N)
    clear = replace(pk.entry_dp(query, 1), scale=0.5).release(DATA)
    assert set(pk.top_states(clear, 2).labels) == {"0 kW", "1 kW"}
    assert pk.top_states(clear, 2).how == "surely the most frequent"
    noisy = replace(pk.entry_dp(query, 1), scale=5000.0).release(DATA)
    assert "others may be among them" in str(pk.top_states(noisy, 2))


def test_other_releases_are_refused():
    count = pk.entry_dp(pk.count("0 kW", N), 1).release(DATA)
    for derive in (
        pk.transition_rates,
        pk.mean_stay,
        pk.cumulative,
        lambda r: pk.variance(r, 0, 1),
        lambda r: pk.top_states(r, 1),
        lambda r: pk.quantile(r, 0.5, VALUES),
    ):
        with pytest.raises(ValueError, match=r"release: |values: "):
            derive(count)
    histogram = pk.entry_dp(pk.histogram(STATES, N), 1).release(DATA)
    with pytest.raises(ValueError, match="must increase"):
        pk.quantile(histogram, 0.5, [3, 2, 1, 0])
    with pytest.raises(ValueError, match="share: "):
        pk.quantile(histogram, 1.5, VALUES)
