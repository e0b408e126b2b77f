"""The engine of the pairwise curve: how far a log-likelihood varies between pairs of states.

Secrets: any two values of S_i, which depends on the path through W_i only. Beliefs: every chain as
below. Releases: any with per-entry costs.

Setting. W_1 ... W_T is a Markov chain on finitely many states. Its forward kernels lie in the hull
of K^1 ... K^J at every time, its backward kernels in the hull of L^1 ... L^J'. The likelihood f of
an output is a function of the path, and replacing W_t = w by w' moves log f by at most cost_t(w,
w'). The secret S_i depends on the path through W_i only, with Pi(s, .) the distribution of W_i
given S_i = s, in the hull of Pi^1 ... Pi^L. With step* the largest step over the vertices
(`pufferkit.influence.curve.transport_programme`) and cl the triangle closure, let

    B_T = cost_T,    B_t = cl(cost_t + step*(K; B_{t+1})),
    A_1 = cost_1,    A_t = cl(cost_t + step*(L; A_{t-1})),
    M_i = cl(step*(K; B_{i+1}) + step*(L; A_{i-1})).

Theorem. For every output o, every pair of secrets and every such chain

    log P(o | S_i = s) / P(o | S_i = s')
        <=  max over l of step(Pi^l(s, .), Pi^l(s', .); cost_i + M_i).

Proof. Let U_t(w; past) = log E[f(past, w, W_{t+1}, ...) | W_t = w] for any past. Claim: its
variation from w to w' is at most B_t(w, w'). For t = T that is the assumption. For t < T replace w
by w' inside f, at the cost cost_t(w, w'). What remains is the mean of e^g, g(v) = U_{t+1}(v;
past, w'), under K_t(w, .) and under K_t(w', .); g varies by at most B_{t+1}, so their ratio is at
most e^{step(K_t(w, .), K_t(w', .); B_{t+1})}. A mixture of kernels has a ratio of sums, which is at
most the largest ratio of its terms, hence step*. The closure does not change which g are allowed.
The mirror image gives A. Now let G(w) = E[f | W_i = w]. Exchange entry i (cost_i), then for each
left part the right part (step*(K; B_{i+1})); the result, averaged over the right, is a function of
the left part whose entries still cost cost_t, so exchanging the left part costs step*(L; A_{i-1}).
One pair w, w' throughout, so log G varies by at most cost_i + M_i. The mean of G given S_i = s is
Pi(s, .) G: one more step. QED

Where the secret is the entry itself, Pi is the identity and the last step is cost_i + M_i.

Long series. If cost + step*(C) <= C entry by entry, then every B_t <= C, by induction: step* is
monotone. Such a C is a *certificate*: checking it needs one plan for each pair and no optimisation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from time import process_time
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pufferkit.checks import Bools, Floats
from pufferkit.influence.curve import transport_programme
from pufferkit.influence.curve.pair_plans import MOST_PIVOTS, CompiledPlans, PlansAtOnce
from pufferkit.rounding import EPS

SLACK = 1e-7
"""Added to the cost of every pair, relative to the largest, to reach a certificate."""

LARGEST = 600.0
"""Larger variations are useless: their exponential is close to the largest float."""

_OVERFLOW = 700.0
"""Beyond this exponentials overflow, and programmes are for what is finite."""

_MOST_ROUNDS = 60
_SWEEPS = 4
_MOST_SWEEPS = 256
_ROUGH_SWEEPS = 20
_CLOSE_ENOUGH = 0.01
_FEW = 16
_SOLVED, _FEW_PRODUCTS = 1e-10, 40
_DENSE = 24
_LEAP = 8.0
_STEADY = 1e-3
_TURN = 12
"""Growth is averaged over so many entries: chains of period 2, 3, 4, 6 and 12 come round."""
_LIFTS = 40
_ALIKE = 1e-9
_CLOSE = 1e-5
_MOST_TURNS = 30
_SMALL = 15**3
_FIRST = 24**3
_MANY = 100


class Steps(Protocol):
    """What one further entry adds, for every ordered pair of states of this entry."""

    def __call__(self, limit: Floats) -> Floats:
        """The matrix of steps at the variation ``limit``, rounded up; 0 on the diagonal."""
        ...

    def derivative(self) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
        """D steps(x, x') / d limit(y, z) at the last limit, as rows, columns and values."""
        ...

    def guess(self, cost: Floats) -> Floats:
        """Where to begin the search of a matrix C with cost + steps(C) = C; any matrix."""
        ...


class PairSteps:
    """Largest steps over the vertices of a hull, for every ordered pair of rows.

    Parameters
    ----------
    kernels
        The vertices; all of one shape, rows are distributions.
    error
        Bound on the error of the logarithm of a ratio of two entries, and so on that of a step.
    often
        Whether it will be called so often that loading compiled loops pays even for few states;
        where they would have to be compiled first, patience decides.
    half
        Whether to compute only steps from rows of the first half to rows of the second.
    """

    def __init__(
        self,
        kernels: Sequence[Floats],
        error: float = 0.0,
        *,
        often: bool = False,
        half: bool = False,
    ) -> None:
        self.kernels = [np.ascontiguousarray(kernel, dtype=np.float64) for kernel in kernels]
        self.rows, self.states = self.kernels[0].shape
        self.error, self.half = error, self.rows // 2 if half else 0
        self._best: NDArray[np.intp] = np.zeros((self.rows, self.rows), dtype=np.intp)
        self._last: tuple[Floats, Floats] | None = None
        work = self.rows**2 * self.states * len(self.kernels)
        # Compiling takes longer than many numpy calls, loading what was compiled does not.
        most = _SMALL if transport_programme.all_steps.is_kept else _FIRST
        small = work <= most and not compiling_pays(often)
        self._solve_by(PlansAtOnce if small else CompiledPlans)

    def _solve_by(self, way: type[PlansAtOnce] | type[CompiledPlans]) -> None:
        self._way, self._compiled = way, way is CompiledPlans
        self.__dict__.pop("_plans", None)

    @cached_property
    def _plans(self) -> list[PlansAtOnce] | list[CompiledPlans]:
        """The plans, made when first used: many steps are only asked for their least."""
        return [self._way(kernel, self.half) for kernel in self.kernels]  # type: ignore[return-value]

    def start_like(self, other: PairSteps) -> None:
        """Begin with the trees of steps whose kernels are close to these."""
        for ours, theirs in zip(self._plans, other._plans, strict=True):
            if isinstance(ours, PlansAtOnce) and isinstance(theirs, PlansAtOnce):
                ours.start_like(theirs)

    @property
    def programmes(self) -> PairSteps:
        """The programmes behind the steps: these."""
        return self

    @property
    def trees(self) -> list[NDArray[Any]]:
        """The trees of the last plans of all pairs, kernel by kernel."""
        return [plans.trees for plans in self._plans]

    def __call__(self, limit: Floats) -> Floats:
        """The matrix of steps at the variation ``limit``, rounded up; 0 on the diagonal."""
        if self._last is not None and np.array_equal(self._last[0], limit):
            return self._last[1].copy()
        if not float(limit.max()) <= _OVERFLOW:
            return np.where(off_diagonal(self.rows) > 0, np.inf, 0.0)
        loop = transport_programme.all_steps
        if not (self._compiled or loop.patient()):  # sweeps can be many, however few the states
            self._solve_by(CompiledPlans)
        begun = None if self._compiled else process_time()  # a call of the system is not free
        stacked = np.array([plans(limit) for plans in self._plans])
        if begun is not None:
            loop.patient(process_time() - begun)
        self._best = stacked.argmax(axis=0)
        largest: Floats = stacked.max(axis=0) + self.error * off_diagonal(self.rows)
        self._last = limit.copy(), largest
        return largest.copy()

    def guess(self, cost: Floats) -> Floats:
        """A few sweeps with lower bounds on the steps, which cost little next to a programme."""
        if not self._compiled or self.half or self.rows < _FEW:
            return cost
        point, ratios = cost, [np.ones_like(cost) for _ in self.kernels]
        for _ in range(_ROUGH_SWEEPS):
            each = zip(self.kernels, ratios, strict=True)
            rough = [transport_programme.rough_steps(kernel, point, own) for kernel, own in each]
            further = closure(cost + np.max(rough, axis=0))
            moved = float((further - point).max())
            point = further
            if not _CLOSE_ENOUGH * float(point.max()) < moved < LARGEST / 2:
                break
        return point if float(point.max()) < LARGEST else cost

    def least(self, limit: Floats) -> Floats:
        """A quick lower bound on the steps: of g = limit(., z), for every z."""
        low = np.zeros((self.rows, self.rows))
        for kernel in self.kernels:
            logs = np.log(kernel @ np.exp(limit))
            np.maximum(low, (logs[:, None, :] - logs[None, :, :]).max(axis=2), out=low)
        return low

    @property
    def may_follow(self) -> bool:
        """Whether `followed` applies: one kernel, and the compiled loops are in use."""
        return len(self.kernels) == 1 and not self.half and self._compiled

    def derivative(self) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
        """D steps(x, x') / d limit(y, z) at the last limit, as rows, columns and values."""
        rows, columns, values = [], [], []
        for vertex, arcs in enumerate(plans.arcs for plans in self._plans):
            kept = (arcs.source != arcs.target) & (arcs.flow > 0)
            if len(self._plans) > 1:
                kept &= self._best.ravel()[arcs.pair] == vertex
            rows.append(arcs.pair[kept])
            columns.append(arcs.source[kept] * self.states + arcs.target[kept])
            values.append(arcs.flow[kept])
        return np.concatenate(rows), np.concatenate(columns), np.concatenate(values)


def compiling_pays(often: bool) -> bool:
    """Whether compiled loops are the quicker way to few states; ``often`` as for `PairSteps`."""
    loop = transport_programme.all_steps
    return (often and loop.is_kept) or not loop.patient()


def off_diagonal(size: int) -> Floats:
    """One off the diagonal, zero on it."""
    return 1.0 - np.eye(size)


def closure(variation: Floats) -> Floats:
    """The triangle closure: shortest paths. The set of allowed functions does not change.

    Lengths of paths are rounded up.
    """
    closed = variation.copy()
    for middle in range(len(closed)):
        ways = closed[:, middle, None] + closed[None, middle, :]
        np.minimum(closed, ways * (1 + 2 * EPS), out=closed)
    return closed


def plus(cost: Floats, adds: Floats) -> Floats:
    """The sum, rounded up; exact where the cost is zero."""
    return np.where(cost > 0, (cost + adds) * (1 + 2 * EPS), adds)


def certificate(
    steps: Steps, cost: Floats, most: float, slack: float, start: Floats | None = None
) -> Floats | None:
    """A matrix C with cost + steps(C) <= C, close to the least; ``None`` if the search fails.

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
        least, kept, by_newton, sweeps = inf, point, False, _SWEEPS
        for _ in range(_MOST_ROUNDS):
            own, update = self._update(point)
            residual = float(np.abs(update - point).max())
            if residual <= 0.9 * self.slack and (found := self._checked(point, own)) is not None:
                return found
            guess = None
            if not (by_newton and not residual < least):
                least, kept = residual, point
                if float(update.max()) > self.most and not by_newton:
                    return None
                guess = _newton(self.steps, point, update)
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


class StepsInRow(Sequence[PairSteps]):
    """Steps of consecutive entries, each with its own kernel, made when first used.

    Parameters
    ----------
    kernels
        One for each entry.
    error
        As for `PairSteps`; the same for all.
    """

    def __init__(self, kernels: Floats, error: float) -> None:
        self.kernels, self.error = kernels, error
        self._made: dict[int, PairSteps] = {}

    def __len__(self) -> int:
        return len(self.kernels)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return StepsInRow(self.kernels[place], self.error)
        place = range(len(self))[place]
        if place not in self._made:
            made = PairSteps([self.kernels[place]], self.error, often=self.many)
            if place - 1 in self._made:
                made.start_like(self._made[place - 1])
            self._made[place] = made
        return self._made[place]

    @property
    def many(self) -> bool:
        """Whether there are so many that loading compiled loops pays."""
        return len(self) > _MANY

    @property
    def may_follow(self) -> bool:
        """Whether `followed` is the quicker way."""
        return compiling_pays(self.many)


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
    done = transport_programme.followed(
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


def _newton(steps: Steps, point: Floats, update: Floats) -> Floats | None:
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
