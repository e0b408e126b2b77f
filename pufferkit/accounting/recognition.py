"""Recognition of data by the ledger: its key, the marks of charges, and refusals."""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pufferkit.accounting.charges import Charge
from pufferkit.accounting.entries import (
    DATA_MARKS,
    Draft,
    digest_at,
    entries_named,
    mark_texts,
    marks_named,
)
from pufferkit.accounting.fingerprints import (
    Data,
    KnownData,
    Marks,
    marks_of,
    rows_named,
    same_data,
)
from pufferkit.accounting.keys import KEY_SIZE, Keys, key_name, make_key, named_keys, read_key
from pufferkit.accounting.ledger_tables import Connection
from pufferkit.errors import LedgerError


class Recognition:
    """Recognises data with the key in ``path``; not at all if that is ``None``."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._others: _Others | None = None
        self._reading = threading.Lock()

    def new_key(self, connection: Connection, known: Keys) -> str | None:
        """The name of the key of a ledger that has none yet; ``None`` if it has, or gets none."""
        if self.path is None or known.data is not None:
            return None
        if known.entries and marks_named(connection):
            raise LedgerError(
                "ledger: it has marks of data, but no entry names their key, so it was damaged; "
                "restore a backup and run pufferkit ledger verify"
            )
        return key_name(read_key(self.path) or make_key(self.path))

    def marks(
        self, connection: Connection, data: Mapping[str, Data], meant: bool
    ) -> dict[str, dict[str, Any]]:
        """The marks that charges about these data must record; raises if the data are refused.

        An account that was opened without marks gets them now. Those of longer data stay.
        """
        stored, key = self.check(connection, data, meant)
        if key is None:
            return {}
        fresh = {name: marks_of(key, name, d) for name, d in data.items()}
        return {
            name: {DATA_MARKS: marks}
            for name, marks in fresh.items()
            if name not in stored
            or (marks != stored[name] and marks["entries"] >= stored[name]["entries"])
        }

    def check(
        self, connection: Connection, data: Mapping[str, Data], meant: bool
    ) -> tuple[dict[str, Any], bytes | None]:
        """The marks of the data and the key that reads them; raises if the data are refused.

        The key is ``None`` where data are not recognised.
        """
        key = self._key(connection, meant) if data else None
        if key is None:
            return {}, None
        stored = marks_named(connection, data)
        if not meant:
            for name, marks in stored.items():
                _unchanged(key, name, marks, data[name])
            new = {name: d for name, d in data.items() if name not in stored}
            if new:
                fellows = next(iter(new.values())).fellows  # of one table, or of one series
                with self._reading:
                    others, self._others = self._others, None  # an error leaves nothing half read
                    if others is None or not others.caught_up(connection, key, fellows):
                        others = _Others(connection, key, fellows)
                    self._others = others
                    refusal = same_data(key, new, others.known)
                if refusal is not None:
                    raise ValueError(refusal)
        return stored, key

    def rows(self, connection: Connection, charges: Iterable[Charge], meant: bool) -> list[Draft]:
        """Entries that recognise the rows of windows; raises if an earlier window had the same.

        Windows that overlap may well have the same rows.
        """
        drafts = []
        for charge in charges:
            key = self._key(connection, meant) if charge.rows is not None else None
            named = None if key is None or charge.rows is None else rows_named(key, charge.rows)
            if named is None:
                continue
            axis, begin, end = charge.body["use"][:3]
            known = next(entries_named(connection, [charge.account], "rows", [named]), None)
            if known is None:
                use = {"use": [axis, begin, end]}
                drafts.append(Draft(charge.account, "rows", named, 0, charge.total, use))
            elif not meant and not _overlap(known.body["use"], charge.body["use"]):
                raise ValueError(
                    f"data: are, row for row, those of another window of {charge.account!r} "
                    f"(ledger entry {known.seq}), which they have spent already; give the rows "
                    "of this window. If they happen to be equal, confirm it with data_meant=True "
                    "(--data-meant)"
                )
        return drafts

    def wrote(self, before: tuple[int, str], after: tuple[int, str], names: Iterable[str]) -> None:
        """Note that the entries between two heads are of these accounts.

        Those of fellows need not be read. Should the transaction fail, the digest of its last entry
        is not in the chain, and all is read again.
        """
        with self._reading:
            if self._others is not None:
                self._others.skip(before, after, names)

    def _key(self, connection: Connection, meant: bool) -> bytes | None:
        """The key of this ledger; ``None`` if data are not recognised or no key is recorded yet."""
        if connection.trial:  # by a key that is forgotten
            return None if self.path is None else secrets.token_bytes(KEY_SIZE)
        named = named_keys(connection).data
        if named is None:
            return None
        key = None if self.path is None else read_key(self.path)
        if key is None or key_name(key) != named:
            if meant:
                return None
            where = "no file was named" if self.path is None else f"not the one in {self.path}"
            raise LedgerError(
                f"key: the key by which this ledger recognises data is missing ({where}); "
                "restore it from a backup, or name its file with key= (--ledger-key, "
                "PUFFERKIT_LEDGER_KEY). If it is lost, data_meant=True (--data-meant) continues "
                "without recognising data"
            )
        return key


class _Others:
    """The data of all accounts but the fellows of a table, as of one entry of the chain.

    Pads hide the marks, so no index of the database finds equal ones: they are read once, and then
    those of accounts with newer entries. The digest of an entry stands for all entries before it.
    """

    def __init__(self, connection: Connection, key: bytes, fellows: Collection[str]) -> None:
        self._key, self._fellows, self._head = key, fellows, connection.head
        self._texts: dict[str, str] = {}
        self.known = KnownData()
        self._add(mark_texts(connection))

    def caught_up(self, connection: Connection, key: bytes, fellows: Collection[str]) -> bool:
        """Read what is new; ``False`` if that is not enough, and all has to be read again."""
        if key != self._key or fellows is not self._fellows:
            return False
        if connection.head == self._head:
            return True
        seq, digest = self._head
        self._head = connection.head
        return digest_at(connection, seq) == digest and self._add(mark_texts(connection, seq))

    def skip(self, before: tuple[int, str], head: tuple[int, str], names: Iterable[str]) -> None:
        """Pass over the entries between two heads, of these accounts, if all are fellows."""
        if before == self._head and all(name in self._fellows for name in names):
            self._head = head

    def _add(self, texts: Iterable[tuple[str, str]]) -> bool:
        """Add accounts; ``False`` if the marks of one of them were others before."""
        same = True
        for name, text in texts:
            if name in self._fellows:
                continue
            before = self._texts.setdefault(name, text)
            same = same and before == text
            if before is text:
                self.known.add(Marks(self._key, name, json.loads(text)))
        return same


def _overlap(one: Sequence[Any], other: Sequence[Any]) -> bool:
    return bool(one[1] < other[2] and other[1] < one[2])


def _unchanged(key: bytes, name: str, stored: Any, data: Data) -> None:
    place = Marks(key, name, stored).changed(key, data)
    if place is not None:
        raise ValueError(
            f"account: entries 1 to {place} of {name!r} differ from those it was charged for: "
            "rows were inserted, changed or removed. The data of an account may only grow at "
            "the end; if the change is intended, confirm it with data_meant=True (--data-meant)"
        )
