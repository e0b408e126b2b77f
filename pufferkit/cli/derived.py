"""What a command asks, and how the answer is read where it follows from the release."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pufferkit as pk
from pufferkit.cli import terminal
from pufferkit.cli.questions import Question
from pufferkit.data.names import FOLLOWS

if TYPE_CHECKING:
    from pufferkit import Derived, Query, Release, Series
    from pufferkit.beliefs.protocol import Beliefs

LEVEL = 0.95


@dataclass(frozen=True)
class Asked:
    """A query, the question that it is, and of a quantile its two ways."""

    query: Query
    question: pk.Question
    plan: pk.QuantilePlan | None = None

    def follows(self, release: Release) -> Derived | None:
        """What follows from the release; ``None`` if nothing does."""
        from pufferkit.mechanisms.reading import reader_of  # noqa: PLC0415

        if self.plan is not None:
            return self.plan.answer(release)
        read = reader_of(self.question)
        return None if read is None else read(release, LEVEL)

    def shown(self, release: Release) -> str:
        """What is printed: what was asked, and what it was read from where that tells more."""
        told = self.follows(release)
        if told is None:
            return str(release)
        return str(told) if self.question.name in FOLLOWS else f"{release}\n{told}"

    def picture(self, release: Release, exact: list[float] | None, path: Path) -> bytes:
        """The same as a picture."""
        from pufferkit import plots  # noqa: PLC0415

        told = self.follows(release) if self.question.name in FOLLOWS else None
        if told is None:
            return plots.picture(plots.release_figure(release, exact), path)
        return plots.picture(plots.figure_of(told), path)

    def record(self, release: Release) -> str:
        """The release as JSON, with what follows from it as ``derived``."""
        told = self.follows(release)
        if told is None:
            return release.to_json()
        return json.dumps({**json.loads(release.to_json()), "derived": derived(told)}, indent=2)


def derived(told: Derived) -> dict[str, Any]:
    """What follows from a release, as plain data."""
    return {"what": told.what, "how": told.how, "level": told.level, "rows": told.table_rows()}


def asked(
    question: Question, beliefs: Beliefs, lengths: Sequence[int] | Series, epsilon: float
) -> Asked:
    """What a command asks; a quantile in the way that is expected to err less."""
    named = question.named(beliefs.states)
    if named.name != "quantile" or named.share is None:
        return Asked(named.over(beliefs.states, lengths), named)
    with terminal.working("comparing two ways"):
        plan = pk.plan_quantile(beliefs, named.share, named.numbers, lengths, epsilon)
    terminal.summary(plan)
    return Asked(plan.query, named, plan)
