"""``pufferkit release-each``: noisy answers for every subject of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import pufferkit as pk
from pufferkit.cli import inputs, outputs, terminal, usefulness_output
from pufferkit.cli.flags import Text, option
from pufferkit.cli.format_options import Form, duration, time_of
from pufferkit.cli.options import ReleaseOptions, with_options

if TYPE_CHECKING:
    from pufferkit import Releases, Table


@dataclass(frozen=True)
class Grouping:
    """Rows for groups of subjects instead of single subjects."""

    group_by: Annotated[Text, option("One row for each group; column with the group.", "COL")] = (
        None
    )
    keys: Annotated[Text, option("With --group-by: all possible groups.", "A,B")] = None

    def check(self, subject: str | None) -> None:
        """Raise unless groups come with their keys and a column of subjects."""
        if (self.group_by is None) != (self.keys is None):
            raise ValueError(
                "--group-by and --keys: must be given together; which groups occur is a fact about "
                "the data, so declare all possible groups"
            )
        if self.group_by is not None and subject is None:
            raise ValueError("--group-by: needs a table of many subjects; give --subject")

    def of(self, source: Any, subject: str | None, form: Form, data: Table) -> dict[str, Any]:
        """The arguments of `release_all`; none without groups."""
        if self.group_by is None or self.keys is None or subject is None:
            return {}
        from pufferkit.data.files import opened  # noqa: PLC0415
        from pufferkit.data.read import groups_of  # noqa: PLC0415

        pairs = groups_of(opened(source, form.text).lazy, subject=subject, group=self.group_by)
        by_name = {str(who): str(group) for who, group in pairs.items()}
        members = {who: by_name[str(who)] for who in data.subjects if str(who) in by_name}
        return {"groups": members, "keys": [key.strip() for key in self.keys.split(",")]}


@with_options
def release_each(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...", help="The table: text or Parquet. Several files: one subject each."
        ),
    ],
    options: ReleaseOptions,
    grouping: Grouping,
    subject: Annotated[Text, option("Column with the subject of each row.", "COL")] = None,
    account: Annotated[
        Text, option("With --ledger: prefix of each subject's account.", "NAME")
    ] = None,
) -> None:
    """Answer one query with noise for each subject of a table.

    The rows may be in any order. The answer is a table with a row for each subject, or for each
    subject and window. Every subject has an account, and an interrupted run continues when it is
    started again with the same ledger and label.

    With --group-by there is a row for each group of subjects, at the price of one release: no
    subject is in two groups, and its group is assumed to be public.

    For one series, see release.
    """
    if subject is None and len(inputs.files_of(files)) == 1:
        raise ValueError(
            "--subject: give the column with the subject of each row; for one subject, see release"
        )
    options.check()
    release_table(files, subject, options, account, grouping)


def release_table(
    files: Sequence[Path],
    subject: str | None,
    options: ReleaseOptions,
    account: str | None,
    grouping: Grouping | None = None,
) -> None:
    """One answer for each subject and window; without a column of subjects, for the only one.

    With ``grouping``, one for each group and window.
    """
    from pufferkit.data.files import check_parquet  # noqa: PLC0415

    noise, question, reading = options.noise, options.question, options.reading
    form, book, output = options.form, options.book, options.output
    grouping = grouping or Grouping()
    grouping.check(subject)
    every, start, period = duration(form.every), form.begins, reading.period
    if reading.time is None and every is None:
        raise ValueError(
            "--time: give the column with the times; for rows without times, give the time "
            "between rows with --every 1m"
        )
    named = inputs.files_of(files)
    alone = subject is None and len(named) == 1
    book.check(account, needs_account=alone)
    mechanism, out = noise.known_mechanism, output.file
    if mechanism == "entry_dp":
        raise ValueError("--mechanism: entry_dp does not hide entries that others predict")
    if out is not None and out.suffix.lower() not in (".csv", ".parquet"):
        raise ValueError(f"--out: {out} must end in .csv or .parquet")
    record = None if out is None else out.with_suffix(".json")
    outputs.check_outputs([out, record], [*named, noise.model], output.plot)
    beliefs = inputs.chains(noise.model)
    for file in named:
        check_parquet(file)
    source = named[0] if len(named) == 1 else named
    data: Any = pk.read(
        source,
        subject=subject or "file",
        time=time_of(reading.time),
        state=reading.state,
        states=beliefs.states,
        bins=form.bins(source, reading.state, beliefs.states),
        independent_after=duration(reading.after),
        every=every,
        start=start,
        window=question.window(None if period is not None else duration(reading.window)),
        text=form.text,
        **form.clock,
    )
    prefix = account or ""
    if alone and account is not None:
        data, prefix = replace(data, subjects=(account,)), ""
    usefulness_output.question(noise.epsilon)
    groups = grouping.of(source, subject, form, data)
    with (
        book.opened() as ledger,
        terminal.bar("releasing") as progress,
        usefulness_output.guarded(beliefs, output.anyway),
    ):
        accounts = None
        if ledger is not None and book.budget is not None:
            accounts = ledger.accounts_for(data, prefix, book.budget, data_meant=book.data_meant)
        releases: Releases = pk.release(
            data,
            beliefs,
            question.of_many(beliefs.states),
            noise.epsilon,
            account=accounts,
            mechanism=mechanism or "best",
            per=groups["groups"] if groups else "subject",
            keys=groups.get("keys"),
            window=period,
            label=book.label,
            progress=progress,
        )
    terminal.summary(data.report())
    releases = releases.as_drawn() if noise.as_drawn else releases
    _give(releases, out, record, output.plot, output.as_json)


def _give(
    releases: Releases, out: Path | None, record: Path | None, plot: Path | None, as_json: bool
) -> None:
    """Write the table, its record and the figure, and print the promise."""
    from pufferkit.data.write import write_columns  # noqa: PLC0415

    content = write_columns(out or Path("stdout.csv"), releases.columns())
    for note in releases.notes:
        terminal.note(note)
    written = {}
    if plot is not None:
        from pufferkit import plots  # noqa: PLC0415

        written[plot] = plots.picture(plots.figure_of(releases), plot)
    files: list[Any] = list(written)
    if out is not None and record is not None:
        written |= {out: content, record: releases.to_json().encode() + b"\n"}
        files.insert(0, f"{out}, and {record} for pufferkit verify")
    outputs.write_all(written)
    if as_json:
        terminal.say(releases.to_json())
    elif out is None:
        terminal.give(content.decode())
    else:
        words = f"{releases.guarantee}: epsilon {releases.epsilon:g} for all rows of a subject"
        terminal.say(words)
    terminal.written(files)
