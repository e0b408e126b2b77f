"""What those learn who are unsure of the type, against the exact loss."""

from itertools import product
from math import inf

import numpy as np
import pytest

from pufferkit.beliefs.base import transfer_cap
from tests.oracles.switching import posterior, reversal, stationary


def test_no_output_tells_more_than_epsilon_and_the_cap():
    """Given the path of the regimes entries are independent, so the loss is b; unsure of it, more.

    Likelihoods are products of e^b or 1 for each entry and state, improved entry by entry.
    """
    rng = np.random.default_rng(1)
    tightest = 0.0
    for _ in range(12):
        regimes, states = int(rng.integers(2, 4)), int(rng.integers(2, 4))
        matrix = 0.7 * np.eye(regimes) + 0.3 * rng.dirichlet(np.ones(regimes), regimes)
        emission = rng.dirichlet(np.ones(states), regimes)
        b, length, middle = float(rng.choice([0.1, 0.5, 2.0])), 7, 3
        before, own = reversal(matrix), posterior(matrix, emission)
        cap = b + transfer_cap(stationary(matrix)[:, None] * emission)
        choices = [np.exp(b * np.array(marks)) for marks in product([0, 1], repeat=states)]

        def values(
            likelihood,
            before=before,
            after=matrix,
            emission=emission,
            own=own,
            last=length,
            middle=middle,
        ):
            left = right = np.ones(len(after))
            for t in range(last - 1, middle, -1):
                right = after @ ((emission @ likelihood[t]) * right)
            for t in range(middle):
                left = before @ ((emission @ likelihood[t]) * left)
            return np.log(likelihood[middle] * (own @ (left * right)))

        for x, y in product(range(states), repeat=2):
            likelihood = [choices[rng.integers(len(choices))] for _ in range(length)]
            for t in [*range(length)] * 2 if x != y else ():

                def loss(choice, t=t, likelihood=likelihood, x=x, y=y, values=values):
                    tried = [*likelihood[:t], choice, *likelihood[t + 1 :]]
                    value = values(tried)
                    return value[x] - value[y]

                likelihood[t] = max(choices, key=loss)
                largest = loss(likelihood[t])
                assert largest <= cap + 1e-9
                tightest = max(tightest, largest / cap)
    assert tightest > 0.7


def test_caps_of_extreme_tables():
    assert transfer_cap([[0.3, 0.7]]) == 0
    assert transfer_cap([[0.3, 0.6], [0.2, 0.4]]) == pytest.approx(0)
    assert transfer_cap([[0.5, 0.0], [0.5, 1.0]]) == inf
    assert transfer_cap([[0.5, 0.0, 0.2], [0.5, 0.0, 0.1]]) == pytest.approx(np.log(1.5))
    with pytest.raises(ValueError, match="joint: must be probabilities"):
        transfer_cap([0.5, 0.5])
    with pytest.raises(ValueError, match="state of positive probability"):
        transfer_cap([[0.0, 0.0]])
