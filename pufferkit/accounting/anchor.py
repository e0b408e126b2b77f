"""A head kept outside the ledger, so that a ledger that went back is noticed.

The anchor is a small file: number and digest of the last entry. Before every charge the ledger must
still hold that entry. After the commit, and before anything is handed over, the anchor moves on. So
it is never ahead of the ledger: if it is, the ledger was set back (an old copy, a deleted log,
a removed tail). It may be behind, after a crash between the two, by entries of which nothing was
handed over, and by entries of those who spend without the anchor.

With a key the file also carries a keyed digest, and only who has the key can write another.
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
    """The file that holds a head.

    Parameters
    ----------
    path
        The file. Keep it where whoever can write the ledger cannot write.
    key
        A file with a key, made if it does not exist; ``None`` for an anchor without one.
    """

    def __init__(self, path: str | os.PathLike[str], key: str | os.PathLike[str] | None) -> None:
        self.path = Path(path)
        self._key = None if key is None else Path(key)
        if not self.path.parent.is_dir():
            raise ValueError(f"anchor: the folder {self.path.parent} does not exist")

    def read(self) -> Head | None:
        """The head it holds; ``None`` if there is no file."""
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
        """The ledger must hold this head, or it was set back or rewritten."""
        seq, _ = connection.head
        if head is None:
            if seq:
                raise LedgerError(
                    f"anchor: {self.path} does not exist, but the ledger has {seq} entries; "
                    "restore it, or make one on purpose: pufferkit ledger anchor"
                )
            return
        query = "SELECT digest FROM pufferkit_entries WHERE seq = ?"
        row = connection.execute(query, (head.seq,)).fetchone() if head.seq else (GENESIS,)
        if seq < head.seq or row is None or row[0] != head.digest:
            ends = f"ends at entry {seq}" if seq < head.seq else "has another one"
            raise LedgerError(
                f"anchor: the ledger was set back or rewritten: {self.path} holds entry "
                f"{head.seq}, the ledger {ends}. Nothing was done; find out who restored or "
                "changed it"
            )

    def advance(self, head: Head) -> None:
        """Hold this head from now on, unless a later one is held."""
        try:
            with self._locked():
                held = self.read()
                if held is None or held.seq < head.seq:
                    self._write(head)
        except OSError as error:
            raise LedgerError(
                f"anchor: {self.path} cannot be written ({type(error).__name__}); nothing was "
                "handed over, and asking again is safe: what was stored is given as it is"
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
        """One process at a time, where the system has locks on files."""
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
