"""Windows of a stream: entries counted from 1, local times, or instants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pufferkit import checks
from pufferkit.accounting.frontier import Use
from pufferkit.data.calendar import Calendar, microseconds
from pufferkit.data.series import Series
from pufferkit.mechanisms.influence_curve import HORIZON

Moment = date | datetime | str
Window = tuple[int, int] | tuple[Moment, Moment] | Moment
"""First and last entry, counted from 1; or start and excluded end in time; or a day."""


def located(window: Window) -> tuple[str, int, int, list[Any]]:
    """Axis, beginning and end of a window, and its text in messages."""
    if isinstance(window, (str, date)):
        begin, shown = _moment(window), [str(window)]
        if begin.time() != datetime.min.time() or isinstance(window, datetime):
            raise ValueError(f"window: {window} is a single moment; give a day, or both ends")
        return "time", microseconds(begin), microseconds(begin + timedelta(days=1)), shown
    if not isinstance(window, Sequence) or len(window) != 2:
        raise ValueError(f"window: must be a beginning and an end, or a day, got {window!r:.60}")
    if all(isinstance(end, (str, date)) for end in window):
        first, after = _moment(window[0]), _moment(window[1])
        if (first.tzinfo is None) != (after.tzinfo is None):
            raise ValueError(
                "window: one end has a time zone and the other has none; make them agree"
            )
        if not first < after:
            raise ValueError(f"window: {window[0]} is not before {window[1]}")
        axis = "time" if first.tzinfo is None else "instants"
        return axis, microseconds(first), microseconds(after), [str(end) for end in window]
    first_entry, last = (checks.whole("window", n, 1) for n in window)
    if not first_entry <= last <= HORIZON:
        raise ValueError(
            f"window: needs 1 <= first <= last <= {HORIZON:.0e}, got {first_entry} to {last}"
        )
    return "entries", first_entry, last + 1, [first_entry, last]


def moments(window: Window) -> tuple[datetime, datetime] | None:
    """Start and end in time of a window; ``None`` for a window of entries."""
    if located(window)[0] == "entries":
        return None
    if isinstance(window, (str, date)):
        begin = _moment(window)
        return begin, begin + timedelta(days=1)
    return _moment(window[0]), _moment(window[1])


def _moment(end: Any) -> datetime:
    if isinstance(end, str):
        try:
            return datetime.fromisoformat(end)
        except ValueError:
            raise ValueError(
                f"window: {end!r} is not a date or time like 2026-11-16 or 2026-11-16 08:00"
            ) from None
    return end if isinstance(end, datetime) else datetime(end.year, end.month, end.day)


def places_of(data: Series, axis: str) -> NDArray[np.int64] | None:
    """The places of a series' entries on an axis of time; ``None`` if not known."""
    if data.calendar is None:
        return None
    of = data.calendar.times if axis == "time" else data.calendar.instants
    return of(data.lengths)


def check_inside(data: Series, window: Window, use: Use) -> None:
    """Raise if the data have entries outside the window: only the window is paid for."""
    if use.axis == "entries":
        if len(data) != use.end - use.begin:
            raise ValueError(
                f"data: has {len(data)} entries, but the window {window!r} has "
                f"{use.end - use.begin}; give None for entries that were not observed"
            )
        return
    when = places_of(data, use.axis)
    if when is None and data.between is not None and data.between[0] == use.axis:
        when = np.array(data.between[1:])
    if when is None:
        raise ValueError(
            "data: the times of the entries are not known, so it cannot be checked that all are "
            f"in the window {window!r}, which pays for no others. Read them with their times "
            '(read_series(..., time=)), give every="1m" if they are a list of the whole window, or '
            "count entries: window=(first, last)"
        )
    outside = int(((when < use.begin) | (when >= use.end)).sum())
    if outside:
        raise ValueError(
            f"data: {outside:,} of {len(data):,} entries are not in the window {window!r}, which "
            "pays for no others; remove them with Stream.part(data, window)"
        )


def on_clock(data: Series, use: Use, every: Any) -> Series:
    """A list of entries with the times of its window."""
    if use.axis == "entries":
        raise ValueError("every: applies to windows of time; this window counts entries")
    if data.calendar is not None or data.between is not None:
        raise ValueError("every: the data already have times; leave it out")
    if len(data.lengths) > 1:
        raise ValueError("every: applies to one list of consecutive entries, not to segments")
    return replace(data, calendar=Calendar(use.begin, every))
