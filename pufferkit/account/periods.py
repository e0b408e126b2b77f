"""The entries that a release is about: counted, or within a period of the calendar, or by a rule.

A window is first and last entry, counted from 1; a period, ``"2026"``, ``"2026-09"``,
``"2026-W37"`` or ``"2026-09-15"``; two moments, the second excluded. A rule, ``"day"``,
``"week"``, ``"month"``, ``"year"`` or a duration such as ``"12h"``, gives one window after another.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from typing import Any

import numpy as np

from pufferkit.data.calendar import microseconds
from pufferkit.data.durations import ticks
from pufferkit.data.exact_rows import Rows
from pufferkit.data.series import Series
from pufferkit.data.table import Table
from pufferkit.errors import NotApplicable

# -- asked window --------------------------------------------------------------------------------


Moment = date | datetime | str
Window = tuple[int, int] | tuple[Moment, Moment] | Moment
"""First and last entry, counted from 1; or start and excluded end in time; or a period."""

RULES = ("day", "week", "month", "year")
_DURATION = re.compile(r"\d+(us|ms|s|m|h|d|w)")
_HOW = "a period like 2026-09 or 2026-09-15, two times, or first and last entry"


@dataclass(frozen=True)
class Period:
    """From one moment up to another, in microseconds of local time or of instants."""

    name: str
    begin: int
    end: int
    instants: bool = False

    @property
    def key(self) -> list[Any]:
        """What tells it from other windows, whatever entries were observed in it."""
        return ["instants" if self.instants else "time", self.begin, self.end]


def rule_of(window: Any) -> str | None:
    """A window that is a rule; ``None`` if it is not."""
    if not isinstance(window, str):
        return None
    return window if window in RULES or _DURATION.fullmatch(window) else None


def period_of(window: Any) -> Period | None:
    """A window that is a period of time; ``None`` if it counts entries."""
    if isinstance(window, (str, date)):
        begin, end = _calendar_period(window)
        return Period(str(window), microseconds(begin), microseconds(end))
    if not isinstance(window, Sequence) or len(window) != 2:
        raise ValueError(f"window: must be {_HOW}, got {window!r:.60}")
    if not all(isinstance(end, (str, date)) for end in window):
        return None
    first, after = _moment(window[0]), _moment(window[1])
    if (first.tzinfo is None) != (after.tzinfo is None):
        raise ValueError("window: one end has a time zone and the other has none; make them agree")
    if not first < after:
        raise ValueError(f"window: {window[0]} is not before {window[1]}")
    name = f"{window[0]} to {window[1]}"
    return Period(name, microseconds(first), microseconds(after), first.tzinfo is not None)


def inside(data: Series, period: Period) -> tuple[int, int]:
    """First and last entry of a series that lie in a period, counted from 1."""
    if data.calendar is None:
        raise ValueError(
            f"window: the times of the entries are not known, so it is not known which are in "
            f"{period.name}; read them with their times, or count entries: window=(first, last)"
        )
    times = data.calendar.instants if period.instants else data.calendar.times
    places = times(data.lengths)
    own = np.flatnonzero((places >= period.begin) & (places < period.end))
    own = own[data.observed[own]]
    if not own.size:
        raise ValueError(f"window: no entry was observed in {period.name}")
    between = places[own[0] : own[-1] + 1]
    if ((between < period.begin) | (between >= period.end)).any():
        raise ValueError(
            f"window: {period.name} comes twice, because clocks were set back; name both ends with "
            "their offset from UTC, or take a longer window"
        )
    return int(own[0]) + 1, int(own[-1]) + 1


def in_period(data: Series, window: Any) -> Series:
    """The entries of a window, of a series that begins with entry 1."""
    period = period_of(window)
    first, last = window if period is None else inside(data, period)
    return data.window(first, last)


def by_rule(data: Series, rule: str) -> tuple[list[Period], list[Period]]:
    """The periods of a rule that a series covers, and those of which it covers a part only."""
    if data.calendar is None:
        raise ValueError(
            "window: the times of the entries are not known; read them with their times, or count "
            "entries: window=(first, last)"
        )
    if len(data.lengths) > 1:
        raise NotApplicable(
            "window: a rule is for one segment, and the data have several; name the windows one "
            "by one"
        )
    times = data.calendar.times(data.lengths)
    first, after = int(times[0]), int(times[-1]) + data.calendar.every
    whole, partial = list[Period](), list[Period]()
    for period in _periods(rule, first, after):
        complete = period.begin >= first and period.end <= after
        (whole if complete else partial).append(period)
    if not whole:
        raise ValueError(
            f"window: the data cover no window of {rule} whole; name a period, like 2026-09-15, or "
            "both ends"
        )
    return whole, partial


def _periods(rule: str, first: int, after: int) -> Iterator[Period]:
    """The periods of a rule that meet a stretch of time; durations are counted from a Monday."""
    begin = datetime(1970, 1, 1) + timedelta(microseconds=first)
    if rule in RULES:
        start = begin.replace(hour=0, minute=0, second=0, microsecond=0)
        start = {
            "day": start,
            "week": start - timedelta(days=start.weekday()),
            "month": start.replace(day=1),
            "year": start.replace(month=1, day=1),
        }[rule]
        while microseconds(start) < after:
            end = _next(rule, start)
            name = start.strftime({"year": "%Y", "month": "%Y-%m", "week": "%G-W%V"}.get(rule, ""))
            yield Period(name or str(start.date()), microseconds(start), microseconds(end))
            start = end
        return
    width = int(ticks("window", rule, of_time=True))
    monday = microseconds(datetime(1970, 1, 5))
    start_at = first - (first - monday) % width
    while start_at < after:
        name = str(datetime(1970, 1, 1) + timedelta(microseconds=start_at))
        yield Period(name, start_at, start_at + width)
        start_at += width


def _next(rule: str, start: datetime) -> datetime:
    if rule == "year":
        return start.replace(year=start.year + 1)
    if rule == "month":
        return (start + timedelta(days=31)).replace(day=1)
    return start + timedelta(days=7 if rule == "week" else 1)


def _calendar_period(window: str | date) -> tuple[datetime, datetime]:
    text = str(window)
    if re.fullmatch(r"\d{4}", text):
        begin = datetime(int(text), 1, 1)
        return begin, _next("year", begin)
    if re.fullmatch(r"\d{4}-\d{2}", text):
        begin = _moment(f"{text}-01")
        return begin, _next("month", begin)
    if re.fullmatch(r"\d{4}-W\d{2}", text):
        begin = _moment(f"{text}-1")
        return begin, _next("week", begin)
    begin = _moment(window)
    if begin.time() != datetime.min.time() or isinstance(window, datetime):
        raise ValueError(f"window: {window} is a single moment; give a day, or both ends")
    return begin, _next("day", begin)


def _moment(end: Any) -> datetime:
    if isinstance(end, str):
        try:
            return datetime.fromisoformat(end)
        except ValueError:
            raise ValueError(f"window: {end!r} is not {_HOW}") from None
    return end if isinstance(end, datetime) else datetime(end.year, end.month, end.day)


# -- periods -------------------------------------------------------------------------------------


def rows_in(rows: Rows, table: Table, period: Period) -> Rows:
    """The rows of a table with windows that lie in a period, whole."""
    windows = table.windows
    assert windows is not None
    if not windows.of_time or windows.repeats is not None or period.instants:
        raise ValueError(
            f"window: {period.name} applies to windows of local time that follow one another"
        )
    starts = rows.window * windows.width + windows.origin
    own = (starts >= period.begin) & (starts + windows.width <= period.end)
    if not own.any():
        raise ValueError(f"window: no window of the table lies in {period.name}")
    kept: dict[str, Any] = {}
    for name in rows.__dataclass_fields__:
        array = getattr(rows, name)
        kept[name] = array if array is None else array[own]
    return Rows(**kept)


def cut(table: Table, period: Period, check: Callable[[tuple[int, int], int], None]) -> Table:
    """The entries of a table, read without windows, that lie in a period; others have none.

    ``check`` is given first and last entry of what is kept of a segment, and its length, and
    refuses what its beliefs say nothing about.
    """
    calendar = table.calendar
    if table.codes is None or calendar is None:
        raise NotApplicable(
            f"window: which rows are in {period.name} is not known, because this table holds only "
            "counts or its times are uneven; read the rows of the period, put times on a grid with "
            "every=, or read the table with windows: read(..., window='1d')"
        )
    spans = table.segment_lengths
    when = calendar.instants(spans) if period.instants else calendar.times(spans)
    inside = (when >= period.begin) & (when < period.end) & (table.codes >= 0)
    owners = np.repeat(np.arange(len(table.subjects)), [len(own) for own in table.lengths])
    kept = list[tuple[int, int, int, int]]()
    for number, end in enumerate(np.cumsum(spans).tolist()):
        begin = end - int(spans[number])
        own = np.flatnonzero(inside[begin:end]) + begin
        if own.size:
            check((int(own[0]) - begin + 1, int(own[-1]) - begin + 1), end - begin)
            kept.append((int(owners[number]), number, int(own[0]), int(own[-1]) + 1))
    if not kept:
        raise ValueError(f"window: no subject has entries in {period.name}")
    people = sorted({owner for owner, _, _, _ in kept})
    place = {owner: at for at, owner in enumerate(people)}
    parts = [table.codes[low:high] for _, _, low, high in kept]
    size = len(table.states)
    owner = np.array([place[own] for own, _, _, _ in kept])
    before = np.flatnonzero(np.append(True, np.diff(owner) != 0))
    segment = np.arange(len(kept)) - np.repeat(before, np.diff(np.append(before, len(kept))))
    moves = np.zeros((size, size), dtype=np.int64)
    for codes in parts:
        seen = (codes[:-1] >= 0) & (codes[1:] >= 0)
        np.add.at(moves, (codes[:-1][seen], codes[1:][seen]), 1)
    lengths = np.array([len(codes) for codes in parts])
    starts = tuple(
        int(table.starts[number] + (low - int(np.sum(spans[:number]))) * table.every)  # type: ignore[index, operator]
        for _, number, low, _ in kept
    )
    return replace(
        table,
        subjects=tuple(table.subjects[own] for own in people),
        owner=owner,
        segment=segment,
        window=np.zeros(len(kept), dtype=np.int64),
        pieces=np.array([np.bincount(codes[codes >= 0], minlength=size) for codes in parts]),
        transitions=moves,
        begins=tuple(starts[at] for at in before.tolist()),
        first=np.zeros(len(kept), dtype=np.int64),
        last=lengths - 1,
        spans=lengths,
        codes=np.concatenate(parts),
        starts=starts,
    )
