"""The sweep over a chain with made-up steps, against the recursion written out."""

from math import inf

import numpy as np
import pytest

from pufferkit.influence.curve import sweep
from pufferkit.influence.curve.steps import Step
from pufferkit.influence.curve.sweep import (
    EntryLoss,
    Run,
    Side,
    Sweep,
    entry_loss,
    fixed_point,
    largest_loss,
    quick_loss,
)


class Shrinking(Step):
    """Keeps a share of what varies, up to a most; two pairs of values, one of them milder."""

    def __init__(self, share, most):
        self.share, self.most = share, most

    def largest(self, variation):
        return min(self.share * variation, self.most)

    def pairs(self, variation):
        worst = self.largest(variation)
        return np.array([[0.0, worst], [worst / 2, 0.0]])


def steps_of(share, most):
    return lambda block: None if block == 3 else Shrinking(share**block, most)


def side(*stretches, blocks=(1, 2, 3, 5)):
    return Side([(first, steps_of(share, most)) for first, share, most in stretches], blocks)


def by_definition(made, runs):
    """alpha of every node: the least of paying for all, or for a block and a step beyond it."""
    b = [run.b for run in runs for _ in range(run.count)]
    values = []
    for node in range(1, len(b) + 1):
        least = sum(b[:node])
        for block in made.blocks:
            step = made.steps_at(node)(block)
            if block < node and step is not None:
                spent = sum(b[node - block : node])
                least = min(least, spent + step.largest(values[node - block - 1]))
        values.append(least)
    return values


RUNS = [
    [Run(9, 0.5)],
    [Run(3, 0.5), Run(0, 9.0), Run(4, 0.0), Run(5, 1.25)],
    [Run(1, 2.0), Run(1, 0.25), Run(8, 0.75)],
]


@pytest.mark.parametrize("runs", RUNS)
@pytest.mark.parametrize(
    "made",
    [side((1, 0.5, 9.0)), side((1, 0.9, 1.5), (5, 0.25, 9.0)), side((1, 1.0, inf), blocks=())],
)
def test_short_sweeps_are_the_recursion(runs, made):
    swept = Sweep(made, runs)
    wanted = by_definition(made, runs)
    b = [run.b for run in runs for _ in range(run.count)]
    assert swept.length == len(b)
    assert [swept.value_at(n) for n in range(1, len(b) + 1)] == pytest.approx(wanted)
    assert [swept.b_at(n) for n in range(1, len(b) + 1)] == b
    for node in range(1, len(b) + 1):
        for block in range(node + 1):
            assert swept.spent(node, block) == pytest.approx(sum(b[node - block : node]))
        assert swept.plateau_at(node) is None
    assert swept.is_uniform == (len(runs) == 1 and len(made.stretches) == 1)


@pytest.mark.parametrize("share", [0.3, 0.9])
@pytest.mark.parametrize(
    "runs",
    [[Run(900, 0.5)], [Run(400, 0.75), Run(500, 0.25)], [Run(300, 0.25), Run(600, 0.75)]],
)
def test_long_sweeps_settle_at_or_above_the_recursion(share, runs):
    made = side((1, share, 40.0))
    swept, wanted = Sweep(made, runs), by_definition(made, runs)
    values = [swept.value_at(n) for n in range(1, 901)]
    assert all(x >= y - 1e-9 for x, y in zip(values, wanted, strict=True))
    assert values[-1] == pytest.approx(wanted[-1], rel=0.02)
    assert len(swept.values) < 400
    plateau = swept.plateau_at(900)
    assert plateau is not None
    assert plateau.last == 900
    assert plateau.b == runs[-1].b
    assert plateau.value == values[-1]


def test_a_side_that_never_forgets_pays_for_all():
    swept = Sweep(side((1, 1.0, inf)), [Run(2000, 0.5)])
    assert swept.value_at(2000) == 1000.0
    assert swept.value_at(5) == 2.5


@pytest.mark.parametrize("b", [0.1, 1.0, 7.0])
@pytest.mark.parametrize("share", [0.2, 0.8])
@pytest.mark.parametrize("most", [0.5, 30.0])
def test_fixed_points_are_checked_and_close_to_the_least(b, share, most):
    blocks, steps = [5, 1, 2, 3], steps_of(share, most)
    v = fixed_point(steps, blocks, b)

    def least(v):
        return min(m * b + steps(m).largest(v) for m in blocks if steps(m) is not None)

    assert v >= b
    assert least(v) <= v
    below = v * (1 - 1e-6)
    assert v == b or least(below) > below


def test_fixed_points_without_bound():
    never = lambda _: Shrinking(1.0, inf)  # noqa: E731
    assert fixed_point(never, [1], 1.0) == inf
    assert fixed_point(never, [1], 0.0) == 0.0
    assert fixed_point(never, [], 1.0) == inf
    far = lambda _: Shrinking(0.999, inf)  # noqa: E731
    assert fixed_point(far, [1], 1.0) == pytest.approx(1000.0, rel=1e-4)


# --- the loss of entries --------------------------------------------------------------------------


def brute_loss(left, right, runs, node):
    """Both sides of one entry, every pair of options, one pair of values throughout."""
    b = [run.b for run in runs for _ in range(run.count)]
    flipped = [*reversed(runs)]
    options = []
    for made, all_runs, at in ((left, runs, node), (right, flipped, len(b) + 1 - node)):
        spent = [run.b for run in all_runs for _ in range(run.count)]
        values = by_definition(made, all_runs)
        some = [(sum(spent[:at]), np.zeros((2, 2)))]
        for block in made.blocks:
            step = made.steps_at(at)(block)
            if block < at and step is not None:
                pairs = step.pairs(values[at - block - 1])
                some.append((sum(spent[at - block : at]), pairs))
        options.append(some)
    return min(s + t - b[node - 1] + (p + q).max() for s, p in options[0] for t, q in options[1])


@pytest.mark.parametrize("runs", RUNS)
def test_the_loss_of_each_entry_and_the_largest(runs):
    one, two = side((1, 0.6, 2.0)), side((1, 0.8, 3.0), (4, 0.5, 1.0))
    left, right = Sweep(one, runs), Sweep(two, [*reversed(runs)])
    truth = [brute_loss(one, two, runs, n) for n in range(1, left.length + 1)]
    losses = [entry_loss(left, right, n, 10) for n in range(1, left.length + 1)]
    assert [x.value for x in losses] == pytest.approx(truth)
    assert [x.node for x in losses] == list(range(1, left.length + 1))
    worst = largest_loss(left, right, 10)
    assert worst.value == pytest.approx(max(truth))
    assert truth[worst.node - 1] == pytest.approx(max(truth))
    assert quick_loss(left, right) >= worst.value
    # Fewer options never show less.
    few = largest_loss(left, right, 1)
    assert few.value >= worst.value - 1e-12


@pytest.mark.parametrize("length", [3000, 3001])
def test_the_middle_of_a_long_uniform_series_is_the_hardest(length):
    made = side((1, 0.6, 2.0))
    left = right = Sweep(made, [Run(length, 0.5)])
    middle = largest_loss(left, right, 10)
    assert middle.node == (length + 1) // 2
    others = [entry_loss(left, right, n, 10).value for n in (1, 2, 7, 100, length - 1, length)]
    assert middle.value >= max(others) - 1e-9


def test_where_stretches_of_both_sides_meet():
    """Every entry has a quick bound, whatever the stretches: none is passed over."""
    runs = [Run(700, 0.5), Run(1, 3.0), Run(800, 0.25)]
    made = side((1, 0.7, 5.0))
    left, right = Sweep(made, runs), Sweep(made, [*reversed(runs)])
    worst = largest_loss(left, right, 10)
    looked = [entry_loss(left, right, n, 10).value for n in range(1, 1502, 7)]
    peak = [entry_loss(left, right, n, 10).value for n in range(690, 712)]
    assert worst.value >= max(*looked, *peak) - 1e-9
    bounds = sweep._quick_bounds(left, right)
    assert bounds == sorted(bounds, reverse=True)
    assert quick_loss(left, right) == bounds[0][0]


def test_a_loss_says_which_blocks_show_it():
    assert str(EntryLoss(1.0, 4, 2, None)) == "left block 2, right side exhausted"
    assert str(EntryLoss(1.0, 4, None, 7)) == "left side exhausted, right block 7"
