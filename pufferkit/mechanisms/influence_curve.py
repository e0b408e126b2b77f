"""Least noise known to hide every entry of a chain, and the curve behind it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from math import inf
from typing import Any

import numpy as np

from pufferkit import checks
from pufferkit.beliefs.chain_class import ChainClass, Member, MixingClass, as_chain_class
from pufferkit.beliefs.network_class import NetworkClass
from pufferkit.beliefs.protocol import Beliefs, as_beliefs
from pufferkit.beliefs.region_class import RegionClass
from pufferkit.checks import Floats
from pufferkit.data.queries import Query, count
from pufferkit.errors import NotApplicable
from pufferkit.influence.curve.regions import region_influence
from pufferkit.influence.curve.starts import SHORT, mixing_sides, sides_of
from pufferkit.influence.curve.sweep import (
    Loss,
    Run,
    Side,
    Sweep,
    entry_loss,
    largest_loss,
    quick_loss,
)
from pufferkit.influence.curve.trees import TreeCurve
from pufferkit.influence.quilts.hardest import hardest_member
from pufferkit.mechanisms.calibration import Calibration, chains_only, check_states
from pufferkit.mechanisms.markov_quilt import markov_quilt_approx
from pufferkit.mechanisms.release import Evidence, Variant
from pufferkit.rounding import last_passing, round_up

Profile = float | Sequence[float] | Sequence[Run]

_PRECISION = 1e-8
_ROUGH = 0.02
_GROWTH = 1.1
_MOST_OPTIONS = 3
_NO_CONTRACTION = (
    "too many moves of the region may be impossible (lower bound 0), so nothing to the left is "
    "known to be forgotten"
)


@dataclass(frozen=True)
class _MemberCurve:
    """The sides of the entries under one chain of the class, or under all of a mixing class."""

    name: str
    left: Side
    right: Side

    def loss(self, runs: Sequence[Run]) -> Loss:
        left, right = self._sweeps(runs)
        found = largest_loss(left, right, _options(left.length))
        whole = _everything(runs)
        return found if found.value <= whole else Loss(whole, found.node, None, None)

    def quick(self, runs: Sequence[Run]) -> float:
        """An upper bound on the loss, for less work."""
        return min(quick_loss(*self._sweeps(runs)), _everything(runs))

    def losses(self, runs: Sequence[Run]) -> Floats:
        left, right = self._sweeps(runs)
        most = _options(left.length)
        each = [entry_loss(left, right, node, most).value for node in range(1, left.length + 1)]
        return np.minimum(each, _everything(runs))

    def _sweeps(self, runs: Sequence[Run]) -> tuple[Sweep, Sweep]:
        return Sweep(self.left, runs), Sweep(self.right, runs[::-1])


class InfluenceCurve:
    """Entry privacy b against Pufferfish epsilon, for a class of chains and one segment length.

    Anything that is b-entry-private (changing one entry moves the log-likelihood of every output by
    at most b) is ``epsilon(b)``-Pufferfish private for each entry. That holds for Laplace noise,
    for randomised response, and for the result of any event-level b-DP pipeline.

    Parameters
    ----------
    beliefs
        A `MarkovChain` or a `ChainClass`.
    lengths
        Length of the series, or of its independent segments; the longest is the hardest.

    Examples
    --------
    >>> from pufferkit import InfluenceCurve, MarkovChain
    >>> curve = InfluenceCurve(MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]]), 1000)
    >>> round(curve.entry_privacy(1.0), 4), round(curve.epsilon(0.2997), 3)
    (0.2997, 1.0)
    """

    def __init__(self, beliefs: Any, lengths: int | Iterable[int]) -> None:
        self.beliefs: ChainClass = as_chain_class(beliefs)
        self.length = max(checks.segment_lengths(lengths))

    def __repr__(self) -> str:
        return f"InfluenceCurve({self.beliefs.description}, length {self.length})"

    @cached_property
    def _members(self) -> list[_MemberCurve]:
        theta = self.beliefs
        if isinstance(theta, MixingClass):
            (mixing,) = theta.mixing_bounds()
            return [
                _MemberCurve(
                    theta.description, *mixing_sides(mixing, len(theta.states), self.length)
                )
            ]
        if isinstance(theta, RegionClass):
            corners = theta.corners()
            if corners is None:
                sides = region_influence(theta).sides(self.length)
                return [_MemberCurve("all chains of the region", *sides)]
            return [self._member(member) for member in corners]
        return [self._member(member) for member in theta.members()]

    def _member(self, member: Member) -> _MemberCurve:
        return _MemberCurve(member.name, *sides_of(member, self.length))

    def epsilon(self, b: Profile) -> float:
        """Pufferfish epsilon when the entries have entry privacy ``b``.

        Parameters
        ----------
        b
            One number for all entries, one for each entry, or runs of entries.
        """
        return self.binding(b)[1].value

    def binding(self, b: Profile) -> tuple[str, Loss]:
        """The chain and the entry that lose most under ``b``, and how much."""
        runs = self._runs(b)
        if all(run.b == 0 for run in runs):
            return self._members[0].name, Loss(0.0, 1, None, None)
        found = [(member.name, member.loss(runs)) for member in self._members]
        return max(found, key=lambda pair: pair[1].value)

    def losses(self, b: Profile) -> dict[str, Floats]:
        """The loss of every entry, for each chain of the class."""
        runs = self._runs(b)
        return {member.name: member.losses(runs) for member in self._members}

    def entry_privacy(self, epsilon: float) -> float:
        """The largest entry privacy found whose Pufferfish epsilon is at most ``epsilon``.

        The search ends on the private side: for what is returned, the loss was computed and is at
        most epsilon.
        """
        return self.solve(checks.privacy(epsilon))[0]

    def rows(self, bs: Iterable[float]) -> list[dict[str, Any]]:
        """Points of the curve, for tables and plots."""
        table = []
        for b in bs:
            for member in self._members:
                loss = member.loss([Run(self.length, checks.positive("b", b))])
                table.append({"belief": member.name, "b": float(b), "epsilon": loss.value})
        return table

    def _runs(self, b: Profile) -> list[Run]:
        if isinstance(b, (int, float, np.floating, np.integer)):
            return [Run(self.length, _spent(b))]
        runs: list[Run] = []
        for item in b:
            run = item if isinstance(item, Run) else Run(1, item)
            run = Run(checks.whole("profile", run.count, 1), _spent(run.b))
            if runs and runs[-1].b == run.b:
                runs[-1] = Run(runs[-1].count + run.count, run.b)
            else:
                runs.append(run)
        covered = sum(run.count for run in runs)
        if covered != self.length:
            raise ValueError(
                f"profile: covers {covered} entries, but the curve is for {self.length}"
            )
        return runs

    def solve(self, epsilon: float) -> tuple[float, str, Loss]:
        """The largest b found, the chain that decides it, and its binding entry.

        The hardest chain is solved; the others are only checked at its b.
        """
        b, name, binding = inf, "", Loss(0.0, 1, None, None)
        for member in self._members:
            if b < inf and member.loss([Run(self.length, b)]).value <= epsilon:
                continue
            b, binding = self._solve_member(member, epsilon, min(b, epsilon))
            name = member.name
        return b, name, binding

    def _solve_member(
        self, member: _MemberCurve, epsilon: float, most: float
    ) -> tuple[float, Loss]:
        @cache
        def loss(b: float) -> Loss:
            return member.loss([Run(self.length, b)])

        def quick(b: float) -> float:
            return epsilon - member.quick([Run(self.length, b)])

        low = epsilon / self.length * (1 - 1e-12)
        if low >= most or loss(most).value <= epsilon:
            return most, loss(most)
        # The quick bound says where to look, from below; then the loss itself decides.
        start = high = low
        while high < most and quick(high := min(most, 4 * high)) >= 0:
            start = high
        if start < high:
            start = last_passing(quick, start, high, _ROUGH) if quick(start) >= 0 else start
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


def influence_curve(beliefs: Any, query: Query, epsilon: float) -> Calibration:
    """Least Laplace noise known to hide every entry of a chain.

    The scale is L / b, with b the largest entry privacy whose loss on the influence curve is at
    most epsilon. It never asks more than `markov_quilt`: where that bound is better, it is taken.

    Parameters
    ----------
    beliefs
        A `MarkovChain`, any `ChainClass`, or tree-shaped networks. Known laws use exact kernels.
        Open starts use exact kernels to the right and projective diameters to the left. Mixing
        classes use bounds.
    query
        What is asked; any Lipschitz query, vectors included.
    epsilon
        Pufferfish privacy for each entry.

    Examples
    --------
    >>> from pufferkit import MarkovChain, count, influence_curve
    >>> chain = MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    >>> round(influence_curve(chain, count(1, 10**6), 1).scale, 3)
    3.336
    """
    epsilon = checks.privacy(epsilon)
    theta = as_beliefs(beliefs)
    check_states(theta, query)
    b, evidence = entry_privacy_for(theta, query.longest, epsilon)
    return Calibration(
        "influence_curve",
        epsilon,
        round_up(query.lipschitz / b),
        query,
        theta,
        evidence,
    )


def entry_epsilon(beliefs: Any, lengths: int | Iterable[int], epsilon: float) -> float:
    """The event-level epsilon to give any DP library so that the result is Pufferfish private.

    Parameters
    ----------
    beliefs
        A `MarkovChain` or any `ChainClass`.
    lengths
        Length of the series, or of its independent segments.
    epsilon
        Pufferfish privacy wanted for each entry.

    Returns
    -------
    float
        b such that every pipeline that is b-DP with respect to changing one entry is
        epsilon-Pufferfish private for each entry.
    """
    longest = max(checks.segment_lengths(lengths))
    b, _ = entry_privacy_for(as_beliefs(beliefs), longest, checks.privacy(epsilon))
    return b


def entry_privacy_for(beliefs: Beliefs, length: int, epsilon: float) -> tuple[float, Evidence]:
    """The largest entry privacy that is shown to hide every entry at epsilon, and what binds."""
    if isinstance(beliefs, NetworkClass):
        b, tree = TreeCurve(beliefs).solve(epsilon)
        name = f"network {tree.network + 1} of {len(beliefs.networks)}"
        return b, Evidence(name, tree.node, len(beliefs.nodes), bound="curve")
    theta = chains_only(beliefs, "influence_curve")
    b, name, loss = InfluenceCurve(theta, length).solve(epsilon)
    evidence = Evidence(name, loss.node, length, blocks=(loss.left, loss.right), bound="curve")
    region = theta if isinstance(theta, RegionClass) and theta.corners() is None else None
    if region is not None and not region_influence(region).contracts:
        return b, replace(evidence, notes=(_NO_CONTRACTION,))
    try:
        score, belief, node = _quilt_bound(theta, length, epsilon)
    except NotApplicable:  # too long for quilts, not for the curve
        score, belief, node = inf, None, None
    by_quilt = 1 / round_up(score)
    if by_quilt > b:
        note = "the Markov quilt bound was the better one"
        variant: Variant = "tight" if isinstance(theta, MixingClass) else "definition"
        return by_quilt, Evidence(
            belief, node, length, notes=(note,), bound="quilts", variant=variant
        )
    return b, evidence


def _quilt_bound(
    theta: ChainClass, length: int, epsilon: float
) -> tuple[float, str | None, int | None]:
    """Score, belief and node of the Markov Quilt Mechanism."""
    if isinstance(theta, MixingClass):
        anything = count(theta.states[0], length)
        quilt = markov_quilt_approx(theta, anything, epsilon, bound="tight")
        return quilt.scale, quilt.evidence.belief, quilt.evidence.node
    members = theta.corners() if isinstance(theta, RegionClass) else theta.members()
    if members is None:
        node, found = region_influence(theta).hardest(length, epsilon)
        return found.score, theta.description, node
    member, binding = hardest_member(members, length, epsilon, "definition")
    return binding.quilt.score, member.name, binding.node


def _everything(runs: Sequence[Run]) -> float:
    """What all entries spend together, rounded up: exchanging all of them costs no more."""
    return round_up(sum(run.count * run.b for run in runs), len(runs) + 2)


def _options(length: int) -> int:
    """How many blocks of each side to combine: all in short segments."""
    return length if length <= SHORT else _MOST_OPTIONS


def _spent(b: Any) -> float:
    value = checks.real("b", b)
    if value < 0:
        raise ValueError(f"b: entry privacy cannot be negative, got {value:g}")
    return value
