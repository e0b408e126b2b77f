"""The question of a command, or several with their errors, and answers derived from the release."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import pufferkit as pk
from pufferkit.cli import question_options, terminal
from pufferkit.cli.flags import option
from pufferkit.cli.question_options import QuestionOptions
from pufferkit.data.queries import Quantile
from pufferkit.data.query import NAMES, Question

if TYPE_CHECKING:
    from pufferkit import Derived, Query, Release, Series
    from pufferkit.beliefs.base import Beliefs
    from pufferkit.mechanisms.joint_plan import JointPlan

LEVEL = 0.95

AskOption = Annotated[
    list[str] | None,
    option(
        "A question and the 95% half-width it may have; repeat for each question.",
        "NAME[:STATES]=ERROR",
        "--ask",
    ),
]


@dataclass(frozen=True)
class AskedQuestion:
    """A query, the question it answers, and for a quantile its two methods."""

    query: Query
    question: Question
    plan: pk.QuantilePlan | None = None

    def follows(self, release: Release) -> Derived | None:
        """The answer derived from the release; ``None`` if there is none."""
        return follows(self.question, release) if self.plan is None else self.plan.answer(release)

    def shown(self, release: Release) -> list[Release | Derived]:
        """The answer, and the release behind it where that adds something."""
        reading = self.follows(release)
        shown: list[Any] = [] if reading is not None and self.question.replaced else [release]
        return shown if reading is None else [*shown, reading]

    def picture(self, release: Release, path: Path) -> bytes:
        """The same as a figure."""
        from pufferkit import plots  # noqa: PLC0415

        reading = self.follows(release) if self.question.replaced else None
        return plots.picture(plots.figure_of(release if reading is None else reading), path)

    def report(
        self, release: Release, beliefs: Beliefs, meaning: Sequence[str], record: str
    ) -> bytes:
        """The same as a page with picture, promise, beliefs and the record as it is written."""
        from pufferkit import plots  # noqa: PLC0415

        reading = self.follows(release)
        shown = [] if reading is None else [reading]
        return plots.release_report(release, beliefs, meaning, shown, record).encode()

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
    """A derived answer as plain data; JSON has no word for an end without a bound."""
    rows = [
        {name: "unbounded" if cell == inf else cell for name, cell in row.items()}
        for row in reading.table_rows()
    ]
    return {"what": reading.what, "how": reading.how, "level": reading.level, "rows": rows}


def asked(
    question: QuestionOptions, beliefs: Beliefs, lengths: Sequence[int] | Series, epsilon: float
) -> AskedQuestion:
    """The query of a command; a quantile by the method with the smaller expected error."""
    named = question.named(beliefs.states)
    if not isinstance(named, Quantile):
        return AskedQuestion(named.bind(beliefs.states, lengths), named)
    with terminal.progress("comparing two methods"):
        plan = pk.plan_quantile(beliefs, float(named.share), named.levels, lengths, epsilon)
    terminal.summary(plan)
    return AskedQuestion(plan.query, named, plan)


# -- several questions at once ------------------------------------------------------------------


@dataclass(frozen=True)
class Joint:
    """Several questions by their names, their queries and errors, and what they cost together."""

    parts: Mapping[str, AskedQuestion]
    asked: Mapping[str, tuple[Query, float]]
    plan: JointPlan

    def readings(self, release: Release) -> dict[str, Derived]:
        """The answers derived from the parts of a joint release."""
        from pufferkit.mechanisms.joint_plan import split  # noqa: PLC0415

        each = split(release)
        readings = {name: part.follows(each[name]) for name, part in self.parts.items()}
        return {name: one for name, one in readings.items() if one is not None}

    def record(self, release: Release) -> str:
        """The joint release as JSON, with the answers derived from it."""
        readings = self.readings(release)
        more = {"derived": {name: derived(one) for name, one in readings.items()}}
        return json.dumps({**json.loads(release.to_json()), **(more if readings else {})}, indent=2)

    def shown(self, release: Release) -> list[Release | Derived]:
        """The release, and what is derived from its parts."""
        return [release, *self.readings(release).values()]


def joint(
    texts: Sequence[str],
    details: QuestionOptions,
    beliefs: Beliefs,
    over: Any,
    epsilon: float | None,
) -> Joint:
    """The questions of texts such as ``episodes:run=20``; ``details`` are shared by all of them."""
    parts: dict[str, AskedQuestion] = {}
    asked: dict[str, tuple[Query, float]] = {}
    for what, (named, error) in questions_of(texts, details, beliefs.states).items():
        # The noisy-choice quantile has no Laplace noise to share: it is read from a histogram.
        parts[what] = AskedQuestion(named.in_numbers().bind(beliefs.states, over), named)
        asked[what] = parts[what].query, error
    return Joint(parts, asked, pk.plan(beliefs, asked, epsilon))


def questions_of(
    texts: Sequence[str], details: QuestionOptions, states: Sequence[Hashable]
) -> dict[str, tuple[Question, float]]:
    """The questions of ``--ask`` and their errors, by what was written."""
    asked: dict[str, tuple[Question, float]] = {}
    names = []
    for text in texts:
        what, equals, number = text.rpartition("=")
        name, _, of = what.partition(":")
        if not equals or name not in NAMES:
            raise ValueError(
                f"--ask: must have the form episodes:run=20, got {text!r}; questions are "
                f"{', '.join(NAMES)}"
            )
        if what in asked:
            raise ValueError("--ask: the same question is given twice; give each once")
        try:
            error = terminal.number(number.strip())
        except typer.BadParameter:
            raise ValueError(f"--ask: {number!r} is not a number, in {text!r}") from None
        given: dict[str, Any] = {
            own.name: getattr(details, own.name)
            if own.name != "query" and name in question_options.taken_by(own.name)
            else None
            for own in fields(details)
        }
        one = replace(details, **{**given, "query": name, "state_value": of or None})
        asked[what] = one.named(states), error
        names.append(name)
    for own in fields(details):
        spoken = own.name != "query" and getattr(details, own.name) is not None
        if spoken and not set(question_options.taken_by(own.name)) & set(names):
            raise question_options.unneeded(own.name)
    return asked
