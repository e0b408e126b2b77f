"""``pufferkit dashboard``: several questions at once, each with its own accuracy, in one charge."""

from __future__ import annotations

import json
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import pufferkit as pk
from pufferkit.cli import inputs, outputs, question_options, terminal
from pufferkit.cli.asked_questions import AskedQuestion, derived, numbers_asked
from pufferkit.cli.flags import File, Text, option, real
from pufferkit.cli.format_options import Form
from pufferkit.cli.options import Book, with_options
from pufferkit.data.query import NAMES

if TYPE_CHECKING:
    from pufferkit import Derived, Release, Series


@dataclass(frozen=True)
class _Details:
    """Options of the questions, shared by all questions that take them."""

    def of(self, name: str) -> dict[str, Any]:
        """The options that a question takes."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        return {
            key: value for key, value in given.items() if name in question_options.taken_by(key)
        }

    def check(self, names: Sequence[str]) -> None:
        """Raise if an option applies to none of the questions."""
        for field in fields(self):
            taken = set(question_options.taken_by(field.name)) & set(names)
            if getattr(self, field.name) is not None and not taken:
                raise question_options.unneeded(field.name)


if TYPE_CHECKING:

    class Details(_Details):
        """Options of the questions."""

else:
    Details = question_options.options("Details", leave_out=["state_value"], base=_Details)


@dataclass(frozen=True)
class Part:
    """One of several questions: its name, its query and the error it may have."""

    name: str
    asked: AskedQuestion
    error: float


@with_options
def dashboard(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The series: text or Parquet; - is stdin.")
    ],
    model: inputs.Model,
    ask: Annotated[
        list[str],
        option(
            "A question and the 95% half-width it may have; repeat for each question.",
            "NAME[:STATES]=ERROR",
        ),
    ],
    state: inputs.State,
    rows: inputs.Rows,
    details: Details,
    form: Form,
    book: Book,
    account: Annotated[Text, option("With --ledger: account of these data.", "NAME")] = None,
    epsilon: Annotated[
        float | None, real("Total epsilon; errors are then relative.", "X", "--epsilon")
    ] = None,
    only_plan: Annotated[
        bool, option("Print the cost only; spends nothing.", None, "--plan")
    ] = False,
    out: Annotated[File, option("Write JSON here instead of stdout (-).", "FILE")] = None,
    plot: inputs.Plot = None,
    as_json: inputs.AsJson = False,
) -> None:
    """Answer several questions about one series together, at the least total epsilon.

    Questions have the names of --query: histogram=30, episodes:run=20, by-hour=100, mean=0.5. For a
    question whose answer is derived from released numbers, the error is that of those numbers: the
    bins of a histogram, or the moments of a variance.

    The JSON is the joint release, which verify checks. With --plan it is the cost of each question.
    """
    out = None if str(out) == "-" else out
    book.check(account, needs_account=True)
    outputs.check_outputs([out], [file, model], plot)
    beliefs = inputs.chains(model)
    series = inputs.read_data(file, state, rows, form, beliefs.states, beliefs)
    parts = [_asked(text, details, beliefs.states, series) for text in ask]
    details.check([part.asked.question.name for part in parts])
    if len({part.name for part in parts}) < len(parts):
        raise ValueError("--ask: the same question is given twice; give each once")
    asked = {part.name: (part.asked.query, part.error) for part in parts}
    plan = pk.dashboard(beliefs, asked, epsilon)
    if only_plan:
        cost = {"epsilon": plan.epsilon, "level": plan.level, "questions": plan.table_rows()}
        record, shown = json.dumps(cost, indent=2), str(plan)
        pictured: Any = plan
    else:
        terminal.summary(plan)
        pictured = _released(plan, asked, epsilon, series, beliefs, book, account)
        readings = _readings(parts, pictured)
        more = (
            {"derived": {name: derived(one) for name, one in readings.items()}} if readings else {}
        )
        record = json.dumps({**json.loads(pictured.to_json()), **more}, indent=2)
        shown = "\n".join([str(pictured), *(f"{name}: {one}" for name, one in readings.items())])
    written = {} if out is None else {out: record.encode() + b"\n"}
    if plot is not None:
        from pufferkit import plots  # noqa: PLC0415

        written[plot] = plots.picture(plots.figure_of(pictured), plot)
    outputs.write_all(written)
    plain = only_plan or out is not None
    terminal.say(shown if plain and not as_json else record)
    terminal.written(written)


def _readings(parts: Sequence[Part], release: Release) -> dict[str, Derived]:
    """The answers derived from the parts of a joint release."""
    from pufferkit.mechanisms.dashboard import split  # noqa: PLC0415

    each = split(release)
    readings = {part.name: part.asked.follows(each[part.name]) for part in parts}
    return {name: one for name, one in readings.items() if one is not None}


def _released(
    plan: pk.Dashboard,
    asked: dict[str, Any],
    epsilon: float | None,
    series: Series,
    beliefs: Any,
    book: Book,
    account: str | None,
) -> pk.Release:
    """The joint release, paid from the ledger if there is one."""
    with book.opened() as ledger:
        if ledger is None or book.budget is None or account is None:
            return plan.calibration.release(series, anyway=True)
        payer = pk.Account(ledger, account, book.budget, data_meant=book.data_meant)
        answer: pk.Release = pk.release(
            series, beliefs, asked, epsilon, account=payer, label=book.label
        )
        terminal.remaining(account, payer.remaining, book.budget)
        return answer


def _asked(text: str, details: Details, states: Sequence[Hashable], series: Series) -> Part:
    """The question and the error in a text such as ``episodes:run=20``."""
    what, equals, number = text.rpartition("=")
    name, _, of = what.partition(":")
    known = list(NAMES)
    if not equals or name not in known:
        raise ValueError(
            f"--ask: must have the form episodes:run=20, got {text!r}; questions are "
            f"{', '.join(known)}"
        )
    try:
        error = terminal.number(number.strip())
    except typer.BadParameter:
        raise ValueError(f"--ask: {number!r} is not a number, in {text!r}") from None
    given: dict[str, Any] = {"state_value": of or None, **details.of(name)}
    question = question_options.QuestionOptions(name, **given)
    # The noisy-choice quantile has no Laplace noise to share; here it is read from a histogram.
    return Part(what, numbers_asked(question, states, series), error)
