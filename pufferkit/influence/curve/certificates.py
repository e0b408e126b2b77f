"""Limits: a matrix C that bounds the variation at every entry of a long series.

If cost + steps(C) <= C entry by entry, then every variation is at most C, by induction: steps are
monotone. Checking it needs one plan for each pair and no optimisation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from pufferkit.checks import Bools, Floats
from pufferkit.influence.curve import transport_plans
from pufferkit.influence.curve.steps import LARGEST, Steps, closure, off_diagonal, plus
from pufferkit.influence.curve.transport_plans import MOST_PIVOTS
from pufferkit.rounding import EPS

SLACK = 1e-7
"""Added to the cost of every pair, relative to the largest, to reach a certificate."""

_MOST_ROUNDS = 60
"""Newton's method needs five to ten; a search that needs more has no limit."""

_SWEEPS, _MOST_SWEEPS = 4, 256
"""Entries swept before the next attempt by Newton's method: twice as many each time."""

_DENSE = 24
"""Up to so many states (576 pairs) elimination is quicker than sparse products."""

_SOLVED, _FEW_PRODUCTS = 1e-10, 40
"""Far below the slack, and about what elimination of a thousand pairs costs."""

_OVERSHOT = 8.0
"""From below a tangent may lead too far once, and the next one comes back from above."""

_LEAP = 8.0
"""A tangent that leads further than so many times the variation is not to be believed."""

_ROUGH_SWEEPS, _CLOSE_ENOUGH = 20, 0.01
"""A guess by lower bounds: up to so many sweeps, until one per cent."""

_JOINT_SWEEPS = 8
"""Both limits at once: chains that forget fast need about six."""

_STEADY = 1e-3
"""Growth that differs by no more from entry to entry is taken to go on."""

_TURN = 12
"""Growth is averaged over so many entries: chains of period 2, 3, 4, 6 and 12 come round."""
_LIFTS = 40
"""Pairs without cost that step from one another settle after a few; a limit is checked anyway."""

_ALIKE = 1e-9
"""Differences below this are rounding."""

_CLOSE, _MOST_TURNS = 1e-5, 30
"""What is left of a smaller variation after many entries, and products that tell it."""


def slack_of(largest: float) -> float:
    """What a search adds to costs up to ``largest``: a share, and no less than steps round by.

    Where entries all but tell nothing, costs are a few roundings, and so are their differences.
    """
    return max(SLACK * largest, 8 * EPS) if largest else SLACK


def certificate(
    steps: Steps, cost: Floats, most: float, slack: float, start: Floats | None = None
) -> Floats | None:
    """A matrix C with cost + steps(C) <= C, close to the least; ``None`` if the search fails.

    Theorem: CLASSES Lemma 3. Such a C bounds the variation at every entry of a series of any
    length.

    The inequality was checked, with rounding upwards, for the C that is returned.

    Parameters
    ----------
    steps, cost
        Steps and cost of one side, the same at every entry.
    most
        A larger C is useless.
    slack
        By how much a cost is raised for the search of the fixed point.
    start
        Where to begin; any matrix.
    """
    search = _LimitSearch(steps, cost, most, slack)
    found = search.from_start(start)
    if found is None or not search.free.any():
        return found
    # A pair that costs nothing and steps from itself stays where the search overshot.
    lower = np.where(search.free, 0.0, found)
    for _ in range(_LIFTS):
        further = np.where(search.free, np.minimum(steps(lower), found), found)
        if np.array_equal(further, lower):
            break
        lower = further
    if np.all(lower >= found * (1 - _ALIKE)):
        return found
    again = search.from_start(lower)
    return found if again is None else np.minimum(found, again)


class _LimitSearch:
    """Newton's method on the fixed point of a slightly larger cost; see `certificate`.

    A pair that costs nothing and whose step is the variation of another pair, unrounded, is *free*:
    it needs no slack, with which a pair that steps from itself would grow for ever.
    """

    def __init__(self, steps: Steps, cost: Floats, most: float, slack: float) -> None:
        self.steps, self.cost, self.most, self.slack = steps, cost, most, slack
        self.outside = off_diagonal(len(cost))
        self.exact = getattr(steps, "exact", False)
        self.free: Bools = np.zeros(cost.shape, dtype=bool)
        self.leap = float(_TURN)

    def from_start(self, start: Floats | None) -> Floats | None:
        """A limit, from any matrix on; ``None`` if the search fails."""
        lowest = self.cost + self.slack * self.outside
        point = lowest if start is None else np.maximum(start, self.cost) * self.outside
        point = closure(point)
        least, kept, by_newton, overshot, sweeps = inf, point, False, False, _SWEEPS
        for _ in range(_MOST_ROUNDS):
            own, update = self._update(point)
            residual = float(np.abs(update - point).max())
            if residual <= 0.9 * self.slack and (found := self._checked(point, own)) is not None:
                return found
            guess = None
            if not by_newton or residual < (least if overshot else _OVERSHOT * least):
                if not by_newton and float(update.max()) > self.most:
                    return None
                overshot = not residual < least
                if not overshot:
                    least, kept = residual, point
                guess = newton(self.steps, point, update)
            if guess is not None:
                guess = closure(np.maximum(guess, self.cost) * self.outside)
            if guess is None or float(guess.max()) > min(4 * self.most, LARGEST):
                # Not close enough yet: make plain sweeps before the next attempt.
                point, endless = self._swept(kept, sweeps)
                if endless or float(point.max()) > self.most:
                    return None
                by_newton, least, sweeps = False, inf, min(2 * sweeps, _MOST_SWEEPS)
            else:
                point, by_newton = guess, True
        return None

    def _update(self, point: Floats) -> tuple[Floats, Floats]:
        """The steps at this variation, and the variation one entry later."""
        own = self.steps(point)
        if self.exact:
            rows, _, values = self.steps.derivative()
            self.free = np.zeros(self.cost.shape, dtype=bool)
            self.free.ravel()[rows[values >= 1.0]] = True
            self.free &= self.cost == 0
        raised = self.cost + self.slack * ~self.free
        return own, closure(np.where(self.outside > 0, raised + own, 0.0))

    def _checked(self, point: Floats, own: Floats) -> Floats | None:
        """The variation itself, if it is a limit, free pairs raised to their steps."""
        for _ in range(_LIFTS):
            if not np.any(self.free & (own > point)):
                break
            point = np.where(self.free, np.maximum(point, own), point)
            own = self.steps(point)
        needed = np.where(self.cost > 0, plus(self.cost, own) * (1 + 2 * EPS), own)
        return point if bool(np.all(needed <= point)) else None

    def _steady(self, past: list[Floats], point: Floats) -> bool:
        """Whether the variation grows by about the same amount from entry to entry."""
        if len(past) < 2:
            return False
        more, before = point - past[-1], past[-1] - past[-2]
        return bool(abs(more.max() - before.max()) <= _STEADY * more.max())

    def _swept(self, point: Floats, sweeps: int) -> tuple[Floats, bool]:
        """The variation some entries later, and whether it grows for ever by the same amount.

        Many entries are leapt over, twice as many each time, as long as it still grows there.
        """
        past = [point]
        for _ in range(sweeps):
            _, point = self._update(past[-1])
            if not float(point.max()) <= LARGEST:
                return point, True
            steady = self._steady(past, point)
            if float(point.max()) > self.most:
                return point, steady
            past.append(point)
            if len(past) <= _TURN:
                continue
            ahead = closure(point + self.leap * np.maximum(point - past[-1 - _TURN], 0.0) / _TURN)
            _, later = self._update(ahead)
            if bool(np.all(later >= ahead * (1 - _ALIKE))):
                past, point, self.leap = [ahead], ahead, 2 * self.leap
            else:
                past, self.leap = past[-1:], max(self.leap / 4, 1.0)
        return point, False


def converges(steps: Steps, limit: Floats | None, entries: int) -> bool:
    """Whether so many entries bring any smaller variation close to the limit, if there is one.

    By the derivative at the limit, so it is a guess; what is bounded by the limit holds anyway.
    """
    if limit is None or entries < 1:
        return False
    steps(limit)
    rows, columns, values = steps.derivative()
    goal = limit.ravel()
    rest: Floats = goal
    for _ in range(min(entries, _MOST_TURNS)):
        rest = np.bincount(rows, values * rest[columns], minlength=len(goal)).astype(float)
    # With J the derivative, J^m C <= r C implies J^{mn} C <= r^n C.
    ratio = float((rest[goal > 0] / goal[goal > 0]).max(initial=0.0))
    return ratio ** (entries // min(entries, _MOST_TURNS)) <= _CLOSE


def rough_limit(steps: Steps, cost: Floats) -> Floats:
    """A matrix to begin the search of a limit with, by lower bounds that cost little."""
    rough: Callable[[Floats], Floats] | None = getattr(steps, "rough", None)
    point = cost
    for _ in range(_ROUGH_SWEEPS if rough else 0):
        assert rough is not None
        further = closure(cost + rough(point))
        moved, point = float((further - point).max()), further
        if not _CLOSE_ENOUGH * float(point.max()) < moved < LARGEST / 2:
            break
    return point if float(point.max()) < LARGEST else cost


def rough_limits(
    sides: Sequence[Steps], cost: Floats, loss: Callable[[float, Floats], float], epsilon: float
) -> tuple[float, list[Floats]] | None:
    """By how much to multiply the cost so that about epsilon is lost, and both limits there.

    All by lower bounds, for a search to begin with; ``loss`` takes the multiple and what both sides
    add. ``None`` if the sides have no such bounds, or forget so slowly that few sweeps tell little.
    """
    if not all(getattr(steps, "rough", None) for steps in sides):
        return None
    share, limits = 1.0, [cost for _ in sides]
    for _ in range(_JOINT_SWEEPS):
        adds = [sides[0].rough(limits[0])]  # type: ignore[attr-defined]
        adds.append(adds[0] if sides[1] is sides[0] else sides[1].rough(limits[1]))  # type: ignore[attr-defined]
        most = loss(share, np.add(*adds))
        if not 0 < most < inf:
            return None
        more = min(max(epsilon / most, 1 / _LEAP), _LEAP)
        share *= more
        further = [closure(share * cost + more * own) for own in adds]
        moved = max(float(np.abs(f - c).max()) for f, c in zip(further, limits, strict=True))
        limits = further
        if moved < _CLOSE_ENOUGH * max(float(limit.max()) for limit in limits):
            return share, limits
    return None


@dataclass(frozen=True)
class Followed:
    """Consecutive entries: the variation before each, its steps, and the trees of its plans.

    The trees are those of the compiled loop, which `bipartite` turns into what is recorded.
    """

    met: Floats
    steps: Floats
    trees: NDArray[np.int16]
    after: Floats


def followed(
    kernels: Floats,
    error: float,
    count: int,
    cost: Floats,
    variation: Floats,
    most: float,
    limit: Floats | None = None,
    near: float = 0.0,
    cheap: int = 0,
) -> Followed:
    """Compute up to ``count`` entries of one cost, by one compiled loop.

    ``kernels`` are those of each of them; the last serves all later entries too. It ends early
    where the variation is above ``most``, and after the first entry where it is within ``limit``;
    with no more than ``cheap`` entries left, only where it is within ``near`` of that.
    """
    shape = count, *cost.shape
    met, own = np.empty(shape), np.empty(shape)
    trees = np.empty((*shape, kernels.shape[2], 2), dtype=np.int16)
    after = np.array(variation, dtype=np.float64)
    done = transport_plans.followed(
        np.array(kernels, dtype=np.float64),  # never read-only: that would compile anew
        error,
        np.array(cost, dtype=np.float64),
        after,
        float(most),
        MOST_PIVOTS,
        np.full(cost.shape, -inf) if limit is None else np.array(limit),
        near,
        cheap,
        trees,
        own,
        met,
    )
    return Followed(met[:done], own[:done], trees[:done], after)


def newton(steps: Steps, point: Floats, update: Floats) -> Floats | None:
    """The solution of (I - J) dx = update - point, with J the derivative of the steps."""
    size = len(point)
    rows, columns, values = steps.derivative()
    target = (update - point).ravel()
    if size <= _DENSE:
        matrix = np.eye(size * size)
        np.subtract.at(matrix, (rows, columns), values)
        try:
            change = np.linalg.solve(matrix, target)
        except np.linalg.LinAlgError:
            return None
    else:
        change = _sparse_solution(rows, columns, values, target)
    if not np.isfinite(change).all():
        return None
    # Far from the limit the tangent leads too far.
    farthest, largest = float(change.max()), float(update.max())
    share = min(1.0, _LEAP * largest / farthest) if farthest > 0 else 1.0
    guess: Floats = point + share * change.reshape(size, size)
    return guess if guess.min() > -largest else None


def _sparse_solution(
    rows: NDArray[np.int64], columns: NDArray[np.int64], values: Floats, target: Floats
) -> Floats:
    """By a few products where variations are soon forgotten; else by elimination, which fills in.

    What it gives is a guess, checked by whoever asked.
    """
    from scipy.sparse import coo_matrix, identity  # noqa: PLC0415  (only large problems need it)
    from scipy.sparse.linalg import bicgstab, splu  # noqa: PLC0415

    size = len(target)
    jacobian = coo_matrix((values, (rows, columns)), shape=(size, size)).tocsr()
    matrix = identity(size, format="csr") - jacobian
    change, failed = bicgstab(matrix, target, rtol=_SOLVED, atol=0.0, maxiter=_FEW_PRODUCTS)
    if failed == 0:
        return np.asarray(change)
    try:
        return np.asarray(splu(matrix.tocsc()).solve(target))
    except RuntimeError:  # singular
        return np.full(size, np.nan)
