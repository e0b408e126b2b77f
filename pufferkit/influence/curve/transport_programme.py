"""One step of the pairwise curve: a transport programme, compiled.

For distributions p, q on the states and a matrix B of allowed variation (B >= 0, zero diagonal,
triangle inequality), PAIRS Theorem 1 says

    sup { log sum_y p_y e^{g_y} - log sum_y q_y e^{g_y} :  g_y - g_z <= B(y, z) }
        = log min over plans x >= 0 with sum_z x_yz = p_y of  max_z sum_y x_yz e^{B(y,z)} / q_z.

*Every* plan gives an upper bound. So the search below need not be exact: what it returns
is a plan, and the value of that plan is computed with positive sums and rounded up.

How the search works. Let alpha_y, beta_z be the logarithms of the dual variables of the right-hand
side, alpha_y <= B(y, z) + beta_z. In the *tilted* masses

    P_y = p_y e^{alpha_y} / sum,    Q_z = q_z e^{beta_z} / sum,    f_yz = x_yz e^{alpha_y} / sum

the gains e^B disappear: f is an ordinary transport plan from P to Q on the arcs that are tight. A
basis is a spanning tree of tight arcs, the flow on an arc is the net mass of the subtree behind it,
and an arc with negative flow leaves: its subtree is shifted, all together, in the direction in
which the objective grows, until another arc becomes tight. That is the dual simplex method, on
trees only, with no matrix to invert: a pivot costs one pass over all arcs. It starts from the beta
of the previous call, so that near a fixed point most programmes need no pivot at all.

The flow is also the derivative of the step: d step / d B(y, z) = f_yz.

Small work is done without a compiler, by `pufferkit.influence.curve.pair_plans`.
"""

# mypy: disable-error-code="no-untyped-def"
# ruff: noqa: PLR0912, PLR0915  (compiled loops are long)

from __future__ import annotations

import numpy as np

from pufferkit.compiling import compiled_loop
from pufferkit.rounding import EPS

_TIGHT = 1e-12
_NEGATIVE = -1e-13
_LEAST = 1e-300


@compiled_loop
def _first_potentials(p, q, cost, beta):
    """Potentials of the best single column: alpha_y = B(y, z0)."""
    rows, columns = cost.shape
    trial = np.empty(columns)
    best = -np.inf
    for start in range(columns):
        top = 0.0
        for y in range(rows):
            top = max(top, cost[y, start])
        above = 0.0
        for y in range(rows):
            above += p[y] * np.exp(cost[y, start] - top)
        below = 0.0
        for z in range(columns):
            least = -np.inf
            for y in range(rows):
                least = max(least, cost[y, start] - cost[y, z])
            trial[z] = least
            below += q[z] * np.exp(least - top)
        value = np.log(max(above, _LEAST)) - np.log(max(below, _LEAST))
        if value > best:
            best = value
            beta[:] = trial


@compiled_loop
def _feasible(cost, alpha, beta):
    """Make any beta feasible and tight: every row and every column gets a tight arc."""
    rows, columns = cost.shape
    for y in range(rows):
        least = np.inf
        for z in range(columns):
            least = min(least, cost[y, z] + beta[z])
        alpha[y] = least
    for z in range(columns):
        most = -np.inf
        for y in range(rows):
            most = max(most, alpha[y] - cost[y, z])
        beta[z] = most


@compiled_loop
def _masses(weights, potentials, masses):
    """Tilted masses, scaled to sum to one."""
    top = potentials.max()
    total = 0.0
    for n in range(len(weights)):
        masses[n] = weights[n] * np.exp(potentials[n] - top)
        total += masses[n]
    for n in range(len(weights)):
        masses[n] /= total


@compiled_loop
def _join(label, one, other):
    """Give two parts of a forest one label; False if they already share it."""
    keep, gone = label[one], label[other]
    if keep == gone:
        return False
    for node in range(len(label)):
        if label[node] == gone:
            label[node] = keep
    return True


@compiled_loop
def _spanning_tree(p, q, cost, alpha, beta, arc_y, arc_z, kept):
    """A spanning tree of tight arcs, the first ``kept`` given arcs preferred.

    If tight arcs do not connect everything, a part is shifted until one more arc is tight.
    """
    rows, columns = cost.shape
    label = np.arange(rows + columns)
    supply, demand = np.empty(rows), np.empty(columns)
    arcs = 0
    for arc in range(kept):
        y, z = arc_y[arc], arc_z[arc]
        slack = cost[y, z] + beta[z] - alpha[y]
        if slack <= _TIGHT * (1.0 + cost[y, z]) and _join(label, y, rows + z):
            arc_y[arcs], arc_z[arcs] = y, z
            arcs += 1
    if arcs < rows + columns - 1:
        for y in range(rows):
            for z in range(columns):
                if label[y] == label[rows + z]:
                    continue
                slack = cost[y, z] + beta[z] - alpha[y]
                if slack <= _TIGHT * (1.0 + cost[y, z]) and _join(label, y, rows + z):
                    arc_y[arcs], arc_z[arcs] = y, z
                    arcs += 1
    while arcs < rows + columns - 1:
        _masses(p, alpha, supply)
        _masses(q, beta, demand)
        part, net = label[0], 0.0
        for y in range(rows):
            if label[y] == part:
                net += supply[y]
        for z in range(columns):
            if label[rows + z] == part:
                net -= demand[z]
        up = net >= 0.0
        shift, enter_y, enter_z = np.inf, -1, -1
        for y in range(rows):
            if (label[y] == part) == up:
                for z in range(columns):
                    if (label[rows + z] == part) != up:
                        slack = cost[y, z] + beta[z] - alpha[y]
                        if slack < shift:
                            shift, enter_y, enter_z = slack, y, z
        move = max(shift, 0.0) if up else -max(shift, 0.0)
        for y in range(rows):
            if label[y] == part:
                alpha[y] += move
        for z in range(columns):
            if label[rows + z] == part:
                beta[z] += move
        _join(label, enter_y, rows + enter_z)
        arc_y[arcs], arc_z[arcs] = enter_y, enter_z
        arcs += 1


@compiled_loop
def _hang(rows, columns, arc_y, arc_z, parent, through, order):
    """Root the tree at node 0: parent of every node, the arc to it, an order of visits."""
    size = rows + columns
    first = np.full(size, -1, np.int64)
    following = np.empty(2 * (size - 1), np.int64)
    for arc in range(size - 1):
        y, z = arc_y[arc], rows + arc_z[arc]
        following[2 * arc] = first[y]
        first[y] = 2 * arc
        following[2 * arc + 1] = first[z]
        first[z] = 2 * arc + 1
    parent[:] = -1
    order[0] = 0
    seen = 1
    head = 0
    while head < seen:
        node = order[head]
        head += 1
        link = first[node]
        while link >= 0:
            arc = link // 2
            other = rows + arc_z[arc] if link % 2 == 0 else arc_y[arc]
            if other != parent[node]:
                parent[other] = node
                through[other] = arc
                order[seen] = other
                seen += 1
            link = following[link]


@compiled_loop
def optimal_flow(p, q, cost, alpha, beta, arc_y, arc_z, kept, flow, pivots):
    """Dual simplex on spanning trees, from any beta; the flow on every arc of the last tree.

    Returns the number of pivots. If it stops early, negative flows are cut off: still a plan.
    """
    rows, columns = cost.shape
    size = rows + columns
    _feasible(cost, alpha, beta)
    _spanning_tree(p, q, cost, alpha, beta, arc_y, arc_z, kept)
    parent, through = np.empty(size, np.int64), np.empty(size, np.int64)
    order = np.empty(size, np.int64)
    net = np.empty(size)
    inside = np.empty(size, np.bool_)
    supply, demand = np.empty(rows), np.empty(columns)
    done = 0
    while True:
        _hang(rows, columns, arc_y, arc_z, parent, through, order)
        _masses(p, alpha, supply)
        _masses(q, beta, demand)
        for y in range(rows):
            net[y] = supply[y]
        for z in range(columns):
            net[rows + z] = -demand[z]
        worst, leaving = _NEGATIVE, -1
        for place in range(size - 1, 0, -1):
            node = order[place]
            value = net[node] if node < rows else -net[node]
            flow[through[node]] = value
            if value < worst:
                worst, leaving = value, node
            net[parent[node]] += net[node]
        if leaving < 0 or done >= pivots:
            break
        done += 1
        # The subtree below the leaving arc moves; parents come before children in the order.
        for place in range(size):
            node = order[place]
            inside[node] = node == leaving or (place > 0 and inside[parent[node]])
        up = leaving >= rows
        shift, enter_y, enter_z = np.inf, -1, -1
        for y in range(rows):
            if inside[y] == up:
                for z in range(columns):
                    if inside[rows + z] != up:
                        slack = cost[y, z] + beta[z] - alpha[y]
                        if slack < shift:
                            shift, enter_y, enter_z = slack, y, z
        if enter_y < 0:
            break
        move = max(shift, 0.0) if up else -max(shift, 0.0)
        for y in range(rows):
            if inside[y]:
                alpha[y] += move
        for z in range(columns):
            if inside[rows + z]:
                beta[z] += move
        arc = through[leaving]
        arc_y[arc], arc_z[arc] = enter_y, enter_z
    for arc in range(size - 1):
        flow[arc] = max(flow[arc], 0.0)
    return done


@compiled_loop
def plan_value(p, q, cost, alpha, arc_y, arc_z, flow, plan):
    """The plan behind a flow, with row sums p, and the logarithm of its largest load.

    The value is rounded up: sums of at most n + m positive terms, each of a few roundings.
    """
    rows, columns = cost.shape
    arcs = rows + columns - 1
    sums = np.zeros(rows)
    for arc in range(arcs):
        sums[arc_y[arc]] += flow[arc]
    lone = np.full(rows, -1, np.int64)
    for arc in range(arcs):
        y = arc_y[arc]
        if sums[y] > 0.0:
            plan[arc] = p[y] * (flow[arc] / sums[y])
        else:
            # Nothing flows from here (its tilted mass is below a rounding): use the first arc.
            plan[arc] = p[y] if lone[y] < 0 else 0.0
            lone[y] = arc
    loads = np.zeros(columns)
    for arc in range(arcs):
        loads[arc_z[arc]] += plan[arc] * np.exp(cost[arc_y[arc], arc_z[arc]])
    worst = 0.0
    for z in range(columns):
        worst = max(worst, loads[z] / q[z])
    value = np.log(worst)
    slack = (rows + columns + 16) * 2.3e-16
    return max(value + slack * (1.0 + abs(value)), 0.0)


@compiled_loop
def all_steps(kernel, limit, warm, trees, known, pivots, half, pairs, ys, zs, plans, flows):
    """Steps of every ordered pair of rows of a kernel at the variation ``limit``.

    Parameters
    ----------
    kernel
        Rows are distributions on the columns.
    limit
        The matrix B on the columns.
    warm, trees, known
        beta and the tree of every pair from the previous call, and whether there is one; updated.
    pivots
        Most pivots of one programme.
    half
        Only from rows before this one to rows from it on; 0 for all pairs.
    pairs, ys, zs, plans, flows
        Arcs of all plans, one pair after another: number of the pair, source, target, mass of the
        plan, flow.

    Returns
    -------
    tuple
        The matrix of steps, how many arcs were written, and how many pivots were made.
    """
    size, columns = kernel.shape
    steps = np.zeros((size, size))
    support = np.empty((size, columns), np.int64)
    counts = np.zeros(size, np.int64)
    for x in range(size):
        for y in range(columns):
            if kernel[x, y] > 0.0:
                support[x, counts[x]] = y
                counts[x] += 1
    written, made = 0, 0
    for x in range(size):
        rows = counts[x]
        p = np.empty(rows)
        for n in range(rows):
            p[n] = kernel[x, support[x, n]]
        for other in range(size):
            if other == x or (half > 0 and (x >= half or other < half)):
                continue
            same = True
            for y in range(columns):
                if kernel[x, y] != kernel[other, y]:
                    same = False
                    break
            if same:
                for n in range(rows):
                    y = support[x, n]
                    pairs[written], ys[written], zs[written] = x * size + other, y, y
                    plans[written], flows[written] = p[n], p[n]
                    written += 1
                continue
            width = counts[other]
            q = np.empty(width)
            cost = np.empty((rows, width))
            for m in range(width):
                z = support[other, m]
                q[m] = kernel[other, z]
                for n in range(rows):
                    cost[n, m] = limit[support[x, n], z]
            alpha, beta = np.empty(rows), np.empty(width)
            arcs = rows + width - 1
            arc_y, arc_z = np.empty(arcs, np.int64), np.empty(arcs, np.int64)
            kept = 0
            if known[x, other]:
                for m in range(width):
                    beta[m] = warm[x, other, support[other, m]]
                for arc in range(arcs):
                    arc_y[arc], arc_z[arc] = trees[x, other, arc, 0], trees[x, other, arc, 1]
                kept = arcs
            else:
                _first_potentials(p, q, cost, beta)
            flow, plan = np.empty(arcs), np.empty(arcs)
            made += optimal_flow(p, q, cost, alpha, beta, arc_y, arc_z, kept, flow, pivots)
            steps[x, other] = plan_value(p, q, cost, alpha, arc_y, arc_z, flow, plan)
            top = beta.max()
            for m in range(width):
                warm[x, other, support[other, m]] = beta[m] - top
            known[x, other] = True
            for arc in range(arcs):
                trees[x, other, arc, 0], trees[x, other, arc, 1] = arc_y[arc], arc_z[arc]
                if plan[arc] > 0.0:
                    pairs[written] = x * size + other
                    ys[written] = support[x, arc_y[arc]]
                    zs[written] = support[other, arc_z[arc]]
                    plans[written], flows[written] = plan[arc], flow[arc]
                    written += 1
    return steps, written, made


@compiled_loop
def closed(variation):
    """The triangle closure, in place: shortest paths, rounded up."""
    size = len(variation)
    for middle in range(size):
        for x in range(size):
            for y in range(size):
                way = (variation[x, middle] + variation[middle, y]) * (1.0 + 2.0 * EPS)
                variation[x, y] = min(variation[x, y], way)


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
    warm = np.zeros((size, size, states))
    tree = np.zeros((size, size, 2 * states, 2), np.int64)
    known = np.zeros((size, size), np.bool_)
    room = 2 * size * size * states
    pairs, ys, zs = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    plans, flows = np.empty(room), np.empty(room)
    for entry in range(len(steps)):
        least = limit - (np.inf if len(steps) - entry > cheap else near)
        if entry > 0 and np.all(variation <= limit) and np.all(variation >= least):
            return entry
        at = min(entry, len(kernels) - 1)
        if at > 0 and np.any((kernels[at] > 0.0) != (kernels[at - 1] > 0.0)):
            known[:] = False  # trees are over the states that are possible
        own, _, _ = all_steps(
            kernels[at], variation, warm, tree, known, pivots, 0, pairs, ys, zs, plans, flows
        )
        met[entry], trees[entry] = variation, tree
        for x in range(size):
            for y in range(size):
                own[x, y] += error if x != y else 0.0
                further = (cost[x, y] + own[x, y]) * (1.0 + 2.0 * EPS)
                variation[x, y] = further if x != y else 0.0
        steps[entry] = own
        closed(variation)
        if variation.max() > most:
            return entry + 1
    return len(steps)
