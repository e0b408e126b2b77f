"""The least Laplace noise on one sum that hides a label: by the distributions given each label.

A label is what an event says of a window of a chain, such as whether a state took more than 30% of
a week. With P_a(s) = P(sum = s | label a), Laplace noise of scale b gives the output w the density,
up to a factor that is the same for all labels,

    D_a(w) = sum over s of P_a(s) e^(-|w - s| / b),

and the loss is the largest log D_a(w) / D_c(w). Between two values of the sum each D is A e^(-w/b)
+ C e^(w/b), so a ratio of two is monotone there, and beyond the ends it is constant: w need only
run over the values of the sum, also for discrete noise. Laplace noise of a larger scale is noise of
a smaller one and something independent, so the loss never grows with the scale.

Secrets: any two labels of one window, for each window given. Beliefs: those whose distributions are
given. Releases: this sum and nothing else. Only non-negative numbers are added and multiplied, so
relative errors stay small, and they are added to the loss. Shares that underflow are below 1e-299
in all; a likelihood below 1e-280 counts as infinite loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, inf, log, sqrt

import numpy as np

from pufferkit.checks import Floats
from pufferkit.errors import NotApplicable
from pufferkit.influence.sums.lattice import BLOCK, Masses
from pufferkit.rounding import EPS
from pufferkit.threads import one_thread

_TRUSTED = 1e-280
_PRECISION = 1e-6
_MOST_HALVINGS = 60


def label_shares(rows: Masses) -> Floats:
    """P(sum = s | label), a row for each label that is possible."""
    if rows.lost:
        raise NotApplicable(
            "the probability of some sums underflows; use a shorter series, or beliefs without "
            "transitions of tiny probability"
        )
    chosen = rows.chosen(rows.possible)
    if chosen.exponents is None:
        return np.asarray(chosen.numbers / chosen.numbers.sum(axis=1, keepdims=True))
    shift = chosen.exponents - chosen.exponents.max(axis=1, keepdims=True)
    twos = np.maximum(np.repeat(shift, BLOCK, axis=1), -1060)
    numbers = np.ldexp(chosen.numbers, twos)
    return np.asarray(numbers / numbers.sum(axis=1, keepdims=True))


@one_thread()
def least_label_scale(
    windows: Sequence[Floats], epsilon: float, error: float
) -> tuple[float, int] | None:
    """The least scale at which no two labels of a window are told apart by more than epsilon.

    Theorem: [Q] Definition 2.1 for labels of windows, one sum with Laplace noise.

    Parameters
    ----------
    windows
        For each window the shares of its labels, from `label_shares`, over the sums 0, 1, ...
    epsilon
        The most loss.
    error
        Bound on the relative error of a share.

    Returns
    -------
    tuple
        The scale, which was itself checked, in units of the sum, and the window that decides,
        counted from 1; ``None`` if hardly any noise is needed.
    """
    worst: tuple[float, int] | None = None
    for place, shares in enumerate(windows, 1):
        if len(shares) < 2 or (worst and label_loss(shares, worst[0], error) <= epsilon):
            continue
        good = (shares.shape[1] - 1) / epsilon * (1 + 1e-6) + 1e-9
        if label_loss(shares, good, error) > epsilon:
            raise NotApplicable(
                f"epsilon {epsilon:g} is below the rounding error; use a larger one"
            )
        bad = good
        for _ in range(_MOST_HALVINGS):
            bad /= 2
            if label_loss(shares, bad, error) > epsilon:
                break
            good = bad
        else:
            continue
        while good > bad * (1 + _PRECISION):
            middle = sqrt(good * bad)
            if label_loss(shares, middle, error) <= epsilon:
                good = middle
            else:
                bad = middle
        worst = good, place
    return worst


def label_loss(shares: Floats, scale: float, error: float) -> float:
    """The largest loss of a label under noise of a scale; never too small."""
    from scipy.signal import lfilter  # noqa: PLC0415  (slow to load)

    fall, room = exp(-1 / scale), int(shares.shape[1])
    below = lfilter([1.0], [1.0, -fall], shares, axis=1)
    above = lfilter([0.0, fall], [1.0, -fall], shares[:, ::-1], axis=1)[:, ::-1]
    likely = below + above
    least = float(likely.min())
    if not least >= _TRUSTED:
        return inf
    slack = 2 * (2 * error + EPS * (4 * room * (1 + 1 / scale) + 400))
    apart = np.log(likely.max(axis=0)) - np.log(likely.min(axis=0))
    return float(float(apart.max()) + slack + 8 * EPS * abs(log(least)))
