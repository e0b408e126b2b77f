"""A noisy choice, for quantiles.

Exponential noise on each candidate's score; only the place of the largest noisy score is released
(permute-and-flip, which never errs more than the exponential mechanism: McKenna and Sheldon 2020).
Moving every score by at most d moves the log-likelihood of every choice by at most 2 d / scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from pufferkit import checks
from pufferkit.noise import opendp_draws
from pufferkit.rounding import at_least


def noisy_choice(scores: Sequence[int], scale: float, step: int = 1) -> int:
    """The place of the largest score after exponential noise on each; permute-and-flip.

    Parameters
    ----------
    scores
        Whole numbers, in units of 1 / ``step``.
    scale
        Scale of the noise on a score, not in that unit. Scores that move by at most 1 move the
        log-likelihood of the choice by at most 2 / ``scale``.
    step
        Number of units in 1.
    """
    wanted = at_least(Fraction(checks.positive("scale", scale)) * step)
    if len(scores) < 2 or any(abs(score) >= 2**62 for score in scores):
        raise ValueError("scores: must be two or more whole numbers of at most 62 bits")
    made = opendp_draws.choice_measurement(wanted, step)
    return int(opendp_draws.drawn(made, 2 / scale, [int(score) for score in scores]))
