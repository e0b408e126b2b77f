"""The choice of a session: the least noise among mechanisms that compose."""

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
class SessionPlan(Shown):
    """A plan, with what the best mechanism would cost."""

    plan: Plan
    cost: float
    remaining: float

    @property
    def fits(self) -> bool:
        """Whether the budget allows it."""
        return self.cost <= self.remaining

    def __str__(self) -> str:
        verdict = "fits" if self.fits else "does NOT fit"
        return (
            f"{self.plan}\n\n{composable(self.plan).mechanism} would take {self.cost:g} of the "
            f"remaining {self.remaining:g}: {verdict}"
        )


def composable(table: Plan) -> Calibration:
    """The mechanism with the least noise among those with a per-entry bound, which compose."""
    return next(
        row.calibration
        for row in table.entries
        if row.pufferfish and row.calibration is not None and row.mechanism not in OF_SUMS | OPTIONS
    )


def best_for(beliefs: Beliefs, query: Query, epsilon: float) -> tuple[str, Calibration]:
    """The calibration and name that `composable` would choose, computing no others."""
    made: list[tuple[str, Calibration]] = []
    for name in MECHANISMS:
        if name not in OF_SUMS | OPTIONS | {"entry_dp"}:  # which hides no entries
            with suppress(NotApplicable):
                made.append((name, calibrate(name, beliefs, query, epsilon)))
    return min(made, key=lambda own: own[1].mean_scale)
