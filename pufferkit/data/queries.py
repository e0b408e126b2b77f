"""The questions: one frozen dataclass for each.

The fields of a question are its arguments in Python, its options on the command line, its form on
the page, and its record. `Question.apart` says how far an entry moves the answer, and is the only
place that does; `Question.of_codes` (for sums, `Question.adds`) computes it. To add a question,
write a class here and test it: planning, releases, accounts, many subjects, `verify`, audits,
figures, the command line and the page take it from there.

None of the questions about transitions, slots, episodes and days is a sum of one contribution per
entry: what an entry adds depends on its neighbours or on its time. All have a per-entry bound that
holds whatever the other entries are, and that is all that the influence curve, Markov quilts and
group privacy need: their proofs exchange entries one after another inside the likelihood of the
output (`docs/theory.md`, [Q] Theorem 4.3). Of the mechanisms that use the distribution of a sum
`exact_sum` takes those that say what a move adds (`Question.additive`) or which days count
(`Question.counted_days`), the others none of them.

*Theorem* (slots of time). Let every entry belong to one slot by public rules, and let the answer
hold, for each slot, the number of its entries in each state. Replacing the state of one entry takes
1 from one bin of its slot, adds 1 to another, and leaves all other slots unchanged: the answer
moves by 2 in L1 norm, whatever the other entries are. So histograms of many slots together need the
noise of one histogram over everything. Entries that were not observed are in no bin.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from pufferkit import checks
from pufferkit.checks import Ints
from pufferkit.data.calendar import HOURS, HOURS_OF_WEEK, Calendar, day_name, week_name
from pufferkit.data.durations import DAY, ticks
from pufferkit.data.query import OptionName, Over, Query, Question, Weights, different, unit_of
from pufferkit.data.series import Series
from pufferkit.records import plain
from pufferkit.rounding import as_fraction

Values = Mapping[Hashable, float] | Mapping[Hashable, Fraction] | Sequence[float]
"""The value of each state, or of states 0, 1, ... in a row."""

Clip = tuple[float, float]
"""A declared range: values below and above are taken as its ends."""

Names = Mapping[str, OptionName]

By = Literal["hour", "weekday and hour", "day", "week"]

Form = Literal["states", "values", "weights", "range", "share", "whole", "time", "hours"]
"""What an argument is: how the command line reads it and the page asks for it."""

MOST_CELLS = 1_000_000
"""Largest number of slots times states in one answer."""

FINEST = 10**6
"""Shares of quantiles are fractions of at most this denominator."""

TOPICS = COUNTS, TIMES, MOVES, NUMBERS = "shares and counts", "by time", "moves", "numbers"
"""Topics."""


def argument(form: Form, option: str, words: str, default: Any = MISSING) -> Any:
    """A field that users give: its form, its option on the command line, and its words."""
    return field(default=default, metadata={"form": form, "option": option, "words": words})


def _of() -> Any:
    return argument("states", "state_value", "State of the question; several as A,B.")


def _valued(default: Any = MISSING) -> Any:
    words = "Value of each state, for questions about numbers; middles: midpoints of levels."
    return argument("values", "values", words, default)


def _clipped(default: Any = MISSING) -> Any:
    words = "For total, mean and variance: range to clip values to."
    return argument("range", "clip", words, default)


@dataclass(frozen=True)
class _EachState(Question):
    """A question about each of the states, in the order of the beliefs or in one of its own."""

    states: tuple[Hashable, ...] | None = None

    def __post_init__(self) -> None:
        if self.states is not None:
            _refuse_data(self.states)
            _freeze(self, "states", Over(checks.distinct_states(self.states), (1,)).all_states)

    def order(self, over: Over) -> tuple[Hashable, ...]:
        """The states in the order of the bins."""
        if self.states is None or over.states is None:
            return replace(over, states=self.states or over.states).all_states
        if set(self.states) != set(over.states):
            raise ValueError(
                f"query: has states {list(self.states)}, the beliefs {list(over.states)}; use the "
                "same labels in both"
            )
        return self.states

    def asked(self) -> Any:
        """The kind alone: labels say the order, and what is read from it is not released."""
        return [self.kind]

    def listed(self, over: Over) -> tuple[Hashable, ...]:
        return self.order(over)

    def known(self, over: Over) -> tuple[Hashable, ...]:
        return self.order(over)


# --- sums over entries --------------------------------------------------------------------------


@dataclass(frozen=True)
class _Sum(Question):
    """A sum over entries: replacing x by x' moves it by exactly the distance of what they add."""

    def contributions(self, over: Over) -> Weights:
        """What each state adds, as exact fractions."""
        raise NotImplementedError

    def adds(self, over: Over) -> Weights:
        rows = self.contributions(over)
        step = unit_of(rows)
        return {state: tuple(w / step for w in row) for state, row in rows.items()}

    def apart(self, over: Over) -> Weights | int:
        return self.adds(over)

    def grain(self, over: Over) -> Fraction:
        return unit_of(self.contributions(over))

    def unit(self, over: Over) -> Fraction:
        return self.grain(over) / (over.entries if self.per == "entries" else 1)

    def listed(self, over: Over) -> tuple[Hashable, ...] | None:
        return tuple(self.contributions(over))

    def of_counts(
        self, over: Over, states: tuple[Hashable, ...], counts: NDArray[Any]
    ) -> NDArray[Any]:
        rows = self.adds(over)
        nothing = (Fraction(0),) * len(next(iter(rows.values())))
        whole = [[int(w) for w in rows.get(state, nothing)] for state in states]
        return np.asarray(counts @ np.array(whole, dtype=counts.dtype))


@dataclass(frozen=True)
class Histogram(_EachState, _Sum):
    """How many entries are in each state; 2-Lipschitz (one bin loses, another gains)."""

    kind = "histogram"
    noun = "counts"
    axis = "entries in each state"
    names: ClassVar[Names] = {"histogram": OptionName(COUNTS, "number of entries in each state")}
    counted = True
    binned = True

    def contributions(self, over: Over) -> Weights:
        states, one, zero = self.order(over), Fraction(1), Fraction(0)
        return {
            state: tuple(one if j == own else zero for j in range(len(states)))
            for own, state in enumerate(states)
        }

    def adds(self, over: Over) -> Weights:
        return self.contributions(over)

    def apart(self, over: Over) -> int:
        return 2

    def grain(self, over: Over) -> Fraction:
        return Fraction(1)

    def of_counts(
        self, over: Over, states: tuple[Hashable, ...], counts: NDArray[Any]
    ) -> NDArray[Any]:
        return np.asarray(counts[..., [states.index(state) for state in self.listed(over)]])

    def labels(self, over: Over) -> Sequence[str]:
        return [str(state) for state in self.order(over)]

    def total(self, over: Over) -> float:
        return float(over.entries)

    @property
    def python(self) -> str:
        return f"histogram({'' if self.states is None else list(self.states)})"


@dataclass(frozen=True)
class RelativeFrequencies(Histogram):
    """The share of entries in each state; 2/T-Lipschitz with T observed entries."""

    kind = "relative frequencies"
    noun = "shares"
    axis = "share of the entries in each state"
    names: ClassVar[Names] = {"frequencies": OptionName(COUNTS, "share of time in each state")}
    per = "entries"

    def total(self, over: Over) -> float:
        return 1.0

    @property
    def python(self) -> str:
        return "relative_frequencies()"


@dataclass(frozen=True)
class Count(_Sum):
    """How many entries are in one state; 1-Lipschitz."""

    kind = "count"
    noun = "counts"
    axis = "entries in the state"
    names: ClassVar[Names] = {"count": OptionName(COUNTS, "number of entries in one state")}

    of: tuple[Hashable, ...] = _of()

    def __post_init__(self) -> None:
        chosen = several(self.of, "count")
        if len(chosen) > 1:
            raise ValueError("of: count is about one state; time-in and episodes take several")
        object.__setattr__(self, "of", chosen)

    def contributions(self, over: Over) -> Weights:
        return {self.of[0]: (Fraction(1),)}

    def known(self, over: Over) -> None:
        return None

    def labels(self, over: Over) -> Sequence[str]:
        return [str(self.of[0])]

    @property
    def python(self) -> str:
        return f"count({self.of[0]!r})"


@dataclass(frozen=True)
class Total(_Sum):
    """The sum of the values, clipped or not; an entry moves it by the distance of two values."""

    kind = "total"
    noun = "totals"
    axis = "sum of the values of the entries"
    names: ClassVar[Names] = {"total": OptionName(NUMBERS, "total of a value given to each state")}

    values: Any = _valued()
    clip: Clip | None = _clipped(None)

    def __post_init__(self) -> None:
        _freeze(self, "values", _pairs(self.values))
        if self.clip is not None:
            _freeze(self, "clip", _range(self.clip))

    @property
    def numbers(self) -> dict[Hashable, Fraction]:
        """The value of each state, within the range."""
        each = {state: as_fraction("values", value) for state, value in self.values}
        if self.clip is None:
            return each
        low, high = (as_fraction("clip", end) for end in self.clip)
        return {state: min(max(value, low), high) for state, value in each.items()}

    def contributions(self, over: Over) -> Weights:
        numbers = self.numbers
        _all_valued(numbers, over.states)
        if len(set(numbers.values())) < 2:
            raise ValueError(
                "values: need at least two different values, or the answer is constant; "
                f"got {[float(value) for _, value in self.values]}"
            )
        return {state: (value,) for state, value in numbers.items()}

    def known(self, over: Over) -> tuple[Hashable, ...] | None:
        return tuple(self.numbers)

    def labels(self, over: Over) -> Sequence[str]:
        return [self.kind]

    @property
    def python(self) -> str:
        values = {state: _number(value) for state, value in self.values}
        clip = "" if self.clip is None else f", clip={self.clip!r}"
        return f"{self.kind}({values!r}{clip})"


@dataclass(frozen=True)
class Mean(Total):
    """The mean of the values, clipped or not; an entry moves it by their distance over T."""

    kind = "mean"
    noun = "means"
    axis = "mean of the values of the entries"
    names: ClassVar[Names] = {"mean": OptionName(NUMBERS, "mean of a value given to each state")}
    counted = True
    per = "entries"


@dataclass(frozen=True)
class Variance(Total):
    """Mean and mean square of the clipped values, from which the variance is derived.

    With the middle m and half the width h of the range, the value v of an entry is u = (v - m) / h
    in [-1, 1], and the answer is (mean of u, mean of u^2). Replacing x by x' moves it by
    (|u - u'| + |u^2 - u'^2|) / T: at most 2 / T if the middle of the range counts among the values,
    exactly so pair by pair.
    """

    kind = "variance"
    replaced = True
    noun = "moments"
    axis = "mean and mean square"
    names: ClassVar[Names] = {
        "variance": OptionName(NUMBERS, "variance of a value given to each state")
    }
    counted = True
    per = "entries"

    def __post_init__(self) -> None:
        if self.clip is None:
            raise ValueError("clip: is required, the declared range of the values, such as (0, 10)")
        super().__post_init__()

    def contributions(self, over: Over) -> Weights:
        assert self.clip is not None
        low, high = (as_fraction("clip", end) for end in self.clip)
        each = super().contributions(over)
        rows = {state: (v - (low + high) / 2) / ((high - low) / 2) for state, (v,) in each.items()}
        return {state: (u, u * u) for state, u in rows.items()}

    def labels(self, over: Over) -> Sequence[str]:
        return ["mean", "mean square"]

    def reading(self) -> tuple[str, dict[str, Any]]:
        assert self.clip is not None
        return "variance", {"low": self.clip[0], "high": self.clip[1]}


@dataclass(frozen=True)
class Linear(_Sum):
    """The sum over entries of weights that you give each state; any number of coordinates.

    Replacing x by x' at one entry moves the answer by exactly |w(x) - w(x')|_1.
    """

    kind = "linear"
    axis = "weighted sum"
    names: ClassVar[Names] = {"linear": OptionName(NUMBERS, "sums of numbers given to each state")}

    weights: Any = argument("weights", "weights", "For linear: CSV of what each state adds.")
    labelled: tuple[str, ...] | None = None
    called: str = "weighted sum"
    states: tuple[Hashable, ...] | None = None

    def __post_init__(self) -> None:
        items = self.weights.items() if isinstance(self.weights, Mapping) else self.weights
        rows = tuple(
            (state, tuple(as_fraction("weights", w) for w in (row if is_row(row) else [row])))
            for state, row in items
        )
        sizes = {len(row) for _, row in rows}
        if len(sizes) != 1 or 0 in sizes:
            raise ValueError("weights: must be a number for each state, or rows of equal length")
        checks.distinct_states([state for state, _ in rows])
        _freeze(self, "weights", tuple(sorted(rows, key=lambda pair: str(pair[0]))))
        if self.labelled is not None:
            _freeze(self, "labelled", tuple(str(label) for label in self.labelled))
        if self.states is not None:
            _freeze(self, "states", checks.distinct_states(self.states))

    def asked(self) -> Any:
        """What each state adds; how it is called is only wording."""
        return [self.kind, plain(self.weights), plain(self.states)]

    @property
    def title(self) -> str:
        return self.called

    def contributions(self, over: Over) -> Weights:
        rows = dict(self.weights)
        if len(different(rows, self.known(over))) < 2:
            raise ValueError(
                "weights: are the same for all states, so the answer is constant; change them"
            )
        return rows

    def known(self, over: Over) -> tuple[Hashable, ...] | None:
        return self.states if over.states is None else over.states

    def labels(self, over: Over) -> Sequence[str]:
        size = len(self.weights[0][1])
        names = [str(n) for n in range(1, size + 1)] if size > 1 else ["value"]
        return names if self.labelled is None else self.labelled

    @property
    def python(self) -> str:
        rows = {state: [_number(w) for w in row] for state, row in self.weights}
        labels = "" if self.labelled is None else f", labels={list(self.labelled)!r}"
        return f"linear({rows!r}{labels})"


# --- answers read from a histogram --------------------------------------------------------------


@dataclass(frozen=True)
class _FromHistogram(Histogram):
    """A histogram from whose release something is derived, which is what was asked for."""

    replaced = True

    def about(self, over: Over) -> Query:
        """What is released is the histogram, with a record of what is derived from it."""
        query, (what, arguments) = Histogram(self.order(over)).about(over), self.reading()
        derive = {"what": what, **arguments}
        checks.assign(query, question={**(query.question or {}), "derive": derive})
        return query

    def whole(self, states: Iterable[Hashable], length: int) -> Query:
        """That of the histogram: what is read from it afterwards is no part of what gets noise."""
        known = tuple(states)
        return Histogram(self.order(Over(known, (length,)))).whole(known, length)

    def reading(self) -> tuple[str, dict[str, Any]]:
        raise NotImplementedError


@dataclass(frozen=True)
class Levels(_FromHistogram):
    """A histogram in the order of the values of its states, and a curve or level read from it."""

    names: ClassVar[Names] = {
        "cumulative": OptionName(
            NUMBERS, "share of entries up to each value", {"reads": "cumulative"}
        ),
        "load-duration": OptionName(
            NUMBERS, "number of entries with each value or more", {"reads": "load duration"}
        ),
        "peak": OptionName(NUMBERS, "largest value", {"reads": "peak"}),
    }
    values: Any = _valued(None)
    reads: str = "cumulative"
    share: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.values is not None or self.reads != "cumulative":
            _freeze(self, "values", _pairs(self.values))
            in_order(self.values, [state for state, _ in self.values])

    def order(self, over: Over) -> tuple[Hashable, ...]:
        states = super().order(over)
        return states if self.values is None else in_order(self.values, states)

    def reading(self) -> tuple[str, dict[str, Any]]:
        given = {} if self.reads == "cumulative" else {"values": by_text(self.values)}
        return self.reads, given if self.share is None else {"share": self.share, **given}

    @property
    def python(self) -> str:
        states = [state for state, _ in self.values or ()]
        return f"histogram({list(in_order(self.values, states)) if states else ''})"


@dataclass(frozen=True)
class TopStates(_FromHistogram):
    """A histogram, and the states that occur most in it."""

    names: ClassVar[Names] = {"top-states": OptionName(COUNTS, "the states that occur most")}

    top: int | None = argument("whole", "top", "For top-states: how many.", None)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.top is None:
            raise ValueError("top: is required: how many states")
        checks.whole("top", self.top, 1)

    def reading(self) -> tuple[str, dict[str, Any]]:
        return "top states", {"count": self.top}


@dataclass(frozen=True)
class Quantile(Question):
    """The level below which a share of the entries lies, chosen with noise; 2-Lipschitz.

    The answer is one of the levels, drawn by `rank_scores` and `pufferkit.noise.noisy_choice`. With
    scale s of a calibration the log-likelihood of every choice moves by at most 2 / s when one
    entry changes, as that of the histogram does with Laplace noise of scale s; so the Lipschitz
    constant is 2. The noise on the ranks is the least that keeps this
    (`pufferkit.noise.choice_scale`, with the theorem).
    """

    kind = "quantile"
    replaced = True
    axis = "level"
    names: ClassVar[Names] = {
        "quantile": OptionName(NUMBERS, "quantile of a value given to each state")
    }
    counted = True
    chooses = True

    share: float | Fraction = argument(
        "share", "at", "For quantile: share of entries below it; 0.5 is the median."
    )
    values: Any = _valued()

    def __post_init__(self) -> None:
        part = as_fraction("share", self.share)
        if not 0 < part < 1 or part.denominator > FINEST:
            raise ValueError(
                f"share: must lie between 0 and 1, with six decimals at most, got {self.share}; "
                "0.5 is the median"
            )
        _freeze(self, "share", part)
        _freeze(self, "values", _pairs(self.values))
        in_order(self.values, [state for state, _ in self.values])

    @property
    def levels(self) -> dict[Hashable, float]:
        """The value of each state, in increasing order."""
        numbers = dict(self.values)
        return {x: float(numbers[x]) for x in in_order(self.values, list(numbers))}

    @property
    def title(self) -> str:
        return f"quantile {float(self.share):g}"

    def apart(self, over: Over) -> int:
        return 2

    def of_counts(
        self, over: Over, states: tuple[Hashable, ...], counts: NDArray[Any]
    ) -> NDArray[Any]:
        return np.asarray(counts[..., [states.index(state) for state in self.levels]])

    def listed(self, over: Over) -> tuple[Hashable, ...]:
        return tuple(self.levels)

    def known(self, over: Over) -> tuple[Hashable, ...]:
        _all_valued(self.levels, over.states)
        return tuple(self.levels)

    def labels(self, over: Over) -> Sequence[str]:
        return [str(state) for state in self.levels]

    def total(self, over: Over) -> float:
        return over.entries

    def largest(self, over: Over) -> float | None:
        return None

    def record(self, over: Over) -> dict[str, Any]:
        return {
            "share": str(self.share),
            "levels": list(self.levels.values()),
            "level_names": [str(state) for state in self.levels],
        }

    def in_numbers(self) -> Question:
        """The histogram behind it, from which any quantile can be read."""
        return Levels(values=self.values, reads="quantile", share=float(self.share))

    def reading(self) -> tuple[str, dict[str, Any]]:
        return "quantile", {"share": float(self.share), "values": by_text(self.values)}

    @property
    def python(self) -> str:
        return f"quantile({float(self.share)!r}, {self.levels!r})"


def rank_scores(counts: list[Fraction], share: Fraction) -> list[int]:
    """Minus the distance of each level from the rank sought, times the denominator of the share.

    With n entries, F_j of them at or below level j, the score is - max(0, F_{j-1} - q n, q n - F_j)
    and 0 exactly where level j is a q-quantile. It moves by at most 1 if all F_j do.
    """
    below, n, scores = Fraction(0), sum(counts), []
    for count_ in counts:
        away = max(Fraction(0), below - share * n, share * n - below - count_)
        scores.append(-int(away * share.denominator))
        below += count_
    return scores


# --- slots of time ------------------------------------------------------------------------------


@dataclass(frozen=True)
class ByTime(_EachState):
    """How many entries are in each state, for each slot of time; 2-Lipschitz (theorem above)."""

    kind = "by time"
    noun = "counts"
    picture = "slots"
    names: ClassVar[Names] = {
        "by-hour": OptionName(TIMES, "entries in each state, by hour of the day", {"by": "hour"}),
        "by-weekday-hour": OptionName(
            TIMES, "entries in each state, by weekday and hour", {"by": "weekday and hour"}
        ),
        "by-day": OptionName(TIMES, "entries in each state, day by day", {"by": "day"}),
        "by-week": OptionName(TIMES, "entries in each state, week by week", {"by": "week"}),
    }
    counted = True
    clocked = True
    binned = True

    by: str | tuple[str, ...] = "hour"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.by, str):
            _freeze(self, "by", tuple(str(slot) for slot in self.by))

    def asked(self) -> Any:
        return [self.kind, plain(self.by)]

    @property
    def title(self) -> str:
        return f"histogram for each {self.slot}"

    @property
    def recurring(self) -> tuple[str, ...] | None:
        """The slots, if they come again every day or week; ``None`` for others."""
        return {"hour": HOURS, "weekday and hour": HOURS_OF_WEEK}.get(self.slot)

    @property
    def slot(self) -> str:
        """What a slot is."""
        return self.by if isinstance(self.by, str) else "slot"

    def slots(self, over: Over) -> tuple[tuple[str, ...], Ints]:
        """Names of the slots, and the slot of every entry."""
        entries = sum(over.lengths)
        if isinstance(self.by, str):
            names, place = slots_of(self.by, over.clock, over.lengths)
        elif len(self.by) != entries:
            raise ValueError(f"by: names {len(self.by)} slots, the series has {entries} entries")
        else:
            names = tuple(dict.fromkeys(self.by))
            number = {slot: n for n, slot in enumerate(names)}
            place = np.array([number[slot] for slot in self.by])
        if len(names) * len(self.order(over)) > MOST_CELLS:
            raise ValueError(
                f"by: makes {len(names) * len(self.order(over)):,} cells, more than "
                f"{MOST_CELLS:,}; use fewer slots"
            )
        return names, place

    def apart(self, over: Over) -> int:
        return 2

    def of_codes(self, over: Over, codes: NDArray[np.intp]) -> NDArray[Any]:
        names, place = self.slots(over)
        known, size = codes >= 0, len(self.order(over))
        if codes.max() >= size:
            raise ValueError("series: has states that are not among those of the query")
        return self.tally(place[known], codes[known], len(names), size)

    @staticmethod
    def tally(slot: Ints, state: Ints, slots: int, states: int, times: Any = None) -> Ints:
        """How often each state occurs in each slot, from the slot and state of every entry.

        ``times``: how many entries each stands for, by default one.
        """
        cells = np.bincount(slot * states + state, times, minlength=slots * states)
        return cells.astype(np.int64)

    def labels(self, over: Over) -> Sequence[str]:
        return [f"{slot}, {state}" for slot in self.slots(over)[0] for state in self.order(over)]

    def total(self, over: Over) -> float:
        return float(over.entries)

    def bounds(self, over: Over) -> tuple[float, float]:
        return 0.0, float(self.observed(over).max())

    def observed(self, over: Over) -> Ints:
        """How many entries of each slot were observed."""
        names, place = self.slots(over)
        return np.bincount(place[over.seen], minlength=len(names))

    def record(self, over: Over) -> dict[str, Any]:
        return {
            "by": self.slot,
            "slots": list(self.slots(over)[0]),
            "observed": [int(n) for n in self.observed(over)],
        }

    def check(self, over: Over, series: Series) -> None:
        super().check(over, series)
        names, place = self.slots(over)
        seen = np.bincount(place[series.observed], minlength=len(names))
        if (seen != self.observed(over)).any():
            raise ValueError(
                f"series: {series.missing} of its entries were not observed, but the query was "
                "made for other gaps; make it with this series in place of the lengths"
            )

    @property
    def python(self) -> str:
        return f"by_time({self.by!r})"


def slots_of(by: str, calendar: Calendar, lengths: Sequence[int]) -> tuple[tuple[str, ...], Ints]:
    """Names of the slots, and the slot of every entry."""
    if by == "hour":
        return HOURS, calendar.hours(lengths)
    if by == "weekday and hour":
        return HOURS_OF_WEEK, 24 * calendar.weekdays(lengths) + calendar.hours(lengths)
    if by in ("day", "week"):
        numbers = calendar.days(lengths) if by == "day" else calendar.weeks(lengths)
        there, place = np.unique(numbers, return_inverse=True)
        name = day_name if by == "day" else week_name
        return tuple(name(number) for number in there.tolist()), place.astype(np.int64)
    raise ValueError(
        f"by: must be hour, weekday and hour, day or week, or the slot of every entry; got {by!r}"
    )


# --- some states against all others -------------------------------------------------------------


@dataclass(frozen=True)
class _OfStates(Question):
    """A question that tells some states from all others, and nothing else."""

    of: tuple[Hashable, ...] = _of()

    def __post_init__(self) -> None:
        object.__setattr__(self, "of", several(self.of, self.kind))

    @property
    def words(self) -> str:
        """The states in words."""
        return " or ".join(str(state) for state in self.of)

    def apart(self, over: Over) -> Weights | int:
        return {state: (Fraction(1),) for state in self.of}

    def listed(self, over: Over) -> tuple[Hashable, ...]:
        return self.of

    def known(self, over: Over) -> None:
        return None

    def labels(self, over: Over) -> Sequence[str]:
        return [self.words]

    def record(self, over: Over) -> dict[str, Any]:
        return {"of": [str(state) for state in self.of]}

    def bounds(self, over: Over) -> tuple[float, float]:
        return 0.0, float(over.entries * self.unit(over))

    def inside(self, codes: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Which entries are in one of the states."""
        return np.asarray((codes >= 0) & (codes < len(self.of)))


@dataclass(frozen=True)
class Episodes(_OfStates):
    """How often the series enters some states: runs of observed neighbours in them; 1-Lipschitz.

    With a_t = 1 where entry t was observed in one of the states and 0 elsewhere,

        episodes  =  sum over t of a_t  -  sum over neighbours t, t + 1 of a_t a_{t+1},

    neighbours within a segment. Raising one a_t from 0 to 1 adds 1 - a_{t-1} - a_{t+1}, which is 1,
    0 or -1; replacing a state by another on the same side changes nothing. So an entry moves the
    number by at most 1, and only if exactly one of its two states is among ``of``.
    """

    kind = "episodes"
    axis = "episodes"
    names: ClassVar[Names] = {"episodes": OptionName(MOVES, "how often some states began")}

    @property
    def title(self) -> str:
        return f"episodes of {self.words}"

    def of_codes(self, over: Over, codes: NDArray[np.intp]) -> NDArray[Any]:
        return np.array([entered(self.inside(codes), over.lengths)])

    def additive(self, states: Sequence[Hashable]) -> tuple[Ints, Ints]:
        """A first entry in one of the states adds 1, and so does a move into them from outside."""
        inside = np.array([state in self.of for state in states], dtype=np.int64)
        return inside, (1 - inside)[:, None] * inside

    @property
    def python(self) -> str:
        return f"episodes({list(self.of)!r})"


@dataclass(frozen=True)
class Stays(_OfStates):
    """Entries in some states, and their episodes; 2-Lipschitz. The ratio is the mean stay.

    An entry that enters or leaves the states moves the first number by 1 and the second by at most
    1 (`Episodes`); any other change moves neither.
    """

    kind = "stays"
    names: ClassVar[Names] = {
        "stays": OptionName(MOVES, "time in some states, and how often they began")
    }

    @property
    def title(self) -> str:
        return f"stays in {self.words}"

    def apart(self, over: Over) -> Weights:
        return {state: (Fraction(1), Fraction(1)) for state in self.of}

    def labels(self, over: Over) -> Sequence[str]:
        return ["entries", "episodes"]

    def of_codes(self, over: Over, codes: NDArray[np.intp]) -> NDArray[Any]:
        inside = self.inside(codes)
        return np.array([inside.sum(), entered(inside, over.lengths)])

    def reading(self) -> tuple[str, dict[str, Any]]:
        return "mean stay", {}

    @property
    def python(self) -> str:
        return f"stays({list(self.of)!r})"


@dataclass(frozen=True)
class TimeIn(_OfStates):
    """How many entries between two times of day are in some states; 1-Lipschitz.

    Replacing the state of an entry moves the number by 1 if exactly one of the two states is among
    ``of`` and the entry lies between the times, and by 0 otherwise.
    """

    kind = "time in states"
    names: ClassVar[Names] = {
        "time-in": OptionName(TIMES, "entries in some states, between two hours of the day")
    }
    clocked = True

    between: str = argument("hours", "between", "For time-in: the hours.", "00:00-12:00")

    def __post_init__(self) -> None:
        super().__post_init__()
        start, dash, end = str(self.between).partition("-")
        if not dash:
            raise ValueError(f"between: must be hours like 22:00-06:00, got {self.between!r}")
        _freeze(self, "between", f"{start.strip()}-{end.strip()}")
        time_of_day("start", self.hours[0])
        time_of_day("end", self.hours[1])

    @property
    def hours(self) -> tuple[str, str]:
        """Start and end, as text."""
        start, _, end = self.between.partition("-")
        return start, end

    @property
    def title(self) -> str:
        return f"time in {self.words} from {self.hours[0]} to {self.hours[1]}"

    def counts(self, over: Over) -> NDArray[np.bool_]:
        """Which entries lie between the times."""
        first, last = (time_of_day("between", text) for text in self.hours)
        times = over.clock.times(over.lengths) % DAY
        within = (times >= first) & (times < last)
        if first >= last:
            within = (times >= first) | (times < last)
        if not within.any():
            raise ValueError(
                f"start: no entry lies between {self.hours[0]} and {self.hours[1]}; choose other "
                "times"
            )
        return np.asarray(within)

    def of_codes(self, over: Over, codes: NDArray[np.intp]) -> NDArray[Any]:
        return np.array([(self.inside(codes) & self.counts(over)).sum()])

    def record(self, over: Over) -> dict[str, Any]:
        self.counts(over)
        start, end = self.hours
        return {**super().record(over), "start": start, "end": end}

    @property
    def python(self) -> str:
        start, end = self.hours
        return f"time_in({list(self.of)!r}, start={start!r}, end={end!r})"


@dataclass(frozen=True)
class DaysWith(_OfStates):
    """On how many days at least this much time was spent in some states; 1-Lipschitz.

    Every day adds 0 or 1. An entry lies in one day, so replacing its state moves the number by at
    most 1, and by nothing unless exactly one of the two states is among ``of``: however much
    happens on a day, it counts once. As a share it is divided by the number of days, which is
    public.
    """

    kind = "days with"
    axis = "days"
    names: ClassVar[Names] = {
        "days-with": OptionName(TIMES, "days with enough time in some states", {"share": False}),
        "share-of-days": OptionName(
            TIMES, "share of days with enough time in some states", {"share": True}
        ),
    }
    clocked = True

    at_least: Any = argument("time", "at_least", "For days-with and share-of-days: time per day.")
    share: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.at_least is None:
            raise ValueError("at_least: is required, a time like 30m or a number of entries")

    @property
    def per(self) -> str | None:  # type: ignore[override]
        """Days, for a share of them."""
        return "days" if self.share else None

    @property
    def title(self) -> str:
        share = "share of " if self.share else ""
        return f"{share}days with at least {self.at_least} of {self.words}"

    def needed(self, over: Over) -> int:
        """The number of entries that a day needs."""
        given = self.at_least
        if isinstance(given, (int, float, np.integer)) and not isinstance(given, bool):
            return checks.whole("at_least", given, 1)
        return -(-int(ticks("at_least", given, of_time=True)) // over.clock.every)

    def days(self, over: Over) -> tuple[int, Ints]:
        """The number of days, and the day of every entry."""
        there, day = np.unique(over.clock.days(over.lengths), return_inverse=True)
        return len(there), day.astype(np.int64)

    def counted_days(
        self, over: Over, states: Sequence[Hashable]
    ) -> tuple[NDArray[np.bool_], int, Ints] | None:
        """``None`` too where the clock is set back over midnight, or for several segments."""
        day = self.days(over)[1]
        if len(over.lengths) > 1 or np.any(np.diff(day) < 0):
            return None
        inside = np.array([state in self.of for state in states], dtype=bool)
        return inside, self.needed(over), np.bincount(day)

    def unit(self, over: Over) -> Fraction:
        return Fraction(1, self.days(over)[0]) if self.share else Fraction(1)

    def bounds(self, over: Over) -> tuple[float, float]:
        return 0.0, float(self.days(over)[0] * self.unit(over))

    def of_codes(self, over: Over, codes: NDArray[np.intp]) -> NDArray[Any]:
        each = np.bincount(self.days(over)[1], weights=self.inside(codes))
        return np.array([(each >= self.needed(over)).sum()])

    def record(self, over: Over) -> dict[str, Any]:
        return {
            **super().record(over),
            "at_least": self.needed(over),
            "days": self.days(over)[0],
            "share": bool(self.share),
        }

    @property
    def python(self) -> str:
        share = ", share=True" if self.share else ""
        return f"days_with({list(self.of)!r}, {self.at_least!r}{share})"


@dataclass(frozen=True)
class TransitionCounts(_EachState):
    """How often each state is followed by each other state, within segments; row by row.

    A transition is counted between neighbours that were both observed. An entry is part of two, so
    changing it takes away two counts and adds two: 4-Lipschitz, or 2-Lipschitz if no segment has
    more than two entries.
    """

    kind = "transition counts"
    noun = "counts"
    axis = "moves between entries"
    picture = "moves"
    names: ClassVar[Names] = {"transitions": OptionName(MOVES, "moves from each state to each")}
    counted = True

    def apart(self, over: Over) -> int:
        if max(over.lengths) < 2:
            raise ValueError("lengths: segments of one entry have no transitions; give longer ones")
        return 4 if max(over.lengths) > 2 else 2

    def of_codes(self, over: Over, codes: NDArray[np.intp]) -> NDArray[Any]:
        return Series(codes, self.order(over), over.lengths).transitions

    def labels(self, over: Over) -> Sequence[str]:
        states = self.order(over)
        return [f"{before} to {after}" for before in states for after in states]

    def total(self, over: Over) -> float:
        seen = over.seen
        both = seen[:-1] & seen[1:]
        both[np.cumsum(over.lengths)[:-1] - 1] = False
        return float(both.sum())

    def largest(self, over: Over) -> float:
        return self.total(over)

    def bounds(self, over: Over) -> tuple[float, float]:
        return 0.0, self.total(over)

    def check(self, over: Over, series: Series) -> None:
        """Counted segment by segment, so that their order does not matter."""

    def reading(self) -> tuple[str, dict[str, Any]]:
        return "rates", {}

    @property
    def python(self) -> str:
        return "transition_counts()"


# --- what the classes share ---------------------------------------------------------------------


def entered(inside: NDArray[np.bool_], lengths: Sequence[int]) -> int:
    """How many runs begin, each segment by itself."""
    before = np.concatenate([[False], inside[:-1]])
    before[np.cumsum((0, *lengths[:-1]))] = False
    return int((inside & ~before).sum())


def several(of: Any, kind: str) -> tuple[Hashable, ...]:
    """One state or several, as a tuple; text is one state."""
    if of is None or of == ():
        raise ValueError(f"of: {kind} needs the states it is about, such as of=['walk']")
    one = isinstance(of, (str, bytes)) or not isinstance(of, Iterable)
    return checks.distinct_states([of] if one else of)


def is_row(row: Any) -> bool:
    """Whether this is a row of numbers rather than one."""
    return isinstance(row, (Sequence, np.ndarray)) and not isinstance(row, str)


def in_order(values: Any, states: Sequence[Hashable]) -> tuple[Hashable, ...]:
    """The states in the order of their values, which must differ."""
    numbers = {state: as_fraction("values", value) for state, value in values}
    _all_valued(numbers, states)
    if len({numbers[state] for state in states}) < max(2, len(states)):
        raise ValueError(
            "values: need at least two levels with different values, so that they can be ordered"
        )
    return tuple(sorted(states, key=lambda state: numbers[state]))


def by_text(values: Any) -> dict[str, float]:
    """Values by the names of states in releases."""
    return {str(state): float(value) for state, value in values}


def time_of_day(name: str, text: str) -> int:
    """A time of the day in microseconds."""
    hours, colon, minutes = str(text).partition(":")
    fits = bool(colon) and hours.isdecimal() and minutes.isdecimal() and int(minutes) < 60
    if not fits or int(hours) * 60 + int(minutes) > 1440:
        raise ValueError(f"{name}: must be a time of day like 08:30, got {text!r}")
    return (int(hours) * 60 + int(minutes)) * (DAY // 1440)


def _number(value: Fraction) -> int | float:
    """A fraction as Python prints it."""
    return int(value) if value.denominator == 1 else float(value)


def _freeze(question: Question, name: str, value: Any) -> None:
    object.__setattr__(question, name, value)


def _pairs(values: Any) -> tuple[tuple[Hashable, Any], ...]:
    """Values of states as pairs, in an order of their own."""
    if values is None:
        raise ValueError("values: are required: a number for each state")
    items: Any = values.items() if isinstance(values, Mapping) else values
    if not isinstance(values, Mapping) and not all(is_row(item) for item in values):
        items = enumerate(values)
    pairs = [(state, as_fraction("values", value)) for state, value in items]
    if not pairs:
        raise ValueError("values: need at least two different values, or the answer is constant")
    checks.distinct_states([state for state, _ in pairs])
    return tuple(sorted(pairs, key=lambda pair: str(pair[0])))


def _range(clip: Any) -> Clip:
    low, high = (checks.real("clip", end) for end in clip)
    if not low < high:
        raise ValueError(f"clip: low must be below high, got {low:g} and {high:g}")
    return low, high


def _all_valued(values: Mapping[Hashable, Any], states: Sequence[Hashable] | None) -> None:
    missing = [str(state) for state in states or () if state not in values]
    if missing:
        raise ValueError(
            f"values: have no value for {', '.join(missing)}; give 0 if it adds nothing"
        )


def _refuse_data(states: Any) -> None:
    if hasattr(states, "columns") or isinstance(states, Series) or hasattr(states, "subjects"):
        raise ValueError(
            f"states: is a {type(states).__name__}; name the states first and give the data as "
            "lengths, like histogram(['rest', 'walk'], read(...))"
        )
