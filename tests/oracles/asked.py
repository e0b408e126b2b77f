"""Questions answered entry by entry in plain Python, and their loss by the definition.

Imports nothing of pufferkit. Data are tuples of states 0, 1, ...; ``None`` is an entry that was not
observed. Segments lie one after another, with these lengths.
"""

from itertools import product

import numpy as np


def segment_of(lengths):
    """The segment of every entry."""
    return [number for number, length in enumerate(lengths) for _ in range(length)]


def by_slot(data, slots, states):
    """Counts of each state in each slot, slot by slot."""
    names = list(dict.fromkeys(slots))
    return [
        sum(1 for x, slot in zip(data, slots, strict=True) if x == state and slot == name)
        for name in names
        for state in range(states)
    ]


def transitions(data, lengths, states):
    """How often each state is followed by each within segments, row by row."""
    own, table = segment_of(lengths), [0] * (states * states)
    for t in range(len(data) - 1):
        if own[t] == own[t + 1] and data[t] is not None and data[t + 1] is not None:
            table[data[t] * states + data[t + 1]] += 1
    return table


def episodes(data, lengths, of):
    """Runs of entries in ``of``, by walking along."""
    own, number, inside = segment_of(lengths), 0, False
    for t, x in enumerate(data):
        if t and own[t] != own[t - 1]:
            inside = False
        if x in of and not inside:
            number += 1
        inside = x in of
    return number


def days_with(data, days, of, needed):
    """Days on which at least ``needed`` entries are in ``of``."""
    return sum(
        1
        for day in set(days)
        if sum(x in of for x, own in zip(data, days, strict=True) if own == day) >= needed
    )


def furthest(answer, length, states, missing=()):
    """The largest L1 change of the answer for each pair of states, over all data and entries."""
    seen = [t for t in range(length) if t not in missing]
    largest = np.zeros((states, states))
    for rest in product(range(states), repeat=len(seen)):
        data = [None] * length
        for t, x in zip(seen, rest, strict=True):
            data[t] = x
        before = np.array(answer(tuple(data)), dtype=float)
        for t in seen:
            for other in range(states):
                changed = [*data]
                changed[t] = other
                moved = np.abs(np.array(answer(tuple(changed)), dtype=float) - before).sum()
                largest[data[t], other] = max(largest[data[t], other], moved)
    return largest


def loss(initial, transition, answer, lengths, scales, missing=()):
    """The largest log-ratio of likelihoods of an output, over entries, values and outputs.

    Coordinate by coordinate the ratio of two mixtures of Laplace densities is largest at a point of
    the support or beyond all of them, where it is that of the outermost point.
    """
    states, length = len(initial), sum(lengths)
    own = segment_of(lengths)
    paths, chances, answers = [], [], []
    for path in product(range(states), repeat=length):
        chance = 1.0
        for t, x in enumerate(path):
            first = t == 0 or own[t] != own[t - 1]
            chance *= initial[x] if first else transition[path[t - 1]][x]
        if chance > 0:
            shown = tuple(None if t in missing else x for t, x in enumerate(path))
            paths.append(path)
            chances.append(chance)
            answers.append(np.atleast_1d(np.array(answer(shown), dtype=float)))
    paths, chances, answers = np.array(paths), np.array(chances), np.array(answers)
    varied = answers.min(axis=0) < answers.max(axis=0)  # the others are the same under all secrets
    answers, scales = answers[:, varied], np.asarray(scales)[varied]
    supports = [np.unique(column) for column in answers.T]
    outputs = np.array(list(product(*supports)))
    weights = np.exp(-(np.abs(outputs[:, None, :] - answers[None]) / scales).sum(axis=2)) * chances
    worst = 0.0
    for t in range(length):
        logs = [
            np.log(weights[:, paths[:, t] == x].sum(axis=1) / chances[paths[:, t] == x].sum())
            for x in range(states)
            if (paths[:, t] == x).any()
        ]
        worst = max(worst, float((np.max(logs, axis=0) - np.min(logs, axis=0)).max()))
    return worst
