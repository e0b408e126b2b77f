"""The pairwise curve of classes given by their kernels: hulls, regimes, seasons, longer memory.

The theorem is that of `pufferkit.influence.curve.pairs` on the hidden states. It remains to show
how entries and hidden states are connected.

*Emissions.* Given its hidden state w an entry is drawn from E(w, .), independently of the rest, and
replacing an entry x by x' costs c(x, x'). Then the theorem holds on the hidden states with

    cost(w, w') = step(E(w, .), E(w', .); c),

and the loss of the entry is c(x, x') + max over l of step(Pi^l(x, .), Pi^l(x', .); M). Proof: given
W_{t+1} the likelihood varies by at most c in X_t, whatever W_{t+1} is, so exchanging E(w, .) for
E(w', .) costs at most the step, and what remains is the mean of a function of W_{t+1} alone under
K(w, .), as before. Given (W_i, X_i) the rest of the series depends on W_i only: exchange x for x'
at the cost c(x, x'); the remaining mean is a function of W_i whose logarithm varies by M_i.
QED Where entries are a function of the hidden state, the step is c itself.

*Contaminated emissions*, and any distribution of the hidden state given the entry: the steps of
`pufferkit.influence.curve.contaminated` in place of those of E, and c(x, x') + max M at the end,
because no two means of a function differ by more than it varies.

*The hidden state as the secret*: exchanging it exchanges its entry too, cost + M.

*Seasons.* With a kernel for each slot, the variation at an entry is a function of its slot. Where
cost + step(K_s; C_{s+1}) <= C_s for all slots s, cyclically, C_s bounds the variation at every
entry of slot s, whatever the length of the series and its first slot. For several runs of
different costs the largest cost of each pair is taken for all entries.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from pufferkit.beliefs.kernel_class import Kernels
from pufferkit.checks import Bools, Floats
from pufferkit.errors import NotApplicable
from pufferkit.influence.curve.contaminated import ContaminatedSteps, contaminated_discrete
from pufferkit.influence.curve.engine import (
    EXPLICIT_WORK,
    PRECISION,
    CostRuns,
    EntryLoss,
    Side,
    Stretch,
    stretches_of_both,
    swept,
)
from pufferkit.influence.curve.pair_plans import plans_bytes
from pufferkit.influence.curve.pairs import (
    LARGEST,
    SLACK,
    PairSteps,
    Steps,
    closure,
    off_diagonal,
)
from pufferkit.influence.curve.pinned import Pinned, PinnedSide
from pufferkit.influence.curve.window_losses import LabelLosses, value_losses, windows_of_both
from pufferkit.influence.progress import Progress
from pufferkit.rounding import EPS, largest_within

MOST_BYTES = 8 * 10**9
"""Most memory that the plans of a class may take."""

_MOST_PERIODS = 400
_EXPLICIT_STEPS = 400
_FEW_SLOTS = 12
_FEW_STATES = 3
_LITTLE_WORK = 4_000
_FIRST_TRIAL = 20.0
_FAR = 40.0

LossRow = tuple[int, int, Floats]
"""First and last entry of a stretch, and the loss of every pair of secrets there."""


class KernelCurve:
    """The curve of one part of a class, for series of one length."""

    def __init__(self, kernels: Kernels, length: int) -> None:
        self.kernels, self.length = kernels, length
        error = kernels.rounding
        needed = sum(
            plans_bytes(kernel)
            for side in (kernels.forward, kernels.backward)
            for vertices in side
            for kernel in vertices
        )
        if needed > MOST_BYTES:
            raise NotApplicable(
                f"the influence curve of {kernels.hidden:,} states needs about {needed / 1e9:.3g} "
                f"GB of memory, more than {MOST_BYTES / 1e9:.3g}; merge states, or give fewer "
                "matrices or a shorter memory"
            )
        self._right = [self._steps(vertices, 0.0) for vertices in kernels.forward]
        self._left = [self._steps(vertices, error) for vertices in kernels.backward]
        self._posterior = [PairSteps(vertices, error) for vertices in kernels.posterior]
        self._last: dict[str, tuple[float, list[Floats]]] = {}

    def _steps(self, vertices: Sequence[Floats], error: float) -> Steps:
        if self.kernels.emission is None and self.kernels.contamination:
            return ContaminatedSteps(vertices, self.kernels.contamination, error)
        work = self.length * self.kernels.hidden**2
        often = (
            self.kernels.period > _FEW_SLOTS
            or self.kernels.hidden > _FEW_STATES
            or _LITTLE_WORK < work <= EXPLICIT_WORK
        )
        return PairSteps(vertices, error, often=often)

    @cached_property
    def _emission(self) -> Steps | None:
        kernels = self.kernels
        if kernels.emission is None:
            return None
        if kernels.contamination:
            return ContaminatedSteps(kernels.emission, kernels.contamination)
        return PairSteps(kernels.emission)

    def hidden_cost(self, cost: Floats) -> Floats:
        """The cost of replacing a hidden state, from the cost of replacing an entry."""
        if self._emission is None:
            return cost
        kernels = self.kernels
        if kernels.contamination and _constant(cost):
            assert kernels.emission is not None
            own = [
                contaminated_discrete(e, kernels.contamination, float(cost.max()))
                for e in kernels.emission
            ]
            largest: Floats = np.max(own, axis=0)
            return largest
        return self._emission(closure(cost))

    def _secret_loss(self, cost: Floats, hidden: Floats, steps: Floats, slot: int) -> Floats:
        """The loss of every pair of secrets, from the steps of both sides on the hidden states."""
        kernels = self.kernels
        if kernels.secret == "regime" or kernels.emission is None:
            loss = hidden + steps
        elif not self._posterior:
            loss = cost + float(steps.max()) * off_diagonal(len(cost))
        else:
            loss = cost + self._posterior[slot](closure(steps))
        loss = loss * (1 + 8 * EPS)
        if kernels.secret == "regime":
            return loss
        if kernels.parts is not None:
            loss = loss * kernels.parts * (1 + 4 * EPS)
        here = kernels.possible[slot]
        return np.where(here[:, None] & here[None, :], loss, 0.0)

    def losses(self, runs: CostRuns, most: float = LARGEST) -> list[LossRow] | None:
        """The loss of every pair of secrets at every stretch of entries; ``None`` if no bound.

        Stretches that lose no more than another one, for every pair, may be left out.
        """
        hidden = [(count, self.hidden_cost(cost)) for count, cost in runs]
        if self.kernels.period > 1:
            return self._by_clock(runs, hidden, most)
        left = swept(Side.of(self._left[0]), hidden, most)
        if left is None:
            return None
        right = swept(Side.of(self._right[0]), hidden[::-1], most)
        if right is None:
            return None
        if self.kernels.sets > 1:
            return self._of_sets(left, right, runs, most)
        if self.kernels.window > 1 or self.kernels.paths is not None:
            return self._of_windows(left, right, runs)
        costs = list(stretches_of_both([_whole(self.length)], [_whole(self.length)], runs))
        stretches = [
            (first, last, next(c for a, z, c, *_ in costs if a <= first <= z), own, before + after)
            for first, last, own, before, after in stretches_of_both(left, right, hidden)
        ]
        return self._undominated(stretches)

    def _of_sets(
        self, left: list[Stretch], right: list[Stretch], runs: CostRuns, most: float
    ) -> list[LossRow] | None:
        """The loss of one entry when others are given, times the number of entries of a set."""
        cost = np.max([own for _, own in runs], axis=0)
        pinned = self._pinned(cost, most)
        if pinned is None:
            return None
        sides = [
            np.max([own.adds, *(stretch.steps for stretch in open_)], axis=0)
            for own, open_ in zip(pinned, (left, right), strict=True)
        ]
        count = min(self.kernels.sets, self.length)
        return [(1, self.length, count * (cost + sides[0] + sides[1]) * (1 + 16 * EPS))]

    def _pinned(self, cost: Floats, most: float) -> tuple[Pinned, Pinned] | None:
        """What the left and the right side add when an entry beyond them is given."""
        left = self._pinned_sides[0](cost, most)
        right = None if left is None else self._pinned_sides[1](cost, most)
        return None if left is None or right is None else (left, right)

    @cached_property
    def _pinned_sides(self) -> tuple[PinnedSide, PinnedSide]:
        kernels = self.kernels
        left = PinnedSide(kernels.backward[0][0], kernels.rounding)
        return left, PinnedSide(kernels.forward[0][0], 0.0)

    @property
    def window(self) -> int:
        """Number of entries that a secret is about, at most the length of the series."""
        return min(self.kernels.window, self.length)

    def _follows(self, slot: int) -> list[Bools]:
        """Which values can follow which, for the entries of a window from ``slot`` on."""
        kernels, own = self.kernels, self.kernels.forward
        if kernels.contamination:
            return [np.ones((kernels.hidden, kernels.hidden), dtype=bool)] * (self.window - 1)
        return [
            np.any([vertex > 0 for vertex in own[(slot + n) % kernels.period]], axis=0)
            for n in range(self.window - 1)
        ]

    def _value_losses(self, cost: Floats, left: Floats, right: Floats, slot: int) -> Floats:
        here = self.kernels.possible[slot]
        losses = value_losses(cost, left, right, self._follows(slot))
        return np.where(here[:, None] & here[None, :], losses, 0.0)

    @cached_property
    def _label_losses(self) -> LabelLosses:
        assert self.kernels.paths is not None
        return LabelLosses(self.kernels.paths, self.kernels.rounding)

    def _of_windows(
        self, left: list[Stretch], right: list[Stretch], runs: CostRuns
    ) -> list[LossRow] | None:
        """The loss of every pair of values, or of labels, of the windows of the series.

        For labels, windows of the same cost are bounded together, by the largest step of a side.
        """
        windows = list(windows_of_both(left, right, runs, self.window))
        if self.kernels.paths is None:
            return [
                (first, last, self._value_losses(cost, before, after, 0))
                for first, last, cost, before, after in windows
            ]
        if self.kernels.window > self.length:  # no window, nothing to hide
            return [(1, self.length, np.zeros((1, 1)))]
        alike: dict[bytes, list[tuple[int, int, Floats, Floats, Floats]]] = {}
        for own in windows:
            alike.setdefault(own[2].tobytes(), []).append(own)
        rows: list[LossRow] = []
        for group in alike.values():
            most_left = np.max([own[3] for own in group], axis=0)
            most_right = np.max([own[4] for own in group], axis=0)
            losses = self._label_losses(group[0][2], most_left, most_right)
            if losses is None:
                return None
            rows.append((group[0][0], group[-1][1], losses))
        return rows

    def _undominated(
        self, stretches: list[tuple[int, int, Floats, Floats, Floats]]
    ) -> list[LossRow]:
        """Losses of the stretches whose costs and steps are not below those of another."""
        rows: list[LossRow] = []
        seen: list[tuple[Floats, Floats]] = []
        for first, last, cost, hidden, steps in sorted(stretches, key=lambda s: -s[4].max()):
            if any(np.all(cost <= c) and np.all(steps <= s) for c, s in seen):
                continue
            seen.append((cost, steps))
            rows.append((first, last, self._secret_loss(cost, hidden, steps, 0)))
        return rows

    def _by_clock(self, runs: CostRuns, hidden: CostRuns, most: float) -> list[LossRow] | None:
        kernels = self.kernels
        phases = range(kernels.period) if kernels.start is None else (kernels.start,)
        if self._short:
            return [row for phase in phases for row in self._followed(runs, hidden, phase, most)]
        cost = np.max([c for _, c in runs], axis=0)
        own = np.max([c for _, c in hidden], axis=0)
        tables = self._round_the_clock(own, most)
        if tables is None:
            return None
        if self.window > 1:
            left, right = tables
            ends = [(slot + self.window - 1) % kernels.period for slot in range(kernels.period)]
            return [
                (1, self.length, self._value_losses(cost, left[slot], right[end], slot))
                for slot, end in enumerate(ends)
            ]
        return [
            (1, self.length, self._secret_loss(cost, own, left + right, slot))
            for slot, (left, right) in enumerate(zip(*tables, strict=True))
        ]

    def _followed(self, runs: CostRuns, hidden: CostRuns, phase: int, most: float) -> list[LossRow]:
        """The loss of every entry, the first one at slot ``phase``."""
        costs = [cost for count, cost in runs for _ in range(count)]
        own = [cost for count, cost in hidden for _ in range(count)]
        period = self.kernels.period
        outside = (1 + 2 * EPS) * off_diagonal(len(own[0]))
        left, right = [np.zeros_like(own[0])], [np.zeros_like(own[0])]
        variation = closure(own[0])
        for n in range(1, self.length):
            left.append(_cut(self._left[(phase + n) % period], variation))
            variation = closure((own[n] + left[-1]) * outside)
        variation = closure(own[-1])
        for n in range(self.length - 2, -1, -1):
            right.append(_cut(self._right[(phase + n) % period], variation))
            variation = closure((own[n] + right[-1]) * outside)
        rows = []
        if self.window > 1:
            right.reverse()
            for n in range(self.length - self.window + 1):
                end = n + self.window - 1
                cost = np.max(costs[n : end + 1], axis=0)
                losses = self._value_losses(cost, left[n], right[end], (phase + n) % period)
                rows.append((n + 1, n + 1, losses))
            return rows
        for n, steps in enumerate(reversed(right)):
            slot = (phase + n) % period
            rows.append((n + 1, n + 1, self._secret_loss(costs[n], own[n], left[n] + steps, slot)))
        return rows

    def _round_the_clock(self, cost: Floats, most: float) -> list[list[Floats]] | None:
        """What the left and the right side add at every slot, for series of any length."""
        tables = []
        for side in ("left", "right"):
            circle = self._circle(side, cost, most)
            if circle is None:
                return None
            tables.append(circle[0])
        return tables

    def _circle(
        self, side: str, cost: Floats, most: float
    ) -> tuple[list[Floats], list[Floats]] | None:
        """What a side adds at every slot, and the limits C that imply it.

        Slots are visited against the direction in which the side runs, so that each step is taken
        at the limit of this round, except at the slot where the round begins: that one uses the
        limit of the previous round. Limits are for a cost raised by a slack; if no limit has
        changed by more than half of it, C minus half the slack is a bound at all slots.
        """
        period, outside = self.kernels.period, off_diagonal(len(cost))
        steps, ahead = (self._left, -1) if side == "left" else (self._right, 1)
        order = range(period) if side == "left" else range(period - 1, -1, -1)
        slack = SLACK * float(cost.max()) or SLACK
        raised = cost + slack * outside
        scale = float(cost.max()) / self._last[side][0] if side in self._last else 0.0
        limits = [closure(raised) for _ in range(period)]
        if scale:
            limits = [np.maximum(scale * warm, raised) for warm in self._last[side][1]]
            limits = [closure(limit * outside) for limit in limits]
        tables = [raised] * period
        for _ in range(_MOST_PERIODS):
            moved = 0.0
            for slot in order:
                tables[slot] = steps[slot](limits[(slot + ahead) % period])
                update = closure((raised + tables[slot]) * outside * (1 + 4 * EPS))
                moved = max(moved, float(np.abs(update - limits[slot]).max()))
                limits[slot] = update
                if float(update.max()) > min(most, LARGEST):
                    return None
            if moved <= 0.5 * slack:
                self._last[side] = float(cost.max()), limits
                return tables, [limit - 0.5 * slack * outside for limit in limits]
        return None

    def record(self, cost: Floats) -> dict[str, Any] | None:
        """Verification data: the limits, to the left and the right; ``None`` without a bound."""
        hidden = self.hidden_cost(cost)
        if self.kernels.period > 1:
            return self._clock_record(hidden)
        record: dict[str, Any] = {}
        for name, steps in (("left", self._left[0]), ("right", self._right[0])):
            stretches = swept(Side.of(steps), [(self.length, hidden)], LARGEST)
            if stretches is None:
                return None
            record[name] = None
            for stretch in stretches:
                if stretch.last > stretch.first and stretch.limit is not None:
                    record[name] = {"from": stretch.first, "limit": stretch.limit.tolist()}
        if self.kernels.sets > 1:
            pinned = self._pinned(hidden, LARGEST)
            if pinned is None:
                return None
            record["pinned"] = [side.limit.tolist() for side in pinned]
        return record

    def _clock_record(self, hidden: Floats) -> dict[str, Any] | None:
        """The limit at the slot after the last of a round: one round from there implies all."""
        if self._short:
            return {"left": None, "right": None}
        record: dict[str, Any] = {}
        for side, slot in (("left", self.kernels.period - 1), ("right", 0)):
            circle = self._circle(side, hidden, LARGEST)
            if circle is None:
                return None
            record[side] = {"slot": slot, "limit": circle[1][slot].tolist()}
        return record

    @property
    def _short(self) -> bool:
        """Whether series with seasons are computed entry by entry."""
        phases = 1 if self.kernels.start is not None else self.kernels.period
        return phases * self.length <= _EXPLICIT_STEPS

    def loss(self, runs: CostRuns, most: float = LARGEST) -> EntryLoss | None:
        """The largest loss, where it is, and the losses of all pairs there."""
        rows = self.losses(runs, most)
        if not rows:
            return None
        first, last, losses = max(rows, key=lambda row: float(row[2].max()))
        return EntryLoss(float(losses.max()), (first + last) // 2, losses)

    def solve(
        self, metric: Floats, epsilon: float, most: float, progress: Progress | None = None
    ) -> tuple[float, EntryLoss] | None:
        """The largest b reached for which the cost ``b metric`` per entry loses at most epsilon.

        The loss was computed for the b that is returned. ``None`` if the search has no result.
        """
        # Hidden states may be easier to distinguish than their entries, and so may values that are
        # not secrets.
        kernels = self.kernels
        exposed = kernels.emission, kernels.paths, kernels.parts
        most_hidden = epsilon if all(e is None for e in exposed) else _FAR + 4 * epsilon

        def loss_at(b: float) -> tuple[float, EntryLoss] | None:
            loss = self.loss([(self.length, b * metric)], most_hidden)
            return None if loss is None else (loss.value, loss)

        start = epsilon / _FIRST_TRIAL
        return largest_within(loss_at, epsilon, start, most, PRECISION, progress=progress)


def _cut(steps: Steps, variation: Floats) -> Floats:
    """Steps, with variations whose exponential overflows cut off: such bounds are useless."""
    if float(variation.max()) > LARGEST:
        return np.where(off_diagonal(len(variation)) > 0, np.inf, 0.0)
    return steps(variation)


def _constant(cost: Floats) -> bool:
    apart = cost[off_diagonal(len(cost)) > 0]
    return bool(apart.size) and bool(np.all(apart == apart[0]))


def _whole(length: int) -> Stretch:
    nothing = np.zeros((1, 1))
    return Stretch(1, length, nothing, None)
