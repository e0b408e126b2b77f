"""The best transport plans of all pairs of rows of one kernel, at one variation.

Two ways to the same plans, those of `pufferkit.influence.curve.transport_programme`:

- `PlansAtOnce` pivots the programmes of all pairs together, in numpy. It serves small work, so that
  a first plan need not wait for a compiler.
- `CompiledPlans` solves one programme after another in a compiled loop. Loading the loop takes a
  second, and compiling it, the first time ever, half a minute.

Every plan gives an upper bound, so both are on the safe side wherever they end.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pufferkit.checks import Bools, Floats
from pufferkit.influence.curve import transport_programme

_TIGHT = 1e-12
_NEGATIVE = -1e-13
_MOST_ROUNDS = 400
MOST_PIVOTS = 20_000


@dataclass(frozen=True)
class Arcs:
    """The plans of all pairs of rows: mass ``plan`` goes from state ``source`` to ``target``.

    ``flow`` is the derivative of the pair's step in the variation between source and target.
    """

    pair: NDArray[np.int64]
    source: NDArray[np.int64]
    target: NDArray[np.int64]
    plan: Floats
    flow: Floats


class CompiledPlans:
    """The plans of a kernel, by a compiled loop; ``half`` is that of `all_steps`."""

    def __init__(self, kernel: Floats, half: int) -> None:
        rows, states = kernel.shape
        self._kernel, self._half = kernel, half
        self._warm = np.zeros((rows, rows, states))
        self._known = np.zeros((rows, rows), dtype=np.bool_)
        self.trees: NDArray[np.int64] = np.zeros((rows, rows, 2 * states, 2), dtype=np.int64)

    def __call__(self, limit: Floats) -> tuple[Floats, Arcs]:
        """The matrix of steps at the variation ``limit``, and the plans behind it."""
        rows, states = self._kernel.shape
        room = 2 * rows * rows * states
        places = [np.empty(room, dtype=np.int64) for _ in range(3)]
        masses = [np.empty(room) for _ in range(2)]
        steps, written, _ = transport_programme.all_steps(
            self._kernel,
            limit,
            self._warm,
            self.trees,
            self._known,
            MOST_PIVOTS,
            self._half,
            *places,
            *masses,
        )
        return steps, Arcs(*(array[:written] for array in (*places, *masses)))


class PlansAtOnce:
    """The plans of a kernel, all pairs of rows pivoted together.

    A basis is a spanning tree of arcs (y, z). ``_paths[n, node, arc]`` is 1, -1 or 0: how the arc
    stands on the path of pair n from the root of its tree to a node, sources first, then targets.
    So potentials are paths times the variation on the arcs, flows are the transposed paths times
    the net masses of the nodes, and the nodes below an arc are those with the arc on their path. An
    exchange of arcs moves the paths of these nodes by one vector. Each call starts from the last
    trees; a pair whose tree is infeasible now begins again from its best single column.
    """

    def __init__(self, kernel: Floats, half: int) -> None:
        self._size, self._states = kernel.shape
        x, other = np.indices((self._size, self._size))
        asked = (x < half) & (other >= half) if half else x != other
        same = (kernel[:, None, :] == kernel[None, :, :]).all(axis=2)
        self._x, self._other = np.nonzero(asked & ~same)
        self._p, self._q = kernel[self._x], kernel[self._other]
        self._open: Bools = (self._p > 0)[:, :, None] & (self._q > 0)[:, None, :]
        self._shut = np.where(self._open, 0.0, np.inf)
        self._pairs = np.arange(len(self._x))
        self._y = np.zeros((len(self._x), 2 * self._states), dtype=np.int64)
        self._z, self._used = self._y.copy(), self._y.astype(bool)
        self._paths = np.zeros((*self._y.shape, 2 * self._states))
        self._fresh = True
        stay_x, stay_other = np.nonzero(asked & same)
        row, state = np.nonzero(kernel[stay_x] > 0)
        pair = stay_x[row] * self._size + stay_other[row]
        mass = kernel[stay_x[row], state]
        self._staying = Arcs(pair, state, state, mass, mass)

    def __call__(self, limit: Floats) -> tuple[Floats, Arcs]:
        """The matrix of steps at the variation ``limit``, and the plans behind it."""
        steps = np.zeros((self._size, self._size))
        if not len(self._x):
            return steps, self._staying
        if self._fresh:
            self._begin(self._pairs, limit)
            self._fresh = False
        else:
            room = -_TIGHT * (1.0 + float(limit.max()))
            slacks = self._slacks(self._pairs, limit, self._potentials(self._pairs, limit))
            self._begin(np.flatnonzero(slacks.min(axis=(1, 2)) < room), limit)
        flow = np.maximum(self._flows(limit), 0.0)
        plan = self._plan(flow)
        steps[self._x, self._other] = self._values(plan, limit)
        kept = plan > 0
        pair = (self._x * self._size + self._other)[:, None].repeat(kept.shape[1], axis=1)
        moved = (array[kept] for array in (pair, self._y, self._z, plan, flow))
        stay = self._staying
        stayed = (stay.pair, stay.source, stay.target, stay.plan, stay.flow)
        return steps, Arcs(*(np.concatenate(both) for both in zip(moved, stayed, strict=True)))

    @cached_property
    def _places(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Of every state, its number among those that are possible: sources and targets."""
        sources, targets = (np.cumsum(own > 0, axis=1) - 1 for own in (self._p, self._q))
        return sources, targets

    @property
    def trees(self) -> NDArray[np.int64]:
        """Arcs of the trees of all pairs, as indices among the possible states."""
        trees = np.zeros((self._size, self._size, 2 * self._states, 2), dtype=np.int64)
        n, slot = np.nonzero(self._used)
        number = (np.cumsum(self._used, axis=1) - 1)[n, slot]
        for side, (place, ends) in enumerate(zip(self._places, (self._y, self._z), strict=True)):
            trees[self._x[n], self._other[n], number, side] = place[n, ends[n, slot]]
        return trees

    def _begin(self, pairs: NDArray[np.intp], limit: Floats) -> None:
        """Trees of the best single column z0: alpha_y = B(y, z0), each beta as small as it may."""
        if not len(pairs):
            return
        states, n = self._states, np.arange(len(pairs))
        p, q = self._p[pairs], self._q[pairs]
        drops = np.where((p > 0)[:, :, None, None], limit[:, :, None] - limit[:, None, :], -np.inf)
        above = np.log(p @ np.exp(limit))
        below = np.log((q[:, None, :] * np.exp(drops.max(axis=1))).sum(axis=2))
        root = np.where(q > 0, above - below, -np.inf).argmax(axis=1)
        source = drops[n, :, root].argmax(axis=1)
        places = np.arange(states)
        self._y[pairs, :states], self._z[pairs, :states] = places, root[:, None]
        self._y[pairs, states:], self._z[pairs, states:] = source, places
        used = np.hstack([p > 0, q > 0])
        used[n, states + root] = False
        self._used[pairs] = used
        paths = np.zeros((len(pairs), 2 * states, 2 * states))
        paths[:, places, places] = 1.0
        paths[n[:, None], states + places, source] = 1.0
        paths[:, states + places, states + places] = -1.0
        paths[n, states + root] = 0.0
        # States that are impossible under a row have no arc and no path.
        nodes = np.hstack([p > 0, q > 0])
        self._paths[pairs] = np.where(used[:, None, :] & nodes[:, :, None], paths, 0.0)

    def _potentials(self, pairs: NDArray[np.intp], limit: Floats) -> Floats:
        arcs = np.where(self._used[pairs], limit[self._y[pairs], self._z[pairs]], 0.0)
        potentials: Floats = (self._paths[pairs] @ arcs[:, :, None])[:, :, 0]
        return potentials

    def _slacks(self, pairs: NDArray[np.intp], limit: Floats, potentials: Floats) -> Floats:
        """B(y, z) + beta_z - alpha_y; infinite where a state is impossible."""
        alpha, beta = potentials[:, : self._states], potentials[:, self._states :]
        slacks: Floats = limit + beta[:, None, :] - alpha[:, :, None] + self._shut[pairs]
        return slacks

    def _flows(self, limit: Floats) -> Floats:
        """The flow on every arc; negative ones only where the rounds did not suffice."""
        flows = np.zeros(self._y.shape)
        todo: NDArray[np.intp] = self._pairs
        for _ in range(_MOST_ROUNDS):
            potentials = self._potentials(todo, limit)
            supply = _tilted(self._p[todo], potentials[:, : self._states])
            demand = _tilted(self._q[todo], potentials[:, self._states :])
            net = np.hstack([supply, -demand])
            own, gross = _crossing(net, self._paths[todo])
            flows[todo] = own
            # A flow is known to a share of the masses that it is the difference of.
            shares = np.divide(own, gross, out=np.zeros_like(own), where=gross > 0)
            leaving = shares.argmin(axis=1)
            wrong = shares[np.arange(len(todo)), leaving] < _NEGATIVE
            if not wrong.any():
                break
            todo = self._exchanged(todo[wrong], leaving[wrong], limit, potentials[wrong])
            if not len(todo):
                break
        return flows

    def _exchanged(
        self,
        pairs: NDArray[np.intp],
        leaving: NDArray[np.intp],
        limit: Floats,
        potentials: Floats,
    ) -> NDArray[np.intp]:
        """Exchange one arc of each tree, where that is possible; the pairs where it is."""
        states = self._states
        column = self._paths[pairs, :, leaving]
        inside: Bools = column != 0
        up: Bools = np.asarray((column < 0).any(axis=1))
        may_leave = inside[:, :states] == up[:, None]
        may_enter = inside[:, states:] != up[:, None]
        slacks = self._slacks(pairs, limit, potentials)
        slacks[~(may_leave[:, :, None] & may_enter[:, None, :])] = np.inf
        entering = slacks.reshape(len(pairs), -1).argmin(axis=1)
        able = slacks.min(axis=(1, 2)) < np.inf
        pairs, leaving, entering = pairs[able], leaving[able], entering[able]
        inside, up = inside[able], up[able]
        y, z = np.divmod(entering, states)
        near, far = np.where(up, y, states + z), np.where(up, states + z, y)
        n = np.arange(len(pairs))
        paths = self._paths[pairs]
        moved = paths[n, far] - paths[n, near]
        moved[n, leaving] += np.where(up, 1.0, -1.0)
        self._paths[pairs] = paths + inside[:, :, None] * moved[:, None, :]
        self._y[pairs, leaving], self._z[pairs, leaving] = y, z
        return pairs

    def _plan(self, flow: Floats) -> Floats:
        """The plan behind the flows, with row sums p."""
        n = self._pairs[:, None]
        sums = np.zeros(self._p.shape)
        np.add.at(sums, (n, self._y), flow)
        own, mass = sums[n, self._y], self._p[n, self._y]
        plan: Floats = mass * np.divide(flow, own, out=np.zeros_like(flow), where=own > 0)
        # Where nothing flows from a state (its tilted mass is below a rounding): its first arc.
        for pair, y in np.argwhere((sums == 0) & (self._p > 0)):
            plan[pair, (self._used[pair] & (self._y[pair] == y)).argmax()] = self._p[pair, y]
        return plan

    def _values(self, plan: Floats, limit: Floats) -> Floats:
        """The logarithm of the largest load of each plan, rounded up as `plan_value` does.

        Infinite for what is no plan: mass that is missing, or that goes where q has none.
        """
        n, slack = self._pairs[:, None], (2 * self._states + 16) * 2.3e-16
        loads, sums = np.zeros(self._q.shape), np.zeros(self._p.shape)
        np.add.at(loads, (n, self._z), plan * np.exp(limit[self._y, self._z]))
        np.add.at(sums, (n, self._y), plan)
        beyond = np.where(loads > 0, np.inf, 0.0)
        ratios = np.divide(loads, self._q, out=beyond, where=self._q > 0)
        missing = (sums < self._p * (1.0 - slack)).any(axis=1)
        values = np.where(missing, np.inf, np.log(ratios.max(axis=1)))
        rounded: Floats = np.maximum(values + slack * (1.0 + np.abs(values)), 0.0)
        return rounded


def _crossing(net: Floats, paths: Floats) -> tuple[Floats, Floats]:
    """The flow on every arc: net mass on one side of it, and the total mass on that side.

    Of the two sides, the one with less mass, which is more accurate.
    """
    row, size = net[:, None, :], np.abs(net)[:, None, :]
    below, apart = np.abs(paths), (paths == 0).astype(float)
    behind, before = (size @ below)[:, 0, :], (size @ apart)[:, 0, :]
    sign = np.where((paths < 0).any(axis=1), -1.0, 1.0)
    own = np.where(behind <= before, (row @ paths)[:, 0, :], -sign * (row @ apart)[:, 0, :])
    return np.where(below.any(axis=1), own, 0.0), np.minimum(behind, before)


def _tilted(weights: Floats, potentials: Floats) -> Floats:
    """Tilted masses, scaled to sum to one."""
    top = np.where(weights > 0, potentials, -np.inf).max(axis=1, keepdims=True)
    masses = weights * np.exp(np.minimum(potentials - top, 0.0))
    shares: Floats = masses / masses.sum(axis=1, keepdims=True)
    return shares
