"""What exchanging a hidden regime costs under sech noise: bounds beside the transport step.

Setting. Given its regime z an entry X is drawn from E(z, .), and f_u(x) = prod_j sech((u_j -
a_j(x)) / s_j) is the likelihood of an output as a function of what the entry adds to the
coordinates. Wanted are upper bounds on

    e(z, y)  >=  sup over u of log  E_z f_u / E_y f_u.

With c any centre, delta_j = (a_j - c_j) / s_j and t_j = tanh((u_j - c_j) / s_j),

    (i)   f_u(a) / f_u(c) = prod_j 1 / (cosh delta_j - t_j sinh delta_j),   t in (-1, 1)^m;
    (ii)  psi = log f_u is concave, with gradient t / s at c, and
          0  <=  psi(c) + (t / s)(a - c) - psi(a)  <=  sum_j delta_j^2 / 2.

Proof of (ii). Let R be 1 or -1 with probability (1 - t) / 2 or (1 + t) / 2: log(cosh x - t sinh x)
+ t x is log E e^{x (R + t)}, the cumulant function of a centred variable of range 2, so it lies
between 0 and x^2 / 2 (Jensen; Hoeffding). QED

Write mu_z and v_z for the mean of a under E(z, .) and for sum_j Var_z(a_j) / s_j^2, |w|_s for
sum_j |w_j| / s_j, d(x, x') = |a(x) - a(x')|_s and D for its largest value.

*F1.*  e(z, y) = max over signs sigma of log E_z exp(sum_j sigma_j (a_j - mu_yj) / s_j)  +  v_y / 2.
Proof. c = mu_y. By (ii) E_z f <= f(c) E_z e^{g (a - c)} with g = t / s in a box, and the logarithm
is convex in g, so it is largest at a corner. And log E_y f >= E_y psi >= psi(c) - v_y / 2. QED  For
many coordinates the first term is at most |mu_z - mu_y|_s and the lesser of D^2 / 8 (Hoeffding) and
c_z
(e^D - 1 - D) / D^2 (Bennett), with c_z = sum_ij |Cov_z(a_i, a_j)| / (s_i s_j) at least any
variance.

*F2.*  e(z, y) = log(1 + e^{v_y / 2} [|mu_z - mu_y|_s + sum_x (E_z - E_y)^+ r + sum_x (E_z - E_y)^-
r |delta|_2^2 / |delta|_1^2]),  delta = (a(x) - mu_y) / s,  r = e^{|delta|_1} - 1 - |delta|_1.
Proof. E_z f / E_y f = 1 + (E_z - E_y) f / E_y f, and E_y f >= f(c) e^{-v_y / 2}. By Taylor's
theorem on the segment from c, where f''/f = (T delta)^2 - sum_j (1 - T_j^2) delta_j^2 lies between
-|delta|_2^2 and |delta|_1^2 for some T in the box and f <= f(c) e^{tau |delta|_1}, what is beyond
the linear term lies between -f(c) r |delta|_2^2 / |delta|_1^2 and f(c) r; the linear terms differ
by at most f(c) |mu_z - mu_y|_s. QED

Both are first order in |mu_z - mu_y|_s only: directions in which regimes agree in the mean cost
little. The transport step of d is a third bound, since log f_u moves by at most d.

*Unknown share.* If row z may be (1 - eta) E(z, .) + eta r with any r, then for fixed f the mean is
largest, or least, with r on one value u, or w. So the largest cost over u and w of these rows
serves.

*Beside Laplace releases* of cost d^L at the same entry, whose logarithm l moves by at most d^L,
with D^L its largest value,

    e(z, y) = step(d^L) + |mu_z - mu_y|_s + D^2 / 8 + 2 D tanh(D^L / 4)
              + sum_j min(e^{D^L} Var_y(a_j), range_j^2 / 4) / (2 s_j^2).

Proof. Under laws tilted by e^l: the numerator is at most e^{psi(c)} E_z e^l exp(g (mu_{z,l} - c) +
D^2 / 8) by (ii) and Hoeffding; the denominator at least E_y e^l exp(psi(c) - v_{y,l} / 2) for c =
mu_{y,l}, by (ii) and Jensen. E_z e^l / E_y e^l is at most the step. A tilt whose logarithm has
range D^L moves a law by at most tanh(D^L / 4) in total variation, and g mu by D times that, twice;
its density is at most e^{D^L}, and no variance exceeds range^2 / 4. QED

*Rounding.* All sums are of a few hundred terms; `_ROOM` times their number and the largest exponent
is added to logarithms, some ten times what their rounding errors can be. What is not a number
bounds nothing: it is infinite here, and the transport step serves.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import exp, expm1, tanh

import numpy as np

from pufferkit.checks import Floats
from pufferkit.rounding import EPS

CORNERS = 9
"""Up to so many coordinates all corners of the box are tried."""

_LARGEST = 300.0
"""Larger exponents are useless: e to them is close to the largest float."""

_ROOM = 16 * EPS
"""For each term of a sum, more than its roundings."""

_TINY = 1e-290
"""Added to means of exponentials, which may underflow."""

_AT_ONCE = 1 << 22
"""Numbers held at once."""


def signs(count: int) -> Floats:
    """All rows of so many ones and minus ones."""
    return np.array(list(product((-1.0, 1.0), repeat=count))).reshape(-1, count)


def row_costs(above: Floats, below: Floats, added: Floats, rates: Floats) -> Floats:
    """The least of F1 and F2 for every row of ``above`` against every row of ``below``.

    Parameters
    ----------
    above, below
        Distributions of an entry, in rows.
    added
        Row x is what an entry x adds to each coordinate, whole numbers.
    rates
        One over the scale of each coordinate.
    """
    worth = centred(added) * rates
    size = len(worth) + worth.shape[1] + 8
    largest = float(np.abs(worth).max(axis=0).sum())
    with np.errstate(all="ignore"):
        means, others = above @ worth, below @ worth
        away = worth[None, :, :] - others[:, None, :]
        half = np.einsum("yx,yxj->y", below, away**2) / 2
        room = _ROOM * size * (1 + 2 * largest + float(half.max()))
        shift = np.abs(means[:, None, :] - others[None, :, :]).sum(axis=2)
        first = _tangents(above, worth, means, others, shift, room) + half
        second = _differences(above, below, away, shift, half, room)
        costs = np.minimum(np.where(np.isfinite(first), first, np.inf), second)
    useless = not largest <= _LARGEST
    return np.full(costs.shape, np.inf) if useless else np.maximum(costs, 0.0) + 4 * room


def centred(added: Floats) -> Floats:
    """What entries add, less a whole number about in the middle: the same for all of them."""
    return np.asarray(added - np.floor((added.max(axis=0) + added.min(axis=0)) / 2))


def _tangents(
    above: Floats, worth: Floats, means: Floats, others: Floats, shift: Floats, room: float
) -> Floats:
    """The largest log E_z e^{g (a - mu_y)} over the corners of the box; for many a bound on it."""
    if worth.shape[1] > CORNERS:
        spread = float(np.abs(worth[:, None, :] - worth[None, :, :]).sum(axis=2).max())
        around = worth[None, :, :] - means[:, None, :]
        joint = np.einsum("zx,zxi,zxj->zij", above, around, around, optimize=True)
        most = np.abs(joint).sum(axis=(1, 2)) * _bennett(spread) * (1 + room)
        return np.asarray(shift + np.minimum(most, spread**2 / 8)[:, None] + room)
    largest = np.full(shift.shape, -np.inf)
    every = signs(worth.shape[1])
    few = max(1, _AT_ONCE // shift.size)
    for corners in (every[n : n + few] for n in range(0, len(every), few)):
        exponents = corners @ worth.T
        top = exponents.max(axis=1, keepdims=True)
        logs = np.log(np.exp(exponents - top) @ above.T + _TINY) + top
        tangents = logs[:, :, None] - (corners @ others.T)[:, None, :]
        # What is not a number stays one: it bounds nothing.
        largest = np.maximum(largest, tangents.max(axis=0))
    return np.asarray(largest + room)


def _bennett(spread: float) -> float:
    """(e^D - 1 - D) / D^2, rounded up."""
    if spread > 1.0:
        return (expm1(spread) - spread) / spread**2 * (1 + 16 * EPS)
    return (0.5 + spread / 6 + spread**2 / 24 / (1 - spread / 5)) * (1 + 16 * EPS)


def _differences(
    above: Floats, below: Floats, away: Floats, shift: Floats, half: Floats, room: float
) -> Floats:
    """F2 for all pairs of rows."""
    far = np.abs(away).sum(axis=2)
    beyond = np.maximum(np.expm1(far) * (1 + room) - far * (1 - room), 0.0)
    square = (away**2).sum(axis=2)
    fall = beyond * np.minimum(1.0, np.divide(square, far**2, out=np.ones_like(far), where=far > 0))
    costs = np.empty(shift.shape)
    for y, row in enumerate(below):
        moved = above - row
        bracket = shift[:, y] + np.maximum(moved, 0.0) @ beyond[y]
        bracket += np.maximum(-moved, 0.0) @ fall[y] + room * (1 + beyond[y].max())
        costs[:, y] = np.log1p(np.exp(half[y] + room) * bracket * (1 + room))
    return np.where(np.isfinite(costs), costs, np.inf)


def regime_costs(
    emissions: Sequence[Floats], contamination: float, added: Floats, rates: Floats
) -> Floats:
    """The least of F1 and F2 between regimes, of all emissions in a hull, contaminated.

    ``contamination`` is the share of each row that may be any distribution; the rows of
    ``emissions`` then sum to the rest. Weights of a hull are common to the rows, so the ratio of
    two means is at most that of a vertex.
    """
    costs = []
    for emission in emissions:
        size, k = emission.shape
        rows = emission
        if contamination:
            rows = (emission[:, None, :] + contamination * np.eye(k)[None]).reshape(size * k, k)
        own = row_costs(rows, rows, added, rates)
        costs.append(own.reshape(size, len(rows) // size, size, -1).max(axis=(1, 3)))
    largest: Floats = np.max(costs, axis=0)
    np.fill_diagonal(largest, 0.0)
    return largest


def beside_costs(
    emissions: Sequence[Floats],
    contamination: float,
    added: Floats,
    rates: Floats,
    other: Floats,
) -> Floats:
    """What sech noise adds to the step of Laplace releases of cost ``other`` at the same entry."""
    worth = centred(added) * rates
    spread = float(np.abs(worth[:, None, :] - worth[None, :, :]).sum(axis=2).max())
    most, size = float(other.max()), len(worth) + worth.shape[1] + 8
    if not (most <= _LARGEST and spread <= _LARGEST):
        return np.full((len(emissions[0]),) * 2, np.inf)
    room = _ROOM * size * (1 + 2 * float(np.abs(worth).max(axis=0).sum()))
    ranges = np.ptp(worth, axis=0) ** 2 / 4
    constant = spread**2 / 8 + 2 * spread * tanh(most / 4)
    costs = []
    for emission in emissions:
        h, k = emission.shape
        rows = emission
        if contamination:
            rows = (emission[:, None, :] + contamination * np.eye(k)[None]).reshape(h * k, k)
        means = rows @ worth
        vary = np.einsum("yx,yxj->yj", rows, (worth[None] - means[:, None, :]) ** 2)
        half = np.minimum(exp(most) * vary, ranges).sum(axis=1) / 2
        shift = np.abs(means[:, None, :] - means[None, :, :]).sum(axis=2)
        own = (shift + constant + half[None, :]) * (1 + room) + room
        costs.append(own.reshape(h, len(rows) // h, h, -1).max(axis=(1, 3)))
    largest: Floats = np.max(costs, axis=0)
    np.fill_diagonal(largest, 0.0)
    return np.where(np.isfinite(largest), largest, np.inf)
