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

import numpy as np
from numpy.typing import NDArray

from pufferkit.checks import Bools, Floats
from pufferkit.compiling import compiled_loop
from pufferkit.influence.curve import transport_programme

_TIGHT = 1e-12
_NEGATIVE = -1e-13
_MOST_ROUNDS = 400
MOST_PIVOTS = 20_000

Some = NDArray[np.intp] | slice
_ALL = slice(None)


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


def _most_arcs(kernel: Floats) -> int:
    """Arcs of the plans of all pairs, at most: two for each state that is possible under a row."""
    possible = (kernel > 0).astype(float)
    alone = possible.sum(axis=1)
    either = alone[:, None] + alone[None, :] - possible @ possible.T
    return 2 * int(either.sum())


def plans_bytes(kernel: Floats) -> int:
    """About how much memory the plans of a kernel take: trees, arcs with their masses."""
    trees: int = 4 * kernel.shape[0] * kernel.size
    return trees + 40 * _most_arcs(kernel)


class CompiledPlans:
    """The plans of a kernel, by a compiled loop; ``half`` is that of `all_steps`."""

    arcs: Arcs
    """The plans of the last call."""

    def __init__(self, kernel: Floats, half: int) -> None:
        rows, states = kernel.shape
        self._kernel, self._half, self._room = kernel, half, _most_arcs(kernel)
        self._known = np.zeros((rows, rows), dtype=np.bool_)
        self._trees: NDArray[np.int16] = np.zeros((rows, rows, states, 2), dtype=np.int16)

    @property
    def trees(self) -> NDArray[np.int16]:
        """Arcs of the trees of all pairs, as indices among the possible states."""
        return bipartite(self._kernel, self._trees)

    def __call__(self, limit: Floats) -> Floats:
        """The matrix of steps at the variation ``limit``."""
        pair, source, target = (np.empty(self._room, dtype=np.int64) for _ in range(3))
        plan, flow = np.empty(self._room), np.empty(self._room)
        steps, written, _ = transport_programme.all_steps(
            self._kernel,
            limit,
            self._trees,
            self._known,
            MOST_PIVOTS,
            self._half,
            *(pair, source, target, plan, flow),
        )
        arcs = slice(written)
        self.arcs = Arcs(pair[arcs], source[arcs], target[arcs], plan[arcs], flow[arcs])
        return steps  # type: ignore[no-any-return]


def bipartite(kernel: Floats, trees: NDArray[np.int16]) -> NDArray[np.int16]:
    """Trees of the compiled loop as arcs from sources to targets, in indices of possible states.

    A state with mass of both is a source and a target, with an arc between them: what stays.
    """
    rows, states = kernel.shape
    written = np.zeros((rows, rows, 2 * states, 2), dtype=np.int16)
    _bipartite(np.array(kernel), trees, written)
    return written


@compiled_loop
def _bipartite(kernel, trees, written):  # type: ignore[no-untyped-def]
    """As `bipartite`, into ``written``."""
    size, columns = kernel.shape
    sources, targets = np.empty(columns, np.int64), np.empty(columns, np.int64)
    for x in range(size):
        for other in range(size):
            arcs, number, before, behind = 0, 0, 0, 0
            for y in range(columns):
                first, second = kernel[x, y] > 0.0, kernel[other, y] > 0.0
                if first or second:
                    sources[number], targets[number] = before, behind
                    number += 1
                if first and second:
                    written[x, other, arcs, 0], written[x, other, arcs, 1] = before, behind
                    arcs += 1
                before += first
                behind += second
            for arc in range(number - 1):
                y, z = trees[x, other, arc, 0], trees[x, other, arc, 1]
                written[x, other, arcs, 0], written[x, other, arcs, 1] = sources[y], targets[z]
                arcs += 1


class PlansAtOnce:
    """The plans of a kernel, all pairs of rows pivoted together.

    A basis is a spanning tree of arcs (y, z). ``_paths[n, node, arc]`` is 1, -1 or 0: how the arc
    stands on the path of pair n from the root of its tree to a node, sources first, then targets.
    So potentials are paths times the variation on the arcs, flows are the transposed paths times
    the net masses of the nodes, and the nodes below an arc are those with the arc on their path. An
    exchange of arcs moves the paths of these nodes by one vector. Each call starts from the last
    trees; a pair whose tree is infeasible now begins again from its best single column. What
    depends on the trees alone is computed when they change: most calls change none.

    ``parts``: the rows are those of so many kernels, and only pairs within one are asked for.
    """

    def __init__(self, kernel: Floats, half: int, parts: int = 1) -> None:
        self._size, self._states = kernel.shape
        x, other = np.indices((self._size, self._size))
        asked = (x < half) & (other >= half) if half else x != other
        asked &= x * parts // self._size == other * parts // self._size
        same = (kernel[:, None, :] == kernel[None, :, :]).all(axis=2)
        self._x, self._other = np.nonzero(asked & ~same)
        self._p, self._q = kernel[self._x], kernel[self._other]
        self._masses = np.stack([self._p, self._q], axis=1)
        self._never = np.where(self._masses > 0, 0.0, -np.inf)
        self._shut = np.where(self._never[:, 0, :, None] + self._never[:, 1, None, :], np.inf, 0.0)
        self._pairs = np.arange(len(self._x))
        self._y = np.zeros((len(self._x), 2 * self._states), dtype=np.int64)
        self._z, self._used = self._y.copy(), self._y.astype(bool)
        self._at, self._from, self._to = (self._y.copy() for _ in range(3))
        self._paths = np.zeros((*self._y.shape, 2 * self._states))
        self._sides = np.zeros((*self._y.shape, 4 * self._states))
        self._signs, self._fresh = np.zeros(self._y.shape), True
        self._flow = self._plan = self._signs
        stay_x, stay_other = np.nonzero(asked & same)
        row, state = np.nonzero(kernel[stay_x] > 0)
        pair = stay_x[row] * self._size + stay_other[row]
        mass = kernel[stay_x[row], state]
        self._staying = Arcs(pair, state, state, mass, mass)

    def start_like(self, other: PlansAtOnce) -> None:
        """Begin with the trees of another kernel, if it has the same zeros."""
        alike = np.array_equal(self._x, other._x) and np.array_equal(self._other, other._other)
        if alike and not other._fresh and np.array_equal(self._never, other._never):
            self._y, self._z, self._used = other._y.copy(), other._z.copy(), other._used.copy()
            self._paths, self._fresh = other._paths.copy(), False
            self._moved(self._pairs)

    def __call__(self, limit: Floats) -> Floats:
        """The matrix of steps at the variation ``limit``."""
        steps = np.zeros((self._size, self._size))
        if not len(self._x):
            return steps
        if self._fresh:
            infeasible, self._fresh = self._pairs, False
        else:
            room = -_TIGHT * (1.0 + float(limit.max()))
            potentials = self._potentials(_ALL, limit)
            slacks = self._slacks(_ALL, limit, potentials)
            infeasible = np.flatnonzero(slacks.min(axis=(1, 2)) < room)
        if len(infeasible):
            self._begin(infeasible, limit)
            potentials = self._potentials(_ALL, limit)
        self._flow = np.maximum(self._flows(limit, potentials), 0.0)
        self._plan = self._planned(self._flow)
        steps[self._x, self._other] = self._values(self._plan, limit)
        return steps

    @property
    def arcs(self) -> Arcs:
        """The plans of the last call."""
        kept = self._plan > 0
        pair = (self._x * self._size + self._other)[:, None].repeat(kept.shape[1], axis=1)
        moved = (array[kept] for array in (pair, self._y, self._z, self._plan, self._flow))
        stay = self._staying
        stayed = (stay.pair, stay.source, stay.target, stay.plan, stay.flow)
        return Arcs(*(np.concatenate(both) for both in zip(moved, stayed, strict=True)))

    @property
    def trees(self) -> NDArray[np.int64]:
        """Arcs of the trees of all pairs, as indices among the possible states."""
        trees = np.zeros((self._size, self._size, 2 * self._states, 2), dtype=np.int64)
        n, slot = np.nonzero(self._used)
        number = (np.cumsum(self._used, axis=1) - 1)[n, slot]
        places = np.cumsum(self._masses > 0, axis=2) - 1
        for side, ends in enumerate((self._y, self._z)):
            trees[self._x[n], self._other[n], number, side] = places[n, side, ends[n, slot]]
        return trees

    def _begin(self, pairs: NDArray[np.intp], limit: Floats) -> None:
        """Trees of the best single column z0: alpha_y = B(y, z0), each beta as small as it may."""
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
        nodes = np.hstack([p > 0, q > 0])
        used = nodes.copy()
        used[n, states + root] = False
        self._used[pairs] = used
        paths = np.zeros((len(pairs), 2 * states, 2 * states))
        paths[:, places, places] = 1.0
        paths[n[:, None], states + places, source] = 1.0
        paths[:, states + places, states + places] = -1.0
        paths[n, states + root] = 0.0
        # States that are impossible under a row have no arc and no path.
        self._paths[pairs] = np.where(used[:, None, :] & nodes[:, :, None], paths, 0.0)
        self._moved(pairs)

    def _moved(self, pairs: NDArray[np.intp]) -> None:
        """What depends on the trees alone: nodes below and not below an arc, its direction."""
        width, paths = 2 * self._states, self._paths[pairs]
        self._sides[pairs, :, :width], self._sides[pairs, :, width:] = np.abs(paths), paths == 0
        self._signs[pairs] = paths.max(axis=1) + paths.min(axis=1)
        # Places in a matrix over pairs of states, and in one over pairs of rows and states.
        own, y, z = pairs[:, None] * self._states, self._y[pairs], self._z[pairs]
        self._at[pairs], self._from[pairs], self._to[pairs] = y * self._states + z, own + y, own + z

    def _potentials(self, pairs: Some, limit: Floats) -> Floats:
        arcs = np.where(self._used[pairs], limit.ravel()[self._at[pairs]], 0.0)
        potentials: Floats = (self._paths[pairs] @ arcs[:, :, None])[:, :, 0]
        return potentials

    def _slacks(self, pairs: Some, limit: Floats, potentials: Floats) -> Floats:
        """B(y, z) + beta_z - alpha_y; infinite where a state is impossible."""
        alpha, beta = potentials[:, : self._states], potentials[:, self._states :]
        slacks: Floats = limit + beta[:, None, :] - alpha[:, :, None] + self._shut[pairs]
        return slacks

    def _flows(self, limit: Floats, potentials: Floats) -> Floats:
        """The flow on every arc; negative ones only where the rounds did not suffice."""
        flows = np.zeros(self._y.shape)
        todo: Some = _ALL
        for _ in range(_MOST_ROUNDS):
            own, gross = self._crossing(todo, potentials)
            flows[todo] = own
            # A flow is known to a share of the masses that it is the difference of.
            shares = np.divide(own, gross, out=np.zeros_like(own), where=gross > 0)
            leaving = shares.argmin(axis=1)
            wrong = shares.min(axis=1) < _NEGATIVE
            if not wrong.any():
                break
            pairs = self._pairs[todo][wrong]
            todo = self._exchanged(pairs, leaving[wrong], limit, potentials[wrong])
            if not len(todo):
                break
            potentials = self._potentials(todo, limit)
        return flows

    def _crossing(self, pairs: Some, potentials: Floats) -> tuple[Floats, Floats]:
        """The flow on every arc: net mass on one side of it, and the total mass on that side.

        Masses are tilted by the potentials, and sum to one. Of the two sides of an arc, the one
        with less mass, which is more accurate.
        """
        tilts = potentials.reshape(-1, 2, self._states)
        tops = (tilts + self._never[pairs]).max(axis=2, keepdims=True)
        masses = self._masses[pairs] * np.exp(np.minimum(tilts - tops, 0.0))
        masses /= masses.sum(axis=2, keepdims=True)
        width = 2 * self._states
        both = np.empty((len(masses), 2, width))
        both[:, 0] = masses.reshape(-1, width)
        both[:, 1, : self._states], both[:, 1, self._states :] = masses[:, 0], -masses[:, 1]
        (total, net) = (both @ self._sides[pairs]).transpose(1, 0, 2)
        behind, before = total[:, :width], total[:, width:]
        own = self._signs[pairs] * np.where(behind <= before, net[:, :width], -net[:, width:])
        return own, np.minimum(behind, before)

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
        up: Bools = self._signs[pairs, leaving] < 0
        may_leave = inside[:, :states] == up[:, None]
        may_enter = inside[:, states:] != up[:, None]
        slacks = self._slacks(pairs, limit, potentials)
        slacks[~(may_leave[:, :, None] & may_enter[:, None, :])] = np.inf
        slacks = slacks.reshape(len(pairs), -1)
        entering = slacks.argmin(axis=1)
        able = slacks.min(axis=1) < np.inf
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
        self._moved(pairs)
        return pairs

    def _planned(self, flow: Floats) -> Floats:
        """The plan behind the flows, with row sums p."""
        sums = np.bincount(self._from.ravel(), flow.ravel(), self._p.size)
        own, mass = sums[self._from], self._p.ravel()[self._from]
        plan: Floats = mass * np.divide(flow, own, out=np.zeros_like(flow), where=own > 0)
        # Where nothing flows from a state (its tilted mass is below a rounding): its first arc.
        lacking = (sums.reshape(self._p.shape) == 0) & (self._p > 0)
        for pair, y in np.argwhere(lacking) if lacking.any() else ():
            plan[pair, (self._used[pair] & (self._y[pair] == y)).argmax()] = self._p[pair, y]
        return plan

    def _values(self, plan: Floats, limit: Floats) -> Floats:
        """The logarithm of the largest load of each plan, rounded up as `plan_value` does.

        Infinite for what is no plan: mass that is missing, or that goes where q has none.
        """
        slack, shape = (2 * self._states + 16) * 2.3e-16, self._p.shape
        moved = plan * np.exp(limit.ravel()[self._at])
        loads = np.bincount(self._to.ravel(), moved.ravel(), self._p.size).reshape(shape)
        sums = np.bincount(self._from.ravel(), plan.ravel(), self._p.size).reshape(shape)
        beyond = np.where(loads > 0, np.inf, 0.0)
        ratios = np.divide(loads, self._q, out=beyond, where=self._q > 0)
        missing = (sums < self._p * (1.0 - slack)).any(axis=1)
        values = np.where(missing, np.inf, np.log(ratios.max(axis=1)))
        rounded: Floats = np.maximum(values + slack * (1.0 + np.abs(values)), 0.0)
        return rounded
