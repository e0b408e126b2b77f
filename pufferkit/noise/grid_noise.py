"""Laplace noise on the grid of multiples of 2^k, for answers that have no unit.

The scale pays for the grid. Rounding n coordinates to multiples of 2^k can move two answers apart
by n 2^k, so an L-Lipschitz query becomes (L + n 2^k)-Lipschitz, and the scale is raised in that
proportion. With n 2^k at most L / 2^30 that is one part in 10^9. Very long series need a coarser
grid, because an answer must stay a whole number of steps that a float can hold.

The noise is discrete Laplace noise on the answer, both counted in steps of the grid. The sum
is released as the nearest float: post-processing, which costs nothing.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from pufferkit import checks
from pufferkit.noise import opendp_draws
from pufferkit.noise.exact_laplace import DiscreteLaplace
from pufferkit.noise.whole_noise import Sampler, sampler_of
from pufferkit.rounding import round_up

GRID_SHARE = 2.0**-30
"""Largest share of the Lipschitz constant that the grid may cost."""

_MOST = sys.float_info.max
_MOST_DIGITS = 52


def grid_exponent(lipschitz: float, size: int, largest: float | None = None) -> int:
    """The k of the grid: fine against the Lipschitz constant, coarse enough for the answer.

    Parameters
    ----------
    lipschitz, size
        Lipschitz constant and number of coordinates of the query. Over all coordinates, the grid
        may cost ``GRID_SHARE`` of the constant.
    largest
        Public bound on the size of a coordinate of the answer, if there is one.
    """
    k = math.floor(math.log2(checks.positive("lipschitz", lipschitz) * GRID_SHARE / size))
    if largest:
        k = max(k, math.ceil(math.log2(largest)) + 1 - _MOST_DIGITS)
    return k


def paid_scale(scale: float, lipschitz: float, size: int, largest: float | None = None) -> float:
    """The scale that pays for the grid as well, rounded up."""
    grid = size * 2.0 ** grid_exponent(lipschitz, size, largest)
    return round_up(checks.positive("scale", scale) * (1 + grid / lipschitz))


def grid_sampler(
    scale: float, lipschitz: float, size: int, largest: float | None = None
) -> Sampler:
    """The sampler of Laplace noise for a release of ``size`` numbers."""
    step = Fraction(2) ** grid_exponent(lipschitz, size, largest)
    return sampler_of(Fraction(paid_scale(scale, lipschitz, size, largest)) / step, size)


def laplace(
    answers: Sequence[Sequence[Fraction]],
    which: Sequence[int],
    scale: float,
    lipschitz: float,
    largest: float | None = None,
) -> list[float]:
    """Many releases at once: Laplace noise of the scale `paid_scale` on every number.

    Release n adds noise to ``answers[which[n]]``. All noise is independent; the releases share one
    call of the sampler, because a call is slow and a draw is not.

    Parameters
    ----------
    answers, which
        The exact answers, which are rounded to the grid without further error, and the index of the
        answer that each release is about.
    scale
        The scale that the theorem demands for a query of this Lipschitz constant.
    lipschitz
        L1 change of the whole answer when one entry changes.
    largest
        Public bound on the size of a number, if there is one.
    """
    size = len(answers[0])
    if size == 0:
        raise ValueError("exact: must contain at least one number to add noise to")
    paid = paid_scale(scale, lipschitz, size, largest)
    k = grid_exponent(lipschitz, size, largest)
    in_steps = [_steps(exact, k, scale) for exact in answers]
    flat = [steps for n in which for steps in in_steps[n]]
    if grid_sampler(scale, lipschitz, size, largest) == "pufferkit":
        step = Fraction(2) ** k
        charge = (Fraction(lipschitz) + size * step) / Fraction(paid)
        if charge > Fraction(lipschitz) / Fraction(scale):
            raise RuntimeError(
                f"noise: scale {paid!r} does not pay for its grid; nothing was released"
            )
        noisy = DiscreteLaplace.of(Fraction(paid) / step).on(np.array(flat, dtype=np.int64))
        with np.errstate(over="ignore", under="ignore"):
            drawn = np.ldexp(noisy.astype(np.float64), k)
    else:
        made = opendp_draws.grid_measurement(size, paid, k, lipschitz)
        if len(which) > 1:  # the same noise on a longer vector
            longer, _ = opendp_draws.grid_measurement(size * len(which), paid, k, lipschitz)
            made = longer, made[1]
        exact = [math.ldexp(steps, k) for steps in flat]
        drawn = np.array(opendp_draws.drawn(made, lipschitz / scale, exact), dtype=np.float64)
    # A value beyond the largest float becomes that float: post-processing, which costs nothing.
    rounded: list[float] = np.clip(drawn, -_MOST, _MOST).tolist()
    return rounded


def _steps(exact: Sequence[Fraction], k: int, scale: float) -> list[int]:
    """The nearest numbers of steps of 2^k; the error message must not reveal the answer."""
    finer, coarser = max(-k, 0), max(k, 0)
    steps = [_nearest(value.numerator << finer, value.denominator << coarser) for value in exact]
    if any(own.bit_length() > _MOST_DIGITS for own in steps):
        raise ValueError(
            f"answer: is too large for noise of scale {scale:g} on its grid; subtract a "
            "public constant in the query"
        )
    return steps


def _nearest(top: int, bottom: int) -> int:
    """The integer nearest to a fraction, ties to even, as `round` gives it."""
    whole, rest = divmod(top, bottom)
    return whole + (2 * rest > bottom - (whole & 1))
