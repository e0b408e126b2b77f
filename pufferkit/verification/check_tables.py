"""Records of tables: one proof for each calibration, and rows that point to it by its digest.

All rows about a subject have one guarantee, and no entry is in two of its windows, so for each
length of segments the row with the least noise covers the others.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from pufferkit import checks
from pufferkit.beliefs.base import beliefs_from_dict
from pufferkit.data.query import KINDS, Over, Query, Question, decoded, question_of
from pufferkit.mechanisms.release import FORMAT, Release
from pufferkit.records import check_record, read_text
from pufferkit.verification.claims import digest_of, is_multiple, shown_as

_MOST_NAMED = 5
_DIGITS = 16
_OTHERS = {"subject", "group", "window_start", "entries", "scale", "note"}
"""Columns of a table beside the answers."""

_OF_TABLE: tuple[str, ...]
_OF_TABLE = ("mechanism", "epsilon", "guarantee", "beliefs", "sampler", "step", "loss_if_unsure")
_OF_TABLE += ("released_at", "version")
_OF_QUERY = ("kind", "labels", "lengths", "lipschitz", "total", "question")


class ReleaseTable:
    """Releases of one question: what they have in common, and columns of equal length."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        check_record("releases", data, "releases", KINDS)
        self.data, self.labels = data, data["labels"]
        self.question: Question = question_of(data["kind"], data["question"])
        states = data["question"].get("states")
        if not isinstance(states, list) or not states:
            raise ValueError("releases: the question does not name the states")
        self.states = checks.distinct_states(decoded(states))
        columns = {name: own for name, own in data["rows"].items() if own is not None}
        self.columns: dict[str, Any] = {"value": columns["raw"], **columns}
        self.size = len(columns["scale"])
        if {len(own) for own in columns.values()} != {self.size}:
            raise ValueError("releases: the columns of the rows are not equally long")
        for row, (raw, value) in enumerate(zip(columns["raw"], self.columns["value"], strict=True)):
            if not len(raw) == len(value) == len(self.labels):
                raise ValueError(f"releases: {self.name(row)} must have {len(self.labels)} numbers")
        empty = "group" in columns and self.question.per != "entries"  # a declared group may be
        if not empty and min(columns["entries"]) < 1:
            raise ValueError("releases: rows.entries must be above 0")
        slots = data["question"].get("slots") or ()
        fits = self.question.binned and slots and len(self.labels) % len(slots) == 0
        if not all(fits and len(seen) == len(slots) for seen in columns.get("observed", ())):
            raise ValueError(
                f"releases: slots and entries do not match the {len(self.labels)} labels"
            )
        self.calibrations = {own["length"]: own for own in data["calibrations"]}
        strange = sorted(set(columns["length"]) - set(self.calibrations))
        if strange:
            raise ValueError(f"releases: there is no calibration for segments of {strange[0]}")

    def name(self, row: int) -> str:
        """The name of a row in a sentence: its number, subject, group and window."""
        return " ".join([f"row {row + 1}", *self._key(row)])

    def _key(self, row: int) -> tuple[str, ...]:
        names = (name for name in ("subject", "group", "window") if name in self.columns)
        return tuple(str(self.columns[name][row]) for name in names)

    def unit(self, row: int) -> Fraction:
        """The unit of the numbers of a row: the unit over a public number."""
        unit, per = self.question.grain(Over(self.states, (1,))), self.question.per
        return unit if per is None else unit / int(self.columns[per][row])

    def spare(self, row: int) -> float:
        """The noise of a row, in whole numbers."""
        return float(Fraction(float(self.columns["scale"][row])) / self.unit(row))

    def query(self, length: int) -> Query:
        """What the noise of segments of this length was made for."""
        return self.question.whole(self.states, length)

    def problems(self) -> Iterator[str]:
        """Problems other than the noise: of the question, of calibrations, and of rows."""
        asked, data = self.question, self.data
        counts = asked.counting and not asked.chooses
        if counts and list(asked.labels(Over(self.states, (1,)))) != self.labels:
            yield f"labels: are not those of a {data['kind']} over these states"
        if asked.chooses != (data["noise"] == "noisy choice"):
            yield f"noise: a {data['kind']} is not released by {data['noise']}"
        theta = None if data["beliefs"] is None else beliefs_from_dict(data["beliefs"])
        for length, own in self.calibrations.items():
            horizon, proof = own["evidence"]["horizon"], own["verification_data"] or {}
            known = data["mechanism"], theta, self.query(length), own["epsilon"]
            if digest_of(*known, horizon, proof.get("shape")) not in (None, own["calibration"]):
                yield f"calibrations: the digest of that for segments of {length} is of another"
        wrong = list(self._wrong_rows())
        yield from wrong[:_MOST_NAMED]
        if len(wrong) > _MOST_NAMED:
            yield f"rows: {len(wrong) - _MOST_NAMED} more are wrong in this way"

    def _wrong_rows(self) -> Iterator[str]:
        columns, seen, said = self.columns, set[tuple[str, ...]](), self.data["presentation"]
        discrete = self.data["noise"] == "discrete laplace"
        levels = set(self.data["question"]["levels"]) if self.question.chooses else None
        limits = self._totals(), self._bounds() if said == "within range" else None
        follow = shown_as(columns["raw"], columns["value"], said, *limits)
        for row, raw in enumerate(columns["raw"]):
            name, key, length = self.name(row), self._key(row), columns["length"][row]
            if key in seen:
                yield f"{name}: appears twice, which would cost epsilon twice"
            seen.add(key)
            if columns["calibration"][row] != self.calibrations[length]["calibration"][:_DIGITS]:
                yield f"{name}: points to another calibration than that for segments of {length}"
            if not follow[row]:
                yield f"{name}: value does not follow from raw"
            unit = self.unit(row)
            if discrete and not all(is_multiple(n, unit) for n in raw):
                yield f"{name}: discrete noise leaves whole multiples of {unit}"
            if levels is not None and not set(raw) <= levels:
                yield f"{name}: is not one of the levels"

    def _totals(self) -> Any:
        """The sums of rows without noise; for questions by time, slot by slot."""
        shares = self.question.per == "entries"
        sums = [[1 if shares else entries] for entries in self.columns["entries"]]
        return self.columns.get("observed", sums)

    def _bounds(self) -> tuple[Any, Any] | None:
        """The least and the largest that a row can have, where its entries say it."""
        sizes = [max(entries, 1) for entries in self.columns["entries"]]
        known = {n: self.question.bind(self.states, n).bounds for n in set(sizes)}
        if self.question.clocked or None in known.values():
            return None
        low, high = zip(*(known[n] or () for n in sizes), strict=True)
        return low, high

    def hardest(self) -> Iterator[tuple[str, Release]]:
        """For each length the row with the least noise, as a release about one such segment."""
        least: dict[int, int] = {}
        for row, length in enumerate(self.columns["length"]):
            if length not in least or self.spare(row) < self.spare(least[length]):
                least[length] = row
        for length, row in sorted(least.items()):
            query, noise = self.query(length), self.calibrations[length]
            nothing = (0.0,) * query.size
            record = {
                **dict.fromkeys(Release.__dataclass_fields__),
                **{name: self.data[name] for name in _OF_TABLE},
                **{name: noise[name] for name in ("evidence", "verification_data")},
                **{name: getattr(query, name) for name in _OF_QUERY},
                "format": FORMAT,
                "value": nothing,
                "raw": nothing,
                "scale": self.spare(row),
                "query": query.name,
                "presentation": "as drawn",
                "noise": "laplace",
            }
            yield self.name(row), Release.from_dict(record)

    def differences(self, path: Path) -> Iterator[str]:
        """Differences between a CSV table and its record."""
        rows = list(csv.DictReader(read_text(path)))
        if len(rows) != self.size:
            yield f"{path.name}: has {len(rows)} rows, its record {self.size}"
            return
        prefix = "state " if _OTHERS & set(self.labels) & set(rows[0]) else ""  # as it was written
        names = ["entries", "scale", *(prefix + label for label in self.labels)]
        for row, cells in enumerate(rows):
            own = [self.columns[name][row] for name in ("entries", "scale")]
            own += self.columns["value"][row]
            # A table may put a quote before a name that a spreadsheet would read as a formula.
            subject = str(cells.get("subject")).removeprefix("'")
            named = "subject" not in self.columns or subject == str(self.columns["subject"][row])
            try:
                same = [float(cells[name]) for name in names] == [float(value) for value in own]
            except (KeyError, TypeError, ValueError):
                yield f"{path.name}: {self.name(row)} is not a row of numbers for {self.labels}"
                return
            if not (same and named):
                yield f"{path.name}: {self.name(row)} is not what the record says"
                return
