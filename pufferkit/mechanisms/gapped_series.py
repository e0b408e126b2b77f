"""Series with gaps: noise that counts only the entries that were observed.

An entry that was not observed has event-level epsilon 0, and the chain runs on through it. Noise
for the unbroken span hides such a series as well (see `pufferkit.data.queries`); here the same
theorems are applied to the pattern of observed entries, which never gives more noise. Every entry
of the span stays a secret. If the pattern is long or gains hardly anything, the noise of the span
is used, which the evidence states (`Evidence.counted`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from pufferkit.beliefs.chain_class import ChainClass
from pufferkit.checks import Floats
from pufferkit.data.query import Query
from pufferkit.data.series import SegmentPattern
from pufferkit.influence.curve.engine import EntryLoss
from pufferkit.influence.curve.profile import InfluenceCurve, Run
from pufferkit.mechanisms.evidence import Bound, Evidence
from pufferkit.rounding import largest_within

MOST_ENTRIES, MOST_RUNS = 5_000, 200
"""Longest segment, and most runs in one, whose pattern is used."""

MOST_PATTERNS = 20
"""Most distinct segments whose patterns are used."""

WORTH = 1e-3
"""The least relative gain for which a pattern is recorded."""

_CLOSE = 1e-4
"""Relative precision of the search."""


def patterns_of(query: Query) -> list[SegmentPattern]:
    """The distinct patterns of the segments, most entries first; empty if they are not used."""
    if query.pattern is None:
        return []
    different = sorted(set(query.pattern), key=lambda runs: -sum(runs[::2]))
    few = len(different) <= MOST_PATTERNS
    short = all(sum(runs) <= MOST_ENTRIES and len(runs) <= MOST_RUNS for runs in different)
    return different if few and short else []


def recorded(query: Query) -> dict[str, Any]:
    """Verification data about the gaps."""
    return {"pattern": [list(runs) for runs in query.pattern or ()]}


def curve_of_observed(
    theta: ChainClass, query: Query, epsilon: float, metric: Floats | None, least: float
) -> tuple[float, Evidence, dict[str, Any]] | None:
    """The largest event-level epsilon of the observed entries, its evidence, verification data.

    ``None`` to keep ``least``, that of the unbroken span.
    """
    patterns = patterns_of(query)
    if not patterns:
        return None
    curves = {n: InfluenceCurve(theta, n, metric) for n in {sum(runs) for runs in patterns}}

    @cache
    def binding(b: float) -> tuple[float, tuple[str, EntryLoss, int]]:
        """The largest loss, whose it is, and in a segment of which length."""
        rows = [(*curves[sum(runs)].binding(profile(runs, b)), sum(runs)) for runs in patterns]
        worst = max(rows, key=lambda row: row[1].value)
        return worst[1].value, worst

    start = min(epsilon, least * (1 + WORTH))
    if binding(start)[0] > epsilon:
        return None
    # An observed entry loses at least its b, so nothing above epsilon is tried.
    best = largest_within(binding, epsilon, start, epsilon, _CLOSE)
    if best is None or best[0] <= least:
        return None
    b, (name, loss, length) = best
    ordered = sorted(patterns)
    proofs = [curves[sum(runs)].proof(profile(runs, b), epsilon) for runs in ordered]
    bound: Bound = "pairs" if any(proofs) else "curve"
    notes = curves[length].notes
    evidence = Evidence(name, loss.node, length, notes=notes, bound=bound, counted="observed")
    return b, evidence, recorded(query) | ({"pairs": proofs} if any(proofs) else {})


def profile(runs: Sequence[int], b: float) -> list[Run]:
    """The event-level epsilon of a segment given as runs."""
    return [Run(count, 0.0 if n % 2 else b) for n, count in enumerate(runs) if count]
