"""Records as JSON, the identity of what was asked, and files that only their owner can read.

*One identity.* A question, beliefs and a calibration each have a `digest` of what was asked: the
inputs, without provenance, wording, or anything that is derived from them, so that a replay on
another machine is a replay. Caches, keys of a ledger, terms of accounts and spendings use it, and
nothing shorter: two things with one digest get the same noise and the same stored answer.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import stat
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import IO, Any, AnyStr, ClassVar, Generic, Self, TypeVar

import numpy as np

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


MOST_BYTES = 100_000_000
"""Of a text that is unpacked."""


def packed(content: bytes) -> str:
    """Bytes as text: zlib, then base85, whose letters JSON need not escape."""
    return base64.b85encode(zlib.compress(content, 9)).decode("ascii")


def unpacked(text: Any) -> bytes:
    """The bytes that `packed` made a text of; ``ValueError`` if it is none."""
    try:
        reader = zlib.decompressobj()
        content = reader.decompress(base64.b85decode(text), MOST_BYTES)
    except (TypeError, ValueError, zlib.error) as error:
        raise ValueError(f"it is not text of base85 and zlib; {error}") from None
    if not reader.eof or reader.unused_data:
        raise ValueError("its text has the wrong length")
    return content


def packed_matrix(matrix: np.ndarray[Any, Any], unit: float) -> list[Any]:
    """A matrix of numbers from 0 on, rounded up to whole multiples of about a unit, as text.

    The unit that was used, and the digits of all numbers, place after place, compressed.
    """
    unit = max(unit, float(matrix.max()) * 2.0**-47, 1e-300)
    digits = np.ceil(matrix / unit).astype("<u8").reshape(-1, 1).view(np.uint8)[:, :6]
    return [unit, packed(digits.T.tobytes())]


def unpacked_matrix(record: Any, size: int) -> np.ndarray[Any, Any]:
    """The square matrix that `packed_matrix` wrote; ``ValueError`` if it is not such a matrix."""
    try:
        unit, text = record
        planes = np.frombuffer(unpacked(text), np.uint8).reshape(6, size * size)
        whole = np.zeros((size * size, 8), np.uint8)
        whole[:, :6] = planes.T
        return np.asarray(float(unit) * whole.view("<u8").astype(float).reshape(size, size))
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"a matrix cannot be read; {error}") from None


# --- what the schema of records says --------------------------------------------------------------

_TYPES: dict[str, tuple[str, tuple[type, ...]]] = {
    "object": ("an object", (Mapping,)),
    "array": ("a list", (list, tuple)),
    "string": ("text", (str,)),
    "integer": ("a whole number", (int,)),
    "number": ("a number", (int, float)),
    "null": ("null", (type(None),)),
}
"""The types of JSON: their names in sentences, and what is one."""

_BOUNDS: dict[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "minimum": ("of at least", lambda value, bound: value >= bound),
    "exclusiveMinimum": ("above", lambda value, bound: value > bound),
    "minItems": ("of at least", lambda value, bound: len(value) >= bound),
    "maxItems": ("of at most", lambda value, bound: len(value) <= bound),
}

Unfit = tuple[str, str, Any]
"""A place of a record that is not what the schema says: where, the rule, and what is there."""


_NOTHING = object()


@cache
def release_schema() -> dict[str, Any]:
    """The format of records of releases, which docs/verifying.md publishes."""
    schema: dict[str, Any] = json.loads(Path(__file__).with_name("release.schema.json").read_text())
    return schema


def check_record(what: str, data: Any, name: str, kinds: Iterable[str] = ()) -> None:
    """Refuse data that are not what the schema of records says under a name.

    Questions may be of further ``kinds``, which are defined outside the package.
    """
    known = dict(release_schema()["$defs"])
    asked = known["question_kind"]
    known["question_kind"] = {**asked, "enum": list(dict.fromkeys([*asked["enum"], *kinds]))}
    for at, rule, value in _unfits(data, known[name], known, ""):
        told = "" if value is _NOTHING else f", got {value!r:.60}"
        raise ValueError(f"{what}: {at or 'the record'} must be {rule}{told}")


def _unfits(
    value: Any, schema: Mapping[str, Any], known: Mapping[str, Any], at: str
) -> Iterator[Unfit]:
    """By the part of JSON Schema that ours uses."""
    if "$ref" in schema:
        yield from _unfits(value, known[schema["$ref"].rpartition("/")[2]], known, at)
    elif "anyOf" in schema:
        each = [next(_unfits(value, own, known, at), None) for own in schema["anyOf"]]
        unfit = [own for own in each if own is not None]
        if len(unfit) == len(each):
            deepest = max(unfit, key=lambda own: len(own[0]))
            rules = ", or ".join(rule for _, rule, _ in unfit)
            yield deepest if deepest[0] != at else (at, rules, value)
    elif "const" in schema or "enum" in schema:
        words = schema.get("enum") or [schema["const"]]
        if not any(type(value) is type(own) and value == own for own in words):
            yield at, f"one of {', '.join(map(str, words))}", value
    elif "type" in schema:
        yield from _of_another_type(value, schema, known, at)


def _of_another_type(
    value: Any, schema: Mapping[str, Any], known: Mapping[str, Any], at: str
) -> Iterator[Unfit]:
    rule, types = _TYPES[schema["type"]]
    fits = isinstance(value, types) and not isinstance(value, bool)
    for word, (told, within) in _BOUNDS.items():
        if word in schema:
            rule += f" {told} {schema[word]}"
            fits = fits and within(value, schema[word])
    if fits and isinstance(value, (int, float)):
        fits = abs(value) <= sys.float_info.max
    if not fits:
        yield at, rule, value
    elif schema["type"] == "array":
        for number, own in enumerate(value):
            yield from _unfits(own, schema["items"], known, f"{at}[{number}]")
    elif schema["type"] == "object":
        parts = schema.get("properties", {})
        strange = () if schema.get("additionalProperties", True) else value.keys() - parts.keys()
        for name in sorted(map(str, strange)):
            yield f"{at}.{name}".lstrip("."), "left out; it is unknown", _NOTHING
        for name in schema.get("required", ()):
            if name not in value:
                yield f"{at}.{name}".lstrip("."), "given; it is missing", _NOTHING
        for name in parts.keys() & value.keys():
            yield from _unfits(value[name], parts[name], known, f"{at}.{name}".lstrip("."))


PROVENANCE = frozenset({"fitted_on", "calibrated", "counted", "confidence", "region"})
"""Fields of the records of beliefs that say where they come from, not what they are."""


class Asked:
    """Something that was asked for, known by the digest of its inputs."""

    def asked(self) -> Any:
        """What was asked, as plain data; by default the fields of a dataclass."""
        return plain(self)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of what was asked."""
        return digest(self.asked())


OneAsked = TypeVar("OneAsked", bound=Asked)


class ByDigest(Generic[OneAsked]):
    """Something that was asked for as the key of a cache: equal if the digests are."""

    __slots__ = ("itself",)

    def __init__(self, itself: OneAsked) -> None:
        self.itself = itself

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ByDigest) and bool(self.itself.digest == other.itself.digest)

    def __hash__(self) -> int:
        return hash(self.itself.digest)


def plain(value: Any) -> Any:
    """A value as plain data that no other value shares; labels keep their types.

    Mappings become lists of pairs, in the order of their keys; arrays a digest of their numbers.
    """
    if isinstance(value, np.generic):
        value = value.item()
    made: Any = [type(value).__name__, repr(value)]
    if value is None or isinstance(value, (str, bool, int)):
        made = value
    elif isinstance(value, np.ndarray):
        numbers = value.astype({"i": "<i8", "u": "<i8", "b": "?", "f": "<f8"}[value.dtype.kind])
        content = hashlib.sha256(np.ascontiguousarray(numbers).tobytes()).hexdigest()
        made = ["array", value.dtype.kind, list(value.shape), content]
    elif isinstance(value, Mapping):
        pairs = [[plain(key), plain(item)] for key, item in value.items()]
        made = ["mapping", sorted(pairs, key=canonical)]
    elif isinstance(value, Set):
        made = ["set", sorted((plain(item) for item in value), key=canonical)]
    elif isinstance(value, (list, tuple)):
        made = ["row", [plain(item) for item in value]]
    elif isinstance(value, Asked) and type(value).asked is not Asked.asked:
        made = value.asked()
    elif is_dataclass(value) and not isinstance(value, type):
        stated = [[own.name, plain(getattr(value, own.name))] for own in fields(value)]
        made = [type(value).__name__, stated]
    return made


def written(value: Any) -> Any:
    """A field of a record as JSON has it: arrays and tuples as lists, objects as their records."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, (tuple, list)):
        return [written(item) for item in value]
    return value.to_dict() if hasattr(value, "to_dict") else value


def unsourced(record: Any) -> Any:
    """The record of beliefs without what says where they come from."""
    if isinstance(record, Mapping):
        return {key: unsourced(value) for key, value in record.items() if key not in PROVENANCE}
    return [unsourced(item) for item in record] if isinstance(record, (list, tuple)) else record


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


LARGEST = 256 << 20
"""Bytes of the largest file that is read at once: a model of some thousand states."""


def read_whole(path: str | os.PathLike[str], largest: int = LARGEST) -> bytes:
    """The content of a regular file; devices, pipes and larger files are refused unread."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))  # a pipe would wait
    try:
        facts = os.fstat(handle)
        if not stat.S_ISREG(facts.st_mode):
            raise ValueError(f"{os.fspath(path)} is not a regular file; name a file on disk")
        if facts.st_size > largest:
            raise ValueError(
                f"{os.fspath(path)} has {facts.st_size:,} bytes, and at most {largest:,} are read; "
                "name another file"
            )
        with os.fdopen(handle, "rb", closefd=False) as stream:
            return stream.read(largest)
    finally:
        os.close(handle)


def read_text(path: str | os.PathLike[str]) -> io.StringIO:
    """The text of a regular file, to be read whole or, as `csv` does, line by line."""
    try:
        return io.StringIO(read_whole(path).decode("utf-8-sig"), newline="")
    except UnicodeDecodeError as error:
        raise ValueError(f"{os.fspath(path)} is not text in UTF-8 ({error})") from None


def read_stream(stream: IO[AnyStr], name: str, largest: int = LARGEST) -> AnyStr:
    """All that a stream has, if it ends before it has more than ``largest``."""
    content = stream.read(largest + 1)
    if len(content) > largest:
        raise ValueError(f"{name}: more than {largest:,} bytes came; give a file on disk")
    return content


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
