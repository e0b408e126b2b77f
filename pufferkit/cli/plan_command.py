"""``pufferkit plan``: what every mechanism would cost, before anything is spent."""

from __future__ import annotations

from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pufferkit as pk
from pufferkit.cli import inputs, outputs, terminal, usefulness_output
from pufferkit.cli.asked_questions import AskOption, asked, joint
from pufferkit.cli.flags import Text, option
from pufferkit.cli.inputs import Form, with_options
from pufferkit.cli.question_options import QuestionOptions

if TYPE_CHECKING:
    from pufferkit.mechanisms.joint_plan import JointPlan

Figure = Literal["plan", "errors", "simulated", "graph"]
"""What ``--plot`` draws."""


@with_options
def plan(
    model: inputs.Model,
    question: QuestionOptions,
    form: Form,
    size: inputs.Size,
    epsilon: inputs.MaybeEpsilon = None,
    ask: AskOption = None,
    target: Annotated[
        Text,
        option("95% half-width wanted, absolute or relative to the answer.", "0.05|5%"),
    ] = None,
    thorough: inputs.Thorough = False,
    explain: Annotated[
        bool,
        option("What decides each row, and why other mechanisms do not apply.", None, "--explain"),
    ] = False,
    plot: inputs.Plot = None,
    figure: Annotated[
        Figure,
        option(
            "With --plot: the plan; error against epsilon; releases of data simulated from the "
            "model; the graph and the node that sets the noise."
        ),
    ] = "plan",
    as_json: inputs.AsJson = False,
    job: inputs.Job = None,
) -> None:
    """Compare mechanisms for a question, and their noise with the answer; spends nothing.

    With --target: the epsilon, number of entries or coarser question that reaches it. With --ask:
    what several questions would cost together.
    """
    outputs.check_outputs([], [model, size.data], plot)
    wanted = None if target is None else pk.Target.of_text(target)
    if figure != "plan" and plot is None:
        raise ValueError("--figure: says what --plot draws; give --plot")
    beliefs = inputs.read_model(model)
    lengths = size.of(beliefs, form)
    if ask:
        _several(joint(ask, question, beliefs, lengths, epsilon).plan, plot, as_json)
        return
    if epsilon is None:
        raise ValueError("--epsilon: the privacy loss must be given")
    about = asked(question, beliefs, lengths, epsilon)
    query = about.query
    table = _planned(beliefs, query, epsilon, thorough=thorough)
    written = {} if plot is None else {plot: _picture(figure, beliefs, table, wanted, plot)}
    outputs.write_all(written)
    if not as_json:
        terminal.say(table)  # first, because the search for remedies is slower
        if explain:
            terminal.say()
            terminal.say(table.explain())
    ways = usefulness_output.ways(beliefs, table, wanted)
    said = usefulness_output.statements(beliefs, table, wanted, ways)
    if as_json:
        record = {
            "query": query.name,
            "lengths": query.lengths,
            "epsilon": table.epsilon,
            "beliefs": table.beliefs,
            "rows": table.rows,
            "useful": table.useful.to_dict(),
            "target": None if wanted is None else wanted.half_width(query, beliefs),
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
        terminal.answer([*table.statements(), *said], record)
    else:
        terminal.say(said)
    terminal.written(written)


def _several(plan: JointPlan, plot: Path | None, as_json: bool) -> None:
    """The cost of several questions."""
    written = outputs.figure(plot, plan)
    outputs.write_all(written)
    cost = {"epsilon": plan.epsilon, "level": plan.level, "questions": plan.table_rows()}
    terminal.answer(plan, cost if as_json else None)
    terminal.written(written)


def _planned(beliefs: Any, query: pk.Query, epsilon: float, *, thorough: bool) -> pk.Plan:
    from pufferkit.mechanisms.plan import LONG_WORK  # noqa: PLC0415

    most_work = inf if thorough else LONG_WORK
    with terminal.progress() as progress:
        return pk.plan(beliefs, query, epsilon, progress=progress, most_work=most_work)


def _picture(
    figure: Figure, beliefs: Any, plan: pk.Plan, target: pk.Target | None, path: Path
) -> bytes:
    """The figure that was asked for."""
    from pufferkit import plots  # noqa: PLC0415

    if figure == "errors":
        return usefulness_output.error_picture(beliefs, plan, target, path)
    if figure == "simulated":
        return usefulness_output.simulation_picture(beliefs, plan, path)
    if figure == "graph":
        return plots.picture(plan.best.plot(), path)
    return plots.picture(plots.figure_of(plan), path)
