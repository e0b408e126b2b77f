"""Recognising data that the ledger has seen before, without storing them.

For the data behind an account the ledger stores *marks*: digests under a key that lives beside the
ledger, each masked by a pad that depends on the account. Without the key they are random bytes and
do not even reveal that two accounts have equal data. With the key, three things are detected:

- entries that were inserted, changed or removed within what the account was charged for: the digest
  of everything up to a recorded place differs. Data that grow at the end keep their digests.
- a second name for the same data.
- a second name for largely the same data, even if cut or changed in places: *shingles*, that is
  stretches of 36 runs of equal entries, are sampled from every series by the size of their digest
  and are the same wherever the stretch stands.

Information tells coincidence from common origin: it is minus the log of the probability that an
unrelated series has the same transitions. A stretch with little information (hours of sleep) is no
evidence; an exact copy of a whole series always is.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pufferkit.beliefs.passages import Words

IDENTIFYING = 40.0
"""Nats from which a stretch of a series is recognised: a coincidence of 1 in 10^17."""

_ENOUGH = 12.0
"""Nats, less the log of the number of candidates, from which counts of subjects are recognised."""

_RUNS = 36
_SAMPLE = 16
_DIGEST = 8


class Data(Protocol):
    """The data of an account, as far as they can be recognised."""

    @property
    def length(self) -> int:
        """Number of entries."""
        ...

    @property
    def exact(self) -> bool:
        """Whether equal digests mean equal entries, and not only equal counts."""
        ...

    @property
    def fellows(self) -> Collection[str]:
        """Accounts that the same table declares to belong to other subjects."""
        ...

    @property
    def places(self) -> Sequence[int]:
        """Numbers of entries after which a digest is recorded; the last is the length."""
        ...

    def prefixes(self, key: bytes, places: Iterable[int]) -> dict[int, bytes]:
        """The digest of everything up to each place, where it is available."""
        ...

    def information(self, place: int) -> float:
        """Nats of information up to a place."""
        ...

    def shingles(self, key: bytes) -> Words:
        """Digests of all identifying stretches."""
        ...


class SeriesData:
    """The entries of one series: codes of states, -1 where nothing was observed."""

    exact = True
    fellows: Collection[str] = ()

    def __init__(
        self, codes: NDArray[Any], states: Sequence[Hashable], lengths: Sequence[int]
    ) -> None:
        self.length = len(codes)
        self.places = (self.length,)
        # By label, so that the order of the states does not matter; unobserved entries are 0.
        names = [hashlib.sha256(str(state).encode()).digest()[:8] for state in states]
        table = np.frombuffer(b"".join([*names, bytes(8)]), dtype="<u8")
        self._words: Words = table[codes].astype(np.uint64)
        starts = np.zeros(self.length, dtype=bool)
        starts[np.cumsum([0, *lengths[:-1]])] = True
        self._starts = starts
        size = len(states) + 1
        moves = (codes[:-1] % size) * size + codes[1:] % size
        seen = np.bincount(moves, minlength=size * size).reshape(size, size)
        leaves = np.maximum(seen.sum(axis=1, keepdims=True), 1)
        loss = -np.log(np.maximum(seen, 1) / leaves).ravel()
        self._information = np.concatenate([[0.0], np.cumsum(loss[moves])])
        self._shingles: tuple[bytes, Words] | None = None
        self._prefixes: tuple[bytes, dict[int, bytes]] = (b"", {})

    def prefixes(self, key: bytes, places: Iterable[int]) -> dict[int, bytes]:
        wanted = {place for place in places if 0 < place <= self.length}
        if self._prefixes[0] != key or not wanted <= self._prefixes[1].keys():
            digest = hashlib.blake2b(key=key, digest_size=_DIGEST, person=b"series")
            content = self._words ^ np.where(self._starts, ~np.uint64(0), np.uint64(0))
            digests, before = dict[int, bytes](), 0
            for place in sorted(wanted):
                digest.update(content[before:place].tobytes())
                digests[place], before = digest.copy().digest(), place
            self._prefixes = key, digests
        return {place: self._prefixes[1][place] for place in sorted(wanted)}

    def information(self, place: int) -> float:
        return float(self._information[place - 1])

    def shingles(self, key: bytes) -> Words:
        if self._shingles is None or self._shingles[0] != key:
            self._shingles = (key, self._stretches(key))
        return self._shingles[1]

    def _stretches(self, key: bytes) -> Words:
        new = self._starts.copy()
        new[1:] |= self._words[1:] != self._words[:-1]
        # The first and the last run may have been cut off, so their lengths are ignored.
        at = np.flatnonzero(new)[1:]
        if len(at) <= _RUNS:
            return np.empty(0, dtype=np.uint64)
        weights = np.frombuffer(_stream(key, b"shingles", 8 * (_RUNS + 2)), dtype="<u8")
        odd: Words = weights.astype(np.uint64) | np.uint64(1)
        lengths: Words = np.diff(at).astype(np.uint64)
        runs = _mixed(self._words[at[:-1]] * odd[0] + lengths * odd[1])
        count = len(runs) - _RUNS + 1
        hashes = np.zeros(count, dtype=np.uint64)
        for place in range(_RUNS):
            hashes += runs[place : place + count] * odd[place + 2]
        information = self._information[at[_RUNS:] - 1] - self._information[at[:-_RUNS]]
        stretches: Words = np.unique(_mixed(hashes[information >= IDENTIFYING]))
        return stretches


def _mixed(words: Words) -> Words:
    """Every bit of the result depends on every bit of the word (the finaliser of splitmix64)."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def _stream(key: bytes, what: bytes, size: int) -> bytes:
    """Bytes that cannot be computed without the key."""
    if size <= 64:
        return hashlib.blake2b(what + bytes(4), key=key).digest()[:size]
    parts = [
        hashlib.blake2b(what + number.to_bytes(4, "big"), key=key).digest()
        for number in range(-(-size // 64))
    ]
    return b"".join(parts)[:size]


# -- marks ----------------------------------------------------------------------------------------


def marks_of(key: bytes, account: str, data: Data) -> dict[str, Any]:
    """The marks as stored: digests at places and a sample of shingles, all masked by pads."""
    digests = data.prefixes(key, data.places)
    sample = [word.to_bytes(8, "big") for word in data.shingles(key)[:_SAMPLE].tolist()]
    length, plain = data.length, b"".join([*digests.values(), *sample])
    hidden = _either(plain, _pad(key, account, length, len(plain))).hex()
    return {"entries": length, "at": list(digests), "digests": hidden}


class Marks:
    """The marks of one account, read with the key."""

    def __init__(self, key: bytes, account: str, stored: Mapping[str, Any]) -> None:
        text = str(stored["digests"])
        pad = _pad(key, account, int(stored["entries"]), len(text) // 2)
        plain = _either(bytes.fromhex(text), pad)
        digests = [plain[n : n + _DIGEST] for n in range(0, len(plain), _DIGEST)]
        places = [int(place) for place in stored["at"]]
        self.account, self.length = account, int(stored["entries"])
        self.at = dict(zip(places, digests, strict=False))
        self.shingles = [int.from_bytes(d, "big") for d in digests[len(places) :]]

    def changed(self, key: bytes, data: Data) -> int | None:
        """The first recorded place up to which the data differ from the earlier data."""
        now = data.prefixes(key, self.at)
        return next((p for p in sorted(now) if now[p] != self.at[p]), None)


def _pad(key: bytes, account: str, length: int, size: int) -> bytes:
    return _stream(key, b"pad" + length.to_bytes(8, "big") + account.encode(), size)


def _either(content: bytes, pad: bytes) -> bytes:
    """Bitwise exclusive or of two byte strings of the same size."""
    bits = int.from_bytes(content, "big") ^ int.from_bytes(pad, "big")
    return bits.to_bytes(len(content), "big")


class KnownData:
    """The marks of many accounts, by the digests that reveal a second name for their data."""

    def __init__(self) -> None:
        self.accounts = 0
        self.at: dict[tuple[int, bytes], str] = {}
        self.ends: Counter[tuple[int, bytes]] = Counter()
        self.places: set[int] = set()
        self._stretches: dict[int, str] = {}
        self._words: Words | None = None

    def add(self, marks: Marks) -> None:
        """One more account."""
        self.accounts += 1
        self.ends[marks.length, marks.at[marks.length]] += 1
        self.places.update(marks.at)
        self.at |= dict.fromkeys(marks.at.items(), marks.account)
        if marks.shingles:
            self._stretches |= dict.fromkeys(marks.shingles, marks.account)
            self._words = None

    def with_stretch_of(self, shingles: Words) -> str | None:
        """An account with one of these stretches, which are in order."""
        if not self._stretches or not len(shingles):
            return None
        if self._words is None:
            self._words = np.sort(np.fromiter(self._stretches, np.uint64, len(self._stretches)))
        at = np.minimum(np.searchsorted(shingles, self._words), len(shingles) - 1)
        shared = self._words[shingles[at] == self._words]
        return self._stretches[int(shared[0])] if len(shared) else None


def same_data(key: bytes, new: Mapping[str, Data], known: KnownData) -> str | None:
    """Why new accounts seem to be second names for known data; ``None`` if they do not.

    The known accounts are not among the fellows of the new ones.
    """
    if not known.accounts:
        return None
    at = known.at
    own: Counter[tuple[int, bytes]] = Counter()
    evidence, named, chance = 0.0, None, math.log(known.accounts)
    for name, data in new.items():
        digests = data.prefixes(key, {*known.places, data.length})
        own[data.length, digests[data.length]] += 1
        equal = [p for p in digests if (p, digests[p]) in at]
        nats = sum(data.information(p) for p in equal) if not data.exact else 0.0
        if equal and data.exact:
            last = max(equal)
            if last == data.length or data.information(last) >= IDENTIFYING:
                return _second(name, at[last, digests[last]])
        if equal and nats > chance:
            evidence += nats - chance
        if equal and named is None:
            named = _second(name, at[equal[-1], digests[equal[-1]]])
        other = known.with_stretch_of(data.shingles(key))
        if other is not None:
            return _second(name, other)
    # The same table again, subject by subject, or more equal counts than chance explains.
    whole = bool(own) and own <= known.ends and known.accounts <= len(new)
    return named if whole or evidence >= _ENOUGH else None


def _second(name: str, known: str) -> str:
    return (
        f"account: the data of {name!r} are, in whole or in part, those of {known!r}; two names "
        "for the same data would give them two budgets. Use the existing name. Only if a second "
        "account is intended (or another person's data happen to be equal), confirm it with "
        "data_meant=True (--data-meant)"
    )
