"""A scale for each coordinate of a vector: less noise where the pairwise curve allows it.

Noise of scale s_j on coordinate j of a sum of contributions V costs an entry

    cost(x, x')  =  sum over j of |V_j(x) - V_j(x')| u_j,    u_j = 1 / s_j,

and the theorem of the pairwise curve takes any cost. So the rare levels of a histogram, which
reveal little about their neighbours, may have less noise than the common ones. The search lowers
the total of the scales: the losses of all pairs are linearised in u, the best u under this
linearisation is computed, and the steps are short. The result is only a direction: how large the
scales must be along it is decided by the pairwise curve itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pufferkit.beliefs.chain_class import ChainClass, Member
from pufferkit.beliefs.chain_parts import part_of
from pufferkit.beliefs.markov_chain import MarkovChain
from pufferkit.checks import Floats
from pufferkit.errors import NotApplicable
from pufferkit.influence.curve.engine import PartCurve

_SHORT = 12
_LONG = 10**6
_ROUNDS = 6
_NUDGE = 0.03
_LONGEST = 1.5
_GAIN = 2e-3
_STARTS = (0.99, 0.95, 0.85, 0.75)
_SHARPNESS = tuple(10.0**n for n in range(1, 9))
_NEWTON = 40


def relative_scales(
    beliefs: ChainClass,
    length: int,
    epsilon: float,
    contributions: Floats,
    start: float,
    settled: bool = False,
) -> Floats:
    """Scales in whose proportions the total is about the least.

    Parameters
    ----------
    beliefs, length, epsilon
        The beliefs, the number of entries, and the guarantee.
    contributions
        Row x is what state x adds to each coordinate.
    start
        A scale that hides all entries if every coordinate has it.
    settled
        Whether the entries that decide are those that have forgotten the start.
    """
    apart = np.abs(contributions[:, None, :] - contributions[None, :, :])
    corners: Sequence[Member] = beliefs.corners() or ()
    if length > _SHORT:
        # Only the limit of the variation of a long series, which is quick to compute.
        length = max(length, _LONG)
        corners = [_settled(member) if settled else member for member in corners]
    curves = [PartCurve(part_of(member, length), length) for member in corners]

    def losses(u: Floats) -> Floats:
        rows = [curve.losses([(length, apart @ u)]) for curve in curves]
        if any(row is None for row in rows):
            raise NotApplicable("a scale for each bin needs chains that mix; use one scale for all")
        largest: Floats = np.max([loss for row in rows for _, _, loss in row or ()], axis=0)
        if not largest.any():
            raise NotApplicable("nothing is to be hidden, so no bin needs a scale of its own")
        return largest

    def fitted(u: Floats) -> tuple[Floats, Floats]:
        """The same direction, scaled to lose about epsilon, and the losses there."""
        u = u * (epsilon / losses(u).max())
        return u, losses(u)

    best, now = fitted(np.full(contributions.shape[1], 1 / start))
    u = best
    for _ in range(_ROUNDS):
        slopes = [
            (losses(u * (1 + _NUDGE * own)) - now) / (_NUDGE * u[j])
            for j, own in enumerate(np.eye(len(u)))
        ]
        u, now = fitted(_best_under(u, now, np.array(slopes), epsilon))
        gain = (1 / best).sum() / (1 / u).sum() - 1
        if gain > 0:
            best = u
        if gain < _GAIN:
            break
    scales: Floats = 1 / best
    return scales


def _settled(member: Member) -> Member:
    """The same chain once its start is forgotten; itself if it never is."""
    try:
        return replace(member, chain=MarkovChain.steady(member.chain.transition))
    except ValueError:
        return member


def _best_under(u: Floats, losses: Floats, slopes: Floats, epsilon: float) -> Floats:
    """The u with the least total of 1 / u, close to this one, if losses were linear.

    Newton's method on the total with a logarithmic barrier. In units of u, so that all
    coordinates are about 1.
    """
    outside = ~np.eye(len(losses), dtype=bool)
    lines, room = slopes[:, outside].T * u / epsilon, (epsilon - losses)[outside] / epsilon
    own = np.eye(len(u))
    walls = np.vstack([lines, own, -own])
    ends = np.concatenate(
        [room + lines.sum(axis=1), np.full(len(u), _LONGEST), np.full(len(u), -1 / _LONGEST)]
    )
    starts = (np.full(len(u), share) for share in _STARTS)
    ratios = next((ratios for ratios in starts if (walls @ ratios < ends).all()), None)
    if ratios is None:
        return u
    weights = u.min() / u
    for sharpness in _SHARPNESS:
        for _ in range(_NEWTON):
            gaps = ends - walls @ ratios
            gradient = -sharpness * weights / ratios**2 + (1 / gaps) @ walls
            hessian = np.diag(2 * sharpness * weights / ratios**3) + (walls.T / gaps**2) @ walls
            move = np.linalg.solve(hessian, -gradient)
            gain = max(-float(gradient @ move), 0.0)
            nearest = float((walls @ move / gaps).max())  # 1 / nearest leads to the first wall
            ratios = ratios + move * min(1 / (1 + gain**0.5), 0.9 / max(nearest, 0.9))
            if gain < _GAIN:
                break
    best: Floats = u * ratios
    return best if np.isfinite(best).all() else u
