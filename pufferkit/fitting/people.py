"""Public data of people: coded sequences, counts of transitions by part of the day, kernels.

A coded sequence is an array of whole numbers, the states of a person's entries in time order, with
`UNOBSERVED` where nothing was observed. It may come with an array of slots: the time of day of
every entry, counted in entries from 0. Without it the first entry is taken to be in slot 0.

Rows of a person or of a part of the day are shrunk towards everybody's by 20 pseudo-counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pufferkit import checks
from pufferkit.beliefs.hidden_model import shares
from pufferkit.beliefs.provenance import Provenance
from pufferkit.checks import Floats, Ints
from pufferkit.data.calendar import Calendar
from pufferkit.data.durations import DAY, MONDAY, ticks
from pufferkit.data.series import UNOBSERVED, Series, joined
from pufferkit.data.table import Table
from pufferkit.errors import NotApplicable

Codes = NDArray[np.intp]


def checked_people(people: Iterable[Any], states: int) -> list[Codes]:
    """The sequences as arrays of codes, or an error that names the person and the rule."""
    size = checks.whole("states", states, 1)
    coded = []
    for number, person in enumerate(people, 1):
        codes = np.asarray(person)
        if codes.ndim != 1 or codes.dtype.kind not in "iu" or codes.size == 0:
            raise ValueError(
                f"people: sequence {number} must be a row of whole numbers, the states from 0; "
                "give one such row for each person"
            )
        if codes.min() < UNOBSERVED or codes.max() >= size:
            raise ValueError(
                f"people: sequence {number} has states from {codes.min()} to {codes.max()}; they "
                f"must lie between 0 and {size - 1}, or be {UNOBSERVED} where nothing was observed"
            )
        coded.append(codes.astype(np.intp))
    if not coded:
        raise ValueError("people: must hold at least one sequence, got none")
    return coded


def checked_slots(slots: Sequence[Any] | None, people: Sequence[Codes], day: int) -> list[Codes]:
    """The time of day of every entry, from 0 to ``day - 1``."""
    if slots is None:
        return [np.arange(len(person)) % day for person in people]
    times = [np.asarray(row) for row in slots]
    if [row.shape for row in times] != [person.shape for person in people]:
        raise ValueError("slots: must be one row for each person, as long as the person's sequence")
    for row in times:
        if row.dtype.kind not in "iu" or (row.size and not 0 <= row.min() <= row.max() < day):
            raise ValueError(f"slots: must be whole numbers from 0 to {day - 1}, the times of day")
    return [row.astype(np.intp) for row in times]


def checked_levels(segment: ArrayLike, levels: int) -> Ints:
    """A segment of levels 0, ..., levels - 1, and -1 for unobserved entries, or an error."""
    codes = np.array(segment)
    if codes.ndim != 1 or (codes.size and codes.dtype.kind not in "iu"):
        raise ValueError("segments: each must be a row of whole numbers, the levels of its entries")
    codes = codes.astype(np.int64)
    if codes.size and not UNOBSERVED <= codes.min() <= codes.max() < levels:
        raise ValueError(
            f"segments: levels must lie between 0 and {levels - 1}, or be {UNOBSERVED} where "
            f"nothing was observed; got {codes.min()} to {codes.max()}"
        )
    return codes


def tuple_counts(segments: Iterable[ArrayLike], levels: int, width: int) -> Floats:
    """How often each tuple of ``width`` neighbours occurs; an array with ``width`` axes.

    Tuples lie within a segment and have no entry that was not observed.

    Examples
    --------
    >>> tuple_counts([[0, 1, 1, -1, 1, 0]], 2, 2).tolist()
    [[0.0, 1.0], [1.0, 1.0]]
    """
    size = checks.whole("levels", levels, 1)
    counts = np.zeros(size**width)
    for segment in segments:
        codes = checked_levels(segment, size)
        if len(codes) < width:
            continue
        shown = np.lib.stride_tricks.sliding_window_view(codes, width)
        shown = shown[(shown >= 0).all(axis=1)]
        numbers = shown @ (size ** np.arange(width - 1, -1, -1))
        counts += np.bincount(numbers, minlength=len(counts))
    return counts.reshape((size,) * width)


SHRINKAGE = 5.0
"""Pseudo-entries by which each row is shrunk towards that of one entry of memory less."""


def shrunk_tables(segments: Iterable[ArrayLike], levels: int, order: int) -> list[Floats]:
    """P_0, ..., P_m: tables with a memory of m entries, shrunk towards those of one entry less.

    With N the counts of tuples of neighbours within segments, all observed,

        P_m(y | x_1..x_m) = (N(x_1..x_m, y) + k P_{m-1}(y | x_2..x_m)) / (N(x_1..x_m, .) + k),

    down to P_0(y) = (N(y) + 1/2) / (n + levels / 2). So every tuple has a distribution of the next
    entry, every transition is possible, and a tuple that never occurred has the prediction of its
    newer part.
    """
    pieces = [checked_levels(segment, levels) for segment in segments]
    tables = [shares(tuple_counts(pieces, levels, 1) + 0.5)]
    for width in range(2, order + 2):
        tables.append(shares(tuple_counts(pieces, levels, width) + SHRINKAGE * tables[-1]))
    return tables


PARTS = 4
"""Number of parts of the day in a hull."""

SMOOTHING = 0.5
"""Added to every count of everybody's transitions."""

HOURS = 24
_TOWARDS_POOLED = 20.0


@dataclass(frozen=True, eq=False)
class People:
    """Public data of people, as series with the time of day.

    Attributes
    ----------
    series
        One for each person.
    day
        Number of entries in a day, or in another period; ``None`` if the time of day is unknown.
    firsts
        Slot of the first entry of each person; later segments begin at slot 0.
    """

    series: tuple[Series, ...]
    day: int | None
    firsts: tuple[int, ...]
    origin: int | None = None
    """Local time at slot 0, in microseconds since 1970; ``None`` if the time is unknown."""

    @classmethod
    def of(cls, people: Any, period: Any = None, firsts: Sequence[int] | None = None) -> People:
        """The people of a `Table`, or of a list with a `Series` for each of them.

        In a table with times and a regular step, ``period`` (by default a day) is a
        duration such as ``"7d"`` or a number of entries, and slots are counted from Monday at
        midnight. Without times it is a number of entries, and ``firsts`` is the slot at which each
        series begins, 0 if left out.
        """
        if isinstance(people, People):
            return people
        if isinstance(people, Table):
            if firsts is not None:
                raise ValueError(
                    "firsts: are known from the table; leave them out, or give a list of Series"
                )
            series = tuple(people.series(name) for name in people.subjects)
            day, begins = _clock(people, period)
            timed = day is not None and people.of_time and people.every is not None
            return cls(series, day, begins, MONDAY if timed else None)
        everybody = (people,) if isinstance(people, Series) else tuple(people)
        if not everybody or not all(isinstance(one, Series) for one in everybody):
            raise ValueError("people: must be a Table, or a list of Series, one for each person")
        if len({one.states for one in everybody}) > 1:
            raise ValueError("people: all must have the same states; read them with states=")
        day = None if period is None else checks.whole("period", period, 2)
        begins = (0,) * len(everybody) if firsts is None else tuple(int(slot) for slot in firsts)
        if len(begins) != len(everybody):
            raise ValueError(
                f"firsts: must have one slot for each of {len(everybody)} people, got {len(begins)}"
            )
        return cls(everybody, day, begins)

    @property
    def states(self) -> tuple[Any, ...]:
        """Labels of the states."""
        return self.series[0].states

    @cached_property
    def pooled(self) -> Series:
        """Everybody's segments, one after another."""
        return joined(self.series)

    @property
    def step(self) -> float | None:
        """Seconds from one entry to the next; ``None`` without a clock."""
        return self.pooled.step

    @cached_property
    def source(self) -> Provenance:
        """The provenance of beliefs fitted to these people."""
        return Provenance.of_series(self.pooled, SMOOTHING)

    def moves(self, parts: int) -> Floats:
        """Counts of transitions: people x parts of the day x states x states."""
        size = len(self.states)
        tables = np.zeros((len(self.series), parts, size, size))
        for number, one in enumerate(self.series):
            for segment, slots in zip(one.segments, self.slots(number), strict=True):
                seen = (segment[:-1] >= 0) & (segment[1:] >= 0)
                part = slots[:-1] * parts // self.day if self.day else np.zeros_like(slots[:-1])
                at = (part[seen], segment[:-1][seen], segment[1:][seen])
                np.add.at(tables[number], at, 1)
        return tables

    def slots(self, number: int) -> list[Any]:
        """Time of day of the entries of each segment of a person."""
        firsts = [self.firsts[number], *[0] * (len(self.series[number].lengths) - 1)]
        lengths = self.series[number].lengths
        return [
            (first + np.arange(length)) % (self.day or 1)
            for first, length in zip(firsts, lengths, strict=True)
        ]

    def without(self, number: int) -> People:
        """All people but one."""
        rest = [n for n in range(len(self.series)) if n != number]
        return self.only(rest)

    def only(self, numbers: Sequence[int]) -> People:
        """Some of the people."""
        return People(
            tuple(self.series[n] for n in numbers),
            self.day,
            tuple(self.firsts[n] for n in numbers),
            self.origin,
        )

    def slot_kernels(self, parts: int | None = None) -> list[Floats]:
        """Everybody's kernel for each slot of the period, counted by hour or by another part."""
        if self.day is None or self.day < 2:
            raise NotApplicable(
                "a seasonal chain needs the time of day: times with a regular step and no declared "
                "breaks, or a period as a number of entries"
            )
        several = min(HOURS if parts is None else checks.whole("slots", parts, 1), self.day)
        tables = self.moves(several).sum(axis=0)
        forward = _towards(tables, _smoothed(tables.sum(axis=0)))
        return [forward[slot * several // self.day] for slot in range(self.day)]

    def hull_kernels(self, parts: int = PARTS) -> tuple[list[Floats], list[Floats]]:
        """Kernels of everybody, each person and each part of each day; forward, then backward."""
        tables = self.moves(min(checks.whole("parts", parts, 1), self.day) if self.day else 1)
        own = tables.sum(axis=1)
        each = [own.sum(axis=0), *own]
        if tables.shape[1] > 1:
            each += [table for person in tables for table in person if table.sum() > 0]
        forward, backward = _smoothed(each[0]), _smoothed(each[0].T)
        return (
            [forward, *(_towards(table, forward) for table in each[1:])],
            [backward, *(_towards(table.T, backward) for table in each[1:])],
        )


def _clock(table: Table, period: Any) -> tuple[int | None, tuple[int, ...]]:
    """Entries in a period, and the slot of each subject's first entry, if they are known."""
    unknown = (0,) * len(table.subjects)
    if table.every is None or not table.of_time:
        return (None if period is None else checks.whole("period", period, 2)), unknown
    if period is None:
        length: float = DAY
    elif isinstance(period, int) and not isinstance(period, bool):
        length = checks.whole("period", period, 2) * table.every
    else:
        length = ticks("period", period, of_time=True)
    several = len(table.segment_lengths) > len(table.subjects)
    if length % table.every or length < 2 * table.every or several:
        if period is not None:
            raise ValueError(
                f"period: {period!r} needs a time step that divides it, and series without "
                "declared "
                "breaks, after which the time of day is unknown"
            )
        return None, unknown
    begins: Any = table.begins or unknown
    if table.timezone is not None:
        each = Calendar(list(begins), int(table.every), table.timezone)
        begins = each.times([1] * len(begins)).tolist()
    firsts = tuple(int((begin - MONDAY) % length // table.every) for begin in begins)
    return int(length // table.every), firsts


def _smoothed(counts: Floats) -> Floats:
    return shares(counts + SMOOTHING)


def _towards(counts: Floats, pooled: Floats) -> Floats:
    """Shares of counts, each row shrunk towards everybody's."""
    return shares(counts + _TOWARDS_POOLED * pooled)
