"""How far one entry of a chain moves a sum, except for a small share of the mass.

W-infinity is determined by the rarest outcomes. Its *near* version leaves a share ``far`` of the
mass aside: the least w such that two distributions can be coupled with P(|x - y| > w) <= far. On
the line the most mass is paired within w by pairing the lowest that is left with the lowest that is
left, and giving up the lower of the two where they lie further apart: if x_0 <= y_0 were paired
with y_1 and x_1, the pairs (x_0, y_0) and (x_1, y_1) would do as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from pufferkit.checks import Floats
from pufferkit.errors import NotApplicable
from pufferkit.influence.sums.short_sums import sums_given
from pufferkit.rounding import least_passing

MOST_WORK = 4e9
"""Most multiplications for near distances."""


def unpaired(mu: Floats, nu: Floats, reach: int) -> float:
    """The least mass that must move further than ``reach``, of two distributions on 0, 1, ..."""
    first, second = mu.tolist(), nu.tolist()
    x = y = 0
    left, right, paired = first[0], second[0], 0.0
    while True:
        if abs(x - y) <= reach:
            moved = min(left, right)
            paired += moved
            left, right = left - moved, right - moved
            forward = left <= right
        else:
            forward = x < y
        if forward:
            x += 1
            if x == len(first):
                return max(0.0, 1 - paired)
            left = first[x]
        else:
            y += 1
            if y == len(second):
                return max(0.0, 1 - paired)
            right = second[y]


def near_distance(
    initial: Floats, transition: Floats, values: Sequence[int], length: int, far: float
) -> int:
    """Largest near distance of v(X_1) + ... + v(X_T) over entries and pairs of their values.

    Rounding counts against it: the mass left aside is less than ``far`` by more than all errors.
    """
    slack = 1e-12 + 1e-14 * length
    if far <= 10 * slack:
        raise NotApplicable(f"delta: {far:g} is below the rounding error; use a larger one")
    work = length * len(values) * (length * max(values)) ** 2 / 4
    if work > MOST_WORK:
        raise NotApplicable(
            f"near distances over {length:,} entries take too long; shorten the series"
        )
    reach = 0
    for given in sums_given(initial, transition, values, length):
        for mu, nu in combinations(given, 2):
            if unpaired(mu, nu, reach) > far - slack:
                # The sums differ by less than their number.
                reach = least_passing(
                    lambda w, mu=mu, nu=nu: unpaired(mu, nu, w) <= far - slack,  # type: ignore[misc]
                    reach,
                    len(mu),
                )
    return reach
