"""What one would use without this library: entry DP, group DP, and the mechanism of GK16.

GK16 (Ghosh and Kleinberg, 2016) bounds how much each entry sways its neighbours' conditional
distributions. Let gamma be half the largest log-ratio of P(X_i = x | both neighbours) when one
neighbour changes. With Gamma the T x T matrix that has gamma beside the diagonal, the mechanism
applies if the spectral norm 2 gamma cos(pi / (T + 1)) is below 1. A b-entry-private release is then
epsilon-private for epsilon = 2 b max_i sum_j Phi_ij with Phi = (I - Gamma)^-1.
"""

from __future__ import annotations

from math import cos, inf, pi
from typing import Any

import numpy as np

from pufferkit import checks
from pufferkit.beliefs.chain_class import Member
from pufferkit.checks import Floats
from pufferkit.data.queries import Query
from pufferkit.errors import NotApplicable
from pufferkit.influence.quilts.powers import Kernel, row_log_ratios
from pufferkit.mechanisms.calibration import Calibration, chains_only, check_states
from pufferkit.mechanisms.evidence import Evidence, Guarantee
from pufferkit.rounding import round_up


def group_dp(query: Query, epsilon: float) -> Calibration:
    """Hide a whole segment at once: L times the longest segment over epsilon. Needs no beliefs.

    Entries that were not observed do not move the answer, so they are not counted if the query was
    made with the `Series`.

    Examples
    --------
    >>> from pufferkit import count
    >>> round(group_dp(count("active", [1000, 200]), epsilon=0.5).scale, 6)
    2000.0
    """
    epsilon = checks.privacy(epsilon)
    most = query.longest if query.observed is None else max(query.observed)
    return Calibration(
        "group_dp",
        epsilon,
        round_up(query.lipschitz * most / epsilon),
        query,
        evidence=Evidence(
            length=query.longest,
            notes=("every entry of a segment changes",),
            bound="group",
            counted="observed" if query.missing else None,
        ),
        guarantee=Guarantee.GROUP,
    )


def entry_dp(query: Query, epsilon: float) -> Calibration:
    """Hide one entry as if the others said nothing about it: L over epsilon.

    A baseline to compare with. It does **not** protect correlated entries.

    Examples
    --------
    >>> from pufferkit import count
    >>> round(entry_dp(count("active", 1000), epsilon=0.5).scale, 6)
    2.0
    """
    epsilon = checks.privacy(epsilon)
    return Calibration(
        "entry_dp",
        epsilon,
        round_up(query.lipschitz / epsilon),
        query,
        evidence=Evidence(notes=("entries taken for independent",), bound="entry"),
        guarantee=Guarantee.ENTRY,
    )


def gk16(beliefs: Any, query: Query, epsilon: float) -> Calibration:
    """Noise of the mechanism of Ghosh and Kleinberg (2016) on a class of chains.

    Raises
    ------
    NotApplicable
        If the spectral norm is not below 1 for some chain; the message has the norm.

    Examples
    --------
    >>> from pufferkit import MarkovChain, count
    >>> round(gk16(MarkovChain.steady([[0.6, 0.4], [0.4, 0.6]]), count(1, 100), epsilon=1).scale, 3)
    3.887
    """
    epsilon = checks.privacy(epsilon)
    theta = chains_only(beliefs, "gk16")
    check_states(theta, query)
    gammas = [(_gamma(member, query.longest), member.name) for member in theta.members()]
    gamma, name = max(gammas, key=lambda pair: pair[0])
    norm = 2 * gamma * cos(pi / (query.longest + 1)) if query.longest > 1 else 0.0
    if not norm < 1:
        raise NotApplicable(
            f"GK16 needs an influence matrix of spectral norm below 1; for {name} it is {norm:.4g}"
        )
    spread = 2 * _largest_row_sum(gamma, query.longest)
    return Calibration(
        "gk16",
        epsilon,
        round_up(query.lipschitz * spread / epsilon),
        query,
        theta,
        Evidence(
            name,
            length=query.longest,
            influence=gamma,
            notes=(f"norm {norm:.6g}",),
            bound="neighbours",
        ),
    )


def _gamma(member: Member, length: int) -> float:
    """Half the largest log-ratio of P(x_i | neighbours) when one neighbour changes."""
    matrix = member.chain.transition
    if length == 1:
        return 0.0
    if not member.any_start and member.chain.has_underflow:
        return inf
    # The last node given its left neighbour: the rows of P.
    largest = row_log_ratios(Kernel(matrix, matrix > 0)).max()
    if member.any_start:
        # The first node given its right neighbour, over all starts: the projective diameter of P.
        columns = row_log_ratios(Kernel(matrix.T, matrix.T > 0))
        largest = max(largest, _finite_sum(columns))
    else:
        joint = (member.chain.initial[:, None] * matrix).T
        joint = joint[joint.sum(axis=1) > 0]
        given = joint / joint.sum(axis=1, keepdims=True)
        largest = max(largest, row_log_ratios(Kernel(given, given > 0)).max())
    if length > 2:
        largest = max(largest, _between(matrix))
    return float(largest) / 2 * (1 + 1e-12)


def _finite_sum(columns: Floats) -> float:
    total = columns + columns.T
    return float(total.max()) if np.isfinite(total).all() else inf


def _between(matrix: Floats) -> float:
    """Largest log-ratio of P(x | left, right) when one of the two neighbours changes."""
    largest, size = 0.0, len(matrix)
    for other in range(size):
        # Distributions of the middle given left = other and each right, then given each left and
        # right = other.
        for joint in (matrix[other] * matrix.T, matrix * matrix[:, other]):
            possible = joint[joint.sum(axis=1) > 0]
            if len(possible) > 1:
                given = possible / possible.sum(axis=1, keepdims=True)
                largest = max(largest, row_log_ratios(Kernel(given, given > 0)).max())
    return float(largest)


def _largest_row_sum(gamma: float, length: int) -> float:
    """Largest row sum of (I - Gamma)^-1, the middle of the solution of (I - Gamma) x = 1."""
    if gamma == 0:
        return 1.0
    if gamma < 0.5 and length > 10_000:
        return 1 / (1 - 2 * gamma)  # the limit, which the row sums never exceed
    # x_1 .. x_T is symmetric and increases to the middle: eliminate from the end inwards.
    slope, offset, sums = 0.0, 0.0, []
    for _ in range(length):
        pivot = 1 - gamma * slope
        slope, offset = gamma / pivot, (1 + gamma * offset) / pivot
        sums.append((slope, offset))
    x = 0.0
    largest = 0.0
    for step, start in reversed(sums):
        x = start + step * x
        largest = max(largest, x)
    return largest * (1 + 1e-12)
