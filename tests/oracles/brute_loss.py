"""The loss of a noisy sum over a chain, by the definition: every output, entry and pair."""

import math


def sums_given(initial, transition, values, length, entry, state):
    """{sum over entries: probability} given that an entry (from 0) is in a state; None if never."""
    size = len(initial)
    table = {}
    for t in range(length):
        moved = {}
        if t == 0:
            steps = [((x, 0), initial[x]) for x in range(size)]
        else:
            steps = [
                ((y, total), p * transition[x][y])
                for (x, total), p in table.items()
                for y in range(size)
            ]
        for (x, total), p in steps:
            if p > 0 and (t != entry or x == state):
                key = (x, total + values[x])
                moved[key] = moved.get(key, 0.0) + p
        table = moved
    distribution = {}
    for (_, total), p in table.items():
        distribution[total] = distribution.get(total, 0.0) + p
    mass = math.fsum(distribution.values())
    return {total: p / mass for total, p in distribution.items()} if mass > 0 else None


def loss_of_sum(initial, transition, values, length, scale):
    """Largest |log p(w | X_i = a) - log p(w | X_i = b)| over outputs w at possible sums."""
    worst = 0.0
    for entry in range(length):
        distributions = [
            distribution
            for state in range(len(initial))
            if (distribution := sums_given(initial, transition, values, length, entry, state))
            is not None
        ]
        for output in {total for distribution in distributions for total in distribution}:
            densities = [
                math.fsum(
                    p * math.exp(-abs(output - total) / scale) for total, p in distribution.items()
                )
                for distribution in distributions
            ]
            worst = max(worst, math.log(max(densities) / min(densities)))
    return worst
