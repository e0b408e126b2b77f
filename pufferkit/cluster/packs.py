"""Releases about a table on Spark: executors count, the driver charges in batches.

1. A trial shows that the executors have what they need; nothing is charged before it.
2. They sort, link and count; the public facts about all subjects come to the driver, which
calibrates.
3. Packs of a few thousand subjects come to the driver one after another. First it asks the ledger
   whether every account can pay, then it charges pack by pack.

**For each subject** the noise of a pack is drawn and stored *with its charges, in one transaction*,
under keys that follow from the run, the subject and the window. Only stored values are handed over.
So it does not matter how often Spark computes a pack, when a driver fails, or how many drivers run
at once: a charge has one value, and the files in the storage are copies of it. Without accounts the
executors draw, in a job that writes files.

**For all together** every account is charged first, pack by pack. The sums are computed in the
executors, and their noise is drawn and stored after the last charge, in one transaction with the
account of the record.
"""

from __future__ import annotations

import os
import pickle
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from pufferkit.account.ledger import TableAccounts
from pufferkit.account.releases import Releases, note_of
from pufferkit.account.subjects import (
    CHANGED,
    Accounts,
    AskedRows,
    Batch,
    FleetRun,
    account_names,
    batches_of,
)
from pufferkit.account.tables import (
    asked_of,
    paid_rows,
    paid_together,
    releases_of,
    rows_used,
    summed_up,
    warn_if_rows_drown,
)
from pufferkit.beliefs.base import check_step
from pufferkit.beliefs.provenance import check_not_counted_from, check_paid
from pufferkit.checks import Floats
from pufferkit.cluster import spark_storage
from pufferkit.cluster.spark import NUMBER, SCALE, ClusterTable, Columns, CountedTable
from pufferkit.data.count import SUBJECT, WINDOW
from pufferkit.data.exact_rows import Rows, exact_rows, refuse_digits
from pufferkit.data.table import Counts, Table
from pufferkit.influence.progress import Progress
from pufferkit.mechanisms.calibration import Calibration

ROWS_OF_A_FILE = 50_000
"""Most rows that the driver holds before writing them."""


def release_on_cluster(
    table: ClusterTable,
    run: FleetRun,
    accounts: TableAccounts | None,
    *,
    each: bool,
    storage: str | None = None,
    progress: Progress | None = None,
    anyway: bool = False,
) -> Any:
    """A row for each subject and window, or over all subjects; arguments as for `release_table`.

    Counts stay on the cluster, so data are not recognised there.
    """
    if not each:
        return _together(table, run, accounts, progress, anyway=anyway)
    if storage is None:
        raise ValueError(
            "storage: name a folder that driver and executors can reach; the noisy rows are "
            "written there"
        )
    return _of_each(table, run, accounts, storage, progress, anyway=anyway)


def _of_each(
    table: ClusterTable,
    run: FleetRun,
    accounts: TableAccounts | None,
    storage: str,
    progress: Progress | None,
    *,
    anyway: bool,
) -> Any:
    """One noisy row for each subject and window, as a DataFrame that reads committed files."""
    session, states = table.session, run.beliefs.states
    folder = spark_storage.full_path(session, os.fspath(storage).rstrip("/"))
    place = None if accounts is None else f"{folder}/_trial-{uuid.uuid4().hex[:16]}"
    spark_storage.try_executors(session, place)
    with table.counted(single=_needs_entries(table, run)) as counted:
        sizes = counted.sizes()
        first = next(sizes)  # which stands for the others
        run = _settled(counted, run, accounts, first)
        _refuse(counted, run)
        scales = _Scales.of(run, counted.lengths.longest)
        used = rows_used(first, run.question)
        made = [scales.calibrations[n] for n in scales.lengths(first)[used.owner].tolist()]
        warn_if_rows_drown(run, used, made, anyway)
        after = counted.reading(states).independent_after
        out = Columns(
            _labels(counted, run), run.windows is not None, note_of(run.beliefs.is_private, after)
        )
        own = f"{folder}/{run.identity[:16]}-{uuid.uuid4().hex[:16]}"
        if accounts is None:
            draw = _RowNoise(_alone(run), scales.of_length, counted.subject_kind)
            _written(own, partial(counted.write, own, states, draw, out))
            paths = [own]
            if progress is not None:
                progress(counted.lengths.rows, counted.lengths.rows)
        else:
            paying = Accounts(accounts, run)
            packs = _Packs(counted, run, scales, accounts.prefix)
            paying.check_all(packs.batches(chain([first], sizes)))
            paths = []
            for rows, done in packs.paid(paying):
                path = f"{own}/{len(paths):06}"
                _written(path, partial(counted.write_rows, path, rows, out))
                paths.append(path)
                if progress is not None:
                    progress(done, counted.lengths.rows)
    return session.read.parquet(*paths)


def _together(
    table: ClusterTable,
    run: FleetRun,
    accounts: TableAccounts | None,
    progress: Progress | None,
    *,
    anyway: bool,
) -> Releases:
    """One noisy answer over all subjects, or for each window."""
    spark_storage.try_executors(table.session, None)
    states = run.beliefs.states
    with table.counted(single=_needs_entries(table, run)) as counted:
        _refuse(counted, run)
        first = next(counted.tables(states))
        _, about = asked_of(first, run)
        add = _Sums(_alone(run))
        with spark_storage.job("adding up"):
            parts = counted.worked(states, add, "part binary").toLocalIterator()
            together = summed_up(_joined(pickle.loads(bytes(row[0])) for row in parts))
        if run.question.counting:
            refuse_digits(run.question, run.one_entry, int(together.entries.sum()))
        longest = int(counted.lengths.longest.max())
        run = _settled(counted, run, accounts, first, int(np.median(together.entries)))
        calibration = run.calibration(longest)
        warn_if_rows_drown(run, together, [calibration] * len(together.window), anyway)
        calibrations = {longest: calibration}
        if accounts is None:
            scales = np.full(len(together.window), calibration.scale)
            values = run.draw(together.counts, scales)
        else:
            all_alike = _Scales(np.array([longest]), np.array([longest]), calibrations)
            packs = _Packs(counted, run, all_alike, accounts.prefix, together=True)
            asked = AskedRows(run, first, together, np.array([longest]), calibrations)
            entries = int(together.entries.sum())
            paying = Accounts(accounts, run)
            ((values, scales),) = paid_together(paying, [asked], packs.batches, entries)
    if progress is not None:
        progress(len(together.window), len(together.window))
    return releases_of(
        run,
        together,
        values,
        scales,
        calibrations,
        about,
        stored=accounts is not None,
        subjects=None,
        notes=run.notes(first, counted.lengths.segments > counted.lengths.subjects),
        lengths=np.full(len(together.window), longest),
        independent_after=first.independent_after,
        step=counted.step,
    )


def _settled(
    counted: CountedTable,
    run: FleetRun,
    accounts: TableAccounts | None,
    first: Table,
    entries: int | None = None,
) -> FleetRun:
    """The run with its horizon and the way of its quantile.

    Both follow from public facts about all subjects, the same on every cluster. ``entries`` is the
    number behind a row, by default that of the longest segment, ``first`` a pack of subjects.
    """
    longest = int(counted.lengths.longest.max())
    if accounts is not None:
        run = run.paid_for(accounts, account_names(first, accounts.prefix), longest)
    return run.decided(entries or longest, longest)


@dataclass(frozen=True, eq=False)
class _Scales:
    """The length for which a subject is calibrated, by the length of its longest segment."""

    longest: Counts
    used: Counts
    calibrations: dict[int, Calibration]

    @classmethod
    def of(cls, run: FleetRun, longest: Counts) -> _Scales:
        used, calibrations = run.calibrations(longest)
        return cls(longest, used, calibrations)

    def lengths(self, table: Table) -> Counts:
        """Lengths for the subjects of a table, rounded up to a calibrated one."""
        if table.longest.max() > self.longest[-1]:
            raise ValueError(CHANGED)
        return np.asarray(self.used[np.searchsorted(self.longest, table.longest)])

    @property
    def of_length(self) -> dict[int, float]:
        """The scale for each length of a longest segment."""
        pairs = zip(self.longest.tolist(), self.used.tolist(), strict=True)
        return {longest: self.calibrations[used].scale for longest, used in pairs}


@dataclass(frozen=True)
class _RowNoise:
    """Noisy rows without a ledger; runs in the executors, within a job that writes files."""

    run: FleetRun
    scales: Mapping[int, float]
    kind: Any

    def __call__(self, tables: Iterator[Table]) -> Iterator[Mapping[str, Any]]:
        for table in tables:
            rows = _exact(table, self.run)
            wanted = np.array([self.scales[int(n)] for n in table.longest])[rows.owner]
            values = self.run.draw(rows.counts, wanted)
            yield _columns(self.run, table, rows, values, wanted, self.kind)


@dataclass(frozen=True)
class _Exact:
    """The subjects of a partition without their entries, and their exact rows."""

    run: FleetRun

    def __call__(self, tables: Iterator[Table]) -> Iterator[Mapping[str, Any]]:
        for table in tables:
            rows = _exact(table, self.run)
            yield {"part": [pickle.dumps((replace(table, codes=None), rows))]}


@dataclass(frozen=True)
class _Sums:
    """The rows of all subjects of a partition added up, in the executors."""

    run: FleetRun

    def __call__(self, tables: Iterator[Table]) -> Iterator[Mapping[str, Any]]:
        together: Rows | None = None
        for table in tables:
            rows = summed_up(_exact(table, self.run))
            if together is not None:
                rows = summed_up(_joined([together, rows]))
            together = rows
        if together is not None:
            yield {"part": [pickle.dumps(together)]}


def _joined(parts: Iterator[Rows] | Sequence[Rows]) -> Rows:
    """Rows of several parts, one after another."""
    rows = list(parts)

    def put(name: str) -> Any:
        columns = [getattr(part, name) for part in rows]
        return np.concatenate(columns) if isinstance(columns[0], np.ndarray) else columns[0]

    return Rows(**{name: put(name) for name in Rows.__dataclass_fields__})


@dataclass(frozen=True)
class _Packs:
    """The charges of all subjects, a few thousand subjects at a time."""

    counted: CountedTable
    run: FleetRun
    scales: _Scales
    prefix: str
    together: bool = False

    def batches(self, public: Iterable[Table] | None = None) -> Iterator[Batch]:
        """The rows to charge, by what is public; counts of states stay on the cluster."""
        for sizes in self.counted.sizes() if public is None else public:
            account_names(sizes, self.prefix)  # they must identify subjects
            _check_clock(sizes, self.run)  # of all, before one is charged
            yield from batches_of([self._asked(sizes, rows_used(sizes, self.run.question))])

    def _asked(self, table: Table, rows: Rows) -> AskedRows:
        used, calibrations = self.scales.lengths(table), self.scales.calibrations
        return AskedRows(self.run, table, rows, used, calibrations, self.together)

    def paid(self, accounts: Accounts) -> Iterator[tuple[dict[str, Any], int]]:
        """Rows whose values are in the ledger, and their number so far."""
        done, held = 0, list[dict[str, Any]]()
        for table, asked in self._answers():
            held.append(self._paid_pack(table, asked, accounts))
            done += len(held[-1][NUMBER])
            if sum(len(columns[NUMBER]) for columns in held) >= ROWS_OF_A_FILE:
                yield _stacked(held), done
                held = []
        if held:
            yield _stacked(held), done

    def _answers(self) -> Iterator[tuple[Table, Rows]]:
        """A pack of subjects and their exact rows; single entries stay in the executors."""
        counted, run = self.counted, self.run
        states = run.beliefs.states
        if counted.answering is counted.kept:
            for table in counted.tables(states):
                yield table, _exact(table, run)
            return
        exact = _Exact(_alone(run))
        with spark_storage.job("answering"):
            parts = counted.worked(states, exact, "part binary").toLocalIterator()
            yield from (pickle.loads(bytes(row[0])) for row in parts)

    def _paid_pack(self, table: Table, asked: Rows, accounts: Accounts) -> dict[str, Any]:
        """The rows of a pack: drawn and stored with their charges, or already stored."""
        own = self._asked(table, asked)
        ((values, scales),), _ = paid_rows(accounts, [own], batches_of([own]))
        return _columns(self.run, table, asked, values, scales, self.counted.subject_kind)


def _refuse(counted: CountedTable, run: FleetRun) -> None:
    """Refuse states that the beliefs lack, another step, and beliefs fitted to it or bought."""
    check_paid(run.beliefs.sources)
    check_step(run.beliefs.step, counted.step, uneven=counted.uneven)
    counted.refuse_unknown(run.beliefs.states)
    moves = counted.transitions(run.beliefs.states)
    check_not_counted_from(run.beliefs.sources, moves, run.beliefs.states)


def _written(path: str, write: Callable[[], None]) -> None:
    try:
        write()
    except Exception as error:
        raise RuntimeError(
            f"executors: the noisy rows could not be written to {path} "
            f"({spark_storage.in_words(error)}); with a ledger, the same call with the same label "
            "gives the values that were paid for"
        ) from None


def _alone(run: FleetRun) -> FleetRun:
    """What the executors need of a run: not its calibrations."""
    return replace(run, _calibrated={})


def _exact(table: Table, run: FleetRun) -> Rows:
    """The exact rows of a pack; refuses another phase than that of the beliefs."""
    _check_clock(table, run)
    return exact_rows(table, run.question, run.beliefs.states)[0]


def _check_clock(table: Table, run: FleetRun) -> None:
    run.beliefs.check_clock(table.calendar, table.segment_lengths.tolist())


def _needs_entries(table: ClusterTable, run: FleetRun) -> bool:
    """Whether counts, of windows too, do not answer the question."""
    return not run.question.counting and table.windows is None


def _labels(counted: CountedTable, run: FleetRun) -> tuple[str, ...]:
    """The names of the numbers that are released."""
    if run.chooses:
        return (run.query,)
    if run.question.counting:
        return run.released.about(run.one_entry).labels
    return asked_of(next(counted.tables(run.beliefs.states)), run)[1].labels


def _columns(
    run: FleetRun, table: Table, rows: Rows, values: Floats, scales: Floats, kind: Any
) -> dict[str, Any]:
    """Rows as columns of Arrow."""
    import pyarrow as pa  # noqa: PLC0415

    values, scales = run.answers(values, scales, rows.per(run.question.per))
    owners = [table.subjects[number] for number in rows.owner]
    columns: dict[str, Any] = {SUBJECT: pa.array(owners, type=kind)}
    if run.windows is not None:
        columns[WINDOW] = pa.array(rows.window)
    columns |= {NUMBER: pa.array(rows.entries), SCALE: pa.array(scales)}
    return columns | {f"_{n}": pa.array(values[:, n]) for n in range(values.shape[1])}


def _stacked(held: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Columns of several packs, concatenated."""
    import pyarrow as pa  # noqa: PLC0415

    return {name: pa.concat_arrays([columns[name] for columns in held]) for name in held[0]}
