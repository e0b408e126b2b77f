"""An auditor's check of a release: whether its scale is enough for the epsilon it claims.

It starts from what the file records (beliefs, query, lengths, epsilon, scale) and follows the
theorem of the file's own mechanism, with none of the mechanism's code: see `pufferkit.recompute`.
What the evidence records (a quilt, blocks) is tried first but never relied on.

A verdict does not say that the beliefs are true, that the noise was drawn as reported, or that the
Lipschitz constant is right of a query whose name does not tell it. The grid of the sampler, which
the reported scale pays for, is smaller than the tolerance and left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf, isfinite
from pathlib import Path
from typing import Any

from pufferkit.beliefs.chain_class import ChainClass, MixingClass
from pufferkit.mechanisms.release import Release
from pufferkit.recompute import (
    Blocks,
    Task,
    loss_by_curve,
    score_by_quilts,
    spread_by_neighbours,
)
from pufferkit.recompute_tables import (
    KnownChain,
    NotChecked,
    Side,
    Work,
    members_to_check,
    mixing_bounds,
)

TOLERANCE = 1e-7
"""A scale this much too small, relatively, still passes: room for rounding on either side."""

MOST_WORK = 10**11
"""Work before a check is given up, in units of about a nanosecond: some minutes."""

_PUFFERFISH = "Pufferfish for each entry"
GUARANTEES = {
    "group_dp": "Pufferfish for each entry, whatever the correlation within a segment",
    "entry_dp": "entry DP only: does not hide entries that others predict",
    "gk16": _PUFFERFISH,
    "markov_quilt": _PUFFERFISH,
    "markov_quilt_approx": _PUFFERFISH,
    "influence_curve": _PUFFERFISH,
    "wasserstein": _PUFFERFISH,
}
"""What each mechanism may promise."""

_NO_CHAINS = ("bayesian_network", "networks", "finite_joint", "joints")


@dataclass(frozen=True)
class Verdict:
    """What the recomputation found.

    Attributes
    ----------
    ok
        The reported scale was shown to be enough, and nothing else is wrong.
    checked
        Whether the recomputation came to an end. If not, ``problems`` or the last of ``checks``
        says why.
    reported_scale
        As in the file.
    needed_scale
        If it is enough, a scale that was shown to be so, at most the reported one up to
        `TOLERANCE`; if not, a scale below which the theorem asks for more. ``None`` if nothing was
        recomputed.
    checks, problems
        What was recomputed and what is wrong, one plain sentence each.
    """

    ok: bool
    checked: bool
    reported_scale: float
    needed_scale: float | None
    checks: tuple[str, ...]
    problems: tuple[str, ...]

    def __str__(self) -> str:
        word = "ok" if self.ok else "NOT CHECKED" if not self.problems else "NOT ok"
        needed = "not recomputed" if self.needed_scale is None else f"{self.needed_scale:.9g}"
        lines = [f"{word}: reported scale {self.reported_scale:.9g}, needed {needed}"]
        lines += [f"  {check}" for check in self.checks]
        lines += [f"  problem: {problem}" for problem in self.problems]
        return "\n".join(lines)


def verify_file(path: str | Path) -> Verdict:
    """`verify` for a JSON file; ``ValueError`` if it holds no release."""
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: is not JSON ({error})") from None
    return verify(data)


def verify(release: Release | Mapping[str, Any], *, most_work: float = MOST_WORK) -> Verdict:
    """Recompute from the recorded beliefs that the reported scale is enough.

    Parameters
    ----------
    release
        A release, or the dictionary that its file holds.
    most_work
        Give up beyond this, in units of about a nanosecond; the verdict is then not ``checked``.

    Raises
    ------
    ValueError
        If this is not a release at all.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from pufferkit import MarkovChain, count, markov_quilt
    >>> chain = MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    >>> honest = markov_quilt(chain, count(1, 100), 1).release([0, 1] * 50)
    >>> verify(honest).ok, verify(replace(honest, scale=0.99 * honest.scale)).ok
    (True, False)
    """
    record = _well_formed(release)
    checks: list[str] = []
    problems = list(_unusable(record))
    if problems:
        return Verdict(False, False, record.scale, None, (), tuple(problems))
    problems += _inconsistent(record)
    problems += _evidence_against(record)
    needed, lipschitz = None, _lipschitz(record, checks)
    try:
        needed = _needed_scale(record, lipschitz, checks, Work(most_work))
    except NotChecked as reason:
        checks.append(f"not checked: {reason}")
    except _BadBeliefs as error:
        problems.append(f"beliefs: {error}")
    if needed is not None and needed > record.scale * (1 + TOLERANCE):
        problems.append(
            f"scale: {record.scale:.9g} was not shown to be enough for epsilon "
            f"{record.epsilon:g}; by the theorem of {record.mechanism}, at least {needed:.9g}"
        )
    checked = needed is not None
    ok = checked and not problems
    return Verdict(ok, checked, record.scale, needed, tuple(checks), tuple(problems))


class _BadBeliefs(Exception):
    """The recorded beliefs cannot be read, or the mechanism has no theorem for them."""


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
        if any(isinstance(n, bool) or not isinstance(n, int) for n in record.lengths):
            raise TypeError("lengths must be whole numbers")
        texts = [record.mechanism, record.query, record.guarantee, *record.labels]
        if not all(isinstance(text, str) for text in [*texts, *record.evidence.notes]):
            raise TypeError("names, labels and notes must be text")
        for number in numbers:
            float(number)
        _hint(record)
    except (TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"release: is not well formed; {error}") from None
    return record


def _unusable(record: Release) -> Iterator[str]:
    """What leaves nothing to recompute."""
    for name in ("scale", "epsilon", "lipschitz"):
        value = getattr(record, name)
        if not (isfinite(value) and value > 0):
            yield f"{name}: must be a finite number above 0, is {value}"
    if not record.lengths or min(record.lengths) < 1:
        yield f"lengths: there must be some, each at least 1, not {list(record.lengths)}"
    if record.mechanism not in GUARANTEES:
        yield f"mechanism: {record.mechanism!r} is unknown; known are {', '.join(GUARANTEES)}"


def _inconsistent(record: Release) -> Iterator[str]:
    """Fields that contradict one another."""
    longest, entries = max(record.lengths), sum(record.lengths)
    if _on_chains(record) and record.evidence.length not in (None, longest):
        yield f"lengths: the longest is {longest}, in the evidence {record.evidence.length}"
    if not len(record.value) == len(record.raw) == len(record.labels) > 0:
        yield (
            f"value: has {len(record.value)} numbers, raw {len(record.raw)}, "
            f"for {len(record.labels)} labels"
        )
    if not all(isfinite(number) for number in (*record.value, *record.raw)):
        yield "value: holds numbers that are not finite"
    if record.guarantee != GUARANTEES[record.mechanism]:
        yield (
            f"guarantee: promises {record.guarantee!r}, but {record.mechanism} gives "
            f"{GUARANTEES[record.mechanism]!r}"
        )
    moved = _moved_by_one_entry(record)
    if moved is not None and record.lipschitz < moved * (1 - 1e-12):
        yield f"lipschitz: one entry moves {record.query} by {moved:g}, not {record.lipschitz:g}"
    total = {"histogram": entries, "relative frequencies": 1}.get(record.query)
    if total is not None and record.total != total:
        yield f"total: the {record.query} of {entries} entries sum to {total}, not {record.total}"


def _evidence_against(record: Release) -> Iterator[str]:
    """The quilt of the evidence, with the influence recorded there, may ask for a larger scale."""
    hint, influence = _hint(record), record.evidence.influence
    if hint is None or influence is None or not _on_chains(record):
        return
    room = record.epsilon - influence
    asked = record.lipschitz * (sum(hint) - 1) / room if room > 0 else inf
    if not asked <= record.scale * (1 + TOLERANCE):
        yield f"evidence: its own quilt asks for a scale of {asked:.9g}"


def _moved_by_one_entry(record: Release) -> float | None:
    """The Lipschitz constant, where the name of the query tells it."""
    share = 2 / sum(record.lengths)
    return {"count": 1.0, "histogram": 2.0, "relative frequencies": share}.get(record.query)


def _lipschitz(record: Release, checks: list[str]) -> float:
    """The Lipschitz constant to hold the scale against."""
    moved = _moved_by_one_entry(record)
    if moved is None:
        checks.append(
            f"lipschitz: {record.lipschitz:.9g} taken as recorded; a file does not hold what "
            f"{record.query!r} does with an entry"
        )
        return record.lipschitz
    checks.append(f"lipschitz: one entry moves {record.query} by {moved:.9g}")
    return max(moved, record.lipschitz)


def _needed_scale(record: Release, lipschitz: float, checks: list[str], work: Work) -> float:
    """A scale that is enough and at most the reported one, or what is needed at least."""
    longest, epsilon = max(record.lengths), record.epsilon
    if record.mechanism == "entry_dp":
        checks.append(
            f"entry_dp: L / epsilon = {lipschitz / epsilon:.9g}; this is NOT Pufferfish privacy, "
            "it does not hide entries that others predict"
        )
        return lipschitz / epsilon
    if record.mechanism == "group_dp":
        checks.append(f"group_dp: L times the longest segment, {longest}, over epsilon")
        return lipschitz * longest / epsilon
    if not _on_chains(record):
        raise NotChecked("only mechanisms on Markov chains are recomputed so far")
    theta, notes = _beliefs(record), " ".join(record.evidence.notes)
    mixing = isinstance(theta, MixingClass) or record.mechanism == "markov_quilt_approx"
    if isinstance(theta, MixingClass) and record.mechanism in ("gk16", "markov_quilt"):
        raise _BadBeliefs(f"name no matrix, and {record.mechanism} needs one")
    if record.mechanism == "gk16":
        checks.append("gk16: laws of an entry given its neighbours, row sums of (I - Gamma)^-1")
        spreads = [spread_by_neighbours(m, longest) for m in members_to_check(theta)]
        return lipschitz * max(spreads) / epsilon

    tight = record.mechanism == "influence_curve" or "operator norm" in notes
    by_quilts = record.mechanism != "influence_curve" or "quilt bound was the better" in notes
    how = "how fast they mix" if mixing else "their transition matrices"
    checks.append(
        f"{record.mechanism}: {'Markov quilts' if by_quilts else 'the influence curve'} for "
        f"{theta.description}, from {how}, over segments of up to {longest}"
    )

    def largest(scale: float, work: Work) -> float:
        """Over the class: score by quilts, or loss on the curve."""
        task = Task(longest, lipschitz / scale, epsilon, _hint(record), work)
        sides: list[Side] = []
        if mixing:
            sides += _mixing_bounds(theta, work, tight)
        else:
            printed = "as printed" in notes
            sides += [
                KnownChain(m, longest, work, as_printed=printed) for m in members_to_check(theta)
            ]
        return max((score_by_quilts if by_quilts else loss_by_curve)(s, task) for s in sides)

    found = largest(record.scale * (1 + TOLERANCE), work)
    if by_quilts:
        return lipschitz * found
    checks.append(f"influence_curve: the largest loss of an entry is {found:.9g}")
    if found <= epsilon:
        return record.scale
    # How much more is needed, as far as that is quickly said.
    failed, factor, quick = record.scale * (1 + 2 * TOLERANCE), 1.005, Work(2 * work.spent + 1e9)
    try:
        while largest(record.scale * factor, quick) > epsilon:
            failed, factor = record.scale * factor, factor**2
    except NotChecked:
        pass
    return failed


def _on_chains(record: Release) -> bool:
    """Whether this is about Markov chains, or needs no beliefs."""
    kind = record.beliefs.get("kind") if isinstance(record.beliefs, Mapping) else None
    return record.mechanism != "wasserstein" and kind not in _NO_CHAINS


def _beliefs(record: Release) -> ChainClass:
    if record.beliefs is None:
        raise _BadBeliefs(f"{record.mechanism} needs them, and none are recorded")
    try:
        return ChainClass.from_dict(record.beliefs)
    except (ValueError, TypeError, AttributeError) as error:
        raise _BadBeliefs(f"cannot be read; {error}") from None


def _mixing_bounds(theta: ChainClass, work: Work, tight: bool) -> list[Any]:
    try:
        return list(mixing_bounds(theta, work, tight=tight))
    except ValueError as error:
        raise _BadBeliefs(str(error)) from None


def _hint(record: Release) -> Blocks | None:
    """The recorded blocks, or the distances of the recorded endpoints."""
    evidence, whole = record.evidence, max(record.lengths, default=1)
    if evidence.blocks is not None:
        left, right = evidence.blocks
        return max(1, int(left or whole)), max(1, int(right or whole))
    if not isinstance(evidence.node, int) or evidence.quilt is None:
        return None
    below = [int(evidence.node - n) for n in evidence.quilt if n < evidence.node]
    above = [int(n - evidence.node) for n in evidence.quilt if n > evidence.node]
    return (
        min(below, default=max(1, evidence.node)),
        min(above, default=max(1, whole - evidence.node + 1)),
    )
