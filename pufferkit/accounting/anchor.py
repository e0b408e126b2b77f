"""A copy of the head kept outside the ledger, which reveals a ledger that was set back.

The anchor is a small file with the number and the digest of the last entry. Before every charge the
ledger must still hold that entry. The anchor advances after the commit and before anything is
handed over, so it is never ahead of an intact ledger: if it is ahead, the ledger was set back (to
an old copy, by deleting its log or by removing its tail). It may lag behind: after a crash between
commit and anchor, by entries of which nothing was handed over, and by charges made without the
anchor.

With a key the file also carries a keyed digest, so that only holders of the key can write one.
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
from pufferkit.accounting.fingerprints import make_key, read_key
from pufferkit.accounting.ledger_tables import GENESIS, Connection
from pufferkit.errors import LedgerError
from pufferkit.records import canonical, private_file

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
        if not self.path.parent.is_dir():
            raise ValueError(f"anchor: the folder {self.path.parent} does not exist")

    def read(self) -> Head | None:
        """The head in the file; ``None`` if there is no file."""
        try:
            text = self.path.read_text("utf-8")
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
        if mac is not None and not hmac.compare_digest(str(mac), self._mac(head) or ""):
            raise LedgerError(f"anchor: {self.path} was not written with this key")
        return head

    def check(self, connection: Connection, head: Head | None) -> None:
        """Raise an error if the ledger lacks this head: it was then set back or rewritten."""
        seq, _ = connection.head
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
        mac = self._mac(head, make=True)
        text = canonical(data if mac is None else {**data, "mac": mac})
        part = self.path.with_name(f".{self.path.name}.{secrets.token_hex(8)}.new")
        try:
            private_file(part, f"{text}\n".encode())
            part.replace(self.path)
        finally:
            part.unlink(missing_ok=True)

    def _mac(self, head: Head, *, make: bool = False) -> str | None:
        if self._key is None:
            return None
        key = read_key(self._key) or (make_key(self._key) if make else b"")
        return hmac.new(key, f"{head.seq}:{head.digest}".encode(), "sha256").hexdigest()

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
