"""Releases about a table: for each subject, for all of them, or for groups with declared keys."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from pufferkit import checks
from pufferkit.account.ledger import Ledger
from pufferkit.account.marks import Data
from pufferkit.account.periods import Period, cut, rows_in
from pufferkit.account.releases import Releases
from pufferkit.account.subjects import (
    AT_ONCE,
    EVERYBODY,
    Accounts,
    FleetRun,
    PendingRelease,
    TableData,
    Used,
    account_names,
    chunks_of,
    pending_releases,
)
from pufferkit.beliefs.base import check_table
from pufferkit.beliefs.provenance import check_paid
from pufferkit.checks import Floats
from pufferkit.data.exact_rows import Rows, RowsAndQuery, exact_rows, whole_series
from pufferkit.data.queries import Histogram
from pufferkit.data.query import Query, Question
from pufferkit.data.table import Counts, Table
from pufferkit.influence.progress import Progress
from pufferkit.mechanisms.calibration import Calibration, warn_if_drowned
from pufferkit.mechanisms.target_errors import over
from pufferkit.noise import Family
from pufferkit.records import digest as digest_of

# -- groups --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Groups:
    """The index of each subject's group among the keys."""

    keys: tuple[Hashable, ...]
    place: Counts

    @classmethod
    def of(
        cls,
        subjects: Sequence[Hashable],
        groups: Mapping[Hashable, Hashable] | None,
        keys: Sequence[Hashable] | None,
    ) -> Groups:
        """Check that every subject is in one group and every group is declared."""
        if groups is None or keys is None:
            raise ValueError(
                "groups and keys: must be given together; declare all possible keys, because which "
                "of them occur is a fact about the data"
            )
        if isinstance(keys, str):
            raise ValueError(f"keys: must be a list of all groups, got {keys!r}")
        declared = checks.distinct_states(keys)
        number = {key: place for place, key in enumerate(declared)}
        lost = [subject for subject in subjects if subject not in groups]
        if lost:
            raise ValueError(f"groups: {len(lost)} subjects have no group, such as {lost[0]!r}")
        strange = {groups[subject] for subject in subjects} - set(declared)
        if strange:
            few = ", ".join(sorted(repr(key) for key in strange)[:5])
            raise ValueError(f"groups: {few} not among the declared keys")
        return cls(declared, np.array([number[groups[subject]] for subject in subjects]))

    @property
    def digest(self) -> str:
        """The same for the same groups."""
        return digest_of({"keys": [str(k) for k in self.keys], "place": self.place.tolist()})

    def of_rows(self, rows: int) -> tuple[Hashable, ...]:
        """The group of each row: all windows of one group, then the next group."""
        return tuple(key for key in self.keys for _ in range(rows // len(self.keys)))


# -- answering -----------------------------------------------------------------------------------


def asked_of(table: Table, run: FleetRun) -> RowsAndQuery:
    """The question about a table; refused for beliefs that are not about it, or bought."""
    check_paid(run.beliefs.sources)
    check_table(run.beliefs, table)
    return exact_rows(table, run.question, run.beliefs.states)


def rows_used(sizes: Table, question: Question) -> Rows:
    """The same rows without answers, from a table of sizes: the entries that each row uses."""
    if question.counting:
        return Rows.of(sizes, sizes.pieces)
    return whole_series(sizes, sizes.totals[:, None], None)


def summed_up(asked: Rows, grouped: Groups | None) -> Rows:
    """The rows of all subjects, or of each group, added up window by window."""
    windows, place = np.unique(asked.window, return_inverse=True)
    if grouped is not None:
        place = grouped.place[asked.owner] * len(windows) + place
        windows = np.tile(windows, len(grouped.keys))

    def summed(rows: Counts) -> Counts:
        sums = np.zeros((len(windows), *rows.shape[1:]), dtype=np.int64)
        np.add.at(sums, place, rows)
        return sums

    observed = None if asked.observed is None else summed(asked.observed)
    days = None if asked.days is None else summed(asked.days)
    nobody = np.zeros(len(windows), dtype=np.int64)
    counts, seen = summed(asked.counts), summed(asked.entries)
    return Rows(nobody, windows, counts, nobody, nobody, observed, seen, days)


def noisy_sums(sums: Counts, run: FleetRun, scale: float) -> tuple[Floats, Floats]:
    """Noise on the sums of all subjects."""
    wanted = np.full(len(sums), scale)
    return run.draw(sums, wanted), wanted


def warn_if_rows_drown(
    run: FleetRun, rows: Rows, made: Sequence[Calibration], anyway: bool
) -> None:
    """Warn if noise drowns the row of median size; ``made`` has the calibration of each row."""
    if anyway or not rows.entries.any():
        return
    seen = np.flatnonzero(rows.entries)
    row = int(seen[np.argsort(rows.entries[seen], kind="stable")[len(seen) // 2]])
    entries = int(rows.entries[row])
    noise = _noise_of_row(run, rows, made[row], row)
    warn_if_drowned(noise, anyway=anyway, rows=f" (a row of {entries:,} entries)", stacklevel=5)


def _noise_of_row(run: FleetRun, rows: Rows, made: Calibration, row: int) -> Calibration:
    """The noise on one row as a calibration of its own, in the units of its answer."""
    states, entries = run.beliefs.states, int(rows.entries[row])
    if rows.observed is not None:  # as in one slot of average size
        slot = max(1, round(entries / len(rows.observed[row])))
        query = Histogram().bind(states, slot)
    elif run.question.clocked:
        return made  # the range of its answer is not known
    else:
        query, span = run.released.bind(states, entries), made.query.longest
        if run.of_states and entries < span:  # for remedies: their noise is that of the span
            query = over(query, [span], [entries])
    if query.bounds is None and not query.chooses:
        return made
    per = rows.per(run.per)
    size = made.scale * float(run.unit) / (1 if per is None else int(per[row]))
    return replace(made, scale=size, scales=None, query=query)


def shared(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record of a question, without what is true of one subject only."""
    return {
        key: record[key] for key in record if key not in ("calendar", "gaps", "observed", "days")
    }


def releases_of(
    run: FleetRun,
    subjects: tuple[Hashable, ...] | None,
    asked: Rows,
    values: Floats,
    scales: Floats,
    calibrations: dict[int, Calibration],
    query: Query,
) -> Releases:
    """The draws, with what a reader needs to judge them."""
    entries = asked.entries.copy()
    if run.question.counting:
        query = run.released.about(run.one_entry)
    family: Family = "noisy choice" if run.chooses else "discrete laplace"
    per = asked.per(run.per)
    values, scales = run.answers(values, scales, per)
    for array in (values, scales, entries):
        array.setflags(write=False)
    drawn = Releases(
        subjects=subjects,
        windows=asked.window if run.windows is not None else None,
        value=values,
        raw=values,
        scale=scales,
        entries=entries,
        labels=(run.query,) if run.chooses else query.labels,
        query=run.query,
        mechanism=run.mechanism,
        epsilon=run.epsilon,
        guarantee=next(iter(calibrations.values())).guarantee,
        cut=run.windows,
        calibrations=calibrations,
        noise=family,
        kind=query.kind,
        question=shared(query.question or {}),
        observed=asked.observed,
        days=asked.days,
        asked=run.question,
    )
    return drawn if drawn.totals is None else drawn.as_histogram()


# -- each subject --------------------------------------------------------------------------------


def release_each(
    table: Table,
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
    confirm_data: bool = False,
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
    confirm_data
        A table that is known under other names, and data that changed since an earlier release,
        are refused where their counts show it; ``True`` confirms that this is intended.
    anyway
        Noise that drowns the row of median size gives a warning, `DrownedAnswer`, before anything
        is charged, unless this is true.

    Returns
    -------
    Releases
        One row for each subject and window.

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
    run = FleetRun.of("each", beliefs, epsilon, query, mechanism, label, table.windows)
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
    with accounts_of_run(run, ledger, budget, data, confirm_data) as accounts:
        chunks = chunks_of(asked.owner)
        for rows in chunks if accounts is not None and len(chunks) > 1 else ():
            pending = pending_releases(table, asked, rows, used, calibrations, prefix)
            accounts.check(pending)
            accounts.forget()
        for rows in chunks:
            if accounts is None:
                scales[rows] = wanted[rows]
                values[rows] = run.draw(asked.counts[rows], wanted[rows])
            else:
                pending = pending_releases(table, asked, rows, used, calibrations, prefix)
                draw = partial(_draw, run, asked.counts[rows], wanted[rows])
                paid = accounts.pay(pending, draw)
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
    table: Table,
    beliefs: Any,
    epsilon: float,
    *,
    query: str | Question = "histogram",
    mechanism: str = "influence_curve",
    ledger: Ledger | str | None = None,
    budget: float | None = None,
    label: str = "",
    prefix: str = "",
    confirm_data: bool = False,
    progress: Progress | None = None,
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
    all in one transaction. One more account, ``(all subjects)``, keeps the values. For more than
    100,000 rows all accounts are checked, then charged in batches, and the
    values are drawn after the last of them; the same call continues what was interrupted.

    Parameters
    ----------
    table, beliefs, epsilon, query, mechanism, ledger, budget, label, prefix, confirm_data,
    progress, anyway
        As for `release_each`.
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
    grouped = None if groups is None and keys is None else Groups.of(table.subjects, groups, keys)
    what = "all" if grouped is None else f"all by {grouped.digest}"
    run = FleetRun.of(what, beliefs, epsilon, query, mechanism, label, table.windows)
    table, run, asked, about = _of_period(table, run, period)
    together = summed_up(asked, grouped)
    run = _paid_for(run, table, ledger, prefix, horizon)
    run = run.decided(int(np.median(together.entries)), int(table.longest.max()))
    per = together.per(run.per)
    if per is not None and not per.all():
        raise ValueError(
            "keys: a group or window has no entries, and so no shares and no mean; ask histogram "
            "or total"
        )
    windows, sums = together.window, together.counts
    longest = int(table.longest.max())
    calibration = run.calibration(longest)
    warn_if_rows_drown(run, together, [calibration] * len(windows), anyway)
    used, calibrations = np.full(len(table.subjects), longest), {longest: calibration}
    data = TableData(table, account_names(table, prefix)) if ledger is not None else {}
    with accounts_of_run(run, ledger, budget, data, confirm_data) as accounts:
        if accounts is None:
            values, scales = noisy_sums(sums, run, calibration.scale)
        else:
            record = f"{prefix}{EVERYBODY}"
            pending = partial(pending_releases, table, asked)
            paying = partial(pending, used=used, calibrations=calibrations, prefix=prefix)
            values, scales = _recorded(accounts, run, record, paying, asked, together, calibration)
    if progress is not None:
        progress(len(windows), len(windows))
    answer = releases_of(run, None, together, values, scales, calibrations, about)
    return replace(
        answer,
        notes=run.notes(table),
        lengths=np.full(len(windows), longest),
        groups=None if grouped is None else grouped.of_rows(len(windows)),
        independent_after=table.independent_after,
        step=table.step,
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
        everybody = pending(np.arange(len(asked.owner)))
        used = Used().add(everybody).digest
        stored = accounts.pay_record(record, used, body, draw, everybody)
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
def accounts_of_run(
    run: FleetRun,
    ledger: Ledger | str | None,
    budget: float | None,
    data: Mapping[str, Data] | None = None,
    confirm_data: bool = False,
) -> Iterator[Any]:
    """The accounts of a run; ``None`` without a ledger. A ledger opened here is closed."""
    if (ledger is None) != (budget is None):
        raise ValueError("ledger and budget: must be given together")
    if ledger is None or budget is None:
        yield None
    elif isinstance(ledger, Ledger):
        yield Accounts(ledger, budget, run, data, confirm_data)
    else:
        with Ledger(ledger) as book:
            yield Accounts(book, budget, run, data, confirm_data)
