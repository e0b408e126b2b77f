"""Keys of a ledger: files that hold them, and the entries of the chain that name them.

A ledger knows two sorts of keys: one by which data are recognised, and one for each signed anchor.
The first entry of every chain names those that were in use when the ledger was created, by a digest
that reveals nothing about them; later ones are named by entries of their own. So a key file that
was removed or replaced is noticed, and the entry that names it cannot be removed unnoticed.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pufferkit.accounting.entries import LEDGER, Draft, accounts_named, append, entries_named
from pufferkit.accounting.ledger_tables import Connection
from pufferkit.errors import LedgerError
from pufferkit.records import name_once, private_file, read_whole

KEY_SIZE = 32
_KIND = "key"


@dataclass(frozen=True)
class Keys:
    """The names of the keys that a chain knows."""

    data: str | None = None
    """Of the key by which data are recognised."""
    anchors: frozenset[str] = frozenset()
    """Of the keys of signed anchors."""
    entries: int = 0
    """Number of entries that name keys."""


def named_keys(connection: Connection) -> Keys:
    """The keys that the chain names; raises if its first entry is missing or was changed."""
    data, anchors, entries = None, list[str](), list(entries_named(connection, [LEDGER], _KIND))
    if not entries:
        if connection.head[0]:
            raise LedgerError(
                "ledger: its first entry, which names its keys, is missing, so it was damaged; "
                "restore a backup and run pufferkit ledger verify"
            )
        return Keys()
    for entry in entries:
        if entry.own_digest() != entry.digest or entries[0].seq != 1:
            raise LedgerError(
                f"ledger: entry {entry.seq}, which names a key, was changed; restore a backup and "
                "run pufferkit ledger verify"
            )
        data = data or entry.body["data"]
        anchors += [entry.body["anchor"]] if entry.body["anchor"] else []
    return Keys(data, frozenset(anchors), len(entries))


def name_keys(
    connection: Connection, by: str, known: Keys, data: str | None, anchor: str | None
) -> None:
    """Append the entry that names these keys."""
    body: dict[str, Any] = {"data": data, "anchor": anchor}
    draft = Draft(LEDGER, _KIND, f"{known.entries + 1}", 0, 0, body)
    append(connection, [draft], by, accounts_named(connection, [LEDGER]))


def read_key(path: Path) -> bytes | None:
    """The key in a file; ``None`` if there is no file."""
    try:
        text = read_whole(path, 1 << 12).decode("ascii").strip()
        key = bytes.fromhex(text)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise LedgerError(f"key: {path} cannot be read ({type(error).__name__})") from None
    if len(key) != KEY_SIZE:
        raise LedgerError(f"key: {path} is not a key of a ledger; restore it from a backup")
    return key


def make_key(path: Path) -> bytes:
    """A new key, readable by its owner only; another process may create it first."""
    part = path.with_name(f".{path.name}.{secrets.token_hex(8)}.new")
    try:
        private_file(part, f"{secrets.token_hex(KEY_SIZE)}\n".encode())
        name_once(part, path)
    finally:
        part.unlink(missing_ok=True)
    key = read_key(path)
    if key is None:
        raise LedgerError(f"key: {path} cannot be created")
    return key


def key_name(key: bytes) -> str:
    """A digest by which the ledger knows a key; it reveals nothing about the key."""
    return hashlib.blake2b(b"name of the key", key=key, digest_size=16).hexdigest()
