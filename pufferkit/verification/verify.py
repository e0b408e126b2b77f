"""An auditor's check of a release: whether its scale is enough for the epsilon it claims.

It starts from what the file records (beliefs, query, lengths, epsilon, scale) and evaluates the
recorded proof by the theorem of the mechanism, with the code of this package and none of the
mechanism's; notes are not read. How far one entry moves the answer follows from the kind of query
(`pufferkit.verification.query_checks`). docs/verifying.md walks through it.

A verdict lists its assumptions. The cost of the sampler's grid, which the reported scale pays, is
below the tolerance and neglected.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, partial
from itertools import combinations
from math import inf, isfinite
from pathlib import Path
from typing import Any

from pufferkit.beliefs.base import Beliefs, loss_if_unsure, same_step
from pufferkit.beliefs.provenance import owed
from pufferkit.data.durations import of_seconds
from pufferkit.data.joint import Several
from pufferkit.errors import NotApplicable
from pufferkit.mechanisms.calibration import requested
from pufferkit.mechanisms.release import Guarantee, Release
from pufferkit.records import digest, read_whole
from pufferkit.shown import Shown
from pufferkit.threads import one_thread
from pufferkit.verification.allowance import TOLERANCE, Allowance, BadBeliefs, NotChecked
from pufferkit.verification.fleets import compare_table, read_fleet
from pufferkit.verification.query_checks import (
    asked_of,
    assumptions,
    moved_by_one_entry,
    not_from_raw,
    not_such_a_query,
    not_such_noise,
    rows_of,
)
from pufferkit.verification.recorded_release import (
    beliefs_of,
    cost_of_pairs,
    hint_of,
    longest_promised,
    on_chains,
)
from pufferkit.verification.required_scale import needed_scale

MOST_WORK = 10**11
"""Most work before a check gives up, in units of about a nanosecond: some minutes."""

THEOREMS: dict[str, tuple[Guarantee, tuple[str, ...], tuple[str | None, ...]]] = {
    "group_dp": (Guarantee.GROUP, ("group",), (None,)),
    "entry_dp": (Guarantee.ENTRY, ("entry",), (None,)),
    "gk16": (Guarantee.PUFFERFISH, ("neighbours",), (None,)),
    "markov_quilt": (Guarantee.PUFFERFISH, ("quilts",), ("definition", "formula")),
    "markov_quilt_approx": (Guarantee.PUFFERFISH, ("quilts",), ("paper", "tight")),
    "influence_curve": (
        Guarantee.PUFFERFISH,
        ("curve",),
        (None,),
    ),
    "wasserstein": (Guarantee.PUFFERFISH, ("distance",), (None,)),
    "exact_sum": (Guarantee.PUFFERFISH, ("window",), (None,)),
}
"""For each mechanism: its guarantee, the bounds that decide its scale, and their readings."""


@dataclass(frozen=True, repr=False)
class Verdict(Shown):
    """The result of a recomputation.

    Attributes
    ----------
    ok
        Whether the reported scale was shown to be enough, and nothing else is wrong.
    checked
        Whether the recomputation was completed. If not, ``problems`` or the last of ``checks``
        has the reason.
    reported_scale
        The scale in the file.
    needed_scale
        If it is enough, a scale that was shown to be so, at most the reported one up to
        `TOLERANCE`; if not, a lower bound on the scale that the theorem needs. ``None`` if nothing
        was recomputed.
    checks, problems
        What was recomputed and what is wrong, one sentence each.
    assumptions
        What no recomputation can check: the author of the release is responsible for it.
    rows
        Number of releases in the record. The scales are those of the row with the smallest margin.
    loss_if_unsure
        The most that an adversary loses who is unsure which member of the class is in force,
        computed from the beliefs; ``None`` if there are no members to choose from.

    Examples
    --------
    >>> import pufferkit as pk
    >>> week = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    >>> data = pk.Series.of(week.sample(100, seed=1).tolist(), week.states)
    >>> verdict = pk.verify(pk.influence_curve(week, pk.count(1, data), epsilon=1).release(data))
    >>> verdict.ok
    True
    """

    ok: bool
    checked: bool
    reported_scale: float
    needed_scale: float | None
    checks: tuple[str, ...]
    problems: tuple[str, ...]
    assumptions: tuple[str, ...] = ()
    rows: int = 1
    loss_if_unsure: float | None = None

    def warnings(self) -> list[str]:
        """The verdict if it is not ok, and what is wrong."""
        problems = [f"problem: {problem}" for problem in self.problems]
        return problems if self.ok else [self._verdict, *problems]

    def caption(self) -> str:
        """The verdict, if it is ok."""
        return self._verdict if self.ok else ""

    @property
    def _verdict(self) -> str:
        word = "ok" if self.ok else "NOT CHECKED" if not self.problems else "NOT ok"
        needed = "not recomputed" if self.needed_scale is None else f"{self.needed_scale:.9g}"
        which = "" if self.rows == 1 else f"{self.rows:,} releases, the tightest with "
        return f"{word}: {which}reported scale {self.reported_scale:.9g}, needed {needed}"

    def remarks(self) -> list[str]:
        """What was checked, who is not covered, and what is assumed."""
        unsure = (
            "an adversary who is unsure which member of the class is in force may lose up to "
            f"{self.loss_if_unsure or 0:.6g}"
        )
        words = [*self.checks, *([] if self.loss_if_unsure is None else [unsure])]
        return [*words, *(f"assumed: {matter}" for matter in self.assumptions)]


def verify(release: Any, *, most_work: float = MOST_WORK) -> Verdict:
    """Recompute from the recorded beliefs that the reported scale is enough.

    Parameters
    ----------
    release
        A `Release`, or the `Releases` of many subjects; or the dictionary that a file of either
        contains, or the path of such a file. For a CSV file that ``pufferkit release`` wrote,
        the record beside it is checked, and that the table agrees with it.
    most_work
        Give up beyond this, in units of about a nanosecond; the verdict is then not ``checked``.

    Raises
    ------
    ValueError
        If this is not a release, or its format is that of a later pufferkit.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from pufferkit import MarkovChain, count, markov_quilt, verify
    >>> chain = MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    >>> honest = markov_quilt(chain, count(1, 1000), 1).release([0, 1] * 500)
    >>> verify(honest).ok, verify(replace(honest, scale=0.99 * honest.scale)).ok
    (True, False)
    """
    if isinstance(release, (str, Path)):
        return verify_file(release, most_work=most_work)
    if not isinstance(release, (Release, Mapping)) and hasattr(release, "to_dict"):
        release = release.to_dict()
    if isinstance(release, Mapping) and "rows" in release:
        return _verify_rows(release, (), most_work)
    verdict = _verify_one(_well_formed(release), most_work)
    if not isinstance(release, Mapping):
        return verdict
    beside = {
        "derived": "that what is called derived follows from the release",
        "read_from": "that the data were read as recorded",
    }
    matters = (matter for name, matter in beside.items() if name in release)
    return replace(verdict, assumptions=(*verdict.assumptions, *matters))


def verify_file(path: str | Path, *, most_work: float = MOST_WORK) -> Verdict:
    """`verify` for a file; ``ValueError`` if it contains no release."""
    path = Path(path)
    table = path.suffix.lower() in (".csv", ".parquet")
    record = path.with_suffix(".json") if table else path
    try:
        data = json.loads(read_whole(record))
    except FileNotFoundError:
        path.stat()  # raises if the file is missing, with the name that was given
        raise ValueError(
            f"{path}: is a table, which holds no beliefs; its record {record.name} is not beside it"
        ) from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{record}: is not JSON ({error})") from None
    if isinstance(data, Mapping) and "estimates" in data and "mechanism" in data:
        raise ValueError(
            f"{path}: is the record of sanitised answers, not a release; attack its mechanism with "
            "pufferkit audit --mechanism randomized_response"
        )
    if not table:
        return verify(data, most_work=most_work)
    if not isinstance(data, Mapping) or "rows" not in data:
        raise ValueError(f"{record}: is not the record of a table of releases")
    if path.suffix.lower() != ".csv":
        raise ValueError(f"{path}: only CSV tables are compared; verify the record {record.name}")
    return _verify_rows(data, tuple(compare_table(path, read_fleet(data))), most_work)


def _verify_rows(data: Mapping[str, Any], problems: tuple[str, ...], most_work: float) -> Verdict:
    """The verdict on a table; ``ValueError`` if its record cannot be read as one."""
    try:
        return _rows_recomputed(data, problems, most_work)
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError) as error:
        raise ValueError(f"releases: the record is not well formed; {error}") from None


def _rows_recomputed(
    data: Mapping[str, Any], problems: tuple[str, ...], most_work: float
) -> Verdict:
    """Verify, for each length, the row with the least noise, which covers the others."""
    fleet = read_fleet(data)
    checked, all_problems = True, [*problems, *fleet.problems()]
    checks: list[str] = []
    scales: list[tuple[float, Verdict]] = []
    matters: dict[str, None] = {}
    for name, row in fleet.hardest():
        verdict = _verify_one(_well_formed(row), most_work)
        checks += [f"segments up to {row.lengths[0]}: {check}" for check in verdict.checks]
        all_problems += [f"{name}: {problem}" for problem in verdict.problems]
        matters |= dict.fromkeys(verdict.assumptions)
        checked = checked and verdict.checked
        needed = inf if verdict.needed_scale is None else verdict.needed_scale
        scales.append((verdict.reported_scale / needed, verdict))
    tightest = min(scales, key=lambda pair: pair[0])[1]
    return Verdict(
        checked and not all_problems,
        checked,
        tightest.reported_scale,
        tightest.needed_scale,
        tuple(checks),
        tuple(all_problems),
        tuple(matters),
        fleet.size,
        tightest.loss_if_unsure,
    )


def _verify_one(record: Release, most_work: float) -> Verdict:
    """A verdict, whatever a record says: numbers that no recomputation can use are a problem."""
    try:
        return _recomputed(record, most_work)
    except _UNUSABLE as error:
        problem = f"record: cannot be recomputed ({type(error).__name__}: {error!s:.200})"
        return Verdict(False, False, record.scale, None, (), (problem,))


_UNUSABLE = (
    *(ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError),
    ValueError,
)
"""What wrong types, missing fields and extreme numbers raise where they are first used."""


@one_thread()
def _recomputed(record: Release, most_work: float) -> Verdict:
    checks: list[str] = []
    problems = list(_unusable(record))
    if problems:
        return Verdict(False, False, record.scale, None, (), tuple(problems))
    beliefs = cache(partial(beliefs_of, record))
    theta = _readable(beliefs)
    problems += _inconsistent(record, theta)
    problems += _evidence_against(record)
    needed, lipschitz = None, _lipschitz(record, checks)
    try:
        needed = needed_scale(record, beliefs, lipschitz, checks, Allowance(most_work))
    except NotChecked as reason:
        checks.append(f"not checked: {reason}")
    except (BadBeliefs, NotApplicable) as error:
        problems.append(f"beliefs: {error}")
    except (TypeError, AttributeError, LookupError) as error:
        problems.append(f"verification_data: is not well formed ({error})")
    if needed is not None and needed > record.scale * (1 + TOLERANCE):
        problems.append(
            f"scale: {record.scale:.9g} could not be shown to suffice for epsilon "
            f"{record.epsilon:g}; by the theorem of {record.mechanism}, at least {needed:.9g}"
        )
    checked = needed is not None
    return Verdict(
        checked and not problems,
        checked,
        record.scale,
        needed,
        tuple(checks),
        tuple(problems),
        tuple(assumptions(record, theta)),
        loss_if_unsure=loss_if_unsure(theta, record.epsilon),
    )


def _well_formed(release: Release | Mapping[str, Any]) -> Release:
    """The record, with numbers where numbers belong."""
    try:
        if not isinstance(release, (Release, Mapping)):
            raise TypeError(f"got {type(release).__name__}, not an object with its fields")
        record = release if isinstance(release, Release) else Release.from_dict(release)
        numbers = [record.scale, record.epsilon, record.lipschitz, *record.value, *record.raw]
        if record.evidence.influence is not None:
            numbers.append(record.evidence.influence)
        if any(isinstance(n, bool) or not isinstance(n, (int, float)) for n in numbers):
            raise TypeError("scale, epsilon, lipschitz, value, raw and influence must be numbers")
        whole = (*record.lengths, *(record.observed or ()))
        if any(isinstance(n, bool) or not isinstance(n, int) for n in whole):
            raise TypeError("lengths and observed must be whole numbers")
        texts = [record.mechanism, record.query, *record.labels]
        if not all(isinstance(text, str) for text in texts):
            raise TypeError("names and labels must be text")
        if not (record.verification_data is None or isinstance(record.verification_data, Mapping)):
            raise TypeError("verification_data must be an object with fields of its own")
        for number in numbers:
            float(number)
        hint_of(record)
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError) as error:
        raise ValueError(f"release: is not well formed; {error}") from None
    return record


def _unusable(record: Release) -> Iterator[str]:
    """Problems that make a recomputation impossible."""
    for name in ("scale", "epsilon", "lipschitz"):
        value = getattr(record, name)
        if not (isfinite(value) and value > 0):
            yield f"{name}: must be a finite number above 0, is {value}"
    if not record.lengths or min(record.lengths) < 1:
        yield f"lengths: there must be some, each at least 1, not {list(record.lengths)}"
    elif record.observed is not None and not _possible(record.observed, record.lengths):
        yield f"observed: {list(record.observed)} of {list(record.lengths)} entries cannot be"
    scales = record.scales
    if scales is not None and not (
        len(scales) == len(record.labels) and all(isfinite(s) and s > 0 for s in scales)
    ):
        yield f"scales: must be {len(record.labels)} finite numbers above 0, are {list(scales)}"
    if record.mechanism not in THEOREMS:
        yield f"mechanism: {record.mechanism!r} is unknown; known are {', '.join(THEOREMS)}"


def _possible(observed: tuple[int, ...], lengths: tuple[int, ...]) -> bool:
    fits = len(observed) == len(lengths) and sum(observed) > 0
    return fits and all(0 <= seen <= n for seen, n in zip(observed, lengths, strict=True))


def _inconsistent(record: Release, theta: Beliefs | None) -> Iterator[str]:
    """Contradictions between fields."""
    longest, binding = longest_promised(record), record.evidence.length
    yield from _another_length(record, theta)
    if longest < max(record.lengths):
        yield f"horizon: is {longest}, but there are segments of {max(record.lengths)} entries"
    if record.evidence.horizon is not None:
        if record.mechanism != "influence_curve":
            yield f"horizon: {record.mechanism} is not for a series that goes on"
        if record.evidence.counted == "observed" or (record.verification_data or {}).get("pattern"):
            yield "horizon: the other windows of an account may have no gaps"
    # Where gaps are counted, a shorter segment may be the hardest.
    may_bind = record.lengths if record.evidence.counted == "observed" else (longest,)
    if on_chains(record) and binding not in (None, *may_bind):
        yield f"lengths: the longest is {longest}, in the evidence {binding}"
    if not len(record.value) == len(record.raw) == len(record.labels) > 0:
        yield (
            f"value: has {len(record.value)} numbers, raw {len(record.raw)}, "
            f"for {len(record.labels)} labels"
        )
    if not all(isfinite(number) for number in (*record.value, *record.raw)):
        yield "value: holds numbers that are not finite"
    may, bounds, variants = THEOREMS[record.mechanism]
    may = _may_promise(record, may, theta)
    if record.guarantee is not may:
        yield f"guarantee: promises {record.guarantee!s}, but {record.mechanism} gives {may!s}"
    if record.evidence.bound not in bounds:
        yield f"bound: {record.evidence.bound} does not decide the scale of {record.mechanism}"
    if record.evidence.variant not in variants:
        yield f"variant: {record.mechanism} has no reading {record.evidence.variant}"
    if record.evidence.beside and record.mechanism != "influence_curve":
        yield f"beside: {record.mechanism} does not share its promise with other releases"
    debt = None if theta is None else owed(theta.sources)
    if debt is not None and (record.evidence.bought or 0.0) < debt.entry_epsilon:
        yield f"bought: the beliefs were {debt.words}, and neither release nor account holds that"
    yield from _another_loss(record, theta)
    yield from not_from_raw(record)
    yield from not_such_noise(record)
    yield from _another_step(record, theta)
    yield from _another_digest(record, theta)
    yield from _not_such_scales(record, theta)
    yield from not_such_a_query(record, None if theta is None else theta.states)


def _another_length(record: Release, theta: Beliefs | None) -> Iterator[str]:
    """A problem if the beliefs name their entries, and the question is about more or fewer."""
    named = None if theta is None else theta.entries
    if named is not None and tuple(record.lengths) != (len(named),):
        yield f"lengths: the beliefs are about {len(named)} entries, not {list(record.lengths)}"


def _another_loss(record: Release, theta: Beliefs | None) -> Iterator[str]:
    """A problem if an adversary who is unsure of the member may lose more or less than recorded."""
    told, made = record.loss_if_unsure, loss_if_unsure(theta, record.epsilon)
    if told is None or made is None:
        same = told is made
    else:
        same = told == made or abs(told - made) <= TOLERANCE * made
    if not same:
        yield f"loss_if_unsure: is {made} under these beliefs, not {told}"


_WITH_OPTIONS = ("markov_quilt", "markov_quilt_approx")
"""Mechanisms with options that a record does not hold."""


def _another_digest(record: Release, theta: Beliefs | None) -> Iterator[str]:
    """A problem if the digest is not that of the recorded beliefs, question and epsilon.

    Of a function of the user's own, of several questions, of gaps, of quilts, of noise beside other
    spending or for each coordinate, a record does not hold all that was asked.
    """
    query, horizon = asked_of(record), record.evidence.horizon
    whole = record.observed is None and record.scales is None and not record.evidence.beside
    if record.calibration is None or query is None or not whole:
        return
    if record.mechanism in _WITH_OPTIONS:
        return
    if (record.verification_data or {}).get("secrets"):
        return
    if record.beliefs is not None and theta is None:
        return
    options: dict[str, Any] = {} if horizon is None else {"horizon": horizon}
    asked = requested(record.mechanism, theta, query, record.epsilon, options)
    if record.calibration != digest(asked):
        yield "calibration: is not the digest of these beliefs, this question and this epsilon"


def _another_step(record: Release, theta: Beliefs | None) -> Iterator[str]:
    """A problem if the beliefs are about entries further apart, or closer, than the data."""
    if theta is not None and not same_step(theta.step, record.step):
        yield (
            f"step: the data have an entry every {of_seconds(record.step)}, the beliefs are about "
            f"entries {of_seconds(theta.step)} apart"
        )


def _not_such_scales(record: Release, theta: Beliefs | None) -> Iterator[str]:
    """Contradictions between the scales of the coordinates and the common scale."""
    if record.scales is None:
        return
    if record.kind == Several.kind:
        yield from _spends_more(record, theta)
        return
    query, rows = asked_of(record), rows_of(record, None if theta is None else theta.states)
    if query is not None and query.weights is None:
        rows = None
    if record.mechanism != "influence_curve" or rows is None:
        yield f"scales: {record.mechanism} has none for each coordinate of a {record.kind}"
    else:
        spent = max(
            sum(abs(a - b) / Fraction(s) for a, b, s in zip(x, y, record.scales, strict=True))
            for x, y in combinations(rows, 2)
        )
        if Fraction(record.lipschitz) / Fraction(record.scale) < spent * (1 - Fraction(TOLERANCE)):
            yield "scales: spend more on an entry than one of the scale recorded for all would"


def _spends_more(record: Release, theta: Beliefs | None) -> Iterator[str]:
    """Whether the scales of several queries spend more than the common scale."""
    if record.mechanism != "influence_curve" or record.beliefs is None:
        yield f"scales: {record.mechanism} has none for each of several questions"
        return
    if theta is None:
        return
    spent = float(cost_of_pairs(record, theta, record.lipschitz).max())
    if record.lipschitz / record.scale < spent * (1 - TOLERANCE):
        yield "scales: spend more on an entry than one of the scale recorded for all would"


def _may_promise(record: Release, usual: Guarantee, theta: Beliefs | None) -> Guarantee:
    """The guarantee of the mechanism, with the secrets of this record."""
    if (record.verification_data or {}).get("secrets"):
        return Guarantee.SECRETS
    return usual.for_named_secrets if theta is not None and theta.names_secrets else usual


def _readable(beliefs: Callable[[], Beliefs]) -> Beliefs | None:
    """The beliefs; ``None`` if missing or malformed, which the recomputation reports."""
    try:
        return beliefs()
    except BadBeliefs:
        return None


def _evidence_against(record: Release) -> Iterator[str]:
    """A problem if the recorded quilt, with its recorded influence, needs a larger scale."""
    hint, influence = hint_of(record), record.evidence.influence
    if hint is None or influence is None or not on_chains(record):
        return
    if record.evidence.counted == "observed":  # its distances include unobserved entries
        return
    room = record.epsilon - influence
    asked = record.lipschitz * (sum(hint) - 1) / room if room > 0 else inf
    if not asked <= record.scale * (1 + TOLERANCE):
        yield f"evidence: its own quilt asks for a scale of {asked:.9g}"


def _lipschitz(record: Release, checks: list[str]) -> float:
    """The Lipschitz constant that the scale is checked for."""
    moved = moved_by_one_entry(record)
    if moved is None:
        checks.append(
            f"lipschitz: {record.lipschitz:.9g} taken as recorded; a file does not hold what "
            f"{record.query!r} does with an entry"
        )
        return record.lipschitz
    checks.append(f"lipschitz: one entry moves the answer by {moved:.9g} ({record.kind})")
    return max(moved, record.lipschitz)
