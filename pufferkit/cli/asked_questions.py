"""The question of a command, and answers that are derived from the release."""

from __future__ import annotations

import json
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pufferkit as pk
from pufferkit.cli import terminal
from pufferkit.cli.question_options import QuestionOptions
from pufferkit.data.queries import Quantile
from pufferkit.data.query import Question

if TYPE_CHECKING:
    from pufferkit import Derived, Query, Release, Series
    from pufferkit.beliefs.base import Beliefs

LEVEL = 0.95


@dataclass(frozen=True)
class AskedQuestion:
    """A query, the question it answers, and for a quantile its two methods."""

    query: Query
    question: Question
    plan: pk.QuantilePlan | None = None

    def follows(self, release: Release) -> Derived | None:
        """The answer derived from the release; ``None`` if there is none."""
        return follows(self.question, release) if self.plan is None else self.plan.answer(release)

    def shown(self, release: Release) -> str:
        """The printed text: the answer, and the release behind it where that adds something."""
        reading = self.follows(release)
        if reading is None:
            return str(release)
        return str(reading) if self.question.replaced else f"{release}\n{reading}"

    def picture(self, release: Release, exact: list[float] | None, path: Path) -> bytes:
        """The same as a figure."""
        from pufferkit import plots  # noqa: PLC0415

        reading = self.follows(release) if self.question.replaced else None
        if reading is None:
            return plots.picture(plots.release_figure(release, exact), path)
        return plots.picture(plots.figure_of(reading), path)

    def report(self, release: Release, beliefs: Beliefs, meaning: Sequence[str]) -> bytes:
        """The same as a page with picture, promise, beliefs and record."""
        from pufferkit import plots  # noqa: PLC0415

        shown = self.shown(release) if self.follows(release) is not None else ""
        page = plots.release_report(release, beliefs, meaning, shown, self.record(release))
        return page.encode()

    def record(self, release: Release) -> str:
        """The release as JSON, with the answer derived from it as ``derived``."""
        return record(release, self.follows(release))


def follows(question: Question, release: Release) -> Derived | None:
    """The answer derived from a release for a question; ``None`` if there is none."""
    reading = question.reading()
    return None if reading is None else release.derive(reading[0], level=LEVEL, **reading[1])


def record(release: Release, reading: Derived | None) -> str:
    """A release as JSON, with the answer derived from it as ``derived``."""
    if reading is None:
        return release.to_json()
    return json.dumps({**json.loads(release.to_json()), "derived": derived(reading)}, indent=2)


def derived(reading: Derived) -> dict[str, Any]:
    """A derived answer as plain data."""
    return {
        "what": reading.what,
        "how": reading.how,
        "level": reading.level,
        "rows": reading.table_rows(),
    }


def numbers_asked(
    question: QuestionOptions, states: Sequence[Hashable], lengths: Sequence[int] | Series
) -> AskedQuestion:
    """The query where noisy numbers are required: quantiles are read from a histogram."""
    named = question.named(states)
    return AskedQuestion(named.in_numbers().bind(states, lengths), named)


def asked(
    question: QuestionOptions, beliefs: Beliefs, lengths: Sequence[int] | Series, epsilon: float
) -> AskedQuestion:
    """The query of a command; a quantile by the method with the smaller expected error."""
    named = question.named(beliefs.states)
    if not isinstance(named, Quantile):
        return AskedQuestion(named.bind(beliefs.states, lengths), named)
    with terminal.working("comparing two methods"):
        plan = pk.plan_quantile(beliefs, float(named.share), named.levels, lengths, epsilon)
    terminal.summary(plan)
    return AskedQuestion(plan.query, named, plan)
