"""The transactions of a ledger, and what goes wrong with them.

A ledger that does not exist is not made by looking at it: until the first entry is written it reads
as an empty one. A file that exists must be a ledger. An empty or a foreign one is refused, because
a truncated ledger would otherwise come back with its budgets whole.

Errors of a driver can quote what was being written. None of them leaves this file; what does is a
`LedgerError` in words of our own.
"""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Callable
from typing import TypeVar

from pufferkit.accounting import ledger_tables
from pufferkit.accounting.ledger_places import DriverError, Place, Server
from pufferkit.accounting.ledger_tables import Connection
from pufferkit.errors import LedgerError

_TRIES = 6
_AGAIN = frozenset({"40001", "40P01"})  # serialisation failure, deadlock
_SQLITE = {
    "SQLITE_FULL": "the disk is full",
    "SQLITE_CORRUPT": "the file is damaged; restore a backup and compare it with a noted head",
    "SQLITE_NOTADB": "the file is not an SQLite database",
    "SQLITE_READONLY": "the file or its folder is read-only",
    "SQLITE_BUSY": "another process holds the lock for too long",
    "SQLITE_LOCKED": "another process holds the lock for too long",
    "SQLITE_CANTOPEN": "the file cannot be opened",
    "SQLITE_IOERR": "the disk does not read or write",
}

Answered = TypeVar("Answered")


def write(place: Place, act: Callable[[Connection], Answered]) -> Answered:
    """Carry out ``act`` in a transaction that holds the write lock from its start.

    It is done again after a serialisation failure, a deadlock or a lost connection. The commit may
    then have taken effect before, so ``act`` must look first for what it is about to write.
    """

    def locked() -> Answered:
        current, place.current = place.current, False  # known again if all goes well
        with place.transaction(writes=True) as connection:
            connection.lock()
            version = connection.ask("schema")
            if not current:
                ledger_tables.migrate(connection)
            result = act(connection)
            if current and version() != str(ledger_tables.SCHEMA_VERSION):
                raise LedgerError(
                    f"ledger: {place.name} was replaced, or changed by another version of "
                    "pufferkit; nothing was written. Ask again"
                )
        place.current = True
        return result

    assurance = (
        "nothing was handed over, and asking again is safe: what was stored is given as it is"
    )
    return _guarded(place, locked, "write", assurance)


def read(place: Place, act: Callable[[Connection], Answered]) -> Answered:
    """Carry out ``act`` on one snapshot."""

    def looked() -> Answered:
        with place.transaction() as connection:
            return act(connection)

    return _guarded(place, looked, "read")


def exists(place: Place) -> bool:
    """Whether there is a ledger; an error if there is something else, or one of a later version."""

    def looked() -> tuple[bool, int | None]:
        if not place.exists():
            return False, None
        with place.transaction() as connection:
            return True, ledger_tables.version_of(connection)

    there, version = _guarded(place, looked, "open")
    if there and version is None:
        raise LedgerError(
            f"ledger: cannot open {place.name}: this database is not a ledger of pufferkit, or its "
            "tables were removed; it is left as it is. Name a file that does not exist to make one"
        )
    return there


def make(place: Place) -> None:
    """Make a ledger where there is none."""
    assurance = "no ledger was made"
    try:
        _guarded(place, place.make, "make", assurance)
    except OSError as error:
        raise LedgerError(
            f"ledger: cannot make {place.name} ({type(error).__name__}); {assurance}"
        ) from None


def _guarded(
    place: Place, act: Callable[[], Answered], doing: str, assurance: str = ""
) -> Answered:
    """``act``, tried again where that helps; errors of the driver in words of our own.

    They are raised after their handler, so that nothing of the driver's hangs on to them.
    """
    words = ""
    for turn in range(_TRIES):
        try:
            return act()
        except DriverError as error:
            words = _words(place, error.origin, unopened=error.unopened)
            again = error.lost or getattr(error.origin, "sqlstate", None) in _AGAIN
        if not again:
            break
        time.sleep(random.uniform(0.01, 0.05) * 2**turn)
    assurance = f"; {assurance}" if assurance else ""
    raise LedgerError(f"ledger: cannot {doing} {place.name}: {words}{assurance}")


def _words(place: Place, origin: Exception, *, unopened: bool) -> str:
    """What is wrong; never what was being written, nor a password."""
    name = getattr(origin, "sqlite_errorname", None)
    if name is not None:
        known = next((words for code, words in _SQLITE.items() if name.startswith(code)), None)
        return f"{known} ({name})" if known else name
    state = getattr(origin, "sqlstate", None)
    if state is not None:
        return f"the database server answers {type(origin).__name__} ({state})"
    if isinstance(origin, sqlite3.Error):
        return f"SQLite answers {type(origin).__name__}"
    if isinstance(place, Server) and isinstance(origin, place.unreachable):
        if not unopened:
            return "the connection to the server was lost"
        # Nothing was sent yet, and the text names host and reason only.
        text = " ".join(str(origin).split())[:200]
        return text.replace(place.password, "***") if place.password else text
    return f"{type(origin).__name__}"
