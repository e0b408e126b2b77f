"""What a session chooses: the least noise of the mechanisms that other releases may follow."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from pufferkit.beliefs.protocol import Beliefs
from pufferkit.data.queries import Query
from pufferkit.errors import NotApplicable
from pufferkit.mechanisms.calibration import OF_SUMS, Calibration
from pufferkit.mechanisms.evidence import Guarantee
from pufferkit.mechanisms.plan import MECHANISMS, OPTIONS, Plan, calibrate
from pufferkit.shown import Shown

BEST = "best"


@dataclass(frozen=True, repr=False)
class SessionPlan(Shown):
    """A plan, with what the best mechanism would take from the budget."""

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
            f"{self.remaining:g} that remain: {verdict}"
        )


def composable(table: Plan) -> Calibration:
    """The least noise of those with a per-entry bound, so that they compose."""
    return next(
        row.calibration
        for row in table.entries
        if row.pufferfish and row.calibration is not None and row.mechanism not in OF_SUMS | OPTIONS
    )


def best_for(beliefs: Beliefs, query: Query, epsilon: float) -> tuple[str, Calibration]:
    """As `composable` of a plan, and its name, without the mechanisms that it leaves out."""
    made: list[tuple[str, Calibration]] = []
    for name in MECHANISMS:
        if name not in OF_SUMS | OPTIONS:
            with suppress(NotApplicable):
                made.append((name, calibrate(name, beliefs, query, epsilon)))
    hiding = [own for own in made if own[1].guarantee is not Guarantee.ENTRY]
    return min(hiding, key=lambda own: own[1].mean_scale)
