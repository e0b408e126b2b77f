"""What must stay hidden, by definition: for every secret, labels of all data. Numpy only."""

from itertools import combinations, product

import numpy as np

LABELS = {
    "at_least": (3, lambda x: "b" in x),
    "at_least twice": (4, lambda x: x.count("b") >= 2),
    "throughout": (3, lambda x: "b" not in x),
    "patterns": (2, lambda x: x[0] == x[1]),
    "throughout and patterns": (2, lambda x: x[0] == x[1]),
}
"""Windows of entries in a row, and what is hidden about them."""


def weights_of(secret, states):
    """Named pairs: by what their loss is multiplied before it is compared with epsilon."""
    if secret == "pairs":
        return {("a", "b"): 1.0}
    if secret == "pairs, multiples":
        return {("a", states[-1]): 1 / 2.5, (states[-2], states[-1]): 1 / 1.5}
    return None


def all_data(states, length):
    """Every series, in the order of the entries of a table."""
    return list(product(states, repeat=length))


def hidden(secret, lengths, states):
    """Each thing to hide: its first place, the label of every series, the weights of the pairs.

    Weights are a dictionary of pairs of labels, ``None`` if all of them are 1.
    """
    data = all_data(states, sum(lengths))
    first = [sum(lengths[:n]) for n in range(len(lengths))]
    segments = [range(start, start + length) for start, length in zip(first, lengths, strict=True)]

    def windows(size):
        return [
            segment[n : n + size] for segment in segments for n in range(len(segment) - size + 1)
        ]

    def values(places):
        return [tuple(x[t] for t in places) for x in data]

    if secret.startswith("runs of"):
        size = int(secret.split()[-1])
        # A run is cut off where a segment is shorter.
        whole = windows(size) + [segment for segment in segments if len(segment) < size]
        return [(own[0], values(own), None) for own in whole]
    if secret.startswith("sets of"):
        size = int(secret.split()[-1])
        sets = [own for s in segments for own in combinations(s, min(size, len(s)))]
        return [(own[0], values(own), None) for own in sets]
    single = [([t], values([t])) for segment in segments for t in segment]
    named = weights_of(secret, states)
    if named is not None:
        both = {
            ((x,), (y,)): weight for pair, weight in named.items() for x, y in (pair, pair[::-1])
        }
        return [(own[0], labels, both) for own, labels in single]
    out = [(own[0], labels, None) for own, labels in single]
    if secret in LABELS:
        size, label = LABELS[secret]
        out += [(own[0], [label(x) for x in values(own)], None) for own in windows(size)]
    if secret == "throughout and patterns":
        out += [(own[0], [set(x) == {"a"} for x in values(own)], None) for own in windows(2)]
    return out


def coded(labels):
    """Labels as numbers, and their names."""
    names = list(dict.fromkeys(labels))
    place = {name: n for n, name in enumerate(names)}
    return np.array([place[label] for label in labels]), names
