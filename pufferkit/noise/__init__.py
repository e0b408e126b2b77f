"""The only place where randomness enters a release.

Noise is drawn with exact integer arithmetic, from the randomness of the operating system. A
floating-point Laplace sampler leaks: some outputs are possible under one data set only (Mironov
2012). One file for each kind:

- `whole_noise`: discrete Laplace noise on answers that are whole multiples of a unit;
- `sech`: discrete sech noise, on whole-numbered coordinates that mix bins;
- `grid_noise`: Laplace noise on all others, on a fine grid whose rounding the scale pays for;
- `opendp_draws`: a noisy choice, for quantiles, and OpenDP's Laplace noise;
- `randomised_response`: randomised answers for single entries;
- `local_answers`: answers from rows of any distribution, and flips that are a chain.

Laplace noise of both kinds comes from one of two samplers (`whole_noise`): OpenDP's or our own for
many numbers at once (`exact_laplace`, `digits`).

No random number is kept for later, so nothing can be drawn twice: a process that forks, or whose
memory is copied in another way, takes no words with it.
"""

from __future__ import annotations

from typing import Literal

from pufferkit.noise.grid_noise import grid_exponent, grid_sampler, laplace, paid_scale
from pufferkit.noise.opendp_draws import choice_cost, choice_scale, noisy_choice
from pufferkit.noise.randomised_response import WORD, flip_threshold, response_stream, responses
from pufferkit.noise.sech import LARGEST_SCALE as LARGEST_SECH
from pufferkit.noise.sech import DiscreteSech
from pufferkit.noise.whole_noise import (
    SAMPLER_NAMES,
    Sampler,
    as_shares,
    discrete_laplace,
    discrete_laplace_rows,
    is_discrete,
    whole_sampler,
)

Family = Literal["laplace", "discrete laplace", "discrete sech", "noisy choice"]
"""Laplace noise on a fine grid, discrete Laplace noise on the multiples of the answer's unit,
discrete sech noise on whole mixtures of its numbers, or exponential noise on scores, of which only
the place of the best is released."""

__all__ = [
    "LARGEST_SECH",
    "SAMPLER_NAMES",
    "WORD",
    "DiscreteSech",
    "Family",
    "Sampler",
    "as_shares",
    "choice_cost",
    "choice_scale",
    "discrete_laplace",
    "discrete_laplace_rows",
    "flip_threshold",
    "grid_exponent",
    "grid_sampler",
    "is_discrete",
    "laplace",
    "noisy_choice",
    "paid_scale",
    "response_stream",
    "responses",
    "whole_sampler",
]
