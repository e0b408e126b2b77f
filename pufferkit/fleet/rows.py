"""The rows of a run: one for each subject and window, with its place in the subject's series."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pufferkit.data.table import Counts, Table
from pufferkit.fleet.accounts import PendingRelease
from pufferkit.mechanisms.calibration import Calibration

EVERYBODY = "(all subjects)"
"""The account that keeps the values of releases over all subjects."""

ON_CLUSTER = "(runs on a cluster)"
"""The account that keeps where the values of a run on a cluster are."""

CHUNK = 5000
"""Rows that are charged, drawn and stored together."""


@dataclass(frozen=True, eq=False)
class Asked:
    """The rows to release: subject, window, counts, and the first and last entry, from 1."""

    owner: Counts
    window: Counts
    counts: Counts
    first: Counts
    last: Counts

    @classmethod
    def of(cls, table: Table, pieces: Counts) -> Asked:
        """The rows of a table whose pieces have these counts."""
        new = np.ones(len(table.owner), dtype=bool)
        new[1:] = (np.diff(table.owner) != 0) | (np.diff(table.window) != 0)
        at = np.flatnonzero(new)
        first, last = table.places
        after = np.append(at[1:], len(table.owner))
        return cls(
            owner=table.owner[at],
            window=table.window[at],
            counts=np.add.reduceat(pieces, at, axis=0),
            first=first[at],
            last=last[after - 1],
        )


def account_names(table: Table, prefix: str) -> list[str]:
    """The account of each subject; names must identify them."""
    names = [f"{prefix}{subject}" for subject in table.subjects]
    for taken in (EVERYBODY, ON_CLUSTER):
        if f"{prefix}{taken}" in names:
            raise ValueError(f"subject: {taken!r} is the name of another account; rename it")
    if len(set(names)) < len(names):
        raise ValueError("subject: two of them print alike; give them different names")
    return names


def pending_releases(
    table: Table,
    asked: Asked,
    rows: NDArray[np.int64],
    used: Counts,
    calibrations: dict[int, Calibration],
    prefix: str,
) -> list[PendingRelease]:
    """What each row costs whom."""
    entries = asked.counts.sum(axis=1)
    lengths = {int(n): table.lengths_of(int(n)) for n in np.unique(asked.owner[rows])}
    return [
        PendingRelease(
            f"{prefix}{table.subjects[owner]}",
            lengths[owner],
            int(asked.window[row]),
            int(asked.first[row]),
            int(asked.last[row]),
            calibrations[int(used[owner])],
            None if table.begins is None else table.begins[owner],
            int(entries[row]),
            table.step,
            table.independent_after,
        )
        for row, owner in zip(rows.tolist(), asked.owner[rows].tolist(), strict=True)
    ]


def chunks_of(owner: Counts) -> list[NDArray[np.int64]]:
    """Rows in parts that keep a subject together."""
    starts = np.flatnonzero(np.append(True, np.diff(owner) != 0))
    parts, begin = [], 0
    for start in [*starts[1:].tolist(), len(owner)]:
        if start - begin >= CHUNK or start == len(owner):
            parts.append(np.arange(begin, start))
            begin = start
    return [part for part in parts if len(part)]
