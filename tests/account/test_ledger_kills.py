"""Processes that are killed at every statement, 32 at once, and a disk that is full."""

import json
import os
import signal

import polars as pl
import pytest

import pufferkit as pk
from pufferkit import Ledger, LedgerError
from pufferkit.account.store import Connection
from tests.account.test_ledger import url  # noqa: F401
from tests.asking import for_all, for_each

CHAIN = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
DATA = [0, 0, 1, 1, 0, 1, 0, 0, 0, 1, 1, 1]
ROWS = {"who": [n // 4 for n in range(12)], "when": [n % 4 for n in range(12)], "what": DATA}
TABLE = pk.read(pl.DataFrame(ROWS), subject="who", time="when", state="what", states=[0, 1])
ASKED = {"budget": 1, "mechanism": "group_dp", "confirm_data": True, "anyway": True}


def by_series(ledger, name):
    account = pk.Account(ledger, f"{name}anna", 1.0, confirm_data=True)
    options = {"account": account, "mechanism": "group_dp", "anyway": True}
    return pk.release(DATA, CHAIN, pk.count(1), 0.4, **options).value


def by_each(ledger, name):
    return for_each(TABLE, CHAIN, 0.4, ledger=ledger, prefix=name, **ASKED).value.tolist()


def by_all(ledger, name):
    return for_all(TABLE, CHAIN, 0.4, ledger=ledger, prefix=name, **ASKED).value.tolist()


def in_a_child(act):
    """The status of a child that does this, as `os.waitpid` gives it."""
    child = os.fork()
    if child == 0:
        try:
            act()
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitpid(child, 0)[1]


def killed_after(statement, act):
    """Kill this process after a statement or commit, counted from 1, which is before the next."""
    seen = []

    def around(real):
        def called(*arguments, **options):
            seen.append(None)
            here = len(seen) == statement
            answer = real(*arguments, **options)
            if here:
                os.kill(os.getpid(), signal.SIGKILL)
            return answer

        return called

    for name in ("execute", "put", "commit"):
        setattr(Connection, name, around(getattr(Connection, name)))
    act()


@pytest.mark.slow
@pytest.mark.parametrize("ask", [by_series, by_each, by_all])
def test_a_process_killed_at_any_statement_loses_nothing(url, ask):  # noqa: F811
    with Ledger(url) as ledger:
        ask(ledger, "first")
    for at in range(1, 200):
        name = f"{at}/"

        def asked(name=name):
            with Ledger(url) as ledger:
                ask(ledger, name)

        status = in_a_child(lambda at=at, asked=asked: killed_after(at, asked))
        with Ledger(url) as ledger:
            stored = _values(ledger, name)
            shown = ask(ledger, name)
            assert stored.items() <= _values(ledger, name).items()
            assert ask(ledger, name) == shown
            charges = [
                (entry.account, entry.key)
                for entry in ledger.entries()
                if entry.kind == "charge" and entry.account.startswith(name)
            ]
            assert len(charges) == len(set(charges))
        if not status:
            break
        assert os.WTERMSIG(status) == signal.SIGKILL
    assert at > 20
    with Ledger(url) as ledger:
        assert ledger.verify() == []


def _values(ledger, name):
    return {
        (entry.account, entry.key): json.dumps(entry.value)
        for entry in ledger.entries()
        if entry.value is not None and entry.account.startswith(name)
    }


@pytest.mark.slow
def test_thirty_two_processes_share_one_budget(url, tmp_path):  # noqa: F811
    """Each asks for a release of its own and for one that all ask for; not all fit."""

    def ask(number):
        with Ledger(url) as ledger:
            account, values = pk.Account(ledger, "anna", 2.0), {}
            for label in ("shared", f"{number}"):
                options = {"account": account, "label": label, "mechanism": "group_dp"}
                try:
                    release = pk.release(*(DATA, CHAIN, pk.count(1), 0.25), anyway=True, **options)
                    values[label] = list(release.value)
                except pk.OverBudget:
                    values[label] = None
            (tmp_path / f"{number}.json").write_text(json.dumps(values))

    children = []
    for number in range(32):
        child = os.fork()
        if child == 0:
            try:
                ask(number)
                os._exit(0)
            finally:
                os._exit(1)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 32
    shown = [json.loads((tmp_path / f"{number}.json").read_text()) for number in range(32)]
    assert len({json.dumps(values["shared"]) for values in shown if values["shared"]}) == 1
    with Ledger(url) as ledger:
        entries = [entry for entry in ledger.entries("anna") if entry.kind == "charge"]
        keys = [entry.key for entry in entries if entry.value is not None]
        assert len(entries) == len(keys) == len(set(keys))
        given = sum(value is not None for values in shown for value in values.values())
        shared = sum(values["shared"] is not None for values in shown)
        assert len(keys) == given - shared + 1
        assert 8 <= len(keys) < 33
        assert 1_700_000 < ledger.account("anna").total <= 2_000_000
        assert ledger.verify() == []


@pytest.mark.parametrize("ask", [by_series, by_each, by_all])
def test_a_full_disk_hands_nothing_over_and_charges_nothing_twice(tmp_path, ask):
    ledger = Ledger(tmp_path / "ledger.db")
    ask(ledger, "first")
    real = ledger._place._open

    def small():
        driver = real()
        pages = driver.execute("PRAGMA page_count").fetchone()[0]
        driver.execute(f"PRAGMA max_page_count = {pages}")
        return driver

    ledger._place._open = small
    ledger.close()
    refused = []
    for turn in range(60):
        before = ledger.entries()
        try:
            ask(ledger, f"{turn}/")
        except LedgerError as error:
            refused.append(str(error))
            assert ledger.entries() == before
        if len(refused) == 2:
            break
    assert refused
    assert all("the disk is full" in words for words in refused)
    ledger._place._open = real
    ledger.close()
    assert ask(ledger, f"{turn}/") == ask(ledger, f"{turn}/")
    assert ledger.verify() == []
