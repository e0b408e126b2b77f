"""Accounts of releases about networks and joint distributions."""

import pytest

import pufferkit as pk
from pufferkit.influence.curve.graphs import GraphCurve
from tests.asking import Asking, spent_by

STEP = {("well",): [0.9, 0.1], ("sick",): [0.4, 0.6]}
NAMES = ("Ada", "Ben", "Cem", "Dia")
TREE = pk.BayesianNetwork(
    {"Ada": (), "Ben": ("Ada",), "Cem": ("Ada",), "Dia": ("Cem",)},
    {"Ada": {(): [0.8, 0.2]}, "Ben": STEP, "Cem": STEP, "Dia": STEP},
    dict.fromkeys(NAMES, ("well", "sick")),
)
COLLIDER = pk.BayesianNetwork(
    {"Ada": (), "Ben": (), "Cem": ("Ada", "Ben"), "Dia": ()},
    {
        "Ada": {(): [0.8, 0.2]},
        "Ben": {(): [0.7, 0.3]},
        "Cem": {
            (a, b): [
                0.9 - 0.3 * ((a == "sick") + (b == "sick")),
                0.1 + 0.3 * ((a == "sick") + (b == "sick")),
            ]
            for a in ("well", "sick")
            for b in ("well", "sick")
        },
        "Dia": {(): [0.6, 0.4]},
    },
    dict.fromkeys(NAMES, ("well", "sick")),
)
RECORD = {"Dia": "well", "Ada": "sick", "Ben": "well", "Cem": "sick"}
QUERY = pk.count("sick", 4)


@pytest.fixture
def book(tmp_path):
    with pk.Ledger(str(tmp_path / "book.db")) as ledger:
        yield ledger


def test_a_tree_is_charged_by_its_curve(book):
    session = Asking(RECORD, TREE, 3, book, name="flu")
    first = session.release(QUERY, 1, mechanism="influence_curve")
    assert session.remaining == pytest.approx(2, abs=1e-6)
    assert session.release(QUERY, 1, mechanism="influence_curve").value == first.value
    session.release(QUERY, 0.5, mechanism="influence_curve", label="again")
    b = sum(pk.influence_curve(TREE, QUERY, e).entry_epsilon for e in (1, 0.5))
    assert session.history[-1]["rule"] == "entry_profile"
    curve = GraphCurve([TREE], ("well", "sick"))
    assert session.spent == pytest.approx(curve.loss(b).value, abs=2e-6)
    with pytest.raises(pk.OverBudget):
        session.release(QUERY, 2.5, mechanism="influence_curve")


def test_quilts_of_any_network_by_theorem_4_4(book):
    session = Asking(RECORD, COLLIDER, 10, book, name="flu")
    session.release(QUERY, 1, mechanism="markov_quilt")
    session.release(QUERY, 2, mechanism="markov_quilt")
    spendings = spent_by(session)
    rules = {row.rule: row.micro for row in pk.compose(spendings, COLLIDER, len(RECORD)).considered}
    assert rules["quilt_max"] == 4_000_000
    assert "parallel" not in rules
    # Three entries hang together; averaged out one by one they cost less than all of them changed.
    b = sum(pk.markov_quilt(COLLIDER, QUERY, e).entry_epsilon for e in (1, 2))
    curve = GraphCurve([COLLIDER], ("well", "sick"))
    assert rules["entry_profile"] == pytest.approx(1e6 * curve.loss(b).value, abs=3)
    assert session.spent < min(4, 3 * b)


def test_two_wasserstein_releases_are_charged_entry_by_entry(book):
    for n, beliefs in enumerate((TREE, TREE.joint())):
        session = Asking(RECORD, beliefs, 10, book, name=f"flu {n}", confirm_data=True)
        session.release(QUERY, 1, mechanism="wasserstein")
        assert session.remaining >= 9
        session.release(QUERY, 1, mechanism="wasserstein", label="again")
        assert session.history[-1]["rule"] == "entry_profile"
        b = pk.wasserstein(beliefs, QUERY, 1).entry_epsilon
        assert 2 * b < session.spent <= 2 * b * len(RECORD) + 1e-5


def test_no_theorem_no_release(book):
    """A release without a per-entry bound is paid by its promise, and none can follow it."""
    some = pk.Query("any sick", lambda record: float("sick" in list(record)), 1, len(RECORD))
    session = Asking(RECORD, TREE.joint(), 1, book, name="flu")
    session.release(some, 0.1, mechanism="wasserstein")
    assert session.remaining == pytest.approx(0.9)
    for query in (some, QUERY):
        with pytest.raises(pk.NoTheorem, match="per-entry"):
            session.release(query, 0.1, label="again", mechanism="wasserstein")
    assert session.remaining == pytest.approx(0.9)
    assert book.verify() == []


def test_records_and_windows_are_checked(book):
    with pytest.raises(ValueError, match="Dia"):
        Asking({"Ada": "well", "Ben": "well", "Cem": "well"}, TREE, 1, book).cost(QUERY, 1)
    with pytest.raises(ValueError, match="4 entries"):
        Asking(["well"] * 3, TREE, 1, book).cost(QUERY, 1)
    session = Asking(RECORD, TREE, 3, book, name="flu")
    with pytest.raises((ValueError, pk.NoTheorem)):
        session.release(pk.count("sick", 2), 1, window=(1, 2))
    with pytest.raises(ValueError, match="lengths"):
        pk.compose([pk.Spending("group_dp", 1, (1, 4), 0.1)], TREE, 5)
    with pytest.raises(pk.NoTheorem, match="window"):
        pk.compose([pk.Spending("group_dp", 1, (1, 2), 0.1)], TREE, 4)
