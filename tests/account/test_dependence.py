"""E of [C] 3.6 against the definition, and what is charged by it against the true joint loss."""

import math
from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest

import pufferkit as pk
from pufferkit.account import theorems as joint_sums
from pufferkit.noise import grid_exponent
from tests.oracles import joint_loss

STICKY = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
FLIP = pk.MarkovChain.steady([[0.1, 0.9], [0.9, 0.1]])
HALF = [[0.5, 0.5], [0.5, 0.5]]
MIXED = [[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.25, 0.25, 0.5]]
ZEROS = [[0, 1, 0], [0.3, 0, 0.7], [0, 0, 1]]

CASES = [
    # initial, transition, values of A and B, segments
    ([0.5, 0.5], [[0.99, 0.01], [0.1, 0.9]], (0, 1), (0, 1), [2]),  # [C] 3.4
    ([1, 0], [[0.7, 0.3], [0.2, 0.8]], (0, 1), (1, 0), [5]),
    ([0.3, 0.7], HALF, (0, 1), (0, 1), [6]),
    ([0.2, 0.3, 0.5], MIXED, (0, 1, 2), (0, 1, 2), [5]),
    ([0.2, 0.3, 0.5], MIXED, (0, 1, 2), (1, 0, 0), [5]),
    ([0.2, 0.3, 0.5], MIXED, (0, 1, 1), (4, 2, 0), [4]),
    ([0.5, 0.5, 0], ZEROS, (0, 1, 0), (0, 0, 3), [4]),
    ([0, 1, 0], ZEROS, (3, 0, 1), (0, 1, 2), [5]),
    ([0.2, 0.3, 0.5], MIXED, (0, 1, 3), (5, 0, 0), [1]),
    ([0.2, 0.3, 0.5], MIXED, (0, 1, 2), (1, 0, 1), [1, 2, 2]),
    ([0.4, 0.6], [[0.05, 0.95], [0.9, 0.1]], (0, 1), (0, 1), [3, 1, 2]),
]


def calibrated(mechanism, chain, values, lengths, epsilon, query=pk.total):
    return mechanism(chain, query(dict(enumerate(values)), lengths), epsilon)


def noisy_sum(values, made):
    length = sum(made.query.lengths)
    share = length if made.query.name.startswith("mean") else 1
    return joint_loss.NoisySum(1, length, tuple(v / share for v in values), made.scale)


def charge(result, rule):
    return next(row.micro for row in result.considered if row.rule == rule) / 1e6


@pytest.mark.parametrize(("initial", "transition", "ones", "others", "lengths"), CASES)
@pytest.mark.parametrize("mechanism", [pk.wasserstein, pk.exact_sum])
def test_it_is_the_definition_and_its_charge_covers_the_joint_loss(
    mechanism, initial, transition, ones, others, lengths
):
    chain = pk.MarkovChain(initial, transition)
    first = calibrated(mechanism, chain, ones, lengths, 1.0)
    second = calibrated(mechanism, chain, others, lengths, 0.5, pk.mean)
    sums = [noisy_sum(ones, first), noisy_sum(others, second)]
    bound = pk.dependence(first, second)
    true = joint_loss.dependence(chain.initial, chain.transition, sums[:1], sums[1:], lengths)
    assert 0 <= bound - true < 1e-9
    assert bound == pytest.approx(pk.dependence(second, first), abs=1e-11)
    history = [pk.Spending.of(first), pk.Spending.of(second)]
    result = pk.compose(history, chain, lengths, dependence=bound)
    charged = charge(result, "dependence")
    assert charged == pytest.approx(1.5 + 2 * bound, abs=1e-5)
    loss = joint_loss.losses(chain.initial, chain.transition, sums, lengths).max()
    assert loss <= result.epsilon <= charged


def test_random_chains_follow_the_definition():
    rng = np.random.default_rng(7)
    for _ in range(25):
        size, length = int(rng.integers(2, 4)), int(rng.integers(1, 6))
        transition = rng.dirichlet(np.full(size, 0.5), size)
        transition[rng.random((size, size)) < 0.2] = 0
        transition[transition.sum(axis=1) == 0] = 1
        transition /= transition.sum(axis=1, keepdims=True)
        chain = pk.MarkovChain(rng.dirichlet(np.ones(size)), transition)
        rows = [tuple(rng.permutation([0, *rng.integers(1, 4, size - 1)])) for _ in range(2)]
        made = [
            replace(
                calibrated(pk.influence_curve, chain, list(map(int, row)), length, 1.0),
                scale=float(rng.uniform(0.3, 5)),
            )
            for row in rows
        ]
        sums = [noisy_sum(row, own) for row, own in zip(rows, made, strict=True)]
        true = joint_loss.dependence(chain.initial, chain.transition, sums[:1], sums[1:], [length])
        assert 0 <= pk.dependence(*made) - true < 1e-9


def test_no_output_between_or_beyond_the_values_of_the_sums_has_more():
    chain, length = pk.MarkovChain([0.2, 0.3, 0.5], MIXED), 4
    rows, scales = np.array([(0, 1, 2), (3, 0, 1)]), (0.7, 1.9)
    made = [
        replace(calibrated(pk.influence_curve, chain, row.tolist(), length, 1), scale=scale)
        for row, scale in zip(rows, scales, strict=True)
    ]
    bound = pk.dependence(*made)
    rng, largest = np.random.default_rng(1), 0.0
    paths = np.array(list(product(range(3), repeat=length)))
    chance = chain.initial[paths[:, 0]] * np.prod(
        chain.transition[paths[:, :-1], paths[:, 1:]], axis=1
    )
    outputs = rng.uniform(-4, 16, (2000, 2))
    kernels = [
        np.exp(-np.abs(outputs[:, [n]] - rows[n][paths].sum(axis=1)) / scales[n]) for n in (0, 1)
    ]
    for entry, value in product(range(length), range(3)):
        own = np.where(paths[:, entry] == value, chance, 0)
        own /= own.sum()
        ratio = (kernels[0] * kernels[1]) @ own / ((kernels[0] @ own) * (kernels[1] @ own))
        largest = max(largest, float(np.abs(np.log(ratio)).max()))
    assert 0.9 * bound < largest <= bound


def test_more_noise_is_less_dependence():
    made = pk.wasserstein(FLIP, pk.count(1, 12), 1)
    bounds = [pk.dependence(made, replace(made, scale=s * made.scale)) for s in (1, 1.01, 2, 9)]
    assert bounds == sorted(bounds, reverse=True)


def test_two_releases_on_an_alternating_chain_are_charged_less_than_by_the_profile():
    made = pk.wasserstein(FLIP, pk.count(1, 20), 0.5)
    twice = [pk.Spending.of(made)] * 2
    result = pk.compose(twice, FLIP, 20, dependence=pk.dependence(made, made))
    assert result.rule == "dependence"
    assert result.epsilon == pytest.approx(1.366841, abs=2e-6)
    assert charge(result, "entry_profile") > 4
    with_sticky = pk.wasserstein(STICKY, pk.count(1, 20), 0.5)
    bound = pk.dependence(with_sticky, with_sticky)
    result = pk.compose([pk.Spending.of(with_sticky)] * 2, STICKY, 20, dependence=bound)
    assert result.rule == "entry_profile"


def test_a_class_takes_the_largest_of_its_chains():
    theta = pk.ChainClass.of(STICKY, FLIP)
    made = pk.wasserstein(theta, pk.count(1, 8), 1)
    alone = [
        pk.dependence(*[replace(made, beliefs=pk.ChainClass.of(chain))] * 2)
        for chain in (STICKY, FLIP)
    ]
    assert pk.dependence(made, made) == max(alone)


def test_a_joint_distribution_is_listed():
    chain = pk.MarkovChain([0.2, 0.3, 0.5], MIXED)
    table = {
        row: float(chain.initial[row[0]] * math.prod(chain.transition[u, v] for u, v in steps))
        for row in product(range(3), repeat=3)
        for steps in [list(pairwise(row))]
    }
    made = [calibrated(pk.wasserstein, chain, row, 3, 1) for row in ((0, 1, 2), (7, 0, 0))]
    listed = [
        replace(calibrated(pk.wasserstein, pk.FiniteJoint(table), row, 3, 1), scale=own.scale)
        for row, own in zip(((0, 1, 2), (7, 0, 0)), made, strict=True)
    ]
    assert pk.dependence(*listed) == pytest.approx(pk.dependence(*made), abs=1e-10)


def test_rounding_to_a_grid_is_counted():
    made = pk.wasserstein(FLIP, pk.total({0: 0, 1: 1}, 6), 1)
    huge = replace(made, scale=2.0**41)
    assert huge.unit is None
    step = 2.0 ** grid_exponent(huge.sensitivity, 1, huge.query.largest)
    gaps = [joint_sums.Axis(np.array([0, 1]), 1 / own.scale) for own in (made, huge)]
    plain = joint_sums.chain_dependence(FLIP.initial, FLIP.transition, [6], *gaps)
    assert pk.dependence(made, huge) >= plain + step / huge.scale


@pytest.mark.parametrize(
    ("pair", "error", "words"),
    [
        (lambda m: (m, 1.0), ValueError, "second: must be a Calibration"),
        (
            lambda m: (pk.group_dp(pk.count(1, 9), 1), m),
            ValueError,
            "first: group_dp was calibrated without beliefs",
        ),
        (
            lambda m: (m, pk.wasserstein(FLIP, pk.count(1, 9), 1, secrets=[({1: 0}, {1: 1})])),
            pk.NoTheorem,
            "calibrated for other secrets",
        ),
        (
            lambda m: (
                m,
                pk.wasserstein(FLIP, pk.count(1, 9), 1, secrets=pk.Secrets.throughout(1, 2)),
            ),
            pk.NoTheorem,
            "calibrated for other secrets",
        ),
        (
            lambda m: (m, replace(m, mechanism="entry_dp")),
            pk.NoTheorem,
            "needs Pufferfish privacy, got entry_dp",
        ),
        (
            lambda m: (m, pk.influence_curve(FLIP, pk.histogram([0, 1], 9), 1)),
            pk.NotApplicable,
            "second: .* is not a scalar sum",
        ),
        (
            lambda m: (m, pk.wasserstein(FLIP, pk.count(1, 8), 1)),
            ValueError,
            r"second: runs over segments of \[8\] entries, the first over \[9\]",
        ),
        (
            lambda m: (m, pk.wasserstein(STICKY, pk.count(1, 9), 1)),
            ValueError,
            "second: it was calibrated for other beliefs",
        ),
        (
            lambda m: (pk.influence_curve(pk.ChainClass.binary(0.4, 0.9), pk.count(1, 9), 1),) * 2,
            pk.NotApplicable,
            "finitely many known chains",
        ),
        (
            lambda m: (
                (pk.influence_curve(FLIP, pk.count(1, pk.Series.of([0, None, 1], [0, 1])), 1),) * 2
            ),
            pk.NotApplicable,
            "first: ",
        ),
        (
            lambda m: (pk.wasserstein(pk.ChainClass.of(FLIP, STICKY), pk.count(1, [3, 2]), 1),) * 2,
            pk.NotApplicable,
            "with several segments, each of them could follow a different one of 2 chains",
        ),
        (
            lambda m: (pk.influence_curve(FLIP, pk.count(1, 5000), 1),) * 2,
            pk.NotApplicable,
            r"take about [\d,]+ s and .* GB, more than 60 s",
        ),
        (
            lambda m: (replace(m, scale=0.01), replace(m, scale=0.01)),
            pk.NotApplicable,
            "the likelihood of some outputs underflows",
        ),
        (
            lambda m: (
                (
                    pk.influence_curve(
                        pk.MarkovChain([1 - 1e-32, 1e-32], FLIP.transition), pk.count(1, 9), 1
                    ),
                )
                * 2
            ),
            pk.NotApplicable,
            "may underflow",
        ),
    ],
)
def test_what_it_does_not_speak_of_is_refused(pair, error, words):
    made = pk.wasserstein(FLIP, pk.count(1, 9), 1)
    with pytest.raises(error, match=words):
        pk.dependence(*pair(made))


def test_the_rounding_is_counted():
    table = np.diag([0.5, 0.5])[None]
    decay = np.array([math.exp(-1)])
    plain = joint_sums.largest_log_ratio(table, decay, decay)
    same, apart = (1 + math.exp(-2)) / 2, math.exp(-1)
    alone = ((1 + math.exp(-1)) / 2) ** 2
    assert plain == pytest.approx(max(abs(math.log(same / alone)), abs(math.log(apart / alone))))
    places = np.arange(2)
    listed = joint_sums.listed_dependence(
        (places, places), np.array([0.5, 0.5]), [np.array([True, True])], [decay, decay]
    )
    assert plain < listed < plain + 1e-11
