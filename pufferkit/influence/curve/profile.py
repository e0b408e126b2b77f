"""From a profile of event-level epsilons to Pufferfish epsilon: the influence curve of a class.

Two bounds hold for every chain of a class, and the better one is taken:

- the *scalar* curve (`pufferkit.influence.curve.sweep`), which may jump over blocks of entries and
  knows bounds for any start, regions and mixing classes;
- the *pairwise* curve (`pufferkit.influence.curve.pair_curve`), for chains with a known start,
  which follows the variation between each pair of states: similar values reveal less.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from math import inf
from typing import Any

import numpy as np

from pufferkit import checks
from pufferkit.beliefs.chain_class import ChainClass, Member, as_chain_class
from pufferkit.checks import Floats
from pufferkit.data.queries import CLOSE
from pufferkit.influence.curve import regions  # noqa: F401  (registers its sides)
from pufferkit.influence.curve.kernel_curve import KernelCurve
from pufferkit.influence.curve.pair_curve import PairCurve, PairLoss
from pufferkit.influence.curve.pair_sides import LARGE
from pufferkit.influence.curve.pairs import off_diagonal
from pufferkit.influence.curve.screening import FEW, Screen
from pufferkit.influence.curve.starts import SHORT, class_sides, sides_of
from pufferkit.influence.curve.sweep import (
    EntryLoss,
    Run,
    Side,
    Sweep,
    entry_loss,
    largest_loss,
    quick_loss,
    window_loss,
)
from pufferkit.influence.progress import Progress
from pufferkit.rounding import EPS, last_passing, round_up

_PRECISION = 1e-8
_ROUGH = 0.02
_GROWTH = 1.1
_MOST_OPTIONS = 3
_MANY = 4


@dataclass(frozen=True, eq=False)
class Metric:
    """Distances between states for a release, relative to the two that are furthest apart.

    An entry of event-level epsilon b moves the log-likelihood by at most ``b distance(x, x')`` when
    x is replaced by x'.
    """

    distance: Floats

    @classmethod
    def discrete(cls, size: int) -> Metric:
        """All states at distance 1: valid for anything with event-level epsilon b."""
        return cls(off_diagonal(size))

    @classmethod
    def of(cls, contributions: Sequence[float | tuple[float, ...]]) -> Metric:
        """The metric of a noisy sum, from the contributions of the states: numbers or rows of them.

        It is the L1 distance, scaled so that the largest is 1. States that contribute
        almost the same keep a small distance, for the rounding of answers.
        """
        values = np.array(contributions).reshape(len(contributions), -1)
        distance = np.abs(values[:, None, :] - values[None, :, :]).sum(axis=2)
        room = values.shape[1] * EPS
        apart = np.clip(distance * (1 + 16 * EPS + room) + 4 * room, CLOSE, 1.0)
        return cls(np.where(distance > 0, apart, 0.0))


@dataclass(frozen=True, eq=False)
class PairRun:
    """``count`` consecutive entries, and the cost of replacing a state by another there."""

    count: int
    cost: Floats

    @property
    def scalar(self) -> Run:
        """The same with one number, the largest cost of a pair."""
        return Run(self.count, float(self.cost.max()))


Profile = float | Sequence[float] | Sequence[Run] | Sequence[PairRun]


@dataclass(frozen=True, eq=False)
class _MemberCurve:
    """The curves of the entries under one chain of the class, or under all of a mixing class."""

    name: str
    left: Side
    right: Side
    pairs: PairCurve | None = None
    notes: tuple[str, ...] = ()
    window: int = 1
    share: float = 1.0

    def loss(self, spent: Sequence[PairRun], by_pairs: bool = True) -> EntryLoss:
        scalar = self.scalar([run.scalar for run in spent])
        if self.pairs is None or not by_pairs:
            return scalar
        pairwise = self.pairs.loss(_runs(spent))
        if pairwise is None or pairwise.value >= scalar.value:
            return scalar
        return _as_entry_loss(pairwise)

    def hides(self, spent: PairRun, epsilon: float) -> bool:
        """Whether no entry loses more than epsilon, by the quickest bound that shows it."""
        if self.quick([spent.scalar]) <= epsilon or self.scalar([spent.scalar]).value <= epsilon:
            return True
        pairwise = None if self.pairs is None else self.pairs.loss(_runs([spent]))
        return pairwise is not None and pairwise.value <= epsilon

    def scalar(self, runs: Sequence[Run]) -> EntryLoss:
        loss = self._of_entries(runs) if self.window == 1 else self._of_windows(runs)
        return loss if self.share == 1 else replace(loss, value=round_up(loss.value * self.share))

    def _of_windows(self, runs: Sequence[Run]) -> EntryLoss:
        left, right = self._sweeps(runs)
        whole = _everything(runs)
        if self.window >= left.length:
            return EntryLoss(whole, 1, None, None)
        loss = window_loss(left, right, self.window)
        value = round_up(loss.value, 8 + len(runs))
        return (
            EntryLoss(whole, loss.node, None, None) if whole < value else replace(loss, value=value)
        )

    def _of_entries(self, runs: Sequence[Run]) -> EntryLoss:
        left, right = self._sweeps(runs)
        loss = largest_loss(left, right, _options(left.length))
        whole, quick = _everything(runs), quick_loss(left, right)
        if whole < min(loss.value, quick):
            return EntryLoss(whole, loss.node, None, None)
        # The quick bound has less rounding; a loss that it bounds must not count as larger here.
        return loss if loss.value <= quick else replace(loss, value=quick)

    def quick(self, runs: Sequence[Run]) -> float:
        """A cheaper upper bound on the scalar loss."""
        if self.window > 1 or self.share < 1:
            return self.scalar(runs).value
        return min(quick_loss(*self._sweeps(runs)), _everything(runs))

    def entry_losses(self, spent: Sequence[PairRun]) -> Floats:
        runs = [run.scalar for run in spent]
        if self.window > 1 or self.share < 1:
            return np.full(sum(run.count for run in runs), self.scalar(runs).value)
        left, right = self._sweeps(runs)
        most = _options(left.length)
        each = [entry_loss(left, right, node, most).value for node in range(1, left.length + 1)]
        losses: Floats = np.minimum(each, _everything(runs))
        rows = self._pair_rows(spent)
        for first, last, pairs in rows:
            own = losses[first - 1 : last]
            losses[first - 1 : last] = np.minimum(own, float(pairs.max()))
        return losses

    def losses(self, spent: Sequence[PairRun]) -> Floats:
        """The loss of every pair of states, the largest over the entries."""
        scalar = self.scalar([run.scalar for run in spent]).value
        size = len(spent[0].cost)
        rows = self._pair_rows(spent)
        if not rows:
            return scalar * off_diagonal(size)
        largest: Floats = np.max([pairs for _, _, pairs in rows], axis=0)
        return np.minimum(largest, scalar)

    def record(self, spent: PairRun, epsilon: float) -> dict[str, Any] | None:
        """Verification data of the pairwise bound, where the scalar loss is above ``epsilon``."""
        if self.pairs is None or self.scalar([spent.scalar]).value <= epsilon:
            return None
        return self.pairs.record(spent.cost)

    def _pair_rows(self, spent: Sequence[PairRun]) -> list[tuple[int, int, Floats]]:
        if self.pairs is None:
            return []
        return self.pairs.losses(_runs(spent)) or []

    def _sweeps(self, runs: Sequence[Run]) -> tuple[Sweep, Sweep]:
        return Sweep(self.left, runs), Sweep(self.right, runs[::-1])

    def solve(
        self,
        metric: Metric,
        epsilon: float,
        most: float,
        length: int,
        progress: Progress | None = None,
    ) -> tuple[float, EntryLoss]:
        """The largest b reached up to ``most`` with a loss of at most epsilon, and that loss.

        With many states, or kernels of many entries, the pairwise curve is solved first. If the
        scalar curve loses more than epsilon at that b, no larger b passes it, as its loss grows
        with b: one evaluation shows that the pairwise bound is the better one.
        """
        dear = len(metric.distance) >= LARGE or len(self.left.stretches) > SHORT
        if self.pairs is not None and dear:
            start = self._quick_start(epsilon, most, length)
            better = self.pairs.solve(metric.distance, epsilon, start, most, progress)
            if better is not None:
                above = self.scalar([Run(length, better[0] * (1 + 2 * _PRECISION))])
                if better[0] >= most or above.value > epsilon:
                    return better[0], _as_entry_loss(better[1])
        b, loss = self._solve_scalar(epsilon, most, length)
        if self.pairs is None or b >= most:
            return b, loss
        better = self.pairs.solve(metric.distance, epsilon, b, most, progress)
        if better is None or better[0] <= b:
            return b, loss
        return better[0], _as_entry_loss(better[1])

    def _quick_start(self, epsilon: float, most: float, length: int) -> float:
        """A starting point of the search from below, by the quick bound."""

        def quick(b: float) -> float:
            return epsilon - self.quick([Run(length, b)])

        start = high = min(most, epsilon / length * (1 - 1e-12))
        while high < most and quick(high := min(most, 4 * high)) >= 0:
            start = high
        if start < high and quick(start) >= 0:
            start = last_passing(quick, start, high, _ROUGH)
        return start

    def _solve_scalar(self, epsilon: float, most: float, length: int) -> tuple[float, EntryLoss]:
        @cache
        def loss(b: float) -> EntryLoss:
            return self.scalar([Run(length, b)])

        low = epsilon / length * (1 - 1e-12)
        if low >= most or loss(most).value <= epsilon:
            return most, loss(most)
        # The quick bound gives a starting point; then the loss itself decides.
        start = self._quick_start(epsilon, most, length)
        if loss(start).value > epsilon:
            start = low
        nudged = start * (1 + 2 * _PRECISION)
        if nudged >= most or loss(nudged).value > epsilon:
            return start, loss(start)
        low, high, factor = start, start, _GROWTH
        while high < most:
            high, factor = min(most, factor * high), factor**2
            if loss(high).value > epsilon:
                break
            low = high
        b = last_passing(lambda b: epsilon - loss(b).value, low, high, _PRECISION)
        return b, loss(b)


@dataclass(frozen=True, eq=False)
class _KernelMember:
    """The curve of a part of a class that is given by its kernels."""

    name: str
    curve: KernelCurve
    notes: tuple[str, ...] = ()

    def loss(self, spent: Sequence[PairRun], by_pairs: bool = True) -> EntryLoss:
        whole = _everything([run.scalar for run in spent])
        pairwise = self.curve.loss(_runs(spent))
        if pairwise is None or pairwise.value > whole:
            return EntryLoss(whole, 1, None, None)
        return EntryLoss(pairwise.value, pairwise.entry, None, None, pairwise.losses)

    def hides(self, spent: PairRun, epsilon: float) -> bool:
        return self.loss([spent]).value <= epsilon

    def entry_losses(self, spent: Sequence[PairRun]) -> Floats:
        losses = np.full(self.curve.length, self.loss(spent).value)
        return losses

    def losses(self, spent: Sequence[PairRun]) -> Floats:
        whole = _everything([run.scalar for run in spent])
        rows = self.curve.losses(_runs(spent))
        if not rows:
            return whole * off_diagonal(len(spent[0].cost))
        largest: Floats = np.max([pairs for _, _, pairs in rows], axis=0)
        return np.minimum(largest, whole)

    def record(self, spent: PairRun, epsilon: float) -> dict[str, Any] | None:
        return self.curve.record(spent.cost)

    def solve(
        self,
        metric: Metric,
        epsilon: float,
        most: float,
        length: int,
        progress: Progress | None = None,
    ) -> tuple[float, EntryLoss]:
        """The largest b reached up to ``most`` with a loss of at most epsilon, and that loss."""
        b = min(most, epsilon / length * (1 - 1e-12))
        better = self.curve.solve(metric.distance, epsilon, most, progress)
        if better is None or better[0] <= b:
            return b, self.loss([PairRun(length, b * metric.distance)])
        return better[0], _as_entry_loss(better[1])


class _Corners(Sequence[_MemberCurve]):
    """The curves of the chains of a class, each made when first used."""

    def __init__(self, corners: Sequence[Member], length: int) -> None:
        self.corners, self.length = corners, length
        self._made: dict[int, _MemberCurve] = {}

    def __len__(self) -> int:
        return len(self.corners)

    def __getitem__(self, place: Any) -> Any:
        place = range(len(self.corners))[place]
        if place not in self._made:
            member = self.corners[place]
            often = len(self.corners) > _MANY and len(member.chain) > 2
            pairs = PairCurve(member, self.length, often=often)
            sides = sides_of(member, self.length)
            self._made[place] = _MemberCurve(
                member.name, *sides, pairs if pairs.serves else None, pairs.notes
            )
        return self._made[place]

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on the curves that were used, each once."""
        return tuple(dict.fromkeys(note for made in self._made.values() for note in made.notes))


def _runs(spent: Sequence[PairRun]) -> list[tuple[int, Floats]]:
    return [(run.count, run.cost) for run in spent]


class InfluenceCurve:
    """Event-level epsilon b against Pufferfish epsilon, for a class of chains and one length.

    Anything of event-level epsilon b (changing one entry moves the log-likelihood of every output
    by at most b) is ``epsilon(b)``-Pufferfish private for each entry. That holds for Laplace noise,
    for randomised response, and for the result of any event-level b-DP pipeline.

    Parameters
    ----------
    beliefs
        A `MarkovChain` or a `ChainClass`.
    lengths
        Length of the series, or of its independent segments; the longest is the hardest.
    metric
        Matrix of distances between states, for releases in which some states are closer together
        than others: replacing x by x' moves the log-likelihood by at most b metric(x, x'). By
        default all states are equally far apart. It is scaled to a largest entry of 1.

    Examples
    --------
    >>> from pufferkit import InfluenceCurve, MarkovChain
    >>> curve = InfluenceCurve(MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]]), 1000)
    >>> round(curve.entry_epsilon(1.0), 4), round(curve.epsilon(0.2997), 3)
    (0.2997, 1.0)
    >>> curve.losses(0.2997).round(2).tolist()
    [[0.0, 0.8], [1.0, 0.0]]
    >>> curve.entry_losses(0.2997)["chain 1 of 1"].max().round(2).item()
    1.0
    """

    def __init__(
        self, beliefs: Any, lengths: int | Iterable[int], metric: Metric | Floats | None = None
    ) -> None:
        self.beliefs: ChainClass = as_chain_class(beliefs)
        self.length = max(checks.segment_lengths(lengths))
        self.metric = as_metric(metric, len(self.beliefs.states))

    def __repr__(self) -> str:
        return f"InfluenceCurve({self.beliefs.description}, length {self.length})"

    @cached_property
    def _members(self) -> Sequence[_MemberCurve | _KernelMember]:
        parts = self.beliefs.kernels()
        if parts:
            return [_KernelMember(p.name, KernelCurve(p, self.length), p.notes) for p in parts]
        whole = class_sides(self.beliefs, self.length)
        window, share = self.beliefs.window, self.beliefs.share
        if whole is not None:
            left, right, notes = whole.left, whole.right, whole.notes
            return [_MemberCurve(whole.name, left, right, None, notes, window, share)]
        corners = self.beliefs.corners() or ()
        if self.beliefs.names_secrets:
            sides = [(m.name, *sides_of(m, self.length)) for m in corners]
            return [_MemberCurve(*own, None, (), window, share) for own in sides]
        return _Corners(corners, self.length)

    @cached_property
    def _screen(self) -> Screen | None:
        """Rough bounds for all chains of a large class; ``None`` for other classes."""
        members = self._members
        if isinstance(members, _Corners) and len(members) >= FEW:
            return Screen(members.corners)
        return None

    def _critical(self, b: float, epsilon: float, sure: Collection[int] = ()) -> list[int]:
        """Chains that may lose more than epsilon at b, those that may lose most first."""
        if self._screen is None:
            return [n for n in range(len(self._members)) if n not in sure]
        losses = self._screen.losses(b)
        order = np.argsort(-losses, kind="stable").tolist()
        return [n for n in order if losses[n] > epsilon and n not in sure]

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks for readers of the curve."""
        if isinstance(self._members, _Corners):
            return self._members.notes
        return tuple(note for member in self._members for note in member.notes)

    def epsilon(self, b: Profile) -> float:
        """Pufferfish epsilon when the entries have event-level epsilon ``b``.

        Parameters
        ----------
        b
            One number for all entries, one for each entry, or runs of entries (`Run`), also with a
            cost for each pair of states (`PairRun`).
        """
        return self.binding(b)[1].value

    def binding(self, b: Profile, *, by_pairs: bool = True) -> tuple[str, EntryLoss]:
        """The chain and the entry that lose most under ``b``, and how much.

        Without ``by_pairs``, by the scalar curve only, if there is one: for long profiles.
        """
        spent = self._spent(b)
        if all(not run.cost.any() for run in spent):
            return self._members[0].name, EntryLoss(0.0, 1, None, None)
        losses = [(member.name, member.loss(spent, by_pairs)) for member in self._members]
        return max(losses, key=lambda pair: pair[1].value)

    def losses(self, b: Profile) -> Floats:
        """The loss of every pair of states, the largest over entries and chains of the class."""
        spent = self._spent(b)
        largest: Floats = np.max([member.losses(spent) for member in self._members], axis=0)
        return largest

    def pair_record(self, b: float, epsilon: float) -> dict[str, Any]:
        """Verification data of every chain whose scalar curve loses more than ``epsilon``."""
        spent = PairRun(self.length, _nonnegative(b) * self.metric.distance)
        record = {}
        for member in (self._members[n] for n in sorted(self._critical(b, epsilon))):
            shown = member.record(spent, epsilon)
            if shown is not None:
                record[member.name] = shown
        return record

    def entry_losses(self, b: Profile) -> dict[str, Floats]:
        """The loss of every entry, for each chain of the class."""
        spent = self._spent(b)
        return {member.name: member.entry_losses(spent) for member in self._members}

    def entry_epsilon(self, epsilon: float) -> float:
        """The largest event-level epsilon reached whose Pufferfish epsilon is at most ``epsilon``.

        The search ends on the private side: the loss of the result was computed and is at most
        epsilon.
        """
        return self.solve(checks.privacy(epsilon))[0]

    def rows(self, bs: Iterable[float]) -> list[dict[str, Any]]:
        """Points of the curve, for tables and plots."""
        table = []
        for b in bs:
            spent = self._spent(checks.positive("b", b))
            for member in self._members:
                loss = member.loss(spent)
                table.append({"belief": member.name, "b": float(b), "epsilon": loss.value})
        return table

    def _spent(self, b: Profile) -> list[PairRun]:
        if isinstance(b, (int, float, np.floating, np.integer)):
            return [PairRun(self.length, _nonnegative(b) * self.metric.distance)]
        runs: list[PairRun] = []
        for item in b:
            run = item if isinstance(item, (Run, PairRun)) else Run(1, item)
            count, cost = checks.whole("profile", run.count, 1), self._cost(run)
            if runs and np.array_equal(runs[-1].cost, cost):
                runs[-1] = PairRun(runs[-1].count + count, cost)
            else:
                runs.append(PairRun(count, cost))
        covered = sum(run.count for run in runs)
        if covered != self.length:
            raise ValueError(
                f"profile: must cover the {self.length} entries of the curve, got {covered}"
            )
        return runs

    def _cost(self, run: Run | PairRun) -> Floats:
        if isinstance(run, PairRun):
            return run.cost
        return _nonnegative(run.b) * self.metric.distance

    def solve(
        self, epsilon: float, progress: Progress | None = None
    ) -> tuple[float, str, EntryLoss]:
        """The largest b reached, the chain that decides it, and its binding entry.

        The hardest chain is solved; the others are only checked at its b, and most of a large class
        by a rough bound. ``progress`` is called with the number of scales tried, and about how many
        there will be.
        """
        b, name, binding = inf, "", EntryLoss(0.0, 1, None, None)
        done: set[int] = set()
        while todo := self._critical(min(b, epsilon), epsilon if b < inf else -inf, done):
            for n in todo:
                member = self._members[n]
                done.add(n)
                if b < inf and member.hides(
                    PairRun(self.length, b * self.metric.distance), epsilon
                ):
                    continue
                b, binding = member.solve(
                    self.metric, epsilon, min(b, epsilon), self.length, progress
                )
                name = member.name
                if self._screen is not None:
                    break  # fewer chains matter at this b
        return b, name, binding


def _as_entry_loss(pairwise: PairLoss) -> EntryLoss:
    return EntryLoss(pairwise.value, pairwise.entry, None, None, pairwise.losses)


def as_metric(metric: Metric | Floats | None, size: int) -> Metric:
    """A metric over ``size`` states, scaled to a largest distance of 1; discrete by default."""
    if metric is None or size == 1:  # one state: nothing to hide
        return Metric.discrete(size)
    distance = metric.distance if isinstance(metric, Metric) else checks.numbers("metric", metric)
    if distance.shape != (size, size):
        raise ValueError(
            f"metric: must have a row and a column for each of {size} states, got shape "
            f"{distance.shape}"
        )
    if distance.min() < 0 or distance.diagonal().any() or distance.max() <= 0:
        raise ValueError(
            "metric: must have zeros on the diagonal, no negative and some positive entry"
        )
    return Metric(distance / distance.max())


def _everything(runs: Sequence[Run]) -> float:
    """The total spent on all entries, rounded up: exchanging all of them costs no more."""
    return round_up(sum(run.count * run.b for run in runs), len(runs) + 2)


def _options(length: int) -> int:
    """How many blocks of each side to combine: all in short segments."""
    return length if length <= SHORT else _MOST_OPTIONS


def _nonnegative(b: Any) -> float:
    value = checks.real("b", b)
    if value < 0:
        raise ValueError(f"b: event-level epsilon must not be negative, got {value:g}")
    return value
