"""`release_each` on a Spark cluster: the driver calibrates and pays, the executors draw.

1. The cluster counts; numbers of entries, which are public, come to the driver.
2. The executors show in a trial that they can draw and write.
3. The driver calibrates and charges every account for the rows that are new, in one transaction.
   Rows that are charged together are a *part* of the run.
4. For a part without a folder, the ledger records which folder this attempt will write.
5. The executors draw the noise and write the rows there.
6. The ledger notes the folder. The first one noted holds the values of the part, for ever.

A lost executor or a task that runs twice may draw again, but only one attempt of each task is
committed, and nobody is given a row before step 6. A driver can die anywhere. After step 3 the next
one draws under the same charge; after step 5 it finds all rows in the folder of step 4 and notes
it; after step 6 it gives what was noted.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pufferkit.beliefs.provenance import check_not_counted_from
from pufferkit.checks import Floats
from pufferkit.data.table import Counts, Table
from pufferkit.fleet.accounts import Accounts
from pufferkit.fleet.releases import note_of
from pufferkit.fleet.run import (
    ON_CLUSTER,
    FleetRows,
    FleetRun,
    PendingRelease,
    account_names,
    pending_releases,
)
from pufferkit.frames import spark_storage
from pufferkit.frames.spark import ClusterTable, CountedTable, RowNoise


def release_on_cluster(
    table: ClusterTable,
    run: FleetRun,
    accounts: Accounts | None,
    prefix: str,
    storage: str | None,
    progress: Callable[[int, int], None] | None = None,
) -> Any:
    """One noisy row for each subject and window, as a DataFrame that reads committed files."""
    if storage is None:
        raise ValueError(
            "storage: name a folder that driver and executors can reach; noise is written there "
            "once, so that Spark cannot draw it again"
        )
    folder = spark_storage.full_path(table.session, os.fspath(storage).rstrip("/"))
    states = run.beliefs.states
    with table.counted() as counted:
        counted.refuse_unknown(states)
        moves = counted.transitions(states)
        check_not_counted_from(run.beliefs.sources, moves, states)
        sizes = counted.sizes()
        asked = FleetRows.of(sizes, sizes.pieces)
        used, calibrations = run.calibrations(sizes.longest)
        wanted = np.array([calibrations[int(length)].scale for length in used])
        draw = _ClusterDraw(counted, run, sizes, asked, wanted[asked.owner], folder)
        everything = np.arange(len(asked.owner))
        if accounts is None:
            path = draw.new_folder("unpaid")
            draw.write(path, everything, draw.wanted)
            rows = spark_storage.read(table.session, [path])
        else:
            pending = pending_releases(sizes, asked, everything, used, calibrations, prefix)
            rows = _paid(draw, accounts, pending, f"{prefix}{ON_CLUSTER}", prefix)
    if progress is not None:
        progress(len(asked.owner), len(asked.owner))
    return rows


@dataclass(frozen=True)
class _ClusterDraw:
    """What the executors are to draw, and where to; ``wanted`` is the scale of each row."""

    counted: CountedTable
    run: FleetRun
    sizes: Table
    asked: FleetRows
    wanted: Floats
    folder: str

    @property
    def session(self) -> Any:
        return self.counted.table.session

    def new_folder(self, part: str) -> str:
        """A name that no other attempt has."""
        return f"{self.folder}/{self.run.identity[:16]}-{part[:16]}-{uuid.uuid4().hex[:16]}"

    def rows(self, numbers: Counts) -> list[tuple[Any, int]]:
        """Subject and window of these rows."""
        owners, windows = self.asked.owner[numbers].tolist(), self.asked.window[numbers].tolist()
        return [(self.sizes.subjects[n], window) for n, window in zip(owners, windows, strict=True)]

    def write(self, path: str, numbers: Counts, scales: Floats) -> None:
        """Draw and write; errors in words."""
        run = self.run
        noise = RowNoise(shares=run.query == "frequencies")
        note = note_of(run.beliefs.is_private, self.sizes.independent_after)
        rows = self.rows(numbers)
        try:
            self.counted.write_noisy(path, run.beliefs.states, noise, rows, scales, note)
        except Exception as error:
            raise RuntimeError(
                f"executors: the noisy rows could not be written to {path} "
                f"({spark_storage.in_words(error)}); the same call with the same label draws them "
                "under the same charge"
            ) from None


def _paid(
    draw: _ClusterDraw,
    accounts: Accounts,
    pending: Sequence[PendingRelease],
    record: str,
    prefix: str,
) -> Any:
    """Charge what is new, draw what has no folder, and give the rows of all parts."""
    account_names(draw.sizes, prefix)  # they must identify subjects
    key_of = draw.run.keys(release.window for release in pending)
    keys = [(release.account, key_of[release.window]) for release in pending]
    if not _all_noted(accounts, record, keys, list(key_of.values())):
        spark_storage.try_executors(draw.session, f"{draw.folder}/_trial-{uuid.uuid4().hex[:16]}")
    body = {
        "query": f"{draw.run.query} of {len(draw.sizes.subjects)} subjects on a cluster",
        "mechanism": draw.run.mechanism,
        "scale": float(draw.wanted.max()),
    }
    charges = accounts.pay_part(pending, record, body)
    members: dict[str, list[int]] = {}
    for number, key in enumerate(keys):
        members.setdefault(charges[key].body["part"], []).append(number)
    notes = []
    for part, numbers in members.items():
        stored = accounts.ledger.find(record, part)
        if stored is None:
            # Noise must not be less than what was charged for, among other lengths perhaps.
            charged = [charges[keys[number]].body["scale"] for number in numbers]
            rows = np.array(numbers)
            scales = np.maximum(draw.wanted[rows], charged)
            stored = _drawn(draw, accounts, record, part, rows, scales)
        notes.append(stored.body)
    return _handed_over(draw, notes)


def _all_noted(
    accounts: Accounts, record: str, keys: Sequence[tuple[str, str]], windows: list[str]
) -> bool:
    """Whether nothing is left to be drawn."""
    names = list(dict.fromkeys(name for name, _ in keys))
    charged = accounts.ledger.find_many(names, windows, "charge")
    if any(key not in charged for key in keys):
        return False
    parts = {charged[key].body["part"] for key in keys}
    return len(accounts.ledger.find_many([record], list(parts))) == len(parts)


def _drawn(
    draw: _ClusterDraw, accounts: Accounts, record: str, part: str, numbers: Counts, scales: Floats
) -> Any:
    """The note of a part that had none: of rows that are written already, or of new ones."""
    ledger, rows = accounts.ledger, len(numbers)
    charge = ledger.find(record, part, "charge")
    if charge is None or charge.body["rows"] != rows:
        raise ValueError(
            f"label: the run {draw.run.label!r} was charged for more rows than these and broke off "
            "before they were written; finish it first, with the table it was made for"
        )
    folders = accounts.folders(record, part)
    for path in folders:
        if spark_storage.written(draw.session, path, rows):
            break
    else:
        path = draw.new_folder(part)
        accounts.name_folder(record, part, path)
        folders.append(path)
        try:
            draw.write(path, numbers, scales)
            if not spark_storage.written(draw.session, path, rows):
                raise RuntimeError(
                    f"storage: {path} does not hold the {rows} rows that were written to it; the "
                    "same call with the same label tries again under the same charge"
                )
        except RuntimeError:
            if ledger.find(record, part) is None:  # otherwise another driver was first
                raise
    stored = ledger.store(record, part, {"path": path, "rows": rows})
    for folder in folders:
        if folder != stored.body["path"]:  # nobody was given it, and nobody will be
            spark_storage.delete(draw.session, folder)
    return stored


def _handed_over(draw: _ClusterDraw, notes: Sequence[Any]) -> Any:
    """The rows that were asked for, from the files that hold them."""
    for note in notes:
        try:
            rows = draw.session.read.parquet(note["path"]).count()
        except Exception as error:
            raise ValueError(
                f"storage: values of this run should be in {note['path']}, but cannot be read "
                f"({spark_storage.in_words(error)}); they are not drawn again"
            ) from None
        if rows != note["rows"]:
            raise ValueError(
                f"storage: {note['path']} has {rows} rows instead of {note['rows']}; it was changed"
            )
    stored = spark_storage.read(draw.session, [note["path"] for note in notes])
    if sum(note["rows"] for note in notes) == len(draw.wanted):
        return stored
    return draw.counted.only(stored, draw.rows(np.arange(len(draw.wanted))))
