"""``pufferkit plan``: what every mechanism would cost, before anything is spent."""

from __future__ import annotations

import json
from math import inf
from pathlib import Path
from typing import Annotated, Any

import pufferkit as pk
from pufferkit.cli import inputs, outputs, terminal, usefulness_output
from pufferkit.cli.asked_questions import asked
from pufferkit.cli.flags import File, Text, option
from pufferkit.cli.format_options import Form
from pufferkit.cli.options import with_options
from pufferkit.cli.question_options import QuestionOptions


@with_options
def plan(
    model: inputs.Model,
    epsilon: inputs.Epsilon,
    question: QuestionOptions,
    form: Form,
    size: inputs.Size,
    as_json: Annotated[bool, option("Print rows as JSON.", None, "--json")] = False,
    plot: inputs.Plot = None,
    target: Annotated[
        Text,
        option("95% half-width wanted, absolute or relative to the answer.", "0.05|5%"),
    ] = None,
    error_plot: Annotated[File, option("Draw error against epsilon.", "FILE")] = None,
    who_binds: Annotated[
        File, option("Draw the graph of the model and the node that sets the noise.", "FILE")
    ] = None,
    active_quilts: Annotated[
        File, option("Write each node's active quilt and the noise it needs.", "FILE.csv")
    ] = None,
    simulate: Annotated[
        File, option("Draw releases of data simulated from the model.", "FILE")
    ] = None,
    slow: Annotated[bool, option("Also try mechanisms that take minutes.")] = False,
    explain: Annotated[
        bool, option("What decides each row, and why other mechanisms do not apply.")
    ] = False,
) -> None:
    """Compare mechanisms for a query, and their noise with the answer; spends nothing.

    With --target: the epsilon, number of entries or coarser question that reaches it.
    """
    pictures = [own for own in (error_plot, simulate, who_binds) if own is not None]
    outputs.check_outputs([*pictures, active_quilts], [model, size.data], plot)
    _check_kinds(pictures, active_quilts)
    wanted = None if target is None else pk.Target.of_text(target)
    beliefs = inputs.read_model(model)
    lengths = size.of(beliefs, form)
    about = asked(question, beliefs, lengths, epsilon)
    query = about.query
    table = _planned(beliefs, query, epsilon, slow=slow)
    written = {}
    if active_quilts is not None:
        written[active_quilts] = _active_quilts(beliefs, query, epsilon, active_quilts)
    if error_plot is not None:
        written[error_plot] = usefulness_output.error_picture(beliefs, table, wanted, error_plot)
    if simulate is not None:
        written[simulate] = usefulness_output.simulation_picture(beliefs, table, simulate)
    if who_binds is not None:
        from pufferkit import plots  # noqa: PLC0415

        written[who_binds] = plots.picture(table.best.plot(), who_binds)
    if plot is not None:
        from pufferkit import plots  # noqa: PLC0415

        written[plot] = plots.picture(plots.figure_of(table), plot)
    outputs.write_all(written)
    if not as_json:
        terminal.say(table)  # first, because the search for remedies is slower
        if explain:
            terminal.say(f"\n{table.explain()}")
    ways = usefulness_output.ways(beliefs, table, wanted)
    if as_json:
        record = {
            "query": query.name,
            "lengths": query.lengths,
            "epsilon": table.epsilon,
            "beliefs": table.beliefs,
            "rows": table.rows,
            "useful": table.useful.to_dict(),
            "target": None if wanted is None else wanted.half_width(query),
            **({} if about.plan is None else {"ways": about.plan.table_rows()}),
            "remedies": [
                {
                    "text": way.text,
                    "epsilon": way.calibration.epsilon,
                    "lengths": way.calibration.query.lengths,
                    "half_width": way.calibration.half_width(),
                }
                for way in ways
            ],
        }
        terminal.say(json.dumps(record, indent=2))
    else:
        for line in usefulness_output.in_words(table, wanted, ways):
            terminal.say(line)
    terminal.written(written)


def _planned(beliefs: Any, query: pk.Query, epsilon: float, *, slow: bool) -> pk.Plan:
    from pufferkit.mechanisms.plan import LONG_WORK  # noqa: PLC0415

    most_work = inf if slow else LONG_WORK
    with terminal.progress() as progress:
        return pk.plan(beliefs, query, epsilon, progress=progress, most_work=most_work)


def _check_kinds(pictures: list[Path], table: Path | None) -> None:
    """Raise unless the files have a supported suffix."""
    for picture in pictures:
        outputs.check_outputs([], [], picture)
    if table is not None and table.suffix.lower() not in (".csv", ".parquet"):
        raise ValueError(f"--active-quilts: {table} must end in .csv or .parquet")


def _active_quilts(beliefs: Any, query: pk.Query, epsilon: float, target: Path) -> bytes:
    """Write the table of all nodes to a file."""
    from pufferkit.data.write import write_columns  # noqa: PLC0415

    with terminal.working("active quilts"):
        rows = pk.active_quilts(beliefs, query, epsilon).table_rows()
    return write_columns(target, {name: [row[name] for row in rows] for name in rows[0]})
