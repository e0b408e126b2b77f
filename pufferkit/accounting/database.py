"""The transactions of a ledger, and what goes wrong with them.

Reading a ledger that does not exist does not create it: until the first entry is written it reads
as an empty one. A file that exists must be a ledger. An empty or foreign file is refused, because
a truncated ledger would otherwise come back with its budgets unspent.

Error messages of a driver can quote the data being written. They never leave this module, which
raises a `LedgerError` with a message of its own instead.
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
    "SQLITE_IOERR": "the disk cannot be read or written",
}

Answered = TypeVar("Answered")


def write(place: Place, act: Callable[[Connection], Answered]) -> Answered:
    """Carry out ``act`` in a transaction that holds the write lock from its start.

    The transaction is repeated after a serialisation failure, a deadlock or a lost connection. The
    earlier commit may have taken effect, so ``act`` must first look for what it is about to write.
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
        "nothing was handed over. Asking again is safe: a stored answer is returned unchanged"
    )
    return _guarded(place, locked, "write", assurance)


def read(place: Place, act: Callable[[Connection], Answered]) -> Answered:
    """Carry out ``act`` on one snapshot."""

    def looked() -> Answered:
        with place.transaction() as connection:
            return act(connection)

    return _guarded(place, looked, "read")


def exists(place: Place) -> bool:
    """Whether there is a ledger; raises for anything else, and for one of a later version."""

    def looked() -> tuple[bool, int | None]:
        if not place.exists():
            return False, None
        with place.transaction() as connection:
            return True, ledger_tables.version_of(connection)

    there, version = _guarded(place, looked, "open")
    if there and version is None:
        raise LedgerError(
            f"ledger: cannot open {place.name}: this database is not a ledger of pufferkit, or its "
            "tables were removed; it was not changed. To create a ledger, name a new file"
        )
    return there


def make(place: Place) -> None:
    """Create a ledger where there is none."""
    assurance = "no ledger was created"
    try:
        _guarded(place, place.make, "create", assurance)
    except OSError as error:
        raise LedgerError(
            f"ledger: cannot create {place.name} ({type(error).__name__}); {assurance}"
        ) from None


def _guarded(
    place: Place, act: Callable[[], Answered], doing: str, assurance: str = ""
) -> Answered:
    """``act``, repeated where that helps; errors of the driver become a `LedgerError`.

    It is raised outside the handler, so that it carries no reference to the driver's error.
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
    """The reason, without the data that were being written and without a password."""
    name = getattr(origin, "sqlite_errorname", None)
    if name is not None:
        known = next((words for code, words in _SQLITE.items() if name.startswith(code)), None)
        return f"{known} ({name})" if known else name
    state = getattr(origin, "sqlstate", None)
    if state is not None:
        return f"the database server reports {type(origin).__name__} ({state})"
    if isinstance(origin, sqlite3.Error):
        return f"SQLite reports {type(origin).__name__}"
    if isinstance(place, Server) and isinstance(origin, place.unreachable):
        if not unopened:
            return "the connection to the server was lost"
        # Nothing has been sent yet, so the text names only the host and the reason.
        text = " ".join(str(origin).split())[:200]
        return text.replace(place.password, "***") if place.password else text
    return f"{type(origin).__name__}"
