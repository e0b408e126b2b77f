"""``pufferkit beliefs choose``: beliefs from public data, tested on people who were held out."""

from __future__ import annotations

import base64
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pufferkit.cli import inputs, outputs, terminal
from pufferkit.cli.flags import File, Text, option, real, whole
from pufferkit.cli.format_options import Form
from pufferkit.cli.model_command import counted_table
from pufferkit.cli.options import with_options
from pufferkit.cli.question_options import QuestionOptions

if TYPE_CHECKING:
    from pufferkit import Series
    from pufferkit.fitting.choosing import Choice

NOTHING_PASSES = 1
"""Exit code if no class covers the people held out."""


app = typer.Typer(help="Choose beliefs by public people.", rich_markup_mode=None)


@app.callback(invoke_without_command=True)
def root(context: typer.Context) -> None:
    """Choose beliefs by public people."""
    terminal.help_if_alone(context)


@app.command()
@with_options
def choose(
    files: inputs.PublicFiles,
    state: inputs.State,
    question: QuestionOptions,
    form: Form,
    time: inputs.Time = None,
    subject: Annotated[Text, option("Column with the subject of each row.", "COL")] = None,
    epsilon: Annotated[float, real("Epsilon at which noise is compared.")] = 1.0,
    length: Annotated[
        int | None,
        whole("Entries of the series to release, all observed. Default: the longest public one."),
    ] = None,
    day: Annotated[int | None, whole("Entries in a day, if there are no times.")] = None,
    folds: Annotated[int | None, whole("Groups of people left out in turn. Default: 5.")] = None,
    regimes: Annotated[str, option("Numbers of regimes to try.", "2,3,4")] = "2,3,4,6,8,12",
    quick: Annotated[bool, option("Three folds, at most four regimes, fewer entries.")] = False,
    seed: Annotated[int, whole("Seed of the folds.")] = 0,
    out: Annotated[File, option("Write the chosen model here.", "FILE")] = None,
    report: Annotated[File, option("Write an HTML report with figures.", "FILE")] = None,
    as_json: inputs.AsJson = False,
) -> None:
    """Fit classes of beliefs to public people, test them on every fold, recommend what survives.

    Single chain, hourly chain, region, hull of people, hidden regimes: each is listed with its
    promise, the folds it survived, the noise for your query, and what the adversaries of the others
    would learn from that noise. Of the classes that survive every fold the widest promise is
    recommended, never a single fitted model. If none survives, or the data have no power to tell,
    --out is not written and the exit code is 1.
    """
    from pufferkit.fitting.choosing import choose_beliefs  # noqa: PLC0415
    from pufferkit.fitting.people import People  # noqa: PLC0415

    named = inputs.files_of(files)
    outputs.check_outputs([out, report], named)
    counts = _whole_numbers(regimes)
    table = counted_table(named, state, inputs.Rows(time, subject), None, form)
    terminal.summary(table.report())
    people = People.of(table, day)
    # The series with the longest segment, gaps included: shares are of what was observed.
    longest: list[int] | Series = (
        [length]
        if length is not None
        else max(people.series, key=lambda person: max(person.lengths))
    )
    with terminal.steps() as progress:
        choice = choose_beliefs(
            people,
            question.over(table.states, longest),
            epsilon=epsilon,
            folds=folds,
            quick=quick,
            regimes=counts,
            seed=seed,
            progress=progress,
        )
    aside = any(str(path) == outputs.STREAM for path in (out, report))
    terminal.say(choice.to_json() if as_json else choice, err=aside)
    written: dict[Path, bytes] = {}
    if out is not None and choice.best is not None and choice.best.beliefs is not None:
        model = choice.best.beliefs.to_json(indent=2) + "\n"
        written[out] = model.encode()
    if report is not None:
        written[report] = _page(choice, people.series[0], people.day).encode()
    outputs.write_all(written)
    terminal.written(written)
    if choice.best is None:
        raise typer.Exit(NOTHING_PASSES)


def _whole_numbers(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and 0 < int(part) < 100 for part in parts):
        raise ValueError(f"--regimes: must be numbers from 1 to 99, like 2,3,4, got {text!r}")
    return [int(part) for part in parts]


def _page(choice: Choice, person: Series, day: int | None) -> str:
    """The choice as one HTML page with embedded figures."""
    from pufferkit import plots  # noqa: PLC0415

    pictures = []
    if day is not None:
        title = "One person's days"
        pictures.append(plots.days_figure(person.codes.tolist(), person.states, day, title))
    budgets = [
        {"name": row.name, "budget": row.influence.budget, "covers": row.covers}
        for row in choice.rows
        if row.influence is not None and row.influence.budget is not None
    ]
    if budgets and choice.measured is not None:
        point, lower = choice.measured.point, choice.measured.lower
        pictures.append(plots.influence_figure(budgets, point, lower))
    images = [
        base64.b64encode(plots.picture(figure, "picture.png")).decode() for figure in pictures
    ]
    columns = ("class", "promise", "folds survived", "noise", "loss to the others' adversaries")
    heads = "".join(f"<th>{head}</th>" for head in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
        for row in choice.table()
    )
    tests = "".join(
        f"<h3>{escape(row.name)}</h3><ul>"
        + "".join(
            f"<li>without {escape(', '.join(map(str, fold.people)))}: {fold.verdict}; "
            f"{escape(fold.rows.text)}; {escape(fold.influence.text)}</li>"
            for fold in row.folds
        )
        + "</ul>"
        for row in choice.rows
    )
    shown = "".join(f'<p><img alt="" src="data:image/png;base64,{image}"></p>' for image in images)
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Whose beliefs?</title>'
        "<style>body{font-family:sans-serif;max-width:60em;margin:2em auto}"
        "td,th{border:1px solid #ccc;padding:.3em;text-align:left;vertical-align:top}"
        "table{border-collapse:collapse}pre{white-space:pre-wrap}</style>"
        f"<h1>Whose beliefs?</h1><pre>{escape(str(choice))}</pre>"
        f"<table><tr>{heads}</tr>{body}</table>{shown}<h2>Tests</h2>{tests}</html>\n"
    )
