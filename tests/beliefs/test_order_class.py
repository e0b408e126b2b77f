"""Chains of order m from counts of tuples."""

from itertools import product

import numpy as np
import pytest

from pufferkit import ChainClass, MarkovChain
from pufferkit.beliefs.order_class import tuple_kernel
from pufferkit.fitting.fit import order_table
from pufferkit.fitting.people import tuple_counts

SEGMENTS = [[0, 1, 1, 0, 2, 1, 1, 0], [2, 2, -1, 1, 1, 0], [1]]


@pytest.mark.parametrize("width", [1, 2, 3])
def test_tuples_are_counted_within_segments(width):
    counts = tuple_counts(SEGMENTS, 3, width)
    for members in product(range(3), repeat=width):
        times = sum(
            segment[t : t + width] == list(members)
            for segment in SEGMENTS
            for t in range(len(segment) - width + 1)
        )
        assert counts[members] == times


def test_table_is_shrunk_to_one_step_of_memory_less():
    nothing = (np.array([4, 7, 3]) + 0.5) / 15.5
    one = order_table(SEGMENTS, 3, 1)
    # 0 is followed by 1 and by 2, once each.
    assert one[0] == pytest.approx((np.array([0, 1, 1]) + 5 * nothing) / 7)
    two = order_table(SEGMENTS, 3, 2)
    # (1, 1) is followed by 0 three times; (0, 0) never occurs.
    assert two[1, 1] == pytest.approx((np.array([3, 0, 0]) + 5 * one[1]) / 8)
    assert two[0, 0] == pytest.approx(one[0])
    assert two.sum(axis=-1) == pytest.approx(1)


def test_steps_of_the_chain_on_tuples():
    table = order_table(SEGMENTS, 3, 2)
    kernel = tuple_kernel(table)
    (part,) = ChainClass.order(2, table).parts(9)
    assert kernel[0 * 3 + 1, 1 * 3 + 2] == table[0, 1, 2]
    assert kernel[0 * 3 + 1, 2 * 3 + 2] == 0
    m = MarkovChain.steady(kernel).stationary
    assert m @ kernel == pytest.approx(m)
    # Both members of a pair have the same distribution.
    assert m.reshape(3, 3).sum(axis=0) == pytest.approx(m.reshape(3, 3).sum(axis=1))
    assert m[:, None] * kernel == pytest.approx((m[:, None] * part.left.later(1).kernels[0]).T)
    pairs = m.reshape(3, 3)
    for x in range(3):
        assert part.posterior[0].kernels[0][x].reshape(3, 3)[:, x] == pytest.approx(
            pairs[:, x] / pairs[:, x].sum()
        )


def test_order_two_is_found_again():
    rng = np.random.default_rng(4)
    truth = rng.dirichlet(np.ones(2), (2, 2))
    entries = [0, 1]
    for u in rng.random(20_000):
        entries.append(int(u > truth[entries[-2], entries[-1], 0]))
    table = order_table([entries], 2, 2)
    assert np.abs(table - truth).max() < 0.02


def test_bad_arguments():
    with pytest.raises(ValueError, match="order: 13 levels with 3 steps of memory make 2,197"):
        order_table(SEGMENTS, 13, 3)
    with pytest.raises(ValueError, match="order: must be at least 1"):
        order_table(SEGMENTS, 3, 0)
    with pytest.raises(ValueError, match="segments: levels must lie between 0 and 1"):
        order_table(SEGMENTS, 2, 1)
