"""Times in raw files: text in several formats, clock changes, and rows without times.

A time becomes a number: microseconds as if in UTC for times without a zone; the instant for times
with a zone, or whose zone was given. With a time zone, the local time is kept as well, and windows
are cut by it: at local midnight.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from pufferkit.data.count import STATE, SUBJECT, TIME, WALL
from pufferkit.data.durations import MONDAY, duration, ticks
from pufferkit.data.files import Opened

if TYPE_CHECKING:
    import polars as pl

Policy = Literal["refuse", "keep first", "shift"]

_MICRO = timedelta(microseconds=1)
_HALF_HOUR, _HOUR = timedelta(minutes=30) // _MICRO, timedelta(hours=1) // _MICRO
_MOMENT = re.compile(
    r"(\d{1,4})([-/.])(\d{1,2})\2(\d{1,4})"
    r"(?:([ T]+)(\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?)\s*([AaPp][Mm])?(Z|[+-]\d{2}(?::?\d{2})?)?)?"
)
_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2})(?::?(\d{2}))?")


@dataclass(frozen=True)
class FileClock:
    """The clock of the times, and where days are cut.

    Attributes
    ----------
    timezone
        Name such as ``Europe/Paris``: windows are cut at midnight there. Times without a zone are
        local times there, unless ``times_in`` is given.
    times_in
        Zone of times without one: a name, ``UTC``, or a fixed offset such as ``+01:00`` for a clock
        without daylight saving.
    repeated_hour
        How to treat the hour that occurs twice when clocks go back. ``"shift"``: in the order of
        the rows, the second occurrence is an hour later. ``"keep first"``: the same, but entries of
        the second hour count as not observed. ``"refuse"``: raise an error.
    every, start
        For rows without times: the time between rows, and the time of each subject's first row.
    """

    timezone: str | None = None
    times_in: str | None = None
    repeated_hour: Policy = "refuse"
    every: Any = None
    start: str | None = None

    def __post_init__(self) -> None:
        if self.timezone is not None:
            _zone("timezone", self.timezone)
        if self.times_in is not None:
            if self.timezone is None:
                raise ValueError(
                    "times_in: gives the clock of the times; also give timezone=, where days are "
                    "cut, for example UTC"
                )
            if _fixed(self.times_in) is None:
                _zone("times_in", self.times_in)
        policy = str(self.repeated_hour).replace("-", " ")
        if policy not in get_args(Policy):
            known = ", ".join(get_args(Policy))
            raise ValueError(f"repeated_hour: must be one of {known}, got {self.repeated_hour!r}")
        object.__setattr__(self, "repeated_hour", policy)

    @property
    def is_plain(self) -> bool:
        """Whether times are taken unchanged."""
        return self.timezone is None and self.repeated_hour == "refuse"


def _zone(name: str, zone: str) -> ZoneInfo:
    try:
        return ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(
            f"{name}: {zone!r} is not a time zone; write it like Europe/Paris or UTC"
        ) from None


def _fixed(zone: str) -> int | None:
    """A fixed offset from UTC in microseconds; ``None`` if it is not one."""
    if zone in ("UTC", "GMT", "Z"):
        return 0
    match = _OFFSET.fullmatch(zone)
    if match is None:
        return None
    minutes = int(match[2]) * 60 + int(match[3] or 0)
    return (1 if match[1] == "+" else -1) * minutes * 60_000_000


# -- numbers as times -------------------------------------------------------------------------

_EPOCHS = {"seconds": 10**6, "milliseconds": 10**3, "microseconds": 1, "nanoseconds": 1e-3}
_FROM, _UNTIL = 946_684_800 * 10**6, 4_102_444_800 * 10**6  # the years 2000 to 2099


def epoch(least: Any, most: Any) -> tuple[str, int | float] | None:
    """The unit of numbers that count from 1970, and its microseconds; ``None`` for other numbers.

    Numbers are such a clock if they all are moments of the years 2000 to 2099 in one unit: what is
    a moment in seconds is none in milliseconds.

    >>> epoch(1_700_000_000, 1_700_086_400), epoch(0, 288)
    (('seconds', 1000000), None)
    """
    if least is None or most is None:
        return None
    for name, unit in _EPOCHS.items():
        if float(least) * unit >= _FROM and float(most) * unit < _UNTIL:
            return name, unit
    return None


def since_1970(time: Any, kind: Any, unit: int | float) -> Any:
    """A column of such numbers in microseconds."""
    import narwhals as nw  # noqa: PLC0415

    if kind.is_float():
        return (time * unit).round().cast(nw.Int64)
    time = time.cast(nw.Int64)
    return time * unit if isinstance(unit, int) else time // round(1 / unit)


# -- text as times -----------------------------------------------------------------------------


def parsed(table: Opened, time: str, first: str | None) -> tuple[pl.Expr, tuple[str, ...]]:
    """A column of text as times, all in the format of the first, and what was detected.

    Times may differ in their precision, and numbers may be whole or not. The first cell that
    cannot be read is refused with its row; empty ones are refused later.
    """
    import polars as pl  # noqa: PLC0415

    column, text = pl.col(time).str.strip_chars(), (first or "").strip()
    notes: tuple[str, ...] = ()
    if pl.Series([text]).cast(pl.Float64, strict=False).item() is not None:
        ways = [column.cast(kind, strict=False) for kind in (pl.Int64, pl.Float64)]
    else:
        ways, notes = _moments(table, time, text)
    lost = [way.is_null() & column.is_not_null() & (column != "") for way in ways]
    for way, unread in zip(ways, lost, strict=True):
        if not table.lazy.select(unread.any()).collect().item():
            return way, notes
    bad = table.lazy.with_row_index("_row", 1).filter(lost[-1]).select("_row", time).head(1)
    row, cell = bad.collect().row(0)
    if row == 1:
        raise _no_time(table.name, text)
    raise ValueError(
        f"{table.name}: row {row} has time {cell!r}, unlike row 1, {text!r}; write all times in "
        "the same way"
    )


def _no_time(name: str, text: str) -> ValueError:
    return ValueError(
        f"{name}: row 1 has time {text!r}; write times as numbers, like 2024-03-04T08:15 or like "
        "04/03/2024 08:15, all in the same way"
    )


def _moments(table: Opened, time: str, text: str) -> tuple[list[pl.Expr], tuple[str, ...]]:
    """A column of dates, with or without a time of day, AM and PM, or a zone; notes on them.

    The formats are that of the first cell, those that differ in their precision alone, and all.
    """
    import polars as pl  # noqa: PLC0415

    match, notes = _MOMENT.fullmatch(text), list[str]()
    if match is None:
        raise _no_time(table.name, text)
    year, sign, _, last, gap, clock, half, zone = match.groups()
    if len(year) == 4:
        order = ["%Y", "%m", "%d"]
    elif len(last) != 4:
        raise ValueError(f"{table.name}: row 1 has time {text!r}; write years in four digits")
    else:
        dates = table.form.dates
        if dates is None:
            dates = _day_or_month_first(table, time, text)
            notes.append(dates)
        order = ["%d", "%m", "%Y"] if dates == "day first" else ["%m", "%d", "%Y"]
    column, pattern = pl.col(time).str.strip_chars(), sign.join(order)
    if not clock:
        return [column.str.to_date(pattern, strict=False).cast(pl.Datetime("us"))], tuple(notes)
    if half or not re.match(r"\d{4}-\d\d-\d\d[ T]\d\d:", text):
        gap, column = " ", column.str.replace(r"[ T]+", " ")
    if half:
        column = column.str.replace(r"\s*([AaPp][Mm])$", " $1").str.to_uppercase()
    hour, end = ("%I", " %p") if half else ("%H", "Z" if zone == "Z" else "%#z" if zone else "")
    own = ":%M" + (":%S" if clock.count(":") > 1 else "") + ("%.f" if "." in clock else "")
    every = [own, *(form for form in (":%M:%S%.f", ":%M:%S", ":%M") if form != own)]
    forms = [f"{pattern}{gap}{hour}{form}{end}" for form in every]
    ways = [column.str.to_datetime(form, time_unit="us", strict=False) for form in forms]
    ways.append(pl.coalesce(ways))
    return [way.dt.replace_time_zone("UTC") if zone == "Z" else way for way in ways], tuple(notes)


def _day_or_month_first(table: Opened, time: str, text: str) -> Any:
    """Which of the first two numbers is the day: the one that exceeds 12."""
    import polars as pl  # noqa: PLC0415

    numbers = pl.col(time).str.strip_chars().str.extract_groups(r"^(\d{1,2})\D(\d{1,2})\D")
    most = table.lazy.select(
        numbers.struct.field("1").cast(pl.Int64).max().alias("1"),
        numbers.struct.field("2").cast(pl.Int64).max().alias("2"),
    ).collect()
    first, second = (int(most[name].item() or 0) for name in ("1", "2"))
    if first > 12 >= second:
        return "day first"
    if second > 12 >= first:
        return "month first"
    raise ValueError(
        f"{table.name}: dates such as {text!r} can have the day or the month first; "
        "specify which (dates='day first' or --dates day-first)"
    )


# -- clocks that change, and rows without one ---------------------------------------------------


def by_rows(frame: pl.DataFrame, clock: FileClock) -> tuple[pl.DataFrame, bool, tuple[str, ...]]:
    """Times for rows without times: evenly spaced in their order, subject by subject.

    Also returns whether they are timestamps, and what was assumed.
    """
    import polars as pl  # noqa: PLC0415

    of_time = not (clock.every is None or isinstance(clock.every, (int, float)))
    step = ticks("every", 1 if clock.every is None else clock.every, of_time)
    start: int | float = 0
    if clock.start is not None:
        if not of_time:
            raise ValueError("start: needs a step of time, such as every='1m'")
        try:
            begin = datetime.fromisoformat(clock.start)
        except ValueError:
            raise ValueError(
                f"start: must be a moment like 2024-03-04T00:00, got {clock.start!r}"
            ) from None
        start = (begin.replace(tzinfo=None) - datetime(1970, 1, 1)) // _MICRO
    elif of_time:
        start = MONDAY
    number = pl.int_range(pl.len(), dtype=pl.Int64).over(SUBJECT)
    timed = frame.with_columns((number * step + start).alias(TIME))
    if clock.every is None:
        return timed, False, ()
    shown = duration(step) if of_time else f"{step:g}"
    note = f"no column of times: rows assumed to be {shown} apart, in the order of the file"
    return timed, of_time, (note,)


def applied(
    name: str, frame: pl.DataFrame, clock: FileClock
) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """Local times as instants by the given clock, with the local times as the column `WALL`.

    ``frame`` has subject, time in microseconds and state.
    """
    import polars as pl  # noqa: PLC0415

    if clock.is_plain:
        return frame, ()
    if clock.timezone is None:
        return _unrolled(name, frame, clock.repeated_hour)
    notes: list[str] = []
    again = pl.Series([False]).new_from_index(0, frame.height)
    fixed = None if clock.times_in is None else _fixed(clock.times_in)
    place = clock.times_in or clock.timezone
    if fixed is not None:
        instant = frame[TIME] - fixed
        notes.append(f"times in {clock.times_in}")
    else:
        instant, again = _instants(name, frame, place, clock.repeated_hour)
        notes.append(f"times are local times in {place}")
    timed = frame.with_columns(instant.alias(TIME))
    timed = timed.with_columns(wall(pl.col(TIME), clock.timezone).alias(WALL))
    notes.append(f"days cut at midnight in {clock.timezone}")
    return _without(timed, again, clock.repeated_hour, notes), tuple(notes)


def zone_of(kind: Any) -> str | None:
    """The zone of a column of instants; ``None`` for times without one, and for other columns."""
    zone = getattr(kind, "time_zone", None)
    return None if zone is None else str(zone)


def has_days(zone: str | None) -> bool:
    """Whether this is the zone of a place, which has days of its own; not UTC or an offset."""
    return zone is not None and _fixed(zone) is None and not zone.startswith(("Etc/", "UCT"))


def wall(instants: pl.Expr, timezone: str) -> pl.Expr:
    """Instants as local times, both in microseconds."""
    import polars as pl  # noqa: PLC0415

    moment = instants.cast(pl.Datetime("us", "UTC")).dt.convert_time_zone(timezone)
    return moment.dt.replace_time_zone(None).dt.timestamp("us")


def _without(frame: pl.DataFrame, again: pl.Series, policy: Policy, notes: list[str]) -> Any:
    """The frame; for ``keep first`` without the states of the second hour."""
    import polars as pl  # noqa: PLC0415

    twice = int(again.sum())
    if twice and policy == "keep first":
        notes.append(f"{twice} rows in a repeated hour not used")
        return frame.with_columns(pl.when(~again).then(pl.col(STATE)).alias(STATE))
    if twice:
        notes.append(f"{twice} rows in a repeated hour moved to the hour after")
    return frame


def _instants(
    name: str, frame: pl.DataFrame, place: str, policy: Policy
) -> tuple[pl.Series, pl.Series]:
    """Instants of local times, and which rows are in the second of two repeated hours."""
    import polars as pl  # noqa: PLC0415

    wall = frame[TIME].cast(pl.Datetime("us"))
    early, late = (
        wall.dt.replace_time_zone(place, ambiguous=which, non_existent="null")
        for which in ("earliest", "latest")
    )
    never = early.is_null() & wall.is_not_null()
    if never.any():
        row = int(never.arg_true()[0])
        raise ValueError(
            f"{name}: row {row + 1} has time {wall[row]}, which does not exist in {place}; if the "
            "clock has no daylight saving, give its zone (times_in='+01:00' or "
            "--times-in +01:00)"
        )
    both = (early != late).fill_null(False)
    rows = frame.select(SUBJECT).with_columns(
        wall.alias("_wall"), both.alias("_both"), wall.dt.date().alias("_day")
    )
    keys = [SUBJECT, "_day"]
    back = (pl.col("_wall") <= pl.col("_wall").shift(1)).fill_null(False).cast(pl.Int64)
    hour = rows.with_row_index("_row").filter("_both")
    hour = hour.with_columns(back.cum_sum().over(keys).alias("_pass"))
    if hour.height and policy == "refuse":
        listed = hour["_wall"].min()
        raise ValueError(
            f"{name}: {hour.height} rows are in an hour that occurs twice in {place}, first "
            f"at {listed!s}; choose how to treat it: repeated_hour='shift' or 'keep "
            "first' (--repeated-hour shift or keep-first), or give the zone of the times if it "
            "differs (times_in=)"
        )
    if hour.height and int(hour["_pass"].max()) > 1:  # type: ignore[arg-type]
        worst = hour.filter(pl.col("_pass") > 1).row(0, named=True)
        raise ValueError(
            f"{name}: row {worst['_row'] + 1} shows {worst['_wall']} for a third time; one subject "
            "has one state at a time"
        )
    again = np.zeros(frame.height, dtype=bool)
    again[hour.filter(pl.col("_pass") == 1)["_row"].to_numpy()] = True
    second = pl.Series(again)
    instants = pl.select(pl.when(second).then(late).otherwise(early)).to_series()
    return instants.dt.timestamp("us"), second


def _unrolled(
    name: str, frame: pl.DataFrame, policy: Policy
) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """Times without a zone when clocks go back: later rows an hour later, until they go forward.

    Put back: a row that is half an hour or an hour less than one step behind the row before it.
    Put forward: the next row that is further away than that from the row before it.
    """
    import polars as pl  # noqa: PLC0415

    times = frame[TIME].cast(pl.Int64).to_numpy().copy()
    again = np.zeros(len(times), dtype=bool)
    order = frame.with_row_index("_row").group_by(SUBJECT, maintain_order=True).agg("_row")
    for rows in order["_row"].to_list():
        own = np.asarray(rows, dtype=np.int64)
        moved, twice = _one_unrolled(name, times[own], own)
        times[own] = moved
        again[own] = twice
    notes: list[str] = []
    timed = frame.with_columns(pl.Series(TIME, times))
    return _without(timed, pl.Series(again), policy, notes), tuple(notes)


def _one_unrolled(name: str, times: Any, rows: Any) -> tuple[Any, Any]:
    steps = np.diff(times)
    ahead = steps[steps > 0]
    moved, twice = times.copy(), np.zeros(len(times), dtype=bool)
    if not ahead.size:
        return moved, twice
    usual = int(np.median(ahead))
    offset = 0
    for at in np.flatnonzero((steps <= 0) | (steps > usual + _HALF_HOUR - 1)).tolist():
        if steps[at] <= 0:
            back = usual - int(steps[at])
            if back not in (_HALF_HOUR, _HOUR) or offset:
                raise ValueError(
                    f"{name}: row {int(rows[at + 1]) + 1} is earlier than the previous row of its "
                    "subject, and not because clocks went back an hour; repeated_hour= needs rows "
                    "in time order"
                )
            offset = back
            twice |= (np.arange(len(times)) > at) & (times <= times[at])
            moved[at + 1 :] += offset
        elif offset and steps[at] >= usual + offset:
            moved[at + 1 :] -= offset
            offset = 0
    return moved, twice


def time_columns(time: Any) -> tuple[str, ...]:
    """The columns of the times: one name, or one for dates and one for times of day."""
    if time is None:
        return ()
    names = tuple(time) if isinstance(time, (list, tuple)) else (time,)
    for name in names:
        if not isinstance(name, str):
            raise ValueError(f"time: must be the name of a column, got {name!r}; rename it")
    if not 1 <= len(names) <= 2:
        raise ValueError(f"time: one column, or one of dates and one of times, got {list(names)}")
    return names
