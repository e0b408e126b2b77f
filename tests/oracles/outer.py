"""The loss of a long series at outer outputs: those beyond all that can be. Numpy only.

There the density of a vector of noisy sums is in proportion to e^(g x), with g one over the scale
of each coordinate, up or down: for Laplace and for sech noise, and on whole numbers. So the mean
over all series is a product of matrices, whatever their length, and these outputs are outputs.
"""

from itertools import product

import numpy as np


def outer_loss(start, kernels, emissions, added, scales):
    """The largest log-ratio at outer outputs given two values of an entry, over all entries.

    ``start`` is the distribution of the first hidden state, ``added`` has a row for each value.
    """
    worst, lasts = 0.0, len(emissions) - 1
    where = [np.asarray(start, dtype=float)]
    for kernel in kernels:
        where.append(where[-1] @ kernel)
    for signs in product((-1, 1), repeat=len(scales)):
        tilt = np.asarray(added) @ (np.array(signs) / scales)
        weights = np.exp(tilt - tilt.max())
        before, after = [where[0]], [np.ones(len(where[0]))]
        for t in range(lasts):
            moved = (before[t] * (emissions[t] @ weights)) @ kernels[t]
            before.append(moved / moved.sum())
        for t in range(lasts, 0, -1):
            moved = kernels[t - 1] @ ((emissions[t] @ weights) * after[-1])
            after.append(moved / moved.max())
        for t, emission in enumerate(emissions):
            told = ((before[t] * after[lasts - t]) @ emission) * weights
            known = where[t] @ emission
            ratios = np.log(told[known > 0] / known[known > 0])
            worst = max(worst, float(np.ptp(ratios)))
    return worst
