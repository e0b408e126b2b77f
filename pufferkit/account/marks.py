"""Recognising data that the ledger has seen before, without storing them.

For the data behind an account the ledger stores *marks*: digests under a key that lives beside the
ledger, each masked by a pad that depends on the account. Without the key they are random bytes and
do not even reveal that two accounts have equal data. With the key, three things are detected:

- entries that were inserted, changed or removed within what the account was charged for: the digest
  of everything up to a recorded place differs. Data that grow at the end keep their digests.
- a second name for the same data.
- a second name for largely the same data, even if cut or changed in places: *shingles*, that is
  stretches of 36 runs of equal entries, are sampled from every series by the size of their digest
  and are the same wherever the stretch stands, and read backwards too. They are also taken of every
  second, third, ... entry, so that data are recognised that were thinned, or whose rows were
  repeated, in whatever order the two came.

Information tells coincidence from common origin: it is minus the log of the probability that an
unrelated series has the same transitions. A stretch with little information (hours of sleep) is no
evidence, nor are habits (every day the same hours): a run that often follows the run before it has
the information of that share. An exact copy of a whole series always is evidence.
"""

from __future__ import annotations

import hashlib
import json
import math
import secrets
import threading
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from pufferkit.account.chain import (
    KEY_SIZE,
    Draft,
    Keys,
    digest_at,
    entries_named,
    key_name,
    make_key,
    mark_texts,
    marks_named,
    named_keys,
    read_key,
)
from pufferkit.account.store import Connection
from pufferkit.data.passages import Words
from pufferkit.errors import LedgerError

if TYPE_CHECKING:
    from pufferkit.account.ledger import Charge

# -- fingerprints --------------------------------------------------------------------------------


IDENTIFYING = 40.0
"""Nats from which a stretch of a series is recognised: a coincidence of 1 in 10^17."""

_ENOUGH = 12.0
"""Nats, less the log of the number of candidates, from which counts of subjects are recognised."""

_RUNS = 36
_SAMPLE = 16
_DIGEST = 8

_STEPS = (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 20, 24, 30, 60)
"""Data thinned by these steps are recognised."""

_THINNED = 1 << 19
"""Of longer series only so many entries are thinned: a year of minutes."""

_OFTEN = 5
"""A run that follows the same run at least so many times is a habit."""


class Shingles(NamedTuple):
    """Digests of the identifying stretches of a series thinned by a step, in order."""

    words: Words
    sample: Words
    """Those that are stored: the smallest, of each of the series that the step makes."""


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

    def otherwise(self, key: bytes, places: Collection[int]) -> dict[int, bytes]:
        """Digests, at these places, of the data backwards and of the data twice, if exact."""
        ...

    def shingles(self, key: bytes) -> Sequence[Shingles]:
        """Digests of all identifying stretches, by step."""
        ...


class SeriesData:
    """The entries of one series: codes of states, -1 where nothing was observed.

    Unless it is ``thinned``, a series is not recognised after it was.
    """

    exact = True
    fellows: Collection[str] = ()

    def __init__(
        self,
        codes: NDArray[Any],
        states: Sequence[Hashable],
        lengths: Sequence[int],
        *,
        thinned: bool = True,
    ) -> None:
        self.length = len(codes)
        self.places = (self.length,)
        self._steps = (1, *_STEPS) if thinned else (1,)
        # By label, so that the order of the states does not matter; unobserved entries are 0.
        names = [hashlib.sha256(str(state).encode()).digest()[:8] for state in states]
        table = np.frombuffer(b"".join([*names, bytes(8)]), dtype="<u8")
        self._words: Words = table[codes].astype(np.uint64)
        starts = np.zeros(self.length, dtype=bool)
        starts[np.cumsum([0, *lengths[:-1]])] = True
        self._starts = starts
        size = self._size = len(states) + 1
        self._codes = codes.astype(np.intp) % size
        moves = self._codes[:-1] * size + self._codes[1:]
        seen = np.bincount(moves, minlength=size * size).reshape(size, size)
        leaves = np.maximum(seen.sum(axis=1, keepdims=True), 1)
        loss = -np.log(np.maximum(seen, 1) / leaves).ravel()
        self._information = np.concatenate([[0.0], np.cumsum(loss[moves])])
        self._shingles: tuple[bytes, list[Shingles]] | None = None
        self._prefixes: tuple[bytes, dict[int, bytes]] = (b"", {})

    def prefixes(self, key: bytes, places: Iterable[int]) -> dict[int, bytes]:
        wanted = {place for place in places if 0 < place <= self.length}
        if self._prefixes[0] != key or not wanted <= self._prefixes[1].keys():
            self._prefixes = key, _digests(key, self._words, self._starts, wanted)
        return {place: self._prefixes[1][place] for place in sorted(wanted)}

    def information(self, place: int) -> float:
        return float(self._information[place - 1])

    def shingles(self, key: bytes) -> Sequence[Shingles]:
        if self._shingles is None or self._shingles[0] != key:
            steps = [n for n in self._steps if n * _RUNS < self.length]
            self._shingles = (key, [self._thinned(key, n) for n in steps])
        return self._shingles[1]

    def otherwise(self, key: bytes, places: Collection[int]) -> dict[int, bytes]:
        """Digests, at these places, of the series backwards and of the series twice."""
        twice = 2 * self.length
        backwards = _digests(key, self._words[::-1], self._ends[::-1], places)
        if twice not in places:
            return backwards
        starts = np.tile(self._starts, 2)
        starts[self.length] = int(self._starts.sum()) > 1  # else one segment, twice as long
        return backwards | _digests(key, np.tile(self._words, 2), starts, [twice])

    @property
    def _ends(self) -> NDArray[np.bool_]:
        """Whether an entry is the last of its segment."""
        return np.append(self._starts[1:], True)

    def _thinned(self, key: bytes, step: int) -> Shingles:
        """The shingles of all series that a step makes of this one, one after the other."""
        size = self.length if step == 1 else min(self.length, _THINNED)
        order = np.concatenate([np.arange(n, size, step) for n in range(step)])
        codes, segment = self._codes[order], np.cumsum(self._starts[:size])[order]
        series = order % step
        fresh = np.ones(size, dtype=bool)
        fresh[1:] = (codes[1:] != codes[:-1]) | (segment[1:] != segment[:-1])
        fresh[1:] |= series[1:] != series[:-1]
        at = np.flatnonzero(fresh)
        if len(at) <= _RUNS + 1:
            return Shingles(_NO_WORDS, _NO_WORDS)
        odd = _odd(key)
        states, lengths = self._words[order[at]], np.diff(at, append=size).astype(np.uint64)
        runs = _mixed(states * odd[0] + lengths * odd[1])
        # The first and the last run of a series may have been cut off: no stretch has them.
        whole = series[at[: -_RUNS - 1]] == series[at[_RUNS + 1 :]]
        nats = np.append(0.0, np.cumsum(_information(codes, self._size, at, runs)))
        # Of 36 runs, the 35 that follow the first.
        known = nats[_RUNS + 1 : -1] - nats[2:-_RUNS]
        hashes = _either_way(runs, odd)[1:-1]
        chosen = np.flatnonzero(whole & (known >= IDENTIFYING))
        found, owner = hashes[chosen], series[at[1 + chosen]]
        few = 1 + _SAMPLE // step if step > 1 else _SAMPLE
        return Shingles(np.unique(found), _smallest(found, owner, few))


_NO_WORDS: Words = np.empty(0, dtype=np.uint64)


def _digests(
    key: bytes, words: Words, starts: NDArray[np.bool_], places: Iterable[int]
) -> dict[int, bytes]:
    """The digest of everything up to each of these places that the series has."""
    digest = hashlib.blake2b(key=key, digest_size=_DIGEST, person=b"series")
    content = words ^ np.where(starts, ~np.uint64(0), np.uint64(0))
    digests, before = dict[int, bytes](), 0
    for place in sorted(place for place in places if 0 < place <= len(words)):
        digest.update(content[before:place].tobytes())
        digests[place], before = digest.copy().digest(), place
    return digests


def _smallest(words: Words, owner: NDArray[Any], few: int) -> Words:
    """The smallest words of each owner, of which there are a few."""
    order = np.lexsort((words, owner))
    words, owner = words[order], owner[order]
    keep = np.ones(len(words), dtype=bool)
    keep[1:] = (words[1:] != words[:-1]) | (owner[1:] != owner[:-1])
    words, owner = words[keep], owner[keep]
    rank = np.arange(len(words)) - np.searchsorted(owner, owner)
    return words[rank < few]


def _information(
    codes: NDArray[Any], size: int, at: NDArray[Any], runs: Words
) -> NDArray[np.float64]:
    """For each run the nats of its length and state, given the run before.

    By the transitions of the series; of a run that often follows the same run, not more than by
    the share of these cases.
    """
    moves = codes[:-1] * size + codes[1:]
    seen = np.bincount(moves, minlength=size * size)
    leaves = np.maximum(seen.reshape(size, size).sum(axis=1), 1)
    loss = np.log(np.repeat(leaves, size) / np.maximum(seen, 1))
    each = np.append(0.0, np.cumsum(loss[moves]))
    ends = np.append(at[1:], len(codes)) - 1
    nats = each[ends] - each[np.maximum(at - 1, 0)]
    pairs = _mixed(runs[:-1]) + runs[1:]
    _, pair, together = np.unique(pairs, return_inverse=True, return_counts=True)
    _, first, before = np.unique(runs[:-1], return_inverse=True, return_counts=True)
    often = together[pair]
    share = np.log((before[first] + 1) / often)
    habit = np.minimum(nats[1:], share)
    nats[1:] = np.where(often >= _OFTEN, habit, nats[1:])
    return np.asarray(nats, dtype=np.float64)


def _either_way(runs: Words, odd: Words) -> Words:
    """Hashes of 36 successive runs, equal for the same runs backwards.

    Of two stretches a and b that follow one another, forwards(ab) = k forwards(a) + forwards(b) and
    backwards(ab) = k backwards(b) + backwards(a), mixed.
    """
    forwards = backwards = runs
    size, parts = 1, dict[int, tuple[Words, Words]]()
    while 2 * size <= _RUNS:
        parts[size] = forwards, backwards
        k = odd[2 + len(parts)]
        forwards = _mixed(forwards[:-size] * k + forwards[size:])
        backwards = _mixed(backwards[size:] * k + backwards[:-size])
        size *= 2
    rest = _RUNS - size
    fore, aft = parts[rest]
    count = len(runs) - _RUNS + 1
    return np.minimum(
        _mixed(forwards[:count] * odd[2] + fore[size:]),
        _mixed(backwards[rest:] * odd[2] + aft[:count]),
    )


def _odd(key: bytes) -> Words:
    """Odd numbers that only the key tells."""
    return np.frombuffer(_stream(key, b"shingles", 8 * 8), dtype="<u8") | np.uint64(1)


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
    samples = [shingles.sample.tolist() for shingles in data.shingles(key)]
    sample = [word.to_bytes(8, "big") for words in samples for word in words]
    length, plain = data.length, b"".join([*digests.values(), *sample])
    hidden = _either(plain, _pad(key, account, length, len(plain))).hex()
    return {"entries": length, "at": list(digests), "digests": hidden}


def rows_named(key: bytes, data: Data) -> str | None:
    """A name for all rows of a window; ``None`` if they have no identifying stretch.

    Windows of few rows, or of few states, are equal by chance.
    """
    if not any(len(words) for words, _ in data.shingles(key)[:1]):
        return None
    return _stream(key, b"rows" + data.prefixes(key, [data.length])[data.length], 32).hex()


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

    def with_stretch_of(self, shingles: Iterable[Shingles]) -> str | None:
        """An account with one of these stretches."""
        if not self._stretches:
            return None
        if self._words is None:
            self._words = np.sort(np.fromiter(self._stretches, np.uint64, len(self._stretches)))
        for words, _ in shingles:
            if len(words):
                at = np.minimum(np.searchsorted(words, self._words), len(words) - 1)
                shared = self._words[words[at] == self._words]
                if len(shared):
                    return self._stretches[int(shared[0])]
        return None


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
        if data.exact and data.information(data.length) >= IDENTIFYING:
            for place, digest in data.otherwise(key, known.places).items():
                rest = max(1, data.length - place)
                nats = data.information(data.length) - data.information(rest)
                if (place, digest) in at and nats >= IDENTIFYING:
                    return _second(name, at[place, digest])
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
        "confirm_data=True (--confirm-data)"
    )


# -- recognition ---------------------------------------------------------------------------------


class Recognition:
    """Recognises data with the key in ``path``; not at all if that is ``None``."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._others: _Others | None = None
        self._reading = threading.Lock()

    def new_key(self, connection: Connection, known: Keys) -> str | None:
        """The name of the key of a ledger that has none yet; ``None`` if it has, or gets none."""
        if self.path is None or known.data is not None:
            return None
        if known.entries and list(mark_texts(connection)):
            raise LedgerError(
                "ledger: it has marks of data, but no entry names their key, so it was damaged; "
                "restore a backup and run pufferkit ledger verify"
            )
        return key_name(read_key(self.path) or make_key(self.path))

    def marks(
        self, connection: Connection, data: Mapping[str, Data], meant: bool
    ) -> dict[str, dict[str, Any]]:
        """The marks that charges about these data must record; raises if the data are refused.

        An account that was opened without marks gets them now. Those of longer data stay.
        """
        stored, key = self.check(connection, data, meant)
        if key is None:
            return {}
        fresh = {name: marks_of(key, name, d) for name, d in data.items()}
        return {
            name: marks
            for name, marks in fresh.items()
            if name not in stored
            or (marks != stored[name] and marks["entries"] >= stored[name]["entries"])
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
                _unchanged(key, name, marks, data[name])
            new = {name: d for name, d in data.items() if name not in stored}
            if new:
                fellows = next(iter(new.values())).fellows  # of one table, or of one series
                with self._reading:
                    others, self._others = self._others, None  # an error leaves nothing half read
                    if others is None or not others.caught_up(connection, key, fellows):
                        others = _Others(connection, key, fellows)
                    self._others = others
                    refusal = same_data(key, new, others.known)
                if refusal is not None:
                    raise ValueError(refusal)
        return stored, key

    def rows(self, connection: Connection, charges: Iterable[Charge], meant: bool) -> list[Draft]:
        """Entries that recognise the rows of windows; raises if an earlier window had the same.

        Windows that overlap may well have the same rows.
        """
        drafts = []
        for charge in charges:
            key = self._key(connection, meant) if charge.rows is not None else None
            named = None if key is None or charge.rows is None else rows_named(key, charge.rows)
            if named is None:
                continue
            assert charge.total is not None
            axis, begin, end = charge.body["use"][:3]
            known = next(entries_named(connection, [charge.account], "rows", [named]), None)
            if known is None:
                use = {"use": [axis, begin, end]}
                drafts.append(Draft(charge.account, "rows", named, 0, charge.total, use))
            elif not meant and not _overlap(known.body["use"], charge.body["use"]):
                raise ValueError(
                    f"data: are, row for row, those of another window of {charge.account!r} "
                    f"(ledger entry {known.seq}), which they have spent already; give the rows "
                    "of this window. If they happen to be equal, confirm it with confirm_data=True "
                    "(--confirm-data)"
                )
        return drafts

    def wrote(self, before: tuple[int, str], after: tuple[int, str], names: Iterable[str]) -> None:
        """Note that the entries between two heads are of these accounts.

        Those of fellows need not be read. Should the transaction fail, the digest of its last entry
        is not in the chain, and all is read again.
        """
        with self._reading:
            if self._others is not None:
                self._others.skip(before, after, names)

    def _key(self, connection: Connection, meant: bool) -> bytes | None:
        """The key of this ledger; ``None`` if data are not recognised or no key is recorded yet."""
        if connection.trial:  # by a key that is forgotten
            return None if self.path is None else secrets.token_bytes(KEY_SIZE)
        named = named_keys(connection).data
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
                "PUFFERKIT_LEDGER_KEY). If it is lost, confirm_data=True (--confirm-data) "
                "continues without recognising data"
            )
        return key


class _Others:
    """The data of all accounts but the fellows of a table, as of one entry of the chain.

    Pads hide the marks, so no index of the database finds equal ones: they are read once, and then
    those of accounts with newer entries. The digest of an entry stands for all entries before it.
    """

    def __init__(self, connection: Connection, key: bytes, fellows: Collection[str]) -> None:
        self._key, self._fellows, self._head = key, fellows, connection.head
        self._texts: dict[str, str] = {}
        self.known = KnownData()
        self._add(mark_texts(connection))

    def caught_up(self, connection: Connection, key: bytes, fellows: Collection[str]) -> bool:
        """Read what is new; ``False`` if that is not enough, and all has to be read again."""
        if key != self._key or fellows is not self._fellows:
            return False
        if connection.head == self._head:
            return True
        seq, digest = self._head
        self._head = connection.head
        return digest_at(connection, seq) == digest and self._add(mark_texts(connection, seq))

    def skip(self, before: tuple[int, str], head: tuple[int, str], names: Iterable[str]) -> None:
        """Pass over the entries between two heads, of these accounts, if all are fellows."""
        if before == self._head and all(name in self._fellows for name in names):
            self._head = head

    def _add(self, texts: Iterable[tuple[str, str]]) -> bool:
        """Add accounts; ``False`` if the marks of one of them were others before."""
        same = True
        for name, text in dict(texts).items():  # the latest of each
            if name in self._fellows:
                continue
            before = self._texts.setdefault(name, text)
            same = same and before == text
            if before is text:
                self.known.add(Marks(self._key, name, json.loads(text)))
        return same


def _overlap(one: Sequence[Any], other: Sequence[Any]) -> bool:
    return bool(one[1] < other[2] and other[1] < one[2])


def _unchanged(key: bytes, name: str, stored: Any, data: Data) -> None:
    place = Marks(key, name, stored).changed(key, data)
    if place is not None:
        raise ValueError(
            f"account: entries 1 to {place} of {name!r} differ from those it was charged for: "
            "rows were inserted, changed or removed. The data of an account may only grow at "
            "the end; if the change is intended, confirm it with confirm_data=True (--confirm-data)"
        )
