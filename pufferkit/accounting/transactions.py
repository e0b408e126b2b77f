"""The transactions of a ledger: snapshots, writes under the lock, and what goes wrong with them.

Reading a ledger that does not exist does not create it: until the first entry is written it reads
as an empty one. A file that exists must be a ledger. An empty or foreign file is refused, because
a truncated ledger would otherwise come back with its budgets unspent. Anchors are checked and
advanced here.

Error messages of a driver can quote the data being written. They never leave this module, which
raises a `LedgerError` with a message of its own instead.
"""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from pufferkit.accounting.anchor import START, Anchor, Head
from pufferkit.accounting.following import append_after
from pufferkit.accounting.keys import name_keys, named_keys
from pufferkit.accounting.ledger_places import DriverError, Place, Server, empty
from pufferkit.accounting.ledger_tables import SCHEMA_VERSION, Connection
from pufferkit.accounting.recognition import Recognition
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


class Transactions:
    """The transactions of one ledger."""

    def __init__(
        self, place: Place, recognition: Recognition, anchor: Anchor | None, by: str
    ) -> None:
        self.place, self.recognition, self.anchor, self._by = place, recognition, anchor, by
        self._made = False

    def read(self, act: Callable[[Connection], Answered], *, settle: bool = False) -> Answered:
        """``act`` on one snapshot, which must hold the head in the anchor.

        With ``settle``, used for values that will be handed over, the anchor catches up after a
        crash between commit and anchor.
        """
        anchor = self.anchor
        held = None if anchor is None else anchor.read()  # before the snapshot: never ahead of it
        there = self.exists()

        def looked() -> tuple[Answered, Head | None]:
            with self.place.transaction() if there else empty() as connection:
                if anchor is None:
                    return act(connection), None
                if held is not None or settle:
                    anchor.check(connection, held)
                return act(connection), Head(*connection.head)

        result, head = self._guarded(looked, "read")
        if settle and anchor is not None and head is not None and head != START:
            anchor.advance(head)
        return result

    def write(self, act: Callable[[Connection], Answered]) -> Answered:
        """``act`` in a transaction that holds the write lock from its start.

        The transaction is repeated after a serialisation failure, a deadlock or a lost connection.
        The earlier commit may have taken effect, so ``act`` must first look for what it is about to
        write. The anchor advances after the commit.
        """
        place, anchor = self.place, self.anchor

        def checked(connection: Connection) -> tuple[Answered, Head]:
            if anchor is not None:
                anchor.check(connection, anchor.read())
            return act(connection), Head(*connection.head)

        def locked() -> tuple[Answered, Head]:
            current, place.current = place.current, False  # known again if all goes well
            with place.transaction(writes=True) as connection:
                connection.lock()
                version = connection.ask("schema")
                if not current:
                    self._name_keys(connection)
                result = checked(connection)
                if current and version() != str(SCHEMA_VERSION):
                    raise LedgerError(
                        f"ledger: {place.name} was replaced, or changed by another version of "
                        "pufferkit; nothing was written. Ask again"
                    )
            place.current = True
            return result

        if not self.exists():
            # What an empty ledger would refuse is refused before a ledger is created.
            with empty(trial=True) as connection:
                checked(connection)
            if anchor is not None and anchor.read() is None:
                anchor.make(START)
            self._guarded(place.make, "create", "no ledger was created")
        result, head = self._guarded(
            locked,
            "write",
            "nothing was handed over. Asking again is safe: a stored answer is returned unchanged",
        )
        self._made = True
        if anchor is not None and head != START:
            anchor.advance(head)
        return result

    def make_anchor(self) -> None:
        """Create the anchor of a ledger that has entries; the chain names its key."""
        anchor = self.anchor
        assert anchor is not None
        if anchor.read() is not None:
            raise ValueError(f"anchor: {anchor.path} already exists and was not changed")
        anchor.make_key()
        head = START
        if self.exists():

            def named() -> Head:
                with self.place.transaction(writes=True) as connection:
                    connection.lock()
                    self._name_keys(connection, deliberately=True)
                    return Head(*connection.head)

            head = self._guarded(named, "write", "no anchor was created")
        anchor.make(head)

    def _name_keys(self, connection: Connection, *, deliberately: bool = False) -> None:
        """Name in the chain the keys it does not know yet; the caller holds the write lock.

        The key of an anchor is named by the first entry, or deliberately.
        """
        known = named_keys(connection)
        data = self.recognition.new_key(connection, known)
        signed = None if self.anchor is None else self.anchor.key_name
        anchor = signed if deliberately or not known.entries else None
        if anchor in known.anchors:
            anchor = None
        if not known.entries or data is not None or anchor is not None:
            name_keys(connection, self._by, known, data, anchor)

    def follow(self, head: tuple[int, str], row: Sequence[Any]) -> bool:
        """Append one entry if the ledger still ends at ``head``.

        ``False`` if nothing was written, or if that is not known; `write` then looks for it.
        """
        if not self.place.current or self.anchor is not None:
            return False
        try:
            with self.place.transaction(writes=True, single=True) as connection:
                return append_after(connection, head, row)
        except DriverError:
            return False

    def exists(self) -> bool:
        """Whether there is a ledger; raises for anything else, and for one of a later version."""
        if not self._made:
            ledger = self._guarded(self.place.is_ledger, "open")
            if ledger is False:
                raise LedgerError(
                    f"ledger: cannot open {self.place.name}: this database is not a ledger of "
                    "pufferkit, or its tables were removed; it was not changed. To create a "
                    "ledger, name a new file"
                )
            self._made = ledger is True
        return self._made

    def _guarded(self, act: Callable[[], Answered], doing: str, assurance: str = "") -> Answered:
        """``act``, repeated where that helps; errors of the driver become a `LedgerError`.

        It is raised outside the handler, so that it carries no reference to the driver's error.
        """
        words = ""
        for turn in range(_TRIES):
            try:
                return act()
            except DriverError as error:
                words = _words(self.place, error.origin, unopened=error.unopened)
                again = error.lost or getattr(error.origin, "sqlstate", None) in _AGAIN
            if not again:
                break
            time.sleep(random.uniform(0.01, 0.05) * 2**turn)
        assurance = f"; {assurance}" if assurance else ""
        raise LedgerError(f"ledger: cannot {doing} {self.place.name}: {words}{assurance}")


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
