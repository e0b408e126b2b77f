"""Charging what something else spends: an event-level epsilon over a window, held by loss."""

from itertools import product

import numpy as np
import pytest

import pufferkit as pk
from pufferkit import MarkovChain, NoTheorem, OverBudget
from pufferkit.local import cheapest_noise, sanitize
from tests.asking import Asking
from tests.oracles.brute_local import brute_loss, path_distributions

CHAIN = MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
DATA = [0, 0, 1, 0, 1, 1]


def lost(chain, length, charges):
    """What randomised response of these event-level epsilons over windows loses, by definition."""
    used = [(b, t) for b, (first, last) in charges for t in range(first - 1, last)]
    outputs = np.array(list(product(range(len(chain)), repeat=len(used))))
    given = [[np.zeros(len(outputs)) for _ in range(len(chain))] for _ in range(length)]
    chance = np.zeros((length, len(chain)))
    for path, p in path_distributions(chain, length):
        shown = np.array([path[t] for _, t in used])
        logs = ((outputs == shown) * np.array([b for b, _ in used])).sum(axis=1)
        for t, x in enumerate(path):
            given[t][x] += p * np.exp(logs)
            chance[t, x] += p
    rows = [[np.log(given[t][x] / chance[t, x]) for x in range(len(chain)) if chance[t, x]]
            for t in range(length)]  # fmt: skip
    return max(float(np.ptp(row, axis=0).max()) for row in rows)


@pytest.mark.parametrize("seed", range(12))
def test_the_total_bounds_the_loss_to_all_that_was_charged(tmp_path, seed):
    rng = np.random.default_rng(seed)
    moves = rng.dirichlet([0.7, 0.7], size=2) * 0.98 + 0.01
    chain = MarkovChain(rng.dirichlet([1, 1]), moves) if seed % 2 else MarkovChain.steady(moves)
    session = Asking(DATA, chain, 1e3, str(tmp_path / "l.db"))
    charges = []
    for n in range(3):
        first = int(rng.integers(1, 6))
        window = (first, min(6, first + int(rng.integers(1, 4))))
        b = float(rng.choice([1e-3, 0.3, 1.0, 3.0]))
        charges.append((b, window))
        before, grown = session.remaining, session.charge(b, window, label=f"{n}" if n else "")
        assert before - session.remaining == pytest.approx(grown, abs=1e-6)
        loss = lost(chain, 6, charges)
        assert session.spent >= loss * (1 - 1e-9)
        assert 1e3 - session.remaining >= loss * (1 - 1e-9)
    assert session.ledger.verify() == []
    assert len(session.history) == 3


def test_a_charge_adds_to_releases_and_is_made_once_for_a_label(tmp_path):
    session = Asking(DATA * 50, CHAIN, 3.0, str(tmp_path / "l.db"))
    session.release(pk.count(1, 300), 0.5, anyway=True)
    assert session.charge(0.1) > 0
    left = session.remaining
    assert session.charge(0.05, (1, 100), label="library") > 0
    assert session.charge(0.05, (1, 100), label="library") == 0
    assert session.charge(0.05, (1, 100), label="another") > 0
    assert session.charge(0.05, (1, 100)) > 0
    assert session.charge(0.05, (1, 100)) > 0  # without a label each call is another spend
    assert session.remaining < left
    assert [row["query"] for row in session.history][2] == "library"
    assert session.profile[0]["event_epsilon"] > 0.2
    assert session.ledger.verify() == []
    # An account that continues from its stored state holds the same.
    again = Asking(DATA * 50, CHAIN, 3.0, str(tmp_path / "l.db"))
    assert again.remaining == session.remaining
    assert again.spent <= 3.0 - again.remaining + 1e-9


def test_a_charge_that_does_not_fit_spends_nothing(tmp_path):
    session = Asking(DATA, CHAIN, 1.0, str(tmp_path / "l.db"))
    for wrong in (0, -1, float("nan"), float("inf"), "a"):
        with pytest.raises(ValueError, match="epsilon"):
            session.charge(wrong)
    with pytest.raises(ValueError, match="window"):
        session.charge(0.1, (1, 7))
    with pytest.raises(OverBudget):
        session.charge(0.9)
    assert session.remaining == 1.0
    assert not session.history


def local(session, mechanism):
    return sanitize(session.data, mechanism, account=session.account, beliefs=session.beliefs)


@pytest.mark.parametrize("design", ["independent", "optimised"])
def test_local_answers_are_charged_before_they_are_drawn(tmp_path, design):
    chain = MarkovChain.steady([[0.8, 0.1, 0.1], [0.2, 0.6, 0.2], [0.1, 0.3, 0.6]])
    mechanism = cheapest_noise(chain, 3.0, length=5, design=design)
    session = Asking([0, 1, 2, 0, 0], chain, 20.0, str(tmp_path / "l.db"))
    answered = local(session, mechanism)
    assert isinstance(answered, pk.Series)
    assert len(answered) == 5
    loss, _ = brute_loss(chain, mechanism.matrix, 5, "ignorant")
    assert 20.0 - session.remaining >= loss * (1 - 1e-9)
    once = session.remaining
    local(session, mechanism)
    assert session.remaining < once  # new noise, a new charge
    while True:
        before, held = session.remaining, len(session.history)
        try:
            local(session, mechanism)
        except OverBudget:
            break
    assert (session.remaining, len(session.history)) == (before, held)
    assert session.ledger.verify() == []


def test_local_answers_without_an_event_level_epsilon_are_refused(tmp_path):
    session = Asking(DATA, CHAIN, 6.0, str(tmp_path / "l.db"))
    with pytest.raises(NoTheorem, match="independent"):
        local(session, cheapest_noise(CHAIN, 2.0, "ignorant", 6, design="correlated"))
    assert not session.history
    short = cheapest_noise(CHAIN, 2.0, length=3)
    with pytest.raises(ValueError, match="3"):
        local(session, short)
    assert not session.history
