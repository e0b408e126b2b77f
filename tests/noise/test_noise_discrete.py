"""Discrete Laplace noise: its distribution, its guarantee by the definition, and how much it saves.

Draws cannot be seeded: the statistical test accepts the true scale with a false-alarm rate under
1e-9 and rejects 0.8 and 1.25 of it. Everything else is exact.
"""

from fractions import Fraction
from itertools import product
from math import exp, sinh

import numpy as np
import pytest
from scipy import stats

import pufferkit as pk
from pufferkit import noise
from pufferkit.mechanisms.release import expected_size, half_width, interval_around
from tests.oracles.listed_sums import largest_loss

FALSE_ALARM = 1e-10
ONE = Fraction(1)
ABC = ["a", "b", "c"]


def mass(n: int, b: float) -> float:
    """P(Z = n) by the definition, with b the unit over the scale."""
    return (1 - exp(-b)) / (1 + exp(-b)) * exp(-b * abs(n))


def looks_discrete(draws: np.ndarray, scale: float) -> bool:
    """A chi-square test of the cells with enough in them."""
    reach = int(6 * scale) + 2
    cells = np.arange(-reach, reach + 1)
    expected = np.array([mass(n, 1 / scale) for n in cells]) * len(draws)
    seen = np.array([(draws == n).sum() for n in cells])
    kept = expected > 20
    expected, seen = np.append(expected[kept], 0), np.append(seen[kept], 0)
    expected[-1], seen[-1] = len(draws) - expected.sum(), len(draws) - seen.sum()
    many = expected > 20
    surplus = ((seen - expected)[many] ** 2 / expected[many]).sum()
    return stats.chi2(many.sum()).sf(surplus) > FALSE_ALARM


@pytest.mark.parametrize("scale", [0.4, 1.37, 9.0])
def test_noise_is_discrete_laplace_of_its_scale(scale):
    rows = np.full((1, 20_000), 5)
    draws = noise.discrete_laplace_rows(rows, np.full((1, 1), scale)).ravel() - 5
    assert looks_discrete(draws, scale)
    assert not looks_discrete(draws, 0.8 * scale)
    assert not looks_discrete(draws, 1.25 * scale)


@pytest.mark.parametrize(
    ("b", "saved"), [(0.3, 0.015), (0.7, 0.08), (0.73, 0.08), (1.88, 0.41), (1.9, 0.419)]
)
def test_how_much_smaller_than_laplace_noise(b, saved):
    """By the sum that defines it, and against the scale, the mean size of Laplace noise."""
    size = expected_size(1 / b, ONE)
    assert size == pytest.approx(sum(2 * n * mass(n, b) for n in range(1, 400)), rel=1e-12)
    assert size == pytest.approx(1 / sinh(b))
    assert 1 - size * b == pytest.approx(saved, abs=0.006)
    for unit in (Fraction(1, 7), Fraction(5)):
        assert expected_size(float(unit) / b, unit) == pytest.approx(float(unit) * size)
    assert expected_size(1e-9, ONE) == 0
    assert expected_size(1 / b) == 1 / b


@pytest.mark.parametrize("b", [0.01, 1.0, 9.0, 800.0])
@pytest.mark.parametrize("level", [0.2, 0.95, 0.999])
@pytest.mark.parametrize("count", [1, 5])
def test_intervals_hold_at_least_their_level_and_no_shorter_one_does(b, level, count):
    m = half_width(1 / b, level, count, ONE)
    assert m == round(m)

    def inside(reach: int) -> float:
        return sum(mass(n, b) for n in range(-reach, reach + 1)) ** count

    assert inside(int(m)) >= level * (1 - 1e-12)
    assert m == 0 or inside(int(m) - 1) < level


def test_ends_of_an_interval_are_floats_of_possible_answers():
    unit = Fraction(1, 49)
    for at, exact in product(range(-3, 60), range(49)):
        low, high = interval_around(float(at * unit), 0.05, 0.9, 1, unit)
        reach = round(half_width(0.05, 0.9, 1, unit) * 49)
        assert (low <= float(exact * unit) <= high) == (abs(at - exact) <= reach)


# --- which answers -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "unit"),
    [
        (pk.count("a", 7), 1),
        (pk.histogram(ABC, 7), 1),
        (pk.relative_frequencies(ABC, [7, 5]), Fraction(1, 12)),
        (pk.total({"a": 0, "b": 2, "c": 6}, 7), 2),
        (pk.total({"a": 0, "b": 0.2, "c": 0.25}, 7), Fraction(1, 20)),
        (pk.total({"a": -3, "b": 3}, 7), 3),
        (pk.mean({"a": 0, "b": 2, "c": 5}, 6), Fraction(1, 6)),
        (pk.transition_counts(["a", "b"], 7), 1),
        (pk.Query("own", len, 1, 7), None),
        (pk.Query("own", len, 1, 7, unit=1), 1),
    ],
)
def test_every_answer_is_a_whole_number_of_units(query, unit):
    assert query.unit == unit
    weights = [w for row in (query.weights or {}).values() for w in row]
    assert all((weight / query.unit).denominator == 1 for weight in weights)


def test_a_query_that_breaks_its_word_is_refused():
    half = pk.Query("half", lambda entries: len(entries) / 2, 1, 3, unit=1)
    with pytest.raises(ValueError, match="not a whole multiple of 1"):
        pk.entry_dp(half, 1).release(["a", "b", "b"])
    with pytest.raises(ValueError, match=r"^unit: must be above 0"):
        pk.Query("own", len, 1, 7, unit=0)
    with pytest.raises(ValueError, match=r"^unit: follows from the weights"):
        pk.Query("own", len, 1, 7, weights={0: (Fraction(1),)}, unit=1)


CHAIN = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])


def test_counts_come_out_whole_and_shares_are_whole_counts_over_entries():
    counted = pk.influence_curve(CHAIN, pk.count(1, 30), 2).release([0, 0, 1] * 10)
    assert counted.noise == "discrete laplace"
    assert all(isinstance(value, int) for value in counted.value)
    shares = pk.influence_curve(CHAIN, pk.relative_frequencies([0, 1], 30), 2)
    drawn = shares.release([0, 0, 1] * 10)
    assert drawn.unit == Fraction(1, 30)
    assert all(value == round(30 * value) / 30 for value in drawn.raw)
    counts = pk.influence_curve(CHAIN, pk.histogram([0, 1], 30), 2)
    assert shares.expected_l1_error == pytest.approx(counts.expected_l1_error / 30, rel=1e-9)
    assert shares.half_width() == pytest.approx(counts.half_width() / 30)
    # Nothing is paid for a grid.
    assert counted.scale == pk.influence_curve(CHAIN, pk.count(1, 30), 2).scale
    own = pk.Query("own", lambda entries: float(sum(entries)), 1, 30)
    released = pk.influence_curve(CHAIN, own, 2).release([0, 0, 1] * 10)
    assert released.noise == "laplace"
    assert released.scale > pk.influence_curve(CHAIN, own, 2).scale


# --- the guarantee, by the definition ----------------------------------------------------------


CASES = [
    ([[0.9, 0.1], [0.4, 0.6]], [[0], [1]], 5),
    ([[0.1, 0.9], [0.9, 0.1]], [[0], [1]], 6),
    ([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5], [0.0, 0.6, 0.4]], [[0], [1], [3]], 5),
    ([[0.7, 0.3, 0.0], [0.0, 0.6, 0.4], [0.5, 0.0, 0.5]], [[1, 0, 0], [0, 1, 0], [0, 0, 1]], 4),
    (
        [[0.6, 0.4, 0, 0], [0.1, 0.5, 0.4, 0], [0, 0.2, 0.5, 0.3], [0, 0, 0.5, 0.5]],
        [[0], [1], [1], [2]],
        4,
    ),
]


@pytest.mark.parametrize(("transition", "weights", "length"), CASES)
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_no_output_of_discrete_noise_tells_more_than_epsilon(transition, weights, length, epsilon):
    """Every mechanism, entry, pair of values and output, from the start and in steady state."""
    size = len(transition)
    states = list(range(size))
    if len(weights[0]) > 1:
        query = pk.histogram(states, length)
    else:
        query = pk.total([row[0] for row in weights], length)
    for chain in (
        pk.MarkovChain.steady(transition),
        pk.MarkovChain([1 / size] * size, transition),
    ):
        losses = {}
        for row in pk.plan(chain, query, epsilon).entries:
            if not row.pufferfish:
                continue
            assert row.calibration.unit == 1
            scales = row.calibration.scales or [row.calibration.scale] * query.size
            worst = largest_loss(chain.initial, transition, weights, scales, length)
            assert worst <= epsilon * (1 + 1e-9), row.mechanism
            losses[row.mechanism] = worst
        if "exact_sum" in losses:
            assert losses["exact_sum"] >= 0.99 * epsilon


def test_the_loss_of_discrete_noise_is_that_of_laplace_noise_on_whole_answers():
    """So the exact loss of an audit, which compares densities, speaks of discrete noise too."""
    noisy = pk.influence_curve(CHAIN, pk.count(1, 5), 2)
    by_masses = largest_loss(CHAIN.initial, CHAIN.transition, [[0], [1]], [noisy.scale], 5)
    assert pk.audit.exact_loss(noisy) == pytest.approx(by_masses, rel=1e-12)
    assert by_masses <= 2


# --- records -----------------------------------------------------------------------------------


def test_a_record_says_which_noise_and_verify_knows_it():
    from dataclasses import replace

    answer = pk.influence_curve(CHAIN, pk.relative_frequencies([0, 1], 30), 2).release([0, 1] * 15)
    again = pk.Release.from_json(answer.to_json())
    assert again == answer
    assert again.to_dict()["unit"] == "1/30"
    assert pk.verify(again).ok
    for change, said in [
        ({"unit": Fraction(1, 15)}, "unit: entries do not add whole multiples"),
        ({"unit": None}, "unit: discrete noise has one"),
        ({"noise": "laplace"}, "unit: discrete noise has one"),
        ({"raw": (0.51, 0.48)}, "raw: discrete noise leaves whole multiples"),
    ]:
        verdict = pk.verify(replace(answer, **change))
        assert not verdict.ok
        assert any(said in problem for problem in verdict.problems), (change, verdict)
    record = answer.to_dict()
    for bad in ("0", "x", 3, "-1/2"):
        with pytest.raises(ValueError, match="unit must be"):
            pk.Release.from_dict({**record, "unit": bad})
    with pytest.raises(ValueError, match="noise must be one of"):
        pk.Release.from_dict({**record, "noise": "gaussian"})
    for name in ("noise", "unit"):
        with pytest.raises(ValueError, match=f"{name} must be given"):
            pk.Release.from_dict({key: value for key, value in record.items() if key != name})
