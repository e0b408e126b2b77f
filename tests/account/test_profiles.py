"""What a history spent on each entry, and what the next release would cost."""

import pytest

import pufferkit as pk
from tests.asking import Asking

CHAIN = pk.MarkovChain.steady([[0.8, 0.2], [0.3, 0.7]])
LENGTH = 60


@pytest.fixture
def session(tmp_path):
    data = list(CHAIN.sample(LENGTH, seed=1))
    return Asking(data, CHAIN, 5.0, str(tmp_path / "book.db"), name="anna")


def test_the_cost_is_what_the_release_takes(session):
    query, window = pk.count(1, LENGTH), pk.count(1, 30)
    for asked, place in ((query, None), (window, (11, 40))):
        before = session.remaining
        cost = session.cost(asked, 0.5, window=place)
        assert session.remaining == before
        session.release(asked, 0.5, window=place)
        assert session.remaining == pytest.approx(before - cost, abs=1e-12)
        assert session.cost(asked, 0.5, window=place) == 0.0


def test_a_named_mechanism_costs_what_it_takes(session):
    query = pk.count(1, LENGTH)
    cost = session.cost(query, 0.3, mechanism="markov_quilt")
    session.release(query, 0.3, mechanism="markov_quilt")
    assert session.remaining == pytest.approx(5.0 - cost, abs=1e-12)


def test_the_profile_covers_every_entry_and_its_largest_loss_is_what_was_spent(session):
    session.release(pk.count(1, LENGTH), 0.5)
    session.release(pk.count(1, 30), 0.5, window=(11, 40))
    rows = session.profile
    assert [row["first"] for row in rows] == [1, *(row["last"] + 1 for row in rows[:-1])]
    assert rows[-1]["last"] == LENGTH
    spent = {
        entry: row["event_epsilon"]
        for row in rows
        for entry in range(row["first"], row["last"] + 1)
    }
    assert spent[25] == pytest.approx(spent[5] + spent[25] - spent[50])
    assert spent[5] == spent[50] < spent[25]
    largest = max(row["epsilon"] for row in rows)
    assert largest == pytest.approx(session.spent, abs=2e-6)
    assert all(row["event_epsilon"] <= row["epsilon"] + 1e-9 for row in rows)


def test_an_account_without_releases_has_spent_nothing(session):
    assert session.profile == []
    assert session.spent == 0
