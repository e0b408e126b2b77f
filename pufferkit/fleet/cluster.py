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

from pufferkit.beliefs.provenance import PRIVATE_NOTE, check_not_counted_from
from pufferkit.data.table import Table
from pufferkit.fleet.accounts import Accounts, Due
from pufferkit.fleet.plan import LIPSCHITZ, Run
from pufferkit.fleet.rows import ON_CLUSTER, Asked, account_names, dues_of
from pufferkit.frames import spark_storage
from pufferkit.frames.spark import ClusterTable, Counted, Noise


def release_on_cluster(
    table: ClusterTable,
    run: Run,
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
        asked = Asked.of(sizes, sizes.pieces)
        used, calibrations = run.calibrations(sizes.longest)
        wanted = np.array([LIPSCHITZ * calibrations[int(length)].scale for length in used])
        draw = _Draw(counted, run, sizes, wanted, folder)
        if accounts is None:
            path = draw.new_folder("unpaid")
            draw.write(path, _by_longest(sizes, wanted))
            found = spark_storage.read(table.session, [path])
        else:
            rows = np.arange(len(asked.owner))
            dues = dues_of(sizes, asked, rows, used, calibrations, prefix)
            found = _paid(draw, accounts, asked, dues, f"{prefix}{ON_CLUSTER}", prefix)
    if progress is not None:
        progress(len(asked.owner), len(asked.owner))
    return found


@dataclass(frozen=True)
class _Draw:
    """What the executors are to draw, and where to."""

    counted: Counted
    run: Run
    sizes: Table
    wanted: np.ndarray
    folder: str

    @property
    def session(self) -> Any:
        return self.counted.table.session

    def new_folder(self, part: str) -> str:
        """A name that no other attempt has."""
        return f"{self.folder}/{self.run.identity[:16]}-{part[:16]}-{uuid.uuid4().hex[:16]}"

    def write(self, path: str, scales: dict[int, float], only: Any = None) -> None:
        """Draw and write; errors in words."""
        run = self.run
        noise = Noise(scales, LIPSCHITZ, float(self.sizes.totals.max()), run.query == "frequencies")
        note = PRIVATE_NOTE if run.beliefs.is_private else None
        try:
            self.counted.write_noisy(path, run.beliefs.states, noise, note, only)
        except Exception as error:
            raise RuntimeError(
                f"executors: the noisy rows could not be written to {path} "
                f"({spark_storage.in_words(error)}); the same call with the same label draws them "
                "under the same charge"
            ) from None


def _by_longest(sizes: Table, scales: np.ndarray) -> dict[int, float]:
    """The scale for each length of a longest segment; where subjects differ, the largest."""
    found: dict[int, float] = {}
    for longest, scale in zip(sizes.longest.tolist(), scales.tolist(), strict=True):
        found[longest] = max(scale, found.get(longest, 0.0))
    return found


def _paid(
    draw: _Draw, accounts: Accounts, asked: Asked, dues: Sequence[Due], record: str, prefix: str
) -> Any:
    """Charge what is new, draw what has no folder, and give the rows of all parts."""
    names = account_names(draw.sizes, prefix)
    key_of = {window: draw.run.key(window) for window in {due.window for due in dues}}
    keys = [(due.account, key_of[due.window]) for due in dues]
    if not _all_noted(accounts, record, keys, list(key_of.values())):
        spark_storage.try_executors(draw.session, f"{draw.folder}/_trial-{uuid.uuid4().hex[:16]}")
    accounts.open([*names, record])
    body = {
        "query": f"{draw.run.query} of {len(draw.sizes.subjects)} subjects on a cluster",
        "mechanism": draw.run.mechanism,
        "scale": float(draw.wanted.max()),
    }
    charges = accounts.pay_part(dues, record, body)
    members: dict[str, list[int]] = {}
    for number, key in enumerate(keys):
        members.setdefault(charges[key].body["part"], []).append(number)
    notes = []
    for part, numbers in members.items():
        stored = accounts.ledger.find(record, part)
        if stored is None:
            scales = draw.wanted.copy()
            for number in numbers:
                # Noise must not be less than what was charged for, among other lengths perhaps.
                owner = asked.owner[number]
                scales[owner] = max(scales[owner], charges[keys[number]].body["scale"])
            only = None if len(numbers) == len(keys) else _rows(draw.sizes, asked, numbers)
            stored = _drawn(draw, accounts, record, part, len(numbers), scales, only)
        notes.append(stored.body)
    return _handed_over(draw, notes, asked)


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


def _rows(sizes: Table, asked: Asked, numbers: Sequence[int]) -> list[tuple[Any, int]]:
    return [(sizes.subjects[asked.owner[n]], int(asked.window[n])) for n in numbers]


def _drawn(
    draw: _Draw,
    accounts: Accounts,
    record: str,
    part: str,
    rows: int,
    scales: np.ndarray,
    only: Sequence[tuple[Any, int]] | None,
) -> Any:
    """The note of a part that had none: of rows that are written already, or of new ones."""
    ledger = accounts.ledger
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
            draw.write(path, _by_longest(draw.sizes, scales), only)
        except RuntimeError:
            if ledger.find(record, part) is None:
                raise
        else:
            if not spark_storage.written(draw.session, path, rows):
                raise RuntimeError(
                    f"storage: {path} does not hold the {rows} rows that were written to it; the "
                    "same call with the same label tries again under the same charge"
                )
    stored = ledger.store(record, part, {"path": path, "rows": rows})
    for folder in folders:
        if folder != stored.body["path"]:  # nobody was given it, and nobody will be
            spark_storage.delete(draw.session, folder)
    return stored


def _handed_over(draw: _Draw, notes: Sequence[Any], asked: Asked) -> Any:
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
    found = spark_storage.read(draw.session, [note["path"] for note in notes])
    if sum(note["rows"] for note in notes) == len(asked.owner):
        return found
    wanted = _rows(draw.sizes, asked, range(len(asked.owner)))
    return draw.counted.only(found, wanted)
