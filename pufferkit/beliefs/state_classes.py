"""The graph of a transition matrix: which states reach which, closed classes, periods.

Only the pattern of zeros matters here, so everything is exact.

Glossary
--------
closed class
    a set of states that reach one another and no others; the chain ends up in one of these sets.
transient state
    a state in no closed class.
cyclic classes
    a closed class of period d splits into d parts visited in turn.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd, lcm

import numpy as np
from numpy.typing import NDArray

from pufferkit.checks import Bools, Floats


@dataclass(frozen=True, eq=False)
class ClosedClass:
    """One closed class: its states, its period, and the cyclic part each state belongs to."""

    members: NDArray[np.intp]
    period: int
    part: NDArray[np.intp]


def reachable(transition: Floats) -> Bools:
    """Entry (x, y) says whether y can be reached from x in zero or more steps."""
    reach: Bools = (transition > 0) | np.eye(len(transition), dtype=bool)
    while True:
        further = boolean_product(reach, reach)
        if (further == reach).all():
            return reach
        reach = further


def boolean_product(first: Bools, second: Bools) -> Bools:
    """The pattern of non-zeros of a product of non-negative matrices with these patterns."""
    if first.all() and second.all():
        return np.ones((len(first), second.shape[1]), dtype=bool)
    product = first.astype(np.float32) @ second.astype(np.float32)
    return np.asarray(product > 0.5, dtype=bool)


def closed_classes(transition: Floats) -> tuple[ClosedClass, ...]:
    """Every closed class, in order of its first state."""
    reach = reachable(transition)
    both = reach & reach.T
    classes = []
    seen = np.zeros(len(transition), dtype=bool)
    for x in range(len(transition)):
        if not seen[x]:
            seen |= both[x]
            if (reach[x] == both[x]).all():
                classes.append(_with_period(transition, np.flatnonzero(both[x])))
    return tuple(classes)


def _with_period(transition: Floats, members: NDArray[np.intp]) -> ClosedClass:
    """Breadth-first levels from one state; the period divides every level mismatch on an edge."""
    edges = transition[np.ix_(members, members)] > 0
    level = np.full(len(members), -1, dtype=np.intp)
    level[0] = 0
    front = np.array([0])
    while front.size:
        fresh = np.flatnonzero(edges[front].any(axis=0) & (level < 0))
        level[fresh] = level[front[0]] + 1
        front = fresh
    starts, ends = np.nonzero(edges)
    period = 0
    for mismatch in np.unique(np.abs(level[starts] + 1 - level[ends])):
        period = gcd(period, int(mismatch))
    return ClosedClass(members, period, level % period)


def common_period(classes: tuple[ClosedClass, ...]) -> int:
    """After this many steps the long-run behaviour repeats itself."""
    return lcm(*(c.period for c in classes))
