"""The infinity-Wasserstein distance between distributions of vectors, in L1.

W(mu, nu) is the least d such that all mass of mu can be moved to nu along pairs (x, y) with ||x -
y||_1 <= d. For one d that is a flow from the values of mu to those of nu through the pairs within
d: all mass passes, or it does not. Masses are whole numbers, so the flow is exact, and the rarest
values and the ties between sums of probabilities, which decide W, are as they are. The least d at
which it passes is one of the distances between two values; bisection finds it.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from pufferkit.errors import NotApplicable
from pufferkit.rounding import least_passing

Vector = tuple[Fraction, ...]
Mass = tuple[Vector, int]
"""A value, and its mass up to a factor that all masses of a distribution share."""

MOST_PAIRS = 20_000
"""Most pairs of values between which mass may have to move; a flow through them takes a second."""


def bottleneck_distance(
    first: Sequence[Mass], second: Sequence[Mass], least: Fraction = Fraction(0)
) -> Fraction:
    """W-infinity in L1, or ``least`` if that is more.

    Theorem: W-infinity of vectors. Two of the values are that far apart, so any smaller
    distance leaves some mass unmoved.

    Parameters
    ----------
    first, second
        Values with masses in whole numbers; each distribution is rescaled to the same sum.
    least
        Where the search begins; one flow shows that W is no more.
    """
    if len(first) * len(second) > MOST_PAIRS:
        raise NotApplicable(
            f"answers with {len(first):,} and {len(second):,} values have more than "
            f"{MOST_PAIRS:,} pairs to move mass between; ask fewer coordinates, or use "
            "influence_curve"
        )
    ones, others = (sum(mass for _, mass in rows) for rows in (first, second))
    ours = [mass * others for _, mass in first]
    theirs = [mass * ones for _, mass in second]
    apart = [[_l1(x, y) for y, _ in second] for x, _ in first]
    places = sorted({least, *(d for row in apart for d in row if d > least)})

    def passes(place: int) -> bool:
        return _all_moves(ours, theirs, apart, places[place])

    if passes(0):
        return least
    return places[least_passing(passes, 0, len(places) - 1)]


def _l1(x: Vector, y: Vector) -> Fraction:
    return sum((abs(a - b) for a, b in zip(x, y, strict=True)), Fraction(0))


def _all_moves(
    ours: Sequence[int], theirs: Sequence[int], apart: Sequence[Sequence[Fraction]], most: Fraction
) -> bool:
    """Whether all mass can move along pairs of values at most so far apart."""
    import networkx as nx  # noqa: PLC0415  (slow to load)

    graph = nx.DiGraph()
    for n, mass in enumerate(ours):
        graph.add_edge("source", ("first", n), capacity=mass)
    for n, mass in enumerate(theirs):
        graph.add_edge(("second", n), "sink", capacity=mass)
    for n, row in enumerate(apart):
        near = [m for m, distance in enumerate(row) if distance <= most]
        if not near or ours[n] > sum(theirs[m] for m in near):
            return False
        graph.add_edges_from((("first", n), ("second", m)) for m in near)  # no limit
    value: int = nx.maximum_flow_value(graph, "source", "sink")
    return value == sum(ours)
