"""The roles of columns, guessed from names and the first cells; the user can correct them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from datetime import time as clock
from itertools import pairwise
from typing import Any

from pufferkit.data.files import TextFormat, first_rows

_ROWS, _MORE_ROWS = 200, 20_000
_FEW = 20
_MOST_NAMES = 40
_DATE = r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}"
_CLOCK = re.compile(rf"{_DATE}([T ]\d{{1,2}}:\d{{2}}.*)?|\d{{1,2}}:\d{{2}}(:\d{{2}})?")
_DAY_ALONE = re.compile(_DATE)
_HOUR_ALONE = re.compile(r"\d{1,2}:\d{2}(:\d{2})?")
_TIMES = re.compile(r"time|date|stamp|when|clock|hour|day|week|month|year", re.IGNORECASE)
_WHOSE = re.compile(
    r"person|subject|user|people|^who$|household|^home|meter(_?id)?$|participant|patient|seqn"
    r"|^id$|_id$",
    re.IGNORECASE,
)
_STATES = re.compile(
    r"state|activity|level|label|class|status|power|value|reading|steps|kind|inten|rate|count",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class FileColumns:
    """The columns of a file and their guessed roles; ``numbers`` lists numeric columns."""

    names: tuple[str, ...]
    state: str
    time: str
    subject: str
    numbers: tuple[str, ...]
    cells: Mapping[str, Sequence[Any]] = field(default_factory=dict, repr=False)

    def many(self, column: str) -> bool:
        """Whether the first cells of a column have more values than states usually are."""
        return len(set(self.cells.get(column, ()))) > _FEW

    def alike(self, column: str, other: str) -> bool:
        """Whether two columns may be those of two subjects: by their names, or by their values."""
        if column in self.numbers:
            return re.sub(r"\d+", "", column) == re.sub(r"\d+", "", other) != ""
        one, two = (set(self.cells.get(name, ())) - {None, ""} for name in (column, other))
        return bool(one) and (one <= two or two <= one)


def guess(cells: dict[str, list[Any]]) -> FileColumns:
    """The columns by their roles, from the first cells of each.

    >>> guess({"time": ["2024-03-04T00:00"], "activity": ["resting"]}).state
    'activity'
    """
    names = list(cells)
    clocks = [name for name in names if _all(cells[name], _is_moment)]
    numbers = tuple(n for n in names if n not in clocks and _all(cells[n], _is_number))
    rising = [n for n in numbers if _rises(cells[n], 2 if _TIMES.search(n) else _FEW)]
    rising.sort(key=lambda n: _counts_rows(cells[n]) and not _TIMES.search(n))
    time = _time(cells, clocks) or next(iter(rising), "")
    left = [name for name in names if name not in clocks and name != time]
    named = [name for name in left if name not in numbers or _all(cells[name], _is_whole)]
    subject = next((name for name in named if _WHOSE.search(name)), "")
    left = [name for name in left if name != subject]

    def rank(name: str) -> tuple[bool, bool, bool, bool, int]:
        kinds = len(set(map(str, cells[name])))
        about_time = _TIMES.search(name) is not None
        return (
            _counts_rows(cells[name]),
            _STATES.search(name) is None,
            about_time,
            kinds > (_FEW if name in numbers else _MOST_NAMES),
            names.index(name),
        )

    state = next(iter(sorted(left, key=rank)), "")
    return FileColumns(tuple(names), state, time, subject, numbers, cells)


def _time(cells: dict[str, list[Any]], clocks: Sequence[str]) -> str:
    """The column of times; or two columns, dates and times, separated by a comma."""
    days = [name for name in clocks if _all(cells[name], _is_day)]
    hours = [name for name in clocks if _all(cells[name], _is_hour)]
    whole = [name for name in clocks if name not in (*days, *hours)]
    if not whole and days and hours:
        return f"{days[0]},{hours[0]}"
    ranked = sorted(whole or clocks, key=lambda name: _TIMES.search(name) is None)
    return next(iter(ranked), "")


def _counts_rows(cells: Sequence[Any]) -> bool:
    """Whether the cells are the numbers of the rows, as R and pandas write them."""
    counted = [str(cell).strip() for cell in cells]
    return len(counted) > 2 and any(
        counted == [str(n) for n in range(first, first + len(counted))] for first in (0, 1)
    )


def _rises(cells: Sequence[Any], few: int) -> bool:
    """Whether more numbers than a few increase strictly, as times do."""
    numbers = [float(str(cell).replace(",", ".")) for cell in cells if str(cell or "").strip()]
    return len(numbers) > few and all(a < b for a, b in pairwise(numbers))


def columns_of(path: str, text: TextFormat | None = None) -> FileColumns:
    """The columns of a file, guessed from its first rows; how many values they have, from more."""
    cells = first_rows(path, _MORE_ROWS, text)
    return replace(guess({name: own[:_ROWS] for name, own in cells.items()}), cells=cells)


def _all(cells: Sequence[Any], holds: Any) -> bool:
    filled = [cell for cell in cells if cell is not None and str(cell).strip()]
    return bool(filled) and all(holds(cell) for cell in filled)


def _is_moment(cell: Any) -> bool:
    if isinstance(cell, (date, datetime, clock)):
        return True
    return isinstance(cell, str) and _CLOCK.fullmatch(cell.strip()) is not None


def _is_number(cell: Any) -> bool:
    try:
        float(str(cell).strip().replace(",", "."))
    except ValueError:
        return False
    return True


def _is_whole(cell: Any) -> bool:
    return float(str(cell).strip().replace(",", ".")).is_integer()


def _is_day(cell: Any) -> bool:
    if isinstance(cell, date):
        return not isinstance(cell, datetime)
    return isinstance(cell, str) and _DAY_ALONE.fullmatch(cell.strip()) is not None


def _is_hour(cell: Any) -> bool:
    if isinstance(cell, clock):
        return True
    return isinstance(cell, str) and _HOUR_ALONE.fullmatch(cell.strip()) is not None
