"""The theorems behind `verify` for series with gaps: every entry by itself.

Entry t spends b_t = L / scale if it was observed and 0 if not; every entry is a secret. With the
tables of `pufferkit.verification.pair_tables`, entry i is hidden if for some distances l and m

    b_{i-l+1} + ... + b_{i+m-1} + max over pairs x, x' of [left(x, x') + right(x, x')]  <=  epsilon,

with steps from the variations beyond the endpoints (the curve), or from infinite ones (quilts: the
sum counts the observed entries nearby, [Q] Theorem 4.3). For pairs of values the recursion is
that of `pufferkit.verification.pair_steps` with the cost of each entry, 0 in a gap.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
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


def score_over_gaps(
    side: PairTables, runs: SegmentPattern, b: float, epsilon: float, work: Allowance
) -> float:
    """Scale over L that is enough by quilts that count observed entries; above 1 / b if not.

    An endpoint that was not observed may be moved outward at no cost, so endpoints are observed
    entries.
    """
    seen = spent(runs, 1.0)
    until, places = np.concatenate([[0.0], np.cumsum(seen)]), np.flatnonzero(seen) + 1
    worst, ends = 0.0, (0, len(seen) + 1)
    for node in range(1, len(seen) + 1):
        if ends[0] < node < ends[1]:  # the endpoints of the previous entry may suffice
            influence = _largest(*_sum(side, node, ends, len(seen)))
            score = _score(until, ends, influence, epsilon)
            if score <= 1 / b:
                worst = max(worst, score)
                continue
        score, ends = _best_ends(side, node, until, places, (epsilon, b), work)
        worst = max(worst, score)
        if worst > 1 / b:
            break
    return worst


def _sum(side: PairTables, node: int, ends: tuple[int, int], length: int) -> tuple[Floats, Bools]:
    """The table of a quilt with these endpoints (0 and length + 1: none), and the pairs of it."""
    pairs = side.pairs(node)
    table = np.zeros(pairs.shape)
    if ends[0] > 0:
        table = table + side.left(node, node - ends[0], inf)
    if ends[1] <= length:
        table = table + side.right(ends[1] - node, inf)
    return table, pairs


def _score(until: Floats, ends: tuple[int, int], influence: float, epsilon: float) -> float:
    counted = float(until[ends[1] - 1] - until[ends[0]])
    return counted / (epsilon - influence) if influence < epsilon else inf


def _best_ends(
    side: PairTables,
    node: int,
    until: Floats,
    places: NDArray[np.intp],
    promise: tuple[float, float],
    work: Allowance,
) -> tuple[float, tuple[int, int]]:
    """The least score of an entry over all endpoints within reach, and where it is."""
    epsilon, b = promise
    reach, length, pairs = int(1.05 * epsilon / b) + 2, len(until) - 1, side.pairs(node)
    before = [0, *places[places < node][-reach:].tolist()]
    after = [*places[places > node][:reach].tolist(), length + 1]
    rights = np.array([_sum(side, node, (0, end), length)[0][pairs] for end in after])
    counted, best, ends = until[np.array(after) - 1], inf, (0, length + 1)
    for end in before:
        work.spend(2 * 10**4 + 2 * rights.size)
        left = _sum(side, node, (end, length + 1), length)[0][pairs]
        influence = np.maximum((rights + left).max(axis=1), 0.0)
        room = np.maximum(epsilon - influence, 0.0)
        scores = np.full(len(after), inf)
        np.divide(counted - until[end], room, out=scores, where=room > 0)
        least = int(scores.argmin())
        if scores[least] < best:
            best, ends = float(scores[least]), (end, after[least])
    return best, ends


def cost_runs(runs: SegmentPattern, cost: Floats) -> list[tuple[int, Floats]]:
    """Runs of entries and their cost; nothing is spent on those that were not observed."""
    found: list[tuple[int, Floats]] = []
    for place, count in enumerate(runs):
        own = cost * (place % 2 == 0)
        if found and np.array_equal(found[-1][1], own):
            found[-1] = found[-1][0] + count, own
        elif count:
            found.append((count, own))
    return found


def _largest(table: Floats, pairs: Bools) -> float:
    return max(0.0, float(table[pairs].max()))
