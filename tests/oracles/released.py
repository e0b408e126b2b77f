"""How much a noisy answer tells: the largest log-ratio of its densities under two secrets.

By definition: the distribution of the answer given each label, and every output that matters.
Between two neighbouring possible values of a coordinate the density given a label is A / u + B u
with u = exp(output / scale), so the ratio of two of them is monotone in u^2 there, and constant
beyond all values: the worst output has a possible value in each coordinate. If these are too many,
outputs are searched by changing one coordinate at a time. Numpy only.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from pufferkit.noise import choice_scale

MANY = 1 << 23
"""Most outputs times answers that are gone through."""

PAIRS = 2
"""Pairs of labels for which outputs are searched beyond that."""


class Answers:
    """The different answers, and which one each series has."""

    def __init__(self, answers):
        table = np.asarray(answers, dtype=float)
        table = table[:, table.min(axis=0) < table.max(axis=0)]
        self.values, self.of_series = np.unique(table.round(12), axis=0, return_inverse=True)
        self.of_series = self.of_series.ravel()
        self.axes = [np.unique(column) for column in self.values.T]

    def given(self, chances, labels, count):
        """P(answer | label), a row for each label that is possible; and which labels those are."""
        own = np.zeros((count, len(self.values)))
        np.add.at(own, (labels, self.of_series), chances)
        total = own.sum(axis=1)
        possible = np.flatnonzero(total > 0)
        return own[possible] / total[possible, None], possible


class Laplace:
    """Laplace noise of one scale on every coordinate."""

    def __init__(self, answers: Answers, scale: float):
        self.answers, self.scale = answers, scale
        size = np.prod([len(axis) for axis in answers.axes]) * len(answers.values)
        self.listed = size <= MANY
        outputs = np.array(list(product(*answers.axes))) if self.listed else answers.values
        self.seen = self.likelihoods(outputs) if answers.axes else np.ones((1, len(answers.values)))

    def likelihoods(self, outputs):
        """Of each output (rows) by each answer, up to a constant."""
        outputs = outputs.reshape(-1, self.answers.values.shape[1])
        away = np.zeros((len(outputs), len(self.answers.values)))
        for column in range(outputs.shape[1]):
            away += np.abs(outputs[:, column, None] - self.answers.values[None, :, column])
        with np.errstate(over="ignore"):
            return np.exp(-np.minimum(away / self.scale, 700.0))  # so that none is rounded to 0

    def loss(self, given, weights=None):
        """The largest weighted log-ratio between two rows."""
        if len(given) < 2:
            return 0.0
        logs = np.log(given @ self.seen.T)
        if self.listed:
            return _spread(logs, weights)
        return max(
            weight * self._climbed(given[x], given[y], start)
            for _, weight, x, y, start in self._best_pairs(logs, weights)
        )

    def _best_pairs(self, logs, weights):
        """The pairs that the listed outputs tell apart best, each with its output."""
        found = []
        for x, y in product(range(len(logs)), repeat=2):
            weight = 1.0 if weights is None else weights[x, y]
            at = int(np.argmax(logs[x] - logs[y]))
            if x != y and weight:
                found.append((weight * (logs[x] - logs[y])[at], weight, x, y, at))
        return sorted(found)[-PAIRS:] or [(0.0, 0.0, 0, 0, 0)]

    def _climbed(self, one, other, start):
        """A high log-ratio of two rows: from an answer, and from beyond all of them."""
        own = self.answers
        towards = (one - other) @ own.values
        corner = np.array(
            [axis[-1] if d > 0 else axis[0] for axis, d in zip(own.axes, towards, strict=True)]
        )
        best = 0.0
        for output in (corner, own.values[start]):
            now, before, at = 0.0, -np.inf, output
            while now > before + 1e-12:
                before = now
                for column, axis in enumerate(own.axes):
                    trials = np.tile(at, (len(axis), 1))
                    trials[:, column] = axis
                    one_by_one = np.log(self.likelihoods(trials) @ np.array([one, other]).T)
                    ratios = one_by_one[:, 0] - one_by_one[:, 1]
                    at, now = trials[np.argmax(ratios)], float(ratios.max())
            best = max(best, now)
        return best


class Choice:
    """A level chosen by exponential noise on minus the ranks by which it misses the median."""

    def __init__(self, answers: Answers, scale: float, chosen, misses, share=0.5):
        drawn = choice_scale(scale, len(answers.values[0]))
        self.seen = np.array(
            [chosen([-m for m in misses(list(counts), share)], drawn) for counts in answers.values]
        ).T

    def loss(self, given, weights=None):
        return _spread(np.log(given @ self.seen.T), weights) if len(given) > 1 else 0.0


class Pipelines:
    """Any release that is private for each entry with this epsilon: outputs that are products.

    Its density may be e^b for some values of an entry and 1 for the others, entry by entry; the
    answers are the data themselves.
    """

    def __init__(self, answers: Answers, epsilon: float):
        size = int(answers.values.max()) + 1
        some = [own for own in product((0.0, 1.0), repeat=size) if 0 < sum(own) < size]
        columns = answers.values.astype(int).T
        if len(some) ** len(columns) * len(answers.values) > MANY:
            raise ValueError("too many outputs to list")
        powers = np.zeros((1, len(answers.values)))
        for column in columns:
            own = np.array([[values[x] for x in column] for values in some])
            powers = (powers[:, None] + own[None]).reshape(-1, len(answers.values))
        self.seen = np.exp(epsilon * powers)

    def loss(self, given, weights=None):
        return _spread(np.log(given @ self.seen.T), weights) if len(given) > 1 else 0.0


def _spread(logs, weights):
    """The largest difference between two rows, over columns."""
    if weights is None:
        return float((logs.max(axis=0) - logs.min(axis=0)).max())
    return max(
        weights[x, y] * float((logs[x] - logs[y]).max())
        for x in range(len(logs))
        for y in range(len(logs))
    )
