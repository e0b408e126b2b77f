"""Checks the proof of a curve of hulls, seasons and hidden regimes: recorded limits and plans.

As in `pufferkit.verification.chain_proofs`, on the hidden states: replacing one of them costs

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

from collections.abc import Mapping, Sequence
from math import inf, isfinite
from typing import Any

import numpy as np

from pufferkit.beliefs.kernel_class import Kernels, Paths
from pufferkit.checks import Floats
from pufferkit.verification.pair_steps import Programmes, plan_value, plans
from pufferkit.verification.pair_tables import LARGEST, Allowance, NotChecked

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
        ``left`` and ``right``: limits and plans of each side, with seasons for each slot that the
        first entry can have, or for one round; ``emission``, ``last`` and ``pinned``: plans of the
        other steps.
    """
    if not cost.max() < LARGEST:
        raise NotChecked(f"costs of {cost.max():.3g} and more are not checked here")
    with np.errstate(over="ignore", invalid="ignore"):
        loss = _loss(part, length, cost, recorded, work)
    return loss if isfinite(loss) else inf  # what is no number bounds nothing


def _loss(
    part: Kernels, length: int, cost: Floats, recorded: Mapping[str, Any], work: Allowance
) -> float:
    hidden = cost
    if part.emission is not None:
        plans = _Plans(recorded["emission"], work)
        hidden = plans.steps(part.emission, part.contamination, _closed(cost))
        plans.end()
    window = min(part.window, length)
    sides = _sides(part, length, window, hidden, recorded, work)
    if sides is None or (part.paths is not None and part.window > length):
        return inf  # in a shorter series there are no such secrets: no such release is made
    if part.sets > 1:
        return min(part.sets, length) * _among_given(part, cost, sides, recorded, work)
    if part.paths is not None:
        ours = np.max([before for _, _, before, _ in sides], axis=0)
        theirs = np.max([after for *_, after in sides], axis=0)
        return _of_labels(part.paths, cost, ours, theirs, _Plans(recorded["last"]["plans"], work))
    if window > 1:
        return max(_of_values(part, cost, *side[1:], window) for side in sides)
    if part.emission is None:
        return max(_masked(part, cost + before + after, slot) for _, slot, before, after in sides)
    return _of_hidden(part, cost, hidden, sides, recorded, work)


SidesAt = tuple[int, int, Floats, Floats]
"""An entry, its slot, and what the left side adds to it and the right one, or to its window."""


def _sides(
    part: Kernels,
    length: int,
    window: int,
    hidden: Floats,
    recorded: Mapping[str, Any],
    work: Allowance,
) -> list[SidesAt] | None:
    """First entries of windows, and what the left and the right side add there."""
    last, period = length - window + 1, part.period
    if period > 1 and isinstance(recorded["right"], Mapping):
        before = _round(part, part.backward, hidden, -1, recorded["left"], work)
        after = _round(part, part.forward, hidden, 1, recorded["right"], work)
        if before is None or after is None:
            return None
        ends = [(slot + window - 1) % period for slot in range(period)]
        return [(1, slot, before[slot], after[end]) for slot, end in enumerate(ends)]
    phases = range(period) if part.start is None else (part.start,)
    lefts, rights = recorded["left"], recorded["right"]
    if period == 1:
        phases, lefts, rights = (0,), [lefts], [rights]
    places: list[SidesAt] = []
    for phase, left, right in zip(phases, lefts, rights, strict=True):
        own = [part.backward[(phase + n) % period] for n in range(period)]
        theirs = [part.forward[(phase + length - 1 - n) % period] for n in range(period)]
        ours = _side(part, own, length, hidden, left, work)
        others = _side(part, theirs, length, hidden, right, work)
        if ours is None or others is None:
            return None
        nodes = {*range(1, min(last, len(ours) + 1) + 1)}
        nodes |= {*range(max(1, last - len(others)), last + 1)}
        places += [
            (
                n,
                (phase + n - 1) % period,
                ours[min(n, len(ours)) - 1],
                others[min(last + 1 - n, len(others)) - 1],
            )
            for n in sorted(nodes)
        ]
    return places


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


def _of_labels(paths: Paths, cost: Floats, before: Floats, after: Floats, plans: _Plans) -> float:
    """The largest loss between two labels of a window."""
    if not (np.isfinite(before).all() and np.isfinite(after).all()):
        return inf

    def at(n: int, table: Floats) -> Floats:
        return np.asarray(table[np.ix_(paths.entries[n], paths.entries[n])])

    variation = _closed(at(0, cost + before))
    for n, kernel in enumerate(paths.kernels, 1):
        variation = _closed(at(n, cost) + plans.steps([kernel], 0.0, variation))
    last = plans.steps([paths.posterior], 0.0, _closed(variation + at(-1, after)))
    plans.end()
    return float(last.max())


def _among_given(
    part: Kernels,
    cost: Floats,
    sides: Sequence[SidesAt],
    recorded: Mapping[str, Any],
    work: Allowance,
) -> float:
    """The largest loss of an entry, whichever others are given."""
    left, right = (
        _pinned(own[0][0], cost, one, work)
        for own, one in zip((part.backward, part.forward), recorded["pinned"], strict=True)
    )
    if left is None or right is None:
        return inf
    ours = np.max([left, *(before for _, _, before, _ in sides)], axis=0)
    theirs = np.max([right, *(after for *_, after in sides)], axis=0)
    return float((cost + ours + theirs).max())


def _pinned(kernel: Floats, cost: Floats, recorded: Any, work: Allowance) -> Floats | None:
    """The most that a side adds if it ends at a given value, however far away.

    Short ones are computed; where the kernel hardly depends on the given value any more, one limit
    must hold for all, with the remaining dependence added to every step.
    """
    limit, plans = _table(recorded["limit"], len(cost)), _Plans(recorded["plans"], work)
    if not (kernel > 0).all():
        return None
    power, variation, adds = kernel, _closed(cost), np.zeros_like(cost)
    for _ in range(_MOST_PINNED):
        apart = float(np.ptp(np.log(power), axis=0).max())
        if apart <= _HARDLY:
            last = plans.steps([kernel], 0.0, limit) + 2 * apart * (1 - np.eye(len(cost)))
            holds = np.all(variation <= limit) and np.all(_closed(cost + last) <= limit)
            plans.end()
            return np.maximum(adds, last) if holds else None
        weighted = [kernel * column for column in power.T]
        given = [w / w.sum(axis=1, keepdims=True) for w in weighted]
        own = plans.steps(given, 0.0, variation)
        adds = np.maximum(adds, own)
        variation = _closed(cost + own)
        power = power @ kernel
    return None


def _of_hidden(
    part: Kernels,
    cost: Floats,
    hidden: Floats,
    sides: Sequence[SidesAt],
    recorded: Mapping[str, Any],
    work: Allowance,
) -> float:
    """The largest loss of an entry, or of its hidden state.

    The last step is taken at the recorded entries. Elsewhere the sides add no more than at one of
    these, up to a remainder, and a step grows by no more than what is added to the variation.
    """
    sums = {entry: before + after for entry, _, before, after in sides}
    if not all(np.isfinite(both).all() for both in sums.values()):
        return inf
    if part.secret == "regime":
        return max(float((hidden + both).max()) for both in sums.values())
    if not part.posterior:
        outside = 1 - np.eye(len(cost))
        return max(_masked(part, cost + b.max() * outside, 0) for b in sums.values())
    entries, plans = recorded["last"]["entries"], _Plans(recorded["last"]["plans"], work)
    if not isinstance(entries, list) or not set(entries) <= set(sums) or not entries:
        raise TypeError("the last step is taken at entries of the series")
    remainder = max(
        min(float((both - sums[entry]).max()) for entry in entries) for both in sums.values()
    )
    outside = max(remainder, 0.0) * (1 - np.eye(len(cost)))
    largest = max(
        _masked(part, cost + plans.steps(part.posterior[0], 0.0, _closed(sums[entry])) + outside, 0)
        for entry in entries
    )
    plans.end()
    return largest


def _masked(part: Kernels, loss: Floats, slot: int) -> float:
    """The largest loss of a pair of values that is a secret and possible."""
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


class _Plans:
    """Steps by recorded plans, one after another; by a solver where there are none."""

    def __init__(self, text: Any, work: Allowance) -> None:
        self.programmes, self.work = Programmes(text, work), work

    def steps(self, vertices: Sequence[Floats], eta: float, limit: Floats) -> Floats:
        """The largest step over the vertices, with contamination ``eta`` of every row."""
        one = self._mixed if eta else self._plain
        return np.asarray(np.max([one(kernel, eta, limit) for kernel in vertices], axis=0))

    def _plain(self, kernel: Floats, eta: float, limit: Floats) -> Floats:
        return self.programmes.steps(kernel, limit)

    def _mixed(self, kernel: Floats, eta: float, limit: Floats) -> Floats:
        if self.programmes.bases is None:
            return _mixed(kernel, eta, limit, self.work)
        size = len(kernel)
        extra = np.zeros((2 * size, 2))
        extra[:size, 0] = extra[size:, 1] = eta
        both = np.hstack([(1 - eta) * np.vstack([kernel, kernel]), extra])
        table = self.programmes.steps(both, _larger(limit))[:size, size:].copy()
        np.fill_diagonal(table, 0.0)
        return table

    def end(self) -> None:
        """All recorded plans must have been used."""
        self.programmes.end()


def _larger(limit: Floats) -> Floats:
    """The variation with the largest and the smallest value of a function as two states."""
    states = len(limit)
    larger = np.zeros((states + 2, states + 2))
    larger[:states, :states] = limit
    larger[states, :states] = limit.max(axis=0)
    larger[:states, states + 1] = limit.max(axis=1)
    larger[states, states + 1] = limit.max()
    return larger


def _mixed(kernel: Floats, eta: float, limit: Floats, work: Allowance) -> Floats:
    """Steps between rows with contamination eta: on the top state above, the bottom one below."""
    size, larger = len(kernel), _larger(limit)
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


def _table(recorded: Any, size: int) -> Floats:
    limit = np.array(recorded, dtype=float)
    if limit.shape != (size, size) or not np.isfinite(limit).all() or limit.min() < 0:
        raise TypeError("a limit must have a number for each pair of hidden states")
    np.fill_diagonal(limit, 0.0)
    return limit


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"a limit holds from a place on, not from {value!r}")
    return value


def _side(
    part: Kernels,
    own: Sequence[Sequence[Floats]],
    length: int,
    cost: Floats,
    recorded: Mapping[str, Any],
    work: Allowance,
) -> list[Floats] | None:
    """What a side adds to its entries 1, 2, ..., counted from its end; the last one repeats.

    ``own`` are the kernels of the entries, which repeat.
    """
    eta = part.contamination if part.emission is None else 0.0
    plans, limits = _Plans(recorded["plans"], work), recorded["limits"]
    start, limit = length + 1, cost
    if limits:
        (one,) = limits
        start, limit = _whole(one["first"]), _table(one["limit"], len(cost))
        if len(own) > 1 or not 2 <= start <= length or _whole(one["last"]) != length:
            return None
    tables, variation = [np.zeros_like(cost)], _closed(cost)
    for entry in range(2, start):
        tables.append(plans.steps(own[(entry - 1) % len(own)], eta, variation))
        variation = _closed(cost + tables[-1])
    if start <= length:
        if not np.all(variation <= limit):
            return None
        tables.append(plans.steps(own[0], eta, limit))
        if not np.all(_closed(cost + tables[-1]) <= limit):
            return None
    plans.end()
    return tables


def _round(
    part: Kernels,
    own: Sequence[Sequence[Floats]],
    cost: Floats,
    ahead: int,
    recorded: Mapping[str, Any],
    work: Allowance,
) -> list[Floats] | None:
    """What a side adds at every slot, by one round through the period."""
    eta = part.contamination if part.emission is None else 0.0
    period, plans = len(own), _Plans(recorded["plans"], work)
    slot, limit = _whole(recorded["slot"]), _table(recorded["limit"], len(cost))
    if not 0 <= slot < period:
        raise TypeError(f"the clock has slots 0 to {period - 1}, not {slot}")
    tables, variation = [np.zeros_like(cost)] * period, limit
    for _ in range(period):
        slot = (slot - ahead) % period
        tables[slot] = plans.steps(own[slot], eta, variation)
        variation = _closed(cost + tables[slot])
    plans.end()
    return tables if np.all(variation <= limit) else None
