"""Accounts under beliefs with hidden states: the entries do not separate what is around them."""

import pytest

import pufferkit as pk
from pufferkit.account.spending import Spending
from pufferkit.account.theorems import compose
from pufferkit.errors import NoTheorem

REGIMES = pk.RegimeClass([[0.95, 0.05], [0.1, 0.9]], [[0.8, 0.2], [0.3, 0.7]])
ORDER = pk.ChainClass.order(2, [[[0.9, 0.1], [0.5, 0.5]], [[0.6, 0.4], [0.2, 0.8]]])
HULL = pk.ChainClass.hull(
    pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]]), pk.MarkovChain.steady([[0.8, 0.2], [0.2, 0.8]])
)
CLOCK = pk.ChainClass.seasonal([[[0.9, 0.1], [0.4, 0.6]], [[0.8, 0.2], [0.2, 0.8]]])


def spent(theta, length, window):
    return Spending.of(pk.influence_curve(theta, pk.count(1, length), 0.5), window=window)


@pytest.mark.parametrize("theta", [REGIMES, ORDER], ids=["regimes", "order"])
def test_a_window_is_charged_by_the_profile_alone(theta):
    joint = compose([spent(theta, 6, (3, 8))], theta, 12)
    assert joint.rule == "entry_profile"
    why = {row.rule: row.why for row in joint.considered}
    assert "hidden states" in why["single"]
    two = compose([spent(theta, 3, (1, 3)), spent(theta, 3, (7, 9))], theta, 12)
    assert two.rule == "entry_profile"
    assert "hidden states" in {row.rule: row.why for row in two.considered}["parallel"]
    whole = compose([spent(theta, 12, (1, 12))], theta, 12)
    assert whole.rule in ("single", "entry_profile")
    assert whole.epsilon <= 0.500001


@pytest.mark.parametrize("theta", [HULL, CLOCK], ids=["hull", "clock"])
def test_chains_that_change_compose_by_their_profile(theta):
    history = [spent(theta, 6, (1, 6)), spent(theta, 6, (7, 12)), spent(theta, 6, (1, 6))]
    first = compose(history[:1], theta, 12).epsilon
    two = compose(history[:2], theta, 12)
    assert two.rule == "entry_profile"
    assert first <= two.epsilon < compose(history, theta, 12).epsilon


def test_a_clock_with_a_first_slot_has_no_windows_elsewhere():
    fixed = pk.ChainClass.seasonal([[[0.9, 0.1], [0.4, 0.6]], [[0.5, 0.5], [0.5, 0.5]]], start=0)
    joint = compose([spent(fixed, 6, (3, 8))], fixed, 12)
    assert {row.rule: row.why for row in joint.considered}["single"] != ""


def test_releases_of_unknown_kind_have_no_theorem():
    odd = Spending("wasserstein", 0.5, (1, 5))
    with pytest.raises(NoTheorem):
        compose([odd, odd], REGIMES, 12)
