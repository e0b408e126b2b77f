"""The exact answers of many subjects to one question, from the contents of a table.

Hours of the day and of the week are folded from windows of an hour, so that the rows of a large
table never leave their engine. Sums over entries, and answers derived from a histogram, need only
the counts of the states. Other questions need the entries of each subject, which tables of up to a
million rows keep.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from pufferkit.data.calendar import HOUR, HOURS, HOURS_OF_WEEK, Calendar
from pufferkit.data.durations import duration
from pufferkit.data.question_names import BY, FOLLOWS, SUMS
from pufferkit.data.questions import Question
from pufferkit.data.series import Series
from pufferkit.data.table import Counts, Table, Windows
from pufferkit.fleet.subject_run import FleetRows
from pufferkit.rounding import as_fraction

MOST = 2**52
"""Largest integer sum that a float holds exactly with room for noise."""

FOLDED = ("by-hour", "by-weekday-hour")
"""Questions with recurring slots, which can be folded from windows of an hour."""


def rows_of(
    table: Table, pieces: Counts, question: Question, states: Sequence[Hashable]
) -> tuple[FleetRows, tuple[str, ...], dict[str, Any]]:
    """A row for each subject, the labels of its numbers, and the question for the record."""
    if question.name in ("by-day", "by-week"):
        width = "1d" if question.name == "by-day" else "7d"
        raise ValueError(
            f"query: {question.name} of many subjects is a histogram over windows, which together "
            f"cost one release: read_table(..., window={width!r}) and query='histogram'"
        )
    if question.name in SUMS or question.name in FOLLOWS:
        _refuse_slots(table, question)
        of_states = FleetRows.of(table, pieces)
        if question.name in SUMS:
            return _sums(of_states, question, states)
        return _levels(of_states, question, states)
    if table.windows is not None:
        if question.name not in FOLDED:
            raise ValueError(
                f"query: {question.name} applies to whole series; read the table without window="
            )
        return _folded(table, pieces, question, states)
    if table.codes is None:
        raise ValueError(
            f"query: {question.name} needs the single entries, and this table keeps only counts"
            + ("; read it with window='hour of week'" if question.name in FOLDED else "")
        )
    return _one_by_one(table, question, states)


def _refuse_slots(table: Table, question: Question) -> None:
    if table.windows is not None and table.windows.repeats is not None:
        raise ValueError(
            f"query: {question.name} applies to consecutive windows of time, such as "
            "window='1d', or to whole series"
        )


def _sums(
    rows: FleetRows, question: Question, states: Sequence[Hashable]
) -> tuple[FleetRows, tuple[str, ...], dict[str, Any]]:
    """Sums over entries: histograms times the contribution of each state, in integer units."""
    one = question.one_entry(states)
    assert one is not None
    assert one.weights is not None
    assert one.unit is not None
    nothing = (Fraction(0),) * one.size
    whole = [[int(w / one.unit) for w in one.weights.get(x, nothing)] for x in states]
    record: dict[str, Any] = {"name": question.name, "weights": whole, "unit": str(one.unit)}
    refuse_digits(record, int(rows.entries.sum()))
    if question.clip is not None:
        record["clip"] = [float(end) for end in question.clip]
    counts = rows.counts @ np.array(whole, dtype=np.int64)
    return replace(rows, counts=counts, seen=rows.entries), one.labels, record


def refuse_digits(record: dict[str, Any] | None, entries: int) -> None:
    """Raise unless sums over so many entries are exact."""
    whole = (record or {}).get("weights", ())
    if max((abs(w) for row in whole for w in row), default=0) * entries >= MOST:
        raise ValueError(
            "values: have too many digits to add up exactly over all entries; round them, or use "
            "larger units"
        )


def _levels(
    rows: FleetRows, question: Question, states: Sequence[Hashable]
) -> tuple[FleetRows, tuple[str, ...], dict[str, Any]]:
    """Histograms in the order of the values."""
    order = question.ordered(states)
    place = [list(states).index(state) for state in order]
    record: dict[str, Any] = {"name": question.name}
    if question.values is not None:
        record["levels"] = [float(question.numbers[state]) for state in order]
        record["states"] = [str(state) for state in order]
    if question.share is not None:
        record["share"] = str(as_fraction("share", question.share))
    if question.top is not None:
        record["top"] = question.top
    return replace(rows, counts=rows.counts[:, place]), tuple(str(s) for s in order), record


def _folded(
    table: Table, pieces: Counts, question: Question, states: Sequence[Hashable]
) -> tuple[FleetRows, tuple[str, ...], dict[str, Any]]:
    windows, weekly = table.windows, question.name == "by-weekday-hour"
    assert windows is not None
    if not windows.of_time or HOUR % windows.width or (windows.repeats == 24 and weekly):
        breadth = duration(windows.width) if windows.of_time else f"{windows.width:g}"
        raise ValueError(
            f"query: {question.name} is folded from windows of an hour or a part of it, and these "
            f"are {breadth} wide; read the table with window='hour of week'"
        )
    slots = HOURS_OF_WEEK if weekly else HOURS
    slot = _slots(table, windows, weekly)
    size = pieces.shape[1]
    answers = np.zeros((len(table.subjects), len(slots), size), dtype=np.int64)
    np.add.at(answers, (table.owner, slot), pieces)
    labels = tuple(f"{name}, {state}" for name in slots for state in states)
    record = {"name": question.name, "by": BY[question.name], "slots": list(slots)}
    return (
        whole_series(table, answers.reshape(len(answers), -1), answers.sum(axis=2)),
        labels,
        record,
    )


def _slots(table: Table, windows: Windows, weekly: bool) -> Counts:
    """The hour of the week or of the day of every piece."""
    if windows.repeats is not None:
        return np.asarray(table.window if weekly else table.window % 24)
    numbers, place = np.unique(table.window, return_inverse=True)
    starts = (numbers * windows.width + windows.origin).tolist()
    calendar, alone = Calendar(starts, windows.width, table.timezone), [1] * len(numbers)
    if ((calendar.times(alone) % HOUR) + windows.width > HOUR).any():
        raise ValueError(
            f"timezone: hours in {table.timezone} do not begin with the windows; read the table "
            "with window='hour of week'"
        )
    hours = calendar.hours(alone)
    return np.asarray((24 * calendar.weekdays(alone) + hours if weekly else hours)[place])


def _one_by_one(
    table: Table, question: Question, states: Sequence[Hashable]
) -> tuple[FleetRows, tuple[str, ...], dict[str, Any]]:
    answers, observed, days = [], [], []
    labels: tuple[str, ...] = ()
    record: dict[str, Any] = {}
    for subject in table.subjects:
        series = table.series(subject)
        query = question.over(states, Series.of(series, states))
        answers.append([int(value / (query.unit or 1)) for value in query.exact(series)])
        asked = dict(query.question or {})
        days.append(asked.get("days"))
        observed.append(asked.pop("observed", None))
        labels = query.labels
        record = {"name": question.name, **asked}
    for own in ("calendar", "days"):  # facts about one subject
        record.pop(own, None)
    seen = None if observed[0] is None else np.array(observed, dtype=np.int64)
    rows = whole_series(table, np.array(answers, dtype=np.int64), seen)
    if question.per == "days":
        rows = replace(rows, days=np.array(days, dtype=np.int64))
    return rows, labels, record


def whole_series(table: Table, answers: Counts, observed: Counts | None) -> FleetRows:
    """A row for each subject, with these answers."""
    first, last = table.places
    at = np.searchsorted(table.owner, np.arange(len(table.subjects)))
    return FleetRows(
        owner=np.arange(len(table.subjects)),
        window=np.zeros(len(table.subjects), dtype=np.int64),
        counts=answers,
        first=np.minimum.reduceat(first, at),
        last=np.maximum.reduceat(last, at),
        observed=observed,
        seen=table.totals,
    )
