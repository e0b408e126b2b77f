"""The proof of an influence curve: recorded limits, blocks and plans, evaluated and compared.

A class of beliefs says what it knows in *parts* (`Beliefs.parts`, which the engine reads too).
Replacing an entry x by x' costs D(x, x'), the same for all entries of a run. On either side of an
entry, with n counted from the end of the series, paid_j the largest cost of entry j, and any blocks
m < n, the entries beyond add

    adds_n = least over m of  paid_{n-m+1} + ... + paid_{n-1} + step_{n,m}(B_{n-m}),
    B_n    = closure of  D_n + adds_n,                            B_1 = closure of D_1,

or all that is paid on the side. Entry i loses at most D_i plus what both sides add (PAIRS Theorem
2). A recorded *limit* C bounds all entries from n to the end of a run if the B of the entries
before, as far as a block reaches, are at most C and

    D + adds(C)  <=  C :

then every later B is at most C, by induction. Which blocks are used, C, and the trees of the plans
are read from the record. Any blocks, any C with this inequality and any plan give a bound, so a
false record can only fail to show that a scale is enough.

A step is evaluated by a recorded plan or by the formula of its kind
(`pufferkit.verification.check_steps`). What an engine computes of a step is not read.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import accumulate
from math import inf, isfinite
from types import SimpleNamespace
from typing import Any

import numpy as np

from pufferkit.checks import Bools, Floats
from pufferkit.records import unpacked_matrix
from pufferkit.rounding import EPS
from pufferkit.verification.check_graphs import loss_on_graphs, models_of
from pufferkit.verification.check_steps import LARGEST, Evaluator, closed, off_diagonal
from pufferkit.verification.claims import TOLERANCE, Allowance, Claim, NotChecked, largest

_FAR = 500.0
"""The variation between values that are never possible together."""

_ENDLESS = 1 << 50
"""Entries of a sojourn of any length: floats count them exactly."""

_UP = 1 + 16 * EPS

PaidRuns = Sequence[tuple[int, Floats]]
"""Numbers of consecutive entries, and what replacing a value costs there."""

Adds = list[tuple[int, int, Floats]]
"""First and last entry of stretches, and what a side adds there."""


def by_curve(claim: Claim) -> float:
    """The recorded scale if the proof shows it to be enough, on chains or on graphs."""
    models = models_of(claim.beliefs)
    return claim.scale_for(loss_on_graphs(models, claim) if models else _loss_on_chains(claim))


def _loss_on_chains(claim: Claim) -> float:
    """The largest loss, by the recorded proof of every part of the class, for every pattern."""
    theta: Any = claim.beliefs
    beside, patterns, longest = claim.record.evidence.beside or 0.0, claim.patterns, claim.longest
    theta.check_length(longest)
    cost = claim.cost / (1 + TOLERANCE) + beside * ~np.eye(len(claim.cost), dtype=bool)
    cases = [_cost_runs(runs, cost) for runs in patterns] or [[(longest, cost)]]
    if patterns and beside:
        raise NotChecked("there is no theorem for gaps with other spending beside")
    proofs = claim.proof.get("curve") or [None] * len(cases)
    losses = []
    for runs, recorded in zip(cases, proofs, strict=True):
        parts = theta.parts(sum(count for count, _ in runs))
        for part, own in zip(parts, recorded or [None] * len(parts), strict=True):
            losses.append(loss_of_part(part, runs, own, claim.work))
    counted = f", only observed entries counted by {len(cases)} pattern(s)" if patterns else ""
    counted += f"; {beside:.9g} of event-level epsilon is spent beside it" if beside else ""
    claim.checks.append(
        f"influence_curve: the recorded proof for {theta.description}, over segments of up to "
        f"{longest:,} entries{counted}; the largest loss is {largest(losses):.9g}"
    )
    return largest(losses)


def _cost_runs(runs: Sequence[int], cost: Floats) -> list[tuple[int, Floats]]:
    """Runs of entries and their cost; nothing is spent on those that were not observed."""
    found: list[tuple[int, Floats]] = []
    for place, count in enumerate(runs):
        own = cost if place % 2 == 0 else np.zeros_like(cost)
        if found and np.array_equal(found[-1][1], own):
            found[-1] = found[-1][0] + count, own
        elif count:
            found.append((count, own))
    return found


class Unshown(Exception):
    """A limit of a proof does not hold: it shows nothing."""


def loss_of_part(part: Any, runs: PaidRuns, recorded: Any, work: Allowance) -> float:
    """The largest loss of a secret that one part of a class shows.

    Never more than what all entries cost together; that too where the record shows less.

    Parameters
    ----------
    part
        Sides, emission, posterior and secret, as `Beliefs.parts` gives them.
    runs
        The cost of the entries.
    recorded
        The proof of this part; ``None`` if there is none.
    """
    secret = part.secret
    total = sum(count * float(cost.max()) for count, cost in runs)
    heaviest = 1.0 if secret.weights is None else float(secret.weights.max())
    whole = total * heaviest * (1 + 4 * len(runs) * EPS)
    if recorded is None:
        return whole
    simple = secret.is_entry and part.clock is None and part.emission is None
    if len(runs) > 1 and not simple:
        raise NotChecked("gaps are checked for the values of single entries of a chain")
    if not max(float(cost.max()) for _, cost in runs) <= LARGEST:
        return whole
    try:
        with np.errstate(all="ignore"):
            loss = _PartProof(part, runs, recorded, work).loss()
    except Unshown:
        return whole
    return min(loss, whole) if isfinite(loss) else whole  # what is no number bounds nothing


def ends_of_part(part: Any, runs: PaidRuns, recorded: Any, work: Allowance) -> tuple[float, float]:
    """The most that a state and all on its left, or right, reveal; infinite without a proof."""
    if recorded is None:
        return inf, inf
    proof = _PartProof(part, runs, recorded, work)
    cost = proof.hidden[0][1]
    left = proof.revealed(part.left, proof.hidden, recorded["left"], cost)
    return left, proof.revealed(part.right, proof.hidden[::-1], recorded["right"], cost)


class _PartProof:
    """One part with its recorded proof."""

    def __init__(
        self, part: Any, runs: PaidRuns, recorded: Mapping[str, Any], work: Allowance
    ) -> None:
        self.part, self.recorded, self.work = part, recorded, work
        self.secret, self.runs, self.hidden = part.secret, runs, runs
        self.length = sum(count for count, _ in runs)
        self.window = min(part.secret.window, self.length)
        self.cost = np.max([cost for _, cost in runs], axis=0)
        if part.emission is not None and part.emission.kind == "given":
            self.hidden = [(self.length, part.emission(closed(self.cost)))]
        elif part.emission is not None:
            plans = Evaluator(recorded["emission"], work)
            self.hidden = [(self.length, plans.step(part.emission, closed(self.cost)))]
            plans.end()

    def revealed(self, side: Any, runs: PaidRuns, recorded: Any, cost: Floats) -> float:
        """The most that a state and all on one side of it reveal."""
        try:
            with np.errstate(all="ignore"):
                adds = _SideProof(side, runs, recorded, self.work).adds()
        except Unshown:
            return inf
        most = largest(float((cost + table).max()) for _, _, table in adds) * _UP
        return most if isfinite(most) else inf

    def loss(self) -> float:
        """The largest loss; infinite, or `Unshown`, where a limit does not hold."""
        both = [self.recorded["left"], self.recorded["right"]]
        if self.part.sojourns is not None:
            return self._of_sojourns(both)
        if self.part.clock is None:
            return self._at_phase([self.part.left, self.part.right], both, 0)
        if isinstance(both[0], Mapping):
            return self._round_the_clock(both)
        phases = list(self.part.clock.phases)
        return max(
            self._at_phase(self.part.clock.sides(phase, self.length), own, phase)
            for phase, *own in zip(phases, *both, strict=True)
        )

    def _at_phase(self, sides: Sequence[Any], recorded: Sequence[Any], phase: int) -> float:
        """The largest loss of a series whose first entry is at this slot."""
        runs = self.hidden, self.hidden[::-1]
        left, right = (
            _SideProof(side, own, told, self.work).adds()
            for side, own, told in zip(sides, runs, recorded, strict=True)
        )
        if self.secret.sets is not None:
            return self._of_sets(left, right)
        if self.secret.labels is not None:
            return self._of_labels(left, right)
        if self.part.emission is not None:
            return self._of_hidden(left, right)
        return self._of_entries(left, right, phase)

    def _of_sojourns(self, recorded: Sequence[Any]) -> float:
        """An entry anywhere in a sojourn of any length, with every kind of start and of end."""
        both, cost = [], self.hidden[0][1]
        kinds = self.part.sojourns.starts, self.part.sojourns.ends
        for sides, told in zip(kinds, recorded, strict=True):
            each = [self._most(*own, cost) for own in zip(sides, told, strict=True)]
            both.append(np.max([np.zeros_like(cost), *each], axis=0))
        # Instead the other entries of the series may be paid for.
        others = (self.length - 1) * float(cost.max()) * _UP
        left = np.minimum(both[0], others)
        right = np.minimum(both[1], (others - left) * _UP)
        return self._of_hidden([(1, self.length, left)], [(1, self.length, right)])

    def _most(self, side: Any, recorded: Any, cost: Floats) -> Floats:
        """The most that a side of any length adds."""
        adds = _SideProof(side, [(_ENDLESS, cost)], recorded, self.work).adds()
        return np.asarray(np.max([table for _, _, table in adds], axis=0))

    def _of_entries(self, left: Adds, right: Adds, phase: int) -> float:
        """Values of an entry, or of the entries of a window, at the first of every stretch."""
        last, ends = self.length - self.window + 1, list(accumulate(n for n, _ in self.runs))
        firsts = {1, *(end + 1 for end in ends), *(first for first, _, _ in left)}
        firsts |= {last + 1 - stop for _, stop, _ in right}
        repeats = self.length if self.part.clock is not None else len(self.part.possible)
        firsts |= set(range(1, min(repeats, last) + 1))
        largest = 0.0
        for first in (n for n in firsts if 1 <= n <= last):
            cost = self.runs[bisect_left(ends, first)][1]
            before, after = _at(left, first), _at(right, last + 1 - first)
            largest = max(largest, self._of_values(cost, before, after, first, phase))
        return largest

    def _of_values(
        self, cost: Floats, before: Floats, after: Floats, first: int, phase: int
    ) -> float:
        """The largest loss between values of a window, from what is added to both its ends."""
        follows, slot, ahead = self.part.follows, phase + first - 1, cost + after
        for n in range(self.window - 2, -1, -1):
            if follows:
                step = follows[(slot + n) % len(follows)]
                reached = np.array([ahead[row].max(axis=0) for row in step])
                ahead = cost + np.array([reached[:, row].max(axis=1) for row in step]).T
            else:
                ahead = cost + float(ahead.max())
        loss = (before + ahead) * (1 + (self.window + 8) * EPS)
        known = self.window == 1 or follows  # else whichever values the entries have
        return self._weighed(loss, self._together(first, slot) if known else None)

    def _together(self, first: int, slot: int) -> Bools:
        """Pairs of values that are possible at an entry."""
        possible, cycle = self.part.possible, self.part.cycle
        if self.part.clock is not None:
            at = [slot % len(possible)]
        elif first <= len(possible) - cycle:
            at = [first - 1]
        else:
            at = list(range(len(possible) - cycle, len(possible)))
        both: Bools = np.any([np.outer(possible[n], possible[n]) for n in at], axis=0)
        return both

    def _weighed(self, loss: Floats, both: Bools | None = None) -> float:
        """The largest loss of a pair of values that is a secret."""
        if self.secret.weights is not None:
            loss = loss * self.secret.weights
        chosen = loss if both is None else loss[both]
        return float(chosen.max(initial=0.0)) * _UP if np.isfinite(chosen).all() else inf

    def _of_hidden(self, left: Adds, right: Adds) -> float:
        """The loss of an entry that depends on a hidden state, or of that state.

        The last step is taken at the recorded entries. Elsewhere both sides together add no more
        than at one of these, up to a remainder, and a step grows by no more than its variation.
        """
        firsts = {first for first, _, _ in left} | {self.length + 1 - stop for _, stop, _ in right}
        sums = {n: _at(left, n) + _at(right, self.length + 1 - n) for n in firsts}
        if not all(np.isfinite(both).all() for both in sums.values()):
            return inf
        here = np.outer(self.part.possible[0], self.part.possible[0])
        outside = 1 - np.eye(len(self.cost))
        if self.secret.state:
            return max(self._weighed(self.hidden[0][1] + both) for both in sums.values())
        if not self.part.posterior:
            most = max(float(both.max()) for both in sums.values())
            return self._weighed(self.cost + most * outside, here)
        last, plans = self.recorded["last"], Evaluator(self.recorded["last"]["plans"], self.work)
        entries = last["entries"]
        if not entries or not set(entries) <= set(sums):
            raise TypeError("the last step is taken at entries of the series")
        rest = max(min(float((own - sums[n]).max()) for n in entries) for own in sums.values())
        steps = [plans.step(self.part.posterior[0], closed(sums[n])) for n in entries]
        plans.end()
        loss = self.cost + np.max(steps, axis=0) + max(rest, 0.0) * outside
        return self._weighed(loss, here)

    def _of_labels(self, left: Adds, right: Adds) -> float:
        """The loss of the label of a window: the last state of entry and automaton is its secret.

        Steps go through the window, from the first entry with all that lies left of it.
        """
        labels = self.secret.labels
        if self.secret.window > self.length:
            return inf  # there is no such secret, and no such release is made
        plans = Evaluator(self.recorded["last"]["plans"], self.work)
        last = self.length - self.window + 1  # where a window begins, or ends from the right
        before = np.max([own for first, _, own in left if first <= last], axis=0)
        after = np.max([own for first, _, own in right if first <= last], axis=0)

        def at(n: int, table: Floats) -> Floats:
            return np.asarray(table[np.ix_(labels.entries[n], labels.entries[n])])

        variation = closed(at(0, self.cost + before) * _UP)
        for n, steps in enumerate(labels.steps(), 1):
            variation = closed((at(n, self.cost) + plans.step(steps, variation)) * _UP)
        loss = plans.step(labels.last, closed((variation + at(-1, after)) * _UP))
        plans.end()
        return self._weighed(loss)

    def _of_sets(self, left: Adds, right: Adds) -> float:
        """The values of several entries, exchanged one by one while others are given.

        A side may then end at a given value, however far away: it is one more side, with one limit
        for all entries from where that value hardly matters.
        """
        loss = self.cost
        ends = zip(self.secret.sets, (left, right), self.recorded["pinned"], strict=True)
        for pinned, adds, own in ends:
            far = len(pinned.near) + 2
            side = SimpleNamespace(
                steps=lambda entry, _, near=pinned.near: near[entry - 2],
                later=lambda _, steps=pinned.far: steps,
                settled=far,
                together=None,
                paid=False,
            )
            limits = [{"first": far, "last": _ENDLESS, "limit": own["limit"]}]
            recorded = {"limits": limits, "blocks": [], "plans": own["plans"]}
            tables = [self._most(side, recorded, self.cost), *(table for _, _, table in adds)]
            loss = loss + np.max(tables, axis=0)
        return float(min(self.secret.count, self.length) * self._weighed(loss))

    def _round_the_clock(self, recorded: Sequence[Any]) -> float:
        """Long series with seasons: one round through the period from a recorded limit."""
        clock = self.part.clock
        left = self._circle(clock.left, -1, recorded[0])
        right = self._circle(clock.right, 1, recorded[1])
        period, ahead = len(left), self.window - 1
        return max(
            self._of_values(self.cost, left[slot], right[(slot + ahead) % period], 1, slot)
            for slot in range(period)
        )

    def _circle(
        self, steps: Sequence[Any], ahead: int, recorded: Mapping[str, Any]
    ) -> list[Floats]:
        """What a side adds at every slot, if the limit is not above itself after a round."""
        period, plans = len(steps), Evaluator(recorded["plans"], self.work)
        slot, limit = recorded["slot"], _limit(recorded["limit"], len(self.cost))
        if not 0 <= slot < period:
            raise TypeError(f"the clock has slots 0 to {period - 1}, not {slot}")
        adds, variation = [limit] * period, limit
        for _ in range(period):
            slot = (slot - ahead) % period
            adds[slot] = plans.step(steps[slot], variation)
            variation = closed((self.cost + adds[slot]) * _UP)
        plans.end()
        if not np.all(variation <= limit):
            raise Unshown
        return adds


class _SideProof:
    """One side of all entries, counted from its end."""

    def __init__(self, side: Any, runs: PaidRuns, recorded: Any, work: Allowance) -> None:
        self.side, self.work, self.size = side, work, len(runs[0][1])
        self.ends = list(accumulate(count for count, _ in runs))
        self.length = self.ends[-1]
        self.paid = [float(cost.max()) for _, cost in runs]
        self.outside = 1 - np.eye(self.size)
        together = np.ones((self.size, self.size), bool) if side.together is None else side.together
        self.counted, self.masked = together & (self.outside > 0), side.together is not None
        self.costs = [np.where(self.counted, cost, _FAR) * self.outside for _, cost in runs]
        self.limits: dict[int, tuple[int, Floats | None]] = {}
        for own in recorded["limits"]:
            first, last = own["first"], own["last"]
            if not 2 <= first <= last <= self.length:
                raise TypeError(f"a limit holds for entries {first} to {last}, of {self.length}")
            self.limits[first] = last, own["limit"] and _limit(own["limit"], self.size)
        self.blocks: dict[int, list[int]] = {}
        for first, sizes in recorded["blocks"]:
            if not 1 <= min(sizes, default=1) <= max(sizes, default=1) <= self.length:
                raise TypeError("a proof names blocks that are not there")
            self.blocks[first] = sizes
        self.steps = Evaluator(recorded["plans"], work)
        self.rows: Adds = []
        self.met: Adds = []  # the variation of the entries so far

    def adds(self) -> Adds:
        """What the side adds to every entry."""
        self._add(1, 1, np.zeros((self.size, self.size)), self._closure(self.costs[0]))
        entry = 2
        while entry <= self.length:
            self.work.spend(1e4 * len(self.ends))
            last, limit = self.limits.get(entry, (entry, None))
            if entry not in self.limits:
                self._add(entry, entry, *self._recursion(entry))
            elif self._run(last) != self._run(entry):
                raise Unshown
            elif limit is None:
                self._add(entry, last, *self._whole(last))
            else:
                self._add(entry, last, *self._at_limit(entry, last, limit))
            entry = last + 1
        self.steps.end()
        return self.rows

    def _recursion(self, entry: int) -> tuple[Floats, Floats]:
        """What is added to one entry, from what those before it varied by, and its variation."""
        sizes = self.blocks.get(entry, [1])
        if max(sizes, default=1) >= entry:
            raise TypeError("a block is longer than the side of its entry")
        adds = self._least(
            [self.side.steps(entry, m) for m in sizes],
            [_at(self.met, entry - m) for m in sizes],
            [self._paid(entry - m + 1, entry - 1) for m in sizes],
            self._paid(1, entry - 1) if self.side.paid else inf,
        )
        return adds, self._closure(_plus(self.costs[self._run(entry)], adds) * self.outside)

    def _whole(self, last: int) -> tuple[Floats, Floats]:
        """All entries of the side are paid for."""
        adds = self._paid(1, last - 1) * self.outside
        return adds, (adds + self.costs[self._run(last)]) * _UP

    def _at_limit(self, first: int, last: int, limit: Floats) -> tuple[Floats, Floats]:
        """What is added to entries that a limit bounds, and their variation.

        If the limit does not hold, all entries of the side are paid for: costs may be of the size
        of rounding errors, where nothing holds and nothing is lost.

        Blocks that reach beyond the end of the side cost less: all of it is paid for.
        """
        run, sizes = self._run(first), self.blocks.get(first, [1])
        begun, reach = self.ends[run - 1] if run else 0, max(sizes, default=1)
        if (
            (self.side.settled > 2 and first < self.side.settled + reach - 1)
            or (begun and first - begun < reach)
            or (reach > 1 and not self.side.paid)
            or (self.masked and not limit[self.counted].max(initial=0.0) <= _FAR / 2)
        ):
            raise Unshown
        paid = [(m - 1) * self.paid[run] * _UP for m in sizes]
        adds = self._least([self.side.later(m) for m in sizes], [limit] * len(sizes), paid, inf)
        within = [_at(self.met, entry) for entry in range(max(1, first - reach), first)]
        within.append(_plus(self.costs[run], adds))
        holds = all(np.all((own <= limit) | ~self.counted) for own in within)
        return (adds, limit) if holds else self._whole(last)

    def _least(
        self,
        steps: Sequence[Any],
        variations: Sequence[Floats],
        paid: Sequence[float],
        whole: float,
    ) -> Floats:
        """The least over blocks of what is paid and the step; what is no number bounds nothing."""
        least = np.where(self.counted, whole, 0.0)
        for own, variation, spent in zip(steps, variations, paid, strict=True):
            if own is None:
                raise TypeError("a proof names blocks that are not there")
            table = self.steps.step(own, variation)
            bound = (spent + table) * _UP if spent else table
            least = np.where((bound < least) & np.isfinite(bound), bound, least)
        return np.where(self.counted, least, 0.0)

    def _add(self, first: int, last: int, adds: Floats, variation: Floats) -> None:
        self.rows.append((first, last, adds))
        self.met.append((first, last, variation))

    def _run(self, entry: int) -> int:
        return bisect_left(self.ends, entry)

    def _paid(self, first: int, last: int) -> float:
        """What the entries ``first`` ... ``last`` pay together, rounded up."""
        total, before = 0.0, 0
        for end, paid in zip(self.ends, self.paid, strict=True):
            total += max(0, min(end, last) - max(before, first - 1)) * paid
            before = end
        return total * (1 + 4 * len(self.ends) * EPS)

    def _closure(self, variation: Floats) -> Floats:
        """The triangle closure; infinite where a way between values that never meet was shorter."""
        nearest = closed(variation)
        if self.masked and not nearest[self.counted].max(initial=0.0) <= _FAR / 2:
            return np.where(self.counted, inf, nearest)
        return nearest


def _plus(cost: Floats, adds: Floats) -> Floats:
    """The sum, rounded up; exact where the cost is zero."""
    return np.where(cost > 0, (cost + adds) * (1 + 4 * EPS), adds)


def _at(rows: Adds, entry: int) -> Floats:
    return rows[bisect_left(rows, entry, key=lambda row: row[1])][2]


def _limit(recorded: Any, size: int) -> Floats:
    """A recorded limit, a number for each pair of values."""
    limit = unpacked_matrix(recorded, size)
    if not (np.isfinite(limit).all() and limit.min() >= 0):
        raise TypeError("a limit must have a number for each pair of values")
    return off_diagonal(limit)
