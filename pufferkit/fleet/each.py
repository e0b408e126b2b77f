"""`release_each` and `release_all`, on one machine or handed to a cluster."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pufferkit import noise
from pufferkit.accounting.amounts import in_epsilon, spent_micro
from pufferkit.accounting.ledger import Ledger
from pufferkit.checks import Floats
from pufferkit.data.table import Counts, Table
from pufferkit.fleet.accounts import Accounts, Due
from pufferkit.fleet.plan import LIPSCHITZ, Run, aligned
from pufferkit.fleet.releases import Releases
from pufferkit.fleet.rows import EVERYBODY, Asked, account_names, chunks_of, dues_of
from pufferkit.mechanisms.calibration import Calibration
from pufferkit.rounding import round_up

if TYPE_CHECKING:
    from pufferkit.frames.spark import ClusterTable

Progress = Callable[[int, int], None]


def release_each(
    table: Table | ClusterTable,
    beliefs: Any,
    epsilon: float,
    *,
    query: str = "histogram",
    mechanism: str = "influence_curve",
    ledger: Ledger | str | None = None,
    budget: float | None = None,
    label: str = "",
    prefix: str = "",
    progress: Progress | None = None,
    storage: str | None = None,
) -> Any:
    """One noisy histogram for each subject, or for each subject and window.

    Parameters
    ----------
    table
        From `read_table`. With windows, each subject has a row for each of its windows.
    beliefs
        A `MarkovChain` or a `ChainClass`, about every segment of every subject: a chain with a
        start of its own says that every segment starts so, also behind a declared break.
    epsilon
        Pufferfish privacy of each entry against everything this call releases; windows do not add
        up, because no entry is in two of them. Windows that an earlier call released when the
        series was shorter had less noise: then ``epsilon`` of the result is what all of them cost.
    query
        ``"histogram"`` for counts or ``"frequencies"`` for shares.
    mechanism
        By default the one with the least noise.
    ledger, budget
        A `Ledger` (or its path or URL) and what may be spent on each subject, ever. Each subject
        has an account of its own. It is charged before its noise is drawn, and its values are
        stored before they are handed over.
    label
        Name of the run. The same call with the same label gives the same values at no cost, and
        takes a run up again that was killed.
    prefix
        Put before the subject's label to name its account.
    progress
        Called with the number of rows done and the number of all rows.
    storage
        For PySpark only, and needed there: a new folder that driver and executors can reach.

    Returns
    -------
    Releases
        One row for each subject and window; for a `ClusterTable` a PySpark DataFrame.

    Raises
    ------
    OverBudget
        If one subject cannot pay. Nothing is spent by anyone then.
    """
    from pufferkit.frames.spark import ClusterTable  # noqa: PLC0415

    _check_read(table, ClusterTable)
    far = isinstance(table, ClusterTable)
    what = "each on a cluster" if far else "each"
    run = Run.of(what, beliefs, epsilon, query, mechanism, label, table.windows)
    if isinstance(table, ClusterTable):
        from pufferkit.fleet.cluster import release_on_cluster  # noqa: PLC0415

        with _accounts(run, ledger, budget) as accounts:
            return release_on_cluster(table, run, accounts, prefix, storage)
    _local_only(storage)
    asked = Asked.of(table, aligned(table, run.beliefs))
    used, calibrations = run.calibrations(table.longest)
    values = np.empty(asked.counts.shape)
    scales = np.empty(len(asked.owner))
    together = [run.epsilon]
    with _accounts(run, ledger, budget) as accounts:
        chunks = chunks_of(asked.owner)
        if accounts is not None:
            accounts.open(account_names(table, prefix))
            for rows in chunks:
                accounts.check(dues_of(table, asked, rows, used, calibrations, prefix))
        for rows in chunks:
            dues = dues_of(table, asked, rows, used, calibrations, prefix) if accounts else []
            lengths = used[asked.owner[rows]]
            found = _drawn(asked, rows, lengths, calibrations, accounts, dues)
            values[rows], scales[rows], cost = found
            together.append(cost)
            if progress is not None:
                progress(int(rows[-1]) + 1, len(asked.owner))
    subjects = tuple(table.subjects[number] for number in asked.owner)
    guarantee = next(iter(calibrations.values())).guarantee
    all_rows = _releases(run, subjects, asked.window, values, scales, asked.counts, guarantee)
    after = table.independent_after
    return replace(all_rows, epsilon=max(together), notes=run.notes(table), independent_after=after)


def release_all(
    table: Table | ClusterTable,
    beliefs: Any,
    epsilon: float,
    *,
    query: str = "histogram",
    mechanism: str = "influence_curve",
    ledger: Ledger | str | None = None,
    budget: float | None = None,
    label: str = "",
    prefix: str = "",
) -> Releases:
    """One noisy histogram over all subjects together, or one for each window ([Q] 5.3.1).

    One entry of one subject moves one bin down and another up, and segments of other subjects tell
    nothing about it. So the noise is that of the longest segment of all, and does not grow with the
    number of subjects.

    The release uses the entries of every subject, so the account of *every* subject is charged,
    all in one transaction. One more account, ``(all subjects)``, keeps the values.

    Parameters
    ----------
    table, beliefs, epsilon, query, mechanism, ledger, budget, label, prefix
        As for `release_each`. A `ClusterTable` is counted on the cluster; the sums, which are the
        only thing needed, come to the driver.
    """
    from pufferkit.frames.spark import ClusterTable  # noqa: PLC0415

    _check_read(table, ClusterTable)
    found = table.collect() if isinstance(table, ClusterTable) else table
    run = Run.of("all", beliefs, epsilon, query, mechanism, label, found.windows)
    asked = Asked.of(found, aligned(found, run.beliefs))
    windows, place = np.unique(asked.window, return_inverse=True)
    sums = np.zeros((len(windows), asked.counts.shape[1]), dtype=np.int64)
    np.add.at(sums, place, asked.counts)
    longest = int(found.longest.max())
    calibration = run.calibration(longest)
    used, calibrations = np.full(len(found.subjects), longest), {longest: calibration}
    rows = np.arange(len(asked.owner))
    with _accounts(run, ledger, budget) as accounts:
        if accounts is None:
            values, scales = _noisy_sums(sums, calibration)
        else:
            record = f"{prefix}{EVERYBODY}"
            accounts.open([*account_names(found, prefix), record])
            dues = dues_of(found, asked, rows, used, calibrations, prefix)
            values, scales = _recorded(accounts, run, record, dues, windows, sums, calibration)
    answer = _releases(run, None, windows, values, scales, sums, calibration.guarantee)
    return replace(answer, notes=run.notes(found), independent_after=found.independent_after)


def _recorded(
    accounts: Accounts,
    run: Run,
    record: str,
    dues: Sequence[Due],
    windows: Counts,
    sums: Counts,
    calibration: Calibration,
) -> tuple[Floats, Floats]:
    """Charge everybody, draw, store in the account of the record; or what is stored already."""
    body = {
        "query": f"{run.query} over all subjects",
        "mechanism": run.mechanism,
        "scale": LIPSCHITZ * calibration.scale,
        "windows": windows.tolist(),
    }
    key = accounts.pay_together(dues, record, body)
    stored = accounts.ledger.find(record, key)
    if stored is None:
        values, scales = _noisy_sums(sums, calibration)
        drawn = {"value": values.tolist(), "scale": scales.tolist()}
        stored = accounts.ledger.store(record, key, drawn)
    return np.array(stored.body["value"]), np.array(stored.body["scale"])


def _noisy_sums(sums: Counts, calibration: Calibration) -> tuple[Floats, Floats]:
    wanted = np.full(len(sums), LIPSCHITZ * calibration.scale)
    return noise.laplace_rows(sums, wanted, LIPSCHITZ, float(sums.sum()))


def _drawn(
    asked: Asked,
    rows: NDArray[np.int64],
    lengths: Counts,
    calibrations: dict[int, Calibration],
    accounts: Accounts | None,
    dues: Sequence[Due],
) -> tuple[Floats, Floats, float]:
    """Noisy counts of some rows, their scales, and what they cost together.

    Stored ones are given as they are, new ones are paid for.
    """
    cost, paid = 0.0, None
    values, scales = np.empty((len(rows), asked.counts.shape[1])), np.empty(len(rows))
    missing = np.arange(len(rows))
    if accounts is not None:
        key_of = {window: accounts.run.key(window) for window in {due.window for due in dues}}
        keys = [key_of[due.window] for due in dues]
        places = [(due.account, key) for due, key in zip(dues, keys, strict=True)]
        there = accounts.ledger.find_many(
            dict.fromkeys(due.account for due in dues), list(dict.fromkeys(keys))
        )
        # Paying again charges nothing twice, and refuses a label that was used for other data.
        paid = accounts.pay(dues)
        if paid.together > spent_micro(accounts.run.epsilon):
            cost = in_epsilon(paid.together)
        missing = np.array([n for n, at in enumerate(places) if at not in there], dtype=np.int64)
        for n, at in enumerate(places):
            if at in there:
                values[n], scales[n] = there[at].body["value"], there[at].body["scale"]
    if len(missing):
        wanted = np.array([LIPSCHITZ * calibrations[int(n)].scale for n in lengths[missing]])
        if paid is not None:
            # A run that was killed may have charged for more noise, among subjects of more lengths.
            wanted = np.maximum(wanted, [paid.scales[places[n]] for n in missing])
        largest = float((asked.last - asked.first + 1).max())
        values[missing], scales[missing] = noise.laplace_rows(
            asked.counts[rows[missing]], wanted, LIPSCHITZ, largest
        )
    if accounts is not None and len(missing):
        stored = accounts.ledger.store_many(
            [
                (*places[n], {"value": values[n].tolist(), "scale": scales[n]})
                for n in missing.tolist()
            ]
        )
        for n in missing.tolist():
            values[n], scales[n] = stored[places[n]]["value"], stored[places[n]]["scale"]
    return values, scales, cost


def _releases(
    run: Run,
    subjects: tuple[Hashable, ...] | None,
    windows: Counts,
    values: Floats,
    scales: Floats,
    counts: Counts,
    guarantee: str,
) -> Releases:
    entries = counts.sum(axis=1)
    if run.query == "frequencies":
        # Dividing by the public number of entries is post-processing.
        values = values / entries[:, None]
        scales = np.array([round_up(s / n) for s, n in zip(scales, entries, strict=True)])
    for array in (values, scales, entries):
        array.setflags(write=False)
    return Releases(
        subjects=subjects,
        windows=windows if run.windows is not None else None,
        value=values,
        raw=values,
        scale=scales,
        entries=entries,
        labels=tuple(str(state) for state in run.beliefs.states),
        query=run.query,
        mechanism=run.mechanism,
        epsilon=run.epsilon,
        guarantee=guarantee,
        cut=run.windows,
    )


@contextmanager
def _accounts(run: Run, ledger: Ledger | str | None, budget: float | None) -> Iterator[Any]:
    """The accounts of a run; ``None`` if nothing is kept. A ledger opened here is closed."""
    if (ledger is None) != (budget is None):
        raise ValueError("ledger and budget: go together; give both or none")
    if ledger is None or budget is None:
        yield None
    elif isinstance(ledger, Ledger):
        yield Accounts(ledger, budget, run)
    else:
        with Ledger(ledger) as book:
            yield Accounts(book, budget, run)


def _check_read(table: Any, far: type) -> None:
    """Rows must have been counted first, where order, gaps and states are looked at."""
    if not isinstance(table, (Table, far)):
        raise ValueError(
            f"table: must come from read_table, got {type(table).__name__}; for example "
            'read_table(frame, subject="person", time="time", state="activity")'
        )


def _local_only(storage: str | None) -> None:
    if storage is not None:
        raise ValueError("storage: is for PySpark tables; here the ledger keeps the values")
