"""``pufferkit release``: noisy answers that may be published, of one series or of many subjects."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import pufferkit as pk
from pufferkit.account.periods import in_period
from pufferkit.beliefs.provenance import owed
from pufferkit.cli import inputs, outputs, terminal, usefulness_output
from pufferkit.cli.asked_questions import AskOption, asked, joint, questions_of
from pufferkit.cli.flags import Text, option, refuse_given
from pufferkit.cli.inputs import Book, Form, Rows, with_options
from pufferkit.cli.question_options import QuestionOptions
from pufferkit.mechanisms.explain import meaning
from pufferkit.mechanisms.usefulness import warn_if_drowned
from pufferkit.shown import Statement

if TYPE_CHECKING:
    from pufferkit import Releases

_STDOUT = "stdout.csv"
_RULES = {"day": "1d", "week": "7d", "month": "month", "year": "year"}


@dataclass(frozen=True)
class Output:
    """Destination and format of an answer."""

    section: ClassVar[str] = "Output"

    out: inputs.Out = None
    plot: inputs.Plot = None
    report: inputs.Report = None
    anyway: inputs.Anyway = False
    as_json: inputs.AsJson = False

    @property
    def file(self) -> Path | None:
        """The file given; ``None`` for stdout."""
        return outputs.on_disk(self.out)


@dataclass(frozen=True)
class Task:
    """What is released: the data, the beliefs, the question and the price."""

    files: inputs.Files
    model: inputs.Model
    state: inputs.State
    rows: Rows
    form: Form
    question: QuestionOptions
    book: Book
    output: Output
    epsilon: inputs.MaybeEpsilon = None
    ask: AskOption = None
    mechanism: inputs.Mechanism = None
    subject: inputs.Subject = None
    per: Annotated[
        Text,
        option("With --subject: an answer per subject, per all, or per group of a column.", "COL"),
    ] = None
    keys: Annotated[Text, option("With groups: all that are possible.", "A,B")] = None
    entry: inputs.Entry = None
    window: Annotated[
        Text, option("A row for each window; or a period, 2026-09; or FROM,TO.", "7d|PERIOD")
    ] = None
    job: inputs.Job = None

    @property
    def named(self) -> list[Path]:
        """The files that paths and patterns name."""
        return inputs.files_of(self.files)

    @property
    def of_many(self) -> bool:
        """Whether the data are those of several subjects."""
        several = len(self.named) > 1 or inputs.is_wide(self.state)
        return self.subject is not None or self.per is not None or several

    @property
    def period(self) -> Any:
        """The period of ``--window``, if it is one."""
        return inputs.period_of(self.window)

    @property
    def price(self) -> float:
        """The epsilon, which must be given but for several questions with errors."""
        if self.epsilon is None:
            raise ValueError("--epsilon: the privacy loss must be given")
        return self.epsilon


@with_options
def release(task: Task) -> None:
    """Answer a question with noise: about one series, or for each subject of a table.

    Without a ledger every run draws new noise and spends epsilon. With one, the release is charged
    before it is shown, and asking again gives the same answer at no cost. The first release creates
    the ledger; a refused release writes nothing.

    A row without a state is an unobserved entry; with --time, so is every step of the clock without
    a row. The series continues across them, unless --independent-after declares otherwise.

    --window 7d gives a row for each week, and a table in place of JSON; a period, 2026-09-15, or
    two ends are these entries alone, which an account pays for.

    With --subject, several files or columns there is a row for each subject, paid by an account of
    its own; --per all is one answer about all of them, and --per COL one for each group of --keys,
    at the price of one release. An interrupted run continues when it is started again.

    --ask NAME=ERROR asks several questions at once, at the least epsilon that meets the errors.
    """
    rule = _RULES.get(task.window or "", task.window) if task.period is None else None
    if task.ask:
        _several(task, rule)
    elif task.of_many or (rule is not None and rule not in ("month", "year")):
        _table(task, rule)
    else:
        _one(task, rule)


# -- one series ---------------------------------------------------------------------------------


def _one(task: Task, rule: str | None) -> None:
    book, output, question = task.book, task.output, task.question
    out, plot, report = output.file, output.plot, output.report
    book.check(needs_account=True)
    if (task.period is not None or rule is not None) and book.ledger is None:
        raise ValueError("--window: a part of the series needs an account, with --ledger")
    if task.keys is not None:
        raise ValueError("--keys: are those of groups; give --subject and --per")
    if rule is not None and report is not None:
        raise ValueError(f"--report: is for one release, not --window {rule}")
    mechanism = inputs.known_mechanism(task.mechanism)
    outputs.check_outputs([out, report], [*task.named, task.model], plot)
    beliefs = inputs.read_model(task.model)
    series = inputs.read_data(
        task.named[0], task.state, task.rows, task.form, beliefs.states, beliefs, task.entry
    )
    part = series if task.period is None else in_period(series, task.period)
    about = asked(question, beliefs, part, task.price)
    query = about.query
    if mechanism == "entry_dp":
        terminal.warn("entry_dp does not hide entries that others predict; it is a baseline only")
    usefulness_output.question(task.price)
    # With a ledger the account calibrates, if this was not released before.
    made = inputs.calibrated if book.ledger is None else usefulness_output.soon
    calibration = made(mechanism, beliefs, query, task.price)
    if book.ledger is None or owed(beliefs.sources) is None:  # else the account charges it
        calibration.checked(part)
    with usefulness_output.guarded(beliefs, output.anyway), book.payer() as payer:
        if payer is None:
            warn_if_drowned(calibration, beliefs, anyway=False)
            answer: Any = calibration.release(series, anyway=True)
        else:
            answer = pk.release(
                series,
                beliefs,
                question.named(beliefs.states) if rule is not None else query,
                task.price,
                account=payer,
                mechanism=mechanism or "best",
                window=rule or task.period,
                label=book.label,
            )
    if rule is not None:
        each = {name: _with_source(one.to_json(), task, series) for name, one in answer.items()}
        record = {name: json.loads(text) for name, text in each.items()}
        if answer.left_out:
            terminal.note(f"covered in part, and left out: {', '.join(answer.left_out)}")
        shown = [[Statement("head", n), *one.statements()] for n, one in answer.items()]
        _handed(output, json.dumps(record, indent=2), shown, outputs.figure(plot, answer))
        return
    text, pages = _with_source(about.record(answer), task, series), {}
    means = meaning(calibration)
    if plot is not None:
        pages[plot] = about.picture(answer, plot)
    if report is not None:
        pages[report] = about.report(answer, beliefs, means, text + "\n")
    _handed(output, text, about.shown(answer), pages, means)


def _handed(
    output: Output,
    record: str,
    shown: Sequence[Any],
    pages: Mapping[Path, bytes] | None = None,
    means: Sequence[str] = (),
) -> None:
    """Write the record and what else was asked for; print the record, or what it says."""
    out = output.file
    written = {**({} if out is None else {out: f"{record}\n".encode()}), **(pages or {})}
    outputs.write_all(written)
    for one in [record] if out is None or output.as_json else shown:
        terminal.say(one)
    terminal.summary("\n".join(means))
    terminal.written(written)


def _with_source(record: str, task: Task, series: pk.Series) -> str:
    """The record with how the data were read: what was resolved of options, job and file."""
    from pufferkit.data.durations import of_seconds  # noqa: PLC0415

    given = {**vars(task.form), **vars(task.rows), "entry": task.entry, "window": task.window}
    source: dict[str, Any] = {"file": task.named[0].name, "state": task.state}
    source |= {
        name: own.name if isinstance(own, Path) else own
        for name, own in given.items()
        if own is not None and own != "refuse"
    }
    if series.step is not None:
        source["every"] = of_seconds(series.step)
    if series.calendar is not None and series.calendar.timezone is not None:
        source["timezone"] = series.calendar.timezone
    source |= {"read_as": list(series.read_as)} if series.read_as else {}
    return json.dumps({**json.loads(record), "read_from": source}, indent=2)


# -- several questions --------------------------------------------------------------------------


def _several(task: Task, rule: str | None) -> None:
    """A joint release of several questions."""
    refuse_given([task.question], "is the one question; with --ask leave it out", *_of_all(task))
    if task.mechanism is not None or task.entry is not None:
        raise ValueError("--ask: takes no --mechanism and no --entry")
    if task.of_many:
        _several_of_table(task, rule)
        return
    if task.window is not None or task.output.report is not None or task.keys is not None:
        raise ValueError("--ask: of one series takes no --window, --report or --keys")
    book, output = task.book, task.output
    book.check(needs_account=True)
    outputs.check_outputs([output.file], [*task.named, task.model], output.plot)
    beliefs = inputs.chains(task.model)
    series = inputs.read_data(task.named[0], task.state, task.rows, task.form, beliefs.states)
    parts = joint(task.ask or (), task.question, beliefs, series, task.epsilon)
    terminal.summary(parts.plan)
    with book.payer() as payer:
        if payer is None:
            answer: pk.Release = parts.plan.calibration.release(series, anyway=True)
        else:
            answer = pk.release(
                series, beliefs, parts.asked, task.epsilon, account=payer, label=book.label
            )
    record = _with_source(parts.record(answer), task, series)
    _handed(output, record, parts.shown(answer), outputs.figure(output.plot, answer))


def _several_of_table(task: Task, rule: str | None) -> None:
    """A joint release of several questions about many subjects: a table for each of them."""
    output = task.output
    if output.file is None or output.plot is not None or output.report is not None:
        raise ValueError(
            "--ask: of many subjects writes a table for each question beside --out, and takes no "
            "--plot or --report; ask one question for these"
        )
    beliefs = inputs.chains(task.model)
    written_as = questions_of(task.ask or (), task.question, beliefs.states)
    asked = {name: (one.in_numbers(), error) for name, (one, error) in written_as.items()}
    names = {name: re.sub(r"[^\w.-]+", "-", name) for name in asked}
    files = {
        name: output.file.with_stem(f"{output.file.stem}-{own}") for name, own in names.items()
    }
    if len(set(files.values())) < len(files):
        raise ValueError(f"--ask: {', '.join(asked)} would be written to the same files")
    releases = _paid(task, beliefs, asked, task.epsilon, list(files.values()), rule)
    written: dict[Path, bytes] = {}
    for name, out in files.items():
        written |= _table_files(releases[name], out)
    outputs.write_all(written)
    for name, one in releases.items():
        for line in [] if output.as_json else [Statement("head", name), *_said(one)]:
            terminal.say([line])
    if output.as_json:
        terminal.as_json({name: one.to_dict() for name, one in releases.items()})
    terminal.summary(f"epsilon of all together: {releases.epsilon:g}")
    terminal.written([f"{out}, and {_record_of(out)}" for out in files.values()])


def _of_all(task: Task) -> list[str]:
    """The options that the questions of ``--ask`` may share."""
    from pufferkit.cli.question_options import OPTIONS  # noqa: PLC0415

    return [f"--{name.replace('_', '-')}" for name in OPTIONS if name != "state_value"]


# -- many subjects ------------------------------------------------------------------------------


def _table(task: Task, rule: str | None) -> None:
    """One answer for each subject, or each group, and window."""
    output, question = task.output, task.question
    mechanism = inputs.known_mechanism(task.mechanism)
    if mechanism == "entry_dp":
        raise ValueError("--mechanism: entry_dp does not hide entries that others predict")
    beliefs = inputs.chains(task.model)
    usefulness_output.question(task.price)
    about = question.of_many(beliefs.states)
    releases: Releases = _paid(task, beliefs, about, task.price, [output.file], rule)
    content = _table_files(releases, output.file)
    written: dict[Path, bytes] = outputs.figure(output.plot, releases)
    if output.report is not None:
        from pufferkit import plots  # noqa: PLC0415

        means = meaning(next(iter(releases.calibrations.values())))
        page = plots.release_report(releases, beliefs, means, record=releases.to_json())
        written |= {output.report: page.encode()}
    for note in releases.notes:
        terminal.note(note)
    files: list[Any] = list(written)
    if output.file is not None:
        written |= content
        files.insert(0, f"{output.file}, and {_record_of(output.file)} for pufferkit verify")
    outputs.write_all(written)
    if output.as_json:
        terminal.say(releases.to_json())
    elif output.file is None:
        terminal.give(content[Path(_STDOUT)].decode())
    else:
        terminal.say(_said(releases))
    terminal.written(files)


def _paid(
    task: Task,
    beliefs: Any,
    asked: Any,
    epsilon: float | None,
    outs: Sequence[Path | None],
    rule: str | None = None,
) -> Any:
    """The releases about a table, paid by the accounts of its subjects if there is a ledger."""
    form, book, output = task.form, task.book, task.output
    _check_table(task, rule)
    alone = not task.of_many
    book.check(needs_account=alone)
    records = [None if out is None else _record_of(out) for out in outs]
    used = [*task.named, task.model]
    outputs.check_outputs([*outs, *records, output.report], used, output.plot)
    window = task.question.window(None if rule is None else inputs.duration(rule))
    whose = None if inputs.is_wide(task.state) else task.subject or "file"
    grouped = task.per if task.keys is not None else None
    data = inputs.read_table(
        task.named,
        task.state,
        task.rows,
        form,
        beliefs.states,
        whose,
        window,
        of_model=True,
        groups=grouped,
    )
    prefix = book.account or ""
    if alone and book.account is not None:
        data, prefix = replace(data, subjects=(book.account,)), ""
    keys = None if task.keys is None else [key.strip() for key in task.keys.split(",")]
    with (
        usefulness_output.guarded(beliefs, output.anyway),  # what it says comes after the bar
        book.opened() as ledger,
        terminal.bar("releasing") as progress,
    ):
        accounts = None
        if ledger is not None and book.budget is not None:
            accounts = ledger.accounts_for(
                data, prefix, book.budget, confirm_data=book.confirm_data
            )
        releases = pk.release(
            data,
            beliefs,
            asked,
            epsilon,
            account=accounts,
            mechanism=inputs.known_mechanism(task.mechanism) or "best",
            per=task.per or "subject",
            keys=keys,
            window=task.period,
            label=book.label,
            progress=progress,
        )
    terminal.summary(data.report())
    return releases


def _check_table(task: Task, rule: str | None) -> None:
    """Raise if an option would be ignored, or one is missing."""
    from pufferkit.data.write import check_table  # noqa: PLC0415

    output = task.output
    for name, value in {"--segment": task.rows.segment, "--entry": task.entry}.items():
        if value is not None:
            with_what = "many subjects" if task.of_many else "--window"
            raise ValueError(f"{name}: cannot be combined with {with_what}")
    if rule in ("month", "year"):
        raise ValueError(f"--window {rule}: is for one series; of a table give days, like 28d")
    if task.rows.time is None and task.form.every is None:
        raise ValueError(
            "--time: give the column with the times; for rows without times, give the time "
            "between rows with --every 1m"
        )
    grouped = task.per not in (None, "subject", "all")
    if grouped != (task.keys is not None):
        raise ValueError(
            "--per and --keys: groups need both; which groups occur is a fact about the data, so "
            "declare all possible groups"
        )
    if grouped and task.subject is None:
        raise ValueError("--per: a column of groups needs a table of many subjects; give --subject")
    if output.file is not None:
        check_table(output.file)


def _said(releases: Releases) -> list[Statement]:
    """What a table of releases says beside its rows."""
    return [line for line in releases.statements() if line.kind != "warning"]


def _record_of(out: Path) -> Path:
    """The record beside a table, which `verify` reads."""
    return out.with_suffix(".json")


def _table_files(releases: Releases, out: Path | None) -> dict[Path, bytes]:
    """A table and its record."""
    from pufferkit.data.write import write_columns  # noqa: PLC0415

    target = Path(_STDOUT) if out is None else out
    record = {} if out is None else {_record_of(out): releases.to_json().encode() + b"\n"}
    return {target: write_columns(target, releases.columns()), **record}
