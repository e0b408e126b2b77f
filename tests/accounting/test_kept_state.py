"""What a session keeps gives what composing its whole history gives, and `verify` works it out."""

import json
import sqlite3

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import pufferkit as pk
from pufferkit.accounting import composition
from pufferkit.accounting.charges import Charge
from pufferkit.accounting.composition import compose, compose_kept
from pufferkit.accounting.history import Composed, Spent, _fewer
from pufferkit.accounting.spending import Spending, distance_of, spendings_of
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
    composed = Composed.of(history)
    again = Composed.from_dict(json.loads(json.dumps(composed.to_dict())))
    assert again == composed
    assert composed.count == len(history)
    truth = costs(LENGTH, rows_of(history), 3)
    apart = [distance_of(THETA.states, kind) for kind in composed.spent.kinds]
    kept = np.zeros_like(truth)
    before = 0
    for first, last, row in composed.spent.runs:
        assert before < first <= last
        kept[first - 1 : last] = composed.spent._cost(apart, row)
        before = last
    assert (kept >= truth * (1 - 1e-12)).all()
    assert np.allclose(kept, truth, rtol=1e-5, atol=1e-6)  # close states are held apart a little
    few = _fewer(list(composed.spent.runs), 3)
    assert len(few) <= 3
    rounded = np.zeros_like(truth)
    for first, last, row in few:
        rounded[first - 1 : last] = composed.spent._cost(apart, row)
    assert (rounded >= kept * (1 - 1e-12)).all()


@settings(max_examples=6, deadline=None, derandomize=True)
@given(st.lists(spendings(), min_size=1, max_size=4))
def test_what_is_kept_charges_what_the_whole_history_does(history):
    whole = compose(history, CHAIN, LENGTH).micro
    composed = Composed.of(history)
    all_rules = compose_kept(composed, THETA, (LENGTH,), lambda: history, 0.0).micro
    assert all_rules == whole or len(composed.spent.runs) > 12
    assert all_rules >= whole
    # Many releases: by the profile and what adds up alone. The total never falls.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(composition, "FEW", 0)
        kept = compose_kept(composed, THETA, (LENGTH,), lambda: history, 0.0).micro
        enough = compose_kept(composed, THETA, (LENGTH,), lambda: history, whole / 1e6).micro
    assert kept >= whole
    assert enough >= whole


@pytest.mark.slow
def test_a_session_goes_on_from_what_it_kept(tmp_path, monkeypatch):
    """The totals of a session are those of composing everything anew, release by release."""
    monkeypatch.setattr(composition, "FEW", 2)
    session = pk.Session(DATA, CHAIN, 5.0, str(tmp_path / "l.db"))
    history, total = [], 0
    asked = [(1, 10, "a"), (11, 20, "a"), (11, 20, "b"), (21, 30, "a"), (5, 24, "c")]
    for first, last, label in asked:
        query = pk.count(1, last - first + 1) if label == "b" else pk.histogram(
            [0, 1, 2], last - first + 1
        )  # fmt: skip
        session.release(query, 0.3, window=(first, last), label=label, mechanism="influence_curve")
        history = spendings_of(session._charges(), THETA.states)
        total = max(total, compose(history, CHAIN, LENGTH).micro)
        assert session._account.total >= total
        assert session._account.total <= total * 1.0001
    assert session.ledger.verify() == []
    assert session.spent.micro <= session._account.total


def test_the_history_is_not_read_once_it_is_long(tmp_path, monkeypatch):
    monkeypatch.setattr(composition, "FEW", 2)
    session = pk.Session(DATA, CHAIN, 5.0, str(tmp_path / "l.db"))
    for n in range(3):
        session.release(pk.count(1, 5), 0.3, window=(5 * n + 1, 5 * n + 5))

    def refuse(*_):
        raise AssertionError("read all charges")

    monkeypatch.setattr(session.ledger, "charges_of", refuse)
    session.release(pk.count(1, 5), 0.3, window=(16, 20))
    monkeypatch.undo()
    assert len(session.history) == 4


def test_a_session_without_a_state_is_added_up_once(tmp_path):
    """A charge without a state leaves none; the next charge with one makes it."""
    path = tmp_path / "l.db"
    session = pk.Session(DATA, CHAIN, 5.0, str(path))
    session.release(pk.count(1, 5), 0.3, window=(1, 5))
    entry = next(e for e in session.ledger.entries() if e.kind == "charge")
    body = {k: v for k, v in entry.body.items() if k != "state"}
    old = Charge("data", "old", 300_000, entry.total, body, after=session._account.entries)
    assert session.ledger.charge_many([old])
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT * FROM pufferkit_states").fetchall() == []
    session.release(pk.count(1, 5), 0.3, window=(6, 10))
    _, state = session.ledger.standing("data")
    assert state["count"] == 3
    assert session.ledger.verify() == []


def test_a_changed_state_of_a_session_is_noticed(tmp_path):
    path = tmp_path / "l.db"
    session = pk.Session(DATA, CHAIN, 5.0, str(path))
    session.release(pk.count(1, 5), 0.3, window=(1, 5))
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE pufferkit_states SET state = replace(state, '[1,5', '[1,4')")
    with pytest.raises(pk.LedgerError, match="was changed"):
        session.release(pk.count(1, 5), 0.3, window=(6, 10))
    assert any("state" in problem for problem in session.ledger.verify())


def test_many_runs_are_kept_as_fewer_and_never_less():
    spent = Spent()
    for n in range(6000):
        spent = spent.after([(3 * n + 1, 3 * n + 1 + n % 2)], 0.1, None)
    assert len(spent.runs) <= 5000
    assert spent.runs[-1] == (17998, 17999, (0.1,))
    assert sum(last - first + 1 for first, last, _ in spent.runs) >= 9000
