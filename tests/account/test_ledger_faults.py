"""A database that fails at every statement in turn: no second value for a charge, none without."""

import gc
import sqlite3
import threading
import time
from contextlib import contextmanager

import polars as pl
import pytest

import pufferkit as pk
from pufferkit import Ledger, LedgerError, MarkovChain, count, noise
from pufferkit.account import ledger as ledger_module
from pufferkit.account import store
from pufferkit.account.store import Connection
from tests.account.test_ledger import url  # noqa: F401
from tests.asking import Asking, for_all, for_each

CHAIN = MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
DATA = [0, 0, 1, 1, 0, 1, 0, 0, 0, 1, 1, 1]
FRAME = pl.DataFrame({"who": [n // 4 for n in range(12)], "when": [n % 4 for n in range(12)],
                      "what": DATA})  # fmt: skip
TABLE = pk.read(FRAME, subject="who", time="when", state="what", states=[0, 1])
PAID = {"budget": 1, "mechanism": "group_dp", "confirm_data": True}
SECRET = "the noisy value 3.14159"


class Fault:
    """Fails at one statement or commit, counted from 1: before or after it took effect.

    ``lost`` also closes the connection, so that nobody knows whether a commit took effect.
    """

    def __init__(self, at, mode):
        self.at, self.mode, self.seen = at, mode, 0

    @property
    def struck(self):
        return self.seen >= self.at

    def around(self, real):
        def called(connection, *arguments, **options):
            self.seen += 1
            if self.seen != self.at:
                return real(connection, *arguments, **options)
            if self.mode != "before":
                real(connection, *arguments, **options)
            if not connection.server:
                raise sqlite3.OperationalError(f"disk I/O error near {SECRET}")
            import psycopg

            if self.mode == "lost":
                connection.driver.close()
            raise psycopg.OperationalError(f"consuming input failed: {SECRET}")

        return called


@contextmanager
def failing(fault, monkeypatch):
    """Statements go one by one: a commit within `commit` is not counted again."""
    with monkeypatch.context() as patch:
        for name in ("execute", "put", "commit"):
            patch.setattr(Connection, name, fault.around(getattr(Connection, name)))
        yield


def by_session(ledger, name):
    session = Asking(DATA, CHAIN, 1.0, ledger, name=name, confirm_data=True)
    release = session.release(count(1, 12), 0.4, mechanism="group_dp")
    return {(name, "count"): release.raw}


def by_each(ledger, name):
    releases = for_each(TABLE, CHAIN, 0.4, ledger=ledger, prefix=name, **PAID)
    return {(s, "each"): tuple(v) for s, v in zip(releases.subjects, releases.raw, strict=True)}


def by_all(ledger, name):
    release = for_all(TABLE, CHAIN, 0.4, ledger=ledger, prefix=name, **PAID)
    return {("all", "all"): tuple(release.raw[0])}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ask", "mode"),
    [(by_session, "before"), *((ask, mode) for ask in (by_session, by_each, by_all)
                               for mode in ("after", "lost"))],
)  # fmt: skip
def test_at_most_one_value_for_a_charge_and_none_without(url, monkeypatch, ask, mode):  # noqa: F811
    if mode == "lost" and "://" not in url:
        pytest.skip("SQLite has no connection to lose")
    draws = []
    for door in ("discrete_laplace", "discrete_laplace_rows"):
        monkeypatch.setattr(noise, door, _watched(getattr(noise, door), draws))
    with Ledger(url) as ledger:
        ask(ledger, "first")  # the ledger is made here
        for at in range(1, 200):
            name, fault, shown = f"{at}/", Fault(at, mode), []
            draws.clear()
            with failing(fault, monkeypatch):
                try:
                    shown.append(ask(ledger, name))
                except LedgerError as error:
                    _says_nothing(error, draws)
            before = _charged(ledger, name)
            assert not shown or before
            shown.append(ask(ledger, name))
            assert all(values == shown[0] for values in shown)
            _one_value_each(ledger, name)
            if not fault.struck:
                break
        assert at > 10
        assert ledger.verify() == []


def _watched(door, draws):
    def drawn(*arguments, **options):
        draw = door(*arguments, **options)
        draws.append(str(draw))
        return draw

    return drawn


def _says_nothing(error, draws):
    assert error.__cause__ is None
    assert error.__context__ is None
    assert SECRET not in str(error)
    assert not any(draw in str(error) for draw in draws)


def _charged(ledger, name):
    return [a for a in ledger.accounts() if a.account.startswith(name) and a.total]


def _one_value_each(ledger, name):
    for account in _charged(ledger, name):
        (entry,) = ledger.entries(account.account)
        assert entry.kind == "charge"
        assert 0 < account.total <= 400_000
        values = int(entry.value is not None)
        assert values == 1 or "(all subjects)" in {a.account.removeprefix(name) for a in
                                                   _charged(ledger, name)}  # fmt: skip


@pytest.mark.parametrize("mode", ["before", "after", "lost"])
def test_a_spend_without_a_key_is_done_once(url, monkeypatch, mode):  # noqa: F811
    with Ledger(url) as ledger:
        ledger.open_account("alice", 50)
        for at in range(1, 100):
            fault, before, done = Fault(at, mode), ledger.account("alice").total, False
            with failing(fault, monkeypatch):
                try:
                    done = bool(ledger.spend("alice", 0.1))
                except LedgerError as error:
                    _says_nothing(error, [])
            spent = ledger.account("alice").total - before
            assert spent in (0, 100_000)
            assert spent or not done
            if not fault.struck:
                break
        assert ledger.verify() == []


def test_a_lost_connection_at_commit_gives_what_is_stored(url, monkeypatch):  # noqa: F811
    """Whether the commit took effect is not known; the ledger looks, and does not draw again."""
    if "://" not in url:
        pytest.skip("SQLite has no connection to lose")
    with Ledger(url) as ledger:
        ledger.open_account("alice", 1)
        real, commits = Connection.commit, []

        def lost(connection):
            import psycopg

            real(connection)
            commits.append(1)
            if len(commits) == 1:
                connection.driver.close()
                raise psycopg.OperationalError("server closed the connection unexpectedly")

        ledger.spend("alice", 0.1)
        monkeypatch.setattr(Connection, "commit", lost)
        entry = ledger.spend("alice", 0.1)
        monkeypatch.undo()
        assert len(commits) >= 2
        assert ledger.account("alice").total == 200_000
        assert ledger.entries()[-1] == entry


def test_serialisation_failures_and_deadlocks_are_tried_again(url, monkeypatch):  # noqa: F811
    if "://" not in url:
        pytest.skip("SQLite takes turns")
    import psycopg

    monkeypatch.setattr(ledger_module.time, "sleep", lambda _: None)
    for kind in (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected):
        for times, works in ((ledger_module._TRIES - 1, True), (ledger_module._TRIES, False)):
            with Ledger(url) as ledger:
                ledger.open_account("alice", 1)
                before = ledger.account("alice").total
                with monkeypatch.context() as patch:
                    failures = [kind(SECRET)] * times
                    patch.setattr(Connection, "put", _refused(Connection.put, failures))
                    if works:
                        ledger.spend("alice", 0.1)
                    else:
                        with pytest.raises(LedgerError, match=kind.__name__) as error:
                            ledger.spend("alice", 0.1)
                        assert SECRET not in str(error.value)
                assert ledger.account("alice").total == before + 100_000 * works


def _refused(real, failures):
    def called(connection, *arguments, **options):
        if failures:
            raise failures.pop()
        return real(connection, *arguments, **options)

    return called


def test_a_real_deadlock_is_survived(url):  # noqa: F811
    """Two transactions that lock the entries and the head in opposite order."""
    if "://" not in url:
        pytest.skip("SQLite takes turns")
    with Ledger(url) as ledger:
        ledger.open_account("alice", 1)
        held, go = threading.Event(), threading.Event()

        def other():
            with ledger._place.transaction(writes=True) as connection:
                connection.execute("SET LOCAL deadlock_timeout = '10s'")
                connection.execute("LOCK TABLE pufferkit_entries IN SHARE MODE")
                connection.wait()
                held.set()
                go.wait(20)
                connection.execute("SELECT * FROM pufferkit_head FOR UPDATE").fetchall()

        thread = threading.Thread(target=other)
        thread.start()
        assert held.wait(20)
        threading.Timer(0.3, go.set).start()
        ledger.spend("alice", 0.1)
        thread.join()
        assert ledger.account("alice").total == 100_000
        assert ledger.verify() == []


def test_a_ledger_that_cannot_be_made_is_not_there(tmp_path, monkeypatch):
    path = tmp_path / "ledger.db"

    def full(*_, **__):
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patch:
        ledger = Ledger(path)
        # The trial in memory succeeds; the file does not.
        make = store.SQLiteFile.make
        fill = store.fill

        def failing_make(place):
            patch.setattr(store, "fill", full)
            try:
                make(place)
            finally:
                patch.setattr(store, "fill", fill)

        patch.setattr(store.SQLiteFile, "make", failing_make)
        with pytest.raises(LedgerError, match="cannot create"):
            ledger.open_account("alice", 1)
    assert list(tmp_path.iterdir()) == []
    ledger.open_account("alice", 1)
    assert ledger.verify() == []


def test_what_a_server_refuses_is_not_charged(url):  # noqa: F811
    """Statements are sent ahead: an error of one, or of the commit, reaches whoever asked."""
    if "://" not in url:
        pytest.skip("SQLite answers every statement")
    with Ledger(url) as ledger:
        ledger.open_account("alice", 1)
        ledger.spend("alice", 0.1)
        for law in (
            "CREATE TRIGGER no BEFORE INSERT ON pufferkit_entries",
            "CREATE TRIGGER no BEFORE UPDATE ON pufferkit_head",
            "CREATE CONSTRAINT TRIGGER no AFTER INSERT ON pufferkit_entries "
            "DEFERRABLE INITIALLY DEFERRED",  # fails at the commit
        ):
            _change(ledger, "CREATE FUNCTION never() RETURNS trigger LANGUAGE plpgsql AS "
                            f"$$ BEGIN RAISE EXCEPTION '{SECRET}'; END $$",
                    f"{law} FOR EACH ROW EXECUTE FUNCTION never()")  # fmt: skip
            with pytest.raises(LedgerError, match="RaiseException") as error:
                ledger.spend("alice", 0.1)
            _says_nothing(error.value, [])
            assert ledger.account("alice").total == 100_000
            _change(ledger, "DROP FUNCTION never CASCADE")
        ledger.spend("alice", 0.1)
        assert ledger.account("alice").total == 200_000
        assert ledger.verify() == []


def test_connections_that_a_server_ended_are_opened_anew(url, caplog):  # noqa: F811
    if "://" not in url:
        pytest.skip("SQLite has no connection to lose")
    with Ledger(url) as ledger, Ledger(url) as other:
        ledger.open_account("alice", 1)
        ledger.spend("alice", 0.1)
        end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
        _change(other, f"{end} AND datname = current_database()")
        assert ledger.remaining("alice") == 0.9
        _change(other, f"{end} AND datname = current_database()")
        ledger.spend("alice", 0.1)
        _change(ledger, "SET idle_session_timeout = 20")
        time.sleep(0.5)
        ledger.spend("alice", 0.1)
        assert ledger.account("alice").total == 300_000
        assert ledger.verify() == []
    gc.collect()
    assert caplog.text == ""  # a driver's warnings would stand among the lines of a command


def test_a_server_that_answers_before_its_disk_is_told_to_wait(url):  # noqa: F811
    if "://" not in url:
        pytest.skip("SQLite is opened with full synchronisation")
    show = "SELECT current_setting('synchronous_commit')"
    for setting, wanted in (("off", "on"), ("remote_apply", "remote_apply"), ("local", "local")):
        with Ledger(url) as ledger:
            name = url.rsplit("/", 1)[1]
            _change(ledger, f"ALTER DATABASE {name} SET synchronous_commit = {setting}")
        with Ledger(url) as ledger, ledger._place.transaction() as connection:
            assert connection.execute(show).fetchone() == (wanted,)


def _change(ledger, *statements):
    with ledger._place.transaction(writes=True) as connection:
        for statement in statements:
            connection.execute(statement)
