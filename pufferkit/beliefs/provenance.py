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
from pufferkit.series import Series

LONG = 32
"""Segments of at least this many entries are also recognised one by one."""

_MOST = 256

PRIVATE_NOTE = "Theta was fitted to private data: the model itself is a release without noise"

ALTERNATIVES = (
    "fit to public or historical data, to another population, or spend part of the budget on a "
    "private transition matrix (private_transitions); theta_from_private_data=True fits all the "
    "same, and every artefact will say so"
)


@dataclass(frozen=True)
class Provenance:
    """What beliefs were fitted on.

    Attributes
    ----------
    digests
        Of the transition counts of the whole, then of its long segments. Empty for private data,
        whose digest would let others test guesses.
    transitions
        How many moves were counted; 0 for private data.
    smoothing
        What was added to every count.
    private
        Whether they were knowingly fitted to private data.
    """

    digests: tuple[str, ...] = ()
    transitions: int = 0
    smoothing: float = 0.0
    private: bool = False

    @classmethod
    def of_series(cls, series: Series, smoothing: float = 0.0, private: bool = False) -> Provenance:
        """What a series leaves behind when beliefs are fitted to it."""
        if private:
            return cls(smoothing=smoothing, private=True)
        return cls(series_digests(series), int(series.transitions.sum()), smoothing)

    @classmethod
    def of_counts(
        cls, counts: NDArray[Any], states: Sequence[Hashable], private: bool = False
    ) -> Provenance:
        """The same for counts of transitions alone."""
        if private:
            return cls(private=True)
        return cls((counts_digest(counts, states),), int(np.sum(counts)))

    def covers(self, series: Series) -> bool:
        """Whether beliefs were fitted on this series, or on one of its long segments."""
        if self.private or not self.digests or not series.transitions.any():
            return False
        return not set(series_digests(series)).isdisjoint(self.digests)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        if self.private:
            return {"theta_from_private_data": True, "smoothing": self.smoothing}
        return {
            "digests": list(self.digests),
            "transitions": self.transitions,
            "smoothing": self.smoothing,
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
        return cls(tuple(str(d) for d in data.get("digests", ())), moves, added)


def counts_digest(counts: NDArray[Any], states: Sequence[Hashable]) -> str:
    """A digest of a table of counts that depends on labels, not on their order."""
    cells = sorted(
        (str(states[x]), str(states[y]), int(counts[x, y])) for x, y in np.argwhere(counts)
    )
    return hashlib.sha256(json.dumps(cells).encode()).hexdigest()


def series_digests(series: Series) -> tuple[str, ...]:
    """The digest of all transitions, then those of long segments if there are several."""
    found = [counts_digest(series.transitions, series.states)]
    if len(series.lengths) > 1:
        long = [segment for segment in series.segments if len(segment) >= LONG]
        size = len(series.states)
        for segment in long[:_MOST]:
            moves = np.bincount(segment[:-1] * size + segment[1:], minlength=size * size)
            found.append(counts_digest(moves.reshape(size, size), series.states))
    return tuple(found)


def check_not_fitted_on(sources: Sequence[Provenance], series: Series) -> None:
    """Refuse a series that the beliefs were fitted on."""
    if any(source.covers(series) for source in sources):
        raise ValueError(
            "beliefs: were fitted to the very series being released, so the model gives it away "
            f"without noise; {ALTERNATIVES}"
        )
