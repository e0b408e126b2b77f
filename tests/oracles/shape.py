"""The loss of shaped noise by definition: all series, outputs by random points and by ascent.

Without a line of pufferkit. The result is a lower bound on the loss: the largest log-ratio of the
probability of an output given two values of an entry, over the outputs that were tried.
"""

from __future__ import annotations

from itertools import product

import numpy as np


def series_probabilities(initial, kernels, emissions):
    """Every series of entries, and its probability: regimes are summed out, step by step."""
    forward = (np.asarray(initial)[:, None] * emissions[0]).T
    for kernel, emission in zip(kernels, emissions[1:], strict=True):
        forward = ((forward @ kernel)[:, None, :] * emission.T[None]).reshape(-1, len(kernel))
    k = emissions[0].shape[1]
    return np.array(list(product(range(k), repeat=len(emissions)))), forward.sum(axis=1)


def log_density(noise, distance):
    """Of noise in units of its scale, up to a constant."""
    return -distance if noise == "laplace" else -distance - np.log1p(np.exp(-2 * distance))


class Outputs:
    """The largest log-ratio over outputs that were tried, for every entry and pair of its values.

    ``added`` has for every entry the k x m matrix of what its values add to the coordinates, zero
    where they do not count it; ``noises`` the kind of noise of each coordinate; ``grid`` is 1 where
    outputs are whole numbers.
    """

    def __init__(self, initial, kernels, emissions, added, scales, noises, grid=None):
        data, weights = series_probabilities(initial, kernels, emissions)
        self.length, self.k = len(emissions), emissions[0].shape[1]
        self.scales, self.noises, self.grid = np.asarray(scales, float), noises, grid
        sums = sum(np.asarray(added[t], float)[data[:, t]] for t in range(self.length))
        self.sums, place = np.unique(np.round(sums, 12), axis=0, return_inverse=True)
        place = place.ravel()
        self.given = np.zeros((self.length * self.k, len(self.sums)))
        for t in range(self.length):
            for x in range(self.k):
                own = np.where(data[:, t] == x, weights, 0.0)
                total = own.sum()
                if total > 0:
                    self.given[t * self.k + x] = np.bincount(place, own / total, len(self.sums))
        shape = self.length, self.k, self.k
        self.largest = np.zeros(shape)
        self.where = np.zeros((*shape, len(self.scales)))

    def try_all(self, outputs):
        """See what these outputs tell."""
        if self.grid is not None:
            outputs = np.round(outputs / self.grid) * self.grid
        logs = np.zeros((len(outputs), len(self.sums)))
        for j, noise in enumerate(self.noises):
            distance = np.abs(outputs[:, j, None] - self.sums[None, :, j]) / self.scales[j]
            logs += log_density(noise, distance)
        logs -= logs.max(axis=1, keepdims=True)
        with np.errstate(divide="ignore", invalid="ignore"):
            told = np.log(np.exp(logs) @ self.given.T).reshape(-1, self.length, self.k)
            ratios = told[:, :, :, None] - told[:, :, None, :]
        ratios = np.where(np.isfinite(ratios), ratios, 0.0)
        best = ratios.argmax(axis=0)
        found = ratios.max(axis=0)
        better = found > self.largest
        self.largest[better] = found[better]
        self.where[better] = outputs[best][better]

    def climbed(self, rng, points=300, rounds=20):
        """The largest log-ratios: random and outer outputs first, then uphill from the best."""
        low, high, m = self.sums.min(axis=0), self.sums.max(axis=0), len(self.scales)
        self.try_all(low + (high - low) * (rng.random((points, m)) * 1.6 - 0.3))
        outer = np.array(list(product((0.0, 1.0), repeat=m)))
        far = 15 * self.scales
        self.try_all(np.where(outer > 0, high + far, low - far))
        some = rng.random((points // 2, m)) < 0.5
        sides = np.where(rng.random(some.shape) < 0.5, high + far, low - far)
        self.try_all(np.where(some, sides, low + (high - low) * rng.random(some.shape)))
        reach = 1.0
        for _ in range(rounds):
            top = np.argsort(self.largest.ravel())[-6:]
            start = self.where.reshape(-1, m)[top]
            steps = rng.normal(size=(len(top), 16, m)) * self.scales * reach
            steps *= rng.choice([0.05, 0.3, 1.0], size=(len(top), 16, 1))
            self.try_all((start[:, None] + steps).reshape(-1, m))
            reach = max(0.9 * reach, 0.05)
        return self.largest
