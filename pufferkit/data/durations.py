"""Times between entries: as text like ``5m``, in microseconds, and in words."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

from pufferkit import checks

_UNITS = {"us": 1, "ms": 10**3, "s": 10**6, "m": 60 * 10**6, "h": 3600 * 10**6}
_UNITS |= {"d": 24 * _UNITS["h"], "w": 7 * 24 * _UNITS["h"]}
SECOND, DAY = _UNITS["s"], _UNITS["d"]
MONDAY = 4 * _UNITS["d"]
"""1970-01-05 in microseconds: weeks begin on Mondays."""


def duration(microseconds: float) -> str:
    """A duration in the largest unit that is not longer; `ticks` reads whole ones back.

    >>> duration(60_000_000), duration(5_400_000_000)
    ('1m', '1.5h')
    """
    unit = max(
        (u for u in _UNITS if _UNITS[u] <= microseconds), key=_UNITS.__getitem__, default="us"
    )
    return f"{microseconds / _UNITS[unit]:.3g}{unit}"


def in_words(time: int | float, of_time: bool) -> str:
    """A time between rows in words."""
    return duration(time) if of_time else f"{time:g}"


def ticks(name: str, duration: Any, of_time: bool) -> int | float:
    """A duration in the units of the time column: microseconds, or the unit of its numbers.

    >>> ticks("every", "10m", of_time=True)
    600000000
    """
    if isinstance(duration, timedelta):
        number_of_ticks: int | float = duration // timedelta(microseconds=1)
        duration_of_time = True
    elif isinstance(duration, str):
        match = re.fullmatch(r"\s*([0-9]+)\s*(us|ms|s|m|h|d|w)\s*", duration)
        if match is None:
            raise ValueError(f"{name}: {duration!r} is not a duration such as 30s, 5m, 1h or 7d")
        number_of_ticks, duration_of_time = int(match[1]) * _UNITS[match[2]], True
    else:
        number = checks.positive(name, duration)
        number_of_ticks, duration_of_time = (int(number) if number.is_integer() else number), False
    if number_of_ticks <= 0:
        raise ValueError(f"{name}: must be above 0, got {duration!r}")
    if duration_of_time != of_time:
        remedy = "give it as text like 5m or a timedelta" if of_time else "give it as a number"
        kind = "timestamps" if of_time else "numbers"
        raise ValueError(f"{name}: the times are {kind}; {remedy}, not {duration!r}")
    return number_of_ticks


def seconds(name: str, step: Any) -> float | None:
    """A time between entries in seconds, given as such or as text like ``5m``; ``None`` as it is.

    >>> seconds("step", "5m"), seconds("step", 0.5)
    (300.0, 0.5)
    """
    if step is None:
        return None
    if isinstance(step, (str, timedelta)):
        return ticks(name, step, of_time=True) / SECOND
    return checks.positive(name, step)


def of_seconds(step: float | None) -> str:
    """A time between entries in words."""
    return "an unknown time" if step is None else duration(step * SECOND)


def number_or_text(typed: str) -> float | str:
    """A duration as typed: text like 5m, or a number for tables whose times are numbers."""
    try:
        return float(typed)
    except ValueError:
        return typed
