"""The pairwise curve of hulls, seasons and hidden regimes for `verify`, by another solver.

As in `pufferkit.verification.pair_steps`, on the hidden states: replacing one of them costs

    D(w, w') = step(E(w, .), E(w', .); c),

with c the cost of replacing an entry and E the emission. An entry loses c(x, x') plus the step
between P(hidden | x) and P(hidden | x') at the sum of both sides. If rows are contaminated with
weight eta, the largest and the smallest value of a function are added as two states.

Secrets about several consecutive entries: two values of the window lose what the left side adds to
its first entry, the cost of each of its entries and what the right side adds to its last one.
Labels of the window are the secret of its last entry, in the chain of entry and automaton. Sets of
entries are exchanged one by one, each with sides that extend to the end of the series or to a given
value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Any

import numpy as np

from pufferkit.beliefs.kernel_class import Kernels, Paths
from pufferkit.checks import Floats
from pufferkit.verification.pair_steps import plan_value, plans, steps
from pufferkit.verification.pair_tables import LARGEST, Allowance, NotChecked

PairStep = Callable[[Floats], Floats]

_HARDLY = 1.001e-7
_MOST_PINNED = 2_100


def loss_of_kernels(
    part: Kernels, length: int, cost: Floats, recorded: Mapping[str, Any], work: Allowance
) -> float:
    """Largest loss of a pair of secrets; infinite if a recorded limit does not hold.

    Parameters
    ----------
    part
        The kernels of a class, or of a part of it.
    length
        Length of the segment.
    cost
        Cost of replacing an entry, for each pair of states.
    recorded
        Limits to the ``left`` and the ``right``; ``None`` for a side that is computed entry by
        entry.
    """
    if not cost.max() < LARGEST:
        raise NotChecked(f"costs of {cost.max():.3g} and more are not checked here")
    hidden = cost
    if part.emission is not None:
        hidden = _steps(part.emission, part.contamination, work)(_closed(cost))
    window = min(part.window, length)
    if part.paths is not None and part.window > length:
        return inf  # the series has no such secrets: no such release is made
    sides = _sides(part, length, window, hidden, recorded, work)
    if sides is None:
        return inf
    if part.sets > 1:
        return min(part.sets, length) * _among_given(part, cost, sides, recorded, work)
    if part.paths is not None:
        ours = np.max([before for _, before, _ in sides], axis=0)
        theirs = np.max([after for _, _, after in sides], axis=0)
        return _of_labels(part.paths, cost, ours, theirs, work)
    if window > 1:
        return max(_of_values(part, cost, *side, window) for side in sides)
    sums = [(slot, before + after) for slot, before, after in sides]
    return max(_secret(part, cost, hidden, slot, both, work) for slot, both in _largest(sums))


def _sides(
    part: Kernels,
    length: int,
    window: int,
    hidden: Floats,
    recorded: Mapping[str, Any],
    work: Allowance,
) -> list[tuple[int, Floats, Floats]] | None:
    """Slots of first entries of windows, and what the left and the right side add there."""
    mixed = part.contamination if part.emission is None else 0.0
    left = [_steps(vertices, mixed, work) for vertices in part.backward]
    right = [_steps(vertices, mixed, work) for vertices in part.forward]
    if part.period == 1:
        ours = _side(left[0], length, hidden, recorded.get("left"))
        theirs = _side(right[0], length, hidden, recorded.get("right"))
        if ours is None or theirs is None:
            return None
        last = length - window + 1
        nodes = {*range(1, min(last, len(ours) + 1) + 1)}
        nodes |= {*range(max(1, last - len(theirs)), last + 1)}
        return [
            (0, ours[min(n, len(ours)) - 1], theirs[min(last + 1 - n, len(theirs)) - 1])
            for n in nodes
        ]
    if recorded.get("right") is None:
        return _followed(part, left, right, length, hidden, window)
    before = _round(left, hidden, -1, recorded["left"])
    after = _round(right, hidden, 1, recorded["right"])
    if before is None or after is None:
        return None
    return [
        (slot, before[slot], after[(slot + window - 1) % part.period])
        for slot in range(part.period)
    ]


def _of_values(
    part: Kernels, cost: Floats, slot: int, before: Floats, after: Floats, window: int
) -> float:
    """The largest loss between two values of a window whose first entry is at ``slot``."""
    if not (np.isfinite(before).all() and np.isfinite(after).all()):
        return inf
    size, largest = len(cost), cost + after
    for n in range(window - 2, -1, -1):
        vertices = part.forward[(slot + n) % part.period]
        ahead = [
            [y for y in range(size) if part.contamination or any(v[x, y] > 0 for v in vertices)]
            for x in range(size)
        ]
        reached = np.array([largest[own].max(axis=0) for own in ahead])
        largest = cost + np.array([reached[:, own].max(axis=1) for own in ahead]).T
    here = part.possible[slot]
    return float((before + largest)[np.ix_(here, here)].max())


def _of_labels(paths: Paths, cost: Floats, before: Floats, after: Floats, work: Allowance) -> float:
    """The largest loss between two labels of a window."""
    if not (np.isfinite(before).all() and np.isfinite(after).all()):
        return inf

    def at(n: int, table: Floats) -> Floats:
        return np.asarray(table[np.ix_(paths.entries[n], paths.entries[n])])

    variation = _closed(at(0, cost + before))
    for n, kernel in enumerate(paths.kernels, 1):
        variation = _closed(at(n, cost) + steps(kernel, variation, work))
    return float(steps(paths.posterior, _closed(variation + at(-1, after)), work).max())


def _among_given(
    part: Kernels,
    cost: Floats,
    sides: Sequence[tuple[int, Floats, Floats]],
    recorded: Mapping[str, Any],
    work: Allowance,
) -> float:
    """The largest loss of an entry, whichever others are given."""
    left, right = (
        _pinned(own[0][0], cost, limit, work)
        for own, limit in zip((part.backward, part.forward), recorded["pinned"], strict=True)
    )
    if left is None or right is None:
        return inf
    ours = np.max([left, *(side for _, side, _ in sides)], axis=0)
    theirs = np.max([right, *(side for _, _, side in sides)], axis=0)
    return float((cost + ours + theirs).max())


def _pinned(kernel: Floats, cost: Floats, recorded: Any, work: Allowance) -> Floats | None:
    """The most that a side adds if it ends at a given value, however far away.

    Short ones are computed; where the kernel hardly depends on the given value any more, one limit
    must hold for all, with the remaining dependence added to every step.
    """
    limit = _table(recorded, len(cost))
    if not (kernel > 0).all():
        return None
    power, variation, adds = kernel, _closed(cost), np.zeros_like(cost)
    for _ in range(_MOST_PINNED):
        apart = float(np.ptp(np.log(power), axis=0).max())
        if apart <= _HARDLY:
            last = steps(kernel, limit, work) + 2 * apart * (1 - np.eye(len(cost)))
            holds = np.all(variation <= limit) and np.all(_closed(cost + last) <= limit)
            return np.maximum(adds, last) if holds else None
        weighted = [kernel * column for column in power.T]
        own = [steps(w / w.sum(axis=1, keepdims=True), variation, work) for w in weighted]
        adds = np.max([adds, *own], axis=0)
        variation = _closed(cost + np.max(own, axis=0))
        power = power @ kernel
    return None


def _largest(sums: Sequence[tuple[int, Floats]]) -> list[tuple[int, Floats]]:
    """Without those dominated by another of the same slot."""
    kept: list[tuple[int, Floats]] = []
    for slot, both in sorted(sums, key=lambda s: -float(s[1].max())):
        if not any(slot == other and np.all(both <= larger) for other, larger in kept):
            kept.append((slot, both))
    return kept


def _secret(
    part: Kernels, cost: Floats, hidden: Floats, slot: int, both: Floats, work: Allowance
) -> float:
    if not np.isfinite(both).all():
        return inf
    if part.secret == "regime":
        return float((hidden + both).max())
    if part.emission is None:
        loss = cost + both
    elif not part.posterior:
        loss = cost + float(both.max()) * (1 - np.eye(len(cost)))
    else:
        loss = cost + _steps(part.posterior[slot], 0.0, work)(_closed(both))
    if part.parts is not None:
        loss = loss * part.parts
    here = part.possible[slot]
    return float(np.where(here[:, None] & here[None, :], loss, 0.0).max())


def _closed(variation: Floats) -> Floats:
    """The triangle closure: shortest paths, which leave the allowed functions unchanged."""
    closed = variation.copy()
    np.fill_diagonal(closed, 0.0)
    for middle in range(len(closed)):
        closed = np.minimum(closed, closed[:, middle, None] + closed[None, middle, :])
    return closed


def _steps(vertices: Sequence[Floats], eta: float, work: Allowance) -> PairStep:
    """The largest step over the vertices."""

    def exact(limit: Floats) -> Floats:
        return np.asarray(np.max([steps(kernel, limit, work) for kernel in vertices], axis=0))

    def mixed(limit: Floats) -> Floats:
        return np.asarray(np.max([_mixed(kernel, eta, limit, work) for kernel in vertices], axis=0))

    return mixed if eta else exact


def _mixed(kernel: Floats, eta: float, limit: Floats, work: Allowance) -> Floats:
    """Steps between rows with contamination eta: on the top state above, the bottom one below."""
    size, states = kernel.shape
    larger = np.zeros((states + 2, states + 2))
    larger[:states, :states] = limit
    larger[states, :states] = limit.max(axis=0)
    larger[:states, states + 1] = limit.max(axis=1)
    larger[states, states + 1] = limit.max()
    top = np.hstack([(1 - eta) * kernel, np.tile([eta, 0.0], (size, 1))])
    bottom = np.hstack([(1 - eta) * kernel, np.tile([0.0, eta], (size, 1))])
    pairs = [(x, y) for x in range(size) for y in range(size) if x != y]
    table = np.zeros((size, size))
    for start in range(0, len(pairs), 40):
        part = pairs[start : start + 40]
        rows = [(top[x], bottom[y]) for x, y in part]
        for (x, y), plan in zip(part, plans(rows, larger, work), strict=True):
            table[x, y] = plan_value(plan, top[x], bottom[y], larger)
    return table


def _limit(recorded: Mapping[str, Any], size: int, name: str) -> tuple[int, Floats]:
    place = recorded[name]
    if isinstance(place, bool) or not isinstance(place, int):
        raise TypeError(f"a limit holds from a place on, not from {place!r}")
    return place, _table(recorded["limit"], size)


def _table(recorded: Any, size: int) -> Floats:
    limit = np.array(recorded, dtype=float)
    if limit.shape != (size, size) or not np.isfinite(limit).all() or limit.min() < 0:
        raise TypeError("a limit must have a number for each pair of hidden states")
    np.fill_diagonal(limit, 0.0)
    return limit


def _side(
    step: PairStep, length: int, cost: Floats, recorded: Mapping[str, Any] | None
) -> list[Floats] | None:
    """What a side adds to its entries 1, 2, ..., counted from its end; the last one repeats."""
    tables = [np.zeros_like(cost)]
    start, limit = length + 1, cost
    if recorded is not None:
        start, limit = _limit(recorded, len(cost), "from")
    variation = _closed(cost)
    for _ in range(2, min(length + 1, start)):
        tables.append(step(variation))
        variation = _closed(cost + tables[-1])
    if start > length:
        return tables
    if start < 2 or not np.all(variation <= limit):
        return None
    tables.append(step(limit))
    return tables if np.all(_closed(cost + tables[-1]) <= limit) else None


def _round(
    own: Sequence[PairStep], cost: Floats, ahead: int, recorded: Mapping[str, Any]
) -> list[Floats] | None:
    """What a side adds at every slot, by one round through the period."""
    period = len(own)
    begin, limit = _limit(recorded, len(cost), "slot")
    if not 0 <= begin < period:
        raise TypeError(f"the clock has slots 0 to {period - 1}, not {begin}")
    tables = [np.zeros_like(cost)] * period
    slot, variation = begin, limit
    for _ in range(period):
        slot = (slot - ahead) % period
        tables[slot] = own[slot](variation)
        variation = _closed(cost + tables[slot])
    return tables if np.all(variation <= limit) else None


def _followed(
    part: Kernels,
    left: Sequence[PairStep],
    right: Sequence[PairStep],
    length: int,
    cost: Floats,
    window: int,
) -> list[tuple[int, Floats, Floats]]:
    """What both sides add to every window of every first slot: slot, left, right."""
    period, sides = part.period, []
    for phase in range(period) if part.start is None else (part.start,):
        before, after = [np.zeros_like(cost)], [np.zeros_like(cost)]
        variation = _closed(cost)
        for n in range(1, length):
            before.append(left[(phase + n) % period](variation))
            variation = _closed(cost + before[-1])
        variation = _closed(cost)
        for n in range(length - 2, -1, -1):
            after.append(right[(phase + n) % period](variation))
            variation = _closed(cost + after[-1])
        sides += [
            ((phase + n) % period, before[n], after[length - window - n])
            for n in range(length - window + 1)
        ]
    return sides
