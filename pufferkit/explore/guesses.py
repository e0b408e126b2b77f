"""Which column is what, guessed from names and the first cells; a person corrects it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from typing import Any

_ROWS = 200
_MOST_NAMES = 40
_CLOCK = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([T ]\d{1,2}:\d{2}.*)?|\d{1,2}:\d{2}(:\d{2})?")
_TIMES = re.compile(r"time|date|stamp|when|clock|hour|day", re.IGNORECASE)
_WHOSE = re.compile(r"person|subject|user|people|who|household|home|meter|participant|^id$|_id$",
                    re.IGNORECASE)  # fmt: skip
_STATES = re.compile(r"state|activity|level|label|class|status|power|value|reading|steps|kind",
                     re.IGNORECASE)  # fmt: skip


@dataclass(frozen=True)
class Columns:
    """The columns of a file and what they are taken for; ``numbers`` lists those of numbers."""

    names: tuple[str, ...]
    state: str
    time: str
    subject: str
    numbers: tuple[str, ...]


def guess(cells: dict[str, list[Any]]) -> Columns:
    """The columns by their roles, from the first cells of each.

    >>> guess({"time": ["2024-03-04T00:00"], "activity": ["resting"]}).state
    'activity'
    """
    names = list(cells)
    clocks = [name for name in names if _all(cells[name], _is_moment)]
    time = next(iter(sorted(clocks, key=lambda n: _TIMES.search(n) is None)), "")
    numbers = tuple(n for n in names if n not in clocks and _all(cells[n], _is_number))
    left = [name for name in names if name != time and name not in clocks]
    subject = next((name for name in left if _WHOSE.search(name)), "")
    left = [name for name in left if name != subject]

    def rank(name: str) -> tuple[bool, bool, int]:
        kinds = len(set(map(str, cells[name])))
        return _STATES.search(name) is None, kinds > _MOST_NAMES, names.index(name)

    state = next(iter(sorted(left, key=rank)), "")
    return Columns(tuple(names), state, time, subject, numbers)


def columns_of(path: str) -> Columns:
    """The columns of a file."""
    from pufferkit.frames import first_rows  # noqa: PLC0415

    return guess(first_rows(path, _ROWS))


def _all(cells: Sequence[Any], holds: Any) -> bool:
    filled = [cell for cell in cells if cell is not None and str(cell).strip()]
    return bool(filled) and all(holds(cell) for cell in filled)


def _is_moment(cell: Any) -> bool:
    if isinstance(cell, (date, datetime, time)):
        return True
    return isinstance(cell, str) and _CLOCK.fullmatch(cell.strip()) is not None


def _is_number(cell: Any) -> bool:
    try:
        float(str(cell).strip().replace(",", "."))
    except ValueError:
        return False
    return True
