"""The choice of an account: the least noise among mechanisms that compose."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from pufferkit.beliefs.base import Beliefs
from pufferkit.data.query import Query
from pufferkit.errors import NotApplicable
from pufferkit.mechanisms.calibration import OF_SUMS, Calibration
from pufferkit.mechanisms.plan import MECHANISMS, OPTIONS, Plan, calibrate
from pufferkit.shown import Shown

BEST = "best"


@dataclass(frozen=True, repr=False)
class AccountPlan(Shown):
    """A plan, with the noise that the account would add, and what it would cost."""

    plan: Plan
    noise: Calibration
    cost: float
    remaining: float

    @property
    def fits(self) -> bool:
        """Whether the budget allows it."""
        return self.cost <= self.remaining

    def __str__(self) -> str:
        verdict = "fits" if self.fits else "does NOT fit"
        return (
            f"{self.plan}\n\n{self.noise.mechanism} with noise of scale "
            f"{self.noise.mean_scale:.4g}, which composes with later releases, would take "
            f"{self.cost:g} of the remaining {self.remaining:g}: {verdict}"
        )


def best_for(beliefs: Beliefs, query: Query, epsilon: float) -> Calibration:
    """The least noise among mechanisms with a per-entry bound, which compose."""
    made: list[Calibration] = []
    for name in MECHANISMS:
        if name not in OF_SUMS | OPTIONS | {"entry_dp"}:  # which hides no entries
            with suppress(NotApplicable):
                made.append(calibrate(name, beliefs, query, epsilon))
    return min(made, key=lambda one: one.mean_scale)
