"""Within a with block the file stays open: forks, threads, and files that are replaced."""

import os
import shutil
import threading

import pytest

from pufferkit import Ledger, LedgerError
from tests.account.test_ledger import url  # noqa: F401


@pytest.fixture
def path(tmp_path):
    with Ledger(tmp_path / "l.db") as ledger:
        ledger.open_account("a", 10)
    return tmp_path / "l.db"


def connections(ledger):
    return len(ledger._place._idle)


def test_the_connection_is_kept_and_let_go(path):
    with Ledger(path) as ledger:
        for _ in range(5):
            ledger.spend("a", 0.1)
        assert connections(ledger) == 1
        assert path.with_name("l.db-wal").exists()
    assert not path.with_name("l.db-wal").exists()  # all of it is in the file
    with Ledger(path) as ledger:
        assert ledger.verify() == []
        assert ledger.remaining("a") == 9.5


def test_children_of_a_fork_spend_with_connections_of_their_own(url):  # noqa: F811
    with Ledger(url) as ledger:
        ledger.open_account("a", 10)
        ledger.spend("a", 0.1)
        children = []
        for _ in range(3):
            child = os.fork()
            if child == 0:
                try:
                    for _ in range(4):
                        ledger.spend("a", 0.1)
                    os._exit(0)
                finally:
                    os._exit(1)
            children.append(child)
        for _ in range(4):
            ledger.spend("a", 0.1)
        assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
        ledger.spend("a", 0.1)
        assert ledger.remaining("a") == pytest.approx(10 - 1.8)
        assert ledger.verify() == []


def test_threads_share_a_ledger(path):
    with Ledger(path) as ledger:

        def spend():
            for _ in range(5):
                ledger.spend("a", 0.1)

        threads = [threading.Thread(target=spend) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert ledger.remaining("a") == pytest.approx(8)
        assert ledger.verify() == []


def test_a_file_that_was_replaced_is_opened_anew(path, tmp_path):
    with Ledger(tmp_path / "other.db") as other:
        other.open_account("a", 10)
        other.spend("a", 5)
    with Ledger(path) as ledger:
        ledger.spend("a", 1)
        shutil.move(tmp_path / "other.db", path)
        for left in ("-wal", "-shm"):
            path.with_name(path.name + left).unlink(missing_ok=True)
        assert ledger.remaining("a") == 5
        path.unlink()
        with pytest.raises(LedgerError, match="cannot be opened"):
            ledger.spend("a", 1)
        path.write_bytes(b"")
        with pytest.raises(LedgerError, match="is empty"):
            ledger.spend("a", 1)
