"""Where a ledger lives: files, modes, copies, damage, and a head kept outside."""

import json
import multiprocessing
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import time

import psycopg
import pytest

from pufferkit import Ledger, LedgerError, MarkovChain, OverBudget, count
from pufferkit.account import ledger as ledger_module
from pufferkit.account import store
from pufferkit.account.ledger import Charge, Terms
from tests.account.test_ledger import _tamper, url  # noqa: F401
from tests.asking import Asking

CHAIN = MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
DATA = [0, 0, 0, 1, 1, 0] * 20


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.db"


def spent(path, times=3, **options):
    """A ledger with some entries."""
    with Ledger(path, **options) as ledger:
        ledger.open_account("alice", 1)
        for _ in range(times):
            ledger.spend("alice", 0.1)
    return path


# -- a ledger is made by its first entry ---------------------------------------------------------


def test_what_is_refused_writes_nothing(url, tmp_path):  # noqa: F811
    with Ledger(url) as ledger:
        session = Asking(DATA, CHAIN, 0.5, ledger, name="anna")
        session.plan(count(1, 120), 1.0)
        assert session.remaining == 0.5
        with pytest.raises(OverBudget):
            session.release(count(1, 120), 1.0)
        with pytest.raises(ValueError, match="nobody"):
            ledger.spend("nobody", 0.1)
        with pytest.raises(OverBudget):
            ledger.charge_many(
                [Charge("a", "k", 1, 2_000_000, {}, 0, Terms(500_000, "composed", {}))]
            )
        assert not ledger.exists
        assert ledger.accounts() == ledger.entries() == ledger.verify() == []
        # Corrected, it is another budget from the start.
        again = Asking(DATA, CHAIN, 1.5, ledger, name="anna")
        again.release(count(1, 120), 1.0)
        assert again.remaining == 0.5
    assert [p for p in os.listdir(tmp_path) if p.endswith(".new")] == []


def test_a_budget_is_changed_on_purpose_and_on_record(url):  # noqa: F811
    with Ledger(url, by="the board") as ledger:
        ledger.open_account("anna", 0.5)
        ledger.spend("anna", 0.4)
        account = ledger.change_budget("anna", 0.7, why="approved in May")
        assert (account.budget, account.remaining) == (700_000, 300_000)
        entry = ledger.entries("anna")[-1]
        assert (entry.kind, entry.made_by, entry.total) == ("budget", "the board", 400_000)
        assert entry.body == {"budget": 700_000, "was": 500_000, "why": "approved in May"}
        with pytest.raises(ValueError, match=r"0\.400 of 'anna' is spent already"):
            ledger.change_budget("anna", 0.399999)
        with pytest.raises(ValueError, match="nobody"):
            ledger.change_budget("nobody", 1)
        ledger.change_budget("anna", 0.4)
        with pytest.raises(OverBudget):
            ledger.spend("anna", 0.000001)
        assert ledger.verify() == []


@pytest.mark.parametrize("content", [b"", b"hello " * 1000, "foreign", "half"])
def test_an_empty_or_foreign_file_is_not_turned_into_a_ledger(path, content):
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        connection = sqlite3.connect(path)
        name = "notes" if content == "foreign" else "pufferkit_head"
        connection.execute(f"CREATE TABLE {name} (name text, value text)")
        connection.commit()
        connection.close()
    before = path.read_bytes()
    with pytest.raises(LedgerError, match=r"empty|not an SQLite|not a ledger"):
        Ledger(path)
    assert path.read_bytes() == before


def test_a_truncated_ledger_has_no_fresh_budget(path):
    spent(path, 10)
    os.truncate(path, 0)
    for left in ("-wal", "-shm"):
        path.with_name(path.name + left).unlink(missing_ok=True)
    with pytest.raises(LedgerError, match="is empty: it was truncated"):
        Ledger(path)


# -- names and keys ------------------------------------------------------------------------------


def test_a_spend_without_a_key_does_not_collide_with_a_key(url):  # noqa: F811
    with Ledger(url) as ledger:
        ledger.open_account("alice", 1)
        ledger.spend("alice", 0.1)
        ledger.spend("alice", 0.1)
        ledger.spend("alice", 0.1, key="2")
        ledger.spend("alice", 0.1, key="1")
        assert ledger.account("alice").total == 400_000
        with pytest.raises(ValueError, match="for something else"):
            ledger.spend("alice", 0.2, key="1")
        for key in (2, "", "x" * 65, "a\0b", "\ud800", True):
            with pytest.raises(ValueError, match="key: must be a name"):
                ledger.spend("alice", 0.1, key=key)
        assert ledger.verify() == []


def test_charges_have_text_for_keys_and_whole_amounts(url):  # noqa: F811
    with Ledger(url) as ledger:
        ledger.open_account("alice", 1, rule="composed")
        for wrong in ({"key": 5}, {"account": 5}, {"epsilon": 0.5}, {"total": True}, {"after": -1}):
            options = {"account": "alice", "key": "k", "epsilon": 1, "total": 1, "after": 1}
            with pytest.raises(ValueError, match=next(iter(wrong))):
                ledger.charge_many([Charge(**{**options, **wrong}, body={})])
        assert ledger.charge_many([Charge("alice", "5", 1, 1, {}, 1)])
        assert ledger.verify() == []


@pytest.mark.parametrize(
    "name", ["q?x=1.db", "100%.db", "a#b.db", "ü &=.db", "c:d.db", os.fsdecode(b"\xff.db")]
)
def test_a_path_is_a_path(tmp_path, name):
    spent(tmp_path / name)
    assert sorted(os.listdir(tmp_path)) == sorted([name, f"{name}.key"])
    with Ledger(tmp_path / name) as ledger:
        assert ledger.verify() == []
    with Ledger(f"sqlite:///{tmp_path / name}") as ledger:
        assert ledger.remaining("alice") == 0.7


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://user:hunter2@127.0.0.1:1/name",
        "postgresql://user:hunter2@[bad/name",
        "postgresql://user:hunter2@127.0.0.1:port/name",
        "mysql://user:hunter2@host/name",
        "postgresql+asyncpg://user:hunter2@host/name",
        "postgresql://user:hunter2@127.0.0.1:1/name?nonsense=1",
        "postgresql://user@127.0.0.1:1/name?password=hunter2",
        "postgre-sql://user:hunter2@host/name",
        "my.sql://user:hunter2@host/name",
        " postgresql://user:hunter2@host/name",
    ],
)
def test_passwords_are_in_no_error(address):
    with pytest.raises(ValueError, match="ledger") as error:
        Ledger(address)
    shown = "".join(str(part) for part in (error.value, error.value.__cause__))
    assert "hunter2" not in shown
    assert "hunter2" not in str(error.value.__context__ or "")


def test_what_no_database_keeps_is_refused_and_makes_nothing(tmp_path):
    path = tmp_path / "ledger.db"
    ledger = Ledger(path)
    for wrong, problem in (
        ({"account": "\ud800"}, "account: must be a name"),
        ({"budget": 1.1e12}, r"budget: must be at most 1e\+12"),
        ({"budget": 1e300}, "budget: must be at most"),
    ):
        with pytest.raises(ValueError, match=problem):
            ledger.open_account(**{"account": "alice", "budget": 1, **wrong})
    for by in ("x" * 201, "a\0b", 5):
        with pytest.raises(ValueError, match="by: must be a name"):
            Ledger(path, by=by)
    assert list(tmp_path.iterdir()) == []


def test_details_of_a_spend_do_not_pass_for_words_of_the_ledger(path):
    with Ledger(path) as ledger:
        ledger.open_account("alice", 1)
        for name in ("state", "opens"):
            with pytest.raises(ValueError, match=f"^{name}: is a name that the ledger uses"):
                ledger.spend("alice", 0.1, **{name: {"entries": 1}})
        ledger.spend("alice", 0.1, place="here")
        assert ledger.account("alice").total == 100_000
        assert ledger.verify() == []


def test_words_of_unknown_drivers_are_not_quoted(path):
    """Only what a server says when it is opened: nothing was sent by then."""
    lost = psycopg.OperationalError("value 17")
    server = store.Server("postgresql://anna:secret@localhost/x")
    file = store.SQLiteFile(str(path))
    assert ledger_module._words(file, lost, unopened=True) == "OperationalError"
    assert ledger_module._words(server, ValueError("value 17"), unopened=True) == "ValueError"
    assert (
        ledger_module._words(server, lost, unopened=False)
        == "the connection to the server was lost"
    )
    said = psycopg.OperationalError("no host  x for secret")
    assert ledger_module._words(server, said, unopened=True) == "no host x for ***"
    open_to_all = store.Server("postgresql://anna@localhost/x")
    assert ledger_module._words(open_to_all, said, unopened=True) == "no host x for secret"


def test_what_is_made_is_for_its_owner_alone(tmp_path):
    before = os.umask(0)
    try:
        for umask in (0, 0o777):
            os.umask(umask)
            place = tmp_path / str(umask)
            os.mkdir(place)
            os.chmod(place, 0o700)
            ledger = Ledger(place / "l.db", anchor=place / "head", anchor_key=place / "head.key")
            ledger.open_account("alice", 1)
            other = sqlite3.connect(place / "l.db")
            other.execute("SELECT * FROM pufferkit_head").fetchone()
            ledger.spend("alice", 0.1)
            modes = {p: stat.S_IMODE(os.stat(place / p).st_mode) for p in os.listdir(place)}
            other.close()
            assert {"l.db", "l.db-wal", "l.db.key", "head", "head.key"} <= set(modes)
            assert set(modes.values()) == {0o600}
    finally:
        os.umask(before)


# -- damage --------------------------------------------------------------------------------------


@pytest.mark.parametrize("with_log", [False, True])
def test_a_ledger_on_a_read_only_mount_is_verified(path, monkeypatch, with_log):
    ledger = Ledger(path)
    ledger.open_account("alice", 1)
    reader = sqlite3.connect(path) if with_log else None
    if reader is not None:
        reader.execute("SELECT count(*) FROM pufferkit_head").fetchone()  # keeps the log
    ledger.spend("alice", 0.1)
    ledger.close()
    place = path.parent / "mounted"
    shutil.copytree(path.parent, place, ignore=shutil.ignore_patterns("mounted", "*-shm"))
    if reader is not None:
        reader.close()
    assert (place / "ledger.db-wal").exists() == with_log
    os.chmod(place, 0o500)
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    before = sorted(os.listdir(place))
    with Ledger(place / "ledger.db") as mounted:
        assert mounted.verify() == []
        assert mounted.remaining("alice") == 0.9
        assert mounted.verify(head=ledger.head) == []
        with pytest.raises(LedgerError, match=r"read-only|write"):
            mounted.spend("alice", 0.1)
    os.chmod(place, 0o700)
    assert sorted(os.listdir(place)) == before


def test_who_may_only_read_sees_what_others_write(path, monkeypatch):
    with Ledger(path) as writer:
        writer.open_account("alice", 1)
        reader = Ledger(path)
        monkeypatch.setattr(os, "access", lambda *_, **__: False)
        reader._place.held = True
        assert reader.remaining("alice") == 1
        monkeypatch.undo()
        writer.spend("alice", 0.4)
        monkeypatch.setattr(os, "access", lambda *_, **__: False)
        assert reader.remaining("alice") == 0.6
        reader.close()


def test_a_corrupted_page_is_a_plain_error(path):
    with Ledger(path) as ledger:
        ledger.open_account("alice", 1)
        for _ in range(30):
            ledger.spend("alice", 0.01, what="x" * 3000)
    with path.open("r+b") as stream:
        stream.seek(4096 * 3)
        stream.write(os.urandom(4096 * (path.stat().st_size // 4096 - 4)))
    with pytest.raises(LedgerError, match="damaged"), Ledger(path) as ledger:
        ledger.entries()
    with pytest.raises(LedgerError, match="damaged"), Ledger(path) as ledger:
        ledger.verify()


def test_a_missing_head_and_a_text_that_cannot_be_read_are_problems(url):  # noqa: F811
    with Ledger(url) as ledger:
        ledger.open_account("alice", 1)
        ledger.spend("alice", 0.1)
        _tamper(ledger, "DELETE FROM pufferkit_head")
        assert ledger.verify() == ["the head is missing; the ledger was damaged"]
        with pytest.raises(LedgerError, match="head is missing"):
            ledger.spend("alice", 0.1)
        _tamper(ledger, "UPDATE pufferkit_entries SET body = '{oh' WHERE seq = 2")
        assert "entry 2 was changed: it cannot be read" in ledger.verify()
        with pytest.raises(LedgerError, match="entry 2 was changed"):
            ledger.entries()


def _spend_on(place, stop):
    with Ledger(place) as ledger:
        while not stop.is_set():
            ledger.spend("alice", 0.000001)


@pytest.mark.slow
def test_verify_sees_one_moment_while_others_spend(url):  # noqa: F811
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    with Ledger(url) as ledger:
        ledger.open_account("alice", 1)
        worker = context.Process(target=_spend_on, args=(url, stop))
        worker.start()
        try:
            while len(ledger.entries()) < 3:
                pass
            seen = []
            while len(seen) < 25 or len({look.entries for look in seen}) < 5:
                seen.append(ledger.examine())
        finally:
            stop.set()
            worker.join()
        assert {look.problems for look in seen} == {()}
        assert ledger.verify(head=seen[0].head) == []


# -- a head kept outside -------------------------------------------------------------------------


@pytest.fixture
def anchored(path, tmp_path):
    options = {"anchor": tmp_path / "head", "anchor_key": tmp_path / "head.key"}
    spent(path, 3, **options)
    return options


def set_back(path, how, old):
    if how == "backup":
        shutil.copyfile(old, path)
    elif how == "tail":
        with sqlite3.connect(path) as connection:
            connection.execute("DELETE FROM pufferkit_entries WHERE seq > 4")
            digest = connection.execute("SELECT digest FROM pufferkit_entries WHERE seq = 4")
            connection.execute("UPDATE pufferkit_head SET seq = 4, digest = ?", digest.fetchone())
        connection.close()
    elif how == "gone":
        path.unlink()


@pytest.mark.parametrize("how", ["backup", "tail", "gone", "log"])
def test_a_ledger_that_was_set_back_is_noticed(path, anchored, tmp_path, how):
    old = tmp_path / "old.db"
    shutil.copyfile(path, old)
    if how == "log":
        # Killed before the log was merged; then the log is deleted.
        other = sqlite3.connect(path)
        other.execute("BEGIN")
        other.execute("SELECT count(*) FROM pufferkit_entries").fetchone()
    with Ledger(path, **anchored) as ledger:
        ledger.spend("alice", 0.1)
        if how == "log":
            shutil.copyfile(path, old)
    if how == "log":
        other.close()
        for left in ("", "-wal", "-shm"):
            path.with_name(path.name + left).unlink(missing_ok=True)
        shutil.copyfile(old, path)
    if how == "tail":
        with Ledger(path) as ledger:
            assert len(ledger.entries()) == 6
        anchored_seq = json.loads((tmp_path / "head").read_text())["seq"]
        assert anchored_seq == 6
    set_back(path, how, old)
    with pytest.raises(LedgerError, match=r"set back or rewritten.*holds entry 6"):
        Ledger(path, **anchored)
    if how != "gone":
        with Ledger(path) as blind:  # without the anchor nothing shows
            blind.accounts()


def test_an_anchor_may_be_behind_and_never_ahead(path, anchored, tmp_path):
    held = (tmp_path / "head").read_bytes()
    with Ledger(path, **anchored) as ledger:
        entry = ledger.spend("alice", 0.1, key="k")
        assert json.loads((tmp_path / "head").read_text())["digest"] == entry.digest
    (tmp_path / "head").write_bytes(held)  # as after a crash between commit and anchor
    with Ledger(path, **anchored) as ledger:
        assert ledger.verify() == []
        assert (tmp_path / "head").read_bytes() == held  # looking moves nothing
        assert ledger.spend("alice", 0.1, key="k") == entry
        assert json.loads((tmp_path / "head").read_text())["seq"] == 6
    with Ledger(path) as without:
        without.spend("alice", 0.1)
    with Ledger(path, **anchored) as ledger:
        ledger.spend("alice", 0.1)
        assert json.loads((tmp_path / "head").read_text())["seq"] == 8


def test_anchors_that_are_missing_forged_or_foreign(path, anchored, tmp_path):
    head = tmp_path / "head"
    held = head.read_text()
    for text in ("", "{}", held.replace('"seq":5', '"seq":4'), "[]"):
        head.write_text(text)
        with pytest.raises(LedgerError, match="anchor"):
            Ledger(path, **anchored)
    head.write_text(held)
    with pytest.raises(LedgerError, match="give the key"):
        Ledger(path, anchor=head)
    (tmp_path / "head.key").write_text("00" * 32)
    with pytest.raises(LedgerError, match="not written with this key"):
        Ledger(path, **anchored)
    with Ledger(path, anchor=tmp_path / "new") as ledger:
        with pytest.raises(LedgerError, match="does not exist, but the ledger has 5 entries"):
            ledger.spend("alice", 0.1)
        ledger.make_anchor()
        ledger.spend("alice", 0.1)
        with pytest.raises(ValueError, match="already exists"):
            ledger.make_anchor()
    with pytest.raises(ValueError, match="folder"):
        Ledger(path, anchor=tmp_path / "no" / "head")


def test_an_anchor_that_cannot_be_written_hands_nothing_over(path, tmp_path, monkeypatch):
    ledger = Ledger(path, anchor=tmp_path / "head")
    session = Asking(DATA, CHAIN, 1.0, ledger, name="alice")
    shown = []
    with monkeypatch.context() as patch:

        def full(*_):
            raise OSError(28, "No space left on device")

        patch.setattr("pufferkit.account.chain.private_file", full)
        with pytest.raises(LedgerError, match="anchor"):
            shown.append(session.release(count(0, 120), 0.1))
        assert not ledger.exists
        patch.undo()
        session.release(count(0, 120), 0.1)
        patch.setattr("pufferkit.account.chain.private_file", full)
        for _ in range(2):
            with pytest.raises(LedgerError, match="Asking again is safe"):
                shown.append(session.release(count(1, 120), 0.4))
    assert shown == []
    stored = ledger.entries()[-1]
    assert list(session.release(count(1, 120), 0.4).value) == stored.value["value"]
    assert json.loads((tmp_path / "head").read_text())["seq"] == stored.seq
    assert len(session.history) == 2
    (tmp_path / "head").unlink()
    with pytest.raises(LedgerError, match="does not exist, but the ledger has 4 entries"):
        session.release(count(1, 120), 0.4)


# -- open while one charge follows another -------------------------------------------------------


def test_a_file_at_rest_is_closed_and_complete(path):
    ledger = Ledger(path)
    ledger.open_account("alice", 1)
    for _ in range(3):
        ledger.spend("alice", 0.1)
    log = path.with_name(path.name + "-wal")
    for _ in range(1000):
        if not log.exists():
            break
        time.sleep(0.01)
    assert not log.exists()
    copy = path.with_name("copy.db")
    shutil.copyfile(path, copy)
    assert Ledger(copy).remaining("alice") == 0.7
    assert ledger.spend("alice", 0.1).seq == 6


def test_the_file_is_closed_when_the_process_ends(path):
    program = (
        "import sys; from pufferkit import Ledger; ledger = Ledger(sys.argv[1])\n"
        "ledger.open_account('alice', 1)\n"
        "for _ in range(5): ledger.spend('alice', 0.1)\n"
    )
    subprocess.run([sys.executable, "-c", program, str(path)], check=True)
    assert not path.with_name(path.name + "-wal").exists()
    assert Ledger(path).remaining("alice") == 0.5
