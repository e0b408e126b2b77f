"""An auditor's check of a release: whether its scale is enough for the epsilon it claims.

It starts from what the file records (beliefs, query, lengths, epsilon, scale) and evaluates the
recorded proof by the theorem of the mechanism, with the code of this package and none of the
mechanism's; notes are not read. How far one entry moves the answer follows from the kind of query
(`pufferkit.verification.claims`). docs/verifying.md walks through it.

A verdict lists its assumptions. The cost of the sampler's grid, which the reported scale pays, is
below the tolerance and neglected.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any

from pufferkit.beliefs.base import beliefs_from_dict
from pufferkit.checks import json_value
from pufferkit.errors import NotApplicable
from pufferkit.mechanisms.release import Guarantee, Release, check_format
from pufferkit.records import read_whole
from pufferkit.shown import Shown
from pufferkit.threads import one_thread
from pufferkit.verification.check_curves import by_curve
from pufferkit.verification.check_graphs import largest_part, models_of
from pufferkit.verification.check_quilts import by_neighbours, by_quilts
from pufferkit.verification.check_shapes import by_directions
from pufferkit.verification.check_sums import by_distance, by_loss
from pufferkit.verification.check_tables import ReleaseTable
from pufferkit.verification.claims import (
    TOLERANCE,
    Allowance,
    BadBeliefs,
    Claim,
    NotChecked,
    Theorem,
    assumptions,
    contradictions,
)

MOST_WORK = 10**11
"""Most work before a check gives up, in units of about a nanosecond: some minutes."""


def by_entry(claim: Claim) -> float:
    """Noise for one entry and nothing that it tells about others."""
    claim.checks.append(
        f"entry_dp: L / epsilon = {claim.lipschitz / claim.record.epsilon:.9g}; this is NOT "
        "Pufferfish privacy, it does not hide entries that others predict"
    )
    return claim.lipschitz / claim.record.epsilon


def by_group(claim: Claim) -> float:
    """Noise for all entries that may depend on one another."""
    record, theta = claim.record, claim.theta
    most, of_what = max(record.observed or record.lengths), "observed entries of a segment"
    if theta is not None:
        if theta.entries is None:
            raise BadBeliefs("are about a series, for which group_dp needs none")
        parts = (largest_part(model) for model in models_of(theta))
        most, of_what = max(parts, default=len(theta.entries)), "largest independent part"
    claim.checks.append(f"group_dp: L times the {of_what}, {most}, over epsilon")
    return claim.lipschitz * most / record.epsilon


THEOREMS = {
    "group_dp": Theorem(Guarantee.GROUP, "group", (None,), by_group),
    "entry_dp": Theorem(Guarantee.ENTRY, "entry", (None,), by_entry),
    "gk16": Theorem(Guarantee.PUFFERFISH, "neighbours", (None,), by_neighbours),
    "markov_quilt": Theorem(Guarantee.PUFFERFISH, "quilts", ("definition", "formula"), by_quilts),
    "markov_quilt_approx": Theorem(Guarantee.PUFFERFISH, "quilts", ("paper", "tight"), by_quilts),
    "influence_curve": Theorem(Guarantee.PUFFERFISH, "curve", (None,), by_curve),
    "shaped": Theorem(Guarantee.PUFFERFISH, "directions", (None,), by_directions),
    "wasserstein": Theorem(Guarantee.PUFFERFISH, "distance", (None,), by_distance),
    "exact_sum": Theorem(Guarantee.PUFFERFISH, "window", (None,), by_loss),
}
"""For each mechanism what it promises, and what shows that its scale is enough."""


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
        The scale in the file; ``None`` if it cannot be read.
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
    reported_scale: float | None
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
        if self.reported_scale is None:
            return f"{word}: the record is not well formed"
        needed = "not recomputed" if self.needed_scale is None else f"{self.needed_scale:.9g}"
        which = "" if self.rows == 1 else f"{self.rows:,} releases, the tightest with "
        return f"{word}: {which}reported scale {self.reported_scale:.9g}, needed {needed}"

    @property
    def margin(self) -> float:
        """The reported scale over the one that is needed; 0 if nothing was recomputed."""
        return (self.reported_scale or 0.0) / (self.needed_scale or inf)

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

    A record that is malformed, or in the format of a later pufferkit, is not ok: the problem names
    the field.

    Parameters
    ----------
    release
        A `Release`, or the `Releases` of many subjects; or the dictionary that a file of either
        contains, or the path of such a file. For a CSV file that ``pufferkit release`` wrote,
        the record beside it is checked, and that the table agrees with it.
    most_work
        Give up beyond this, in units of about a nanosecond; the verdict is then not ``checked``.

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
        return _of_file(Path(release), most_work)
    try:
        record = release.to_dict() if hasattr(release, "to_dict") else release
    except _UNUSABLE as error:
        return not_well_formed(error)
    if not isinstance(record, Mapping):
        raise ValueError(f"release: got {type(record).__name__}, not a release, a record or a path")
    return _of_record(record, most_work)


def not_well_formed(problem: object) -> Verdict:
    """The verdict on what is no record."""
    remedy = "get the record as it was written, and verify that"
    return Verdict(False, False, None, None, (), (f"{problem}; {remedy}",))


def _of_file(path: Path, most_work: float) -> Verdict:
    if path.suffix.lower() == ".parquet":
        name = path.with_suffix(".json").name
        raise ValueError(f"{path}: only CSV tables are compared; verify the record {name}")
    table = path.suffix.lower() == ".csv"
    record = path.with_suffix(".json") if table else path
    if table and path.exists() and not record.exists():
        raise ValueError(
            f"{path}: is a table, which holds no beliefs; its record {record.name} is not beside it"
        )
    content = read_whole(path if table and not path.exists() else record)
    try:  # strictly: of a name that stands twice another reader may take the other value
        data = json_value(str(record), content)
    except ValueError as error:
        return not_well_formed(error)
    if not isinstance(data, Mapping):
        return not_well_formed(f"{record}: is not an object with the fields of a record")
    if table and "rows" not in data:
        return not_well_formed(f"{record}: is not the record of a table of releases")
    return _of_record(data, most_work, path if table else None)


_UNUSABLE = (
    *(ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError),
    ValueError,
)
"""What wrong types, missing fields and extreme numbers raise where they are first used."""


def _of_record(record: Mapping[str, Any], most_work: float, beside: Path | None = None) -> Verdict:
    """A verdict on any record of this format; one that is not well formed fails by name."""
    if "estimates" in record and "mechanism" in record:
        return not_well_formed(
            "this is the record of sanitised answers, not of a release, and pufferkit audit "
            "--mechanism randomized_response attacks their mechanism"
        )
    try:
        check_format("releases" if "rows" in record else "release", record)
        if "rows" in record:
            return _of_rows(ReleaseTable(record), beside, most_work)
        release = Release.from_dict(record)
        verdict = _of_one(release, most_work)
        useful = tuple(_usefulness(release) if verdict.ok else ())
    except _UNUSABLE as error:
        return not_well_formed(error)
    matters = (matter for name, matter in _BESIDE.items() if name in record)
    return replace(
        verdict,
        checks=verdict.checks + useful,
        assumptions=(*verdict.assumptions, *matters),
    )


def _usefulness(release: Release) -> Iterator[str]:
    """What follows from the noise; a record states nothing of usefulness that could be false."""
    if release.noise != "noisy choice":
        reach = max(high - low for low, high in release.as_drawn().interval()) / 2
        yield (
            f"usefulness: with probability 95% a number as drawn is within {reach:.6g} of the "
            "exact answer"
        )


_BESIDE = {
    "derived": "that what is called derived follows from the release",
    "read_from": "that the data were read as recorded",
}
"""Fields of a record that no check reads."""


def _of_rows(table: ReleaseTable, beside: Path | None, most_work: float) -> Verdict:
    """Verify, for each length, the row with the least noise, which covers the others."""
    wrong = [*(() if beside is None else table.differences(beside)), *table.problems()]
    verdicts = [(name, row.lengths[0], _of_one(row, most_work)) for name, row in table.hardest()]
    wrong += [f"{name}: {problem}" for name, _, own in verdicts for problem in own.problems]
    checked = all(own.checked for _, _, own in verdicts)
    matters = [matter for _, _, own in verdicts for matter in own.assumptions]
    if table.question.per is not None:  # by which the noise of a row was divided
        matters.append(f"that each row is of as many {table.question.per} as recorded")
    return replace(
        min((own for _, _, own in verdicts), key=lambda own: own.margin),
        ok=checked and not wrong,
        checked=checked,
        checks=tuple(
            f"segments up to {n}: {check}" for _, n, own in verdicts for check in own.checks
        ),
        problems=tuple(wrong),
        assumptions=tuple(dict.fromkeys(matters)),
        rows=table.size,
    )


@one_thread()
def _of_one(record: Release, most_work: float) -> Verdict:
    """A verdict, whatever a record says: numbers that no recomputation can use are a problem."""
    problems, needed, claim = list[str](), None, None
    theorem = THEOREMS[record.mechanism]
    checks: list[str] = []
    try:
        claim = _claim(record, checks, most_work)
        problems += contradictions(claim, theorem)
        needed = theorem.needed(claim)
    except NotChecked as reason:
        checks.append(f"not checked: {reason}")
    except (BadBeliefs, NotApplicable) as error:
        problems.append(f"beliefs: {error}")
    except _UNUSABLE as error:
        problem = f"cannot be recomputed ({type(error).__name__}: {error!s:.200})"
        problems.append(f"record: {problem}")
    if needed is not None and not needed <= record.scale * (1 + TOLERANCE):
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
        () if claim is None else tuple(assumptions(claim)),
        loss_if_unsure=None if claim is None else claim.unsure,
    )


def _claim(record: Release, checks: list[str], most_work: float) -> Claim:
    """What is claimed: the beliefs are read, and the question is asked again."""
    try:
        theta = None if record.beliefs is None else beliefs_from_dict(record.beliefs)
    except (ValueError, TypeError, AttributeError) as error:
        raise BadBeliefs(f"cannot be read; {error}") from None
    query = record.asked_again(None if theta is None else theta.states)
    claim = Claim(record, theta, query, Allowance(most_work), checks)
    declared = [part for part in claim.parts if part.asks is None and part.weights is None]
    for part in declared:
        checks.append(
            f"lipschitz: {part.lipschitz:.9g} taken as recorded; a file does not hold what "
            f"{part.name!r} does with an entry"
        )
    if len(declared) < len(claim.parts):
        moved = f"one entry moves the answer by {query.lipschitz:.9g} ({record.kind})"
        checks.append(f"lipschitz: {moved}")
    return claim
