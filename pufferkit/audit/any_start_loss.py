"""The exact loss over every start.

For one output w and two values a, a' of entry i the odds o of the start (one state against another)
enter as

    f(o) = (n_0 + n_1 o) (m'_0 + m'_1 o) / ((m_0 + m_1 o) (n'_0 + n'_1 o)),

with m_x = P(X_i = a | X_1 = x), n_x the same times the density of w given both, and primes for a'.
The derivative of log f vanishes at the roots of a quadratic (the cubic terms cancel), so f is
largest there or at a sure start. Outputs are those of `pufferkit.audit.exact_loss`: for every start
the ratio is largest at a centre.

No start needs more than two states. With weights v_x of the start, f is

    (sum n_x v_x) (sum m'_x v_x) / ((sum m_x v_x) (sum n'_x v_x)),

the same for all multiples of v. With the first and the last of these sums fixed, the rest is a
ratio of linear functions, which is largest at a vertex, and a vertex under two equations has at
most two weights above 0.
"""

from __future__ import annotations

import numpy as np

from pufferkit.checks import Floats
from pufferkit.errors import NotApplicable

_FAR, _WIDEST = 1e60, 600.0


def largest_ratios(
    one: Floats, other: Floats, mass: Floats, other_mass: Floats
) -> tuple[Floats, Floats]:
    """Largest log f over the odds of the start, and these odds, for each output.

    Parameters
    ----------
    one, other
        Logarithms of (n_0, n_1) and (n'_0, n'_1), a column for each output.
    mass, other_mass
        (m_0, m_1) and (m'_0, m'_1).
    """
    top, low = one.max(axis=0), other.max(axis=0)
    if (top == -np.inf).any() or (low == -np.inf).any():
        # One of the two values cannot happen, whatever the start.
        return np.full(one.shape[1], -np.inf), np.ones(one.shape[1])
    for pair in (one, other):
        if np.isfinite(pair).all() and (np.abs(pair[0] - pair[1]) > _WIDEST).any():
            raise NotApplicable("the noise is too small for an exact comparison of all starts")
    up = (np.exp(one - top), np.broadcast_to(other_mass[:, None], one.shape))
    down = (np.broadcast_to(mass[:, None], one.shape), np.exp(other - low))
    best = np.full(one.shape[1], -np.inf)
    where = np.ones(one.shape[1])
    for odds in _candidates((*up, *down)):
        # A start at which a value cannot happen is a limit; an odd a little off it stands for it.
        parts = [np.log(pair[0] + pair[1] * odds) for pair in (*up, *down)]
        value = parts[0] + parts[1] - parts[2] - parts[3] + top - low
        better = value > best
        best, where = np.where(better, value, best), np.where(better, odds, where)
    return best, where


def _candidates(factors: tuple[Floats, ...]) -> list[Floats]:
    """Sure starts, and where the derivative vanishes; a sure start stands where it does not."""
    slope = [np.zeros(factors[0].shape[1]) for _ in range(3)]
    for n, sign in enumerate((1, 1, -1, -1)):
        (a, b), (c, d), (e, f) = (pair for k, pair in enumerate(factors) if k != n)
        own = sign * factors[n][1]
        slope[0] += own * a * c * e
        slope[1] += own * (b * c * e + a * d * e + a * c * f)
        slope[2] += own * (b * d * e + b * c * f + a * d * f)
    c0, c1, c2 = slope
    ends = [np.full_like(c0, 1 / _FAR), np.full_like(c0, _FAR)]
    with np.errstate(all="ignore"):
        half = -(c1 + np.copysign(np.sqrt(np.maximum(c1 * c1 - 4 * c2 * c0, 0.0)), c1)) / 2
        roots = [half / c2, c0 / half]
        return ends + [
            np.where((root > 1 / _FAR) & (root < _FAR), root, 1 / _FAR) for root in roots
        ]
