"""An account that cannot be overspent, and a record that shows tampering."""

import json
import multiprocessing
import os
import sqlite3
import uuid
from urllib.parse import urlsplit

import pytest

from pufferkit import Ledger, LedgerError, OverBudget
from pufferkit.account.amounts import allowed_micro, show, spent_micro, spent_pico
from pufferkit.account.ledger import Charge

POSTGRES = os.environ.get("PUFFERKIT_TEST_POSTGRES")


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    """A fresh, empty database of either kind."""
    if request.param == "sqlite":
        yield str(tmp_path / "ledger.db")
        return
    if not POSTGRES:
        pytest.skip("no PostgreSQL: set PUFFERKIT_TEST_POSTGRES to a database URL")
    import psycopg

    name = f"pufferkit_{uuid.uuid4().hex}"
    with psycopg.connect(POSTGRES, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}")
    yield urlsplit(POSTGRES)._replace(path=f"/{name}").geturl()
    with psycopg.connect(POSTGRES, autocommit=True) as admin:
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def book(url):
    ledger = Ledger(url, by="test")
    ledger.open_account("alice", 0.3)
    yield ledger
    ledger.close()


def test_three_spends_of_a_tenth_fit_a_budget_of_three_tenths(book):
    for _ in range(3):
        book.spend("alice", 0.1)
    assert book.remaining("alice") == 0.0
    with pytest.raises(OverBudget):
        book.spend("alice", 0.000001)


def test_a_refusal_says_how_much_is_missing(url):
    ledger = Ledger(url)
    ledger.open_account("bob", 1.5)
    ledger.spend("bob", 1.0)
    with pytest.raises(OverBudget, match=r"requested 0\.600, remaining 0\.500, short by 0\.100"):
        ledger.spend("bob", 0.6)
    assert ledger.remaining("bob") == 0.5
    ledger.close()


@pytest.mark.parametrize("epsilon", [0, -1, float("nan"), float("inf"), "much"])
def test_nonsense_amounts_change_nothing(book, epsilon):
    before = book.entries()
    with pytest.raises(ValueError, match="epsilon"):
        book.spend("alice", epsilon)
    assert book.entries() == before


def test_amounts_round_against_the_spender():
    assert spent_micro(0.1) == 100_000
    assert spent_micro(0.1000000001) == 100_001
    assert spent_micro(1e-9) == 1
    assert allowed_micro(0.3) == 300_000
    assert allowed_micro(0.30000099) == 300_000
    assert spent_pico(1e-13) == 1
    assert show(600_000) == "0.600"
    assert show(123_456) == "0.123456"


def test_the_same_key_is_charged_once(book):
    first = book.spend("alice", 0.2, key="week 1")
    assert book.spend("alice", 0.2, key="week 1") == first
    assert book.remaining("alice") == pytest.approx(0.1)


def test_an_entry_says_what_when_and_by_whom(book):
    entry = book.spend("alice", 0.1, what="histogram", window=[1, 7])
    assert entry.made_by == "test"
    assert entry.body == {"what": "histogram", "window": [1, 7]}
    assert entry.made_at.startswith("20")
    assert entry.digest == entry.own_digest()
    assert book.entries("alice")[-1] == entry


def test_a_budget_does_not_change_by_the_way(book):
    book.open_account("alice", 0.3)
    with pytest.raises(ValueError, match=r"has 0\.300, not 0\.500.*ledger budget"):
        book.open_account("alice", 0.5)


def test_an_account_belongs_to_its_data(book):
    book.open_account("carol", 1, about={"lengths": [10]})
    book.open_account("carol", 1, about={"lengths": [10]})
    with pytest.raises(ValueError, match="lengths differ"):
        book.open_account("carol", 1, about={"lengths": [11]})


def test_unknown_accounts_are_named(book):
    with pytest.raises(ValueError, match="'nobody' is not in this ledger"):
        book.spend("nobody", 0.1)


def test_composed_accounts_are_not_spent_by_hand(book):
    book.open_account("dave", 1, rule="composed")
    with pytest.raises(ValueError, match="account="):
        book.spend("dave", 0.1)


def test_a_charge_from_an_old_history_is_turned_away(book):
    book.open_account("dave", 1, rule="composed")
    after = book.account("dave").entries
    assert book.charge_many([Charge("dave", "a", 500_000, 500_000, {}, after)])
    assert not book.charge_many([Charge("dave", "b", 500_000, 900_000, {}, after)])
    assert book.account("dave").total == 500_000
    with pytest.raises(OverBudget):
        book.charge_many([Charge("dave", "c", 600_000, 1_100_000, {}, after + 1)])


def test_a_value_is_stored_once(book):
    book.open_account("dave", 1, rule="composed")
    charge = Charge("dave", "a", 500_000, 500_000, {}, 1, value={"value": 1})
    assert book.charge_many([charge])
    for after in (1, 2):
        assert not book.charge_many([charge._replace(after=after, value={"value": 2})])
    assert book.look(["dave"], ["a"]).values["dave", "a"] == {"value": 1}
    assert book.verify() == []


def test_an_untouched_ledger_verifies(book):
    for n in range(20):
        book.spend("alice", 0.01, what=f"{n}")
    assert book.verify() == []
    assert book.verify(head=book.head) == []


def _tamper(ledger, statement):
    with ledger._place.transaction(writes=True) as connection:
        connection.execute(statement)


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("UPDATE pufferkit_entries SET epsilon = 1 WHERE seq = 3", "entry 3 was changed"),
        ("UPDATE pufferkit_entries SET body = '{}' WHERE seq = 4", "entry 4 was changed"),
        ("UPDATE pufferkit_entries SET made_by = 'x' WHERE seq = 2", "entry 2 was changed"),
        ("UPDATE pufferkit_entries SET total = 0 WHERE seq = 6", "entry 6 was changed"),
        ("DELETE FROM pufferkit_entries WHERE seq = 4", "entry 4 is missing"),
        ("DELETE FROM pufferkit_entries WHERE seq = 1", "entry 1 is missing"),
        ("DELETE FROM pufferkit_entries WHERE seq = 7", "its head is entry 7"),
        ("UPDATE pufferkit_entries SET budget = 10000000 WHERE seq = 7", "entry 7 was changed"),
        ("UPDATE pufferkit_entries SET number = 1 WHERE seq = 7", "entry 7 was changed"),
    ],
)
def test_tampering_is_found(book, statement, problem):
    for _ in range(5):
        book.spend("alice", 0.01)
    _tamper(book, statement)
    assert any(problem in line for line in book.verify()), book.verify()


def test_a_ledger_rewritten_from_some_point_is_found_by_a_noted_head(book):
    book.spend("alice", 0.1, what="true")
    noted = book.head
    _tamper(book, "DELETE FROM pufferkit_entries WHERE seq = 3")
    before = book.entries()[1].digest
    _tamper(book, f"UPDATE pufferkit_head SET seq = 2, digest = '{before}'")
    assert book.verify() == []
    assert "rewritten" in book.verify(head=noted)[0]


def test_export_is_one_json_object_a_line(book):
    book.spend("alice", 0.1)
    lines = [json.loads(line) for line in book.export()]
    assert [line["kind"] for line in lines] == ["key", "open", "charge"]


def test_another_schema_is_refused(book, url):
    _tamper(book, "UPDATE pufferkit_head SET id = 99")
    with pytest.raises(ValueError, match="another version"):
        Ledger(url)


def test_tables_that_change_under_an_open_ledger_are_noticed(book):
    """Another version of pufferkit, or a file that was put in its place."""
    book.spend("alice", 0.1)
    _tamper(book, "UPDATE pufferkit_head SET id = 99")
    for _ in range(2):
        with pytest.raises(LedgerError, match="changed by another version"):
            book.spend("alice", 0.1)
    assert book.account("alice").total == 100_000
    _tamper(book, "UPDATE pufferkit_head SET id = 1")
    book.spend("alice", 0.1)
    assert book.account("alice").total == 200_000
    assert book.verify() == []


def test_not_a_database(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("hello " * 1000)
    with pytest.raises(ValueError, match="cannot open"):
        Ledger(str(path))
    with pytest.raises(ValueError, match="folder"):
        Ledger(str(tmp_path))
    with pytest.raises(ValueError, match="does not exist"):
        Ledger(str(tmp_path / "no" / "ledger.db"))
    with pytest.raises(ValueError, match="not a path or a database URL"):
        Ledger("warp://drive")


def test_full_synchronisation_and_write_ahead_log(tmp_path):
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.open_account("alice", 1)
    with ledger._place.transaction() as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)


def _open_and_close(url):
    Ledger(url).close()


@pytest.mark.slow
def test_many_processes_may_open_a_new_ledger_at_once(url):
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        pool.map(_open_and_close, [url] * 8)
    ledger = Ledger(url)
    assert ledger.verify() == []
    ledger.close()


def test_a_locked_file_makes_writers_wait(tmp_path):
    path = tmp_path / "ledger.db"
    ledger = Ledger(path)
    ledger.open_account("alice", 1)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert ledger.remaining("alice") == 1.0  # reading does not wait
    other.execute("ROLLBACK")
    other.close()
    ledger.spend("alice", 1)
