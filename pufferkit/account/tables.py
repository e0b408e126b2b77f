"""Releases about a table: for each subject, for all of them, or for groups with declared keys."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from pufferkit import checks
from pufferkit.account.amounts import in_epsilon
from pufferkit.account.ledger import TableAccounts
from pufferkit.account.periods import Period, cut, rows_in
from pufferkit.account.releases import Releases
from pufferkit.account.subjects import (
    EVERYBODY,
    Accounts,
    FleetRun,
    PendingRelease,
    TableData,
    account_names,
    chunks_of,
    pending_releases,
)
from pufferkit.beliefs.base import check_table
from pufferkit.beliefs.provenance import check_paid
from pufferkit.checks import Floats
from pufferkit.data.assemble import state_labels
from pufferkit.data.exact_rows import Rows, RowsAndQuery, exact_rows, whole_series
from pufferkit.data.queries import Histogram
from pufferkit.data.query import Query, Question
from pufferkit.data.table import Counts, Table
from pufferkit.influence.progress import Progress
from pufferkit.mechanisms.calibration import Calibration
from pufferkit.mechanisms.target_errors import over
from pufferkit.mechanisms.usefulness import warn_if_drowned
from pufferkit.records import digest as digest_of

# -- groups --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Groups:
    """For each subject the index of its group among the keys."""

    keys: tuple[Hashable, ...]
    number: Mapping[Hashable, int]

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
        lost = [subject for subject in subjects if subject not in groups]
        if lost:
            raise ValueError(f"groups: {len(lost)} subjects have no group, such as {lost[0]!r}")
        labels = state_labels([groups[subject] for subject in subjects], declared)  # 1 for "1"
        strange = set(labels) - set(declared)
        if strange:
            few = ", ".join(sorted(repr(key) for key in strange)[:5])
            raise ValueError(f"groups: {few} not among the declared keys")
        index = {key: place for place, key in enumerate(declared)}
        numbers = (index[label] for label in labels)
        return cls(declared, dict(zip(subjects, numbers, strict=True)))

    @property
    def digest(self) -> str:
        """The same for the same groups."""
        place = list(self.number.values())
        return digest_of({"keys": [str(k) for k in self.keys], "place": place})

    def place(self, table: Table) -> Counts:
        """Those of the subjects of a table, which may be a part of all."""
        return np.array([self.number[subject] for subject in table.subjects])

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


def summed_up(asked: Rows, groups: int = 1, group_of: Counts | None = None) -> Rows:
    """The rows of all subjects, or of each group, added up window by window."""
    windows, place = np.unique(asked.window, return_inverse=True)
    if group_of is not None:
        place = group_of[asked.owner] * len(windows) + place
        windows = np.tile(windows, groups)

    def summed(rows: Counts) -> Counts:
        sums = np.zeros((len(windows), *rows.shape[1:]), dtype=np.int64)
        np.add.at(sums, place, rows)
        return sums

    observed = None if asked.observed is None else summed(asked.observed)
    days = None if asked.days is None else summed(asked.days)
    nobody = np.zeros(len(windows), dtype=np.int64)
    counts, seen = summed(asked.counts), summed(asked.entries)
    return Rows(nobody, windows, counts, nobody, nobody, observed, seen, days)


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
    where = f" (a row of {entries:,} entries)"
    warn_if_drowned(noise, run.beliefs, anyway=anyway, rows=where, stacklevel=5)


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
    per = rows.per(run.question.per)
    size = made.scale * float(run.unit) / (1 if per is None else int(per[row]))
    return replace(made, scale=size, scales=None, query=query)


def shared(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record of a question, without what is true of one subject only."""
    return {
        key: record[key] for key in record if key not in ("calendar", "gaps", "observed", "days")
    }


def releases_of(
    run: FleetRun,
    asked: Rows,
    values: Floats,
    scales: Floats,
    calibrations: dict[int, Calibration],
    query: Query,
    *,
    stored: bool,
    **facts: Any,
) -> Releases:
    """The draws, with what a reader needs to judge them; ``facts`` are other fields of them.

    ``stored``: whether rows may have been drawn earlier and kept in accounts.
    """
    entries, sampler = asked.entries.copy(), None if stored else run.sampler(scales)
    if run.question.counting:
        query = run.released.about(run.one_entry)
    values, scales = run.answers(values, scales, asked.per(run.question.per))
    for array in (values, scales, entries):
        array.setflags(write=False)
    known: dict[str, Any] = {"epsilon": run.epsilon, "sampler": sampler, **facts}
    drawn = Releases(
        windows=asked.window if run.windows is not None else None,
        value=values,
        raw=values,
        scale=scales,
        entries=entries,
        labels=(run.query,) if run.chooses else query.labels,
        query=run.query,
        mechanism=run.mechanism,
        guarantee=next(iter(calibrations.values())).guarantee,
        cut=run.windows,
        calibrations=calibrations,
        noise="noisy choice" if run.chooses else "discrete laplace",
        kind=query.kind,
        question=shared(query.question or {}),
        observed=asked.observed,
        days=asked.days,
        asked=run.question,
        **known,
    )
    return drawn.within_range() if drawn.totals is None else drawn.as_histogram()


# -- the release ---------------------------------------------------------------------------------


def release_table(
    table: Table,
    run: FleetRun,
    accounts: TableAccounts | None,
    *,
    each: bool,
    groups: Groups | None = None,
    period: Period | None = None,
    progress: Progress | None = None,
    anyway: bool = False,
) -> Releases:
    """A row for each subject and window, or about all subjects or each group of them together.

    *Each subject*: windows do not add up, because no entry is in two of them. Windows that an
    earlier call released when the series was shorter had less noise: epsilon of the result is then
    the cost of all of them.

    *Together* ([Q] 5.3.1): changing one entry of one subject lowers one bin and raises another, and
    segments of other subjects carry no information about it. So the noise is that of the longest
    segment, and does not grow with the number of subjects. No subject is in two groups, so an entry
    affects the row of one group only: all groups together cost as much as one release. The release
    uses the entries of every subject, so the account of *every* subject is charged. One more
    account, ``(all subjects)``, keeps the values.

    Parameters
    ----------
    table, run
        The table, and what is asked of it.
    accounts
        Those that pay; ``None`` if nothing is paid.
    each
        Whether every subject has rows of its own.
    groups
        The group of each subject, which is assumed to be public, like the lengths of the series.
    period
        The windows to take; of a table without windows its entries.
    progress, anyway
        As for `release`.
    """
    if period is not None and table.windows is None:
        table, run = cut(table, period), replace(run, period=period)
    asked, about = asked_of(table, run)
    if period is not None and table.windows is not None:
        asked = rows_in(asked, table, period)
    longest, prefix = int(table.longest.max()), "" if accounts is None else accounts.prefix
    data = {} if accounts is None else TableData(table, account_names(table, prefix))
    if accounts is not None:
        run = run.paid_for(accounts, list(data), longest)
    grouped = () if groups is None else (len(groups.keys), groups.place(table))
    rows = asked if each else summed_up(asked, *grouped)
    run = run.decided(int(np.median(rows.entries)), longest)
    per = rows.per(run.question.per)
    if per is not None and not per.all():
        raise ValueError(
            "keys: a group or window has no entries, and so no shares and no mean; ask histogram "
            "or total"
        )
    used, calibrations = run.calibrations(table.longest if each else np.array([longest]))
    if not each:
        used = np.full(len(table.subjects), longest)
    lengths = used[rows.owner]
    warn_if_rows_drown(run, rows, [calibrations[n] for n in lengths.tolist()], anyway)
    wanted = np.array([calibrations[n].scale for n in lengths.tolist()])
    epsilon = run.epsilon
    if accounts is None:
        values, scales = run.draw(rows.counts, wanted), wanted
    else:
        paying = Accounts(accounts, run, data)
        pending = partial(pending_releases, table, asked, used, calibrations, prefix)
        if each:
            chunks = chunks_of(asked.owner)
            if len(chunks) > 1:
                paying.check_all(map(pending, chunks))
            values, scales, epsilon = paid_rows(paying, rows, wanted, pending, progress)
        else:
            batches = partial(map, pending, chunks_of(asked.owner))
            values, scales = paid_together(paying, rows, calibrations[longest], batches)
    if progress is not None and (accounts is None or not each):
        progress(len(wanted), len(wanted))
    return releases_of(
        run,
        rows,
        values,
        scales,
        calibrations,
        about,
        stored=accounts is not None,
        subjects=tuple(table.subjects[n] for n in rows.owner) if each else None,
        groups=None if groups is None else groups.of_rows(len(wanted)),
        epsilon=epsilon,
        notes=run.notes(table),
        lengths=lengths,
        independent_after=table.independent_after,
        step=table.step,
    )


def paid_rows(
    accounts: Accounts,
    rows: Rows,
    wanted: Floats,
    pending: Callable[[Counts], list[PendingRelease]],
    progress: Progress | None = None,
) -> tuple[Floats, Floats, float]:
    """Rows that their subjects pay for: the stored values, their scales, and what all cost."""
    run, together = accounts.run, [accounts.run.epsilon]
    values = np.empty((len(wanted), 1 if run.chooses else rows.counts.shape[1]))
    scales = np.empty(len(wanted))

    def draw(part: Counts, which: Counts) -> tuple[Floats, Floats]:
        scales = wanted[part[which]]
        return run.draw(rows.counts[part[which]], scales), scales

    for part in chunks_of(rows.owner):
        paid = accounts.pay(pending(part), partial(draw, part))
        values[part] = [stored["value"] for stored in paid.values]
        scales[part] = [stored["scale"] for stored in paid.values]
        if (scales[part] < wanted[part]).any():  # drawn when a series was shorter
            least = float((wanted[part] / scales[part]).max())
            holds_everywhere = run.mechanism == "group_dp"
            together.append(run.epsilon * least if holds_everywhere else in_epsilon(paid.total))
        accounts.forget()
        if progress is not None:
            progress(int(part[-1]) + 1, len(wanted))
    return values, scales, max(together)


def paid_together(
    accounts: Accounts,
    rows: Rows,
    calibration: Calibration,
    batches: Callable[[], Iterable[Sequence[PendingRelease]]],
    entries: int | None = None,
) -> tuple[Floats, Floats]:
    """Rows that everybody pays for, drawn and stored once; or the stored ones."""
    run = accounts.run
    body = {
        "query": f"{run.query} over all subjects",
        "mechanism": run.mechanism,
        "scale": calibration.scale,
        "windows": rows.window.tolist(),
    }

    def draw() -> dict[str, Any]:
        scales = np.full(len(rows.counts), calibration.scale)
        return {"value": run.draw(rows.counts, scales).tolist(), "scale": scales.tolist()}

    stored = accounts.pay_together(batches, EVERYBODY, body, draw, entries=entries)
    return np.array(stored["value"]), np.array(stored["scale"])
