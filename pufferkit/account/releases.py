"""The noisy answers of many subjects or windows, and what a reader needs to judge them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from math import inf
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

import pufferkit
from pufferkit.beliefs.base import loss_if_unsure
from pufferkit.beliefs.provenance import PRIVATE_NOTE
from pufferkit.checks import Floats, Frozen
from pufferkit.data.query import KINDS, Over, Question
from pufferkit.data.series import declared_independent
from pufferkit.data.table import Windows
from pufferkit.mechanisms.calibration import Calibration
from pufferkit.mechanisms.post_processing import Derived, rank_error
from pufferkit.mechanisms.release import (
    FORMAT,
    Guarantee,
    Presentation,
    Release,
    half_width,
    project_to_simplex,
)
from pufferkit.noise import Family, Sampler
from pufferkit.records import JsonRecord
from pufferkit.shown import Shown


def note_of(private: bool, independent_after: str | None) -> str | None:
    """The note on every row of a table; ``None`` if there is none."""
    notes = [PRIVATE_NOTE] if private else []
    return "; ".join([*notes, *declared_independent(independent_after)]) or None


@dataclass(frozen=True, eq=False, repr=False)
class Releases(Shown, Frozen, JsonRecord):
    """One row for each release.

    Attributes
    ----------
    subjects
        Subject of each row; ``None`` for releases about all of them.
    windows
        Number of the window of each row; ``None`` if there are none.
    value
        Noisy answers, a column for each state; or the nearest valid histograms, according to
        ``presentation``. ``raw`` holds the numbers as drawn.
    scale, noise
        Scale and family of the noise on every number of a row; at least what the theorem requires.
    sampler
        The sampler; ``None`` if rows may have been drawn earlier and stored in accounts.
    entries
        Number of observed entries behind a row. Public.
    labels
        The states.
    query, mechanism, epsilon, guarantee
        The query and the promise. Epsilon covers all rows about a subject together, for the subject
        with the largest cost; it can exceed the requested one if a series grew between calls.
    cut
        How windows were cut.
    notes
        Remarks on the beliefs and on gaps.
    lengths, calibrations
        The length of segments that each row was calibrated for, and the calibration of each such
        length, for the record (`to_dict`).
    presentation
        Whether ``value`` is ``raw`` as drawn, or the nearest histogram to it.
    independent_after
        The time after which pieces were declared independent, as text.
    kind, question, observed
        What was asked, in the terms of records; and for questions by time, the entries
        observed in each slot. Public.
    groups
        The group of each row, for releases over groups of subjects.
    days
        For shares of days: the number of days. Public.
    step
        Seconds from one entry to the next; ``None`` if the data have no clock.
    asked
        The question object, by which `follows` derives its answer; ``None`` for histograms.

    Examples
    --------
    >>> import polars as pl
    >>> import pufferkit as pk
    >>> chain = pk.MarkovChain.steady([[0.8, 0.2], [0.3, 0.7]], states=["rest", "walk"])
    >>> codes = chain.sample(400, seed=1)
    >>> rows = pl.DataFrame({"t": range(400), "x": [chain.states[code] for code in codes]})
    >>> table = pk.read(rows, time="t", state="x", states=chain.states, window=100)
    >>> weeks = pk.release(table, chain, "histogram", 1, per="subject")
    >>> len(weeks), weeks.half_width().shape
    (4, (4,))
    >>> weeks.to_frame().columns
    ['subject', 'window_start', 'entries', 'scale', 'rest', 'walk']
    >>> most = weeks.follows(lambda row, level: row.derive("top states", count=1, level=level))
    >>> weeks.row(0).kind, most[0].what
    ('histogram', 'top 1 states')
    >>> weeks.as_drawn().presentation, weeks.as_histogram().presentation
    ('as drawn', 'nearest histogram')
    >>> counts = pk.release(table, chain, pk.count("walk"), 1, per="subject")
    >>> counts.within_range().presentation
    'within range'
    """

    _in_words = str

    subjects: tuple[Hashable, ...] | None
    windows: NDArray[np.int64] | None
    value: Floats
    raw: Floats
    scale: Floats
    entries: NDArray[np.int64]
    labels: tuple[str, ...]
    query: str
    mechanism: str
    epsilon: float
    guarantee: Guarantee
    cut: Windows | None = None
    notes: tuple[str, ...] = ()
    lengths: NDArray[np.int64] | None = None
    calibrations: Mapping[int, Calibration] = field(default_factory=dict)
    presentation: Presentation = "as drawn"
    independent_after: str | None = None
    noise: Family = "laplace"
    kind: str = "histogram"
    question: Mapping[str, Any] | None = None
    observed: NDArray[np.int64] | None = None
    groups: tuple[Hashable, ...] | None = None
    days: NDArray[np.int64] | None = None
    asked: Question | None = None
    sampler: Sampler | None = None
    step: float | None = None

    @property
    def totals(self) -> Floats | None:
        """The known sum of each row; ``None`` if there is none."""
        if self.observed is not None:
            return self.observed.astype(np.float64)
        asks = KINDS[self.kind]
        if not asks.binned:
            return None
        each = np.ones(len(self)) if asks.per == "entries" else self.entries
        return np.asarray(each, dtype=np.float64)[:, None]

    @property
    def units(self) -> list[Fraction | None]:
        """The unit of which each row's numbers are integer multiples; ``None`` if there is none."""
        if self.noise != "discrete laplace":
            return [None] * len(self)
        states = next(iter(self.calibrations.values())).query.states
        unit = Fraction(1) if self.asked is None else self.asked.grain(Over(states, (1,)))
        per = self.entries if self.asked is not None and self.asked.per == "entries" else self.days
        return [unit / (1 if per is None else int(per[row])) for row in range(len(self))]

    def __len__(self) -> int:
        return len(self.value)

    def caption(self) -> str:
        """The question, how many rows answer it, epsilon, mechanism and scale, in one line."""
        low, high = (f"{scale:.4g}" for scale in (self.scale.min(), self.scale.max()))
        scales = low if low == high else f"{low} to {high}"
        rows = "one row" if len(self) == 1 else f"{len(self):,} rows"
        noise = f"epsilon {self.epsilon:g}, noise scale {scales}"
        return f"{self.query}, {rows}: {self.mechanism}, {noise}"

    def warnings(self) -> list[str]:
        """Beliefs from the data themselves."""
        return [note for note in self.notes if note == PRIVATE_NOTE]

    def remarks(self) -> list[str]:
        """What is promised, and for which rows together."""
        rest = [note for note in self.notes if note != PRIVATE_NOTE]
        return [f"{self.guarantee}; epsilon is for all rows of a subject together", *rest]

    def half_width(self, level: float = 0.95) -> Floats:
        """Half the width of the confidence interval around each number of a row of ``raw``.

        For a quantile by noisy choice, the number of ranks it may be off.
        """
        if self.noise == "noisy choice":
            levels = len((self.question or {})["levels"])
            return np.array([rank_error(scale, levels, level) for scale in self.scale.tolist()])
        each = zip(self.scale.tolist(), self.units, strict=True)
        return np.array([half_width(scale, level, unit=unit) for scale, unit in each])

    def row(self, number: int) -> Release:
        """One row as a release, for derived answers by `Release.derive`.

        Epsilon is that of all rows about the subject; `verify` checks the whole table.
        """
        if self.lengths is None or not self.calibrations:
            raise ValueError(
                "releases: they have no calibrations, so no single release can be built"
            )
        length = int(self.lengths[number])
        own, totals = self.calibrations[length], self.totals
        question = None if self.question is None else dict(self.question)
        if question is not None and self.observed is not None:
            question["observed"] = self.observed[number].tolist()
        if question is not None and self.days is not None:
            question |= {"days": int(self.days[number])}
        return Release(
            value=tuple(self.value[number].tolist()),
            raw=tuple(self.raw[number].tolist()),
            scale=float(self.scale[number]),
            epsilon=self.epsilon,
            mechanism=own.mechanism,
            guarantee=self.guarantee,
            query=self.query,
            labels=self.labels,
            lengths=(length,),
            lipschitz=own.query.lipschitz,
            total=None if totals is None else float(totals[number].sum()),
            beliefs=None if own.beliefs is None else own.beliefs.to_dict(),
            evidence=own.evidence,
            released_at=datetime.now(UTC).isoformat(timespec="seconds"),
            version=pufferkit.__version__,
            kind=self.kind,
            presentation=self.presentation,
            noise=self.noise,
            sampler=self.sampler,
            unit=self.units[number],
            question=question,
            step=self.step,
            loss_if_unsure=loss_if_unsure(own.beliefs, self.epsilon),
        )

    def follows(
        self, read: Callable[[Release, float], Derived] | None = None, level: float = 0.95
    ) -> list[Derived]:
        """Answers derived from each row at no cost: variances, quantiles, curves, rates.

        Parameters
        ----------
        read
            Takes a release and a level. By default what the question was for, such as the
            quantile.
        level
            Confidence level of the intervals of each row.
        """
        if read is None and (self.question or {}).get("derive") is not None:
            read = _meant
        if read is None or self.noise == "noisy choice":
            raise ValueError(f"releases: {self.query} was released directly; see value")
        return [read(self.row(number), level) for number in range(len(self))]

    def as_histogram(self) -> Releases:
        """The nearest valid histograms: no negative bins, summing to the known total.

        For questions by time, slot by slot.
        """
        totals = self.totals
        if totals is None:
            raise ValueError(f"releases: {self.query} is not a histogram with a known total")
        parts = self.raw.reshape(totals.size, -1)
        nearest = project_to_simplex(parts, totals.ravel()).reshape(self.raw.shape)
        return replace(self, value=nearest, presentation="nearest histogram")

    def within_range(self) -> Releases:
        """The same with values cut to what is possible, where entries alone say what that is."""
        asks, states = self.asked, next(iter(self.calibrations.values())).query.states
        if asks is None or asks.clocked or asks.chooses:
            return self
        sizes, place = np.unique(self.entries, return_inverse=True)
        known = [asks.bind(states, max(int(size), 1)).bounds for size in sizes]
        if any(bounds is None for bounds in known):
            return self
        low, high = np.array(known, dtype=float)[place].T
        value = np.clip(self.raw, low[:, None], high[:, None])
        return replace(self, value=value, presentation="within range")

    def as_drawn(self) -> Releases:
        """The same with ``raw`` as the value: unbiased, and so suited to sums over many rows."""
        return replace(self, value=self.raw, presentation="as drawn")

    @property
    def starts(self) -> list[Any]:
        """Start of each row's window: in UTC or the zone of the windows, or a number."""
        if self.cut is None or self.windows is None:
            return []
        ticks = self.windows * self.cut.width + self.cut.origin
        if not self.cut.of_time:
            return [int(tick) for tick in ticks]
        zone = UTC if self.cut.timezone is None else ZoneInfo(self.cut.timezone)
        epoch = datetime(1970, 1, 1)
        return [(epoch + timedelta(microseconds=int(tick))).replace(tzinfo=zone) for tick in ticks]

    def table_rows(self) -> list[dict[str, Any]]:
        """The rows of `columns`, one by one."""
        columns = self.columns()
        return [
            dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)
        ]

    def columns(self) -> dict[str, list[Any]]:
        """The rows by column, for a table: subject, window, entries, scale, then the states.

        If the beliefs were fitted to private data, or pieces were declared independent, a column
        ``note`` records it.
        """
        columns: dict[str, list[Any]] = {}
        if self.subjects is not None:
            columns["subject"] = list(self.subjects)
        if self.groups is not None:
            columns["group"] = list(self.groups)
        if self.windows is not None:
            columns["window_start"] = self.starts
        columns["entries"] = self.entries.tolist()
        columns["scale"] = self.scale.tolist()
        note = note_of(PRIVATE_NOTE in self.notes, self.independent_after)
        if note is not None:
            columns["note"] = [note] * len(self)
        prefix = "state " if set(self.labels) & set(columns) else ""
        for number, label in enumerate(self.labels):
            columns[prefix + label] = self.value[:, number].tolist()
        if self.asked is not None and self.asked.replaced and self.noise != "noisy choice":
            columns |= _derived_columns(self.follows(), columns)
        return columns

    def to_dict(self) -> dict[str, Any]:
        """The record of the table, ready for JSON: what `verify` needs to check every row."""
        if self.lengths is None or not self.calibrations:
            raise ValueError("releases: they have no calibrations, so there is no record")
        used = [self.calibrations[int(n)] for n in np.unique(self.lengths)]
        beliefs = used[0].beliefs
        unsure = loss_if_unsure(beliefs, self.epsilon)
        rows: dict[str, Any] = {} if self.subjects is None else {"subject": list(self.subjects)}
        if self.groups is not None:
            rows["group"] = list(self.groups)
        if self.windows is not None:
            rows["window"] = self.windows.tolist()
        if self.days is not None:
            rows["days"] = self.days.tolist()
        drawn = self.presentation == "as drawn"
        return {
            "format": FORMAT,
            "kind": self.kind,
            "question": None if self.question is None else dict(self.question),
            "mechanism": used[0].mechanism,
            "epsilon": self.epsilon,
            "guarantee": self.guarantee.code,
            "promise": str(self.guarantee),
            "labels": list(self.labels),
            "beliefs": None if beliefs is None else beliefs.to_dict(),
            "loss_if_unsure": "unbounded" if unsure == inf else unsure,
            "calibrations": [
                {
                    "length": own.query.longest,
                    "epsilon": own.epsilon,
                    "calibration": own.digest,
                    "scale": own.scale,
                    "evidence": asdict(own.evidence),
                    "verification_data": own.verification_data,
                }
                for own in used
            ],
            "windows": None if self.cut is None else self.cut.to_dict(),
            "presentation": self.presentation,
            "noise": self.noise,
            "sampler": self.sampler,
            "step": self.step,
            "notes": list(self.notes),
            "released_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "version": pufferkit.__version__,
            "rows": {
                **rows,
                **({} if self.observed is None else {"observed": self.observed.tolist()}),
                "entries": self.entries.tolist(),
                "length": self.lengths.tolist(),
                "calibration": [self.calibrations[n].digest[:16] for n in self.lengths.tolist()],
                "scale": self.scale.tolist(),
                "raw": self.raw.tolist(),
                "value": None if drawn else self.value.tolist(),
            },
        }


def _meant(release: Release, level: float) -> Derived:
    return release.derive(level=level)


def _derived_columns(derived: list[Derived], taken: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The answer derived from each row: a value and its interval for each label.

    For the most frequent states, which differ between rows: the first, the second and so on.
    """
    first = derived[0]
    names = list(first.labels)
    columns: dict[str, list[Any]] = {}
    if first.what.startswith("top "):
        names = [f"top {number}" for number in range(1, len(names) + 1)]
        for n, name in enumerate(names):
            columns[name] = [own.labels[n] for own in derived]
        return columns
    if len(names) == 1:
        names = [first.what]
    prefix = f"{first.what}: " if set(names) & set(taken) else ""
    for n, name in enumerate(names):
        columns[prefix + name] = [own.value[n] for own in derived]
        columns[f"{prefix}{name}, low"] = [own.low[n] for own in derived]
        columns[f"{prefix}{name}, high"] = [own.high[n] for own in derived]
    return columns
