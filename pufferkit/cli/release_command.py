"""``pufferkit release``: a noisy answer that may be published."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

import pufferkit as pk
from pufferkit.account.periods import in_period
from pufferkit.beliefs.provenance import owed
from pufferkit.cli import inputs, outputs, terminal, usefulness_output
from pufferkit.cli.asked_questions import asked
from pufferkit.cli.flags import File, Text, option
from pufferkit.cli.options import ReleaseOptions, calibrated, with_options
from pufferkit.cli.question_options import QuestionOptions
from pufferkit.cli.release_each_command import release_table
from pufferkit.data.query import NAMES
from pufferkit.mechanisms.explain import meaning


def _moved(subject: str | None) -> None:
    if subject is not None:
        raise ValueError(
            "--each: for a table of many subjects use "
            f"pufferkit release-each FILE --subject {subject}"
        )


def _refuse_with_windows(options: Mapping[str, object]) -> None:
    for name, value in options.items():
        if value is not None:
            raise ValueError(f"{name}: cannot be combined with --window")


def _check_exact(question: QuestionOptions, plot: Path | None) -> None:
    if plot is None:
        raise ValueError("--show-exact: needs a figure; give --plot")
    if question.query in NAMES and NAMES[question.query].replaced:
        raise ValueError(f"--show-exact: not available for --query {question.query}")
    terminal.warn(f"{plot} shows the exact answer, which has no privacy; do not share it")


def _paid(
    payer: pk.Account, series: pk.Series, beliefs: Any, query: pk.Query, options: ReleaseOptions
) -> pk.Release:
    noise, book = options.noise, options.book
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # already confirmed
        answer: pk.Release = pk.release(
            series,
            beliefs,
            query,
            noise.epsilon,
            account=payer,
            mechanism=noise.known_mechanism or "best",
            window=options.reading.period,
            label=book.label,
            anyway=True,
        )
    return answer


@with_options
def release(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The series: text or Parquet; - is stdin.")
    ],
    options: ReleaseOptions,
    account: Annotated[Text, option("With --ledger: account of these data.", "NAME")] = None,
    segment: inputs.Segment = None,
    entry: Annotated[Text, option("For networks: column that names the entry.", "COL")] = None,
    show_exact: Annotated[
        bool, option("Plot the exact answer too. Do not share it.", None, "--show-exact")
    ] = False,
    report: Annotated[
        File, option("Write an HTML report: answer, promise, beliefs, record.", "FILE")
    ] = None,
    each: Annotated[
        str | None, typer.Option("--each", hidden=True, is_eager=True, callback=_moved)
    ] = None,
) -> None:
    """Answer a query about one series with noise.

    Without a ledger every run draws new noise and spends epsilon. With one, the release is charged
    before it is shown, and asking again gives the same answer at no cost. The first release creates
    the ledger; a refused release writes nothing.

    A row without a state is an unobserved entry; with --time, so is every step of the clock without
    a row. The series continues across them, unless --independent-after declares otherwise.

    With --window 7d the file is read as a table with rows in any order, and --out is a CSV or
    Parquet file. With a period, --window 2026-09-15, or two ends, it is about these entries, which
    an account pays for. For many subjects, see release-each.
    """
    noise, question, reading = options.noise, options.question, options.reading
    book, output = options.book, options.output
    out, plot = output.file, output.plot
    options.check()
    if reading.window is not None and reading.period is None:
        alone = {"--segment": segment, "--entry": entry, "--report": report}
        _refuse_with_windows(alone | {"--show-exact": show_exact or None})
        release_table([file], None, options, account)
        return
    book.check(account, needs_account=True)
    if reading.period is not None and book.ledger is None:
        raise ValueError("--window: a part of the series needs an account, with --ledger")
    mechanism = noise.known_mechanism
    if show_exact:
        _check_exact(question, plot)
    outputs.check_outputs([out, report], [file, noise.model], plot)
    beliefs = inputs.read_model(noise.model)
    rows = inputs.Rows(reading.time, segment, reading.after)
    series = inputs.read_data(
        file, reading.state, rows, options.form, beliefs.states, beliefs, entry
    )
    part = series if reading.period is None else in_period(series, reading.period)
    about = asked(question, beliefs, part, noise.epsilon)
    query = about.query
    if mechanism == "entry_dp":
        terminal.warn("entry_dp does not hide entries that others predict; it is a baseline only")
    usefulness_output.question(noise.epsilon)
    # With a ledger the account calibrates, if this was not released before.
    made = calibrated if book.ledger is None else usefulness_output.soon
    calibration = made(mechanism, beliefs, query, noise.epsilon)
    if book.ledger is None or owed(beliefs.sources) is None:  # else the account charges it
        calibration.checked(part)
    usefulness_output.refuse_drowned(calibration, beliefs, output.anyway)
    with book.opened() as ledger:
        if ledger is not None and book.budget is not None and account is not None:
            payer = pk.Account(ledger, account, book.budget, data_meant=book.data_meant)
            answer = _paid(payer, series, beliefs, query, options)
            terminal.remaining(account, payer.remaining, book.budget)
        else:
            answer = calibration.release(series, anyway=True)
    answer = answer.as_drawn() if noise.as_drawn else answer
    record = about.record(answer) + "\n"
    written = {} if out is None else {out: record.encode()}
    if plot is not None:
        exact = [float(value) for value in query.exact(part)] if show_exact else None
        written[plot] = about.picture(answer, exact, plot)
    means = meaning(calibration)
    if report is not None:
        written[report] = about.report(answer, beliefs, means)
    outputs.write_all(written)
    terminal.say(record.rstrip() if out is None or output.as_json else str(about.shown(answer)))
    terminal.summary("\n".join(means))
    terminal.written(written)
