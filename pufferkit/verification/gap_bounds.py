"""The theorems behind `verify` for series with gaps: every entry by itself.

Entry t spends b_t = L / scale if it was observed and 0 if not; every entry is a secret. With the
tables of `pufferkit.verification.pair_tables`, entry i is hidden if for some distances l and m

    b_{i-l+1} + ... + b_{i+m-1} + max over pairs x, x' of [left(x, x') + right(x, x')]  <=  epsilon,

with steps from the variations beyond the endpoints. For pairs of values the recursion is that of
`pufferkit.verification.pair_steps` with the cost of each entry, 0 in a gap.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pufferkit.checks import Bools, Floats
from pufferkit.data.series import SegmentPattern
from pufferkit.mechanisms.release import Release
from pufferkit.verification.pair_tables import Allowance, PairTables

"""Variations of pairs are rounded up to multiples of this share of the largest cost, so that they
repeat."""


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


def loss_over_gaps(
    side: PairTables, runs: SegmentPattern, b: float, epsilon: float, work: Allowance
) -> float:
    """Largest loss of an entry on the scalar curve, or some loss above epsilon."""
    costs = spent(runs, b)
    length, total = len(costs), np.concatenate([[0.0], np.cumsum(costs)])
    if total[-1] <= epsilon:
        return float(total[-1])
    alpha, beta = [0.0] * (length + 2), [0.0] * (length + 2)
    for node in range(1, length + 1):
        least, pairs = float(total[node]), side.pairs(node)
        for block in range(1, node):
            paid = float(total[node] - total[node - block])
            if paid >= least:
                break
            least = min(least, paid + _largest(side.left(node, block, alpha[node - block]), pairs))
            if paid + 1e-3 * b >= least:  # entries beyond add hardly anything
                break
        alpha[node] = least
    for node in range(length, 0, -1):
        least, pairs = float(total[length] - total[node - 1]), side.pairs(node)
        for block in range(1, length - node + 1):
            paid = float(total[node + block - 1] - total[node - 1])
            if paid >= least:
                break
            least = min(least, paid + _largest(side.right(block, beta[node + block]), pairs))
            if paid + 1e-3 * b >= least:
                break
        beta[node] = least
    worst = 0.0
    for node in range(1, length + 1):
        quick = alpha[node] + beta[node] - float(costs[node - 1])
        if quick > epsilon:
            quick = min(quick, _one_entry(side, node, total, alpha, beta, epsilon, work))
        worst = max(worst, quick)
        if worst > epsilon:
            break
    return worst


def _one_entry(
    side: PairTables,
    node: int,
    total: Floats,
    alpha: Sequence[float],
    beta: Sequence[float],
    epsilon: float,
    work: Allowance,
) -> float:
    """The least over blocks, with the same pair of values on both sides."""
    length, pairs = len(total) - 1, side.pairs(node)
    own = float(total[node] - total[node - 1])
    nothing = np.zeros(int(pairs.sum()))
    lefts = [(float(total[node]), nothing)]
    for block in range(1, node):
        paid = float(total[node] - total[node - block])
        if paid > epsilon:
            break
        lefts.append((paid, side.left(node, block, alpha[node - block])[pairs]))
    rights = [(float(total[length] - total[node - 1]), nothing)]
    for block in range(1, length - node + 1):
        paid = float(total[node + block - 1] - total[node - 1])
        if paid > epsilon:
            break
        rights.append((paid, side.right(block, beta[node + block])[pairs]))
    work.spend(10**4 + len(lefts) * (10**4 + 2 * len(rights) * len(nothing)))
    paid_right, tables = np.array([p for p, _ in rights]), np.array([t for _, t in rights])
    return min(
        float((paid + paid_right - own + (tables + table).max(axis=1)).min())
        for paid, table in lefts
    )


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


def _largest(table: Floats, pairs: Bools) -> float:
    return max(0.0, float(table[pairs].max()))
