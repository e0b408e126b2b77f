"""Amounts that add up: what is stored counts, whoever wrote it, and each key is charged once."""

import os
import threading
import time

import psycopg
import pytest

from pufferkit import Ledger, LedgerError, OverBudget
from pufferkit.account.ledger import Charge, Terms
from tests.account.test_ledger import _tamper, url  # noqa: F401

TERMS = Terms(1_000_000, "sum", {})


@pytest.fixture
def book(url):  # noqa: F811
    with Ledger(url, by="test") as ledger:
        ledger.open_account("alice", 1)
        ledger.open_account("bob", 1)
        for name in ("alice", "alice", "bob"):  # now both balances are known
            ledger.spend(name, 0.1)
        yield ledger


def test_an_entry_is_what_the_ledger_keeps(book):
    first = book.spend("alice", 0.1, what="a count", rooms=(1, 2))
    second = book.spend("alice", 0.1, what="a count", rooms=(1, 2))
    assert first.body == second.body == {"what": "a count", "rooms": [1, 2]}
    assert (second.seq, second.previous) == (first.seq + 1, first.digest)
    assert [e for e in book.entries("alice") if e.seq >= first.seq] == [first, second]
    assert first.own_digest() == first.digest
    assert book.account("alice").total == 400_000
    assert book.verify() == []


def test_what_others_wrote_counts(book, url):  # noqa: F811
    with Ledger(url, by="other") as other:
        for act in (
            lambda: other.spend("bob", 0.1),
            lambda: other.spend("alice", 0.1),
            lambda: other.change_budget("alice", 0.9),
            lambda: other.open_account("carol", 1),
            lambda: book.charge_many([Charge("dora", "k", 1, 1, {}, 0, TERMS)]),
        ):
            book.spend("alice", 0.01)
            book.spend("alice", 0.01)
            act()
            book.spend("alice", 0.01)
    assert book.verify() == []
    assert book.account("alice").total == 450_000


def test_the_budget_holds(book):
    book.spend("alice", 0.8)
    with pytest.raises(OverBudget):
        book.spend("alice", 0.000001)
    assert book.verify() == []


def test_a_key_is_charged_once(book):
    first = book.spend("alice", 0.1, key="monday")
    assert book.spend("alice", 0.1, key="monday") == first
    with pytest.raises(ValueError, match="for something else"):
        book.spend("alice", 0.2, key="monday")
    assert book.account("alice").total == 300_000


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE pufferkit_head SET id = 99",
        "UPDATE pufferkit_head SET seq = 4",
        "DELETE FROM pufferkit_head",
    ],
)
def test_nothing_is_written_after_what_is_not_as_it_was(book, statement):
    before = book.entries()
    _tamper(book, statement)
    with pytest.raises(LedgerError):
        book.spend("alice", 0.1)
    assert book.entries() == before


def test_a_version_that_changed_while_a_spend_waited_is_noticed(book, url):  # noqa: F811
    if not url.startswith("postgresql"):
        pytest.skip("SQLite looks after it has the lock")
    with psycopg.connect(url) as other:
        other.execute("SELECT * FROM pufferkit_head FOR UPDATE")
        errors = []

        def spend():
            try:
                book.spend("alice", 0.1)
            except LedgerError as error:
                errors.append(error)

        thread = threading.Thread(target=spend)
        thread.start()
        time.sleep(0.3)
        # A later version changes the tables and writes no entry.
        other.execute("UPDATE pufferkit_head SET id = 99")
        other.commit()
        thread.join()
    assert "another version" in str(errors[0])


def test_an_anchor_is_looked_at_with_every_spend(tmp_path):
    with Ledger(tmp_path / "l.db", anchor=tmp_path / "anchor") as ledger:
        ledger.open_account("a", 1)
        for _ in range(3):
            ledger.spend("a", 0.1)
        os.remove(tmp_path / "anchor")
        with pytest.raises(LedgerError, match="anchor"):
            ledger.spend("a", 0.1)
