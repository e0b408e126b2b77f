"""Queries: what is asked of the data, and how far one entry can move the answer.

A query is L-Lipschitz if changing one entry moves the answer by at most L in L1 norm ([Q]
Definition 2.5). Of sums over entries (`pufferkit.data.additive`) L is exact: the largest L1
distance between the contributions of two states. An entry that was not observed contributes
nothing, so a query with gaps is a query over all entries of the span, gaps included, with the same
constant: every mechanism that hides Lipschitz queries over the span covers it. A query made with
the `Series` knows which entries are missing, and mechanisms may then need less noise.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from math import gcd, lcm
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pufferkit import checks
from pufferkit.data.coded_answers import OverCodes
from pufferkit.data.series import Pattern, Series, in_memory
from pufferkit.data.table import Table
from pufferkit.records import Asked, plain
from pufferkit.rounding import as_fraction

Weights = Mapping[Hashable, tuple[Fraction, ...]]
Lengths = int | Iterable[int] | Series | Table
"""Length of a series, lengths of its segments; or the `Series` itself, or the `Table` of one
subject, with its gaps."""

Kind = Literal[
    "count",
    "histogram",
    "relative frequencies",
    "total",
    "mean",
    "transition counts",
    "by time",
    "time in states",
    "episodes",
    "stays",
    "days with",
    "quantile",
    "several",
    "own",
]
"""Kinds of queries. For all but ``"own"`` it is known how far one entry moves the answer."""


CLOSE = 2.0**-20
"""Least distance between the contributions of two states that is distinguished, as a share of L."""


@dataclass(frozen=True, eq=False)
class Query(Asked):
    """A query with its Lipschitz constant and the segments it runs over.

    Parameters
    ----------
    name
        For tables and records. A query of your own is known by its name and its numbers (bound,
        distances, unit, labels, lengths): give different functions different names.
    evaluate
        The exact answer: takes the array of all entries (labels, segments one after another,
        ``None`` where nothing was observed) and returns a number or a vector of numbers.
    lipschitz
        Largest L1 change of the answer when one entry changes. It is not checked.
    lengths
        Length of the series, or the lengths of its independent segments, entries that were not
        observed included; or the `Series` itself, of which only lengths and gaps are taken (as
        ``pattern``). These are public.
    observed
        How many entries of each segment were observed, if the answer depends on it; taken from a
        `Series`. ``None``: any number.
    labels
        Names of the coordinates of the answer.
    states
        All states that may occur; data with any other state are refused. ``None``: any state may
        occur.
    total
        The sum of the coordinates, if it is fixed and public.
    weights
        For sums over entries: the contribution of each state, exactly. States not listed
        contribute nothing.
    kind
        The kind of query; set by `count` and the other functions below, ``"own"`` for user-defined
        queries.
    unit
        Every coordinate of every answer is a whole multiple of it: 1 for counts, 1/T for shares of
        T entries. Such answers get discrete noise. It follows from ``weights``; for other queries
        it is taken as given, and answers that are not multiples are refused. ``None``: any number.
    apart
        For queries that are not sums: a row of numbers for each state, such that replacing x by x'
        at one entry moves the answer by at most the L1 distance of their rows, whatever the other
        entries are. States not listed have a row of zeros. ``None``: by at most ``lipschitz``.
    columns
        For joined queries: for each number of a row of ``apart``, the coordinate by whose scale it
        is divided.
    question
        Arguments of the query, as plain data for the record: from these and ``kind``, `verify`
        computes how far an entry moves the answer.
    step
        Seconds between entries, taken from a `Series`; beliefs with another step are refused.

    Examples
    --------
    >>> import pufferkit as pk
    >>> data = pk.Series.of(["rest", "active", "rest"], ["rest", "active"])
    >>> changes = Query(
    ...     "changes",
    ...     lambda codes: [(codes[1:] != codes[:-1]).sum()],
    ...     lipschitz=2,
    ...     lengths=3,
    ... )
    >>> changes.exact(data)
    [Fraction(2, 1)]
    """

    name: str
    evaluate: Callable[[NDArray[Any]], Any]
    lipschitz: float
    lengths: tuple[int, ...]
    labels: tuple[str, ...] = ("value",)
    states: tuple[Hashable, ...] | None = None
    total: float | None = None
    weights: Weights | None = field(default=None, repr=False)
    kind: Kind = "own"
    observed: tuple[int, ...] | None = None
    independent_after: str | None = None
    unit: Fraction | None = None
    pattern: Pattern | None = field(default=None, repr=False)
    apart: Weights | None = field(default=None, repr=False)
    question: Mapping[str, Any] | None = field(default=None, repr=False)
    columns: tuple[int, ...] | None = field(default=None, repr=False)
    step: float | None = None

    def __init__(
        self,
        name: str,
        evaluate: Callable[[NDArray[Any]], Any],
        lipschitz: float,
        lengths: Lengths,
        *,
        labels: Iterable[str] = ("value",),
        states: Iterable[Hashable] | None = None,
        total: float | None = None,
        weights: Weights | None = None,
        kind: Kind = "own",
        observed: Iterable[int] | None = None,
        unit: Fraction | float | None = None,
        apart: Weights | None = None,
        question: Mapping[str, Any] | None = None,
        columns: Iterable[int] | None = None,
        pattern: Pattern | None = None,
        step: float | None = None,
    ) -> None:
        declared, sizes = None, in_memory(lengths)
        if isinstance(sizes, Series):
            step = sizes.step
            declared, observed = sizes.independent_after, sizes.observed_lengths
            pattern = sizes.pattern
            sizes = sizes.lengths
        known = None if states is None else checks.distinct_states(states)
        for field_name, value in {
            "name": str(name),
            "evaluate": evaluate,
            "lipschitz": checks.positive("lipschitz", lipschitz),
            "lengths": checks.segment_lengths(sizes),
            "labels": tuple(str(label) for label in labels),
            "states": known,
            "total": total,
            "weights": weights,
            "kind": kind,
            "observed": None if observed is None else tuple(observed),
            "independent_after": declared,
            "unit": _unit_of(unit, weights),
            "pattern": pattern,
            "apart": apart,
            "question": question,
            "columns": None if columns is None else tuple(columns),
            "step": step,
        }.items():
            object.__setattr__(self, field_name, value)
        if not self.name.strip():
            raise ValueError("name: must not be empty; an account knows a query by its name")
        if not callable(evaluate):
            raise ValueError(f"evaluate: must be a function of the data, got {evaluate!r}")
        if weights is not None:
            self._check_weights(weights)
        if apart is not None:
            self._check_apart(apart)

    def stated(self) -> dict[str, Any]:
        """The question without the entries it is about, as plain data.

        A function of the user's own is known by its name and its labels; all others by their
        arguments.
        """
        own = self.kind == "own" and self.weights is None
        known = frozenset(self.states or ())
        return {
            "kind": self.kind,
            "own": [self.name, list(self.labels)] if own else None,
            "question": plain(self.question),
            # In order, where coordinates follow it; weights have it by themselves.
            "states": plain(self.states if None in (self.weights, self.states) else known),
            "weights": plain(self.weights),
            "apart": plain(self.apart),
            "columns": plain(self.columns),
            "lipschitz": plain(self.lipschitz),
            "unit": plain(self.unit),
            "size": self.size,
        }

    def asked(self) -> dict[str, Any]:
        """The question and the entries it is about, as plain data."""
        over = [self.lengths, self.observed if self.missing else None, self.pattern, self.total]
        known = self.kind != "own" and is_dataclass(self.evaluate)
        computed = plain(self.evaluate) if known else None
        return {**self.stated(), "over": plain(over), "computed": computed}

    @property
    def size(self) -> int:
        """Number of coordinates of the answer."""
        return len(self.labels)

    @property
    def longest(self) -> int:
        """Length of the longest independent segment, entries that were not observed included."""
        return max(self.lengths)

    @property
    def missing(self) -> int:
        """How many entries are known not to have been observed."""
        return 0 if self.observed is None else sum(self.lengths) - sum(self.observed)

    @cached_property
    def largest(self) -> float | None:
        """Public bound on the size of a coordinate of the answer; ``None`` if there is none."""
        if self.kind == "transition counts":
            return self.total
        if isinstance(self.evaluate, OverCodes):
            return float(sum(self.lengths) * self.evaluate.unit)
        if self.kind == "several":
            each = [part.largest for part in self.evaluate.parts]  # type: ignore[attr-defined]
            return None if None in each else max(each)
        if self.weights is None:
            return None
        sizes = (abs(w) for row in self.weights.values() for w in row if w)
        return sum(self.lengths) * float(max(sizes, default=0))

    @cached_property
    def closest(self) -> float:
        """The least change of a sum by one entry that changes it at all; L for other queries.

        In L1 norm, and at least `CLOSE` times L.
        """
        alike = self.weights is None and self.apart is None
        if alike or self.kind in ("histogram", "relative frequencies"):
            return self.lipschitz
        apart = [distance for distance in distances(self._rows) if distance]
        least = min(apart, default=Fraction(0))
        rounded = float(least)
        if Fraction(rounded) > least:
            rounded = float(np.nextafter(rounded, 0))
        return min(self.lipschitz, max(rounded, CLOSE * self.lipschitz))

    @property
    def _rows(self) -> list[tuple[Fraction, ...]]:
        """The distinct contributions of states; zero for states that are not listed."""
        weights = self.moved or {}
        rows = set(weights.values())
        if self.states is None or set(self.states) - set(weights):
            rows.add((Fraction(0),) * len(next(iter(weights.values()))))
        return list(rows)

    @property
    def moved(self) -> Weights | None:
        """Rows by state; their L1 distances are, or bound, how far an entry moves the answer."""
        return self.weights if self.apart is None else self.apart

    def _check_apart(self, apart: Weights) -> None:
        if self.weights is not None:
            raise ValueError(
                "apart: is for queries that are not sums; leave it out, as weights give it exactly"
            )
        widths = {len(row) for row in apart.values()}
        if len(widths) != 1 or 0 in widths:
            raise ValueError(
                "apart: must have a row of numbers for each state, all of equal length"
            )
        self._check_furthest()

    def _check_weights(self, weights: Weights) -> None:
        if any(len(row) != self.size for row in weights.values()):
            raise ValueError(
                f"weights: must have {self.size} numbers for each state, one for each label"
            )
        if self.kind == "own":
            self._check_furthest()

    def _check_furthest(self) -> None:
        furthest = max(distances(self._rows), default=Fraction(0))
        if furthest > Fraction(self.lipschitz):
            raise ValueError(
                f"lipschitz: an entry moves the answer by up to {float(furthest):g} with these "
                f"weights, more than {self.lipschitz:g}; give at least that"
            )

    def exact(self, series: Series) -> list[Fraction]:
        """The exact answer, free of rounding for sums over entries. Never leaves the process."""
        if hasattr(self.evaluate, "exact"):
            parts = list(self.evaluate.exact(series))
        elif self.weights is None:
            labels = series.labels
            entries = np.array(labels)
            if series.missing:
                entries = np.fromiter(labels, dtype=object, count=len(labels))
            answer = np.atleast_1d(checks.numbers("answer", self.evaluate(entries)))
            parts = [Fraction(float(value)) for value in answer.ravel()]
            if self.unit is not None and any((v / self.unit).denominator > 1 for v in parts):
                raise ValueError(
                    f"evaluate: returned a number that is not a whole multiple of {self.unit}"
                )
        else:
            parts = [Fraction(0)] * self.size
            for state, count in zip(series.states, series.counts.tolist(), strict=True):
                for j, weight in enumerate(self.weights.get(state, ())):
                    if weight:  # a histogram of many states has few others
                        parts[j] += count * weight
        if len(parts) != self.size:
            raise ValueError(
                f"evaluate: returned {len(parts)} numbers but the query has {self.size} labels; "
                "pass labels, one for each coordinate"
            )
        return parts


def _unit_of(unit: Fraction | float | None, weights: Weights | None) -> Fraction | None:
    """The largest unit that divides all weights, or the one that was given."""
    if weights is None:
        if unit is not None and as_fraction("unit", unit) <= 0:
            raise ValueError(f"unit: must be above 0, got {unit}")
        return None if unit is None else as_fraction("unit", unit)
    if unit is not None:
        raise ValueError("unit: follows from the weights; leave it out")
    numbers = [weight for row in weights.values() for weight in row if weight]
    if not numbers:
        return None
    return Fraction(
        gcd(*(number.numerator for number in numbers)),
        lcm(*(number.denominator for number in numbers)),
    )


def distances(rows: Sequence[tuple[Fraction, ...]]) -> Iterator[Fraction]:
    """L1 distances between contributions."""
    for one, other in combinations(rows, 2):
        yield sum((abs(a - b) for a, b in zip(one, other, strict=True)), Fraction(0))


def observed_in(lengths: Lengths | None) -> tuple[int, ...]:
    """How many entries of each segment a query over these lengths counts."""
    over = in_memory(lengths)
    if over is None:
        raise ValueError(
            "lengths: must be given, as the number of entries or the series itself, like "
            "histogram(['rest', 'walk'], series)"
        )
    if isinstance(over, Series):
        return over.observed_lengths
    return checks.segment_lengths(over)
