"""The exact loss over every start of a two-state chain.

For one output w and two values a, a' of entry i the odds o of the start (state 1 against state 0)
enter as

    f(o) = (n_0 + n_1 o) (m'_0 + m'_1 o) / ((m_0 + m_1 o) (n'_0 + n'_1 o)),

with m_x = P(X_i = a | X_1 = x), n_x the same times the density of w given both, and primes for a'.
The derivative of log f vanishes at the roots of a quadratic (the cubic terms cancel), so f is
largest there or at a sure start. Outputs are those of `pufferkit.audit.exact`: for every start the
ratio is largest at a centre.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from pufferkit.checks import Floats
from pufferkit.errors import NotApplicable

_FAR, _WIDEST = 1e60, 600.0


def largest_ratio(
    one: Floats, other: Floats, mass: Floats, other_mass: Floats
) -> tuple[float, float]:
    """Largest log f over the odds of the start, and these odds.

    Parameters
    ----------
    one, other
        Logarithms of (n_0, n_1) and (n'_0, n'_1).
    mass, other_mass
        (m_0, m_1) and (m'_0, m'_1).
    """
    if one.max() == -np.inf or other.max() == -np.inf:
        return -np.inf, 1.0  # one of the two values cannot happen, whatever the start
    if any(abs(pair[0] - pair[1]) > _WIDEST for pair in (one, other) if np.isfinite(pair).all()):
        raise NotApplicable("the noise is too small for an exact comparison of all starts")
    up = (np.exp(one - one.max()), other_mass)
    down = (mass, np.exp(other - other.max()))
    best, where = -np.inf, 1.0
    for odds in _candidates(up, down):
        # A start at which a value cannot happen is a limit; an odd a little off it stands for it.
        parts = [np.log(pair[0] + pair[1] * odds) for pair in (*up, *down)]
        value = float(parts[0] + parts[1] - parts[2] - parts[3] + one.max() - other.max())
        if value > best:
            best, where = value, float(odds)
    return best, where


def _candidates(up: tuple[Floats, Floats], down: tuple[Floats, Floats]) -> Iterable[float]:
    yield from (1 / _FAR, _FAR)
    slope = np.zeros(4)
    factors = [*up, *down]
    for n, (sign, own) in enumerate(zip((1, 1, -1, -1), factors, strict=True)):
        product = np.array([own[1] * sign])
        for k, pair in enumerate(factors):
            if k != n:
                product = np.polymul(product, pair[::-1])
        slope[-len(product) :] += product
    slope[0] = 0.0  # cancels
    if not slope.any():
        return
    for root in np.roots(np.trim_zeros(slope, "f")):
        if abs(root.imag) <= 1e-9 * abs(root) and 1 / _FAR < root.real < _FAR:
            yield float(root.real)
