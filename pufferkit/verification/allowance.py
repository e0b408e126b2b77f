"""What stops a verification: beliefs without a theorem, records without a proof, too much work."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf, isnan, nextafter

TOLERANCE = 1e-7
"""Relative tolerance of the scale, for rounding on either side."""


class NotChecked(Exception):
    """There is no check for this release, or it would exceed the work allowed."""


class BadBeliefs(Exception):
    """The recorded beliefs cannot be read, or the mechanism has no theorem for them."""


class Allowance:
    """An allowance of work, in units of about a nanosecond."""

    def __init__(self, most: float) -> None:
        self.most, self.spent = most, 0.0

    def spend(self, amount: float) -> None:
        """Spend some of it, or give up."""
        self.spent += amount
        if self.spent > self.most:
            raise NotChecked(f"it takes more than the {self.most:.3g} units of work allowed")


def largest(bounds: Iterable[float]) -> float:
    """The largest of some bounds, 0 of none; what is no number bounds nothing."""
    return max((inf if isnan(bound) else float(bound) for bound in bounds), default=0.0)


def larger_than(scale: float) -> float:
    """A scale above this one by more than the tolerance."""
    return max(scale * (1 + 2 * TOLERANCE), nextafter(scale, inf))
