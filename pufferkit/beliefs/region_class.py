"""All chains in a confidence region around the counts of a public series, as a class Theta.

The region is a box: every entry of the matrix lies between a lower and an upper bound, every row
sums to one. The source of the bounds decides what the class covers.

*Sides.* With ``sides="any start"`` nothing is assumed about the start, so to the left of an entry
only projective diameters are available, and they need much noise. With ``sides="both"`` the
*backward* kernels lie in a region too, counted the same way from the transitions read backwards.
The guarantee then holds against adversaries who know the distribution in force, not against those
who know single entries. The forward intervals hold for data of any one chain; the backward ones
need data of a *stationary* chain, which read backwards is a Markov chain again. Each direction gets
half of the error.

*The bounds.* How often state x is left is random and depends on the path of the chain, so an
interval for a fixed number of draws (Clopper-Pearson) does not apply. Think of the n-th transition
out of x as the n-th card of a deck of independent draws from row x. The counts of row x are then
those of the first N_x cards, for some random N_x, and a bound that holds at *all* n at once holds
at N_x. For s cards of one kind and f of others, the mean of the likelihood over a Beta(1/2, 1/2)
prior, divided by the likelihood at the true p, is a martingale in n that starts at 1. By Ville's
inequality it ever reaches 1/alpha with probability at most alpha. So

    { p : B(s + 1/2, f + 1/2) / B(1/2, 1/2) <= p^s (1 - p)^f / alpha }

covers p at all n with probability 1 - alpha, and it is an interval because log p^s (1-p)^f is
concave. With alpha = (1 - confidence) / cells all cells are covered at once. Two states need one
cell in each row, the other is its complement. The only assumption is that the data come from one
chain.

*Monotone.* For alpha below e^(-1/2) the interval contains q = (s + 1/2) / (s + f + 1): the
likelihood at q is within e^(-1/2) of its largest value, hence of its mean. One more hit multiplies
the mean by q and the likelihood by p, so the upper end never decreases in s; likewise it never
increases in f. The lower end is one minus the upper end of the other kind. Hence noisy counts can
be bounded at the corners of a box (`noisy_bounds`).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pufferkit import checks
from pufferkit.beliefs.base import Member, Mixing
from pufferkit.beliefs.chain_class import ChainClass, KernelBounds, plural
from pufferkit.beliefs.markov_chain import MarkovChain, state_labels
from pufferkit.beliefs.provenance import PRIVATE_NOTE, Provenance
from pufferkit.checks import SUM_TOLERANCE, Floats
from pufferkit.data.series import Series
from pufferkit.data.table import Table
from pufferkit.errors import NotApplicable
from pufferkit.influence.curve.engine import Part
from pufferkit.influence.curve.regions import RegionInfluence
from pufferkit.records import written
from pufferkit.rounding import last_passing_each
from pufferkit.shown import Matrix

TIME_UNIFORM = "simultaneous time-uniform intervals (Beta(1/2, 1/2) mixture)"
NOISY = "simultaneous time-uniform intervals, widened for the noise of the counts"
GIVEN = "given intervals"

BOTH, ANY_START = "both", "any start"
"""What is known about the past of an entry: as much as about its future, or nothing."""

_LIMITS = ("low", "high")
_LOWEST = -740.0
"""Lower bound on the logarithm of a probability that is a float."""
_OUT = 1e-12


@dataclass(frozen=True, eq=False, repr=False)
class RegionClass(ChainClass):
    """See `ChainClass.around`.

    What is promised depends on the limits alone, so the digest is of these. Counts, confidence and
    the words for the region say where they come from: the same limits from other counts, or given
    as such, are the same beliefs, and the same counts at another confidence are others.
    """

    kind = "region"
    recorded = ("region", "confidence", "counted", "states", *_LIMITS)
    lists_matrices = False
    fixed_start = None

    low: Floats
    high: Floats
    """Bounds on every entry of the transition matrix, as tight as rows that sum to one allow."""
    states: Any = None
    """By default 0, 1, ..."""
    confidence: float | None = None
    """Probability, over the draw of the data, that the region contains the chain that generated
    them; ``None`` if the intervals were given."""
    region: str = GIVEN
    """The kind of region, in words."""
    counted: int | None = None
    """Number of transitions counted; ``None`` if the intervals were given."""
    fitted_on: Provenance | None = None
    """The data that were counted."""
    before: RegionClass | None = None
    """Region of the backward kernels; ``None`` for any start."""

    def __post_init__(self) -> None:
        least, most = _checked(self.low, self.high)
        before, sure, moves = self.before, self.confidence, self.counted
        if before is not None and (before.low.shape != least.shape or before.before is not None):
            raise ValueError("before: must be a region over the same states, with any start")
        checks.assign(
            self,
            low=least,
            high=most,
            states=state_labels(self.states, len(least)),
            confidence=None if sure is None else checks.confidence(sure),
            region=str(self.region),
            counted=None if moves is None else checks.whole("counted", moves, 0),
        )

    @classmethod
    def built(
        cls,
        counts: Any,
        confidence: float,
        states: Iterable[Hashable] | None,
        theta_from_private_data: bool,
        sides: str = ANY_START,
    ) -> RegionClass:
        """The region of `ChainClass.around`."""
        if sides not in (BOTH, ANY_START):
            raise ValueError(f"sides: must be {BOTH!r} or {ANY_START!r}, got {sides!r:.60}")
        private = checks.flag("theta_from_private_data", theta_from_private_data)
        if isinstance(counts, (Series, Table)):
            if states is not None and tuple(states) != counts.states:
                kind = "series" if isinstance(counts, Series) else "table"
                raise ValueError(
                    f"states: are known from the {kind}, {list(counts.states)}; leave states out"
                )
            if isinstance(counts, Series):
                source = Provenance.of_series(counts, private=private)
            else:
                source = Provenance.of_counts(counts.transitions, counts.states, private)
            known = counts.transitions
            region = region_around(known, confidence, counts.states, source, sides)
            checks.assign(region, step=counts.step)
            return region
        table = count_table(counts)
        labels = state_labels(states, len(table))
        source = Provenance.of_counts(table, labels, private)
        return region_around(table, confidence, labels, source, sides)

    @property
    def description(self) -> str:
        noun = plural(len(self.states))
        start = ANY_START if self.before is None else "both directions"
        if self.confidence is None:
            return f"every chain on {noun} within given intervals, {start}"
        moves = "" if self.counted is None else f" around {self.counted:,} transitions"
        return (
            f"every chain on {noun} in the {self.confidence * 100:g}% region{moves}, {start}"
            f"{self.private_mark}"
        )

    @property
    def caveats(self) -> tuple[str, ...]:
        notes = [PRIVATE_NOTE] if self.is_private else []
        if self.fitted_on is not None and self.fitted_on.bought is not None:
            notes.append(self.fitted_on.bought.words)
        if self.confidence is not None:
            notes.append(f"contains the chain with confidence {self.confidence:g}: {self.region}")
        if self.before is not None:
            notes.append(
                "holds against adversaries who know the distribution in force, estimated from data "
                "taken as stationary; adversaries who know single entries, or the start, may learn "
                f"more (sides={ANY_START!r} covers them)"
            )
        return tuple(notes)

    def contains(self, transition: ArrayLike) -> bool:
        """Whether a matrix lies in the region."""
        matrix = checks.stochastic_matrix("transition", transition)
        if matrix.shape != self.low.shape:
            raise ValueError(f"transition: has {len(matrix)} states, the region {len(self.states)}")
        inside = (matrix >= self.low - _OUT) & (matrix <= self.high + _OUT)
        return bool(inside.all())

    def corners(self) -> tuple[Member, ...] | None:
        """For two states: the two matrices that are exactly the worst case of the region.

        The argument of `pufferkit.beliefs.finite_class.BinaryClass` moves one staying probability
        at a time, so it holds for a rectangle too: while the eigenvalue lambda is not negative, all
        row log-ratios of all powers grow with both staying probabilities; below 0 they fall.
        """
        if len(self.states) != 2 or self.before is not None:
            return None
        corners = []
        for stay in dict.fromkeys((tuple(np.diag(self.high)), tuple(np.diag(self.low)))):
            first, second = float(stay[0]), float(stay[1])
            name = f"staying probabilities ({first:.6g}, {second:.6g}), a corner of the region"
            matrix = [[first, 1 - first], [1 - second, second]]
            corner = MarkovChain([0.5, 0.5], matrix, self.states, self.fitted_on)
            corners.append(Member(name, corner, True))
        return tuple(corners)

    def members(self) -> tuple[Member, ...]:
        raise NotApplicable(
            "the class is a region of matrices, and this mechanism has no certified bound over "
            "one; use influence_curve or markov_quilt"
        )

    def mixing_bounds(self) -> tuple[Mixing, ...]:
        corners = self.corners()
        if corners is None:
            raise NotApplicable(
                "a bound on the eigengap is known over a region of two states with any start only, "
                "not over this one; use influence_curve or markov_quilt"
            )
        slowest = max(abs(float(np.trace(m.chain.transition)) - 1) for m in corners) + 1e-15
        leave, other = 1 - np.diag(self.high), 1 - np.diag(self.low)
        if slowest >= 1 or (leave <= 0).any():
            raise NotApplicable(
                "the region contains chains that never mix; count more data to narrow it"
            )
        # pi(x) is least when x is left most and the other state is left least.
        rarest = min(leave[1] / (leave[1] + other[0]), leave[0] / (leave[0] + other[1]))
        return (
            Mixing(float(rarest) * (1 - 1e-14), 2 * (1 - slowest) * (1 - 1e-14), slowest, False),
        )

    def matrices_shown(self) -> tuple[Matrix, ...]:
        return (
            Matrix.of("at least", self.states, self.low),
            Matrix.of("at most", self.states, self.high),
        )

    def boxes(self) -> list[KernelBounds]:
        return [("the nearest chain of the region", self.low, self.high, None)]

    def to_dict(self) -> dict[str, Any]:
        record = super().to_dict()
        if self.before is not None:
            record["before"] = {name: written(getattr(self.before, name)) for name in _LIMITS}
        return record

    @property
    def where_worst(self) -> str:
        if self.corners() is not None:
            return "worst chain of the region is at a corner, exactly"
        start = ANY_START if self.before is None else "both directions"
        return f"influence bounded over the region, {start}"

    @cached_property
    def influence(self) -> RegionInfluence:
        """Bounds on the powers of all matrices of the region."""
        before = None if self.before is None else self.before.influence
        return RegionInfluence(self.low, self.high, before)

    def parts(self, length: int) -> Sequence[Part]:
        if self.corners() is not None:
            return super().parts(length)
        return [self.influence.part(length)]

    @classmethod
    def from_plain(cls, data: Mapping[str, Any]) -> ChainClass:
        before = data.get("before")
        if before is not None:
            before = cls(before["low"], before["high"], data.get("states"))
            data = {**data, "before": before}
        return super().from_plain(data)


def region_around(
    counts: ArrayLike,
    confidence: float,
    states: Iterable[Hashable] | None,
    fitted_on: Provenance | None,
    sides: str = ANY_START,
) -> RegionClass:
    """The region around exact counts of transitions, of one direction or of both.

    Theorem: CLASSES Theorem 4. With both directions each has half of the error, and what holds for
    powers of the kernels of either region bounds what its side tells of an entry.
    """
    table = count_table(counts)
    sure = checks.confidence(confidence)
    error = (1 - sure) / cells(len(table))
    if sides == ANY_START:
        low, high = _counted(table, error)
        return RegionClass(low, high, states, sure, TIME_UNIFORM, int(table.sum()), fitted_on)
    before = RegionClass(*_counted(table.T, error / 2), states)
    low, high = _counted(table, error / 2)
    return RegionClass(low, high, states, sure, TIME_UNIFORM, int(table.sum()), fitted_on, before)


def _counted(table: Floats, alpha: float) -> tuple[Floats, Floats]:
    misses = table.sum(axis=1, keepdims=True) - table
    return intervals(table, misses, alpha), _up(1 - intervals(misses, table, alpha))


def noisy_bounds(
    counts: ArrayLike, width: float, others: float, alpha: float
) -> tuple[Floats, Floats]:
    """Bounds on a matrix when counts are known up to noise.

    Parameters
    ----------
    counts
        Noisy counts, not rounded.
    width
        Largest distance of a true count from its noisy one.
    others
        Largest distance of the true number of transitions from x to states other than y from the
        noisy sum.
    alpha
        Error probability of the interval of each cell.
    """
    noisy = checks.numbers("counts", counts)
    rest = noisy.sum(axis=1, keepdims=True) - noisy
    fewest, most = np.ceil(noisy - width), np.floor(noisy + width)
    # Both bounds on the other transitions hold at once.
    below, above = np.maximum(fewest, 0), np.maximum(most, 0)
    few_others = np.maximum(below.sum(axis=1, keepdims=True) - below, np.ceil(rest - others))
    many_others = np.minimum(above.sum(axis=1, keepdims=True) - above, np.floor(rest + others))
    few_others = np.maximum(few_others, 0)
    many_others = np.maximum(many_others, few_others)
    low = intervals(below, many_others, alpha)
    high = 1 - intervals(few_others, above, alpha)
    return low, _up(high)


def cells(size: int) -> int:
    """Number of simultaneous intervals; with two states one for each row is enough."""
    return {1: 1, 2: 2}.get(size, size * size)


def intervals(hits: Floats, misses: Floats, alpha: float) -> Floats:
    """Lower ends of the time-uniform intervals, rounded down; see the module."""
    hits, misses = np.broadcast_arrays(hits, misses)
    total = hits + misses
    mean = np.vectorize(_log_mean, otypes=[float])(hits, misses)
    # Rounding of lgamma must not shorten the interval.
    slack = 1e-9 + 1e-14 * total * np.log(total + 2)
    target = mean + math.log(alpha) - slack

    def below(log_p: Floats) -> NDArray[np.bool_]:
        with np.errstate(divide="ignore"):
            tail = np.where(misses > 0, misses * np.log(-np.expm1(np.minimum(log_p, -1e-300))), 0)
        outside: NDArray[np.bool_] = hits * log_p + tail < target
        return outside

    some = hits > 0
    means = np.log(np.where(some, hits, 1) / np.where(some, total, 1))
    ends = last_passing_each(below, np.full(means.shape, _LOWEST), means, 0.0)
    return np.asarray(np.where(some, np.exp(ends) * (1 - _OUT), 0.0))


def count_table(counts: ArrayLike) -> Floats:
    """A square table of whole, non-negative counts."""
    table = checks.numbers("counts", counts)
    if table.ndim != 2 or table.shape[0] != table.shape[1] or table.size == 0:
        raise ValueError(
            "counts: must be a square table, row x holding how often each state follows x; got "
            f"shape {table.shape}"
        )
    if (table < 0).any() or (table != np.floor(table)).any():
        x, y = np.argwhere((table < 0) | (table != np.floor(table)))[0].tolist()
        raise ValueError(
            f"counts: entry ({x}, {y}) is {table[x, y]:g}, not a whole number of transitions; "
            "give plain "
            "counts, without smoothing"
        )
    return table


def _log_mean(hits: float, misses: float) -> float:
    """The log of B(s + 1/2, f + 1/2) / B(1/2, 1/2)."""
    both = math.lgamma(hits + 0.5) + math.lgamma(misses + 0.5) - math.lgamma(hits + misses + 1)
    return both - math.log(math.pi)


def _up(values: Floats) -> Floats:
    raised: Floats = np.minimum(values + 4 * np.finfo(float).eps, 1.0)
    return raised


def _checked(low: ArrayLike, high: ArrayLike) -> tuple[Floats, Floats]:
    """Bounds on the entries, tightened by the condition that rows sum to one."""
    least, most = checks.numbers("low", low), checks.numbers("high", high)
    if least.ndim != 2 or least.shape[0] != least.shape[1] or least.shape != most.shape:
        raise ValueError(
            f"low, high: must be square tables of one shape, got {least.shape} and {most.shape}"
        )
    if least.size == 0:
        raise ValueError("low, high: need at least one state, got none")
    if (least < 0).any() or (most > 1).any() or (least > most).any():
        x, y = np.argwhere((least < 0) | (most > 1) | (least > most))[0].tolist()
        raise ValueError(
            f"low, high: need 0 <= low <= high <= 1; entry ({x}, {y}) has low = "
            f"{least[x, y]:g}, high = {most[x, y]:g}"
        )
    for x in range(len(least)):
        if least[x].sum() > 1 + SUM_TOLERANCE or most[x].sum() < 1 - SUM_TOLERANCE:
            raise ValueError(
                f"low, high: no distribution fits row {x}: its bounds sum to "
                f"{least[x].sum():.6g} and "
                f"{most[x].sum():.6g}, and 1 must lie between"
            )
    if len(least) == 1:
        return checks.frozen(np.ones((1, 1))), checks.frozen(np.ones((1, 1)))
    room = 4 * len(least) * float(np.finfo(float).eps)
    others_low = least.sum(axis=1, keepdims=True) - least
    others_high = most.sum(axis=1, keepdims=True) - most
    tight_high = np.minimum(most, np.maximum(1 - others_low + room, least))
    tight_low = np.maximum(least, np.minimum(1 - others_high - room, most))
    return checks.frozen(tight_low), checks.frozen(tight_high)
