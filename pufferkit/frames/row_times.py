"""Times of the rows of one series: in order, on a clock or a grid, with gaps and breaks."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from datetime import time as time_of_day
from itertools import accumulate, pairwise
from math import isfinite, isnan
from typing import Any

import numpy as np

from pufferkit.data.calendar import Calendar, microseconds
from pufferkit.data.clock import even_step
from pufferkit.data.durations import in_words, ticks
from pufferkit.rounding import as_fraction

_MONDAY = datetime(1970, 1, 5)
_REGULAR = 0.9  # share of equal steps from which times count as a clock's
_LONG = 1.5  # steps longer than the usual by this factor are gaps

REPEATED_HOUR = (
    "; if clocks went back, choose how to treat the repeated hour: repeated_hour='shift' or "
    "'keep first', --repeated-hour"
)
NO_TIME = "no time; every entry needs one"

MOST_ENTRIES = 20_000_000
"""Most entries of a series, unobserved ones included."""


def nothing_in(cell: Any) -> bool:
    """Whether a cell is empty."""
    return cell is None or cell == "" or (isinstance(cell, float) and isnan(cell))


def increasing(file: str, cells: Sequence[Any], lengths: Sequence[int]) -> list[Any]:
    """Times of rows, which must increase within a segment."""
    for row, cell in enumerate(cells, 1):
        if nothing_in(cell):
            raise ValueError(f"{file}: row {row} has {NO_TIME}")
    times = _times(file, cells)
    twice = REPEATED_HOUR if isinstance(times[0], datetime) else ""
    row = 0
    for length in lengths:
        for number, (before, after) in enumerate(pairwise(times[row : row + length]), row + 2):
            if before == after:
                raise ValueError(
                    f"{file}: row {number} has the same time as the row before it, "
                    f"{cells[number - 1]}; one subject has one state at a time" + twice
                )
            if before > after:
                raise ValueError(
                    f"{file}: row {number} is earlier than the row before it, "
                    f"{cells[number - 1]} after {cells[number - 2]}; sort the rows by time" + twice
                )
        row += length
    return times


def _numbers(times: Sequence[Any]) -> list[Any] | None:
    """Times as exact numbers, timestamps in microseconds; ``None`` if they cannot be subtracted."""
    if isinstance(times[0], time_of_day):
        return None
    if isinstance(times[0], date):  # datetime too
        if isinstance(times[0], datetime) and times[0].tzinfo is not None:
            return [(time - times[0]) // timedelta(microseconds=1) for time in times]
        moments = np.array(times, dtype="datetime64[us]")
        return list((moments - moments[0]).astype(np.int64).tolist())
    return [time if isinstance(time, int) else as_fraction("time", time) for time in times]


def split_after(
    file: str, times: Sequence[Any] | None, lengths: Sequence[int], after: Any
) -> tuple[list[int], str | None]:
    """Lengths of the pieces between rows that are declared independent, and the limit as text."""
    numbers = None if times is None else _numbers(times)
    if times is None or numbers is None:
        raise ValueError(
            f"{file}: independent_after: needs a column with times that can be subtracted"
        )
    of_time = isinstance(times[0], date)
    limit = ticks("independent_after", after, of_time)
    exact = limit if isinstance(limit, int) else as_fraction("independent_after", limit)
    sizes, row = [], 0
    for length in lengths:
        sizes.append(1)
        for before, now in pairwise(numbers[row : row + length]):
            if now - before > exact:
                sizes.append(0)
            sizes[-1] += 1
        row += length
    return sizes, in_words(limit, of_time) if len(sizes) > len(lengths) else None


def exact_ticks(name: str, duration: Any, times: Sequence[Any]) -> Any:
    """A duration in the exact numbers of `_numbers`."""
    width = ticks(name, duration, isinstance(times[0], date))
    return width if isinstance(width, int) else as_fraction(name, width)


def first_in_slots(
    file: str, times: Sequence[Any], cells: Sequence[Any], lengths: Sequence[int], step: Any
) -> tuple[list[Any], list[Any], list[int]]:
    """The first reading in each slot of a grid: the start of the slot, the cell, and segments."""
    numbers, of_time = _numbers(times), isinstance(times[0], date)
    if numbers is None:
        raise ValueError(f"{file}: every: needs a column with times that can be subtracted")
    origin = 0
    if of_time:
        first = times[0] if isinstance(times[0], datetime) else datetime(*times[0].timetuple()[:3])
        origin = (first.replace(tzinfo=None) - _MONDAY) // timedelta(microseconds=1)
    slots: list[Any] = []
    kept: list[Any] = []
    sizes, row = [], 0
    for length in lengths:
        before, size = None, len(slots)
        for now, cell in zip(numbers[row : row + length], cells[row : row + length], strict=True):
            slot = (now + origin) // step
            if nothing_in(cell) or slot == before:
                continue
            slots.append(slot * step)
            kept.append(cell)
            before = slot
        if len(slots) > size:
            sizes.append(len(slots) - size)
        row += length
    if not sizes:
        raise ValueError(f"{file}: no entry was observed; there is nothing to release")
    if of_time:
        return [_MONDAY + timedelta(microseconds=slot) for slot in slots], kept, sizes
    return slots, kept, sizes


def places_of(
    file: str, times: Sequence[Any], lengths: Sequence[int], step: Any = None
) -> list[int] | None:
    """The place of every row in its segment by the clock; ``None`` if there is no clock.

    ``step`` is the step of a grid that the times lie on; if left out, a clock is searched for.
    """
    numbers = _numbers(times)
    if numbers is None:
        return None
    bounds = [0, *accumulate(lengths)]
    steps: Counter[Any] = Counter()
    for start, end in pairwise(bounds):
        steps.update(after - before for before, after in pairwise(numbers[start:end]))
    step = even_step(steps) if step is None else step
    if step is None:
        _tell_gaps(file, times, lengths)
        return None
    places = []
    for start, end in pairwise(bounds):
        places += [int((now - numbers[start]) // step) for now in numbers[start:end]]
    entries = sum(places[end - 1] + 1 for end in bounds[1:])
    if entries > MOST_ENTRIES:
        raise ValueError(
            f"{file}: {len(times):,} rows span {entries:,} entries of the clock, more than the "
            f"{MOST_ENTRIES:,} that a series may hold; declare distant rows independent with "
            "independent_after, or use read_table, which does not list missing entries"
        )
    return places


def calendar_of(
    times: Sequence[Any], lengths: Sequence[int], step: Any, timezone: str | None
) -> Calendar | None:
    """The calendar of rows on a clock; ``None`` if their times are numbers.

    Times with an offset become UTC, unless a zone was given.
    """
    if not isinstance(times[0], date):
        return None
    if isinstance(times[0], datetime) and times[0].tzinfo is not None:
        timezone = timezone or "UTC"
    numbers, bounds = _numbers(times) or [], [0, *accumulate(lengths)]
    pairs = (pairwise(numbers[start:end]) for start, end in pairwise(bounds))
    step = min((b - a for own in pairs for a, b in own), default=None) if step is None else step
    if step is None:
        return None
    starts = [_start_of(times[at]) for at in bounds[:-1]]
    return Calendar(starts, int(step), timezone)


def ends_of(times: Sequence[Any]) -> tuple[str, int, int] | None:
    """First and last of the times of rows without an even step, for `Series.between`."""
    if not isinstance(times[0], date):
        return None
    first, last = _start_of(min(times)), _start_of(max(times))
    axis = "time" if first.tzinfo is None else "instants"
    return axis, microseconds(first), microseconds(last)


def _start_of(time: Any) -> datetime:
    return time if isinstance(time, datetime) else datetime(time.year, time.month, time.day)


def _tell_gaps(file: str, times: Sequence[Any], lengths: Sequence[int]) -> None:
    """Warn where almost evenly spaced times have a gap within a segment."""
    steps, row = [], 0
    for length in lengths:
        pairs = enumerate(pairwise(times[row : row + length]), row + 2)
        steps += [(after - before, number) for number, (before, after) in pairs]
        row += length
    if len(steps) < 2:  # one step is neither even nor uneven
        return
    usual = sorted(step for step, _ in steps)[len(steps) // 2]
    alike = sum(abs(step - usual) <= usual / 100 for step, _ in steps)
    gaps = [number for step, number in steps if step > _LONG * usual]
    if gaps and alike >= _REGULAR * len(steps):
        warnings.warn(
            f"{file}: times are about {usual} apart, except before row {gaps[0]}"
            + (f" and {len(gaps) - 1} more" if len(gaps) > 1 else "")
            + "; they are not exactly evenly spaced, so rows on both sides of such a gap are "
            "wrongly treated as neighbours: put the entries on a grid with read_table(every=), "
            "or add rows without a state for the missing entries",
            stacklevel=4,
        )


def _times(file: str, cells: Sequence[Any]) -> list[Any]:
    """Times that can be compared; text is read as numbers or as ISO timestamps."""
    parse = _parser(cells[0])
    times = []
    for row, cell in enumerate(cells, 1):
        try:
            times.append(parse(cell))
        except (ValueError, OverflowError):
            raise ValueError(
                f"{file}: row {row} has time {cell!r}; write times as numbers or like "
                "2024-03-04T08:15, all in the same way"
            ) from None
    return times


def _parser(first: Any) -> Callable[[Any], Any]:
    """How to read a column of times that starts like this."""
    if isinstance(first, datetime):
        return _moment
    if not isinstance(first, str):
        return lambda cell: cell
    try:
        _number(first)
    except ValueError:
        zoned = _is_zoned(first)
        return lambda text: _moment(datetime.fromisoformat(text), zoned)
    return _number


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        value = float(text)
        if not isfinite(value):
            raise
        return value


def _moment(time: datetime, zoned: bool | None = None) -> datetime:
    """A time without a zone unchanged; one with a zone in UTC, where no hour repeats."""
    if zoned is not None and zoned != (time.tzinfo is not None):
        raise ValueError("times with and without a zone")
    return time if time.tzinfo is None else time.astimezone(UTC)


def _is_zoned(text: str) -> bool | None:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return None
