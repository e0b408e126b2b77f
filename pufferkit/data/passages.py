"""Identifying passages of a series, by which the series or a part of it is recognised.

A series is a sequence of *runs*: a state, and for how many entries it lasted. Digests are taken of
consecutive runs if they are identifying. Cutting a series shortens the runs at the cut and leaves
the runs between unchanged, so every window that contains a digested passage is recognised, whatever
comes before and after it, and however it is cut into segments.

*When a passage is identifying.* Two people may sleep through the same hours, so a constant passage
carries no information, however long it is. The information of a passage is minus its log-likelihood
under the transitions of the series itself (each row with a pseudo-count of one in all). For a run
that occurs often it is at most that of its share among the runs of its state: nine to five, every
weekday, carries little. A passage is digested if it has at least

    log(2 * digests * runs of the other series / FALSE_ALARMS)   nats,

so a series drawn independently from the fitted chain is mistaken for it with probability at most
`FALSE_ALARMS`: a union bound over all pairs of passages. The longer the other series, the more
information a passage must have; digests are therefore taken twice (hence the 2), for other series
up to eight times as long and for longer ones. A passage that occurs three times in the series is a
habit, which others may share, and is not digested; a longer one around it may be.

*What is not recognised.* Series and windows with too little information: fewer than 15 to 35 nats,
which are 20 to 50 tosses of a coin. In very long series only every few passages are digested, at
most `MOST` in all, so a window of less than one part in `MOST` may go unrecognised.
"""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pufferkit import checks
from pufferkit.checks import Floats
from pufferkit.data.series import Series

FALSE_ALARMS = 1e-3
"""Probability that an independent series from the same chain is mistaken for the fitted one."""

MOST = 1024
"""Most digests; more only if there are more segments."""

_MOST_SEGMENTS = 10_000
_LONGER = 8
_LONG = 10**6
_HABIT = 3
_OFTEN = 5
_BYTES = 6

Words = NDArray[np.uint64]


@dataclass(frozen=True)
class Passages:
    """Digests of passages of equally many runs."""

    reach: int
    """Most runs of another series for which a match is significant."""
    runs: int
    """Number of runs of each passage."""
    digests: tuple[int, ...]
    """Digests, whole numbers of 48 bits."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        packed = b"".join(digest.to_bytes(_BYTES, "big") for digest in self.digests)
        return {
            "reach": self.reach,
            "runs": self.runs,
            "digests": base64.b64encode(packed).decode("ascii"),
        }

    @classmethod
    def from_dict(cls, data: Any) -> Passages:
        """The passages that ``to_dict`` described."""
        if not isinstance(data, Mapping) or not isinstance(data.get("digests"), str):
            raise ValueError(f"model: fitted_on: a passage must be an object, got {data!r:.40}")
        try:
            packed = base64.b64decode(data["digests"], validate=True)
        except ValueError:
            raise ValueError("model: fitted_on: digests of passages are not base64") from None
        parts = range(0, len(packed) - len(packed) % _BYTES, _BYTES)
        return cls(
            checks.whole("fitted_on: reach", data.get("reach"), 1),
            checks.whole("fitted_on: runs", data.get("runs"), 1),
            tuple(int.from_bytes(packed[at : at + _BYTES], "big") for at in parts),
        )


def passages_of(series: Series) -> tuple[Passages, ...]:
    """Digests of the identifying passages of a series."""
    runs = _ObservedRuns.of(series)
    if len(runs.sizes) == 0:
        return ()
    most = max(MOST, min(int(runs.stretch[-1]) + 1, _MOST_SEGMENTS))
    kept = []
    for reach in sorted({_LONGER * len(runs.sizes), max(_LONG, _LONGER * len(runs.sizes))}):
        enough = math.log(2 * min(len(runs.sizes), most) * reach / FALSE_ALARMS)
        chosen = runs.identifying(enough)
        step = -(-len(chosen) // most) if chosen else 1
        by_runs: dict[int, list[int]] = {}
        for _, size, digest in chosen[(step - 1) // 2 :: step]:
            by_runs.setdefault(size, []).append(digest)
        kept += [
            Passages(reach, size, tuple(sorted(set(digests))))
            for size, digests in sorted(by_runs.items())
        ]
    return tuple(kept)


def share_a_passage(known: Sequence[Passages], series: Series) -> bool:
    """Whether a series contains one of these passages."""
    runs = _ObservedRuns.of(series)
    count = len(runs.sizes)
    wanted: dict[int, list[int]] = {}
    for group in known:
        if count <= group.reach or group.reach >= _LONG:
            wanted.setdefault(group.runs, []).extend(group.digests)
    longest = max(wanted, default=0)
    for size, digests in runs.passages():
        if size > longest:
            return False
        if size in wanted and np.isin(digests[runs.whole(size)], _words(wanted[size])).any():
            return True
    return False


@dataclass(frozen=True, eq=False)
class _ObservedRuns:
    """The runs of a series: their states, sizes, and the number of the stretch without a break."""

    states: NDArray[np.intp]
    sizes: NDArray[np.intp]
    stretch: NDArray[np.intp]
    names: tuple[str, ...]

    @classmethod
    def of(cls, series: Series) -> _ObservedRuns:
        codes = series.codes
        begins = np.zeros(len(codes), dtype=bool)
        begins[np.cumsum([0, *series.lengths[:-1]])] = True
        changes = begins.copy()
        changes[1:] |= codes[1:] != codes[:-1]
        at = np.flatnonzero(changes)
        states, sizes = codes[at], np.diff([*at.tolist(), len(codes)])
        # An unobserved entry has a negative code; a new stretch begins after it.
        breaks = begins[at] | np.concatenate([[False], states[:-1] < 0])
        seen = states >= 0
        stretch = np.cumsum(breaks)[seen] - 1
        return cls(states[seen], sizes[seen], stretch, tuple(name_of(s) for s in series.states))

    def whole(self, size: int) -> NDArray[np.bool_]:
        """For each start, whether that many runs follow without a break."""
        return np.asarray(self.stretch[: len(self.stretch) - size + 1] == self.stretch[size - 1 :])

    def passages(self) -> Iterator[tuple[int, Words]]:
        """Digests of all passages of 1, 2, 3, 4, 6, 8, 12, ... runs, by their first run."""
        labels = _words([_label_word(name) for name in self.names])
        single = _mixed(labels[self.states] + _mixed(self.sizes.astype(np.uint64)))
        yield 1, _short(single)
        pairs = _joined(single[:-1], single[1:])
        sizes = [(2, pairs), (3, _joined(pairs[:-1], single[2:]))]
        while len(sizes[0][1]):
            for size, digests in sizes:
                if len(digests):
                    yield size, _short(digests)
            sizes = [(2 * n, _joined(d[: max(len(d) - n, 0)], d[n:])) for n, d in sizes]

    def identifying(self, enough: float) -> list[tuple[int, int, int]]:
        """For each start the shortest passage that identifies: start, runs, digest."""
        sizes, moves = self._information()
        left = np.ones(len(self.sizes), dtype=bool)
        chosen: list[tuple[int, int, int]] = []
        for size, digests in self.passages():
            count = len(digests)
            left = left[:count] & self.whole(size)
            if not left.any():
                break
            information = (
                sizes[size:] - sizes[:count] + moves[size - 1 : size - 1 + count] - moves[:count]
            )
            _, place, times = np.unique(digests, return_inverse=True, return_counts=True)
            good = left & (information >= enough) & (times[place] < _HABIT)
            left &= ~good
            chosen += [
                (start, size, int(digests[start])) for start in np.flatnonzero(good).tolist()
            ]
        return sorted(chosen)

    def _information(self) -> tuple[Floats, Floats]:
        """Cumulative nats of the sizes of runs, and of the states that follow them."""
        count, states, sizes = len(self.names), self.states, self.sizes
        last = np.ones(len(sizes), dtype=bool)
        last[:-1] = self.stretch[1:] != self.stretch[:-1]
        stays = np.bincount(states, weights=sizes - 1.0, minlength=count)
        changes = np.bincount(states[~last], minlength=count)
        leaves = stays + changes + 1
        size = (sizes - 1) * np.log(leaves / (stays + 1 / count))[states]
        ends = np.log(leaves / (changes + 1 - 1 / count + (count == 1)))[states]
        size += np.where(last, 0.0, ends)
        # A frequent run has the information of its share, which a habit makes small: its share
        # among the runs of its state, and among those that follow a run like the previous one.
        kind, often = _numbered(states, sizes)
        share = np.log((np.bincount(states, minlength=count)[states] + 1) / often)
        size = np.where(often >= _OFTEN, np.minimum(size, share), size)
        before = np.append(-1, kind[:-1])
        before[1:][last[:-1]] = -1
        _, together = _numbered(before, kind)
        share = np.log((_numbered(before)[1] + 1) / together)
        size = np.where((before >= 0) & (together >= _OFTEN), np.minimum(size, share), size)
        _, moves = _numbered(states, np.where(last, -1, np.append(states[1:], 0)))
        move = np.where(last, 0.0, np.log((changes[states] + 1) / (moves + 1 / count)))
        return _summed(size), _summed(move)


def name_of(state: Hashable) -> str:
    """A label as text; equal numbers have the same text."""
    if isinstance(state, (bool, float)) and float(state).is_integer():
        return str(int(state))
    return str(state)


def _numbered(*columns: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """An index for each distinct row, and how often that row occurs."""
    _, number, times = np.unique(np.stack(columns), axis=1, return_inverse=True, return_counts=True)
    return number.ravel(), times[number.ravel()]


def _summed(values: NDArray[Any]) -> Floats:
    return np.concatenate([[0.0], np.cumsum(np.maximum(values, 0.0))])


def _words(values: Sequence[int]) -> Words:
    return np.array(values, dtype=np.uint64)


def _label_word(name: str) -> int:
    return int.from_bytes(hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()[:8], "big")


def _mixed(words: Words) -> Words:
    """Every bit of the result depends on every bit of the word; overflow wraps around."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(words ^ (words >> np.uint64(31)), dtype=np.uint64)


def _joined(first: Words, second: Words) -> Words:
    """The digest of two neighbours; the order matters."""
    return _mixed(first * np.uint64(0x9E3779B97F4A7C15) + second)


def _short(words: Words) -> Words:
    return np.asarray(words >> np.uint64(64 - 8 * _BYTES), dtype=np.uint64)
