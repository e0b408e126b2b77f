"""The table of scales: which rows it has, how they are computed, and how they are compared."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from functools import cache
from itertools import product
from math import inf, isfinite
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

from tests.guards.asked import (
    EPSILONS,
    MECHANISMS,
    OVERS,
    QUESTIONS,
    REFUSALS,
    SECRETS,
    Over,
    hiding,
    refused,
)
from tests.guards.beliefs import BELIEFS

HERE = Path(__file__).parent
TABLE = HERE / "scales.csv"
ACCEPTED = HERE / "accepted.csv"

MOST, LEAST = 1.003, 0.999
"""A row above the first needs a reason; one below the second a reason and a check."""


class Row(NamedTuple):
    """One cell of the table."""

    belief: str
    question: str
    secret: str
    over: str
    mechanism: str
    epsilon: float

    @property
    def chosen(self) -> int:
        """A number that thins the table the same way everywhere."""
        return crc32("|".join(map(str, self)).encode())


def over_of(row: Row) -> Over:
    entries = BELIEFS[row.belief].entries
    return OVERS[row.over] if entries is None else Over((entries,))


@cache
def _beliefs(belief: str, secret: str) -> Any:
    return hiding(BELIEFS[belief].made(), secret, BELIEFS[belief].states)


@cache
def _query(states: tuple[str, ...], question: str, over: Over) -> Any:
    return QUESTIONS[question](states, over)


def scale_of(row: Row) -> float | str:
    """The scale today, or the name of the refusal."""
    try:
        query = _query(BELIEFS[row.belief].states, row.question, over_of(row))
        beliefs = _beliefs(row.belief, row.secret)
        return float(MECHANISMS[row.mechanism](beliefs, query, row.epsilon))
    except REFUSALS as error:
        return refused(error)


def all_rows() -> list[Row]:
    """The rows of the table: every class with every question, secret, stretch and mechanism.

    Of the many combinations of these, a part that is chosen by a number made of their names.
    """
    return sorted({row for name in BELIEFS for row in (*_basic(name), *_combined(name))})


def _overs(name: str) -> list[str]:
    return list(OVERS) if BELIEFS[name].entries is None else ["all"]


def _basic(name: str) -> Iterator[Row]:
    """One thing changed at a time."""
    five = "5" if "5" in _overs(name) else "all"
    for question in QUESTIONS:
        yield _at_some_epsilon(name, question, "entries", five, "influence_curve")
    for secret in SECRETS:
        for question in ("count", "histogram"):
            yield _at_some_epsilon(name, question, secret, five, "influence_curve")
    for over in _overs(name):
        yield _at_some_epsilon(name, "count", "entries", over, "influence_curve")
    for mechanism in MECHANISMS:
        yield _at_some_epsilon(name, "count", "entries", five, mechanism)
    for epsilon in EPSILONS:
        yield Row(name, "count", "entries", five, "influence_curve", epsilon)


def _at_some_epsilon(*names: str) -> Row:
    return max((Row(*names, epsilon) for epsilon in EPSILONS), key=lambda row: row.chosen)


def _combined(name: str) -> Iterator[Row]:
    """Everything changed at once."""
    for names in product([name], QUESTIONS, SECRETS, _overs(name), MECHANISMS, EPSILONS):
        row = Row(*names)
        if row.chosen % _one_in(row) == 0:
            yield row


def _one_in(row: Row) -> int:
    """Of how many rows like this one the table has one."""
    belief, often = BELIEFS[row.belief], row.mechanism in ("influence_curve", "best")
    if row.mechanism in ("entry_dp", "entry_epsilon", "group_dp"):
        return 2000  # few numbers decide them
    if belief.entries is not None:  # one stretch, and entries alone are secrets
        return 12 if row.secret == "entries" else 2000
    known = 1 if belief.kind == "chains" else 2
    brief = 1 if _brief(row) else 3
    return (60 if row.secret == "entries" or often else 240) * known * brief


def kept(row: Row, scale: float | str) -> bool:
    """Whether a row that was computed is kept: few refusals, not all of what is served often."""
    number = crc32("|".join(map(str, reversed(row))).encode()) % 100
    if isinstance(scale, str):
        return number < 7
    often = row.mechanism in ("influence_curve", "best")
    return number < (45 if often else 80) or row in set(_basic(row.belief))


def stored() -> dict[Row, float | str]:
    """The table that is kept."""
    with TABLE.open(newline="") as file:
        lines = csv.reader(file)
        next(lines)
        return {
            Row(*names, float(epsilon)): _read(scale)
            for *names, epsilon, scale in lines
        }  # fmt: skip


def _read(scale: str) -> float | str:
    try:
        return float(scale)
    except ValueError:
        return scale


def write(rows: Iterable[tuple[Row, float | str]]) -> None:
    """Keep a table."""
    with TABLE.open("w", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow([*Row._fields, "scale"])
        for row, scale in rows:
            said = scale if isinstance(scale, str) else f"{scale:.8g}"
            lines.writerow([*row[:-1], f"{row.epsilon:g}", said])


def ratio(before: float | str, now: float | str) -> float:
    """How much noise there is now for one unit of noise before; a refusal is infinite noise."""
    if isinstance(before, str) and isinstance(now, str):
        return 1.0
    if isinstance(before, str):
        return 0.0
    if isinstance(now, str):
        return inf
    return now / before if isfinite(before) else 1.0


def quick(rows: Iterable[Row]) -> list[Row]:
    """A part of the rows, the short ones first.

    Each kind of beliefs meets each question and stretch, and each secret by each mechanism; each
    mechanism meets each question and stretch.
    """
    seen, chosen = set(), []
    for row in sorted(rows, key=lambda row: (not _brief(row), row.chosen)):
        kind = BELIEFS[row.belief].kind
        cells = {
            (kind, row.question),
            (kind, row.secret, row.mechanism),
            (kind, row.over),
            (row.mechanism, row.question),
            (row.mechanism, row.over),
        }
        if not cells <= seen:
            seen |= cells
            chosen.append(row)
    return chosen


def _brief(row: Row) -> bool:
    return over_of(row).total <= 9


class Accepted(NamedTuple):
    """Rows that may differ from the table, and why: ``least`` and ``most`` bound their ratio.

    The names of the rows may contain ``*``.
    """

    names: tuple[str, ...]
    least: float
    most: float
    reason: str

    def speaks_of(self, row: Row) -> bool:
        told = (*row[:-1], f"{row.epsilon:g}")
        return all(fnmatchcase(own, name) for own, name in zip(told, self.names, strict=True))


@cache
def accepted() -> tuple[Accepted, ...]:
    """Rows that differ from the table for a reason with a name; the first that fits counts."""
    with ACCEPTED.open(newline="") as file:
        lines = csv.reader(file)
        next(lines)
        return tuple(
            Accepted(tuple(names), float(least), float(most), reason)
            for *names, least, most, reason in lines
        )


def allowed(row: Row) -> tuple[float, float]:
    """The least and the largest ratio of a row."""
    own = next((one for one in accepted() if one.speaks_of(row)), None)
    return (LEAST, MOST) if own is None else (own.least, own.most)
