"""Releases about a table: for each subject, for all of them, or for groups with declared keys."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from pufferkit import checks
from pufferkit.account.amounts import in_epsilon, spent_micro
from pufferkit.account.ledger import TableAccounts
from pufferkit.account.periods import Period, cut, rows_in
from pufferkit.account.releases import Releases
from pufferkit.account.spending import Spending, SpentProfile
from pufferkit.account.standing import as_stored
from pufferkit.account.subjects import (
    Accounts,
    AskedRows,
    Batch,
    FleetRun,
    SharedValue,
    TableData,
    account_names,
    batches_of,
)
from pufferkit.account.theorems import check_part
from pufferkit.beliefs.base import check_table
from pufferkit.beliefs.provenance import check_paid
from pufferkit.checks import Floats
from pufferkit.data.assemble import state_labels
from pufferkit.data.exact_rows import Rows, RowsAndQuery, exact_rows, whole_series
from pufferkit.data.queries import Histogram
from pufferkit.data.query import Query, Question
from pufferkit.data.table import Counts, Table
from pufferkit.errors import NotApplicable
from pufferkit.influence.progress import Progress
from pufferkit.mechanisms.calibration import Calibration
from pufferkit.mechanisms.influence_curve import contributions_of
from pufferkit.mechanisms.joint_plan import check_pairs, largest_scale
from pufferkit.mechanisms.target_errors import over
from pufferkit.mechanisms.usefulness import warn_if_drowned
from pufferkit.records import digest as digest_of
from pufferkit.rounding import last_passing

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
    row = _median_row(rows)
    noise = _noise_of_row(run, rows, made[row], row)
    where = f" (a row of {int(rows.entries[row]):,} entries)"
    warn_if_drowned(noise, run.beliefs, anyway=anyway, rows=where, stacklevel=6)


def _median_row(rows: Rows) -> int:
    """The number of the row of median size, among those with entries."""
    seen = np.flatnonzero(rows.entries)
    return int(seen[np.argsort(rows.entries[seen], kind="stable")[len(seen) // 2]])


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


# -- several questions ---------------------------------------------------------------------------


_CLOSE, _TRIES = 1e-4, 40
"""Epsilons are raised, or errors stretched, by this share until all is as promised."""


def joined(
    errors: Mapping[str, float],
    epsilon: float | None,
    runs: Mapping[str, FleetRun],
    rows: Mapping[str, Rows],
    longest: int,
) -> tuple[dict[str, FleetRun], float]:
    """The runs of several questions with an epsilon of their own each, and that of all together.

    Theorem: `entry_profile`, for one release after another over the same entries: event-level
    epsilons add up pair by pair of states, and the loss is that of the sum on the influence curve.
    Noise is made for the longest segment and serves all: a shorter one loses no more.

    Each run gets the least epsilon at which a number of its row of median size is within its error.
    If ``epsilon`` is given, all errors are stretched by one factor, the least it allows.
    """
    theta, each = next(iter(runs.values())).beliefs, dict[str, tuple[float, Any]]()
    for name, run in runs.items():
        row, per = _median_row(rows[name]), rows[name].per(run.question.per)
        unit = run.unit / (1 if per is None else int(per[row]))
        query = run.question.whole(theta.states, longest)
        scale = largest_scale(name, checks.positive(f"error of {name}", errors[name]), unit)
        each[name] = query.lipschitz * float(unit) / scale, contributions_of(theta, query)
    length = next(iter(runs.values())).horizon or longest

    def loss(share: float, *names: str) -> float:
        profile = SpentProfile()
        for b, kind in (each[name] for name in names or each):
            profile = profile.after([(1, length)], share * b, kind)
        return profile.largest_loss(theta, length)

    share = 1.0
    if epsilon is not None:
        most = epsilon / max(b for b, _ in each.values())  # nobody spends less than he loses
        share = last_passing(lambda part: epsilon - loss(part), 1e-6 * most, 2 * most, _CLOSE)
    for _ in range(_TRIES):
        made = {
            name: replace(run, epsilon=loss(share, name), _calibrated={})
            for name, run in runs.items()
        }
        profile, within = SpentProfile(), True
        for name, run in made.items():
            noise = run.calibration(longest)
            within = within and noise.entry_epsilon >= each[name][0]
            profile = profile.with_spending(as_stored(Spending.of(noise), theta))
        total = in_epsilon(spent_micro(profile.largest_loss(theta, length)))
        if total <= epsilon if epsilon is not None else within:
            return made, total
        share *= 1 + _CLOSE if epsilon is None else 1 - _CLOSE
    raise NotApplicable("no epsilon meets these errors; allow larger ones")


class SeveralReleases(dict[str, Releases]):
    """The releases of several questions about a table, by name; ``epsilon`` is of all together."""

    def __init__(self, rows: Mapping[str, Releases], epsilon: float) -> None:
        super().__init__(rows)
        self.epsilon = epsilon


def release_several(
    table: Table, asked: Mapping[str, Any], make: Callable[..., FleetRun], **options: Any
) -> SeveralReleases:
    """A release for each of several questions, all in one payment; ``make`` gives the run of one.

    Arguments as for `release_table`, and ``epsilon``; ``asked`` are questions with their errors.
    """
    check_pairs(asked)
    epsilon = options.pop("epsilon")
    stated = None if epsilon is None else checks.privacy(epsilon)
    runs = {name: make(query, stated or 1.0) for name, (query, _) in asked.items()}
    for name, run in runs.items():
        if run.question.chooses:
            raise NotApplicable(
                f"query: {name} is a noisy choice of a level, not a number with noise; ask a "
                "histogram in its place, and read the quantile with release.derive"
            )
    errors = {name: float(error) for name, (_, error) in asked.items()}
    said = [[name, run.question.digest, errors[name]] for name, run in runs.items()]
    among = digest_of({"asked": said, "epsilon": stated})
    runs = {
        name: replace(run, among=digest_of({"among": among, "name": name}))
        for name, run in runs.items()
    }
    settle = partial(joined, errors, stated)
    return SeveralReleases(*_released(table, runs, settle, **options))


# -- the release ---------------------------------------------------------------------------------


def release_table(
    table: Table, run: FleetRun, accounts: TableAccounts | None, **options: Any
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
    releases, _ = _released(table, {"": run}, _decided, accounts=accounts, **options)
    return releases[""]


RunsByName = Mapping[str, FleetRun]
Settle = Callable[[RunsByName, Mapping[str, Rows], int], tuple[RunsByName, float | None]]
"""Settles how the runs are answered, and the epsilon of several together, from their rows and the
length of the longest segment."""


def _decided(runs: RunsByName, rows: Mapping[str, Rows], longest: int) -> tuple[RunsByName, None]:
    """One run, with its way to a quantile."""
    run = {n: run.decided(int(np.median(rows[n].entries)), longest) for n, run in runs.items()}
    return run, None


def _released(
    table: Table,
    runs: RunsByName,
    settle: Settle,
    *,
    accounts: TableAccounts | None,
    each: bool,
    groups: Groups | None = None,
    period: Period | None = None,
    progress: Progress | None = None,
    anyway: bool = False,
) -> tuple[dict[str, Releases], Any]:
    """The releases of all runs, paid at once."""
    cutting = period is not None and table.windows is None
    if cutting and period is not None:
        asking = next(iter(runs.values()))
        part = partial(check_part, asking.beliefs, asking.mechanism)
        table = cut(table, period, lambda kept, span: part(kept, (span,)))
        runs = {name: replace(run, period=period) for name, run in runs.items()}
    exact = {name: asked_of(table, run) for name, run in runs.items()}
    members = {name: rows for name, (rows, _) in exact.items()}
    if period is not None and not cutting:
        members = {name: rows_in(rows, table, period) for name, rows in members.items()}
    longest = int(table.longest.max())
    data = {} if accounts is None else TableData(table, account_names(table, accounts.prefix))
    if accounts is not None:
        runs = {n: run.paid_for(accounts, list(data), longest) for n, run in runs.items()}
    grouped = () if groups is None else (len(groups.keys), groups.place(table))
    rows = members if each else {n: summed_up(own, *grouped) for n, own in members.items()}
    runs, total = settle(runs, rows, longest)
    of_all = total is not None or not each
    lengths = np.full(len(table.subjects), longest) if of_all else table.longest
    asked = {
        n: AskedRows(run, table, members[n], *run.calibrations(lengths), together=not each)
        for n, run in runs.items()
    }
    shown = {n: one if each else replace(one, rows=rows[n]) for n, one in asked.items()}
    parts = list(shown.values())
    for one in parts:
        refuse_no_entries(one)
        warn_if_rows_drown(one.run, one.rows, one.made, anyway)
    epsilons = [one.run.epsilon for one in parts]
    if accounts is None:
        drawn = [(one.run.draw(one.rows.counts, one.scales), one.scales) for one in parts]
    else:
        paying, batches = Accounts(accounts, parts[0].run, data), batches_of(list(asked.values()))
        if each:
            if len(batches) > 1:
                paying.check_all(batches)
            drawn, epsilons = paid_rows(paying, parts, batches, progress)
        else:
            drawn = paid_together(paying, parts, lambda: batches)
    if progress is not None and (accounts is None or not each):
        size = sum(len(one.rows.owner) for one in parts)
        progress(size, size)
    more = () if total is None else (f"one of {len(parts)} questions: epsilon {total:g} for all",)
    releases = {
        name: releases_of(
            one.run,
            one.rows,
            *noisy,
            one.calibrations,
            exact[name][1],
            stored=accounts is not None,
            subjects=tuple(table.subjects[n] for n in one.rows.owner) if each else None,
            groups=None if groups is None else groups.of_rows(len(one.rows.owner)),
            epsilon=epsilon,
            notes=(*one.run.notes(table), *more),
            lengths=one.lengths,
            independent_after=table.independent_after,
            step=table.step,
        )
        for (name, one), noisy, epsilon in zip(shown.items(), drawn, epsilons, strict=True)
    }
    return releases, total


def refuse_no_entries(asked: AskedRows) -> None:
    """Refuse shares and means of nothing."""
    per = asked.rows.per(asked.run.question.per)
    if per is not None and not per.all():
        raise ValueError(
            "keys: a group or window has no entries, and so no shares and no mean; ask histogram "
            "or total"
        )


Noisy = tuple[Floats, Floats]
"""Rows as drawn, and their scales."""


def paid_rows(
    accounts: Accounts,
    parts: Sequence[AskedRows],
    batches: Sequence[Batch],
    progress: Progress | None = None,
) -> tuple[list[Noisy], list[float]]:
    """Rows that their subjects pay for: the stored values, their scales, and what they cost."""
    noisy = [
        (
            np.empty((len(one.scales), 1 if one.run.chooses else one.rows.counts.shape[1])),
            np.empty(len(one.scales)),
        )
        for one in parts
    ]
    costs, done = [one.run.epsilon for one in parts], 0
    for batch in batches:
        paid, total = accounts.pay(batch)
        stored = iter(paid)
        for place, (one, rows) in enumerate(batch):
            values, scales = noisy[place]
            own, wanted = list(islice(stored, len(rows))), one.scales[rows]
            if not own:
                continue
            values[rows] = [value["value"] for value in own]
            scales[rows] = [value["scale"] for value in own]
            if (scales[rows] < wanted).any():  # drawn when a series was shorter
                least = float((wanted / scales[rows]).max())
                holds_everywhere = one.run.mechanism == "group_dp"
                cost = one.run.epsilon * least if holds_everywhere else in_epsilon(total)
                costs[place] = max(costs[place], cost)
            done += len(rows)
        if progress is not None:
            progress(done, sum(len(one.scales) for one in parts))
    return noisy, costs


def paid_together(
    accounts: Accounts,
    parts: Sequence[AskedRows],
    batches: Callable[[], Iterable[Batch]],
    entries: int | None = None,
) -> list[Noisy]:
    """Rows that everybody pays for, drawn and stored once; or the stored ones."""

    def draw(one: AskedRows) -> dict[str, Any]:
        values = one.run.draw(one.rows.counts, one.scales)
        return {"value": values.tolist(), "scale": one.scales.tolist()}

    shared = []
    for one in parts:
        facts = {
            "query": f"{one.run.query} over all subjects",
            "mechanism": one.run.mechanism,
            "scale": one.made[0].scale,
            "windows": tuple(one.rows.window.tolist()),
        }
        shared.append(SharedValue(one.run, tuple(facts.items()), partial(draw, one)))
    stored = accounts.pay_together(batches, shared, entries)
    return [(np.array(value["value"]), np.array(value["scale"])) for value in stored]
