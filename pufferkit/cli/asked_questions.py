"""What a command asks, and how the answer is read where it follows from the release."""

from __future__ import annotations

import json
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pufferkit as pk
from pufferkit.cli import terminal
from pufferkit.cli.question_options import QuestionOptions
from pufferkit.data.names import FOLLOWS

if TYPE_CHECKING:
    from pufferkit import Derived, Query, Release, Series
    from pufferkit.beliefs.protocol import Beliefs

LEVEL = 0.95


@dataclass(frozen=True)
class AskedQuestion:
    """A query, the question that it is, and of a quantile its two ways."""

    query: Query
    question: pk.Question
    plan: pk.QuantilePlan | None = None

    def follows(self, release: Release) -> Derived | None:
        """What follows from the release; ``None`` if nothing does."""
        return follows(self.question, release) if self.plan is None else self.plan.answer(release)

    def shown(self, release: Release) -> str:
        """What is printed: what was asked, and what it was read from where that tells more."""
        reading = self.follows(release)
        if reading is None:
            return str(release)
        return str(reading) if self.question.name in FOLLOWS else f"{release}\n{reading}"

    def picture(self, release: Release, exact: list[float] | None, path: Path) -> bytes:
        """The same as a picture."""
        from pufferkit import plots  # noqa: PLC0415

        reading = self.follows(release) if self.question.name in FOLLOWS else None
        if reading is None:
            return plots.picture(plots.release_figure(release, exact), path)
        return plots.picture(plots.figure_of(reading), path)

    def record(self, release: Release) -> str:
        """The release as JSON, with what follows from it as ``derived``."""
        return record(release, self.follows(release))


def follows(question: pk.Question, release: Release) -> Derived | None:
    """What follows from a release, by the question that was asked; ``None`` if nothing does."""
    from pufferkit.mechanisms.reading import reader_of  # noqa: PLC0415

    read = reader_of(question)
    return None if read is None else read(release, LEVEL)


def record(release: Release, reading: Derived | None) -> str:
    """A release as JSON, with what follows from it as ``derived``."""
    if reading is None:
        return release.to_json()
    return json.dumps({**json.loads(release.to_json()), "derived": derived(reading)}, indent=2)


def derived(reading: Derived) -> dict[str, Any]:
    """What follows from a release, as plain data."""
    return {
        "what": reading.what,
        "how": reading.how,
        "level": reading.level,
        "rows": reading.table_rows(),
    }


def numbers_asked(
    question: QuestionOptions, states: Sequence[Hashable], lengths: Sequence[int] | Series
) -> AskedQuestion:
    """What is asked where only numbers with noise will do: levels are read from a histogram."""
    named = question.named(states)
    return AskedQuestion(named.over_numbers(states, lengths), named)


def asked(
    question: QuestionOptions, beliefs: Beliefs, lengths: Sequence[int] | Series, epsilon: float
) -> AskedQuestion:
    """What a command asks; a quantile in the way that is expected to err less."""
    named = question.named(beliefs.states)
    if named.name != "quantile" or named.share is None:
        return AskedQuestion(named.over(beliefs.states, lengths), named)
    with terminal.working("comparing two ways"):
        plan = pk.plan_quantile(beliefs, named.share, named.numbers, lengths, epsilon)
    terminal.summary(plan)
    return AskedQuestion(plan.query, named, plan)
