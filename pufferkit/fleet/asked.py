"""The exact answers of many subjects to one question, from what a table keeps.

Hours of the day and of the week are folded from windows of an hour, so that the rows of a large
table never leave their engine. Other questions are asked of the entries of each subject, which a
table keeps up to a million rows.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from pufferkit.data.calendar import HOUR, HOURS, HOURS_OF_WEEK, Calendar
from pufferkit.data.durations import duration
from pufferkit.data.questions import BY, Question
from pufferkit.data.series import Series
from pufferkit.data.table import Counts, Table, Windows
from pufferkit.fleet.run import FleetRows

FOLDED = ("by-hour", "by-weekday-hour")
"""Questions whose slots come back, and so can be folded from windows of an hour."""


def rows_of(
    table: Table, pieces: Counts, question: Question, states: Sequence[Hashable]
) -> tuple[FleetRows, tuple[str, ...], dict[str, Any]]:
    """A row for each subject, the labels of its numbers, and the question for the record."""
    if question.name in ("by-day", "by-week"):
        width = "1d" if question.name == "by-day" else "7d"
        raise ValueError(
            f"query: {question.name} of many subjects is a histogram over windows, all at one "
            f"price: read_table(..., window={width!r}) and query='histogram'"
        )
    if table.windows is not None:
        if question.name not in FOLDED:
            raise ValueError(
                f"query: {question.name} is asked of whole series; read the table without window="
            )
        return _folded(table, pieces, question, states)
    if table.codes is None:
        raise ValueError(
            f"query: {question.name} needs the entries one by one, and this table keeps counts "
            "alone" + ("; read it with window='hour of week'" if question.name in FOLDED else "")
        )
    return _one_by_one(table, question, states)


def _folded(
    table: Table, pieces: Counts, question: Question, states: Sequence[Hashable]
) -> tuple[FleetRows, tuple[str, ...], dict[str, Any]]:
    windows, weekly = table.windows, question.name == "by-weekday-hour"
    assert windows is not None
    if not windows.of_time or HOUR % windows.width or (windows.repeats == 24 and weekly):
        told = duration(windows.width) if windows.of_time else f"{windows.width:g}"
        raise ValueError(
            f"query: {question.name} is folded from windows of an hour or a part of it, and these "
            f"are {told} wide; read the table with window='hour of week'"
        )
    slots = HOURS_OF_WEEK if weekly else HOURS
    slot = _slots(table, windows, weekly)
    size = pieces.shape[1]
    answers = np.zeros((len(table.subjects), len(slots), size), dtype=np.int64)
    np.add.at(answers, (table.owner, slot), pieces)
    labels = tuple(f"{name}, {state}" for name in slots for state in states)
    record = {"name": question.name, "by": BY[question.name], "slots": list(slots)}
    return _rows(table, answers.reshape(len(answers), -1), answers.sum(axis=2)), labels, record


def _slots(table: Table, windows: Windows, weekly: bool) -> Counts:
    """The hour of the week, or of the day, of every piece."""
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
    answers, observed = [], []
    labels: tuple[str, ...] = ()
    record: dict[str, Any] = {}
    for subject in table.subjects:
        series = table.series(subject)
        query = question.over(states, Series.of(series, states))
        answers.append([int(value) for value in query.exact(series)])
        asked = dict(query.question or {})
        observed.append(asked.pop("observed", None))
        labels = query.labels
        record = {"name": question.name, **asked}
    for own in ("calendar", "days"):  # of one subject
        record.pop(own, None)
    seen = None if observed[0] is None else np.array(observed, dtype=np.int64)
    return _rows(table, np.array(answers, dtype=np.int64), seen), labels, record


def _rows(table: Table, answers: Counts, observed: Counts | None) -> FleetRows:
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
