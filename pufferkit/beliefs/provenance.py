"""Where beliefs come from, so that a series is not protected by a model of itself.

A matrix counted from the series to be released is a release without noise. Beliefs therefore hold a
digest of the counts they were fitted on and digests of identifying passages of the data
(`pufferkit.data.passages`), and a release refuses a series with the same counts or with one of
these passages: the whole series, a window of it, or a series that contains it. Fitting to private
data nevertheless must be declared, and every result is then marked as based on private data.

Beliefs may also be *bought*: counted with noise from the very data to be released
(`pufferkit.private_transitions`). They tell what that has spent on every entry, and a release
refuses them unless it pays for it too, or the data are declared to be other people's.

The provenance is passed on to every object made from the beliefs: reversals, classes, files. It
cannot be passed on with a bare matrix: ``ChainClass.any_start(chain.transition)`` has none.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pufferkit import checks
from pufferkit.data.passages import Passages, name_of, passages_of, share_a_passage
from pufferkit.data.series import Series

KINDS: dict[str, Any] = {}
"""The class of beliefs that reads each kind of record, filled as the classes are defined."""


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
