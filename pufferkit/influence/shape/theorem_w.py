"""The loss of shaped noise by a window around the entry, within which likelihoods cannot turn.

The curve lets the direction of the likelihood change at every step. Within a window it cannot: the
entries there add one sum A, and the noise sees it from one side. So what they reveal cancels.

*Setting.* A chain of states W_t with one kernel forwards and one backwards; entry X_t is drawn from
E(W_t, .), which may be certain. Around entry i lie the *ends* v = (W_{i-r}, W_{i+r}), and A is what
the entries between them add. Where the series ends before, all entries of that side are in A, and
there is no end. Given v the rest of the series is independent of (A, X_i). Let p_x(v) = P(v | X_i =
x), and let the likelihood of an output as a function of A be f_u (`pufferkit.influence.shape.costs`
has its facts (i) and (ii)).

*Bounds on e.* L_x(g) = log E[e^{gA} | v, x]; mu and q the mean of A and half the sum of its
squared distances from a centre c, in scales. Let c be the mean given v and x'. By (ii), f_u(a) <=
f_u(c) e^{g(a - c)} for some g in the box of directions, and log f_u(a) is at least log f_u(c) +
g(a - c) - sum_j kappa_j (a_j - c_j)^2 / (2 s_j^2), kappa_j = t_j / artanh t_j <= 1 for t_j = g_j
s_j (the inequality of Kearns and Saul).

- *Cells.* Cut the box into cells. For g in a cell and any g0,

      e(v) <= L_x(g) - L_x'(g0) - (g - g0) mu0 + sum_j kappa_j q0_j,

  mu0 and q0 those under the law given v and x', tilted by e^{g0 A}, and kappa_j the largest of
  the cell. Convex in g: the corners of the cell decide. Proof: E'f = E'e^{g0 A} E0[f e^{-g0 A}]
  and Jensen. QED
- *Groups* of coordinates, where there are many: one cell with g0 = 0, and by Hoelder's inequality
  L_x(g) - g c <= sum_G w_G (L_x(g_G / w_G) - g_G c / w_G) for weights w_G with sum 1.

*Exchanging the ends*, by the same bound with one group or several and c the mean given v':

    log E[f_u | v, x'] / E[f_u | v', x']
        <=  max_g (L_x'(g) - g mu(v)) + |mu(v) - mu(v')|_s + q(v').

*Rounding.* Sums of products of positive numbers have a small relative error, n times that of one
step for n steps; means and squares an absolute one, in units of the largest sum. Both are added.
Where a tilt may overflow, or a possible pair of ends is less likely than a float can say, nothing
is bounded, and the loss is infinite.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import inf
from typing import Any

import numpy as np

from pufferkit.checks import Bools, Floats
from pufferkit.influence.curve.engine import Part
from pufferkit.influence.curve.steps import Transport
from pufferkit.influence.shape.costs import centred, signs
from pufferkit.influence.shape.shaping import Shape
from pufferkit.rounding import EPS, bounding

_FINE, _ROUGH = (-1.0, -0.9, -0.7, -0.4, -0.1, 0.1, 0.4, 0.7, 0.9, 1.0), (-1.0, -0.6, 0.6, 1.0)

CUTS = {1: _FINE, 2: _FINE, 3: _ROUGH, 4: _ROUGH}
"""Where the box of so many directions is cut, in every coordinate."""

GROUP = 7
"""Beyond so many coordinates they are grouped."""

_LARGEST = 300.0
"""Larger exponents may overflow."""

_NEAR = 1
"""So many entries at the ends of a segment are never left out: they often lose most."""

_LEAST = 1e-200
"""Ends that are possible and less likely than this are refused."""

_AT_ONCE = 1 << 21
"""Numbers held at once."""


@dataclass(frozen=True, eq=False)
class AlikeChain:
    """A chain of states and the entries they show, the same at every time.

    Attributes
    ----------
    kernels
        To the state before, and to the state after.
    emission
        Row w is the distribution of an entry of state w.
    posterior
        Row x is the distribution of the state of an entry x.
    error
        Bound on the relative error of all of them.
    """

    kernels: tuple[Floats, Floats]
    emission: Floats
    posterior: Floats
    error: float

    @classmethod
    def of(cls, part: Part) -> AlikeChain | None:
        """Those of a part; ``None`` where kernels change in time, or are not known."""
        secret, sides = part.secret, (part.left, part.right)
        if not secret.is_entry or secret.state or secret.weights is not None:
            return None
        if part.clock is not None or part.sojourns is not None or len(part.possible) > 1:
            return None
        if any(side is None or side.settled > 2 or side.together is not None for side in sides):
            return None
        steps: list[Any] = [side.later(1) for side in sides if side is not None]
        if part.emission is not None:
            steps += [part.emission, part.posterior[0] if part.posterior else None]
        if not all(isinstance(one, Transport) and len(one.kernels) == 1 for one in steps):
            return None
        known = [one.kernels[0] for one in steps]
        known += [np.eye(len(known[0]))] * (4 - len(known))
        error = max(one.error for one in steps) + 8 * EPS
        return cls((known[0], known[1]), known[2], known[3], error)

    @property
    def memory(self) -> float:
        """After how many entries a state is forgotten, by a factor of e; at most 10,000."""
        sizes = np.sort(np.abs(np.linalg.eigvals(self.kernels[1])))
        slowest = float(sizes[-2]) if len(sizes) > 1 else 0.0
        return float(-1 / np.log(np.clip(slowest, 1e-9, 1 - 1e-4)))


def windows(lengths: Sequence[int], reach: int) -> list[tuple[int, int]]:
    """What lies around the entries of segments: entries on both sides, at most ``reach``.

    With ``reach`` of them the last one is an end; with fewer the segment ends there.

    Examples
    --------
    >>> windows([3], 2)
    [(0, 2), (1, 1), (2, 0)]
    >>> len(windows([100, 1000], 3))
    7
    """
    found: dict[tuple[int, int], None] = {}
    for length in sorted(set(lengths)):
        near = range(min(length, reach))
        inner = [(reach, reach)] if length > 2 * reach else []
        first = [(n, min(length - 1 - n, reach)) for n in near]
        last = [(min(length - 1 - n, reach), n) for n in near]
        found.update(dict.fromkeys([*inner, *first, *last]))
    return list(found)


def loss_w(
    moves: AlikeChain,
    lengths: Sequence[int],
    reach: int,
    shape: Shape,
    ends: tuple[float, float],
    *,
    inner: bool = False,
) -> Floats:
    """The largest loss of every pair of values over all entries, rounded up.

    Theorem: SHAPE Theorem W. *Secrets*: any two values x, x' of an entry. *Beliefs*: one such
    chain; a finite class of them, each for the whole series. *Releases*: sech noise on the sums of
    one series without gaps, and nothing else about it. With

        e(v)  >=  sup over u of log E[f_u(A) | v, x] / E[f_u(A) | v, x'],

    the loss of the entry is at most the largest  log p_x(v) / p_x'(v) + e(v), and at most

        log of the largest  sum_v p_x(v) e^{e(v)} b(v) / sum_v p_x'(v) b(v)  over b in [1, e^D],
        D = C + sup over v, v', u of log E[f_u(A) | v, x'] / E[f_u(A) | v', x'],

    C what the engine says of the states at both ends, their own entries included.

    Proof. Q(v, A) = E[f(A + rest) | v] is, in A, a mixture of functions f_u. So P(o | x) = sum_v
    p_x(v) E[Q(v, A) | v, x] <= sum_v p_x(v) e^{e(v)} b(v) with b(v) = E[Q(v, A) | v, x'], and
    P(o | x') = sum_v p_x'(v) b(v). The first bound is the largest ratio of two terms. For the
    second: in v, for fixed A, log Q moves by at most C (exchange one end, then the other: the
    theorem of the engine for either side), then the law of A is exchanged, so log b moves by at
    most D. A ratio of two linear functions of b is largest where every b is 1 or e^D, and that is
    e^D on the ends with the largest p_x(v) e^{e(v)} / p_x'(v). QED

    Parameters
    ----------
    moves
        The chain.
    lengths
        The lengths of all segments: short ones may lose more.
    reach
        How many entries away the ends of a window are.
    shape
        The noise.
    ends
        How much exchanging the state of an end on the left, and on the right, may reveal.
    inner
        Whether to leave out most entries near the ends of a segment, if there are others.
    """
    around = windows(lengths, reach)
    if inner and (reach, reach) in around:
        around = [one for one in around if min(one) == reach or min(one) < _NEAR]
    return np.asarray(window_losses(moves, around, reach, shape, ends).max(axis=0))


def window_losses(
    moves: AlikeChain,
    around: Sequence[tuple[int, int]],
    reach: int,
    shape: Shape,
    ends: tuple[float, float],
) -> Floats:
    """The losses of every pair of values of the entry in the middle of each window."""
    at, found = _Tilts(moves, shape, reach), np.empty((len(around), *(shape.states,) * 2))
    for shut in product((False, True), repeat=2):
        places = [n for n, (a, b) in enumerate(around) if (a < reach, b < reach) == shut]
        few = max(1, _AT_ONCE // at.size([around[n] for n in places[:1]]))
        for some in (places[n : n + few] for n in range(0, len(places), few)):
            found[some] = at.losses([around[n] for n in some], ends)
    found[:, range(shape.states), range(shape.states)] = 0.0
    return found


class _Tilts:
    """Windows under laws that are tilted in some directions t of the box, in units of 1 / s."""

    def __init__(self, moves: AlikeChain, shape: Shape, reach: int) -> None:
        self.moves, self.reach = moves, reach
        self.worth = centred(shape.directions * shape.rates)
        self.m, self.hidden = shape.coordinates, len(moves.emission)
        self.half = self._moments([(reach, reach)], np.zeros((1, self.m)))[2][0] / 2
        spread = np.sqrt(2 * self.half.max(axis=(1, 2))) + 1e-9
        order = np.argsort(-spread, kind="stable")
        self.parts = np.array_split(order, 1 if self.m <= GROUP + 1 else -(-self.m // GROUP))
        self.shares = np.array([np.sqrt((spread[own] ** 2).sum()) for own in self.parts])
        self.shares /= self.shares.sum()

    def size(self, group: Sequence[tuple[int, int]]) -> int:
        """About how many numbers one window of this kind takes."""
        tilts = 2 ** max(map(len, self.parts))
        tilts = max(tilts, len(CUTS.get(self.m, ())) ** self.m)
        ended = sum(own == self.reach for own in group[0]) if group else 0
        return int(len(self.worth) * self.hidden**ended * (tilts + len(self.worth)))

    def losses(self, group: Sequence[tuple[int, int]], ends: tuple[float, float]) -> Floats:
        """The losses of every pair of values, window by window; all have the same ends."""
        with np.errstate(all="ignore"):
            apart, exchanged, likely = self._ratios(group)
            k, windows_ = len(likely), len(group)
            logs = apart.reshape(k, k, windows_, -1)
            chances = likely.reshape(k, windows_, -1)
            both = zip(ends, group[0], strict=True)
            met = sum(one for one, near in both if near == self.reach)
            moved = exchanged.reshape(k, windows_) + met
            found = np.minimum(logs.max(axis=3), self._mixed(logs, chances, moved))
            largest = np.moveaxis(found, 2, 0) + self.room
        return bounding(largest if self.most <= _LARGEST else np.full_like(largest, inf))

    def _mixed(self, logs: Floats, chances: Floats, moved: Floats) -> Floats:
        """The second bound: the largest ratio of means of a function of the ends."""
        order = np.argsort(-logs, axis=3)
        below = np.take_along_axis(np.broadcast_to(chances[None], logs.shape), order, axis=3)
        ratio = np.exp(np.take_along_axis(logs, order, axis=3))
        above = np.where(below > 0, below * ratio, 0.0)
        more = np.expm1(moved)[None, :, :, None]
        tops = above.sum(axis=3, keepdims=True) + more * np.cumsum(above, axis=3)
        sums = below.sum(axis=3, keepdims=True) + more * np.cumsum(below, axis=3)
        largest = np.maximum((tops / sums).max(axis=3), above.sum(axis=3) / below.sum(axis=3))
        bound = np.log(largest) * (1 + 8 * EPS) + 64 * logs.shape[3] * EPS
        return bounding(np.where((logs == inf).any(axis=3), inf, bound))

    def _ratios(self, group: Sequence[tuple[int, int]]) -> tuple[Floats, Floats, Floats]:
        """What outputs tell of x against x' with the ends given, and of the ends; p_x(v)."""
        joint, mean, second = (one[0] for one in self._moments(group, np.zeros((1, self.m))))
        likely = np.exp(joint)
        self._check(group, likely)
        half = second.sum(axis=0) / 2
        apart = joint[:, None] - joint[None] + half[None]
        own = np.zeros_like(joint)
        for part, share in zip(self.parts, self.shares, strict=True):
            tilts = np.zeros((2 ** len(part), self.m))
            tilts[:, part] = signs(len(part)) / share
            logs = self._logs(group, tilts) - joint
            shifts = np.tensordot(tilts, mean, axes=1)
            most = np.full(apart.shape, -inf)
            for log, shift in zip(logs, shifts, strict=True):
                np.maximum(most, log[:, None] - shift[None], out=most)
            apart += share * most
            own += share * np.einsum("xxe->xe", most)
        if self.m in CUTS:
            apart = np.fmin(apart, self._cut(group, mean))
        possible = likely > 0
        apart = np.where(possible[None], np.where(possible[:, None], apart, -inf), inf)
        apart = np.where((possible[:, None] | possible[None]), apart, -inf)
        several = (len(likely), len(group), -1)
        mask = possible.reshape(several)
        value = [np.where(mask, one.reshape(several), -inf).max(axis=2) for one in (own, half)]
        each = mean.reshape(self.m, *mask.shape)
        ranges = np.where(mask, each, -inf).max(axis=3) - np.where(mask, each, inf).min(axis=3)
        exchanged = value[0] + value[1] + ranges.sum(axis=0) + 4 * self.room
        return apart, exchanged.ravel(), likely.reshape(len(likely), -1)

    def _cut(self, group: Sequence[tuple[int, int]], mean: Floats) -> Floats:
        """The bound by cells."""
        cuts, m = np.array(CUTS[self.m]), self.m
        corners = np.array(list(product(range(len(cuts)), repeat=m)))
        logs = self._logs(group, cuts[corners])
        cells = np.array(list(product(range(len(cuts) - 1), repeat=m)))
        low, high = cuts[cells], cuts[cells + 1]
        centres = (low + high) / 2
        nearest = np.where(low * high <= 0, 0.0, np.minimum(abs(low), abs(high)))
        safe = np.clip(nearest, 1e-9, 1 - 1e-12)
        curved = np.where(nearest > 0, safe / np.arctanh(safe), 1.0) * (1 + 1e-9)
        joint, tilted, second = self._moments(group, centres)
        second = second + (tilted - mean[None]) ** 2
        places = (len(cuts)) ** np.arange(m - 1, -1, -1)
        most = np.full((logs.shape[1], *logs.shape[1:]), -inf)
        for n, cell in enumerate(cells):
            below = joint[n] - np.tensordot(curved[n] / 2, second[n], axes=1)
            for step in product((0, 1), repeat=m):
                corner = cell + np.array(step)
                away = np.tensordot(cuts[corner] - centres[n], tilted[n], axes=1)
                log = logs[int(corner @ places)]
                np.maximum(most, log[:, None] - (below + away)[None], out=most)
        return most

    def _logs(self, group: Sequence[tuple[int, int]], tilts: Floats) -> Floats:
        """The log of E[e^{tA}; v | x], for every tilt, value and pair of ends."""
        return np.asarray(np.log(self._sums(group, tilts, ())[0] + 1e-300) + self._own(tilts))

    def _own(self, tilts: Floats) -> Floats:
        exponents = tilts @ self.worth.T
        return exponents[:, :, None]

    def _moments(
        self, group: Sequence[tuple[int, int]], tilts: Floats
    ) -> tuple[Floats, Floats, Floats]:
        """The same, and mean and variance of every coordinate of A under the tilted law."""
        means, seconds = [], []
        for j in range(self.m):
            zero, one, two = self._sums(group, tilts, (j,))
            mean = np.where(zero > 0, one / zero, 0.0)
            seconds.append(np.where(zero > 0, np.maximum(2 * two / zero - mean**2, 0.0), 0.0))
            means.append(mean + self.worth[:, j, None])
        joint = np.log(zero) + self._own(tilts)
        return joint, np.stack(means, axis=1), np.stack(seconds, axis=1)

    def _sums(
        self, group: Sequence[tuple[int, int]], tilts: Floats, moments: tuple[int, ...]
    ) -> list[Floats]:
        """Sums over the paths of a window: of e^{tA}, and with a coordinate of A_j and A_j^2 / 2.

        Per entry these are K diag(E e^{ta} a^n / n!); products of such are products of matrices of
        blocks. The entry itself is left out.
        """
        exponents = tilts @ self.worth.T
        weights = np.exp(exponents)
        self._note(float(np.abs(exponents).max(initial=0.0)))
        orders = [weights]
        for j in moments:
            orders += [weights * self.worth[:, j], weights * self.worth[:, j] ** 2 / 2]
        given = [own @ self.moves.emission.T for own in orders]
        b, h, g = len(orders), self.hidden, len(tilts)
        sides = []
        for which, kernel in enumerate(self.moves.kernels):
            blocks = np.zeros((g, b, h, b, h))
            for i in range(b):
                for n in range(b - i):
                    blocks[:, i, :, i + n, :] = kernel[None] * given[n][:, None, :]
            flat = blocks.reshape(g, b * h, b * h)
            sides.append(self._side(flat, kernel, [one[which] for one in group], b))
        left, right = sides
        found = []
        for order in range(b):
            total: Any = 0.0
            for n in range(order + 1):
                before = left[:, :, n] * 1.0
                before = np.einsum("xz,agzu->agxuz", self.moves.posterior, before)
                total = total + before @ right[:, :, order - n][:, :, None]
            found.append(np.moveaxis(total, 0, 2).reshape(g, len(self.worth), -1))
        return found

    def _side(self, blocks: Floats, kernel: Floats, counts: Sequence[int], orders: int) -> Floats:
        """From the state of the entry to the end: windows, tilts, orders, states, ends."""
        g, h = len(blocks), self.hidden
        if counts[0] == self.reach:
            power = np.linalg.matrix_power(blocks, self.reach - 1)[:, :h]
            ended = power.reshape(g, h, orders, h).transpose(0, 2, 1, 3) @ kernel
            return np.broadcast_to(ended, (len(counts), *ended.shape))
        ones = np.tile(np.kron(np.eye(orders), np.ones((h, 1))), (g, 1, 1))
        shut = []
        for _ in range(max(counts) + 1):
            shut.append(ones[:, :h].transpose(0, 2, 1)[..., None])
            ones = blocks @ ones
        return np.array([shut[count] for count in counts])

    def _note(self, largest: float) -> None:
        """Remember the largest exponent, for roundings."""
        self.largest = max(getattr(self, "largest", 0.0), largest)

    @property
    def most(self) -> float:
        """The largest exponent of a window."""
        return (2 * self.reach + 2) * self.largest

    @property
    def room(self) -> float:
        """More than all roundings."""
        count = 2 * self.reach + 6
        size = self.hidden + len(self.worth) + self.m + 8
        share = count * (self.moves.error + 4 * size * EPS * (2 + self.largest))
        sums = count * np.abs(self.worth).max(axis=0)
        return float(share * (8 + 4 * sums.sum() + 8 * (sums**2).sum()))

    def _check(self, group: Sequence[tuple[int, int]], likely: Floats) -> None:
        """Note where ends are so unlikely that a float may have lost them."""
        both = [
            _reached(kernel, self.reach) if near == self.reach else np.ones((self.hidden, 1), bool)
            for kernel, near in zip(self.moves.kernels, group[0], strict=True)
        ]
        given = (self.moves.posterior > 0).astype(float)
        possible = np.einsum("xz,zu,zw->xuw", given, *both).reshape(len(given), 1, -1) > 0
        if ((likely.reshape(len(given), len(group), -1) < _LEAST) & possible).any():
            self.largest = inf


def _reached(kernel: Floats, steps: int) -> Bools:
    """Which states are possible after so many steps."""
    here, power = np.eye(len(kernel), dtype=bool), kernel > 0
    while steps:
        if steps & 1:
            here = here @ power
        steps, power = steps >> 1, power @ power
    return here
