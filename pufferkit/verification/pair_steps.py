"""The pairwise influence curve for `verify`: transport programmes by another solver.

Noise on a sum costs D(x, x') = sum_j |V_j(x) - V_j(x')| / scale when an entry x is replaced by x'.
With step(p, q; B) = log min over plans x >= 0 with row sums p of max_z sum_y x_yz e^{B(y,z)} / q_z,

    B_T = D,    B_i(x, x') = D(x, x') + step(P(x, .), P(x', .); B_{i+1}),

A_i the same to the left with P(X_{i-1} = u | X_i = x), and

    loss_i(x, x') = D(x, x') + step(left; A_{i-1}) + step(P; B_{i+1})  <=  epsilon.

*Every* plan gives an upper bound. Records hold the bases of the plans, so that nothing is optimised
(`pufferkit.verification.recorded_plans`). Where they do not, a solver of linear programmes gives a
plan, which is made to have the right row sums, and its value is computed here. A recorded limit C
bounds all entries from one on if B there is at most C and D + step(C) <= C: then every later B is
at most C, by induction. This is checked for the C and the plans of the file; false ones can
only fail.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

import numpy as np

from pufferkit.checks import Floats
from pufferkit.verification.pair_tables import Allowance, NotChecked
from pufferkit.verification.recorded_plans import Bases, steps_of_bases

UNIT = 1e4
"""Masses and objective are passed in larger units: tolerances of the solver are absolute."""

_AT_ONCE = 20_000
_ROUNDING = 1e-13


def plan_value(plan: Floats, p: Floats, q: Floats, limit: Floats) -> float:
    """Log of the largest load of a plan, after scaling its rows; infinite if it is not a plan.

    A plan has the mass from state y (row) to state z (column).
    """
    mass = np.maximum(plan, 0.0)
    mass[:, q <= 0] = 0.0
    sums = mass.sum(axis=1)
    if np.any((sums <= 0) & (p > 0)):
        return inf
    mass *= np.divide(p, sums, out=np.zeros_like(p), where=sums > 0)[:, None]
    loads = (mass * np.exp(limit)).sum(axis=0)
    largest = float((loads[q > 0] / q[q > 0]).max())
    return max(0.0, float(np.log(largest)) + _ROUNDING * len(p))


def plans(rows: Sequence[tuple[Floats, Floats]], limit: Floats, work: Allowance) -> list[Floats]:
    """A plan for each pair of distributions p, q: minimise lambda subject to the loads.

    The programmes are independent and are solved as one.
    """
    size = len(limit)
    gains = np.exp(limit)
    places: list[tuple[Any, Any]] = []
    entries: list[list[Any]] = [[], [], []]
    sums: list[list[Any]] = [[], [], []]
    right_sums: list[float] = []
    variables = loads = 0
    objective: list[float] = []
    for p, q in rows:
        ys, zs = np.flatnonzero(p > 0), np.flatnonzero(q > 0)
        own = variables + np.arange(len(ys) * len(zs)).reshape(len(ys), len(zs))
        place_y, place_z = np.meshgrid(np.arange(len(ys)), np.arange(len(zs)), indexing="ij")
        places.append((np.ix_(ys, zs), own))
        # sum_z x_yz = p_y
        sums[0] += (len(right_sums) + place_y).ravel().tolist()
        sums[1] += own.ravel().tolist()
        sums[2] += [1.0] * own.size
        right_sums += (UNIT * p[ys]).tolist()
        # sum_y x_yz e^{B(y,z)} / q_z - lambda <= 0
        entries[0] += (loads + place_z).ravel().tolist()
        entries[1] += own.ravel().tolist()
        entries[2] += (gains[np.ix_(ys, zs)] / q[zs]).ravel().tolist()
        last = variables + own.size
        entries[0] += (loads + np.arange(len(zs))).tolist()
        entries[1] += [last] * len(zs)
        entries[2] += [-1.0] * len(zs)
        objective += [0.0] * own.size + [UNIT]
        variables, loads = last + 1, loads + len(zs)
    work.spend(3e6 + 2e4 * variables)
    from scipy.optimize import linprog  # noqa: PLC0415  (slow to load; stored plans need none)
    from scipy.sparse import coo_matrix  # noqa: PLC0415

    answer = linprog(
        objective,
        A_ub=coo_matrix((entries[2], (entries[0], entries[1])), shape=(loads, variables)).tocsr(),
        b_ub=np.zeros(loads),
        A_eq=coo_matrix((sums[2], (sums[0], sums[1])), (len(right_sums), variables)).tocsr(),
        b_eq=right_sums,
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if answer.x is None:
        raise NotChecked(f"a transport programme was not solved ({answer.message})")
    solved = []
    for where, own in places:
        plan = np.zeros((size, size))
        plan[where] = answer.x[own] / UNIT
        solved.append(plan)
    return solved


def steps(kernel: Floats, limit: Floats, work: Allowance) -> Floats:
    """Step of every ordered pair of rows of a kernel at the variation ``limit``."""
    size = len(kernel)
    pairs = [
        (x, other)
        for x in range(size)
        for other in range(size)
        if not np.array_equal(kernel[x], kernel[other])
    ]
    table = np.zeros((size, size))
    width = int((kernel > 0).sum(axis=1).max()) ** 2
    many = max(1, _AT_ONCE // width)
    for start in range(0, len(pairs), many):
        part = pairs[start : start + many]
        rows = [(kernel[x], kernel[other]) for x, other in part]
        for (x, other), plan in zip(part, plans(rows, limit, work), strict=True):
            table[x, other] = plan_value(plan, kernel[x], kernel[other], limit)
    return table


class Programmes:
    """Steps of one kernel after another, by recorded bases if there are any, else by a solver."""

    def __init__(self, text: Any, work: Allowance) -> None:
        self.bases = None if text is None else Bases(text)
        self.work = work
        self._last: dict[int, bytes] = {}

    def steps(
        self, kernel: Floats, limit: Floats, *, again: bool = False, place: int = 0
    ) -> Floats:
        """Steps at the variation ``limit``; ``again`` by the last bases of a place."""
        if self.bases is None:
            return steps(kernel, limit, self.work)
        if not again or place not in self._last:
            self._last[place] = self.bases.following(kernel)
        return steps_of_bases(kernel, limit, self._last[place], self.work)

    def end(self) -> None:
        """All recorded bases must have been used."""
        if self.bases is not None:
            self.bases.end()
