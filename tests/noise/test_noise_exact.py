"""Noise: all that can be checked to the last digit, with a sampler or random words of our own."""

import sys
from fractions import Fraction
from math import inf

import numpy as np
import pytest

from pufferkit import noise
from pufferkit.noise import grid_noise, opendp_draws, randomised_response, whole_noise
from pufferkit.rounding import round_up

WORD = 2**64


@pytest.fixture
def sampler(monkeypatch):
    """A sampler that adds nothing, charges what OpenDP does, and remembers what it was asked."""
    asked = []

    def measurement(size, scale, k, lipschitz):
        asked.append((size, scale, k, lipschitz))
        return list, (lipschitz + size * 2.0**k) / scale

    monkeypatch.setattr(opendp_draws, "grid_measurement", measurement)
    return asked


# --- the grid -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lipschitz", "size", "largest", "k"),
    [
        (1, 1, None, -30),
        (2, 1, None, -29),
        (3, 1, None, -29),
        (1, 2, None, -31),
        (1, 3, None, -32),
        (1, 1, 0, -30),
        (1, 1, 1.0, -30),
        (1, 1, 2.0**21, -30),
        (1, 1, 2.0**22, -29),
        (1, 1, 2.0**22 + 1, -28),
        (4, 1, 2.0**22, -28),
    ],
)
def test_the_grid_is_the_finest_that_holds_the_answer(lipschitz, size, largest, k):
    assert noise.grid_exponent(lipschitz, size, largest) == k
    paid = Fraction(5) * (1 + size * Fraction(2) ** k / lipschitz)
    assert paid <= noise.paid_scale(5, lipschitz, size, largest) <= round_up(float(paid), 8)


def test_the_largest_number_of_steps_has_52_digits():
    step = Fraction(2) ** -30
    assert grid_noise._steps([(2**52 - 1) * step, 0 * step], -30, 1.0) == [2**52 - 1, 0]
    with pytest.raises(ValueError, match="too large"):
        grid_noise._steps([0 * step, 2**52 * step], -30, 1.0)


@pytest.mark.parametrize("k", [-30, -1, 0, 3])
def test_answers_are_rounded_to_the_nearest_step_and_halves_to_the_even_one(k):
    step = Fraction(2) ** k
    values = [Fraction(n, d) for n in range(-40, 41) for d in (1, 2, 3, 4, 7, 16)]
    values += [(n + Fraction(1, 2)) * step for n in range(-5, 5)]
    assert grid_noise._steps(values, k, 1.0) == [round(value / step) for value in values]


# --- many at once ---------------------------------------------------------------------------------


def test_one_release_asks_the_sampler_once(sampler):
    assert noise.laplace([[Fraction(1), Fraction(2)]], [0], 3.0, 1.0, 8.0) == [1.0, 2.0]
    assert sampler == [(2, noise.paid_scale(3.0, 1.0, 2, 8.0), -31, 1.0)]


def test_many_releases_are_one_long_vector_in_their_order(sampler):
    answers = [[Fraction(1), Fraction(2)], [Fraction(3), Fraction(4)]]
    assert noise.laplace(answers, [1, 0, 1], 3.0, 1.0, 2.0**30) == [3, 4, 1, 2, 3, 4]
    paid = noise.paid_scale(3.0, 1.0, 2, 2.0**30)
    assert sampler == [(2, paid, -21, 1.0), (6, paid, -21, 1.0)]


def test_a_draw_beyond_the_largest_float_is_that_float(monkeypatch):
    most = sys.float_info.max
    made = (lambda _: [inf, -inf, 1.0]), 0.0
    monkeypatch.setattr(opendp_draws, "grid_measurement", lambda *_: made)
    assert noise.laplace([[Fraction(0)] * 3], [0], 1.0, 1.0) == [most, -most, 1.0]


@pytest.mark.parametrize("discrete", [False, True])
def test_a_sampler_that_charges_too_much_releases_nothing(monkeypatch, discrete):
    """The most it may charge is what was asked for, to a few units in the last place."""

    def release():
        if discrete:
            return [noise.discrete_laplace([[Fraction(1)]], [0], [2.0], Fraction(1))]
        return [noise.laplace([[Fraction(1)]], [0], 4.0, 2.0)]

    charged = []
    for door in ("grid_measurement", "whole_measurement"):
        monkeypatch.setattr(opendp_draws, door, lambda *_: (list, charged[-1]))
    charged.append(round_up(0.5))
    assert release() == [[1.0]]
    charged.append(round_up(0.5, 5))
    with pytest.raises(RuntimeError, match="nothing was released"):
        release()


@pytest.fixture
def whole_sampler(monkeypatch):
    """The same for whole numbers."""
    asked = []

    def measurement(size, scale):
        asked.append((size, scale))
        return list, 1 / scale

    monkeypatch.setattr(opendp_draws, "whole_measurement", measurement)
    monkeypatch.setenv("PUFFERKIT_SAMPLER", "opendp")
    return asked


def test_rows_have_scales_of_their_own(whole_sampler, monkeypatch):
    monkeypatch.setattr(whole_noise, "_AT_ONCE", 4)
    rows = np.array([[1, 2], [3, 4], [5, 6], [-7, 8]])
    noisy = noise.discrete_laplace_rows(rows, np.array([2.0, 1.0, 2.0, 2.0])[:, None])
    assert noisy.tolist() == rows.tolist()
    assert noisy.dtype == np.int64
    assert whole_sampler == [(2, 1.0), (4, 2.0), (2, 2.0)]
    whole_sampler.clear()
    each = noise.discrete_laplace_rows(rows[:2], np.array([[2.0, 1.0], [1.0, 3.0]]))
    assert each.tolist() == rows[:2].tolist()
    assert whole_sampler == [(2, 1.0), (1, 2.0), (1, 3.0)]


def test_discrete_noise_is_drawn_in_units_and_never_with_less_scale(whole_sampler):
    third = Fraction(1, 3)
    answers = [[third, 2 * third], [Fraction(7), Fraction(0)]]
    assert noise.discrete_laplace(answers, [1, 0], [0.1, 0.5], third) == [7, 0, 1 / 3, 2 / 3]
    assert [size for size, _ in whole_sampler] == [2, 2]
    for (_, drawn), wanted in zip(whole_sampler, (0.1, 0.5), strict=True):
        assert 0 <= Fraction(drawn) - 3 * Fraction(wanted) < Fraction(2) ** -50
    whole = noise.discrete_laplace([[Fraction(6)]], [0], [5.0], Fraction(2))
    assert whole == [6]
    assert isinstance(whole[0], int)
    assert whole_sampler[-1] == (1, 2.5)


def test_answers_off_the_lattice_are_refused_and_not_told():
    for answer in (Fraction(123456789, 2), Fraction(2**60 * 123456789)):
        with pytest.raises(ValueError, match=r"^answer: ") as refusal:
            noise.discrete_laplace([[answer]], [0], [1.0], Fraction(1))
        assert "123456" not in str(refusal.value)
    with pytest.raises(ValueError, match="must contain at least one number"):
        noise.discrete_laplace([[]], [0], [], Fraction(1))


@pytest.mark.parametrize(
    ("unit", "scale", "largest", "discrete"),
    [
        (None, 1.0, 1.0, False),
        (Fraction(1), 2.0**40, 1.0, True),
        (Fraction(1), 2.0**40 * 1.01, 1.0, False),
        (Fraction(1), 1.0, 2.0**50, True),
        (Fraction(1), 1.0, 2.0**50 * 1.01, False),
        (Fraction(1), 1.0, None, True),
        (Fraction(1, 10**15), 1.0, 1.0, False),
        (Fraction(1, 10**9), 1.0, 1e5, True),
    ],
)
def test_which_answers_get_discrete_noise(unit, scale, largest, discrete):
    assert noise.is_discrete(unit, scale, largest) is discrete


@pytest.mark.parametrize(
    ("rows", "scales", "problem"),
    [
        (np.array([1, 2]), np.ones(2), "^rows: must be a table"),
        (np.empty((0, 2), dtype=int), np.ones(0), "^rows: must be a table"),
        (np.array([[1.0]]), np.ones(1), "^rows: must be a table"),
        (np.array([[1], [2]]), np.ones(1), "^scales: must be one for each number"),
        (np.array([[1, 1], [2, 2]]), np.ones(2), "^scales: "),
    ],
)
def test_what_rows_refuse(rows, scales, problem):
    with pytest.raises(ValueError, match=problem):
        noise.discrete_laplace_rows(rows, scales)


# --- randomised response --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rho", "states", "threshold"),
    [
        (0.0, 2, 0),
        (0.5, 2, 2**63),
        (0.25, 3, 2**62),
        (1e-30, 2, 1),
        (2.0**-64, 2, 1),
        (3 * 2.0**-65, 2, 2),
        (1 / 3, 3, WORD // 3 - 341),
        (0.4, 3, WORD // 3),
    ],
)
def test_thresholds_are_rounded_up_and_never_pass_a_fair_share(rho, states, threshold):
    assert noise.flip_threshold(rho, states) == threshold


def words_from(monkeypatch, words):
    """Let the operating system give these words, in order, and no more.

    Of two states the first byte is asked for alone, and the others only where it does not decide.
    """
    supply, begun = iter(words), []

    def urandom(count):
        if count == 1:
            begun[:] = [next(supply)]
            return bytes([begun[0] >> 56])
        if count == 8 and begun:
            return (begun.pop() << 8 & WORD - 1).to_bytes(8, sys.byteorder)
        assert count % 8 == 0
        some = [next(supply, 0) for _ in range(count // 8)]
        return np.array(some, dtype=np.uint64).tobytes()

    monkeypatch.setattr(randomised_response.os, "urandom", urandom)


def answer(code, word, thresholds):
    """One answer by definition: the words below k - 1 thresholds, in order, go to the others."""
    states, limit = len(thresholds), thresholds[code]
    for step in range(1, states):
        if (step - 1) * limit <= word < step * limit:
            return (code + step) % states
    return code


@pytest.mark.parametrize(
    "thresholds",
    [
        [10, 20],
        [2**63, 0],
        [3 * 2**60 + 5, 2**62],
        [2**63 - 1, 2**56],
        [10, 20, 30],
        [0, 5, 0],
        [7, 1, 2, 3],
    ],
)
def test_responses_are_the_definition_word_by_word(monkeypatch, thresholds):
    near = sorted(
        {
            min(max(step * limit + slip, 0), WORD - 1)
            for limit in thresholds
            for step in range(len(thresholds) + 1)
            for slip in (-1, 0, 1)
        }
        | {WORD - 1}
    )
    codes = [code for code in range(len(thresholds)) for _ in near]
    words = near * len(thresholds)
    wanted = [answer(code, word, thresholds) for code, word in zip(codes, words, strict=True)]
    monkeypatch.setattr(randomised_response, "_CHUNK", 1 if len(thresholds) == 2 else 4)
    words_from(monkeypatch, words)
    assert noise.responses(np.array(codes), thresholds).tolist() == wanted
    words_from(monkeypatch, words)
    assert list(noise.response_stream(iter(codes), thresholds)) == wanted


def test_a_stream_answers_before_it_asks_for_more(monkeypatch):
    words_from(monkeypatch, [0, 0, 0])
    asked = []

    def codes():
        for code in (0, 1):
            asked.append(code)
            yield code

    stream = noise.response_stream(codes(), [1, 1])
    assert next(stream) == 1
    assert asked == [0]
    assert list(stream) == [0]
