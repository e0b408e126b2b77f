"""Measured series, those of the papers or similar ones, read from a path the user gives.

None of them is part of the project. They can be obtained here:

``unidata.csv``
    Activity counts by minute, NHANES 2003-2004 (US federal data). In R:
    ``write.csv(accelerometry::unidata, "unidata.csv", row.names = FALSE)``. Columns ``seqn``,
    ``paxday``, ``paxinten``; a column ``group`` of your own makes the groups of [Q] Table 1.
``Electricity_P.csv``
    The household of [Q] 5.3.2: AMPds2, power by minute for two years, Makonin and others, Harvard
    Dataverse, doi 10.7910/DVN/FIE0S4. Columns ``UNIX_TS`` (seconds) and ``WHE`` (watts of the whole
    house); or ``Electricity_WHE.csv`` of the same, columns ``UNIX_TS`` and ``P``.
``household_power_consumption.txt``
    Power of one household by minute, Hebrail and Berard, UCI, doi 10.24432/C58K54, CC BY 4.0.
    The whole file or the beginning of it.
``powerconsumption_2008_10min.csv``
    The same household by ten minutes in 2008. In R, ``mixvlmc::powerconsumption`` as CSV.
``N5``, ``N10``
    Heart rate of sleepers, PhysioNet, https://physionet.org/content/meditation/1.0.0/, folder
    ``data/normal``.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from datetime import date
from pathlib import Path

import numpy as np

from pufferkit.checks import Floats

WHERE = {
    "unidata.csv": "R package accelerometry, write.csv(unidata, row.names = FALSE)",
    "Electricity_P.csv": "AMPds2, Harvard Dataverse, doi 10.7910/DVN/FIE0S4",
    "Electricity_WHE.csv": "the same",
    "household_power_consumption*.txt": "UCI, doi 10.24432/C58K54",
    "powerconsumption_2008_10min.csv": "R package mixvlmc, powerconsumption as CSV",
    "N5": "https://physionet.org/content/meditation/1.0.0/ (folder data/normal)",
    "N10": "https://physionet.org/content/meditation/1.0.0/ (folder data/normal)",
}
"""Names of the files, and where they come from."""

AMPDS2 = ("Electricity_P.csv", "Electricity_WHE.csv")
POWER = (*AMPDS2, "household_power_consumption*.txt", "powerconsumption_2008_10min.csv")
"""Files with the power of a household; the first two are the one of the paper."""

Pieces = list[Floats]
"""Measurements of one subject, split where some are missing."""


def need(data: Path | None, *patterns: str) -> Path:
    """The first file under ``data`` with one of these names; the error says where to get it."""
    listed = " or ".join(f"{pattern} ({WHERE[pattern]})" for pattern in patterns)
    if data is None:
        raise ValueError(f"data: this experiment reads {listed}; give its path")
    if data.is_file():
        return data
    if not data.is_dir():
        raise ValueError(f"data: there is no file or folder {data}")
    for pattern in patterns:
        files = sorted(path for path in data.rglob(pattern) if path.is_file())
        if files:
            return files[0]
    raise ValueError(f"data: {data} holds no {listed}")


def has(data: Path | None, *patterns: str) -> bool:
    """Whether a folder holds a file of one of these names."""
    return data is not None and data.is_dir() and any(any(data.rglob(p)) for p in patterns)


def activity(path: Path) -> dict[str, Floats]:
    """Counts by minute of each participant, days one after another."""
    people: dict[str, list[float]] = {}
    for n, row in _table(path, ["seqn", "paxday", "paxinten"], ","):
        people.setdefault(row["seqn"], []).append(_number(path, n, row["paxinten"]))
    return {person: np.array(counts) for person, counts in people.items()}


def group_of(path: Path) -> dict[str, str]:
    """The group of each participant, if the file has a column of groups."""
    with path.open(encoding="utf-8") as stream:
        if "group" not in stream.readline().strip().replace('"', "").split(","):
            return {}
    return {row["seqn"]: row["group"] for _, row in _table(path, ["seqn", "group"], ",")}


def power(path: Path) -> Pieces:
    """Watts of one household; a new piece begins wherever a measurement is missing."""
    with path.open(encoding="utf-8") as stream:
        head = stream.readline()
    if "UNIX_TS" in head:
        return _split(_ampds2(path, "WHE" if "WHE" in head.strip().split(",") else "P"))
    return _split(_by_minute(path) if ";" in head else _by_ten_minutes(path))


def heart_rate(path: Path) -> Floats:
    """Beats per minute, one number for each beat."""
    rates = []
    for n, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        fields = line.split()
        if len(fields) != 2:
            raise ValueError(f"{path}: line {n} needs two numbers, time and rate; got {line!r:.40}")
        rates.append(_number(path, n, fields[1]))
    return _some(path, rates)


def worn(counts: Floats) -> Pieces:
    """Counts split where the device lay unused: at least an hour of minutes with count 0."""
    still = np.concatenate([[False], counts == 0, [False]])
    edges = np.flatnonzero(np.diff(still.astype(np.int8)))
    keep = np.ones(len(counts), dtype=bool)
    for begin, end in edges.reshape(-1, 2):
        if end - begin >= 60:
            keep[begin:end] = False
    places = np.flatnonzero(keep)
    breaks = np.flatnonzero(np.diff(places) > 1) + 1
    return [counts[part] for part in np.split(places, breaks) if len(part)]


def _by_minute(path: Path) -> Iterator[tuple[int, float]]:
    days: dict[str, int] = {}
    for n, row in _table(path, ["Date", "Time", "Global_active_power"], ";"):
        value = row["Global_active_power"]
        if value in ("?", ""):
            continue
        day = row["Date"]
        try:
            if day not in days:
                days[day] = date(*(int(part) for part in reversed(day.split("/")))).toordinal()
            hour, minute = (int(part) for part in row["Time"].split(":")[:2])
        except (TypeError, ValueError):
            raise ValueError(f"{path}: line {n} has no time like 16/12/2006;17:24:00") from None
        yield days[day] * 1440 + hour * 60 + minute, 1000 * _number(path, n, value)


def _ampds2(path: Path, column: str) -> Iterator[tuple[int, float]]:
    for n, row in _table(path, ["UNIX_TS", column], ","):
        if row[column]:
            yield int(_number(path, n, row["UNIX_TS"])) // 60, _number(path, n, row[column])


def _by_ten_minutes(path: Path) -> Iterator[tuple[int, float]]:
    for n, row in _table(path, ["active_power"], ","):
        if row["active_power"] not in ("NA", "", "nan"):
            yield n, 1000 * _number(path, n, row["active_power"])


def _split(timed: Iterable[tuple[int, float]]) -> Pieces:
    pieces: list[list[float]] = []
    before = None
    for time, value in timed:
        if before is None or time != before + 1:
            pieces.append([])
        pieces[-1].append(value)
        before = time
    return [np.array(piece) for piece in pieces]


def _table(path: Path, columns: list[str], separator: str) -> Iterator[tuple[int, dict[str, str]]]:
    with path.open(encoding="utf-8", newline="") as stream:
        table = csv.DictReader(stream, delimiter=separator)
        missing = [c for c in columns if c not in (table.fieldnames or [])]
        if missing:
            raise ValueError(f"{path}: has no column {', '.join(missing)}; is it the right file?")
        n = 1
        for n, row in enumerate(table, 2):
            if any(row[c] is None for c in columns):
                raise ValueError(f"{path}: line {n} is cut short")
            yield n, row
        if n == 1:
            raise ValueError(f"{path}: has no rows")


def _number(path: Path, line: int, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = np.nan
    if not np.isfinite(value):
        raise ValueError(f"{path}: line {line} has {text!r:.40} in place of a number")
    return value


def _some(path: Path, values: list[float]) -> Floats:
    if not values:
        raise ValueError(f"{path}: has no rows")
    return np.array(values)
