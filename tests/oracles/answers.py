"""Answers to every question, entry by entry in plain Python. Imports nothing of pufferkit.

Data are tuples of states by letter, ``None`` for an entry that was not observed; segments lie one
after another. Every segment begins at ten in the evening, with an entry each hour.
"""

from itertools import pairwise

VALUES = {"a": 0.0, "b": 1.0, "c": 3.0}
ROWS = {"a": (1, 0), "b": (0, 2.5), "c": (0.5, 0)}


def seen(data):
    return [x for x in data if x is not None]


def places(lengths):
    """The segment of every entry, and its number in it."""
    return [(segment, t) for segment, length in enumerate(lengths) for t in range(length)]


def hours(lengths):
    return [(22 + t) % 24 for _, t in places(lengths)]


def days(lengths):
    return [(22 + t) // 24 for _, t in places(lengths)]


def counts(data, lengths, states):
    return [sum(x == state for x in data) for state in states]


def shares(data, lengths, states):
    return [n / len(seen(data)) for n in counts(data, lengths, states)]


def clipped(x, low, high):
    return min(max(VALUES[x], low), high)


def moments(data, lengths, states):
    """Means of u and of u^2, u the value clipped to 0 to 2 and moved to -1 to 1."""
    moved = [clipped(x, 0, 2) - 1 for x in seen(data)]
    return [sum(moved) / len(moved), sum(u * u for u in moved) / len(moved)]


def in_slots(slots, names, data, states):
    return [
        sum(x == state and own == name for x, own in zip(data, slots, strict=True))
        for name in names
        for state in states
    ]


def transitions(data, lengths, states):
    where = places(lengths)
    moves = [(data[t], data[t + 1]) for t in range(len(data) - 1) if where[t][0] == where[t + 1][0]]
    return [sum(move == (x, y) for move in moves) for x in states for y in states]


def episodes(data, lengths):
    """Entries in b before which the segment begins or the entry is not in b."""
    where = places(lengths)
    return sum(x == "b" and (where[t][1] == 0 or data[t - 1] != "b") for t, x in enumerate(data))


def days_with(data, lengths, needed):
    own = days(lengths)
    often = [sum(x == "b" for x, day in zip(data, own, strict=True) if day == d) for d in set(own)]
    return sum(n >= needed for n in often)


ANSWERS = {
    "count": lambda d, n, s: [d.count("b")],
    "count of the last": lambda d, n, s: [d.count(s[-1])],
    "histogram": counts,
    "relative_frequencies": shares,
    "total": lambda d, n, s: [sum(VALUES[x] for x in seen(d))],
    "total, clipped": lambda d, n, s: [sum(clipped(x, 0.5, 2) for x in seen(d))],
    "mean": lambda d, n, s: [sum(VALUES[x] for x in seen(d)) / len(seen(d))],
    "mean, clipped": lambda d, n, s: [sum(clipped(x, 0.5, 2) for x in seen(d)) / len(seen(d))],
    "variance": moments,
    "linear": lambda d, n, s: [sum(ROWS[x][j] for x in seen(d)) for j in (0, 1)],
    "linear of some": lambda d, n, s: [2 * d.count("b")],
    "transition_counts": transitions,
    "episodes": lambda d, n, s: [episodes(d, n)],
    "stays": lambda d, n, s: [d.count("b"), episodes(d, n)],
    "by_time, hour": lambda d, n, s: in_slots(hours(n), range(24), d, s),
    "by_time, day": lambda d, n, s: in_slots(days(n), sorted(set(days(n))), d, s),
    "by_time, slots": lambda d, n, s: in_slots(
        [t % 2 for t in range(len(d))], range(min(2, len(d))), d, s
    ),
    "time_in": lambda d, n, s: [
        sum(x == "b" and hour in (22, 23, 0) for x, hour in zip(d, hours(n), strict=True))
    ],
    "days_with": lambda d, n, s: [days_with(d, n, 2)],
    "days_with, share": lambda d, n, s: [days_with(d, n, 1) / len(set(days(n)))],
    "quantile": counts,
    "per_entry": lambda d, n, s: [sum(x != y for x, y in pairwise(d))],
    "per_entry, by state": lambda d, n, s: [int("b" in d)],
    "own": lambda d, n, s: [sum(x != y for x, y in pairwise(d))],
}
"""By name of the question: a function of data, lengths and states."""
