"""The entry after one that this process wrote, appended without reading anything.

Who wrote the last entry of a ledger knows its head, and the balances of accounts as of that head.
The next entry is made from them and written on the condition that this head is still stored, the
tables have the version they had, and the key is new: one statement on PostgreSQL, which is its own
transaction, or three under the write lock on SQLite. The head changes with every entry, so what
another process wrote in between makes the condition false. Then nothing is written, and the entry
is made from what is read under the lock.

On PostgreSQL the condition is checked again after the statement waited for another writer. What it
reads besides the head's row is then as old as the statement, which began after this process had
written that head: it is not older than what it is compared with.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pufferkit.account.chain import Balance, Entry
from pufferkit.account.store import SCHEMA_VERSION, Connection

_MOST = 1000
"""Accounts whose balance is remembered."""

_HEAD = (
    "UPDATE pufferkit_head SET seq = ?, digest = ? WHERE id = ? AND seq = ? AND digest = ? "
    "AND EXISTS (SELECT 1 FROM pufferkit_meta WHERE name = 'schema' AND value = ?) "
    "AND NOT EXISTS (SELECT 1 FROM pufferkit_entries WHERE account = ? AND kind = ? AND key = ?)"
)
_FIELDS = ", ".join("?" * len(Entry._fields))
_ENTRY = f"INSERT INTO pufferkit_entries VALUES ({_FIELDS})"
_ALL = (
    f"WITH head AS ({_HEAD} RETURNING seq) INSERT INTO pufferkit_entries SELECT {_FIELDS} FROM head"
)


class LastWritten:
    """The head that this process wrote last, and balances as of it.

    Another thread may change one of the two in between: what does not fit together is not stored
    together either, so the condition is false.
    """

    def __init__(self) -> None:
        self.head = (0, "")
        self._accounts: dict[str, Balance] = {}

    def account(self, name: str) -> Balance | None:
        """The balance of an account, if it is known."""
        return self._accounts.get(name)

    def wrote(self, entry: Entry, account: Balance) -> None:
        """Note an entry and the balance after it.

        Balances are worth remembering while nobody else writes.
        """
        alone = entry.previous == self.head[1] and len(self._accounts) < _MOST
        self._accounts = self._accounts if alone else {}
        if alone:
            self._accounts[account.account] = account
        self.head = (entry.seq, entry.digest)


def append_after(connection: Connection, head: tuple[int, str], row: Sequence[Any]) -> bool:
    """Append the row of an entry that follows ``head``; ``False`` if something has changed."""
    name, kind, key = row[1:4]
    version = SCHEMA_VERSION
    moved = (row[0], row[-1], version, *head, str(version), name, kind, key)
    if connection.server:
        return bool(connection.execute(_ALL, (*moved, *row)).rowcount)
    if not connection.execute(_HEAD, moved).rowcount:
        return False
    connection.execute(_ENTRY, row)
    return True
