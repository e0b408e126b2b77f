"""From a profile of event-level epsilons to Pufferfish epsilon: the influence curve of a class.

A class is the parts of its chains, or one part that holds for all of them
(`pufferkit.influence.curve.engine`); the part that loses most decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Any

import numpy as np

from pufferkit import checks
from pufferkit.beliefs.chain_class import ChainClass, as_chain_class
from pufferkit.checks import Floats
from pufferkit.data.query import CLOSE
from pufferkit.influence.curve.engine import EntryLoss, Part, PartCurve, everything
from pufferkit.influence.curve.steps import off_diagonal
from pufferkit.influence.progress import Progress
from pufferkit.influence.shape.theorem_s import NoisyRun, ShapedCurve
from pufferkit.rounding import EPS
from pufferkit.threads import one_thread

_ENOUGH = 1e-8
"""A proof is left out if it shows less than this share of epsilon."""


@dataclass(frozen=True)
class Run:
    """``count`` consecutive entries with event-level epsilon ``b`` each."""

    count: int
    b: float


Profile = float | Sequence[float] | Sequence[Run] | Sequence[NoisyRun]


def metric_of_sum(contributions: Sequence[float | tuple[float, ...]]) -> Floats:
    """The metric of a noisy sum, from the contributions of the states: numbers or rows of them.

    It is the L1 distance, scaled so that the largest is 1. States that contribute almost the same
    keep a small distance, for the rounding of answers.
    """
    values = np.array(contributions).reshape(len(contributions), -1)
    distance = np.abs(values[:, None, :] - values[None, :, :]).sum(axis=2)
    room = values.shape[1] * EPS
    apart = np.clip(distance * (1 + 16 * EPS + room) + 4 * room, CLOSE, 1.0)
    return np.where(distance > 0, apart, 0.0)


def as_metric(metric: Floats | None, size: int) -> Floats:
    """A metric over ``size`` states, scaled to a largest distance of 1.

    An entry of event-level epsilon b moves the log-likelihood by at most ``b metric(x, x')`` when x
    is replaced by x'. By default all states are at distance 1, which is valid for any such entry.
    """
    if metric is None or size == 1:  # one state: nothing to hide
        return off_diagonal(size)
    distance = checks.numbers("metric", metric)
    if distance.shape != (size, size):
        raise ValueError(
            f"metric: must have a row and a column for each of {size} states, got shape "
            f"{distance.shape}"
        )
    if distance.min() < 0 or distance.diagonal().any() or distance.max() <= 0:
        raise ValueError(
            "metric: must have zeros on the diagonal, no negative and some positive entry"
        )
    scaled: Floats = distance / distance.max()
    return scaled


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
    >>> [sorted(proof) for proof in curve.proof(0.2997, 1.0)]
    [['left', 'right']]
    """

    def __init__(
        self, beliefs: Any, lengths: int | Iterable[int], metric: Floats | None = None
    ) -> None:
        self.beliefs: ChainClass = as_chain_class(beliefs)
        self.length = max(checks.segment_lengths(lengths))
        self.metric = as_metric(metric, len(self.beliefs.states))
        self._made: dict[int, PartCurve] = {}

    def __repr__(self) -> str:
        return f"InfluenceCurve({self.beliefs.description}, length {self.length})"

    @cached_property
    def _parts(self) -> Sequence[Part]:
        return self.beliefs.parts(self.length)

    def _member(self, place: int) -> PartCurve:
        """The curve of one part, made when first used."""
        if place not in self._made:
            self._made[place] = PartCurve(self._parts[place], self.length)
        return self._made[place]

    @cached_property
    def _shaped(self) -> ShapedCurve:
        """Theorem S, for entries that coordinates with sech noise count."""
        return ShapedCurve(self._parts, self.length)

    @property
    def _members(self) -> Iterator[PartCurve]:
        return (self._member(place) for place in range(len(self._parts)))

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on the curves that were used, each once."""
        return tuple(dict.fromkeys(n for made in self._made.values() for n in made.part.notes))

    def epsilon(self, b: Profile) -> float:
        """Pufferfish epsilon when the entries have event-level epsilon ``b``.

        Parameters
        ----------
        b
            One number for all entries, one for each entry, or runs of entries (`Run`), also with a
            cost for each pair of states and with sech noise (`NoisyRun`).
        """
        return self.binding(b)[1].value

    @one_thread()
    def binding(self, b: Profile) -> tuple[str, EntryLoss]:
        """The chain and the entry that lose most under ``b``, and how much."""
        spent = self._spent(b)
        if (noisy := _with_sech(b)) is not None:
            return self._shaped.binding(noisy)
        if all(not cost.any() for _, cost in spent):
            return self._member(0).name, EntryLoss(0.0, 1)
        name, largest = "", EntryLoss(-1.0, 1)
        near: tuple[Floats, Floats] | None = None
        for member in self._members:
            if member.within(near, spent, largest.value):
                continue
            loss = member.loss(spent)
            if loss.value > largest.value:
                name, largest = member.name, loss
                near = member.limits(spent) if len(self._parts) > 1 else None
        return name, largest

    @one_thread()
    def losses(self, b: Profile) -> Floats:
        """The loss of every pair of states, the largest over entries and chains of the class."""
        spent = self._spent(b)
        largest: Floats = np.max([member.pair_losses(spent) for member in self._members], axis=0)
        return largest

    @one_thread()
    def proof(self, b: Profile, epsilon: float) -> list[Any] | None:
        """Proofs of the losses of every part; ``None`` where exchanging all entries costs epsilon.

        Limits, blocks and plans of each part; ``None`` for one without, which only all entries
        together hide.
        """
        spent = self._spent(b)
        if everything(spent) <= epsilon * (1 + _ENOUGH):
            return None
        records: list[Any] = []
        near: tuple[Floats, Floats] | None = None
        for member in self._members:
            alone = not member.within(near, spent, epsilon)
            records.append(member.record(spent))
            if alone and len(self._parts) > 1:
                near = member.limits(spent)
        return records

    @one_thread()
    def entry_losses(self, b: Profile) -> dict[str, Floats]:
        """The loss of every entry, for each chain of the class."""
        spent = self._spent(b)
        if (noisy := _with_sech(b)) is not None:
            return self._shaped.entry_losses(noisy)
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

    def _spent(self, b: Profile) -> list[tuple[int, Floats]]:
        if isinstance(b, (int, float, np.floating, np.integer)):
            return [(self.length, _nonnegative(b) * self.metric)]
        runs: list[tuple[int, Floats]] = []
        size = len(self.metric)
        for item in b:
            run = item if isinstance(item, (Run, NoisyRun)) else Run(1, item)
            count = checks.whole("profile", run.count, 1)
            if isinstance(run, NoisyRun):
                cost = run.cost(size)
            else:
                cost = _nonnegative(run.b) * self.metric
            if runs and np.array_equal(runs[-1][1], cost):
                runs[-1] = runs[-1][0] + count, cost
            else:
                runs.append((count, cost))
        covered = sum(count for count, _ in runs)
        if covered != self.length:
            raise ValueError(
                f"profile: must cover the {self.length} entries of the curve, got {covered}"
            )
        return runs

    @one_thread()
    def solve(
        self, epsilon: float, progress: Progress | None = None
    ) -> tuple[float, str, EntryLoss]:
        """The largest b reached, the chain that decides it, and its binding entry.

        Every part is checked at the b so far, and solved where it loses more there. ``progress`` is
        called with the number of scales tried, and about how many there will be.
        """
        b, name, loss = inf, "", EntryLoss(0.0, 1)
        near: tuple[Floats, Floats] | None = None
        for member in self._members:
            if b < inf and self._hides(member, near, b, epsilon):
                continue
            most = min(b, member.largest_cost(self.metric, epsilon))
            b, loss = member.solve(self.metric, epsilon, most, progress)
            name = member.name
            if len(self._parts) > 1:
                near = member.limits([(self.length, b * self.metric)])
        return b, name, loss

    def largest_cost(self, epsilon: float) -> float:
        """Above this b some secret loses more than epsilon, or floats end; see `PartCurve`."""
        return min(member.largest_cost(self.metric, epsilon) for member in self._members)

    def _hides(
        self, member: PartCurve, near: tuple[Floats, Floats] | None, b: float, epsilon: float
    ) -> bool:
        """Whether no secret of this part loses more than epsilon; ``near`` are limits to try."""
        runs = [(self.length, b * self.metric)]
        if member.within(near, runs, epsilon):
            return True
        return member.loss(runs, member.useful(epsilon)).value <= epsilon


def _with_sech(b: Profile) -> Sequence[NoisyRun] | None:
    """Runs of which some have sech noise; ``None`` if the cost of entries is all there is."""
    if not isinstance(b, Sequence):
        return None
    noisy = [run for run in b if isinstance(run, NoisyRun)]
    return noisy if any(run.rows is not None for run in noisy) else None


def _nonnegative(b: Any) -> float:
    value = checks.real("b", b)
    if value < 0:
        raise ValueError(f"b: event-level epsilon must not be negative, got {value:g}")
    return value
