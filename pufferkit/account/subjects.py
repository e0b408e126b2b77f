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
from numpy.typing import NDArray

from pufferkit import checks, noise
from pufferkit.account.accounts import horizon_of, kept, placed
from pufferkit.account.amounts import allowed_micro, spent_pico
from pufferkit.account.chain import checked_name
from pufferkit.account.ledger import Read, TableAccounts, Terms
from pufferkit.account.marks import Data, SeriesData, Shingles
from pufferkit.account.pay import (
    DrawValues,
    Owed,
    Paid,
    Payment,
    Prices,
    Value,
    check_affordable,
    owing,
    pay,
    short_of,
)
from pufferkit.account.periods import Period
from pufferkit.account.spending import Spending
from pufferkit.beliefs.chain_class import ChainClass, as_chain_class
from pufferkit.checks import Floats
from pufferkit.data.durations import SECOND
from pufferkit.data.exact_rows import Rows
from pufferkit.data.queries import Histogram, Quantile, RelativeFrequencies, rank_scores
from pufferkit.data.query import Over, Question, question
from pufferkit.data.table import Counts, Table, Windows
from pufferkit.errors import OverBudget
from pufferkit.mechanisms.calibration import Calibration
from pufferkit.mechanisms.influence_curve import HORIZON, endless, goes_on
from pufferkit.mechanisms.plan import MECHANISMS
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
        return replace(self, chooses=way == CHOSEN)

    def paid_for(self, accounts: TableAccounts, names: Sequence[str], longest: int) -> FleetRun:
        """The run, with the longest series that these accounts may cover.

        For beliefs that do not mix it is declared, or that of the first table.
        """
        name, known, declared = names[0], None, accounts.horizon
        if declared is None and not goes_on(self.beliefs):
            opened = accounts.ledger.look(names).opened
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
    run: FleetRun | None = None
    """Which of several runs it belongs to; ``None`` if there is only one."""

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


@dataclass(frozen=True, eq=False)
class AskedRows:
    """One question about the subjects of a table: exact rows, and the noise of each subject."""

    run: FleetRun
    rows: Rows
    used: Counts
    """The length for which each subject is calibrated."""
    calibrations: dict[int, Calibration]

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

    def pending(self, table: Table, prefix: str, which: Counts) -> list[PendingRelease]:
        """The release that each of these rows charges to its account."""
        rows, owner = self.rows, self.rows.owner[which]
        if not len(owner):
            return []
        lowest = int(owner.min())
        lengths = table.lengths_between(lowest, int(owner.max()) + 1)
        columns = (rows.window, rows.first, rows.last, rows.entries, self.lengths)
        clock = TableClock.of(table)
        return [
            PendingRelease(
                f"{prefix}{table.subjects[number]}",
                lengths[number - lowest],
                window,
                first,
                last,
                self.calibrations[length],
                entries,
                None if table.begins is None else table.begins[number],
                clock,
                self.run,
            )
            for number, window, first, last, entries, length in zip(
                *(column[which].tolist() for column in (rows.owner, *columns)), strict=True
            )
        ]


Batch = tuple[Counts, ...]
"""The numbers of some rows of each question."""


def batches_of(asked: Sequence[AskedRows]) -> list[Batch]:
    """The rows of several questions in batches that keep a subject together."""
    first, *rest = asked
    parts = chunks_of(first.rows.owner)
    ends = [int(first.rows.owner[part[0]]) for part in parts[1:]]

    def split(rows: Rows) -> list[Counts]:
        return np.split(np.arange(len(rows.owner)), np.searchsorted(rows.owner, ends))

    return list(zip(parts, *(split(other.rows) for other in rest), strict=True))


def chunks_of(owner: Counts) -> list[NDArray[np.int64]]:
    """Rows in batches that keep a subject together."""
    starts = np.flatnonzero(np.append(True, np.diff(owner) != 0))
    parts, begin = [], 0
    for start in [*starts[1:].tolist(), len(owner)]:
        if start - begin >= CHUNK or start == len(owner):
            parts.append(np.arange(begin, start))
            begin = start
    return [part for part in parts if len(part)]


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

DrawRows = Callable[[Sequence[int]], Iterable[tuple[list[float], float]]]
"""Noisy counts for the releases with these numbers, each with its scale."""


class SharedValue(NamedTuple):
    """The values of a run over all subjects, which one account keeps: how they are drawn."""

    run: FleetRun
    body: Mapping[str, Any]
    draw: Callable[[], Mapping[str, Any]]
    entries: int | None = None
    """The number of entries that the exact sums are of, if it can change during the call."""


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
    """The accounts of one run.

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
        self.ledger, self.run = accounts.ledger, run
        self._prefix, self._data, self._meant = accounts.prefix, data or {}, accounts.confirm_data
        self._budget, self._beliefs = allowed_micro(accounts.budget), kept(run.beliefs)
        self._prices = Prices(run.beliefs, run.horizon)
        self._terms: dict[Any, Terms] = {}
        self._spendings: dict[Any, Spending] = {}
        self._facts: dict[Any, Mapping[str, Any]] = {}
        self._keys: dict[tuple[str, int], str] = {}

    def check_all(
        self, batches: Iterable[Sequence[PendingRelease]], *, members: bool = False
    ) -> None:
        """Raise unless every account can pay; nothing is written.

        ``members`` pay for a release over all of them, whose value one other account keeps. New
        accounts that are asked alike pay alike, so one of them stands for all.
        """
        alike: set[Any] = set()
        for pending in batches:
            self._check(pending, alike, members=members)
            self.forget()

    @_uncollected()
    def _check(self, pending: Sequence[PendingRelease], alike: set[Any], *, members: bool) -> None:
        of_account: dict[str, list[PendingRelease]] = {}
        for release in pending:
            of_account.setdefault(checked_name("account", release.account), []).append(release)
        keys = [self._key(release, members=members) for release in pending]
        read = self.ledger.look(list(of_account), list(dict.fromkeys(keys)))
        known, telling = read.balances, list[PendingRelease]()
        for name, releases in of_account.items():
            asked = tuple(
                (self._run_of(r).identity, r.lengths, r.first, r.last, r.calibration.digest)
                for r in releases
            )
            if name in known or asked not in alike:
                telling += releases
            if name not in known:
                alike.add(asked)
        payments = self._asked(telling, read, members=members)
        check_affordable(owing(read, self._prices, payments), _refused)
        data = {one.account: one.data for one in payments if one.data is not None}
        data |= {n: self._data[n] for n in of_account if n not in known and n in self._data}
        if data:
            self.ledger.check_data(data, confirm_data=self._meant)

    @_uncollected()
    def pay(self, pending: Sequence[PendingRelease], draw: DrawRows) -> Paid:
        """Charges and values of all of them in one transaction, each once.

        The stored value counts, whoever wrote it: existing values are returned unchanged, and a
        draw is dropped if another process stored its value first.
        """
        read, asked = self._ask(pending)

        def drawn(numbers: Sequence[int]) -> list[Value]:
            return [
                {
                    "value": value,
                    "scale": scale,
                    "window": list(asked[number].spending.window),  # type: ignore[union-attr]
                    "entries": pending[number].entries,
                }
                for number, (value, scale) in zip(numbers, draw(numbers), strict=True)
            ]

        paid = self._paid(asked, drawn, read)
        for one in zip(pending, asked, paid.values, strict=True):
            self._check_stored(*one)  # another process may have drawn in the meantime
        return paid

    def pay_together(
        self,
        batches: Callable[[], Iterable[Sequence[PendingRelease]]],
        shared: Sequence[SharedValue],
    ) -> list[Value]:
        """Releases over all subjects, whose values the account of everybody keeps.

        Values that are stored are returned. One batch is one payment. Of more, all accounts are
        checked before one is charged, and values are drawn when the last has paid. If another
        process spends in the meantime, or this one is killed, some have paid and nothing is drawn;
        the same call continues from there.
        """
        total, used = 0, Used()
        alone: Sequence[PendingRelease] = ()
        for number, pending in enumerate(batches()):
            used.add(pending)
            alone = () if number else pending
        if any(one.entries not in (None, used.entries) for one in shared):
            raise ValueError(CHANGED)
        if not alone:
            keys = [_shared_key(one.run) for one in shared]
            read = self.ledger.look([self._shared_name], keys)
            stored = self._stored(shared, read, used.digest)
            if stored:
                return stored
            self.check_all(batches(), members=True)
            again = Used()
            for pending in batches():
                total = max(total, self.charge(pending))
                self.forget()
                again.add(pending)
            if again.digest != used.digest:
                raise ValueError(CHANGED)
        return self.pay_record(shared, used.digest, alone, least=total)

    @_uncollected()
    def charge(self, pending: Sequence[PendingRelease]) -> int:
        """Charge some members of a release whose value is stored in one place, each once.

        Nothing is drawn before `pay_record`, after all of them. Returns the largest total.
        """
        read, asked = self._ask(pending, members=True)
        return self._paid(asked, lambda _: (), read).total

    def _paid(self, asked: Sequence[Payment], draw: DrawValues, read: Read) -> Paid:
        meant = self._meant
        return pay(
            self.ledger, self._prices, asked, draw, read=read, confirm_data=meant, refused=_refused
        )

    def forget(self) -> None:
        """Drop the caches, which grow with the number of subjects."""
        self._facts.clear()
        self._spendings.clear()
        self._prices.known.clear()

    @property
    def _shared_name(self) -> str:
        return f"{self._prefix}{EVERYBODY}"

    @property
    def _shared_terms(self) -> Terms:
        return self._terms_of({"beliefs": self.run.beliefs.digest, "keeps": "all subjects"})

    def _stored(self, shared: Sequence[SharedValue], read: Read, used: str) -> list[Value]:
        """The stored values if all are there: they were drawn after everybody had paid."""
        name, values = self._shared_name, list[Value]()
        if name in read.balances:
            self._shared_terms.check(read.balances[name], read.opened[name])
        for one in shared:
            value = read.values.get((name, _shared_key(one.run)))
            self._check_used(one, value, used)
            values += [] if value is None else [value]
        return values if len(values) == len(shared) else []

    def _run_of(self, release: PendingRelease) -> FleetRun:
        return self.run if release.run is None else release.run

    @_uncollected()
    def pay_record(
        self,
        shared: Sequence[SharedValue],
        used: str,
        pending: Sequence[PendingRelease] = (),
        least: int = 0,
    ) -> list[Value]:
        """Draw and store values, and charge those of ``pending`` that `charge` did not.

        The account that keeps the values is charged in the same transaction, with the largest
        total. A run is drawn as a whole, so its label is for exactly these entries. ``used`` is a
        digest of them, ``least`` the largest total so far.
        """
        name, terms = self._shared_name, self._shared_terms
        keys = [_shared_key(one.run) for one in shared]
        read, members = self._ask(pending, members=True, keeps=(name, keys))
        stored = self._stored(shared, read, used)
        if stored:
            return stored
        asked = list(members)
        for one, key in zip(shared, keys, strict=True):
            facts = {
                **one.body,
                "label": one.run.label,
                "epsilon": one.run.epsilon,
                **self._notes,
            }
            asked.append(Payment(name, key, terms, None, (), facts, least=least))

        def draw(numbers: Sequence[int]) -> list[Value]:
            return [{**shared[n - len(members)].draw(), "used": used} for n in numbers]

        values = self._paid(asked, draw, read).values[-len(shared) :]
        for one, value in zip(shared, values, strict=True):
            # Another process may have drawn the same label for other entries in the meantime.
            self._check_used(one, value, used)
        return values

    # -- payments ------------------------------------------------------------------------------

    def _ask(
        self,
        pending: Sequence[PendingRelease],
        *,
        members: bool = False,
        keeps: tuple[str, Sequence[str]] | None = None,
    ) -> tuple[Read, list[Payment]]:
        """What the ledger holds of these, in one read, and what they ask of their accounts.

        ``keeps`` are the account and the keys of values that are kept for all. Refuses a label that
        was used for other entries of a window.
        """
        names = [checked_name("account", n) for n in dict.fromkeys(r.account for r in pending)]
        keys = [self._key(release, members=members) for release in pending]
        more = ((), ()) if keeps is None else ((keeps[0],), keeps[1])
        read = self.ledger.look([*names, *more[0]], [*dict.fromkeys(keys), *more[1]])
        return read, self._asked(pending, read, members=members)

    def _asked(
        self, pending: Sequence[PendingRelease], read: Read, *, members: bool
    ) -> list[Payment]:
        """What these ask of their accounts, given what was read."""
        asked = [
            self._payment(release, self._key(release, members=members), read, stores=not members)
            for release in pending
        ]
        for release, one in zip(pending, asked, strict=True):
            if (one.account, one.key) in read.values:
                self._check_stored(release, one, read.values[one.account, one.key])
        return asked

    def _payment(
        self, release: PendingRelease, key: str, read: Read, *, stores: bool = True
    ) -> Payment:
        """What a release asks of its account, in the numbering of the account."""
        opened = read.opened.get(release.account)
        terms, offset, lengths = self._place(release, None if opened is None else opened["about"])
        calibration = release.calibration
        data = None if offset else self._data.get(release.account)
        return Payment(
            release.account,
            key,
            terms,
            self._spending(calibration, (release.first + offset, release.last + offset)),
            lengths,
            self._fact(release),
            release=self._run_of(release).identity,
            stores=stores,
            endless=calibration.evidence.horizon is not None,
            clocked=release.clock.tells,
            data=data,
        )

    def _key(self, release: PendingRelease, *, members: bool) -> str:
        """The key of what one subject pays: of a window the same for every subject."""
        if members:
            return self._member_key(release)
        run = self._run_of(release).identity
        same = (run, release.window)
        if same not in self._keys:
            self._keys[same] = digest({"run": run, "window": release.window})
        return self._keys[same]

    def _member_key(self, release: PendingRelease) -> str:
        """The key of what one subject pays: for these entries, and for this noise.

        A run that was killed, and goes on when other subjects have longer series, has other noise,
        which all pay for.
        """
        b = spent_pico(release.calibration.entry_epsilon)
        return digest(
            {
                "run": self._run_of(release).identity,
                "used": [release.window, *release.used],
                "noise": b,
            }
        )

    def _place(
        self, release: PendingRelease, known: Mapping[str, Any] | None
    ) -> tuple[Terms, int, tuple[int, ...]]:
        """The terms of an account, the entries it had before the table, and all its segments."""
        clock, begins, beliefs = release.clock, release.begins, self.run.beliefs
        horizon = {} if self.run.horizon in (None, HORIZON) else {"horizon": self.run.horizon}
        if clock.tells and begins is not None:
            assert clock.every is not None
            every = int(clock.every)
            about, offset, lengths = placed(
                beliefs, known, release.lengths, int(begins), every, clock.zone
            )
            about["step"] = every / SECOND
        else:
            about, offset, lengths = placed(beliefs, known, release.lengths)
            about |= {"begins": begins, "every": clock.every}
            if known is not None:
                _check_rows(release, known)
        return self._terms_of({**about, **horizon}), offset, lengths

    def _terms_of(self, about: dict[str, Any]) -> Terms:
        key = tuple(about.items())
        if key not in self._terms:
            self._terms[key] = Terms(self._budget, "composed", about, self._beliefs)
        return self._terms[key]

    def _spending(self, calibration: Calibration, window: tuple[int, int]) -> Spending:
        """What a release spends; the same object for the same noise and places."""
        same = (calibration.digest, window)
        if same not in self._spendings:
            whole = (calibration.digest, None)
            if whole not in self._spendings:
                self._spendings[whole] = Spending.of(calibration)
            self._spendings[same] = replace(self._spendings[whole], window=window, gaps=None)
        return self._spendings[same]

    def _fact(self, release: PendingRelease) -> Mapping[str, Any]:
        """What a charge records; the same object for releases that are alike."""
        calibration, clock, run = release.calibration, release.clock, self._run_of(release)
        same = (run.identity, calibration.digest, release.entries, clock)
        if same not in self._facts:
            self._facts[same] = {
                "query": run.query,
                "label": run.label,
                "run": run.identity,
                "entries": release.entries,
                "independent_after": clock.independent_after,
                "calibration": calibration.digest,
                "scale": calibration.scale,
                **self._notes,
            }
        return self._facts[same]

    @property
    def _notes(self) -> dict[str, Any]:
        notes = self.run.beliefs.caveats
        return {"notes": list(notes)} if notes else {}

    # -- refusals ------------------------------------------------------------------------------

    def _check_stored(self, release: PendingRelease, one: Payment, stored: Value) -> None:
        """Refuse a value that was made of other entries of a window."""
        assert one.spending is not None
        label, name = self._run_of(release).label, release.account
        window = list(one.spending.window)
        if stored["window"] != window:
            raise ValueError(
                f"label: the run {label!r} was made for other data of {name!r} (entries "
                f"{stored['window']}, now {window}); give this one another label"
            )
        if stored["entries"] != release.entries:
            raise ValueError(
                f"label: the run {label!r} used {stored['entries']} entries of {name!r} in this "
                f"window, and now there are {release.entries}: rows arrived late; leave them out, "
                "or give this run another label, which pays for the whole window again"
            )

    def _check_used(self, shared: SharedValue, stored: Value | None, used: str) -> None:
        if stored is not None and stored["used"] != used:
            raise ValueError(
                f"label: the run {shared.run.label!r} was made for other data; give this one "
                "another label"
            )


def _shared_key(run: FleetRun) -> str:
    return digest({"run": run.identity, "record": True})


def _refused(owed: Owed) -> OverBudget:
    return OverBudget(f"{short_of(owed)}; {_FITS}")


def _check_rows(release: PendingRelease, known: Mapping[str, Any]) -> None:
    """Refuse entries that no clock tells and that are counted from another place than before."""
    name, clock, begins = release.account, release.clock, known.get("begins")
    if None not in (begins, release.begins) and begins != release.begins:
        moved = "earlier" if release.begins < begins else "later"  # type: ignore[operator]
        raise ValueError(
            f"table: the entries of {name!r} begin {moved} than when they were released, so they "
            "would be counted anew; give the whole series from the same beginning on"
        )
    if "every" in known and known["every"] != clock.every:
        raise ValueError(
            f"table: entries of {name!r} were {_apart(known['every'])} when they were released "
            f"and are {_apart(clock.every)} now, so they would be counted anew; every= puts them "
            "on the grid they were on"
        )


def _apart(step: int | float | None) -> str:
    return "rows without a clock" if step is None else f"{step} apart"


class Used:
    """The entries that releases use: their number, and a digest that does not know an order."""

    def __init__(self) -> None:
        self.entries, self._rows, self._sum = 0, 0, 0

    def add(self, pending: Iterable[PendingRelease]) -> Used:
        """With these too."""
        for release in pending:
            line = canonical([release.account, release.window, *release.used]).encode()
            self._sum += int.from_bytes(hashlib.sha256(line).digest(), "big")
            self._rows += 1
            self.entries += release.entries
        return self

    @property
    def digest(self) -> str:
        """The same for the same entries."""
        return digest({"rows": self._rows, "sum": f"{self._sum % 2**256:x}"})
