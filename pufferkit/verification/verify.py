"""An auditor's check of a release: whether its scale is enough for the epsilon it claims.

It starts from what the file records (beliefs, query, lengths, epsilon, scale) and follows the
theorem of the file's own mechanism, with none of the mechanism's code: see this room.
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

from pufferkit.mechanisms.release import Release
from pufferkit.verification.needed import (
    TOLERANCE,
    BadBeliefs,
    hint_of,
    needed_scale,
    on_chains,
    weights_of,
)
from pufferkit.verification.pair_tables import NotChecked, Work

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
OWN_SECRETS = "Pufferfish for the pairs of secrets that were given, and for no others"
"""What it may promise if the file lists secrets of the user's own."""


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
        table = Path(path).suffix.lower() in (".csv", ".parquet")
        why = "a table of releases keeps no beliefs; check its ledger (pufferkit ledger verify)"
        raise ValueError(f"{path}: is not JSON ({why if table else error})") from None
    if isinstance(data, Mapping) and "estimates" in data and "mechanism" in data:
        raise ValueError(
            f"{path}: is the record of sanitised answers, not a release; attack its mechanism with "
            "pufferkit audit --mechanism randomized_response"
        )
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
        needed = needed_scale(record, lipschitz, checks, Work(most_work))
    except NotChecked as reason:
        checks.append(f"not checked: {reason}")
    except BadBeliefs as error:
        problems.append(f"beliefs: {error}")
    except (TypeError, AttributeError, LookupError) as error:
        problems.append(f"workings: are not well formed ({error})")
    if needed is not None and needed > record.scale * (1 + TOLERANCE):
        problems.append(
            f"scale: {record.scale:.9g} was not shown to be enough for epsilon "
            f"{record.epsilon:g}; by the theorem of {record.mechanism}, at least {needed:.9g}"
        )
    checked = needed is not None
    ok = checked and not problems
    return Verdict(ok, checked, record.scale, needed, tuple(checks), tuple(problems))


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
        texts = [record.mechanism, record.query, record.guarantee, *record.labels]
        if not all(isinstance(text, str) for text in [*texts, *record.evidence.notes]):
            raise TypeError("names, labels and notes must be text")
        if not (record.workings is None or isinstance(record.workings, Mapping)):
            raise TypeError("workings must be an object with fields of its own")
        for number in numbers:
            float(number)
        hint_of(record)
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
    elif record.observed is not None and not _possible(record.observed, record.lengths):
        yield f"observed: {list(record.observed)} of {list(record.lengths)} entries cannot be"
    if record.mechanism not in GUARANTEES:
        yield f"mechanism: {record.mechanism!r} is unknown; known are {', '.join(GUARANTEES)}"


def _possible(observed: tuple[int, ...], lengths: tuple[int, ...]) -> bool:
    fits = len(observed) == len(lengths) and sum(observed) > 0
    return fits and all(0 <= seen <= n for seen, n in zip(observed, lengths, strict=True))


def _entries(record: Release) -> int:
    """How many entries were observed."""
    return sum(record.observed or record.lengths)


def _inconsistent(record: Release) -> Iterator[str]:
    """Fields that contradict one another."""
    longest, entries = max(record.lengths), _entries(record)
    if on_chains(record) and record.evidence.length not in (None, longest):
        yield f"lengths: the longest is {longest}, in the evidence {record.evidence.length}"
    if not len(record.value) == len(record.raw) == len(record.labels) > 0:
        yield (
            f"value: has {len(record.value)} numbers, raw {len(record.raw)}, "
            f"for {len(record.labels)} labels"
        )
    if not all(isfinite(number) for number in (*record.value, *record.raw)):
        yield "value: holds numbers that are not finite"
    may = OWN_SECRETS if (record.workings or {}).get("secrets") else GUARANTEES[record.mechanism]
    if record.guarantee != may:
        yield f"guarantee: promises {record.guarantee!r}, but {record.mechanism} gives {may!r}"
    moved = _moved_by_one_entry(record)
    if moved is not None and record.lipschitz < moved * (1 - 1e-12):
        yield f"lipschitz: one entry moves {record.query} by {moved:g}, not {record.lipschitz:g}"
    total = {"histogram": entries, "relative frequencies": 1}.get(record.query)
    if total is not None and record.total != total:
        yield f"total: the {record.query} of {entries} entries sum to {total}, not {record.total}"


def _evidence_against(record: Release) -> Iterator[str]:
    """The quilt of the evidence, with the influence recorded there, may ask for a larger scale."""
    hint, influence = hint_of(record), record.evidence.influence
    if hint is None or influence is None or not on_chains(record):
        return
    room = record.epsilon - influence
    asked = record.lipschitz * (sum(hint) - 1) / room if room > 0 else inf
    if not asked <= record.scale * (1 + TOLERANCE):
        yield f"evidence: its own quilt asks for a scale of {asked:.9g}"


def _moved_by_one_entry(record: Release) -> float | None:
    """The Lipschitz constant, where the name of the query tells it."""
    weights = weights_of(record)
    if weights is not None and record.query in ("count", "total", "mean"):
        return float(max(weights) - min(weights))
    share = 2 / _entries(record)
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
