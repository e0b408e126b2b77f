"""The demo and the tutorials use classes that pass the test on their data."""

import numpy as np
import pytest

import pufferkit as pk
from examples import make_week

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def weeks():
    """As many other weeks as the tutorial has, and four more that nothing was counted from."""
    random, chain = np.random.default_rng(make_week.SEED), make_week.true_chain()
    chain.sample(make_week.WEEK, random)
    drawn = [chain.sample(make_week.WEEK, random) for _ in range(make_week.OTHERS + 4)]
    return drawn[: make_week.OTHERS], drawn[make_week.OTHERS :]


def series(paths):
    codes = np.concatenate([np.asarray(path) for path in paths])
    return pk.Series(codes, make_week.ACTIVITIES, tuple(len(path) for path in paths))


def test_the_chain_of_the_demo(weeks):
    model = pk.ChainClass.from_json((make_week.HERE / "activity_model.json").read_text())
    report = pk.check_model([series([path]) for path in weeks[1]], model, day=288)
    assert report.passed, str(report)


def test_the_region_of_a_week_on_the_wrist(weeks):
    public = series(weeks[0])
    report = pk.check_model(public, pk.ChainClass.around(public, 0.95))
    assert report.passed, str(report)


def test_the_households_of_the_smart_meter():
    near = np.exp(-np.abs(np.subtract.outer(range(8), range(8))) / 1.5)

    def household(pull):
        moves = near * pull + 4 * np.eye(8)
        step = moves / moves.sum(axis=1, keepdims=True)
        return pk.MarkovChain.steady(np.linalg.matrix_power(step, 10), range(8))

    quiet, busy = household(np.exp(-np.arange(8) / 3)), household(np.ones(8))
    readings = pk.Series(np.asarray(quiet.sample(30 * 144, seed=5)), quiet.states, (30 * 144,))
    report = pk.check_model(readings, pk.ChainClass.of(quiet, busy), day=144)
    assert report.passed, str(report)
