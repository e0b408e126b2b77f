"""One subject's data: entries in time order, split where they stop depending on one another.

Entries are kept as small integers that index ``states``, so that everything behind this point is
arithmetic on arrays. Building a series is where unknown states are found and named.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pufferkit import checks


@dataclass(frozen=True, eq=False)
class Series(checks.Frozen):
    """Coded entries of one subject.

    Attributes
    ----------
    codes
        Index into ``states`` of every entry, segments one after another, each in time order.
    states
        Labels of all states that can occur.
    lengths
        Lengths of the independent segments.
    """

    codes: NDArray[np.intp]
    states: tuple[Hashable, ...]
    lengths: tuple[int, ...]

    def __post_init__(self) -> None:
        codes = np.array(self.codes)
        if codes.dtype.kind not in "iu":
            raise ValueError(f"codes: must be whole numbers, got {codes.dtype}")
        codes = codes.astype(np.intp)
        states = checks.distinct_states(self.states)
        lengths = checks.segment_lengths(self.lengths)
        if codes.ndim != 1 or sum(lengths) != codes.size:
            raise ValueError(
                f"lengths: segments of {sum(lengths)} entries in all, but the series has "
                f"{codes.size}"
            )
        if codes.min() < 0 or codes.max() >= len(states):
            raise ValueError(f"codes: must lie between 0 and {len(states) - 1}")
        codes.setflags(write=False)
        object.__setattr__(self, "codes", codes)
        object.__setattr__(self, "states", states)
        object.__setattr__(self, "lengths", lengths)

    @classmethod
    def of(cls, data: Any, states: Iterable[Hashable] | None = None) -> Series:
        """A series from state labels.

        Parameters
        ----------
        data
            A sequence of labels (one segment), or a sequence of such sequences (one each).
        states
            All states that can occur. If left out, those that do occur, sorted; note that which
            states occur is itself a fact about the data.
        """
        segments = _segments(data)
        flat = [label for segment in segments for label in segment]
        if states is None:
            found: set[Any] = set(flat)
            try:
                labels = tuple(sorted(found))
            except TypeError:
                labels = tuple(sorted(found, key=repr))
        else:
            labels = checks.distinct_states(states)
        index = {label: code for code, label in enumerate(labels)}
        unknown = sorted({repr(label) for label in flat if label not in index})
        if unknown:
            first = next(n for n, label in enumerate(flat, 1) if label not in index)
            raise ValueError(
                f"series: {_few(unknown)} not among the declared states {_few(map(repr, labels))}; "
                f"first at entry {first}; add the state to the model or clean the data"
            )
        codes = np.fromiter((index[label] for label in flat), dtype=np.intp, count=len(flat))
        return cls(codes, labels, tuple(len(segment) for segment in segments))

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def segments(self) -> tuple[NDArray[np.intp], ...]:
        """The codes of each segment."""
        ends = [0, *accumulate(self.lengths)]
        return tuple(self.codes[start:end] for start, end in pairwise(ends))

    @property
    def counts(self) -> NDArray[np.intp]:
        """How often each state occurs."""
        return np.bincount(self.codes, minlength=len(self.states))

    @property
    def transitions(self) -> NDArray[np.intp]:
        """How often each state is followed by each, within segments."""
        size = len(self.states)
        table = np.zeros(size * size, dtype=np.intp)
        for segment in self.segments:
            table += np.bincount(segment[:-1] * size + segment[1:], minlength=size * size)
        return table.reshape(size, size)

    def as_segments(self) -> list[list[Hashable]]:
        """The entries of each segment as labels."""
        return [[self.states[code] for code in segment] for segment in self.segments]

    @property
    def labels(self) -> list[Hashable]:
        """The entries as labels, segments one after another."""
        return [self.states[code] for code in self.codes]


def _segments(data: Any) -> list[list[Hashable]]:
    unordered = isinstance(data, (str, bytes, Set, Mapping))
    if unordered or not isinstance(data, Iterable):
        raise ValueError(
            f"series: must be a sequence of states or of segments, got {type(data).__name__}"
        )
    if hasattr(data, "columns"):
        raise ValueError(
            "series: is a whole table; give the column with the states, like table['state'], or "
            "one such column for each segment"
        )
    items = data.tolist() if isinstance(data, np.ndarray) else list(data)
    if not items:
        raise ValueError("series: is empty; there is nothing to release")
    nested = [is_segment(item) for item in items]
    if not any(nested):
        return [[_plain(item) for item in items]]
    if not all(nested):
        raise ValueError("series: mixes states and segments; give all segments as sequences")
    segments = [[_plain(item) for item in segment] for segment in items]
    if not all(segments):
        raise ValueError(
            f"series: segment {[bool(s) for s in segments].index(False) + 1} is empty; drop it"
        )
    return segments


def is_segment(item: Any) -> bool:
    """Whether this is a sequence of entries, not an entry: columns of dataframes are, too."""
    return isinstance(item, (list, tuple, np.ndarray)) or hasattr(item, "to_numpy")


def _plain(label: Any) -> Hashable:
    label = label.item() if isinstance(label, np.generic) else label
    if label is None or (isinstance(label, float) and math.isnan(label)):
        raise ValueError(
            "series: has a missing entry; split the series there into two segments, "
            "dropping it would join entries that are not neighbours"
        )
    if not isinstance(label, Hashable):
        raise ValueError(
            f"series: an entry is a {type(label).__name__}, which cannot be a state; use text or "
            "numbers"
        )
    return label


def _few(names: Iterable[str] | Sequence[str], most: int = 8) -> str:
    listed = list(names)
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + more
