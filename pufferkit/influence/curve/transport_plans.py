"""Transport programmes: one step of the pairwise curve, for every pair of rows of a kernel.

For distributions p, q on the states and a matrix B of allowed variation (B >= 0, zero diagonal,
triangle inequality), PAIRS Theorem 1 says

    sup { log sum_y p_y e^{g_y} - log sum_y q_y e^{g_y} :  g_y - g_z <= B(y, z) }
        = log min over plans x >= 0 with sum_z x_yz = p_y of  max_z sum_y x_yz e^{B(y,z)} / q_z.

*Every* plan gives an upper bound. So the search below need not be exact: what it returns
is a plan, and the value of that plan is computed with positive sums and rounded up.

How the search works. In the *tilted* masses

    P_y = p_y e^{g_y} / sum,    Q_z = q_z e^{g_z} / sum,    f_yz = x_yz e^{g_y} / sum

the gains e^B disappear: f moves P to Q on the arcs that are tight, g_y - g_z = B(y, z). By the
triangle inequality what a state has of both stays, and nothing passes through a third state. A
basis is a spanning tree of tight arcs between different states, the flow on an arc is the net mass
P - Q of the subtree behind it, and an arc with negative flow leaves: its subtree is shifted, all
together, in the direction in which the objective grows, until another arc becomes tight. That is
the dual simplex method, on trees only, with no matrix to invert. A pivot costs one pass over the
states and one over the arcs between the subtree, mostly a state or two, and the rest.

A call starts from the tree of the previous one. Where the new B is exceeded, g is lowered, and the
parts of the tree that come apart are joined as a pivot joins them. Near a fixed point most
programmes need no pivot: one pass over all arcs shows that the tree is still the best.

The flow is also the derivative of the step: d step / d B(y, z) = f_yz.

Two ways to the same plans:

- `PlansAtOnce` pivots the programmes of all pairs together, in numpy. It serves small work, so that
  a first plan need not wait for a compiler.
- `CompiledPlans` solves one programme after another in a compiled loop. Loading the loop takes a
  second, and compiling it, the first time ever, half a minute.

Both propose flows. The number that is used is that of `plan_steps`, one function for both, so a
search that ends early or goes astray costs noise, never privacy.

# Records

Bases of transport plans, recorded so that steps can be verified without optimisation.

The best plan of a pair of rows is supported on a spanning tree of the sources y with p_y > 0 and
the targets z with q_z > 0. The tree is sufficient: with the variation B on its arcs, the plan and
its value follow by walking over it (as `pufferkit.verification.check_steps` does). It is written
as the neighbour of every node on the path to the first source: for the second and later sources an
index among the targets, then for every target an index among the sources, one byte each.

Pairs of equal rows, whose plan leaves everything in place, are filled with `STAY`; where no
programme was solved all bytes are `NONE`.
"""

# mypy: disable-error-code="no-untyped-def"
# ruff: noqa: PLR0912, PLR0915  (compiled loops are long)

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pufferkit import records
from pufferkit.checks import Bools, Floats
from pufferkit.compiling import compiled_loop
from pufferkit.rounding import EPS

_RAISED = 1e-13
"""Raises every arc a little, so that a way over a third state is never as short."""

_TURNS = 4
"""Improvements of a first forest; more pivots cost less than more turns."""

_ROUGH_TURNS = 2
"""Improvements of a rough bound."""

_LEAST = 1e-300
"""A flow that is there and counts for nothing."""

_HEAVY = 0.3
"""A root with such a share of the heaviest mass stays the root."""

_NEGATIVE = -1e-13
"""A flow is negative if it is below this share of the masses it is the difference of."""


@compiled_loop
def _risen(p, q, cost, ratio, leaves, nearest, g):
    """States with p > ratio q as far above the nearest of the others as they may be.

    At the best ratio these are the states that mass leaves, the others those where it arrives.
    With two states or more at least one leaves and one does not. Returns the ratio of the means of
    e^g, which is at most e^step.
    """
    size = len(p)
    most, least, highest, lowest = -np.inf, np.inf, 0, 0
    for y in range(size):
        surplus = p[y] - ratio * q[y]
        leaves[y] = surplus > 0.0
        if p[y] > 0.0 and surplus > most:
            most, highest = surplus, y
        if q[y] > 0.0 and surplus < least:
            least, lowest = surplus, y
    if highest == lowest:  # rows alike up to a rounding: any other state will do
        for y in range(size):
            if y != highest and q[y] > 0.0:
                lowest = y
        for y in range(size):
            if highest == lowest and y != lowest and p[y] > 0.0:
                highest = y
    leaves[highest], leaves[lowest] = True, False  # also where rounding hides it
    above, below = 0.0, 0.0
    for y in range(size):
        g[y], factor, nearest[y] = 0.0, 1.0, lowest
        if leaves[y]:
            least, row = np.inf, cost[y]
            for z in range(size):
                if row[z] < least and not leaves[z]:
                    least, nearest[y] = row[z], z
            g[y], factor = least, np.exp(least)
        above += p[y] * factor
        below += q[y] * factor
    return above / below


@compiled_loop
def _first_forest(p, q, cost, across, arc_y, arc_z, g):
    """Tight arcs for a start: from where mass leaves, and to every state; their number."""
    size, arcs, ratio = len(p), 0, 1.0
    leaves, nearest = np.empty(size, np.bool_), np.empty(size, np.int64)
    for _ in range(_TURNS):
        larger = _risen(p, q, cost, ratio, leaves, nearest, g)
        if not larger > ratio * (1.0 + 1e-6):
            break
        ratio = larger
    reached = np.zeros(size, np.bool_)
    for y in range(size):
        if leaves[y]:
            arc_y[arcs], arc_z[arcs] = y, nearest[y]
            reached[nearest[y]] = True
            arcs += 1
    for z in range(size):
        if not (leaves[z] or reached[z]):
            most, source, column = -np.inf, -1, across[z]
            for y in range(size):
                if leaves[y] and (source < 0 or g[y] - column[y] > most):
                    most, source = g[y] - column[y], y
            g[z], arc_y[arcs], arc_z[arcs] = most, source, z
            arcs += 1
    return arcs


@compiled_loop
def _hang(root, arcs, arc_y, arc_z, parent, through, order, place, count, links):
    """Parent of every state, the arc to it, and an order in which subtrees are in one piece.

    Parts that no arc connects to the root hang from it too, by arc -1. ``place`` is where a state
    stands in the order, ``count`` how many are in its subtree.
    """
    size = len(parent)
    first, following, waiting = links[:size], links[size : 3 * size], links[3 * size :]
    for node in range(size):
        first[node] = parent[node] = -1
    for arc in range(arcs):
        y, z = arc_y[arc], arc_z[arc]
        following[2 * arc], following[2 * arc + 1] = first[y], first[z]
        first[y], first[z] = 2 * arc, 2 * arc + 1
    seen = 0
    for turn in range(root, root + size):
        start = turn if turn < size else turn - size
        if parent[start] >= 0:
            continue
        parent[start], through[start], waiting[0], left = root, -1, start, 1
        while left > 0:
            left -= 1
            node = waiting[left]
            order[seen], place[node], count[node] = node, seen, 1
            seen += 1
            link = first[node]
            while link >= 0:
                arc = link // 2
                other = arc_z[arc] if link % 2 == 0 else arc_y[arc]
                if parent[other] < 0:
                    parent[other], through[other], waiting[left] = node, arc, other
                    left += 1
                link = following[link]
    for at in range(size - 1, 0, -1):
        count[parent[order[at]]] += count[order[at]]


@compiled_loop
def _rehang(leaving, near, far, arc, parent, through, order, place, count, links):
    """Hang the subtree of ``leaving`` by ``arc``, from its own state ``near`` to ``far`` outside.

    The order of the subtree from ``near`` on consists of pieces of the old one.
    """
    number, begin, moved = count[leaving], place[leaving], links
    node = parent[leaving]
    while True:
        count[node] -= number
        if parent[node] == node:
            break
        node = parent[node]
    done, node, above, before, size = 0, near, far, arc, 0
    while True:
        start, end = place[node], place[node] + count[node]
        for at in range(start, end):  # less the piece that was taken already
            if size == 0 or at < place[above] or at >= place[above] + size:
                moved[done] = order[at]
                done += 1
        further, link, whole = parent[node], through[node], count[node]
        parent[node], through[node], count[node] = above, before, number - size
        if node == leaving:
            break
        node, above, before, size = further, node, link, whole
    node = far
    while True:
        count[node] += number
        if parent[node] == node:
            break
        node = parent[node]
    at = place[far]
    if at < begin:
        first, last, at = at + 1, begin + number, at + 1
        for there in range(begin - 1, first - 1, -1):
            order[there + number] = order[there]
    else:
        first, last, at = begin, at + 1, at + 1 - number
        for there in range(begin, at):
            order[there] = order[there + number]
    for n in range(number):
        order[at + n] = moved[n]
    for there in range(first, last):
        place[order[there]] = there


@compiled_loop
def _potentials(cost, less, arc_y, parent, through, order, g):
    """The g of a tree of tight arcs, at the cost less a constant."""
    g[order[0]] = 0.0
    for place in range(1, len(g)):
        node = order[place]
        above = parent[node]
        if arc_y[through[node]] == node:
            g[node] = g[above] + (cost[node, above] - less)
        else:
            g[node] = g[above] - (cost[above, node] - less)


@compiled_loop
def _lowered(p, q, cost, across, tight, arcs, arc_y, arc_z, g, least):
    """Lower g where it exceeds the cost; how many arcs are tight then, whether all still are."""
    size = len(p)
    least[:] = np.inf
    for z in range(size):
        if q[z] > 0.0:
            for y in range(size):
                least[y] = min(least[y], across[z, y] + g[z])
    lower = np.zeros(size, np.bool_)
    some = False
    for y in range(size):
        if p[y] > 0.0 and least[y] < g[y] - tight:
            lower[y] = some = True
    if not some:
        return arcs, True
    kept = 0
    for arc in range(arcs):
        if not (lower[arc_y[arc]] or lower[arc_z[arc]]):
            arc_y[kept], arc_z[kept] = arc_y[arc], arc_z[arc]
            kept += 1
    for y in range(size):
        if lower[y]:
            most, target = np.inf, -1
            for z in range(size):
                if q[z] > 0.0 and not lower[z] and cost[y, z] + g[z] < most:
                    most, target = cost[y, z] + g[z], z
            if target >= 0:  # otherwise a pivot joins it
                g[y] = most
                arc_y[kept], arc_z[kept] = y, target
                kept += 1
    return kept, False


@compiled_loop
def _entering(p, q, cost, across, g, order, begin, end, up, least, far):
    """The arc that is tight first when the subtree moves: from inside it up, or into it down.

    The subtree is a piece of the order, from ``begin`` to before ``end``. Of its states and the
    others, the fewer are gone through one by one.
    """
    size = len(p)
    few = 2 * (end - begin) <= size
    by_source = few == up  # row by row, else column by column
    matrix, own, other = (cost, p, q) if by_source else (across, q, p)
    sign = 1.0 if by_source else -1.0
    for node in range(size):
        least[node] = np.inf
        far[node] = sign * g[node] if other[node] > 0.0 else np.inf
    for at in range(size):
        node = order[at]
        if (begin <= at < end) == few:
            far[node] = np.inf
            if own[node] > 0.0:
                row, here = matrix[node], sign * g[node]
                for there in range(size):
                    least[there] = min(least[there], row[there] - here)
    shift, there = np.inf, -1
    for node in range(size):
        if least[node] + far[node] < shift:
            shift, there = least[node] + far[node], node
    if there < 0:
        return shift, -1, -1
    best, here = np.inf, -1
    for at in range(size):
        node = order[at]
        if (begin <= at < end) == few and own[node] > 0.0:
            slack = matrix[node, there] - sign * g[node]
            if slack < best:
                best, here = slack, node
    return (shift, here, there) if by_source else (shift, there, here)


@compiled_loop
def optimal_flow(p, q, cost, across, raised, known, arc_y, arc_z, stay, flow, pivots):
    """Dual simplex on spanning trees of the states; the flow on every arc of the last tree.

    ``cost`` is B raised by a little, so that the way through a third state is never as short, and
    infinite on the diagonal; ``across`` is its transpose. It starts from the given tree if that is
    ``known``. ``stay`` is the mass that stays in each state. Returns the number of pivots. If it
    stops early, negative flows are cut off: still a plan. Where no arc can enter, as with numbers
    that are not finite, it returns -1, no flow, and no tree.
    """
    size = len(p)
    if size == 1:
        stay[0] = 1.0
        return 0
    whole, numbers = np.empty((9, size), np.int64), np.empty((8, size))
    parent, through, order, place, count = whole[0], whole[1], whole[2], whole[3], whole[4]
    links = whole[5:].ravel()
    g, net, gross, supply, demand = numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]
    least, far = numbers[5], numbers[6]
    arcs, root, last = size - 1, -1, False
    if known:
        root = (p + q).argmax()
        _hang(root, arcs, arc_y, arc_z, parent, through, order, place, count, links)
        _potentials(cost, 0.0, arc_y, parent, through, order, g)
        arcs, last = _lowered(p, q, cost, across, raised / 4, arcs, arc_y, arc_z, g, least)
        if last:  # mostly the tree is still the best
            _potentials(cost, raised, arc_y, parent, through, order, g)
        else:
            root = -1
    else:
        arcs = _first_forest(p, q, cost, across, arc_y, arc_z, g)
    _tilted(p, q, g, supply, demand)
    done = 0
    while True:
        above, below = supply.sum(), demand.sum()
        if not (above > 0.0 and below > 0.0):  # potentials too far apart for floats
            return _no_flow(arc_y, arc_z, flow, stay, size)
        above, below = 1.0 / above, 1.0 / below
        # With a heavy state as the root, flows are sums of what is light.
        heaviest = 0
        for node in range(size):
            here, there = supply[node] * above, demand[node] * below
            net[node], gross[node] = here - there, here + there
            if gross[node] > gross[heaviest]:
                heaviest = node
        if root < 0 or gross[root] < _HEAVY * gross[heaviest]:
            root = heaviest
            _hang(root, arcs, arc_y, arc_z, parent, through, order, place, count, links)
        worst, leaving = 0.0, -1
        for at in range(size - 1, 0, -1):
            node = order[at]
            arc = through[node]
            if arc < 0:
                worst, leaving = -np.inf, node
            else:
                value = net[node] if arc_y[arc] == node else -net[node]
                flow[arc] = value
                if value < worst and value < _NEGATIVE * gross[node]:
                    worst, leaving = value, node
            net[parent[node]] += net[node]
            gross[parent[node]] += gross[node]
        if leaving < 0 or (done >= pivots and worst > -np.inf):
            if last:
                break
            # Once more, at B itself and without the roundings of the pivots.
            last = True
            _potentials(cost, raised, arc_y, parent, through, order, g)
            _tilted(p, q, g, supply, demand)
            continue
        if last and done > 0:
            break
        if last:
            last = False
            _potentials(cost, 0.0, arc_y, parent, through, order, g)
        done += 1
        # The subtree below the leaving arc moves.
        begin, end, up = place[leaving], place[leaving] + count[leaving], net[leaving] >= 0.0
        shift, enter_y, enter_z = _entering(
            p, q, cost, across, g, order, begin, end, up, least, far
        )
        if enter_y < 0:
            up = not up
            shift, enter_y, enter_z = _entering(
                p, q, cost, across, g, order, begin, end, up, least, far
            )
        if enter_y < 0:
            return _no_flow(arc_y, arc_z, flow, stay, size)
        move = max(shift, 0.0) if up else -max(shift, 0.0)
        factor = np.exp(move)
        for at in range(begin, end):
            node = order[at]
            g[node] += move
            supply[node] *= factor
            demand[node] *= factor
        arc = through[leaving]
        if arc < 0:
            arc = arcs
            arcs += 1
        arc_y[arc], arc_z[arc] = enter_y, enter_z
        near, other = (enter_y, enter_z) if up else (enter_z, enter_y)
        _rehang(leaving, near, other, arc, parent, through, order, place, count, links)
    # What stays is P less what leaves, or Q less what arrives: the one without a difference.
    for node in range(size):
        stay[node] = supply[node] * above
        net[node] = 0.0
    for arc in range(size - 1):
        flow[arc] = max(flow[arc], 0.0)
        net[arc_z[arc]] += flow[arc]
        stay[arc_y[arc]] -= flow[arc]
    for node in range(size):
        if net[node] == 0.0:
            stay[node] = demand[node] * below
        stay[node] = max(stay[node], 0.0) if q[node] > 0.0 else 0.0
    return done


@compiled_loop
def _no_flow(arc_y, arc_z, flow, stay, size):
    """Nothing flows; -1."""
    for node in range(size):
        arc_y[node], arc_z[node], flow[node], stay[node] = node, node, 0.0, 0.0
    return -1


@compiled_loop
def _tilted(p, q, g, supply, demand):
    """Tilted masses, up to a factor that both have in common."""
    top = g.max()
    for node in range(len(g)):
        factor = np.exp(g[node] - top)
        supply[node], demand[node] = p[node] * factor, q[node] * factor


@compiled_loop
def plan_steps(p, q, gains, states, sources, targets, flows):
    """The logarithm of the largest load of each plan, rounded up; all steps are these numbers.

    Theorem: PAIRS Theorem 1. For every g that varies by at most B, the log-ratio of the means of
    e^g under p and under q is at most log max_z sum_y x_yz e^{B(y,z)} / q_z for any plan x, that
    is x >= 0 with row sums p; the least of these bounds is attained.

    The plan sends from each state in proportion to the flows on its arcs. Sums of positive terms,
    each of a few roundings, are rounded up together. What is no plan bounds nothing: the step is
    infinite where mass is missing, or goes where q has none, or a flow is not a number.

    The same code runs in numpy and in compiled loops, so it uses only what both know.

    Parameters
    ----------
    p, q
        Masses of each plan at its nodes; a row for each plan.
    gains, states
        e^B for every pair of states, and the state of each node.
    sources, targets, flows
        Arcs of each plan as nodes, what stays included, and their flows, in any unit; negative
        ones count as zero.
    """
    plans, width = p.shape
    slack = (2 * width + 16) * 2.3e-16
    first = np.arange(plans).reshape(-1, 1) * width
    begin, end = (first + sources).ravel(), (first + targets).ravel()
    gain = gains.ravel()[states[sources.ravel()] * len(gains) + states[targets.ravel()]]
    flow = np.maximum(flows.ravel(), 0.0)
    supply, demand, sent = p.ravel(), q.ravel(), np.bincount(begin, flow, plans * width)
    moved = flow * (supply / np.where(sent > 0.0, sent, np.inf))[begin]
    placed = np.bincount(begin, moved, plans * width)
    loads = np.bincount(end, moved * gain, plans * width)
    is_plan = (placed >= supply * (1.0 - slack)) & ((demand > 0.0) | (loads == 0.0))
    ratios = np.where(is_plan, loads / np.where(demand > 0.0, demand, 1.0), np.inf)
    ratios = ratios.reshape(plans, width)
    largest = np.ones(plans)
    for node in range(width):
        largest = np.maximum(largest, ratios[:, node])
    steps = np.log(largest)
    # Asked so that a NaN does not pass.
    return np.where(largest < np.inf, steps + slack * (1.0 + steps), np.inf)


@compiled_loop
def _complete(p, q, arc_y, stay, flow):
    """Where nothing flows, a tilted mass below a rounding: all stays, if it may, or all goes on."""
    sums = stay.copy()
    for arc in range(len(p) - 1):
        sums[arc_y[arc]] += flow[arc]
    for arc in range(len(p) - 1):
        y = arc_y[arc]
        if p[y] > 0.0 and sums[y] == 0.0 and q[y] == 0.0:
            sums[y] = flow[arc] = _LEAST
    for y in range(len(p)):
        if p[y] > 0.0 and sums[y] == 0.0:
            stay[y] = _LEAST


@compiled_loop
def all_steps(kernel, limit, trees, known, pivots, half, pairs, sources, targets, masses):
    """Steps of every ordered pair of rows of a kernel at the variation ``limit``.

    Rows that are possible at the same states come one after another, as their programmes have the
    same arcs: a step that only shifts a window of entries has few kinds of rows.

    Parameters
    ----------
    kernel
        Rows are distributions on the columns.
    limit
        The matrix B on the columns.
    trees, known
        The tree of every pair from the previous call, and whether there is one; updated.
    pivots
        Most pivots of one programme.
    half
        Only from rows before this one to rows from it on; 0 for all pairs.
    pairs, sources, targets, masses
        Arcs between different states that have a flow, one pair after another: number of the pair,
        source, target, flow.

    Returns
    -------
    tuple
        The matrix of steps, how many arcs were written, and how many pivots were made.
    """
    size, columns = kernel.shape
    steps = np.zeros((size, size))
    raised = _RAISED * max(limit.max(), 1e-280)
    cost, across = limit + raised, limit.T + raised
    for y in range(columns):
        cost[y, y] = across[y, y] = np.inf
    gains = np.exp(limit)
    stay, flow = np.empty(columns), np.empty(columns)
    arc_y, arc_z = np.empty(columns, np.int64), np.empty(columns, np.int64)
    written, made = 0, 0
    kinds = _kinds(kernel)
    for kind in range(size):
        for far in range(size):
            if kinds[kind] != kind or kinds[far] != far:
                continue
            if half > 0 and kind >= half:
                continue
            nodes = np.flatnonzero((kernel[kind] > 0.0) | (kernel[far] > 0.0))
            number = len(nodes)
            own, turned = cost, across
            if number < columns:
                own, turned = np.empty((number, number)), np.empty((number, number))
                for n in range(number):
                    for m in range(number):
                        own[n, m] = turned[m, n] = cost[nodes[n], nodes[m]]
            alike = np.flatnonzero(kinds == far)
            p, q = np.empty((len(alike), number)), np.empty((len(alike), number))
            asked, shape = np.empty(len(alike), np.int64), (len(alike), 2 * number - 1)
            ys, zs, flows = np.empty(shape, np.int64), np.empty(shape, np.int64), np.empty(shape)
            for x in range(kind, size if half == 0 else half):
                if kinds[x] != kind:
                    continue
                plans = 0
                for other in alike:
                    if other < half or other == x:
                        continue
                    same = True
                    for n in range(number):
                        p[plans, n], q[plans, n] = kernel[x, nodes[n]], kernel[other, nodes[n]]
                        same &= p[plans, n] == q[plans, n]
                    if same:
                        continue
                    tree = trees[x, other]
                    for arc in range(number - 1):
                        arc_y[arc], arc_z[arc] = tree[arc, 0], tree[arc, 1]
                    done = optimal_flow(
                        p[plans],
                        q[plans],
                        own,
                        turned,
                        raised,
                        known[x, other],
                        arc_y,
                        arc_z,
                        stay,
                        flow,
                        pivots,
                    )
                    made += max(done, 0)
                    known[x, other] = done >= 0
                    _complete(p[plans], q[plans], arc_y, stay, flow)
                    for arc in range(number - 1):
                        tree[arc, 0], tree[arc, 1] = arc_y[arc], arc_z[arc]
                        ys[plans, arc], zs[plans, arc] = arc_y[arc], arc_z[arc]
                        flows[plans, arc] = flow[arc]
                        if flow[arc] > 0.0:
                            pairs[written] = x * size + other
                            sources[written] = nodes[arc_y[arc]]
                            targets[written] = nodes[arc_z[arc]]
                            masses[written] = flow[arc]
                            written += 1
                    for n in range(number):
                        ys[plans, number - 1 + n] = zs[plans, number - 1 + n] = n
                        flows[plans, number - 1 + n] = stay[n]
                    asked[plans] = other
                    plans += 1
                if plans == 0:
                    continue
                values = plan_steps(
                    p[:plans], q[:plans], gains, nodes, ys[:plans], zs[:plans], flows[:plans]
                )
                for plan in range(plans):
                    steps[x, asked[plan]] = values[plan]
    return steps, written, made


@compiled_loop
def _kinds(kernel):
    """For every row the first one that is possible at the same states."""
    size = len(kernel)
    kinds = np.arange(size)
    for x in range(size):
        for first in range(x):
            if kinds[first] == first and np.all((kernel[x] > 0.0) == (kernel[first] > 0.0)):
                kinds[x] = first
                break
    return kinds


@compiled_loop
def closed(variation):
    """The triangle closure: shortest paths, rounded up."""
    paths, size = variation.copy(), len(variation)
    if 2 * (paths + np.diag(np.full(size, np.inf))).min() >= paths.max():
        return paths  # two arcs are never the shorter way
    for middle in range(size):
        ways = paths[:, middle].copy().reshape(-1, 1) + paths[middle].copy().reshape(1, -1)
        paths = np.minimum(paths, ways * (1.0 + 2.0 * EPS))
    return paths


@compiled_loop
def raised_by(cost, adds):
    """The sum, rounded up; exact where the cost is zero."""
    return np.where(cost > 0.0, (cost + adds) * (1.0 + 2.0 * EPS), adds)


@compiled_loop
def followed(kernels, error, cost, variation, most, pivots, limit, near, cheap, trees, steps, met):
    """Entry after entry: the steps at the present variation, then what this entry adds to it.

    Parameters
    ----------
    kernels, error
        One for every entry, the last for all later ones; what to add to a step.
    cost, variation
        Cost of the entries; variation before the first, afterwards before the next one.
    most
        Ends where a variation is above this.
    pivots
        Most pivots of one programme.
    limit, near, cheap
        Ends after the first entry where the variation is within the limit, and if no more than
        ``cheap`` entries are left, only where it is within ``near`` of it too.
    trees, steps, met
        Output for each entry: trees of the plans, steps, and the variation before it.

    Returns
    -------
    int
        How many entries were computed.
    """
    size, states = kernels.shape[1:]
    tree = np.zeros((size, size, states, 2), np.int16)
    known = np.zeros((size, size), np.bool_)
    room = size * size * states
    pairs, ys, zs = np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room, np.int32)
    flows, outside = np.empty(room), 1.0 - np.eye(size)
    for entry in range(len(steps)):
        least = limit - (np.inf if len(steps) - entry > cheap else near)
        if entry > 0 and np.all(variation <= limit) and np.all(variation >= least):
            return entry
        at = min(entry, len(kernels) - 1)
        if at > 0 and np.any((kernels[at] > 0.0) != (kernels[at - 1] > 0.0)):
            known[:] = False  # trees are over the states that are possible
        own, _, _ = all_steps(kernels[at], variation, tree, known, pivots, 0, pairs, ys, zs, flows)
        met[entry], trees[entry], steps[entry] = variation, tree, own + error * outside
        variation[:] = closed(raised_by(cost, steps[entry]))
        if variation.max() > most:
            return entry + 1
    return len(steps)


@compiled_loop
def rough_steps(kernel, limit):
    """Lower bounds on the steps, by a few g for each pair."""
    size, columns = kernel.shape
    steps = np.zeros((size, size))
    means, gains = np.zeros((size, columns)), np.exp(limit)
    for x in range(size):
        for y in range(columns):
            means[x] += kernel[x, y] * gains[y]
    leaves, nearest = np.empty(columns, np.bool_), np.empty(columns, np.int64)
    g = np.empty(columns)
    for x in range(size):
        for other in range(size):
            if other != x:
                ratio = 1.0
                for z in range(columns):
                    ratio = max(ratio, means[x, z] / means[other, z])
                for _ in range(_ROUGH_TURNS):
                    own = _risen(kernel[x], kernel[other], limit, ratio, leaves, nearest, g)
                    ratio = max(own, ratio)
                steps[x, other] = np.log(ratio)
    return steps


_TIGHT = 1e-12
"""A slack above minus this is rounding."""

_MOST_ROUNDS, MOST_PIVOTS = 400, 20_000
"""Never reached; a search that ends early has a plan all the same."""

Some = NDArray[np.intp] | slice
_ALL = slice(None)


@dataclass(frozen=True)
class Arcs:
    """The arcs between different states that the plans of all pairs of rows use.

    ``flow`` is the derivative of the pair's step in the variation between source and target.
    """

    pair: NDArray[np.integer]
    source: NDArray[np.integer]
    target: NDArray[np.integer]
    flow: Floats


def _tree_sizes(kernel: Floats) -> Floats:
    """For every pair of rows how many states are possible under one of both."""
    possible = (kernel > 0).astype(float)
    alone = possible.sum(axis=1)
    return np.asarray(alone[:, None] + alone[None, :] - possible @ possible.T)


def plans_bytes(kernel: Floats) -> int:
    """About how much memory the plans of a kernel take: trees, arcs with their flows."""
    sizes = _tree_sizes(kernel)
    return 4 * sizes.size * int(sizes.max()) + 20 * int(sizes.sum())


class CompiledPlans:
    """The plans of a kernel, by a compiled loop; ``half`` is that of `all_steps`."""

    arcs: Arcs
    """The plans of the last call."""

    def __init__(self, kernel: Floats, half: int) -> None:
        sizes = _tree_sizes(kernel)
        self._kernel, self._half, self._room = kernel, half, int(sizes.sum())
        self._known = np.zeros(sizes.shape, dtype=np.bool_)
        self._trees = np.zeros((*sizes.shape, int(sizes.max()), 2), dtype=np.int16)

    @property
    def trees(self) -> NDArray[np.int16]:
        """Arcs of the trees of all pairs, as indices among the possible states."""
        return bipartite(self._kernel, self._trees)

    def __call__(self, limit: Floats) -> Floats:
        """The matrix of steps at the variation ``limit``."""
        pair, source, target = (np.empty(self._room, dtype=np.int32) for _ in range(3))
        flow = np.empty(self._room)
        steps, written, _ = all_steps(
            self._kernel,
            limit,
            self._trees,
            self._known,
            MOST_PIVOTS,
            self._half,
            *(pair, source, target, flow),
        )
        arcs = slice(written)
        self.arcs = Arcs(pair[arcs], source[arcs], target[arcs], flow[arcs])
        return steps  # type: ignore[no-any-return]


def bipartite(kernel: Floats, trees: NDArray[np.int16]) -> NDArray[np.int16]:
    """Trees of the compiled loop as arcs from sources to targets, in indices of possible states.

    A state with mass of both is a source and a target, with an arc between them: what stays.
    """
    rows, most = len(kernel), 2 * int((kernel > 0).sum(axis=1).max())
    written = np.zeros((rows, rows, most, 2), dtype=np.int16)
    _bipartite(np.array(kernel), trees, written)
    return written


@compiled_loop
def _bipartite(kernel, trees, written):
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
    """

    def __init__(self, kernel: Floats, half: int) -> None:
        self._size, self._states = kernel.shape
        x, other = np.indices((self._size, self._size))
        asked = (x < half) & (other >= half) if half else x != other
        same = (kernel[:, None, :] == kernel[None, :, :]).all(axis=2)
        self._x, self._other = np.nonzero(asked & ~same)
        self._p, self._q = kernel[self._x], kernel[self._other]
        self._masses = np.stack([self._p, self._q], axis=1)
        self._never = np.where(self._masses > 0, 0.0, -np.inf)
        self._shut = np.where(self._never[:, 0, :, None] + self._never[:, 1, None, :], np.inf, 0.0)
        self._pairs = np.arange(len(self._x))
        self._y = np.zeros((len(self._x), 2 * self._states), dtype=np.int64)
        self._z, self._used = self._y.copy(), self._y.astype(bool)
        self._at, self._from = self._y.copy(), self._y.copy()
        self._paths = np.zeros((*self._y.shape, 2 * self._states))
        self._sides = np.zeros((*self._y.shape, 4 * self._states))
        self._signs, self._fresh = np.zeros(self._y.shape), True
        self._flow = self._signs

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
        self._flow = self._complete(np.maximum(self._flows(limit, potentials), 0.0))
        steps[self._x, self._other] = plan_steps.plain(
            self._p, self._q, np.exp(limit), np.arange(self._states), self._y, self._z, self._flow
        )
        return steps

    @property
    def arcs(self) -> Arcs:
        """The plans of the last call."""
        kept = (self._flow > 0) & (self._y != self._z)
        pair = (self._x * self._size + self._other)[:, None].repeat(kept.shape[1], axis=1)
        return Arcs(pair[kept], self._y[kept], self._z[kept], self._flow[kept])

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
        y, z = self._y[pairs], self._z[pairs]
        self._at[pairs], self._from[pairs] = y * self._states + z, pairs[:, None] * self._states + y

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

    def _complete(self, flow: Floats) -> Floats:
        """The flows, with the first arc of a state with mass from which nothing flows."""
        sums = np.bincount(self._from.ravel(), flow.ravel(), self._p.size).reshape(self._p.shape)
        lacking = (sums == 0) & (self._p > 0)
        for pair, y in np.argwhere(lacking) if lacking.any() else ():
            flow[pair, (self._used[pair] & (self._y[pair] == y)).argmax()] = _LEAST
        return flow


STAY, NONE = 255, 254

MOST_TEXT = 10_000_000
"""Longer texts are not recorded: thousands of entries that differ, of many states. Such a release
cannot be verified."""

_MOST_STATES = 250
_MOST_BYTES = 100_000_000


def bases_of(steps: Any) -> list[bytes]:
    """The trees of the last call of steps that are programmes."""
    programmes = steps.programmes
    return bases_in(programmes.kernels, programmes.trees, programmes.half)


def bases_in(
    kernels: Sequence[Floats], trees: Sequence[NDArray[Any]], half: int = 0
) -> list[bytes]:
    """Trees of plans, kernel by kernel, for all ordered pairs of different rows.

    With ``half`` only pairs from the first so many rows to the others have plans; `STAY` stands for
    all other pairs.
    """
    if max(int((kernel > 0).sum(axis=1).max()) for kernel in kernels) > _MOST_STATES:
        raise OverflowError("too many states for a byte")
    written = []
    for kernel, own in zip(kernels, trees, strict=True):
        counts = tuple((kernel > 0).sum(axis=1).tolist())
        same = (kernel[:, None, :] == kernel[None, :, :]).all(axis=2)
        if half:
            same[half:], same[:, :half] = True, True
        written.append(_of_kernel(counts, same.tobytes(), own.astype(np.int16).tobytes()))
    return written


@lru_cache(maxsize=4)  # consecutive entries mostly have the same trees
def _of_kernel(counts: tuple[int, ...], same: bytes, trees: bytes) -> bytes:
    """Trees of all pairs of rows with these numbers of states; ``same`` marks equal rows."""
    size = len(counts)
    arcs = np.frombuffer(trees, dtype=np.int16).reshape(size, size, -1, 2)
    written = np.empty((size - 1) * (2 * sum(counts) - size), dtype=np.uint8)
    equal = np.frombuffer(same, dtype=np.bool_).reshape(size, size)
    # Compiled if the plans were.
    write = _neighbours.plain if all_steps.patient() else _neighbours
    write(np.array(counts), equal, arcs, written)
    if len(set(counts)) > 1:
        return written.tobytes()
    # A target and a source in turns, over all pairs: targets by the second row of the pair, sources
    # by the first. It compresses better than pair after pair.
    pairs, sources = written.reshape(-1, 2 * counts[0] - 1), counts[0] - 1
    x, other = np.nonzero(~np.eye(size, dtype=bool))
    rows = np.empty(pairs.T.shape, dtype=np.uint8)
    rows[::2], rows[1::2] = pairs[np.lexsort((x, other)), sources:].T, pairs[:, :sources].T
    return rows.tobytes()


def blank(kernel: Floats) -> bytes:
    """A blank record, as long as the bases of a kernel."""
    counts = (kernel > 0).sum(axis=1)
    pairs = len(counts) * (len(counts) - 1)
    return bytes([NONE]) * int(2 * (len(counts) - 1) * counts.sum() - pairs)


@compiled_loop
def _neighbours(counts, same, arcs, written):
    """The trees of all pairs, each rooted at its first source; any arcs stay within the arrays."""
    place, size = 0, len(counts)
    most = 2 * counts.max()
    first, following = np.empty(most, np.int64), np.empty(2 * most, np.int64)
    towards, order = np.empty(most, np.int64), np.empty(most, np.int64)
    for x in range(size):
        for other in range(size):
            if other == x:
                continue
            rows, number = counts[x], counts[x] + counts[other] - 1
            if same[x, other]:
                written[place : place + number] = STAY
                place += number
                continue
            first[: number + 1] = -1
            for arc in range(number):
                y, z = arcs[x, other, arc, 0], rows + arcs[x, other, arc, 1]
                following[2 * arc], following[2 * arc + 1] = first[y], first[z]
                first[y], first[z] = 2 * arc, 2 * arc + 1
            towards[: number + 1] = -1
            order[0], towards[0], seen, head = 0, 0, 1, 0
            while head < seen:
                node = order[head]
                head += 1
                link = first[node]
                while link >= 0:
                    arc = link // 2
                    far = rows + arcs[x, other, arc, 1] if link % 2 == 0 else arcs[x, other, arc, 0]
                    if towards[far] < 0:
                        towards[far], order[seen] = node, far
                        seen += 1
                    link = following[link]
            for node in range(1, number + 1):
                # What is no tree proves nothing.
                written[place] = max(towards[node] - (rows if node < rows else 0), 0)
                place += 1


def packed(bases: Iterable[bytes]) -> str | None:
    """Text of several bases, each as its difference from the one before where that is as long.

    ``None`` if it is longer than `MOST_TEXT`.
    """
    before, total, parts = b"", 0, []
    try:
        for own in bases:
            total += len(own)
            if total > _MOST_BYTES:
                return None
            shown = np.frombuffer(own, dtype=np.uint8)
            if len(own) == len(before):
                shown = shown ^ np.frombuffer(before, dtype=np.uint8)
            parts.append(shown.tobytes())
            before = own
    except OverflowError:
        return None
    text = records.packed(b"".join(parts))
    return text if len(text) <= MOST_TEXT else None
