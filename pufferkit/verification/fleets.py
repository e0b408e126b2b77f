"""The record of a table of releases: one calibration for each length, a row for each release.

All rows about a subject have one guarantee. No entry is in two of its windows, so the theorem
of one release with the least noise of any row covers them all.
"""

from __future__ import annotations

import csv
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import Any, get_args

from pufferkit import checks
from pufferkit.data.durations import seconds
from pufferkit.data.queries import Quantile
from pufferkit.data.query import Over, Question, decoded, question_of
from pufferkit.mechanisms.release import Evidence, Guarantee, Release, check_format, unsure_of
from pufferkit.noise import Family, Sampler
from pufferkit.records import read_text
from pufferkit.verification.query_checks import is_multiple, near, nearest_histogram

_COMMON: tuple[str, ...]
_COMMON = ("mechanism", "epsilon", "guarantee", "kind", "labels", "beliefs", "presentation")
_COMMON += ("calibrations", "question", "noise", "sampler", "step", "loss_if_unsure")
_MOST_NAMED = 5
_OTHERS = {"subject", "group", "window_start", "entries", "scale", "note"}
"""Columns of a table beside the answers."""


@dataclass(frozen=True)
class Fleet:
    """A record, its columns of equal length."""

    common: Mapping[str, Any]
    evidence: Mapping[int, Evidence]
    columns: Mapping[str, list[Any]]

    @cached_property
    def question(self) -> Question:
        """What was asked."""
        return question_of(self.common["kind"], self.common["question"])

    @cached_property
    def states(self) -> tuple[Hashable, ...]:
        """All states, those of the beliefs if there are any."""
        asked = self.common["question"].get("states")
        if not isinstance(asked, list) or not asked:
            raise ValueError("releases: the question does not name the states")
        return checks.distinct_states(decoded(asked))

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.columns["scale"])

    def key(self, row: int) -> tuple[Hashable, ...]:
        """Subject and window of a row."""
        named = (
            self.columns[what] for what in ("subject", "group", "window") if what in self.columns
        )
        return tuple(str(column[row]) for column in named)

    def name(self, row: int) -> str:
        """The name of a row in a sentence."""
        return " ".join(str(part) for part in (f"row {row + 1}", *self.key(row)))

    def total(self, row: int) -> float:
        """The sum of the numbers of a row without noise, or their size."""
        return 1.0 if self.question.per == "entries" else float(self.columns["entries"][row])

    def unit(self, row: int) -> Fraction:
        """The unit of the numbers of a row: the unit over a public number."""
        unit, per = self.question.grain(Over(self.states, (1,))), self.question.per
        return unit if per is None else unit / int(self.columns[per][row])

    def spare(self, row: int) -> float:
        """The noise of a row, in whole numbers."""
        return float(Fraction(float(self.columns["scale"][row])) / self.unit(row))

    def calibration(self, length: int) -> Mapping[str, Any]:
        """The record of the noise for segments of this length."""
        own: Mapping[str, Any]
        own = next(own for own in self.common["calibrations"] if own["length"] == length)
        return own

    def problems(self) -> Iterator[str]:
        """Problems of the rows other than their noise."""
        seen: set[tuple[Hashable, ...]] = set()
        wrong: list[str] = []
        if self.question.counting and not self.question.chooses:
            labels = list(self.question.labels(Over(self.states, (1,))))
            if labels != self.common["labels"]:
                yield f"labels: are not those of a {self.common['kind']} over these states"
        for row in range(self.size):
            if self.key(row) in seen:
                wrong.append(f"{self.name(row)}: appears twice, which would cost epsilon twice")
            seen.add(self.key(row))
            drawn = self.columns["raw"][row]
            shown = self.columns["value"][row]
            made = self.presented(row)
            if len(drawn) != len(self.common["labels"]) or not near(shown, made, self.total(row)):
                wrong.append(f"{self.name(row)}: value does not follow from raw")
            if self.common["noise"] == "discrete laplace":
                unit = self.unit(row)
                if not all(is_multiple(value, unit) for value in drawn):
                    wrong.append(
                        f"{self.name(row)}: discrete noise leaves whole multiples of {unit}"
                    )
            if isinstance(self.question, Quantile):
                levels = self.question.levels.values()
                if len(drawn) != 1 or drawn[0] not in levels:
                    wrong.append(f"{self.name(row)}: is not one of the levels")
        if self.question.chooses != (self.common["noise"] == "noisy choice"):
            wrong.append(
                f"noise: a {self.common['kind']} is not released by {self.common['noise']}"
            )
        yield from wrong[:_MOST_NAMED]
        if len(wrong) > _MOST_NAMED:
            yield f"rows: {len(wrong) - _MOST_NAMED} more are wrong in this way"

    def nearest(self, row: int) -> list[float]:
        """The nearest histogram to the noisy answer; for queries by time, slot by slot."""
        drawn, totals = self.columns["raw"][row], [self.total(row)]
        if "observed" in self.columns:
            totals = [float(seen) for seen in self.columns["observed"][row]]
        size = len(drawn) // len(totals)
        parts = (drawn[n * size : (n + 1) * size] for n in range(len(totals)))
        return [v for p, t in zip(parts, totals, strict=True) for v in nearest_histogram(p, t)]

    def presented(self, row: int) -> list[float]:
        """The value that follows from the noisy answer, as the record says it is presented."""
        said, drawn = self.common["presentation"], self.columns["raw"][row]
        if said == "nearest histogram":
            return self.nearest(row)
        return self.within(row) if said == "within range" else list(drawn)

    def within(self, row: int) -> list[float]:
        """The noisy answer, cut to what is possible for so many entries; none where unknown."""
        bounds = None
        if not (self.question.clocked or self.question.chooses):
            entries = max(int(self.columns["entries"][row]), 1)
            bounds = self.question.bind(self.states, entries).bounds
        if bounds is None:
            return []
        return [min(max(value, bounds[0]), bounds[1]) for value in self.columns["raw"][row]]

    def hardest(self) -> Iterator[tuple[str, Release]]:
        """For each length the row with the least noise, as a histogram over one such segment."""
        least: dict[int, int] = {}
        for row, length in enumerate(self.columns["length"]):
            if length not in least or self.spare(row) < self.spare(least[length]):
                least[length] = row
        for length, row in sorted(least.items()):
            query, own = self.question.whole(self.states, length), self.calibration(length)
            data = own.get("verification_data")
            yield (
                self.name(row),
                Release(
                    value=(0.0,) * query.size,
                    raw=(0.0,) * query.size,
                    scale=self.spare(row),
                    epsilon=self.common["epsilon"],
                    mechanism=self.common["mechanism"],
                    guarantee=Guarantee.of_code(self.common["guarantee"]),
                    query=query.name,
                    labels=query.labels,
                    lengths=(length,),
                    lipschitz=query.lipschitz,
                    total=query.total,
                    beliefs=self.common["beliefs"],
                    evidence=self.evidence[length],
                    released_at="",
                    version="",
                    kind=query.kind,
                    question=query.question,
                    sampler=self.common["sampler"],
                    step=self.common["step"],
                    verification_data=data if isinstance(data, Mapping) else None,
                    loss_if_unsure=self.common["loss_if_unsure"],
                ),
            )


def read_fleet(data: Mapping[str, Any]) -> Fleet:
    """The record that ``Releases.to_dict`` wrote; ``ValueError`` if it is malformed."""
    check_format("releases", data)
    missing = [name for name in _COMMON if name not in data]
    if missing:
        raise ValueError(f"releases: the record lacks the fields {', '.join(missing)}")
    question = question_of(data["kind"], data["question"])
    labels = data["labels"]
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise ValueError("releases: labels must be a list of texts")
    columns = _columns(data["rows"], question)
    _check_labels(question, data["question"], labels, columns)
    calibrations = data["calibrations"]
    if not isinstance(calibrations, list) or not all(
        isinstance(own, Mapping) and _whole(own.get("length")) for own in calibrations
    ):
        raise ValueError("releases: calibrations must be a list, each with the length it is for")
    evidence = {own["length"]: Evidence.from_dict(own.get("evidence")) for own in calibrations}
    strange = sorted(set(columns["length"]) - set(evidence))
    if strange:
        raise ValueError(f"releases: there is no calibration for segments of {strange[0]}")
    noise = data["noise"]
    if noise not in get_args(Family):
        known = ", ".join(get_args(Family))
        raise ValueError(f"releases: noise must be one of {known}, not {noise!r}")
    common = {name: data[name] for name in _COMMON}
    sampler = data["sampler"]
    if sampler not in (None, *get_args(Sampler)):
        known = ", ".join(get_args(Sampler))
        raise ValueError(f"releases: sampler must be one of {known}, not {sampler!r}")
    common["step"] = seconds("releases: step", data["step"])
    common["loss_if_unsure"] = unsure_of(data["loss_if_unsure"])
    return Fleet(common, evidence, columns)


def _check_labels(
    question: Question, record: Mapping[str, Any], labels: list[str], columns: Mapping[str, Any]
) -> None:
    """Check the slots of rows by time: each has its entries, and all states."""
    if "observed" not in columns:
        return
    slots: Any = record.get("slots")
    fits = isinstance(slots, list) and bool(slots) and len(labels) % len(slots) == 0
    whole = fits and all(
        isinstance(seen, list)
        and len(seen) == len(slots)
        and all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in seen)
        for seen in columns["observed"]
    )
    if not whole or not question.binned:
        raise ValueError(f"releases: slots and entries do not match the {len(labels)} labels")


def compare_table(path: Path, fleet: Fleet) -> Iterator[str]:
    """Differences between a CSV table and its record."""
    rows = list(csv.DictReader(read_text(path)))
    if len(rows) != fleet.size:
        yield f"{path.name}: has {len(rows)} rows, its record {fleet.size}"
        return
    labels = fleet.common["labels"]
    prefix = "state " if _OTHERS & set(labels) & set(rows[0]) else ""  # as the table was written
    names = [prefix + label for label in labels]
    for number, cells in enumerate(rows):
        try:
            printed = [float(cells[name]) for name in ("entries", "scale", *names)]
        except (KeyError, TypeError, ValueError):
            yield f"{path.name}: {fleet.name(number)} is not a row of numbers for {labels}"
            return
        own = [fleet.columns["entries"][number], fleet.columns["scale"][number]]
        own += fleet.columns["value"][number]
        subject = str(fleet.columns["subject"][number]) if "subject" in fleet.columns else None
        # A table may put a quote before a name that a spreadsheet would read as a formula.
        other = subject is not None and str(cells.get("subject")).removeprefix("'") != subject
        if other or printed != [float(value) for value in own]:
            yield f"{path.name}: {fleet.name(number)} is not what the record says"
            return


def _columns(rows: Any, question: Question) -> dict[str, list[Any]]:
    if not isinstance(rows, Mapping):
        raise ValueError("releases: rows must be an object of columns")
    columns = {name: column for name, column in rows.items() if column is not None}
    columns.setdefault("value", columns.get("raw"))
    needed = ("entries", "length", "scale", "raw", "value")
    if any(not isinstance(columns.get(name), list) for name in needed) or not columns["scale"]:
        raise ValueError(f"releases: rows must have the columns {', '.join(needed)}, not empty")
    if len({len(column) for column in columns.values()}) != 1:
        raise ValueError("releases: the columns of the rows are not equally long")
    for name in ("entries", "length", *(["days"] if "days" in columns else [])):
        # A declared group may be empty.
        empty = name == "entries" and "group" in columns and question.per != "entries"
        if not all(_whole(value) or (empty and value == 0) for value in columns[name]):
            raise ValueError(f"releases: {name} must be whole numbers above 0")
    if not all(_number(value) and value > 0 for value in columns["scale"]):
        raise ValueError("releases: scale must be finite numbers above 0")
    for name in ("raw", "value"):
        if not all(isinstance(row, list) and all(map(_number, row)) for row in columns[name]):
            raise ValueError(f"releases: {name} must be lists of finite numbers")
    return columns


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and isfinite(value)
