"""What the record of a release claims, and whether its fields agree with one another.

The record says which question was asked, with its arguments. The question is asked again
(`query_of`), and all that follows from it, its labels, its unit, its total and how far an entry
moves it, must be what the record says, whatever the file claims. Of a function of the user's own
the bound is declared by its author. Notes are not read.

A table of releases (`ReleaseTable`) has one proof for each length of segment, and a row for each
release.
All rows about a subject have one guarantee, and no entry is in two of its windows, so for each
length the row with the least noise covers the others.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from fractions import Fraction
from functools import cached_property
from math import inf, isnan, nextafter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pufferkit import checks
from pufferkit.beliefs.base import Beliefs, loss_if_unsure, same_step, step_assumed
from pufferkit.beliefs.provenance import owed
from pufferkit.checks import Floats
from pufferkit.data.durations import of_seconds
from pufferkit.data.joint import Several
from pufferkit.data.query import KINDS, Over, Query, Question, decoded, question_of
from pufferkit.data.series import SegmentPattern
from pufferkit.mechanisms.calibration import requested
from pufferkit.mechanisms.release import (
    FORMAT,
    Guarantee,
    Release,
    check_format,
    is_number,
    project_to_simplex,
)
from pufferkit.noise import SAMPLER_NAMES
from pufferkit.records import canonical, check_record, digest, read_text

TOLERANCE = 1e-7
"""Relative tolerance of the scale, for rounding on either side."""

_UP = 1 + 1e-12


class NotChecked(Exception):
    """There is no check for this release, or it would exceed the work allowed."""


class BadBeliefs(Exception):
    """The recorded beliefs cannot be read, or the mechanism has no theorem for them."""


class Allowance:
    """An allowance of work, in units of about a nanosecond."""

    def __init__(self, most: float) -> None:
        self.most, self.spent = most, 0.0

    def spend(self, amount: float) -> None:
        """Spend some of it, or give up."""
        self.spent += amount
        if self.spent > self.most:
            raise NotChecked(f"it takes more than the {self.most:.3g} units of work allowed")


def largest(bounds: Iterable[float]) -> float:
    """The largest of some bounds, 0 of none; what is no number bounds nothing."""
    return max((inf if isnan(bound) else float(bound) for bound in bounds), default=0.0)


class Theorem(NamedTuple):
    """The guarantee of a mechanism, what decides its scale, its readings, and their check."""

    guarantee: Guarantee
    bound: str
    variants: tuple[str | None, ...]
    needed: Callable[[Claim], float]


@dataclass(frozen=True)
class Claim:
    """A record, its beliefs, if any, its question, the work allowed, and what was checked."""

    record: Release
    theta: Beliefs | None
    query: Query
    work: Allowance
    checks: list[str] = field(default_factory=list)

    @property
    def beliefs(self) -> Beliefs:
        """The recorded beliefs."""
        if self.theta is None:
            raise BadBeliefs(f"are not recorded, and {self.record.mechanism} needs them")
        return self.theta

    @property
    def lipschitz(self) -> float:
        """How far an entry moves the answer: as was asked, and at least as recorded."""
        return max(self.query.lipschitz, self.record.lipschitz)

    @property
    def longest(self) -> int:
        """The longest segment that the guarantee covers: of the release or the account."""
        return self.record.evidence.horizon or max(self.record.lengths)

    @property
    def parts(self) -> list[Query]:
        """The questions, if there are several, one by one."""
        asks = self.query.asks
        return [own for _, own in asks.parts] if isinstance(asks, Several) else [self.query]

    @property
    def proof(self) -> Mapping[str, Any]:
        """What was recorded as proof, and what the author claims."""
        return self.record.verification_data or {}

    def scale_for(self, loss: float) -> float:
        """The recorded scale if it keeps the loss within epsilon, else a larger one."""
        scale = self.record.scale
        enough = loss <= self.record.epsilon
        return scale if enough else max(scale * (1 + 2 * TOLERANCE), nextafter(scale, inf))

    @cached_property
    def cost(self) -> Floats:
        """What replacing an entry x by x' costs, in scales of the noise, for all pairs, rounded up.

        Coordinates may have scales of their own.
        """
        return self.record.cost(self.query, self.beliefs.states)

    @cached_property
    def patterns(self) -> list[SegmentPattern]:
        """The distinct patterns of gaps, checked against the lengths and the entries observed."""
        recorded: Any = self.proof.get("pattern")
        if recorded is None:
            return []
        runs = [tuple(own) for own in recorded]
        lengths, seen = tuple(sum(own) for own in runs), tuple(sum(own[::2]) for own in runs)
        if lengths != tuple(self.record.lengths) or seen != self.record.observed:
            raise TypeError("the pattern does not fit the lengths and the entries that were seen")
        return sorted(set(runs))

    @cached_property
    def unsure(self) -> float | None:
        """What an adversary may lose who is unsure of the member; ``None`` without members."""
        return loss_if_unsure(self.theta, self.record.epsilon)


# --- whether the fields agree ---------------------------------------------------------------------


def contradictions(claim: Claim, theorem: Theorem) -> Iterator[str]:
    """Fields that do not agree with each other, with the question or with the beliefs."""
    record = claim.record
    for name, told, made in _following(claim, theorem):
        near = is_number(told) and is_number(made) and abs(told - made) <= TOLERANCE * made
        if told != made and not (name == "loss_if_unsure" and near):
            yield f"{name}: is {told!s:.100}, and what was asked makes it {made!s:.100}"
    yield from _not_within(claim)
    yield from _not_believed(claim)
    yield from _not_moved(claim)
    yield from _not_drawn(record, claim.query)
    yield from not_shown(
        record.raw, record.value, record.presentation, record.totals, record.bounds
    )


def _following(claim: Claim, theorem: Theorem) -> Iterator[tuple[str, Any, Any]]:
    """Fields, what the record says there, and what follows from all that was asked."""
    record, query, theta = claim.record, claim.query, claim.theta
    own = Guarantee.SECRETS if claim.proof.get("secrets") else theorem.guarantee
    named = theta is not None and theta.names_secrets
    yield "guarantee", record.guarantee, own.for_named_secrets if named else own
    yield "bound", record.evidence.bound, theorem.bound
    if record.evidence.variant not in theorem.variants:
        yield "variant", record.evidence.variant, theorem.variants
    yield "loss_if_unsure", record.loss_if_unsure, claim.unsure
    yield "labels", record.labels, (query.name,) if query.chooses else query.labels
    yield "total", record.total, None if query.chooses else query.total
    told, made = _as_asked(record.question), _as_asked(query.question)
    yield from (
        (f"question: {name}", canonical(told.get(name)), canonical(made[name])) for name in made
    )
    yield "noise: a noisy choice", record.noise == "noisy choice", query.chooses
    yield "noise: sech", record.noise == "discrete sech", record.mechanism == "shaped"
    if _digest_known(claim):
        options: dict[str, Any] = {}
        if record.evidence.horizon is not None:
            options["horizon"] = record.evidence.horizon
        if record.mechanism == "shaped":
            options["shape"] = claim.proof["shape"]["objective"]
        asked = requested(record.mechanism, theta, query, record.epsilon, options)
        yield "calibration (a digest)", record.calibration, digest(asked)


def _not_within(claim: Claim) -> Iterator[str]:
    """Lengths that do not agree with each other or with those that the guarantee covers."""
    record, evidence = claim.record, claim.record.evidence
    named = None if claim.theta is None else claim.theta.entries
    if named is not None and tuple(record.lengths) != (len(named),):
        yield f"lengths: the beliefs are about {len(named)} entries, not {list(record.lengths)}"
    if claim.longest < max(record.lengths):
        yield f"horizon: is {claim.longest}, but there are segments of {max(record.lengths)}"
    gaps = evidence.counted == "observed" or claim.proof.get("pattern")
    if evidence.horizon is not None and gaps:
        yield "horizon: the other windows of an account may have no gaps"
    for name in ("horizon", "beside"):
        if getattr(evidence, name) and record.mechanism != "influence_curve":
            yield f"{name}: {record.mechanism} does not share its promise with other releases"
    # Where gaps are counted, and of sums, a shorter segment may be the hardest.
    any_may = evidence.counted == "observed" or evidence.bound in ("distance", "window")
    may_bind = record.lengths if any_may else (claim.longest,)
    if named is None and evidence.length not in (None, *may_bind):
        yield f"lengths: the longest is {claim.longest}, in the evidence {evidence.length}"


def _not_believed(claim: Claim) -> Iterator[str]:
    """What does not follow from the beliefs: debt, step, states."""
    record, theta = claim.record, claim.theta
    if theta is None:
        return
    debt = owed(theta.sources)
    if debt is not None and (record.evidence.bought or 0.0) < debt.entry_epsilon:
        yield f"bought: the beliefs were {debt.words}, and neither release nor account holds that"
    if not same_step(theta.step, record.step):
        yield (
            f"step: the data have an entry every {of_seconds(record.step)}, the beliefs are about "
            f"entries {of_seconds(theta.step)} apart"
        )
    known = set(theta.states)
    for part in (part for part in claim.parts if part.asks is not None):
        named = {*(part.states or ()), *(part.rows or ())}
        if named - known or (part.states is not None and named != known):
            strange = sorted(map(str, named - known or named))
            yield f"question: {strange} are not the states of the beliefs"


def _digest_known(claim: Claim) -> bool:
    """Whether the record holds a digest, and all that was asked.

    It does not for a function of the user's own, several questions, gaps, options of quilts, or
    noise beside other spending or for each coordinate.
    """
    record = claim.record
    whole = record.observed is None and record.scales is None and not record.evidence.beside
    known = record.calibration is not None
    plain = claim.query.asks is not None and record.kind != Several.kind
    quilts = record.mechanism in ("markov_quilt", "markov_quilt_approx")
    return known and whole and plain and not quilts and not claim.proof.get("secrets")


def _as_asked(question: Mapping[str, Any] | None) -> dict[str, Any]:
    """What was asked, and of each part, without what is read from the answer afterwards."""
    own = {name: value for name, value in (question or {}).items() if name != "derive"}
    if "parts" in own:
        own["parts"] = [{**part, "question": _as_asked(part["question"])} for part in own["parts"]]
    return own


def _not_moved(claim: Claim) -> Iterator[str]:
    """How far an entry moves the answer, and what it spends where coordinates differ."""
    record, query, kind = claim.record, claim.query, claim.record.kind
    if record.lipschitz < query.lipschitz * (1 - 1e-12):
        moved = f"{query.lipschitz:g}, not {record.lipschitz:g}"
        yield f"lipschitz: one entry moves the answer by {moved} ({kind})"
    if record.scales is None:
        return
    of_sums = kind == Several.kind or (query.weights is not None and not query.chooses)
    if record.mechanism != "influence_curve" or claim.theta is None or not of_sums:
        yield f"scales: {record.mechanism} has none for each coordinate of a {kind}"
    elif record.lipschitz / record.scale < float(claim.cost.max()) * (1 - TOLERANCE):
        yield "scales: spend more on an entry than one of the scale recorded for all would"


def _not_drawn(record: Release, query: Query) -> Iterator[str]:
    """Contradictions between the recorded noise and the answer.

    Discrete noise hides answers on the multiples of its unit and no others: two answers that are
    not a whole number of units apart have no output in common.
    """
    unit = record.unit
    if query.chooses and record.mechanism in ("gk16", "wasserstein", "exact_sum", "shaped"):
        yield f"mechanism: {record.mechanism} is for numbers with noise, not for a choice"
    if query.chooses and set(record.raw) - set((query.question or {})["levels"]):
        yield "raw: is not one of the levels"
    if (unit is not None) != (record.noise == "discrete laplace"):
        yield f"unit: discrete noise has one and Laplace noise has none, not {unit}"
    if unit is not None and not all(is_multiple(value, unit) for value in record.raw):
        yield f"raw: discrete noise leaves whole multiples of {unit}"
    if unit is not None and query.unit is not None and (query.unit / unit).denominator != 1:
        yield f"unit: entries do not add whole multiples of {unit}"


def is_multiple(value: float, unit: Fraction) -> bool:
    """Whether this is a whole multiple of the unit, rounded to a float."""
    return float(round(Fraction(value) / unit) * unit) == value


def not_shown(
    raw: Sequence[float],
    value: Sequence[float],
    said: str,
    totals: Sequence[float] | None,
    bounds: tuple[float, float] | None,
) -> Iterator[str]:
    """Differences between a value and the noisy answer, presented as is said."""
    if said == "as drawn":
        if tuple(value) != tuple(raw):
            yield "value: differs from raw, but is said to be the answer as drawn"
    elif said == "within range":
        if bounds is None or list(value) != [min(max(n, bounds[0]), bounds[1]) for n in raw]:
            yield "value: is not raw, cut to what is possible"
    elif totals is None or len(raw) % len(totals):
        yield "value: is said to be a histogram, but there is no known total"
    else:
        parts = np.array(raw, dtype=float).reshape(len(totals), -1)
        made = project_to_simplex(parts, np.array(totals)).ravel()
        most = 1e-9 * max(1.0, *totals, *np.abs(made))
        if len(value) != len(raw) or not np.all(np.abs(made - np.array(value)) <= most):
            yield "value: is not the nearest histogram to raw"


def assumptions(claim: Claim) -> Iterator[str]:
    """Assumptions that no recomputation from a file can check."""
    record, evidence = claim.record, claim.record.evidence
    drawn = "that noise of this scale was drawn, afresh and once"
    yield drawn if record.sampler is None else f"{drawn}, by {SAMPLER_NAMES[record.sampler]}"
    if record.noise == "noisy choice":
        yield "that the states have the values that the levels give them, in this order"
    if claim.theta is not None:
        yield from _believed(record, claim.theta)
    if (evidence.bought or 0.0) > (evidence.beside or 0.0):
        yield "that the account of these data holds what the beliefs were bought for"
    if record.guarantee is not Guarantee.ENTRY:
        yield "that the segments are as long as recorded, and independent of one another"
    if record.observed is not None:
        yield "that the entries were observed, or not, as recorded; which they are may itself tell"
    for part in (part for part in claim.parts if part.asks is None and part.weights is None):
        moved = f"that one entry moves {part.name!r} by at most {part.lipschitz:g}"
        yield f"{moved}, as the author of the query states"
        if part.unit is not None:
            yield f"that its answers are whole multiples of {part.unit}, as the author states"
    if record.noise != "noisy choice" and any(map(_valued, claim.parts)):
        yield "that the states have the values that the weights give them"
    if any(part.asks is not None and part.asks.clocked for part in claim.parts):
        yield "that the entries were at the times that the question says"
    yield "what else was released about the same data; that is in the ledger"


def _believed(record: Release, theta: Beliefs) -> Iterator[str]:
    """What is taken on trust of the beliefs, and of how the data fit them."""
    yield "that the beliefs hold for the data, and for every adversary that matters"
    told = (record.beliefs or {}).get("fitted_on") or []
    sources = [told] if isinstance(told, Mapping) else told
    if any((own.get("bought") or {}).get("for_others") for own in sources):
        yield "that the data are other than those the beliefs were bought from, as declared"
    if theta.entries is None:
        unknown = step_assumed(theta.step, record.step)
        if unknown is not None:
            yield f"that entries are as far apart as the beliefs take them to be: {unknown}"
        if theta.fixed_start is not None:
            yield "that every segment begins as the beliefs say: with the given start"


def _valued(query: Query) -> bool:
    """Whether the answer depends on numbers that the author gave to states."""
    if query.asks is None:
        return query.weights is not None
    forms = {own.metadata.get("form") for own in fields(query.asks)}
    return bool(forms & {"values", "weights"})


# --- tables ---------------------------------------------------------------------------------------

_MOST_NAMED = 5
_OTHERS = {"subject", "group", "window_start", "entries", "scale", "note"}
"""Columns of a table beside the answers."""


class ReleaseTable:
    """Releases of one question: what they have in common, and columns of equal length."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        check_format("releases", data)
        check_record("releases", data, "releases", KINDS)
        self.data, self.kind, self.labels = data, data["kind"], data["labels"]
        self.question: Question = question_of(self.kind, data["question"])
        states = data["question"].get("states")
        if not isinstance(states, list) or not states:
            raise ValueError("releases: the question does not name the states")
        self.states = checks.distinct_states(decoded(states))
        columns = {name: own for name, own in data["rows"].items() if own is not None}
        self.columns = {"value": columns["raw"], **columns}
        self.size = len(columns["scale"])
        if {len(own) for own in columns.values()} != {self.size}:
            raise ValueError("releases: the columns of the rows are not equally long")
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
        keys = (name for name in ("subject", "group", "window") if name in self.columns)
        return " ".join([f"row {row + 1}", *(str(self.columns[key][row]) for key in keys)])

    def unit(self, row: int) -> Fraction:
        """The unit of the numbers of a row: the unit over a public number."""
        unit, per = self.question.grain(Over(self.states, (1,))), self.question.per
        return unit if per is None else unit / int(self.columns[per][row])

    def spare(self, row: int) -> float:
        """The noise of a row, in whole numbers."""
        return float(Fraction(float(self.columns["scale"][row])) / self.unit(row))

    def problems(self) -> Iterator[str]:
        """Problems of the rows other than their noise."""
        asked, noise = self.question, self.data["noise"]
        if asked.counting and not asked.chooses:
            wrong = list(asked.labels(Over(self.states, (1,)))) != self.labels
            if wrong:
                yield f"labels: are not those of a {self.kind} over these states"
        if asked.chooses != (noise == "noisy choice"):
            yield f"noise: a {self.kind} is not released by {noise}"
        seen, wrong = set[str](), list[str]()
        levels = set(self.data["question"]["levels"]) if asked.chooses else None
        for row, (raw, value) in enumerate(
            zip(self.columns["raw"], self.columns["value"], strict=True)
        ):
            name = self.name(row)
            key = name.partition(" ")[2].partition(" ")[2]
            if key in seen:
                wrong.append(f"{name}: appears twice, which would cost epsilon twice")
            seen.add(key)
            said = self.data["presentation"]
            shown = not_shown(raw, value, said, self._totals(row), self._bounds(row))
            if len(raw) != len(self.labels) or any(shown):
                wrong.append(f"{name}: value does not follow from raw")
            unit = self.unit(row)
            if noise == "discrete laplace" and not all(is_multiple(n, unit) for n in raw):
                wrong.append(f"{name}: discrete noise leaves whole multiples of {unit}")
            if levels is not None and not set(raw) <= levels:
                wrong.append(f"{name}: is not one of the levels")
        yield from wrong[:_MOST_NAMED]
        if len(wrong) > _MOST_NAMED:
            yield f"rows: {len(wrong) - _MOST_NAMED} more are wrong in this way"

    def _totals(self, row: int) -> list[float]:
        """The sums of a row without noise; for questions by time, slot by slot."""
        if "observed" in self.columns:
            return [float(seen) for seen in self.columns["observed"][row]]
        return [1.0 if self.question.per == "entries" else float(self.columns["entries"][row])]

    def _bounds(self, row: int) -> tuple[float, float] | None:
        if self.data["presentation"] != "within range" or self.question.clocked:
            return None
        entries = max(int(self.columns["entries"][row]), 1)
        return self.question.bind(self.states, entries).bounds

    def hardest(self) -> Iterator[tuple[str, Release]]:
        """For each length the row with the least noise, as a release about one such segment."""
        least: dict[int, int] = {}
        for row, length in enumerate(self.columns["length"]):
            if length not in least or self.spare(row) < self.spare(least[length]):
                least[length] = row
        for length, row in sorted(least.items()):
            query, noise = self.question.whole(self.states, length), self.calibrations[length]
            nothing = (0.0,) * query.size
            common = {name: self.data[name] for name in _OF_NOISE}
            stated = {name: noise.get(name) for name in ("evidence", "verification_data")}
            asked = {name: getattr(query, name) for name in _OF_QUERY}
            record = {
                **dict.fromkeys(Release.__dataclass_fields__),
                **common,
                **stated,
                **asked,
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
            told = str(cells.get("subject")).removeprefix("'")
            try:
                same = [float(cells[name]) for name in names] == [float(value) for value in own]
            except (KeyError, TypeError, ValueError):
                yield f"{path.name}: {self.name(row)} is not a row of numbers for {self.labels}"
                return
            if not same or (
                "subject" in self.columns and told != str(self.columns["subject"][row])
            ):
                yield f"{path.name}: {self.name(row)} is not what the record says"
                return


_OF_NOISE: tuple[str, ...]
_OF_NOISE = ("mechanism", "epsilon", "guarantee", "beliefs", "sampler", "step", "loss_if_unsure")
_OF_NOISE += ("released_at", "version")
_OF_QUERY = ("kind", "labels", "lengths", "lipschitz", "total", "question")
