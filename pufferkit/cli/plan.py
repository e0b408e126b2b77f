"""``pufferkit plan``: what every mechanism would cost, before anything is spent."""

from __future__ import annotations

import json
from typing import Annotated

import typer

import pufferkit as pk
from pufferkit.cli import inputs, outputs, terminal
from pufferkit.cli.form import Form
from pufferkit.cli.options import with_options


@with_options
def plan(
    model: inputs.Model,
    epsilon: inputs.Epsilon,
    question: inputs.Question,
    form: Form,
    size: inputs.Size,
    as_json: Annotated[bool, typer.Option("--json", help="Print rows as JSON.")] = False,
    plot: inputs.Plot = None,
) -> None:
    """Compare mechanisms for a query; spends nothing."""
    outputs.check_outputs([], [model, size.data], plot)
    beliefs = inputs.read_model(model)
    states = beliefs.states
    lengths = size.of(beliefs, form)
    query = question.over(states, lengths)
    with terminal.progress() as progress:
        found = pk.plan(beliefs, query, epsilon, progress)
    if plot is not None:
        from pufferkit import plots  # noqa: PLC0415

        title = str(found).partition("\n")[0].replace("; ", "\n")
        outputs.write_all({plot: plots.picture(plots.plan_figure(found.rows, title), plot)})
    if as_json:
        record = {
            "query": query.name,
            "lengths": query.lengths,
            "epsilon": found.epsilon,
            "beliefs": found.beliefs,
            "rows": found.rows,
        }
        terminal.say(json.dumps(record, indent=2))
    else:
        terminal.show_plan(found)
