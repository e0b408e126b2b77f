"""The members of every class of beliefs, straight from its definition. Only numpy.

A law of ``length`` entries is a table of probabilities with an axis for each entry, after a first
axis for the hidden state at one place (of length 1 if nothing is hidden). `members` gives for each
class a function from numbers between 0 and 1 to its laws, so that a search can climb; 0 and 1 are
the extreme ones.

Some classes promise something about both directions of time: from an entry on by kernels of one
set, back from it by kernels of another. Their laws are given around a place; what one set says
where the other one decides does not matter for what is told about the entries at that place.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, product
from math import lgamma, log, pi
from typing import Any

import numpy as np

Law = Callable[[np.ndarray, int], np.ndarray | None]
"""From numbers and a place to a table; ``None`` if these numbers are no member."""


# -- tables --------------------------------------------------------------------------------------


def chain(initial, kernels):
    """The table of a chain with a kernel for each step."""
    table = np.asarray(initial, dtype=float)
    for kernel in kernels:
        table = table[..., None] * np.asarray(kernel)
    return table


def around(middle, backward, forward):
    """The table of a chain from the distribution of one entry, backward and forward kernels.

    Both lists lead away from the entry.
    """
    left = chain(middle, backward)
    right = chain(np.ones(len(middle)), forward)
    left = left.transpose(range(left.ndim)[::-1])
    return left.reshape(left.shape + (1,) * len(forward)) * right


def emitted(middle, backward, forward):
    """The table of entries shown by hidden states, from one of them on both ways.

    ``middle`` has the distribution of hidden state and entry there; the lists, leading away from
    it, have a kernel of the hidden states and the emission where it leads.
    """
    left, right = _shown(len(middle), backward), _shown(len(middle), forward)
    left = left.transpose(0, *range(left.ndim - 1, 0, -1))
    both = left.reshape(left.shape + (1,) * right.ndim) * right.reshape(
        len(right), *(1,) * left.ndim, *right.shape[1:]
    )
    return both * np.asarray(middle).reshape(
        len(middle), *(1,) * (left.ndim - 1), -1, *(1,) * (right.ndim - 1)
    )


def _shown(size, steps):
    """P(entries | hidden state before them), entries in the order of the steps."""
    table = np.ones(size)
    for kernel, emission in reversed(steps):
        # table: hidden state there, entries after it
        own = np.asarray(emission).reshape(*np.shape(emission), *(1,) * (table.ndim - 1))
        table = np.tensordot(np.asarray(kernel), own * table[:, None], axes=1)
    return table


def stationary(matrix):
    """The stationary distribution of a chain with one closed class."""
    size = len(matrix)
    lhs = np.vstack([np.transpose(matrix) - np.eye(size), np.ones(size)])
    found = np.linalg.lstsq(lhs, np.r_[np.zeros(size), 1.0], rcond=None)[0]
    return np.where(found < 1e-12, 0.0, found)


def reversal(matrix, before=None):
    """The backward kernel of a step from this distribution, by default the stationary one."""
    before = stationary(matrix) if before is None else before
    joint = (np.asarray(before)[:, None] * np.asarray(matrix)).T
    return joint / joint.sum(axis=1, keepdims=True)


def distribution(genes):
    """Numbers as a distribution: odds of up to 1 : 10,000, and 0 for 0."""
    weights = np.where(genes > 0, 10.0 ** (4 * (genes - 1)), 0.0)
    return weights / weights.sum() if weights.sum() else np.full(len(genes), 1 / len(genes))


def within(low, high, genes):
    """Rows between two bounds that sum to one."""
    row = low + genes * (high - low)
    total = row.sum(axis=1, keepdims=True)
    down, up = total - low.sum(axis=1, keepdims=True), high.sum(axis=1, keepdims=True) - total
    lower = low + (row - low) * ((down - (total - 1)) / np.where(down > 0, down, 1))
    upper = row + (high - row) * ((1 - total) / np.where(up > 0, up, 1))
    return np.where(total > 1, lower, upper)


# -- classes -------------------------------------------------------------------------------------


def members(kind: str, given: dict[str, Any], length: int, states: int) -> tuple[int, Law]:
    """How many numbers choose a law of so many entries, and the law that they choose."""
    return _CLASSES[kind](length, states, **given)


def _chains(length, states, transition=None, initial=None, chains=None):
    """Known chains, each for the whole series; without an initial distribution stationary."""
    listed = chains or [(initial, transition)]
    tables = [
        chain(stationary(matrix) if start is None else start, [matrix] * (length - 1))[None]
        for start, matrix in listed
    ]
    return _one_of(tables)


def _one_of(tables):
    """One number chooses, none if there is one table only."""
    if len(tables) == 1:
        return 0, lambda genes, _: tables[0]
    return 1, lambda genes, _: tables[min(int(genes[0] * len(tables)), len(tables) - 1)]


def _any_start(length, states, transitions):
    """One of these matrices for the whole series, any initial distribution."""

    def law(genes, _):
        matrix = transitions[min(int(genes[0] * len(transitions)), len(transitions) - 1)]
        return chain(distribution(genes[1:]), [matrix] * (length - 1))[None]

    return 1 + states, law


def _binary(length, states, low, high):
    """Two staying probabilities in the interval, any initial distribution."""

    def law(genes, _):
        stay, other = low + (high - low) * genes[:2]
        matrix = [[stay, 1 - stay], [1 - other, other]]
        return chain(distribution(genes[2:]), [matrix] * (length - 1))[None]

    return 4, law


def gap_of(matrix, reversible):
    """1 - lambda_2 of P P*, with P* the time reversal; 2 (1 - |lambda_2(P)|) if reversible."""
    if reversible:
        return 2 * (1 - np.sort(np.abs(np.linalg.eigvals(matrix)))[-2])
    values = np.linalg.eigvals(np.asarray(matrix) @ reversal(matrix)).real
    return 1 - np.sort(values)[-2]


def _mixing(length, states, pi_min, gap, reversible):
    """Chains with every stationary probability and the gap large enough, any start.

    As far from independent entries as the gap allows: (1 - t) 1 pi + t P has the same stationary
    distribution, and its second eigenvalue is t times that of P, that of P P* t^2 times.
    """

    def law(genes, _):
        matrix = np.array([distribution(row) for row in genes[:-states].reshape(states, states)])
        if reversible:  # a walk along edges with weights
            matrix = matrix + matrix.T
            if (matrix.sum(axis=1) == 0).any():
                return None
            matrix = matrix / matrix.sum(axis=1, keepdims=True)
        where = stationary(matrix)
        if where.min() < pi_min:
            return None
        least = 1 - gap / 2 if reversible else np.sqrt(1 - gap)
        own = gap_of(matrix, reversible)
        own = 1 - own / 2 if reversible else np.sqrt(max(1 - own, 0))
        t = min(1.0, least / own) if own > 0 else 1.0
        mixed = (1 - t) * where + t * matrix
        return chain(distribution(genes[-states:]), [mixed] * (length - 1))[None]

    return states * states + states, law


def interval(hits, misses, alpha):
    """Ends of { p : B(s + 1/2, f + 1/2) / B(1/2, 1/2) <= p^s (1 - p)^f / alpha }, by halving."""

    def inside(p):
        mean = lgamma(hits + 0.5) + lgamma(misses + 0.5) - lgamma(hits + misses + 1) - log(pi)
        return mean <= hits * log(p) + misses * log(1 - p) - log(alpha)

    ends = []
    for end in (1e-15, 1 - 1e-15):
        outside, within_it = end, (hits + 0.5) / (hits + misses + 1)
        for _ in range(60):
            middle = (outside + within_it) / 2
            outside, within_it = (outside, middle) if inside(middle) else (middle, within_it)
        ends.append(within_it)
    return ends


def box(counts, alpha):
    """Bounds on every entry of a matrix, from counts of its transitions."""
    rows = [
        [interval(own, sum(row) - own, alpha) for own in row] for row in np.asarray(counts).tolist()
    ]
    low, high = np.moveaxis(np.array(rows), -1, 0)
    return low, high


def _region(length, states, counts, confidence, sides):
    """Kernels in the region at every step; backward ones in that of the transposed counts."""
    cells = 2 if states == 2 else states**2
    alpha = (1 - confidence) / cells / (1 if sides == "any start" else 2)
    ahead, back = box(counts, alpha), box(np.transpose(counts), alpha)

    def law(genes, place):
        start = distribution(genes[:states])
        steps = genes[states:].reshape(length - 1, states, states)
        if sides == "any start":
            return chain(start, [within(*ahead, step) for step in steps])[None]
        return around(
            start,
            [within(*back, step) for step in steps[:place][::-1]],
            [within(*ahead, step) for step in steps[place:]],
        )[None]

    return states + (length - 1) * states**2, law


def _seasonal(length, states, kernels, start=None, initial=None, period=None):
    """Kernels that repeat, in the periodic steady state; a first slot, or any."""
    slots = [np.asarray(kernel) for kernel in kernels]
    if initial is not None:  # after the last kernel it starts again
        slots, start = [*slots, np.tile(initial, (states, 1))], 0
    if period is not None:
        slots = [slots[slot * len(slots) // period] for slot in range(period)]
    tables = []
    for first in range(len(slots)) if start is None else [start]:
        turned = [slots[(first + n) % len(slots)] for n in range(len(slots))]
        here = stationary(np.linalg.multi_dot(turned) if len(turned) > 1 else turned[0])
        steps = [turned[n % len(turned)] for n in range(length - 1)]
        tables.append(chain(here, steps)[None])
    return _one_of(tables)


def _hull(length, states, vertices, inflate=0.0, backward=None):
    """At every step a mixture of the matrices; back, of their reversals; rows contaminated."""
    ahead = np.array(vertices)
    back = np.array([reversal(matrix) for matrix in vertices] if backward is None else backward)
    count = max(len(ahead), len(back))
    own = count + states**2

    def mixed(matrices, genes):
        kernel = np.tensordot(distribution(genes[: len(matrices)]), matrices, axes=1)
        rows = np.array([distribution(row) for row in genes[count:].reshape(states, states)])
        return (1 - inflate) * kernel + inflate * rows

    def law(genes, place):
        steps = genes[states:].reshape(length - 1, own)
        return around(
            distribution(genes[:states]) * 0.99 + 0.01 / states,
            [mixed(back, step) for step in steps[:place][::-1]],
            [mixed(ahead, step) for step in steps[place:]],
        )[None]

    return states + (length - 1) * own, law


def _order(length, states, memory, table):
    """The next entry by the last ones; the first ones by the stationary law of tuples."""
    table = np.asarray(table)
    tuples = list(product(range(states), repeat=memory))
    matrix = np.zeros((len(tuples), len(tuples)))
    for row, last in enumerate(tuples):
        for y in range(states):
            matrix[row, tuples.index((*last[1:], y))] += table[(*last, y)]
    law = stationary(matrix).reshape((states,) * memory)
    while law.ndim < length:
        law = law[..., None] * table
    return _one_of([law.sum(axis=tuple(range(length, law.ndim)))[None]])


def _regimes(length, states, models, together="finite", emissions=0.0, secret="entry", slow=None):
    """Hidden regimes, stationary; or between models at every step; emissions contaminated."""
    if slow is not None:
        return _beside_slow(length, states, models, emissions, slow)
    known = [_as_hidden(np.asarray(moves), np.asarray(shown)) for moves, shown in models]
    ahead = np.array([moves for moves, _ in known])
    back = np.array([reversal(moves) for moves, _ in known])
    looks = np.array([shown for _, shown in known])
    starts = np.array([stationary(moves)[:, None] * shown for moves, shown in known])
    hidden, count = len(ahead[0]), len(known)
    free = together == "hull"
    own = count + hidden * states

    def mixed(arrays, genes):
        if free:
            return np.tensordot(distribution(genes[:count]), arrays, axes=1)
        return arrays[min(int(genes[0] * count), count - 1)]

    def look(genes, steps):
        rows = [distribution(row) for row in genes[count:].reshape(hidden, states)]
        return (1 - emissions) * mixed(looks, steps) + emissions * np.array(rows)

    def law(genes, place):
        steps = genes[hidden * states :].reshape(length, own)
        which = [step if free else steps[0] for step in steps]
        sides = [
            [
                (mixed(arrays, which[t]), look(steps[t], which[t]))
                for t in (range(place - 1, -1, -1) if side else range(place + 1, length))
            ]
            for side, arrays in enumerate((ahead, back))
        ]
        middle = mixed(starts, which[place])
        if free:  # P(regime | entry) is a mixture of theirs
            given = mixed(starts / starts.sum(axis=1, keepdims=True), which[place])
            middle = given * middle.sum(axis=0)
        if emissions and secret == "entry":  # and anything
            cells = genes[: hidden * states].reshape(hidden, states)
            middle = np.array([distribution(cells[:, x]) for x in range(states)]).T / states
        elif emissions:
            middle = middle.sum(axis=1, keepdims=True) * look(steps[place], which[place])
        return emitted(middle, sides[1], sides[0])

    return hidden * states + length * own, law


KNOWN_AROUND = 3
"""Up to so many entries before and after the series it is known which slow regime is in force."""


def _beside_slow(length, states, models, emissions, slow):
    """Hidden regimes given at every time of an interval which slow one is in force, if any."""
    known = [(np.asarray(moves), np.asarray(shown)) for moves, shown in models]
    hidden = len(known[0][0])
    times, looks = length + 2 * KNOWN_AROUND, hidden * states

    def law(genes, place):
        moves, shown = known[min(int(genes[0] * len(known)), len(known) - 1)]
        lasting = [z for z in range(hidden) if (1 - moves[z, z]) * slow < 1]
        inside = np.array([z not in lasting for z in range(hidden)], dtype=float)
        seen = [inside, *np.eye(hidden)[lasting]]
        first, last = (min(int(own * (KNOWN_AROUND + 1)), KNOWN_AROUND) for own in genes[1:3])
        said = [seen[min(int(own * len(seen)), len(seen) - 1)] for own in genes[3 : 3 + times]]
        rows = genes[3 + times :].reshape(length, hidden, states)
        table = stationary(moves)
        for time in range(KNOWN_AROUND - first, KNOWN_AROUND + length + last):
            if time > KNOWN_AROUND - first:
                table = np.tensordot(table, moves, axes=(0, 0))
                table = np.moveaxis(table, -1, 0)
            table = table * said[time].reshape(-1, *(1,) * (table.ndim - 1))
            now = time - KNOWN_AROUND
            if 0 <= now < length:
                unknown = np.array([distribution(row) for row in rows[now]])
                look = (1 - emissions) * shown + emissions * unknown
                table = table[..., None] * look.reshape(hidden, *(1,) * (table.ndim - 1), states)
        table = table.sum(axis=0)
        return None if table.sum() <= 0 else (table / table.sum())[None]

    return 3 + times + length * looks, law


def _as_hidden(moves, shown):
    """Entries that are a chain within a regime: the pair of both is hidden, and shows the entry."""
    if shown.ndim == 2:
        return moves, shown
    size, states = len(moves), shown.shape[1]
    pairs = np.einsum("zw,wxy->zxwy", moves, shown).reshape(size * states, size * states)
    return pairs, np.tile(np.eye(states), (size, 1))


def _networks(length, states, networks):
    """Products of the tables of the nodes, in the order in which they are named."""
    letters = "abc"[:states]
    tables = []
    for parents, rows in networks:
        names, table = list(parents), np.ones((states,) * length)
        for data in product(range(states), repeat=length):
            value = dict(zip(names, data, strict=True))
            for node, own in parents.items():
                row = rows[node][tuple(letters[value[parent]] for parent in own)]
                table[data] *= row[value[node]]
        tables.append(table[None])
    return _one_of(tables)


def _weighted(length, states, weight):
    """Probabilities in proportion to a weight."""
    table = np.array([weight(data) for data in product(range(states), repeat=length)])
    return _one_of([(table / table.sum()).reshape(1, *(states,) * length)])


def _ising(length, states, edges, coupling, field, nodes=None):
    names = nodes or list(dict.fromkeys(node for edge in edges for node in edge))

    def weight(data):
        spin = {name: 2 * x - 1 for name, x in zip(names, data, strict=True)}
        agreed = sum(spin[u] * spin[v] for u, v in edges)
        return np.exp(coupling * agreed + field * sum(spin.values()))

    return _weighted(length, states, weight)


def _grid(length, states, rows, columns, coupling, field):
    nodes = list(product(range(rows), range(columns)))
    edges = [(u, v) for u, v in combinations(nodes, 2) if abs(u[0] - v[0]) + abs(u[1] - v[1]) == 1]
    return _ising(length, states, edges, coupling, field, nodes)


def _potts(length, states, edges, coupling):
    names = list(dict.fromkeys(node for edge in edges for node in edge))

    def weight(data):
        value = dict(zip(names, data, strict=True))
        return np.exp(coupling * sum(value[u] == value[v] for u, v in edges))

    return _weighted(length, states, weight)


def _field(length, states, potentials):
    names = list(dict.fromkeys(node for scope in potentials for node in scope))

    def weight(data):
        value = dict(zip(names, data, strict=True))
        own = [
            np.asarray(table)[tuple(value[node] for node in scope)]
            for scope, table in potentials.items()
        ]
        return np.prod(own)

    return _weighted(length, states, weight)


def _joints(length, states, tables):
    listed = []
    for table in tables:
        law = np.zeros((states,) * length)
        for row, chance in table.items():
            law[tuple(int(x) for x in row)] = chance
        listed.append(law[None])
    return _one_of(listed)


_CLASSES = {
    "chains": _chains,
    "any start": _any_start,
    "binary": _binary,
    "mixing": _mixing,
    "around": _region,
    "seasonal": _seasonal,
    "hull": _hull,
    "order": _order,
    "regimes": _regimes,
    "networks": _networks,
    "ising": _ising,
    "grid": _grid,
    "potts": _potts,
    "field": _field,
    "joints": _joints,
}
