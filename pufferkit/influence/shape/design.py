"""The search of a shape: which directions, and how loud the noise of each. It carries no proof.

*Scales.* Noise of scale s_j costs about in proportion to u_j = 1 / s_j, whatever the pair, and the
error is about a sum of c_j / u_j. So the losses of all pairs are made linear in u, the best u close
by is computed, and all scales are brought back to a loss of epsilon, in rounds of ever shorter
steps. Where the largest loss changes from pair to pair, no slope of it would lead further.

*Directions.* Two bases of what is asked for are tried: the *net shifts*, how far an entry moves the
expected answer of a long series, by singular vectors; and the means of the regimes, by singular
vectors, then the rest, in which they agree, along rare levels. From the best of them every number
of every direction is moved, all at once: in steps of a linear programme with the slopes of the
error and of the losses of all pairs, no number by more than a share that shrinks where a step
gains nothing. The answer is rounded to whole numbers of one to three digits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from time import process_time

import numpy as np

from pufferkit.checks import Floats
from pufferkit.influence.curve.engine import Part
from pufferkit.influence.curve.steps import Contaminated, Transport
from pufferkit.influence.progress import Progress

Losses = Callable[[Floats], Floats]
"""From scales to the losses of all pairs of secrets."""

_NUDGE, _TURN, _FAR = 0.02, 0.005, 0.3
"""For slopes of scales and of directions, and the share of the largest loss above which that of a
pair may come to bind."""

_FARTHEST, _SHORTEST = 2.0, 1.02
"""Factors by which a scale moves in the first round, and at which the search ends."""

_INSIDE, _SHARPNESS, _NEWTON = 0.1, tuple(10.0**n for n in range(1, 7)), 30
"""Where Newton's method begins between the walls, its barriers, and its most steps."""

_FARTHEST_TURN, _SHORTEST_TURN, _TURNS = 0.2, 0.004, 40
"""Shares of its length by which a direction turns in the first step, and at which the search ends;
and the most steps."""

_CLOSE, _TRIES = 0.01, 8
"""Scales are brought to a loss within this share of epsilon."""

_GAIN = 1e-3
"""Rounds that gain less than this share take shorter steps; Newton's method ends there."""

_APART = 1e-3
"""Directions in which regimes differ by less than this share of the most count as agreeing."""


def best_scales(
    losses: Losses,
    error: Callable[[Floats], float],
    start: Floats,
    epsilon: float,
    *,
    rounds: int = 12,
    seconds: float = 60.0,
    progress: Progress | None = None,
) -> Floats | None:
    """Scales of about the least error whose losses are at most about epsilon; ``None`` if none.

    Parameters
    ----------
    losses
        The losses of all pairs of secrets at these scales; infinite where there is no bound.
    error
        What is to be small.
    start
        Where to begin.
    epsilon
        The most any pair may lose.
    rounds, seconds
        The search ends after so many rounds, and so many seconds of the processor.
    progress
        Called with the number of rounds, and the most there will be.
    """
    ends = process_time() + seconds
    scales, now = _fitted(losses, start, epsilon)
    best, least, farthest = scales, np.inf, _FARTHEST
    for turn in range(rounds):
        if progress is not None:
            progress(turn + 1, rounds)
        value = error(scales) if scales is not None else np.inf
        gain = least - value
        if gain > 0 and scales is not None:
            best, least, at = scales, value, now
        else:
            farthest **= 0.5
        if gain < _GAIN * least:
            farthest **= 0.5
        if not np.isfinite(least) or farthest < _SHORTEST or process_time() > ends:
            break
        assert best is not None
        moved = best * _moved(losses, error, best, at, epsilon, farthest)
        scales, now = _fitted(losses, moved, epsilon)
    return best


def _moved(
    losses: Losses,
    error: Callable[[Floats], float],
    scales: Floats,
    now: Floats,
    epsilon: float,
    farthest: float,
) -> Floats:
    """By which factors to move the scales: the best if errors and losses were those of Laplace.

    In rho_j, by which the rate of coordinate j rises, the least sum of c_j / rho_j with all losses
    at most epsilon, which are linear in rho; c_j is the slope of the error along log s_j. Newton's
    method with a logarithmic barrier, as the problem is convex.
    """
    falls, costs, here = np.zeros((len(now), len(scales))), np.zeros(len(scales)), error(scales)
    for j in range(len(scales)):
        nudged = scales.copy()
        nudged[j] *= 1 + _NUDGE
        falls[:, j] = np.maximum(now - losses(nudged), 0.0) / (epsilon * _NUDGE)
        costs[j] = (error(nudged) - here) / (here * _NUDGE)
    near = now > _FAR * now.max()
    lines, room = falls[near], (1 + _CLOSE) - now[near] / epsilon
    if not (np.isfinite(lines).all() and np.isfinite(costs).all()):
        return np.ones(len(scales))
    own, costs = np.eye(len(scales)), np.maximum(costs, 1e-9)
    walls = np.vstack([lines, own, -own])
    ends = np.concatenate(
        [
            np.maximum(room, 0.0) + lines.sum(axis=1),
            np.full(len(own), farthest),
            np.full(len(own), -1 / farthest),
        ]
    )
    ratios = np.full(len(own), 1 - _INSIDE * (1 - 1 / farthest))
    for sharpness in _SHARPNESS:
        for _ in range(_NEWTON):
            gaps = ends - walls @ ratios
            gradient = -sharpness * costs / ratios**2 + (1 / gaps) @ walls
            hessian = np.diag(2 * sharpness * costs / ratios**3) + (walls.T / gaps**2) @ walls
            move = np.linalg.solve(hessian, -gradient)
            gain = max(-float(gradient @ move), 0.0)
            nearest = float((walls @ move / gaps).max())  # 1 / nearest leads to the first wall
            ratios = ratios + move * min(1 / (1 + gain**0.5), 0.9 / max(nearest, 0.9))
            if gain < _GAIN:
                break
    return np.asarray(1 / ratios) if np.isfinite(ratios).all() else np.ones(len(scales))


def best_directions(
    losses: Losses,
    error: Callable[[Floats], float],
    start: Floats,
    epsilon: float,
    *,
    seconds: float,
    progress: Progress | None = None,
) -> Floats:
    """Directions of unit scale, in columns, of less error than those to begin with, if there are.

    Parameters
    ----------
    losses, error
        Of directions of unit scale: those of all pairs of secrets, and what is to be small.
    start
        Directions whose losses are about epsilon.
    epsilon, seconds, progress
        As for `best_scales`.
    """
    from scipy.optimize import linprog  # noqa: PLC0415  (loaded when first used)

    def fitted(rates: Floats) -> tuple[Floats | None, Floats]:
        factors, now = _fitted(lambda s: losses(rates / s), np.ones(1), epsilon)
        return (None if factors is None else rates / factors), now

    begun, farthest = process_time(), _FARTHEST_TURN
    ends, rates = begun + seconds, start
    least, now = error(rates), losses(rates)
    if begun + 4 * rates.size * (process_time() - begun) > ends:
        return rates  # not even two steps
    for turn in range(_TURNS):
        if progress is not None:
            progress(turn + 1, _TURNS)
        # Along what is told least, directions that tell much turn least.
        frame = np.linalg.svd(rates)[0]
        told = np.linalg.norm(frame.T @ rates, axis=1)
        sizes = np.minimum(told[:, None], np.linalg.norm(rates, axis=0))
        slopes, falls = [], []
        # Losses have kinks where regimes agree, so each way has a slope.
        for way, place in product((_TURN, -_TURN), range(rates.size)):
            turned = np.zeros_like(rates)
            turned.flat[place] = way * sizes.flat[place]
            nudged = rates + frame @ turned
            slopes.append((error(nudged) / least - 1) / _TURN)
            falls.append((losses(nudged) - now) / (epsilon * _TURN))
            if process_time() > ends:
                return rates
        near = now > _FAR * now.max()
        lines, room = np.array(falls).T[near], 1 + _CLOSE - now[near] / epsilon
        if not (np.isfinite(lines).all() and np.isfinite(slopes).all()):
            return rates
        better: tuple[Floats, Floats, float] | None = None
        while better is None and farthest > _SHORTEST_TURN:
            step = linprog(slopes, A_ub=lines, b_ub=np.maximum(room, 0.0), bounds=(0, farthest)).x
            if step is not None:
                more, less = step.reshape(2, *rates.shape)
                moved, seen = fitted(rates + frame @ ((more - less) * sizes))
                if moved is not None and (value := error(moved)) < least * (1 - _GAIN):
                    better = moved, seen, value
            farthest = farthest * 1.3 if better else farthest / 2
        if better is None:
            break
        rates, now, least = better
    return rates


def _fitted(losses: Losses, scales: Floats, epsilon: float) -> tuple[Floats | None, Floats]:
    """Scales in these proportions at which the largest loss is about epsilon, and the losses."""
    kept: tuple[Floats | None, Floats] = None, np.zeros(0)
    for _ in range(_TRIES):
        now = losses(scales)
        largest = float(now.max())
        if not largest < np.inf:
            scales = scales * 2
            continue
        if not largest > 0:
            return None, now
        kept = scales, now
        if abs(largest / epsilon - 1) < _CLOSE:
            break
        scales = scales * min(max(largest / epsilon, 0.2), 5.0)
    return kept


@dataclass(frozen=True)
class Regimes:
    """What the search knows of hidden regimes: means over the kernels of a hull.

    Attributes
    ----------
    emission
        Row z is the distribution of an entry in regime z.
    weights
        How often each regime is in force.
    shifts
        Row x is how far an entry x moves the expected histogram of a long series; ``None`` where
        kernels are not known.
    """

    emission: Floats
    weights: Floats
    shifts: Floats | None

    @classmethod
    def of(cls, part: Part) -> Regimes | None:
        """Those of a part; ``None`` where the emission is not known. A state may be its entry.

        ``None`` also where a side differs from entry to entry, as with a given start.
        """
        emission = part.emission
        if any(own is not None and own.settled > 2 for own in (part.left, part.right)):
            return None
        if isinstance(emission, Contaminated):
            h, k = emission.rows, emission.states
            shown = np.mean([own[:h, :k] for own in emission.programmes.kernels], axis=0)
        elif isinstance(emission, Transport):
            shown = np.mean(emission.kernels, axis=0)
        elif emission is None and part.clock is None and part.sojourns is None:
            shown = np.eye(len(part.possible[0]))
        else:
            return None
        shown = shown / shown.sum(axis=1, keepdims=True)
        sides = [None if own is None else own.later(1) for own in (part.left, part.right)]
        if not all(isinstance(own, Transport) for own in sides):
            return cls(shown, np.full(len(shown), 1 / len(shown)), None)
        left, right = (np.mean(own.kernels, axis=0) for own in sides)  # type: ignore[union-attr]
        weights = _stationary(right)
        return cls(shown, weights, _shifts(left, right, shown, weights))


def _stationary(kernel: Floats) -> Floats:
    """The stationary distribution, by least squares."""
    size = len(kernel)
    system = np.vstack([kernel.T - np.eye(size), np.ones(size)])
    weights = np.linalg.lstsq(system, np.append(np.zeros(size), 1.0), rcond=None)[0]
    weights = np.maximum(weights, 1e-12)
    return np.asarray(weights / weights.sum())


def _shifts(left: Floats, right: Floats, emission: Floats, weights: Floats) -> Floats:
    size, k = emission.shape
    own, here = np.eye(size), np.outer(np.ones(size), weights)
    joint = (weights[:, None] * emission).T
    given = joint / np.maximum(joint.sum(axis=1, keepdims=True), 1e-300)
    sums = sum(np.linalg.pinv(own - side + here) - own for side in (left, right))
    return np.asarray(given @ sums @ emission + np.eye(k))


def wanted_basis(wanted: Floats) -> Floats:
    """An orthonormal basis of what the answer tells of a histogram of known total.

    Row x of ``wanted`` is what an entry x adds to each number of the answer.
    """
    centred = wanted - wanted.mean(axis=0)
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    return np.asarray(left[:, sizes > 1e-9 * max(float(sizes.max()), 1e-300)])


def bases(regimes: Regimes, wanted: Floats) -> list[tuple[Floats, Floats]]:
    """Directions to try, in columns, and proportions of scales to begin with."""
    inside = wanted_basis(wanted)
    means = (regimes.emission - regimes.weights @ regimes.emission) @ inside
    _, sizes, rows = np.linalg.svd(np.sqrt(regimes.weights)[:, None] * means)
    count = int((sizes > _APART * max(float(sizes.max()), 1e-300)).sum())
    apart, agree = rows[:count].T, rows[count:].T
    if agree.size:
        common = regimes.weights @ regimes.emission + 1e-3
        metric = agree.T @ inside.T @ (inside / common[:, None]) @ agree
        agree = agree @ np.linalg.eigh(metric)[1]
    found = [inside @ np.hstack([apart, agree])]
    if regimes.shifts is not None:
        x, other = np.triu_indices(len(regimes.shifts), 1)
        moved = (regimes.shifts[x] - regimes.shifts[other]) @ inside
        found.append(inside @ np.linalg.svd(moved)[2].T)
    return [(basis, _begin(regimes, basis)) for basis in found]


def _begin(regimes: Regimes, basis: Floats) -> Floats:
    """Scales in proportion to the root of how far an entry moves each coordinate."""
    told = regimes.emission if regimes.shifts is None else regimes.shifts
    moved = np.ptp(told @ basis, axis=0)
    return np.asarray(np.sqrt(moved + 0.02 * moved.max() + 1e-12))


def whole_directions(basis: Floats, digits: int) -> Floats:
    """Whole numbers of so many digits in proportion to the columns."""
    most = np.abs(basis).max(axis=0)
    return np.asarray(np.round(basis / most * (10**digits - 1)))
