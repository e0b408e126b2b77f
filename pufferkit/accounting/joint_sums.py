"""How far two noisy sums over the same entries depend on each other, given one entry.

Given X_i = x, sums A and B over all entries get independent Laplace noise. With m(a, b) the
probability of the sums, the outputs have the density, up to constants that cancel below,

    J(o, q) = sum over a, b of m(a, b) e^{-|o - a| / s} e^{-|q - b| / t},

J_A(o) and J_B(q) likewise with one noise. We bound the largest |log J(o, q) / (J_A(o) J_B(q))|.

**Where it is.** Fix q, and let o move between two neighbouring values of A. There both J and J_A
are c u + d / u with u = e^{o / s} and c, d >= 0, so J / J_A = (c u^2 + d) / (c' u^2 + d') is
monotone in u: at one end of the interval it is at least as large, at the other at least as small.
Beyond the least and the largest value it is constant. Then the same with q, o being a value of A.
So the largest and the least ratio over all outputs are at pairs of values of the sums. Outputs of
discrete noise are some of these outputs with the same J. More noise is less: noise of a larger
scale s' is noise of scale s and, with probability 1 - (s / s')^2, noise of scale s' on top of it
(likewise for discrete noise), so that J and J_A J_B become means with the same weights.

**How it is computed.** m by a forward recursion, one entry after another; where B is a multiple of
A up to a constant (two states always are so) along a line. Sums with a kernel e^{-|o - a| / s} by
one pass up and one down. Only non-negative numbers are added and multiplied, so relative errors add
up (`_rounding`); numbers so small that underflow may matter are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log
from typing import Any

import numpy as np

from pufferkit.checks import Bools, Floats, Ints
from pufferkit.errors import NotApplicable
from pufferkit.rounding import EPS

MOST_WORK = 6e10
"""Most nanoseconds: about a minute."""

MOST_NUMBERS = 2.5e8
"""Most floats in memory at once."""

_LEAST = 1e-240
_RAREST = 1e-30
_EACH_STEP = 3e4


@dataclass(frozen=True, eq=False)
class Axis:
    """One noisy sum: the whole non-negative value of each state, and scales per unit of them."""

    values: Ints
    gap: float

    def decay(self, entries: int) -> Floats:
        """The factor by which the density falls from each value of the sum to the next."""
        return np.full(entries * int(self.values.max()), np.exp(-self.gap))


def chain_dependence(
    initial: Floats, transition: Floats, lengths: Sequence[int], first: Axis, second: Axis
) -> float:
    """The largest |log J / (J_A J_B)| over entries of independent segments, their values, outputs.

    It holds for the sums over all segments; never less than the truth.
    """
    size, entries = len(initial), sum(lengths)
    steps = np.stack([first.values, second.values], axis=1)
    turned = [bool((first.values == other).all()) for other in (second.values, _turn(second))]
    if any(turned):
        steps[:, 1] = 0
    _check_work(lengths, size, first, second, line=any(turned))
    decays = first.decay(entries), second.decay(entries)
    largest = 0.0
    for length in sorted(set(lengths)):
        rest = list(lengths)
        rest.remove(length)
        kernels = _kernels(initial, transition, [length, *rest])
        before, possible = _placed(initial, steps), initial > 0
        for entry in range(1, length + 1):
            given = _given(before[:, 0], possible)
            for kernel in kernels[entry - 1 :]:
                given = _moved(given, kernel, steps)
            masses = given.sum(axis=0)
            if any(turned):
                masses = _on_line(masses[:, :, 0], rising=turned[0])
            largest = max(largest, largest_log_ratio(masses, *decays))
            if entry < length:
                before = _moved(before, kernels[entry - 1], steps)
                possible = np.asarray((kernels[entry - 1][possible] > 0).any(axis=0))
    return largest + _rounding(entries * (size + 3), decays)


def listed_dependence(
    places: tuple[Ints, Ints], weights: Floats, secrets: Sequence[Bools], decays: Sequence[Floats]
) -> float:
    """The same for data listed one by one: their indices on both axes, weights, and the secrets."""
    shape = len(decays[0]) + 1, len(decays[1]) + 1
    largest = 0.0
    for chosen in secrets:
        mass = np.zeros((1, *shape))
        whole = weights[chosen].sum()
        _check_rare(whole)
        np.add.at(mass[0], (places[0][chosen], places[1][chosen]), weights[chosen] / whole)
        largest = max(largest, largest_log_ratio(mass, *decays))
    return largest + _rounding(len(weights), decays)


def largest_log_ratio(masses: Floats, *decays: Floats) -> float:
    """The largest |log J / (J_A J_B)| of several tables m(a, b), without the rounding."""
    along = np.moveaxis(masses, 0, -1)
    whole = along.sum(axis=(0, 1))
    alone = [_smoothed(along.sum(axis=1 - n), decay) for n, decay in enumerate(decays)]
    joint = _smoothed(along, decays[0]).swapaxes(0, 1)
    joint = _smoothed(joint, decays[1]).swapaxes(0, 1)
    if joint.min() < _LEAST:
        raise NotApplicable(
            "the likelihood of some outputs underflows: the scale of the noise is small against "
            "the range of the sums; use a shorter series or a smaller epsilon"
        )
    ratio = joint / alone[0][:, None] / alone[1][None] * whole
    return max(log(ratio.max()), -log(ratio.min()), 0.0)


def _smoothed(mass: Floats, decay: Floats) -> Floats:
    """Sums along the first axis with weights e^{-distance / scale}."""
    up = mass.copy()
    for n, factor in enumerate(decay):
        up[n + 1] += factor * up[n]
    down = np.zeros_like(mass[0])
    for n in range(len(decay) - 1, -1, -1):
        down = decay[n] * (down + mass[n + 1])
        up[n] += down
    return up


def _placed(mass: Floats, steps: Ints) -> Floats:
    """The first entry: mass[y] at the value of state y; axes y, secret (one) and both sums."""
    placed = np.zeros((len(mass), 1, *(steps.max(axis=0) + 1)))
    for y, (u, v) in enumerate(steps):
        placed[y, 0, u, v] = mass[y]
    return placed


def _moved(mass: Floats, kernel: Floats, steps: Ints) -> Floats:
    """One entry further, its value added to both sums."""
    mixed = (kernel.T @ mass.reshape(len(kernel), -1)).reshape(mass.shape)
    cases, a, b = mass.shape[1:]
    moved = np.zeros((len(kernel), cases, *(steps.max(axis=0) + np.array([a, b]))))
    for y, (u, v) in enumerate(steps):
        moved[y, :, u : u + a, v : v + b] = mixed[y]
    return moved


def _given(before: Floats, possible: Bools) -> Floats:
    """The sums so far given each possible value of the entry that was added last."""
    values = np.flatnonzero(possible)
    given = np.zeros((len(before), len(values), *before.shape[1:]))
    for n, x in enumerate(values):
        whole = before[x].sum()
        _check_rare(whole)
        given[x, n] = before[x] / whole
    return given


def _check_rare(whole: float) -> None:
    if whole < _RAREST:
        raise NotApplicable(
            f"some value of an entry has a probability below {_RAREST:g}, which may underflow; "
            "drop or merge such states"
        )


def _kernels(initial: Floats, transition: Floats, lengths: Sequence[int]) -> list[Floats]:
    """From each entry to the next; a new segment starts anew."""
    anew = np.tile(initial, (len(initial), 1))
    kernels: list[Floats] = []
    for length in lengths:
        kernels += [transition] * (length - 1) + [anew]
    return kernels[:-1]


def _turn(axis: Axis) -> Ints:
    turned: Ints = axis.values.max() - axis.values
    return turned


def _on_line(masses: Floats, *, rising: bool) -> Floats:
    """Tables with these masses on the diagonal, or on the other one."""
    room = masses.shape[1]
    tables = np.zeros((len(masses), room, room))
    places = np.arange(room)
    tables[:, places, places if rising else places[::-1]] = masses
    return tables


def _rounding(products: int, decays: Sequence[Floats]) -> float:
    """Bound on the error of log J / (J_A J_B): four numbers, each with this many roundings.

    A probability is a sum of products with ``products`` roundings. A kernel adds two numbers and
    multiplies one for each value, and its factors e^{-gap} are off by 1 + gap / 2 roundings each;
    products of factors below e^{-650} do not count. Every sum takes as many additions as there are
    values. What underflows is, even multiplied by all later sums, below 1e-15 of `_LEAST`.
    """
    values = sum(len(decay) + 1 for decay in decays)
    return 4 * EPS * (products + 6 * values + 2000)


def _check_work(lengths: Sequence[int], size: int, *axes: Axis, line: bool) -> None:
    """Refuse a computation that takes too long: steps of tables, then passes over them."""
    entries = sum(lengths)
    rooms = [1.0 + entries * int(axis.values.max()) for axis in axes]
    moved = rooms[0] * (1.0 if line else rooms[1])
    each = _EACH_STEP + moved * size**2 * (size + 6) / 3
    steps = sum(length * (entries - length / 2) for length in set(lengths))
    passes = sum(set(lengths)) * size * (40 * rooms[0] * rooms[1] + 1e4 * sum(rooms))
    work = steps * each + passes
    numbers = 2 * size**2 * moved + 6 * size * rooms[0] * rooms[1]
    if work > MOST_WORK or numbers > MOST_NUMBERS:
        raise NotApplicable(
            f"the joint distributions of the two sums take about {work / 1e9:,.0f} s and "
            f"{8 * numbers / 1e9:,.1f} GB, more than {MOST_WORK / 1e9:.0f} s or "
            f"{8 * MOST_NUMBERS / 1e9:.0f} GB; use a shorter series, fewer states or rounder values"
        )


def decays_of(centres: Sequence[Any], scale: Any) -> Floats:
    """The factor by which the density falls between neighbouring centres, which are exact."""
    return np.array([np.exp(-float((b - a) / scale)) for a, b in pairwise(centres)])
