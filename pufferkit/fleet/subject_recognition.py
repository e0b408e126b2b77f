"""Recognising the subjects of a table by their counts, and few subjects by entries too.

The digest of a subject up to a place is over the time of its first entry and the counts of all
entries so far, so that it does not depend on how windows are cut. Places are ends of pieces: the
last and some before it. Counts of a long stretch in several states are rarely equal by chance, and
a few windows of them hardly ever; where they are, it is no evidence (see `fingerprints`).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np

from pufferkit.accounting.fingerprints import SeriesData, Shingles
from pufferkit.data.table import Table

_BACK = (1, 2, 3, 5, 9, 17)
"""The ends of pieces that are recorded, counted from the last."""

_FEW = 1_000
"""For up to this many subjects stretches of entries are recorded too, if a table keeps them."""

_FEWER = 50
"""And for up to this many also those of thinned entries, which take some ten times as long."""


class SubjectData:
    """The counts of one subject, in some pieces of a table, as `fingerprints.Data`."""

    exact = False
    __slots__ = ("_ends", "_number", "_of", "_start", "length")

    def __init__(self, of: TableData, number: int, start: int, ends: list[int]) -> None:
        self._of, self._number, self._start, self._ends = of, number, start, ends
        self.length = ends[-1]

    @property
    def fellows(self) -> Collection[str]:
        return self._of.fellows

    @property
    def places(self) -> tuple[int, ...]:
        ends = self._ends
        return tuple([ends[-n] for n in reversed(_BACK) if n <= len(ends)])

    def prefixes(self, key: bytes, places: Iterable[int]) -> dict[int, bytes]:
        wanted = places if isinstance(places, (set, dict)) else set(places)
        words, begins = self._of.words, self._of.begins(self._number)
        return {
            place: hashlib.blake2b(
                b"%d %b %b" % (place, words[16 * number : 16 * number + 16], begins),
                key=key,
                digest_size=8,
                person=b"subject",
            ).digest()
            for number, place in enumerate(self._ends, self._start)
            if place in wanted
        }

    def information(self, place: int) -> float:
        return float(self._of.information[self._start + self._ends.index(place)])

    def otherwise(self, key: bytes, places: Collection[int]) -> dict[int, bytes]:
        del key, places  # counts do not tell the order of entries
        return {}

    def shingles(self, key: bytes) -> Sequence[Shingles]:
        table, number, known = self._of.table, self._number, self._of.shingles
        if table.codes is None or len(self._of) > _FEW:
            return ()
        if (key, number) not in known:
            codes, lengths = table.codes_of(number), table.lengths_of(number)
            few = len(self._of) <= _FEWER
            series = SeriesData(codes, table.states, lengths, thinned=few)
            known[key, number] = series.shingles(key)
        return known[key, number]


class TableData(Mapping[str, SubjectData]):
    """The data of each account of a table, put together when they are asked for.

    ``names`` are the accounts of the subjects, in order. For each piece there is the number of
    entries of its subject up to its end, a digest of the counts of these entries, and information.
    """

    def __init__(self, table: Table, names: Sequence[str]) -> None:
        # A sum of counts, each times a hash of its label: states that never occur do not matter.
        labels = [hashlib.sha256(str(state).encode()).digest()[:16] for state in table.states]
        weights = np.frombuffer(b"".join(labels), dtype="<u8").astype(np.uint64).reshape(-1, 2)
        first = np.searchsorted(table.owner, np.arange(len(names) + 1))
        sums = np.cumsum(table.pieces, axis=0).astype(np.uint64)
        words = np.column_stack([(sums * weights[:, n]).sum(axis=1) for n in (0, 1)])
        ends = np.cumsum(table.sizes)
        begun = first[table.owner]
        words -= np.append(np.zeros((1, 2), dtype=np.uint64), words, axis=0)[begun]
        # One number of a view is read several times faster than one of an array.
        self._ends = (ends - np.append(0, ends)[begun]).data
        self.words = words.tobytes()
        present = (table.pieces > 0).sum(axis=1)
        self.information = 0.5 * (present - 1) * np.log(np.maximum(table.sizes, 1))
        self._first, self.table = first.data, table
        self.shingles: dict[tuple[bytes, int], Sequence[Shingles]] = {}
        self._numbers = {name: number for number, name in enumerate(names)}
        self.fellows = self._numbers.keys()
        # Of recurring slots, only the sum over all is a stretch of the series.
        self._in_slots = table.windows is not None and table.windows.repeats is not None

    def __getitem__(self, name: str) -> SubjectData:
        number = self._numbers[name]
        start, stop = self._first[number], self._first[number + 1]
        if self._in_slots:
            start = stop - 1
        return SubjectData(self, number, start, self._ends[start:stop].tolist())

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)

    def begins(self, number: int) -> bytes:
        """The time of a subject's first entry, as text."""
        if self.table.begins is None:
            return b""
        time = self.table.begins[number]  # some engines return 3.0 for 3
        whole = math.isfinite(time) and time == int(time)
        return (str(int(time)) if whole else repr(time)).encode()
