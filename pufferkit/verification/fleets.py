"""The record of a table of releases: one calibration for each length, a row for each release.

All rows about a subject have one guarantee. No entry is in two of its windows, so the theorem
of one release with the least noise of any row covers them all.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import isfinite
from pathlib import Path
from typing import Any, get_args

from pufferkit.data.durations import seconds
from pufferkit.data.queries import Kind
from pufferkit.data.question_records import check_question
from pufferkit.mechanisms.evidence import Evidence, Guarantee
from pufferkit.mechanisms.release import Release, check_format, unit_of
from pufferkit.noise import Family, Sampler
from pufferkit.records import read_text
from pufferkit.rounding import at_least
from pufferkit.verification.query_checks import furthest_of, is_multiple, near, nearest_histogram

_KINDS: tuple[str, ...]
_KINDS = ("histogram", "relative frequencies", "by time", "transition counts")
_KINDS += ("episodes", "stays", "time in states", "days with", "quantile")
_SUMS = ("count", "total", "mean", "moments", "linear")
_KINDS += _SUMS
_COMMON: tuple[str, ...]
_COMMON = ("mechanism", "epsilon", "guarantee", "kind", "labels", "beliefs", "presentation")
_COMMON += ("calibrations",)
_MOST_NAMED = 5
_OTHERS = {"subject", "group", "window_start", "entries", "scale", "note"}
"""Columns of a table beside the answers."""


@dataclass(frozen=True)
class Fleet:
    """A record, its columns of equal length."""

    common: Mapping[str, Any]
    evidence: Mapping[int, Evidence]
    columns: Mapping[str, list[Any]]

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
        return 1.0 if self.of_shares else float(self.columns["entries"][row])

    def unit(self, row: int) -> Fraction:
        """The unit of the numbers of a row: the unit over a public number."""
        unit = Fraction((self.common["question"] or {}).get("unit", 1))
        if self.of_shares or self.common["kind"] in ("mean", "moments"):
            return unit / int(self.columns["entries"][row])
        if self.common["kind"] == "days with" and "days" in self.columns:
            return unit / int(self.columns["days"][row])
        return unit

    def spare(self, row: int) -> float:
        """The noise of a row, in whole numbers."""
        return float(Fraction(float(self.columns["scale"][row])) / self.unit(row))

    @property
    def of_shares(self) -> bool:
        """Whether the numbers are shares of the entries."""
        return bool(self.common["kind"] == "relative frequencies")

    @property
    def weights(self) -> list[list[Fraction]]:
        """For sums: what each state adds to each number, in whole units."""
        return [[Fraction(w) for w in row] for row in self.common["question"]["weights"]]

    def verification_data(self, length: int) -> Mapping[str, Any] | None:
        """Verification data of the noise for segments of this length."""
        own = next(own for own in self.common["calibrations"] if own["length"] == length)
        recorded = own.get(
            "verification_data", own.get("workings")
        )  # the old name of verification_data
        data = recorded if isinstance(recorded, Mapping) else None
        if self.common["kind"] not in _SUMS:
            return data
        return {**(data or {}), "weights": [[str(w) for w in row] for row in self.weights]}

    def problems(self) -> Iterator[str]:
        """Problems of the rows other than their noise."""
        seen: set[tuple[Hashable, ...]] = set()
        wrong: list[str] = []
        for row in range(self.size):
            if self.key(row) in seen:
                wrong.append(f"{self.name(row)}: appears twice, which would cost epsilon twice")
            seen.add(self.key(row))
            drawn = self.columns["raw"][row]
            shown = self.columns["value"][row]
            made = drawn
            if self.common["presentation"] == "nearest histogram":
                made = self.nearest(row)
            if len(drawn) != len(self.common["labels"]) or not near(shown, made, self.total(row)):
                wrong.append(f"{self.name(row)}: value does not follow from raw")
            if self.common["noise"] == "discrete laplace":
                unit = self.unit(row)
                if not all(is_multiple(value, unit) for value in drawn):
                    wrong.append(
                        f"{self.name(row)}: discrete noise leaves whole multiples of {unit}"
                    )
            if self.common["kind"] == "quantile":
                levels = self.common["question"]["levels"]
                if len(drawn) != 1 or drawn[0] not in levels:
                    wrong.append(f"{self.name(row)}: is not one of the levels")
        if (self.common["kind"] == "quantile") != (self.common["noise"] == "noisy choice"):
            wrong.append(
                f"noise: a {self.common['kind']} is not released by {self.common['noise']}"
            )
        yield from wrong[:_MOST_NAMED]
        if len(wrong) > _MOST_NAMED:
            yield f"rows: {len(wrong) - _MOST_NAMED} more are wrong in this way"

    def nearest(self, row: int) -> list[float]:
        """The nearest histogram to the noisy answer; for queries by time, slot by slot."""
        drawn, totals = self.columns["raw"][row], [self.total(row)]
        if self.common["kind"] == "by time":
            totals = [float(seen) for seen in self.columns["observed"][row]]
        size = len(drawn) // len(totals)
        parts = (drawn[n * size : (n + 1) * size] for n in range(len(totals)))
        return [v for p, t in zip(parts, totals, strict=True) for v in nearest_histogram(p, t)]

    @property
    def like(self) -> tuple[Kind, tuple[str, ...], dict[str, Any] | None, float]:
        """A query that needs the same noise: kind, labels, question and Lipschitz constant."""
        kind, labels = self.common["kind"], tuple(self.common["labels"])
        if kind == "by time":
            question = self.common["question"]
            size = len(labels) // len(question["slots"])
            states = [label.removeprefix(f"{question['slots'][0]}, ") for label in labels[:size]]
            return "histogram", tuple(states), None, 2.0
        if kind in ("histogram", "relative frequencies"):
            return "histogram", labels, None, 2.0
        if kind == "quantile":
            return "histogram", tuple(self.common["question"]["states"]), None, 2.0
        if kind == "transition counts":
            return "transition counts", labels, None, 4.0
        if kind in _SUMS:
            return "own", labels, None, at_least(furthest_of(self.weights))
        of = {"of": self.common["question"]["of"]}
        return ("stays", labels, of, 2.0) if kind == "stays" else ("episodes", labels, of, 1.0)

    def hardest(self) -> Iterator[tuple[str, Release]]:
        """For each length the row with the least noise, as a histogram over one such segment."""
        least: dict[int, int] = {}
        for row, length in enumerate(self.columns["length"]):
            if length not in least or self.spare(row) < self.spare(least[length]):
                least[length] = row
        kind, labels, question, lipschitz = self.like
        nothing = (0.0,) * len(labels)
        total: dict[str, Callable[[int], float]] = {
            "histogram": float,
            "transition counts": lambda length: length - 1.0,
        }
        for length, row in sorted(least.items()):
            yield (
                self.name(row),
                Release(
                    value=nothing,
                    raw=nothing,
                    scale=self.spare(row),
                    epsilon=self.common["epsilon"],
                    mechanism=self.common["mechanism"],
                    guarantee=Guarantee.of_code(self.common["guarantee"]),
                    query=kind,
                    labels=labels,
                    lengths=(length,),
                    lipschitz=2.0 if kind == "transition counts" and length < 3 else lipschitz,
                    total=total[kind](length) if kind in total else None,
                    beliefs=self.common["beliefs"],
                    evidence=self.evidence[length],
                    released_at="",
                    version="",
                    kind=kind,
                    question=question,
                    sampler=self.common["sampler"],
                    step=self.common["step"],
                    verification_data=self.verification_data(length),
                ),
            )


def read_fleet(data: Mapping[str, Any]) -> Fleet:
    """The record that ``Releases.to_dict`` wrote; ``ValueError`` if it is malformed."""
    check_format("releases", data)
    missing = [name for name in _COMMON if name not in data]
    if missing:
        raise ValueError(f"releases: the record lacks the fields {', '.join(missing)}")
    if data["kind"] not in _KINDS:
        raise ValueError(f"releases: kind must be one of {', '.join(_KINDS)}, not {data['kind']!r}")
    labels = data["labels"]
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise ValueError("releases: labels must be a list of texts")
    columns = _columns(data["rows"], data["kind"])
    _check_question(data["kind"], data.get("question"), len(labels), columns)
    calibrations = data["calibrations"]
    if not isinstance(calibrations, list) or not all(
        isinstance(own, Mapping) and _whole(own.get("length")) for own in calibrations
    ):
        raise ValueError("releases: calibrations must be a list, each with the length it is for")
    evidence = {own["length"]: Evidence.from_dict(own.get("evidence")) for own in calibrations}
    strange = sorted(set(columns["length"]) - set(evidence))
    if strange:
        raise ValueError(f"releases: there is no calibration for segments of {strange[0]}")
    noise = data.get("noise", "laplace")
    if noise not in get_args(Family):
        known = ", ".join(get_args(Family))
        raise ValueError(f"releases: noise must be one of {known}, not {noise!r}")
    common = {name: data[name] for name in _COMMON}
    sampler = data.get("sampler")
    if sampler not in (None, *get_args(Sampler)):
        known = ", ".join(get_args(Sampler))
        raise ValueError(f"releases: sampler must be one of {known}, not {sampler!r}")
    common |= {"noise": noise, "sampler": sampler, "question": data.get("question")}
    common["step"] = seconds("releases: step", data.get("step"))
    return Fleet(common, evidence, columns)


def _check_question(kind: str, question: Any, size: int, columns: Mapping[str, Any]) -> None:
    """Check the question of rows that are not histograms; by time with slots for each row."""
    if kind in ("histogram", "relative frequencies"):
        return
    if not isinstance(question, Mapping):
        raise ValueError(f"releases: a {kind} needs a question that says what was asked")
    if kind in _SUMS:
        _check_sums(kind, question, size)
    elif kind == "quantile":
        check_question(kind, question, size)
    elif kind == "by time":
        for seen in columns.get("observed") or [None]:
            check_question(kind, {**question, "observed": seen}, size)
    elif kind != "transition counts":
        check_question("episodes", question, size)


def _check_sums(kind: str, question: Mapping[str, Any], size: int) -> None:
    """Check what each state adds: whole numbers, one for each of the answer; a unit above 0."""
    weights = question.get("weights")
    whole = isinstance(weights, list) and all(
        isinstance(row, list)
        and len(row) == size
        and all(isinstance(w, int) and not isinstance(w, bool) for w in row)
        for row in weights
    )
    if not whole or not weights or all(row == weights[0] for row in weights):
        raise ValueError(
            f"releases: the question of a {kind} needs weights, {size} whole numbers for each "
            "state, not all the same"
        )
    unit_of(question.get("unit"))


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


def _columns(rows: Any, data_kind: str) -> dict[str, list[Any]]:
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
        shares = data_kind in ("relative frequencies", "mean", "moments")
        empty = name == "entries" and "group" in columns and not shares
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
