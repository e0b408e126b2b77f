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

*Beside other releases* of cost d^L at the same entry, Laplace noise for one: their likelihood moves
by a factor e^l with |l(x) - l(x')| at most d^L, D^L its largest value. With h(z, y) its step,

    e(z, y)  =  h(z, y) + the least of F1 and F2, in which
        e^{D^L} v_y  takes the place of v_y,  and  |mu_z - mu_y|_s + t_z + t_y  that of the shift,
        the bracket of F2 has e^{D^L} before its sums, with (e^h - 1) E_y more in both of them, and
        e^{t_y} before all of it,

    t_z = min(D tanh(D^L / 4), c_z q_z w),   w = (e^{3D/2} - 1) / (3D/2),   c_z now its root,
    q_z = min(sinh(D^L / 2), e^{D^L} root of 2 sum_{x,x'} E_z(x) E_z(x') sinh(d^L(x, x') / 2)^2).

Proof. Let X = g (a - mu_y), of range D, and E_{z,l} the law in proportion to e^l E_z. *F1.* By (ii)
the numerator is at most f(c) E_z e^{l + X}, and log E_z e^{l + X} = log E_z e^l + log E_z e^X + R.
Along the laws P_s in proportion to e^{sX} E_z, R is the integral over s of the covariance of X and
e^l over the mean of e^l. This is at most t: a tilt by l moves a law by at most tanh(D^L / 4) in
total variation; and by the inequality of Cauchy and Schwarz, as P_s has at most e^{sD} times the
density of E_z, and e^l varies by at most q of its mean, since squares of differences are e^{l + l'}
(2 sinh((l - l') / 2))^2. The denominator is by (ii) and Jensen at least E_y e^l f(c) e^{-t_y}
exp(-e^{D^L} v_y / 2). E_z e^l / E_y e^l is at most e^h. *F2.* After that ratio what is left is that
of the means under E_{z,l} and E_{y,l}. Their means of X differ by t_z + t_y more, and E_{z,l} -
E_{y,l} is (e^l / E_z e^l)(E_z - E_y E_z e^l / E_y e^l), the first factor at most e^{D^L} and the
last between e^{-h} and e^h (h the larger of both ways). The denominator is that of F1. QED

Another bound is the least of F1 and F2 without all this, plus D^L: exchange l for its largest, or
least, value.

All bounds rise with the rate of every coordinate and with d^L, and stacked coordinates of the same
directions cost no more than one of the sum of their rates. So entries may be charged for more.

*Rounding.* All sums are of a few hundred terms; `_ROOM` times their number and the largest exponent
is added to logarithms, some ten times what their rounding errors can be. What is not a number
bounds nothing: it is infinite here, and the transport step serves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import exp, expm1, tanh

import numpy as np

from pufferkit.checks import Floats
from pufferkit.rounding import EPS, LARGEST_EXPONENT, bounding

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


@dataclass(frozen=True, eq=False)
class Beside:
    """Other releases about the same entry: what it costs there, and their step between rows."""

    cost: Floats
    step: Floats

    @classmethod
    def nothing(cls, rows: int, states: int) -> Beside:
        """None of them."""
        return cls(np.zeros((states, states)), np.zeros((rows, rows)))


def row_costs(rows: Floats, worth: Floats, beside: Beside) -> Floats:
    """The least of F1 and F2 for every two rows; beside others, what is to be added to their step.

    Parameters
    ----------
    rows
        Distributions of an entry.
    worth
        Row x is what an entry x adds to each coordinate, in scales; around zero (`centred`).
    beside
        Other releases.
    """
    size = len(worth) + worth.shape[1] + 8
    largest, most = float(np.abs(worth).max(axis=0).sum()), float(beside.cost.max())
    if not max(largest, most) <= _LARGEST:
        return np.full((len(rows), len(rows)), np.inf)
    grown = exp(most) * (1 + 4 * EPS)
    with np.errstate(all="ignore"):
        means = rows @ worth
        away = worth[None, :, :] - means[:, None, :]
        half = grown * np.einsum("yx,yxj->y", rows, away**2) / 2
        room = _ROOM * size * (1 + 2 * largest + float(half.max()))
        moved = _moved(rows, worth, beside.cost)
        both = moved[:, None] + moved[None, :]
        shift = np.abs(means[:, None, :] - means[None, :, :]).sum(axis=2)
        first = _tangents(rows, worth, means, shift, room) + both + half
        more = grown * np.expm1(np.maximum(beside.step, beside.step.T))
        second = _differences(rows, away, shift + both, half + moved, (grown, more), room)
        costs = np.minimum(bounding(first), second)
    return np.asarray(np.maximum(costs, 0.0) + 4 * room)


def centred(rows: Floats) -> Floats:
    """What entries add, less the same for all of them, about in the middle."""
    return np.asarray(rows - (rows.max(axis=0) + rows.min(axis=0)) / 2)


def _moved(rows: Floats, worth: Floats, beside: Floats) -> Floats:
    """How far what is beside moves the mean of X: t for every row, rounded up."""
    spread = float(np.abs(worth[:, None, :] - worth[None, :, :]).sum(axis=2).max())
    either = np.maximum(beside, beside.T)
    most, room = float(either.max()), 1 + _ROOM * (len(worth) + worth.shape[1] + 8)
    farthest = spread * tanh(most / 4)
    if 1.5 * spread > LARGEST_EXPONENT:
        return np.full(len(rows), farthest * room)
    widened = expm1(1.5 * spread) / (1.5 * spread or 1.0)
    spared = 2 * np.einsum("zx,zw,xw->z", rows, rows, np.sinh(either / 2) ** 2, optimize=True)
    varies = np.minimum(exp(most) * np.sqrt(spared), np.sinh(most / 2))
    moved = np.sqrt(_spread(rows, worth)) * varies * (widened if spread else 1.0)
    return np.asarray(np.minimum(moved, farthest) * room)


def _tangents(rows: Floats, worth: Floats, means: Floats, shift: Floats, room: float) -> Floats:
    """The largest log E_z e^{g (a - mu_y)} over the corners of the box; for many a bound on it."""
    if worth.shape[1] > CORNERS:
        spread = float(np.abs(worth[:, None, :] - worth[None, :, :]).sum(axis=2).max())
        most = _spread(rows, worth) * _bennett(spread) * (1 + room)
        return np.asarray(shift + np.minimum(most, spread**2 / 8)[:, None] + room)
    largest = np.full(shift.shape, -np.inf)
    every = signs(worth.shape[1])
    few = max(1, _AT_ONCE // shift.size)
    for corners in (every[n : n + few] for n in range(0, len(every), few)):
        exponents = corners @ worth.T
        top = exponents.max(axis=1, keepdims=True)
        logs = np.log(np.exp(exponents - top) @ rows.T + _TINY) + top
        tangents = logs[:, :, None] - (corners @ means.T)[:, None, :]
        # What is not a number stays one: it bounds nothing.
        largest = np.maximum(largest, tangents.max(axis=0))
    return np.asarray(largest + room)


def _spread(rows: Floats, worth: Floats) -> Floats:
    """The sum of all absolute covariances of coordinates: at least any variance, row by row."""
    around = worth[None, :, :] - (rows @ worth)[:, None, :]
    joint = np.einsum("zx,zxi,zxj->zij", rows, around, around, optimize=True)
    return np.asarray(np.abs(joint).sum(axis=(1, 2)))


def _bennett(spread: float) -> float:
    """(e^D - 1 - D) / D^2, rounded up."""
    if spread > 1.0:
        return (expm1(spread) - spread) / spread**2 * (1 + 16 * EPS)
    return (0.5 + spread / 6 + spread**2 / 24 / (1 - spread / 5)) * (1 + 16 * EPS)


def _differences(
    rows: Floats,
    away: Floats,
    shift: Floats,
    half: Floats,
    tilted: tuple[float, Floats],
    room: float,
) -> Floats:
    """F2 for all pairs of rows."""
    far, (grown, more) = np.abs(away).sum(axis=2), tilted
    beyond = np.maximum(np.expm1(far) * (1 + room) - far * (1 - room), 0.0)
    square = (away**2).sum(axis=2)
    fall = beyond * np.minimum(1.0, np.divide(square, far**2, out=np.ones_like(far), where=far > 0))
    costs = np.empty(shift.shape)
    for y, row in enumerate(rows):
        gone = rows - row
        curved = np.maximum(gone, 0.0) @ beyond[y] + np.maximum(-gone, 0.0) @ fall[y]
        curved = grown * curved + more[:, y] * float(row @ (beyond[y] + fall[y]))
        bracket = shift[:, y] + curved + room * (1 + beyond[y].max())
        costs[:, y] = np.log1p(np.exp(half[y] + room) * bracket * (1 + room))
    return bounding(costs)


def regime_costs(
    emissions: Sequence[Floats],
    contamination: float,
    worth: Floats,
    beside: Beside | None = None,
) -> Floats:
    """The same between regimes, of all emissions in a hull, contaminated.

    Theorem: SHAPE 4b, for the setting, claim and proof above: *releases* are any number of sums
    with sech noise, stacked, and any others of a known cost of an entry.

    ``contamination`` is the share of each row that may be any distribution; the rows of
    ``emissions`` then sum to the rest. Weights of a hull are common to the rows, so the ratio of
    two means is at most that of a vertex.
    """
    costs = []
    for emission in emissions:
        size, k = emission.shape
        each = k if contamination else 1
        rows = np.repeat(emission, each, axis=0)
        if contamination:
            rows = rows + contamination * np.tile(np.eye(k), (size, 1))
        other = Beside.nothing(len(rows), k)
        if beside is not None:
            step = np.repeat(np.repeat(beside.step, each, axis=0), each, axis=1)
            other = Beside(beside.cost, step)
        costs.append(row_costs(rows, worth, other).reshape(size, each, size, each).max(axis=(1, 3)))
    largest: Floats = np.max(costs, axis=0)
    np.fill_diagonal(largest, 0.0)
    return largest
