"""``pufferkit dashboard``: several questions at once, each as exact as was asked, paid once."""

from __future__ import annotations

import json
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import pufferkit as pk
from pufferkit.cli import inputs, outputs, terminal
from pufferkit.cli.flags import File, Text, option, real
from pufferkit.cli.form import Form
from pufferkit.cli.options import Book, with_options

if TYPE_CHECKING:
    from pufferkit import Query, Series


@with_options
def dashboard(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The series: text or Parquet; - is stdin.")
    ],
    model: inputs.Model,
    ask: Annotated[
        list[str],
        option(
            "A question and the half-width at 95% it may have; once for each question.",
            "NAME[:STATES]=ERROR",
        ),
    ],
    state: inputs.State,
    form: Form,
    book: Book,
    account: Annotated[Text, option("With --ledger: which data this is.", "NAME")] = None,
    time: inputs.Time = None,
    segment: inputs.Segment = None,
    independent_after: inputs.IndependentAfter = None,
    epsilon: Annotated[
        float | None, real("In all; errors are then proportions.", "X", "--epsilon")
    ] = None,
    only_plan: Annotated[
        bool, option("Say what it would cost; spends nothing.", None, "--plan")
    ] = False,
    out: Annotated[File, option("Write JSON here, not to stdout; - is stdout.", "FILE")] = None,
    as_json: inputs.AsJson = False,
) -> None:
    """Answer several questions about one series together, at the least total epsilon.

    Questions have the names of --query: histogram=30, episodes:run=20, by-hour=100.

    The JSON is the joint release, which verify checks. With --plan it is what each would cost.
    """
    out = None if str(out) == "-" else out
    book.check(account, needs_account=True)
    outputs.check_outputs([out], [file, model])
    beliefs = inputs.chains(model)
    series = inputs.read_data(
        file, state, time, segment, beliefs.states, None, beliefs, independent_after, form
    )
    asked = dict(_asked(text, beliefs.states, series) for text in ask)
    if len(asked) < len(ask):
        raise ValueError("--ask: two questions are the same; give each once")
    plan = pk.dashboard(beliefs, asked, epsilon)
    if only_plan:
        rows = {"epsilon": plan.epsilon, "level": plan.level, "questions": plan.table_rows()}
        record, shown = json.dumps(rows, indent=2), str(plan)
    else:
        terminal.summary(plan)
        answer = _released(plan, series, beliefs, book, account)
        record, shown = answer.to_json(), str(answer)
    written = {} if out is None else {out: record.encode() + b"\n"}
    outputs.write_all(written)
    plain = only_plan or out is not None
    terminal.say(shown if plain and not as_json else record)
    terminal.written(written)


def _released(
    plan: pk.Dashboard, series: Series, beliefs: Any, book: Book, account: str | None
) -> pk.Release:
    """The joint release, paid from the ledger if there is one."""
    with book.opened() as ledger:
        if ledger is None or book.budget is None or account is None:
            return plan.calibration.release(series)
        session = pk.Session(
            series, beliefs, book.budget, ledger, name=account, data_meant=book.data_meant
        )
        answer = session.release_jointly(plan, label=book.label)
        terminal.summary(f"{account}: {session.remaining:g} of {book.budget:g} remain")
        return answer


def _asked(
    text: str, states: Sequence[Hashable], series: Series
) -> tuple[str, tuple[Query, float]]:
    """The name of a question, the question, and its error."""
    what, equals, number = text.rpartition("=")
    name, _, of = what.partition(":")
    known = [own.value for own in inputs.QueryName if own not in (*_OTHER, *inputs.FOLLOWS)]
    if not equals or name not in known:
        raise ValueError(
            f"--ask: {text!r} is not like episodes:run=20; questions are {', '.join(known)}"
        )
    try:
        error = terminal.number(number.strip())
    except typer.BadParameter:
        raise ValueError(f"--ask: {number!r} is not a number, in {text!r}") from None
    question = inputs.Question(inputs.QueryName(name), state_value=of or None)
    return what, (question.over(states, series), error)


_OTHER = (inputs.QueryName.TOTAL, inputs.QueryName.MEAN, inputs.QueryName.DAYS_WITH)
"""Questions that need more than states."""
