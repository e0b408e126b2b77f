"""Files that their owner alone can read: ledgers, keys, anchors and what is written out."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def private_file(path: Path, content: bytes) -> None:
    """A new file that its owner alone can read, whatever the umask; an error if there is one."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as stream:
        os.fchmod(handle, 0o600)
        stream.write(content)
        stream.flush()
        os.fsync(handle)


def name_once(part: Path, path: Path) -> None:
    """Give a complete file its name, unless there is one of that name."""
    with suppress(FileExistsError):
        try:
            os.link(part, path)
        except OSError as error:
            if isinstance(error, FileExistsError) or path.exists():
                return
            part.rename(path)  # a file system without links
