"""One step of the pairwise curve: a transport programme, compiled.

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

Small work is done without a compiler, by `pufferkit.influence.curve.pair_plans`.
"""

# mypy: disable-error-code="no-untyped-def"
# ruff: noqa: PLR0912, PLR0915  (compiled loops are long)

from __future__ import annotations

import numpy as np

from pufferkit.compiling import compiled_loop
from pufferkit.rounding import EPS

_RAISED = 1e-13
_TURNS = 4
_NEGATIVE = -1e-13


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
def _hang(root, arcs, arc_y, arc_z, parent, through, order, links):
    """Parent of every state, the arc to it, an order of visits.

    Parts that no arc connects to the root hang from it too, by arc -1.
    """
    size = len(parent)
    first, following = links[:size], links[size:]
    for node in range(size):
        first[node] = parent[node] = -1
    for arc in range(arcs):
        y, z = arc_y[arc], arc_z[arc]
        following[2 * arc], following[2 * arc + 1] = first[y], first[z]
        first[y], first[z] = 2 * arc, 2 * arc + 1
    head, seen = 0, 0
    for turn in range(root, root + size):
        start = turn % size
        if parent[start] >= 0:
            continue
        parent[start], through[start], order[seen] = root, -1, start
        seen += 1
        while head < seen:
            node = order[head]
            head += 1
            link = first[node]
            while link >= 0:
                arc = link // 2
                other = arc_z[arc] if link % 2 == 0 else arc_y[arc]
                if parent[other] < 0:
                    parent[other], through[other], order[seen] = node, arc, other
                    seen += 1
                link = following[link]


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
def _lowered(p, q, cost, across, tight, arcs, arc_y, arc_z, g):
    """Lower g where it exceeds the cost; the number of arcs that are tight then."""
    size = len(p)
    least = np.full(size, np.inf)
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
        return arcs
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
    return kept


@compiled_loop
def _entering(p, q, cost, across, g, inside, few, up):
    """The arc that is tight first when the subtree moves: from inside it up, or into it down."""
    size = len(p)
    shift, enter_y, enter_z = np.inf, -1, -1
    if few == up:  # few sources: row by row
        for y in range(size):
            if inside[y] == up and p[y] > 0.0:
                row = cost[y]
                for z in range(size):
                    slack = row[z] + g[z] - g[y]
                    if slack < shift and inside[z] != up and q[z] > 0.0:
                        shift, enter_y, enter_z = slack, y, z
    else:
        for z in range(size):
            if inside[z] != up and q[z] > 0.0:
                column = across[z]
                for y in range(size):
                    slack = column[y] + g[z] - g[y]
                    if slack < shift and inside[y] == up and p[y] > 0.0:
                        shift, enter_y, enter_z = slack, y, z
    return shift, enter_y, enter_z


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
    parent, through = np.empty(size, np.int64), np.empty(size, np.int64)
    order, inside = np.empty(size, np.int64), np.empty(size, np.bool_)
    g, net = np.empty(size), np.empty(size)
    supply, demand = np.empty(size), np.empty(size)
    links, gross = np.empty(3 * size, np.int64), np.empty(size)
    arcs, root = size - 1, -1
    if known:
        _hang(0, arcs, arc_y, arc_z, parent, through, order, links)
        _potentials(cost, 0.0, arc_y, parent, through, order, g)
        arcs = _lowered(p, q, cost, across, raised / 4, arcs, arc_y, arc_z, g)
    else:
        arcs = _first_forest(p, q, cost, across, arc_y, arc_z, g)
    _tilted(p, q, g, supply, demand)
    done, last = 0, False
    while True:
        # With the heaviest state as the root, flows are sums of what is light.
        above, below, heaviest = supply.sum(), demand.sum(), 0
        if not (above > 0.0 and below > 0.0):  # potentials too far apart for floats
            return _no_flow(arc_y, arc_z, flow, stay, size)
        above, below = 1.0 / above, 1.0 / below
        for node in range(size):
            here, there = supply[node] * above, demand[node] * below
            net[node], gross[node] = here - there, here + there
            if gross[node] > gross[heaviest]:
                heaviest = node
        if heaviest != root:
            root = heaviest
            _hang(root, arcs, arc_y, arc_z, parent, through, order, links)
        worst, leaving = 0.0, -1
        for place in range(size - 1, 0, -1):
            node = order[place]
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
        if last:
            break
        if leaving < 0 or (done >= pivots and worst > -np.inf):
            # Once more, at B itself and without the roundings of the pivots.
            last = True
            _potentials(cost, raised, arc_y, parent, through, order, g)
            _tilted(p, q, g, supply, demand)
            continue
        done += 1
        # The subtree below the leaving arc moves; parents come before children in the order.
        number = 0
        for place in range(size):
            node = order[place]
            inside[node] = node == leaving or (place > 0 and inside[parent[node]])
            number += inside[node]
        up, few = net[leaving] >= 0.0, 2 * number <= size
        shift, enter_y, enter_z = _entering(p, q, cost, across, g, inside, few, up)
        if enter_y < 0:
            up = not up
            shift, enter_y, enter_z = _entering(p, q, cost, across, g, inside, few, up)
        if enter_y < 0:
            return _no_flow(arc_y, arc_z, flow, stay, size)
        move = max(shift, 0.0) if up else -max(shift, 0.0)
        factor = np.exp(move)
        for node in range(size):
            if inside[node]:
                g[node] += move
                supply[node] *= factor
                demand[node] *= factor
        arc = through[leaving]
        if arc < 0:
            arc = arcs
            arcs += 1
        arc_y[arc], arc_z[arc] = enter_y, enter_z
        root = -1
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
def plan_value(p, q, limit, states, arc_y, arc_z, flow, stay, plan, staying):
    """The plan behind a flow, with row sums p, and the logarithm of its largest load.

    The value is rounded up: sums of at most 2 n positive terms, each of a few roundings. It is
    infinite for what is no plan: mass that is missing, or that goes where q has none.
    """
    size, slack = len(p), (2 * len(p) + 16) * 2.3e-16
    sums = stay.copy()
    for arc in range(size - 1):
        sums[arc_y[arc]] += flow[arc]
    loads = np.empty(size)
    for node in range(size):
        if sums[node] > 0.0:
            staying[node] = p[node] * (stay[node] / sums[node])
        else:
            # Nothing flows from here (its tilted mass is below a rounding): it stays, if it may.
            staying[node] = p[node] if q[node] > 0.0 else 0.0
        loads[node] = staying[node]
    placed = staying[:size].copy()
    for arc in range(size - 1):
        y, z = arc_y[arc], arc_z[arc]
        if sums[y] > 0.0:
            plan[arc] = p[y] * (flow[arc] / sums[y])
        else:
            plan[arc] = 0.0 if q[y] > 0.0 or sums[y] < 0.0 else p[y]
            sums[y] = -1.0  # the first arc has it all
        loads[z] += plan[arc] * np.exp(limit[states[y], states[z]])
        placed[y] += plan[arc]
    worst = 0.0
    for z in range(size):
        whole = placed[z] >= p[z] * (1.0 - slack)
        # Asked so that a NaN does not pass.
        if not (whole and loads[z] >= 0.0 and (q[z] > 0.0 or loads[z] == 0.0)):
            return np.inf
        if q[z] > 0.0:
            worst = max(worst, loads[z] / q[z])
    value = np.log(worst)
    return max(value + slack * (1.0 + abs(value)), 0.0)


@compiled_loop
def all_steps(kernel, limit, trees, known, pivots, half, pairs, ys, zs, plans, flows):
    """Steps of every ordered pair of rows of a kernel at the variation ``limit``.

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
    raised = _RAISED * max(limit.max(), 1e-280)
    cost, across = limit + raised, limit.T + raised
    for y in range(columns):
        cost[y, y] = across[y, y] = np.inf
    states, every = np.empty(columns, np.int64), np.arange(columns)
    stay, staying = np.empty(columns), np.empty(columns)
    flow, plan = np.empty(columns), np.empty(columns)
    arc_y, arc_z = np.empty(columns, np.int64), np.empty(columns, np.int64)
    written, made = 0, 0
    for x in range(size):
        for other in range(size):
            if other == x or (half > 0 and (x >= half or other < half)):
                continue
            number, same = 0, True
            for y in range(columns):
                same &= kernel[x, y] == kernel[other, y]
                if kernel[x, y] > 0.0 or kernel[other, y] > 0.0:
                    states[number] = y
                    number += 1
            if same:
                for y in states[:number]:
                    pairs[written], ys[written], zs[written] = x * size + other, y, y
                    plans[written] = flows[written] = kernel[x, y]
                    written += 1
                continue
            if number == columns:
                p, q, own, turned = kernel[x], kernel[other], cost, across
                nodes = every
            else:
                nodes = states[:number]
                p, q = np.empty(number), np.empty(number)
                own, turned = np.empty((number, number)), np.empty((number, number))
                for n in range(number):
                    p[n], q[n] = kernel[x, nodes[n]], kernel[other, nodes[n]]
                    for m in range(number):
                        own[n, m] = turned[m, n] = cost[nodes[n], nodes[m]]
            tree = trees[x, other]
            for arc in range(number - 1):
                arc_y[arc], arc_z[arc] = tree[arc, 0], tree[arc, 1]
            begun = known[x, other]
            done = optimal_flow(p, q, own, turned, raised, begun, arc_y, arc_z, stay, flow, pivots)
            made += max(done, 0)
            steps[x, other] = plan_value(
                p, q, limit, nodes, arc_y, arc_z, flow, stay, plan, staying
            )
            known[x, other] = done >= 0
            for arc in range(number - 1):
                tree[arc, 0], tree[arc, 1] = arc_y[arc], arc_z[arc]
                if plan[arc] > 0.0:
                    pairs[written] = x * size + other
                    ys[written], zs[written] = nodes[arc_y[arc]], nodes[arc_z[arc]]
                    plans[written], flows[written] = plan[arc], flow[arc]
                    written += 1
            for n in range(number):
                if staying[n] > 0.0:
                    pairs[written], ys[written], zs[written] = x * size + other, nodes[n], nodes[n]
                    plans[written], flows[written] = staying[n], stay[n]
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
    tree = np.zeros((size, size, states, 2), np.int16)
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
            kernels[at], variation, tree, known, pivots, 0, pairs, ys, zs, plans, flows
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


@compiled_loop
def rough_steps(kernel, limit, ratios):
    """Lower bounds on the steps, by a few g for each pair; ``ratios`` is where to begin."""
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
                ratio = ratios[x, other]
                for z in range(columns):
                    ratio = max(ratio, means[x, z] / means[other, z])
                own = _risen(kernel[x], kernel[other], limit, ratio, leaves, nearest, g)
                ratios[x, other] = max(own, ratio)
                steps[x, other] = np.log(ratios[x, other])
    return steps
