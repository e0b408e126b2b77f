"""Accounts under secrets about several entries: windows do not stand for what lies beyond them."""

from itertools import product

import numpy as np
import pytest

from pufferkit import (
    ChainClass,
    Ledger,
    MarkovChain,
    Secrets,
    Series,
    Spending,
    compose,
    count,
    group_dp,
    influence_curve,
    plan,
    verify,
)
from pufferkit.audit import exact_loss
from tests.asking import Asking
from tests.oracles.events import labels_of_windows, listed, values_of_windows

CHAIN = MarkovChain.steady([[0.8, 0.2], [0.3, 0.7]])
LENGTH = 6


def joint_loss(series, chance, labels, halves, scales):
    """The largest loss of two noisy counts of disjoint windows, at every output that matters."""
    sums = [series[:, a:b].sum(axis=1) for a, b in halves]
    names = [n for n in np.unique(labels) if chance[labels == n].sum() > 0]
    worst = 0.0
    for outputs in product(*(np.unique(own) for own in sums)):
        weight = chance.copy()
        for own, output, scale in zip(sums, outputs, scales, strict=True):
            weight = weight * np.exp(-np.abs(own - output) / scale)
        logs = [
            np.log(weight[labels == n].sum()) - np.log(chance[labels == n].sum()) for n in names
        ]
        worst = max(worst, max(logs) - min(logs))
    return worst


@pytest.mark.parametrize(
    ("secrets", "label"),
    [
        (Secrets.runs(2), None),
        (Secrets.at_least(1, 3), lambda v: int(1 in v)),
        (Secrets.throughout(0, 3), lambda v: int(v == (0, 0, 0))),
    ],
)
def test_an_event_over_the_ends_of_two_windows_is_paid_for(secrets, label):
    theta = ChainClass.of(CHAIN).with_secrets(secrets, entries=False)
    noise = influence_curve(theta, count(1, 3), 1)
    history = [Spending.of(noise, (1, 3)), Spending.of(noise, (4, 6))]
    charged = compose(history, theta, LENGTH)
    series, chance = listed(CHAIN.initial, [CHAIN.transition] * (LENGTH - 1))
    windows = (
        values_of_windows(series, secrets.window)
        if label is None
        else labels_of_windows(series, secrets.window, label)
    )
    halves, scales = [(0, 3), (3, 6)], [noise.scale] * 2
    reached = max(joint_loss(series, chance, own, halves, scales) for own in windows)
    assert reached <= charged.epsilon * (1 + 1e-9)
    # What each window promises for itself does not hold for both.
    assert charged.epsilon > 1
    if label is None:
        assert reached > 1


@pytest.mark.parametrize("window", [2, 4])
def test_windows_hidden_as_groups_add_up_for_what_lies_in_both(window):
    theta = ChainClass.of(CHAIN).with_secrets(Secrets.runs(window))
    noise = group_dp(count(1, 3), 1)
    charged = compose([Spending.of(noise, (1, 3)), Spending.of(noise, (4, 6))], theta, LENGTH)
    series, chance = listed(CHAIN.initial, [CHAIN.transition] * (LENGTH - 1))
    reached = max(
        joint_loss(series, chance, own, [(0, 3), (3, 6)], [noise.scale] * 2)
        for own in values_of_windows(series, window)
    )
    assert 1.1 < reached <= charged.epsilon * (1 + 1e-9)


def test_a_session_plans_pays_and_can_be_checked(tmp_path):
    theta = ChainClass.of(CHAIN).with_secrets(Secrets.runs(3), Secrets.at_least(1, 12))
    assert plan(CHAIN, count(1, 200), 1, secrets=[*theta.secrets]).best.scale == pytest.approx(
        plan(theta, count(1, 200), 1).best.scale
    )
    data = Series.of([0, 1] * 100, CHAIN.states)
    with Ledger(tmp_path / "book.db") as book:
        session = Asking(data, theta, budget=2, ledger=book)
        release = session.release(count(1, 200), 1)
        assert "secrets that the beliefs name" in str(release)
        assert verify(release).ok
        assert session.spent <= 1 + 1e-5
    restored = ChainClass.from_json(theta.to_json())
    assert restored.description == theta.description
    assert restored.to_dict() == theta.to_dict()


@pytest.mark.parametrize("secrets", [Secrets.at_least(1, 12), Secrets.sets(4)], ids=str)
def test_too_little_noise_is_found_out(secrets):
    theta = ChainClass.of(CHAIN).with_secrets(secrets)
    noise = influence_curve(theta, count(1, 200), 1)
    release = noise.release([0, 1] * 100)
    plain = release.to_dict()
    assert verify(plain).ok
    assert not verify({**plain, "scale": 0.98 * noise.scale}).ok
    assert not verify({**plain, "guarantee": "pufferfish"}).ok
    assert ChainClass.from_json(theta.to_json()).to_dict() == theta.to_dict()


def test_the_exact_loss_is_that_of_the_events():
    for secrets in (
        Secrets.runs(2),
        Secrets.sets(2),
        Secrets.throughout(0, 3),
        Secrets.at_least(1, 6),
    ):
        theta = ChainClass.of(CHAIN).with_secrets(secrets, entries=False)
        assert 0.3 < exact_loss(influence_curve(theta, count(1, 6), 1)) <= 1


def test_a_bound_on_dependence_given_entries_says_nothing_of_events():
    theta = ChainClass.of(CHAIN).with_secrets(Secrets.runs(2))
    once = Spending.of(influence_curve(theta, count(1, 20), 1))
    result = compose([once, once], theta, 20, dependence=0.0)
    assert result.rule == "entry_profile"
    assert any("these secrets differ" in row.why for row in result.considered)


def test_an_entry_that_is_still_to_come_is_paid_for(tmp_path):
    far, near = 0.0025, 0.9925  # c is followed by a, d by b
    rows = [[far, far, 0.4975, 0.4975]] * 2 + [[near, far, far, far], [far, near, far, far]]
    chain = MarkovChain.steady(rows, states=list("abcd"))
    theta = ChainClass.of(chain).with_secrets(Secrets.pairs([("a", "b")]))
    session = Asking(["c"], theta, 9, tmp_path / "l.db")
    scale = session.release(count("c"), 2).scale
    # Of the first entry the answer tells c from d. The next entry is a or b accordingly.
    likely = chain.initial[:, None] * chain.transition * np.exp([[0], [0], [1 / scale], [0]])
    loss = np.diff(np.log(likely.sum(axis=0) / (chain.initial @ chain.transition))[:2])
    assert 1 < abs(loss[0]) <= 9 - session.remaining


def test_a_window_that_is_still_to_be_completed_is_paid_for(tmp_path):
    theta = ChainClass.of(CHAIN).with_secrets(Secrets.throughout(0, 3), entries=False)
    session = Asking([0, 1], theta, 9, tmp_path / "l.db")
    scale = session.release(count(1), 2).scale
    series, chance = listed(CHAIN.initial, [CHAIN.transition] * 2)
    labels = next(labels_of_windows(series, 3, lambda v: int(v == (0, 0, 0))))
    loss = joint_loss(series, chance, labels, [(0, 2)], [scale])
    assert 0 < loss <= 9 - session.remaining
