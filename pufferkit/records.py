"""Records as JSON: both ways for people and files, one canonical spelling for digests."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any, ClassVar, Self

from pufferkit import checks
from pufferkit.shown import Shown


def canonical(data: Any) -> str:
    """JSON with one spelling: sorted keys, no spaces."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def digest(data: Any) -> str:
    """SHA-256 of plain data."""
    return hashlib.sha256(canonical(data).encode()).hexdigest()


class JsonRecord:
    """JSON both ways, for a class with ``to_dict`` and, where it is read again, ``from_dict``."""

    _called: ClassVar[str] = "model"
    """What an error calls the text."""
    _in_words: ClassVar[Callable[[Any], str] | None] = None
    """How labels are written that JSON does not know; without it they are an error."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        raise NotImplementedError

    def to_json(self, indent: int | None = None) -> str:
        """One JSON object; floats keep every digit."""
        return json.dumps(self.to_dict(), indent=indent, default=type(self)._in_words)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """What ``to_json`` wrote."""
        read: Any = cls
        made: Self = read.from_dict(checks.json_object(cls._called, text))
        return made


class Report(Shown, JsonRecord):
    """A record that people read too: JSON on many lines."""

    def to_json(self, indent: int | None = 2) -> str:
        """JSON text; floats keep every digit."""
        return super().to_json(indent)
