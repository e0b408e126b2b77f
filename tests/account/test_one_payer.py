"""One read and one write for each payment, of one series or of many subjects."""

import polars as pl
import pytest

import pufferkit as pk
from pufferkit.account.store import Connection
from tests.account.test_ledger import url  # noqa: F401

CHAIN = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
DATA = [0, 0, 1] * 100


@pytest.fixture
def statements(monkeypatch):
    """The statements that are run, first to last; rows that are put together are one."""
    ran = []
    execute, put = Connection.execute, Connection.put

    def noted(self, text, values=()):
        ran.append(text)
        return execute(self, text, values)

    def noted_put(self, table, rows):
        if len(rows) > 1:
            ran.append(f"INSERT INTO {table}")
        return put(self, table, rows)

    monkeypatch.setattr(Connection, "execute", noted)
    monkeypatch.setattr(Connection, "put", noted_put)
    return ran


def _table(people):
    rows = pl.DataFrame(
        {
            "who": [n // 20 for n in range(20 * people)],
            "t": [n % 20 for n in range(20 * people)],
            "x": [(n * n + people) % 7 % 2 for n in range(20 * people)],
        }
    )
    return pk.read(rows, subject="who", time="t", state="x", states=[0, 1])


def _transactions(statements):
    return [text.split(" ")[0:2] for text in statements if text.startswith("BEGIN")]


def _changes(statements):
    return [text for text in statements if text.split(" ")[0] in ("INSERT", "UPDATE", "DELETE")]


def test_a_release_from_an_account_is_one_read_and_one_write(url, statements):  # noqa: F811
    with pk.Ledger(url) as book:
        account = pk.Account(book, "anna", 4)
        for n in range(3):
            ask = (DATA, CHAIN, pk.count(1), 0.5)
            options = {"account": account, "window": (50 * n + 1, 50 * n + 50), "anyway": True}
            statements.clear()
            value = pk.release(*ask, **options)
        assert len(_transactions(statements)) == 2
        assert len(statements) <= 15
        statements.clear()
        assert pk.release(*ask, **options).value == value.value
        assert not _changes(statements)  # a replay reads, and writes nothing
        statements.clear()
        with pytest.raises(pk.OverBudget):
            pk.release(DATA, CHAIN, pk.count(1), 9, account=account)
        assert not _changes(statements)


def test_many_subjects_take_no_more_statements_than_one(url, statements):  # noqa: F811
    numbers = {}
    with pk.Ledger(url) as book:
        for people in (2, 200):
            table = _table(people)
            accounts = book.accounts_for(table, f"{people} ", budget=3, confirm_data=True)
            for label in ("first", "second"):
                statements.clear()
                pk.release(
                    *(table, CHAIN, "histogram", 0.5),
                    **{"account": accounts, "per": "subject", "label": label, "anyway": True},
                )
            assert len(_transactions(statements)) == 2
            numbers[people] = len(statements)
            statements.clear()
            pk.release(
                *(table, CHAIN, "histogram", 0.5),
                **{"account": accounts, "per": "all", "label": "together", "anyway": True},
            )
            assert len(_transactions(statements)) == 2
        assert numbers[200] <= numbers[2] <= 16
        statements.clear()
        with pytest.raises(pk.OverBudget):
            pk.release(table, CHAIN, "histogram", 9, account=accounts, per="subject")
        assert not _changes(statements)
        assert book.verify() == []
