"""Ctrl-C at every statement and line of a charge: rolled back, and the lock is free at once."""

import linecache
import sqlite3
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

import pufferkit as pk
from pufferkit import Ledger, MarkovChain, count
from pufferkit.account.store import Connection
from tests.account.test_ledger import url  # noqa: F401
from tests.asking import Asking

CHAIN = MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
DATA = [0, 0, 1, 1, 0, 1, 0, 0, 0, 1, 1, 1]
ROOM = str(Path(pk.__file__).parent / "account")


def _is_with(frame):
    """Whether a frame is at a ``with``: when it leaves the block, a tracer strikes before
    ``__exit__`` is called, where a signal cannot."""
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
    return line.lstrip().startswith("with ")


class Interrupt:
    """Raises once, at one of the lines or statements that run, counted from 1."""

    def __init__(self, at, kind):
        self.at, self.kind, self.seen = at, kind, 0

    def __call__(self):
        self.seen += 1
        if self.seen == self.at:
            raise self.kind

    @property
    def struck(self):
        return self.seen >= self.at

    def at_lines(self, act):
        def trace(frame, event, _):
            if not frame.f_code.co_filename.startswith(ROOM):
                return None
            if event == "line" and not _is_with(frame):
                self()
            return trace

        sys.settrace(trace)
        try:
            act()
        finally:
            sys.settrace(None)

    def at_statements(self, act, *, after):
        def around(real):
            def called(*arguments, **options):
                if not after:
                    self()
                answer = real(*arguments, **options)
                if after:
                    self()
                return answer

            return called

        with pytest.MonkeyPatch.context() as patch:
            for name in ("execute", "put", "commit"):
                patch.setattr(Connection, name, around(getattr(Connection, name)))
            act()


def lock_is_free(place):
    """Whether somebody else can take the write lock now."""
    if "://" not in place:
        other = sqlite3.connect(place, isolation_level=None, timeout=0)
        try:
            other.execute("BEGIN IMMEDIATE")
            other.execute("ROLLBACK")
        except sqlite3.OperationalError:
            return False
        finally:
            other.close()
        return True
    for _ in range(100):  # a server ends a closed connection in its own process
        try:
            with psycopg.connect(place) as other:
                other.execute("SELECT * FROM pufferkit_head FOR UPDATE NOWAIT")
        except psycopg.errors.LockNotAvailable:
            time.sleep(0.02)
        else:
            return True
    return False


def interrupted(act, interrupt, how):
    """The interrupt, with all frames that it passed through; ``None`` if it did not strike."""
    try:
        if how == "line":
            interrupt.at_lines(act)
        else:
            interrupt.at_statements(act, after=how == "after")
    except (KeyboardInterrupt, SystemExit, GeneratorExit) as error:
        return error
    return None


def spend(ledger, n):
    ledger.spend("alice", 0.001, key=f"{n}")


def release(ledger, n):
    session = Asking(DATA, CHAIN, 1e6, ledger, name="anna")
    session.release(count(1, 12), 0.4, mechanism="group_dp", label=f"{n}")


def check(url, act, how, kind, steps):  # noqa: F811
    with Ledger(url) as ledger:
        ledger.open_account("alice", 1000)
        act(ledger, "first")
        for at in steps:
            interrupt = Interrupt(at, kind)
            error = interrupted(lambda at=at: act(ledger, at), interrupt, how)
            assert lock_is_free(url), at  # while the error lives
            if error is not None and at % 7 == 0:
                ledger.spend("alice", 0.001)  # and this process goes on
            if not interrupt.struck:
                break
        else:
            pytest.fail("there is more to interrupt")
        assert at > 10  # it struck
        act(ledger, "last")
        assert ledger.verify() == []
        charges = [e.key for e in ledger.entries() if e.kind == "charge"]
        assert len(charges) == len(set(charges))


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("how", ["before", "after"])
@pytest.mark.parametrize("act", [spend, release])
def test_an_interrupt_at_a_statement_frees_the_lock(url, act, how, kind):  # noqa: F811
    check(url, act, how, kind, range(1, 200))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("act", [spend, release])
def test_an_interrupt_at_any_line_frees_the_lock(url, act):  # noqa: F811
    every = 1 if act is spend else 13  # a release has a thousand lines
    steps = range(1, 5000, every)
    # An interrupt where a handler ends leaves its exception in the thread for ever (Python 3.11).
    with ThreadPoolExecutor(1) as thread:
        thread.submit(check, url, act, "line", KeyboardInterrupt, steps).result()
