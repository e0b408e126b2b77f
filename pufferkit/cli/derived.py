"""Questions about numbers whose answer follows from a release: the query, and how it is read."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pufferkit as pk
from pufferkit.cli import terminal
from pufferkit.cli.inputs import QueryName, Question

if TYPE_CHECKING:
    from pufferkit import Derived, Query, Release, Series
    from pufferkit.beliefs.protocol import Beliefs


@dataclass(frozen=True)
class Asked:
    """A query, how the answer is read from its release (``None``: as it is), and its two ways."""

    query: Query
    read: Callable[[Release], Derived] | None = None
    plan: pk.QuantilePlan | None = None

    def shown(self, release: Release) -> Any:
        """What is printed: the release, or what follows from it."""
        return release if self.read is None else self.read(release)

    def picture(self, release: Release, exact: list[float] | None, path: Path) -> bytes:
        """The same as a picture."""
        from pufferkit import plots  # noqa: PLC0415

        if self.read is None:
            return plots.picture(plots.release_figure(release, exact), path)
        return plots.picture(plots.figure_of(self.read(release)), path)

    def record(self, release: Release) -> str:
        """The release as JSON, with what follows from it as ``derived``."""
        if self.read is None:
            return release.to_json()
        told = self.read(release)
        derived = {
            "what": told.what,
            "how": told.how,
            "level": told.level,
            "rows": told.table_rows(),
        }
        return json.dumps({**json.loads(release.to_json()), "derived": derived}, indent=2)


def asked(
    question: Question, beliefs: Beliefs, lengths: Sequence[int] | Series, epsilon: float
) -> Asked:
    """What a command asks; a quantile in the way that is expected to err less."""
    query = question.over(beliefs.states, lengths)
    name = question.query
    if name is QueryName.VARIANCE:
        low, high = question.range
        return Asked(query, lambda release: pk.variance(release, low, high))
    if name is QueryName.CUMULATIVE:
        return Asked(query, pk.cumulative)
    if name not in (QueryName.QUANTILE, QueryName.PEAK, QueryName.LOAD_DURATION):
        return Asked(query)
    values: dict[Any, float] = question.numbers(beliefs.states)
    if name is QueryName.PEAK:
        return Asked(query, lambda release: pk.peak(release, by_name(values)))
    if name is QueryName.LOAD_DURATION:
        return Asked(query, lambda release: pk.load_duration(release, by_name(values)))
    with terminal.working("comparing two ways"):
        plan = pk.plan_quantile(beliefs, question.part, values, lengths, epsilon)
    terminal.summary(plan)
    return Asked(plan.query, plan.answer, plan)


def by_name(values: dict[Any, float]) -> dict[str, float]:
    """Values by the names that releases have for states."""
    return {str(state): value for state, value in values.items()}
