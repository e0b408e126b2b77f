"""The times of the entries of a series: hours of the day, days of the week, days and weeks.

Times are public, like the lengths of a series. Nothing here looks at states.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from pufferkit import checks
from pufferkit.checks import Ints
from pufferkit.data.durations import DAY, ticks

HOUR = DAY // 24
QUARTER = HOUR // 4
"""Since 1972, clocks in all time zones change at multiples of a quarter of an hour."""

FIRST_MONDAY = 4
"""Days from 1970-01-01, a Thursday, to the first Monday."""

WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

HOURS = tuple(f"{hour:02d}:00" for hour in range(24))
HOURS_OF_WEEK = tuple(f"{day[:3]} {hour}" for day in WEEKDAYS for hour in HOURS)

_EPOCH = datetime(1970, 1, 1)

NO_CALENDAR = (
    "calendar: this query is about hours or days, but the times of the entries are unknown; give "
    'calendar=Calendar("2024-03-04 00:00", every="1m"), or a series read with its times on an even '
    "clock (--data FILE --time COL)"
)


@dataclass(frozen=True)
class Calendar:
    """The time of every entry: the start of each segment, and the time between entries.

    Parameters
    ----------
    starts
        The time of the first entry of each segment: a ``datetime``, text like ``"2024-03-04
        08:15"``, or microseconds since 1970; for several segments a sequence of them.
    every
        Time from one entry to the next: a ``timedelta``, text like ``"1m"`` or ``"1h"``, or
        microseconds.
    timezone
        With a zone such as ``"Europe/Paris"`` the starts are instants (those without an offset in
        UTC), and hours and days are local time there. Without a zone, times are used unchanged;
        times that a file gives with an offset are converted to UTC.

    Examples
    --------
    >>> day = Calendar("2024-03-04 22:00", every="1h")
    >>> day.hours([4]).tolist(), day.weekdays([4]).tolist()
    ([22, 23, 0, 1], [0, 0, 1, 1])
    """

    starts: tuple[int, ...]
    every: int
    timezone: str | None = None

    def __init__(self, starts: Any, every: Any, timezone: str | None = None) -> None:
        several = isinstance(starts, Sequence) and not isinstance(starts, str)
        zone = None if timezone is None else _zone(timezone)
        listed = tuple(
            _moment(start, zone is not None) for start in (starts if several else [starts])
        )
        if not listed:
            raise ValueError("starts: must have the start of each segment, got none")
        object.__setattr__(self, "starts", listed)
        object.__setattr__(self, "every", _step(every))
        object.__setattr__(self, "timezone", timezone)

    def instants(self, lengths: Iterable[int]) -> Ints:
        """Microseconds since 1970 at every entry, before any time zone, segments in order."""
        sizes = checks.segment_lengths(lengths)
        if len(sizes) != len(self.starts):
            raise ValueError(
                f"calendar: has {len(self.starts)} starts, but the series has {len(sizes)} segments"
            )
        parts = [
            start + self.every * np.arange(size, dtype=np.int64)
            for start, size in zip(self.starts, sizes, strict=True)
        ]
        return np.asarray(np.concatenate(parts))

    def times(self, lengths: Iterable[int]) -> Ints:
        """The local time of every entry, in microseconds since 1970, segments in order."""
        times = self.instants(lengths)
        if self.timezone is None:
            return times
        quarters, place = np.unique(times // QUARTER, return_inverse=True)
        zone = _zone(self.timezone)
        offsets = [_offset(int(quarter) * QUARTER, zone) for quarter in quarters]
        shown: Ints = times + np.array(offsets, dtype=np.int64)[place]
        return shown

    def hours(self, lengths: Iterable[int]) -> Ints:
        """The hour of the day of every entry, 0 to 23."""
        return np.asarray(self.times(lengths) % DAY // HOUR)

    def weekdays(self, lengths: Iterable[int]) -> Ints:
        """The day of the week of every entry, 0 for Monday."""
        return np.asarray((self.times(lengths) // DAY - FIRST_MONDAY) % 7)

    def days(self, lengths: Iterable[int]) -> Ints:
        """The day of every entry, counted from 1970-01-01."""
        return np.asarray(self.times(lengths) // DAY)

    def weeks(self, lengths: Iterable[int]) -> Ints:
        """The week of every entry, counted from the first Monday of 1970."""
        return np.asarray((self.days(lengths) - FIRST_MONDAY) // 7)

    def window(self, lengths: Sequence[int], first: int, last: int) -> Calendar:
        """The calendar of entries ``first`` to ``last``, counted from 1, cut where segments end."""
        starts, place = [], 0
        for start, size in zip(self.starts, lengths, strict=True):
            begin = max(first, place + 1)
            if begin <= min(last, place + size):
                starts.append(start + (begin - place - 1) * self.every)
            place += size
        return Calendar(starts, self.every, self.timezone)

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {"starts": list(self.starts), "every": self.every, "timezone": self.timezone}


def day_name(day: int) -> str:
    """A day counted from 1970-01-01 as a date."""
    return (_EPOCH + timedelta(days=int(day))).date().isoformat()


def week_name(week: int) -> str:
    """A week counted from the first Monday of 1970, named by its Monday."""
    return f"week of {day_name(7 * int(week) + FIRST_MONDAY)}"


def microseconds(moment: datetime) -> int:
    """Microseconds since 1970; a moment without a time zone is read as if in UTC."""
    plain = moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)
    return int((plain - _EPOCH) // timedelta(microseconds=1))


def _moment(start: Any, instant: bool) -> int:
    if isinstance(start, str):
        try:
            start = datetime.fromisoformat(start)
        except ValueError:
            raise ValueError(f"starts: {start!r} is not a time like '2024-03-04 08:15'") from None
    if isinstance(start, datetime):
        if start.tzinfo is not None and not instant:
            raise ValueError(
                f"starts: {start} has an offset from UTC; name the zone of the hours with "
                "timezone=, or give it without an offset"
            )
        return microseconds(start)
    if isinstance(start, (int, np.integer)) and not isinstance(start, bool):
        return int(start)
    raise ValueError(f"starts: must be a datetime or text, got {start!r}")


def _step(every: Any) -> int:
    if isinstance(every, (int, np.integer)) and not isinstance(every, bool):
        return checks.whole("every", int(every), 1)
    return int(ticks("every", every, of_time=True))


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"timezone: {name!r} is not a time zone like 'Europe/Paris'") from None


def _offset(instant: int, zone: ZoneInfo) -> int:
    moment = (_EPOCH + timedelta(microseconds=instant)).replace(tzinfo=UTC).astimezone(zone)
    return int((moment.utcoffset() or timedelta(0)) // timedelta(microseconds=1))
