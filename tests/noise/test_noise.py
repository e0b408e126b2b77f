"""Noise: the right distribution, on a grid that is paid for, and nothing else let through.

Draws cannot be seeded. Every statistical test here accepts the true scale with a false-alarm rate
under 1e-9 and rejects 0.8 and 1.25 of it.
"""

import subprocess
import sys
from fractions import Fraction
from math import inf, nan, sqrt

import numpy as np
import pytest
from scipy import stats

from pufferkit import noise

DRAWS = 20_000
FALSE_ALARM = 1e-10


def draw(scale=1.0, lipschitz=1.0, largest=None, centre=0, count=DRAWS):
    """Noise alone, over the scale it should have. Many coordinates make one draw quick."""
    noisy = noise.laplace([[Fraction(centre)] * count], [0], scale, lipschitz * count, largest)
    return (np.array(noisy) - float(centre)) / scale


def one(answer, *more):
    return noise.laplace([[answer]], [0], *more)[0]


def looks_laplace(draws: np.ndarray, scale: float) -> bool:
    """Kolmogorov's test of the distribution, and one of the mean of |x|, both at FALSE_ALARM."""
    whole = stats.kstest(draws, stats.laplace(scale=scale).cdf).pvalue
    # The sum of n exponentials of mean `scale` is Gamma(n).
    size = stats.gamma(len(draws), scale=scale).cdf(np.abs(draws).sum())
    return whole > FALSE_ALARM / 2 and FALSE_ALARM / 4 < size < 1 - FALSE_ALARM / 4


@pytest.mark.parametrize("scale", [0.01, 1.0, 12.93405, 3.7e6])
def test_noise_is_laplace_of_its_scale(scale):
    draws = draw(scale)
    assert looks_laplace(draws, 1)
    assert not looks_laplace(draws, 0.8)
    assert not looks_laplace(draws, 1.25)


def test_noise_stays_around_the_answer():
    assert looks_laplace(draw(2.0, centre=Fraction(1, 3)), 1)
    assert looks_laplace(draw(2.0, centre=10**7, largest=10**7), 1)


def test_coordinates_are_independent():
    draws = draw(1.0).reshape(2, -1)
    correlation = np.corrcoef(np.sign(draws))[0, 1]
    assert abs(correlation) < 7 / sqrt(draws.shape[1])
    assert abs(np.corrcoef(np.abs(draws))[0, 1]) < 9 / sqrt(draws.shape[1])


def test_every_call_draws_anew():
    assert len(set(draw(count=500))) > 490
    assert one(Fraction(0), 1, 1) != one(Fraction(0), 1, 1)


# --- the grid -------------------------------------------------------------------------------------


@pytest.mark.parametrize("lipschitz", [2.0, 1 / 3, 7e-9, 1e6])
@pytest.mark.parametrize("size", [1, 51])
@pytest.mark.parametrize("largest", [None, 1.0, 1e7])
def test_outputs_lie_on_the_grid_and_the_grid_is_paid_for(lipschitz, size, largest):
    largest = largest and largest * lipschitz
    scale = 3 * lipschitz
    step = Fraction(2) ** noise.grid_exponent(lipschitz, size, largest)
    answer = [Fraction(1, 3) * Fraction(lipschitz)] * size
    noisy = noise.laplace([answer], [0], scale, lipschitz, largest)
    assert all((Fraction(value) / step).denominator == 1 for value in noisy)
    # Two answers L apart are at most L + n 2^k apart on the grid.
    paid = Fraction(scale) * (1 + size * step / Fraction(lipschitz))
    drawn = noise.paid_scale(scale, lipschitz, size, largest)
    assert Fraction(drawn) >= paid
    assert drawn == pytest.approx(float(paid), rel=1e-14)
    assert drawn <= scale * (1 + 1e-6)


def test_rounding_to_the_grid_is_to_the_nearest_step():
    step = 2.0 ** noise.grid_exponent(1, 1)
    tiny = [one(Fraction(step) * Fraction(100.4), 1e-15, 1) / step for _ in range(20)]
    assert set(tiny) == {100}


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [nan, inf, -inf, 0, 0.0, -1, None, "1x"])
def test_bad_scale(scale):
    with pytest.raises(ValueError, match="scale"):
        one(Fraction(1), scale, 1.0)


@pytest.mark.parametrize("lipschitz", [nan, inf, 0, -1, None])
def test_bad_lipschitz(lipschitz):
    with pytest.raises(ValueError, match="lipschitz"):
        one(Fraction(1), 1.0, lipschitz)


def test_no_numbers():
    with pytest.raises(ValueError, match="must contain at least one number"):
        noise.laplace([[]], [0], 1.0, 1.0)


@pytest.mark.parametrize("largest", [nan, inf, -1])
def test_bad_largest(largest):
    with pytest.raises((ValueError, OverflowError)):
        one(Fraction(1), 1.0, 1.0, largest)


@pytest.mark.parametrize(
    ("scale", "lipschitz"),
    [(1e-300, 1.0), (1e300, 1.0), (1.0, 1e-300), (1.0, 1e300), (1e308, 1e308)],
)
def test_extreme_scales_are_served_or_refused_but_never_wrong(scale, lipschitz):
    try:
        noisy = one(Fraction(1), scale, lipschitz)
    except (ValueError, OverflowError):
        return
    assert noise.paid_scale(scale, lipschitz, 1) >= scale
    assert np.isfinite(noisy)


def test_an_answer_too_large_for_its_grid_is_not_told():
    """The message must not carry the exact answer out of the process."""
    secret = 123456789012345678901234567890
    with pytest.raises(ValueError, match="too large") as refusal:
        one(Fraction(secret), 1.0, 1.0)
    assert "123456" not in str(refusal.value)
    assert "1.23457e+29" not in str(refusal.value)


def test_drawing_loads_no_other_library_of_the_field():
    code = (
        "import sys\nfrom fractions import Fraction\nfrom pufferkit import noise\n"
        "noise.laplace([[Fraction(1)]], [0], 1.0, 1.0, 1.0)\n"
        "print(*{'sklearn', 'polars', 'pandas'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
