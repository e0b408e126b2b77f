"""Records as JSON, in a canonical form for digests; files that only their owner can read."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, Self

from pufferkit import checks
from pufferkit.shown import Shown

_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _encoding() -> Callable[[Any], Sequence[str]] | None:
    """The compiled function of the encoder, which `encode` makes anew for every call.

    It is no documented part of Python: ``None`` where it is missing or made in another way.
    """
    made: Callable[[Any, int], Sequence[str]]
    try:
        make, text = vars(json.encoder)["c_make_encoder"], json.encoder.encode_basestring
        made = make(None, _ENCODER.default, text, None, ":", ",", True, False, True)
    except (KeyError, TypeError):
        return None
    return lambda data: made(data, 0)


_PARTS = _encoding()


def canonical(data: Any) -> str:
    """JSON in canonical form: sorted keys, no spaces."""
    return _ENCODER.encode(data) if _PARTS is None else "".join(_PARTS(data))


def digest(data: Any) -> str:
    """SHA-256 of plain data."""
    return hashlib.sha256(canonical(data).encode()).hexdigest()


class JsonRecord:
    """JSON both ways, for a class with ``to_dict`` and, where it is read again, ``from_dict``."""

    _called: ClassVar[str] = "model"
    """The name of the text in error messages."""
    _in_words: ClassVar[Callable[[Any], str] | None] = None
    """Converts labels that JSON cannot represent; without it such labels are an error."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        raise NotImplementedError

    def to_json(self, indent: int | None = None) -> str:
        """One JSON object; floats keep every digit."""
        return json.dumps(self.to_dict(), indent=indent, default=type(self)._in_words)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """The record that ``to_json`` wrote."""
        read: Any = cls
        made: Self = read.from_dict(checks.json_object(cls._called, text))
        return made


class Report(Shown, JsonRecord):
    """A record that people read too: its JSON is indented."""

    def to_json(self, indent: int | None = 2) -> str:
        """JSON text; floats keep every digit."""
        return super().to_json(indent)


def private_file(path: Path, content: bytes) -> None:
    """Write a new file that only its owner can read, whatever the umask; an error if it exists."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as stream:
        os.fchmod(handle, 0o600)
        stream.write(content)
        stream.flush()
        os.fsync(handle)


def name_once(part: Path, path: Path) -> None:
    """Give a finished file its final name, unless a file of that name exists."""
    with suppress(FileExistsError):
        try:
            os.link(part, path)
        except OSError as error:
            if isinstance(error, FileExistsError) or path.exists():
                return
            part.rename(path)  # the file system has no links
