"""What the record of a release says: its beliefs, its segments, and the cost of one entry."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pufferkit.beliefs.base import Beliefs, beliefs_from_dict
from pufferkit.beliefs.chain_class import chain_kinds
from pufferkit.checks import Floats
from pufferkit.data.joint import Several
from pufferkit.data.series import SegmentPattern
from pufferkit.mechanisms.release import Release
from pufferkit.verification.allowance import BadBeliefs
from pufferkit.verification.query_checks import (
    asked_of,
    moved_by_one_entry,
    parts_of,
    rows_of,
)

_UP = 1 + 1e-12


def longest_promised(record: Release) -> int:
    """The longest segment that the guarantee covers: of the release or the account."""
    return record.evidence.horizon or max(record.lengths)


def on_chains(record: Release) -> bool:
    """Whether the release is under beliefs in Markov chains, or needs no beliefs."""
    kind = record.beliefs.get("kind") if isinstance(record.beliefs, Mapping) else None
    direct = record.mechanism not in ("wasserstein", "exact_sum")
    return direct and (kind is None or kind in chain_kinds())


def beliefs_of(record: Release) -> Beliefs:
    """The recorded beliefs."""
    if record.beliefs is None:
        raise BadBeliefs(f"are not recorded, and {record.mechanism} needs them")
    try:
        return beliefs_from_dict(record.beliefs)
    except (ValueError, TypeError, AttributeError) as error:
        raise BadBeliefs(f"cannot be read; {error}") from None


def hint_of(record: Release) -> tuple[int, int] | None:
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


def cost_of_pairs(record: Release, theta: Beliefs, lipschitz: float) -> Floats:
    """How far the answer moves, in scales of its noise, when an entry x is replaced by x'.

    For all pairs, rounded up; of several queries the costs of each together.
    """
    if record.kind == Several.kind:
        own = [(part, moved_by_one_entry(part) or part.lipschitz) for part in parts_of(record)]
        costs = [cost_of_pairs(part, theta, moved) for part, moved in own]
        return np.asarray(np.sum(costs, axis=0) * _UP)
    query, outside = asked_of(record), ~np.eye(len(theta.states), dtype=bool)
    rows = rows_of(record, theta.states)
    if rows is None or (query is not None and query.uniform and record.scales is None):
        return np.where(outside, lipschitz / record.scale * _UP, 0.0)
    if len(rows) != len(theta.states):
        raise BadBeliefs(f"have {len(theta.states)} states, and there are {len(rows)} weights")
    scales = [Fraction(scale) for scale in record.scales or (record.scale,) * len(rows[0])]
    moved = [
        [float(sum(abs(a - b) / s for a, b, s in zip(x, y, scales, strict=True))) for y in rows]
        for x in rows
    ]
    return np.array(moved) * _UP


def patterns(record: Release) -> list[SegmentPattern]:
    """The distinct patterns of a record, checked against its other fields."""
    recorded: Any = (record.verification_data or {}).get("pattern")
    if recorded is None:
        return []
    runs = [tuple(own) for own in recorded]
    whole = [n for own in runs for n in own]
    if any(isinstance(n, bool) or not isinstance(n, int) or n < 0 for n in whole):
        raise TypeError("a pattern holds the lengths of runs, in whole numbers")
    lengths, seen = tuple(sum(own) for own in runs), tuple(sum(own[::2]) for own in runs)
    if lengths != tuple(record.lengths) or seen != record.observed:
        raise TypeError("the pattern does not fit the lengths and the entries that were observed")
    return sorted(set(runs))


def spent(runs: SegmentPattern, b: float) -> Floats:
    """The event-level epsilon spent on each entry."""
    return np.repeat([0.0 if n % 2 else b for n in range(len(runs))], runs)


def observed_until(runs: SegmentPattern) -> NDArray[np.intp]:
    """The number of observed entries up to each entry; the first is before all of them."""
    return np.concatenate([[0], np.cumsum(spent(runs, 1.0).astype(np.intp))])


def cost_runs(runs: SegmentPattern, cost: Floats) -> list[tuple[int, Floats]]:
    """Runs of entries and their cost; nothing is spent on those that were not observed."""
    found: list[tuple[int, Floats]] = []
    for place, count in enumerate(runs):
        own = cost if place % 2 == 0 else np.zeros_like(cost)
        if found and np.array_equal(found[-1][1], own):
            found[-1] = found[-1][0] + count, own
        elif count:
            found.append((count, own))
    return found
