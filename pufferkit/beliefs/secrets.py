"""Secrets: what is hidden from an adversary, where that is not the value of one entry.

Pufferfish privacy names its secrets: pairs of events whose likelihood ratio, given any output, is
at most e^epsilon. By default they are any two values of any one entry. `Secrets` are others: values
of several consecutive entries, whether something happens within a window, or named pairs only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import product
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pufferkit import checks
from pufferkit.beliefs.markov_chain import labels
from pufferkit.records import written

MOST_PATTERNS = 1024
"""Most values of a window for which a function is evaluated."""

Moves = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Automaton:
    """Reads the entries of a window one by one and ends in a label."""

    moves: tuple[Moves, ...]
    """For each entry of the window: the state of the automaton after it, by the state before it
    (rows; it begins in state 0) and the value of the entry (columns)."""
    ends: tuple[int, ...]
    """The label, counted from 0, of every state that the automaton can end in."""
    labels: tuple[str, ...]
    """The events to be kept indistinguishable."""


class Secrets(ABC):
    """Pairs of events that must stay indistinguishable; made by one of the functions below.

    A window is any run of consecutive entries of one segment.

    Examples
    --------
    >>> import pufferkit as pk
    >>> chain = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]], states=["rest", "active"])
    >>> theta = pk.ChainClass.of(chain).with_secrets(pk.Secrets.runs(6))
    >>> theta.secrets.description
    'any two values of any 6 entries in a row'
    >>> query = pk.count("active", 1000)
    >>> round(pk.influence_curve(chain, query, 1).scale, 2)
    3.34
    >>> round(pk.influence_curve(theta, query, 1).scale, 2)
    8.15
    """

    kind: ClassVar[str]
    window: int

    @staticmethod
    def runs(window: int) -> Secrets:
        """Any two values of any ``window`` consecutive entries, and so any event about them.

        With 2 entries, the secrets are the transitions. Epsilon is guaranteed for every function of
        the window: whichever two events about it an adversary compares, each is a mixture of
        values.
        """
        return Runs(checks.whole("window", window, 1))

    @staticmethod
    def sets(count: int) -> Secrets:
        """Any two values of any ``count`` entries of a segment, wherever they lie.

        The entries of `runs` are adjacent and largely redundant; the losses of distant entries add
        up.

        Examples
        --------
        >>> Secrets.sets(3)
        Secrets(any two values of any 3 entries of a segment)
        """
        return Sets(checks.whole("count", count, 1))

    @staticmethod
    def at_least(states: Any, within: int, times: int = 1) -> Secrets:
        """Whether some values occur in a window at least ``times`` times.

        Parameters
        ----------
        states
            The value, or values, that count.
        within
            Length of the window.
        times
            Least number of occurrences.

        Examples
        --------
        >>> Secrets.at_least("smoking", within=2016)
        Secrets(whether any 2016 entries in a row are smoking at least once)
        """
        window = checks.whole("within", within, 1)
        often = checks.whole("times", times, 1)
        if often > window:
            raise ValueError(
                f"times: must be at most {window}, the entries of the window, got {often}"
            )
        return Counted(window, _labels(states), often)

    @staticmethod
    def throughout(states: Any, within: int) -> Secrets:
        """Whether all entries of a window have one of these values.

        Examples
        --------
        >>> Secrets.throughout("asleep", within=12)
        Secrets(whether any 12 entries in a row are all asleep)
        """
        return Counted(checks.whole("within", within, 1), _labels(states), None)

    @staticmethod
    def patterns(window: int, label: Callable[[tuple[Hashable, ...]], Hashable]) -> Secrets:
        """The label of a window, a function of its values.

        Parameters
        ----------
        window
            Number of entries, the arguments of the function.
        label
            Takes a tuple of values and returns the label that the adversary must not learn.

        Examples
        --------
        >>> Secrets.patterns(2, lambda values: values[0] == values[1])
        Secrets(the label of any 2 entries in a row)
        """
        if not callable(label):
            raise ValueError("label: must be a function of a tuple of values")
        return Patterns(checks.whole("window", window, 1), label)

    @staticmethod
    def pairs(pairs: Any) -> Secrets:
        """Only these pairs of values of an entry, in both directions.

        Parameters
        ----------
        pairs
            Pairs of values; or a mapping from pairs to multiples of epsilon, at least 1: a pair
            with 2 is guaranteed twice the epsilon of the release, which is that of the strictest
            pair.

        Examples
        --------
        >>> Secrets.pairs({("rest", "walk"): 2, ("rest", "run"): 1})
        Secrets(of any entry: rest or walk (2 epsilon), rest or run)
        """
        given = pairs.items() if isinstance(pairs, Mapping) else [(p, 1.0) for p in pairs]
        multiples: dict[tuple[Hashable, Hashable], float] = {}
        for pair, multiple in given:
            if not isinstance(pair, (tuple, list)) or len(pair) != 2 or pair[0] == pair[1]:
                raise ValueError(f"pairs: each must be two different values, got {pair!r}")
            # Below 1, bounds on the total loss would not bound that of the pair.
            if checks.positive("pairs", multiple) < 1:
                raise ValueError(
                    f"pairs: {pair!r} has {multiple:g} times epsilon; multiples must be at least "
                    "1, "
                    "so take the epsilon of the strictest pair for the release"
                )
            multiples[pair[0], pair[1]] = float(multiple)
        if not multiples:
            raise ValueError("pairs: must name at least one pair")
        return Pairs(tuple(multiples.items()))

    @property
    @abstractmethod
    def description(self) -> str:
        """One line for tables and reports."""

    def attached(self, states: Sequence[Hashable]) -> Secrets:
        """The same secrets, checked for chains over these states."""
        return self

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        given: Any = self
        return {
            "kind": self.kind,
            **{f.name: written(getattr(self, f.name)) for f in fields(given)},
        }

    @staticmethod
    def from_dict(data: Any) -> Secrets:
        """The secrets that ``to_dict`` described."""
        if not isinstance(data, Mapping):
            raise ValueError("secrets: must be an object")
        kind = data.get("kind")
        if kind == "runs":
            return Secrets.runs(data["window"])
        if kind == "sets":
            return Secrets.sets(data["count"])
        if kind == "counted" and data["times"] is None:
            return Secrets.throughout(list(labels(data["states"])), data["window"])
        if kind == "counted":
            states = list(labels(data["states"]))
            return Secrets.at_least(states, data["window"], data["times"])
        if kind == "patterns":
            named = tuple(str(label) for label in data["labels"])
            return Listed(checks.whole("window", data["window"], 1), named)
        if kind == "pairs":
            return Secrets.pairs({(a, b): multiple for a, b, multiple in data["pairs"]})
        raise ValueError(f"secrets: kind {kind!r} is unknown")

    def __repr__(self) -> str:
        return f"Secrets({self.description})"


@dataclass(frozen=True, repr=False)
class _AnyValues(Secrets):
    """Any two values of several entries."""

    place: ClassVar[str]
    window: int

    @property
    def description(self) -> str:
        if self.window == 1:
            return "any two values of any entry"
        return f"any two values of any {self.window} entries {self.place}"


@dataclass(frozen=True, repr=False)
class Runs(_AnyValues):
    """See `Secrets.runs`."""

    kind = "runs"
    place = "in a row"


@dataclass(frozen=True, repr=False)
class Sets(_AnyValues):
    """See `Secrets.sets`."""

    kind = "sets"
    place = "of a segment"

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "sets", "count": self.window}


@dataclass(frozen=True, repr=False)
class Pairs(Secrets):
    """See `Secrets.pairs`."""

    kind = "pairs"
    multiples: tuple[tuple[tuple[Hashable, Hashable], float], ...]
    window: int = 1

    @property
    def description(self) -> str:
        said = [f"{a} or {b}" + _times(multiple) for (a, b), multiple in self.multiples[:4]]
        more = len(self.multiples) - 4
        return "of any entry: " + ", ".join(said) + (f" and {more} more pairs" if more > 0 else "")

    def attached(self, states: Sequence[Hashable]) -> Secrets:
        _known(states, [value for pair, _ in self.multiples for value in pair])
        return self

    def parts(self, states: Sequence[Hashable]) -> NDArray[np.float64]:
        """The weight of the loss of each pair: 1 / its multiple, 0 if it is not a secret."""
        place = {state: n for n, state in enumerate(states)}
        parts = np.zeros((len(states), len(states)))
        for (a, b), multiple in self.multiples:
            for x, y in ((place[a], place[b]), (place[b], place[a])):
                parts[x, y] = max(parts[x, y], 1 / multiple)
        return parts

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "pairs", "pairs": [[a, b, m] for (a, b), m in self.multiples]}


class Events(Secrets):
    """Labels of windows, read by an automaton."""

    @abstractmethod
    def automaton(self, states: Sequence[Hashable]) -> Automaton:
        """The automaton that reads the label of a window of these states."""


@dataclass(frozen=True, repr=False)
class Counted(Events):
    """See `Secrets.at_least`, and `Secrets.throughout` where ``times`` is ``None``."""

    kind = "counted"
    window: int
    states: tuple[Hashable, ...]
    times: int | None

    @property
    def description(self) -> str:
        which = " or ".join(str(state) for state in self.states)
        entries = "1 entry" if self.window == 1 else f"{self.window} entries in a row"
        if self.times is None:
            return f"whether any {entries} are all {which}"
        often = "once" if self.times == 1 else f"{self.times} times"
        return f"whether any {entries} are {which} at least {often}"

    def attached(self, states: Sequence[Hashable]) -> Secrets:
        _known(states, self.states)
        if not set(states) - set(self.states):
            raise ValueError("states: name every state, so there is nothing to hide; leave one out")
        return self

    def automaton(self, states: Sequence[Hashable]) -> Automaton:
        counts = np.array([state in self.states for state in states])
        if self.times is None:  # all entries, unless another value occurs
            one = _counter(~counts, 1)
            return Automaton((one,) * self.window, (0, 1), ("all of them", "not all"))
        one = _counter(counts, self.times)
        ends = (*[0] * self.times, 1)
        labels = ("never", "at least once")
        if self.times > 1:
            labels = ("fewer", f"at least {self.times} times")
        return Automaton((one,) * self.window, ends, labels)


@dataclass(frozen=True, repr=False)
class Patterns(Secrets):
    """See `Secrets.patterns`: a function, until the states are known."""

    kind = "a function"
    window: int
    label: Callable[[tuple[Hashable, ...]], Hashable]

    @property
    def description(self) -> str:
        return f"the label of any {self.window} entries in a row"

    def attached(self, states: Sequence[Hashable]) -> Secrets:
        count = len(states) ** self.window
        if count > MOST_PATTERNS:
            raise ValueError(
                f"window: {self.window} entries of {len(states)} states have {count} values, more "
                f"than {MOST_PATTERNS}; use runs, at_least or throughout"
            )
        given = [self.label(values) for values in product(states, repeat=self.window)]
        labels = tuple(str(label) for label in given)
        if len(set(given)) != len(set(labels)):
            raise ValueError("label: two different labels have the same text; rename one")
        return Listed(self.window, labels).attached(states)

    def to_dict(self) -> dict[str, Any]:
        raise ValueError("secrets: a function has no plain form before the states are known")


@dataclass(frozen=True, repr=False)
class Listed(Events):
    """The labels of all values of a window, in the order of the states, the last entry fastest."""

    kind = "patterns"
    window: int
    labels: tuple[str, ...]

    @property
    def description(self) -> str:
        names = list(dict.fromkeys(self.labels))
        said = ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")
        return f"the label ({said}) of any {self.window} entries in a row"

    def attached(self, states: Sequence[Hashable]) -> Secrets:
        if len(self.labels) != len(states) ** self.window:
            raise ValueError(
                f"secrets: {len(states)} states need {len(states) ** self.window} labels, got "
                f"{len(self.labels)}"
            )
        if len(set(self.labels)) < 2:
            raise ValueError(
                "label: all values have the same label, so there is nothing to hide; use two labels"
            )
        return self

    def automaton(self, states: Sequence[Hashable]) -> Automaton:
        size, moves, before = len(states), [], 1
        for _ in range(self.window):
            moves.append(np.arange(before * size, dtype=np.int64).reshape(before, size))
            before *= size
        names = tuple(dict.fromkeys(self.labels))
        ends = tuple(names.index(label) for label in self.labels)
        return Automaton(tuple(moves), ends, names)


def _counter(counts: NDArray[np.bool_], most: int) -> Moves:
    """Counts entries, up to ``most``."""
    so_far = np.arange(most + 1)[:, None]
    return np.minimum(so_far + counts[None, :], most).astype(np.int64)


def _times(multiple: float) -> str:
    return "" if multiple == 1 else f" ({multiple:g} epsilon)"


def _labels(states: Any) -> tuple[Hashable, ...]:
    if isinstance(states, (list, tuple, set, frozenset)):
        named = tuple(states)
        if not named:
            raise ValueError("states: must name at least one value")
        return named
    return (states,)


def _known(states: Sequence[Hashable], named: Iterable[Hashable]) -> None:
    for value in named:
        if value not in states:
            known = ", ".join(str(state) for state in list(states)[:8])
            raise ValueError(
                f"secrets: {value!r} is not a state of these beliefs; they have {known}"
            )
