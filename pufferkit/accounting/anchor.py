"""A copy of the head kept outside the ledger, which reveals a ledger that was set back.

The anchor is a small file with the number and the digest of the last entry. Before every charge the
ledger must still hold that entry. The anchor advances after the commit and before anything is
handed over, so it is never ahead of an intact ledger: if it is ahead, the ledger was set back (to
an old copy, by deleting its log or by removing its tail). It may lag behind: after a crash between
commit and anchor, by entries of which nothing was handed over, and by charges made without the
anchor.

With a key the file also carries a keyed digest, so that only holders of the key can write one, and
the chain names the key: by its first entry, or by one that `Ledger.make_anchor` appends. A key that
is missing, or not named there, is an error. Neither helps if an old ledger and the anchor of that
time are put back together: both are genuine.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pufferkit.accounting.entries import digest_at
from pufferkit.accounting.keys import key_name, make_key, named_keys, read_key
from pufferkit.accounting.ledger_tables import GENESIS, Connection
from pufferkit.errors import LedgerError
from pufferkit.records import canonical, private_file, read_whole

FORMAT = "pufferkit-anchor/1"


@dataclass(frozen=True)
class Head:
    """Number and digest of an entry."""

    seq: int
    digest: str


START = Head(0, GENESIS)


class Anchor:
    """A file that holds the head of a ledger.

    Parameters
    ----------
    path
        The file. Keep it where people who can write the ledger have no write access.
    key
        A file with a key, created if it does not exist; ``None`` for an anchor without a key.
    """

    def __init__(self, path: str | os.PathLike[str], key: str | os.PathLike[str] | None) -> None:
        self.path = Path(path)
        self._key = None if key is None else Path(key)
        self._named: str | None = None  # the key that the chain was seen to name
        if not self.path.parent.is_dir():
            raise ValueError(f"anchor: the folder {self.path.parent} does not exist")

    def read(self) -> Head | None:
        """The head in the file; ``None`` if there is no file."""
        try:
            text = read_whole(self.path, 1 << 16).decode("utf-8")
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise LedgerError(
                f"anchor: {self.path} cannot be read ({type(error).__name__})"
            ) from None
        try:
            data = json.loads(text)
            head = Head(int(data["seq"]), str(data["digest"]))
            known = data["format"] == FORMAT
        except (KeyError, TypeError, ValueError):
            known = False
        if not known:
            raise LedgerError(f"anchor: {self.path} is not an anchor of a ledger; restore it")
        mac = data.get("mac")
        if (mac is None) != (self._key is None):
            reason = (
                "has no keyed digest" if mac is None else "was written with a key; give the key"
            )
            raise LedgerError(f"anchor: {self.path} {reason}")
        if mac is not None and not hmac.compare_digest(str(mac), _mac(self._secret, head)):
            raise LedgerError(f"anchor: {self.path} was not written with this key")
        return head

    @property
    def key_name(self) -> str | None:
        """The name of the key; ``None`` for an anchor without one."""
        return None if self._key is None else key_name(self._secret)

    @property
    def _secret(self) -> bytes:
        """The key; raises if its file is missing."""
        assert self._key is not None
        key = read_key(self._key)
        if key is None:
            raise LedgerError(f"anchor: its key {self._key} is missing; restore it from a backup")
        return key

    def check(self, connection: Connection, head: Head | None) -> None:
        """Raise an error if the ledger lacks this head: it was then set back or rewritten."""
        seq, _ = connection.head
        if seq and head is not None and (name := self.key_name) != self._named:
            if name not in named_keys(connection).anchors:
                raise LedgerError(
                    f"anchor: no entry of the ledger names the key {self._key}, so the key or the "
                    "ledger was replaced; restore it. For a new anchor with a key of its own run "
                    "pufferkit ledger anchor"
                )
            self._named = name
        if head is None:
            if seq:
                raise LedgerError(
                    f"anchor: {self.path} does not exist, but the ledger has {seq} entries; "
                    "restore it, or create one deliberately with pufferkit ledger anchor"
                )
            return
        known = digest_at(connection, head.seq) if head.seq else GENESIS
        if seq < head.seq or known != head.digest:
            ends = f"ends at entry {seq}" if seq < head.seq else "has a different one"
            raise LedgerError(
                f"anchor: the ledger was set back or rewritten: {self.path} holds entry "
                f"{head.seq}, the ledger {ends}. Nothing was done; find out who restored or "
                "changed it"
            )

    def make_key(self) -> None:
        """Create the key, if there is to be one and its file does not exist."""
        if self._key is not None and read_key(self._key) is None:
            make_key(self._key)

    def make(self, head: Head) -> None:
        """Create the file, with its key."""
        self.make_key()
        self.advance(head)

    def advance(self, head: Head) -> None:
        """Store this head, unless the file already holds a later one."""
        try:
            with self._locked():
                held = self.read()
                if held is None or held.seq < head.seq:
                    self._write(head)
        except OSError as error:
            raise LedgerError(
                f"anchor: {self.path} cannot be written ({type(error).__name__}); nothing was "
                "handed over. Asking again is safe: an answer that was stored is returned unchanged"
            ) from None

    def _write(self, head: Head) -> None:
        data = {"format": FORMAT, "seq": head.seq, "digest": head.digest}
        text = canonical(data if self._key is None else {**data, "mac": _mac(self._secret, head)})
        part = self.path.with_name(f".{self.path.name}.{secrets.token_hex(8)}.new")
        try:
            private_file(part, f"{text}\n".encode())
            part.replace(self.path)
        finally:
            part.unlink(missing_ok=True)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Admit one process at a time, on systems with file locks."""
        try:
            import fcntl  # noqa: PLC0415
        except ImportError:  # pragma: no cover
            yield
            return
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)


def _mac(key: bytes, head: Head) -> str:
    return hmac.new(key, f"{head.seq}:{head.digest}".encode(), "sha256").hexdigest()
