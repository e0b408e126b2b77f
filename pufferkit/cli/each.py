"""``pufferkit release --each COL``: a table in, a table of noisy histograms out."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import pufferkit as pk
from pufferkit.cli import book as books
from pufferkit.cli import inputs, outputs, terminal

if TYPE_CHECKING:
    from pufferkit import Releases
    from pufferkit.data.table import Table

Each = Annotated[
    str | None,
    typer.Option("--each", metavar="COL", help="One release for each subject in this column."),
]
Window = Annotated[
    str | None,
    typer.Option("--window", metavar="7d", help="A row for each window of time."),
]
MaxGap = Annotated[
    str | None,
    typer.Option("--max-gap", hidden=True, help="Older: --independent-after, read as a table."),
]
Every = Annotated[
    str | None,
    typer.Option("--every", metavar="5m", help="Put the entries on a grid."),
]
Cuts = Annotated[
    str | None,
    typer.Option("--cuts", metavar="100,760", help="Numbers as states, cut here."),
]


@dataclass(frozen=True)
class TableOptions:
    """How a table is read; ``each`` is the column of subjects."""

    each: str | None
    window: str | None
    max_gap: str | None
    every: str | None
    cuts: str | None
    independent_after: str | None = None

    @property
    def given(self) -> bool:
        """Whether the file is to be read as a table: of many subjects, or of one."""
        own = [value for name, value in self._named.items() if name != "independent_after"]
        return any(value is not None for value in own)

    @property
    def after(self) -> str | None:
        """The time after which rows are declared independent, by either name."""
        if self.max_gap is not None and self.independent_after is not None:
            raise ValueError("--max-gap: is an older name of --independent-after; give one of them")
        return self.max_gap or self.independent_after

    @property
    def _named(self) -> dict[str, str | None]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def option(self) -> str:
        """The first of them that was given, as the user wrote it."""
        given = (name for name, value in self._named.items() if value is not None)
        return "--" + next(given).replace("_", "-")


def refuse_others(table: TableOptions, given: Mapping[str, Any]) -> None:
    """Options that are about one series."""
    for option, value in given.items():
        if value is not None:
            raise ValueError(f"{option}: does not go with {table.option}")


@dataclass(frozen=True)
class Asked:
    """What is released, and where it goes."""

    epsilon: float
    state: str
    time: str | None
    query: inputs.QueryName
    mechanism: str | None
    proper: bool
    out: Path | None
    book: books.Book
    account: str | None
    label: str


def release_table(file: Path, model: Path, table: TableOptions, asked: Asked) -> None:
    """Release one histogram for each subject, or for each subject and window."""
    from pufferkit.frames import read_table, write_columns  # noqa: PLC0415

    if asked.time is None:
        raise ValueError(f"--time: with {table.option}, name the column that holds the times")
    if asked.query not in (inputs.QueryName.HISTOGRAM, inputs.QueryName.FREQUENCIES):
        raise ValueError(f"--query: with {table.option} it is histogram or frequencies")
    book = asked.book
    if (book.ledger is None) != (book.budget is None):
        raise ValueError("--ledger and --budget: go together; give both or none")
    if asked.account is not None and book.ledger is None:
        raise ValueError("--account: goes before each subject's name in a ledger; give --ledger")
    if table.each is None and (asked.account is None) != (book.ledger is None):
        raise ValueError("--ledger, --budget and --account: go together; give all three or none")
    if asked.mechanism == "entry_dp":
        raise ValueError("--mechanism: entry_dp does not hide entries that others predict")
    if asked.out is not None and asked.out.suffix.lower() not in (".csv", ".parquet"):
        raise ValueError(f"--out: {asked.out} must end in .csv or .parquet")
    record = None if asked.out is None else asked.out.with_suffix(".json")
    outputs.check_outputs([asked.out, record], [file, model])
    beliefs = inputs.chains(model)
    data: Any = read_table(
        file,
        subject=table.each,
        time=asked.time,
        state=asked.state,
        states=beliefs.states,
        bins=cut_points(table.cuts),
        independent_after=inputs.duration(table.after),
        every=inputs.duration(table.every),
        window=inputs.duration(table.window),
    )
    prefix = asked.account or ""
    if table.each is None and asked.account is not None:
        data, prefix = replace(data, subjects=(asked.account,)), ""
    with book.opened() as opened, terminal.bar("releasing") as progress:
        found: Releases = pk.release_each(
            data,
            beliefs,
            asked.epsilon,
            query=asked.query.value,
            mechanism=asked.mechanism or "influence_curve",
            ledger=opened,
            budget=book.budget,
            data_meant=book.data_meant,
            label=asked.label,
            prefix=prefix,
            progress=progress,
        )
    terminal.say(data.report(), err=True)
    found = found.as_histogram() if asked.proper else found
    content = write_columns(asked.out or Path("stdout.csv"), found.columns())
    for note in found.notes:
        terminal.say(f"note: {note}", err=True)
    if asked.out is None or record is None:
        terminal.give(content.decode())
        return
    outputs.write_all({asked.out: content, record: found.to_json().encode() + b"\n"})
    terminal.say(f"{found.guarantee}: epsilon {found.epsilon:g} for all rows of a subject")
    terminal.say(f"written: {asked.out}, and {record} for pufferkit verify", err=True)


def counted(
    file: Path,
    state: str,
    time: str | None,
    subject: str | None,
    states: Sequence[Hashable] | None,
    independent_after: str | None,
    cuts: str | None,
) -> Table:
    """The table in a file, its bins named in words unless names are given."""
    from pufferkit.frames import read_table  # noqa: PLC0415

    if time is None:
        given = "--independent-after" if cuts is None else "--cuts"
        raise ValueError(f"--time: with {given}, name the column that holds the times")
    points = cut_points(cuts)
    bins = None if points is None else pk.Bins(points)
    names = bins.names if states is None and bins is not None else states
    found: Any = read_table(
        file,
        subject=subject,
        time=time,
        state=state,
        states=names,
        bins=bins,
        independent_after=inputs.duration(independent_after),
    )
    table: Table = found
    return table


def cut_points(text: str | None) -> list[float] | None:
    """Numbers with commas between them."""
    if text is None:
        return None
    found = []
    for cut in text.split(","):
        try:
            found.append(terminal.number(cut.strip()))
        except typer.BadParameter:
            raise ValueError(f"--cuts: {cut!r} is not a number") from None
    return found
