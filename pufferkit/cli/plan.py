"""``pufferkit plan``: what every mechanism would cost, before anything is spent."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

import pufferkit as pk
from pufferkit.cli import inputs, outputs, terminal
from pufferkit.cli.options import with_options

if TYPE_CHECKING:
    from pufferkit import Series

NO_SIZE = "give the size of the series: either --length N or --data FILE --state COL"


@with_options
def plan(
    model: inputs.Model,
    epsilon: inputs.Epsilon,
    question: inputs.Question,
    length: inputs.Length = None,
    data: inputs.Data = None,
    state: inputs.MaybeState = None,
    time: inputs.Time = None,
    segment: inputs.Segment = None,
    independent_after: inputs.IndependentAfter = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print rows as JSON.")] = False,
    plot: inputs.Plot = None,
) -> None:
    """Compare mechanisms for a query; spends nothing."""
    if length and data is not None:
        raise ValueError(NO_SIZE)
    outputs.check_outputs([], [model, data], plot)
    beliefs = inputs.read_model(model)
    states = beliefs.states
    lengths: Sequence[int] | Series = length or inputs.lengths_of(beliefs)
    if data is not None:
        lengths = inputs.read_data(
            data, state, time, segment, states, independent_after=independent_after
        )
    elif independent_after is not None:
        raise ValueError("--independent-after: is about gaps in a file; name it with --data")
    if not lengths:
        raise ValueError(NO_SIZE)
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
