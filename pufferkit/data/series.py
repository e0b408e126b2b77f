"""One subject's data: entries in time order, split where a break was declared.

Entries are kept as small integers that index ``states``, so that everything behind this point is
arithmetic on arrays. Unknown states are detected and named when a series is built.

A gap does not make its two sides independent. An entry that was not observed stays, with the code
`UNOBSERVED`: the chain went on unseen, nothing about the entry is released, and it is a secret like
any other. Only segments that the user declares are independent.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, chain, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pufferkit import checks
from pufferkit.data.calendar import Calendar
from pufferkit.data.durations import SECOND, of_seconds, seconds
from pufferkit.shown import Shown

UNOBSERVED = -1
"""Code of an entry that was not observed; its label is ``None``."""

SegmentPattern = tuple[int, ...]
"""The lengths of the runs of a segment, alternately observed and not observed; the first is
of observed entries and may be 0."""

Pattern = tuple[SegmentPattern, ...]
"""The runs of each segment."""

_NOTHING = ("NAType", "NaTType")


def declared_independent(after: str | None) -> tuple[str, ...]:
    """The declaration that pieces further apart than this are independent; empty for ``None``."""
    return () if after is None else (f"pieces more than {after} apart were declared independent",)


@dataclass(frozen=True, eq=False, repr=False)
class Series(Shown, checks.Frozen):
    """Coded entries of one subject.

    Attributes
    ----------
    codes
        Index into ``states`` of every entry, segments one after another, each in time order;
        `UNOBSERVED` where nothing was observed.
    states
        Labels of all states that can occur.
    lengths
        Lengths of the independent segments, entries that were not observed included.
    independent_after
        The time after which pieces were declared independent, in words; ``None`` if segments were
        not made that way.
    read_as
        What was inferred or assumed about the file it was read from, in words.
    calendar
        The times of the entries, if known; queries about hours and days need it.
    between
        For rows without an even time step: the first and the last time, in microseconds
        since 1970, and whether they are ``"instants"`` or ``"time"`` without a zone.
    spacing
        Seconds from one entry to the next, where their times are not known.

    Examples
    --------
    >>> data = Series.of(["rest", "active", "rest"], ["rest", "active", "asleep"])
    >>> len(data), data.lengths, data.labels
    (3, (3,), ['rest', 'active', 'rest'])
    >>> data.window(2, 3).labels
    ['active', 'rest']
    """

    codes: NDArray[np.intp]
    states: tuple[Hashable, ...]
    lengths: tuple[int, ...]
    independent_after: str | None = None
    read_as: tuple[str, ...] = ()
    calendar: Calendar | None = None
    between: tuple[str, int, int] | None = None
    spacing: float | None = None

    def __post_init__(self) -> None:
        codes = np.array(self.codes)
        if codes.dtype.kind not in "iu":
            raise ValueError(f"codes: must be whole numbers, got {codes.dtype}")
        codes = codes.astype(np.intp)
        states = checks.distinct_states(self.states)
        lengths = checks.segment_lengths(self.lengths)
        if codes.ndim != 1 or sum(lengths) != codes.size:
            raise ValueError(
                f"lengths: sum to {sum(lengths)} entries, but the series has {codes.size}"
            )
        if codes.min() < UNOBSERVED or codes.max() >= len(states):
            raise ValueError(
                f"codes: must lie between 0 and {len(states) - 1}, or be {UNOBSERVED} where "
                "nothing was observed"
            )
        if codes.max() < 0:
            raise ValueError("series: no entry was observed; there is nothing to release")
        codes.setflags(write=False)
        object.__setattr__(self, "codes", codes)
        object.__setattr__(self, "states", states)
        object.__setattr__(self, "lengths", lengths)
        if self.calendar is not None and len(self.calendar.starts) != len(lengths):
            raise ValueError(
                f"calendar: has {len(self.calendar.starts)} starts, but the series has "
                f"{len(lengths)}"
            )

    @classmethod
    def of(cls, data: Any, states: Iterable[Hashable] | None = None, *, step: Any = None) -> Series:
        """A series from state labels.

        Parameters
        ----------
        data
            A sequence of labels (one segment), or a sequence of such sequences (one each, declared
            independent). ``None`` or NaN is an entry that was not observed. A `Series` keeps its
            segments. A `Table` of one subject is its series.
        states
            All states that can occur. If left out, those that do occur, sorted; but which
            states occur is itself information about the data.
        step
            Time from one entry to the next: seconds, or text such as ``"5m"``. Beliefs with another
            step are refused. A series that knows its times needs none.

        Examples
        --------
        >>> gap = Series.of(["a", "b", None, None, "b", "b"])
        >>> gap.lengths, gap.observed_lengths, gap.transitions.tolist()
        ((6,), (4,), [[0, 1], [0, 1]])
        """
        data = in_memory(data)
        if step is not None:
            timed = cls.of(data, states)
            if timed.step not in (None, seconds("step", step)):
                raise ValueError(
                    f"step: the entries are {of_seconds(timed.step)} apart, not {step}"
                )
            return replace(timed, spacing=seconds("step", step))
        if isinstance(data, Series) and states is not None and tuple(states) == data.states:
            return data
        declared = data.independent_after if isinstance(data, Series) else None
        distinct, places, sizes = _entries(data.as_segments() if isinstance(data, Series) else data)
        if states is None:
            occurring: set[Any] = set(distinct) - {None}
            try:
                labels = tuple(sorted(occurring))
            except TypeError:
                labels = tuple(sorted(occurring, key=repr))
        else:
            labels = checks.distinct_states(states)
        index: dict[Any, int] = {label: code for code, label in enumerate(labels)}
        index[None] = UNOBSERVED
        unknown = sorted(repr(label) for label in distinct if label not in index)
        if unknown:
            strange = np.array([label not in index for label in distinct])
            first = int(strange[places].argmax()) + 1
            raise ValueError(
                f"series: {first_few(unknown)} not among the declared states "
                f"{first_few(map(repr, labels))}; "
                f"first at entry {first}; add the state to the model or clean the data"
            )
        codes = np.array([index[label] for label in distinct], dtype=np.intp)[places]
        if not labels:
            raise ValueError("series: no entry was observed; there is nothing to release")
        read_as = data.read_as if isinstance(data, Series) else ()
        calendar = data.calendar if isinstance(data, Series) else None
        between, spacing = (
            (data.between, data.spacing) if isinstance(data, Series) else (None, None)
        )
        return cls(codes, labels, sizes, declared, read_as, calendar, between, spacing)

    def __len__(self) -> int:
        return len(self.codes)

    def __str__(self) -> str:
        states = first_few([str(state) for state in self.states])
        parts = [f"{len(self):,} entries", f"states {states}"]
        if len(self.lengths) > 1:
            parts.insert(1, f"{len(self.lengths)} segments")
        if self.missing:
            parts.append(f"{self.missing:,} not observed")
        if self.independent_after is not None:
            parts.append(f"declared independent after {self.independent_after}")
        if self.read_as:
            parts.append(f"read as: {'; '.join(self.read_as)}")
        return f"Series({', '.join(parts)})"

    @property
    def step(self) -> float | None:
        """Seconds from one entry to the next; ``None`` if their times are unknown or uneven."""
        return self.spacing if self.calendar is None else self.calendar.every / SECOND

    @property
    def segments(self) -> tuple[NDArray[np.intp], ...]:
        """The codes of each segment."""
        ends = [0, *accumulate(self.lengths)]
        return tuple(self.codes[start:end] for start, end in pairwise(ends))

    @property
    def observed(self) -> NDArray[np.bool_]:
        """Which entries were observed."""
        return self.codes >= 0

    @cached_property
    def missing(self) -> int:
        """How many entries were not observed."""
        return int(np.sum(self.codes < 0))

    @property
    def observed_lengths(self) -> tuple[int, ...]:
        """How many entries of each segment were observed."""
        return tuple(int(np.sum(segment >= 0)) for segment in self.segments)

    @property
    def pattern(self) -> Pattern | None:
        """Which entries were observed, as runs; ``None`` if all were."""
        return tuple(runs_of(segment >= 0) for segment in self.segments) if self.missing else None

    @property
    def stretches(self) -> tuple[NDArray[np.intp], ...]:
        """The codes of each run of observed neighbours, within segments."""
        if not self.missing:
            return self.segments
        stretches = []
        for segment in self.segments:
            edges = np.flatnonzero(np.diff(segment >= 0)) + 1
            stretches += [part for part in np.split(segment, edges) if part.size and part[0] >= 0]
        return tuple(stretches)

    @property
    def counts(self) -> NDArray[np.intp]:
        """How often each state was observed."""
        return np.bincount(self.codes[self.observed], minlength=len(self.states))

    @property
    def transitions(self) -> NDArray[np.intp]:
        """How often each state is followed by each other state, both observed, within segments."""
        size = len(self.states)
        table = np.zeros(size * size, dtype=np.intp)
        for segment in self.segments:
            both = (segment[:-1] >= 0) & (segment[1:] >= 0)
            moves = (segment[:-1] * size + segment[1:])[both]
            table += np.bincount(moves, minlength=size * size)
        return table.reshape(size, size)

    def window(self, first: int, last: int) -> Series:
        """Entries ``first`` to ``last``, counted from 1 by their places, cut where segments end."""
        lengths, start = [], 0
        for size in self.lengths:
            inside = min(last, start + size) - max(first, start + 1) + 1
            if inside > 0:
                lengths.append(inside)
            start += size
        codes: NDArray[np.intp] = self.codes[first - 1 : last]
        when = None if self.calendar is None else self.calendar.window(self.lengths, first, last)
        return Series(
            codes,
            self.states,
            tuple(lengths),
            self.independent_after,
            calendar=when,
            between=self.between,
            spacing=self.spacing,
        )

    def as_segments(self) -> list[list[Hashable]]:
        """The entries of each segment as labels; ``None`` where nothing was observed."""
        names = (*self.states, None)  # code -1 indexes the last
        return [[names[code] for code in segment] for segment in self.segments]

    @property
    def labels(self) -> list[Hashable]:
        """The entries as labels, segments one after another; ``None`` where not observed."""
        names = (*self.states, None)
        return [names[code] for code in self.codes]


def joined(several: Sequence[Series]) -> Series:
    """The segments of several series with the same states and step, one after another."""
    steps = list(dict.fromkeys(one.step for one in several))
    if len(steps) > 1:
        raise ValueError(
            f"series: have entries {' and '.join(map(of_seconds, steps))} apart, and one step is "
            "needed; read all with every="
        )
    clocks = [one.calendar for one in several if one.calendar is not None]
    zones = {clock.timezone for clock in clocks}
    starts = [start for clock in clocks for start in clock.starts]
    zone = zones.pop() if len(zones) == 1 else None
    return Series(
        np.concatenate([one.codes for one in several]),
        several[0].states,
        tuple(length for one in several for length in one.lengths),
        calendar=Calendar(starts, clocks[0].every, zone) if len(clocks) == len(several) else None,
        spacing=steps[0],
    )


def in_memory(data: Any) -> Any:
    """The series of a table of one subject; other data unchanged."""
    return data.series() if hasattr(type(data), "all_series") else data


def runs_of(observed: NDArray[np.bool_]) -> tuple[int, ...]:
    """Lengths of the runs, alternately observed and not observed, beginning with observed."""
    edges = [0, *(np.flatnonzero(np.diff(observed)) + 1).tolist(), observed.size]
    sizes = tuple(after - start for start, after in pairwise(edges))
    return sizes if observed[0] else (0, *sizes)


def observed_places(runs: Sequence[int]) -> NDArray[np.bool_]:
    """Which entries of a segment were observed, from its runs."""
    return np.repeat([n % 2 == 0 for n in range(len(runs))], runs)


def _entries(data: Any) -> tuple[list[Any], NDArray[np.intp], tuple[int, ...]]:
    """The different entries, which of them each entry is, and the lengths of the segments."""
    if isinstance(data, np.ndarray) and data.ndim == 1 and data.dtype.kind in "iu" and data.size:
        values, places = np.unique(data, return_inverse=True)
        return values.tolist(), places, (data.size,)
    segments, number = _segments(data), dict[Any, int]()
    cells = segments[0] if len(segments) == 1 else list(chain.from_iterable(segments))
    place = {cell: number.setdefault(own, len(number)) for cell, own in _labels(cells).items()}
    places = np.fromiter(map(place.__getitem__, cells), dtype=np.intp, count=len(cells))
    return list(number), places, tuple(len(segment) for segment in segments)


def _segments(data: Any) -> list[list[Any]]:
    unordered = isinstance(data, (str, bytes, Set, Mapping))
    if unordered or not isinstance(data, Iterable):
        raise ValueError(
            f"series: must be a sequence of states or of segments, got a {type(data).__name__}"
        )
    if hasattr(data, "columns"):
        raise ValueError(
            "series: is a whole table; give the column with the states, like table['state'], or "
            "one such column for each segment"
        )
    items = data.tolist() if isinstance(data, np.ndarray) else list(data)
    if not items:
        raise ValueError("series: is empty; there is nothing to release")
    nested = {is_segment(item) for item in {type(item): item for item in items}.values()}
    if nested == {False}:
        return [items]
    if nested != {True}:
        raise ValueError("series: mixes states and segments; give all segments as sequences")
    segments = [list(segment) for segment in items]
    if not all(segments):
        raise ValueError(
            f"series: segment {[bool(s) for s in segments].index(False) + 1} is empty; drop it"
        )
    return segments


def is_segment(item: Any) -> bool:
    """Whether this is a sequence of entries rather than an entry; columns of dataframes are."""
    return isinstance(item, (list, tuple, np.ndarray)) or hasattr(item, "to_numpy")


def _labels(cells: Sequence[Any]) -> dict[Any, Hashable | None]:
    """The label of each different cell; ``None`` where nothing was observed."""
    try:
        return {cell: _plain(cell) for cell in dict.fromkeys(cells)}
    except TypeError:
        strange = next(type(cell).__name__ for cell in cells if not _has_hash(cell))
        raise ValueError(
            f"series: an entry is a {strange}, which cannot be a state; use text or numbers"
        ) from None


def _has_hash(cell: Any) -> bool:
    try:
        hash(cell)
    except TypeError:
        return False
    return True


def _plain(label: Any) -> Hashable | None:
    label = label.item() if isinstance(label, np.generic) else label
    if label is None or (isinstance(label, float) and math.isnan(label)):
        return None
    # Missing values of pandas.
    return None if type(label).__name__ in _NOTHING else label


def first_few(names: Iterable[str]) -> str:
    """The first eight names, and how many more there are."""
    listed = list(names)
    more = f" and {len(listed) - 8} more" if len(listed) > 8 else ""
    return ", ".join(listed[:8]) + more
