"""What an account keeps gives what its whole history gives, and `verify` works it out."""

import json
import sqlite3

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import pufferkit as pk
from pufferkit.account.ledger import Charge
from pufferkit.account.spending import (
    Spending,
    SpentProfile,
    _fewer,
    _run,
    profile_of,
)
from pufferkit.account.theorems import compose, entry_profile
from tests.asking import Asking, spent_by
from tests.oracles.summed_profile import costs

CHAIN = pk.MarkovChain.steady([[0.8, 0.15, 0.05], [0.2, 0.6, 0.2], [0.1, 0.3, 0.6]])
THETA = pk.ChainClass.of(CHAIN)
KINDS = (None, (0.0, 0.5, 1.0), (0.0, 0.0, 1.0), ((0.0, 1.0), (0.0, 0.0), (0.0, 0.5)))
DATA = [0, 1, 2, 1, 0, 0, 1, 2, 2, 1] * 3
LENGTH = len(DATA)


@st.composite
def spendings(draw):
    first = draw(st.integers(1, LENGTH))
    last = draw(st.integers(first, min(LENGTH, first + 9)))
    kind = draw(st.sampled_from(KINDS))
    gaps, size = None, last - first + 1
    if size > 2 and draw(st.booleans()):
        cut = draw(st.integers(1, size - 2))
        gaps = (cut, 1, size - cut - 1)
    b = draw(st.sampled_from((0.1, 0.03, 0.25)))
    added = None if kind is None else tuple(zip(THETA.states, kind, strict=True))
    name = draw(st.sampled_from(("influence_curve", "markov_quilt", "group_dp", "entry_dp")))
    return Spending(name, draw(st.sampled_from((0.2, 0.5))), (first, last), b,
                    contributions=added, gaps=gaps)  # fmt: skip


histories = st.lists(spendings(), min_size=1, max_size=12)


def rows_of(history):
    return [
        (*s.window, s.gaps, s.entry_epsilon, s.contributions and [v for _, v in s.contributions])
        for s in history
    ]


@settings(max_examples=80, deadline=None)
@given(histories)
def test_the_profile_is_the_sum_of_what_was_spent(history):
    profile = profile_of(history, THETA)
    again = SpentProfile.from_dict(json.loads(json.dumps(profile.to_dict())))
    assert again == profile
    truth = costs(LENGTH, rows_of(history), 3)
    kept = np.zeros_like(truth)
    before = 0
    for first, last, row in profile.runs:
        assert before < first <= last
        kept[first - 1 : last] = _run(1, THETA.states, profile.kinds, row).cost(3)
        before = last
    assert (kept >= truth * (1 - 1e-12)).all()
    assert np.allclose(kept, truth, rtol=1e-5, atol=1e-6)  # close states are held apart a little
    few = _fewer(list(profile.runs), 3)
    assert len(few) <= 3
    rounded = np.zeros_like(truth)
    for first, last, row in few:
        rounded[first - 1 : last] = _run(1, THETA.states, profile.kinds, row).cost(3)
    assert (rounded >= kept * (1 - 1e-12)).all()


@settings(max_examples=6, deadline=None, derandomize=True)
@given(st.lists(spendings(), min_size=1, max_size=4))
def test_bounds_of_a_profile_are_never_less_than_its_loss(history):
    whole, profile = entry_profile(history, CHAIN, LENGTH), profile_of(history, THETA)
    for horizon in (None, LENGTH, 10**12):
        for enough in (0.0, whole / 2, whole, 2 * whole):
            assert profile.loss(THETA, (LENGTH,), enough, horizon) >= whole * (1 - 1e-12)
    assert profile.loss(THETA, (LENGTH,), None, 10**12) <= whole * (1 + 1e-12)
    own = max(history, key=lambda s: s.entry_epsilon)
    above = not profile.nowhere_above(own)
    alone = all(s.contributions == own.contributions for s in history)
    most = costs(LENGTH, rows_of(history), 3).max()
    assert above or (alone and most <= own.entry_epsilon * (1 + 1e-9))


@pytest.mark.slow
def test_an_account_goes_on_from_what_it_kept(tmp_path):
    """The totals of an account are those of adding everything up anew, release by release."""
    session = Asking(DATA, CHAIN, 5.0, str(tmp_path / "l.db"))
    history, total = [], 0
    asked = [(1, 10, "a"), (11, 20, "a"), (11, 20, "b"), (21, 30, "a"), (5, 24, "c")]
    for first, last, label in asked:
        query = pk.count(1, last - first + 1) if label == "b" else pk.histogram(
            [0, 1, 2], last - first + 1
        )  # fmt: skip
        session.release(query, 0.3, window=(first, last), label=label, mechanism="influence_curve")
        history = spent_by(session)
        total = max(total, round(1e6 * compose(history, CHAIN, LENGTH).epsilon))
        assert session.account._balance.total >= total
        assert session.account._balance.total <= total * 1.0001
    assert session.ledger.verify() == []
    assert len(session.history) == len(asked)


def test_the_history_is_not_read_once_it_is_long(tmp_path, monkeypatch):
    session = Asking(DATA, CHAIN, 5.0, str(tmp_path / "l.db"))
    for n in range(3):
        session.release(pk.count(1, 5), 0.3, window=(5 * n + 1, 5 * n + 5))

    def refuse(*_):
        raise AssertionError("read all charges")

    monkeypatch.setattr(session.ledger, "entries", refuse)
    session.release(pk.count(1, 5), 0.3, window=(16, 20))
    monkeypatch.undo()
    assert len(session.history) == 4


def test_a_charge_that_tells_no_state_is_not_taken_for_nothing(tmp_path):
    session = Asking(DATA, CHAIN, 5.0, str(tmp_path / "l.db"))
    session.release(pk.count(1, 5), 0.3, window=(1, 5))
    entry = session.charges[0]
    body = {k: v for k, v in entry.body.items() if k != "state"}
    entries = len(session.ledger.entries("data"))
    assert session.ledger.charge_many([Charge("data", "old", 1, entry.total, body, entries)])
    with pytest.raises(pk.LedgerError, match="standing"):
        session.release(pk.count(1, 5), 0.3, window=(6, 10))


def test_a_changed_state_of_an_account_is_noticed(tmp_path):
    path = tmp_path / "l.db"
    session = Asking(DATA, CHAIN, 5.0, str(path))
    session.release(pk.count(1, 5), 0.3, window=(1, 5))
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE pufferkit_states SET state = replace(state, '[1,5', '[1,4')")
    with pytest.raises(pk.LedgerError, match="was changed"):
        session.release(pk.count(1, 5), 0.3, window=(6, 10))
    assert any("state" in problem for problem in session.ledger.verify())


def test_many_runs_are_kept_as_fewer_and_never_less():
    spent = SpentProfile()
    for n in range(6000):
        spent = spent.after([(3 * n + 1, 3 * n + 1 + n % 2)], 0.1, None)
    assert len(spent.runs) <= 5000
    assert spent.runs[-1] == (17998, 17999, (0.1,))
    assert sum(last - first + 1 for first, last, _ in spent.runs) >= 9000
