"""A run over many subjects: its question, its noise, and the rows it releases.

Calibrations see lengths, never counts. There is a row for each subject and window.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pufferkit import checks, noise
from pufferkit.accounting.account import horizon_of
from pufferkit.accounting.asked_window import Period
from pufferkit.accounting.ledger import Ledger
from pufferkit.beliefs.chain_class import ChainClass, as_chain_class
from pufferkit.checks import Floats
from pufferkit.data.exact_rows import Rows
from pufferkit.data.queries import Histogram, Quantile, RelativeFrequencies, rank_scores
from pufferkit.data.query import Over, Question, question
from pufferkit.data.table import Counts, Table, Windows
from pufferkit.fleet.shared_lengths import shared_lengths
from pufferkit.mechanisms.calibration import Calibration
from pufferkit.mechanisms.influence_curve import HORIZON, endless, goes_on
from pufferkit.mechanisms.plan import MECHANISMS
from pufferkit.mechanisms.quantiles import CHOSEN, better_way
from pufferkit.records import digest, plain
from pufferkit.rounding import round_up

MECHANISM_NAMES = (
    "influence_curve",
    "markov_quilt",
    "markov_quilt_approx",
    "markov_quilt_approx_tight",
    "gk16",
    "group_dp",
)

FRESH_STARTS = (
    "every segment is assumed to start from it, also after a declared break; "
    "ChainClass.any_start does not assume that"
)

EVERYBODY = "(all subjects)"
"""The account that stores the values of releases over all subjects."""

CHUNK = 5000
"""Rows that are charged, drawn and stored together."""

AT_ONCE = 100_000
"""Rows of a release over all subjects up to which one transaction charges all, in half a GB."""


@dataclass(frozen=True)
class FleetRun:
    """The question, beliefs and label of a run. Equal runs are the same run."""

    what: str
    beliefs: ChainClass
    epsilon: float
    question: Question
    mechanism: str
    label: str
    windows: Windows | None
    chooses: bool = False
    period: Period | None = None
    """The period to which whole series are cut."""
    horizon: int | None = None
    """With accounts, the longest series whose every entry could be asked like these (`endless`)."""
    _calibrated: dict[int, Calibration] = field(default_factory=dict, compare=False, repr=False)
    """Calibrations by length, computed so far; both ways to a quantile have the same noise."""

    @classmethod
    def of(
        cls,
        what: str,
        beliefs: Any,
        epsilon: float,
        query: str | Question,
        mechanism: str,
        label: str,
        windows: Windows | None,
    ) -> FleetRun:
        """A checked run; questions that need more than counts apply to whole series."""
        asked = query if isinstance(query, Question) else question(query)
        windows = windows if asked.counting else None
        if mechanism not in MECHANISM_NAMES:
            known = ", ".join(MECHANISM_NAMES)
            raise ValueError(f"mechanism: must be one of {known}, got {mechanism!r}")
        theta = as_chain_class(beliefs)
        if len(theta.states) < 2:
            raise ValueError("beliefs: a histogram needs at least two states")
        return cls(
            what,
            theta,
            checks.privacy(epsilon),
            asked,
            mechanism,
            str(label),
            windows,
        )

    @property
    def query(self) -> str:
        """The question in words."""
        return str(self.question)

    @property
    def of_states(self) -> bool:
        """Whether it is a histogram over the states, or their shares: what a cluster counts."""
        return type(self.question) in (Histogram, RelativeFrequencies)

    @cached_property
    def one_entry(self) -> Over:
        """The states, and a single entry: enough to ask a counting question."""
        return Over(self.beliefs.states, (1,))

    @cached_property
    def beliefs_digest(self) -> str:
        """Digest of the class Theta."""
        return self.beliefs.digest

    @cached_property
    def identity(self) -> str:
        """Key of the run, the same after a crash."""
        return digest(
            {
                "what": self.what,
                "epsilon": self.epsilon,
                "query": self.question.digest,
                "order": plain(self.question.labels(self.one_entry))
                if self.question.counting
                else None,
                "chooses": self.chooses,
                "mechanism": self.mechanism,
                "label": self.label,
                "windows": None if self.windows is None else self.windows.to_dict(),
                "period": None if self.period is None else self.period.key,
            }
        )

    def decided(self, entries: int, longest: int) -> FleetRun:
        """The run with the quantile method of smaller error for rows of this many entries.

        The choice depends on beliefs and numbers of entries, not on data. Other questions have one
        method.
        """
        asked = self.question
        if not isinstance(asked, Quantile):
            return self
        scale = self.calibration(longest).scale
        share, states = float(asked.share), tuple(asked.levels)
        way, _, _ = better_way(self.beliefs, states, share, entries, scale)
        return replace(self, chooses=way == CHOSEN)

    def paid_for(
        self, ledger: Ledger, names: Sequence[str], longest: int, declared: int | None
    ) -> FleetRun:
        """The run, with the longest series that these accounts may cover.

        For beliefs that do not mix it is declared, or that of the first table.
        """
        name, known = names[0], None
        if declared is None and not goes_on(self.beliefs):
            opened = ledger.look(names).opened
            name = next(iter(opened), name)
            known = opened[name]["about"] if opened else None
        horizon = horizon_of(declared, self.beliefs, longest, known, name)
        return replace(self, horizon=horizon.get("horizon", HORIZON))

    @property
    def released(self) -> Question:
        """The question that is answered with noise: for a quantile perhaps the histogram."""
        return self.question if self.chooses else self.question.in_numbers()

    @cached_property
    def unit(self) -> Fraction:
        """The unit of the answer for the integers that get noise."""
        return self.question.grain(self.one_entry)

    @property
    def per(self) -> str | None:
        """The public number of a row that its answer is divided by: entries, days or nothing."""
        return self.question.per

    def sampler(self, scales: Floats) -> noise.Sampler:
        """The sampler for these integer scales."""
        return "opendp" if self.chooses else noise.whole_sampler(scales.max(), Fraction(1))

    def draw(self, counts: Counts, scales: Floats) -> Floats:
        """Noise on integers, row by row; or levels by noisy choice."""
        if not self.chooses:
            return noise.discrete_laplace_rows(counts, scales[:, None]).astype(np.float64)
        assert isinstance(self.question, Quantile)
        share, levels = Fraction(self.question.share), list(self.question.levels.values())
        rows = ([Fraction(n) for n in row] for row in counts.tolist())
        places = [
            noise.noisy_choice(
                rank_scores(row, share),
                noise.choice_scale(float(scale), len(row)),
                share.denominator,
            )
            for row, scale in zip(rows, scales, strict=True)
        ]
        return np.array([[levels[place]] for place in places])

    def answers(self, values: Floats, scales: Floats, per: Counts | None) -> tuple[Floats, Floats]:
        """The draws in the unit of the answer, divided by the public divisor; scales rounded up."""
        if self.chooses or (self.unit == 1 and per is None):
            return values, scales
        if self.unit == 1 and per is not None:
            return noise.as_shares(values, scales, per)
        steps = [self.unit / (1 if per is None else int(per[row])) for row in range(len(values))]
        rows = zip(values.tolist(), scales.tolist(), steps, strict=True)
        made = [
            ([float(int(v) * step) for v in row], round_up(float(Fraction(scale) * step)))
            for row, scale, step in rows
        ]
        return np.array([row for row, _ in made]), np.array([scale for _, scale in made])

    def notes(self, table: Table, segmented: bool | None = None) -> tuple[str, ...]:
        """Remarks on the beliefs, and on what they assume about this table.

        ``segmented``: whether a subject has several segments, if the table is only a part.
        """
        if segmented is None:
            segmented = len(table.segment_lengths) > len(table.subjects)
        fixed = self.beliefs.fixed_start if segmented else None
        start = (f"{fixed} has a fixed initial distribution, and {FRESH_STARTS}",) if fixed else ()
        return (*self.beliefs.caveats, *start, *table.notes)

    def keys(self, windows: Iterable[int]) -> dict[int, str]:
        """Keys of the releases over these windows, the same for every subject."""
        run = self.identity
        return {window: digest({"run": run, "window": window}) for window in set(windows)}

    def calibration(self, longest: int) -> Calibration:
        """The noise for the question over segments of at most this length, in whole units."""
        if longest not in self._calibrated:
            query = self.question.whole(self.beliefs.states, longest)
            if self.horizon is not None and self.mechanism == "influence_curve":
                made = endless(self.beliefs, query, self.epsilon, self.horizon)
            else:
                made = MECHANISMS[self.mechanism](self.beliefs, query, self.epsilon)
            self._calibrated[longest] = made
        return self._calibrated[longest]

    def calibrations(self, longest: Counts) -> tuple[Counts, dict[int, Calibration]]:
        """For each subject the length it is calibrated for, and the calibration of each length.

        Where noise for a longer segment is hardly more, it serves the shorter one too.
        """
        if self.horizon is not None and self.mechanism == "influence_curve":
            most = int(longest.max())  # the same noise for all
            return np.full(len(longest), most), {most: self.calibration(most)}
        known = shared_lengths(longest, lambda length: self.calibration(length).scale)
        used = known[np.searchsorted(known, longest)]
        return used, {length: self.calibration(length) for length in known.tolist()}


class TableClock(NamedTuple):
    """How a table counts entries: by the time between them, or by rows if that is not known."""

    every: int | float | None
    of_time: bool
    zone: str | None
    independent_after: str | None

    @classmethod
    def of(cls, table: Table) -> TableClock:
        return cls(table.every, table.of_time, table.timezone, table.independent_after)

    @property
    def tells(self) -> bool:
        """Whether it tells the place of an entry in an account."""
        return self.of_time and self.every is not None


class PendingRelease(NamedTuple):
    """One release to pay for: entries ``first`` to ``last`` of a subject, counted from 1.

    Places include unobserved entries, by the clock. ``begins`` is the time of entry 1, so that the
    account detects a change of numbering. ``entries`` of the places were observed. A row that
    arrives late, for a place that was unobserved when an earlier run was charged, may be part of a
    later run: the earlier run did not use it, the account counts it as if it had, and the later run
    pays for it again.
    """

    account: str
    lengths: tuple[int, ...]
    window: int
    first: int
    last: int
    calibration: Calibration
    entries: int
    begins: int | float | None = None
    clock: TableClock = TableClock(None, False, None, None)

    @property
    def used(self) -> list[int]:
        """The places, and the number observed if some were not."""
        gaps = self.entries != self.last - self.first + 1
        return [self.first, self.last, *([self.entries] if gaps else [])]


def account_names(table: Table, prefix: str) -> list[str]:
    """The account of each subject; names must identify subjects."""
    names = [f"{prefix}{subject}" for subject in table.subjects]
    if f"{prefix}{EVERYBODY}" in names:
        raise ValueError(f"subject: {EVERYBODY!r} is the name of another account; rename it")
    if len(set(names)) < len(names):
        raise ValueError("subject: two subjects print alike; give them different names")
    return names


def pending_releases(
    table: Table,
    asked: Rows,
    rows: NDArray[np.int64],
    used: Counts,
    calibrations: dict[int, Calibration],
    prefix: str,
) -> list[PendingRelease]:
    """The release that each row charges to each account."""
    owner = asked.owner[rows]
    lowest = int(owner.min())
    lengths = table.lengths_between(lowest, int(owner.max()) + 1)
    asked_for = (asked.window, asked.first, asked.last, asked.entries)
    columns = (owner, used[owner], *(column[rows] for column in asked_for))
    clock = TableClock.of(table)
    return [
        PendingRelease(
            f"{prefix}{table.subjects[number]}",
            lengths[number - lowest],
            window,
            first,
            last,
            calibrations[length],
            entries,
            None if table.begins is None else table.begins[number],
            clock,
        )
        for number, length, window, first, last, entries in zip(
            *(column.tolist() for column in columns), strict=True
        )
    ]


def chunks_of(owner: Counts) -> list[NDArray[np.int64]]:
    """Rows in batches that keep a subject together."""
    starts = np.flatnonzero(np.append(True, np.diff(owner) != 0))
    parts, begin = [], 0
    for start in [*starts[1:].tolist(), len(owner)]:
        if start - begin >= CHUNK or start == len(owner):
            parts.append(np.arange(begin, start))
            begin = start
    return [part for part in parts if len(part)]
