"""Recognising the subjects of a table by their counts, and few subjects by entries too.

The digest of a subject up to a place is over the time of its first entry and the counts of all
entries so far, so that it does not depend on how windows are cut. Places are ends of pieces: the
last and some before it. Counts of a long stretch in several states are rarely equal by chance, and
a few windows of them hardly ever; where they are, it is no evidence (see `fingerprints`).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Iterable

import numpy as np
from numpy.typing import NDArray

from pufferkit.accounting.fingerprints import SeriesData
from pufferkit.data.series import Series
from pufferkit.data.table import Counts, Table

_BACK = (1, 2, 3, 5, 9, 17)
"""The ends of pieces that are recorded, counted from the last."""

_FEW = 1_000
"""For up to this many subjects stretches of entries are recorded too, if a table keeps them."""


class SubjectData:
    """The counts of one subject, as `fingerprints.Data`."""

    exact = False

    def __init__(
        self,
        ends: Counts,
        words: NDArray[np.uint64],
        information: NDArray[np.float64],
        begins: str,
        fellows: Collection[str],
        entries: Series | None = None,
    ) -> None:
        self.fellows, self._entries = fellows, entries
        self._at = {int(end): number for number, end in enumerate(ends)}
        self._words, self._information, self._begins = words, information, begins.encode()
        self.length = int(ends[-1])
        self.places = tuple(int(ends[-n]) for n in reversed(_BACK) if n <= len(ends))

    def prefixes(self, key: bytes, places: Iterable[int]) -> dict[int, bytes]:
        wanted = places if isinstance(places, (set, dict)) else set(places)
        return {
            place: hashlib.blake2b(
                b"%d %b %b" % (place, self._words[number].tobytes(), self._begins),
                key=key,
                digest_size=8,
                person=b"subject",
            ).digest()
            for place, number in self._at.items()
            if place in wanted
        }

    def information(self, place: int) -> float:
        return float(self._information[self._at[place]])

    def shingles(self, key: bytes) -> NDArray[np.uint64]:
        if self._entries is None:
            return np.empty(0, dtype=np.uint64)
        return SeriesData(self._entries).shingles(key)


def recognised(table: Table, names: list[str]) -> dict[str, SubjectData]:
    """The data of each account; ``names`` are the accounts of the subjects, in order."""
    # A sum of counts, each times a hash of its label: states that never occur do not matter.
    labels = [hashlib.sha256(str(state).encode()).digest()[:16] for state in table.states]
    weights = np.frombuffer(b"".join(labels), dtype="<u8").astype(np.uint64).reshape(-1, 2)
    first = np.searchsorted(table.owner, np.arange(len(names) + 1))
    sums = np.cumsum(table.pieces, axis=0).astype(np.uint64)
    words = np.column_stack([(sums * weights[:, n]).sum(axis=1) for n in (0, 1)])
    ends = np.cumsum(table.sizes)
    present = (table.pieces > 0).sum(axis=1)
    information = 0.5 * (present - 1) * np.log(np.maximum(table.sizes, 1))
    notes, fellows = {}, frozenset(names)
    entries = table.codes is not None and len(names) <= _FEW
    in_slots = table.windows is not None and table.windows.repeats is not None
    for number, name in enumerate(names):
        start, stop = int(first[number]), int(first[number + 1])
        # Of recurring slots, only the sum over all is a stretch of the series.
        part = slice(stop - 1 if in_slots else start, stop)
        before = words[start - 1] if start else np.zeros(2, dtype=np.uint64)
        offset = int(ends[start - 1]) if start else 0
        begins = "" if table.begins is None else _time(table.begins[number])
        notes[name] = SubjectData(
            ends[part] - offset,
            words[part] - before,
            information[part],
            begins,
            fellows,
            table.series(table.subjects[number]) if entries else None,
        )
    return notes


def _time(begins: float) -> str:
    """A time in canonical form, whether an engine returned 3 or 3.0."""
    return str(int(begins)) if math.isfinite(begins) and begins == int(begins) else repr(begins)
