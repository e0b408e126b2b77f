"""Recognition of data by the ledger: its key, the marks of charges, and refusals."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pufferkit.accounting.entries import DATA_MARKS, marks_named
from pufferkit.accounting.fingerprints import (
    KEY_SIZE,
    Data,
    Marks,
    key_name,
    make_key,
    marks_of,
    read_key,
    same_data,
)
from pufferkit.accounting.ledger_tables import Connection
from pufferkit.errors import LedgerError

_KEY = "key"


class Recognition:
    """Recognises data with the key in ``path``; not at all if that is ``None``."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._read: dict[str, tuple[Any, Marks]] = {}

    def note_key(self, connection: Connection) -> None:
        """Create the key of a ledger that has none yet, and record its name in the ledger."""
        if self.path is not None and connection.noted(_KEY) is None:
            noted = key_name(read_key(self.path) or make_key(self.path))
            connection.put("meta", [(_KEY, noted)])

    def marks(
        self, connection: Connection, data: Mapping[str, Data], meant: bool
    ) -> dict[str, dict[str, Any]]:
        """The marks that charges about these data must record; raises if the data are refused.

        An account that was opened without marks gets them now.
        """
        stored, key = self.check(connection, data, meant)
        if key is None:
            return {}
        fresh = {name: marks_of(key, name, d) for name, d in data.items()}
        return {
            name: {DATA_MARKS: marks} for name, marks in fresh.items() if marks != stored.get(name)
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
                self._unchanged(key, name, marks, data[name])
            new = {name: d for name, d in data.items() if name not in stored}
            if new:
                fellows = next(iter(new.values())).fellows  # of one table, or of one series
                others = marks_named(connection, but=fellows)
                known = [self._known(key, n, marks) for n, marks in others.items()]
                refusal = same_data(key, new, known)
                if refusal is not None:
                    raise ValueError(refusal)
        return stored, key

    def _unchanged(self, key: bytes, name: str, stored: Any, data: Data) -> None:
        place = self._known(key, name, stored).changed(key, data)
        if place is not None:
            raise ValueError(
                f"account: entries 1 to {place} of {name!r} differ from those it was charged for: "
                "rows were inserted, changed or removed. The data of an account may only grow at "
                "the end; if the change is intended, confirm it with data_meant=True (--data-meant)"
            )

    def _known(self, key: bytes, name: str, stored: Any) -> Marks:
        """The marks of an account, read once."""
        before = self._read.get(name)
        if before is None or before[0] != stored:
            before = self._read[name] = (stored, Marks(key, name, stored))
        return before[1]

    def _key(self, connection: Connection, meant: bool) -> bytes | None:
        """The key of this ledger; ``None`` if data are not recognised or no key is recorded yet."""
        if connection.trial:  # by a key that is forgotten
            return None if self.path is None else secrets.token_bytes(KEY_SIZE)
        named = connection.noted(_KEY)
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
