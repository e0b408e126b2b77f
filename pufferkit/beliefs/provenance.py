"""Where beliefs come from, so that a series is not protected by a model of itself.

A matrix counted from the series to be released is a release without noise. Beliefs therefore hold a
digest of the counts they were fitted on and digests of identifying passages of the data (below),
and a release refuses a series with the same counts or with one of these passages: the whole series,
a window of it, or a series that contains it. Fitting to private data nevertheless must be declared,
and every result is then marked as based on private data.

Beliefs may also be *bought*: counted with noise from the very data to be released
(`pufferkit.private_transitions`). They tell what that has spent on every entry, and a release
refuses them unless it pays for it too, or the data are declared to be other people's.

The provenance is passed on to every object made from the beliefs: reversals, classes, files. It
cannot be passed on with a bare matrix: ``ChainClass.any_start(chain.transition)`` has none.

# Passages

Identifying passages of a series, by which the series or a part of it is recognised.

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
import json
import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
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

KINDS: dict[str, Any] = {}
"""The class of beliefs that reads each kind of record, filled as the classes are defined."""


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


RARE = 20
"""The row of a state that is left fewer times than this is unreliable."""

PRIVATE_NOTE = "Theta was fitted to private data: the model itself is a release without noise"

ALTERNATIVES = (
    "fit to public or historical data, to another population, or spend part of the budget on a "
    "private transition matrix (private_transitions); theta_from_private_data=True fits "
    "nevertheless, and marks every result as based on private data"
)

ITSELF = (
    "beliefs: were fitted to the very series being released, or share an identifying passage with "
    f"it, so the model reveals it without noise; {ALTERNATIVES}"
)


@dataclass(frozen=True)
class Bought:
    """Noisy counts that beliefs were made of, and what they have spent on their data."""

    entry_epsilon: float
    """Event-level epsilon of the counts, for each entry they were counted in."""
    entries: int
    """How many entries these are."""
    for_others: bool = False
    """Whether the beliefs are declared to be for other data than these."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Any) -> Bought:
        """What ``to_dict`` described."""
        if not isinstance(data, Mapping):
            raise ValueError(f"model: fitted_on: bought must be an object, got {data!r:.40}")
        return cls(
            checks.positive("fitted_on: bought: entry_epsilon", data.get("entry_epsilon")),
            checks.whole("fitted_on: bought: entries", data.get("entries"), 1),
            checks.flag("fitted_on: bought: for_others", data.get("for_others", False)),
        )

    @property
    def words(self) -> str:
        """One line for the reader of a result."""
        line = (
            f"bought with event-level epsilon {self.entry_epsilon:.6g} on each of {self.entries:,} "
            "entries"
        )
        return f"{line}, and declared to be for other data" if self.for_others else line


@dataclass(frozen=True)
class FoldRecord:
    """How beliefs were tested on people left out in turn (`pufferkit.choose_beliefs`)."""

    people: int
    folds: int
    """How many people, and in how many folds they, or stretches of a single one, were left out; the
    beliefs survived them all."""
    seed: int
    """Seed of the folds."""
    query: str
    epsilon: float
    """The query and epsilon for which candidates were compared."""
    others: tuple[tuple[str, float], ...] = ()
    """The other candidates, and what their adversaries would learn from noise for these beliefs."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return {**asdict(self), "others": dict(self.others)}

    @classmethod
    def from_dict(cls, data: Any) -> FoldRecord | None:
        """What ``to_dict`` described."""
        if data is None:
            return None
        if not isinstance(data, Mapping) or not isinstance(data.get("others", {}), Mapping):
            raise ValueError(f"model: fitted_on: tested must be an object, got {data!r:.40}")
        return cls(
            checks.whole("fitted_on: tested: people", data.get("people"), 1),
            checks.whole("fitted_on: tested: folds", data.get("folds"), 1),
            checks.whole("fitted_on: tested: seed", data.get("seed"), 0),
            str(data.get("query")),
            checks.positive("fitted_on: tested: epsilon", data.get("epsilon")),
            tuple(
                (str(name), checks.real("fitted_on: tested: others", loss))
                for name, loss in data.get("others", {}).items()
            ),
        )

    @property
    def words(self) -> str:
        """One line for the reader of a plan or a result."""
        beyond = [(name, loss) for name, loss in self.others if loss > self.epsilon]
        whose = "stretches of one person" if self.people == 1 else f"{self.people} people"
        line = (
            f"beliefs survived {self.folds} folds of {whose} (seed {self.seed}); at "
            f"epsilon {self.epsilon:g} for {self.query} "
        )
        if not beyond:
            return line + "the adversaries of all other candidates are covered too"
        return line + "not covered: " + ", ".join(f"{name} ({loss:.3g})" for name, loss in beyond)


@dataclass(frozen=True)
class Provenance:
    """The data that beliefs were fitted on."""

    digests: tuple[str, ...] = ()
    """Digest of the transition counts of all data. Empty for private data, whose digest would allow
    others to test guesses."""
    transitions: int = 0
    """Number of transitions counted; 0 for private data."""
    smoothing: float = 0.0
    """Number added to every count."""
    rarely_left: tuple[tuple[str, int], ...] = ()
    """States left too rarely for a reliable row, and how often."""
    private: bool = False
    """Whether the beliefs were knowingly fitted to private data."""
    passages: tuple[Passages, ...] = ()
    """Digests of identifying passages; none for private data."""
    bought: Bought | None = None
    """What the counts have spent, if they were counted with noise from private data."""
    tested: FoldRecord | None = None
    """How the beliefs were tested on people left out, if they were chosen so."""

    @classmethod
    def of_series(cls, series: Series, smoothing: float = 0.0, private: bool = False) -> Provenance:
        """The provenance of beliefs fitted to a series."""
        if private:
            return cls(smoothing=smoothing, private=True)
        counted = cls.of_counts(series.transitions, series.states)
        return replace(counted, smoothing=smoothing, passages=passages_of(series))

    @classmethod
    def of_counts(
        cls, counts: NDArray[Any], states: Sequence[Hashable], private: bool = False
    ) -> Provenance:
        """The provenance of beliefs fitted to counts of transitions."""
        if private:
            return cls(private=True)
        leaves = zip(states, np.asarray(counts).sum(axis=1).tolist(), strict=True)
        rare = tuple((str(state), int(count)) for state, count in leaves if count < RARE)
        return cls((counts_digest(counts, states),), int(np.sum(counts)), 0.0, rare)

    def covers(self, series: Series) -> bool:
        """Whether beliefs were fitted on this series, or share an identifying passage with it."""
        return self.covers_counts(series.transitions, series.states) or share_a_passage(
            self.passages, series
        )

    def covers_counts(self, counts: NDArray[Any], states: Sequence[Hashable]) -> bool:
        """Whether beliefs were fitted on data with these transitions."""
        if self.private or not np.any(counts):
            return False
        return counts_digest(counts, states) in self.digests

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        if self.private:
            return {"theta_from_private_data": True, "smoothing": self.smoothing}
        if self.bought is not None:
            return {"bought": self.bought.to_dict()}
        return {
            "digests": list(self.digests),
            "transitions": self.transitions,
            "smoothing": self.smoothing,
            "rarely_left": dict(self.rarely_left),
            "passages": [group.to_dict() for group in self.passages],
            **({} if self.tested is None else {"tested": self.tested.to_dict()}),
        }

    @classmethod
    def from_dict(cls, data: Any) -> Provenance | None:
        """The provenance that ``to_dict`` described; ``None`` if there is none."""
        if data is None:
            return None
        if not isinstance(data, Mapping):
            raise ValueError(f"model: fitted_on must be an object, got {data!r:.40}")
        if data.get("bought") is not None:
            return cls(bought=Bought.from_dict(data["bought"]))
        added = checks.real("fitted_on: smoothing", data.get("smoothing", 0.0))
        owned = data.get("theta_from_private_data", False)
        if checks.flag("fitted_on: theta_from_private_data", owned):
            return cls(smoothing=added, private=True)
        moves = checks.whole("fitted_on: transitions", data.get("transitions", 0), 0)
        rare = data.get("rarely_left", {})
        if not isinstance(rare, Mapping):
            raise ValueError(f"model: fitted_on: rarely_left must be an object, got {rare!r:.40}")
        listed = tuple(
            (str(k), checks.whole("fitted_on: rarely_left", n, 0)) for k, n in rare.items()
        )
        digests, groups = data.get("digests", []), data.get("passages", [])
        for name, value in {"digests": digests, "passages": groups}.items():
            if not isinstance(value, (list, tuple)):
                raise ValueError(f"model: fitted_on: {name} must be a list, got {value!r:.40}")
        return cls(
            digests=tuple(str(digest) for digest in digests),
            transitions=moves,
            smoothing=added,
            rarely_left=listed,
            passages=tuple(Passages.from_dict(group) for group in groups),
            tested=FoldRecord.from_dict(data.get("tested")),
        )


def words_of_tests(sources: Sequence[Provenance]) -> str | None:
    """How beliefs were tested, in one line; ``None`` if they were not."""
    return next((source.tested.words for source in sources if source.tested is not None), None)


def counts_digest(counts: NDArray[Any], states: Sequence[Hashable]) -> str:
    """A digest of a table of counts that depends on the labels, not on their order."""
    cells = sorted(
        (name_of(states[x]), name_of(states[y]), int(counts[x, y])) for x, y in np.argwhere(counts)
    )
    return hashlib.sha256(json.dumps(cells).encode()).hexdigest()


def check_not_fitted_on(sources: Sequence[Provenance], series: Series) -> None:
    """Refuse a series that the beliefs were fitted on."""
    if any(source.covers(series) for source in sources):
        raise ValueError(ITSELF)


def owed(sources: Sequence[Provenance]) -> Bought | None:
    """What the data of a release have been spent for their beliefs; ``None`` if nothing."""
    bought = [s.bought for s in sources if s.bought is not None and not s.bought.for_others]
    if not bought:
        return None
    return Bought(sum(one.entry_epsilon for one in bought), max(one.entries for one in bought))


def check_paid(sources: Sequence[Provenance], paid: float | None = None) -> None:
    """Refuse bought beliefs, unless ``paid`` covers the event-level epsilon of their counts."""
    debt = owed(sources)
    if debt is not None and (paid or 0.0) < debt.entry_epsilon:
        raise ValueError(
            f"beliefs: were {debt.words}, which no account holds here; release with an "
            "account, which charges it, or by PrivateTransitions.calibrate, which shares "
            "epsilon with it. For data of other people use PrivateTransitions.for_others"
        )


def check_not_counted_from(
    sources: Sequence[Provenance], counts: NDArray[Any], states: Sequence[Hashable]
) -> None:
    """Refuse a table whose transitions are those that the beliefs were fitted on."""
    if any(source.covers_counts(counts, states) for source in sources):
        raise ValueError(ITSELF)
