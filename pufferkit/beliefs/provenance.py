"""Where beliefs come from, so that a series is not protected by a model of itself.

A matrix counted from the series to be released is a release without noise. Beliefs therefore
remember a digest of the counts they were fitted on, and a release refuses a series with the same
counts. Whoever fits to private data all the same must say so, and then every artefact says so.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pufferkit import checks
from pufferkit.data.series import Series

TELLING = 30.0
"""Nats of information from which a single segment is recognised; equal by chance is then unlikely.

A constant segment carries none: two people may well sleep through the same hours.
"""

RARE = 20
"""A state left fewer times than this has a row that is guesswork."""

_MOST = 10_000
_SHORT = 16

PRIVATE_NOTE = "Theta was fitted to private data: the model itself is a release without noise"

ALTERNATIVES = (
    "fit to public or historical data, to another population, or spend part of the budget on a "
    "private transition matrix (private_transitions); theta_from_private_data=True fits all the "
    "same, and every artefact will say so"
)

_ITSELF = (
    "beliefs: were fitted to the very series being released, so the model gives it away "
    f"without noise; {ALTERNATIVES}"
)


@dataclass(frozen=True)
class Provenance:
    """What beliefs were fitted on.

    Attributes
    ----------
    digests
        Of the transition counts of the whole, then of its telling segments. Empty for private
        data, whose digest would let others test guesses.
    transitions
        How many moves were counted; 0 for private data.
    smoothing
        What was added to every count.
    rarely_left
        States left too rarely for their row to be more than guesswork, and how often.
    private
        Whether they were knowingly fitted to private data.
    """

    digests: tuple[str, ...] = ()
    transitions: int = 0
    smoothing: float = 0.0
    rarely_left: tuple[tuple[str, int], ...] = ()
    private: bool = False

    @classmethod
    def of_series(cls, series: Series, smoothing: float = 0.0, private: bool = False) -> Provenance:
        """What a series leaves behind when beliefs are fitted to it."""
        if private:
            return cls(smoothing=smoothing, private=True)
        table = series.transitions
        rare = _rarely_left(table, series.states)
        return cls(series_digests(series), int(table.sum()), smoothing, rare)

    @classmethod
    def of_counts(
        cls, counts: NDArray[Any], states: Sequence[Hashable], private: bool = False
    ) -> Provenance:
        """The same for counts of transitions alone."""
        if private:
            return cls(private=True)
        rare = _rarely_left(counts, states)
        return cls((counts_digest(counts, states),), int(np.sum(counts)), 0.0, rare)

    def covers(self, series: Series) -> bool:
        """Whether beliefs were fitted on this series, or share a telling segment with it."""
        if self.private or not self.digests or not series.transitions.any():
            return False
        return not set(series_digests(series)).isdisjoint(self.digests)

    def covers_counts(self, counts: NDArray[Any], states: Sequence[Hashable]) -> bool:
        """Whether beliefs were fitted on data with these transitions."""
        if self.private or not np.any(counts):
            return False
        return counts_digest(counts, states) in self.digests

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        if self.private:
            return {"theta_from_private_data": True, "smoothing": self.smoothing}
        return {
            "digests": list(self.digests),
            "transitions": self.transitions,
            "smoothing": self.smoothing,
            "rarely_left": dict(self.rarely_left),
        }

    @classmethod
    def from_dict(cls, data: Any) -> Provenance | None:
        """What ``to_dict`` described; ``None`` for nothing."""
        if data is None:
            return None
        if not isinstance(data, Mapping):
            raise ValueError(f"model: fitted_on must be an object, got {data!r:.40}")
        added = checks.real("fitted_on: smoothing", data.get("smoothing", 0.0))
        if data.get("theta_from_private_data"):
            return cls(smoothing=added, private=True)
        moves = checks.whole("fitted_on: transitions", data.get("transitions", 0), 0)
        rare = data.get("rarely_left", {})
        if not isinstance(rare, Mapping):
            raise ValueError(f"model: fitted_on: rarely_left must be an object, got {rare!r:.40}")
        listed = tuple(
            (str(k), checks.whole("fitted_on: rarely_left", n, 0)) for k, n in rare.items()
        )
        return cls(tuple(str(d) for d in data.get("digests", ())), moves, added, listed)


def counts_digest(counts: NDArray[Any], states: Sequence[Hashable]) -> str:
    """A digest of a table of counts that depends on labels, not on their order."""
    cells = sorted(
        (str(states[x]), str(states[y]), int(counts[x, y])) for x, y in np.argwhere(counts)
    )
    return hashlib.sha256(json.dumps(cells).encode()).hexdigest()


def series_digests(series: Series) -> tuple[str, ...]:
    """The digest of all transitions, then those of the entries of telling segments."""
    found = [counts_digest(series.transitions, series.states)]
    for segment in series.stretches[:_MOST]:
        if _information(segment, len(series.states)) >= TELLING:
            found.append(_entries_digest(segment, series.states))
    return tuple(found)


def _entries_digest(codes: NDArray[np.intp], states: Sequence[Hashable]) -> str:
    """A digest of the entries in order, whatever other states are declared and in which order."""
    present = sorted({int(code) for code in np.unique(codes)}, key=lambda x: str(states[x]))
    place = np.zeros(len(states), dtype=np.int32)
    place[present] = np.arange(len(present))
    text = json.dumps([str(states[x]) for x in present]).encode()
    return hashlib.sha256(text + place[codes].astype("<i4").tobytes()).hexdigest()[:_SHORT]


def _information(codes: NDArray[np.intp], size: int) -> float:
    """Minus the log-likelihood of the moves under their own shares."""
    moves = np.bincount(codes[:-1] * size + codes[1:], minlength=size * size).reshape(size, size)
    leaves = np.broadcast_to(moves.sum(axis=1, keepdims=True), moves.shape)
    seen = moves > 0
    return float(-np.sum(moves[seen] * np.log(moves[seen] / leaves[seen])))


def _rarely_left(counts: NDArray[Any], states: Sequence[Hashable]) -> tuple[tuple[str, int], ...]:
    leaves = np.asarray(counts).sum(axis=1)
    pairs = zip(states, leaves.tolist(), strict=True)
    return tuple((str(state), int(count)) for state, count in pairs if count < RARE)


def check_not_fitted_on(sources: Sequence[Provenance], series: Series) -> None:
    """Refuse a series that the beliefs were fitted on."""
    if any(source.covers(series) for source in sources):
        raise ValueError(_ITSELF)


def check_not_counted_from(
    sources: Sequence[Provenance], counts: NDArray[Any], states: Sequence[Hashable]
) -> None:
    """Refuse a table whose transitions are those that the beliefs were fitted on."""
    if any(source.covers_counts(counts, states) for source in sources):
        raise ValueError(_ITSELF)
