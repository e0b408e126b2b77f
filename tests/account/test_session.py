"""Data, beliefs and a budget in one place."""

import os
import subprocess
import sys

import pytest

import pufferkit as pk
from pufferkit import (
    ChainClass,
    InfluenceCurve,
    Ledger,
    MarkovChain,
    NoTheorem,
    OverBudget,
    Query,
    Series,
    Spending,
    compose,
    count,
    histogram,
    influence_curve,
    noise,
    relative_frequencies,
)
from pufferkit.mechanisms.plan import calibrate
from tests.account.test_ledger import url  # noqa: F401
from tests.asking import Asking

CHAIN = MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
DATA = [0, 0, 0, 1, 1, 0] * 20


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "ledger.db")


@pytest.fixture
def session(path):
    return Asking(DATA, CHAIN, 1.0, path, name="alice")


def test_a_release_is_charged_and_recorded(session):
    release = session.release(count(1, 120), 0.4)
    assert session.remaining == pytest.approx(0.6)
    (row,) = session.history
    assert row["query"] == "count"
    assert row["mechanism"] == "influence_curve"
    assert row["epsilon"] == 0.4
    assert row["scale"] <= release.scale
    assert session.ledger.verify() == []


def test_asking_again_gives_the_same_value_for_free(session, path):
    first = session.release(histogram([0, 1], 120), 0.4)
    assert session.release(histogram([0, 1], 120), 0.4) == first
    assert (
        Asking(DATA, CHAIN, 1.0, path, name="alice").release(histogram([0, 1], 120), 0.4) == first
    )
    assert session.remaining == pytest.approx(0.6)


def test_a_label_asks_for_another_draw(session):
    labels = ["", *(f"again {n}" for n in range(7))]
    values = [
        session.release(count(1, 120), 0.01, label=label, anyway=True).raw for label in labels
    ]
    assert len(session.history) == len(labels)
    assert len(set(values)) > 1  # two draws are equal once in a thousand times, eight never


def test_different_questions_are_different_releases(session):
    session.release(count(1, 120), 0.1)
    session.release(count(0, 120), 0.1)
    assert len(session.history) == 2


def test_the_joint_cost_is_by_theorem_not_by_adding(session):
    for state in (0, 1):
        session.release(count(state, 120), 0.3)
    b = influence_curve(CHAIN, count(1, 120), 0.3).entry_epsilon
    joint = InfluenceCurve(CHAIN, 120).epsilon(2 * b)
    assert 1 - session.remaining == pytest.approx(joint, abs=3e-6)
    assert session.history[-1]["rule"] == "entry_profile"


def test_disjoint_windows_hardly_add(session):
    for n in range(4):
        session.release(count(1, 30), 0.3, window=(30 * n + 1, 30 * (n + 1)))
    assert 1 - session.remaining < 0.34


def test_over_budget_changes_nothing_and_says_what_would_fit(session):
    session.release(count(1, 120), 0.5)
    before = session.ledger.entries()
    with pytest.raises(OverBudget) as refusal:
        session.release(count(0, 120), 0.9)
    assert session.ledger.entries() == before
    message = str(refusal.value)
    assert "remaining 0.500" in message
    fits = float(message.partition("epsilon ")[2].partition(" would fit")[0])
    session.release(count(0, 120), 0.98 * fits)
    assert session.remaining < 0.05


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["markov_quilt_approx", "markov_quilt_approx_tight", "best"])
def test_what_would_fit_is_of_the_same_variant(path, mechanism):
    session = Asking(DATA, CHAIN, 1.0, path)
    session.release(count(1, 120), 0.9)
    with pytest.raises(OverBudget) as refusal:
        session.release(count(0, 120), 5, mechanism=mechanism)
    fits = float(str(refusal.value).partition("epsilon ")[2].partition(" would fit")[0])
    with pytest.raises(OverBudget):
        session.release(count(0, 120), 1.1 * fits, mechanism=mechanism)
    session.release(count(0, 120), fits, mechanism=mechanism)


def test_a_plan_shows_the_cost_and_spends_nothing(session):
    shown = session.plan(count(1, 120), 0.4)
    assert shown.fits
    assert shown.cost == pytest.approx(0.4)
    assert session.remaining == 1.0
    assert "would take 0.4 of the remaining 1: fits" in str(shown)
    assert not session.plan(count(1, 120), 1.5).fits


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (lambda s: s.release(count(1, 99), 0.4), "120 entries.*calibrated for 99"),
        (lambda s: s.release(count(1, 120), 0), "epsilon"),
        (lambda s: s.release(count(1, 120), float("nan")), "epsilon"),
        (lambda s: s.release(count(7, 120), 0.1), "not among the states"),
        (lambda s: s.release(count(1, 120), 0.1, mechanism="magic"), "'magic' is unknown"),
        (lambda s: s.release(count(1, 120), 0.1, mechanism="gk16"), "spectral norm"),
        (lambda s: s.release(count(1, 9), 0.1, window=(115, 123)), "window"),
        (lambda s: s.release(count(1, 9), 0.1, window=(0, 8)), "window"),
    ],
)
def test_bad_requests_cost_nothing(session, call, problem):
    with pytest.raises(ValueError, match=problem):
        call(session)
    assert session.remaining == 1.0
    assert session.history == []


def test_a_query_that_fails_on_the_data_costs_nothing_and_releases_nothing(session):
    def broken(_):
        raise RuntimeError("boom")

    with pytest.raises(RuntimeError):
        session.release(Query("broken", broken, 1, 120), 0.4)
    assert session.remaining == 1.0
    session.release(Query("broken", sum, 1, 120), 0.4)
    assert session.remaining == pytest.approx(0.6)


def test_one_name_one_series(path):
    Asking(DATA, CHAIN, 1.0, path, name="alice").release(count(1, 120), 0.4)
    for query in (count(1), count(0)):
        with pytest.raises(ValueError, match="only grow"):
            Asking(DATA[:-1], CHAIN, 1.0, path, name="alice").release(query, 0.4)
        with pytest.raises(ValueError, match="beliefs differ"):
            Asking(DATA, ChainClass.binary(0.2, 0.9), 1.0, path, name="alice").release(query, 0.4)
    with pytest.raises(ValueError, match=r"has 1\.000, not 2\.000.*change_budget"):
        Asking(DATA, CHAIN, 2.0, path, name="alice")
    Asking(DATA[:40], CHAIN, 2.0, path, name="bob").cost(count(1), 0.4)


def test_segments(path):
    session = Asking([[0, 1, 0], [1, 1, 0, 0]], CHAIN, 1.0, path)
    session.release(relative_frequencies([0, 1], [3, 4]), 0.5)
    session.release(count(1, [2, 2]), 0.2, window=(2, 5))
    assert session.ledger.verify() == []


def test_a_series_with_states_of_its_own(path):
    series = Series.of([0, 1, 0], states=[0, 1, "never"])
    assert Asking(series, CHAIN, 1.0, path).release(histogram(), 1.0).labels == ("0", "1")


def test_unknown_states_are_refused_at_the_door(path):
    with pytest.raises(ValueError, match="2 not among"):
        Asking([0, 1, 2], CHAIN, 1.0, path).cost(count(1), 0.4)


def test_entry_dp_is_charged_its_true_cost(session):
    session.release(count(1, 120), 0.1, mechanism="entry_dp")
    assert 1 - session.remaining > 0.29


def test_a_draw_that_fails_costs_nothing(session, monkeypatch):
    def watched(*arguments):
        raise OSError("power cut")

    monkeypatch.setattr(noise, "discrete_laplace", watched)
    with pytest.raises(OSError, match="power cut"):
        session.release(count(1, 120), 0.4)
    assert session.ledger.entries() == []
    monkeypatch.undo()
    session.release(count(1, 120), 0.4)
    assert session.remaining == pytest.approx(0.6)


def test_charge_and_value_are_one_act(session):
    session.release(count(1, 120), 0.4)
    assert [entry.kind for entry in session.ledger.entries()] == [
        "key",
        "beliefs",
        "charge",
    ]
    (entry,) = session.ledger.entries("alice")
    assert entry.value["raw"]
    assert entry.body["opens"]["budget"] == entry.budget


KILLED = """
import os, signal, sys
from pufferkit import MarkovChain, count, noise
from tests.asking import Asking
def die(*arguments):
    os.kill(os.getpid(), signal.SIGKILL)
noise.discrete_laplace = die
chain = MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
Asking([0, 0, 0, 1, 1, 0] * 20, chain, 1.0, sys.argv[1], name="alice").release(count(1, 120), 0.4)
"""


def test_a_retry_after_a_crash_is_safe(path, session):
    done = subprocess.run([sys.executable, "-c", KILLED, path], check=False)
    assert done.returncode < 0
    assert session.ledger.entries() == []
    session.release(count(1, 120), 0.4)
    assert session.remaining == pytest.approx(0.6)
    assert session.ledger.verify() == []


def test_ledger_objects_and_paths_are_both_welcome(tmp_path):
    ledger = Ledger(tmp_path / "a.db")
    session = Asking(DATA, CHAIN, 1, ledger)
    assert session.ledger is ledger
    assert not os.path.exists(tmp_path / "a.db")
    session.release(count(1, 120), 0.4)
    assert os.path.exists(tmp_path / "a.db")


STARTS_AT_0 = MarkovChain([1, 0], [[0.5, 0.5], [0.0, 1.0]])


@pytest.mark.parametrize("mechanism", ["best", "influence_curve", "markov_quilt", "wasserstein"])
def test_a_window_within_a_segment_needs_beliefs_that_hold_from_any_time_on(path, mechanism):
    """X_1 is 0 for sure, X_2 is not: noise made for X_1, X_2 is too little for X_2, X_3.

    Given X_2 = 0 the count over X_2, X_3 is 0 or 1, given X_2 = 1 it is 2. With the noise for X_1,
    X_2, of scale 1, the odds move by 1.62 instead of 1.
    """
    session = Asking([[0, 1, 1, 1], [0, 0, 1]], STARTS_AT_0, 1.0, path)
    for window, lengths in [((2, 3), 2), ((2, 6), [3, 2]), ((6, 7), 2)]:
        with pytest.raises(NoTheorem, match="fixed initial distribution"):
            session.release(count(1, lengths), 0.5, window=window, mechanism=mechanism)
        with pytest.raises(NoTheorem, match="fixed initial distribution"):
            session.plan(count(1, lengths), 0.5, window=window)
    assert session.remaining == 1.0
    session.release(count(1, 2), 0.25, window=(5, 6), mechanism=mechanism)
    assert 0.75 <= session.remaining < 1


def test_group_privacy_takes_a_window_anywhere(path):
    session = Asking([0, 1, 1, 1], STARTS_AT_0, 1.0, path)
    session.release(count(1, 2), 0.5, window=(2, 3), mechanism="group_dp")
    assert session.remaining >= 0.5


@pytest.mark.parametrize("mechanism", ["influence_curve", "markov_quilt"])
def test_a_promise_made_for_the_start_is_not_taken_for_a_window(mechanism):
    made = calibrate(mechanism, STARTS_AT_0, count(1, 2), 1.0)
    assert compose([Spending.of(made)], STARTS_AT_0, 5).epsilon <= 1.0
    assert compose([Spending.of(made, window=(2, 3))], STARTS_AT_0, 5).epsilon > 1.6


def test_by_default_other_releases_may_follow(path):
    """Mechanisms for one sum alone would add less noise here; what follows them costs more."""
    alternating = MarkovChain.steady([[0.2, 0.8], [0.7, 0.3]])
    session = Asking([0, 1] * 10, alternating, 3.0, path)
    assert session.plan(count(1, 20), 1).plan.best.mechanism == "exact_sum"
    assert "exact_sum would" not in str(session.plan(count(1, 20), 1))
    for label in ("first", "second"):
        release = session.release(count(1, 20), 1, label=label)
        assert release.mechanism == "influence_curve"
    assert session.release(count(1, 20), 1, label="first").mechanism == "influence_curve"


@pytest.mark.parametrize("paid", [False, True])
def test_several_questions_need_their_errors(tmp_path, paid):
    account = pk.Account(str(tmp_path / "l.db"), "anna", 1.0) if paid else None
    for query, match in (
        ({"x": count(1)}, "the error it may have"),
        ({"x": (3, 4)}, "must be a question"),
    ):
        with pytest.raises(ValueError, match=match):
            pk.release(DATA, CHAIN, query, 0.4, account=account)
    assert account is None or account.spent == 0
