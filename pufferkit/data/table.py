"""The data of many subjects as aggregates, which are all that leaves a dataframe engine.

The unit is a *piece*: the entries of one subject that lie in one segment and one window. Pieces
are in time order, so the place of every piece within its series is known.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pufferkit import checks
from pufferkit.data.calendar import Calendar
from pufferkit.data.durations import SECOND, duration
from pufferkit.data.series import Series, declared_independent
from pufferkit.shown import Shown

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Windows:
    """Equal stretches of time, counted from ``origin``; in the units of the time column.

    With a ``timezone`` they are stretches of local time there: days and weeks, some of which are an
    hour longer or shorter than others. With ``repeats``, windows are that many recurring slots,
    such as the 168 hours of the week, and the pieces in them are not in time order.
    """

    width: int
    origin: int
    of_time: bool
    timezone: str | None = None
    repeats: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        plain = {"width": self.width, "origin": self.origin, "of_time": self.of_time}
        more = {"timezone": self.timezone, "repeats": self.repeats}
        return plain | {name: value for name, value in more.items() if value is not None}


@dataclass(frozen=True, eq=False, repr=False)
class Table(Shown, checks.Frozen):
    """Aggregates of many subjects: what their releases need, and nothing else.

    Attributes
    ----------
    subjects
        Their labels, sorted.
    states
        Labels of all states that can occur.
    owner, segment, window
        For each piece: the subject (its place in ``subjects``), the number of its segment within
        the subject from 0, and the number of its window. Sorted by all three.
    pieces
        How often each state was observed in each piece.
    transitions
        How often each state is followed by each other state one step later, over all subjects.
    windows
        The windows that were cut, if any.
    steps
        Smallest and largest time between neighbours in a segment; ``None`` if there are none.
    begins
        Time of the first entry of each subject, by which an account recognises the series.
    of_time
        Whether times are timestamps, counted in microseconds, and not numbers.
    first, last
        For each piece: places of its first and last observed entry within its segment, from 0. If
        left out, every entry was observed.
    spans
        Length of each segment, entries that were not observed included.
    every
        Time from one entry to the next in the units of the time column, by which places are
        counted; ``None`` if rows are counted.
    independent_after
        The time after which pieces were declared independent, in words; ``None`` if there are no
        such pieces.
    read_as
        What was inferred or assumed about the file, in words.
    codes
        The entries one by one, as places in ``states`` (-1: not observed), all segments one after
        another; ``None`` if there were too many rows, or if they are in another engine.
    starts
        Time of the first entry of each segment, in the order of the spans.
    timezone
        The time zone of local times, if one was named.
    groups
        By their column, the groups of the subjects.

    Examples
    --------
    >>> import polars as pl
    >>> import pufferkit as pk
    >>> rows = pl.DataFrame({"who": ["a", "a", "b"], "t": [1, 2, 1], "x": [0, 1, 1]})
    >>> table = pk.read(rows, subject="who", time="t", state="x", states=[0, 1])
    >>> table.subjects, table.sizes.tolist()
    (('a', 'b'), [2, 1])
    >>> print(table.report())
    2 subjects, 3 entries, 2 segments of 1 to 2
    """

    subjects: tuple[Hashable, ...]
    states: tuple[Hashable, ...]
    owner: Counts
    segment: Counts
    window: Counts
    pieces: Counts
    transitions: Counts
    windows: Windows | None = None
    steps: tuple[float, float] | None = None
    begins: tuple[int | float, ...] | None = None
    of_time: bool = False
    first: Counts | None = None
    last: Counts | None = None
    spans: Counts | None = None
    every: int | float | None = None
    independent_after: str | None = None
    read_as: tuple[str, ...] = ()
    codes: Counts | None = None
    starts: tuple[int | float, ...] | None = None
    timezone: str | None = None
    groups: Mapping[str, Mapping[Hashable, Hashable]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        size = len(self.states)
        shape = (len(self.owner), size)
        if self.pieces.shape != shape or self.transitions.shape != (size, size):
            raise ValueError(f"pieces: must have shape {shape}, got {self.pieces.shape}")
        if not self.subjects:
            raise ValueError("table: has no entries; there is nothing to release")
        if self.pieces.sum(axis=1).min() < 1:
            raise ValueError("pieces: every piece must have at least one entry")
        if not np.array_equal(np.unique(self.owner), np.arange(len(self.subjects))):
            raise ValueError("owner: every subject must have at least one piece")
        order = np.lexsort((self.window, self.segment, self.owner))
        if (order != np.arange(len(order))).any():
            raise ValueError("pieces: must be sorted by owner, segment and window")
        for name in ("owner", "segment", "window", "pieces", "transitions"):
            getattr(self, name).setflags(write=False)

    def __str__(self) -> str:
        return f"Table({self.report()})"

    def table_rows(self) -> list[dict[str, Any]]:
        """How often each state was observed, a row for each subject and window."""
        rows = []
        for owner, window, counts in zip(
            self.owner.tolist(), self.window.tolist(), self.pieces.tolist(), strict=True
        ):
            row: dict[str, Any] = {"subject": self.subjects[owner]}
            if self.windows is not None:
                row["window"] = window
            rows.append(row | {str(s): n for s, n in zip(self.states, counts, strict=True)})
        return rows

    def shown_rows(self) -> list[dict[str, Any]]:
        """What a notebook shows: subject, window and entries, which are public; never counts."""
        names = {str(state) for state in self.states}
        return [
            {name: value for name, value in row.items() if name not in names}
            | {"entries": sum(counts)}
            for row, counts in zip(self.table_rows(), self.pieces.tolist(), strict=True)
        ]

    @property
    def step(self) -> float | None:
        """Seconds from one entry to the next; ``None`` without even times that are timestamps."""
        return self.every / SECOND if self.of_time and self.every is not None else None

    @cached_property
    def sizes(self) -> Counts:
        """Number of observed entries of each piece."""
        return np.asarray(self.pieces.sum(axis=1), dtype=np.int64)

    @cached_property
    def counts(self) -> Counts:
        """How often each state occurs, a row for each subject."""
        counts = np.zeros((len(self.subjects), len(self.states)), dtype=np.int64)
        np.add.at(counts, self.owner, self.pieces)
        return counts

    @cached_property
    def totals(self) -> Counts:
        """Number of observed entries of each subject."""
        return np.asarray(self.counts.sum(axis=1), dtype=np.int64)

    @cached_property
    def _starts(self) -> tuple[Counts, Counts, Counts]:
        """Subject and length of each segment; index of the first segment of each subject."""
        new = np.ones(len(self.owner), dtype=bool)
        new[1:] = (np.diff(self.owner) != 0) | (np.diff(self.segment) != 0)
        at = np.flatnonzero(new)
        owners = self.owner[at]
        lengths = np.add.reduceat(self.sizes, at) if self.spans is None else self.spans
        first = np.searchsorted(owners, np.arange(len(self.subjects) + 1))
        return owners, lengths.astype(np.int64), first.astype(np.int64)

    @cached_property
    def places(self) -> tuple[Counts, Counts]:
        """Place of the first and of the last observed entry of each piece.

        They count from 1 within the subject, over all its segments.
        """
        if self.first is None or self.last is None:
            ends = np.cumsum(self.sizes)
            start = ends - self.sizes
            base = start[np.searchsorted(self.owner, self.owner)]
            return start - base + 1, ends - base
        owners, lengths, begin = self._starts
        before = np.cumsum(lengths) - lengths
        offset = before - before[begin[owners]] + 1
        new = np.ones(len(self.owner), dtype=bool)
        new[1:] = (np.diff(self.owner) != 0) | (np.diff(self.segment) != 0)
        own = offset[np.cumsum(new) - 1]
        return self.first + own, self.last + own

    @property
    def missing(self) -> int:
        """How many entries were not observed."""
        return int(self.segment_lengths.sum() - self.sizes.sum())

    @property
    def notes(self) -> tuple[str, ...]:
        """What the reader of a release must know about gaps."""
        notes = list(declared_independent(self.independent_after))
        if not self.is_regular:
            notes.append("times are uneven: consecutive rows are treated as one step apart")
        return tuple(notes)

    @property
    def segment_lengths(self) -> Counts:
        """Lengths of all segments, subject by subject, entries that were not observed included."""
        return self._starts[1]

    def lengths_of(self, number: int) -> tuple[int, ...]:
        """Lengths of the segments of the subject with this place in ``subjects``."""
        return self.lengths_between(number, number + 1)[0]

    def lengths_between(self, start: int, stop: int) -> list[tuple[int, ...]]:
        """Lengths of the segments of each subject from one place up to another."""
        _, lengths, first = self._starts
        ends = (first[start : stop + 1] - first[start]).tolist()
        own = lengths[first[start] : first[stop]].tolist()
        return [tuple(own[low:high]) for low, high in pairwise(ends)]

    @property
    def lengths(self) -> Iterator[tuple[int, ...]]:
        """Lengths of the segments of each subject."""
        return iter(self.lengths_between(0, len(self.subjects)))

    @cached_property
    def longest(self) -> Counts:
        """Length of the longest segment of each subject."""
        _, lengths, first = self._starts
        return np.asarray(np.maximum.reduceat(lengths, first[:-1]), dtype=np.int64)

    def series(self, subject: Hashable | None = None) -> Series:
        """The entries of one subject; it can be left out if there is only one.

        >>> import polars, pufferkit
        >>> rows = polars.DataFrame({"who": ["ann"] * 4, "day": [1, 2, 4, 5], "x": list("abba")})
        >>> pufferkit.read(rows, subject="who", time="day", state="x").series().labels
        ['a', 'b', None, 'b', 'a']
        """
        if subject is None and len(self.subjects) > 1:
            few = ", ".join(repr(name) for name in self.subjects[:3])
            raise ValueError(
                f"table: has {len(self.subjects):,} subjects; name one of them, for example "
                f"table.series({self.subjects[0]!r}); there are {few}"
                + (", ..." if len(self.subjects) > 3 else "")
            )
        if subject is not None and subject not in self.subjects:
            raise ValueError(f"subject: {subject!r} is not in the table")
        if self.codes is None:
            raise ValueError(
                "table: holds only counts, because it has more than a million rows or is in "
                "another engine; read the rows of this subject as a table of their own"
            )
        number = 0 if subject is None else self.subjects.index(subject)
        _, _, first = self._starts
        return Series(
            self.codes_of(number),
            self.states,
            self.lengths_of(number),
            self.independent_after,
            self.read_as,
            self._calendar(int(first[number]), int(first[number + 1])),
        )

    def codes_of(self, number: int) -> Counts:
        """The entries of the subject with this place in ``subjects``, of a table that has them."""
        assert self.codes is not None
        return self.codes[self._bounds[number] : self._bounds[number + 1]]

    @cached_property
    def _bounds(self) -> Counts:
        """Index of the first entry of each subject, and one past the last."""
        _, lengths, first = self._starts
        return np.concatenate([[0], np.cumsum(lengths)])[first]

    def _calendar(self, begin: int, end: int) -> Calendar | None:
        """The times of the entries of these segments; ``None`` without an even step."""
        if self.starts is None or not self.of_time or not isinstance(self.every, int):
            return None
        return Calendar(self.starts[begin:end], self.every, self.timezone)

    @property
    def calendar(self) -> Calendar | None:
        """The times of all segments, in their order; ``None`` without an even step."""
        return self._calendar(0, len(self.segment_lengths))

    @property
    def all_series(self) -> Series:
        """The entries of all subjects, each of them independent of the others."""
        if self.codes is None:
            raise ValueError(
                "table: holds only counts; read each subject's rows as a table of their own"
            )
        lengths = tuple(int(n) for n in self.segment_lengths)
        calendar = self._calendar(0, len(lengths))
        return Series(
            self.codes, self.states, lengths, self.independent_after, self.read_as, calendar
        )

    @property
    def is_regular(self) -> bool:
        """Whether entries are equally far apart in time, those that were not observed included."""
        even = self.steps is None or math.isclose(*self.steps, rel_tol=1e-9)
        return even or self.every is not None

    def report(self) -> str:
        """A summary in one line."""
        _, lengths, _ = self._starts
        parts = [
            _many(len(self.subjects), "subject"),
            _many(int(self.sizes.sum()), "entry", "entries"),
            _many(len(lengths), "segment") + f" of {_span(lengths.min(), lengths.max())}",
        ]
        if self.missing:
            parts.append(f"{self.missing:,} not observed")
        if self.windows is not None:
            parts.append(_many(len(np.unique(self.window)), "window"))
        if not self.is_regular and self.steps is not None:
            low, high = (duration(step) if self.of_time else f"{step:g}" for step in self.steps)
            parts.append(
                f"irregular: neighbours are {low} to {high} apart, without an even step; every= "
                "puts them on a grid, independent_after= declares distant ones independent"
            )
        if self.independent_after is not None:
            parts.append(f"declared independent after {self.independent_after}")
        if self.read_as:
            parts.append(f"read as: {'; '.join(self.read_as)}")
        return ", ".join(parts)


def _many(count: int, one: str, more: str = "") -> str:
    return f"{count:,} {one if count == 1 else more or one + 's'}"


def _span(low: int, high: int) -> str:
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
