"""One series from a file.

A table becomes a `Series` here or is refused here: behind this point nobody meets a timestamp or a
column name. Rows count from 1, the header not included.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from datetime import time as time_of_day
from itertools import accumulate, groupby, pairwise
from math import isfinite, isnan
from pathlib import Path
from typing import Any

from pufferkit.data.clock import even_step
from pufferkit.data.series import Series
from pufferkit.data.table import in_words, ticks
from pufferkit.frames.harmless import csv_bytes
from pufferkit.rounding import as_fraction

_SUFFIXES = (".csv", ".parquet")
_PARQUET_MAGIC = b"PAR1"
_REGULAR = 0.9  # share of equal steps from which times are those of a clock
_LONG = 1.5  # steps that are this much longer than the others are gaps

MOST_ENTRIES = 20_000_000
"""Entries that a series may hold, those that were not observed included."""


def read_series(
    path: str | Path,
    state: str,
    *,
    time: str | None = None,
    segment: str | None = None,
    states: Iterable[Hashable] | None = None,
    independent_after: Any = None,
) -> Series:
    """One subject's series from a CSV or Parquet file, rows in time order.

    A gap does not erase memory. A row without a state is an entry that was not observed. If the
    times are those of a clock (see `read_table`), a gap of g steps is g - 1 such entries. Where no
    clock is known, rows are the entries.

    Parameters
    ----------
    path
        A ``.csv`` file (UTF-8, commas, one header line) or a ``.parquet`` file.
    state
        Column with the state of each entry.
    time
        Column with the time of each entry: numbers, dates or ISO timestamps. It must increase
        strictly within a segment, and a warning tells where an almost even clock has gaps that it
        does not count. If left out, the order of the rows is trusted.
    segment
        Column that says to which independent segment an entry belongs; its rows stand together.
    states
        All states that can occur. Text in the file then stands for the declared state that prints
        like it, so ``1`` in a CSV is the integer state 1. If left out, the states are those that
        occur: integers if all are whole numbers, otherwise as they stand.
    independent_after
        Declare that rows further apart than this are independent: they start a new segment. A
        number, or for timestamps text like ``"3h"`` or a ``timedelta``. Needs ``time``. It is an
        assumption about the world, and every release names it.

    Raises
    ------
    ValueError
        If the file, a column or a row is not as described; the message names the row.
    OSError
        If the file cannot be opened.
    """
    if hasattr(path, "columns"):
        raise ValueError(
            "path: is a table, not a file; give its column of states to Series.of, or straight to "
            "release, one column for each segment"
        )
    file = Path(path)
    wanted = {"state": state, "time": time, "segment": segment}
    columns = _columns(file, {role: name for role, name in wanted.items() if name is not None})
    cells = columns["state"]
    lengths = _segment_lengths(file, columns.get("segment"), len(cells))
    times, declared_after = None, None
    if "time" in columns:
        times = _increasing(file, columns["time"], lengths)
    if independent_after is not None:
        lengths, declared_after = _declared(file, times, lengths, independent_after)
    places = None if times is None else _places(file, times, lengths)
    declared = None if states is None else tuple(states)
    labels = _observed_labels(cells, declared)
    pieces, start = [], 0
    for length in lengths:
        piece = labels[start : start + length]
        if places is not None:
            filled: list[Hashable | None] = [None] * (places[start + length - 1] + 1)
            for place, label in zip(places[start : start + length], piece, strict=True):
                filled[place] = label
            piece = filled
        pieces.append(piece)
        start += length
    try:
        return replace(Series.of(pieces, declared), independent_after=declared_after)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None


def read_record(
    path: str | Path,
    entry: str,
    state: str,
    names: Sequence[Hashable],
    states: Iterable[Hashable] | None = None,
) -> Series:
    """One value for each named entry, from a file with a row for each, in the order of ``names``.

    Parameters
    ----------
    path
        A ``.csv`` or ``.parquet`` file.
    entry, state
        Columns with the name of the entry and its value.
    names
        The entries there must be, each once.
    states
        All values that can occur.
    """
    file = Path(path)
    columns = _columns(file, {"entry": entry, "state": state})
    for row, cell in enumerate(columns["state"], 1):
        if _missing(cell):
            raise ValueError(f"{file}: row {row} has no state; the model needs one for each entry")
    found: dict[str, Any] = {}
    for row, (name, cell) in enumerate(zip(columns["entry"], columns["state"], strict=True), 1):
        if str(name) in found:
            raise ValueError(f"{file}: row {row}: entry {name!r} is there twice")
        found[str(name)] = cell
    missing = [str(name) for name in names if str(name) not in found]
    extra = sorted(set(found) - {str(name) for name in names})
    if missing or extra:
        raise ValueError(
            f"{file}: needs one row for each entry of the model; missing {missing}, unknown {extra}"
        )
    known = None if states is None else tuple(states)
    return Series.of(state_labels([found[str(name)] for name in names], known), known)


def states_from_text(names: Iterable[str]) -> list[Hashable]:
    """Names of states as labels: integers if all are whole numbers, like those in a file."""
    return state_labels([name.strip() for name in names], None)


def _columns(file: Path, wanted: dict[str, str]) -> dict[str, list[Any]]:
    """The wanted columns as lists, by their role."""
    suffix = right_kind(file)
    import narwhals as nw  # noqa: PLC0415
    import polars as pl  # noqa: PLC0415

    try:
        if suffix == ".csv":
            # Text as it stands: what a cell means is decided here, not guessed by the reader.
            table = nw.read_csv(str(file), backend="polars", infer_schema=False, glob=False)
        else:
            table = nw.read_parquet(str(file), backend="polars", glob=False)
    except pl.exceptions.NoDataError:
        raise ValueError(f"{file}: is empty") from None
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(f"{file}: is not a readable {suffix} file ({reason})") from None
    for role, name in wanted.items():
        if name not in table.columns:
            there = ", ".join(repr(column) for column in table.columns)
            raise ValueError(f"{file}: has no column {name!r} for {role}; it has {there}")
        if table.schema[name].is_nested():
            raise ValueError(f"{file}: column {name!r} holds lists or records, not one {role}")
    if len(table) == 0:
        raise ValueError(f"{file}: has a header but no rows")
    return {role: table.get_column(name).to_list() for role, name in wanted.items()}


def right_kind(file: Path) -> str:
    """The suffix of a file that can be read and is what its name says; otherwise an error."""
    if file.is_dir():
        raise ValueError(f"{file}: is a directory; give one {' or '.join(_SUFFIXES)} file")
    suffix = file.suffix.lower()
    if suffix not in _SUFFIXES:
        raise ValueError(f"{file}: cannot read {suffix or 'such'} files; give .csv or .parquet")
    with file.open("rb") as stream:
        head = stream.read(4096)
    if not head:
        raise ValueError(f"{file}: is empty")
    is_parquet = head.startswith(_PARQUET_MAGIC)
    if suffix == ".csv" and is_parquet:
        raise ValueError(f"{file}: is a Parquet file; rename it to {file.stem}.parquet")
    if suffix == ".csv" and b"\0" in head:
        raise ValueError(f"{file}: is not a CSV file in UTF-8; export it as plain text")
    if suffix == ".parquet" and not is_parquet:
        raise ValueError(f"{file}: is not a Parquet file; if it is CSV, rename it")
    return suffix


def _missing(cell: Any) -> bool:
    return cell is None or cell == "" or (isinstance(cell, float) and isnan(cell))


def _observed_labels(
    cells: Sequence[Any], declared: tuple[Hashable, ...] | None
) -> list[Hashable | None]:
    """Cells as state labels; ``None`` for those that hold nothing."""
    present = iter(state_labels([cell for cell in cells if not _missing(cell)], declared))
    return [None if _missing(cell) else next(present) for cell in cells]


def _segment_lengths(file: Path, segments: Sequence[Any] | None, rows: int) -> list[int]:
    if segments is None:
        return [rows]
    seen: set[Hashable] = set()
    lengths: list[int] = []
    row = 1
    for value, run in groupby(segments):
        if _missing(value):
            raise ValueError(f"{file}: row {row} has no segment; every entry belongs to one")
        if value in seen:
            raise ValueError(
                f"{file}: row {row} returns to segment {value!r} after another one; "
                "sort the rows by segment, then by time"
            )
        seen.add(value)
        lengths.append(sum(1 for _ in run))
        row += lengths[-1]
    return lengths


def _increasing(file: Path, cells: Sequence[Any], lengths: Sequence[int]) -> list[Any]:
    for row, cell in enumerate(cells, 1):
        if _missing(cell):
            raise ValueError(f"{file}: row {row} has no time; every entry needs one")
    times = _times(file, cells)
    row = 0
    for length in lengths:
        for number, (before, after) in enumerate(pairwise(times[row : row + length]), row + 2):
            if before == after:
                raise ValueError(
                    f"{file}: row {number} has the same time as the row before it, "
                    f"{cells[number - 1]}; one subject has one state at a time"
                )
            if before > after:
                raise ValueError(
                    f"{file}: row {number} is earlier than the row before it, "
                    f"{cells[number - 1]} after {cells[number - 2]}; sort the rows by time"
                )
        row += length
    return times


def _numbers(times: Sequence[Any]) -> list[Any] | None:
    """Times as exact numbers, timestamps in microseconds; ``None`` if they have no differences."""
    if isinstance(times[0], time_of_day):
        return None
    if isinstance(times[0], date):  # datetime too
        return [(time - times[0]) // timedelta(microseconds=1) for time in times]
    return [time if isinstance(time, int) else as_fraction("time", time) for time in times]


def _declared(
    file: Path, times: Sequence[Any] | None, lengths: Sequence[int], after: Any
) -> tuple[list[int], str | None]:
    """Lengths of the pieces between rows that are declared independent, and the limit in words."""
    numbers = None if times is None else _numbers(times)
    if times is None or numbers is None:
        raise ValueError(
            f"{file}: independent_after: needs a column with times that can be subtracted"
        )
    of_time = isinstance(times[0], date)
    limit = ticks("independent_after", after, of_time)
    exact = limit if isinstance(limit, int) else as_fraction("independent_after", limit)
    found, row = [], 0
    for length in lengths:
        found.append(1)
        for before, now in pairwise(numbers[row : row + length]):
            if now - before > exact:
                found.append(0)
            found[-1] += 1
        row += length
    return found, in_words(limit, of_time) if len(found) > len(lengths) else None


def _places(file: Path, times: Sequence[Any], lengths: Sequence[int]) -> list[int] | None:
    """The place of every row in its segment by the clock; ``None`` if there is none."""
    numbers = _numbers(times)
    if numbers is None:
        return None
    bounds = [0, *accumulate(lengths)]
    steps: Counter[Any] = Counter()
    for start, end in pairwise(bounds):
        steps.update(after - before for before, after in pairwise(numbers[start:end]))
    step = even_step(steps)
    if step is None:
        _tell_gaps(file, times, lengths)
        return None
    found = []
    for start, end in pairwise(bounds):
        found += [int((now - numbers[start]) // step) for now in numbers[start:end]]
    entries = sum(found[end - 1] + 1 for end in bounds[1:])
    if entries > MOST_ENTRIES:
        raise ValueError(
            f"{file}: {len(times):,} rows span {entries:,} entries of the clock, more than the "
            f"{MOST_ENTRIES:,} that a series may hold; declare far rows independent with "
            "independent_after, or use read_table, which does not list what is missing"
        )
    return found


def _tell_gaps(file: Path, times: Sequence[Any], lengths: Sequence[int]) -> None:
    """Warn where a clock that ticks almost evenly stops for a while within a segment."""
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
            f"{file}: times go in steps of about {usual}, but not before row {gaps[0]}"
            + (f" and {len(gaps) - 1} more" if len(gaps) > 1 else "")
            + "; they are not exactly those of a clock, so the rows on both sides count as "
            "neighbours, which they are not: put the entries on a grid with read_table(every=), "
            "or add rows without a state for what is missing",
            stacklevel=4,
        )


def _times(file: Path, cells: Sequence[Any]) -> list[Any]:
    """Times that compare as moments do; text is read as numbers or as ISO timestamps."""
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
    """A time without a zone as it is; one with a zone in UTC, where no hour comes twice."""
    if zoned is not None and zoned != (time.tzinfo is not None):
        raise ValueError("times with and without a zone")
    return time if time.tzinfo is None else time.astimezone(UTC)


def _is_zoned(text: str) -> bool | None:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return None


def state_labels(cells: Sequence[Any], states: tuple[Hashable, ...] | None) -> list[Hashable]:
    """Cells as state labels, by the types of the declared states."""
    wholes = {cell: _whole(cell) for cell in set(cells)}
    if states is None:
        return list(cells) if None in wholes.values() else [wholes[cell] for cell in cells]
    exact, printed = set(states), {str(label): label for label in states}
    integers = {label for label in states if isinstance(label, int)}

    def meaning(cell: Hashable) -> Hashable:
        if cell in exact:
            return cell
        return wholes[cell] if wholes[cell] in integers else printed.get(str(cell), cell)

    meanings = {cell: meaning(cell) for cell in wholes}
    return [meanings[cell] for cell in cells]


def _whole(cell: Any) -> int | None:
    """The whole number that a cell holds or plainly spells; ``None`` if there is none."""
    if isinstance(cell, str):
        spelled = cell.removesuffix(".0")
        return int(spelled) if re.fullmatch(r"0|-?[1-9][0-9]{0,17}", spelled) else None
    if isinstance(cell, float):
        return int(cell) if cell.is_integer() else None
    return cell if isinstance(cell, int) and not isinstance(cell, bool) else None


def check_table(path: str | Path) -> None:
    """An error if no table can be written under this name. Writes nothing."""
    if Path(path).suffix.lower() not in _SUFFIXES:
        raise ValueError(f"{path}: tables are written to {' or '.join(_SUFFIXES)} files")


def answer_table(
    source: str | Path,
    target: str | Path,
    state: str,
    kept: Sequence[str],
    answers: Sequence[Hashable],
) -> bytes:
    """The content of a table like ``source``: the kept columns, and answers in place of states.

    Parameters
    ----------
    source
        The file that the true series was read from. Columns that are not kept stay out.
    target
        Name of the new file; its suffix decides the format.
    state
        Column of the states, and of the answers.
    kept
        Columns to copy as they are.
    answers
        One for each row that has a state, in order; the others stay without one.
    """
    import io  # noqa: PLC0415

    import polars as pl  # noqa: PLC0415

    check_table(target)
    file = Path(source)
    columns = [*kept, state]
    if file.suffix.lower() == ".csv":
        table = pl.read_csv(file, columns=columns, infer_schema=False, glob=False)
    else:
        table = pl.read_parquet(file, columns=columns, glob=False)
    mixed = len({type(answer) for answer in answers}) > 1
    given = iter(str(answer) if mixed else answer for answer in answers)
    cells = [None if _missing(cell) else next(given) for cell in table[state].to_list()]
    table = table.with_columns(pl.Series(state, cells)).select(columns)
    if Path(target).suffix.lower() == ".csv":
        return csv_bytes(table)
    stream = io.BytesIO()
    table.write_parquet(stream)
    return stream.getvalue()
