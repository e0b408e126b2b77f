"""Steps: what one further entry adds to the variation of a log-likelihood, pair by pair.

Let the logarithm of a function of the entry beyond vary by at most B(y, z) between its values y and
z. The *step* of a pair x, x' of values of this entry bounds the log-ratio of the means of the
function given x and given x'. Five kinds, by what is known of the entry beyond:

`Transport`
    kernels, a hull of them, each known: the exact step, a transport programme for each pair
    (`pufferkit.influence.curve.transport_plans`); `Contaminated` rows have a share that is unknown,
    and `Tilted` ones have weights that are known up to a factor.
`Open`
    P^m, and any distribution of the entry m steps before: a formula.
`Widest`
    what reads the largest variation a = max B only: `KnownRows` of many states, `Diameters` and
    `Ratios` of chains that mix, `BoxSets` and `BoxEntries` of a region of matrices.

A block of m entries has the steps of its kernel; the engine takes the least over blocks.

# Contamination

Row x may be (1 - eta) K(x, .) + eta r with any distribution r, which may differ by row and time.
Of all g that vary by at most B, the ratio of two such means is largest where r puts its weight on
the largest value of e^g above and on the smallest below. Two states are added, *top* and *bottom*,
that stand for these two values: with

    B(top, y) = max_u B(u, y),     B(y, top) = 0,
    B(y, bottom) = max_v B(y, v),  B(bottom, y) = 0,
    B(top, bottom) = max B,        B(bottom, top) = 0

every allowed g, together with its largest and smallest value, is allowed on the larger set, and the
larger B satisfies the triangle inequality again. So the step there, from the row with eta on top to
the row with eta at the bottom, is an upper bound.

# Any start

Let X_{i-m} have any distribution, and X_i be m steps of the chain later. Of a function g of X_{i-m}
that varies by at most A(u, u') between two values, the means of e^g given X_i = x and given x' have
a log-ratio of at most the largest s over pairs u, u', where

    tanh(s / 4) = tanh(D / 4) tanh(A(u, u') / 4),
    D = log P^m(u, x) P^m(u', x') / (P^m(u, x') P^m(u', x)),

over the pairs with D > 0; where the denominator is zero, s = A(u, u').

# The largest variation

If all pairs vary by at most a, then

    step_{x,x'}(K, a) = max over sets S of log(1 + K(x, S) (e^a - 1)) - log(1 + K(x', S) (e^a - 1)).

With c = e^a - 1, every set has (1 + c K(x, S)) / (1 + c K(x', S)) <= r if and only if

    1 + c h(r) <= r,    h(r) = sum over y of max(0, K(x, y) - r K(x', y)),

since the sum is the largest K(x, S) - r K(x', S). So the step is the logarithm of the only root of
r = 1 + c h(r), where h is the hockey-stick divergence of the two rows: convex and falling in r.
Where r is below the root, the set that attains h(r) has a ratio between r and the root, which is
Newton's method (Dinkelbach's, for ratios). It ends where the set of a root has no larger ratio than
that root: then no set has.

Over all reweightings of columns, rows of projective diameter D have tanh(step / 4) = tanh(D / 4)
tanh(a / 4) at most; over all kernels with log-ratios at most h, tanh(step / 2) = tanh(h / 2)
tanh(a / 2), attained by two columns, e^h to 1.

*Regions.* For few states the largest and smallest probability of every set are listed. For many
states only bounds [l, h] on entries are known, and

    P(S) <= (1 - u) h(S) + u (1 - l(not S)),     P(S) >= (1 - v) l(S) + v (1 - h(not S)),

for any u, v in [0, 1]. With these two in place of the extremes the step is the log of a ratio of
affine functions of S, largest at a prefix of the states sorted by the ratio of their weights, as
long as the denominator is positive for all S. Every (u, v) gives a bound; the least of a few is
taken.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from math import atanh, exp, expm1, inf, log1p, tanh
from time import process_time
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pufferkit.checks import Bools, Floats
from pufferkit.compiling import compiled_loop
from pufferkit.influence.curve import transport_plans
from pufferkit.influence.curve.transport_plans import CompiledPlans, PlansAtOnce
from pufferkit.influence.kernels import TINY, Kernel, row_log_ratios
from pufferkit.rounding import EPS

LARGEST = 600.0
"""Larger variations are useless: their exponential is close to the largest float."""

_OVERFLOW = 700.0
"""Beyond this exponentials overflow, and programmes are for what is finite."""

_FEW = 16
"""From so many states on lower bounds cost little next to programmes."""

_SMALL, _FIRST = 15**3, 24**3
"""Work that numpy serves where loops were compiled before, and where none ever was."""

_MANY = 100
"""Entries with kernels of their own for which loading compiled loops pays."""

_LITTLE = 8**4
"""Pairs of pairs of values that numpy serves before compiled loops are loaded."""

_LARGE = 30.0
"""From this variation on, its exponential is factored out of sums."""

_SATURATES = 8.0
"""From here on a hyperbolic tangent has lost the digits that decide."""

_MOST_TURNS = 200
"""Newton's method needs about five; where it does not end, a chord bounds the root."""

_NUDGE = 1e-6
"""The derivative at the largest variation is a quotient of differences, for guesses only."""

_ROUND = 1e-12
"""More than the roundings of a sum of a thousand probabilities and two logarithms."""

_WEIGHTS = ((0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (1.0, 1.0), (0.5, 0.5))
_PAIRWISE = 24
"""Up to so many states a region tells pairs apart: tables have the cube of it."""


class Steps(Protocol):
    """What one further entry adds, for every ordered pair of states of this entry."""

    def __call__(self, limit: Floats) -> Floats:
        """The matrix of steps at the variation ``limit``, rounded up; 0 on the diagonal."""
        ...

    def derivative(self) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
        """D steps(x, x') / d limit(y, z) at the last limit, as rows, columns and values."""
        ...


def off_diagonal(size: int) -> Floats:
    """One off the diagonal, zero on it."""
    return 1.0 - np.eye(size)


def closure(variation: Floats) -> Floats:
    """The triangle closure: shortest paths, rounded up. The set of allowed functions stays."""
    return np.asarray(transport_plans.closed.plain(variation))


def plus(cost: Floats, adds: Floats) -> Floats:
    """The sum, rounded up; exact where the cost is zero."""
    return np.asarray(transport_plans.raised_by.plain(cost, adds))


class Transport:
    """Largest steps over the vertices of a hull, for every ordered pair of rows.

    Of many vertices few decide. A vertex is solved again only where it may be the largest: if C is
    closed and B <= C + delta, its steps at B are at most those at C and delta.

    Proof. Let g vary by at most B, and h(y) = min_z g(z) + C(y, z) over all z. Then h varies by at
    most C, h <= g, and g(y) - h(y) <= max_z B(y, z) - C(y, z) <= delta. So log E e^h <= log E e^g
    <= log E e^h + delta under both rows, and the log-ratio for g is at most that for h and delta.
    QED

    Parameters
    ----------
    kernels
        The vertices; all of one shape, rows are distributions.
    error
        Bound on the error of the logarithm of a ratio of two entries, and so on that of a step.
    half
        Whether to compute only steps from rows of the first half to rows of the second.
    """

    kind = "plans"

    def __init__(
        self,
        kernels: Sequence[Floats],
        error: float = 0.0,
        *,
        half: bool = False,
    ) -> None:
        # Never read-only: that would compile anew.
        self.kernels = [np.array(kernel, dtype=np.float64, order="C") for kernel in kernels]
        self.rows, self.states = self.kernels[0].shape
        self.error, self.half = error, self.rows // 2 if half else 0
        self._best: NDArray[np.intp] = np.zeros((self.rows, self.rows), dtype=np.intp)
        self._last: tuple[Floats, Floats] | None = None
        work = self.rows**2 * self.states * len(self.kernels)
        # Compiling takes longer than many numpy calls, loading what was compiled does not.
        most = _SMALL if transport_plans.all_steps.is_kept else _FIRST
        small = work <= most and not compiling_pays()
        self._solve_by(PlansAtOnce if small else CompiledPlans)

    def _solve_by(self, way: type[PlansAtOnce] | type[CompiledPlans]) -> None:
        self._way, self._compiled = way, way is CompiledPlans
        self.__dict__.pop("_plans", None)
        # Of each vertex the steps when it was last solved, the limit then, and whether that is now.
        several = len(self.kernels)
        self._steps = np.full((several, self.rows, self.rows), inf)
        self._closed = np.zeros((several, self.states, self.states))
        self._now = np.zeros(several, dtype=bool)

    @cached_property
    def _plans(self) -> list[PlansAtOnce] | list[CompiledPlans]:
        """The plans, made when first used: many steps are only asked for their least."""
        return [self._way(kernel, self.half) for kernel in self.kernels]  # type: ignore[return-value]

    def start_like(self, other: Transport) -> None:
        """Begin with the trees of steps whose kernels are close to these."""
        for ours, theirs in zip(self._plans, other._plans, strict=True):
            if isinstance(ours, PlansAtOnce) and isinstance(theirs, PlansAtOnce):
                ours.start_like(theirs)

    @property
    def programmes(self) -> Transport:
        """The programmes behind the steps: these."""
        return self

    @property
    def trees(self) -> list[NDArray[Any]]:
        """The trees of the plans of all pairs at the last limit, kernel by kernel."""
        if self._last is not None and len(self.kernels) > 1:
            for vertex in np.flatnonzero(~self._now):
                self._plans[vertex](self._last[0])
                self._now[vertex] = True
        return [plans.trees for plans in self._plans]

    def __call__(self, limit: Floats) -> Floats:
        """The matrix of steps at the variation ``limit``, rounded up; 0 on the diagonal."""
        if self._last is not None and np.array_equal(self._last[0], limit):
            return self._last[1].copy()
        if not float(limit.max()) <= _OVERFLOW:
            return self._at_any_limit.copy()
        loop = transport_plans.all_steps
        if not (self._compiled or loop.patient()):  # sweeps can be many, however few the states
            self._solve_by(CompiledPlans)
        begun = None if self._compiled else process_time()  # a call of the system is not free
        limit = limit.copy()
        largest = self._largest(limit) + self.error * off_diagonal(self.rows)
        if begun is not None:
            loop.patient(process_time() - begun)
        self._last = limit, largest
        return largest.copy()

    def _largest(self, limit: Floats) -> Floats:
        """The largest steps, of the vertices that decided before and of those that may now."""
        if len(self.kernels) == 1:
            return np.asarray(self._plans[0](limit))
        before = np.unique(self._best).tolist()
        more = np.maximum((limit - self._closed).max(axis=(1, 2)) + 16 * EPS * (1 + limit.max()), 0)
        most = np.where(self._differ, self._steps * (1 + 16 * EPS) + more[:, None, None], 0.0)
        closed = closure(limit)
        self._best, largest = np.zeros_like(self._best), np.zeros((self.rows, self.rows))
        self._now = np.zeros_like(self._now)
        for vertex in (*before, *np.argsort(-most.max(axis=(1, 2))).tolist()):
            if not self._now[vertex] and (vertex in before or (most[vertex] > largest).any()):
                steps = self._plans[vertex](limit)
                self._steps[vertex], self._closed[vertex], self._now[vertex] = steps, closed, True
                self._best[steps > largest] = vertex
                largest = np.maximum(largest, steps)
        return largest

    @cached_property
    def _differ(self) -> Bools:
        """For each vertex the pairs that are asked for and whose rows are not the same there."""
        rows, (x, other) = np.array(self.kernels), np.indices((self.rows, self.rows))
        asked = (x < self.half) & (other >= self.half) if self.half else x != other
        return np.asarray((rows[:, :, None] != rows[:, None]).any(axis=3) & asked)

    @cached_property
    def _at_any_limit(self) -> Floats:
        """The largest log K(x, y) / K(x', y), rounded up: no function of y does more."""
        ratios = np.max([row_log_ratios(Kernel(own, own > 0)) for own in self.kernels], axis=0)
        steps = np.maximum(ratios, 0.0) * (1 + 4 * EPS) + _ROUND + self.error
        return np.where(off_diagonal(self.rows) > 0, steps, 0.0)

    @property
    def rough(self) -> Callable[[Floats], Floats] | None:
        """Lower bounds on the steps that cost little next to the programmes of many states."""
        return self._rough if self._compiled and not self.half and self.rows >= _FEW else None

    def _rough(self, limit: Floats) -> Floats:
        bounds = [transport_plans.rough_steps(kernel, limit) for kernel in self.kernels]
        return np.asarray(np.max(bounds, axis=0))

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
        for vertex in np.unique(self._best).tolist():
            arcs = self._plans[vertex].arcs
            kept = self._best.ravel()[arcs.pair] == vertex
            rows.append(arcs.pair[kept].astype(np.int64))
            columns.append(arcs.source[kept].astype(np.int64) * self.states + arcs.target[kept])
            values.append(arcs.flow[kept])
        return np.concatenate(rows), np.concatenate(columns), np.concatenate(values)


def compiling_pays(*, many: bool = False) -> bool:
    """Whether compiled loops are the quicker way to few states, for ``many`` steps in a row."""
    loop = transport_plans.all_steps
    return (many and loop.is_kept) or not loop.patient()


class StepsInRow(Sequence[Transport]):
    """Steps of consecutive entries, each with its own kernel, made when first used.

    Parameters
    ----------
    kernels
        One for each entry.
    error
        As for `Transport`; the same for all.
    """

    def __init__(self, kernels: Floats, error: float) -> None:
        self.kernels, self.error = kernels, error
        self._made: dict[int, Transport] = {}

    def __len__(self) -> int:
        return len(self.kernels)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return StepsInRow(self.kernels[place], self.error)
        place = range(len(self))[place]
        if place not in self._made:
            made = Transport([self.kernels[place]], self.error)
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
        return compiling_pays(many=self.many)


class Tilted:
    """Steps of a kernel K whose rows are reweighted in proportion to e^h, all by the same h.

    Theorem: FIXES 1, Lemma 2. Let h vary by at most delta. The step of any two rows at the
    variation B is at most that of K and 2 s, where tanh(s / 4) = tanh(delta / 4) tanh(max B / 4).

    Proof. Let g vary by at most a = max B, and p be a distribution. E[e^h e^g] / (E[e^h] E[e^g])
    lies between e^{-s} and e^s. Above: it is the ratio of the means of e^g under two distributions
    whose density ratio is e^h, which PAIRS Theorem 5 bounds. Below: with p' = p e^h / E[e^h] its
    inverse is the same ratio for p', -h and g. So the log-mean of e^g under each of both rows moves
    by at most s. QED

    Parameters
    ----------
    kernel
        K.
    tilt
        The largest variation delta of the logarithm of the weights.
    error
        As for `Transport`.
    """

    kind = "tilted"

    def __init__(self, kernel: Floats, tilt: float, error: float = 0.0) -> None:
        self.programmes, self.tilt = Transport([kernel], error), tilt

    def __call__(self, limit: Floats) -> Floats:
        """The matrix of steps at the variation ``limit``, rounded up; 0 on the diagonal."""
        more = 2 * contracted(self.tilt, float(limit.max()), 4)
        steps = (self.programmes(limit) + more) * (1 + 2 * EPS)
        return np.where(off_diagonal(len(limit)) > 0, steps, 0.0)

    def derivative(self) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
        """D steps(x, x') / d limit(y, z) at the last limit but for the tilt, which adds little."""
        return self.programmes.derivative()

    @property
    def rough(self) -> Callable[[Floats], Floats] | None:
        """Those of the kernel."""
        return self.programmes.rough


class HiddenCost:
    """The cost of replacing a hidden state, where more is known of what is released than its cost.

    In place of the step between rows of an emission, which serves every release whose entries cost
    c. Let the likelihood of an output, as a function of one entry, the others given, be any f_u of
    a set, and e(w, w') >= sup over u of log E_w f_u / E_w' f_u for its means given two hidden
    states. Then e is a cost of the hidden states: means over the other entries are mixtures of
    f_u, and a ratio of two mixtures is at most the largest ratio of their terms.

    Parameters
    ----------
    of
        From the cost of an entry, a matrix over pairs of its values, to e; zero where that is zero.
    """

    kind = "given"

    def __init__(self, of: Callable[[Floats], Floats]) -> None:
        self._of = of

    def __call__(self, cost: Floats) -> Floats:
        """The triangle closure of e for entries of this cost."""
        return closure(self._of(cost))


class Contaminated:
    """As `Transport`, with rows contaminated by any distribution with weight ``eta``.

    Theorem: ENGINE Theorem C. The top and bottom of the module's text bound every such row.
    """

    kind = "contaminated"

    def __init__(self, kernels: Sequence[Floats], eta: float, error: float = 0.0) -> None:
        self.rows, self.states = kernels[0].shape
        extra = np.zeros((2 * self.rows, 2))
        extra[: self.rows, 0] = extra[self.rows :, 1] = eta
        rows = [np.hstack([(1 - eta) * np.vstack([kernel, kernel]), extra]) for kernel in kernels]
        self.programmes = Transport(rows, error, half=True)
        self._limit = np.zeros((self.states, self.states))

    def __call__(self, limit: Floats) -> Floats:
        """The matrix of steps at the variation ``limit``, rounded up; 0 on the diagonal."""
        n, k = self.rows, self.states
        larger = np.zeros((k + 2, k + 2))
        larger[:k, :k] = self._limit = limit
        larger[k, :k], larger[:k, k + 1] = limit.max(axis=0), limit.max(axis=1)
        larger[k, k + 1] = limit.max()
        steps = self.programmes(larger)[:n, n:].copy()
        np.fill_diagonal(steps, 0.0)
        return steps

    def derivative(self) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
        """D steps(x, x') / d limit(y, z) at the last limit, as rows, columns and values."""
        n, k, limit = self.rows, self.states, self._limit
        rows, columns, values = self.programmes.derivative()
        x, other = rows // (2 * n), rows % (2 * n) - n
        source, target = columns // (k + 2), columns % (k + 2)
        # The variation from the top or to the bottom is the largest of its column, its row, or all.
        highest = np.append(limit.argmax(axis=0), [0, limit.argmax() // k])
        lowest = np.append(limit.argmax(axis=1), [limit.argmax() % k, 0])
        from_y = np.where(source < k, source, highest[target])
        to_z = np.where(target < k, target, lowest[source])
        used = (x != other) & (source != k + 1) & (target != k) & (from_y != to_z)
        return (x * n + other)[used], (from_y * k + to_z)[used], values[used]


@compiled_loop
def _all_steps(roots, possible, lost, ahead, gains, error, steps, best, slopes):  # type: ignore[no-untyped-def]
    """For every x, x': the largest step over pairs u, u', the pair that has it, and its slope.

    ``steps`` is filled with the variation itself where nothing is forgotten, else with the largest
    product of both hyperbolic tangents, negative; `Open` takes it from there.
    """
    before, size = roots.shape
    ulp = 2.220446049250313e-16
    for x in range(size):
        for other in range(size):
            flat, at, most, low, tilted = 0.0, -1, 0.0, -1, 0.0
            if x != other:
                for u in range(before):
                    if not possible[u, x]:
                        continue
                    for v in range(before):
                        if u == v or not possible[v, other]:
                            continue
                        sure = not (possible[u, other] and possible[v, x])
                        sure = sure or lost[u, x] or lost[v, other] or lost[u, other] or lost[v, x]
                        tilt = 1.0
                        if not sure:
                            above = roots[u, x] * roots[v, other]
                            below = roots[u, other] * roots[v, x]
                            tilt = max(above - below, 0.0) / (above + below)
                            tilt = tilt * (1 + 16 * ulp) + error
                        place = u * before + v
                        if tilt >= 1.0:
                            if ahead[place] > flat:
                                flat, at = ahead[place], place
                        elif tilt * gains[place] > most:
                            most, low, tilted = tilt * gains[place], place, tilt
            steps[0, x, other], steps[1, x, other], slopes[x, other] = flat, most, tilted
            best[0, x, other], best[1, x, other] = max(at, 0), max(low, 0)


class Open:
    """The largest steps over all distributions of the entry beyond, for every pair of values.

    Theorem: PAIRS Theorem 5, with P^m in place of P.

    Parameters
    ----------
    kernel
        P^m.
    rows, columns
        Values that X_i, and that X_{i-m}, can have.
    error
        Bound on the error of the logarithm of a ratio of entries of the kernel.
    """

    kind = "any distribution"

    def __init__(self, kernel: Kernel, rows: Bools, columns: Bools, error: float) -> None:
        self.kernel, self.rows, self.columns, self.error = kernel, rows, columns, error
        self._keep = np.flatnonzero(columns)
        possible = kernel.possible[self._keep]
        self._roots = np.where(possible, np.sqrt(kernel.values[self._keep]), 0.0)
        self._lost = possible & (kernel.values[self._keep] < TINY)
        self._possible = possible
        self._best, self._slopes = np.zeros((len(rows),) * 2, int), np.zeros((len(rows),) * 2)

    def __call__(self, limit: Floats) -> Floats:
        """The matrix of steps at the variation ``limit``, rounded up; 0 on the diagonal."""
        ahead = limit[np.ix_(self._keep, self._keep)].ravel()
        gains, size = np.tanh(ahead / 4), len(limit)
        if size**2 * len(ahead) <= _LITTLE and _all_steps.patient():
            begun = process_time()
            (flat, most), (at, low), tilt = self._largest(ahead, gains)
            _all_steps.patient(process_time() - begun)
        else:
            found, places = np.zeros((2, size, size)), np.zeros((2, size, size), dtype=np.int64)
            tilt = np.zeros((size, size))
            _all_steps(
                self._roots, self._possible, self._lost, ahead, gains, self.error,
                found, places, tilt,
            )  # fmt: skip
            (flat, most), (at, low) = found, places
        sloped = 4 * np.arctanh(np.minimum(most * (1 + 16 * EPS), 1 - EPS)) * (1 + 8 * EPS)
        gain = gains[low]
        slope = tilt * (1 - gain**2) / np.maximum(1 - (tilt * gain) ** 2, EPS)
        first = flat >= sloped
        self._best, self._slopes = np.where(first, at, low), np.where(first, 1.0, slope)
        outside, met = off_diagonal(size) > 0, np.outer(self.rows, self.rows)
        steps = np.maximum(flat, sloped)
        # A way over a value that X_i cannot have is never the shorter one.
        steps = np.where(met, steps, steps[met & outside].max(initial=0.0))
        return np.where(outside, steps, 0.0)

    def _largest(
        self, ahead: Floats, gains: Floats
    ) -> tuple[tuple[Floats, Floats], tuple[NDArray[np.int64], NDArray[np.int64]], Floats]:
        """What `_all_steps` fills in, by numpy."""
        tilts = self._tilts
        certain = tilts >= 1
        sure, rest = np.where(certain, ahead, 0.0), np.where(certain, 0.0, tilts * gains)
        at, low = sure.argmax(axis=2)[:, :, None], rest.argmax(axis=2)[:, :, None]
        flat = np.take_along_axis(sure, at, 2)[:, :, 0]
        most = np.take_along_axis(rest, low, 2)[:, :, 0]
        tilt = np.take_along_axis(np.where(certain, 0.0, tilts), low, 2)[:, :, 0]
        return (flat, most), (at[:, :, 0], low[:, :, 0]), tilt

    @cached_property
    def _tilts(self) -> Floats:
        """Tanh(D / 4) of every x, x' and pair u, u', rounded up; else 0."""
        roots, here = self._roots.T, self._possible.T
        above = roots[:, None, :, None] * roots[None, :, None, :]  # x, x', u, u'
        below = roots[None, :, :, None] * roots[:, None, None, :]
        total = above + below
        tilts = np.divide(above - below, total, out=np.ones_like(total), where=total > 0)
        tilts = np.minimum(np.maximum(tilts, 0.0) * (1 + 16 * EPS) + self.error, 1.0)
        certain = ~(here[None, :, :, None] & here[:, None, None, :])
        lost = self._lost.T
        certain |= lost[:, None, :, None] | lost[None, :, None, :]
        certain |= lost[None, :, :, None] | lost[:, None, None, :]
        counts = here[:, None, :, None] & here[None, :, None, :]
        tilts = np.where(counts, np.where(certain, 1.0, tilts), 0.0)
        return tilts.reshape(len(here), len(here), -1)

    def derivative(self) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
        """D steps(x, x') / d limit(y, z) at the last limit, as rows, columns and values."""
        size, kept = len(self.rows), len(self._keep)
        rows = np.flatnonzero(off_diagonal(size).ravel() * self._slopes.ravel() > 0)
        first, second = np.divmod(self._best.ravel()[rows].astype(np.int64), kept)
        return rows, self._keep[first] * size + self._keep[second], self._slopes.ravel()[rows]


class Widest(ABC):
    """The steps of pairs of values at the largest variation of all pairs that count."""

    kind: str

    def __init__(self, size: int, counted: Bools | None = None) -> None:
        self._outside = off_diagonal(size)
        self.counted = self._outside > 0 if counted is None else counted & (self._outside > 0)
        self._widest, self._where = 0.0, 0
        self._asked, self._answer = -1.0, self._outside

    @abstractmethod
    def pairs(self, variation: float) -> Floats:
        """The step of every ordered pair at this variation, rounded up."""

    def _off(self, steps: Floats | float) -> Floats:
        """The same with zeros on the diagonal, also where it is infinite."""
        return np.where(self._outside > 0, steps, 0.0)

    def largest(self, variation: float) -> float:
        """The step of the worst pair that counts."""
        return float(self.pairs(variation)[self.counted].max(initial=0.0))

    def _at(self, widest: float) -> Floats:
        if widest != self._asked:
            steps = self.pairs(widest)
            # A way over a value that is not possible is never the shorter one.
            steps = np.where(self.counted, steps, steps[self.counted].max(initial=0.0))
            self._asked, self._answer = widest, self._off(np.maximum(steps, 0.0))
        return self._answer.copy()

    def __call__(self, limit: Floats) -> Floats:
        """The matrix of steps at the variation ``limit``, rounded up; 0 on the diagonal."""
        counted = np.where(self.counted, limit, 0.0)
        self._where = int(counted.argmax())
        self._widest = float(counted.max())
        return self._at(self._widest)

    def derivative(self) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
        """D steps(x, x') / d limit(y, z) at the last limit, as rows, columns and values."""
        more = _NUDGE * max(self._widest, _NUDGE)
        here = self._at(self._widest)
        rise = (self._at(self._widest + more) - here) / more
        rows = np.flatnonzero(self._outside)
        slopes = np.clip(np.nan_to_num(rise, nan=1.0), 0.0, 1.0).ravel()[rows]
        return rows, np.full(len(rows), self._where), slopes


class KnownRows(Widest):
    """The exact step of a known kernel at the largest variation.

    Parameters
    ----------
    kernel
        Rows are distributions; it may have more or fewer columns than rows.
    rows
        Values that are possible at this entry.
    error
        Bound on the error of a log-ratio of entries; added to every step.
    """

    kind = "rows"

    def __init__(self, kernel: Kernel, rows: Bools, error: float) -> None:
        size, columns = kernel.values.shape
        super().__init__(size, np.outer(rows, rows))
        # Of both entries of a ratio, and of sums over the columns.
        self.error = 2 * error + 8 * max(size, columns) * EPS
        self.kernel = kernel
        # An entry that underflowed counts as TINY in the numerator and as 0 in the denominator.
        self._upper = np.where(kernel.possible, np.maximum(kernel.values, TINY), 0.0)
        lower = np.where(kernel.values >= TINY, kernel.values, 0.0)
        self._across: Floats = np.ascontiguousarray(lower.T)
        self._last = np.zeros((size, size))

    def pairs(self, variation: float) -> Floats:
        """The step of every ordered pair at this variation, rounded up."""
        if variation > _OVERFLOW:  # a step has a slope of at most 1
            steps = np.minimum(self._limits, self.pairs(_OVERFLOW) + variation - _OVERFLOW)
        else:
            self._last = _roots.metered(self._upper, self._across, expm1(variation), self._last)
            steps = np.log1p(self._last) + self.error
        return self._off(np.minimum(steps, variation))

    @cached_property
    def _limits(self) -> Floats:
        """The steps from everything: the largest log-ratios of entries."""
        return np.maximum(row_log_ratios(self.kernel), 0.0)


@compiled_loop
def _roots(upper, across, growth, rises):  # type: ignore[no-untyped-def]
    """The root of every pair of rows, less 1, searched from ``rises``."""
    rows, columns = upper.shape
    roots = np.zeros((rows, rows))
    more, below, height = np.empty(rows), np.empty(rows), np.empty(rows)
    for x in range(rows):
        low = roots[x]
        low[:] = rises[x]
        ended = False
        for turn in range(_MOST_TURNS):
            more[:], below[:], height[:] = 0.0, 0.0, 0.0
            for y in range(columns):
                above, lower = upper[x, y], across[y]
                if above > 0:
                    for other in range(rows):
                        gain = above - (1 + low[other]) * lower[other]
                        inside = 1.0 if gain > 0 else 0.0
                        height[other] += inside * gain
                        more[other] += inside * (above - lower[other])
                        below[other] += inside * lower[other]
            ended = turn > 0
            for other in range(rows):
                rise = growth * more[other] / (1 + growth * below[other])
                # What is searched from may lie above the root; what follows does not.
                if rise > low[other] or turn == 0:
                    ended = False
                    low[other] = rise
            if ended:
                break
        if not ended:
            for other in range(rows):
                low[other] = max(low[other], growth * (height[other] + 8e-16 * (columns + 2)))
    return roots


class Diameters(Widest):
    """The step over all reweightings of the columns, from projective diameters of pairs of rows."""

    kind = "diameters"

    def __init__(self, diameters: Floats) -> None:
        super().__init__(len(diameters))
        self.diameters = diameters
        self._different, self._places = np.unique(diameters, return_inverse=True)

    def pairs(self, variation: float) -> Floats:
        """The step of every ordered pair at this variation, rounded up."""
        steps = np.array([contracted(float(d), variation, 4) for d in self._different])
        pairwise: Floats = steps[self._places].reshape(self._outside.shape)
        return pairwise


class Ratios(Widest):
    """The step of any kernel whose rows have log-ratios at most ``ratio``."""

    kind = "ratio"

    def __init__(self, ratio: float, size: int) -> None:
        super().__init__(size)
        self.ratio = ratio

    def pairs(self, variation: float) -> Floats:
        """The step of every ordered pair at this variation, rounded up."""
        return self._off(contracted(self.ratio, variation, 2))


def contracted(limit: float, variation: float, scale: int) -> float:
    """The s with tanh(s / scale) = tanh(limit / scale) tanh(variation / scale), rounded up."""
    most, least = max(limit, variation), min(limit, variation)
    if most == inf or least == 0:
        return least
    if least < _SATURATES:
        product = tanh(limit / scale) * tanh(variation / scale)
        return min(least, scale * atanh(product) * (1 + 1e-14))
    # The product is too close to 1 for a float. With x = 2 limit / scale and y = 2 variation /
    # scale the equation is e^(2 s / scale) = (1 + e^(x + y)) / (e^x + e^y), which is safe to
    # compute.
    high, low = 2 * most / scale, 2 * least / scale
    value = low + log1p(exp(-high - low)) - log1p(exp(low - high))
    return min(least, scale / 2 * value * (1 + 1e-14) + 1e-15 * scale)


class BoxSets(Widest):
    """The step over a region, from the largest and smallest probability of every set."""

    kind = "sets"

    def __init__(self, upper: Floats, lower: Floats, diameter: float) -> None:
        super().__init__(len(upper))
        self.upper, self.lower, self.diameter = upper, lower, diameter

    def pairs(self, variation: float) -> Floats:
        """The step of every ordered pair at this variation, rounded up."""
        if self.upper.shape[1] == 0:
            return np.zeros_like(self._outside)
        above, below = _log_mean(self.upper, variation), _log_mean_low(self.lower, variation)
        steps: Floats = np.max(above[:, None, :] - below[None, :, :], axis=2) + _ROUND
        most = min(variation, contracted(self.diameter, variation, 4))
        return self._off(np.clip(steps, 0.0, most))


class BoxEntries(Widest):
    """A bound on the step over a region from bounds on entries, for many states."""

    kind = "entries"

    def __init__(self, lower: Floats, upper: Floats, diameter: float) -> None:
        super().__init__(len(lower))
        self.lower, self.upper, self.diameter = lower, upper, diameter
        self._tables = [_affine(lower, upper, u, v) for u, v in _WEIGHTS]
        if len(lower) > _PAIRWISE:  # one bound for all pairs
            other = self._outside > 0
            self._tables = [_pareto(above[other], below[other]) for above, below in self._tables]

    def pairs(self, variation: float) -> Floats:
        """The step of every ordered pair at this variation, rounded up."""
        bound = np.full(
            self._outside.shape, min(variation, contracted(self.diameter, variation, 4))
        )
        for above, below in self._tables:
            bound = np.minimum(bound, _affine_logs(above, below, variation).max(axis=-1) + _ROUND)
        return self._off(np.maximum(bound, 0.0))


def _pareto(above: Floats, below: Floats) -> tuple[Floats, Floats]:
    """Candidates that are not dominated: no other has more above and no more below."""
    above, below = above.ravel(), below.ravel()
    order = np.lexsort((below, -above))
    above, below = above[order], below[order]
    least = np.minimum.accumulate(below)
    keep = np.ones(len(below), dtype=bool)
    keep[1:] = below[1:] < least[:-1]
    return above[keep], below[keep]


def _log_mean(share: Floats, variation: float) -> Floats:
    """log(1 + share (e^a - 1)), rounded to the safe side for a numerator."""
    if variation < _LARGE:
        return np.log1p(share * expm1(variation))
    shares = np.maximum(share, TINY)
    if variation == inf:
        return np.log(shares)
    return variation + np.log(shares + (1 - shares) * exp(-variation))


def _log_mean_low(share: Floats, variation: float) -> Floats:
    """The same for a denominator: a share that may have underflowed counts as zero."""
    if variation < _LARGE:
        return np.log1p(share * expm1(variation))
    known = np.where(share >= TINY, share, 0.0)
    with np.errstate(divide="ignore"):
        if variation == inf:
            return np.log(known)
        return np.where(
            known > 0,
            variation + np.log(known + (1 - known) * exp(-variation)),
            0.0,
        )


def _affine(lower: Floats, upper: Floats, u: float, v: float) -> tuple[Floats, Floats]:
    """Bounds on P(x, S) and P(x', S) for all pairs and all prefixes S, the empty one included."""
    size = len(lower)
    more = (1 - u) * upper + u * lower
    less = (1 - v) * lower + v * upper
    shape = (size, size, size)
    first = np.broadcast_to(more[:, None, :], shape)
    second = np.broadcast_to(less[None, :, :], shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(first > 0, first / second, -1.0)
    order = np.argsort(-ratio, axis=2)
    above, below = np.zeros((size, size, size + 1)), np.zeros((size, size, size + 1))
    above[:, :, 1:] = np.take_along_axis(first, order, axis=2).cumsum(axis=2)
    below[:, :, 1:] = np.take_along_axis(second, order, axis=2).cumsum(axis=2)
    # Sums are exact to a relative error, differences from 1 to an absolute one.
    slack = 8 * size * EPS
    above, below = above * (1 + slack), below * (1 - slack)
    if u > 0:
        above += u * (np.maximum(1 - lower.sum(axis=1), 0.0) + slack)[:, None, None]
    if v > 0:
        below += v * (1 - upper.sum(axis=1) - slack)[None, :, None]
    return above, below


def _affine_logs(above: Floats, below: Floats, variation: float) -> Floats:
    """The log of (1 + c A) / (1 + c B) with c = e^a - 1; infinite where B is too small."""
    if variation > LARGEST:
        # For A >= B > 0 the limit log A / B is an upper bound; the empty set gives a step of 0.
        # With B < 0 for the empty set, prefixes no longer decide.
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(above) - np.log(np.where(below > 0, below, 0.0))
        unknown = np.where((above > 0) | (below < 0), inf, 0.0)
        return np.where(below > 0, np.maximum(logs, 0.0), unknown)
    c = expm1(variation)
    denominator = 1 + c * below
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log1p(c * above) - np.log(denominator)
    return np.where(denominator > 0, logs, inf)
