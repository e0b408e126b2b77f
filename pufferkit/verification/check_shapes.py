"""The proof of shaped noise: what hidden regimes show is bounded anew, then limits and plans.

An entry x adds row x of a whole matrix V to coordinates with sech noise of scales s. Exchanging a
regime z for y costs at most the least of three bounds (SHAPE Theorem S; proofs in docs/theory.md).
With b_x = (V_x - mu_y) / s around the mean of y, |.| sums over coordinates, v the mean of
sum_j b_xj^2 under y, D the largest |V_x - V_x'|_s,

    F1  =  max over signs of log E_z e^{sign b}  +  v / 2,
    F2  =  log(1 + e^{v/2} (|E_z b| + sum_x (E_z - E_y)^+ r_x + sum_x (E_z - E_y)^- r_x w_x)),
           r = e^{|b|} - 1 - |b|,  w = sum_j b_j^2 / |b|^2,
    F3  =  the transport step at the cost of entries, by the recorded plan.

For many coordinates the first term of F1 is replaced by |E_z b| + min(D^2 / 8, c (e^D - 1 - D) /
D^2), c the sum of the absolute covariances of b under z. Nothing here is read from the engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import isfinite
from typing import Any

import numpy as np

from pufferkit.checks import Floats
from pufferkit.mechanisms.release import Release
from pufferkit.verification.check_curves import ends_of_part, loss_of_part
from pufferkit.verification.check_graphs import models_of
from pufferkit.verification.check_steps import closed, evaluated
from pufferkit.verification.check_windows import loss_by_windows
from pufferkit.verification.claims import TOLERANCE, Allowance, BadBeliefs, Claim, largest

_MOST_CORNERS = 9
_ROOM = 1e-12
"""For each unit of the largest exponent, more than the roundings of sums of a hundred terms."""

_LARGEST = 300.0
_MOST_WHOLE = 1 << 20
_CLOSE = 1e-6


class _RecordedShape:
    """What entries add, the mixtures that got noise, and their scales, of a record."""

    def __init__(self, record: Release) -> None:
        told = (record.verification_data or {})["shape"]
        self.scales, self.unit = [Fraction(text) for text in told["scales"]], Fraction(told["unit"])
        self.added, self.mix = (np.array(told[name], np.int64) for name in ("added", "mix"))
        self.coordinates = np.array(told["coordinates"], float)
        self.reach: int | None = told["reach"]
        many, mixed = len(record.labels), len(self.scales)
        if min(*self.scales, self.unit) <= 0:
            raise TypeError("the scales and the unit of a shape are above 0")
        if max(np.abs(self.added).max(), np.abs(self.mix).max()) > _MOST_WHOLE:
            raise TypeError("the matrices of a shape have small numbers")
        shapes = self.added.shape[1:], self.mix.shape, self.coordinates.shape
        if shapes != ((many,), (many, mixed), (mixed,)):
            raise TypeError("the matrices of a shape have a number for each label and each scale")
        if (self.reach or 1) > max(record.lengths):
            raise TypeError("windows reach over no more entries than the series has")


def by_directions(claim: Claim) -> float:
    """The recorded scale if the recorded proof keeps the loss within epsilon, else a larger one."""
    record, length = claim.record, claim.longest
    theta: Any = claim.beliefs
    if models_of(theta):
        raise BadBeliefs("are networks, not chains with hidden regimes, which shaped noise needs")
    theta.check_length(length)
    shape = _RecordedShape(record)
    _check_sums(claim, shape)
    directions = (shape.added @ shape.mix).astype(float)
    # Recorded scales with room for rounding, as for other mechanisms.
    rates = np.array([float(1 / s) for s in shape.scales]) / (1 + TOLERANCE) * (1 + 1e-15)
    apart = np.abs(directions[:, None, :] - directions[None, :, :])
    cost = apart @ rates * (1 + _ROOM)
    if not claim.lipschitz / record.scale >= float(cost.max()) * (1 - TOLERANCE):
        raise TypeError("its scale spends less on an entry than the noise of its coordinates")
    (proofs,), reach, runs, losses = claim.proof["curve"], shape.reach, [(length, cost)], []
    if reach is not None and record.observed not in (None, tuple(record.lengths)):
        raise BadBeliefs("have entries that were not observed, for which windows have no theorem")
    for part, own in zip(theta.parts(length), proofs, strict=True):
        emission: Any = part.emission
        known_kind = emission is not None and emission.kind in ("plans", "contaminated")
        if not known_kind and (emission is not None or reach is None):
            raise BadBeliefs("hide no regimes with entries of known distributions")
        known = part
        if emission is not None:
            plans = (own or {}).get("emission")
            hidden: Any = _Hidden(emission, directions, rates, plans, claim.work)
            known = replace(part, emission=hidden)
        if reach is None:
            losses.append(loss_of_part(known, runs, own, claim.work))
            continue
        ends = ends_of_part(known, runs, own, claim.work)
        scaled, lengths = directions * rates, record.lengths
        losses.append(loss_by_windows(part, scaled, lengths, reach, ends, claim.work))
    worst = largest(losses)
    how = "the recorded proof" if reach is None else f"windows of {reach:,} entries to both sides"
    claim.checks.append(
        f"shaped: what entries show in {len(rates)} directions, bounded anew, by {how} for "
        f"{theta.description}, over segments of up to {length:,} entries; the largest loss is "
        f"{worst:.9g}"
    )
    return claim.scale_for(worst)


def _check_sums(claim: Claim, shape: _RecordedShape) -> None:
    """The question determines what entries add; the answer as drawn has the noisy coordinates."""
    weights, states = claim.query.weights or {}, claim.beliefs.states
    nothing = (Fraction(0),) * len(claim.record.labels)
    rows = [[w / shape.unit for w in weights.get(state, nothing)] for state in states]
    if not weights or rows != shape.added.tolist():
        raise TypeError("what entries add, in units, is not that of the question")
    told = np.array([float(Fraction(number) / shape.unit) for number in claim.record.raw])
    size = np.abs(shape.mix.T) @ np.abs(told) + 1
    if not np.all(np.abs(shape.mix.T @ told - shape.coordinates) <= _CLOSE * size):
        raise TypeError("the coordinates are not those of the answer as drawn")


class _Hidden:
    """What exchanging a regime costs, bounded by the code of this file."""

    kind = "given"

    def __init__(
        self, emission: Any, directions: Floats, rates: Floats, plans: Any, work: Allowance
    ) -> None:
        self.emission, self.directions, self.rates = emission, directions, rates
        self.plans, self.work = plans, work

    def __call__(self, cost: Floats) -> Floats:
        bound = evaluated(self.emission, cost, self.plans, self.work)
        self.work.spend(1e3 * len(bound) ** 2 * 2.0 ** min(len(self.rates), _MOST_CORNERS))
        own = np.max([self._of(rows) for rows in self._rows()], axis=0)
        bound = np.where(own < bound, own, bound)
        return closed(bound)

    def _rows(self) -> Sequence[Floats]:
        """For each vertex the distributions of an entry: of regime z, rows z, 0 to z, n - 1."""
        if self.emission.kind == "plans":
            return [kernel[:, None, :] for kernel in self.emission.kernels]
        h, k = self.emission.rows, self.emission.states
        kernels = self.emission.programmes.kernels
        return [own[:h, None, :k] + own[0, k] * np.eye(k)[None] for own in kernels]

    def _of(self, rows: Floats) -> Floats:
        """The largest of the bounds over the rows of each two regimes."""
        h, many, k = rows.shape
        above = rows.reshape(h * many, k)
        table = np.zeros((h, h))
        for y in range(h):
            for below in rows[y]:
                bounds = regime_bounds(above, below, self.directions, self.rates)
                table[:, y] = np.maximum(table[:, y], bounds.reshape(h, many).max(axis=1))
        return table


def regime_bounds(above: Floats, below: Floats, directions: Floats, rates: Floats) -> Floats:
    """The least of F1 and F2 of every row of ``above`` against the row ``below``, rounded up."""
    with np.errstate(all="ignore"):
        centred = directions - np.rint(directions.mean(axis=0))
        b = (centred - below @ centred / below.sum()) * rates
        far, square = np.abs(b).sum(axis=1), (b**2).sum(axis=1)
        most = float(far.max())
        if not (isfinite(most) and 2 * most <= _LARGEST):
            return np.full(len(above), np.inf)
        half, shift = float(below @ square) / 2, np.abs(above @ b).sum(axis=1)
        room = _ROOM * (1 + most) * (len(b) + len(rates))
        first = half + (
            _corners(above, b)
            if len(rates) <= _MOST_CORNERS
            else shift + _second(above, b, directions * rates)
        )
        beyond = np.expm1(far) - far
        fall = beyond * np.minimum(1, square / np.where(far > 0, far, 1.0) ** 2)
        moved = above - below
        curved = np.maximum(moved, 0) @ beyond + np.maximum(-moved, 0) @ fall
        second = np.log1p(np.exp(half) * (shift + curved + room * (1 + beyond.max())))
        bounds = np.minimum(np.where(np.isnan(first), np.inf, first), second) + room
    return np.where(np.isnan(bounds), np.inf, np.maximum(bounds, 0.0))


def _corners(above: Floats, b: Floats) -> Floats:
    """The largest log-mean of an exponential of signed sums."""
    found = np.full(len(above), -np.inf)
    for sign in product((-1.0, 1.0), repeat=b.shape[1]):
        exponent = b @ np.array(sign)
        top = float(exponent.max())
        found = np.maximum(found, np.log(above @ np.exp(exponent - top) + 1e-290) + top)
    return found


def _second(above: Floats, b: Floats, scaled: Floats) -> Floats:
    """What the exponential adds to its mean: by the range of its exponent, or by variances."""
    spread = float(np.abs(scaled[:, None, :] - scaled[None, :, :]).sum(axis=2).max())
    more = np.expm1(spread) - spread
    by_variance = more / spread**2 if spread > 1e-3 else 0.5 + spread
    found = []
    for row in above:
        around = b - row @ b
        covariance = np.abs((around * row[:, None]).T @ around).sum()
        found.append(min(spread**2 / 8, float(covariance) * by_variance))
    return np.array(found) * (1 + _ROOM)
