"""Questions and queries: what is asked of the data, and how far one entry can move the answer.

A `Question` holds what is asked and nothing else: each is one frozen dataclass in
`pufferkit.data.queries`, whose fields are its arguments in Python, its options on the command line,
its form on the page and its record. Asked of a series (`Question.bind`) it becomes a `Query`, with
labels, a unit, and the Lipschitz constant that mechanisms need.

A query is L-Lipschitz if changing one entry moves the answer by at most L in L1 norm ([Q]
Definition 2.5). Of sums over entries L is exact: the largest L1 distance between the contributions
of two states. An entry that was not observed contributes nothing, so a query with gaps is a query
over all entries of the span, gaps included, with the same constant: every mechanism that hides
Lipschitz queries over the span covers it. A query made with the `Series` knows which entries are
missing, and mechanisms may then need less noise.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from fractions import Fraction
from functools import cached_property
from html import escape
from importlib import import_module
from itertools import combinations
from math import gcd, lcm
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pufferkit import checks
from pufferkit.checks import Floats, Ints
from pufferkit.data.calendar import NO_CALENDAR, Calendar
from pufferkit.data.series import UNOBSERVED, Pattern, Series, in_memory, observed_places
from pufferkit.data.table import Table
from pufferkit.errors import NoTheorem, printable
from pufferkit.records import Asked, plain
from pufferkit.rounding import as_fraction, at_least

Weights = Mapping[Hashable, tuple[Fraction, ...]]
"""A row of numbers for each state; states that are not listed have zeros."""
Lengths = int | Iterable[int] | Series | Table
"""Length of a series, lengths of its segments; or the `Series` itself, or the `Table` of one
subject, with its gaps."""

CLOSE = 2.0**-20
"""Least distance between the contributions of two states that is distinguished, as a share of L."""


class CostRun(NamedTuple):
    """A number of entries in a row, and how far replacing x by x' at one moves the answer."""

    entries: int
    cost: Floats


@dataclass(frozen=True, eq=False)
class Over:
    """What a question is asked of: states, segments, gaps and times. All of it is public.

    Attributes
    ----------
    states
        All states that may occur; ``None`` if that is not known.
    lengths
        Lengths of the segments, entries that were not observed included.
    observed
        How many entries of each segment were observed; ``None`` if only lengths were given.
    pattern
        Which entries were not observed, as runs; ``None`` if all were.
    calendar, step
        The times of the entries, and the seconds between them, if known.
    """

    states: tuple[Hashable, ...] | None
    lengths: tuple[int, ...]
    observed: tuple[int, ...] | None = None
    pattern: Pattern | None = None
    calendar: Calendar | None = None
    independent_after: str | None = None
    step: float | None = None

    @classmethod
    def of(
        cls,
        states: Iterable[Hashable] | None,
        lengths: Lengths | None,
        calendar: Calendar | None = None,
    ) -> Over:
        """From a length, lengths, a `Series` or the `Table` of one subject."""
        over = in_memory(lengths)
        if over is None:
            raise ValueError(
                "lengths: must be given, as the number of entries or the series itself, like "
                "histogram(['rest', 'walk'], series)"
            )
        if calendar is not None and not isinstance(calendar, Calendar):
            raise ValueError(f"calendar: must be a Calendar, got {type(calendar).__name__}")
        known = None if states is None else checks.distinct_states(states)
        if not isinstance(over, Series):
            return cls(known, checks.segment_lengths(over), calendar=calendar)
        return cls(
            known,
            over.lengths,
            over.observed_lengths,
            over.pattern,
            over.calendar if calendar is None else calendar,
            over.independent_after,
            over.step,
        )

    @property
    def entries(self) -> int:
        """How many entries were observed."""
        return sum(self.lengths if self.observed is None else self.observed)

    @property
    def seen(self) -> NDArray[np.bool_]:
        """Which entries were observed, segments one after another."""
        if self.pattern is None:
            return np.ones(sum(self.lengths), dtype=bool)
        return np.concatenate([observed_places(runs) for runs in self.pattern])

    @property
    def clock(self) -> Calendar:
        """The times of the entries; an error if they are not known."""
        if self.calendar is None:
            raise ValueError(NO_CALENDAR)
        return self.calendar

    @property
    def all_states(self) -> tuple[Hashable, ...]:
        """Two or more states, for questions about each of them."""
        if self.states is None:
            raise ValueError("states: must be given, all that may occur, or beliefs that name them")
        if len(self.states) < 2:
            raise ValueError(
                f"states: a histogram needs at least two states, got {list(self.states)}; "
                "over one state it is constant"
            )
        return self.states


class OptionName(NamedTuple):
    """A name of a question on the command line and the page: its topic, words and fixed fields."""

    topic: str
    words: str
    fixed: Mapping[str, Any] = {}


NAMES: dict[str, type[Question]] = {}
"""The class of each question by its name, filled as the classes are defined."""


KINDS: dict[str, type[Question]] = {}
"""The class of each question by what records call it."""


@dataclass(frozen=True)
class Question(Asked):
    """What is asked, of any series: `bind` asks it of one.

    A subclass states, in whole units of the answer, how far an entry moves it (`apart`), and
    computes it, once: from how often each state occurs where that is enough (`of_counts`), from the
    entries otherwise (`of_codes`). All else follows. There is no default for either.
    """

    kind: ClassVar[str]
    """What it is called in records."""
    names: ClassVar[Mapping[str, OptionName]] = {}
    """Its names on the command line and the page."""
    counted: ClassVar[bool] = False
    """Whether the answer depends on how many entries were observed."""
    clocked: ClassVar[bool] = False
    """Whether it is about hours or days."""
    binned: ClassVar[bool] = False
    """Whether the answer is a histogram, or one for each slot, with public totals."""
    chooses: ClassVar[bool] = False
    """Whether the answer is a level that is chosen with noise, not a number with noise."""
    counting: ClassVar[bool] = False
    """Whether how often each state occurs is all that the answer depends on."""
    noun: ClassVar[str] = "answers"
    """What its numbers are, in a sentence."""
    axis: ClassVar[str] = "entries"
    """What its numbers are, on an axis."""
    picture: ClassVar[str] = "bars"
    """How they are drawn: ``"bars"``, ``"slots"`` of time or ``"moves"`` between states."""
    replaced: ClassVar[bool] = False
    """Whether what is derived from the release is the answer, and not only shown beside it."""
    per: ClassVar[str | None] = None
    """What the answer is divided by: the ``"entries"``, the ``"days"``, or nothing."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.counting = cls.of_counts is not Question.of_counts
        for name in vars(cls).get("names", ()):
            NAMES[name] = cls
        if "kind" in vars(cls) and not cls.__name__.startswith("_"):
            KINDS[cls.kind] = cls

    @property
    def name(self) -> str:
        """Its name on the command line."""
        fits = (
            name
            for name, named in self.names.items()
            if all(getattr(self, key) == value for key, value in named.fixed.items())
        )
        return next(fits, self.kind)

    @property
    def title(self) -> str:
        """What a table or record calls it."""
        return self.kind

    def __str__(self) -> str:
        fixed = self.names[self.name].fixed if self.name in self.names else {}
        shown = [
            _shown(own.name, getattr(self, own.name))
            for own in fields(self)
            if own.name not in fixed
        ]
        return " ".join([self.name, *filter(None, shown)])

    @property
    def python(self) -> str:
        """The question in Python."""
        given = [f"{own.name}={getattr(self, own.name)!r}" for own in fields(self)]
        return f"question({', '.join([repr(self.name), *given])})"

    def bind(
        self,
        states: Iterable[Hashable] | None,
        over: Lengths | None,
        calendar: Calendar | None = None,
    ) -> Query:
        """The query about these states and this series, or these lengths."""
        return self.about(Over.of(states, over, calendar))

    def about(self, over: Over) -> Query:
        """The query about what is described."""
        unit = self.unit(over)
        rows = self.apart(over)
        uniform = not isinstance(rows, Mapping)
        known = self.known(over)
        added = self.adds(over)
        seen = over.observed
        if seen is None and self.counted:
            seen = over.lengths
        furthest = Fraction(rows) if uniform else furthest_of(rows, known)  # type: ignore[arg-type]
        try:
            constant = at_least(furthest * unit)
        except OverflowError:
            raise ValueError("values: their range is too large for a float; rescale them") from None
        return Query(
            self.title,
            Answering(self, over),
            constant,
            over.lengths,
            labels=self.labels(over),
            states=known,
            total=self.total(over),
            weights=None if added is None else scaled(added, unit),
            kind=self.kind,
            observed=seen,
            unit=None if added is not None else unit,
            pattern=over.pattern,
            apart=None if uniform or added is not None else scaled(rows, unit),  # type: ignore[arg-type]
            question=self.recorded(over),
            asks=self,
            independent_after=over.independent_after,
            step=over.step,
        )

    def recorded(self, over: Over) -> dict[str, Any]:
        """What was asked and of what, as plain data, from which `remade` makes the query again."""
        record = {
            "arguments": {own.name: encoded(getattr(self, own.name)) for own in fields(self)},
            "states": None if over.states is None else encoded(over.states),
            "calendar": over.calendar.to_dict() if self.clocked and over.calendar else None,
            "gaps": None if over.pattern is None else [list(runs) for runs in over.pattern],
            **self.record(over),
        }
        reading = self.reading()
        return record if reading is None else {**record, "derive": _derived(*reading)}

    def apart(self, over: Over) -> Weights | int:
        """How far an entry moves the answer, in units: the statement that mechanisms rely on.

        A row of numbers for each state, such that replacing x by x' at one entry moves the answer
        by at most the L1 distance of their rows, whatever the other entries are; or one number, if
        that bounds every change.
        """
        raise NoTheorem(f"query: it is not stated how far an entry moves {self.name}")

    def moved(self, states: Iterable[Hashable], over: Lengths) -> tuple[CostRun, ...]:
        """How far an entry moves the answer: a matrix over pairs of states for runs of entries."""
        known = tuple(states)
        return self.bind(known, over).moved(known)

    def adds(self, over: Over) -> Weights | None:
        """For sums over entries: what each state adds, in units; ``None`` for other questions."""
        return None

    def additive(self, states: Sequence[Hashable]) -> tuple[Ints, Ints] | None:
        """For sums over moves: what a first entry adds, and what a move from x to y, in units.

        A number for each of the states, and a matrix; where all entries are observed. ``None`` for
        other questions.
        """
        return None

    def counted_days(
        self, over: Over, states: Sequence[Hashable]
    ) -> tuple[NDArray[np.bool_], int, Ints] | None:
        """For a number of days: which states count, how many entries a day needs, its days.

        The days by their numbers of entries. ``None`` for other questions.
        """
        return None

    def of_codes(self, over: Over, codes: NDArray[np.intp]) -> NDArray[Any]:
        """The answer in whole units, from the places of the entries in `listed`.

        Entries that were not observed have code -1, states that are not listed the code after the
        last. By default `of_counts` of how often each occurs.
        """
        listed = self.listed(over) or ()
        counts = np.bincount(codes[codes >= 0], minlength=len(listed))[: len(listed)]
        return self.of_counts(over, listed, counts.astype(object))

    def of_counts(
        self, over: Over, states: tuple[Hashable, ...], counts: NDArray[Any]
    ) -> NDArray[Any]:
        """The answer in whole units, from how often each of the states occurs; row by row."""
        raise NotImplementedError

    def listed(self, over: Over) -> tuple[Hashable, ...] | None:
        """The states that the answer is computed from; all, or some of them."""
        return over.all_states

    def known(self, over: Over) -> tuple[Hashable, ...] | None:
        """All states that may occur; ``None``: others than those of the question may."""
        return over.all_states

    def labels(self, over: Over) -> Sequence[str]:
        """Names of the coordinates of the answer."""
        return ["value"]

    def unit(self, over: Over) -> Fraction:
        """Every coordinate of every answer is a whole multiple of it."""
        return Fraction(1)

    def grain(self, over: Over) -> Fraction:
        """The unit, before the answer is divided by what it is per."""
        return Fraction(1)

    def total(self, over: Over) -> float | None:
        """The sum of the coordinates, if it is fixed and public."""
        return None

    def bounds(self, over: Over) -> tuple[float, float] | None:
        """Least and largest value of a coordinate, for questions that are not sums, if known."""
        return None

    def reading(self) -> tuple[str, dict[str, Any]] | None:
        """What is derived from a release of it, by `Release.derive`, and with which arguments."""
        return None

    def largest(self, over: Over) -> float | None:
        """Public bound on the size of a coordinate of the answer; ``None`` if there is none."""
        return float(sum(over.lengths) * self.unit(over))

    def record(self, over: Over) -> dict[str, Any]:
        """Facts that readers of a record need beside the arguments, as plain data."""
        return {}

    def check(self, over: Over, series: Series) -> None:
        """Refuse a series that the query was not made for."""
        if not self.counting and series.lengths != over.lengths:
            raise ValueError(
                f"series: has segments of {list(series.lengths)[:5]} entries, but the query was "
                f"made for {list(over.lengths)[:5]}, in this order"
            )

    def exact(self, data: Any, states: Iterable[Hashable] | None = None) -> Any:
        """The exact answer; about a table, a list of those of its rows. Never leaves the process.

        Parameters
        ----------
        data
            A `Series`, a sequence of states, or a `Table`, which has a row for each subject, or
            for each subject and window.
        states
            All states, in this order; by default those of the data.

        Examples
        --------
        >>> from pufferkit import Series, histogram
        >>> histogram().exact(Series.of(["rest", "run", "run"], ["rest", "run"]))
        [Fraction(1, 1), Fraction(2, 1)]
        """
        known = None if states is None else tuple(states)
        if isinstance(data, Table):
            # Rows of tables are above this module, which only states questions.
            rows = import_module("pufferkit.data.exact_rows")
            labels = known or data.states
            return rows.exact_rows(data, self, labels)[0].fractions(self, labels)
        series = data if isinstance(data, Series) else Series.of(data, known)
        return self.bind(known or series.states, series).exact(series)

    def in_numbers(self) -> Question:
        """The question itself; for a noisy choice, the one with noisy numbers to choose from."""
        return self

    def whole(self, states: Iterable[Hashable], length: int) -> Query:
        """A query with whole answers that one entry moves exactly as far, in units of the answer.

        It needs no calendar, and noise for many series is calibrated with it. The unit and the
        divisor are public, so that both are applied after the noise.
        """
        return Whole(self).about(Over(tuple(states), (length,)))


@dataclass(frozen=True)
class Whole(Question):
    """A question in whole units about one segment: noise for many series is made for it."""

    kind: ClassVar[str] = "whole"
    asked_for: Question

    @property
    def title(self) -> str:
        return self.asked_for.title

    def apart(self, over: Over) -> Weights | int:
        return self.asked_for.apart(over)

    def adds(self, over: Over) -> Weights | None:
        return self.asked_for.adds(over)

    def labels(self, over: Over) -> Sequence[str]:
        if self.adds(over) is not None:
            return self.asked_for.labels(over)
        rows = self.apart(over)
        return [
            str(n) for n in range(1 if isinstance(rows, int) else len(next(iter(rows.values()))))
        ]


@dataclass(frozen=True, eq=False)
class Answering:
    """The answer to a question about one series; an object, so that it can be pickled."""

    question: Question
    over: Over

    def exact(self, series: Series) -> list[Fraction]:
        """The exact answer."""
        asks, over = self.question, self.over
        asks.check(over, series)
        known, codes = asks.listed(over) or (), series.codes
        if asks.counting:
            counts = dict(zip(series.states, series.counts.tolist(), strict=True))
            each = np.array([counts.get(state, 0) for state in known], dtype=object)
            answer = asks.of_counts(over, known, each)
        else:
            over = replace(over, lengths=series.lengths)  # segments may come in another order
            if series.states != known:
                place = {label: code for code, label in enumerate(known)}
                table = [place.get(label, len(known)) for label in series.states]
                codes = np.array([*table, UNOBSERVED])[codes]
            answer = asks.of_codes(over, codes)
        unit = asks.unit(over)
        return [int(v) * unit for v in np.ravel(answer)]

    def __call__(self, entries: NDArray[Any]) -> Floats:
        known = self.question.listed(self.over) or ()
        place: dict[Any, int] = {str(label): x for x, label in enumerate(known)}
        place |= {label: x for x, label in enumerate(known)}
        place[None] = UNOBSERVED
        each = [tuple(e) if isinstance(e, list) else e for e in entries.tolist()]
        other = len(known)
        codes = np.array([place[e] if e in place else place.get(str(e), other) for e in each])
        unit = self.question.unit(self.over)
        values = np.ravel(self.question.of_codes(self.over, codes)).tolist()
        return np.array([float(int(value) * unit) for value in values])


_NAMED = 6
"""Most numbers of an answer that are named in a line."""


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
    question, asks
        Arguments of the query, as plain data for the record: from these and ``kind``, `verify`
        computes how far an entry moves the answer; and the `Question` itself.
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
    >>> [(run.entries, float(run.cost.max())) for run in changes.moved(data.states)]
    [(3, 2.0)]
    >>> changes.cost(data.states).tolist(), changes.bind(over=3) is changes
    ([[0.0, 2.0], [2.0, 0.0]], True)
    >>> changes.stated()["labels"], changes.asked()["lipschitz"]  # what its digest is made of
    (['value'], ['float', '2.0'])
    """

    name: str
    evaluate: Callable[[NDArray[Any]], Any]
    lipschitz: float
    lengths: tuple[int, ...]
    labels: tuple[str, ...] = ("value",)
    states: tuple[Hashable, ...] | None = None
    total: float | None = None
    weights: Weights | None = field(default=None, repr=False)
    kind: str = "own"
    observed: tuple[int, ...] | None = None
    independent_after: str | None = None
    unit: Fraction | None = None
    pattern: Pattern | None = field(default=None, repr=False)
    apart: Weights | None = field(default=None, repr=False)
    question: Mapping[str, Any] | None = field(default=None, repr=False)
    columns: tuple[int, ...] | None = field(default=None, repr=False)
    asks: Question | None = field(default=None, repr=False)
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
        kind: str = "own",
        observed: Iterable[int] | None = None,
        unit: Fraction | float | None = None,
        apart: Weights | None = None,
        question: Mapping[str, Any] | None = None,
        columns: Iterable[int] | None = None,
        pattern: Pattern | None = None,
        asks: Question | None = None,
        independent_after: str | None = None,
        step: float | None = None,
    ) -> None:
        declared, sizes = independent_after, in_memory(lengths)
        if isinstance(sizes, Series):
            declared, observed, step = sizes.independent_after, sizes.observed_lengths, sizes.step
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
            "asks": asks,
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

    def __str__(self) -> str:
        size = f"{sum(self.lengths):,} entries"
        size += f" in {len(self.lengths):,} segments" if len(self.lengths) > 1 else ""
        names = ", ".join(printable(label) for label in self.labels[:_NAMED])
        names += f" and {self.size - _NAMED:,} more" if self.size > _NAMED else ""
        return f"{self.name} over {size}: {names}; one entry moves it by at most {self.lipschitz:g}"

    def _repr_html_(self) -> str:
        return f"<p>{escape(str(self))}</p>"

    def stated(self) -> dict[str, Any]:
        """The question without the entries it is about, as plain data.

        A function of the user's own is known by its name, labels and numbers; all others by their
        arguments.
        """
        own = self.asks.asked() if self.asks is not None else [self.name, self._facts()]
        return {"question": own, "labels": list(self.labels)}

    def _facts(self) -> dict[str, Any]:
        return {
            "states": plain(self.states),
            "weights": plain(self.weights),
            "apart": plain(self.apart),
            "columns": plain(self.columns),
            "lipschitz": plain(self.lipschitz),
            "unit": plain(self.unit),
        }

    def asked(self) -> dict[str, Any]:
        """The question and the entries it is about, as plain data."""
        over = [self.lengths, self.observed if self.missing else None, self.pattern, self.total]
        facts = {key: value for key, value in self._facts().items() if key != "states"}
        when = (self.question or {}).get("calendar")
        return {**self.stated(), **facts, "over": plain(over), "calendar": plain(when)}

    def bind(self, states: Iterable[Hashable] | None = None, over: Any = None) -> Query:
        """The query itself; it is about entries already, and refuses others.

        One that was made without states counts others than its own as 0. Where these are all that
        may occur, entries may move the answer by less, and the query says so.
        """
        if over is not None and Over.of(None, over).lengths != self.lengths:
            raise ValueError(
                f"over: the query was made for {list(self.lengths)[:5]} entries; leave over out, "
                "or the lengths of the query"
            )
        if states is None or self.states is not None or not isinstance(self.evaluate, Answering):
            return self
        if self.asks is None or self.columns is not None or self.rows is None:
            return self
        among = tuple(states)
        if not set(self.rows) <= set(among):
            return self
        known = self.asks.about(replace(self.evaluate.over, states=among))
        return known if known.lipschitz < self.lipschitz else self

    @property
    def chooses(self) -> bool:
        """Whether the answer is a level that is chosen with noise, not a number with noise."""
        return self.asks is not None and self.asks.chooses

    @property
    def per_entry(self) -> bool:
        """Whether the answer is divided by the number of entries: noise shrinks with them."""
        return self.asks is not None and self.asks.per == "entries"

    @property
    def binned(self) -> bool:
        """Whether the answer is a histogram, or one for each slot, with public totals."""
        return self.asks is not None and self.asks.binned

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
        if isinstance(self.evaluate, Answering) and self.weights is None:
            return self.evaluate.question.largest(self.evaluate.over)
        if hasattr(self.evaluate, "largest"):  # of several
            return self.evaluate.largest  # type: ignore[no-any-return]
        if self.weights is None:
            return None
        sizes = (abs(w) for row in self.weights.values() for w in row if w)
        return sum(self.lengths) * float(max(sizes, default=0))

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Least and largest value of a coordinate of the answer; ``None`` if they are unknown."""
        if self.weights is None:
            known = isinstance(self.evaluate, Answering)
            return self.evaluate.question.bounds(self.evaluate.over) if known else None  # type: ignore[attr-defined]
        size = sum(self.lengths if self.observed is None else self.observed)
        listed = [float(weight) for row in self.weights.values() for weight in row]
        if self.states is None:
            listed.append(0.0)
        return size * min(listed), size * max(listed)

    @cached_property
    def closest(self) -> float:
        """The least change of a sum by one entry that changes it at all; L for other queries.

        In L1 norm, and at least `CLOSE` times L.
        """
        if self.rows is None or self.uniform:
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
        return different(self.rows or {}, self.states)

    @property
    def rows(self) -> Weights | None:
        """Rows by state; their L1 distances are, or bound, how far an entry moves the answer."""
        return self.weights if self.apart is None else self.apart

    def added(self, states: Iterable[Hashable]) -> list[tuple[Fraction, ...]]:
        """What an entry in each of these states adds to each number of a sum.

        Examples
        --------
        >>> from pufferkit import count
        >>> count("on", 7).added(["on", "off"])
        [(Fraction(1, 1),), (Fraction(0, 1),)]
        """
        nothing = (Fraction(0),) * self.size
        return [(self.weights or {}).get(state, nothing) for state in states]

    @cached_property
    def uniform(self) -> bool:
        """Whether every change of an entry moves the answer by the same."""
        if self.rows is None:
            return True
        if self.asks is None or not isinstance(self.evaluate, Answering):
            return False  # the rows say it
        return isinstance(self.asks.apart(self.evaluate.over), int)

    def moved(self, states: Iterable[Hashable] | None = None) -> tuple[CostRun, ...]:
        """How far an entry moves the answer: a matrix over pairs of states for runs of entries.

        Entries that were not observed do not move it.

        Parameters
        ----------
        states
            The states, in this order; by default those of the query.
        """
        known = self.states if states is None else tuple(states)
        if known is None:
            raise ValueError("states: must be given; the query is about some of them only")
        cost = self.cost(known)
        if self.pattern is None:
            return (CostRun(sum(self.lengths), cost),)
        nothing = np.zeros_like(cost)
        return tuple(
            CostRun(count, nothing if n % 2 else cost)
            for segment in self.pattern
            for n, count in enumerate(segment)
            if count
        )

    def cost(self, states: Sequence[Hashable], scales: Sequence[float] | None = None) -> Floats:
        """How far replacing x by x' at an observed entry moves the answer, rounded up.

        With a scale for each number of the answer, in units of these.
        """
        if scales is None and (self.rows is None or self.uniform):
            return np.asarray(self.lipschitz * (1 - np.eye(len(states))))
        rows = self.rows or {}
        width = len(next(iter(rows.values()), ()))
        if scales is None:
            rates = [Fraction(1)] * width
        elif self.columns is None and width != len(scales):
            raise ValueError(f"scales: there are {len(scales)}, and an entry adds {width} numbers")
        else:
            rates = [1 / Fraction(scales[n]) for n in self.columns or range(width)]
        zero = (Fraction(0),) * width
        own = [
            tuple(n * rate for n, rate in zip(rows.get(state, zero), rates, strict=True))
            for state in states
        ]
        return np.array([[at_least(distance(x, y)) for y in own] for x in own])

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
        if self.asks is None:
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
        if self.asks is not None:
            parts = list(self.evaluate.exact(series))  # type: ignore[attr-defined]
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
    any_number = any(weight for row in weights.values() for weight in row)
    return unit_of(weights) if any_number else None


def scaled(rows: Weights, unit: Fraction) -> Weights:
    """Rows in units as rows of numbers."""
    return {state: tuple(w * unit for w in row) for state, row in rows.items()}


def distance(one: Iterable[Fraction], other: Iterable[Fraction]) -> Fraction:
    """The L1 distance of two rows."""
    return sum((abs(a - b) for a, b in zip(one, other, strict=True)), Fraction(0))


def distances(rows: Sequence[tuple[Fraction, ...]]) -> Iterator[Fraction]:
    """L1 distances between contributions."""
    for one, other in combinations(rows, 2):
        yield distance(one, other)


def different(rows: Weights, states: Sequence[Hashable] | None) -> list[tuple[Fraction, ...]]:
    """The different rows of these states; zeros too, where a state is not listed."""
    listed = set(rows.values())
    if states is None or set(states) - set(rows):
        listed.add((Fraction(0),) * len(next(iter(listed))))
    return list(listed)


def furthest_of(rows: Weights, states: Sequence[Hashable] | None) -> Fraction:
    """The largest L1 distance between the rows of two states."""
    listed = different(rows, states)
    if len(listed[0]) == 1:
        single = [row[0] for row in listed]
        return max(single) - min(single)
    return max(distances(listed), default=Fraction(0))


def unit_of(rows: Weights) -> Fraction:
    """The largest unit that divides all numbers; 1 if all are 0."""
    numbers = [weight for row in rows.values() for weight in row if weight]
    if not numbers:
        return Fraction(1)
    return Fraction(
        gcd(*(number.numerator for number in numbers)),
        lcm(*(number.denominator for number in numbers)),
    )


def question(name: str, **arguments: Any) -> Question:
    """A question by its name on the command line.

    Examples
    --------
    >>> str(question("episodes", of="run"))
    'episodes of run'
    """
    if name not in NAMES:
        raise ValueError(f"query: must be one of {', '.join(NAMES)}, got {name!r}")
    made = NAMES[name]
    fixed = made.names[name].fixed
    taken = [own.name for own in fields(made) if own.name not in fixed]
    needed = [own.name for own in fields(made) if own.default is MISSING]
    missing = [own for own in needed if own not in arguments and own not in fixed]
    if missing:
        raise ValueError(f"{missing[0]}: is required; {name} takes {', '.join(taken)}")
    strange = sorted(set(arguments) - set(taken))
    if strange:
        raise ValueError(
            f"{strange[0]}: {name} does not take it; it takes {', '.join(taken) or 'nothing'}"
        )
    return made(**arguments, **fixed)


def encoded(value: Any) -> Any:
    """A field of a question, ready for JSON."""
    if isinstance(value, Fraction):
        return {"fraction": str(value)}
    if isinstance(value, Question):
        own = {one.name: encoded(getattr(value, one.name)) for one in fields(value)}
        return {"kind": value.kind, "arguments": own}
    if isinstance(value, (list, tuple)):
        return [encoded(item) for item in value]
    simple = value is None or isinstance(value, (str, bool, int, float))
    return value if simple else {"text": str(value)}


def decoded(value: Any) -> Any:
    """What `encoded` described."""
    if isinstance(value, (list, tuple)):
        return tuple(decoded(item) for item in value)
    if not isinstance(value, Mapping):
        return value
    if "kind" in value:
        return question_of(value["kind"], value)
    return Fraction(value["fraction"]) if "fraction" in value else value["text"]


def question_of(kind: str, record: Any) -> Question:
    """The question that a record describes; ``ValueError`` if it is malformed."""
    given = record.get("arguments") if isinstance(record, Mapping) else None
    if kind not in KINDS:
        raise ValueError(f"release: kind must be one of {', '.join(KINDS)}, got {kind!r}")
    if not isinstance(given, Mapping):
        raise ValueError(
            f"release: a {kind} needs a question, an object with the arguments of the query"
        )
    try:
        return KINDS[kind](**{name: decoded(value) for name, value in given.items()})
    except (TypeError, ValueError, KeyError, AttributeError, ZeroDivisionError) as error:
        raise ValueError(f"release: the question of a {kind} cannot be read; {error}") from None


def remade(
    kind: str, record: Any, lengths: tuple[int, ...], observed: tuple[int, ...] | None
) -> Query:
    """The query that a record describes, made again; ``ValueError`` if that cannot be."""
    asks, when, states = question_of(kind, record), record.get("calendar"), record.get("states")
    try:
        clock = None if when is None else Calendar(when["starts"], when["every"], when["timezone"])
        known = None if states is None else checks.distinct_states(decoded(states))
        pattern = _gaps(record.get("gaps"), lengths, observed)
        return asks.about(Over(known, lengths, observed, pattern, clock))
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError, NoTheorem) as error:
        raise ValueError(f"release: the question of a {kind} cannot be asked; {error}") from None


def _gaps(
    record: Any, lengths: tuple[int, ...], observed: tuple[int, ...] | None
) -> Pattern | None:
    """The recorded gaps; ``None`` if there are none, or if the entries observed are others."""
    if record is None:
        return None
    pattern = tuple(tuple(int(count) for count in runs) for runs in record)
    spans = [(sum(runs), sum(runs[::2])) for runs in pattern]
    seen = list(zip(lengths, lengths if observed is None else observed, strict=True))
    return pattern if spans == seen and min(map(min, pattern)) >= 0 else None


def bound(query: Any, states: Iterable[Hashable] | None, over: Any = None) -> Query:
    """A query as it is; a question about these states and this series, or these lengths."""
    if isinstance(query, Question) and over is None:
        raise ValueError(
            f"over: {query.name} is about no series yet; give over=, the series or its length"
        )
    made: Query = query.bind(states, over) if isinstance(query, (Question, Query)) else query
    return made


def _derived(what: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {"what": what, **arguments}


def _shown(name: str, value: Any) -> str:
    """An argument of a question in words; values and weights have none."""
    if not value or isinstance(value, bool):
        return ""
    if name == "of":
        return f"of {', '.join(str(state) for state in value)}"
    if name == "clip":
        return f"clipped to {value[0]:g} to {value[1]:g}"
    if name == "at_least":
        return f"at least {value}"
    if isinstance(value, (int, float, Fraction)):
        return f"{float(value):g}"
    return str(value) if name == "between" else ""
