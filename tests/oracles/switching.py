"""Hidden regimes by definition: their entries, and by how much one entry moves the histogram."""

from itertools import product

import numpy as np


def stationary(matrix):
    size = len(matrix)
    lhs = np.vstack([matrix.T - np.eye(size), np.ones(size)])
    return np.linalg.lstsq(lhs, np.r_[np.zeros(size), 1.0], rcond=None)[0]


def reversal(matrix):
    pi = stationary(matrix)
    return matrix.T * pi[None, :] / pi[:, None]


def posterior(matrix, emission):
    """P(Z = z | X = x), row x."""
    joint = (stationary(matrix)[:, None] * emission).T
    return joint / joint.sum(axis=1, keepdims=True)


def draw(matrix, emission, length, seed):
    """Entries emitted by a stationary chain of regimes."""
    rng = np.random.default_rng(seed)
    regime = np.searchsorted(np.cumsum(stationary(matrix))[:-1], rng.random())
    steps, looks = rng.random(length), rng.random(length)
    ahead, shown = np.cumsum(matrix, axis=1)[:, :-1], np.cumsum(emission, axis=1)[:, :-1]
    entries = np.empty(length, dtype=np.int64)
    for t in range(length):
        entries[t] = np.searchsorted(shown[regime], looks[t], side="right")
        regime = np.searchsorted(ahead[regime], steps[t], side="right")
    return entries


def window_influence(matrix, emission, window):
    """N of every pair: matrix powers, ``window`` entries on either side."""
    before, after = reversal(matrix), matrix
    left = right = posterior(matrix, emission)
    means = np.eye(emission.shape[1])
    for _ in range(window):
        left, right = left @ before, right @ after
        means = means + (left + right) @ emission
    return np.abs(means[:, None] - means[None]).sum(axis=2) / 2


def switching(regimes, kernels):
    """A chain within regimes as regimes (z, x): their matrix, and emissions that show x."""
    count, size = len(regimes), kernels.shape[1]
    matrix = np.einsum("zw,wxy->zxwy", regimes, kernels).reshape(count * size, count * size)
    return matrix, np.tile(np.eye(size), (count, 1))


def outer_losses(matrix, emission, window, u):
    """Log-ratios at outputs beyond the histogram: log E[e^{u v.h} | x] / E[.. | x'], best signs.

    The output o with o_j beyond the range of h_j on the side v_j has density c e^{v.h / s}, and
    u = 1 / s.
    """
    size = emission.shape[1]
    before, own = reversal(matrix), posterior(matrix, emission)
    best = np.zeros((size, size))
    for signs in product([-1.0, 1.0], repeat=size):
        tilt = np.exp(u * np.array(signs))
        shown = emission @ tilt
        left = right = np.ones(len(matrix))
        for _ in range(window):
            left, right = before @ (shown * left), matrix @ (shown * right)
        values = np.log(tilt * (own @ (left * right)))
        best = np.maximum(best, values[:, None] - values[None])
    return best
