"""`release_each` and `release_all`, on one machine or handed to a cluster."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from pufferkit.accounting.asked_window import Period
from pufferkit.accounting.fingerprints import Data
from pufferkit.accounting.ledger import Ledger
from pufferkit.checks import Floats
from pufferkit.data.exact_rows import Rows
from pufferkit.data.query import Query, Question
from pufferkit.data.table import Counts, Table
from pufferkit.errors import NotApplicable
from pufferkit.fleet.accounts import Accounts, used_digest
from pufferkit.fleet.answering import (
    asked_of,
    noisy_sums,
    releases_of,
    summed_up,
    warn_if_rows_drown,
)
from pufferkit.fleet.groups import Groups
from pufferkit.fleet.periods import cut, rows_in
from pufferkit.fleet.releases import Releases
from pufferkit.fleet.subject_recognition import TableData
from pufferkit.fleet.subject_run import (
    AT_ONCE,
    EVERYBODY,
    FleetRun,
    PendingRelease,
    account_names,
    chunks_of,
    pending_releases,
)
from pufferkit.influence.progress import Progress
from pufferkit.mechanisms.calibration import Calibration

if TYPE_CHECKING:
    from pufferkit.frames.spark import ClusterTable


def release_each(
    table: Table | ClusterTable,
    beliefs: Any,
    epsilon: float,
    *,
    query: str | Question = "histogram",
    mechanism: str = "influence_curve",
    ledger: Ledger | str | None = None,
    budget: float | None = None,
    label: str = "",
    prefix: str = "",
    progress: Progress | None = None,
    storage: str | None = None,
    data_meant: bool = False,
    horizon: int | None = None,
    period: Period | None = None,
    anyway: bool = False,
) -> Any:
    """One noisy histogram for each subject, or for each subject and window.

    Parameters
    ----------
    table
        From `read`. With windows, each subject has a row for each of its windows.
    beliefs
        A `MarkovChain` or a `ChainClass`, about every segment of every subject: a chain with a
        fixed initial distribution asserts that every segment starts from it, also after a declared
        break.
    epsilon
        Pufferfish epsilon of each entry for everything this call releases; windows do not add up,
        because no entry is in two of them. Windows that an earlier call released when the series
        was shorter had less noise: ``epsilon`` of the result is then the cost of all of them.
    query
        ``"histogram"`` for counts or ``"frequencies"`` for shares; or another question, of the
        whole series of each subject: ``"by-weekday-hour"``, ``pk.episodes("run")``.
        Hours are counted in a table read with ``window="hour of week"``, of any size; other
        questions need the entries themselves, which tables of up to a million rows keep.
    mechanism
        By default the one with the least noise.
    ledger, budget
        A `Ledger` (or its path or URL) and the lifetime budget of each subject. Each subject has
        its own account, created by its first charge. Charges and values are written in one
        transaction, and handed over after it.
    label
        Name of the run. The same call with the same label gives the same values at no cost, and
        resumes a run that was killed.
    prefix
        Put before the subject's label to name its account.
    progress
        Called with the number of rows done and the number of all rows.
    storage
        A folder that driver and executors can reach; a PySpark table needs it, and the noisy rows
        are written there. With a ledger they are stored there too, on every engine.
    data_meant
        A table that is known under other names, and data that changed since an earlier release,
        are refused where their counts show it; ``True`` confirms that this is intended.
    anyway
        Noise that drowns the row of median size gives a warning, `DrownedAnswer`, before anything
        is charged, unless this is true.

    Returns
    -------
    Releases
        One row for each subject and window; for a `ClusterTable` a PySpark DataFrame.

    Raises
    ------
    OverBudget
        If one subject cannot pay; then nothing is spent for any subject.

    Examples
    --------
    >>> import polars as pl
    >>> import pufferkit as pk
    >>> chain = pk.MarkovChain.steady([[0.8, 0.2], [0.3, 0.7]], states=["rest", "walk"])
    >>> states = [chain.states[code] for code in chain.sample(400, seed=1)]
    >>> rows = pl.DataFrame({"who": ["ann", "bob"] * 200, "t": range(400), "x": states})
    >>> table = pk.read(rows, subject="who", time="t", state="x", states=chain.states)
    >>> each = release_each(table, chain, epsilon=1, query="frequencies")
    >>> each.subjects
    ('ann', 'bob')
    >>> pk.verify(each).ok
    True
    """
    from pufferkit.frames.spark import ClusterTable  # noqa: PLC0415

    _check_read(table, ClusterTable)
    if period is not None and isinstance(table, ClusterTable):
        raise NotApplicable(f"window: give the rows of {period.name}, filtered on the cluster")
    run = FleetRun.of("each", beliefs, epsilon, query, mechanism, label, table.windows)
    if isinstance(table, ClusterTable):
        if not run.of_states:
            raise NotApplicable(
                f"{run.query} is not counted on a cluster; ask it of all, per='all', or collect "
                "the table"
            )
        from pufferkit.fleet.cluster import release_each_on_cluster  # noqa: PLC0415

        keep = partial(_accounts, ledger=ledger, budget=budget)
        return release_each_on_cluster(
            table, run, keep, prefix, storage, progress, declared=horizon, anyway=anyway
        )
    table, run, asked, about = _of_period(table, run, period)
    run = _paid_for(run, table, ledger, prefix, horizon)
    run = run.decided(int(np.median(asked.entries)), int(table.longest.max()))
    used, calibrations = run.calibrations(table.longest)
    warn_if_rows_drown(run, asked, [calibrations[n] for n in used[asked.owner].tolist()], anyway)
    values = np.empty((len(asked.owner), 1 if run.chooses else asked.counts.shape[1]))
    scales = np.empty(len(asked.owner))
    together = [run.epsilon]
    wanted = np.array([calibrations[n].scale for n in used.tolist()])[asked.owner]
    data = TableData(table, account_names(table, prefix)) if ledger is not None else {}
    with _accounts(run, ledger, budget, data, data_meant) as accounts:
        chunks, read = chunks_of(asked.owner), None
        for rows in chunks if accounts is not None else ():
            pending = pending_releases(table, asked, rows, used, calibrations, prefix)
            read = accounts.check(pending)
            accounts.forget()
        for rows in chunks:
            if accounts is None:
                scales[rows] = wanted[rows]
                values[rows] = run.draw(asked.counts[rows], wanted[rows])
            else:
                pending = pending_releases(table, asked, rows, used, calibrations, prefix)
                draw = partial(_draw, run, asked.counts[rows], wanted[rows])
                paid = accounts.pay(pending, draw, read if len(chunks) == 1 else None)
                values[rows] = [stored["value"] for stored in paid.values]
                scales[rows] = [stored["scale"] for stored in paid.values]
                if (scales[rows] < wanted[rows]).any():  # drawn when a series was shorter
                    least = float((wanted[rows] / scales[rows]).max())
                    holds_everywhere = run.mechanism == "group_dp"
                    together.append(run.epsilon * least if holds_everywhere else paid.total)
                accounts.forget()
            if progress is not None:
                progress(int(rows[-1]) + 1, len(asked.owner))
    subjects = tuple(table.subjects[number] for number in asked.owner)
    all_rows = releases_of(run, subjects, asked, values, scales, calibrations, about)
    return replace(
        all_rows,
        epsilon=max(together),
        notes=run.notes(table),
        lengths=used[asked.owner],
        independent_after=table.independent_after,
        step=table.step,
        sampler=run.sampler(scales) if ledger is None else None,
    )


def release_all(
    table: Table | ClusterTable,
    beliefs: Any,
    epsilon: float,
    *,
    query: str | Question = "histogram",
    mechanism: str = "influence_curve",
    ledger: Ledger | str | None = None,
    budget: float | None = None,
    label: str = "",
    prefix: str = "",
    data_meant: bool = False,
    progress: Progress | None = None,
    storage: str | None = None,
    groups: Mapping[Hashable, Hashable] | None = None,
    keys: Sequence[Hashable] | None = None,
    horizon: int | None = None,
    period: Period | None = None,
    anyway: bool = False,
) -> Releases:
    """One noisy histogram over all subjects together, or one for each window ([Q] 5.3.1).

    Changing one entry of one subject lowers one bin and raises another, and segments of other
    subjects carry no information about it. So the noise is that of the longest segment, and does
    not grow with the number of subjects.

    With ``groups`` there is a row for each group (and window). No subject is in two groups, so an
    entry affects the row of one group only: all groups together cost as much as one release. The
    group of a subject is assumed to be public, like the lengths of the series.

    The release uses the entries of every subject, so the account of *every* subject is charged,
    all in one transaction. One more account, ``(all subjects)``, keeps the values. On a cluster,
    and for more than 100,000 rows, all accounts are checked, then charged in batches, and the
    values are drawn after the last of them; the same call continues what was interrupted.

    Parameters
    ----------
    table, beliefs, epsilon, query, mechanism, ledger, budget, label, prefix, data_meant, progress,
    storage, anyway
        As for `release_each`. A `ClusterTable` is counted and added up on the cluster; the sums
        come to the driver and noise is drawn there, so that nothing is written to the storage.
        With ``groups`` the counts of all subjects come to the driver.
    groups, keys
        The group of each subject (`pufferkit.data.read.groups_of` reads it from a column), and all
        possible keys: a key without subjects has a row too.

    Examples
    --------
    >>> import polars as pl
    >>> import pufferkit as pk
    >>> chain = pk.MarkovChain.steady([[0.8, 0.2], [0.3, 0.7]], states=["rest", "walk"])
    >>> states = [chain.states[code] for code in chain.sample(400, seed=1)]
    >>> rows = pl.DataFrame({"who": ["ann", "bob"] * 200, "t": range(400), "x": states})
    >>> table = pk.read(rows, subject="who", time="t", state="x", states=chain.states)
    >>> together = release_all(table, chain, epsilon=1)
    >>> together.query, together.labels
    ('histogram', ('rest', 'walk'))
    """
    from pufferkit.frames.spark import ClusterTable  # noqa: PLC0415

    _check_read(table, ClusterTable)
    if period is not None and isinstance(table, ClusterTable):
        raise NotApplicable(f"window: give the rows of {period.name}, filtered on the cluster")
    if isinstance(table, ClusterTable) and groups is None and keys is None:
        from pufferkit.fleet.cluster import release_all_on_cluster  # noqa: PLC0415

        run = FleetRun.of(
            "all on a cluster", beliefs, epsilon, query, mechanism, label, table.windows
        )
        keep = partial(_accounts, ledger=ledger, budget=budget)
        return release_all_on_cluster(
            table, run, keep, prefix, progress, declared=horizon, anyway=anyway
        )
    local = table.collect() if isinstance(table, ClusterTable) else table
    grouped = None if groups is None and keys is None else Groups.of(local.subjects, groups, keys)
    what = "all" if grouped is None else f"all by {grouped.digest}"
    run = FleetRun.of(what, beliefs, epsilon, query, mechanism, label, local.windows)
    local, run, asked, about = _of_period(local, run, period)
    together = summed_up(asked, grouped)
    run = _paid_for(run, local, ledger, prefix, horizon)
    run = run.decided(int(np.median(together.entries)), int(local.longest.max()))
    per = together.per(run.per)
    if per is not None and not per.all():
        raise ValueError(
            "keys: a group or window has no entries, and so no shares and no mean; ask histogram "
            "or total"
        )
    windows, sums = together.window, together.counts
    longest = int(local.longest.max())
    calibration = run.calibration(longest)
    warn_if_rows_drown(run, together, [calibration] * len(windows), anyway)
    used, calibrations = np.full(len(local.subjects), longest), {longest: calibration}
    data = TableData(local, account_names(local, prefix)) if ledger is not None else {}
    with _accounts(run, ledger, budget, data, data_meant) as accounts:
        if accounts is None:
            values, scales = noisy_sums(sums, run, calibration.scale)
        else:
            record = f"{prefix}{EVERYBODY}"
            pending = partial(pending_releases, local, asked)
            paying = partial(pending, used=used, calibrations=calibrations, prefix=prefix)
            values, scales = _recorded(accounts, run, record, paying, asked, together, calibration)
    if progress is not None:
        progress(len(windows), len(windows))
    answer = releases_of(run, None, together, values, scales, calibrations, about)
    return replace(
        answer,
        notes=run.notes(local),
        lengths=np.full(len(windows), longest),
        groups=None if grouped is None else grouped.of_rows(len(windows)),
        independent_after=local.independent_after,
        step=local.step,
        sampler=run.sampler(scales) if ledger is None else None,
    )


def _recorded(
    accounts: Accounts,
    run: FleetRun,
    record: str,
    pending: Callable[[Counts], list[PendingRelease]],
    asked: Rows,
    together: Rows,
    calibration: Calibration,
) -> tuple[Floats, Floats]:
    """Charge every account, draw and store in the account of the record; or the stored value."""
    body = {
        "query": f"{run.query} over all subjects",
        "mechanism": run.mechanism,
        "scale": calibration.scale,
        "windows": together.window.tolist(),
    }

    def draw() -> dict[str, Any]:
        values, scales = noisy_sums(together.counts, run, calibration.scale)
        return {"value": values.tolist(), "scale": scales.tolist()}

    if len(asked.owner) <= AT_ONCE:
        every_row = np.arange(len(asked.owner))
        everybody = pending(every_row)
        stored = accounts.pay_record(record, used_digest([everybody]), body, draw, everybody)
    else:
        batches = chunks_of(asked.owner)
        stored = accounts.pay_in_batches(lambda: map(pending, batches), record, body, draw)
    return np.array(stored["value"]), np.array(stored["scale"])


def _of_period(
    table: Table, run: FleetRun, period: Period | None
) -> tuple[Table, FleetRun, Rows, Query]:
    """The table, run and exact rows, of a period if one is named."""
    if period is not None and table.windows is None:
        table, run = cut(table, period), replace(run, period=period)
    asked, about = asked_of(table, run)
    if period is not None and table.windows is not None:
        asked = rows_in(asked, table, period)
    return table, run, asked, about


def _paid_for(
    run: FleetRun, table: Table, ledger: Ledger | str | None, prefix: str, declared: int | None
) -> FleetRun:
    """The run, with the longest series that its accounts may cover."""
    if ledger is None:
        return run
    book = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
    return run.paid_for(book, account_names(table, prefix), int(table.longest.max()), declared)


def _draw(run: FleetRun, counts: Counts, wanted: Floats, which: Counts) -> tuple[Floats, Floats]:
    """Noisy counts of some rows, and their scales."""
    return run.draw(counts[which], wanted[which]), wanted[which]


@contextmanager
def _accounts(
    run: FleetRun,
    ledger: Ledger | str | None,
    budget: float | None,
    data: Mapping[str, Data] | None = None,
    data_meant: bool = False,
) -> Iterator[Any]:
    """The accounts of a run; ``None`` without a ledger. A ledger opened here is closed."""
    if (ledger is None) != (budget is None):
        raise ValueError("ledger and budget: must be given together")
    if ledger is None or budget is None:
        yield None
    elif isinstance(ledger, Ledger):
        yield Accounts(ledger, budget, run, data, data_meant)
    else:
        with Ledger(ledger) as book:
            yield Accounts(book, budget, run, data, data_meant)


def _check_read(table: Any, far: type) -> None:
    """Raise unless the table was read by `read`, which checks order, gaps and states."""
    if not isinstance(table, (Table, far)):
        raise ValueError(
            f"table: must come from read, got {type(table).__name__}; for example "
            'read(frame, subject="person", time="time", state="activity")'
        )
