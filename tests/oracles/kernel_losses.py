"""The loss of one entry of a hidden chain to outputs that are searched for; numpy only.

A series is given as its distribution around entry i: kernels from i to the left, kernels from i
to the right, what the entries show, and P(hidden state at i | secret). An output is a product
likelihood f(x) = prod_t exp(phi_t(x_t)), each phi_t one of finitely many functions that vary by at
most the cost of an entry. Coordinate ascent over the phi_t finds outputs that lose much: a lower
bound.
"""

from __future__ import annotations

from itertools import product

import numpy as np


def extreme_functions(metric: np.ndarray, cost: float) -> list[np.ndarray]:
    """Functions of an entry that vary by at most ``cost * metric``: many of the extreme ones."""
    size = len(metric)
    closed = metric.copy()
    for y in range(size):
        closed = np.minimum(closed, closed[:, y, None] + closed[None, y, :])
    functions = []
    for pattern in product((0, 1), repeat=size):
        top = np.flatnonzero(pattern)
        if 0 < len(top) < size:
            # As far below the chosen states as is allowed, and as far above.
            functions.append(-cost * closed[:, top].min(axis=1))
            functions.append(cost * closed[:, top].min(axis=1))
    return functions or [np.zeros(size)]


def messages(kernels, emissions, phis):
    """Mean of the product of what follows, given the hidden state, up to a common factor."""
    value = np.ones(kernels[0].shape[0]) if kernels else None
    for kernel, emission, phi in zip(kernels[::-1], emissions[::-1], phis[::-1], strict=True):
        value = kernel @ ((emission @ np.exp(phi - phi.max())) * value)
        value = value / value.max()
    return value


def attacked_loss(
    left, right, shown, given, metric, cost, rng, starts=3, secret="entry", costs=None
):
    """The largest loss found of the entry between ``left`` and ``right``.

    Parameters
    ----------
    left, right
        Kernels from the entry outwards, each with the emission of the entry it leads to: lists of
        (kernel, emission).
    shown
        Emission of the entry itself.
    given
        Rows P(hidden state | secret); secrets are values of the entry, or hidden states.
    costs
        What the entry itself costs, those to its left and those to its right, counted outwards;
        by default ``cost`` for all. With 0 the output does not depend on an entry.
    """
    own_cost, *side_costs = costs or (cost, [cost] * len(left), [cost] * len(right))
    functions = extreme_functions(metric, 1.0)
    hidden = len(shown)
    best = 0.0
    for _ in range(starts):
        choice = [
            [each * functions[rng.integers(len(functions))] for each in side] for side in side_costs
        ]
        own = own_cost * functions[rng.integers(len(functions))]
        now = -np.inf
        while True:
            candidates = []
            for side, kernels in enumerate((left, right)):
                for place in range(len(kernels)):
                    each = side_costs[side][place]
                    for function in functions if each else ():
                        trial = [list(c) for c in choice]
                        trial[side][place] = each * function
                        candidates.append((trial, own))
            candidates += [(choice, own_cost * f) for f in functions if own_cost]
            candidates = candidates or [(choice, own)]
            values = [
                _spread(c, o, left, right, shown, given, hidden, secret) for c, o in candidates
            ]
            at = int(np.argmax(values))
            if values[at] <= now + 1e-12:
                break
            now, (choice, own) = values[at], candidates[at]
        best = max(best, now)
    return best


def _spread(choice, own, left, right, shown, given, hidden, secret):
    around = np.ones(hidden)
    for side, phis in zip((left, right), choice, strict=True):
        if side:
            around = around * messages([k for k, _ in side], [e for _, e in side], phis)
    if secret == "entry":
        logs = own + np.log(given @ around)
    else:
        logs = np.log(given @ ((shown @ np.exp(own - own.max())) * around))
    return float(logs.max() - logs.min())
