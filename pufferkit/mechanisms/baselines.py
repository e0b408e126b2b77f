"""Baselines without this library: entry DP, group DP, and the mechanism of GK16.

GK16 (Ghosh and Kleinberg, 2016) bounds how much each entry depends on its neighbours. Let
Gamma_ij be half the largest log-ratio of P(X_i = x | neighbours) when neighbour j changes. On a
chain Gamma has four values: the first entry given the second, which any start makes large, the last
given the one before, and entries between given the left and the right neighbour. The mechanism
applies if the spectral norm of Gamma is below 1. A release with event-level epsilon b is then
epsilon-private for epsilon = 2 b max_i sum_j Phi_ij with Phi = (I - Gamma)^-1. On graphs the rates
of `influence_curve` show the same with half the noise, so there it is not offered.
"""

from __future__ import annotations

from math import inf, pi, sqrt
from typing import Any, NamedTuple

import numpy as np

from pufferkit import checks
from pufferkit.beliefs.base import as_beliefs
from pufferkit.beliefs.chain_class import Member
from pufferkit.checks import Floats
from pufferkit.data.query import Query, Question, bound
from pufferkit.errors import NotApplicable
from pufferkit.influence.kernels import TINY, Kernel, row_log_ratios
from pufferkit.mechanisms.calibration import Calibration, about, check_states, checked
from pufferkit.mechanisms.release import Evidence, Guarantee
from pufferkit.rounding import last_passing, round_up
from pufferkit.threads import one_thread


def group_dp(
    query: Query | Question, epsilon: float, beliefs: Any = None, *, over: Any = None
) -> Calibration:
    """Hide a whole segment at once: L times the longest segment over epsilon. Needs no beliefs.

    Entries that were not observed do not move the answer, so they are not counted if the query was
    made with the `Series`.

    Parameters
    ----------
    query, epsilon
        As for the other mechanisms.
    beliefs
        A `BayesianNetwork` or a `MarkovRandomField`, or several: then L times the largest of their
        independent parts over epsilon. The value of an entry reveals nothing about entries of other
        parts, so when it changes, only its part does. It holds against every adversary who believes
        that the parts are independent, whatever they believe about each part.

    Examples
    --------
    >>> from pufferkit import MarkovRandomField, count
    >>> round(group_dp(count("active", [1000, 200]), epsilon=0.5).scale, 6)
    2000.0
    >>> homes = MarkovRandomField.ising([("Ada", "Ben"), ("Cem", "Dia")], coupling=2.0)
    >>> round(group_dp(count(1, 4), epsilon=0.5, beliefs=homes).scale, 6)
    4.0
    """
    epsilon = checks.privacy(epsilon)
    theta = None if beliefs is None else as_beliefs(beliefs)
    query = bound(query, None, over) if theta is None else about(theta, query, over)
    if theta is not None and theta.largest_part is not None:
        check_states(theta, query)
        return Calibration(
            "group_dp",
            epsilon,
            round_up(query.lipschitz * theta.largest_part / epsilon),
            query,
            theta,
            Evidence(
                length=theta.largest_part,
                notes=("every entry of an independent part changes",),
                bound="group",
            ),
            guarantee=Guarantee.GROUP,
        )
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


def entry_dp(query: Query | Question, epsilon: float, *, over: Any = None) -> Calibration:
    """Hide one entry as if it were independent of the others: L over epsilon.

    A baseline to compare with. It does **not** protect correlated entries.

    Examples
    --------
    >>> from pufferkit import count
    >>> round(entry_dp(count("active", 1000), epsilon=0.5).scale, 6)
    2.0
    """
    epsilon, query = checks.privacy(epsilon), bound(query, None, over)
    return Calibration(
        "entry_dp",
        epsilon,
        round_up(query.lipschitz / epsilon),
        query,
        evidence=Evidence(notes=("entries taken for independent",), bound="entry"),
        guarantee=Guarantee.ENTRY,
    )


@one_thread()
def gk16(beliefs: Any, query: Query | Question, epsilon: float, over: Any = None) -> Calibration:
    """Noise of the mechanism of Ghosh and Kleinberg (2016) on chains.

    Theorem: GK16. The scale is 2 L max_i x_i / epsilon with a vector x >= 1 + Gamma x, which the
    record holds.

    Raises
    ------
    NotApplicable
        If the spectral norm is not below 1 for some belief; the message has the norm.

    Examples
    --------
    >>> from pufferkit import MarkovChain, count
    >>> round(gk16(MarkovChain.steady([[0.6, 0.4], [0.4, 0.6]]), count(1, 100), epsilon=1).scale, 3)
    3.887
    """
    theta, query, epsilon = checked(beliefs, query, epsilon, over)
    length, spreads = query.longest, []
    for member in theta.members():
        sway = _sway(member, length)
        norm = sway.norm(length)
        vector = sway.row_sums(length) if norm < 1 else ()
        if not vector:
            raise NotApplicable(
                f"GK16 needs an influence matrix of spectral norm below 1; for {member.name} the "
                f"bound is {norm:.4g}"
            )
        spreads.append((max(entry for _, entry in vector), member.name, norm, max(sway), vector))
    largest, name, norm, gamma, _ = max(spreads, key=lambda spread: spread[0])
    return Calibration(
        "gk16",
        epsilon,
        round_up(query.lipschitz * 2 * largest / epsilon),
        query,
        theta,
        Evidence(
            name,
            length=query.longest,
            influence=gamma,
            notes=(f"norm {norm:.6g}",),
            bound="neighbours",
        ),
        verification_data={"sums": [[list(run) for run in vector] for *_, vector in spreads]},
    )


_LONG = 10_000
"""For longer series, norm and row sums are bounded for all lengths at once."""

_PIVOTS = 1_000
"""Pivots that are computed one by one; a matrix of more than `_LONG` entries has more."""


class _Sway(NamedTuple):
    """The entries of Gamma: how much a neighbour can change the conditional distribution."""

    first: float
    left: float
    right: float
    last: float

    def _beside(self, length: int) -> tuple[Floats, Floats]:
        """The diagonals below and above that of Gamma."""
        below, above = np.full(length - 1, self.left), np.full(length - 1, self.right)
        below[-1], above[0] = self.last, self.first
        return below, above

    def norm(self, length: int) -> float:
        """The spectral norm: of two bidiagonal matrices, as odd entries depend on even ones.

        If a lower bound shows that it is not below 1, that bound.
        """
        if length == 1 or max(self) in (0.0, inf):
            return 0.0 if length == 1 else max(self)
        below, above = self._beside(min(length, _LONG))
        rows = len(below) + 1
        wave = np.sin(
            pi * np.arange(1, rows + 1) / (rows + 1)
        )  # stretched most, except at the ends
        moved = np.append(above * wave[1:], 0.0) + np.append(0.0, below * wave[:-1])
        at_least = float(np.linalg.norm(moved) / np.linalg.norm(wave))
        if at_least >= 1:
            return at_least
        from scipy.linalg import eigh_tridiagonal  # noqa: PLC0415  (slow to load)

        largest = 0.0
        for start in (0, 1):  # rows start, start + 2, ...; row i has below[i - 1] and above[i]
            own = np.arange(start, rows, 2)
            to_left = np.where(own > 0, below[own - 1], 0.0)
            to_right = np.where(own < rows - 1, above[np.minimum(own, rows - 2)], 0.0)
            squares = to_left**2 + to_right**2
            shared = to_right[:-1] * to_left[1:]
            top = (len(own) - 1, len(own) - 1)
            (square,) = eigh_tridiagonal(squares, shared, True, "i", top)
            largest = max(largest, float(np.sqrt(square)))
        if length <= _LONG:
            return largest * (1 + 1e-12)
        inside = self.left + self.right
        least = max(largest, inside, 1e-9) * (1 + 1e-9)  # squares of less underflow
        if self._margin(least) >= 0:
            return least
        # The norm is at most the root of the largest row sum times the largest column sum.
        by_rows = max(inside, self.first, self.last)
        by_columns = max(inside, self.first + self.left, self.right + self.last)
        most = sqrt(by_rows * by_columns) * (1 + 1e-9)
        return last_passing(self._margin, most, least, 1e-9) if self._margin(most) >= 0 else inf

    def _margin(self, norm: float) -> float:
        """At least 0 only if the norm is below this one at every length beyond `_LONG`.

        Gamma Gamma^T falls into two tridiagonal matrices, of odd and of even rows, with left^2 +
        right^2 on the diagonal and left * right beside it, except at the ends. norm^2 I minus such
        a matrix is positive definite if all its pivots are positive. Between the ends they are
        pivot' = c - (left right)^2 / pivot, c = norm^2 - left^2 - right^2: increasing, with two
        fixed points if norm > left + right, and above the lower one it runs monotonically to the
        upper. So all later pivots are at least the smaller of the last one and the upper.
        """
        square = (norm * (1 - 1e-12)) ** 2
        middle = square - self.left**2 - self.right**2
        shared = (self.left * self.right) ** 2
        pivot = square - self.first**2
        if middle**2 <= 4 * shared or middle <= 0 or pivot <= 0:
            return -1.0
        root = sqrt(middle**2 - 4 * shared)
        lower, upper = (middle - root) / 2, (middle + root) / 2
        pivot = middle - (self.first * self.left) ** 2 / pivot
        for _ in range(_PIVOTS):
            if pivot <= lower:
                return -1.0
            pivot = middle - shared / pivot
        return square - self.last**2 - (self.right * self.last) ** 2 / min(pivot, upper)

    def row_sums(self, length: int) -> tuple[tuple[int, float], ...]:
        """An x >= 1 + Gamma x, as runs of equal entries: at least the row sums of (I - Gamma)^-1.

        Far from both ends of a long series x is constant. If the ends of a very long one reach
        further, one constant serves all rows.
        """
        if length == 1 or max(self) == 0:
            return ((length, 1.0 + 1e-12),)
        from scipy.linalg import solve_banded  # noqa: PLC0415  (slow to load)

        rows = min(length, _LONG)
        below, above = self._beside(rows)
        bands = np.ones((3, rows))
        bands[0, 1:], bands[2, :-1] = -above, -below
        exact = solve_banded((1, 1), bands, np.ones(rows))
        middle = rows // 2
        apart = np.abs(exact - exact[middle]) > 1e-11
        first = int(np.flatnonzero(apart[:middle]).max(initial=-1)) + 1
        last = middle + int(np.flatnonzero(apart[middle:]).min(initial=rows - middle)) - 1
        exact[first : last + 1] = exact[first : last + 1].max()
        if length > rows and last - first < 4:
            edges = (self.left + self.right, self.first, self.last)
            exact, first, last = np.full(rows, 1 / (1 - max(edges))), 0, rows - 1
        for slack in (1e-10, 1e-8, 1e-6):
            x = exact * (1 + slack)
            needed = 1 + np.append(above * x[1:], 0.0) + np.append(0.0, below * x[:-1])
            if bool((x >= needed * (1 + 1e-12)).all()):
                runs = [(1, value) for value in x.tolist()]
                same = (last - first + 1 + length - rows, float(x[first]))
                return (*runs[:first], same, *runs[last + 1 :])
        return ()


def _sway(member: Member, length: int) -> _Sway:
    """Half the largest log-ratios of P(x_i | neighbours) when one neighbour changes."""
    matrix = member.chain.transition
    if length == 1:
        return _Sway(0.0, 0.0, 0.0, 0.0)
    if not member.any_start and member.chain.has_underflow:
        return _Sway(inf, inf, inf, inf)
    last = row_log_ratios(Kernel(matrix, matrix > 0)).max()
    if member.any_start:
        # The first node given its right neighbour, over all starts: the projective diameter of P.
        first = _finite_sum(row_log_ratios(Kernel(matrix.T, matrix.T > 0)))
    else:
        first = _largest_ratio((member.chain.initial[:, None] * matrix).T)
    left = right = 0.0
    if length > 2:
        left = max(_largest_ratio(matrix * column) for column in matrix.T)
        right = max(_largest_ratio(row * matrix.T) for row in matrix)
    return _Sway(*(float(ratio) / 2 * (1 + 1e-12) for ratio in (first, left, right, last)))


def _finite_sum(columns: Floats) -> float:
    with np.errstate(invalid="ignore"):  # a value that some neighbour makes impossible
        total = columns + columns.T
    return float(total.max()) if np.isfinite(total).all() else inf


def _largest_ratio(joint: Floats) -> float:
    """Largest log-ratio of the distributions of a middle entry, one row for each neighbour.

    Over all pairs of rows: the largest entry of a column over its smallest.
    """
    possible = joint[joint.sum(axis=1) > 0]
    if len(possible) < 2:
        return 0.0
    given = possible / possible.sum(axis=1, keepdims=True)
    most, least = given.max(axis=0), given.min(axis=0)
    least, most = least[most > 0], most[most > 0]
    return float(np.log(most / least).max()) if (least >= TINY).all() else inf
