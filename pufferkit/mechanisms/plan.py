"""Every mechanism side by side, before anything is spent."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from time import perf_counter
from typing import Any, overload

import numpy as np

from pufferkit import checks
from pufferkit.beliefs.base import Beliefs, loss_if_unsure, step_assumed
from pufferkit.beliefs.provenance import PRIVATE_NOTE, words_of_tests
from pufferkit.beliefs.secrets import Secrets
from pufferkit.data.query import Query, Question
from pufferkit.errors import NotApplicable, TakesLong, printable
from pufferkit.influence.profile import InfluenceCurve
from pufferkit.influence.progress import NamedProgress
from pufferkit.influence.shape.theorem_s import NoisyRun
from pufferkit.influence.sums.least_scale import outer_loss
from pufferkit.mechanisms.baselines import entry_dp, gk16, group_dp
from pufferkit.mechanisms.calibration import ALONE, Calibration, checked
from pufferkit.mechanisms.exact_sum import exact_sum
from pufferkit.mechanisms.explain import in_odds
from pufferkit.mechanisms.influence_curve import (
    added_by_state,
    curve_work,
    influence_curve,
    loss_at,
    scale_per_bin,
)
from pufferkit.mechanisms.joint_plan import JointPlan, Questions, joint_plan
from pufferkit.mechanisms.markov_quilt import markov_quilt, markov_quilt_approx
from pufferkit.mechanisms.release import BOUND_WORDS, Guarantee, half_width
from pufferkit.mechanisms.shaped import shaped, shaping_work
from pufferkit.mechanisms.usefulness import Usefulness, questioned
from pufferkit.mechanisms.wasserstein import wasserstein
from pufferkit.noise import SAMPLER_NAMES
from pufferkit.shown import Shown, at_most
from pufferkit.threads import one_thread

_LOG = logging.getLogger(__name__)

Mechanism = Callable[..., Calibration]
"""Called with the mechanism at work, the number of entries or scales done, and their total."""

MECHANISMS: dict[str, Mechanism] = {
    "influence_curve": influence_curve,
    "influence_curve_per_bin": partial(influence_curve, per_bin=True),
    "shaped": shaped,
    "exact_sum": exact_sum,
    "wasserstein": wasserstein,
    "markov_quilt": markov_quilt,
    "markov_quilt_approx": markov_quilt_approx,
    "markov_quilt_approx_tight": lambda b, q, e: markov_quilt_approx(b, q, e, bound="tight"),
    "gk16": gk16,
    "group_dp": lambda beliefs, query, epsilon: group_dp(query, epsilon, beliefs),
    "entry_dp": lambda _, query, epsilon: entry_dp(query, epsilon),
}
"""Every mechanism by name, all with the same signature."""

_REPORTING = ("wasserstein", "markov_quilt", "influence_curve", "shaped")
_BOUNDED = ("exact_sum", "markov_quilt", "wasserstein")
"""Mechanisms that say how far they are, and those that give up after a given amount of work."""

OPTIONS = frozenset({"influence_curve_per_bin"})
"""Rows of a plan that are never its best: their noise is less in total, not in every bin."""

MOST_BINS = 6
"""Most bins for which a plan computes a scale for each bin."""

QUICK = tuple(name for name in MECHANISMS if name not in ALONE | OPTIONS)
"""Mechanisms that need no distribution of a sum and no search of directions, and so are quick."""

COMPOSING = tuple(name for name in QUICK if name != "entry_dp")
"""Those that hide every entry, and compose with other releases by what an entry spends."""

LONG_WORK = 5e8
"""Most nanoseconds, about, that a plan spends on a mechanism that may take long."""

_MORE_FOR_THE_CURVE = 20
"""So many times as long for the influence curve: without it a plan has hardly a best row."""

_MOST_BY_BIN = 8  # bins times chains: each costs a search, and a plan answers at once
_MOST_ATTACKED = 10  # chains of a class; each alone proves a loss
_BY_NAME = "ask for it by name, or for slow mechanisms (--thorough)"


@dataclass(frozen=True)
class PlanRow:
    """One mechanism in a plan; ``calibration`` is ``None`` where it does not apply.

    ``slow`` marks one that was left out because it takes long.

    ``together`` is the epsilon of two such releases over the same entries, for mechanisms whose
    noise is meant for one release only; ``None`` for all others, and if it is unknown.
    ``tightness`` is the loss that outputs beyond all answers prove at this scale, over epsilon: 1
    if less noise is impossible. It is an attack, so above 1 the guarantee would be violated.
    ``None`` if it is unknown.
    """

    mechanism: str
    calibration: Calibration | None
    why: str
    together: float | None = None
    tightness: float | None = None
    slow: bool = False

    @property
    def applicable(self) -> bool:
        """Whether the mechanism can be used here."""
        return self.calibration is not None

    @property
    def pufferfish(self) -> bool:
        """Whether it hides correlated entries; entry DP does not."""
        return self.calibration is not None and self.calibration.guarantee is not Guarantee.ENTRY

    @property
    def alone(self) -> bool:
        """Whether the noise is meant for this release only."""
        return self.calibration is not None and not self.calibration.composes

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        calibration = self.calibration
        return {
            "mechanism": self.mechanism,
            "applicable": self.applicable,
            "slow": self.slow,
            "pufferfish": self.pufferfish,
            "scale": None if calibration is None else calibration.mean_scale,
            "scales": None
            if calibration is None or calibration.scales is None
            else list(calibration.scales),
            "expected_l1_error": None if calibration is None else calibration.expected_l1_error,
            "half_width_95": None if calibration is None else calibration.half_width(),
            "alone": self.alone,
            "together": self.together,
            "sampler": None if calibration is None else calibration.sampler,
            "tightness": self.tightness,
            "bound": None if calibration is None else calibration.evidence.bound,
            "why": self.why,
        }


HEADINGS = ("mechanism", "95% within", "hides entries", "room to improve")
"""Of the table of a plan, wherever it is shown."""


@dataclass(frozen=True, repr=False)
class Reasons(Shown):
    """What decides the noise of each mechanism of a plan, or why it is not in the table."""

    rows: tuple[tuple[str, str], ...]

    def table_rows(self) -> list[dict[str, Any]]:
        """A row for each mechanism."""
        return [{"mechanism": name, "why": why} for name, why in self.rows]

    def remarks(self) -> list[str]:
        """A line for each mechanism."""
        return [f"{name}: {why}" for name, why in self.rows]


@dataclass(frozen=True, repr=False)
class Plan(Shown):
    """All mechanisms for one query: least noise first, then those that do not apply.

    ``unsure`` is the loss against an adversary who is unsure which member of the beliefs is in
    force (which slot of the period, which of the people), all being equally likely; ``None`` if
    there are no members to choose from.

    Examples
    --------
    >>> import pufferkit as pk
    >>> week = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]], states=["rest", "active"])
    >>> sides = pk.plan(week, pk.histogram(week.states, 1000), epsilon=1)
    >>> sides.best.mechanism
    'influence_curve'
    >>> sides.to_frame()["mechanism"].to_list()[:2]
    ['influence_curve', 'markov_quilt']
    >>> sides.useful.drowned
    False
    >>> dict(sides.explain().rows)["influence_curve"]
    'chain 1 of 1; entry X_500 of 1000'
    """

    query: Query
    epsilon: float
    beliefs: str
    entries: tuple[PlanRow, ...]
    unsure: float | None = None

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The table as plain data, sorted as printed."""
        return [row.to_dict() for row in self.entries]

    def table_rows(self) -> list[dict[str, Any]]:
        """The rows, for a frame or a notebook."""
        return self.rows

    @property
    def best(self) -> Calibration:
        """The Pufferfish mechanism with the least noise, of those with one scale for all bins."""
        return next(
            row.calibration
            for row in self.entries
            if row.pufferfish and row.calibration and row.mechanism not in OPTIONS
        )

    @property
    def useful(self) -> Usefulness:
        """How large the least noise is compared with the answer."""
        known = (row.calibration.beliefs for row in self.entries if row.calibration is not None)
        return Usefulness.of(self.best, beliefs=next(filter(None, known), None))

    def __getitem__(self, mechanism: str) -> Calibration:
        """The calibration of one mechanism; an error with the reason if it does not apply."""
        for row in self.entries:
            if row.mechanism == mechanism:
                if row.calibration is None:
                    raise NotApplicable(f"{mechanism}: {row.why}")
                return row.calibration
        known = ", ".join(row.mechanism for row in self.entries)
        raise ValueError(f"mechanism: {mechanism!r} is unknown; known are {known}")

    @property
    def _to_whom(self) -> str | None:
        if self.unsure is None:
            return None
        most = "has no bound" if self.unsure == inf else f"is at most {self.unsure:.3g}"
        return (
            f"epsilon {self.epsilon:g} holds against adversaries who know which member of the "
            f"beliefs is in force; for one who is unsure, all being equally likely, the loss {most}"
        )

    @property
    def _on_trust(self) -> str | None:
        theta = self.best.beliefs
        if theta is None or theta.entries is not None:
            return None
        unknown = step_assumed(theta.step, self.query.step)
        return None if unknown is None else f"taken on trust, as noise depends on it: {unknown}"

    @property
    def _bound_used(self) -> str | None:
        """Which theorem decided the least noise, and how near to the least possible it is."""
        best = next(row for row in self.entries if row.calibration is self.best)
        bound = self.best.evidence.bound
        if bound is None:
            return None
        near = "how near it is to the least noise is unknown"
        if bound == "window":
            near = "no less noise would do, to a thousandth, for the window that it names"
        elif best.tightness is not None:
            known = int(100 * min(best.tightness, 1.0))
            near = f"an output that loses {known}% of epsilon is known"
        return f"the bound is {BOUND_WORDS[bound]}; {near}"

    def text_table(self) -> str:
        """The mechanisms that apply, least error first."""
        rows = [tuple(row.values()) for row in self.shown_rows()]
        widths = [max(len(row[column]) for row in (HEADINGS, *rows)) for column in range(4)]

        def line(name: str, error: str, hides: str, room: str) -> str:
            left = f"{name:<{widths[0]}}  {error:>{widths[1]}}  {hides:<{widths[2]}}"
            return f"{left}  {room:>{widths[3]}}"

        # What does not hide entries stands below a line of its own.
        rule = "-" * (sum(widths) + 6)
        safe = sum(row.pufferfish for row in self.entries)
        lines = ["", line(*HEADINGS), rule, *(line(*row) for row in rows[:safe])]
        lines += [rule, *(line(*row) for row in rows[safe:])] if rows[safe:] else []
        return "\n".join([*lines, ""])

    def shown_rows(self) -> list[dict[str, Any]]:
        """The mechanisms that apply: a text for each of `HEADINGS`, least error first."""
        return [
            dict(zip(HEADINGS, _cells(row, row.calibration), strict=True))
            for row in self.entries
            if row.calibration is not None
        ]

    def caption(self) -> str:
        """The question, the number of entries and epsilon; the beliefs."""
        lengths = self.query.lengths
        size = f"{sum(lengths):,} entries" + (
            f" in {len(lengths)} segments" if len(lengths) > 1 else ""
        )
        size += f", {self.query.missing:,} not observed" if self.query.missing else ""
        return f"{self.query.name} over {size}, epsilon {self.epsilon:g}\nbeliefs: {self.beliefs}"

    def explain(self) -> Reasons:
        """What decides the noise of each mechanism, and why some do not apply."""
        rows = []
        for row in self.entries:
            left_out = "not tried: " if row.slow else "does not apply: "
            rows.append((row.mechanism, row.why if row.applicable else left_out + row.why))
        return Reasons(tuple(rows))

    def warnings(self) -> list[str]:
        """Noise that drowns the answer, an epsilon that promises little, beliefs from the data."""
        theta, asked = self.best.beliefs, questioned(self.epsilon)
        private = () if theta is None or not theta.is_private else (PRIVATE_NOTE,)
        return [*self.useful.warnings(), *([] if asked is None else [asked]), *private]

    def remarks(self) -> list[str]:
        """How useful the best answer is, what epsilon means, and what is not in the table."""
        words = [*self.useful.remarks(), *in_odds(self.epsilon), self._to_whom]
        words.append(self._on_trust)
        if self.best.beliefs is not None:
            words.append(words_of_tests(self.best.beliefs.sources))
        for row in self.entries:
            if row.alone and row.mechanism == self.best.mechanism:
                words.append(f"{row.mechanism} is {_one_release(row.together)}")
        words.append(f"the noise would be drawn by {SAMPLER_NAMES[self.best.sampler]}")
        words.append(self._bound_used)
        words.append(f"{self.best.mechanism} is decided by: {self.best.evidence}")
        for heading, slow in (("not tried", True), ("do not apply", False)):
            names = [r.mechanism for r in self.entries if not r.applicable and r.slow is slow]
            words.append(f"{heading}: {', '.join(names)}" if names else None)
        words.append(
            "explain() or --explain says what decides each row, and why others do not apply"
        )
        return [word for word in words if word is not None]


def _cells(row: PlanRow, calibration: Calibration) -> tuple[str, ...]:
    error = at_most(calibration.half_width())
    if calibration.scales is not None:
        least = half_width(min(calibration.scales), 0.95, unit=calibration.unit)
        error = f"{at_most(least)} to {error}"
    hides = "yes" if row.pufferfish else "NO"
    return row.mechanism, error, hides, room(row.tightness)


def room(tightness: float | None) -> str:
    """The share of epsilon that no attack has used up: less noise may be possible there."""
    return "unknown" if tightness is None else f"{100 - int(100 * min(tightness, 1.0))}%"


def calibrate(
    mechanism: str,
    beliefs: Any,
    query: Query,
    epsilon: float,
    progress: NamedProgress | None = None,
    most_work: float | None = None,
) -> Calibration:
    """The noise of one mechanism, by its name; given up after so many nanoseconds, if it can."""
    if mechanism not in MECHANISMS:
        raise ValueError(f"mechanism: {mechanism!r} is unknown; known are {', '.join(MECHANISMS)}")
    started, options = perf_counter(), dict[str, Any]()
    if progress is not None and mechanism in _REPORTING:
        options["progress"] = partial(progress, mechanism)
    if most_work is not None and mechanism in _BOUNDED:
        options["most_work"] = most_work
    try:
        return MECHANISMS[mechanism](beliefs, query, epsilon, **options)
    finally:
        _LOG.info("%s: %.2f s", mechanism, perf_counter() - started)


@overload
def plan(
    beliefs: Any,
    query: Query | Question,
    epsilon: float,
    over: Any = None,
    *,
    progress: NamedProgress | None = None,
    secrets: Secrets | Sequence[Secrets] | None = None,
    most_work: float = LONG_WORK,
) -> Plan: ...


@overload
def plan(
    beliefs: Any, query: Questions, epsilon: float | None = None, over: Any = None
) -> JointPlan: ...


@one_thread()
def plan(
    beliefs: Any,
    query: Query | Question | Questions,
    epsilon: float | None = None,
    over: Any = None,
    *,
    progress: NamedProgress | None = None,
    secrets: Secrets | Sequence[Secrets] | None = None,
    most_work: float = LONG_WORK,
) -> Plan | JointPlan:
    """The noise of every mechanism, without touching data or budget.

    ``progress`` is called during long ones with the mechanism, entries done, entries in all.
    Mechanisms that take more than about ``most_work`` nanoseconds are left out, with the reason. A
    scale for each bin is left out for many bins or chains. ``secrets`` are other secrets than
    single entries, as with `ChainClass.with_secrets`.

    Several queries, each with the error it may have, ``{name: (query, error)}``, are one release:
    `JointPlan` meets all errors at the least total epsilon. If epsilon is given, the errors are
    proportions.

    Examples
    --------
    >>> from pufferkit import MarkovChain, count, plan
    >>> table = plan(MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]]), count(1, 1000), 1)
    >>> table.best.mechanism
    'influence_curve'
    >>> several = {"ones": (count(1, 1000), 40), "zeros": (count(0, 1000), 60)}
    >>> plan(MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]]), several).errors
    (40.0, 60.0)
    """
    if isinstance(query, Mapping):
        return joint_plan(beliefs, query, epsilon, over)
    theta, query, epsilon = checked(beliefs, query, checks.privacy(epsilon), over, secrets)
    entries = []
    for name in MECHANISMS:
        if (why := _takes_long(name, theta, query, most_work)) is not None:
            entries.append(PlanRow(name, None, f"{why}; {_BY_NAME}", slow=True))
            continue
        try:
            one_scale = _found("influence_curve", entries) if name in OPTIONS else None
            calibration = (
                calibrate(name, theta, query, epsilon, progress, most_work)
                if one_scale is None
                else scale_per_bin(one_scale)
            )
        except TakesLong as reason:
            entries.append(PlanRow(name, None, f"{reason}; {_BY_NAME}", slow=True))
        except NotApplicable as reason:
            entries.append(PlanRow(name, None, str(reason)))
        else:
            if not name.startswith(calibration.mechanism):
                why = f"{calibration.mechanism} needs less: {calibration.evidence.notes[-1]}"
                entries.append(PlanRow(name, None, why))
                continue
            together = _together(calibration)
            tight = _tightness(theta, calibration)
            entries.append(PlanRow(name, calibration, _why(calibration, together), together, tight))

    least = min(
        row.calibration.mean_scale
        for row in entries
        if row.calibration is not None and row.pufferfish and row.mechanism not in OPTIONS
    )

    def order(row: PlanRow) -> tuple[bool, bool, float]:
        calibration = row.calibration
        size = 0.0 if calibration is None else calibration.mean_scale
        # An option comes below the mechanism that it is an option of.
        size = max(size, least) if row.mechanism in OPTIONS else size
        return calibration is None, not row.pufferfish, size

    ordered = tuple(sorted(entries, key=order))
    unsure = loss_if_unsure(theta, epsilon)
    return Plan(query, epsilon, theta.description, ordered, unsure)


def _found(mechanism: str, rows: Sequence[PlanRow]) -> Calibration | None:
    return next((row.calibration for row in rows if row.mechanism == mechanism), None)


def _together(calibration: Calibration) -> float | None:
    """The epsilon of two such releases: the loss on the influence curve at twice the cost."""
    theta = calibration.beliefs
    if calibration.composes or theta is None or calibration.query.rows is None:
        return None
    if calibration.spent_rows is not None:
        length, rows = calibration.query.longest, np.array(calibration.spent_rows)
        two = NoisyRun(length, 2 * calibration.entry_epsilon * rows)
        return InfluenceCurve(theta, length).epsilon([two])
    return loss_at(theta, calibration.query, 2 * calibration.entry_epsilon)


def _takes_long(name: str, theta: Beliefs, query: Query, most_work: float) -> str | None:
    """Why a plan leaves a mechanism out, before anything is computed; ``None`` if it does not."""
    if name == "influence_curve" and (work := curve_work(theta)) > _MORE_FOR_THE_CURVE * most_work:
        return f"it would take about {work / 1e9:.0f} s"
    if name == "shaped" and (work := shaping_work(theta, query)) > most_work:
        return f"it would take about {work / 1e9:.0f} s"
    many = max(1, len(theta.named_members)) * query.size
    if name in OPTIONS and (query.size > MOST_BINS or many > max(MOST_BINS, _MOST_BY_BIN)):
        return f"for {query.size} bins and these beliefs it takes too long"
    return None


def _tightness(theta: Beliefs, calibration: Calibration) -> float | None:
    """The loss at outer outputs, over epsilon, rounded down; for known chains and sums."""
    if calibration.guarantee is Guarantee.ENTRY or theta.entries is not None:
        return None
    if calibration.spent_rows is not None:  # noise on mixtures, which no scale describes
        return None
    known = [member for member in theta.named_members if not member.any_start]
    # Every chain proves a loss; for a large class take the one that binds, and a few others.
    known.sort(key=lambda member: member.name != calibration.evidence.belief)
    chains = [member.chain for member in known[:_MOST_ATTACKED]]
    contributions = added_by_state(theta, calibration.query)
    if contributions is None or calibration.query.missing or not chains:
        return None
    length = calibration.query.longest
    if calibration.scales is not None:
        contributions = contributions * (calibration.scale / np.array(calibration.scales))
    lost = max(
        outer_loss(chain.initial, chain.transition, contributions, calibration.scale, length)
        for chain in chains
    )
    return lost / calibration.epsilon


def _why(calibration: Calibration, together: float | None) -> str:
    if calibration.guarantee is Guarantee.ENTRY:
        return str(calibration.guarantee)
    if calibration.scales is not None:
        each = zip(calibration.query.labels, calibration.scales, strict=True)
        scales = ", ".join(f"{printable(label)} {scale:.4g}" for label, scale in each)
        return f"a scale for each bin: {scales}; {calibration.evidence}"
    if calibration.composes:
        return str(calibration.evidence)
    return f"{_one_release(together)}; {calibration.evidence}"


def _one_release(together: float | None) -> str:
    charge = "no theorem" if together is None else f"epsilon {together:.3g}"
    return f"for this release only (two such: {charge})"
