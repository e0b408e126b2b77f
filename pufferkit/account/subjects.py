"""Many subjects at once: their noise, their accounts, and how their data are recognised.

Subjects are independent of one another, and so are the segments of one subject ([Q] 5.3.1). So the
noise that hides an entry depends only on its own segment, and subjects whose longest segments have
the same length share one calibration.

**Lengths.** Noise for a longer segment also hides the entries of a shorter one ("the longest is the
hardest"), so the least noise grows with the length, and no more once a chain has mixed. It is
computed for the shortest and the longest, then between those neighbours whose noise differs most.
The cost is that of a few calibrations for each doubling of the noise, whatever the number of
lengths.

**Runs.** Calibrations see lengths, never counts. There is a row for each subject and window.

**Recognition** is by counts, and of few subjects by entries too. The digest of a subject up to a
place is over the time of its first entry and the counts of all entries so far, so that it does not
depend on how windows are cut. Places are ends of pieces: the last and some before it. Counts of a
long stretch in several states are rarely equal by chance, and a few windows of them hardly ever;
where they are, it is no evidence (see `marks`).

**Payments.** Every subject has its own account. For its noise, a run over windows is one release:
no entry is in two windows, so all windows together are one query with the Lipschitz constant of
one, and epsilon covers all of them. What it costs, and that nothing is charged or drawn twice, is
the work of `pay`.
"""

from __future__ import annotations

import gc
import hashlib
import heapq
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from pufferkit import checks, noise
from pufferkit.account.amounts import allowed_micro, spent_pico
from pufferkit.account.chain import checked_name
from pufferkit.account.ledger import Read, TableAccounts
from pufferkit.account.marks import Data, SeriesData, Shingles
from pufferkit.account.pay import (
    Clock,
    Facts,
    Owed,
    Payer,
    Payment,
    Value,
    balance_of,
    check_affordable,
    data_of,
    horizon_of,
    short_of,
)
from pufferkit.account.periods import Period
from pufferkit.account.spending import Spending
from pufferkit.account.theorems import check_part
from pufferkit.beliefs.chain_class import ChainClass, as_chain_class
from pufferkit.checks import Floats
from pufferkit.data.exact_rows import Rows
from pufferkit.data.queries import Histogram, Quantile, RelativeFrequencies, rank_scores
from pufferkit.data.query import Over, Question, question
from pufferkit.data.table import Counts, Table, Windows
from pufferkit.errors import OverBudget
from pufferkit.mechanisms.calibration import Calibration
from pufferkit.mechanisms.influence_curve import endless, goes_on
from pufferkit.mechanisms.plan import COMPOSING, MECHANISMS
from pufferkit.mechanisms.quantiles import CHOSEN, better_way
from pufferkit.records import canonical, digest, plain
from pufferkit.rounding import round_up

# -- shared lengths ------------------------------------------------------------------------------


_SAME, _MOST = 1.02, 96
"""Noise that differs by less than this factor is shared; lengths to calibrate at most."""


def shared_lengths(lengths: Counts, scale: Callable[[int], float]) -> Counts:
    """Those of these lengths to calibrate, sorted; each of the others takes the next longer one.

    ``scale`` is the noise for a length. What a length takes is at most 2% above its own noise, or
    as little above it as 96 calibrations allow.
    """
    known = np.unique(lengths).tolist()
    last = len(known) - 1
    scale(known[last])  # where a length is refused, this one is
    chosen, apart = {0, last}, list[tuple[float, int, int]]()

    def compare(low: int, high: int) -> None:
        if high - low > 1:
            heapq.heappush(apart, (scale(known[low]) / scale(known[high]), low, high))

    compare(0, last)
    while apart and apart[0][0] * _SAME < 1 and len(chosen) < _MOST:
        _, low, high = heapq.heappop(apart)
        middle = int(np.searchsorted(known, math.sqrt(known[low] * known[high])))
        middle = min(max(middle, low + 1), high - 1)
        chosen.add(middle)
        compare(low, middle)
        compare(middle, high)
    return np.array([known[at] for at in sorted(chosen)])


# -- subject run ---------------------------------------------------------------------------------


FRESH_STARTS = (
    "every segment is assumed to start from it, also after a declared break; "
    "ChainClass.any_start does not assume that"
)

EVERYBODY = "(all subjects)"
"""The account that stores the values of releases over all subjects."""

CHUNK = 5000
"""Rows that are charged, drawn and stored together."""


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
    among: str = ""
    """What was asked at once, of which this is one question: then epsilon follows from it."""
    _calibrated: dict[int, Calibration] = field(default_factory=dict, compare=False, repr=False)
    """Calibrations by length, computed so far."""

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
        if mechanism not in COMPOSING:
            known = ", ".join(COMPOSING)
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
    def identity(self) -> str:
        """Key of the run, the same after a crash."""
        return digest(
            {
                "what": self.what,
                **({"among": self.among} if self.among else {"epsilon": self.epsilon}),
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
        return replace(self, chooses=True, _calibrated={}) if way == CHOSEN else self

    def paid_for(self, accounts: TableAccounts, names: Sequence[str], longest: int) -> FleetRun:
        """The run, with the longest series that these accounts may cover.

        For beliefs that do not mix it is declared, or that of the first table.
        """
        name, known, declared = names[0], None, accounts.horizon
        if declared is None and not goes_on(self.beliefs):
            opened = accounts.ledger.look(names).opened
            name = next(iter(opened), name)
            known = opened[name]["about"] if opened else None
        return replace(self, horizon=horizon_of(declared, self.beliefs, longest, known, name))

    @property
    def released(self) -> Question:
        """The question that is answered with noise: for a quantile perhaps the histogram."""
        return self.question if self.chooses else self.question.in_numbers()

    @cached_property
    def unit(self) -> Fraction:
        """The unit of the answer for the integers that get noise."""
        return self.question.grain(self.one_entry)

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

    def calibration(self, longest: int) -> Calibration:
        """The noise for the question over segments of at most this length, in whole units."""
        if longest not in self._calibrated:
            query = self.released.whole(self.beliefs.states, longest)
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


class Row(NamedTuple):
    """A row of a table and what it asks: entries ``first`` to ``last`` of a subject, from 1.

    Places include unobserved entries, by the clock; ``entries`` of them were observed. A row that
    arrives late, for a place that was unobserved when an earlier run was charged, may be part of a
    later run: the earlier run did not use it, the account counts it as if it had, and the later run
    pays for it again. ``part`` are the rows that it is one of, ``key`` that of its charge.
    """

    part: AskedRows
    account: str
    key: str
    subject: int
    lengths: tuple[int, ...]
    window: int
    first: int
    last: int
    entries: int
    calibration: Calibration

    @property
    def used(self) -> list[int]:
        """The window, the places, and the number observed if some were not."""
        return used_by(self.window, self.first, self.last, self.entries)


def used_by(window: int, first: int, last: int, entries: int) -> list[int]:
    """By which the entries are known that a row uses."""
    return [window, first, last, *([entries] if entries != last - first + 1 else [])]


def account_names(table: Table, prefix: str) -> list[str]:
    """The account of each subject; names must identify subjects."""
    names = [f"{prefix}{subject}" for subject in table.subjects]
    if f"{prefix}{EVERYBODY}" in names:
        raise ValueError(f"subject: {EVERYBODY!r} is the name of another account; rename it")
    if len(set(names)) < len(names):
        raise ValueError("subject: two subjects print alike; give them different names")
    return names


@dataclass(frozen=True, eq=False)
class AskedRows:
    """One question about the subjects of a table: exact rows, and the noise of each subject."""

    run: FleetRun
    table: Table
    rows: Rows
    used: Counts
    """The length for which each subject is calibrated."""
    calibrations: dict[int, Calibration]
    together: bool = False
    """Whether its subjects pay for one answer about all of them."""

    @cached_property
    def lengths(self) -> Counts:
        """The length for which each row is calibrated."""
        return self.used[self.rows.owner]

    @cached_property
    def made(self) -> list[Calibration]:
        """The calibration of each row."""
        return [self.calibrations[length] for length in self.lengths.tolist()]

    @cached_property
    def scales(self) -> Floats:
        """The noise of each row."""
        return np.array([calibration.scale for calibration in self.made])

    @cached_property
    def clock(self) -> Clock:
        """How the table counts entries; where each subject begins is added for each."""
        table = self.table
        return Clock(None, table.every, table.timezone, table.of_time and table.every is not None)

    def draw(self, which: Counts) -> Iterator[tuple[list[float], float]]:
        """Noisy values for these rows, each with its scale."""
        scales = self.scales[which]
        values = self.run.draw(self.rows.counts[which], scales)
        return zip(values.tolist(), scales.tolist(), strict=True)

    def of(self, prefix: str, which: Counts) -> list[Row]:
        """What each of these rows asks of its account."""
        rows, owner = self.rows, self.rows.owner[which]
        if not len(owner):
            return []
        lowest, keys = int(owner.min()), dict[Any, str]()
        lengths = self.table.lengths_between(lowest, int(owner.max()) + 1)
        asked = []
        columns = rows.owner, rows.window, rows.first, rows.last, rows.entries, self.lengths
        for number, window, first, last, entries, length in zip(
            *(column[which].tolist() for column in columns), strict=True
        ):
            alike: Any = window
            if self.together:
                alike = *used_by(window, first, last, entries), length
            if alike not in keys:
                keys[alike] = self._key(window, first, last, entries, length)
            asked.append(
                Row(
                    self,
                    f"{prefix}{self.table.subjects[number]}",
                    keys[alike],
                    number,
                    lengths[number - lowest],
                    window,
                    first,
                    last,
                    entries,
                    self.calibrations[length],
                )
            )
        return asked

    def _key(self, window: int, first: int, last: int, entries: int, length: int) -> str:
        """The key of what one subject pays: of a window of its own the same for every subject.

        What it pays for an answer about all is for these entries and this noise: a run that was
        killed, and goes on when other subjects have longer series, has other noise, which all pay
        for.
        """
        if not self.together:
            return digest({"run": self.run.identity, "window": window})
        b = spent_pico(self.calibrations[length].entry_epsilon)
        used = used_by(window, first, last, entries)
        return digest({"run": self.run.identity, "used": used, "noise": b})


Batch = Sequence[tuple[AskedRows, Counts]]
"""Some rows of each question, of whole subjects."""


def batches_of(asked: Sequence[AskedRows]) -> list[Batch]:
    """The rows of several questions in batches of whole subjects, by the rows of the first."""
    owner = asked[0].rows.owner
    starts = np.flatnonzero(np.append(True, np.diff(owner) != 0))
    ends, begin = list[int](), 0
    for start in starts[1:].tolist():
        if start - begin >= CHUNK:
            ends.append(int(owner[start]))
            begin = start
    split = [
        np.split(np.arange(len(one.rows.owner)), np.searchsorted(one.rows.owner, ends))
        for one in asked
    ]
    return [tuple(zip(asked, parts, strict=True)) for parts in zip(*split, strict=True)]


# -- subject recognition -------------------------------------------------------------------------


_BACK = (1, 2, 3, 5, 9, 17)
"""The ends of pieces that are recorded, counted from the last."""

_FEW = 1_000
"""For up to this many subjects stretches of entries are recorded too, if a table keeps them."""

_FEWER = 50
"""And for up to this many also those of thinned entries, which take some ten times as long."""


class SubjectData:
    """The counts of one subject, in some pieces of a table, as `fingerprints.Data`."""

    exact = False
    __slots__ = ("_ends", "_number", "_of", "_start", "length")

    def __init__(self, of: TableData, number: int, start: int, ends: list[int]) -> None:
        self._of, self._number, self._start, self._ends = of, number, start, ends
        self.length = ends[-1]

    @property
    def fellows(self) -> Collection[str]:
        return self._of.fellows

    @property
    def places(self) -> tuple[int, ...]:
        ends = self._ends
        return tuple([ends[-n] for n in reversed(_BACK) if n <= len(ends)])

    def prefixes(self, key: bytes, places: Iterable[int]) -> dict[int, bytes]:
        wanted = places if isinstance(places, (set, dict)) else set(places)
        words, begins = self._of.words, self._of.begins(self._number)
        return {
            place: hashlib.blake2b(
                b"%d %b %b" % (place, words[16 * number : 16 * number + 16], begins),
                key=key,
                digest_size=8,
                person=b"subject",
            ).digest()
            for number, place in enumerate(self._ends, self._start)
            if place in wanted
        }

    def information(self, place: int) -> float:
        return float(self._of.information[self._start + self._ends.index(place)])

    def otherwise(self, key: bytes, places: Collection[int]) -> dict[int, bytes]:
        del key, places  # counts do not tell the order of entries
        return {}

    def shingles(self, key: bytes) -> Sequence[Shingles]:
        table, number, known = self._of.table, self._number, self._of.shingles
        if table.codes is None or len(self._of) > _FEW:
            return ()
        if (key, number) not in known:
            codes, lengths = table.codes_of(number), table.lengths_of(number)
            few = len(self._of) <= _FEWER
            series = SeriesData(codes, table.states, lengths, thinned=few)
            known[key, number] = series.shingles(key)
        return known[key, number]


class TableData(Mapping[str, SubjectData]):
    """The data of each account of a table, put together when they are asked for.

    ``names`` are the accounts of the subjects, in order. For each piece there is the number of
    entries of its subject up to its end, a digest of the counts of these entries, and information.
    """

    def __init__(self, table: Table, names: Sequence[str]) -> None:
        # A sum of counts, each times a hash of its label: states that never occur do not matter.
        labels = [hashlib.sha256(str(state).encode()).digest()[:16] for state in table.states]
        weights = np.frombuffer(b"".join(labels), dtype="<u8").astype(np.uint64).reshape(-1, 2)
        first = np.searchsorted(table.owner, np.arange(len(names) + 1))
        sums = np.cumsum(table.pieces, axis=0).astype(np.uint64)
        words = np.column_stack([(sums * weights[:, n]).sum(axis=1) for n in (0, 1)])
        ends = np.cumsum(table.sizes)
        begun = first[table.owner]
        words -= np.append(np.zeros((1, 2), dtype=np.uint64), words, axis=0)[begun]
        # One number of a view is read several times faster than one of an array.
        self._ends = (ends - np.append(0, ends)[begun]).data
        self.words = words.tobytes()
        present = (table.pieces > 0).sum(axis=1)
        self.information = 0.5 * (present - 1) * np.log(np.maximum(table.sizes, 1))
        self._first, self.table = first.data, table
        self.shingles: dict[tuple[bytes, int], Sequence[Shingles]] = {}
        self._numbers = {name: number for number, name in enumerate(names)}
        self.fellows = self._numbers.keys()
        # Of recurring slots, only the sum over all is a stretch of the series.
        self._in_slots = table.windows is not None and table.windows.repeats is not None

    def __getitem__(self, name: str) -> SubjectData:
        number = self._numbers[name]
        start, stop = self._first[number], self._first[number + 1]
        if self._in_slots:
            start = stop - 1
        return SubjectData(self, number, start, self._ends[start:stop].tolist())

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)

    def begins(self, number: int) -> bytes:
        """The time of a subject's first entry, as text."""
        if self.table.begins is None:
            return b""
        time = self.table.begins[number]  # some engines return 3.0 for 3
        whole = math.isfinite(time) and time == int(time)
        return (str(int(time)) if whole else repr(time)).encode()


# -- accounts ------------------------------------------------------------------------------------


CHANGED = (
    "table: its rows changed during this call; give a table that does not change, such as one "
    "that was written to files"
)
_FITS = "ask for less, or repeat an earlier run's label to get its values at no cost"


class SharedValue(NamedTuple):
    """The value of a run over all subjects, which one account keeps: how it is drawn."""

    run: FleetRun
    facts: Facts
    draw: Callable[[], Value]

    @property
    def key(self) -> str:
        """The key of its record."""
        return digest({"run": self.run.identity, "record": True})


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without searches for cycles of objects.

    A batch makes many objects, without cycles, and each search would walk through all of them.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


class Accounts:
    """The accounts of the subjects of a table, which pay for a run.

    Parameters
    ----------
    accounts
        The ledger, the names of the accounts and the budget of each.
    run
        The run that is released; of several one, whose beliefs and horizon all have.
    data
        The data of each account, where they can be recognised.
    """

    def __init__(
        self, accounts: TableAccounts, run: FleetRun, data: Mapping[str, Data] | None = None
    ) -> None:
        budget, meant = allowed_micro(accounts.budget), accounts.confirm_data
        self.ledger, self.prefix, self.run = accounts.ledger, accounts.prefix, run
        self._terms = self.ledger, run.beliefs, run.horizon, budget
        self._data, self._meant, self._keeper = data or {}, meant, f"{self.prefix}{EVERYBODY}"
        notes = run.beliefs.caveats
        self._notes: Facts = (("notes", tuple(notes)),) if notes else ()
        self._forget()

    def _forget(self) -> None:
        """A new batch: prices and terms of the last one would grow with the number of subjects."""
        self._payer = Payer(*self._terms, confirm_data=self._meant)
        self._spendings: dict[Any, tuple[Spending, Facts]] = {}

    def check_all(self, batches: Iterable[Batch]) -> None:
        """Raise unless every account can pay; nothing is written.

        New accounts that are asked alike pay alike, so one of them stands for all.
        """
        alike: set[Any] = set()
        for batch in batches:
            self._check(batch, alike)

    @_uncollected()
    def _check(self, batch: Batch, alike: set[Any]) -> None:
        rows, read = self._look(batch)
        of_account: dict[str, list[Row]] = {}
        for row in rows:
            of_account.setdefault(row.account, []).append(row)
        telling = list[Row]()
        for name, own in of_account.items():
            asked = tuple(
                (r.part.run.identity, r.lengths, r.first, r.last, r.calibration.digest) for r in own
            )
            if name in read.balances or asked not in alike:
                telling += own
            if name not in read.balances:
                alike.add(asked)
        payments = self._payments(telling, read)
        check_affordable(self._payer.owing(read, payments), _refused)
        fresh = {n: self._data[n] for n in of_account if n not in read.opened and n in self._data}
        self.ledger.check_data(data_of(payments) | fresh, confirm_data=self._meant)

    @_uncollected()
    def pay(
        self, batch: Batch, shared: Sequence[SharedValue] = (), used: str = "", least: int = 0
    ) -> tuple[list[Value], int]:
        """Charges and values of all rows in one transaction, each once, and the largest total.

        The stored value counts, whoever wrote it: existing values are returned unchanged, and a
        draw is dropped if another process stored its value first. With ``shared`` the values are
        those over all subjects, of the entries with the digest ``used``, and the account that
        keeps them is charged in the same transaction; ``least`` is the largest total before.
        """
        rows, read = self._look(batch, [one.key for one in shared])
        asked, stored = self._payments(rows, read), self._stored(shared, read, used)
        if stored:
            self.ledger.check_data(data_of(asked), confirm_data=self._meant)
            return stored, least
        asked += [self._record(one, read, least) for one in shared]

        def draw(numbers: Sequence[int]) -> list[Value]:
            if shared:
                return [{**shared[n - len(rows)].draw(), "used": used} for n in numbers]
            drawn, begin, wanted = dict[int, Value](), 0, np.array(numbers)
            for part, which in batch:
                own = wanted[(wanted >= begin) & (wanted < begin + len(which))]
                values = part.draw(which[own - begin]) if len(own) else ()
                for number, (value, scale) in zip(own.tolist(), values, strict=True):
                    drawn[number] = {
                        "value": value,
                        "scale": scale,
                        "window": asked[number].spending.window,
                        "entries": rows[number].entries,
                    }
                begin += len(which)
            return [drawn[number] for number in numbers]

        values, total = self._payer.pay(asked, draw, read=read, refused=_refused)
        # Another process may have drawn in the meantime.
        for one, value in zip(shared, values, strict=bool(shared)):
            _check_used(one, value, used)
        if not shared:
            self._check_stored(rows, asked, values)
        return values, total

    def pay_together(
        self,
        batches: Callable[[], Iterable[Batch]],
        shared: Sequence[SharedValue],
        entries: int | None = None,
    ) -> list[Value]:
        """Releases over all subjects, whose values the account of everybody keeps.

        Values that are stored are returned. One batch is one payment. Of more, all accounts are
        checked before one is charged, and values are drawn when the last pays. If another process
        spends in the meantime, or this one is killed, some have paid and nothing is drawn; the same
        call continues from there. ``entries`` is their number, if it can change during the call.
        """
        used, count = Used(), 0
        for batch in batches():
            used.add(self._rows(batch))
            count += 1
        if entries not in (None, used.entries):
            raise ValueError(CHANGED)
        if count > 1:
            read = self.ledger.look([self._keeper], [one.key for one in shared])
            stored = self._stored(shared, read, used.digest)
            if stored:
                for batch in batches() if self._data else ():
                    self.pay(batch, shared, used.digest)  # which refuses data that changed
                return stored
            self.check_all(batches())
        total, again, held = 0, Used(), list[Batch]()
        for batch in batches():
            for before in held:
                total = max(total, self.pay(before)[1])
            again.add(self._rows(batch))
            held = [batch]
        if again.digest != used.digest:
            raise ValueError(CHANGED)
        return self.pay(held[0], shared, used.digest, total)[0]

    # -- payments ------------------------------------------------------------------------------

    def _rows(self, batch: Batch) -> list[Row]:
        return [row for part, which in batch for row in part.of(self.prefix, which)]

    def _look(self, batch: Batch, kept: Sequence[str] = ()) -> tuple[list[Row], Read]:
        """The rows of a batch, and what the ledger holds of them, in one read."""
        self._forget()
        rows = self._rows(batch)
        names = [checked_name("account", n) for n in dict.fromkeys(row.account for row in rows)]
        keys = list(dict.fromkeys(row.key for row in rows))
        keeper = [self._keeper] if kept else []
        return rows, self.ledger.look([*names, *keeper], [*keys, *kept])

    def _payments(self, rows: Sequence[Row], read: Read) -> list[Payment]:
        """What rows ask of their accounts; refuses a label that was used for other entries."""
        asked = [self._payment(row, read) for row in rows]
        values = [read.values.get((one.account, one.key)) for one in asked]
        stored = [number for number, value in enumerate(values) if value is not None]
        self._check_stored(
            *([column[n] for n in stored] for column in (rows, asked, values))  # type: ignore[arg-type]
        )
        return asked

    def _payment(self, row: Row, read: Read) -> Payment:
        """What a row asks of its account, in the numbering of the account."""
        opened, table, part = read.opened.get(row.account), row.part.table, row.part
        known = None if opened is None else opened["about"]
        begins = None if table.begins is None else table.begins[row.subject]
        clock = part.clock._replace(begins=begins)
        step = table.step if clock.told and begins is not None else None
        about, offset, lengths = self._payer.placed(row.account, known, row.lengths, clock, step)
        run, endless_noise = part.run, row.calibration.evidence.horizon is not None
        if offset and not endless_noise:
            check_part(run.beliefs, run.mechanism, (offset + 1, sum(lengths)), lengths)
        spending, facts = self._spent(row, offset)
        return Payment(
            row.account,
            row.key,
            self._payer.terms(about, known),
            spending,
            lengths,
            facts,
            release=run.identity,
            stores=not part.together,
            endless=endless_noise,
            clocked=clock.told,
            data=None if offset else self._data.get(row.account),
        )

    def _spent(self, row: Row, offset: int) -> tuple[Spending, Facts]:
        """What a row spends, and what its charge records; the same objects for rows alike."""
        run, made, window = row.part.run, row.calibration, (row.first + offset, row.last + offset)
        alike = run.identity, made.digest, window, row.entries
        if alike not in self._spendings:
            facts = {
                "query": run.query,
                "label": run.label,
                "run": run.identity,
                "entries": row.entries,
                "independent_after": row.part.table.independent_after,
                "calibration": made.digest,
                "scale": made.scale,
            }
            whole = (run.identity, made.digest)
            if whole not in self._spendings:
                self._spendings[whole] = Spending.of(made), ()
            spending = replace(self._spendings[whole][0], window=window, gaps=None)
            self._spendings[alike] = spending, (*facts.items(), *self._notes)
        return self._spendings[alike]

    def _record(self, shared: SharedValue, read: Read, least: int) -> Payment:
        """What the account is asked that keeps a value for all."""
        run, known = shared.run, self._keeper in read.opened
        terms = self._payer.terms(
            {"beliefs": run.beliefs.digest, "keeps": "all subjects"}, {} if known else None
        )
        facts = (*shared.facts, ("label", run.label), ("epsilon", run.epsilon), *self._notes)
        more: dict[str, Any] = {"keeps": run.epsilon, "least": least}
        return Payment(self._keeper, shared.key, terms, None, (), facts, **more)

    def _stored(self, shared: Sequence[SharedValue], read: Read, used: str) -> list[Value]:
        """The stored values if all are there: they were drawn after everybody had paid."""
        values = list[Value]()
        for one in shared:
            value = read.values.get((self._keeper, one.key))
            if value is not None:
                balance_of(read, self._keeper, self._record(one, read, 0).terms)
                _check_used(one, value, used)
                values.append(value)
        return values if len(values) == len(shared) else []

    # -- refusals ------------------------------------------------------------------------------

    def _check_stored(
        self, rows: Sequence[Row], asked: Sequence[Payment], values: Sequence[Value]
    ) -> None:
        """Refuse values that were made of other entries of a window."""
        if rows and rows[0].part.together:
            return
        for row, one, stored in zip(rows, asked, values, strict=True):
            assert one.spending is not None
            label, window = row.part.run.label, list(one.spending.window)
            if list(stored["window"]) != window:
                raise ValueError(
                    f"label: the run {label!r} was made for other data of {row.account!r} (entries "
                    f"{stored['window']}, now {window}); give this one another label"
                )
            if stored["entries"] != row.entries:
                raise ValueError(
                    f"label: the run {label!r} used {stored['entries']} entries of "
                    f"{row.account!r} in this window, and now there are {row.entries}: rows "
                    "arrived late; leave them out, or give this run another label, which pays for "
                    "the whole window again"
                )


def _check_used(shared: SharedValue, stored: Value, used: str) -> None:
    """Refuse a value that was made of other entries."""
    if stored["used"] != used:
        raise ValueError(
            f"label: the run {shared.run.label!r} was made for other data; give this one another "
            "label"
        )


def _refused(owed: Owed) -> OverBudget:
    return short_of(owed, _FITS)


class Used:
    """The entries that releases use: their number, and a digest that does not know an order."""

    def __init__(self) -> None:
        self.entries, self._rows, self._sum = 0, 0, 0

    def add(self, rows: Iterable[Row]) -> Used:
        """With these too."""
        for row in rows:
            line = canonical([row.account, *row.used]).encode()
            self._sum += int.from_bytes(hashlib.sha256(line).digest(), "big")
            self._rows += 1
            self.entries += row.entries
        return self

    @property
    def digest(self) -> str:
        """The same for the same entries."""
        return digest({"rows": self._rows, "sum": f"{self._sum % 2**256:x}"})
