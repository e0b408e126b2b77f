"""A release: the noisy answer, and everything a reader needs to judge it.

With a ``unit`` u the noise is discrete Laplace (`pufferkit.noise`): a whole multiple n u with
probability (1 - a) / (1 + a) a^|n|, a = e^{-u / scale}. Then E|Z| = u / sinh(u / scale), and

    P(|Z| > m u)  =  2 a^{m + 1} / (1 + a),

so an interval of m units to either side has at least its level, and the least such m is taken. With
``unit=None`` it is Laplace noise: E|Z| = scale, P(|Z| > t) = e^{-t / scale}.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from importlib import import_module
from operator import gt
from typing import Any, Literal, get_args

import numpy as np

from pufferkit import checks
from pufferkit.beliefs.provenance import PRIVATE_NOTE
from pufferkit.checks import Floats
from pufferkit.data.durations import seconds
from pufferkit.data.joint import Several, check_parts, joint_query
from pufferkit.data.query import KINDS, Query, Question, remade
from pufferkit.errors import printable
from pufferkit.influence.shape.shaping import Rotated
from pufferkit.mechanisms.post_processing import Derived, derive, rank_error
from pufferkit.noise import Family, Sampler
from pufferkit.records import Report, check_record
from pufferkit.rounding import LARGEST_EXPONENT
from pufferkit.shown import aligned, at_most, grid, three_digits, with_interval

# --- the guarantee of a release, and the evidence for its scale, which `verify` reads -----------

Variant = Literal["definition", "formula", "paper", "tight"]
"""Which reading of a theorem: influence by [Q] Definition 4.1 or by (5) as printed; mixing by [Q]
Lemma C.1 as in the paper, or by the operator norm, which is tighter."""

Bound = Literal[
    "curve", "directions", "quilts", "distance", "window", "neighbours", "group", "entry"
]
"""Which theorem decided the scale; in words, `BOUND_WORDS`."""

BOUND_WORDS: dict[Bound, str] = {
    "curve": "the influence curve, pair of values by pair",
    "directions": "what hidden regimes show in each direction (SHAPE Theorem S)",
    "quilts": "Markov quilts ([Q] Theorem 4.3)",
    "distance": "the Wasserstein distance ([Q] Theorem 3.2)",
    "window": "the distribution of the sum, over a window",
    "neighbours": "the influence of neighbours (GK16)",
    "group": "a whole segment at once",
    "entry": "a single entry",
}

CountedOver = Literal["observed", "span"]
"""For a series with gaps, the entries that the scale was calibrated for: those observed, or all
of the span, which is never less noise."""


class Guarantee(StrEnum):
    """The guarantee of a release. The value is a sentence; files hold the ``code``.

    Examples
    --------
    >>> import pufferkit as pk
    >>> week = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    >>> print(pk.influence_curve(week, pk.count(1, 100), epsilon=1).guarantee)
    Pufferfish for each entry
    """

    PUFFERFISH = "Pufferfish for each entry"
    GROUP = "Pufferfish for each entry, whatever the correlation within a segment"
    EVENTS = "Pufferfish for the secrets that the beliefs name, and for no others"
    SECRETS = "Pufferfish for the pairs of secrets that were given, and for no others"
    ENTRY = "entry DP only: does not hide entries that others predict"

    @property
    def for_named_secrets(self) -> Guarantee:
        """The same under beliefs that name their secrets."""
        return Guarantee.EVENTS if self is Guarantee.PUFFERFISH else self

    @property
    def code(self) -> str:
        """The name of the guarantee in files."""
        return self.name.lower()

    @classmethod
    def of_code(cls, code: Any) -> Guarantee:
        """The guarantee that a file names."""
        if isinstance(code, cls):
            return code
        known = {own.code: own for own in cls}
        if code not in known:
            raise ValueError(f"release: guarantee must be one of {', '.join(known)}, got {code!r}")
        return known[code]


@dataclass(frozen=True)
class Evidence:
    """What determined the scale: the binding belief, entry and quilt or blocks.

    Attributes
    ----------
    belief
        The chain of the class that needs the most noise.
    node
        The entry that is hardest to hide: counted from 1 within its segment, or its name.
    length
        Length of that segment.
    quilt
        Nodes of its best Markov quilt; empty for the trivial quilt.
    influence
        Max-influence of the entry on that quilt, or the mechanism's own measure.
    blocks
        For the influence curve: entries paid for to the left and to the right of the entry, itself
        counted in both; ``None`` for a side that is paid completely. For a window: how far its ends
        are from the entry; ``None`` for a side that reaches to the end of the segment.
    bound, variant
        Which theorem decided, and which reading of it; see `Bound` and `Variant`.
    counted
        For a series with gaps: which entries the bound counts; see `CountedOver`. ``None``
        without any.
    beside
        Event-level epsilon of other releases under the same guarantee; ``None`` if the guarantee
        is about this release only.
    bought
        Event-level epsilon of the noisy counts that the beliefs were bought with, where it is
        ``beside`` this release or in the account that the release is charged to.
    horizon
        With an account: number of entries that the guarantee covers, all its other releases
        included; ``None`` if it is about the entries of this release only.
    notes
        How the numbers were obtained, in words. No program reads them.

    Examples
    --------
    >>> import pufferkit as pk
    >>> week = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    >>> decided = pk.markov_quilt(week, pk.count(1, 1000), epsilon=1).evidence
    >>> decided.node, decided.quilt
    (500, (495, 505))
    """

    belief: str | None = None
    node: Any = None
    length: int | None = None
    quilt: tuple[Any, ...] | None = None
    influence: float | None = None
    blocks: tuple[int | None, int | None] | None = None
    notes: tuple[str, ...] = ()
    bound: Bound | None = None
    variant: Variant | None = None
    beside: float | None = None
    counted: CountedOver | None = None
    horizon: int | None = None
    bought: float | None = None

    def __post_init__(self) -> None:
        for name, known in _WORDS.items():
            value = getattr(self, name)
            if value is not None and value not in known:
                raise ValueError(f"{name}: must be one of {', '.join(known)}, got {value!r}")

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Evidence:
        """The evidence in a file."""
        check_record("release", data, "evidence")
        fields: dict[str, Any] = dict(data)
        for name in ("quilt", "blocks", "notes"):
            fields[name] = None if fields[name] is None else tuple(fields[name])
        return cls(**fields)

    def noting(self, *notes: str, missing: int = 0) -> Evidence:
        """The same with these notes too, each once.

        Where entries are missing it counts the whole span, unless the mechanism counted otherwise.
        """
        spanned = missing and self.counted is None and self.bound != "entry"
        more = tuple(note for note in notes if note not in self.notes)
        counted: CountedOver | None = "span" if spanned else self.counted
        return replace(self, notes=self.notes + more, counted=counted)

    def __str__(self) -> str:
        return "; ".join([*self.decided, *self.notes])

    @property
    def decided(self) -> list[str]:
        """The belief, the entry and the quilt or blocks, in words."""
        parts = []
        if self.belief is not None:
            parts.append(self.belief)
        if self.node is not None and (self.horizon is None or self.horizon != self.length):
            parts.append(f"entry {_named(self.node)} of {self.length}")
        if self.quilt is not None:
            inside = ", ".join(_named(n) for n in self.quilt)
            parts.append(f"quilt {{{inside}}}" if inside else "trivial quilt")
        if self.influence is not None:
            parts.append(f"influence {self.influence:.4g}")
        if self.blocks is not None:
            what = "window" if self.bound == "window" else "block"
            sides = zip(("left", "right"), self.blocks, strict=True)
            parts += [f"{side} {what} {'whole' if n is None else n}" for side, n in sides]
        if self.counted is not None:
            parts.append(_COUNTED[self.counted])
        if self.horizon is not None:
            parts.append(f"with all other releases of the account, over {self.horizon:,} entries")
        return parts


_COUNTED = {
    "observed": "only observed entries counted",
    "span": "noise of the unbroken span",
}

_WORDS = {"bound": get_args(Bound), "variant": get_args(Variant), "counted": get_args(CountedOver)}
"""The fields of the evidence with a fixed set of values."""


def is_whole(value: Any) -> bool:
    """Whether this is a whole number, not a boolean."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Whether this is a number, not a boolean."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_list(value: Any) -> bool:
    """Whether this is a list or a tuple."""
    return isinstance(value, (list, tuple))


def _named(node: Hashable) -> str:
    return f"X_{node}" if isinstance(node, int) else str(node)


FORMAT = 1
"""Format of the files: release.schema.json. Formats of later versions are refused in words."""

Presentation = Literal["as drawn", "nearest histogram", "within range"]

_ROUNDING = 1e-9  # an interval is wider by this share, so that no rounding makes it too short


@dataclass(frozen=True, repr=False)
class Release(Report):
    """A noisy answer that may leave the process.

    Attributes
    ----------
    value
        The answer to use: ``raw``, cut to what is possible (`within_range`), or its nearest
        histogram (`as_histogram`).
    raw
        The noisy answer as drawn.
    scale
        Scale of the noise on every coordinate; at least what the theorem demands.
    scales
        The scale of each coordinate, if they differ; ``scale`` is then the one for all that would
        spend as much on an entry.
    noise, unit
        Discrete Laplace noise, in whole multiples of the unit, or Laplace noise, without one.
    sampler
        The sampler (`pufferkit.noise.whole_noise`); ``None`` if it was not recorded.
    epsilon, mechanism, guarantee
        The guarantee, and the mechanism that gives it.
    query, kind, labels, lengths, lipschitz, total
        The query; lengths include entries that were not observed. ``kind`` is the kind of the query
        (`pufferkit.data.query.KINDS`); for ``own`` queries, how far an entry moves the answer was
        declared by their author.
    observed
        How many entries of each segment were observed; ``None`` if all were.
    beliefs
        The class Theta, as plain data; ``None`` if the mechanism needs none.
    evidence
        What decides the noise.
    released_at
        Time in UTC.
    version
        Version of pufferkit.
    verification_data
        What `verify` needs besides: for sums, the contribution of each state; if only observed
        entries were counted, which they are (``pattern``, as `Series.pattern`); for
        networks, a quilt of every node; for joint distributions, the answer on every row.
    presentation
        Whether ``value`` is ``raw`` as drawn, cut to its range, or the nearest histogram to it.
    question
        Arguments of the query that the kind does not determine: the slots of a query by time and
        the entries observed in each, the states whose episodes were counted.
    step
        Seconds from one entry of the data to the next; ``None`` if the data have no clock.
    calibration
        Digest of what was asked for (`Calibration.asked`); the charge in a ledger has the same.
    loss_if_unsure
        The most that an adversary loses who knows the class and is unsure which member is in force:
        epsilon and what an entry tells about the member (`Beliefs.loss_of_type`). ``None`` if the
        class has no members to choose from; infinite if an entry can rule a member out.

    Examples
    --------
    >>> import pufferkit as pk
    >>> week = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]], states=["rest", "active"])
    >>> data = pk.Series.of([week.states[code] for code in week.sample(1000, seed=1)], week.states)
    >>> release = pk.influence_curve(week, pk.histogram(week.states, data), epsilon=1).release(data)
    >>> len(release.interval(0.9))
    2
    >>> release.as_drawn().presentation, release.as_histogram().presentation
    ('as drawn', 'nearest histogram')
    >>> release.within_range().presentation
    'within range'
    >>> Release.from_json(release.to_json()).scale == release.scale
    True
    >>> print(release.explain().epsilon)
    1.0
    """

    _called = "release"

    value: tuple[float, ...]
    raw: tuple[float, ...]
    scale: float
    epsilon: float
    mechanism: str
    guarantee: Guarantee
    query: str
    labels: tuple[str, ...]
    lengths: tuple[int, ...]
    lipschitz: float
    total: float | None
    beliefs: Mapping[str, Any] | None
    evidence: Evidence
    released_at: str
    version: str
    verification_data: Mapping[str, Any] | None = None
    kind: str = "own"
    presentation: Presentation = "as drawn"
    observed: tuple[int, ...] | None = None
    noise: Family = "laplace"
    unit: Fraction | None = None
    scales: tuple[float, ...] | None = None
    question: Mapping[str, Any] | None = None
    sampler: Sampler | None = None
    step: float | None = None
    calibration: str | None = None
    loss_if_unsure: float | None = None

    @property
    def totals(self) -> tuple[float, ...] | None:
        """The sums of the parts of the answer, one after another; ``None`` if unknown."""
        if self.question is not None and "slots" in self.question:
            return tuple(float(seen) for seen in self.question["observed"])
        return None if self.total is None else (self.total,)

    def interval(
        self, level: float = 0.95, *, simultaneous: bool = False
    ) -> tuple[tuple[float, float], ...]:
        """Confidence intervals of the exact answer, one for each coordinate.

        With ``simultaneous``, they hold for all coordinates at once. They account for the noise
        only, not for how well the series represents anything else.

        The interval is centred at ``raw``, because the noise was added there. For the nearest
        histogram, and for values within their range, it is clipped to the possible range (of counts
        0 to the total), which contains the exact answer. If ``value`` lies outside, the interval is
        extended to it, which can only raise the confidence.
        """
        if self.noise == "noisy choice":
            # For a chosen level only the error of its rank is bounded; see `rank_error`.
            levels = (self.question or {})["levels"]
            return ((float(levels[0]), float(levels[-1])),)
        count = len(self.raw) if simultaneous else 1
        scales = self.scales or (self.scale,) * len(self.raw)
        if self.rotated is not None:
            widths = self.rotated.half_widths(_checked_level(level), count).tolist()
            around = [(raw - own, raw + own) for raw, own in zip(self.raw, widths, strict=True)]
        else:
            around = [
                interval_around(raw, scale, level, count, self.unit)
                for raw, scale in zip(self.raw, scales, strict=True)
            ]
        totals = self.totals
        known: tuple[Any, Any] | None = None
        if self.presentation == "within range":
            known = self.bounds
        elif self.presentation == "nearest histogram" and totals is not None:
            known = 0.0, np.repeat(totals, len(self.raw) // len(totals))
        if known is None:
            return tuple(around)
        least, most = (np.broadcast_to(end, len(self.raw)).tolist() for end in known)
        cut = [
            (min(max(low, start), end), max(min(high, end), start))
            for (low, high), start, end in zip(around, least, most, strict=True)
        ]
        return tuple(
            (min(low, value), max(high, value))
            for value, (low, high) in zip(self.value, cut, strict=True)
        )

    @cached_property
    def rotated(self) -> Rotated | None:
        """For shaped noise: the mixtures of numbers that got it, and the scale of each."""
        if self.noise != "discrete sech":
            return None
        recorded = (self.verification_data or {})["shape"]
        return Rotated.from_dict(recorded, sum(self.observed or self.lengths))

    def table_rows(self) -> list[dict[str, Any]]:
        """One for each coordinate: label, value and its interval at 95%."""
        return [
            {"label": label, "value": float(value), "low_95": float(low), "high_95": float(high)}
            for label, value, (low, high) in zip(
                self.labels, self.value, self.interval(), strict=True
            )
        ]

    def caption(self) -> str:
        """The question, epsilon, mechanism and scale, in one line."""
        head = f"{self.query}: {self.mechanism}, epsilon {self.epsilon:g}, "
        if self.rotated is not None:
            return f"{head}mean error {self.rotated.errors.mean():.4g} of each number"
        head += f"noise scale {in_words(self.scale, self.scales)}"
        head += " (exponential mechanism)" if self.noise == "noisy choice" else ""
        return head

    def shown_rows(self) -> list[dict[str, Any]]:
        """Each number and its interval at 95%, with the digits that the noise leaves."""
        if self.noise == "noisy choice":
            level = three_digits(self.value[0])
            return [{"": self.labels[0], "value": level, "95%": self._rank_in_words()}]
        if (cells := self._cells) is not None:
            slots, names, rows = cells
            return [
                {"": slot, **dict(zip(names, row, strict=True))}
                for slot, row in zip(slots, rows, strict=True)
            ]
        return [
            {
                "": row["label"],
                "value": value,
                "95% interval": f"{low} to {high}",
            }
            for row, (value, low, high) in zip(self.table_rows(), self._digits(), strict=True)
        ]

    def _digits(self) -> list[tuple[str, str, str]]:
        """Values and intervals with the digits that the noise leaves."""
        return [
            with_interval(value, low, high)
            for value, (low, high) in zip(self.value, self.interval(), strict=True)
        ]

    def warnings(self) -> list[str]:
        """Beliefs from the data themselves."""
        return [note for note in self.evidence.notes if note == PRIVATE_NOTE]

    def remarks(self) -> list[str]:
        """What is promised, what decides the noise, and how the numbers are presented."""
        words = [str(self.guarantee)]
        decided = "; ".join(self.evidence.decided)
        words += [f"decided by: {decided}"] if decided else []
        words += [note for note in self.evidence.notes if note != PRIVATE_NOTE]
        if self.presentation == "nearest histogram":
            words.append(
                "the interval is around the answer as drawn; the value is the nearest histogram"
            )
        if self.presentation == "within range" and self.value != self.raw:
            words.append("the value is the answer as drawn, cut to what is possible")
        if self.observed is not None:
            words.append(
                f"{sum(self.observed):,} of {sum(self.lengths):,} entries were observed; the "
                "others are hidden as well"
            )
        return words

    def explain(self) -> Any:
        """How well each pair of values of an entry is hidden; see `pufferkit.explain`."""
        # The curve is above this module, which only holds the record, so it is imported when used.
        return import_module("pufferkit.mechanisms.explain").explain_release(self)

    def as_histogram(self) -> Release:
        """The nearest proper histogram: no negative bins, summing to the known total.

        For queries by time, each slot by itself. Post-processing, so it costs nothing; ``raw`` does
        not change.
        """
        totals = self.totals
        if totals is None:
            raise ValueError(
                f"release: {self.query} is not a histogram, its coordinates have no known total"
            )
        rows = np.array(self.raw, dtype=float).reshape(len(totals), -1)
        nearest = project_to_simplex(rows, np.array(totals))
        value = tuple(float(v) for v in nearest.ravel())
        return replace(self, value=value, presentation="nearest histogram")

    def within_range(self, bounds: tuple[float, float] | None = None) -> Release:
        """The same with its values cut to what is possible, such as 0 to the number of entries.

        Post-processing, so it costs nothing; ``raw`` does not change. As drawn where the range is
        not known. ``bounds`` are those of the query, if they are at hand.
        """
        known = self.bounds if bounds is None else bounds
        if known is None:
            return self
        low, high = known
        value = tuple(type(n)(min(max(n, low), high)) for n in self.raw)  # whole stays whole
        return replace(self, value=value, presentation="within range")

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Least and largest possible number of the answer, if the record says so."""
        if self.asks is None or self.kind == Several.kind or self.noise == "noisy choice":
            return None
        return remade(self.kind, self.question, self.lengths, self.observed).bounds

    @property
    def asks(self) -> type[Question] | None:
        """The question; ``None`` for a function of the user's own."""
        return KINDS.get(self.kind)

    def asked_again(self, states: tuple[Hashable, ...] | None = None) -> Query:
        """The question that was recorded, asked again about these states.

        Of a function of the user's own it says what its author claims, and computes nothing.
        """
        if self.kind == Several.kind:
            parts = (self.question or {})["parts"]
            each = {part["name"]: self._part(part, part, states) for part in parts}
            return joint_query(each, states or ())
        claimed = {} if self.asks is not None else self.verification_data or {}
        return self._part(vars(self), claimed, states)

    def _part(self, asked: Mapping[str, Any], claimed: Mapping[str, Any], states: Any) -> Query:
        if asked["kind"] != "own":
            return remade(asked["kind"], asked["question"], self.lengths, self.observed)
        rows: dict[str, Any] = {}
        for name in [name for name in ("weights", "apart") if name in claimed][:1]:
            listed = [tuple(map(Fraction, np.atleast_1d(row).tolist())) for row in claimed[name]]
            states = range(len(listed)) if states is None else states
            if len(listed) != len(states):
                raise ValueError(f"{name}: there are {len(listed)}, for {len(states)} states")
            rows[name] = dict(zip(states, listed, strict=True))
        unit = asked["unit"]
        return Query(
            asked["query"],
            len,  # what it computes is not in the record
            asked["lipschitz"],
            self.lengths,
            labels=asked["labels"],
            states=states,
            total=asked["total"],
            unit=None if "weights" in rows or unit is None else Fraction(unit),
            observed=self.observed,
            **rows,
        )

    def cost(self, query: Query, states: Sequence[Hashable]) -> Floats:
        """What replacing an entry x by x' costs, in scales of the noise, rounded up."""
        with np.errstate(over="ignore"):
            apart = query.cost(states, self.scales)
            return np.asarray(apart / (1.0 if self.scales else self.scale) * (1 + 1e-12))

    def derive(self, what: str | None = None, *, level: float = 0.95, **arguments: Any) -> Derived:
        """Numbers derived from this release, with intervals: post-processing, which costs nothing.

        Parameters
        ----------
        what
            ``"cumulative"``, ``"load duration"``, ``"peak"`` and ``"quantile"`` (with ``values``,
            the value of each state, and for a quantile its ``share``) and ``"top states"`` (with
            ``count``) from a histogram; ``"rates"`` from transition counts, ``"mean stay"`` from
            stays, ``"variance"`` from its two moments. If left out, what the question was for.
        level
            With at least this probability all intervals hold at once.

        Examples
        --------
        >>> import pufferkit as pk
        >>> chain = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
        >>> noise = pk.influence_curve(chain, pk.histogram([0, 1], 3000), 1)
        >>> release = noise.release([0, 0, 1] * 1000)
        >>> release.derive("top states", count=1).labels
        ('0',)
        """
        return derive(self, what, level=level, **arguments)

    def as_drawn(self) -> Release:
        """The same with ``raw`` as its value: unbiased, so suited to sums over many releases."""
        return replace(self, value=self.raw, presentation="as drawn")

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON. ``promise`` repeats the guarantee in words."""
        guarantee = Guarantee.of_code(self.guarantee)
        promised = {"guarantee": guarantee.code, "promise": str(guarantee)}
        unit = None if self.unit is None else str(self.unit)
        unsure = "unbounded" if self.loss_if_unsure == math.inf else self.loss_if_unsure
        written = {"unit": unit, "loss_if_unsure": unsure}
        return {"format": FORMAT, **asdict(self), **promised, **written}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Release:
        """The release that ``to_dict`` described."""
        check_format("release", data)
        check_record("release", data, "release", KINDS)
        fields = {name: data[name] for name in cls.__dataclass_fields__}
        lengths, observed, size = data["lengths"], data["observed"], len(data["labels"])
        for name in ("value", "raw", "scales"):
            if fields[name] is not None and len(fields[name]) != size:
                raise ValueError(f"release: {name} must have {size} numbers, one for each label")
        seen = lengths if observed is None else observed
        if len(seen) != len(lengths) or not sum(seen) or any(map(gt, seen, lengths)):
            raise ValueError(f"release: observed, {seen!r:.60}, must be some of {lengths!r:.60}")
        for name in ("value", "raw", "labels", "lengths", "observed", "scales"):
            fields[name] = None if fields[name] is None else tuple(fields[name])
        fields["guarantee"] = Guarantee.of_code(fields["guarantee"])
        fields["evidence"] = Evidence.from_dict(fields["evidence"])
        fields["step"] = seconds("release: step", fields["step"])
        if fields["loss_if_unsure"] == "unbounded":
            fields["loss_if_unsure"] = math.inf
        if fields["unit"] is not None:
            fields["unit"] = unit_of(fields["unit"])
        release = cls(**fields)
        _check_question(release)
        return release

    def text_table(self) -> str:
        """Values and intervals; of slots and moves a grid, with the interval of all in a line."""
        labels = [printable(label) for label in self.labels]
        if self.noise == "noisy choice":
            return f"  {labels[0]}  {self.value[0]:>12.6g}   95%: {self._rank_in_words()}"
        if (cells := self._cells) is not None:
            reach = half_width(max(self.scales or (self.scale,)), 0.95, unit=self.unit)
            return f"{grid(*cells)}\n95%: each number drawn is within {at_most(reach)}"
        each = (f"{value:>10}   95%: {low} to {high}" for value, low, high in self._digits())
        return "\n".join(aligned(zip(labels, each, strict=True)))

    @property
    def _cells(self) -> tuple[list[str], list[str], list[list[str]]] | None:
        """Slots of time by states, or moves: the names down and across, and the values in rows."""
        labels = [printable(label) for label in self.labels]
        down = [printable(str(slot)) for slot in (self.question or {}).get("slots", ())]
        if self.kind in KINDS and KINDS[self.kind].picture == "moves":
            size = math.isqrt(len(labels))
            names = [label[: (len(label) - 4) // 2] for label in labels[:: size + 1]]  # "x to x"
            across, down = [f"to {name}" for name in names], names
        elif len(down) > 1 and not len(labels) % len(down):
            size = len(labels) // len(down)
            across = [label.removeprefix(f"{down[0]}, ") for label in labels[:size]]
        else:
            return None
        values = [value for value, _, _ in self._digits()]
        return down, across, [values[n : n + size] for n in range(0, len(values), size)]

    def _rank_in_words(self) -> str:
        ranks = rank_error(self.scale, len((self.question or {})["levels"]), 0.95)
        return f"its rank is off by at most {ranks:.6g} entries"


def _check_question(release: Release) -> None:
    """Refuse a record whose question cannot be asked again."""
    if release.kind == Several.kind:
        check_parts(release.question, len(release.labels))
    elif release.kind != "own":
        remade(release.kind, release.question, release.lengths, release.observed)


_BESIDE = {"format", "promise", "derived", "read_from"}
"""What a file holds beside the fields: promise in words, derived answers, how data were read."""


def unit_of(written: Any) -> Fraction:
    """The unit of discrete noise in a file: a whole number or a fraction, as text."""
    try:
        unit = Fraction(written) if isinstance(written, str) else Fraction(0)
    except (ValueError, ZeroDivisionError):
        unit = Fraction(0)
    if unit <= 0:
        raise ValueError(f"release: unit must be a fraction above 0 like '1/24', got {written!r}")
    return unit


def in_words(scale: float, scales: tuple[float, ...] | None) -> str:
    """One scale, or the least and the largest of several."""
    return f"{scale:.4g}" if scales is None else f"{min(scales):.4g} to {max(scales):.4g}"


def check_format(what: str, data: Mapping[str, Any]) -> None:
    """Refuse files that pufferkit did not write, and formats of later versions."""
    written: Any = data.get("format")
    if is_whole(written) and written > FORMAT:
        raise ValueError(
            f"{what}: is of format {written}, and this pufferkit reads format {FORMAT}; "
            "use the pufferkit that wrote it, or a later one"
        )
    if not is_whole(written) or written != FORMAT:
        raise ValueError(
            f"{what}: format is {written!r}, not {FORMAT}; is this a file that pufferkit wrote?"
        )


# -- the size of noise ----------------------------------------------------------------------------


def expected_size(scale: float, unit: Fraction | None = None) -> float:
    """The mean of |Z|."""
    if unit is None:
        return scale
    b = float(unit / Fraction(scale))
    return float(unit) / math.sinh(b) if b < LARGEST_EXPONENT else 0.0


def half_width(scale: float, level: float, count: int = 1, unit: Fraction | None = None) -> float:
    """Half the width of the interval that contains ``count`` draws at once."""
    level = _checked_level(level)
    outside = -math.expm1(math.log(level) / count)
    if unit is None:
        return -scale * math.log(outside)
    return float(_units_to_either_side(scale, outside, unit) * unit)


def _checked_level(level: float) -> float:
    level = checks.real("level", level)
    if not 0 < level < 1:
        raise ValueError(f"level: must lie between 0 and 1, got {level:g}; for example 0.95")
    return level


def interval_around(
    value: float, scale: float, level: float, count: int = 1, unit: Fraction | None = None
) -> tuple[float, float]:
    """The closed confidence interval of the exact answer."""
    width = half_width(scale, level, count, unit)
    if unit is None:
        return value - width, value + width
    # Counted in units: floats are rounded in order, so an exact answer inside is a float inside.
    at, reach = round(Fraction(value) / unit), round(Fraction(width) / unit)
    return float((at - reach) * unit), float((at + reach) * unit)


def _units_to_either_side(scale: float, outside: float, unit: Fraction) -> int:
    """The least m with P(|Z| > m u) <= outside, with room for rounding."""
    b = float(unit / Fraction(scale)) * (1 - _ROUNDING)
    # log of 2 / (1 + a), for any b.
    heavier = math.log(2) - math.log1p(math.exp(-b))
    return max(0, math.ceil((heavier - math.log(outside)) / b * (1 + _ROUNDING) - 1))


def project_to_simplex(values: Floats, total: float | Floats) -> Floats:
    """The nearest point, in Euclidean distance, that is non-negative and sums to ``total``.

    Rows of a table are taken one by one, each with its own total.
    """
    rows, totals = np.atleast_2d(values), np.atleast_1d(total)[:, None]
    ordered = np.sort(rows, axis=1)[:, ::-1]
    excess = (np.cumsum(ordered, axis=1) - totals) / np.arange(1, rows.shape[1] + 1)
    last = rows.shape[1] - 1 - np.argmax((ordered > excess)[:, ::-1], axis=1)
    nearest: Floats = np.maximum(rows - np.take_along_axis(excess, last[:, None], axis=1), 0.0)
    nearest = np.where(totals > 0, nearest, 0.0)
    return nearest.reshape(np.shape(values))
