"""What the record of a release claims, and whether its fields agree with one another.

The record says which question was asked, with its arguments. The question is asked again
(`query_of`), and all that follows from it, its labels, its unit, its total and how far an entry
moves it, must be what the record says, whatever the file claims. Of a function of the user's own
the bound is declared by its author. Notes are not read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from fractions import Fraction
from functools import cached_property
from math import inf, isnan, nextafter
from typing import Any, NamedTuple

import numpy as np

from pufferkit.beliefs.base import Beliefs, loss_if_unsure, same_step, step_assumed
from pufferkit.beliefs.provenance import owed
from pufferkit.checks import Bools, Floats
from pufferkit.data.durations import of_seconds
from pufferkit.data.joint import Several
from pufferkit.data.query import Query
from pufferkit.data.series import SegmentPattern
from pufferkit.mechanisms.calibration import requested
from pufferkit.mechanisms.release import (
    Guarantee,
    Release,
    is_number,
    project_to_simplex,
)
from pufferkit.noise import SAMPLER_NAMES
from pufferkit.records import canonical, digest

TOLERANCE = 1e-7
"""Relative tolerance of the scale, for rounding on either side."""

_UP = 1 + 1e-12


class NotChecked(Exception):
    """There is no check for this release, or it would exceed the work allowed."""


class BadBeliefs(Exception):
    """The recorded beliefs cannot be read, or the mechanism has no theorem for them."""


class Allowance:
    """An allowance of work, in units of about a nanosecond."""

    def __init__(self, most: float) -> None:
        self.most, self.spent = most, 0.0

    def spend(self, amount: float) -> None:
        """Spend some of it, or give up."""
        self.spent += amount
        if self.spent > self.most:
            raise NotChecked(f"it takes more than the {self.most:.3g} units of work allowed")


def largest(bounds: Iterable[float]) -> float:
    """The largest of some bounds, 0 of none; what is no number bounds nothing."""
    return max((inf if isnan(bound) else float(bound) for bound in bounds), default=0.0)


class Theorem(NamedTuple):
    """The guarantee of a mechanism, what decides its scale, its readings, and their check."""

    guarantee: Guarantee
    bound: str
    variants: tuple[str | None, ...]
    needed: Callable[[Claim], float]


@dataclass(frozen=True)
class Claim:
    """A record, its beliefs, if any, its question, the work allowed, and what was checked."""

    record: Release
    theta: Beliefs | None
    query: Query
    work: Allowance
    checks: list[str] = field(default_factory=list)

    @property
    def beliefs(self) -> Beliefs:
        """The recorded beliefs."""
        if self.theta is None:
            raise BadBeliefs(f"are not recorded, and {self.record.mechanism} needs them")
        return self.theta

    @property
    def lipschitz(self) -> float:
        """How far an entry moves the answer: as was asked, and at least as recorded."""
        return max(self.query.lipschitz, self.record.lipschitz)

    @property
    def longest(self) -> int:
        """The longest segment that the guarantee covers: of the release or the account."""
        return self.record.evidence.horizon or max(self.record.lengths)

    @property
    def parts(self) -> list[Query]:
        """The questions, if there are several, one by one."""
        asks = self.query.asks
        return [own for _, own in asks.parts] if isinstance(asks, Several) else [self.query]

    @property
    def proof(self) -> Mapping[str, Any]:
        """What was recorded as proof, and what the author claims."""
        return self.record.verification_data or {}

    def scale_for(self, loss: float) -> float:
        """The recorded scale if it keeps the loss within epsilon, else a larger one."""
        scale = self.record.scale
        enough = loss <= self.record.epsilon
        return scale if enough else max(scale * (1 + 2 * TOLERANCE), nextafter(scale, inf))

    @cached_property
    def cost(self) -> Floats:
        """What replacing an entry x by x' costs, in scales of the noise, for all pairs, rounded up.

        Coordinates may have scales of their own.
        """
        return self.record.cost(self.query, self.beliefs.states)

    @cached_property
    def patterns(self) -> list[SegmentPattern]:
        """The distinct patterns of gaps, checked against the lengths and the entries observed."""
        recorded: Any = self.proof.get("pattern")
        if recorded is None:
            return []
        runs = [tuple(own) for own in recorded]
        lengths, seen = tuple(sum(own) for own in runs), tuple(sum(own[::2]) for own in runs)
        if lengths != tuple(self.record.lengths) or seen != self.record.observed:
            raise TypeError("the pattern does not fit the lengths and the entries that were seen")
        return sorted(set(runs))

    @cached_property
    def unsure(self) -> float | None:
        """What an adversary may lose who is unsure of the member; ``None`` without members."""
        return loss_if_unsure(self.theta, self.record.epsilon)


# --- whether the fields agree ---------------------------------------------------------------------


def contradictions(claim: Claim, theorem: Theorem) -> Iterator[str]:
    """Fields that do not agree with each other, with the question or with the beliefs."""
    record = claim.record
    for name, told, made in _following(claim, theorem):
        near = is_number(told) and is_number(made) and abs(told - made) <= TOLERANCE * made
        if told != made and not (name == "loss_if_unsure" and near):
            yield f"{name}: is {told!s:.100}, and what was asked makes it {made!s:.100}"
    yield from _not_within(claim)
    yield from _not_believed(claim)
    yield from _not_moved(claim)
    yield from _not_drawn(record, claim.query)
    totals, bounds = record.totals and [record.totals], record.bounds
    if not shown_as([record.raw], [record.value], record.presentation, totals, bounds).all():
        yield f"value: does not follow from raw, {record.presentation}"


def _following(claim: Claim, theorem: Theorem) -> Iterator[tuple[str, Any, Any]]:
    """Fields, what the record says there, and what follows from all that was asked."""
    record, query, theta = claim.record, claim.query, claim.theta
    given = bool(claim.proof.get("secrets"))
    if given and record.mechanism != "wasserstein":
        yield "secrets", "given", f"those of the beliefs; {record.mechanism} hides no others"
    own = Guarantee.SECRETS if given else theorem.guarantee
    named = theta is not None and theta.names_secrets
    yield "guarantee", record.guarantee, own.for_named_secrets if named else own
    yield "bound", record.evidence.bound, theorem.bound
    if record.evidence.variant not in theorem.variants:
        yield "variant", record.evidence.variant, theorem.variants
    yield "loss_if_unsure", record.loss_if_unsure, claim.unsure
    yield "labels", record.labels, (query.name,) if query.chooses else query.labels
    yield "total", record.total, None if query.chooses else query.total
    told, made = _as_asked(record.question), _as_asked(query.question)
    yield from (
        (f"question: {name}", canonical(told.get(name)), canonical(made[name])) for name in made
    )
    yield "noise: a noisy choice", record.noise == "noisy choice", query.chooses
    yield "noise: sech", record.noise == "discrete sech", record.mechanism == "shaped"
    # Several questions, gaps, and noise beside other spending were asked for together.
    whole = record.observed is None and record.scales is None and not record.evidence.beside
    alone = query.asks is not None and record.kind != Several.kind
    if record.calibration is not None and whole and alone and not claim.proof.get("secrets"):
        horizon, shape = record.evidence.horizon, claim.proof.get("shape")
        known = digest_of(record.mechanism, theta, query, record.epsilon, horizon, shape)
        yield "calibration (a digest)", record.calibration, known or record.calibration


def digest_of(
    mechanism: str, theta: Beliefs | None, query: Query, epsilon: float, horizon: Any, shape: Any
) -> str | None:
    """The digest of what was asked for; ``None`` of quilts, whose options no record holds."""
    if mechanism in ("markov_quilt", "markov_quilt_approx"):
        return None
    options = {} if horizon is None else {"horizon": horizon}
    options |= {"shape": shape["objective"]} if mechanism == "shaped" else {}
    return digest(requested(mechanism, theta, query, epsilon, options))


def _not_within(claim: Claim) -> Iterator[str]:
    """Lengths that do not agree with each other or with those that the guarantee covers."""
    record, evidence = claim.record, claim.record.evidence
    named = None if claim.theta is None else claim.theta.entries
    if named is not None and tuple(record.lengths) != (len(named),):
        yield f"lengths: the beliefs are about {len(named)} entries, not {list(record.lengths)}"
    if claim.longest < max(record.lengths):
        yield f"horizon: is {claim.longest}, but there are segments of {max(record.lengths)}"
    gaps = evidence.counted == "observed" or claim.proof.get("pattern")
    if evidence.horizon is not None and gaps:
        yield "horizon: the other windows of an account may have no gaps"
    for name in ("horizon", "beside"):
        if getattr(evidence, name) and record.mechanism != "influence_curve":
            yield f"{name}: {record.mechanism} does not share its promise with other releases"
    # Where gaps are counted, and of sums, a shorter segment may be the hardest.
    any_may = evidence.counted == "observed" or evidence.bound in ("distance", "window")
    may_bind = record.lengths if any_may else (claim.longest,)
    if named is None and evidence.length not in (None, *may_bind):
        yield f"lengths: the longest is {claim.longest}, in the evidence {evidence.length}"


def _not_believed(claim: Claim) -> Iterator[str]:
    """What does not follow from the beliefs: debt, step, states."""
    record, theta = claim.record, claim.theta
    if theta is None:
        return
    debt = owed(theta.sources)
    if debt is not None and (record.evidence.bought or 0.0) < debt.entry_epsilon:
        yield f"bought: the beliefs were {debt.words}, and neither release nor account holds that"
    if not same_step(theta.step, record.step):
        yield (
            f"step: the data have an entry every {of_seconds(record.step)}, the beliefs are about "
            f"entries {of_seconds(theta.step)} apart"
        )
    known = set(theta.states)
    for part in (part for part in claim.parts if part.asks is not None):
        named = {*(part.states or ()), *(part.rows or ())}
        if named - known or (part.states is not None and named != known):
            strange = sorted(map(str, named - known or named))
            yield f"question: {strange} are not the states of the beliefs"


def _as_asked(question: Mapping[str, Any] | None) -> dict[str, Any]:
    """What was asked, and of each part, without what is read from the answer afterwards."""
    own = {name: value for name, value in (question or {}).items() if name != "derive"}
    if "parts" in own:
        own["parts"] = [{**part, "question": _as_asked(part["question"])} for part in own["parts"]]
    return own


def _not_moved(claim: Claim) -> Iterator[str]:
    """How far an entry moves the answer, and what it spends where coordinates differ."""
    record, query, kind = claim.record, claim.query, claim.record.kind
    if record.lipschitz < query.lipschitz * (1 - 1e-12):
        moved = f"{query.lipschitz:g}, not {record.lipschitz:g}"
        yield f"lipschitz: one entry moves the answer by {moved} ({kind})"
    if record.scales is None:
        return
    of_sums = kind == Several.kind or (query.weights is not None and not query.chooses)
    if record.mechanism != "influence_curve" or claim.theta is None or not of_sums:
        yield f"scales: {record.mechanism} has none for each coordinate of a {kind}"
    elif record.lipschitz / record.scale < float(claim.cost.max()) * (1 - TOLERANCE):
        yield "scales: spend more on an entry than one of the scale recorded for all would"


def _not_drawn(record: Release, query: Query) -> Iterator[str]:
    """Contradictions between the recorded noise and the answer.

    Discrete noise hides answers on the multiples of its unit and no others: two answers that are
    not a whole number of units apart have no output in common.
    """
    unit = record.unit
    if query.chooses and record.mechanism in ("gk16", "wasserstein", "exact_sum", "shaped"):
        yield f"mechanism: {record.mechanism} is for numbers with noise, not for a choice"
    if query.chooses and set(record.raw) - set((query.question or {})["levels"]):
        yield "raw: is not one of the levels"
    if (unit is not None) != (record.noise == "discrete laplace"):
        yield f"unit: discrete noise has one and Laplace noise has none, not {unit}"
    if unit is not None and not all(is_multiple(value, unit) for value in record.raw):
        yield f"raw: discrete noise leaves whole multiples of {unit}"
    if unit is not None and query.unit is not None and (query.unit / unit).denominator != 1:
        yield f"unit: entries do not add whole multiples of {unit}"


def is_multiple(value: float, unit: Fraction) -> bool:
    """Whether this is a whole multiple of the unit, rounded to a float."""
    return float(round(Fraction(value) / unit) * unit) == value


def shown_as(
    raw: Any, value: Any, presentation: str, totals: Any, bounds: tuple[Any, Any] | None
) -> Bools:
    """Which rows of values follow from the noisy answers, presented as is said."""
    try:
        raw, value = (np.array(rows, dtype=float) for rows in (raw, value))
        made = raw
        if presentation == "within range":
            low, high = np.array(bounds, dtype=float).reshape(2, -1, 1)
            made = np.clip(raw, low, high)
        elif presentation == "nearest histogram":
            totals = np.array(totals, dtype=float)
            made = project_to_simplex(raw.reshape(totals.size, -1), totals.ravel())
            made = made.reshape(raw.shape)
            most = np.maximum(np.abs(made).max(axis=1), totals.max(axis=1))
            return np.asarray(np.abs(made - value).max(axis=1) <= 1e-9 * np.maximum(most, 1.0))
        return np.asarray((made == value).all(axis=1))
    except (TypeError, ValueError):  # of other sizes, or without what it is said to be made of
        return np.zeros(len(raw), dtype=bool)


def assumptions(claim: Claim) -> Iterator[str]:
    """Assumptions that no recomputation from a file can check."""
    record, evidence = claim.record, claim.record.evidence
    drawn = "that noise of this scale was drawn, afresh and once"
    yield drawn if record.sampler is None else f"{drawn}, by {SAMPLER_NAMES[record.sampler]}"
    if record.noise == "noisy choice":
        yield "that the states have the values that the levels give them, in this order"
    if claim.theta is not None:
        yield from _believed(record, claim.theta)
    if (evidence.bought or 0.0) > (evidence.beside or 0.0):
        yield "that the account of these data holds what the beliefs were bought for"
    if record.guarantee is not Guarantee.ENTRY:
        yield "that the segments are as long as recorded, and independent of one another"
    if record.observed is not None:
        yield "that the entries were observed, or not, as recorded; which they are may itself tell"
    for part in (part for part in claim.parts if part.asks is None and part.weights is None):
        moved = f"that one entry moves {part.name!r} by at most {part.lipschitz:g}"
        yield f"{moved}, as the author of the query states"
        if part.unit is not None:
            yield f"that its answers are whole multiples of {part.unit}, as the author states"
    if record.noise != "noisy choice" and any(map(_valued, claim.parts)):
        yield "that the states have the values that the weights give them"
    if any(part.asks is not None and part.asks.clocked for part in claim.parts):
        yield "that the entries were at the times that the question says"
    yield "what else was released about the same data; that is in the ledger"


def _believed(record: Release, theta: Beliefs) -> Iterator[str]:
    """What is taken on trust of the beliefs, and of how the data fit them."""
    yield "that the beliefs hold for the data, and for every adversary that matters"
    told = (record.beliefs or {}).get("fitted_on") or []
    sources = [told] if isinstance(told, Mapping) else told
    if any((own.get("bought") or {}).get("for_others") for own in sources):
        yield "that the data are other than those the beliefs were bought from, as declared"
    if theta.entries is None:
        unknown = step_assumed(theta.step, record.step)
        if unknown is not None:
            yield f"that entries are as far apart as the beliefs take them to be: {unknown}"
        if theta.fixed_start is not None:
            yield "that every segment begins as the beliefs say: with the given start"


def _valued(query: Query) -> bool:
    """Whether the answer depends on numbers that the author gave to states."""
    if query.asks is None:
        return query.weights is not None
    forms = {own.metadata.get("form") for own in fields(query.asks)}
    return bool(forms & {"values", "weights"})
