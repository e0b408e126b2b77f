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
    assert share_inside([r.derive("cumulative", level=0.8) for r in histograms], below) >= LEAST
    for share in (0.25, 0.5, 0.9):
        truth = VALUES[int(np.searchsorted(below, share))]
        derived = [r.derive("quantile", share=share, values=VALUES, level=0.8) for r in histograms]
        assert share_inside(derived, truth) >= LEAST
    above = N - np.concatenate([[0], np.cumsum(counts)[:-1]])
    assert (
        share_inside(
            [r.derive("load duration", values=VALUES, level=0.8) for r in histograms], above
        )
        >= LEAST
    )
    assert (
        share_inside([r.derive("peak", values=VALUES, level=0.8) for r in histograms], 3) >= LEAST
    )
    moves = DATA.transitions
    rates = moves / moves.sum(axis=1, keepdims=True)
    transitions = many(pk.transition_counts(STATES, N))
    assert share_inside([r.derive("rates", level=0.8) for r in transitions], rates) >= LEAST
    inside = np.isin(CODES, [2, 3])
    episodes = int((inside & ~np.concatenate([[False], inside[:-1]])).sum())
    stays = many(pk.stays(STATES[2:], N))
    assert (
        share_inside([r.derive("mean stay", level=0.8) for r in stays], inside.sum() / episodes)
        >= LEAST
    )


def test_the_variance_of_clipped_values():
    values = dict(zip(STATES, (0, 1, 2, 30), strict=True))
    query = pk.variance(values, N, clip=(0, 3))
    clipped = np.array([0, 1, 2, 3])[CODES]
    assert query.lipschitz <= 4 / N
    exact = [float(v) for v in query.exact(DATA)]
    u = (clipped - 1.5) / 1.5
    assert exact == pytest.approx([u.mean(), (u**2).mean()])
    release = pk.influence_curve(CHAIN, query, 20).release(DATA)
    assert pk.verify(release).ok
    derived = release.derive()
    assert derived.value[0] == pytest.approx(clipped.var(), rel=0.3)
    inside = [r.derive(level=0.8) for r in many(query, scale=0.02)]
    assert share_inside(inside, clipped.var()) >= LEAST
    assert pk.total(values, N, clip=(0, 3)).lipschitz == 3
    mean = pk.mean(values, N, clip=(0, 3)).exact(DATA)[0]
    assert float(mean) == pytest.approx(clipped.mean())
    with pytest.raises(ValueError, match="low must be below high"):
        pk.total(values, N, clip=(3, 3))


def test_top_states_say_when_the_noise_may_have_chosen():
    query = pk.histogram(STATES, N)
    clear = replace(pk.entry_dp(query, 1), scale=0.5).release(DATA)
    assert set(clear.derive("top states", count=2).labels) == {"0 kW", "1 kW"}
    assert clear.derive("top states", count=2).how == "surely the most frequent"
    noisy = replace(pk.entry_dp(query, 1), scale=5000.0).release(DATA)
    assert "others may be among them" in str(noisy.derive("top states", count=2))


def test_ends_are_in_order_for_noise_that_no_histogram_explains():
    release = replace(pk.entry_dp(pk.histogram(STATES, N), 1), scale=40.0).release(DATA)
    for raw in ([2 * N, N, 0, 0], [-N, -N, 0, N], [0, 0, 0, 0], [N, 0, 0, N]):
        odd = replace(release, raw=tuple(map(float, raw)))
        for derived in (
            odd.derive("cumulative"),
            odd.derive("load duration", values=VALUES),
            odd.derive("quantile", share=0.5, values=VALUES),
        ):
            ends = np.array([derived.low, derived.value, derived.high])
            assert (np.diff(ends, axis=0) >= -1e-9).all()


def test_other_releases_are_refused():
    count = pk.entry_dp(pk.count("0 kW", N), 1).release(DATA)
    for derive in (
        lambda r: r.derive("rates"),
        lambda r: r.derive("mean stay"),
        lambda r: r.derive("cumulative"),
        lambda r: r.derive("variance", low=0, high=1),
        lambda r: r.derive("top states", count=1),
        lambda r: r.derive("quantile", share=0.5, values=VALUES),
    ):
        with pytest.raises(ValueError, match=r"release: |values: "):
            derive(count)
    histogram = pk.entry_dp(pk.histogram(STATES, N), 1).release(DATA)
    with pytest.raises(ValueError, match="must increase"):
        histogram.derive("quantile", share=0.5, values=[3, 2, 1, 0])
    with pytest.raises(ValueError, match="share: "):
        histogram.derive("quantile", share=1.5, values=VALUES)
