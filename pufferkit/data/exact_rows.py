"""The exact answers of many subjects to one question, from the contents of a table.

Hours of the day and of the week are folded from windows of an hour, so that the rows of a large
table never leave their engine. Sums over entries, and answers derived from a histogram, need only
the counts of the states. Other questions need the entries of each subject, which tables of up to a
million rows keep.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from pufferkit.data.calendar import HOUR, Calendar
from pufferkit.data.durations import duration
from pufferkit.data.queries import ByTime
from pufferkit.data.query import Over, Query, Question
from pufferkit.data.series import Series
from pufferkit.data.table import Counts, Table, Windows

MOST = 2**52
"""Largest integer sum that a float holds exactly with room for noise."""


@dataclass(frozen=True, eq=False)
class Rows:
    """The exact rows of a table: subject, window, counts, and the first and last entry, from 1.

    ``counts`` are the integers of the answer. Where they do not sum to the number of observed
    entries, ``seen`` holds it; ``observed`` has the number for each slot of a question by time, and
    ``days`` the number of days for shares of days.
    """

    owner: Counts
    window: Counts
    counts: Counts
    first: Counts
    last: Counts
    observed: Counts | None = None
    seen: Counts | None = None
    days: Counts | None = None

    def per(self, what: str | None) -> Counts | None:
        """The public number that the answer of each row is divided by."""
        return self.entries if what == "entries" else self.days if what == "days" else None

    @cached_property
    def entries(self) -> Counts:
        """Number of observed entries behind each row."""
        return np.asarray(self.counts.sum(axis=1) if self.seen is None else self.seen)

    def fractions(self, question: Question, states: Sequence[Hashable]) -> list[list[Fraction]]:
        """The answers as they are asked for, in their unit and divided by what they are per."""
        unit, per = question.grain(Over(tuple(states), (1,))), self.per(question.per)
        each = [1] * len(self.counts) if per is None else per.tolist()
        rows = zip(self.counts.tolist(), each, strict=True)
        return [[value * unit / number for value in row] for row, number in rows]

    @classmethod
    def of(cls, table: Table, pieces: Counts) -> Rows:
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


RowsAndQuery = tuple[Rows, Query]


def exact_rows(table: Table, question: Question, states: Sequence[Hashable]) -> RowsAndQuery:
    """A row for each subject, or subject and window, and the query about one of them."""
    pieces = aligned(table, states)
    if question.counting:
        if table.windows is not None and table.windows.repeats is not None:
            raise ValueError(
                f"query: {question.name} applies to consecutive windows of time, such as "
                "window='1d', or to whole series; recurring windows are slots of one question, "
                "'by-weekday-hour' or 'by-hour'"
            )
        return _counted(Rows.of(table, pieces), question, states)
    slots = question.recurring if isinstance(question, ByTime) else None
    if isinstance(question, ByTime) and slots is None:
        width = "7d" if question.by == "week" else "1d"
        raise ValueError(
            f"query: {question.name} of many subjects is a histogram over windows, which together "
            f"cost one release: read(..., window={width!r}) and query='histogram'"
        )
    if table.windows is not None:
        if not isinstance(question, ByTime):
            raise ValueError(
                f"query: {question.name} applies to whole series; read the table without window="
            )
        return _folded(table, pieces, question, states)
    if table.codes is None:
        raise ValueError(
            f"query: {question.name} needs the single entries, and this table keeps only counts"
            + ("" if slots is None else "; read it with window='hour of week'")
        )
    return _one_by_one(table, question, states)


def _counted(rows: Rows, question: Question, states: Sequence[Hashable]) -> RowsAndQuery:
    """Answers from how often each state occurs, in whole units."""
    over = Over(tuple(states), (1,))
    refuse_digits(question, over, int(rows.entries.sum()))
    counts = question.of_counts(over, tuple(states), rows.counts)
    return replace(rows, counts=counts, seen=rows.entries), question.about(over)


def refuse_digits(question: Question, over: Over, entries: int) -> None:
    """Raise unless sums over so many entries are exact."""
    rows = {} if question.binned else question.adds(over) or {}
    if max((abs(w) for row in rows.values() for w in row), default=0) * entries >= MOST:
        raise ValueError(
            "values: have too many digits to add up exactly over all entries; round them, or use "
            "larger units"
        )


def _folded(
    table: Table, pieces: Counts, question: ByTime, states: Sequence[Hashable]
) -> RowsAndQuery:
    windows, slots = table.windows, question.recurring or ()
    weekly = len(slots) > 24
    assert windows is not None
    if not windows.of_time or HOUR % windows.width or (windows.repeats == 24 and weekly):
        breadth = duration(windows.width) if windows.of_time else f"{windows.width:g}"
        raise ValueError(
            f"query: {question.name} is folded from windows of an hour or a part of it, and these "
            f"are {breadth} wide; read the table with window='hour of week'"
        )
    slot = _slots(table, windows, weekly)
    size, people = pieces.shape[1], len(table.subjects)
    cell = np.repeat(table.owner * len(slots) + slot, size)
    state = np.tile(np.arange(size), len(pieces))
    tally = question.tally(cell, state, people * len(slots), size, pieces.ravel())
    rows = whole_series(
        table, tally.reshape(people, -1), tally.reshape(people, len(slots), size).sum(axis=2)
    )
    return rows, question.about(Over(tuple(states), (1,), calendar=Calendar(0, HOUR)))


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


def _one_by_one(table: Table, question: Question, states: Sequence[Hashable]) -> RowsAndQuery:
    answers: list[list[int]] = []
    observed: list[Any] = []
    days: list[Any] = []
    query: Query | None = None
    for subject in table.subjects:
        series = Series.of(table.series(subject), states)
        query = question.bind(states, series)
        answers.append([int(value / (query.unit or 1)) for value in query.exact(series)])
        record = query.question or {}
        days.append(record.get("days"))
        observed.append(record.get("observed"))
    assert query is not None
    seen = None if observed[0] is None else np.array(observed, dtype=np.int64)
    rows = whole_series(table, np.array(answers, dtype=np.int64), seen)
    if question.per == "days":
        rows = replace(rows, days=np.array(days, dtype=np.int64))
    return rows, query


def whole_series(table: Table, answers: Counts, observed: Counts | None) -> Rows:
    """A row for each subject, with these answers."""
    first, last = table.places
    at = np.searchsorted(table.owner, np.arange(len(table.subjects)))
    return Rows(
        owner=np.arange(len(table.subjects)),
        window=np.zeros(len(table.subjects), dtype=np.int64),
        counts=answers,
        first=np.minimum.reduceat(first, at),
        last=np.maximum.reduceat(last, at),
        observed=observed,
        seen=table.totals,
    )


def aligned(table: Table, states: Sequence[Hashable]) -> Counts:
    """The counts of each piece, by the states of the beliefs."""
    place = {state: number for number, state in enumerate(states)}
    strange = [
        state
        for number, state in enumerate(table.states)
        if state not in place and table.pieces[:, number].any()
    ]
    if strange:
        raise ValueError(
            f"table: has states {strange} that the beliefs lack; they have {list(states)}"
        )
    counts = np.zeros((len(table.pieces), len(states)), dtype=np.int64)
    for number, state in enumerate(table.states):
        if state in place:
            counts[:, place[state]] = table.pieces[:, number]
    return counts
