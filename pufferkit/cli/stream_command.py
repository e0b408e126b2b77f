"""``pufferkit stream``: a release for each window of a growing series, at one total epsilon."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

import pufferkit as pk
from pufferkit.cli import inputs, outputs, terminal, usefulness_output
from pufferkit.cli.asked_questions import follows, numbers_asked, record
from pufferkit.cli.flags import File, option, real, refuse_given
from pufferkit.cli.format_options import Form, duration, time_of
from pufferkit.cli.options import Kept, with_options
from pufferkit.cli.question_options import QuestionOptions
from pufferkit.cli.terminal import OneLineErrors, help_if_alone
from pufferkit.cli.usefulness_output import Anyway

app = typer.Typer(
    cls=OneLineErrors,
    rich_markup_mode=None,
    help="Release one window after another, indefinitely, at one total epsilon.",
)


Late = Literal["refuse", "leave out"]
"""How to treat rows before the window."""

_WITH_LATE = ("--time", "--every", "--separator", "--header")
"""Options that rows are read with one by one, whether late or not."""

Account = Annotated[str, option("Account of these data in the ledger.", "NAME", "--account")]


PlaceOf = Annotated[
    str,
    option(
        "A day (2026-11-16); two times, the second excluded; or first and last entry.",
        "DAY|FROM,TO",
        "--window",
    ),
]


@app.callback(invoke_without_command=True)
def root(context: typer.Context) -> None:
    """Release one window after another, indefinitely, at one total epsilon."""
    help_if_alone(context)


@app.command()
@with_options
def release(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The window: text or Parquet; - is stdin.")
    ],
    model: inputs.Model,
    epsilon: inputs.Epsilon,
    state: inputs.State,
    window: PlaceOf,
    account: Account,
    kept: Kept,
    question: QuestionOptions,
    form: Form,
    rows: inputs.Rows,
    share: Annotated[float, real("Part of what the window may spend.")] = 1.0,
    one_question: Annotated[
        bool, option("Ask only this sum in every window: less noise.", None, "--one-question")
    ] = False,
    late: Annotated[
        Late | None, option("With --time: refuse or skip rows before the window.")
    ] = None,
    label: Annotated[str, option("Distinguishes equal releases.")] = "",
    out: Annotated[File, option("Write JSON here instead of stdout (-).", "FILE")] = None,
    data_meant: Annotated[
        bool, option("A second account or window for the same data is meant.", None, "--data-meant")
    ] = False,
    plot: inputs.Plot = None,
    anyway: Anyway = False,
    as_json: inputs.AsJson = False,
) -> None:
    """Answer a query about one window of a stream with noise.

    Epsilon covers everything that is ever released about the stream. Release windows in the order
    of their beginnings, for example once a day or once an hour. A window that was released gives
    the same answer again, even if rows arrived late: they are ignored.
    With --time, rows outside a window of time are skipped; with --late refuse they are an error.
    Without --time it is not known which rows are in the window: give --every, which takes the rows
    as all entries from its beginning on, or count entries, --window 1,1440.
    """
    out = None if str(out) == "-" else out
    outputs.check_outputs([out], [file, model], plot)
    beliefs = inputs.read_model(model)
    place = _window(window)
    every = duration(form.every) if rows.time is None else None
    if late is None:
        # Without times, --every is the time between the rows of the window.
        known = form if every is None else replace(form, every=None)
        data = inputs.read_data(file, state, rows, known, beliefs.states, beliefs)
        data = _in_window(data, place, rows.time is not None, every)
    else:
        data = _rows_of(file, state, rows, place, beliefs, late, form)
    about = numbers_asked(question, beliefs.states, data)
    query = about.query
    usefulness_output.question(epsilon)
    with kept.opened() as ledger:
        asked = query if one_question else None
        stream = pk.Stream(
            beliefs, epsilon, ledger, name=account, question=asked, data_meant=data_meant
        )
        calibration = stream.calibrate(query, share)
        calibration.checked(data)
        usefulness_output.refuse_drowned(calibration, beliefs, anyway)
        answer = stream.release(
            query, data, place, share=share, label=label, every=every, anyway=True
        )
    text = about.record(answer) + "\n"
    written = {} if out is None else {out: text.encode()}
    if plot is not None:
        written[plot] = about.picture(answer, None, plot)
    outputs.write_all(written)
    terminal.say(text.rstrip() if out is None or as_json else about.shown(answer))
    terminal.written(written)


@app.command()
@with_options
def release_each(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The table: text or Parquet.")],
    model: inputs.Model,
    epsilon: inputs.Epsilon,
    state: inputs.State,
    subject: Annotated[str, option("Column with the subject of each row.", "COL")],
    time: Annotated[str, option("Column with times; or DATE,TIME for two columns.", "COL")],
    window: PlaceOf,
    kept: Kept,
    question: QuestionOptions,
    form: Form,
    out: Annotated[File, option("Folder for one JSON file per subject.", "FOLDER")] = None,
    account: Annotated[str, option("Prefix of each subject's account.", "NAME")] = "",
    independent_after: inputs.IndependentAfter = None,
    share: Annotated[float, real("Part of what the window may spend.")] = 1.0,
    label: Annotated[str, option("Distinguishes equal releases.")] = "",
    data_meant: Annotated[
        bool, option("A second account for the same data is meant.", None, "--data-meant")
    ] = False,
    anyway: Anyway = False,
    as_json: inputs.AsJson = False,
) -> None:
    """Answer a query about one window of the stream of each subject, with noise.

    Every subject has its own stream and account. Run it once a day on a file with the rows of that
    day; other rows are skipped. Noise is drawn once per subject and window: an interrupted job
    continues when it is started again. Without --out, the JSON of all subjects is printed.
    """
    from pufferkit.fleet.streams import release_window  # noqa: PLC0415
    from pufferkit.frames import check_parquet, read_table  # noqa: PLC0415

    if out is not None and not out.is_dir():
        raise ValueError(f"--out: {out} is not a folder; create it first")
    check_parquet(file)
    if form.begins is not None:
        raise ValueError("--begins: applies to rows without times; leave it out")
    beliefs, place = inputs.chains(model), _window(window)
    table: Any = read_table(
        file,
        subject=subject,
        time=time_of(time),
        state=state,
        states=beliefs.states,
        bins=form.bins(file, state, beliefs.states),
        every=duration(form.every),
        independent_after=duration(independent_after),
        text=form.text,
        **form.clock,
    )
    files = {} if out is None else {who: out / f"{who}.json" for who in table.subjects}
    if any(path.parent != out for path in files.values()):
        raise ValueError("--subject: a subject's name is not a valid file name; rename the subject")
    outputs.check_outputs(files.values(), [file, model])
    usefulness_output.question(epsilon)
    named = question.named(beliefs.states)
    with (
        kept.opened() as ledger,
        terminal.bar("releasing") as progress,
        usefulness_output.guarded(beliefs, anyway),
    ):
        releases = release_window(
            table,
            beliefs,
            epsilon,
            ledger,
            place,
            query=named,
            share=share,
            label=label,
            prefix=account,
            data_meant=data_meant,
            progress=progress,
        )
    texts = {who: record(one, follows(named, one)) + "\n" for who, one in releases.items()}
    outputs.write_all({path: texts[who].encode() for who, path in files.items() if who in texts})
    if out is None or as_json:
        terminal.as_json({str(who): json.loads(text) for who, text in texts.items()})
        return
    some = f"{len(texts):,} of {len(table.subjects):,} subjects have entries"
    terminal.say(f"{some} in {window}; written to {out}")


@app.command()
@with_options
def change(
    account: Annotated[str, typer.Argument(metavar="ACCOUNT", help="Which stream.")],
    new: Annotated[float, typer.Argument(metavar="NEW", help="New epsilon.")],
    model: inputs.Model,
    epsilon: inputs.Epsilon,
    kept: Kept,
    why: Annotated[str, option("Reason, recorded with the change.")] = "",
    as_json: inputs.AsJson = False,
) -> None:
    """Change the epsilon of a stream from the first unused entry on.

    The ledger records who changed it, when and why. Everything, earlier releases included, is
    private at the larger of the two epsilons: a larger one weakens the promise for earlier releases
    too.
    """
    with kept.opened() as ledger:
        stream = pk.Stream(inputs.read_model(model), epsilon, ledger, name=account)
        other = stream.change_epsilon(new, why=why)
    if as_json:
        terminal.as_json({"account": account, "was": stream.epsilon, "epsilon": other.epsilon})
        return
    terminal.say(
        f"{account}: epsilon {stream.epsilon:g} is now {other.epsilon:g}; everything together is "
        f"private at {max(stream.epsilon, other.epsilon):g}, or at an earlier epsilon if larger"
    )


def _in_window(
    data: pk.Series, window: str | tuple[str, str] | tuple[int, int], timed: bool, every: Any
) -> pk.Series:
    """The rows of a window of time, where the times of rows are known."""
    if isinstance(window, tuple) and isinstance(window[0], int):
        return data
    from pufferkit.accounting.stream_windows import moments  # noqa: PLC0415

    moments(window)  # raises if it is not a window
    if data.calendar is None:
        if timed:
            raise ValueError(
                "--time: the times are not evenly spaced, so it is not known which rows are in "
                "the window; --late refuse takes rows by their times, one after another"
            )
        if every is None:
            raise ValueError(
                "--time: give the column of times; without it there is no way to tell which rows "
                "are in the window, which pays for no others. Or give the time between rows, "
                "--every 1m, or count entries, --window 1,1440"
            )
        return data
    part = pk.Stream.part(data, window)
    if len(part) < len(data):
        terminal.say(f"{len(part):,} of {len(data):,} entries are in the window", err=True)
    return part


def _rows_of(
    file: Path, state: str, rows: inputs.Rows, place: Any, beliefs: Any, late: Late, form: Form
) -> pk.Series:
    """The rows of the window, with a note about those before it."""
    from pufferkit.accounting.stream_windows import moments  # noqa: PLC0415

    ends = moments(place)
    if rows.time is None or ends is None:
        raise ValueError("--late: needs --time and a window of time such as 2026-11-16")
    refuse_given([rows, form], "does not combine with --late; leave --late out", *_WITH_LATE)
    data, before = pk.frames.read_window(
        file,
        state,
        rows.time,
        ends,
        states=beliefs.states,
        late=late,
        every=duration(form.every),
        text=form.text,
    )
    if before:
        terminal.note(f"{before:,} rows before the window were skipped")
    return data


def _window(text: str) -> str | tuple[str, str] | tuple[int, int]:
    """A day, two times, or first and last entry."""
    ends = [part.strip() for part in text.split(",")]
    if len(ends) == 1:
        return ends[0]
    if len(ends) != 2:
        raise ValueError(f"--window: must be a day, or two ends separated by a comma, got {text!r}")
    if all(end.isdecimal() for end in ends):
        return int(ends[0]), int(ends[1])
    return ends[0], ends[1]
