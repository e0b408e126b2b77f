"""Calibrations meet data: releases, what they say, and what they never say."""

import json
import re
from math import exp, inf, nan, sinh

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats

import pufferkit as pk
from pufferkit.mechanisms.release import half_width, project_to_simplex

STATES = ["rest", "walk", "run"]
CHAIN = pk.MarkovChain.steady([[0.8, 0.15, 0.05], [0.3, 0.5, 0.2], [0.2, 0.3, 0.5]], states=STATES)
DATA = [STATES[x] for x in CHAIN.sample(300, seed=0)]
close = pytest.approx


def noise_for(query, epsilon=1.0):
    return pk.markov_quilt(CHAIN, query, epsilon)


# --- what a release carries -----------------------------------------------------------------------


def test_release_says_what_was_done():
    calibration = noise_for(pk.histogram(STATES, 300))
    release = calibration.release(DATA)
    assert release.mechanism == "markov_quilt"
    assert release.epsilon == 1
    assert release.labels == tuple(STATES)
    assert release.lengths == (300,)
    assert release.presentation == "nearest histogram"
    assert sum(release.value) == close(300)
    assert release.as_drawn().value == release.raw
    assert release.scale == calibration.scale
    assert release.evidence == calibration.evidence
    assert release.beliefs == pk.ChainClass.of(CHAIN).to_dict()
    assert release.version == pk.__version__
    assert release.guarantee == "Pufferfish for each entry"


@pytest.mark.parametrize(
    "query",
    [
        pk.count("run", 300),
        pk.histogram(STATES, 300),
        pk.relative_frequencies(STATES, 300),
        pk.mean({"rest": 1.0, "walk": 3.5, "run": 8.0}, 300),
        pk.total({"rest": 1.0, "walk": 3.5, "run": 8.0}, 300),
    ],
)
def test_json_both_ways(query):
    release = noise_for(query).release(DATA)
    assert pk.Release.from_json(release.to_json()) == release
    assert pk.Release.from_json(release.to_json(indent=None)) == release


@pytest.mark.parametrize(
    "beliefs",
    [
        pk.ChainClass.any_start(CHAIN.transition, states=STATES),
        pk.ChainClass.mixing(STATES, CHAIN.pi_min, CHAIN.eigengap),
    ],
)
def test_json_keeps_the_beliefs(beliefs):
    release = pk.markov_quilt_approx(beliefs, pk.count("run", 300), 1).release(DATA)
    back = pk.Release.from_json(release.to_json())
    assert pk.ChainClass.from_dict(back.beliefs).to_dict() == beliefs.to_dict()


@pytest.mark.parametrize(
    "text",
    ["", "nonsense", "3", "[]", "{}", '{"format": "other"}', '{"format": "pufferkit-release/1"}'],
)
def test_json_of_something_else(text):
    with pytest.raises(ValueError):  # noqa: PT011
        pk.Release.from_json(text)


def test_release_never_carries_the_exact_answer():
    """Every number in the record is either noisy or known without the data.

    Noise so large that a noisy count is hardly ever the exact one.
    """
    calibration = noise_for(pk.histogram(STATES, 300), 1e-9)
    exact = [float(v) for v in calibration.query.exact(pk.Series.of(DATA, STATES))]
    for _ in range(5):
        release = calibration.release(DATA)
        numbers = [*release.value, *release.raw]
        assert not set(numbers) & set(exact)
        text = release.to_json() + str(release) + repr(release)
        for value in exact:
            assert f" {value:g}," not in text
            # The whole number: a noisy one may well begin with the same digits.
            assert not re.search(rf" {value:g}(\.0)?(?![\d.])", text)


def test_every_release_draws_anew():
    calibration = noise_for(pk.count("run", 300), 1e-9)
    assert len({calibration.release(DATA).raw for _ in range(20)}) == 20


@pytest.fixture(scope="module")
def many():
    """A thousand releases of the same histogram, and the exact answer."""
    calibration = noise_for(pk.histogram(STATES, 300))
    exact = np.array([float(v) for v in calibration.query.exact(pk.Series.of(DATA, STATES))])
    return [calibration.release(DATA) for _ in range(1000)], exact


@pytest.mark.slow
def test_noise_of_a_release_has_the_scale_it_reports(many):
    releases, exact = many
    errors = np.concatenate([(np.array(r.raw) - exact) / r.scale for r in releases])
    assert stats.kstest(errors, stats.laplace.cdf).pvalue > 1e-10

    def plausible(scale: float) -> bool:
        below = stats.gamma(len(errors), scale=scale).cdf(np.abs(errors).sum())
        return 1e-10 < below < 1 - 1e-10

    assert [plausible(scale) for scale in (0.8, 1, 1.25)] == [False, True, False]


# --- intervals ------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.999])
def test_half_width_is_the_quantile_of_laplace(level):
    assert half_width(3.0, level) == close(stats.laplace(scale=3).ppf((1 + level) / 2))
    together = half_width(3.0, level, count=5)
    assert (stats.laplace(scale=3).cdf(together) * 2 - 1) ** 5 == close(level)


@pytest.mark.parametrize("simultaneous", [False, True])
@pytest.mark.parametrize("level", [0.5, 0.8, 0.95])
def test_intervals_cover_as_often_as_they_say(many, level, simultaneous):
    releases, exact = many
    covered = 0
    for release in releases:
        intervals = release.interval(level, simultaneous=simultaneous)
        inside = [low <= v <= high for (low, high), v in zip(intervals, exact, strict=True)]
        covered += all(inside) if simultaneous else inside[0]
    assert stats.binomtest(covered, len(releases), level).pvalue > 1e-10
    assert stats.binomtest(covered, len(releases), level - 0.2).pvalue < 1e-10


@pytest.mark.parametrize("level", [0, 1, -0.5, 1.5, nan, inf, "x", None])
def test_bad_level(level):
    release = noise_for(pk.count("run", 300)).release(DATA)
    with pytest.raises(ValueError, match="level"):
        release.interval(level)
    with pytest.raises(ValueError, match="level"):
        noise_for(pk.count("run", 300)).half_width(level)


def test_expected_error_and_entry_epsilon():
    calibration = noise_for(pk.histogram(STATES, 300))
    assert calibration.expected_l1_error == close(3 / sinh(1 / calibration.scale))
    assert calibration.entry_epsilon == close(2 / calibration.scale)
    b = 1 / calibration.scale
    # The least m with 2 e^{-(m + 1) b} / (1 + e^{-b}) at most 0.05.
    m = next(m for m in range(999) if 2 * exp(-(m + 1) * b) <= 0.05 * (1 + exp(-b)))
    assert calibration.half_width(0.95) == m


# --- histograms -----------------------------------------------------------------------------------

coordinates = st.lists(st.floats(-50, 50), min_size=1, max_size=6)


@given(coordinates, st.floats(0.1, 100))
def test_projection_is_the_nearest_histogram(values, total):
    values = np.array(values)
    nearest = project_to_simplex(values, total)
    assert (nearest >= 0).all()
    assert nearest.sum() == close(total)
    # Optimality: for a convex set, no point of it lies beyond a right angle from here.
    corners = total * np.eye(len(values))
    assert ((corners - nearest) @ (values - nearest)).max() <= 1e-9 * (
        1 + np.abs(values).max() ** 2
    )


@given(coordinates)
def test_projection_agrees_with_a_general_solver(values):
    values = np.array(values) / 10
    optimum = optimize.minimize(
        lambda x: ((x - values) ** 2).sum(),
        np.full(len(values), 1 / len(values)),
        jac=lambda x: 2 * (x - values),
        bounds=[(0, None)] * len(values),
        constraints={"type": "eq", "fun": lambda x: x.sum() - 1},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert project_to_simplex(values, 1.0) == close(optimum.x, abs=1e-4)


def test_as_histogram_keeps_the_raw_answer():
    release = pk.markov_quilt(CHAIN, pk.relative_frequencies(STATES, 300), 0.05).release(DATA)
    tidy = release.as_histogram()
    assert tidy == release
    assert release.as_drawn().value == release.raw == release.as_drawn().as_histogram().raw
    assert sum(tidy.value) == close(1)
    assert min(tidy.value) >= 0
    assert tidy.as_histogram().value == tidy.value
    assert pk.Release.from_json(tidy.to_json()) == tidy
    assert sum(noise_for(pk.histogram(STATES, 300)).release(DATA).as_histogram().value) == close(
        300
    )


def test_only_histograms_become_histograms():
    with pytest.raises(ValueError, match="not a histogram"):
        noise_for(pk.count("run", 300)).release(DATA).as_histogram()


# --- data that does not fit -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (DATA[:-1], "299 entries.*calibrated for 300"),
        ([DATA[:100], DATA[100:]], "100, 200"),
        ([*DATA, "run"], "301"),
        ([], "empty"),
        ([*DATA[:-1], "swim"], "'swim' not among"),
        ([*DATA[:-1], None], "not observed"),
        ([*DATA[:-1], nan], "not observed"),
        (None, "series"),
        ("rest", "series"),
        (pk.Series.of([*DATA[:-1], "swim"]), "'swim'"),
        (pk.Series.of([0] * 300, [0, 1, 2]), "not among"),
    ],
)
def test_bad_data(data, message):
    with pytest.raises(ValueError, match=message):
        noise_for(pk.histogram(STATES, 300)).release(data)


@pytest.mark.parametrize("mechanism", [pk.group_dp, pk.entry_dp])
def test_mechanisms_without_beliefs_refuse_unknown_states_too(mechanism):
    with pytest.raises(ValueError, match="'swim' not among"):
        mechanism(pk.histogram(STATES, 300), 1).release([*DATA[:-1], "swim"])


def test_a_series_may_list_its_states_in_another_order():
    calibration = noise_for(pk.histogram(STATES, 300), epsilon=1000)
    exact = [DATA.count(state) for state in STATES]
    for series in (pk.Series.of(DATA, ["run", "rest", "walk"]), pk.Series.of(DATA), DATA):
        assert calibration.release(series).value == close(exact, abs=2)


def test_segments_in_any_order_fit():
    calibration = noise_for(pk.count("run", [100, 200]))
    assert calibration.release([DATA[:100], DATA[100:]]).lengths == (100, 200)
    assert calibration.release([DATA[:200], DATA[200:]]).query == "count"


def test_calibrations_are_checked_too():
    query = pk.count("run", 10)
    for scale in (0, -1, nan, inf):
        with pytest.raises(ValueError, match="scale"):
            pk.Calibration("mine", 1.0, scale, query)
    for epsilon in (0, -1, nan, inf):
        with pytest.raises(ValueError, match="epsilon"):
            pk.Calibration("mine", epsilon, 1.0, query)
    with pytest.raises(AttributeError):
        noise_for(pk.count("run", 300)).scale = 0.1


def test_records_print_and_round_trip_as_plain_json():
    release = noise_for(pk.histogram(STATES, 300)).release(DATA)
    assert "markov_quilt" in str(release)
    assert "95%" in str(release)
    assert json.loads(release.to_json())["format"] == 1


@pytest.mark.parametrize("name", ["scale", "epsilon", "lipschitz", "value", "raw", "query"])
def test_a_record_with_another_type_is_refused_when_it_is_read(name):
    chain = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    record = pk.influence_curve(chain, pk.count(1, 9), 1).release([0, 1, 1] * 3).to_dict()
    for wrong in ("1", None, True, ["1"]):
        with pytest.raises(ValueError, match=name):
            pk.Release.from_dict({**record, name: 1 if name == "query" else wrong})
